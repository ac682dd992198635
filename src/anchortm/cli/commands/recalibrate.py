"""Recalibrate a saved model at a new place."""

from __future__ import annotations

from typing import Any

from anchortm.cli.known_rows import add_bad_rows, known_rows
from anchortm.cli.options import add_json, add_output, add_table

__all__ = ["EXAMPLES", "add", "run"]

EXAMPLES = (
    "anchortm recalibrate places.json boston.csv --save there.json",
    "anchortm recalibrate price.json boston.csv --what shift+scale --prior 0.5 --json",
)
WAYS = ("auto", "shift", "shift+scale", "baseline", "trees")


def add(command: Any) -> None:
    """Add the arguments."""
    command.add_argument("model", metavar="MODEL", help="a file written by anchortm fit --save, or by save in Python")
    group = add_table(
        command, "a .csv or .parquet file with rows of one new place and their outcome, or - for CSV from a pipe"
    )
    add_bad_rows(command, group)
    command.add_argument(
        "--what",
        choices=WAYS,
        default="auto",
        metavar="WHAT",
        help="what differs at the place: shift (of the level), shift+scale, baseline (all of it), or trees of a "
        "boosted model; the default, auto, is the shift here, because model files hold no rows to try the others on",
    )
    command.add_argument(
        "--prior",
        type=float,
        metavar="VARIANCE",
        help="variance of shifts between places, on the scale of h (default: that of the places of the fit, which fit "
        "--place-variance measures)",
    )
    command.add_argument(
        "--strength",
        type=float,
        metavar="ROWS",
        help="for baseline: how many rows the fit counts for (default 20); for trees see the guide",
    )
    command.add_argument(
        "--floor",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="smallest allowed slope, as a share of the former slope, for shift+scale and baseline (default 0.2)",
    )
    command.add_argument("--weights", metavar="COLUMN", help="column of weights")
    command.add_argument("-s", "--save", metavar="FILE", help="write the recalibrated model to this .json file")
    add_output(command, "what was found")
    add_json(command, "what was found")


def run(options: Any) -> None:
    """Recalibrate a saved model, save it and print what was found."""
    import pandas as pd

    from anchortm._util.pipelines import model_of
    from anchortm.cli.output import check_outputs, report, tell
    from anchortm.cli.saved import load_model, rows_scored
    from anchortm.cli.terminal import paint, paragraph
    from anchortm.saving import save

    check_outputs(options, options.model, options.data)
    loaded = load_model(options.model, options.data)
    model = model_of(loaded)  # in a pipeline, the last step; it takes rows before the transformers
    data = known_rows(options, loaded, [options.weights] if options.weights else [], "used")
    X, y = rows_scored(loaded, data)
    asked: dict[str, Any] = {"what": options.what, "floor": options.floor}
    asked |= {} if options.prior is None else {"prior": options.prior}
    asked |= {} if options.strength is None else {"strength": options.strength}
    weights = data[options.weights] if options.weights else None
    there = model.recalibrate(X, y, sample_weight=weights, **asked)
    if options.save:
        save(there, options.save)
        tell(options, f"saved to {options.save}")
    told = there.recalibration_
    names = ("what", "rows", "shift", "std_error", "scale", "prior", "prior_from", "strength", "floor", "converged")
    record: dict[str, Any] = {name: getattr(told, name) for name in names}
    record |= {"nll_before": model.nll(X, y).mean(), "nll_after": there.nll(X, y).mean()}

    def text() -> str:
        facts = told.facts()
        facts["these rows"] = (
            f"mean negative log-likelihood {record['nll_before']:.4f} before and {record['nll_after']:.4f} after; "
            "other rows of the place gain less"
        )
        width = max(map(len, facts))
        lines = [paragraph(f"  {name:<{width}}  {value}", hanging=" " * (width + 4)) for name, value in facts.items()]
        return "\n".join([paint(f"{options.model} at the place of {options.data}", "bold"), *lines])

    report(options, pd.DataFrame([record]), text, record)
