"""Shift and scale: the anchor loss of h = exp(z'g / 2) a(y)'theta + sign * (x'beta + offset).

Beside r there is a residual of the scale, r_s = -dl/dzeta with zeta = z'g / 2, and the loss is

    L = -l/n + tau |t|^2/n,    t = [sqrt(xi/tau) Q'W r, sqrt(xi_scale/tau) Q'W r_s],    tau = max(xi, xi_scale)

so that all who minimise it see one t and one number. With s = e^zeta, H = s a'theta and X = x'beta,
a row's l is a function of h = H + X and, for two ends, of the width d of the cell in h, which s stretches too:

    r_s = r H - p d (- 1 for exact rows),    p = dl/dd

Its derivatives follow from those of l in (H, d, X), because zeta moves H and d alone, both in proportion.

Inside, covariates are centred, and theta holds their mean: x'beta is then w'beta with w = x - s mean. Scale
columns z are centred too, which multiplies theta by a number: ``ScaledCoordinates`` goes back and forth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import one_number
from anchortm.bases import Basis, baseline_values
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import FLAT, STRICT, Convexity, Derivatives, Objective, Point, Sums
from anchortm.engine.rows.block_sums import LARGEST, Influence, _add_log_slopes, _weighted
from anchortm.engine.rows.blocks import Block, Piece, Shape, Work
from anchortm.engine.rows.interval_columns import Ends
from anchortm.engine.rows.likelihood import Term, evaluate
from anchortm.engine.rows.projections import Part
from anchortm.engine.rows.standardised import Coordinates, Rows
from anchortm.exceptions import IdentificationError, InputError, InputTypeError, SeparationError
from anchortm.inputs.design import WIDE, Design, WideMatrix
from anchortm.links import Link, OneEnd, TwoEnds

__all__ = [
    "ScaledCoordinates",
    "ScaledObjective",
    "check_scalable",
    "check_scale",
    "scale_columns",
    "scale_name",
    "scale_residuals",
    "scaled_baseline",
]

Array = NDArray[np.float64]

FAR_SCALE = 4.0  # |zeta| at a row, without a strict minimum, from which the scale is said to grow without limit
LOOSE = 1e-3  # share of a scale effect in flat directions, which shift and baseline move along much faster
LARGEST_EXPONENT = 600.0  # of a scale that is a number, and that of theta too
FAR_MEAN = 20.0  # of a covariate from 0, in its deviations, from which its zero is worth a word


@dataclass(frozen=True, eq=False)
class ScaledCoordinates(Coordinates):
    """Coordinates with the log scales' parameters last: zeta = (z - z_mean)'g / 2 inside."""

    z_mean: Array = None  # type: ignore[assignment]

    @classmethod
    def of(cls, plain: Coordinates, n_scale: int) -> ScaledCoordinates:
        """Return those of columns whose last ``n_scale`` are the scale's."""
        mean, scale = plain.mean.copy(), plain.scale.copy()
        mean[-n_scale:] = 0.0
        scale[-n_scale:] *= 0.5
        own = {field.name: getattr(plain, field.name) for field in fields(Coordinates)}
        return cls(**own | {"mean": mean, "scale": scale}, z_mean=plain.mean[-n_scale:])

    def split(self, v: Array) -> tuple[Array, Array]:
        """Return theta where z = 0, and beta and g in one vector."""
        theta, others = super().split(v)
        return theta / self._scale_at_mean(others), others

    def join(self, theta: Array, beta: Array) -> Array:
        """Return v for such a theta, and beta and g in one vector."""
        return super().join(theta * self._scale_at_mean(beta), beta)

    def _scale_at_mean(self, others: Array) -> float:
        """Return exp(z'g / 2) at the means of the scale columns, refused where it is not a number."""
        exponent = 0.5 * float(self.z_mean @ others[-self.z_mean.size :])
        if not abs(exponent) < LARGEST_EXPONENT:
            raise IdentificationError(
                f"the scale effects run away: at average covariates the scale is exp({exponent:.3g}), which a double "
                "does not hold; take a smaller xi, leave columns out of scale, or subtract typical values from them"
            )
        return math.exp(exponent)

    def jacobian_at(self, v: Array) -> Array:
        """Return d(theta, beta, g)/dv."""
        J = self.jacobian.copy()
        theta, others = self.split(v)
        q, k = self.z_mean.size, theta.size
        J[:k] /= self._scale_at_mean(others)
        J[:k] -= np.outer(theta, 0.5 * self.z_mean @ J[-q:])
        return J


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


class _Place(NamedTuple):
    """Where rows are: the link's quantities, s, H and d, and the columns that derivatives need."""

    values: OneEnd | TwoEnds
    zeta: Array
    s: Array
    H: Array
    d: Array
    slope: Array | None  # of exact rows, without s
    ends: Ends
    W: Array
    Z: Array

    @property
    def l(self) -> Array:  # noqa: E743 - the letter of the paper
        """Return the log-likelihood."""
        if self.slope is None:
            return self.values.l
        return np.where(self.slope > 0.0, self.values.l + np.log(self.slope) + self.zeta, -np.inf)

    def first(self) -> _First:
        """Return r, p and their derivatives in h and d, and what they make with H."""
        t, H, d = self.values, self.H, self.d
        if isinstance(t, OneEnd):
            p = C = K = np.zeros(H.size)
            A = t.dr
        else:
            p, A, C, K = t.p, t.r_u + t.r_v, t.r_u, t.r_u + t.p * t.q
        R = A * H + C * d
        T_H, T_d = R + t.r, C * H - p + K * d
        r_s = t.r * H - p * d - (0.0 if self.slope is None else 1.0)
        return _First(t.r, r_s, p, A, C, K, R, T_H, T_d, T_H * H + T_d * d)


class _First(NamedTuple):
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


def _place(link: Link, data: Rows, v: Array, k: int, m: Array) -> _Place:
    """Return where rows are at v; m are the covariates' means in units of their deviations."""
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
    values: OneEnd | TwoEnds
    if data.kind == "interval":
        values = link.interval(h, h + d, d)
    elif data.kind == "exact":
        assert data.slope is not None  # noqa: S101
        values, slope = link.exact(h), np.dot(data.slope, v[:k])
    else:
        values = link.left(h) if data.kind == "left" else link.right(h)
    return _Place(values, zeta, s, s * (b - mean), d, slope, ends, X + rest[:, None] * m, Z)


@dataclass(frozen=True, eq=False)
class _ScaledWork(Work):
    """What all works need: the link, v, the number of parameters of the baseline, the covariates' means."""

    link: Link
    v: Array
    n_baseline: int
    m: Array

    def _at(self, data: Rows) -> _Place:
        return _place(self.link, data, self.v, self.n_baseline, self.m)


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
                    piece.part.add(sums, _weighted(data.weights, data.sign, values), None)
            part = float(place.l.sum() if data.weights is None else data.weights @ place.l)
            total += data.sign * part
            size += abs(part)
        return total if size <= LARGEST * (1.0 + abs(total)) else -math.inf


@dataclass(frozen=True, eq=False)
class ScaledSecondOrder(_ScaledWork):
    """Gradient and upper triangle of the Hessian of -loglik, and the anchors' sums of dr/dv and dr_s/dv.

    ``spreads`` are coefficients of the anchors: the curvatures of r and r_s along them join the Hessian.
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
            return _weighted(data.weights, data.sign, values)

        gradient[:k] += ends.gradient(w(s * at.r), w(s * at.p))
        gradient[x] += np.dot(W.T, w(at.r))
        gradient[z] += np.dot(Z.T, w(at.r_s))
        if place.slope is not None:
            _add_log_slopes(data, place.slope, gradient[:k], hessian[:k, :k])
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
        if c.cm is not None and c.Dm is not None:  # the same numbers serve c m' and w m'
            hessian[:k, x] += np.outer(ends.gradient(w(s * s * c.cm), w(-s * s * c.Dm)), m)
            side = np.outer(np.dot(W.T, w(s * c.cm)), m)
            hessian[x, x] += side + side.T

    def _curvatures(self, piece: Piece, place: _Place, at: _First) -> _Curvatures:
        """Return the weights of the products of columns in the Hessian: of -l, and of r and r_s along the spreads."""
        A, C, K, R, r, H, d = at.A, at.C, at.K, at.R, at.r, place.H, place.d
        c = _Curvatures(A, C, K, A, C, A, at.T_H, at.T_d, R, -r, at.zz)
        bends = [None if piece.part is None or b is None else piece.part.spread(b) for b in self.spreads]
        if bends[0] is None and bends[1] is None:
            return c
        t = place.values
        if isinstance(t, OneEnd):
            AA, AC, CC, P = t.d2r, C, C, C  # C = 0
        else:
            AA, AC, CC = t.r_uu + 2.0 * t.r_uv + t.r_vv, t.r_uu + t.r_uv, t.r_uu
            P = t.q * t.r_u + t.p * t.q * (t.p + t.q) - t.r_uu  # the third derivative of l in d
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

    ``pulls``, ``Ks`` and ``ts`` are coefficients of the anchors, ``mix`` the roots of the residuals' shares of tau.
    """

    m: Array = None  # type: ignore[assignment]
    pulls: tuple[Array | None, Array | None] = (None, None)
    Ks: tuple[Array | None, Array | None] = (None, None)
    ts: tuple[Array | None, Array | None] = (None, None)
    mix: tuple[float, float] = (1.0, 1.0)

    def shares(self, block: Block) -> tuple[Array, Array | None]:
        """Return the shares of a block's rows, and their weights."""
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
                    shares += part.spread(K) * (share * values - part.spread(t))[:, None]
        return shares, weights

    def _gradient(self, piece: Piece) -> tuple[Array, _First]:
        """Return the gradient of -l + (pull'q) r + (pull_s'q) r_s of each row."""
        place = _place(self.link, piece.data, self.v, self.n_baseline, self.m)
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


class ScaledObjective(RowObjective):
    """The anchor loss of shift and scale effects, of rows in memory.

    ``xi_scale`` is the second penalty, or None where it is xi. The loss is that of a *ray*: ``mix`` are the roots
    of (xi, xi_scale) / tau, and tau is the number that the loss is asked for at.
    """

    coordinates: ScaledCoordinates
    score_test_obstacle = "score tests do not support scale effects yet: test the model without scale"

    def __init__(self, plain: Objective, n_scale: int, names: tuple[str, ...], xi_scale: float | None) -> None:
        """Take the rows of an objective whose last ``n_scale`` covariates are the scale's."""
        assert isinstance(plain, RowObjective)  # noqa: S101
        coordinates = ScaledCoordinates.of(plain.coordinates, n_scale)
        super().__init__(plain.link, coordinates, plain.anchors, plain.blocks, names)
        self.affine = False  # h is not linear in the parameters
        self.n_scale, self.xi_scale = n_scale, xi_scale
        self.mix = (1.0, 1.0)
        self.held = False
        k = coordinates.n_baseline
        self._m = (coordinates.mean / coordinates.scale)[k : coordinates.scale.size - n_scale]
        self.extra_names = names[len(names) - n_scale :]

    def ray(self, xi: float) -> tuple[ScaledObjective, float]:
        """Return the objective on the ray through (xi, xi_scale), and tau."""
        if self.xi_scale is None:
            return self, xi
        tau = max(xi, self.xi_scale)
        result = copy(self)
        result.xi_scale = None
        if tau > 0.0:
            first = 1.0 if math.isinf(xi) else math.sqrt(xi / tau)
            result.mix = (first, 0.0 if math.isinf(xi) else math.sqrt(self.xi_scale / tau))
        return result, tau

    @property
    def simpler(self) -> ScaledObjective | None:
        """Return the same loss with all scale effects held at 0, from whose minimum the scale starts."""
        if self.held:
            return None
        lower, upper = self.coordinates.lower.copy(), self.coordinates.upper.copy()
        lower[-self.n_scale :] = upper[-self.n_scale :] = 0.0
        result = copy(self)
        result.coordinates, result.held = replace(self.coordinates, lower=lower, upper=upper), True
        return result

    def _where(self, v: Array) -> tuple[Link, Array, int, Array]:
        return self.link, v, self.coordinates.n_baseline, self._m

    def _both(self, first: Array, second: Array) -> Array:
        """Return t, or dt/dv, from the anchors' sums of r and r_s."""
        return np.concatenate(
            [share * self._root(sums) for share, sums in zip(self.mix, (first, second), strict=True) if share > 0.0]
        )

    def _spreads(self, t: Array | None, mixed: bool = True) -> tuple[Array | None, Array | None]:
        """Return coordinates of t as coefficients of the anchors, for r and for r_s."""
        if t is None or self.anchors is None:
            return None, None
        rank = t.shape[0] // sum(share > 0.0 for share in self.mix)
        parts = iter([t[:rank], t[rank:]])
        found = [
            None if share == 0.0 else self.anchors.coefficients((share if mixed else 1.0) * next(parts))
            for share in self.mix
        ]
        return found[0], found[1]

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v."""
        loglik, sums = self.blocks.total(ScaledLogLikelihood(*self._where(v), self.n_sums))
        return Sums(loglik, self._both(*sums))

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvatures of r and r_s along ``multiplier`` if given."""
        work = ScaledSecondOrder(*self._where(v), self.n_sums, self._spreads(multiplier))
        gradient, upper, *G = self.blocks.total(work)[1]
        hessian = np.triu(upper) + np.triu(upper, 1).T
        return Derivatives(gradient, hessian, self._both(*G))

    def penalties(self, v: Array, sums: Sums | None = None) -> tuple[float, ...]:
        """Return |P r|^2 and |P r_s|^2; ``sums`` hold them mixed."""
        parts = self.blocks.total(ScaledLogLikelihood(*self._where(v), self.n_sums))[1]
        return tuple(float(np.sum(self._root(part) ** 2)) for part in parts)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> ScaledInfluence:
        """Return the work that gives the rows' shares in the influence."""
        link, v, k, m = self._where(v)
        pulls, Ks, ts = (self._spreads(part, mixed=False) for part in (pull, K, self.sums(v).t))
        return ScaledInfluence(link, v, k, bread, None, None, None, m=m, pulls=pulls, Ks=Ks, ts=ts, mix=self.mix)

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        """Return "none": nothing is known, not even at xi = 0."""
        return "none"

    def sample(self, size: int) -> ScaledObjective:
        """Return the objective of about ``size`` rows from all over the data, in the same coordinates."""
        result = copy(self)
        result.blocks, result.anchors = self.blocks.sample(size, self.anchors)
        result.n_rows, result.n_total = result.blocks.n_rows, result.blocks.n_total
        result.n_sums = 0 if result.anchors is None else result.anchors.n_sums
        return result

    def average_baseline(self, theta: Array, others: Array) -> Array:
        """Return the baseline of a row with average scale columns."""
        return np.asarray(scaled_baseline(theta, self.coordinates.z_mean[None, :], others[-self.n_scale :])[0])

    @property
    def far_from_zero(self) -> list[str]:
        """Return the covariates that are never near 0, where theta and the shift meet."""
        return [name for name, m in zip(self.names, self._m, strict=False) if abs(m) > FAR_MEAN]

    def scale_residuals(self, v: Array) -> Array:
        """Return r_s in the order of the objective's rows."""
        found = np.zeros(self.n_rows)
        for term in self.terms:
            found[term.rows] += term.sign * _place(self.link, term, v, *self._where(v)[2:]).first().r_s
        return found

    def residuals(self, v: Array) -> Array:
        """Return r in the order of the objective's rows."""
        found = np.zeros(self.n_rows)
        for term in self.terms:
            found[term.rows] += term.sign * _place(self.link, term, v, *self._where(v)[2:]).values.r
        return found

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if the minimum was not reached, or is not strict, because of the scale.

        Either scales are far apart along directions with a curvature below ``STRICT``, or the loss does not curve along
        them: less than ``FLAT``, or less than ``STRICT`` while it still falls.
        """
        if self.held or point is None:
            super().check_maximum(point)
            return
        v, converged, hessian = point.v, point.converged, np.asarray(point.hessian)
        first, k = self.n_parameters - self.n_scale, self.coordinates.n_baseline
        free = np.flatnonzero(self.coordinates.lower < self.coordinates.upper)
        curvatures, directions = np.linalg.eigh(hessian[np.ix_(free, free)])
        shares = np.square(directions[free >= first])
        loose, looser = (shares[:, curvatures <= least].sum(axis=1) > LOOSE for least in (STRICT, FLAT))
        if converged and not loose.any():
            return  # something else is flat
        g, far, size = v[first:], 0, np.zeros(self.n_scale)
        for term in self.terms:
            parts = term.C[:, -self.n_scale :] * g
            far += int((~(np.abs(parts.sum(axis=1)) < FAR_SCALE)).sum()) * (term.sign > 0)
            size = np.maximum(size, np.abs(parts).max(axis=0, initial=0.0))
        remedy = "leave it out of scale, or merge levels or classes"
        if far:
            names = [self.names[first - k + j] for j in np.flatnonzero(size > 0.1 * size.max())]
            raise SeparationError(
                f"the scale grows without limit: {', '.join(names)} makes the spread of y at {far} of {self.n_rows} "
                f"rows more than {math.exp(FAR_SCALE):.0f} times smaller or larger than at average rows, and the "
                "likelihood has no maximum that is reached (a group of one row, or rows that the shift explains "
                f"without error?); {remedy}"
            )
        undetermined = looser if converged else loose
        if undetermined.any():
            names = [self.names[first - k + j] for j in np.flatnonzero(undetermined)]
            raise SeparationError(
                f"the rows do not determine the scale: as {', '.join(names)} grows the likelihood rises by less and "
                f"less, or not at all (two classes, or a group without rows in some class?); {remedy}"
            )


def check_scale(scale: Any, xi_scale: Any, xi: float) -> None:
    """Refuse what scale effects do not go with."""
    if scale is None:
        if xi_scale is not None:
            raise InputError("xi_scale is the penalty of scale effects, and there are none: name columns in scale")
        return
    if xi < 0.0:
        raise InputError(f"xi must be at least 0 with scale effects, not {xi}")
    if xi_scale is None:
        return
    if not 0.0 <= one_number(xi_scale, "xi_scale") < math.inf:
        raise InputError(f"xi_scale must be a finite number from 0, or None for the same as xi, not {xi_scale}")
    if math.isinf(xi) and xi_scale > 0.0:
        raise InputError("xi = inf goes with xi_scale=None, which makes both infinite, or xi_scale=0")


def check_scalable(basis: Basis, design: Design) -> None:
    """Refuse designs and bases that have no scale effects."""
    if isinstance(design.matrix, WideMatrix):
        raise InputError(
            f"scale effects do not go with sparse covariates and factors of more than {WIDE} levels: "
            "merge levels, or pass columns of numbers"
        )
    increments = basis.increments
    if (increments.lower > 0.0).any():
        raise InputError("this distribution fixes the scale, so that there are no scale effects: take 'weibull'")


def scale_columns(scale: Any, names: Sequence[str]) -> list[int]:
    """Return the positions of the columns of the scale among the covariates."""
    if scale is None:
        return []
    flat = [name for part in _each(scale) for name in _each(part)]
    if not flat:
        raise InputError("scale names no column: leave it at None for none")
    places = dict(enumerate(names)) | {name: name for name in names}
    odd = [name for name in flat if isinstance(name, bool) or not isinstance(name, (str, int, np.integer))]
    odd += [name for name in flat if not isinstance(name, str) and name not in places]
    if odd:
        raise InputTypeError(f"scale must be names of covariates or their positions, not {odd[0]!r}")
    unknown = [str(name) for name in flat if name not in places]
    if unknown:
        raise InputError(
            f"scale names what is not among the covariates: {', '.join(unknown)}; they are "
            f"{', '.join(names) or 'none'}, and a scale effect goes with a shift effect"
        )
    return [list(names).index(name) for name in dict.fromkeys(places[name] for name in flat)]


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def scale_name(name: str) -> str:
    """Return what the scale effect of a covariate is called beside its shift effect."""
    return f"{name} (scale)"


def scaled_baseline(theta: Array, Z: Array, g: Array) -> Array:
    """Return exp(z'g / 2) theta for each row of Z."""
    return np.asarray(np.exp(0.5 * (Z @ g))[:, None] * theta)


def scale_residuals(link: Link, terms: tuple[Term, ...], theta: Array, shift: Array) -> Array:
    """Return r_s = -dl/dzeta of each row of a response, where theta is e^zeta times the baseline's."""
    result = np.zeros(shift.size)
    for term in terms:
        values, slope = evaluate(link, term, theta, shift)
        own = theta if theta.ndim == 1 else theta[term.rows]
        end = term.upper if term.lower is None else term.lower
        assert end is not None  # noqa: S101
        r_s = values.r * baseline_values(end, own)
        if isinstance(values, TwoEnds) and term.difference is not None:
            r_s -= values.p * baseline_values(term.difference, own)
        result[term.rows] += term.sign * (r_s if slope is None else r_s - 1.0)
    return result
