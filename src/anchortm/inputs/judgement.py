"""Which new rows cannot be predicted, and why: judged column by column, before anything is computed from them.

A column of n entries is judged at once; only bad entries are looked at one by one, for the words that describe them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import plain, warn
from anchortm._util.checks import as_floats
from anchortm.exceptions import AnchorTMWarning, InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DROP_LEVELS", "Judgement", "OnBadRows", "Unknown", "check_policy", "warn_of_mapped"]

OnBadRows = Literal["error", "mark"]
Unknown = Literal["error", "baseline", "rare"]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int32]

LONGEST = 60  # characters of an entry in a reason
MOST_LISTED = 5  # reasons in an error, and levels in a warning
DROP_LEVELS = "drop these rows or merge levels"  # ends errors about levels that the fit has not seen


def check_policy(on_bad_rows: Any, unknown: Any) -> bool:
    """Return whether rows must be judged one by one; refuse words that are not on the lists."""
    if not isinstance(on_bad_rows, str) or on_bad_rows not in ("error", "mark"):
        raise InputError(f'on_bad_rows must be "error" or "mark", not {on_bad_rows!r}')
    if not isinstance(unknown, str) or unknown not in ("error", "baseline", "rare"):
        raise InputError(f'unknown must be "error", "baseline" or "rare", not {unknown!r}')
    return on_bad_rows == "mark" or unknown != "error"


class Judgement:
    """What is wrong with each of n new rows, as far as their columns have been judged.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    unknown : {"error", "baseline", "rare"}
        How levels of covariates that the fit has not seen are read.

    Attributes
    ----------
    bad : array of bool
        The rows that cannot be predicted.
    """

    def __init__(self, n_rows: int, unknown: Unknown = "error") -> None:
        self.n_rows, self.unknown = n_rows, unknown
        self.bad: Mask = np.zeros(n_rows, dtype=bool)
        self._reasons: list[tuple[NDArray[np.intp], str]] = []
        self._mappings: list[tuple[NDArray[np.intp], tuple[str, str, str]]] = []

    @property
    def mapped(self) -> Counter[tuple[str, str, str]]:
        """How many good rows have an unknown level that is read as another: (column, level, read as) -> number."""
        return +Counter({mapped: int((~self.bad[rows]).sum()) for rows, mapped in self._mappings})

    @property
    def good(self) -> NDArray[np.intp] | slice:
        """Positions of the rows without a known problem."""
        return np.flatnonzero(~self.bad) if self.bad.any() else slice(None)

    @property
    def n_good(self) -> int:
        """Number of such rows."""
        return self.n_rows - int(self.bad.sum())

    def refuse(self, rows: Mask | NDArray[np.intp], reason: str) -> None:
        """Mark rows, given by their positions or by a mask, as bad for a reason."""
        places = np.flatnonzero(rows) if rows.dtype == bool else rows
        if places.size:
            self.bad[places] = True
            self._reasons.append((places.astype(np.intp), plain(reason)))

    def join(self, other: Judgement, rows: NDArray[np.intp]) -> None:
        """Add what another judgement says about these rows."""
        for places, reason in other._reasons:
            self.refuse(rows[places], reason)

    def refuse_among_good(self, wrong: Mask, reason: str) -> None:
        """Mark rows as bad that are given by a mask over those that were good so far."""
        self.refuse(np.arange(self.n_rows)[self.good][wrong], reason)

    def numbers(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return a column of numbers; entries that are missing, infinite or not numbers make their rows bad."""
        if values.dtype.kind in "biu":
            return values
        if values.dtype.kind != "f":
            values = self._from_objects(name, values)
        elif not np.isfinite(values).all():
            self.refuse(np.isnan(values), f"{name} is missing")
        if not np.isfinite(values).all():
            self.refuse(np.isinf(values), f"{name} is infinite")
        return values

    def _from_objects(self, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return objects as numbers, also text that reads as one; NaN where that fails."""
        import pandas as pd

        if values.dtype.kind not in "OSU":
            return as_floats(values, f"covariate {name!r}", "turn it into numbers")  # an error about the whole column
        words = pd.Series(values, dtype=object)
        lost = words.isna().to_numpy() | np.fromiter((_is_blank(x) for x in values), dtype=bool, count=values.size)
        numbers: NDArray[np.float64] = pd.to_numeric(words.mask(lost), errors="coerce").to_numpy(
            dtype=np.float64, na_value=np.nan
        )
        self.refuse(lost, f"{name} is missing")
        self._refuse_each(name, values, np.isnan(numbers) & ~lost, "not a number")
        return numbers

    def _refuse_each(self, name: str, values: NDArray[Any], wrong: Mask, what: str) -> None:
        """Mark rows whose entries are wrong, each with its entry in the reason."""
        rows: dict[str, list[int]] = {}
        for row in np.flatnonzero(wrong).tolist():
            rows.setdefault(shown(values[row]), []).append(row)
        for entry, places in rows.items():
            self.refuse(np.array(places, dtype=np.intp), f"{name} {entry} is {what}")

    def levels(
        self, name: str, own: NDArray[np.intp], values: Sequence[Any], place: NDArray[Any], stand_in: Callable[[], Any]
    ) -> Codes:
        """Return the code of each row's level in the fit; missing and unknown levels make rows bad, or are mapped.

        Parameters
        ----------
        name : str
            The column.
        own : array of int
            The position of each row's level among ``values``; -1 where it is missing.
        values : sequence
            The levels of these rows.
        place : array of int
            The code of each of these levels in the fit; -1 if it is unknown.
        stand_in : callable
            Returns the code and the name of the level as which unknown ones are read.
        """
        self.refuse(own < 0, f"{name} is missing")
        place = np.append(place, 0)  # the place of missing levels
        unseen = np.flatnonzero(place < 0)
        code, called = stand_in() if unseen.size and self.unknown != "error" else (0, None)
        for k, rows in _places(own, unseen):
            if called is None:
                self.refuse(rows, f"{name} {shown(values[k])} is unknown")
            else:
                self._mappings.append((rows, (name, shown(values[k]), shown(called))))
        place[unseen] = code
        return np.asarray(place.astype(np.int32)[own])

    def strata(self, frame: pd.DataFrame, labels: Callable[[pd.DataFrame], list[Any]], known: Sequence[Any]) -> None:
        """Mark rows whose stratum is missing or unknown.

        Parameters
        ----------
        frame : DataFrame
            The columns that name the strata.
        labels : callable
            Returns the stratum of each row of such a frame.
        known : sequence
            The strata of the fit.
        """
        import pandas as pd

        sets, lost = np.zeros(self.n_rows, dtype=np.intp), np.zeros(self.n_rows, dtype=bool)
        for name in frame:
            own, values = pd.factorize(frame[name])
            self.refuse(own < 0, f"{name} is missing")
            sets, lost = sets * len(values) + own, lost | (own < 0)
        found, first, sets = np.unique(np.where(lost, -1, sets), return_index=True, return_inverse=True)
        named = np.flatnonzero(found >= 0)
        seen = _are_known(frame.iloc[first[named]], labels, set(known))
        for k, rows in _places(sets, named[~np.array(seen, dtype=bool)]):
            text = " and ".join(f"{name} {shown(frame[name].iloc[first[k]])}" for name in frame)
            self.refuse(rows, f"{text} is unknown")

    def reasons(self) -> NDArray[np.object_]:
        """Return for each row why it is bad, empty text for the others."""
        return _joined(self.n_rows, self._reasons)

    def mappings(self) -> NDArray[np.object_]:
        """Return for each row which unknown levels were read as others, empty text if none."""
        found = ((rows[~self.bad[rows]], mapped) for rows, mapped in self._mappings)
        return _joined(self.n_rows, [(rows, plain(f"{a} {b} read as {c}")) for rows, (a, b, c) in found if rows.size])

    def check(self) -> None:
        """Raise an error if there are bad rows."""
        if not self.bad.any():
            return
        listed = [
            f"{reason} ({_rows(rows.size)}, first row {int(rows[0])})" for rows, reason in self._reasons[:MOST_LISTED]
        ]
        more = ", ..." if len(self._reasons) > MOST_LISTED else ""
        raise InputError(
            f"{int(self.bad.sum())} of {_rows(self.n_rows)} cannot be predicted: {', '.join(listed)}{more}; "
            'repair or drop such rows, or pass on_bad_rows="mark"'
        )


def warn_of_mapped(mapped: Counter[tuple[str, str, str]]) -> None:
    """Warn that unknown levels were read as others, with their numbers of rows."""
    if not mapped:
        return
    parts = [f"{name} {level} as {called} ({_rows(n)})" for (name, level, called), n in mapped.most_common(MOST_LISTED)]
    more = f", and {len(mapped) - MOST_LISTED} more levels" if len(mapped) > MOST_LISTED else ""
    warn(f"levels that the fit has not seen are read as others: {', '.join(parts)}{more}", AnchorTMWarning)


def shown(entry: Any) -> str:
    """Return an entry as text for a reason, cut short."""
    text = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _is_blank(entry: Any) -> bool:
    return isinstance(entry, str) and not entry.strip()


def _are_known(frame: pd.DataFrame, labels: Callable[[pd.DataFrame], list[Any]], known: set[Any]) -> list[bool]:
    """Return whether each row's stratum is one of the fit; numbers that are not whole name no stratum."""
    try:
        return [label in known for label in labels(frame)]
    except InputError:
        if len(frame) == 1:
            return [False]
        return [seen for k in range(len(frame)) for seen in _are_known(frame.iloc[[k]], labels, known)]


def _places(codes: NDArray[Any], wanted: NDArray[np.intp]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each of these codes that occurs, with its rows."""
    rows = np.flatnonzero(np.isin(codes, wanted)) if wanted.size else np.zeros(0, dtype=np.intp)
    order = rows[np.argsort(codes[rows], kind="stable")]
    for own in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        if own.size:
            yield int(codes[own[0]]), own


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def _joined(n: int, found: Sequence[tuple[NDArray[np.intp], str]]) -> NDArray[np.object_]:
    """Return the texts of each row, joined."""
    if not found:
        return np.broadcast_to(np.array("", dtype=object), (n,))
    out = np.full(n, "", dtype=object)
    for rows, text in found:
        out[rows] = [f"{before}; {text}" if before else text for before in out[rows]]
    return out
