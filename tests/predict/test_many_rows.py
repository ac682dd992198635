"""Means, quantiles and the CRPS of many rows, against slow ways to compute them row by row."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special

import anchortm as atm
from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, inversion
from anchortm.bases.numerics import bernstein
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
FAR = np.array([-40.0, -11.0, -0.3, 2.2, 9.5, 40.0])


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
    edges = basis.inverse(theta, np.arange(-46.0, 90.0, 0.5) - moved)
    support = getattr(basis, "support", ())
    edges = np.concatenate([edges, [low, high], support, np.linspace(*support, 60) if support else []])
    if in_logs:
        edges = np.concatenate([edges, np.geomspace(1e-25, 1e6, 80)])
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


MANY = np.random.default_rng(0).normal(0.5, 3.0, 4000)


@links
@bases
@pytest.mark.parametrize("positive", [False, True])
def test_many_rows_are_like_few(link: str, name: str, positive: bool) -> None:
    """Interpolated and direct values agree, for rows inside and outside the well-filled cells."""
    dist = rows_of(link, name, MANY, positive)
    some = np.r_[np.arange(0, 4000, 250), np.argmin(MANY), np.argmax(MANY)]
    close(dist.mean()[some], dist[some].mean(), dist[some])
    y = dist.ppf(np.random.default_rng(1).random((4000, 1)))[:, 0]
    scores = atm.scores.crps(dist, y)
    np.testing.assert_allclose(scores[some], atm.scores.crps(dist[some], y[some]), rtol=1e-12, atol=1e-20)
    q = np.array([0.0, 1e-12, 0.1, 0.5, 0.9, 1.0 - 1e-9, 1.0, np.nan])
    table, wanted = dist.ppf(q)[some], dist[some].ppf(q)
    np.testing.assert_allclose(table, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.isinf(table), np.isinf(wanted))


@links
def test_counts_and_means_given_survival(link: str) -> None:
    basis, theta = CountBasis(4, (0.0, 20.0)), np.array([-2.0, 0.0, 1.0, 4.0, 8.0])
    dist = PredictedDistribution(LINKS[link], basis, theta, MANY[:1500])
    some = np.arange(0, 1500, 100)
    np.testing.assert_allclose(dist.mean()[some], _count_mean(dist[some], basis), rtol=1e-12)
    q = np.array([0.0, 0.01, 0.5, 0.99])
    np.testing.assert_array_equal(np.tile(dist.ppf(q), 2)[some, :4], dist[some].ppf(q))
    k = dist.ppf(np.random.default_rng(4).random((1500, 1)))[:, 0]
    grid = np.arange(float(dist[some].isf(1e-11).max()) + 1.0)
    wanted = ((dist[some].cdf(grid) - (k[some, None] <= grid)) ** 2).sum(axis=1)
    np.testing.assert_allclose(atm.scores.crps(dist, k)[some], wanted, rtol=1e-12, atol=1e-19)
    later = rows_of(link, "Bernstein in log y", MANY[:1500]).given(after=3.0)
    np.testing.assert_allclose(later.mean()[some], _quadrature(later[some]), rtol=1e-12)
    differs = later.given(after=np.where(np.arange(1500) == 7, 4.0, 3.0))[some]
    np.testing.assert_array_equal(differs.mean(), _quadrature(differs))


def scaled(name: str, n: int) -> np.ndarray:
    """Return a baseline for each row: h stretched and moved."""
    rng = np.random.default_rng(3)
    return BASES[name][1] * np.exp(0.2 * rng.normal(size=(n, 1))) + (
        0.0 if "inear" in name else 0.3 * rng.normal(size=(n, 1))
    )


@links
@bases
def test_rows_with_a_baseline_each(link: str, name: str) -> None:
    theta = scaled(name, 70)
    theta[40:] = theta[40]  # these share theirs
    dist = replace(rows_of(link, name, MANY[:70]), theta=theta)
    alone = [replace(dist[[i]], theta=theta[i]) for i in range(70)]
    y = dist.ppf(np.random.default_rng(1).random((70, 1)))[:, 0]
    scores = np.concatenate([atm.scores.crps(one, y[[i]]) for i, one in enumerate(alone)])
    close(dist.mean(), np.concatenate([one.mean() for one in alone]), dist)
    np.testing.assert_allclose(atm.scores.crps(dist, y), scores, rtol=1e-12)


def test_flat_ends_of_some_rows() -> None:
    basis = BernsteinBasis(3, (1.0, 5.0))
    theta = np.array([[-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 1.0], [-1.0, -1.0, 1.0, 2.0], [-1.0, -1.0, 1.0, 1.0]])
    dist = PredictedDistribution(LINKS["logit"], basis, theta, np.zeros(4))
    mean = dist.mean()
    assert np.isfinite(mean[0])
    np.testing.assert_array_equal(mean[1:], [np.inf, -np.inf, np.nan])
    scores = atm.scores.crps(dist, np.full(4, 2.0))
    assert np.isfinite(scores[0])
    assert np.isposinf(scores[1:]).all()
    above_zero = replace(dist, positive=True)[2]
    area, _ = integrate.quad(
        lambda t: float((above_zero.cdf(t)[0] - (t >= 2.0)) ** 2), 0.0, 60.0, points=[1.0, 2.0, 5.0], epsabs=1e-12
    )
    assert atm.scores.crps(above_zero, np.array([2.0]))[0] == pytest.approx(area, rel=1e-9)


def test_no_rows_and_one_row() -> None:
    for name in BASES:
        dist = rows_of("logit", name, MANY[:1])
        assert dist[:0].mean().shape == dist[:0].ppf(0.5).shape == (0,)
        assert dist[:0].ppf([0.1, 0.9]).shape == (0, 2)
        assert dist.mean().shape == atm.scores.crps(dist, np.ones(1)).shape == (1,)
        none = replace(dist[:0], theta=np.zeros((0, dist.theta.size)))
        assert none.mean().shape == none.ppf(0.5).shape == (0,)


def test_heavy_tails() -> None:
    """1 - F falls like y^-s: the mean needs s > 1, the CRPS s > 1/2."""
    for slope, finite in ((0.4, False), (0.5, False), (0.6, True), (0.8, True), (1.3, True)):
        basis = LogLinearBasis()
        dist = PredictedDistribution(LINKS["logit"], basis, np.array([0.0, slope]), np.zeros(2))
        score = atm.scores.crps(dist, np.array([1.0, 3.0]))
        assert np.isfinite(dist.mean()).all() == (slope > 1.0)
        assert np.isfinite(score).all() == finite
        if finite:
            # with u = 1 / (1 + y^s) the integral of (1 - F)^2 is a beta function
            a = 1.0 / slope
            F2 = integrate.quad(lambda x, s=slope: (x**s / (1 + x**s)) ** 2, 0.0, 1.0, epsrel=1e-12)[0]
            total = a * special.beta(a, 2.0 - a)
            S2 = total - integrate.quad(lambda x, s=slope: (1 / (1 + x**s)) ** 2, 0.0, 1.0, epsrel=1e-12)[0]
            assert score[0] == pytest.approx(F2 + S2, rel=1e-9)


def test_outcomes_far_from_the_forecast() -> None:
    dist = rows_of("logit", "Bernstein", MANY)
    for y in (-1e6, -300.0, 300.0, 1e6):
        scores = atm.scores.crps(dist, np.full(MANY.size, y))
        some = [0, 17, 2000]
        np.testing.assert_allclose(scores[some], [slow_crps(dist[i], y) for i in some], rtol=1e-12)


@pytest.mark.parametrize("name", ["Bernstein", "Bernstein in log y", "linear"])
@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_averages_over_random_effects(name: str, shared: bool) -> None:
    nodes = np.linspace(-3.0, 3.0, 13)
    weights = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    n = 200
    added = np.tile(0.8 * nodes, (n, 1)) if shared else 0.8 * nodes + 0.1 * np.arange(n)[:, None] / n
    basis, theta = BASES[name]
    dist = AveragedDistribution(
        LINKS["logit"], basis, theta, MANY[:n], gain=-1.0, added=added, weights=np.tile(weights, (n, 1))
    )
    apart = [rows_of("logit", name, MANY[:n] + own).mean() for own in added.T]
    means = np.average(apart, axis=0, weights=weights)
    np.testing.assert_allclose(dist.mean(), means, rtol=1e-12)
    y = np.array([-np.inf, 0.0, 1e-3, 0.7, 4.0, 60.0, np.inf])
    for ask in ("logcdf", "logsf"):
        apart = np.stack([getattr(rows_of("logit", name, MANY[:n] + own), ask)(y) for own in added.T])
        logs = special.logsumexp(apart + np.log(weights)[:, None, None], axis=0)
        np.testing.assert_allclose(getattr(dist, ask)(y), logs, rtol=1e-11, atol=1e-15)
    q = np.array([0.01, 0.5, 0.97])
    np.testing.assert_allclose(dist.cdf(dist.ppf(q)), np.tile(q, (n, 1)), rtol=1e-10)
    np.testing.assert_allclose(dist[3:4].ppf(q)[0], dist.ppf(q)[3], rtol=1e-11)
    y = dist.ppf(np.random.default_rng(5).random((n, 1)))[:, 0]
    scores = atm.scores.crps(dist, y)
    for i in (0, 5, 199):
        one, low = dist[i], 0.0 if basis.lower_bound == 0.0 else float(dist[i].ppf(1e-13)[0])
        marks = np.unique([low, *getattr(basis, "support", ()), *one.ppf([1e-5, 0.01, 0.1, 0.5, 0.9, 0.99])[0], y[i]])
        marks = np.r_[marks, one.isf([1e-5, 1e-8, 1e-11])[0]]
        total = 0.0
        for a, b in itertools.pairwise(marks):
            F = one.cdf if b <= y[i] else one.sf
            total += integrate.quad(lambda t, F=F: float(F(t)[0]) ** 2, a, b, epsabs=1e-13, epsrel=1e-10)[0]
        assert scores[i] == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize("order", [1, 2, 6, 20, 50])
@pytest.mark.parametrize("kind", ["even", "steep", "flat pieces"])
def test_the_table_of_the_inverse(order: int, kind: str) -> None:
    """It is as close to the root as Newton's method, whatever the polynomial."""
    rng = np.random.default_rng(order)
    steps = {"even": np.ones(order), "steep": rng.exponential(size=order) ** 6, "flat pieces": np.arange(order) % 2}
    theta = np.r_[-8.0, -8.0 + np.cumsum(steps[kind])]
    if not theta[-1] > theta[0]:
        return
    z = np.r_[rng.uniform(theta[0], theta[-1], 20_000), theta, np.nextafter(theta, np.inf)]
    slow, fast = inversion._by_newton(theta, z), inversion._by_table(theta, z)
    inside = (z > theta[0]) & (z <= theta[-1])
    slope = order * np.diff(theta) @ bernstein(order - 1, slow, 1.0 - slow)
    rounding = 40 * order * np.finfo(float).eps * np.abs(theta).max()
    wanted = 1e-14 + rounding / np.maximum(slope, 1e-12)
    assert (np.abs(slow - fast) <= wanted)[inside].all()
    reached = theta @ bernstein(order, fast, 1.0 - fast)
    np.testing.assert_allclose(reached[inside], z[inside], atol=rounding)


def test_a_cell_that_is_not_smooth_is_computed_row_by_row() -> None:
    at = np.random.default_rng(0).uniform(0.0, 4.0, 2000)
    calls: list[int] = []

    def function(x: np.ndarray) -> np.ndarray:
        calls.append(x.size)
        return np.where(x > 1.5, np.exp(30.0 * (x - 1.5)), 1.0)  # a kink in the second cell, steep in the others

    np.testing.assert_allclose(shifts.along_shift(function, at), function(at), rtol=1e-12)
    calls.clear()
    np.testing.assert_allclose(shifts.along_shift(np.cosh, at), np.cosh(at), rtol=1e-13)
    column = np.random.default_rng(1).integers(0, 2, 2000)
    both = shifts.along_shift(lambda x: np.column_stack([np.exp(x), np.abs(x - 1.5) + 1.0]), at, column)
    np.testing.assert_allclose(both, np.where(column, np.abs(at - 1.5) + 1.0, np.exp(at)), rtol=1e-13)


def test_many_rows_are_fast() -> None:
    """Ratios within one run, ten times what they are; row by row, means and scores take hundreds of fits."""
    from anchortm.bench.engine import best, grams, outcome, simulate

    X, latent, _ = simulate(3000)
    y = outcome(latent)
    model = atm.ContinuousLogit().fit(X, y)
    fit = best(lambda: atm.ContinuousLogit().fit(X, y), 3)
    dist, seen = model.predict_distribution(np.tile(X, (7, 1))), np.tile(y, 7)
    assert best(dist.mean, 3) < 40 * fit
    assert best(lambda: atm.scores.crps(dist, seen), 3) < 60 * fit
    wide = model.predict_distribution(np.tile(X, (30, 1)))
    assert grams(lambda: wide.ppf([0.1, 0.5, 0.9]), len(wide), 3) < 9.0
