"""Following the path in xi: starts from a sample of the rows, strengths beyond rounding, paths that stop early."""

import math

import numpy as np
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.engine.solve import continuation
from anchortm.exceptions import ConvergenceWarning


def rare_events(seed: int = 0, n: int = 100_000):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    t, c = rng.exponential(size=n) * np.exp(-0.5 * x[:, 0]), 0.05 * rng.exponential(size=n)
    rare = np.zeros(n)
    rare[rng.choice(n, 60, replace=False)] = 1
    return np.column_stack([x, rare]), atm.Surv(np.minimum(t, c), t <= c), rng.integers(0, 20, n)


@pytest.mark.parametrize("xi", [0.0, 1.0])
def test_a_sample_without_events_does_not_decide_for_all_rows(xi: float) -> None:
    Z, y, site = rare_events()
    anchors = site if xi else None
    large = atm.ProportionalHazards(xi=xi, support=(0.005, 0.1)).fit(Z, y, anchors=anchors)
    small = atm.ProportionalHazards(xi=xi, support=(0.005, 0.1)).fit(
        Z[:-1], y[:-1], anchors=None if anchors is None else anchors[:-1]
    )
    assert large.converged_
    assert large.folds_ == small.folds_ == ()
    np.testing.assert_allclose(large.coef_, small.coef_, atol=0.02)


def test_a_rare_class_in_large_data() -> None:
    rng = np.random.default_rng(1)
    n = 100_000
    x = rng.normal(size=(n, 1))
    z = x[:, 0] + rng.logistic(size=n)
    y = np.digitize(z, [np.sort(z)[3], 0.0, 2.0])
    assert atm.OrdinalRegression(xi=1.0).fit(x, y, anchors=rng.integers(0, 10, n)).converged_


def test_a_pattern_in_the_order_of_rows() -> None:
    rng = np.random.default_rng(2)
    n = 100_000
    x = np.column_stack([rng.normal(size=n), np.arange(n) % 5 == 0]).astype(float)
    y = x @ [1.0, 0.5] + rng.logistic(size=n)
    model = atm.ContinuousLogit(xi=1.0).fit(x, y, anchors=rng.normal(size=n))
    np.testing.assert_allclose(model.coef_, [1.0, 0.5], atol=0.05)


@pytest.mark.parametrize("xi", [1e8, 1e10])
def test_rounding_at_huge_xi_is_not_a_fold(xi: float) -> None:
    rng = np.random.default_rng(0)
    n = 2000
    z, H = rng.integers(0, 2, n), rng.normal(size=n)
    x = z + H + rng.normal(size=n)
    t = np.exp(0.5 * x + H + np.log(rng.exponential(size=n)))
    model = atm.ParametricSurvival(xi=xi, dist="exponential").fit(x[:, None], t, anchors=z)
    assert model.converged_
    assert model.folds_ == ()
    linear = atm.NormalLinear(xi=1e12).fit(x[:, None], np.log(t), anchors=z)
    limit = atm.NormalLinear(xi=math.inf).fit(x[:, None], np.log(t), anchors=z)
    np.testing.assert_allclose(linear.slope_, limit.slope_, rtol=1e-6)


def test_a_stopped_path_is_judged_at_its_own_xi() -> None:
    with pytest.warns(ConvergenceWarning, match="at xi = 0, on the way to 10"):
        model = atm.ContinuousLogit(xi=10.0, max_iter=1).fit(FOUR.X, FOUR.y, anchors=FOUR.site)
    assert model.loss_ == pytest.approx(-model.loglik_ / FOUR.n + 10.0 * model.penalty_)
    assert model.xi_ == 10.0
    assert "not reached" in str(model.summary())


@pytest.mark.parametrize("xi", [0.0, 5.0])
def test_a_second_sample_leads_to_the_same_minimum(xi: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many rows start from the minimum of a sample, after one step on a larger one."""
    rng = np.random.default_rng(4)
    X, site = rng.normal(size=(20_000, 3)), rng.integers(0, 8, 20_000)
    y = X @ [0.5, -0.3, 0.2] + 0.2 * site + rng.logistic(size=20_000)
    model = atm.ContinuousLogit(xi=xi, order=4)
    whole = model.fit(X, y, anchors=site)
    expected, steps = whole.coef_.copy(), []
    monkeypatch.setattr("anchortm.engine.solve.continuation.SUBSAMPLE_FROM", 1000)
    monkeypatch.setattr("anchortm.engine.rows.blocks.Blocks.sample_rows", 500)
    step = continuation.newton_step
    monkeypatch.setattr(continuation, "newton_step", lambda o, *rest: steps.append(o.n_rows) or step(o, *rest))
    found = model.fit(X, y, anchors=site)
    assert steps == [math.ceil(20_000 / continuation.LARGER)]
    assert found.kkt_ <= model.tol
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-12)
