"""The Poisson family: counts whose variance is their mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from anchortm._typing import Array
from anchortm.families.contract import Family, InMean
from anchortm.families.deviance import Apart, Part
from anchortm.families.mean_links import Identity, Log, MeanLink, Root
from anchortm.families.numerics import columns, excess, half_mean_difference, of_counts
from anchortm.links import OneEnd, Penalised

__all__ = ["Poisson"]

STIRLING_FROM = 1e8  # counts and means above this use Stirling's formula


@dataclass(frozen=True)
class Poisson(Family):
    """Counts whose variance is their mean."""

    family: ClassVar[str] = "poisson"
    links: ClassVar[Mapping[str, MeanLink]] = {"log": Log(), "identity": Identity(), "sqrt": Root()}
    discrete: ClassVar[bool] = True
    canonical: ClassVar[str] = "log"
    certified_links: ClassVar[frozenset[str]] = frozenset({"log"})
    effects: ClassVar[Mapping[str, str]] = {"log": "rate ratio"}

    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        with np.errstate(invalid="ignore"):
            return columns(y, of_counts(lambda k: -special.gammaln(k + 1.0), y))

    def variance(self, mu: Array) -> Array:
        return mu

    def in_mean(self, mu: Array, y: Array) -> InMean:
        return y * np.log(mu) - mu, y / mu - 1.0, -y / mu**2, 2.0 * y / mu**3

    def score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        if self.link != "log":
            return super().score_terms(eta, outcome)
        y, mu = outcome[:, 0], np.exp(eta)
        return OneEnd(y * eta - mu + outcome[:, -1], mu - y, mu, mu)

    def deviances(self, eta: Array, outcome: Array) -> Array:
        return self._apart(eta, outcome).deviances(self.score_terms(eta, outcome).l - outcome[:, -1])

    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        return self._apart(eta, outcome).residuals(terms.l - outcome[:, -1], terms)

    def _apart(self, eta: Array, outcome: Array) -> Apart:
        y, mean = outcome[:, 0], self.mean(eta)
        delta, lowest = mean.mu - y, y == 0.0
        safe = np.where(lowest, 1.0, y)
        return Apart(delta, mean.d1, mean.d2, [Part(1.0, 1.0, 1.0 / safe, delta / safe)], lowest)

    def law(self, mu: Array, trials: Array) -> Any:
        from scipy import stats

        return stats.poisson(mu)

    def crps(self, y: Array, mu: Array, trials: Array) -> Array:
        F = self.law(mu, trials).cdf(y)
        gap = half_mean_difference(mu * (special.ive(0, 2.0 * mu) + special.ive(1, 2.0 * mu)), mu, 0.0)
        return np.asarray((y - mu) * (2.0 * F - 1.0) + 2.0 * mu * self._pmf(y, mu) - gap)

    def _pmf(self, y: Array, mu: Array) -> Array:
        """Return P(Y = y), by Stirling's formula where log y! is so large that no digits are left."""
        pmf, far = np.exp(self.law(mu, mu).logpmf(y)), np.flatnonzero((y > STIRLING_FROM) & (mu > STIRLING_FROM))
        k, mean = y[far], mu[far]
        with np.errstate(over="ignore", under="ignore"):
            pmf[far] = np.exp(-0.5 * (mean - k) ** 2 / k * excess(mean / k - 1.0)[0]) / np.sqrt(2.0 * np.pi * k)
        return np.asarray(pmf)
