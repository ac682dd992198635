"""The contract of a part of a model: when it is asked for, and what it does to the loss, the parameters and the result.

A part changes how the loss is made from rows. ``Formulation`` starts from the loss of the rows themselves and lets each
part that is asked for wrap the recipe, in the order of ``PARTS``. A new part is one new file with a subclass of
``Part``. To try one without listing it there, pass it in ``Specification.more``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective
from anchortm.exceptions import InputError
from anchortm.inputs.splines import Marks

if TYPE_CHECKING:
    from anchortm.engine.formulation import Formulation
    from anchortm.engine.solve.newton import Solution
    from anchortm.engine.specification import Specification

__all__ = ["MakeLoss", "Part"]

Array = NDArray[np.float64]
MakeLoss = Callable[[Any], Objective]  # turns rows into their loss


class Part:
    """One part of a model. Override what the part does; by default it does nothing."""

    #: the key of the part in the table of combinations, ``inputs.parts``
    key: ClassVar[str] = ""

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether a specification asks for the part, given the rows."""
        raise NotImplementedError

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return how the loss is made with the part, from how it is made without."""
        return make

    def afar(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the same for rows that are elsewhere and answer by sums: they make their loss with the part there."""
        raise InputError(f"the part {self.key!r} needs the rows: it is not implemented for sites that share sums only")

    def settle(self, objective: Objective, formulation: Formulation, data: Any) -> Objective:
        """Return the loss after all parts have wrapped it, with what only the whole loss can decide."""
        return objective

    def names(self, spec: Specification, data: Any) -> tuple[str, ...]:
        """Return the names of the parameters that the part adds after the coefficients."""
        return ()

    def marks(self, spec: Specification, data: Any) -> Marks:
        """Return the smooth term of each parameter that the part adds, if any."""
        return (None,) * len(self.names(spec, data))

    def theta(self, spec: Specification, theta: Array, own: Array, rows: Any) -> Array:
        """Return the baseline of each row, or of all; ``own`` are the parameters that the part adds."""
        return theta

    def found(self, formulation: Formulation, objective: Objective, solution: Solution, own: Array) -> dict[str, Any]:
        """Return the fields of the result that the part fills; ``own`` are the parameters that it adds."""
        return {}
