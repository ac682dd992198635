"""Projection on the anchors: P_A as an operator, never an n x n or one-hot matrix.

All the anchor loss needs of the anchors A are sums A'Wv over rows. A projection turns
such sums into coordinates t in an orthonormal basis Q of the span of A (in the inner
product of the weights W), so that the penalty is |t|^2, and coordinates back into the
row values Q t = P v.

Three ways, one contract (``tests/test_anchors.py``):

* one factor: group sums; A'WA is diagonal. O(n) and O(levels).
* numeric columns: a rank-revealing QR once, O(n q^2); Q is stored.
* several factors, with or without columns: the factor with most levels is eliminated
  exactly, the rest by a rank-revealing decomposition of its Schur complement (m x m for m
  other levels and columns).

Rows of a factor are expected in the order that ``AnchorColumns.order`` gives, so that a
group is a run of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.exceptions import InputError, InputTypeError
from anchortm.frames import native
from anchortm.response import is_missing

__all__ = ["AnchorColumns", "Part", "Projection", "anchor_columns", "groups_of", "projection"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

RANK_TOLERANCE = 1e-9
MAX_OTHER_LEVELS = 5000


@dataclass(frozen=True, eq=False)
class AnchorColumns:
    """Anchors after parsing: factors as codes with their levels, and numeric columns."""

    factors: tuple[Codes, ...]
    levels: tuple[NDArray[Any], ...]
    columns: Array
    factor_names: tuple[str, ...]
    column_names: tuple[str, ...]

    @property
    def main(self) -> int | None:
        """Return the position of the factor with most levels, if there is a factor."""
        sizes = [level.size for level in self.levels]
        return int(np.argmax(sizes)) if sizes else None

    def order(self) -> NDArray[np.intp] | None:
        """Return the rows ordered by the main factor, or None if any order will do."""
        if self.main is None:
            return None
        codes = self.factors[self.main]
        if (np.diff(codes) >= 0).all():
            return None
        small = np.uint16 if self.levels[self.main].size < 2**16 else np.uint32
        return np.argsort(codes.astype(small), kind="stable")

    def take(self, rows: Any) -> AnchorColumns:
        """Return the anchors of these rows."""
        return AnchorColumns(
            tuple(codes[rows] for codes in self.factors),
            self.levels,
            self.columns[rows],
            self.factor_names,
            self.column_names,
        )

    def float_codes(self) -> tuple[str, ...]:
        """Return the numeric columns that look like codes: 5 to 30 different whole numbers."""
        found = []
        for name, column in zip(self.column_names, self.columns.T, strict=True):
            asked = name.startswith("N(")  # by a formula that says so
            if not asked and (column == np.round(column)).all() and 5 <= np.unique(column).size <= 30:
                found.append(name)
        return tuple(found)

    def subset(self, rows: Any) -> AnchorColumns:
        """Return the anchors of these rows, without the levels that no longer occur."""
        part = self.take(rows)
        found = [_compress(codes, levels, "") for codes, levels in zip(part.factors, part.levels, strict=True)]
        return AnchorColumns(
            tuple(codes for codes, _ in found),
            tuple(levels for _, levels in found),
            part.columns,
            part.factor_names,
            part.column_names,
        )

    def __len__(self) -> int:
        return len(self.factors[0]) if self.factors else self.columns.shape[0]


def anchor_columns(anchors: Any, names: Sequence[str] | None = None) -> AnchorColumns:
    """Return anchors from an array, a series, a frame or a list of columns.

    Integer, boolean, string and category columns are factors; floats are numeric columns.
    """
    if isinstance(anchors, AnchorColumns):
        return anchors
    named = _split_columns([native(a) for a in anchors] if isinstance(anchors, (list, tuple)) else native(anchors))
    if not named:
        raise InputError("anchors has no columns")
    factors, levels, numeric = [], [], []
    factor_names, column_names = [], []
    for position, (name, column) in enumerate(named):
        label = names[position] if names is not None else name
        found = _factor(column, label)
        if found is None:
            numbers = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
            numeric.append(_finite(numbers.astype(np.float64), label))
            column_names.append(label)
        else:
            factors.append(found[0])
            levels.append(found[1])
            factor_names.append(label)
    sizes = {len(c) for c in (*factors, *numeric)}
    if len(sizes) != 1:
        raise InputError(f"anchor columns differ in length: {sorted(sizes)}")
    n = sizes.pop()
    return AnchorColumns(
        tuple(factors),
        tuple(levels),
        _in_units(np.column_stack(numeric)) if numeric else np.zeros((n, 0)),
        tuple(factor_names),
        tuple(column_names),
    )


def _in_units(columns: Array) -> Array:
    """Return columns of extreme size divided by it: the span is the same, squares stay in range."""
    size = np.abs(columns).max(axis=0, initial=0.0)
    return columns / np.where((size > 1e100) | ((size > 0.0) & (size < 1e-100)), size, 1.0)


def groups_of(values: Any, name: str = "environments") -> tuple[Codes, NDArray[Any]]:
    """Return codes and levels of one column of groups."""
    columns = anchor_columns(values)
    if len(columns.factors) != 1 or columns.column_names:
        raise InputError(f"{name} must be one column of names or whole numbers")
    return columns.factors[0], columns.levels[0]


def _split_columns(anchors: Any) -> list[tuple[str, Any]]:
    if hasattr(anchors, "columns") and hasattr(anchors, "__getitem__"):  # a frame
        names = list(anchors.columns)
        if len(set(names)) < len(names):
            raise InputError(f"names of anchor columns occur more than once: {', '.join(map(str, names))}; rename them")
        return [(str(name), anchors[name]) for name in names]
    if isinstance(anchors, np.ndarray) and anchors.ndim == 2:
        return [(f"anchor{j}", anchors[:, j]) for j in range(anchors.shape[1])]
    if isinstance(anchors, (list, tuple)) and anchors and np.ndim(anchors[0]) == 1:
        return [(f"anchor{j}", column) for j, column in enumerate(anchors)]
    if isinstance(anchors, (str, bytes)) or not hasattr(anchors, "__len__"):
        raise InputTypeError(
            f"anchors must be an array, a series, a frame or a list of arrays, not {anchors!r}; "
            "to name columns of X use anchor_names in the constructor"
        )
    name = getattr(anchors, "name", None)
    column = anchors if hasattr(anchors, "dtype") else np.asarray(anchors)
    if np.ndim(column) != 1:
        raise InputError(f"anchors must have one or two dimensions, not the shape {np.shape(column)}")
    return [(str(name) if name is not None else "anchor", column)]


def _finite(column: Array, name: str) -> Array:
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise InputError(f"anchor {name!r} is {column[row]} at row {row}; drop or impute such rows")
    return column


def _factor(column: Any, name: str) -> tuple[Codes, NDArray[Any]] | None:
    """Return the codes and levels that occur, or None for a numeric column."""
    inner = getattr(column, "cat", None)
    if inner is not None and hasattr(inner, "codes"):  # pandas
        return _compress(np.asarray(inner.codes, dtype=np.intp), np.asarray(inner.categories, dtype=object), name)
    if hasattr(column, "categories") and hasattr(column, "codes"):
        return _compress(np.asarray(column.codes, dtype=np.intp), np.asarray(column.categories, dtype=object), name)
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind == "c":
        raise InputTypeError(f"anchor {name!r} is complex; anchors are factors or real numbers")
    if values.dtype.kind in "mM":
        raise InputTypeError(f"anchor {name!r} is a time stamp; turn it into a number, or into a string for a factor")
    if values.dtype.kind == "O":
        missing = [is_missing(x) for x in values]
        if any(missing):
            raise InputError(f"anchor {name!r} is missing at row {missing.index(True)}; drop such rows")
        if all(isinstance(x, (float, Decimal, np.floating)) for x in values):
            return None
        values = np.array([str(x) for x in values])
    if values.dtype.kind == "f":
        return None
    if values.dtype.kind in "iub" and values.size:
        if values.dtype.kind == "b":
            return _compress(values.astype(np.intp), np.array([False, True]), name)
        low, high = int(values.min()), int(values.max())
        if high - low < max(4 * values.size, 1000):
            wide = values if values.dtype.kind == "u" else values.astype(np.int64)
            return _compress((wide - wide.min()).astype(np.intp), np.array(range(low, high + 1)), name)
    levels, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.intp), levels


def _compress(codes: Codes, levels: NDArray[Any], name: str) -> tuple[Codes, NDArray[Any]]:
    """Return the codes and levels with those left out that do not occur."""
    if (codes < 0).any():
        raise InputError(f"anchor {name!r} is missing at row {int(np.flatnonzero(codes < 0)[0])}; drop such rows")
    occurs = np.bincount(codes, minlength=levels.size) > 0
    if occurs.all():
        return codes, levels
    return (np.cumsum(occurs) - 1)[codes], levels[occurs]


class Part(ABC):
    """The anchors of some rows: their share in the sums, and the values spread over them."""

    @abstractmethod
    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        """Add A'diag(weights) C over these rows to ``sums`` (C = 1 if None)."""

    def add_cells(self, sums: Array, weights: Array, cell: NDArray[np.intp], table: Array) -> None:
        """Add A'diag(weights) table[cell] to ``sums``."""
        self.add(sums, weights, table[cell])

    @abstractmethod
    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        """Add A'diag(weights) M to ``sums``, for columns that are mostly zeros."""

    @abstractmethod
    def spread(self, coefficients: Array) -> Array:
        """Return A @ coefficients for these rows (a vector, or a column for each of several)."""


class Projection(ABC):
    """P_A for n rows with weights; see the module's docstring for the three kinds."""

    rank: int
    n_sums: int
    dropped: tuple[str, ...] = ()

    @abstractmethod
    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        """Return the anchors of these rows (ascending positions)."""

    @abstractmethod
    def root(self, sums: Array) -> Array:
        """Return the coordinates t = Q'Wv from the sums A'Wv; |t|^2 = v'WPv."""

    @abstractmethod
    def coefficients(self, t: Array) -> Array:
        """Return k with A k = Q t."""

    @abstractmethod
    def gram(self, weights: Array) -> Array:
        """Return Q'diag(weights)Q, rank x rank."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        """Return the projection for these rows (ascending positions)."""

    def __call__(self, values: Array, weights: Array | None = None) -> Array:
        """Return P v, the values projected on the anchors."""
        whole = self.part(slice(None))
        sums = np.zeros(self.n_sums)
        whole.add(sums, values if weights is None else values * weights, None)
        return whole.spread(self.coefficients(self.root(sums)))


class _GroupPart(Part):
    """Rows bounds[k] .. bounds[k + 1] belong to level first + k."""

    def __init__(self, first: int, bounds: NDArray[np.intp]) -> None:
        self._levels = slice(first, first + bounds.size - 1)
        self._sizes = np.diff(bounds)
        self._occupied = np.flatnonzero(self._sizes)
        self._starts = bounds[:-1][self._occupied]
        self._bounds, n = bounds, int(bounds[-1])
        # a sparse row for each level, its entries the weights: one pass over C
        self._sparse = sp.csr_matrix((np.ones(n), np.arange(n), bounds), shape=(self._sizes.size, n))

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        if C is None:
            if weights.size:
                sums[self._levels][self._occupied] += np.add.reduceat(weights, self._starts)
        else:
            self._sparse.data = weights
            sums[self._levels] += self._sparse @ C

    def add_cells(self, sums: Array, weights: Array, cell: NDArray[np.intp], table: Array) -> None:
        # entries of a level that share a cell are added by the product
        by_level = sp.csr_matrix((weights, cell, self._bounds), shape=(self._sizes.size, table.shape[0]))
        sums[self._levels] += by_level @ table

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        self._sparse.data = weights
        sums[self._levels] += (self._sparse @ M).toarray()

    def spread(self, coefficients: Array) -> Array:
        return np.repeat(coefficients[self._levels], self._sizes, axis=0)


class GroupProjection(Projection):
    """One factor: P v is the mean of v in its group."""

    def __init__(self, codes: Codes, n_levels: int, weights: Array | None) -> None:
        self._codes = codes
        self.rank = self.n_sums = n_levels
        total = np.bincount(codes, weights, n_levels).astype(np.float64)
        self._root = np.where(total > 0.0, 1.0 / np.sqrt(np.where(total > 0.0, total, 1.0)), 0.0)

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        codes = self._codes[rows]
        if codes.size == 0:
            return _GroupPart(0, np.zeros(1, dtype=np.intp))
        first, last = int(codes[0]), int(codes[-1])
        return _GroupPart(first, np.searchsorted(codes, np.arange(first, last + 2)))

    def root(self, sums: Array) -> Array:
        return (self._root * sums.T).T

    def coefficients(self, t: Array) -> Array:
        return (self._root * t.T).T

    def gram(self, weights: Array) -> Array:
        return np.diag(self._root**2 * np.bincount(self._codes, weights, self.n_sums))

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        return GroupProjection(self._codes[rows], self.n_sums, weights)


@dataclass(frozen=True, eq=False)
class _DensePart(Part):
    Q: Array

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        sums += self.Q.T @ (weights if C is None else weights[:, None] * C)

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        sums += (M.T @ (weights[:, None] * self.Q)).T

    def spread(self, coefficients: Array) -> Array:
        return np.asarray(self.Q @ coefficients)


class DenseProjection(Projection):
    """Numeric columns: an orthonormal basis Q of their span, from a pivoted QR."""

    def __init__(self, A: Array, names: Sequence[str], weights: Array | None) -> None:
        root_w = None if weights is None else np.sqrt(weights)[:, None]
        scale = np.sqrt((A**2).mean(axis=0))
        scaled = A / np.where(scale > 0, scale, 1.0)
        Q, R, pivots = la.qr(scaled if root_w is None else root_w * scaled, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        keep = int((size > RANK_TOLERANCE * max(size.max(initial=0.0), 1e-300)).sum())
        self.rank = self.n_sums = keep
        self.dropped = tuple(names[j] for j in sorted(pivots[keep:]))
        self._Q = Q[:, :keep] if root_w is None else Q[:, :keep] / root_w

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        return _DensePart(self._Q[rows])

    def root(self, sums: Array) -> Array:
        return sums

    def gram(self, weights: Array) -> Array:
        return np.asarray((self._Q * weights[:, None]).T @ self._Q)

    def coefficients(self, t: Array) -> Array:
        return t

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        return DenseProjection(self._Q[rows], [""] * self.rank, weights)


@dataclass(frozen=True, eq=False)
class _MixedPart(Part):
    group: Part
    n_groups: int
    B: sp.csr_matrix

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        self.group.add(sums[: self.n_groups], weights, C)
        sums[self.n_groups :] += self.B.T @ (weights if C is None else weights[:, None] * C)

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        self.group.add_sparse(sums[: self.n_groups], weights, M)
        sums[self.n_groups :] += (self.B.T @ M.multiply(weights[:, None])).toarray()

    def spread(self, coefficients: Array) -> Array:
        return np.asarray(self.group.spread(coefficients[: self.n_groups]) + self.B @ coefficients[self.n_groups :])


class MixedProjection(Projection):
    """Several factors and columns: Q = [D^-1/2 groups | the rest, residualised on the groups]."""

    def __init__(self, main: GroupProjection, B: sp.csr_matrix, names: Sequence[str], weights: Array | None) -> None:
        self._main, self._B, self._names = main, B, names
        n_groups, n_rest = main.n_sums, B.shape[1]
        WB = B if weights is None else B.multiply(weights[:, None]).tocsr()
        codes = main._codes
        groups = sp.csr_matrix((np.ones(codes.size), (codes, np.arange(codes.size))), shape=(n_groups, codes.size))
        cross = (groups @ WB).T.tocsr()  # B'WA_1
        self._means = cross.multiply(main._root[None, :] ** 2).tocsr()
        gram = np.asarray((B.T @ WB).todense())
        schur = gram - np.asarray((self._means @ cross.T).todense())
        # unit diagonal before deciding on rank: columns may have any scale
        scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        values, vectors = np.linalg.eigh(schur / np.outer(scale, scale))
        keep = values > RANK_TOLERANCE
        self._rest = ((vectors[:, keep] / np.sqrt(values[keep])).T / scale).astype(np.float64)
        self.n_sums, self.rank = n_groups + n_rest, n_groups + int(keep.sum())
        # name the numeric columns that the groups or other numeric columns contain
        numeric = [j for j, name in enumerate(names) if name]
        block = (schur / np.outer(scale, scale))[np.ix_(numeric, numeric)]
        if numeric:
            _, R, pivots = la.qr(block, pivoting=True)
            gone = pivots[np.abs(np.diag(R)) <= RANK_TOLERANCE]
            self.dropped = tuple(names[numeric[j]] for j in sorted(gone.tolist()))

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        return _MixedPart(self._main.part(rows), self._main.n_sums, self._B[rows])

    def root(self, sums: Array) -> Array:
        head, tail = sums[: self._main.n_sums], sums[self._main.n_sums :]
        return np.concatenate([self._main.root(head), self._rest @ (tail - self._means @ head)])

    def coefficients(self, t: Array) -> Array:
        tail = self._rest.T @ t[self._main.n_sums :]
        return np.concatenate([self._main.coefficients(t[: self._main.n_sums]) - self._means.T @ tail, tail])

    def gram(self, weights: Array) -> Array:
        codes, n = self._main._codes, self._B.shape[0]
        groups = sp.csr_matrix((np.ones(n), (np.arange(n), codes)), shape=(n, self._main.n_sums))
        A = sp.hstack([groups, self._B], format="csr")
        sums = np.asarray((A.T @ A.multiply(weights[:, None])).todense())
        return self.root(self.root(sums).T)

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        main = GroupProjection(self._main._codes[rows], self._main.n_sums, weights)
        return MixedProjection(main, self._B[rows], self._names, weights)


def projection(anchors: AnchorColumns, weights: Array | None = None, intercept: bool = True) -> Projection:
    """Return the projection on the span of the anchors, and of the constant if ``intercept``.

    Rows must be in the order of ``anchors.order()``. The constant is in the span of any
    factor. Constant or collinear numeric columns are dropped and named in ``dropped``.
    """
    if anchors.main is None:
        result: Projection = _dense(anchors, weights, intercept)
    else:
        main = GroupProjection(anchors.factors[anchors.main], anchors.levels[anchors.main].size, weights)
        rest = [j for j in range(len(anchors.factors)) if j != anchors.main]
        result = _mixed(anchors, main, rest, weights) if rest or anchors.columns.shape[1] else main
    return result


def _dense(anchors: AnchorColumns, weights: Array | None, intercept: bool) -> Projection:
    A, names = anchors.columns, list(anchors.column_names)
    if not intercept:
        return DenseProjection(A, names, weights)
    # centred columns, then the constant in front: it is orthogonal to them and always kept
    mean = np.average(A, axis=0, weights=weights)
    spread = np.abs(A - mean).max(axis=0, initial=0.0)
    constant = spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    kept = [name for name, gone in zip(names, constant, strict=True) if not gone]
    result = DenseProjection(
        np.column_stack([np.ones(len(A)), (A - mean)[:, ~constant]]), ["(constant)", *kept], weights
    )
    result.dropped = (*(name for name, gone in zip(names, constant, strict=True) if gone), *result.dropped)
    return result


def _mixed(
    anchors: AnchorColumns, main: GroupProjection, rest: Sequence[int], weights: Array | None
) -> MixedProjection:
    n = len(anchors)
    width = sum(anchors.levels[j].size for j in rest) + anchors.columns.shape[1]
    if width > MAX_OTHER_LEVELS:
        raise InputError(
            f"beside the largest factor the anchors have {width} levels and columns, more than {MAX_OTHER_LEVELS}; "
            "leave one factor out, or merge levels"
        )
    pieces = [
        sp.csr_matrix((np.ones(n), (np.arange(n), anchors.factors[j])), shape=(n, anchors.levels[j].size)) for j in rest
    ]
    names = [""] * (width - anchors.columns.shape[1]) + list(anchors.column_names)
    if anchors.columns.shape[1]:
        centred = anchors.columns - np.average(anchors.columns, axis=0, weights=weights)
        pieces.append(sp.csr_matrix(centred))
    return MixedProjection(main, sp.hstack(pieces, format="csr"), names, weights)
