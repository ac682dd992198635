"""Intervals for new places in the shell."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main

FORMULA = "y ~ x | site"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(12), 6)
    data = pd.DataFrame({"site": [f"s{k}" for k in site], "x": rng.normal(size=72)})
    data["other"], data["half"] = [f"o{k % 9}" for k in site], np.where(np.arange(72) % 2, "a", "b")
    data["y"] = data.x + 0.5 * rng.normal(size=12)[site] + rng.normal(size=72)
    data["time"], data["event"] = np.exp(data.y), rng.integers(0, 2, 72)
    data.to_csv("rows.csv", index=False)
    data.to_parquet("rows.parquet")
    data[:5].drop(columns=["y", "site"]).to_csv("new.csv", index=False)
    assert main(["fit", "rows.csv", "-m", "lm", "-f", FORMULA, "-s", "m.json", "-q", "-o", "c.csv"]) == 0
    return tmp_path


def said(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Return all that a command prints, as one line."""
    capsys.readouterr()
    assert main(shlex.split(line)) == code
    return " ".join(" ".join(capsys.readouterr()).split())


def test_a_saved_model_is_calibrated_on_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    data, new = pd.read_csv("rows.csv"), pd.read_csv("new.csv")
    for method, guarantee in (("split", "average"), ("loeo", "places"), ("full", "average")):
        options = f"--conformal 0.8 --calibrate rows.csv --method {method} --guarantee {guarantee} --share 0.7"
        printed = said(f"predict m.json new.csv {options} -o p.csv", capsys)
        predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, guarantee, 0.7, method).fit(FORMULA, data)
        table = pd.read_csv("p.csv")
        np.testing.assert_allclose(table[["lower", "upper"]].T, predictor.predict_interval(new))
        np.testing.assert_allclose(table.prediction, predictor.model_.predict(new))
        assert predictor.guarantee_ in printed
    said("predict m.json rows.parquet --conformal 0.8 --calibrate rows.parquet -o p.parquet", capsys)
    np.testing.assert_allclose(
        pd.read_parquet("p.parquet").lower,
        atm.ConformalPredictor(atm.NormalLinear(), 0.8).fit(FORMULA, data).predict_interval(data)[0],
    )
    printed = said("predict m.json new.csv --conformal 0.8 --calibrate rows.csv --environments other -o p.csv", capsys)
    assert "places 9 (other): 4 to fit, 5 to calibrate; 4 are needed" in printed


def test_a_saved_predictor(capsys: pytest.CaptureFixture[str]) -> None:
    data, new = pd.read_csv("rows.csv"), pd.read_csv("new.csv")
    times = atm.ConformalPredictor(atm.ParametricSurvival(), 0.8).fit("Surv(time, event) ~ x | site", data)
    atm.save(times, "sets.json")
    said("predict sets.json new.csv -o p.csv", capsys)
    np.testing.assert_allclose(pd.read_csv("p.csv").lower, times.lower_bound(new))
    said("predict sets.json new.csv --conformal 0.6 -o p.csv", capsys)
    np.testing.assert_allclose(pd.read_csv("p.csv").lower, times.set_params(level=0.6).lower_bound(new))
    shown = said("show sets.json", capsys)
    assert "promise a row of a new place is covered with a probability of at least 80 %" in shown
    assert "ParametricSurvival" in shown
    assert "coverage: share of outcomes" in said("score sets.json rows.csv --by site", capsys)
    assert "is calibrated already" in said("predict sets.json new.csv --calibrate rows.csv", capsys, 1)


def test_roles_of_a_formula_are_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("y | half ~ x | site", "y ~ x + (1 | site) | site"):
        assert main(["fit", "rows.csv", "-m", "lm", "-f", text, "-s", "r.json", "-q", "-o", "c.csv"]) == 0
        said("predict r.json new.csv --conformal 0.7 --calibrate rows.csv --bad-rows mark -o p.csv", capsys)
        predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.7).fit(text, pd.read_csv("rows.csv"))
        expected = predictor.predict_interval(pd.read_csv("new.csv"), on_bad_rows="mark")
        np.testing.assert_allclose(pd.read_csv("p.csv")[["lower", "upper"]].T, expected)


def test_what_is_wrong_is_said_in_the_words_of_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    printed = said("predict m.json new.csv --conformal 0.95 --calibrate rows.csv -o p.csv", capsys)
    assert printed.count("warning: sets are infinite: the promise needs 19 places to calibrate on") == 1
    assert "pass at least 21 places with --method split, 19 with loeo or full, or lower --conformal" in printed
    assert "method='split'" not in printed
    assert np.isinf(pd.read_csv("p.csv").upper).all()
    assert "add --calibrate TABLE" in said("predict m.json new.csv --conformal 0.9", capsys, 1)
    assert "add --conformal 0.9" in said("predict m.json new.csv --calibrate rows.csv", capsys, 1)
    assert "different files" in said("predict m.json new.csv --conformal 0.8 --calibrate c.csv -o c.csv", capsys, 1)
    assert "there is no file" in said("predict m.json new.csv --conformal 0.8 --calibrate none.csv", capsys, 1)
    assert "y" in said("predict m.json new.csv --conformal 0.8 --calibrate new.csv", capsys, 1)
    for wrong in ("0", "1", "many"):
        with pytest.raises(SystemExit):
            main(["predict", "m.json", "new.csv", "--conformal", wrong])
        assert "should be a number between 0 and 1" in capsys.readouterr().err
    assert main(["fit", "rows.csv", "-m", "lm", "-f", "y ~ x", "-s", "n.json", "-q", "-o", "c.csv"]) == 0
    assert "give --environments" in said("predict n.json new.csv --conformal 0.8 --calibrate rows.csv", capsys, 1)


def test_a_model_without_a_formula(capsys: pytest.CaptureFixture[str]) -> None:
    data = pd.read_csv("rows.csv")
    atm.save(atm.NormalLinear().fit(data[["x"]], data.y), "plain.json")
    said("predict plain.json new.csv --conformal 0.8 --calibrate rows.csv --environments site -o p.csv", capsys)
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8).fit(data[["x"]], data.y, environments=data.site)
    expected = predictor.predict_interval(pd.read_csv("new.csv")[["x"]])
    np.testing.assert_allclose(pd.read_csv("p.csv")[["lower", "upper"]].T, expected)
