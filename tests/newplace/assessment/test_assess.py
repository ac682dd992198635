"""One call that answers: its parts are those of the package, and nothing in it is a row of the data."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from place_worlds import world

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning
from anchortm.newplace.assessment.advice import DESIGNS, Advice
from anchortm.newplace.assessment.asides import asides
from anchortm.newplace.assessment.held_back import HeldBack
from anchortm.newplace.assessment.text import lines_of
from anchortm.newplace.report import assessment_page

FORMULA = "y ~ x + z | place"
FEW = {"strategies": ["widened", "anchored"], "progress": False}


def data_of(places: int = 10, rows: int = 25, seed: int = 0, level: float | None = None) -> pd.DataFrame:
    """Return rows in which a hidden cause and shifts of a covariate make anchoring worthwhile further out."""
    rng = np.random.default_rng(seed)
    n = 1 if level is not None else places
    e = np.repeat(np.arange(n), rows)
    levels = rng.normal(size=n) if level is None else np.array([level])
    hidden = rng.normal(size=e.size)
    x = levels[e] + hidden + 0.5 * rng.normal(size=e.size)
    z = rng.normal(size=e.size)
    y = 0.3 * x + 0.5 * z + 1.5 * hidden + rng.normal(size=e.size)
    return pd.DataFrame({"x": x, "z": z, "y": y, "place": np.array([f"site {k:02d}" for k in range(n)])[e]})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return data_of()


@pytest.fixture(scope="module")
def new() -> pd.DataFrame:
    return data_of(rows=60, seed=9, level=3.0)


@pytest.fixture(scope="module")
def found(table, new):
    return atm.assess(atm.NormalLinear(), FORMULA, table, new=new.drop(columns=["y", "place"]), **FEW)


def test_the_comparison_is_that_of_compare_strategies(found, table, new):
    expected = atm.compare_strategies(atm.NormalLinear(), FORMULA, table, new=new, scores=[], **FEW)
    pd.testing.assert_frame_equal(found.comparison.frame(), expected.frame())
    assert found.comparison.verdict.sentence == expected.verdict.sentence


def test_the_answer_follows_the_verdict(found):
    further = found.comparison.verdict.further
    advice = found.recommendation.further
    assert found.recommendation.kind == "further"
    assert found.new.distance > 1.0
    assert (advice.strategy, advice.xi, advice.confidence) == (further.strategy, further.xi, further.confidence)
    assert advice.strategy == "anchored"
    frame = found.comparison.frame()
    own = frame[(frame.design == "further") & (frame.strategy == "anchored")]
    gains = -own.groupby(["side", "share"]).regret.mean()
    gains = gains if advice.confidence == "confident" else gains["same"]
    assert advice.gain == pytest.approx(gains.mean())
    assert advice.interval == pytest.approx((gains.min(), gains.max()))


def test_need_and_possibility_are_those_of_the_diagnostics(found, table):
    test = atm.diagnostics.score_test(atm.NormalLinear(), FORMULA, table)
    assert (found.evidence.test.statistic, found.evidence.test.pvalue) == (test.statistic, test.pvalue)
    stage = atm.diagnostics.first_stage(FORMULA, table)
    pd.testing.assert_frame_equal(found.evidence.stage.frame(), stage.frame())
    location = atm.diagnostics.location_shift(atm.NormalLinear(), FORMULA, table)
    assert (found.evidence.location.r2, found.evidence.location.pvalue) == (location.r2, location.pvalue)


def test_mean_residuals_by_hand(found, table):
    fit = atm.NormalLinear.from_formula(FORMULA, table)
    r = pd.Series(fit.residuals(table)).groupby(table.place.to_numpy())
    np.testing.assert_allclose(found.evidence.residuals[:, 0], r.mean(), atol=1e-9)
    half = 1.96 * r.std(ddof=0) / np.sqrt(r.size() - 1)
    np.testing.assert_allclose(found.evidence.residuals[:, 2] - found.evidence.residuals[:, 0], half, atol=1e-9)


def test_coverage_at_left_out_places_by_hand(found, table):
    for e, place in enumerate(sorted(table.place.unique())[:3]):
        fit = atm.NormalLinear.from_formula(FORMULA, table[table.place != place])
        own = table[table.place == place]
        law = fit.predict_distribution(own)
        for k, level in enumerate((0.5, 0.8, 0.9)):
            low, high = law.interval(level)
            expected = ((own.y >= low) & (own.y <= high)).mean()
            assert found.calibration.of_place(0.0, e)[k] == pytest.approx(expected)
    assert found.calibration.histogram(0.0).sum() == pytest.approx(1.0)
    assert found.recommendation.xi in found.calibration.transforms


def test_the_conformal_width_is_that_of_the_predictor(found, table, new):
    with pytest.warns(AnchorTMWarning, match="sets are infinite"):
        predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.9).fit(FORMULA, table)
    assert found.conformal.needed == predictor.places_needed_
    assert found.conformal.nominal_level == predictor.nominal_level_
    many = atm.assess(atm.NormalLinear(), FORMULA, data_of(24, 15, 3), strategies=["equal"], progress=False)
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.9).fit(FORMULA, data_of(24, 15, 3))
    lower, upper = predictor.predict_interval(data_of(24, 15, 3))
    assert many.conformal.width == pytest.approx(np.median(upper - lower))
    assert "times as wide" in many.conformal.sentence


def test_how_far_out_the_new_place_is(found, table, new):
    means = table.groupby("place")[["x", "z"]].mean()
    by_name = {own["name"]: own for own in found.new.covariates}
    shift = (new.x.mean() - means.x.mean()) / means.x.std()
    assert by_name["x"]["shift"] == pytest.approx(shift)
    assert abs(by_name["x"]["effect"]) > abs(by_name["z"]["effect"])
    assert "the shift of x (" in found.new.sentence
    low, high = table[["x", "z"]].min(), table[["x", "z"]].max()
    beyond = ((new[["x", "z"]] < low) | (new[["x", "z"]] > high)).any(axis=1).mean()
    assert found.new.beyond == pytest.approx(beyond)


def test_the_recommended_model_is_fitted_to_all_rows(found, table):
    fitted = found.fit()
    assert fitted.xi_ == found.recommendation.xi
    expected = atm.NormalLinear.from_formula(FORMULA, table, xi=found.recommendation.xi)
    np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-6)
    np.testing.assert_allclose(fitted.predict(table[:3]), expected.predict(table[:3]), rtol=1e-6)


def test_what_the_new_place_then_shows(found, table, new):
    checked = found.with_outcomes(new)
    rows = checked.held_back.frame().set_index("strategy")
    ml = atm.NormalLinear.from_formula(FORMULA, table)
    anchored = atm.NormalLinear.from_formula(FORMULA, table, xi=3.0)
    assert rows.loc["ml", "nll"] == pytest.approx(ml.nll(new).mean())
    assert rows.loc["anchored(3)", "gain"] == pytest.approx(ml.nll(new).mean() - anchored.nll(new).mean(), abs=1e-7)
    assert rows.loc["ml", "mae"] == pytest.approx(np.abs(new.y - ml.predict(new)).mean())
    difference = anchored.nll(new) - ml.nll(new)
    assert rows.loc["anchored(3)", "se"] == pytest.approx(difference.std(ddof=1) / np.sqrt(60), rel=1e-5)
    m, prior = int(rows.index[-1][13:-1]), next(c.sd for d, c in found.curves if d == "further" and not c.xi) ** 2
    gains = []
    for k in range(6):
        draw = np.random.default_rng([k, m]).permutation(60)
        moved = ml.recalibrate(new.iloc[np.sort(draw[:m])], what="shift", prior=prior)
        rest = new.iloc[np.sort(draw[m:])]
        gains.append(ml.nll(rest).mean() - moved.nll(rest).mean())
    assert rows.iloc[-1].gain == pytest.approx(np.mean(gains), abs=1e-6)
    assert checked.held_back.agrees is True
    assert "agrees with the recommendation" in repr(checked)
    assert found.held_back is None
    weighted = found.with_outcomes(new, sample_weight=np.r_[np.zeros(59), 1.0]).held_back.frame()
    assert weighted.set_index("strategy").loc["ml", "nll"] == pytest.approx(ml.nll(new.iloc[[59]])[0])


@pytest.mark.parametrize(
    ("strategy", "confidence", "gain", "best", "agrees"),
    [
        ("ml", "keep", 0.0, 0.005, True),
        ("ml", "keep", 0.0, 0.05, True),  # not more than two standard errors
        ("ml", "keep", 0.0, 0.2, False),
        ("ml", "undecided", 0.0, 0.2, None),
        ("anchored", "tentative", 0.3, 0.4, True),
        ("anchored", "tentative", -0.3, 0.1, False),
        ("recalibrate", "clear", 0.0, 0.1, True),
    ],
)
def test_whether_the_new_place_agrees(strategy, confidence, gain, best, agrees):
    rows = [
        {"strategy": "ml", "xi": 0.0, "gain": 0.0, "se": 0.0},
        {"strategy": "anchored(1)", "xi": 1.0, "gain": best, "se": 0.03},
        {"strategy": "recalibrated(20)", "xi": 0.0, "gain": 2.0, "se": math.nan},
    ]
    if strategy == "anchored":
        rows.append({"strategy": "anchored", "xi": 3.0, "gain": gain, "se": 0.1})
    found = HeldBack(rows, 10, Advice("further", strategy, 3.0, confidence))
    assert found.agrees is agrees
    assert ("not agree" in found.sentence) == (agrees is False)
    assert ("had not decided" in found.sentence) == (confidence == "undecided")


def test_arrays_and_formula_agree(table):
    named = atm.assess(atm.NormalLinear(), FORMULA, table, strategies=["equal"], progress=False)
    plain = atm.assess(
        atm.NormalLinear(), table[["x", "z"]], table.y, table.place, strategies=["equal"], progress=False
    )
    bare = atm.assess(
        atm.NormalLinear(),
        table[["x", "z"]].to_numpy(),
        table.y.to_numpy(),
        table.place.to_numpy(),
        strategies=["equal"],
        progress=False,
    )
    for other in (plain, bare):
        assert other.recommendation.sentence == named.recommendation.sentence
        np.testing.assert_allclose(other.evidence.residuals, named.evidence.residuals, atol=1e-9)
        assert other.methods.fingerprint == named.methods.fingerprint
        assert len(other.views.profiles) == len(named.views.profiles)


def test_the_same_call_gives_the_same_answer(found, table, new):
    again = atm.assess(atm.NormalLinear(), FORMULA, table, new=new.drop(columns=["y", "place"]), **FEW)
    assert again.to_dict() == found.to_dict()
    other = atm.assess(atm.NormalLinear(), FORMULA, table.assign(y=table.y + 1e-9), strategies=["equal"])
    assert other.methods.fingerprint != found.methods.fingerprint


def test_the_record_is_plain_and_has_no_rows(found, table, tmp_path):
    record = found.to_dict()
    text = json.dumps(record, allow_nan=False)
    assert json.loads(text) == record
    found.save(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text()) == record
    assert [site["name"] for site in record["sites"]] == sorted(table.place.unique())
    assert record["about"]["environment_name"] == "place"
    assert all(profile["n"] >= 5 for profile in record["views"]["profiles"])
    numbers = {f"{value:.6g}" for value in table[["y"]].to_numpy().ravel()}
    assert not numbers & {f"{value:.6g}" for value in _numbers(record)}
    assert "np." not in repr(record)


def test_places_of_few_rows_are_shown_only_if_asked(table, tmp_path):
    data = pd.concat([table, data_of(12, 3, 7).assign(place=lambda own: "few " + own.place)])
    found = atm.assess(atm.NormalLinear(), FORMULA, data, strategies=["equal"], progress=False)
    record, whole = found.to_dict(), found.to_dict(rows=True)
    names = [site["name"] for site in record["sites"]]
    assert names == sorted(table.place.unique())
    assert record["about"]["n_withheld"] == 12
    assert len(record["path"]["loss"]) == 10
    assert "12 places with fewer than 5 rows" in record["data"]["remarks"][0]
    assert record["rows"] is None
    assert len(whole["sites"]) == len(whole["path"]["loss"]) == 22
    fit = atm.NormalLinear.from_formula(FORMULA, data[data.place != "site 03"])
    own = next(row for row in whole["rows"] if row["row"] == 75)
    assert own["place"] == "site 03"
    law = fit.predict_distribution(data.iloc[[75]])
    expected = [float(law.ppf(q)[0]) for q in (0.05, 0.5, 0.95)]
    assert [own["lower"], own["median"], own["upper"]] == pytest.approx(expected, rel=1e-4)
    assert len(whole["rows"]) == len(data)
    page, pages = found.report(tmp_path / "page.html").read_text(), found.report(tmp_path / "rows.html", rows=True)
    assert "few site" not in page
    assert "Predictions of rows" not in page
    assert "Predictions of rows" in pages.read_text()
    only = data[data.place.str.startswith("few")]
    small = atm.assess(atm.NormalLinear(), FORMULA, only, strategies=["equal"], progress=False)
    assert "few site" not in small.report(tmp_path / "small.html").read_text()
    few = atm.assess(atm.NormalLinear(), FORMULA, table, new=table[:3], strategies=["equal"], progress=False)
    assert few.to_dict()["new"]["covariates"] == []


def _numbers(value):
    if isinstance(value, dict):
        for own in value.values():
            yield from _numbers(own)
    elif isinstance(value, list):
        for own in value:
            yield from _numbers(own)
    elif isinstance(value, float):
        yield value


def test_profiles_are_typical_rows(found, table):
    views = found.views
    names = [profile["name"] for profile in views.profiles]
    assert names[:3] == ["typical row", "low linear predictor", "high linear predictor"]
    assert names[-1] == "new place"
    assert views.kind == "density"
    fit = atm.NormalLinear.from_formula(FORMULA, table, xi=3.0)
    row = table[["x", "z"]].quantile(0.5, interpolation="lower").to_frame().T
    at = views.xis.index(3.0)
    law = fit.predict_distribution(row)
    np.testing.assert_allclose(views.profiles[0]["density"][at], law.pdf(np.array(views.x))[0], rtol=1e-5)
    np.testing.assert_allclose(views.profiles[0]["survival"][at], law.sf(np.array(views.x))[0], rtol=1e-5)
    effects = found.effects
    assert effects.unit == "change of the median of y"
    expected = atm.marginal_effects(fit, table).frame()["effect"]
    np.testing.assert_allclose([row["values"][at] for row in effects.rows], expected, rtol=1e-5)


def test_tables_of_the_text_have_gains(found):
    """What is better is larger in the text, as in its sentences; the table of the comparison has losses."""
    parts = {part.title: part for part in lines_of(found)}
    for design, words in DESIGNS.items():
        shown = parts[f"Strategies {words}"].table
        table = found.comparison.table()
        losses = table[table["design"] == design].set_index("strategy")
        for score, loss in {
            "skill": "mean",
            "hard places": "q90",
            "worst place": "worst",
            "gain": "difference",
        }.items():
            np.testing.assert_allclose(shown[score], -losses[loss], atol=1e-15)
    outermost = parts["Strategies at a place further out"].lines[0]
    frame = found.comparison.frame().query("design == 'further' and share == 0.3")
    for side, where in {"same": "on its side", "other": "on the other side"}.items():
        names = list(dict.fromkeys(frame.loc[frame.side == side, "environment"]))
        assert ", ".join(names[:4]) in outermost.partition(f" {where}")[0]


def test_strategies_for_hard_places_are_named():
    """If noise differs between places, a wider spread helps at the noisy ones; the text says so without advising it."""
    found = atm.assess(atm.NormalLinear(), "y ~ x | place", world("noise differs", 16, 40, 1), **FEW)
    skill = -found.comparison.table().query("design == 'like'").set_index("strategy")["q90"]
    assert skill["widened"] - skill["ml"] > 0.01
    assert found.recommendation.like.strategy == "ml"
    (said,) = found.asides("like")
    assert f"'widened' has the most skill there ({skill['widened']:+.3f}, " in said
    assert f"maximum likelihood {skill['ml']:+.3f})" in said
    assert said in " ".join(repr(found).split())
    assert said[1:] in found.to_dict()["comparison"]["remarks"][0]


@pytest.mark.parametrize(("kind", "places"), [("nothing", 16), ("noise differs", 5)])
def test_no_strategy_for_hard_places_is_named_without_reason(kind, places):
    found = atm.assess(atm.NormalLinear(), "y ~ x | place", world(kind, places, 40, 1), **FEW)
    assert not [said for said in found.asides("like") if "hard places" in said]


def rows_of(**strategies):
    """Return rows of a table of strategies further out, by losses and numbers of folds that gain."""
    names = ["design", "strategy", "mean", "q90", "worst", "difference", "gained"]
    return pd.DataFrame(
        [("further", name, *given[:1], 0.0, 0.0, *given[1:]) for name, given in strategies.items()], columns=names
    )


def test_what_gains_in_all_folds_is_named():
    ml, anchored = (-0.3, 0.0, ""), (-0.35, -0.05, "2 of 4")
    table = rows_of(null=(0.0, 0.3, "0 of 4"), ml=ml, anchored=anchored, equal=(-0.37, -0.07, "4 of 4"))
    (said,) = asides(table, "further", "ml", 10)
    assert said.startswith("'equal' gains in all 4 folds (+0.07 on average).")
    assert "best of 2 strategies" in said
    failed = rows_of(null=(0.0, 0.3, "0 of 4"), ml=ml, anchored=anchored, equal=(np.nan, np.nan, ""))
    assert asides(failed, "further", "ml", 10) == []
    assert asides(table, "further", "anchored", 10) == []
    assert asides(table[table.strategy != "equal"], "further", "ml", 10) == []
    assert asides(table.assign(difference=-0.005), "further", "ml", 10) == []


def test_covariates_that_do_harm_are_named():
    table = rows_of(null=(0.0, -0.08, "4 of 4"), ml=(0.08, 0.0, ""), anchored=(0.08, 0.0, "0 of 4"))
    (said,) = asides(table, "further", "ml", 10)
    assert "better than maximum likelihood, by 0.08 per row" in said
    assert asides(table, "like", "ml", 10) == []


def test_one_word_for_places(found, new):
    """The text and the record speak of places, whatever the arguments are called."""
    checked = found.with_outcomes(new)
    record = checked.to_dict()
    sentences = [text for text in _texts(record) if " " in text and not text.startswith("import")]
    assert len(sentences) > 20
    assert not [text for text in [repr(checked), *sentences] if re.search(r"nvironment|-0\.00(?!\d)", text)]


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for own in value.values() if isinstance(value, dict) else value:
            yield from _texts(own)


def test_hostile_names_are_text(table):
    evil = "<script>alert(1)</script> $x$ \x1b[31m"
    data = table.assign(place=[f"{evil}{name}" for name in table.place])
    found = atm.assess(atm.NormalLinear(), FORMULA, data, strategies=["equal"], progress=False)
    assert "\x1b" not in repr(found)
    assert "<script>" not in found._repr_html_()


def kinds():
    rng = np.random.default_rng(5)
    base = data_of(10, 20, 5)
    time = np.exp(0.4 * base.y)
    censored = rng.exponential(6.0, len(base))
    yield (
        "time",
        atm.ProportionalHazards(order=3),
        base.assign(t=np.minimum(time, censored), d=time <= censored),
        "Surv(t, d)",
    )
    yield (
        "weibull",
        atm.ParametricSurvival(),
        base.assign(t=np.minimum(time, censored), d=time <= censored),
        "Surv(t, d)",
    )
    yield "cox", atm.CoxPH(), base.assign(t=np.minimum(time, censored), d=time <= censored), "Surv(t, d)"
    yield "class", atm.OrdinalRegression(), base.assign(c=pd.cut(base.y, 3, labels=["low", "mid", "high"])), "c"
    yield "count", atm.CountRegression(order=3), base.assign(k=rng.poisson(np.exp(0.3 * base.y.clip(-3, 3)))), "k"
    yield "poisson", atm.AnchorGLM(family="poisson"), base.assign(k=rng.poisson(np.exp(0.3 * base.y.clip(-3, 3)))), "k"
    yield "binary", atm.AnchorGLM(family="binomial"), base.assign(b=(base.y > 0).astype(int)), "b"
    yield "gaussian", atm.AnchorGLM(), base, "y"
    yield "logit", atm.ContinuousLogit(order=3), base, "y"


LONG = ("weibull", "count", "poisson", "gaussian")  # others of their kind are quicker


@pytest.mark.parametrize(
    ("name", "model", "data", "left"),
    [pytest.param(*kind, marks=pytest.mark.slow if kind[0] in LONG else ()) for kind in kinds()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kind_of_outcome_is_assessed(name, model, data, left):
    found = atm.assess(model, f"{left} ~ x + z | place", data, strategies=["anchored"], labels=8, progress=False)
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert found.recommendation.strategy in ("ml", "anchored", "recalibrate")
    assert record["recommendation"]["like"]["reasons"]
    assert len(record["sites"]) == 10
    assert record["views"] is not None
    kind = {"class": "classes", "time": "survival", "weibull": "survival", "cox": "survival", "count": "counts"}
    kind |= {"poisson": "counts", "binary": "counts"}
    assert record["views"]["kind"] == kind.get(name, "density")
    for profile in record["views"]["profiles"]:
        if record["views"]["kind"] == "classes":
            assert np.sum(profile["density"], axis=1) == pytest.approx(1.0, abs=1e-5)
    assert ("Densities may bend sharply at" in assessment_page(record)) == (name in ("time", "logit"))
    if name != "cox":
        assert record["calibration"] is not None
    assert record["labels"] is not None
    assert found.fit().predict_distribution(data[:2]) is not None


def test_weights_and_missing_values(table):
    holes = table.assign(x=table.x.where(np.arange(len(table)) % 17 != 0))
    model = atm.NormalLinear(missing="drop")
    found = atm.assess(model, FORMULA, holes, strategies=["equal"], progress=False)
    whole = atm.assess(atm.NormalLinear(), FORMULA, holes.dropna(), strategies=["equal"], progress=False)
    assert found.sites.n_missing == holes.x.isna().sum()
    np.testing.assert_allclose(found.evidence.residuals, whole.evidence.residuals, atol=1e-9)
    np.testing.assert_allclose(found.sites.gains, whole.sites.gains, atol=1e-9)
    first, second = (one.to_dict()["views"]["profiles"][0]["density"] for one in (found, whole))
    np.testing.assert_allclose(first, second, rtol=1e-6)
    weight = np.where(np.arange(len(table)) % 3 == 0, 2.0, 1.0)
    doubled = table.loc[np.repeat(table.index, weight.astype(int))].reset_index(drop=True)
    some = atm.assess(atm.NormalLinear(), FORMULA, table, sample_weight=weight, strategies=["equal"], progress=False)
    every = atm.assess(atm.NormalLinear(), FORMULA, doubled, strategies=["equal"], progress=False)
    np.testing.assert_allclose(some.sites.gains, every.sites.gains, atol=1e-8)
    assert some.comparison.table().difference.to_numpy() == pytest.approx(
        every.comparison.table().difference.to_numpy()
    )


def test_few_places_and_no_covariates(table):
    few = table[table.place < "site 05"]
    found = atm.assess(atm.NormalLinear(), FORMULA, few, strategies=["equal"], progress=False)
    assert found.recommendation.like.confidence == "undecided"
    assert found.recommendation.further.confidence == "undecided"
    assert "8 are needed" in " ".join(found.recommendation.further.reasons)
    none = atm.assess(atm.NormalLinear(), "y ~ 1 | place", table, strategies=["equal"], progress=False)
    assert none.recommendation.strategy == "ml"
    assert none.to_dict()["data"]["covariates"] == []


def test_a_new_place_with_few_training_places(table, new):
    few = table[table.place < "site 05"]
    with pytest.warns(AnchorTMWarning, match="fewer than 8"):
        found = atm.assess(atm.NormalLinear(), FORMULA, few, new=new, strategies=["equal"], progress=False)
    assert found.recommendation.kind in ("like", "further")
    assert found.recommendation.main.confidence == "undecided"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": 0}, "labels"),
        ({"labels": 2.5}, "labels"),
        ({"random_state": -1}, "random_state"),
        ({"strategies": ["best"]}, "is not a strategy"),
        ({"new": pd.DataFrame({"x": [1.0]})}, "'z'"),
        ({"min_rows": 0}, "min_rows"),
    ],
)
def test_bad_input(table, options, message):
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        atm.assess(atm.NormalLinear(), FORMULA, table, **({"strategies": ["equal"]} | options))


def test_models_that_cannot_be_assessed(table):
    with pytest.raises((ValueError, TypeError), match="boosted"):
        atm.assess(atm.AnchorBoostedTM(atm.NormalLinear()), FORMULA, table)
    with pytest.raises((ValueError, TypeError), match="at least 3"):
        atm.assess(atm.NormalLinear(), FORMULA, table[table.place < "site 02"])


def test_stability_counts_draws(found):
    shares = found.stability["like"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert found.recommendation.like.stability == shares[found.recommendation.like.strategy]
    assert sum(found.stability["further"].values()) == pytest.approx(1.0)


def test_stability_further_by_hand(found):
    """One environment in a fold is always drawn; so folds of one environment have no variation."""
    from anchortm.newplace.assessment.stability import stability_further

    tuning = found.finals["further"]._compared.tuning
    sizes = [len(fold.out) for fold in tuning.folds]
    losses = [tuning.losses_by_fold(k) for k in range(len(tuning.xis))]
    assert [own.size for own in losses[0]] == sizes
    for k in range(len(tuning.xis)):
        np.testing.assert_allclose([own.mean() for own in losses[k]], tuning.losses(k), atol=1e-12)
    assert stability_further(tuning, 0) == stability_further(tuning, 0)


def test_recalibration_is_recommended_where_places_have_intercepts_of_their_own():
    rng = np.random.default_rng(0)
    e = np.repeat(np.arange(14), 40)
    x = rng.normal(size=e.size)
    data = pd.DataFrame({"x": x, "y": 0.8 * x + 0.7 * rng.normal(size=14)[e] + rng.normal(size=e.size), "place": e})
    found = atm.assess(atm.NormalLinear(), "y ~ x | place", data, labels=20, strategies=["anchored"], progress=False)
    assert found.recommendation.like.strategy == "recalibrate"
    recalibrated = found.fit().recalibrate(data[:20])
    assert recalibrated.recalibration_.weight == 20
    open_ = atm.assess(atm.NormalLinear(), "y ~ x | place", data, strategies=["anchored"], progress=False)
    assert open_.views.profiles[3]["name"] == "place 0"  # a bare number would say nothing
    assert "outcomes gain +" in open_.labels_sentence
    assert open_.recommendation.strategy == "ml"
    assert open_.recommendation.like.collect in (5, 10, 20)


def test_progress_and_warnings_are_told_once(table, capsys):
    atm.assess(atm.NormalLinear(), FORMULA, table, strategies=["equal"], progress=True)
    assert "assessment" in capsys.readouterr().err
