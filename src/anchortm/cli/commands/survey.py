"""Measure what helps at left-out places, on many real data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from anchortm.cli.options import add_jobs, add_json, add_output

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ("anchortm survey --list", 'anchortm survey --list --only "Radon in homes" --json')


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="data sets to measure (default: all)")
    command.add_argument("--quick", action="store_true", help="measure a few small data sets: takes about five minutes")
    command.add_argument("--list", action="store_true", help="list the data sets and stop")
    command.add_argument("--fresh", action="store_true", help="measure again even if results are stored")
    add_jobs(command)
    add_output(command, "folder for the results and the page", "", default="survey", metavar="FOLDER")
    add_json(command, "the results")


def run(options: Any) -> None:
    """Measure data sets, and write the results and the page."""
    import pandas as pd

    from anchortm.cli.fits import start_workers
    from anchortm.cli.output import as_json, new_figure, tell
    from anchortm.cli.terminal import as_text
    from anchortm.survey.catalogue import named
    from anchortm.survey.page import write
    from anchortm.survey.running import QUICK
    from anchortm.survey.running import run as measure

    chosen = named(QUICK if options.quick and not options.only else options.only)
    if options.list:
        rows = [(one.name, one.kind, one.environments, one.table) for one in chosen]
        table = pd.DataFrame(rows, columns=["name", "outcome", "environments", "table"])
        print(as_json(table) if options.json else as_text(table, len(rows)))
        return
    new_figure()  # fail early if matplotlib is missing
    start_workers(options.jobs)
    folder = Path(options.output)
    records = measure(
        chosen, folder, options.jobs, lambda text: print(text, file=sys.stderr, flush=True), options.fresh
    )
    write(records, folder / "does_it_help.md", folder)
    if options.json:
        print(as_json(records))
    tell(options, f"The page is {folder / 'does_it_help.md'}, and the results are in the same folder.")
