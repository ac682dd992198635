"""Show what anchoring does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anchortm.cli.options import add_json, add_output

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ("anchortm demo --output figures",)


def add(command: Any) -> None:
    """Add the arguments."""
    add_output(command, "folder for the figures and the report", "", default="anchortm-demo", metavar="FOLDER")
    add_json(command, "the tables")


def run(options: Any) -> None:
    """Print the tables of the demonstration, and write its figures and its report."""
    from anchortm.cli.demonstration import run as demonstrate
    from anchortm.cli.output import as_json
    from anchortm.cli.terminal import paragraph

    def say(text: str) -> None:
        print(text if "\n" in text else paragraph(text, hanging="  " if text.startswith("-") else ""))

    found = demonstrate(Path(options.output), (lambda _: None) if options.json else say)
    if options.json:
        tables = {key: found[key].rename_axis("model").reset_index() for key in ("worst", "median")}
        print(as_json(tables | {"figures": found["figures"], "report": found["report"]}))
