"""The steps of Breslow's cumulative baseline hazard, their derivatives and their variance.

The jump at an event time is the sum of m_e / S_e[1] over its pseudo-events e. In the coefficients its derivative is
-m_e S_e[x] / S_e^2. A row whose weight grows adds to m_e where it dies, and to S_e while it is at risk. For known
coefficients jumps are uncorrelated and have the variance m_e / S_e^2 [Tsiatis, 1981].
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.risk_sets import RiskSets

__all__ = ["BaselineSteps", "Hazard"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class Hazard(NamedTuple):
    """A cumulative baseline hazard with steps at event times, by stratum."""

    time: Array
    stratum: Codes
    jump: Array
    tied: Array  # the part of a jump that those who die there are not exposed to


class BaselineSteps(NamedTuple):
    """The baseline hazard for given coefficients, of rows with average covariates and no offset.

    Derivatives and variances are those of log Lambda_0. They do not depend on ``top``, so that nothing over- or
    underflows.
    """

    sets: RiskSets
    X: Array  # one row for each covariate
    w: Array  # exp(eta - top) of each row
    weighted: Array  # w times weight
    S: Array
    top: Array  # the largest eta of each stratum
    centre: float  # x'beta of average covariates

    def hazard(self) -> Hazard:
        """Return the steps."""
        sets, jump = self.sets, self._jump
        scale = np.exp(-sets.stretched(self.top))
        return Hazard(sets.times, sets.stratum, sets.by_time(jump) * scale, sets.by_time(sets.share * jump) * scale)

    @property
    def _jump(self) -> Array:
        return np.asarray(self.sets.multiplicity / self.S)

    def _running(self, values: Array) -> Array:
        """Return the sums of values of pseudo-events up to each event time of their stratum."""
        ends = np.append(self.sets.times_of, self.sets.times.size)
        own = self.sets.by_time(values)
        return np.concatenate([np.cumsum(own[a:b]) for a, b in pairwise(ends.tolist())])

    def slopes(self) -> Array:
        """Return the derivatives in the coefficients at all event times, a column for each coefficient."""
        jump, result = self._jump, np.empty((self.sets.times.size, self.X.shape[0]))
        for j, x in enumerate(self.X):
            result[:, j] = -self._running(jump * self.sets.pseudo_sum(self.weighted * x) / self.S)
        return result / self._running(jump)[:, None]

    def noise(self, times: Codes) -> Array:
        """Return the covariance at some event times of one stratum, for known coefficients."""
        total, variance = self._running(self._jump)[times], self._running(self._jump / self.S)[times]
        return np.asarray(np.minimum.outer(variance, variance) / np.multiply.outer(total, total))

    def noise_of(self, g: Array) -> Array:
        """Return independent deviations whose sum is that of g'log Lambda_0, for known coefficients, by event time."""
        ends = self.sets.times_of
        variance = self._running(self._jump / self.S)
        added = np.diff(variance, prepend=0.0)
        added[ends] = variance[ends]
        return np.asarray(np.sqrt(added) * self._later(g))

    def shares_of(self, g: Array) -> Array:
        """Return the derivative of g'log Lambda_0 in the weights of the rows of the risk sets, over all event times."""
        sets, jump = self.sets, self._jump
        later = self._later(g)[self._step]
        result = -self.w * sets.spread(later * jump / self.S)
        result[sets.dead] += sets.mean_at_death(later / self.S)
        return np.asarray(result)

    def _later(self, g: Array) -> Array:
        """Return the sums of g / Lambda_0 from each event time of a stratum on: how much its jump adds."""
        ends = np.append(self.sets.times_of, self.sets.times.size)
        own = g / self._running(self._jump)
        return np.concatenate([np.cumsum(own[a:b][::-1])[::-1] for a, b in pairwise(ends.tolist())])

    @property
    def _step(self) -> Codes:
        """Return the event time of each pseudo-event."""
        return np.arange(self.sets.times.size) if self.sets.pseudo is None else self.sets.pseudo

    def shares(self, times: Codes) -> Array:
        """Return the derivatives in the weights of the rows of the risk sets at some event times, likewise."""
        sets, jump, step = self.sets, self._jump, self._step
        result = np.empty((sets.order.size, times.size))
        for j, k in enumerate(times):
            there = (sets.stratum[step] == sets.stratum[k]) & (step <= k)
            result[:, j] = -self.w * sets.spread(there * jump / self.S)
            result[sets.dead, j] += sets.mean_at_death(there / self.S)
        return result / self._running(jump)[times]
