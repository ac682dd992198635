"""A part that the package does not know, in one file: coefficients that are pulled towards given values."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from anchortm.engine.model_parts import MakeLoss, Part
from anchortm.engine.objective.pulled import Pulled


@dataclass(frozen=True, eq=False)
class PulledCoefficients(Part):
    """Half of ``strength`` times the squared distance of the coefficients from ``centre`` is added to the loss."""

    centre: np.ndarray
    strength: float

    def asked(self, spec: Any, data: Any) -> bool:
        return self.strength > 0.0

    def loss(self, make: MakeLoss, formulation: Any) -> MakeLoss:
        def pulled(data: Any) -> Pulled:
            objective = make(data)
            coordinates = objective.coordinates
            k = coordinates.matrix.shape[0]
            J = coordinates.jacobian[k:]  # d beta / d v
            centre = coordinates.join(np.zeros(k), self.centre)
            centre[: coordinates.n_baseline] = 0.0
            return Pulled(objective, centre, self.strength * J.T @ J)

        return pulled
