"""The logistic distribution: effects are log odds ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from anchortm._typing import Array
from anchortm.links.contract import Link
from anchortm.links.numerics import NEGLIGIBLE, as_array, log1mexp, quiet
from anchortm.links.terms import OneEnd, TwoEnds

__all__ = ["Logistic"]


@dataclass(frozen=True, slots=True)
class Logistic(Link):
    """The standard logistic distribution, F(z) = 1 / (1 + exp(-z)); effects are log odds ratios.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import Logistic
    >>> np.exp(Logistic().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.269, 0.5  , 0.731])
    """

    name: ClassVar[str] = "logit"
    convex_kinds: ClassVar[frozenset[str]] = frozenset({"exact", "left", "right", "interval"})
    symmetric: ClassVar[bool] = True

    def effect_name(self, sign: float) -> str:
        return "odds ratio"  # of larger outcomes with sign -1, of smaller ones with sign 1

    @property
    def variance(self) -> float:
        return math.pi**2 / 3.0

    @property
    def tail_rate(self) -> float:
        return 1.0

    def log_moment(self, k: float) -> float:
        return float(special.gammaln(1.0 + k) + special.gammaln(1.0 - k)) if k < 1.0 else math.inf

    def reach(self, low: Array, slope: float) -> Array:
        return np.asarray(low + NEGLIGIBLE / (1.0 - 1.0 / slope))

    @staticmethod
    def _parts(z: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Return z, F(z), 1 - F(z) and log(1 + exp(-|z|)) from one exponential."""
        z = as_array(z)
        e = np.exp(-np.abs(z))
        large, small = 1.0 / (1.0 + e), e / (1.0 + e)
        return z, np.where(z >= 0, large, small), np.where(z >= 0, small, large), np.log1p(e)

    def log_density(self, z: ArrayLike) -> Array:
        z = np.abs(as_array(z))
        with quiet():
            return -z - 2.0 * np.log1p(np.exp(-z))

    def psi(self, z: ArrayLike) -> Array:
        return -np.tanh(0.5 * as_array(z))

    def dpsi(self, z: ArrayLike) -> Array:
        with quiet():
            _, F, S, _ = self._parts(z)
            return -2.0 * F * S

    def d2psi(self, z: ArrayLike) -> Array:
        return self.dpsi(z) * self.psi(z)

    def log_cdf(self, z: ArrayLike) -> Array:
        return self.log_sf(-as_array(z))

    def log_sf(self, z: ArrayLike) -> Array:
        z = as_array(z)
        with quiet():
            return -np.maximum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))  # several times faster than logaddexp

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        log_p = as_array(log_p)
        with quiet():
            return log_p - log1mexp(-log_p)

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return -self.quantile_from_log_cdf(log_q)

    def exact(self, z: ArrayLike) -> OneEnd:
        with quiet():
            z, F, S, log1pe = self._parts(z)
            r = np.tanh(0.5 * z)
            dr = 2.0 * F * S
            return OneEnd(-np.abs(z) - 2.0 * log1pe, r, dr, -dr * r)

    def left(self, u: ArrayLike) -> OneEnd:
        return self.right(-as_array(u)).reflected()

    def right(self, v: ArrayLike) -> OneEnd:
        with quiet():
            v, F, S, log1pe = self._parts(v)
            f = F * S
            return OneEnd(-np.maximum(v, 0.0) - log1pe, F, f, -f * np.tanh(0.5 * v))

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        # Delta = F(u) (1 - F(v)) (1 - e^-d), a product: its log is a sum of three
        # non-positive terms. Hence p = f(u) / Delta = 1 - F(u) + 1 / (e^d - 1) and
        # q = F(v) + 1 / (e^d - 1), sums of non-negative terms; r_u = f(u), r_v = f(v).
        _, F_u, S_u, log1pe_u = self._parts(u)
        _, F_v, S_v, log1pe_v = self._parts(v)
        fade, rest = np.exp(-d), -np.expm1(-d)
        inside = fade / rest
        log_rest = np.where(d < math.log(2.0), np.log(rest), np.log1p(-fade))
        # r = F(v) - (1 - F(u)), which cancels near u = -v; as a product it does not.
        s = u + v
        r = np.where(s >= 0, F_u * F_v, -S_u * S_v) * -np.expm1(-np.abs(s))
        f_u, f_v = F_u * S_u, F_v * S_v
        return TwoEnds(
            log_rest + np.minimum(u, 0.0) - log1pe_u - np.maximum(v, 0.0) - log1pe_v,
            S_u + inside,
            F_v + inside,
            r,
            f_u,
            f_v,
            f_u * (S_u - F_u),
            np.zeros_like(r),
            f_v * (S_v - F_v),
        )
