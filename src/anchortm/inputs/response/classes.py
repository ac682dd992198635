"""Classes of an ordinal outcome: class k = 0, ..., K - 1 is the interval (k - 1, k].

The first class has no lower and the last one no upper end.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Outcome
from anchortm._util.checks import is_missing
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.response.checks import one_column, refuse, refuse_missing
from anchortm.inputs.response.rows import Response

__all__ = ["Classes", "as_classes", "categories_of", "classes_of", "plain_words", "sorted_words"]


def categories_of(y: Any) -> tuple[list[Hashable], NDArray[np.intp], bool] | None:
    """Return the categories of a categorical, the codes of its rows (-1: missing) and whether it is ordered."""
    inner = getattr(y, "cat", None)
    if inner is not None and hasattr(inner, "codes"):  # pandas Series
        return list(inner.categories), np.asarray(inner.codes, dtype=np.intp), bool(inner.ordered)
    if hasattr(y, "categories") and hasattr(y, "codes"):  # pandas Categorical
        return list(y.categories), np.asarray(y.codes, dtype=np.intp), bool(y.ordered)
    if type(y).__module__.startswith("polars") and str(y.dtype).startswith(("Enum", "Categorical")):
        # a polars Enum is ordered as declared, a polars Categorical is not ordered
        ordered = str(y.dtype).startswith("Enum")
        codes = y.to_physical().cast(int).fill_null(-1).to_numpy()
        return list(y.dtype.categories) if ordered else [], codes.astype(np.intp), ordered
    return None


def as_classes(y: Outcome, levels: Sequence[Hashable] | None) -> Response:
    """Return classes as a ``Response``; those that are not among ``levels``, if given, are refused."""
    if isinstance(y, Response):
        if y.scale != "ordinal":
            raise InputTypeError(f"an ordinal model takes classes, not {y!r}")
        if levels is None or tuple(levels) == y.levels:
            return y
        return as_classes(np.array(y.levels, dtype=object)[y.codes], levels)
    found = categories_of(y)
    if found is None:
        labels, codes = _factorise(one_column(y, "y"))
    else:
        labels, codes, ordered = found
        if not ordered:
            raise InputTypeError(
                "classes of an ordinal outcome need an order: make the categories ordered, "
                "for example pd.Categorical(y, ['low', 'medium', 'high'], ordered=True)"
            )
        shown = np.where(codes < 0, "missing", "")
        refuse_missing(codes < 0, shown, "y", "class")
    if levels is None:
        return _cells(codes, tuple(labels))
    known = {level: code for code, level in enumerate(levels)}
    translated = np.array([known.get(label, -1) for label in labels], dtype=np.intp)[codes]
    if (translated < 0).any():
        values = np.array(labels, dtype=object)[codes]
        refuse(translated < 0, values, "y", "has a class that is not known", f"known are {list(levels)}")
    return _cells(translated, tuple(levels))


class Classes(NamedTuple):
    """Distinct classes, the position of each row's class among them, and the categories that were declared, if any."""

    labels: list[Hashable]
    codes: NDArray[np.intp]
    declared: tuple[Hashable, ...] | None


def classes_of(y: Outcome) -> Classes:
    """Return the classes of some rows of an ordinal outcome."""
    found = categories_of(y)
    if found is None:
        labels, codes = _factorise(one_column(y, "y"))
        return Classes(labels, codes, None)
    response = as_classes(y, None)  # checks order and missing classes
    return Classes(list(found[0]), response.codes, tuple(found[0]))


def sorted_words(y: Outcome, response: Response) -> bool:
    """Return whether the classes are three or more plain words, whose alphabetical order may mean nothing."""
    if response.levels is None or isinstance(y, Response) or categories_of(y) is not None:
        return False
    return plain_words(response.levels)


def plain_words(levels: Sequence[Hashable]) -> bool:
    """Return whether classes are three or more words without numbers in them."""
    return len(levels) >= 3 and all(isinstance(x, str) and not any(c.isdigit() for c in x) for x in levels)


def _factorise(values: NDArray[Any]) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the sorted distinct values and the position of each value among them."""
    if values.dtype.kind in "ib":
        low, high = int(values.min()), int(values.max())
        if high - low < 10_000:  # counting is faster than sorting
            codes = values.astype(np.intp) - low if low else values.astype(np.intp, copy=False)
            seen = np.bincount(codes) > 0
            labels = np.arange(low, high + 1)[seen].astype(values.dtype)
            return labels.tolist(), codes if seen.all() else (np.cumsum(seen) - 1)[codes]
    else:
        objects = values.dtype.kind == "O"
        missing = np.array([is_missing(x) for x in values]) if objects else values != values
        refuse_missing(missing, values, "y", "class")
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise InputTypeError("the classes in y cannot be sorted: use one type, or an ordered categorical") from None
    return labels.tolist(), codes


def _cells(codes: NDArray[np.intp], levels: tuple[Hashable, ...]) -> Response:
    """Return classes as intervals between their thresholds."""
    if len(levels) < 2:
        raise InputError(f"an ordinal outcome needs at least two classes, not only {list(levels)}")
    # the ends of a class are looked up: its own code, and the one below
    ends = np.concatenate([[-np.inf], np.arange(len(levels) - 1.0), [np.inf]])
    lower, upper = ends[:-1][codes], ends[1:][codes]
    return Response(lower, upper, scale="ordinal", levels=levels)
