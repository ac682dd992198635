"""Parts of a report as HTML: paragraphs, facts, tables and code. Every text is escaped; nothing here is interactive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from anchortm._messages import plain, plain_lines
from anchortm.newplace.report.values import LONGEST, known, name, number, trimmed

__all__ = ["Column", "badge", "bullets", "code", "facts", "note", "paragraphs", "prose", "swatch", "table", "text"]

TALL = 25  # tables of more rows scroll in a frame of their own
LONG, WIDE = ' class="long"', 26  # facts of more letters have a line of their own


def text(value: Any) -> str:
    """Return a text of any length as HTML."""
    return escape(plain(str(value)))


def prose(sentence: str) -> str:
    """Return a sentence as HTML, with minus signs before its numbers.

    Examples
    --------
    >>> from anchortm.newplace.report.parts import prose
    >>> prose("The gains are -1.14 and +3.40 (leave-one-out).")
    'The gains are −1.14 and +3.40 (leave-one-out).'
    """
    return re.sub(r"(?<![\w.)])-(?=\d)", "\u2212", text(sentence))


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    heading : str
        Its name.
    show : callable
        Turns a value into text.
    numeric : bool
        Whether values are numbers: they are aligned to the right and sorted as numbers.
    about : str
        What the column means.
    """

    heading: str
    show: Callable[[Any], str] = name
    numeric: bool = True
    about: str = ""


def paragraphs(*sentences: str | None, kind: str = "") -> str:
    """Return a paragraph for each sentence that is there."""
    start = f'<p class="{kind}">' if kind else "<p>"
    return "".join(f"{start}{prose(sentence)}</p>" for sentence in sentences if sentence)


def note(sentence: str | None) -> str:
    """Return a smaller paragraph that explains."""
    return paragraphs(sentence, kind="note")


def bullets(sentences: Sequence[str]) -> str:
    """Return a list of sentences."""
    return f"<ul>{''.join(f'<li>{prose(sentence)}</li>' for sentence in sentences)}</ul>" if sentences else ""


def badge(words: str, kind: str = "") -> str:
    """Return a few words in a frame."""
    return f'<span class="badge {kind}">{text(words)}</span>'


def swatch(strategy: str, colour: str) -> str:
    """Return the name of a strategy behind a dot in its colour."""
    return f'<span class="swatch {colour}"></span>{text(strategy)}'


def facts(found: Mapping[str, Any], digits: int = 3) -> str:
    """Return facts by name; those that are not known are left out."""
    shown = {key: _shown(value, digits) for key, value in found.items() if known(value)}
    made = "".join(
        f"<div{LONG if len(value) > WIDE else ''}><dt>{text(key)}</dt><dd>{escape(value)}</dd></div>"
        for key, value in shown.items()
    )
    return f'<dl class="facts">{made}</dl>' if made else ""


def _shown(value: Any, digits: int) -> str:
    return name(value) if isinstance(value, str) else trimmed(number(value, digits))


def code(lines: str, label: str) -> str:
    """Return code with a button that copies it (the button appears with the script)."""
    shown = escape(plain_lines(lines.strip("\n")))
    return (
        f'<div class="code"><p class="code-label">{text(label)}</p>'
        f'<pre tabindex="0" aria-label="{text(label)}"><code>{shown}</code></pre></div>'
    )


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Any]],
    *,
    sortable: bool = False,
    search: str | None = None,
    chosen: Sequence[int] = (),
    classes: str = "",
) -> str:
    """Return a table with a caption, in a frame that scrolls if the screen is narrow.

    Parameters
    ----------
    caption : str
        What the table shows.
    columns : sequence of Column
        The columns; the first one heads the rows.
    rows : iterable of sequences
        Values of each row, in the order of the columns.
    sortable : bool
        Whether the script lets readers sort by each column.
    search : str, optional
        Label of a search field that filters the rows, such as "Find a town".
    chosen : sequence of int
        Positions of rows to set off.
    classes : str
        More classes of the table.
    """
    head = "".join(_heading(column) for column in columns)
    made = [_row(columns, row, k in chosen, sortable) for k, row in enumerate(rows)]
    body, tall = "".join(made), " tall" if len(made) > TALL else ""
    marks = (' data-sortable=""' if sortable else "") + (f' data-search="{text(search)}"' if search else "")
    return (
        f'<div class="scroller{tall}" role="region" tabindex="0" aria-label="{text(caption)}">'
        f'<table class="{classes}"{marks}><caption>{text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _heading(column: Column) -> str:
    about = f' title="{text(column.about)}"' if column.about else ""
    kind = ' class="num"' if column.numeric else ""
    return f'<th scope="col"{kind}{about}>{text(column.heading)}</th>'


def _row(columns: Sequence[Column], row: Sequence[Any], chosen: bool, sortable: bool) -> str:
    cells = "".join(
        _cell(column, value, head=j == 0, sortable=sortable)
        for j, (column, value) in enumerate(zip(columns, row, strict=True))
    )
    return f'<tr class="chosen">{cells}</tr>' if chosen else f"<tr>{cells}</tr>"


def _cell(column: Column, value: Any, head: bool, sortable: bool) -> str:
    shown = column.show(value)
    marks = ""
    if column.numeric:
        marks = ' class="num"'
        if sortable and isinstance(value, int | float) and known(value):
            marks += f' data-v="{float(value):.6g}"'
    elif isinstance(value, str) and len(value) > LONGEST:
        marks = f' title="{text(value[:LONGEST])} and {len(value) - LONGEST} more letters"'
    inside = escape(shown) if column.numeric else f"<bdi>{escape(shown)}</bdi>"
    return f'<th scope="row"{marks}>{inside}</th>' if head else f"<td{marks}>{inside}</td>"
