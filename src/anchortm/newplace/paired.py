"""Paired comparisons of strategies over environments: standard errors and sign flips."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anchortm._typing import Array
from anchortm._util.checks import generator

__all__ = ["FEWEST", "Paired", "paired", "studentised"]

N_FLIPS = 4999
ENUMERATED = 12  # at most this many environments are flipped in all ways
FEWEST = 6  # with fewer environments no p-value can be small


class Paired(NamedTuple):
    """Mean differences over environments, one for each strategy.

    Attributes
    ----------
    difference : array
        Mean over environments of the loss of a strategy minus that of the reference.
    error : array
        Standard error of the mean difference over environments.
    pvalue : array
        Probability of a difference as large in any of the strategies, if the differences of each environment were
        equally likely to have the opposite sign (the same flips for all strategies). NaN below 6 environments.
    n : int
        Number of environments.
    critical : float
        Absolute t from which on a difference has a p-value below 5 %; infinite below 6 environments.
    """

    difference: Array
    error: Array
    pvalue: Array
    n: int
    critical: float = math.inf


def paired(differences: Array, seed: Any = 0) -> Paired:
    """Return the comparison of strategies (rows) over environments (columns); columns with NaN are left out.

    Strategies that failed in more than half of the environments are left out first, and have NaN.
    """
    differences = np.atleast_2d(differences)
    usable = np.isfinite(differences).mean(axis=1) > 0.5
    if not usable.all():
        whole, some = np.full((3, usable.size), math.nan), paired(differences[usable], seed) if usable.any() else None
        if some is not None:
            whole[:, usable] = some[:3]
        difference, error, pvalue = whole
        return Paired(difference, error, pvalue, *((0,) if some is None else some[3:]))
    known = np.isfinite(differences).all(axis=0)
    d = differences[:, known]
    n = d.shape[1]
    nothing = np.full(d.shape[0], math.nan)
    if n < 2:
        return Paired(d.mean(axis=1) if n else nothing, nothing, nothing, n)
    mean, error = d.mean(axis=1), d.std(axis=1, ddof=1) / math.sqrt(n)
    if n < FEWEST:
        return Paired(mean, error, nothing, n)
    found = np.abs(studentised(d[None]))[0]
    largest = np.abs(studentised(d[None] * _flips(n, seed)[:, None, :])).max(axis=1)
    count = (largest[:, None] >= found * (1.0 - 1e-9)).sum(axis=0)
    enumerated = n <= ENUMERATED
    pvalue = count / largest.size if enumerated else (1.0 + count) / (1.0 + largest.size)
    return Paired(mean, error, np.where(error > 0.0, pvalue, 1.0), n, float(np.quantile(largest, 0.95)))


def studentised(d: Array) -> Array:
    """Return the studentised means over the last axis; 0 where all differences are 0."""
    mean, error = d.mean(axis=-1), d.std(axis=-1, ddof=1) / math.sqrt(d.shape[-1])
    return np.asarray(np.divide(mean, error, out=np.zeros_like(mean), where=error > 0.0), dtype=np.float64)


def _flips(n: int, seed: Any) -> Array:
    """Return sign vectors: all of them for few environments, random ones for many."""
    if n <= ENUMERATED:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
    return np.asarray(generator(seed).choice(np.array([-1.0, 1.0]), (N_FLIPS, n)))
