"""Means and modes of the distributions of transformation models."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.bases import CountBasis, OrdinalBasis
from anchortm.exceptions import InputTypeError
from anchortm.predict.along_shift import along_shift
from anchortm.predict.integrals import means_by_panels, rows_by_baseline
from anchortm.predict.transformation import CHUNK

if TYPE_CHECKING:
    from anchortm.predict.distribution import PredictedDistribution

__all__ = ["NODES", "SHARED", "WEIGHTS", "mean_of", "mode_of", "tail_slope"]

COUNT_TERMS = 2000  # terms of the mean of a count that are summed one by one
SHARED = 20  # rows that share a baseline are treated together from here on
TAIL = 1e-18  # mass that the quadrature leaves out, unless tails are slow
PANELS = 12  # between two points where h_0 changes
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def mean_of(distribution: PredictedDistribution) -> Array:
    """Return the expectations, see ``PredictedDistribution.mean``."""
    basis, theta = distribution.basis, distribution.theta
    if isinstance(basis, OrdinalBasis):
        raise InputTypeError("classes have no mean")
    if theta.ndim == 2:
        means = np.empty(len(distribution))
        alone = not isinstance(basis, CountBasis) and distribution.after is None
        for rows, part in rows_by_baseline(distribution, SHARED if alone else 1):
            means[rows] = mean_of(part) if part.theta.ndim == 1 else _means_of_their_own(part)
        return means
    endless = _endless(distribution)
    if endless is not None:
        return np.full(len(distribution), endless)
    if distribution.basis.discrete or distribution.after is not None:
        return _along_shift(distribution)
    return _of_a_line(distribution) if _is_line(distribution) else means_by_panels(distribution, _along_shift)


def _endless(distribution: PredictedDistribution) -> float | None:
    """Return the mean of all rows that share a baseline if it is infinite or not a number, else None."""
    basis, theta = distribution.basis, distribution.theta
    first, last = basis.flat_ends(theta)
    if isinstance(basis, CountBasis) and not last:
        return None
    first = first and not distribution._bounded_below
    # y grows like exp(z / slope) where the basis is one in log y
    if first or last or distribution.link.tail_rate * tail_slope(distribution) <= 1.0:
        return math.nan if first and last else -math.inf if first else math.inf
    return None


def _means_of_their_own(distribution: PredictedDistribution) -> Array:
    """Return the means of rows with a baseline each."""
    endless = [_endless(replace(distribution, theta=theta)) for theta in distribution.theta]
    finite = np.array([value is None for value in endless])
    means = np.array([math.nan if value is None else value for value in endless])
    part = distribution[finite]
    means[finite] = _of_a_line(part) if _is_line(part) else means_by_panels(part, _one_by_one)
    return means


def _one_by_one(distribution: PredictedDistribution) -> Array:
    """Return the means of rows with a baseline each that panels do not cover."""
    means = np.empty(len(distribution))
    for rows, part in distribution.by_baseline():
        means[rows] = _quadrature(part)
    return means


def _along_shift(distribution: PredictedDistribution) -> Array:
    """Return the means of rows that share a baseline, where panels do not give them."""
    basis, after = distribution.basis, distribution.after
    work = partial(_count_mean, basis=basis) if isinstance(basis, CountBasis) else _quadrature
    if len(distribution) == 0 or (after is not None and (after != after[0]).any()):
        return work(distribution)

    def at(moved: Array) -> Array:
        later = None if after is None else np.full(moved.size, after[0])
        return work(replace(distribution, shift=moved, gain=1.0, after=later))

    return along_shift(at, distribution.transformation.moved, signed=not distribution._bounded_below)


def mode_of(distribution: PredictedDistribution) -> NDArray[Any]:
    """Return the most probable class or count, see ``PredictedDistribution.mode``."""
    if isinstance(distribution.basis, OrdinalBasis):
        return np.asarray(distribution.basis.labels()[np.argmax(distribution.probabilities(), axis=1)])
    if distribution.basis.kind != "count":
        raise InputTypeError("mode() is for discrete outcomes; a density can have several peaks")
    # counts at many quantiles, then ever finer counts around the best of them
    n = len(distribution)
    grid = np.nan_to_num(distribution.ppf(np.linspace(0.0, 0.999, 200)), posinf=2.0**53)
    grid = np.concatenate([np.zeros((n, 1)), grid], axis=1)
    while True:
        best = np.argmax(distribution.pmf(grid), axis=1)
        rows = np.arange(n)
        low = grid[rows, np.maximum(best - 1, 0)]
        high = grid[rows, np.minimum(best + 1, grid.shape[1] - 1)]
        if n == 0 or (np.diff(grid, axis=1).max() <= 1.0):
            return np.asarray(grid[rows, best])
        grid = np.floor(low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 101))


def tail_slope(distribution: PredictedDistribution) -> float:
    """Return the slope of h_0 in log y beyond the support of a basis in log y, else infinity."""
    basis = distribution.basis
    return basis.end_slopes(distribution.theta)[1] if basis.lower_bound == 0.0 else math.inf


def _is_line(distribution: PredictedDistribution) -> bool:
    """Return whether h is a line in log y, or in y on the whole real line: then the mean has a closed form."""
    line = distribution.basis.line_in
    return line == "log y" or (line == "y" and not distribution._bounded_below)


def _of_a_line(distribution: PredictedDistribution) -> Array:
    """Return E[(Z - theta_1 - moved) / theta_2], or that of its exponential by the moments of exp(Z)."""
    link, (intercept, slope) = distribution.link, distribution.theta.T
    at = intercept + distribution.transformation.moved
    if distribution.basis.line_in == "y":
        standard = replace(distribution, theta=np.array([0.0, 1.0]), shift=np.zeros(1), gain=1.0)
        return np.asarray((means_by_panels(standard, _quadrature)[0] - at) / slope)
    slopes, rows = np.unique(slope, return_inverse=True)
    moments = np.array([link.log_moment(1.0 / float(each)) for each in slopes])[rows]
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(moments.reshape(np.shape(slope)) - at / slope))


def _quadrature(distribution: PredictedDistribution) -> Array:
    """Return the integrals of y over z = h(y | x), each over the range of z that carries it."""
    n, link, basis, theta = len(distribution), distribution.link, distribution.basis, distribution.theta
    h, after = distribution.transformation, distribution.after
    known = np.zeros(n) if after is None else distribution._log_sf_after()
    low = np.full(n, float(link.quantile(TAIL)))
    if after is not None:
        low = np.maximum(low, h.baseline(after) + h.moved)
    high = _upper_end(distribution, low, known)
    knots = [theta[0], theta[-1]]
    if distribution.positive and basis.lower_bound < 0.0:
        knots.append(float(basis.rows([0.0])[0] @ theta))
    total = np.empty(n)
    rows = max(1, CHUNK // ((len(knots) + 1) * PANELS * NODES.size))
    unit = np.linspace(0.0, 1.0, PANELS + 1)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        inner = np.clip(np.array(knots) + h.moved[part, None], low[part, None], high[part, None])
        marks = np.sort(np.column_stack([low[part], inner, high[part]]), axis=1)
        edges = marks[:, :-1, None] + np.diff(marks, axis=1)[:, :, None] * unit
        half = 0.5 * np.diff(edges, axis=2)[..., None]
        z = edges[:, :, :-1, None] + half * (1.0 + NODES)
        z = z.reshape(z.shape[0], -1)
        mass = (half * WEIGHTS).reshape(z.shape) * np.exp(link.log_density(z) - known[part, None])
        y = h.inverse(z - h.moved[part, None])
        total[part] = (mass * np.where(mass > 0.0, y, 0.0)).sum(axis=1)
    return total


def _upper_end(distribution: PredictedDistribution, low: Array, known: Array) -> Array:
    """Return the upper end of the integral: what lies beyond is negligible even where y grows."""
    high = distribution.link.quantile_from_log_sf(known + math.log(TAIL))
    slope = tail_slope(distribution)
    if not math.isfinite(slope):
        return np.asarray(high)
    extra = distribution.link.reach(low, slope)
    return np.asarray(np.maximum(high, np.maximum(extra, 0.0)))


def _count_mean(distribution: PredictedDistribution, basis: CountBasis) -> Array:
    """Return the sum of P(Y > k): the first terms one by one, the rest by the formula of Euler and Maclaurin.

    For a smooth survival function S the terms from K on are the integral of S beyond K
    plus S(K)/2 - S'(K)/12, up to a third derivative; K is far out, where S is smooth.
    """
    k = np.arange(COUNT_TERMS, dtype=np.float64)
    total = np.empty(len(distribution))
    rows = max(1, CHUNK // COUNT_TERMS)
    for start in range(0, len(distribution), rows):
        part = slice(start, start + rows)
        total[part] = distribution[part].sf(k).sum(axis=1)
    inner = replace(distribution, basis=basis.bernstein)
    end = COUNT_TERMS + float(basis.log_first)  # K on the scale of the Bernstein basis
    left = inner.sf(end)
    matters = np.flatnonzero(left > TAIL)
    if matters.size:
        rest = inner[matters]
        beyond = left[matters] * (rest.given(end).mean() - end)
        total[matters] += beyond + 0.5 * left[matters] + rest.pdf(end) / 12.0
    return total
