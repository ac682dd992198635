"""The report: machine, versions, bars, peers, figure, and failures."""

from __future__ import annotations

import datetime
import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from anchortm import __version__
from anchortm.bench import r
from anchortm.bench.curves import Curve
from anchortm.bench.engine import Options
from anchortm.bench.rows import SLOWER, Comparison, Line
from anchortm.kernels import NAME

__all__ = ["machine", "report"]

PACKAGES = [
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "daqp",
    "formulaic",
    "pyarrow",
    "cvxpy",
    "clarabel",
    "statsmodels",
    "lifelines",
    "scikit-survival",
    "ivmodels",
    "glum",
    "celer",
    "skglm",
    "anchorboosting",
    "lightgbm",
    "matplotlib",
]

READING = """\
Times are ratios within one run: on other machines the seconds differ, but the ratios are similar. A Gram is the time of
one weighted cross-product of n x 17 numbers (whole array, one BLAS thread), roughly the least that a Newton step must
do. In each comparison both sides run in their own process, in turns, with one thread; the best of several runs counts.
Time for imports, for making the data and for handing them to R does not count. R times its own fits and uses the
linear algebra that it was installed with.

*Times faster* is the peer's time divided by ours: below 1 the peer is faster, and the number is in bold. *Loss
difference* is the peer's mean loss minus ours on the same data: positive means that ours is lower. If both fit the same
model, the same code computes it from both sets of parameters. *Memory* is the peer's peak divided by ours, data
included, above what was held after imports and a first small fit; that of R is not measured. *KKT* of an elastic-net
path is the largest violation of the optimality conditions, as a fraction of the largest lambda. *Equal KKT*
means the loosest tolerance at which the peer's KKT is at most ours. If no tolerance achieves that, it means the
tightest one that was tried."""


def machine() -> str:
    """Return a description of processor, cores, memory and system."""
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    memory = ""
    with suppress(OSError, ValueError, AttributeError):
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GB of memory"
    return f"{name} ({platform.machine()}), {os.cpu_count()} cores{memory}, {platform.system()}"


def _versions() -> str:
    found = [f"anchortm {__version__}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells] + [""]


def _head(parts: list[str] | None, options: Options) -> list[str]:
    command = "`anchortm bench`" + ("" if parts is None else f" with only {', '.join(parts)}")
    text = [
        "# Benchmarks",
        "",
        f"Written by {command} on {datetime.date.today()}.",
        "",
        f"- Machine: {machine()}",
        f"- Python {platform.python_version()}; {_versions()}",
        f"- {r.versions()}",
        f"- Kernels: {NAME}, unless a line says otherwise",
        f"- Repeats: the best of at least {options.repeats}, fewer where one takes long",
        "",
    ]
    if options.judged:
        return text
    return [*text, "**Sizes were reduced (a quick run), so these numbers do not count for the bars.**", ""]


def report(
    rows: list[Line | Comparison], curves: list[Curve], parts: list[str] | None, picture: str | None, options: Options
) -> str:
    """Return the report in Markdown; ``parts`` names the parts if not all were run."""
    text = _head(parts, options)
    lines = [
        [row.work, row.unit, row.measured, row.bar, "**no**" if row.met == "no" else row.met]
        for row in rows
        if isinstance(row, Line)
    ]
    if lines:
        text += ["## Bars", "", *_table(["work", "unit", "measured", "bar", "met"], lines)]
    peers = [
        [row.work, row.peer, _marked(row.faster), row.loss, row.memory, row.note]
        for row in rows
        if isinstance(row, Comparison)
    ]
    if peers:
        head = ["work", "peer", "times faster", "loss difference", "memory", "note"]
        text += ["## Peers on the same data", "", *_table(head, peers)]
    if picture is not None:
        text += ["## Growth", "", f"![Time against rows and against anchor levels]({picture})", ""]
    troubles = [row.trouble for row in rows if row.trouble] + [t for curve in curves for t in curve.troubles]
    lost = [f"- {trouble}" for trouble in troubles] or ["- nothing"]
    return "\n".join([*text, "## Failed, missed or lost", "", *lost, "", "## How to read it", "", READING, ""])


def _marked(faster: str) -> str:
    """Return the cell in bold if the peer is faster."""
    return f"**{faster}**" if faster.endswith(SLOWER) else faster
