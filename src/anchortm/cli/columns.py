"""Columns as people write them: numbers with a few texts among them, and dates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.frames import in_formulas, known
from anchortm.cli.dialects import COMMA, GROUPED, CsvFile
from anchortm.cli.terminal import note
from anchortm.exceptions import InputError, first_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "OddNumbers",
    "date_format",
    "hint_at_dates",
    "is_text",
    "missing_texts",
    "odd_numbers",
    "place",
    "refuse_texts",
    "with_dates",
    "with_points",
    "without_missing_texts",
    "without_texts",
]

FEWEST = 10  # a column with at least this many different numbers counts as numeric
SHARE = 0.2  # largest share of its different values that may be texts
FORMATS = {  # how dates are written, and in words
    "%Y-%m-%d": "year-month-day",
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%d-%m-%Y": "day-month-year",
    "%Y/%m/%d": "year/month/day",
    "ISO8601": "year-month-day with a time",
}
SHORT_YEAR = re.compile(r"\d{1,2}([-./])\d{1,2}\1\d{2}")
DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T].*)?")


def is_text(column: pd.Series) -> bool:
    """Return whether a column holds text."""
    from pandas.api.types import is_object_dtype, is_string_dtype

    return bool(is_object_dtype(column.dtype) or is_string_dtype(column.dtype))


def place(source: CsvFile | None, rows: list[int], most: int = 5) -> str:
    """Return where rows are: lines of a CSV file, rows of another; long lists are cut short."""
    return f"row {rows[0]}" if source is None else source.at(rows, most)


@dataclass(frozen=True)
class OddNumbers:
    """A column of numbers that has texts among them.

    Attributes
    ----------
    name : str
        The column.
    rows : dict
        The rows of each text.
    """

    name: str
    rows: dict[str, list[int]]

    @property
    def all_rows(self) -> list[int]:
        """Return the rows of all texts, sorted."""
        return sorted(row for rows in self.rows.values() for row in rows)

    def shown(self, most: int = 3) -> str:
        """Return the texts for a message."""
        found = [repr(_cut(text)) for text in list(self.rows)[:most]]
        return ", ".join(found) + (f" and {len(self.rows) - most} more" if len(self.rows) > most else "")

    def remedy(self, source: CsvFile | None) -> str:
        """Return what the user can do."""
        if all(COMMA.fullmatch(text) for text in self.rows):  # in a file with decimal points
            return "if they are decimal commas, add --decimal comma"
        grouped = next((text for text in self.rows if GROUPED.fullmatch(text)), None)
        if grouped is not None:
            return f"write numbers without thousands separators, {_ungrouped(grouped)} instead of {grouped}"
        texts = [_cut(text) for text in self.rows]
        commas = (source is not None and source.dialect.decimal == ",") or any("," in text for text in texts)
        listed = (";" if commas else ",").join(texts[:5]) + ("..." if texts[5:] else "")
        return f'correct the file, or add --missing-values "{listed}" if they should count as missing'


def _ungrouped(text: str) -> str:
    """Return a number without its thousands separators; the first mark in it is that separator."""
    return text.replace(next(letter for letter in text if letter in ".,"), "")


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def missing_texts(given: list[str], decimal: str) -> list[str]:
    """Return the texts that count as missing, joined by commas; by semicolons if a comma is part of numbers."""
    parts = [part for text in given for part in text.split(";" if ";" in text or decimal == "," else ",")]
    return [part.strip() for part in parts if part.strip()]


def without_missing_texts(data: pd.DataFrame, texts: list[str]) -> pd.DataFrame:
    """Return a table that was not read from text with these texts as missing values."""
    import pandas as pd

    new = {}
    for name in data.columns:
        gone = data[name].astype(str).isin(texts)
        if gone.any():
            rest = data[name].mask(gone)
            numbers = pd.to_numeric(rest, errors="coerce")
            new[name] = numbers if numbers.notna().sum() == rest.notna().sum() else rest
    return data.assign(**new)


def odd_numbers(column: pd.Series, name: str, source: CsvFile | None, needed: bool = False) -> OddNumbers | None:
    """Return the texts of a column that otherwise has numbers; None for other columns.

    With ``needed``, the column must be numbers, so that every text is odd.
    """
    import pandas as pd

    if not is_text(column):
        return None
    rows = np.flatnonzero(column.notna().to_numpy())
    if not all(isinstance(value, str) for value in column.iloc[rows]):
        return None
    texts = column.iloc[rows].str.strip()
    different = pd.Series(texts.unique())
    odd = different[~np.isfinite(_numbers(different, source))]
    texts_alone = sum(not (COMMA.fullmatch(text) or GROUPED.fullmatch(text)) for text in odd)  # others mean numbers
    nearly = len(different) - texts_alone >= FEWEST and texts_alone <= SHARE * len(different)
    if odd.empty or not (nearly or needed):
        return None
    found: dict[str, list[int]] = {}
    for position in np.flatnonzero(texts.isin(odd).to_numpy()).tolist():
        found.setdefault(texts.iloc[position], []).append(int(rows[position]))
    return OddNumbers(name, found)


def _numbers(texts: pd.Series, source: CsvFile | None) -> Any:
    """Return the numbers that texts stand for, NaN for others."""
    import pandas as pd

    return pd.to_numeric(_with_points(texts, source), errors="coerce").to_numpy(dtype=np.float64)


def _with_points(texts: pd.Series, source: CsvFile | None) -> pd.Series:
    """Return texts with the decimal commas of a file as points; pandas turns those of whole columns only."""
    if source is None or source.dialect.decimal != ",":
        return texts
    return texts.map(lambda text: text.replace(",", ".") if isinstance(text, str) and COMMA.fullmatch(text) else text)


def with_points(data: pd.DataFrame, names: Iterable[str], source: CsvFile | None) -> pd.DataFrame:
    """Return the table with decimal points in columns of numbers that have texts among them."""
    return data.assign(**{name: _with_points(data[name], source) for name in names if is_text(data[name])})


def date_format(column: pd.Series) -> str | None:
    """Return how a column of dates is written, "ambiguous" if it could mean two things; None for other columns."""
    from pandas.api.types import is_datetime64_any_dtype

    if is_datetime64_any_dtype(column.dtype):
        return "ISO8601"
    if not is_text(column):
        return None
    texts = column.dropna().astype(str)
    if texts.empty or not texts.head(100).map(lambda text: DATE.fullmatch(text.strip()) is not None).all():
        return None
    fitting = [form for form in FORMATS if _days(texts, form).notna().all()]
    if not fitting:
        return None
    return "ambiguous" if fitting[:2] == ["%d/%m/%Y", "%m/%d/%Y"] else fitting[0]


def _days(column: pd.Series, form: str) -> pd.Series:
    """Return the days since 1970-01-01, with parts of days; NaN for what is not a date."""
    import pandas as pd

    try:
        dates = pd.to_datetime(column, format=form, errors="coerce", utc=True)
    except ValueError as error:
        raise InputError(f"--date-format {form}: {first_line(error)}; write it as %d/%m/%Y") from None
    return (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(1, "D")


def with_dates(
    data: pd.DataFrame,
    wanted: str | None,
    form: str | None,
    source: CsvFile | None,
    quiet: bool = False,
    refused: list[str] | None = None,
) -> pd.DataFrame:
    """Return the table with dates as numbers of days, and columns of days between two dates.

    Parameters
    ----------
    data : DataFrame
        The table.
    wanted : str or None
        Columns joined by commas, and new columns such as ``stay=left-came``.
    form : str or None
        How dates are written; by default it is detected for each column.
    source : CsvFile or None
        The file, for line numbers.
    quiet : bool
        Whether to keep silent about what was detected.
    refused : list of str, optional
        Collects messages about texts that are not dates, which then count as missing; without it, they are refused.
    """
    if not wanted:
        if form:
            raise InputError("--date-format needs --dates, the columns that it is for")
        return data
    names = [str(name) for name in data.columns]
    days: dict[str, Any] = {}

    def read(name: str) -> Any:
        known([name], names)
        if name not in days:
            days[name], said = _read_days(data[name], name, form, source, quiet)
            if said and refused is None:
                raise InputError(said)
            if said and refused is not None:
                refused.append(said)
        return days[name]

    new = {}
    for item in (part.strip() for part in wanted.split(",")):
        if item in names or "=" not in item:
            new[item] = read(item)
        else:
            made, _, difference = item.partition("=")
            later, earlier = _two(difference, names)
            if not made.strip() or made.strip() in names:
                raise InputError(f"--dates {item}: name a column before '=' that the table does not have yet")
            new[made.strip()] = read(later) - read(earlier)
    return data.assign(**new)


@contextmanager
def hint_at_dates(options: Any, data: pd.DataFrame) -> Iterator[None]:
    """Let an error about a column that is not there say that --dates can make one, if the table has dates."""
    try:
        yield
    except InputError as error:
        dates = [str(name) for name in data.columns if date_format(data[name]) is not None]
        if not re.match(r"there (is|are) no column", str(error)) or options.dates or not dates:
            raise
        made = "-".join(reversed(dates[:2])) if len(dates) > 1 else ""
        example = f", such as --dates days={made}" if made else ""
        raise InputError(f"{error}; --dates makes columns of days from dates{example}") from None


def _two(difference: str, names: list[str]) -> tuple[str, str]:
    """Return the two columns of a difference; names may contain a minus themselves."""
    parts = difference.split("-")
    pairs = [("-".join(parts[:k]).strip(), "-".join(parts[k:]).strip()) for k in range(1, len(parts))]
    for later, earlier in pairs:
        if later in names and earlier in names:
            return later, earlier
    if not pairs:
        raise InputError(f"--dates: {difference!r} should be a difference of two columns, such as stay=left-came")
    known(list(pairs[0]), names)
    return pairs[0]


def _read_days(
    column: pd.Series, name: str, form: str | None, source: CsvFile | None, quiet: bool
) -> tuple[pd.Series, str]:
    """Return the dates of a column as days, and a message about texts that are not dates."""
    found = form or date_format(column)
    if found == "ambiguous":
        raise InputError(
            f"--dates: column {name!r} may have days or months first, such as {str(column.dropna().iloc[0])!r}: add "
            "--date-format %d/%m/%Y or --date-format %m/%d/%Y"
        )
    if found is None:  # say which are not dates under the format that fits best
        found = max(FORMATS, key=lambda each: int(_days(column, each).notna().sum()))
    days = _days(column, found)
    wrong = np.flatnonzero((days.isna() & column.notna()).to_numpy()).tolist()
    if wrong:
        first = str(column.iloc[wrong[0]])
        remedy = "correct it, or give --missing-values or --date-format"
        if short := SHORT_YEAR.fullmatch(first.strip()):
            mark = short[1]
            months = f" (or %m{mark}%d{mark}%y)" if mark == "/" else ""
            remedy = f"its year has two digits, so add --date-format %d{mark}%m{mark}%y{months}"
        return days, (
            f"--dates: column {name!r} has {_cut(first)!r} at {place(source, wrong)}, which is not a date "
            f"({FORMATS.get(found, found)}): {remedy}"
        )
    if form is None and not quiet and found not in ("%Y-%m-%d", "ISO8601"):
        note(f"dates of {name} are read as {FORMATS[found]}")
    return days, ""


def refuse_texts(
    data: pd.DataFrame,
    roles: Mapping[str, str],
    factors: Iterable[str],
    source: CsvFile | None,
    needed: bool = False,
    also: str = "",
) -> None:
    """Refuse columns of numbers with texts among them, and dates, in the columns that a formula uses.

    Parameters
    ----------
    data : DataFrame
        The table.
    roles : dict
        The columns, and what they are.
    factors : names
        Columns that the formula declares to be factors.
    source : CsvFile or None
        The file, for line numbers.
    needed : bool
        Whether all of these columns must be numbers, as a saved model knows.
    also : str
        What else can be done about it.
    """
    for name, role in roles.items():
        if role not in ("covariate", "outcome") or name in set(factors):
            continue
        factor = (
            f", or write C({in_formulas(name)}) in --formula for a factor"
            if role == "covariate" and not needed
            else also
        )
        what = "the outcome" if role == "outcome" else f"column {name!r}"
        if date_format(data[name]) is not None:
            first = str(data[name].dropna().iloc[0])
            raise InputError(f"{what} has dates, such as {first!r}: turn them into days with --dates {name}{factor}")
        odd = odd_numbers(data[name], name, source, needed)
        if odd is not None:
            where = place(source, odd.all_rows)
            raise InputError(f"{what} must be numbers, not {odd.shown()} at {where}; {odd.remedy(source)}{factor}")


def without_texts(data: pd.DataFrame, names: Iterable[str], source: CsvFile | None) -> pd.DataFrame:
    """Return the table with the texts among numbers as missing values; thousands separators are dropped."""

    def plain(text: str) -> str:
        return _ungrouped(text).replace(",", ".") if GROUPED.fullmatch(text) else text

    odd = [name for name in names if odd_numbers(data[name], name, source) is not None]
    return data.assign(**{name: _numbers(data[name].astype(str).str.strip().map(plain), source) for name in odd})
