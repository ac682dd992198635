"""The report on a model: every number against a computation of its own, for all kinds of outcomes and of bad tables."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
from lifelines import KaplanMeierFitter
from scipy import stats
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

FORMULA = "y ~ x + z + word | site"
ODD = "<script>alert('&amp;')</script> \x1b[31m\u202e"
SIZES = {"north": 40, "south": 25, "east": 30, "west": 12, "centre": 20, "tiny": 3}


def table(seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Return rows of six places, one of them with three rows."""
    rng = np.random.default_rng(seed)
    site = np.repeat(list(SIZES), list(SIZES.values()))
    n, effect = site.size, dict(zip(SIZES, rng.normal(size=len(SIZES)), strict=True))
    x = rng.normal(size=n) + shift
    word = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    y = 1.0 + x + (word == "b") + 0.5 * np.array([effect[s] for s in site]) + rng.normal(size=n)
    late = np.exp(0.4 * y)
    limit = rng.exponential(4.0, n)
    return pd.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=n),
            "word": word,
            "site": site,
            "y": y,
            "time": np.minimum(late, limit),
            "event": (late <= limit).astype(int),
            "grade": np.array(["low", "mid", "high"])[np.digitize(y, [0.5, 2.0])],
            "count": rng.poisson(np.exp(0.3 * y)),
            "trials": rng.integers(2, 9, n),
        }
    ).assign(successes=lambda d: rng.binomial(d.trials, stats.norm.cdf(y / 3)))


OLD, NEW = table(0), table(1, 0.7)
LINEAR = atm.NormalLinear(1.0).fit(FORMULA, OLD)
SURVIVAL = atm.ProportionalHazards(order=3).fit("Surv(time, event) ~ x + word | site", OLD)


def site(record: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in record["sites"] if row["name"] == name)


def by_hand(data: pd.DataFrame) -> tuple[Any, Any]:
    """Return mean and standard deviation of each row under the linear model, from its coefficients alone."""
    design = np.column_stack([data.x, data.z, data.word == "b", data.word == "c"]).astype(float)
    names = dict(zip(LINEAR.coef_names_, LINEAR.coef_, strict=True))
    a, b = LINEAR.baseline_  # h(y) = a + b y
    linear = design @ [names["x"], names["z"], names["word[T.b]"], names["word[T.c]"]]
    return (linear - a) / b, 1.0 / b


def test_numbers_by_hand() -> None:
    found = atm.model_report(LINEAR, NEW)
    record, frame = found.to_dict(), found.frame().set_index("environment")
    mean, sd = by_hand(NEW)
    law, z = stats.norm(mean, sd), (NEW.y - mean) / sd
    away = (NEW.x < OLD.x.min()) | (NEW.x > OLD.x.max()) | (NEW.z < OLD.z.min()) | (NEW.z > OLD.z.max())
    assert away.sum() > 3
    for name, n in SIZES.items():
        own, row = (NEW.site == name).to_numpy(), frame.loc[name]
        assert (row.n, row.outcomes) == (n, n)
        if name == "tiny":
            assert row.drop(["n", "bad", "outcomes"]).isna().all()
            continue
        np.testing.assert_allclose(row["median"], mean[own].mean())
        np.testing.assert_allclose(row.q10, law.ppf(0.1)[own].mean())
        np.testing.assert_allclose(row.q90, law.ppf(0.9)[own].mean())
        np.testing.assert_allclose(row.nll, -law.logpdf(NEW.y)[own].mean())
        np.testing.assert_allclose(row.mae, np.abs(NEW.y - mean)[own].mean())
        np.testing.assert_allclose(row.residual, z[own].mean())
        limits = stats.ttest_1samp(z[own], 0.0).confidence_interval(0.95)
        np.testing.assert_allclose([row.lower, row.upper], [limits.low, limits.high])
        np.testing.assert_allclose(row.beyond, away[own].mean())
        for level in (50, 80, 90):
            inside = np.abs(law.cdf(NEW.y)[own] - 0.5) <= level / 200
            np.testing.assert_allclose(row[f"coverage_{level}"], inside.mean())
    np.testing.assert_allclose(record["all"]["nll"], -law.logpdf(NEW.y).mean())
    counts = np.histogram(law.cdf(NEW.y), bins=10, range=(0, 1))[0]
    np.testing.assert_allclose(record["calibration"]["pit"]["share"], counts / len(NEW))
    assert record["extrapolation"]["rows"] == away.sum()
    for row in record["extrapolation"]["columns"]:
        column = NEW[row["name"]]
        assert row["above"] == (column > OLD[row["name"]].max()).sum()
        assert row["below"] == (column < OLD[row["name"]].min()).sum()
    beyond = (mean < OLD.y.min()) | (mean > OLD.y.max())
    np.testing.assert_allclose(record["extrapolation"]["beyond_outcomes"], beyond.mean())


def test_calibration_slope_and_coverage_have_honest_intervals() -> None:
    record = atm.model_report(LINEAR, NEW).to_dict()
    mean, sd = by_hand(NEW)
    fit = sm.OLS(NEW.y.to_numpy(), sm.add_constant(mean))
    codes = pd.factorize(NEW.site)[0]
    clustered = fit.fit(cov_type="cluster", cov_kwds={"groups": codes, "use_correction": False}, use_t=True)
    error = clustered.bse[1] * math.sqrt(6 / 5)
    slope = record["calibration"]["slope"]
    np.testing.assert_allclose(slope["slope"], clustered.params[1])
    half = stats.t.ppf(0.975, 5) * error
    np.testing.assert_allclose([slope["lower"], slope["upper"]], slope["slope"] + np.array([-half, half]))

    row = record["calibration"]["coverage"][2]
    hit = np.abs(stats.norm.cdf(NEW.y, mean, sd) - 0.5) <= 0.45
    exact = stats.binomtest(int(hit.sum()), hit.size).proportion_ci(0.95, "exact")
    sums = pd.Series(hit - hit.mean()).groupby(codes).sum()
    half = stats.t.ppf(0.975, 5) * math.sqrt(6 / 5 * (sums**2).sum()) / hit.size
    np.testing.assert_allclose(row["lower"], min(exact.low, hit.mean() - half))
    np.testing.assert_allclose(row["upper"], min(1.0, max(exact.high, hit.mean() + half)))
    alone = atm.model_report(LINEAR, NEW, NEW.y).to_dict()  # no places: rows are independent
    row = alone["calibration"]["coverage"][2]
    np.testing.assert_allclose([row["lower"], row["upper"]], [exact.low, exact.high])
    robust = fit.fit(cov_type="HC0").bse[1] * math.sqrt(hit.size / (hit.size - 1))
    half = stats.t.ppf(0.975, hit.size - 1) * robust
    np.testing.assert_allclose(alone["calibration"]["slope"]["upper"], slope["slope"] + half)


def test_censored_times() -> None:
    times = [1.0, 2.0, 50.0]
    found = atm.model_report(SURVIVAL, NEW, times=times)
    record, frame = found.to_dict(), found.frame().set_index("environment")
    law = SURVIVAL.predict_distribution(NEW)
    scores = {level: atm.scores.score_table(SURVIVAL, NEW, level=level).frame() for level in (0.5, 0.8, 0.9)}
    residual = SURVIVAL.residuals(NEW)
    for name in list(SIZES)[:-1]:
        own, row = (NEW.site == name).to_numpy(), frame.loc[name]
        assert row.events == NEW.event[own].sum()
        np.testing.assert_allclose(row[["sf_1", "sf_2"]].astype(float), law.sf([1.0, 2.0])[own].mean(axis=0))
        np.testing.assert_allclose(row["median"], law.median()[own].mean())
        for level, table_ in scores.items():
            theirs = table_.set_index("environment").loc[name]
            assert row[f"coverage_{100 * level:g}"] == pytest.approx(theirs.coverage)
            assert row.nll == pytest.approx(theirs.nll)
            assert row.concordance == pytest.approx(theirs.concordance)
        assert row.residual == pytest.approx(residual[own].mean())
        curve = KaplanMeierFitter().fit(NEW.time[own], NEW.event[own])
        np.testing.assert_allclose(row.observed_sf_1, curve.predict(1.0))
    assert "mae" not in frame, "the distance from a censored outcome is not known"
    assert "observed_sf_50" not in frame, "nobody was watched for so long"
    curve = KaplanMeierFitter().fit(NEW.time, NEW.event)
    limits = curve.confidence_interval_
    rows = record["calibration"]["survival"]
    for row in rows[:2]:
        last = limits.index[limits.index <= row["time"]][-1]
        np.testing.assert_allclose([row["lower"], row["upper"]], limits.loc[last].to_numpy())
        np.testing.assert_allclose(row["observed"], curve.predict(row["time"]))
        np.testing.assert_allclose(row["predicted"], law.sf(row["time"]).mean())
    assert rows[2]["observed"] is None
    assert record["about"]["n_events"] == OLD.event.sum()


def test_survival_of_rows_that_entered_late() -> None:
    old, new = (data.assign(entry=0.3 * data.time * (data.z > 0)) for data in (OLD, NEW))
    model = atm.ProportionalHazards(order=3).fit("Surv(time, event, entry) ~ x | site", old)
    (row,) = atm.model_report(model, new, times=[2.0]).to_dict()["calibration"]["survival"]
    curve = KaplanMeierFitter().fit(new.time, new.event, entry=new.entry)
    limits = curve.confidence_interval_
    np.testing.assert_allclose(row["observed"], curve.predict(2.0))
    np.testing.assert_allclose([row["lower"], row["upper"]], limits[limits.index <= 2.0].iloc[-1])


def test_few_events_have_no_interval() -> None:
    quiet = NEW.assign(event=np.where(NEW.site == "west", 0, NEW.event))
    row = site(atm.model_report(SURVIVAL, quiet).to_dict(), "west")
    assert row["events"] == 0
    assert row["residual"] > 0.0, "nobody had an event so far"
    assert row["lower"] is None


def test_steps_have_survival_but_no_coverage() -> None:
    model = atm.CoxPH().fit("Surv(time, event) ~ x + word | site", OLD)
    found = atm.model_report(model, NEW, times=[1.0])
    row = site(found.to_dict(), "north")
    own = (NEW.site == "north").to_numpy()
    np.testing.assert_allclose(row["survival"], [model.predict_distribution(NEW).sf(1.0)[own].mean()])
    np.testing.assert_allclose(row["residual"], model.residuals(NEW)[own].mean())
    assert row["nll"] is row["coverage"] is None
    assert row["concordance"] == pytest.approx(atm.scores.concordance(model, NEW[own]))
    assert "no density" in found.to_dict()["methods"]["notes"][0]
    assert any("cannot be judged" in text for text in found.conclusions)


def test_classes() -> None:
    model = atm.OrdinalRegression(1.0).fit("ordered(grade, 'low', 'mid', 'high') ~ x + word | site", OLD)
    found = atm.model_report(model, NEW)
    own = (NEW.site == "south").to_numpy()
    row, flat = site(found.to_dict(), "south"), found.frame().set_index("environment").loc["south"]
    probabilities = model.predict_proba(NEW)
    np.testing.assert_allclose(row["probabilities"], probabilities[own].mean(axis=0))
    shares = NEW.grade[own].value_counts(normalize=True)[["low", "mid", "high"]]
    np.testing.assert_allclose(row["observed"], shares)
    np.testing.assert_allclose(flat[["p_low", "p_mid", "p_high"]].astype(float), row["probabilities"])
    np.testing.assert_allclose(flat[["observed_p_low", "observed_p_high"]].astype(float), shares[["low", "high"]])
    code = pd.Categorical(NEW.grade, ["low", "mid", "high"]).codes
    np.testing.assert_allclose(row["nll"], -np.log(probabilities[np.arange(len(NEW)), code])[own].mean())
    median = (probabilities.cumsum(axis=1) < 0.5).sum(axis=1)
    np.testing.assert_allclose(row["mae"], np.abs(code - median)[own].mean())
    classes = found.to_dict()["calibration"]["classes"]
    np.testing.assert_allclose([one["predicted"] for one in classes], probabilities.mean(axis=0))


def test_classes_that_the_fit_has_not_seen() -> None:
    model = atm.OrdinalRegression().fit(OLD[["x"]], pd.Categorical(OLD.grade, ["low", "mid", "high"], ordered=True))
    new = NEW.grade.mask(NEW.z > 1.0, "huge")
    n = int((new == "huge").sum())
    found = atm.model_report(model, NEW[["x"]], new)
    record = found.to_dict()
    assert (record["table"]["unknown_classes"], record["table"]["outcomes"]) == (n, len(NEW) - n)
    assert f"{n} outcomes are of a class that the fit has not seen" in found.conclusions[0]
    kept = new != "huge"
    np.testing.assert_allclose(record["all"]["nll"], model.nll(NEW[["x"]][kept], new[kept]).mean())
    model = atm.OrdinalRegression().fit("ordered(grade, 'low', 'mid', 'high') ~ x | site", OLD)
    record = atm.model_report(model, NEW.assign(grade=new)).to_dict()
    assert (record["table"]["unknown_classes"], record["table"]["outcomes"]) == (n, len(NEW) - n)
    np.testing.assert_allclose(record["all"]["nll"], model.nll(NEW[kept]).mean())


def test_counts() -> None:
    model = atm.CountRegression().fit("count ~ x | site", OLD)
    row, own = site(atm.model_report(model, NEW).to_dict(), "east"), (NEW.site == "east").to_numpy()
    law = model.predict_distribution(NEW)
    np.testing.assert_allclose(row["median"], law.ppf(0.5)[own].mean())
    np.testing.assert_allclose(row["nll"], -np.log(law.pmf(NEW["count"].to_numpy()[:, None])[:, 0])[own].mean())
    np.testing.assert_allclose(row["mae"], np.abs(NEW["count"] - law.ppf(0.5))[own].mean())


@pytest.mark.parametrize("trials", [False, True])
def test_means(trials: bool) -> None:
    own = (NEW.site == "north").to_numpy()
    if trials:
        model = atm.AnchorGLM(family="binomial").fit("Trials(successes, trials) ~ x | site", OLD)
        mean = 1.0 / (1.0 + np.exp(-(model.intercept_ + NEW.x * model.coef_[0])))
        nll = -stats.binom.logpmf(NEW.successes, NEW.trials, mean)
        observed = NEW.successes / NEW.trials
    else:
        model = atm.AnchorGLM(family="poisson").fit("count ~ x | site", OLD)
        mean = np.exp(model.intercept_ + NEW.x * model.coef_[0])
        nll, observed = -stats.poisson.logpmf(NEW["count"], mean), NEW["count"]
    found = atm.model_report(model, NEW)
    row = found.frame().set_index("environment").loc["north"]
    np.testing.assert_allclose(row["mean"], mean[own].mean())
    np.testing.assert_allclose(row.nll, nll[own].mean())
    np.testing.assert_allclose(row.observed_mean, observed[own].mean())
    np.testing.assert_allclose(row.mae, np.abs(observed - mean)[own].mean())
    assert ("q10" in row) == (not trials)
    if not trials:
        np.testing.assert_allclose(row.q90, stats.poisson.ppf(0.9, mean[own]).mean())


def boosted() -> tuple[Any, Any, Any]:
    return atm.AnchorBoostedTM(atm.NormalLinear(), xi=1.0, n_rounds=5).fit(FORMULA, OLD), (NEW,), NEW


def pipeline() -> tuple[Any, Any, Any]:
    columns = ColumnTransformer([("n", StandardScaler(), ["x", "z"]), ("w", OneHotEncoder(drop="first"), ["word"])])
    X = NEW[["x", "z", "word"]]
    model = atm.make_pipeline(columns, atm.NormalLinear(1.0)).fit(OLD[["x", "z", "word"]], OLD.y, anchors=OLD.site)
    return model, (X, NEW.y, NEW.site), X


def search() -> tuple[Any, Any, Any]:
    return atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0]).fit(FORMULA, OLD), (NEW,), NEW


def worst() -> tuple[Any, Any, Any]:
    return atm.WorstEnvironment(atm.NormalLinear(), min_rows=3).fit(FORMULA, OLD), (NEW,), NEW


def random() -> tuple[Any, Any, Any]:
    return atm.NormalLinear().fit("y ~ x + (1 | site)", OLD), (NEW, None, "site"), NEW


@pytest.mark.parametrize("made", [boosted, pipeline, search, worst, random])
def test_all_models(made: Callable[[], tuple[Any, Any, Any]], tmp_path: Path) -> None:
    """A model and its file have the same report, and its numbers are those of predictions and scores."""
    model, rows, X = made()
    found = atm.model_report(model, *rows)
    record = found.to_dict()
    loaded = atm.model_report(atm.load(atm.save(model, tmp_path / "model.json")), *rows)
    pd.testing.assert_frame_equal(loaded.frame(), found.frame())
    assert loaded.conclusions == found.conclusions
    law = model.predict_distribution(X) if hasattr(model, "predict_distribution") else None
    law = model.best_estimator_.predict_distribution(X) if law is None else law
    theirs = atm.scores.score_table(model, *rows).frame().set_index("environment")
    for name in list(SIZES)[:-1]:
        own, row = (NEW.site == name).to_numpy(), site(record, name)
        np.testing.assert_allclose(row["q90"], law.ppf(0.9)[own].mean())
        np.testing.assert_allclose(row["nll"], theirs.loc[name, "nll"])
        np.testing.assert_allclose(row["coverage"]["90"], theirs.loc[name, "coverage"])
    json.dumps(record, allow_nan=False)
    assert repr(found).startswith("Report on a model: ")


def test_sets_of_a_conformal_predictor_are_about_their_model() -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), level=0.5, method="full").fit(FORMULA, OLD)
    pd.testing.assert_frame_equal(
        atm.model_report(predictor, NEW).frame(), atm.model_report(predictor.model_, NEW).frame()
    )


def test_without_outcomes() -> None:
    whole, found = atm.model_report(LINEAR, NEW), atm.model_report(LINEAR, NEW.drop(columns="y"))
    same = ["environment", "n", "q10", "median", "q90", "beyond"]
    pd.testing.assert_frame_equal(found.frame()[same], whole.frame()[same])
    assert found.to_dict()["calibration"] is None
    assert "Calibration cannot be judged: the table has no column 'y'." in found.conclusions
    assert not {"nll", "residual", "coverage_90"} & set(found.frame())
    half = atm.model_report(SURVIVAL, NEW.drop(columns="event"))
    assert "Calibration cannot be judged: the table has no column 'event'." in half.conclusions
    arrays = atm.NormalLinear().fit(OLD[["x"]], OLD.y)
    given = atm.model_report(arrays, NEW[["x"]], environments=NEW.site)
    assert "Calibration cannot be judged: no outcomes were given." in given.conclusions
    assert len(given.frame()) == len(SIZES)


def test_some_outcomes_are_missing() -> None:
    gone = NEW.z > 0.5
    found = atm.model_report(LINEAR, NEW.assign(y=NEW.y.mask(gone)))
    row, whole = site(found.to_dict(), "north"), site(atm.model_report(LINEAR, NEW).to_dict(), "north")
    own = ((NEW.site == "north") & ~gone).to_numpy()
    assert row["outcomes"] == own.sum()
    assert row["median"] == whole["median"], "predictions need no outcomes"
    np.testing.assert_allclose(row["nll"], LINEAR.nll(NEW)[own].mean())
    few = atm.model_report(LINEAR, NEW.assign(y=NEW.y.where(NEW.index < 4)))
    assert few.to_dict()["calibration"] is None
    assert "Calibration cannot be judged: only 4 rows with an outcome can be predicted." in few.conclusions
    assert "nll" not in few.frame()
    none = atm.model_report(LINEAR, NEW.assign(y=np.nan))
    assert "Calibration cannot be judged: all outcomes are missing." in none.conclusions


def test_rows_that_cannot_be_predicted() -> None:
    new = NEW.copy()
    new.loc[:6, "word"] = "unseen"  # seven rows
    new.loc[7, "word"] = "patient-4711"  # one row, whose entry must not be repeated
    new.loc[10:12, "x"] = np.nan
    new.loc[13, "z"] = np.inf
    found = atm.model_report(LINEAR, new)
    record = found.to_dict()
    bad = np.isin(np.arange(len(new)), [*range(8), 10, 11, 12, 13])
    assert record["extrapolation"]["bad"] == {
        "n": 12,
        "reasons": [
            {"reason": "word 'unseen' is unknown", "n": 7},
            {"reason": "x is missing", "n": 3},
            {"reason": "word has unknown levels (fewer than 5 rows each)", "n": 1},
            {"reason": "z is infinite", "n": 1},
        ],
    }
    assert found.conclusions[0].startswith("12 of 130 rows cannot be predicted and are left out")
    for text in (repr(found), found._repr_html_(), json.dumps(record)):
        assert "4711" not in text
    row, good = site(record, "north"), (new.site == "north") & ~bad
    assert (row["n"], row["bad"]) == (40, 12)
    np.testing.assert_allclose(row["nll"], LINEAR.nll(new[good]).mean())
    np.testing.assert_allclose(row["median"], LINEAR.predict(new[good]).mean())
    missing = {own["name"]: own["missing"] for own in record["drift"]["columns"]}
    assert missing == {"x": 3, "z": 0}


def test_no_row_can_be_predicted() -> None:
    found = atm.model_report(LINEAR, NEW.assign(x=np.nan))
    assert found.conclusions[0] == "None of the 130 rows can be predicted: x is missing (130 rows)."
    assert "Calibration cannot be judged: no row with an outcome can be predicted." in found.conclusions
    assert found.frame().n.sum() == len(NEW)
    assert repr(found)
    assert found._repr_html_()


def test_one_place_and_no_places() -> None:
    one = NEW[NEW.site == "north"]
    found = atm.model_report(LINEAR, one)
    assert found.frame().environment.tolist() == ["north"]
    assert any(text.endswith("One place does not show how places differ.") for text in found.conclusions)
    alone = atm.model_report(LINEAR, one.drop(columns="site"))
    assert alone.frame().environment.tolist() == ["(all)"]
    assert alone.to_dict()["table"]["n_environments"] is None
    np.testing.assert_allclose(alone.frame().nll, found.frame().nll)
    lost = atm.model_report(LINEAR, NEW.assign(site=NEW.site.mask(NEW.z > 1.0)))
    missing = site(lost.to_dict(), "(missing)")
    np.testing.assert_allclose(missing["nll"], LINEAR.nll(NEW[NEW.z > 1.0]).mean())


def test_fewer_than_five_rows_tell_nothing() -> None:
    found = atm.model_report(LINEAR, NEW[:4])
    record = found.to_dict()
    numbers = [value for row in (record["all"], *record["sites"]) for value in row.values()]
    assert not [value for value in numbers if isinstance(value, float)]
    assert record["drift"]["columns"] == record["drift"]["levels"] == []
    assert record["extrapolation"]["beyond_outcomes"] is None


def test_drift() -> None:
    new = NEW.assign(word=np.where(NEW.index < 3, "c", np.where(NEW.z > 0, "a", "b")))
    record = atm.model_report(LINEAR, new, training=OLD).to_dict()["drift"]
    assert record["known"] == "rows of the fit"
    for row in record["columns"]:
        old, now = OLD[row["name"]], new[row["name"]]
        np.testing.assert_allclose([row["training"], row["training_sd"]], [old.mean(), old.std()])
        np.testing.assert_allclose([row["new"], row["new_sd"]], [now.mean(), now.std()])
        np.testing.assert_allclose(row["shift"], (now.mean() - old.mean()) / old.std())
        np.testing.assert_allclose(row["position"], (now.mean() - old.min()) / (old.max() - old.min()))
    (word,) = record["levels"]
    before, after = (data.word.value_counts(normalize=True) for data in (OLD, new))
    np.testing.assert_allclose(word["distance"], 0.5 * np.abs(before - after).sum())
    told = {row["level"]: (row["training"], row["new"]) for row in word["levels"]}
    assert told["a"] == (pytest.approx(before["a"]), pytest.approx(after["a"]))
    assert told["c"] == (pytest.approx(before["c"]), None), "three rows are too few to tell"
    alone = atm.model_report(LINEAR, new)
    assert {row["shift"] for row in alone.to_dict()["drift"]["columns"]} == {None}
    assert any(text.startswith("Whether means have moved") for text in alone.conclusions)
    assert any(
        text.startswith("Means differ from those of the fit by more than 0.5 SD in x (+")
        for text in atm.model_report(LINEAR, new, training=OLD).conclusions
    )
    far = atm.model_report(LINEAR, NEW.assign(x=NEW.x + 20.0))
    assert "The mean of x lies outside the training range." in far.conclusions


def test_a_model_that_does_not_know_ranges() -> None:
    """Early files do not have them."""
    model = atm.NormalLinear().fit(OLD[["x"]], OLD.y)
    model._result = replace(model.result_, covariate_ranges=None)
    found = atm.model_report(model, NEW[["x"]], NEW.y, NEW.site)
    assert "Extrapolation cannot be judged: the model does not know the ranges of its covariates." in found.conclusions
    assert "beyond" not in found.frame()
    assert found.to_dict()["drift"]["known"] is None


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_all_versions(version: int) -> None:
    """The formula of early files knows ranges of columns, though the result does not."""
    data = atm.datasets.load_boston_housing2()
    data = data.assign(zone=np.resize(["x", "y", "z"], len(data)), rm=np.where(data.tract % 2, data.rm, 20.0))
    model = atm.load(Path(__file__).parents[1] / "saved" / f"version_{version}.json")
    found = atm.model_report(model, data, environments="town")
    assert found.to_dict()["extrapolation"]["rows"] >= (data.tract % 2 == 0).sum()
    row = found.frame().set_index("environment").loc["Cambridge"]
    np.testing.assert_allclose(row.nll, model.nll(data)[data.town == "Cambridge"].mean())


def test_the_rows_of_the_fit_are_recognised() -> None:
    words = "These look like the rows of the fit"
    assert any(text.startswith(words) for text in atm.model_report(LINEAR, OLD).conclusions)
    assert not any(text.startswith(words) for text in atm.model_report(LINEAR, NEW).conclusions)


def test_conclusions_on_calibration() -> None:
    """Outcomes drawn from the model itself agree with it; with a wrong spread or place they do not."""
    rng = np.random.default_rng(5)
    mean, sd = by_hand(NEW)
    many = pd.concat([NEW] * 20, ignore_index=True)
    centre = np.tile(mean, 20)

    def said(spread: float, shift: float = 0.0) -> str:
        y = centre + shift * sd + spread * sd * rng.normal(size=len(many))
        return " ".join(atm.model_report(LINEAR, many.assign(y=y)).conclusions)

    assert "agrees with the promised 90 %" in said(1.0)
    assert "too narrow here, or shifted" in said(1.5)
    assert "too wide here" in said(0.5)
    shifted = said(1.0, 1.0)
    assert "At 6 of 6 places with enough outcomes the mean residual differs from 0" in shifted
    assert "Outcomes are larger than predicted at" in shifted


def test_chance_moves_no_more_places_than_it_should() -> None:
    """Of places whose outcomes come from the model, the interval of the mean residual leaves out 0 at about 5 %."""
    rng = np.random.default_rng(6)
    mean, sd = by_hand(NEW)
    centre, places = np.tile(mean, 40), np.repeat(np.arange(260), 20)
    rows = pd.concat([NEW] * 40, ignore_index=True).assign(y=centre + sd * rng.normal(size=5200))
    frame = atm.model_report(LINEAR, rows, rows.y, places).frame()
    away = int(((frame.lower > 0) | (frame.upper < 0)).sum())
    assert stats.binomtest(away, 260, 0.05).pvalue > 0.01


def test_names_are_inert() -> None:
    data = OLD.rename(columns={"z": "z;& <b>", "site": "site<i>"})
    data["site<i>"] = data["site<i>"].replace({"north": ODD, "south": "s" * 10_000})
    model = atm.NormalLinear().fit("y ~ x + `z;& <b>` | `site<i>`", data)
    found = atm.model_report(model, data)
    page, text = found._repr_html_(), repr(found)
    assert "<script" not in page
    assert "<b>alert" not in page
    assert "<i>" not in page
    assert "\x1b" not in page + text
    assert "\u202e" not in page + text
    assert len(max(text.split("\n"), key=len)) < 400
    assert ODD in [row["name"] for row in found.to_dict()["sites"]]


def test_tables_of_other_kinds() -> None:
    found = atm.model_report(LINEAR, NEW).frame()
    pd.testing.assert_frame_equal(atm.model_report(LINEAR, pl.from_pandas(NEW)).frame(), found)
    pd.testing.assert_frame_equal(atm.model_report(LINEAR, FORMULA, NEW).frame(), found)
    arrays = atm.NormalLinear().fit(OLD[["x", "z"]].to_numpy(), OLD.y)
    X = NEW[["x", "z"]].to_numpy()
    row = atm.model_report(arrays, X, NEW.y, NEW.site).frame().set_index("environment").loc["north"]
    np.testing.assert_allclose(row.nll, arrays.nll(X, NEW.y)[NEW.site == "north"].mean())
    offset = atm.NormalLinear().fit(OLD[["x"]], OLD.y, offset=OLD.z)
    row = atm.model_report(offset, NEW[["x"]], NEW.y, NEW.site, offset=NEW.z).frame().set_index("environment")
    expected = offset.nll(NEW[["x"]], NEW.y, offset=NEW.z)[NEW.site == "north"].mean()
    np.testing.assert_allclose(row.loc["north", "nll"], expected)


def test_the_order_of_rows_does_not_matter() -> None:
    mixed = NEW.sample(frac=1.0, random_state=0)
    pd.testing.assert_frame_equal(atm.model_report(LINEAR, mixed).frame(), atm.model_report(LINEAR, NEW).frame())


def test_a_place_that_is_new_has_wider_predictions() -> None:
    model = atm.NormalLinear().fit(
        FORMULA, OLD.assign(y=OLD.y + 3.0 * OLD.site.map({"north": 1.0, "east": -1.0}).fillna(0))
    )
    near, far = (atm.model_report(model, NEW, place=place) for place in ("average", "new"))
    law = model.predict_distribution(NEW, place="new")
    own = (NEW.site == "north").to_numpy()
    row = site(far.to_dict(), "north")
    np.testing.assert_allclose(row["q90"], law.ppf(0.9)[own].mean())
    np.testing.assert_allclose(row["nll"], model.nll(NEW, place="new")[own].mean())
    assert row["q90"] > site(near.to_dict(), "north")["q90"]


def test_bad_arguments() -> None:
    with pytest.raises(InputTypeError, match="model must be a fitted model of this package, not DataFrame"):
        atm.model_report(OLD, NEW)
    with pytest.raises(InputTypeError, match="X must be a table or an array in memory, not NoneType"):
        atm.model_report(LINEAR, None)
    with pytest.raises(InputError, match="X has no rows"):
        atm.model_report(LINEAR, NEW[:0])
    with pytest.raises(InputError, match="there is no column 'sight' in the data; did you mean 'site'"):
        atm.model_report(LINEAR, NEW, environments="sight")
    with pytest.raises(InputError, match="times are for outcomes that are times"):
        atm.model_report(LINEAR, NEW, times=[1.0])
    with pytest.raises(InputError, match="times must be positive numbers"):
        atm.model_report(SURVIVAL, NEW, times=[-1.0])
    with pytest.raises(InputError, match='place must be "average" or "new"'):
        atm.model_report(LINEAR, NEW, place="old")
    with pytest.raises(InputError, match="training has 3 rows"):
        atm.model_report(LINEAR, NEW, training=OLD[:3])
    with pytest.raises(InputError, match="there is no column 'x' in the data"):
        atm.model_report(LINEAR, NEW, training=OLD.drop(columns="x"))
