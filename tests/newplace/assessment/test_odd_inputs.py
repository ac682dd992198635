"""Inputs of many kinds: tables of other packages, strata, missing values, strategies alone, strategies that fail."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression

import anchortm as atm
from anchortm.newplace.assessment.record import _shown
from tests.newplace.assessment.test_assess import FORMULA, data_of

SHORT = {"strategies": [atm.strategies.Anchored(choose=[0.0, 3.0])], "progress": False}
MODEL = atm.NormalLinear()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return data_of(10, 20)


@pytest.fixture(scope="module")
def new() -> pd.DataFrame:
    return data_of(rows=30, seed=9, level=3.0)


@pytest.fixture(scope="module")
def found(table, new):
    return atm.assess(MODEL, FORMULA, table, new=new, **SHORT)


@pytest.mark.bug(
    "new place", "arrow tables had no profiles, their notes held values of rows, and arrays raised KeyError"
)
def test_arrow_tables(found, table, new):
    pa = pytest.importorskip("pyarrow")
    named = atm.assess(MODEL, FORMULA, pa.Table.from_pandas(table), new=pa.Table.from_pandas(new), **SHORT)
    X, later = (pa.Table.from_pandas(rows[["x", "z"]]) for rows in (table, new))
    plain = atm.assess(MODEL, X, table.y, table.place, new=later, **SHORT)
    for own in (named, plain):
        assert not own.notes
        assert own.views.profiles[-1]["name"] == "new place"
        np.testing.assert_allclose(own.views.profiles[0]["density"], found.views.profiles[0]["density"], rtol=1e-6)
        assert own.recommendation.sentence == found.recommendation.sentence


@pytest.mark.bug("new place", "without a formula, environments were not known, and there was no calibration")
def test_arrays_are_calibrated(found, table, new):
    own = atm.assess(MODEL, table[["x", "z"]], table.y, table.place, new=new[["x", "z"]], **SHORT)
    assert not own.notes
    np.testing.assert_allclose(own.calibration.coverage(0.0), found.calibration.coverage(0.0))


@pytest.mark.bug("new place", "columns of strata and of clusters were taken for covariates that are not numeric")
@pytest.mark.parametrize("formula", ["y | g ~ x + z | place", "y ~ x + z + (1 | h) | place"])
def test_strata_and_clusters_are_not_covariates(found, table, formula):
    data = table.assign(g=np.where(np.arange(200) % 2, "u", "v"), h=[f"h{k % 25}" for k in range(200)])
    own = atm.assess(MODEL, formula, data, **SHORT)
    pd.testing.assert_frame_equal(own.evidence.stage.frame(), found.evidence.stage.frame())


@pytest.mark.bug("new place", 'with missing="drop" the conformal intervals looked at the rows that were dropped')
@pytest.mark.parametrize("named", [True, False])
def test_conformal_intervals_without_rows_that_are_dropped(named):
    data = data_of(24, 8)
    holes = data.assign(x=data.x.where(np.arange(len(data)) % 11 != 0), w=1.0 + np.arange(len(data)) % 2)
    whole, drop = holes.dropna(), atm.NormalLinear(missing="drop")
    if named:
        some, every = (atm.assess(drop, FORMULA, rows, sample_weight="w", **SHORT) for rows in (holes, whole))
    else:
        some, every = (
            atm.assess(drop, rows[["x", "z"]], rows.y, rows.place, sample_weight=rows.w, **SHORT)
            for rows in (holes, whole)
        )
    assert not some.notes
    assert vars(some.conformal) == vars(every.conformal)
    assert np.isfinite(some.conformal.width)


@pytest.mark.bug("new place", "one strategy alone was a TypeError, a name alone was taken for its letters")
def test_a_strategy_alone(table):
    one = atm.assess(MODEL, FORMULA, table, strategies=atm.strategies.Anchored(3.0), progress=False)
    assert set(one.comparison.frame().strategy) == {"null", "ml", "anchored(3)"}
    named = atm.assess(MODEL, FORMULA, table, strategies="equal", progress=False)
    assert set(named.comparison.frame().strategy) == {"null", "ml", "equal"}
    none = atm.assess(MODEL, FORMULA, table, strategies=[], progress=False)  # without a RuntimeWarning
    assert none.recommendation.like.confidence == "untried"


@pytest.mark.bug("new place", "fit() raised ValueError if anchoring was advised, and tried under another name")
def test_anchoring_at_a_given_xi(table, new):
    fixed = [atm.strategies.Anchored(10.0)]
    own = atm.assess(MODEL, FORMULA, table, new=new, strategies=fixed, progress=False)
    assert (own.recommendation.strategy, own.recommendation.xi) == ("anchored", 10.0)
    expected = atm.NormalLinear.from_formula(FORMULA, table, xi=10.0)
    np.testing.assert_allclose(own.fit().coef_, expected.coef_, rtol=1e-6)
    held = own.with_outcomes(new).held_back
    assert held.agrees is True
    assert "the recommended strategy: +" in held.sentence


@pytest.mark.bug("new place", "random intercepts and regressors, fitted to all rows, did not read tables")
def test_other_strategies_read_tables(table, new):
    chosen = ["random-intercept", atm.strategies.Regressor(LinearRegression())]
    own = atm.assess(MODEL, FORMULA, table, new=new, strategies=chosen, progress=False)
    held = own.with_outcomes(new).held_back.frame().set_index("strategy")
    mixed = atm.NormalLinear.from_formula("y ~ x + z + (1 | place)", table)
    law = mixed.predict_distribution(new[["x", "z"]])
    nll = -float(np.mean(law.logpdf(new.y.to_numpy()[:, None])))
    assert held.loc["random-intercept", "nll"] == pytest.approx(nll, abs=1e-4)
    line = LinearRegression().fit(table[["x", "z"]], table.y)
    mae = np.abs(new.y - line.predict(new[["x", "z"]])).mean()
    assert held.loc["LinearRegression", "mae"] == pytest.approx(mae)


@pytest.mark.bug("new place", "a strategy that cannot be fitted to all rows took all others with it")
def test_strategies_that_fail_at_the_end(table, new):
    chosen = ["equal", atm.strategies.Anchored(np.inf)]
    own = atm.assess(MODEL, FORMULA, table, new=new, strategies=chosen, progress=False)
    later = own.with_outcomes(new)
    assert later.held_back.frame().strategy.tolist()[:2] == ["ml", "equal"]
    assert any("over-identified" in note for note in later.notes)
    both = atm.assess(MODEL, FORMULA, table, strategies=[atm.strategies.Anchored(choose=[0.0, np.inf])], progress=False)
    assert both.curves  # recalibration does not need the fit at infinity
    assert both.recommendation.further.reasons[0] == "No fit without the outermost places succeeded."
    assert "choose=[0.0, float('inf')]" in both.methods.code


@pytest.mark.bug("new place", "covariates whose effect varies were left out of the distance in silence")
def test_effects_that_vary_do_not_count_in_the_distance(found, table, new):
    model = atm.ContinuousProbit(order=2, varying=["x"])
    with pytest.warns(atm.exceptions.AnchorTMWarning, match="leaves its range"):
        own = atm.assess(model, FORMULA, table, new=new, **SHORT)
    assert own.new.uncounted == ("x",)
    assert "This does not count x, whose effect varies along the outcome" in own.new.sentence
    assert "does not count" not in found.new.sentence


@pytest.mark.bug("new place", "the code left out strategies, weights and environments, so that it gave another answer")
def test_the_code_computes_it_again(found, table, new):
    own = atm.assess(
        MODEL, table[["x", "z"]], table.y, environments=table.place, sample_weight=np.ones(200), min_rows=5, **SHORT
    )
    inputs = {"X": table[["x", "z"]], "y": table.y, "environments": table.place, "sample_weight": np.ones(200)}
    for one, names in ((own, inputs), (found, {"data": table, "new": new})):
        space = dict(names)
        exec(one.methods.code, space)  # noqa: S102
        record, again = one.to_dict(), space["found"].to_dict()
        assert again == record


@pytest.mark.bug("new place", "the link of a generalised linear model was the repr of its family")
def test_the_link_has_a_name(table):
    data = table.assign(b=(table.y > 0).astype(int))
    own = atm.assess(atm.AnchorGLM(family="binomial"), "b ~ x | place", data, strategies=["equal"], progress=False)
    assert own.sites.link == "binomial, logit"


@pytest.mark.bug(
    "new place", "a small new place's distance and scores told its rows; one small place, all minus the others"
)
def test_no_group_of_fewer_than_five_rows_can_be_told_apart(table, new):
    small = data_of(1, 1, 7).assign(place="alone")
    data = pd.concat([table, small])
    own = atm.assess(MODEL, FORMULA, data, new=new[:1], **SHORT).with_outcomes(new[:1])
    record, whole = own.to_dict(), own.to_dict(rows=True)
    assert record["about"]["n_withheld"] == 2
    assert "2 places, 1 of them with fewer than 5 rows" in record["data"]["remarks"][0]
    n = record["about"]["n_rows"] - sum(site["n"] for site in record["sites"])
    assert n == 21
    assert record["new"]["distance"] is None
    assert record["new"]["sentence"] == "The new place counts as further out."
    assert record["held_back"] is None
    assert "fewer than 5 rows" in record["data"]["remarks"][-1]
    assert whole["new"]["distance"] > 1.0
    assert whole["new"]["covariates"]
    assert whole["held_back"]["n"] == 1
    assert len(whole["sites"]) == 11
    assert "(1 row)" in own.held_back.sentence
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ([9, 8, 7], [0, 1, 2]),
        ([9, 1, 7], [0]),
        ([9, 3, 2, 7], [0, 3]),
        ([1, 1, 1, 9], []),
        ([2, 2], []),
        ([4, 30, 6], [1]),
    ],
)
def test_places_that_are_shown(counts, shown):
    assert _shown(np.array(counts)) == shown


@pytest.mark.bug(
    "new place", "medians of step baselines, and times that effects are measured at, were outcomes of rows"
)
@pytest.mark.parametrize("model", [atm.CoxPH(), atm.ProportionalHazards(order=2)], ids=["cox", "smooth"])
def test_no_time_of_a_row_is_in_the_record(table, model):
    times = np.exp(0.3 * table.y).round(4)
    data = table.assign(t=times, d=(np.arange(200) % 5 > 0).astype(int))
    own = atm.assess(model, "Surv(t, d) ~ x | place", data, strategies=["equal"], progress=False)
    views = own.to_dict()["views"]
    medians = {value for profile in views["profiles"] for value in profile["median"]}
    assert medians
    assert not medians & set(times)
    if own.effects is not None:
        assert float(own.effects.unit.split("> ")[1].rstrip(")")) == float(f"{np.median(times[data.d == 1]):.3g}")


@pytest.mark.bug("new place", "sparse matrices, and X=None, ended in an error of pandas")
def test_sparse_covariates_and_none(table):
    X = table[["x", "z"]].to_numpy()
    sparse, dense = (
        atm.assess(MODEL, rows, table.y, table.place, strategies=["equal"], progress=False)
        for rows in (csr_array(X), X)
    )
    assert [note.partition(":")[0] for note in sparse.notes] == ["first stage"]  # which takes dense arrays
    assert sparse.views.profiles[0]["median"] == pytest.approx(dense.views.profiles[0]["median"])
    none = atm.assess(MODEL, None, table.y, table.place, strategies=["equal"], progress=False)
    assert none.recommendation.strategy == "ml"
    assert any("X is None" in note for note in none.notes)
