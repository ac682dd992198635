"""Distributions of whole numbers averaged over random effects: sum_k w_k P(Y <= y | mean_k), and averages of means."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from anchortm._typing import Array
from anchortm.families import Family

__all__ = ["MixedLaw"]

NEGLIGIBLE = 1e-20  # nodes with smaller weights do not move a probability
BLOCK = 200_000  # rows times nodes in one pass
STEPS = 200  # halvings of an interval of whole numbers; 60 are enough for doubles


class MixedLaw:
    """Mixtures of members of a family of whole numbers, one for each row, with the methods of scipy's distributions.

    ``eta`` are the linear predictors of n rows at K nodes, ``weights`` the weights of the nodes (both n x K).
    Arguments have shape (n, m) or (1, m).
    """

    def __init__(self, family: Family, eta: Array, weights: Array, trials: Array) -> None:
        self.family, self.eta, self.weights, self.trials = family, eta, weights, trials

    @cached_property
    def means(self) -> Array:
        """Return the means at the nodes, of one trial."""
        with np.errstate(over="ignore"):
            return np.asarray(self.family.mean(self.eta).mu)

    @cached_property
    def mean_of_means(self) -> Array:
        """Return the average of the means, of one trial."""
        return np.asarray(np.where(self.weights > 0.0, self.weights * self.means, 0.0).sum(axis=1))

    @cached_property
    def _parts(self) -> list[tuple[Array, Any]]:
        """Return blocks of nodes: their weights (n, 1, k), and the distributions there."""
        keep = np.flatnonzero((self.weights > NEGLIGIBLE).any(axis=0)) if self.weights.size else np.zeros(1, dtype=int)
        size = max(1, BLOCK // max(1, self.weights.shape[0]))
        parts = []
        for first in range(0, keep.size, size):
            nodes = keep[first : first + size]
            law = self.family.law(self.means[:, None, nodes], self.trials[:, None, None])
            parts.append((self.weights[:, None, nodes], law))
        return parts

    def _average(self, values: Callable[[Any], Any]) -> Array:
        """Return sum_k w_k (values at node k), from values of shape (n, m, k)."""
        total: Any = 0.0
        for weight, law in self._parts:
            total = total + (weight * values(law)).sum(axis=2)
        return np.asarray(total, dtype=np.float64)

    def _log_average(self, values: Callable[[Any], Any]) -> Array:
        """Return log sum_k w_k exp(values at node k)."""
        total: Any = -np.inf
        with np.errstate(divide="ignore"):
            for weight, law in self._parts:
                total = np.logaddexp(total, special.logsumexp(np.log(weight) + values(law), axis=2))
        return np.asarray(total, dtype=np.float64)

    def cdf(self, y: Array) -> Array:
        """Return P(Y <= y)."""
        return np.minimum(self._average(lambda law: law.cdf(y[:, :, None])), 1.0)

    def sf(self, y: Array) -> Array:
        """Return P(Y > y)."""
        return np.minimum(self._average(lambda law: law.sf(y[:, :, None])), 1.0)

    def logcdf(self, y: Array) -> Array:
        """Return log P(Y <= y)."""
        return np.minimum(self._log_average(lambda law: law.logcdf(y[:, :, None])), 0.0)

    def logsf(self, y: Array) -> Array:
        """Return log P(Y > y)."""
        return np.minimum(self._log_average(lambda law: law.logsf(y[:, :, None])), 0.0)

    def logpmf(self, y: Array) -> Array:
        """Return log P(Y = y)."""
        return self._log_average(lambda law: law.logpmf(y[:, :, None]))

    def var(self) -> Array:
        """Return the variances, as a column: the mean of the variances plus the variance of the means."""
        mean = (self.trials * self.mean_of_means)[:, None, None]
        return self._average(lambda law: law.var() + (law.mean() - mean) ** 2)

    def ppf(self, q: Array) -> Array:
        """Return the smallest y with P(Y <= y) >= q."""
        q = np.reshape(q, (1, 1)) if np.ndim(q) == 0 else q
        return self._smallest(lambda law: law.ppf(q[:, :, None]), lambda y: self.cdf(y) >= q)

    def isf(self, q: Array) -> Array:
        """Return the smallest y with P(Y > y) <= q."""
        q = np.reshape(q, (1, 1)) if np.ndim(q) == 0 else q
        return self._smallest(lambda law: law.isf(q[:, :, None]), lambda y: self.sf(y) <= q)

    def _smallest(self, at_node: Callable[[Any], Any], enough: Callable[[Array], NDArray[np.bool_]]) -> Array:
        """Return the smallest whole y that is ``enough``, by halving the interval between those of the nodes."""
        lows, highs = [], []
        for weight, law in self._parts:
            found = at_node(law)
            used = np.broadcast_to(weight > NEGLIGIBLE, found.shape)
            lows.append(np.where(used, found, np.inf).min(axis=2))
            highs.append(np.where(used, found, -np.inf).max(axis=2))
        low, high = np.min(lows, axis=0), np.max(highs, axis=0)
        low, endless = np.maximum(low, 0.0) - 1.0, np.isinf(high)  # low is not enough, high is
        high = np.where(endless, low + 1.0, high)
        for _ in range(STEPS):
            if (high - low <= 1.0).all():
                break
            middle = np.floor(0.5 * (low + high))
            there = enough(middle)
            low, high = np.where(there, low, middle), np.where(there, middle, high)
        return np.where(endless, np.inf, high)
