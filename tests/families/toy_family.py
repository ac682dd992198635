"""A sixth family in one file: the inverse Gaussian, with variance dispersion * mu^3, and a link of its own.

The deviance residual (y - mu) / (mu sqrt(y)) is smooth, so that it needs no care where y = mu.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from anchortm.families import Family, Mean
from anchortm.families.contract import refuse_row
from anchortm.families.mean_links import Log, MeanLink
from anchortm.links import OneEnd, Penalised

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class InverseSquare(MeanLink):
    """The canonical link: eta = 1 / mean^2."""

    name: ClassVar[str] = "inverse_squared"
    open_end: ClassVar[bool] = True

    def mean(self, eta: np.ndarray, unit: float) -> Mean:
        mu = eta**-0.5
        return Mean(mu, -0.5 * mu / eta, 0.75 * mu / eta**2, -1.875 * mu / eta**3)

    def eta(self, mu: float, unit: float) -> float:
        return mu**-2.0

    def eta_range(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, math.inf


@dataclass(frozen=True)
class InverseGaussian(Family):
    family: ClassVar[str] = "inverse_gaussian"
    links: ClassVar[dict[str, MeanLink]] = {"log": Log(), "inverse_squared": InverseSquare()}
    not_concave: ClassVar[frozenset[str]] = frozenset({"log"})
    effects: ClassVar[dict[str, str]] = {"log": "ratio of means"}

    def outcome(self, y: np.ndarray, trials: np.ndarray | None = None) -> np.ndarray:
        return np.column_stack([y, -LOG_SQRT_2PI - 1.5 * np.log(y)])

    def variance(self, mu: np.ndarray) -> np.ndarray:
        return mu**3

    def in_mean(self, mu: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        l = -((y - mu) ** 2) / (2.0 * y * mu**2)  # noqa: E741
        return l, (y - mu) / mu**3, (2.0 * mu - 3.0 * y) / mu**4, (12.0 * y - 6.0 * mu) / mu**5

    def deviance_residuals(self, eta: np.ndarray, outcome: np.ndarray, terms: OneEnd) -> Penalised:
        root, mean = np.sqrt(outcome[:, 0]), self.mean(eta)
        first, second = -root / mean.mu**2, 2.0 * root / mean.mu**3  # of D = root / mu - 1 / root, in mu
        D = root / mean.mu - 1.0 / root
        return Penalised(D, first * mean.d1, second * mean.d1**2 + first * mean.d2)

    def loglik(self, eta: np.ndarray, outcome: np.ndarray) -> np.ndarray:
        y, phi, mu = outcome[:, 0], self.dispersion, self.mean(eta).mu
        return outcome[:, -1] - 0.5 * math.log(phi) - (y - mu) ** 2 / (2.0 * phi * y * mu**2)

    def law(self, mu: np.ndarray, trials: np.ndarray) -> Any:
        return stats.invgauss(mu * self.dispersion, scale=1.0 / self.dispersion)

    def check_outcomes(self, y: np.ndarray, trials: np.ndarray | None = None) -> None:
        super().check_outcomes(y, trials)
        refuse_row(y <= 0.0, y, "inverse Gaussian outcomes are above 0")

    def likeliest_dispersion(self, deviance: float, n: float) -> float:
        return deviance / n
