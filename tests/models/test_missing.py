"""Rows with missing values: dropping them equals dropping them by hand, wherever rows are taken from a user."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMWarning, InputError, MissingValueError, UnavailableError

N = 240
FORMULA = "y ~ x + word | site"
XY = ["x", "z"]


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    site = rng.integers(0, 4, N)
    data = pd.DataFrame({"x": rng.normal(size=N) + site, "z": rng.normal(size=N)})
    data["word"] = rng.choice(["a", "b", "c"], N)
    data["site"] = np.array(["north", "south", "east", "west"])[site]
    data["y"] = data.x - 0.5 * site + rng.normal(size=N)
    data["time"] = np.exp(0.3 * data.y)
    data["event"] = rng.integers(0, 2, N).astype(float)
    data["count"] = rng.poisson(2.0, N).astype(float)
    data["rank"] = pd.cut(data.y, [-np.inf, 0.0, 1.0, np.inf], labels=["low", "mid", "high"])
    data["w"] = rng.integers(1, 4, N).astype(float)
    data["o"] = 0.1 * rng.normal(size=N)
    data["half"] = np.where(rng.random(N) < 0.5, "h1", "h2")
    data["patient"] = rng.integers(0, 30, N).astype(str)
    data.index = pd.Index(np.arange(N) * 3 + 1000)
    return data


def _messy(data: pd.DataFrame) -> pd.DataFrame:
    """Return the table with holes: other rows in each column, some rows with two, one in the first and last row."""
    messy = data.copy()
    for k, name in enumerate(messy.columns):
        messy.loc[messy.index[[5 + 3 * k, 100 + 2 * k]], name] = None if messy[name].dtype.kind == "O" else np.nan
    messy.loc[messy.index[[0, 5, N - 1]], "x"] = np.nan
    return messy


WHOLE = _table()
MESSY = _messy(WHOLE)


def by_hand(*names: str) -> pd.DataFrame:
    """Return the rows without missing values in these columns."""
    return MESSY.dropna(subset=list(names))


MODELS: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "normal": (atm.NormalLinear(), FORMULA, ("y", "x", "word", "site")),
    "bernstein": (atm.ContinuousProbit(order=3), FORMULA, ("y", "x", "word", "site")),
    "censored": (
        atm.ProportionalHazards(order=3),
        "Surv(time, event) ~ x + z | site",
        ("time", "event", "x", "z", "site"),
    ),
    "cox": (atm.CoxPH(), "Surv(time, event) ~ x + z | site", ("time", "event", "x", "z", "site")),
    "cox in strata": (
        atm.CoxPH(),
        "Surv(time, event) | half ~ x + z | site",
        ("time", "event", "x", "z", "site", "half"),
    ),
    "strata": (atm.NormalLinear(), "y | half ~ x + z | site", ("y", "x", "z", "site", "half")),
    "clusters": (atm.NormalLinear(), "y ~ x + z + (1 | patient) | site", ("y", "x", "z", "site", "patient")),
    "glm": (atm.AnchorGLM(family="poisson"), "count ~ x + z | site", ("count", "x", "z", "site")),
    "ordinal": (
        atm.OrdinalRegression(),
        "ordered(rank, 'low', 'mid', 'high') ~ x + z | site",
        ("rank", "x", "z", "site"),
    ),
    "counts": (atm.CountRegression(order=3), "count ~ x + z | site", ("count", "x", "z", "site")),
    "splines and knots": (atm.NormalLinear(), "y ~ s(x, 5) + scale(z) | site", ("y", "x", "z", "site")),
    "a net": (atm.NormalLinear(l1=0.05), FORMULA, ("y", "x", "word", "site")),
    "boosting": (
        atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=4, min_samples_leaf=5),
        FORMULA,
        ("y", "x", "word", "site"),
    ),
    "boosting with validation": (
        atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=4, validation=["north"], all_rows=False),
        FORMULA,
        ("y", "x", "word", "site"),
    ),
}


def dropping(model: Any) -> Any:
    """Return a copy of the model that drops rows."""
    name = "model__missing" if hasattr(model, "model") else "missing"
    return clone(model).set_params(**{name: "drop"})


def from_formula(model: Any, formula: str, data: Any, **more: Any) -> Any:
    return type(model).from_formula(formula, data, **(model.get_params(deep=False) | more))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_dropping_equals_dropping_by_hand(name: str, kind: str) -> None:
    model, formula, columns = MODELS[name]
    rest = by_hand(*columns)
    expected = from_formula(model, formula, rest, xi=1.0)
    found = from_formula(dropping(model), formula, MESSY if kind == "pandas" else pl.from_pandas(MESSY), xi=1.0)
    assert np.array_equal(found.coef_, expected.coef_)
    assert np.array_equal(found.baseline_, expected.baseline_)
    assert found.loss_ == expected.loss_
    assert found.n_missing_ == N - len(rest)
    assert sum(found.missing_.values()) >= found.n_missing_
    assert len(found.missing_) == len(columns)
    held = "validation" in name
    positions = np.flatnonzero(MESSY[list(columns)].notna().all(axis=1) & ~(held & (MESSY.site == "north")))
    assert np.array_equal(found.rows_used_, positions)
    assert found.summary().facts["dropped"].startswith(f"{found.n_missing_} rows with missing values: ")
    assert expected.n_missing_ == 0
    assert expected.missing_ == {}
    assert "dropped" not in expected.summary().facts


INPUTS = {
    "frames": lambda d: (d[XY], d.y, d.site),
    "arrays": lambda d: (d[XY].to_numpy(), d.y.to_numpy(), d.site.to_numpy()),
    "lists": lambda d: (d[XY].to_numpy().tolist(), d.y.tolist(), d.site.tolist()),
    "sparse": lambda d: (sp.csr_matrix(d[XY].to_numpy()), d.y, d.site),
    "masked": lambda d: (np.ma.masked_invalid(d[XY].to_numpy()), d.y, d.site),
    "polars": lambda d: (pl.from_pandas(d[XY]), pl.from_pandas(d.y), pl.from_pandas(d.site)),
    "two anchors": lambda d: (d[XY], d.y, [d.site, d.z]),
    "a frame of anchors": lambda d: (d[XY], d.y, d[["site", "z"]]),
    "nullable": lambda d: (d[XY].convert_dtypes(), d.y.astype("Float64"), d.site.astype("category")),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_arrays_of_any_kind_stay_aligned(kind: str) -> None:
    rest = by_hand(*XY, "y", "site", "w", "o")
    X, y, anchors = INPUTS[kind](MESSY)
    found = atm.NormalLinear(1.0, missing="drop").fit(X, y, anchors=anchors, sample_weight=MESSY.w, offset=MESSY.o)
    X, y, anchors = INPUTS[kind](rest)
    expected = atm.NormalLinear(1.0).fit(X, y, anchors=anchors, sample_weight=rest.w, offset=rest.o)
    assert np.array_equal(found.coef_, expected.coef_)
    assert np.array_equal(MESSY.index[found.rows_used_], rest.index)


def test_columns_of_x_in_other_roles() -> None:
    names = [*XY, "site", "half"]
    rest = by_hand(*names, "y")
    found = atm.NormalLinear(1.0, anchor_names=["site"], strata="half", missing="drop").fit(MESSY[names], MESSY.y)
    expected = atm.NormalLinear(1.0, anchor_names=["site"], strata="half").fit(rest[names], rest.y)
    assert np.array_equal(found.coef_, expected.coef_)
    assert set(found.missing_) == {"covariate 'x'", "covariate 'z'", "anchor 'site'", "stratum 'half'", "outcome 'y'"}


def test_rows_of_weight_zero_are_not_used() -> None:
    weights = np.where(np.arange(N) % 5 == 0, 0.0, 1.0)
    rest = MESSY[weights > 0].dropna(subset=[*XY, "y", "site"])
    found = atm.NormalLinear(1.0, missing="drop").fit(MESSY[XY], MESSY.y, anchors=MESSY.site, sample_weight=weights)
    by_formula = atm.NormalLinear.from_formula("y ~ x + z | site", MESSY, sample_weight=weights, missing="drop", xi=1)
    expected = atm.NormalLinear(1.0).fit(rest[XY], rest.y, anchors=rest.site)
    for model in (found, by_formula):
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
        assert np.array_equal(MESSY.index[model.rows_used_], rest.index)
    clusters = np.arange(N) % 12
    errors = expected.standard_errors(clusters=clusters[found.rows_used_])
    for model in (found, by_formula):  # clusters of all rows, or of those that were used
        holes = np.where(np.isin(np.arange(N), found.rows_used_), clusters, -1).astype(object)
        holes[holes == -1] = None  # rows that were dropped need no cluster
        for given in (clusters, clusters[found.rows_used_], holes, pd.Series(holes, MESSY.index)):
            np.testing.assert_allclose(model.standard_errors(clusters=given), errors, rtol=1e-9)


def test_paths_left_out_fits_and_tests() -> None:
    rest, columns = by_hand(*XY, "y", "site"), ("y ~ x + z | site", MESSY)
    drop, plain = atm.ContinuousProbit(order=3, missing="drop"), atm.ContinuousProbit(order=3)
    arrays, whole = (MESSY[XY], MESSY.y, MESSY.site), (rest[XY], rest.y, rest.site)
    path = atm.anchor_path(plain, *whole, [0, 1])
    for given in (arrays, columns):
        found = atm.anchor_path(drop, *given, xis=[0, 1])
        assert np.array_equal(found.coefs, path.coefs)
        assert [m.n_missing_ for m in found.models] == 2 * [N - len(rest)]
        assert np.array_equal(MESSY.index[found.models[1].rows_used_], rest.index)
    left = atm.leave_one_environment_out(plain, *whole, [0, 1]).frame()
    for given in (arrays, columns):
        assert atm.leave_one_environment_out(drop, *given, xis=[0, 1]).frame().equals(left)
    test = atm.diagnostics.score_test(plain, *whole)
    assert test == atm.diagnostics.score_test(drop, *arrays) == atm.diagnostics.score_test(drop, *columns)
    net, nets = atm.NormalLinear(missing="drop"), {"n_lambdas": 3}
    coefs = atm.elastic_net_path(net, *arrays, [0, 1], **nets).coefs
    assert np.array_equal(coefs, atm.elastic_net_path(atm.NormalLinear(), *whole, [0, 1], **nets).coefs)
    trees = {"n_rounds": 3, "min_samples_leaf": 5}
    boosted = atm.anchor_path(atm.AnchorBoostedTM(net, **trees), *columns, xis=[0, 1])
    expected = atm.anchor_path(atm.AnchorBoostedTM(atm.NormalLinear(), **trees), *whole, [0, 1])
    assert np.array_equal(boosted.baselines, expected.baselines)
    assert np.array_equal(MESSY.index[boosted.models[0].rows_used_], rest.index)


SEARCHES = {
    "xi": (atm.XiSearchCV, {}),
    "net": (atm.ElasticNetCV, {"n_lambdas": 3}),
    "smooth": (atm.SmoothSearchCV, {"smooths": [1.0, 0.1]}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_also_drop_rows_without_an_environment(name: str) -> None:
    kind, more = SEARCHES[name]
    formula = "y ~ s(x, 5) + z | site" if name == "smooth" else "y ~ x + z | site"
    rest = by_hand(*XY, "y", "site", "half")
    expected = kind.from_formula(formula, rest, model=atm.NormalLinear(), xis=[0, 1], environments="half", **more)
    drop = atm.NormalLinear(missing="drop")
    found = kind.from_formula(formula, MESSY, model=drop, xis=[0, 1], environments="half", **more)
    assert found.results_.equals(expected.results_)
    assert np.array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)
    assert np.array_equal(MESSY.index[found.best_estimator_.rows_used_], rest.index)
    if name == "smooth":
        return
    arrays = kind(drop, xis=[0, 1], **more)
    arrays.fit(MESSY[XY], MESSY.y, anchors=MESSY.site, environments=MESSY.half)
    assert arrays.results_.equals(expected.results_)
    assert np.array_equal(MESSY.index[arrays.best_estimator_.rows_used_], rest.index)


def test_boosting_drops_rows_without_an_environment() -> None:
    rest = by_hand(*XY, "y", "site", "half")
    more = {"n_rounds": 3, "validation": "each", "min_samples_leaf": 5}
    found = atm.AnchorBoostedTM(atm.NormalLinear(missing="drop"), 1.0, **more)
    found.fit(MESSY[XY], MESSY.y, anchors=MESSY.site, environments=MESSY.half)
    expected = atm.AnchorBoostedTM(atm.NormalLinear(), 1.0, **more)
    expected.fit(rest[XY], rest.y, anchors=rest.site, environments=rest.half)
    assert found.loss_ == expected.loss_
    assert np.array_equal(MESSY.index[found.rows_used_], rest.index)
    with pytest.raises(UnavailableError):
        _ = pickle.loads(pickle.dumps(found)).rows_used_  # noqa: S301


@pytest.fixture
def parquet(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a file that is read in four batches, all rows of one of which have missing values."""
    from anchortm.backends import sources

    monkeypatch.setattr(sources, "BATCH_ROWS", 60)
    messy = MESSY.drop(columns=["rank"]).copy()
    messy.iloc[60:120, messy.columns.get_loc("x")] = np.nan
    file = tmp_path / "table.parquet"
    messy.to_parquet(file, row_group_size=60)
    return str(file)


def test_tables_in_batches(parquet: str) -> None:
    data = pd.read_parquet(parquet)
    rest = data.dropna(subset=[*XY, "y", "site", "w", "o"])
    more = {"xi": 1.0, "sample_weight": "w", "offset": "o", "order": 3}
    found = atm.ContinuousProbit.from_formula("y ~ x + z | site", parquet, missing="drop", **more)
    expected = atm.ContinuousProbit.from_formula("y ~ x + z | site", rest, **more)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8)
    in_memory = atm.ContinuousProbit.from_formula("y ~ x + z | site", data, missing="drop", **more)
    assert found.n_missing_ == in_memory.n_missing_ == N - len(rest)
    assert found.missing_ == in_memory.missing_
    with pytest.raises(UnavailableError, match="rows_used_ needs the rows in memory"):
        _ = found.rows_used_
    rest = data.dropna(subset=[*XY, "y", "site", "half"])
    more = {"xis": [0, 1], "environments": "half"}
    left = atm.leave_one_environment_out(atm.NormalLinear(missing="drop"), "y ~ x + z | site", parquet, **more).frame()
    by_memory = atm.leave_one_environment_out(atm.NormalLinear(), "y ~ x + z | site", rest, **more).frame()
    np.testing.assert_allclose(left.nll, by_memory.nll, rtol=1e-8)
    assert left.n.tolist() == by_memory.n.tolist()
    more["model"] = atm.NormalLinear(missing="drop")
    search = atm.XiSearchCV.from_formula("y ~ x + z | site", parquet, **more)
    assert search.best_estimator_.n_missing_ == N - len(rest)


def test_batches_list_all_columns_in_an_error(parquet: str) -> None:
    with pytest.raises(InputError, match=r"3 columns: covariate 'x' \(6\d rows\), outcome 'y' .*, anchor 'site'"):
        atm.NormalLinear.from_formula("y ~ x | site", parquet)
    data = pd.read_parquet(parquet).assign(x=np.nan)
    data.to_parquet(parquet)
    with pytest.raises(InputError, match="no rows are left: each of the 240 rows has a missing value"):
        atm.NormalLinear.from_formula("y ~ x | site", parquet, missing="drop")


def test_the_bootstrap_draws_from_the_rows_that_are_used() -> None:
    rest = by_hand(*XY, "y", "site")
    found = atm.NormalLinear(1.0, missing="drop").fit(MESSY[XY], MESSY.y, anchors=MESSY.site)
    expected = atm.NormalLinear(1.0).fit(rest[XY], rest.y, anchors=rest.site)
    options: dict[str, Any] = {"clusters": np.arange(len(rest)) % 20, "random_state": 1}
    draws = [m.bootstrap(n_bootstrap=8, **options).draws for m in (found, expected)]
    assert np.array_equal(*draws)


def test_models_keep_what_was_dropped(tmp_path: Any) -> None:
    model = atm.NormalLinear.from_formula(FORMULA, MESSY, missing="drop", xi=1.0)
    atm.save(model, tmp_path / "model.json")
    pickled = pickle.loads(pickle.dumps(model))  # noqa: S301
    for again in (atm.load(tmp_path / "model.json"), pickled):
        assert again.missing == "drop"
        assert again.missing_ == model.missing_
        assert again.n_missing_ == model.n_missing_
        assert again.summary().facts["dropped"] == model.summary().facts["dropped"]
        with pytest.raises(UnavailableError):
            _ = again.rows_used_
    boosted = atm.AnchorBoostedTM(atm.NormalLinear(missing="drop"), n_rounds=2).fit(MESSY[XY], MESSY.y)
    atm.save(boosted, tmp_path / "boosted.json")
    again = atm.load(tmp_path / "boosted.json")
    assert (again.model.missing, again.n_missing_, again.missing_) == ("drop", boosted.n_missing_, boosted.missing_)
    assert clone(model).missing == "drop"
    assert model.result_.n_missing == model.n_missing_
    with pytest.raises(InputError, match=r"covariate 'x' \(4 rows\)"):  # new rows are never dropped
        model.predict(MESSY)


def test_an_environment_that_vanishes_is_none() -> None:
    data = WHOLE.assign(x=WHOLE.x.where(WHOLE.site != "east"))
    model = atm.NormalLinear(missing="drop")
    with pytest.warns(AnchorTMWarning, match="1 place has no complete row and is left out: east"):
        left = atm.leave_one_environment_out(model, "y ~ x + z | site", data, xis=[0, 1]).frame()
    assert set(left.environment) == {"north", "south", "west"}
    assert atm.NormalLinear.from_formula("y ~ x | site", data, missing="drop", xi=1).n_anchors_ == 3
    data = data.assign(x=data.x.where(data.site == "north"))
    with (
        pytest.warns(AnchorTMWarning, match="3 places have no complete rows"),
        pytest.raises(InputError, match="there is a single environment"),
    ):
        atm.leave_one_environment_out(model, "y ~ x + z | site", data, xis=[0, 1])


def test_errors_list_all_columns_of_a_table() -> None:
    columns = ["covariate 'x'", "cluster 'patient'", "stratum 'half'", "anchor 'site'", "outcome 'time'"]
    columns += ["outcome 'event'", "sample_weight 'w'", "offset 'o'", "environments"]
    text = "Surv(time, event) | half ~ x + (1 | patient) | site"
    kind, more = atm.ProportionalHazards(), {"sample_weight": "w", "offset": "o"}
    calls = [
        lambda: from_formula(kind, text, MESSY, **more),
        lambda: atm.anchor_path(kind, text, MESSY, xis=[0, 1], **more),
        lambda: atm.leave_one_environment_out(kind, text, MESSY, MESSY.word, **more),
        lambda: atm.XiSearchCV.from_formula(text, MESSY, model=kind, environments=MESSY.word, **more),
    ]
    for k, call in enumerate(calls):
        with pytest.raises(InputError) as error:
            call()
        wanted = columns[: 8 + (k > 1)]
        assert [name for name in wanted if name not in str(error.value)] == []
        assert f"missing values (NaN) in {len(wanted)} columns" in str(error.value)
        assert '(missing="drop")' in str(error.value)
    arrays = (MESSY[XY], MESSY.y, MESSY.half)
    with pytest.raises(InputError, match=r"4 columns: covariate 'x'.*covariate 'z'.*outcome 'y'.*environments"):
        atm.leave_one_environment_out(atm.NormalLinear(), *arrays, [0, 1])


@pytest.mark.parametrize(
    "model", [atm.LinearAnchorRegression(3.0), atm.AnchorBoosting(3.0, n_estimators=3, base="tree", random_state=0)]
)
def test_competitors_drop_rows(model: Any) -> None:
    rest = by_hand(*XY, "y", "site")
    expected = clone(model).fit(rest[XY], rest.y, anchors=rest.site)
    given = (MESSY[XY], MESSY.y, MESSY.site)
    found = clone(model).set_params(missing="drop").fit(*given[:2], anchors=given[2])
    table = type(model).from_formula("y ~ x + z | site", MESSY, **model.get_params() | {"missing": "drop"})
    for other in (found, table):
        assert np.array_equal(other.predict(WHOLE[XY]), expected.predict(WHOLE[XY]))
        assert other.n_missing_ == N - len(rest)
        assert other.missing_["covariate 'x'"] == 4
    assert (expected.n_missing_, expected.missing_) == (0, {})
    with pytest.raises(
        MissingValueError, match=r"4 columns: covariate 'x' \(4 rows\).*which leaves out 10 of 240 rows$"
    ):
        clone(model).fit(*given[:2], anchors=given[2])
    with pytest.raises(InputError, match='missing must be "error" or "drop", not \'skip\''):
        clone(model).set_params(missing="skip").fit(*given[:2], anchors=given[2])


def test_a_bootstrap_of_batches_needs_the_cluster_of_each_row(tmp_path: Any) -> None:
    WHOLE.assign(patient=MESSY.patient).to_parquet(tmp_path / "data.parquet", row_group_size=60)
    for missing in ("error", "drop"):
        model = atm.NormalLinear.from_formula("y ~ x | site", tmp_path / "data.parquet", xi=1.0, missing=missing)
        with pytest.raises(
            MissingValueError, match=r"clusters 'patient' is missing at row .* in the table before the fit"
        ):
            model.bootstrap(4, clusters="patient", progress=False)


def test_rows_in_errors_are_those_of_the_table() -> None:
    data = MESSY.assign(x=WHOLE.x.where(np.arange(N) != 150, np.inf))
    for call in (
        lambda: atm.NormalLinear(missing="drop").fit(data[XY], data.y),
        lambda: atm.NormalLinear.from_formula("y ~ x + z", data, missing="drop"),
    ):
        with pytest.raises(InputError, match="row 150"):
            call()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_an_impossible_transform_is_not_a_missing_value() -> None:
    with pytest.raises(InputError, match=r"`log\(z\)` contains null values"):
        atm.NormalLinear.from_formula("y ~ x + log(z)", MESSY, missing="drop")


def test_nothing_missing_changes_nothing() -> None:
    found = atm.NormalLinear(1.0, missing="drop").fit(WHOLE[XY], WHOLE.y, anchors=WHOLE.site)
    expected = atm.NormalLinear(1.0).fit(WHOLE[XY], WHOLE.y, anchors=WHOLE.site)
    assert np.array_equal(found.coef_, expected.coef_)
    assert (found.n_missing_, found.missing_) == (0, {})
    for model in (found, expected):
        assert np.array_equal(model.rows_used_, np.arange(N))
    with pytest.raises(AttributeError):
        _ = atm.NormalLinear().rows_used_


def test_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "table.csv")
    MESSY.to_csv(file, index=False)
    given = [file, "--model", "lm", "--formula", "y ~ x + z | site"]
    assert main(["fit", *given]) == 1
    assert "4 columns: covariate 'x' (4 rows), covariate 'z'" in (said := capsys.readouterr().err)
    assert "fit with --missing drop, which leaves out" in said
    dropped = N - len(by_hand(*XY, "y", "site"))
    assert main(["fit", *given, "--missing", "drop", "--xi", "1"]) == 0
    assert f"dropped         {dropped} rows with missing values: covariate 'x' in 4" in capsys.readouterr().out
    for command in ("path", "loeo"):
        assert main([command, *given]) == 1
        capsys.readouterr()
        assert main([command, *given, "--missing", "drop", "--xi", "0,1"]) == 0
    with pytest.raises(SystemExit) as stop:
        main(["fit", *given, "--missing", "impute"])
    assert stop.value.code == 2
