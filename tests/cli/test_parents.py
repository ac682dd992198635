"""The command parents says what Python says, in the words of the command line."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main

FORMULA = "y ~ dose + group + effect | site"
LINE = f"parents rows.csv -m lm -f '{FORMULA}'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table: dose and group act on y, y on effect, and sites on all three."""
    folder, rng, n = tmp_path_factory.mktemp("parents"), np.random.default_rng(2), 400
    site = rng.integers(0, 4, n)
    group = rng.random(n) < np.array([0.1, 0.8, 0.5, 0.3])[site]
    dose = rng.normal(size=n) + site
    y = dose + 2.0 * group + rng.normal(size=n)
    data = pd.DataFrame({"site": site + 1, "dose": dose, "group": np.where(group, "new", "old"), "y": y})
    data["effect"] = data.y + rng.normal(size=n) + site
    data.assign(weight=1 + np.arange(n) % 2, region=np.where(site < 2, "01", "02")).to_csv(
        folder / "rows.csv", index=False
    )
    data.assign(dose=data.dose.where(np.arange(n) % 40 > 0)).to_csv(folder / "gaps.csv", index=False)
    wide = pd.DataFrame(rng.normal(size=(60, 20)), columns=[f"m{k}" for k in range(20)])
    wide.assign(site=np.arange(60) % 3, y=wide.m0).to_csv(folder / "wide.csv", index=False)
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def said(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Return what a line prints, on one line."""
    capsys.readouterr()
    assert main(shlex.split(line)) == code
    printed = capsys.readouterr()
    return " ".join((printed.err if code else printed.out).split())


def test_it_says_what_python_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = atm.causal_parents(atm.NormalLinear(), FORMULA, pd.read_csv("rows.csv"))
    assert found.parents == ("dose", "group")
    record = json.loads(said(f"{LINE} --json -o sets.csv -p sets.png -q", capsys))
    assert record["parents"] == ["dose", "group"]
    assert record["defining_sets"] == [["dose"], ["group"]]
    assert not record["misspecified"]
    pd.testing.assert_frame_equal(pd.DataFrame(record["covariates"]).set_index("covariate"), found.frame())
    assert [tuple(row["set"]) for row in record["sets"]] == found.sets["set"].tolist()
    written = pd.read_csv("sets.csv", keep_default_na=False)
    assert written["set"].tolist()[:2] + written["set"].tolist()[-1:] == ["(none)", "dose", "dose + group + effect"]
    pd.testing.assert_frame_equal(written.drop(columns="set"), found.sets.drop(columns="set"))
    assert Path("sets.png").stat().st_size > 5000

    printed = said(LINE, capsys)
    p = found.p_values
    assert "Causal parents at level 0.05: dose, group" in printed
    assert f"dose {p['dose']:.3g} <- parent group {p['group']:.3g} <- parent effect {p['effect']:.3g}" in printed
    assert "1 of 8 sets are accepted, the smallest first: set statistic df p-value dose + group" in printed


def test_options_are_those_of_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = pd.read_csv("rows.csv", dtype={"region": str}), atm.NormalLinear()
    lines = {
        "--mandatory dose --mandatory group": {"mandatory": ["dose", "group"]},
        "--level 1e-9 --method score --weights weight": {"level": 1e-9, "method": "score", "sample_weight": "weight"},
        "--max-size 1 --regression none": {"max_size": 1, "regression": "none"},
        "--screen blanket --n-screened 2": {"screen": "blanket", "n_screened": 2},
        "--environments region": {"environments": "region"},
    }
    for more, arguments in lines.items():
        found = atm.causal_parents(model, FORMULA, data, **arguments)
        record = json.loads(said(f"{LINE} {more} --json", capsys))
        assert tuple(record["parents"]) == found.parents, more
        assert [row["p_value"] for row in record["sets"]] == pytest.approx(found.sets.p_value.tolist(), rel=1e-12)


def test_sensitivity(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = atm.causal_parents(atm.NormalLinear(), FORMULA, pd.read_csv("rows.csv"))
    record = json.loads(said(f"{LINE} --sensitivity --json", capsys))["sensitivity"]
    answers = found.sensitivity().frame()
    assert [tuple(row["parents"]) for row in record["answers"]] == answers.parents.tolist()
    assert len(record["shifts"]) == 12
    printed = said(f"{LINE} --sensitivity", capsys)
    assert "How sensitive the answer is" in printed
    assert "environment left out site=4" in printed
    assert "shift the means of all covariates" in printed


def test_missing_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = LINE.replace("rows.csv", "gaps.csv")
    assert "--missing drop, which leaves out 10 rows" in said(line, capsys, 1)
    record = json.loads(said(f"{line} --missing drop --json", capsys))
    whole = atm.causal_parents(atm.NormalLinear(), FORMULA, pd.read_csv("gaps.csv").dropna())
    assert [row["p_value"] for row in record["covariates"]] == pytest.approx(whole.p_values.tolist())


def test_every_set_rejected_is_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = said("parents rows.csv -m lm -f 'y ~ effect | site'", capsys)
    assert "Causal parents at level 0.05: none found" in printed
    assert "0 of 2 sets are accepted" in printed
    assert "This is not evidence that there are no parents" in printed


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("-f 'y ~ dose'", "parents needs environments: name them after '|' in --formula"),
        ("-f 'y ~ dos | site'", "there is no column 'dos' in the data; did you mean 'dose'?"),
        ("--environments town", "there is no column 'town'"),
        ("--mandatory dos", "--mandatory has dos, but the covariates are dose, group, effect"),
        ("--level 5", "--level must be a number between 0 and 1, not 5"),
        ("--max-size -1", "--max-size must be a whole number of at least 0, not -1"),
        ("--screen lasso --n-screened 0", "--n-screened must be a whole number of at least 1"),
        ("--max-fits 3", "The limit is --max-fits 3: raise it, or test fewer sets by --screen, --max-size or --mand"),
        ("--weights weight --method simulate --l2 1", "cannot be combined with an l2 penalty"),
        ("-f 'y ~ C(site) + dose | site' --mandatory 'C(site)'", "no set of covariates can be tested: the covariates"),
        ("-o sets.txt", "sets.txt must end in .csv, .parquet, .json"),
    ],
)
def test_what_is_refused(folder: Path, more: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(f"{LINE} {more}", capsys, 1)
    assert message in printed
    assert not {"max_size", "max_fits", "method='", "screen='", "causal_parents"} & set(printed.split())


def test_remarks_are_in_the_words_of_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = pd.read_csv("rows.csv").head(40)
    data.to_csv("few.csv", index=False)
    assert "use --method simulate" in said(LINE.replace("rows.csv", "few.csv"), capsys)
    wide = "parents wide.csv -m lm -f 'y ~ . | site'"
    printed = said(wide, capsys, 1)
    assert "the documentation of" not in printed


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--xi 3", "parents has no option --xi; fit"),
        ("--mandatry dose", "there is no option --mandatry: did you mean --mandatory?"),
        ("--screen laso", "there is no value 'laso': did you mean lasso?"),
    ],
)
def test_wrong_usage(folder: Path, more: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(shlex.split(f"{LINE} {more}"))
    assert end.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
