"""Functions of the shift of a row, such as its mean: smooth, and interpolated where many rows ask for them.

The range of the shift is cut into cells of equal width. A cell with many rows is interpolated at Chebyshev points. The
result is compared with the function at other points, and if it differs the rows of the cell are computed one by one,
as are those of cells with few rows. Which cell a row lies in does not depend on the other rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array

__all__ = ["along_shift"]

WIDTH = 1.0  # width of a cell: links are analytic up to a distance of pi / 2 from the real line
DEGREE = 19
ENOUGH = 30  # cells with at least this many rows are interpolated
BLOCK = 16_384  # rows in one pass
ERROR = 2e-13  # largest relative error where a cell is checked
_ANGLES = np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1)
_CHECKS = np.array([-0.96, 0.05, 0.93])
_PLACES = 0.5 * (1.0 + np.concatenate([np.cos(_ANGLES), _CHECKS]))
#: turns values at the Chebyshev points into coefficients
_TO_COEFFICIENTS = (2.0 / (DEGREE + 1)) * np.cos(np.arange(DEGREE + 1)[:, None] * _ANGLES)
_TO_COEFFICIENTS[0] *= 0.5
_AT_CHECKS = np.cos(np.arange(DEGREE + 1) * np.arccos(_CHECKS)[:, None])


def along_shift(
    function: Callable[[Array], Array], at: Array, column: NDArray[np.intp] | None = None, signed: bool = False
) -> Array:
    """Return function(at), or its column for each place; the function takes a vector and returns (n,) or (n, k).

    A function that may change its sign (``signed``) is interpolated relative to its largest value in a cell.
    """
    out = np.empty(at.size)
    if at.size <= ENOUGH:
        return _one_by_one(function, at, column, np.arange(at.size), out)
    cells, cell, rows = np.unique(np.floor(at / WIDTH), return_inverse=True, return_counts=True)
    full = np.flatnonzero(rows > ENOUGH)
    alone = np.ones(at.size, dtype=np.bool_)
    if full.size:
        values = function((WIDTH * (cells[full, None] + _PLACES)).ravel())
        values = values.reshape(full.size, _PLACES.size, -1)
        nodes, checks = values[:, : DEGREE + 1], values[:, DEGREE + 1 :]
        with np.errstate(invalid="ignore", over="ignore"):  # infinite values are computed one by one
            coefficients = _TO_COEFFICIENTS @ nodes  # cell, degree, column
            scale = np.abs(values).max(axis=1, keepdims=True) if signed else np.abs(checks)
            good = (np.abs(_AT_CHECKS @ coefficients - checks) <= ERROR * scale).all(axis=1)
        place = np.full(cells.size, -1, dtype=np.intp)
        place[full] = np.arange(full.size)
        own = place[cell]
        alone = (own < 0) | ~good[own, 0 if column is None else column]
        chosen = np.flatnonzero(~alone)
        flat = np.ascontiguousarray(coefficients.transpose(1, 0, 2)).reshape(DEGREE + 1, -1)
        for start in range(0, chosen.size, BLOCK):
            part = chosen[start : start + BLOCK]
            series = own[part] * values.shape[2] + (0 if column is None else column[part])
            out[part] = _clenshaw(flat, series, 2.0 * (at[part] / WIDTH - cells[cell[part]]) - 1.0)
    return _one_by_one(function, at, column, np.flatnonzero(alone), out)


def _clenshaw(coefficients: Array, series: NDArray[np.intp], x: Array) -> Array:
    """Return Chebyshev series at x in [-1, 1]; column ``series`` of the coefficients belongs to each x."""
    ahead, further = np.zeros_like(x), np.zeros_like(x)
    for row in coefficients[:0:-1]:
        ahead, further = 2.0 * x * ahead - further + row[series], ahead
    return np.asarray(x * ahead - further + coefficients[0][series])


def _one_by_one(
    function: Callable[[Array], Array],
    at: Array,
    column: NDArray[np.intp] | None,
    rows: NDArray[np.intp],
    out: Array,
    block: int = 500,
) -> Array:
    """Fill in these rows of ``out``."""
    for start in range(0, rows.size, block):
        part = rows[start : start + block]
        values = function(at[part])
        out[part] = values if column is None else values[np.arange(part.size), column[part]]
    return out
