"""The commands check, diagnose, choose, score, recalibrate and show say what the calls of Python say."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMWarning

CGD = "Surv(tstop, status) ~ treat + age | center"
WINE = "rating ~ temp + contact | judge"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables and a model."""
    folder = tmp_path_factory.mktemp("commands")
    atm.datasets.load_cgd().to_csv(folder / "cgd.csv", index=False)
    atm.datasets.load_wine().to_csv(folder / "wine.csv", index=False)
    rng, n = np.random.default_rng(0), 400
    site, hidden = np.arange(n) % 8, rng.normal(size=n)
    x = rng.normal(size=n) + site / 2 + hidden
    table = pd.DataFrame({"place": [f"p{k}" for k in site], "x": x, "y": x + 2 * hidden + rng.normal(size=n)})
    table.to_csv(folder / "shifted.csv", index=False)
    model = atm.ParametricSurvival.from_formula(CGD, atm.datasets.load_cgd(), xi=1.0)
    atm.save(model, folder / "cgd.json")
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def read(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict:
    assert main([*shlex.split(line), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_show(folder: Path, capsys) -> None:
    assert main(["show", "cgd.json"]) == 0
    printed = capsys.readouterr().out
    for words in (CGD, f"anchortm {atm.__version__}", "128 (44 exact, 84 right)", "treat[T.rIFN-g]"):
        assert words in printed
    assert "placebo, rIFN-g" in printed
    assert "numbers, 1 to 44 in the fit" in printed
    found = read("show cgd.json", capsys)
    model = atm.load("cgd.json")
    assert (found["formula"], found["n_rows"], found["xi"]) == (CGD, 128, 1.0)
    assert [row["coef"] for row in found["coefficients"]] == model.coef_.tolist()
    assert [row["column"] for row in found["columns"]] == ["treat", "age"]
    assert main(["show", "cgd.json", "--output", "coefficients.csv"]) == 0
    assert pd.read_csv("coefficients.csv").covariate.tolist() == list(model.coef_names_)
    capsys.readouterr()


def test_show_and_predict_a_pipeline(folder: Path, capsys) -> None:
    data = atm.datasets.load_cgd()[["age", "height", "center"]].assign(height=lambda d: d.height.mask(d.index % 9 == 2))
    X = data[["age", "height"]]
    pipeline = atm.make_pipeline(SimpleImputer(), atm.ContinuousProbit(xi=1.0, order=3))
    y = atm.datasets.load_cgd().weight
    atm.save(pipeline.fit(X, y, anchors=data.center), "pipeline.json")
    found = read("show pipeline.json", capsys)
    assert (found["model"], found["transformers"], found["n_rows"]) == ("ContinuousProbit", ["SimpleImputer"], 128)
    assert [row["column"] for row in found["columns"]] == ["age", "height"]
    assert main(["show", "pipeline.json"]) == 0
    assert "none: it has transformers, SimpleImputer" in capsys.readouterr().out
    data.to_csv("rows.csv", index=False)
    assert main(["predict", "pipeline.json", "rows.csv", "--quantiles", "0.1,0.9", "-o", "q.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("q.csv"), pipeline.predict_quantiles(X, [0.1, 0.9]))
    capsys.readouterr()


def test_show_says_how_many_rows_were_dropped(folder: Path, capsys) -> None:
    data = atm.datasets.load_cgd()
    data.loc[:4, "age"] = np.nan
    data.to_csv("gaps.csv", index=False)
    assert main(["fit", "gaps.csv", "-m", "weibull", "-f", CGD, "--missing", "drop", "-s", "gaps.json", "-q"]) == 0
    assert main(["show", "gaps.json"]) == 0
    assert "5 rows with missing values: covariate 'age' in 5" in capsys.readouterr().out


def test_score(folder: Path, capsys) -> None:
    data, model = atm.datasets.load_cgd(), atm.load("cgd.json")
    expected = atm.scores.score_table(model, data, atm.Surv(data.tstop, data.status), data.center).frame()
    found = pd.DataFrame(read("score cgd.json cgd.csv --by center", capsys))
    assert found.environment.tolist() == expected.environment.tolist()
    np.testing.assert_allclose(found.nll, expected.nll)
    np.testing.assert_allclose(found.coverage, expected.coverage)
    assert main(["score", "cgd.json", "cgd.csv", "-b", "center", "-o", "s.csv", "-p", "s.png"]) == 0
    assert len(pd.read_csv("s.csv")) == 14
    assert Path("s.png").stat().st_size > 5000
    assert "lower is better" in capsys.readouterr().out
    assert len(read("score cgd.json cgd.csv", capsys)) == 1


def test_score_without_rows_that_have_gaps(folder: Path, capsys) -> None:
    data = atm.datasets.load_cgd()
    data.loc[:4, "age"] = np.nan
    data.to_csv("gaps.csv", index=False)
    assert main(["score", "cgd.json", "gaps.csv"]) == 1
    assert "age is missing (5 rows, first line 2); --missing drop" in capsys.readouterr().err
    assert main(["score", "cgd.json", "gaps.csv", "--missing", "drop", "-o", "s.csv"]) == 0
    printed = capsys.readouterr()
    assert "5 of 128 rows with missing values are left out" in printed.err
    rest = data[5:]
    expected = atm.load("cgd.json").nll(rest, atm.Surv(rest.tstop, rest.status)).mean()
    assert pd.read_csv("s.csv").nll.item() == pytest.approx(expected)


def test_score_of_a_pipeline_and_of_a_model_without_a_formula(folder: Path, capsys) -> None:
    """The file knows the names of covariates and outcome; transformers fill gaps, also in rows to score."""
    data = pd.read_csv("shifted.csv")
    data["word"] = np.where(np.arange(len(data)) % 3 == 0, "a", "b")
    front = make_column_transformer((SimpleImputer(), ["x"]), (OneHotEncoder(drop="first"), ["word"]))
    pipeline = atm.make_pipeline(front, atm.NormalLinear(xi=1.0)).fit(data[["x", "word"]], data.y, anchors=data.place)
    atm.save(pipeline, "piped.json")
    atm.save(atm.NormalLinear().fit(data[["x"]], data.y), "columns.json")
    data.loc[:3, "x"], data.loc[7:9, "y"] = np.nan, np.nan
    data.to_csv("holes.csv", index=False)
    assert main(["score", "piped.json", "holes.csv"]) == 1
    assert "missing" in capsys.readouterr().err
    rest = data[data.y.notna()]
    expected = atm.scores.score_table(pipeline, rest[["x", "word"]], rest.y, rest.place).frame()
    found = pd.DataFrame(read("score piped.json holes.csv --by place --missing drop", capsys))
    np.testing.assert_allclose(found.nll, expected.nll)
    assert found.environment.tolist() == expected.environment.tolist()
    assert found.n[0] == len(data) - 3
    assert pd.DataFrame(read("score columns.json holes.csv --missing drop", capsys)).n[0] == len(data) - 7
    data.drop(columns="y").to_csv("new.csv", index=False)
    assert main(["score", "piped.json", "new.csv"]) == 1
    assert "no column 'y'" in capsys.readouterr().err


def test_diagnose(folder: Path, capsys) -> None:
    data = pd.read_csv("shifted.csv")
    found = read("diagnose shifted.csv -m lm -f 'y ~ x | place' -x 10", capsys)
    parts = atm.Formula("y ~ x | place", data)
    test = atm.diagnostics.score_test(atm.NormalLinear(), parts.X, parts.y, parts.anchors)
    assert found["needed"]["answer"] == "yes"
    assert found["needed"]["pvalue"] == pytest.approx(test.pvalue)
    first = atm.diagnostics.first_stage(parts.X, parts.anchors).frame()
    assert found["can_work"]["covariates"][0]["F"] == pytest.approx(first["F"].item())
    fits = [atm.NormalLinear(xi).fit(parts.X, parts.y, anchors=parts.anchors) for xi in (0, 10)]
    shares = atm.diagnostics.residual_invariance(*fits, parts.X, parts.y, parts.anchors).explained
    assert [found["did"][f"explained_{when}"] for when in ("before", "after")] == pytest.approx(list(shares))
    assert "worth trying" in found["advice"]
    assert main(["diagnose", "shifted.csv", "-m", "lm", "-f", "y ~ x | place", "-o", "d.csv"]) == 0
    assert "Does place still matter after the covariates? yes" in capsys.readouterr().out
    assert set(pd.read_csv("d.csv").question) == {"needed", "can_work", "did"}


def test_diagnose_where_there_is_nothing_to_do(folder: Path, capsys) -> None:
    found = read(f"diagnose cgd.csv -m weibull -f '{CGD}'", capsys)
    assert found["needed"]["answer"] == "not seen"
    assert found["advice"].endswith("keep xi = 0.")
    found = read(f"diagnose wine.csv -m o-logit -f '{WINE}'", capsys)  # judges who all tasted the same wines
    assert found["can_work"]["answer"] == "hardly"
    assert "mostly widens predictions" in found["advice"]
    atm.datasets.load_boston_housing2().to_csv("boston.csv", index=False)  # 92 towns, F of 4.5 and 8.3
    found = read("diagnose boston.csv -m lm -f 'cmedv ~ rm + lstat | town'", capsys)
    assert found["can_work"]["answer"] == "weakly"
    assert "anchortm loeo" in found["advice"]


def test_diagnose_says_what_it_cannot_know(folder: Path, capsys) -> None:
    """A score test needs a model without a penalty on its coefficients; the other questions are answered."""
    found = read("diagnose shifted.csv -m lm -f 'y ~ x | place' --l2 0.1", capsys)
    assert found["needed"]["answer"] == "not known"
    assert found["did"]["explained_after"] < found["did"]["explained_before"]


def test_choose(folder: Path, capsys) -> None:
    data = pd.read_csv("shifted.csv")
    xis = [0, 1, 3, 10]
    line = "choose shifted.csv -m lm -f 'y ~ x | place' -x 0,1,3,10"
    found = {row["rule"]: row["xi"] for row in read(line, capsys)["table"]}
    for rule, objective in (("worst", "worst"), ("q90", 0.9), ("mean", "mean")):
        search = atm.XiSearchCV(atm.NormalLinear(), xis, objective).fit("y ~ x | place", data)
        assert found[rule] == search.best_xi_
        one = read(f"{line} --rule {rule}", capsys)
        assert one["xi"] == search.best_xi_
        np.testing.assert_allclose([row["objective"] for row in one["table"]], search.results_.objective)
        assert [row["xi"] for row in one["table"] if row["chosen"]] == [search.best_xi_]
    parts = atm.Formula("y ~ x | place", data)
    with pytest.warns(AnchorTMWarning, match="over-identify"):
        rule = atm.xi_by_score_test(atm.NormalLinear(), parts.X, parts.y, parts.anchors)
    assert found["invariance"] == rule.xi
    far = atm.XiSearchCV(atm.NormalLinear(), xis, design="further").fit("y ~ x | place", data)
    assert found["further"] == far.best_xi_
    one = read(f"{line} --rule further", capsys)
    assert one["xi"] == far.best_xi_
    assert far.verdict_.sentence[1:] in one["advice"]
    assert found["shifts"] == pytest.approx(atm.xi_from_gamma(atm.gamma_from_quantile(0.95)))
    assert main([*shlex.split(line), "-r", "worst", "-o", "c.csv", "-p", "c.png"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("<- chosen") == 1
    assert "Next: anchortm fit with --xi" in printed
    assert Path("c.png").stat().st_size > 5000
    assert main([*shlex.split(line), "-r", "invariance", "-p", "i.png"]) == 0
    assert main([*shlex.split(line), "-r", "shifts", "-p", "i.png"]) == 1
    assert "nothing to draw" in capsys.readouterr().err


def test_choose_without_a_choice(folder: Path, capsys) -> None:
    found = read(f"choose cgd.csv -m weibull -f '{CGD}' -x 0,1", capsys)
    assert found["advice"] == "No penalty clearly helps the left-out sites: keep xi = 0."
    assert main(["choose", "cgd.csv", "-m", "weibull", "-f", CGD.split(" |")[0]]) == 1
    assert "choose needs environments" in capsys.readouterr().err


def test_check_a_table(folder: Path, capsys) -> None:
    found = read("check cgd.csv", capsys)
    types = {row["column"]: row["type"] for row in found["columns"]}
    assert types["center"] == "text"
    assert types["height"] == "number"
    assert types["status"] == "whole number"
    assert found["candidates"] == ["center"]
    assert found["refused"] == []
    found = read(f"check cgd.csv -m cox -f '{CGD}'", capsys)
    data = atm.datasets.load_cgd()
    sites = pd.DataFrame(found["sites"]).set_index("center")
    assert sites.rows.to_dict() == data.center.value_counts().to_dict()
    assert sites.events.to_dict() == data.groupby("center").status.sum().to_dict()
    assert any("fewer than 5 rows: Copenhagen" in note for note in found["notes"])
    assert any("without events: Harvard Medical Sch" in note for note in found["notes"])


def bad() -> pd.DataFrame:
    data = atm.datasets.load_cgd()
    data["age"] = [f"{age}.5" for age in data.age]
    data.loc[3, "age"] = "<0.5"
    data["came"] = [f"2020-01-{1 + k % 28:02d}" for k in range(128)]
    data.loc[data.center == "NIH", "sex"] = "other"
    data.loc[9, "height"] = np.nan
    data["alive"] = np.where(data.status == 1, "no", "yes")
    data["nothing"] = np.nan
    data["twin"] = data.weight
    return data


@pytest.mark.parametrize(
    ("formula", "options", "problems"),
    [
        (
            "Surv(tstop, status) ~ age | center",
            "",
            ["age has numbers, but also '<0.5' at line 5", "missing values: age"],
        ),
        ("Surv(tstop, status) ~ age | center", '--missing-values "<0.5" --missing drop', []),
        ("Surv(tstop, status) ~ came | center", "", ["came has dates, not numbers"]),
        ("Surv(tstop, status) ~ came | center", "--dates came", []),
        ("Surv(tstop, status) ~ height | center", "", ["missing values: height in 1 of 128 rows"]),
        ("Surv(tstop, status) ~ height | center", "--missing drop", []),
        ("Surv(tstop, alive) ~ sex | center", "", ["its values are 'no', 'yes': compare with the one that"]),
        ("Surv(tstop, alive == 'no') ~ sex | center", "", []),
        ("Surv(tstop, status) ~ nothing | center", "", ["no row is complete"]),
        ("Surv(tstop, status) ~ weight + twin | center", "", ["twin"]),
        ("Surv(tstop, status) ~ heightt | center", "", ["did you mean 'height'?"]),
        (
            "Surv(tstop, status) ~ age + came + height",
            "",
            ["age has", "came has", "missing values: age in 1, height in 1"],
        ),
    ],
)
def test_check_says_what_a_fit_would_refuse(folder: Path, formula: str, options: str, problems: list, capsys) -> None:
    """And a fit agrees: it is refused if and only if something was found."""
    bad().to_csv("bad.csv", index=False)
    line = ["bad.csv", "-m", "weibull", "-f", formula, *shlex.split(options)]
    assert main(["check", *line, "--json"]) == int(bool(problems))
    found = json.loads(capsys.readouterr().out)["refused"]
    assert len(found) == len(problems)
    for each, words in zip(found, problems, strict=True):
        assert words in each["problem"]
    assert main(["fit", *line]) == int(bool(problems))
    capsys.readouterr()


def test_check_prints_the_repairs(folder: Path, capsys) -> None:
    bad().to_csv("bad.csv", index=False)
    formula = "Surv(tstop, status) ~ age + came + height + sex | center"
    assert main(["check", "bad.csv", "-m", "weibull", "-f", formula]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert '--missing-values "<0.5"' in printed
    assert "add --dates came" in printed
    assert "add --missing drop, which leaves 126 rows" in printed
    assert "level 'other' of sex exists at NIH only" in printed
    repaired = ["--missing-values", "<0.5", "--dates", "came", "--missing", "drop"]
    assert main(["check", "bad.csv", "-m", "weibull", "-f", formula, *repaired]) == 0
    assert "Nothing would be refused by a fit." in capsys.readouterr().out
    assert main(["fit", "bad.csv", "-m", "weibull", "-f", formula, *repaired]) == 0


def test_check_without_a_model_reads_the_formula(folder: Path, capsys) -> None:
    assert main(["check", "cgd.csv", "-f", CGD]) == 0
    assert "add --model to try a fit" in capsys.readouterr().out
    assert main(["check", "cgd.csv", "-f", "Surv(tstop) ~ age"]) == 1
    assert main(["check", "cgd.csv", "-f", CGD, "-m", "weibull", "--order", "3"]) == 1
    assert "does not take --order" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:this model does not know how much places differ")
def test_recalibrate(folder: Path, capsys) -> None:
    data, model = atm.datasets.load_cgd(), atm.load("cgd.json")
    few = data[data.center == "NIH"][:6].assign(w=[1, 2, 1, 1, 0, 1])
    few.to_csv("few.csv", index=False)
    expected = model.recalibrate(few, prior=0.5).recalibration_
    found = read("recalibrate cgd.json few.csv --prior 0.5 --save there.json", capsys)
    names = ("what", "rows", "shift", "std_error", "prior", "prior_from", "converged")
    assert [found[name] for name in names] == [getattr(expected, name) for name in names]
    there = atm.load("there.json")
    np.testing.assert_allclose(there.nll(data), model.recalibrate(few, prior=0.5).nll(data))
    assert found["nll_after"] == pytest.approx(there.nll(few).mean())
    assert main(["predict", "there.json", "cgd.csv", "--quantiles", "0.1,0.5", "-o", "q.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("q.csv"), there.predict_quantiles(data, [0.1, 0.5]))
    weighted = read("recalibrate cgd.json few.csv --what baseline --strength 5 --floor 0.1 --weights w", capsys)
    options = {"what": "baseline", "strength": 5.0, "floor": 0.1, "sample_weight": "w"}
    assert weighted["shift"] == pytest.approx(model.recalibrate(few, **options).recalibration_.shift)
    assert main(["recalibrate", "cgd.json", "few.csv", "-o", "found.csv"]) == 0
    printed = capsys.readouterr()
    assert "other rows of the place gain less" in printed.out
    assert "shifts between places as --prior" in printed.err
    assert pd.read_csv("found.csv").prior_from.item() == "default"
    assert main(["show", "there.json"]) == 0
    assert "the shift has standard deviation 0.7071, as given" in capsys.readouterr().out
    for line, words in {
        "recalibrate there.json few.csv": "recalibrated already",
        "recalibrate cgd.json few.csv --prior -1": "--prior, the variance of shifts between places, must be at least 0",
        "recalibrate cgd.json few.csv --what trees": "--what must be one of",
        "recalibrate cgd.json few.csv --weights v": "there is no column 'v'",
        "recalibrate cgd.json few.csv --save few.csv": "must end in .json",
    }.items():
        assert main(shlex.split(line)) == 1
        assert words in capsys.readouterr().err
    few.assign(treat="other").to_csv("odd.csv", index=False)
    assert main(["recalibrate", "cgd.json", "odd.csv", "--prior", "1"]) == 1
    assert "6 of 6 rows cannot be used" in capsys.readouterr().err
