"""Sums over the levels of two random intercepts, from which everything about exact normal rows with them follows.

Z has a column of ones for each level of either term, N = Z'Z has two diagonal blocks n_1, n_2 and the sparse block B of
pairs of levels. Rows C (the last column is the offset) are C_w + Z beta, where beta nearly removes the means of levels,
so that nothing cancels however much these differ. With e = C v = e_w + Z f, s_w = Z'e_w, L diagonal, Sigma = L^2:

    V = I + Z Sigma Z',     P = (I + Sigma N)^-1 = L (I + L N L)^-1 L^-1,     K = Z'V^-1 Z = N P
    V^-1 e = e_w + Z q,     q = P (f - Sigma s_w),     x = Z'V^-1 e = s_w + N q,     e'V^-1 e = |e_w|^2 + s_w'q + f'x

The larger term is eliminated: with D = I + L_1^2 n_1 and W = D^-1 B, only R = n_2 - L_1^2 B'W and I + L_2^2 R, of the
size of the smaller term, are dense.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.laplace import Pairs
from anchortm.engine.rows.projections import Projection
from anchortm.engine.rows.standardised import Rows

__all__ = ["PairSums", "Resolved"]

Array = NDArray[np.float64]

SWEEPS = 4  # rounds in which means of levels are removed


@dataclass(frozen=True, eq=False)
class PairSums:
    """The sums of G levels of both terms, the larger term first, for rows with d parameters."""

    pairs: Pairs
    sizes: Array  # (G,), rows of each level
    B: sp.csr_matrix
    beta: Array  # (G, d + 1)
    S: Array  # (G, d + 1), Z'C_w
    T: Any  # A'WZ of shape (anchor sums, G): an array, or sparse; None without anchors

    @classmethod
    def of(cls, rows: Rows, pairs: Pairs, anchors: Projection | None, weights: Array | None) -> PairSums:
        """Return the sums of exact rows, which are all rows of the data, in their order."""
        (first, second), m, n = pairs.codes, pairs.sizes[0], pairs.codes[0].size
        places = np.column_stack([first, m + second]).ravel()
        Z = sp.csr_matrix((np.ones(2 * n), places, np.arange(0, 2 * n + 1, 2)), shape=(n, sum(pairs.sizes)))
        B = sp.csr_matrix((np.ones(n), (first, second)), shape=pairs.sizes)
        sizes = np.asarray(Z.sum(axis=0)).ravel()
        total, beta = np.zeros((2, sizes.size, rows.C.shape[1] + 1))
        total[:, :-1] = Z.T @ rows.C
        if rows.offset is not None:
            total[:, -1] = Z.T @ rows.offset
        for _ in range(SWEEPS):
            beta[m:] = (total[m:] - B.T @ beta[:m]) / sizes[m:, None]
            beta[:m] = (total[:m] - B @ beta[m:]) / sizes[:m, None]
        made = cls(pairs, sizes, B, beta, total, None if anchors is None else anchors.cross(Z, weights))
        return replace(made, S=total - made.times(beta))

    def remove(self, rows: Any, C: Array) -> Array:
        """Return C_w of these rows, from their columns C."""
        m, width = self.pairs.sizes[0], C.shape[1]
        first, second = (codes[rows] for codes in self.pairs.codes)
        return np.asarray(C - self.beta[first, :width] - self.beta[m + second, :width])

    def times(self, y: Array) -> Array:
        """Return N y."""
        m, sizes = self.pairs.sizes[0], self.sizes if y.ndim == 1 else self.sizes[:, None]
        result = sizes * y
        result[:m] += self.B @ y[m:]
        result[m:] += self.B.T @ y[:m]
        return np.asarray(result)


class Resolved:
    """P and K at entries L of the larger and the smaller term; raises LinAlgError if they overflow."""

    def __init__(self, sums: PairSums, L: tuple[float, float]) -> None:
        self.sums, self.m = sums, sums.pairs.sizes[0]
        self.L = np.repeat(L, sums.pairs.sizes)
        (self.first, self.second), B = (entry**2 for entry in L), sums.B
        self.n, self.D = sums.sizes[: self.m], 1.0 + self.first * sums.sizes[: self.m]
        self.W = sp.diags(1.0 / self.D) @ B
        self.R = np.diag(sums.sizes[self.m :]) - self.first * (B.T @ self.W).toarray()
        if not np.isfinite(self.R).all():
            raise np.linalg.LinAlgError
        self.root = np.linalg.cholesky(np.eye(len(self.R)) + self.second * self.R)

    @property
    def log_det(self) -> Array:
        """Return log det V as a sum over levels."""
        return np.append(np.log(self.D), 2.0 * np.log(np.diag(self.root)))

    def _solve(self, y: Array) -> Array:
        """Return (I + L N L)^-1 y."""
        m, L, B = self.m, self.L if y.ndim == 1 else self.L[:, None], self.sums.B
        D = self.D if y.ndim == 1 else self.D[:, None]
        right = y[m:] - L[m:] * (B.T @ (L[:m] * y[:m] / D))
        second = la.cho_solve((self.root, True), right, check_finite=False)
        return np.concatenate([(y[:m] - L[:m] * (B @ (L[m:] * second))) / D, second])

    def shrunk(self, y: Array, s: Array) -> Array:
        """Return P (y - Sigma s), for vectors or columns."""
        L = self.L if y.ndim == 1 else self.L[:, None]
        return np.asarray(L * self._solve(y / L - L * s))

    def turned(self, y: Array) -> Array:
        """Return P'y."""
        return np.asarray(self._solve(self.L * y) / self.L)

    def traces(self, weights: Array) -> tuple[Array, Array]:
        """Return the weighted traces of the blocks K_11 and K_22, and those of K_ab K_ba for a and b from 1 to 2."""
        m, W = self.m, self.W
        w, v = weights[:m], weights[m:]
        inverse = la.cho_solve((self.root, True), np.eye(len(self.R)), check_finite=False)
        ratio = self.n / self.D
        G = weighted = (W.T @ W).toarray()
        if (w != 1.0).any():
            weighted = (W.T @ sp.diags(w) @ W).toarray()
        along = (W.T @ sp.diags(w * ratio) @ W).toarray()
        # K_11 = n/D - L_2^2 W inverse W', K_12 = W inverse, K_22 = R inverse
        inner, K = inverse @ G, self.R @ inverse
        first = [w @ ratio - self.second * (inverse * weighted).sum(), v @ np.diag(K)]
        squares = w @ ratio**2 - 2.0 * self.second * (inverse * along).sum()
        squares += self.second**2 * ((inverse @ weighted) * inner.T).sum()
        across = (inner @ inverse).diagonal() @ v
        return np.array(first), np.array([[squares, across], [across, v @ (K * K.T).sum(axis=1)]])
