"""Limits of quantiles where the confidence band of the curve crosses their probability, as R's survfit computes them.

Unlike the delta method this needs no slope of the curve at the quantile: a limit is infinite where the band does not
come to the probability, which is common for the upper limit of a median survival.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.inference.bands import ConfidenceBand, checked_points
from anchortm.predict.protocol import Distribution

__all__ = ["inverted_band"]

TAILS = np.exp(-np.arange(36.0, 0.69, -0.5))  # probabilities of the points where crossings are looked for
PARTS, ROUNDS = 32, 3  # a cell with a crossing is divided into so many, so many times; the last one is a line


def inverted_band(
    distribution: Distribution, band: Callable[[int, Array], ConfidenceBand], q: Array, level: float
) -> ConfidenceBand:
    """Return quantiles with limits at the crossings next to the estimate; ``band`` gives that of P(Y <= y) of a row."""
    q = checked_points(distribution, q, "ppf", level)
    n = len(distribution)
    estimate = np.asarray(distribution.ppf(q), dtype=np.float64)
    if n == 0:
        return ConfidenceBand("ppf", q, estimate, estimate, estimate, level, False, "inverted band")
    points = np.hstack([distribution.ppf(TAILS), distribution.isf(TAILS), estimate])
    lowest = np.where(distribution.cdf(0.0) > 0.0, -np.inf, 0.0)
    limits, found = np.empty((2, n, q.size)), None
    for i, own in enumerate(points):
        grid = np.unique(own[np.isfinite(own)])
        found = band(i, grid)
        cells = _cells(grid, found.lower[0], found.upper[0], estimate[i], q, lowest[i])
        limits[:, i] = cells[..., 1]
        inside = cells[..., 0] < cells[..., 1]
        for _ in range(ROUNDS):
            first, last = (np.where(inside, cells[..., end], grid[0]) for end in (0, 1))
            parts = np.linspace(first, last, PARTS + 1, axis=-1)
            there = band(i, parts.ravel())
            ends = there.upper[0].reshape(parts.shape)[0], there.lower[0].reshape(parts.shape)[1]
            for side, j in np.argwhere(inside):
                value, at = ends[side][j], parts[side, j]
                k = _crossing(value >= q[j], last=side == 0)
                cells[side, j] = at[k : k + 2]
                limits[side, i, j] = np.interp(q[j], value[k : k + 2], at[k : k + 2])
    assert found is not None  # noqa: S101
    method = f"inverted band, {found.method}"
    return replace(found, of="ppf", at=q, estimate=estimate, lower=limits[0], upper=limits[1], method=method)


def _crossing(reached: NDArray[np.bool_], last: bool) -> int:
    """Return the number of the cell in which a limit comes to its probability: the last, or the first, such cell."""
    below = np.flatnonzero(~reached[:-1])[-1:] if last else np.argmax(reached, keepdims=True) - 1
    return max(int(below.sum()), 0)


def _cells(grid: Array, lower: Array, upper: Array, estimate: Array, q: Array, lowest: float) -> Array:
    """Return for the lower and upper limit of each quantile the points between which the band crosses (2, m, 2).

    Where it does not, both are the lowest outcome, or infinite.
    """
    cells = np.empty((2, q.size, 2))
    for j, (middle, probability) in enumerate(zip(estimate, q, strict=True)):
        k = int(np.searchsorted(grid, middle))
        below = np.flatnonzero(upper[:k] < probability)
        # the next point may be missing where the curve never comes to the probability
        at = None if below.size == 0 else int(below[-1])
        cells[0, j] = lowest if at is None else np.inf if at + 1 == grid.size else grid[at : at + 2]
        above = np.flatnonzero(lower[k:] >= probability)
        cells[1, j] = np.inf if above.size == 0 else grid[[max(k + int(above[0]) - 1, 0), k + int(above[0])]]
    return cells
