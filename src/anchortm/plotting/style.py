"""One style for all pictures: axes, colours and line styles, legends, and names on axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Axis
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "STRATEGIES",
    "STYLES",
    "lambda_axis",
    "level_label",
    "looks",
    "name_levels",
    "new_axes",
    "outcome_label",
    "outside_legend",
    "pyplot",
    "row_labels",
    "shortened",
    "xi_axis",
]

COLOURS = ("#08306b", "#d95f02", "#1b9e77", "#7570b3", "#666666", "#e7298a", "#a6761d", "#56b4e9")
STYLES = ("-", "--", "-.", ":")
STRATEGIES = {  # colours and line styles of strategies in pictures of the pages, which the colour-blind can tell apart
    "truth": ("#000000", "-"),
    "maximum likelihood": ("#D55E00", "--"),
    "widened": ("#CC79A7", ":"),
    "anchored": ("#0072B2", "-"),
    "recalibrated": ("#009E73", "-."),
    "own rows": ("#8c6d00", (0, (1, 2))),
}
XI = "strength of the anchor penalty, xi"
MANY = 30  # levels beyond which an axis does not name them


def new_axes(ax: Axis, **options: Any) -> Axes:
    """Return ``ax``, or new axes in a new figure."""
    return pyplot().subplots(layout="constrained", **options)[1] if ax is None else ax


def pyplot() -> Any:
    """Return matplotlib.pyplot, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise InputError("figures need matplotlib: pip install matplotlib") from None
    return plt


def looks() -> Iterator[tuple[str, str]]:
    """Yield pairs of colour and line style; the first 32 pairs differ."""
    return ((COLOURS[k % 8], STYLES[(k + k // 8) % 4]) for k in count())


def outside_legend(ax: Axes) -> None:
    """Put the legend to the right of the axes."""
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def lambda_axis(ax: Axes, xlabel: str = "strength of the elastic net, lambda") -> None:
    """Make the x axis logarithmic and descending, with plain numbers."""
    ax.set(xscale="log", xlabel=xlabel)
    ax.xaxis.set_major_locator(pyplot().matplotlib.ticker.LogLocator(subs=(1.0, 3.0)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(lambda *_: "")
    ax.invert_xaxis()


def xi_axis(ax: Axes, xis: Array) -> None:
    """Make the axis of xi logarithmic from its smallest positive value, with room for 0."""
    shown = np.asarray(xis)[np.isfinite(xis)]
    if (shown > 0).any():
        smallest = float(shown[shown > 0].min())
        ax.set_xscale("symlog", linthresh=smallest)
        ax.set_xlim(float(shown.min()) - 0.2 * smallest, 1.5 * float(shown.max()))
    ax.set_xlabel(XI)


def row_labels(labels: Sequence[object] | None, n: int, index: Any = None) -> list[str]:
    """Return a label for each of n rows, from ``labels`` or from a pandas index; refuse a wrong number of labels."""
    if labels is not None:
        if len(labels) != n:
            raise InputError(f"labels has {len(labels)} names for {n} rows")
        return [str(label) for label in labels]
    if index is None:
        return [f"row {i}" for i in range(n)]
    if index.nlevels > 1:
        return [", ".join(map(str, label)) for label in index]
    return [level_label(index.name or ("row" if index.dtype.kind in "iu" else None), label) for label in index]


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many letters, cut in the middle: names differ at both ends."""
    if len(text) <= most:
        return text
    keep = most - 3
    return f"{text[: keep - keep // 2]}...{text[len(text) - keep // 2 :]}"


def level_label(name: str | None, level: object) -> str:
    """Return the label of an environment or a row: its own name after that of its column, such as "hospital 3"."""
    text = str(level).replace("$", r"\$")  # matplotlib reads other dollar signs as mathematics
    return text if not name or text.lower().startswith(str(name).lower()) else f"{name} {text}"


def outcome_label(result: object, unit: str | None, otherwise: str = "y") -> str:
    """Return the label of the axis of outcomes: as given, or the name of the outcome if the result knows it."""
    return unit if unit is not None else getattr(result, "outcome_name", None) or otherwise


def name_levels(ax: Axes, levels: NDArray[Any], height: Array, label: int, title: str) -> None:
    """Name the levels on the axis if they are few, else only the ``label`` furthest from 0, beside their points."""
    if levels.size <= MANY:
        words, rotation = [str(level) for level in levels], 90 if levels.size > 6 else 0
        ax.set_xticks(np.arange(levels.size), words, rotation=rotation, parse_math=False)
    else:
        ax.set_xticks([])
        span = float(np.ptp(height)) or 1.0
        for side in (True, False):  # names stand towards the middle; near ones below each other
            furthest = np.argsort(-np.abs(height))[:label]
            own = sorted((k for k in furthest if (k < levels.size / 2) == side), key=lambda k: -height[k])
            last, drop = np.inf, 0
            for k in own:
                drop = drop + 1 if last - height[k] < 0.04 * span else 0
                last = height[k]
                ax.annotate(
                    str(levels[k]),
                    (k, height[k]),
                    xytext=(8 if side else -8, -12 * drop),
                    textcoords="offset points",
                    ha="left" if side else "right",
                    va="center",
                    fontsize="small",
                    parse_math=False,
                )
        title = f"{title} ({levels.size} levels, by height)"
    ax.set_xlabel(title)
