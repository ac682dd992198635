"""Integers with gaps, which pandas reads as floats, are integers again once rows with missing values are dropped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import anchortm as atm
from anchortm.backends import sources
from anchortm.backends.scan import AnchorFacts
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMWarning, AnchorWarning, InputError
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.missing import Gaps

N = 300
FORMULA = "y ~ x | hosp"
GAPS = [200, 205, 220, 233, 240, 290]
MODEL = atm.NormalLinear(missing="drop", xi=5.0)


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    hosp = rng.integers(1, 7, N)
    sign = np.where(hosp % 2, 1.0, -1.0)
    data = pd.DataFrame({"x": rng.normal(size=N) + sign, "hosp": hosp.astype(float)})
    data["y"] = data.x + sign * hosp / 3.0 + rng.normal(size=N)
    data["rank"] = pd.cut(data.y, [-np.inf, -1.0, 1.0, np.inf], labels=False).astype(float)
    data.loc[GAPS, "hosp"] = np.nan
    data.loc[[3, 4], "rank"] = np.nan
    return data


DATA = _table()
HAND = DATA.dropna(subset=["hosp"]).astype({"hosp": int})
COEF = atm.NormalLinear(xi=5.0).fit(FORMULA, HAND).coef_
NULLABLE = DATA.astype({"hosp": "Int64"})

TABLES: dict[str, Any] = {
    "pandas": DATA,
    "Float64": DATA.astype({"hosp": "Float64"}),
    "float32": DATA.astype({"hosp": "float32"}),
    "Arrow's floats in pandas": DATA.astype({"hosp": "double[pyarrow]"}),
    "Int64": NULLABLE,
    "polars": pl.from_pandas(NULLABLE),
    "polars floats": pl.from_pandas(DATA),
    "Arrow": pa.Table.from_pandas(NULLABLE),
}
COLUMNS: dict[str, Callable[[pd.Series], Any]] = {
    "series": lambda s: s,
    "frame": lambda s: s.to_frame(),
    "array": lambda s: s.to_numpy(),
    "matrix": lambda s: s.to_numpy()[:, None],
    "list": lambda s: s.tolist(),
    "list with None": lambda s: [None if x != x else x for x in s],
    "list of arrays": lambda s: [s.to_numpy()],
    "polars": lambda s: pl.Series("hosp", s.to_numpy()),
    "Arrow": lambda s: pa.array(s, from_pandas=True),
}


@pytest.fixture(params=["integers", "floats"])
def parquet(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "data.parquet")
    (NULLABLE if request.param == "integers" else DATA).to_parquet(path)
    return path


def test_numbers_and_factors_differ_here() -> None:
    with pytest.warns(AnchorWarning, match="a few whole numbers as floats are taken as numeric: hosp"):
        as_number = atm.NormalLinear(xi=5.0).fit(FORMULA, HAND.astype({"hosp": float}))
    assert abs(as_number.coef_ - COEF).max() > 0.05


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_any_kind(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no remark on whole numbers as floats
        model = MODEL.fit(FORMULA, TABLES[kind])
    assert model.coef_ == pytest.approx(COEF, rel=1e-12)
    assert model.n_missing_ == len(GAPS)


@pytest.mark.parametrize("kind", COLUMNS)
def test_anchors_of_any_kind(kind: str) -> None:
    model = MODEL.fit(DATA[["x"]].to_numpy(), DATA.y.to_numpy(), anchors=COLUMNS[kind](DATA.hosp))
    assert model.coef_ == pytest.approx(COEF, rel=1e-12)


def test_anchors_among_the_columns_of_x() -> None:
    model = atm.NormalLinear(missing="drop", xi=5.0, anchor_names=["hosp"]).fit(DATA[["x", "hosp"]], DATA.y)
    assert model.coef_ == pytest.approx(COEF, rel=1e-12)


@pytest.mark.parametrize("rows", [7, 50, 131_072])
def test_batches_of_any_size(parquet: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps are in the last third only, so that small batches have whole numbers as integers, floats, or both."""
    monkeypatch.setattr(sources, "BATCH_ROWS", rows)
    for table in (parquet, pl.scan_parquet(parquet)):
        assert MODEL.fit(FORMULA, table).coef_ == pytest.approx(COEF, rel=1e-6)
    factor = atm.NormalLinear(missing="drop").fit("y ~ x + C(hosp)", parquet)
    assert factor.coef_names_[1:] == [f"C(hosp)[T.{k}]" for k in range(2, 7)]


def test_dask(parquet: str) -> None:
    dask = pytest.importorskip("dask.dataframe")
    for table in (DATA, NULLABLE):
        assert MODEL.fit(FORMULA, dask.from_pandas(table, npartitions=4)).coef_ == pytest.approx(COEF, rel=1e-6)


def test_left_out_fits_of_batches(parquet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 50)
    hand = atm.leave_one_environment_out(atm.NormalLinear(), FORMULA, HAND, xis=[0.0, 2.0]).frame()
    for extra in ({}, {"environments": "hosp"}):
        found = atm.leave_one_environment_out(MODEL, FORMULA, parquet, xis=[0.0, 2.0], **extra).frame()
        pd.testing.assert_frame_equal(found[hand.columns], hand, rtol=1e-5)


def test_names_of_levels_strata_clusters_and_classes() -> None:
    model = atm.NormalLinear(missing="drop")
    assert model.fit("y ~ x + C(hosp)", DATA).coef_names_[1] == "C(hosp)[T.2]"
    assert model.predict(DATA[:5]) == pytest.approx(model.predict(HAND[:5]))  # floats without gaps are the same levels
    assert [type(label) for label in atm.CoxPH(missing="drop").fit("y | hosp ~ x", DATA).strata_] == [int] * 6
    mixed = model.fit("y ~ x + (1 | hosp)", DATA)
    assert mixed.coef_ == pytest.approx(atm.NormalLinear().fit("y ~ x + (1 | hosp)", HAND).coef_, rel=1e-9)
    ranked = atm.OrdinalRegression(missing="drop").fit("rank ~ x", DATA)
    assert list(map(repr, ranked.classes_.tolist())) == ["0", "1", "2"]


def test_searches_paths_and_left_out_fits() -> None:
    hand, xis = atm.NormalLinear(), [0.0, 5.0]
    left = atm.leave_one_environment_out(hand, FORMULA, HAND, xis=xis).frame()
    search = atm.XiSearchCV(hand, xis=xis).fit(FORMULA, HAND)

    def _search(X: Any, y: Any, anchors: Any = None) -> Any:
        return atm.XiSearchCV(MODEL, xis=xis).fit(X, y, anchors=anchors)

    for given in ((FORMULA, DATA), (DATA[["x"]], DATA.y, DATA.hosp)):
        assert atm.anchor_path(MODEL, *given, xis=xis).models[1].coef_ == pytest.approx(COEF, rel=1e-12)
        pd.testing.assert_frame_equal(atm.leave_one_environment_out(MODEL, *given, xis=xis).frame(), left)
        pd.testing.assert_frame_equal(_search(*given).results_, search.results_)


def test_competitors_and_clusters_of_standard_errors() -> None:
    l2 = atm.LinearAnchorRegression(5.0, missing="drop").fit(DATA[["x"]], DATA.y, anchors=DATA.hosp)
    hand = atm.LinearAnchorRegression(5.0).fit(HAND[["x"]], HAND.y, anchors=HAND.hosp)
    assert l2.coef_ == pytest.approx(hand.coef_, rel=1e-12)
    with pytest.warns(AnchorTMWarning, match="6 clusters"):
        errors = MODEL.fit(FORMULA, DATA).standard_errors(clusters=DATA.hosp.to_numpy())
    with pytest.warns(AnchorTMWarning, match="6 clusters"):
        expected = atm.NormalLinear(xi=5.0).fit(FORMULA, HAND).standard_errors(clusters=HAND.hosp.to_numpy())
    np.testing.assert_allclose(errors, expected, rtol=1e-9)


@pytest.mark.parametrize("change", ["a fraction", "no gap", "N(...)", "beyond 2**53"])
def test_other_floats_stay_numbers(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 50)
    data, formula = DATA.copy(), FORMULA
    if change == "a fraction":
        data.loc[10, "hosp"] = 1.5
    elif change == "no gap":
        data.loc[GAPS, "hosp"] = 1.0
        data.loc[GAPS, "x"] = np.nan
    elif change == "N(...)":
        formula = "y ~ x | N(hosp)"
    else:
        data["hosp"] *= 2.0**54
    data.to_parquet(tmp_path / "data.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = atm.NormalLinear(xi=5.0).fit(formula, data.dropna(subset=["x", "hosp"]))
        assert abs(expected.coef_ - COEF).max() > 0.02
        assert MODEL.fit(formula, data).coef_ == pytest.approx(expected.coef_, rel=1e-12)
        batches = MODEL.fit(formula, str(tmp_path / "data.parquet"))
    assert batches.coef_ == pytest.approx(expected.coef_, rel=1e-6)


def test_covariates_stay_numbers() -> None:
    for given in ((FORMULA.replace("|", "+"), DATA), (DATA[["x", "hosp"]], DATA.y)):
        model = atm.NormalLinear(missing="drop").fit(*given)
        assert model.coef_names_ == ["x", "hosp"]
        assert model.coef_ == pytest.approx(atm.NormalLinear().fit(HAND[["x", "hosp"]], HAND.y).coef_, rel=1e-12)


def test_the_table_of_the_user_stays_as_it_is() -> None:
    data = DATA.copy()
    MODEL.fit(FORMULA, data)
    pd.testing.assert_frame_equal(data, DATA)


def test_records_of_gaps_join() -> None:
    whole, gap, half = (Gaps.of(np.array(x)) for x in ([1, 2], [1.0, np.nan], [0.5, 1.0]))
    assert [whole.integers, gap.integers, half.integers] == [False, True, False]
    assert (whole + gap).integers
    assert not (gap + half).integers
    assert not Gaps.of(pd.Series(["a", None])).integers


def test_an_error_names_an_anchor_that_is_a_factor_in_some_rows() -> None:
    factor, number = (
        AnchorFacts.of(anchor_columns(frame), None) for frame in (HAND[["hosp"]], HAND[["hosp"]].astype(float))
    )
    for first, second in ((factor, number), (number, factor)):
        with pytest.raises(InputError, match="factors in some rows and numbers in others: hosp; write"):
            first + second


def test_batches_refuse_what_is_not_there_or_not_exact(tmp_path: Path) -> None:
    data = NULLABLE.assign(hosp=NULLABLE.hosp + 2**60)
    data.to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InputError, match=r"'hosp' has gaps and whole numbers beyond 2\*\*53.*: store it as text"):
        MODEL.fit(FORMULA, tmp_path / "data.parquet")
    with pytest.raises(InputError, match="there is no column 'hospital' in the data; did you mean 'hosp'"):
        MODEL.fit("y ~ x | hospital", tmp_path / "data.parquet")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, hand = str(tmp_path / "data.csv"), str(tmp_path / "hand.csv")
    DATA.astype({"hosp": "Int64"}).to_csv(given, index=False)
    HAND.to_csv(hand, index=False)
    rest = ["-m", "lm", "-f", FORMULA]
    assert main(["check", given, *rest, "--missing", "drop"]) == 0
    out = capsys.readouterr().out
    assert "1.0" not in out
    assert "float" not in out
    for command in (["fit", "--xi", "5"], ["loeo", "--json"], ["choose"]):
        texts = []
        for file in (given, hand):
            assert main([command[0], file, *rest, *command[1:], "--missing", "drop", "--quiet"]) == 0
            texts.append(capsys.readouterr().out)
        assert [line for line in texts[0].splitlines() if "dropped" not in line] == texts[1].splitlines()
