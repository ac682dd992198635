"""Means, quantiles and the CRPS of many rows, against slow ways to compute them row by row."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate

import anchortm as atm
from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis
from anchortm.bases import polynomial as polynomials
from anchortm.links import LINKS
from anchortm.predict import along_shift as shifts
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.marginal import AveragedDistribution
from anchortm.predict.moments import _count_mean, _quadrature

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
WAVE = np.array([-4.0, -2.5, -2.4, 0.5, 0.9, 3.0, 4.5])
BASES: dict[str, tuple[Basis, np.ndarray]] = {
    "linear": (LinearBasis(), np.array([0.3, 1.7])),
    "log-linear": (LogLinearBasis(), np.array([-1.0, 2.5])),
    "Bernstein": (BernsteinBasis(6, (1.0, 9.0)), WAVE),
    "Bernstein, order 1": (BernsteinBasis(1, (-2.0, 3.0)), np.array([-2.0, 2.0])),
    "Bernstein, order 20": (BernsteinBasis(20, (0.0, 5.0)), np.linspace(-1.6, 1.7, 21) ** 3),
    "Bernstein, natural": (BernsteinBasis(4, (-3.0, 3.0), False, "natural"), np.array([-3.0, -2.0, -1.0, 1.5, 4.0])),
    "Bernstein in log y": (BernsteinBasis(6, (0.5, 30.0), log_first=True), 2.5 * WAVE),
    "Bernstein in log y, flat below": (
        BernsteinBasis(4, (0.5, 30.0), log_first=True),
        np.array([-3.0, -3.0, 0.0, 3.0, 9.0]),
    ),
}
links = pytest.mark.parametrize("link", LINKS)
bases = pytest.mark.parametrize("name", BASES)
FAR = np.array([-40.0, -15.0, -6.0, -0.3, 0.0, 2.2, 7.5, 14.0, 40.0])


def rows_of(link: str, name: str, shift: np.ndarray, positive: bool = False) -> PredictedDistribution:
    basis, theta = BASES[name]
    return PredictedDistribution(LINKS[link], basis, theta, shift, positive, None, -1.0)


def slow_integral(
    dist: PredictedDistribution, function: Callable[[np.ndarray], np.ndarray], low: float, high: float
) -> float:
    """Return the integral of a function of h over y for one row, on many panels of equal width in h."""
    if not high > low:
        return 0.0
    theta, basis, moved = dist.theta, dist.basis, dist.transformation.moved[0]
    in_logs = basis.lower_bound == 0.0
    edges = basis.inverse(theta, np.arange(-46.0, 66.0, 0.25) - moved)
    support = getattr(basis, "support", ())
    edges = np.concatenate([edges, [low, high], support, np.linspace(*support, 200) if support else []])
    if in_logs:
        edges = np.concatenate([edges, np.geomspace(1e-25, 1e6, 200)])
    edges = np.unique(np.clip(edges, low, high))
    edges = edges[np.isfinite(edges) & (edges > (0.0 if in_logs else -np.inf))]
    x = np.log(edges) if in_logs else edges
    half = 0.5 * np.diff(x)
    nodes = ((x[:-1] + half)[:, None] + half[:, None] * NODES).ravel()
    y, jacobian = (np.exp(nodes), np.exp(nodes)) if in_logs else (nodes, np.ones(nodes.size))
    values = function(basis.rows(y) @ theta + moved)
    return math.fsum((half[:, None] * WEIGHTS).ravel() * values * jacobian)


def ends(dist: PredictedDistribution) -> tuple[float, float]:
    """Return between which y F is neither 0 nor 1 to double precision, given that it is not at an atom at 0."""
    if not dist._bounded_below:
        return float(dist.ppf(1e-19)[0]), float(dist.isf(1e-19)[0])
    beyond = 1e-60 if dist.basis.lower_bound == 0.0 else 1e-20  # a basis in log y has long tails
    start = dist.transformation.baseline(np.array([1e-30]))[0] + dist.transformation.moved
    log_q = math.log(beyond) + dist.link.log_sf(start)
    return 0.0, float(dist.transformation.inverse(dist.link.quantile_from_log_sf(log_q) - dist.transformation.moved)[0])


def slow_mean(dist: PredictedDistribution) -> float:
    """Return E[Y] = c + (integral of 1 - F above c) - (integral of F below c) for one row."""
    low, high = ends(dist)
    centre = low if dist._bounded_below else float(np.clip(dist.median()[0], low, high))
    F, S = (lambda z: np.exp(dist.link.log_cdf(z))), (lambda z: np.exp(dist.link.log_sf(z)))
    return centre + slow_integral(dist, S, centre, high) - slow_integral(dist, F, low, centre)


def slow_crps(dist: PredictedDistribution, y: float) -> float:
    """Return the integral of F^2 below y and of (1 - F)^2 above it for one row."""
    low, high = ends(dist)
    F2, S2 = (lambda z: np.exp(2 * dist.link.log_cdf(z))), (lambda z: np.exp(2 * dist.link.log_sf(z)))
    inside = float(np.clip(y, low, high))
    return abs(y - inside) + slow_integral(dist, F2, low, inside) + slow_integral(dist, S2, inside, high)


def close(found: np.ndarray, wanted: np.ndarray, dist: PredictedDistribution) -> None:
    """Compare means: relative to how large outcomes are, if they have both signs."""
    scale = np.abs(wanted) if dist._bounded_below else np.abs(dist.ppf([0.1, 0.9])).max(axis=1) + np.abs(wanted)
    assert (np.abs(found - wanted) <= 1e-12 * scale + 1e-50).all(), (found, wanted)


@links
@bases
@pytest.mark.parametrize("positive", [False, True])
def test_means_and_scores_of_a_few_rows(link: str, name: str, positive: bool) -> None:
    """Also far from the support, and with mass that becomes an atom at 0."""
    dist = rows_of(link, name, FAR, positive)
    close(dist.mean(), np.array([slow_mean(dist[i]) for i in range(FAR.size)]), dist)
    y = dist.ppf(np.linspace(0.02, 0.98, FAR.size)[:, None])[:, 0]
    wanted = np.array([slow_crps(dist[i], y[i]) for i in range(FAR.size)])
    np.testing.assert_allclose(atm.scores.crps(dist, y), wanted, rtol=1e-12, atol=1e-50)
