"""What reaches a reader: no control characters in any text, and warnings at the line of the user."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm import diagnostics, scores
from anchortm._messages import plain, plain_lines
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMWarning, InputError

BAD = "\x1b[31mred\x1b[0m\x07\x9b1m\u202ename"
rng = np.random.default_rng(0)
N = 120
SITE = np.array([f"\x1b]0;{k}\x07" for k in "abcd"])[rng.integers(0, 4, N)]
X = pd.DataFrame({BAD: rng.normal(size=N), "größe": rng.normal(size=N)})
Y = X[BAD].to_numpy() + rng.normal(size=N)


def is_plain(text: str) -> bool:
    return plain_lines(text) == text and all(c.isprintable() or c == "\n" for c in text)


def test_control_characters_become_codes_and_letters_stay() -> None:
    assert plain("a\x1b[1m\n\r\t\x00\x7f\x9b\u2028\u202e\ud800") == r"a\x1b[1m\n\r\t\x00\x7f\x9b\u2028\u202e\ud800"
    words = "größe Ωμέγα 年齢 возраст עברית عمر می\u200cخواهم naïve e\u0301 👩\u200d🔬 a b\xa0c C:\\x1b"
    assert plain(words) == words
    assert plain_lines("a\nb\x1b\r") == "a\nb\\x1b\\r"


@pytest.mark.bug("other software", "escape sequences in names of columns reached the terminal")
def test_summaries_and_reprs_are_plain() -> None:
    model = atm.ContinuousLogit(order=2, xi=1.0).fit(X, Y, anchors=SITE)
    path = atm.anchor_path(model, X, Y, SITE, [0.0, 1.0])
    left_out = atm.leave_one_environment_out(model, X, Y, SITE, [0.0, 1.0])
    parents = atm.causal_parents(model, X, Y, SITE)
    shown = [
        model.summary(),
        model,
        path,
        diagnostics.over_identification(path, X),
        left_out,
        diagnostics.score_test(model, X, Y, SITE),
        diagnostics.residual_invariance(atm.ContinuousLogit(order=2).fit(X, Y), model, X, Y, SITE),
        diagnostics.first_stage(X, SITE),
        atm.invariance_test(model, X, Y, SITE),
        parents,
        parents.sensitivity(),
        diagnostics.location_shift(model, X, Y, np.arange(N) % 8),
        diagnostics.calibration(model, X, Y, SITE),
        scores.score_table(model, X, Y, environments=SITE),
        atm.marginal_effects(model, X),
        atm.proportionality_test(model, X, Y, anchors=SITE),
        model.bootstrap(3, np.arange(N) // 5, random_state=0),
        atm.XiSearchCV(model, [0.0, 1.0]).fit(X, Y, anchors=SITE),
    ]
    for thing in shown:
        assert is_plain(repr(thing)), repr(thing)
        assert is_plain(str(thing)), str(thing)
    assert "\\x1b[31mred" in str(shown[0])
    assert "größe" in str(shown[0])


def test_errors_and_warnings_are_plain() -> None:
    with pytest.raises(InputError) as error:
        atm.NormalLinear().fit(X.assign(**{BAD: 1.0}), Y)
    assert "constant covariates: \\x1b[31mred" in str(error.value)
    assert is_plain(str(error.value))
    with pytest.warns(AnchorTMWarning) as caught:
        atm.OrdinalRegression().fit(
            X, [f"{word}\x1b[m" for word in np.array(["low", "mid", "high"])[rng.integers(0, 3, N)]]
        )
    assert all(is_plain(str(warning.message)) for warning in caught)


def test_the_command_line_is_plain(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    X.rename(columns={BAD: "x\x1b[2J"}).assign(y=Y, site=SITE, word=SITE).to_csv("d.csv", index=False)
    line = ["d.csv", "--model", "lm", "--formula", "y ~ `x\x1b[2J` + größe + word | site"]
    assert main(["fit", *line, "--save", "m.json"]) == 0
    assert main(["path", "d.csv", "--model", "lm", "--formula", "y ~ `x\x1b[2J` | site", "--xi", "0,1"]) == 0
    assert main(["predict", "m.json", "d.csv", "--keep", "word,site"]) == 0
    assert main(["predict", "m.json", "d.csv", "--keep", "word,\x1b[2J"]) == 1
    assert main(["fit", *line[:-1], "y ~ nothing + `x\x1b[2J`"]) == 1
    printed = capsys.readouterr()
    assert "\\x1b" in printed.out
    assert "größe" in printed.out
    assert is_plain(printed.out)
    assert is_plain(printed.err)


FRAME = pd.DataFrame({"x": X.iloc[:, 0], "y": Y, "site": rng.integers(0, 8, N).astype(float), "time": np.exp(Y)})
FRAME["grade"] = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 0.5])]
FRAME["kind"] = pd.Categorical(rng.choice(["a", "b"], N), ["a", "b", "c"])
CODES = FRAME[["site"]]
ENTRIES: dict[str, Callable[[], Any]] = {
    "fit": lambda: atm.NormalLinear(xi=1.0).fit(FRAME[["x"]], Y, anchors=CODES),
    "from_formula": lambda: atm.NormalLinear.from_formula("y ~ x | site", FRAME, xi=1.0),
    "levels of a formula": lambda: atm.NormalLinear.from_formula("y ~ kind", FRAME),
    "Formula": lambda: atm.Formula("y ~ kind", FRAME),
    "alphabetical": lambda: atm.OrdinalRegression.from_formula("grade ~ x", FRAME),
    "anchor_path": lambda: atm.anchor_path(atm.NormalLinear(), FRAME[["x"]], Y, CODES, [0.0, 1.0]),
    "leave_one_environment_out": lambda: atm.leave_one_environment_out(
        atm.OrdinalRegression(), FRAME[["x"]], FRAME.grade, FRAME.site.astype(int), [0.0]
    ),
    "XiSearchCV": lambda: atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0]).fit(
        FRAME[["x"]], Y, anchors=CODES, environments=FRAME.site.astype(int)
    ),
    "elastic_net_path": lambda: atm.elastic_net_path(atm.NormalLinear(), FRAME[["x"]], Y, CODES, [1.0]),
    "column vector": lambda: atm.NormalLinear().fit(FRAME[["x"]], Y[:, None]),
    "a fit that does not converge": lambda: atm.ContinuousLogit(max_iter=1).fit(FRAME[["x"]], Y),
    "predict": lambda: atm.NormalLinear().fit(FRAME[["x"]], Y, offset=Y / 2).predict(FRAME[["x"]]),
    "varying": lambda: atm.ContinuousLogit(order=2, varying=["x"]).fit(FRAME[["x"]], Y).predict(3.0 * FRAME[["x"]]),
    "AnchorBoostedTM": lambda: atm.AnchorBoostedTM(atm.OrdinalRegression(), n_rounds=2).fit(FRAME[["x"]], FRAME.grade),
}


@pytest.mark.bug("other software", "warnings pointed into the package instead of at the user's line")
@pytest.mark.parametrize("entry", ENTRIES)
def test_warnings_point_at_the_line_of_the_user(entry: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ENTRIES[entry]()
    assert caught
    assert {warning.filename for warning in caught} == {__file__}, [str(w.message) for w in caught]
