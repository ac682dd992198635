"""The sums that cross sites at one point, in one vector.

At parameters v a site has a log-likelihood l with gradient and Hessian, and residuals whose coordinates in the span of
its own anchors are t, with E = dt/dv. It sends

    l,  |t|^2,  gradient of -l,  E't,  Hessian of -l,  E'E,  B = sum over rows of 2 (Qt)_i D2 r_i

which is 2 + 2 d + 3 d (d + 1) / 2 numbers, however many anchors there are. From the totals follow loss, gradient and
Hessian for every xi: Hessian of the loss = (H + 2 xi E'E + xi B) / n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective

__all__ = ["FEW", "PointSums", "n_numbers", "n_shared", "packed", "packed_shared"]

Array = NDArray[np.float64]


FEW = "few effective rows"  # why a site keeps its sums at a point to itself


def n_numbers(d: int) -> int:
    """Return how many numbers a site sends for d parameters."""
    return 2 + 2 * d + 3 * (d * (d + 1) // 2)


def packed(objective: Objective, v: Array) -> Array:
    """Return the sums of the rows of one site at v."""
    upper = np.triu_indices(v.size)
    plain = objective.derivatives(v)
    sums = objective.sums(v)
    t, E, H = sums.t, plain.E, plain.matrix
    bend = np.zeros_like(H)
    if t.any() and not objective.affine:
        bend = objective.derivatives(v, 2.0 * t).matrix - H
    head = np.array([sums.loglik, float(t @ t)])
    return np.concatenate([head, plain.gradient, E.T @ t, H[upper], (E.T @ E)[upper], bend[upper]])


def n_shared(d: int, rank: int) -> int:
    """Return how many numbers a site sends for d parameters if sites share anchors of this rank."""
    return 1 + rank + d + rank * d + d * (d + 1) // 2


def packed_shared(objective: Objective, v: Array, multiplier: Array) -> Array:
    """Return the sums of the rows of one site at v, with t and E in the span of anchors that all sites share.

    They are the log-likelihood, t, the gradient of -l, E, and the Hessian of -l + multiplier't.
    """
    found = objective.derivatives(v, multiplier if multiplier.any() else None)
    sums = objective.sums(v)
    parts = [np.array([sums.loglik]), sums.t, found.gradient, found.E.ravel(), found.matrix[np.triu_indices(v.size)]]
    return np.concatenate(parts)


class PointSums(NamedTuple):
    """The totals over sites at one point, with t and E as a root of the Gram matrix of (t, E)."""

    loglik: float
    t: Array
    gradient: Array
    E: Array
    hessian: Array
    bend: Array

    @classmethod
    def of(cls, totals: Array, d: int) -> PointSums:
        """Return the totals in a vector.

        Only |t|^2, E't and E'E are ever used, so that any t and E with these products serve: t has one element.
        """
        size = d * (d + 1) // 2
        cuts = np.cumsum([2, d, d, size, size])
        head, gradient, cross, H, gram, bend = np.split(totals, cuts)
        hessian, inside, curved = (_symmetric(part, d) for part in (H, gram, bend))
        length = float(np.sqrt(max(head[1], 0.0)))
        first = cross / length if length > 0.0 else np.zeros(d)
        values, vectors = np.linalg.eigh(inside - np.outer(first, first))
        rest = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        t = np.zeros(d + 1)
        t[0] = length
        return cls(float(head[0]), t, gradient, np.vstack([first, rest]), hessian, curved)

    @classmethod
    def shared(cls, totals: Array, d: int, rank: int) -> PointSums:
        """Return the totals of ``packed_shared``."""
        head, t, gradient, E, H = np.split(totals, np.cumsum([1, rank, d, rank * d]))
        return cls(float(head[0]), t, gradient, E.reshape(rank, d), _symmetric(H, d), np.zeros((d, d)))

    def curved(self, multiplier: Array | None) -> Array:
        """Return the Hessian with the curvature of the residuals along a multiplier, which is a multiple of t."""
        length = float(self.t[0])
        if multiplier is None or length == 0.0:
            return self.hessian
        return self.hessian + 0.5 * (float(multiplier[0]) / length) * self.bend


def _symmetric(upper: Array, d: int) -> Array:
    """Return a symmetric matrix from its upper triangle."""
    full = np.zeros((d, d))
    full[np.triu_indices(d)] = upper
    return np.asarray(full + np.triu(full, 1).T)
