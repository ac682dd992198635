"""Time against rows and against anchor levels, measured point by point and drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anchortm.bench import bars, convex, survival
from anchortm.bench.engine import Options, Side, count, in_child, measured

__all__ = ["Curve", "curves", "draw"]

ROWS, LEVELS = "rows", "levels"


@dataclass
class Curve:
    """Seconds of one kind of fit at several sizes; ``troubles`` lists what failed."""

    label: str
    against: str
    ours: bool
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


OURS: dict[str, Callable[..., Side]] = {
    "c-logit, censored, ξ = 10": bars.c_logit,
    "c-probit, path of 6 ξ": bars.c_probit_path,
    "o-logit, K = 6, ξ = 10": bars.o_logit,
}
PEERS: dict[str, Callable[..., Side]] = {
    "cvxpy with Clarabel: c-probit, one ξ": convex.c_probit_cvxpy_simulated,
    "statsmodels: o-logit, ξ = 0": survival.ordinal_statsmodels,
}


def curves(options: Options, say: Callable[[str], None]) -> list[Curve]:
    """Return all curves."""
    sizes, found = options.sizes, []
    for label, side in OURS.items():
        found.append(_curve(Curve(label, ROWS, True), side, [[n] for n in sizes.curve_rows], options))
        found.append(
            _curve(Curve(label, LEVELS, True), side, [[sizes.curve_n, k] for k in sizes.curve_levels], options)
        )
        say(f"    {label}")
    for label, side in PEERS.items():
        found.append(_curve(Curve(label, ROWS, False), side, [[n] for n in sizes.curve_peer_rows], options))
        say(f"    {label}")
    return found


def _curve(curve: Curve, side: Callable[..., Side], arguments: list[list[int]], options: Options) -> Curve:
    for given in arguments:
        found = in_child(measured, f"{side.__module__}:{side.__qualname__}", given, options.repeats)
        if "error" in found:
            where = f"{count(given[-1])} {curve.against}"
            curve.troubles.append(f"figure, {curve.label}, {where}: {found['error']}")
        else:
            curve.sizes.append(given[-1])
            curve.seconds.append(found["seconds"])
    return curve


def draw(found: list[Curve], options: Options) -> Any:
    """Return the figure: time against rows on the left, against levels on the right, all axes logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    colours: dict[str, str] = {}
    for curve in found:
        if not curve.sizes:
            continue
        axis, colour = left if curve.against == ROWS else right, colours.setdefault(curve.label, f"C{len(colours)}")
        style: dict[str, Any] = (
            {"marker": "o", "ls": "-"} if curve.ours else {"marker": "s", "ls": "--", "mfc": "white"}
        )
        axis.plot(curve.sizes, curve.seconds, color=colour, label=curve.label, **style)
    _reference(left, [curve for curve in found if curve.against == ROWS and curve.sizes and curve.ours])
    for axis in (left, right):
        axis.set(xscale="log", yscale="log")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    left.set(xlabel="rows n", ylabel="seconds for a fit", title="10 covariates, 100 anchor levels")
    right.set(xlabel="anchor levels", title=f"10 covariates, n = {count(options.sizes.curve_n)} rows")
    right.tick_params(labelleft=True)
    left.legend(frameon=False, fontsize=8.5)
    return figure


def _reference(axis: Any, ours: list[Curve]) -> None:
    """Draw a line of slope 1 (time proportional to rows) below the fastest curve."""
    if not ours:
        return
    ends = [min(min(c.sizes) for c in ours), max(max(c.sizes) for c in ours)]
    rate = 0.5 * min(t / n for c in ours for n, t in zip(c.sizes, c.seconds, strict=True))
    axis.plot(ends, [rate * n for n in ends], color="0.6", ls=":", label="proportional to n (slope 1)")
