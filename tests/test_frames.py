"""NumPy, pandas, polars and pyarrow give the same fit, for every estimator and every way to write anchors."""

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
