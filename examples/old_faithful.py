"""Fit an unconditional transformation model to the durations of Old Faithful and draw it.

The transport picture: a smooth increasing function h carries the bimodal distribution of
the durations to the minimum extreme value distribution, P(Y <= y) = F(h(y)).
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import anchortm as atm

ROOT = Path(__file__).resolve().parents[1]


def fit(y: np.ndarray) -> atm.AnchorTM:
    """Return the unconditional model with a Bernstein transformation of order 6."""
    return atm.AnchorTM(link="cloglog", order=6, support=(y.min(), y.max())).fit(None, y)


def draw(y: np.ndarray, model: atm.AnchorTM, target: Path) -> None:
    """Draw h (upper right), the density of Y below it and the density of Z beside it."""
    axes = atm.plotting.transport(model, y, unit="duration of the eruption (minutes)")
    figure = axes[0, 0].figure
    figure.suptitle("Each shade carries a quarter of the probability, from Y to Z")
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=150)
    plt.close(figure)


def main() -> None:
    y = atm.datasets.load_geyser().duration.to_numpy()
    model = fit(y)
    target = ROOT / "output" / "old_faithful.png"
    draw(y, model, target)
    print(model.summary())
    print(f"the transport picture is in {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
