"""What the results of anchortm.diagnostics draw: seven made-up hospitals, and the 92 towns of BostonHousing2."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm


def draw() -> Any:
    rng = np.random.default_rng(0)
    hospital = rng.integers(0, 7, 700)
    level = 1.5 * rng.normal(size=7)[hospital]
    frailty = rng.normal(size=700)
    marker = (level + frailty + 0.5 * rng.normal(size=700))[:, None]
    time = rng.weibull(1.5, 700) * np.exp(3 - 0.2 * marker[:, 0] - 0.6 * frailty)
    y = atm.Surv(np.minimum(time, 60), time < 60)
    before = atm.ProportionalHazards().fit(marker, y)
    after = atm.ProportionalHazards(xi=10.0).fit(marker, y, anchors=hospital)
    boston = atm.datasets.load_boston_housing2()
    X = boston[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
    xis = [0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000]
    path = atm.anchor_path(atm.NormalLinear(), X, boston.cmedv, boston.town, xis)
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.7), layout="constrained")
    atm.diagnostics.calibration(before, marker, y, hospital).plot(axes[0], label=2)
    atm.diagnostics.residual_invariance(before, after, marker, y, hospital).plot(axes[1])
    atm.diagnostics.over_identification(path, X).plot(axes[2])
    axes[0].legend(frameon=False, fontsize=8, title="hospital", title_fontsize=8, loc="upper left")
    axes[1].set_xlabel("hospital")
    axes[1].tick_params(axis="x", rotation=0)
    axes[2].legend(frameon=False, fontsize=8, loc="upper left")
    titles = ["Calibration, xi = 0", "Residuals, xi = 0 and xi = 10", "Boston: h flattens"]
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=10)
    return figure
