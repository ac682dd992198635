"""The cheat sheet: its shell lines run, and it fits on one printed page. Its Python runs with that of all pages."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from paths import DOCS, ROOT

from anchortm.cli.main import main

PAGE = DOCS / "guide" / "cheat_sheet.md"


@pytest.mark.filterwarnings("ignore::anchortm.exceptions.AnchorTMWarning")
def test_lines_for_the_shell_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    for line in block.splitlines():
        name, *arguments = shlex.split(line)
        assert name == "anchortm"
        assert main(arguments) == 0, line
    assert {"report.html", "model.json", "there.json", "bounds.csv"} <= {file.name for file in tmp_path.iterdir()}


def test_sheet_is_one_page_with_every_line(tmp_path: Path) -> None:
    sheet = runpy.run_path(str(ROOT / "scripts" / "cheat_sheet.py"))
    page = PAGE.read_text(encoding="utf-8")
    drawn = [text for column in sheet["columns"](sheet["lines"](page)) for _, text in column]
    blocks = re.findall(r"```(?:python|sh)\n(.*?)```", page, re.S)
    assert "".join("".join(drawn).split()).count("anchortm") >= "".join(blocks).count("anchortm")
    for line in "".join(blocks).splitlines():
        assert "".join(line.split()) in "".join("".join(drawn).split()), line
    sheet["draw"](tmp_path / "sheet.pdf")
    assert (tmp_path / "sheet.pdf").read_bytes().count(b"/Type /Page ") == 1


def test_sheet_is_that_of_the_page() -> None:
    sheet = runpy.run_path(str(ROOT / "scripts" / "cheat_sheet.py"))
    mark = sheet["mark"](PAGE.read_text(encoding="utf-8")).encode()
    assert mark in sheet["PDF"].read_bytes(), "the PDF shows an older page: run python scripts/cheat_sheet.py"


def test_a_sheet_that_is_too_long_is_refused() -> None:
    sheet = runpy.run_path(str(ROOT / "scripts" / "cheat_sheet.py"))
    page = "\n".join(f"## Part {k}\n" + "```python\nx\n" + "y\n" * 40 + "```" for k in range(5))
    with pytest.raises(ValueError, match="needs 5 columns, and 2 fit"):
        sheet["columns"](sheet["lines"](page))
