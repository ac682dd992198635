"""Projection on the anchors: P_A as an operator, never an n x n or one-hot matrix.

The anchor loss needs only sums A'Wv over rows. A projection turns such sums into coordinates t in an orthonormal basis
Q of the span of A (in the inner product of the weights W), so that the penalty is |t|^2, and coordinates back into the
row values Q t = P v.

Three ways, one contract (``tests/engine/rows/test_projections.py``):

* one factor: group sums; A'WA is diagonal. O(n) and O(levels).
* numeric columns: a rank-revealing QR once, O(n q^2); Q is stored. If the rows are not in memory only R is stored, from
  the R of blocks of rows, and Q is made for one block at a time.
* several factors, with or without columns: the factor with most levels is eliminated exactly, the rest by a
  rank-revealing decomposition of its Schur complement (m x m for m other levels and columns).

Rows of a factor are expected in the order that ``AnchorColumns.order`` gives, so that a group is a run of rows. A
projection is made from sums over all rows; ``on`` gives it the rows of a block.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.anchor_sums import AnchorFrame, AnchorMoments, group_weights, mixed_moments
from anchortm.inputs.anchors import AnchorColumns
from anchortm.kernels.rows import add_group_sums

__all__ = ["GroupProjection", "Part", "Projection", "projection", "projection_of"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
T = TypeVar("T")

RANK_TOLERANCE = 1e-9


class Part(ABC):
    """The anchors of some rows: their share in the sums, and the values spread over them."""

    @abstractmethod
    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        """Add A'diag(weights) C over these rows to ``sums`` (C = 1 if None)."""

    def add_cells(self, sums: Array, weights: Array, cell: NDArray[np.intp], table: Array) -> None:
        """Add A'diag(weights) table[cell] to ``sums``."""
        self.add(sums, weights, table[cell])

    @abstractmethod
    def add_codes(self, sums: Array, weights: Array, codes: NDArray[np.intp]) -> None:
        """Add A'diag(weights) Z to ``sums``, where the columns of Z indicate the codes of the rows."""

    @abstractmethod
    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        """Add A'diag(weights) M to ``sums``, for columns that are mostly zeros."""

    @abstractmethod
    def add_gram(self, sums: Array, weights: Array) -> None:
        """Add A'diag(weights)A over these rows to ``sums``."""

    @abstractmethod
    def spread(self, coefficients: Array) -> Array:
        """Return A @ coefficients for these rows (a vector, or a column for each of several)."""

    def projected(self, coefficients: Array) -> Array:
        """Return P v for these rows, from the coefficients that ``Projection.projection_of`` returns."""
        return self.spread(coefficients)


class Projection(ABC):
    """P_A for n rows with weights; see the module's docstring for the three kinds."""

    rank: int
    n_sums: int
    dropped: tuple[str, ...] = ()
    shares: Array | None = None  # share of each level in the penalty, if the anchors are one factor
    contracts: bool = True  # whether |t|^2 is at most v'Wv

    @abstractmethod
    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        """Return the anchors of these rows (ascending positions)."""

    @abstractmethod
    def root(self, sums: Array) -> Array:
        """Return the coordinates t = Q'Wv from the sums A'Wv; |t|^2 = v'WPv."""

    @abstractmethod
    def coefficients(self, t: Array) -> Array:
        """Return k with A k = Q t."""

    def projection_of(self, t: Array) -> Array:
        """Return k with A k = P v, for the coordinates t of v."""
        return self.coefficients(t)

    @abstractmethod
    def gram(self, weights: Array) -> Array:
        """Return Q'diag(weights)Q, rank x rank."""

    @abstractmethod
    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        """Return A'WM for sparse columns M of all rows: sparse if the anchors are factors, else an array."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        """Return the projection for these rows (ascending positions)."""

    @abstractmethod
    def on(self, anchors: AnchorColumns) -> Projection:
        """Return the same projection for other rows: its parts are theirs, all else stays."""

    def weight_sums(self, weights: Array | None, n_rows: int) -> Array:
        """Return A'W1 of these rows."""
        sums = np.zeros(self.n_sums)
        self.part(slice(None)).add(sums, np.ones(n_rows) if weights is None else weights, None)
        return sums

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
        self._bounds = np.ascontiguousarray(bounds, dtype=np.int64)

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        if C is None:
            if weights.size:
                sums[self._levels][self._occupied] += np.add.reduceat(weights, self._starts)
        elif not add_group_sums(self._bounds, weights, C, sums[self._levels]):
            sums[self._levels] += self._with(weights) @ C

    def _with(self, weights: Array) -> sp.csr_matrix:
        """Return a sparse row for each level, its entries the weights: a product takes one pass over a matrix."""
        n = weights.size
        return sp.csr_matrix((weights, np.arange(n), self._bounds), shape=(self._sizes.size, n))

    def add_cells(self, sums: Array, weights: Array, cell: NDArray[np.intp], table: Array) -> None:
        # entries of a level that share a cell are added by the product
        by_level = sp.csr_matrix((weights, cell, self._bounds), shape=(self._sizes.size, table.shape[0]))
        sums[self._levels] += by_level @ table

    def add_codes(self, sums: Array, weights: Array, codes: NDArray[np.intp]) -> None:
        size = sums.shape[1]
        cells = np.repeat(size * np.arange(self._sizes.size), self._sizes) + codes
        sums[self._levels] += np.bincount(cells, weights, self._sizes.size * size).reshape(-1, size)

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        sums[self._levels] += (self._with(weights) @ M).toarray()

    def add_gram(self, sums: Array, weights: Array) -> None:
        self.add(np.einsum("ii->i", sums), weights, None)  # a view of the diagonal

    def spread(self, coefficients: Array) -> Array:
        return np.repeat(coefficients[self._levels], self._sizes, axis=0)


class GroupProjection(Projection):
    """One factor: P v is the mean of v in its group. ``total`` is the weight of each group."""

    def __init__(self, codes: Codes, total: Array) -> None:
        self._codes = codes
        self.rank = self.n_sums = total.size
        self.shares = total / total.sum()
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

    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        n = self._codes.size
        bounds = np.searchsorted(self._codes, np.arange(self.n_sums + 1))
        groups = sp.csr_matrix(
            (np.ones(n) if weights is None else weights, np.arange(n), bounds), shape=(self.n_sums, n)
        )
        return groups @ M

    def on(self, anchors: AnchorColumns) -> GroupProjection:
        return _with(self, _codes=anchors.factors[anchors.main or 0])

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        return GroupProjection(self._codes[rows], group_weights(self._codes[rows], self.n_sums, weights))


@dataclass(frozen=True, eq=False)
class _DensePart(Part):
    Q: Array

    def add_codes(self, sums: Array, weights: Array, codes: NDArray[np.intp]) -> None:
        by_code = sp.csc_matrix((weights, codes, np.arange(codes.size + 1)), shape=(sums.shape[1], codes.size))
        sums += (by_code @ self.Q).T

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        sums += self.Q.T @ (weights if C is None else weights[:, None] * C)

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        sums += (M.T @ (weights[:, None] * self.Q)).T

    def add_gram(self, sums: Array, weights: Array) -> None:
        self.add(sums, weights, self.Q)

    def spread(self, coefficients: Array) -> Array:
        return np.asarray(self.Q @ coefficients)


class DenseProjection(Projection):
    """Numeric columns: an orthonormal basis Q of their span, from a pivoted QR."""

    def __init__(self, A: Array, names: Sequence[str], weights: Array | None) -> None:
        root_w = None if weights is None else np.sqrt(weights)[:, None]
        scale = np.sqrt((A**2).mean(axis=0))
        scaled = A / np.where(scale > 0, scale, 1.0)
        Q, R, pivots = la.qr(scaled if root_w is None else root_w * scaled, mode="economic", pivoting=True)
        keep = self._keep(R, pivots, names)
        self._Q = Q[:, :keep] if root_w is None else Q[:, :keep] / root_w

    def _keep(self, R: Array, pivots: NDArray[np.intp], names: Sequence[str]) -> int:
        """Return how many columns are independent, and name the others."""
        size = np.abs(np.diag(R))
        keep = int((size > RANK_TOLERANCE * max(size.max(initial=0.0), 1e-300)).sum())
        self.rank = self.n_sums = keep
        self.dropped = tuple(names[j] for j in sorted(pivots[keep:]))
        return keep

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        return _DensePart(self._Q[rows])

    def root(self, sums: Array) -> Array:
        return sums

    def gram(self, weights: Array) -> Array:
        return np.asarray((self._Q * weights[:, None]).T @ self._Q)

    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        return (M.T @ (self._Q if weights is None else weights[:, None] * self._Q)).T

    def coefficients(self, t: Array) -> Array:
        return t

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        return DenseProjection(self._Q[rows], [""] * self.rank, weights)

    def on(self, anchors: AnchorColumns) -> Projection:
        raise NotImplementedError("made from its rows, not from sums")


class SummedProjection(DenseProjection):
    """Numeric columns whose rows are elsewhere: Q = A R^-1 with R'R = A'WA from the sums of all rows."""

    def __init__(self, frame: AnchorFrame, root: Array) -> None:
        self._frame = frame
        scale = np.sqrt((root**2).sum(axis=0))
        self._scale = np.where(scale > 0, scale, 1.0)
        _, R, pivots = la.qr(root / self._scale, mode="economic", pivoting=True)
        keep = self._keep(R, pivots, frame.dense_names)
        self._R, self._pivots = R[:keep, :keep], pivots[:keep]
        self.dropped = (*frame.constant_names, *self.dropped)
        self._Q = np.zeros((0, keep))

    def on(self, anchors: AnchorColumns) -> SummedProjection:
        A = (self._frame.dense(anchors) / self._scale)[:, self._pivots]
        return _with(self, _Q=np.ascontiguousarray(la.solve_triangular(self._R, A.T, trans="T").T))


@dataclass(frozen=True, eq=False)
class _MixedPart(Part):
    group: Part
    n_groups: int
    B: sp.csr_matrix

    def add_codes(self, sums: Array, weights: Array, codes: NDArray[np.intp]) -> None:
        self.group.add_codes(sums[: self.n_groups], weights, codes)
        by_code = sp.csc_matrix((weights, codes, np.arange(codes.size + 1)), shape=(sums.shape[1], codes.size))
        sums[self.n_groups :] += (by_code @ self.B).toarray().T

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        self.group.add(sums[: self.n_groups], weights, C)
        sums[self.n_groups :] += self.B.T @ (weights if C is None else weights[:, None] * C)

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        self.group.add_sparse(sums[: self.n_groups], weights, M)
        sums[self.n_groups :] += (self.B.T @ M.multiply(weights[:, None])).toarray()

    def add_gram(self, sums: Array, weights: Array) -> None:
        m, cross = self.n_groups, np.zeros((self.n_groups, self.B.shape[1]))
        self.group.add_gram(sums[:m, :m], weights)
        self.group.add_sparse(cross, weights, self.B)
        sums[:m, m:] += cross
        sums[m:, :m] += cross.T
        sums[m:, m:] += (self.B.T @ self.B.multiply(weights[:, None])).toarray()

    def spread(self, coefficients: Array) -> Array:
        return np.asarray(self.group.spread(coefficients[: self.n_groups]) + self.B @ coefficients[self.n_groups :])


class MixedProjection(Projection):
    """Several factors and columns: Q = [D^-1/2 groups | the rest, residualised on the groups]."""

    def __init__(self, frame: AnchorFrame, moments: AnchorMoments) -> None:
        self._frame = frame
        main, names, gram = GroupProjection(np.zeros(0, dtype=np.intp), moments.total), frame.other_names, moments.gram
        self._main, self._B = main, sp.csr_matrix((0, gram.shape[0]))
        n_groups, n_rest = main.n_sums, gram.shape[0]
        self._means = moments.cross.multiply(main._root[None, :] ** 2).tocsr()
        schur = gram - np.asarray((self._means @ moments.cross.T).todense())
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

    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        others = self._B if weights is None else self._B.multiply(weights[:, None])
        return sp.vstack([self._main.cross(M, weights), others.T @ M], format="csr")

    def on(self, anchors: AnchorColumns) -> MixedProjection:
        return _with(self, _main=self._main.on(anchors), _B=self._frame.others(anchors))

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        codes, B = self._main._codes[rows], self._B[rows]
        result = MixedProjection(self._frame, mixed_moments(codes, self._main.n_sums, B, weights))
        return _with(result, _main=_with(result._main, _codes=codes), _B=B)


def _with(projection: T, **rows: Any) -> T:
    """Return a projection with other rows."""
    result = copy.copy(projection)
    for name, value in rows.items():
        setattr(result, name, value)
    return result


def projection_of(frame: AnchorFrame, moments: AnchorMoments) -> Projection:
    """Return the projection that these sums over all rows make; ``on`` gives it rows."""
    if frame.main is None:
        return SummedProjection(frame, moments.root)
    if not frame.other_names:
        return GroupProjection(np.zeros(0, dtype=np.intp), moments.total)
    return MixedProjection(frame, moments)


def projection(anchors: AnchorColumns, weights: Array | None = None, intercept: bool = True) -> Projection:
    """Return the projection on the span of the anchors, and of the constant if ``intercept``.

    Rows must be in the order of ``anchors.order()``. The constant is in the span of any
    factor. Constant or collinear numeric columns are dropped and named in ``dropped``.
    """
    A = anchors.columns
    mean = np.average(A, axis=0, weights=weights) if A.shape[1] else np.zeros(0)
    sizes = tuple(level.size for level in anchors.levels)
    spread = np.abs(A - mean).max(axis=0, initial=0.0)
    frame = AnchorFrame(anchors.main, sizes, anchors.column_names, mean, spread, intercept)
    if anchors.main is None:
        result = DenseProjection(frame.dense(anchors), frame.dense_names, weights)
        result.dropped = (*frame.constant_names, *result.dropped)
        return result
    return projection_of(frame, frame.moments(anchors, weights)).on(anchors)
