"""Numbers and times that may be censored or truncated: ``Surv`` and ``Interval``."""

from __future__ import annotations

import numpy as np

from anchortm._typing import Array, Numbers
from anchortm._util.frames import aligned, in_formulas, name_of
from anchortm.exceptions import InputTypeError
from anchortm.inputs.response.checks import as_numbers, one_column, refuse, same_length
from anchortm.inputs.response.rows import Response

__all__ = ["Interval", "Surv"]

MOST_VALUES = 10  # most values of an event that a message lists
ORDER = "code it 1 (seen) or 0 (censored); the order is Surv(time, event, entry), not R's (start, stop, event)"

NEGATIVE = "times start at 0; for an outcome that may be negative use Interval(lower, upper), upper = inf if censored"


def Surv(time: Numbers, event: Numbers, entry: Numbers | None = None) -> Response:  # noqa: N802
    """Return a time-to-event outcome: exact where ``event`` is 1, right-censored where it is 0.

    Parameters
    ----------
    time : array of non-negative numbers
        Time of the event or of the end of observation.
    event : array of 0/1 or booleans
        Whether the event was seen.
    entry : array of numbers, optional
        Delayed entry (left truncation): the row is in the data only because its time is later
        than this. Zero or less means that the row was observed from the start.

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
    t = as_numbers(time, "time")
    refuse(t < 0, t, "time", "is negative", NEGATIVE)
    seen = _events(event)
    same_length(t.size, event=seen)
    upper = np.where(seen == 1, t, np.inf)
    # times are above 0, so being censored or entering at 0 carries no information
    lower = np.where((seen == 0) & (t == 0), -np.inf, t)
    if entry is None:
        return Response(lower, upper, scale="time", index=index, name=name_of(time))
    start = as_numbers(entry, "entry", infinite=True)
    same_length(t.size, entry=start)
    start = np.where(start <= 0, -np.inf, start)
    refuse(start >= t, start, "entry", "is not before the time", "a row must enter before its time")
    late = start if np.isfinite(start).any() else None
    return Response(lower, upper, entry=late, scale="time", index=index, name=name_of(time))


def _events(event: Numbers) -> Array:
    """Return which events were seen; other codes than 0 and 1 are refused, and none of them is taken for the event."""
    try:
        seen = as_numbers(event, "event")
    except InputTypeError:
        values = one_column(event, "event")
        if not all(isinstance(value, str) for value in values):
            raise
        hint = _compared(event, sorted(map(repr, set(values.tolist()))), "'...'")
        raise InputTypeError(f"event must be numbers, not text; {hint}") from None
    odd = (seen != 0) & (seen != 1)
    if odd.any():
        refuse(odd, seen, "event", "is not 0 or 1", f"{_compared(event, [f'{x:g}' for x in np.unique(seen)])}; {ORDER}")
    return seen


def _compared(event: Numbers, values: list[str], one: str = "...") -> str:
    """Return how to turn an event with these values into 0 and 1; which one means the event, only the user knows."""
    shown = ", ".join(values[:MOST_VALUES]) + (f" and {len(values) - MOST_VALUES} more" * (len(values) > MOST_VALUES))
    name = in_formulas(name_of(event) or "event")
    return f"its values are {shown}: compare with the one that means the event, {name} == {one}"


def Interval(  # noqa: N802
    lower: Numbers, upper: Numbers, *, entry: Numbers | None = None, exit: Numbers | None = None
) -> Response:
    """Return an outcome known to lie in (lower, upper].

    Equal ends are an exact observation, and an infinite end means no bound: ``Interval(-inf, 3)`` is
    left-censored at 3, ``Interval(3, inf)`` is right-censored at 3.

    Parameters
    ----------
    lower, upper : arrays of numbers
        Ends, with ``lower <= upper``; infinities allowed.
    entry, exit : arrays of numbers, optional
        Truncation: the row is in the data only because its outcome lies in (entry, exit].

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
    low, high = as_numbers(lower, "lower", infinite=True), as_numbers(upper, "upper", infinite=True)
    same_length(low.size, upper=high)
    pairs = np.array([f"({a:g}, {b:g}]" for a, b in zip(low, high, strict=True)]) if (low > high).any() else low
    refuse(low > high, pairs, "Interval", "has lower > upper", "swap the ends")
    refuse(np.isinf(low) & (low == high), low, "Interval", "is exact at infinity", "an exact outcome must be finite")
    start = None if entry is None else as_numbers(entry, "entry", infinite=True)
    stop = None if exit is None else as_numbers(exit, "exit", infinite=True)
    same_length(low.size, entry=start, exit=stop)
    exact = low == high
    # an outcome in (lower, upper] and in (entry, exit] is in their intersection
    if start is not None:
        refuse((start >= high) | (exact & (start >= low)), start, "entry", "is not before the outcome", "drop the row")
        low = np.where(exact, low, np.maximum(low, start))
    if stop is not None:
        refuse((stop <= low) & ~(exact & (stop == low)), stop, "exit", "is not after the outcome", "drop the row")
        high = np.where(exact, high, np.minimum(high, stop))
    if start is not None and np.isneginf(start).all():
        start = None
    if stop is not None and np.isposinf(stop).all():
        stop = None
    names = list(dict.fromkeys(name for ends in (lower, upper) if (name := name_of(ends)) is not None))
    return Response(low, high, entry=start, exit=stop, index=index, name=" to ".join(names) or None)
