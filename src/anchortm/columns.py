"""Standardised columns: how rows and parameters look inside the objective.

The baseline's increments and the covariates become columns c_j with mean 0 and deviation 1, the
first column is the constant, so that h = c'v, the monotonicity constraints are bounds on v, and a
user's units do not matter. Columns are made block by block from the basis and the design.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.ends import CellEnds, Ends, RowEnds
from anchortm.likelihood import Layout

__all__ = ["BLOCK_ROWS", "Coordinates", "Rows", "make_coordinates", "standardised"]

Array = NDArray[np.float64]

BLOCK_ROWS = 16_384
MAX_CELLS = 1000  # classes or counts that are summed over as cells
SCALE_ROWS = 100_000  # means and deviations of the columns are taken from about as many rows


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

    @property
    def n_baseline(self) -> int:
        """Return the number of internal baseline parameters."""
        return int(self.matrix.shape[1])

    def split(self, v: Array) -> tuple[Array, Array]:
        """Return theta and beta."""
        raw = v / self.scale
        raw[0] -= self.mean @ raw
        return self.matrix @ raw[: self.n_baseline], raw[self.n_baseline :]

    def join(self, theta: Array, beta: Array) -> Array:
        """Return v for a theta that satisfies the equality constraints."""
        delta, *_ = np.linalg.lstsq(self.matrix, theta, rcond=None)
        raw = np.concatenate([delta, beta])
        raw[0] += self.mean @ raw
        return raw * self.scale

    @cached_property
    def jacobian(self) -> Array:
        """Return d(theta, beta)/dv."""
        raw = np.diag(1.0 / self.scale)
        raw[0] -= self.mean / self.scale
        k = self.n_baseline
        return np.vstack([self.matrix @ raw[:k], raw[k:]])


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

    def cut(self, start: int, stop: int) -> Rows:
        """Return the rows at positions start to stop of the response."""
        a, b = np.searchsorted(self.rows, (start, stop))
        return self.take(slice(a, b), self.rows[a:b])

    def take(self, own: Any, rows: NDArray[np.intp]) -> Rows:
        """Return a part of these rows, standing at ``rows`` in the response."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[own]

        ends = None if self.ends is None else self.ends.take(own)
        columns = map(part, (self.slope, self.weights, self.offset))
        return Rows(self.kind, self.sign, rows, self.C[own], ends, *columns)


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


def make_coordinates(basis: Basis, parts: list[Layout], X: Array, sign: float) -> Coordinates:
    """Return coordinates in which the columns have mean 0 and deviation 1 (on a sample of many rows)."""
    matrix, lower, upper = _reduced(basis)
    ends = np.concatenate(
        [end for part in parts if part.sign > 0 for end in (part.upper, part.lower) if end is not None]
    )
    mean, spread = _mean_and_deviation(basis.rows(ends[:: max(1, ends.size // SCALE_ROWS)]) @ matrix)
    mean[0], spread[0] = 0.0, 1.0
    x_mean, x_spread = _mean_and_deviation(X[:: max(1, X.shape[0] // SCALE_ROWS)])
    p = X.shape[1]
    return Coordinates(
        matrix,
        np.concatenate([mean, sign * x_mean]),
        np.concatenate([spread, x_spread]),
        np.concatenate([lower * spread, np.full(p, -np.inf)]),
        np.concatenate([upper * spread, np.full(p, np.inf)]),
    )


def _mean_and_deviation(columns: Array) -> tuple[Array, Array]:
    """Return means and standard deviations (1 for a constant), in any units that a double can hold."""
    size = np.maximum(np.abs(columns).max(axis=0, initial=0.0), np.finfo(float).tiny)
    unit = columns / size
    mean = unit.mean(axis=0)
    away = np.maximum(np.abs(unit - mean).max(axis=0, initial=0.0), np.finfo(float).tiny)
    spread = away * ((unit - mean) / away).std(axis=0)
    return size * mean, np.where(spread > 0.0, size * spread, 1.0)


def _ends(basis: Basis, part: Layout, matrix: Array, shift: Array) -> Ends:
    """Return the standardised baseline columns at both ends, one row for each cell where cells are few."""
    lower, upper = part.lower, part.upper
    assert lower is not None and upper is not None  # noqa: S101, PT018
    if basis.discrete and (lower == upper - 1.0).all() and upper.max() - upper.min() < min(MAX_CELLS, upper.size):
        first = upper.min()
        cells = np.arange(first, upper.max() + 1.0)
        table = basis.rows(cells - 1.0) @ matrix - shift
        return CellEnds(table, basis.difference_rows(cells - 1.0, cells) @ matrix, (upper - first).astype(np.intp))
    V, D = np.empty((lower.size, matrix.shape[1])), np.empty((lower.size, matrix.shape[1]))
    for start in range(0, lower.size, BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        np.subtract(basis.rows(lower[block]) @ matrix, shift, out=V[block])
        np.matmul(basis.difference_rows(lower[block], upper[block]), matrix, out=D[block])
    return RowEnds(V, D)


def standardised(
    basis: Basis,
    part: Layout,
    X: Array,
    order: NDArray[np.intp] | None,
    sign: float,
    coordinates: Coordinates,
    weights: Array | None,
    offset: Array | None,
) -> Rows:
    """Return a layout with its standardised columns, made block by block."""
    k, m = coordinates.n_baseline, part.rows.size
    mean, scale = coordinates.mean, coordinates.scale
    matrix, shift = coordinates.matrix / scale[:k], mean / scale
    two_ends, exact = part.kind == "interval", part.kind == "exact"
    covariates = X.shape[1]
    C = np.empty((m, covariates if two_ends else k + covariates))
    ends = _ends(basis, part, matrix, shift[:k]) if two_ends else None
    slope = np.empty((m, k)) if exact else None
    for start in range(0, m, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, m))
        if ends is None:
            end = part.upper if part.lower is None else part.lower
            assert end is not None  # noqa: S101
            np.subtract(basis.rows(end[block]) @ matrix, shift[:k], out=C[block, :k])
        if slope is not None and part.upper is not None:
            np.matmul(basis.derivative_rows(part.upper[block]), matrix, out=slope[block])
        if covariates:
            own = part.rows[block]
            x = X[own if order is None else order[own]] * (sign / scale[k:])
            np.subtract(x, shift[k:], out=C[block, -covariates:])
    return Rows(
        part.kind,
        part.sign,
        part.rows,
        C,
        ends,
        slope,
        None if weights is None else weights[part.rows],
        None if offset is None else sign * offset[part.rows],
    )
