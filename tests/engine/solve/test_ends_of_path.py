"""The limit xi = inf: where it exists, it is found; where it does not, a fit and a path both say so."""

import math

import numpy as np
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.exceptions import OverIdentifiedError


def test_a_just_identified_limit_exists() -> None:
    """Binary outcome, binary instrument: the moment equations of instrumental-variable logit."""
    rng = np.random.default_rng(3)
    n = 5000
    H, z = rng.normal(size=n), rng.integers(0, 2, n)
    x = 1.5 * z + 0.5 * H + rng.normal(size=n)
    y = (x - 0.5 + H + rng.logistic(size=n) > 0).astype(int)
    limit = atm.OrdinalRegression(xi=math.inf).fit(x[:, None], y, anchors=z)
    far = atm.OrdinalRegression(xi=1e6).fit(x[:, None], y, anchors=z)
    assert limit.converged_
    np.testing.assert_allclose(limit.coef_, far.coef_, rtol=1e-4)
    mu = limit.predict_proba(x[:, None])[:, 1]
    assert abs(np.mean((y - mu)[z == 1])) < 1e-7
    assert abs(np.mean((y - mu)[z == 0])) < 1e-7


@pytest.mark.parametrize(
    "make", [atm.ContinuousProbit, atm.ContinuousLogit, atm.Lehmann, atm.ProportionalHazards, atm.OrdinalRegression]
)
def test_a_limit_that_does_not_exist_is_always_an_error(make) -> None:
    """More sites than covariates can balance: the same answer from a fit and from a path."""
    rng = np.random.default_rng(4)
    site = rng.integers(0, 7, 420)
    x = rng.normal(size=(420, 2)) + 0.3 * site[:, None]
    y = np.exp(0.5 * x[:, 0] + 0.2 * rng.normal(size=7)[site] + 0.5 * rng.normal(size=420))
    if make is atm.OrdinalRegression:
        y = np.digitize(y, [1.0, 2.0])
    with pytest.raises(OverIdentifiedError):
        make(xi=math.inf).fit(x, y, anchors=site)
    with pytest.raises(OverIdentifiedError):
        atm.anchor_path(make(), x, y, site, [0, 1, 100, math.inf])


def test_a_limit_with_active_bounds_is_the_same_from_fit_and_path() -> None:
    rng = np.random.default_rng(9)
    found = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = 120
        z, H = rng.integers(0, 3, n), rng.normal(size=n)
        x = 0.5 * z + H + rng.normal(size=n)
        y = x + H + rng.logistic(size=n)
        results = []
        for call in (
            lambda x=x, y=y, z=z: atm.ContinuousLogit(xi=math.inf).fit(x[:, None], y, anchors=z),
            lambda x=x, y=y, z=z: atm.anchor_path(atm.ContinuousLogit(), x[:, None], y, z, [0, 1e8, math.inf]).models[
                -1
            ],
        ):
            try:
                model = call()
                results.append(round(model.loss_, 6))
                assert model.converged_
            except OverIdentifiedError:
                results.append(None)
        assert results[0] == results[1]
        found += results[0] is not None
    assert found > 20


@pytest.mark.filterwarnings("ignore:the fit did not converge")  # 2026-11-15: two iterations are not enough, on purpose
def test_a_path_that_stops_is_not_over_identified() -> None:
    z = (FOUR.site > 1).astype(int)
    model = atm.ContinuousLogit(xi=math.inf, max_iter=2).fit(FOUR.X[:, :1], FOUR.y, anchors=z)
    assert not model.converged_


@pytest.mark.bug("other software", "hopeless steps with scale effects on the way to xi = inf made NumPy warn")
def test_residuals_too_large_to_square_are_silent() -> None:
    """A scale of exp(500) makes residuals of 1e200: such a trial step is rejected without a word."""
    rng = np.random.default_rng(0)
    site = rng.integers(0, 3, 60)
    x = rng.normal(size=(60, 2)) + site[:, None]
    y = x[:, 0] + np.exp(2 * x[:, 1]) * rng.normal(size=60)
    with pytest.raises(OverIdentifiedError):
        atm.NormalLinear(xi=math.inf, scale=[0, 1]).fit(x, y, anchors=site)
