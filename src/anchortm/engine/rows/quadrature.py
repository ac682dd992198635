"""Integrals over the random effects of clusters, by adaptive Gauss-Hermite quadrature.

The nodes u of the rule are moved to the mode of the integrand and scaled by its curvature there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.likelihood import Term, evaluate
from anchortm.inputs.clusters import Clusters
from anchortm.links import Link

__all__ = [
    "MOST_NODES",
    "NODES",
    "Moved",
    "MovedMeans",
    "MovedRows",
    "Posterior",
    "Rule",
    "adder",
    "integrate",
    "make_rule",
    "quadrature_rows",
]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Values = Callable[[Array], tuple[Array, Array, Array]]

NODES = {1: (15, 31, 61, 101), 2: (9, 15, 21, 31)}  # nodes in each dimension, by the number of random effects
MOST_NODES = 101
MODE_STEPS, MODE_TOLERANCE = 100, 1e-10
LEAST_CURVATURE = 0.05  # least curvature of the integrand at its mode; phi alone has 1


class Rule(NamedTuple):
    """Nodes of a product rule for integrals over the standard normal density, and their weights."""

    x: Array  # (K, q)
    log_weights: Array  # for integrands that include the density: log w + |x|^2 / 2 - q log(2 pi) / 2


def make_rule(size: int, n_nodes: int) -> Rule:
    """Return the Gauss-Hermite rule of ``size`` dimensions."""
    points, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    grids = np.meshgrid(*[points] * size, indexing="ij")
    x = np.column_stack([grid.ravel() for grid in grids])
    log_w = sum(grid.ravel() for grid in np.meshgrid(*[np.log(weights)] * size, indexing="ij"))
    return Rule(x, log_w + 0.5 * (x**2).sum(axis=1) - 0.5 * size * math.log(2.0 * math.pi))


class Posterior(NamedTuple):
    """The effects u of clusters given the data: nodes and their weights, which add up to 1."""

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
    """Return curvatures that are positive definite, which those of truncated rows need not be."""
    if H.shape[1] == 1:
        return np.maximum(H, LEAST_CURVATURE)
    if not np.isfinite(H).all():
        return np.where(np.isfinite(H).all(axis=(1, 2), keepdims=True), H, np.eye(H.shape[1]))
    values, vectors = np.linalg.eigh(H)
    if values.min() >= LEAST_CURVATURE:
        return H
    return np.asarray((vectors * np.maximum(values, LEAST_CURVATURE)[:, None, :]) @ vectors.transpose(0, 2, 1))


class Moved(ABC):
    """Log-likelihood, residual and its derivative of rows, as a function of what random effects add to h."""

    quadratic = False  # whether the log-likelihood is so

    @abstractmethod
    def __call__(self, moved: Array) -> tuple[Array, Array, Array]:
        """Return them at shifts of shape (rows, nodes)."""


@dataclass(frozen=True, eq=False)
class MovedRows(Moved):
    """Rows under a link, with these baselines and shifts."""

    link: Link
    terms: Sequence[Term]
    theta: Array
    shift: Array

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        return self.link.quadratic and all((term.kind, term.sign) == ("exact", 1) for term in self.terms)

    def __call__(self, moved: Array) -> tuple[Array, Array, Array]:
        loglik, r, dr = (np.zeros(moved.shape) for _ in range(3))
        for term in self.terms:
            at = evaluate(self.link, term, self.theta, self.shift + moved.T)
            t = at.values
            loglik[term.rows] += term.sign * at.loglik.T
            r[term.rows] += term.sign * t.r.T
            dr[term.rows] += term.sign * t.dr.T
        return loglik, r, dr


@dataclass(frozen=True, eq=False)
class MovedMeans(Moved):
    """Rows of a family, with these linear predictors and outcomes."""

    family: Any
    eta: Array
    outcome: Array

    def __call__(self, moved: Array) -> tuple[Array, Array, Array]:
        at = self.family.score_terms(
            (self.eta[:, None] + moved).ravel(), np.repeat(self.outcome, moved.shape[1], axis=0)
        )
        return at.l.reshape(moved.shape), at.r.reshape(moved.shape), at.dr.reshape(moved.shape)


def quadrature_rows(values: Values, clusters: Clusters, tau: Array) -> tuple[Array, Array]:
    """Return an equal share of each row in the log-likelihood of its cluster, and its marginal residual.

    The columns Z of the clusters have the sign with which effects enter h.
    """
    effects = clusters.effects
    n_nodes = clusters.n_nodes or max(NODES[effects.size][1:3])
    found, code = clusters.gapless()
    of, A = adder(code, found.size), clusters.Z @ effects.root(tau)
    with np.errstate(all="ignore"):
        loglik, r = (part[:, 0] for part in values(np.zeros((code.size, 1)))[:2])
        if not np.isfinite(loglik).all():  # some rows are impossible, whatever the effects
            return np.where(np.isfinite(of @ loglik)[code], loglik, -np.inf), r
        post = integrate(values, A, code, of, make_rule(effects.size, n_nodes))
        r = values(np.einsum("jq,jkq->jk", A, post.u[code]))[1]
    return (post.loglik / np.bincount(code))[code], (post.weights[code] * r).sum(axis=1)
