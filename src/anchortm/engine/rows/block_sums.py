"""What is summed over blocks of rows: log-likelihood, derivatives, influence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.blocks import Block, Piece, Shape, Work
from anchortm.engine.rows.standardised import Rows
from anchortm.kernels import rows as compiled
from anchortm.links import RowValues

if TYPE_CHECKING:
    from anchortm.links import TwoEnds

__all__ = [
    "AnchorInformation",
    "FirstOrder",
    "Influence",
    "LogLikelihood",
    "SecondOrder",
    "Squares",
    "Together",
    "add_log_slopes",
    "evaluate_rows",
    "weighted",
    "weighted_gram",
]

Array = NDArray[np.float64]

LARGEST = 1e12  # terms of a log-likelihood relative to their sum, which then has four digits left


def weighted(weights: Array | None, sign: int, values: Array) -> Array:
    """Return values times the weights and the sign of their rows."""
    if weights is not None:
        values = weights * values
    return values if sign > 0 else -values


def weighted_gram(C: Array, weights: Array) -> Array:
    """Return C'diag(weights)C; as a product of one matrix with itself it takes half the time."""
    if weights.size and not weights.min() >= 0.0:
        return np.asarray(np.dot((C * weights[:, None]).T, C))
    root = C * np.sqrt(weights)[:, None]
    return np.asarray(np.dot(root.T, root))


def evaluate_rows(link: Any, data: Rows, v: Array, k: int) -> tuple[RowValues, Array | None]:
    """Return the link's quantities at h = c'v, and h' for exact rows; the first k parameters are the baseline's."""
    size = data.n_dense(k)
    wide = None if data.wide is None else data.wide.values(v[size:])
    if data.kind == "interval":
        assert data.ends is not None  # noqa: S101
        lower, width = data.ends.values(v[:k])
        lower += np.dot(data.C, v[k:size])
        if wide is not None:
            lower += wide
        if data.offset is not None:
            lower += data.offset
        return link.interval(lower, lower + width, width), None
    h = np.dot(data.C, v[:size])  # np.dot, unlike @, lets other threads work meanwhile
    if wide is not None:
        h += wide
    if data.offset is not None:
        h += data.offset
    if data.kind == "exact":
        assert data.slope is not None  # noqa: S101
        return link.exact(h), np.dot(data.slope, v[:k])
    if data.kind == "mean":
        return link.terms(h, data.outcome), None
    return (link.left(h) if data.kind == "left" else link.right(h)), None


def fused(
    link: Any, data: Rows, v: Array, bend: Array | None, derivatives: tuple[Array, Array] | None
) -> tuple[float, Array, Array] | None:
    """Return what the compiled kernel finds in one pass over rows, or None where it does not serve."""
    law = compiled.LAWS.get((link.name if data.outcome is None else link.name_of_rows(data.outcome), data.kind))
    own = type(link).__module__.startswith("anchortm.")  # a user's link may have the name of one of ours
    if law is None or not own or data.wide is not None or data.C.shape[1] != v.size:
        return None
    if data.outcome is None:
        at = data.C, data.slope, data.offset, None, data.weights, data.sign
        return compiled.one_end(law, *at, v, bend, derivatives)
    y, constant = np.ascontiguousarray(data.outcome[:, 0]), data.outcome[:, -1]
    found = compiled.one_end(law, data.C, None, data.offset, y, data.weights, data.sign, v, bend, derivatives)
    if found is None:
        return None
    return found[0] + float(constant.sum() if data.weights is None else data.weights @ constant), *found[1:]


def loglik_of(data: Rows, values: RowValues, slope: Array | None) -> float:
    """Return the log-likelihood of rows, with their weights and sign; ``slope`` is h' of exact rows."""
    loglik = values.l
    if slope is not None:
        loglik = np.where(slope > 0.0, loglik + np.log(slope), -np.inf)
    return data.sign * float(loglik.sum() if data.weights is None else data.weights @ loglik)


def reliable_sum(parts: list[float]) -> float:
    """Return the sum of log-likelihoods; minus infinity if it is a difference of large numbers.

    Far out, truncated rows are such differences, without a correct digit.
    """
    total, size = sum(parts), sum(map(abs, parts))
    return total if size <= LARGEST * (1.0 + abs(total)) else -math.inf


@dataclass(frozen=True, eq=False)
class LogLikelihood(Work):
    """The log-likelihood, and the anchors' sums of the residuals."""

    label: ClassVar[str] = "log-likelihood"
    link: Any  # a Link, or a Family
    v: Array
    n_baseline: int
    n_sums: int

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_sums,)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        parts = []
        for piece in block.pieces:
            data = piece.data
            found = fused(self.link, data, self.v, None, None)
            if found is None:
                values, slope = evaluate_rows(self.link, data, self.v, self.n_baseline)
                part = loglik_of(data, values, slope)
                if piece.part is not None:
                    piece.part.add(arrays[0], weighted(data.weights, data.sign, values.penalised.r), None)
            else:
                part = found[0]
                if piece.part is not None:
                    piece.part.add(arrays[0], found[1], None)
            parts.append(part)
        return reliable_sum(parts)

    def residual_slopes(self, data: Rows) -> Array:
        """Return dr/dshift of these rows."""
        return evaluate_rows(self.link, data, self.v, self.n_baseline)[0].dr


def add_products(C: Array, r: Array, w: Array, gradient: Array, hessian: Array) -> None:
    """Add C'r and C'diag(w)C."""
    if compiled.add_gram(C, r, w, gradient, hessian):
        return
    gradient += np.dot(C.T, r)
    hessian += weighted_gram(C, w)


def add_log_slopes(data: Rows, slope: Array, gradient: Array, hessian: Array) -> None:
    """Add the derivatives of -sum log h': gradient -c'/h', Hessian c'c''/h'^2 (c' the derivative rows)."""
    assert data.slope is not None  # noqa: S101
    inverse = 1.0 / slope
    gradient -= np.dot(data.slope.T, weighted(data.weights, data.sign, inverse))
    D = data.slope * (inverse if data.weights is None else inverse * np.sqrt(data.weights))[:, None]
    hessian += np.dot(D.T, D)


@dataclass(frozen=True, eq=False)
class SecondOrder(Work):
    """The log-likelihood, the anchors' sums of r, gradient and Hessian of -loglik, and the anchors' sums of dr/dv.

    ``spread`` are coefficients of the anchors: the Hessian includes the curvature of r along them.
    """

    label: ClassVar[str] = "derivatives"
    link: Any
    v: Array
    n_baseline: int
    n_sums: int
    spread: Array | None = None

    @property
    def shapes(self) -> list[Shape]:
        d = self.v.size
        return [(self.n_sums,), (d,), (d, d), (self.n_sums, d)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        sums, gradient, hessian, G = arrays
        parts = []
        for piece in block.pieces:
            bend = None if self.spread is None or piece.part is None else piece.part.spread(self.spread)
            found = fused(self.link, piece.data, self.v, bend, (gradient, hessian))
            if found is None:
                part, _ = self._add(piece, bend, sums, gradient, hessian, G)
            else:
                part, r, dr = found
                if piece.part is not None:
                    piece.part.add(sums, r, None)
                    piece.part.add(G, dr, piece.data.C)
            parts.append(part)
        return reliable_sum(parts)

    def _add(
        self, piece: Piece, bend: Array | None, sums: Array, gradient: Array, hessian: Array, G: Array
    ) -> tuple[float, RowValues]:
        """Add the sums of rows; return their log-likelihood and their values."""
        data = piece.data
        values, slope = evaluate_rows(self.link, data, self.v, self.n_baseline)
        if piece.part is not None:
            piece.part.add(sums, weighted(data.weights, data.sign, values.penalised.r), None)
        if data.ends is None:
            self._add_one_end(piece, values, slope, bend, gradient, hessian, G)
        else:
            self._add_two_ends(piece, cast("TwoEnds", values), bend, gradient, hessian, G)
        return loglik_of(data, values, slope), values

    def _add_one_end(
        self,
        piece: Piece,
        values: RowValues,
        slope: Array | None,
        bend: Array | None,
        gradient: Array,
        hessian: Array,
        G: Array,
    ) -> None:
        data, C = piece.data, piece.data.C
        # l' = -r, so the gradient of -l is r c; its Hessian r' c c'
        r = weighted(data.weights, data.sign, values.r)
        dr = weighted(data.weights, data.sign, values.dr)
        if piece.part is not None:
            own = dr if values.penalised is values else weighted(data.weights, data.sign, values.penalised.dr)
            piece.part.add(G, own, C)
        if bend is not None:
            dr = dr + weighted(data.weights, data.sign, values.penalised.d2r * bend)
        add_products(C, r, dr, gradient, hessian)
        if slope is not None and data.slope is not None:
            k = self.n_baseline
            add_log_slopes(data, slope, gradient[:k], hessian[:k, :k])

    def _add_two_ends(
        self, piece: Piece, t: TwoEnds, bend: Array | None, gradient: Array, hessian: Array, G: Array
    ) -> None:
        data, X, ends = piece.data, piece.data.C, piece.data.ends
        assert ends is not None  # noqa: S101
        k = self.n_baseline

        def w(values: Array) -> Array:
            return weighted(data.weights, data.sign, values)

        # the lower end moves with c_v and x, the width with D = c_u - c_v: no differences of large numbers
        r = w(t.r)
        gradient[:k] += ends.gradient(r, w(t.l_d))
        gradient[k:] += np.dot(X.T, r)
        r_d, dr = w(t.r_d), w(t.dr)
        if piece.part is not None:
            ends.add_to(piece.part, G[:, :k], dr, r_d)
            piece.part.add(G[:, k:], dr, X)
        # the Hessian of -l in h and the width d is [dr r_d; r_d -l_dd]; h moves with c_v and x, d with D alone
        both, cross, own = dr, r_d, r_d
        if bend is not None:
            both = both + w(t.d2r * bend)
            cross = cross + w(t.r_hd * bend)
            own = own + w(t.r_dd * bend)
        hessian[:k, :k] += ends.gram(both, cross, own + w(t.l_uv))  # -l_dd = r_d + l_uv
        if X.shape[1]:
            block = ends.cross(both, cross, X)
            hessian[:k, k:] += block
            hessian[k:, :k] += block.T
            hessian[k:, k:] += weighted_gram(X, both)


@dataclass(frozen=True, eq=False)
class AnchorInformation(Work):
    """The anchors' sums A'W(dr/dshift)A."""

    label: ClassVar[str] = "information on the anchors"
    at: Any  # the work of the log-likelihood, which knows where rows are evaluated
    n_sums: int

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_sums, self.n_sums)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            if piece.part is not None:
                slopes = self.at.residual_slopes(piece.data)
                piece.part.add_gram(arrays[0], weighted(piece.data.weights, piece.data.sign, slopes))
        return 0.0


@dataclass(frozen=True, eq=False)
class FirstOrder(Work):
    """The log-likelihood, the anchors' sums of the residuals, and a gradient.

    That is the gradient of -loglik, plus that of r along ``spread`` (of the anchors).
    """

    label: ClassVar[str] = "derivatives"
    link: Any
    v: Array
    n_baseline: int
    n_sums: int
    spread: Array | None = None

    @property
    def shapes(self) -> list[Shape]:
        return [(self.n_sums,), (self.v.size,)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        (sums, gradient), k, parts = arrays, self.n_baseline, []
        for piece in block.pieces:
            data = piece.data
            t, slope = evaluate_rows(self.link, data, self.v, k)
            parts.append(loglik_of(data, t, slope))
            if piece.part is not None:
                piece.part.add(sums, weighted(data.weights, data.sign, t.penalised.r), None)
            bend = None if self.spread is None or piece.part is None else piece.part.spread(self.spread)
            pull = weighted(data.weights, data.sign, t.r if bend is None else t.r + t.penalised.dr * bend)
            if data.ends is None:
                gradient += np.dot(data.C.T, pull)
                if slope is not None and data.slope is not None:
                    gradient[:k] -= np.dot(data.slope.T, weighted(data.weights, data.sign, 1.0 / slope))
                continue
            ends = cast("TwoEnds", t)
            width = weighted(data.weights, data.sign, ends.l_d if bend is None else ends.l_d - ends.r_d * bend)
            gradient[:k] += data.ends.gradient(pull, width)
            gradient[k:] += np.dot(data.C.T, pull)
        return reliable_sum(parts)


@dataclass(frozen=True, eq=False)
class Together(Work):
    """Two works in one pass: the arrays of both, and the sum of their numbers."""

    label: ClassVar[str] = "log-likelihood and derivatives"
    first: Work
    second: Work

    @property
    def shapes(self) -> list[Shape]:
        return [*self.first.shapes, *self.second.shapes]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        cut = len(self.first.shapes)
        return self.first(block, arrays[:cut]) + self.second(block, arrays[cut:])


class Squares(NamedTuple):
    """Each row's part of a ridge whose weights are variances of the covariates, beyond an equal share.

    That is ((x - mean)^2 - variance) pull, with x - mean = scale c + shift in standardised columns c.
    """

    scale: Array
    shift: Array
    variance: Array
    pull: Array

    def of(self, data: Rows, k: int) -> Array:
        """Return it for some rows; the baseline has k parameters."""
        first = k if data.ends is None else 0
        X = data.C[:, first : first + self.scale.size]
        return np.asarray(((self.scale * X + self.shift) ** 2 - self.variance) @ self.pull)


@dataclass(frozen=True, eq=False)
class Influence(Work):
    """The Gram matrix of the rows' shares: (gradient of -l_i + pull'q_i r_i) bread + K'q_i (r_i - q_i't).

    q_i is the row of Q; ``pull``, ``K`` and ``t`` are given as coefficients of the anchors. Shares do not contain the
    weights of their rows, the Gram matrix does. If anchors are centred, ``centre`` holds the mean residual and the mean
    of its gradient, which are subtracted from r_i and its gradient.
    """

    label: ClassVar[str] = "standard errors"
    link: Any
    v: Array
    n_baseline: int
    bread: Array
    pull: Array | None
    K: Array | None
    t: Array | None
    centre: tuple[float, Array] | None = None
    every: Array | None = None  # the share of a penalty that each row has
    squares: Squares | None = None

    @property
    def shapes(self) -> list[Shape]:
        return [(self.bread.shape[1], self.bread.shape[1])]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        shares, weights = self.shares(block)
        arrays[0] += np.dot((shares if weights is None else shares * weights[:, None]).T, shares)
        return 0.0

    def shares(self, block: Block) -> tuple[Array, Array | None]:
        """Return the shares of a block's rows, and their weights."""
        shares, weights = self._of_loss(block)
        if self.every is not None:
            shares += self.every
        if self.squares is not None:
            for piece in block.pieces:
                if piece.data.sign > 0:  # each row once
                    shares[piece.data.rows - block.start] += self.squares.of(piece.data, self.n_baseline)
        return shares, weights

    def _of_loss(self, block: Block) -> tuple[Array, Array | None]:
        """Return the shares that rows have by their likelihood and residuals, and their weights."""
        k = self.n_baseline
        gradient, r = np.zeros((block.size, self.v.size)), np.zeros(block.size)
        weights: Array | None = None
        for piece in block.pieces:
            data, here = piece.data, piece.data.rows - block.start
            values, slope = evaluate_rows(self.link, data, self.v, k)
            bend: Any = 0.0
            if piece.part is not None and self.pull is not None:
                bend = piece.part.spread(self.pull)
            r[here] += data.sign * values.penalised.r
            if data.weights is not None:
                weights = np.ones(block.size) if weights is None else weights
                weights[here] = data.weights
            both = values.r + values.penalised.dr * bend
            if data.ends is not None:
                V, D = data.ends.dense()
                width = values.r_d * bend - values.l_d
                own = np.hstack([both[:, None] * V + width[:, None] * D, both[:, None] * data.C])
            else:
                own = both[:, None] * data.C
                if self.centre is not None:
                    own -= np.multiply.outer(bend * np.ones(own.shape[0]), self.centre[1])
                if slope is not None and data.slope is not None:
                    own[:, :k] -= data.slope / slope[:, None]
            gradient[here] += data.sign * own
        shares = gradient @ self.bread
        if block.anchors is not None and self.K is not None and self.t is not None:
            part = block.anchors.part(block.rows)
            r -= part.projected(self.t) + (0.0 if self.centre is None else self.centre[0])
            shares += part.spread(self.K) * r[:, None]
        return shares, weights
