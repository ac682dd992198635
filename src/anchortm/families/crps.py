"""The continuous ranked probability score by quadrature, for families without a closed form.

The score is the integral of (F(t) - 1{y <= t})^2 over t, a sum over whole numbers for counts. Beyond the quantiles of
``TAIL`` and 1 - ``TAIL`` the squares of probabilities add nothing, so that an outcome there adds its distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from anchortm._typing import Array

__all__ = ["LEVELS", "continuous_crps", "discrete_crps"]

TAIL = 1e-8
MOST_TERMS = 1000  # most terms of a sum that is computed term by term
ALL_TERMS, FEW = 48, 12  # terms of a piece that is summed term by term, and nodes of the others
LEVELS = np.array([TAIL, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.15, 0.3, 0.5])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def continuous_crps(law: Any, y: Array, quantiles: Array | None = None) -> Array:
    """Return the scores of y under distributions of scipy of shape (n, 1), by Gauss and Legendre between quantiles.

    ``quantiles`` are those of ``LEVELS`` from below and from above, roughly, if the law is slow to find them.
    """
    quantiles = _quantiles(law) if quantiles is None else quantiles
    low, high = quantiles[:, 0], quantiles[:, -1]
    edges = np.sort(np.column_stack([quantiles, np.clip(y, low, high)]), axis=1)
    half = 0.5 * np.diff(edges, axis=1)
    t = (edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES
    flat = t.reshape(y.size, -1)
    above = flat >= y[:, None]
    squares = np.where(above, law.sf(flat), law.cdf(flat)) ** 2
    inside = np.einsum("npk,k,np->n", squares.reshape(t.shape), WEIGHTS, half)
    return np.asarray(inside + np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0))


def discrete_crps(law: Any, y: Array, quantiles: Array | None = None) -> Array:
    """Return the scores of whole numbers y under distributions of scipy of shape (n, 1), as sums.

    ``quantiles`` are those of ``LEVELS`` from below and from above, roughly, if the law is slow to find them.
    """
    if quantiles is not None:
        return _by_pieces(law, y, quantiles)
    low, high = law.ppf(TAIL)[:, 0], law.isf(TAIL)[:, 0]
    n_terms = int((high - low).max()) + 1
    if n_terms > MOST_TERMS:
        return _by_pieces(law, y, _quantiles(law))
    scores = np.maximum(low - y, 0.0) + np.maximum(y - high - 1.0, 0.0)
    for k in range(n_terms):
        at = low + k
        scores += np.where(at <= high, (law.cdf(at[:, None])[:, 0] - (y <= at)) ** 2, 0.0)
    return np.asarray(scores)


def _quantiles(law: Any) -> Array:
    """Return the quantiles of ``LEVELS``, from below and from above."""
    return np.column_stack([law.ppf(LEVELS[None, :]), law.isf(LEVELS[None, -2::-1])])


def _by_pieces(law: Any, y: Array, quantiles: Array) -> Array:
    """Return the scores of distributions with long tails: sums of F^2 below y and of (1 - F)^2 from y on, by pieces.

    Pieces are as long as the distance between quantiles, so that F is nearly a polynomial on each. Its sum over a
    long piece follows from a few of the terms.
    """
    low, high = quantiles[:, 0], quantiles[:, -1] + 1.0
    scores = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    for way, tail in ((1.0, law.sf), (-1.0, law.cdf)):
        found = []
        for edges, first in zip(quantiles, np.clip(y, low, high), strict=True):
            pieces = [(np.array([first]), np.zeros(1)), *_outwards(edges, first, way)]
            found.append([np.concatenate(parts) for parts in zip(*pieces, strict=True)])
        size = max(place.size for place, _ in found)
        at = np.array([np.pad(place, (0, size - place.size), mode="edge") for place, _ in found])
        weights = np.array([np.pad(weight, (0, size - weight.size)) for _, weight in found])
        scores += (weights * tail(at) ** 2).sum(axis=1)
    return np.asarray(scores)


def _outwards(edges: Array, start: float, way: float) -> Iterator[tuple[Array, Array]]:
    """Yield places and weights of pieces from an outcome to the last quantile upwards, or to the first downwards."""
    here, end = start, edges[-1] + 1.0 if way > 0.0 else edges[0]
    while (end - here) * way > 0.0:
        k = int(np.clip(np.searchsorted(edges, here, side="right" if way > 0.0 else "left"), 1, edges.size - 1))
        length = max(1, min(int(edges[k] - edges[k - 1]), int(abs(end - here))))
        if length > ALL_TERMS:  # few different lengths
            length = math.floor(ALL_TERMS * 1.25 ** math.floor(math.log(length / ALL_TERMS, 1.25)))
        place, weight = _sum_rule(length)
        yield (here + place if way > 0.0 else here - 1.0 - place), weight
        here += way * length


@lru_cache(maxsize=4096)
def _sum_rule(length: int) -> tuple[Array, Array]:
    """Return places and weights whose weighted sum is that of a polynomial over 0, 1, ..., length - 1."""
    if length <= ALL_TERMS:
        return np.arange(float(length)), np.ones(length)
    last = length - 1.0
    place = np.round(0.5 * last * (1.0 - np.cos(np.pi * np.arange(FEW) / (FEW - 1))))
    n = np.arange(FEW)
    if length <= 20 * MOST_TERMS:
        sums = np.polynomial.chebyshev.chebvander(2.0 * np.arange(length) / last - 1.0, FEW - 1).sum(axis=0)
    else:  # the formula of Euler and Maclaurin; odd polynomials add up to 0
        sums = np.where(n % 2 == 0, last / (1.0 - n**2.0 + (n % 2)) + 1.0 + n**2 / 3.0 / last, 0.0)
    matrix = np.polynomial.chebyshev.chebvander(2.0 * place / last - 1.0, FEW - 1)
    return place, np.linalg.solve(matrix.T, sums)
