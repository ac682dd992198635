"""What the second pass sums up about covariates and strata: means, deviations, products, ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.backends.reading import Batch
from anchortm.engine.data import binary_columns
from anchortm.engine.solve.identification import CovariateSums, WideSums, covariate_ranges, level_ends
from anchortm.inputs.design import Matrix, WideMatrix

__all__ = ["ColumnSums", "Units", "numbers_of"]


def numbers_of(X: Matrix) -> tuple[Array, Any]:
    """Return the columns of numbers, and their places."""
    return (X.dense, X.dense_at) if isinstance(X, WideMatrix) else (X, slice(None))


@dataclass(frozen=True, eq=False)
class Units:
    """Centres near the means of columns of numbers, and about their spread; 0 and 1 for columns of wide factors."""

    centre: Array
    spread: Array

    @classmethod
    def of(cls, X: Matrix) -> Units:
        """Return the units of a sample of the rows."""
        numbers, at = numbers_of(X)
        centre, spread = np.zeros(X.shape[1]), np.ones(X.shape[1])
        centre[at] = numbers.mean(axis=0)
        size = np.abs(numbers - centre[at]).max(axis=0, initial=0.0)
        spread[at] = np.where(size > 0.0, size, 1.0)
        return cls(centre, spread)

    def numbers(self, X: Matrix) -> Array:
        """Return the columns of numbers in these units."""
        numbers, at = numbers_of(X)
        return np.asarray((numbers - self.centre[at]) / self.spread[at])


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over rows of their covariates, with columns that tell strata or corners apart beside them."""

    n_rows: int
    n_total: float
    units: Units
    sums: Any  # CovariateSums, or WideSums
    moments: Array  # weighted sums and sums of squares of all columns, in units
    corners: Array  # rows of each stratum, or sums of the weights of each corner
    ends: Array  # rows of each level of a wide factor with a finite lower end, and with a finite upper one
    low: Array  # smallest and largest value of each covariate
    high: Array
    binary: NDArray[np.bool_]  # which covariates are 0 or 1

    @classmethod
    def of(cls, batch: Batch, units: Units, weights: Array) -> ColumnSums:
        """Return the sums of a batch."""
        X, Z = batch.X, units.numbers(batch.X)
        moments = np.zeros((2, X.shape[1]))
        moments[:, numbers_of(X)[1]] = weights @ Z, weights @ Z**2
        beside, corners = batch.beside()
        sums: Any
        if isinstance(X, WideMatrix):
            sums = WideSums.of(X, np.hstack([Z, beside]))
            moments[:, X.sparse_at] = weights @ X.sparse, weights @ X.sparse.power(2)
            if X.codes is not None:
                moments[:, X.levels] = np.bincount(X.codes, weights, X.n_levels)[1:]
        else:
            sums = CovariateSums.of(np.hstack([Z, beside]))
        low, high = covariate_ranges(X)
        binary = np.array(binary_columns(X), dtype=bool)
        n, ends = len(batch.response), level_ends(batch.response, X)
        return cls(n, float(weights.sum()), units, sums, moments, corners, ends, low, high, binary)

    def __add__(self, other: ColumnSums) -> ColumnSums:
        return ColumnSums(
            self.n_rows + other.n_rows,
            self.n_total + other.n_total,
            self.units,
            self.sums + other.sums,
            self.moments + other.moments,
            self.corners + other.corners,
            self.ends + other.ends,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.binary & other.binary,
        )

    def absent(self, X: Matrix) -> NDArray[np.bool_]:
        """Return which covariates are 0 in all rows; X are some rows of them."""
        found = (self.low == 0.0) & (self.high == 0.0)
        if isinstance(X, WideMatrix) and X.codes is not None:
            found[X.levels] = self.sums.count[1:] == 0.0
        return np.asarray(found)

    def means(self, X: Matrix) -> Array:
        """Return the means of the covariates without weights; X are some rows of them."""
        numbers, at = numbers_of(X)
        total = np.zeros(self.low.size)
        if isinstance(X, WideMatrix):
            own = self.sums.total.sum(axis=0)
            total[X.sparse_at], total[X.levels] = own[own.size - X.sparse_at.size :], self.sums.count[1:]
        else:
            own = self.sums.total
        total[at] = own[: numbers.shape[1]]
        return np.asarray(self.units.centre + self.units.spread * total / self.n_rows)

    def weighted(self) -> Array:
        """Return the weighted means and standard deviations of the covariates."""
        first, second = self.moments / self.n_total
        deviation = np.sqrt(np.maximum(second - first**2, 0.0))
        return np.array([self.units.centre + self.units.spread * first, self.units.spread * deviation])
