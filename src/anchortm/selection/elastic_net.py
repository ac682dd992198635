"""The elastic net over a grid of (lambda, xi): its path, and the choice of both by left-out environments.

As in glmnet and scikit-learn, lambda = l1 + l2 and l1_ratio = l1 / lambda.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import one_number, real_numbers, several_xi, whole_number
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm.engine.objective.penalised import Net
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import remarked
from anchortm.engine.solve.continuation import solve_path
from anchortm.exceptions import InputError
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given
from anchortm.plotting.results import Panels
from anchortm.selection.folds import Grid, full_paths
from anchortm.selection.paired_choice import MIN_ROWS
from anchortm.selection.searches import XiSearchCV

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ElasticNetCV", "ElasticNetPath", "elastic_net_path"]

Array = NDArray[np.float64]

ABOVE = 1.0 + 1e-12  # makes the largest lambda safe against rounding errors
LEAST_RATIO = 1e-3  # a ridge has no largest lambda, so it uses that of this l1_ratio


@dataclass(frozen=True, eq=False)
class ElasticNetPath:
    """Fits of one model to one data set over a grid of lambda and xi.

    Attributes
    ----------
    lambdas : array of shape (k,)
        Strengths of the elastic net, the largest first.
    xis : array of shape (m,)
        Values of xi.
    l1_ratio : float
        The fraction l1 / lambda.
    coefs : array of shape (k, m, p)
        Coefficients at each lambda and xi.
    coef_names : tuple of str
        Names of the coefficients.
    models : tuple of tuples of estimators
        The fitted models: ``models[i][j]`` is at ``lambdas[i]`` and ``xis[j]``.

    See Also
    --------
    anchortm.elastic_net_path : computes the path

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> X = data[["crim", "nox", "rm", "lstat"]]
    >>> model = atm.NormalLinear(penalty_factor="deviation")
    >>> path = atm.elastic_net_path(model, X, data.cmedv, data.town, [0, 1], n_lambdas=3)
    >>> path.frame()[["lambda", "xi", "nonzero", "loss", "converged"]].round(3)
       lambda   xi  nonzero   loss  converged
    0   1.169  0.0        0  3.635       True
    1   1.169  1.0        0  4.080       True
    2   0.037  0.0        3  3.168       True
    3   0.037  1.0        4  3.547       True
    4   0.001  0.0        4  3.113       True
    5   0.001  1.0        4  3.503       True
    """

    lambdas: Array
    xis: Array
    l1_ratio: float
    coefs: Array
    coef_names: tuple[str, ...]
    models: tuple[tuple[Any, ...], ...]

    def frame(self) -> pd.DataFrame:
        """Return one row for each lambda and xi: number of non-zero coefficients, loss and convergence.

        Returns
        -------
        DataFrame
        """
        import pandas as pd

        rows = [
            {
                "lambda": strength,
                "xi": xi,
                "nonzero": int(np.count_nonzero(m.coef_)),
                "loss": m.loss_,
                "loglik": m.loglik_,
                "penalty": m.penalty_,
                "converged": m.converged_,
                "kkt": m.kkt_,
                "min_eigenvalue": m.min_eigenvalue_,
                "n_iter": m.n_iter_,
                "convexity": m.convexity_,
            }
            for strength, row in zip(self.lambdas.tolist(), self.models, strict=True)
            for xi, m in zip(self.xis.tolist(), row, strict=True)
        ]
        return pd.DataFrame(rows)

    def coefficients(self) -> pd.DataFrame:
        """Return one row for each non-zero coefficient: lambda, xi, covariate and coefficient.

        Returns
        -------
        DataFrame
        """
        import pandas as pd

        i, j, k = np.nonzero(self.coefs)
        names = np.array(self.coef_names, dtype=object)[k]
        columns = {"lambda": self.lambdas[i], "xi": self.xis[j], "covariate": names, "coef": self.coefs[i, j, k]}
        return pd.DataFrame(columns)

    def plot(self, axes: Panels = None, label: int = 8) -> NDArray[np.object_]:
        """Draw the coefficients against lambda, one panel for each xi, and return the axes.

        Parameters
        ----------
        axes : array of matplotlib axes, optional
            Where to draw; by default a new figure.
        label : int
            How many coefficients to name: the largest ones.

        Returns
        -------
        array of matplotlib axes
        """
        return plotting.net_path(self, axes, label)

    def _repr_html_(self) -> str:
        return report(repr(self), self.frame())

    def __repr__(self) -> str:
        fits = [m for row in self.models for m in row]
        done = sum(m.converged_ for m in fits)
        sizes = f"{self.lambdas.size} values of lambda, {self.xis.size} of xi, {len(self.coef_names)} coefficients"
        return f"ElasticNetPath({type(fits[0]).__name__}, {sizes}, {done} of {len(fits)} converged)"


def elastic_net_path(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    xis: Sequence[float] = (0.0,),
    *,
    lambdas: Sequence[float] | None = None,
    l1_ratio: float = 1.0,
    n_lambdas: int = 30,
    smallest: float | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    progress: bool | None = None,
) -> ElasticNetPath:
    """Return the fits of ``model`` with an elastic net at each lambda and xi, with warm starts.

    Each fit equals the fit of ``model`` alone with l1 = lambda * l1_ratio, l2 = lambda * (1 - l1_ratio) and this xi:
    it lies on the branch connected to xi = 0 at this lambda.

    Parameters
    ----------
    model : estimator
        Any model of this package. Its ``penalty_factor`` is used; its own xi, l1 and l2 are not.
    X, y, anchors : covariates, outcome and anchors
        As for ``fit``; or a formula with its anchors and a table in memory, ``elastic_net_path(model, formula, data)``.
    xis : sequence of float
        Strengths of the anchor penalty, finite.
    lambdas : sequence of float, optional
        Strengths of the elastic net. By default ``n_lambdas`` values on a log scale: the largest is the smallest
        lambda at which all penalised coefficients are 0 for every xi, the last is ``smallest`` times the largest.
    l1_ratio : float
        The fraction l1 / lambda: 1 is the lasso, 0 a ridge (with the default lambdas of ``l1_ratio=0.001``).
    n_lambdas : int
        Number of default lambdas.
    smallest : float, optional
        Ratio of the last to the first default lambda. By default 0.001, or 0.01 if there are at least as many
        covariates as rows.
    sample_weight, offset : arrays, optional
        As for ``fit``; with a table, names of columns too.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal or notebook.

    Returns
    -------
    ElasticNetPath

    See Also
    --------
    anchortm.selection.ElasticNetPath : the fits, as tables or a plot
    anchortm.ElasticNetCV : chooses lambda and xi

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site = rng.integers(0, 4, 200)
    >>> X = rng.normal(size=(200, 30))
    >>> y = X[:, 0] - X[:, 1] + rng.normal(size=200)
    >>> path = atm.elastic_net_path(atm.NormalLinear(), X, y, site, [0, 10], n_lambdas=10)
    >>> path
    ElasticNetPath(NormalLinear, 10 values of lambda, 2 of xi, 30 coefficients, 20 of 20 converged)
    >>> path.coefs.shape, np.flatnonzero(path.coefs[2, 1])
    ((10, 2, 30), array([ 0,  1,  9, 11, 24, 29]))
    """
    check_model(model, "l1")
    values = several_xi(xis)
    grid = _Grid(lambdas, l1_ratio, n_lambdas, smallest)
    first = clone(model).set_params(**grid.strengths(1.0))
    for xi in values:
        first.specification().at(xi=xi).check_xi()
    rows = given(first, X, y, anchors, sample_weight=sample_weight, offset=offset)
    rows, problem = rows.in_memory("elastic_net_path").prepared()
    if problem.data.anchors is None and any(values):
        raise InputError("xi > 0 needs anchors: pass them after y, or name them after '|' in a formula (y ~ x | place)")
    found = []
    with Task("values of lambda", grid.size, progress) as task:
        problems = grid(problem, values)
        for own, (objective, solutions) in zip(problems, full_paths(problems, values), strict=True):
            row = []
            for xi, solution in zip(values, solutions, strict=True):
                there = own.at(xi=xi)
                result = remarked(there, there.result(objective, solution, [solution]))
                fitted = rows.model.with_result(there, result, xi=xi, l1=own.spec.l1, l2=own.spec.l2)
                row.append(rows.reading(fitted, there))
            found.append(tuple(row))
            task.step()
    coefs = np.array([[m.coef_ for m in row] for row in found])
    strengths = np.array([own.spec.l1 + own.spec.l2 for own in problems])
    return ElasticNetPath(
        strengths, np.array(values), grid.l1_ratio, coefs, tuple(found[0][0].coef_names_), tuple(found)
    )


class _Grid:
    """The grid of lambdas, as given or computed from the data."""

    def __init__(self, lambdas: Any, l1_ratio: Any, n_lambdas: Any, smallest: Any) -> None:
        self.l1_ratio = one_number(l1_ratio, "l1_ratio")
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise InputError(f"l1_ratio must be between 0 and 1, not {l1_ratio}")
        self.n_lambdas = whole_number(n_lambdas, "n_lambdas", 1)
        self.smallest = None if smallest is None else one_number(smallest, "smallest")
        if self.smallest is not None and not 0.0 < self.smallest < 1.0:
            raise InputError(f"smallest must be between 0 and 1, not {smallest}")
        self.given = None if lambdas is None else np.unique(real_numbers(lambdas, "lambdas"))[::-1]
        if self.given is not None and not (self.given.size and np.isfinite(self.given).all() and self.given[-1] > 0.0):
            raise InputError("lambdas must be positive numbers; without an elastic net use anchor_path")

    @property
    def size(self) -> int:
        """Return the number of lambdas."""
        return self.n_lambdas if self.given is None else self.given.size

    def strengths(self, strength: float, ratio: float | None = None) -> dict[str, float]:
        """Return l1 and l2 for a lambda."""
        l1 = strength * (self.l1_ratio if ratio is None else ratio)
        return {"l1": l1, "l2": strength - l1}

    def __call__(self, problem: Problem, xis: list[float]) -> list[Problem]:
        """Return the problems of the grid, the largest lambda first."""
        if self.given is not None:
            return [problem.at(**self.strengths(float(strength))) for strength in self.given]
        if not problem.data.in_memory:
            raise InputError("default lambdas need the rows in memory: give lambdas, such as lambdas=[0.1, 0.01]")
        n, p = problem.data.design.matrix.shape
        smallest = (1e-3 if p < n else 1e-2) if self.smallest is None else self.smallest
        net = problem.at(**self.strengths(1.0, max(self.l1_ratio, LEAST_RATIO)))
        largest = self._largest(net, xis)
        strengths = np.geomspace(largest, smallest * largest, self.n_lambdas).tolist()
        problems = [problem.at(**self.strengths(strength)) for strength in strengths]
        if self.l1_ratio >= LEAST_RATIO and not net.spec.smoothed(problem.data.design.marks):
            problems[0] = problems[0].with_objective(net.objective.scaled(strengths[0]))  # the loss of the same rows
        return problems

    @staticmethod
    def _largest(net: Problem, xis: list[float]) -> float:
        """Return the smallest lambda at which all penalised coefficients are 0, for every xi."""
        objective = net.objective
        assert isinstance(objective, Net)  # noqa: S101
        k, penalised = objective.coordinates.n_baseline, objective.lasso > 0.0
        if not penalised.any():
            raise InputError("penalty_factor is 0 for all coefficients: make it positive for at least one")
        at = np.flatnonzero(~penalised)
        kept = objective.restricted(np.flatnonzero(~penalised[k:]))
        null = kept if kept.ridge.any() else kept.inner
        v = net.start(objective)
        largest = 0.0
        for solution in solve_path(null, v[at], xis, net.spec.quiet):
            v[:] = 0.0
            v[at] = solution.v
            slope = objective.gradient(v, 2.0 * solution.xi * solution.sums.t)[k:] / objective.n_total
            largest = max(largest, float((np.abs(slope)[penalised[k:]] / objective.lasso[penalised]).max()))
        return largest * ABOVE


class ElasticNetCV(XiSearchCV):
    """Choose the lambda and the xi that best predict left-out environments, and fit the model with them.

    Parameters
    ----------
    model : estimator
        Any model of this package. Its ``penalty_factor`` is used; its own xi, l1 and l2 are not.
    xis : sequence of float
        Values of xi to choose from.
    lambdas, l1_ratio, n_lambdas, smallest : optional
        As for ``elastic_net_path``; lambdas are the same for all fits.
    objective, rule, min_rows
        As for ``XiSearchCV``. The rule "paired" keeps the best fit at the smallest xi unless the best of all is better
        by more than one standard error.
    one_standard_error : bool
        Among the fits whose objective is within one standard error of the best, choose the largest lambda, and then the
        smallest xi. This is the standard error of the difference from the best, over the same environments.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_lambda_, best_xi_ : float
        The chosen values.
    best_estimator_ : estimator
        The model with these values, fitted to all rows.
    results_ : DataFrame
        As for ``XiSearchCV``, for each lambda and xi.
    loeo_ : LeaveOneEnvironmentOut
        The negative log-likelihood of each left-out environment for each lambda and xi.

    See Also
    --------
    anchortm.elastic_net_path : the fits to all rows
    anchortm.XiSearchCV : chooses xi alone

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site = rng.integers(0, 4, 200)
    >>> X = rng.normal(size=(200, 30))
    >>> y = X[:, 0] - X[:, 1] + rng.normal(size=200)
    >>> search = atm.ElasticNetCV(atm.NormalLinear(), [0, 1], n_lambdas=5, smallest=0.01)
    >>> search.fit(X, y, anchors=site).best_estimator_.coef_.nonzero()[0]
    array([0, 1])
    """

    _by: ClassVar[tuple[str, ...]] = ("lambda", "xi")
    best_lambda_: float

    def __init__(
        self,
        model: TransformationModel,
        xis: Sequence[float] = (0.0, 1.0, 10.0, 100.0),
        lambdas: Sequence[float] | None = None,
        objective: str | float = 0.9,
        *,
        l1_ratio: float = 1.0,
        n_lambdas: int = 20,
        smallest: float | None = None,
        rule: str = "paired",
        one_standard_error: bool = False,
        min_rows: int = MIN_ROWS,
        cut: int | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        chosen: dict[str, Any] = {"rule": rule, "one_standard_error": one_standard_error, "min_rows": min_rows}
        super().__init__(model, xis, objective, **chosen, cut=cut, n_jobs=n_jobs, progress=progress)
        self.lambdas = lambdas
        self.l1_ratio = l1_ratio
        self.n_lambdas = n_lambdas
        self.smallest = smallest

    def _grid(self) -> _Grid:
        return _Grid(self.lambdas, self.l1_ratio, self.n_lambdas, self.smallest)

    def _searched(self) -> Any:
        return clone(self.model).set_params(**self._grid().strengths(1.0))

    def _problems(self) -> Grid | None:
        return self._grid()

    def _parameters(self, *at: float) -> dict[str, float]:
        return self._grid().strengths(at[0]) | {"xi": at[1]}

    def plot(self, ax: Axis = None) -> Any:
        """Draw the objective against lambda, one line for each xi, and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self, "best_estimator_")
        return plotting.net_search(self, ax)
