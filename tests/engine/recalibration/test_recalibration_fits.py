"""The fits of a recalibration against scipy on likelihoods that are written out here, and against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import anchortm as atm
from anchortm.bases import LinearBasis
from anchortm.engine.recalibration.baseline import PlaceRows, baseline_curvature, curvature_of_rows, fit_baseline
from anchortm.engine.recalibration.scale import fit_shift_and_scale
from anchortm.engine.recalibration.shift import fit_shift, law_around
from anchortm.engine.rows.ends import Ends
from anchortm.engine.rows.likelihood import build_terms
from anchortm.engine.rows.shifted_rows import ShiftedEnds
from anchortm.engine.solve.newton import Options
from anchortm.inputs import as_response
from anchortm.links import LINKS

CDF = {
    "probit": stats.norm.cdf,
    "logit": stats.logistic.cdf,
    "cloglog": lambda z: -np.expm1(-np.exp(z)),
    "loglog": lambda z: np.exp(-np.exp(-z)),
}
PDF = {
    "probit": stats.norm.pdf,
    "logit": stats.logistic.pdf,
    "cloglog": lambda z: np.exp(z - np.exp(z)),
    "loglog": lambda z: np.exp(-z - np.exp(-z)),
}
# y: exact, exact, right-, left- and interval-censored; entry of the last two exact rows
LOWER = np.array([0.4, 2.2, 1.5, -np.inf, 0.2, 1.9, 2.4])
UPPER = np.array([0.4, 2.2, np.inf, 0.9, 1.1, 1.9, 2.4])
WEIGHTS = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 3.0])
INTERCEPT, SLOPE = -0.7, 1.3
MOVED = np.array([0.3, -0.4, 0.1, 0.5, 0.0, -0.2, 0.6])


def slow_loglik(link: str, scale: float, shift: float, entry: float = -np.inf) -> float:
    """Return the log-likelihood of all rows at m + scale (h - m) - shift."""
    m = float(LINKS[link].quantile(0.5))

    def at(y):
        return m + scale * (INTERCEPT + SLOPE * y + MOVED - m) - shift

    F, total = CDF[link], 0.0
    for i, (low, high) in enumerate(zip(LOWER, UPPER, strict=True)):
        if low == high:
            value = math.log(PDF[link](at(low)[i]) * scale * SLOPE)
            if i >= 5 and np.isfinite(entry):
                value -= math.log(1.0 - F(at(entry)[i]))
        else:
            above = F(at(high)[i]) if np.isfinite(high) else 1.0
            value = math.log(above - (F(at(low)[i]) if np.isfinite(low) else 0.0))
        total += WEIGHTS[i] * value
    return total


def the_ends(link: str, entry: float = -np.inf) -> Ends:
    response = as_response(atm.Interval(LOWER, UPPER), "continuous")
    if np.isfinite(entry):
        late = np.where(np.arange(LOWER.size) >= 5, entry, -np.inf)
        response = replace(response, entry=late)
    terms = build_terms(LinearBasis(), response)
    return Ends.of(terms, np.array([INTERCEPT, SLOPE]), MOVED)


@pytest.mark.parametrize("entry", [-np.inf, 0.7])
@pytest.mark.parametrize("link", LINKS)
def test_the_posterior_of_a_shift(link: str, entry: float) -> None:
    rows, variance = ShiftedEnds(LINKS[link], the_ends(link, entry)), 0.6
    values = rows.together(WEIGHTS)

    def density(d: float) -> float:
        return slow_loglik(link, 1.0, d, entry) - d**2 / (2.0 * variance)

    fit = fit_shift(values, 1.0 / variance)
    best = optimize.minimize_scalar(lambda d: -density(d), bounds=(-4, 4), method="bounded", options={"xatol": 1e-9})
    assert fit.converged
    assert fit.shift == pytest.approx(best.x, abs=1e-6)
    assert fit.score < 1e-9
    step = 1e-4
    second = (density(fit.shift + step) - 2.0 * density(fit.shift) + density(fit.shift - step)) / step**2
    assert fit.information == pytest.approx(-second, rel=1e-5)
    law = law_around(rows, WEIGHTS, fit, 1.0 / variance, 0.0)
    top, se = density(fit.shift), fit.std_error

    def weight(d: float) -> float:
        try:
            return math.exp(density(fit.shift + d) - top)
        except (ValueError, OverflowError):  # far out, where differences of probabilities are 0
            return 0.0

    cuts = se * np.array([-12.0, -6.0, -3.0, 0.0, 3.0, 6.0, 12.0])
    moments = [
        sum(integrate.quad(lambda d, k=k: d**k * weight(d), a, b, epsabs=1e-13)[0] for a, b in pairwise(cuts))
        for k in range(3)
    ]
    mean = moments[1] / moments[0]
    assert law.mean == pytest.approx(mean, abs=1e-8)
    assert law.sd == pytest.approx(math.sqrt(moments[2] / moments[0] - mean**2), abs=1e-8)


def test_the_posterior_of_exact_normal_rows_is_normal() -> None:
    z, variance = np.array([0.3, 1.4, -0.2, 2.0]), 0.25
    response = as_response(z, "continuous")
    ends = Ends.of(build_terms(LinearBasis(), response), np.array([0.0, 1.0]), np.zeros(4))
    rows = ShiftedEnds(LINKS["probit"], ends)
    fit = fit_shift(rows.together(), 1.0 / variance)
    assert fit.shift == pytest.approx(z.sum() / (4 + 1.0 / variance), abs=1e-14)
    assert fit.information == pytest.approx(4 + 1.0 / variance)
    law = law_around(rows, None, fit, 1.0 / variance, 0.0)
    assert (type(law).__name__, law.mean, law.sd) == ("NormalShift", 0.0, pytest.approx(fit.std_error))
    both = fit_shift_and_scale(LINKS["probit"], ends, None, 1.0 / variance, 16.0, 0.2)
    S = (z**2).sum() - z.sum() ** 2 / (4 + 1.0 / variance)
    c = (16 + math.sqrt(16**2 + 4 * 4 * (S + 16))) / (2 * (S + 16))
    assert both.scale == pytest.approx(c, abs=1e-12)
    assert both.shift == pytest.approx(c * z.sum() / (4 + 1.0 / variance), abs=1e-12)


def test_rows_that_are_all_censored_have_a_finite_shift() -> None:
    response = as_response(atm.Interval(np.array([1.0, 3.0]), np.full(2, np.inf)), "continuous")
    ends = Ends.of(build_terms(LinearBasis(), response), np.array([0.0, 1.0]), np.zeros(2))
    for link in LINKS.values():
        fit = fit_shift(ShiftedEnds(link, ends).together(), 1.0)
        assert fit.converged
        assert 0.0 < fit.shift < 3.0
        both = fit_shift_and_scale(link, ends, None, 1.0, 16.0, 0.2)
        assert both.converged
        assert 0.2 <= both.scale < 1.0


@pytest.mark.parametrize("link", LINKS)
def test_a_shift_and_a_scale(link: str) -> None:
    priors = (1.0 / 0.6, 16.0)
    found = fit_shift_and_scale(LINKS[link], the_ends(link), WEIGHTS, *priors, 0.2)

    def loss(x: np.ndarray) -> float:
        prior = 0.5 * (priors[0] * x[0] ** 2 + priors[1] * (x[1] - 1.0) ** 2)
        return prior - slow_loglik(link, x[1], x[0])

    best = optimize.minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    assert found.converged
    assert not found.at_floor
    np.testing.assert_allclose([found.shift, found.scale], best.x, atol=1e-6)
    x, step = np.array([found.shift, found.scale]), 1e-4

    def second(i: int, j: int) -> float:
        a, b = step * np.eye(2)[i], step * np.eye(2)[j]
        return (loss(x + a + b) - loss(x + a - b) - loss(x - a + b) + loss(x - a - b)) / (4 * step**2)

    np.testing.assert_allclose(found.information, [[second(i, j) for j in (0, 1)] for i in (0, 1)], rtol=1e-4)
    assert found.std_errors[0] == pytest.approx(np.sqrt(np.linalg.inv(found.information)[0, 0]))


def test_the_floor_holds_the_scale() -> None:
    z = np.array([-9.0, 8.0, 10.0, -8.0])
    response = as_response(z, "continuous")
    ends = Ends.of(build_terms(LinearBasis(), response), np.array([0.0, 1.0]), np.zeros(4))
    found = fit_shift_and_scale(LINKS["logit"], ends, None, 1.0, 1.0, 0.6)
    assert found.at_floor
    assert found.scale == 0.6
    assert found.converged
    given = fit_shift(
        ShiftedEnds(
            LINKS["logit"],
            Ends.of(build_terms(LinearBasis(), response), np.array([0.0, 0.6]), np.zeros(4)),
        ).together(),
        1.0,
    )
    assert found.shift == pytest.approx(given.shift, abs=1e-8)
    assert found.std_errors == (pytest.approx(given.std_error), 0.0)


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_the_baseline_near_that_of_the_fit(floor: float) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    y = np.exp(0.4 * (x + rng.logistic(size=300)))
    model = atm.ContinuousLogit(order=4).fit(x[:, None], y)
    result = model.result_
    late = np.minimum(np.exp(0.4 * rng.logistic(size=12)) + 1.0, 3.5)
    event, weights = late < 3.5, rng.integers(1, 3, size=12).astype(float)
    outcome = atm.Interval(late, np.where(event, late, np.inf))
    response, theta, shift = model.new_rows_.outcome_and_parts(np.zeros((12, 1)), outcome, None)
    R = baseline_curvature(result)
    problem = model.problem_
    th, sh = problem.moved(result.baseline, result.others, problem.data)
    np.testing.assert_allclose(
        R, curvature_of_rows(result, PlaceRows(problem.data.response, th, sh)), rtol=1e-8, atol=1e-12
    )
    found, solution = fit_baseline(
        result, PlaceRows(response, theta, shift, weights), R, 5.0, floor, Options(tol=1e-10)
    )
    assert solution.converged
    assert solution.kkt < 1e-10
    rows, slopes = result.basis.rows(late), result.basis.derivative_rows(late)

    def loss(increments: np.ndarray) -> float:
        t = np.cumsum(increments)
        h, rate = rows @ t, slopes @ t
        with np.errstate(all="ignore"):
            l = np.where(event, stats.logistic.logpdf(h) + np.log(rate), stats.logistic.logsf(h))  # noqa: E741
        away = t - result.baseline
        return float(2.5 * away @ R @ away - weights @ l)

    start = np.append(result.baseline[0], np.diff(result.baseline))
    bounds = [(None, None), *((floor * step, None) for step in start[1:])]
    best = optimize.minimize(
        loss, np.maximum(start, 1e-6 + start), method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9}
    )
    at = np.append(found[0], np.diff(found))
    assert loss(np.append(at[0], np.maximum(at[1:], 0.0))) <= best.fun + 1e-9
    np.testing.assert_allclose(found, np.cumsum(best.x), atol=2e-3)
    assert (np.diff(found) >= floor * np.diff(result.baseline) - 1e-9).all()
