"""How a CSV file is written: its separator, decimal mark and encoding, as given or as detected; and its lines."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from anchortm.exceptions import InputError

__all__ = ["CsvFile", "Dialect", "detect"]

SAMPLE = 2**20  # bytes that separator and decimal mark are detected from
LINES = 200
LONGEST_LINE = 16 * 2**20
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
OTHER = "cp1252"  # the encoding of Windows in Western Europe
NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")  # bytes that text in cp1252 does not have
POINT, COMMA = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?"), re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
GROUPED = re.compile(  # thousands separators
    r"[+-]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:,\d{3})+\.\d+|(?:\.\d{3}){2,}|(?:,\d{3}){2,})"
)
SAID = re.compile(r'"?sep=(.)"?(?:\r\n|\r|\n)', re.I)  # a first line that names the separator
PLAIN_CSV = "save it as plain CSV in UTF-8"


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    skip: int = 0  # lines before the names

    def described(self) -> str:
        """Return the dialect in words."""
        between = SEPARATORS.get(self.separator, f"{self.separator!r}")
        mark = "decimal comma" if self.decimal == "," else "decimal point"
        name = {OTHER: "Windows-1252"}.get(self.encoding, self.encoding.upper())
        return f"values separated by {between}, {mark}, {name}"


class CsvFile:
    """A CSV file, or what came from standard input, with its name for messages."""

    def __init__(self, name: str, spooled: BinaryIO | None = None) -> None:
        self.name, self._spooled, self.dialect = name, spooled, Dialect()
        self.padded: frozenset[str] = frozenset()  # columns of digits that are text, since some begin with 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Yield the bytes from their start."""
        if self._spooled is None:
            with open(self.name, "rb") as file:
                yield file
        else:
            self._spooled.seek(0)
            yield self._spooled

    def close(self) -> None:
        """Forget what came from standard input."""
        if self._spooled is not None:
            self._spooled.close()

    def lines(self, rows: Iterable[int]) -> dict[int, int]:
        """Return the lines where rows begin, as editors count: names are line 1, and blank lines count."""
        wanted, found, last = set(rows), {}, max(rows, default=-1)
        for row, line, _ in self._records():
            if row in wanted:
                found[row] = line
            if row >= last:
                break
        return found

    def short(self) -> list[int]:
        """Return the rows that have fewer values than there are names."""
        found, most = [], 0
        for row, _, fields in self._records():
            most = len(fields) if row < 0 else most
            found += [row] if len(fields) < most else []
        return found

    def _records(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield each row, the line where it begins, and its values; row -1 has the names."""
        with contextlib.suppress(OSError, ValueError, csv.Error), self.opened() as file, _long_fields():
            text = io.TextIOWrapper(file, self.dialect.encoding, newline="")
            try:
                reader, before, row = csv.reader(text, delimiter=self.dialect.separator), 0, -1 - self.dialect.skip
                for fields in reader:
                    if fields and row >= -1:
                        yield row, before + 1, fields
                    row += bool(fields)
                    before = reader.line_num
            finally:
                text.detach()

    def at(self, rows: list[int], most: int) -> str:
        """Return where rows are, for a message; long lists are cut short."""
        found = self.lines(rows[:most])
        numbers = [str(found[row]) for row in rows[:most] if row in found]
        if not numbers:
            return f"row {rows[0]}"
        more = f" and {len(rows) - most} more" if len(rows) > most else ""
        return f"line{'s' if len(rows) > 1 else ''} {', '.join(numbers)}{more}"


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def detect(file: CsvFile, most: int, too_large: str, given: dict[str, str | None]) -> bool:
    """Find out how a file is written, except for what was given; return whether the user should be told.

    Parameters
    ----------
    file : CsvFile
        The file; its ``dialect`` is set.
    most : int
        How many bytes it may have.
    too_large : str
        The message if it has more.
    given : dict
        Separator, decimal mark and encoding, None where they are to be detected.
    """
    encoding = given["encoding"] or ""
    with contextlib.suppress(LookupError, ValueError):
        encoding = codecs.lookup(encoding).name if encoding else ""
    with file.opened() as handle:
        found, sample = _encoding(handle, encoding, most, too_large)
    text = sample.decode(found, errors="ignore").lstrip("\ufeff")
    said = SAID.match(text)  # by Excel
    text = text if said is None else text[said.end() :]
    separator = given["separator"] or (_separator(text) if said is None else said[1])
    decimal = given["decimal"] or _decimal(text, separator)
    file.dialect = Dialect(separator, decimal, found, int(said is not None))
    named = {"separator": separator, "decimal": decimal, "encoding": found}
    usual = {"separator": ",", "decimal": ".", "encoding": "utf-8"}
    return any(given[key] is None and value != usual[key] for key, value in named.items())


def _encoding(handle: BinaryIO, given: str, most: int, too_large: str) -> tuple[str, bytes]:
    """Return the encoding and the first bytes; refuse what is not text."""
    part = sample = handle.read(SAMPLE)
    guess = given or next((name for mark, name in MARKS if sample.startswith(mark)), "utf-8")
    try:
        decoder = codecs.getincrementaldecoder(guess)()
    except LookupError:
        raise InputError(f"there is no encoding {given!r}: give one such as utf-8, cp1252 or latin-1") from None
    size, decoded, odd, lines = 0, True, False, 0
    while part:
        size, lines = size + len(part), lines + part.count(b"\n") + part.count(b"\r")
        _check_part(part, size, lines, guess)
        if size > most:
            raise InputError(too_large)
        decoded = decoded and _decodes(decoder, part)
        odd = odd or NOT_TEXT.search(part) is not None
        part = handle.read(SAMPLE)
    if decoded and _decodes(decoder, b""):
        return guess, sample
    if given or odd or guess != "utf-8":
        raise InputError(f"it is not {guess.upper()} text; {PLAIN_CSV}, or name its encoding with --encoding")
    return OTHER, sample


def _check_part(part: bytes, size: int, lines: int, encoding: str) -> None:
    """Refuse bytes that are not text, and a first line that does not end."""
    if not lines and size > LONGEST_LINE:
        raise InputError(f"its first line has more than {LONGEST_LINE >> 20} MiB; {PLAIN_CSV}")
    if b"\0" in part and not encoding.startswith(("utf-16", "utf-32")):
        raise InputError(f"it contains NUL bytes, so it is not text; {PLAIN_CSV}")


def _decodes(decoder: Any, part: bytes) -> bool:
    """Return whether the next bytes are text; no bytes are the end."""
    try:
        decoder.decode(part, final=not part)
    except UnicodeDecodeError:
        return False
    return True


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the first rows, without the last, which may be cut off."""
    whole = text[: text.rfind("\n") + 1] if len(text) >= SAMPLE // 2 else text
    found: list[list[str]] = []
    with contextlib.suppress(csv.Error), _long_fields():
        for fields in csv.reader(io.StringIO(whole, newline=""), delimiter=separator):
            if fields:
                found.append(fields)
            if len(found) == LINES:
                break
    return found


def _separator(text: str) -> str:
    """Return the separator: commas if they fit, else the one with most columns that all rows agree on."""
    tried: dict[str, tuple[bool, int]] = {}
    for separator in SEPARATORS:
        rows = _rows(text, separator)
        sizes = [len(row) for row in rows]
        agree = len(set(sizes)) == 1 and sizes[0] > 1
        if separator == "," and agree:
            return ","
        tried[separator] = (agree, sizes[0] if sizes else 0)
    best = max(tried, key=lambda separator: tried[separator])
    return best if tried[best][1] > 1 and (tried[best][0] or tried[","][1] == 1) else ","


def _decimal(text: str, separator: str) -> str:
    """Return the decimal mark: a comma if numbers have commas and none has a point."""
    cells = [cell.strip() for row in _rows(text, separator)[1:] for cell in row]
    commas = any(COMMA.fullmatch(cell) for cell in cells)
    return "," if commas and separator != "," and not any(POINT.fullmatch(cell) for cell in cells) else "."
