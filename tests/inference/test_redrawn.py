"""Outcomes drawn from fitted models: they follow the model, and are observed as the data were."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anchortm as atm
from anchortm.inference.redrawn import censoring_limits, observed, whole_rows, why_not
from anchortm.inputs.response import Kind

N = 3000


def rows(seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 1))
    return rng, x, rng.exponential(size=N) * np.exp(-0.5 * x[:, 0])


def drawn(model, x, y, rng, **options):
    """Return outcomes drawn from a model fitted to these rows, and the fit."""
    fitted = model.fit(x, y, **options)
    problem = fitted.problem(x, y, **options)
    return fitted, problem.data, problem.draw(fitted.result_, rng)


@pytest.mark.parametrize(
    ("model", "transform"),
    [
        (atm.NormalLinear(), np.log),
        (atm.ContinuousLogit(), np.log),
        (atm.ContinuousProbit(log_first=True), lambda t: t),
        (atm.ParametricSurvival(), lambda t: t),
        (atm.Lehmann(), np.log),
    ],
)
def test_draws_follow_the_fitted_distribution(model, transform) -> None:
    rng, x, time = rows()
    fitted, _, y = drawn(model, x, transform(time), rng, offset=0.3 * x[:, 0])
    u = fitted.predict_distribution(x, offset=0.3 * x[:, 0]).cdf(y[:, None])[:, 0]
    assert stats.kstest(u, "uniform").pvalue > 0.01


def test_draws_beyond_an_entry() -> None:
    rng, x, time = rows(1)
    entry = np.where(rng.random(N) < 0.5, 0.5 * time, 0.0)
    for model in (atm.ProportionalHazards(order=4, log_first=True), atm.ParametricSurvival()):
        fitted, _, y = drawn(model, x, atm.Surv(time, np.ones(N), entry=entry), rng)
        assert (y > entry).all()
        u = fitted.predict_distribution(x).given(entry).cdf(y[:, None])[:, 0]
        assert stats.kstest(u, "uniform").pvalue > 0.01


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_draws_of_a_partial_likelihood(ties: bool, late: bool) -> None:
    """The cumulative hazard up to a drawn time is exponential, but for the steps."""
    rng, x, time = rows(2)
    time = np.ceil(20 * time) if ties else time
    entry = np.where(rng.random(N) < 0.5, np.floor(0.4 * time), 0.0) if late else np.zeros(N)
    fitted, _, y = drawn(atm.CoxPH(), x, atm.Surv(time, np.ones(N), entry=entry if late else None), rng)
    assert (y > entry).all()
    assert np.isin(y[np.isfinite(y)], time).all() == ties
    hazard = fitted.predict_distribution(x).given(entry).cumhazard(np.where(np.isfinite(y), y, time.max())[:, None])
    assert hazard.mean() == pytest.approx(1.0, abs=0.08)


def test_draws_of_classes_and_counts() -> None:
    rng, x, time = rows(3)
    codes = np.digitize(time, [0.3, 1.0])
    fitted, data, y = drawn(atm.OrdinalRegression(), x, pd.Categorical(codes, ordered=True), rng)
    assert np.bincount(y.astype(int)) == pytest.approx(fitted.predict_proba(x).sum(axis=0), rel=0.1)
    response = observed(data.response, y, rng, None)
    np.testing.assert_array_equal(response.codes, y)
    count = rng.poisson(3 * time)
    for model in (atm.CountRegression(), atm.AnchorGLM(family="poisson")):
        fitted, data, y = drawn(model, x, count, rng)
        if isinstance(model, atm.CountRegression):
            assert y.mean() == pytest.approx(fitted.predict_distribution(x).mean().mean(), rel=0.1)
        else:
            assert y.mean() == pytest.approx(count.mean(), rel=0.1)
        np.testing.assert_array_equal(observed(data.response, y, rng, None).upper, y)


def test_random_effects_are_drawn_by_cluster() -> None:
    rng = np.random.default_rng(4)
    g = np.repeat(np.arange(300), 5)
    table = pd.DataFrame({"x": rng.normal(size=1500), "g": g})
    y = table.x + 2.0 * rng.normal(size=300)[g] + rng.normal(size=1500)
    fitted, _, again = drawn(atm.NormalLinear(random="g"), table, y, rng)
    refit = atm.NormalLinear(random="g").fit(table, again)
    assert refit.random_sd_.iloc[0] == pytest.approx(fitted.random_sd_.iloc[0], rel=0.15)
    assert refit.slope_ == pytest.approx(fitted.slope_, rel=0.15)


def test_censoring_is_kept() -> None:
    rng, x, time = rows(5)
    limit = 2.0 * rng.random(N)
    y = atm.Surv(np.minimum(time, limit), time <= limit)
    fitted, data, t = drawn(atm.ParametricSurvival(), x, y, rng)
    limits = censoring_limits(data.response, rng)
    again = observed(data.response, t, rng, limits)
    was, now = y.kind == Kind.RIGHT, again.kind == Kind.RIGHT
    assert now.mean() == pytest.approx(was.mean(), abs=0.03)
    both = was & now
    np.testing.assert_array_equal(again.lower[both], y.lower[both])  # limits that are known stay
    assert (again.lower[was & ~now] <= y.lower[was & ~now]).all()
    refit = atm.ParametricSurvival().fit(x, again)
    np.testing.assert_allclose(refit.coef_, fitted.coef_, atol=0.12)
    # the limits that were drawn have the distribution of those that are not seen, beyond the events
    assert (limits[~was] >= y.lower[~was]).all()
    assert stats.ks_2samp(limits, limit).pvalue > 0.01


def test_an_event_at_a_limit_comes_before_it() -> None:
    """Rows that die at t could not be censored at t any more, but at t or later they would have been."""
    y = atm.Surv([1.0, 1.0, 1.0, 1.0], [1, 1, 0, 0])
    limits = censoring_limits(y, np.random.default_rng(0))
    np.testing.assert_array_equal(limits, 1.0)
    never = observed(y, np.full(4, np.inf), np.random.default_rng(0), limits)
    assert (never.kind == Kind.RIGHT).all()


def test_intervals_are_those_of_the_data() -> None:
    """Visits every year, or one visit at any time: as many of each width as before, and the right one of each."""
    rng, x, time = rows(6)
    visit = 2.0 * rng.random(N)
    yearly = rng.random(N) < 0.5
    lower = np.where(yearly, np.floor(time), np.where(time <= visit, -np.inf, visit))
    upper = np.where(yearly, np.ceil(time), np.where(time <= visit, visit, np.inf))
    y = atm.Interval(np.where(lower == 0.0, -np.inf, lower), upper)
    model = atm.AnchorTM(link="cloglog", basis="log-linear").fit(x, y)
    mass = np.exp(-model.nll(x, y))
    t = model.problem(x, y).draw(model.result_, rng)
    again = observed(y, t, rng, None, mass)
    assert ((again.lower < t) & (t <= again.upper)).all()
    for kind in (Kind.LEFT, Kind.RIGHT, Kind.INTERVAL):
        assert (again.kind == kind).mean() == pytest.approx((y.kind == kind).mean(), abs=0.04)
    refit = atm.AnchorTM(link="cloglog", basis="log-linear").fit(x, again)
    np.testing.assert_allclose(refit.coef_, model.coef_, atol=0.12)
    np.testing.assert_allclose(refit.standard_errors(), model.standard_errors(), rtol=0.1)


def test_limits_beside_numbers() -> None:
    """A detection limit: beyond it numbers are seen. Intervals are looked at when they were, at their ends."""
    inf, rng = np.inf, np.random.default_rng(0)
    y = atm.Interval([5.0, -inf, -inf, 1.0, 1.0, 1.0], [5.0, 2.0, 2.0, 3.0, 3.0, 3.0])
    again = observed(y, np.array([1.0, 1.0, 3.0, 0.5, 2.0, 4.0]), rng, censoring_limits(y, rng))
    np.testing.assert_array_equal(again.lower, [1.0, -inf, 3.0, -inf, 1.0, 3.0])
    np.testing.assert_array_equal(again.upper, [1.0, 2.0, 3.0, 1.0, 3.0, inf])
    # an outcome beyond a flat end has no number
    y = atm.Interval([1.0, 2.0], [1.0, 2.0])
    again = observed(y, np.array([-inf, inf]), rng, censoring_limits(y, rng))
    np.testing.assert_array_equal(again.lower, [-inf, 2.0])
    np.testing.assert_array_equal(again.upper, [1.0, inf])


def test_what_cannot_be_drawn() -> None:
    x, y = np.arange(4.0)[:, None], np.array([0.0, 2.0, 1.0, 3.0])

    def reason(response, weight=None, model=None):
        return why_not((model or atm.NormalLinear()).problem(x, response, sample_weight=weight).data)

    assert reason(y) is None
    assert reason(y, [1, 2, 1, 1]) is None
    assert reason(y, [1, 2, 1, 1e9]) == "outcomes for a total weight of more than 10000000"
    assert reason(atm.Interval(y, y, exit=y + 1)) == "outcomes that are truncated on the right"
    data = atm.NormalLinear().problem(x, y, sample_weight=[1, 2, 1, 3]).data
    assert whole_rows(data).response.lower.tolist() == [0.0, 2.0, 2.0, 1.0, 3.0, 3.0, 3.0]
