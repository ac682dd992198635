"""The examples run and print what other software found; the pages of the docs show what their code prints."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from anchortm.cli.main import main, parser

fill_docs = runpy.run_path(str(ROOT / "scripts" / "fill_docs.py"))


def run(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name])
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_old_faithful(capsys: pytest.CaptureFixture[str]) -> None:
    assert "log-likelihood  -361.2790" in run("old_faithful", capsys)
    assert (ROOT / "output" / "old_faithful.png").stat().st_size > 10_000


def readme_blocks() -> list[tuple[str, str]]:
    """Return the blocks of the README that run, with their language, from top to bottom."""
    return re.findall(r"```(python|sh|text)\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_lines_of_the_readme_run_as_printed(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In this environment; a slow test walks it in a fresh one."""
    monkeypatch.chdir(tmp_path)
    for language, code in readme_blocks():
        if language == "python":
            assert len(code.strip().splitlines()) <= 12
            capsys.readouterr()
            exec(code, {})  # noqa: S102 - our own README
        elif language == "text":
            assert capsys.readouterr().out == code
        else:
            for line in code.strip().splitlines():
                if line.startswith("anchortm demo"):  # it is run in tests/cli
                    parser().parse_args(shlex.split(line)[1:])
                elif not line.startswith("pip"):
                    assert main(shlex.split(line)[1:]) == 0
    assert (tmp_path / "predictions.csv").exists()
    assert capsys.readouterr().out


def fresh_environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of a new virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)  # noqa: S603 - our own
    path = f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PATH": path}


def sh(command: str, cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(command, shell=True, cwd=cwd, env=env, capture_output=True, text=True)  # noqa: S602
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_readme_walked_from_top_to_bottom_in_a_fresh_environment(tmp_path: Path) -> None:
    """A new clone, a new environment, every command and every line of the README in their order."""
    sh(f"git clone --quiet {ROOT} clone", tmp_path, dict(os.environ))
    env = fresh_environment(tmp_path)
    printed = ""
    for language, code in readme_blocks():
        if language == "sh":
            sh(f"set -e\n{code}", tmp_path / "clone", env)
        elif language == "text":
            assert printed == code
        else:
            (tmp_path / "lines.py").write_text(code)
            printed = sh(f"python {tmp_path / 'lines.py'}", tmp_path / "clone", env)
    assert (tmp_path / "clone" / "predictions.csv").exists()


@pytest.mark.slow
def test_wheel_works_without_the_checkout(tmp_path: Path) -> None:
    """Built by the ordinary client, installed into an empty environment, elsewhere."""
    env = fresh_environment(tmp_path)
    sh("pip install --quiet build", tmp_path, env)
    sh(f"python -m build --wheel --outdir {tmp_path / 'dist'} {ROOT}", tmp_path, env)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    empty = tmp_path / "empty"
    empty.mkdir()
    clean = fresh_environment(empty)
    sh(f"pip install --quiet {wheel}", empty, clean)
    assert "pip install 'anchortm[plot]'" in sh("anchortm demo", empty, clean)  # without matplotlib: tables only
    sh(f"pip install --quiet '{wheel}[plot]'", empty, clean)
    assert "15.100" in sh("anchortm demo --output figures", empty, clean)
    assert (empty / "figures" / "boston_loeo.png").stat().st_size > 10_000


def test_a_new_centre(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("cgd_centres", capsys)
    assert "p = 0.83" in printed
    assert "XiSearchCV(ProportionalHazards, 0.9): xi = 0" in printed
    assert (ROOT / "output" / "cgd_centres.png").stat().st_size > 10_000


def test_judges_disagree(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("wine_judges", capsys)
    assert "XiSearchCV(OrdinalRegression, 0.9): xi = 3" in printed
    assert "9 anchor directions and 6 parameters: over-identified" in printed
    assert (ROOT / "output" / "wine_judges.png").stat().st_size > 10_000


LONG = ("docs/guide/notions.md", "docs/guide/other_models.md", "docs/index.md")  # the last is the README's example
PAGES = [
    pytest.param(page, marks=pytest.mark.slow if str(page.relative_to(ROOT)) in LONG else ())
    for page in fill_docs["pages"]()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_show_what_their_code_prints(page: Path) -> None:
    """All but residuals at the level of rounding and the last digits of files, which differ between processors."""
    text, rounded = page.read_text(), fill_docs["rounded"]
    assert rounded(fill_docs["filled"](text)) == rounded(text), "run make docs-outputs"


def test_findings(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run("findings", capsys)
    assert "no row can be below" in printed
    assert "not convex" in printed
    assert "over-identified" in printed
    assert "5 times as wide: worst town  4.65, median town 4.23" in printed
