"""A model with another spread: against the formula F(m + (h - m) / factor), and what stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from parts_cases import table

import anchortm as atm
from anchortm.engine.rows.ends import Ends

FACTOR = 1.7
MODELS = {
    "lm": (atm.NormalLinear(), "y ~ x + z | site"),
    "c-probit": (atm.ContinuousProbit(), "y ~ x + z | site"),
    "c-logit": (atm.ContinuousLogit(), "Surv(time, event) ~ x + z | site"),
    "hazards": (atm.ProportionalHazards(log_first=True), "Surv(time, event) ~ x + z | site"),
    "truncated": (atm.ProportionalHazards(), "Surv(time, event, entry) ~ x + z | site"),
    "lehmann": (atm.Lehmann(), "y ~ x + z | site"),
    "weibull": (atm.ParametricSurvival(dist="weibull"), "Surv(time, event) ~ x | site"),
    "interval": (atm.ContinuousProbit(), "Interval(low, high) ~ x | site"),
    "ordinal": (atm.OrdinalRegression(), "ordered(grade, 1, 2, 3, 4) ~ x + z | site"),
    "ordinal cloglog": (atm.OrdinalRegression(link="cloglog"), "ordered(grade, 1, 2, 3, 4) ~ x + z | site"),
    "strata": (atm.ProportionalHazards(), "Surv(time, event) | part ~ x + z | site"),
    "varying": (atm.ContinuousLogit(varying="z"), "y ~ x + z | site"),
    "scale": (atm.ContinuousProbit(scale="z"), "y ~ x + z | site"),
}


def fitted(name: str, xi: float = 1.0):
    model, formula = MODELS[name]
    parameters = model.get_params(deep=False) | {"xi": xi}
    return type(model).from_formula(formula, table(), **parameters)


@pytest.mark.parametrize("name", MODELS)
def test_h_turns_about_the_median(name):
    model = fitted(name)
    wider, data = model.widened(FACTOR), table()[:40]
    before, after = model.predict_distribution(data), wider.predict_distribution(data)
    points = np.array([0.4, 0.9, 1.6, 2.4]) if "ordinal" not in name else np.array(model.classes_[:-1])
    m = float(model.link_.quantile(0.5))
    h = np.asarray(before.trafo(points))
    np.testing.assert_allclose(after.trafo(points), m + (h - m) / FACTOR, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in MODELS if "ordinal" not in name])
def test_medians_stay(name):
    model = fitted(name)
    np.testing.assert_allclose(model.widened(FACTOR).predict(table()), model.predict(table()), rtol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_ends_give_the_likelihood_of_the_wider_model(name):
    model = fitted(name)
    problem, result = model.problem_, model.result_
    ends = problem.ends(result.baseline, result.others, problem.data)
    for factor in (1.0, 0.6, FACTOR):
        expected = model.widened(factor).nll(table())
        np.testing.assert_allclose(-ends.logliks(result.link, factor), expected, rtol=1e-9, atol=1e-10)
    some = np.arange(ends.n_rows) % 3 == 0
    joined = Ends.joined([ends.take(some), ends.take(~some)])
    expected = ends.logliks(result.link, [0.7, 1.2])
    np.testing.assert_array_equal(
        joined.logliks(result.link, [0.7, 1.2]), np.hstack([expected[:, some], expected[:, ~some]])
    )


def test_one_changes_nothing_and_factors_multiply():
    model = fitted("c-logit")
    same, twice = model.widened(1.0), model.widened(1.5).widened(1.2)
    np.testing.assert_array_equal(same.nll(table()), model.nll(table()))
    np.testing.assert_allclose(twice.nll(table()), model.widened(1.8).nll(table()), rtol=1e-12)
    assert twice.widened_ == pytest.approx(1.8)
    assert model.widened_ == 1.0


def test_the_mean_of_a_normal_model_keeps_its_place_and_gets_a_larger_deviation():
    model = fitted("lm")
    wider = model.widened(FACTOR)
    np.testing.assert_allclose(wider.predict_distribution(table()).mean(), model.predict_distribution(table()).mean())
    assert wider.sigma_ == pytest.approx(FACTOR * model.sigma_)
    np.testing.assert_allclose(wider.slope_, model.slope_, rtol=1e-12)


@pytest.mark.parametrize("xi", [0.0, 1.0])
@pytest.mark.parametrize("name", ["c-logit", "scale", "strata"])
def test_standard_errors_go_with_the_coefficients(name, xi):
    model = fitted(name, xi)
    wider = model.widened(FACTOR)
    scales = np.full(model.covariance().shape[0], 1.0 / FACTOR)
    scales[model.baseline_.size + model.coef_.size :] = 1.0
    np.testing.assert_allclose(
        wider.covariance(), np.outer(scales, scales) * model.covariance(), rtol=1e-10, atol=1e-14
    )


def test_a_wider_model_is_saved_and_loaded(tmp_path: Path):
    model = fitted("hazards").widened(FACTOR)
    file = tmp_path / "wide.json"
    atm.save(model, file)
    loaded = atm.load(file)
    np.testing.assert_array_equal(loaded.nll(table()), model.nll(table()))
    assert loaded.widened_ == FACTOR
    assert "widened" in str(loaded.summary())
    record = json.loads(file.read_text())
    assert record["fit"]["widened_"] == FACTOR


@pytest.mark.parametrize(
    ("model", "formula", "reason"),
    [
        (atm.ParametricSurvival(dist="exponential"), "Surv(time, event) ~ x", "fixed slope"),
        (atm.ParametricSurvival(dist="rayleigh"), "Surv(time, event) ~ x", "fixed slope"),
        (atm.AnchorGLM(family="poisson"), "grade ~ x", "family"),
        (atm.CoxPH(), "Surv(time, event) ~ x", "partial likelihood"),
        (atm.NormalLinear(), "y ~ x + (1 | person)", "random effects"),
        (atm.ProportionalHazards(scale="x"), "Surv(time, event) ~ x", "scale effects"),
    ],
)
def test_refused_where_it_would_leave_the_class(model, formula, reason):
    made = type(model).from_formula(formula, table(), **model.get_params(deep=False))
    with pytest.raises(ValueError, match=reason):
        made.widened(1.2)


def test_an_offset_is_refused():
    model = atm.NormalLinear.from_formula("y ~ x", table(), offset="off")
    with pytest.raises(ValueError, match="offset has coefficient 1"):
        model.widened(1.2)


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf, "wide", [1.0, 2.0], None])
def test_bad_factors(factor):
    with pytest.raises((ValueError, TypeError), match="factor"):
        fitted("lm").widened(factor)
