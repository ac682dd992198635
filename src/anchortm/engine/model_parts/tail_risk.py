"""Losses in which the worst environments count: the tail of the anchor penalty, and the worst place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anchortm.engine.model_parts.contract import MakeLoss, Part
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.tail import TailObjective
from anchortm.engine.objective.worst_places import WorstObjective
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anchortm.engine.formulation import Formulation
    from anchortm.engine.solve.newton import Solution
    from anchortm.engine.specification import Specification

__all__ = ["TailPart", "WorstPart"]

WORST = "WorstEnvironment"
NO_COVARIANCE = {"information": None, "jacobian": None}  # a minimum at a kink has no normal distribution


def place_names(data: Any, what: str) -> tuple[Any, ...]:
    """Return the names of the environments of rows, in memory or not; raise an error if anchors are not one factor."""
    anchors = data.anchors
    if anchors is None:
        argument = "environments" if what == WORST else "anchors"
        raise InputError(
            f"{what} needs environments: pass fit(..., {argument}=...), "
            "or name them after '|' in a formula (y ~ x | place)"
        )
    levels = anchors.levels
    numeric = anchors.columns.shape[1] if data.in_memory else len(anchors.frame.column_names)
    if len(levels) != 1 or numeric:
        raise InputError(
            f"{what} needs environments as one factor, such as a column of names, not several columns or numbers: "
            "use astype(str), or join columns"
        )
    return tuple(levels[0].tolist())


class TailPart(Part):
    """The tail of the anchor penalty: its largest squared mean residuals."""

    key = "tail"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether a share below 1 is asked for, and there are anchors."""
        return spec.tail < 1.0 and data.anchors is not None

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss whose penalty counts the worst environments only."""
        tail = formulation.spec.tail

        def tailed(data: Any) -> Objective:
            names, inner = place_names(data, f"tail = {tail:g}"), make(data)
            assert inner.anchors is not None  # noqa: S101
            assert inner.anchors.shares is not None  # noqa: S101
            return TailObjective(inner, inner.anchors.shares, tail, names)

        return tailed

    def found(
        self, formulation: Formulation, objective: Objective, solution: Solution, own: NDArray[Any]
    ) -> dict[str, Any]:
        """Return which environments decide, and the penalty: the mean of their squared mean residuals."""
        decisive = solution.decisive
        found = {"decisive": decisive, "penalty": float(decisive.weights @ decisive.values)}
        return found | (NO_COVARIANCE if 0.0 < solution.xi < math.inf else {})


class WorstPart(Part):
    """The loss of the worst place in the place of the likelihood of all rows."""

    key = "worst"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether the loss of the worst place is asked for."""
        return spec.worst is not None

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss of the worst place."""
        case = formulation.spec.worst
        assert case is not None  # noqa: S101
        return lambda data: WorstObjective(make(data), case, place_names(data, WORST))

    def found(
        self, formulation: Formulation, objective: Objective, solution: Solution, own: NDArray[Any]
    ) -> dict[str, Any]:
        """Return which places decide."""
        return {"decisive": solution.decisive, "penalty": 0.0} | NO_COVARIANCE
