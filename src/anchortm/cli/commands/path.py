"""Fit a model along xi."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_json, add_model, add_output, add_plot, add_table

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ('anchortm path boston.csv -m lm -f "cmedv ~ rm + lstat | town" --xi 0,1,10 --plot path.png',)


def add(command: Any) -> None:
    """Add the arguments."""
    add_table(command)
    add_model(command, "0,1,10,100,1000")
    add_output(command)
    add_plot(command, "the coefficients along xi")
    add_json(command)


def run(options: Any) -> None:
    """Print, write and draw a path in xi."""
    from anchortm.cli.fits import TECHNICAL, prepare
    from anchortm.cli.output import check_outputs, report
    from anchortm.cli.terminal import as_text
    from anchortm.selection.path import anchor_path

    check_outputs(options, options.data)
    rows, columns = prepare(options)
    found = anchor_path(*rows, xis=options.xi, **columns)
    table = found.frame()
    report(options, table, lambda: as_text(table.drop(columns=TECHNICAL)), draw=found.plot)
