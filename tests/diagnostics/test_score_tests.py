"""Is anchoring needed: the score test against likelihood ratios and its own distribution."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from reference_fits import COVARIATES, boston_response, data
from scipy import stats

import anchortm as atm
from anchortm.exceptions import InputError

mpl.use("Agg")

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
    assert test.method == "simulate"  # 5.7 rows for each of 89 degrees of freedom
    assert test.pvalue == 1.0 / 200.0
    assert "the anchors explain more" in str(test)
    assert "199 draws, all smaller" in str(test)
    assert test.plot().get_legend().get_texts()[1].get_text() == "199 draws from the fitted model"
    assert test.frame().shape == (1, 3)


def many_places(name: str, n_places: int, n_rows: int, seed: int):
    """Return rows of places that do not differ, from the model that is tested."""
    rng = np.random.default_rng((seed, n_places, n_rows))
    n = n_places * n_rows
    x = rng.normal(size=(n, 1))
    if name in ("weibull", "cox"):
        time = rng.exponential(size=n) ** (2 / 3) * np.exp(-x[:, 0] / 3)
        limit = 2.0 * rng.exponential(size=n)
        y = atm.Surv(np.minimum(time, limit), time <= limit)
    else:
        y = x[:, 0] + (rng.logistic(size=n) if name == "c-logit" else rng.normal(size=n))
    return x, y, np.repeat(np.arange(n_places), n_rows)


TINY = {
    "linear": atm.NormalLinear(),
    "c-probit": atm.ContinuousProbit(),
    "c-logit": atm.ContinuousLogit(),
    "weibull": atm.ParametricSurvival(),
    "cox": atm.CoxPH(),
}


def rejected(name: str, n_places: int, n_rows: int, n_samples: int, n_draws: int, **options) -> float:
    low = []
    for seed in range(n_samples):
        x, y, place = many_places(name, n_places, n_rows, seed)
        test = atm.diagnostics.score_test(TINY[name], x, y, place, n_draws=n_draws, random_state=seed, **options)
        low.append(test.pvalue <= 0.05)
    return float(np.mean(low))


@pytest.mark.bug("other software", "the score test rejected three of four true models with 100 places of two rows")
def test_many_tiny_places_do_not_reject_a_true_model() -> None:
    """With 100 places of two rows the observed information rejects three quarters of true models."""
    assert rejected("linear", 100, 2, n_samples=40, n_draws=19) <= 0.15
    assert rejected("linear", 100, 2, n_samples=40, n_draws=1, method="observed") > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("n_places", "n_rows"), [(100, 2), (50, 4), (20, 10), (100, 10)])
@pytest.mark.parametrize("name", TINY)
def test_the_level_with_many_small_places(name: str, n_places: int, n_rows: int) -> None:
    assert 0.02 <= rejected(name, n_places, n_rows, n_samples=400, n_draws=59) <= 0.08


def test_power_with_many_small_places() -> None:
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(60), 3)
    x = rng.normal(size=(180, 1))
    for model in (atm.NormalLinear(), atm.CoxPH()):
        y = np.exp(0.3 * (x[:, 0] + 1.5 * rng.normal(size=60)[place] + rng.normal(size=180)))
        test = atm.diagnostics.score_test(model, x, y, place, n_draws=39)
        assert (test.method, test.pvalue) == ("simulate", 1 / 40)


def test_the_expected_information_gives_the_textbook_statistic() -> None:
    """For the linear model shift and scale are orthogonal in expectation: n R^2 of the residuals."""
    x, y, place = many_places("linear", 40, 5, seed=1)
    test = atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, method="expected")
    residual = sm.OLS(y, sm.add_constant(x)).fit().resid
    r2 = sm.OLS(residual, np.column_stack([x, np.eye(40)[place]])).fit().rsquared
    assert test.df == 39
    assert test.statistic == pytest.approx(200 * r2, rel=0.01)  # the draws leave some noise
    assert test.pvalue == pytest.approx(stats.chi2.sf(200 * r2, 39), rel=0.05)


def test_how_the_p_value_is_found_depends_on_rows_and_places() -> None:
    few, some, many = ((20, 5), (40, 40), (4, 100))
    found = []
    for n_places, n_rows in (few, some, many):
        x, y, place = many_places("linear", n_places, n_rows, seed=2)
        found.append(atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, n_draws=9))
    assert [test.method for test in found] == ["simulate", "expected", "observed"]
    assert [test.simulated.size for test in found] == [9, 0, 0]
    assert "simulated distribution, 9 draws" in str(found[0])
    assert "expected information, chi-square" in str(found[1])
    x, y, place = many_places("linear", 20, 5, seed=2)
    again = atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, n_draws=9)
    assert again.pvalue == found[0].pvalue
    np.testing.assert_array_equal(again.simulated, found[0].simulated)
    tiny = atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, method="observed")
    assert "5.3 rows for each degree of freedom: this version rejects too often" in str(tiny)
    with pytest.raises(InputError, match="method must be 'auto', 'observed', 'expected', 'simulate', not 'exact'"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, method="exact")
    with pytest.raises(InputError, match="n_draws"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, n_draws=0)


def test_outcomes_that_cannot_be_drawn() -> None:
    x, y, place = many_places("linear", 20, 5, seed=3)
    weight = np.where(place % 2, 1.0, 1.5)
    shares = atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, sample_weight=weight)
    assert shares.method == "observed"
    assert "rejects too often" in str(shares)
    with pytest.raises(InputError, match="cannot draw weights that are not whole numbers: take method='observed'"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, sample_weight=weight, method="simulate")
    truncated = atm.Interval(y, y, exit=np.full(100, 10.0))
    with pytest.raises(InputError, match="truncated on the right"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, truncated, place, method="expected")


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (atm.OrdinalRegression(), "ordinal"),
        (atm.CountRegression(order=3), "count"),
        (atm.AnchorGLM(family="poisson"), "count"),
        (atm.AnchorGLM(family="poisson", dispersion="pearson"), "count"),
        (atm.AnchorGLM(family="gamma", link="log"), "positive"),
        (atm.AnchorGLM(family="binomial"), "binary"),
        (atm.ProportionalHazards(order=3), "entry"),
        (atm.CoxPH(), "entry"),
        (atm.ContinuousLogit(order=3), "interval"),
        (atm.NormalLinear(random="g"), "plain"),
        (atm.OrdinalRegression(strata="s"), "ordinal"),
        (atm.CoxPH(strata="s"), "ties"),
    ],
)
def test_every_kind_of_outcome_can_be_simulated(model, kind: str) -> None:
    """Under a true model the simulated statistics are about their degrees of freedom, and so is the observed one."""
    rng = np.random.default_rng(8)
    place = np.repeat(np.arange(30), 6)
    table = pd.DataFrame({"x": rng.normal(size=180), "g": np.arange(180) // 3, "s": rng.integers(0, 2, 180)})
    X = table[["x", *(c for c in "gs" if c in (model.random, model.strata))]]
    latent = table.x + rng.logistic(size=180) + (rng.normal(size=60)[table.g] if model.random else 0.0)
    count = rng.poisson(np.exp(0.5 + 0.3 * table.x))
    late = np.where(rng.random(180) < 0.5, rng.random(180), 0.0) if kind == "entry" else np.zeros(180)
    time = late + rng.exponential(size=180) * np.exp(-0.4 * table.x)
    y = {
        "ordinal": np.digitize(latent, [-1, 1]),
        "count": count,
        "positive": time,
        "binary": (latent > 0).astype(int),
        "entry": atm.Surv(time, rng.random(180) < 0.8, entry=late),
        "interval": atm.Interval(np.floor(latent), np.floor(latent) + 1),
        "plain": latent,
        "ties": atm.Surv(np.ceil(4 * time), rng.random(180) < 0.8),
    }[kind]
    test = atm.diagnostics.score_test(model, X, y, place, n_draws=30)
    assert test.method == "simulate"
    assert test.df == 29
    assert test.simulated.mean() == pytest.approx(29, rel=0.25)
    assert test.simulated.std(ddof=1) == pytest.approx(np.sqrt(58), rel=0.7)
    assert 0.5 * 29 < test.statistic < 2.0 * 29


@pytest.mark.filterwarnings("ignore:covariates nearly collinear")
@pytest.mark.parametrize("model", [atm.NormalLinear(), atm.ContinuousLogit(order=3), atm.CoxPH()], ids=str)
def test_nearly_collinear_covariates_are_simulated_alike(model) -> None:
    x, y, place = many_places("cox" if isinstance(model, atm.CoxPH) else "linear", 20, 5, seed=5)
    z = np.random.default_rng(0).normal(size=(100, 1))
    near, plain = (np.hstack([x, x + size * z]) for size in (1e-5, 1.0))
    one, two = (atm.diagnostics.score_test(model, X, y, place, n_draws=9) for X in (near, plain))
    assert one.method == "simulate"
    assert one.statistic == pytest.approx(two.statistic, rel=1e-4)
    np.testing.assert_allclose(one.simulated, two.simulated, rtol=1e-3)


def test_whole_weights_are_simulated_as_copies_of_rows() -> None:
    x, y, place = many_places("linear", 20, 5, seed=4)
    weight = np.random.default_rng(0).integers(1, 4, 100)
    again = np.repeat(np.arange(100), weight)
    one = atm.diagnostics.score_test(atm.NormalLinear(), x, y, place, sample_weight=weight)
    two = atm.diagnostics.score_test(atm.NormalLinear(), x[again], y[again], place[again])
    assert one.method == two.method == "simulate"
    assert one.statistic == pytest.approx(two.statistic, rel=1e-6)
    np.testing.assert_allclose(one.simulated, two.simulated, rtol=1e-6)


@pytest.mark.parametrize("kind", ["factor", "numbers", "both"])
def test_weighted_score_test_is_that_of_replicated_rows(kind: str) -> None:
    x, latent, site = simulate(6, 0.3)
    number = np.random.default_rng(1).normal(size=400) + site
    weight = np.random.default_rng(0).integers(1, 4, 400)
    again = np.repeat(np.arange(400), weight)
    anchors = {"factor": [site], "numbers": [number], "both": [site, number]}[kind]
    model = atm.ContinuousLogit(order=3, support=(-3.0, 5.0))
    one = atm.diagnostics.score_test(model, x, latent, anchors, sample_weight=weight)
    two = atm.diagnostics.score_test(model, x[again], latent[again], [a[again] for a in anchors])
    assert one.df == two.df
    assert one.statistic == pytest.approx(two.statistic, rel=1e-6)


def test_refusals() -> None:
    x, latent, _ = simulate(4, 0.0)
    with pytest.raises(InputError, match="nothing to test"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, latent, np.zeros(400, dtype=int))
    with pytest.raises(InputError, match="needs anchors"):
        atm.diagnostics.score_test(atm.NormalLinear(), x, latent, None)
    with pytest.raises(InputError, match="at most 3000"):
        atm.diagnostics.score_test(
            atm.NormalLinear(), np.random.default_rng(0).normal(size=(4000, 1)), np.arange(4000.0) % 71, np.arange(4000)
        )
