"""Measure speed and memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from anchortm.cli.options import add_output
from anchortm.exceptions import InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ("anchortm bench --quick --only import cvxpy --output bench",)


def add(command: Any) -> None:
    """Add the arguments."""
    add_output(command, "folder for results.md and the figure", "", default="bench", metavar="FOLDER")
    command.add_argument("--quick", action="store_true", help="small sizes, not judged: takes about a minute")
    command.add_argument("--only", nargs="+", default=[], metavar="PART", help="parts to run (default: all)")
    command.add_argument(
        "--repeats", type=int, metavar="N", help="number of runs; the fastest counts (default 3, quick 1)"
    )


def _readable(markdown: str) -> str:
    """Return a report with its paragraphs and tables fitted to the terminal."""
    import pandas as pd

    from anchortm.cli.terminal import as_text, paragraph

    parts = []
    for part in markdown.split("\n\n"):
        lines = [line.strip().strip("|") for line in part.splitlines()]
        if part.lstrip().startswith("|"):
            cells = [[cell.strip() for cell in line.split("|")] for line in lines]
            table = pd.DataFrame([row for row in cells[2:] if len(row) == len(cells[0])], columns=cells[0])
            parts.append(as_text(table, 200))
        else:
            listed = part.lstrip().startswith(("-", "#"))
            parts.append("\n".join(paragraph(line, hanging="  ") for line in lines) if listed else paragraph(part))
    return "\n\n".join(parts)


def run(options: Any) -> None:
    """Run the benchmark and print its report."""
    from anchortm.bench.engine import FULL, QUICK, Options
    from anchortm.bench.suite import FIGURE, check_parts
    from anchortm.bench.suite import run as measure
    from anchortm.cli.output import new_figure, tell

    repeats = (1 if options.quick else 3) if options.repeats is None else options.repeats
    if repeats < 1:
        raise InputError(f"--repeats must be at least 1, not {repeats}")
    if FIGURE in check_parts(options.only):
        new_figure()  # fail early if matplotlib is missing
    how = Options(QUICK if options.quick else FULL, repeats)
    found = measure(options.only, Path(options.output), how, lambda text: print(text, file=sys.stderr, flush=True))
    print(_readable(found) if sys.stdout.isatty() else found)
    tell(options, f"Written to {options.output}.")
