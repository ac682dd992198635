"""Choosing xi: by how left-out environments are predicted, or by a test of invariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown, warn
from anchortm._util.checks import level_between, real_numbers
from anchortm._util.frames import aligned
from anchortm.engine.objective.plain import Objective
from anchortm.engine.solve.continuation import first_solution, follow
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import ConvergenceWarning, InputError
from anchortm.inference.score_tests import check_directions, refuse_net, score_statistic
from anchortm.inputs.anchors import group_codes
from anchortm.inputs.design import split_columns
from anchortm.inputs.splines import wiggly
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.from_formula import FormulaMixin
from anchortm.selection.left_out import LeaveOneEnvironmentOut, left_out

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InvarianceRule", "SmoothSearchCV", "XiSearchCV", "xi_by_score_test"]

ENOUGH = 1e4  # a rejection at a smaller xi says little about larger ones
FIRST, FACTOR, CLOSE = 0.01, 2.0, 1.005  # of the xi that are tried, and how close the answer is


class XiSearchCV(FormulaMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a model at the xi that does best when each environment is left out in turn.

    Parameters
    ----------
    model : estimator
        Any model of this package; its own xi is not used.
    xis : sequence of float
        Values to choose from.
    objective : {"worst", "mean"} or float
        What is made small over environments: the largest mean negative log-likelihood, its
        average, or a quantile of it between 0 and 1.
    one_standard_error : bool
        With "mean": take the smallest xi whose average is within one standard error of the best. The error is that
        of the difference from the best xi, environment by environment.
    cut : int, optional
        Cut numeric environments at quantiles into so many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_xi_ : float
    best_estimator_ : estimator
        The model at ``best_xi_``, fitted to all rows.
    results_ : DataFrame
        The objective and the hardest environment for each xi; with "mean" also the average difference from the best
        xi, and its standard error over environments.
    loeo_ : LeaveOneEnvironmentOut

    See Also
    --------
    anchortm.xi_by_score_test, anchortm.gamma_from_quantile : other rules

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> search = atm.XiSearchCV(atm.OrdinalRegression(), [0, 3, 10], objective="worst")
    >>> search.fit(frame.X, frame.y, anchors=data.judge)
    XiSearchCV(OrdinalRegression, worst): xi = 3
          objective  hardest  converged
    xi
    0.0    1.674542        7       True
    3.0    1.557357        7       True
    10.0   1.592855        5       True
    >>> search.best_estimator_.coef_.round(2)
    array([1.82, 1.24])
    """

    _by: ClassVar[tuple[str, ...]] = ("xi",)
    loeo_: LeaveOneEnvironmentOut
    results_: pd.DataFrame
    best_xi_: float
    best_estimator_: Any

    def __init__(
        self,
        model: Any,
        xis: Sequence[float] = (0.0, 1.0, 10.0, 100.0, 1000.0),
        objective: str | float = "worst",
        *,
        one_standard_error: bool = False,
        cut: int | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.model = model
        self.xis = xis
        self.objective = objective
        self.one_standard_error = one_standard_error
        self.cut = cut
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        anchors: Any = None,
        environments: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Self:
        """Leave each environment out at each xi, choose one, and fit it to all rows.

        ``environments`` are by default the anchors, or the column that the model's ``anchor_names`` names; anchors are
        by default the environments.
        """
        level = self._level()
        aligned(X=X, y=y, anchors=anchors, environments=environments, sample_weight=sample_weight, offset=offset)
        check_model(self.model, refits=self._nets() is None)
        named = self.model.anchor_names is not None
        if environments is None:
            environments = split_columns(X, self.model._named("anchor_names"))[1] if named else anchors
        if environments is None:
            raise InputError("pass anchors=, or environments= to leave out")
        if anchors is None and not named:
            groups, labels = group_codes(environments, self.cut)  # the same for all fits
            environments = anchors = labels[groups]
        given = (X, y, environments, self.xis, anchors, self.cut, sample_weight, offset, self.n_jobs, self.progress)
        loeo = LeaveOneEnvironmentOut(
            left_out(self._searched(), self._nets(), self._by, *given), type(self.model).__name__, self._by
        )
        results = self._results(loeo.frame(), level)
        at = self._best(results)
        best = clone(self.model).set_params(**self._parameters(*at))
        extra = {}
        if not isinstance(best, TransformationModel):  # which may hold some out to find its size
            groups, labels = group_codes(environments, self.cut)
            extra = {"environments": labels[groups]}
        best.fit(X, y, anchors=anchors, sample_weight=sample_weight, offset=offset, **extra)
        # at once: a search that is interrupted or refused is left as it was
        chosen = {f"best_{name}_": value for name, value in zip(self._by, at, strict=True)}
        self.__dict__.update(loeo_=loeo, results_=results, best_estimator_=best, **chosen)
        return self

    def _searched(self) -> Any:
        """Return the model that the rows are prepared for."""
        return self.model

    def _nets(self) -> Any:
        """Return what gives the models of an elastic net; None where the model stays as it is."""
        return None

    def _parameters(self, *at: float) -> dict[str, float]:
        """Return the parameters of the model at a place in the table of results."""
        return {"xi": at[0]}

    @classmethod
    def from_formula(cls, formula: str, data: Any, **parameters: Any) -> Self:
        """Return the search fitted to a table by a formula; it then predicts from tables with its columns.

        ``parameters`` are those of the constructor, ``model=`` among them, and ``sample_weight`` and ``offset``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> formula = "rating ~ temp + contact | judge"
        >>> search = atm.XiSearchCV.from_formula(formula, data, model=atm.OrdinalRegression(), xis=[0, 1, 3])
        >>> search.best_xi_, search.predict(data[:3]).shape
        (3.0, (3,))
        """
        search = super().from_formula(formula, data, **parameters)
        search.best_estimator_.formula_ = search.formula_
        return search

    def _level(self) -> float | None:
        """Return the quantile that is made small (1 for the worst), or None for the mean."""
        if self.objective in ("worst", "mean"):
            if self.one_standard_error and self.objective != "mean":
                raise InputError("one_standard_error goes with objective='mean': a maximum has no standard error here")
            return 1.0 if self.objective == "worst" else None
        if isinstance(self.objective, (int, float)) and 0.0 < self.objective < 1.0:
            if self.one_standard_error:
                raise InputError("one_standard_error goes with objective='mean'")
            return float(self.objective)
        raise InputError(f"objective must be 'worst', 'mean' or a number between 0 and 1, not {self.objective!r}")

    def _results(self, frame: pd.DataFrame, level: float | None) -> pd.DataFrame:
        by = list(self._by) if len(self._by) > 1 else self._by[0]
        grouped = frame.groupby(by)
        converged = grouped["converged"].all()
        if level is None:
            nll = frame.pivot(index="environment", columns=by, values="nll").reindex(columns=converged.index)
            mean = nll.mean()
            best = (mean[converged] if converged.any() else mean).idxmin()
            # places differ far more than fits do, so only the difference of two fits at the same place tells them apart
            difference = nll.sub(nll[best], axis=0)
            table = mean.to_frame("objective").assign(difference=difference.mean(), standard_error=difference.sem())
        else:
            table = grouped["nll"].quantile(level).to_frame("objective")
        hardest = frame.loc[grouped["nll"].idxmax().to_numpy(), "environment"].to_numpy()
        return table.assign(hardest=hardest, converged=converged)

    def _best(self, table: pd.DataFrame) -> tuple[float, ...]:
        """Return where the table is best, or within a standard error of it the simplest fit with the smallest xi."""
        what = " and ".join(self._by)
        if not table.converged.all():
            places = [np.atleast_1d(at) for at in table.index[~table.converged]]
            gone = ", ".join(" and ".join(f"{value:g}" for value in place) for place in places)
            warn(f"fits at {what} = {gone} did not converge and are not chosen", ConvergenceWarning)
            table = table[table.converged]
            if table.empty:
                raise InputError(f"no {what} converged in all environments: raise max_iter, or lower the order")
        best = tuple(float(value) for value in np.atleast_1d(table.objective.idxmin()))
        if self.one_standard_error:
            near = table.index[(table.difference <= table.standard_error) | (table.difference == 0.0)]
            best = max((tuple(map(float, np.atleast_1d(at))) for at in near), key=lambda at: (*at[:-1], -at[-1]))
        return best

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the predictions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, **options)

    def predict_distribution(self, X: Any, **options: Any) -> Any:
        """Return the predicted distributions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_distribution(X, **options)

    def nll(self, X: Any, y: Any, **options: Any) -> Any:
        """Return the negative log-likelihood of each row under the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.nll(X, y, **options)

    def summary(self, **options: Any) -> Any:
        """Return the summary of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.summary(**options)

    def score(self, X: Any, y: Any, *, offset: Any = None) -> float:
        """Return the mean log-likelihood under the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, offset=offset))

    @shown
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "best_xi_"):
            return str(super().__repr__(N_CHAR_MAX=N_CHAR_MAX))
        chosen = ", ".join(f"{name} = {getattr(self, f'best_{name}_'):g}" for name in self._by)
        title = f"{type(self).__name__}({type(self.model).__name__}, {self.objective}): {chosen}"
        return f"{title}\n{self.results_.to_string()}"


class SmoothSearchCV(XiSearchCV):
    """Fit a model with the smoothness and the xi that do best when each environment is left out in turn.

    Parameters
    ----------
    model : estimator
        Any model of this package; its own xi and smooth are not used.
    xis, smooths : sequences of float
        Values to choose from.
    objective : {"worst", "mean"} or float
        What is made small over environments: the largest mean negative log-likelihood, its
        average, or a quantile of it between 0 and 1.
    one_standard_error : bool
        With "mean": of the fits whose average is within one standard error of the best take those with the largest
        smooth, and of these the smallest xi. The error is that of the difference from the best, environment by
        environment.
    cut : int, optional
        Cut numeric environments at quantiles into so many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_smooth_, best_xi_ : float
    best_estimator_ : estimator
        The model with these, fitted to all rows.
    results_ : DataFrame
        The objective and the hardest environment for each smooth and xi; with "mean" also the average difference from
        the best, and its standard error over environments.
    loeo_ : LeaveOneEnvironmentOut

    See Also
    --------
    anchortm.XiSearchCV : chooses xi alone
    anchortm.ElasticNetCV : chooses an elastic net and xi

    Notes
    -----
    Knots, and the range beyond which curves are lines, are those of all rows, left-out environments included; outcomes
    of these are not used.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> data["region"] = data.tract // 1000
    >>> search = atm.SmoothSearchCV.from_formula(
    ...     "cmedv ~ s(lstat, 5) + rm | region", data, model=atm.NormalLinear(), xis=[0, 1], smooths=[1, 0.01]
    ... )
    >>> search.best_smooth_, search.best_xi_
    (0.01, 1.0)
    """

    _by: ClassVar[tuple[str, ...]] = ("smooth", "xi")
    best_smooth_: float

    def __init__(
        self,
        model: Any,
        xis: Sequence[float] = (0.0, 1.0, 10.0, 100.0),
        smooths: Sequence[float] = (10.0, 1.0, 0.1, 0.01, 0.001),
        objective: str | float = "worst",
        *,
        one_standard_error: bool = False,
        cut: int | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        super().__init__(
            model, xis, objective, one_standard_error=one_standard_error, cut=cut, n_jobs=n_jobs, progress=progress
        )
        self.smooths = smooths

    def _grid(self) -> list[TransformationModel]:
        """Return the models of the grid, the smoothest first."""
        strengths = np.unique(real_numbers(self.smooths, "smooths"))[::-1]
        if not (strengths.size and np.isfinite(strengths).all() and strengths[-1] >= 0.0):
            raise InputError("smooths must be numbers from 0 on")
        return [clone(self.model).set_params(smooth=float(strength)) for strength in strengths]

    def _searched(self) -> Any:
        return self._grid()[0]

    def _nets(self) -> Any:
        def models(data: Any, _: list[float]) -> list[TransformationModel]:
            if not wiggly(data.design.marks).any():
                raise InputError("there are no smooth terms, s(x) in a formula: use XiSearchCV")
            return self._grid()

        return models

    def _parameters(self, *at: float) -> dict[str, float]:
        return {"smooth": at[0], "xi": at[1]}

    def plot(self, ax: Any = None) -> Any:
        """Draw the objective against smooth, a line for each xi, and return the axes."""
        check_is_fitted(self, "best_estimator_")
        return plotting.net_search(self, ax)


@dataclass(frozen=True, eq=False)
class InvarianceRule:
    """The smallest xi at which the score test no longer rejects invariance, and the tests on the way to it.

    Attributes
    ----------
    xi : float or None
        The smallest xi that is not rejected; None if every one is.
    level : float
        Level of the test.
    table : DataFrame
        What ``frame`` returns.
    model : str
        Name of the model.

    See Also
    --------
    anchortm.xi_by_score_test : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> rule = atm.xi_by_score_test(atm.OrdinalRegression(), frame.X, frame.y, data.judge)
    >>> rule.frame().iloc[[0, -1]].round({"xi": 0, "statistic": 1, "pvalue": 2})
          xi  statistic  df  pvalue
    0    0.0       30.5   8    0.00
    20  20.0        8.8   8    0.36
    """

    xi: float | None
    level: float
    table: Any
    model: str

    def frame(self) -> pd.DataFrame:
        """Return one row for each xi tried: statistic, degrees of freedom and p-value."""
        return self.table

    def plot(self, ax: Any = None) -> Any:
        """Draw the p-values against xi and return the axes."""
        return plotting.rule(self.table, self.level, self.xi, ax)

    @shown
    def __repr__(self) -> str:
        first, last = self.table.iloc[0], self.table.iloc[-1]
        if self.xi is None:
            reason = (
                "The anchors act on the outcome in ways that no coefficients of these covariates undo, so choose xi by "
                "left-out environments instead (XiSearchCV)."
                if last.xi >= ENOUGH
                else "Look further, with a larger largest=."
            )
            return (
                f"InvarianceRule({self.model}): invariance is rejected at the {self.level:g} level for every xi up to "
                f"{last.xi:.3g} (p = {last.pvalue:.2g}). {reason}"
            )
        at = self.table[self.table.xi == self.xi].iloc[0]
        return (
            f"InvarianceRule({self.model}): xi = {self.xi:.4g}, where p = {at.pvalue:.3g} "
            f"(at xi = 0: {first.statistic:.4g} on {first.df:.0f} degrees of freedom, p = {first.pvalue:.3g})"
        )


def xi_by_score_test(
    model: TransformationModel,
    X: Any,
    y: Any,
    anchors: Any,
    *,
    level: float = 0.05,
    largest: float = 1e6,
    sample_weight: Any = None,
    offset: Any = None,
) -> InvarianceRule:
    """Return the smallest xi at which the score test of invariance no longer rejects.

    The likeliest of the models whose residuals could be uncorrelated with the anchors, in the spirit of the
    PULSE estimator (Jakobsen and Peters, 2022). At xi = 0 the test is that of ``diagnostics.score_test``,
    divided by sum r^2 / sum r': a penalty flattens h, and residuals that shrink altogether are not
    invariant for that. With more anchor directions than parameters there may be no such xi.

    Parameters
    ----------
    model : estimator
        Any model of this package; its own xi is not used.
    level : float
        Level of the test.
    largest : float
        Where to stop looking.

    See Also
    --------
    anchortm.selection.InvarianceRule : what is returned
    anchortm.XiSearchCV : another rule

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site, hidden = rng.integers(0, 4, 300), rng.normal(size=300)
    >>> x = rng.normal(size=300) + site + hidden
    >>> y = x + 2 * hidden + rng.normal(size=300)
    >>> rule = atm.xi_by_score_test(atm.NormalLinear(), x[:, None], y, site)
    >>> print(f"xi = {rule.xi:.2f}")
    xi = 2.29
    """
    import pandas as pd

    check_model(model)
    level_between(level)
    if not 0.0 < largest < math.inf:
        raise InputError(f"largest must be a positive number, not {largest}")
    model._check_limits()
    data = model._prepare(X, y, anchors, sample_weight, offset)
    refuse_net(model, data.design.marks)
    if data.anchors is None:
        raise InputError("a test of invariance needs anchors")
    basis = model._make_basis(data.response, data.weights)
    objective = model._objective(model._make_link(), basis, data)
    check_directions(objective)
    options = Options(tol=model.tol, max_iter=model.max_iter)
    rows: list[dict[str, float]] = []

    def accepted(solution: Solution) -> bool:
        if not solution.converged:
            raise InputError(f"the fit at xi = {solution.xi:.3g} did not converge ({solution.reason}): no test there")
        rows.append({"xi": solution.xi} | _test(objective, solution))
        return rows[-1]["pvalue"] >= level

    with model._threads(objective):
        here = first_solution(objective, model._start(objective, basis, data), options)
        xi: float | None = 0.0 if accepted(here) else None
        upper = min(FIRST, largest)
        while xi is None and here.xi < largest:
            there = follow(objective, here, upper, options)
            if accepted(there):
                xi = _first_accepted(objective, here, upper, options, accepted)
            here, upper = there, min(FACTOR * upper, largest)
    return InvarianceRule(xi, level, pd.DataFrame(rows).sort_values("xi", ignore_index=True), type(model).__name__)


def _test(objective: Objective, solution: Solution) -> dict[str, float]:
    statistic, df = score_statistic(objective, solution.v, solution.active, studentised=True)
    return {"statistic": statistic, "df": df, "pvalue": float(stats.chi2.sf(statistic, df))}


def _first_accepted(objective: Objective, here: Solution, upper: float, options: Options, accepted: Any) -> float:
    """Return the smallest accepted xi between a rejected solution and an accepted xi, to half a per cent."""
    while upper > CLOSE * max(here.xi, 0.1 * FIRST):
        middle = math.sqrt(max(here.xi, 0.1 * FIRST) * upper)
        there = follow(objective, here, middle, options)
        if accepted(there):
            upper = middle
        else:
            here = there
    return upper
