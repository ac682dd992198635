"""Run the code of docs/*.md and write what it prints into the pages.

Output of Python blocks goes into the text blocks that follow them. In console blocks, what follows the lines with a
dollar sign is the output of these commands, as a terminal of 80 columns shows it.

    python scripts/fill_docs.py [PAGE ...]

By default all pages are filled. A page whose output differs in rounding only is left as it is.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = re.compile(r"```console\n(.*?)```\n", re.S)
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*\n", re.M)
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

    with tempfile.TemporaryDirectory() as folder:
        page = CONSOLE.sub(lambda block: f"```console\n{_session(block[1], folder)}```\n", text)
    return BLOCK.sub(run, page)


class _Screen(io.StringIO):
    """What a terminal shows: both streams, as they come."""

    def isatty(self) -> bool:
        return True


def _session(block: str, folder: str) -> str:
    """Return a console block with the output of its commands; all blocks of a page share a folder."""
    parts = []
    for command in COMMAND.findall(block):
        screen, switches = _Screen(), {"COLUMNS": "80", "NO_COLOR": "1"}
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.chdir(folder))
            stack.enter_context(contextlib.redirect_stdout(screen))
            stack.enter_context(contextlib.redirect_stderr(screen))
            stack.enter_context(mock.patch.dict(os.environ, switches))
            _command(shlex.split(command[2:].replace("\\\n", " ")))
        lines = "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())
        parts.append(command + lines)
    return "\n".join(parts)


def _command(words: list[str]) -> None:
    """Run one command of a page, in this process."""
    from anchortm.cli.main import main

    match words:
        case ["anchortm", *arguments]:
            main(arguments)
        case ["python", script]:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        case ["head", "-n", number, file]:
            print("\n".join(Path(file).read_text(encoding="utf-8").splitlines()[: int(number)]))
        case _:
            raise ValueError(f"pages cannot run {words}")


def pages() -> list[Path]:
    """Return the pages with code that runs."""
    written = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not {"_build", "gallery"} & set(path.parts)]
    return [path for path in written if re.search("```(python|console)", path.read_text())]


def rounded(text: str) -> str:
    """Return a page without what differs between processors: last digits, and residuals at the level of rounding."""
    text = re.sub(r"\d+\.\d{13,}", lambda number: f"{float(number[0]):.10g}", text)
    return re.sub(r"KKT residual \d\.\de-1[4-9]", "KKT residual of rounding", text)


def main(arguments: list[str]) -> None:
    """Fill the pages that are named, or all of them."""
    for page in [Path(name).resolve() for name in arguments] or pages():
        before = page.read_text()
        after = filled(before)
        changed = rounded(after) != rounded(before)
        if changed:
            page.write_text(after)
        print(f"{'filled' if changed else 'unchanged:'} {page.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
