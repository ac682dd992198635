"""Where a minimisation can start: a baseline under which all rows are possible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective
from anchortm.exceptions import IdentificationError

__all__ = ["startable"]

Array = NDArray[np.float64]

FAR = 3.0  # first step of the constant, on the scale of h


def startable(objective: Objective, v: Array) -> Array:
    """Return v, or a flatter or shifted baseline if that is likelier.

    With outliers or a large offset the log-likelihood of the first guess may be minus infinity.
    """
    coordinates = objective.coordinates
    if not coordinates.n_baseline:
        return v  # there is no baseline
    constant = np.zeros_like(v)
    constant[0] = 1.0

    def likeliest(shape: Array, shares: Sequence[float], levels: Iterable[float]) -> tuple[Array, float]:
        starts = [np.clip(share * shape, coordinates.lower, coordinates.upper) for share in shares]
        found = [start + level * constant for start in starts for level in levels]
        objective.ahead([*found, found[0] + FAR * constant, found[0] - FAR * constant])  # of the first the next steps
        logliks = [objective.sums(start).loglik for start in found]
        best = int(np.argmax(np.nan_to_num(logliks, nan=-np.inf)))
        return found[best], logliks[best]

    shape = v - v[0] * constant
    best, loglik = likeliest(shape, (1.0, 0.3, 0.1, 0.03, 0.01), (float(v[0]),))
    if not math.isfinite(loglik):
        steps = np.outer([-1.0, 1.0], 10.0 ** np.arange(0, 4, 0.5)).ravel()
        levels = [level + shift for level in (float(v[0]), 0.0) for shift in (0.0, -objective.mean_offset, *steps)]
        best, loglik = likeliest(np.clip(shape, -1.0, 1.0), (1.0, 0.1, 1e-2, 1e-4, 1e-6, 1e-8), levels)
    if not math.isfinite(loglik):
        raise IdentificationError(
            "the log-likelihood is not finite at any start value that was tried: look for outliers in y, X or offset; "
            "for positive outcomes of many orders of magnitude take a baseline in log y (log_first=True)"
        )
    moved = True
    while moved:  # the constant may be far off: double the step while it helps, then start again from there
        moved = False
        objective.ahead([best + FAR * constant, best - FAR * constant])
        for step in (FAR, -FAR):
            while (there := objective.sums(best + step * constant).loglik) > loglik:
                best, loglik, step, moved = best + step * constant, there, 2.0 * step, True
    return best
