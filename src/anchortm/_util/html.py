"""Results in notebooks: a title, small tables and notes as HTML, with every text escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from anchortm._messages import plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MOST_ROWS", "EstimatorInNotebook", "Table", "report"]

MOST_ROWS = 20
MOST_COLUMNS = 14
PROBABILITIES = ("p-value", "pvalue")  # columns that need three digits
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
        named = any(name is not None for name in shown.index.names) or shown.index.dtype.kind not in "iu"
        labels = [level if level is not None else "" for level in shown.index.names] if named else []
        head = "".join(f"<th>{_cell(name)}</th>" for name in [*labels, *shown.columns])
        body = []
        values = zip(*(shown.iloc[:, j].tolist() for j in range(shown.shape[1])), strict=True)
        for k, at, row in zip(rows, shown.index, values, strict=True):
            own = (list(at) if isinstance(at, tuple) else [at]) if named else []
            cells = [f"<th>{_cell(value)}</th>" for value in own]
            texts = [_cell(v, 3 if name in PROBABILITIES else 5) for v, name in zip(row, shown.columns, strict=True)]
            cells += [f"<td>{f'<b>{text}</b>' if k in self.chosen else text}</td>" for text in texts]
            body.append(f"<tr>{''.join(cells)}</tr>")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        return table + "".join(_paragraph(text) for text in self._left_out())

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

    def _found(self) -> str:
        """Return what a fit found as HTML, nothing before the fit."""
        return ""

    def _repr_html_(self) -> str:
        """Return the diagram, and below it what a fit found."""
        from sklearn.utils import estimator_html_repr

        return f"{estimator_html_repr(self)}\n{self._found()}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the text, and the HTML unless scikit-learn was told to display text."""
        from sklearn import get_config

        text = {"text/plain": repr(self)}
        return text | ({"text/html": self._repr_html_()} if get_config()["display"] == "diagram" else {})


def _paragraph(text: str, bold: bool = False) -> str:
    lines = "<br>".join(_cell(line) for line in text.split("\n"))
    return f"<p><b>{lines}</b></p>" if bold else f"<p>{lines}</p>"


def _cell(value: object, digits: int = 5) -> str:
    """Return a value as text in HTML: numbers with a few digits, nothing for missing ones."""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.{digits}g}"
    return escape(plain(str(value)))


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")
