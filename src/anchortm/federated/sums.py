"""The sums that cross sites at one point, in one vector.

At parameters v a site has a log-likelihood l with gradient and Hessian, and residuals whose coordinates in the span of
its own anchors are t, with E = dt/dv. It sends

    l,  gradient of -l,  Hessian of -l,

and for each kind of residual, of the shift and of the scale if there is one,

    |t|^2,  E't,  E'E,  B = sum over rows of 2 (Qt)_i D2 r_i

which is 2 + 2 d + 3 d (d + 1) / 2 numbers with one kind, however many anchors there are. From the totals follow loss,
gradient and Hessian for every xi: Hessian of the loss = (H + 2 xi E'E + xi B) / n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective

__all__ = ["WITHHELD", "PointSums", "Residuals", "n_numbers", "n_shared", "packed", "packed_shared", "symmetric"]

Array = NDArray[np.float64]


# why a site withholds its sums at a point; naming one of the two would show where a row becomes impossible
WITHHELD = "few effective rows, or sums that are not finite"


def n_numbers(d: int, kinds: int = 1) -> int:
    """Return how many numbers a site sends for d parameters and so many kinds of residuals."""
    size = d * (d + 1) // 2
    return 1 + d + size + kinds * (1 + d + 2 * size)


def packed(objective: Objective, v: Array) -> Array:
    """Return the sums of the rows of one site at v; NaN if a row is impossible there."""
    upper = np.triu_indices(v.size)
    found: list[Array] = []
    for own in objective.apart:
        loglik, t = own.sums(v)
        if not np.isfinite(loglik):  # integrals over random effects have no derivatives there
            return np.full(n_numbers(v.size, len(objective.apart)), np.nan)
        plain = own.derivatives(v)
        if not found:
            found += [np.array([loglik]), plain.gradient, plain.matrix[upper]]
        bend = np.zeros_like(plain.matrix)
        if t.any() and not own.affine:
            bend = own.derivatives(v, 2.0 * t).matrix - plain.matrix
        E = plain.E
        found += [np.array([float(t @ t)]), E.T @ t, (E.T @ E)[upper], bend[upper]]
    return np.concatenate(found)


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


class Residuals(NamedTuple):
    """The totals of one kind of residual: t and E as a root of the Gram matrix of (t, E), and the curvature B along t.

    Only |t|^2, E't and E'E are ever used, so that any t and E with these products serve: t has one element.
    """

    t: Array
    E: Array
    bend: Array

    @classmethod
    def of(cls, square: float, cross: Array, gram: Array, bend: Array) -> Residuals:
        """Return them from |t|^2, E't, E'E and B."""
        d, length = cross.size, float(np.sqrt(max(square, 0.0)))
        first = cross / length if length > 0.0 else np.zeros(d)
        values, vectors = np.linalg.eigh(gram - np.outer(first, first))
        rest = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        t = np.zeros(d + 1)
        t[0] = length
        return cls(t, np.vstack([first, rest]), bend)


class PointSums(NamedTuple):
    """The totals over sites at one point."""

    loglik: float
    gradient: Array
    hessian: Array
    kinds: tuple[Residuals, ...]

    @classmethod
    def of(cls, totals: Array, d: int, kinds: int = 1) -> PointSums:
        """Return the totals in a vector."""
        size = d * (d + 1) // 2
        cuts = np.cumsum([1, d, size] + kinds * [1, d, size, size])[:-1]
        head, gradient, H, *rest = np.split(totals, cuts)
        found = []
        for k in range(kinds):
            square, cross, gram, bend = rest[4 * k : 4 * k + 4]
            found.append(Residuals.of(float(square[0]), cross, symmetric(gram, d), symmetric(bend, d)))
        return cls(float(head[0]), gradient, symmetric(H, d), tuple(found))

    @classmethod
    def shared(cls, totals: Array, d: int, rank: int) -> PointSums:
        """Return the totals of ``packed_shared``."""
        head, t, gradient, E, H = np.split(totals, np.cumsum([1, rank, d, rank * d]))
        kind = Residuals(t, E.reshape(rank, d), np.zeros((d, d)))
        return cls(float(head[0]), gradient, symmetric(H, d), (kind,))

    def coordinates(self, mix: Sequence[float] = (1.0,)) -> Array:
        """Return t of all kinds of residuals, each times its share."""
        return np.concatenate([share * own.t for share, own in zip(mix, self.kinds, strict=True)])

    def slopes(self, mix: Sequence[float] = (1.0,)) -> Array:
        """Return dt/dv."""
        return np.vstack([share * own.E for share, own in zip(mix, self.kinds, strict=True)])

    def curved(self, multiplier: Array | None, mix: Sequence[float] = (1.0,)) -> Array:
        """Return the Hessian with the curvature of the residuals along a multiplier, which is a multiple of each t."""
        if multiplier is None:
            return self.hessian
        found, start = self.hessian, 0
        for share, own in zip(mix, self.kinds, strict=True):
            length = float(own.t[0])
            if length > 0.0:
                found = found + 0.5 * share * (float(multiplier[start]) / length) * own.bend
            start += own.t.size
        return found


def symmetric(upper: Array, d: int) -> Array:
    """Return a symmetric matrix from its upper triangle."""
    full = np.zeros((d, d))
    full[np.triu_indices(d)] = upper
    return np.asarray(full + np.triu(full, 1).T)
