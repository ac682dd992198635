"""Skill, regret, predictions and splits of left-out environments, each found a second way."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.exceptions import InputError

mpl.use("Agg")
RNG = np.random.default_rng(4)
N = 160
SITE = np.repeat(np.arange(5), [40, 20, 60, 28, 12])
X = RNG.normal(size=(N, 2)) + 0.4 * RNG.normal(size=5)[SITE, None]
LATENT = X @ [1.0, -0.5] + 0.5 * RNG.normal(size=5)[SITE] + RNG.logistic(size=N)
TIME = np.exp(0.4 * LATENT)
EVENT = RNG.exponential(4.0, N) > TIME
TOWNS = atm.datasets.load_boston_housing2()
COVARIATES = ["crim", "rm", "lstat"]

CASES = {
    "linear": (atm.NormalLinear(), LATENT),
    "censored": (atm.ContinuousLogit(order=3), atm.Surv(TIME, EVENT)),
    "classes": (atm.OrdinalRegression(), np.digitize(LATENT, [-1.0, 1.0])),
    "counts": (atm.AnchorGLM(family="poisson"), RNG.poisson(np.exp(0.3 * LATENT))),
    "hazards": (atm.CoxPH(), atm.Surv(TIME, EVENT)),
    "trees": (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3, min_samples_leaf=10), LATENT),
    "pipeline": (atm.make_pipeline(StandardScaler(), atm.NormalLinear()), LATENT),
}


def nothing(model):
    """Return the model that is fitted without covariates."""
    inner = model[-1] if hasattr(model, "steps") else model
    return getattr(inner, "model", inner)


@pytest.mark.parametrize("case", CASES)
def test_skill_is_measured_from_the_fit_without_covariates_to_the_same_rows(case: str) -> None:
    model, y = CASES[case]
    frame = atm.leave_one_environment_out(model, X, y, SITE, [0.0, 2.0]).frame().set_index(["environment", "xi"])
    for e in (1, 4):
        inside, outside = np.flatnonzero(e != SITE), np.flatnonzero(e == SITE)
        bare = nothing(model).fit(None, y[inside])
        null = bare.nll(None, y[outside]).mean()
        for xi in (0.0, 2.0):
            assert frame.skill[e, xi] == pytest.approx(null - frame.nll[e, xi], abs=1e-7)
            assert frame.regret[e, xi] == pytest.approx(frame.nll[e, xi] - frame.nll[e, 0.0], abs=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_those_of_fits_without_the_environment(case: str) -> None:
    model, y = CASES[case]
    result = atm.leave_one_environment_out(model, X, y, SITE, [0.0, 2.0])
    found = result.predictions(2.0)
    assert list(found) == [0, 1, 2, 3, 4]
    inside, outside = np.flatnonzero(SITE != 1), np.flatnonzero(SITE == 1)
    own = atm.make_pipeline(StandardScaler(), atm.NormalLinear(xi=2.0)) if case == "pipeline" else None
    by_hand = (own or model.set_params(xi=2.0)).fit(X[inside], y[inside], anchors=SITE[inside])
    np.testing.assert_array_equal(found[1].rows, outside)
    at = np.quantile(np.asarray(found[1].y.lower[np.isfinite(found[1].y.lower)], dtype=float), [0.3, 0.6])
    at = np.array([0, 1]) if case == "classes" else at
    expected = by_hand.predict_distribution(X[outside]).cdf(at)
    np.testing.assert_allclose(found[1].distribution.cdf(at), expected, atol=1e-7)
    if case != "pipeline":
        model.set_params(xi=0.0)


def test_predictions_of_a_formula_with_strata_and_offsets() -> None:
    data = pd.DataFrame({"y": LATENT, "a": X[:, 0], "s": np.arange(N) % 2, "site": SITE, "o": 0.1 * X[:, 1]})
    formula, model = "y | s ~ a | site", atm.ContinuousProbit(order=3)
    result = atm.leave_one_environment_out(model, formula, data, xis=[1.0], offset="o")
    by_hand = atm.ContinuousProbit.from_formula(formula, data[data.site != 2], xi=1.0, order=3, offset="o")
    expected = by_hand.predict_distribution(data[data.site == 2]).median()
    np.testing.assert_allclose(result.predictions(1.0)[2].distribution.median(), expected, atol=1e-6)


def test_predictions_know_where_dropped_rows_were() -> None:
    """Rows with missing values, and rows of weight 0, count in the positions of the others."""
    holes, weight = X.copy(), np.ones(N)
    holes[[3, 45], 0] = np.nan
    weight[[7, 50]] = 0.0
    model = atm.NormalLinear(missing="drop")
    found = atm.leave_one_environment_out(model, holes, LATENT, SITE, [1.0], sample_weight=weight).predictions(1.0)
    good = np.setdiff1d(np.arange(N), [3, 45, 7, 50])
    inside, outside = good[SITE[good] != 1], good[SITE[good] == 1]
    by_hand = atm.NormalLinear(xi=1.0).fit(X[inside], LATENT[inside], anchors=SITE[inside])
    np.testing.assert_array_equal(found[1].rows, outside)
    np.testing.assert_allclose(found[1].distribution.median(), by_hand.predict(X[outside]), atol=1e-8)
    np.testing.assert_array_equal(found[1].y.lower, LATENT[outside])


def test_regret_is_known_if_zero_is_not_asked_for() -> None:
    whole = atm.leave_one_environment_out(atm.NormalLinear(), X, LATENT, SITE, [0.0, 3.0]).frame()
    some = atm.leave_one_environment_out(atm.NormalLinear(), X, LATENT, SITE, [3.0]).frame()
    assert some.xi.unique().tolist() == [3.0]
    pd.testing.assert_frame_equal(some, whole[whole.xi == 3.0].reset_index(drop=True))


def test_skill_does_not_depend_on_the_unit_of_time_but_nll_does() -> None:
    days, years = (
        atm.leave_one_environment_out(
            atm.ParametricSurvival(), X, atm.Surv(unit * TIME, EVENT), SITE, [0.0, 1.0]
        ).frame()
        for unit in (365.25, 1.0)
    )
    np.testing.assert_allclose(days.skill, years.skill, atol=1e-7)
    share = years.events / years.n
    np.testing.assert_allclose(days.nll - years.nll, share * np.log(365.25), atol=1e-6)


def test_sizes_and_events_count_weights() -> None:
    y, model = atm.Surv(TIME, EVENT), atm.ParametricSurvival()
    weight = RNG.integers(1, 3, N)
    again = np.repeat(np.arange(N), weight)
    one = atm.leave_one_environment_out(model, X, y, SITE, [0.0, 1.0], sample_weight=weight).frame()
    two = atm.leave_one_environment_out(model, X[again], y[again], SITE[again], [0.0, 1.0]).frame()
    for name in ("n", "events", "nll", "skill", "regret"):
        np.testing.assert_allclose(one[name].astype(float), two[name].astype(float), atol=1e-8, err_msg=name)
    plain = atm.leave_one_environment_out(model, X, y, SITE, [0.0])
    assert plain.frame().events.tolist() == [float(EVENT[e == SITE].sum()) for e in range(5)]
    assert "compare environments by skill" in repr(plain)
    assert "events" not in atm.leave_one_environment_out(atm.NormalLinear(), X, LATENT, SITE, [0.0]).frame()


@pytest.fixture(scope="module")
def towns():
    model = atm.NormalLinear()
    return atm.leave_one_environment_out(model, TOWNS[COVARIATES], TOWNS.cmedv, TOWNS.town, [0.0, 1.0, 10.0])


def test_width_and_location_add_up_to_the_regret(towns) -> None:
    split = towns.split()
    assert list(split) == ["environment", "xi", "n", "regret", "factor", "spread", "location"]
    np.testing.assert_allclose(split.spread + split.location, split.regret, atol=1e-12)
    assert (split[split.xi == 0.0][["regret", "spread", "location"]].abs() < 1e-12).all(axis=None)
    for town in ("Boston North End", "Lynn"):
        inside, outside = TOWNS[TOWNS.town != town], TOWNS[TOWNS.town == town]
        ml, anchored = (
            atm.NormalLinear(xi=xi).fit(inside[COVARIATES], inside.cmedv, anchors=inside.town) for xi in (0.0, 10.0)
        )
        row = split[(split.environment == town) & (split.xi == 10.0)].iloc[0]
        factor = ml.baseline_[1] / anchored.baseline_[1]  # the slope is 1 / sigma
        assert row.factor == pytest.approx(factor, rel=1e-6)
        wider = ml.widened(factor).nll(outside[COVARIATES], outside.cmedv).mean()
        assert row.spread == pytest.approx(wider - ml.nll(outside[COVARIATES], outside.cmedv).mean(), abs=1e-6)


def test_models_without_a_factor_of_the_width_have_no_split() -> None:
    model, y = CASES["counts"]
    split = atm.leave_one_environment_out(model, X, y, SITE, [0.0, 1.0]).split()
    assert split.regret.notna().all()
    assert split[["factor", "spread", "location"]].isna().all(axis=None)


def test_bootstrap_draws_environments(towns) -> None:
    frame = towns.frame()
    loss = -frame.pivot(index="environment", columns="xi", values="skill")
    found = towns.bootstrap(n_draws=4000, level=0.8, random_state=1)
    difference = loss[10.0] - loss[0.0]
    assert found.objective[10.0] == pytest.approx(loss[10.0].mean())
    assert found.difference[10.0] == pytest.approx(difference.mean())
    rng = np.random.default_rng(2)
    draws = rng.choice(difference.to_numpy(), (20_000, len(difference))).mean(axis=1)
    assert found.se[10.0] == pytest.approx(draws.std(), rel=0.05)
    assert found.lower[10.0] == pytest.approx(np.quantile(draws, 0.1), abs=0.1 * draws.std())
    assert found.upper[10.0] == pytest.approx(np.quantile(draws, 0.9), abs=0.1 * draws.std())
    large = loss[(frame.drop_duplicates("environment").set_index("environment").n >= 10).loc[loss.index]]
    worst = towns.bootstrap("worst")
    assert worst.objective[0.0] == pytest.approx(large[0.0].max())
    assert (worst.loc[0.0, ["difference", "se", "lower", "upper"]] == 0.0).all()


def test_the_plot_of_gains_and_losses(towns) -> None:
    ax = towns.plot(of="regret", label=2)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert ax.get_ylabel() == "change of the negative log-likelihood from xi = 0\nof the left-out town"
    last = towns.frame().query("xi == 10.0").set_index("environment").regret
    for town in [*last.nsmallest(2).index, *last.nlargest(2).index]:
        assert f"town {town}" in names
    assert towns.plot(of="skill").get_ylabel().startswith("skill")


def test_names_with_dollar_signs_are_drawn() -> None:
    names = np.array([r"$\frac{1}$", "b", "c", "d", "e"])[SITE]
    ax = atm.leave_one_environment_out(atm.NormalLinear(), X, LATENT, names, [0.0, 1.0]).plot(label=5)
    ax.figure.canvas.draw()  # without the escape this is an error
    assert r"\$\frac{1}\$" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_refusals(towns, tmp_path) -> None:
    data = pd.DataFrame({"y": LATENT, "a": X[:, 0], "site": SITE})
    data.to_parquet(tmp_path / "rows.parquet")
    batches = atm.leave_one_environment_out(atm.NormalLinear(), "y ~ a | site", tmp_path / "rows.parquet", xis=[0.0])
    for call, message in (
        (lambda: towns.predictions(3.0), "xi must be one of 0, 1, 10, not 3.0"),
        (lambda: towns.plot(of="crps"), "of must be one of nll, skill, regret"),
        (lambda: towns.bootstrap("median"), "objective must be"),
        (lambda: towns.bootstrap(level=2.0), "between 0 and 1"),
        (lambda: batches.predictions(0.0), "read in batches"),
        (
            lambda: atm.leave_one_environment_out(atm.NormalLinear(), X, LATENT, SITE, [1.0]).bootstrap(),
            "compares with xi = 0",
        ),
    ):
        with pytest.raises(InputError, match=message):
            call()
