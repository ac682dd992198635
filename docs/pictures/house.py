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
WIDTH, LEFT, GAP = 10.6, 1.45, 0.1
TITLE, LINE = 0.27, 0.101  # height of the name of a room, and of a line of small print

Texts = tuple[str, str, str]  # the name of a room, its job and its files


def lines(texts: Texts, width: float) -> list[tuple[str, float, str]]:
    """Return the small print of a room: each line with its size and style."""
    letters = int(width * 16.5)
    styles = ((texts[1], 6.5, "normal"), (texts[2], 6.0, "italic"))
    return [(line, size, style) for text, size, style in styles for line in textwrap.wrap(text, letters)]


def box(ax: Axes, place: tuple[float, float], extent: tuple[float, float], colour: str, texts: Texts) -> None:
    """Draw one room below and to the right of a place."""
    (x, top), (width, height) = place, extent
    edge = {"boxstyle": "round,pad=0,rounding_size=0.05", "fc": colour, "ec": "0.5", "lw": 0.8}
    ax.add_patch(FancyBboxPatch((x, top - height), width, height, **edge))
    middle = x + width / 2
    ax.text(middle, top - 0.05, texts[0], ha="center", va="top", fontsize=9, weight="bold")
    for k, (line, size, style) in enumerate(lines(texts, width)):
        ax.text(middle, top - TITLE - LINE * k, line, ha="center", va="top", fontsize=size, style=style, color="0.1")


def boxes() -> dict[str, list[Texts]]:
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
    drawn, top = [], 0.0
    for (floor, rooms), colour in zip(boxes().items(), COLOURS, strict=False):
        space = [max(60, len(work) + len(files)) for _, work, files in rooms]
        widths = [(WIDTH - GAP * (len(rooms) - 1)) * own / sum(space) for own in space]
        longest = max(len(lines(texts, width)) for texts, width in zip(rooms, widths, strict=True))
        drawn.append((floor, rooms, colour, widths, top, TITLE + LINE * longest + 0.06))
        top -= drawn[-1][-1] + 0.12
    figure, ax = plt.subplots(figsize=(11.5, 0.2 - top))
    for floor, rooms, colour, widths, high, height in drawn:
        label = textwrap.fill(floor, 13)
        ax.text(LEFT - 0.12, high - height / 2, label, ha="right", va="center", fontsize=8.5, style="italic")
        x = LEFT
        for texts, width in zip(rooms, widths, strict=True):
            box(ax, (x, high), (width, height), colour, texts)
            x += width + GAP
    ax.annotate("", (0.1, top), (0.1, 0.0), arrowprops={"arrowstyle": "-|>", "color": "0.4", "lw": 1.5})
    way = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 8.5}
    ax.text(0.04, top / 2, "data moves down, imports point up", **way)
    ax.set(xlim=(-0.2, LEFT + WIDTH + 0.05), ylim=(top - 0.05, 0.05))
    ax.axis("off")
    figure.tight_layout(pad=0.2)
    return figure
