"""Conformal scores of outcomes under predicted distributions, thresholds of scores, and the sets that they give."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.checks import level_between
from anchortm.exceptions import InputError
from anchortm.inputs.response import Kind, Response
from anchortm.scores.outcomes import known_rows, known_values

__all__ = ["GUARANTEES", "Promise", "between_quantiles", "ends_of", "known_to_reach", "scores_of", "smallest_above"]

Codes = NDArray[np.intp]

GUARANTEES = ("average", "places")
LOG_2 = math.log(2.0)
ROUNDING = 1e-10  # in sums of shares, and in tail probabilities: sets then hold the outcomes that set the threshold
TAIL = 1.0 - 1e-12


def known_to_reach(response: Response) -> NDArray[Any]:
    """Return the outcome of each row, classes by their names; of a censored row, the least that it can be."""
    if response.levels is not None:
        labels = np.empty(len(response.levels), dtype=object)
        labels[:] = response.levels
        return np.asarray(labels[response.codes])
    known, values = known_rows(response), known_values(response)
    if response.scale == "count":  # k is (k - 1, k]
        return np.where(known, values, np.maximum(response.lower, -1.0) + 1.0)
    return np.where(response.kind == Kind.EXACT, values, response.lower)


def scores_of(distribution: Any, y: NDArray[Any]) -> tuple[Array, Array]:
    """Return how far outcomes lie in the tails of their predicted distributions: in either tail, and in the lower one.

    The first is -log(2 min(P(Y <= y), P(Y >= y))), at least 0, the second -log P(Y <= y). Sets of outcomes with scores
    up to a number are contiguous. For classes and counts, the first grows with the distance of 1/2 to the cell between
    P(Y < y) and P(Y <= y).
    """
    levels = getattr(getattr(distribution, "basis", None), "levels", None)
    if levels is not None:  # a class that the fit has not seen has the probability 0
        unseen = np.array([label not in set(levels) for label in y.tolist()], dtype=bool)
        if unseen.any():
            both, lower = (np.full(y.size, np.inf) for _ in range(2))
            both[~unseen], lower[~unseen] = scores_of(distribution[~unseen], y[~unseen])
            return both, lower
    if not y.size:
        return np.zeros(0), np.zeros(0)
    at = y[:, None]
    with np.errstate(divide="ignore"):
        below, above = distribution.logcdf(at)[:, 0], distribution.logsf(at)[:, 0]
        if distribution.discrete:
            above = np.logaddexp(above, distribution.logpdf(at)[:, 0])
    return np.maximum(-LOG_2 - np.minimum(below, above), 0.0), np.maximum(-below, 0.0)


def ends_of(
    distribution: Any, threshold: Any, levels: Sequence[Hashable] | None, both: bool
) -> tuple[Array, Array | None]:
    """Return the ends of the sets of outcomes with scores up to a threshold, classes as positions among ``levels``.

    ``threshold`` may be a vector: the ends then have a row for each distribution and a column for each threshold.
    Without ``both``, only lower ends are computed.
    """
    tails = np.exp(-np.asarray(threshold, dtype=np.float64)) * (0.5 if both else 1.0) * TAIL
    with np.errstate(invalid="ignore"):  # averages over random effects have infinite ends, found by way of inf - inf
        lower = _numbers(distribution.ppf(tails), levels)
        upper = _numbers(distribution.isf(tails), levels) if both else None
    if levels is not None:  # the fit may not know the first or the last class
        lower = np.where(tails > 0.0, lower, 0.0)
        upper = None if upper is None else np.where(tails > 0.0, upper, len(levels) - 1.0)
    return lower, upper


def _numbers(values: NDArray[Any], levels: Sequence[Hashable] | None) -> Array:
    """Return outcomes as numbers, classes as their positions."""
    if levels is None:
        return np.asarray(values, dtype=np.float64)
    place = {level: float(code) for code, level in enumerate(levels)}
    return np.array([place[value] for value in values.ravel().tolist()]).reshape(values.shape)


@dataclass(frozen=True)
class Promise:
    """What sets promise at a new place.

    Attributes
    ----------
    guarantee : {"average", "places"}
        Whether rows are covered on average over new places, or most rows in most new places.
    level : float
        Share of rows that are covered.
    share : float
        Share of new places for "places".
    """

    guarantee: str
    level: float
    share: float

    @classmethod
    def checked(cls, guarantee: object, level: object, share: object) -> Promise:
        """Return the promise; refuse values that it cannot have."""
        if not isinstance(guarantee, str) or guarantee not in GUARANTEES:
            raise InputError(f"guarantee must be 'average' or 'places', not {guarantee!r}")
        return cls(guarantee, level_between(level), level_between(share, "share"))

    @property
    def needed(self) -> int:
        """Return the smallest number of calibration places with a finite threshold."""
        wanted = self.level if self.guarantee == "average" else self.share
        return math.ceil(wanted / (1.0 - wanted) - ROUNDING)

    def threshold(self, scores: Array, codes: Codes, weights: Array) -> float:
        """Return the largest score of outcomes that belong to the sets; infinite if there are too few places.

        "average": the smallest t for which the shares of rows with scores up to t, added over K places, reach
        ``level`` (K + 1). "places": the score that a share ``level`` of its rows reaches is taken of each place, and
        of these K + 1, counting an infinite one, the quantile at ``share``.
        """
        shares = weights / np.bincount(codes, weights)[codes]
        n_places = int(codes.max()) + 1
        if self.guarantee == "average":
            return smallest_above(scores, shares, self.level * (n_places + 1))
        own = [smallest_above(scores[codes == e], shares[codes == e], self.level) for e in range(n_places)]
        rank = math.ceil(self.share * (n_places + 1) - ROUNDING)
        return float(np.sort(own)[rank - 1]) if rank <= n_places else math.inf


def smallest_above(scores: Array, shares: Array, wanted: float) -> float:
    """Return the smallest score up to which the shares add up to what is wanted; infinite if they do not."""
    order = np.argsort(scores, kind="stable")
    reached = np.flatnonzero(np.cumsum(shares[order]) >= wanted - ROUNDING)
    return float(scores[order[reached[0]]]) if reached.size else math.inf


def between_quantiles(lower: Array, upper: Array, shares: Array, beyond: float) -> tuple[Array, Array]:
    """Return the ends of the jackknife+ interval of each row, from the ends of its left-out sets.

    An end is the first one, from outside, at which the shares of the sets that begin there or before exceed
    ``beyond``.
    """

    def first(ends: Array) -> Array:
        order = np.argsort(ends, axis=1, kind="stable")
        at = np.argmax(np.cumsum(shares[order], axis=1) > beyond + ROUNDING, axis=1)
        return np.asarray(np.take_along_axis(ends, np.take_along_axis(order, at[:, None], 1), 1)[:, 0])

    ends = first(lower), -first(-upper)
    return np.minimum(*ends), np.maximum(*ends)  # at levels below 1/2 they may have crossed
