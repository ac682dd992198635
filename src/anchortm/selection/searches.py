"""Choose xi, and the smoothness, by predicting left-out environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import real_numbers
from anchortm._util.estimators import BaseEstimator
from anchortm._util.frames import name_of
from anchortm._util.html import EstimatorInNotebook, Table, report
from anchortm._util.pipelines import model_of
from anchortm._util.progress import Task
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import remarked
from anchortm.engine.specification import named_columns
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.anchors import group_codes
from anchortm.inputs.design import split_columns
from anchortm.inputs.formula import Formula
from anchortm.inputs.missing import Missing
from anchortm.inputs.splines import wiggly
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.from_formula import FormulaMixin
from anchortm.models.given import Given, given, whole
from anchortm.models.pipeline import as_pipeline, fit_arguments, with_parameters
from anchortm.selection.batches import LeftOut
from anchortm.selection.choice import best_of, level_of, objectives
from anchortm.selection.folds import Grid
from anchortm.selection.left_out import LeaveOneEnvironmentOut, left_out

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SmoothSearchCV", "XiSearchCV"]


class XiSearchCV(EstimatorInNotebook, FormulaMixin, BaseEstimator):
    """Choose the xi that best predicts left-out environments, and fit the model with it.

    Parameters
    ----------
    model : estimator
        Any model of this package, or a pipeline that ends in one; its own xi is not used. The transformers of a
        pipeline are fitted again without each left-out environment.
    xis : sequence of float
        Values of xi to choose from.
    objective : {"worst", "mean"} or float
        What to minimise: the largest mean negative log-likelihood over left-out environments ("worst"), its average
        ("mean"), or one of its quantiles (a number between 0 and 1).
    one_standard_error : bool
        With "mean": choose the smallest xi whose average is within one standard error of the best. This is the
        standard error, over environments, of the difference from the best xi.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_xi_ : float
        The chosen xi.
    best_estimator_ : estimator
        The model at ``best_xi_``, fitted to all rows.
    results_ : DataFrame
        The objective and the hardest environment for each xi. With "mean" also the average difference from the best
        xi, and its standard error over environments.
    loeo_ : LeaveOneEnvironmentOut
        The negative log-likelihood of each left-out environment at each xi.
    n_passes_ : int or None
        How often the table was read, if it is read in batches.

    See Also
    --------
    anchortm.xi_by_score_test, anchortm.gamma_from_quantile : other ways to choose xi

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> search = atm.XiSearchCV(atm.OrdinalRegression(), [0, 3, 10], objective="worst")
    >>> search.fit(formula, data)
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
    n_passes_: int | None

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
        X: Covariates | str,
        y: Outcome | AnyTable,
        *,
        anchors: Labels | None = None,
        environments: Labels | None = None,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
    ) -> Self:
        """Leave out each environment at each xi, choose xi, and fit the model with it to all rows.

        Parameters
        ----------
        X, y : covariates and outcome
            As for ``fit`` of the model; or a formula and a table, ``fit(formula, data)``.
        anchors : array, series, frame or list of columns, optional
            Anchors of the fits; by default the environments.
        environments : array, optional
            Environments to leave out; by default the anchors, or the column in the model's ``anchor_names``.
        sample_weight, offset : arrays, optional
            As for ``fit`` of the model. Of a table these, and the environments, may be names of columns.

        Returns
        -------
        self
            The fitted search.
        """
        level = level_of(self.objective, self.one_standard_error)
        model = as_pipeline(self.model)
        inner = model_of(model) if self._by == ("xi",) else model
        check_model(inner, {"lambda": "l1", "smooth": "smooth"}.get(self._by[0], "searches"))
        beside = {"environments": environments, "sample_weight": sample_weight, "offset": offset}
        if isinstance(X, str):
            return self._fit_formula(X, y, anchors, **beside)
        rows = whole(model, X=X, y=y, anchors=anchors, **beside)
        with Task(type(self).__name__, 1, self.progress), rows as (found, missing):
            return self._fit(level, missing, **found)

    def _fit(
        self,
        level: float | None,
        missing: Missing | None,
        X: Any,
        y: Any,
        anchors: Any,
        environments: Any,
        sample_weight: Any,
        offset: Any,
    ) -> Self:
        """Fit to whole rows; arguments as for ``fit``."""
        model = as_pipeline(self._searched())
        named = model.anchor_names is not None
        if environments is None:
            columns = named_columns(model.anchor_names, "anchor_names")
            environments = split_columns(X, columns)[1] if named else anchors
        if environments is None:
            raise InputError("pass anchors=, or environments= to leave out, or name them in a formula after '|'")
        name = name_of(environments)
        if anchors is None and not named:
            groups, labels = group_codes(environments, self.cut)  # the same for all fits
            environments = anchors = labels[groups]
        rows = Given(model, X, y, anchors, sample_weight, offset, environments, missing=missing)
        found = left_out(rows, self._problems(), self._by, self.xis, self.cut, self.n_jobs, self.progress)
        found = found._replace(environment_name=name)
        results = objectives(LeaveOneEnvironmentOut(found.rows, "").frame(), self._by, level)
        at = best_of(results, self._by, self.one_standard_error)
        best = with_parameters(as_pipeline(self.model), **self._parameters(*at))
        given = {"anchors": anchors, "sample_weight": sample_weight, "offset": offset}
        groups, labels = group_codes(environments, self.cut)  # boosting may hold some out to choose its rounds
        best.fit(X, y, **fit_arguments(best, given | {"environments": labels[groups]}))
        self._keep(found, results, at, best)
        return self

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any, environments: Any = None) -> Self:
        """Return the search by a table that is read in batches."""
        level = level_of(self.objective, self.one_standard_error)
        columns = {"sample_weight": sample_weight, "offset": offset, "environments": environments}
        rows = given(self._searched(), formula, data, **columns)
        found = left_out(rows, self._problems(), self._by, self.xis, self.cut, self.n_jobs, self.progress)
        assert found.full is not None  # noqa: S101
        results = objectives(LeaveOneEnvironmentOut(found.rows, "").frame(), self._by, level)
        at = best_of(results, self._by, self.one_standard_error)
        wanted, xi = self._parameters(*at), at[-1]
        assert found.given is not None  # noqa: S101
        at_xi = [problem.at(xi=xi) for problem in found.problems]
        (j,) = (j for j, own in enumerate(at_xi) if all(getattr(own.spec, name) == x for name, x in wanted.items()))
        problem, result = at_xi[j], found.full[j, xi]  # the fit to all rows, from which left-out fits started
        result = remarked(problem, problem.fit() if problem.spec.n_restarts else result)
        best = found.given.reading(found.given.model.with_result(problem, result, **wanted), problem)
        self._keep(found, results, at, best)
        self.formula_ = best.formula_
        return self

    def _keep(self, found: LeftOut, results: pd.DataFrame, at: tuple[float, ...], best: Any) -> None:
        """Store the results in one assignment, so that an interrupted or failed search leaves the object unchanged."""
        about = (type(model_of(self.model)).__name__, self._by, found.n_passes, found.n_missing, found.environment_name)
        loeo = LeaveOneEnvironmentOut(found.rows, *about)
        chosen = {f"best_{name}_": value for name, value in zip(self._by, at, strict=True)}
        own = {"loeo_": loeo, "results_": results, "best_estimator_": best, "n_passes_": found.n_passes}
        self.__dict__.pop("formula_", None)  # of an earlier fit
        self.__dict__.update(own | chosen)

    def _searched(self) -> Any:
        """Return the model that prepares the rows."""
        return self.model

    def _problems(self) -> Grid | None:
        """Return the function that makes the problems of a grid of penalties; None if only xi differs."""
        return None

    def _parameters(self, *at: float) -> dict[str, float]:
        """Return the arguments of the model for one row of the table of results."""
        return {"xi": at[0]}

    def _read_tables(self, formula: Formula) -> None:
        self.formula_ = self.best_estimator_.formula_ = formula

    def predict(self, X: Covariates, **options: Any) -> Any:
        """Return the predictions of the chosen model; arguments as for its ``predict``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, **options)

    def predict_distribution(self, X: Covariates, **options: Any) -> Any:
        """Return the predicted distributions of the chosen model; arguments as for its ``predict_distribution``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_distribution(X, **options)

    def predict_quantiles(self, X: Covariates, quantiles: Numbers = (0.1, 0.5, 0.9), **options: Any) -> Any:
        """Return the predicted quantiles of the chosen model; arguments as for its ``predict_quantiles``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_quantiles(X, quantiles, **options)

    def nll(self, X: Covariates, y: Outcome | None = None, **options: Any) -> Any:
        """Return the negative log-likelihood of each row under the chosen model; arguments as for its ``nll``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.nll(X, y, **options)

    def summary(self, **options: Any) -> Any:
        """Return the summary of the chosen model; arguments as for its ``summary``."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.summary(**options)

    def score(self, X: Covariates, y: Outcome | None = None, *, offset: Numbers | None = None) -> float:
        """Return the mean log-likelihood of rows under the chosen model; arguments as for its ``score``."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, offset=offset))

    def plot(self, ax: Axis = None) -> Any:
        """Draw the objective against xi, with the choice marked, and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self, "best_estimator_")
        return plotting.xi_search(self, ax)

    @shown
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "best_xi_"):
            return super().__repr__(N_CHAR_MAX)
        return "\n".join([self._title(), self.results_.to_string(), *self.loeo_.remarks])

    def _title(self) -> str:
        chosen = ", ".join(f"{name} = {getattr(self, f'best_{name}_'):g}" for name in self._by)
        return f"{type(self).__name__}({type(model_of(self.model)).__name__}, {self.objective}): {chosen}"

    def _found(self) -> str | None:
        if not hasattr(self, "best_xi_"):
            return None
        at = tuple(getattr(self, f"best_{name}_") for name in self._by)
        chosen = self.results_.index.get_loc(at if len(at) > 1 else at[0])
        return report(self._title(), Table(self.results_, chosen=[chosen]), *self.loeo_.remarks)


class SmoothSearchCV(XiSearchCV):
    """Choose the smoothness and the xi that best predict left-out environments, and fit the model with them.

    Parameters
    ----------
    model : estimator
        Any model of this package with smooth terms; its own xi and smooth are not used.
    xis, smooths : sequences of float
        Values of xi and smooth to choose from.
    objective : {"worst", "mean"} or float
        What to minimise: the largest mean negative log-likelihood over left-out environments ("worst"), its average
        ("mean"), or one of its quantiles (a number between 0 and 1).
    one_standard_error : bool
        With "mean": among the fits whose average is within one standard error of the best, choose the largest smooth,
        and then the smallest xi. This is the standard error, over environments, of the difference from the best.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    n_jobs, progress : optional
        As for ``leave_one_environment_out``.

    Attributes
    ----------
    best_smooth_, best_xi_ : float
        The chosen values.
    best_estimator_ : estimator
        The model with these values, fitted to all rows.
    results_ : DataFrame
        The objective and the hardest environment for each smooth and xi. With "mean" also the average difference from
        the best, and its standard error over environments.
    loeo_ : LeaveOneEnvironmentOut
        The negative log-likelihood of each left-out environment for each smooth and xi.
    n_passes_ : int or None
        How often the table was read, if it is read in batches.

    See Also
    --------
    anchortm.XiSearchCV : chooses xi alone
    anchortm.ElasticNetCV : chooses an elastic net and xi

    Notes
    -----
    Knots, and the range outside which curves are straight lines, come from the covariates of all rows, including
    left-out environments. Outcomes of left-out environments are not used.

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
        """Return the values of smooth, the largest first."""
        strengths = np.unique(real_numbers(self.smooths, "smooths"))[::-1]
        if not (strengths.size and np.isfinite(strengths).all() and strengths[-1] >= 0.0):
            raise InputError("smooths must be finite numbers, at least 0")
        return [float(strength) for strength in strengths]

    def _searched(self) -> Any:
        if not isinstance(self.model, TransformationModel):
            raise InputTypeError("SmoothSearchCV needs a model with its own smooth terms: for boosting use XiSearchCV")
        return clone(self.model).set_params(smooth=self._strengths()[0])

    def _problems(self) -> Grid | None:
        def problems(problem: Problem, _: list[float]) -> list[Problem]:
            if not wiggly(problem.data.marks).any():
                raise InputError("there are no smooth terms, s(x) in a formula: use XiSearchCV")
            return [problem.at(smooth=strength) for strength in self._strengths()]

        return problems

    def _parameters(self, *at: float) -> dict[str, float]:
        return {"smooth": at[0], "xi": at[1]}

    def plot(self, ax: Axis = None) -> Any:
        """Draw the objective against smooth, one line for each xi, and return the axes.

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
