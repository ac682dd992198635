"""scikit-learn's base classes, with types: it has none of its own, and a base of unknown type hides every mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

__all__ = ["BaseEstimator", "ClassifierMixin", "RegressorMixin"]

if TYPE_CHECKING:

    class BaseEstimator:
        """What we use of scikit-learn's base class."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the arguments of the constructor, by name."""
            ...

        def set_params(self, **params: Any) -> Self:
            """Set arguments of the constructor and return the estimator."""
            ...

        def __sklearn_tags__(self) -> Any: ...

        def __getstate__(self) -> dict[str, Any]: ...

        def __repr__(self, N_CHAR_MAX: int = 700) -> str: ...

    class RegressorMixin:
        """What we use of scikit-learn's mix-in for regressors."""

        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """What we use of scikit-learn's mix-in for classifiers."""

        def __sklearn_tags__(self) -> Any: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
