"""The closed list of questions that a site answers, and what their fields must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.plain_values import is_count, is_flag, is_parameter, is_strength, is_text, list_of
from anchortm.federated.recipe import FIELDS
from anchortm.federated.wire import Message, WireError

__all__ = ["KINDS", "MOST_POINTS", "QUESTIONS", "check_answer", "check_question"]

Test = Callable[[Any], bool]

KINDS = ("exact", "left", "right", "interval")  # of rows, in the order in which they are counted
MOST_POINTS = 64  # parameters in one question
SCALES = ("continuous", "ordinal", "count")
COLUMNS = ("category", "text", "code", "number")  # kinds of covariates
MOST_ROWS = 2**53


def is_table(of: Test) -> Test:
    """Return a test of tables by a test of their values."""
    return lambda value: isinstance(value, dict) and all(is_text(key) and of(own) for key, own in value.items())


def is_level(value: Any) -> bool:
    """Return whether a value can be a level or a class."""
    return isinstance(value, (str, int, float, bool))


def is_positive(value: Any) -> bool:
    """Return whether a value is a positive number that can be computed with."""
    return is_strength(value) and value > 0.0


LEVELS = is_table(list_of(is_level))
PAIRS = list_of(lambda pair: isinstance(pair, list) and len(pair) == 2 and is_text(pair[0]) and is_level(pair[1]))
RECORD = lambda value: isinstance(value, dict)  # noqa: E731 - checked where it is used
VECTOR, MATRIX = 1, 2
POINTS = {"points": MATRIX, "mean": VECTOR, "scale": VECTOR}
SHARED: dict[str, Test] = {"factors": LEVELS, "numbers": list_of(is_text)}


# question -> its fields with their tests, and its arrays with their numbers of dimensions
QUESTIONS: dict[str, tuple[dict[str, Test], dict[str, int]]] = {
    "hello": ({"version": is_text, "purpose": is_text}, {}),
    "open": (
        {
            "study": RECORD,
            "nonces": is_table(is_text),
            "masks": is_flag,
            "scale": lambda value: value in SCALES,
        },
        {},
    ),
    "counts": ({"levels": LEVELS, "classes": list_of(is_level), "numbers": list_of(is_text)}, {"edges": VECTOR}),
    "moments": (
        {
            "design": RECORD,
            "classes": list_of(is_level),
            "alone": PAIRS,
            "numbers": list_of(is_text),
            "strata": list_of(is_level),
        },
        {"edges": VECTOR, "number_edges": MATRIX, "units": VECTOR},
    ),
    "gram": ({}, {"edges": VECTOR, "units": VECTOR, "mean": VECTOR}),
    "anchors": (SHARED, {"mean": VECTOR, "unit": VECTOR}),
    "baseline": (FIELDS, {"units": VECTOR, "anchor_mean": VECTOR, "anchor_unit": VECTOR, "anchor_root": MATRIX}),
    "shared": ({"plan": is_text}, POINTS | {"multipliers": MATRIX}),
    "shared_influence": ({"plan": is_text, "xi": is_strength}, POINTS | {"t": VECTOR, "E": MATRIX}),
    "shared_steep": ({"plan": is_text, "xi": is_strength}, POINTS | {"t": VECTOR}),
    "sums": ({"plan": is_text}, {"points": MATRIX, "mean": VECTOR, "scale": VECTOR}),
    "influence": (
        {"plan": is_text, "strengths": list_of(is_strength)},
        {"points": MATRIX, "mean": VECTOR, "scale": VECTOR},
    ),
    "steep": (
        {"plan": is_text, "xi": is_strength},
        {"points": MATRIX, "mean": VECTOR, "scale": VECTOR},
    ),
    "against": ({"plan": is_text}, {"points": MATRIX, "mean": VECTOR, "scale": VECTOR}),
    "score": ({"plan": is_text, "dispersion": is_positive}, POINTS),
    "fitted": ({"plan": is_text, "dispersion": is_positive}, POINTS),
    "pearson": ({"plan": is_text}, POINTS),
    "need": ({"plan": is_text}, POINTS),
    "calibration": ({"plan": is_text, "seed": is_count}, POINTS),  # one point for each site
}
ALWAYS: dict[str, Test] = {"session": is_text, "round": is_count}  # but for hello and open


def check_question(question: Message) -> None:
    """Refuse a question that is not on the list, or whose fields are not those of the list."""
    if question.kind not in QUESTIONS:
        raise WireError(f"there is no question {question.kind[:40]!r}: the list is closed")
    fields, arrays = QUESTIONS[question.kind]
    fields = fields if question.kind in ("hello", "open") else ALWAYS | fields
    check_fields(question, fields, arrays)
    points = question.arrays.get("points")
    if points is not None and not 0 < points.shape[0] <= MOST_POINTS:
        raise WireError(f"a question is about 1 to {MOST_POINTS} points, not {points.shape[0]}")


def check_fields(message: Message, fields: dict[str, Test], arrays: dict[str, int] | None) -> None:
    """Refuse a message that has other fields than these, or other arrays, if ``arrays`` is given."""
    if set(message.fields) != set(fields) or (arrays is not None and set(message.arrays) != set(arrays)):
        raise WireError(f"the message {message.kind[:40]!r} has unknown or missing fields")
    for name, test in fields.items():
        if not test(message.fields[name]):
            raise WireError(f"the field {name!r} of the message {message.kind!r} is invalid")
    for name, dimensions in (arrays or {}).items():
        values = message.arrays[name]
        if values.ndim != dimensions or values.dtype.kind != "f" or not finite(values):
            raise WireError(f"the array {name!r} of the message {message.kind!r} is invalid")


def finite(values: NDArray[Any]) -> bool:
    """Return whether all numbers are finite."""
    return bool(np.isfinite(values).all())


def record_of(tests: dict[str, Test]) -> Test:
    """Return a test of tables with these fields, each with a test of its own."""
    return lambda value: (
        isinstance(value, dict) and set(value) == set(tests) and all(test(value[name]) for name, test in tests.items())
    )


def is_public(value: Any) -> bool:
    """Return whether a value is a public key, or the empty text of a site without keys."""
    return value == "" or (isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"))


def is_total(value: Any) -> bool:
    """Return whether a value is a finite number that can be computed with."""
    return is_parameter(value) and math.isfinite(value)


PLAIN = list_of(is_level)
COLUMN = record_of({"kind": lambda kind: kind in COLUMNS, "levels": PLAIN, "declared": PLAIN})
ANCHORS = record_of({"factors": is_table(PLAIN), "numbers": list_of(is_text)})
FACTS = record_of(
    {
        "names": list_of(is_text),
        "columns": is_table(COLUMN),
        "classes": PLAIN,
        "declared": lambda value: value is None or PLAIN(value),
        "time": is_flag,
        "kinds": list_of(lambda kind: kind in (*KINDS, "truncated")),
        "anchors": lambda value: value is None or ANCHORS(value),
        "strata": PLAIN,
    }
)
ANSWERS: dict[str, dict[str, Test]] = {
    "hello": {"name": is_text, "version": is_text, "nonce": is_text, "public": is_public, "study": is_text},
    "open": {"session": is_text, "facts": FACTS, "fingerprint": is_text},
    "score": {
        "n": lambda n: is_count(n) and 0 < n < MOST_ROWS,
        "weight": lambda weight: is_total(weight) and weight > 0.0,
        "loglik": is_total,
        "events": lambda n: is_count(n) and n < MOST_ROWS,
    },
    "calibration": {"cell": is_count},
    "sums": {"statuses": list_of(is_text)},
    "shared": {"statuses": list_of(is_text)},
    "pearson": {"statuses": list_of(is_text)},
}


def check_answer(answer: Message, kind: str, size: int, masked: bool, points: int = 0) -> None:
    """Refuse an answer whose fields are not as they should be.

    ``size`` is how many numbers were asked for, and ``points`` at how many parameters.
    """
    if answer.kind != kind:
        raise WireError(f"the answer is {answer.kind[:40]!r}, and the question was {kind!r}")
    check_fields(answer, ANSWERS.get(kind, {}), None)
    if len(answer.fields.get("statuses", ())) != points * ("statuses" in answer.fields):
        raise WireError(f"the answer {kind!r} is about another number of points than were asked about")
    if set(answer.arrays) != ({"sums"} if size else set()):
        raise WireError(f"the answer {kind!r} has unknown or missing numbers")
    if not size:
        return
    sums = answer.arrays["sums"]
    if sums.shape != ((size, 2) if masked else (size,)) or sums.dtype.kind != ("u" if masked else "f"):
        raise WireError(f"the answer {kind!r} has numbers of shape {sums.shape} where {size} were asked for")
    if not masked and not finite(sums):
        raise WireError(f"the answer {kind!r} has numbers that are not finite")
