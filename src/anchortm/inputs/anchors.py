"""Anchors as given: factors as codes with their levels, and numeric columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array, Labels, Rows
from anchortm._util.checks import TIMES, is_missing, real_numbers
from anchortm._util.frames import in_formulas, native
from anchortm.exceptions import InputError, InputTypeError, MissingValueError

__all__ = [
    "MOST_CODES",
    "AnchorColumns",
    "anchor_columns",
    "environment_names",
    "group_codes",
    "groups_of",
    "look_like_codes",
    "units_of",
]

Codes = NDArray[np.intp]

FEWEST_CODES, MOST_CODES = 5, 30  # a column with so many different whole numbers may be codes


@dataclass(frozen=True, eq=False)
class AnchorColumns:
    """Anchors after parsing: factors as codes with their levels, and numeric columns."""

    factors: tuple[Codes, ...]
    levels: tuple[NDArray[Any], ...]
    columns: Array
    factor_names: tuple[str, ...]
    column_names: tuple[str, ...]

    @property
    def main(self) -> int | None:
        """Return the position of the factor with the most levels, if there is a factor."""
        sizes = [level.size for level in self.levels]
        return int(np.argmax(sizes)) if sizes else None

    def order(self) -> NDArray[np.intp] | None:
        """Return the rows ordered by the main factor, or None if any order will do."""
        if self.main is None:
            return None
        codes = self.factors[self.main]
        if (np.diff(codes) >= 0).all():
            return None
        small = np.uint16 if self.levels[self.main].size < 2**16 else np.uint32
        return np.argsort(codes.astype(small), kind="stable")

    def take(self, rows: Rows) -> AnchorColumns:
        """Return the anchors of these rows."""
        return AnchorColumns(
            tuple(codes[rows] for codes in self.factors),
            self.levels,
            self.columns[rows],
            self.factor_names,
            self.column_names,
        )

    def float_codes(self) -> tuple[str, ...]:
        """Return the numeric columns that look like codes: 5 to 30 different whole numbers."""
        found = []
        for name, column in zip(self.column_names, self.columns.T, strict=True):
            if (column == np.round(column)).all() and look_like_codes(name, np.unique(column).size):
                found.append(name)
        return tuple(found)

    def subset(self, rows: Rows) -> AnchorColumns:
        """Return the anchors of these rows, without the levels that no longer occur."""
        part = self.take(rows)
        found = [_compress(codes, levels, "") for codes, levels in zip(part.factors, part.levels, strict=True)]
        return AnchorColumns(
            tuple(codes for codes, _ in found),
            tuple(levels for _, levels in found),
            part.columns,
            part.factor_names,
            part.column_names,
        )

    def __len__(self) -> int:
        return len(self.factors[0]) if self.factors else self.columns.shape[0]


def anchor_columns(
    anchors: Labels | AnchorColumns, names: Sequence[str] | None = None, in_units: bool = True, noun: str = "anchor"
) -> AnchorColumns:
    """Return anchors from an array, a series, a frame or a list of columns; ``noun`` is their name in errors.

    Integer, boolean, string and category columns are factors, floats are numeric columns. With ``in_units``, numeric
    columns of extreme size are divided by it, so that squares stay in range; their span is the same.
    """
    if isinstance(anchors, AnchorColumns):
        return anchors
    named = _split_columns([native(a) for a in anchors] if isinstance(anchors, (list, tuple)) else native(anchors))
    if not named:
        raise InputError("anchors has no columns: pass at least one column, or set xi=0 and leave anchors out")
    factors, levels, numeric = [], [], []
    factor_names, column_names = [], []
    for position, (name, column) in enumerate(named):
        label = names[position] if names is not None else name
        what = noun if label == "anchor" else f"{noun} {label!r}"
        found = _factor(column, what)
        if found is None:
            numeric.append(_finite(real_numbers(column, what), what))
            column_names.append(label)
        else:
            factors.append(found[0])
            levels.append(found[1])
            factor_names.append(label)
    sizes = {len(c) for c in (*factors, *numeric)}
    if len(sizes) != 1:
        raise InputError(f"anchor columns differ in length: {sorted(sizes)}; each needs one value for each row")
    n = sizes.pop()
    return AnchorColumns(
        tuple(factors),
        tuple(levels),
        _in_units(np.column_stack(numeric), in_units) if numeric else np.zeros((n, 0)),
        tuple(factor_names),
        tuple(column_names),
    )


def _in_units(columns: Array, wanted: bool) -> Array:
    units = units_of(np.abs(columns).max(axis=0, initial=0.0))
    return columns / units if wanted and (units != 1.0).any() else columns


def units_of(size: Array) -> Array:
    """Return the units of columns with these largest absolute values: 1 unless squares would leave the range."""
    return np.where((size > 1e100) | ((size > 0.0) & (size < 1e-100)), size, 1.0)


def look_like_codes(name: str, different: int) -> bool:
    """Return whether a column with so many different whole numbers may be codes; ``N(...)`` says that it is not."""
    return FEWEST_CODES <= different <= MOST_CODES and not name.startswith("N(")


def groups_of(values: Labels, name: str = "environments") -> tuple[Codes, NDArray[Any]]:
    """Return codes and levels of one column of groups."""
    columns = anchor_columns(values, noun=name)
    if len(columns.factors) != 1 or columns.column_names:
        raise InputError(f"{name} must be one column of names or whole numbers; turn codes into astype(int)")
    return columns.factors[0], columns.levels[0]


def _split_columns(anchors: Any) -> list[tuple[str, Any]]:
    """Return the columns of anchors in any form, with their names."""
    if hasattr(anchors, "columns") and hasattr(anchors, "__getitem__"):  # a frame
        names = list(anchors.columns)
        if len(set(names)) < len(names):
            raise InputError(f"names of anchor columns occur more than once: {', '.join(map(str, names))}; rename them")
        return [(str(name), anchors[name]) for name in names]
    if isinstance(anchors, np.ndarray) and anchors.ndim == 2:
        return [(f"anchor{j}", anchors[:, j]) for j in range(anchors.shape[1])]
    if isinstance(anchors, (list, tuple)) and anchors and np.ndim(anchors[0]) == 1:
        return _listed_columns(anchors)
    if isinstance(anchors, (str, bytes)) or not hasattr(anchors, "__len__"):
        raise InputTypeError(
            f"anchors must be an array, a series, a frame or a list of arrays, not {anchors!r}; "
            "to name columns of X use anchor_names in the constructor"
        )
    return [_one_column(anchors)]


def _listed_columns(anchors: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the columns of a list; a list of tuples may be one of rows, and is refused."""
    if len(anchors) > 1 and all(isinstance(row, tuple) for row in anchors):
        raise InputTypeError(
            f"anchors is a list of tuples such as {anchors[0]!r}, which may be rows or columns: "
            "pass np.array(anchors) if they are rows, or a list of arrays if they are columns"
        )
    return [(f"anchor{j}", column) for j, column in enumerate(anchors)]


def _one_column(anchors: Any) -> tuple[str, Any]:
    """Return a single column with its name."""
    name = getattr(anchors, "name", None)
    column = anchors if hasattr(anchors, "dtype") else np.asarray(anchors)
    if np.ndim(column) != 1:
        raise InputError(f"anchors must have one or two dimensions, not the shape {np.shape(column)}")
    return str(name) if name is not None else "anchor", column


def _finite(column: Array, what: str) -> Array:
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        kind = MissingValueError if np.isnan(column).any() else InputError
        raise kind(f"{what} is {column[row]} at row {row}; drop or impute such rows")
    return column


def _factor(column: Any, what: str) -> tuple[Codes, NDArray[Any]] | None:
    """Return the codes and levels that occur, or None for a numeric column."""
    declared = column.cat if hasattr(getattr(column, "cat", None), "codes") else column  # of a pandas series
    if hasattr(declared, "categories") and hasattr(declared, "codes"):
        return _compress(np.asarray(declared.codes, dtype=np.intp), np.asarray(declared.categories, dtype=object), what)
    column = native(column)
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    entries = values if values.dtype.kind == "O" and set(map(type, values)) != {str} else ()
    if values.dtype.kind == "c" or any(isinstance(x, (complex, np.complexfloating)) for x in entries):
        raise InputTypeError(f"{what} is complex; anchors are factors or real numbers")
    if values.dtype.kind in "mM" or any(isinstance(x, TIMES) for x in entries):
        raise InputTypeError(f"{what} is a time stamp; turn it into a number, or into a string for a factor")
    if values.dtype.kind == "O":
        return _factor_of_objects(values, what)
    return None if values.dtype.kind == "f" else _factor_of_levels(values, what)


def _factor_of_levels(values: NDArray[Any], what: str) -> tuple[Codes, NDArray[Any]]:
    """Return the codes and levels of whole numbers, booleans or text."""
    if values.dtype.kind == "b" and values.size:
        return _compress(values.astype(np.intp), np.array([False, True]), what)
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < max(4 * values.size, 1000):  # counting is faster than sorting
            wide = values if values.dtype.kind == "u" else values.astype(np.int64)
            return _compress((wide - wide.min()).astype(np.intp), np.array(range(low, high + 1)), what)
    found, places = np.unique(values, return_inverse=True)
    return places.astype(np.intp), found


def _factor_of_objects(values: NDArray[Any], what: str) -> tuple[Codes, NDArray[Any]] | None:
    """Return the codes and levels of objects as text, or None where all are numbers with a fraction."""
    if set(map(type, values)) == {str}:
        return _factor_of_words(values)
    missing = [is_missing(x) for x in values]
    if any(missing):
        raise MissingValueError(f"{what} is missing at row {missing.index(True)}; drop such rows")
    nested = next((x for x in values if isinstance(x, (tuple, list, dict, set, np.ndarray))), None)
    if nested is not None:
        raise InputTypeError(f"{what} has entries such as {nested!r}: give one number or word for each row")
    if all(isinstance(x, (float, Decimal, np.floating)) for x in values):
        return None
    return _factor_of_words(np.array([str(x) for x in values], dtype=object))  # words keep their full length


def _factor_of_words(words: NDArray[Any]) -> tuple[Codes, NDArray[Any]]:
    """Return the codes and levels of words."""
    import pandas as pd

    codes, levels = pd.factorize(words, sort=True)
    return codes.astype(np.intp), levels


def _compress(codes: Codes, levels: NDArray[Any], what: str) -> tuple[Codes, NDArray[Any]]:
    """Return the codes and levels without the levels that do not occur."""
    if (codes < 0).any():
        raise MissingValueError(f"{what} is missing at row {int(np.flatnonzero(codes < 0)[0])}; drop such rows")
    occurs = np.bincount(codes, minlength=levels.size) > 0
    if occurs.all():
        return codes, levels
    return (np.cumsum(occurs) - 1)[codes], levels[occurs]


def environment_names(environments: Labels) -> tuple[Codes, tuple[Any, ...]]:
    """Return codes and names of the environments of a fit, one factor."""
    columns = anchor_columns(environments, noun="environments")
    if len(columns.factors) != 1 or columns.column_names:
        raise InputError(
            "environments must be one column of names: join several by a name for each combination, and turn numbers "
            "that are names into groups with astype(int) or astype(str)"
        )
    return columns.factors[0], tuple(columns.levels[0].tolist())


def _needs_cut(name: str, values: Array) -> str:
    """Return a message about environments that are numbers, although they may be names."""
    whole, named = values == np.round(values), name not in ("anchor", "anchor0")
    shown = values[0] if whole.all() else values[~whole][0]
    text = "numeric environments need cut=k, the number of quantile groups: "
    text += f"{repr(name) + ' has' if named else 'they are'} numbers such as {shown}"
    if name.startswith("N("):
        return text
    if not whole.all():
        return f"{text}; if they are names, use astype(str)"
    text += "; whole numbers are read as floats if a value is missing; if they are names, "
    if not named:
        return f"{text}convert them with astype(int) or astype(str)"
    factor = f"write C({in_formulas(name)})"
    return f"{text}{factor} after '|' in a formula, or convert them with astype(int) or astype(str)"


def group_codes(environments: Labels, cut: int | None) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return codes and names of the environments, numbers cut at quantiles."""
    columns = anchor_columns(environments, noun="environments")
    if len(columns.column_names) + len(columns.factors) != 1:
        raise InputError("environments must be one column: join several by a name for each combination")
    if columns.column_names:
        if cut is None:
            raise InputError(_needs_cut(columns.column_names[0], columns.columns[:, 0]))
        values = columns.columns[:, 0]
        edges = np.unique(np.quantile(values, np.linspace(0, 1, min(max(int(cut), 1), values.size) + 1)))
        if edges.size < 3:
            raise InputError(
                f"cut={cut} gives a single environment; cut at 2 or more quantiles of a column that varies"
            )
        codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)
        return codes, np.array([f"[{a:.12g}, {b:.12g}]" for a, b in itertools.pairwise(edges)], dtype=object)
    if columns.levels[0].size < 2:
        raise InputError("there is a single environment: no rows remain for the fit when it is left out")
    return columns.factors[0], columns.levels[0]
