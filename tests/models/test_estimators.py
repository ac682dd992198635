"""scikit-learn's contract, the fitted attributes, and what bad input gets."""

import inspect
import math
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from reference_fits import COVARIATES, boston_response, data
from simulated import FOUR
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import check_estimator

import anchortm as atm
from anchortm.bases import BernsteinBasis, LogLinearBasis
from anchortm.exceptions import AnchorTMWarning, AnchorWarning, InputError, InputTypeError
from anchortm.links import Logistic

BOSTON = data("BostonHousing2")
X, Y, TOWN = BOSTON[COVARIATES], BOSTON.cmedv, BOSTON.town
CLASSES = [
    atm.NormalLinear,
    atm.ContinuousProbit,
    atm.ContinuousLogit,
    atm.ProportionalHazards,
    atm.Lehmann,
    atm.ParametricSurvival,
    atm.OrdinalRegression,
    atm.CountRegression,
    atm.AnchorTM,
]
classes = pytest.mark.parametrize("make", CLASSES, ids=lambda c: c.__name__)

# scikit-learn's checks that cannot hold, with the reason for each
NO_FEATURES = "a design without columns is an unconditional model"
DEGENERATE = "the check's data have no maximum-likelihood estimate: separated classes, or more columns than rows"
EXPECTED = {
    "check_estimators_empty_data_messages": NO_FEATURES,
    "check_sample_weight_equivalence_on_dense_data": "30 columns for 15 rows: refused as collinear",
    "check_sample_weight_equivalence_on_sparse_data": "30 columns for 15 rows: refused as collinear",
    "check_sample_weights_shape": DEGENERATE,
    "check_sample_weights_not_overwritten": DEGENERATE,
    "check_regressors_no_decision_function": DEGENERATE,
}
SEPARATED = dict.fromkeys(
    [
        "check_classifiers_classes",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",  # of scikit-learn 1.6
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_pipeline_consistency",
    ],
    DEGENERATE,
)
ORDINAL = SEPARATED | {
    "check_classifiers_regression_target": "numbers are taken as ordered classes",
    "check_fit2d_1sample": "one row is refused as one class",
}
COUNTS = "counts are whole numbers from 0; the check's are not"
COUNT = SEPARATED | dict.fromkeys(
    [
        "check_estimators_dtypes",
        "check_estimators_nan_inf",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_regressor_data_not_an_array",
        "check_regressors_train",
        "check_sample_weights_not_an_array",
        "check_sample_weights_pandas_series",
    ],
    COUNTS,
)


@classes
@pytest.mark.filterwarnings("ignore")  # 2026-11-15: the checks provoke warnings of all kinds on purpose
def test_scikit_learn_checks(make) -> None:
    expected = EXPECTED | {atm.OrdinalRegression: ORDINAL, atm.CountRegression: COUNT}.get(make, {})
    results = check_estimator(make(), on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert set(failed) <= set(expected), {name: failed[name] for name in set(failed) - set(expected)}
    assert len(results) - len(failed) >= 30


def response_for(make):
    if make is atm.OrdinalRegression:
        return boston_response("ord6")
    return np.round(Y) if make is atm.CountRegression else Y


@classes
def test_fitted_attributes_and_clone(make) -> None:
    y = response_for(make)
    model = make(xi=2.0).fit(X, y, anchors=TOWN)
    assert model.coef_.shape == (7,)
    assert model.coef_names_ == COVARIATES
    assert model.feature_names_in_.tolist() == COVARIATES
    assert model.n_features_in_ == 7
    assert model.baseline_.shape == (model.basis_.n_parameters,)
    assert model.loss_ == pytest.approx(-model.loglik_ / 506 + 2.0 * model.penalty_, rel=1e-12)
    assert model.converged_ is True
    assert model.kkt_ <= 1e-8
    plain = make().fit(X, y)
    assert plain.aic_ == pytest.approx(-2 * plain.loglik_ + 2 * plain.n_parameters_)
    assert plain.bic_ == pytest.approx(-2 * plain.loglik_ + math.log(506) * plain.n_parameters_)
    with pytest.raises(InputError, match="maximum-likelihood fits"):
        _ = model.aic_
    assert model.score(X, y) == pytest.approx(model.loglik_ / 506, rel=1e-10)
    assert model.nll(X, y).shape == model.residuals(X, y).shape == (506,)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own object
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    shared = ["xi", "anchor_intercept", "anchor_names", "tol", "max_iter", "n_jobs", "verbose"]
    assert set(shared) <= set(inspect.signature(make.__init__).parameters)


@classes
def test_fit_does_not_change_its_arguments(make) -> None:
    frame, y = X.copy(), response_for(make)
    model = make(xi=1.0)
    before = model.get_params()
    model.fit(frame, y, anchors=TOWN)
    assert model.get_params() == before
    pd.testing.assert_frame_equal(frame, X)


@classes
def test_frames_and_arrays_give_the_same_fit(make) -> None:
    y = response_for(make)
    wanted = make(xi=2.0).fit(X, y, anchors=TOWN)
    numbers = y if isinstance(y, atm.Response) else np.asarray(y)
    for frame, anchors in (
        (X.to_numpy(), TOWN.to_numpy()),
        (pl.from_pandas(X), pl.from_pandas(TOWN)),
        (X, TOWN.astype("category")),
        (X, pd.DataFrame({"town": TOWN})),
    ):
        model = make(xi=2.0).fit(frame, numbers, anchors=anchors)
        np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-12)
        if make is not atm.OrdinalRegression:
            np.testing.assert_allclose(model.predict(frame), wanted.predict(X), rtol=1e-12)


def test_unconditional_models() -> None:
    model = atm.ContinuousProbit().fit(None, Y)
    assert model.coef_.shape == (0,)
    assert model.loglik_ == pytest.approx(-1776.7735843188116, rel=1e-10)  # R
    assert model.predict(n_rows=3).tolist() == [model.predict(n_rows=1)[0]] * 3
    assert model.nll(None, Y).sum() == pytest.approx(-model.loglik_)
    empty = atm.ContinuousProbit().fit(np.zeros((506, 0)), Y)
    assert empty.loglik_ == pytest.approx(model.loglik_)


def test_predict_is_the_conditional_median() -> None:
    for make in (atm.NormalLinear, atm.ContinuousLogit, atm.ProportionalHazards, atm.ParametricSurvival):
        model = make(xi=1.0).fit(X, Y, anchors=TOWN)
        median = model.predict(X)
        h = model.basis_.rows(median) @ model.baseline_ + model.new_rows_.parts(X, None, None)[1]
        np.testing.assert_allclose(np.exp(model.link_.log_cdf(h)), 0.5, atol=1e-9)
    linear = atm.NormalLinear().fit(X, Y)
    np.testing.assert_allclose(linear.predict(X), linear.intercept_ + X.to_numpy() @ linear.slope_, rtol=1e-10)


def test_count_median_is_the_smallest_count_with_half_the_mass() -> None:
    counts = np.round(Y)
    model = atm.CountRegression().fit(X, counts)
    k = model.predict(X)
    assert (k == np.floor(k)).all()
    shift = model.new_rows_.parts(X, None, None)[1]
    at = np.exp(model.link_.log_cdf(model.basis_.rows(k) @ model.baseline_ + shift))
    before = np.exp(model.link_.log_cdf(model.basis_.rows(np.maximum(k - 1, 0)) @ model.baseline_ + shift))
    assert (at >= 0.5 - 1e-12).all()
    assert ((before < 0.5) | (k == 0)).all()


def test_ordinal_prediction() -> None:
    grades = pd.Series(pd.cut(Y, [0, 15, 21, 30, 51], labels=["poor", "fair", "good", "dear"]))
    model = atm.OrdinalRegression().fit(X, grades)
    assert model.classes_.tolist() == ["poor", "fair", "good", "dear"]
    assert set(model.predict(X)) <= set(model.classes_)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (506, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.mean(model.predict(X) == grades) > 0.6
    rows = np.arange(506), [list(model.classes_).index(g) for g in grades]
    np.testing.assert_allclose(-np.log(probabilities[rows]), model.nll(X, grades), rtol=1e-10)


def test_general_triple_contains_the_named_models() -> None:
    named = atm.ContinuousLogit(xi=3.0).fit(X, Y, anchors=TOWN)
    for general in (
        atm.AnchorTM(link="logit", xi=3.0),
        atm.AnchorTM(link=Logistic(), basis=BernsteinBasis(6, named.support_), xi=3.0),
    ):
        np.testing.assert_allclose(general.fit(X, Y, anchors=TOWN).coef_, named.coef_, rtol=1e-10)
    weibull = atm.ParametricSurvival().fit(X, Y)
    np.testing.assert_allclose(atm.AnchorTM(link="cloglog", basis="log-linear").fit(X, Y).coef_, weibull.coef_)
    np.testing.assert_allclose(
        atm.AnchorTM(link="probit", basis="linear").fit(X, Y).coef_, atm.NormalLinear().fit(X, Y).coef_
    )
    ordinal = atm.AnchorTM(basis="ordinal").fit(X, boston_response("ord6"))
    np.testing.assert_allclose(ordinal.coef_, atm.OrdinalRegression().fit(X, boston_response("ord6")).coef_)
    counts = atm.AnchorTM(basis="count", log_first=True).fit(X, np.round(Y))
    np.testing.assert_allclose(counts.coef_, atm.CountRegression().fit(X, np.round(Y)).coef_)


@pytest.mark.parametrize(("dist", "slope"), [("exponential", 1.0), ("rayleigh", 2.0)])
def test_fixed_shapes(dist: str, slope: float) -> None:
    model = atm.ParametricSurvival(dist=dist).fit(X, Y)
    assert model.baseline_[1] == pytest.approx(slope, rel=1e-12)
    free = atm.AnchorTM(link="cloglog", basis=LogLinearBasis(slope)).fit(X, Y)
    np.testing.assert_allclose(free.coef_, model.coef_)
    assert model.converged_
    assert model.loglik_ < atm.ParametricSurvival().fit(X, Y).loglik_


def test_exponential_without_covariates_is_the_rate() -> None:
    model = atm.ParametricSurvival(dist="exponential").fit(None, atm.Surv(Y, Y != 50))
    assert math.exp(model.baseline_[0]) == pytest.approx((Y != 50).sum() / Y.sum(), rel=1e-8)


def test_anchor_names_take_columns_of_x() -> None:
    frame = X.assign(town=TOWN)
    wanted = atm.ContinuousLogit(xi=5.0).fit(X, Y, anchors=TOWN)
    model = atm.ContinuousLogit(xi=5.0, anchor_names=["town"]).fit(frame, Y)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    np.testing.assert_array_equal(model.predict(frame), wanted.predict(X))
    assert model.feature_names_in_.tolist() == [*COVARIATES, "town"]
    # a new place need not have the anchors
    np.testing.assert_array_equal(model.predict(X), wanted.predict(X))
    array = np.column_stack([TOWN.to_numpy(dtype=object), X.to_numpy(dtype=object)])
    by_position = atm.ContinuousLogit(xi=5.0, anchor_names=[0]).fit(array, Y)
    np.testing.assert_allclose(by_position.coef_, wanted.coef_, rtol=1e-9)
    np.testing.assert_allclose(by_position.predict(array), wanted.predict(X), rtol=1e-9)
    scores = cross_val_score(atm.NormalLinear(xi=5.0, anchor_names=["town"]), frame, Y, cv=3)
    assert np.isfinite(scores).all()


def test_pipelines_and_grid_search_with_metadata_routing() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            atm.NormalLinear().set_fit_request(anchors=True, sample_weight=True).set_score_request(sample_weight=True)
        )
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        weights = np.random.default_rng(0).integers(1, 4, 506)
        pipeline.set_params(normallinear__xi=3.0).fit(X, Y, anchors=TOWN, sample_weight=weights)
        direct = atm.NormalLinear(xi=3.0).fit(X, Y, anchors=TOWN, sample_weight=weights)
        assert pipeline[-1].loss_ == pytest.approx(direct.loss_, rel=1e-10)
        search = GridSearchCV(model, {"xi": [0.0, 1.0, 10.0]}, cv=GroupKFold(3))
        search.fit(X, Y, anchors=TOWN, sample_weight=weights, groups=TOWN)
        assert search.best_params_["xi"] in (0.0, 1.0, 10.0)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_censored_responses_go_through_cross_validation() -> None:
    scores = cross_val_score(atm.ContinuousLogit(), X, atm.Surv(Y, Y != 50), cv=3)
    assert scores.shape == (3,)


def test_offset_at_prediction() -> None:
    offset = 0.1 * np.arange(506) / 506
    model = atm.ProportionalHazards().fit(X, Y, offset=offset)
    assert model.nll(X, Y, offset=offset).sum() == pytest.approx(-model.loglik_, rel=1e-10)
    shifted = model.predict(X, offset=offset + 1.0)
    assert (shifted < model.predict(X, offset=offset)).all()  # a larger hazard, an earlier median


def test_likelihood_ratio_of_nested_models() -> None:
    small, large = atm.ContinuousLogit().fit(X[["rm", "lstat"]], Y), atm.ContinuousLogit().fit(X, Y)
    test = atm.likelihood_ratio_test(small, large)
    assert test.df == 5
    assert test.statistic == pytest.approx(2 * (large.loglik_ - small.loglik_))
    assert 0 <= test.pvalue < 1e-4
    assert "on 5 degrees of freedom" in str(test)
    with pytest.raises(InputError, match="both models need xi = 0"):
        atm.likelihood_ratio_test(small, atm.ContinuousLogit(xi=1.0).fit(X, Y, anchors=TOWN))
    with pytest.raises(InputError, match="more parameters"):
        atm.likelihood_ratio_test(large, small)
    with pytest.raises(InputError, match="different rows"):
        atm.likelihood_ratio_test(small, atm.ContinuousLogit().fit(X[:400], Y[:400]))


def test_standard_errors_of_maximum_likelihood() -> None:
    model = atm.NormalLinear().fit(X, Y)
    design = np.column_stack([np.ones(506), X])
    residual = Y - model.predict(X)
    ols = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (residual @ residual) / 506)[1:]
    # on the scale of y, with sigma known: b = beta / theta_2
    J = np.hstack([np.zeros((7, 1)), -(model.slope_ / model.baseline_[1])[:, None], np.eye(7) / model.baseline_[1]])
    np.testing.assert_allclose(np.sqrt(np.diag(J @ model.covariance() @ J.T)), ols, rtol=1e-6)
    assert "std. error" in str(model.summary())


def test_summary_says_what_matters() -> None:
    text = str(atm.ContinuousLogit(xi=10.0).fit(X, atm.Surv(Y, Y != 50), anchors=TOWN).summary())
    for part in (
        "490 exact, 16 right",
        "order 6 on (12.8, 34.7)",
        "92 anchor directions",
        "odds ratio",
        "lstat",
        "converged",
    ):
        assert part in text
    assert "hazard ratio" in str(atm.ProportionalHazards().fit(X, Y).summary())
    linear = atm.NormalLinear().fit(X, Y)
    assert f"sigma {linear.sigma_:.5g}" in str(linear.summary())
    frame = linear.summary().frame()
    np.testing.assert_allclose(frame["slope of y"], linear.slope_)
    assert "time ratio" in str(atm.ParametricSurvival().fit(X, Y).summary())


def test_path_frame_and_plot() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    path = atm.anchor_path(atm.ContinuousLogit(), X, Y, TOWN, [0, 1, 10])
    frame = path.frame()
    assert frame.xi.tolist() == [0.0, 1.0, 10.0]
    assert "coef_lstat" in frame.columns
    assert path.coefs.shape == (3, 7)
    axes = path.plot()
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert len(axes.get_legend().get_texts()) == 7
    low, high = axes.get_xlim()
    assert -1 < low < 0
    assert high > 10


def test_zero_weights_drop_rows_and_their_levels() -> None:
    weights = np.where(TOWN == "Nahant", 0.0, 1.0)
    kept = weights > 0
    model = atm.ContinuousProbit(xi=3.0, support=(10, 40)).fit(X, Y, anchors=TOWN, sample_weight=weights)
    wanted = atm.ContinuousProbit(xi=3.0, support=(10, 40)).fit(X[kept], Y[kept], anchors=TOWN[kept])
    assert model.n_anchors_ == wanted.n_anchors_ == 91
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-9)


def test_warnings_are_recorded() -> None:
    anchors = pd.DataFrame({"town": TOWN, "one": 1.0})
    with pytest.warns(AnchorWarning, match="dropped as constant or collinear: one"):
        model = atm.NormalLinear(xi=1.0).fit(X, Y, anchors=anchors)
    assert model.dropped_anchors_ == ("one",)
    assert "Note: anchor columns dropped" in str(model.summary())
    with pytest.warns(AnchorWarning, match="single environment"):
        atm.NormalLinear(xi=1.0).fit(X, Y, anchors=np.zeros(506, dtype=int))
    grades = pd.Categorical(np.where(Y > 21, "high", "low"), ["low", "middle", "high"], ordered=True)
    with pytest.warns(AnchorTMWarning, match="classes without rows dropped: middle"):
        ordinal = atm.OrdinalRegression().fit(X, grades)
    assert ordinal.classes_.tolist() == ["low", "high"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: atm.NormalLinear(xi=1.0).fit(X, Y), InputError, "xi = 1 needs anchors"),
        (
            lambda: atm.ContinuousLogit(xi=-0.1).fit(X, Y, anchors=TOWN),
            InputError,
            "at least 0, not -0.1; only NormalLinear",
        ),
        (lambda: atm.NormalLinear(xi=-0.6).fit(X, Y, anchors=TOWN), InputError, "at least -0.5, not -0.6"),
        (lambda: atm.NormalLinear(xi=math.nan).fit(X, Y, anchors=TOWN), InputError, "xi must be at least"),
        (lambda: atm.NormalLinear(xi="1").fit(X, Y, anchors=TOWN), InputTypeError, "xi must be a number, not '1'"),
        (lambda: atm.NormalLinear().fit(X[:500], Y), InputError, "X has 500 rows, but y has 506"),
        (lambda: atm.NormalLinear(xi=1).fit(X, Y, anchors=TOWN[:9]), InputError, "anchors has 9 rows, but y has 506"),
        (lambda: atm.NormalLinear().fit(X.assign(rm=np.nan), Y), InputError, "missing values in rm, first at row 0"),
        (lambda: atm.NormalLinear().fit(X.assign(rm=np.inf), Y), InputError, "infinity in rm"),
        (lambda: atm.NormalLinear().fit(X.assign(rm="a"), Y), InputTypeError, "covariate 'rm' is not numeric"),
        (lambda: atm.NormalLinear().fit(X.rename(columns={"rm": "age"}), Y), InputError, "occur more than once: age"),
        (lambda: atm.NormalLinear().fit(X, Y, sample_weight=-np.ones(506)), InputError, "sample_weight is negative"),
        (lambda: atm.NormalLinear().fit(X, Y, sample_weight=np.zeros(506)), InputError, "all sample weights are zero"),
        (lambda: atm.NormalLinear().fit(X, Y, sample_weight=np.ones(9)), InputError, "sample_weight has shape"),
        (
            lambda: atm.NormalLinear().fit(X, Y, sample_weight=["a"] * 506),
            InputTypeError,
            "sample_weight must be numbers",
        ),
        (lambda: atm.NormalLinear().fit(X, Y, offset=np.full(506, np.nan)), InputError, "offset is nan at row 0"),
        (lambda: atm.ContinuousLogit(order=0).fit(X, Y), InputError, "order must be from 1 to 50"),
        (lambda: atm.ContinuousLogit(support=(3, 1)).fit(X, Y), InputError, "low < high"),
        (lambda: atm.ContinuousLogit(start=([0], [1])).fit(X, Y), InputError, "start must be .* of lengths 7 and 7"),
        (lambda: atm.ParametricSurvival(dist="gamma").fit(X, Y), InputError, "dist must be one of weibull"),
        (lambda: atm.OrdinalRegression(link="cauchit").fit(X, Y > 21), InputError, "unknown link 'cauchit'"),
        (lambda: atm.AnchorTM(basis="spline").fit(X, Y), InputError, "basis must be 'bernstein'"),
        (lambda: atm.NormalLinear(anchor_names=["x"]).fit(X, Y), InputError, "anchor_names not in X: x"),
        (lambda: atm.NormalLinear(anchor_names=["rm"]).fit(X, Y, anchors=TOWN), InputError, "not both"),
        (lambda: atm.NormalLinear(anchor_names=[9]).fit(X.to_numpy(), Y), InputError, "column positions from 0 to 6"),
        (lambda: atm.NormalLinear().fit(X, Y).predict(X[["rm"]]), InputError, "X has 1 features, but NormalLinear"),
        (lambda: atm.NormalLinear().fit(X, Y).predict(X[COVARIATES[::-1]]), InputError, "expected crim.*got lstat"),
        (lambda: atm.NormalLinear().fit(X, Y).nll(X[:5], Y), InputError, "X has 5 rows, but y has 506"),
        (lambda: atm.OrdinalRegression().fit(X, Y > 21).nll(X[:2], [3, 4]), InputError, "class that is not known: 3"),
        (lambda: atm.NormalLinear().predict(X), NotFittedError, "not fitted"),
        (lambda: atm.NormalLinear().summary(), NotFittedError, "not fitted"),
        (lambda: atm.NormalLinear().fit(X, None), InputError, "requires y"),
        (lambda: atm.anchor_path(atm.NormalLinear(), X, Y, None, [0, 1]), InputError, "needs anchors"),
        (lambda: atm.anchor_path(atm.NormalLinear(), X, Y, TOWN, []), InputError, "at least one number"),
        (lambda: atm.xi_from_gamma(-1), InputError, "gamma must be at least 0"),
        (lambda: atm.gamma_from_xi(-1), InputError, "xi must be at least -1/2"),
        (lambda: atm.gamma_from_quantile(1.0), InputError, r"alpha must be in \[0, 1\)"),
    ],
)
def test_bad_input_is_refused_by_name(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_refused_fit_leaves_nothing_behind() -> None:
    model = atm.ContinuousLogit(order=0)
    with pytest.raises(InputError):
        model.fit(X, Y)
    assert [name for name in vars(model) if name.endswith("_")] == []


def test_verbose_prints_iterations(capsys) -> None:
    atm.ContinuousLogit(verbose=1).fit(X, Y)
    assert "iteration 0  loss" in capsys.readouterr().out


def test_import_is_lazy() -> None:
    code = "import sys, anchortm; print([m for m in ('sklearn', 'pandas', 'scipy', 'matplotlib') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert out.stdout.strip() == "[]"
    assert "ContinuousLogit" in dir(atm)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = atm.nothing


def test_rich_display() -> None:
    model = atm.ContinuousLogit(xi=1.0)
    assert "sk-" in model._repr_html_()  # scikit-learn's picture before the fit
    model.fit(X, Y, anchors=TOWN)
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"], model.summary()._repr_html_()):
        assert "<table>" in html
        assert "odds ratio" in html
        assert "lstat" in html
    path = atm.anchor_path(atm.NormalLinear(), X, Y, TOWN, [0, 1])
    assert "coef_lstat" in path._repr_html_()
    loeo = atm.leave_one_environment_out(atm.NormalLinear(), X[:60], Y[:60], TOWN[:60], [0, 1])
    assert "hardest" in loeo._repr_html_()
    odd = atm.NormalLinear().fit(X.rename(columns={"rm": "<b>rm</b>"}), Y)
    assert "<b>rm</b>" not in odd._repr_html_()


@pytest.mark.parametrize(
    "model",
    [
        atm.NormalLinear(l2=0.1),
        atm.NormalLinear(1.0, scale="x0"),
        atm.NormalLinear(varying="x0"),
        atm.ContinuousLogit(l1=0.01, order=3),
        atm.OrdinalRegression(1.0),
        atm.CoxPH(1.0),
        atm.AnchorGLM(1.0, family="gaussian"),
    ],
)
def test_attributes_that_a_fit_lacks_are_not_there(model) -> None:
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(60, 2)), np.arange(60) % 3
    y = np.exp(0.3 * X[:, 0] + 0.3 * rng.normal(size=60))
    model.fit(X, np.digitize(y, [0.8, 1.2]) if isinstance(model, atm.OrdinalRegression) else y, anchors=site)
    found = {name for name, _ in inspect.getmembers(model)}
    assert "coef_" in found
    assert "random_cov_" not in found
    assert not hasattr(model, "random_effects_")
    assert hasattr(model, "aic_") == ("aic_" in found) == model.result_.unpenalised
    if not model.result_.unpenalised:
        with pytest.raises(InputError, match="AIC and BIC are for maximum-likelihood fits"):
            _ = model.aic_
    if isinstance(model, atm.NormalLinear) and model.l2 == 0.0:
        assert not hasattr(model, "sigma_")
        with pytest.raises(InputError, match=r"use predict_distribution|see baselines_"):
            _ = model.slope_


@pytest.mark.parametrize("model", [atm.NormalLinear(1.0), atm.CoxPH(1.0), atm.AnchorGLM(1.0)])
def test_models_without_rows_can_be_listed_and_drawn(model) -> None:
    """Editors ask for ``dir``, notebooks for the picture: of models before the fit and after pickling too."""
    assert "fit" in dir(model)
    if BaseEstimator.__dir__ is not object.__dir__:  # older versions of scikit-learn list what is not there yet
        assert "coef_" not in dir(model)
    with pytest.raises(NotFittedError):
        model.bootstrap(5)
    sent = pickle.loads(pickle.dumps(model.fit(X, Y, anchors=TOWN)))  # noqa: S301
    assert "coef_" in dir(sent)
    assert "sk-" in estimator_html_repr(make_pipeline(StandardScaler(), sent))
    assert not hasattr(sent, "problem_")
    with pytest.raises(InputError, match="needs the rows of the fit"):
        sent.bootstrap(5)


def test_quasi_likelihoods_have_no_criterion() -> None:
    model = atm.AnchorGLM(family="poisson", dispersion="pearson").fit(X, Y.round())
    assert "coef_" in dir(model)
    assert not hasattr(model, "aic_")
    with pytest.raises(InputError, match="AIC and BIC need a likelihood"):
        _ = model.bic_


def test_arguments_set_after_a_fit_do_not_change_it(tmp_path) -> None:
    """A model with its rows, one from a pickle and one from a file predict with the arguments of their fit."""
    table = X.assign(half=np.where(BOSTON.rm > 6.2, "upper", "lower"))
    strata = atm.ContinuousLogit(xi=1.0, order=3, strata="half").fit(table, Y, anchors=TOWN)
    glm = atm.AnchorGLM(1.0, family="gamma", link="log").fit(X, Y, anchors=TOWN)
    for model, rows, other in ((strata, table, {"strata": None}), (glm, X, {"family": "binomial", "link": "probit"})):
        expected, nll, text = model.predict(rows), model.nll(rows, Y), str(model.summary())
        loaded = atm.load(atm.save(model, tmp_path / "model.json"))
        for same in (loaded, pickle.loads(pickle.dumps(model)), model):  # noqa: S301
            same.set_params(**other)
            np.testing.assert_array_equal(same.predict(rows), expected)
            np.testing.assert_array_equal(same.nll(rows, Y), nll)
            assert str(same.summary()) == text


def test_negative_xi_needs_exact_rows() -> None:
    with pytest.raises(InputError, match="needs NormalLinear with exact rows"):
        atm.NormalLinear(xi=-0.5).fit(
            FOUR.X, atm.Interval(FOUR.y, np.where(FOUR.y > 1, np.inf, FOUR.y)), anchors=FOUR.site
        )


def test_a_second_fit_forgets_the_first() -> None:
    model = atm.AnchorTM(basis="bernstein").fit(FOUR.X, FOUR.y)
    model.set_params(basis="linear", link="probit").fit(FOUR.X, FOUR.y)
    assert not hasattr(model, "support_")
    assert "linear basis" in str(model.summary())
    model.set_params(basis="ordinal", link="logit").fit(FOUR.X, np.digitize(FOUR.y, [0.0]))
    model.set_params(basis="bernstein").fit(FOUR.X, FOUR.y)
    assert not hasattr(model, "classes_")


def test_an_offset_gives_the_rows_of_an_unconditional_prediction() -> None:
    assert atm.ContinuousLogit().fit(None, FOUR.y).predict(offset=np.zeros(3)).shape == (3,)


@pytest.mark.parametrize(("option", "message"), [({"max_iter": 0}, "max_iter"), ({"tol": 0.0}, "tol must be")])
def test_limits_of_the_solver(option: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        atm.ContinuousLogit(**option).fit(FOUR.X, FOUR.y)
