"""Counts, and successes out of so many trials: a count k is the interval (k - 1, k]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anchortm._typing import Array, Numbers, Outcome
from anchortm._util.frames import aligned, name_of, native
from anchortm.exceptions import InputTypeError
from anchortm.inputs.response.checks import as_numbers, refuse, same_length
from anchortm.inputs.response.rows import Response

__all__ = ["Trials", "as_counts"]


def Trials(successes: Numbers, trials: Numbers) -> Response:  # noqa: N802
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
    k, m = as_numbers(successes, "successes"), as_numbers(np.atleast_1d(np.asarray(native(trials))), "trials")
    m = np.broadcast_to(m, k.shape).copy() if m.size == 1 else m
    same_length(k.size, trials=m)
    _check_counts(k, "successes")
    _check_counts(m, "trials")
    refuse(m < 1, m, "trials", "is not at least 1", "drop rows without trials")
    refuse(k > m, k, "successes", "is more than the trials of its row", "the order is Trials(successes, trials)")
    return replace(as_counts(k), trials=m, index=index, name=name_of(successes))


def as_counts(y: Outcome) -> Response:
    """Return counts, exact or as intervals with whole ends, as a ``Response``."""
    if isinstance(y, Response):
        if y.scale == "count":
            return y
        if y.scale == "ordinal":
            raise InputTypeError(f"this model takes counts, not {y!r}")
        if y.scale == "time":
            raise InputTypeError("Surv is for times above 0; for censored or truncated counts use Interval")
        low, high = y.lower, y.upper
        for name, ends in (("lower", low), ("upper", high)):
            _check_counts(ends[np.isfinite(ends)], f"{name} end of a count")
        low = np.where(low == high, low - 1.0, low)
        return Response(np.where(low < 0, -np.inf, low), high, _whole_ends(y.entry), _whole_ends(y.exit), scale="count")
    k = as_numbers(y, "count")
    _check_counts(k, "count")
    return Response(np.where(k == 0, -np.inf, k - 1.0), k, scale="count")


def _whole_ends(ends: Array | None) -> Array | None:
    """Return truncation ends of counts as whole numbers: a count above 0.5 is above 0; ends below 0 cut nothing off."""
    if ends is None:
        return None
    whole = np.floor(ends)
    return np.where(whole < 0.0, -np.inf, whole)


def _check_counts(k: Array, what: str) -> None:
    """Refuse what is not a whole number from 0 to 2^53."""
    refuse(
        k > 2.0**53, k, what, "is beyond 2^53, where doubles skip whole numbers", "use a model for continuous outcomes"
    )
    refuse(k < 0, k, what, "is negative", "counts are 0, 1, 2, ...")
    refuse(k != np.floor(k), k, what, "is not a whole number", "round it, or use a model for continuous outcomes")
