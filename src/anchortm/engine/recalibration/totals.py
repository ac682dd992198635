"""The log-likelihood of all rows of a place as a function of one shift of h, with its first two derivatives.

The shift d makes outcomes larger: it is subtracted from h, or added to the linear predictor of a generalised linear
model. With score residuals r = -dl/dh, the derivative of l(h - d) in d is r, and minus the second one is r'.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from anchortm._typing import Array
from anchortm.engine.rows.quadrature import Moved

__all__ = ["Hazards", "Total", "TotalOfRows"]

MOST_CELLS = 2_000_000  # rows times shifts in one pass


class Total(Protocol):
    """The log-likelihood of all rows at several shifts."""

    @property
    def quadratic(self) -> bool:
        """Return whether the log-likelihood is a quadratic function of the shift."""

    def __call__(self, shifts: Array) -> tuple[Array, Array, Array]:
        """Return the log-likelihood, its derivative and minus its second derivative at each of these shifts."""


class TotalOfRows:
    """The sum over rows whose values at moved h, or moved linear predictors, are known.

    Parameters
    ----------
    values : Moved
        Log-likelihood, residual and its derivative of rows, as a function of what is added to h.
    weights : array, optional
        Weights of the rows.
    sign : float
        What one unit of the shift adds to h: -1, or 1 for linear predictors of means.
    """

    def __init__(self, values: Moved, weights: Array | None, n_rows: int, sign: float = -1.0) -> None:
        self.values, self.sign, self.n_rows = values, sign, n_rows
        self.weights = np.ones(n_rows) if weights is None else weights

    @property
    def quadratic(self) -> bool:
        """Return whether the log-likelihood is a quadratic function of the shift."""
        return self.values.quadratic

    def __call__(self, shifts: Array) -> tuple[Array, Array, Array]:
        """Return the log-likelihood, its derivative and minus its second derivative at each of these shifts."""
        size = max(1, MOST_CELLS // max(1, self.n_rows))
        parts = [self._some(shifts[k : k + size]) for k in range(0, shifts.size, size)]
        loglik, score, information = (np.concatenate(part) for part in zip(*parts, strict=True))
        return loglik, score, information

    def _some(self, shifts: Array) -> tuple[Array, Array, Array]:
        moved = np.broadcast_to(self.sign * shifts, (self.n_rows, shifts.size))
        with np.errstate(all="ignore"):
            loglik, r, dr = self.values(moved)
            return self.weights @ loglik, -self.sign * (self.weights @ r), self.weights @ dr

    def impossible(self) -> Array:
        """Return the positions of rows that have no likelihood before the shift."""
        with np.errstate(all="ignore"):
            loglik = self.values(np.zeros((self.n_rows, 1)))[0][:, 0]
        return np.flatnonzero(~np.isfinite(loglik))


class Hazards:
    """Events and cumulative hazards of rows under a baseline of steps: hazards are multiplied by exp(-shift).

    The steps say how large the hazard of a row was in all. Given that, the number of events has the likelihood of a
    Poisson variable, whose mean is the expected number.
    """

    quadratic = False

    def __init__(self, events: Array, hazards: Array, weights: Array | None) -> None:
        weights = np.ones(events.size) if weights is None else weights
        self.events, self.expected = float(weights @ events), float(weights @ hazards)

    def __call__(self, shifts: Array) -> tuple[Array, Array, Array]:
        """Return the log-likelihood, its derivative and minus its second derivative at each of these shifts."""
        with np.errstate(over="ignore"):
            expected = self.expected * np.exp(-shifts)
        return -self.events * shifts - expected, expected - self.events, expected
