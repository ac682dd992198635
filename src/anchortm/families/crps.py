"""The continuous ranked probability score by quadrature, for families without a closed form.

The score is the integral of (F(t) - 1{y <= t})^2 over t, a sum over whole numbers for counts. Beyond the quantiles of
``TAIL`` and 1 - ``TAIL`` the squares of probabilities add nothing, so that an outcome there adds its distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anchortm._typing import Array

__all__ = ["continuous_crps", "discrete_crps"]

TAIL = 1e-8
LEVELS = np.array([TAIL, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def continuous_crps(law: Any, y: Array) -> Array:
    """Return the scores of y under distributions of scipy of shape (n, 1), by Gauss and Legendre between quantiles."""
    quantiles = np.column_stack([law.ppf(LEVELS), law.isf(LEVELS[-2::-1])])
    low, high = quantiles[:, 0], quantiles[:, -1]
    edges = np.sort(np.column_stack([quantiles, np.clip(y, low, high)]), axis=1)
    half = 0.5 * np.diff(edges, axis=1)
    t = (edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES
    flat = t.reshape(y.size, -1)
    above = flat >= y[:, None]
    squares = np.where(above, law.sf(flat), law.cdf(flat)) ** 2
    inside = np.einsum("npk,k,np->n", squares.reshape(t.shape), WEIGHTS, half)
    return np.asarray(inside + np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0))


def discrete_crps(law: Any, y: Array) -> Array:
    """Return the scores of whole numbers y under distributions of scipy of shape (n, 1), as sums."""
    low, high = law.ppf(TAIL)[:, 0], law.isf(TAIL)[:, 0]
    n_terms = int((high - low).max()) + 1
    scores = np.maximum(low - y, 0.0) + np.maximum(y - high - 1.0, 0.0)
    for k in range(n_terms):
        at = low + k
        scores += np.where(at <= high, (law.cdf(at[:, None])[:, 0] - (y <= at)) ** 2, 0.0)
    return np.asarray(scores)
