"""The normal distribution: effects are shifts on a latent normal scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from anchortm._typing import Array
from anchortm.links.contract import Link
from anchortm.links.numerics import LOG_SQRT_2PI, as_array, horner, quiet
from anchortm.links.terms import OneEnd, TwoEnds, put

__all__ = ["Normal"]

_MILLS_SERIES_FROM = 10.0
_DOUBLE_FACTORIALS = np.cumprod(2.0 * np.arange(1, 25) - 1.0)  # (2k - 1)!!, k = 1, 2, ...
_NEAR_TERMS = 22


class _Mills(NamedTuple):
    """The upper tail of the normal distribution at x, relative to its density there."""

    ratio: Array  # (1 - Phi(x)) / phi(x)
    q: Array  # its inverse, E[Z | Z > x]
    excess: Array  # q - x, without the subtraction
    dq: Array
    d2q: Array


def _mills(x: Array) -> _Mills:
    # q' = q (q - x) and q'' = q ((q - x)(2q - x) - 1). For large x, q - x ~ 1/x and
    # q'' ~ 2/x^3: both would drown in rounding. With t = 1/x^2 and x * ratio = 1 - delta,
    #   delta = t a,   a = sum_k (-1)^(k+1) (2k-1)!! t^(k-1)
    #   q - x = a / (x (1 - delta)),   q' = a / (1 - delta)^2
    #   q'' = (c - a (a + b)) / (x (1 - delta))^3,   with
    #   b = sum_k (-1)^(k+1) (2k+1)!! t^(k-1),   c = sum_k (-1)^(k+1) 2k (2k+1)!! t^(k-1)
    # Below -40 the density is zero in double precision, and so is everything but the ratio.
    ratio = math.sqrt(math.pi / 2.0) * special.erfcx(np.maximum(x, -40.0) / math.sqrt(2.0))
    q = 1.0 / ratio
    excess = q - np.clip(x, -40.0, _MILLS_SERIES_FROM)
    dq, d2q = q * excess, q * (excess * (q + excess) - 1.0)
    far = x > _MILLS_SERIES_FROM
    if far.any():
        big = x[far]
        t = big**-2.0
        odd = _DOUBLE_FACTORIALS
        k = np.arange(1, odd.size)
        sign = np.where(k % 2 == 1, 1.0, -1.0)
        a = horner(sign * odd[:-1], t)
        b = horner(sign * odd[1:], t)
        c = horner(sign * 2.0 * k * odd[1:], t)
        rest = 1.0 - t * a
        q[far] = big / rest
        excess[far] = a / (big * rest)
        dq[far] = a / rest**2
        d2q[far] = (c - a * (a + b)) / (big * rest) ** 3
    return _Mills(ratio, q, excess, dq, d2q)


@dataclass(frozen=True, slots=True)
class Normal(Link):
    """The standard normal distribution; effects are shifts on a latent normal scale.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import Normal
    >>> np.exp(Normal().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.159, 0.5  , 0.841])
    >>> Normal().log_sf(40.0).round(2).item()
    -804.61
    """

    name: ClassVar[str] = "probit"
    convex_kinds: ClassVar[frozenset[str]] = frozenset({"exact"})
    quadratic: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    def widened_by_normal(self, sd: Array) -> Array:
        return np.sqrt(1.0 + sd**2)  # the sum of two independent normal variables is normal

    @property
    def variance(self) -> float:
        return 1.0

    @property
    def tail_rate(self) -> float:
        return math.inf

    def log_moment(self, k: float) -> float:
        return 0.5 * k * k

    def reach(self, low: Array, slope: float) -> Array:
        return np.full_like(low, 1.0 / slope + 9.5)

    def log_density(self, z: ArrayLike) -> Array:
        with quiet():
            return -0.5 * np.square(as_array(z)) - LOG_SQRT_2PI

    def psi(self, z: ArrayLike) -> Array:
        return -as_array(z)

    def dpsi(self, z: ArrayLike) -> Array:
        return np.full_like(as_array(z), -1.0)

    def d2psi(self, z: ArrayLike) -> Array:
        return np.zeros_like(as_array(z))

    def log_cdf(self, z: ArrayLike) -> Array:
        return np.asarray(special.log_ndtr(as_array(z)))

    def log_sf(self, z: ArrayLike) -> Array:
        return self.log_cdf(-as_array(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        return np.asarray(special.ndtri_exp(as_array(log_p)))

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return -self.quantile_from_log_cdf(log_q)

    def left(self, u: ArrayLike) -> OneEnd:
        return self.right(-as_array(u)).reflected()

    def right(self, v: ArrayLike) -> OneEnd:
        v = as_array(v)
        with quiet():
            tail = _mills(v.ravel())
        q, dq, d2q = (x.reshape(v.shape) for x in (tail.q, tail.dq, tail.d2q))
        return OneEnd(self.log_sf(v), q, dq, d2q)

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        # By symmetry let the midpoint be >= 0; then treat narrow intervals, intervals in
        # the upper tail and intervals around zero by the formulas that suit them.
        flip = u < -v
        v, u = np.where(flip, -u, v), np.where(flip, -v, u)
        near = (d < 1.0) & (0.5 * (u + v) * d < 1.0)
        tail = ~near & (v >= 0)
        terms = TwoEnds(*np.empty((9, v.size)))
        for mask, formula in ((near, self._near), (tail, self._tail), (~near & ~tail, self._around_zero)):
            if mask.any():
                put(terms, mask, formula(v[mask], u[mask], d[mask]))
        return TwoEnds(*(np.where(flip, turned, x) for x, turned in zip(terms, terms.reflected(), strict=True)))

    @staticmethod
    def _near(v: Array, u: Array, d: Array) -> TwoEnds:
        # With m the midpoint, D = d/2 and t = Z - m, the density of t in (-D, D) is
        # proportional to exp(-m t - t^2/2) = sum_n He_n(m) (-t)^n / n!. Its moments
        # M_k = E[(t/D)^k] (unnormalised) are sums of b_n = He_n(m) D^n / n! over n + k + 1;
        # even terms b_n and odd terms c_n = b_n / D follow from He_(n+1) = m He_n - n He_(n-1).
        D, m = 0.5 * d, 0.5 * (u + v)
        DD = D * D
        even, odd = np.ones_like(D), m.copy()
        M0, M2 = even.copy(), even / 3.0
        T1, T3 = -odd / 3.0, -odd / 5.0
        for n in range(2, _NEAR_TERMS, 2):
            even = DD * (m * odd - even) / n
            odd = (m * even - DD * odd) / (n + 1)
            M0 += even / (n + 1)
            M2 += even / (n + 3)
            T1 -= odd / (n + 3)
            T3 -= odd / (n + 5)
        M2, T1, T3 = M2 / M0, T1 / M0, T3 / M0
        # E[t] = D^2 T1, Var t = D^2 V, third central moment D^4 K; p d and q d stay finite.
        tilt = D * T1
        V = M2 - tilt**2
        K = T3 - 3.0 * T1 * M2 + 2.0 * DD * T1**3
        pd, qd = np.exp(-D * (m + 0.5 * D)) / M0, np.exp(D * (m - 0.5 * D)) / M0
        r_uv = -0.5 * pd * qd * T1
        # d/dm twice gives r_uu + 2 r_uv + r_vv = E[(t - E t)^3]; d/dD of 1 - Var t gives
        # r_uu - r_vv. Neither cancels, however narrow the interval.
        total = DD**2 * K - 2.0 * r_uv
        difference = -0.5 * D * (pd * ((1.0 - tilt) ** 2 - V) + qd * ((1.0 + tilt) ** 2 - V))
        return TwoEnds(
            -0.5 * m**2 - LOG_SQRT_2PI + np.log(2.0 * D * M0),
            pd / (2.0 * D),
            qd / (2.0 * D),
            m + DD * T1,
            0.5 * pd * (1.0 - tilt),
            0.5 * qd * (1.0 + tilt),
            0.5 * (total + difference),
            r_uv,
            0.5 * (total - difference),
        )

    @staticmethod
    def _tail(v: Array, u: Array, d: Array) -> TwoEnds:
        # Delta = phi(v) B with B = M(v) - e^-s M(u), M the Mills ratio, s = (u^2 - v^2)/2 >= 1/2.
        # r - v = E[Z - v] = (M(v) e(v) - e^-s M(u) (e(u) + d)) / B, e the Mills excess.
        s = 0.5 * d * (u + v)
        lower, upper = _mills(v), _mills(u)
        fade = np.exp(-s)
        B = lower.ratio - fade * upper.ratio
        q = 1.0 / B
        above = (lower.ratio * lower.excess - fade * upper.ratio * (upper.excess + d)) * q
        terms = Normal._from_distances(v, u, -0.5 * v**2 - LOG_SQRT_2PI + np.log(B), q, above, d - above)
        # Where the upper end no longer counts, the right-censored form has no cancellation.
        return terms._replace(r_vv=np.where(s > 45.0, lower.d2q, terms.r_vv))

    @staticmethod
    def _around_zero(v: Array, u: Array, d: Array) -> TwoEnds:
        # v < 0 < u: Delta is a sum of two positive numbers, and 1 - Delta another one.
        inside = 0.5 * (special.erf(u / math.sqrt(2.0)) + special.erf(-v / math.sqrt(2.0)))
        outside = special.ndtr(v) + special.ndtr(-u)
        log_delta = np.where(inside < 0.5, np.log(inside), np.log1p(-outside))
        q = np.exp(-0.5 * v**2 - LOG_SQRT_2PI) / inside
        r = -q * np.expm1(-0.5 * d * (u + v))
        return Normal._from_distances(v, u, log_delta, q, r - v, u - r)

    @staticmethod
    def _from_distances(v: Array, u: Array, log_delta: Array, q: Array, above: Array, below: Array) -> TwoEnds:
        """Return the terms from log Delta, q and the distances above = r - v, below = u - r."""
        s = 0.5 * (u - v) * (u + v)
        p = q * np.exp(-s)
        return TwoEnds(
            log_delta,
            p,
            q,
            -q * np.expm1(-s),
            p * below,
            q * above,
            p * (1.0 - below * (u + 2.0 * p)),
            p * q * (below - above),
            q * (above * (2.0 * q - v) - 1.0),
        )
