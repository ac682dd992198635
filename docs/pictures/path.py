"""One path twice: coefficients on the scale of h, and effects on the median price."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import anchortm as atm

COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
XIS = [0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]


def draw() -> Figure:
    data = atm.datasets.load_boston_housing2()
    X = data[COVARIATES] / data[COVARIATES].std()
    path = atm.anchor_path(atm.ContinuousProbit(), X, data.cmedv, data.town, XIS)
    effects = np.array([atm.marginal_effects(m, X).frame()["effect"] for m in path.models])
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    path.plot(left)
    left.get_legend().remove()
    left.set_title("on the scale of h: they vanish", fontsize="medium")
    for line, effect in zip(left.get_lines(), effects.T, strict=False):
        right.plot(
            XIS, effect, line.get_linestyle(), color=line.get_color(), marker="o", markersize=3, label=line.get_label()
        )
    right.axhline(0.0, color="0.8", linewidth=1, zorder=0)
    right.set_xscale("symlog", linthresh=0.1)
    right.set_xlim(left.get_xlim())
    right.set_title("on the scale of y: they settle", fontsize="medium")
    right.set_ylabel("effect on the median price\n(1000 dollars per standard deviation)")
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    for ax in (left, right):
        ax.set_xlabel("xi")
        ax.set_xticks([0, 0.1, 1, 10, 100, 1000], ["0", "0.1", "1", "10", "100", "1000"])
    left.set_ylabel("coefficient per standard deviation")
    return figure
