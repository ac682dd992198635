"""The linear basis (1, y)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array
from anchortm.bases.contract import Basis, Increments
from anchortm.bases.numerics import invert_line, line_through, values_of

__all__ = ["LinearBasis"]


@dataclass(frozen=True)
class LinearBasis(Basis):
    """a(y) = (1, y): a linear transformation with slope theta_2 >= 0.

    Examples
    --------
    >>> from anchortm.bases import LinearBasis
    >>> LinearBasis().rows([0.5, 2.0])
    array([[1. , 0.5],
           [1. , 2. ]])
    """

    kind: ClassVar[str] = "linear"
    line_in: ClassVar[str] = "y"

    @property
    def n_parameters(self) -> int:
        return 2

    @property
    def parameter_names(self) -> list[str]:
        return ["(Intercept)", "y"]

    def rows(self, y: ArrayLike) -> Array:
        y = values_of(y)
        return np.column_stack([np.ones_like(y), y])

    def derivative_rows(self, y: ArrayLike) -> Array:
        y = values_of(y)
        return np.column_stack([np.zeros_like(y), np.ones_like(y)])

    def difference_rows(self, lower: ArrayLike, upper: ArrayLike) -> Array:
        width = values_of(upper) - values_of(lower)
        return np.column_stack([np.zeros_like(width), width])

    @cached_property
    def increments(self) -> Increments:
        return Increments(np.eye(2), np.array([-np.inf, 0.0]), np.full(2, np.inf), np.zeros((0, 2)))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        return np.array(line_through(values_of(points), values_of(z)))

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        intercept, slope = np.asarray(theta, dtype=np.float64).T
        return invert_line(intercept, slope, np.asarray(z, dtype=np.float64))

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        slope = float(np.asarray(theta)[1])
        return (slope, slope)
