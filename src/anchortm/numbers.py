"""Weights and offsets: one finite number for each row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError, InputTypeError
from anchortm.frames import native

__all__ = ["check_weights", "finite_numbers", "is_numeric", "odd_entry"]

Array = NDArray[np.float64]


def is_numeric(value: Any) -> bool:
    """Return whether a value is a finite number, or text that reads as one."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def odd_entry(values: Any) -> str:
    """Return the first entry that is no number, and its row, as a message shows them."""
    row = next((k for k, value in enumerate(values) if not is_numeric(value)), 0)
    shown = repr(values[row])
    return f"{shown if len(shown) < 100 else shown[:100] + '...'} at row {row}"


def finite_numbers(values: Any, n: int, name: str) -> Array:
    """Return values as n finite numbers; a single one counts for all rows."""
    values = native(values)
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        shown = odd_entry(array) if array.ndim == 1 else str(array.dtype)
        raise InputTypeError(f"{name} must be numbers, not {shown}") from None
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise InputError(f"{name} has shape {array.shape}, expected ({n},): sample_weight and offset must be 1D array")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"{name} is {array[row]} at row {row}; it must be finite")
    return np.asarray(array)


def check_weights(sample_weight: Any, n: int, zeros: bool = False) -> Array | None:
    """Return weights as numbers, None where all are 1; refuse negative ones and, unless ``zeros``, all zeros."""
    if sample_weight is None:
        return None
    weights = finite_numbers(sample_weight, n, "sample_weight")
    if (weights < 0.0).any():
        row = int(np.flatnonzero(weights < 0.0)[0])
        raise InputError(f"sample_weight is negative: {weights[row]} at row {row}; weights replicate rows")
    if not zeros and not weights.any():
        raise InputError("all sample weights are zero: at least one row must count")
    return None if (weights == 1.0).all() else weights
