"""The shell of a report: one HTML file with its style, script and data, which loads nothing and opens from disk.

Kinds of plots that the script draws, and what they need beside what ``Page.chart`` says. Numbers may be None.
Colours are classes: c0 to c7 are those of LOOKS in ``plotting.style``, and ``colour_of`` returns that of a strategy.
A format is "signed" (of gains), "number" or "percent".

rows
    A row for each name, with marks and intervals. ``rows``: {label, about, linked, marks: [{v, lo, hi, c, name, hollow,
    r, tip}]}; ``x_label``, ``format``, ``zero`` (where to draw a line), ``domain`` ([from, to]), ``zones`` ([[from,
    to]]), ``bars`` (lines from zero to marks), ``key`` ([{name, colour, look}]), ``step`` (height of a row),
    ``letters`` (room for the values of pairs of marks, which are then written beside them).
dots
    A value for each place, ordered: a row for each of up to 30 places, else dots of which the outermost have names.
    ``names``, ``n``, ``events``, ``small`` and ``series`` ([{name, about, c, v, lo, hi}], readers choose one),
    ``x_label``, ``places`` ("places"), ``large`` and ``hollow`` (texts of the key); of other values than gains also
    ``value`` and ``order``.
lines
    Curves over a few positions. ``scale`` ("sqrt" or None), ``x_label``, ``y_label``, ``unit``, ``zero``, ``format``,
    ``series`` ([{name, c, mark, line, x, v, lo, hi, about}], with marks "circle", "square", "triangle" or "diamond" and
    lines "solid", "dashed" or "dotted").
coverage
    Shares of rows in intervals. ``levels``, ``strategies`` ([{name, c, v}]), ``sites`` (a list of shares for each
    place, or empty), ``names``, ``n``, ``small``, ``hollow``.
pit
    Histograms of PIT values. ``edges``, ``panels`` ([{name, c, share}]).
stack
    Shares that add up to one. ``rows``: {label, parts: [{name, c, share}]}.
explorer
    What depends on xi: ``views``, ``path`` and ``effects`` of an assessment (or None), ``start`` (the first xi),
    ``recommended``, ``names``, ``n``, ``small``, ``one`` ("place"), ``places`` ("places").
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from anchortm.newplace.report.parts import prose, text
from anchortm.newplace.report.values import rounded

__all__ = ["Page", "island"]

NO_SCRIPT = "Scripts are off, so there are no plots here. Their numbers are in the tables."


class Page:
    """A report that is being written: sections one after another, and the data of its plots.

    Parameters
    ----------
    title : str
        The title of the page.
    lead : str
        One line below it: what the page is about.

    Examples
    --------
    >>> from anchortm.newplace.report.page import Page
    >>> page = Page("A <title>", "Three towns.")
    >>> page.section("Numbers", "<p>All is well.</p>")
    >>> "<h1>A &lt;title&gt;</h1>" in page.html()
    True
    """

    def __init__(self, title: str, lead: str) -> None:
        self.title, self.lead = title, lead
        self._sections: list[tuple[str, str, str]] = []
        self._charts: dict[str, Any] = {}

    def section(self, heading: str, *blocks: str, lead: str | None = None) -> None:
        """Add a section of blocks of HTML; nothing if all of them are empty."""
        inside = "".join(blocks)
        if inside:
            first = f'<p class="lead">{prose(lead)}</p>' if lead else ""
            self._sections.append((f"s{len(self._sections) + 1}", heading, first + inside))

    def chart(self, kind: str, spec: dict[str, Any], caption: str, *, label: str, numbers: str = "") -> str:
        """Return a plot: a figure that the script fills.

        Parameters
        ----------
        kind : str
            One of the kinds of the module's docstring, such as "rows".
        spec : dict
            What is drawn, as plain values. They go to the JSON of the page, with five digits.
        caption : str
            What the plot shows and how to read it.
        label : str
            The plot in one sentence, for screen readers.
        numbers : str
            A table with the same numbers, as HTML: folded below the plot.
        """
        key = f"chart-{len(self._charts) + 1}"
        self._charts[key] = {"kind": kind, "label": label, **spec}
        table = (
            f'<details class="numbers"><summary>Numbers of this plot</summary>{numbers}</details>' if numbers else ""
        )
        return (
            f'<figure id="{key}" data-chart="{kind}"><figcaption>{text(caption)}</figcaption>'
            f'<div class="plot"></div>{table}</figure>'
        )

    def html(self) -> str:
        """Return the file."""
        style, script = asset("report.css"), asset("report.js")
        policy = (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        links = "".join(f'<li><a href="#{key}">{text(heading)}</a></li>' for key, heading, _ in self._sections)
        sections = "\n".join(
            f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{text(heading)}</h2>\n{inside}</section>'
            for key, heading, inside in self._sections
        )
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f'<link rel="icon" href="data:,">\n<title>{text(self.title)}</title>\n<style>{style}</style>\n</head>\n'
            f'<body>\n<a class="skip" href="#content">Skip to the content</a>\n'
            f'<header><div class="titles"><h1>{text(self.title)}</h1><p>{text(self.lead)}</p></div>'
            '<div id="tools"></div></header>\n'
            f'<div class="frame"><nav aria-label="Sections"><ol>{links}</ol></nav>\n'
            f'<main id="content" tabindex="-1">\n<noscript><p>{NO_SCRIPT}</p></noscript>\n{sections}\n</main></div>\n'
            '<div id="live" class="unseen" role="status" aria-live="polite"></div>\n'
            f'<script type="application/json" id="report-data">{island({"charts": self._charts})}</script>\n'
            f"<script>{script}</script>\n</body>\n</html>\n"
        )


def island(record: Any) -> str:
    r"""Return values as JSON that no text in them can end: it stands between tags of a script.

    Examples
    --------
    >>> from anchortm.newplace.report.page import island
    >>> print(island({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    made = json.dumps(rounded(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        made = made.replace(letter, f"\\u{ord(letter):04x}")
    return made


@cache
def asset(name: str) -> str:
    """Return a file of this package as text."""
    return files("anchortm.newplace.report").joinpath(name).read_text(encoding="utf-8")


def _hash(inline: str) -> str:
    """Return the hash by which the policy of the page knows an inline script or style."""
    return escape("sha256-" + base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode())
