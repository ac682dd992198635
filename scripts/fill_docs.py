"""Run the Python blocks of docs/*.md and write what they print into the text blocks that follow them."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```\n)?", re.S)


def filled(text: str) -> str:
    """Return the page with the output of each block; blocks of a page share their names."""
    names: dict[str, object] = {}

    def run(match: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(match[1], names)  # noqa: S102 - our own pages
        lines = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        output = "" if match[2] is None else f"```text\n{lines}\n```\n"
        return f"```python\n{match[1]}```\n{output}"

    return BLOCK.sub(run, text)


def pages() -> list[Path]:
    """Return the pages with Python blocks."""
    written = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not {"_build", "gallery"} & set(path.parts)]
    return [path for path in written if "```python" in path.read_text()]


if __name__ == "__main__":
    for page in pages():
        page.write_text(filled(page.read_text()))
        print(f"filled {page.relative_to(ROOT)}", file=sys.stderr)
