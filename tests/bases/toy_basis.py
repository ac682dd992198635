"""A basis in one file: (1, y, asinh y), a line with a steeper middle, so that both tails of y are heavy."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anchortm.bases import Basis, Increments


@dataclass(frozen=True)
class AsinhBasis(Basis):
    unit: float = 1.0  # y is measured in this unit
    kind: ClassVar[str] = "asinh"

    @property
    def n_parameters(self) -> int:
        return 3

    @property
    def parameter_names(self) -> list[str]:
        return ["(Intercept)", "y", "asinh(y)"]

    def _scaled(self, y: ArrayLike) -> np.ndarray:
        return np.asarray(y, dtype=float).ravel() / self.unit

    def rows(self, y: ArrayLike) -> np.ndarray:
        x = self._scaled(y)
        return np.column_stack([np.ones_like(x), x, np.arcsinh(x)])

    def derivative_rows(self, y: ArrayLike) -> np.ndarray:
        x = self._scaled(y)
        return np.column_stack([np.zeros_like(x), np.ones_like(x), 1.0 / np.sqrt(1.0 + x**2)]) / self.unit

    @cached_property
    def increments(self) -> Increments:
        return Increments(np.eye(3), np.array([-np.inf, 0.0, 0.0]), np.full(3, np.inf), np.zeros((0, 3)))

    def start(self, points: ArrayLike, z: ArrayLike) -> np.ndarray:
        x, z = self._scaled(points), np.asarray(z, dtype=float)
        slope, intercept = np.polyfit(x[np.isfinite(z)], z[np.isfinite(z)], 1)
        return np.array([intercept, slope / 2.0, slope / 2.0])

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> np.ndarray:
        z, theta = np.asarray(z, dtype=float), np.asarray(theta, dtype=float)
        low, high = np.full(z.shape, -1e6), np.full(z.shape, 1e6)
        for _ in range(100):  # bisection
            middle = 0.5 * (low + high)
            above = (self.rows(middle) @ theta).reshape(z.shape) >= z
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return high

    def end_slopes(self, theta: ArrayLike) -> tuple[float, float]:
        slope = float(np.asarray(theta)[1]) / self.unit
        return (slope, slope)
