"""Fits to sites from the command line: real processes that dial in, and what is refused before."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import Authority
from federated_cases import table

import anchortm as atm
from anchortm.cli.main import main

FORMULA = "Surv(time, event) ~ x + z | site"
STUDIES = {
    "study.toml": FORMULA,
    "sick.toml": "sick ~ x + z | site",
    "strata.toml": "Surv(time, event) | sex ~ x | site",
}
DATA = table(640, 4)
NAMES = ["s0", "s1", "s2", "s3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with certificates, private keys, tables and the study."""
    folder = tmp_path_factory.mktemp("sites")
    authority = Authority(folder)
    for name in ["hub", *NAMES]:
        authority.sign(name)
    members = []
    for name, rows in DATA.groupby("site"):
        rows.drop(columns="site").to_csv(folder / f"{name}.csv", index=False)
        out = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "anchortm", "site", "keys", f"{name}.mask", "-q"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        members.append(f"{name} = '{out.stdout.strip()}'")
    for study, formula in STUDIES.items():
        lines = [f"formula = '{formula}'", "support = [0.5, 4.0]", "leave_out = true", "[members]", *members]
        (folder / study).write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """Let four sites dial in to a free port; return its address. A parameter names another study."""
    study = getattr(request, "param", "study.toml")
    monkeypatch.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    sites = [
        subprocess.Popen(  # noqa: S603 - our own command
            [
                *(sys.executable, "-m", "anchortm", "site", "join", study, "--data", f"{name}.csv"),
                *("--name", name, "--hub", address, "--cert", f"{name}.pem", "--key", f"{name}.key", "--ca", "ca.pem"),
                *("--masks", f"{name}.mask", "--ledger", f"{name}.jsonl"),
            ],
            cwd=folder,
        )
        for name in NAMES
    ]
    yield address
    for site in sites:
        try:
            assert site.wait(20) == 0
        except subprocess.TimeoutExpired:
            site.kill()
            site.wait(5)
            raise


def asked(address: str, command: str, *more: str) -> list[str]:
    files = ["--cert", "hub.pem", "--key", "hub.key", "--ca", "ca.pem", "--wait", "60"]
    return [command, "--sites", "study.toml", "-m", "c-logit", "-f", FORMULA, "--listen", address, *files, *more]


def test_a_fit_over_tls(hub: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked(hub, "fit", "-x", "1", "--order", "5", "--save", "model.json", "--json")) == 0
    printed = capsys.readouterr()
    assert "waiting at" in printed.err
    assert json.loads(printed.out)["n_rows"] == 640
    own = atm.ContinuousLogit.from_formula(FORMULA, DATA, order=5, support=(0.5, 4.0), xi=1.0)
    np.testing.assert_allclose(atm.load(folder / "model.json").coef_, own.coef_, atol=1e-10)
    assert main(["site", "ledger", "s0.jsonl"]) == 0
    ledger = capsys.readouterr().out
    assert "influence" in ledger
    assert "numbers sent" in ledger
    assert main(["site", "ledger", "s0.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["question"] == "open"
    assert main(["site", "ledger", "s0.jsonl", "-o", "ledger.csv"]) == 0
    assert (
        len((folder / "ledger.csv").read_text().splitlines()) == len((folder / "s0.jsonl").read_text().splitlines()) + 1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hub", "study", "model"),
    [
        ("sick.toml", "sick.toml", atm.AnchorGLM(family="binomial")),
        ("strata.toml", "strata.toml", atm.ContinuousLogit(order=4, support=(0.5, 4.0))),
    ],
    indirect=["hub"],
)
def test_means_and_strata_over_tls(hub: str, study: str, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    formula = STUDIES[study]
    name = ["binomial"] if study == "sick.toml" else ["c-logit", "--order", "4"]
    files = ["--cert", "hub.pem", "--key", "hub.key", "--ca", "ca.pem", "--wait", "60", "--save", f"{study}.json"]
    line = ["fit", "--sites", study, "-f", formula, "--listen", hub, *files, "-x", "1", "-m", *name]
    assert main(line) == 0
    assert "640" in capsys.readouterr().out
    own = type(model).from_formula(formula, DATA, **model.set_params(xi=1.0).get_params(deep=False))
    found = atm.load(Path(f"{study}.json"))
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    np.testing.assert_allclose(found.baseline_, own.baseline_, atol=1e-9)
    np.testing.assert_allclose(found.standard_errors(), own.standard_errors(), rtol=1e-8)


@pytest.mark.slow
def test_left_out_sites_over_tls(hub: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked(hub, "loeo", "-x", "0,1", "--order", "4", "--json", "-q")) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 8


def test_an_assessment_over_tls(hub: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked(hub, "assess", "-x", "0,1", "--order", "4")) == 0
    printed = capsys.readouterr()
    assert "rounds" in printed.err
    for words in ("At a place like these", "Intervals for left-out sites", "Not computed", "conformal intervals"):
        assert words in " ".join(printed.out.split())


@pytest.mark.parametrize(
    ("line", "match"),
    [
        (["assess", "--sites", "study.toml", "-m", "lm", "-f", FORMULA, "--labels", "5"], "single rows stay at the"),
        (["assess", "-m", "lm", "-f", "y ~ x"], "name a table, or a study with --sites"),
        (["fit", "-m", "lm", "-f", "y ~ x"], "name a table, or a study with --sites"),
        (["fit", "s0.csv", "--sites", "study.toml", "-m", "lm", "-f", FORMULA], "takes the place of the table"),
        (["fit", "--sites", "study.toml", "-m", "lm", "-f", "y ~ x"], "differs from that of the study"),
        (["fit", "--sites", "study.toml", "-m", "c-logit", "-f", FORMULA], "give --cert, --key, --ca"),
        (["fit", "--sites", "study.toml", "-m", "c-logit", "-f", FORMULA, "-x", "0,1"], "need a single --xi"),
        (["fit", "--sites", "study.toml", "-m", "c-logit", "-f", FORMULA, "--weights", "w"], "write it in the study"),
        (["site", "study", "x.toml"], "needs --formula and --members"),
        (["site", "study", "x.txt", "-f", "y ~ x", "--members", "a"], "must end in .toml"),
        (["site", "study", "x.toml", "-f", "y ~ x", "--members", "a,a"], "a name twice"),
        (["site", "keys", "s0.mask"], "a key is not replaced"),
        (["site", "check", "study.toml"], "needs --data and --name"),
        (["site", "join", "study.toml"], "needs --hub"),
        (["site", "join", "study.toml", "--hub", "nowhere"], "must be a host and a port"),
        (["site", "ledger", "absent.jsonl"], "there is no file"),
        (["site", "check", "study.toml", "--data", "s0.csv", "--name", "s0", "--masks", "s0.csv"], "private key"),
        (["site", "check", "study.toml", "--data", "s0.csv", "--name", "s0", "--policy", "s0.csv"], "not TOML"),
    ],
)
def test_what_is_refused(
    line: list[str], match: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(line) == 1
    assert match in " ".join(capsys.readouterr().err.split())


def test_check_says_who_can_take_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["site", "check", "study.toml", "--data", "s0.csv", "--name", "s0", "-m", "cox"]) == 0
    assert "s0 can take part" in capsys.readouterr().out
    Path("strict.toml").write_text("least_rows = 1000\n")
    line = ["site", "check", "study.toml", "--data", "s0.csv", "--name", "s9", "--policy", "strict.toml"]
    assert main(line) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "fewer than the 1000 rows" in printed
    assert "s9 is not among the members" in printed
