"""Strata: the label of each row, and codes in the order of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Labels
from anchortm._util.checks import is_missing
from anchortm._util.frames import native
from anchortm.exceptions import InputError, MissingValueError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cluster_labels", "coded", "known_strata", "stratum_codes", "stratum_labels", "stratum_sets"]

WIDEST = 10  # range of labels, relative to the number of rows, up to which they are counted rather than sorted
MOST_EXACT = 2.0**53  # whole numbers below this are exact as floats


def stratum_labels(columns: Labels, what: str = "strata") -> list[Any]:
    """Return the stratum of each row: its value in one column, or ``a=1, b=2`` from several.

    ``what`` is the name of strata in errors.
    """
    table: Any = columns
    if hasattr(table, "columns"):
        made = {str(name): _labels(table[name], name, what) for name in table.columns}
    else:
        made = {str(j): _labels(column, f"column {j}", what) for j, column in enumerate(np.asarray(table).T)}
    if len(made) == 1:
        return next(iter(made.values()))
    rows = zip(*made.values(), strict=True)
    return [", ".join(f"{name}={value}" for name, value in zip(made, row, strict=True)) for row in rows]


def cluster_labels(columns: Labels) -> Sequence[Any] | NDArray[np.intp]:
    """Return the cluster of each row; a column of whole numbers stays an array, because there can be many rows."""
    table: Any = columns
    array = np.asarray(native(table[table.columns[0]])) if hasattr(table, "columns") else np.asarray(table).ravel()
    if array.dtype.kind == "f" and (np.abs(array) < MOST_EXACT).all() and (array % 1.0 == 0.0).all():
        array = array.astype(np.intp)
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.intp, copy=False)
    return stratum_labels(columns, "clusters")


def coded(labels: Sequence[Any] | NDArray[np.intp]) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the different labels, in order, and the code of each row."""
    if isinstance(labels, np.ndarray):
        return _coded_numbers(labels)
    known = known_strata(labels)
    place = {label: k for k, label in enumerate(known)}
    return known, np.array([place[label] for label in labels], dtype=np.intp)


def _coded_numbers(labels: NDArray[np.intp]) -> tuple[list[int], NDArray[np.intp]]:
    """Return the different whole numbers and the code of each row; if their range is narrow, without sorting."""
    if not labels.size:
        return [], np.zeros(0, dtype=np.intp)
    first, last = int(labels.min()), int(labels.max())
    if last - first > WIDEST * labels.size:
        found, codes = np.unique(labels, return_inverse=True)
        return found.tolist(), codes
    seen = np.zeros(last - first + 1, dtype=bool)
    seen[labels - first] = True
    known = np.flatnonzero(seen)
    return (known + first).tolist(), (np.cumsum(seen) - 1)[labels - first]


def stratum_sets(frame: pd.DataFrame) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the different strata of a frame whose columns name them, in order, and the code of each row."""
    first = ~frame.duplicated().to_numpy()
    labels = stratum_labels(frame[first])
    known = known_strata(labels)
    sets = frame.groupby(list(frame.columns), sort=False, observed=True).ngroup().to_numpy()
    return known, stratum_codes(labels, known)[sets]


def _labels(column: Any, name: object, what: str) -> list[Any]:
    """Return a column of names or whole numbers as a list."""
    array = np.asarray(native(column))
    values = list(array) if array.dtype.kind in "mM" else array.tolist()  # of nanoseconds tolist makes whole numbers
    odd = [v for v in values if not (isinstance(v, (str, int)) or (isinstance(v, float) and v.is_integer()))]
    if odd:
        raise (MissingValueError if any(map(is_missing, odd)) else InputError)(
            f"{what} are names or whole numbers, but {name!r} has {odd[0]!r}: drop such rows, or cut numbers at "
            "quantiles"
        )
    return [int(v) if isinstance(v, float) else v for v in values]


def known_strata(labels: Sequence[Any]) -> list[Any]:
    """Return the different strata, in order."""
    return sorted(set(labels), key=lambda label: (str(type(label)), label))


def stratum_codes(labels: Sequence[Any], known: Sequence[Any]) -> NDArray[np.intp]:
    """Return the position of each label among those of the fit."""
    place = {label: k for k, label in enumerate(known)}
    unseen = sorted({str(label) for label in labels if label not in place})
    if unseen:
        raise InputError(
            f"strata that the fit has not seen: {', '.join(unseen[:10])}; known: {', '.join(map(str, known[:20]))}; "
            "leave their rows out, as each stratum needs a baseline from rows of its own"
        )
    return np.array([place[label] for label in labels], dtype=np.intp)
