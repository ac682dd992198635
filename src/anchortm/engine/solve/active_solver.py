"""Solving with a positive definite matrix on changing subsets of its rows and columns.

One subset has a Cholesky factor, H_00 = R'R. On another one, with some indices a more and some r less,

    [H_00 B; B' D] [x_0; y] = [b_0; (b_a, 0)],    B = [H_0a, e_r],  D = [H_aa 0; 0 0],

x_0 vanishes at r, and y are x_a and multipliers. With Z = R^-T B the Schur complement is D - Z'Z. The columns of Z are
kept, so that a subset that differs a little from an earlier one costs little; if Z grows the factor is made anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrs

from anchortm.engine.solve.quadratic_program import cholesky

__all__ = ["ActiveSolver"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.intp]

MOST_CHANGES = 0.25  # most changes, relative to the size of the factor, and
FEW_CHANGES = 8


class _Change(NamedTuple):
    """A subset relative to that of the factor: indices more and less, their Z, and factors of Schur complements."""

    free: Mask
    more: Codes
    less: Codes
    Za: Array
    Zr: Array
    inner: Array | None
    outer: Array | None


class ActiveSolver:
    """Solves H_FF x = b for subsets F, which may change from call to call."""

    def __init__(self, H: Array) -> None:
        self.H = H
        self._at: Codes = np.zeros(0, dtype=np.intp)  # the subset of the factor
        self._root: Array | None = None
        self._Z = np.zeros((0, 0))
        self._place = np.full(H.shape[0], -1)  # place of each index in Z
        self._latest: _Change | None = None

    def solve(self, free: Mask, right: Array) -> Array | None:
        """Return the solution on the subset ``free`` for right-hand sides in the rows of all indices.

        It is zero elsewhere; None if the matrix is not safely positive definite there.
        """
        if not free.any():
            return np.zeros_like(right)
        if self._latest is None or not np.array_equal(self._latest.free, free):
            self._latest = self._change(free)
        change, x = self._latest, np.zeros_like(right)
        if change is None or self._root is None:
            return None
        if not change.more.size and not change.less.size:
            x[self._at] = dpotrs(self._root, right[self._at])[0]
            return x
        x[free] = right[free]
        z = solve_triangular(self._root, x[self._at], trans="T", check_finite=False)
        if change.inner is not None:  # what is left without these
            z = z - change.Zr @ dpotrs(change.inner, change.Zr.T @ z)[0]
        if change.outer is not None:
            x[change.more] = dpotrs(change.outer, right[change.more] - change.Za.T @ z)[0]
            z = z - change.Za @ x[change.more]
        x[self._at] = solve_triangular(self._root, z, check_finite=False)
        x[change.less] = 0.0
        return x

    def _change(self, free: Mask) -> _Change | None:
        """Return how a subset differs from that of the factor; a new factor if it differs much."""
        inside = np.zeros(free.size, dtype=bool)
        inside[self._at] = True
        new = np.flatnonzero((free != inside) & (self._place < 0))
        if self._root is None or self._Z.shape[1] + new.size > FEW_CHANGES + MOST_CHANGES * self._at.size:
            if not self._factored(free):
                return None
            inside, new = free, new[:0]
        elif new.size:
            B = self.H[np.ix_(self._at, new)]
            B[:, inside[new]] = self._at[:, None] == new[inside[new]]
            self._place[new] = self._Z.shape[1] + np.arange(new.size)
            self._Z = np.hstack([self._Z, solve_triangular(self._root, B, trans="T", check_finite=False)])
        more, less = np.flatnonzero(free & ~inside), np.flatnonzero(inside & ~free)
        Za, Zr, inner, outer = self._Z[:, self._place[more]], self._Z[:, self._place[less]], None, None
        if less.size:
            inner = cholesky(Zr.T @ Zr)
            if inner is None:
                return None
            Za = Za - Zr @ dpotrs(inner, Zr.T @ Za)[0] if more.size else Za
        if more.size:
            outer = cholesky(self.H[np.ix_(more, more)] - Za.T @ Za)
            if outer is None:
                return None
        return _Change(free.copy(), more, less, Za, Zr, inner, outer)

    def _factored(self, free: Mask) -> bool:
        """Make the factor of a subset; return whether the matrix is safely positive definite there."""
        at = np.flatnonzero(free)
        root = cholesky(self.H[np.ix_(at, at)].T)  # in Fortran's order
        if root is None:
            return False
        self._at, self._root, self._Z = at, root, np.zeros((at.size, 0))
        self._place[:] = -1
        return True
