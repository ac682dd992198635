"""Projections on centred anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.projections import Part, Projection
from anchortm.inputs.anchors import AnchorColumns

__all__ = ["Centred"]

Array = NDArray[np.float64]


class Centred(Projection):
    """The projection on centred anchors, for anchors with the constant in their span.

    The coordinates are those of all anchors, less their part along the constant. ``sums`` are A'W1, if they are known.
    """

    def __init__(
        self, anchors: Projection, weights: Array | None = None, n_rows: int = 0, sums: Array | None = None
    ) -> None:
        self.inner = anchors
        self.rank, self.n_sums, self.dropped = anchors.rank, anchors.n_sums, anchors.dropped
        self.contracts, self.shares = anchors.contracts, anchors.shares
        if sums is None:
            sums = anchors.weight_sums(weights, n_rows)
        constant = anchors.root(sums)
        self._length = float(np.linalg.norm(constant))  # the root of the total weight
        self._constant = constant / self._length

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        return self.inner.part(rows)

    def root(self, sums: Array) -> Array:
        return self._off(self.inner.root(sums))

    def mean(self, sums: Array) -> Array:
        """Return the weighted mean of v from the sums A'Wv."""
        return np.asarray(self._constant @ self.inner.root(sums) / self._length)

    def _off(self, t: Array) -> Array:
        return np.asarray(t - np.multiply.outer(self._constant, self._constant @ t))

    def coefficients(self, t: Array) -> Array:
        return self.inner.coefficients(t)

    def projection_of(self, t: Array) -> Array:
        return self.inner.projection_of(t)

    def gram(self, weights: Array) -> Array:
        return self._off(self._off(self.inner.gram(weights)).T)

    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        return self.inner.cross(M, weights)

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        return Centred(self.inner.subset(rows, weights), weights, rows.size)

    def on(self, anchors: AnchorColumns) -> Projection:
        raise NotImplementedError("made from its rows, not from sums")
