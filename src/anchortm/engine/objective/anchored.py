"""Objectives whose residuals are projected on anchors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.projections import Projection

__all__ = ["AnchoredObjective", "InfluenceInputs"]

Array = NDArray[np.float64]


class AnchoredObjective(Objective):
    """The anchor loss of rows: sums over rows become coordinates t in the span of the anchors, and back."""

    def __init__(
        self,
        link: Any,
        coordinates: Coordinates,
        anchors: Projection | None,
        names: tuple[str, ...],
        n_rows: int,
        n_total: float,
    ) -> None:
        self.link, self.coordinates, self.anchors, self.names = link, coordinates, anchors, names
        self.n_rows, self.n_total = n_rows, n_total
        self.n_sums = 0 if anchors is None else anchors.n_sums

    def _root(self, sums: Array) -> Array:
        """Return the coordinates t from the anchors' sums A'Wr."""
        if self.anchors is None:
            return sums
        with np.errstate(over="ignore", invalid="ignore"):  # a trial step may overflow
            return self.anchors.root(sums)

    def _spread(self, t: Array | None) -> Array | None:
        """Return coordinates t as coefficients of the anchors."""
        return None if t is None or self.anchors is None else self.anchors.coefficients(t)


@dataclass(frozen=True, eq=False)
class InfluenceInputs:
    """What the influence of rows is made of, for objectives that do not sum over blocks of rows.

    The influence of row i is (gradient of -l_i + pull'q_i r_i) bread + K'q_i (r_i - q_i't), q_i the row of Q.
    """

    v: Array
    pull: Array
    bread: Array
    K: Array
    every: Array | None = None  # the share of a penalty that each row has
