"""New rows as functions of a shift of their place, and likelihoods averaged over it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from anchortm._typing import Array
from anchortm.engine.result import FitResult
from anchortm.engine.rows.ends import Ends
from anchortm.engine.rows.likelihood import build_terms
from anchortm.engine.rows.shift_law import ShiftLaw
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedRows
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.inputs import parts
from anchortm.inputs.response import Response
from anchortm.predict.averaged_link import averaged_link, row_averages

__all__ = ["PlacedRows", "check_place", "check_shift"]


def check_place(place: Any) -> bool:
    """Return whether rows are those of a new place; refuse other words than "average" and "new"."""
    if not (isinstance(place, str) and place in ("average", "new")):
        raise InputError(f'place must be "average" or "new", not {place!r}')
    return place == "new"


def check_shift(rows: PlacedRows) -> None:
    """Refuse random effects, which are shifts of their own, unless those of the rows' cluster are known."""
    known = ("random",) if rows.result.random is None else ()
    parts.refuse("places", *(part for part in rows.spec.asked() if part not in known))


class PlacedRows:
    """New rows of a place that may be shifted; ``law`` is that of the shift, None if there is none."""

    spec: Specification
    result: FitResult
    law: ShiftLaw | None

    @abstractmethod
    def outcome_and_parts(self, X: Any, y: Any, offset: Any) -> tuple[Response, Array, Array]:
        """Return the outcome of rows, their baseline and their shift."""

    @abstractmethod
    def logliks(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        """Return log-likelihood and residual of each row."""

    @property
    def link(self) -> Any:
        """The link, averaged over the shift of the place if that is random."""
        return self.result.link if self.law is None else averaged_link(self.result.link, self.law)

    def shifted(self, X: Any, y: Any, offset: Any) -> ShiftedRows:
        """Return the rows as functions of a shift of their place."""
        check_shift(self)
        response, theta, shift = self.outcome_and_parts(X, y, offset)
        return ShiftedEnds(self.result.link, Ends.of(build_terms(self.result.basis, response), theta, shift))

    def loglik(self, X: Any, y: Any, offset: Any) -> Array:
        """Return the log-likelihood of each row."""
        if self.law is None:
            return self.logliks(X, y, offset)[0]
        return row_averages(self.shifted(X, y, offset), self.law)
