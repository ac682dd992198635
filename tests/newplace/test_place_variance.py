"""The variance of shifts between places: reference numbers, invariances, known truth, bad input."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from robust_problems import COVARIATES, problem, standardised
from scipy import special
from scipy.optimize import minimize_scalar

import anchortm as atm
from anchortm.engine.rows.shift_law import NormalShift
from anchortm.exceptions import InputError, InputTypeError, ModelFileError, UnavailableError
from anchortm.newplace.place_variance import left_out_rows
from anchortm.saving.models import fitted_of, model_record

KNOWN = json.loads((REFERENCE / "robust" / "places.json").read_text())
FORMULA = "rating ~ temp + contact | judge"


def copied(model):
    """Return a pickled model, which has no rows."""
    return pickle.loads(pickle.dumps(model))  # noqa: S301 - our own


@pytest.mark.parametrize("name", KNOWN)
def test_reference(name):
    """Numbers of a slow implementation that was written before this one, which maximises over tau alone."""
    model, X, y, environments = problem(name, KNOWN[name], in_logs=False)
    model.fit(X, y, environments=environments)
    known = KNOWN[name]
    assert model.place_sd_ == pytest.approx(known["tau_joint_ml"], abs=1e-5)
    assert model.place_sd_rowwise_ == pytest.approx(known["tau_rowwise_mean"], abs=1e-5)
    assert model.place_variance_.n_places == np.unique(environments).size
    # the likelihood at tau = 0.5; the reference has the density of log time for the survival model
    shift = np.log(atm.datasets.load_cgd().query("status == 1").tstop).sum() / 128 if name == "cgd_cox" else 0.0
    new = model.new_rows_.__class__(model.new_rows_.spec, model.result_, law=NormalShift(0.0, 0.5))
    assert -new.loglik(X, y, None).mean() - shift == pytest.approx(known["nll_tau05"], abs=1e-8)
    if name in ("bh2_lm", "bh2_cprobit"):  # widening and shifts agree: c = (1 + tau^2)^-1/2
        assert (1.0 + model.place_sd_rowwise_**2) ** -0.5 == pytest.approx(known["c_mean"], abs=1e-5)


def slow_logs(shifted, sd):
    """Return the log of the average likelihood of a place, and the mean of those of its rows, on a dense grid."""
    x = np.linspace(-9.0, 9.0, 301)
    prior = -0.5 * x**2 - special.logsumexp(-0.5 * x**2)
    logs = shifted(np.broadcast_to(sd * x, (shifted.n_rows, x.size)))[0]
    return special.logsumexp(logs.sum(axis=0) + prior), special.logsumexp(logs + prior, axis=1).mean()


def test_estimates_and_jackknife_by_hand():
    """Refit every fold, integrate on a grid, and leave each judge out of the sums."""
    data = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula(FORMULA, data, xi=0.5)
    found = model.place_variance_
    problem, judges = model.problem_, np.unique(data.judge)
    codes = pd.Categorical(data.judge, categories=judges).codes.astype(np.intp)
    records = []
    for k, judge in enumerate(judges):
        rows, shifted, why = left_out_rows(problem, (model.baseline_, model.coef_), 0.5, codes, k)
        assert not why
        alone = atm.OrdinalRegression.from_formula(FORMULA, data[data.judge != judge], xi=0.5)
        left = data[data.judge == judge]
        np.testing.assert_array_equal(rows, np.flatnonzero(data.judge == judge))
        np.testing.assert_allclose(-shifted(np.zeros((len(left), 1)))[0][:, 0], alone.nll(left), atol=1e-8)
        records.append(shifted)
    for which, (sd, error) in enumerate(((found.sd, found.sd_error), (found.rowwise, found.rowwise_error))):

        def best(out, which=which):
            kept = [shifted for k, shifted in enumerate(records) if k != out]
            total = lambda at: -sum(slow_logs(shifted, at)[which] for shifted in kept)  # noqa: E731
            grid = np.geomspace(0.05, 4.0, 12)
            start = grid[np.argmin([total(own) for own in grid])]
            at = minimize_scalar(total, bounds=(0.6 * start, 1.7 * start), method="bounded", options={"xatol": 1e-5}).x
            return float(at) if total(at) < total(1e-6) else 0.0

        assert sd == pytest.approx(best(None), abs=1e-4)
        each = np.array([best(k) for k in range(9)])
        assert error == pytest.approx(np.sqrt(8 / 9 * ((each - each.mean()) ** 2).sum()), rel=0.02)


def test_units_and_order_do_not_matter():
    """y -> a y + b leaves both as they are; so does the order of rows, and the names of places."""
    data = atm.datasets.load_boston_housing2()
    X, price, town = data[["rm", "lstat"]], data.cmedv, data.town
    first = atm.NormalLinear().fit(X, price, anchors=town).place_variance_
    other = np.random.default_rng(0).permutation(len(data))
    again = atm.NormalLinear().fit(X.iloc[other], 3.0 * price.iloc[other] - 7.0, anchors="t" + town.iloc[other])
    for name in ("sd", "rowwise", "sd_error", "rowwise_error"):
        assert getattr(again.place_variance_, name) == pytest.approx(getattr(first, name), abs=2e-5)
    medians = [model.predict(X[:3], place=place) for model, place in ((again, "average"), (again, "new"))]
    np.testing.assert_allclose(*medians, rtol=1e-12)  # a symmetric link keeps its medians


def test_weights_count_rows():
    data = atm.datasets.load_wine()
    twice = pd.concat([data, data[data.temp == "warm"]])
    weighted = atm.OrdinalRegression.from_formula(FORMULA, data, sample_weight=1.0 + (data.temp == "warm"))
    repeated = atm.OrdinalRegression.from_formula(FORMULA, twice)
    assert weighted.place_sd_ == pytest.approx(repeated.place_sd_, abs=1e-5)
    assert weighted.place_sd_rowwise_ == pytest.approx(repeated.place_sd_rowwise_, abs=1e-5)


@pytest.mark.parametrize(
    "kind", ["normal", "hazard", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("logit", "poisson"))]
)
@pytest.mark.parametrize("sd", [0.0, 0.9])
def test_known_truth(kind, sd):
    """Sixty places with normal shifts of this standard deviation, on the scale of h."""
    rng = np.random.default_rng(11)
    place = np.repeat(np.arange(60), 10)
    shift, x = sd * rng.normal(size=60)[place], rng.normal(size=600)
    eta = 0.7 * x + shift
    if kind == "normal":
        y, model = eta + rng.normal(size=600), atm.NormalLinear()
    elif kind == "logit":
        latent = eta + rng.logistic(size=600)
        y, model = np.digitize(latent, [-1.0, 0.5, 1.5]), atm.OrdinalRegression()
    elif kind == "hazard":
        time = rng.exponential(size=600) * np.exp(eta)  # a positive shift means longer times
        end = rng.uniform(0.2, 3.0, 600)
        y, model = atm.Surv(np.minimum(time, end), time <= end), atm.CoxPH()
    else:
        y, model = rng.poisson(np.exp(0.5 + eta)), atm.AnchorGLM(family="poisson")
    found = model.fit(x[:, None], y, environments=place).place_variance_
    if sd == 0.0:
        assert found.sd < 0.25
    else:
        # the pooled fit has shrunken h where shifts are part of the noise
        scale = np.hypot(1.0, sd) ** -1 if kind == "normal" else 1.0
        assert abs(found.sd - sd * scale) < 3.0 * max(found.sd_error, 0.05)
        assert 0.02 < found.sd_error < 0.3


def test_no_shifts_change_nothing():
    data = atm.datasets.load_boston_housing2()
    X, price = data[COVARIATES], data.cmedv
    y = atm.Surv(price, price != 50)
    model = atm.ContinuousLogit(support=(12.9, 34.65)).fit(standardised(X), y, anchors=data.town)
    assert model.place_sd_rowwise_ == 0.0
    rows = standardised(X)[:4]
    np.testing.assert_array_equal(
        model.predict_distribution(rows, place="new").cdf(20.0), model.predict_distribution(rows).cdf(20.0)
    )


def test_separated_folds_are_named():
    """Without one centre, steroids separate the outcomes: that fold has no fit."""
    data = atm.datasets.load_cgd()
    formula = "Surv(tstop, status) ~ treat + age + steroids | center"
    model = atm.ProportionalHazards.from_formula(formula, data, order=3, log_first=True)
    found = model.place_variance_
    (name, why) = next(iter(found.not_used.items()))
    assert (name, found.n_places) == ("Amsterdam", 12)
    assert "separation" in why
    assert "Amsterdam (complete or quasi-complete separation" in str(model.summary())
    assert found.sd < 1.0


def test_classes_of_one_place_only():
    data = atm.datasets.load_wine()
    rating = data.rating.astype(int).where(data.judge != 1, 5)  # only the first judge has class 5
    rating = rating.where((data.judge == 1) | (rating < 5), 4)
    model = atm.OrdinalRegression().fit(1.0 * (data[["temp"]] == "warm"), rating, environments=data.judge)
    found = model.place_variance_
    assert found.not_used == {"1": "not predicted: only this environment has class 5"}
    assert found.n_places == 8


def test_environments_of_one_row():
    """Places of a single row are used; where all are so, the joint estimate is that of rows."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 1)), rng.normal(size=40)
    found = atm.NormalLinear().fit(x, x[:, 0] + y, environments=np.arange(40)).place_variance_
    assert found.n_places == 40
    assert found.sd == pytest.approx(found.rowwise, abs=1e-5)


def test_places_without_events():
    data = atm.datasets.load_cgd()
    status = np.where(data.center == data.center.iloc[0], 0, data.status)
    model = atm.ProportionalHazards(order=3, log_first=True)
    found = model.fit(data[["age"]], atm.Surv(data.tstop, status), environments=data.center).place_variance_
    assert found.n_places == 13
    assert np.isfinite(found.sd)


def test_delayed_entry():
    data = atm.datasets.load_cgd()
    y = atm.Surv(data.tstop, data.status, np.minimum(20.0, 0.5 * data.tstop))
    model = atm.ContinuousLogit(order=3, log_first=True).fit(data[["age"]], y, environments=data.center)
    assert 0.0 <= model.place_sd_ < 2.0
    new = model.nll(data[["age"]], y, place="new")
    assert np.isfinite(new).all()


@pytest.mark.parametrize("number", [1, 2])
def test_too_few_places(number):
    data = atm.datasets.load_geyser()
    place = np.arange(len(data)) % number
    model = atm.NormalLinear().fit(data[["duration"]], data.waiting, environments=place)
    with pytest.raises(InputError, match=f"there are {number} environments, and shifts between places need at least 3"):
        _ = model.place_sd_
    with pytest.raises(InputError, match="at least 3"):
        atm.NormalLinear(place_variance=True).fit(data[["duration"]], data.waiting, environments=place)


def test_a_failed_measurement_leaves_the_model_as_it_was():
    data = atm.datasets.load_geyser()
    model = atm.NormalLinear(place_variance=True)
    with pytest.raises(UnavailableError, match="the fit does not know places: pass environments="):
        model.fit(data[["duration"]], data.waiting)
    assert not model.__sklearn_is_fitted__()


def test_refusals():
    data = atm.datasets.load_wine()
    mixed = atm.OrdinalRegression.from_formula("rating ~ temp + (1 | judge) | contact", data)
    with pytest.raises(
        (InputError, InputTypeError), match=r"random effects.*already averaged over the effects of new clusters"
    ):
        mixed.predict_distribution(data[:1], place="new")
    ticks = atm.datasets.load_grouseticks()
    identity = atm.AnchorGLM(family="poisson", link="identity").fit(
        ticks[["YEAR"]].astype(float), ticks.TICKS, environments=ticks.LOCATION.astype(str)
    )
    with pytest.raises(InputError, match=r"the identity link has a bounded linear predictor.*link='log'"):
        _ = identity.place_sd_
    model = atm.OrdinalRegression.from_formula(FORMULA, data)
    for bad in ("old", None, True, ["new"]):
        with pytest.raises(InputError, match='place must be "average" or "new"'):
            model.predict_distribution(data[:1], place=bad)
    with pytest.raises(InputTypeError, match="place_variance must be True or False"):
        atm.OrdinalRegression(place_variance="yes").fit(model.formula_.design(data), data.rating)


@pytest.mark.parametrize(
    ("environments", "message"),
    [
        (np.linspace(0.0, 1.0, 72), "environments must be one column of names"),
        (np.zeros((72, 2), dtype=int), "environments must be one column of names"),
        (np.arange(5), "environments has 5 rows, but y has 72"),
        (np.array([None] + ["a", "b", "c"] * 23 + ["a", "b"], dtype=object), "environments.* is missing at row 0"),
    ],
)
def test_bad_environments(environments, message):
    data = atm.datasets.load_wine()
    X = 1.0 * (data[["temp"]] == "warm")
    with pytest.raises(ValueError, match=message):
        atm.OrdinalRegression().fit(X, data.rating, environments=environments)


def test_missing_environments_can_be_dropped():
    data = atm.datasets.load_wine().astype({"judge": object})
    data.loc[[3, 40], "judge"] = None
    whole = data.dropna()
    model = atm.OrdinalRegression(missing="drop").fit("rating ~ temp + contact", data, environments="judge")
    other = atm.OrdinalRegression().fit("rating ~ temp + contact", whole, environments="judge")
    assert model.place_variance_ == other.place_variance_
    assert model.n_missing_ == 2


def test_environments_other_than_anchors():
    """Anchors decide the fit, environments the places."""
    data = atm.datasets.load_wine()
    X = 1.0 * (data[["temp", "contact"]] == ["warm", "yes"])
    by_bottle = atm.OrdinalRegression(xi=1.0).fit(X, data.rating, anchors=data.bottle, environments=data.judge)
    assert by_bottle.place_variance_.n_places == 9
    two = np.column_stack([data.judge, data.bottle])
    with pytest.raises(UnavailableError, match="anchors that are one factor"):
        _ = atm.OrdinalRegression(xi=1.0).fit(X, data.rating, anchors=two).place_sd_
    assert (
        by_bottle.place_sd_
        == atm.OrdinalRegression(xi=1.0)
        .fit(X, data.rating, anchors=data.bottle, environments=data.judge.astype(str))
        .place_sd_
    )


def test_files_and_pickles(tmp_path):
    data = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula(FORMULA, data)
    bare = atm.load(atm.save(model, tmp_path / "bare.json"))
    for gone in (bare, copied(model)):
        assert not hasattr(gone, "place_sd_")
        with pytest.raises(UnavailableError, match=r"models carry none\): fit it with place_variance=True"):
            gone.predict_distribution(data[:1], place="new")
    assert "places" not in bare.summary().facts
    found = model.place_variance_
    for kept in (atm.load(atm.save(model, tmp_path / "kept.json")), copied(model)):
        assert kept.place_variance_ == found
        np.testing.assert_array_equal(kept.predict_proba(data, place="new"), model.predict_proba(data, place="new"))
        assert kept.summary().facts["places"] == model.summary().facts["places"]
    asked = atm.OrdinalRegression.from_formula(FORMULA, data, place_variance=True)
    assert asked.result_.computed["places"] == found
    for field, value in (("sd", -1.0), ("rowwise", "x"), ("n_places", 2), ("not_used", {"a": 1}), ("sd_error", np.inf)):
        with pytest.raises(ModelFileError):
            atm.predict.PlaceVariance.from_record(found.record() | {field: value})


def test_early_files_have_no_places():
    """Files of earlier versions load: they have neither the field nor the argument."""
    data = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula(FORMULA, data)
    record = json.loads(json.dumps(model_record(model))) | {"written_by": "anchortm 0"}
    del record["places"], record["parameters"]["place_variance"]
    np.testing.assert_array_equal(fitted_of(record).predict(data), model.predict(data))


def test_boosted(tmp_path):
    """A linear learner to convergence is the linear model, and so are its left-out fits."""
    data = atm.datasets.load_wine()
    X, y = 1.0 * (data[["temp", "contact"]] == ["warm", "yes"]), data.rating.to_numpy()
    linear = atm.OrdinalRegression().fit(X, y, environments=data.judge)
    boosted = atm.AnchorBoostedTM(
        atm.OrdinalRegression(), learner="linear", n_rounds=60, learning_rate=1.0, place_variance=True
    ).fit(X, y, environments=data.judge)
    assert boosted.place_sd_ == pytest.approx(linear.place_sd_, abs=1e-3)
    assert boosted.place_sd_rowwise_ == pytest.approx(linear.place_sd_rowwise_, abs=1e-3)
    np.testing.assert_allclose(boosted.nll(X, y, place="new"), linear.nll(X, y, place="new"), atol=1e-3)
    loaded = atm.load(atm.save(boosted, tmp_path / "boosted.json"))
    np.testing.assert_array_equal(loaded.predict_proba(X, place="new"), boosted.predict_proba(X, place="new"))
    other = atm.AnchorBoostedTM(atm.OrdinalRegression(), n_rounds=2).fit(X, y)
    with pytest.raises(UnavailableError, match="the fit does not know places"):
        _ = other.place_sd_
    with pytest.raises(UnavailableError, match="models carry none"):
        _ = copied(other).place_variance_
