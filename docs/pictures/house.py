"""The map of the house, drawn from the source tree: its rooms with their job and files, floor by floor."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from house import FLOORS, files_of, job, sources

COLOURS = ("#eeeeee", "#e3f1e3", "#dceaf6", "#fdf1d8", "#f8e2dc", "#ebe3f3", "#dceaf6", "#e3f1e3", "#eeeeee")
WIDTH, HEIGHT, LEFT, GAP = 10.6, 0.88, 1.45, 0.1
LINE = 0.101  # height of a line of small print


def box(ax: Axes, place: tuple[float, float], width: float, colour: str, texts: tuple[str, str, str]) -> None:
    """Draw one room: its name, its job and its files."""
    (x, y), (name, work, files) = place, texts
    ax.add_patch(
        FancyBboxPatch((x, y), width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.05", fc=colour, ec="0.5", lw=0.8)
    )
    middle, letters = x + width / 2, int(width * 16.5)
    ax.text(middle, y + HEIGHT - 0.05, name, ha="center", va="top", fontsize=9, weight="bold")
    below = y + HEIGHT - 0.25
    for text, size, look in ((work, 6.5, "normal"), (files, 6.0, "italic")):
        for line in textwrap.wrap(text, letters):
            ax.text(middle, below, line, ha="center", va="top", fontsize=size, style=look, color="0.1")
            below -= LINE


def boxes() -> dict[str, list[tuple[str, str, str]]]:
    """Return what the picture says: for each floor its rooms, each with its name, its job and its files."""
    trees = sources()
    return {
        floor: [(room, job(trees[room]).replace("`", ""), ", ".join(files_of(room, trees))) for room in rooms]
        for floor, rooms in FLOORS.items()
    }


def source() -> str:
    """Return what the picture says as a text; the image file keeps a digest of it."""
    return repr(boxes())


def draw() -> Figure:
    """Return the picture: a row of boxes for each floor."""
    figure, ax = plt.subplots(figsize=(11.5, 8.6))
    for k, ((floor, rooms), colour) in enumerate(zip(boxes().items(), COLOURS, strict=False)):
        label = textwrap.fill(floor, 13)
        ax.text(LEFT - 0.12, HEIGHT / 2 - k, label, ha="right", va="center", fontsize=8.5, style="italic")
        space = [max(60, len(work) + len(files)) for _, work, files in rooms]
        x = LEFT
        for texts, own in zip(rooms, space, strict=True):
            width = (WIDTH - GAP * (len(rooms) - 1)) * own / sum(space)
            box(ax, (x, -k), width, colour, texts)
            x += width + GAP
    last = 1 - len(FLOORS)
    ax.annotate("", (0.1, last), (0.1, HEIGHT), arrowprops={"arrowstyle": "-|>", "color": "0.4", "lw": 1.5})
    way = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 8.5}
    ax.text(0.04, (last + HEIGHT) / 2, "data moves down, imports point up", **way)
    ax.set(xlim=(-0.2, LEFT + WIDTH + 0.05), ylim=(last - 0.05, HEIGHT + 0.05))
    ax.axis("off")
    figure.tight_layout(pad=0.2)
    return figure
