"""Is anchoring needed: the score test against likelihood ratios and its own distribution."""

import numpy as np
import pytest
from reference_fits import COVARIATES, boston_response, data
from scipy import stats

import anchortm as atm
from anchortm.exceptions import InputError

BOSTON = data("BostonHousing2")


def simulate(seed: int, effect: float, n: int = 400, levels: int = 5):
    rng = np.random.default_rng(seed)
    site = rng.integers(0, levels, n)
    x = rng.normal(size=(n, 1)) + 0.5 * site[:, None]
    latent = x[:, 0] + effect * (site - 2) + rng.logistic(size=n)
    return x, latent, site


MODELS = {
    "linear": (atm.NormalLinear, lambda z: z),
    "logit": (lambda: atm.ContinuousLogit(order=3), lambda z: z),
    "ordinal": (atm.OrdinalRegression, lambda z: np.digitize(z, [-1, 1, 3])),
    "cox": (lambda: atm.ProportionalHazards(order=3), lambda z: atm.Surv(np.exp(np.minimum(z, 3) / 3), z < 3)),
}
models = pytest.mark.parametrize("name", MODELS)


@models
@pytest.mark.parametrize("numeric", [False, True])
def test_it_agrees_with_the_likelihood_ratio_of_added_anchors(name: str, numeric: bool) -> None:
    make, response = MODELS[name]
    x, latent, site = simulate(1, 0.1)
    y = response(latent)
    anchors = np.sin(site * 1.0) + 0.01 * x[:, 0] ** 2 if numeric else site
    test = atm.diagnostics.score_test(make(), x, y, anchors)
    extra = anchors[:, None] if numeric else np.eye(5)[site][:, 1:]
    fixed = {"support": make().fit(x, y).support_} if name in ("logit", "cox") else {}
    small = make().set_params(**fixed).fit(x, y)
    large = make().set_params(**fixed).fit(np.hstack([x, extra]), y)
    ratio = atm.likelihood_ratio_test(small, large)
    assert test.df == ratio.df
    assert test.statistic == pytest.approx(ratio.statistic, rel=0.1, abs=0.3)


@models
def test_size_and_power(name: str) -> None:
    make, response = MODELS[name]
    pvalues = []
    for seed in range(60):
        x, latent, site = simulate(seed, 0.0, n=300)
        pvalues.append(atm.diagnostics.score_test(make(), x, response(latent), site).pvalue)
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-3
    x, latent, site = simulate(99, 0.5)
    assert atm.diagnostics.score_test(make(), x, response(latent), site).pvalue < 1e-3


def test_what_the_model_contains_does_not_count() -> None:
    x, latent, site = simulate(2, 0.3)
    dummies = np.eye(5)[site][:, 1:]
    inside = atm.diagnostics.score_test(atm.ContinuousLogit(order=3), np.hstack([x, dummies[:, :2]]), latent, site)
    assert inside.df == 2
    with_number = atm.diagnostics.score_test(atm.NormalLinear(), x, latent, [site, x[:, 0]])
    assert with_number.df == 4


def test_boston_needs_anchoring() -> None:
    test = atm.diagnostics.score_test(atm.ContinuousLogit(), BOSTON[COVARIATES], boston_response("rc"), BOSTON.town)
    assert test.pvalue < 1e-6
    assert "the anchors explain more" in str(test)
    assert test.frame().shape == (1, 3)


def test_group_residuals_before_and_after() -> None:
    x, latent, site = simulate(3, 0.5)
    y = np.digitize(latent, [-1, 1, 3])
    before = atm.OrdinalRegression().fit(x, y)
    after = atm.OrdinalRegression(xi=100.0).fit(x, y, anchors=site)
    table = atm.diagnostics.group_residuals(before, after, x, y, site).frame()
    assert table.n.sum() == 400
    assert table.after.abs().max() < 0.2 * table.before.abs().max()
    np.testing.assert_allclose(table.before[2], before.residuals(x, y)[site == 2].mean())


def test_refusals() -> None:
    x, latent, _ = simulate(4, 0.0)
    with pytest.raises(InputError, match="needs anchors"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, latent, None)
    with pytest.raises(InputError, match="more than 3000"):
        atm.diagnostics.score_test(
            atm.NormalLinear(), np.random.default_rng(0).normal(size=(4000, 1)), np.arange(4000.0) % 71, np.arange(4000)
        )
