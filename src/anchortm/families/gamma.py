"""The gamma family: positive outcomes whose standard deviation is proportional to their mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import optimize, special

from anchortm._typing import Array
from anchortm.families.contract import Family, InMean, refuse_row
from anchortm.families.mean_links import Identity, Inverse, Log, MeanLink
from anchortm.families.numerics import columns, excess, excess_alone
from anchortm.links import OneEnd, Penalised

__all__ = ["Gamma", "likeliest_shape"]

NEAR_ONE = 1e-3  # beyond ratios y / mu of this and its inverse, the ratio itself has the digits


def likeliest_shape(half_deviance: float) -> float:
    """Return the shape k of gamma rows by maximum likelihood: log k - digamma(k) is half their mean deviance."""
    if half_deviance < 1e-4:  # log k - digamma(k) = 1 / (2 k) + 1 / (12 k^2) - ..., without cancellation
        return (1.0 + math.sqrt(1.0 + 4.0 * half_deviance / 3.0)) / (4.0 * half_deviance)
    ends = -math.log(2.0 * half_deviance), -math.log(half_deviance)  # it is between 1 / (2 k) and 1 / k
    return math.exp(optimize.brentq(lambda s: s - special.digamma(math.exp(s)) - half_deviance, *ends, xtol=1e-14))


@dataclass(frozen=True)
class Gamma(Family):
    """Positive outcomes with variance dispersion * mu^2."""

    family: ClassVar[str] = "gamma"
    links: ClassVar[Mapping[str, MeanLink]] = {"log": Log(), "inverse": Inverse(), "identity": Identity()}
    canonical: ClassVar[str] = "inverse"
    not_concave: ClassVar[frozenset[str]] = frozenset({"identity"})
    certified_links: ClassVar[frozenset[str]] = frozenset({"log"})
    effects: ClassVar[Mapping[str, str]] = {"log": "ratio of means"}

    def push_in(self, unit: float) -> float:
        return {"inverse": unit, "identity": 1.0 / unit}.get(self.link, 1.0)

    def in_typical_unit(self, y: Array, weights: Array | None) -> Self:
        return self if self.link == "log" else self.measured_in(float(np.average(y, weights=weights)))

    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        return columns(y / self.unit, np.full(y.size, -math.log(self.unit)))

    def variance(self, mu: Array) -> Array:
        return mu**2

    def in_mean(self, mu: Array, y: Array) -> InMean:
        z = y / mu
        return -z - np.log(mu), (z - 1.0) / mu, (1.0 - 2.0 * z) / mu**2, (6.0 * z - 2.0) / mu**3

    def score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        y, constant = outcome.T
        if self.link == "log" and self.unit == 1.0:
            z = y * np.exp(-eta)
            return OneEnd(constant - z - eta, 1.0 - z, z, -z)
        if self.link == "inverse":
            with np.errstate(all="ignore"):
                l = np.where(eta > 0.0, constant - y * eta + np.log(eta), -np.inf)  # noqa: E741
                return OneEnd(l, y - 1.0 / eta, 1.0 / eta**2, -2.0 / eta**3)
        return super().score_terms(eta, outcome)

    def deviances(self, eta: Array, outcome: Array) -> Array:
        with np.errstate(all="ignore"):
            ratio = self._ratio(eta, outcome[:, 0])
            u = ratio - 1.0
            far = (ratio < NEAR_ONE) | (ratio > 1.0 / NEAR_ONE)
            return np.where(far, 2.0 * (u - np.log(ratio)), u**2 * excess_alone(u))

    def _ratio(self, eta: Array, y: Array) -> Array:
        """Return y / mu."""
        if self.link == "log":
            return np.asarray(y * self.unit * np.exp(-eta))
        return np.asarray(y * eta if self.link == "inverse" else y / eta)

    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        """Return D and its derivatives, with D^2 = u^2 K(u), u = y / mu - 1.

        They are functions of u and of the derivatives of log(mu) in eta. Nothing else is as small or as large as a
        power of mu, which a trial step can take to the end of doubles.
        """
        with np.errstate(all="ignore"):
            if self.link == "log":
                slope, bend = np.ones_like(eta), np.zeros_like(eta)
            elif self.link == "inverse":
                slope, bend = -1.0 / eta, 1.0 / eta**2
            else:
                slope, bend = 1.0 / eta, -1.0 / eta**2
            ratio = self._ratio(eta, outcome[:, 0])
            u = ratio - 1.0
            K, K1, K2 = excess(u)
            root = np.sqrt(K)
            D = u * root
            # in u, with D^2 = u^2 K; then d/dlog(mu) = -ratio d/du
            first = root + 0.5 * u * K1 / root
            second = K1 / root + u * (0.5 * K2 / root - 0.25 * K1**2 / (K * root))
            D1, D2 = -ratio * first, ratio * (first + ratio * second)
            far = (ratio < NEAR_ONE) | (ratio > 1.0 / NEAR_ONE)
            direct = np.sign(u) * np.sqrt(2.0 * (ratio - 1.0 - np.log(ratio)))
            D, D1 = np.where(far, direct, D), np.where(far, -u / direct, D1)
            D2 = np.where(far, (ratio - D1**2) / direct, D2)
            return Penalised(D, D1 * slope, D2 * slope**2 + D1 * bend)

    def loglik(self, eta: Array, outcome: Array) -> Array:
        shape, y, mu = 1.0 / self.dispersion, outcome[:, 0], self.mean(eta).mu
        z = y * shape / mu
        values = np.asarray(special.xlogy(shape, z) - z - np.log(y * self.unit) - special.gammaln(shape))
        return np.where(mu > 0.0, values, -np.inf)

    def law(self, mu: Array, trials: Array) -> Any:
        from scipy import stats

        return stats.gamma(1.0 / self.dispersion, scale=self.dispersion * mu)

    def crps(self, y: Array, mu: Array, trials: Array) -> Array:
        a, scale, F = 1.0 / self.dispersion, self.dispersion * mu, self.law(mu, trials).cdf(y)
        above = special.gammainc(a + 1.0, np.maximum(y, 0.0) / scale)
        return np.asarray(y * (2.0 * F - 1.0) - mu * (2.0 * above - 1.0) - scale / special.beta(0.5, a))

    def check_outcomes(self, y: Array, trials: Array | None = None) -> None:
        super().check_outcomes(y, trials)
        refuse_row(y <= 0.0, y, "gamma outcomes are above 0")

    def likeliest_dispersion(self, deviance: float, n: float) -> float:
        return 1.0 / likeliest_shape(0.5 * deviance / n)

    def largest_loglik(self, deviance: float, quasi_loglik: float, n: float) -> float:
        half = 0.5 * deviance
        k = likeliest_shape(half / n)
        log_y = -half - n - quasi_loglik  # the sum of log y: log(y / mean) - y / mean sums to -half - n
        return float(n * (k * math.log(k) - special.gammaln(k)) - k * (half + n) - log_y)
