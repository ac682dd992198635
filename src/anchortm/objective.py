"""The anchor loss as sums over blocks of rows.

    L(w) = -(1/n) sum_i weight_i l_i(w) + (xi/n) |t(w)|^2,      t = Q'W r(w)

with Q an orthonormal basis of the span of the anchors. Nothing but sums crosses rows: the
log-likelihood, its gradient and Hessian, and the anchors' sums A'Wr and A'WJ (J = dr/dw).

The parameters are the internal ones of ``columns``: h = c'v with standardised columns c.

Second derivatives of r enter through a *multiplier* mu in the coordinates of t: the sum of
weight_i (Q mu)_i D2 r_i. It is 2 xi t for a finite xi and n lambda for xi = inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.anchors import AnchorColumns, Part, Projection, projection
from anchortm.bases import Basis
from anchortm.columns import BLOCK_ROWS, Coordinates, Rows, make_coordinates, standardised
from anchortm.likelihood import layout
from anchortm.links import Link, Normal, OneEnd, TwoEnds
from anchortm.response import Response

__all__ = ["Derivatives", "NormalObjective", "Objective", "Sums", "build_objective"]

Array = NDArray[np.float64]


class Sums(NamedTuple):
    """What a line search needs: the log-likelihood and the residuals' anchor coordinates."""

    loglik: float
    t: Array


class Derivatives(NamedTuple):
    """First and second derivatives, as sums over rows.

    ``gradient`` of -loglik, ``hessian`` of -loglik + mu'QWr, ``E`` = dt/dv.
    """

    gradient: Array
    hessian: Array
    E: Array


class _Piece(NamedTuple):
    """Rows of one term in one block, with their anchors."""

    data: Rows
    part: Part | None


def _weighted(weights: Array | None, sign: int, values: Array) -> Array:
    if weights is not None:
        values = weights * values
    return values if sign > 0 else -values


def _add_log_slopes(data: Rows, slope: Array, gradient: Array, hessian: Array) -> None:
    """Add the derivatives of -sum log h': gradient -c'/h', Hessian c'c''/h'^2 (c' the derivative rows)."""
    assert data.slope is not None  # noqa: S101
    inverse = 1.0 / slope
    gradient -= data.slope.T @ _weighted(data.weights, data.sign, inverse)
    D = data.slope * (inverse if data.weights is None else inverse * np.sqrt(data.weights))[:, None]
    hessian += D.T @ D


class Objective:
    """The anchor loss of one data set: sums and derivatives at any v."""

    def __init__(
        self,
        link: Link,
        terms: list[Rows],
        coordinates: Coordinates,
        anchors: Projection | None,
        n_rows: int,
        weights: Array | None = None,
        block_rows: int = BLOCK_ROWS,
        n_jobs: int = 1,
        names: tuple[str, ...] = (),
    ) -> None:
        self.names = names  # of the covariates
        self.link, self.coordinates, self.anchors = link, coordinates, anchors
        self.n_rows, self.weights = n_rows, weights
        self.n_total = float(n_rows if weights is None else weights.sum())
        self.block_rows, self.n_jobs = block_rows, n_jobs
        self.n_parameters = coordinates.scale.size
        self.terms = terms
        self._blocks = [
            [
                _Piece(data, None if anchors is None else anchors.part(data.rows))
                for term in terms
                if (data := term.cut(start, start + block_rows)).rows.size
            ]
            for start in range(0, n_rows, block_rows)
        ]
        self.n_sums = 0 if anchors is None else anchors.n_sums

    def _total(
        self, work: Callable[[_Piece, list[Array]], float], shapes: list[tuple[int, ...]]
    ) -> tuple[float, list[Array]]:
        """Return the sum of ``work`` over all pieces, which adds to arrays of these shapes."""

        def run(blocks: list[list[_Piece]]) -> tuple[float, list[Array]]:
            arrays, value = [np.zeros(shape) for shape in shapes], 0.0
            # a trial step may go where a double ends; its log-likelihood then says so
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                for block in blocks:
                    for piece in block:
                        value += work(piece, arrays)
            return value, arrays

        jobs = min(self.n_jobs, len(self._blocks))
        if jobs <= 1:
            return run(self._blocks)
        share = math.ceil(len(self._blocks) / jobs)
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(run, (self._blocks[k * share : (k + 1) * share] for k in range(jobs))))
        return sum(value for value, _ in results), [sum(parts) for parts in zip(*(a for _, a in results), strict=True)]

    def sums(self, v: Array) -> Sums:
        """Return the log-likelihood and t at v."""

        def work(piece: _Piece, arrays: list[Array]) -> float:
            data = piece.data
            values, slope = self._evaluate(data, v)
            loglik = values.l
            if slope is not None:
                loglik = np.where(slope > 0.0, loglik + np.log(slope), -np.inf)
            if piece.part is not None:
                piece.part.add(arrays[0], _weighted(data.weights, data.sign, values.r), None)
            return data.sign * float(loglik.sum() if data.weights is None else data.weights @ loglik)

        loglik, (s,) = self._total(work, [(self.n_sums,)])
        return Sums(loglik, s if self.anchors is None else self.anchors.root(s))

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of r along ``multiplier`` if given."""
        d = self.n_parameters
        spread = None
        if multiplier is not None and self.anchors is not None:
            spread = self.anchors.coefficients(multiplier)

        def work(piece: _Piece, arrays: list[Array]) -> float:
            bend = None if spread is None or piece.part is None else piece.part.spread(spread)
            values, slope = self._evaluate(piece.data, v)
            if isinstance(values, OneEnd):
                self._add_one_end(piece, values, slope, bend, *arrays)
            else:
                self._add_two_ends(piece, values, bend, *arrays)
            return 0.0

        _, (gradient, hessian, G) = self._total(work, [(d,), (d, d), (self.n_sums, d)])
        return Derivatives(gradient, hessian, G if self.anchors is None else self.anchors.root(G))

    def _evaluate(self, data: Rows, v: Array) -> tuple[OneEnd | TwoEnds, Array | None]:
        k = self.coordinates.n_baseline
        if data.kind == "interval":
            assert data.ends is not None  # noqa: S101
            lower, width = data.ends.values(v[:k])
            lower += data.C @ v[k:]
            if data.offset is not None:
                lower += data.offset
            return self.link.interval(lower, lower + width, width), None
        h = data.C @ v
        if data.offset is not None:
            h += data.offset
        if data.kind == "exact":
            assert data.slope is not None  # noqa: S101
            return self.link.exact(h), data.slope @ v[:k]
        return (self.link.left(h) if data.kind == "left" else self.link.right(h)), None

    def _add_one_end(
        self,
        piece: _Piece,
        values: OneEnd,
        slope: Array | None,
        bend: Array | None,
        gradient: Array,
        hessian: Array,
        G: Array,
    ) -> None:
        data, C = piece.data, piece.data.C
        # l' = -r, so the gradient of -l is r c; its Hessian r' c c'
        gradient += C.T @ _weighted(data.weights, data.sign, values.r)
        dr = _weighted(data.weights, data.sign, values.dr)
        if piece.part is not None:
            piece.part.add(G, dr, C)
        if bend is not None:
            dr = dr + _weighted(data.weights, data.sign, values.d2r * bend)
        hessian += (C * dr[:, None]).T @ C
        if slope is not None and data.slope is not None:
            k = self.coordinates.n_baseline
            _add_log_slopes(data, slope, gradient[:k], hessian[:k, :k])

    def _add_two_ends(
        self, piece: _Piece, t: TwoEnds, bend: Array | None, gradient: Array, hessian: Array, G: Array
    ) -> None:
        data, X, ends = piece.data, piece.data.C, piece.data.ends
        assert ends is not None  # noqa: S101
        k = self.coordinates.n_baseline

        def w(values: Array) -> Array:
            return _weighted(data.weights, data.sign, values)

        # c_u = c_v + D: -p c_u + q c_v = r c_v - p D, without the difference of two large numbers
        r = w(t.r)
        gradient[:k] += ends.gradient(r, w(t.p))
        gradient[k:] += X.T @ r
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
            hessian[k:, k:] += (X * both[:, None]).T @ X

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Iterator[tuple[slice, Array]]:
        """Yield for each block of rows: (gradient of -l_i + pull'q_i r_i) bread + K'q_i (r_i - q_i't), one row each.

        q_i is the row of Q. Rows are those of the objective, without their weights.
        """
        k, d = self.coordinates.n_baseline, self.n_parameters
        t = self.sums(v).t
        for number, block in enumerate(self._blocks):
            start = number * self.block_rows
            rows = slice(start, min(start + self.block_rows, self.n_rows))
            gradient, r = np.zeros((rows.stop - start, d)), np.zeros(rows.stop - start)
            for piece in block:
                data, here = piece.data, piece.data.rows - start
                values, slope = self._evaluate(data, v)
                if piece.part is None or self.anchors is None:
                    bend = np.zeros(here.size)
                else:
                    bend = piece.part.spread(self.anchors.coefficients(pull))
                r[here] += data.sign * values.r
                if isinstance(values, TwoEnds):
                    assert data.ends is not None  # noqa: S101
                    V, D = data.ends.dense()
                    both = values.r + (values.r_u + values.r_v) * bend
                    own = np.hstack(
                        [both[:, None] * V + (values.r_u * bend - values.p)[:, None] * D, both[:, None] * data.C]
                    )
                else:
                    own = (values.r + values.dr * bend)[:, None] * data.C
                    if slope is not None and data.slope is not None:
                        own[:, :k] -= data.slope / slope[:, None]
                gradient[here] += data.sign * own
            shares = gradient @ bread
            if self.anchors is not None:
                part = self.anchors.part(rows)
                r -= part.spread(self.anchors.coefficients(t))
                shares += part.spread(self.anchors.coefficients(K)) * r[:, None]
            yield rows, shares

    def convexity(self, sums: Sums, xi: float) -> Literal["global", "local", "none"]:
        """Return what is known of a minimum: the loss is convex everywhere, around it, or neither is known.

        For the logistic link, and for extreme values without their awkward side, -D2 l >= |D2 r|
        row by row, so the loss is convex where 2 xi |P r| <= 1.
        """
        if isinstance(self, NormalObjective):
            return "global"
        kinds = {term.kind for term in self.terms}
        if any(term.sign < 0 for term in self.terms):
            return "none"
        if xi == 0.0:
            return "global"
        safe = {
            "logit": {"exact", "left", "right", "interval"},
            "cloglog": {"exact", "right"},
            "loglog": {"exact", "left"},
        }
        if self.anchors is None or not math.isfinite(xi) or not kinds <= safe.get(self.link.name, set()):
            return "none"
        projected = self.anchors.part(slice(None)).spread(self.anchors.coefficients(sums.t))
        return "local" if 2.0 * xi * float(np.abs(projected).max()) <= 1.0 else "none"

    def sample(self, size: int) -> Objective:
        """Return the objective of about ``size`` rows, in the same coordinates.

        One row at random from each stretch of rows, so that no pattern in their order shows through.
        """
        step = max(1, self.n_rows // size)
        starts = np.arange(0, self.n_rows, step)
        picks = np.minimum(starts + np.random.default_rng(0).integers(0, step, starts.size), self.n_rows - 1)
        chosen = np.zeros(self.n_rows, dtype=bool)
        chosen[picks] = True
        picks, place = np.flatnonzero(chosen), np.cumsum(chosen) - 1
        terms = []
        for term in self.terms:
            own = np.flatnonzero(chosen[term.rows])
            terms.append(term.take(own, place[term.rows[own]]))
        weights = None if self.weights is None else self.weights[picks]
        return type(self)(
            self.link,
            terms,
            self.coordinates,
            None if self.anchors is None else self.anchors.subset(picks, weights),
            picks.size,
            weights,
            self.block_rows,
            self.n_jobs,
            self.names,
        )

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets, with the sign that they enter h with."""
        values = [term.offset.mean() for term in self.terms if term.offset is not None]
        return float(np.mean(values)) if values else 0.0

    def residuals(self, v: Array) -> Array:
        """Return the score residuals in the order of the objective's rows."""
        r = np.zeros(self.n_rows)
        for block in self._blocks:
            for piece in block:
                values, _ = self._evaluate(piece.data, v)
                r[piece.data.rows] += piece.data.sign * values.r
        return r


class NormalObjective(Objective):
    """Exact rows under the normal link: r = c'v is linear, so its part is quadratic.

    One pass over the data gives C'WC and E for every xi; afterwards only the derivative
    rows (the terms log h') are touched, and not even they where the slope is one number.
    """

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Return M = [C o]'W[C o] and E = Q'W[C o], o the offset."""
        d = self.n_parameters

        def work(piece: _Piece, arrays: list[Array]) -> float:
            data = piece.data
            C = data.C if data.offset is None else np.column_stack([data.C, data.offset])
            ones = np.ones(C.shape[0]) if data.weights is None else data.weights
            columns = slice(None, C.shape[1])
            arrays[0][columns, columns] += (C if data.weights is None else C * ones[:, None]).T @ C
            if piece.part is not None:
                piece.part.add(arrays[1][:, columns], ones, C)
            return 0.0

        _, (M, G) = self._total(work, [(d + 1, d + 1), (self.n_sums, d + 1)])
        return M, (G if self.anchors is None else self.anchors.root(G))

    def sums(self, v: Array) -> Sums:
        M, E = self.moments
        extended = np.append(v, 1.0)
        quadratic = -0.5 * float(extended @ M @ extended) - self.n_total * 0.5 * math.log(2.0 * math.pi)
        return Sums(quadratic + self._log_slopes(v), E @ extended)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        M, E = self.moments
        d = self.n_parameters
        gradient, hessian = M[:d] @ np.append(v, 1.0), M[:d, :d].copy()
        k = self.coordinates.n_baseline

        def work(piece: _Piece, arrays: list[Array]) -> float:
            data = piece.data
            assert data.slope is not None  # noqa: S101
            _add_log_slopes(data, data.slope @ v[:k], *arrays)
            return 0.0

        if self._one_slope is None:
            _, (g, H) = self._total(work, [(k,), (k, k)])
        else:
            D = self._one_slope / float(self._one_slope @ v[:k])
            g, H = -self.n_total * D, self.n_total * np.outer(D, D)
        gradient[:k] += g
        hessian[:k, :k] += H
        return Derivatives(gradient, hessian, E[:, :d])

    @cached_property
    def _one_slope(self) -> Array | None:
        """Return the derivative row if all rows share one (a linear basis)."""
        (term,) = self.terms
        assert term.slope is not None  # noqa: S101
        first = term.slope[0]
        return first if self.coordinates.n_baseline == 2 and (term.slope == first).all() else None

    @property
    def linear(self) -> bool:
        """Return whether the transformation is linear in y: the minimum has a closed form."""
        return self._one_slope is not None

    def _log_slopes(self, v: Array) -> float:
        k = self.coordinates.n_baseline

        def work(piece: _Piece, arrays: list[Array]) -> float:
            data = piece.data
            assert data.slope is not None  # noqa: S101
            slope = data.slope @ v[:k]
            if not slope.min() > 0.0:
                return -math.inf
            logs = np.log(slope)
            return float(logs.sum() if data.weights is None else data.weights @ logs)

        if self._one_slope is None:
            return self._total(work, [])[0]
        slope = float(self._one_slope @ v[:k])
        return self.n_total * math.log(slope) if slope > 0.0 else -math.inf


def build_objective(
    link: Link,
    basis: Basis,
    response: Response,
    X: Array,
    anchors: AnchorColumns | None = None,
    weights: Array | None = None,
    offset: Array | None = None,
    sign: float = -1.0,
    anchor_intercept: bool = True,
    block_rows: int = BLOCK_ROWS,
    n_jobs: int = 1,
    names: tuple[str, ...] = (),
) -> Objective:
    """Return the anchor loss of these rows; h = a(y)'theta + sign * (x'beta + offset).

    Rows are ordered by the main anchor factor inside. Weights must be positive.
    """
    order = None if anchors is None else anchors.order()
    if order is not None:  # rows of a group become neighbours
        response = response[order]
        weights, offset = (None if a is None else a[order] for a in (weights, offset))
        anchors = anchors.take(order) if anchors is not None else None
    parts = layout(basis, response)
    coordinates = make_coordinates(basis, parts, X, sign)
    rows = [standardised(basis, part, X, order, sign, coordinates, weights, offset) for part in parts]
    exact_normal = isinstance(link, Normal) and len(rows) == 1 and rows[0].kind == "exact"
    return (NormalObjective if exact_normal and rows[0].rows.size == len(response) else Objective)(
        link,
        rows,
        coordinates,
        None if anchors is None else projection(anchors, weights, anchor_intercept),
        len(response),
        weights,
        block_rows,
        n_jobs,
        names or tuple(f"x{j}" for j in range(X.shape[1])),
    )
