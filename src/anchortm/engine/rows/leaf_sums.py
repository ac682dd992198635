"""Sums over rows by the leaf of a tree: no matrix is rows by leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.block_sums import weighted
from anchortm.engine.rows.projections import Part
from anchortm.engine.rows.standardised import Rows
from anchortm.links import RowValues

__all__ = ["LeafSums"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class LeafSums(NamedTuple):
    """Derivatives in a value that each leaf adds to h.

    With the columns of Z indicating leaves, these are the gradient Z'r, Z'R C, the diagonal of Z'R Z, and the anchors'
    sums of r' Z, where R are the curvatures of the rows.
    """

    gradient: Array
    across: Array
    diagonal: Array
    F: Array

    @classmethod
    def zeros(cls, n_leaves: int, n_parameters: int, n_sums: int) -> LeafSums:
        """Return the sums of no rows."""
        return cls(
            np.zeros(n_leaves), np.zeros((n_leaves, n_parameters)), np.zeros(n_leaves), np.zeros((n_sums, n_leaves))
        )

    def add(self, data: Rows, t: RowValues, part: Part | None, leaf: Codes, spread: Array | None) -> None:
        """Add the rows of one term, whose values are t; R has their curvature along ``spread``, unless it is None."""
        m, size = leaf.size, self.gradient.size

        def w(values: Array) -> Array:
            return weighted(data.weights, data.sign, values)

        both, cross = t.dr, t.r_d
        if spread is not None and part is not None:
            bend = part.spread(spread)
            both, cross = both + t.penalised.d2r * bend, cross + t.r_hd * bend
        both, ends = w(both), np.arange(m + 1)
        self.gradient[:] += np.bincount(leaf, w(t.r), size)
        self.diagonal[:] += np.bincount(leaf, both, size)
        k = self.across.shape[1] - data.C.shape[1]  # rows with two ends have their baseline elsewhere
        self.across[:, k:] += sp.csc_matrix((both, leaf, ends), shape=(size, m)) @ data.C
        if data.ends is not None:
            Z = sp.csr_matrix((np.ones(m), leaf, ends), shape=(m, size))
            self.across[:, :k] += data.ends.cross(both, w(cross), Z).T
        if part is not None:
            part.add_codes(self.F, w(t.penalised.dr), leaf)
