"""Type checkers help users: mypy finds mistakes in a script that uses the package, and only mistakes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

CORRECT = """
import math

import anchortm as atm

data = atm.datasets.load_cgd()
X, y = data[["age"]], atm.Surv(data.tstop, data.status)
model = atm.ContinuousLogit(xi=10.0, order=3).fit(X, y, anchors=data.center)
print(model.predict_distribution(X).sf(300.0), model.nll(X, y).sum(), model.summary())
formula = "Surv(tstop, status) ~ treat | center"
hazards = atm.ProportionalHazards.from_formula(formula, data, xi=1, log_first=True)
print(hazards.coef_.round(2), hazards.intervals(level=0.9), hazards.converged_)
search = atm.XiSearchCV(atm.CoxPH(ties="breslow"), xis=(0.0, 1.0)).fit(X, y, anchors=data.center)
print(search.best_xi_, atm.OrdinalRegression(math.inf, link="probit").get_params(), atm.xi_from_gamma(7.0))
"""

MISTAKEN = """
import anchortm as atm

data = atm.datasets.load_cgd()
atm.ContinuousLogitt()  # a class that is not there
atm.ContinuousLogit(odrer=3)  # an argument that is not there
atm.ContinuousLogit(xi="no")  # a word for a number
model = atm.ContinuousLogit().fit(data[["age"]], data.tstop)
model.predict_distributions(data[["age"]])  # a method that is not there
atm.xi_from_gamma("x")  # a word for the argument of a function
"""


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what mypy says about each of the two scripts."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "correct.py").write_text(CORRECT)
    (folder / "mistaken.py").write_text(MISTAKEN)
    cache = getattr(request.config, "cache", None)  # it is kept, so that only the first run takes seconds
    cached = str(folder / "cache") if cache is None else str(cache.mkdir("mypy"))
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={cached}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, "correct.py", "mistaken.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert not done.stderr, done.stderr
    lines = [line for line in done.stdout.splitlines() if ": note: " not in line]
    return {name: [line for line in lines if line.startswith(name)] for name in ("correct.py", "mistaken.py")}


def test_a_correct_script_has_no_errors(found: dict[str, list[str]]) -> None:
    assert found["correct.py"] == []


def test_every_mistake_is_found_at_its_line(found: dict[str, list[str]]) -> None:
    wanted = [number for number, line in enumerate(MISTAKEN.splitlines(), 1) if "  # a" in line]
    assert len(wanted) == 5
    lines = [int(re.match(r"mistaken\.py:(\d+): error: ", line)[1]) for line in found["mistaken.py"]]
    assert lines == wanted, "\n".join(found["mistaken.py"])


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(ROOT / "src" / "anchortm" / "py.typed").exists()
