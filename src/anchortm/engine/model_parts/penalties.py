"""Penalties on coefficients: an elastic net, and the roughness of smooth terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anchortm.engine.model_parts.contract import MakeLoss, Part
from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.turned import netted, untangled

if TYPE_CHECKING:
    from anchortm.engine.formulation import Formulation
    from anchortm.engine.specification import Specification

__all__ = ["CollinearPart", "PenaltyPart"]


class PenaltyPart(Part):
    """An elastic net, and smoothing, which is a ridge on the coefficients of curves.

    The net shrinks shift effects, and scale effects where ``penalty_factor`` names them. Smoothing applies to the
    curves of both.
    """

    key = "l2"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether some coefficients have a penalty."""
        return spec.penalised(data.marks)

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss with the penalty; with more columns than rows it is solved in the span of the rows."""
        spec = formulation.spec

        def penalised(data: Any) -> Objective:
            added = formulation.added(data)
            if not data.in_memory:
                return Net.of(make(data), data.penalty(spec, added))
            return netted(data, spec.design_penalty(data.design, data.weights, added), make)

        return penalised

    def afar(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss with the penalty, which needs no rows."""
        return self.loss(make, formulation)


class CollinearPart(Part):
    """Nearly collinear covariates, whose loss is computed in columns that are orthogonal up to a constant."""

    key = "collinear"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether covariates are nearly collinear, and nothing else determines their coefficients."""
        alone = spec.scale is None and data.clusters is None and not spec.penalised(data.marks)
        return bool(data.near) and alone

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss in turned columns."""
        return lambda data: untangled(data, make)
