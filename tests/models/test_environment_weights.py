"""Weights of environments: reference numbers, identities, uncertainty, saving, bad input."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE

import anchortm as atm

KNOWN = json.loads((REFERENCE / "robust" / "environment_weights.json").read_text())
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
FORMULA = "rating ~ temp + contact | judge"


def standardised(X):
    return (X - X.mean()) / X.std()


def rows(name):
    """Return a model and its rows, as the reference has them."""
    known = KNOWN[name]
    if name == "wine_ord":
        wine = atm.datasets.load_wine()
        frame = atm.Formula(FORMULA, wine)
        return atm.OrdinalRegression(), frame.X, frame.y, wine.judge
    if name == "cgd_cox":
        data = atm.datasets.load_cgd()
        X = pd.DataFrame(
            {
                "treated": 1.0 * (data.treat == "rIFN-g"),
                "male": 1.0 * (data.sex == "male"),
                "age": data.age.astype(float),
                "autosomal": 1.0 * (data.inherit == "autosomal"),
                "propylac": data.propylac.astype(float),
            }
        )
        model = atm.ProportionalHazards(order=known["order"], support=np.exp(known["support"]), log_first=True)
        return model, standardised(X), atm.Surv(data.tstop, data.status), data.center
    data = atm.datasets.load_boston_housing2()
    X, price = standardised(data[COVARIATES]), data.cmedv
    if name == "bh2_lm":
        return atm.NormalLinear(), X, price, data.town
    cls = atm.ContinuousProbit if name == "bh2_cprobit" else atm.ContinuousLogit
    y = atm.Surv(price, price != 50) if name == "bh2_clogit" else price
    return cls(order=known["order"], support=known["support"]), X, y, data.town


def rules(case, places):
    """Return the arguments of a case of the reference."""
    sizes = places.value_counts()
    return {
        "a=1.0": {},
        "a=0.5": {"anchor_weights": (sizes**0.5).to_dict()},
        "a=0.0": {"anchor_weights": "equal"},
        "equal likelihood, xi=0": {"environment_weights": "equal"},
        "equal likelihood and penalty": {"environment_weights": "equal", "anchor_weights": "equal"},
    }[case]


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("case", ["a=1.0", "a=0.5", "a=0.0", "equal likelihood, xi=0", "equal likelihood and penalty"])
def test_reference(name, case):
    """Losses and parameters of a slow implementation that was written before this one."""
    model, X, y, places = rows(name)
    known = KNOWN[name]["item1"][case]
    model.set_params(xi=known.get("xi", 0.0), tol=1e-10, **rules(case, places)).fit(X, y, anchors=places)
    assert model.loss_ + log_time(name, places, case) == pytest.approx(known["loss"], abs=1e-9)
    w = np.concatenate([model.baseline_, -model.result_.sign * model.coef_])
    np.testing.assert_allclose(w, known["w"], atol=1e-6)


def log_time(name, places, case):
    """Return what the density of log time adds to the loss: the reference takes it for the survival model."""
    if name != "cgd_cox":
        return 0.0
    data = atm.datasets.load_cgd()
    value = np.log(data.tstop) * (data.status == 1)
    return -(value.groupby(places).mean().mean() if case.startswith("equal") else value.mean())
