"""Mean score residuals by environment before and after anchoring: simulated hospitals, and the towns around Boston."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import anchortm as atm

COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]


def draw() -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.6), layout="constrained")
    hospitals().plot(left)
    left.set_title("12 hospitals, one covariate", fontsize="medium")
    left.set_xlabel("hospital, ordered by its mean before")
    towns().plot(right, label=2)
    right.set_title("92 towns, seven covariates", fontsize="medium")
    right.set_xlabel("town, ordered by its mean before")
    right.set_ylabel("")
    for ax in (left, right):
        before, after = ax.get_lines()[1:3]
        ax.legend([before, after], ["before (xi = 0)", "after (xi = 10)"], frameon=False, loc="upper left")
    return figure


def hospitals():
    rng = np.random.default_rng(5)
    hospital = rng.integers(0, 12, 1200)
    level = 1.5 * rng.normal(size=12)
    frailty = rng.normal(size=1200)
    marker = level[hospital] + frailty + 0.5 * rng.normal(size=1200)
    time = 20 * rng.weibull(1.5, 1200) * np.exp(-0.2 * marker - 0.6 * frailty)
    X, y = marker[:, None], atm.Surv(np.minimum(time, 25), time < 25)
    fits = [atm.ProportionalHazards(xi).fit(X, y, anchors=hospital) for xi in (0.0, 10.0)]
    return atm.diagnostics.residual_invariance(*fits, X, y, hospital)


def towns():
    data = atm.datasets.load_boston_housing2()
    X, y = data[COVARIATES], data.cmedv
    fits = [atm.ContinuousLogit(xi).fit(X, y, anchors=data.town) for xi in (0.0, 10.0)]
    return atm.diagnostics.residual_invariance(*fits, X, y, data.town)
