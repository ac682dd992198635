"""Residuals of the environments given the covariates: linear, logistic, a forest, or any scikit-learn regressor.

Predictions of a flexible regression on its own training rows can reproduce the environments, which leaves nothing to
test. Forests therefore predict rows out of bag, and other regressors are cross-fitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor

from anchortm.diagnostics.environment_columns import EnvironmentColumns
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError
from anchortm.models.glm import AnchorGLM

__all__ = ["REGRESSIONS", "Regression", "RegressionName", "Regressor", "regression_of"]

Array = NDArray[np.float64]

RegressionName = Literal["linear", "logistic", "forest", "none"]
FOLDS = 5
TREES, SMALLEST_LEAF = 500, 5
TOLERANCE = 1e-10  # tolerance of logistic regressions


class Regressor(Protocol):
    """A regressor of scikit-learn."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit to rows."""

    def predict(self, X: Any) -> Any:
        """Return predicted numbers."""


def centred(A: Array, weights: Array | None) -> Array:
    """Return columns less their means."""
    return np.asarray(A - np.average(A, axis=0, weights=weights))


class Regression(ABC):
    """A way to predict the environments from the covariates."""

    name: str

    def __call__(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return the residuals of the columns of A given the columns of X; without columns, less the mean."""
        return self.residuals(A, X, weights) if X.shape[1] else centred(A.matrix, weights)

    @abstractmethod
    def residuals(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return the residuals given at least one column of X."""


class NoRegression(Regression):
    """The mean alone."""

    name = "none"

    def residuals(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return the columns less their means."""
        return centred(A.matrix, weights)


class Linear(Regression):
    """Least squares on a constant and the covariates."""

    name = "linear"

    def residuals(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return the residuals of least squares."""
        return least_squares(A.matrix, X, weights)


def least_squares(A: Array, X: Array, weights: Array | None) -> Array:
    """Return the residuals of A given a constant and X, by an orthogonal basis of both."""
    root = np.ones(X.shape[0]) if weights is None else np.sqrt(weights)
    Q = np.linalg.qr(root[:, None] * np.column_stack([np.ones(X.shape[0]), centred(X, weights)]))[0]
    own = root[:, None] * A
    for _ in range(2):  # the second time removes what rounding left
        own = own - Q @ (Q.T @ own)
    return np.asarray(own / root[:, None])


class Logistic(Regression):
    """Logistic regression of the indicator of each level, least squares for numbers."""

    name = "logistic"

    def residuals(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return indicators less their fitted probabilities, and residuals of least squares for numbers."""
        found = np.empty(A.matrix.shape)
        for j, indicator in enumerate(A.indicator):
            column = A.matrix[:, j]
            if not indicator:
                found[:, j] = least_squares(column[:, None], X, weights)[:, 0]
                continue
            problem = AnchorGLM(family="binomial", tol=TOLERANCE).problem(X, column, sample_weight=weights)
            try:
                solution = problem.solve()[0]
            except AnchorTMError as error:
                raise InputError(
                    f"the logistic regression of {A.names[j]} failed: {error}; use regression='linear'"
                ) from None
            found[:, j] = problem.objective.residuals(solution.v)  # mean - y: T does not depend on signs
        return found


@dataclass(frozen=True)
class Forest(Regression):
    """A random forest, predicted out of bag."""

    seed: int
    name = "forest"

    def residuals(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return the columns less the predictions of trees that have not seen the row."""
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(
            TREES, min_samples_leaf=SMALLEST_LEAF, max_features="sqrt", oob_score=True, random_state=self.seed
        )
        one = A.matrix.shape[1] == 1
        forest.fit(X, A.matrix[:, 0] if one else A.matrix, sample_weight=weights)
        return np.asarray(A.matrix - np.reshape(forest.oob_prediction_, A.matrix.shape))


@dataclass(frozen=True)
class CrossFitted(Regression):
    """A regressor of scikit-learn, fitted to four fifths of the rows to predict the others."""

    regressor: Any
    seed: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name of its class."""
        return type(self.regressor).__name__

    def residuals(self, A: EnvironmentColumns, X: Array, weights: Array | None) -> Array:
        """Return the columns less what fits to other rows predict."""
        from sklearn.model_selection import KFold

        found = np.empty_like(A.matrix)
        for train, test in KFold(FOLDS, shuffle=True, random_state=self.seed).split(X):
            extra = {} if weights is None else {"sample_weight": weights[train]}
            for j in range(found.shape[1]):
                fitted = self._fresh().fit(X[train], A.matrix[train, j], **extra)
                found[test, j] = A.matrix[test, j] - np.asarray(fitted.predict(X[test]), dtype=np.float64).ravel()
        return found

    def _fresh(self) -> Any:
        """Return a copy to fit; one that takes a seed and has none gets ours."""
        fresh = clone(self.regressor)
        unset = "random_state" in (own := fresh.get_params(deep=False)) and own["random_state"] is None
        return fresh.set_params(random_state=self.seed) if unset else fresh


REGRESSIONS = ("linear", "logistic", "forest", "none")


def regression_of(given: RegressionName | Regressor, seed: int) -> Regression:
    """Return the regression that a name or a regressor stands for."""
    named = {"linear": Linear(), "logistic": Logistic(), "forest": Forest(seed), "none": NoRegression()}
    if isinstance(given, str):
        if given not in named:
            raise InputError(
                f"regression must be {', '.join(map(repr, REGRESSIONS))} or a regressor of scikit-learn, not {given!r}"
            )
        return named[given]
    if not (hasattr(given, "fit") and hasattr(given, "predict") and is_regressor(given)):
        raise InputTypeError(
            f"regression must be {', '.join(map(repr, REGRESSIONS))} or a regressor of scikit-learn, such as "
            f"HistGradientBoostingRegressor(), not {given!r}"
        )
    return CrossFitted(given, seed)
