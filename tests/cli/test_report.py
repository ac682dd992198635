"""The command report: what Python says, from files, with the messages of the command line."""

import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main


def rows(seed: int, shift: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    place = np.repeat(["Kiel", "Köln", "Ulm", "tiny"], [30, 25, 20, 3])
    x = (rng.normal(size=place.size) + shift).round(3)
    data = pd.DataFrame({"place": place, "x": x, "group": rng.choice(["a", "b"], place.size)})
    late = np.exp(0.5 * x + rng.normal(size=place.size))
    data["y"], data["time"] = (x + rng.normal(size=place.size)).round(3), late.round(3)
    return data.assign(event=rng.integers(0, 2, place.size), code=np.arange(place.size) % 3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    rows(0).to_csv(folder / "old.csv", index=False)
    rows(1, 0.8).to_csv(folder / "new.csv", index=False)
    old = pd.read_csv(folder / "old.csv")
    atm.save(atm.NormalLinear(1.0).fit("y ~ x + group | place", old), folder / "lm.json")
    atm.save(atm.ProportionalHazards(order=3).fit("Surv(time, event) ~ x | place", old), folder / "ph.json")
    atm.save(atm.NormalLinear().fit(old[["x"]], old.y), folder / "plain.json")
    atm.save(atm.NormalLinear().fit(old[["x"]].to_numpy(), old.y.to_numpy()), folder / "nameless.json")
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def said(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Return what a line prints, on one line."""
    assert main(shlex.split(line)) == code
    printed = capsys.readouterr()
    return " ".join((printed.err if code else printed.out).split())


def test_it_says_what_python_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = atm.model_report(atm.load("lm.json"), pd.read_csv("new.csv"))
    assert main(shlex.split("report lm.json new.csv --json -o places.csv -q")) == 0
    record = json.loads(capsys.readouterr().out)
    mine = found.to_dict()
    for part in ("table", "all", "sites", "calibration", "extrapolation", "drift", "conclusions"):
        assert record[part] == json.loads(json.dumps(mine[part])), part
    assert record["about"]["source"]["file"] == "lm.json"
    assert record["about"]["source"]["written by"] == f"anchortm {atm.__version__}, format 1"
    assert record["methods"]["command"] == "anchortm report lm.json new.csv"
    pd.testing.assert_frame_equal(pd.read_csv("places.csv"), found.frame())
    printed = said("report lm.json new.csv", capsys)
    row = found.frame().iloc[0]
    for words in (
        *(text.replace("(training)", "(--training)") for text in found.conclusions),
        "y ~ x + group | place",
        f"Kiel 30 {row.q10:.4g} {row['median']:.4g} {row.q90:.4g} {row.beyond:.4g} 30 {row.nll:.4g} {row.residual:.4g}",
        "To make this report again: anchortm report lm.json new.csv",
    ):
        assert " ".join(words.split()) in printed
    assert "NaN" not in printed


def test_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("report lm.json new.csv --report page.html -q")) == 0
    assert capsys.readouterr().out == "", "the page is in a file"
    text = Path("page.html").read_text(encoding="utf-8")
    for words in ("<h2", "anchortm report lm.json new.csv", "lm.json", "Kiel", "Köln"):
        assert words in text
    assert main(shlex.split("report lm.json new.csv --report page.html")) == 0
    assert "written to page.html" in capsys.readouterr().err


def test_places_times_and_the_rows_of_the_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, old = pd.read_csv("new.csv"), pd.read_csv("old.csv")
    options = {"environments": "group", "times": [0.5, 2.0], "training": old}
    found = atm.model_report(atm.load("ph.json"), data, **options)
    line = "report ph.json new.csv -e group --times 0.5,2 --training old.csv"
    record = json.loads(said(f"{line} --json", capsys))
    assert record["sites"] == json.loads(json.dumps(found.to_dict()["sites"]))
    assert record["drift"] == json.loads(json.dumps(found.to_dict()["drift"]))
    assert record["methods"]["command"] == (
        "anchortm report ph.json new.csv --environments group --training old.csv --times 0.5,2"
    )
    printed = said(line, capsys)
    assert "Means differ from those of the fit by more than 0.5 SD in x (+" in printed
    assert "observed_sf_0.5" in printed


def test_a_model_without_a_formula(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = pd.read_csv("new.csv")
    record = json.loads(said("report plain.json new.csv -e place --json", capsys))
    found = atm.model_report(atm.load("plain.json"), data[["x"]], data.y, data.place)
    assert record["sites"] == json.loads(json.dumps(found.to_dict()["sites"]))
    data.drop(columns="y").to_csv("blind.csv", index=False)
    assert "Calibration cannot be judged" in said("report plain.json blind.csv -e place", capsys)
    assert "the model was fitted in Python without a formula" in said("report nameless.json new.csv", capsys, 1)


def test_messy_tables(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts among numbers, gaps and unknown levels are counted; other dialects and pipes are read."""
    data = pd.read_csv("new.csv").astype({"x": object})
    data.loc[0, "x"], data.loc[1, "x"], data.loc[2:8, "group"] = "<0.1", None, "c"
    data.to_csv("messy.csv", index=False)
    printed = said("report lm.json messy.csv -q", capsys)
    assert "9 of 78 rows cannot be predicted and are left out: group 'c' is unknown (7 rows)" in printed
    assert "x is not a number (fewer than 5 rows each) (1 row)" in printed
    assert "<0.1" not in printed
    record = json.loads(said("report lm.json messy.csv --json -q", capsys))
    good = pd.read_csv("new.csv").drop(index=range(9))
    kiel = good[good.place == "Kiel"]
    assert record["sites"][0]["nll"] == pytest.approx(atm.load("lm.json").nll(kiel).mean())

    pd.read_csv("new.csv").to_csv("german.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    usual = json.loads(said("report lm.json new.csv --json", capsys))
    assert json.loads(said("report lm.json german.csv --json -q", capsys))["sites"] == usual["sites"]
    with open("new.csv", "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    assert json.loads(said("report lm.json - --json", capsys))["sites"] == usual["sites"]


def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, words in {
        "report lm.json new.csv -e plaice": "there is no column 'plaice' in the data; did you mean 'place'?",
        "report lm.json none.csv": "there is no file none.csv",
        "report new.csv lm.json": "new.csv is not a model file but a table: swap it with lm.json",
        "report lm.json lm.json": "lm.json is given as the model and as the table",
        "report lm.json new.csv --training new.csv": "--training is the table itself",
        "report lm.json new.csv --times 1": "--times are for outcomes that are times",
        "report ph.json new.csv --times=-1": "--times must be positive numbers",
        "report lm.json new.csv -o new.csv": "input and outputs must be different files",
        "report lm.json new.csv --report r.pdf": "r.pdf must end in .html",
        "report lm.json new.csv --json -o -": "--json and --output - both print to standard output",
    }.items():
        assert words in said(line, capsys, 1), line
    pd.read_csv("new.csv").drop(columns="x").to_csv("short.csv", index=False)
    assert "there is no column 'x' in the data" in said("report lm.json short.csv", capsys, 1)
    line = "report lm.json new.csv --training short.csv"
    assert "error: short.csv: there is no column 'x' in the data" in said(line, capsys, 1)


def test_only_the_table_goes_to_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("report lm.json new.csv -o -")) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    pd.testing.assert_frame_equal(table, atm.model_report(atm.load("lm.json"), pd.read_csv("new.csv")).frame())
