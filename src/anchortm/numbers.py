"""Numbers that users give: what they are checked for, in the same words everywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError, InputTypeError
from anchortm.frames import native

__all__ = [
    "check_weights",
    "finite_numbers",
    "flag",
    "generator",
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

Array = NDArray[np.float64]


def is_numeric(value: Any) -> bool:
    """Return whether a value is a finite number, or text that reads as one."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def odd_entry(values: Any) -> str:
    """Return the first entry that is no number, and its row, as a message shows them."""
    words = {k: value for k, value in enumerate(values) if isinstance(value, (str, bytes)) or not is_numeric(value)}
    row = next((k for k, value in words.items() if isinstance(value, (str, bytes)) and not is_numeric(value)), None)
    row = next(iter(words), 0) if row is None else row
    entry = values[row]
    shown = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return f"{shown if len(shown) < 100 else shown[:100] + '...'} at row {row}"


def real_numbers(values: Any, name: str) -> Array:
    """Return real numbers as an array of their shape; words are refused even where they spell numbers."""
    values = native(values)
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    kinds = {type(x) for x in array.ravel()} if array.dtype.kind == "O" else set()
    if array.dtype.kind in "biufO" and not any(issubclass(k, (str, bytes, complex, type(None))) for k in kinds):
        try:
            return np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    shown = odd_entry(array.ravel()) if array.size else str(array.dtype)
    raise InputTypeError(f"{name} must be numbers, not {shown}; turn it into numbers, for example with astype(float)")


def finite_numbers(values: Any, n: int, name: str) -> Array:
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
        raise InputError(f"{name} is {array[row]} at row {row}; it must be finite: drop or mend such rows")
    return np.asarray(array)


def check_weights(sample_weight: Any, n: int, zeros: bool = False) -> Array | None:
    """Return weights as numbers, None where all are 1; refuse negative ones and, unless ``zeros``, all zeros."""
    if sample_weight is None:
        return None
    weights = finite_numbers(sample_weight, n, "sample_weight")
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise InputError(
            f"sample_weight is negative: {weights[row]} at row {row}; weights replicate rows, 0 drops them"
        )
    if not zeros and not weights.any():
        raise InputError("all sample weights are zero: at least one row must count")
    return None if (weights == 1.0).all() else weights


def one_number(value: Any, name: str) -> float:
    """Return a number that is neither True nor False nor a word."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputTypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def whole_number(value: Any, name: str, least: int) -> int:
    """Return a whole number that is not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """Return True or False; other things have a truth too, and it need not be what was meant."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def jobs(n_jobs: Any) -> int | None:
    """Return a number of workers as joblib takes it: None for 1, -1 for all cores."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be a whole number other than 0 (-1: all cores) or None, not {n_jobs!r}")
    return int(n_jobs)


def level_between(value: Any, name: str = "level", ends: bool = False) -> float:
    """Return a probability strictly between 0 and 1, or with ``ends`` one of them."""
    share = one_number(value, name)
    if not (0.0 <= share <= 1.0 if ends else 0.0 < share < 1.0):
        raise InputError(f"{name} must be a number {'from 0 to 1' if ends else 'between 0 and 1'}, not {value!r}")
    return share


def several_xi(xis: Any) -> list[float]:
    """Return strengths of the penalty; a single one is a sequence of one."""
    try:
        values = np.atleast_1d(real_numbers(xis, "xis"))
    except InputTypeError:
        values = np.zeros(0)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"xis must be a sequence of at least one number, such as [0, 1, 10], not {xis!r}")
    return [float(xi) for xi in values]


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator of random numbers from a seed, a generator or None."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"random_state must be a whole number from 0, a numpy Generator or None, not {random_state!r}"
        ) from None


def probabilities(q: Any) -> Array:
    """Return numbers between 0 and 1."""
    values = real_numbers(q, "q")
    wrong = (values < 0) | (values > 1)
    if wrong.any():
        raise InputError(f"probabilities must lie in [0, 1], not {values[wrong][0]:g}")
    return values
