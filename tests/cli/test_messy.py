"""A messy CSV goes from file to predictions with the command line alone; Python, with a clean table, agrees."""

import runpy
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paths import DOCS, ROOT

import anchortm as atm
from anchortm.cli.main import main

messy = runpy.run_path(str(ROOT / "examples" / "messy_tables.py"))
FORMULA = 'Surv(days, gestorben == "ja") ~ Alter + Laktat + Stadium | Hôpital'
READ = ["--dates", "days=Entlassung-Aufnahme"]
REPAIRED = [*READ, "--missing-values", "<0,5", "--missing", "drop"]
FIT = ["patients.csv", "-m", "cox", "-f", FORMULA]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    messy["write"](tmp_path)
    return tmp_path


def cleaned(name: str) -> pd.DataFrame:
    """Return a table as a careful person would read it, without our code."""
    data = pd.read_csv(name, sep=";", decimal=",", dtype={"Laktat": str})
    data["Laktat"] = pd.to_numeric(data.Laktat.str.replace(",", "."), errors="coerce")
    came, left = (pd.to_datetime(data[column], format="%d.%m.%Y") for column in ("Aufnahme", "Entlassung"))
    return data.assign(days=(left - came).dt.days)


def test_the_tables_are_messy(folder: Path) -> None:
    """Everything that the walk is to show is in them."""
    text, new = Path("patients.csv").read_text(), Path("new.csv").read_text()
    assert ";<0,5;" in text
    assert ";n/a;" in text
    assert ";;" in text
    assert "Łódź" in text
    data = pd.read_csv("patients.csv", sep=";")
    assert set(data.Hôpital[data.Stadium == "IV"]) == {"Zürich"}
    assert ";IVb;" in new
    assert not set(pd.read_csv("new.csv", sep=";").Hôpital) & set(data.Hôpital)


def test_from_file_to_predictions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *FIT, *READ]) == 1
    assert '--missing-values "<0,5"' in capsys.readouterr().out
    assert main(["fit", *FIT, *READ]) == 1
    assert "'<0,5' at lines 93, 102" in capsys.readouterr().err
    assert Path("patients.csv").read_text().splitlines()[92].split(";")[5] == "<0,5"
    assert main(["check", *FIT, *REPAIRED]) == 0
    for command in ("diagnose", "choose", "compare", "loeo"):
        assert main([command, *FIT, *REPAIRED]) == 0
    assert main(["fit", *FIT, *REPAIRED, "--xi", "3", "--save", "model.json"]) == 0
    assert main(["predict", "model.json", "new.csv", "--sf", "30,60"]) == 1
    line = ["predict", "model.json", "new.csv", "--sf", "30,60", "--keep", "Patient", "-o", "predictions.csv"]
    assert main([*line, "--bad-rows", "mark", "--unknown", "rare"]) == 0
    capsys.readouterr()

    model = atm.ProportionalHazards.from_formula(FORMULA, cleaned("patients.csv"), xi=3.0, missing="drop")
    new, found = cleaned("new.csv"), pd.read_csv("predictions.csv")
    assert found.Patient.tolist() == new.Patient.tolist()
    good = (new[["Alter", "Laktat"]].notna().all(axis=1)).to_numpy()
    assert found.reason.isna().to_numpy().tolist() == good.tolist()
    assert found.reason[8] == "Laktat '<0,5' is not a number"
    assert found.mapped[3] == "Stadium 'IVb' read as 'IV'"
    expected = model.predict_distribution(new[good].replace({"Stadium": {"IVb": "IV"}})).sf([30.0, 60.0])
    np.testing.assert_allclose(found.loc[good, ["sf_30", "sf_60"]], expected, rtol=1e-10)
    assert found.loc[~good, ["sf_30", "sf_60"]].isna().all(axis=None)


def test_the_page_walks_the_same_way() -> None:
    """Its outputs are checked with those of all pages (project/test_examples.py)."""
    text = (DOCS / "guide" / "command_line.md").read_text()
    blocks = [block.split("```")[0] for block in text.split("```console\n")[1:]]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]
    commands = [shlex.split(line[2:])[1] for line in lines if line.startswith("$ anchortm")]
    assert commands == ["check", "check", "diagnose", "choose", "compare", "fit", "show", "predict", "predict", "score"]
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 80
