"""The outcome of each row as an interval (lower, upper], with its kind of observation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Rows
from anchortm._util.html import FEW_ROWS, Table, report

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Kind", "Response", "Scale"]

Scale = Literal["continuous", "time", "ordinal", "count"]


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

    ``Surv``, ``Interval``, ``Trials`` and ``as_response`` make it and check it. It behaves as an array
    of rows: ``len``, ``shape``, and indexing by a slice, a mask or positions.

    Attributes
    ----------
    lower, upper : array
        Ends of (lower, upper]; equal for exact rows, infinite where there is no bound.
    entry, exit : array or None
        Ends of the truncation interval (entry, exit], infinite where there is no bound.
    scale : {"continuous", "time", "ordinal", "count"}
        What the numbers are.
    levels : tuple or None
        The classes of an ordinal outcome, in order.
    trials : array or None
        The number of trials where a count is a number of successes.
    index : pandas Index or None
        The labels of the rows, where they came as pandas columns.
    name : str or None
        What the outcome is called, where it came as a column with a name.

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
    index: pd.Index | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        one = self.upper is self.lower  # of exact rows
        for name in ("lower", "upper", "entry", "exit", "trials"):
            values = getattr(self, name)
            if values is not None:
                values = values.view()
                values.flags.writeable = False
                object.__setattr__(self, name, values)
        if one:
            object.__setattr__(self, "upper", self.lower)

    @cached_property
    def kind(self) -> NDArray[np.int8]:
        """Return the ``Kind`` of each row."""
        if self.lower is self.upper:
            return np.full(len(self), Kind.EXACT, dtype=np.int8)
        bounded_below, bounded_above = np.isfinite(self.lower), np.isfinite(self.upper)
        kind = Kind.LEFT * bounded_above.view(np.int8) + Kind.RIGHT * bounded_below.view(np.int8)  # both: an interval
        kind += Kind.RIGHT * (kind == 0).view(np.int8)  # without any end
        return np.asarray(kind * (self.lower != self.upper), dtype=np.int8)

    def __len__(self) -> int:
        return int(self.lower.shape[0])

    @property
    def shape(self) -> tuple[int]:
        """Return (number of rows,)."""
        return (len(self),)

    def __getitem__(self, rows: Rows | tuple[Rows, EllipsisType]) -> Response:
        if isinstance(rows, tuple):  # scikit-learn asks for y[rows, ...]
            rows = rows[0]
        if isinstance(rows, (int, np.integer)):
            rows = [rows]

        def take(values: Any) -> Any:
            return None if values is None else values[rows]

        lower = self.lower[rows]
        return replace(
            self,
            lower=lower,
            upper=lower if self.upper is self.lower else self.upper[rows],
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
        return {kind.name.lower(): int(np.count_nonzero(self.kind == kind)) for kind in Kind}

    def reach(self) -> tuple[float, float]:
        """Return the smallest and the largest finite end of any row."""
        if self.scale == "count":  # k is (k - 1, k]
            last = max(_largest(self.upper), float(self.lower.max()) + 1.0, 0.0)
            return max(float(self.lower.min()) + 1.0, 0.0), last
        if self.scale == "ordinal":  # rows without a lower end have the smallest upper one
            low, high = float(self.lower.min()), float(self.upper.max())
            first = low if np.isfinite(low) else float(self.upper.min())
            return first, high if np.isfinite(high) else float(self.lower.max())
        return min(_smallest(self.lower), _smallest(self.upper)), max(_largest(self.lower), _largest(self.upper))

    @property
    def codes(self) -> NDArray[np.intp]:
        """Return the class of each row of an ordinal response, counted from 0."""
        return np.where(np.isfinite(self.lower), self.lower + 1.0, 0.0).astype(np.intp)

    def __repr__(self) -> str:
        return f"Response({len(self)} rows{self._description()})"

    def _repr_html_(self) -> str:
        import pandas as pd

        part = self[:FEW_ROWS]
        truncated = {name: getattr(part, name) for name in ("entry", "exit") if getattr(part, name) is not None}
        trials = {} if part.trials is None else {"trials": part.trials}
        rows = pd.RangeIndex(len(part), name="row") if part.index is None else part.index
        frame = pd.DataFrame({"outcome": part._texts()} | truncated | trials, index=rows)
        return report(repr(self), Table(frame, len(self)))

    def _texts(self) -> list[str]:
        """Return each outcome as text: 5; 5+ if it is known to exceed 5; (2, 5] if it lies between."""
        if self.levels is not None:
            return [str(self.levels[code]) for code in self.codes]
        step = 1.0 if self.scale == "count" else 0.0  # the count k is (k - 1, k]
        single = (self.upper - self.lower == step) | ((self.upper == 0.0) & (step > 0.0)) | (self.upper == self.lower)
        beyond = np.isposinf(self.upper) & np.isfinite(self.lower)
        rows = zip(self.lower.tolist(), self.upper.tolist(), single, beyond, strict=True)
        return [
            f"{high:g}" if one else f"{low + step:g}+" if open_ else f"({low:g}, {high:g}]"
            for low, high, one, open_ in rows
        ]

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


def _smallest(values: Array) -> float:
    """Return the smallest finite value, infinity if there is none."""
    least = float(values.min())
    return least if np.isfinite(least) else float(np.where(np.isfinite(values), values, np.inf).min())


def _largest(values: Array) -> float:
    """Return the largest finite value, minus infinity if there is none."""
    return -_smallest(-values)
