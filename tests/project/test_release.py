"""What a release consists of says the same everywhere: version, dependencies, packages that install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import anchortm

ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_the_same_everywhere() -> None:
    recipe = re.search(r'set version = "(.*)"', (ROOT / "conda" / "meta.yaml").read_text())
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert recipe is not None
    assert citation is not None
    assert {recipe[1], citation[1]} == {anchortm.__version__}
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "dev" in anchortm.__version__ or f"## [{anchortm.__version__}]" in changelog


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    listed = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    assert listed == {f"python{project['requires-python']}", *project["dependencies"]}


@pytest.mark.slow
def test_sdist_and_wheel_install_and_answer_in_a_fresh_environment(tmp_path: Path) -> None:
    def sh(*words: str, cwd: Path = tmp_path) -> str:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)  # noqa: S603 - our own
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    sh(sys.executable, "-m", "venv", "build")
    python = str(tmp_path / "build" / "bin" / "python")
    sh(python, "-m", "pip", "install", "--quiet", "build")
    sh("git", "clone", "--quiet", str(ROOT), "clone")
    sh(python, "-m", "build", "--outdir", str(tmp_path / "dist"), str(tmp_path / "clone"))  # the wheel from the sdist
    files = sorted((tmp_path / "dist").iterdir())
    assert [file.name.split("-")[1].removesuffix(".tar.gz") for file in files] == [anchortm.__version__] * 2
    for k, file in enumerate(files):
        sh(sys.executable, "-m", "venv", f"user{k}")
        own = tmp_path / f"user{k}" / "bin"
        sh(str(own / "python"), "-m", "pip", "install", "--quiet", str(file))
        assert anchortm.__version__ in sh(str(own / "anchortm"), "--version")
        sh(str(own / "anchortm"), "data", "wine", "--output", "wine.csv")
        words = ("--model", "o-logit", "--formula", "rating ~ temp + contact | judge", "--save", "wine.json")
        assert "contact" in sh(str(own / "anchortm"), "fit", "wine.csv", *words)
