"""The reproduction: verdicts, files, resuming, and the same numbers whatever the processes."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anchortm.cli.main import main
from anchortm.exceptions import InputError
from anchortm.reproduce import engine
from anchortm.reproduce.engine import CAVEAT, NOT, REPRODUCED, Options, run_part
from anchortm.reproduce.table import PARTS, choose, claim_frame, reproduce

# the verdicts claim by claim; simulations with few runs are held to those that are far from a tie
VERDICTS = {
    **{f"A{k}": REPRODUCED for k in range(1, 22)},
    "A10": CAVEAT,
    "A16": CAVEAT,
    "A17": CAVEAT,
    "A18": CAVEAT,
    **{f"B{k}": REPRODUCED for k in range(1, 14)},
    "B7": CAVEAT,
    "B9": CAVEAT,
    "B12": CAVEAT,
    "C1": NOT,
    "C5": REPRODUCED,
    "N1": REPRODUCED,
    "N2": REPRODUCED,
    "N4": NOT,
    "N5": CAVEAT,
    "E2": CAVEAT,
    "E3": REPRODUCED,
    "F3": CAVEAT,
    "F6": REPRODUCED,
}
FULL = VERDICTS | {
    **dict.fromkeys(("C2", "C3", "E1", "F1", "F2", "F5", "F7"), REPRODUCED),
    "C4": NOT,
    "N3": CAVEAT,
    "E4": REPRODUCED,
    "F4": CAVEAT,
}


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing where figures are not the point: they take most of the time."""
    monkeypatch.setattr(engine, "write_figure", lambda *_: None)


@pytest.mark.parametrize(
    "size",
    [
        ["--runs", "2", "--trees", "2"],
        pytest.param(["--runs", "4", "--trees", "5", "--jobs", "2"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_few_runs_of_everything(
    tmp_path: Path, boston: Path, size: list[str], capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command with the published numbers of runs is a slow test; that of BostonHousing2 has no runs."""
    folder = tmp_path / "paper"
    shutil.copytree(boston / "computed", folder / "computed")
    line = ["reproduce", "all", *size, "--out", str(folder)]
    assert main(line) == 0
    printed = capsys.readouterr().out
    assert "55 claims" in printed
    claims = pd.read_csv(folder / "claims.csv").set_index("id")
    assert len(claims) == 55
    assert claims.verdict.isin([REPRODUCED, CAVEAT, NOT]).all()
    wrong = {k: (claims.verdict[k], claims.measured[k]) for k, v in VERDICTS.items() if claims.verdict[k] != v}
    assert not wrong
    files = {path.name for path in folder.iterdir()}
    for name in ("figure_2_transport", "figure_4_boston", "figure_5_boston_densities", "figure_6_la", "figure_7_nla"):
        assert {f"{name}.png", f"{name}.pdf"} <= files
    for name in (
        "figure_8_iv1",
        "figure_9_iv2_10_classes",
        "figure_F1_nla_lm",
        "figure_F2_nla_boosting",
        "figure_F3_iv1_lm",
    ):
        assert {f"{name}.png", f"{name}.pdf"} <= files
    assert {"control_boston.png", "control_boston.pdf", "boston_control.csv", "boston_findings.csv"} <= files
    assert {"figure_F4_iv2_4_classes.png", "figure_F4_iv2_6_classes.pdf", "la_nll.csv", "iv2.csv", "claims.md"} <= files
    monkeypatch.setattr(engine, "write_figure", lambda *_: None)
    start = time.perf_counter()
    assert main([*line, "--json"]) == 0  # what is finished is not computed again
    again = json.loads(capsys.readouterr().out)
    assert time.perf_counter() - start < 60
    assert [c["measured"] for c in again] == claims.measured.tolist()


def test_the_same_numbers_whatever_the_processes(tmp_path: Path) -> None:
    (part,) = choose(["la"])
    one, two = (part.compute(Options(runs=3, jobs=jobs, progress=False)) for jobs in (1, 2))
    for key in one:
        np.testing.assert_array_equal(one[key], two[key])
    other = part.compute(Options(runs=3, seed=2, progress=False))
    assert (other["nll_run"] != one["nll_run"]).any()


def test_resuming(tmp_path: Path, no_figures: None) -> None:
    (part,) = choose(["la"])
    options = Options(runs=2, progress=False)
    assert run_part(part, tmp_path, options)[1] is True
    assert run_part(part, tmp_path, options)[1] is False
    assert run_part(part, tmp_path, options, fresh=True)[1] is True
    (kept,) = (tmp_path / "computed").glob("la-*.npz")
    kept.write_bytes(kept.read_bytes()[:100])  # cut off
    assert run_part(part, tmp_path, options)[1] is True
    assert run_part(part, tmp_path, Options(runs=3, progress=False))[1] is True


def test_parts_add_up(tmp_path: Path, no_figures: None, capsys) -> None:
    """The claims of a part that was run before stay in the table."""
    for name in ("identities", "la"):
        assert main(["reproduce", name, "--runs", "2", "--out", str(tmp_path)]) == 0
    claims = pd.read_csv(tmp_path / "claims.csv")
    assert claims["id"].tolist() == [f"A{k}" for k in range(1, 22)] + [f"C{k}" for k in range(1, 6)]
    assert main(["reproduce", "identities", "--seed", "5", "--out", str(tmp_path)]) == 0
    assert set(pd.read_csv(tmp_path / "claims.csv").seed) == {1, 5}
    assert "26 claims" in (tmp_path / "claims.md").read_text()
    capsys.readouterr()


def test_parts_and_refusals(tmp_path: Path, capsys) -> None:
    assert [part.name for part in choose(["all"])] == [part.name for part in PARTS]
    with pytest.raises(InputError, match="unknown parts: lla"):
        reproduce(["all", "lla"], tmp_path, Options())
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "identities", "--out", str(tmp_path / "file")]) == 1
    assert "cannot make the folder" in capsys.readouterr().err
    assert main(["reproduce", "la", "--runs", "1", "--out", str(tmp_path)]) == 1
    assert "at least 2" in capsys.readouterr().err
    assert claim_frame([]).empty


@pytest.mark.slow
def test_all_runs_of_everything(tmp_path: Path) -> None:
    """The published numbers of runs; forests of ten trees, for time."""
    claims = claim_frame(reproduce(["all"], tmp_path, Options(jobs=2, trees=10, progress=False))).set_index("id")
    wrong = {k: (claims.verdict[k], claims.measured[k]) for k, v in FULL.items() if claims.verdict[k] != v}
    assert not wrong
    assert len(FULL) == len(claims)
