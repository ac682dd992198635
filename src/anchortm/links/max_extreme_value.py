"""The maximum extreme value distribution, the mirror image of the minimum one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from anchortm._typing import Array
from anchortm.links.contract import Link
from anchortm.links.min_extreme_value import MinExtremeValue
from anchortm.links.numerics import NEGLIGIBLE, as_array
from anchortm.links.terms import OneEnd, TwoEnds

__all__ = ["MaxExtremeValue"]

_MIRROR = MinExtremeValue()


@dataclass(frozen=True, slots=True)
class MaxExtremeValue(Link):
    """The maximum extreme value (Gumbel) distribution, F(z) = exp(-exp(-z)).

    The mirror image of ``MinExtremeValue``; effects are log ratios of reverse-time hazards.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.links import MaxExtremeValue
    >>> np.exp(MaxExtremeValue().log_cdf([-1.0, 0.0, 1.0])).round(3)
    array([0.066, 0.368, 0.692])
    """

    name: ClassVar[str] = "loglog"
    convex_kinds: ClassVar[frozenset[str]] = frozenset({"exact", "left"})

    def effect_name(self, sign: float) -> str:
        return "" if sign > 0.0 else "reverse-time hazard ratio"

    @property
    def variance(self) -> float:
        return math.pi**2 / 6.0

    @property
    def tail_rate(self) -> float:
        return 1.0

    def log_moment(self, k: float) -> float:
        return float(special.gammaln(1.0 - k)) if k < 1.0 else math.inf

    def reach(self, low: Array, slope: float) -> Array:
        return np.asarray(low + NEGLIGIBLE / (1.0 - 1.0 / slope))

    def log_density(self, z: ArrayLike) -> Array:
        return _MIRROR.log_density(-as_array(z))

    def psi(self, z: ArrayLike) -> Array:
        return -_MIRROR.psi(-as_array(z))

    def dpsi(self, z: ArrayLike) -> Array:
        return _MIRROR.dpsi(-as_array(z))

    def d2psi(self, z: ArrayLike) -> Array:
        return -_MIRROR.d2psi(-as_array(z))

    def log_cdf(self, z: ArrayLike) -> Array:
        return _MIRROR.log_sf(-as_array(z))

    def log_sf(self, z: ArrayLike) -> Array:
        return _MIRROR.log_cdf(-as_array(z))

    def quantile_from_log_cdf(self, log_p: ArrayLike) -> Array:
        return -_MIRROR.quantile_from_log_sf(log_p)

    def quantile_from_log_sf(self, log_q: ArrayLike) -> Array:
        return -_MIRROR.quantile_from_log_cdf(log_q)

    def exact(self, z: ArrayLike) -> OneEnd:
        return _MIRROR.exact(-as_array(z)).reflected()

    def left(self, u: ArrayLike) -> OneEnd:
        return _MIRROR.right(-as_array(u)).reflected()

    def right(self, v: ArrayLike) -> OneEnd:
        return _MIRROR.left(-as_array(v)).reflected()

    def interval(self, v: ArrayLike, u: ArrayLike, width: ArrayLike | None = None) -> TwoEnds:
        return _MIRROR.interval(-as_array(u), -as_array(v), width).reflected()

    def _interval(self, v: Array, u: Array, d: Array) -> TwoEnds:
        return _MIRROR._interval(-u, -v, d).reflected()
