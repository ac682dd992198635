"""NumPy, pandas, polars and pyarrow give the same fit, for every estimator and every way to write anchors."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import ShuffleSplit, cross_val_score

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


@pytest.mark.bug("other software", "polars columns of 128 bits ended in an error of Python's")
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


@pytest.mark.bug("other software", "decimals in formulas were cut to whole numbers")
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


ROWS = pd.DataFrame({"x": TABLE.age, "y": LATENT, "site": SITE, "t": np.exp(LATENT / 3), "w": 1.0, "o": 0.1})
ROWS = ROWS.assign(e=1, k=np.floor(ROWS.t)).set_index(pd.Index([f"r{k}" for k in range(200)]))
OTHER = ROWS.sort_values("site")  # the same rows in another order
LINE, LINE_FIT = atm.NormalLinear(xi=1.0), atm.NormalLinear().fit(ROWS[["x"]], ROWS.y)
BOOSTED = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=1).fit(ROWS[["x"]], ROWS.y)
COUNTS = atm.AnchorGLM(family="poisson").fit(ROWS[["x"]], ROWS.k)
COX = atm.CoxPH().fit(ROWS[["x"]], atm.Surv(ROWS.t, ROWS.e))


def entries(d: pd.DataFrame, o: pd.DataFrame):
    """Return calls in which one input comes from the table o and the others from d, by the inputs that would clash."""
    X, y = d[["x"]], d.y
    return {
        ("X", "y", "fit"): lambda: LINE.fit(X, o.y),
        ("X", "anchors", "fit"): lambda: LINE.fit(X, y, anchors=o.site),
        ("X", "anchors[1]", "fit"): lambda: LINE.fit(X, y, anchors=[d.site, o.w]),
        ("X", "sample_weight", "fit"): lambda: LINE.fit(X, y, sample_weight=o.w),
        ("X", "offset", "fit"): lambda: LINE.fit(X, y, offset=o.o),
        ("X", "sample_weight", "formula"): lambda: LINE.from_formula("y ~ x", d, sample_weight=o.w),
        ("X", "offset", "formula"): lambda: LINE.from_formula("y ~ x", d, offset=o.o),
        ("time", "event", "Surv"): lambda: atm.Surv(d.t, o.e),
        ("time", "entry", "Surv"): lambda: atm.Surv(d.t, d.e, o.t - 0.1),
        ("lower", "upper", "Interval"): lambda: atm.Interval(d.y, o.y + 9.0),
        ("successes", "trials", "Trials"): lambda: atm.Trials(d.e, o.k + 9.0),
        ("X", "y", "CoxPH"): lambda: atm.CoxPH().fit(X, atm.Surv(o.t, o.e)),
        ("X", "anchors", "GLM"): lambda: atm.AnchorGLM(xi=1.0).fit(X, d.k, anchors=o.site),
        ("X", "y", "boosted"): lambda: atm.AnchorBoostedTM(LINE).fit(X, o.y),
        ("X", "environments", "boosted"): lambda: atm.AnchorBoostedTM(LINE).fit(X, y, environments=o.site),
        ("X", "anchors", "L2"): lambda: atm.LinearAnchorRegression(3.0).fit(X, y, anchors=o.site),
        ("X", "anchors", "L2 boosting"): lambda: atm.AnchorBoosting(3.0).fit(X, y, anchors=o.site),
        ("X", "anchors", "path"): lambda: atm.anchor_path(LINE, X, y, o.site, [0, 1]),
        ("X", "anchors", "net path"): lambda: atm.elastic_net_path(LINE, X, y, o.site),
        ("X", "environments", "left out"): lambda: atm.leave_one_environment_out(LINE, X, y, o.site, [0]),
        ("X", "anchors", "search"): lambda: atm.XiSearchCV(LINE).fit(X, y, anchors=o.site),
        ("X", "environments", "search"): lambda: atm.XiSearchCV(LINE).fit(X, y, anchors=d.site, environments=o.site),
        ("X", "anchors", "ElasticNetCV"): lambda: atm.ElasticNetCV(LINE).fit(X, y, anchors=o.site),
        ("X", "anchors", "score test"): lambda: atm.diagnostics.score_test(LINE, X, y, o.site),
        ("X", "anchors", "xi by test"): lambda: atm.xi_by_score_test(LINE, X, y, o.site),
        ("X", "anchors", "first stage"): lambda: atm.diagnostics.first_stage(X, o.site),
        ("X", "y", "nll"): lambda: LINE_FIT.nll(X, o.y),
        ("X", "offset", "nll"): lambda: LINE_FIT.nll(X, y, offset=o.o),
        ("X", "y", "residuals"): lambda: LINE_FIT.residuals(X, o.y),
        ("X", "sample_weight", "score"): lambda: LINE_FIT.score(X, y, o.w),
        ("X", "offset", "predict"): lambda: LINE_FIT.predict(X, offset=o.o),
        ("X", "y", "nll of boosted"): lambda: BOOSTED.nll(X, o.y),
        ("X", "offset", "predict of boosted"): lambda: BOOSTED.predict(X, offset=o.o),
        ("X", "sample_weight", "score of boosted"): lambda: BOOSTED.score(X, y, o.w),
        ("X", "y", "refit of boosted"): lambda: BOOSTED.refit(X, o.y),
        ("X", "y", "nll of GLM"): lambda: COUNTS.nll(X, o.k),
        ("X", "y", "nll of CoxPH"): lambda: COX.nll(X, atm.Surv(o.t, o.e)),
        ("X", "sample_weight", "score of CoxPH"): lambda: COX.score(X, atm.Surv(d.t, d.e), o.w),
        ("X", "environments", "scores"): lambda: atm.scores.score_table(LINE_FIT, X, y, o.site),
        ("X", "environments", "calibration"): lambda: atm.diagnostics.calibration(LINE_FIT, X, y, o.site),
        ("risk", "y", "concordance"): lambda: atm.scores.concordance(d.x, atm.Surv(o.t, o.e)),
    }


@pytest.mark.bug("other software", "pandas inputs whose rows were in different orders were fitted without a word")
@pytest.mark.parametrize("call", entries(ROWS, OTHER), ids=" ".join)
def test_rows_in_another_order_are_refused(call: tuple[str, str, str]) -> None:
    a, b, _ = call
    remedy = "make y from columns" if b == "y" and "CoxPH" in call[2] + a.replace("risk", "CoxPH") else None
    wanted = re.escape(remedy or f"pass {b}.loc[{a}.index], or {b}.to_numpy()")
    message = rf"{re.escape(b)} has the rows of {a} in another order.*{wanted}"
    with pytest.raises(InputError, match=message):
        entries(ROWS, OTHER)[call]()
    numbered = ROWS.reset_index(drop=True)  # 0, 1, ...
    with pytest.raises(InputError, match=message):
        entries(numbered, numbered.sort_values("site"))[call]()
    with pytest.raises(InputError, match=f"the rows of {a} and {re.escape(b)} differ .* row 0, 'r0' and 's0': "):
        entries(ROWS, ROWS.rename(index=lambda label: label.replace("r", "s")))[call]()


def test_clusters_in_another_order_are_refused() -> None:
    with pytest.raises(InputError, match=r"clusters has the rows of X in another order.*clusters.loc\[X.index\]"):
        LINE_FIT.standard_errors(clusters=OTHER.site)


def test_rows_without_labels_or_with_the_same_match() -> None:
    def fit(X, y, anchors, weight):
        return atm.NormalLinear(xi=1.0).fit(X, y, anchors=anchors, sample_weight=weight).coef_

    d = ROWS
    wanted = fit(d[["x"]], d.y, d.site, d.w)
    bare, moved = d.reset_index(drop=True), d.set_index(np.arange(200)[::-1])
    for X, y, anchors, weight in (
        (bare[["x"]], d.y, d.site.to_numpy(), bare.w),  # a default index says nothing
        (d[["x"]].to_numpy(), OTHER.loc[d.index].y, d.site, pl.Series(d.w.to_numpy())),
        (moved[["x"]], moved.y, moved.site, moved.w),
        (moved[["x"]], d.y.to_numpy(), d.site.tolist(), moved.w),
        (d.set_index("site")[["x"]], d.set_index("site").y, d.site.to_numpy(), None),  # the same labels many times
    ):
        np.testing.assert_allclose(fit(X, y, anchors, weight), wanted, rtol=1e-12)


def test_formulas_keep_the_labels_of_their_rows() -> None:
    d = ROWS.reset_index(drop=True).sort_values("t")
    wanted = atm.NormalLinear.from_formula("y ~ x | site", d.reset_index(), xi=1.0, sample_weight="w")
    made = atm.Formula("y ~ x | site", d)
    np.testing.assert_array_equal(made.X.index, d.index)
    atm.NormalLinear(xi=1.0).fit(made.X, made.y, anchors=d.site, sample_weight=d.w)
    for weight in ("w", d.w, d.w.to_numpy()):
        model = atm.NormalLinear.from_formula("y ~ x | site", d, xi=1.0, sample_weight=weight)
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
    for offset in ("o", d.o, 0.1):
        np.testing.assert_array_equal(model.nll(d, offset=offset), wanted.nll(d, d.y, offset=0.1))
    times = atm.Formula("Surv(t, e) ~ x", d).y
    np.testing.assert_array_equal(times.index, d.index)
    np.testing.assert_array_equal(times[[3, 1]].index, d.index[[3, 1]])


def test_slices_of_scikit_learn_match() -> None:
    X, y = OTHER[["x"]], atm.Surv(OTHER.t, OTHER.e)
    for cv in (3, ShuffleSplit(3, random_state=0)):
        assert np.isfinite(cross_val_score(atm.CoxPH(), X, y, cv=cv)).all()
        assert np.isfinite(cross_val_score(LINE_FIT, X, OTHER.y, cv=cv, params={"sample_weight": OTHER.w})).all()


def test_polars_strata_of_128_bits() -> None:
    table = pl.from_dict(LONG.to_dict("list"))[["x", "n"]]
    found, wanted = (
        atm.NormalLinear(strata="n").fit(X, LATENT).coef_
        for X in (table.with_columns(pl.col("n").cast(pl.Int128)), table)
    )
    np.testing.assert_array_equal(found, wanted)
