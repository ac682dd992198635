"""New rows that cannot be predicted: marked with a reason, and the others predicted as if they were alone."""

from __future__ import annotations

import json
import math
import warnings
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.backends import sources
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, MissingValueError, UnavailableError
from anchortm.predict import MarkedDistribution, PredictedDistribution

N = 300
rng = np.random.default_rng(8)
SITE = rng.choice(["a", "b", "c"], N)
AGE, DOSE = rng.uniform(20.0, 80.0, N), rng.normal(size=N)
STAGE = rng.choice(["I", "II", "III"], N, p=[0.5, 0.2, 0.3])
SEX = rng.choice(["f", "m"], N)
LINE = 0.03 * AGE + (STAGE == "III") + 0.5 * (SEX == "m")
DATA = pd.DataFrame(
    {
        "time": np.exp(LINE / 2 + rng.logistic(size=N) / 4),
        "event": rng.integers(0, 2, N),
        "grade": np.digitize(LINE + rng.logistic(size=N), [1.0, 2.5]),
        "count": rng.poisson(np.exp(LINE / 3)),
        "positive": rng.integers(0, 2, N),
        "age": AGE,
        "dose": DOSE,
        "stage": STAGE,
        "sex": SEX,
        "site": SITE,
        "ward": rng.integers(0, 12, N),
        "log_time": 0.1 * rng.normal(size=N),
    }
)
# row, column, entry, and the reason that its row should get if the model uses the column
BREAKS = [
    (2, "age", np.nan, "age is missing"),
    (3, "stage", "V", "stage 'V' is unknown"),
    (5, "age", np.inf, "age is infinite"),
    (5, "stage", None, "stage is missing"),
    (6, "sex", "?", "sex '?' is unknown"),
    (7, "sex", None, "sex is missing"),
    (9, "age", "<18", "age '<18' is not a number"),
    (10, "dose", "", "dose is missing"),
]
SMOOTH = {"order": 3}


def broken(n: int = 12, columns: tuple[str, ...] = ("age", "stage", "sex", "dose")) -> pd.DataFrame:
    """Return rows of the data with entries that do not belong there."""
    table = DATA[:n].astype({"age": object, "dose": object})
    for row, column, entry, _ in BREAKS:
        if column in columns:
            table.loc[row, column] = entry
    return table


def reasons(n: int = 12, columns: tuple[str, ...] = ("age", "stage", "sex", "dose")) -> list[str]:
    """Return the reasons that these rows should get; strata come first."""
    own: list[list[str]] = [[] for _ in range(n)]
    for row, column, _, reason in BREAKS:
        if column in columns:
            own[row].append(reason)
    return ["; ".join(found) for found in own]


FORMULAS: dict[str, tuple[Any, str, dict[str, Any], tuple[str, ...]]] = {
    "smooth hazards": (atm.ProportionalHazards, "Surv(time, event) ~ age + stage | site", SMOOTH, ("age", "stage")),
    "normal": (atm.NormalLinear, "time ~ age + stage + dose", {}, ("age", "stage", "dose")),
    "anchored": (atm.ContinuousLogit, "time ~ stage * age | site", {"xi": 1.0} | SMOOTH, ("age", "stage")),
    "strata": (atm.ContinuousProbit, "time | sex ~ age + C(stage)", SMOOTH, ("age", "stage", "sex")),
    "varying": (atm.ContinuousProbit, "time ~ age + stage", SMOOTH | {"varying": "stage"}, ("age", "stage")),
    "scale": (atm.NormalLinear, "time ~ age + stage", {"scale": "age"}, ("age", "stage")),
    "random effects": (atm.ContinuousLogit, "time ~ age + stage + (1 | ward)", SMOOTH, ("age", "stage")),
    "smooth terms": (atm.NormalLinear, "time ~ s(age, 5) + stage", {}, ("age", "stage")),
    "Cox": (atm.CoxPH, "Surv(time, event) | sex ~ age + stage | site", {}, ("age", "stage", "sex")),
    "classes": (atm.OrdinalRegression, "grade ~ age + stage | site", {}, ("age", "stage")),
    "counts": (atm.CountRegression, "count ~ age + stage", SMOOTH, ("age", "stage")),
    "Poisson": (atm.AnchorGLM, "count ~ age + stage | site", {"family": "poisson"}, ("age", "stage")),
    "binomial": (atm.AnchorGLM, "positive ~ age + stage", {"family": "binomial"}, ("age", "stage")),
    "mixed Poisson": (atm.AnchorGLM, "count ~ age + (1 | ward)", {"family": "poisson"}, ("age",)),
    "boosted": (
        atm.AnchorBoostedTM,
        "time ~ age + stage | site",
        {"model": atm.NormalLinear(), "n_rounds": 5},
        ("age", "stage"),
    ),
    "boosted line": (
        atm.AnchorBoostedTM,
        "time ~ age + stage | site",
        {"model": atm.NormalLinear(), "n_rounds": 5, "learner": "linear"},
        ("age", "stage"),
    ),
}


@cache
def fitted(name: str) -> Any:
    """Return one of the models."""
    kind, formula, options, _ = FORMULAS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        return kind.from_formula(formula, DATA, **options)


def equal(found: Any, alone: Any, bad: np.ndarray) -> None:
    """Check that good rows are those of the rows alone, to the last bit, and bad rows are missing."""
    assert len(found) == bad.size
    assert np.asarray(found)[~bad].tolist() == np.asarray(alone).tolist()
    assert pd.isna(np.asarray(found, dtype=object)[bad]).all()


@pytest.mark.parametrize("name", FORMULAS)
def test_good_rows_are_predicted_as_if_alone(name: str) -> None:
    model, columns = fitted(name), FORMULAS[name][3]
    table, why = broken(columns=columns), reasons(columns=columns)
    bad = np.array(why) != ""
    alone = table[~bad].astype({"age": float, "dose": float})
    marked, single = model.predict_distribution(table, on_bad_rows="mark"), model.predict_distribution(alone)
    assert isinstance(marked, MarkedDistribution)
    assert type(marked.good_rows) is type(single)
    assert [set(found.split("; ")) for found in marked.reasons] == [set(wanted.split("; ")) for wanted in why]
    assert marked.bad.tolist() == bad.tolist()
    for method in ("cdf", "sf", "cumhazard", "odds"):
        equal(getattr(marked, method)([1, 2]), getattr(single, method)([1, 2]), bad)
    equal(marked.ppf(0.5), single.ppf(0.5), bad)
    equal(marked.rvs(2, 0), single.rvs(2, 0), bad)
    equal(model.predict(table, on_bad_rows="mark"), model.predict(alone), bad)
    quantiles = model.predict_quantiles(table, [0.1, 0.9], on_bad_rows="mark")
    equal(quantiles, model.predict_quantiles(alone, [0.1, 0.9]), bad)
    if hasattr(model, "predict_proba"):
        equal(model.predict_proba(table, on_bad_rows="mark"), model.predict_proba(alone), bad)
    written = atm.predict_table(model, table, quantiles=[0.1], sf=[1], keep=["site"], on_bad_rows="mark")
    equal(written["q0.1"], atm.predict_table(model, alone, quantiles=[0.1])["q0.1"], bad)
    assert written.reason.tolist() == marked.reasons.tolist()
    assert written.site.tolist() == table.site.tolist()


@pytest.mark.parametrize("name", FORMULAS)
def test_none_all_and_no_rows(name: str) -> None:
    model = fitted(name)
    whole = model.predict_distribution(DATA[:4], on_bad_rows="mark")
    assert not whole.bad.any()
    assert whole.cdf([1, 2]).tolist() == model.predict_distribution(DATA[:4]).cdf([1, 2]).tolist()
    lost = DATA[:4].assign(age=np.nan)
    none = model.predict_distribution(lost, on_bad_rows="mark")
    assert none.reasons.tolist() == ["age is missing"] * 4
    assert none.cdf([1, 2]).shape == none.ppf([0.1, 0.9]).shape == (4, 2)
    assert np.isnan(none.cdf([1, 2])).all()
    assert pd.isna(model.predict(lost, on_bad_rows="mark")).all()
    table = atm.predict_table(model, lost, on_bad_rows="mark", extrapolation=True)
    assert table.prediction.isna().all()
    assert table.outside.isna().all()
    empty = model.predict_distribution(DATA[:0], on_bad_rows="mark")
    assert len(empty) == 0
    assert empty.cdf([1, 2]).shape == (0, 2)
    assert atm.predict_table(model, DATA[:0], on_bad_rows="mark").columns[-1] == "reason"


@pytest.mark.parametrize("name", ["smooth hazards", "strata", "Cox", "classes", "mixed Poisson", "boosted"])
def test_a_loaded_model_marks_the_same_rows(name: str, tmp_path: Any) -> None:
    model, columns = fitted(name), FORMULAS[name][3]
    table = broken(columns=columns)
    loaded = atm.load(atm.save(model, tmp_path / "model.json"))
    for how in ("error", "rare", "baseline"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)
            tables = [atm.predict_table(m, table, on_bad_rows="mark", unknown=how) for m in (model, loaded)]
        pd.testing.assert_frame_equal(*tables)


def arrays() -> dict[str, tuple[Any, Any, Any, list[str]]]:
    """Return models fitted without a formula, new rows, the good ones among them, and the reasons."""
    X, y = DATA[["age", "dose"]], DATA.time
    code = DATA.sex.map({"f": 0.0, "m": 1.0})
    new = X[:5].copy()
    new.iloc[1, 0], new.iloc[3, 1] = np.nan, -np.inf
    why = ["", "age is missing", "", "dose is infinite", ""]
    plain = [word.replace("age", "x0").replace("dose", "x1") for word in why]
    frame, array = atm.NormalLinear().fit(X, y), atm.NormalLinear().fit(X.to_numpy(), y)
    beside, codes = X.assign(sex=DATA.sex), np.column_stack([code, X])
    strata = atm.NormalLinear(strata="sex").fit(beside, y)
    places = atm.NormalLinear(strata=[0]).fit(codes, y)
    odd = beside[:5].assign(age=new.age)
    odd.iloc[4, 2] = "x"
    rare = codes[:5].copy()
    rare[[1, 4], [1, 0]] = np.nan, 0.5
    anchored = atm.NormalLinear(xi=1.0, anchor_names=["site"]).fit(X.assign(site=DATA.site), y)
    good = [0, 2, 4]
    sparse = atm.NormalLinear().fit(sp.csr_matrix(X.to_numpy()), y)
    few = ["", "age is missing", "", "", "sex 'x' is unknown"]
    return {
        "frame": (frame, new, new.iloc[good], why),
        "polars": (frame, pl.from_pandas(new), new.iloc[good], why),
        "words": (
            frame,
            new.astype(object).where(new.notna(), "n/a"),
            new.iloc[good],
            ["", "age 'n/a' is not a number", "", "dose is infinite", ""],
        ),
        "array": (array, new.to_numpy(), new.to_numpy()[good], plain),
        "list": (array, new.to_numpy().tolist(), new.to_numpy()[good], plain),
        "objects": (array, new.to_numpy(dtype=object), new.to_numpy()[good], plain),
        "sparse": (
            sparse,
            sp.csr_matrix(new.to_numpy()),
            sp.csr_matrix(new.to_numpy()[good]),
            ["", "x0 is missing or infinite", "", "x1 is missing or infinite", ""],
        ),
        "strata": (strata, odd, odd.iloc[[0, 2, 3]], few),
        "positions": (places, rare, rare[[0, 2, 3]], ["", "x0 is missing", "", "", "0 0.5 is unknown"]),
        "anchors beside": (anchored, new.assign(site=None), new.iloc[good], why),
    }


@pytest.mark.parametrize("name", arrays())
def test_models_without_a_formula(name: str) -> None:
    model, new, good, why = arrays()[name]
    bad = np.array(why) != ""
    marked = model.predict_distribution(new, on_bad_rows="mark")
    assert marked.reasons.tolist() == why
    equal(marked.cdf([3.0, 5.0]), model.predict_distribution(good).cdf([3.0, 5.0]), bad)
    equal(model.predict(new, on_bad_rows="mark"), model.predict(good), bad)


def test_clusters_count_only_if_asked_for() -> None:
    model = fitted("random effects")
    table = DATA[:3].astype({"ward": object})
    table.loc[1, "ward"] = None
    new = model.predict_distribution(table, on_bad_rows="mark")
    assert new.reasons.tolist() == ["", "", ""]
    assert new.cdf(3.0).tolist() == model.predict_distribution(DATA[:3]).cdf(3.0).tolist()
    own = model.predict_distribution(table, conditional=True, on_bad_rows="mark")
    assert own.reasons.tolist() == ["", "ward is missing", ""]
    equal(own.cdf(3.0), model.predict_distribution(DATA[:3].iloc[[0, 2]], conditional=True).cdf(3.0), own.bad)


def test_offsets_and_trials_can_be_missing() -> None:
    model = atm.AnchorGLM.from_formula("count ~ age", DATA, family="poisson", offset="log_time")
    table = DATA[:3].assign(log_time=[0.1, np.nan, 0.2])
    assert model.predict_distribution(table, on_bad_rows="mark").reasons.tolist() == ["", "log_time is missing", ""]
    equal(model.predict(table, on_bad_rows="mark"), model.predict(table.iloc[[0, 2]]), np.array([False, True, False]))
    given = model.predict(table, offset=[np.inf, 0.0, 0.0], on_bad_rows="mark")
    equal(given, model.predict(table[1:], offset=[0.0, 0.0]), np.array([True, False, False]))
    written = atm.predict_table(model, table, on_bad_rows="mark")
    assert written.reason.tolist() == ["", "log_time is missing", ""]
    equal(written.prediction, model.predict(table.iloc[[0, 2]]), np.array([False, True, False]))
    trials = fitted("binomial").predict_distribution(DATA[:2], trials=[3, np.nan], on_bad_rows="mark")
    equal(trials.mean(), fitted("binomial").predict_distribution(DATA[:1], trials=[3]).mean(), np.array([False, True]))
    alone = atm.NormalLinear().fit(None, DATA.time, offset=DATA.log_time)
    found = alone.predict_distribution(offset=[0.1, np.nan], on_bad_rows="mark")
    equal(found.cdf(3.0), alone.predict_distribution(offset=[0.1]).cdf(3.0), np.array([False, True]))


def test_terms_that_cannot_be_computed() -> None:
    terms = "np.log(age) + bs(dose, 4) + s(sqrt(age), 5)"
    model = atm.NormalLinear.from_formula(f"time ~ {terms}", DATA, smooth=1.0)
    table = DATA[:4].assign(age=[30.0, -1.0, 40.0, 50.0], dose=[0.0, 0.1, 99.0, 0.2])
    marked = model.predict_distribution(table, on_bad_rows="mark")
    assert marked.reasons.tolist() == ["", "np.log(age) cannot be computed", "bs(dose, 4) cannot be computed", ""]
    equal(marked.cdf(3.0), model.predict_distribution(table.iloc[[0, 3]]).cdf(3.0), marked.bad)
    strict = atm.NormalLinear.from_formula("time ~ cr(dose, 4, constraints='center', extrapolation='raise')", DATA)
    assert strict.predict_distribution(table, on_bad_rows="mark").bad.tolist() == [False, False, True, False]
    clipped = atm.NormalLinear.from_formula("time ~ bs(dose, 4, extrapolation='clip')", DATA)
    assert not clipped.predict_distribution(table, on_bad_rows="mark").bad.any()


def test_means_outside_the_range_of_a_link() -> None:
    model = atm.AnchorGLM.from_formula("count ~ age", DATA, family="poisson", link="identity")
    table = DATA[:2].assign(age=[-1000.0, 40.0])
    with pytest.raises(InputError, match="not possible for poisson"):
        model.predict(table)
    marked = model.predict_distribution(table, on_bad_rows="mark")
    assert marked.reasons.tolist() == ["its mean is outside the range of the identity link", ""]
    equal(marked.mean(), model.predict(table[1:]), marked.bad)


def test_models_without_covariates() -> None:
    table = DATA[:3].assign(sex=["f", None, "m"])
    plain, strata = (atm.NormalLinear.from_formula(f"{left} ~ 1", DATA) for left in ("time", "time | sex"))
    assert plain.predict(table, on_bad_rows="mark").tolist() == plain.predict(table).tolist()
    equal(strata.predict(table, on_bad_rows="mark"), strata.predict(table.iloc[[0, 2]]), np.array([False, True, False]))
    alone = atm.NormalLinear().fit(None, DATA.time)
    assert alone.predict(n_rows=2, on_bad_rows="mark").tolist() == alone.predict(n_rows=2).tolist()
    assert alone.predict_distribution(on_bad_rows="mark").reasons.tolist() == [""]


def test_dummies_with_varying_effects() -> None:
    X = np.column_stack([DATA.age, DATA.sex == "m"])
    model = atm.NormalLinear(varying=[1]).fit(X, DATA.time)
    table = np.array([[30.0, 1.0], [40.0, 0.5], [np.nan, 0.5], [50.0, 0.0]])
    marked = model.predict_distribution(table, on_bad_rows="mark")
    assert marked.reasons.tolist() == ["", "x1 should be 0 or 1", "x0 is missing", ""]
    equal(marked.cdf(3.0), model.predict_distribution(table[[0, 3]]).cdf(3.0), marked.bad)
    with pytest.raises(InputError, match=r"1 features, .* expecting 2"):
        model.predict(table[:, :1], on_bad_rows="mark")


def test_wide_factors() -> None:
    data = pd.DataFrame({"place": [f"p{k % 150}" for k in range(900)], "x": rng.normal(size=900)})
    data["y"] = data.x + rng.normal(size=900)
    model = atm.NormalLinear.from_formula("y ~ np.log(x + 9) + place", data, l2=0.1)
    table = data[:4].assign(place=["p0", "new", None, "p7"], x=[0.0, 1.0, 2.0, -99.0])
    marked = model.predict_distribution(table, on_bad_rows="mark")
    wanted = ["", "place 'new' is unknown", "place is missing", "np.log(x + 9) cannot be computed"]
    assert marked.reasons.tolist() == wanted
    equal(marked.cdf(0.0), model.predict_distribution(table[:1]).cdf(0.0), marked.bad)


CODINGS = {  # a term, the level that "baseline" stands for
    "stage": "I",
    "C(stage)": "I",
    "age * C(stage, contr.treatment('II'))": "II",
    "C(stage, contr.treatment(base='III'))": "III",
    "C(stage, contr.treatment)": "I",
    "C(stage, contrasts=contr.treatment(base='II'))": "II",
    "C(stage, contr.SAS('I'))": "I",
    "C(stage, levels=['III', 'I', 'II'])": "III",
    "C(stage, contr.SAS) + age:C(stage, contr.SAS)": "III",
}


@pytest.mark.parametrize("term", CODINGS)
def test_unknown_levels_are_read_as_the_reference(term: str) -> None:
    model = atm.NormalLinear.from_formula(f"time ~ age + {term}", DATA)
    table = DATA[:4].assign(stage=["I", "V", "VI", "V"])
    with pytest.warns(AnchorTMWarning, match=r"'V' as '.*' \(2 rows\), stage 'VI' as '.*' \(1 row\)") as caught:
        found = model.predict(table, unknown="baseline")
    assert len(caught) == 1
    same = table.assign(stage=["I", *[CODINGS[term]] * 3])
    assert found.tolist() == model.predict(same).tolist()
    # the level whose dummies are all zero, where there is one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        assert isinstance(model.predict_distribution(table, unknown="baseline"), PredictedDistribution)


@pytest.mark.parametrize("column", ["text", "category", "code"])
def test_unknown_levels_are_read_as_the_rarest(column: str) -> None:
    rarest = DATA.stage.value_counts().idxmin()
    kinds = {
        "text": DATA.stage,
        "category": pd.Categorical(DATA.stage, ["III", "I", "II"]),
        "code": DATA.stage.map({"I": 1, "II": 2, "III": 3}),
    }
    data = DATA.assign(stage=kinds[column])
    model = atm.NormalLinear.from_formula("time ~ age + C(stage)", data)
    wrong = data[:3].astype({"stage": object})
    wrong.loc[1, "stage"] = 7
    right = data[:3].astype({"stage": object})
    right.loc[1, "stage"] = {"I": 1, "II": 2, "III": 3}[rarest] if column == "code" else rarest
    with pytest.warns(AnchorTMWarning, match="stage 7 as"):
        found = model.predict(wrong, unknown="rare")
    assert found.tolist() == model.predict(right).tolist()


def test_levels_are_counted_in_batches_and_without_dropped_rows(tmp_path: Any) -> None:
    holes = DATA.assign(age=np.where(DATA.stage == "I", np.nan, DATA.age))
    holes.loc[:3, ["stage", "age"]] = ["I", 30.0]
    model = atm.NormalLinear.from_formula("time ~ age + stage", holes, missing="drop")
    DATA.to_parquet(tmp_path / "data.parquet", row_group_size=50)
    batched = atm.NormalLinear.from_formula("time ~ age + stage", tmp_path / "data.parquet")
    whole = atm.NormalLinear.from_formula("time ~ age + stage", DATA)
    counts = DATA.stage.value_counts()
    assert batched.formula_.state()["counts"] == whole.formula_.state()["counts"]
    assert whole.formula_.state()["counts"] == {"stage": [int(counts[level]) for level in ("I", "II", "III")]}
    assert model.formula_.state()["counts"]["stage"][0] == 4
    weighted = atm.NormalLinear.from_formula("time ~ age + stage", DATA, sample_weight=(DATA.index > 9).astype(float))
    assert sum(weighted.formula_.state()["counts"]["stage"]) == N - 10


def test_contrasts_without_a_reference_and_files_without_counts(tmp_path: Any) -> None:
    table = DATA[:2].assign(stage=["I", "V"])
    sums = atm.NormalLinear.from_formula("time ~ C(stage, contr.sum)", DATA)
    with pytest.raises(InputError, match=r"contr\.sum gives 'stage' no baseline level: use unknown=.rare"):
        sums.predict(table, unknown="baseline")
    for plain in ("C(stage)", "stage"):
        mixed = atm.NormalLinear.from_formula(f"time ~ {plain} + age:C(stage, contr.SAS)", DATA)
        with pytest.raises(InputError, match="different reference levels"):
            mixed.predict(table, unknown="baseline")
    file = atm.save(fitted("normal"), tmp_path / "model.json")
    record = json.loads(file.read_text())
    del record["formula"]["counts"], record["sha256"]
    from anchortm.saving import digest

    file.write_text(json.dumps(record | {"sha256": digest(record)}))
    old = atm.load(file)
    with pytest.raises(InputError, match='as its file is older: fit it again, or use unknown="baseline"'):
        old.predict(table, unknown="rare")
    with pytest.warns(AnchorTMWarning, match="'V' as 'I'"):
        old.predict(table, unknown="baseline")
    record["formula"]["counts"] = {"stage": [1, 2]}
    file.write_text(json.dumps(record | {"sha256": digest(record)}))
    with pytest.raises(InputError, match="inconsistent"):
        atm.load(file)


def test_strata_are_not_mapped() -> None:
    table = DATA[:3].assign(sex=["f", "?", "m"], stage=["I", "I", "V"])
    for name in ("strata", "Cox"):
        with pytest.warns(AnchorTMWarning, match="stage 'V' as"):
            marked = fitted(name).predict_distribution(table, on_bad_rows="mark", unknown="baseline")
        assert marked.reasons.tolist() == ["", "sex '?' is unknown", ""]
        with pytest.raises(
            InputError, match=r"1 of 3 rows cannot be predicted: sex '\?' is unknown \(1 row, first row 1\)"
        ):
            fitted(name).predict_distribution(table, unknown="baseline")
    two = atm.NormalLinear.from_formula("time | sex + site ~ age", DATA)
    table = DATA[:3].assign(sex=["f", "f", None], site=["a", "z", "a"])
    assert two.predict_distribution(table, on_bad_rows="mark").reasons.tolist() == [
        "",
        "sex 'f' and site 'z' is unknown",
        "sex is missing",
    ]


def test_classes_are_floats_or_objects() -> None:
    table = DATA[:3].assign(age=[30.0, np.nan, 60.0])
    for labels in ([0, 1, 2], ["low", "mid", "top"]):
        data = DATA.assign(grade=pd.Categorical.from_codes(DATA.grade, labels, ordered=True))
        model = atm.OrdinalRegression.from_formula("grade ~ age", data)
        found = model.predict(table, on_bad_rows="mark")
        alone = model.predict(table.iloc[[0, 2]])
        equal(found, alone, np.array([False, True, False]))
        assert found.dtype == (np.float64 if labels[0] == 0 else object)
        assert found[1] is None or math.isnan(found[1])
        column = atm.predict_table(model, table, on_bad_rows="mark").prediction
        assert str(column.dtype) == ("Int64" if labels[0] == 0 else "object")
        assert column.dropna().tolist() == alone.tolist()
        same = atm.predict_table(model, table[:1], on_bad_rows="mark").prediction
        assert same.dtype == column.dtype
    marked = fitted("classes").predict_distribution(table, on_bad_rows="mark")
    equal(marked.probabilities(), fitted("classes").predict_proba(table.iloc[[0, 2]]), marked.bad)
    equal(marked.mode(), fitted("classes").predict(table.iloc[[0, 2]]), marked.bad)


def test_a_marked_distribution_has_the_methods_of_its_kind() -> None:
    table = DATA[:4].assign(age=[30.0, np.nan, 60.0, 50.0])
    model = fitted("smooth hazards")
    marked, alone = (
        model.predict_distribution(table, on_bad_rows="mark"),
        model.predict_distribution(table.iloc[[0, 2, 3]]),
    )
    bad = marked.bad
    points, rows = [2.0, 4.0], np.arange(1.0, 9.0).reshape(4, 2)
    for method in ("cdf", "sf", "pdf", "logcdf", "logsf", "logpdf", "hazard", "cumhazard", "odds", "trafo"):
        for at in (2.0, points):
            equal(getattr(marked, method)(at), getattr(alone, method)(at), bad)
        equal(getattr(marked, method)(rows), getattr(alone, method)(rows[~bad]), bad)
    for method in ("ppf", "isf"):
        equal(getattr(marked, method)([0.1, 0.5]), getattr(alone, method)([0.1, 0.5]), bad)
    equal(marked.mean(), alone.mean(), bad)
    equal(marked.median(), alone.median(), bad)
    equal(marked.restricted_mean(3.0), alone.restricted_mean(3.0), bad)
    for mine, own in zip(marked.interval(0.8), alone.interval(0.8), strict=True):
        equal(mine, own, bad)
    later = marked.given(after=[1.0, 2.0, 3.0, 4.0])
    equal(later.sf(5.0), alone.given(after=[1.0, 3.0, 4.0]).sf(5.0), bad)
    with pytest.raises(InputError, match=r"q must be a number, a vector or of shape \(4, k\), not \(2, 2\)"):
        marked.ppf(np.full((2, 2), 0.5))
    with pytest.raises(InputError, match=r"after must be one number, or one for each of the 4 rows, not \(3,\)"):
        marked.given([1.0, 2.0, 3.0])
    assert not marked.discrete
    assert marked.codes([1.0]).tolist() == [1.0]
    for index in (slice(1, 3), [3, 1], np.array([True, True, False, False]), 1, -1):
        part = marked[index]
        own = np.arange(4)[index if not isinstance(index, int) else [index]]
        assert part.reasons.tolist() == marked.reasons[own].tolist()
        assert np.array_equal(part.cdf(points), marked.cdf(points)[own], equal_nan=True)
    named = model.predict_distribution(table.set_index(pd.Index(["p", "q", "r", "s"])), on_bad_rows="mark")
    assert (named.outcome_name, list(named.labels), list(named.good_rows.labels)) == ("time", list("pqrs"), list("prs"))
    assert (list(named[1:3].labels), list(named[1:3].good_rows.labels)) == (["q", "r"], ["r"])
    assert repr(marked[:2]).startswith("MarkedDistribution(2 rows, 1 of them bad, of PredictedDistribution(1 rows")
    counts = fitted("Poisson").predict_distribution(table, on_bad_rows="mark")
    equal(counts.pmf([0, 1]), counts.good_rows.pmf([0, 1]), bad)
    equal(counts.variance(), counts.good_rows.variance(), bad)
    equal(counts.crps([1.0, 2.0, 3.0, 4.0]), counts.good_rows.crps([1.0, 3.0, 4.0]), bad)


def test_scores_and_plots_ask_for_the_good_rows() -> None:
    table = DATA[:3].assign(age=[30.0, np.nan, 60.0])
    marked = fitted("normal").predict_distribution(table, on_bad_rows="mark")
    with pytest.raises(
        InputTypeError, match=r"1 of the 3 rows are marked as bad: score the others, .*good_rows with y\[~"
    ):
        atm.scores.crps(marked, DATA.time[:3])
    with pytest.raises(UnavailableError, match=r"marked bad rows do not have basis: use distribution\.good_rows"):
        atm.plotting.distributions(marked)
    assert not hasattr(marked, "theta")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = marked.nonsense
    assert atm.scores.crps(marked.good_rows, DATA.time[:3][~marked.bad]).shape == (2,)


def test_tables_in_memory_in_batches_and_in_dask_agree(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.dataframe as dd

    monkeypatch.setattr(sources, "BATCH_ROWS", 60)
    table = DATA.assign(stage=DATA.stage.where(DATA.index % 7 > 0, "V"), age=DATA.age.where(DATA.index % 50 < 49))
    table.loc[:59, "age"] = np.nan  # the whole first batch is bad
    n = int(((table.stage == "V") & table.age.notna()).sum())  # only rows that are predicted count
    for name, asked in (("Cox", {"quantiles": [0.2], "sf": [2.0]}), ("classes", {}), ("strata", {})):
        model = fitted(name)
        options: dict[str, Any] = {**asked, "on_bad_rows": "mark", "unknown": "rare", "extrapolation": True}
        with pytest.warns(AnchorTMWarning, match=rf"'V' as 'II' \({n} rows\)") as caught:
            memory = atm.predict_table(model, table, **options)
        assert len([w for w in caught if "read as others" in str(w.message)]) == 1
        table.to_parquet(tmp_path / "in.parquet", row_group_size=60)
        with pytest.warns(AnchorTMWarning, match=rf"'V' as 'II' \({n} rows\)") as caught:
            atm.predict_table(model, tmp_path / "in.parquet", tmp_path / "out.parquet", **options)
        assert len([w for w in caught if "read as others" in str(w.message)]) == 1
        read = pd.read_parquet(tmp_path / "out.parquet").astype(memory.dtypes)  # whole numbers with gaps, and yes or no
        pd.testing.assert_frame_equal(read, memory)
        lazy = atm.predict_table(model, dd.from_pandas(table, npartitions=3), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)
            computed = lazy.compute(scheduler="synchronous")
        assert lazy.dtypes.astype(str).tolist() == computed.dtypes.astype(str).tolist()
        pd.testing.assert_frame_equal(computed, memory, check_dtype=False)


def test_rows_are_judged_behind_the_transformers_of_a_pipeline() -> None:
    X = DATA[["age", "dose"]]
    table = X[:5].copy()
    table.iloc[1, 0], table.iloc[3, 1] = np.nan, np.inf
    plain = atm.make_pipeline(StandardScaler(), atm.NormalLinear()).fit(X, DATA.time)
    filled = atm.make_pipeline(SimpleImputer(), StandardScaler(), atm.NormalLinear()).fit(X, DATA.time)
    for pipeline, why in (
        (plain, ["", "age is missing", "", "dose is infinite", ""]),
        (filled, ["", "", "", "dose is infinite", ""]),
    ):
        bad = np.array(why) != ""
        marked = pipeline.predict_distribution(table, on_bad_rows="mark")
        assert marked.reasons.tolist() == why
        equal(marked.cdf(3.0), pipeline.predict_distribution(table[~bad]).cdf(3.0), bad)
        written = atm.predict_table(pipeline, table.assign(other=np.inf), on_bad_rows="mark")
        assert written.reason.tolist() == why
        equal(written.prediction, pipeline.predict(table[~bad]), bad)
        for rows in (table[3:4], table[:0]):
            none = pipeline.predict_distribution(rows, on_bad_rows="mark")
            assert none.cdf([2.0, 3.0]).shape == (len(rows), 2)
            assert none.bad.all()


def test_a_search_marks_rows() -> None:
    search = atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0], objective="mean")
    search.fit(DATA[["age", "dose"]], DATA.time, environments=DATA.site)
    table = DATA[["age", "dose"]][:3].assign(age=[30.0, np.nan, 60.0])
    written = atm.predict_table(search, table, on_bad_rows="mark")
    assert written.reason.tolist() == ["", "age is missing", ""]
    equal(written.prediction, search.predict(table.iloc[[0, 2]]), np.array([False, True, False]))
    equal(search.predict(table, on_bad_rows="mark"), search.predict(table.iloc[[0, 2]]), np.array([False, True, False]))


def test_many_different_unknown_levels_take_no_longer() -> None:
    model = fitted("normal")
    n = 20_000
    table = pd.DataFrame({"age": 30.0, "dose": 0.0, "stage": [f"level {k}" for k in range(n)]})
    table.loc[0, "stage"] = "I"
    marked = model.predict_distribution(table, on_bad_rows="mark")
    assert int(marked.bad.sum()) == n - 1
    assert marked.reasons[-1] == f"stage 'level {n - 1}' is unknown"
    with pytest.warns(AnchorTMWarning, match=r"\(1 row\), and 19994 more levels"):
        model.predict(table, unknown="baseline")


def test_control_characters_stay_out_of_reasons() -> None:
    table = DATA[:1].assign(stage="\x1b[31m" + "x" * 200)
    reason = fitted("normal").predict_distribution(table, on_bad_rows="mark").reasons[0]
    assert reason.startswith("stage '\\x1b[31mxx")
    assert len(reason) < 100


def test_errors_in_batches_say_where_the_batch_begins(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 60)
    table = DATA.assign(age=DATA.age.where(DATA.index != 130))
    table.to_parquet(tmp_path / "in.parquet", row_group_size=60)
    for options, match in (
        ({}, r"'age' is missing in 1 row, first at row 10; .* \(rows counted from row 120 of the table\)"),
        ({"unknown": "rare"}, r"1 of 60 rows cannot be predicted: age is missing .*first row 10\).* from row 120"),
    ):
        with pytest.raises(InputError, match=match):
            atm.predict_table(fitted("normal"), tmp_path / "in.parquet", tmp_path / "out.parquet", **options)
        assert not (tmp_path / "out.parquet").exists()


@pytest.mark.slow
@pytest.mark.parametrize("terms", ["age + dose", "age + stage + sex", "stage:age + bs(dose, 4, extrapolation='clip')"])
def test_marking_takes_at_most_half_as_long_again(terms: str) -> None:
    model = atm.NormalLinear.from_formula(f"time ~ {terms}", DATA)
    table = DATA.iloc[np.random.default_rng(0).integers(0, N, 1_000_000)].reset_index(drop=True)

    def seconds(**options: Any) -> float:
        start = perf_counter()
        model.predict_distribution(table, **options)
        return perf_counter() - start

    pairs = [(seconds(), seconds(on_bad_rows="mark")) for _ in range(7)]  # side by side, as the machine may be busy
    plain, marked = (min(times) for times in zip(*pairs, strict=True))
    assert marked < 1.5 * plain


def test_only_predicted_rows_count_as_mapped() -> None:
    data = DATA.assign(stage=DATA.stage.astype(str))
    model = atm.NormalLinear.from_formula("time ~ age + stage", data)
    new = data[:2].assign(age=[np.nan, 3.0], stage=["ZZ", "YY"])
    with pytest.warns(AnchorTMWarning, match=r"'YY' as .*\(1 row\)") as told:
        found = atm.predict_table(model, new, on_bad_rows="mark", unknown="baseline")
    assert "ZZ" not in str(told[0].message)
    assert found.mapped.tolist()[0] == ""
    assert "YY" in found.mapped.tolist()[1]


def test_all_missing_values_are_listed_with_the_remedy() -> None:
    """Before, an error named the first column with missing values only, and did not say how to go on."""
    model = atm.NormalLinear.from_formula("dose ~ age + stage + sex", DATA)
    holes = DATA[:20].assign(
        age=np.where(np.arange(20) % 9, DATA.age[:20], np.nan), sex=np.where(np.arange(20) == 9, None, DATA.sex[:20])
    )
    expected = (
        "missing values (NaN) in 2 columns: covariate 'age' (3 rows), covariate 'sex' (1 row); impute or drop these 3 "
        'of 20 rows, or predict with on_bad_rows="mark"'
    )
    for ask in (model.predict, model.predict_distribution, lambda X: atm.predict_table(model, X, quantiles=[0.5])):
        with pytest.raises(MissingValueError) as caught:
            ask(holes)
        assert str(caught.value) == expected
    with pytest.raises(MissingValueError) as caught:
        model.predict(holes.assign(sex="f"))
    assert str(caught.value) == (
        "covariate 'age' is missing in 3 rows, first at row 0; drop or impute such rows, or predict with "
        'on_bad_rows="mark"'
    )
    arrays = atm.NormalLinear().fit(DATA[["age", "log_time"]], DATA.dose)
    with pytest.raises(MissingValueError, match=r"covariate .age. \(3 rows\), covariate .log_time. \(20 rows\)"):
        arrays.predict(holes[["age"]].assign(log_time=np.nan))
    with pytest.raises(MissingValueError) as caught:
        model.score(holes)
    assert "on_bad_rows" not in str(caught.value)  # which score does not have


def test_unknown_levels_are_counted_with_the_remedy() -> None:
    """Before, an error about unknown levels did not say in how many rows, nor how to go on."""
    model = atm.NormalLinear.from_formula("dose ~ age + stage", DATA)
    stage = DATA.stage[:20].to_numpy(dtype=object).copy()
    stage[[4, 7, 9]] = ["V", "0", "V"]
    new = DATA[:20].assign(stage=stage)
    said = "covariate 'stage' has levels that the fit has not seen: 0, V (3 rows, first at row 4); known: I, II, III; "
    with pytest.raises(InputError) as caught:
        model.predict(new)
    assert str(caught.value) == (
        said + 'drop these rows or merge levels, or predict with unknown="baseline" (or "rare") or on_bad_rows="mark"'
    )
    with pytest.raises(InputError) as caught:
        model.score(new)
    assert str(caught.value) == said + "drop these rows or merge levels"
