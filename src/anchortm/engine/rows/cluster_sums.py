"""Sums over the rows of clusters, from which everything about exact normal rows with random effects follows.

The columns of a cluster's random effects are Z_g = Q_g U_g with orthonormal Q_g and a triangular U_g. Its rows C_g (the
last column is the offset) have the coordinates c_g = Q_g'C_g along Q_g, and what is left are its rows *within*,
C_g - Q_g c_g. With Sigma the covariance of the effects, e = C v the residuals without effects and f = c v,

    V_g = I + Z_g Sigma Z_g',     D_g = U_g Sigma U_g',     H_g = (I + D_g)^-1
    V_g^-1 e_g = (e_g - Q_g f_g) + Q_g H_g f_g,     e_g'V_g^-1 e_g = |e_g - Q_g f_g|^2 + f_g'H_g f_g

so nothing cancels, however much clusters differ. Two passes over the rows make these sums; after them nothing depends
on the number of rows. Arrays of clusters have the clusters last, or before the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.projections import Projection
from anchortm.engine.rows.standardised import Rows
from anchortm.inputs.clusters import Clusters

__all__ = ["ClusterColumns", "ClusterSums", "Shrinkage", "closed_rows", "products"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Values = Callable[[Array], tuple[Array, Array, Array]]

SPANNED = 1e-24  # squared length of a column of a cluster, relative to its own, that counts as zero


class Shrinkage(NamedTuple):
    """What depends on Sigma alone, for each of G clusters with q effects."""

    H: Array  # (q, q, G)
    K: Array  # (q, q, G), U'HU = Z'V^-1 Z
    log_det: Array  # (G,), of V


@dataclass(frozen=True, eq=False)
class ClusterColumns:
    """The columns of the q random effects of G clusters, Z = Q U."""

    code: Codes  # the cluster of each row
    Q: Array  # (n, q)
    U: Array  # (q, q, G), upper-triangular

    @classmethod
    def of(cls, clusters: Clusters) -> ClusterColumns:
        """Return the columns of clusters that have rows."""
        found, code = clusters.gapless()
        return cls(code, *_orthonormal(clusters.Z, code, found.size))

    def spread(self) -> sp.csr_matrix:
        """Return Q as a matrix of shape (n, q G)."""
        (n, q), G = self.Q.shape, self.U.shape[2]
        places = (self.code[:, None] + G * np.arange(q)).ravel()
        return sp.csr_matrix((self.Q.ravel(), places, np.arange(0, n * q + 1, q)), shape=(n, q * G))

    def shrinkage(self, L: Array) -> Shrinkage:
        """Return H, K and log det V of each cluster, with Sigma = LL'."""
        UL = products(self.U, L[:, :, None])
        D = products(UL, UL.swapaxes(0, 1))
        if L.shape[0] == 1:
            H, more = 1.0 / (1.0 + D), D[0, 0]
        else:
            # det(I + D) = 1 + tr D + det D, all of them at least 0
            more = D[0, 0] + D[1, 1] + (UL[0, 0] * UL[1, 1] - UL[0, 1] * UL[1, 0]) ** 2
            H = np.array([[1.0 + D[1, 1], -D[0, 1]], [-D[1, 0], 1.0 + D[0, 0]]]) / (1.0 + more)
        return Shrinkage(H, products(self.U.swapaxes(0, 1), products(H, self.U)), np.log1p(more))

    def at_rows(self, values: Array) -> Array:
        """Return Q times values of clusters, of shape (q, G) or (q, G, m), at each row."""
        first, *others = (
            (own if values.ndim == 2 else own[:, None]) * part[self.code]
            for own, part in zip(self.Q.T, values, strict=True)
        )
        return np.asarray(sum(others, first))


@dataclass(frozen=True, eq=False)
class ClusterSums(ClusterColumns):
    """The sums of clusters, for rows with d parameters."""

    c: Array  # (q, G, d + 1)
    T: Any  # A'WQ of shape (anchor sums, q G): an array, or sparse; None without anchors

    @classmethod
    def of_rows(cls, rows: Rows, clusters: Clusters, anchors: Projection | None, weights: Array | None) -> ClusterSums:
        """Return the sums of exact rows, which are all rows of the data, in their order."""
        columns = ClusterColumns.of(clusters)
        spread, (q, _, G) = columns.spread(), columns.U.shape
        c = np.zeros((q * G, rows.C.shape[1] + 1))
        c[:, :-1] = spread.T @ rows.C
        if rows.offset is not None:
            c[:, -1] = spread.T @ rows.offset
        T = None if anchors is None else anchors.cross(spread, weights)
        return cls(columns.code, columns.Q, columns.U, c.reshape(q, G, -1), T)

    def remove(self, rows: Codes, C: Array) -> Array:
        """Return the columns C of these rows within clusters."""
        code, width = self.code[rows], C.shape[1]
        for column, part in zip(self.Q[rows].T, self.c, strict=True):
            C = C - column[:, None] * part[code, :width]
        return C


def closed_rows(values: Values, clusters: Clusters, tau: Array) -> tuple[Array, Array]:
    """Return an equal share of each exact normal row in the log-likelihood of its cluster, and its marginal residual.

    The log-likelihood of a cluster is that of its rows at the most likely effects u, less (u'u + log det V) / 2.
    """
    own, L = ClusterColumns.of(clusters), clusters.effects.root(tau)
    with np.errstate(all="ignore"):
        loglik, e = (part[:, 0] for part in values(np.zeros((own.code.size, 1)))[:2])
        if not np.isfinite(loglik).all():  # some rows are impossible, whatever the effects
            bad = np.bincount(own.code, ~np.isfinite(loglik)) > 0
            return np.where(bad[own.code], -np.inf, loglik), e
        H, _, log_det = own.shrinkage(L)
        f = (own.spread().T @ e).reshape(H.shape[1:])
        g = products(H, f[:, None])[:, 0]
        loglik, r = (part[:, 0] for part in values(own.at_rows(g - f)[:, None])[:2])
    u = L.T @ products(own.U.swapaxes(0, 1), g[:, None])[:, 0]
    total = np.bincount(own.code, loglik) - 0.5 * ((u**2).sum(axis=0) + log_det)
    return (total / np.bincount(own.code))[own.code], r


def products(A: Array, B: Array) -> Array:
    """Return the products of small matrices, one for each cluster, whose axis comes last and may have length 1.

    Sums of whole vectors are many times faster here than einsum or matmul, which take one cluster after the other.
    """
    rows = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in B.swapaxes(0, 1)] for row in A]
    return np.array(rows)


def _orthonormal(Z: Array, code: Codes, G: int) -> tuple[Array, Array]:
    """Return Q and U of each cluster, by Gram and Schmidt; a column that others span becomes 0."""
    q = Z.shape[1]
    Q, U = np.zeros(Z.shape), np.zeros((q, q, G))
    for b in range(q):
        left = Z[:, b].copy()
        for a in 2 * list(range(b)):  # twice, for what rounding leaves of nearly collinear columns
            along = np.bincount(code, Q[:, a] * left, minlength=G)
            left -= along[code] * Q[:, a]
            U[a, b] += along
        size, whole = (np.bincount(code, column**2, minlength=G) for column in (left, Z[:, b]))
        U[b, b] = np.where(size > SPANNED * whole, np.sqrt(size), 0.0)
        Q[:, b] = left * np.divide(1.0, U[b, b], out=np.zeros(G), where=U[b, b] > 0.0)[code]
    return Q, U
