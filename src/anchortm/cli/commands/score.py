"""Score a saved model."""

from __future__ import annotations

from typing import Any

from anchortm.cli.known_rows import add_bad_rows, known_rows
from anchortm.cli.options import add_json, add_output, add_place, add_plot, add_table

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = ("anchortm score price.json boston.csv --by town",)
MEANINGS = {
    "nll": "mean negative log-likelihood, lower is better",
    "crps": "continuous ranked probability score in the units of the outcome, lower is better",
    "coverage": "share of outcomes inside the {level:g} % intervals",
    "pit": "mean rank of outcomes in their predicted distributions, 0.5 if calibrated",
    "concordance": "share of pairs in the right order, 0.5 by chance",
}


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("model", metavar="MODEL", help="a file written by anchortm fit --save, or by save in Python")
    group = add_table(command, "a .csv or .parquet file with the outcome, or - for CSV from a pipe")
    add_bad_rows(command, group)
    command.add_argument("-b", "--by", metavar="COLUMN", help="column of the sites to score one by one")
    command.add_argument("--level", type=float, default=0.9, help="probability of the intervals (default 0.9)")
    add_place(command)
    add_output(command)
    add_plot(command, "the calibration by site")
    add_json(command)


def run(options: Any) -> None:
    """Print, write and draw the scores of a saved model."""
    from anchortm.cli.output import check_outputs, report
    from anchortm.cli.saved import load_model, model_alone, rows_scored
    from anchortm.cli.terminal import as_text, paragraph
    from anchortm.inputs.anchors import groups_of
    from anchortm.scores import score_table

    check_outputs(options, options.model, options.data)
    model = model_alone(load_model(options.model, options.data))
    data = known_rows(options, model, [options.by] if options.by else [], "scored")
    sites = None if options.by is None else data[options.by]  # without --by all rows
    if sites is not None:
        groups_of(sites, "--by")
    found = score_table(model, *rows_scored(model, data), sites, level=options.level, place=options.place)

    def text() -> str:
        table = found.frame().dropna(axis=1, how="all")
        new = " as rows of new places" if options.place == "new" else ""
        head = f"Scores of {options.model} on {len(data)} rows{new}"
        legend = [
            paragraph(f"{name}: {text.format(level=100 * options.level)}", hanging="  ")
            for name, text in MEANINGS.items()
            if name in table
        ]
        legend += [f"{name}: Brier score at this time" for name in table if name.startswith("brier_")]
        return "\n".join([head, as_text(table.rename(columns={"environment": options.by or "rows"}), 40), "", *legend])

    report(options, found.frame(), text, draw=found.plot)
