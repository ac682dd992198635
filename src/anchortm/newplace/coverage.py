"""How many rows of each place lie in their sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Array, Axis
from anchortm._util.frames import name_of
from anchortm._util.html import report
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import groups_of
from anchortm.inputs.response import as_response
from anchortm.newplace.conformal_fits import Calibration
from anchortm.newplace.conformal_scores import Promise, known_to_reach, scores_of
from anchortm.predict.observed import environments_of
from anchortm.scores.outcomes import known_rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PlaceCoverage", "of_calibration", "of_new_places"]

SETS = {"interval": "intervals", "lower": "lower bounds"}

BARELY = 1e-10  # a share of rows that is short by rounding has reached its level


@dataclass(frozen=True, eq=False)
class PlaceCoverage:
    """Which share of the rows of each place lies in its conformal sets, and in the model's own intervals.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    level : float
        Share of rows that the sets should cover.
    sets : str
        What the sets are: "intervals" or "lower bounds".
    calibration : bool
        Whether these are the places that set the threshold of the sets. Their coverage is then not a test of it.
    environment_name : str or None
        What the places are called.

    See Also
    --------
    anchortm.ConformalPredictor.coverage_by_place : computes it
    anchortm.plotting.coverage : draws it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> predictor = atm.ConformalPredictor(atm.ContinuousProbit()).fit("cmedv ~ rm + lstat | town", data)
    >>> found = predictor.coverage_by_place()
    >>> found
    Coverage of 90 % intervals in 46 places (town)
                         mean  worst  reached
    conformal intervals 0.922  0.077    0.826
    the model alone     0.845  0.000    0.717
    These places set the threshold: pass rows of other places to test it.
    >>> found.frame().head(3).round(2)
      environment  n  coverage  model
    0     Bedford  2       1.0   1.00
    1     Belmont  8       1.0   0.62
    2     Beverly  6       1.0   1.00
    """

    rows: list[dict[str, Any]]
    level: float
    sets: str
    calibration: bool = True
    environment_name: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return one row for each place.

        Returns
        -------
        DataFrame
            ``n``, the number of rows (or their total weight); ``coverage``, the share of them in their sets;
            ``model``, the share in intervals of the same level that the model predicts by itself. For new places also
            ``width``, the median width of the sets (of classes, the number of steps between the ends).
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def table(self) -> pd.DataFrame:
        """Return one row for the sets and one for the model's own intervals.

        Returns
        -------
        DataFrame
            ``mean`` and ``worst`` of the coverage over places, and ``reached``, the share of places in which a share
            ``level`` of the rows is covered.
        """
        import pandas as pd

        frame = self.frame()
        found = {
            name: {
                "mean": frame[column].mean(),
                "worst": frame[column].min(),
                "reached": (frame[column] >= self.level - BARELY).mean(),
            }
            for name, column in ((f"conformal {self.sets}", "coverage"), ("the model alone", "model"))
        }
        return pd.DataFrame.from_dict(found, orient="index")

    def _title(self) -> str:
        name = f" ({self.environment_name})" if self.environment_name else ""
        return f"Coverage of {100 * self.level:g} % {self.sets} in {len(self.rows)} places{name}"

    def _remark(self) -> str:
        return "These places set the threshold: pass rows of other places to test it." if self.calibration else ""

    @shown
    def __repr__(self) -> str:
        table = self.table().to_string(float_format=lambda value: f"{value:.3f}")
        return "\n".join(part for part in (self._title(), table, self._remark()) if part)

    def _repr_html_(self) -> str:
        return report(self._title(), self.table(), self._remark())

    def plot(self, ax: Axis = None, *, label: int = 3) -> Any:
        """Draw the coverage of each place, and the level.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        label : int
            How many places to name if they are many: those with the least coverage.

        Returns
        -------
        matplotlib axes
        """
        return plotting.coverage(self.frame(), self.level, ax, label=label, sets=self.sets)


def of_calibration(found: Calibration, promise: Promise, sets: str | None) -> PlaceCoverage:
    """Return the coverage of the places that were scored, each by a fit that has not seen it."""
    both, name = _kind(found, sets)
    scores = found.scores(both)
    covered = {
        "coverage": scores <= promise.threshold(scores, found.codes, found.weights),
        "model": scores <= -math.log1p(-promise.level),
    }
    rows = _by_place(found.places, found.codes, found.weights, None, **covered)
    return PlaceCoverage(rows, promise.level, name, True, found.name)


def of_new_places(
    found: Calibration,
    promise: Promise,
    sets: str | None,
    X: Any,
    y: Any,
    environments: Any,
    offset: Any,
    ends: Callable[..., tuple[Array, Array]],
) -> PlaceCoverage:
    """Return the coverage of rows of new places; ``ends`` makes their sets."""
    both, name = _kind(found, sets)
    places = environments_of(found.model, X, y, environments, needed=True)
    codes, labels = groups_of(places)
    scale: Any = found.scale if found.scale in ("ordinal", "count") else "continuous"
    response = as_response(found.model.formula_.outcome(X) if y is None else y, scale, found.levels)
    if both and not known_rows(response).all():
        raise InputError("some of these outcomes are censored: only sets='lower' is available for them")
    options = {"offset": offset, "trials": response.trials}
    lower, upper = ends(X, both, **options, on_bad_rows="error", unknown="error")
    if not lower.size == codes.size == len(response):
        raise InputError(f"X, y and environments have {lower.size}, {len(response)} and {codes.size} rows")
    reached = known_to_reach(response)
    law = found.model.predict_distribution(X, **{k: values for k, values in options.items() if values is not None})
    numbers = reached if found.levels is None else response.codes
    covered = {
        "coverage": (lower <= numbers) & (numbers <= upper),
        "model": scores_of(law, reached)[0 if both else 1] <= -math.log1p(-promise.level),
    }
    rows = _by_place(labels, codes, np.ones(codes.size), upper - lower if both else None, **covered)
    return PlaceCoverage(rows, promise.level, name, False, name_of(places))


def _kind(found: Calibration, sets: str | None) -> tuple[bool, str]:
    """Return whether sets have both ends, and what they are called; refuse two ends of censored outcomes."""
    sets = ("lower" if found.censored else "interval") if sets is None else sets
    if sets not in SETS:
        raise InputError(f"sets must be 'interval' or 'lower', not {sets!r}")
    if sets == "interval" and found.censored:
        raise InputError(f"{found.censored} outcomes are censored: only sets='lower' is available")
    return sets == "interval", SETS[sets]


def _by_place(
    labels: NDArray[Any], codes: NDArray[np.intp], weights: Array, width: Array | None, **covered: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Return a row for each place: the weighted share of rows of each kind of sets, and the median width."""
    rows = []
    for e, label in enumerate(labels.tolist()):
        own = codes == e
        total = float(weights[own].sum())
        row = {"environment": label, "n": int(total) if total.is_integer() else total}
        row |= {name: float(np.average(hit[own], weights=weights[own])) for name, hit in covered.items()}
        rows.append(row if width is None else row | {"width": float(np.median(width[own]))})
    return rows
