"""Standardised columns c of rows, with h = c'v, made block by block from basis and design; see ``coordinates``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.engine.rows.coordinates import Coordinates, Places
from anchortm.engine.rows.interval_columns import CellEnds, Ends, RowEnds
from anchortm.engine.rows.likelihood import Layout
from anchortm.exceptions import IdentificationError
from anchortm.inputs.baselines import Corners, Mixture
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.kernels import rows as compiled

__all__ = [
    "BLOCK_ROWS",
    "Rows",
    "WideRows",
    "baseline_moments",
    "column_ends",
    "column_sums",
    "coordinates_from_moments",
    "make_coordinates",
    "scale_columns",
    "standardised",
]

Array = NDArray[np.float64]

BLOCK_ROWS = 16_384
MAX_CELLS = 1000  # with at most this many classes or counts, sums are taken over cells
FURTHEST = 1e12  # largest deviation of a baseline column; columns in the support have about 1
FOLD = 128  # rows that lie side by side in a folded matrix: NumPy takes rows of a few numbers one by one
FEW = 64  # columns that folding pays off for
SCALE_ROWS = 25_000  # means and deviations of the columns are taken from about as many rows


def _folded(X: Array) -> tuple[Array, Array]:
    """Return the rows of X as rows of a matrix with ``FOLD`` of them side by side, and the rows that are left over."""
    n, p = X.shape
    many = n // FOLD if X.flags.c_contiguous and p <= FEW else 0
    return X[: many * FOLD].reshape(many, FOLD * p), X[many * FOLD :]


def _over_rows(reduce: np.ufunc, X: Array) -> Array:
    many, rest = _folded(X)
    if not many.size:
        return np.asarray(reduce.reduce(X, axis=0))
    own = reduce.reduce(many, axis=0).reshape(FOLD, X.shape[1])
    return np.asarray(reduce.reduce(np.concatenate([own, rest]), axis=0))


def column_sums(X: Array) -> Array:
    """Return the sum of each column."""
    return _over_rows(np.add, X)


def column_ends(X: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each column; X must have rows."""
    return _over_rows(np.minimum, X), _over_rows(np.maximum, X)


def scale_columns(X: Array, factor: Array | None, shift: Array) -> None:
    """Multiply each column by its factor, if there are any, and subtract its shift, in place."""
    for rows, times in zip(_folded(X), (FOLD, 1), strict=True):
        if rows.size and factor is not None:
            rows *= np.tile(factor, times)
        if rows.size:
            rows -= np.tile(shift, times)


@dataclass(frozen=True, eq=False)
class WideRows:
    """The columns of a wide design that are not in ``C``: scaled sparse columns, and the level of each row."""

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
    outcome: Array | None = None  # outcome of rows whose mean is modelled, as their family takes it

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
            if values is None or isinstance(own, slice) or values.ndim == 1:
                return None if values is None else values[own]
            return compiled.taken(values, own)

        ends = None if self.ends is None else self.ends.take(own)
        slope, weights, offset, outcome = map(part, (self.slope, self.weights, self.offset, self.outcome))
        wide = None if self.wide is None else self.wide.take(own)
        C = self.C[own] if isinstance(own, slice) else compiled.taken(self.C, own)
        return Rows(self.kind, self.sign, rows, C, ends, slope, weights, offset, wide, outcome)


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
    wide = None
    if isinstance(X, WideMatrix):
        x_mean, x_spread, share = _wide_mean_and_deviation(X)
        k = matrix.shape[1]
        rest = np.concatenate([np.arange(k), k + X.dense_at, k + X.sparse_at])
        wide = Places(rest, k + X.sparse_at, slice(k + X.levels.start, k + X.levels.stop), share, sign)
    else:
        x_mean, x_spread = _mean_and_deviation(X[:: max(1, X.shape[0] // SCALE_ROWS)])
    return _around((matrix, lower, upper), (mean, spread), (sign * x_mean, x_spread), wide, pieces)


def _around(
    increments: tuple[Array, Array, Array],
    baseline: tuple[Array, Array],
    covariates: tuple[Array, Array],
    wide: Places | None = None,
    pieces: tuple[NDArray[np.intp], ...] = (),
) -> Coordinates:
    """Return coordinates from matrix and bounds of the increments, and means and deviations of the columns."""
    (matrix, lower, upper), (mean, spread), (x_mean, x_spread) = increments, baseline, covariates
    free = np.full(x_mean.size, np.inf)
    return Coordinates(
        matrix,
        np.concatenate([mean, x_mean]),
        np.concatenate([spread, x_spread]),
        np.concatenate([lower * spread, -free]),
        np.concatenate([upper * spread, free]),
        wide,
        pieces,
    )


def baseline_moments(basis: Basis, parts: list[Layout], mixture: Mixture | None = None) -> tuple[int, Array, Array]:
    """Return the number of typical outcomes of rows, and sums and sums of squares of their baseline columns."""
    places, rows = _places(parts, basis.discrete)
    columns = basis.rows(places) @ _reduced(basis)[0]
    columns = columns if mixture is None else mixture.columns(columns, rows)
    return places.size, columns.sum(axis=0), (columns**2).sum(axis=0)


def coordinates_from_moments(
    basis: Basis,
    moments: tuple[float, Array, Array],
    x_mean: Array,
    x_spread: Array,
    sign: float,
    corners: Corners | None = None,
) -> Coordinates:
    """Return coordinates from sums of ``baseline_moments`` over all rows, and means and deviations of the covariates.

    A deviation serves as a unit, so that half of its digits are enough.
    """
    count, total, squares = moments
    mean = total / count
    variance = squares / count - mean**2
    spread = np.sqrt(np.where(variance > 1e-14 * squares / count, variance, 1.0))
    mean[0], spread[0] = 0.0, 1.0
    if corners is None:
        return _around(_reduced(basis), (mean, spread), (sign * x_mean, x_spread))
    matrix, lower, upper, pieces = corners.inside(*_reduced(basis))
    return _around((matrix, lower, upper), (mean, spread), (sign * x_mean, x_spread), None, pieces)


def _places(parts: list[Layout], discrete: bool) -> tuple[Array, NDArray[np.intp]]:
    """Return typical outcomes of the rows, for a wide interval the point nearest to the others, and their rows."""
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


def _columns_of_rows(
    columns: Array, rows: NDArray[np.intp], factor: Array, shift: Array
) -> Callable[[slice, Array], None]:
    """Return a function that puts columns[rows] * factor - shift of a block of rows where it is told."""
    m = rows.size
    gaps = m == 0 or rows[-1] - rows[0] != m - 1 or not (np.diff(rows) == 1).all()

    def put(block: slice, out: Array) -> None:
        if compiled.scaled_rows(columns, rows[block], factor, shift, out):
            return
        own = columns[rows[block]] if gaps else columns[rows[0] + block.start : rows[0] + block.stop].copy()
        scale_columns(own, factor, shift)
        out[:] = own

    return put


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
    in_design = part.rows if order is None else order[part.rows]
    put = _columns_of_rows(columns, in_design, sign / scale[at], shift[at])
    ends = _ends(basis, part, make, shift[:k], basis.discrete and mixture is None) if two_ends else None
    slope = np.empty((m, k)) if exact else None
    for start in range(0, m, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, m))
        if ends is None:
            np.subtract(make(basis.rows(part.end[block]), block), shift[:k], out=C[block, :k])
        if slope is not None:
            slope[block] = make(basis.derivative_rows(part.end[block]), block)
        if covariates:
            put(block, C[block, C.shape[1] - covariates :])
    return Rows(
        part.kind,
        part.sign,
        part.rows,
        C,
        ends,
        slope,
        _taken(weights, part.rows),
        None if offset is None else sign * offset[part.rows],
        _wide_rows(X, in_design, k, sign, scale) if isinstance(X, WideMatrix) else None,
        part.outcome,
    )


def _taken(values: Array | None, rows: NDArray[np.intp]) -> Array | None:
    return None if values is None else values[rows]


def _wide_rows(X: WideMatrix, rows: NDArray[np.intp], k: int, sign: float, scale: Array) -> WideRows:
    sparse = X.sparse[rows]
    if X.sparse_at.size:
        sparse = sp.csr_matrix(sparse.multiply(sign / scale[k + X.sparse_at]))
    return WideRows(sparse, None if X.codes is None else X.codes[rows], X.n_levels)
