"""Report on a saved model at the places of a table."""

from __future__ import annotations

from typing import Any

from anchortm.cli.options import add_json, add_output, add_place, add_table
from anchortm.cli.parsing import numbers

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    "anchortm report price.json boston.csv --environments town",
    "anchortm report price.json boston.csv --output places.csv --report report.html",
)


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("model", metavar="MODEL", help="a file written by anchortm fit --save, or by save in Python")
    add_table(
        command,
        "a .csv or .parquet file with the formula's columns, perhaps with outcomes, or - for CSV from a pipe",
    )
    command.add_argument(
        "-e",
        "--environments",
        metavar="COLUMN",
        help="column of the places (default: the anchor, if the table has it)",
    )
    command.add_argument(
        "--training",
        metavar="FILE",
        help="a .csv or .parquet file with the rows of the fit, to compare means of covariates; the model itself keeps "
        "only ranges",
    )
    command.add_argument(
        "--times", type=numbers, metavar="T,...", help="times at which to report survival, if outcomes are times"
    )
    add_place(command)
    add_output(command, "the places")
    command.add_argument("--report", metavar="FILE", help="write all of it to this .html file, which needs no network")
    add_json(command, "all of it")


def run(options: Any) -> None:
    """Print and write a report on a saved model."""
    import os

    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.cli.saved import load_model, model_alone
    from anchortm.exceptions import InputError
    from anchortm.newplace.model_report import model_report

    if options.training is not None and os.path.realpath(options.training) == os.path.realpath(options.data):
        raise InputError("--training is the table itself: it should have the rows of the fit")
    check_outputs(options, options.model, options.data, *([] if options.training is None else [options.training]))
    loaded = load_model(options.model, options.data)
    model = model_alone(loaded)
    X, y, places = _rows(options, model, options.data)
    training = None if options.training is None else _training(options, model)
    found = model_report(
        model,
        X,
        y,
        places,
        training=training,
        times=options.times,
        place=options.place,
        source=_source(options, loaded) | {"command": _command(options)},
    )
    if options.report is not None:
        found.report(options.report)
        tell(options, f"written to {options.report}")
    report(options, found.frame(), lambda: _text(found), found.to_dict())


def _rows(options: Any, model: Any, path: str) -> tuple[Any, Any, Any]:
    """Return covariates, outcomes if they are there, and places of the rows of a file."""
    from copy import copy

    from anchortm.cli.cleaning import as_numbers
    from anchortm.cli.columns import with_points
    from anchortm.cli.saved import check_columns, numbers_needed, rows_perhaps_scored
    from anchortm.cli.tables import read_table

    own = options
    if path != options.data:
        own = copy(options)
        own.data = path
    data = read_table(own)
    own_columns = [options.environments] if options.environments and path == options.data else []
    check_columns(model, data, own, own_columns)
    needed = dict.fromkeys(numbers_needed(model, data), "covariate")
    data = with_points(as_numbers(data, needed, own.source), needed, own.source)
    X, y = rows_perhaps_scored(model, data)
    return X, y, data[options.environments] if own_columns else None


def _training(options: Any, model: Any) -> Any:
    """Return the rows of the fit."""
    from anchortm.exceptions import AnchorTMError, InputError

    try:
        return _rows(options, model, options.training)[0]
    except AnchorTMError as error:
        raise InputError(f"{options.training}: {error}") from None


def _source(options: Any, loaded: Any) -> dict[str, str]:
    """Return what the file of the model says about itself."""
    import json

    with open(options.model, encoding="utf-8") as file:
        record = json.load(file)
    facts = {"file": options.model, "written by": f"{record['written_by']}, format {record['version']}"}
    return facts | (loaded.facts() if hasattr(type(loaded), "predict_interval") else {})


def _command(options: Any) -> str:
    """Return the line that makes the report again."""
    import shlex

    words = ["anchortm", "report", options.model, options.data]
    for name in ("environments", "training", "place"):
        value = getattr(options, name)
        if value not in (None, "average"):
            words += [f"--{name}", value]
    if options.times:
        words += ["--times", ",".join(f"{time:g}" for time in options.times)]
    return shlex.join(words)


def _text(found: Any) -> str:
    """Return the sections of the report, as wide as the terminal."""
    from collections.abc import Mapping

    from anchortm.cli.terminal import as_text, paint, paragraph
    from anchortm.cli.words import in_shell
    from anchortm.newplace.model_report.words import sections_of

    lines: list[str] = []
    for k, section in enumerate(sections_of(found.record)):
        lines += ["", paint(section.heading, "bold")] if k else [paint(section.heading, "bold")]
        for part in section.parts:
            if isinstance(part, str):
                start = "- " if k == 0 else ""
                lines.append(paragraph(f"{start}{in_shell(part)}", "  ", f"  {' ' * len(start)}"))
            elif isinstance(part, Mapping):
                width = max(map(len, part), default=0)
                lines += [paragraph(f"{name:<{width}}  {text}", "  ", " " * (width + 4)) for name, text in part.items()]
            else:
                lines.append(as_text(_aligned(part.reset_index()), 40, indent="  "))
    return "\n".join(lines)


def _aligned(table: Any) -> Any:
    """Return a table with four digits in each number; cells without a number are empty."""
    import pandas as pd

    made = {}
    for name in table.columns:
        if table[name].dtype.kind not in "iuf":
            made[name] = table[name]
            continue
        cells = ["" if value != value else f"{value:.4g}" for value in table[name].tolist()]
        size = max(map(len, [name, *cells]))
        made[name.rjust(size)] = [cell.rjust(size) for cell in cells]
    return pd.DataFrame(made)
