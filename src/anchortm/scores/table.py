"""Tables of all scores of a fitted model, together and by environment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Array, Axis, Covariates, Labels, Numbers, Outcome, Place, Seed
from anchortm._util.checks import level_between
from anchortm._util.frames import aligned, name_of, native, take
from anchortm._util.html import report
from anchortm._util.pipelines import model_of
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import groups_of
from anchortm.inputs.response import Kind, Response, as_response
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.observed import environments_of, rows_of_table
from anchortm.predict.placed_rows import check_place
from anchortm.scores.calibration import pit
from anchortm.scores.outcomes import check_predicted, known_rows, known_values
from anchortm.scores.proper import crps_of_values, nll_quantiles
from anchortm.scores.survival import brier_rows, concordance

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ScoreTable", "crps_of_rows", "score_table", "transforms"]

ALL = "(all)"


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of predicted distributions, of all rows and by environment.

    Attributes
    ----------
    table : DataFrame
        Scores of all rows and of each environment, as ``frame`` returns them.
    rows : DataFrame
        Environment and scores of each row.
    level : float
        Probability of the intervals whose coverage is reported.
    environment_name : str or None
        What the column of environments is called.

    See Also
    --------
    anchortm.scores.score_table : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> scores = atm.scores.score_table(model, data, environments="temp")
    >>> scores.frame()[["environment", "n", "nll", "crps"]].round(3)
      environment   n    nll   crps
    0       (all)  72  1.204  0.439
    1        cold  36  1.132  0.389
    2        warm  36  1.276  0.490
    >>> scores.quantiles([0.5, 1.0]).head(2).round(3)
      environment  alpha    nll
    0       (all)    0.5  1.089
    1       (all)    1.0  2.780
    """

    table: pd.DataFrame
    rows: pd.DataFrame
    level: float
    environment_name: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return one row for all rows together and one for each environment."""
        return self.table

    def quantiles(self, alpha: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)) -> pd.DataFrame:
        """Return quantiles of the rows' nll: one row for each environment (and all) and each alpha."""
        import pandas as pd

        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        found = [(ALL, self.rows["nll"]), *self.rows.groupby("environment")["nll"]]
        return pd.DataFrame(
            [
                {"environment": name, "alpha": a, "nll": value}
                for name, nll in found
                for a, value in zip(levels.tolist(), nll_quantiles(nll, levels).tolist(), strict=True)
            ]
        )

    def plot(self, ax: Axis = None, label: int = 3) -> Axes:
        """Draw the distribution of the probability integral transforms by environment and return the axes."""
        return plotting.calibration(self.rows, ax, label=label, name=self.environment_name)

    @shown
    def __repr__(self) -> str:
        return f"{self._title()}\n{self.table.to_string(index=False, float_format=lambda v: f'{v:.4g}')}"

    def _repr_html_(self) -> str:
        return report(self._title(), self.table)

    def _title(self) -> str:
        by = f" by environment ({self.environment_name})" if self.environment_name else ""
        return f"Scores{by}, coverage of {self.level:.0%} intervals"


def score_table(
    model: Any,
    X: Covariates | str,
    y: Outcome | AnyTable | None = None,
    environments: Labels | None = None,
    *,
    offset: Numbers | None = None,
    level: float = 0.9,
    times: Sequence[float] | None = None,
    random_state: Seed = 0,
    place: Place = "average",
) -> ScoreTable:
    """Return the scores of a fitted model on these rows, together and by environment.

    Columns: n; ``nll``, the mean negative log-likelihood; ``crps`` (where all rows are exact); ``coverage`` of the
    central intervals with probability ``level``; and ``pit``, the mean probability integral transform (1/2 if
    calibrated). Coverage and pit use transforms that are drawn at random in censored and discrete rows, so that
    calibrated predictions reach their level. Survival times also have ``concordance`` and ``brier_<t>`` at ``times``
    (by default the median event time), with the censoring distribution of all rows.

    Rows with delayed entry are scored given that they entered; concordance and Brier score are then missing. With
    random effects, a cluster whose rows lie in several environments counts as one cluster in each, also in the row of
    all environments.

    Parameters
    ----------
    model : fitted model
    X, y, offset
        As for ``nll``: after a fit by a formula, X may be a table that holds the outcome, and the offset a column name.
    environments : array or column name, optional
        One label for each row. By default the anchor of the formula, if y comes from the table and the table has it.
    level : float
        Probability of the intervals whose coverage is reported.
    times : sequence of float, optional
        Times of the Brier score.
    random_state : int, Generator or None
        Seed of the draws.
    place : {"average", "new"}
        Whether predictions are those for an average place of the fit or for a new one, as for
        ``predict_distribution``.

    See Also
    --------
    anchortm.scores.ScoreTable : the result

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.scores.score_table(model, data, environments="temp")
    Scores by environment (temp), coverage of 90% intervals
    environment  n   nll   crps  coverage    pit
          (all) 72 1.204 0.4394    0.9722 0.4984
           cold 36 1.132 0.3889    0.9722 0.4925
           warm 36 1.276 0.4899    0.9722 0.5042
    """
    import pandas as pd

    level_between(level)
    model = model_of(model)
    X, y = rows_of_table(model, X, y)
    environments = environments_of(model, X, y, environments)
    at = _at(place)
    response, distribution, codes, names = _observed(model, X, y, environments, offset, at)
    n = len(response)
    u = pit(distribution, response, random_state)
    rows = pd.DataFrame({"environment": names[codes], "nll": _nll(model, X, response, offset, codes, at)})
    rows["crps"], rows["pit"], rows["coverage"] = (
        crps_of_rows(distribution, response),
        u,
        np.abs(u - 0.5) <= 0.5 * level,
    )
    survival = response.scale == "time" and set(response.kind.tolist()) <= {Kind.EXACT, Kind.RIGHT}
    brier_names: list[str] = []
    if survival:
        event = response.kind == Kind.EXACT
        if times is None:
            times = [float(np.median(response.upper[event]))] if event.any() else []
        brier_names = [f"brier_{t:g}" for t in times]
        known = not response.truncated.any()  # neither score supports delayed entry
        grid, seen = np.asarray(times, dtype=np.float64), (np.where(event, response.upper, response.lower), event)
        rows[brier_names] = brier_rows(distribution.sf(grid), *seen, grid, *seen) if known else math.nan
    columns = ["nll", "crps", "coverage", "pit", *brier_names]
    groups = [(ALL, np.arange(n))]
    if environments is not None:
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(names.size + 1))
        groups += [(name, order[a:b]) for name, a, b in zip(names.tolist(), ends[:-1], ends[1:], strict=True)]
    values = rows[columns].to_numpy(dtype=np.float64)
    table = pd.DataFrame([values[part].mean(axis=0) for _, part in groups], columns=columns)
    table.insert(0, "environment", [name for name, _ in groups])
    table.insert(1, "n", [part.size for _, part in groups])
    if survival:
        table.insert(
            6,
            "concordance",
            [
                _concordance_or_nan(distribution.transformation.moved[part], response[part]) if known else math.nan
                for _, part in groups
            ],
        )
    return ScoreTable(table, rows, level, name_of(environments))


def transforms(
    model: Any,
    X: Covariates | str,
    y: Outcome | AnyTable | None = None,
    environments: Labels | None = None,
    offset: Numbers | None = None,
    random_state: Seed = 0,
    place: Place = "average",
) -> pd.DataFrame:
    """Return environment and probability integral transform of each row; arguments as for ``score_table``.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.scores.transforms(model, data).columns.tolist()
    ['environment', 'pit']
    """
    import pandas as pd

    at = _at(place)
    model = model_of(model)
    X, y = rows_of_table(model, X, y)
    environments = environments_of(model, X, y, environments)
    response, distribution, codes, names = _observed(model, X, y, environments, offset, at)
    return pd.DataFrame({"environment": names[codes], "pit": pit(distribution, response, random_state)})


def _at(place: Place) -> dict[str, Any]:
    """Return the argument of predictions for rows of a new place; others may not have it."""
    return {"place": place} if check_place(place) else {}


def _observed(
    model: Any, X: Any, y: Any, environments: Labels | None, offset: Numbers | None, at: Mapping[str, Any]
) -> tuple[Response, PredictedDistribution, NDArray[np.intp], NDArray[Any]]:
    """Return outcomes, predictions, and codes and names of the environments (a single one if None)."""
    check_is_fitted(model, "coef_")
    aligned(X=X, y=y, environments=environments, offset=offset)
    levels = model.basis_.levels
    y = model.formula_.outcome(X) if y is None else y
    response = as_response(
        np.ravel(y) if isinstance(y, np.ndarray) and y.ndim == 2 else y, model.new_rows_.spec.outcome, levels
    )
    n = len(response)
    codes, names = (np.zeros(n, dtype=np.intp), np.array([ALL])) if environments is None else groups_of(environments)
    if codes.size != n:
        raise InputError(f"environments has {codes.size} rows, but y has {n}")
    trials = {} if response.trials is None else {"trials": response.trials}
    distribution = model.predict_distribution(X, offset=offset, n_rows=n if X is None else None, **trials, **at)
    check_predicted(distribution)
    if len(distribution) != n:
        raise InputError(f"X has {len(distribution)} rows, but y has {n}")
    return response, distribution, codes, names


def _nll(
    model: Any, X: Any, response: Response, offset: Numbers | None, codes: NDArray[np.intp], at: Mapping[str, Any]
) -> Array:
    """Return the negative log-likelihood of each row; clusters share theirs within each environment."""
    if model.new_rows_.result.random is None:
        return np.asarray(model.nll(X, response, offset=offset, **at))
    X, result = native(X), np.empty(len(response))
    for code in np.unique(codes):
        part = np.flatnonzero(codes == code)
        own = offset if offset is None or np.ndim(offset) == 0 else np.asarray(offset)[part]
        result[part] = model.nll(take(X, part), response[part], offset=own)
    return result


def crps_of_rows(distribution: PredictedDistribution, response: Response) -> Array:
    """Return the CRPS of exact rows, given survival to their entry, and nan for other rows."""
    values = np.full(len(response), math.nan)
    known = known_rows(response)
    if response.exit is not None:
        known &= ~np.isfinite(response.exit)
    late = np.zeros(len(response), dtype=bool) if response.entry is None else response.entry > -np.inf
    if distribution.basis.discrete:
        known &= ~late
    outcome = known_values(response)
    for chosen in (known & ~late, known & late):
        if chosen.any():
            part = distribution[np.flatnonzero(chosen)]
            if response.entry is not None and late[chosen].all():
                part = part.given(after=response.entry[chosen])
            values[chosen] = crps_of_values(part, outcome[chosen])
    return values


def _concordance_or_nan(risk: Array, y: Response) -> float:
    try:
        return concordance(risk, y)
    except InputError:  # no pair can be compared
        return math.nan
