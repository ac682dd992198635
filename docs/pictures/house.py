"""The map of the house, drawn from the source tree: which rooms there are, and the way of the data through them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from house import FLOORS, room_of, sources

COLOURS = ("#eeeeee", "#e3f1e3", "#dceaf6", "#fdf1d8", "#f8e2dc", "#ebe3f3", "#dceaf6", "#e3f1e3", "#eeeeee")
WIDTH, HEIGHT, LEFT = 10.0, 0.78, 1.9


def draw() -> Figure:
    """Return the picture: a floor for each kind of work, a box for each room with the names of its files."""
    modules = list(sources())
    figure, ax = plt.subplots(figsize=(11.0, 7.6))
    for k, ((floor, rooms), colour) in enumerate(zip(FLOORS.items(), COLOURS, strict=True)):
        y = -k
        ax.text(
            LEFT - 0.15, y + HEIGHT / 2, textwrap.fill(floor, 16), ha="right", va="center", fontsize=9, style="italic"
        )
        width = (WIDTH - 0.12 * (len(rooms) - 1)) / len(rooms)
        for j, room in enumerate(rooms):
            x = LEFT + j * (width + 0.12)
            ax.add_patch(
                FancyBboxPatch((x, y), width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.06", fc=colour, ec="0.5")
            )
            files = [name.removeprefix(room + ".") for name in modules if name != room and room_of(name) == room]
            listed = textwrap.wrap(", ".join(files), max(12, int(width * 15)))[:3]
            ax.text(x + width / 2, y + HEIGHT - 0.07, room, ha="center", va="top", fontsize=9.5, weight="bold")
            ax.text(
                x + width / 2,
                y + HEIGHT - 0.27,
                "\n".join(listed),
                ha="center",
                va="top",
                fontsize=6.4,
                linespacing=1.15,
            )
    ax.annotate(
        "", (0.1, -len(FLOORS) + 1.1), (0.1, HEIGHT), arrowprops={"arrowstyle": "-|>", "color": "0.4", "lw": 1.5}
    )
    ax.text(
        -0.02, -len(FLOORS) / 2 + 1, "data walk down; imports look up", rotation=90, ha="right", va="center", fontsize=9
    )
    ax.set(xlim=(-0.3, LEFT + WIDTH + 0.1), ylim=(-len(FLOORS) + 0.9, HEIGHT + 0.15))
    ax.axis("off")
    figure.tight_layout(pad=0.3)
    return figure
