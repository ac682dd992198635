"""Results in notebooks: a title, small tables and notes as HTML, with every text escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from anchortm._messages import plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FEW_ROWS", "MOST_ROWS", "EstimatorInNotebook", "Table", "html_of", "report"]

MOST_ROWS, FEW_ROWS = 20, 10  # largest numbers of printed rows: of tables, and of data
MOST_COLUMNS = 14
DIGITS = {"p-value": 3, "pvalue": 3}  # digits of the columns that have fewer than five
LEFT = 'style="text-align:left"'


class Table(NamedTuple):
    """A table of a report.

    Attributes
    ----------
    frame : DataFrame
        The rows; of a long table perhaps the first ones only.
    total : int or None
        Number of rows in all, if the frame has only some of them.
    chosen : sequence of int
        Positions of rows to write in bold.
    """

    frame: pd.DataFrame
    total: int | None = None
    chosen: Sequence[int] = ()

    def html(self) -> str:
        """Return the first rows and columns, and a line that says how many there are."""
        late = [k for k in self.chosen if k >= MOST_ROWS]  # these are shown too
        rows = [*range(min(len(self.frame), MOST_ROWS - len(late))), *late]
        shown = self.frame.iloc[rows, :MOST_COLUMNS]
        labels = _labels(shown.index)
        head = "".join(f"<th>{_cell(name)}</th>" for name in [*(name for name, _ in labels), *shown.columns])
        columns = [_cells(shown.iloc[:, j], DIGITS.get(name, 5)) for j, name in enumerate(shown.columns)]
        before = [_cells(values) for _, values in labels]
        body = (self._row(k, [own[i] for own in before], [own[i] for own in columns]) for i, k in enumerate(rows))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        return table + "".join(_paragraph(text) for text in self._left_out())

    def _row(self, k: int, labels: list[str], cells: list[str]) -> str:
        if self.chosen:  # headings are bold, and only the chosen row should be
            labels, cells = [], [f"<b>{text}</b>" if k in self.chosen else text for text in [*labels, *cells]]
        return f"<tr>{''.join(f'<th>{t}</th>' for t in labels)}{''.join(f'<td>{t}</td>' for t in cells)}</tr>"

    def _left_out(self) -> list[str]:
        total, columns = len(self.frame) if self.total is None else self.total, self.frame.shape[1]
        said = [f"... {_grouped(total)} rows in all"] if total > MOST_ROWS or total > len(self.frame) else []
        return said + ([f"... {_grouped(columns)} columns in all"] if columns > MOST_COLUMNS else [])


def report(title: str, *parts: Table | pd.DataFrame | Mapping[str, object] | str) -> str:
    """Return a title and its parts: tables, facts by name, and notes.

    Examples
    --------
    >>> from anchortm._util.html import report
    >>> report("A <title>", {"rows": 10}, "A note.").startswith("<p><b>A &lt;title&gt;</b></p>")
    True
    """
    made = [_paragraph(title, bold=True)]
    for part in parts:
        if isinstance(part, str):
            made += [_paragraph(part)] if part else []
        elif isinstance(part, Table):
            made.append(part.html())
        elif isinstance(part, Mapping):
            rows = (f"<tr><th {LEFT}>{_cell(k)}</th><td {LEFT}>{_cell(v)}</td></tr>" for k, v in part.items())
            made.append(f"<table>{''.join(rows)}</table>")
        else:
            made.append(Table(part).html())
    return "\n".join(made)


class EstimatorInNotebook:
    """Estimators: scikit-learn's diagram, and below it what a fit found."""

    def _found(self) -> Any:
        """Return what a fit found, as HTML or as an object that has HTML; None before the fit."""

    def _repr_html_(self) -> str:
        """Return the diagram, and below it what a fit found."""
        from sklearn.utils import estimator_html_repr

        return f"{estimator_html_repr(self)}\n{html_of(self._found())}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the text, and the HTML unless scikit-learn was told to display text."""
        from sklearn import get_config

        text = {"text/plain": repr(self)}
        return text | ({"text/html": self._repr_html_()} if get_config()["display"] == "diagram" else {})


def html_of(found: Any) -> str:
    """Return the HTML of what a fit found."""
    return "" if found is None else found if isinstance(found, str) else found._repr_html_()


def _paragraph(text: str, bold: bool = False) -> str:
    lines = "<br>".join(_cell(line) for line in text.split("\n"))
    return f"<p><b>{lines}</b></p>" if bold else f"<p>{lines}</p>"


def _labels(index: pd.Index) -> list[tuple[Any, pd.Index]]:
    """Return the names and values of each level of an index; none if it only numbers the rows."""
    if all(name is None for name in index.names) and index.dtype.kind in "iu":
        return []
    return [("" if name is None else name, index.get_level_values(j)) for j, name in enumerate(index.names)]


def _cells(values: pd.Series[Any] | pd.Index, digits: int = 5) -> list[str]:
    return [_cell(value, digits) for value in values.tolist()]


def _cell(value: object, digits: int = 5) -> str:
    """Return a value as text in HTML: numbers with a few digits, nothing for missing ones."""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.{digits}g}"
    return escape(plain(str(value)))


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")
