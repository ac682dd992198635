"""Standardised columns: how rows and parameters look inside the objective.

The baseline's increments and the covariates become columns c_j with mean 0 and deviation 1, the
first column is the constant, so that h = c'v, the monotonicity constraints are bounds on v, and a
user's units do not matter. Columns are made block by block from the basis and the design.

Of a wide design the sparse columns and the levels of the factor are scaled but not centred in the
rows, which keeps their zeros; the parameters v are those of centred columns all the same, and
``unfold`` and ``fold`` go from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.engine.rows.interval_columns import CellEnds, Ends, RowEnds
from anchortm.engine.rows.likelihood import Layout
from anchortm.exceptions import IdentificationError
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.design import Matrix, WideMatrix

__all__ = ["BLOCK_ROWS", "Coordinates", "Places", "Rows", "WideRows", "make_coordinates", "standardised"]

Array = NDArray[np.float64]

BLOCK_ROWS = 16_384
MAX_CELLS = 1000  # classes or counts that are summed over as cells
FAINT, NO_SPARE = 1e-6, 1e-9  # curvature that does not count, and what of an increment is no more than zero
FURTHEST = 1e12  # deviation of a baseline column, where columns in the support are about 1
SCALE_ROWS = 25_000  # means and deviations of the columns are taken from about as many rows


class Places(NamedTuple):
    """Where the parameters of a wide design stand among v.

    ``rest`` are all but the levels': of the baseline, of the columns of numbers, of the sparse columns.
    """

    rest: NDArray[np.intp]
    sparse: NDArray[np.intp]
    levels: slice
    share: Array  # of the rows in each level, the reference first
    sign: float


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The linear map between internal parameters v and (theta, beta), and the bounds on v.

    With standardised columns c_j = (column_j - mean_j) / scale_j for j >= 1 and c_0 = 1,
    delta_j = v_j / scale_j and delta_0 = v_0 - sum_j mean_j delta_j; theta = matrix @ delta.
    """

    matrix: Array
    mean: Array
    scale: Array
    lower: Array
    upper: Array
    wide: Places | None = None
    pieces: tuple[NDArray[np.intp], ...] = ()  # increments by group, where they can be shared out among groups
    unit: float = 1.0  # of theta and beta

    @property
    def n_baseline(self) -> int:
        """Return the number of internal baseline parameters."""
        return int(self.matrix.shape[1])

    @property
    def n_coefs(self) -> int:
        """Return the number of coefficients."""
        return self.scale.size - self.n_baseline

    def places(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where the parameters of the baseline and of some covariates are."""
        k = self.n_baseline
        return np.concatenate([np.arange(k), k + columns])

    def restricted(self, columns: NDArray[np.intp]) -> Coordinates:
        """Return the coordinates of the baseline and of some covariates."""
        at = self.places(columns)
        return replace(self, mean=self.mean[at], scale=self.scale[at], lower=self.lower[at], upper=self.upper[at])

    def split(self, v: Array) -> tuple[Array, Array]:
        """Return theta and beta."""
        raw = self.unit * v / self.scale
        raw[0] -= self.mean @ raw
        return self.matrix @ raw[: self.n_baseline], raw[self.n_baseline :]

    def unfold(self, v: Array) -> Array:
        """Return the parameters of the rows: v itself, or those of a wide design's rest and levels."""
        if self.wide is None:
            return v
        rest, sparse, levels, share, sign = self.wide
        raw = v / self.scale
        w = np.concatenate([v[rest], np.zeros(min(1, share.size)), sign * raw[levels]])
        w[0] -= self.mean[sparse] @ raw[sparse] + self.mean[levels] @ raw[levels]
        return w

    def fold(self, gradient: Array) -> Array:
        """Return derivatives in v (the last axis) from those in ``unfold(v)``."""
        if self.wide is None:
            return gradient
        rest, sparse, levels, _, sign = self.wide
        result = np.empty((*gradient.shape[:-1], self.scale.size))
        first = gradient[..., :1]
        result[..., rest] = gradient[..., : rest.size]
        result[..., sparse] -= first * (self.mean / self.scale)[sparse]
        result[..., levels] = (sign * gradient[..., rest.size + 1 :] - first * self.mean[levels]) / self.scale[levels]
        return result

    def levels(self, v: Array) -> tuple[Array, Array]:
        """Return the parameters other than the constant and the levels', and h's constant in each level."""
        assert self.wide is not None  # noqa: S101
        w, b = self.unfold(v), self.wide.rest.size
        return w[1:b], w[0] + w[b:]

    def from_levels(self, u: Array, constant: Array) -> Array:
        """Return v from what ``levels`` gives."""
        assert self.wide is not None  # noqa: S101
        rest, sparse, levels, _, sign = self.wide
        v = np.zeros(self.scale.size)
        v[rest[1:]] = u
        raw = sign * (constant[1:] - constant[0])
        v[levels] = raw * self.scale[levels]
        v[0] = constant[0] + self.mean[levels] @ raw + (self.mean / self.scale)[sparse] @ v[sparse]
        return v

    def some_levels(self, count: NDArray[Any]) -> Coordinates:
        """Return the coordinates for levels with so many rows, the first of them the reference."""
        assert self.wide is not None  # noqa: S101
        rest, sparse, levels, _, sign = self.wide
        share = count / count.sum()
        stop = levels.start + share.size - 1

        def cut(values: Array, own: Array) -> Array:
            return np.concatenate([values[: levels.start], own, values[levels.stop :]])

        free = np.full(share.size - 1, np.inf)
        moved = [np.where(at < levels.start, at, at - levels.stop + stop) for at in (rest, sparse)]
        return Coordinates(
            self.matrix,
            cut(self.mean, sign * share[1:]),
            cut(self.scale, np.sqrt(share[1:] * (1.0 - share[1:]))),
            cut(self.lower, -free),
            cut(self.upper, free),
            Places(moved[0], moved[1], slice(levels.start, stop), share, sign),
        )

    def join(self, theta: Array, beta: Array) -> Array:
        """Return v for a theta that satisfies the equality constraints."""
        delta: Array = np.linalg.lstsq(self.matrix, theta, rcond=None)[0].astype(np.float64)
        self._share_out(delta)
        raw = np.concatenate([delta, beta])
        raw[0] += self.mean @ raw
        return raw * self.scale / self.unit

    def shared_out(self, v: Array) -> Array:
        """Return v with increments shared out evenly among groups: the same h, and no bound reached without need."""
        if not self.pieces:
            return v
        raw = v / self.scale
        self._share_out(raw)
        return raw * self.scale

    def _share_out(self, delta: Array) -> None:
        """Share increments out among groups, so that none is negative if that can be."""
        if not self.pieces:
            return
        first = self.pieces[0][0]
        fixed = self.lower[first] == self.upper[first]
        least = [delta[piece].min(axis=0) for piece in self.pieces]
        spare = np.sum(least, axis=0)
        for k, (piece, own) in enumerate(zip(self.pieces, least, strict=True)):
            delta[piece] += np.where(fixed, spare if k == 0 else 0.0, spare / len(self.pieces)) - own

    @cached_property
    def _moves(self) -> Array:
        """Return directions in v along which nothing changes: of each increment, from the first group to another."""
        first, *others = self.pieces
        moves = np.zeros((first.shape[1], len(others), self.scale.size))
        for j, piece in enumerate(others):
            for k in range(first.shape[1]):
                moves[k, j, first[:, k]], moves[k, j, piece[:, k]] = 1.0, -1.0
        moves *= self.scale
        return np.linalg.qr(moves.transpose(0, 2, 1))[0]

    def apart(self, v: Array, w: Array) -> Array:
        """Return v - w without what makes no difference."""
        step = v - w
        if self.pieces:
            step -= np.einsum("kdj,kej,e->d", self._moves, self._moves, step)
        return step

    @cached_property
    def faint(self) -> Array | float:
        """Return next to no curvature in directions where the loss has none by construction, which a Hessian needs.

        More would be felt elsewhere as soon as bounds are reached.
        """
        if not self.pieces:
            return 0.0
        return np.asarray(FAINT * np.einsum("kdj,kej->de", self._moves, self._moves))

    def lift(self, v: Array) -> Array | float:
        """Return curvature in such directions, where no bound at v stands in their way."""
        if not self.pieces:
            return 0.0
        raw = v / self.scale
        spare = np.sum([raw[piece].min(axis=0) for piece in self.pieces], axis=0)
        size = np.max([raw[piece].max(axis=0) for piece in self.pieces], axis=0)
        weight = (spare > NO_SPARE * size).astype(np.float64)
        return np.asarray(np.einsum("k,kdj,kej->de", weight, self._moves, self._moves))

    @cached_property
    def jacobian(self) -> Array:
        """Return d(theta, beta)/dv."""
        raw = np.diag(self.unit / self.scale)
        raw[0] -= self.unit * self.mean / self.scale
        k = self.n_baseline
        return np.vstack([self.matrix @ raw[:k], raw[k:]])

    def jacobian_at(self, v: Array) -> Array:
        """Return d(theta, beta)/dv at v, the same everywhere for a linear map."""
        return self.jacobian


@dataclass(frozen=True, eq=False)
class WideRows:
    """What ``C`` does not hold of the rows of a wide design: scaled sparse columns, and the level of each row."""

    sparse: sp.csr_matrix
    codes: NDArray[np.int32] | None
    n_levels: int

    def take(self, own: Any) -> WideRows:
        """Return a part of these rows."""
        return WideRows(self.sparse[own], None if self.codes is None else self.codes[own], self.n_levels)

    def values(self, w: Array) -> Array:
        """Return the share of these columns in h; w are their parameters."""
        s = self.sparse.shape[1]
        levels = 0.0 if self.codes is None else w[s:][self.codes]
        return np.asarray(self.sparse @ w[:s] + levels if s else levels + np.zeros(self.sparse.shape[0]))

    def dummies(self) -> sp.csr_matrix:
        """Return the levels as a sparse matrix of ones."""
        assert self.codes is not None  # noqa: S101
        m = self.codes.size
        return sp.csr_matrix((np.ones(m), self.codes, np.arange(m + 1)), shape=(m, self.n_levels))


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one term with their columns.

    ``C`` are whole rows c for one end; for two ends their covariates, with the baseline in ``ends``.
    """

    kind: str
    sign: int
    rows: NDArray[np.intp]
    C: Array
    ends: Ends | None
    slope: Array | None
    weights: Array | None
    offset: Array | None
    wide: WideRows | None = None
    outcome: Array | None = None  # of rows whose mean is modelled, as their family takes it

    def n_dense(self, n_baseline: int) -> int:
        """Return the number of parameters of the baseline and the columns of C."""
        return int(self.C.shape[1]) + (n_baseline if self.ends is not None else 0)

    def cut(self, start: int, stop: int) -> Rows:
        """Return the rows at positions start to stop of the response."""
        a, b = np.searchsorted(self.rows, (start, stop))
        return self.take(slice(a, b), self.rows[a:b])

    def take(self, own: Any, rows: NDArray[np.intp]) -> Rows:
        """Return a part of these rows, standing at ``rows`` in the response."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[own]

        ends = None if self.ends is None else self.ends.take(own)
        slope, weights, offset, outcome = map(part, (self.slope, self.weights, self.offset, self.outcome))
        wide = None if self.wide is None else self.wide.take(own)
        return Rows(self.kind, self.sign, rows, self.C[own], ends, slope, weights, offset, wide, outcome)


def _reduced(basis: Basis) -> tuple[Array, Array, Array]:
    """Return matrix and bounds of the increments, those tied by an equality merged into one."""
    increments = basis.increments
    k = basis.n_parameters
    leader = np.arange(k)
    for row in increments.equalities:  # each says that two increments are equal
        first, second = np.flatnonzero(row)
        leader[leader == leader[second]] = leader[first]
    kept = np.unique(leader)
    merge = (leader[:, None] == kept[None, :]).astype(np.float64)
    return increments.matrix @ merge, increments.lower[kept], increments.upper[kept]


def make_coordinates(
    basis: Basis, parts: list[Layout], X: Matrix, sign: float, mixture: Mixture | None = None
) -> Coordinates:
    """Return coordinates in which the columns have mean 0 and deviation 1 (on a sample of many rows)."""
    matrix, lower, upper = _reduced(basis)
    places, rows = _places(parts, basis.discrete)
    some = slice(None, None, max(1, places.size // SCALE_ROWS))
    columns, pieces = basis.rows(places[some]) @ matrix, tuple[NDArray[np.intp], ...]()
    if mixture is not None:
        columns = mixture.columns(columns, rows[some])
        matrix, lower, upper, pieces = mixture.corners.inside(matrix, lower, upper)
    mean, spread = _mean_and_deviation(columns)
    mean[0], spread[0] = 0.0, 1.0
    if hasattr(basis, "support") and spread.max() > FURTHEST:
        raise IdentificationError(
            f"y reaches from {places.min():.3g} to {places.max():.3g}, too far beyond the support "
            f"({basis.support[0]:.3g}, {basis.support[1]:.3g}) for a baseline to resolve both: give a wider support, "
            "or take log_first=True for positive outcomes of many orders of magnitude"
        )
    p, wide = X.shape[1], None
    if isinstance(X, WideMatrix):
        x_mean, x_spread, share = _wide_mean_and_deviation(X)
        k = matrix.shape[1]
        rest = np.concatenate([np.arange(k), k + X.dense_at, k + X.sparse_at])
        wide = Places(rest, k + X.sparse_at, slice(k + X.levels.start, k + X.levels.stop), share, sign)
    else:
        x_mean, x_spread = _mean_and_deviation(X[:: max(1, X.shape[0] // SCALE_ROWS)])
    return Coordinates(
        matrix,
        np.concatenate([mean, sign * x_mean]),
        np.concatenate([spread, x_spread]),
        np.concatenate([lower * spread, np.full(p, -np.inf)]),
        np.concatenate([upper * spread, np.full(p, np.inf)]),
        wide,
        pieces,
    )


def _places(parts: list[Layout], discrete: bool) -> tuple[Array, NDArray[np.intp]]:
    """Return where rows are, of a wide interval what is nearest to the others and not its ends, and which rows."""
    own = [part for part in parts if part.sign > 0]
    ends: list[tuple[Any, Any]] = [(e, part.rows) for part in own for e in (part.upper, part.lower) if e is not None]
    if not discrete and any(part.kind == "interval" for part in own):
        middle = float(np.median(np.concatenate([end for end, _ in ends])))
        ends = [
            (np.clip(middle, part.lower, part.upper), part.rows)
            if part.kind == "interval"
            else (part.upper if part.upper is not None else part.lower, part.rows)
            for part in own
        ]
    return np.concatenate([end for end, _ in ends]), np.concatenate([rows for _, rows in ends])


def _wide_mean_and_deviation(X: WideMatrix) -> tuple[Array, Array, Array]:
    """Return means and deviations of all columns, and the share of the rows in each level."""
    n, p = X.shape
    mean, spread = np.zeros(p), np.ones(p)
    mean[X.dense_at], spread[X.dense_at] = _mean_and_deviation(X.dense[:: max(1, n // SCALE_ROWS)])
    if X.sparse_at.size:
        first = np.asarray(X.sparse.mean(axis=0)).ravel()
        second = np.asarray(X.sparse.multiply(X.sparse).mean(axis=0)).ravel()
        deviation = np.sqrt(np.maximum(second - first**2, 0.0))
        mean[X.sparse_at], spread[X.sparse_at] = first, np.where(deviation > 0.0, deviation, 1.0)
    if X.codes is None:
        return mean, spread, np.zeros(0)
    share = np.bincount(X.codes, minlength=X.n_levels) / n
    mean[X.levels] = share[1:]
    # a level without rows stays where it is
    spread[X.levels] = np.where(share[1:] > 0.0, np.sqrt(share[1:] * (1.0 - share[1:])), 1.0)
    return mean, spread, share


def _mean_and_deviation(columns: Array) -> tuple[Array, Array]:
    """Return means and standard deviations (1 for a constant), in any units that a double can hold."""
    size = np.maximum(np.abs(columns).max(axis=0, initial=0.0), np.finfo(float).tiny)
    unit = columns / size
    mean = unit.mean(axis=0)
    away = np.maximum(np.abs(unit - mean).max(axis=0, initial=0.0), np.finfo(float).tiny)
    spread = away * ((unit - mean) / away).std(axis=0)
    return size * mean, np.where(spread > 0.0, size * spread, 1.0)


def _ends(basis: Basis, part: Layout, make: Callable[[Array, slice], Array], shift: Array, cells: bool) -> Ends:
    """Return the standardised baseline columns at both ends, one row for each cell where cells are few."""
    lower, upper = part.lower, part.upper
    assert lower is not None and upper is not None  # noqa: S101, PT018
    if cells and (lower == upper - 1.0).all() and upper.max() - upper.min() < min(MAX_CELLS, upper.size):
        first = upper.min()
        k = np.arange(first, upper.max() + 1.0)
        table = make(basis.rows(k - 1.0), slice(None)) - shift
        return CellEnds(table, make(basis.difference_rows(k - 1.0, k), slice(None)), (upper - first).astype(np.intp))
    V, D = np.empty((lower.size, shift.size)), np.empty((lower.size, shift.size))
    for start in range(0, lower.size, BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        np.subtract(make(basis.rows(lower[block]), block), shift, out=V[block])
        D[block] = make(basis.difference_rows(lower[block], upper[block]), block)
    return RowEnds(V, D)


def standardised(
    basis: Basis,
    part: Layout,
    X: Matrix,
    order: NDArray[np.intp] | None,
    sign: float,
    coordinates: Coordinates,
    weights: Array | None,
    offset: Array | None,
    mixture: Mixture | None = None,
) -> Rows:
    """Return a layout with its standardised columns, made block by block."""
    k, m = coordinates.n_baseline, part.rows.size
    mean, scale = coordinates.mean, coordinates.scale
    shift = mean / scale
    matrix = coordinates.matrix / scale[:k] if mixture is None else _reduced(basis)[0]

    def make(rows: Array, block: slice) -> Array:
        """Return the baseline's columns of rows a(y)."""
        rows = rows @ matrix
        return rows if mixture is None else mixture.columns(rows, part.rows[block]) / scale[:k]

    two_ends, exact = part.kind == "interval", part.kind == "exact"
    columns, at = (X.dense, k + X.dense_at) if isinstance(X, WideMatrix) else (X, slice(k, None))
    covariates = columns.shape[1]
    C = np.empty((m, covariates if two_ends else k + covariates))
    ends = _ends(basis, part, make, shift[:k], basis.discrete and mixture is None) if two_ends else None
    slope = np.empty((m, k)) if exact else None
    for start in range(0, m, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, m))
        if ends is None:
            end = part.upper if part.lower is None else part.lower
            assert end is not None  # noqa: S101
            np.subtract(make(basis.rows(end[block]), block), shift[:k], out=C[block, :k])
        if slope is not None and part.upper is not None:
            slope[block] = make(basis.derivative_rows(part.upper[block]), block)
        if covariates:
            own = part.rows[block]
            x = columns[own if order is None else order[own]] * (sign / scale[at])
            np.subtract(x, shift[at], out=C[block, -covariates:])
    return Rows(
        part.kind,
        part.sign,
        part.rows,
        C,
        ends,
        slope,
        None if weights is None else weights[part.rows],
        None if offset is None else sign * offset[part.rows],
        _wide_rows(X, part.rows if order is None else order[part.rows], k, sign, scale)
        if isinstance(X, WideMatrix)
        else None,
        part.outcome,
    )


def _wide_rows(X: WideMatrix, rows: NDArray[np.intp], k: int, sign: float, scale: Array) -> WideRows:
    sparse = X.sparse[rows]
    if X.sparse_at.size:
        sparse = sp.csr_matrix(sparse.multiply(sign / scale[k + X.sparse_at]))
    return WideRows(sparse, None if X.codes is None else X.codes[rows], X.n_levels)
