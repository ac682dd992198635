"""Write the table of which parts go together into docs/guide/cells.md, from ``anchortm.inputs.parts``."""

from __future__ import annotations

from pathlib import Path

from anchortm.inputs.parts import NAMES, why_not

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "cells.md"
START, END = "<!-- made by scripts/parts_table.py -->\n", "<!-- end of the table -->"
ROWS = ("strata", "varying", "scale", "random", "l1", "l2", "smooth", "wide")
COLUMNS = (*ROWS, "partial", "mean", "batches", "boosting", "infinite")
SHORT = {"wide": "wide factors, sparse X", "batches": "batches", "l1": "l1", "l2": "l2"}


def name(key: str) -> str:
    """Return the heading of a row or column."""
    return SHORT.get(key, NAMES[key])


def table() -> str:
    """Return the table and the reasons, as Markdown."""
    lines = [f"| part | {' | '.join(name(key) for key in COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    reasons: dict[str, list[str]] = {}
    for row in ROWS:
        cells = []
        for column in COLUMNS:
            reason = why_not(row, column) if row != column else None
            cells.append("" if row == column else "yes" if reason is None else "no")
            if reason is not None and not (column in ROWS and ROWS.index(column) < ROWS.index(row)):
                reasons.setdefault(reason, []).append(f"{name(row)} with {name(column)}")
        lines.append(f"| {name(row)} | {' | '.join(cells)} |")
    lines += ["", "What to do instead:", ""]
    lines += [f"- {', '.join(pairs)}: {reason}." for reason, pairs in reasons.items()]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the page with the table as it is now."""
    before, rest = text.split(START)
    return before + START + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
