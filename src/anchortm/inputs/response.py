"""Response: every kind of outcome as rows (lower, upper], checked once, here.

A row says that the outcome lies in the interval (lower, upper]; equal ends mean that it
was observed exactly, an infinite end that there is none. A row may also be truncated: it
is in the data only because its outcome lies in (entry, exit]. Classes k = 0, ..., K - 1
of an ordinal outcome are the intervals (k - 1, k], the first without a lower and the last
without an upper end; a count k is the interval (k - 1, k].
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import as_floats
from anchortm._util.frames import aligned, native
from anchortm.exceptions import InputError, InputTypeError

__all__ = [
    "Interval",
    "Kind",
    "Response",
    "Surv",
    "Trials",
    "as_response",
    "classes_of",
    "is_missing",
    "plain_words",
    "sorted_words",
]

Array = NDArray[np.float64]
Scale = Literal["continuous", "time", "ordinal", "count"]


EVENT_HINT = (
    "code it 1 (seen) or 0 (censored), such as event == 2; the order is Surv(time, event, entry), "
    "not R's (start, stop, event)"
)


class Kind(IntEnum):
    """How a row was observed.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.inputs.response import Kind
    >>> [Kind(kind).name for kind in atm.Surv([5.0, 8.0], [1, 0]).kind]
    ['EXACT', 'RIGHT']
    """

    EXACT = 0
    LEFT = 1
    RIGHT = 2
    INTERVAL = 3


@dataclass(frozen=True, eq=False, repr=False)
class Response:
    """An outcome with its kind of observation, row by row.

    Made by ``Surv``, ``Interval`` or ``as_response``, which check it. Behaves as an array
    of rows: ``len``, ``shape``, and indexing by a slice, a mask or positions.

    Attributes
    ----------
    lower, upper : array
        Ends of (lower, upper]; equal for exact rows, infinite where there is no end.
    entry, exit : array or None
        Ends of the truncation interval (entry, exit], infinite where there is none.
    scale : {"continuous", "time", "ordinal", "count"}
        What the numbers are.
    levels : tuple or None
        The classes of an ordinal outcome, in order.
    trials : array or None
        Of how many trials a count is the number of successes.
    index : pandas Index or None
        The labels of the rows, where they came as pandas columns.

    See Also
    --------
    anchortm.Surv, anchortm.Interval, anchortm.Trials : make one

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.Surv([5.0, 8.0, 3.5], [1, 0, 1])
    Response(3 rows of time: 2 exact, 1 right-censored)
    """

    lower: Array
    upper: Array
    entry: Array | None = None
    exit: Array | None = None
    scale: Scale = "continuous"
    levels: tuple[Hashable, ...] | None = None
    trials: Array | None = None
    index: Any = None  # of pandas, if it was made from columns that have one

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "entry", "exit", "trials"):
            values = getattr(self, name)
            if values is not None:
                values = values.view()
                values.flags.writeable = False
                object.__setattr__(self, name, values)

    @cached_property
    def kind(self) -> NDArray[np.int8]:
        """Return the ``Kind`` of each row."""
        bounded_below, bounded_above = np.isfinite(self.lower), np.isfinite(self.upper)
        kind = np.full(len(self), Kind.RIGHT, dtype=np.int8)
        kind[bounded_above] = Kind.LEFT
        kind[bounded_above & bounded_below] = Kind.INTERVAL
        kind[self.lower == self.upper] = Kind.EXACT
        return kind

    def __len__(self) -> int:
        return int(self.lower.shape[0])

    @property
    def shape(self) -> tuple[int]:
        """Return (number of rows,)."""
        return (len(self),)

    def __getitem__(self, rows: Any) -> Response:
        if isinstance(rows, tuple):  # scikit-learn asks for y[rows, ...]
            rows = rows[0]
        if isinstance(rows, (int, np.integer)):
            rows = [rows]

        def take(values: Any) -> Any:
            return None if values is None else values[rows]

        return replace(
            self,
            lower=self.lower[rows],
            upper=self.upper[rows],
            entry=take(self.entry),
            exit=take(self.exit),
            trials=take(self.trials),
            index=take(self.index),
        )

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Return which rows are truncated."""
        mask = np.zeros(len(self), dtype=bool)
        if self.entry is not None:
            mask |= self.entry > -np.inf
        if self.exit is not None:
            mask |= self.exit < np.inf
        return mask

    def counts(self) -> dict[str, int]:
        """Return the number of exact, left-, right- and interval-censored rows."""
        numbers = np.bincount(self.kind, minlength=4)
        return dict(zip(("exact", "left", "right", "interval"), map(int, numbers), strict=True))

    def reach(self) -> tuple[float, float]:
        """Return the smallest and the largest finite end of any row."""
        if self.scale == "count":  # k is (k - 1, k]
            known = np.isfinite(self.upper)
            first = np.where(np.isfinite(self.lower), self.lower + 1.0, 0.0)
            return float(first.min()), float(self.upper.max(initial=first.max(), where=known))
        ends = [self.lower] if self.lower is self.upper else [self.lower, self.upper]
        finite = [np.isfinite(values) for values in ends]
        low = min(float(values.min(initial=np.inf, where=f)) for values, f in zip(ends, finite, strict=True))
        return low, max(float(values.max(initial=-np.inf, where=f)) for values, f in zip(ends, finite, strict=True))

    @property
    def codes(self) -> NDArray[np.intp]:
        """Return the class of each row of an ordinal response, counted from 0."""
        return np.where(np.isfinite(self.lower), self.lower + 1.0, 0.0).astype(np.intp)

    def __repr__(self) -> str:
        return f"Response({len(self)} rows{self._description()})"

    def _description(self) -> str:
        if self.levels is not None:
            return f" in {len(self.levels)} ordered classes"
        names = {name: name if name == "exact" else f"{name}-censored" for name in self.counts()}
        parts = [f"{number} {names[name]}" for name, number in self.counts().items() if number]
        if self.truncated.any():
            parts.append(f"{int(self.truncated.sum())} truncated")
        if self.scale == "count":
            trials = "" if self.trials is None else f", out of {self.trials.sum():.0f} trials"
            return f" of counts: {int(np.isneginf(self.lower).sum())} at zero{trials}"
        return (" of time: " if self.scale == "time" else ": ") + ", ".join(parts)


def _column(values: object, what: str) -> NDArray[Any]:
    """Return values as a one-dimensional NumPy array, whatever container they came in."""
    values = native(values)
    if isinstance(values, np.ndarray):
        array = np.asarray(values)
    elif hasattr(values, "to_numpy"):
        array = values.to_numpy()
    elif isinstance(values, Iterable):
        array = np.asarray(list(values) if not hasattr(values, "__array__") else values)
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        hint = "; for censored times pass Surv(time, event)" if array.ndim == 2 and array.shape[1] == 2 else ""
        raise InputError(f"{what} must be one-dimensional, not of shape {array.shape}{hint}")
    if array.size == 0:
        raise InputError(f"{what} is empty: at least one row is needed")
    return array


def _refuse(bad: NDArray[np.bool_], values: NDArray[Any], what: str, problem: str, remedy: str) -> None:
    """Raise an error that names the first bad row and its value."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        more = int(bad.sum()) - 1
        others = f" (and {more} more)" if more else ""
        raise InputError(f"{what} {problem}: {values[row]!s} at row {row}{others}; {remedy}")


def _numbers(values: object, what: str, infinite: bool = False) -> Array:
    """Return values as float64; refuse strings, missing values and (by default) infinities."""
    array = _column(values, what)
    if array.dtype.kind == "O":
        missing = np.array([is_missing(x) for x in array])
        _refuse(missing, array, what, "has a missing value", "drop or impute such rows")
    numbers = as_floats(array, what, "turn it into numbers, or drop such rows")
    _refuse(np.isnan(numbers), array, what, "has a missing value", "drop or impute such rows")
    if not infinite:
        _refuse(np.isinf(numbers), array, what, "is infinite", "for a censored outcome use Surv or Interval")
    return numbers


def is_missing(x: object) -> bool:
    """Return whether x stands for a missing value."""
    return x is None or type(x).__name__ in ("NAType", "NaTType") or (isinstance(x, float) and x != x)


def _same_length(n: int, **columns: Array | None) -> None:
    for name, values in columns.items():
        if values is not None and values.size != n:
            raise InputError(f"{name} has {values.size} rows where {n} are expected: give one value for each row")


def Surv(time: object, event: object, entry: object = None) -> Response:  # noqa: N802
    """Return a time-to-event outcome: exact where ``event`` is 1, right-censored where it is 0.

    Parameters
    ----------
    time : array of non-negative numbers
        Time of the event or of the end of observation.
    event : array of 0/1 or booleans
        Whether the event was seen.
    entry : array of numbers, optional
        Delayed entry (left truncation): the row is in the data because its time is beyond
        this one. Zero or below means that the row was observed from the start.

    See Also
    --------
    anchortm.Interval : other kinds of censoring

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.Surv([2.0, 4.0, 4.0], [True, False, True], entry=[0.0, 1.0, 0.0])
    Response(3 rows of time: 2 exact, 1 right-censored, 1 truncated)
    """
    index = aligned(time=time, event=event, entry=entry)
    t = _numbers(time, "time")
    _refuse(t < 0, t, "time", "is negative", "times are counted from 0; for other numbers use Interval")
    seen = _numbers(event, "event")
    _same_length(t.size, event=seen)
    _refuse((seen != 0) & (seen != 1), seen, "event", "is not 0 or 1", EVENT_HINT)
    upper = np.where(seen == 1, t, np.inf)
    # an outcome of time is above 0 anyway: being censored or entering there says nothing
    lower = np.where((seen == 0) & (t == 0), -np.inf, t)
    if entry is None:
        return Response(lower, upper, scale="time", index=index)
    start = _numbers(entry, "entry", infinite=True)
    _same_length(t.size, entry=start)
    start = np.where(start <= 0, -np.inf, start)
    _refuse(start >= t, start, "entry", "is not before the time", "a row enters before its time ends")
    return Response(lower, upper, entry=start if np.isfinite(start).any() else None, scale="time", index=index)


def Interval(lower: object, upper: object, *, entry: object = None, exit: object = None) -> Response:  # noqa: N802
    """Return an outcome known to lie in (lower, upper].

    Equal ends are an exact observation, an infinite end none: ``Interval(-inf, 3)`` is
    left-censored at 3, ``Interval(3, inf)`` right-censored at 3.

    Parameters
    ----------
    lower, upper : arrays of numbers
        Ends, with ``lower <= upper``; infinities allowed.
    entry, exit : arrays of numbers, optional
        Truncation: the row is in the data because its outcome lies in (entry, exit].

    See Also
    --------
    anchortm.Surv : times

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> atm.Interval([1.0, -np.inf, 2.0], [1.0, 3.0, np.inf])
    Response(3 rows: 1 exact, 1 left-censored, 1 right-censored)
    """
    index = aligned(lower=lower, upper=upper, entry=entry, exit=exit)
    low, high = _numbers(lower, "lower", infinite=True), _numbers(upper, "upper", infinite=True)
    _same_length(low.size, upper=high)
    pairs = np.array([f"({a:g}, {b:g}]" for a, b in zip(low, high, strict=True)]) if (low > high).any() else low
    _refuse(low > high, pairs, "Interval", "has lower > upper", "swap the ends")
    _refuse(np.isinf(low) & (low == high), low, "Interval", "is exact at infinity", "an exact row is a finite number")
    start = None if entry is None else _numbers(entry, "entry", infinite=True)
    stop = None if exit is None else _numbers(exit, "exit", infinite=True)
    _same_length(low.size, entry=start, exit=stop)
    exact = low == high
    # an outcome in (lower, upper] and in (entry, exit] is in their intersection
    if start is not None:
        _refuse((start >= high) | (exact & (start >= low)), start, "entry", "is not before the outcome", "drop the row")
        low = np.where(exact, low, np.maximum(low, start))
    if stop is not None:
        _refuse((stop <= low) & ~(exact & (stop == low)), stop, "exit", "is not after the outcome", "drop the row")
        high = np.where(exact, high, np.minimum(high, stop))
    if start is not None and np.isneginf(start).all():
        start = None
    if stop is not None and np.isposinf(stop).all():
        stop = None
    return Response(low, high, entry=start, exit=stop, index=index)


def Trials(successes: object, trials: object) -> Response:  # noqa: N802
    """Return successes out of so many trials, for binomial models.

    A row is one outcome, whose residual is successes - trials x probability.

    Parameters
    ----------
    successes : array of whole numbers
    trials : array of whole numbers, or one for all rows

    See Also
    --------
    anchortm.AnchorGLM : takes them with family="binomial"

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.Trials([3, 0, 5], [5, 4, 5])
    Response(3 rows of counts: 1 at zero, out of 14 trials)
    """
    index = aligned(successes=successes, trials=trials)
    k, m = _numbers(successes, "successes"), _numbers(np.atleast_1d(np.asarray(native(trials))), "trials")
    m = np.broadcast_to(m, k.shape).copy() if m.size == 1 else m
    _same_length(k.size, trials=m)
    _check_counts(k, "successes")
    _check_counts(m, "trials")
    _refuse(m < 1, m, "trials", "is not at least 1", "leave rows without trials out")
    _refuse(k > m, k, "successes", "is more than the trials of its row", "the order is Trials(successes, trials)")
    return replace(_counts(k), trials=m, index=index)


def as_response(y: object, scale: Scale = "continuous", levels: Sequence[Hashable] | None = None) -> Response:
    """Return y as a ``Response`` on the scale that a model works on.

    Parameters
    ----------
    y : Response, array, ordered categorical or structured survival array
        Plain numbers are exact observations. A structured array with a boolean and a
        numeric field (as in scikit-survival) is event and time.
    scale : {"continuous", "ordinal", "count"}
        What the model takes y for.
    levels : sequence, optional
        For "ordinal": the classes seen in training; any other is refused.

    Examples
    --------
    >>> from anchortm.inputs.response import as_response
    >>> as_response([1.5, 2.0]), as_response([3, 0, 1], "count")
    (Response(2 rows: 2 exact), Response(3 rows of counts: 1 at zero))
    """
    y = native(y)
    if scale == "ordinal":
        return _ordinal(y, levels)
    if not isinstance(y, Response):
        names = getattr(getattr(y, "dtype", None), "names", None)
        if names:
            y = _structured(y, names)
    if scale == "count":
        return _counts(y)
    if isinstance(y, Response):
        if y.scale in ("ordinal", "count"):
            raise InputTypeError(f"this model takes numbers, not {y!r}")
        return y
    if _categories(y) is not None:
        raise InputTypeError("this model takes numbers, not categories; for ordered classes use OrdinalRegression")
    values = _numbers(y, "y")
    return Response(values, values)


def _structured(y: Any, names: Sequence[str]) -> Response:
    kinds = [y.dtype[name].kind for name in names]
    if len(names) != 2 or sorted(k == "b" for k in kinds) != [False, True]:
        raise InputTypeError(f"a structured y has one boolean (event) and one numeric (time) field, not {y.dtype}")
    event, time = names if kinds[0] == "b" else reversed(names)
    return Surv(y[time], y[event])


def _counts(y: object) -> Response:
    if isinstance(y, Response):
        if y.scale in ("ordinal", "count"):
            if y.scale == "count":
                return y
            raise InputTypeError(f"this model takes counts, not {y!r}")
        if y.scale == "time":
            raise InputTypeError("Surv is for times above 0; for censored or truncated counts use Interval")
        low, high = y.lower, y.upper
        for name, ends in (("lower", low), ("upper", high)):
            _check_counts(ends[np.isfinite(ends)], f"{name} end of a count")
        low = np.where(low == high, low - 1.0, low)
        return Response(np.where(low < 0, -np.inf, low), high, _whole_ends(y.entry), _whole_ends(y.exit), scale="count")
    k = _numbers(y, "count")
    _check_counts(k, "count")
    return Response(np.where(k == 0, -np.inf, k - 1.0), k, scale="count")


def _whole_ends(ends: Array | None) -> Array | None:
    """Return truncation ends of counts: a count above 0.5 is a count above 0; below 0 nothing is cut off."""
    if ends is None:
        return None
    whole = np.floor(ends)
    return np.where(whole < 0.0, -np.inf, whole)


def _check_counts(k: Array, what: str) -> None:
    _refuse(
        k > 2.0**53, k, what, "is beyond 2^53, where doubles skip whole numbers", "use a model for continuous outcomes"
    )
    _refuse(k < 0, k, what, "is negative", "counts are 0, 1, 2, ...")
    _refuse(k != np.floor(k), k, what, "is not a whole number", "round it, or use a model for continuous outcomes")


def _categories(y: Any) -> tuple[list[Hashable], NDArray[np.intp], bool] | None:
    """Return categories, codes (-1: missing) and orderedness of a categorical, or None."""
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


def _ordinal(y: object, levels: Sequence[Hashable] | None) -> Response:
    if isinstance(y, Response):
        if y.scale != "ordinal":
            raise InputTypeError(f"an ordinal model takes classes, not {y!r}")
        if levels is None or tuple(levels) == y.levels:
            return y
        return _ordinal(np.array(y.levels, dtype=object)[y.codes], levels)
    found = _categories(y)
    if found is None:
        labels, codes = _factorise(_column(y, "y"))
        levels = labels if levels is None else levels
    else:
        labels, codes, ordered = found
        if not ordered:
            raise InputTypeError(
                "classes of an ordinal outcome need an order: make the categories ordered, "
                "for example pd.Categorical(y, ['low', 'medium', 'high'], ordered=True)"
            )
        shown = np.where(codes < 0, "missing", "")
        _refuse(codes < 0, shown, "y", "has a missing class", "drop or impute such rows")
        if levels is None:
            return _cells(codes, tuple(labels))
    known = {level: code for code, level in enumerate(levels)}
    translated = np.array([known.get(label, -1) for label in labels], dtype=np.intp)[codes]
    if (translated < 0).any():
        values = np.array(labels, dtype=object)[codes]
        _refuse(translated < 0, values, "y", "has a class that is not known", f"known are {list(levels)}")
    return _cells(translated, tuple(levels))


class Classes(NamedTuple):
    """Distinct classes, the place of each row among them, and all that an ordered categorical declares."""

    labels: list[Hashable]
    codes: NDArray[np.intp]
    declared: tuple[Hashable, ...] | None


def classes_of(y: object) -> Classes:
    """Return the classes of some rows of an ordinal outcome."""
    found = _categories(y)
    if found is None:
        labels, codes = _factorise(_column(y, "y"))
        return Classes(labels, codes, None)
    response = _ordinal(y, None)  # checks order and missing classes
    return Classes(list(found[0]), response.codes, tuple(found[0]))


def sorted_words(y: object, response: Response) -> bool:
    """Return whether the classes are three or more plain words, whose alphabetical order may mean nothing."""
    if response.levels is None or isinstance(y, Response) or _categories(y) is not None:
        return False
    return plain_words(response.levels)


def plain_words(levels: Sequence[Hashable]) -> bool:
    """Return whether classes are three or more words without numbers in them."""
    return len(levels) >= 3 and all(isinstance(x, str) and not any(c.isdigit() for c in x) for x in levels)


def _factorise(values: NDArray[Any]) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the sorted distinct values and the position of each value among them."""
    objects = values.dtype.kind == "O"
    missing = np.array([is_missing(x) for x in values]) if objects else values != values
    _refuse(missing, values, "y", "has a missing class", "drop or impute such rows")
    if values.dtype.kind in "ib":
        low, high = int(values.min()), int(values.max())
        if high - low < 10_000:  # counting is faster than sorting
            codes = values.astype(np.intp) - low
            seen = np.bincount(codes) > 0
            labels = np.arange(low, high + 1)[seen].astype(values.dtype)
            return labels.tolist(), (np.cumsum(seen) - 1)[codes]
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise InputTypeError("the classes in y cannot be sorted: use one type, or an ordered categorical") from None
    return labels.tolist(), codes


def _cells(codes: NDArray[np.intp], levels: tuple[Hashable, ...]) -> Response:
    if len(levels) < 2:
        raise InputError(f"an ordinal outcome needs at least two classes, not only {list(levels)}")
    lower = np.where(codes == 0, -np.inf, codes - 1.0)
    upper = np.where(codes == len(levels) - 1, np.inf, codes.astype(np.float64))
    return Response(lower, upper, scale="ordinal", levels=levels)
