"""The rows of the report: bars of the design and comparisons with peers; failures are rows too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from anchortm.bench.engine import Facts, Options, Side, Sizes, count, in_child, measured

__all__ = ["Bar", "Comparison", "Line", "Peer", "compare", "unfinished"]

MISSING = "not installed"
LOWER = 1e-8  # a peer's mean loss must be lower by this much to count as lower
SMALL = 1 << 21  # memory is not compared below this number of bytes
TIMEOUT = 1800.0  # seconds


@dataclass(frozen=True)
class Line:
    """A line of the table of bars: the measurement, and whether it meets the bar."""

    work: str
    unit: str
    measured: str
    bar: str
    met: str
    trouble: str = ""


@dataclass(frozen=True)
class Comparison:
    """The same work done by a peer and by anchortm."""

    work: str
    peer: str
    faster: str
    loss: str
    memory: str
    note: str
    trouble: str = ""


@dataclass(frozen=True)
class Bar:
    """A number to meet; without a limit it is only reported. ``work`` and ``unit`` may name sizes in braces."""

    work: str
    unit: str
    limit: float | None
    least: bool = False

    def line(self, value: float, options: Options, note: str = "", also: bool = True) -> Line:
        """Return the line of a value; ``also`` is a second condition, which the note explains."""
        met, trouble = "not judged", ""
        work, unit = self.named(self.work, options), self.named(self.unit, options)
        if self.limit is not None and options.judged:
            reached = (value >= self.limit if self.least else value <= self.limit) and also
            met, trouble = ("yes", "") if reached else ("no", f"{work}: {value:.3g}, bar {self.words}")
        return Line(work, unit, f"{value:.3g}{note and f', {note}'}", self.words, met, trouble)

    def failed(self, error: str, options: Options) -> Line:
        """Return the line of a bar that could not be measured."""
        work, unit = self.named(self.work, options), self.named(self.unit, options)
        return Line(work, unit, f"not measured: {error}", self.words, "not measured", f"{work}: {error}")

    def named(self, text: str, options: Options) -> str:
        """Return a text with the sizes filled in."""
        sizes = {name: count(n) for name, n in asdict(options.sizes).items() if isinstance(n, int)}
        return text.format(**sizes)

    @property
    def words(self) -> str:
        """Return the limit in words."""
        return "none" if self.limit is None else f"{'at least' if self.least else 'at most'} {self.limit:g}"


@dataclass(frozen=True)
class Peer:
    """A peer and our counterpart, as sides that take the same arguments."""

    part: str
    work: str
    name: str
    package: str | None  # module to import; None if anchortm is enough
    ours: Callable[..., Side]
    theirs: Callable[..., Side]
    arguments: Callable[[Sizes], list[Any]]
    note: str = ""
    same: bool = True  # whether both sides fit the same model
    once: bool = False  # whether the peer runs only once
    bar: Bar | None = None  # bar for how many times faster we are, at no higher loss


def compare(peer: Peer, options: Options) -> list[Line | Comparison]:
    """Return the comparison with a peer, and the line of its bar if it has one."""
    arguments = peer.arguments(options.sizes)
    work = f"{peer.work}, n = {count(arguments[0])}"
    error = "" if peer.package is None or _installed(peer.package) else MISSING
    ours: Facts = {}
    theirs: Facts = {}
    if not error:
        theirs = _run(peer.theirs, arguments, 0 if peer.once else options.repeats)
        ours = _run(peer.ours, arguments, options.repeats)
        error = theirs.get("error", "") or ("ours: " + ours["error"] if "error" in ours else "")
    if error:
        shown = "-" if error == MISSING else "failed"
        rows: list[Line | Comparison] = [
            Comparison(work, peer.name, shown, "-", "-", error, f"{work}, {peer.name}: {error}")
        ]
        return rows if peer.bar is None else [peer.bar.failed(f"{peer.name}: {error}", options), *rows]
    rows = [_comparison(work, peer, ours, theirs)]
    if peer.bar is None:
        return rows
    gain = theirs["loss"] - ours["loss"]
    note = f"mean loss {'lower' if gain >= 0 else 'higher'} by {abs(gain):.1e}"
    return [peer.bar.line(theirs["seconds"] / ours["seconds"], options, note, also=gain >= -LOWER), *rows]


def _installed(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def _run(side: Callable[..., Side], arguments: list[Any], repeats: int) -> Facts:
    return in_child(measured, f"{side.__module__}:{side.__qualname__}", arguments, repeats, timeout=TIMEOUT)


def _comparison(work: str, peer: Peer, ours: Facts, theirs: Facts) -> Comparison:
    """Return the row of two sides that both finished."""
    troubles = []
    ratio = theirs["seconds"] / ours["seconds"]
    faster = theirs.get("instead", f"{ratio:.3g}")
    if ratio < 1.0:
        faster += " (slower)"
        troubles.append(f"slower than {peer.name} ({ratio:.2g} times as fast)")
    loss = "not comparable"
    if ours.get("loss") is not None and theirs.get("loss") is not None:
        gain = theirs["loss"] - ours["loss"]
        loss = f"{gain:+.1e}" + ("" if peer.same else " (not the same model)")
        if gain < -LOWER and peer.same:
            troubles.append(f"a higher loss than {peer.name}")
    used, needed = ours["memory"], theirs["memory"]
    if used is not None and needed is not None and used > max(needed, SMALL):
        troubles.append(f"more memory than {peer.name}")
    if not ours.get("converged", True):
        troubles.append("not converged")
    seconds = f"{ours['seconds']:.3g} s against {theirs['seconds']:.3g} s"
    notes = [seconds, *(text for text in (_coefficients(ours, theirs), theirs.get("note"), peer.note) if text)]
    trouble = f"{work}: {' and '.join(troubles)}" if troubles else ""
    return Comparison(work, peer.name, faster, loss, _memory(used, needed), "; ".join(notes), trouble)


def _coefficients(ours: Facts, theirs: Facts) -> str:
    if "coef" not in ours or "coef" not in theirs:
        return ""
    difference = max(abs(a - b) for a, b in zip(ours["coef"], theirs["coef"], strict=True))
    return f"coefficients differ by at most {difference:.1e}"


def _memory(ours: int | None, theirs: int | None) -> str:
    if ours is None or theirs is None:
        return "not measured"
    if max(ours, theirs) < SMALL:
        return f"both under {SMALL / 2**20:.0f} MB"
    sizes = f"{_megabytes(theirs)} / {_megabytes(ours)} MB"
    return sizes if ours < SMALL else f"{theirs / ours:.2g} ({sizes})"


def _megabytes(held: int) -> str:
    return f"under {SMALL / 2**20:.0f}" if held < SMALL else f"{held / 2**20:.0f}"


def unfinished(part: str, error: str) -> Comparison:
    """Return the row of a part that failed."""
    return Comparison(part, "-", "failed", "-", "-", error, f"{part}: {error}")
