"""What a covariate is: a factor with levels, or numbers with a range; learned from all rows or batch by batch."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anchortm._messages import warn
from anchortm._util.checks import as_floats, is_numeric
from anchortm.exceptions import AnchorTMWarning, InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ColumnFacts", "check_levels", "level_key"]

Kind = Literal["category", "text", "code", "number"]


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is in some rows; add two such records to join their rows."""

    name: str
    kind: Kind
    n_rows: int
    levels: tuple[Any, ...] = ()  # those that occur
    declared: tuple[Any, ...] = ()  # the categories, in order
    low: float = math.inf
    high: float = -math.inf
    coded: bool = False  # whether it is written C(...)
    counts: tuple[int, ...] = ()  # numbers of rows of the levels

    @classmethod
    def learn(cls, column: pd.Series, name: str, coded: bool) -> ColumnFacts:
        """Return what a column is in these rows; with ``coded``, numbers are codes of levels."""
        import pandas as pd

        n = len(column)
        if isinstance(column.dtype, pd.CategoricalDtype):
            seen = column.cat.remove_unused_categories()
            counts = tuple(np.bincount(seen.cat.codes, minlength=len(seen.cat.categories)).tolist())
            return cls(name, "category", n, tuple(seen.cat.categories), tuple(column.cat.categories), counts=counts)
        if column.dtype.kind == "O":
            types = {type(value) for value in column}
            if types in ({str}, {bool}):
                levels, counts = _levels_of(column)
                return cls(name, "text", n, levels, coded=coded, counts=counts)
            if types & {str, bool}:
                listed = ", ".join(sorted(t.__name__ for t in types))
                raise InputError(f"covariate {name!r} should be numbers or text, but has {listed}: make it one type")
            numbers = as_floats(column.to_numpy(), f"covariate {name!r}", "turn it into numbers or text")
            column = pd.Series(numbers, column.index)
        if column.dtype.kind not in "biuf":
            raise InputError(
                f"covariate {name!r} is of type {column.dtype}: turn it into numbers (days since a date) or text"
            )
        infinite = np.isinf(column.to_numpy(dtype=np.float64)) if column.dtype.kind == "f" else np.zeros(1, dtype=bool)
        if infinite.any():
            row = int(np.flatnonzero(infinite)[0])
            raise InputError(f"X contains infinity in {name}, first at row {row}; drop or impute such rows")
        if coded:
            levels, counts = _levels_of(column)
            return cls(name, "code", n, levels, counts=counts)
        return cls(name, "number", n, low=float(column.min()), high=float(column.max()))

    def __add__(self, other: ColumnFacts) -> ColumnFacts:
        if self.kind != other.kind:
            raise InputError(f"covariate {self.name!r} is of kind {self.kind} in some rows and {other.kind} in others")
        counts = Counter(self.counted) + Counter(other.counted)
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            levels=tuple(counts),
            counts=tuple(counts.values()),
            declared=tuple(dict.fromkeys((*self.declared, *other.declared))),
            low=min(self.low, other.low),
            high=max(self.high, other.high),
        )

    @cached_property
    def counted(self) -> dict[Any, int]:
        """The number of rows of each level."""
        return dict(zip(self.levels, self.counts, strict=True))

    def settled(self) -> list[Any] | None:
        """Return the levels in order, None for numbers; refuse factors that are probably a mistake."""
        if self.kind == "number":
            return None
        if self.kind == "category":
            seen = set(self.levels)
            gone = [str(level) for level in self.declared if level not in seen]
            if gone:
                text = f"levels of covariate {self.name!r} that no row has are dropped: {', '.join(gone)}"
                warn(text, AnchorTMWarning)
            levels = [level for level in self.declared if level in seen]
        else:
            levels = sorted(self.levels)
        levels = [level.item() if hasattr(level, "item") else level for level in levels]
        odd = [level for level in levels if not is_numeric(level)]
        if self.kind == "text" and not self.coded and 0 < len(odd) < min(len(levels) - 10, len(levels) / 5):
            raise InputError(
                f"covariate {self.name!r} is text, but nearly all its values are numbers: correct the others, "
                f"such as {odd[0][:80]!r}, or write C({self.name}) for a factor"
            )
        check_levels(self.name, self.kind, levels, self.n_rows)
        return levels


def _levels_of(column: pd.Series) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return the levels of a column in the order in which they occur, and their numbers of rows."""
    import pandas as pd

    codes, values = pd.factorize(column)
    return tuple(values.tolist()), tuple(np.bincount(codes, minlength=len(values)).tolist())


def check_levels(name: str, kind: str, levels: list[Any], n: float) -> None:
    """Refuse a single level, levels that look alike, and text with a level for nearly every row."""
    if len(levels) < 2:
        raise InputError(f"covariate {name!r} has the single level {levels[0]!r}: leave it out")
    if len({level_key(level) for level in levels}) < len(levels):
        raise InputError(f"covariate {name!r} has levels that look alike, such as 1 and '1': make them one")
    if kind == "text" and len(levels) > max(20, n / 2):
        raise InputError(
            f"covariate {name!r} is text with {len(levels)} different values, such as {str(levels[0])[:80]!r}: "
            "merge levels, or leave it out"
        )


def level_key(value: object) -> str:
    """Return a level as text, the same for 1, 1.0 and '1'."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, float, np.integer, np.floating)):
        return str(int(value)) if float(value).is_integer() else str(float(value))
    return str(value)
