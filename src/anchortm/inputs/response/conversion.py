"""Outcomes of any form as a ``Response``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from anchortm._typing import Outcome
from anchortm._util.frames import name_of, native
from anchortm.exceptions import InputTypeError
from anchortm.inputs.response.checks import as_numbers
from anchortm.inputs.response.classes import as_classes, categories_of
from anchortm.inputs.response.counts import as_counts
from anchortm.inputs.response.rows import Response, Scale
from anchortm.inputs.response.times import Surv

__all__ = ["as_response"]


def as_response(y: Outcome, scale: Scale = "continuous", levels: Sequence[Hashable] | None = None) -> Response:
    """Return y as a ``Response`` on the scale that a model works on.

    Parameters
    ----------
    y : Response, array, ordered categorical or structured survival array
        Plain numbers are exact observations. A structured array with a boolean and a
        numeric field (as in scikit-survival) holds events and times.
    scale : {"continuous", "ordinal", "count"}
        What the model takes y to be.
    levels : sequence, optional
        For "ordinal": the classes seen in training; other classes are refused.

    Examples
    --------
    >>> from anchortm.inputs.response import as_response
    >>> as_response([1.5, 2.0]), as_response([3, 0, 1], "count")
    (Response(2 rows: 2 exact), Response(3 rows of counts: 1 at zero))
    """
    y = native(y)
    found = _converted(y, scale, levels)
    name = name_of(y)
    return found if name is None or found.name is not None else replace(found, name=name)


def _converted(y: Any, scale: Scale, levels: Sequence[Hashable] | None) -> Response:
    """Return y as a ``Response``; only if it is one already, it has a name."""
    if scale == "ordinal":
        return as_classes(y, levels)
    if not isinstance(y, Response):
        names = getattr(getattr(y, "dtype", None), "names", None)
        if names:
            y = _structured(y, names)
    if scale == "count":
        return as_counts(y)
    if isinstance(y, Response):
        if y.scale in ("ordinal", "count"):
            raise InputTypeError(f"this model takes numbers, not {y!r}")
        return y
    if categories_of(y) is not None:
        raise InputTypeError("this model takes numbers, not categories; for ordered classes use OrdinalRegression")
    values = as_numbers(y, "y")
    return Response(values, values)


def _structured(y: NDArray[Any], names: Sequence[str]) -> Response:
    """Return the times and events of an array in the format of scikit-survival."""
    kinds = [y.dtype[name].kind for name in names]
    if len(names) != 2 or sorted(k == "b" for k in kinds) != [False, True]:
        raise InputTypeError(f"a structured y has one boolean (event) and one numeric (time) field, not {y.dtype}")
    event, time = names if kinds[0] == "b" else reversed(names)
    return Surv(y[time], y[event])
