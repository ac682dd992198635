"""The script that computes all numbers and figures of the documentation again."""

from __future__ import annotations

import io
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "replicate.py"))


def test_every_step_runs_a_script_that_is_there_and_writes_files_that_are_there() -> None:
    for name, step in SCRIPT["STEPS"].items():
        scripts = [word for command in step.commands for word in command.split() if word.startswith("scripts/")]
        assert all((ROOT / script).exists() for script in scripts), name
        assert SCRIPT["kept"](step.writes), name


def test_every_page_that_a_script_writes_is_replicated() -> None:
    """A script that writes a page of the documentation is a step, or measures time."""
    used = {word for step in SCRIPT["STEPS"].values() for command in step.commands for word in command.split()}
    for script in sorted((ROOT / "scripts").glob("*.py")):
        about = script.read_text().split('"""')[1]
        if re.search(r"[Ww]rites? [^.]*docs/\S*\.md", about) and script.name not in ("replicate.py", "reliability.py"):
            assert f"scripts/{script.name}" in used, f"{script.name} writes a page: make it a step of replicate.py"


def test_pages_are_compared_by_their_lines() -> None:
    differs = SCRIPT["differs"]
    assert differs("a.md", b"one\ntwo\n", b"one\ntwo\n") == ""
    assert differs("a.md", b"one\ntwo\n", b"one\nthree\n") == "1 lines differ"
    assert differs("a.md", None, b"one\n") == "new"
    assert differs("a.md", b"one\n", None) == "gone"


def picture(grey: float, points: int = 0, size: int = 20) -> bytes:
    image = pytest.importorskip("matplotlib.image")
    array = np.full((size, size), grey)
    array.ravel()[:points] = 1.0
    file = io.BytesIO()
    image.imsave(file, array, format="png", cmap="gray", vmin=0.0, vmax=1.0)
    return file.getvalue()


def test_pictures_are_compared_by_their_points() -> None:
    differs = SCRIPT["differs"]
    assert differs("a.png", picture(0.5), picture(0.51)) == ""
    assert differs("a.png", picture(0.5), picture(0.5, points=8)) == ""
    assert differs("a.png", picture(0.5), picture(0.5, points=100)) == "25% of the points differ"
    assert differs("a.png", picture(0.5), picture(0.5, size=21)) == "100% of the points differ"


def test_the_steps_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT["main"](["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SCRIPT["STEPS"])


def test_one_step_says_whether_its_page_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT["main"](["parts"]) == 0
    assert "the same" in capsys.readouterr().out
