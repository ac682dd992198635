"""What each kind of row contributes to the likelihood, and what capped prices do to a predicted density."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import anchortm as atm

COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#7570b3"


def draw() -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained")
    contributions(left)
    capped(right)
    return figure


def contributions(ax) -> None:
    y = np.linspace(0.01, 12.0, 500)
    shape, scale = 2.2, 6.0
    density = shape / scale * (y / scale) ** (shape - 1) * np.exp(-((y / scale) ** shape))
    ax.plot(y, density, color="black")
    for low, high, colour, name in ((0, 2.2, GREEN, "left"), (2.9, 5.1, PURPLE, "interval"), (8, 12, ORANGE, "right")):
        inside = (y >= low) & (y <= high)
        ax.fill_between(y[inside], density[inside], color=colour, alpha=0.5, lw=0)
        ax.annotate(name, ((max(low, 0.4) + min(high, 10)) / 2, 0.02), ha="center", color="black", fontsize="small")
    exact = 6.2
    ax.vlines(exact, 0, np.interp(exact, y, density), color=BLUE, linewidth=2.5)
    ax.plot(exact, np.interp(exact, y, density), "o", color=BLUE)
    ax.annotate("exact", (exact + 0.25, np.interp(exact, y, density) + 0.005), color=BLUE, fontsize="small")
    ax.set(xlabel="outcome y", ylabel="predicted density", xlim=(0, 12), ylim=(0, 0.18))
    ax.set_title("exact: a height; censored: an area", fontsize="medium")


def capped(ax) -> None:
    data = atm.datasets.load_boston_housing2()
    X = data[COVARIATES]
    row = X[data.cmedv == 50].iloc[[7]]
    grid = np.linspace(20.0, 90.0, 400)
    for y, colour, style, name in (
        (data.cmedv, BLUE, "--", "50 taken as exact"),
        (atm.Surv(data.cmedv, data.cmedv < 50), ORANGE, "-", "50 taken as censored"),
    ):
        predicted = atm.ContinuousLogit().fit(X, y).predict_distribution(row)
        beyond = predicted.sf(50.0)[0]
        ax.plot(grid, predicted.pdf(grid)[0], style, color=colour, label=f"{name}: P(Y > 50) = {beyond:.2f}")
    ax.vlines(50.0, 0.0, 0.048, color="0.5", linestyle=":")
    ax.annotate("cap", (50.7, 0.001), color="0.3", fontsize="small")
    ax.set(xlabel="price of a home (1000 dollars)", ylabel="predicted density", ylim=(0, 0.062), xlim=(20, 90))
    ax.set_title("a tract whose price was capped at 50", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper right")
