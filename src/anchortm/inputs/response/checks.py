"""Columns of an outcome as numbers: one-dimensional, complete, of one length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.checks import as_floats, is_missing
from anchortm._util.frames import native
from anchortm.exceptions import InputError, MissingValueError

__all__ = ["as_numbers", "one_column", "refuse", "refuse_missing", "same_length"]


def one_column(values: object, what: str) -> NDArray[Any]:
    """Return values as a one-dimensional NumPy array, whatever container they came in."""
    values = native(values)
    if hasattr(values, "to_numpy"):
        array = values.to_numpy()
    elif isinstance(values, Iterable) and not hasattr(values, "__array__"):
        array = np.asarray(list(values))
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        hint = "; for censored times pass Surv(time, event)" if array.ndim == 2 and array.shape[1] == 2 else ""
        raise InputError(f"{what} must be one-dimensional, not of shape {array.shape}{hint}")
    if array.size == 0:
        raise InputError(f"{what} is empty: at least one row is needed")
    return np.asarray(array)


def refuse(
    bad: NDArray[np.bool_],
    values: NDArray[Any],
    what: str,
    problem: str,
    remedy: str,
    kind: type[InputError] = InputError,
) -> None:
    """Raise an error that names the first bad row and its value."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        more = int(bad.sum()) - 1
        others = f" (and {more} more)" if more else ""
        raise kind(f"{what} {problem}: {values[row]!s} at row {row}{others}; {remedy}")


def refuse_missing(missing: NDArray[np.bool_], values: NDArray[Any], what: str, kind: str = "value") -> None:
    """Raise an error that names the first missing value."""
    refuse(missing, values, what, f"has a missing {kind}", "drop or impute such rows", MissingValueError)


def as_numbers(values: object, what: str, infinite: bool = False) -> Array:
    """Return values as float64; refuse strings, missing values and (by default) infinities."""
    array = one_column(values, what)
    if array.dtype.kind == "O":
        missing = np.array([is_missing(x) for x in array])
        refuse_missing(missing, array, what)
    numbers = as_floats(array, what, "turn it into numbers, or drop such rows")
    if array.dtype.kind in "biu":
        return numbers
    refuse_missing(np.isnan(numbers), array, what)
    if not infinite:
        refuse(np.isinf(numbers), array, what, "is infinite", "for a censored outcome use Surv or Interval")
    return numbers


def same_length(n: int, **columns: Array | None) -> None:
    """Refuse columns that do not have n rows."""
    for name, values in columns.items():
        if values is not None and values.size != n:
            raise InputError(f"{name} has {values.size} rows where {n} are expected: give one value for each row")
