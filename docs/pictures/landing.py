"""The landing page: Boston towns, each predicted from all others, along the strength of the penalty."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm

XIS = [0, 0.3, 1, 3, 10, 30, 100]


def draw() -> plt.Figure:
    data = atm.datasets.load_boston_housing2()
    X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
    loeo = atm.leave_one_environment_out(atm.ContinuousProbit(), X, data.cmedv, data.town, XIS)
    towns = loeo.frame().pivot(index="environment", columns="xi", values="nll")
    worst = towns[0].nlargest(3).index
    at = np.arange(len(XIS))

    figure, axes = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
    axes.plot(at, towns.drop(index=worst).T, color="#c4c4c4", lw=0.6)
    axes.plot([], [], color="#b0b0b0", lw=1, label="the other 89 towns")
    axes.plot(at, towns.loc[worst[:1]].T, color="#D55E00", lw=2, marker="^", label=f"{worst[0]}, the worst at xi = 0")
    axes.plot(at, towns.loc[worst[1:]].T, color="#D55E00", lw=1.2, alpha=0.6)
    axes.plot([], [], color="#D55E00", lw=1.2, alpha=0.6, label=" and ".join(worst[1:]))
    axes.plot(at, towns.median(), color="#0072B2", lw=2.5, marker="o", label="median of all 92 towns")
    axes.set_xticks(at, [f"{xi:g}" for xi in XIS])
    axes.set(xlabel="strength of the penalty, xi", ylabel="mean negative log-likelihood\nof the left-out town")
    axes.set_ylim(bottom=1.5)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    order = [1, 2, 0, 3]
    axes.legend([handles[i] for i in order], [labels[i] for i in order], frameon=False, fontsize=9)
    return figure
