"""Survival of two patients of the trial with pointwise and simultaneous bands."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm


def draw() -> Any:
    cgd = atm.datasets.load_cgd()
    formula = "Surv(tstop, status) ~ treat + age + propylac | center"
    model = atm.ProportionalHazards.from_formula(formula, cgd, order=3)
    two = cgd[:2].assign(age=[12, 12], propylac=[1, 1], treat=["placebo", "rIFN-g"])
    days = np.linspace(5, 388, 150)
    point = model.confidence_band(two, days, "sf")
    wide = model.confidence_band(two, days, "sf", simultaneous=True)
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for i, (name, colour, style) in enumerate([("placebo", "#D55E00", "--"), ("interferon", "#0072B2", "-")]):
        ax.fill_between(days, point.lower[i], point.upper[i], color=colour, alpha=0.25, lw=0)
        ax.plot(days, wide.lower[i], color=colour, lw=0.8, ls=":")
        ax.plot(days, wide.upper[i], color=colour, lw=0.8, ls=":")
        ax.plot(days, point.estimate[i], style, color=colour, lw=2, label=name)
    ax.fill_between([], [], [], color="#888888", alpha=0.35, lw=0, label="pointwise band")
    ax.plot([], [], color="#555555", lw=0.8, ls=":", label="simultaneous band")
    ax.set(xlabel="days", ylabel="no serious infection yet, probability", ylim=(0, 1.02), xlim=(0, 390))
    ax.legend(frameon=False, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    return figure
