"""The five problems of ``reference/robust``: models with their rows, as the reference has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import anchortm as atm

PROBLEMS = ("bh2_lm", "bh2_cprobit", "bh2_clogit", "cgd_cox", "wine_ord")
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]


def standardised(X: pd.DataFrame) -> pd.DataFrame:
    return (X - X.mean()) / X.std()


def problem(name: str, known: dict[str, Any], in_logs: bool = True) -> tuple[Any, Any, Any, Any]:
    """Return a model, covariates, outcomes and environments; survival times as logarithms, or as they are."""
    if name == "wine_ord":
        wine = atm.datasets.load_wine()
        X = pd.DataFrame({"warm": 1.0 * (wine.temp == "warm"), "yes": 1.0 * (wine.contact == "yes")})
        return atm.OrdinalRegression(), X, wine.rating, wine.judge
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
        if not in_logs:
            model = atm.ProportionalHazards(order=known["order"], support=np.exp(known["support"]), log_first=True)
            return model, standardised(X), atm.Surv(data.tstop, data.status), data.center
        time = np.log(data.tstop)
        y = atm.Interval(time, np.where(data.status == 1, time, np.inf))
        return atm.ProportionalHazards(order=known["order"], support=known["support"]), standardised(X), y, data.center
    data = atm.datasets.load_boston_housing2()
    X, price = standardised(data[COVARIATES].astype(float)), data.cmedv
    if name == "bh2_lm":
        return atm.NormalLinear(), X, price, data.town
    cls = atm.ContinuousProbit if name == "bh2_cprobit" else atm.ContinuousLogit
    y = atm.Surv(price, price != 50) if name == "bh2_clogit" else price
    return cls(order=known["order"], support=known["support"]), X, y, data.town
