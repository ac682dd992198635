"""What a newcomer reads when a table, a formula or an option is not as the command line needs it."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMError

RNG = np.random.default_rng(4)
N = 60
DATA = pd.DataFrame(
    {
        "case": [f"{k:05d}" for k in range(N)],
        "site": np.repeat(["Jena", "Köln", "Ulm"], [35, 20, 5]),
        "age (years)": RNG.integers(40, 90, N),
        "sex": np.where(RNG.random(N) < 0.5, "female", "male"),
        "days": RNG.integers(1, 300, N),
        "state": np.where(RNG.random(N) < 0.6, "dead", "censored"),
        "code": 1,
        "y": RNG.normal(size=N),
    }
)
DATA.loc[0, "state"] = "censored"
DATA.loc[DATA.state == "dead", "code"] = 2
COX = "-m weibull -f"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    DATA.to_csv("d.csv", index=False)
    return tmp_path


def said(line: str, capsys: pytest.CaptureFixture[str], code: int = 1) -> str:
    """Return all that a command prints, as one line."""
    capsys.readouterr()
    assert main(shlex.split(line)) == code
    return " ".join(" ".join(capsys.readouterr()).split())


def refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints that is used wrongly, as one line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line))
    assert end.value.code == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["check", "fit"])
def test_no_code_is_taken_for_the_event(command: str, capsys) -> None:
    """The first row is censored here; a message that names its value would turn the model around."""
    printed = said(f'{command} d.csv {COX} "Surv(days, state) ~ sex | site"', capsys)
    assert "its values are 'censored', 'dead': compare with the one that means the event in --formula" in printed
    assert "state == '...'" in printed
    printed = said(f'{command} d.csv {COX} "Surv(days, code) ~ sex | site"', capsys)
    assert "its values are 1, 2: compare with the one that means the event in --formula, code == ...;" in printed
    assert "== 2" not in printed


def test_an_event_in_python() -> None:
    with pytest.raises(
        AnchorTMError, match="'censored', 'dead': compare with the one that means the event, state == '"
    ):
        atm.Surv(DATA.days, DATA.state)
    with pytest.raises(AnchorTMError, match="event, `the state` == "):
        atm.Surv(DATA.days, DATA.state.rename("the state"))
    with pytest.raises(AnchorTMError, match=r"its values are 0, 1, .* and 2 more: "):
        atm.Surv(np.ones(12), np.arange(12))


@pytest.mark.parametrize("command", ["check", "fit"])
def test_an_event_that_no_row_has(command: str, capsys) -> None:
    printed = said(f"""{command} d.csv {COX} "Surv(days, state == 'died') ~ sex | site" """, capsys)
    assert "no row has 'died', which the outcome compares 'state' with: its values are 'censored', 'dead'" in printed
    printed = said(f'{command} d.csv {COX} "Surv(days, code == 3) ~ sex | site"', capsys)
    assert "no row has 3" in printed
    assert "its values are 1, 2" in printed
    printed = said(f'{command} d.csv {COX} "Surv(days, state == dead) ~ sex | site"', capsys)
    assert "if it is a value of state, put it in quotes: state == 'dead'" in printed


def test_new_rows_need_no_events() -> None:
    model = atm.ParametricSurvival.from_formula("Surv(days, state == 'dead') ~ sex", DATA)
    assert np.isfinite(model.nll(DATA[DATA.state == "censored"])).all()


def test_missing_values_name_the_model(capsys) -> None:
    holes = DATA.assign(y=DATA.y.mask(DATA.index == 3))
    with pytest.raises(AnchorTMError, match=r'or fit with NormalLinear\(missing="drop"\), which leaves out 1 row'):
        atm.NormalLinear().fit("y ~ sex", holes)
    with pytest.raises(AnchorTMError, match=r'or fit with NormalLinear\(missing="drop"\)'):
        atm.NormalLinear().fit(holes[["days"]], holes.y)
    holes.to_csv("h.csv", index=False)
    assert "or fit with --missing drop, which leaves out 1 row" in said('fit h.csv -m lm -f "y ~ sex"', capsys)
    assert "or fit with --missing drop, which leaves out 1 row" in said('fit h.csv -m gaussian -f "y ~ sex"', capsys)
