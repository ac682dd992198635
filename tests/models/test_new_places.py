"""Rows of a new place: every method that takes ``place``, of every kind of model, gives the same numbers."""

from __future__ import annotations

import inspect
import json
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import InputError, InputTypeError, UnavailableError
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.estimator import AnchorBoostedTM

WINE, CGD, TICKS = atm.datasets.load_wine(), atm.datasets.load_cgd(), atm.datasets.load_grouseticks()
BOSTON = atm.datasets.load_boston_housing2()
TIME = "Surv(tstop, status) ~ treat + age | center"
X = np.linspace(-9.0, 9.0, 401)
W = np.exp(-0.5 * X**2) / np.exp(-0.5 * X**2).sum()


@pytest.fixture(scope="module")
def models():
    """Return fitted models, with shifts that are not 0, and rows."""
    made = {
        "normal": (atm.NormalLinear.from_formula("cmedv ~ rm + lstat | town", BOSTON), BOSTON[:40]),
        "times": (atm.ProportionalHazards.from_formula(TIME, CGD, order=3, log_first=True), CGD),
        "classes": (atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", WINE), WINE),
        "counts": (atm.CountRegression.from_formula("TICKS ~ cHEIGHT | LOCATION", TICKS, order=3), TICKS[:40]),
        "Poisson": (atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", TICKS, family="poisson"), TICKS[:40]),
        "Cox": (atm.CoxPH.from_formula(TIME, CGD), CGD),
        "boosted": (
            AnchorBoostedTM.from_formula(
                "rating ~ temp + contact | judge", WINE, model=atm.OrdinalRegression(), n_rounds=3
            ),
            WINE,
        ),
    }
    for model, _ in made.values():
        inner = getattr(model, "model_", model)
        inner.result_.computed["places"] = atm.predict.PlaceVariance(0.7, 0.1, 0.6, 0.1, 9)
    return made


NAMES = ["normal", "times", "classes", "counts", "Poisson", "Cox", "boosted"]


@pytest.mark.parametrize("name", NAMES)
def test_likelihoods_are_those_of_the_distributions(models, name):
    model, rows = models[name]
    new = model.predict_distribution(rows, place="new")
    if name == "Cox":
        with pytest.raises(InputError, match="does not change a partial likelihood"):
            model.nll(rows, place="new")
        with pytest.raises(InputError, match="does not change a partial likelihood"):
            model.score(rows, place="new")
        return
    if name == "times":
        at, event = rows.tstop.to_numpy(float)[:, None], rows.status.to_numpy(bool)
        wanted = -np.where(event, new.logpdf(at)[:, 0], new.logsf(at)[:, 0])
    else:
        y = model.formula_.outcome(rows)
        codes = np.asarray(y, dtype=object if name in ("classes", "boosted") else float).reshape(-1, 1)
        wanted = -new.logpdf(codes)[:, 0]
    np.testing.assert_allclose(model.nll(rows, place="new"), wanted, rtol=1e-9)
    assert model.score(rows, place="new") == pytest.approx(-wanted.mean(), rel=1e-9)
    assert not np.allclose(model.nll(rows, place="new"), model.nll(rows), rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_the_distributions(models, name):
    model, rows = models[name]
    rows = rows[:8]
    new = model.predict_distribution(rows, place="new")
    np.testing.assert_array_equal(model.predict_quantiles(rows, [0.2, 0.7], place="new"), new.ppf([0.2, 0.7]))
    if name in ("classes", "boosted"):
        np.testing.assert_allclose(model.predict_proba(rows, place="new"), new.probabilities(), rtol=1e-12)
        np.testing.assert_array_equal(model.predict(rows, place="new"), new.mode())
    elif name == "Poisson":
        np.testing.assert_allclose(model.predict(rows, place="new"), new.mean(), rtol=1e-12)
    else:
        np.testing.assert_array_equal(model.predict(rows, place="new"), new.median())
    marked = model.predict_distribution(rows, place="new", on_bad_rows="mark")
    np.testing.assert_array_equal(marked.cdf(new.ppf(0.5)[0]), new.cdf(new.ppf(0.5)[0]))
    np.testing.assert_array_equal(
        model.predict_distribution(rows).ppf(0.3), model.predict_distribution(rows, place="average").ppf(0.3)
    )


def test_survival_curves_of_a_new_place(models):
    """Averages of exp(-hazard exp(-delta)), and quantiles that invert them, given survival too."""
    model, rows = models["Cox"]
    new, plain = model.predict_distribution(rows[:3], place="new"), model.predict_distribution(rows[:3])
    t = np.array([50.0, 200.0, 350.0])
    hazard = plain.cumhazard(t)
    wanted = np.exp(-hazard[..., None] * np.exp(-0.6 * X)) @ W
    np.testing.assert_allclose(new.sf(t), wanted, rtol=1e-10)
    later = new.given(100.0)
    np.testing.assert_allclose(later.sf(t[1:]), wanted[:, 1:] / new.sf(100.0)[:, None], rtol=1e-9)
    q = new.ppf([0.1, 0.3])
    there = np.isfinite(q)
    assert (new.cdf(q)[there] >= np.tile([0.1, 0.3], (3, 1))[there] - 1e-12).all()
    assert atm.scores.brier(new, atm.Surv(CGD.tstop[:3], CGD.status[:3]), [100.0]).shape == (1,)


def test_counts_of_a_new_place(models):
    model, rows = models["Poisson"]
    new = model.predict_distribution(rows[:2], place="new")
    mean = model.predict(rows[:2])
    wanted = stats.poisson.cdf([[0], [4]], mean[:, None, None] * np.exp(0.6 * X)) @ W
    np.testing.assert_allclose(new.cdf([0, 4]), wanted, rtol=1e-9)
    np.testing.assert_allclose(model.predict(rows[:2], place="new"), mean * np.exp(0.18), rtol=1e-10)
    some = TICKS.assign(any=1 * (TICKS.TICKS > 0))
    trials = atm.AnchorGLM.from_formula("any ~ cHEIGHT | LOCATION", some, family="binomial")
    trials.result_.computed["places"] = atm.predict.PlaceVariance(0.7, 0.1, 0.6, 0.1, 9)
    eta = special.logit(trials.predict(TICKS[:3]))
    np.testing.assert_allclose(
        trials.predict_proba(TICKS[:3], place="new")[:, 1], special.expit(eta[:, None] + 0.6 * X) @ W, rtol=1e-10
    )


@pytest.mark.parametrize("name", NAMES)
def test_tables(models, name, tmp_path):
    model, rows = models[name]
    rows = rows[:6]
    new = model.predict_distribution(rows, place="new")
    table = atm.predict_table(model, rows, quantiles=[0.4], place="new")
    np.testing.assert_array_equal(table["q0.4"].to_numpy(), new.ppf(0.4))
    marked = atm.predict_table(model, rows, quantiles=[0.4], place="new", on_bad_rows="mark")
    np.testing.assert_array_equal(marked["q0.4"].to_numpy(), new.ppf(0.4))
    rows.to_parquet(tmp_path / "rows.parquet")
    atm.predict_table(model, tmp_path / "rows.parquet", tmp_path / "out.parquet", quantiles=[0.4], place="new")
    again = pd.read_parquet(tmp_path / "out.parquet")["q0.4"].to_numpy()
    assert list(again) == list(new.ppf(0.4))


@pytest.mark.parametrize("name", ["normal", "times", "classes", "counts", "Poisson", "boosted"])
def test_scores(models, name):
    model, rows = models[name]
    rows = rows[:30]
    table = atm.scores.score_table(model, rows, place="new").frame()
    assert table.nll[0] == pytest.approx(model.nll(rows, place="new").mean(), rel=1e-12)
    if name not in ("times",):
        new = model.predict_distribution(rows, place="new")
        assert table.crps[0] == pytest.approx(atm.scores.crps(new, model.formula_.outcome(rows)).mean(), rel=1e-6)
    assert not np.allclose(atm.scores.transforms(model, rows, place="new").pit, atm.scores.transforms(model, rows).pit)
    with pytest.raises(InputError, match='place must be "average" or "new"'):
        atm.scores.score_table(model, rows, place="far")


def test_pipelines_pass_it_on():
    from sklearn.preprocessing import StandardScaler

    pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear(place_variance=True))
    pipeline.fit(BOSTON[["rm", "lstat"]], BOSTON.cmedv, anchors=BOSTON.town)
    new = BOSTON[["rm", "lstat"]][:5]
    plain = atm.NormalLinear().fit(BOSTON[["rm", "lstat"]], BOSTON.cmedv, anchors=BOSTON.town)
    np.testing.assert_allclose(
        pipeline.predict_quantiles(new, [0.1], place="new"), plain.predict_quantiles(new, [0.1], place="new"), rtol=1e-6
    )
    assert pipeline.model_.place_sd_ == pytest.approx(plain.place_sd_, abs=1e-5)
    three = np.array(["a", "b", "c"])[np.arange(len(BOSTON)) % 3]  # two of them are left in each fold
    found = atm.leave_one_environment_out(pipeline, BOSTON[["rm", "lstat"]], BOSTON.cmedv, three, xis=[0.0])
    assert len(found.frame()) == 3


def test_batches_refuse(tmp_path):
    BOSTON.to_parquet(tmp_path / "boston.parquet")
    model = atm.NormalLinear.from_formula("cmedv ~ rm | town", tmp_path / "boston.parquet")
    with pytest.raises(
        InputTypeError, match=r"shifts between places.*read in batches.*read the table into memory first"
    ):
        _ = model.place_sd_
    with pytest.raises(InputTypeError, match="shifts between places"):
        atm.NormalLinear.from_formula("cmedv ~ rm | town", tmp_path / "boston.parquet", place_variance=True)
    with pytest.raises(InputTypeError, match="shifts between places"):
        atm.NormalLinear.from_formula("cmedv ~ rm | town", tmp_path / "boston.parquet", environments="town")


def test_other_estimators_refuse():
    model = atm.LinearAnchorRegression(2.0).fit(BOSTON[["rm"]], BOSTON.cmedv, anchors=BOSTON.town)
    with pytest.raises(InputTypeError, match="LinearAnchorRegression does not predict distributions"):
        atm.predict_table(model, BOSTON[["rm"]], place="new")


def test_widened_models_do_not_know_places():
    """A widened model has another h, for which shifts were not measured."""
    model = atm.NormalLinear().fit(BOSTON[["rm"]], BOSTON.cmedv, anchors=BOSTON.town)
    assert model.place_sd_ > 0.0
    with pytest.raises(UnavailableError, match="widened models carry none"):
        _ = model.widened(1.5).place_sd_


def test_signatures_agree():
    """All that predict or score rows take place, by default the average one."""
    for cls in (TransformationModel, atm.OrdinalRegression, atm.AnchorGLM, atm.CoxPH, AnchorBoostedTM):
        for name in ("predict", "predict_distribution", "predict_quantiles", "nll", "score"):
            assert inspect.signature(getattr(cls, name)).parameters["place"].default == "average", (cls, name)


def test_in_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    BOSTON[["town", "cmedv", "rm", "lstat"]].to_csv("boston.csv", index=False)
    fit = 'fit boston.csv -m lm -f "cmedv ~ rm + lstat | town" --save model.json'

    def run(line, code=0):
        capsys.readouterr()
        assert main(shlex.split(line)) == code
        return capsys.readouterr()

    run(fit)
    said = " ".join(run("predict model.json boston.csv --place new", 1).err.split())
    assert said.endswith("(pickled, saved and widened models carry none): fit it with --place-variance")
    assert "sd of shifts between 92 places 0.76" in " ".join(run(f"{fit} --place-variance").out.split())
    found = json.loads(run(f"{fit} --place-variance --json").out)["places"]
    model = atm.NormalLinear.from_formula("cmedv ~ rm + lstat | town", BOSTON)
    assert found["sd"] == pytest.approx(model.place_sd_, abs=1e-6)
    run("predict model.json boston.csv --place new --quantiles 0.05,0.95 -o new.csv")
    wanted = model.predict_quantiles(BOSTON, [0.05, 0.95], place="new")
    np.testing.assert_allclose(pd.read_csv("new.csv"), wanted, rtol=1e-6)
    scored = run("score model.json boston.csv --place new").out
    assert "506 rows as rows of new places" in scored
    assert f"{model.nll(BOSTON, place='new').mean():.4f}"[:5] in scored
    said = " ".join(run('fit boston.csv -m lm -f "cmedv ~ rm" --place-variance', 1).err.split())
    assert said.endswith("name one anchor, a factor, after '|' in --formula, or give --environments")
    assert "92 places" in run('fit boston.csv -m lm -f "cmedv ~ rm" --place-variance --environments town').out
    assert "--place-variance needs a single --xi" in run(f"{fit.split(' --save')[0]} --xi 0,1 --place-variance", 1).err
