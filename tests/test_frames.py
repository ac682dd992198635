"""NumPy, pandas, polars and pyarrow give the same fit, for every estimator and every way to write anchors."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

rng = np.random.default_rng(0)
SITE = rng.integers(0, 4, 200)
TABLE = pd.DataFrame({"age": rng.normal(size=200) + SITE, "dose": rng.normal(size=200)})
LATENT = TABLE.age.to_numpy() + rng.logistic(size=200)
OUTCOMES = {
    "NormalLinear": LATENT,
    "ContinuousProbit": LATENT,
    "ContinuousLogit": LATENT,
    "ProportionalHazards": np.exp(LATENT / 3),
    "Lehmann": LATENT,
    "ParametricSurvival": np.exp(LATENT / 3),
    "OrdinalRegression": np.digitize(LATENT, [0, 2]),
    "CountRegression": np.floor(np.exp(LATENT / 2)).astype(int),
    "AnchorTM": LATENT,
}


def make(name: str):
    options = {"order": 3} if hasattr(getattr(atm, name)(), "order") else {}
    return getattr(atm, name)(xi=1.0, **options)


@pytest.mark.parametrize("name", OUTCOMES)
def test_all_tables_give_the_same_fit(name: str) -> None:
    y = OUTCOMES[name]
    words = np.array(["north", "south", "east", "west"])[SITE]
    wanted = make(name).fit(TABLE.to_numpy(), y, anchors=words)
    tables = {
        "pandas": (TABLE, pd.Series(y), pd.Series(words, name="site")),
        "polars": (pl.from_dict(TABLE.to_dict("list")), pl.Series(y), pl.Series("site", words)),
        "pyarrow": (pa.table(TABLE.to_dict("list")), pa.chunked_array([y]), pa.chunked_array([words.tolist()])),
    }
    for kind, (X, outcome, anchors) in tables.items():
        model = make(name).fit(X, outcome, anchors=anchors)
        np.testing.assert_array_equal(model.coef_, wanted.coef_, err_msg=kind)
        np.testing.assert_array_equal(model.baseline_, wanted.baseline_)
        assert model.coef_names_ == ["age", "dose"]
        assert model.feature_names_in_.tolist() == ["age", "dose"]
        np.testing.assert_array_equal(model.predict(X), wanted.predict(TABLE.to_numpy()))
        np.testing.assert_array_equal(model.nll(X, outcome), wanted.nll(TABLE.to_numpy(), y))


ANCHORS = {
    "integers": SITE,
    "strings": np.array(list("abcd"))[SITE],
    "category": pd.Categorical(np.array(list("abcd"))[SITE]),
    "series of categories": pd.Series(pd.Categorical(np.array(list("abcd"))[SITE])),
    "polars strings": pl.Series(np.array(list("abcd"))[SITE]),
    "polars categories": pl.Series(np.array(list("abcd"))[SITE].tolist(), dtype=pl.Categorical),
    "polars enum": pl.Series(np.array(list("abcd"))[SITE].tolist(), dtype=pl.Enum(list("dcba"))),
    "pyarrow dictionary": pa.array(np.array(list("abcd"))[SITE].tolist()).dictionary_encode(),
    "frame": pd.DataFrame({"site": SITE}),
    "polars frame": pl.DataFrame({"site": SITE}),
    "pyarrow table": pa.table({"site": SITE}),
}


@pytest.mark.parametrize("kind", ANCHORS)
def test_categorical_anchors(kind: str) -> None:
    wanted = atm.NormalLinear(xi=2.0).fit(TABLE, LATENT, anchors=SITE.tolist())
    model = atm.NormalLinear(xi=2.0).fit(TABLE, LATENT, anchors=ANCHORS[kind])
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-12)
    assert model.n_anchors_ == 4


@pytest.mark.parametrize("values", [SITE > 1, pl.Series(SITE > 1), pa.array((SITE > 1).tolist()), pd.Series(SITE > 1)])
def test_boolean_anchors(values) -> None:
    wanted = atm.NormalLinear(xi=2.0).fit(TABLE, LATENT, anchors=(SITE > 1).astype(int))
    np.testing.assert_allclose(atm.NormalLinear(xi=2.0).fit(TABLE, LATENT, anchors=values).coef_, wanted.coef_)


def test_anchor_names_and_weights_in_all_tables() -> None:
    data = TABLE.assign(site=np.array(list("abcd"))[SITE])
    weight = np.arange(200) % 3 + 1
    wanted = atm.NormalLinear(xi=2.0).fit(TABLE, LATENT, anchors=data.site, sample_weight=weight)
    for table, w in (
        (data, pd.Series(weight)),
        (pl.from_dict(data.to_dict("list")), pl.Series(weight)),
        (pa.table(data.to_dict("list")), pa.array(weight)),
    ):
        model = atm.NormalLinear(xi=2.0, anchor_names=["site"]).fit(table, LATENT, sample_weight=w)
        np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-12)
        np.testing.assert_allclose(model.predict(table), wanted.predict(TABLE))


def test_surv_of_columns() -> None:
    time, event = np.exp(LATENT / 3), rng.random(200) < 0.7
    for columns in ((pl.Series(time), pl.Series(event)), (pa.array(time), pa.array(event.tolist()))):
        response = atm.Surv(*columns)
        np.testing.assert_array_equal(response.lower, atm.Surv(time, event).lower)
        np.testing.assert_array_equal(response.upper, atm.Surv(time, event).upper)


def test_lazy_tables_are_refused() -> None:
    with pytest.raises(InputTypeError, match=r"is lazy: .* call collect"):
        atm.NormalLinear().fit(pl.from_dict(TABLE.to_dict("list")).lazy(), LATENT)
    with pytest.raises((InputError, InputTypeError), match="table with named columns"):
        atm.Formula("y ~ x", 3)


LONG = pd.DataFrame({"y": LATENT, "n": SITE, "x": TABLE.age.round(3)})


@pytest.mark.parametrize("formula", ["y ~ n", "n ~ x", "y ~ x | n", "y ~ C(n)"])
def test_polars_whole_numbers_of_128_bits(formula: str) -> None:
    table = pl.from_dict(LONG.to_dict("list")).with_columns(pl.col("n").cast(pl.Int128))
    wanted = atm.NormalLinear.from_formula(formula, LONG, xi=float("|" in formula))
    for data in (table, table.lazy()):
        model = atm.NormalLinear.from_formula(formula, data, xi=float("|" in formula))
        np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-6)
    X, n = LONG[["x"]], table["n"]
    np.testing.assert_array_equal(
        atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=n, sample_weight=n).coef_,
        atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=SITE, sample_weight=SITE).coef_,
    )
    np.testing.assert_array_equal(
        atm.NormalLinear().fit(table[["x", "n"]], LATENT).coef_, atm.NormalLinear().fit(LONG[["x", "n"]], LATENT).coef_
    )


def test_decimals_and_objects_of_numbers_in_formulas_are_numbers() -> None:
    words = [f"{x:.3f}" for x in LONG.x]
    decimals = [Decimal(word) for word in words]
    columns = {
        "decimals of Arrow": pd.Series(decimals, dtype=pd.ArrowDtype(pa.decimal128(20, 3))),
        "decimals": pd.Series(decimals, dtype=object),
        "objects": LONG.x.astype(object),
    }
    for formula in ("y ~ x", "x ~ y", "y ~ 1 | x"):
        wanted = atm.NormalLinear.from_formula(formula, LONG, xi=float("|" in formula))
        for kind, column in columns.items():
            model = atm.NormalLinear.from_formula(formula, LONG.assign(x=column), xi=float("|" in formula))
            np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-12, err_msg=kind)
            np.testing.assert_allclose(model.loss_, wanted.loss_, rtol=1e-12, err_msg=kind)
            np.testing.assert_allclose(model.predict(LONG.assign(x=column)), wanted.predict(LONG), err_msg=kind)


def test_nullable_whole_numbers_keep_their_sign_and_size() -> None:
    large = pd.Series([2**63 + 2**40 * k for k in range(200)], dtype="UInt64")
    model = atm.NormalLinear.from_formula("y ~ n", LONG.assign(n=large))
    assert model.covariate_ranges_[0, 0] == 2.0**63


def test_masked_arrays_without_masked_entries_are_arrays() -> None:
    anchors, weight = np.ma.array(SITE), np.ma.array(np.ones(200), mask=False)
    model = atm.NormalLinear(xi=2.0).fit(TABLE, np.ma.array(LATENT), anchors=anchors, sample_weight=weight)
    np.testing.assert_array_equal(model.coef_, atm.NormalLinear(xi=2.0).fit(TABLE, LATENT, anchors=SITE).coef_)
