"""The anchor loss of a model with two random terms, by a Laplace approximation of the likelihood.

    l(v, L) = f(u*) - log det(I + M'DM) / 2,      f(u) = sum_i l_i(c_i'v + m_i'u) - u'u / 2,  u* its maximum

with D = diag(r') at u*, see ``rows.laplace``. The residuals of the penalty are the score residuals at u*,
r_i = -l_i'(c_i'v + m_i'u*), and so the loss is

    L(v) = -l(v, L) / n + (xi / n) |Q'W r|^2

For exact rows under the normal link f is quadratic, and both are those of the integral itself; ``normal_two_terms`` has
their sums without rows. Gradients are exact derivatives of this loss: with w = (v, L), J = dr/dw and K = dr'/dw at
fixed u, and a_i = m_i'H^-1 m_i,

    du*/dw = -H^-1 (M'J + (dM/dw)'r),      dr/dw = J + D M du*/dw
    dl/dw  = df/dw - (sum_i a_i (K_i + r_i'' m_i'du*/dw) + 2 sum_i r_i' (dm_i/dw)'H^-1 m_i) / 2

Hessians are central differences of these gradients, whose error is about 1e-8. Only steps and standard errors use them;
the certificate of a minimum is its gradient. Weights replicate groups of rows that no level connects.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Derivatives, Sums
from anchortm.engine.objective.with_effects import EffectsObjective
from anchortm.engine.rows.cluster_rows import ClusterPiece
from anchortm.engine.rows.laplace import Mode, Pairs, find_mode
from anchortm.engine.rows.quadrature import adder
from anchortm.engine.rows.standardised import Rows
from anchortm.exceptions import InputError
from anchortm.inputs.two_terms import TwoTerms

__all__ = ["LaplaceObjective"]

Array = NDArray[np.float64]

STEP = 1e-4  # step of central differences, in standardised parameters and entries of L
NOT_SCORES = (
    "score tests need residuals that are derivatives of the likelihood, but with two random terms those of the penalty "
    "are taken at the most likely effects: test a model with one random term"
)


class _At(NamedTuple):
    """The most likely effects at one v."""

    v: Array
    loglik: float
    mode: Mode | None
    r: Array


class _First(NamedTuple):
    """First derivatives in w = (v, entries of L) by rows: of their shares in -loglik, and of their residuals."""

    loss: Array  # (n, d)
    residuals: Array  # (n, d)


class LaplaceObjective(EffectsObjective):
    """The anchor loss of rows with two random terms."""

    clusters: TwoTerms

    def __init__(self, fixed: RowObjective, clusters: TwoTerms) -> None:
        super().__init__(fixed, clusters)
        self._pairs = Pairs.of(clusters)
        self._pieces = [_piece(term) for term in fixed.terms]
        self._level_weights = self._checked_weights()
        self._here: _At | None = None
        if not fixed.affine:
            self.score_test_obstacle = NOT_SCORES

    def _checked_weights(self) -> tuple[Array, Array]:
        """Return the weights of the levels of both terms; refuse weights that differ between connected rows."""
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        first = np.empty(int(self.clusters.codes.max()) + 1)
        first[self.clusters.codes] = weights
        if not (first[self.clusters.codes] == weights).all():
            raise InputError(
                f"weights differ between rows that {self.effects.cluster} connect: weights replicate groups of "
                "connected rows, so give all rows of one the same"
            )
        own = [np.empty(size) for size in self._pairs.sizes]
        for level, codes in zip(own, self._pairs.codes, strict=True):
            level[codes] = weights
        return own[0], own[1]

    def _values(self, v: Array, shift: Array) -> tuple[Array, Array, Array]:
        """Return log-likelihood, residual and its derivative of the rows at shifts of shape (rows, 1)."""
        loglik, r, dr = (np.zeros(shift.shape) for _ in range(3))
        for piece in self._pieces:
            own, sign, slope = piece.own, piece.data.sign, piece.slope(v)
            t = piece.values(self.link, v, shift[own])
            loglik[own] += sign * t.l
            r[own] += sign * t.r
            dr[own] += sign * t.dr
            if slope is not None:
                loglik[own] += np.where(slope > 0.0, np.log(slope), -np.inf)[:, None]
        return loglik, r, dr

    def _entries(self, L: Array) -> tuple[float, float]:
        first, second = self._pairs.ordered(L)
        return float(first), float(second)

    def _mode_at(self, v: Array, L: Array) -> _At:
        """Return the mode at parameters v of the rows and entries L, started from the latest one."""
        start = None if self._here is None or self._here.mode is None else self._here.mode.u
        with np.errstate(all="ignore"):  # a trial step may overflow
            found = find_mode(lambda shift: self._values(v, shift), self._pairs, self._entries(L), start)
            if found is None:
                return _At(v, -math.inf, None, np.zeros(self.n_rows))
            total = float(self._weighted(found.loglik).sum())
            for weight, u, log_det in zip(self._level_weights, found.u, found.hessian.log_det, strict=True):
                total -= 0.5 * float(weight @ (u**2 + log_det))
            r = self._values(v, self._shift(found, L)[:, None])[1][:, 0]
        return _At(v, total if math.isfinite(total) else -math.inf, found, r)

    def _shift(self, mode: Mode, L: Array) -> Array:
        """Return m'u* of each row."""
        (first, second), own = self._pairs.at_rows(mode.u), self._entries(L)
        return own[0] * first + own[1] * second

    def _at(self, v: Array) -> _At:
        if self._here is not None and np.array_equal(self._here.v, v):
            return self._here
        found = self._mode_at(v[: self.n_fixed], self.effects.entries(v[self.n_fixed :]))._replace(v=v.copy())
        if math.isfinite(found.loglik):
            self._here = found
        return found

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        at = self._at(v)
        return Sums(at.loglik, self._anchor_sums(at.r))

    def _first(self, v: Array, L: Array, mode: Mode) -> _First:
        """Return the first derivatives at parameters v of the rows, entries L and their mode."""
        d0, d, pairs, k = self.n_fixed, self.n_parameters, self._pairs, self.coordinates.n_baseline
        R, J, K = (np.zeros((self.n_rows, d)) for _ in range(3))
        r, dr, d2r = (np.zeros(self.n_rows) for _ in range(3))
        shift = self._shift(mode, L)[:, None]
        for piece in self._pieces:
            own, sign, slope = piece.own, piece.data.sign, piece.slope(v)
            t = piece.values(self.link, v, shift[own])
            for total, value in ((r, t.r), (dr, t.dr), (d2r, t.d2r)):
                total[own] += sign * value[:, 0]
            for matrix, value in ((R, t.r), (J, t.dr), (K, t.d2r)):
                matrix[own, :d0] += sign * value * piece.C
            if piece.D is not None:
                for matrix, value in ((R, -t.l_d), (J, t.r_d), (K, t.r_hd)):
                    matrix[own, : piece.D.shape[1]] += sign * value * piece.D
            if slope is not None and piece.data.slope is not None:
                R[own, :k] -= piece.data.slope / slope[:, None]
        columns = pairs.ordered((d0, d0 + 1))  # columns of the entries of L, the larger term first
        entries, at = self._entries(L), pairs.at_rows(mode.u)
        for column, u in zip(columns, at, strict=True):
            R[:, column], J[:, column], K[:, column] = r * u, dr * u, d2r * u
        right = []
        for own_entry, of, column in zip(entries, pairs.adders, columns, strict=True):
            sums = -own_entry * (of @ J)
            sums[:, column] -= of @ r
            right.append(sums)
        moved = pairs.at_rows(mode.hessian.solve(right[0], right[1]))
        Mdu = entries[0] * moved[0] + entries[1] * moved[1]
        spread, inside = mode.hessian.spread()
        R += 0.5 * spread[:, None] * (K + d2r[:, None] * Mdu)
        for column, value in zip(columns, inside, strict=True):
            R[:, column] += dr * value
        return _First(R, J + dr[:, None] * Mdu)

    def _gradient(self, w: Array, multiplier: Array | None) -> Array | None:
        """Return the gradient of -loglik + multiplier't in w = (v, entries of L); None where it does not exist."""
        v, L = w[: self.n_fixed], w[self.n_fixed :]
        at = self._mode_at(v, L)
        if at.mode is None or not math.isfinite(at.loglik):
            return None
        with np.errstate(all="ignore"):
            gradient, E = self._summed(self._first(v, L, at.mode))
        total = gradient if multiplier is None else gradient + E.T @ multiplier
        return total if np.isfinite(total).all() else None

    def _summed(self, first: _First) -> tuple[Array, Array]:
        """Return the gradient of -loglik and dt/dw."""
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        return weights @ first.loss, self._anchor_slopes(first.residuals)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of the residuals along ``multiplier`` if given."""
        at, d = self._at(v), self.n_parameters
        assert at.mode is not None  # noqa: S101
        w = np.append(v[: self.n_fixed], self.effects.entries(v[self.n_fixed :]))
        gradient, E = self._summed(self._first(w[: self.n_fixed], w[self.n_fixed :], at.mode))
        here = gradient if multiplier is None else gradient + E.T @ multiplier
        H = np.zeros((d, d))
        for j, unit in enumerate(STEP * np.eye(d)):
            up, down = (self._gradient(w + side * unit, multiplier) for side in (1.0, -1.0))
            sides = (up is not None) + (down is not None)
            H[j] = ((here if up is None else up) - (here if down is None else down)) / (max(sides, 1) * STEP)
        H = 0.5 * (H + H.T) + self.n_total * self.coordinates.faint
        return self._in_squares(v, Derivatives(gradient, H, E), multiplier)

    def restricted(self, columns: NDArray[np.intp]) -> Self:
        """Return the loss of some coefficients alone, with both variances."""
        own = columns[columns < self.coordinates.n_coefs - self.effects.n_parameters]
        return type(self)(self.fixed.restricted(own), self.clusters)

    def residuals(self, v: Array) -> Array:
        """Return the residuals at the most likely effects."""
        return np.array(self._at(v).r)

    def _curvatures(self, v: Array) -> tuple[Array, Mode]:
        """Return r' of rows at the most likely effects, and these."""
        mode = self._at(v).mode
        assert mode is not None  # noqa: S101
        shift = self._shift(mode, self.effects.entries(v[self.n_fixed :]))
        return self._values(v[: self.n_fixed], shift[:, None])[2][:, 0], mode

    def residual_slopes(self, v: Array) -> Array:
        """Return the derivative of each residual in its own shift: the diagonal of D - DM H^-1 M'D."""
        dr, mode = self._curvatures(v)
        return np.asarray(dr - dr**2 * mode.hessian.spread()[0])

    def anchor_information(self, v: Array) -> Array:
        """Return Q'W(dr/dshift)Q, in which connected rows move together."""
        assert self.anchors is not None and self._part is not None  # noqa: S101, PT018
        dr, mode = self._curvatures(v)
        Q = self._part.spread(self.anchors.coefficients(np.eye(self.anchors.rank)))
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        entries = self._entries(self.effects.entries(v[self.n_fixed :]))
        right = [own * (of @ (dr[:, None] * Q)) for own, of in zip(entries, self._pairs.adders, strict=True)]
        left = mode.hessian.solve(right[0], right[1])
        result = (Q * (weights * dr)[:, None]).T @ Q
        for weight, a, b in zip(self._level_weights, right, left, strict=True):
            result -= (a * weight[:, None]).T @ b
        return np.asarray(result)

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the shares of rows in the influence; those of connected rows add up to the influence of their group."""
        at = self._at(work.v)
        assert at.mode is not None  # noqa: S101
        own, slopes = self._first(work.v[: self.n_fixed], self.effects.entries(work.v[self.n_fixed :]), at.mode)
        if self._part is not None:
            pull = self._part.spread(self._spread(work.pull))  # type: ignore[arg-type]
            own = own + np.asarray(pull)[:, None] * slopes
        yield slice(0, self.n_rows), self._with_anchors(work, at.r, own)

    def likeliest_shift(self, v: Array) -> Array:
        """Return what the most likely effects add to h of each row."""
        mode = self._at(v).mode
        assert mode is not None  # noqa: S101
        return self._shift(mode, self.effects.entries(v[self.n_fixed :]))

    def posterior(self, v: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Return the most likely effects of the levels of both terms, in the order of their codes, and variances."""
        mode, L = self._at(v).mode, self._entries(self.effects.entries(v[self.n_fixed :]))
        assert mode is not None  # noqa: S101
        sign = float(self.clusters.Z[0, 0])
        effects = tuple(sign * own * u for own, u in zip(L, mode.u, strict=True))
        variances = tuple(own**2 * part for own, part in zip(L, mode.hessian.inverse[:2], strict=True))
        return self._pairs.ordered(effects), self._pairs.ordered(variances)


def _piece(term: Rows) -> ClusterPiece:
    """Return all rows of one kind, with their whole columns."""
    C, D = term.C, None
    if term.ends is not None:
        V, D = term.ends.dense()
        C = np.hstack([V, C])
    return ClusterPiece(term, term.rows, adder(np.zeros(term.rows.size, dtype=np.intp), 1), D, C)
