"""What terms of a formula learned from data, in the types of JSON, and checks of such records in files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputTypeError

__all__ = ["alike", "decode", "encode"]

LARGEST = 1e200  # number in a saved transform


def encode(value: Any) -> Any:
    """Return a state of formulaic's in the types of JSON; dictionaries become pairs, since keys may be numbers."""
    if isinstance(value, dict):
        return {"pairs": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(f"a formula with a state of type {type(value).__name__} cannot be saved")


def decode(value: Any) -> Any:
    """Return a state of formulaic's from what ``encode`` made of it."""
    if isinstance(value, dict):
        if "array" in value:
            return np.array(value["array"], dtype=np.float64)
        return {decode(k): decode(v) for k, v in value["pairs"]}
    return [decode(v) for v in value] if isinstance(value, list) else value


def alike(a: Any, b: Any, name: Any = "") -> bool:
    """Return whether state b has the structure of state a, with reasonable numbers and knots in order."""
    if isinstance(a, dict):
        return isinstance(b, dict) and set(a) == set(b) and all(alike(a[key], b[key], key) for key in a)
    if isinstance(a, (list, tuple, np.ndarray)):
        same = isinstance(b, (list, np.ndarray)) and np.shape(a) == np.shape(b)
        return same and _reasonable(np.asarray(b), increasing=name == "knots")
    if a is None or isinstance(a, (str, bool, np.bool_)):
        return type(b) is type(a) if a is None else bool(a == b)
    return isinstance(b, (int, float)) and not isinstance(b, bool) and abs(b) <= LARGEST


def _reasonable(values: NDArray[Any], increasing: bool) -> bool:
    """Return whether these are numbers of a reasonable size, and in order where they must be."""
    if values.dtype.kind not in "iuf" or not (np.abs(values.astype(np.float64)) <= LARGEST).all():
        return False
    return not increasing or bool((np.diff(values) >= 0).all())
