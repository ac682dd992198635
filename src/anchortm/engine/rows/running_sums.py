"""Sums of values from a first to a last event time, for many rows at once and without cancellation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Halves", "make_halves", "padded", "spread", "sums_between"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class Halves(NamedTuple):
    """Rows whose first event time is in the left half of a block of event times and the last in the right half.

    The sum from first to last is the sum to the end of the left half plus that from the start of the right half. So
    numbers are only added, while differences of running sums would lose digits.
    """

    size: int  # size of a block, a power of 2; if it is 1, first and last are the same
    blocks: Codes  # the blocks that have rows
    rows: Codes
    first: Codes  # positions in these blocks
    last: Codes

    def gathered(self, values: Array) -> Array:
        """Return the sum of values over the rows at each event time of the blocks."""
        n = self.blocks.size * self.size
        if self.size == 1:
            return np.asarray(np.bincount(self.first, values, n)[:, None], dtype=np.float64)
        sums = np.asarray(np.bincount(self.first, values, n) + np.bincount(self.last, values, n), dtype=np.float64)
        left, right = self._split(sums)
        _run(left)
        _run(right[:, ::-1])
        return sums.reshape(-1, self.size)

    def spread(self, values: Array) -> Array:
        """Return for each row the sum of values of event times, which are overwritten, from its first to its last."""
        if self.size > 1:
            left, right = self._split(values)
            _run(left[:, ::-1])
            _run(right)
        values = values.ravel()
        return values[self.first] if self.size == 1 else values[self.first] + values[self.last]

    def _split(self, values: Array) -> Array:
        return values.reshape(-1, 2, self.size // 2).transpose(1, 0, 2)


def make_halves(first: Codes, last: Codes) -> list[Halves]:
    """Return rows by the size of the smallest block that holds their first and last event time."""
    level = np.frexp((first ^ last).astype(np.float64))[1]
    order = np.argsort(level, kind="stable")
    result = []
    for rows in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        k = int(level[rows[0]])
        blocks, place = np.unique(first[rows] >> k, return_inverse=True)
        moved = (place - blocks[place]) << k
        result.append(Halves(1 << k, blocks, rows, first[rows] + moved, last[rows] + moved))
    return result


def spread(halves: list[Halves], values: Array, n: int) -> Array:
    """Return for each of n rows the sum of values of event times from its first to its last."""
    result, long = np.zeros(n), padded(values, values.size)
    for part in halves:
        result[part.rows] = part.spread(long.reshape(-1, part.size)[part.blocks])
    return result


def sums_between(values: Array, first: Codes, last: Codes) -> Array:
    """Return the sum of values from first to last, both included, of each pair; 0 where last comes before first."""
    some = np.flatnonzero(first <= last)
    result = np.zeros(first.size)
    if some.size:
        result[some] = spread(make_halves(first[some], last[some]), values, some.size)
    return result


def padded(values: Array, size: int) -> Array:
    """Return values followed by zeros, up to the first power of 2 that is not below ``size``."""
    result = np.zeros(1 << (size - 1).bit_length())
    result[: values.size] = values
    return result


def _run(values: Array) -> None:
    """Replace each row by its running sum."""
    np.cumsum(values, axis=1, out=values)
