"""The anchor loss of a model with random effects: an integral for each cluster, by adaptive quadrature.

    l_g = log int prod_j exp l_gj(h_gj + z_gj'L u) phi(u) du,      h_gj = c_gj'v

The nodes are placed anew at each v; see ``rows.quadrature``. Given their weights, everything is a moment; see
``cluster_moments``. These are derivatives of the integral, not of its quadrature: loss and gradient agree as far as the
rule is exact. Squares among the parameters (see ``inputs.clusters``) enter at the end by the chain rule. Weights
replicate clusters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.cluster_moments import ClusterMoments
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Derivatives, Sums
from anchortm.engine.objective.with_effects import EffectsObjective
from anchortm.engine.rows.cluster_rows import Chunk, cut_clusters
from anchortm.engine.rows.quadrature import NODES, Posterior, integrate, make_rule
from anchortm.inputs.clusters import Clusters

__all__ = ["MixedObjective"]

Array = NDArray[np.float64]


class _At(NamedTuple):
    """What all derivatives at one v need, chunk by chunk."""

    v: Array
    loglik: float
    posteriors: list[Posterior]
    rbar: Array  # marginal residuals of all rows


class MixedObjective(EffectsObjective):
    """The anchor loss of a model with random effects; ``fixed`` is the loss without them, of the same rows."""

    n_nodes: int

    def __init__(self, fixed: RowObjective, clusters: Clusters) -> None:
        super().__init__(fixed, clusters)
        size = self.effects.size
        self.n_nodes = NODES[size][0] if clusters.n_nodes is None else clusters.n_nodes
        self.slack = clusters.slack or 0.0
        self.rule = make_rule(size, self.n_nodes)
        self._chunks = list(cut_clusters(fixed.terms, clusters, fixed.weights, self.n_rows, len(self.rule.x)))
        self._here: _At | None = None

    def _at(self, v: Array) -> _At:
        if self._here is not None and np.array_equal(self._here.v, v):
            return self._here
        L = self.effects.root(v[self.n_fixed :])
        known = self._here.posteriors if self._here is not None else None
        posteriors, rbar, total = [], np.zeros(self.n_rows), 0.0
        with np.errstate(all="ignore"):  # a trial step may overflow
            for c, chunk in enumerate(self._chunks):
                A = chunk.Z @ L

                def values(shift: Array, chunk: Chunk = chunk) -> tuple[Array, Array, Array]:
                    return chunk.values(self.link, v, shift)

                if not np.isfinite(chunk.of @ values(np.zeros((chunk.rows.size, 1)))[0]).all():
                    return _At(v.copy(), -math.inf, [], rbar)  # impossible rows: no need to look for modes
                found = integrate(values, A, chunk.code, chunk.of, self.rule, None if known is None else known[c].mode)
                shift = np.einsum("jq,jkq->jk", A, found.u[chunk.code])
                rbar[chunk.rows] = (found.weights[chunk.code] * values(shift)[1]).sum(axis=1)
                posteriors.append(found)
                total += float(chunk.weights @ found.loglik)
        if not math.isfinite(total):
            return _At(v.copy(), -math.inf, [], rbar)
        self._here = _At(v.copy(), total, posteriors, rbar)
        return self._here

    def _moments(self, chunk: Chunk, found: Posterior, v: Array) -> ClusterMoments:
        return ClusterMoments(self.link, self.effects, self.coordinates.n_baseline, chunk, found, v, self.n_fixed)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        at = self._at(v)
        return Sums(at.loglik, self._anchor_sums(at.rbar))

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of rbar along ``multiplier`` if given."""
        at, d = self._at(v), self.n_parameters
        m = None
        if multiplier is not None and self._part is not None:
            m = self._part.spread(self._spread(multiplier))  # type: ignore[arg-type]
        gradient, H = np.zeros(d), np.zeros((d, d)) + self.n_total * self.coordinates.faint
        J = np.zeros((self.n_rows, d if self._part is not None else 0))
        with np.errstate(all="ignore"):
            for chunk, found in zip(self._chunks, at.posteriors, strict=True):
                part = self._moments(chunk, found, v)
                gradient += part.gradient()
                H += part.hessian(None if m is None else m[chunk.rows])
                if J.shape[1]:
                    J[chunk.rows] = part.jacobian()
        return self._in_squares(v, Derivatives(gradient, H, self._anchor_slopes(J)), multiplier)

    def with_nodes(self, n_nodes: int) -> MixedObjective:
        """Return the objective with another number of nodes."""
        return MixedObjective(self.fixed, self.clusters._replace(n_nodes=n_nodes))

    def restricted(self, columns: NDArray[np.intp]) -> MixedObjective:
        """Return the loss of some coefficients alone, with all parameters of the covariance."""
        own = columns[columns < self.coordinates.n_coefs - self.effects.n_parameters]
        nodes = self.clusters._replace(n_nodes=self.n_nodes, slack=self.slack)
        return MixedObjective(self.fixed.restricted(own), nodes)

    def sample(self, size: int) -> MixedObjective:
        """Return the objective of some clusters with about ``size`` rows, in the same coordinates."""
        found, codes = self.clusters.gapless()
        order = np.random.default_rng(0).permutation(found.size)
        enough = int(np.searchsorted(np.cumsum(np.bincount(codes)[order]), size)) + 1
        chosen = np.isin(codes, order[: max(2, enough)])
        blocks, anchors = self.fixed.memory.take(chosen, self.anchors, lambda part: part)
        fixed = type(self.fixed)(self.link, self.fixed.coordinates, anchors, blocks, self.names)
        return MixedObjective(fixed, self.clusters.take(chosen)._replace(n_nodes=self.n_nodes, slack=self.slack))

    def residuals(self, v: Array) -> Array:
        """Return the marginal residuals."""
        return np.array(self._at(v).rbar)

    def residual_slopes(self, v: Array) -> Array:
        """Return the derivative of each marginal residual in its own shift."""
        slopes = np.zeros(self.n_rows)
        for chunk, found in zip(self._chunks, self._at(v).posteriors, strict=True):
            part = self._moments(chunk, found, v)
            slopes[chunk.rows] = (part.pi * part.dr).sum(axis=1) - (part.pi * (part.r - part.rbar) ** 2).sum(axis=1)
        return slopes

    def anchor_information(self, v: Array) -> Array:
        """Return Q'W(drbar/dshift)Q, in which rows of a cluster move together."""
        assert self.anchors is not None and self._part is not None  # noqa: S101, PT018
        Q = self._part.spread(self.anchors.coefficients(np.eye(self.anchors.rank)))
        result = np.zeros((self.anchors.rank, self.anchors.rank))
        for chunk, found in zip(self._chunks, self._at(v).posteriors, strict=True):
            part, q = self._moments(chunk, found, v), Q[chunk.rows]
            w = chunk.weights[chunk.code]
            result += (q * (w * (part.pi * part.dr).sum(axis=1))[:, None]).T @ q
            away = part.r - part.rbar
            for k in range(away.shape[1]):
                sums = chunk.of @ (q * away[:, k, None])
                result -= (sums * (chunk.weights * found.weights[:, k])[:, None]).T @ sums
        return result

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the shares of rows in the influence; the shares of a cluster add up to its influence."""
        at = self._at(work.v)
        own = np.zeros((self.n_rows, self.n_parameters))
        pull = 0.0 if self._part is None else self._part.spread(self._spread(work.pull))  # type: ignore[arg-type]
        for chunk, found in zip(self._chunks, at.posteriors, strict=True):
            part = self._moments(chunk, found, work.v)
            own[chunk.rows] = part.row_gradients()
            if self._part is not None:
                own[chunk.rows] += np.asarray(pull)[chunk.rows, None] * part.jacobian()
        yield slice(0, self.n_rows), self._with_anchors(work, at.rbar, own)

    def likeliest_shift(self, v: Array) -> Array:
        """Return what the most likely effects of its cluster add to h of each row."""
        L, shift = self.effects.root(v[self.n_fixed :]), np.zeros(self.n_rows)
        for chunk, found in zip(self._chunks, self._at(v).posteriors, strict=True):
            shift[chunk.rows] = (chunk.Z @ L * found.mode[chunk.code]).sum(axis=1)
        return shift

    def posterior(self, v: Array) -> tuple[Array, Array]:
        """Return nodes L u and weights of the effects of each cluster given its rows, in the order of the codes."""
        L = self.effects.root(v[self.n_fixed :])
        found = self._at(v).posteriors
        order = np.argsort(np.concatenate([chunk.clusters for chunk in self._chunks]))
        points = np.concatenate([p.u for p in found])[order] @ L.T
        return points, np.concatenate([p.weights for p in found])[order]
