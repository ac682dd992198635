"""The loss of shift and scale effects of rows at several sites."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.location_scale import ScaledCoordinates, ScaledLoss
from anchortm.engine.objective.protocol import Point
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.exceptions import SeparationError
from anchortm.federated.objective import FederatedObjective

__all__ = ["FederatedScaled"]


class FederatedScaled(ScaledLoss, FederatedObjective):
    """The anchor loss of shift and scale effects; sites send the sums of both kinds of residuals, each on its own."""

    coordinates: ScaledCoordinates
    mix: tuple[float, float] = (1.0, 1.0)

    def __init__(self, plain: FederatedObjective, n_scale: int, names: tuple[str, ...], xi_scale: float | None) -> None:
        self.__dict__ |= plain.__dict__
        self.remote = plain.remote.sized(plain.remote.d, 2)
        self.coordinates, self.names = ScaledCoordinates.of(plain.coordinates, n_scale), names
        self.affine = False  # h is not linear in the parameters
        self.n_scale, self.xi_scale = n_scale, xi_scale
        k, at = self.coordinates.n_baseline, self.coordinates
        self._m = (at.mean / at.scale)[k : at.scale.size - n_scale]
        self._linear = plain.coordinates
        self.extra_names = names[len(names) - n_scale :]

    @property
    def row_coordinates(self) -> Coordinates:
        return self._linear

    def restricted(self, columns: NDArray[np.intp]) -> FederatedScaled:
        result, places = copy(self), self.coordinates.places(columns)
        result.coordinates = self.coordinates.restricted(columns)
        result.names = tuple(self.names[j] for j in columns)
        result.places = places if self.places is None else self.places[places]
        result._m = self._m[columns[columns < self._m.size]]
        result.n_scale = result.coordinates.z_mean.size
        result.extra_names = result.names[len(result.names) - result.n_scale :]
        return result

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if scale effects lie in flat directions; else ask sites about the shift."""
        if self.held or point is None:
            super().check_maximum(point)
            return
        names = self.undetermined(point)[1]
        if names:
            raise SeparationError(
                f"the rows do not determine the scale: along {', '.join(names)} the likelihood rises by less and less, "
                "or not at all (a group that the shift explains without error, or without rows in some class?); leave "
                "it out of scale, or merge levels or classes"
            )
