"""Moments of the rows of clusters under the distribution of their random effects given the data.

Given u, h is linear in all parameters, the entries of L included: its row is (c_gj, z_gj u'). With pi the weights of
the nodes given the data, s the derivative of sum_j l_gj in the parameters and r_gj the residual given u,

    dl_g    = E[s],      the marginal residual   rbar_gj = E[r_gj] = -dl_g/dh_gj
    -D2 l_g = E[-s'] - Cov(s, s),               d rbar_gj = E[dr_gj] + Cov(r_gj, s)

(Fisher's and Louis' identities), and with R = sum_j m_j r_gj for a multiplier m of rows, the curvature of the sum of
m_j rbar_gj is

    E[R''] + Cov(R', s) + Cov(s, R') + Cov(R, s') + E[(R - E R)(s - E s)(s - E s)']
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.cluster_rows import Chunk
from anchortm.engine.rows.quadrature import Posterior
from anchortm.inputs.clusters import Effects
from anchortm.links import RowValues

__all__ = ["ClusterMoments"]

Array = NDArray[np.float64]


class ClusterMoments:
    """Moments of one chunk of clusters at v; the first ``n_fixed`` parameters are those of the rows c."""

    def __init__(
        self, link: Any, effects: Effects, n_baseline: int, chunk: Chunk, found: Posterior, v: Array, n_fixed: int
    ) -> None:
        self.chunk, self.found = chunk, found
        self.k, self.d0, self.d = n_baseline, n_fixed, v.size
        self.entries = effects.places
        self.pi = found.weights[chunk.code]  # (rows, nodes)
        self.u = found.u
        shift = np.einsum("jq,jkq->jk", chunk.Z @ effects.root(v[n_fixed:]), found.u[chunk.code])
        self.r, self.dr = np.zeros(shift.shape), np.zeros(shift.shape)
        self.terms: list[RowValues] = []
        self.slopes: list[Array | None] = []
        for piece in chunk.pieces:
            t = piece.values(link, v, shift[piece.own])
            self.terms.append(t)
            self.slopes.append(piece.slope(v))
            self.r[piece.own] += piece.data.sign * t.r
            self.dr[piece.own] += piece.data.sign * t.dr
        self.rbar = (self.pi * self.r).sum(axis=1, keepdims=True)
        # (clusters, nodes, d), without the terms log h', which do not depend on u
        self.s = self._sums([(-t.r, t.l_d) for t in self.terms], -self.r)

    def _sums(self, by_piece: list[tuple[Array, Array | None]], total: Array) -> Array:
        """Return sums over clusters of values times the rows (c, z u'); each piece has values for c and for D."""
        G, K, _ = self.u.shape
        result = np.zeros((G, K, self.d))
        for piece, (both, own) in zip(self.chunk.pieces, by_piece, strict=True):
            sign = piece.data.sign
            for j in range(self.d0):
                result[:, :, j] += piece.of @ (sign * both * piece.C[:, j, None])
            if own is not None and piece.D is not None:
                for j in range(self.k):
                    result[:, :, j] += piece.of @ (sign * own * piece.D[:, j, None])
        along = [self.chunk.of @ (total * z[:, None]) for z in self.chunk.Z.T]
        for e, (a, b) in enumerate(zip(*self.entries, strict=True)):
            result[:, :, self.d0 + e] = along[a] * self.u[:, :, b]
        return result

    def _rows(self, by_piece: list[tuple[Array, Array | None]], total: Array) -> Array:
        """Return for each row the sum over nodes of its values times the row (c, z u')."""
        result = np.zeros((self.chunk.rows.size, self.d))
        for piece, (both, own) in zip(self.chunk.pieces, by_piece, strict=True):
            sign = piece.data.sign
            result[piece.own, : self.d0] += sign * both.sum(axis=1)[:, None] * piece.C
            if own is not None and piece.D is not None:
                result[piece.own, : self.k] += sign * own.sum(axis=1)[:, None] * piece.D
        for e, (a, b) in enumerate(zip(*self.entries, strict=True)):
            result[:, self.d0 + e] = self.chunk.Z[:, a] * (total * self.u[self.chunk.code, :, b]).sum(axis=1)
        return result

    def row_gradients(self) -> Array:
        """Return the shares of rows in the gradient of -l, without weights."""
        by_piece = []
        for piece, t in zip(self.chunk.pieces, self.terms, strict=True):
            pi = self.pi[piece.own]
            by_piece.append((pi * t.r, None if piece.D is None else -pi * t.l_d))
        result = self._rows(by_piece, self.pi * self.r)
        for piece, slope in zip(self.chunk.pieces, self.slopes, strict=True):
            if slope is not None and piece.data.slope is not None:
                result[piece.own, : self.k] -= piece.data.slope / slope[:, None]
        return result

    def gradient(self) -> Array:
        """Return the gradient of -loglik."""
        return np.asarray(self.chunk.weights[self.chunk.code] @ self.row_gradients())

    def jacobian(self) -> Array:
        """Return drbar/dv of each row."""
        by_piece = []
        for piece, t in zip(self.chunk.pieces, self.terms, strict=True):
            pi = self.pi[piece.own]
            by_piece.append((pi * t.dr, None if piece.D is None else pi * t.r_d))
        result = self._rows(by_piece, self.pi * self.dr)
        away = self.pi * (self.r - self.rbar)
        for j in range(self.d):
            result[:, j] += (away * self.s[self.chunk.code, :, j]).sum(axis=1)
        return result

    def hessian(self, m: Array | None) -> Array:
        """Return the Hessian of -loglik plus the sum of m_j rbar_j, with the weights of the clusters."""
        chunk, weights = self.chunk, self.found.weights * self.chunk.weights[:, None]
        s = self.s - np.einsum("gk,gkd->gd", self.found.weights, self.s)[:, None, :]
        lift: Any = 1.0
        if m is not None:
            R = chunk.of @ (m[:, None] * self.r)
            lift = 1.0 - (R - (self.found.weights * R).sum(axis=1, keepdims=True))
        flat = s.reshape(-1, self.d)
        H = self._gram(m, weights * lift, weights) - flat.T @ (flat * (weights * lift).reshape(-1, 1))
        if m is not None:
            dR = self._sums(
                [
                    (m[p.own, None] * t.dr, None if p.D is None else m[p.own, None] * t.r_d)
                    for p, t in zip(chunk.pieces, self.terms, strict=True)
                ],
                m[:, None] * self.dr,
            )
            cross = dR.reshape(-1, self.d).T @ (flat * weights.reshape(-1, 1))
            H += cross + cross.T
        return np.asarray(H)

    def _gram(self, m: Array | None, lifted: Array, weights: Array) -> Array:
        """Return the sum over rows and nodes of second derivatives times the outer products of the rows.

        Second derivatives of -l have the weights ``lifted``, those of m r ``weights``.
        """
        chunk, k, d0 = self.chunk, self.k, self.d0
        H, total = np.zeros((self.d, self.d)), np.zeros(self.r.shape)
        for piece, t, slope in zip(chunk.pieces, self.terms, self.slopes, strict=True):
            own, sign, C, D = piece.own, piece.data.sign, piece.C, piece.D
            code = chunk.code[own]
            w, bend = sign * lifted[code], None if m is None else sign * weights[code] * m[own, None]
            both = w * t.dr if bend is None else w * t.dr + bend * t.d2r
            total[own] += both
            H[:d0, :d0] += (C * both.sum(axis=1)[:, None]).T @ C
            if D is not None:
                cross, inner = w * t.r_d, w * t.minus_l_dd
                if bend is not None:
                    cross, inner = cross + bend * t.r_hd, inner + bend * t.r_dd
                mixed = (D * cross.sum(axis=1)[:, None]).T @ C
                H[:k, :d0] += mixed
                H[:d0, :k] += mixed.T
                H[:k, :k] += (D * inner.sum(axis=1)[:, None]).T @ D
            if slope is not None and piece.data.slope is not None:
                row = piece.data.slope * (np.sqrt(chunk.weights[code]) / slope)[:, None]
                H[:k, :k] += row.T @ row
            for e, (a, b) in enumerate(zip(*self.entries, strict=True)):
                z, u = chunk.Z[own, a], self.u[code, :, b]
                column = C.T @ (z * (both * u).sum(axis=1))
                if D is not None:
                    column[:k] += D.T @ (z * (cross * u).sum(axis=1))
                H[:d0, d0 + e] += column
                H[d0 + e, :d0] += column
        for e, (a, b) in enumerate(zip(*self.entries, strict=True)):
            for f, (a2, b2) in enumerate(zip(*self.entries, strict=True)):
                u = self.u[chunk.code, :, b] * self.u[chunk.code, :, b2]
                H[d0 + e, d0 + f] += (chunk.Z[:, a] * chunk.Z[:, a2]) @ (total * u).sum(axis=1)
        return H
