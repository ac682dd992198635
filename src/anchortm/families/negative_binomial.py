"""The negative binomial family: counts whose variance is mu + alpha mu^2.

With a log link rows are a mixture y log F + (1 / alpha) log(1 - F), F logistic at eta + log(alpha).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from anchortm._typing import Array
from anchortm.families.contract import Family, InMean
from anchortm.families.deviance import Apart, Part
from anchortm.families.mean_links import Identity, Log, MeanLink, Root
from anchortm.families.mixture import mixture
from anchortm.families.numerics import columns, half_mean_difference, of_counts
from anchortm.links import Logistic, OneEnd, Penalised

__all__ = ["InLogAlpha", "NegativeBinomial"]

LOGISTIC = Logistic()


class InLogAlpha(NamedTuple):
    """Derivatives of the log-likelihood of rows in log(alpha): the first, the second, and the mixed one with eta."""

    first: Array
    second: Array
    with_eta: Array


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Counts whose variance is mu + alpha mu^2."""

    family: ClassVar[str] = "negative_binomial"
    links: ClassVar[Mapping[str, MeanLink]] = {"log": Log(), "identity": Identity(), "sqrt": Root()}
    discrete: ClassVar[bool] = True
    uses_alpha: ClassVar[bool] = True
    not_concave: ClassVar[frozenset[str]] = frozenset({"identity", "sqrt"})
    certified_links: ClassVar[frozenset[str]] = frozenset({"log"})
    effects: ClassVar[Mapping[str, str]] = {"log": "rate ratio"}

    @property
    def k(self) -> float:
        """Return 1 / alpha."""
        assert self.alpha is not None  # noqa: S101
        return 1.0 / self.alpha

    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        k = self.k
        with np.errstate(invalid="ignore"):
            return columns(
                y, of_counts(lambda j: special.gammaln(j + k) - special.gammaln(k) - special.gammaln(j + 1.0), y)
            )

    def variance(self, mu: Array) -> Array:
        assert self.alpha is not None  # noqa: S101
        return mu + self.alpha * mu**2

    def in_mean(self, mu: Array, y: Array) -> InMean:
        k = self.k
        a, b = 1.0 / k, 1.0 / (mu + k)
        l = special.xlogy(y, mu) + special.xlogy(y, a) - (y + k) * np.log1p(a * mu)  # noqa: E741
        second, third = -y / mu**2 + (y + k) * b**2, 2.0 * y / mu**3 - 2.0 * (y + k) * b**3
        return l, y / mu - (y + k) * b, second, third

    def score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        if self.link != "log":
            return super().score_terms(eta, outcome)
        assert self.alpha is not None  # noqa: S101
        y, at = outcome[:, 0], eta + math.log(self.alpha)
        return mixture(LOGISTIC.left(at), LOGISTIC.right(at), y, np.full(y.size, self.k), outcome[:, -1])

    def deviances(self, eta: Array, outcome: Array) -> Array:
        return self._apart(eta, outcome).deviances(self.score_terms(eta, outcome).l - outcome[:, -1])

    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        return self._apart(eta, outcome).residuals(terms.l - outcome[:, -1], terms)

    def _apart(self, eta: Array, outcome: Array) -> Apart:
        y, mean = outcome[:, 0], self.mean(eta)
        delta, lowest, own = mean.mu - y, y == 0.0, 1.0 / (y + self.k)
        safe = np.where(lowest, 1.0, y)
        parts = [Part(1.0, 1.0, 1.0 / safe, delta / safe), Part(-1.0, 1.0, own, delta * own)]
        return Apart(delta, mean.d1, mean.d2, parts, lowest)

    def in_log_alpha(self, eta: Array, outcome: Array) -> InLogAlpha:
        """Return the derivatives of the log-likelihood in log(alpha)."""
        y, mean, k = outcome[:, 0], self.mean(eta), self.k
        far = mean.mu + k
        slope = special.digamma(y + k) - special.digamma(k) - np.log1p(mean.mu / k) + (mean.mu - y) / far
        bend = special.polygamma(1, y + k) - special.polygamma(1, k) + mean.mu / (k * far) - (mean.mu - y) / far**2
        # d/dlog(alpha) = -k d/dk
        return InLogAlpha(-k * slope, k * slope + k**2 * bend, k * mean.d1 * (mean.mu - y) / far**2)

    def law(self, mu: Array, trials: Array) -> Any:
        from scipy import stats

        k = self.k
        return stats.nbinom(k, k / (k + mu))

    def crps(self, y: Array, mu: Array, trials: Array) -> Array:
        from scipy import stats

        k = self.k
        p = k / (k + mu)
        F, below = self.law(mu, trials).cdf(y), stats.nbinom.cdf(y - 1.0, k + 1.0, p)
        odds = mu / k
        half = special.hyp2f1(k + 1.0, 0.5, 2.0, -4.0 * odds / p)
        gap = half_mean_difference(mu / p * half, mu, 1.0 / k)
        return np.asarray(y * (2.0 * F - 1.0) - mu * (2.0 * below - 1.0) - gap)
