"""Recalibration by a few rows of a new place: reference values, invariances, known truth, bad input."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE

import anchortm as atm
from anchortm.engine.rows.shift_law import NormalShift

COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
KNOWN = json.loads((REFERENCE / "robust" / "recalibration.json").read_text())


def rows(name: str):
    """Return the model, covariates and outcome of a reference problem, and the places as codes."""
    support = tuple(KNOWN[name]["support"])
    if name == "wine_ord":
        wine = atm.datasets.load_wine()
        frame = atm.Formula("rating ~ temp + contact | judge", wine)
        return atm.OrdinalRegression(), frame.X, frame.y, wine.judge
    if name == "cgd_cox":
        data = atm.datasets.load_cgd()
        X = pd.DataFrame(
            {
                "treated": data.treat != "placebo",
                "male": data.sex == "male",
                "age": data.age,
                "autosomal": data.inherit != "X-linked",
                "propylac": data.propylac,
            }
        ).astype(float)
        time = np.log(data.tstop.to_numpy(float))
        y = atm.Interval(time, np.where(data.status == 1, time, np.inf))
        model = atm.AnchorTM(link="cloglog", basis="bernstein", order=4, support=support)
        return model, (X - X.mean()) / X.std(), y, data.center
    data = atm.datasets.load_boston_housing2()
    X, price = data[COVARIATES], data.cmedv
    model = {
        "bh2_lm": atm.NormalLinear,
        "bh2_cprobit": atm.ContinuousProbit,
        "bh2_clogit": atm.ContinuousLogit,
    }[name](**({"support": support} if support else {}))
    y = atm.Surv(price, price != 50) if name == "bh2_clogit" else price.to_numpy()
    return model, (X - X.mean()) / X.std(), y, data.town


@pytest.fixture(scope="module", params=KNOWN)
def case(request):
    """Return the reference values, the model fitted without the target, its first five rows and the others."""
    known = KNOWN[request.param]
    model, X, y, places = rows(request.param)
    target = np.unique(np.asarray(places, dtype=object), return_inverse=True)[1] == known["target"]
    fitted = model.fit(X[~target], y[~target])
    few, rest = np.flatnonzero(target)[: known["m"]], np.flatnonzero(target)[known["m"] :]
    return known, fitted, (X.iloc[few], y[few]), (X.iloc[rest], y[rest])


def plug_in(model):
    """Return the model with the shift as known."""
    return copy_with(model, replace(model.recalibration_, law=NormalShift()))


def copy_with(model, recalibration):
    return model.with_result(None, replace(model.result_, recalibration=recalibration))


def test_the_source_is_that_of_the_reference(case):
    known, model, _, rest = case
    np.testing.assert_allclose(np.concatenate([model.baseline_, model.coef_]), known["source_w"], atol=1e-6)
    assert model.nll(*rest).mean() == pytest.approx(known["none"], abs=1e-9)


def test_a_shift(case):
    known, model, few, rest = case
    there = model.recalibrate(*few, what="shift", prior=known["tau2"])
    found, a = there.recalibration_, known["a"]
    assert found.shift == pytest.approx(a["delta"], abs=1e-6)
    assert found.std_error == pytest.approx(a["information"] ** -0.5, abs=1e-6)
    assert found.shift + found.law.mean == pytest.approx(a["posterior_mean"], abs=1e-6)
    assert found.law.sd == pytest.approx(a["posterior_sd"], abs=1e-6)
    assert there.nll(*rest).mean() == pytest.approx(a["nll_rest_predictive"], abs=1e-9)
    assert plug_in(there).nll(*rest).mean() == pytest.approx(a["nll_rest"], abs=1e-9)
    assert found.converged
    assert found.score < 1e-9
    if "closed_a" in known:
        assert [found.shift, found.std_error**2] == pytest.approx(known["closed_a"], abs=1e-9)


def test_a_shift_and_a_scale(case):
    known, model, few, rest = case
    there = model.recalibrate(*few, what="shift+scale", prior=known["tau2"], scale_prior=known["tauc2"])
    found, b = there.recalibration_, known["b"]
    assert [found.shift, found.scale] == pytest.approx([b["delta"], b["c"]], abs=1e-6)
    assert plug_in(there).nll(*rest).mean() == pytest.approx(b["nll_rest"], abs=1e-9)
    assert found.converged
    if "closed_b" in known:
        assert [found.shift, found.scale] == pytest.approx(known["closed_b"], abs=1e-9)


def test_a_baseline(case):
    known, model, few, rest = case
    there = model.recalibrate(*few, what="baseline", strength=known["lam"], floor=0.0)
    found, c = there.recalibration_, known["c"]
    np.testing.assert_allclose(np.concatenate([there.baseline_, there.coef_]), c["w"], atol=1e-6)
    assert plug_in(there).nll(*rest).mean() == pytest.approx(c["nll_rest"], abs=1e-9)
    assert (found.strength, found.floor, found.prior_from) == (20.0, 0.0, "strength")
    kept = model.recalibrate(*few, what="baseline")
    steps = [np.diff(own.baseline_) for own in (model, kept)]
    line = model.basis_.kind == "linear"
    slopes = [own.baseline_[1:] for own in (model, kept)] if line else steps
    assert (slopes[1] >= 0.2 * slopes[0] - 1e-9).all()


@pytest.mark.parametrize("what", ["shift", "shift+scale", "baseline"])
def test_invariances(case, what):
    known, model, (X, y), rest = case
    asked = {"what": what, "prior": known["tau2"]}
    there = model.recalibrate(X, y, **asked)
    # the order of rows does not count, and a weight of 2 is a row twice
    back = model.recalibrate(X[::-1], y[::-1], **asked)
    assert back.recalibration_.shift == pytest.approx(there.recalibration_.shift, abs=1e-7)
    np.testing.assert_allclose(back.nll(*rest), there.nll(*rest), atol=1e-7)
    k = np.array([0, 0, 1, 2, 2, 3, 4])
    twice = model.recalibrate(X.iloc[k], y[k], **asked)
    weighted = model.recalibrate(X, y, sample_weight=[2.0, 1.0, 2.0, 1.0, 1.0], **asked)
    np.testing.assert_allclose(weighted.nll(*rest), twice.nll(*rest), atol=1e-7)
    assert (weighted.recalibration_.rows, weighted.recalibration_.weight) == (5, 7.0)
    without = model.recalibrate(X, y, sample_weight=[1.0, 1.0, 0.0, 1.0, 1.0], **asked)
    kept = np.array([0, 1, 3, 4])
    np.testing.assert_allclose(without.nll(*rest), model.recalibrate(X.iloc[kept], y[kept], **asked).nll(*rest))
    if what == "shift":  # duplicated rows double the information, less that of the prior
        many = model.recalibrate(X.iloc[[*range(5)] * 2], y[np.array([*range(5)] * 2)], what="shift", prior=1e8)
        one = model.recalibrate(X, y, what="shift", prior=1e8)
        assert many.recalibration_.std_error**-2 - 1e-8 == pytest.approx(2 * (one.recalibration_.std_error**-2 - 1e-8))


@pytest.mark.parametrize("what", ["shift", "shift+scale"])
def test_the_whole_range_from_no_rows_to_many(case, what):
    _, model, (X, y), rest = case
    none = model.recalibrate(X[:0], y[:0], what=what, prior=0.25)
    law = none.recalibration_.law
    assert (none.recalibration_.shift, law) == (0.0, NormalShift(0.0, 0.5))
    still = model.recalibrate(X, y, what=what, prior=0.0)  # places do not differ
    np.testing.assert_allclose(still.nll(*rest), model.nll(*rest), atol=1e-12)
    little = model.recalibrate(X, y, what="shift", prior=1e-10)
    np.testing.assert_allclose(little.nll(*rest), model.nll(*rest), atol=1e-6)
    many = np.tile(np.arange(len(X)), 4000)
    plenty = model.recalibrate(X.iloc[many], y[many], what=what, prior=0.25)
    np.testing.assert_allclose(plenty.nll(*rest), plug_in(plenty).nll(*rest), atol=2e-3)


def test_predictions_are_the_average_over_the_shift(case):
    _, model, few, rest = case
    there = model.recalibrate(*few, what="shift", prior=0.25)
    found = there.recalibration_
    nodes, weights = found.law.nodes(0.05)
    X = rest[0].iloc[:4]
    moved = [copy_with(model, None) for _ in nodes]
    at = np.array([1.0, 2.0]) if model.basis_.kind == "ordinal" else np.quantile(model.outcome_range_, [0.2, 0.6])
    at = np.array(model.classes_)[:2] if model.basis_.kind == "ordinal" else at
    expected = 0.0
    for own, node, weight in zip(moved, nodes, weights, strict=True):
        shifted = own.predict_distribution(X)
        sign = model.result_.sign
        shifted = replace(shifted, shift=shifted.shift - sign * (found.shift + node))
        expected = expected + weight * shifted.cdf(at)
    distribution = there.predict_distribution(X)
    np.testing.assert_allclose(distribution.cdf(at), expected, atol=1e-8)
    if not distribution.discrete:
        np.testing.assert_allclose(distribution.cdf(distribution.ppf([0.1, 0.5, 0.9])), [[0.1, 0.5, 0.9]] * 4)
        np.testing.assert_allclose(there.predict(X), distribution.median())


def test_files_and_pickles(case, tmp_path):
    _, model, few, rest = case
    for what in ("shift", "shift+scale", "baseline"):
        there = model.recalibrate(*few, what=what, prior=0.25)
        loaded = atm.load(atm.save(there, tmp_path / "there.json"))
        for same in (loaded, pickle.loads(pickle.dumps(there))):  # noqa: S301
            np.testing.assert_array_equal(same.nll(*rest), there.nll(*rest))
            assert repr(same.recalibration_) == repr(there.recalibration_)
            assert str(same.summary()) == str(there.summary())
            pd.testing.assert_frame_equal(same.recalibration_.log, there.recalibration_.log)


# known truth


def hospitals(rng: np.random.Generator, sd: float, n_places: int = 16, n_rows: int = 40):
    """Return covariate, outcome and place of rows whose places differ by normal shifts."""
    place = np.repeat(np.arange(n_places), n_rows)
    x = rng.normal(size=place.size)
    y = 1.0 + 0.8 * x + sd * rng.normal(size=n_places)[place] + rng.normal(size=place.size)
    return x[:, None], y, place


def share_within_two_errors(model, what: str, runs: int, rng: np.random.Generator) -> float:
    """Return how often the shift lies within two standard errors of 0, if the rows come from the model itself."""
    inside = 0
    for _ in range(runs):
        few = rng.normal(size=(5, 1))
        drawn = model.predict_distribution(few).rvs(1, rng)[:, 0]
        found = model.recalibrate(few, drawn, what=what, prior=0.25).recalibration_
        inside += abs(found.shift) <= 2.0 * found.std_error
    return inside / runs


@pytest.mark.parametrize("model", [atm.NormalLinear(), atm.ContinuousLogit(order=3)], ids=["lm", "c-logit"])
def test_rows_of_the_model_itself_hardly_shift_it(model):
    rng = np.random.default_rng(11)
    X, y, _ = hospitals(rng, 0.0)
    assert share_within_two_errors(model.fit(X, y), "shift", 100, rng) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("what", ["shift", "shift+scale", "baseline"])
def test_rows_of_the_model_itself_in_many_runs(what):
    rng = np.random.default_rng(12)
    X, y, _ = hospitals(rng, 0.0)
    for model in (atm.NormalLinear(), atm.ContinuousLogit(order=3), atm.ProportionalHazards(order=3)):
        share = share_within_two_errors(model.fit(X, y - y.min() + 0.1), what, 500, rng)
        assert share >= 0.95 - 2.0 * np.sqrt(0.95 * 0.05 / 500)


def mean_change(model, sd: float, runs: int, rng: np.random.Generator, **options) -> float:
    """Return the mean change of the negative log-likelihood of other rows of a new place by five of its rows."""
    changes = []
    for _ in range(runs):
        X, y, place = hospitals(rng, sd)
        fitted = model.fit(X, y, anchors=place)
        new = rng.normal(size=(1005, 1))
        outcome = 1.0 + 0.8 * new[:, 0] + sd * rng.normal() + rng.normal(size=1005)
        there = fitted.recalibrate(new[:5], outcome[:5], **options)
        changes.append((there.nll(new[5:], outcome[5:]) - fitted.nll(new[5:], outcome[5:])).mean())
    return float(np.mean(changes))


def test_where_places_do_not_differ_little_is_lost():
    assert mean_change(atm.NormalLinear(), 0.0, 5, np.random.default_rng(21), what="shift") <= 0.005


@pytest.mark.slow
@pytest.mark.parametrize("model", [atm.NormalLinear(), atm.ContinuousLogit(order=3)], ids=["lm", "c-logit"])
def test_where_places_do_not_differ_little_is_lost_by_default(model):
    """What is recalibrated, and how far, is left to the defaults; where places differ, they gain."""
    assert mean_change(model, 0.0, 30, np.random.default_rng(22)) <= 0.005
    assert mean_change(model, 0.5, 30, np.random.default_rng(23)) <= -0.02


def test_a_true_shift_is_found():
    rng = np.random.default_rng(5)
    X, y, _ = hospitals(rng, 0.0, 40)
    model = atm.NormalLinear().fit(X, y)
    new = rng.normal(size=(400, 1))
    outcome = 1.0 + 0.8 * new[:, 0] + 0.7 + rng.normal(size=400)
    there = model.recalibrate(new, outcome, what="shift", prior=1.0)
    assert there.recalibration_.shift == pytest.approx(0.7, abs=3.0 * there.recalibration_.std_error)
    assert there.recalibration_.std_error == pytest.approx(0.05, abs=0.005)
    wide = model.recalibrate(new, 3.0 * (outcome - outcome.mean()), what="shift+scale", prior=1.0, scale_prior=1.0)
    assert wide.recalibration_.scale < 0.5


# bad input


@pytest.fixture(scope="module")
def towns():
    data = atm.datasets.load_boston_housing2()
    data["zoned"] = np.where(data.zn > 0, "yes", "no")
    new = data.town == "Cambridge"
    model = atm.ContinuousProbit.from_formula("cmedv ~ rm + lstat + zoned | town", data[~new])
    return model, data[new].reset_index(drop=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"what": "scale"}, "what must be one of 'auto', 'shift', 'shift\\+scale', 'baseline', not 'scale'"),
        ({"what": None}, "what must be one of"),
        ({"prior": "sites"}, "prior must be 'places' or the variance of shifts between places, not 'sites'"),
        ({"prior": -1.0}, "prior, the variance of shifts between places, must be at least 0, not -1.0"),
        ({"prior": np.nan}, "at least 0"),
        ({"prior": np.inf}, "at least 0"),
        ({"prior": [0.5, 0.5]}, "prior"),
        ({"prior": None}, "prior"),
        (
            {"what": "baseline", "strength": 0.0},
            "strength, how many rows the fit counts for, must be a positive",
        ),
        ({"what": "baseline", "floor": 1.0}, "floor, the smallest share of a slope, must be at least 0 and below 1"),
        ({"scale_prior": 0.0}, "scale_prior, the variance of the scale, must be a positive number"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, "weight"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "weight"),
        ({"sample_weight": [1.0, 1.0]}, "weight"),
        ({"sample_weight": "nothing"}, "nothing"),
    ],
)
def test_bad_arguments(towns, options, message):
    model, new = towns
    with pytest.raises((ValueError, TypeError), match=message):
        model.recalibrate(new[:3], **({"prior": 0.5} | options))


def test_bad_rows(towns):
    model, new = towns
    with pytest.raises(ValueError, match="missing"):
        model.recalibrate(new[:3].assign(rm=[np.nan, 6.0, 6.0]), prior=0.5)
    with pytest.raises(ValueError, match="missing"):
        model.recalibrate(new[:3].assign(cmedv=[np.nan, 6.0, 6.0]), prior=0.5)
    with pytest.raises(ValueError, match="perhaps"):
        model.recalibrate(new[:3].assign(zoned=["no", "no", "perhaps"]), prior=0.5)
    with pytest.raises(ValueError, match="lstat"):
        model.recalibrate(new[:3].drop(columns="lstat"), prior=0.5)
    with pytest.raises(ValueError, match="rows"):
        model.recalibrate(new[:3], new.cmedv[:2], prior=0.5)
    late = atm.ContinuousProbit.from_formula("cmedv ~ rm | town", new.assign(town=new.index % 3), log_first=True)
    with pytest.raises(ValueError, match="above 0"):
        late.recalibrate(new[:3].assign(cmedv=[0.0, 20.0, 20.0]), prior=0.5)
    wine = atm.datasets.load_wine()
    ratings = atm.OrdinalRegression.from_formula("rating ~ temp | judge", wine)
    with pytest.raises(ValueError, match="9"):
        ratings.recalibrate(wine[:2].assign(rating=[9, 1]), prior=0.5)
    for nothing, words in ((None, "there are no rows"), (5, "X must hold the rows"), ("cmedv ~ rm", "the table alone")):
        with pytest.raises((ValueError, TypeError), match=words):
            model.recalibrate(nothing, prior=0.5)
    with pytest.raises(Exception, match="not fitted"):
        atm.NormalLinear().recalibrate(new[["rm"]], new.cmedv)


def test_one_row_and_rows_far_out(towns):
    model, new = towns
    one = model.recalibrate(new[:1], what="shift", prior=0.5)
    assert one.recalibration_.rows == 1
    assert np.isfinite(one.nll(new)).all()
    far = model.recalibrate(new[:3].assign(cmedv=[500.0, 700.0, 900.0]), what="shift", prior=0.5)
    assert far.recalibration_.converged
    assert far.recalibration_.shift > 5.0
    for what in ("shift+scale", "baseline"):
        assert np.isfinite(model.recalibrate(new[:1], what=what, prior=0.5).nll(new)).all()


def test_all_rows_censored():
    data = atm.datasets.load_cgd()
    new = data.center == "NIH"
    model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data[~new], order=3)
    censored = data[new].assign(status=0)
    for what in ("shift", "shift+scale", "baseline"):
        there = model.recalibrate(censored, what=what, prior=0.25)
        found = there.recalibration_
        assert found.converged
        assert found.shift > 0.0  # nothing has happened yet: times are longer
        assert np.isfinite(there.nll(data[new])).all()


def test_a_row_of_density_zero_is_named():
    y = np.random.default_rng(2).normal(size=100)
    model = atm.ContinuousProbit(order=4, support=(-1.0, 1.0)).fit(None, y)
    level = model.baseline_.copy()
    level[-1] = level[-2]  # no density beyond the support
    flat = model.with_result(None, replace(model.result_, baseline=level))
    with pytest.raises(ValueError, match="row 1 has the likelihood 0 under the model: its baseline is flat"):
        flat.recalibrate(None, np.array([0.5, 3.0]), what="shift", prior=0.5)


def test_a_model_is_recalibrated_once(towns):
    model, new = towns
    there = model.recalibrate(new[:3], prior=0.5, what="shift")
    with pytest.raises(ValueError, match="recalibrated already: recalibrate the model before, with all rows"):
        there.recalibrate(new[:3], prior=0.5)
    with pytest.raises(ValueError, match="recalibrated at a place"):
        there.widened(2.0)
    with pytest.raises(ValueError, match="confidence limits of a recalibrated model"):
        there.confidence_band(new[:1], [20.0])
    assert not hasattr(model, "recalibration_")


def test_without_places_a_default_is_stated():
    data = atm.datasets.load_boston_housing2()
    model = atm.NormalLinear().fit(data[["rm", "lstat"]], data.cmedv)
    with pytest.warns(
        atm.exceptions.AnchorTMWarning,
        match="the prior of the shift has standard deviation 0.316, whose square is a tenth",
    ):
        there = model.recalibrate(data[["rm", "lstat"]][:3], data.cmedv[:3], what="shift")
    assert (there.recalibration_.prior, there.recalibration_.prior_from) == (pytest.approx(0.1), "default")
    assert "the default" in there.summary().facts["prior"]
