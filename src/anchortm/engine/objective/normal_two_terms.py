"""Exact rows under the normal link with two random intercepts: their likelihood in sums over levels, without rows.

    l = l_w - sum weight (s_w'q + f'x + log det V) / 2,      t = t_w + Q_A'W Z q

where l_w and t_w are those of the rows C_w without effects; the rest is in ``rows.pair_sums``. Derivatives are those of
``normal_mixed``: with F the derivative of Sigma in an entry of L, dq = -P F x, dx = -K F x, dK = -K F K.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.laplace import LaplaceObjective
from anchortm.engine.objective.normal import NormalObjective
from anchortm.engine.objective.protocol import Derivatives, Sums
from anchortm.engine.rows.pair_sums import PairSums, Resolved
from anchortm.inputs.two_terms import TwoTerms

__all__ = ["NormalTwoTermsObjective"]

Array = NDArray[np.float64]


class NormalTwoTermsObjective(LaplaceObjective):
    """The anchor loss of exact rows under the normal link with two random intercepts."""

    fixed: NormalObjective

    def __init__(self, fixed: NormalObjective, clusters: TwoTerms) -> None:
        super().__init__(fixed, clusters)
        (rows,) = fixed.terms
        self._sums = PairSums.of(rows, self._pairs, fixed.anchors, fixed.weights)
        self._within = fixed.with_moments(fixed.moments_within(self._sums))
        self._both_weights = np.concatenate(self._level_weights)
        self._resolved: tuple[Array, Resolved] | None = None

    def _resolve(self, v: Array) -> Resolved:
        tau = v[self.n_fixed :]
        if self._resolved is None or not np.array_equal(self._resolved[0], tau):
            self._resolved = tau.copy(), Resolved(self._sums, self._entries(self.effects.entries(tau)))
        return self._resolved[1]

    def _parts(self, v: Array) -> tuple[Array, Array, Array, Array]:
        """Return s_w, f, q and x."""
        extended = np.append(v[: self.n_fixed], 1.0)
        s, f = self._sums.S @ extended, self._sums.beta @ extended
        q = self._resolve(v).shrunk(f, s)
        return s, f, q, s + self._sums.times(q)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        within = self._within.sums(v[: self.n_fixed], expected)
        with np.errstate(all="ignore"):  # a trial step may overflow
            try:
                s, f, q, x = self._parts(v)
            except np.linalg.LinAlgError:
                return Sums(-math.inf, within.t)
            between = 0.5 * float(self._both_weights @ (s * q + f * x + self._resolve(v).log_det))
            t = within.t if self.anchors is None else within.t + self._root(self._sums.T @ q)
        loglik = within.loglik - between
        return Sums(loglik if math.isfinite(loglik) else -math.inf, t)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of the residuals along ``multiplier`` if given."""
        own, at, d0, w, m = self._sums, self._resolve(v), self.n_fixed, self._both_weights, self._pairs.sizes[0]
        _, _, q, x = self._parts(v)
        within, S, beta = self._within.derivatives(v[:d0]), own.S[:, :d0], own.beta[:, :d0]
        Q = at.shrunk(beta, S)  # = dq/dv
        X = S + own.times(Q)  # = dx/dv
        p = np.zeros_like(x)
        if multiplier is not None and self.anchors is not None:
            p = at.turned(own.T.T @ self._spread(multiplier))

        # F is 2 L in the block of its term, and twice the identity when it is differentiated again
        blocks = np.zeros((x.size, 2))
        blocks[:m, 0], blocks[m:, 1] = 2.0 * at.L[:m], 2.0 * at.L[m:]
        Fx, Fz, Fh = blocks * x[:, None], blocks * (w * x + p)[:, None], blocks * (w * x + 2.0 * p)[:, None]
        PFx = at.shrunk(Fx, np.zeros_like(Fx))
        traces, squares = at.traces(w)
        L = at.L[[0, -1]]
        cross = Fh.T @ own.times(PFx)
        gradient, H = np.zeros(self.n_parameters), np.zeros((self.n_parameters, self.n_parameters))
        columns = np.array(self._pairs.ordered((d0, d0 + 1)))
        gradient[:d0] = within.gradient + S.T @ (w * q) + beta.T @ (w * x)
        gradient[columns] = L * traces - 0.5 * (w * x) @ Fx
        H[:d0, :d0] = within.hessian + S.T @ (w[:, None] * Q) + beta.T @ (w[:, None] * X)
        H[:d0, columns] = -X.T @ Fz
        H[columns, :d0] = H[:d0, columns].T
        bend = traces - np.add.reduceat((w * x + 2.0 * p) * x, [0, m])
        H[np.ix_(columns, columns)] = 0.5 * (cross + cross.T) - 2.0 * np.outer(L, L) * squares + np.diag(bend)
        E = np.pad(within.E, ((0, 0), (0, 2)))
        if self.anchors is not None:
            E[:, :d0] += self._root(own.T @ Q)
            E[:, columns] -= self._root(own.T @ PFx)
        return self._in_squares(v, Derivatives(gradient, H, E), multiplier)
