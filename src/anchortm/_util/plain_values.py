"""Values as JSON has them, and back: numbers, words, lists and mappings of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anchortm.exceptions import InputTypeError, ModelFileError

__all__ = [
    "LARGEST",
    "SPECIAL",
    "check",
    "is_count",
    "is_flag",
    "is_label",
    "is_number",
    "is_parameter",
    "is_plain",
    "is_strength",
    "is_text",
    "list_of",
    "lively",
    "plain",
]

LARGEST = 1e200  # parameter: what is computed with it stays a number
SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def plain(value: Any) -> Any:
    """Return numbers, strings and lists of them; infinities as words, which JSON has no numbers for."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(f"a {type(value).__name__} cannot be saved")


def lively(value: Any) -> Any:
    """Return what ``plain`` was given, except that tuples and arrays are lists."""
    if isinstance(value, dict):
        if set(value) == {"number"}:
            return SPECIAL[value["number"]]
        return {key: lively(inner) for key, inner in value.items()}
    return [lively(inner) for inner in value] if isinstance(value, list) else value


def check(condition: bool, what: str) -> None:
    """Refuse a file whose contents do not fit together."""
    if not condition:
        raise ModelFileError(what)


def is_number(value: Any) -> bool:
    """Return whether a value is a number, infinite ones included."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_parameter(value: Any) -> bool:
    """Return whether a value can be a parameter: finite, and not so large that sums overflow."""
    return is_number(value) and abs(value) <= LARGEST


def is_strength(value: Any) -> bool:
    """Return whether a value can be the strength of a penalty."""
    return is_parameter(value) and value >= 0.0


def is_plain(value: Any) -> bool:
    """Return whether a value is a single one."""
    return value is None or isinstance(value, (bool, int, float, str))


def is_text(value: Any) -> bool:
    """Return whether a value is a word."""
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false."""
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_label(value: Any) -> bool:
    """Return whether a value names a level or a column."""
    return isinstance(value, (str, int))


def list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test of lists by a test of their members."""
    return lambda value: isinstance(value, list) and all(test(inner) for inner in value)
