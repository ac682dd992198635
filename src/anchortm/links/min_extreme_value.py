"""The minimum extreme value distribution: effects are log hazard ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from anchortm._typing import Array
from anchortm.links.contract import Link
from anchortm.links.numerics import as_array, horner, log1mexp, quiet
from anchortm.links.terms import OneEnd, TwoEnds

__all__ = ["MinExtremeValue"]

# k(w) = w / (e^w - 1) = 1 - w/2 + sum_n c_n w^2n, c_n = B_2n / (2n)!
_N = np.arange(1, 14)
_BERNOULLI = np.where(_N % 2 == 1, 2.0, -2.0) * special.zeta(2.0 * _N) / (2.0 * np.pi) ** (2 * _N)


def _k(w: Array) -> tuple[Array, Array, Array]:
    """Return k(w) = w / (e^w - 1) and its first two derivatives, for finite w >= 0."""
    e = np.exp(-w)
    rest = -np.expm1(-w)
    small = w < 1.0
    x = np.where(small, w, 0.0)
    y = np.where(small, 1.0, w)  # keeps the closed forms away from 0 / 0
    ey, resty = np.where(small, 0.5, e), np.where(small, 0.5, rest)
    k0 = np.where(w > 0, w * e / np.where(w > 0, rest, 1.0), 1.0)
    k1 = np.where(
        small,
        -0.5 + x * horner(2.0 * _N * _BERNOULLI, x * x),
        ey * (resty - y) / resty**2,
    )
    k2 = np.where(
        small,
        horner(2.0 * _N * (2.0 * _N - 1.0) * _BERNOULLI, x * x),
        ey * (y * (1.0 + ey) - 2.0 * resty) / resty**3,
    )
    return k0, k1, k2


@dataclass(frozen=True, slots=True)
class MinExtremeValue(Link):
    """The minimum extreme value (Gompertz) distribution, F(z) = 1 - exp(-exp(z)).

    Effects are log hazard ratios: exp(h) is the cumulative hazard.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import MinExtremeValue
    >>> np.exp(MinExtremeValue().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.308, 0.632, 0.934])
    """

    name: ClassVar[str] = "cloglog"
    convex_kinds: ClassVar[frozenset[str]] = frozenset({"exact", "right"})

    def effect_name(self, sign: float) -> str:
        return "hazard ratio" if sign > 0.0 else ""

    @property
    def variance(self) -> float:
        return math.pi**2 / 6.0

    @property
    def tail_rate(self) -> float:
        return math.inf

    def log_moment(self, k: float) -> float:
        return float(special.gammaln(1.0 + k))

    def reach(self, low: Array, slope: float) -> Array:
        return np.full_like(low, math.log(2.0 / slope + 60.0))

    def log_density(self, z: ArrayLike) -> Array:
        z = as_array(z)
        with quiet():
            return np.where(np.isposinf(z), -np.inf, np.where(np.isposinf(z), 0.0, z) - np.exp(z))

    def psi(self, z: ArrayLike) -> Array:
        with quiet():
            return -np.expm1(as_array(z))

    def dpsi(self, z: ArrayLike) -> Array:
        with quiet():
            return -np.exp(as_array(z))

    def d2psi(self, z: ArrayLike) -> Array:
        return self.dpsi(z)

    def log_cdf(self, z: ArrayLike) -> Array:
        z = as_array(z)
        with quiet():
            w = np.exp(z)
            # log(1 - e^-w) = log w - w/2 + O(w^2), also where w itself underflows
            return np.where(w < 1e-8, z - 0.5 * np.minimum(w, 1.0), log1mexp(w))

    def log_sf(self, z: ArrayLike) -> Array:
        with quiet():
            return -np.exp(as_array(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        log_p = as_array(log_p)
        with quiet():
            # log(-log(1 - p)) = log p + p/2 + O(p^2)
            return np.where(log_p < -37.0, log_p, np.log(-log1mexp(-log_p)))

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        with quiet():
            return np.log(-as_array(log_q))

    def exact(self, z: ArrayLike) -> OneEnd:
        z = as_array(z)
        with quiet():
            w = np.exp(z)
            return OneEnd(np.where(np.isinf(w), -np.inf, z - w), np.expm1(z), w, w)

    def left(self, u: ArrayLike) -> OneEnd:
        u = as_array(u)
        with quiet():
            w = np.exp(np.minimum(u, 700.0))  # e^-w is zero long before
            k0, k1, k2 = _k(w)
            return OneEnd(self.log_cdf(u), -k0, -k1 * w, -(k2 * w + k1) * w)

    def right(self, v: ArrayLike) -> OneEnd:
        with quiet():
            w = np.exp(as_array(v))
            return OneEnd(-w, w, w, w)

    def interval(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> TwoEnds:
        u = as_array(u)
        return Link.interval(self, v, np.where(u > 700.0, np.inf, u), width)  # 1 - F(u) is zero there

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        # Delta = exp(-e^v) (1 - e^-w) with w = e^u - e^v; everything follows from k(w).
        ev, eu = np.exp(v), np.exp(u)
        share = -np.expm1(-d)  # w / e^u
        w = eu * share
        k0, k1, k2 = _k(w)
        log_rest = np.where(w < 1e-8, u + log1mexp(d) - 0.5 * w, log1mexp(w))
        grow = k2 * eu
        return TwoEnds(
            log_rest - ev,
            k0 / share,
            np.where(w < 1.0, (k0 + w) / np.expm1(d), ev / np.where(w < 1.0, 1.0, -np.expm1(-w))),
            ev - k0,
            -k1 * eu,
            ev * (1.0 + k1),
            -(grow + k1) * eu,
            grow * ev,
            ev * (1.0 + k1 - k2 * ev),
        )
