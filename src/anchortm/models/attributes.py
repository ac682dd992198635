"""Fitted attributes: they read the result of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from anchortm.bases import Basis
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.decisive import Decisive
from anchortm.engine.problem import Problem
from anchortm.engine.recalibration.record import Recalibration
from anchortm.engine.result import FitResult
from anchortm.engine.specification import Specification
from anchortm.engine.two_effects import TwoEffects
from anchortm.exceptions import UnavailableError
from anchortm.predict.fitted import NOT_AT_HAND
from anchortm.predict.new_rows import NewRows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FRONT", "FittedAttributes", "Found", "not_fitted"]

Array = NDArray[np.float64]
T = TypeVar("T")

FRONT = {"formula_", "transformers_"}  # what stands before a model and makes its covariates of new rows


def not_fitted(model: Any) -> NotFittedError:
    """Return the error for a model that has no fit yet, in scikit-learn's words."""
    return NotFittedError(
        f"This {type(model).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before using "
        "this estimator."
    )


class Found(Generic[T]):
    """A fitted attribute: it returns the field of the result with the same name, without the underscore.

    If that field is None, the attribute does not exist: ``hasattr`` returns False.
    """

    def __init__(self, *path: str) -> None:
        self.path = path

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name
        self.path = self.path or (name.removesuffix("_"),)

    @overload
    def __get__(self, model: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, model: Any, owner: type[Any]) -> T: ...
    def __get__(self, model: Any, owner: type[Any]) -> Any:
        if model is None:
            return self
        value = self._result(model)
        for name in self.path:
            value = None if value is None else getattr(value, name)
        if value is None:
            raise UnavailableError(f"this fit of {type(model).__name__} does not have {self.name}")
        return value

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is a result of the fit and cannot be set")

    def _result(self, model: Any) -> Any:
        """Return the object that holds the attribute."""
        return model.result_


class FittedAttributes:
    """The fitted attributes that all models share."""

    _result: FitResult | None = None
    _problem: Problem | None = None
    _fitted_with: Specification | None = None  # the arguments of the fit, whatever ``set_params`` changes later
    _rows_type: type[NewRows] = NewRows

    @property
    def result_(self) -> FitResult:
        """Return all results of the fit as one frozen object."""
        if self._result is None:
            raise not_fitted(self)
        return self._result

    @property
    def problem_(self) -> Problem:
        """Return the problem that was solved, with its rows; raise an error if these are lost or have changed."""
        result = self.result_
        if self._problem is None:
            raise UnavailableError(NOT_AT_HAND)
        if not np.array_equal(self._problem.data.fingerprint(), result.fingerprint):  # type: ignore[arg-type]
            raise UnavailableError(
                "X has been changed in place since the fit, so the influence of its rows cannot be computed: fit again"
            )
        return self._problem

    @property
    def has_rows_(self) -> bool:
        """Return whether the model still has the rows of its fit; a pickled or saved model does not."""
        return self._problem is not None

    @property
    def rows_used_(self) -> NDArray[np.intp]:
        """Return the positions of the rows of the fit among those that were passed, counted from 0.

        Rows of weight zero are not among them, nor rows that ``missing="drop"`` left out.
        """
        self.result_  # noqa: B018 - raises an error if there is no fit
        if self._problem is None:
            raise UnavailableError(NOT_AT_HAND)
        if not self._problem.data.in_memory:
            raise UnavailableError(
                "rows_used_ needs the rows in memory, but these were read in batches: missing_ has the numbers of rows "
                "with missing values by column, n_missing_ that of rows that were dropped"
            )
        return self._problem.data.rows_used  # type: ignore[no-any-return]

    def __sklearn_is_fitted__(self) -> bool:
        return self._result is not None

    link_ = Found[Any]()
    basis_ = Found[Basis]()
    baseline_ = Found[Array]()
    coef_ = Found[Array]()
    coef_names_ = Found[list[str]]()
    covariate_names_ = Found[list[str]]()
    parameter_names_ = Found[list[str]]()
    n_parameters_ = Found[int]()
    support_ = Found[tuple[float, float]]()
    classes_ = Found[NDArray[Any]]()
    feature_names_in_ = Found[NDArray[Any]]()
    n_features_in_ = Found[int]()
    xi_ = Found[float]()
    l1_ = Found[float]()
    l2_ = Found[float]()
    smooth_ = Found[float]()
    edf_ = Found[dict[str, float]]()
    loglik_ = Found[float]()
    loss_ = Found[float]()
    penalty_ = Found[float]()
    environment_multipliers_ = Found["pd.Series"]("decisive", "multipliers")
    decisive_ = Found[Decisive]()
    converged_ = Found[bool]()
    n_iter_ = Found[int]()
    kkt_ = Found[float]()
    min_eigenvalue_ = Found[float]()
    convexity_ = Found[str]()
    folds_ = Found[tuple[float, ...]]()
    lower_minima_ = Found[list[float]]()
    active_ = Found[NDArray[np.bool_]]()
    warnings_ = Found[list[str]]()
    n_rows_ = Found[int]()
    n_total_ = Found[float]()
    row_kinds_ = Found[dict[str, int]]()
    n_missing_ = Found[int]()
    missing_ = Found[dict[str, int]]()
    n_anchors_ = Found[int]()
    dropped_anchors_ = Found[tuple[str, ...]]()
    dropped_classes_ = Found[tuple[Any, ...]]()
    float_codes_ = Found[tuple[str, ...]]()
    atom_ = Found[float]()
    widened_ = Found[float]()
    target_shift_ = Found[float]()
    recalibration_ = Found[Recalibration]()
    covariate_ranges_ = Found[Array]()
    outcome_range_ = Found[tuple[float, float]]()
    outcome_name_ = Found[str]()
    time_ = Found[bool]()
    environment_sd_ = Found[float]("shares", "sd")
    scale_coef_ = Found[Array]("scale", "coef")
    scale_names_ = Found[list[str]]("scale", "names")
    xi_scale_ = Found[float]("scale", "xi")
    penalty_scale_ = Found[float]("scale", "penalty")

    @property
    def environment_weights_(self) -> pd.Series:
        """Return the share of each environment in the likelihood; they add up to 1."""
        return self._shares("likelihood", "environment_weights")

    @property
    def anchor_weights_(self) -> pd.Series:
        """Return the share of each environment in the penalty; they add up to 1."""
        return self._shares("penalty", "anchor_weights")

    def _shares(self, of: str, name: str) -> pd.Series:
        import pandas as pd

        shares = getattr(self.result_.shares, of, None)
        if shares is None:
            raise UnavailableError(f"this fit does not have {name}_: each row counts alike; set {name}, as in 'equal'")
        return pd.Series(shares, name=name, dtype=np.float64).rename_axis("environment")

    @property
    def history_(self) -> pd.DataFrame:
        """Return one row for each iteration: xi, loss, KKT residual, active bounds, kind of step and its length."""
        import pandas as pd

        return pd.DataFrame(self.result_.history)

    @property
    def baselines_(self) -> pd.DataFrame:
        """Return the parameters of the baseline, one row for each stratum and each varying effect."""
        import pandas as pd

        result, names = self.result_, ["baseline"]
        if result.corners is not None:
            strata = result.corners.strata
            names = [*(names if strata is None else strata.labels), *result.corners.varying_names]
        return pd.DataFrame(result.baseline.reshape(len(names), -1), names, result.basis.parameter_names)

    def _effects(self) -> RandomEffects | TwoEffects:
        random = self.result_.random
        if random is None:
            raise UnavailableError(
                "this model has no random effects: name the clusters in random, or write (1 | cluster) in a formula"
            )
        return random

    @property
    def random_cov_(self) -> pd.DataFrame:
        """Return the covariance matrix of the random effects, in the units of the covariates."""
        import pandas as pd

        names = list(self._effects().effects.names)
        return pd.DataFrame(self._effects().covariance, names, names)

    @property
    def random_sd_(self) -> pd.Series:
        """Return the standard deviations of the random effects."""
        import pandas as pd

        cov = self.random_cov_
        return pd.Series(np.sqrt(np.diag(cov)), cov.index)

    @property
    def random_effects_(self) -> pd.DataFrame:
        """Return the posterior means and standard deviations of each cluster's effects, and its number of rows.

        With two random terms they are the most likely effects, with standard deviations by the Laplace approximation.
        """
        return self._effects().table()

    @property
    def n_clusters_(self) -> int:
        """Return the number of clusters with random effects."""
        return self._effects().n_clusters
