"""The basis of counts: Bernstein polynomials in log(1 + y) or y."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm.bases.bernstein import BernsteinBasis, check_support
from anchortm.bases.contract import Basis, Increments, baseline_values
from anchortm.bases.numerics import BLOCK, values_of
from anchortm.exceptions import InputError

__all__ = ["CountBasis"]


@dataclass(frozen=True)
class CountBasis(Basis):
    """Bernstein polynomials for counts, in log(1 + y) (``log_first``) or y; support in counts.

    Examples
    --------
    >>> from anchortm.bases import CountBasis
    >>> CountBasis(2, (0.0, 3.0)).rows([0.0, 1.0, 3.0]).round(3)
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.5 , 0.25],
           [0.  , 0.  , 1.  ]])
    """

    order: int = 6
    support: tuple[float, float] = (0.0, 1.0)
    log_first: bool = True
    extrapolate: Literal["linear", "natural"] = "linear"
    kind: ClassVar[str] = "count"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        low, high = check_support(self.support, positive=False)
        if low < 0.0:
            raise InputError(f"the support of counts starts at 0 or above, not at {low:g}")
        object.__setattr__(self, "support", (low, high))
        _ = self.bernstein  # refuses what a Bernstein basis refuses
        object.__setattr__(self, "order", int(self.order))

    @cached_property
    def bernstein(self) -> BernsteinBasis:
        """Return the basis in y, or in 1 + y with ``log_first``."""
        low, high = self.support
        shift = float(self._shift)
        return BernsteinBasis(self.order, (low + shift, high + shift), self.log_first, self.extrapolate)

    @property
    def _shift(self) -> bool:
        return self.log_first

    @property
    def n_parameters(self) -> int:
        return self.bernstein.n_parameters

    @property
    def lower_bound(self) -> float:
        return -1.0

    @property
    def parameter_names(self) -> list[str]:
        return self.bernstein.parameter_names

    def rows(self, y: ArrayLike) -> Array:
        return self.bernstein.rows(values_of(y) + self._shift)

    def derivative_rows(self, y: ArrayLike) -> Array:
        return self.bernstein.derivative_rows(values_of(y) + self._shift)

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        return self.bernstein.difference_rows(values_of(lower) + self._shift, values_of(upper) + self._shift)

    @property
    def increments(self) -> Increments:
        return self.bernstein.increments

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        return self.bernstein.start(values_of(points) + self._shift, z)

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        theta, z = np.asarray(theta, dtype=np.float64), np.asarray(z, dtype=np.float64)
        k = np.ceil(np.maximum(self.bernstein.inverse(theta, z) - self._shift, 0.0)).ravel()
        flat = z.ravel()
        for start in range(0, k.size, BLOCK):
            part = slice(start, start + BLOCK)
            # the ceiling of a rounded number may be one too high: P(Y <= k - 1) decides
            check = start + np.flatnonzero(np.isfinite(k[part]) & (k[part] >= 1.0))
            before = baseline_values(self.rows(k[check] - 1.0), theta if theta.ndim == 1 else theta[check])
            k[check] -= before >= flat[check]
        return k.reshape(z.shape)

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        return self.bernstein.end_slopes(theta)
