"""Checks of numbers that users pass, with the same messages everywhere."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any, NoReturn, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.frames import native
from anchortm.exceptions import InputError, InputTypeError, MissingValueError

__all__ = [
    "as_floats",
    "check_total_weight",
    "check_weights",
    "finite_numbers",
    "flag",
    "generator",
    "is_missing",
    "is_numeric",
    "jobs",
    "level_between",
    "odd_entry",
    "one_number",
    "probabilities",
    "real_numbers",
    "several_xi",
    "whole_number",
]

LEAST_WEIGHT = 1e-300  # smallest sum of the weights of all rows
TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
TIME_REMEDY = "turn it into numbers, such as days since a date"


def is_numeric(value: object) -> bool:
    """Return whether a value is a finite number, or text that reads as one."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def is_missing(x: object) -> bool:
    """Return whether x stands for a missing value."""
    return x is None or type(x).__name__ in ("NAType", "NaTType") or (isinstance(x, float) and x != x)


def odd_entry(values: Sequence[object] | NDArray[Any], width: int = 1) -> str:
    """Return the first entry that is not a number and its row, where a row has ``width`` entries, for a message."""
    words = {k: value for k, value in enumerate(values) if isinstance(value, (str, bytes)) or not is_numeric(value)}
    row = next((k for k, value in words.items() if isinstance(value, (str, bytes)) and not is_numeric(value)), None)
    row = next(iter(words), 0) if row is None else row
    return f"{_shown(values[row])} at row {row // width}"


def _shown(entry: object) -> str:
    """Return an entry as text for a message."""
    if isinstance(entry, (*TIMES, complex)):
        return str(entry)
    shown = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return shown if len(shown) < 100 else shown[:100] + "..."


def as_floats(array: NDArray[Any], what: str, remedy: str, problem: str = "must be numbers, not {entry}") -> Array:
    """Return real numbers of any type as doubles of the same shape; refuse everything else.

    ``problem`` and ``remedy`` are the words of the error; times and complex numbers have their own remedies.
    """
    if array.dtype.kind in "biuf":
        return np.asarray(array, dtype=np.float64)
    found = _from_objects(array, what) if array.dtype.kind == "O" else None
    if found is None:
        _refuse_entries(array, what, remedy, problem)
    return found


def _width(array: NDArray[Any]) -> int:
    """Return the number of entries in a row."""
    return int(array.shape[1]) if array.ndim == 2 else 1


def _from_objects(array: NDArray[Any], what: str) -> Array | None:
    """Return objects that are real numbers as doubles, None if some are not."""
    if not all(map(_is_real, array.ravel())):
        return None
    try:
        return array.astype(np.float64)
    except OverflowError:
        row = next(k for k, x in enumerate(array.ravel()) if _overflows(x)) // _width(array)
        raise InputError(
            f"{what} has a number beyond 1.8e308 at row {row}, too large for a double: rescale it"
        ) from None
    except (TypeError, ValueError):
        return None


def _refuse_entries(array: NDArray[Any], what: str, remedy: str, problem: str) -> NoReturn:
    """Raise an error that names the first entry that is not a real number."""
    entries = array.ravel()
    if array.dtype.kind == "c" or any(isinstance(x, (complex, np.complexfloating)) for x in entries):
        raise InputError(
            f"Complex data not supported: {what} must be real numbers; take the real part or the absolute value"
        )
    if array.dtype.kind in "mM" or any(isinstance(x, TIMES) or type(x).__name__ == "Period" for x in entries):
        problem, remedy = problem.replace("{entry}", "the time stamp {entry}"), TIME_REMEDY
    lost = any(x is None for x in entries)
    remedy = "drop or impute such rows" if lost else remedy
    entry = odd_entry(entries, _width(array)) if array.size else str(array.dtype)
    kind = MissingValueError if lost and array.ndim else InputTypeError  # None in place of a column is another type
    raise kind(f"{what} {problem.format(entry=entry)}; {remedy}")


def _is_real(x: object) -> bool:
    """Return whether an object converts itself to a real number; text does not count."""
    return hasattr(x, "__float__") and not isinstance(x, (str, bytes, complex, np.complexfloating))


def _overflows(x: SupportsFloat) -> bool:
    """Return whether a number is too large for a double."""
    try:
        float(x)
    except OverflowError:
        return True
    return False


def real_numbers(values: object, name: str) -> Array:
    """Return real numbers as an array of their shape; text is refused, also where it reads as a number."""
    values = native(values)
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    return as_floats(array, name, "turn it into numbers, for example with astype(float)")


def finite_numbers(values: object, n: int, name: str) -> Array:
    """Return values as n finite numbers; a single one counts for all rows."""
    array = real_numbers(values, name)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise InputError(
            f"{name} has shape {array.shape}, expected ({n},): sample_weight and offset must be 1D array, "
            "with one number for each row"
        )
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        kind = MissingValueError if np.isnan(array).any() else InputError
        raise kind(f"{name} is {array[row]} at row {row}; it must be finite: drop or repair such rows")
    return np.asarray(array)


def check_weights(sample_weight: object, n: int, zeros: bool = False) -> Array | None:
    """Return weights as numbers, None where all are 1; refuse negative ones and, unless ``zeros``, all zeros."""
    if sample_weight is None:
        return None
    weights = finite_numbers(sample_weight, n, "sample_weight")
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise InputError(
            f"sample_weight is negative: {weights[row]} at row {row}; weights replicate rows, 0 drops them"
        )
    if not zeros:
        with np.errstate(over="ignore"):
            check_total_weight(float(weights.sum()))
    return None if (weights == 1.0).all() else weights


def check_total_weight(total: float) -> None:
    """Refuse weights whose sum is zero, or outside what products of doubles can hold."""
    if total == 0.0:
        raise InputError("all sample weights are zero: at least one row must count")
    if not LEAST_WEIGHT <= total < math.inf:
        raise InputError(
            f"sample_weight sums to {total:.3g}, beyond the range of doubles: divide the weights by their mean"
        )


def one_number(value: object, name: str) -> float:
    """Return a number; refuse True, False and text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputTypeError(f"{name} must be a number, not {value!r}")
    if _overflows(value):
        raise InputError(f"{name} is beyond 1.8e308, too large for a double: use a smaller number, or math.inf")
    return float(value)


def whole_number(value: object, name: str, least: int) -> int:
    """Return a whole number that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def flag(value: object, name: str) -> bool:
    """Return True or False; refuse other values, whose truth may not be what was meant."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def jobs(n_jobs: object) -> int | None:
    """Return a number of workers as joblib takes it: None for 1, -1 for all cores."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be a whole number other than 0 (-1: all cores) or None, not {n_jobs!r}")
    return int(n_jobs)


def level_between(value: object, name: str = "level", ends: bool = False) -> float:
    """Return a probability strictly between 0 and 1, or with ``ends`` one of them."""
    share = one_number(value, name)
    if not (0.0 <= share <= 1.0 if ends else 0.0 < share < 1.0):
        raise InputError(f"{name} must be a number {'from 0 to 1' if ends else 'between 0 and 1'}, not {value!r}")
    return share


def several_xi(xis: object) -> list[float]:
    """Return strengths of the penalty; a single one is a sequence of one."""
    try:
        values = np.atleast_1d(real_numbers(xis, "xis"))
    except InputTypeError:
        values = np.zeros(0)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"xis must be a sequence of at least one number, such as [0, 1, 10], not {xis!r}")
    return [float(xi) for xi in values]


def generator(random_state: object) -> np.random.Generator:
    """Return a generator of random numbers from a seed, a generator or None."""
    try:
        return np.random.default_rng(random_state)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputTypeError(
            f"random_state must be a whole number from 0, a numpy Generator or None, not {random_state!r}"
        ) from None


def probabilities(q: object) -> Array:
    """Return numbers between 0 and 1."""
    values = real_numbers(q, "q")
    wrong = (values < 0) | (values > 1)
    if wrong.any():
        raise InputError(f"probabilities must lie in [0, 1], not {values[wrong][0]:g}")
    return values
