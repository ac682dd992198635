"""Rounded histograms of sites: numbers of rows at or below edges, and what can be read from their totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchortm.inputs.response import Interval, Response, Surv, as_response

__all__ = [
    "BINS",
    "ENDS",
    "FIRST",
    "TAILS",
    "Bins",
    "finest_step",
    "on_the_grid",
    "surely_between",
    "typical_outcome",
    "zoomed",
]

Array = NDArray[np.float64]

# the first edges: powers of four, on both sides of zero
FIRST = np.array([-(4.0**k) for k in range(20, -21, -1)] + [0.0] + [4.0**k for k in range(-20, 21)])
BINS = 64  # of each zoom
FINEST = 1.0 / 256.0  # finest step of a histogram, relative to the middle half of the values
COARSE = 4.0  # steps of the grid for ends that a site says yes or no to, in finest steps
ENDS, TAILS = (0.02, 0.98), (0.05, 0.95)  # what the first zoom keeps, and the ends that are reported as ranges


@dataclass(frozen=True, eq=False)
class Bins:
    """Rounded numbers of rows at or below edges."""

    edges: Array
    below: Array

    def ends(self, shares: tuple[float, float]) -> tuple[float, float]:
        """Return the edges around these shares of the rows below the last edge."""
        total = max(float(self.below[-1]), 1.0)
        first = int(np.searchsorted(self.below, shares[0] * total, side="right")) - 1
        last = int(np.searchsorted(self.below, shares[1] * total))
        first, last = max(first, 0), min(last, self.edges.size - 1)
        if first >= last:
            first, last = max(last - 1, 0), max(last, 1)
        return float(self.edges[first]), float(self.edges[last])


def zoomed(bins: Bins, shares: tuple[float, float] = ENDS) -> Array:
    """Return finer edges between the ends of a histogram: multiples of a power of two, as sites ask for."""
    low, high = bins.ends(shares)
    step = 2.0 ** math.ceil(math.log2((high - low) / (BINS - 2)))
    return np.asarray((math.floor(low / step) + np.arange(BINS)) * step, dtype=np.float64)


def finest_step(values: Array) -> float:
    """Return the finest step of edges between which rows are counted; 0 if all values are the same."""
    middle = float(np.subtract(*np.quantile(values, [0.75, 0.25])))
    if middle == 0.0:  # more than half of the rows have one value, and the others must not be searched for
        middle = float(np.std(values))
    return FINEST * middle


def surely_between(values: Array, low: float, high: float) -> int:
    """Return how many rows lie between two ends that are moved inside, to a grid.

    Without the grid, somebody who moves an end until the number changes would find the value of a row.
    """
    step = COARSE * finest_step(values)
    if step > 0.0:
        step = 2.0 ** math.ceil(math.log2(step))
        low, high = float(np.ceil(low / step)) * step, float(np.floor(high / step)) * step
    return int(((values >= low) & (values <= high)).sum())


def on_the_grid(edges: Array) -> bool:
    """Return whether edges are the first ones, or neighbouring multiples of a power of two."""
    if edges.size == FIRST.size and (edges == FIRST).all():
        return True
    if edges.size != BINS:
        return False
    step = float(edges[1] - edges[0])
    if not (step > 0.0 and math.frexp(step)[0] == 0.5):
        return False
    places = edges / step
    return bool((places == np.round(places)).all() and (np.diff(places) == 1.0).all())


def typical_outcome(
    scale: str, time: bool, edges: Array, counts: Array, n_rows: int, censored: bool
) -> tuple[Response, Array]:
    """Return a made-up outcome with the distribution of a histogram, and its weights.

    ``counts`` are those of observed and of all outcomes; ``censored`` says whether some rows are right-censored.
    """
    observed, every = (np.maximum(np.diff(part, prepend=0.0, append=part[-1]), 0.0) for part in counts.reshape(2, -1))
    at = np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])
    every[-1] = max(0.0, n_rows - every.sum())
    observed[-1] = 0.0 if censored else every[-1]
    late = np.maximum(every - observed, 0.0) * censored
    if scale == "count":
        use = observed > 0.0
        return as_response(np.maximum(np.ceil(at), 0.0)[use].astype(np.int64), "count"), observed[use]
    return _numbers(time, (at[observed > 0.0], observed[observed > 0.0]), (at[late > 0.0], late[late > 0.0]))


def _numbers(time: bool, seen: Sequence[Array], late: Sequence[Array]) -> tuple[Response, Array]:
    """Return outcomes that are numbers or times, with their weights: those seen, and those seen to be later."""
    values, weights = (np.concatenate(parts) for parts in zip(seen, late, strict=True))
    event = np.arange(values.size) < seen[0].size
    if time:
        return Surv(np.maximum(values, 1e-300), event), weights
    if not event.all():
        return Interval(values, np.where(event, values, math.inf)), weights
    return as_response(values, "continuous"), weights
