"""Numerics that several bases share: Bernstein polynomials, lines through points, and the inverse of lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from anchortm._typing import Array

__all__ = ["BLOCK", "bernstein", "invert_line", "line_through", "values_of"]

BLOCK = 32_768  # values in one pass: what a pass needs stays in the cache


def values_of(y: ArrayLike) -> Array:
    """Return y as a vector of doubles."""
    return np.asarray(y, dtype=np.float64).ravel()


def line_through(x: Array, z: Array) -> tuple[float, float]:
    """Return intercept and slope of z on x by least squares, with a positive slope instead of one that is not."""
    x, z = x[np.isfinite(z)], z[np.isfinite(z)]
    if x.size == 0:
        return 0.0, 1.0
    centred = x - x.mean()
    spread = np.abs(centred).max()
    if not spread > 0.0:
        return float(z.mean() - x.mean()), 1.0
    unit = centred / spread
    slope = float(unit @ (z - z.mean()) / (unit @ unit)) / float(spread)
    slope = slope if slope > 0.0 else 1.0 / float(spread)
    return float(z.mean() - slope * x.mean()), slope


def invert_line(intercept: Array, slope: Array, z: Array) -> Array:
    """Return the x with intercept + slope x = z; a flat line gives -inf below it and inf above it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        flat = np.where(z > intercept, np.inf, -np.inf)
        return np.where(np.greater(slope, 0.0), (z - intercept) / slope, flat)


def bernstein(order: int, t: Array, s: Array) -> Array:
    """Return C(order, j) t^j s^(order-j) in row j = 0..order, for t + s = 1 in [0, 1].

    Products of non-negative numbers only: each entry is good to about ``order`` roundings.
    """
    values = np.empty((order + 1, t.size))
    values[0] = 1.0
    for j in range(1, order + 1):
        np.multiply(values[j - 1], t, out=values[j])
    power = np.ones_like(t)
    for j in range(order - 1, -1, -1):
        power *= s
        values[j] *= power
    values *= special.binom(order, np.arange(order + 1))[:, None]
    return values
