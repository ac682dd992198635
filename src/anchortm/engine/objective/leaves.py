"""The anchor loss of rows with a value added to h in each leaf of a tree.

The values u of the leaves are parameters after those of the rows. In standardised parameters,

    h = c'v + sign sum_j (z_j - share_j) u_j / scale_j,

with z_j = 1 in leaf j, share_j the share of the rows in it, and scale_j its standard deviation. The first column of c
is the constant, so that centring moves the first element of v only. All derivatives are sums by leaf (``leaf_sums``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.anchored import AnchoredObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Derivatives, Sums
from anchortm.engine.rows.leaf_sums import LeafSums

__all__ = ["LeafObjective"]

Array = NDArray[np.float64]


class LeafObjective(AnchoredObjective):
    """The anchor loss of rows with a value for each leaf.

    Parameters
    ----------
    rows : RowObjective
        The loss of the rows without the leaves.
    leaf : array of int of shape (n,)
        The leaf of each row, from 0 on.
    n_leaves : int
        Number of leaves.
    sign : float
        Sign of the leaf values in h.
    """

    def __init__(self, rows: RowObjective, leaf: NDArray[np.intp], n_leaves: int, sign: float) -> None:
        c, free = rows.coordinates, np.full(n_leaves, np.inf)
        self.share = np.bincount(leaf, minlength=n_leaves) / leaf.size
        scale = np.sqrt(self.share * (1.0 - self.share))
        wider = replace(
            c,
            mean=np.concatenate([c.mean, sign * self.share]),
            scale=np.concatenate([c.scale, np.where(scale > 0.0, scale, 1.0)]),
            lower=np.concatenate([c.lower, -free]),
            upper=np.concatenate([c.upper, free]),
        )
        names = (*rows.names, *(f"leaf {j}" for j in range(n_leaves)))
        super().__init__(rows.link, wider, rows.anchors, names, rows.n_rows, rows.n_total)
        self.rows, self.leaf, self.sign = rows, leaf, sign
        self.affine = rows.affine
        self._moved = (np.zeros(n_leaves), rows)

    def moved(self, v: Array) -> tuple[RowObjective, Array]:
        """Return the loss of the rows with the values of leaves in their offset, and the parameters of the rows."""
        k = self.rows.n_parameters
        values, own = self.sign * v[k:] / self.coordinates.scale[k:], v[:k].copy()
        own[0] -= self.share @ values
        if not np.array_equal(values, self._moved[0]):
            self._moved = (values, self.rows.shifted(values[self.leaf]))
        return self._moved[1], own

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        rows, own = self.moved(v)
        return rows.sums(own, expected)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        rows, own = self.moved(v)
        d, spread = rows.derivatives(own, multiplier), self._spread(multiplier)
        found = LeafSums.zeros(self.share.size, own.size, self.n_sums)
        for term, values, part in zip(rows.terms, rows.values(own), rows.memory.parts, strict=True):
            found.add(term, values, part, self.leaf[term.rows], spread)
        gradient, across, diagonal, F = found
        hessian = np.block([[d.hessian, across.T], [across, np.diag(diagonal)]])
        J = self._jacobian
        return Derivatives(
            J.T @ np.append(d.gradient, gradient), J.T @ hessian @ J, np.hstack([d.E, self._root(F)]) @ J
        )

    @property
    def _jacobian(self) -> Array:
        """Return the derivatives of the rows' parameters and of what each leaf adds to h."""
        k, size = self.rows.n_parameters, self.share.size
        unit = self.sign / self.coordinates.scale[k:]
        J = np.eye(k + size)
        J[0, k:] = -self.share * unit
        J[k:, k:] = np.diag(unit)
        return J
