"""Sums over blocks of rows with shift and scale effects: h = s H_0 + X with s = exp(zeta), zeta = z'g / 2.

With H = s a'theta and X = x'beta, a row's l is a function of h = H + X and, for two ends, of the width d of the
interval in h, which s stretches too. The residual of the scale is

    r_s = -dl/dzeta = r H - p d (- 1 for exact rows),    p = dl/dd

Its derivatives follow from those of l in (H, d, X), because zeta moves only H and d, both in proportion.

Inside, covariates are centred and theta holds their mean: x'beta is then w'beta with w = x - s mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.block_sums import LARGEST, Influence, add_log_slopes, weighted
from anchortm.engine.rows.blocks import Block, Piece, Shape, Work
from anchortm.engine.rows.interval_columns import Ends
from anchortm.engine.rows.projections import Part
from anchortm.engine.rows.standardised import Rows
from anchortm.links import Link, RowValues

__all__ = [
    "Place",
    "ScaledInfluence",
    "ScaledLogLikelihood",
    "ScaledSecondOrder",
    "place_rows",
]

Array = NDArray[np.float64]


class PointEnds(Ends):
    """The baseline columns of rows with one end, as ends without a width."""

    def __init__(self, B: Array) -> None:
        self.B = B

    def take(self, rows: Any) -> PointEnds:
        return PointEnds(self.B[rows])

    def dense(self) -> tuple[Array, Array]:
        return self.B, np.zeros_like(self.B)

    def values(self, v: Array) -> tuple[Array, Array]:
        return np.dot(self.B, v), np.zeros(self.B.shape[0])

    def gradient(self, r: Array, p: Array) -> Array:
        return np.asarray(np.dot(self.B.T, r))

    def add_to(self, part: Part, G: Array, dr: Array, r_u: Array) -> None:
        part.add(G, dr, self.B)

    def gram(self, both: Array, cross: Array, own: Array) -> Array:
        return np.asarray(np.dot((self.B * both[:, None]).T, self.B))

    def cross(self, both: Array, cross: Array, X: Array) -> Array:
        return np.asarray(np.dot((self.B * both[:, None]).T, X))


class Place(NamedTuple):
    """Rows at one v: the values of the link, zeta, s, H and d, and the columns that derivatives need."""

    values: RowValues
    zeta: Array
    s: Array
    H: Array
    d: Array
    slope: Array | None  # slope of h at exact rows, without s
    ends: Ends
    W: Array
    Z: Array

    @property
    def l(self) -> Array:  # noqa: E743 - the letter of the paper
        """Return the log-likelihood."""
        if self.slope is None:
            return self.values.l
        return np.where(self.slope > 0.0, self.values.l + np.log(self.slope) + self.zeta, -np.inf)

    def first(self) -> First:
        """Return r, r_s and their first derivatives."""
        t, H, d = self.values, self.H, self.d
        p, A, C, K = t.l_d, t.dr, t.r_d, t.minus_l_dd
        R = A * H + C * d
        T_H, T_d = R + t.r, C * H - p + K * d
        r_s = t.r * H - p * d - (0.0 if self.slope is None else 1.0)
        return First(t.r, r_s, p, A, C, K, R, T_H, T_d, T_H * H + T_d * d)


class First(NamedTuple):
    """r, r_s and p, A = dr/dh, C = dr/dd = -dp/dh, K = -dp/dd; R = dr/dzeta, T_H, T_d = dr_s/dH, dr_s/dd.

    ``zz`` is dr_s/dzeta, and dr_s/dX = R.
    """

    r: Array
    r_s: Array
    p: Array
    A: Array
    C: Array
    K: Array
    R: Array
    T_H: Array
    T_d: Array
    zz: Array


def place_rows(link: Link, data: Rows, v: Array, k: int, m: Array) -> Place:
    """Return rows at v; m are the means of the covariates in units of their standard deviations."""
    p = m.size
    first = k if data.ends is None else 0
    X, Z = data.C[:, first : first + p], data.C[:, first + p :]
    ends = PointEnds(data.C[:, :k]) if data.ends is None else data.ends
    zeta = np.dot(Z, v[k + p :])
    s, rest = np.exp(zeta), -np.expm1(zeta)
    beta = v[k : k + p]
    mean = float(m @ beta)
    b, width = ends.values(v[:k])
    h = s * b + np.dot(X, beta) + rest * mean
    if data.offset is not None:
        h += data.offset
    d = s * width
    slope = None
    values: RowValues
    if data.kind == "interval":
        values = link.interval(h, h + d, d)
    elif data.kind == "exact":
        assert data.slope is not None  # noqa: S101
        values, slope = link.exact(h), np.dot(data.slope, v[:k])
    else:
        values = link.left(h) if data.kind == "left" else link.right(h)
    return Place(values, zeta, s, s * (b - mean), d, slope, ends, X + rest[:, None] * m, Z)


@dataclass(frozen=True, eq=False)
class _ScaledWork(Work):
    """What all sums need: the link, v, the number of baseline parameters, the means of the covariates."""

    link: Link
    v: Array
    n_baseline: int
    m: Array

    def _at(self, data: Rows) -> Place:
        return place_rows(self.link, data, self.v, self.n_baseline, self.m)


@dataclass(frozen=True, eq=False)
class ScaledLogLikelihood(_ScaledWork):
    """The log-likelihood, and the anchors' sums of r and of r_s."""

    label: ClassVar[str] = "log-likelihood"
    n_sums: int = 0

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_sums,), (self.n_sums,)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        total = size = 0.0
        for piece in block.pieces:
            data = piece.data
            place = self._at(data)
            if piece.part is not None:
                at = place.first()
                for sums, values in zip(arrays, (at.r, at.r_s), strict=True):
                    piece.part.add(sums, weighted(data.weights, data.sign, values), None)
            part = float(place.l.sum() if data.weights is None else data.weights @ place.l)
            total += data.sign * part
            size += abs(part)
        return total if size <= LARGEST * (1.0 + abs(total)) else -math.inf

    def residual_slopes(self, data: Rows) -> Array:
        """Return dr/dshift of these rows."""
        return self._at(data).values.dr


@dataclass(frozen=True, eq=False)
class ScaledSecondOrder(_ScaledWork):
    """Gradient and upper triangle of the Hessian of -loglik, and the anchors' sums of dr/dv and dr_s/dv.

    ``spreads`` are coefficients of the anchors: the Hessian includes the curvatures of r and r_s along them.
    """

    label: ClassVar[str] = "derivatives"
    n_sums: int = 0
    spreads: tuple[Array | None, Array | None] = (None, None)

    @property
    def shapes(self) -> list[Shape]:
        d = self.v.size
        return [(d,), (d, d), (self.n_sums, d), (self.n_sums, d)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            self._add(piece, *arrays)
        return 0.0

    def _add(self, piece: Piece, gradient: Array, hessian: Array, G: Array, G_s: Array) -> None:
        data, k, m = piece.data, self.n_baseline, self.m
        place = self._at(data)
        at, s, ends, W, Z = place.first(), place.s, place.ends, place.W, place.Z
        x, z = slice(k, k + m.size), slice(k + m.size, None)

        def w(values: Array) -> Array:
            return weighted(data.weights, data.sign, values)

        gradient[:k] += ends.gradient(w(s * at.r), w(s * at.p))
        gradient[x] += np.dot(W.T, w(at.r))
        gradient[z] += np.dot(Z.T, w(at.r_s))
        if place.slope is not None:
            add_log_slopes(data, place.slope, gradient[:k], hessian[:k, :k])
        if piece.part is not None:
            part = piece.part
            ends.add_to(part, G[:, :k], w(s * at.A), w(s * at.C))
            part.add(G[:, x], w(at.A), W)
            part.add(G[:, z], w(at.R), Z)
            ends.add_to(part, G_s[:, :k], w(s * at.T_H), w(s * at.T_d))
            part.add(G_s[:, x], w(at.R), W)
            lost = np.zeros(self.n_sums)
            part.add(lost, w(s * at.r), None)
            G_s[:, x] -= np.outer(lost, m)
            part.add(G_s[:, z], w(at.zz), Z)
        c = self._curvatures(piece, place, at)
        hessian[:k, :k] += ends.gram(w(s * s * c.cc), w(s * s * c.cross), w(s * s * c.DD))
        hessian[:k, x] += ends.cross(w(s * c.cw), w(s * c.Dw), W)
        hessian[x, x] += np.dot((W * w(c.ww)[:, None]).T, W)
        hessian[:k, z] += ends.cross(w(s * c.cz), w(s * c.Dz), Z)
        hessian[x, z] += np.dot((W * w(c.wz)[:, None]).T, Z) + np.outer(m, np.dot(Z.T, w(s * c.mz)))
        hessian[z, z] += np.dot((Z * w(c.zz)[:, None]).T, Z)
        if c.cm is not None and c.Dm is not None:  # the same numbers weigh c m' and w m'
            hessian[:k, x] += np.outer(ends.gradient(w(s * s * c.cm), w(-s * s * c.Dm)), m)
            side = np.outer(np.dot(W.T, w(s * c.cm)), m)
            hessian[x, x] += side + side.T

    def _curvatures(self, piece: Piece, place: Place, at: First) -> _Curvatures:
        """Return the weights of the products of columns in the Hessian: of -l, and of r and r_s along the spreads."""
        A, C, K, R, r, H, d = at.A, at.C, at.K, at.R, at.r, place.H, place.d
        c = _Curvatures(A, C, K, A, C, A, at.T_H, at.T_d, R, -r, at.zz)
        bends = [None if piece.part is None or b is None else piece.part.spread(b) for b in self.spreads]
        if bends[0] is None and bends[1] is None:
            return c
        t = place.values
        AA, AC, CC, P = t.d2r, t.r_hd, t.r_dd, t.l_ddd
        bent, bent_s = bends
        if bent is not None:  # D2 r
            R_H, R_d = AA * H + AC * d, AC * H + CC * d
            own = _Curvatures(AA, AC, CC, AA, AC, AA, R_H + A, R_d + C, R_H, -A, R_H * H + R_d * d + R)
            c = c.plus(bent, own)
        if bent_s is not None:  # D2 r_s, from the second derivatives of r_s in H, d and X
            HH, Hd = AA * H + 2.0 * A + AC * d, AC * H + 2.0 * C + CC * d
            dd = CC * H + 2.0 * K - P * d
            HX, dX, XX = HH - A, Hd - C, HH - 2.0 * A
            cz, Dz = HH * H + Hd * d + at.T_H, Hd * H + dd * d + at.T_d
            own = _Curvatures(HH, Hd, dd, HX, dX, XX, cz, Dz, HX * H + dX * d, -2.0 * R - r, cz * H + Dz * d)
            c = c.plus(bent_s, own)._replace(cm=-A * bent_s, Dm=-C * bent_s)
        return c


class _Curvatures(NamedTuple):
    """Weights of c c', c D' + D c', D D'; c w', D w'; w w'; c z', D z'; w z', m z'; z z', and of c m', D m'."""

    cc: Array
    cross: Array
    DD: Array
    cw: Array
    Dw: Array
    ww: Array
    cz: Array
    Dz: Array
    wz: Array
    mz: Array
    zz: Array
    cm: Array | None = None
    Dm: Array | None = None

    def plus(self, bend: Array, other: _Curvatures) -> _Curvatures:
        """Return the sum with others times ``bend``."""
        return _Curvatures(*(a + bend * b for a, b in zip(self[:11], other[:11], strict=True)))


@dataclass(frozen=True, eq=False)
class ScaledInfluence(Influence):
    """The rows' shares in the influence with r and r_s.

    ``pulls``, ``Ks`` and ``ts`` are coefficients of the anchors, ``mix`` are the roots of xi / tau and xi_scale / tau.
    """

    m: Array = None  # type: ignore[assignment]
    pulls: tuple[Array | None, Array | None] = (None, None)
    Ks: tuple[Array | None, Array | None] = (None, None)
    ts: tuple[Array | None, Array | None] = (None, None)
    mix: tuple[float, float] = (1.0, 1.0)

    def _of_loss(self, block: Block) -> tuple[Array, Array | None]:
        """Return the shares that rows have by their likelihood and residuals, and their weights."""
        gradient = np.zeros((block.size, self.v.size))
        residuals = np.zeros((2, block.size))
        weights: Array | None = None
        for piece in block.pieces:
            data, here = piece.data, piece.data.rows - block.start
            if data.weights is not None:
                weights = np.ones(block.size) if weights is None else weights
                weights[here] = data.weights
            own, at = self._gradient(piece)
            gradient[here] += data.sign * own
            residuals[:, here] += data.sign * np.array([at.r, at.r_s])
        shares = gradient @ self.bread
        if block.anchors is not None:
            part = block.anchors.part(block.rows)
            for share, values, K, t in zip(self.mix, residuals, self.Ks, self.ts, strict=True):
                if K is not None and t is not None:
                    shares += part.spread(K) * (share * values - part.projected(t))[:, None]
        return shares, weights

    def _gradient(self, piece: Piece) -> tuple[Array, First]:
        """Return the gradient of -l + (pull'q) r + (pull_s'q) r_s of each row."""
        place = place_rows(self.link, piece.data, self.v, self.n_baseline, self.m)
        at = place.first()
        bend: Any
        bend_s: Any
        bend, bend_s = (
            0.0 if piece.part is None or pull is None else share * piece.part.spread(pull)
            for share, pull in zip(self.mix, self.pulls, strict=True)
        )
        V, D = place.ends.dense()
        on_H, on_d = at.r + at.A * bend + at.T_H * bend_s, at.C * bend + at.T_d * bend_s - at.p
        baseline = (place.s * on_H)[:, None] * V + (place.s * on_d)[:, None] * D
        if place.slope is not None and piece.data.slope is not None:
            baseline -= piece.data.slope / place.slope[:, None]
        shift = (at.r + at.A * bend + at.R * bend_s)[:, None] * place.W
        shift -= np.outer(place.s * at.r * bend_s, self.m)
        scale = (at.r_s + at.R * bend + at.zz * bend_s)[:, None] * place.Z
        return np.hstack([baseline, shift, scale]), at
