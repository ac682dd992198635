"""A fifth link in one file: the hyperbolic secant distribution, F(z) = (2 / pi) atan(exp(pi z / 2)).

Its density is log-concave, with exponential tails; its variance is 1. The formulas are those of a textbook, so that
they lose digits far out; a link for the package would not.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anchortm.links import Link, OneEnd, TwoEnds

HALF_PI = np.pi / 2.0


@dataclass(frozen=True, slots=True)
class Secant(Link):
    name: ClassVar[str] = "secant"

    def log_density(self, z: ArrayLike) -> np.ndarray:
        w = HALF_PI * np.abs(np.asarray(z, dtype=float))
        return -w - np.log1p(np.exp(-2.0 * w))

    def psi(self, z: ArrayLike) -> np.ndarray:
        return -HALF_PI * np.tanh(HALF_PI * np.asarray(z, dtype=float))

    def dpsi(self, z: ArrayLike) -> np.ndarray:
        return self.psi(z) ** 2 - HALF_PI**2

    def d2psi(self, z: ArrayLike) -> np.ndarray:
        return 2.0 * self.psi(z) * self.dpsi(z)

    def log_cdf(self, z: ArrayLike) -> np.ndarray:
        w = HALF_PI * np.asarray(z, dtype=float)
        small = np.arctan(np.exp(-np.abs(w))) / HALF_PI
        low = np.where(w < -300.0, w - np.log(HALF_PI), np.log(np.maximum(small, 1e-300)))
        return np.where(w < 0.0, low, np.log1p(-small))

    def log_sf(self, z: ArrayLike) -> np.ndarray:
        return self.log_cdf(-np.asarray(z, dtype=float))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> np.ndarray:
        log_p = np.asarray(log_p, dtype=float)
        small = log_p < np.log(0.5)
        with np.errstate(divide="ignore"):
            low = np.where(log_p < -30.0, log_p + np.log(HALF_PI), np.log(np.tan(HALF_PI * np.exp(log_p))))
            high = -np.log(np.tan(-HALF_PI * np.expm1(log_p)))
        return np.where(small, low, high) / HALF_PI

    def quantile_from_log_sf(self, log_q: ArrayLike) -> np.ndarray:
        return -self.quantile_from_log_cdf(log_q)

    def left(self, u: ArrayLike) -> OneEnd:
        return self.right(-np.asarray(u, dtype=float)).reflected()

    def right(self, v: ArrayLike) -> OneEnd:
        q, psi = np.exp(self.log_density(v) - self.log_sf(v)), self.psi(v)
        return OneEnd(self.log_sf(v), q, q * (psi + q), q * ((psi + q) * (psi + 2.0 * q) + self.dpsi(v)))

    def _interval(self, v: np.ndarray, u: np.ndarray, d: np.ndarray) -> TwoEnds:
        log_delta = np.where(
            v + u < 0.0,
            self.log_cdf(u) + np.log1p(-np.exp(self.log_cdf(v) - self.log_cdf(u))),
            self.log_sf(v) + np.log1p(-np.exp(self.log_sf(u) - self.log_sf(v))),
        )
        p, q = np.exp(self.log_density(u) - log_delta), np.exp(self.log_density(v) - log_delta)
        r, a, b = q - p, self.psi(u), self.psi(v)
        return TwoEnds(
            log_delta,
            p,
            q,
            r,
            -p * (a + r),
            q * (b + r),
            -p * ((a + r) * (a - 2.0 * p) + self.dpsi(u)),
            -p * q * (a + b + 2.0 * r),
            q * ((b + r) * (b + 2.0 * q) + self.dpsi(v)),
        )
