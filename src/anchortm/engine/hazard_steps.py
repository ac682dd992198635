"""Cumulative hazards as step functions of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Steps", "strata_curves"]

Array = NDArray[np.float64]

ROUNDING = 1e-12  # relative tolerance when a quantile is compared with the cumulative hazard


@dataclass(frozen=True, eq=False)
class Steps:
    """One cumulative hazard: its event times, and its value from each event time on."""

    time: Array
    total: Array

    def __call__(self, y: Array) -> Array:
        """Return the cumulative hazard at y; it is constant after the last event time."""
        values = np.append(0.0, self.total)[np.searchsorted(self.time, y, side="right")]
        return np.where(np.isnan(y), np.nan, values)

    def first_at(self, z: Array) -> Array:
        """Return the first time at which the cumulative hazard is at least z; infinity if there is none."""
        found = np.append(self.time, np.inf)[np.searchsorted(self.total, z * (1.0 - ROUNDING))]
        return np.where(np.isnan(z), np.nan, found)


def strata_curves(time: Array, stratum: NDArray[np.intp], jump: Array, n_strata: int) -> tuple[Steps, ...]:
    """Return the cumulative hazard of each stratum; it has no steps in a stratum without events."""
    ends = np.searchsorted(stratum, np.arange(n_strata + 1))
    return tuple(
        Steps(time[a:b], np.cumsum(jump[a:b])) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    )
