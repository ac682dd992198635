"""The log-linear basis (1, log y) for positive outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm._util.checks import one_number
from anchortm.bases.contract import Basis, Increments
from anchortm.bases.numerics import invert_line, line_through, values_of
from anchortm.exceptions import InputError

__all__ = ["LogLinearBasis"]


@dataclass(frozen=True)
class LogLinearBasis(Basis):
    """a(y) = (1, log y) for y > 0, with slope theta_2 >= 0, or fixed to ``slope``.

    Examples
    --------
    >>> from anchortm.bases import LogLinearBasis
    >>> LogLinearBasis().rows([1.0, 2.0]).round(3)
    array([[1.   , 0.   ],
           [1.   , 0.693]])
    """

    slope: float | None = None
    kind: ClassVar[str] = "log-linear"
    line_in: ClassVar[str] = "log y"

    def __post_init__(self) -> None:
        if self.slope is not None and not (0.0 < one_number(self.slope, "slope") < math.inf):
            raise InputError(f"slope must be a positive number or None, not {self.slope!r}")

    @property
    def n_parameters(self) -> int:
        return 2

    @property
    def lower_bound(self) -> float:
        return 0.0

    @property
    def parameter_names(self) -> list[str]:
        return ["(Intercept)", "log(y)"]

    def rows(self, y: ArrayLike) -> Array:
        y = values_of(y)
        return np.column_stack([np.ones_like(y), np.log(y)])

    def derivative_rows(self, y: ArrayLike) -> Array:
        y = values_of(y)
        return np.column_stack([np.zeros_like(y), 1.0 / y])

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        lower, upper = values_of(lower), values_of(upper)
        return np.column_stack([np.zeros_like(lower), np.log1p((upper - lower) / lower)])

    @cached_property
    def increments(self) -> Increments:
        low, high = (0.0, np.inf) if self.slope is None else (self.slope, self.slope)
        return Increments(np.eye(2), np.array([-np.inf, low]), np.array([np.inf, high]), np.zeros((0, 2)))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        points, z = values_of(points), values_of(z)
        x, z = np.log(points[points > 0]), z[points > 0]
        if self.slope is None:
            return np.array(line_through(x, z))
        finite = np.isfinite(z)
        return np.array([float(np.mean(z[finite] - self.slope * x[finite])), self.slope])

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        intercept, slope = np.asarray(theta, dtype=np.float64).T
        with np.errstate(over="ignore"):
            return np.exp(invert_line(intercept, slope, np.asarray(z, dtype=np.float64)))

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        slope = float(np.asarray(theta)[1])
        return (slope, slope)
