"""The lead: prices of computers in months to come, by maximum likelihood and by the anchored fit that a search chose.

The search sees months 1 to 24 and the machines of months 25 to 35, not their prices.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import anchortm as atm
from anchortm.plotting.style import STRATEGIES

FORMULA = "price ~ log(speed) + log(hd) + log(ram) + screen + cd + multi + premium | trend"
LAST = 24  # month that is known
XIS = [0, 1, 3, 10, 30, 100]
SIZE = {"fontsize": 15}


def draw(narrow: bool = False) -> Figure:
    pcs = atm.datasets.load_computers()
    old, new = pcs[pcs.trend <= LAST], pcs[pcs.trend > LAST]
    search = atm.XiSearchCV(atm.ContinuousLogit(), XIS, design="further", new=new.drop(columns="price"))
    search.fit(FORMULA, old)
    shape, width, height = ((2, 1), 900, 1400) if narrow else ((1, 2), 1600, 700)
    size = (width / 150, height / 150)
    figure, axes = plt.subplots(*shape, figsize=size, sharex=True, sharey=True, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.06)
    panel(axes[0], atm.ContinuousLogit().fit(FORMULA, old), pcs, "maximum likelihood", "Maximum likelihood")
    panel(axes[1], search, pcs, "anchored", f"Anchored, xi = {search.best_xi_:g}")
    for ax in axes if narrow else axes[:1]:
        ax.set_ylabel("price of a computer (dollars)", **SIZE)
    for ax in axes[1:] if narrow else axes:
        ax.set_xlabel("month (1 = January 1993)", **SIZE)
    handles = [
        plt.Line2D([], [], color="black", marker="o", ls="none", ms=7, label="true median"),
        plt.Line2D([], [], color="0.25", lw=3, label="predicted median"),
        plt.Rectangle((0, 0), 1, 1, color="0.25", alpha=0.25, lw=0, label="90 % interval of a machine"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=1 if narrow else 3, frameon=False, **SIZE)
    return figure


def panel(ax: Axes, fit: Any, pcs: Any, strategy: str, title: str) -> None:
    """Draw monthly medians of the prices, of the predicted medians and of the ends of intervals."""
    colour, style = STRATEGIES[strategy]
    predicted = fit.predict_distribution(pcs)
    low, high = predicted.interval(0.9)
    by_month = pcs[["trend", "price"]].assign(median=predicted.median(), low=low, high=high).groupby("trend").median()
    price, late = pcs.price.to_numpy(), (pcs.trend > LAST).to_numpy()
    error = np.abs(predicted.median() - price)[late].mean()
    held = ((low <= price) & (price <= high))[late].mean()
    ax.axvspan(LAST + 0.5, 35.7, color="0.92", lw=0, zorder=0)
    ax.text(30.1, 880, "to predict", ha="center", color="0.25", fontsize=14)
    ax.fill_between(by_month.index, by_month.low, by_month.high, color=colour, alpha=0.22, lw=0)
    ax.plot(by_month.index, by_month["median"], color=colour, linestyle=style, lw=3)
    ax.plot(by_month.index, by_month.price, "o", color="black", ms=6, zorder=4)
    ax.set_title(title, color=colour, weight="bold", fontsize=18, loc="left", pad=46)
    found = f"median off by {error:.0f} dollars;\n90 % intervals hold {100 * held:.0f} % of the prices"
    ax.text(0, 1.03, found, transform=ax.transAxes, fontsize=14.5, linespacing=1.25)
    ax.set(xlim=(0.3, 35.7), ylim=(800, 4100), xticks=[1, 6, 12, 18, 24, 30, 35])
    ax.set_yticks([1000, 2000, 3000, 4000], ["1000", "2000", "3000", "4000"])
    ax.tick_params(labelsize=14)
    ax.spines[["top", "right"]].set_visible(False)
