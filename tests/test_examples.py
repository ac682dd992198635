"""The examples run, and print the values that other software found."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_old_faithful(capsys: pytest.CaptureFixture[str]) -> None:
    assert "log-likelihood  -361.2790" in run("old_faithful", capsys)
    assert (ROOT / "output" / "old_faithful.png").stat().st_size > 10_000


def test_boston(capsys: pytest.CaptureFixture[str]) -> None:
    """The worst town by xi for Lm and c-probit (claim B4 of the reproduction)."""
    lines = {line.split()[0]: line.split()[1:] for line in run("boston", capsys).splitlines() if line}
    assert lines["Lm"] == ["2.823", "3.095", "3.868", "4.951", "6.095", "7.246"]
    assert (ROOT / "output" / "boston_loeo.png").stat().st_size > 10_000


def test_lines_of_the_readme_run_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    exec(code, {})  # noqa: S102 - our own README
    assert capsys.readouterr().out
