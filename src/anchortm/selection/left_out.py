"""Leave one environment out: how well a model predicts an environment that it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import jobs, several_xi
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.remarks import tell_alphabetical
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.inputs.response import as_response
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import Given, given
from anchortm.selection.batches import LeftOut, left_out_in_batches
from anchortm.selection.folds import Grid, folds
from anchortm.selection.path import XIS

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.models.boosted.estimator import AnchorBoostedTM

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

    See Also
    --------
    anchortm.leave_one_environment_out, anchortm.ElasticNetCV, anchortm.SmoothSearchCV : compute it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), frame.X, frame.y, data.judge, [0, 3])
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

    def frame(self) -> pd.DataFrame:
        """Return one row for each environment and xi: n, nll, convergence and coefficients.

        Returns
        -------
        DataFrame
            ``n`` is the number of rows (or their total weight), ``nll`` the mean negative log-likelihood.
        """
        import pandas as pd

        return pd.DataFrame(self.rows)

    def summary(self) -> pd.DataFrame:
        """Return the worst, median and mean negative log-likelihood over environments for each xi.

        Returns
        -------
        DataFrame
            One row for each xi; ``hardest`` names the worst environment.
        """
        grouped = self.frame().groupby(list(self.by) if len(self.by) > 1 else self.by[0])
        table = grouped["nll"].agg(worst="max", median="median", mean="mean")
        hardest = self.frame().loc[grouped["nll"].idxmax().to_numpy(), "environment"].to_numpy()
        return table.assign(hardest=hardest)

    def _title(self) -> str:
        frame = self.frame()
        sizes = [f"{frame[name].nunique()} values of {name}" for name in self.by]
        return f"LeaveOneEnvironmentOut({self.model}, {frame.environment.nunique()} environments, {', '.join(sizes)})"

    @shown
    def __repr__(self) -> str:
        return f"{self._title()}\n{self.summary().round(4).to_string()}"

    def _repr_html_(self) -> str:
        return report(self._title(), self.summary())

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
        Any model of this package. It is not changed; its own xi is not used.
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

    If the table is read in batches, all fits share each read of it. The result says in ``n_passes`` how often the
    table was read: about as often as for two or three fits, whatever the number of environments and of xi.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> atm.leave_one_environment_out(atm.OrdinalRegression(), frame.X, frame.y, data.judge, [0, 3, 10])
    LeaveOneEnvironmentOut(OrdinalRegression, 9 environments, 3 values of xi)
           worst  median    mean  hardest
    xi
    0.0   1.6745  1.2534  1.3080        7
    3.0   1.5574  1.3165  1.3248        7
    10.0  1.5929  1.5250  1.5203        5

    The same by a formula:

    >>> result = atm.leave_one_environment_out(
    ...     atm.OrdinalRegression(), "rating ~ temp + contact | judge", data, xis=[0, 3, 10]
    ... )
    >>> result.summary()["worst"].round(4).tolist()
    [1.6745, 1.5574, 1.5929]
    """
    check_model(model, "left_out")
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    with rows.screened():
        found = left_out(rows, None, ("xi",), xis, cut, n_jobs, progress)
    return LeaveOneEnvironmentOut(found.rows, type(model).__name__, n_passes=found.n_passes)


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
    check_model(model, {"lambda": "l1", "smooth": "smooth"}.get(by[0], "left_out"))
    values, n_jobs, spec = several_xi(xis), jobs(n_jobs), model.specification()
    for xi in values:
        spec.at(xi=xi).check_xi()
    if rows.batched:
        with Task("left-out environments", shown=progress):
            return left_out_in_batches(rows, grid, by, values, cut, n_jobs)
    if rows.environments is None:
        raise InputError("pass the environments to leave out, one for each row, or name them in a formula after '|'")
    groups, labels = group_codes(rows.environments, cut)
    n = len(as_response(rows.y, spec.outcome, spec.levels))
    if groups.size != n:
        raise InputError(f"environments has {groups.size} rows, but y has {n}: pass the same rows of both")
    if rows.anchors is None and model.anchor_names is None:
        rows = replace(rows, anchors=AnchorColumns((groups,), (labels,), np.zeros((n, 0)), ("environment",), ()))
    rows, problem = rows.prepared()
    tell_alphabetical(problem.data)
    if problem.data.kept is not None:  # rows of weight 0 were dropped, and perhaps whole environments with them
        found, groups = np.unique(groups[problem.data.kept], return_inverse=True)
        labels = labels[found]
    # many small fits are faster without BLAS threads
    with Task("left-out environments", labels.size, progress) as task, one_blas_thread():
        # a copy of the problem, so that the objective of all rows is freed before parts of them are fitted
        fold = folds(model, replace(problem), grid, groups, labels, values, by)
        results = task.map(fold, range(labels.size), n_jobs)
    return LeftOut([row for rows in results for row in rows])
