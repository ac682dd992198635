"""Outcomes drawn anew from a fitted model and observed as the data were: in classes, censored, after an entry.

A test of a fitted model can be judged by what it says of such outcomes, which obey the model. Censoring is kept: a row
that was censored keeps its limit, and a row whose outcome was seen gets a limit beyond it from the Kaplan-Meier
estimate of the limits, the same in all draws. (New limits for each draw would not do: rows with an event would have
later ones on average than rows without, and what is expected of a row would depend on what happened to it.) Where no
outcome is a number, an interval around the drawn one is taken from those of the data: with the right frequency if
intervals say no more about outcomes than that they lie within.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.data import Data
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.exceptions import IdentificationError
from anchortm.inputs.empirical import censoring_distribution
from anchortm.inputs.response import Kind, Response

__all__ = ["censoring_limits", "observed", "redraws", "whole_rows", "why_not"]

Array = NDArray[np.float64]

MOST_ROWS = 10_000_000
MOST_PAIRS = 2_000_000  # of outcomes and intervals that may hold them
MOST_FAILURES = 10  # draws in a row that cannot be fitted


def why_not(data: Data) -> str | None:
    """Return why no outcomes can be drawn for these rows; None where they can."""
    if data.response.exit is not None:
        return "outcomes that are truncated on the right"
    if data.response.entry is not None and data.response.scale == "count":
        return "counts that are truncated"
    if data.weights is not None and not (data.weights == np.floor(data.weights)).all():
        return "weights that are not whole numbers"
    if data.weights is not None and data.weights.sum() > MOST_ROWS:
        return f"outcomes for a total weight of more than {MOST_ROWS}"
    if data.weights is not None and data.clusters is not None:
        return "weights beside random effects"
    if data.response.scale in ("ordinal", "count") and (_cells(data.response) != data.response.upper).any():
        return "classes or counts that are known up to an interval"
    return None


def whole_rows(data: Data) -> Data:
    """Return the inputs with each row as often as its weight says, because each copy has an outcome of its own."""
    if data.weights is None:
        return data
    return data.take(np.repeat(np.arange(len(data.response)), data.weights.astype(np.intp)))._replace(weights=None)


def redraws(problem: Problem, result: FitResult, objective: Objective, rng: np.random.Generator) -> Iterator[Objective]:
    """Yield the losses of outcomes drawn from a result, in the coordinates of ``objective``, without end."""
    data = problem.data
    failures, mass, limits = 0, None, censoring_limits(data.response, rng)
    if data.response.scale in ("continuous", "time") and not (data.response.lower == data.response.upper).any():
        mass = np.exp(problem.logliks(objective.link, result.baseline, result.others, data))
    while True:
        response = observed(data.response, problem.draw(result, rng), rng, limits, mass)
        try:
            loss = problem.redrawn(objective, response)
        except IdentificationError:  # such as no event at all
            failures += 1
            if failures == MOST_FAILURES:
                raise
            continue
        failures = 0
        yield loss.scored


def _cells(response: Response) -> Array:
    """Return the class or count of each row, as the upper end that one has."""
    cell = np.where(np.isneginf(response.lower), 0.0, response.lower + 1.0)
    if response.levels is not None:
        cell[cell == len(response.levels) - 1] = np.inf
    return cell


def observed(
    response: Response, y: Array, rng: np.random.Generator, limits: Array | None, mass: Array | None = None
) -> Response:
    """Return outcomes y (classes as codes) as they would have been observed in place of those of a response.

    ``limits`` are those of ``censoring_limits``, ``mass`` is the probability of each row's interval, where no outcome
    is a number.
    """
    if response.scale in ("ordinal", "count"):
        last = np.inf if response.levels is None else len(response.levels) - 1.0
        return replace(response, lower=np.where(y <= 0.0, -np.inf, y - 1.0), upper=np.where(y == last, np.inf, y))
    if limits is not None:
        lower, upper = np.minimum(y, limits), np.where(y > limits, np.inf, y)
    elif mass is not None:
        lower, upper = _intervals(response, y, mass, rng)
    else:
        lower, upper = _between(response.lower, response.upper, y)
        # beyond a single limit numbers are seen
        number = (response.kind == Kind.EXACT) | (
            ~((lower == response.lower) & (upper == response.upper)) & (response.kind != Kind.INTERVAL)
        )
        lower, upper = np.where(number, y, lower), np.where(number, y, upper)
    smallest, largest = response.reach()
    # beyond a flat end of h an outcome has no place: it lies outside of what was seen
    upper, lower = np.where(lower == np.inf, np.inf, upper), np.where(lower == np.inf, largest, lower)
    lower, upper = np.where(upper == -np.inf, -np.inf, lower), np.where(upper == -np.inf, smallest, upper)
    return replace(response, lower=lower, upper=upper)


def _between(low: Array, high: Array, y: Array) -> tuple[Array, Array]:
    """Return what is known of y if it is looked at when it is low and high."""
    below, above = y <= low, y > high
    lower = np.where(below, -np.inf, np.where(above, high, low))
    return lower, np.where(below, low, np.where(above, np.inf, high))


def _intervals(response: Response, y: Array, mass: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return for each y an interval of the data that holds it, drawn in proportion to 1 / its probability."""
    some = rng.permutation(y.size)[: max(1, MOST_PAIRS // y.size)]
    ends, of = np.unique(np.column_stack([response.lower, response.upper])[some], axis=0, return_inverse=True)
    low, high = ends.T
    weights = np.bincount(of.ravel(), 1.0 / mass[some])
    share = np.where((low < y[:, None]) & (y[:, None] <= high), weights, 0.0).cumsum(axis=1)
    place = (share < (share[:, -1:] * (1.0 - rng.random((y.size, 1))))).sum(axis=1)
    lower, upper = _between(response.lower, response.upper, y)  # of a y that no interval holds
    held = share[:, -1] > 0.0
    lower[held], upper[held] = low[place[held]], high[place[held]]
    return lower if response.entry is None else np.maximum(lower, response.entry), upper


def censoring_limits(response: Response, rng: np.random.Generator) -> Array | None:
    """Return where each row is censored, if it lives so long: known for some, drawn beyond the event for others.

    None where rows are censored in other ways than on the right.
    """
    exact, time = response.kind == Kind.EXACT, response.lower
    if response.scale in ("ordinal", "count") or not (exact | (response.kind == Kind.RIGHT)).all():
        return None
    limits = np.where(exact, np.inf, time)
    points, cdf = censoring_distribution(time, exact, response.entry)
    before = np.append(0.0, cdf)[np.searchsorted(points, time[exact])]  # P(limit < time)
    u = before + (1.0 - before) * rng.random(before.size)
    limits[exact] = np.append(points, np.inf)[np.searchsorted(cdf, u, side="right")]
    return limits
