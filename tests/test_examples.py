"""The examples run and print what other software found; the pages of the docs show what their code prints."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
fill_docs = runpy.run_path(str(ROOT / "scripts" / "fill_docs.py"))


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_old_faithful(capsys: pytest.CaptureFixture[str]) -> None:
    assert "log-likelihood  -361.2790" in run("old_faithful", capsys)
    assert (ROOT / "output" / "old_faithful.png").stat().st_size > 10_000


def test_lines_of_the_readme_run_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text()
    (code,) = (part.split("```")[0] for part in text.split("```python\n")[1:])
    exec(code, {})  # noqa: S102 - our own README
    assert capsys.readouterr().out


def test_a_new_centre(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("cgd_centres", capsys)
    assert "p = 0.82" in printed
    assert "XiSearchCV(ProportionalHazards, worst): xi = 0" in printed
    assert (ROOT / "output" / "cgd_centres.png").stat().st_size > 10_000


def test_judges_disagree(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("wine_judges", capsys)
    assert "XiSearchCV(OrdinalRegression, worst): xi = 3" in printed
    assert "9 anchor directions and 6 parameters: over-identified" in printed
    assert (ROOT / "output" / "wine_judges.png").stat().st_size > 10_000


@pytest.mark.parametrize("page", fill_docs["pages"](), ids=lambda page: page.stem)
def test_pages_show_what_their_code_prints(page: Path) -> None:
    assert fill_docs["filled"](page.read_text()) == page.read_text(), "run make docs-outputs"
