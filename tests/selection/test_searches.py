"""Choosing xi by a test of invariance: against dense algebra, its level, and where there is no answer."""

import matplotlib as mpl
import numpy as np
import pytest
from reference_fits import COVARIATES, data
from scipy import stats

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, ConvergenceWarning, InputError, InputTypeError

mpl.use("Agg")

BOSTON = data("BostonHousing2")


def simulate(seed: int, confounding: float, n: int = 400, levels: int = 2):
    """Sites act on the outcome through the covariate only; a hidden variable moves both."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, levels, n)
    hidden = rng.normal(size=n)
    x = (np.linspace(-1, 1, levels)[site] + hidden + rng.normal(size=n))[:, None]
    latent = x[:, 0] + confounding * hidden + rng.logistic(size=n)
    return x, latent, site


def by_dense_algebra(x, y, site, xi: float) -> float:
    """Return the p-value of the studentised score test of the linear model at this xi."""
    fit = atm.NormalLinear(xi=xi).fit(x, y, anchors=site)
    A = np.eye(site.max() + 1)[site]
    r = fit.residuals(x, y)
    C = np.column_stack([np.ones(len(y)), y, -x])
    H = C.T @ C
    H[1, 1] += len(y) / fit.baseline_[1] ** 2
    G = A.T @ C
    bracket = A.T @ A - G @ np.linalg.solve(H, G.T)
    s = A.T @ r
    rank = np.linalg.matrix_rank(bracket, tol=1e-8 * np.linalg.norm(bracket))
    statistic = s @ np.linalg.pinv(bracket, rcond=1e-8) @ s / np.mean(r**2)
    return float(stats.chi2.sf(statistic, rank))


@pytest.mark.parametrize("levels", [2, 3])
def test_the_rule_by_dense_algebra(levels: int) -> None:
    x, y, site = simulate(1, 1.5, levels=levels)
    rule = atm.xi_by_score_test(atm.NormalLinear(), x, y, site)
    assert rule.xi is not None
    assert rule.xi > 0
    assert by_dense_algebra(x, y, site, rule.xi) >= 0.05
    assert by_dense_algebra(x, y, site, 0.99 * rule.xi) < 0.05
    for row in rule.frame().iloc[::3].itertuples():
        assert row.pvalue == pytest.approx(by_dense_algebra(x, y, site, row.xi), rel=1e-6, abs=1e-12)
    assert f"xi = {rule.xi:.4g}" in repr(rule)
    assert rule.plot().get_ylabel() == "p-value of the score test"


@pytest.mark.parametrize(
    ("make", "response"),
    [
        (lambda: atm.ContinuousLogit(order=3), lambda z: z),
        (atm.OrdinalRegression, lambda z: np.digitize(z, [-1, 1])),
        (lambda: atm.ProportionalHazards(order=3), lambda z: atm.Surv(np.exp(np.minimum(z, 3) / 3), z < 3)),
    ],
)
def test_the_rule_for_other_outcomes(make, response) -> None:
    """Nothing to do without confounding in all but a few samples; with it, a coefficient nearer to the causal one."""
    zero = [
        atm.xi_by_score_test(make(), x, response(z), s).xi == 0.0 for x, z, s in (simulate(k, 0.0) for k in range(40))
    ]
    assert np.mean(zero) > 0.85
    x, latent, site = simulate(99, 2.0, n=2000)
    y = response(latent)
    rule = atm.xi_by_score_test(make(), x, y, site)
    assert rule.xi > 0
    plain, chosen = make().fit(x, y), make().set_params(xi=rule.xi).fit(x, y, anchors=site)
    limit = make().set_params(xi=np.inf).fit(x, y, anchors=site)
    assert abs(chosen.coef_[0] - limit.coef_[0]) < 0.7 * abs(plain.coef_[0] - limit.coef_[0])


def test_no_xi_makes_boston_invariant() -> None:
    with pytest.warns(AnchorTMWarning, match="over-identify the model: they have 92 directions"):
        rule = atm.xi_by_score_test(atm.NormalLinear(), BOSTON[COVARIATES], BOSTON.cmedv, BOSTON.town)
    assert rule.xi is None
    assert "choose xi by left-out environments" in repr(rule)
    assert rule.frame().statistic.iloc[-1] == pytest.approx(238.3, abs=0.1)  # the limit, not 0


def test_cut_of_the_search() -> None:
    search = atm.XiSearchCV(atm.NormalLinear(), [0, 1, 10], cut=4)
    search.fit(BOSTON[COVARIATES], BOSTON.cmedv, anchors=BOSTON.town, environments=BOSTON.tract.to_numpy(dtype=float))
    assert search.loeo_.frame().environment.nunique() == 4


def test_search_with_anchor_names_works_unaided() -> None:
    data = BOSTON[[*COVARIATES, "town"]]
    model = atm.NormalLinear(anchor_names=["town"])
    search = atm.XiSearchCV(model, [0, 10]).fit(data, BOSTON.cmedv)
    other = atm.XiSearchCV(atm.NormalLinear(), [0, 10]).fit(BOSTON[COVARIATES], BOSTON.cmedv, anchors=BOSTON.town)
    np.testing.assert_allclose(search.results_.objective, other.results_.objective)
    np.testing.assert_allclose(search.best_estimator_.coef_, other.best_estimator_.coef_)
    assert search.nll(data, BOSTON.cmedv).shape == (506,)
    assert "xi" in str(search.summary())


def test_search_by_formula() -> None:
    data = BOSTON.assign(zone=np.array(list("xyz"))[np.arange(506) % 3])
    formula = "cmedv ~ rm + bs(lstat, 4) + zone | town"
    search = atm.XiSearchCV.from_formula(formula, data, model=atm.NormalLinear(), xis=[0, 10])
    direct = atm.NormalLinear.from_formula(formula, data, xi=search.best_xi_)
    np.testing.assert_allclose(search.predict(data), direct.predict(data))
    moved = atm.XiSearchCV.from_formula(formula, data, model=atm.NormalLinear(), xis=[0, 10], offset="age")
    own = atm.NormalLinear.from_formula(formula, data, xi=moved.best_xi_, offset="age")
    np.testing.assert_allclose(moved.predict(data), own.predict(data))


def test_search_fits_what_it_tested() -> None:
    """Numeric environments without other anchors: their groups are the anchors of all fits, the last included."""
    tract = BOSTON.tract.to_numpy(dtype=float)
    search = atm.XiSearchCV(atm.NormalLinear(), [3.0], cut=5).fit(BOSTON[COVARIATES], BOSTON.cmedv, environments=tract)
    assert search.best_estimator_.n_anchors_ == 5


def test_search_takes_weights_and_leaves_out_what_did_not_converge() -> None:
    weight = np.random.default_rng(0).integers(1, 3, 506)
    again = np.repeat(np.arange(506), weight)
    X, y, town = BOSTON[COVARIATES], BOSTON.cmedv, BOSTON.town
    one = atm.XiSearchCV(atm.NormalLinear(), [0, 10]).fit(X, y, anchors=town, sample_weight=weight)
    two = atm.XiSearchCV(atm.NormalLinear(), [0, 10]).fit(X.iloc[again], y.iloc[again], anchors=town.iloc[again])
    np.testing.assert_allclose(one.results_.objective, two.results_.objective)
    np.testing.assert_allclose(one.best_estimator_.coef_, two.best_estimator_.coef_)
    with pytest.raises(InputError, match="no xi converged"), pytest.warns(ConvergenceWarning):
        atm.XiSearchCV(atm.ContinuousLogit(max_iter=2), [0, 10]).fit(X, y, anchors=town)


def test_weighted_rule_is_that_of_replicated_rows() -> None:
    x, y, site = simulate(5, 1.5)
    weight = np.random.default_rng(0).integers(1, 3, 400)
    again = np.repeat(np.arange(400), weight)
    one = atm.xi_by_score_test(atm.NormalLinear(), x, y, site, sample_weight=weight)
    two = atm.xi_by_score_test(atm.NormalLinear(), x[again], y[again], site[again])
    assert one.xi == pytest.approx(two.xi, rel=1e-6)
    np.testing.assert_allclose(one.frame().statistic, two.frame().statistic, rtol=1e-6)


def test_a_short_look_is_not_a_verdict() -> None:
    with pytest.warns(AnchorTMWarning, match="over-identify"):
        rule = atm.xi_by_score_test(atm.NormalLinear(), BOSTON[COVARIATES], BOSTON.cmedv, BOSTON.town, largest=1.0)
    assert rule.frame().xi.max() == 1.0
    assert "Raise largest=" in repr(rule)


def test_refusals() -> None:
    x, y, site = simulate(3, 0.0)
    for call, message in (
        (lambda: atm.xi_by_score_test(atm.NormalLinear(), x, y, None), "needs anchors"),
        (lambda: atm.xi_by_score_test(atm.NormalLinear(), x, y, site, level=5), "between 0 and 1"),
        (lambda: atm.xi_by_score_test(atm.NormalLinear(), x, y, site, largest=np.inf), "positive finite number"),
        (lambda: atm.xi_by_score_test(atm.NormalLinear(), x, y, np.zeros(400, dtype=int)), "nothing to test"),
        (lambda: atm.xi_by_score_test("Lm", x, y, site), "estimator of this package"),
    ):
        with pytest.raises((InputError, InputTypeError), match=message):
            call()
