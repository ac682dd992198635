"""Pictures of causal graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anchortm._typing import Axis
from anchortm.plotting.style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["graph"]


def graph(edges: Sequence[tuple[str, str]], ax: Axis = None) -> Axes:
    """Draw a graph of anchors A, hidden H, covariates X and outcome Y as the paper draws it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt, anchortm as atm
    >>> ax = atm.plotting.graph([("A", "X"), ("H", "X"), ("H", "Y"), ("X", "Y")])
    >>> [text.get_text() for text in ax.texts if text.get_text()]
    ['A', 'H', 'X', 'Y']
    >>> plt.close(ax.figure)
    """
    ax = new_axes(ax, figsize=(3.6, 3.0))
    places = {"A": (0.0, 1.0), "H": (1.0, 1.0), "X": (0.0, 0.0), "Y": (1.0, 0.0)}
    for name, (x, y) in places.items():
        look = {"boxstyle": "circle,pad=0.4", "fc": "white", "ec": "black", "ls": "--" if name == "H" else "-"}
        ax.text(x, y, name, ha="center", va="center", fontsize="x-large", bbox=look)
    for start, end in edges:
        arrow = {"arrowstyle": "-|>", "color": "black", "shrinkA": 18, "shrinkB": 18}
        ax.annotate("", places[end], places[start], arrowprops=arrow)
    ax.set(xlim=(-0.4, 1.4), ylim=(-0.4, 1.4), aspect="equal")
    ax.set_axis_off()
    return ax
