"""The calibrated spread, against values of a slow implementation that was written before this one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from paths import REFERENCE

import anchortm as atm
from anchortm.models.given import given
from anchortm.selection.designs import like
from anchortm.selection.places import places_of
from anchortm.selection.tuning import Tuning, best_factor

SUPPORT = (12.9, 34.65)
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
KNOWN = json.loads((REFERENCE / "robust" / "spread.json").read_text())


def rows(name: str):
    if name == "wine_ord":
        wine = atm.datasets.load_wine()
        frame = atm.Formula("rating ~ temp + contact | judge", wine)
        return atm.OrdinalRegression(), frame.X, frame.y, wine.judge
    data = atm.datasets.load_boston_housing2()
    X, price = data[COVARIATES], data.cmedv
    X = (X - X.mean()) / X.std()
    model = {
        "bh2_lm": atm.NormalLinear(),
        "bh2_cprobit": atm.ContinuousProbit(support=SUPPORT),
        "bh2_clogit": atm.ContinuousLogit(support=SUPPORT),
    }[name]
    return model, X, atm.Surv(price, price != 50) if name == "bh2_clogit" else price, data.town


@pytest.mark.parametrize("name", KNOWN)
def test_left_out_likelihoods_and_spreads(name):
    model, X, y, environments = rows(name)
    known = KNOWN[name]
    places = places_of(given(model, X, y, environments=environments), [0.0], None)[1]
    folds = like(places)
    tuning = Tuning(places, frozenset(), folds, places.records([fold.out for fold in folds], 1, "", False))
    tuning.__dict__["_null"] = np.zeros(places.groups.size)  # the reference has likelihoods, not skills
    np.testing.assert_allclose(tuning.losses(0), known["loeo_nll"], atol=1e-9)
    every = np.ones(places.n, dtype=bool)
    assert 1.0 / best_factor(tuning, 0, None, every) == pytest.approx(known["c_mean"], abs=1e-4)
    assert 1.0 / best_factor(tuning, 0, 1.0, every) == pytest.approx(known["c_worst"], abs=1e-4)
    assert 1.0 / best_factor(tuning, 0, 0.9, every) == pytest.approx(known["c_q90_grid"], abs=0.0025)
    fitted = model.fit(X, y).calibrate_spread(X, y, environments, "mean")
    assert 1.0 / fitted.widened_ == pytest.approx(known["c_mean"], abs=1e-4)


def test_by_a_formula():
    data = atm.datasets.load_wine()
    formula = "rating ~ temp + contact | judge"
    model = atm.OrdinalRegression.from_formula(formula, data)
    calibrated = model.calibrate_spread(formula, data, objective="mean")
    assert 1.0 / calibrated.widened_ == pytest.approx(KNOWN["wine_ord"]["c_mean"], abs=1e-4)
    np.testing.assert_allclose(calibrated.nll(data), model.widened(calibrated.widened_).nll(data))


@pytest.mark.parametrize("objective", ["median", 0.0, 1.5, None, True])
def test_bad_objectives(objective):
    data = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula("rating ~ temp | judge", data)
    with pytest.raises(ValueError, match="objective must be 'worst', 'mean' or a number"):
        model.calibrate_spread("rating ~ temp | judge", data, objective=objective)


def test_two_environments_are_too_few():
    data = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula("rating ~ temp | contact", data)
    with pytest.raises(ValueError, match="needs at least 3"):
        model.calibrate_spread("rating ~ temp | contact", data)


def test_models_without_a_spread_refuse():
    data = atm.datasets.load_grouseticks()
    model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
    with pytest.raises(ValueError, match="family of a generalised linear model"):
        model.calibrate_spread("TICKS ~ cHEIGHT | LOCATION", data)
