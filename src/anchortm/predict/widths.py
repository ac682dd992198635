"""How wide predicted distributions are, by themselves and relative to others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.predict.distribution import PredictedDistribution

__all__ = ["LEVEL", "mean_ratio", "width_of", "width_ratio"]

LEVEL = 0.9  # probability of the intervals whose coverage and width are reported


def width_of(distribution: Any, level: float = LEVEL) -> Array:
    """Return the width of the central interval of each row; of classes, the number of steps between its ends."""
    lower, upper = (distribution.ppf(0.5 + sign * level / 2.0) for sign in (-1.0, 1.0))
    codes = getattr(distribution, "codes", lambda y: np.asarray(y, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        return np.asarray(codes(upper) - codes(lower))


def width_ratio(distribution: Any, reference: Any) -> Array:
    """Return how many times as wide the distribution of each row is as a reference.

    Where both have a transformation to the same link, h of the reference is compared between two of its quantiles (or
    between the first and the last class), so that a change of the spread alone gives its factor. Otherwise intervals
    are compared.
    """
    if not _have_h(distribution, reference):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(width_of(distribution) / width_of(reference))
    levels = reference.basis.levels
    if levels is not None and len(levels) < 3:
        return np.full(len(reference), math.nan)
    ends = reference.ppf([0.05, 0.95]) if levels is None else np.array([levels[0], levels[-2]], dtype=object)
    own, other = (np.diff(one.trafo(ends), axis=1)[:, 0] for one in (distribution, reference))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(other / own)


def _have_h(*distributions: Any) -> bool:
    """Return whether these distributions have transformations to one link, between the same classes if any."""
    if any(type(one) is not PredictedDistribution for one in distributions):  # an average has no h
        return False
    first, *others = distributions
    return all(one.link == first.link and one.basis.levels == first.basis.levels for one in others)


def mean_ratio(distribution: Any, reference: Any) -> float:
    """Return how many times as wide distributions are as a reference: the geometric mean over rows, NaN if unknown."""
    ratios = width_ratio(distribution, reference)
    known = ratios[np.isfinite(ratios) & (ratios > 0.0)]
    return float(np.exp(np.log(known).mean())) if known.size else math.nan
