"""Conformal sets in the shell: their options, and a saved model that is calibrated on places of a table."""

from __future__ import annotations

import argparse
import warnings
from copy import copy
from typing import Any

from anchortm.cli.options import add_jobs
from anchortm.exceptions import AnchorTMWarning, InputError

__all__ = ["add_conformal", "with_sets"]


def add_conformal(command: argparse.ArgumentParser) -> None:
    """Add the options on sets with a coverage guarantee at a new place."""
    group = command.add_argument_group("intervals for new places")
    group.add_argument(
        "--conformal",
        type=_share,
        metavar="LEVEL",
        help="add the columns lower and upper: an interval that holds this share of outcomes at new places, such as "
        "0.9 (lower alone if outcomes are censored). The model file must hold a ConformalPredictor; for other models, "
        "add --calibrate",
    )
    group.add_argument(
        "--calibrate",
        metavar="TABLE",
        help="rows with outcomes from many places, such as those of the fit: the model is refitted to some of the "
        "places, and the others calibrate its intervals",
    )
    group.add_argument("--environments", metavar="COLUMN", help="column of the places (default: the anchor)")
    group.add_argument(
        "--method",
        choices=["split", "loeo", "full"],
        default="split",
        metavar="HOW",
        help="split (the default) calibrates on half of the places, loeo leaves out each place, full does so without a "
        "guarantee",
    )
    group.add_argument(
        "--guarantee",
        choices=["average", "places"],
        metavar="WHAT",
        help="average (the default): rows are covered on average over new places; places: in a --share of new places",
    )
    group.add_argument("--share", type=_share, metavar="SHARE", help="share of new places (default 0.9)")
    add_jobs(command)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} should be a number between 0 and 1, such as 0.9")
    return value


def with_sets(options: Any, model: Any) -> tuple[Any, Any]:
    """Return what predicts, a model or a predictor of sets if the options ask for them, and the model alone."""
    from anchortm.newplace.conformal import ConformalPredictor

    asked = {"level": options.conformal, "guarantee": options.guarantee, "share": options.share}
    asked = {name: value for name, value in asked.items() if value is not None}
    if isinstance(model, ConformalPredictor):
        if options.calibrate is not None:
            raise InputError(f"{options.model} is calibrated already: leave --calibrate out")
        return model.set_params(**asked), model.model_
    if options.conformal is None:
        if options.calibrate is not None or asked:
            raise InputError("--calibrate, --guarantee and --share need a level: add --conformal 0.9")
        return model, model
    if options.calibrate is None:
        raise InputError(
            f"--conformal needs places with outcomes, and {options.model} does not hold any: add --calibrate TABLE, "
            "for example with the rows of the fit"
        )
    predictor = ConformalPredictor(_unfitted(model), method=options.method, n_jobs=options.jobs, **asked)
    return _calibrated(options, model, predictor), model


def _unfitted(model: Any) -> Any:
    """Return the model of a file, without roles of columns that its formula gives."""
    from sklearn.base import clone

    made = clone(model)
    roles = [name for name in made.get_params() if name.split("__")[-1] in ("strata", "random")]
    return made.set_params(**dict.fromkeys(roles)) if getattr(model, "formula_", None) is not None else made


def _calibrated(options: Any, model: Any, predictor: Any) -> Any:
    """Return the predictor, calibrated on the places of a table."""
    from anchortm.cli.cleaning import as_numbers
    from anchortm.cli.columns import refuse_texts
    from anchortm.cli.fits import start_workers
    from anchortm.cli.output import tell
    from anchortm.cli.saved import check_columns, columns_scored, numbers_needed, rows_scored
    from anchortm.cli.tables import read_table
    from anchortm.cli.terminal import paragraph
    from anchortm.cli.words import in_shell

    own = copy(options)
    own.data = options.calibrate
    data, formula = read_table(own), getattr(model, "formula_", None)
    names, environments = [str(name) for name in data.columns], options.environments
    if environments is None:
        anchors = [] if formula is None else formula.anchor_columns
        if len(anchors) != 1:
            raise InputError(f"--conformal needs one column of places: give --environments, not {anchors or 'none'}")
        environments = anchors[0]
    check_columns(model, data, own, [*columns_scored(model, names), environments])
    roles = dict.fromkeys(numbers_needed(model, data), "covariate")
    data = as_numbers(data, roles, own.source)
    refuse_texts(data, roles, (), own.source, needed=True)
    start_workers(options.jobs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "sets are infinite", AnchorTMWarning)  # the prediction says so
        if formula is None:
            X, y = rows_scored(model, data)
            predictor.fit(X, y, environments=data[environments])
        else:
            offset = {"offset": formula.offset} if formula.offset else {}
            predictor.fit(formula.text, data, environments=environments, **offset)
    lines = [str(predictor).partition("\n")[0]]
    lines += [f"  {name:<8}  {in_shell(text)}" for name, text in predictor.facts().items()]
    tell(options, "\n".join(paragraph(line, hanging=" " * 12) for line in lines))
    return predictor
