"""Predictions of tables of any size: in memory, Parquet to Parquet, Dask."""

from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from simulated import table
from sklearn.exceptions import NotFittedError

import anchortm as atm
from anchortm.backends import sources
from anchortm.cli.main import main
from anchortm.exceptions import InputError, InputTypeError

WANTED = {"quantiles": [0.1, 0.5, 0.9], "cdf": [8.0], "sf": [12], "keep": ["site", "year"]}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return table(1500)


@pytest.fixture(scope="module")
def model(rows: pd.DataFrame) -> atm.ContinuousLogit:
    return atm.ContinuousLogit.from_formula(
        "y ~ bs(x0, 3, extrapolation='clip') + group | site", rows, xi=2.0, offset="shift"
    )


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 400)


def test_the_table(rows: pd.DataFrame, model: atm.ContinuousLogit) -> None:
    found = atm.predict_table(model, rows, **WANTED)
    assert found.columns.tolist() == ["site", "year", "q0.1", "q0.5", "q0.9", "cdf_8", "sf_12"]
    distribution = model.predict_distribution(rows)
    np.testing.assert_array_equal(found["q0.9"], distribution.ppf(0.9))
    np.testing.assert_array_equal(found["sf_12"], distribution.sf(12))
    assert atm.predict_table(model, rows[:3]).columns.tolist() == ["prediction"]
    pd.testing.assert_frame_equal(atm.predict_table(model, pl.from_pandas(rows), **WANTED), found)


def test_parquet_to_parquet(rows: pd.DataFrame, model: atm.ContinuousLogit, tmp_path: Path) -> None:
    for k in range(3):
        rows[500 * k : 500 * (k + 1)].to_parquet(tmp_path / f"rows{k}.parquet", index=False)
    wanted = atm.predict_table(model, rows, **WANTED)
    for source in (str(tmp_path / "rows*.parquet"), pl.scan_parquet(tmp_path / "rows*.parquet")):
        assert atm.predict_table(model, source, tmp_path / "out.parquet", **WANTED) is None
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), wanted)


def test_dask_partitions(rows: pd.DataFrame, model: atm.ContinuousLogit, tmp_path: Path) -> None:
    lazy = atm.predict_table(model, dd.from_pandas(rows, npartitions=4), **WANTED)
    assert lazy.npartitions == 4
    wanted = atm.predict_table(model, rows, **WANTED)
    computed = lazy.compute().reset_index(drop=True)
    np.testing.assert_allclose(computed["q0.5"], wanted["q0.5"], rtol=1e-14)
    assert computed.site.astype(str).tolist() == wanted.site.tolist()
    atm.predict_table(model, dd.from_pandas(rows, npartitions=4), tmp_path / "out", **WANTED)
    assert len(pd.read_parquet(tmp_path / "out")) == 1500


def test_classes_and_models_of_frames(rows: pd.DataFrame, tmp_path: Path) -> None:
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    classes = atm.OrdinalRegression.from_formula("ordered(word, 'bad', 'good', 'very good') ~ x0", rows)
    atm.predict_table(classes, tmp_path / "rows.parquet", tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found.columns.tolist() == ["prediction", "p_bad", "p_good", "p_very good"]
    assert found.prediction.tolist() == classes.predict(rows).tolist()
    plain = atm.NormalLinear().fit(rows[["x0", "x1"]], rows.y)
    atm.predict_table(plain, tmp_path / "rows.parquet", tmp_path / "out.parquet")
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out.parquet").prediction, plain.predict(rows[["x0", "x1"]]))
    nothing = atm.Lehmann.from_formula("y ~ 1", rows)
    atm.predict_table(nothing, tmp_path / "rows.parquet", tmp_path / "out.parquet", quantiles=[0.5])
    assert len(pd.read_parquet(tmp_path / "out.parquet")) == 1500


def test_refusals_leave_no_file(rows: pd.DataFrame, model: atm.ContinuousLogit, tmp_path: Path) -> None:
    strange = rows.copy()
    strange.loc[1400, "group"] = "z"
    strange.to_parquet(tmp_path / "strange.parquet", index=False)
    with pytest.raises(InputError, match="levels that the fit has not seen: z"):
        atm.predict_table(model, tmp_path / "strange.parquet", tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["strange.parquet"]
    for arguments, message in (
        ((model, tmp_path / "strange.parquet"), "name an output"),
        ((model, tmp_path / "strange.parquet", tmp_path / "out.csv"), r"should end in \.parquet"),
        ((atm.NormalLinear().fit(rows[["x0"]].to_numpy(), rows.y), tmp_path / "strange.parquet"), "without names"),
        ((model, rows.to_numpy()), "table with named columns"),
    ):
        with pytest.raises(InputError, match=message):
            atm.predict_table(*arguments)
    with pytest.raises(InputError, match="no column 'town'"):
        atm.predict_table(model, rows, keep=["town"])
    with pytest.raises(InputError, match=r"two columns 'q0\.5'"):
        atm.predict_table(model, rows, quantiles=[0.5, 0.5])


def test_in_the_shell(rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    for k in range(3):
        rows[500 * k : 500 * (k + 1)].to_parquet(f"rows/part{k}.parquet", index=False)
    formula = ["--formula", "Surv(time, event) ~ x0 + group | site", "--xi", "2"]
    for data in ("rows", "rows/*.parquet"):
        assert main(["fit", data, "--model", "c-logit", *formula, "--save", "m.json"]) == 0
        assert main(["predict", "m.json", data, "--quantiles", "0.5", "--output", "p.parquet"]) == 0
        model = atm.ContinuousLogit.from_formula(formula[1], rows, xi=2.0)
        np.testing.assert_allclose(pd.read_parquet("p.parquet")["q0.5"], model.predict(rows), rtol=1e-6)
    assert main(["fit", "rows/part0.parquet", "--batches", "--model", "lm", "--formula", "y ~ x0 | site"]) == 0
    assert main(["fit", "rows", "--model", "lm", "--formula", "y ~ x0 | site", "--xi", "0,1"]) == 1


def test_dask_keeps_the_index_and_new_folders(rows: pd.DataFrame, model: atm.ContinuousLogit, tmp_path: Path) -> None:
    lazy = dd.from_pandas(rows, npartitions=4)
    joined = lazy.assign(p=atm.predict_table(model, lazy).prediction).compute()
    np.testing.assert_allclose(joined.p, model.predict(rows))
    assert atm.predict_table(model, rows[100:103]).index.tolist() == [100, 101, 102]
    lazy.to_parquet(tmp_path / "in")
    with pytest.raises(InputError, match="exists already"):
        atm.predict_table(model, dd.read_parquet(tmp_path / "in"), tmp_path / "in")
    strange = dd.from_pandas(
        rows.assign(group=["z" if k == 1400 else g for k, g in enumerate(rows.group)]), npartitions=4
    )
    with pytest.raises(InputError, match="not seen: z"):
        atm.predict_table(model, strange, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_inputs_are_not_overwritten(rows: pd.DataFrame, model: atm.ContinuousLogit, tmp_path: Path) -> None:
    rows.to_parquet(tmp_path / "a.parquet", index=False)
    before = (tmp_path / "a.parquet").read_bytes()
    for source in (tmp_path, f"{tmp_path}/*.parquet", tmp_path / "a.parquet"):
        with pytest.raises(InputError, match="among the files that are read"):
            atm.predict_table(model, source, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="among the files that are read"):
        atm.predict_table(model, tmp_path, tmp_path / "new.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == before


def test_kept_columns_have_their_types(rows: pd.DataFrame, model: atm.ContinuousLogit, tmp_path: Path) -> None:
    late = pd.Series([None] * 900 + ["text"] * 600, dtype=object)
    small = rows.assign(late=late, tiny=np.int8(3), when=pd.Timestamp("2020-01-01"), kind=pd.Categorical(rows.site))
    (tmp_path / "in").mkdir()
    small[:700].to_parquet(tmp_path / "in" / "a.parquet", index=False)
    small[700:].to_parquet(tmp_path / "in" / "b.parquet", index=False)
    keep = ["late", "tiny", "when", "kind"]
    atm.predict_table(model, tmp_path / "in", tmp_path / "out.parquet", keep=keep)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found.tiny.dtype == np.int8
    assert found.late[1000] == "text"
    assert found.kind.astype(str).tolist() == small.site.tolist()


def test_other_models_and_arguments(rows: pd.DataFrame) -> None:
    linear = atm.LinearAnchorRegression(2.0).fit(rows[["x0"]], rows.y, anchors=rows.site)
    np.testing.assert_allclose(atm.predict_table(linear, rows).prediction, linear.predict(rows[["x0"]]))
    with pytest.raises(InputTypeError, match="does not predict distributions"):
        atm.predict_table(linear, rows, quantiles=[0.5])
    named = atm.NormalLinear(xi=1.0, anchor_names=["region"]).fit(rows[["x0", "region"]], rows.y)
    assert len(atm.predict_table(named, rows[["x0"]], quantiles=np.array([0.1, 0.9]))) == 1500
    assert atm.predict_table(named, rows, quantiles=0.5, keep="site").columns.tolist() == ["site", "q0.5"]
    with pytest.raises(NotFittedError):
        atm.predict_table(atm.NormalLinear(), rows)


@pytest.mark.bug("tables", "a folder below that of a pattern of files was taken for one of them, and refused as output")
def test_a_folder_below_a_pattern_is_no_part_of_it(tmp_path: Path) -> None:
    data = pd.DataFrame({"y": np.arange(50.0) % 7, "x": np.cos(np.arange(50.0))})
    data.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "predicted").mkdir()
    model = atm.NormalLinear.from_formula("y ~ x", data)
    atm.predict_table(model, f"{tmp_path}/*.parquet", tmp_path / "predicted" / "rows.parquet")
    assert len(pd.read_parquet(tmp_path / "predicted" / "rows.parquet")) == 50
    with pytest.raises(InputError, match="would be among the files that are read"):
        atm.predict_table(model, f"{tmp_path}/*.parquet", tmp_path / "more.parquet")
