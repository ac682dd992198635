"""How h carries the durations of Old Faithful's eruptions to a logistic distribution."""

from __future__ import annotations

from matplotlib.figure import Figure

import anchortm as atm


def draw() -> Figure:
    y = atm.datasets.load_geyser().duration
    model = atm.ContinuousLogit().fit(None, y)
    axes = atm.plotting.transport(model, y, unit="duration of the eruption, y (minutes)")
    figure = axes[0, 0].figure
    figure.set_size_inches(7, 5)
    axes[0, 1].set_title("h carries each quarter of the probability from y to z", fontsize="medium")
    axes[1, 1].set_ylabel("density of Y\n(grey: the data)")
    axes[0, 0].set_ylabel("z, scale of the link")
    return figure
