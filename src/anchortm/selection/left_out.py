"""How a model does at a place it has not seen: leave one environment out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from tqdm import tqdm

from anchortm import plotting
from anchortm._messages import shown
from anchortm._util.checks import jobs, several_xi
from anchortm._util.frames import aligned
from anchortm._util.threads import one_blas_thread
from anchortm.bases import Basis, OrdinalBasis
from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.plain import NormalObjective, Objective
from anchortm.engine.problem import Data
from anchortm.engine.solve.continuation import solve_near, solve_path
from anchortm.engine.solve.identification import check_kinds, check_levels
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.inputs.response import as_response
from anchortm.models.base import TransformationModel, check_model, tell_alphabetical

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LeaveOneEnvironmentOut", "full_paths", "leave_one_environment_out", "left_out"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeaveOneEnvironmentOut:
    """The mean negative log-likelihood of each environment under fits to all others, for each xi.

    Attributes
    ----------
    rows : list of dict
        What ``frame`` makes a table of.
    model : str
        Name of the model.
    by : tuple of str
        What differs between fits: "xi", or "lambda" and "xi" of an elastic net, or "smooth" and "xi".

    See Also
    --------
    anchortm.leave_one_environment_out, anchortm.ElasticNetCV, anchortm.SmoothSearchCV : make one

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
        """Return one row for each environment and xi: n, nll, convergence and coefficients."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def summary(self) -> pd.DataFrame:
        """Return the worst, the median and the mean environment for each xi."""
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

    def plot(self, ax: Any = None, label: int = 3, legend: bool = True) -> Any:
        """Draw the nll of each environment against xi, naming the ``label`` hardest at the first; return the axes."""
        if self.by != ("xi",):
            raise InputError("this is no path in xi alone: ElasticNetCV.plot() or SmoothSearchCV.plot() draws it")
        return plotting.left_out(self, ax, label, legend)


def leave_one_environment_out(
    model: TransformationModel,
    X: Any,
    y: Any,
    environments: Any,
    xis: Sequence[float],
    *,
    anchors: Any = None,
    cut: int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> LeaveOneEnvironmentOut:
    """Return how each environment is predicted by the model fitted to all the others.

    Parameters
    ----------
    model : estimator
        Any model of this package; its own xi is not used.
    X, y : covariates and outcome
        As for ``fit``.
    environments : array
        Groups to leave out in turn: integers, strings or categories. Floats need ``cut``.
    xis : sequence of float
        Strengths of the penalty.
    anchors : array, frame or list of columns, optional
        Anchors of the fits; by default the environments.
    cut : int, optional
        Cut numeric environments at quantiles into so many groups.
    sample_weight, offset : arrays, optional
        As for ``fit``; weights replicate rows, of left-out environments too.
    n_jobs : int, optional
        Processes over environments; -1 for all cores. Within ``joblib.parallel_config("dask")`` the workers of the
        Dask client in use.
    progress : bool, optional
        Show a progress bar; by default only in a terminal.

    See Also
    --------
    anchortm.selection.LeaveOneEnvironmentOut : what is returned
    anchortm.XiSearchCV : chooses xi by it

    Notes
    -----
    Supports and all else that depends on data come from the training rows, but for ranges of effects that vary.
    Each fit starts from the fit to all rows at the same xi.

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


def left_out(
    model: Any,
    nets: Callable[[Data, list[float]], list[TransformationModel]] | None,
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
    """Return a row for each environment, xi and model: the model itself, or those that ``nets`` gives for all rows.

    ``by`` names what differs between the fits.
    """
    check_model(model, refits=nets is None)
    values, n_jobs = several_xi(xis), jobs(n_jobs)
    for xi in values:
        clone(model).set_params(xi=xi)._check_xi()
    model._check_limits()
    aligned(X=X, y=y, environments=environments, anchors=anchors, sample_weight=sample_weight, offset=offset)
    groups, labels = group_codes(environments, cut)
    n = len(as_response(y, model._scale, model._fixed_levels()))
    if groups.size != n:
        raise InputError(f"environments has {groups.size} rows, but y has {n}: pass the same rows of both")
    if anchors is None and model.anchor_names is None:
        anchors = AnchorColumns((groups,), (labels,), np.zeros((n, 0)), ("environment",), ())
    data = model._prepare(X, y, anchors, sample_weight, offset)
    tell_alphabetical(data)
    if data.kept is not None:  # rows of weight 0 are gone, and with them perhaps environments
        found, groups = np.unique(groups[data.kept], return_inverse=True)
        labels = labels[found]
    hidden = None if progress is None else not progress  # None: shown in a terminal only
    tasks = tqdm(list(enumerate(labels.tolist())), desc="environments", disable=hidden)
    with one_blas_thread():  # many small fits
        if not isinstance(model, TransformationModel):
            refits = Parallel(n_jobs=n_jobs)(
                delayed(_refitted)(model, data, groups, labels, e, values) for e, _ in tasks
            )
            return [row for rows in refits for row in rows]
        models = [model] if nets is None else nets(data, values)
        starts = [
            {s.xi: objective.coordinates.split(s.v) for s in solutions}
            for objective, solutions in full_paths(models, data, values)
        ]
        results = Parallel(n_jobs=n_jobs)(
            delayed(_one)(models, data, groups != e, name, values, starts, by) for e, name in tasks
        )
    return [row for rows in results for row in rows]


def full_paths(
    models: list[TransformationModel], data: Data, xis: list[float]
) -> Iterator[tuple[Objective, list[Solution]]]:
    """Yield the paths in xi of each model, the first one's branch as a start for the next."""
    model = models[0]
    basis = model._make_basis(data.response, data.weights)
    options = Options(tol=model.tol, max_iter=model.max_iter)
    at, v = None, np.zeros(0)
    for objective in _objectives(models, basis, data):
        if at is None:
            v = model._start(objective, basis, data)
        elif objective.coordinates is not at:
            v = objective.coordinates.join(*at.split(v))
        solutions = solve_path(objective, v, xis, options)
        at, v = objective.coordinates, solutions[int(np.argmin(xis))].v
        yield objective, solutions


def _objectives(models: list[TransformationModel], basis: Basis, data: Data) -> Iterator[Objective]:
    """Yield the objective of each model; several differ in the strengths of their penalty alone."""
    link = models[0]._make_link()
    if any(model._smoothed(data.design.marks) for model in models):  # beside an elastic net: no one factor
        for model in models:
            yield model._objective(link, basis, data)
        return
    first = models[0]._objective(link, basis, data)
    for model in models:
        yield first.scaled((model.l1 + model.l2) / (models[0].l1 + models[0].l2)) if isinstance(first, Net) else first


def _one(
    models: list[TransformationModel],
    data: Data,
    inside: NDArray[np.bool_],
    name: Any,
    xis: list[float],
    starts: list[dict[float, tuple[Array, Array]]],
    by: tuple[str, ...],
) -> list[dict[str, Any]]:
    """Return the rows of one left-out environment; those of a grid have a strength in place of coefficients."""
    model = models[0]
    train, test = np.flatnonzero(inside), np.flatnonzero(~inside)
    inner = data.subset(train)
    try:
        check_kinds(inner.response)
        inner = inner._replace(near=model._check_design(inner).near)
        check_levels(inner.response, inner.design.matrix, inner.design.names)
    except IdentificationError as error:
        raise IdentificationError(f"without environment {name}: {error}") from None
    basis = model._make_basis(inner.response, inner.weights)
    held = data.take(test)
    if isinstance(basis, OrdinalBasis):
        try:
            held = held._replace(response=as_response(held.response, "ordinal", basis.levels))
        except InputError as error:
            raise InputError(f"environment {name} has a class that no other environment has: {error}") from None
    rows = []
    objectives = _objectives(models, basis, inner)
    for m, start in zip(models, starts, strict=True):
        try:
            objective = next(objectives)
            solutions = _solutions(m, objective, m._start(objective, basis, inner), xis, start)
        except IdentificationError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        for xi, solution in zip(xis, solutions, strict=True):
            theta, beta = objective.coordinates.split(solution.v)
            loglik = m._loglik(m._fitted_link(objective, solution.v), basis, theta, beta, held)
            n = test.size if held.weights is None else float(held.weights.sum())
            row = {"environment": name, "xi": xi, "n": n, "nll": float(-np.average(loglik, weights=held.weights))}
            row["converged"] = solution.converged
            rows.append(row | (_coefs(model, data, beta) if by == ("xi",) else _strength(m, beta, by[0])))
    return rows


def _refitted(
    model: Any, data: Data, groups: NDArray[np.intp], labels: NDArray[Any], e: int, xis: list[float]
) -> list[dict[str, Any]]:
    """Return the rows of one left-out environment by a model that is fitted anew for each xi."""
    inside, name = groups != e, labels.tolist()[e]
    others = np.arange(labels.size) != e
    remaining = (np.cumsum(others) - 1)[groups[inside]], labels[others]
    train, held = data.subset(np.flatnonzero(inside)), data.take(np.flatnonzero(~inside))
    n = len(held.response) if held.weights is None else float(held.weights.sum())
    rows = []
    for xi in xis:
        try:
            nll, facts = clone(model).set_params(xi=xi)._refitted(train, held, remaining, name)
        except InputError as error:
            raise type(error)(f"without environment {name}: {error}") from None
        rows.append({"environment": name, "xi": xi, "n": n, "nll": nll} | facts)
    return rows


def _coefs(model: TransformationModel, data: Data, beta: Array) -> dict[str, float]:
    return {f"coef_{name}": b for name, b in zip(model._names(data), beta.tolist(), strict=True)}


def _strength(model: TransformationModel, beta: Array, what: str) -> dict[str, float]:
    """Return the strength of a penalty and what it leaves, in place of coefficients that may be thousands."""
    if what == "smooth":
        return {"smooth": model.smooth}
    return {"lambda": model.l1 + model.l2, "nonzero": int(np.count_nonzero(beta))}


def _solutions(
    model: TransformationModel,
    objective: Objective,
    cold: Array,
    xis: list[float],
    starts: dict[float, tuple[Array, Array]],
) -> list[Solution]:
    """Return the solutions at each xi, from the fits to all rows where that succeeds."""
    options = Options(tol=model.tol, max_iter=model.max_iter)
    if isinstance(objective, NormalObjective) and objective.linear:
        return solve_path(objective, cold, xis, options)
    return [solve_near(objective, *starts[xi], cold, xi, options) for xi in xis]
