"""Covariates: a frame or an array in, a float64 matrix and column names out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError, InputTypeError
from anchortm.frames import is_frame, native
from anchortm.response import is_missing

__all__ = ["Design", "check_columns", "split_anchors", "to_design", "without_anchors"]

Array = NDArray[np.float64]


class Design(NamedTuple):
    """A matrix of covariates and their names; ``named`` says whether the user named them."""

    matrix: Array
    names: tuple[str, ...]
    named: bool


def to_design(X: Any, n_rows: int | None = None) -> Design:
    """Return the covariates as numbers; ``None`` is a design without columns."""
    X = native(X)
    if X is None:
        if n_rows is None:
            raise InputError("X is None: the number of rows is not known")
        return Design(np.zeros((n_rows, 0)), (), False)
    if is_frame(X):
        names = tuple(X.columns)
        columns = [_numeric(X[name], str(name)) for name in names]
        matrix = np.column_stack(columns) if columns else np.zeros((X.shape[0], 0))
        _unique(names)
        return Design(matrix, tuple(map(str, names)), all(isinstance(name, str) for name in names))
    matrix = _matrix(X)
    names = tuple(f"x{j}" for j in range(matrix.shape[1]))
    _finite(matrix, names)
    return Design(matrix, names, False)


def _unique(names: Sequence[Any]) -> None:
    doubled = sorted({str(name) for name in names if list(names).count(name) > 1})
    if doubled:
        raise InputError(f"column names occur more than once: {', '.join(doubled)}; rename them")


def _matrix(X: Any) -> Array:
    if hasattr(X, "toarray"):
        raise InputTypeError("sparse X is not supported: pass a dense array, X.toarray()")
    array = np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {array.ndim}D array instead: X must have rows and columns. "
            "Reshape your data with X.reshape(-1, 1) if it is one covariate"
        )
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: covariates must be real numbers")
    if array.dtype.kind not in "biuf":
        array = _objects(array, "X")
    return np.ascontiguousarray(array, dtype=np.float64)


def _objects(values: NDArray[Any], what: str) -> Array:
    """Return an array of numbers in objects as floats; refuse strings, time stamps and the like."""
    if values.dtype.kind == "O":
        flat = [math.nan if is_missing(x) else x for x in values.ravel()]
        wrong = [x for x in flat if isinstance(x, (str, bytes)) or not hasattr(x, "__float__")]
        if not wrong:
            return np.array(flat, dtype=np.float64).reshape(values.shape)
        example = wrong[0]
    else:
        example = values.flat[0]
    raise InputTypeError(
        f"{what} is not numeric: an argument must be no string but a number (here are values like {example!r}); "
        "code it as numbers, for example with pd.get_dummies, or give it as an anchor"
    )


def _numeric(column: Any, name: str) -> Array:
    if hasattr(column, "cat") and hasattr(column.cat, "codes"):
        raise InputTypeError(f"covariate {name!r} is a category: code it as numbers, for example with pd.get_dummies")
    values = column.to_numpy()
    if values.ndim != 1:
        raise InputError(f"column names occur more than once: {name}; rename them")
    if values.dtype.kind not in "biuf":
        values = _objects(values, f"covariate {name!r}")
    numbers: Array = values.astype(np.float64)
    _finite(numbers[:, None], (name,))
    return numbers


def _finite(matrix: Array, names: Sequence[str]) -> None:
    if np.isfinite(matrix).all():
        return
    what, wrong = ("NaN: missing values", np.isnan(matrix))
    if not wrong.any():
        what, wrong = ("infinity", np.isinf(matrix))
    columns, row = np.flatnonzero(wrong.sum(axis=0)).tolist(), int(np.flatnonzero(wrong.sum(axis=1))[0])
    listed = ", ".join(names[j] for j in columns)
    raise InputError(f"X contains {what} in {listed}, first at row {row}; drop or impute such rows")


def check_columns(design: Design, names: Sequence[str], named: bool, model: str) -> None:
    """Refuse a design whose columns are not those of the fit."""
    if design.matrix.shape[1] != len(names):
        raise InputError(
            f"X has {design.matrix.shape[1]} features, but {model} is expecting {len(names)} features as input: "
            f"{', '.join(names) or 'none'}"
        )
    if named and design.named and tuple(design.names) != tuple(names):
        raise InputError(
            "The feature names should match those that were passed during fit: "
            f"expected {', '.join(names)}; got {', '.join(design.names)}; select them by name, in this order"
        )


def split_anchors(X: Any, names: Sequence[Any]) -> tuple[Any, Any]:
    """Return X without the anchor columns, and these columns."""
    if X is None:
        raise InputError("anchor_names are columns of X, but X is None")
    X = native(X)
    if is_frame(X):
        unknown = [str(name) for name in names if name not in list(X.columns)]
        if unknown:
            listed = ", ".join(map(str, X.columns))
            raise InputError(f"anchor_names not in X: {', '.join(unknown)}; its columns are {listed}")
        rest = [name for name in X.columns if name not in list(names)]
        return X[rest], X[list(names)]
    matrix = np.asarray(X)
    if not all(isinstance(name, (int, np.integer)) and 0 <= name < matrix.shape[1] for name in names):
        raise InputError(f"anchor_names must be column positions from 0 to {matrix.shape[1] - 1} when X is an array")
    return np.delete(matrix, list(names), axis=1), matrix[:, list(names)]


def without_anchors(X: Any, names: Sequence[Any], covariates: Sequence[str], n_columns: int) -> Any:
    """Return the covariates of X for a prediction: a new place need not have the anchors."""
    X = native(X)
    if is_frame(X):
        kept = [name for name in X.columns if name not in list(names)]
        return X[kept]
    matrix = np.asarray(X)
    if matrix.ndim == 2 and matrix.shape[1] == n_columns:
        return np.delete(matrix, list(names), axis=1)
    return matrix  # as many columns as covariates, or an error that says so
