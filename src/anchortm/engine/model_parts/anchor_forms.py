"""What is known about numeric anchors: their distribution at a target, or two noisy proxies of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.model_parts.contract import MakeLoss, Part
from anchortm.engine.objective.formed import FormedObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.anchor_forms import proxy_form, target_form
from anchortm.inputs.targets import numeric_anchors

if TYPE_CHECKING:
    from anchortm.engine.formulation import Formulation
    from anchortm.engine.solve.newton import Solution
    from anchortm.engine.specification import Specification

__all__ = ["ProxyPart", "TargetPart"]

Array = NDArray[np.float64]

SMALLER = (
    "the covariance of the target is smaller than that of the training rows in some direction, which needs exact "
    "outcomes and the normal link (NormalLinear, ContinuousProbit): with others the loss has no minimum; give a "
    "covariance that is at least as large, or leave it out to keep that of the training rows"
)
INDEFINITE = (
    "proxies need exact outcomes and the normal link (NormalLinear, ContinuousProbit): their penalty is negative in "
    "some directions, and with others the loss has no minimum; use one of the proxies as a plain anchor, which "
    "protects against smaller shifts"
)


def _plain(make: MakeLoss, data: Any) -> RowObjective:
    """Return the loss with the projection on the anchors, all covariates as columns of numbers."""
    made = make(data.without_wide())
    assert isinstance(made, RowObjective)  # noqa: S101 - anchors come before other parts
    return made


class TargetPart(Part):
    """A target where the anchors have another mean and covariance. The reported model is that of the target."""

    key = "target"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether there is a target."""
        return spec.target is not None

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss at the target."""

        def targeted(data: Any) -> Objective:
            anchors = numeric_anchors(data.anchors, "target")
            form = target_form(formulation.spec.target, anchors, data.weights)
            return FormedObjective(_plain(make, data), form, 0.5, SMALLER)

        return targeted

    def found(self, formulation: Formulation, objective: Objective, solution: Solution, own: Array) -> dict[str, Any]:
        """Return the penalty and the shift; see ``Problem.result`` for what the shift does."""
        shift = objective.unpenalised.target_shift(solution.v)
        return {"form": self.key, "penalty": _penalty(objective, solution), "target_shift": shift}


class ProxyPart(Part):
    """Anchors that are measured twice with errors."""

    key = "proxies"

    def asked(self, spec: Specification, data: Any) -> bool:
        """Return whether anchors are proxies."""
        return spec.proxies is not None

    def loss(self, make: MakeLoss, formulation: Formulation) -> MakeLoss:
        """Return the loss with the cross-moments of the proxies."""

        def crossed(data: Any) -> Objective:
            anchors = numeric_anchors(data.anchors, "proxies")
            form = proxy_form(formulation.spec.proxies, anchors, data.weights)
            return FormedObjective(_plain(make, data), form, None, INDEFINITE)

        return crossed

    def found(self, formulation: Formulation, objective: Objective, solution: Solution, own: Array) -> dict[str, Any]:
        """Return the penalty."""
        return {"form": self.key, "penalty": _penalty(objective, solution)}


def _penalty(objective: Objective, solution: Solution) -> float:
    return objective.unpenalised.penalties(solution.v)[0] / objective.n_total
