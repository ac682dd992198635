"""The binomial family: successes in a number of trials.

Rows are a mixture of left- and right-censored ones, y log F(eta) + (m - y) log(1 - F(eta)), and come from ``links``:
they are right far out in both tails. A row that is 0 or 1 is one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from anchortm._typing import Array
from anchortm.exceptions import IdentificationError
from anchortm.families.contract import Family, InMean, refuse_row
from anchortm.families.deviance import Apart, Part
from anchortm.families.mean_links import FromDistribution, Log, MeanLink
from anchortm.families.mixture import mixture
from anchortm.families.numerics import columns
from anchortm.links import LINKS, Link, OneEnd, Penalised, log1mexp

__all__ = ["Binomial"]

FIRST = "logit"  # the default link


def is_binary(outcome: Array) -> bool:
    """Return whether rows have one trial each, so that their outcomes are 0 or 1."""
    return bool(outcome.shape[1] == 2)


@dataclass(frozen=True)
class Binomial(Family):
    """Successes in a number of trials; the mean is the probability of a success."""

    family: ClassVar[str] = "binomial"
    links: ClassVar[Mapping[str, MeanLink]] = {
        F.name: FromDistribution(F) for F in sorted(LINKS.values(), key=lambda F: F.name != FIRST)
    } | {"log": Log()}
    mean_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    discrete: ClassVar[bool] = True
    canonical: ClassVar[str] = "logit"
    certified_links: ClassVar[frozenset[str]] = frozenset({"logit"})
    effects: ClassVar[Mapping[str, str]] = {F.name: F.effect_name(1.0) for F in LINKS.values()} | {"log": "risk ratio"}

    @property
    def F(self) -> Link | None:  # noqa: N802 - a distribution function
        """Return the distribution function of the link; the log link has none."""
        return self.mean_link.F if isinstance(self.mean_link, FromDistribution) else None

    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        """Return successes, trials and the constant in l; successes and the constant 0 if all rows are 0 or 1."""
        if trials is None:
            return columns(y, np.zeros_like(y))
        with np.errstate(invalid="ignore"):
            constant = special.gammaln(trials + 1.0) - special.gammaln(y + 1.0) - special.gammaln(trials - y + 1.0)
            return columns(y, trials, np.where(trials == 1.0, 0.0, constant))

    def variance(self, mu: Array) -> Array:
        return mu * (1.0 - mu)

    def in_mean(self, mu: Array, y: Array) -> InMean:
        """Return l of one trial and its derivatives in the probability."""
        rest = 1.0 - mu
        l = special.xlogy(y, mu) + special.xlogy(1.0 - y, rest)  # noqa: E741
        first, second = y / mu - (1.0 - y) / rest, -y / mu**2 - (1.0 - y) / rest**2
        return l, first, second, 2.0 * y / mu**3 - 2.0 * (1.0 - y) / rest**3

    def name_of_rows(self, outcome: Array) -> str:
        return super().name_of_rows(outcome) if is_binary(outcome) else ""  # trials have other values than 0 and 1

    def score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        y, m, constant = outcome[:, 0], self.trials(outcome), outcome[:, -1]
        if self.F is not None:
            if is_binary(outcome):
                return self.F.either(eta, y == 1.0)
            return mixture(self.F.left(eta), self.F.right(eta), y, m - y, constant)
        one, zero = np.ones_like(eta), np.zeros_like(eta)
        q = 1.0 / np.expm1(-eta)
        up = OneEnd(eta, -one, zero, zero)
        down = OneEnd(log1mexp(-eta), q, q * (1.0 + q), q * (1.0 + q) * (1.0 + 2.0 * q))
        found = mixture(up, down, y, m - y, constant)
        return found._replace(l=np.where(eta < 0.0, found.l, -np.inf))

    def deviances(self, eta: Array, outcome: Array) -> Array:
        loglik = self.score_terms(eta, outcome).l - outcome[:, -1]
        return -2.0 * loglik if is_binary(outcome) else self._apart(eta, outcome).deviances(loglik)

    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        return self._apart(eta, outcome).residuals(terms.l - outcome[:, -1], terms)

    def _apart(self, eta: Array, outcome: Array) -> Apart:
        y, m, mean = outcome[:, 0], self.trials(outcome), self.mean(eta)
        mu, lowest, highest = m * mean.mu, y == 0.0, y == m
        safe, rest = np.where(lowest, 1.0, y), np.where(highest, 1.0, m - y)
        upper = m * (np.exp(self.F.log_sf(eta)) if self.F is not None else -np.expm1(eta))
        delta = np.where(upper < mu, rest - upper, mu - y)  # the smaller one has the digits
        parts = [
            Part(1.0, 1.0, 1.0 / safe, mu / safe - 1.0),
            Part(1.0, -1.0, 1.0 / rest, upper / rest - 1.0),
        ]
        return Apart(delta, m * mean.d1, m * mean.d2, parts, lowest, highest)

    def information(self, eta: Array, outcome: Array) -> Array:
        F = self.F
        if F is None:
            return super().information(eta, outcome)
        log = 2.0 * F.log_density(eta) - F.log_cdf(eta) - F.log_sf(eta)  # f^2 / (F (1 - F))
        return np.asarray(self.trials(outcome) * np.exp(log))

    def ways(self, outcome: Array) -> NDArray[np.int8]:
        result = super().ways(outcome)
        if self.eta_range[1] == np.inf:
            result[outcome[:, 0] == self.trials(outcome)] = 1
        return result

    def law(self, mu: Array, trials: Array) -> Any:
        from scipy import stats

        return stats.binom(trials, mu)

    def crps(self, y: Array, mu: Array, trials: Array) -> Array:
        scores = np.empty(y.size)
        for size in np.unique(trials):
            own = np.flatnonzero(trials == size)
            grid = np.arange(size)
            F = self.law(mu[own, None], trials[own, None]).cdf(grid)
            scores[own] = ((F - (y[own, None] <= grid)) ** 2).sum(axis=1)
        return scores

    def check_outcomes(self, y: Array, trials: Array | None = None) -> None:
        if trials is None:
            why = "binomial outcomes are 0 or 1; for several trials a row pass Trials(successes, trials)"
            refuse_row(y > 1.0, y, why)

    def check_variation(self, y: Array, trials: Array | None = None) -> None:
        super().check_variation(y, trials)
        if (y == (1.0 if trials is None else trials)).all():
            raise IdentificationError("all trials are successes: the likelihood grows as the probability goes to 1")
