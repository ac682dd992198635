"""Numerics that several families share: a smooth function of the deviance, means of differences, spreads."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from anchortm._typing import Array

__all__ = ["columns", "excess", "excess_alone", "half_mean_difference", "of_counts", "spread"]

SERIES = 0.2  # K is summed as a series below this
TERMS = 24
COEFFICIENTS = np.array([2.0 * (-1.0) ** j / (j + 2) for j in range(TERMS + 1)])
STEP, STEPS = 0.1, 400  # width and half the number of steps of the integral in ``half_mean_difference``


def columns(*values: Array) -> Array:
    """Return values as the columns of a matrix, each of them contiguous."""
    return np.array(values).T


def of_counts(values: Callable[[Array], Array], y: Array) -> Array:
    """Return a function of counts, computed once for each count where rows are more than counts."""
    largest = float(y.max(initial=0.0))
    if not largest < y.size or (y != np.floor(y)).any():
        return values(y)
    return np.asarray(values(np.arange(largest + 1.0))[y.astype(np.intp)])


def excess(u: Array) -> tuple[Array, Array, Array]:
    """Return K(u) = 2 (u - log(1 + u)) / u^2 for u > -1, and its first and second derivative."""
    small = np.abs(u) < SERIES
    x = np.where(small, 1.0, u)
    K = 2.0 * (x - np.log1p(x)) / x**2
    K1 = (2.0 / (1.0 + x) - 2.0 * K) / x
    K2 = (-2.0 / (1.0 + x) ** 2 - 3.0 * K1) / x
    if small.any():
        s = u[small]
        a0, a1, a2 = (np.zeros(s.size) for _ in range(3))
        for j in range(TERMS, -1, -1):  # Horner's scheme, with derivatives
            a2 = a2 * s + 2.0 * a1
            a1 = a1 * s + a0
            a0 = a0 * s + COEFFICIENTS[j]
        K[small], K1[small], K2[small] = a0, a1, a2
    return K, K1, K2


def excess_alone(u: Array) -> Array:
    """Return K(u) without its derivatives."""
    small = np.abs(u) < SERIES
    x = np.where(small, 1.0, u)
    K = 2.0 * (x - np.log1p(x)) / x**2
    if small.any():
        s, a = u[small], np.zeros(int(small.sum()))
        for c in COEFFICIENTS[::-1]:
            a = a * s + c
        K[small] = a
    return np.asarray(K)


def half_mean_difference(closed: Array, mu: Array, alpha: float) -> Array:
    """Return E|Y - Y'| / 2 of counts: the closed form or, where that is not finite, an integral.

    E|Y - Y'| is the integral of (1 - |phi(t)|^2) / (1 - cos t) from 0 to pi, divided by pi, with the characteristic
    function |phi|^2 = (1 + 4 alpha mu (1 + alpha mu) sin^2(t / 2))^(-1 / alpha), in the Poisson limit
    exp(-4 mu sin^2(t / 2)). With tan(t / 2) = e^u it is smooth and falls like e^-|u|, so that equal steps suffice.
    """
    lost = np.flatnonzero(~np.isfinite(closed) & (mu > 0.0) & np.isfinite(mu))
    result = np.array(closed, dtype=np.float64)
    for row in lost:
        variance = mu[row] * (1.0 + alpha * mu[row])
        u = np.arange(-STEPS, STEPS) * STEP - 0.5 * np.log1p(variance)
        sine = 4.0 * variance / (1.0 + np.exp(-2.0 * u))
        power = sine if alpha == 0.0 else np.log1p(alpha * sine) / alpha
        result[row] = 0.5 * STEP / np.pi * float(np.sum(-np.expm1(-power) * np.exp(-u)))
    return result


def spread(y: Array, weights: Array | None) -> float:
    """Return the standard deviation of y, or 1 if y is constant; y may be as large as a double can be."""
    largest = float(np.abs(y).max(initial=0.0)) or 1.0
    unit = y / largest
    mean = np.average(unit, weights=weights)
    return largest * math.sqrt(float(np.average((unit - mean) ** 2, weights=weights))) or 1.0
