"""Where anchoring helps and where it hurts: new places of any level, in the two examples of the page on anchors."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import anchortm as atm
from anchortm.plotting.style import xi_looks

LOOKS = xi_looks([0.0, 1.0, 10.0])


def patients(level, rng, on_y=0.0):
    frailty = rng.normal(size=np.size(level))
    x = level + frailty + rng.normal(size=np.size(level))
    return x[:, None], x + 2 * frailty + on_y * level + rng.normal(size=np.size(level))


def draw() -> Figure:
    rng = np.random.default_rng(3)
    hospital = rng.integers(0, 20, 2000)
    level = 1.5 * rng.normal(size=20)
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4), sharey=True, layout="constrained")
    new = np.linspace(-6.0, 6.0, 25)
    titles = ("hospitals act through x", "hospitals acted on y too; new places do not")
    for ax, on_y, title in zip(axes, (0.0, -1.5), titles, strict=True):
        X, y = patients(level[hospital], rng, on_y)
        for xi, (colour, style) in LOOKS.items():
            fit = atm.NormalLinear(xi).fit(X, y, anchors=hospital)
            nll = [fit.nll(*patients(np.full(4000, at), np.random.default_rng(9))).mean() for at in new]
            ax.plot(new, nll, color=colour, linestyle=style, lw=2, label=f"xi = {xi:g}")
        ax.axvspan(level.min(), level.max(), color="0.9", lw=0, zorder=0)
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("level of the new place (grey: seen in training)")
    axes[0].set_ylabel("mean negative log-likelihood")
    axes[0].set_ylim(1.9, 4.5)
    axes[1].legend(frameon=False, loc="upper center")
    return figure
