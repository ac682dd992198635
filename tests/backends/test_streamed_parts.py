"""Parts of models on tables that are read in batches: the fits are those in memory."""

import math
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
from simulated import same_fit, table

import anchortm as atm
from anchortm.backends import scan, sources, streamed_blocks
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.exceptions import IdentificationError, InputError, SeparationError
from anchortm.inference import covariance
from anchortm.inputs.design import WideMatrix

TIGHT = {"tol": 1e-10}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    data, wave = table(1800, 3), rng.normal(size=1800)
    place = rng.integers(0, 110, len(data))
    shift = 0.5 * rng.normal(size=110)
    y = data.y * np.exp(0.2 * shift[place])
    limit = float(np.quantile(y, 0.9))
    return data.assign(
        x0=data.x0 + 0.7 * wave,
        wave=wave,
        y=y,
        time=np.minimum(y, limit),
        event=y < limit,
        place=[f"p{k:03d}" for k in place],
        spot=[f"q{k:03d}" for k in rng.integers(0, 105, len(data))],
        half=np.where(rng.random(len(data)) < 0.5, "left", "right"),
        noise=rng.normal(size=len(data)),
        more=rng.normal(size=len(data)),
        copies=rng.integers(1, 4, len(data)).astype(float),
    )


@pytest.fixture(scope="module")
def files(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for k, part in enumerate((rows[:300], rows[300:1000], rows[1000:])):
        part.to_parquet(folder / f"part{k}.parquet", row_group_size=170, index=False)
    return folder


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 500)


SURV = "Surv(time, event)"
BOTH = {"sample_weight": "copies", "offset": "shift"}
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "strata": (atm.ContinuousLogit, f"{SURV} | group ~ x0 + x1 | site", {"xi": 2.0, "order": 3}),
    "two strata": (atm.ContinuousProbit, "y | group + half ~ x0 | site", {"xi": 2.0, "order": 3} | BOTH),
    "strata of lines": (atm.NormalLinear, "y | region ~ x0 + x1 | site", {"xi": 2.0}),
    "strata of classes": (atm.OrdinalRegression, "quality | group ~ x0 | site", {"xi": 2.0}),
    "varying number": (atm.ContinuousLogit, f"{SURV} ~ x0 + x1 | site", {"xi": 1.0, "order": 3, "varying": ["x1"]}),
    "varying factor": (atm.ContinuousLogit, "y ~ x0 + group | site", {"xi": 1.0, "order": 3, "varying": "group"}),
    "varying binary": (atm.OrdinalRegression, "quality ~ x0 + half | site", {"xi": 1.0, "varying": "half"}),
    "varying and strata": (
        atm.ContinuousLogit,
        "y | group ~ x0 + x1 | site",
        {"xi": 1.0, "order": 3, "varying": {"x1": (-5.0, 6.0)}} | BOTH,
    ),
    "scale": (atm.ContinuousLogit, f"{SURV} ~ x0 + x1 | site", {"xi": 2.0, "order": 3, "scale": "x0"}),
    "scale, its own xi": (
        atm.ContinuousProbit,
        "y ~ x0 + group | site",
        {"xi": 2.0, "order": 3, "scale": "x0 + group", "xi_scale": 0.5} | BOTH,
    ),
    "scale without anchors": (atm.OrdinalRegression, "quality ~ x0 + x1", {"scale": ["x1"]}),
    "scale and strata": (
        atm.ContinuousLogit,
        f"{SURV} | half ~ x0 + x1 | site",
        {"xi": 2.0, "order": 3, "scale": "x0"} | BOTH,
    ),
    "scale and varying": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 | site",
        {"xi": 1.0, "order": 3, "scale": "x0", "varying": ["x1"]},
    ),
    "scale and ridge": (
        atm.ContinuousProbit,
        "y ~ x0 + x1 + noise | site",
        {"xi": 1.0, "order": 3, "scale": ["x0"], "l2": 0.1, "penalty_factor": "deviation"} | BOTH,
    ),
    "scale and lasso": (
        atm.ContinuousLogit,
        f"{SURV} ~ x0 + x1 + noise | site",
        {"xi": 1.0, "order": 3, "scale": ["x0"], "l1": 0.05},
    ),
    "scale and smooth": (
        atm.ContinuousLogit,
        "y ~ s(x0, 5) + x1 | site",
        {"xi": 1.0, "order": 3, "scale": "x1", "smooth": 0.1},
    ),
    "smooth scale": (
        atm.ContinuousLogit,
        "y ~ s(x0, 5) + x1 | site",
        {"xi": 1.0, "order": 3, "scale": "s(x0, 5)", "xi_scale": 0.1, "smooth": 0.1} | BOTH,
    ),
    "smooth": (atm.ContinuousLogit, f"{SURV} ~ s(x0) + x1 | site", {"xi": 2.0, "order": 3, "smooth": 0.1}),
    "smooth and strata": (
        atm.ContinuousLogit,
        "y | group ~ s(x0, 6) + x1 | site",
        {"xi": 2.0, "order": 3, "smooth": 0.1} | BOTH,
    ),
    "lasso": (
        atm.ContinuousLogit,
        f"{SURV} ~ x0 + x1 + x2 + noise + more | site",
        {"xi": 2.0, "order": 3, "l1": 0.02},
    ),
    "lasso by deviations": (
        atm.ContinuousProbit,
        "y ~ x0 + x1 + x2 + noise + more + I(10 * year) | site",
        {"xi": 1.0, "order": 3, "l1": 0.02, "l2": 0.01, "penalty_factor": "deviation"} | BOTH,
    ),
    "lasso without anchors": (atm.OrdinalRegression, "quality ~ x0 + x1 + noise + more + group", {"l1": 0.05}),
    "ridge by deviations": (
        atm.ContinuousLogit,
        "y ~ x0 + I(10 * year) | site",
        {"xi": 1.0, "order": 3, "l2": 0.1, "penalty_factor": "deviation", "sample_weight": "share"},
    ),
    "lasso, strata and smooth": (
        atm.ContinuousLogit,
        "y | half ~ s(x0, 5) + x1 + noise | site",
        {"xi": 1.0, "order": 3, "l1": 0.02, "smooth": 0.1},
    ),
    "lasso and varying": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 + noise | site",
        {"xi": 1.0, "order": 3, "l1": 0.02, "varying": ["x1"]} | BOTH,
    ),
    "wide": (atm.ContinuousLogit, f"{SURV} ~ x0 + x1 + place | region", {"xi": 1.0, "order": 3}),
    "wide, normal": (atm.ContinuousProbit, "y ~ x0 + place | region", {"xi": 1.0, "order": 3} | BOTH),
    "wide, twice": (atm.ContinuousLogit, "y ~ x0 + place + spot", {"order": 3}),
    "wide, intervals": (atm.ContinuousLogit, "Interval(low, high) ~ x0 + place | year", {"xi": 1.0, "order": 3} | BOTH),
    "wide and strata": (atm.ContinuousLogit, f"{SURV} | half ~ x0 + place | year", {"xi": 1.0, "order": 2} | BOTH),
    "wide and varying": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 + place | year",
        {"xi": 1.0, "order": 2, "varying": ["x1"]},
    ),
    "wide and scale": (atm.ContinuousLogit, "y ~ x0 + place | year", {"xi": 1.0, "order": 2, "scale": "x0"}),
    "wide and lasso": (atm.ContinuousLogit, f"{SURV} ~ x0 + noise + place", {"order": 2, "l1": 0.01} | BOTH),
    "wide and smooth": (atm.ContinuousProbit, "y ~ s(x0, 5) + place", {"order": 2}),
    "the limit with strata": (atm.ContinuousLogit, f"{SURV} | half ~ x0 + x1 | wave", {"xi": math.inf, "order": 2}),
    "the limit with a scale": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 | wave",
        {"xi": math.inf, "xi_scale": 0.0, "order": 2, "scale": "x0"},
    ),
    "the limit with a ridge": (atm.ContinuousLogit, "y ~ x0 + x1 | wave", {"xi": math.inf, "order": 2, "l2": 0.1}),
    "the limit with a lasso": (atm.ContinuousLogit, "y ~ x0 + noise | wave", {"xi": math.inf, "order": 2, "l1": 0.01}),
    "the limit with a wide factor": (atm.ContinuousLogit, "y ~ x0 + place | wave", {"xi": math.inf, "order": 2}),
}


# parts that other cases have too
AGAIN = {
    *("scale without anchors", "scale and varying", "scale and lasso", "smooth scale", "lasso without anchors"),
    *("lasso, strata and smooth", "wide, normal", "wide, twice", "wide, intervals", "wide and varying"),
    *("wide and scale", "wide and lasso", "wide and smooth", "the limit with strata", "the limit with a scale"),
    *("the limit with a ridge", "the limit with a wide factor"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in AGAIN else ()) for case in CASES]
)
def test_batches_and_memory_agree(case: str, rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether start values come from all rows or from a part of them."""
    model, formula, options = CASES[case]
    tight = options | TIGHT
    memory = model.from_formula(formula, rows, **tight)
    same_fit(model.from_formula(formula, files, **tight), memory)
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 400)
    streamed = model.from_formula(formula, files, **tight)
    same_fit(streamed, memory, sampled=True)
    assert streamed.n_passes_ <= (40 if "wide" in case or "limit" in case else 15)


EVERY = {
    "scale": (f"{SURV} | half ~ s(x0, 5) + x1 + noise | site", {"scale": "x1", "l1": 0.01, "smooth": 0.1}),
    "wide": ("y | half ~ x0 + x1 + place | year", {"varying": ["x1"]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", EVERY)
def test_every_source_and_batch_size(
    case: str, rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formula, options = EVERY[case]
    options = options | {"xi": 1.0, "order": 2} | BOTH | TIGHT
    memory = atm.ContinuousLogit.from_formula(formula, rows, **options)
    lazy = pl.scan_parquet(files / "*.parquet")
    for source in (lazy, ds.dataset(files), dd.from_pandas(rows, npartitions=3)):
        same_fit(atm.ContinuousLogit.from_formula(formula, source, **options), memory)
    for size in (331, 5000):
        monkeypatch.setattr(sources, "BATCH_ROWS", size)
        same_fit(atm.ContinuousLogit.from_formula(formula, files, n_jobs=2, **options), memory)


@pytest.mark.parametrize("case", ["varying and strata", "scale, its own xi", "lasso and varying", "wide, normal"])
def test_weights_are_copies(case: str, rows: pd.DataFrame, files: Path, tmp_path: Path) -> None:
    model, formula, options = CASES[case]
    rows.loc[rows.index.repeat(rows.copies.astype(int))].to_parquet(tmp_path / "copies.parquet", index=False)
    tight = options | TIGHT
    weighted = model.from_formula(formula, files, **tight)
    support = {"support": weighted.support_}
    copied = model.from_formula(formula, tmp_path, **tight | {"sample_weight": None} | support)
    np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(weighted.baseline_, copied.baseline_, rtol=1e-8, atol=1e-8)
    assert weighted.loss_ == pytest.approx(copied.loss_, rel=1e-9)


KEPT = ["strata", "varying and strata", "scale, its own xi", "smooth scale", "lasso by deviations", "wide and strata"]


@pytest.mark.parametrize("case", KEPT)
def test_the_model_is_whole(case: str, rows: pd.DataFrame, files: Path, tmp_path: Path) -> None:
    """Its arguments, predictions and record are those of the fit in memory, also after a round trip to a file."""
    model, formula, options = CASES[case]
    memory, streamed = (model.from_formula(formula, data, **options, **TIGHT) for data in (rows, files))
    assert str(streamed.get_params()) == str(memory.get_params())
    atm.save(streamed, tmp_path / "model.json")
    for one in (streamed, atm.load(tmp_path / "model.json")):
        np.testing.assert_allclose(one.predict(rows[:30]), memory.predict(rows[:30]), rtol=1e-7)
        np.testing.assert_allclose(one.nll(rows[:30]), memory.nll(rows[:30]), rtol=1e-7)
    assert list(streamed.feature_names_in_) == list(memory.feature_names_in_)
    np.testing.assert_allclose(streamed.covariate_ranges_, memory.covariate_ranges_)


@pytest.mark.parametrize("case", ["two strata", "varying number", "scale and ridge", "smooth", "ridge by deviations"])
def test_sandwich(case: str, rows: pd.DataFrame, files: Path) -> None:
    model, formula, options = CASES[case]
    memory, streamed = (model.from_formula(formula, data, **options, **TIGHT) for data in (rows, files))
    np.testing.assert_allclose(streamed.covariance("sandwich"), memory.covariance("sandwich"), rtol=1e-6, atol=1e-12)


def test_the_influence_of_rows_with_scale_effects_has_the_penalty(rows: pd.DataFrame) -> None:
    """At the optimum influences add up to 0; the share of rows in the ridge used to be missing."""
    for factor in (None, "deviation"):
        options = {"xi": 1.0, "xi_scale": 0.5, "order": 3, "scale": "x0", "l2": 0.1, "penalty_factor": factor}
        model = atm.ContinuousProbit.from_formula("y ~ x0 + x1 + noise | site", rows, **options, **TIGHT)
        influence = covariance.influence(model)
        assert np.abs(influence.sum(axis=0)).max() < 1e-6 * np.abs(influence).sum(axis=0).max()


def test_a_factor_of_5000_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dummies are never columns of numbers, and no Hessian is levels by levels."""
    monkeypatch.setattr(sources, "BATCH_ROWS", 8000)
    rng = np.random.default_rng(0)
    n, levels = 30_000, 5000
    place, x, region = np.arange(n) % levels, rng.normal(size=n), rng.integers(0, 5, n)
    y = x + 0.5 * rng.normal(size=levels)[place] + 0.3 * region + rng.normal(size=n)
    data = pd.DataFrame({"y": y, "x": x, "place": [f"p{k:04d}" for k in place], "region": region.astype(str)})
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=8000, index=False)

    def dense(*_: Any) -> None:
        raise AssertionError("the factor was filled in")

    monkeypatch.setattr(WideMatrix, "toarray", dense)
    monkeypatch.setattr(Arrow, "toarray", dense)
    formula, options = "y ~ x + place | region", {"xi": 2.0, "order": 2} | TIGHT
    memory = atm.ContinuousProbit.from_formula(formula, data, **options)
    streamed = atm.ContinuousProbit.from_formula(formula, tmp_path, **options)
    same_fit(streamed, memory, sampled=True)
    assert streamed.coef_.size == levels
    assert streamed.n_passes_ <= 15


def test_many_columns_are_made_a_few_rows_at_a_time(
    rows: pd.DataFrame, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    whole = streamed_blocks.Plan.objective

    def objective(plan: Any, batch: Any) -> Any:
        sizes.append(len(batch.response))
        return whole(plan, batch)

    monkeypatch.setattr(streamed_blocks.Plan, "objective", objective)
    monkeypatch.setattr(streamed_blocks, "MOST_ENTRIES", 1000)
    monkeypatch.setattr(streamed_blocks, "BLOCK_ROWS", 50)
    for formula, options in (
        ("y | half + group ~ x0 + x1 | site", {"xi": 1.0}),
        (f"{SURV} ~ x0 + place | year", {"xi": 1.0, "scale": "x0"}),
    ):
        options = options | {"order": 2} | BOTH | TIGHT
        memory = atm.ContinuousLogit.from_formula(formula, rows, **options)
        sizes.clear()
        streamed = atm.ContinuousLogit.from_formula(formula, files, **options)
        same_fit(streamed, memory)
        assert sorted(sizes)[len(sizes) // 2] <= 50
    data = rows.assign(time=np.where(np.arange(len(rows)) == 300, 0.0, rows.time))
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=500, index=False)
    with pytest.raises(InputError, match="at row 300"):
        atm.ParametricSurvival.from_formula("Surv(time, event) ~ x0 + x1", tmp_path)


def test_too_many_strata_are_refused_before_the_second_pass(rows: pd.DataFrame, tmp_path: Path) -> None:
    rows.assign(one=np.arange(len(rows))).to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.raises(InputError, match="1800 strata, levels and ends for 1800 rows are too many baselines"):
        atm.ContinuousLogit.from_formula("y | one ~ x0", tmp_path)


def test_random_effects_need_all_rows_of_a_cluster(files: Path) -> None:
    with pytest.raises(InputError, match="the integral over the effects of a cluster needs all its rows at once"):
        atm.NormalLinear.from_formula("y ~ x0 + (1 | site)", files)


def test_what_the_rows_do_not_determine_is_named(rows: pd.DataFrame, tmp_path: Path) -> None:
    def fit(formula: str, change: dict[str, Any] | None = None, **options: Any) -> Any:
        rows.assign(**(change or {})).to_parquet(tmp_path / "rows.parquet", row_group_size=500, index=False)
        return atm.ContinuousLogit.from_formula(formula, tmp_path / "rows.parquet", order=2, **options)

    in_half = (rows.half == "left").astype(float)
    holed = rows.half.where(np.arange(len(rows)) != 1234, None)
    with pytest.raises(IdentificationError, match="collinear covariates: z, stratum right"):
        fit("y | half ~ x0 + z", change={"z": in_half})
    with pytest.raises(InputError, match="there is a single stratum, 'here'"):
        fit("y | here ~ x0", change={"here": "here"})
    with pytest.raises(InputError, match=r"'half' is missing in 1 row, first at row 234; .*counted from row 1000"):
        fit("y | half ~ x0", change={"half": holed})
    with pytest.raises(InputError, match=r"x1 is .* beyond its range \(0, 1\)"):
        fit("y ~ x0 + x1", varying={"x1": (0.0, 1.0)})
    with pytest.raises(IdentificationError, match="constant within every level of place: z"):
        fit("y ~ x0 + z + place", change={"z": rows.place.str[1:].astype(float)})
    late = {"event": rows.event & (rows.place != "p003")}
    with pytest.raises(SeparationError, match=r"all rows of place\[T.p003\] are right-censored"):
        fit(f"{SURV} ~ x0 + place", change=late)
    alone = np.zeros(len(rows))
    alone[7] = 1.0
    with pytest.raises(SeparationError, match=r"z \(scale\) makes the spread of y at 1 of 1800 rows"):
        fit("y ~ x0 + z", change={"z": alone}, scale="z")
    with pytest.raises(InputError, match="301 columns of numbers, more than 300"):
        fit("y ~ bs(x0, 100) + bs(x1, 100) + bs(x2, 100) + noise")
    fit("y ~ x0 + I(2 * x0)", l2=0.1)  # the penalty determines what rows do not
