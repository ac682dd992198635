"""What is summed over blocks of rows: log-likelihood, derivatives, influence, moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.blocks import Block, Piece, Shape, Work
from anchortm.engine.rows.standardised import Rows
from anchortm.links import OneEnd, TwoEnds

__all__ = [
    "Influence",
    "LogLikelihood",
    "LogSlopes",
    "Moments",
    "SecondOrder",
    "SlopeDerivatives",
    "Slopes",
    "Together",
    "WideSecondOrder",
    "evaluate_rows",
]

Array = NDArray[np.float64]

LARGEST = 1e12  # terms of a log-likelihood relative to itself, of which four digits are left


def _weighted(weights: Array | None, sign: int, values: Array) -> Array:
    if weights is not None:
        values = weights * values
    return values if sign > 0 else -values


def evaluate_rows(link: Any, data: Rows, v: Array, k: int) -> tuple[OneEnd | TwoEnds, Array | None]:
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
        total = size = 0.0
        for piece in block.pieces:
            data = piece.data
            values, slope = evaluate_rows(self.link, data, self.v, self.n_baseline)
            loglik, residual = values.l, values.penalised.r if isinstance(values, OneEnd) else values.r
            if slope is not None:
                loglik = np.where(slope > 0.0, loglik + np.log(slope), -np.inf)
            if piece.part is not None:
                piece.part.add(arrays[0], _weighted(data.weights, data.sign, residual), None)
            part = float(loglik.sum() if data.weights is None else data.weights @ loglik)
            total += data.sign * part
            size += abs(part)
        # far out, truncated rows are a difference of numbers so large that nothing is left of it
        return total if size <= LARGEST * (1.0 + abs(total)) else -math.inf


def _add_log_slopes(data: Rows, slope: Array, gradient: Array, hessian: Array) -> None:
    """Add the derivatives of -sum log h': gradient -c'/h', Hessian c'c''/h'^2 (c' the derivative rows)."""
    assert data.slope is not None  # noqa: S101
    inverse = 1.0 / slope
    gradient -= np.dot(data.slope.T, _weighted(data.weights, data.sign, inverse))
    D = data.slope * (inverse if data.weights is None else inverse * np.sqrt(data.weights))[:, None]
    hessian += np.dot(D.T, D)


@dataclass(frozen=True, eq=False)
class SecondOrder(Work):
    """Gradient and Hessian of -loglik, and the anchors' sums of dr/dv.

    ``spread`` are coefficients of the anchors: the curvature of r along them joins the Hessian.
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
        return [(d,), (d, d), (self.n_sums, d)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            bend = None if self.spread is None or piece.part is None else piece.part.spread(self.spread)
            values, slope = evaluate_rows(self.link, piece.data, self.v, self.n_baseline)
            if isinstance(values, OneEnd):
                self._add_one_end(piece, values, slope, bend, *arrays)
            else:
                self._add_two_ends(piece, values, bend, *arrays)
        return 0.0

    def _add_one_end(
        self,
        piece: Piece,
        values: OneEnd,
        slope: Array | None,
        bend: Array | None,
        gradient: Array,
        hessian: Array,
        G: Array,
    ) -> None:
        data, C = piece.data, piece.data.C
        # l' = -r, so the gradient of -l is r c; its Hessian r' c c'
        gradient += np.dot(C.T, _weighted(data.weights, data.sign, values.r))
        dr = _weighted(data.weights, data.sign, values.dr)
        if piece.part is not None:
            own = dr if values.penalised is values else _weighted(data.weights, data.sign, values.penalised.dr)
            piece.part.add(G, own, C)
        if bend is not None:
            dr = dr + _weighted(data.weights, data.sign, values.penalised.d2r * bend)
        hessian += np.dot((C * dr[:, None]).T, C)
        if slope is not None and data.slope is not None:
            k = self.n_baseline
            _add_log_slopes(data, slope, gradient[:k], hessian[:k, :k])

    def _add_two_ends(
        self, piece: Piece, t: TwoEnds, bend: Array | None, gradient: Array, hessian: Array, G: Array
    ) -> None:
        data, X, ends = piece.data, piece.data.C, piece.data.ends
        assert ends is not None  # noqa: S101
        k = self.n_baseline

        def w(values: Array) -> Array:
            return _weighted(data.weights, data.sign, values)

        # c_u = c_v + D: -p c_u + q c_v = r c_v - p D, without the difference of two large numbers
        r = w(t.r)
        gradient[:k] += ends.gradient(r, w(t.p))
        gradient[k:] += np.dot(X.T, r)
        r_u, dr = w(t.r_u), w(t.r_u + t.r_v)
        if piece.part is not None:
            ends.add_to(piece.part, G[:, :k], dr, r_u)
            piece.part.add(G[:, k:], dr, X)
        # -D2 l = r_u c_u c_u' + r_v c_v c_v' + p q D D', and D has no covariates
        both, cross, own = dr, r_u, r_u
        if bend is not None:
            both = both + w((t.r_uu + 2.0 * t.r_uv + t.r_vv) * bend)
            cross = cross + w((t.r_uu + t.r_uv) * bend)
            own = own + w(t.r_uu * bend)
        hessian[:k, :k] += ends.gram(both, cross, own + w(t.p * t.q))
        if X.shape[1]:
            block = ends.cross(both, cross, X)
            hessian[:k, k:] += block
            hessian[k:, :k] += block.T
            hessian[k:, k:] += np.dot((X * both[:, None]).T, X)


@dataclass(frozen=True, eq=False)
class Slopes(Work):
    """The gradient of -loglik in the coefficients alone, plus that of r along ``spread`` (of the anchors)."""

    label: ClassVar[str] = "derivatives"
    link: Any
    v: Array
    n_baseline: int
    spread: Array | None = None

    @property
    def shapes(self) -> list[Shape]:
        return [(self.v.size - self.n_baseline,)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            data = piece.data
            t, _ = evaluate_rows(self.link, data, self.v, self.n_baseline)
            pull = t.r
            if self.spread is not None and piece.part is not None:
                dr = t.penalised.dr if isinstance(t, OneEnd) else t.r_u + t.r_v
                pull = pull + dr * piece.part.spread(self.spread)
            X = data.C[:, data.C.shape[1] - arrays[0].size :]
            arrays[0] += np.dot(X.T, _weighted(data.weights, data.sign, pull))
        return 0.0


@dataclass(frozen=True, eq=False)
class Together(Work):
    """Two works in one pass; their arrays one after the other, and the sum of their numbers."""

    label: ClassVar[str] = "log-likelihood and derivatives"
    first: Work
    second: Work

    @property
    def shapes(self) -> list[Shape]:
        return [*self.first.shapes, *self.second.shapes]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        cut = len(self.first.shapes)
        return self.first(block, arrays[:cut]) + self.second(block, arrays[cut:])


@dataclass(frozen=True, eq=False)
class WideSecondOrder(SecondOrder):
    """The same for a wide design, in the parameters that ``Coordinates.unfold`` gives.

    The Hessian of the levels is diagonal: beside the one of the rest there are the sums across (a row
    for each level), the diagonal, and the anchors' sums of the levels. No array is rows or levels by levels.
    """

    n_levels: int = 0

    @property
    def shapes(self) -> list[Shape]:
        levels, rest = self.n_levels, self.v.size - self.n_levels
        return [(self.v.size,), (rest, rest), (self.n_sums, rest), (levels, rest), (levels,), (self.n_sums, levels)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        gradient, hessian, G = arrays[:3]
        for piece in block.pieces:
            bend = None if self.spread is None or piece.part is None else piece.part.spread(self.spread)
            values, slope = evaluate_rows(self.link, piece.data, self.v, self.n_baseline)
            c = piece.data.n_dense(self.n_baseline)
            inner = gradient[:c], hessian[:c, :c], G[:, :c]
            if isinstance(values, OneEnd):
                self._add_one_end(piece, values, slope, bend, *inner)
            else:
                self._add_two_ends(piece, values, bend, *inner)
            self._add_wide(piece, values, bend, *arrays)
        return 0.0

    def _add_wide(
        self,
        piece: Piece,
        t: OneEnd | TwoEnds,
        bend: Array | None,
        gradient: Array,
        hessian: Array,
        G: Array,
        across: Array,
        diagonal: Array,
        F: Array,
    ) -> None:
        data, wide, k = piece.data, piece.data.wide, self.n_baseline
        assert wide is not None  # noqa: S101
        c, b, S = data.n_dense(k), hessian.shape[0], wide.sparse

        def w(values: Array) -> Array:
            return _weighted(data.weights, data.sign, values)

        r, dr, cross = w(t.r), w(t.dr if isinstance(t, OneEnd) else t.r_u + t.r_v), np.zeros(0)
        both = dr
        if isinstance(t, TwoEnds):
            cross = w(t.r_u if bend is None else t.r_u + (t.r_uu + t.r_uv) * bend)
            both = both if bend is None else both + w((t.r_uu + 2.0 * t.r_uv + t.r_vv) * bend)
        elif bend is not None:
            both = both + w(t.penalised.d2r * bend)
        dr = dr if isinstance(t, TwoEnds) or t.penalised is t else w(t.penalised.dr)

        def beside(M: sp.csr_matrix, weighted: Any) -> Array:
            """Return M' times the weighted rows c; ``weighted`` is M' with the weights."""
            sums = weighted @ data.C
            return sums if data.ends is None else np.hstack([data.ends.cross(both, cross, M).T, sums])

        weighted = S.multiply(both[:, None]).tocsr() if b > c else S
        if b > c:
            gradient[c:b] += S.T @ r
            sums = beside(S, weighted.T)
            hessian[c:b, :c] += sums
            hessian[:c, c:b] += sums.T
            _add_sparse(hessian[c:b, c:b], S.T @ weighted)
            if piece.part is not None:
                piece.part.add_sparse(G[:, c:b], dr, S)
        if wide.codes is not None:
            levels, dummies = self.n_levels, wide.dummies()
            gradient[b:] += np.bincount(wide.codes, r, levels)
            diagonal += np.bincount(wide.codes, both, levels)
            m = both.size
            by_level = sp.csc_matrix((both, wide.codes, np.arange(m + 1)), shape=(levels, m))
            across[:, :c] += beside(dummies, by_level)
            if b > c:
                _add_sparse(across[:, c:], dummies.T @ weighted)
            if piece.part is not None:
                piece.part.add_sparse(F, dr, dummies)


def _add_sparse(target: Array, matrix: Any) -> None:
    entries = matrix.tocoo()
    target[entries.row, entries.col] += entries.data


@dataclass(frozen=True, eq=False)
class Influence(Work):
    """The Gram matrix of the rows' shares: (gradient of -l_i + pull'q_i r_i) bread + K'q_i (r_i - q_i't).

    q_i is the row of Q; ``pull``, ``K`` and ``t`` are given as coefficients of the anchors. Shares
    are of rows without their weights, and enter the Gram matrix with them. Where anchors are centred,
    ``centre`` are the mean residual and the mean of its gradient, which r_i and its gradient lose.
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
    every: Array | None = None  # what every row has beside its own share

    @property
    def shapes(self) -> list[Shape]:
        return [(self.bread.shape[1], self.bread.shape[1])]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        shares, weights = self.shares(block)
        arrays[0] += np.dot((shares if weights is None else shares * weights[:, None]).T, shares)
        return 0.0

    def shares(self, block: Block) -> tuple[Array, Array | None]:
        """Return the shares of a block's rows, and their weights."""
        k = self.n_baseline
        gradient, r = np.zeros((block.size, self.v.size)), np.zeros(block.size)
        weights: Array | None = None
        for piece in block.pieces:
            data, here = piece.data, piece.data.rows - block.start
            values, slope = evaluate_rows(self.link, data, self.v, k)
            bend: Any = 0.0
            if piece.part is not None and self.pull is not None:
                bend = piece.part.spread(self.pull)
            r[here] += data.sign * (values.penalised.r if isinstance(values, OneEnd) else values.r)
            if data.weights is not None:
                weights = np.ones(block.size) if weights is None else weights
                weights[here] = data.weights
            if isinstance(values, TwoEnds):
                assert data.ends is not None  # noqa: S101
                V, D = data.ends.dense()
                both = values.r + (values.r_u + values.r_v) * bend
                own = np.hstack(
                    [both[:, None] * V + (values.r_u * bend - values.p)[:, None] * D, both[:, None] * data.C]
                )
            else:
                own = (values.r + values.penalised.dr * bend)[:, None] * data.C
                if self.centre is not None:
                    own -= np.multiply.outer(bend * np.ones(own.shape[0]), self.centre[1])
                if slope is not None and data.slope is not None:
                    own[:, :k] -= data.slope / slope[:, None]
            gradient[here] += data.sign * own
        shares = gradient @ self.bread
        if self.every is not None:
            shares += self.every
        if block.anchors is not None and self.K is not None and self.t is not None:
            part = block.anchors.part(block.rows)
            r -= part.spread(self.t) + (0.0 if self.centre is None else self.centre[0])
            shares += part.spread(self.K) * r[:, None]
        return shares, weights


@dataclass(frozen=True, eq=False)
class Moments(Work):
    """[C o]'W[C o] and the anchors' sums of [C o], o the offset, for exact rows."""

    label: ClassVar[str] = "moments"
    n_parameters: int
    n_sums: int

    @property
    def shapes(self) -> list[Shape]:
        d = self.n_parameters + 1
        return [(d, d), (self.n_sums, d)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            data = piece.data
            C = data.C if data.offset is None else np.column_stack([data.C, data.offset])
            ones = np.ones(C.shape[0]) if data.weights is None else data.weights
            columns = slice(None, C.shape[1])
            arrays[0][columns, columns] += np.dot((C if data.weights is None else C * ones[:, None]).T, C)
            if piece.part is not None:
                piece.part.add(arrays[1][:, columns], ones, C)
        return 0.0


@dataclass(frozen=True, eq=False)
class LogSlopes(Work):
    """The sum of log h' of exact rows, at these parameters of the baseline."""

    label: ClassVar[str] = "log-likelihood"
    v: Array

    @property
    def shapes(self) -> list[Shape]:
        return []

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        total = 0.0
        for piece in block.pieces:
            data = piece.data
            assert data.slope is not None  # noqa: S101
            slope = np.dot(data.slope, self.v)
            if not slope.min() > 0.0:
                return -math.inf
            logs = np.log(slope)
            total += float(logs.sum() if data.weights is None else data.weights @ logs)
        return total


@dataclass(frozen=True, eq=False)
class SlopeDerivatives(Work):
    """Gradient and Hessian of -sum log h' of exact rows."""

    label: ClassVar[str] = "derivatives"
    v: Array

    @property
    def shapes(self) -> list[Shape]:
        k = self.v.size
        return [(k,), (k, k)]

    def __call__(self, block: Block, arrays: list[Array]) -> float:
        for piece in block.pieces:
            assert piece.data.slope is not None  # noqa: S101
            _add_log_slopes(piece.data, np.dot(piece.data.slope, self.v), *arrays)
        return 0.0
