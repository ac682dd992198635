"""Smooth terms of formulas: cubic splines whose roughness is a plain sum of squares.

``s(x, k)`` gives k columns: x itself, centred, and k - 1 curves. Together with the constant they span the cubic
splines with k - 3 inner knots, as ``bs(x, k)`` does if x has no ties. Over the rows of the fit, with their weights, the
curves have mean zero and are uncorrelated with x and with each other. The mean squared second derivative

    R(f) = 1/(2 pi) int_0^(2 pi) f''(u)^2 du,    u = 2 pi (x - low) / (high - low),

of a combination of them is the sum of its squared coefficients: a ridge penalty on them is a smoothing penalty. In
these units a wave of height a with one period over the range has R = a^2 / 2, whatever the unit of x. Beyond the range
curves continue as lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.exceptions import InputError

__all__ = [
    "FEWEST",
    "MOST",
    "Marks",
    "Smooth",
    "check_smooth_state",
    "curves",
    "learning_with",
    "marks_by_name",
    "smooth_terms",
    "spline",
    "wiggly",
]

FEWEST, MOST = 3, 50  # columns that a smooth term can have
_weights: ContextVar[Array | None] = ContextVar("weights", default=None)  # weights of the rows that terms learn from
WAVE = (2.0 * math.pi) ** 4
ROWS = 2048  # rows computed at a time, so that they stay in the cache
CLOSE = 1e-6  # relative error up to which values in a file are consistent


class Smooth(NamedTuple):
    """The mark of a column of a smooth term: the term, and whether the column is a curve or the line."""

    term: str
    curve: bool


Marks = tuple[Smooth | None, ...]  # one for each covariate


def wiggly(marks: Marks) -> NDArray[np.bool_]:
    """Return which of the covariates are curves of smooth terms."""
    return np.array([mark is not None and mark.curve for mark in marks], dtype=bool)


def smooth_terms(marks: Marks) -> dict[str, list[int]]:
    """Return the smooth terms among the covariates, each with the positions of its columns."""
    terms: dict[str, list[int]] = {}
    for j, mark in enumerate(marks):
        if mark is not None:
            terms.setdefault(mark.term, []).append(j)
    return terms


def marks_by_name(names: Sequence[str], known: Iterable[str] | None = None) -> Marks:
    """Return the marks of covariates from their names, for old model files, which hold nothing else.

    ``known`` are the smooth terms, if the file lists them.
    """
    found = (re.fullmatch(r"(s\(.+\))\[(linear|\d+)\]", name) for name in names)
    return tuple(
        Smooth(match[1], match[2] != "linear") if match and (known is None or match[1] in known) else None
        for match in found
    )


def spline(data: Any, k: int = 10, *, _state: Any = None, **_: Any) -> Any:
    """Return the columns of ``s(x, k)``, for formulaic; knots and curves are learned from the first rows."""
    from formulaic.materializers.types import FactorValues

    x = np.asarray(data, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("s(...) needs finite numbers")
    state = {} if _state is None else _state
    if not state:
        state.update(_learn(x, k, _weights.get()))
    columns = curves(x, state["knots"], state["values"], state["bends"])
    fields = {"linear": x - state["centre"]} | {j + 1: column for j, column in enumerate(columns.T)}
    return FactorValues(fields, kind="numerical", spans_intercept=False, format="{name}[{field}]", encoded=False)


# what formulaic's decorator does, without importing formulaic here
spline.__is_stateful_transform__ = True  # type: ignore[attr-defined]
spline.get_required_variables = lambda *_, **__: ()  # type: ignore[attr-defined]


@contextmanager
def learning_with(weights: Array | None) -> Iterator[None]:
    """Let smooth terms that learn inside this context count rows by their weights."""
    before = _weights.set(weights)
    try:
        yield
    finally:
        _weights.reset(before)


def _learn(x: Array, k: int, weights: Array | None = None) -> dict[str, Any]:
    """Return knots at quantiles, and the curves as their values and second derivatives at the knots."""
    seen = np.unique(x)
    if seen.size <= k:
        raise ValueError(
            f"s(..., {k}) needs more than {k} different values, but there are {seen.size}: give a smaller number"
        )
    knots = np.quantile(seen, np.linspace(0.0, 1.0, k - 1))
    at = (knots - knots[0]) / (knots[-1] - knots[0])
    if not (np.isfinite(at).all() and (np.diff(at) > 0.0).all()):
        raise ValueError(f"s(..., {k}): too few different numbers for so many knots; give a smaller number")
    # values at the knots of curves with these second derivatives; lines are taken out below
    values, bends = _integrated(at), np.eye(k - 1)
    root = np.linalg.cholesky(_mass(at))
    values, bends = (np.linalg.solve(root, part.T).T for part in (values, bends))
    rows, ends = curves(x, knots, values, bends), np.column_stack([np.ones(k - 1), at])
    root_weight = np.ones((x.size, 1)) if weights is None else np.sqrt(weights / weights.mean())[:, None]
    place = (x - knots[0]) / (knots[-1] - knots[0])
    lines, R = np.linalg.qr(root_weight * np.column_stack([np.ones(x.size), place]))
    rows = root_weight * rows
    for _ in range(2):  # again, to remove rounding errors
        line = lines.T @ rows
        rows, values = rows - lines @ line, values - ends @ np.linalg.solve(R, line)
    turn = np.linalg.svd(np.linalg.qr(rows, mode="r"))[2].T
    values, bends = values @ turn, bends @ turn
    sign = np.where(values[-1] < 0.0, -1.0, 1.0)
    centre = float(np.average(x, weights=weights))
    return {"knots": knots, "centre": centre, "values": sign * values, "bends": sign * bends}


def _integrated(at: Array) -> Array:
    """Return values at the knots of curves whose second derivative is 1 at one knot and 0 at the others."""
    h = np.diff(at)
    value, slope = np.zeros(at.size), np.zeros(at.size)
    rows = [value]
    hat = np.eye(at.size)
    for i, step in enumerate(h):
        value = value + step * slope + step**2 * (2.0 * hat[i] + hat[i + 1]) / 6.0
        slope = slope + step * (hat[i] + hat[i + 1]) / 2.0
        rows.append(value)
    return np.array(rows)


def _mass(at: Array) -> Array:
    """Return the matrix of R in the second derivatives at the knots, which are linear between knots."""
    h = np.diff(at) / WAVE
    ends = np.pad(h, 1)
    return np.asarray(np.diag((ends[:-1] + ends[1:]) / 3.0) + np.diag(h / 6.0, 1) + np.diag(h / 6.0, -1))


def curves(x: Array, knots: Array, values: Array, bends: Array) -> Array:
    """Return curves at x from their values and second derivatives at the knots; beyond the knots they are lines."""
    at = (knots - knots[0]) / (knots[-1] - knots[0])
    place = (x - knots[0]) / (knots[-1] - knots[0])
    inside = np.clip(place, 0.0, 1.0)
    i = np.clip(np.searchsorted(at, inside, side="right") - 1, 0, at.size - 2)
    h = np.diff(at)[i][:, None]
    right = (inside - at[i])[:, None] / h
    left = 1.0 - right
    ends = h**2 / 6.0 * (left**3 - left), h**2 / 6.0 * (right**3 - right)
    result = np.empty((x.size, values.shape[1]))
    for start in range(0, x.size, ROWS):
        rows = slice(start, start + ROWS)
        own, j = result[rows], i[rows]
        np.multiply(left[rows], values[j], out=own)
        own += right[rows] * values[j + 1]
        own += ends[0][rows] * bends[j]
        own += ends[1][rows] * bends[j + 1]
    first, last = _slopes(at, values, bends)
    for outside, slope in ((place < 0.0, first[0]), (place > 1.0, last[-1])):
        result[outside] += (place - inside)[outside][:, None] * slope
    return result


def _slopes(at: Array, values: Array, bends: Array) -> tuple[Array, Array]:
    """Return the slopes at the two ends of each piece."""
    h = np.diff(at)[:, None]
    chord = np.diff(values, axis=0) / h
    return chord - h * (2.0 * bends[:-1] + bends[1:]) / 6.0, chord + h * (bends[:-1] + 2.0 * bends[1:]) / 6.0


def check_smooth_state(state: dict[str, Any]) -> None:
    """Refuse a saved smooth term whose curves are not smooth or not scaled to their roughness."""
    knots, values, bends = (np.asarray(state[key], dtype=np.float64) for key in ("knots", "values", "bends"))
    with np.errstate(all="ignore"):
        at = (knots - knots[0]) / (knots[-1] - knots[0])
        if not ((np.diff(at) > 0.0).all() and knots[0] <= state["centre"] <= knots[-1]):
            raise InputError("the knots of a saved smooth term do not increase around its centre")
        first, last = _slopes(at, values, bends)
        size = np.abs(first).max(axis=0) + np.abs(last).max(axis=0)
        joined = bool((np.abs(first[1:] - last[:-1]) <= CLOSE * size).all())
        if not (joined and np.abs(bends.T @ _mass(at) @ bends - np.eye(at.size)).max() <= CLOSE):
            raise InputError("the curves of a saved smooth term are not smooth, or not scaled to their roughness")
