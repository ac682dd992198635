"""Left-out environments of pipelines: transformers, too, never see the rows that they are judged on."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

import anchortm as atm
from anchortm.exceptions import InputError

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
    assert repr(search).startswith("XiSearchCV(NormalLinear, worst)")
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
    for fill in (SimpleImputer(), "passthrough"):
        pipeline = atm.make_pipeline(fill, atm.NormalLinear(missing="drop"))
        kept = y.notna().to_numpy()
        if fill != "passthrough":
            found = atm.leave_one_environment_out(pipeline, X, y, SITE, [0.0], progress=False).frame()
            by_hand = atm.leave_one_environment_out(pipeline, X[kept], y[kept], SITE[kept], [0.0], progress=False)
            pd.testing.assert_frame_equal(found, by_hand.frame())
        else:
            with pytest.raises(InputError, match=r"without environment 0: .*NaN"):
                atm.leave_one_environment_out(pipeline, X, y, SITE, [0.0], progress=False)
    with pytest.raises(InputError, match="missing"):
        atm.leave_one_environment_out(atm.make_pipeline(atm.NormalLinear()), X.fillna(0.0), y, SITE, progress=False)


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
