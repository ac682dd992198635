"""Nonparametric estimates of distributions, for default supports, start values and weights of scores.

Exact rows give the empirical distribution, right-censored rows (with or without delayed entry)
the Kaplan-Meier estimate, and left- or interval-censored rows Turnbull's estimate, with its
mass at the midpoints of its intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.exceptions import InputError
from anchortm.inputs.response import Kind, Response

__all__ = [
    "SUPPORT_QUANTILES",
    "StepFunction",
    "censoring_distribution",
    "check_overlap",
    "default_support",
    "empirical_distribution",
    "quantile_among",
    "replicated_quantile",
]

SUPPORT_QUANTILES = (0.1, 0.9)
TURNBULL_TOLERANCE = 1e-6
TURNBULL_MAX_ITER = 2000
TURNBULL_ROWS = 50_000


class StepFunction(NamedTuple):
    """P(Y <= points[j]) = cdf[j], constant between the points."""

    points: Array
    cdf: Array

    def quantile(self, q: float) -> float:
        """Return the smallest point with cdf >= q, or the last point where there is none."""
        # a cdf is a sum of rounded shares: one that equals q but for rounding must count as reaching it
        j = int(np.searchsorted(self.cdf, q * (1.0 - 1e-12)))
        return float(self.points[min(j, self.points.size - 1)])


def empirical_distribution(response: Response, weights: Array | None = None) -> StepFunction:
    """Return the nonparametric estimate of the distribution of a response.

    Its last cdf value is below one if the largest rows are right-censored. Truncation is
    used with exact and right-censored rows only. Turnbull's estimate uses at most about 50 000
    rows, evenly spaced.
    """
    w = np.ones(len(response)) if weights is None else weights
    if response.scale in ("ordinal", "count"):
        # cells (k - 1, k]: the upper ends are the points
        last = np.isposinf(response.upper) & (response.scale == "ordinal")
        ends = np.where(last, response.lower + 1.0, response.upper)
        if np.all(ends == np.where(np.isneginf(response.lower), 0.0, response.lower + 1.0)):
            return _cumulate(ends, w)
        points, cdf = _turnbull(response, w)
        return StepFunction(np.ceil(points), cdf)
    kinds = np.unique(response.kind)
    if np.isin(kinds, (Kind.EXACT, Kind.RIGHT)).all():
        if kinds.size == 1 and kinds[0] == Kind.EXACT and response.entry is None:
            return _cumulate(response.lower, w)
        return _kaplan_meier(response, w)
    every = max(1, len(response) // TURNBULL_ROWS)
    return _turnbull(response[::every], w[::every])


def _cumulate(values: Array, weights: Array) -> StepFunction:
    """Return the empirical distribution."""
    points, where = np.unique(values, return_inverse=True)
    total = np.cumsum(np.bincount(where, weights), dtype=np.float64)
    return StepFunction(points, total / total[-1])


def _kaplan_meier(response: Response, weights: Array) -> StepFunction:
    """Return the Kaplan-Meier estimate, with delayed entry if there is any."""
    exact = response.kind == Kind.EXACT
    times = np.where(exact, response.upper, response.lower)
    if not exact.any():
        return StepFunction(np.unique(times), np.zeros(np.unique(times).size))
    points, still = _steps(times[exact], weights[exact])
    events = still - np.append(still[1:], 0.0)
    # at risk at t: entry < t <= time
    at_risk = still + _weight_from(times[~exact], weights[~exact], points)
    if response.entry is not None:
        at_risk = np.maximum(at_risk - _weight_from(response.entry, weights, points), events)  # but for rounding
    return StepFunction(points, np.asarray(1.0 - np.cumprod(1.0 - events / at_risk), dtype=np.float64))


def censoring_distribution(times: Array, event: NDArray[np.bool_], entry: Array | None = None) -> StepFunction:
    """Return the Kaplan-Meier estimate of the distribution of the censoring times.

    A row with an event at t was not censored at t or before: it leaves the risk set of censoring before the rows that
    are censored at t do, just as rows censored at t are still at risk of an event at t.
    """
    ones = np.ones(times.size)
    points, still = _steps(times[~event], ones[~event])
    censored = still - np.append(still[1:], 0.0)
    # at risk of censoring at t: censored at t or later, or an event later than t
    at_risk = still + _weight_from(times[event], ones[event], np.nextafter(points, np.inf))
    if entry is not None:
        at_risk = np.maximum(at_risk - _weight_from(entry, ones, points), censored)  # but for rounding
    return StepFunction(points, np.asarray(1.0 - np.cumprod(1.0 - censored / at_risk), dtype=np.float64))


def _tails(values: Array, weights: Array) -> tuple[Array, Array]:
    """Return the values in order, and the weight from each of them on."""
    if (weights == 1.0).all():  # sorting values is much faster than ordering them
        return np.sort(values), np.arange(values.size, 0.0, -1.0)
    order = np.argsort(values, kind="stable")
    return values[order], np.cumsum(weights[order][::-1])[::-1]


def _steps(values: Array, weights: Array) -> tuple[Array, Array]:
    """Return the different values in order, and the weight of the values at or above each."""
    values, tails = _tails(values, weights)
    new = np.append(True, values[1:] != values[:-1])
    return (values, tails) if new.all() else (values[new], tails[new])


def _weight_from(values: Array, weights: Array, points: Array) -> Array:
    """Return the weight of the values at or above each of the increasing points."""
    values, tails = _tails(values, weights)
    tails = np.append(tails, 0.0)
    if points.size <= values.size:
        return np.asarray(tails[np.searchsorted(values, points, side="left")])
    # search for the fewer: a value is below the points behind its place
    below = np.bincount(np.searchsorted(points, values, side="right"), minlength=points.size + 1)
    return np.asarray(tails[np.cumsum(below[:-1])])


def _turnbull(response: Response, weights: Array) -> StepFunction:
    """Return Turnbull's estimate for interval-censored rows."""
    # There can be mass only where a left end is followed directly by a right end. At one value an
    # exact row begins before any interval (., y] ends, and (y, .) begins after it: keys 0, 1, 2.
    exact = response.kind == Kind.EXACT
    left = _keys(response.lower, np.where(exact, 0, 2))
    right = _keys(response.upper, np.ones(len(response)))
    keys = np.concatenate([left, right])
    is_left = np.r_[np.ones(left.size, bool), np.zeros(right.size, bool)]
    order = np.argsort(keys, kind="stable")
    keys, is_left = keys[order], is_left[order]
    begins = np.flatnonzero(is_left[:-1] & ~is_left[1:])
    cell_left, cell_right = keys[begins], keys[begins + 1]
    first = np.searchsorted(cell_left, left)
    last = np.searchsorted(cell_right, right, side="right")  # row i covers cells first[i] .. last[i] - 1
    mass = _self_consistent(first, last, weights / weights.sum(), cell_left.size)
    return StepFunction(_cell_points(cell_left, cell_right), np.cumsum(mass))


def _keys(values: Array, place: Array) -> NDArray[np.complex128]:
    """Return numbers that sort by value, then by place (complex numbers do)."""
    return values + 1j * place


def _cell_points(left: NDArray[np.complex128], right: NDArray[np.complex128]) -> Array:
    low, high = left.real, right.real
    middle = 0.5 * (np.where(np.isfinite(low), low, high) + np.where(np.isfinite(high), high, low))
    return np.where(np.isfinite(middle), middle, 0.0)


def _self_consistent(first: NDArray[np.intp], last: NDArray[np.intp], weights: Array, n_cells: int) -> Array:
    """Return Turnbull's self-consistent masses; each step is O(rows + cells), by running sums."""
    mass = np.full(n_cells, 1.0 / n_cells)
    for _ in range(TURNBULL_MAX_ITER):
        running = np.r_[0.0, np.cumsum(mass)]
        share = weights / (running[last] - running[first])
        spread = np.cumsum(np.bincount(first, share, n_cells + 1) - np.bincount(last, share, n_cells + 1))[:-1]
        new = mass * np.maximum(spread, 0.0)
        new /= new.sum()
        if np.abs(new - mass).max() <= TURNBULL_TOLERANCE / n_cells:
            return np.asarray(new)
        mass = new
    return mass


def default_support(response: Response, weights: Array | None = None) -> tuple[float, float]:
    """Return the 10 % and 90 % quantiles of the response, or its range where they coincide."""
    if response.scale != "count" and response.entry is None and (response.kind == Kind.EXACT).all():
        low, high = (replicated_quantile(response.lower, weights, q) for q in SUPPORT_QUANTILES)
    else:
        steps = empirical_distribution(response, weights)
        low, high = (steps.quantile(q) for q in SUPPORT_QUANTILES)
    if low < high:
        return low, high
    low, high = _range(response)
    if not low < high:
        raise InputError(f"y is constant: all rows are at {low:g}; a distribution needs at least two values")
    return low, high


def _range(response: Response) -> tuple[float, float]:
    """Return the smallest and largest finite end."""
    ends = np.concatenate([response.lower, response.upper])
    ends = ends[np.isfinite(ends)]
    return float(ends.min()), float(ends.max())


def check_overlap(support: object, response: Response) -> None:
    """Refuse a support that does not overlap the data; the basis refuses what is not a pair of numbers."""
    try:
        low, high = (float(end) for end in support)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        return
    first, last = _range(response)
    if low < high and (first > high or last < low):
        raise InputError(f"support ({low:g}, {high:g}) does not overlap y, which lies between {first:g} and {last:g}")


def replicated_quantile(values: Array, weights: Array | None, q: float) -> float:
    """Return NumPy's default quantile of the sample that has row i weights[i] times."""
    if weights is None:
        return float(np.quantile(values, q))
    if (weights != np.floor(weights)).any():  # these are not numbers of copies: only their proportions count
        weights = weights * (values.size / weights.sum())
    found = quantile_among(values, weights, q, 0.0, float(weights.sum()))
    return float(values.max()) if found is None else found


def quantile_among(values: Array, weights: Array, q: float, below: float, total: float) -> float | None:
    """Return the quantile of a sample of weight ``total`` if it is among the values given, else None.

    ``below`` is the weight of all values below those given.
    """
    order = np.argsort(values, kind="stable")
    ends = below + np.cumsum(weights[order])
    position = q * (total - 1.0)
    first = np.floor(position)
    if first < below:
        return None
    places = np.searchsorted(ends, (first, first + 1.0), side="right")
    if places[0] == values.size or (places[1] == values.size and ends[-1] < total * (1.0 - 1e-12)):
        return None
    low, high = values[order][np.minimum(places, values.size - 1)]
    return float(low + (position - first) * (high - low))
