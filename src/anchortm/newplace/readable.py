"""A comparison for readers: its tables with headings, what their columns mean, and one HTML file with all of it."""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from anchortm._messages import plain
from anchortm._util.html import report
from anchortm.newplace.strategies import STRATEGIES

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.newplace.comparison import Comparison

__all__ = ["Part", "page", "parts_of", "strategies_of"]

DIGITS = 3  # after the point; smaller changes of the log-likelihood do not matter
TITLE = "Does it help at a new place?"
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # nothing is loaded from elsewhere, and no scripts run
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 52rem; margin: 2rem auto; }
body, section { padding: 0 1rem; }
section { margin: 2rem 0; overflow-x: auto; }
.verdict { border-left: 4px solid #08306b; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin-bottom: 1rem; }
th, td { padding: 0.2rem 0.7rem; text-align: right; vertical-align: top; border-bottom: 1px solid #ddd; }
th:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
"""


class Part(NamedTuple):
    """A table of a comparison, its heading, and what its columns mean."""

    heading: str
    table: pd.DataFrame
    meanings: dict[str, str]


def parts_of(found: Comparison) -> list[Part]:
    """Return the table of each design, and the folds that the verdict on a place further out rests on."""
    parts = []
    for design, table in found.table().groupby("design", sort=False):
        table = table.drop(columns="design").dropna(axis=1, how="all").round(DIGITS)
        meanings = {name: text for name, text in _meanings(found, str(design)).items() if name in table}
        parts.append(Part(_HEADINGS[str(design)], table, meanings))
    further = found.verdict.further
    if further is not None:
        folds = further.folds.drop(columns=["direction", "xi"]).round(DIGITS)
        sides = "high and low" if further.distance is None else "same, on the side of the new place, and other"
        meanings = {
            "side": f"the end of the direction that is left out: {sides}",
            "share": "share of the environments that is left out",
            "distance": "how far out they are on average, in standard deviations between environments",
            "gain": f"nll of ml minus that at xi = {further.folds['xi'].iloc[0]:g}; above 0 is better",
            "gain_widened": "nll of ml minus that of ml with another spread",
        }
        heading = f"Folds of the verdict on a place further out, along {further.folds['direction'].iloc[0]}"
        parts.append(Part(heading, folds, meanings))
    return parts


_HEADINGS = {
    "like": "At a place like these: each environment left out in turn",
    "further": "At a place further out: the outermost environments left out together",
}


def _meanings(found: Comparison, design: str) -> dict[str, str]:
    """Return what the columns of the table of a design mean."""
    frame = found.frame()
    own = frame[frame["design"] == design].drop_duplicates("environment")
    n, small = len(own), int((~own["ranked"]).sum())
    least = f"{found.min_rows} rows" + ("" if own["events"].isna().all() else " and 5 events")
    over = f"the {n - small} of {n} environments with at least {least}" if 0 < small < n else f"{n} environments"
    folds = " of a fold, then over folds" if design == "further" else ""
    return {
        "mean": "nll, the negative log-likelihood of rows that were left out, minus that of null, averaged over "
        f"environments{folds}; lower is better",
        "q90": f"90 % quantile of the same, over {over}",
        "worst": "the largest of the same, over these environments",
        "difference": "mean nll minus that of ml; below 0 is better",
        "se": "standard error of the difference, over environments",
        "p": "p-value of the difference, adjusted for the number of strategies",
        "gained": "folds in which the strategy is better than ml",
    }


def strategies_of(found: Comparison) -> dict[str, str]:
    """Return the strategies of this package that were compared, and what each does."""
    names = dict.fromkeys(row["strategy"] for row in found.rows)
    return {name: STRATEGIES[name].about for name in names if name in STRATEGIES}


def page(found: Comparison) -> str:
    """Return the comparison as one HTML file."""
    sections = [
        report(part.heading, part.table.set_index(part.table.columns[0]), part.meanings) for part in parts_of(found)
    ]
    sections += [report("Strategies", strategies_of(found)), _picture(found)]
    sections += [report("Remarks", *found.remarks)] if found.remarks else []
    body = "\n".join(f"<section>\n{section}\n</section>" for section in sections if section)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{TITLE}</h1>\n"
        f"<p>{escape(plain(found._title()))}</p>\n"
        f'<section class="verdict">\n{report("Verdict", *found.verdict.lines())}\n</section>\n'
        f"{body}\n</body>\n</html>\n"
    )


def _picture(found: Comparison) -> str:
    """Return what strategies gain or lose at each environment, as SVG; nothing if there is nothing to draw."""
    if not found._drawable():
        return ""
    from anchortm.plotting.style import pyplot

    plt = pyplot()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "anchortm"}):
        ax, drawn = found.plot(), io.StringIO()
        try:
            ax.figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        finally:
            plt.close(ax.figure)
    text = drawn.getvalue()
    return report("Gains and losses by environment") + "\n" + text[text.index("<svg") :]
