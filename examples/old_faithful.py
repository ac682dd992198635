"""Fit an unconditional transformation model to the durations of Old Faithful and draw it.

The transport picture: a smooth increasing function h carries the bimodal distribution of
the durations to the minimum extreme value distribution, P(Y <= y) = F(h(y)).
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm
from anchortm.links import MinExtremeValue

ROOT = Path(__file__).resolve().parents[1]
LINK = MinExtremeValue()


def durations() -> np.ndarray:
    with open(ROOT / "tests" / "reference" / "data" / "geyser.csv", newline="") as file:
        return np.array([float(row["duration"]) for row in csv.DictReader(file)])


def fit(y: np.ndarray) -> atm.AnchorTM:
    """Return the unconditional model with a Bernstein transformation of order 6."""
    return atm.AnchorTM(link=LINK, order=6, support=(y.min(), y.max())).fit(None, y)


def draw(y: np.ndarray, model: atm.AnchorTM, target: Path) -> None:
    """Draw h (upper right), the density of Y below it and the density of Z beside it."""
    figure, axes = plt.subplots(
        2,
        2,
        figsize=(7, 6),
        sharex="col",
        sharey="row",
        width_ratios=(1, 2),
        height_ratios=(2, 1),
        layout="constrained",
    )
    basis, theta = model.basis_, model.baseline_
    grid = np.linspace(y.min() - 0.1, y.max() + 0.1, 600)
    h = basis.rows(grid) @ theta
    density = np.exp(LINK.log_density(h)) * (basis.derivative_rows(grid) @ theta)
    z = np.linspace(h.min(), h.max(), 600)
    axes[0, 1].plot(grid, h, color="black")
    axes[0, 1].set_ylabel("h(y)")
    axes[0, 0].plot(np.exp(LINK.log_density(z)), z, color="black")
    axes[0, 0].invert_xaxis()
    axes[0, 0].set_xlabel("density of Z")
    axes[0, 0].set_ylabel("z")
    axes[0, 0].tick_params(labelbottom=True)
    for panel in axes[:, 1]:
        panel.tick_params(labelleft=True, labelbottom=True)
    axes[1, 1].hist(y, bins=40, density=True, color="0.85")
    axes[1, 1].plot(grid, density, color="black")
    axes[1, 1].set_xlabel("duration of the eruption (minutes)")
    axes[1, 1].set_ylabel("density of Y")
    axes[1, 0].axis("off")
    cuts = np.interp(LINK.quantile([0.0, 0.25, 0.5, 0.75, 1.0]), h, grid)
    for low, high, shade in zip(cuts[:-1], cuts[1:], ("#08519c", "#3182bd", "#6baed6", "#bdd7e7"), strict=True):
        part = (grid >= low) & (grid <= high)
        axes[1, 1].fill_between(grid[part], density[part], color=shade, alpha=0.6, lw=0)
        axes[0, 1].fill_between(grid[part], h.min(), h[part], color=shade, alpha=0.15, lw=0)
        band = (z >= np.interp(low, grid, h)) & (z <= np.interp(high, grid, h))
        axes[0, 0].fill_betweenx(z[band], np.exp(LINK.log_density(z[band])), color=shade, alpha=0.6, lw=0)
    figure.suptitle("Each shade carries a quarter of the probability, from Y to Z")
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=150)
    plt.close(figure)


def main() -> None:
    y = durations()
    model = fit(y)
    target = ROOT / "output" / "old_faithful.png"
    draw(y, model, target)
    print(model.summary())
    print(f"the transport picture is in {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
