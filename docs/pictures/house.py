"""The map of the house: which rooms there are, and the way of the data through them."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

FLOORS = [
    (
        "what comes in",
        "#dceaf6",
        [
            ("response", "every outcome\nas (lower, upper]"),
            ("formula, design", "covariates as columns"),
            ("anchors", "where rows come from"),
            ("numbers, frames", "weights, offsets, tables"),
        ],
    ),
    (
        "what a model is",
        "#e3f1e3",
        [
            ("links, families", "F, row terms,\nall derivatives"),
            ("bases", "a(y) and its\nconstraints"),
            ("likelihood", "l and r of each\nkind of row"),
            ("projections", "A'r, never\nan n x n matrix"),
        ],
    ),
    (
        "sums over blocks of rows",
        "#fdf1d8",
        [
            ("columns", "standardised rows"),
            ("blocks, works", "a block is the\nunit of work"),
            ("backends", "Parquet, lazy tables,\nDask"),
            ("objective, partial,\nmixed", "loss, gradient,\nHessian"),
        ],
    ),
    (
        "the minimum",
        "#f8e2dc",
        [
            ("identification", "is there one?"),
            ("newton", "one xi, with\na certificate"),
            ("limit", "xi = inf"),
            ("solver", "the branch\nfrom xi = 0"),
        ],
    ),
    (
        "what users hold",
        "#ebe3f3",
        [
            ("model, estimators,\ncox, glm", "the named models"),
            ("distribution, steps,\nmeans, averaged", "cdf, quantiles,\nhazard, draws"),
            ("inference, bands", "how sure?"),
            ("summary,\nextrapolation", "what it says of itself"),
        ],
    ),
    (
        "what they ask",
        "#e9e9e9",
        [
            ("path, search", "which xi?"),
            ("evaluation, scores", "places left out"),
            ("diagnostics, effects", "is anchoring needed?"),
            ("persistence,\npredictions", "files and tables"),
        ],
    ),
]


def draw() -> Figure:
    figure, axes = plt.subplots(figsize=(8.4, 7.6))
    width, height, gap = 2.0, 0.78, 0.5
    for floor, (title, colour, rooms) in enumerate(FLOORS):
        y = -floor * (height + gap)
        axes.text(-0.15, y + height / 2, title, ha="right", va="center", fontsize=9, style="italic", wrap=True)
        for j, (name, text) in enumerate(rooms):
            x = j * (width + 0.16)
            box = FancyBboxPatch(
                (x, y), width, height, "round,pad=0.02,rounding_size=0.06", fc=colour, ec="#555555", lw=0.8
            )
            axes.add_patch(box)
            top = y + height - (0.17 if "\n" not in name else 0.24)
            axes.text(x + width / 2, top, name, ha="center", va="center", fontsize=9, weight="bold", linespacing=0.95)
            low = y + (0.27 if "\n" not in name else 0.16)
            axes.text(x + width / 2, low, text, ha="center", va="center", fontsize=8, linespacing=1.05)
        if floor:
            middle = 2 * (width + 0.16) - 0.08
            axes.annotate(
                "",
                (middle, y + height + 0.05),
                (middle, y + height + gap - 0.05),
                arrowprops={"arrowstyle": "-|>", "color": "#333333", "lw": 1.6},
            )
    axes.set_xlim(-2.1, 4 * (width + 0.16))
    axes.set_ylim(-5 * (height + gap) - 0.15, height + 0.15)
    axes.axis("off")
    figure.tight_layout(pad=0.3)
    return figure
