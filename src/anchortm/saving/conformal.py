"""Records of conformal predictors: their fits, and the scores of the rows that these have not seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from anchortm._util.pipelines import model_of
from anchortm._util.plain_values import check, is_count, is_number, is_plain, is_text, list_of, lively, plain
from anchortm.newplace.conformal import ConformalPredictor
from anchortm.newplace.conformal_fits import METHODS, Calibration
from anchortm.newplace.conformal_scores import Promise
from anchortm.saving.models import arguments_of, parameter

__all__ = ["CONFORMAL", "conformal_of", "conformal_record"]

CONFORMAL = ConformalPredictor.__name__
SCALES = ("continuous", "time", "ordinal", "count")
INVALID = "the left-out fits are invalid"
FIELDS: dict[str, Callable[[Any], bool]] = {
    "method": lambda value: value in METHODS,
    "training": list_of(is_plain),
    "places": list_of(is_plain),
    "codes": list_of(is_count),
    "weights": list_of(lambda value: is_number(value) and 0.0 < value < math.inf),
    "both": list_of(lambda value: is_number(value) and value >= 0.0),
    "lower": list_of(lambda value: is_number(value) and value >= 0.0),
    "censored": is_count,
    "scale": lambda value: value in SCALES,
    "levels": lambda value: value is None or list_of(is_plain)(value),
    "notes": list_of(is_text),
    "name": lambda value: value is None or is_text(value),
}


def conformal_record(predictor: ConformalPredictor, record: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a fitted predictor for a file; ``record`` makes those of its fits."""
    found = predictor.calibration_
    parameters = {k: parameter(k, v) for k, v in predictor.get_params(deep=False).items() if k != "model"}
    return {
        "class": CONFORMAL,
        "parameters": parameters,
        "model": record(found.model),
        "left_out": [None if model is None else record(model) for model in found.left_out],
        "calibration": plain({name: getattr(found, name) for name in FIELDS}),
    }


def conformal_of(record: dict[str, Any], made: Callable[[dict[str, Any]], Any]) -> ConformalPredictor:
    """Return the checked predictor from a record; ``made`` makes a model from its record."""
    for key in ("parameters", "model", "calibration"):
        check(isinstance(record.get(key), dict), f"the field {key!r} is invalid")
    fields = _checked(lively(record["calibration"]))
    model, left_out = made(record["model"]), _left_out(record.get("left_out"), made)
    wanted = len(fields["places"]) if fields["method"] == "loeo" else 0
    check(len(left_out) == wanted and (not wanted or left_out.count(None) < wanted), "left-out fits are missing")
    for fit in (model, *left_out):
        check(fit is None or _same_outcome(fit, fields["levels"]), "the fits have other classes than the scores")
    given = arguments_of(lively(record["parameters"]), ConformalPredictor)
    check("model" not in given, "the parameters contain a model")
    predictor = ConformalPredictor(clone(model), **given)
    Promise.checked(predictor.guarantee, predictor.level, predictor.share)
    return predictor.with_calibration(Calibration(model=model, left_out=left_out, **fields))


def _left_out(records: Any, made: Callable[[dict[str, Any]], Any]) -> tuple[Any, ...]:
    """Return the left-out fits; None for those that failed."""
    check(isinstance(records, list) and all(own is None or isinstance(own, dict) for own in records), INVALID)
    return tuple(None if own is None else made(own) for own in records)


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a calibration as it holds them; refuse those that do not fit together."""
    for key, test in FIELDS.items():
        check(key in fields and test(fields[key]), f"the field {key!r} of the calibration is invalid")
    sizes, places = (
        {len(fields[key]) for key in ("codes", "weights", "both", "lower")},
        set(range(len(fields["places"]))),
    )
    check(len(sizes) == 1 and set(fields["codes"]) == places != set(), "the scores have no places")
    found = {key: fields[key] for key in FIELDS} | {key: _labels(fields[key]) for key in ("training", "places")}
    found |= {key: np.array(fields[key], dtype=np.float64) for key in ("weights", "both", "lower")}
    found |= {"codes": np.array(fields["codes"], dtype=np.intp), "notes": tuple(fields["notes"])}
    return found | {"levels": None if fields["levels"] is None else tuple(fields["levels"])}


def _labels(values: list[Any]) -> Any:
    """Return the names of places as an array."""
    alike = len({type(value) for value in values}) == 1
    return np.array(values) if alike else np.array([*values, None], dtype=object)[:-1]


def _same_outcome(fit: Any, levels: tuple[Any, ...] | None) -> bool:
    own = getattr(model_of(fit), "classes_", None)
    return own is None if levels is None else own is not None and set(own.tolist()) <= set(levels)
