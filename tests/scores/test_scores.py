"""Scores against closed forms, other software and direct computation."""

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from reference_fits import COVARIATES, boston_response, data
from scipy import integrate, stats
from sklearn.exceptions import NotFittedError

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.response import as_response

BOSTON = data("BostonHousing2")
X, Y, TOWN = BOSTON[COVARIATES], BOSTON.cmedv.to_numpy(), BOSTON.town


def test_crps_of_the_normal_model_has_a_closed_form() -> None:
    model = atm.NormalLinear().fit(X, Y)
    z = (Y - model.predict(X)) / model.sigma_
    wanted = model.sigma_ * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(atm.scores.crps(model.predict_distribution(X), Y), wanted, rtol=1e-6)


@pytest.mark.parametrize("make", [atm.ContinuousLogit, atm.Lehmann])
def test_crps_is_the_integral_of_squared_differences(make) -> None:
    dist = make().fit(X, Y).predict_distribution(X[:4])
    computed = atm.scores.crps(dist, Y[:4])
    for i in range(4):
        low, high = float(dist[i].ppf(1e-9)[0]) - 5, float(dist[i].isf(1e-9)[0]) + 5
        marks = sorted({*dist.basis.support, float(Y[i])})
        area, _ = integrate.quad(
            lambda t, i=i: (float(dist[i].cdf(t)[0]) - (Y[i] <= t)) ** 2, low, high, points=marks, limit=400
        )
        assert computed[i] == pytest.approx(area, rel=1e-5)


def test_crps_of_classes_and_counts() -> None:
    y = boston_response("ord6")
    dist = atm.OrdinalRegression().fit(X, y).predict_distribution(X)
    labels = np.array(y.levels, dtype=object)[y.codes]
    below = np.cumsum(dist.probabilities(), axis=1)[:, :-1]
    wanted = ((below - (y.codes[:, None] <= np.arange(5))) ** 2).sum(axis=1)
    np.testing.assert_allclose(atm.scores.crps(dist, labels), wanted, atol=1e-12)
    counts = np.round(Y)
    dist = atm.CountRegression().fit(X, counts).predict_distribution(X[:5])
    k = np.arange(3000.0)
    wanted = ((dist.cdf(k) - (counts[:5, None] <= k)) ** 2).sum(axis=1)
    np.testing.assert_allclose(atm.scores.crps(dist, counts[:5]), wanted, rtol=1e-6)
    with pytest.raises(InputError, match="one value for each of the 5 rows"):
        atm.scores.crps(dist, counts[:4])


@pytest.mark.parametrize("kind", ["exact", "rc", "ic", "mix", "ord6", "lt"])
def test_pit_is_uniform_under_the_model(kind: str) -> None:
    make = atm.OrdinalRegression if kind == "ord6" else atm.ContinuousLogit
    y = boston_response(kind)
    values = atm.scores.pit(make().fit(X, y).predict_distribution(X), y, random_state=0)
    assert ((values >= 0) & (values <= 1)).all()
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_pit_is_not_uniform_under_a_wrong_model() -> None:
    y = boston_response("exact")
    values = atm.scores.pit(atm.NormalLinear().fit(X, Y).predict_distribution(X, offset=np.ones(506)), y)
    assert stats.kstest(values, "uniform").pvalue < 1e-6


def test_coverage() -> None:
    model = atm.ContinuousLogit().fit(X, Y)
    inside = atm.scores.coverage(model.predict_distribution(X), Y, 0.8)
    assert inside.mean() == pytest.approx(0.8, abs=0.05)


def test_concordance_agrees_with_lifelines() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 2026-11-15: the peer's own warnings, not ours
        from lifelines.utils import concordance_index
    rng = np.random.default_rng(0)
    risk = np.round(rng.normal(size=200), 1)
    time = rng.exponential(size=200) * np.exp(-risk)
    limit = rng.exponential(size=200)
    y = atm.Surv(np.minimum(time, limit), time <= limit)
    wanted = concordance_index(np.minimum(time, limit), -risk, time <= limit)
    assert atm.scores.concordance(risk, y) == pytest.approx(wanted, rel=1e-12)
    tied = np.ceil(4 * np.minimum(time, limit))  # events and censorings at one time
    wanted = concordance_index(tied, -risk, time <= limit)
    assert atm.scores.concordance(risk, atm.Surv(tied, time <= limit)) == pytest.approx(wanted, rel=1e-12)
    assert atm.scores.concordance(-time, atm.Surv(time, np.ones(200))) == 1.0
    with pytest.raises(InputError, match="no pair"):
        atm.scores.concordance(risk, atm.Surv(time, np.zeros(200)))


def test_brier_without_censoring_is_the_mean_squared_error() -> None:
    model = atm.ProportionalHazards().fit(X, Y)
    y = atm.Surv(Y, np.ones(506))
    dist = model.predict_distribution(X)
    for t, score in zip([15.0, 25.0], atm.scores.brier(dist, y, [15.0, 25.0]), strict=True):
        assert score == pytest.approx(np.mean(((t < Y) - dist.sf(t)) ** 2))


def test_brier_weights_make_up_for_censoring() -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    x = rng.normal(size=(n, 1))
    time = rng.exponential(size=n) * np.exp(-x[:, 0])
    limit = 2 * rng.exponential(size=n)
    y = atm.Surv(np.minimum(time, limit), time <= limit)
    dist = atm.ParametricSurvival().fit(x, y).predict_distribution(x)
    full = np.mean(((time > 0.7) - dist.sf(0.7)) ** 2)
    assert atm.scores.brier(dist, y, 0.7)[0] == pytest.approx(full, rel=0.02)
    naive = np.mean(((np.minimum(time, limit) > 0.7) - dist.sf(0.7)) ** 2)
    assert abs(naive - full) > 3 * abs(atm.scores.brier(dist, y, 0.7)[0] - full)


@pytest.mark.bug("other software", "the Brier score kept rows that die at a time at risk of being censored at it")
def test_brier_is_right_with_tied_times() -> None:
    """Deaths and censorings on whole weeks: the truth is the score of the uncensored times."""
    rng = np.random.default_rng(0)
    n, times = 40_000, [1.0, 2.0, 4.0]
    time = rng.geometric(0.25, n).astype(float)
    limit = rng.choice(np.arange(1.0, 7.0), n, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.1])
    dist = atm.ParametricSurvival().fit(None, time).predict_distribution(n_rows=n)
    truth = [np.mean(((time > t) - dist.sf(t)) ** 2) for t in times]
    y = atm.Surv(np.minimum(time, limit), time <= limit)
    np.testing.assert_allclose(atm.scores.brier(dist, y, times), truth, atol=0.004)  # a standard error is below 0.002


def test_brier_by_hand_where_deaths_and_censorings_coincide() -> None:
    """Week 1: a death and a censoring. Of the 4 not dead in week 1 one is censored: P(C > 1) = 3/4, P(C >= 1) = 1."""
    y = atm.Surv([1.0, 1.0, 2.0, 2.0, 3.0], [1, 0, 1, 0, 1])
    s = np.array([0.6, 0.3])
    # week 2: of the 2 not dead in week 2 one is censored: P(C > 2) = 3/4 x 1/2, P(C >= 2) = 3/4
    first = (s[0] ** 2 + 3 * (1 - s[0]) ** 2 / 0.75) / 5
    second = (s[1] ** 2 + s[1] ** 2 / 0.75 + (1 - s[1]) ** 2 / 0.375) / 5
    np.testing.assert_allclose(atm.scores.brier(np.tile(s, (5, 1)), y, [1.0, 2.0]), [first, second], rtol=1e-12)
    last = 0.1**2 * (1 + 1 / 0.75 + 1 / 0.375) / 5  # after the last event, with nobody left
    np.testing.assert_allclose(atm.scores.brier(np.full(5, 0.1), y, 9.0), last, rtol=1e-12)
    with pytest.raises(InputError, match=r"at time 2 cannot be computed: .*the last time is 2"):
        atm.scores.brier(np.full((4, 2), 0.5), y[:4], [1.5, 2.0])  # the last row is censored


def test_brier_agrees_with_scikit_survival() -> None:
    """Without ties both weight alike; the numbers are those of brier_score in scikit-survival 0.28.0."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=300)
    time, limit = rng.exponential(size=300) * np.exp(-0.5 * x), 1.5 * rng.exponential(size=300)
    times = np.array([0.2, 0.5, 1.0])
    survival = np.exp(-np.exp(0.5 * x)[:, None] * times)
    found = atm.scores.brier(survival, atm.Surv(np.minimum(time, limit), time <= limit), times)
    np.testing.assert_allclose(found, [0.15572133, 0.21939373, 0.20447787], atol=5e-9)


SMALL = np.random.default_rng(5).normal(size=(50, 1))
TIME = np.exp(SMALL[:, 0] + np.random.default_rng(6).normal(size=50))
SEEN = np.random.default_rng(7).random(50) < 0.7
WEIBULL = atm.ParametricSurvival().fit(SMALL, atm.Surv(TIME, SEEN)).predict_distribution(SMALL)


def _containers(values: np.ndarray) -> list:
    return [values.tolist(), tuple(values.tolist()), pd.Series(values, index=np.arange(50)[::-1]), pl.Series(values)]


def test_scores_take_outcomes_as_fit_does() -> None:
    """Lists, series and arrays are known outcomes, a structured array is Surv."""
    exact, censored = atm.Surv(TIME, np.ones(50)), atm.Surv(TIME, SEEN)
    structured = np.array(list(zip(SEEN, TIME, strict=True)), dtype=[("seen", bool), ("time", float)])
    F = 1.0 - WEIBULL.sf(TIME[:, None])[:, 0]
    low, high = WEIBULL.interval(0.8)
    inside = (low <= TIME) & (high >= TIME)
    rank = atm.scores.concordance(SMALL[:, 0], exact)
    for y in (TIME, exact, *_containers(TIME)):
        np.testing.assert_allclose(atm.scores.pit(WEIBULL, y), F, atol=1e-12)
        np.testing.assert_array_equal(atm.scores.crps(WEIBULL, y), atm.scores.crps(WEIBULL, TIME))
        np.testing.assert_array_equal(atm.scores.coverage(WEIBULL, y, 0.8), inside)
        assert atm.scores.concordance(SMALL[:, 0], y) == rank
        assert atm.scores.brier(WEIBULL, y, 1.0) == pytest.approx(np.mean(((TIME > 1.0) - WEIBULL.sf(1.0)) ** 2))
    for risk in _containers(SMALL[:, 0]):
        assert atm.scores.concordance(risk, TIME) == rank
    for score in (atm.scores.concordance, lambda risk, y: atm.scores.brier(WEIBULL, y, 1.0)[0]):
        assert score(TIME, structured) == score(TIME, censored)
    np.testing.assert_array_equal(atm.scores.pit(WEIBULL, structured, 0), atm.scores.pit(WEIBULL, censored, 0))


def test_scores_take_classes_and_counts() -> None:
    noise = np.random.default_rng(8).normal(size=50)
    classes = pd.Series(pd.cut(SMALL[:, 0] + noise, [-9, -0.5, 0.5, 9], labels=["low", "mid", "top"]))
    dist = atm.OrdinalRegression().fit(SMALL, classes).predict_distribution(SMALL)
    codes = classes.cat.codes.to_numpy()
    ends = np.column_stack([np.zeros(50), np.cumsum(dist.probabilities(), axis=1)])
    for y in (classes, classes.astype(object).to_numpy(), classes.tolist()):
        u = atm.scores.pit(dist, y, 0)
        assert ((u >= ends[np.arange(50), codes]) & (u <= ends[np.arange(50), codes + 1])).all()
        # the middle half of the probability, from the class that holds 1/4 to the one that holds 3/4
        first, last = (ends[:, 1:] < 0.25).sum(axis=1), (ends[:, 1:] < 0.75).sum(axis=1)
        np.testing.assert_array_equal(atm.scores.coverage(dist, y, 0.5), (first <= codes) & (codes <= last))
    k = np.random.default_rng(9).poisson(3.0, 50)
    for model in (atm.CountRegression(order=2), atm.AnchorGLM(family="poisson")):
        dist = model.fit(SMALL, k).predict_distribution(SMALL)
        u = atm.scores.pit(dist, k.tolist(), 0)
        below, above = (dist.cdf((k - step)[:, None])[:, 0] for step in (1.0, 0.0))
        assert ((u >= below) & (u <= above)).all()
        np.testing.assert_array_equal(
            atm.scores.crps(dist, atm.Interval(k, k)), atm.scores.crps(dist, k)
        )  # counts known to one


def test_brier_of_plain_survival_probabilities() -> None:
    """P(Y > t) of any software: of one time a vector, of several a table."""
    y, times = atm.Surv(TIME, SEEN), [0.5, 1.0, 2.0]
    wanted = atm.scores.brier(WEIBULL, y, times)
    table = WEIBULL.sf(times)
    for given in (table, table.tolist(), pd.DataFrame(table), pl.DataFrame(table)):
        np.testing.assert_array_equal(atm.scores.brier(given, y, times), wanted)
    np.testing.assert_allclose(atm.scores.brier(table[:, 1], y, 1.0), wanted[1:2], rtol=1e-14)
    with pytest.raises(InputError, match=r"shape \(3, 50\), but y has 50 rows and there are 3 times.*transpose"):
        atm.scores.brier(table.T, y, times)
    with pytest.raises(InputError, match=r"between 0 and 1, not 1\.5"):
        atm.scores.brier(np.full(50, 1.5), y, 1.0)
    with pytest.raises(InputError, match="between 0 and 1, not nan"):
        atm.scores.brier(np.full(50, np.nan), y, 1.0)


@pytest.mark.bug("other software", "scores of plain arrays, lists and series ended in errors of Python's")
@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda: atm.scores.pit(TIME, TIME), "not ndarray; score_table takes a model"),
        (lambda: atm.scores.coverage(TIME, TIME), "not ndarray; score_table takes a model"),
        (lambda: atm.scores.pit(WEIBULL, TIME[:9]), "y has 9 rows, but there are 50 predicted distributions"),
        (lambda: atm.scores.coverage(WEIBULL, TIME[:9]), "one value for each of the 50 rows"),
        (lambda: atm.scores.pit(WEIBULL, ["a"] * 50), "y must be numbers, not 'a' at row 0"),
        (lambda: atm.scores.coverage(WEIBULL, ["a"] * 50), "y must be numbers, not 'a' at row 0"),
        (lambda: atm.scores.crps(WEIBULL, atm.Surv(TIME, SEEN)), "of the 50 rows are censored"),
        (lambda: atm.scores.coverage(WEIBULL, atm.Interval(TIME, TIME + 1)), "50 of the 50 rows are censored"),
        (lambda: atm.scores.crps(WEIBULL, atm.Surv(TIME, SEEN | True, entry=TIME / 2)), r"given\(after=entry\)"),
        (lambda: atm.scores.concordance(WEIBULL, TIME), "one number for each row.*not PredictedDistribution"),
        (lambda: atm.scores.concordance(["a"] * 50, TIME), "risk must be numbers"),
        (lambda: atm.scores.concordance([np.nan] * 50, TIME), "risk is missing at row 0"),
        (lambda: atm.scores.concordance(SMALL, TIME), r"risk has shape \(50, 1\)"),
        (lambda: atm.scores.concordance(TIME, as_response([0, 1] * 25, "ordinal")), "y must be times"),
        (lambda: atm.scores.brier(WEIBULL, atm.Interval(TIME, TIME + 1), 1.0), "50 rows of y are left- or interval"),
        (lambda: atm.scores.brier(WEIBULL, TIME, 1.0, atm.Interval(TIME, TIME + 1)), "50 rows of train are left- or"),
        (lambda: atm.scores.brier(WEIBULL[:9], TIME, 1.0), r"shape \(9, 1\), but y has 50 rows"),
        (lambda: atm.scores.brier(WEIBULL, TIME, "soon"), "times must be numbers, not 'soon'"),
        (lambda: atm.scores.brier(WEIBULL, TIME, [[1.0]]), "times must be a number or a vector"),
    ],
)
def test_scores_refuse_in_our_words(ask, match: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=match):
        ask()


@pytest.mark.bug("other software", "censored counts had a CRPS as if they were known")
def test_table_has_no_crps_of_censored_counts() -> None:
    k = np.random.default_rng(9).poisson(3.0, 50).astype(float)
    y = atm.Interval(np.where(k > 4, 4.0, k), np.where(k > 4, np.inf, k))  # more than 4 is all that is known
    fit = atm.CountRegression(order=2).fit(SMALL, y)
    rows = atm.scores.score_table(fit, SMALL, y).rows
    assert rows.crps[k > 4].isna().all()
    known = np.flatnonzero(k <= 4)
    wanted = atm.scores.crps(fit.predict_distribution(SMALL[known]), k[known])
    np.testing.assert_allclose(rows.crps[known], wanted)


def test_nll_quantiles() -> None:
    nll = atm.NormalLinear().fit(X, Y).nll(X, Y)
    np.testing.assert_allclose(atm.scores.nll_quantiles(nll, [0, 0.5, 1]), [nll.min(), np.median(nll), nll.max()])


def test_table_by_environment() -> None:
    """Each column from its own function on the rows of each environment."""
    rng = np.random.default_rng(8)
    site = np.array(["a", "b", "c"])[rng.integers(0, 3, 300)]
    x = rng.normal(size=(300, 1))
    time = np.exp(0.5 * x[:, 0] + 0.5 * rng.normal(size=300))
    y = atm.Surv(np.minimum(time, 2.0), time < 2.0)
    fit = atm.ContinuousProbit(log_first=True).fit(x, y)
    result = atm.scores.score_table(fit, x, y, site, times=[0.7, 1.2])
    table = result.frame().set_index("environment")
    assert list(table.index) == ["(all)", "a", "b", "c"]
    dist = fit.predict_distribution(x)
    for name in table.index:
        rows = np.flatnonzero(site == name) if name != "(all)" else np.arange(300)
        assert table.loc[name, "n"] == rows.size
        assert table.loc[name, "nll"] == pytest.approx(fit.nll(x, y)[rows].mean())
        assert table.loc[name, "concordance"] == pytest.approx(atm.scores.concordance(-fit.predict(x)[rows], y[rows]))
        wanted = atm.scores.brier(dist[rows], y[rows], [0.7, 1.2], train=y)
        np.testing.assert_allclose(table.loc[name, ["brier_0.7", "brier_1.2"]].astype(float), wanted)
        assert table.loc[name, "coverage"] == pytest.approx(0.9, abs=0.08)
    assert table.crps.isna().all()  # censored rows have none
    quantiles = result.quantiles([0.5, 1.0])
    assert len(quantiles) == 8
    worst = quantiles[(quantiles.environment == "b") & (quantiles.alpha == 1.0)].nll.item()
    assert worst == fit.nll(x, y)[site == "b"].max()
    assert "coverage of 90% intervals" in repr(result)


@pytest.mark.parametrize("kind", ["exact", "ordinal", "count", "interval"])
def test_table_of_other_outcomes(kind: str) -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(400, 1))
    latent = x[:, 0] + rng.logistic(size=400)
    model, y = {
        "exact": (atm.ContinuousLogit(), latent),
        "ordinal": (atm.OrdinalRegression(), np.digitize(latent, [-1, 1]) + 5),
        "count": (atm.CountRegression(order=3), np.floor(np.exp(latent / 2)).astype(int)),
        "interval": (atm.ContinuousLogit(), atm.Interval(np.floor(latent), np.floor(latent) + 1.0)),
    }[kind]
    fit = model.fit(x, y)
    table = atm.scores.score_table(fit, x, y).frame()
    assert table.shape[0] == 1
    assert table.pit.item() == pytest.approx(0.5, abs=0.05)
    assert table.coverage.item() == pytest.approx(0.9, abs=0.05)
    if kind == "interval":
        assert np.isnan(table.crps.item())
    else:
        assert table.crps.item() == pytest.approx(atm.scores.crps(fit.predict_distribution(x), y).mean())
    with pytest.raises(InputError, match="has 3 rows"):
        atm.scores.score_table(fit, x, y, [1, 2, 3])


@pytest.mark.parametrize(
    ("model", "response"),
    [
        (atm.ContinuousProbit(order=8), np.exp),
        (atm.ProportionalHazards(), lambda z: atm.Surv(np.exp(z / 2), np.ones(z.size))),
        (atm.ParametricSurvival(), lambda z: np.exp(z / 3)),
        (atm.Lehmann(), lambda z: z),
    ],
    ids=["probit", "cox", "weibull", "lehmann"],
)
def test_crps_by_quadrature(model, response) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    z = 1.5 * x[:, 0] + rng.logistic(size=200)
    y = response(z)
    fit = model.fit(x, y)
    observed = y.upper if isinstance(y, atm.Response) else y
    dist = fit.predict_distribution(x)
    scores = atm.scores.crps(dist, observed)
    for i in (0, 7, 100):
        one = dist[[i]]
        inner = [*getattr(fit, "support_", ()), *one.ppf([0.01, 0.1, 0.5, 0.9, 0.99])[0], observed[i]]
        ends = np.unique([float(one.ppf(1e-13)[0]), *inner, float(one.isf(1e-13)[0])])
        total = 0.0
        for a, b in itertools.pairwise(ends):
            F = one.cdf if b <= observed[i] else one.sf
            total += integrate.quad(lambda t, F=F: F(t)[0] ** 2, a, b, epsabs=1e-13, epsrel=1e-11)[0]
        assert scores[i] == pytest.approx(total, rel=1e-8)


def test_rows_are_scored_given_their_entry() -> None:
    rng = np.random.default_rng(1)
    time = rng.exponential(size=2000)
    entry = rng.uniform(0.0, 1.5, 2000)
    seen = time > entry
    y = atm.Surv(time[seen], np.ones(seen.sum()), entry=entry[seen])
    fit = atm.ParametricSurvival().fit(None, y)
    table = atm.scores.score_table(fit, None, y, times=np.array([0.5, 1.5])).frame()
    dist = fit.predict_distribution(None, n_rows=int(seen.sum()))
    assert table.crps.item() == pytest.approx(atm.scores.crps(dist.given(after=entry[seen]), time[seen]).mean())
    assert table[["concordance", "brier_0.5", "brier_1.5"]].isna().all(axis=None)
    assert table.pit.item() == pytest.approx(0.5, abs=0.03)


def test_refusals_of_the_table() -> None:
    fit = atm.NormalLinear().fit(X, Y)
    with pytest.raises(InputError, match="X has 10 rows"):
        atm.scores.score_table(fit, X[:10], Y)
    with pytest.raises(NotFittedError):
        atm.scores.score_table(atm.NormalLinear(), X, Y)
    assert atm.scores.score_table(fit, X, Y[:, None]).frame().n.item() == 506


@pytest.mark.bug("hard data", "the CRPS of counts with a heavy tail was summed count by count, and did not end")
def test_crps_of_large_and_of_heavy_tailed_counts() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1))
    k = np.floor(3000 * (rng.poisson(np.exp(2 + 0.3 * x[:, 0])) + rng.random(300)))
    dist = atm.CountRegression(link="cloglog", order=3).fit(x, k).predict_distribution(x[:4])
    grid = np.arange(float(np.max(dist.isf(1e-10))))
    wanted = [((dist[[i]].cdf(grid)[0] - (k[i] <= grid)) ** 2).sum() for i in range(4)]
    np.testing.assert_allclose(atm.scores.crps(dist, k[:4]), wanted, rtol=1e-6)
    for link in ("logit", "probit", "cloglog", "loglog"):  # a narrow step far out, y on both sides of it
        k = rng.poisson(1e5 * np.exp(0.05 * x[:, 0])).astype(float)
        dist = atm.CountRegression(link=link, order=4).fit(x, k).predict_distribution(x[:4])
        k = np.floor(k[:4] * [1.0, 1.05, 0.9, 1.001])
        grid = np.arange(max(float(np.max(dist.isf(1e-10))), k.max()) + 1.0)
        wanted = [((dist[[i]].cdf(grid)[0] - (k[i] <= grid)) ** 2).sum() for i in range(4)]
        np.testing.assert_allclose(atm.scores.crps(dist, k), wanted, rtol=1e-6)
    heavy = atm.CountRegression(link="logit", order=1).fit(x, np.floor(np.exp(5.0 * rng.logistic(size=300)) % 1e12))
    assert (
        heavy.basis_.end_slopes(heavy.baseline_)[1] < 0.5
    )  # P(Y > k) falls like k^-slope: the sum of squares diverges
    assert np.isinf(atm.scores.crps(heavy.predict_distribution(x[:2]), np.array([1.0, 5.0]))).all()


def test_the_crps_beyond_the_last_place_with_mass_is_finite():
    late = atm.Surv(np.array([1.0, 2.0, 2.5, 3.0, 3.2, 4.0]), np.ones(6, dtype=int))
    model = atm.ProportionalHazards(order=2).fit(None, late)
    law = model.predict_distribution(None, n_rows=2).given(after=0.5)
    found = atm.scores.crps(law, [3.0, 1e6])  # F(1e6) = 1
    assert np.isfinite(found).all()
    assert found[1] == pytest.approx(1e6, rel=1e-4)
