"""The gaussian family: outcomes with a constant variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from anchortm._typing import Array
from anchortm.exceptions import InputError
from anchortm.families.contract import Family, InMean
from anchortm.families.mean_links import Identity, Log, MeanLink
from anchortm.families.numerics import columns, spread
from anchortm.links import LOG_SQRT_2PI, OneEnd, Penalised

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Family):
    """Outcomes with a constant variance, the dispersion."""

    family: ClassVar[str] = "gaussian"
    links: ClassVar[Mapping[str, MeanLink]] = {"identity": Identity(), "log": Log()}
    mean_range: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    canonical: ClassVar[str] = "identity"
    not_concave: ClassVar[frozenset[str]] = frozenset({"log"})
    effects: ClassVar[Mapping[str, str]] = {"log": "ratio of means"}

    @property
    def affine(self) -> bool:
        return self.link == "identity"

    @property
    def loss_unit(self) -> float:
        return self.unit

    @property
    def lacking(self) -> float:
        return LOG_SQRT_2PI if self.unit != 1.0 else 0.0

    def push_in(self, unit: float) -> float:
        return unit if self.link == "log" else 1.0

    def in_typical_unit(self, y: Array, weights: Array | None) -> Self:
        return self.measured_in(spread(y, weights) if self.affine else float(np.average(y, weights=weights)))

    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        # in another unit the constant could be so large that no digits are left of l: it is ``lacking``
        return columns(y / self.unit, np.full(y.size, self.lacking - LOG_SQRT_2PI))

    def variance(self, mu: Array) -> Array:
        return np.ones_like(mu)

    def in_mean(self, mu: Array, y: Array) -> InMean:
        one = np.ones_like(mu)
        return -0.5 * (y - mu) ** 2, y - mu, -one, 0.0 * one

    def score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        if not self.affine:
            return super().score_terms(eta, outcome)
        r, one = eta - outcome[:, 0], np.ones_like(eta)
        return OneEnd(outcome[:, -1] - 0.5 * r**2, r, one, np.zeros_like(eta))

    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        mean = self.mean(eta)
        return Penalised(outcome[:, 0] - mean.mu, -mean.d1, -mean.d2)

    def loglik(self, eta: Array, outcome: Array) -> Array:
        variance = self.dispersion / self.unit**2
        z = self.response_residuals(eta, outcome)
        return -0.5 * z**2 / variance - LOG_SQRT_2PI - 0.5 * math.log(self.dispersion)

    def law(self, mu: Array, trials: Array) -> Any:
        from scipy import stats

        return stats.norm(mu, np.sqrt(self.dispersion))

    def crps(self, y: Array, mu: Array, trials: Array) -> Array:
        from scipy import stats

        sigma, F = np.sqrt(self.dispersion), self.law(mu, trials).cdf(y)
        z = (y - mu) / sigma
        return np.asarray(sigma * (z * (2.0 * F - 1.0) + 2.0 * stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi)))

    def check_outcomes(self, y: Array, trials: Array | None = None) -> None:
        super().check_outcomes(y, trials)
        if self.link == "log" and not y.mean() > 0.0:
            raise InputError("a log link needs outcomes whose mean is above 0")

    def likeliest_dispersion(self, deviance: float, n: float) -> float:
        return deviance / n

    def largest_loglik(self, deviance: float, quasi_loglik: float, n: float) -> float:
        return -0.5 * n * (math.log(2.0 * math.pi * deviance / n) + 1.0)
