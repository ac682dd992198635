"""One style for all pictures: axes, colours and line styles, legends, and names on axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Axis
from anchortm.exceptions import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "LOOKS",
    "STRATEGIES",
    "STYLES",
    "crowd",
    "lambda_axis",
    "level_label",
    "look_of",
    "looks",
    "name_levels",
    "named_looks",
    "new_axes",
    "outcome_label",
    "outside_legend",
    "plain_symlog",
    "pyplot",
    "row_labels",
    "shortened",
    "xi_axis",
    "xi_looks",
]

COLOURS = ("#08306b", "#d95f02", "#1b9e77", "#7570b3", "#666666", "#e7298a", "#a6761d", "#56b4e9")
STYLES = ("-", "--", "-.", ":")
STRATEGIES: dict[str, tuple[str, Any]] = {  # colours and line styles, which the colour-blind can tell apart
    "truth": ("#000000", "-"),
    "maximum likelihood": ("#D55E00", "--"),
    "widened": ("#CC79A7", ":"),
    "anchored": ("#0072B2", "-"),
    "recalibrated": ("#009E73", "-."),
    "own rows": ("#8c6d00", (0, (1, 2))),
}
# Colours and markers of strategies by the names that comparisons give them. The HTML report has the same colours.
LOOKS: dict[str, tuple[str, str]] = {
    "ml": (STRATEGIES["maximum likelihood"][0], "^"),
    "anchored": (STRATEGIES["anchored"][0], "o"),
    "widened": (STRATEGIES["widened"][0], "s"),
    "recalibrate": (STRATEGIES["recalibrated"][0], "v"),
    "equal": ("#666666", "P"),
    "anchored+spread": ("#56B4E9", "D"),
    "null": (STRATEGIES["own rows"][0], "X"),
    "random-intercept": ("#332288", "h"),
}
STRENGTHS = (("#0072B2", "-"), ("#56B4E9", "-."), ("#003A5C", (0, (5, 1))), ("#000000", ":"))  # of anchored fits
XI = "strength of the anchor penalty, xi"
MANY = 30  # levels beyond which an axis does not name them
NAMED = 9  # values of xi up to which an axis names each


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


def look_of(strategy: str, position: int = 0) -> tuple[str, str]:
    """Return colour and marker of a strategy by its name, or those of a position for one that has none."""
    return LOOKS.get(strategy) or (COLOURS[position % 8], "osD^vP"[position % 6])


def xi_looks(xis: Sequence[float]) -> dict[float, tuple[str, Any]]:
    """Return colour and line style of fits at up to five values of xi: 0 as maximum likelihood, others in blues.

    Two penalties or more go from light to dark.
    """
    anchored = sorted(xi for xi in xis if xi > 0)
    if len(anchored) > len(STRENGTHS):
        raise InputError(f"{len(anchored)} values of xi cannot be told apart: draw up to {len(STRENGTHS)}")
    shades = [STRENGTHS[k] for k in ((0,) if len(anchored) == 1 else (1, 0, 2, 3)[: len(anchored)])]
    return {0.0: STRATEGIES["maximum likelihood"], **dict(zip(anchored, shades, strict=True))}


def named_looks(names: Sequence[object]) -> list[tuple[str, Any]]:
    """Return colour and line style of each curve by its name: strategies and values of xi have their own.

    Names are those of ``STRATEGIES``, or such as "xi = 3"; if others are among them, looks go by position.
    """
    words = [str(name) for name in names]
    if all(word in STRATEGIES for word in words):
        return [STRATEGIES[word] for word in words]
    try:
        xis = [float(word.removeprefix("xi =")) if word.startswith("xi =") else np.nan for word in words]
        own = xi_looks(xis)
        return [own[xi] for xi in xis]
    except (ValueError, KeyError):  # other names, or too many values of xi: InputError is a ValueError
        return list(islice(looks(), len(words)))


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


def crowd(ax: Axes, at: Array, curves: pd.DataFrame, label: str | None, plural: str = "others") -> None:
    """Draw many curves, one per column: each if they are few, else their middle half and the middle 80 %."""
    if curves.shape[1] <= MANY:
        for k, name in enumerate(curves.columns):
            ax.plot(at, curves[name], color="0.7", linewidth=0.7, zorder=1, label=label if k == 0 else None)
        return
    for low, high, shade, words in ((0.1, 0.9, "0.9", "80 %"), (0.25, 0.75, "0.78", "half")):
        ends = curves.quantile([low, high], axis=1)
        ax.fill_between(at, *ends.to_numpy(), color=shade, linewidth=0, zorder=1, label=f"middle {words} of {plural}")


def plain_symlog(ax: Axes, linear: float) -> None:
    """Make the x axis linear around 0 and logarithmic beyond, with plain numbers."""
    ax.set_xscale("symlog", linthresh=linear)
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    decade = 10.0 ** np.ceil(np.log10(linear))
    powers = decade * 10.0 ** np.arange(8)
    ticks = [value for value in (*-powers[::-1], 0.0, *powers) if low <= value <= high]
    ax.set_xticks(ticks, [f"{value:g}" for value in ticks])
    ax.xaxis.set_minor_locator(pyplot().NullLocator())


def xi_axis(ax: Axes, xis: ArrayLike) -> None:
    """Make the axis of xi logarithmic from its smallest positive value, with room for 0, and with plain numbers.

    Up to nine values are named as they are, more by the powers of ten in their range.
    """
    values = np.unique(np.asarray(xis, dtype=np.float64))
    shown = values[np.isfinite(values)]
    if (shown > 0).any():
        smallest, largest = float(shown[shown > 0].min()), float(shown.max())
        ax.set_xscale("symlog", linthresh=smallest)
        ax.set_xlim(float(shown.min()) - 0.2 * smallest, 1.5 * largest)
        if shown.size > NAMED:
            powers = 10.0 ** np.arange(np.ceil(np.log10(smallest)), np.floor(np.log10(largest)) + 1)
            shown = np.append(shown[shown <= 0], powers)
        ax.set_xticks(shown, [f"{xi:g}" for xi in shown])
        ax.xaxis.set_minor_locator(pyplot().NullLocator())
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
