"""The rows of the report: bars of the design and comparisons with peers; failures are rows too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from anchortm.bench import r
from anchortm.bench.engine import Facts, Options, Side, Sizes, count, in_child, measured

__all__ = ["SLOWER", "Bar", "Comparison", "Line", "Peer", "compare", "unfinished", "with_sizes"]

MISSING = "not installed"
SLOWER = " (slower)"  # ends the cell of a peer that is faster than we are
LOWER = 1e-8  # a peer's mean loss must be lower by this much to count as lower
SMALL = 1 << 21  # memory is not compared below this number of bytes
TIMEOUT = 1800.0  # seconds
ROUNDS, PATIENCE = 3, 40.0  # both sides take turns this often, but not after so many seconds
IN_R = "R:"  # begins the name of a package of R


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


def with_sizes(text: str, options: Options) -> str:
    """Return a text with the sizes that it names in braces."""
    sizes = asdict(options.sizes)
    numbers = {name: count(n) for name, n in sizes.items() if isinstance(n, int)}
    shapes = {name: " x ".join(map(count, shape)) for name, shape in sizes.items() if isinstance(shape, tuple)}
    return text.format(**numbers, **shapes)


@dataclass(frozen=True)
class Bar:
    """A number to meet; without a limit it is only reported. ``work`` and ``unit`` may name sizes in braces.

    ``kernels`` are those that it is measured with: "compiled", "numpy", or whichever are available.
    """

    work: str
    unit: str
    limit: float | None
    least: bool = False
    kernels: str = ""

    def line(self, value: float, options: Options, note: str = "", also: bool = True) -> Line:
        """Return the line of a value; ``also`` is a second condition, which the note explains."""
        met, trouble = "not judged", ""
        work, unit = with_sizes(self.work, options), with_sizes(self.unit, options)
        if self.limit is not None and options.judged:
            reached = (value >= self.limit if self.least else value <= self.limit) and also
            met, trouble = ("yes", "") if reached else ("no", f"{work}: {value:.3g}, bar {self.words}")
        return Line(work, unit, f"{value:.3g}{note and f', {note}'}", self.words, met, trouble)

    def failed(self, error: str, options: Options) -> Line:
        """Return the line of a bar that could not be measured."""
        work, unit = with_sizes(self.work, options), with_sizes(self.unit, options)
        return Line(work, unit, f"not measured: {error}", self.words, "not measured", f"{work}: {error}")

    @property
    def words(self) -> str:
        """Return the limit in words."""
        return "none" if self.limit is None else f"{'at least' if self.least else 'at most'} {self.limit:g}"


@dataclass(frozen=True)
class Peer:
    """A peer and our counterpart, as sides that take the same arguments.

    ``work`` may name sizes in braces; without them, the number of rows is added. What our side tells as ``given`` is a
    further argument of the peer's.
    """

    part: str
    work: str
    name: str
    package: str | None  # module to import, or "R:" and a package of R; None if anchortm is enough
    ours: Callable[..., Side]
    theirs: Callable[..., Side]
    arguments: Callable[[Sizes], list[Any]]
    note: str = ""
    same: bool = True  # whether both sides fit the same model
    once: bool = False  # whether the peer runs only once
    bars: tuple[Bar, ...] = ()  # at no higher loss: for their time divided by ours if ``least``, else for the inverse

    @property
    def missing(self) -> str:
        """Return why the peer cannot be used, or an empty text."""
        if self.package is None:
            return ""
        if self.package.startswith(IN_R):
            return r.absent(self.package.removeprefix(IN_R))
        return "" if _installed(self.package) else MISSING


def compare(peer: Peer, options: Options) -> list[Line | Comparison]:
    """Return the comparison with a peer, after the lines of its bars if it has some."""
    work = with_sizes(peer.work, options)
    if work == peer.work:
        work += f", n = {count(peer.arguments(options.sizes)[0])}"
    error = peer.missing
    ours: dict[str, Facts] = {}
    theirs: Facts = {}
    if not error:
        kernels = list(dict.fromkeys(["", *(bar.kernels for bar in peer.bars)]))
        theirs, ours = _in_turns(peer, options, kernels)
        error = theirs.get("error", "") or ("ours: " + ours[""]["error"] if "error" in ours[""] else "")
    if error:
        shown = "-" if error == peer.missing else "failed"
        row = Comparison(work, peer.name, shown, "-", "-", error, f"{work}, {peer.name}: {error}")
        return [*(bar.failed(f"{peer.name}: {error}", options) for bar in peer.bars), row]
    lines = [_judged(bar, ours[bar.kernels], theirs, peer.same, options) for bar in peer.bars]
    return [*lines, _comparison(work, peer, ours[""], theirs)]


def _judged(bar: Bar, ours: Facts, theirs: Facts, same: bool, options: Options) -> Line:
    """Return the line of a bar against a peer."""
    if "error" in ours:
        return bar.failed(ours["error"], options)
    ratio = theirs["seconds"] / ours["seconds"]
    gain = theirs["loss"] - ours["loss"]
    note = f"mean loss {'lower' if gain >= 0 else 'higher'} by {abs(gain):.1e}"
    return bar.line(ratio if bar.least else 1.0 / ratio, options, note, also=gain >= -LOWER or not same)


def _in_turns(peer: Peer, options: Options, kernels: list[str]) -> tuple[Facts, dict[str, Facts]]:
    """Return the facts of the peer, and ours with each choice of kernels: the fastest of several turns."""
    ours: dict[str, Facts] = {}
    theirs: Facts = {}
    start, arguments = time.perf_counter(), peer.arguments(options.sizes)
    for _ in range(ROUNDS if options.repeats > 1 else 1):
        for name in kernels:
            found = _run(peer.ours, arguments, options.repeats, name)
            ours[name] = _faster(found, ours.get(name))
        if "error" in ours[""]:
            break
        more = [ours[""]["given"]] if "given" in ours[""] else []
        once = peer.once or (peer.package or "").startswith(IN_R)  # R repeats its fits itself
        theirs = _faster(_run(peer.theirs, [*arguments, *more], 0 if once else options.repeats, ""), theirs)
        if "error" in theirs or peer.once or time.perf_counter() - start > PATIENCE:
            break
    return theirs, ours


def _faster(new: Facts, old: Facts | None) -> Facts:
    """Return the facts with the shorter time; an error stays."""
    if not old or "error" in new:
        return new
    return new if "error" not in old and new["seconds"] < old["seconds"] else old


def _installed(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


def _run(side: Callable[..., Side], arguments: list[Any], repeats: int, kernels: str) -> Facts:
    name = f"{side.__module__}:{side.__qualname__}"
    return in_child(measured, name, arguments, repeats, timeout=TIMEOUT, kernels=kernels)


def _comparison(work: str, peer: Peer, ours: Facts, theirs: Facts) -> Comparison:
    """Return the row of two sides that both finished."""
    troubles = []
    ratio = theirs["seconds"] / ours["seconds"]
    faster = theirs.get("instead", f"{ratio:.3g}")
    if ratio < 1.0:
        faster += SLOWER
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
    said = (_coefficients(ours, theirs), ours.get("note"), theirs.get("note"), peer.note)
    notes = [seconds, *(text for text in said if text)]
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
