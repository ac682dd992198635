"""The problem: eight hospitals, a ninth whose marker is shifted, and what three penalties predict there."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm
from anchortm.plotting.style import xi_looks

XIS = [0, 0.3, 1, 3, 10, 30, 100]
SHOWN = {**xi_looks([3]), 100.0: ("#003A5C", ":")}
NEW = "#000000"


def patients(level: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n = np.size(level)
    frailty = rng.normal(size=n)
    marker = level + frailty + 0.5 * rng.normal(size=n)
    days = np.exp(1.8 + 0.15 * marker + 0.5 * frailty + 0.3 * rng.normal(size=n))
    return marker[:, None], days


def draw() -> plt.Figure:
    rng = np.random.default_rng(4)
    level, hospital = rng.normal(size=8), np.repeat(np.arange(8), 100)
    X, days = patients(level[hospital], rng)
    model = atm.ContinuousProbit(log_first=True)
    fits = {xi: atm.ContinuousProbit(xi=xi, log_first=True).fit(X, days, anchors=hospital) for xi in XIS}
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 4.0), layout="constrained", width_ratios=[1.25, 1.0])

    left.scatter(X[::4], days[::4], s=9, color="#8c8c8c", linewidths=0, zorder=3)
    X_new, days_new = patients(np.full(80, 3.0), np.random.default_rng(1))
    left.scatter(X_new, days_new, s=15, color=NEW, marker="^", linewidths=0, zorder=4)
    grid = np.linspace(-4.3, 6.0, 60)[:, None]
    for xi, (colour, style) in SHOWN.items():
        left.plot(grid, fits[xi].predict(grid), color=colour, linestyle=style, lw=2.2, label=f"xi = {xi:g}", zorder=5)
    for xi in (0, 3):
        low, high = fits[xi].predict_distribution(grid).interval(0.8)
        left.fill_between(grid[:, 0], low, high, color=SHOWN[xi][0], alpha=0.13, linewidth=0)
    left.scatter([], [], s=14, color="#8c8c8c", label="the eight hospitals (every fourth patient)")
    left.scatter([], [], s=16, color=NEW, marker="^", label="the new hospital")
    left.set_yscale("log")
    left.set_yticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
    left.minorticks_off()
    left.set(xlim=(-4.3, 6.0), ylim=(0.8, 300), xlabel="marker (laboratory units)", ylabel="stay (days, logarithmic)")
    left.legend(loc="upper left", frameon=False, fontsize=8.5)
    left.set_title("Medians, and 80 % bands of xi = 0 and 3", fontsize=10)

    table = atm.leave_one_environment_out(model, X, days, hospital, XIS).summary()
    new = [fit.nll(*patients(np.full(20_000, 3.0), np.random.default_rng(2))).mean() for fit in fits.values()]
    at = np.arange(len(XIS))
    right.plot(at, new, color=NEW, marker="^", lw=2, label="the new hospital")
    right.plot(at, table["worst"], color="#CC79A7", marker="s", ms=5, lw=2, label="worst of the eight, left out")
    right.plot(at, table["mean"], color="#666666", marker="o", ms=5, lw=2, label="mean of the eight, left out")
    right.set_xticks(at, [f"{xi:g}" for xi in XIS])
    right.set(xlabel="strength of the penalty, xi", ylabel="mean negative log-likelihood of a patient")
    right.set_ylim(2.4, 4.25)
    right.legend(frameon=False, fontsize=8.5)
    right.set_title("Loss, the lower the better", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
