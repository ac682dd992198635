"""The influence of rows if environments have weights of their own in the likelihood or in the penalty.

The shares of environments are fixed: sum_e pi_e NLL_e depends on the rows of an environment through their mean alone.
A row of weight w_i in environment e, u_e = n pi_e / n_e, therefore has the influence

    u_e (psi_i - mean of psi in e),

psi_i its influence if the weights w_i u_e were numbers of rows. The likelihood and the penalty are centred each by its
own shares; without shares of its own, a sum over rows is centred at the mean of all rows. If clusters are resampled
that contain whole environments, these are drawn together with their shares, and u_e times the mean of all rows takes
the place of the mean in e.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputError

__all__ = ["check_shares", "reweighed_shares", "whole_places"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


def check_shares(problem: Problem, result: FitResult) -> None:
    """Raise an error if the influence of rows is not known for these weights of environments."""
    data, remedy = problem.data, "use kind='bootstrap'"
    if not data.in_memory:
        raise InputError(
            "the sandwich with weights of environments needs the rows in memory, but these were read in batches: "
            f"{remedy}"
        )
    if result.reweighed and isinstance(problem.spec.penalty_factor, str):
        raise InputError(
            f"the sandwich does not support environment_weights together with penalty_factor='deviation': {remedy}"
        )
    if problem.spec.likelihood == "partial" and result.xi != 0.0 and not _alike(data):
        raise InputError(
            "residuals of CoxPH depend on the weights of all rows at risk, so that its sandwich needs the same "
            f"environment_weights and anchor_weights: set both alike, or {remedy}"
        )


def _alike(data: Any) -> bool:
    """Return whether likelihood and penalty have the same shares of the same environments."""
    places, levels = (data.weighing.places(name) for name in ("environment_weights", "anchor_weights"))
    if places is None or levels is None or places.labels != levels.labels:
        return False
    own, other = (data.weighing.shares(name) for name in ("environment_weights", "anchor_weights"))
    same = np.allclose(list(own.values()), list(other.values()), rtol=1e-12, atol=0.0)
    return bool(same and np.array_equal(places.codes, levels.codes))


def whole_places(codes: Codes, n_places: int, groups: Codes | None) -> NDArray[np.bool_]:
    """Return which environments lie in one group of rows each; none if rows are drawn one by one."""
    if groups is None:
        return np.zeros(n_places, dtype=bool)
    first, last = np.full(n_places, groups.max(initial=0) + 1), np.full(n_places, -1)
    np.minimum.at(first, codes, groups)
    np.maximum.at(last, codes, groups)
    return np.asarray(first == last)


def reweighed_shares(data: Any, of_likelihood: Array, of_penalty: Array, groups: Codes | None) -> Array:
    """Return the influence of rows from their shares in likelihood and penalty, as if weights were numbers of rows."""
    factors = data.weighing.factors
    size = np.ones(len(data.response)) if factors is None else factors
    parts = {"environment_weights": of_likelihood, "anchor_weights": of_penalty}
    return np.asarray(sum(_centred(data, name, size[:, None] * own, groups) for name, own in parts.items()))


def _centred(data: Any, name: str, own: Array, groups: Codes | None) -> Array:
    """Return shares less their mean in the environment, or in all rows."""
    weights = np.ones(own.shape[0]) if data.weights is None else data.weights
    mean = weights @ own / weights.sum()
    places = data.weighing.places(name)
    if places is None:
        return np.asarray(own - mean)
    n = len(places.labels)
    totals = np.bincount(places.codes, weights, n)
    sums = np.zeros((n, own.shape[1]))
    np.add.at(sums, places.codes, weights[:, None] * own)
    there = np.where(totals > 0.0, totals, 1.0)
    shares = data.weighing.shares(name)
    u = np.array([weights.sum() * shares.get(label, 0.0) for label in places.labels]) / there
    whole = whole_places(places.codes, n, groups)
    centre = np.where(whole[:, None], u[:, None] * mean, sums / there[:, None])
    return np.asarray(own - centre[places.codes])
