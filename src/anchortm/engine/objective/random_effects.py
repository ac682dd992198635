"""The anchor loss of a model with random effects: cluster by cluster an integral, by adaptive quadrature.

    l_g = log int prod_j exp l_gj(h_gj + z_gj'L u) phi(u) du,      h_gj = c_gj'v

The nodes u_gk of a Gauss-Hermite rule are moved to the mode of the integrand and scaled by its curvature there, anew
at each v. With their weights pi_gk after the data, everything is a moment under pi (Fisher's and Louis' identities).
Given u, h is linear in all parameters, the entries of L included: its row is (c_gj, z_gj u'). (The squares among the
parameters, see ``clusters``, come in at the end by the chain rule.) With s the derivative of
sum_j l_gj, and r_gj the residual given u,

    dl_g    = E[s],      the marginal residual   rbar_gj = E[r_gj] = -dl_g/dh_gj
    -D2 l_g = E[-s'] - Cov(s, s),               d rbar_gj = E[dr_gj] + Cov(r_gj, s)

and with R = sum_j m_j r_gj for a multiplier m of rows, the curvature of the sum of m_j rbar_gj is

    E[R''] + Cov(R', s) + Cov(s, R') + Cov(R, s') + E[(R - E R)(s - E s)(s - E s)']

These are derivatives of the integral, not of its quadrature: loss and gradient agree as far as the rule is exact.
Weights replicate clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.objective.anchored import AnchoredObjective, InfluenceInputs
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Derivatives, Point, Sums
from anchortm.engine.rows.likelihood import Term, evaluate, loglik_and_residuals
from anchortm.engine.rows.standardised import Coordinates, Rows
from anchortm.exceptions import InputError
from anchortm.inputs.clusters import Clusters
from anchortm.links import Link, OneEnd

__all__ = ["MOST_NODES", "NODES", "MixedObjective", "Posterior", "Rule", "marginal_rows"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Values = Callable[[Array], tuple[Array, Array, Array]]

NODES = {1: (15, 31, 61, 101), 2: (9, 15, 21, 31)}  # of each dimension, by the number of random effects
MOST_NODES = 101
CHUNK = 300_000  # rows times nodes in one pass
MODE_STEPS, MODE_TOLERANCE = 100, 1e-10
LEAST_CURVATURE = 0.05  # of the integrand at its mode; phi alone has 1
START = 0.25  # variance of the effects that a fit starts from


class Rule(NamedTuple):
    """Nodes of a product rule for integrals over the standard normal density, and what goes with their values."""

    x: Array  # (K, q)
    log_weights: Array  # of integrals without the density: log w + |x|^2 / 2 - q log(2 pi) / 2


def make_rule(size: int, n_nodes: int) -> Rule:
    """Return the Gauss-Hermite rule of ``size`` dimensions."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    grids = np.meshgrid(*[points] * size, indexing="ij")
    x = np.column_stack([grid.ravel() for grid in grids])
    log_w = sum(grid.ravel() for grid in np.meshgrid(*[np.log(weights)] * size, indexing="ij"))
    return Rule(x, log_w + 0.5 * (x**2).sum(axis=1) - 0.5 * size * math.log(2.0 * math.pi))


class Posterior(NamedTuple):
    """The effects u of clusters after the data: nodes and their weights, which add up to 1."""

    loglik: Array  # (G,)
    mode: Array  # (G, q)
    u: Array  # (G, K, q)
    weights: Array  # (G, K)


def adder(code: Codes, n_clusters: int) -> sp.csr_matrix:
    """Return the matrix that adds up rows by cluster."""
    return sp.csr_matrix((np.ones(code.size), (code, np.arange(code.size))), shape=(n_clusters, code.size))


def integrate(
    values: Values, A: Array, code: Codes, of: sp.csr_matrix, rule: Rule, start: Array | None = None
) -> Posterior:
    """Return the integrals of clusters over their effects.

    ``values`` gives log-likelihood, residual and its derivative of rows at shifts of shape (rows, nodes), A are the
    rows L'z, and ``of`` adds up rows by their cluster ``code``.
    """
    mode, curvature = _modes(values, A, of, code, start)
    root = np.linalg.cholesky(curvature)
    # u = mode + C x with C C' the inverse of the curvature, C = root^-T
    back = np.linalg.inv(root).transpose(0, 2, 1)
    u = mode[:, None, :] + np.einsum("gab,kb->gka", back, rule.x)
    shift = np.einsum("jq,jkq->jk", A, u[code])
    log_terms = of @ values(shift)[0] - 0.5 * (u**2).sum(axis=2) + rule.log_weights
    top = log_terms.max(axis=1, keepdims=True)
    terms = np.exp(log_terms - top)
    total = terms.sum(axis=1, keepdims=True)
    volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return Posterior(top[:, 0] + np.log(total[:, 0]) - volume, mode, u, terms / total)


def _modes(values: Values, A: Array, of: sp.csr_matrix, code: Codes, start: Array | None) -> tuple[Array, Array]:
    """Return the modes of the integrands and minus their Hessians there, by Newton's method."""
    G, q = of.shape[0], A.shape[1]
    AA = (A[:, :, None] * A[:, None, :]).reshape(A.shape[0], -1)

    def at(u: Array) -> tuple[Array, Array, Array]:
        loglik, r, dr = (part[:, 0] for part in values((A * u[code]).sum(axis=1, keepdims=True)))
        H = (of @ (dr[:, None] * AA)).reshape(G, q, q) + np.eye(q)
        return of @ loglik - 0.5 * (u**2).sum(axis=1), -(of @ (r[:, None] * A)) - u, _lifted(H)

    u = np.zeros((G, q)) if start is None else start
    value, slope, H = at(u)
    far = ~np.isfinite(value)
    if far.any() and start is not None:
        u = np.where(far[:, None], 0.0, u)
        value, slope, H = at(u)
    length = np.ones(G)
    for _ in range(MODE_STEPS):
        step = length[:, None] * np.linalg.solve(H, slope[:, :, None])[:, :, 0]
        there = at(u + step)
        worse = ~(there[0] >= value - 1e-12 * (1.0 + np.abs(value)))
        length = np.where(worse, 0.5 * length, np.minimum(1.0, 2.0 * length))
        u = np.where(worse[:, None], u, u + step)
        value = np.where(worse, value, there[0])
        slope, H = np.where(worse[:, None], slope, there[1]), np.where(worse[:, None, None], H, there[2])
        if (np.abs(step) <= MODE_TOLERANCE * (1.0 + np.abs(u))).all():
            break
    return u, H


def _lifted(H: Array) -> Array:
    """Return curvatures that are positive definite; truncated rows may have others."""
    if H.shape[1] == 1:
        return np.maximum(H, LEAST_CURVATURE)
    if not np.isfinite(H).all():
        return np.where(np.isfinite(H).all(axis=(1, 2), keepdims=True), H, np.eye(H.shape[1]))
    values, vectors = np.linalg.eigh(H)
    if values.min() >= LEAST_CURVATURE:
        return H
    return np.asarray((vectors * np.maximum(values, LEAST_CURVATURE)[:, None, :]) @ vectors.transpose(0, 2, 1))


def marginal_rows(
    link: Link, terms: Sequence[Term], theta: Array, shift: Array, clusters: Clusters, tau: Array, n_nodes: int
) -> tuple[Array, Array]:
    """Return the share of each row in the log-likelihood of its cluster, an equal one, and its marginal residual.

    ``shift`` is that of the covariates, and the columns Z of the clusters have the same sign.
    """
    effects = clusters.effects
    found, code = np.unique(clusters.codes, return_inverse=True)
    of, A = adder(code, found.size), clusters.Z @ effects.root(tau)

    def values(moved: Array) -> tuple[Array, Array, Array]:
        loglik, r, dr = (np.zeros(moved.shape) for _ in range(3))
        for term in terms:
            at = evaluate(link, term, theta, shift + moved.T)
            t = at.values
            loglik[term.rows] += term.sign * at.loglik.T
            r[term.rows] += term.sign * t.r.T
            dr[term.rows] += term.sign * (t.dr if isinstance(t, OneEnd) else t.r_u + t.r_v).T
        return loglik, r, dr

    with np.errstate(all="ignore"):
        if not np.isfinite(values(np.zeros((shift.size, 1)))[0]).all():
            alone = loglik_and_residuals(link, terms, theta, shift)  # rows that are impossible whatever the effects
            return np.where(np.isfinite(of @ alone[0])[code], alone[0], -np.inf), alone[1]
        post = integrate(values, A, code, of, make_rule(effects.size, n_nodes))
        r = values(np.einsum("jq,jkq->jk", A, post.u[code]))[1]
    return (post.loglik / np.bincount(code))[code], (post.weights[code] * r).sum(axis=1)


class _Piece(NamedTuple):
    """Rows of one term in a chunk: where they stand in it, and the matrix that adds them up by cluster."""

    data: Rows
    own: Codes
    of: sp.csr_matrix
    D: Array | None  # of interval rows, the columns of the difference of their ends
    C: Array  # whole rows c; of interval rows at the lower end


class _Chunk(NamedTuple):
    """Whole clusters."""

    clusters: Codes
    rows: Codes
    code: Codes
    of: sp.csr_matrix
    Z: Array
    weights: Array  # of clusters
    pieces: list[_Piece]


class _At(NamedTuple):
    """What all derivatives at one v need, for each chunk."""

    v: Array
    loglik: float
    posteriors: list[Posterior]
    rbar: Array  # of all rows


class MixedObjective(AnchoredObjective):
    """The anchor loss of a model with random effects; ``fixed`` is the loss without them, of the same rows."""

    n_nodes: int

    def __init__(self, fixed: RowObjective, clusters: Clusters) -> None:
        effects = clusters.effects
        inner, extra = fixed.coordinates, effects.n_parameters
        coordinates = replace(
            inner,
            mean=np.append(inner.mean, np.zeros(extra)),
            scale=np.append(inner.scale, np.ones(extra)),
            lower=np.append(inner.lower, effects.lower),
            upper=np.append(inner.upper, np.full(extra, np.inf)),
        )
        super().__init__(fixed.link, coordinates, fixed.anchors, fixed.names, fixed.n_rows, fixed.n_total)
        self.fixed, self.clusters, self.effects = fixed, clusters, effects
        self.n_nodes = NODES[effects.size][0] if clusters.n_nodes is None else clusters.n_nodes
        self.slack = clusters.slack or 0.0
        self.start = np.where(effects.squared, START, 0.0)
        self.extra_names = tuple(effects.parameter_names())
        self.rule = make_rule(effects.size, self.n_nodes)
        self._part = None if self.anchors is None else self.anchors.part(slice(None))
        self._chunks = list(self._cut())
        self._here: _At | None = None

    def _cut(self) -> Iterator[_Chunk]:
        """Yield chunks of whole clusters."""
        found, codes = np.unique(self.clusters.codes, return_inverse=True)
        sizes = np.bincount(codes)
        per = np.cumsum(sizes) * len(self.rule.x) // CHUNK
        group = per[codes]
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        first = np.empty(found.size)
        first[codes] = weights
        if not (first[codes] == weights).all():
            row = int(np.flatnonzero(first[codes] != weights)[0])
            raise InputError(
                f"weights differ within {self.effects.cluster} {self.clusters.labels[found[codes[row]]]}: "
                "weights replicate clusters, so give all rows of one the same"
            )
        for chunk in np.unique(per):
            rows, own = np.flatnonzero(group == chunk), np.flatnonzero(per == chunk)
            code = np.searchsorted(own, codes[rows])
            place = np.full(self.n_rows, -1)
            place[rows] = np.arange(rows.size)
            pieces = []
            for term in self.fixed.terms:
                here = np.flatnonzero(place[term.rows] >= 0)
                at = place[term.rows[here]]
                data = term.take(here, at)
                C, D = data.C, None
                if data.ends is not None:
                    V, D = data.ends.dense()
                    C = np.hstack([V, C])
                pieces.append(_Piece(data, at, adder(code[at], own.size), D, C))
            yield _Chunk(own, rows, code, adder(code, own.size), self.clusters.Z[rows], first[own], pieces)

    @property
    def n_fixed(self) -> int:
        """Return the number of parameters beside the entries of L."""
        return self.n_parameters - self.effects.n_parameters

    @property
    def weights(self) -> Array | None:
        """Return the weights of the rows."""
        return self.fixed.weights

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets."""
        return self.fixed.mean_offset

    @property
    def row_coordinates(self) -> Coordinates:
        """Return the coordinates without the parameters of the covariance."""
        return self.fixed.coordinates

    @property
    def estimated(self) -> NDArray[np.bool_]:
        """Return all parameters that are not fixed but those of the covariance, which score tests take as known."""
        return super().estimated & (np.arange(self.n_parameters) < self.n_fixed)

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if rows are separated: they are then so for any effects of the clusters."""
        self.fixed.check_maximum(point)

    def _link_values(self, piece: _Piece, v: Array, shift: Array) -> Any:
        """Return the link's quantities of a piece at shifts of shape (its rows, nodes)."""
        data, k = piece.data, self.coordinates.n_baseline
        h = np.dot(piece.C, v[: self.n_fixed])
        if data.offset is not None:
            h += data.offset
        at = (h[:, None] + shift).ravel()
        if piece.D is not None:
            width = np.repeat(np.dot(piece.D, v[:k]), shift.shape[1])
            found: Any = self.link.interval(at, at + width, width)
        else:
            found = getattr(self.link, data.kind)(at)
        return type(found)(*(part.reshape(shift.shape) for part in found))

    def _slope(self, piece: _Piece, v: Array) -> Array:
        assert piece.data.slope is not None  # noqa: S101
        return np.asarray(np.dot(piece.data.slope, v[: self.coordinates.n_baseline]))

    def _values(self, chunk: _Chunk, v: Array, shift: Array) -> tuple[Array, Array, Array]:
        """Return log-likelihood, residual and its derivative of the rows of a chunk."""
        loglik, r, dr = (np.zeros(shift.shape) for _ in range(3))
        for piece in chunk.pieces:
            own, sign = piece.own, piece.data.sign
            t = self._link_values(piece, v, shift[own])
            loglik[own] += sign * t.l
            r[own] += sign * t.r
            dr[own] += sign * (t.dr if isinstance(t, OneEnd) else t.r_u + t.r_v)
            if piece.data.slope is not None:
                slope = self._slope(piece, v)
                loglik[own] += np.where(slope > 0.0, np.log(slope), -np.inf)[:, None]
        return loglik, r, dr

    def _at(self, v: Array) -> _At:
        if self._here is not None and np.array_equal(self._here.v, v):
            return self._here
        L = self.effects.root(v[self.n_fixed :])
        known = self._here.posteriors if self._here is not None else None
        posteriors, rbar, total = [], np.zeros(self.n_rows), 0.0
        with np.errstate(all="ignore"):  # of a trial step
            for c, chunk in enumerate(self._chunks):
                A = chunk.Z @ L

                def values(shift: Array, chunk: _Chunk = chunk) -> tuple[Array, Array, Array]:
                    return self._values(chunk, v, shift)

                if not np.isfinite(chunk.of @ values(np.zeros((chunk.rows.size, 1)))[0]).all():
                    return _At(v.copy(), -math.inf, [], rbar)  # hopeless: no need to look for modes
                found = integrate(values, A, chunk.code, chunk.of, self.rule, None if known is None else known[c].mode)
                shift = np.einsum("jq,jkq->jk", A, found.u[chunk.code])
                rbar[chunk.rows] = (found.weights[chunk.code] * values(shift)[1]).sum(axis=1)
                posteriors.append(found)
                total += float(chunk.weights @ found.loglik)
        if not math.isfinite(total):
            return _At(v.copy(), -math.inf, [], rbar)
        self._here = _At(v.copy(), total, posteriors, rbar)
        return self._here

    def _times(self, values: Array) -> Array:
        return values if self.weights is None else values * self.weights

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        at, s = self._at(v), np.zeros(self.n_sums)
        if self._part is not None:
            self._part.add(s, self._times(at.rbar), None)
        return Sums(at.loglik, self._root(s))

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of rbar along ``multiplier`` if given."""
        at, d = self._at(v), self.n_parameters
        m = None
        if multiplier is not None and self._part is not None:
            m = self._part.spread(self._spread(multiplier))  # type: ignore[arg-type]
        gradient, H, J = np.zeros(d), np.zeros((d, d)), np.zeros((self.n_rows, d if self._part is not None else 0))
        with np.errstate(all="ignore"):
            for chunk, found in zip(self._chunks, at.posteriors, strict=True):
                part = _Moments(self, chunk, found, v)
                gradient += part.gradient()
                H += part.hessian(None if m is None else m[chunk.rows])
                if J.shape[1]:
                    J[chunk.rows] = part.jacobian()
        G = np.zeros((self.n_sums, d))
        if self._part is not None:
            weights = np.ones(self.n_rows) if self.weights is None else self.weights
            self._part.add(G, weights, J)
        E, own = self._root(G), slice(self.n_fixed, None)
        first, second = self.effects.slopes(v[own])
        # the chain rule for the squares among the parameters
        bend = second * (gradient if multiplier is None else gradient + E.T @ multiplier)[own]
        gradient[own] *= first
        E[:, own] *= first
        H[own] *= first[:, None]
        H[:, own] *= first
        H[own, own] += np.diag(bend)
        return Derivatives(gradient, H, E)

    def sample(self, size: int) -> MixedObjective:
        """Return the objective of some clusters with about ``size`` rows, in the same coordinates."""
        found, codes = np.unique(self.clusters.codes, return_inverse=True)
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
            part = _Moments(self, chunk, found, v)
            slopes[chunk.rows] = (part.pi * part.dr).sum(axis=1) - (part.pi * (part.r - part.rbar) ** 2).sum(axis=1)
        return slopes

    def anchor_information(self, v: Array, slopes: Array) -> Array:
        """Return Q'W(drbar/dshift)Q, in which rows of a cluster move together."""
        assert self.anchors is not None and self._part is not None  # noqa: S101, PT018
        Q = self._part.spread(self.anchors.coefficients(np.eye(self.anchors.rank)))
        result = np.zeros((self.anchors.rank, self.anchors.rank))
        for chunk, found in zip(self._chunks, self._at(v).posteriors, strict=True):
            part, q = _Moments(self, chunk, found, v), Q[chunk.rows]
            w = chunk.weights[chunk.code]
            result += (q * (w * (part.pi * part.dr).sum(axis=1))[:, None]).T @ q
            away = part.r - part.rbar
            for k in range(away.shape[1]):
                sums = chunk.of @ (q * away[:, k, None])
                result -= (sums * (chunk.weights * found.weights[:, k])[:, None]).T @ sums
        return result

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the shares of rows in the influence; those of a cluster add up to its influence."""
        at = self._at(work.v)
        own = np.zeros((self.n_rows, self.n_parameters))
        pull = 0.0 if self._part is None else self._part.spread(self._spread(work.pull))  # type: ignore[arg-type]
        for chunk, found in zip(self._chunks, at.posteriors, strict=True):
            part = _Moments(self, chunk, found, work.v)
            own[chunk.rows] = part.row_gradients()
            if self._part is not None:
                own[chunk.rows] += np.asarray(pull)[chunk.rows, None] * part.jacobian()
        own[:, self.n_fixed :] *= self.effects.slopes(work.v[self.n_fixed :])[0]
        result = own @ work.bread
        if self.anchors is not None and self._part is not None:
            rest = at.rbar - self._part.spread(self.anchors.coefficients(self.sums(work.v).t))
            result += self._part.spread(self.anchors.coefficients(work.K)) * rest[:, None]
        yield slice(0, self.n_rows), result if work.every is None else result + work.every

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> InfluenceInputs:
        """Return what ``shares`` needs."""
        return InfluenceInputs(v, pull, bread, K)

    def posterior(self, v: Array) -> tuple[Array, Array]:
        """Return nodes L u and weights of the effects of each cluster that has rows, in the order of their codes."""
        L = self.effects.root(v[self.n_fixed :])
        found = self._at(v).posteriors
        order = np.argsort(np.concatenate([chunk.clusters for chunk in self._chunks]))
        points = np.concatenate([p.u for p in found])[order] @ L.T
        return points, np.concatenate([p.weights for p in found])[order]


class _Moments:
    """Moments of a chunk under the weights of its nodes."""

    def __init__(self, objective: MixedObjective, chunk: _Chunk, found: Posterior, v: Array) -> None:
        self.chunk, self.found = chunk, found
        self.k, self.d0, self.d = objective.coordinates.n_baseline, objective.n_fixed, objective.n_parameters
        self.entries = objective.effects.places
        self.pi = found.weights[chunk.code]  # (rows, nodes)
        self.u = found.u
        shift = np.einsum("jq,jkq->jk", chunk.Z @ objective.effects.root(v[self.d0 :]), found.u[chunk.code])
        self.r, self.dr = np.zeros(shift.shape), np.zeros(shift.shape)
        self.terms, self.slopes = [], []
        for piece in chunk.pieces:
            t = objective._link_values(piece, v, shift[piece.own])
            self.terms.append(t)
            self.slopes.append(None if piece.data.slope is None else objective._slope(piece, v))
            self.r[piece.own] += piece.data.sign * t.r
            self.dr[piece.own] += piece.data.sign * (t.dr if isinstance(t, OneEnd) else t.r_u + t.r_v)
        self.rbar = (self.pi * self.r).sum(axis=1, keepdims=True)
        self.s = self._sums(
            [(-t.r, None if isinstance(t, OneEnd) else t.p) for t in self.terms], -self.r
        )  # (clusters, nodes, d), but for the terms log h', which do not depend on u

    def _sums(self, by_piece: list[tuple[Array, Array | None]], total: Array) -> Array:
        """Return sums over clusters of row values times the rows (c, z u'): values for c and for D of each piece."""
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
            by_piece.append((pi * t.r, None if isinstance(t, OneEnd) else -pi * t.p))
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
            by_piece.append((pi * t.dr, None) if isinstance(t, OneEnd) else (pi * (t.r_u + t.r_v), pi * t.r_u))
        result = self._rows(by_piece, self.pi * self.dr)
        away = self.pi * (self.r - self.rbar)
        for j in range(self.d):
            result[:, j] += (away * self.s[self.chunk.code, :, j]).sum(axis=1)
        return result

    def hessian(self, m: Array | None) -> Array:
        """Return the Hessian of -loglik plus the sum of m_j rbar_j; weights of clusters included."""
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
                    (m[p.own, None] * t.dr, None)
                    if isinstance(t, OneEnd)
                    else (m[p.own, None] * (t.r_u + t.r_v), m[p.own, None] * t.r_u)
                    for p, t in zip(chunk.pieces, self.terms, strict=True)
                ],
                m[:, None] * self.dr,
            )
            cross = dR.reshape(-1, self.d).T @ (flat * weights.reshape(-1, 1))
            H += cross + cross.T
        return np.asarray(H)

    def _gram(self, m: Array | None, lifted: Array, weights: Array) -> Array:
        """Return the sum over rows and nodes of second derivatives times the rows' outer products.

        Those of -l have the weights ``lifted``, those of m r ``weights``.
        """
        chunk, k, d0 = self.chunk, self.k, self.d0
        H, total = np.zeros((self.d, self.d)), np.zeros(self.r.shape)
        for piece, t, slope in zip(chunk.pieces, self.terms, self.slopes, strict=True):
            own, sign, C, D = piece.own, piece.data.sign, piece.C, piece.D
            code = chunk.code[own]
            w, bend = sign * lifted[code], None if m is None else sign * weights[code] * m[own, None]
            if isinstance(t, OneEnd):
                both = w * t.dr if bend is None else w * t.dr + bend * t.d2r
            else:
                both, cross, inner = w * (t.r_u + t.r_v), w * t.r_u, w * (t.r_u + t.p * t.q)
                if bend is not None:
                    both = both + bend * (t.r_uu + 2.0 * t.r_uv + t.r_vv)
                    cross, inner = cross + bend * (t.r_uu + t.r_uv), inner + bend * t.r_uu
            total[own] += both
            H[:d0, :d0] += (C * both.sum(axis=1)[:, None]).T @ C
            if not isinstance(t, OneEnd) and D is not None:
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
                if not isinstance(t, OneEnd) and D is not None:
                    column[:k] += D.T @ (z * (cross * u).sum(axis=1))
                H[:d0, d0 + e] += column
                H[d0 + e, :d0] += column
        for e, (a, b) in enumerate(zip(*self.entries, strict=True)):
            for f, (a2, b2) in enumerate(zip(*self.entries, strict=True)):
                u = self.u[chunk.code, :, b] * self.u[chunk.code, :, b2]
                H[d0 + e, d0 + f] += (chunk.Z[:, a] * chunk.Z[:, a2]) @ (total * u).sum(axis=1)
        return H
