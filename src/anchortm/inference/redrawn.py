"""Simulate outcomes from a fitted model, observed as the data were: in classes, censored, or after delayed entry.

The null distribution of a test statistic can be computed from such outcomes, because they obey the model. Censoring is
kept: a censored row keeps its limit. A row with an observed outcome gets a later limit, drawn from the Kaplan-Meier
estimate of the limits and the same in all simulations. (Limits drawn anew in each simulation would be later on average
for rows with an event than for rows without, so the expectation of a row would depend on its outcome.) If all outcomes
are intervals, the simulated outcome gets an interval of the data that contains it. This has the right frequency if
intervals are uninformative, that is, if an interval tells only that the outcome lies within it.
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
MOST_PAIRS = 2_000_000  # largest number of pairs of an outcome and an interval
MOST_FAILURES = 10  # largest number of consecutive simulations that cannot be fitted


def why_not(data: Data) -> str | None:
    """Return what prevents a simulation of outcomes for these rows; None if it is possible."""
    if not data.in_memory:
        return "outcomes of tables that are read in batches"
    if data.response.exit is not None:
        return "outcomes that are truncated on the right"
    if data.response.entry is not None and data.response.scale == "count":
        return "counts that are truncated"
    if data.weights is not None and not (data.weights == np.floor(data.weights)).all():
        return "weights that are not whole numbers"
    if data.weights is not None and data.weights.sum() > MOST_ROWS:
        return f"outcomes for a total weight of more than {MOST_ROWS}"
    if data.weights is not None and data.clusters is not None:
        return "weights together with random effects"
    if data.response.scale in ("ordinal", "count") and (_cells(data.response) != data.response.upper).any():
        return "classes or counts that are known up to an interval"
    return None


def whole_rows(data: Data) -> Data:
    """Return the data with each row repeated as often as its weight, because each copy gets its own outcome."""
    if data.weights is None:
        return data
    return data.take(np.repeat(np.arange(len(data.response)), data.weights.astype(np.intp)))._replace(weights=None)


def redraws(problem: Problem, result: FitResult, objective: Objective, rng: np.random.Generator) -> Iterator[Objective]:
    """Yield the objectives of endlessly many simulated data sets, in the coordinates of ``objective``."""
    data = problem.data
    failures, mass, limits = 0, None, censoring_limits(data.response, rng)
    if data.response.scale in ("continuous", "time") and not (data.response.lower == data.response.upper).any():
        mass = np.exp(problem.logliks(objective.link, result.baseline, result.others, data))
    while True:
        response = observed(data.response, problem.draw(result, rng), rng, limits, mass)
        try:
            loss = problem.redrawn(objective, response)
        except IdentificationError:  # for example, no event at all
            failures += 1
            if failures == MOST_FAILURES:
                raise
            continue
        failures = 0
        yield loss.scored


def _cells(response: Response) -> Array:
    """Return the upper end of the interval that each row has if its class or count is known exactly."""
    cell = np.where(np.isneginf(response.lower), 0.0, response.lower + 1.0)
    if response.levels is not None:
        cell[cell == len(response.levels) - 1] = np.inf
    return cell


def observed(
    response: Response, y: Array, rng: np.random.Generator, limits: Array | None, mass: Array | None = None
) -> Response:
    """Return outcomes y (classes as codes) in the way in which those of a response were observed.

    Parameters
    ----------
    response : Response
        The observed outcomes.
    y : array
        The simulated outcomes.
    rng : Generator
        Random numbers.
    limits : array or None
        Censoring limits, from ``censoring_limits``.
    mass : array, optional
        Probability of each row's interval, if all outcomes are intervals.
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
        # rows with a single limit are observed exactly on its other side
        number = (response.kind == Kind.EXACT) | (
            ~((lower == response.lower) & (upper == response.upper)) & (response.kind != Kind.INTERVAL)
        )
        lower, upper = np.where(number, y, lower), np.where(number, y, upper)
    smallest, largest = response.reach()
    # where h is flat an outcome is infinite: it is censored at the end of the observed range
    upper, lower = np.where(lower == np.inf, np.inf, upper), np.where(lower == np.inf, largest, lower)
    lower, upper = np.where(upper == -np.inf, -np.inf, lower), np.where(upper == -np.inf, smallest, upper)
    return replace(response, lower=lower, upper=upper)


def _between(low: Array, high: Array, y: Array) -> tuple[Array, Array]:
    """Return the interval that is known to contain y if it is compared with low and high only."""
    below, above = y <= low, y > high
    lower = np.where(below, -np.inf, np.where(above, high, low))
    return lower, np.where(below, low, np.where(above, np.inf, high))


def _intervals(response: Response, y: Array, mass: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return for each y an interval of the data that contains it, drawn in proportion to 1 / its probability."""
    some = rng.permutation(y.size)[: max(1, MOST_PAIRS // y.size)]
    ends, of = np.unique(np.column_stack([response.lower, response.upper])[some], axis=0, return_inverse=True)
    low, high = ends.T
    weights = np.bincount(of.ravel(), 1.0 / mass[some])
    share = np.where((low < y[:, None]) & (y[:, None] <= high), weights, 0.0).cumsum(axis=1)
    place = (share < (share[:, -1:] * (1.0 - rng.random((y.size, 1))))).sum(axis=1)
    lower, upper = _between(response.lower, response.upper, y)  # for a y that no interval contains
    held = share[:, -1] > 0.0
    lower[held], upper[held] = low[place[held]], high[place[held]]
    return lower if response.entry is None else np.maximum(lower, response.entry), upper


def censoring_limits(response: Response, rng: np.random.Generator) -> Array | None:
    """Return the censoring limit of each row: known for censored rows, drawn after the event for the others.

    Return None if rows are censored other than on the right.
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
