"""Saved models: JSON with a version and a schema; nothing in a file is executed.

A file holds what a prediction and a summary need: the resolved specification, parameters,
certificate, covariance, and the state of the formula. It does not hold the rows of the fit. What is
read is checked field by field before a model is made of it, the expressions of a formula included.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anchortm import __version__
from anchortm._util.files import read_bytes, write_whole
from anchortm.bases import Basis, OrdinalBasis
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.objective.location_scale import scale_columns
from anchortm.engine.objective.penalised import Penalty
from anchortm.engine.problem import Data
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError, ModelFileError
from anchortm.families import FAMILIES, FAMILY_TYPES
from anchortm.inference.covariance import default_kind
from anchortm.inputs.baselines import Corners, Group, known_strata, varying_groups
from anchortm.inputs.formula import Formula
from anchortm.inputs.splines import marks_by_name, smooth_terms
from anchortm.links import LINKS, Link
from anchortm.models import transformation as estimators
from anchortm.models.base import SCALED, TransformationModel
from anchortm.models.boosted.estimator import AnchorBoostedTM
from anchortm.models.cox import CoxPH
from anchortm.models.glm import AnchorGLM

__all__ = ["load", "save"]

FORMAT, VERSION = "anchortm-model", 1
MAX_BYTES = 64 * 2**20
MAX_VALUES = 4_000_000  # numbers, words and lists in a file
LARGEST = 1e200  # parameter: what is computed with it stays a number
LARGEST_LOG = 300.0  # of a scale, at the ends of its covariates
MAX_GROUPS = 1000
MAX_COVARIANCE = 500  # parameters; beyond, a covariance is not saved
CLASSES = {name: getattr(estimators, name) for name in estimators.__all__} | {"CoxPH": CoxPH, "AnchorGLM": AnchorGLM}
KINDS = {  # of the basis; AnchorTM takes any
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
MORE = {CoxPH: "steps", AnchorGLM: "family"}  # fields that some models have
KNOWN_LINKS = {*LINKS, *(f"{family}-{link}" for family, links in FAMILIES.items() for link in links)}
BOOSTED = "AnchorBoostedTM"
SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def save(model: TransformationModel | AnchorBoostedTM, path: str | os.PathLike[str]) -> Path:
    """Write a fitted model to a JSON file, whole or not at all, and return its path.

    Standard errors are computed before, where they can be, so that ``summary()`` is the same after ``load``.

    If ``path`` is a link, the file that it points to is replaced and the link stays. A folder, a device, a named pipe
    or a socket is never replaced: these raise ``InputError``.

    See Also
    --------
    anchortm.load : reads the file

    Examples
    --------
    >>> import anchortm as atm, tempfile, os
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = atm.load(atm.save(model, os.path.join(folder, "wine.json")))
    >>> bool((same.predict_proba(data) == model.predict_proba(data)).all())
    True
    """
    if not isinstance(model, (TransformationModel, AnchorBoostedTM)):
        raise InputTypeError(f"save takes a model of this package, not {type(model).__name__}")
    check_is_fitted(model, "coef_")
    if Path(path).suffix != ".json":
        raise InputError(f"{path} should end in .json")
    boosted = isinstance(model, AnchorBoostedTM)
    record = _record(model.model_ if boosted else model)
    for key, check in SCHEMA.items():
        if not check(record[key] if key == "formula" else _lively(record[key])):
            raise InputError(f"the model cannot be saved: its {key} goes beyond what a file takes")
    if boosted:
        record = _boosted_record(model, record)
    text = json.dumps(record | {"sha256": _digest(record)}, indent=1, allow_nan=False)
    if len(text) > MAX_BYTES or _n_values(text) > MAX_VALUES:
        raise InputError(f"the model has {model.coef_.size} coefficients, too many for a file")
    return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _digest(record: dict[str, Any]) -> str:
    """Return the checksum of a record, by which damage is noticed (not malice)."""
    text = json.dumps({key: value for key, value in record.items() if key != "sha256"}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _record(model: Any) -> dict[str, Any]:
    name = type(model).__name__
    if CLASSES.get(name) is not type(model):
        raise InputTypeError(f"{name} is not a model of this package: only those can be saved")
    if type(model.link_) not in {*FAMILY_TYPES.values(), *(type(link) for link in LINKS.values())}:
        raise InputTypeError(f"{model.link_!r} is not one of our links ({', '.join(LINKS)}): it cannot be saved")
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"anchortm {__version__}",
        "class": name,
        "parameters": {key: _parameter(key, value) for key, value in model.get_params(deep=False).items()},
        "link": model.link_.name,
        "basis": _basis_record(model.basis_),
        "baseline": _plain(model.baseline_),
        "coef": _plain(model.coef_),
        "coef_names": list(model.coef_names_),
        "feature_names": list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None,
        "n_features": int(model.n_features_in_),
        "fit": {key: _plain(getattr(model, key)) for key in FIT}
        | {key: _plain(getattr(model, key)) for key in LATER if hasattr(model, key)},
        "history": _plain(model._history),
        "covariance": _covariance(model),
        "formula": model.formula_.state() if hasattr(model, "formula_") else None,
        "corners": None if model._corners is None else _plain(asdict(model._corners)),
        "random": None if model._random is None else _plain(model._random.record()),
    } | {field: _plain(model._more()) for cls, field in MORE.items() if isinstance(model, cls)}


def _boosted_record(model: Any, inner: dict[str, Any]) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    base = parameters.pop("model").get_params(deep=False)
    return {
        **{key: inner[key] for key in ("format", "version", "written_by")},
        "class": BOOSTED,
        "parameters": {key: _parameter(key, value) for key, value in parameters.items()},
        "base": {key: _parameter(key, value) for key, value in base.items()},
        "model": inner,
        "boosted": _plain(model._more()),
        "formula": model.formula_.state() if hasattr(model, "formula_") else None,
    }


def _basis_record(basis: Basis) -> Any:
    if isinstance(basis, OrdinalBasis) and not all(isinstance(v, (str, bool, int, float)) for v in basis.levels):
        raise InputTypeError("classes that are not text or numbers cannot be saved: name them by text")
    return _plain(basis.to_dict())


def _covariance(model: Any) -> Any:
    """Return what standard errors need, the sandwich computed where it can be."""
    if model.baseline_.size + model._others.size > MAX_COVARIANCE:
        return None
    if model._sandwich is None and isinstance(model._data, Data) and default_kind(model, None) == "sandwich":
        with suppress(AnchorTMError, np.linalg.LinAlgError):  # no strict optimum: there are none
            model.covariance("sandwich")
    information, jacobian = model._information, model._jacobian
    if isinstance(information, Arrow):
        jacobian = information.coordinates.jacobian
        information = information.toarray()
    fixed = None if information is None else model._fixed
    parts = {"information": information, "fixed": fixed, "jacobian": jacobian}
    return _plain(parts | {"sandwich": model._sandwich})


def _parameter(name: str, value: Any) -> Any:
    """Return an argument of a constructor as JSON takes it."""
    if isinstance(value, Link):
        return {"link": value.name}
    if isinstance(value, Basis):
        return {"basis": _plain(value.to_dict())}
    if name == "random_state" and not isinstance(value, (int, np.integer, type(None))):
        return None  # a generator's place in its stream is not part of a model
    try:
        return (
            {"mapping": [[_key(k), _plain(v)] for k, v in value.items()]}
            if isinstance(value, Mapping)
            else _plain(value)
        )
    except InputTypeError:
        raise InputTypeError(f"the parameter {name} = {value!r} cannot be saved") from None


def _key(key: Any) -> str | int:
    """Return the name or the position of a column."""
    if isinstance(key, (str, int, np.integer)) and not isinstance(key, bool):
        return str(key) if isinstance(key, str) else int(key)
    raise InputTypeError(f"a column called {key!r} cannot be saved")


def _plain(value: Any) -> Any:
    """Return numbers, strings and lists of them; infinities as words, which JSON has no numbers for."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(f"a {type(value).__name__} cannot be saved")


def _lively(value: Any) -> Any:
    """Return what ``_plain`` was given, but for tuples and arrays."""
    if isinstance(value, dict):
        if set(value) == {"number"}:
            return SPECIAL[value["number"]]
        return {key: _lively(inner) for key, inner in value.items()}
    return [_lively(inner) for inner in value] if isinstance(value, list) else value


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model of a file written by ``save``.

    Raises
    ------
    ModelFileError
        If the file is truncated, of another kind or version, larger than 64 MiB, not a regular file (a folder, a
        device, a named pipe), or does not hold together. Nothing of it is executed in any case.

    See Also
    --------
    anchortm.save : writes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = atm.load(atm.save(model, os.path.join(folder, "wine.json")))
    >>> same.summary().frame().equals(model.summary().frame())
    True
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"load takes the path of a file written by save, not {path!r}")
    file = Path(path)
    try:
        text = read_bytes(file, MAX_BYTES).decode("utf-8")
    except InputError as error:
        raise ModelFileError(str(error)) from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{file} is not a model file: it is not text") from None
    if _n_values(text) > MAX_VALUES:
        raise ModelFileError(f"{file} holds more than the {MAX_VALUES} values of any model")
    try:
        record = json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)
    except (ValueError, RecursionError):
        raise ModelFileError(f"{file} is no model file, or a truncated one: it is not complete JSON") from None
    try:
        return _model(record)
    except ModelFileError as error:
        raise ModelFileError(f"{file}: {_short(error)}") from None
    except (AnchorTMError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(f"{file} does not hold together: {type(error).__name__}: {_short(error)}") from None
    except (RecursionError, MemoryError, np.linalg.LinAlgError) as error:
        raise ModelFileError(f"{file} does not hold together: {type(error).__name__}") from None


def _n_values(text: str) -> int:
    """Return how many values a JSON text has at most."""
    return sum(map(text.count, ",[{"))


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _whole(text: str) -> int:
    """Return a whole number, one that a machine has room for."""
    if len(text) > 50:
        raise ValueError(text)
    return int(text)


def _short(value: Any, most: int = 300) -> str:
    """Return a text that fits a message."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _check(condition: bool, what: str) -> None:
    if not condition:
        raise ModelFileError(what)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_parameter(value: Any) -> bool:
    return _is_number(value) and abs(value) <= LARGEST  # no infinity, and not nan


def _is_strength(value: Any) -> bool:
    return _is_parameter(value) and value >= 0.0


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(check(inner) for inner in value)


FIT: dict[str, Callable[[Any], bool]] = {
    "xi_": _is_number,
    "n_rows_": _is_count,
    "n_total_": lambda value: _is_number(value) and value > 0,
    "row_kinds_": lambda value: isinstance(value, dict) and all(_is_count(n) for n in value.values()),
    "time_": _is_flag,
    "n_anchors_": _is_count,
    "float_codes_": _list_of(_is_text),
    "dropped_anchors_": _list_of(_is_text),
    "dropped_classes_": lambda value: isinstance(value, list),
    "loglik_": _is_number,
    "loss_": _is_number,
    "penalty_": _is_strength,
    "n_iter_": _is_count,
    "converged_": _is_flag,
    "kkt_": _is_number,
    "min_eigenvalue_": _is_number,
    "active_": _list_of(_is_flag),
    "folds_": _list_of(_is_number),
    "convexity_": lambda value: value in ("global", "local", "none"),
    "lower_minima_": _list_of(_is_number),
    "warnings_": _list_of(_is_text),
    "_reason": _is_text,
    "_binary": _list_of(_is_flag),
    "_had_offset": _is_flag,
    "_alphabetical": _is_flag,
}
LATER: dict[str, Callable[[Any], bool]] = {  # not in the first files
    "covariate_ranges_": lambda value: (
        value is None or (len(value) == 2 and all(_list_of(_is_number)(v) for v in value))
    ),
    "l1_": lambda value: value is None or _is_strength(value),
    "l2_": lambda value: value is None or _is_strength(value),
    "smooth_": lambda value: value is None or _is_strength(value),
    "edf_": lambda value: value is None or (isinstance(value, dict) and all(map(_is_parameter, value.values()))),
    "atom_": lambda value: value is None or _is_number(value),
    "outcome_range_": lambda value: value is None or (len(value) == 2 and _list_of(_is_number)(value)),
    "scale_coef_": lambda value: value is None or _list_of(_is_parameter)(value),
    "scale_names_": lambda value: value is None or _list_of(_is_text)(value),
    "xi_scale_": lambda value: value is None or (_is_number(value) and value >= 0.0),
    "penalty_scale_": lambda value: value is None or _is_strength(value),
}
TUPLES = ("float_codes_", "dropped_anchors_", "dropped_classes_", "folds_")
SCHEMA: dict[str, Callable[[Any], bool]] = {
    "written_by": _is_text,
    "class": lambda value: value in CLASSES,
    "parameters": lambda value: isinstance(value, dict),
    "link": lambda value: value in KNOWN_LINKS,
    "basis": lambda value: isinstance(value, dict),
    "baseline": _list_of(_is_parameter),
    "coef": _list_of(_is_parameter),
    "coef_names": _list_of(_is_text),
    "feature_names": lambda value: value is None or _list_of(_is_text)(value),
    "n_features": _is_count,
    "fit": lambda value: isinstance(value, dict),
    "history": _list_of(lambda row: isinstance(row, dict) and all(map(_is_plain, row.values()))),
    "covariance": lambda value: value is None or isinstance(value, dict),
    "formula": lambda value: value is None or isinstance(value, dict),
    "corners": lambda value: value is None or isinstance(value, dict),
    "random": lambda value: value is None or isinstance(value, dict),
}


def _model(record: Any) -> Any:
    _check(isinstance(record, dict) and record.get("format") == FORMAT, "this is not a model of anchortm")
    version = record.get("version")
    _check(
        version == VERSION,
        f"this is a file of version {_short(repr(version), 50)}, and this anchortm ({__version__}) reads "
        f"version {VERSION}; use the anchortm that wrote it, or a newer one",
    )
    _check(record.get("sha256") == _digest(record), "it has been changed or damaged since it was written")
    return _boosted(record) if record.get("class") == BOOSTED else _fitted(record)


def _boosted(record: dict[str, Any]) -> AnchorBoostedTM:
    for key in ("parameters", "base", "model", "boosted"):
        _check(isinstance(record.get(key), dict), f"the field {key!r} is not what it should be")
    inner = _fitted(record["model"])
    given, base = (
        {key: _argument(_lively(value)) for key, value in record[part].items()} for part in ("parameters", "base")
    )
    for cls, parameters in ((AnchorBoostedTM, given), (type(inner), base)):
        unknown = sorted(set(parameters) - set(cls._get_param_names()))
        _check(not unknown, f"{cls.__name__} has no parameters {', '.join(unknown)}")
    model = AnchorBoostedTM(type(inner)(**base), **given)
    model._check_xi()
    model._check_limits()
    _check(inner.xi_ == model.xi, "the model inside has another xi")
    model._set_more(_lively(record["boosted"]), inner)
    if record["formula"] is not None:
        model.formula_ = Formula.from_state(record["formula"], len(model.coef_names_))
        columns = list(model.formula_.design_columns())
        _check(columns == model.coef_names_, "the formula does not give the covariates of the model")
    return model


def _fitted(record: dict[str, Any]) -> Any:
    record = {key: value if key == "formula" else _lively(value) for key, value in record.items()}
    record.setdefault("corners", None)  # not in the first files
    record.setdefault("random", None)
    for key, check in SCHEMA.items():
        _check(key in record, f"the field {key!r} is not there")
        _check(check(record[key]), f"the field {key!r} is not what it should be")
    cls = CLASSES[record["class"]]
    parameters = {key: _argument(value) for key, value in record["parameters"].items()}
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    _check(not unknown, f"{record['class']} has no parameters {', '.join(unknown)}")
    model = cls(**parameters)
    model._check_xi()
    model._check_limits()
    names_of_anchors = parameters.get("anchor_names")
    for what in ("anchor_names", "strata"):
        given = parameters.get(what)
        known = given is None or _list_of(lambda v: isinstance(v, (str, int)))(given)
        _check(known or isinstance(given, (str, int)), f"{what} are not names")
    _check(model._make_link().name == record["link"], f"{record['class']} does not have the link {record['link']}")
    own = parameters.get("basis")
    kind = KINDS.get(record["class"], own.kind if isinstance(own, Basis) else own)
    _check(kind == record["basis"].get("kind"), f"{record['class']} does not have such a basis")
    for special in MORE:
        _check((kind == KINDS[special.__name__]) == (cls is special), f"such a baseline belongs to {special.__name__}")
    model._corners = _corners(record["corners"], model, list(record["coef_names"]))
    model._strata_columns = model._named("strata")
    basis = _basis(record["basis"], record["baseline"], model._corners)
    theta = np.array(record["baseline"], dtype=np.float64)
    names, coef = list(record["coef_names"]), np.array(record["coef"], dtype=np.float64)
    _check(len(names) == coef.size, f"there are {coef.size} coefficients and {len(names)} names")
    model.link_, model.basis_ = LINKS.get(record["link"]) or model._make_link(), basis
    model.baseline_, model.coef_, model.coef_names_ = theta, coef, names
    if record["random"] is not None:
        model._random = RandomEffects.from_record(record["random"], names)
    _check((model.random is None) == (model._random is None), "the random effects are not those of the model")
    model.n_features_in_ = record["n_features"]
    if record["feature_names"] is not None:
        _check(len(record["feature_names"]) == record["n_features"], "the feature names are not as many as features")
        model.feature_names_in_ = np.array(record["feature_names"], dtype=object)
    if record["feature_names"] is None:  # columns go by their numbers
        numbers = [name for what in ("anchor_names", "strata") for name in model._named(what)]
        there = all(_is_number(name) and -model.n_features_in_ <= name < model.n_features_in_ for name in numbers)
        _check(there or record["formula"] is not None, "anchor_names or strata are not columns of X")
    if hasattr(basis, "support"):
        model.support_ = basis.support
    if isinstance(basis, OrdinalBasis):
        model.classes_ = basis.labels()
    for key, check in FIT.items():
        value = record["fit"][key]
        _check(check(value), f"the field {key!r} of the fit is not what it should be")
        setattr(model, key, tuple(value) if key in TUPLES else value)
    for key, check in LATER.items():
        value = record["fit"].get(key)
        _check(check(value), f"the field {key!r} of the fit is not what it should be")
        if value is not None:
            setattr(model, key, tuple(value) if key == "outcome_range_" else value)
    if hasattr(model, "covariate_ranges_"):
        model.covariate_ranges_ = np.array(model.covariate_ranges_, dtype=np.float64)
        _check(
            model.covariate_ranges_.shape == (2, len(model.covariate_names_)),
            "the ranges are not those of the covariates",
        )
    _check((model.l1_, model.l2_) == (model.l1, model.l2), "l1_ and l2_ are not those of the parameters")
    Penalty.of(0.0, 0.0, 0.0, model.penalty_factor, tuple(names), None, None)  # refuses what are no factors of these
    _check_scale(model)
    model.active_ = np.array(model.active_, dtype=bool)
    _check(len(model._binary) == len(names), "the flags of binary covariates are not as many as covariates")
    model._history, model._data = record["history"], None
    if cls in MORE:
        model._set_more(record[MORE[cls]])
    _set_covariance(model, record["covariance"])
    if record["formula"] is not None:
        _check(names_of_anchors is None, "anchors are named by the formula and by anchor_names")
        model.formula_ = Formula.from_state(record["formula"], len(names))
        columns = list(model.formula_.design_columns())
        _check(columns == model.covariate_names_, "the formula does not give the covariates of the model")
        marks = dict(zip(columns, model.formula_.marks, strict=True))
        model._marks = tuple(marks[name] for name in names)
    else:
        smoothed = model.smooth_ or model.edf_
        model._marks = marks_by_name(names, model.edf_ or None) if smoothed else (None,) * len(names)
    terms = smooth_terms(model._marks)
    _check(
        set(model.edf_) <= set(terms) and (bool(terms) or not model.smooth_),
        "the smooth terms are not those of the covariates",
    )
    return model


def _check_scale(model: Any) -> None:
    """Check that there are scale effects if the model says so, all that belong to them, and of its covariates."""
    there = [hasattr(model, name) for name in SCALED]
    _check(all(there) if model.scale is not None else not any(there), "the scale effects do not fit the parameters")
    if model.scale is not None:
        columns = scale_columns(model.scale, model.coef_names_)
        _check(
            model.scale_names_ == [model.coef_names_[j] for j in columns] and len(model.scale_coef_) == len(columns),
            "the scale effects are not those of the columns in scale",
        )
        own = model.xi_ if model.xi_scale is None else model.xi_scale
        _check(model.xi_scale_ == own, "xi_scale_ is not that of the parameters")
        model.scale_coef_ = np.array(model.scale_coef_, dtype=np.float64)
        size = np.abs(getattr(model, "covariate_ranges_", np.ones((1, len(model.coef_names_)))))
        _check(size[:, columns].max(axis=0) @ np.abs(model.scale_coef_) <= 2.0 * LARGEST_LOG, "the scale overflows")


def _argument(value: Any) -> Any:
    match value:
        case {"link": str(name)}:
            return LINKS[name]
        case {"basis": dict(record)}:
            return Basis.from_dict(record)
        case {"mapping": list(pairs)}:
            return dict(pairs)
    return value


def _corners(record: dict[str, Any] | None, model: Any, names: list[str]) -> Corners | None:
    if record is None:
        stratified = bool(model._named("strata")) and not isinstance(model, CoxPH)
        _check(not stratified and not varying_groups(model.varying), "the baselines of strata or effects are not there")
        return None
    covariates, groups = record["covariates"], record["groups"]
    _check(record["sign"] == model._sign and _list_of(_is_text)(covariates), "the corners are not those of the model")
    _check(isinstance(groups, list) and 0 < len(groups) <= MAX_GROUPS, "the corners have no groups")
    made = []
    for group in groups:
        _check(group["kind"] in ("strata", "factor", "number"), "a group of corners is of no kind we know")
        strata = group["kind"] == "strata"
        _check(_list_of(_is_text)(group["names"]) and strata == (not group["names"]), "a group has odd columns")
        labels = group["labels"]
        _check(_list_of(lambda v: isinstance(v, (str, int)))(labels) and strata == bool(labels), "odd names of strata")
        _check(known_strata(labels) == labels, "the strata are not in order")
        _check(_is_parameter(group["low"]) and _is_parameter(group["high"]), "a range is not of numbers")
        _check(group["low"] < group["high"], "a range is empty")
        own = Group(group["kind"], tuple(group["names"]), tuple(group["labels"]), group["low"], group["high"])
        _check(own.size == 2 if own.kind == "number" else own.size > 1, "a group has too few corners, or too many")
        made.append(own)
    _check(all(group.kind != "strata" for group in made[1:]), "strata come first")
    corners = Corners(tuple(made), model._sign, tuple(covariates))
    varying = corners.varying_names
    _check(len(set(varying)) == len(varying) and set(varying) <= set(covariates), "effects vary of odd columns")
    _check([name for name in covariates if name not in varying] == names, "the covariates are not all told")
    _check((corners.strata is None) == (not model._named("strata")), "the strata are not those of the model")
    _check(bool(varying) == bool(varying_groups(model.varying)), "what varies is not what the model says")
    return corners


def _basis(record: dict[str, Any], baseline: list[float], corners: Corners | None) -> Basis:
    order = record.get("order", 0)
    _check(_is_count(order) and order <= len(baseline), "the order of the basis does not fit the baseline")
    basis = Basis.from_dict(record)
    blocks = 1 if corners is None else corners.n_blocks
    wanted = blocks * basis.n_parameters
    _check(wanted == len(baseline), f"the baselines have {wanted} parameters, not {len(baseline)}")
    each = np.array(baseline, dtype=np.float64).reshape(blocks, -1)
    line = basis.kind in ("linear", "log-linear")  # intercept and slope
    steps = each[:, 1:] if line else np.diff(each)
    if corners is None and line:
        rising = steps[0, 0] > 0.0
    else:  # rounding may leave steps below 0 by a few units in the last place of their ends
        size = np.abs(each).sum(axis=0)
        rising = ((steps[0] if corners is None else corners.least(steps)) >= -1e-12 * (size[1:] + size[:-1])).all()
    _check(bool(rising), "the baseline decreases")
    return basis


def _set_covariance(model: Any, record: dict[str, Any] | None) -> None:
    model._information = model._jacobian = model._fixed = model._sandwich = None
    if record is None:
        return
    k, d = model.active_.size, model.baseline_.size + model._others.size
    for key, shape in {"information": (k, k), "fixed": (k,), "jacobian": (d, k), "sandwich": (d, d)}.items():
        if record[key] is None and (key == "sandwich" or model.l1_ or model._ridged):
            continue
        part = np.array(record[key], dtype=np.float64)
        _check(part.shape == shape, f"the field {key!r} has the shape {part.shape}, not {shape}")
        setattr(model, f"_{key}", part.astype(bool) if key == "fixed" else part)
