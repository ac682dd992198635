"""The command line: every example of its help as printed, every kind of outcome, files in and out, errors."""

import ast
import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli import tables, words
from anchortm.cli.main import main, parser
from anchortm.cli.models import MODELS
from anchortm.saving import models


def examples() -> list[str]:
    """Return the examples in the help of each command, in the order of the commands after the data they need."""
    commands = next(action for action in parser()._actions if hasattr(action, "choices") and action.choices)
    found = []
    for command in commands.choices.values():
        text = re.sub(r" \\\n +", " ", command.format_help().split("example")[-1])
        found.append([line.strip() for line in text.splitlines() if line.strip().startswith("anchortm ")])
    assert all(found), "every command has an example"
    return sorted((line for lines in found for line in lines), key=lambda line: not line.startswith("anchortm data"))


def in_a_shell(line: str, folder: Path) -> str:
    """Return what a line prints in a shell, with the command as it was installed."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)  # noqa: S602
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def in_this_process(line: str, folder: Path) -> str:
    """Return what a line prints here, without the time that a new process takes; ``> file`` is understood."""
    line, _, file = line.partition(" > ")
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        assert main(shlex.split(line)[1:]) == 0, line
    if file:
        (folder / file).write_text(printed.getvalue())
    return printed.getvalue()


def check_examples(folder: Path) -> None:
    made = {path.name for path in folder.iterdir()}
    assert {"boston.csv", "cgd.csv", "price.json", "path.png", "loeo.png", "predictions.csv", "figures"} <= made
    assert {"bench", "anchortm-completion.bash"} <= made
    table = pd.read_csv(folder / "predictions.csv")
    model = atm.load(folder / "price.json")
    dist = model.predict_distribution(atm.datasets.load_boston_housing2())
    np.testing.assert_allclose(table["q0.5"], dist.median())
    np.testing.assert_allclose(table.sf_50, dist.sf(50.0))


def check_demo(printed: str, folder: Path) -> None:
    """Look for the digits of the reference for Lm (claim B4 of the reproduction)."""
    lines = [line.split() for line in printed.splitlines()]
    assert ["Lm", "15.100", "8.466", "4.691", "4.986", "6.117", "7.268"] in lines
    assert ["Lm", "2.823", "3.095", "3.868", "4.951", "6.095", "7.246"] in lines
    assert ["Lm", "30.0", "4.62", "4.37", "5.0", "4.65", "4.23"] in lines  # by xi, and by width alone
    for name in ("boston_loeo.png", "boston_control.png"):
        assert (folder / name).stat().st_size > 10_000
    words = " ".join(printed.split())
    assert "anchor with xi = 10, tentatively" in words  # from months 1 to 24
    assert "This agrees with the recommendation" in words  # say months 25 to 35
    assert "Recommendation" in (folder / "new_months.html").read_text(encoding="utf-8")


def test_examples_of_the_help_run_as_printed(tmp_path: Path) -> None:
    """One of them in a shell, those that take long in part; a slow test runs all of them there, as they stand."""
    printed = {}
    for line in examples():
        if line.startswith("anchortm reproduce"):  # tests/reproduce does that
            parser().parse_args(shlex.split(line)[1:])
        else:
            run = in_a_shell if line.startswith("anchortm data cgd") else in_this_process
            printed[line] = run(line.replace("--only import cvxpy", "--only import"), tmp_path)
    check_examples(tmp_path)
    check_demo(printed["anchortm demo --output figures"], tmp_path / "figures")


@pytest.mark.slow
def test_examples_of_the_help_run_in_a_shell(tmp_path: Path) -> None:
    for line in examples():
        in_a_shell(line, tmp_path)
    check_examples(tmp_path)
    assert (tmp_path / "paper" / "claims.csv").exists()


@pytest.mark.slow
def test_demo_makes_the_folders_that_it_needs(tmp_path: Path) -> None:
    check_demo(in_this_process("anchortm demo --output new/figures", tmp_path), tmp_path / "new" / "figures")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    site = np.array(list("abcde"))[rng.integers(0, 5, 300)]
    x = rng.normal(size=300) + (site == "b")
    latent = x + rng.logistic(size=300)
    time_ = np.exp(latent / 3)
    data = pd.DataFrame(
        {
            "site": site,
            "year": 2000 + rng.integers(0, 5, 300).astype(float) + 0.5,
            "x": x,
            "y": latent,
            "time": np.minimum(time_, 2.5),
            "event": (time_ < 2.5).astype(int),
            "start": np.minimum(0.1, 0.5 * time_),
            "low": np.floor(latent),
            "high": np.floor(latent) + 1.0,
            "lowest": np.where(np.arange(300) % 3 == 0, -np.inf, np.floor(latent)),
            "highest": np.select(
                [np.arange(300) % 3 == 1, np.arange(300) % 3 == 2], [np.inf, np.floor(latent)], np.ceil(latent)
            ),
            "grade": np.array(["a low", "b mid", "c high"])[np.digitize(latent, [0, 2])],
            "count": np.floor(np.exp(latent / 2)).astype(int),
            "weight": rng.integers(1, 3, 300),
            "shift": 0.1 * x,
        }
    )
    data.to_csv("data.csv", index=False)
    data.to_parquet("data.parquet")
    return tmp_path


OUTCOMES = {
    "exact": ("y", ["lm", "c-probit", "c-logit", "lehmann", "gaussian"]),
    "right-censored": (
        "Surv(time, event)",
        ["cox", "cox-partial", "c-logit", "weibull", "lognormal", "loglogistic", "exponential", "rayleigh"],
    ),
    "delayed entry": ("Surv(time, event, entry=start)", ["weibull", "cox-partial"]),
    "interval": ("Interval(low, high)", ["c-logit", "lm"]),
    "all kinds of censoring": ("Interval(lowest, highest)", ["c-probit"]),
    "ordinal": ("grade", ["o-logit", "o-probit", "o-cloglog", "o-loglog"]),
    "count": ("count", ["count", "count-probit", "count-cloglog", "count-loglog", "poisson", "negative-binomial"]),
    "positive": ("time", ["gamma"]),
    "binary": ("event", ["binomial"]),
}


def test_every_model_has_an_outcome() -> None:
    assert {name for _, names in OUTCOMES.values() for name in names} == set(MODELS)


@pytest.mark.parametrize(("kind", "model"), [(kind, m) for kind, (_, names) in OUTCOMES.items() for m in names])
def test_fit_and_predict_every_kind_of_outcome(folder: Path, kind: str, model: str, capsys) -> None:
    formula = f"{OUTCOMES[kind][0]} ~ x | site"
    order = ["--order", "3"] if model.startswith(("c", "lehmann")) and model != "cox-partial" else []
    assert (
        main(["fit", "data.csv", "--model", model, "--formula", formula, "--xi", "2", "--save", "m.json", *order]) == 0
    )
    printed = capsys.readouterr()
    assert "Coefficients" in printed.out
    assert "converged       yes" in printed.out
    assert main(["predict", "m.json", "data.parquet", "--output", "p.parquet"]) == 0
    table = pd.read_parquet("p.parquet")
    assert len(table) == 300
    wanted = atm.load("m.json").predict(pd.read_parquet("data.parquet"))
    assert table.prediction.tolist() == wanted.tolist()
    if kind == "ordinal":
        np.testing.assert_allclose(table[[c for c in table if c.startswith("p_")]].sum(axis=1), 1.0)


def test_json_is_for_scripts(folder: Path, capsys) -> None:
    common = ["data.csv", "--model", "lm", "--formula", "y ~ x | site", "--json"]
    assert main(["fit", *common, "--xi", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["coefficients"][0]["covariate"] == "x"
    assert found["xi"] == 2.0
    assert found["n_anchors"] == 5
    assert main(["fit", *common, "--xi", "0,inf"]) in (0, 1)
    capsys.readouterr()
    assert main(["path", *common, "--xi", "0,1"]) == 0
    assert [row["xi"] for row in json.loads(capsys.readouterr().out)] == [0.0, 1.0]
    assert main(["loeo", *common, "--xi", "0,1"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 10
    assert main(["fit", *common[:-1], "--save", "m.json"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.json", "data.csv", "--cdf", "0,1", "--keep", "site", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert set(rows[0]) == {"site", "cdf_0", "cdf_1"}


def test_weights_offsets_cuts_and_tables(folder: Path, capsys) -> None:
    base = ["data.csv", "--model", "c-logit", "--order", "3", "--support=-3,4", "--formula", "y ~ x | site"]
    assert main(["fit", *base, "--xi", "1", "--weights", "weight", "--offset", "shift", "--output", "c.csv"]) == 0
    data = pd.read_csv("data.csv")
    model = atm.ContinuousLogit(xi=1.0, order=3, support=(-3, 4)).fit(
        data[["x"]], data.y, anchors=data.site, sample_weight=data.weight, offset=data["shift"]
    )
    np.testing.assert_allclose(pd.read_csv("c.csv").coef, model.coef_)
    assert main(["loeo", *base, "--xi", "0,1", "--environments", "year", "--cut", "3", "--output", "l.parquet"]) == 0
    assert pd.read_parquet("l.parquet").environment.nunique() == 3
    assert main(["path", *base, "--xi", "0,1", "--output", "p.json", "--plot", "p.pdf"]) == 0
    assert len(json.loads(Path("p.json").read_text())) == 2
    assert Path("p.pdf").read_bytes().startswith(b"%PDF")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--l1", "0.02"], {"l1": 0.02}),
        (["--l2", "0.5"], {"l2": 0.5}),
        (["--varying", "x"], {"varying": "x"}),
        (["--scale", "x + C(group)"], {"scale": "x + C(group)"}),
    ],
)
def test_penalties_and_roles_of_terms(folder: Path, options, parameters, capsys) -> None:
    data = pd.read_csv("data.csv").assign(group=np.arange(300) % 3)
    data.to_csv("data.csv", index=False)
    formula = "y ~ x + C(group) | site"
    base = ["data.csv", "--model", "lm", "--formula", formula, *options]
    assert main(["fit", *base, "--xi", "1", "--save", "model.json"]) == 0
    alone = [atm.NormalLinear.from_formula(formula, data, xi=xi, **parameters) for xi in (0.0, 1.0)]
    np.testing.assert_allclose(atm.load("model.json").nll(data, data.y), alone[1].nll(data, data.y), rtol=1e-12)
    assert main(["path", *base, "--xi", "0,1", "--output", "p.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("p.csv").loss, [model.loss_ for model in alone], rtol=1e-8)
    assert main(["loeo", *base, "--xi", "0,1", "--output", "l.csv"]) == 0
    first = data[data.site != "a"]
    left_out = atm.NormalLinear.from_formula(formula, first, xi=1.0, **parameters)
    rows, found = data[data.site == "a"], pd.read_csv("l.csv")
    at_a = found[(found.environment == "a") & (found.xi == 1.0)]
    assert at_a.nll.item() == pytest.approx(left_out.nll(rows, rows.y).mean(), rel=1e-6)
    capsys.readouterr()


def test_classes_at_points(folder: Path, capsys) -> None:
    data = pd.read_csv("data.csv").assign(grade=lambda d: np.digitize(d.y, [0, 2]))
    data.to_csv("d.csv", index=False)
    assert main(["fit", "d.csv", "--model", "o-logit", "--formula", "grade ~ x", "--save", "m.json"]) == 0
    assert main(["predict", "m.json", "d.csv", "--cdf", "0,1", "--output", "p.csv"]) == 0
    table = pd.read_csv("p.csv")
    np.testing.assert_allclose(table.cdf_0, table.p_0)
    np.testing.assert_allclose(table.cdf_1, table.p_0 + table.p_1)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit nowhere.csv --model lm --formula 'y ~ x'", "no file nowhere.csv"),
        ("fit data.txt --model lm --formula 'y ~ x'", ".csv or .parquet"),
        ("fit data.csv --model lm --formula 'y ~ xx'", "did you mean 'x'"),
        ("fit data.csv --model lm --formula 'y ~ x' --xi 1", "needs anchors"),
        ("fit data.csv --model lm --formula 'y ~ x' --order 3", "does not take --order"),
        ("fit data.csv --model lm --formula 'y ~ x' --l1 -1", "--l1 must be"),
        ("fit data.csv --model lm --formula 'y ~ x' --scale z", "z: not among the terms of the formula"),
        (
            "path data.csv --model lm --formula 'y ~ x | site' --varying x --scale x",
            "a covariate whose effect varies changes the spread already",
        ),
        ("fit data.csv --model lm --formula 'y ~ x | site' --xi 0,1 --save m.json", "--save needs a single --xi"),
        ("fit data.csv --model lm --formula 'y ~ x' --save nowhere/m.json", "the folder nowhere does not exist"),
        ("fit data.csv --model lm --formula 'y ~ x' --output m.txt", "must end in"),
        ("fit data.csv --model lm --formula 'y ~ x' --weights w", "no column 'w'"),
        ("loeo data.csv --model lm --formula 'y ~ x'", "name them after '|' in --formula (y ~ x | place)"),
        ("loeo data.csv --model lm --formula 'y ~ x | site + year'", "choose --environments"),
        ("predict header.csv data.csv", "is not a model file but a table"),
        ("fit data.csv --model lm --formula 'y ~ x' --output data.csv", "must be different files"),
        ("path data.csv --model lm --formula 'y ~ x | site' --plot p.txt", "must end in"),
        ("fit empty.csv --model lm --formula 'y ~ x'", "cannot read"),
        ("fit header.csv --model lm --formula 'y ~ x'", "no rows"),
        ("fit data.csv --model o-logit --formula 'y ~ nothing(x)'", "not a function of formulas"),
    ],
)
def test_errors_without_tracebacks(folder: Path, arguments: str, message: str, capsys) -> None:
    Path("data.txt").write_text("x,y\n1,2\n")
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("x,y\n")
    before = sorted(path.name for path in folder.iterdir())
    assert main(shlex.split(arguments)) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert sorted(path.name for path in folder.iterdir()) == before  # nothing half written
    assert main([*shlex.split(arguments), "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "arguments",
    [
        "fit pipe.csv --model lm --formula 'y ~ x'",
        "fit pipe.parquet --model lm --formula 'y ~ x'",
        "fit pipe.parquet --batches --model lm --formula 'y ~ x'",
        "fit pipes --model lm --formula 'y ~ x'",
        "fit data.csv --model lm --formula 'y ~ x' --save pipe.json",
        "fit data.csv --model lm --formula 'y ~ x' --save link.json",
        "fit data.csv --model lm --formula 'y ~ x' --output pipe.csv",
        "path data.csv --model lm --formula 'y ~ x | site' --plot pipe.png",
        "data wine --output pipe.parquet",
        "predict pipe.json data.csv",
        "predict m.json pipe.csv",
        "predict m.json data.parquet --output pipe.parquet",
    ],
)
def test_special_files_are_neither_replaced_nor_read(folder: Path, arguments: str, capsys) -> None:
    Path("pipes").mkdir()
    names = ["pipe.csv", "pipe.parquet", "pipe.json", "pipe.png", "pipes/pipe.parquet"]
    for name in names:
        os.mkfifo(name)
    Path("link.json").symlink_to("pipe.json")
    data = pd.read_csv("data.csv")
    atm.save(atm.NormalLinear.from_formula("y ~ x", data), "m.json")
    assert main(shlex.split(arguments)) == 1
    assert "it is a named pipe (FIFO)" in capsys.readouterr().err
    assert all(Path(name).is_fifo() for name in [*names, "link.json"])


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_tables_that_are_read_at_once_have_a_largest_size(folder: Path, name: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MOST_BYTES", 2000)
    assert main(["fit", name, "--model", "lm", "--formula", "y ~ x"]) == 1
    assert "too much to read at once" in capsys.readouterr().err
    assert main(["fit", "data.parquet", "--batches", "--model", "lm", "--formula", "y ~ x"]) == 0


LM, LOGIT = "--model lm --formula", "--model c-logit --formula"
XI_ANCHORS = "--xi 1 needs anchors: name them after '|' in --formula (y ~ x | place), or use --xi 0"
TRANSLATED = [
    (f"fit data.csv {LOGIT} 'y ~ x' --log-first", "in many rows, .*--model cox or c-logit, without --log-first"),
    (f"fit data.csv {LOGIT} 'time ~ x' --log-first --support=-1,2", "--support must be positive with --log-first"),
    (f"fit data.csv {LOGIT} 'y ~ x' --support 100,200", "--support .* does not overlap the outcome"),
    (f"fit data.csv {LOGIT} 'y ~ x' --order 0", "--order must be from 1"),
    (f"fit data.csv {LOGIT} 'y ~ x' --xi 1", XI_ANCHORS),
    (f"path data.csv {LOGIT} 'y ~ x' --xi 0,1", "needs anchors: name them after '|' in --formula"),
    (f"fit data.csv {LOGIT} 'y ~ x | site' --xi -1", "--xi must be at least 0, .* only --model lm"),
    (f"loeo data.csv {LOGIT} 'y ~ x | site' --xi 0,nan", "--xi must be at least 0"),
    (f"fit data.csv {LM} 'y ~ x | site' --xi=-0.2 --l1 1", "set --xi to 0 or more"),
    (f"fit data.csv {LM} 'y ~ s(x, 400)'", "with k from 3 to 50 columns\n"),
    (f"fit data.csv {LM} 'y ~ x + offset(shift)'", "give the column with --offset"),
    (f"fit data.csv {LM} 'y ~ x + cluster(site)'", "are available in Python only"),
    ("fit data.csv --model cox-partial --formula 'y ~ x' --scale x", "use --model cox\n"),
    ("fit data.csv --model poisson --formula 'count ~ x' --scale x", "use --model count, --model o-logit or"),
    ("fit data.csv --model negative-binomial --formula 'event ~ x'", "use --model poisson"),
    ("fit data.csv --model exponential --formula 'time ~ x' --scale x", "take --model weibull"),
    ("fit data.csv --model gamma --formula 'y ~ x'", "the outcome is .* at line"),
    (f"loeo data.csv {LM} 'y ~ x | x'", "need --cut k"),
    (f"loeo data.csv {LM} 'y ~ x | site' --environments x --cut 1", "--cut 1 gives a single environment"),
    (f"fit data.parquet {LM} 'y ~ x + (1 | site)' --batches", "random effects: .*; name one file, without --batches"),
    (f"fit bad.csv {LM} 'y ~ x'", "first at line 13"),
    (f"fit bad.csv {LM} 'y ~ x' --weights w0", "first at line 13"),
    (f"fit bad.csv {LM} 'y ~ far'", "the table contains infinity in far, first at line 19"),
    (f"fit bad.csv {LM} 'y ~ year' --weights shift", "--weights is negative: .* at line"),
    (f"fit bad.csv {LM} 'y ~ year' --weights grade", "--weights must be numbers, .* at line 2; correct it in the file"),
    (f"fit bad.csv {LM} 'y ~ year' --offset far", "--offset is inf at line 19"),
    (f"fit bad.csv {LM} 'y ~ year | x' --xi 1", "first at line 13"),
    (
        "fit bad.csv --model weibull --formula 'time ~ year | site'",
        "at line 23, .* Interval(lower, upper) in --formula .*0.5",
    ),
    ("fit bad.csv --model weibull --formula 'time ~ year' --weights w0", "the outcome is 0 at line 23"),
    ("fit bad.csv --model cox --formula 'time ~ year | site' --log-first", "the outcome is 0 at line 23"),
    ("predict m.json bad.csv", "first at line 13"),
    ("predict m.json data.csv --quantiles 2", "--quantiles must lie in"),
]
PYTHON = re.compile(
    r"\b(?:"
    + "|".join({name for cls in models.CLASSES.values() for name in cls._get_param_names() if "_" in name})
    + r"|sample_weight|n_samples|\w+=(?!=)|history_|astype|AnchorGLM|X)\b|\b(?:fit|pd|np)[.(]|\brow \d"
)


@pytest.mark.bug("other software", "the command line named arguments of Python and rows of arrays")
@pytest.mark.parametrize(("arguments", "message"), TRANSLATED)
def test_errors_are_in_the_words_of_the_command_line(folder: Path, arguments: str, message: str, capsys) -> None:
    """Options for arguments of Python, and lines of the file for rows, a blank and a broken one among them."""
    data = pd.read_csv("data.csv")
    atm.save(atm.NormalLinear.from_formula("y ~ x", data), "m.json")
    data["w0"] = (data.index > 5).astype(int)
    data["far"], data["note"] = data.year, "fine"
    data.loc[7, "note"] = "two\nlines"
    data.loc[9, "x"], data.loc[15, "far"], data.loc[19, "time"] = np.nan, np.inf, 0.0
    lines = data.to_csv(index=False).splitlines()
    Path("bad.csv").write_text("\n".join([*lines[:4], "", *lines[4:]]) + "\n")
    assert main(shlex.split(arguments)) == 1
    printed = capsys.readouterr().err
    assert re.search(re.sub(r"[()|]", r"\\\g<0>", message), printed), printed
    assert not PYTHON.search(printed), printed


def test_every_rule_of_the_words_has_a_message() -> None:
    """A message that is written anew takes its rule along."""
    texts = []
    root = Path(atm.__file__).parent
    for path in root.rglob("*.py"):
        for node in [] if "cli" in path.relative_to(root).parts else ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            if isinstance(node, ast.JoinedStr):
                parts = (
                    v.value if isinstance(v, ast.Constant) else "'0'" if v.conversion == 114 else "0"
                    for v in node.values
                )
                texts.append("".join(parts))
    unused = [pattern for pattern, _ in words.RULES if not any(re.search(pattern, text) for text in texts)]
    assert not unused


def test_warnings_and_notes_are_in_the_words_of_the_command_line(folder: Path, capsys) -> None:
    for line in (
        "fit data.csv --model cox --formula 'Surv(time, event) ~ x'",
        "fit data.csv --model o-logit --formula 'word ~ x'",
        "fit data.csv --model lm --formula 'y ~ x | code' --xi 1",
        "fit far.csv --model c-logit --formula 'time ~ x'",
    ):
        data = pd.read_csv("data.csv").assign(code=np.arange(300) % 7 + 0.0)
        data["word"] = data.grade.str[2:]
        data.to_csv("data.csv", index=False)
        data.assign(time=data.time.mask(data.index < 2, 1e12)).to_csv("far.csv", index=False)
        assert main(shlex.split(line)) == 0
        printed = capsys.readouterr()
        notes = [note for note in printed.out.splitlines() if note.startswith("Note: ")]
        assert notes
        assert not PYTHON.search("\n".join([*notes, printed.err]))


@pytest.mark.parametrize(
    "arguments", ["", "fit", "fit data.csv --model nothing --formula y~x", "fit d.csv --model lm --formula y~x --xi a"]
)
def test_wrong_usage_is_code_two(folder: Path, arguments: str, capsys) -> None:
    with pytest.raises(SystemExit) as error:
        main(shlex.split(arguments))
    assert error.value.code == 2
    capsys.readouterr()


def test_warnings_go_to_the_other_stream(folder: Path, capsys) -> None:
    assert main(["fit", "data.csv", "--model", "o-logit", "--formula", "grade ~ x | year", "--xi", "1"]) == 0
    printed = capsys.readouterr()
    assert "warning: " not in printed.out


def test_csv_files_as_they_are(folder: Path, capsys) -> None:
    """A comma at the end of each line, a mark at the start of the file, codes that turn into words late."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.normal(size=50), "x": rng.normal(size=50)})
    lines = data.to_csv(index=False).splitlines()
    Path("trail.csv").write_text("\n".join([lines[0], *(line + "," for line in lines[1:])]) + "\n")
    Path("bom.csv").write_bytes(b"\xef\xbb\xbf" + data.to_csv(index=False).encode())
    for name in ("trail.csv", "bom.csv"):
        assert main(["fit", name, "--model", "lm", "--formula", "y ~ x", "--output", "c.csv"]) == 0
        np.testing.assert_allclose(pd.read_csv("c.csv").coef, atm.NormalLinear().fit(data[["x"]], data.y).coef_)
    capsys.readouterr()


def test_outputs_do_not_collide(folder: Path, capsys) -> None:
    assert main(["fit", "data.csv", "--model", "lm", "--formula", "y ~ x", "--save", "m.json"]) == 0
    assert main(["predict", "m.json", "data.csv", "--sf", "1234567,1234568", "--output", "p.csv"]) == 0
    assert list(pd.read_csv("p.csv")) == ["sf_1234567", "sf_1234568"]
    assert main(["predict", "m.json", "data.csv", "--sf", "1,1"]) == 1
    assert "two columns" in capsys.readouterr().err


def test_classes_by_name_and_dates(folder: Path, capsys) -> None:
    formula = "ordered(grade, 'a low', 'b mid', 'c high') ~ x | site"
    assert main(["fit", "data.csv", "--model", "o-logit", "--formula", formula, "--save", "m.json"]) == 0
    pd.read_csv("data.csv").assign(day=pd.Timestamp("2020-01-02")).to_parquet("dated.parquet")
    assert main(["predict", "m.json", "dated.parquet", "--cdf", "b mid", "--keep", "day", "--output", "p.json"]) == 0
    rows = json.loads(Path("p.json").read_text())
    assert rows[0]["day"].startswith("2020-01-02")
    assert rows[0]["cdf_b mid"] == pytest.approx(rows[0]["p_a low"] + rows[0]["p_b mid"])
    capsys.readouterr()


def test_offsets_go_along(folder: Path, capsys) -> None:
    line = ["fit", "data.csv", "--model", "lm", "--formula", "y ~ x | site", "--xi", "1", "--offset", "shift"]
    assert main([*line, "--save", "m.json"]) == 0
    assert main(["predict", "m.json", "data.csv", "--output", "p.csv"]) == 0
    data = pd.read_csv("data.csv")
    fit = atm.NormalLinear(xi=1.0).fit(data[["x"]], data.y, anchors=data.site, offset=data["shift"])
    np.testing.assert_allclose(pd.read_csv("p.csv").prediction, fit.predict(data[["x"]], offset=data["shift"]))
    capsys.readouterr()


def test_a_reader_who_has_seen_enough_loses_no_file(folder: Path) -> None:
    line = f"{sys.executable} -m anchortm loeo data.csv --model lm --formula 'y ~ x | site' --json --output l.csv"
    line += " | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)  # noqa: S602
    assert done.returncode == 0
    assert Path("l.csv").exists()
    assert "Traceback" not in done.stderr
    full = subprocess.run(  # noqa: S602
        f"{sys.executable} -m anchortm data wine --output w.csv > /dev/full", shell=True, capture_output=True, text=True
    )
    assert full.returncode == 1
    assert "No space left" in full.stderr


def test_version_and_completion(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert atm.__version__ in capsys.readouterr().out
    for shell in ("bash", "zsh", "tcsh"):
        assert main(["completion", shell]) == 0
        assert "loeo" in capsys.readouterr().out


def test_no_progress_bars_where_there_is_no_terminal(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anchortm", "loeo", "data.csv", "--model", "lm", "--formula", "y ~ x | site"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


@pytest.mark.slow
def test_interruption_leaves_nothing_behind(folder: Path) -> None:
    """At any moment; tests/reliability/test_interruption.py chooses them."""
    big = pd.concat([pd.read_csv("data.csv")] * 1500)
    big.to_parquet("big.parquet", index=False)
    before = sorted(path.name for path in folder.iterdir())
    formula = "y ~ x | C(weight) + year"
    line = [
        "loeo",
        "big.parquet",
        "--model",
        "c-logit",
        "--formula",
        formula,
        "--environments",
        "site",
        "--output",
        "out.csv",
    ]
    running = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-m", "anchortm", *line, "--xi", "0,1,2,3,4,5,6,7,8,9"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    time.sleep(5.0)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert sorted(path.name for path in folder.iterdir()) == before
