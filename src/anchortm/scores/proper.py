"""Proper scores: quantiles of the negative log-likelihood, and the continuous ranked probability score (CRPS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Table
from anchortm.bases import OrdinalBasis
from anchortm.exceptions import InputTypeError
from anchortm.inputs.response import Response
from anchortm.predict.along_shift import along_shift
from anchortm.predict.crps import crps_of_numbers
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.fitted import HasRows
from anchortm.predict.integrals import rows_alike
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.moments import NODES, WEIGHTS
from anchortm.predict.piecewise import PiecewiseDistribution
from anchortm.scores.outcomes import check_predicted, exact_values, predicted

__all__ = ["crps", "crps_of_values", "nll_quantiles"]

CRPS_PANELS = 64  # panels of probabilities, where the quantile loss is integrated
CRPS_STEP = 0.5  # width in h of a panel of counts
CRPS_TAIL = 1e-10  # tail probability of counts beyond which F^2 and (1 - F)^2 are negligible
FIRST_COUNTS = 4096  # counts up to here are summed one by one
FEW_COUNTS = 64  # beyond, panels of at most this many counts are summed one by one
LARGEST_COUNT = 1e150  # a sum that has not converged here counts as infinite
CRPS_ROWS = 500  # rows in one pass over quantiles or counts


def nll_quantiles(nll: ArrayLike, alpha: ArrayLike) -> Array:
    """Return quantiles of the rows' negative log-likelihood, by which the paper compares models under shifts.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.scores.nll_quantiles(model.nll(data), [0.5, 0.9, 1.0]).round(2)
    array([1.09, 1.63, 2.78])
    """
    return np.asarray(np.quantile(np.asarray(nll, dtype=np.float64), np.asarray(alpha, dtype=np.float64)))


def crps(
    distribution: PredictedDistribution | FamilyDistribution | PiecewiseDistribution | HasRows,
    y: ArrayLike | Response | Table,
) -> Array:
    """Return the continuous ranked probability score of exact outcomes, one value per row.

    The integral of (F(t) - 1{y <= t})^2 over t, by Gauss-Legendre: to a relative error of about 1e-12 for continuous
    outcomes, 1e-8 for counts of thousands and for outcomes known to exceed something. It is infinite where the tail is
    too heavy. Classes are scored by their positions. Pass ``y`` as to ``fit``; censored rows are refused. Or pass a
    model that was fitted by a formula and a table.

    Rows that share a baseline are scored together: if they are many, a row takes about a microsecond.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> distribution = model.predict_distribution(data[["duration"]])
    >>> print(atm.scores.crps(distribution, data.waiting).mean().round(2))
    5.78
    >>> model = atm.ContinuousProbit().fit("waiting ~ duration", data)
    >>> print(atm.scores.crps(model, data).mean().round(2))  # the same by a formula
    5.78
    """
    distribution, y = predicted(distribution, y)
    check_predicted(distribution)
    return crps_of_values(distribution, exact_values(distribution, y, "the CRPS"))


def crps_of_values(distribution: Any, codes: Array) -> Array:
    """Return the CRPS of known outcomes, given as numbers or positions of classes."""
    if isinstance(distribution, (FamilyDistribution, PiecewiseDistribution)):
        return distribution.crps(codes)
    if not distribution.discrete:
        return crps_of_numbers(distribution, codes, partial(_by_parts, _crps_by_quantiles))
    scores = np.empty(codes.size)
    for rows, part in distribution.by_baseline():
        scores[rows] = _crps_of_counts(part, codes[rows])
    return scores


def _by_parts(
    work: Callable[[PredictedDistribution, Array], Array], distribution: PredictedDistribution, codes: Array
) -> Array:
    """Return work(distribution, codes), some rows at a time."""
    scores = np.empty(codes.size)
    for start in range(0, codes.size, CRPS_ROWS):
        part = slice(start, start + CRPS_ROWS)
        scores[part] = work(distribution[part], codes[part])
    return scores


def _crps_by_quantiles(distribution: PredictedDistribution, codes: Array) -> Array:
    """Return twice the integral of the quantile loss over probabilities, on panels that split at F(y)."""
    at = distribution.cdf(codes[:, None])[:, 0]
    unit = 0.5 * (1.0 - np.cos(np.pi * np.arange(CRPS_PANELS // 2 + 1) / (CRPS_PANELS // 2)))  # dense at both ends
    total = np.zeros(codes.size)
    for low, high, above in ((np.zeros_like(at), at, False), (at, np.ones_like(at), True)):
        edges = low[:, None] + (high - low)[:, None] * unit
        half = 0.5 * np.diff(edges, axis=1)
        q = ((edges[:, :-1] + half)[:, :, None] + half[:, :, None] * NODES).reshape(codes.size, -1)
        weights = (half[:, :, None] * WEIGHTS).reshape(codes.size, -1)
        gap = np.where(weights > 0.0, distribution.ppf(np.clip(q, 0.0, 1.0)) - codes[:, None], 0.0)  # F(y) may be 1
        # quantile loss: (1{y <= x_q} - q)(x_q - y)
        total += (weights * np.where(above, 1.0 - q, -q) * gap).sum(axis=1)
    return 2.0 * total


def _crps_of_counts(distribution: PredictedDistribution, codes: Array) -> Array:
    """Return the CRPS of counts and classes; small counts of many rows are interpolated along the shift."""
    if isinstance(distribution.basis, OrdinalBasis) or isinstance(distribution, AveragedDistribution):
        return _by_parts(_discrete_crps, distribution, codes)
    scores = np.empty(codes.size)
    for rows in rows_alike(distribution):
        part = distribution[rows]
        last = max(float(np.max(part.isf(1e-9))), float(codes[rows].max())) + 1.0
        if not last < FIRST_COUNTS:
            scores[rows] = _by_parts(_discrete_crps, part, codes[rows])
            continue
        work = partial(_crps_at_counts, part, np.arange(last))
        place = np.maximum(np.ceil(codes[rows]), 0.0).astype(np.intp)
        scores[rows] = along_shift(work, part.transformation.moved, place)
    return scores


def _crps_at_counts(distribution: PredictedDistribution, k: Array, moved: Array) -> Array:
    """Return the CRPS of the outcomes 0, 1, ..., in the columns, of rows whose h is moved by this."""
    at = replace(distribution, shift=moved, gain=1.0)
    below, above = at.cdf(k) ** 2, at.sf(k) ** 2
    scores = np.cumsum(above[:, ::-1], axis=1)[:, ::-1]  # F^2 counts below the outcome, (1 - F)^2 from there on
    scores[:, 1:] += np.cumsum(below, axis=1)[:, :-1]
    return np.asarray(scores)


def _discrete_crps(distribution: PredictedDistribution, codes: Array) -> Array:
    if isinstance(distribution.basis, OrdinalBasis):
        grid = np.array([*distribution.basis.levels], dtype=object)
        below = distribution.cdf(grid)[:, :-1]
        return np.asarray(((below - (codes[:, None] <= np.arange(below.shape[1]))) ** 2).sum(axis=1))
    furthest = max(float(np.max(distribution.isf(1e-9))), float(codes.max()))
    first = int(min(FIRST_COUNTS, furthest + 1.0))
    k = np.arange(first, dtype=np.float64)
    total = np.asarray(((distribution.cdf(k) - (codes[:, None] <= k)) ** 2).sum(axis=1))
    if first < FIRST_COUNTS:
        return total
    if isinstance(distribution, AveragedDistribution):
        raise InputTypeError(f"counts of {FIRST_COUNTS} and more have no CRPS with random effects: use the nll")
    start, never = np.full(codes.size, float(first)), np.full(codes.size, np.inf)
    low = distribution.link.quantile(np.array([CRPS_TAIL]))[0] - distribution.transformation.moved
    with np.errstate(over="ignore"):
        begin = np.floor(distribution.basis.inverse(distribution.theta, low))  # F is negligible below
    below, above = np.clip(begin, start, np.maximum(codes, start)), np.maximum(start, codes)
    jump = np.where(np.isfinite(begin), np.maximum(begin, above), above)  # 1 - F is 1 up to here
    total += _sum_of_squares(distribution, distribution.link.log_cdf, below, codes) + (jump - above)
    return total + _sum_of_squares(distribution, distribution.link.log_sf, jump, never)


def _sum_of_squares(
    distribution: PredictedDistribution, log: Callable[[Array], Array], low: Array, high: Array
) -> Array:
    """Return the sums of squared probabilities over the counts low <= k < high, panel by panel.

    A panel ends where h has risen by one step, so that h is smooth on it. A panel of few counts is summed. A panel of
    many counts is replaced by an integral whose ends lie half a count lower, with the first correction term of Euler
    and Maclaurin. An unbounded sum that has not converged at the largest count is infinite.
    """
    theta, basis = distribution.theta, distribution.basis

    def square(k: Array, rows: NDArray[np.intp]) -> Array:
        h = (basis.rows(k.ravel()) @ theta).reshape(k.shape)
        return np.asarray(np.exp(2.0 * log(h + distribution.transformation.moved[rows, None])))

    total, low, high = np.zeros(low.size), low.copy(), high.copy()
    while (rows := np.flatnonzero(high > low)).size:
        a = low[rows]
        with np.errstate(over="ignore"):
            risen = basis.inverse(theta, basis.rows(a) @ theta + CRPS_STEP)
        b = np.maximum(np.floor(np.minimum(1.3 * a, risen)), np.maximum(a + FEW_COUNTS, (1.0 + 1e-9) * a))
        b = np.minimum(b, high[rows])
        part, few = np.empty(a.size), b - a <= FEW_COUNTS
        k = a[few, None] + np.arange(FEW_COUNTS)
        part[few] = np.where(k < b[few, None], square(k, rows[few]), 0.0).sum(axis=1)
        c, d, many = a[~few], b[~few], rows[~few]
        half = 0.5 * (d - c)
        ends = square(np.stack([c - 1.0, c, d - 1.0, d], axis=1), many) @ [1.0, -1.0, -1.0, 1.0]
        inside = square((c + half - 0.5)[:, None] + half[:, None] * NODES, many) @ WEIGHTS
        part[~few] = half * inside - ends / 24.0
        total[rows] += part
        low[rows] = b
        converged = rows[np.isinf(high[rows]) & (part <= 1e-14 * total[rows])]
        high[converged] = low[converged]
        if low.max() > LARGEST_COUNT:
            return np.where(high > low, np.inf, total)
    return total
