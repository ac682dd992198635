"""Write the tables of what can be combined into docs/guide/combinations.md, from ``anchortm.inputs.parts``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anchortm.inputs.parts import ENDS, ENGINES, NAMES, PARTS, PLACES, QUESTIONS, cells, why_not

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "combinations.md"
START, END = "<!-- made by scripts/parts_table.py -->\n", "<!-- end of the tables -->"
SHORT = {
    "varying": "varying",
    "scale": "scale",
    "random": "random",
    "l1": "l1",
    "l2": "l2",
    "smooth": "smooth",
    "offset": "offset",
    "wide": "wide",
    "target": "target",
    "proxies": "proxies",
    "boosting": "trees",
    "transformation": "transformation",
    "memory": "memory",
    "batches": "batches",
    "path": "path",
    "left_out": "left out",
    "bootstrap": "bootstrap",
    "searches": "searches",
    "sandwich": "sandwich",
    "bands": "bands",
}


def name(key: str) -> str:
    """Return the heading of a row or column."""
    return SHORT.get(key, NAMES[key])


def table(rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return a table of these pairs, as Markdown."""
    known = {frozenset(cell) for cell in cells()}
    lines = [f"| | {' | '.join(map(name, columns))} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        found = [
            "" if frozenset((row, column)) not in known else "yes" if why_not(row, column) is None else "**no**"
            for column in columns
        ]
        lines.append(f"| {name(row)} | {' | '.join(found)} |")
    return [*lines, ""]


def reasons() -> list[str]:
    """Return the reasons why pairs are refused, as a list."""
    found: dict[str, list[str]] = {}
    for first, second in cells():
        reason = why_not(first, second)
        if reason is not None:
            found.setdefault(reason, []).append(f"{name(first)} and {name(second)}")
    return [f"- *{', '.join(pairs)}*: {reason}." for reason, pairs in found.items()]


def text() -> str:
    """Return the generated part of the page."""
    pairs = list(cells())
    refused = sum(why_not(*pair) is not None for pair in pairs)
    share = (len(pairs) - refused) / len(pairs)
    lines = [
        f"You can combine {len(pairs) - refused} of {len(pairs)} pairs ({share:.0%}); {refused} are refused.",
        "",
        "## Parts with parts",
        "",
        *table(PARTS, PARTS),
        "## With engines, places of the rows, and the end of the path",
        "",
        *table([*PARTS, *ENGINES, *PLACES], [*ENGINES, *PLACES, *ENDS]),
        "## With questions",
        "",
        *table([*PARTS, *ENGINES, *PLACES], QUESTIONS),
        "## Why some pairs are refused, and what to do",
        "",
        *reasons(),
    ]
    return "\n".join(lines) + "\n"


def page(old: str) -> str:
    """Return the page with the tables as they are now."""
    before, rest = old.split(START)
    return before + START + text() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
