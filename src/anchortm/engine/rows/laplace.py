"""The Laplace approximation of integrals over two random terms.

Given u, all random effects in standard units, rows have l_i(h_i + m_i'u) with m_i = (L_a at the level of i in the first
term, L_b at that in the second). With f(u) = sum_i l_i - u'u / 2 and its maximum u*,

    log int exp f(u) phi-constant du = f(u*) - log det(H) / 2,      H = I + M'DM,  D = diag(r')

up to the error of the approximation, which is 0 if f is quadratic. H has two diagonal blocks and one sparse block of
pairs of levels. The larger block is eliminated, so that only a dense matrix of the smaller term is factorised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.cluster_sums import closed_rows
from anchortm.engine.rows.quadrature import Moved, adder, quadrature_rows
from anchortm.inputs.clusters import Clusters
from anchortm.inputs.two_terms import TwoTerms

__all__ = ["Mode", "PairHessian", "Pairs", "find_mode", "marginal_rows"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Values = Callable[[Array], tuple[Array, Array, Array]]

STEPS, TOLERANCE = 200, 1e-11
HALVINGS = 60
BLOCK = 4_000_000  # entries of the dense product of pairs in one pass


@dataclass(frozen=True, eq=False)
class Pairs:
    """The levels of rows in two terms, the smaller one second; if ``swapped``, that is the user's first term."""

    codes: tuple[Codes, Codes]
    sizes: tuple[int, int]
    swapped: bool

    @classmethod
    def of(cls, terms: TwoTerms) -> Pairs:
        """Return the levels of these rows, counted from 0 without gaps."""
        found = [np.unique(codes, return_inverse=True) for codes in terms.own.T]
        swapped = found[0][0].size < found[1][0].size
        first, second = found[::-1] if swapped else found
        return cls((first[1], second[1]), (first[0].size, second[0].size), swapped)

    @cached_property
    def adders(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Return the matrices that add up rows by level."""
        return adder(self.codes[0], self.sizes[0]), adder(self.codes[1], self.sizes[1])

    def ordered(self, pair: Any) -> Any:
        """Return a pair of the user's terms in the order of this object, or one of this object in the user's."""
        return (pair[1], pair[0]) if self.swapped else (pair[0], pair[1])

    def at_rows(self, u: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return values of levels at their rows."""
        return u[0][self.codes[0]], u[1][self.codes[1]]


class PairHessian:
    """H = I + M'DM for weights D of rows; raises LinAlgError if it is not positive definite."""

    def __init__(self, pairs: Pairs, L: tuple[float, float], D: Array) -> None:
        self.pairs, self.L = pairs, L
        first, second = (1.0 + own**2 * (of @ D) for own, of in zip(L, pairs.adders, strict=True))
        if not (first > 0.0).all():
            raise np.linalg.LinAlgError
        self.first = first
        self.B = sp.csr_matrix((L[0] * L[1] * D, pairs.codes), shape=pairs.sizes)
        S = np.diag(second) - (self.B.T @ sp.diags(1.0 / first) @ self.B).toarray()
        if not np.isfinite(S).all():
            raise np.linalg.LinAlgError
        self.root = np.linalg.cholesky(S)

    @property
    def log_det(self) -> tuple[Array, Array]:
        """Return log det H as sums over the levels of both terms."""
        return np.log(self.first), 2.0 * np.log(np.diag(self.root))

    def solve(self, first: Array, second: Array) -> tuple[Array, Array]:
        """Return H^-1 times a vector, or the columns of a matrix, in two blocks."""
        scale = self.first if first.ndim == 1 else self.first[:, None]
        x = la.cho_solve((self.root, True), second - self.B.T @ (first / scale), check_finite=False)
        return (first - self.B @ x) / scale, x

    @cached_property
    def inverse(self) -> tuple[Array, Array, Array]:
        """Return the diagonal of H^-1 for both terms, and its entry between the two levels of each row."""
        inner = la.cho_solve((self.root, True), np.eye(self.root.shape[0]), check_finite=False)
        (a, b), n_first = self.pairs.codes, self.pairs.sizes[0]
        diagonal, between = np.empty(n_first), np.empty(a.size)
        order = np.argsort(a, kind="stable")
        size = max(1, BLOCK // inner.shape[0])
        for start in range(0, n_first, size):
            stop = min(start + size, n_first)
            part = self.B[start:stop]
            W = np.asarray(part @ inner)  # -first times the block of H^-1
            own = self.first[start:stop]
            diagonal[start:stop] = 1.0 / own + np.asarray(part.multiply(W).sum(axis=1)).ravel() / own**2
            rows = order[np.searchsorted(a[order], start) : np.searchsorted(a[order], stop)]
            between[rows] = -W[a[rows] - start, b[rows]] / self.first[a[rows]]
        return diagonal, np.diag(inner).copy(), between

    def spread(self) -> tuple[Array, tuple[Array, Array]]:
        """Return m_i'H^-1 m_i of each row, and the entries of H^-1 m_i at the two levels of row i."""
        (first, second), (La, Lb) = self.pairs.at_rows(self.inverse[:2]), self.L
        between = self.inverse[2]
        at = (La * first + Lb * between, Lb * second + La * between)
        return La * at[0] + Lb * at[1], at


class Mode(NamedTuple):
    """The maximum of f over the effects."""

    u: tuple[Array, Array]
    loglik: Array  # log-likelihood of each row, given u
    hessian: PairHessian


def find_mode(values: Values, pairs: Pairs, L: tuple[float, float], start: Any = None) -> Mode | None:
    """Return the most likely effects, by Newton's method; None if rows are impossible or H is not positive definite.

    ``values`` gives log-likelihood, residual and its derivative of rows at shifts of shape (rows, 1).
    """

    def at(u: tuple[Array, Array]) -> tuple[float, Array, Array, Array]:
        first, second = pairs.at_rows(u)
        loglik, r, dr = (part[:, 0] for part in values((L[0] * first + L[1] * second)[:, None]))
        return float(loglik.sum()) - 0.5 * float(u[0] @ u[0] + u[1] @ u[1]), loglik, r, dr

    u = (np.zeros(pairs.sizes[0]), np.zeros(pairs.sizes[1])) if start is None else start
    value, loglik, r, dr = at(u)
    if not np.isfinite(value) and start is not None:
        return find_mode(values, pairs, L)
    if not np.isfinite(value):
        return None
    try:
        for _ in range(STEPS):
            # truncated rows can have negative curvature; without it the step still leads upwards
            H = PairHessian(pairs, L, np.maximum(dr, 0.0))
            slopes = (-own * (of @ r) - part for own, of, part in zip(L, pairs.adders, u, strict=True))
            step, length = H.solve(*slopes), 1.0
            for _ in range(HALVINGS):
                there = (u[0] + length * step[0], u[1] + length * step[1])
                new = at(there)
                if new[0] >= value - 1e-12 * (1.0 + abs(value)):
                    break
                length *= 0.5
            u, (value, loglik, r, dr) = there, new
            if max(np.abs(part).max() for part in step) <= TOLERANCE * (1.0 + max(np.abs(part).max() for part in u)):
                break
        return Mode(u, loglik, PairHessian(pairs, L, dr))
    except np.linalg.LinAlgError:
        return None


def _laplace_rows(values: Values, terms: TwoTerms, tau: Array) -> tuple[Array, Array]:
    """Return an equal share of each row in the log-likelihood of its connected group, and its residual at the mode."""
    pairs = Pairs.of(terms)
    L, code = pairs.ordered(terms.effects.entries(tau)), np.unique(terms.codes, return_inverse=True)[1]
    with np.errstate(all="ignore"):
        found = find_mode(values, pairs, L)
        if found is None:
            loglik, r = (part[:, 0] for part in values(np.zeros((code.size, 1)))[:2])
            bad = np.bincount(code, ~np.isfinite(loglik)) > 0
            return np.where(bad[code], -np.inf, loglik), r
        first, second = pairs.at_rows(found.u)
        r = values((L[0] * first + L[1] * second)[:, None])[1][:, 0]
    total: Array = np.bincount(code, found.loglik).astype(np.float64)
    for k in range(2):
        group = np.empty(pairs.sizes[k], dtype=np.intp)
        group[pairs.codes[k]] = code
        total -= 0.5 * np.bincount(group, found.u[k] ** 2 + found.hessian.log_det[k], minlength=total.size)
    return (total / np.bincount(code))[code], r


def marginal_rows(values: Moved, clusters: Clusters | TwoTerms, tau: Array) -> tuple[Array, Array]:
    """Return an equal share of each row in the log-likelihood of the rows that it depends on, and its residual.

    One random term is integrated in closed form or by quadrature, and its residuals are marginal; two are by Laplace.
    """
    if isinstance(clusters, TwoTerms):
        return _laplace_rows(values, clusters, tau)
    return (closed_rows if values.quadratic else quadrature_rows)(values, clusters, tau)
