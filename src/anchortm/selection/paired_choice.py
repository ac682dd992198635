"""Choose xi or a spread by the losses of left-out environments.

A loss is the negative log-likelihood less that of the model without covariates: minus the skill. It does not depend on
the unit of the outcome, nor on how many of its rows are censored, so that environments can be compared.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.checks import generator
from anchortm.exceptions import InputError

__all__ = [
    "MIN_EVENTS",
    "MIN_ROWS",
    "Choice",
    "check_objective",
    "choose",
    "drawn",
    "large_enough",
    "objective_of",
    "paired_error",
]

N_BOOTSTRAP = 200
MIN_ROWS, MIN_EVENTS = 10, 5  # environments with fewer do not count in quantiles, nor as the worst


class Choice(NamedTuple):
    """Which of several candidates is taken, and why.

    Attributes
    ----------
    taken : int
        The candidate that is taken.
    best : int
        The candidate with the smallest objective.
    values : array
        The objective of each candidate.
    errors : array
        The standard error of the difference between the objective of each candidate and that of the first one (or of
        the best one, if the smallest candidate near the best is taken).
    """

    taken: int
    best: int
    values: Array
    errors: Array


def check_objective(objective: Any) -> float | None:
    """Return the quantile to minimise, 1 for the worst environment, or None for the mean."""
    if objective == "mean":
        return None
    if objective == "worst":
        return 1.0
    if isinstance(objective, (int, float)) and not isinstance(objective, bool) and 0.0 < objective < 1.0:
        return float(objective)
    raise InputError(f"objective must be 'worst', 'mean' or a number between 0 and 1, not {objective!r}")


def objective_of(losses: Array, ranked: NDArray[np.bool_], level: float | None) -> Array:
    """Return the mean of losses over their last axis, or a quantile over the environments that are ranked."""
    if level is None:
        return np.asarray(np.nanmean(losses, axis=-1))
    some = losses[..., ranked] if ranked.any() else losses
    return np.asarray(np.nanquantile(some, level, axis=-1))


def large_enough(n: Array, events: Array, min_rows: int = MIN_ROWS) -> NDArray[np.bool_]:
    """Return which environments have enough rows, and enough events if the outcome is a time (else they are NaN)."""
    return (n >= min_rows) & (np.isnan(events) | (events >= MIN_EVENTS))


def drawn(
    losses: Array, ranked: NDArray[np.bool_], level: float | None, n_draws: int = N_BOOTSTRAP, seed: Any = 0
) -> Array:
    """Return the objective of each candidate (rows) in samples of environments, drawn with replacement for all alike.

    Environments without a loss for some candidate are left out. Means are over all environments, quantiles over those
    that are ranked.
    """
    known = np.isfinite(losses).all(axis=0)
    losses, ranked = losses[:, known], ranked[known]
    some = losses if level is None or not ranked.any() else losses[:, ranked]
    if some.shape[1] < 2:
        return np.full((losses.shape[0], n_draws), math.nan)
    some = some[:, generator(seed).integers(0, some.shape[1], (n_draws, some.shape[1]))]
    return np.asarray(some.mean(axis=-1) if level is None else np.quantile(some, level, axis=-1))


def paired_error(losses: Array, than: int, ranked: NDArray[np.bool_], level: float | None, seed: Any = 0) -> Array:
    """Return the standard error of the difference of each objective from that of candidate ``than``.

    Candidates are compared at the same environments: by the usual formula for a mean, and by drawing environments with
    replacement for a quantile. ``losses`` has a row for each candidate.
    """
    if level is None:
        known = np.isfinite(losses).all(axis=0)
        d = losses[:, known] - losses[than, known]
        if d.shape[1] < 2:
            return np.full(losses.shape[0], math.inf)
        return np.asarray(d.std(axis=1, ddof=1) / math.sqrt(d.shape[1]))
    values = drawn(losses, ranked, level, seed=seed)
    return np.asarray(np.nan_to_num((values - values[than]).std(axis=1, ddof=1), nan=math.inf))


def choose(
    losses: Array, ranked: NDArray[np.bool_], level: float | None, *, first: int = 0, near: bool = False, seed: Any = 0
) -> Choice:
    """Return which candidate to take, given the losses of each candidate (rows) at each environment.

    Parameters
    ----------
    losses : array of shape (number of candidates, number of environments)
        Candidates in the order of their strength.
    ranked : array of bool
        Environments that are large enough for quantiles.
    level : float or None
        The quantile to minimise; None for the mean.
    first : int
        The candidate that is kept unless another one is better by more than one standard error of the difference.
    near : bool
        Take the weakest candidate within one standard error of the best one.
    seed : int or generator
        For the bootstrap over environments.
    """
    values = objective_of(losses, ranked, level)
    if not np.isfinite(values).any():
        return Choice(first, first, values, np.full(values.size, np.nan))
    best = int(np.nanargmin(values))
    if near:
        errors = paired_error(losses, best, ranked, level, seed)
        within = np.flatnonzero((values - values[best] <= errors) | (np.arange(values.size) == best))
        return Choice(int(within[0]), best, values, errors)
    errors = paired_error(losses, first, ranked, level, seed)
    clear = values[first] - values[best] > errors[best] or not math.isfinite(values[first])
    return Choice(best if clear else first, best, values, errors)
