"""Draw docs/guide/cheat_sheet.md as one page to print, docs/_static/cheat_sheet.pdf (another file as argument)."""

from __future__ import annotations

import hashlib
import re
import sys
import textwrap
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "cheat_sheet.md"
PDF = ROOT / "docs" / "_static" / "cheat_sheet.pdf"
WIDTH, HEIGHT = 8.27, 11.69  # A4
COLUMNS, LINES, LETTERS = 2, 66, 73  # what fits in a column

Line = tuple[str, str]  # its kind: "head", "code", "text", "row" or "gap"; what it says


def lines(text: str) -> list[list[Line]]:
    """Return the sections of the page, each as lines to draw; links and the introduction are left out."""
    sections = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        found: list[Line] = [("head", title)]
        language = ""
        for line in body.splitlines():
            if line.startswith("```"):
                language = "" if language else line[3:]
            elif language:
                indent = " " * (2 if language == "sh" else 4)
                parts = textwrap.wrap(line, LETTERS, subsequent_indent=indent, break_on_hyphens=False) or [""]
                found += [("code", part) for part in parts]
            elif line.startswith("|") and not line.startswith("|---"):
                cells = re.split(r"(?<!\\)\|", line.replace("`", ""))[1:-1]
                left, right = (cell.strip().replace("\\|", "|") for cell in cells)
                found.append(("row", f"{left:24s}{right}"))
        sections.append([*found, ("gap", "")])
    return sections


def columns(sections: list[list[Line]]) -> list[list[Line]]:
    """Return the columns of the sheet. A section stays together; ValueError if there are more columns than fit."""
    filled: list[list[Line]] = [[]]
    for section in sections:
        if len(filled[-1]) + len(section) - 1 > LINES:
            filled.append([])
        filled[-1] += section
    if len(filled) > COLUMNS:
        raise ValueError(f"the cheat sheet needs {len(filled)} columns, and {COLUMNS} fit on its page: shorten it")
    return filled


def mark(text: str) -> str:
    """Return by what a file is known to show this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def draw(target: Path) -> None:
    """Write the sheet to a file."""
    page = PAGE.read_text(encoding="utf-8")
    figure = Figure(figsize=(WIDTH, HEIGHT))
    figure.text(0.04, 0.965, "anchortm: cheat sheet", fontsize=14, weight="bold", va="center")
    styles = {
        "head": {"weight": "bold", "fontsize": 9, "color": "#0b4f6c"},
        "code": {"family": "monospace", "fontsize": 6.3},
        "row": {"family": "monospace", "fontsize": 6.3, "color": "#444444"},
        "gap": {},
    }
    for column, found in enumerate(columns(lines(page))):
        for row, (kind, text) in enumerate(found):
            x, y = 0.04 + 0.475 * column, 0.935 - 0.0138 * row
            figure.text(x, y, text.replace("$", r"\$"), va="center", **styles[kind])
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(target, format="pdf", metadata={"CreationDate": None, "Keywords": mark(page)})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PDF)
