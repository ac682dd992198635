"""Text for the terminal: its width, tables and paragraphs that fit, and colour where the stream shows it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anchortm._messages import plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["aligned", "as_text", "colours", "note", "paint", "paragraph", "shorten", "terminal_width", "unpainted"]

NARROW, WIDE = 40, 200
MOST_TEXT = 24  # letters of a cell where a table is too wide
P_VALUES = ("p-value", "pvalue")
STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
WIDE_LETTERS = re.compile("[^\x00-\u10ff]")  # some of these take two columns
FILLER = "\uf8ff"  # stands behind such a letter while lines are counted: textwrap counts letters, not columns
SECRET = os.urandom(6).hex()  # data cannot contain our marks, so their escapes are never taken for ours
MARK = re.compile(f"\x1b{SECRET}<(\\d+)>")


def terminal_width() -> int:
    """Return the number of columns of the terminal, 80 where there is none."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, NARROW), WIDE)


def paint(text: str, style: str) -> str:
    """Return a text with marks that a stream turns into colour, or drops where it has no colour."""
    return f"\x1b{SECRET}<{STYLES[style]}>{text}\x1b{SECRET}<0>" if text else text


def unpainted(text: str, clean: Any, coloured: bool) -> str:
    """Return a text with its marks turned into escapes or removed; its other parts are passed through ``clean``."""
    parts = MARK.split(text)
    parts[::2] = [clean(part) for part in parts[::2]]
    parts[1::2] = [f"\x1b[{code}m" if coloured else "" for code in parts[1::2]]
    return "".join(parts)


def colours(stream: Any) -> bool:
    """Return whether a stream shows colour: a terminal, unless NO_COLOR is set; FORCE_COLOR decides for all."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return bool(getattr(stream, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


def note(text: str, word: str = "note", style: str = "blue") -> None:
    """Print a message to the error stream: on one line for programs, wrapped for a terminal."""
    line = f"{word}: {text}"
    if getattr(sys.stderr, "isatty", lambda: False)():
        line = paragraph(line, hanging="  ")
    print(paint(line[: len(word) + 1], style) + line[len(word) + 1 :], file=sys.stderr)


def paragraph(text: str, indent: str = "", hanging: str | None = None) -> str:
    """Return a text wrapped at spaces to the terminal; words are never broken."""
    filled = textwrap.fill(
        WIDE_LETTERS.sub(lambda found: f"{found[0]}{FILLER}" if _size(found[0]) == 2 else found[0], text),
        terminal_width(),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(FILLER, "")


def shorten(text: str, most: int) -> str:
    """Return a text of at most so many columns, cut in the middle: names differ at both ends.

    Examples
    --------
    >>> from anchortm.cli.terminal import shorten
    >>> shorten("treatment_at_admission[T.placebo]", 20)
    'treatment...placebo]'
    """
    if _size(text) <= most:
        return text
    keep = max(most - 3, 2)
    head, tail = text[: len(text) - len(text) // 2], text[len(text) - len(text) // 2 :]
    while _size(head) > keep - keep // 2:
        head = head[:-1]
    while _size(tail) > keep // 2:
        tail = tail[1:]
    return f"{head}...{tail}"


def _size(text: str) -> int:
    """Return the columns that a text takes: letters of some scripts take two, accents of their own none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(bool(unicodedata.combining(letter)) for letter in text)


def as_text(table: pd.DataFrame, rows: int = 20, marked: Iterable[int] = (), indent: str = "") -> str:
    """Return a table that fits the terminal.

    Numbers get fewer digits and long texts are cut in the middle. If that is not enough, the table is printed in
    blocks of columns, each with the first column. Of many rows the first are shown.

    Parameters
    ----------
    table : DataFrame
        The table.
    rows : int
        How many rows to show.
    marked : positions of rows
        Rows to show in green.
    indent : str
        What each line begins with.
    """
    shown, width = table.iloc[:rows], terminal_width() - len(indent)
    columns: list[list[str]] = []
    for digits, most in ((5, 10_000), (4, 10_000), *((4, most) for most in range(64, MOST_TEXT - 1, -4))):
        columns = [_column(shown, j, digits, most) for j in range(shown.shape[1])]
        if _total(columns) <= width:
            break
    green = {position + 1 for position in marked}
    blocks = ["\n".join(_lines(block, green, indent)) for block in _blocks(columns, width)]
    more = f"\n{indent}... {len(table)} rows in all" if len(table) > rows else ""
    return "\n\n".join(blocks) + more


def _column(table: pd.DataFrame, j: int, digits: int, most: int) -> list[str]:
    """Return the name and the cells of a column, of one size; numbers are aligned at the right."""
    values, digits = table.iloc[:, j], 3 if table.columns[j] in P_VALUES else digits
    right = values.dtype.kind in "iuf"
    cells = [shorten(plain(str(table.columns[j])), most)]
    cells += [shorten(_cell(value, digits), most) for value in values.tolist()]
    size = max(map(_size, cells))
    gaps = [" " * (size - _size(cell)) for cell in cells]
    return [gap + cell if right else cell + gap for cell, gap in zip(cells, gaps, strict=True)]


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return "NaN" if value != value else f"{value:.{digits}g}"
    return "" if value is None else plain(str(value))


def _total(columns: Sequence[list[str]]) -> int:
    return sum(_size(column[0]) + 2 for column in columns) - 2


def _blocks(columns: list[list[str]], width: int) -> list[list[list[str]]]:
    """Return the columns in blocks that fit the width, each with the first column."""
    first, blocks = columns[0], [columns[:1]]
    for column in columns[1:]:
        if len(blocks[-1]) > 1 and _total([*blocks[-1], column]) > width:
            blocks.append([first])
        blocks[-1].append(column)
    return blocks


def _lines(block: list[list[str]], green: set[int], indent: str) -> list[str]:
    lines = [f"{indent}{'  '.join(cells)}".rstrip() for cells in zip(*block, strict=True)]
    styles = {0: "bold"} | dict.fromkeys(green, "green")
    return [paint(line, styles[k]) if k in styles else line for k, line in enumerate(lines)]


WORDS, WHOLE = ("strategy", "side", "place", "coverage"), ("share", "xi", "m", "n", "sites")  # columns of tables


def aligned(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose numbers have the same digits after the point; cells without a number are empty."""
    import pandas as pd

    made = {}
    for name in table.columns:
        values = table[name].tolist()
        if table[name].dtype.kind == "f" and name not in WHOLE:
            cells = ["" if value != value else f"{value + 0.0:.3f}" for value in values]
        else:
            cells = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        if name in WORDS:
            made[name] = cells
            continue
        size = max(map(len, [name, *cells]))
        made[name.rjust(size)] = [cell.rjust(size) for cell in cells]
    return pd.DataFrame(made)
