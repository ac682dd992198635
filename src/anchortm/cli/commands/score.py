"""Score a saved model."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_json, add_output, add_plot, add_table

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
    group.add_argument(
        "--missing",
        choices=["error", "drop"],
        default="error",
        metavar="HOW",
        help="rows with missing values: error (the default), or drop to leave them out",
    )
    command.add_argument(
        "--bad-rows",
        choices=["error", "drop"],
        default="error",
        metavar="HOW",
        help="rows that cannot be predicted, such as those with unknown levels: error (the default), or drop to leave "
        "them out",
    )
    command.add_argument("-b", "--by", metavar="COLUMN", help="column of the sites to score one by one")
    command.add_argument("--level", type=float, default=0.9, help="probability of the intervals (default 0.9)")
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
    data = _rows(options, model)
    sites = None if options.by is None else data[options.by]  # without --by all rows
    if sites is not None:
        groups_of(sites, "--by")
    found = score_table(model, *rows_scored(model, data), sites, level=options.level)

    def text() -> str:
        table = found.frame().dropna(axis=1, how="all")
        head = f"Scores of {options.model} on {len(data)} rows"
        legend = [
            paragraph(f"{name}: {text.format(level=100 * options.level)}", hanging="  ")
            for name, text in MEANINGS.items()
            if name in table
        ]
        legend += [f"{name}: Brier score at this time" for name in table if name.startswith("brier_")]
        return "\n".join([head, as_text(table.rename(columns={"environment": options.by or "rows"}), 40), "", *legend])

    report(options, found.frame(), text, draw=found.plot)


def _rows(options: Any, model: Any) -> Any:
    """Return the rows to score."""
    from anchortm.cli.cleaning import as_numbers
    from anchortm.cli.columns import refuse_texts
    from anchortm.cli.output import tell
    from anchortm.cli.saved import check_columns, columns_scored, numbers_needed
    from anchortm.cli.tables import read_table
    from anchortm.exceptions import InputError

    data = read_table(options)
    names = [str(name) for name in data.columns]
    own = [options.by] if options.by else []
    check_columns(model, data, options, [*columns_scored(model, names), *own])
    roles = dict.fromkeys(numbers_needed(model, data), "covariate")
    data = as_numbers(data, roles, options.source)
    refuse_texts(data, roles, (), options.source, needed=True)
    if options.missing == "drop":
        needed = [*columns_scored(model, names), *own]
        whole = data[needed].notna().all(axis=1)
        if not whole.any():
            raise InputError("no rows are left: each row has a missing value in a column that the scores need")
        if not whole.all():
            tell(options, f"{int((~whole).sum())} of {len(data)} rows with missing values are left out")
        data = _kept(options, data, whole)
    return _good(options, model, data)


def _good(options: Any, model: Any, data: Any) -> Any:
    """Return the rows that the model can predict; refuse the others unless they are to be dropped."""
    from anchortm._util.pipelines import model_of
    from anchortm.cli.output import tell
    from anchortm.cli.saved import rows_scored
    from anchortm.exceptions import InputError

    judgement = model_of(model).new_rows_.read(rows_scored(model, data)[0], None).judgement
    if not judgement.bad.any():
        return data
    if options.bad_rows == "error":
        try:
            judgement.check()
        except InputError as error:
            rows = str(error).partition("; repair")[0].replace("predicted", "scored")
            missing = "" if options.missing == "drop" else "; --missing drop leaves rows with missing values out"
            raise InputError(f"{rows}{missing}; --bad-rows drop leaves all such rows out") from None
    if judgement.bad.all():
        raise InputError("no rows are left: the model can predict none of them")
    tell(options, f"{int(judgement.bad.sum())} of {len(data)} rows that the model cannot predict are left out")
    return _kept(options, data, ~judgement.bad)


def _kept(options: Any, data: Any, rows: Any) -> Any:
    """Return some of the rows, which are then no longer those of the file."""
    options.source = None if not rows.all() else options.source
    return data[rows].reset_index(drop=True)
