"""Paths, left-out environments, searches, the bootstrap and score tests of tables that are read in batches."""

import math
import threading
from collections.abc import Callable
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
from anchortm.backends import scan, sources, streamed
from anchortm.backends.lockstep import side_by_side
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError

X = "x0 + x1"
XIS = [0.0, 5.0]
TIGHT = {"tol": 1e-10}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    data = table(900)
    many = [f"doctor {k}" for k in np.arange(len(data)) % 105]
    return data.assign(block=data.site.str[-1].astype(int) // 2, many=many)


@pytest.fixture(scope="module")
def files(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the rows in two Parquet files."""
    folder = tmp_path_factory.mktemp("questions")
    for k, part in enumerate((rows[:300], rows[300:])):
        part.to_parquet(folder / f"part{k}.parquet", row_group_size=100, index=False)
    return folder


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 300)


def same_table(a: pd.DataFrame, b: pd.DataFrame) -> None:
    assert a.environment.tolist() == b.environment.tolist()
    assert list(a.columns) == list(b.columns)
    assert a.notes.tolist() == b.notes.tolist()
    numbers = [name for name in a if name not in ("environment", "notes")]
    np.testing.assert_allclose(a[numbers].astype(float), b[numbers].astype(float), rtol=1e-8, atol=1e-8)


# formula, options of the model, options of the question
CASES: dict[str, tuple[Any, str, dict[str, Any], dict[str, Any]]] = {
    "censored": (atm.ContinuousLogit, f"Surv(time, event) ~ {X} + group | site", {}, {}),
    "given support": (atm.ContinuousLogit, f"Surv(time, event) ~ {X} | site", {"support": (5.0, 20.0)}, {}),
    "delayed entry": (atm.ProportionalHazards, f"Surv(time, event, entry) ~ {X} | block", {"order": 4}, {}),
    "classes": (atm.OrdinalRegression, f"quality ~ {X} | block", {}, {}),
    "counts": (atm.CountRegression, f"count ~ {X} | block", {"order": 3}, {}),
    "closed form": (atm.NormalLinear, f"y ~ {X} + group | block", {}, {"sample_weight": "weight"}),
    "two anchors": (atm.ContinuousProbit, f"y ~ {X} | site + year", {"order": 4}, {"environments": "block"}),
    "environments alone": (atm.ContinuousLogit, f"y ~ {X}", {"order": 4}, {"environments": "block"}),
    "numeric anchor": (atm.ContinuousLogit, f"y ~ {X} | year", {"order": 4}, {"environments": "block"}),
    "shares and offset": (
        atm.ContinuousLogit,
        f"y ~ {X} | block",
        {"order": 4},
        {"sample_weight": "share", "offset": "shift"},
    ),
    "strata": (atm.ContinuousLogit, f"y | region ~ {X} | block", {"order": 3}, {}),
    "varying effects": (atm.ContinuousLogit, f"Surv(time, event) ~ {X} | block", {"order": 3, "varying": "x1"}, {}),
    "scale effects": (atm.ContinuousProbit, f"y ~ {X} | block", {"order": 3, "scale": "x0"}, {}),
    "a lasso": (atm.ContinuousLogit, f"y ~ {X} + group | block", {"order": 3, "l1": 0.05, "l2": 0.01}, {}),
    "smooth terms": (atm.OrdinalRegression, "quality ~ s(x0, 5) + x1 | block", {"smooth": 0.1}, {}),
    "a wide factor": (atm.ContinuousLogit, f"y ~ {X} + many | block", {"order": 3}, {}),
    "remembering terms": (atm.ContinuousLogit, "y ~ bs(x0, 4) + scale(x1) | block", {"order": 4}, {}),
}


# beside cases that have the same, here or in inputs/test_parts.py
AGAIN = {
    *("given support", "environments alone", "numeric anchor", "strata", "varying effects", "scale effects"),
    *("smooth terms", "a wide factor", "remembering terms"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in AGAIN else ()) for case in CASES]
)
def test_left_out_environments_as_in_memory(case: str, rows: pd.DataFrame, files: Path) -> None:
    model, formula, options, more = CASES[case]
    model = model(**options, **TIGHT)
    memory = atm.leave_one_environment_out(model, formula, rows, xis=XIS, **more)
    batches = atm.leave_one_environment_out(model, formula, files, xis=XIS, **more)
    same_table(batches.frame(), memory.frame())
    assert memory.n_passes is None
    assert batches.n_passes is not None
    assert batches.n_passes <= 25


@pytest.mark.slow
def test_left_out_environments_of_a_wide_factor_at_the_limit(rows: pd.DataFrame, files: Path) -> None:
    """The limit needs dummies, and finite xi beside it are those of the factor."""
    model, formula = atm.ContinuousLogit(order=3, **TIGHT), f"y ~ {X} + many | year"
    options: dict[str, Any] = {"environments": "block"}
    memory = atm.leave_one_environment_out(model, formula, rows, xis=[0.0, math.inf], **options).frame()
    batches = atm.leave_one_environment_out(model, formula, files, xis=[0.0, math.inf], **options).frame()
    finite = atm.leave_one_environment_out(model, formula, rows, xis=[0.0, 1e7], **options).frame()
    same_table(batches, memory)
    np.testing.assert_allclose(memory.nll, finite.nll, atol=1e-5)


def test_left_out_environments_are_fits_without_them(rows: pd.DataFrame, files: Path) -> None:
    """Each row of the table is the fit to the table without an environment, and its loss on the rows of that."""
    formula = f"Surv(time, event) ~ {X} | block"
    model = atm.ContinuousLogit(order=4, **TIGHT)
    found = atm.leave_one_environment_out(model, formula, files, xis=[0.0, 5.0]).frame()
    assert len(found) == 2 * rows.block.nunique()
    for row in found.itertuples():
        rest, own = rows[rows.block != row.environment], rows[rows.block == row.environment]
        fit = atm.ContinuousLogit.from_formula(formula, rest, xi=row.xi, order=4, **TIGHT)
        assert row.n == len(own)
        assert row.nll == pytest.approx(fit.nll(own).mean(), abs=1e-9)
        assert row.coef_x0 == pytest.approx(fit.coef_[0], abs=1e-8)


def test_beyond_the_sample(rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Supports and fits are exact if samples hold a fraction of the rows."""
    monkeypatch.setattr(scan, "WIDE_ROWS", 300)
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 150)
    for options in ({}, {"sample_weight": "weight"}):
        model, formula = atm.ContinuousLogit(order=4, **TIGHT), f"y ~ {X} | block"
        memory = atm.leave_one_environment_out(model, formula, rows, xis=XIS, **options)
        batches = atm.leave_one_environment_out(model, formula, files, xis=XIS, **options)
        same_table(batches.frame(), memory.frame())
        assert batches.n_passes is not None
        assert batches.n_passes <= 25


def test_few_passes_for_many_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty environments at five xi, a hundred fits, from a sample of a tenth of the rows."""
    rng = np.random.default_rng(3)
    data = table(2000, seed=3).assign(site=rng.integers(0, 20, 2000))
    data.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=150)
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 200)
    model, formula = atm.ContinuousLogit(order=4), f"Surv(time, event) ~ {X} | site"
    xis = [0.0, 1.0, 10.0, 100.0, 1000.0]
    found = atm.leave_one_environment_out(model, formula, tmp_path / "rows.parquet", xis=xis)
    assert found.frame().shape[0] == 100
    assert found.frame().converged.all()
    assert found.n_passes is not None
    assert found.n_passes <= 35
    one = atm.ContinuousLogit.from_formula(formula, tmp_path / "rows.parquet", xi=10.0, order=4)
    assert found.n_passes <= 5 * one.n_passes_


def test_groups_of_fits(rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all sums fit into memory at once, fits wait for others to end."""
    model, formula = atm.ContinuousLogit(order=3, **TIGHT), f"y ~ {X} | block"
    whole = atm.leave_one_environment_out(model, formula, files, xis=XIS)
    monkeypatch.setattr(streamed, "MOST_FITS", 4)
    few = atm.leave_one_environment_out(model, formula, files, xis=XIS)
    same_table(few.frame(), whole.frame())
    assert few.n_passes is not None
    assert whole.n_passes is not None
    assert few.n_passes > whole.n_passes


@pytest.mark.parametrize(
    ("model", "formula", "xis"),
    [
        (atm.ContinuousLogit(**TIGHT), f"Surv(time, event) ~ {X} + group | site", [10.0, 0.0, 1.0, 100.0]),
        (atm.OrdinalRegression(**TIGHT), f"quality ~ {X} | site", [0.0, 1.0, 30.0]),
        (atm.NormalLinear(**TIGHT), f"y ~ {X} | site + year", [-0.25, 0.0, 10.0]),
        (atm.ContinuousLogit(order=3, **TIGHT), f"y | region ~ {X} | site", [0.0, 5.0]),
        (atm.ContinuousLogit(order=3, **TIGHT), f"y ~ {X} + many | site", [0.0, 5.0]),
        (atm.ContinuousLogit(order=3, **TIGHT), f"y ~ {X} | year", [0.0, 3.0, math.inf]),
        (atm.NormalLinear(**TIGHT), f"y ~ {X} + many | year", [-0.25, 0.0, math.inf]),
    ],
)
def test_path_as_in_memory(model: Any, formula: str, xis: list[float], rows: pd.DataFrame, files: Path) -> None:
    memory = atm.anchor_path(model, formula, rows, xis=xis)
    batches = atm.anchor_path(model, formula, files, xis=xis)
    for a, b in zip(batches.models, memory.models, strict=True):
        same_fit(a, b)
        np.testing.assert_allclose(a.predict(rows[:5]), b.predict(rows[:5]), rtol=1e-7)
    assert memory.n_passes is None
    assert batches.n_passes is not None
    assert batches.n_passes <= (70 if math.inf in xis else 8)
    assert batches.models[0].n_passes_ == batches.n_passes


def test_formulas_are_short_for_columns(rows: pd.DataFrame) -> None:
    """In memory, a formula and a table give what their columns give."""
    frame = atm.Formula(f"quality ~ {X} | site", rows)
    model = atm.OrdinalRegression()
    by_columns = atm.leave_one_environment_out(model, frame.X, frame.y, rows.site, XIS, sample_weight=rows.share)
    by_formula = atm.leave_one_environment_out(model, f"quality ~ {X} | site", rows, xis=XIS, sample_weight="share")
    pd.testing.assert_frame_equal(by_formula.frame(), by_columns.frame())
    path = atm.anchor_path(model, f"quality ~ {X} | site", rows, xis=XIS, offset="shift")
    again = atm.anchor_path(model, frame.X, frame.y, frame.anchors, XIS, offset=rows["shift"])
    np.testing.assert_array_equal(path.coefs, again.coefs)
    test = atm.diagnostics.score_test(model, f"quality ~ {X} | site", rows, method="observed")
    assert test == atm.diagnostics.score_test(model, frame.X, frame.y, frame.anchors, method="observed")
    strata = atm.anchor_path(atm.ContinuousLogit(order=2), f"y | region ~ {X} | year", rows, xis=[1.0])
    fit = atm.ContinuousLogit.from_formula(f"y | region ~ {X} | year", rows, xi=1.0, order=2)
    np.testing.assert_allclose(strata.models[0].coef_, fit.coef_, atol=1e-6)
    np.testing.assert_allclose(strata.models[0].predict(rows[:3]), fit.predict(rows[:3]), atol=1e-4)


def test_boosted_models_by_formula(rows: pd.DataFrame) -> None:
    model = atm.AnchorBoostedTM(atm.ContinuousLogit(order=2), n_rounds=3)
    formula = f"y ~ {X} | block"
    found = atm.leave_one_environment_out(model, formula, rows, xis=[1.0]).frame()
    frame = atm.Formula(formula, rows)
    same_table(found, atm.leave_one_environment_out(model, frame.X, frame.y, rows.block, [1.0]).frame())


@pytest.mark.parametrize("how", ["worst", "mean"])
def test_search_as_in_memory(how: str, rows: pd.DataFrame, files: Path) -> None:
    options: dict[str, Any] = {"model": atm.ContinuousLogit(order=4, **TIGHT), "xis": XIS, "objective": how}
    formula = f"Surv(time, event) ~ {X} | block"
    memory = atm.XiSearchCV.from_formula(formula, rows, **options)
    batches = atm.XiSearchCV.from_formula(formula, files, **options)
    assert batches.best_xi_ == memory.best_xi_
    np.testing.assert_allclose(batches.results_.objective, memory.results_.objective, rtol=1e-9)
    same_fit(batches.best_estimator_, memory.best_estimator_)
    np.testing.assert_allclose(batches.predict(rows[:5]), memory.predict(rows[:5]), rtol=1e-7)
    assert memory.n_passes_ is None
    assert batches.n_passes_ == batches.loeo_.n_passes <= 20
    same_table(batches.loeo_.frame(), atm.leave_one_environment_out(options["model"], formula, rows, xis=XIS).frame())


def test_smooth_search_as_in_memory(rows: pd.DataFrame, files: Path) -> None:
    options: dict[str, Any] = {"model": atm.NormalLinear(**TIGHT), "xis": [0.0, 3.0], "smooths": [1.0, 0.01]}
    formula = "y ~ s(x0, 6) + x1 | site + year"
    memory = atm.SmoothSearchCV.from_formula(formula, rows, environments="block", **options)
    batches = atm.SmoothSearchCV.from_formula(formula, files, environments="block", **options)
    assert (batches.best_smooth_, batches.best_xi_) == (memory.best_smooth_, memory.best_xi_)
    same_table(batches.loeo_.frame(), memory.loeo_.frame())
    np.testing.assert_allclose(batches.best_estimator_.coef_, memory.best_estimator_.coef_, atol=1e-8)


BOOTSTRAPS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "strata": (atm.ContinuousLogit, f"y | group ~ {X} | site", {"order": 3, "xi": 5.0}),
    "scale effects": (atm.ContinuousProbit, f"y ~ {X} | site", {"order": 3, "scale": "x0", "xi": 1.0}),
    "censored": (atm.ContinuousLogit, f"Surv(time, event) ~ {X} | site", {"order": 4, "xi": 5.0}),
    "classes": (atm.OrdinalRegression, f"quality ~ {X} | site", {"xi": 5.0}),
    "two anchors": (atm.ContinuousProbit, f"y ~ {X} | site + year", {"order": 4, "xi": 2.0}),
    "weights": (atm.NormalLinear, f"y ~ {X} | site", {"xi": 2.0, "sample_weight": "weight", "offset": "shift"}),
}


@pytest.mark.parametrize("case", BOOTSTRAPS)
def test_bootstrap_as_in_memory(case: str, rows: pd.DataFrame, files: Path) -> None:
    model, formula, options = BOOTSTRAPS[case]
    memory = model.from_formula(formula, rows, **options, **TIGHT).bootstrap(12, random_state=1)
    batches = model.from_formula(formula, files, **options, **TIGHT).bootstrap(12, random_state=1)
    np.testing.assert_allclose(batches.draws, memory.draws, rtol=1e-8, atol=1e-8)
    assert batches.resampled == memory.resampled == "environments (site)"
    assert batches.names == memory.names
    assert memory.n_passes is None
    assert batches.n_passes is not None
    assert batches.n_passes <= 15


def test_bootstrap_of_clusters(rows: pd.DataFrame, files: Path) -> None:
    """A column of clusters that is not among the anchors; covariance and bands use the same draws."""
    fits = [
        atm.ContinuousLogit.from_formula(f"y ~ {X} | year", data, xi=1.0, order=3, **TIGHT) for data in (rows, files)
    ]
    memory = fits[0].bootstrap(12, clusters=rows.site, random_state=2)
    batches = fits[1].bootstrap(12, clusters="site", random_state=2, n_jobs=2, progress=False)
    np.testing.assert_allclose(batches.draws, memory.draws, rtol=1e-8, atol=1e-8)
    matrix = fits[1].covariance("bootstrap", clusters="site", n_bootstrap=12, random_state=2)
    np.testing.assert_allclose(matrix, memory.covariance(), rtol=1e-6, atol=1e-10)
    with pytest.raises(InputError, match="name the column of the clusters"):
        fits[1].bootstrap(12, clusters=rows.site)
    with pytest.raises(InputError, match="there is no column 'place'"):
        fits[1].bootstrap(12, clusters="place")


def test_bootstrap_skips_what_does_not_identify(tmp_path: Path) -> None:
    """Draws without the environment that has all rows of a class are skipped, in both ways the same ones."""
    data = table(300, seed=4)
    sites = np.arange(300) % 12
    data = data.assign(site=sites, quality=np.where((data.quality == 3) & (sites > 2), 2, data.quality))
    data.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=70)
    found = []
    for source in (data, tmp_path / "rows.parquet"):
        model = atm.OrdinalRegression.from_formula("quality ~ x0 | site", source, xi=1.0, **TIGHT)
        with pytest.warns(AnchorTMWarning, match="resampled fits failed"):
            found.append(model.bootstrap(60, random_state=0))
    assert found[0].failed == found[1].failed > 0
    np.testing.assert_allclose(found[1].draws, found[0].draws, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("model", "formula", "options"),
    [
        (atm.ContinuousLogit(), f"Surv(time, event) ~ {X} | site", {}),
        (atm.OrdinalRegression(), f"quality ~ {X} | site", {}),
        (atm.CountRegression(order=3), f"count ~ {X} | site + group + year", {}),
        (atm.NormalLinear(), f"y ~ {X} | year", {"sample_weight": "share"}),
        (atm.ProportionalHazards(), f"Surv(time, event, entry) ~ {X} | site + year", {"sample_weight": "weight"}),
    ],
)
def test_score_test_as_in_memory(
    model: Any, formula: str, options: dict[str, Any], rows: pd.DataFrame, files: Path
) -> None:
    memory = atm.diagnostics.score_test(model, formula, rows, method="observed", **options)
    batches = atm.diagnostics.score_test(model, formula, files, **options)
    assert batches.statistic == pytest.approx(memory.statistic, rel=1e-7)
    assert (batches.df, batches.method) == (memory.df, "observed")
    assert batches.pvalue == pytest.approx(memory.pvalue, rel=1e-6)
    assert batches.n_passes is not None
    assert batches.n_passes <= 12
    with pytest.raises(InputError, match=r"read in batches: take method='observed'"):
        atm.diagnostics.score_test(model, formula, files, method="simulate", **options)


@pytest.mark.slow
def test_every_kind_of_source(rows: pd.DataFrame, files: Path) -> None:
    model, formula = atm.OrdinalRegression(**TIGHT), f"quality ~ {X} + group | block"
    memory = atm.leave_one_environment_out(model, formula, rows, xis=[5.0]).frame()
    lazy, parts = pl.scan_parquet(files / "*.parquet"), dd.from_pandas(rows, npartitions=4)
    for source in (ds.dataset(files), lazy, parts):
        same_table(atm.leave_one_environment_out(model, formula, source, xis=[5.0]).frame(), memory)
    same_table(
        atm.leave_one_environment_out(model, formula, files, xis=[5.0], n_jobs=3, progress=False).frame(), memory
    )


def test_dask(rows: pd.DataFrame) -> None:
    """The works of all fits go to the partitions together."""
    lazy = dd.from_pandas(rows, npartitions=5)
    formula = f"y ~ {X} | block"
    options: dict[str, Any] = {"model": atm.ContinuousLogit(order=3, **TIGHT), "xis": XIS}
    search = atm.XiSearchCV.from_formula(formula, lazy, **options)
    memory = atm.XiSearchCV.from_formula(formula, rows, **options)
    same_table(search.loeo_.frame(), memory.loeo_.frame())
    assert search.n_passes_ is not None
    assert search.n_passes_ <= 20
    fits = [atm.ContinuousLogit.from_formula(formula, data, xi=2.0, order=3, **TIGHT) for data in (lazy, rows)]
    draws = [
        fit.bootstrap(11, clusters=c, random_state=0).draws for fit, c in zip(fits, ("site", rows.site), strict=True)
    ]
    np.testing.assert_allclose(draws[0], draws[1], rtol=1e-8, atol=1e-8)
    tests = [atm.diagnostics.score_test(atm.Lehmann(), formula, data, method="observed") for data in (lazy, rows)]
    assert tests[0].statistic == pytest.approx(tests[1].statistic, rel=1e-7)


def test_errors_name_the_environment(rows: pd.DataFrame, tmp_path: Path) -> None:
    quality = np.where(rows.block == 2, rows.quality, rows.quality.min())  # a single class elsewhere
    event = rows.event & (rows.block == 2)
    for data, model, formula in (
        (rows.assign(quality=quality), atm.OrdinalRegression(), f"quality ~ {X} | block"),
        (rows.assign(event=event), atm.ContinuousLogit(), f"Surv(time, event) ~ {X} | block"),
    ):
        data.to_parquet(tmp_path / "rows.parquet", index=False)
        for source in (data, tmp_path / "rows.parquet"):
            with pytest.raises(InputError, match="without environment 2: "):
                atm.leave_one_environment_out(model, formula, source, xis=[0.0, 1.0])


def test_what_is_refused(rows: pd.DataFrame, files: Path) -> None:
    model = atm.ContinuousLogit(order=3)
    out: Callable[..., Any] = atm.leave_one_environment_out
    for call, error, text in (
        (lambda: out(model, f"y ~ {X} | site", files, rows.site, XIS), InputTypeError, "must name a column"),
        (lambda: out(model, f"y ~ {X} | site + year", files, xis=XIS), InputError, "environments='site'"),
        (lambda: out(model, f"y ~ {X} | year", files, xis=XIS), InputError, "environments='site'"),
        (lambda: out(model, f"y ~ {X}", files, xis=XIS), InputError, "name the environments"),
        (lambda: out(model, f"y ~ {X}", rows, xis=XIS), InputError, "pass the environments"),
        (lambda: out(model, rows[["x0"]], rows.y), InputError, "pass the environments"),
        (lambda: out(model, f"y ~ {X} | year", files, "year", XIS), InputError, "one column of names"),
        (lambda: out(model, f"y ~ {X} | site", files, "place", XIS), InputError, "there is no column 'place'"),
        (lambda: out(model, f"y ~ {X} | site", files, "site", XIS, cut=3), InputError, "cut needs the rows in memory"),
        (lambda: out(atm.CoxPH(), "Surv(time, event) ~ x0 | site", files, xis=XIS), InputTypeError, "batches"),
        (lambda: out(atm.AnchorBoostedTM(model), f"y ~ {X} | site", files, xis=XIS), InputTypeError, "batches"),
        (lambda: atm.anchor_path(model, f"y ~ {X} | site", files, XIS), InputError, "xis=..."),
        (lambda: atm.anchor_path(model, f"y ~ {X}", files, xis=XIS), InputError, "needs anchors"),
        (lambda: atm.diagnostics.score_test(model, f"y ~ {X}", files), InputError, "needs anchors"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_parts_of_the_formula_refuse_xi(rows: pd.DataFrame, files: Path) -> None:
    """Strata come with the formula, after the first check of xi."""
    for data in (rows, files):
        for question in (atm.anchor_path, atm.leave_one_environment_out):
            with pytest.raises(InputError, match="strata cannot be combined with xi below 0"):
                question(atm.NormalLinear(), f"y | region ~ {X} | block", data, xis=[-0.2, 0.0])


def test_one_environment(rows: pd.DataFrame, tmp_path: Path) -> None:
    rows.assign(site="here").to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.raises(InputError, match="there is a single environment"):
        atm.leave_one_environment_out(
            atm.NormalLinear(), "y ~ x0 | year", tmp_path / "rows.parquet", environments="site", xis=[0.0]
        )


@pytest.mark.parametrize("at", [5, 8])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interruptions_leave_no_threads(
    at: int, error: type[BaseException], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, whole = threading.active_count(), sources.Source.map

    def interrupted(self: sources.Source, *arguments: Any) -> Any:
        if self.passes == at:
            raise error("stop")
        return whole(self, *arguments)

    monkeypatch.setattr(sources.Source, "map", interrupted)
    with pytest.raises(error):
        atm.leave_one_environment_out(atm.ContinuousLogit(order=3), f"y ~ {X} | block", files, xis=XIS)
    assert threading.active_count() == before


def test_errors_of_one_computation_end_all() -> None:
    ended: list[int] = []

    def fail() -> int:
        raise ValueError("broken")

    def fine() -> int:
        ended.append(1)
        return 1

    with pytest.raises(ValueError, match="broken"):
        side_by_side([fine, fail, fine], 2)
    assert side_by_side([fine] * 5, 2) == [1] * 5
    assert side_by_side([], 3) == []
