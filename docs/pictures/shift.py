"""Random folds against left-out towns, and the price of a shift under do-interventions."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold, cross_val_score

import anchortm as atm
from anchortm.bases import LogLinearBasis
from anchortm.plotting.style import xi_looks
from anchortm.sem import SEM, Linear, Normal, Transformation

TOWNS, FOLDS = "#000000", "#8c6d00"


def _folds(ax: Any) -> None:
    data = atm.datasets.load_boston_housing2()
    sizes, random, towns = [3, 4, 5, 6, 8, 10, 12], [], []
    for df in sizes:
        terms = f"bs(nox, {df}, extrapolation='clip') + bs(indus, {df}, extrapolation='clip')"
        parts = atm.Formula(f"cmedv ~ rm + lstat + {terms} | town", data)
        folds = KFold(10, shuffle=True, random_state=0)
        random.append(-cross_val_score(atm.NormalLinear(), np.asarray(parts.X), data.cmedv, cv=folds).mean())
        left = atm.leave_one_environment_out(atm.NormalLinear(), parts.X, data.cmedv, data.town, [0]).frame()
        towns.append(np.average(left.nll, weights=left.n))
    ax.plot(sizes, towns, "o-", color=TOWNS, label="left-out towns")
    ax.plot(sizes, random, "s-", color=FOLDS, label="random folds")
    ax.set(xlabel="spline terms of each covariate", ylabel="mean negative log-likelihood of rows", ylim=(2.5, None))
    ax.set_title("Two answers about one model", fontsize=10)
    ax.legend(frameon=False)


def _interventions(ax: Any) -> None:
    truth = SEM(
        anchors=Normal.of(sd=1.0),
        hidden=Linear(Normal.of()),
        covariates=Linear(Normal.of(sd=0.5), anchors=[[1.0]], hidden=[[1.0]]),
        response=Transformation("cloglog", LogLinearBasis(), [-5.0, 1.5], [0.3], [0.9], sign=1.0),
    )

    def hospitals(levels: Any, n: int, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        samples = [truth.do(A=a).sample(n, rng) for a in levels]
        months = np.concatenate([s.Y for s in samples])
        X = np.concatenate([s.X for s in samples])
        return X, atm.Surv(np.minimum(months, 60), months < 60), np.repeat(np.arange(len(levels)), n)

    X, y, hospital = hospitals([-1.5, -1, -0.6, -0.2, 0.2, 0.6, 1, 1.5], 100, 1)
    levels = np.linspace(-5, 5, 21)
    ax.axvspan(-1.5, 1.5, color="#DDDDDD", lw=0)
    ax.text(0, 5.35, "training\nhospitals", ha="center", va="top", fontsize=8, color="#444444")
    for xi, (colour, style) in xi_looks([0, 1, 10, 100]).items():
        fit = atm.ProportionalHazards(xi=xi, log_first=True).fit(X, y, anchors=hospital)
        nll = []
        for a in levels:
            new, observed, _ = hospitals([a], 4000, 2)
            nll.append(fit.nll(new, observed).mean())
        ax.plot(levels, nll, color=colour, linestyle=style, label=f"xi = {xi:g}", lw=1.8)
    ax.set(xlabel="level a of the new hospital, do(A = a)", ylabel="mean negative log-likelihood", ylim=(2.5, 5.5))
    ax.set_title("What a shift costs", fontsize=10)
    ax.legend(frameon=False, loc="upper left", fontsize=8)


def draw() -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    _folds(axes[0])
    _interventions(axes[1])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure
