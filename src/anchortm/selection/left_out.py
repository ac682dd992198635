"""Leave one environment out: how well a model predicts an environment that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from tqdm import tqdm

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import jobs, several_xi
from anchortm._util.frames import aligned
from anchortm._util.threads import one_blas_thread
from anchortm.engine.data import Data
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import tell_alphabetical
from anchortm.engine.solve.continuation import solve_path
from anchortm.engine.solve.newton import Solution
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.inputs.response import as_response
from anchortm.models.base import TransformationModel, check_model

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.models.boosted.estimator import AnchorBoostedTM

__all__ = ["Grid", "LeaveOneEnvironmentOut", "full_paths", "leave_one_environment_out", "left_out"]

Array = NDArray[np.float64]


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
        return f"<p>{escape(self._title())}</p>{self.summary().to_html(float_format='{:.4f}'.format)}"

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
    X: Covariates,
    y: Outcome,
    environments: Labels,
    xis: Sequence[float],
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
        As for ``fit``.
    environments : array
        Groups to leave out in turn: integers, strings or categories. Floats need ``cut``.
    xis : sequence of float
        Strengths of the penalty.
    anchors : array, frame or list of columns, optional
        Anchors of the fits; by default the environments.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    sample_weight, offset : arrays, optional
        As for ``fit``. Weights also count in the mean over left-out rows.
    n_jobs : int, optional
        Number of processes, which share the environments; -1 uses all cores. Inside
        ``joblib.parallel_config("dask")`` the workers of the current Dask client are used.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal.

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
    exception is the ranges of varying effects, which use all rows. Each fit starts from the fit to all rows at the
    same xi.

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
    """
    given = (X, y, environments, xis, anchors, cut, sample_weight, offset, n_jobs, progress)
    return LeaveOneEnvironmentOut(left_out(model, None, ("xi",), *given), type(model).__name__)


Grid = Callable[[Problem, list[float]], list[Problem]]  # makes the problems of a grid of penalties, for all rows


def left_out(
    model: Any,
    grid: Grid | None,
    by: tuple[str, ...],
    X: Any,
    y: Any,
    environments: Any,
    xis: Sequence[float],
    anchors: Any,
    cut: int | None,
    sample_weight: Any,
    offset: Any,
    n_jobs: int | None,
    progress: bool | None,
) -> list[dict[str, Any]]:
    """Return one row for each environment, xi and problem; other arguments as for ``leave_one_environment_out``.

    Parameters
    ----------
    grid : callable or None
        Makes the problems of a grid of penalties; None fits the model itself.
    by : tuple of str
        Names of the penalties that differ between the fits.
    """
    check_model(model, {"lambda": "l1", "smooth": "smooth"}.get(by[0], "left_out"))
    values, n_jobs, spec = several_xi(xis), jobs(n_jobs), model.specification()
    for xi in values:
        spec.at(xi=xi).check_xi()
    aligned(X=X, y=y, environments=environments, anchors=anchors, sample_weight=sample_weight, offset=offset)
    groups, labels = group_codes(environments, cut)
    n = len(as_response(y, spec.outcome, spec.levels))
    if groups.size != n:
        raise InputError(f"environments has {groups.size} rows, but y has {n}: pass the same rows of both")
    if anchors is None and model.anchor_names is None:
        anchors = AnchorColumns((groups,), (labels,), np.zeros((n, 0)), ("environment",), ())
    problem = model.problem(X, y, anchors=anchors, sample_weight=sample_weight, offset=offset)
    tell_alphabetical(problem.data)
    if problem.data.kept is not None:  # rows of weight 0 were dropped, and perhaps whole environments with them
        found, groups = np.unique(groups[problem.data.kept], return_inverse=True)
        labels = labels[found]
    hidden = None if progress is None else not progress  # None: shown in a terminal only
    with one_blas_thread():  # many small fits are faster without BLAS threads
        # a copy of the problem, so that the objective of all rows is freed before parts of them are fitted
        fold = _folds(model, replace(problem), grid, groups, labels, values, by)
        tasks = tqdm(range(labels.size), desc="environments", disable=hidden)
        results = Parallel(n_jobs=n_jobs)(delayed(fold)(e) for e in tasks)
    return [row for rows in results for row in rows]


def _folds(
    model: Any,
    problem: Problem,
    grid: Grid | None,
    groups: NDArray[np.intp],
    labels: NDArray[Any],
    xis: list[float],
    by: tuple[str, ...],
) -> Callable[[int], list[dict[str, Any]]]:
    """Return the function that computes the rows of one left-out environment, given its number."""
    if hasattr(model, "left_out"):
        return partial(_refitted, model, problem.data, groups, labels, xis)
    problems = [problem] if grid is None else grid(problem, xis)
    starts = [
        {s.xi: objective.coordinates.split(s.v) for s in solutions}
        for objective, solutions in full_paths(problems, xis)
    ]
    kept = [replace(one) for one in problems]  # copies without objectives; other processes build them again
    return partial(_one, kept, groups, labels.tolist(), xis, starts, by)


def full_paths(problems: list[Problem], xis: list[float]) -> Iterator[tuple[Objective, list[Solution]]]:
    """Yield the objective and the path in xi of each problem, each path started from the one before."""
    options = problems[0].spec.quiet
    at, v = None, np.zeros(0)
    for objective in _objectives(problems):
        if at is None:
            v = problems[0].start(objective)
        elif objective.coordinates is not at:
            v = objective.coordinates.join(*at.split(v))
        solutions = solve_path(objective, v, xis, options)
        at, v = objective.coordinates, solutions[int(np.argmin(xis))].v
        yield objective, solutions


def _objectives(problems: list[Problem]) -> Iterator[Objective]:
    """Yield the objective of each problem; the problems differ only in the strength of a penalty."""
    first = problems[0]
    marks = first.data.design.marks
    if any(problem.spec.smoothed(marks) for problem in problems):  # smoothing and net do not share one factor
        for problem in problems:
            yield problem.objective
        return
    strength = first.spec.l1 + first.spec.l2
    for problem in problems:
        own = problem.spec.l1 + problem.spec.l2
        yield first.objective.scaled(own / strength) if strength else first.objective


def _one(
    problems: list[Problem],
    groups: NDArray[np.intp],
    names: list[Any],
    xis: list[float],
    starts: list[dict[float, tuple[Array, Array]]],
    by: tuple[str, ...],
    e: int,
) -> list[dict[str, Any]]:
    """Return the rows of one left-out environment; rows of a grid hold its strength instead of coefficients."""
    data, inside, name = problems[0].data, groups != e, names[e]
    try:
        train = problems[0].subset(np.flatnonzero(inside))
    except IdentificationError as error:
        raise IdentificationError(f"without environment {name}: {error}") from None
    try:
        held = train.held_out(data.take(np.flatnonzero(~inside)))
    except InputError as error:
        raise InputError(f"environment {name} has a class that no other environment has: {error}") from None
    n = len(held.response) if held.weights is None else float(held.weights.sum())
    rows = []
    inner = [replace(train, spec=problem.spec) for problem in problems]
    objectives = _objectives(inner)
    for problem, start in zip(inner, starts, strict=True):
        try:
            objective = next(objectives)
            solutions = _solutions(problem, objective, xis, start)
        except IdentificationError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        for xi, solution in zip(xis, solutions, strict=True):
            theta, beta = objective.coordinates.split(solution.v)
            loglik = problem.logliks(problem.fitted_link(objective, solution.v), theta, beta, held)
            row = {"environment": name, "xi": xi, "n": n, "nll": float(-np.average(loglik, weights=held.weights))}
            row["converged"] = solution.converged
            own = _coefs(problem, data, beta) if by == ("xi",) else _strength(problem.spec, beta, by[0])
            rows.append(row | own)
    return rows


def _refitted(
    model: Any, data: Data, groups: NDArray[np.intp], labels: NDArray[Any], xis: list[float], e: int
) -> list[dict[str, Any]]:
    """Return the rows of one left-out environment for a model that is refitted for each xi."""
    inside, name = groups != e, labels.tolist()[e]
    others = np.arange(labels.size) != e
    remaining = (np.cumsum(others) - 1)[groups[inside]], labels[others]
    train, held = data.subset(np.flatnonzero(inside)), data.take(np.flatnonzero(~inside))
    n = len(held.response) if held.weights is None else float(held.weights.sum())
    rows = []
    for xi in xis:
        try:
            nll, facts = clone(model).set_params(xi=xi).left_out(train, held, remaining, name)
        except InputError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        rows.append({"environment": name, "xi": xi, "n": n, "nll": nll} | facts)
    return rows


def _coefs(problem: Problem, data: Data, beta: Array) -> dict[str, float]:
    return {f"coef_{name}": b for name, b in zip(problem.names_of(data), beta.tolist(), strict=True)}


def _strength(spec: Specification, beta: Array, what: str) -> dict[str, float]:
    """Return the strength of the penalty and the number of non-zero coefficients (there may be thousands)."""
    if what == "smooth":
        return {"smooth": spec.smooth}
    return {"lambda": spec.l1 + spec.l2, "nonzero": int(np.count_nonzero(beta))}


def _solutions(
    problem: Problem, objective: Objective, xis: list[float], starts: dict[float, tuple[Array, Array]]
) -> list[Solution]:
    """Return the solution at each xi, started from the fit to all rows."""
    if objective.closed_form is not None:
        return solve_path(objective, problem.start(objective), xis, problem.spec.quiet)
    return [problem.near(objective, starts[xi], xi) for xi in xis]
