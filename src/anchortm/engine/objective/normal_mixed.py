"""Exact rows under the normal link with random effects: the integrals have a closed form in sums over clusters.

    l = l_w - sum_g weight_g (f_g'g_g + log det V_g) / 2,      g_g = H_g f_g,      t = t_w + Q_A'W Q g

where l_w and t_w are those of the rows within clusters without effects, see ``objective.normal``; f, H, V and Q are
those of ``rows.cluster_sums``, and Q_A is the basis of the anchors. The marginal residuals are V^-1 e. After two passes
over the rows, an evaluation costs about as much as a pass over the clusters.

Derivatives in the entries of L, Sigma = LL', with F the derivative of Sigma in one of them, x = U'g and K = U'HU:

    d(f'g) = -x'F x,      d log det V = tr(K F),      dg = -H U F x,      dx = -K F x,      dK = -K F K

and dg/dv = H c, dx/dv = U'H c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.objective.normal import NormalObjective
from anchortm.engine.objective.protocol import Derivatives, Sums
from anchortm.engine.objective.with_effects import EffectsObjective
from anchortm.engine.rows.cluster_rows import cluster_weights
from anchortm.engine.rows.cluster_sums import ClusterSums, products
from anchortm.engine.rows.quadrature import NODES, make_rule
from anchortm.inputs.clusters import Clusters

__all__ = ["NormalMixedObjective"]

Array = NDArray[np.float64]


class _At(NamedTuple):
    """What all derivatives at one v need; arrays have the clusters last."""

    v: Array
    L: Array
    H: Array  # (q, q, G)
    K: Array  # (q, q, G)
    log_det: Array
    f: Array  # (q, G)
    g: Array  # (q, G)
    x: Array  # (q, G)


class NormalMixedObjective(EffectsObjective):
    """The anchor loss of exact rows under the normal link with random effects of clusters."""

    fixed: NormalObjective
    clusters: Clusters

    def __init__(
        self, fixed: NormalObjective, clusters: Clusters, known: tuple[ClusterSums, NormalObjective] | None = None
    ) -> None:
        super().__init__(fixed, clusters)
        (self._rows,) = fixed.terms
        self._weights = cluster_weights(clusters, fixed.weights)
        if known is None:
            sums = ClusterSums.of_rows(self._rows, clusters, fixed.anchors, fixed.weights)
            known = sums, fixed.with_moments(fixed.moments_within(sums))
        self._sums, self._within = known
        self._here: _At | None = None

    def _at(self, v: Array) -> _At:
        if self._here is None or not np.array_equal(self._here.v, v):
            L = self.effects.root(v[self.n_fixed :])
            H, K, log_det = self._sums.shrinkage(L)
            f = self._sums.c @ np.append(v[: self.n_fixed], 1.0)
            g = _times(H, f)
            x = _times(self._sums.U.swapaxes(0, 1), g)
            self._here = _At(v.copy(), L, H, K, log_det, f, g, x)
        return self._here

    def _anchored(self, values: Array) -> Array:
        """Return Q_A'W Q times values of clusters, of shape (q, G) or (q, G, m)."""
        return self._root(self._sums.T @ values.reshape(-1, *values.shape[2:]))

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        within = self._within.sums(v[: self.n_fixed], expected)
        with np.errstate(all="ignore"):  # a trial step may overflow
            at = self._at(v)
            between = 0.5 * float(self._weights @ ((at.f * at.g).sum(axis=0) + at.log_det))
            t = within.t if self.anchors is None else within.t + self._anchored(at.g)
        loglik = within.loglik - between
        return Sums(loglik if math.isfinite(loglik) else -math.inf, t)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of the residuals along ``multiplier`` if given."""
        at, own, d0, w = self._at(v), self._sums, self.n_fixed, self._weights
        K, x, c = at.K, at.x, _flat(own.c)[:, : self.n_fixed]
        within = self._within.derivatives(v[:d0])
        F, dF = _slopes(self.effects.places, at.L)
        Hc, HUFx = self._moved(at, F)
        # y = Q'W Q_A mu: along the multiplier t has the sum of y'g; p = U'H y
        p = np.zeros_like(x)
        if multiplier is not None and self.anchors is not None:
            y = (own.T.T @ self._spread(multiplier)).reshape(x.shape)
            p = _times(own.U.swapaxes(0, 1), _times(at.H, y))

        gradient, H = np.zeros(self.n_parameters), np.zeros((self.n_parameters, self.n_parameters))
        inner = K @ w - (w * x) @ x.T
        gradient[:d0] = within.gradient + c.T @ (w * at.g).ravel()
        gradient[d0:] = 0.5 * np.einsum("eab,ab->e", F, inner)
        H[:d0, :d0] = within.hessian + c.T @ _flat(Hc if self.weights is None else w[:, None] * Hc)
        UF = np.array([_times(own.U, along) for along in F @ (w * x + p)])
        H[:d0, d0:] = -_flat(Hc).T @ UF.reshape(len(UF), -1).T
        H[d0:, :d0] = H[:d0, d0:].T
        H[d0:, d0:] = 0.5 * np.einsum("efab,ab->ef", dF, inner - 2.0 * p @ x.T)
        H[d0:, d0:] += _twice(F, K, w * x + 2.0 * p, x) - 0.5 * np.einsum("ebc,fda,abcd->ef", F, F, _outer(w * K, K))
        E = np.pad(within.E, ((0, 0), (0, self.n_parameters - d0)))
        if self.anchors is not None:
            E += self._anchored(np.concatenate([Hc, -HUFx], axis=2))
        return self._in_squares(v, Derivatives(gradient, H, E), multiplier)

    def _moved(self, at: _At, F: Array) -> tuple[Array, Array]:
        """Return the derivatives of g: H c in v, and H U F x, with the opposite sign, in the entries of L."""
        c = self._sums.c[:, :, : self.n_fixed]
        Hc = np.stack([sum(part[:, None] * own for part, own in zip(row, c, strict=True)) for row in at.H])
        HUFx = [_times(at.H, _times(self._sums.U, along)) for along in F @ at.x]
        return Hc, np.stack(HUFx, axis=2)

    def restricted(self, columns: NDArray[np.intp]) -> NormalMixedObjective:
        """Return the loss of some coefficients alone, with all parameters of the covariance."""
        own = columns[columns < self.coordinates.n_coefs - self.effects.n_parameters]
        fixed, places = self.fixed.restricted(own), np.append(self.row_coordinates.places(own), self.n_fixed)
        M, E = self._within.moments
        within = fixed.with_moments((M[np.ix_(places, places)], E[:, places]))
        return NormalMixedObjective(fixed, self.clusters, (replace(self._sums, c=self._sums.c[:, :, places]), within))

    def residuals(self, v: Array) -> Array:
        """Return the marginal residuals."""
        at = self._at(v)
        return self.fixed.residuals(v[: self.n_fixed]) - self._sums.at_rows(at.f - at.g)

    def _pulled_in(self, v: Array) -> Array:
        """Return I - H of each cluster, so that V^-1 = I - Q (I - H) Q'."""
        return np.eye(self.effects.size)[:, :, None] - self._at(v).H

    def residual_slopes(self, v: Array) -> Array:
        """Return the derivative of each marginal residual in its own shift: the diagonal of V^-1."""
        Q, code = self._sums.Q, self._sums.code
        return np.asarray(1.0 - np.einsum("ja,abj,jb->j", Q, self._pulled_in(v)[:, :, code], Q))

    def anchor_information(self, v: Array) -> Array:
        """Return Q_A'W V^-1 Q_A."""
        assert self.anchors is not None  # noqa: S101
        T = self._sums.T
        blocks = sp.block_array([[sp.diags(part / self._weights) for part in row] for row in self._pulled_in(v)])
        product = T @ (blocks @ T.T)
        inside = self._root(product.toarray() if sp.issparse(product) else product)
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        return self.anchors.gram(weights) - self._root(inside.T)

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the shares of rows in the influence; the shares of a cluster add up to its influence."""
        at, own, rows, d0, k = self._at(work.v), self._sums, self._rows, self.n_fixed, self.coordinates.n_baseline
        r, Z = self.residuals(work.v), self.clusters.Z
        assert rows.slope is not None  # noqa: S101
        shares = np.zeros((self.n_rows, self.n_parameters))
        shares[:, :d0] = r[:, None] * rows.C
        shares[:, :k] -= rows.slope / (rows.slope @ work.v[:k])[:, None]
        # E[r_i u'] z_i, with u the effects in standard units: their posterior is N(mean, spread)
        mean, spread = self._posterior(work.v)
        joint = r[:, None] * mean[own.code] + np.einsum("jab,jb->ja", spread[own.code], Z @ at.L)
        for e, (a, b) in enumerate(zip(*self.effects.places, strict=True)):
            shares[:, d0 + e] = Z[:, a] * joint[:, b]
        if self._part is not None:
            Hc, HUFx = self._moved(at, _slopes(self.effects.places, at.L)[0])
            slopes = own.at_rows(np.concatenate([Hc - own.c[:, :, :d0], -HUFx], axis=2))
            slopes[:, :d0] += rows.C
            pull = self._part.spread(self._spread(work.pull))  # type: ignore[arg-type]
            shares += pull[:, None] * slopes
        yield slice(0, self.n_rows), self._with_anchors(work, r, shares)

    def _posterior(self, v: Array) -> tuple[Array, Array]:
        """Return means (G, q) and covariances (G, q, q) of the effects u given the data, in standard units."""
        at = self._at(v)
        UL = products(self._sums.U, at.L[:, :, None])
        curvature = np.eye(at.L.shape[0]) + products(UL.swapaxes(0, 1), UL).transpose(2, 0, 1)
        return -at.x.T @ at.L, np.asarray(np.linalg.inv(curvature), dtype=np.float64)

    def likeliest_shift(self, v: Array) -> Array:
        """Return what the most likely effects of its cluster add to h of each row."""
        at = self._at(v)
        return self._sums.at_rows(at.g - at.f)

    def posterior(self, v: Array) -> tuple[Array, Array]:
        """Return nodes L u and weights of the effects of each cluster given its rows, in the order of the codes."""
        size = self.effects.size
        rule = make_rule(size, self.clusters.n_nodes or NODES[size][0])
        mean, spread = self._posterior(v)
        L, root = self._at(v).L, np.linalg.cholesky(spread[:, ::-1, ::-1])[:, ::-1, ::-1]  # upper-triangular
        points = ((L @ root).reshape(-1, size) @ rule.x.T).reshape(len(mean), size, -1)
        points += (mean @ L.T)[:, :, None]
        weights = np.exp(rule.log_weights - 0.5 * (rule.x**2).sum(axis=1))
        return points.transpose(0, 2, 1), np.broadcast_to(weights / weights.sum(), (len(mean), weights.size))


def _times(A: Array, x: Array) -> Array:
    """Return the products of small matrices and vectors of clusters, which come last."""
    return products(A, x[:, None])[:, 0]


def _outer(A: Array, B: Array) -> Array:
    """Return the sum over clusters of the outer products of two arrays of theirs."""
    flat = A.reshape(-1, A.shape[-1]) @ B.reshape(-1, B.shape[-1]).T
    return flat.reshape(A.shape[:-1] + B.shape[:-1])


def _twice(F: Array, K: Array, z: Array, x: Array) -> Array:
    """Return the sum over clusters of z'F_e K F_f x, made symmetric in e and f."""
    half = np.einsum("eac,fbd,cdab->ef", F, F, _outer(z[:, None] * x, K))
    return np.asarray(0.5 * (half + half.T))


def _flat(values: Array) -> Array:
    """Return values of effects of clusters as rows."""
    return values.reshape(-1, values.shape[-1])


def _slopes(places: tuple[NDArray[np.intp], NDArray[np.intp]], L: Array) -> tuple[Array, Array]:
    """Return first and second derivatives of Sigma = LL' in the entries of L at these places."""
    m, q = places[0].size, L.shape[0]
    first, second = np.zeros((m, q, q)), np.zeros((m, m, q, q))
    pairs = list(zip(*places, strict=True))
    for e, (a, b) in enumerate(pairs):
        first[e, a] += L[:, b]
        first[e, :, a] += L[:, b]
        for f, (c, d) in enumerate(pairs):
            if b == d:
                second[e, f, a, c] += 1.0
                second[e, f, c, a] += 1.0
    return first, second
