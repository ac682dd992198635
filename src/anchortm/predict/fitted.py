"""The interface of fitted models, for code that does not know their class."""

from __future__ import annotations

from typing import Protocol

from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.predict.new_rows import NewRows

__all__ = ["NOT_AT_HAND", "Fitted", "HasRows"]

NOT_AT_HAND = (
    "this needs the rows of the fit, which a pickled or saved model does not carry: fit again; standard errors of the "
    "default kind are kept, and those of kind='sandwich' if you ask for them before"
)


class HasRows(Protocol):
    """A fitted model of any kind, boosted ones included: what it makes of new rows."""

    @property
    def new_rows_(self) -> NewRows:
        """Return what turns new rows into the numbers that the model needs."""
        ...


class Fitted(HasRows, Protocol):
    """A fitted model whose parameters can be asked about: it also has a result, and its rows if these are available."""

    @property
    def result_(self) -> FitResult:
        """Return everything that the fit found."""
        ...

    @property
    def problem_(self) -> Problem:
        """Return the problem that was solved, with its rows; refused if these are not available."""
        ...

    @property
    def has_rows_(self) -> bool:
        """Return whether the rows of the fit are available."""
        ...
