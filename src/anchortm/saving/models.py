"""Records of models: their class, arguments, result and formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from anchortm._util.plain_values import check, is_text, list_of, lively, plain
from anchortm.bases import Basis
from anchortm.engine.mean_result import MeanResult
from anchortm.engine.partial_problem import PartialResult
from anchortm.engine.records import SCHEMA
from anchortm.engine.result import FitResult
from anchortm.exceptions import InputTypeError
from anchortm.families import FAMILIES, Family
from anchortm.inputs.formula import Formula
from anchortm.inputs.targets import Proxies, TargetShift
from anchortm.links import LINKS, Link
from anchortm.models import transformation
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.estimator import AnchorBoostedTM
from anchortm.models.cox import CoxPH
from anchortm.models.glm import AnchorGLM

__all__ = [
    "MODEL",
    "arguments_of",
    "arguments_of_fit",
    "fitted_of",
    "formula_of",
    "model_record",
    "parameter",
    "parameters_of",
]

ROLES = ("strata", "random", "varying", "scale")
# arguments that early versions do not know, with the values that change nothing
LATER = {"environment_weights": "rows", "anchor_weights": "rows", "tail": 1.0, "target": None, "proxies": None}

CLASSES: dict[str, type[TransformationModel]] = {
    **{name: getattr(transformation, name) for name in transformation.__all__},
    "CoxPH": CoxPH,
    "AnchorGLM": AnchorGLM,
}
RESULTS: dict[str, type[FitResult]] = {"partial": PartialResult, "mean": MeanResult, "transformation": FitResult}
KINDS = {  # the kind of basis of each model; AnchorTM can have any
    "NormalLinear": "linear",
    "ContinuousProbit": "bernstein",
    "ContinuousLogit": "bernstein",
    "ProportionalHazards": "bernstein",
    "Lehmann": "bernstein",
    "ParametricSurvival": "log-linear",
    "OrdinalRegression": "ordinal",
    "CountRegression": "count",
    "CoxPH": "step",
    "AnchorGLM": "constant",
}
KNOWN_LINKS = {*LINKS, *(f"{family}-{link}" for family, links in FAMILIES.items() for link in links)}
MODEL: dict[str, Callable[[Any], bool]] = {
    "written_by": is_text,
    "class": lambda value: value in CLASSES,
    "parameters": lambda value: isinstance(value, dict),
    "link": lambda value: value in KNOWN_LINKS,
    "formula": lambda value: value is None or isinstance(value, dict),
    **SCHEMA,
}


def model_record(model: TransformationModel) -> dict[str, Any]:
    """Return the record of a fitted model for a file."""
    name, result = type(model).__name__, model.result_
    if CLASSES.get(name) is not type(model):
        raise InputTypeError(f"{name} is not a model of this package, so it cannot be saved: use pickle")
    if not isinstance(result.link, Family) and type(result.link) not in {type(link) for link in LINKS.values()}:
        raise InputTypeError(
            f"{result.link!r} is not one of our links ({', '.join(LINKS)}), so the model cannot be saved: use pickle"
        )
    return {
        "class": name,
        "parameters": parameters_of(arguments_of_fit(model, model)),
        "formula": model.formula_.state() if hasattr(model, "formula_") else None,
        **result.to_dict(),
    }


def arguments_of_fit(model: TransformationModel, fitted: TransformationModel | AnchorBoostedTM) -> dict[str, Any]:
    """Return the arguments of a model, with the roles that a formula gave to columns in the fit."""
    spec = fitted.new_rows_.spec
    roles = {role: getattr(spec, role) for role in ROLES} if hasattr(fitted, "formula_") else {}
    return model.get_params(deep=False) | roles


def parameters_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a constructor as JSON values, without later ones that are not used."""
    unused = {
        name
        for name, default in LATER.items()
        if isinstance(arguments.get(name), type(default)) and arguments[name] == default
    }
    return {name: parameter(name, value) for name, value in arguments.items() if name not in unused}


def arguments_of(record: dict[str, Any], cls: type[Any]) -> dict[str, Any]:
    """Return the checked arguments of a constructor."""
    arguments = {key: _argument(value) for key, value in record.items()}
    unknown = sorted(set(arguments) - set(signature(cls).parameters))
    check(not unknown, f"{cls.__name__} has no parameters {', '.join(unknown)}")
    return arguments


def formula_of(record: dict[str, Any] | None, names: list[str]) -> Formula | None:
    """Return the formula from a record; raise an error if it does not give the covariates of the model."""
    if record is None:
        return None
    formula = Formula.from_state(record, len(names))
    check(list(formula.design_columns()) == names, "the formula does not give the covariates of the model")
    return formula


def fitted_of(record: dict[str, Any]) -> TransformationModel:
    """Return the checked fitted model from a record."""
    formula_record = record.get("formula")
    record = {key: value if key == "formula" else lively(value) for key, value in record.items()}
    record.setdefault("corners", None)  # early files do not have it
    record.setdefault("random", None)
    for key, test in MODEL.items():
        check(key in record, f"the field {key!r} is missing")
        check(test(record[key]), f"the field {key!r} is invalid")
    cls = CLASSES[record["class"]]
    arguments = arguments_of(record["parameters"], cls)
    for what in ("anchor_names", "strata"):
        given = arguments.get(what)
        known = given is None or isinstance(given, (str, int)) or list_of(lambda v: isinstance(v, (str, int)))(given)
        check(known, f"{what} must be names or positions of columns")
    model = cls(**arguments)
    spec = model.specification().check()
    check(spec.link.name == record["link"], f"{record['class']} does not have the link {record['link']}")
    own = arguments.get("basis")
    kind = KINDS.get(record["class"], own.kind if isinstance(own, Basis) else own)
    check(kind == record["basis"].get("kind"), f"{record['class']} does not have this kind of basis")
    for special in ("CoxPH", "AnchorGLM"):
        check((kind == KINDS[special]) == (record["class"] == special), f"only {special} has this kind of baseline")
    formula = marks = None
    if formula_record is not None:
        check(arguments.get("anchor_names") is None, "both the formula and anchor_names name anchors")
        formula = Formula.from_state(formula_record, _n_covariates(record))
        marks = dict(zip(formula.design_columns(), formula.marks, strict=True))
        check(set(record["coef_names"]) <= set(marks), "the formula does not give the covariates of the model")
    result = RESULTS[spec.likelihood].from_dict(record, spec, marks)
    if formula is not None:
        same = list(formula.design_columns()) == result.covariate_names
        check(same, "the formula does not give the covariates of the model")
    loaded = model.with_result(None, result)
    if formula is not None:
        loaded.formula_ = formula
    return loaded


def _n_covariates(record: dict[str, Any]) -> int:
    return len(record["coef_names"])


def parameter(name: str, value: Any) -> Any:
    """Return an argument of a constructor as a JSON value."""
    if isinstance(value, Link):
        return {"link": value.name}
    if isinstance(value, Basis):
        return {"basis": plain(value.to_dict())}
    if isinstance(value, (TargetShift, Proxies)):
        return {name: plain(value.to_dict())}
    if name == "random_state" and not isinstance(value, (int, np.integer, type(None))):
        return None  # the state of a random generator is not part of a model
    try:
        return (
            {"mapping": [[_key(k), plain(v)] for k, v in value.items()]} if isinstance(value, Mapping) else plain(value)
        )
    except InputTypeError:
        raise InputTypeError(f"the argument {name} = {value!r} cannot be saved: use numbers, text or lists") from None


def _key(key: Any) -> str | int:
    """Return the name or the position of a column."""
    if isinstance(key, (str, int, np.integer)) and not isinstance(key, bool):
        return str(key) if isinstance(key, str) else int(key)
    raise InputTypeError(f"the column name {key!r} cannot be saved: use text or a whole number")


def _argument(value: Any) -> Any:
    match value:
        case {"link": str(name)}:
            return LINKS[name]
        case {"basis": dict(record)}:
            return Basis.from_dict(record)
        case {"target": dict(record)}:
            return TargetShift.from_dict(record)
        case {"proxies": {"W": W, "Z": Z}}:
            return Proxies(W, Z)
        case {"mapping": list(pairs)}:
            return dict(pairs)
    return value
