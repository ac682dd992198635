"""Choosing xi by how well left-out environments are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown, warn
from anchortm._typing import Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import real_numbers
from anchortm._util.estimators import BaseEstimator
from anchortm._util.frames import aligned
from anchortm.engine.problem import Problem
from anchortm.engine.specification import named_columns
from anchortm.exceptions import ConvergenceWarning, InputError
from anchortm.inputs.anchors import group_codes
from anchortm.inputs.design import split_columns
from anchortm.inputs.splines import wiggly
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.from_formula import FormulaMixin
from anchortm.selection.left_out import Grid, LeaveOneEnvironmentOut, left_out

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SmoothSearchCV", "XiSearchCV"]


class XiSearchCV(FormulaMixin, BaseEstimator):
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
        X: Covariates,
        y: Outcome,
        *,
        anchors: Labels | None = None,
        environments: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Self:
        """Leave each environment out at each xi, choose one, and fit it to all rows.

        ``environments`` are by default the anchors, or the column that the model's ``anchor_names`` names; anchors are
        by default the environments.
        """
        level = self._level()
        aligned(X=X, y=y, anchors=anchors, environments=environments, sample_weight=sample_weight, offset=offset)
        check_model(self.model, refits=self._problems() is None)
        named = self.model.anchor_names is not None
        if environments is None:
            columns = named_columns(self.model.anchor_names, "anchor_names")
            environments = split_columns(X, columns)[1] if named else anchors
        if environments is None:
            raise InputError("pass anchors=, or environments= to leave out")
        if anchors is None and not named:
            groups, labels = group_codes(environments, self.cut)  # the same for all fits
            environments = anchors = labels[groups]
        given = (X, y, environments, self.xis, anchors, self.cut, sample_weight, offset, self.n_jobs, self.progress)
        loeo = LeaveOneEnvironmentOut(
            left_out(self._searched(), self._problems(), self._by, *given), type(self.model).__name__, self._by
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

    def _problems(self) -> Grid | None:
        """Return what gives the problems of a grid of penalties; None where the model stays as it is."""
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

    def predict(self, X: Covariates, **options: Any) -> Any:
        """Return the predictions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, **options)

    def predict_distribution(self, X: Covariates, **options: Any) -> Any:
        """Return the predicted distributions of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_distribution(X, **options)

    def nll(self, X: Covariates, y: Outcome, **options: Any) -> Any:
        """Return the negative log-likelihood of each row under the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.nll(X, y, **options)

    def summary(self, **options: Any) -> Any:
        """Return the summary of the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.summary(**options)

    def score(self, X: Covariates, y: Outcome, *, offset: Numbers | None = None) -> float:
        """Return the mean log-likelihood under the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, offset=offset))

    @shown
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "best_xi_"):
            return super().__repr__(N_CHAR_MAX)
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

    def _strengths(self) -> list[float]:
        """Return the strengths of smoothing, the smoothest first."""
        strengths = np.unique(real_numbers(self.smooths, "smooths"))[::-1]
        if not (strengths.size and np.isfinite(strengths).all() and strengths[-1] >= 0.0):
            raise InputError("smooths must be numbers from 0 on")
        return [float(strength) for strength in strengths]

    def _searched(self) -> Any:
        return clone(self.model).set_params(smooth=self._strengths()[0])

    def _problems(self) -> Grid | None:
        def problems(problem: Problem, _: list[float]) -> list[Problem]:
            if not wiggly(problem.data.design.marks).any():
                raise InputError("there are no smooth terms, s(x) in a formula: use XiSearchCV")
            return [problem.at(smooth=strength) for strength in self._strengths()]

        return problems

    def _parameters(self, *at: float) -> dict[str, float]:
        return {"smooth": at[0], "xi": at[1]}

    def plot(self, ax: Axis = None) -> Any:
        """Draw the objective against smooth, a line for each xi, and return the axes."""
        check_is_fitted(self, "best_estimator_")
        return plotting.net_search(self, ax)
