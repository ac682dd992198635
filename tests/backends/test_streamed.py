"""Tables that are read in batches give the fits that tables in memory give."""

import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from simulated import same_fit, table

import anchortm as atm
from anchortm._util import progress
from anchortm.backends import scan, sources
from anchortm.engine.problem import Problem
from anchortm.engine.solve import newton
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError, InputTypeError, SeparationError

X = "x0 + x1 + x2"
TIGHT = {"tol": 1e-10}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def files(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the rows in three Parquet files of uneven row groups."""
    folder = tmp_path_factory.mktemp("rows")
    for k, part in enumerate((rows[:300], rows[300:2000], rows[2000:])):
        part.to_parquet(folder / f"part{k}.parquet", row_group_size=170, index=False)
    return folder


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 400)


CASES = {
    "censored": (atm.ContinuousLogit, f"Surv(time, event) ~ {X} | site", {"xi": 10.0}),
    "exact normal": (atm.ContinuousProbit, f"y ~ {X} + group | site", {"xi": 3.0}),
    "closed form": (atm.NormalLinear, f"y ~ {X} + C(region) | site + year", {"xi": 3.0}),
    "partialling out": (atm.NormalLinear, f"y ~ {X} | site", {"xi": -0.5}),
    "numeric anchors": (atm.ContinuousLogit, "y ~ x0 + x1 | year + N(region)", {"xi": 3.0}),
    "no constant": (atm.ContinuousLogit, "y ~ x0 + x1 | year", {"xi": 3.0, "anchor_intercept": False}),
    "two factors": (atm.ProportionalHazards, f"Surv(time, event) ~ {X} | site + group", {"xi": 1.0}),
    "delayed entry": (atm.ProportionalHazards, f"Surv(time, event, entry) ~ {X} | site", {"xi": 0.0}),
    "intervals": (atm.ContinuousLogit, f"Interval(low, high) ~ {X} | site", {"xi": 1.0}),
    "classes": (atm.OrdinalRegression, f"quality ~ {X} | site", {"xi": 10.0}),
    "ordered words": (atm.OrdinalRegression, "ordered(word, 'bad', 'good', 'very good') ~ x0 | site", {"xi": 1.0}),
    "counts": (atm.CountRegression, f"count ~ {X} | site", {"xi": 1.0, "order": 3}),
    "weights": (atm.ContinuousLogit, f"y ~ {X} | site", {"xi": 1.0, "sample_weight": "weight"}),
    "shares": (atm.ContinuousProbit, f"y ~ {X} | site", {"xi": 1.0, "sample_weight": "share", "offset": "shift"}),
    "remembering terms": (atm.ContinuousLogit, "y ~ bs(x0, 4) + scale(x1) + poly(x2, 2) | site", {"xi": 1.0}),
    "the limit": (atm.ContinuousLogit, "y ~ x0 + x1 | year", {"xi": math.inf}),
    "parametric": (atm.ParametricSurvival, f"Surv(time, event) ~ {X}", {"xi": 0.0}),
    "no covariates": (atm.Lehmann, "y ~ 1", {"xi": 0.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_batches_and_memory_agree(case: str, rows: pd.DataFrame, files: Path) -> None:
    model, formula, options = CASES[case]
    tight = options | TIGHT
    same_fit(model.from_formula(formula, f"{files}/*.parquet", **tight), model.from_formula(formula, rows, **tight))


def test_every_kind_of_source(rows: pd.DataFrame, files: Path) -> None:
    formula = f"Surv(time, event) ~ {X} + group | site"
    memory = atm.ContinuousLogit.from_formula(formula, rows, xi=5.0, **TIGHT)
    lazy = pl.scan_parquet(files / "*.parquet")
    for source in (files, str(files), ds.dataset(files), lazy, lazy.with_columns(x0=pl.col("x0") + 0.0)):
        same_fit(atm.ContinuousLogit.from_formula(formula, source, xi=5.0, **TIGHT), memory)
    same_fit(atm.ContinuousLogit.from_formula(formula, files, xi=5.0, n_jobs=3, **TIGHT), memory)


def test_categories_and_partitions(rows: pd.DataFrame, tmp_path: Path) -> None:
    """Dictionaries that differ from file to file, and columns that are folders."""
    data = rows.assign(group=pd.Categorical(rows.group, ["c", "a", "b"]))
    table = pa.Table.from_pandas(data, preserve_index=False)
    pq.write_to_dataset(table, tmp_path / "by_region", partition_cols=["region"])
    formula = "y ~ x0 + group | C(region)"
    memory = atm.ContinuousLogit.from_formula(formula, data, xi=2.0, **TIGHT)
    same_fit(atm.ContinuousLogit.from_formula(formula, tmp_path / "by_region", xi=2.0, **TIGHT), memory)


def test_quantiles_are_exact_beyond_the_sample(
    rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "WIDE_ROWS", 500)
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 250)
    for options in ({}, {"sample_weight": "weight"}, {"sample_weight": "share"}):
        memory = atm.ContinuousLogit.from_formula(f"y ~ {X} | site", rows, xi=1.0, **TIGHT, **options)
        streamed = atm.ContinuousLogit.from_formula(f"y ~ {X} | site", files, xi=1.0, **TIGHT, **options)
        np.testing.assert_allclose(streamed.support_, memory.support_, rtol=1e-14)
        same_fit(streamed, memory, sampled=True)
    counts = [atm.CountRegression.from_formula("count ~ x0 | site", data, order=2) for data in (rows, files)]
    assert counts[0].support_ == counts[1].support_
    # for censored rows the quantiles are those of the sample
    memory = atm.ContinuousLogit.from_formula(f"Surv(time, event) ~ {X}", rows)
    streamed = atm.ContinuousLogit.from_formula(f"Surv(time, event) ~ {X}", files)
    ranks = [np.mean(rows.y <= end) for end in streamed.support_]
    np.testing.assert_allclose(ranks, (0.1, 0.9), atol=5 * math.sqrt(0.09 / 500))
    assert streamed.support_ != memory.support_


def test_few_rows_with_weight(rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole batches of weight zero, and rows with weight that a sample of all rows would miss."""
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(scan, "WIDE_ROWS", 60)
    weight = np.where(np.arange(3000) % 37 == 5, 1.0 + np.arange(3000) % 3, 0.0)
    weight[400:1300] = 0.0
    data = rows.assign(weight=weight)
    data.to_parquet(tmp_path / "rows.parquet", index=False)
    options = {"xi": 1.0, "sample_weight": "weight", "order": 2} | TIGHT
    memory = atm.ContinuousLogit.from_formula("y ~ x0 | region", data, **options)
    same_fit(atm.ContinuousLogit.from_formula("y ~ x0 | region", tmp_path, **options), memory, sampled=True)
    data.assign(weight=0.0).to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.raises(InputError, match="all sample weights are zero"):
        atm.ContinuousLogit.from_formula("y ~ x0 | region", tmp_path, **options)


def test_standard_errors(rows: pd.DataFrame, files: Path) -> None:
    for formula, options in (
        (f"Surv(time, event, entry) ~ {X} | site", {"xi": 5.0}),
        (f"y ~ {X} | year", {"xi": 2.0, "sample_weight": "weight"}),
        (f"y ~ {X} | site", {"xi": 0.0}),
    ):
        memory = atm.ContinuousLogit.from_formula(formula, rows, **options, **TIGHT)
        streamed = atm.ContinuousLogit.from_formula(formula, files, **options, **TIGHT)
        for kind in ("sandwich",) if options["xi"] else ("hessian", "sandwich"):
            np.testing.assert_allclose(streamed.covariance(kind), memory.covariance(kind), rtol=1e-6, atol=1e-12)
    assert str(streamed.summary()).splitlines()[-8:] == str(memory.summary()).splitlines()[-8:]
    with pytest.raises(InputError, match="single rows are resampled in memory only"):
        atm.ContinuousLogit.from_formula(f"y ~ {X} | year", files, xi=2.0).bootstrap(10)
    with pytest.raises(InputError, match="clusters need the rows"):
        streamed.covariance("sandwich", clusters=rows.site)


def test_the_model_is_whole(rows: pd.DataFrame, files: Path, tmp_path: Path) -> None:
    formula = f"Surv(time, event) ~ {X} + group | site"
    model = atm.ContinuousLogit.from_formula(formula, files, xi=5.0, offset="shift")
    atm.save(model, tmp_path / "model.json")
    for one in (model, atm.load(tmp_path / "model.json")):
        np.testing.assert_allclose(
            one.predict(rows[:50]),
            atm.ContinuousLogit.from_formula(formula, rows, xi=5.0, offset="shift").predict(rows[:50]),
            rtol=1e-6,
        )
    assert "site" not in model.coef_names_
    assert model.score(rows) == pytest.approx(model.loglik_ / 3000)


def test_progress_shows_pass_rows_and_loss(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 1e-4)
    atm.ContinuousLogit.from_formula(f"y ~ {X} | site", files, xi=1.0, verbose=1)
    shown = capsys.readouterr().err
    assert "ContinuousLogit, pass " in shown
    assert "derivatives, loss " in shown
    assert "/3000" in shown


def test_bad_input(rows: pd.DataFrame, files: Path, tmp_path: Path) -> None:
    fit = atm.ContinuousLogit.from_formula
    holed = rows.copy()
    holed.loc[1234, "x1"] = math.nan
    holed.to_parquet(tmp_path / "holed.parquet", index=False)
    with pytest.raises(InputError, match=r"'x1' is missing in 1 row, first at row 34; .*\(rows counted from row 1200"):
        fit(f"y ~ {X}", tmp_path / "holed.parquet")
    with pytest.raises(InputError, match="no file or folder"):
        fit("y ~ x0", tmp_path / "nothing.parquet")
    with pytest.raises(InputError, match="no file matches"):
        fit("y ~ x0", str(tmp_path / "*.pq"))
    with pytest.raises(InputError, match="no Parquet files"):
        fit("y ~ x0", _empty(tmp_path))
    (tmp_path / "text.parquet").write_text("no Parquet at all")
    with pytest.raises(InputError, match="cannot read"):
        fit("y ~ x0", tmp_path / "text.parquet")
    (tmp_path / "rows.csv").write_text("y,x0\n1,2\n")
    with pytest.raises(InputError, match="CSV file"):
        fit("y ~ x0", tmp_path / "rows.csv")
    rows[:0].to_parquet(tmp_path / "empty.parquet", index=False)
    with pytest.raises(InputError, match="no rows"):
        fit("y ~ x0", tmp_path / "empty.parquet")
    with pytest.raises(InputError, match="did you mean 'site'"):
        fit("y ~ x0 | sites", files)
    with pytest.raises(InputError, match="no column 'w'"):
        fit("y ~ x0", files, sample_weight="w")
    with pytest.raises(InputError, match="sample_weight must name a column"):
        fit("y ~ x0", files, sample_weight=np.ones(3000))
    with pytest.raises(InputError, match="needs anchors"):
        fit("y ~ x0", files, xi=1.0)
    with pytest.raises(IdentificationError, match="collinear covariates: x0, I"):
        fit("y ~ x0 + I(2 * x0)", files)
    with pytest.raises(InputTypeError, match="needs a table in memory"):
        atm.LinearAnchorRegression.from_formula("y ~ x0 | site", files)
    with pytest.raises(InputTypeError, match="from_formula"):
        atm.ContinuousLogit().fit(pl.scan_parquet(files / "*.parquet"), rows.y)


def _replace_after(monkeypatch: pytest.MonkeyPatch, passes: int, replace: Callable[[], None]) -> None:
    """Replace what is read once a table was read so often."""
    each = sources.Source.each

    def replaced(source: sources.Source, *given: Any) -> Iterator[Any]:
        yield from each(source, *given)
        if source.passes == passes:
            replace()

    monkeypatch.setattr(sources.Source, "each", replaced)


@pytest.mark.bug("other software", "a Parquet file that was replaced between two passes was not noticed")
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("rows_left", [3000, 2999, 0])
def test_a_file_that_is_replaced_between_passes_is_named(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int, rows_left: int
) -> None:
    file = tmp_path / "rows.parquet"
    rows.to_parquet(file, index=False)
    later = rows.assign(y=rows.y + 1.0)[:rows_left]
    _replace_after(monkeypatch, passes, lambda: later.to_parquet(file, index=False))
    with pytest.raises(InputError, match=r"rows\.parquet changed while it was being read in batches"):
        atm.ContinuousLogit.from_formula("y ~ x0", file)


def test_a_table_whose_rows_change_in_number_is_noticed(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lazy frame does not name its file, so rows are counted; polars may also fail to read the new file."""
    file = tmp_path / "rows.parquet"
    rows.to_parquet(file, index=False)
    _replace_after(monkeypatch, 1, lambda: rows[:2500].to_parquet(file, index=False))
    with pytest.raises(InputError, match=r"it had 3000 rows and now has 2500|cannot read the table"):
        atm.ContinuousLogit.from_formula("y ~ x0", pl.scan_parquet(file))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_files_that_are_not_regular_are_refused(rows: pd.DataFrame, tmp_path: Path) -> None:
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    os.mkfifo(tmp_path / "pipe.parquet")
    for place in (tmp_path, tmp_path / "pipe.parquet"):
        with pytest.raises(InputError, match=r"pipe\.parquet: it is a named pipe"):
            atm.NormalLinear.from_formula("y ~ x0", place)
    (tmp_path / "pipe.parquet").unlink()
    (tmp_path / "more.parquet").mkdir()  # a folder by such a name is looked into
    rows.to_parquet(tmp_path / "more.parquet" / "rows.parquet", index=False)
    assert atm.NormalLinear.from_formula("y ~ x0", tmp_path).n_rows_ == 6000


def _empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_separation_is_seen_in_all_rows(rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What separates the sample need not separate all rows, and what separates all is named."""
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 100)
    data = rows.assign(high=(rows.x0 > 0).astype(int))
    data.to_parquet(tmp_path / "separated.parquet", index=False)
    with pytest.raises(SeparationError, match="x0"):
        atm.OrdinalRegression.from_formula("high ~ x0", tmp_path / "separated.parquet")
    near = data.copy()
    near.loc[[700, 701], "high"] = 1 - near.loc[[700, 701], "high"]
    near.to_parquet(tmp_path / "near.parquet", index=False)
    model = atm.OrdinalRegression.from_formula("high ~ x0", tmp_path / "near.parquet")
    assert model.coef_ == pytest.approx(atm.OrdinalRegression.from_formula("high ~ x0", near).coef_, rel=1e-5)


def test_classes_and_warnings(rows: pd.DataFrame, files: Path, tmp_path: Path) -> None:
    with pytest.warns(AnchorTMWarning, match="alphabetical order, bad < good < very good"):
        atm.OrdinalRegression.from_formula("word ~ x0", files)
    data = rows.assign(grade=pd.Categorical(rows.word, ["bad", "fair", "good", "very good"], ordered=True))
    data.to_parquet(tmp_path / "grades.parquet", index=False)
    with pytest.warns(AnchorTMWarning, match="classes without rows dropped: fair"):
        model = atm.OrdinalRegression.from_formula("grade ~ x0", tmp_path / "grades.parquet")
    assert list(model.classes_) == ["bad", "good", "very good"]
    rows.assign(one="here").to_parquet(tmp_path / "one.parquet", index=False)
    with pytest.warns(AnchorTMWarning, match="single environment"):
        atm.ContinuousLogit.from_formula("y ~ x0 | one", tmp_path / "one.parquet", xi=1.0)


def test_sample_rows_do_not_depend_on_batches() -> None:
    n, every = 10_000, 7
    whole = scan._picks(0, n, every)
    edges = [0, 3, 100, 101, 5000, n]
    parts = np.concatenate([a + scan._picks(a, b - a, every) for a, b in itertools.pairwise(edges)])
    assert (whole == parts).all()
    assert len(whole) == pytest.approx(n / every, abs=1)
    assert np.unique(whole % every).size == every


def test_separation_outside_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A level whose rows all separate, and none of which is in the sample."""
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 500)
    rng = np.random.default_rng(0)
    n = 5000
    x = rng.normal(size=n)
    y = (x + rng.logistic(size=n) > 0).astype(int)
    sampled = np.union1d(scan._picks(0, n, n // 500), np.arange(0, n, 400))
    rare = np.zeros(n, dtype=int)
    rows = np.setdiff1d(np.arange(n), sampled)[[100, 900, 2000, 4000]]
    rare[rows] = y[rows] = 1
    pd.DataFrame({"x": x, "y": y, "rare": rare}).to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.raises(SeparationError, match="rare"):
        atm.OrdinalRegression.from_formula("y ~ x + rare", tmp_path)


def test_splines_reach_the_ends_of_all_rows(rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WIDE_ROWS", 200)
    memory = atm.NormalLinear.from_formula("y ~ bs(x0, 4)", rows)
    streamed = atm.NormalLinear.from_formula("y ~ bs(x0, 4)", files)
    assert streamed.loss_ == pytest.approx(memory.loss_, abs=1e-3)


def test_rows_of_errors(rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 300)
    data = rows.assign(shift=0.0, z=1.0 + rows.x0**2)
    data.loc[1501, ["shift", "z"]] = [math.inf, 0.0]
    data.loc[1700, "time"] = 0.0
    data.to_parquet(tmp_path / "rows.parquet", index=False)
    for formula, options in (("y ~ x0 | site", {"offset": "shift"}), ("y ~ np.log(z) | site", {})):
        with pytest.raises(InputError, match=r"at row 301\b.*counted from row 1200"):
            atm.ContinuousLogit.from_formula(formula, tmp_path, **options)
    for source, message in ((tmp_path, r"at row 100\b.*counted from row 1600"), (data, r"at row 1700\b")):
        with pytest.raises(InputError, match=message):
            atm.ParametricSurvival.from_formula("Surv(time, event) ~ x0 | site", source, xi=1.0)
    data.assign(x0=np.where(np.arange(3000) == 1501, math.inf, data.x0)).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"infinity in x0, first at row 301; .*counted from row 1200"):
        atm.ContinuousLogit.from_formula("y ~ x0", tmp_path)


def test_outliers_outside_the_sample(rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(sources, "BATCH_ROWS", 2000)  # it takes many passes
    rest = np.setdiff1d(np.arange(3000), np.union1d(scan._picks(0, 3000, 30), np.arange(0, 3000, 400)))
    data = rows.assign(shift=np.where(np.arange(3000) == rest[10], 900.0, 0.0))
    data.to_parquet(tmp_path / "rows.parquet", index=False)
    options = {"offset": "shift"} | TIGHT
    memory = atm.ProportionalHazards.from_formula("y ~ x0 | site", data, **options)
    same_fit(atm.ProportionalHazards.from_formula("y ~ x0 | site", tmp_path, **options), memory, 1e-6, sampled=True)


def test_files_that_differ(rows: pd.DataFrame, tmp_path: Path) -> None:
    """An empty file first, whole numbers before fractions, a stored index, other files beside."""
    data = rows.assign(x0=rows.x0.round(1))
    whole = data[data.x0 == data.x0.round()].assign(x0=lambda frame: frame.x0.astype(int))
    rest = data.drop(whole.index)
    (tmp_path / "data").mkdir()
    data[:0].to_parquet(tmp_path / "data" / "a.parquet")
    whole.to_parquet(tmp_path / "data" / "b.parquet")  # with its index
    rest.to_parquet(tmp_path / "data" / "c.parquet")
    (tmp_path / "data" / "model.json").write_text("{}")
    memory = atm.ContinuousLogit.from_formula("y ~ x0 + group | site", data, xi=1.0, **TIGHT)
    same_fit(atm.ContinuousLogit.from_formula("y ~ x0 + group | site", tmp_path / "data", xi=1.0, **TIGHT), memory)
    columns = ["y", "x0", "site"]
    data[data.x0 > 0][columns].to_parquet(tmp_path / "indexed.parquet")
    assert atm.NormalLinear.from_formula("y ~ . | site", tmp_path / "indexed.parquet").coef_names_ == ["x0"]
    (tmp_path / "data" / "d.parquet").write_bytes((tmp_path / "data" / "c.parquet").read_bytes()[:-200])
    with pytest.raises(InputError, match="cannot read"):
        atm.NormalLinear.from_formula("y ~ x0", tmp_path / "data")
    with pytest.raises(InputError, match="cannot read the table"):
        atm.NormalLinear.from_formula("y ~ x0", pl.scan_parquet(tmp_path / "nothing.parquet"))


def test_lazy_tables_of_an_old_polars_are_refused(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = pl.from_pandas(rows).lazy()
    monkeypatch.setattr(pl, "__version__", "1.24.0")
    with pytest.raises(InputError, match=r"need polars 1\.25 or newer, this is 1\.24\.0"):
        atm.NormalLinear.from_formula("y ~ group", lazy)


def test_polars_categories_have_the_levels_of_all_rows(rows: pd.DataFrame) -> None:
    frame = pl.from_pandas(rows.sort_values("group", ascending=False)).with_columns(
        pl.col("group").cast(pl.Categorical)
    )
    memory = atm.NormalLinear.from_formula("y ~ group", frame)
    same_fit(atm.NormalLinear.from_formula("y ~ group", frame.lazy()), memory)


@pytest.mark.parametrize("seed", [14, 50, 74, 101, 119, 124])
def test_the_certificate_belongs_to_the_point(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly collinear covariates and a large xi: the last step must not leave the tolerance."""
    found = []

    def result(self: Any, objective: Any, solution: Any, others: Any) -> Any:
        found[:] = [objective, solution]
        return whole(self, objective, solution, others)

    whole = Problem.result
    monkeypatch.setattr(Problem, "result", result)
    rng = np.random.default_rng(seed)
    data = table(int(rng.choice([30, 100, 400])), seed)
    data["x1"] = data.x0 + 10.0 ** rng.uniform(-5, -2) * data.x1
    for tol in (1e-8, 1e-10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = atm.Lehmann.from_formula("y ~ x0 + x1 | year", data, xi=1e6, tol=tol)
        objective, solution = found
        state = newton.expand(objective, solution.v, objective.sums(solution.v), solution.xi)
        binding = newton.binding_bounds(objective, solution.v, state.gradient)
        assert not model.converged_ or newton.kkt_residual(state, binding) <= tol
