"""The Hessian of a loss with the levels of a wide factor: a diagonal block for the levels, plus the anchors' part.

Let u be the parameters without the constant and the levels, and f one parameter for each level, the reference included;
the constant is their common part. Then

    H = [A  B'] + weight [E F]'[E F],     D diagonal.
        [B  D ]

The levels are eliminated exactly: D + weight F'F is inverted by Woodbury's formula, which leaves the Schur complement
on u, a small matrix. H is positive definite if D and the Schur complement are. A level whose own curvature is not
positive is kept with u, so that this stays true. No matrix is levels by levels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from anchortm.engine.rows.coordinates import Coordinates
from anchortm.exceptions import InputError

__all__ = ["Arrow"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FLAT = 1e-8  # a level with less curvature than this, relative to the largest of a level, is kept
MAX_ARRAY = 3000  # most parameters of a Hessian that is turned into a matrix
MAX_KEPT = 1000  # most levels that are kept; with more, their curvature is lifted


class _Split(NamedTuple):
    """The levels that are eliminated (``own``), and the blocks of H by kept and eliminated parameters."""

    own: Mask
    D: Array
    B: Array
    E: Array
    F: Array
    root: Any  # Cholesky factor of I / weight + F D^-1 F'
    schur: Array


@dataclass(frozen=True, eq=False)
class Arrow:
    """H in the parameters that ``Coordinates.unfold`` gives; products and solutions are in those of v."""

    __array_ufunc__ = None  # NumPy leaves vector @ H to this class

    coordinates: Coordinates
    A: Array
    B: Array
    D: Array
    EF: Array
    weight: float = 0.0

    def __rmul__(self, factor: float) -> Arrow:
        return replace(self, A=factor * self.A, B=factor * self.B, D=factor * self.D, weight=factor * self.weight)

    def __matmul__(self, step: Array) -> Array:
        b, w = self.A.shape[0], self.coordinates.unfold(step)
        u, f = w[:b], w[b:]
        product = np.concatenate([self.A @ u + self.B.T @ f, self.B @ u + self.D * f])
        return self.coordinates.fold(product + self.weight * (self.EF.T @ (self.EF @ w)))

    __rmatmul__ = __matmul__

    def toarray(self) -> Array:
        """Return H in v as a matrix; refuse one that is too large."""
        d = self.coordinates.scale.size
        if d > MAX_ARRAY:
            raise InputError(
                f"this needs a matrix of {d} by {d} numbers; with a factor of many levels {MAX_ARRAY} by {MAX_ARRAY} "
                "is the most; use standard_errors() and intervals() at xi = 0, which need no such matrix"
            )
        whole = np.block([[self.A, self.B.T], [self.B, np.diag(self.D)]]) + self.weight * (self.EF.T @ self.EF)
        return self.coordinates.fold(self.coordinates.fold(whole).T)

    @property
    def _places(self) -> Any:
        assert self.coordinates.wide is not None  # noqa: S101
        return self.coordinates.wide

    @cached_property
    def _split(self) -> _Split:
        share = np.maximum(self._places.share, 1e-300)
        least = FLAT * share * float((self.D / share).max())
        own, D, b = least < self.D, self.D, self.A.shape[0]
        if (~own).sum() > MAX_KEPT:
            own, D = np.ones_like(own), np.maximum(np.abs(D), least)
        kept = np.append(np.arange(1, b), b + np.flatnonzero(~own))
        E, F = self.EF[:, kept], self.EF[:, b:][:, own]
        B = np.hstack([self.B[own, 1:], np.zeros((int(own.sum()), kept.size - b + 1))])
        beside = self.B[~own, 1:]
        inner = np.block([[self.A[1:, 1:], beside.T], [beside, np.diag(self.D[~own])]])
        D = D[own]
        scaled = B / D[:, None]
        schur = inner - B.T @ scaled
        root = None
        if self.weight and F.size:
            root = la.cho_factor(np.eye(F.shape[0]) / self.weight + (F / D) @ F.T)
            rest = E - F @ scaled
            schur = schur + rest.T @ la.cho_solve(root, rest)
        return _Split(own, D, B, E, F, root, schur)

    @property
    def schur(self) -> Array:
        """Return the Hessian after the levels are eliminated: of u and the levels that are kept."""
        return self._split.schur

    def _invert(self, right: Array) -> Array:
        """Return (D + weight F'F)^-1 right over the eliminated levels."""
        s = self._split
        first = (right.T / s.D).T
        if s.root is None:
            return np.asarray(first)
        return np.asarray(first - ((s.F.T @ la.cho_solve(s.root, s.F @ first)).T / s.D).T)

    def _across(self, step: Array) -> Array:
        """Return the rows of H for the eliminated levels times a step of the others."""
        s = self._split
        return np.asarray(s.B @ step + self.weight * (s.F.T @ (s.E @ step)))

    def _down(self, step: Array) -> Array:
        """Return the rows of H for the others times a step of the eliminated levels."""
        s = self._split
        return np.asarray(s.B.T @ step + self.weight * (s.E.T @ (s.F @ step)))

    def _gather(self, gradient: Array) -> tuple[Array, Array]:
        """Return a gradient in v as one in the kept parameters and one in the eliminated levels."""
        rest, sparse, levels, _, sign = self._places
        mean, scale = self.coordinates.mean, self.coordinates.scale
        u = gradient[rest]
        first = gradient[0]
        u[rest.size - sparse.size :] += first * (mean / scale)[sparse]
        f = sign * (scale[levels] * gradient[levels] + first * mean[levels])
        f = np.concatenate([[first - f.sum()], f])
        own = self._split.own
        return np.concatenate([u[1:], f[~own]]), f[own]

    def _scatter(self, kept: Array, levels_step: Array) -> Array:
        """Return a step in v from steps of the kept parameters and the eliminated levels."""
        own, b = self._split.own, self._places.rest.size
        f = np.empty(own.size)
        f[own], f[~own] = levels_step, kept[b - 1 :]
        return self.coordinates.from_levels(kept[: b - 1], f)

    def free(self, binding: Mask) -> Mask:
        """Return which of the kept parameters are not held by a bound."""
        rest = self._places.rest
        return np.concatenate([~binding[rest[1:]], np.ones(self.schur.shape[0] - rest.size + 1, dtype=bool)])

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return the bounds of the kept parameters."""
        rest = self._places.rest[1:]
        none = np.full(self.schur.shape[0] - rest.size, np.inf)
        return np.concatenate([lower[rest], -none]), np.concatenate([upper[rest], none])

    def reduce(self, gradient: Array) -> Array:
        """Return the gradient in the kept parameters, with the eliminated levels at their best for each value."""
        kept, levels = self._gather(gradient)
        return np.asarray(kept - self._down(self._invert(levels)))

    def recover(self, step: Array, gradient: Array | None = None) -> Array:
        """Return the step in v that minimises the model with this gradient, given the step of the kept parameters."""
        right = self._across(step)
        if gradient is not None:
            right = right + self._gather(gradient)[1]
        return self._scatter(step, -self._invert(right))

    def solve(self, right: Array, binding: Mask) -> Array:
        """Return H^-1 right over the parameters that are not held by a bound."""
        free = self.free(binding)
        step = np.zeros(free.size)
        step[free] = np.linalg.solve(self.schur[np.ix_(free, free)], -self.reduce(-right)[free])
        return self.recover(step, -right)

    def smallest_eigenvalue(self, binding: Mask) -> float:
        """Return the smallest eigenvalue of H in v, over the parameters that are not held by a bound.

        If H curves down it is the curvature in one such direction, an upper bound of the eigenvalue.
        """
        free = self.free(binding)
        values, vectors = np.linalg.eigh(self.schur[np.ix_(free, free)])
        if values[0] <= FLAT * values[-1]:
            step = np.zeros(free.size)
            step[free] = vectors[:, 0]
            step = self.recover(step)
            return float(step @ (self @ step) / (step @ step))
        d, use = binding.size, ~binding

        def inverse(x: Array) -> Array:
            return np.where(use, self.solve(np.where(use, x.ravel(), 0.0), binding), 0.0)

        operator = LinearOperator((d, d), matvec=inverse, dtype=np.float64)
        start = np.random.default_rng(0).normal(size=d) * use
        try:
            found = eigsh(operator, k=1, which="LA", v0=start, tol=1e-7, return_eigenvectors=False)
        except ArpackNoConvergence as error:  # its inverse is an upper bound of the smallest curvature
            found = error.eigenvalues if error.eigenvalues.size else [start @ start / (start @ inverse(start))]
        return float(1.0 / found[0])

    def curves(self, binding: Mask, least: float) -> bool:
        """Return whether each level, and the Schur complement of the others, has more curvature than ``least``."""
        free = self.free(binding)
        levels = bool((least * self._places.share < self.D).all())
        return levels and bool(np.linalg.eigvalsh(self.schur[np.ix_(free, free)])[0] > least)

    def variances(self, free: Mask) -> Array:
        """Return the diagonal of J H^-1 J', J = d(theta, beta)/dv, over the parameters that are ``free``."""
        rest, sparse, levels, _, _ = self._places
        coordinates, k = self.coordinates, self.coordinates.n_baseline
        own = self._split.own
        inside = self.free(~free)
        inverse = np.zeros_like(self.schur)
        inverse[np.ix_(inside, inside)] = np.linalg.inv(self.schur[np.ix_(inside, inside)])
        d = coordinates.scale.size
        result = np.empty(coordinates.matrix.shape[0] + d - k)
        # of the levels: f_l - f_0, with f = D^-1-like inverse + K inverse K'
        if not own.all() or self._split.root is not None:
            raise InputError(
                "standard errors are not available: some levels of the factor have no curvature, or xi is not 0"
            )
        K = self._split.B / self._split.D[:, None]
        difference = K[1:] - K[0]
        shift = coordinates.matrix.shape[0] - k
        result[levels.start + shift : levels.stop + shift] = (
            1.0 / self._split.D[1:] + 1.0 / self._split.D[0] + np.einsum("ij,jk,ik->i", difference, inverse, difference)
        )
        # of the rest: rows of the Jacobian in (u, f_0), the constant being f_0 less the means of u
        raw = np.diag(1.0 / coordinates.scale[rest])
        raw[0] = -coordinates.mean[rest] / coordinates.scale[rest]
        raw[0, 0], raw[0, rest.size - sparse.size :] = 1.0, 0.0
        J = np.vstack([coordinates.matrix @ raw[:k], raw[k:]])
        joint = np.zeros((rest.size, rest.size))
        joint[1:, 1:] = inverse
        joint[0, 1:] = joint[1:, 0] = -K[0] @ inverse
        joint[0, 0] = 1.0 / self._split.D[0] + K[0] @ inverse @ K[0]
        parts = np.einsum("ij,jk,ik->i", J, joint, J)
        at = np.concatenate([np.arange(coordinates.matrix.shape[0]), rest[k:] + shift])
        result[at] = parts
        return result
