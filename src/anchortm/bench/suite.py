"""The parts of the benchmark, in the order of the table of bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from anchortm._util.files import make_folder, write_figure, write_whole
from anchortm._util.progress import Task, above
from anchortm.bench import bars, disk, peers
from anchortm.bench.curves import Curve, curves, draw
from anchortm.bench.engine import Options, first_line, one_thread
from anchortm.bench.report import report
from anchortm.bench.rows import Comparison, Line, unfinished
from anchortm.exceptions import InputError

__all__ = ["FIGURE", "PARTS", "check_parts", "run"]

Rows = list[Line | Comparison]

FIGURE = "figure"
OWN: dict[str, Callable[[Options], Iterable[Line | Comparison]]] = {
    "fits": bars.fits,
    "small-fit": bars.small_fit,
    "leave-one-out": bars.leave_one_out,
    "wide-factor": bars.wide_factor,
    "predictions": bars.predictions,
    "memory": bars.memory,
    "out-of-core": disk.out_of_core,
    "growth": bars.growth,
    "import": bars.import_time,
}
PARTS = OWN | {part: partial(peers.compare_all, part) for part in dict.fromkeys(peer.part for peer in peers.PEERS)}


def check_parts(names: list[str]) -> list[str]:
    """Return the parts to run in their order, all if none is named."""
    known = [*PARTS, FIGURE]
    for name in names:
        if name not in known:
            raise InputError(f"unknown part {name!r} of the benchmark; there are {', '.join(known)}")
    return [name for name in known if not names or name in names]


def run(names: list[str], folder: Path, options: Options, say: Callable[[str], None]) -> str:
    """Run parts, write ``results.md`` and the figure to the folder, and return the report.

    A part that fails becomes a row of the report, and the others still run.
    """
    chosen = check_parts(names)
    make_folder(folder)
    rows: Rows = []
    found: list[Curve] = []
    picture = None

    def tell(text: str) -> None:
        with above():
            say(text)

    with one_thread(), Task("bench", len(chosen)) as task:
        for name in chosen:
            tell(f"{name} ...")
            task.label = f"bench {name}"
            try:
                if name == FIGURE:
                    found = curves(options, tell)
                    picture = write_figure(folder / "times.png", draw(found, options), 150).name
                    continue
                for row in PARTS[name](options):
                    tell(f"    {row.work}: {_short(row)}")
                    rows.append(row)
            except Exception as error:
                rows.append(unfinished(name, first_line(error)))
                tell(f"    {_short(rows[-1])}")
            finally:
                task.step()
    text = report(rows, found, chosen if names else None, picture, options)
    write_whole(folder / "results.md", lambda file: file.write_text(text, encoding="utf-8"))
    return text


def _short(row: Line | Comparison) -> str:
    if isinstance(row, Line):
        return f"{row.measured} {row.unit}"
    return f"{row.faster} ({row.peer}), {row.note}"
