"""Confidence bands and restricted means of survival curves with steps, as ``CoxPH`` predicts them.

They are symmetric on the scale of log Lambda(t | x) = log Lambda_0(t) + (x - mean)'beta, with Lambda_0 the hazard at
average covariates, so that survival stays in [0, 1]. There is one joint covariance of log Lambda_0(t) at some event
times and of beta. At xi = 0 it is that of the model: independent jumps for known beta, and the inverse information of
beta. Otherwise it comes from the influences of rows on both (the infinitesimal jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from anchortm.engine.hazard_steps import ROUNDING, Steps
from anchortm.engine.objective.baseline_steps import BaselineSteps
from anchortm.engine.objective.partial_likelihood import PartialObjective
from anchortm.exceptions import InputError
from anchortm.inference.bands import DRAWS, ConfidenceBand, Of, band_of_refits, checked_points, covariance_root
from anchortm.inference.bootstrap import Bootstrap, bootstrap, refuse_recalibrated
from anchortm.inference.covariance import (
    KINDS,
    check_net,
    check_strict,
    check_total,
    default_kind,
    influence,
    inverse_hessian,
)
from anchortm.inference.restricted_means import Groups, RestrictedMeans, means_of_refits
from anchortm.predict.fitted import Fitted
from anchortm.predict.survival_steps import StepDistribution

__all__ = ["step_band", "step_means"]

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
    refuse_recalibrated(model.result_)
    kind = _checked_kind(model, uncertainty)
    if isinstance(kind, Bootstrap):
        return band_of_refits(distribution, _refits(model, distribution, X, kind), at, of, level, simultaneous)
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
            limits[:, own] = known.quantiles(start, curve, shift, X[own] - known.mean, points, level)
        else:
            h, width = known.logs(start, curve, points, shift, X[own] - known.mean, level, simultaneous)
            limits[:, own] = np.sort([_probabilities(end, of) for end in (h - width, h + width)], axis=0)
    estimate, (lower, upper) = np.asarray(getattr(distribution, of)(points)), limits
    return ConfidenceBand(of, points, estimate, lower, upper, level, simultaneous, "delta method", of != "ppf")


def _probabilities(h: Array, of: Of) -> Array:
    """Return P(Y <= t) or P(Y > t) from h = log Lambda."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-np.exp(h)) if of == "sf" else -np.expm1(-np.exp(h)))


def step_means(
    model: Fitted, distribution: StepDistribution, X: Array, tau: float, groups: Groups, uncertainty: Any
) -> RestrictedMeans:
    """Return restricted means of predicted survival curves; see ``restricted_mean`` of ``CoxPH``."""
    refuse_recalibrated(model.result_)
    kind = _checked_kind(model, uncertainty)
    if isinstance(kind, Bootstrap):
        return means_of_refits(distribution, _refits(model, distribution, X, kind), tau, groups)
    known = _joint(model, kind)
    # the derivative in log Lambda(t | x) of the length of a step times the survival there
    g, x = np.zeros((groups.n, known.slopes.shape[0])), np.zeros((groups.n, X.shape[1]))
    shift = distribution.shift - distribution.centre
    for i, (code, group) in enumerate(zip(distribution.stratum, groups.codes, strict=True)):
        curve = distribution.curves[code]
        start, size = int(np.searchsorted(known.steps.sets.stratum, code)), int(np.searchsorted(curve.time, tau))
        hazard = curve.total[:size] * np.exp(shift[i])
        own = -np.exp(-hazard) * hazard * np.diff(curve.time[:size], append=tau) / groups.sizes[group]
        g[group, start : start + size] += own
        x[group] += own.sum() * (X[i] - known.mean)
    return groups.means(tau, distribution.restricted_mean(tau), known.deviations(g, x), "delta method")


def _checked_kind(model: Fitted, uncertainty: Any) -> str | Bootstrap:
    """Return a kind of covariance, or a bootstrap."""
    kind = default_kind(model.result_, None) if uncertainty is None else uncertainty
    if not isinstance(kind, Bootstrap) and not (isinstance(kind, str) and kind in KINDS):
        raise InputError(
            f"uncertainty must be one of {', '.join(KINDS)}, or what bootstrap() returns, not {kind!r}: a covariance "
            "of the coefficients does not say how uncertain the steps of the baseline are"
        )
    found = bootstrap(model) if kind == "bootstrap" else kind
    return found.complete() if isinstance(found, Bootstrap) else found


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
    mean: Array  # means of the covariates
    slopes: Array  # derivatives of log Lambda_0 in the coefficients, at all event times
    coef: Array  # the covariance of the coefficients
    shares: Array | None = None  # the influence of each row on the coefficients; None if the covariance is the model's
    weighted: Array | None = None  # the same times the weight of the row and n / (n - 1)
    weights: Array | None = None

    def at(self, times: Codes) -> tuple[Array, Array]:
        """Return the covariance of logs at some event times of one stratum, and that of coefficients with them."""
        slopes = self.slopes[times].T
        if self.shares is None or self.weighted is None or self.weights is None:
            cross = self.coef @ slopes
            return slopes.T @ cross + self.steps.noise(times), cross
        own = self.shares @ slopes
        own[self.steps.sets.order] += self.steps.shares(times)
        return own.T @ (own * self.weights[:, None]), self.weighted.T @ own

    def of_rows(self, X: Array) -> Array:
        """Return the variances of x'beta."""
        return np.asarray(np.einsum("ij,jk,ik->i", X, self.coef, X))

    def logs(
        self, start: int, curve: Steps, times: Array, shift: Array, X: Array, level: float, simultaneous: bool
    ) -> tuple[Array, Array]:
        """Return log Lambda of rows of a stratum at some times, and half the width of its band.

        ``start`` is the position of the first event time of the stratum; before it the width is 0.
        """
        with np.errstate(divide="ignore"):
            h = np.log(curve(times)) + shift[:, None]
        reached, place = np.unique(np.searchsorted(curve.time, times, side="right"), return_inverse=True)
        width, own = np.zeros((len(X), reached.size)), self.of_rows(X)[:, None]
        late = np.flatnonzero(reached > 0)
        size = max(late.size, 1) if simultaneous else BLOCK
        for first in range(0, late.size, size):
            here = late[first : first + size]
            V, cross = self.at(start + reached[here] - 1)
            error = np.sqrt(np.maximum(np.diag(V) + 2.0 * X @ cross + own, 0.0))
            critical = _critical(V, cross, self.coef, X, error, level) if simultaneous else _normal(level)
            width[:, here] = critical * error
        return h, width[:, place]

    def deviations(self, g: Array, x: Array) -> Array:
        """Return independent deviations, one a row, that add up to that of g'log Lambda_0 + x'beta.

        ``g`` has a column for each event time of all strata.
        """
        b = g @ self.slopes + x
        if self.shares is None or self.weights is None:
            noise = np.array([self.steps.noise_of(own) for own in g])
            return np.vstack([noise.T, covariance_root(self.coef).T @ b.T])
        own = self.shares @ b.T
        own[self.steps.sets.order] += np.column_stack([self.steps.shares_of(each) for each in g])
        return np.asarray(own * np.sqrt(self.weights)[:, None])

    def quantiles(self, start: int, curve: Steps, shift: Array, X: Array, q: Array, level: float) -> Array:
        """Return the ends of the times around each quantile at which the band of the curve contains its probability."""
        at, own, total = cache(lambda k: self.at(np.array([start + k]))), self.of_rows(X), np.log(curve.total)

        def limit(i: int, k: int, side: float) -> float:
            (variance,), cross = at(k)
            error = math.sqrt(max(float(variance[0] + 2.0 * X[i] @ cross[:, 0] + own[i]), 0.0))
            return float(total[k] + shift[i] + side * _normal(level) * error)

        def ends(i: int, k: int, needed: float) -> tuple[int, int]:
            """Return where the limits of row i pass ``needed``; the curve itself does so at k."""
            back = _first(lambda steps: limit(i, k - 1 - steps, 1.0) < needed, k)
            return k - back, k + _first(lambda steps: limit(i, k + steps, -1.0) >= needed, total.size - k)

        found = np.empty((2, shift.size, q.size), dtype=np.intp)
        for j, needed in enumerate(np.log(-np.log1p(-q) * (1.0 - ROUNDING))):
            for i, k in enumerate(np.searchsorted(total, needed - shift).tolist()):
                found[:, i, j] = ends(i, k, needed)
        return np.asarray(np.append(curve.time, np.inf)[found])


def _normal(level: float) -> float:
    return float(stats.norm.ppf(0.5 + 0.5 * level))


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


def _critical(V: Array, cross: Array, coef: Array, X: Array, error: Array, level: float) -> Array:
    """Return for each row by how many errors theta_j + x'beta deviates from its mean at most, for all j at once."""
    m = V.shape[0]
    values, vectors = np.linalg.eigh(np.block([[V, cross.T], [cross, coef]]))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    z = root @ np.random.default_rng(0).normal(size=(values.size, DRAWS))
    result = np.empty((len(X), 1))
    for i, x in enumerate(X):
        moving = error[i] > 0.0
        paths = (z[:m][moving] + x @ z[m:]) / error[i, moving, None]
        result[i] = np.quantile(np.abs(paths).max(axis=0, initial=0.0), level)
    return result


def _joint(model: Fitted, kind: str) -> _Joint:
    """Return the joint covariance of the steps and the coefficients, by the model or from influences."""
    result, problem = model.result_, model.problem_
    check_net(result)
    check_strict(result)
    objective = problem.make_objective(result.link, problem.data).unpenalised
    assert isinstance(objective, PartialObjective)  # noqa: S101
    coordinates = objective.coordinates
    steps = objective.steps(coordinates.join(result.baseline, result.coef))
    # from the coefficients to the internal parameters, which may belong to turned columns
    p = result.coef.size
    inward = (
        np.array([coordinates.join(result.baseline, unit) for unit in np.eye(p)]).reshape(p, objective.n_parameters).T
    )
    mean, slopes = (coordinates.mean / coordinates.scale) @ inward, steps.slopes() @ inward
    if kind == "hessian":
        return _Joint(steps, mean, slopes, inverse_hessian(result))
    check_total(result)
    if result.reweighed:
        raise InputError(
            "bands of the baseline of CoxPH do not support environment_weights from a covariance: use "
            "uncertainty='bootstrap'"
        )
    anchors = problem.data.anchors
    order = None if anchors is None else anchors.order()
    shares = influence(model) if order is None else influence(model)[order]
    weights = np.full(objective.n_rows, result.n_total / (result.n_total - 1.0))
    weights *= 1.0 if objective.weights is None else objective.weights
    weighted = shares * weights[:, None]
    return _Joint(steps, mean, slopes, weighted.T @ shares, shares, weighted, weights)
