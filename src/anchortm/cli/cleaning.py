"""Clean what pandas reads from a CSV file: strip blanks around texts, keep identifiers with leading zeros."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from anchortm._util.frames import read_csv
from anchortm.cli.columns import is_text

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.cli.dialects import CsvFile

__all__ = ["alike", "as_numbers", "stripped", "with_zeros"]

MOST_ALIKE = 5


def stripped(data: pd.DataFrame, **how: Any) -> pd.DataFrame:
    """Return the table without blanks at the ends of texts; ``how`` says which are numbers and missing values."""
    new = {}
    for name in data.columns:
        if not is_text(data[name]) or not data[name].map(lambda value: isinstance(value, str), "ignore").all():
            continue
        texts = data[name].str.strip()
        if not texts.equals(data[name]):  # 'NA ' and '1.5 ' are read again, since the column may be one of numbers
            file = io.StringIO(texts.to_csv(index=False, header=["column"], sep="\t"))
            new[name] = read_csv(file, sep="\t", skip_blank_lines=False, **how)["column"]
    return data.assign(**new) if new else data


def with_zeros(data: pd.DataFrame, source: CsvFile, **how: Any) -> pd.DataFrame:
    """Return the table with columns of digits as text if some values begin with 0: those are names, not numbers.

    ``source.padded`` then has the names of these columns.
    """
    whole = [name for name in data.columns if data[name].dtype.kind in "iuf" and (data[name].dropna() % 1 == 0).all()]
    if not whole:
        return data
    with source.opened() as handle:
        texts = read_csv(handle, dtype=str, usecols=whole, **how)
    new = {}
    for name in whole:
        column = texts[name].str.strip().mask(data[name].isna())
        digits = column.dropna()
        if digits.str.fullmatch(r"0\d+").any() and digits.str.fullmatch(r"\d+").all():
            new[name] = column
    source.padded = frozenset(new)
    return data.assign(**new) if new else data


def as_numbers(data: pd.DataFrame, names: Any, source: CsvFile | None) -> pd.DataFrame:
    """Return the table with digits that begin with 0 as numbers after all, in columns where a model needs numbers."""
    padded = [name for name in names if source is not None and name in source.padded]
    return data.assign(**{name: data[name].astype(float) for name in padded})


def alike(column: pd.Series) -> list[list[str]]:
    """Return levels of a text that differ in their letters' case only."""
    groups: dict[str, list[str]] = {}
    for level in column.dropna().unique().tolist():
        if isinstance(level, str):
            groups.setdefault(level.casefold(), []).append(level)
    return [sorted(group) for group in groups.values() if len(group) > 1][:MOST_ALIKE]
