"""Records of scikit-learn's transformers: their class by name, arguments, and what their fit has found as plain values.

Classes come from the list below, never from a file, and a file holds no functions. A transformer is made by its own
constructor, and gets back the arrays, numbers and words of its fit.
"""

from __future__ import annotations

import math
from collections import UserList
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.interpolate import BSpline

from anchortm._util.plain_values import SPECIAL, check, is_count, is_number, is_text, list_of
from anchortm.exceptions import InputTypeError
from anchortm.models.pipeline import Pipeline

__all__ = ["CLASSES", "transformer_of", "transformer_record"]

CLASSES = {  # name -> module; all that these hold are parameters and values, no functions
    **dict.fromkeys(
        (
            *("Binarizer", "FunctionTransformer", "KBinsDiscretizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer"),
            *("OneHotEncoder", "OrdinalEncoder", "PolynomialFeatures", "PowerTransformer", "QuantileTransformer"),
            *("RobustScaler", "SplineTransformer", "StandardScaler"),
        ),
        "sklearn.preprocessing",
    ),
    "MissingIndicator": "sklearn.impute",
    "SimpleImputer": "sklearn.impute",
    "VarianceThreshold": "sklearn.feature_selection",
    "PCA": "sklearn.decomposition",
    "ColumnTransformer": "sklearn.compose",
    "FeatureUnion": "sklearn.pipeline",
    "Pipeline": "sklearn.pipeline",
}
NOT_KEPT = {"memory", "n_jobs", "random_state", "verbose"}  # arguments that do not change what new rows become
KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
# what has one entry for each column of X
BY_COLUMN = (
    *("mean_", "var_", "scale_", "center_", "min_", "data_min_", "data_max_", "data_range_", "max_abs_"),
    *("statistics_", "lambdas_", "categories_", "bsplines_", "bin_edges_", "n_bins_", "variances_"),
    "feature_names_in_",
)
MAX_COLUMNS = 1_000_000  # columns that products of columns may become


def transformer_record(transformer: Any) -> Any:
    """Return the record of a transformer of a pipeline, fitted or not; refuse one that a file cannot hold."""
    if transformer is None or transformer in ("passthrough", "drop"):
        return transformer
    name = type(transformer).__name__
    if CLASSES.get(name) is None or type(transformer) not in (_class(name), Pipeline):
        raise InputTypeError(
            f"{name} cannot be saved, only {', '.join(sorted(CLASSES))}: transform X before the pipeline, or use pickle"
        )
    arguments = transformer.get_params(deep=False)
    found = {key: value for key, value in vars(transformer).items() if key not in arguments}
    if name == "ColumnTransformer" and "_columns" in found:  # a function that chose the columns has done so
        chosen = zip(arguments["transformers"], found["_columns"], strict=True)
        arguments["transformers"] = [(key, inner, columns) for (key, inner, _), columns in chosen]
    kept = {key: value for key, value in arguments.items() if key not in NOT_KEPT}
    return {
        "class": name,
        "arguments": {key: _plain(value, f"{key} of {name}") for key, value in kept.items()},
        "found": {key: _plain(value, f"{key} of {name}") for key, value in found.items()},
    }


def transformer_of(record: Any) -> Any:
    """Return the transformer from a record, after checking it."""
    if record is None or record in ("passthrough", "drop"):
        return record
    fields = {"class", "arguments", "found"}
    check(isinstance(record, dict) and set(record) == fields, "the record of a transformer is invalid")
    name, arguments, found = record["class"], record["arguments"], record["found"]
    check(isinstance(name, str) and name in CLASSES, "a transformer has a class that is not allowed in files")
    check(isinstance(arguments, dict) and isinstance(found, dict), f"the record of {name} is invalid")
    cls = _class(name)
    unknown = set(arguments) - (set(signature(cls).parameters) - NOT_KEPT)
    check(not unknown, f"{name} has no arguments {', '.join(sorted(unknown))}")
    made = cls(**{key: _lively(value) for key, value in arguments.items()})
    values = {key: _lively(value) for key, value in found.items()}
    for key in values:  # nothing may take the place of a method
        check(key.isidentifier() and not hasattr(made, key), f"{name} cannot have the fitted attribute {key!r}")
    _check_sizes(name, values)
    made.__dict__.update(values)
    return made


def _class(name: str) -> type[Any]:
    cls: type[Any] = getattr(import_module(CLASSES[name]), name)
    return cls


def _check_sizes(name: str, found: dict[str, Any]) -> None:
    """Refuse what does not have the size that the columns of X ask for."""
    n = found.get("n_features_in_")
    check(n is None or (is_count(n) and n <= MAX_COLUMNS), f"the number of columns of {name} is invalid")
    for key in BY_COLUMN:
        value = found.get(key)
        if n is not None and value is not None:
            sized = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
            check(sized and len(value) == n, f"{key} of {name} does not match its {n} columns")
    degree = found.get("_max_degree")
    if degree is not None:
        check(is_count(degree) and degree <= 100 and is_count(n), f"the degree of {name} is invalid")
        check(math.comb((n or 0) + degree, degree) <= MAX_COLUMNS, f"{name} makes too many columns")


def _plain(value: Any, what: str) -> Any:
    """Return an argument or a finding as JSON values that say what they are."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, (list, UserList)):
        return [_plain(inner, what) for inner in (value.data if isinstance(value, UserList) else value)]
    for tag, (fits, away, _) in VALUES.items():
        if fits(value):
            return {tag: away(value, what)}
    raise InputTypeError(
        f"{what} cannot be saved, because it is of type {type(value).__name__}: use arguments that are numbers, text "
        "or lists, or pickle"
    )


def _lively(value: Any) -> Any:
    """Return what ``_plain`` was given."""
    if isinstance(value, list):
        return [_lively(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    check(len(value) == 1, "a value of a transformer is invalid")
    ((tag, inner),) = value.items()
    check(tag in VALUES or tag == "number", "a value of a transformer has an unknown kind")
    return SPECIAL[inner] if tag == "number" else VALUES[tag][2](inner)


def _array_record(value: Any, what: str) -> Any:
    array = np.asarray(value)
    kind = "str" if array.dtype.kind == "U" else array.dtype.name
    if kind not in (*KINDS, "str", "object"):
        raise InputTypeError(f"{what} cannot be saved, because it holds values of type {array.dtype}: use pickle")
    # products of matrices round differently if their columns, not their rows, lie side by side
    order: Literal["C", "F"] = "F" if array.ndim > 1 and array.flags.f_contiguous else "C"
    values = [_plain(v, what) for v in array.ravel(order).tolist()]
    return {"kind": kind, "shape": list(array.shape), "order": order, "values": values}


def _array(record: Any) -> Any:
    check(isinstance(record, dict) and set(record) == {"kind", "shape", "order", "values"}, "an array is invalid")
    kind, shape, order, values = (record[key] for key in ("kind", "shape", "order", "values"))
    check(isinstance(kind, str) and kind in (*KINDS, "str", "object"), "an array has an invalid type")
    check(list_of(is_count)(shape) and order in ("C", "F") and isinstance(values, list), "an array is invalid")
    check(math.prod(shape) == len(values), "an array does not have the size that it claims")
    items = [_lively(v) for v in values]
    test: Callable[[Any], bool] = {"str": is_text, "bool": lambda v: isinstance(v, bool)}.get(kind, is_number)
    check(kind == "object" or all(map(test, items)), "an array has values of another type")
    if kind == "object":
        known = (bool, int, float, str, np.ndarray, np.generic)
        check(all(v is None or isinstance(v, known) for v in items), "an array has values of another type")
        array = np.empty(len(items), dtype=object)
        for k, item in enumerate(items):  # one by one: items may be arrays, as the edges of bins are
            array[k] = item
    else:
        array = np.array(items, dtype=kind)
    return array.reshape(shape, order=order)


def _pairs(record: Any) -> dict[Any, Any]:
    pair = lambda v: isinstance(v, list) and len(v) == 2 and isinstance(v[0], (str, int))  # noqa: E731
    check(list_of(pair)(record), "a mapping is invalid")
    return {key: _lively(inner) for key, inner in record}


def _tuple(record: Any) -> tuple[Any, ...]:
    check(isinstance(record, list), "a tuple is invalid")
    return tuple(_lively(inner) for inner in record)


def _slice(record: Any) -> slice:
    ends = isinstance(record, list) and len(record) == 3 and all(v is None or isinstance(v, (int, str)) for v in record)
    check(ends, "a range of columns is invalid")
    return slice(*record)


def _dtype(record: Any) -> np.dtype[Any]:
    check(isinstance(record, str) and record in (*KINDS, "object"), "a type of numbers is invalid")
    dtype: np.dtype[Any] = np.dtype(record)
    return dtype


def _dtype_record(value: Any, what: str) -> str:
    name: str = np.dtype(value).name
    if name not in (*KINDS, "object"):
        raise InputTypeError(f"{what} cannot be saved, because it is the type {name}: use pickle")
    return name


def _spline(record: Any) -> BSpline:
    check(isinstance(record, list) and len(record) == 4, "a spline is invalid")
    knots, coefficients, degree, extrapolate = (_lively(part) for part in record)
    sized = isinstance(knots, np.ndarray) and isinstance(coefficients, np.ndarray)
    check(sized and is_count(degree) and extrapolate in (True, False, "periodic"), "a spline is invalid")
    return BSpline(knots, coefficients, degree, extrapolate=extrapolate)


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


Away: TypeAlias = Callable[[Any, str], Any]
Back: TypeAlias = Callable[[Any], Any]
# kinds of values that JSON does not have: how to recognise, write and read them
VALUES: dict[str, tuple[Callable[[Any], bool], Away, Back]] = {
    "array": (lambda v: isinstance(v, np.ndarray), _array_record, _array),
    "scalar": (lambda v: isinstance(v, np.generic), _array_record, lambda record: _array(record)[()]),
    "tuple": (lambda v: isinstance(v, tuple), lambda v, what: [_plain(inner, what) for inner in v], _tuple),
    "mapping": (
        lambda v: isinstance(v, dict) and all(isinstance(key, (str, int)) for key in v),
        lambda v, what: [[key, _plain(inner, what)] for key, inner in v.items()],
        _pairs,
    ),
    "slice": (lambda v: isinstance(v, slice), lambda v, _: [v.start, v.stop, v.step], _slice),
    "dtype": (lambda v: isinstance(v, np.dtype), _dtype_record, _dtype),
    "type": (
        lambda v: isinstance(v, type) and issubclass(v, np.generic),
        _dtype_record,
        lambda record: _dtype(record).type,
    ),
    "spline": (
        lambda v: isinstance(v, BSpline),
        lambda v, what: [_plain(part, what) for part in (v.t, v.c, v.k, v.extrapolate)],
        _spline,
    ),
    "transformer": (_is_estimator, lambda v, _: transformer_record(v), transformer_of),
}
