"""Predict new rows."""

from __future__ import annotations

from typing import Any

from anchortm.cli.conformal import add_conformal
from anchortm.cli.options import add_json, add_output, add_place, add_table
from anchortm.cli.parsing import numbers
from anchortm.exceptions import InputError

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    "anchortm predict price.json boston.csv --quantiles 0.1,0.5,0.9 --sf 30,50 --output predictions.csv",
    "anchortm predict places.json boston.csv --quantiles 0.1,0.5,0.9 --place new",
    "anchortm predict price.json boston.csv --conformal 0.9 --calibrate boston.csv --output intervals.csv",
)


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("model", metavar="MODEL", help="a file written by anchortm fit --save, or by save in Python")
    add_table(
        command,
        "a .csv or .parquet file, - for CSV from a pipe, or a folder or quoted pattern of .parquet files, with the "
        "formula's columns",
    )
    command.add_argument(
        "--quantiles", type=numbers, default=[], metavar="Q,...", help="quantiles, such as 0.1,0.5,0.9"
    )
    command.add_argument("--cdf", default="", metavar="Y,...", help="P(Y <= y) at these outcomes or classes")
    command.add_argument("--sf", default="", metavar="Y,...", help="P(Y > y) at these outcomes or classes")
    command.add_argument("--keep", metavar="COLUMN,...", help="columns of the data to repeat in the output")
    command.add_argument(
        "--extrapolation",
        action="store_true",
        help="name covariates outside the training range, and flag quantiles beyond it",
    )
    command.add_argument(
        "--bad-rows",
        choices=["error", "mark"],
        default="error",
        metavar="HOW",
        help="rows that cannot be predicted: error (the default), or mark to predict the others and add a column "
        "reason",
    )
    command.add_argument(
        "--unknown",
        choices=["error", "baseline", "rare"],
        default="error",
        metavar="HOW",
        help="levels that the fit has not seen: error (the default), baseline to treat them as the reference level, "
        "or rare as the rarest one",
    )
    add_place(command)
    add_conformal(command)
    add_output(command, "all rows")
    add_json(command, "all rows")


def run(options: Any) -> None:
    """Predict with a saved model; Parquet to Parquet in batches."""
    from anchortm.cli.conformal import with_sets
    from anchortm.cli.output import apart, check_outputs, report, tell
    from anchortm.cli.saved import load_model
    from anchortm.cli.tables import in_batches
    from anchortm.cli.terminal import as_text
    from anchortm.predict.tables import predict_table

    check_outputs(options, options.model, options.data)
    apart(options.calibrate, options.output)
    predictor, model = with_sets(options, load_model(options.model, options.data))
    wanted = {
        "quantiles": options.quantiles,
        "keep": options.keep.split(",") if options.keep else [],
        "cdf": _outcomes(model, options.cdf),
        "sf": _outcomes(model, options.sf),
        "extrapolation": options.extrapolation,
        "on_bad_rows": options.bad_rows,
        "unknown": options.unknown,
        "place": options.place,
    }
    many = in_batches(options.data)
    whole = all(str(file).endswith(".parquet") for file in (options.data, options.output)) and not options.dates
    if many or (whole and not options.json):
        predict_table(predictor, options.data, options.output, **wanted)
        tell(options, f"written to {options.output}")
        return
    table = predict_table(predictor, _new_rows(options, model), **wanted)
    report(options, table, lambda: as_text(table), shown=options.output is None)
    if "reason" in table and (bad := int((table["reason"] != "").sum())):
        tell(options, f"{bad} of {len(table)} rows could not be predicted: see the column reason")


def _new_rows(options: Any, model: Any) -> Any:
    """Return the new rows; refuse texts and dates where the model needs numbers, unless bad rows are marked."""
    from anchortm.cli.cleaning import as_numbers
    from anchortm.cli.columns import refuse_texts, with_points
    from anchortm.cli.saved import check_columns, numbers_needed
    from anchortm.cli.tables import read_table

    data = read_table(options)
    if getattr(model, "formula_", None) is not None:
        check_columns(model, data, options)
    needed = dict.fromkeys(numbers_needed(model, data), "covariate")
    data = as_numbers(data, needed, options.source)
    if options.bad_rows == "mark":
        return with_points(data, needed, options.source)
    also = ", or --bad-rows mark to predict the other rows"
    refuse_texts(data, needed, (), options.source, needed=True, also=also)
    return data


def _outcomes(model: Any, text: str) -> list[Any]:
    return [_outcome(model, point.strip()) for point in text.split(",")] if text else []


def _outcome(model: Any, text: str) -> Any:
    """Return an outcome that was written in the shell: a class by its name, or a number."""
    for level in getattr(model, "classes_", []):
        if str(level) == text:
            return level
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text!r} is neither a number nor a class of this model") from None
