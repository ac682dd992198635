"""Confidence bands of survival curves with steps, as ``CoxPH`` predicts them.

They are symmetric on the scale of log Lambda(t | x) = log Lambda_0(t) + (x - mean)'beta, with Lambda_0 the hazard at
average covariates, so that survival stays in [0, 1]. There is one joint covariance of log Lambda_0(t) at some event
times and of beta. At xi = 0 it is that of the model: independent jumps for known beta, and the inverse information of
beta. Otherwise it comes from the influences of rows on both (the infinitesimal jackknife).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from anchortm.engine.hazard_steps import ROUNDING, Steps
from anchortm.engine.objective.baseline_steps import BaselineSteps
from anchortm.engine.objective.partial_likelihood import PartialObjective
from anchortm.exceptions import InputError
from anchortm.inference.bands import DRAWS, ConfidenceBand, Of, band_of_refits, checked_points
from anchortm.inference.bootstrap import Bootstrap, bootstrap
from anchortm.inference.covariance import (
    KINDS,
    check_net,
    check_strict,
    check_total,
    default_kind,
    influence,
    inverse_hessian,
)
from anchortm.predict.fitted import Fitted
from anchortm.predict.survival_steps import StepDistribution

__all__ = ["step_band"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK = 64  # event times whose influences are in memory at once


def step_band(
    model: Fitted,
    distribution: StepDistribution,
    X: Array,
    at: ArrayLike,
    of: Of,
    level: float,
    simultaneous: bool,
    uncertainty: Any,
) -> ConfidenceBand:
    """Return the band of predicted survival curves; see ``confidence_band`` of ``CoxPH``."""
    points = checked_points(distribution, at, of, level)
    kind = default_kind(model.result_, None) if uncertainty is None else uncertainty
    if not isinstance(kind, Bootstrap) and not (isinstance(kind, str) and kind in KINDS):
        raise InputError(
            f"uncertainty must be one of {', '.join(KINDS)}, or what bootstrap() returns, not {kind!r}: a covariance "
            "of the coefficients does not say how uncertain the steps of the baseline are"
        )
    if isinstance(kind, Bootstrap) or kind == "bootstrap":
        draws = kind if isinstance(kind, Bootstrap) else bootstrap(model)
        return band_of_refits(distribution, _refits(model, distribution, X, draws), at, of, level, simultaneous)
    if of == "ppf" and simultaneous:
        raise InputError(
            "simultaneous=True does not support quantiles of CoxPH, because all of the curve would have to be covered, "
            "and its first steps are not normal: use of='sf' at the times of interest"
        )
    known = _joint(model, kind)
    limits = np.empty((2, len(distribution), points.size))
    for code in np.unique(distribution.stratum):
        own, curve = np.flatnonzero(distribution.stratum == code), distribution.curves[code]
        start = int(np.searchsorted(known.steps.sets.stratum, code))
        shift = distribution.shift[own] - distribution.centre
        if of == "ppf":
            limits[:, own] = known.quantiles(start, curve, shift, X[own], points, level)
        else:
            h, width = known.logs(start, curve, points, shift, X[own], level, simultaneous)
            limits[:, own] = np.sort([_probabilities(end, of) for end in (h - width, h + width)], axis=0)
    estimate, (lower, upper) = np.asarray(getattr(distribution, of)(points)), limits
    return ConfidenceBand(of, points, estimate, lower, upper, level, simultaneous, "delta method", of != "ppf")


def _probabilities(h: Array, of: Of) -> Array:
    """Return P(Y <= t) or P(Y > t) from h = log Lambda."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-np.exp(h)) if of == "sf" else -np.expm1(-np.exp(h)))


def _refits(model: Fitted, distribution: StepDistribution, X: Array, draws: Bootstrap) -> list[StepDistribution]:
    """Return the curves that resampled fits predict for the same rows."""
    coef = model.result_.coef
    if draws.draws.shape[1] != coef.size or len(draws.steps) != len(draws.draws):
        raise InputError("the bootstrap does not have the coefficients and baselines of this model: pass its bootstrap")
    return [
        StepDistribution(curves, distribution.stratum, distribution.shift + X @ (draw - coef), centre=centre)
        for draw, (curves, centre) in zip(draws.draws, draws.steps, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Joint:
    """The joint covariance of log Lambda_0(t) and the coefficients."""

    steps: BaselineSteps
    mean: Array  # of the covariates
    scale: Array  # d(parameters of ``steps``)/d(coef)
    matrix: Array | None  # of the coefficients by the model; otherwise:
    shares: Array | None = None  # the influence of each row on the coefficients
    weights: Array | None = None  # of rows, times n / (n - 1)

    @cached_property
    def _slopes(self) -> Array:
        return self.steps.slopes() * self.scale

    def at(self, times: Codes) -> Array:
        """Return it at some event times of one stratum; coefficients come last."""
        slopes, m = self._slopes[times], times.size
        if self.shares is None or self.weights is None:
            assert self.matrix is not None  # noqa: S101
            J = np.vstack([slopes, np.eye(self.scale.size)])
            V = J @ self.matrix @ J.T
            V[:m, :m] += self.steps.noise(times)
            return np.asarray(V)
        Z = np.hstack([self.shares @ slopes.T, self.shares])
        Z[self.steps.sets.order, :m] += self.steps.shares(times)
        return np.asarray(Z.T @ (Z * self.weights[:, None]))

    def logs(
        self, start: int, curve: Steps, times: Array, shift: Array, X: Array, level: float, simultaneous: bool = False
    ) -> tuple[Array, Array]:
        """Return log Lambda of rows of a stratum at some times, and half the width of its band.

        ``start`` is the position of the first event time of the stratum; before it the width is 0.
        """
        with np.errstate(divide="ignore"):
            h = np.log(curve(times)) + shift[:, None]
        reached, place = np.unique(np.searchsorted(curve.time, times, side="right"), return_inverse=True)
        width = np.zeros((len(X), reached.size))
        late = np.flatnonzero(reached > 0)
        size = max(late.size, 1) if simultaneous else BLOCK
        for first in range(0, late.size, size):
            here = late[first : first + size]
            width[:, here] = _widths(self.at(start + reached[here] - 1), X - self.mean, level, simultaneous)
        return h, width[:, place]

    def quantiles(self, start: int, curve: Steps, shift: Array, X: Array, q: Array, level: float) -> Array:
        """Return the ends of the times around each quantile at which the band of the curve contains its probability."""

        @cache
        def limits(k: int) -> tuple[Array, Array]:
            h, width = self.logs(start, curve, curve.time[k : k + 1], shift, X, level)
            return (h - width)[:, 0], (h + width)[:, 0]

        def ends(i: int, k: int, needed: float) -> tuple[int, int]:
            """Return where the limits of row i pass ``needed``; the curve itself does so at k."""
            back = _first(lambda steps: limits(k - 1 - steps)[1][i] < needed, k)
            return k - back, k + _first(lambda steps: limits(k + steps)[0][i] >= needed, curve.time.size - k)

        found = np.empty((2, shift.size, q.size), dtype=np.intp)
        for j, needed in enumerate(np.log(-np.log1p(-q) * (1.0 - ROUNDING))):
            for i, k in enumerate(np.searchsorted(np.log(curve.total), needed - shift).tolist()):
                found[:, i, j] = ends(i, k, needed)
        return np.asarray(np.append(curve.time, np.inf)[found])


def _first(test: Callable[[int], bool], size: int) -> int:
    """Return the first of 0, ..., size - 1 that fulfils a test, which those after it do, too; size if there is none.

    The test is made at 0, 1, 3, 7, ..., and then between the last two.
    """
    low, high = -1, 0
    while high < size and not test(high):
        low, high = high, 2 * high + 1
    high = min(high, size)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if test(middle) else (middle, high)
    return high


def _widths(V: Array, X: Array, level: float, simultaneous: bool) -> Array:
    """Return multiples of the standard errors of theta_j + x_i'beta; the covariance of (theta, beta) is V."""
    m = V.shape[0] - X.shape[1]
    own = np.einsum("ij,jk,ik->i", X, V[m:, m:], X)
    error = np.sqrt(np.maximum(np.diag(V)[:m] + 2.0 * X @ V[m:, :m] + own[:, None], 0.0))
    if not simultaneous:
        return np.asarray(stats.norm.ppf(0.5 + 0.5 * level) * error)
    values, vectors = np.linalg.eigh(V)
    z = (vectors * np.sqrt(np.maximum(values, 0.0))) @ np.random.default_rng(0).normal(size=(V.shape[0], DRAWS))
    for i, x in enumerate(X):
        moving = error[i] > 0.0
        paths = (z[:m][moving] + x @ z[m:]) / error[i, moving, None]
        error[i] *= np.quantile(np.abs(paths).max(axis=0, initial=0.0), level)
    return np.asarray(error)


def _joint(model: Fitted, kind: str) -> _Joint:
    """Return the joint covariance of the steps and the coefficients, by the model or from influences."""
    result, problem = model.result_, model.problem_
    check_net(result)
    check_strict(result)
    objective = problem.make_objective(result.link, problem.data).unpenalised
    assert isinstance(objective, PartialObjective)  # noqa: S101
    coordinates = objective.coordinates
    steps = objective.steps(coordinates.join(result.baseline, result.coef))
    mean, scale = coordinates.mean, coordinates.scale
    if kind == "hessian":
        return _Joint(steps, mean, scale, inverse_hessian(result))
    check_total(result)
    weights = np.ones(objective.n_rows) if objective.weights is None else objective.weights
    anchors = problem.data.anchors
    order = None if anchors is None else anchors.order()
    shares = influence(model) if order is None else influence(model)[order]
    return _Joint(steps, mean, scale, None, shares, weights * (result.n_total / (result.n_total - 1.0)))
