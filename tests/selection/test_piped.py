"""Left-out environments of pipelines: transformers, too, never see the rows that they are judged on."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError

rng = np.random.default_rng(0)
N = 150
SITE = rng.integers(0, 4, N)
X = pd.DataFrame({"x": rng.normal(size=N) + SITE, "z": rng.exponential(size=N)})
Y = X.x + rng.normal(size=N)
X.loc[::13, "x"] = np.nan
TIME = np.exp(Y / 3)
CASES = {
    "normal": (atm.NormalLinear(), Y),
    "censored": (atm.ContinuousLogit(order=2), atm.Surv(np.minimum(TIME, 2.0), TIME < 2.0)),
    "Cox": (atm.CoxPH(), atm.Surv(TIME, TIME > 0)),
    "classes": (atm.OrdinalRegression(), np.digitize(Y, [0, 2])),
    "boosted": (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3), Y),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fold_is_a_pipeline_of_its_own(name: str) -> None:
    model, y = CASES[name]
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), model)
    found = atm.leave_one_environment_out(pipeline, X, y, SITE, [0.0, 2.0], progress=False).frame()
    assert found.shape[0] == 8
    for row in found.to_dict("records"):
        inside = row["environment"] != SITE
        front = make_pipeline(SimpleImputer(), StandardScaler())
        train = front.fit_transform(X[inside])
        fitted = clone(model).set_params(xi=row["xi"]).fit(train, y[inside], anchors=SITE[inside])
        nll = fitted.nll(front.transform(X[~inside]), y[~inside])
        assert row["nll"] == nll.mean()
        assert row["n"] == (~inside).sum()
        np.testing.assert_array_equal([row["coef_x"], row["coef_z"]], fitted.coef_)


def test_without_transformers_it_is_the_model() -> None:
    whole = X.fillna(0.0)
    alone = atm.leave_one_environment_out(atm.NormalLinear(), whole, Y, SITE, [0.0, 2.0], progress=False).frame()
    piped = atm.leave_one_environment_out(
        atm.make_pipeline(atm.NormalLinear()), whole, Y, SITE, [0.0, 2.0], progress=False
    ).frame()
    pd.testing.assert_frame_equal(alone, piped, rtol=1e-8)


def test_what_the_transformers_learn_from_left_out_rows_is_nothing() -> None:
    """The mean outcome of a place is no covariate for another place: the transformer must not have seen it."""
    rows = pd.DataFrame({"place": SITE.astype(str)})
    encoder = TargetEncoder(target_type="continuous")
    pipeline = atm.make_pipeline(encoder, atm.NormalLinear())
    found = atm.leave_one_environment_out(pipeline, rows, Y, SITE, [0.0], progress=False).frame()
    seen = atm.NormalLinear().fit(encoder.fit(rows, Y).transform(rows), Y)
    cheating = [seen.nll(encoder.transform(rows[e == SITE]), Y[e == SITE]).mean() for e in range(4)]
    assert (found.nll > cheating).all()


def test_a_search_chooses_and_refits_the_pipeline() -> None:
    pipeline = make_pipeline(SimpleImputer(), atm.NormalLinear())
    weights = rng.integers(0, 3, N).astype(float)
    search = atm.XiSearchCV(pipeline, [0.0, 5.0], progress=False).fit(X, Y, anchors=SITE, sample_weight=weights)
    loeo = atm.leave_one_environment_out(pipeline, X, Y, SITE, [0.0, 5.0], sample_weight=weights, progress=False)
    pd.testing.assert_frame_equal(search.loeo_.frame(), loeo.frame())
    best = clone(pipeline).set_params(normallinear__xi=search.best_xi_)
    best.fit(X, Y, normallinear__anchors=SITE, normallinear__sample_weight=weights)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))
    np.testing.assert_array_equal(search.nll(X, Y), search.best_estimator_.nll(X, Y))
    np.testing.assert_array_equal(
        search.predict_quantiles(X, 0.9)[:, 0], atm.predict_table(best, X, quantiles=[0.9])["q0.9"]
    )
    assert repr(search).startswith("XiSearchCV(NormalLinear, 0.9)")
    assert isinstance(pipeline[-1].xi, float)
    assert not hasattr(pipeline[-1], "coef_")  # what was passed is not changed


def test_anchors_may_be_a_column() -> None:
    rows = X.assign(site=SITE.astype(str))
    front = atm.Pipeline(
        [("fill", SimpleImputer(strategy="most_frequent").set_output(transform="pandas")), ("m", atm.NormalLinear())]
    )
    search = atm.XiSearchCV(front.set_params(m__anchor_names=["site"]), [0.0, 5.0], progress=False).fit(rows, Y)
    assert search.loeo_.frame().environment.nunique() == 4


def test_rows_are_dropped_where_the_model_drops_them() -> None:
    """Transformers get rows with missing covariates, which they may fill; rows without outcome are dropped first."""
    y = Y.mask(np.arange(N) % 20 == 3)
    pipeline = atm.make_pipeline(SimpleImputer(), atm.NormalLinear(missing="drop"))
    kept = y.notna().to_numpy()
    found = atm.leave_one_environment_out(pipeline, X, y, SITE, [0.0], progress=False)
    by_hand = atm.leave_one_environment_out(pipeline, X[kept], y[kept], SITE[kept], [0.0], progress=False)
    assert sum(found.missing.values()) == found.n_missing == (~kept).sum()
    pd.testing.assert_frame_equal(found.frame(), by_hand.frame())
    with pytest.raises(InputError, match="missing"):
        atm.leave_one_environment_out(atm.make_pipeline(atm.NormalLinear()), X.fillna(0.0), y, SITE, progress=False)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("front", [StandardScaler(), StandardScaler().set_output(transform="pandas"), "passthrough"])
def test_left_out_rows_with_missing_values_are_dropped_and_counted(front, weighted: bool) -> None:
    """Values that the transformers pass on are missing at the model, in left-out rows as in those of the fits."""
    y = Y.mask(np.arange(N) % 20 == 3)
    weights = np.arange(N) % 3 + 1.0 if weighted else None
    pipeline = atm.make_pipeline(front, atm.NormalLinear(missing="drop"))
    found = atm.leave_one_environment_out(pipeline, X, y, SITE, [0.0, 1.0], sample_weight=weights, progress=False)
    whole = (y.notna() & X.x.notna()).to_numpy()
    assert found.n_missing == (~whole).sum()
    assert found.missing == {e: n for e in range(4) if (n := int((~whole)[e == SITE].sum()))}
    assert f"dropped: {(~whole).sum()} rows" in repr(found)
    for row in found.frame().to_dict("records"):
        held = (row["environment"] == SITE) & whole
        train = (row["environment"] != SITE) & y.notna().to_numpy()
        own, theirs = (None, None) if weights is None else (weights[train], weights[held])
        fitted = clone(pipeline).set_params(normallinear__xi=row["xi"])
        fitted.fit(X[train], y[train], anchors=SITE[train], sample_weight=own)
        nll = np.average(fitted.nll(X[held], y[held]), weights=theirs)
        assert row["nll"] == pytest.approx(nll, rel=1e-12)
        assert row["n"] == (held.sum() if weights is None else weights[held].sum())
    if not weighted and front == "passthrough":  # as without a pipeline
        alone = atm.leave_one_environment_out(atm.NormalLinear(missing="drop"), X, y, SITE, [0.0, 1.0], progress=False)
        assert (alone.missing, alone.n_missing) == (found.missing, found.n_missing)
        pd.testing.assert_frame_equal(alone.frame(), found.frame(), rtol=1e-8)


def test_an_environment_without_whole_rows_is_not_predicted() -> None:
    rows = X.assign(x=X.x.mask(SITE == 1))
    pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear(missing="drop"))
    with pytest.warns(AnchorTMWarning, match="environment 1: not predicted: each of its rows has a missing value"):
        found = atm.leave_one_environment_out(pipeline, rows, Y, SITE, [0.0], progress=False)
    assert np.isnan(found.frame().nll[1])
    assert found.frame().n[1] == 0
    assert found.frame().nll.notna().sum() == 3


@pytest.mark.parametrize("front", [SimpleImputer(), "passthrough"])
@pytest.mark.parametrize("last", [atm.NormalLinear(), atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3)])
def test_a_search_says_which_rows_were_dropped(front, last) -> None:
    """Rows without an outcome are dropped before the transformers, others behind them; positions are those of X."""
    y = Y.mask(np.arange(N) % 20 == 3)
    inner = "missing" if isinstance(last, atm.NormalLinear) else "model__missing"
    pipeline = atm.make_pipeline(front, clone(last).set_params(**{inner: "drop"}))
    plain = clone(pipeline).fit(X, y, anchors=SITE).model_
    search = atm.XiSearchCV(pipeline, [0.0], progress=False).fit(X, y, anchors=SITE)
    best = search.best_estimator_.model_
    np.testing.assert_array_equal(best.rows_used_, plain.rows_used_)
    gone = N - plain.rows_used_.size
    assert best.n_missing_ == plain.n_missing_ == search.loeo_.n_missing == gone
    behind = int((X.x.isna() & y.notna()).sum())  # a row that is dropped before is not looked at again
    assert list(best.missing_.values()) == ([8] if front != "passthrough" else [8, behind])
    assert f"dropped: {gone} rows with missing values" in repr(search)
    if isinstance(last, atm.NormalLinear):
        clusters = np.arange(N) // 10  # of all rows
        errors = best.standard_errors(clusters=clusters)
        if front == "passthrough":  # an imputer fills in the mean of the rows that it sees
            np.testing.assert_array_equal(errors, plain.standard_errors(clusters=clusters))


def test_columns_that_are_constant_without_an_environment() -> None:
    rows = X.fillna(0.0).assign(only=(SITE == 1) * rng.normal(size=N))
    pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear())
    with pytest.raises(IdentificationError, match="without environment 1: constant covariates: only"):
        atm.leave_one_environment_out(pipeline, rows, Y, SITE, [0.0], progress=False)
    pipeline = atm.make_pipeline(VarianceThreshold(), StandardScaler(), atm.NormalLinear())
    found = atm.leave_one_environment_out(pipeline, rows, Y, SITE, [0.0], progress=False).frame()
    assert np.isnan(found.coef_only).tolist() == [False, True, False, False]
    with pytest.warns(AnchorTMWarning, match="without only"):
        alone = atm.leave_one_environment_out(atm.NormalLinear(), rows, Y, SITE, [0.0], progress=False).frame()
    np.testing.assert_allclose(found.nll, alone.nll, rtol=1e-8)


def test_weights_of_zero_leave_environments_out() -> None:
    weights = np.where(SITE == 2, 0.0, 1.0)
    pipeline = make_pipeline(SimpleImputer(), atm.NormalLinear())
    found = atm.leave_one_environment_out(pipeline, X, Y, SITE, [1.0], sample_weight=weights, progress=False).frame()
    kept = SITE != 2
    wanted = atm.leave_one_environment_out(pipeline, X[kept], Y[kept], SITE[kept], [1.0], progress=False).frame()
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_what_folds_refuse() -> None:
    pipeline = make_pipeline(SimpleImputer(), atm.OrdinalRegression())
    rare = np.where(SITE == 1, np.arange(N) % 3, 0)
    with pytest.raises(InputError, match=r"without environment 1: .*class"):
        atm.leave_one_environment_out(pipeline, X, rare, SITE, [0.0], progress=False)
    with pytest.raises(InputError, match="environments has 3 rows"):
        atm.leave_one_environment_out(pipeline, X, rare, SITE[:3], [0.0], progress=False)
    with pytest.raises(InputError, match="pass the environments"):
        atm.leave_one_environment_out(pipeline, X, rare, progress=False)


def test_levels_of_one_place_are_read_as_the_transformers_say() -> None:
    rows = X.assign(
        x=X.x.fillna(0.0), kind=np.where((SITE == 1) & (np.arange(N) % 2 == 0), "rare", rng.choice(["a", "b"], N))
    )

    def pipeline(**options: str) -> atm.Pipeline:
        front = make_column_transformer((OneHotEncoder(drop=["a"], **options), ["kind"]), remainder="passthrough")
        return atm.make_pipeline(front, atm.NormalLinear())

    with pytest.raises(InputError, match=r"without environment 1: .*unknown categories \['rare'\]"):
        atm.leave_one_environment_out(pipeline(), rows, Y, SITE, [0.0], progress=False)
    with pytest.warns(UserWarning, match="Found unknown categories"):
        found = atm.leave_one_environment_out(
            pipeline(handle_unknown="ignore"), rows, Y, SITE, [0.0], progress=False
        ).frame()
    baseline = pipeline().fit(rows[SITE != 1], Y[SITE != 1], anchors=SITE[SITE != 1])
    read = rows.assign(kind=rows.kind.replace("rare", "a"))
    assert found.nll[1] == baseline.nll(read[SITE == 1], Y[SITE == 1]).mean()
    assert "coef_onehotencoder__kind_rare" in found
    assert np.isnan(found["coef_onehotencoder__kind_rare"][1])
