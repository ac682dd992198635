"""Leave one environment out: how well a model predicts an environment that it was not fitted to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm import plotting
from anchortm._messages import shown, warn
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import is_missing, jobs, several_xi
from anchortm._util.frames import column_names, name_of, native, select
from anchortm._util.html import report
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.remarks import tell_alphabetical
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.inputs.missing import Missing, rows_taken
from anchortm.inputs.response import as_response
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import Given, given
from anchortm.models.pipeline import as_pipeline
from anchortm.selection.batches import LeftOut, left_out_in_batches
from anchortm.selection.folds import Grid, folds
from anchortm.selection.path import XIS
from anchortm.selection.piped import folds_of_pipeline

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.models.boosted.estimator import AnchorBoostedTM

MOST_TOLD = 5  # environments with a warning of their own

__all__ = ["LeaveOneEnvironmentOut", "leave_one_environment_out", "left_out"]


@dataclass(frozen=True, eq=False)
class LeaveOneEnvironmentOut:
    """The mean negative log-likelihood of each environment under the fit to all others, for each xi.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    model : str
        Name of the model.
    by : tuple of str
        Names of the penalties that differ between fits: "xi"; "lambda" and "xi"; or "smooth" and "xi".
    n_passes : int or None
        How often the table was read, if it is read in batches.
    n_missing : int
        Number of rows that were dropped because values are missing.
    environment_name : str or None
        What the column of environments is called.
    missing : dict
        How many of these rows each environment had, for those that are known: not for tables that are read in batches,
        and not in searches.

    See Also
    --------
    anchortm.leave_one_environment_out, anchortm.ElasticNetCV, anchortm.SmoothSearchCV : compute it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), formula, data, xis=[0, 3])
    >>> result.frame()[["environment", "xi", "n", "nll"]].head(3).round(3)
       environment   xi  n    nll
    0            1  0.0  8  1.591
    1            1  3.0  8  1.527
    2            2  0.0  8  1.406
    """

    rows: list[dict[str, Any]]
    model: str
    by: tuple[str, ...] = ("xi",)
    n_passes: int | None = None
    n_missing: int = 0
    environment_name: str | None = None
    missing: Mapping[Any, int] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """Return one row for each environment and xi: n, nll, convergence, notes and coefficients.

        Returns
        -------
        DataFrame
            ``n`` is the number of rows (or their total weight), ``nll`` the mean negative log-likelihood. ``notes`` is
            empty, or says without which columns an environment was predicted, or why it was not; its ``nll`` is then
            NaN. Coefficients that the other environments do not identify are NaN.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def summary(self) -> pd.DataFrame:
        """Return the worst, median and mean negative log-likelihood over environments for each xi.

        Environments that could not be predicted do not count.

        Returns
        -------
        DataFrame
            One row for each xi; ``hardest`` names the worst environment.
        """
        frame = self.frame().dropna(subset=["nll"])
        grouped = frame.groupby(list(self.by) if len(self.by) > 1 else self.by[0])
        table = grouped["nll"].agg(worst="max", median="median", mean="mean")
        hardest = frame.loc[grouped["nll"].idxmax().to_numpy(), "environment"].to_numpy()
        return table.assign(hardest=hardest)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the lines below the printed table: columns and rows that were left out, and what was not predicted."""
        first = {row["environment"]: row for row in self.rows}
        without = sum("without " in row["notes"] for row in first.values())
        lost = sum(math.isnan(row["nll"]) for row in first.values())
        found = []
        if without:
            found.append(f"{_of(without, len(first))} predicted without some columns: see notes in frame()")
        if lost:
            found.append(f"{_of(lost, len(first))} not predicted and not counted here: see notes in frame()")
        if self.n_missing:
            rows = "1 row" if self.n_missing == 1 else f"{self.n_missing} rows"
            most = sorted(self.missing.items(), key=lambda item: -item[1])[:MOST_TOLD]
            listed = ", ".join(f"{name}: {n}" for name, n in most) + (", ..." if len(self.missing) > MOST_TOLD else "")
            found.append(f"dropped: {rows} with missing values" + (f" ({listed})" if listed else ""))
        return tuple(found)

    def _title(self) -> str:
        frame = self.frame()
        sizes = [f"{frame[name].nunique()} values of {name}" for name in self.by]
        name = f" ({self.environment_name})" if self.environment_name else ""
        sizes = [f"{frame.environment.nunique()} environments{name}", *sizes]
        return f"LeaveOneEnvironmentOut({self.model}, {', '.join(sizes)})"

    @shown
    def __repr__(self) -> str:
        return "\n".join([self._title(), self.summary().round(4).to_string(), *self.remarks])

    def _repr_html_(self) -> str:
        return report(self._title(), self.summary(), *self.remarks)

    def plot(self, ax: Axis = None, label: int = 3, legend: bool = True) -> Any:
        """Draw the negative log-likelihood of each environment against xi and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        label : int
            How many environments to name: the hardest ones at the first xi.
        legend : bool
            Whether to draw a legend.

        Returns
        -------
        matplotlib axes
        """
        if self.by != ("xi",):
            raise InputError(
                f"this plot is for fits that differ in xi alone, not in {' and '.join(self.by)}: use the plot() of "
                "ElasticNetCV or SmoothSearchCV"
            )
        return plotting.left_out(self, ax, label, legend)


def _of(number: int, total: int) -> str:
    return f"{number} of {total} environments {'was' if number == 1 else 'were'}"


def leave_one_environment_out(
    model: TransformationModel | AnchorBoostedTM,
    X: Covariates | str,
    y: Outcome | AnyTable,
    environments: Labels | None = None,
    xis: Sequence[float] = XIS,
    *,
    anchors: Labels | None = None,
    cut: int | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> LeaveOneEnvironmentOut:
    """Return the negative log-likelihood of each environment under the model fitted to all the others.

    Parameters
    ----------
    model : estimator
        Any model of this package, or a pipeline that ends in one. It is not changed; its own xi is not used.
    X, y : covariates and outcome
        As for ``fit``; or a formula and a table, as for ``from_formula``:
        ``leave_one_environment_out(model, formula, data, xis=[0, 1, 10])``. The table may be one that is read in
        batches.
    environments : array, or column name of a table
        Groups to leave out in turn: integers, strings or categories. Floats need ``cut``. With a formula, by default
        its anchors.
    xis : sequence of float
        Strengths of the penalty.
    anchors : array, frame or list of columns, optional
        Anchors of the fits; by default the environments. A formula names its own.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    sample_weight, offset : arrays, or column names of a table, optional
        As for ``fit``. Weights also count in the mean over left-out rows.
    n_jobs : int, optional
        Number of processes, which share the environments; -1 uses all cores. Inside
        ``joblib.parallel_config("dask")`` the workers of the current Dask client are used. For a table that is read
        in batches, the number of batches that are worked on at once.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal or notebook.

    Returns
    -------
    LeaveOneEnvironmentOut

    See Also
    --------
    anchortm.selection.LeaveOneEnvironmentOut : the results, as a table or a plot
    anchortm.XiSearchCV : chooses xi by left-out environments

    Notes
    -----
    The support of the baseline, and everything else that depends on data, comes from the training rows. The one
    exception is the ranges of varying effects, which use all rows. With a formula, levels and knots of its terms come
    from the covariates of all rows. Each fit starts from the fit to all rows at the same xi.

    A column that the other environments do not identify is left out when an environment is predicted, and ``notes`` in
    the table of results says so. This happens to a level of a factor that only one environment has: without it, the
    column of the level is 0. The rows of this level are then predicted as if they had the reference level. If several
    columns are collinear without the environment, the last of them is left out. Columns that all rows together do not
    identify are an error.

    A class of an ordinal outcome, or a stratum with its own baseline, that only one environment has cannot be
    predicted: no other row says how likely it is. The environment's ``nll`` is then NaN, with a warning, and it does
    not count in the worst, the median and the mean. A mean over its other rows would describe an easier outcome, and
    the environment that differs most would look better than it is.

    Transformers of a pipeline are fitted again without each environment, for each xi. With ``missing="drop"``,
    left-out rows that have missing values behind the transformers do not count in ``n`` and ``nll``. Columns that the
    other environments do not identify are not left out of pipelines: a column that is constant without an environment
    is an error, unless the pipeline has a ``VarianceThreshold`` before the model.

    If the table is read in batches, all fits share each read of it. The result says in ``n_passes`` how often the
    table was read: about as often as for two or three fits, whatever the number of environments and of xi.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> atm.leave_one_environment_out(atm.OrdinalRegression(), formula, data, xis=[0, 3, 10])
    LeaveOneEnvironmentOut(OrdinalRegression, 9 environments (judge), 3 values of xi)
           worst  median    mean  hardest
    xi
    0.0   1.6745  1.2534  1.3080        7
    3.0   1.5574  1.3165  1.3248        7
    10.0  1.5929  1.5250  1.5203        5

    From columns:

    >>> X = data[["temp", "contact"]] == ["warm", "yes"]
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), X, data.rating, data.judge, [0, 3, 10])
    >>> result.summary()["worst"].round(4).tolist()
    [1.6745, 1.5574, 1.5929]
    """
    model = as_pipeline(model)
    check_model(model_of(model), "left_out")
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    with rows.screened():
        found = left_out(rows, None, ("xi",), xis, cut, n_jobs, progress)
    values, name = environments, found.environment_name
    if rows.missing is not None and isinstance(X, str) and (values is None or isinstance(values, str)):
        values = select(y, [name])[name] if name in column_names(y) else None
    before = {} if rows.missing is None else _by_environment(rows.missing, values)
    missing = {} if cut is not None else dict(Counter(before) + Counter(found.missing))
    about = (type(model_of(model)).__name__, ("xi",), found.n_passes, found.n_missing, found.environment_name)
    return LeaveOneEnvironmentOut(found.rows, *about, missing)


def _by_environment(missing: Missing, environments: Any) -> dict[Any, int]:
    """Return how many rows of each environment were dropped because values are missing."""
    n = missing.counts.n_rows
    if environments is None or missing.rows is None:
        return {}
    gone = rows_taken("environments", native(environments), n, np.setdiff1d(np.arange(n), missing.rows))
    labels = np.asarray(gone, dtype=object).ravel()
    return dict(Counter(label for label in labels.tolist() if not is_missing(label)))


def left_out(
    rows: Given,
    grid: Grid | None,
    by: tuple[str, ...],
    xis: Sequence[float],
    cut: int | None,
    n_jobs: int | None,
    progress: bool | None,
) -> LeftOut:
    """Return one row for each environment, xi and problem; other arguments as for ``leave_one_environment_out``.

    Parameters
    ----------
    rows : Given
        The model, and the rows with their environments.
    grid : callable or None
        Makes the problems of a grid of penalties; None fits the model itself.
    by : tuple of str
        Names of the penalties that differ between the fits.
    """
    model = rows.model
    inner = model_of(model) if by == ("xi",) else model
    check_model(inner, {"lambda": "l1", "smooth": "smooth"}.get(by[0], "left_out"))
    values, n_jobs, spec = several_xi(xis), jobs(n_jobs), model.specification()
    for xi in values:
        spec.at(xi=xi).check_xi()
    if rows.batched:
        with Task("left-out environments", shown=progress):
            return _told(left_out_in_batches(rows, grid, by, values, cut, n_jobs))
    if rows.environments is None:
        raise InputError("pass the environments to leave out, one for each row, or name them in a formula after '|'")
    groups, labels = group_codes(rows.environments, cut)
    name = name_of(rows.environments)
    n = len(as_response(rows.y, spec.outcome, spec.levels))
    if groups.size != n:
        raise InputError(f"environments has {groups.size} rows, but y has {n}: pass the same rows of both")
    if rows.anchors is None and model.anchor_names is None:
        rows = replace(rows, anchors=AnchorColumns((groups,), (labels,), np.zeros((n, 0)), ("environment",), ()))
    # many small fits are faster without BLAS threads
    with Task("left-out environments", labels.size, progress) as task, one_blas_thread():
        fold, labels, n_missing = _folds(rows, grid, groups, labels, values, by)
        task.total = labels.size
        results = task.map(fold, range(labels.size), n_jobs)
    gone = {found[0]["environment"]: max([row.pop("missing", 0) for row in found]) for found in results}
    found = [row for rows in results for row in rows]
    return _told(LeftOut(found, n_missing=n_missing + sum(gone.values()), environment_name=name, missing=gone))


def _folds(
    rows: Given,
    grid: Grid | None,
    groups: NDArray[np.intp],
    labels: NDArray[Any],
    values: list[float],
    by: tuple[str, ...],
) -> tuple[Callable[[int], list[dict[str, Any]]], NDArray[Any], int]:
    """Return the function that computes one left-out environment, the environments, and how many rows were dropped."""
    if is_pipeline(rows.model):
        dropped = 0 if rows.missing is None else rows.missing.counts.n_missing
        return *folds_of_pipeline(rows, groups, labels, values), dropped
    rows, problem = rows.prepared()
    tell_alphabetical(problem.data)
    if problem.data.kept is not None:  # rows of weight 0 were dropped, and perhaps whole environments with them
        seen, groups = np.unique(groups[problem.data.kept], return_inverse=True)
        labels = labels[seen]
    missing = problem.data.missing
    n_missing = 0 if missing is None else missing.counts.n_missing
    # a copy of the problem, so that the objective of all rows is freed before parts of them are fitted
    return folds(rows.model, replace(problem), grid, groups, labels, values, by), labels, n_missing


def _told(found: LeftOut) -> LeftOut:
    """Return the results; tell which environments were predicted without some columns, or could not be predicted."""
    notes = {row["environment"]: row["notes"] for row in found.rows if row["notes"]}
    if all(math.isnan(row["nll"]) for row in found.rows):
        name, text = next(iter(notes.items()))
        raise InputError(
            f"no environment can be predicted by the others; environment {name}: {text}. Merge classes or strata, or "
            "leave strata out"
        )
    for name, text in list(notes.items())[:MOST_TOLD]:
        warn(f"environment {name}: {text}", AnchorTMWarning)
    if len(notes) > MOST_TOLD:
        more = len(notes) - MOST_TOLD
        warn(f"{more} more environments have notes: see the column notes of frame()", AnchorTMWarning)
    return found
