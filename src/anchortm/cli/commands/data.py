"""Write a data set that comes with the package."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_output

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    "anchortm data boston_housing2 --output boston.csv",
    "anchortm data cgd --output cgd.csv",
)
SETS = ["ames", "boston_housing2", "cgd", "computers", "geyser", "grouseticks", "wine"]


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("name", choices=SETS, metavar="NAME", help=f"one of {', '.join(SETS)}")
    add_output(command, required=True)


def run(options: Any) -> None:
    """Write a shipped data set to a file."""
    from anchortm.cli.output import check_output, write_table
    from anchortm.cli.terminal import paragraph
    from anchortm.datasets import LOADERS

    check_output(options.output)
    table = LOADERS[options.name]()
    write_table(table, options.output)
    if options.output != "-" and not options.quiet:
        columns = ", ".join(table.columns)
        print(paragraph(f"{len(table)} rows with the columns {columns} are in {options.output}", hanging="  "))
