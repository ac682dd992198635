"""Numerics that several links share: stable logarithms, polynomials, and the search for the end of a tail."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array

__all__ = ["LOG_SQRT_2PI", "NEGLIGIBLE", "as_array", "horner", "last_where", "log1mexp", "panels", "quiet"]

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
NEGLIGIBLE = 45.0  # an integrand e^-45 times its largest value adds nothing to the integral


def quiet() -> np.errstate:
    """Silence over- and underflow of exp and log of 0; an invalid operation still warns."""
    return np.errstate(over="ignore", under="ignore", divide="ignore")


def as_array(x: ArrayLike) -> Array:
    """Return x as an array of doubles, without a copy where it already is one."""
    return np.asarray(x, dtype=np.float64)


def log1mexp(x: ArrayLike) -> Array:
    """Return log(1 - exp(-x)) for x >= 0 without cancellation."""
    x = as_array(x)
    with quiet():
        return np.where(x < math.log(2.0), np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def horner(coefficients: Array, t: Array) -> Array:
    """Return the polynomial with these coefficients, the constant first, at t."""
    value = np.full_like(t, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * t + c
    return value


def last_where(holds: Callable[[Array], NDArray[np.bool_]], start: Array) -> Array:
    """Return how far a condition holds above ``start``, to a relative error of 1e-3; ``start`` where it never does.

    The condition must hold on one stretch that begins at ``start``.
    """
    step = np.ones_like(start)
    for _ in range(60):
        on = holds(start + step)
        if not on.any():
            break
        step = np.where(on, 2.0 * step, step)
    inside, outside = np.zeros_like(start), step
    for _ in range(12):
        middle = 0.5 * (inside + outside)
        on = holds(start + middle)
        inside, outside = np.where(on, middle, inside), np.where(on, outside, middle)
    return np.asarray(start + outside)


def panels(edges: Array) -> tuple[Array, Array, Array]:
    """Return the nodes (20 for each panel between two edges), their weights and the half widths of the panels.

    The integral of g is ``weights @ g(nodes) @ half`` (Gauss and Legendre).
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 0.5 * np.diff(edges)
    return edges[:-1] + half + half * nodes[:, None], weights, half
