"""Numerics that several bases share: lines through points, and their inverse."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array

__all__ = ["invert_line", "line_through", "values_of"]


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
