"""scikit-learn's base classes, with types: it has none of its own, and a base of unknown type hides every mistake."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Self

__all__ = ["BaseEstimator", "ClassifierMixin", "CopiedWithRows", "RegressorMixin"]

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


class CopiedWithRows:
    """An estimator whose copies share the rows of its fit, which never change. Its pickles leave them out."""

    _rows_in: ClassVar[str]  # name of the attribute that holds the rows

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = object.__new__(type(self))
        memo[id(self)] = made
        own = {name: value for name, value in self.__dict__.items() if name != self._rows_in}
        made.__dict__ |= self.__dict__ | deepcopy(own, memo)
        return made
