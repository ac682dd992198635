"""Pipelines: what they answer is what the steps give one after the other, to the last bit, for every kind of model."""

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn import linear_model
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

rng = np.random.default_rng(0)
N = 160
SITE = np.array([f"site {k}" for k in rng.integers(0, 6, N)])
X = pd.DataFrame({"age": rng.normal(50.0, 10.0, N), "dose": rng.exponential(size=N), "sex": rng.choice(["f", "m"], N)})
LATENT = 0.05 * (X.age - 50.0).to_numpy() - 0.3 * X.dose.to_numpy() + rng.logistic(size=N) + (SITE == "site 1")
X.loc[::17, "age"] = np.nan
TIME = np.exp(LATENT / 3)
SURVIVAL = atm.Surv(np.minimum(TIME, 2.0), TIME < 2.0)
COUNTS = np.floor(np.exp(LATENT / 2)).astype(int)
CASES: dict[str, tuple[Any, Any]] = {
    "normal": (atm.NormalLinear(xi=1.0), LATENT),
    "probit": (atm.ContinuousProbit(order=3), LATENT),
    "censored": (atm.ContinuousLogit(xi=3.0, order=3), SURVIVAL),
    "hazards": (atm.ProportionalHazards(xi=1.0, order=3, log_first=True), SURVIVAL),
    "lehmann": (atm.Lehmann(order=3), LATENT),
    "weibull": (atm.ParametricSurvival(xi=1.0), SURVIVAL),
    "classes": (atm.OrdinalRegression(xi=1.0), np.digitize(LATENT, [-1, 1])),
    "counts": (atm.CountRegression(xi=1.0, order=3), COUNTS),
    "any": (atm.AnchorTM(link="loglog", basis="linear"), LATENT),
    "Cox": (atm.CoxPH(xi=1.0), SURVIVAL),
    "Poisson": (atm.AnchorGLM(xi=1.0), COUNTS),
    "binomial": (atm.AnchorGLM(xi=1.0, family="binomial"), (LATENT > 0).astype(int)),
    "scale effects": (atm.ContinuousProbit(scale=["n__dose"], order=3), LATENT),
    "varying": (atm.ContinuousLogit(varying=["n__dose"], order=2), LATENT),
    "boosted": (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=5), LATENT),
    "boosted classes": (atm.AnchorBoostedTM(atm.OrdinalRegression(), n_rounds=5), np.digitize(LATENT, [-1, 1])),
    "search": (atm.XiSearchCV(atm.NormalLinear(), [0.0, 2.0]), LATENT),
}


def columns() -> ColumnTransformer:
    """Return transformers for missing values and words."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer([("n", numbers, ["age", "dose"]), ("w", OneHotEncoder(drop="first"), ["sex"])])


def by_hand(model: Any, y: Any) -> tuple[Any, pd.DataFrame]:
    """Return the model fitted to what the transformers make, and this table."""
    front = columns()
    made = pd.DataFrame(front.fit_transform(X), columns=front.get_feature_names_out())
    return clone(model).fit(made, y, anchors=SITE), made


@pytest.fixture(scope="module")
def fits() -> dict[str, tuple[Any, Any, Any]]:
    """Return for each kind of model the fitted pipeline, the model by hand, and its rows."""
    return {
        name: (atm.make_pipeline(columns(), clone(model)).fit(X, y, anchors=SITE), *by_hand(model, y))
        for name, (model, y) in CASES.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_is_its_steps_one_after_the_other(fits, name: str) -> None:
    y = CASES[name][1]
    pipeline, model, made = fits[name]
    np.testing.assert_array_equal(pipeline.predict(X), model.predict(made))
    np.testing.assert_array_equal(pipeline.nll(X, y), model.nll(made, y))
    assert pipeline.score(X, y) == model.score(made, y)
    if name != "binomial":  # of which scikit-learn wants probabilities
        np.testing.assert_array_equal(
            pipeline.predict_quantiles(X, [0.2, 0.9]), model.predict_distribution(made).ppf([0.2, 0.9])
        )
    at = 1 if hasattr(pipeline.model_, "classes_") else 1.5
    one, other = pipeline.predict_distribution(X), model.predict_distribution(made)
    np.testing.assert_array_equal(one.cdf(at), other.cdf(at))
    chosen = getattr(model, "best_estimator_", model)
    assert list(pipeline.model_.coef_names_) == list(chosen.coef_names_) != ["x0", "x1", "x2"]
    assert str(pipeline.summary()) == str(model.summary())
    for what in ("predict_proba", "standard_errors", "mean_intervals"):
        assert hasattr(pipeline, what) == hasattr(chosen, what), what
        if hasattr(pipeline, what):
            arguments, own = ((), ()) if what == "standard_errors" else ((X,), (made,))
            np.testing.assert_array_equal(getattr(pipeline, what)(*arguments), getattr(chosen, what)(*own))
    if name != "Cox":  # whose survival curves have no such scores
        scored = atm.scores.score_table(pipeline, X, y, SITE).table
        pd.testing.assert_frame_equal(scored, atm.scores.score_table(chosen, made, y, SITE).table)
    asked = {} if at == 1 else {"cdf": [1.5]}
    table = atm.predict_table(pipeline, X.assign(more=1.0), extrapolation=True, keep=["more"], **asked)
    wanted = atm.predict_table(chosen, made, extrapolation=True, **asked)
    pd.testing.assert_frame_equal(table.drop(columns="more"), wanted)


@pytest.mark.parametrize("name", CASES)
def test_functions_take_pipelines_of_scikit_learn(fits, name: str) -> None:
    """They give the model arrays, so that its columns have no names."""
    model, y = CASES[name]
    if name in ("scale effects", "varying"):
        model = clone(model).set_params(**{next(k for k in ("scale", "varying") if getattr(model, k)): [1]})
    plain = Pipeline([("columns", columns()), ("model", clone(model))]).fit(X, y, model__anchors=SITE)
    pipeline = fits[name][0]
    for atoms in (plain, atm.Pipeline(plain.steps)):
        pd.testing.assert_frame_equal(atm.predict_table(atoms, X), atm.predict_table(pipeline, X))
    if name == "Cox":
        return
    one, other = (atm.scores.score_table(p, X, y, SITE).table for p in (plain, pipeline))
    pd.testing.assert_frame_equal(one, other)
    one, other = (atm.diagnostics.calibration(p, X, y, SITE).table for p in (plain, pipeline))
    pd.testing.assert_frame_equal(one, other)


def test_questions_about_times_go_through(fits) -> None:
    for name in ("hazards", "Cox"):
        pipeline, model, made = fits[name]
        one, other = pipeline.restricted_mean(X, 1.5, by="sex"), model.restricted_mean(made, 1.5, by=X.sex)
        pd.testing.assert_frame_equal(one.frame(), other.frame())
        one, other = pipeline.survival_quantiles(X[1:4]), model.survival_quantiles(made[1:4])
        pd.testing.assert_frame_equal(one.frame(), other.frame())
        one, other = (m.confidence_band(rows[1:4], [0.5, 1.0], of="sf") for m, rows in ((pipeline, X), (model, made)))
        pd.testing.assert_frame_equal(one.frame(), other.frame())


def test_bands_by_refits_go_through() -> None:
    boosted = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3, learner="linear")
    pipeline = atm.make_pipeline(columns(), boosted).fit(X, LATENT, anchors=SITE)
    model, made = by_hand(boosted, LATENT)
    refits = [m.bootstrap(5, np.arange(N), random_state=0, progress=False) for m in (pipeline, model)]
    one = pipeline.confidence_band(X[:3], [0.0], uncertainty=refits[0])
    pd.testing.assert_frame_equal(one.frame(), model.confidence_band(made[:3], [0.0], uncertainty=refits[1]).frame())


def test_diagnostics_take_pipelines(fits) -> None:
    pipeline, model, made = fits["normal"]
    effects = atm.marginal_effects(pipeline, X).table
    pd.testing.assert_frame_equal(effects, atm.marginal_effects(model, made).table)
    smaller = atm.make_pipeline(columns(), atm.NormalLinear()).fit(X, LATENT)
    larger = atm.make_pipeline(columns(), PolynomialFeatures(2, include_bias=False, interaction_only=True))
    larger = Pipeline([*larger.steps, ("model", atm.NormalLinear())]).fit(X, LATENT)
    assert atm.likelihood_ratio_test(smaller, larger).df == 3
    moved = atm.diagnostics.residual_invariance(smaller, pipeline, X, LATENT, SITE)
    by_steps = atm.diagnostics.residual_invariance(smaller[-1], model, made, LATENT, SITE)
    assert moved.explained == by_steps.explained
    with pytest.raises(InputError, match="depends on n__age"):
        atm.plotting.transport(pipeline)


def test_anchors_weights_and_offset_reach_the_model() -> None:
    weights, offset = rng.integers(1, 4, N), 0.1 * rng.normal(size=N)
    pipeline = atm.Pipeline([("columns", columns()), ("clf", atm.ContinuousLogit(xi=1.0, order=3))])
    given = {"anchors": SITE, "sample_weight": weights, "offset": offset}
    wanted = clone(pipeline).fit(X, LATENT, **given)
    front = columns()
    direct = atm.ContinuousLogit(xi=1.0, order=3).fit(front.fit_transform(X), LATENT, **given)
    np.testing.assert_array_equal(wanted[-1].coef_, direct.coef_)
    np.testing.assert_array_equal(
        wanted.nll(X, LATENT, offset=offset), direct.nll(front.transform(X), LATENT, offset=offset)
    )
    named = clone(pipeline).fit(X, LATENT, **{f"clf__{name}": value for name, value in given.items()})
    np.testing.assert_array_equal(named[-1].coef_, direct.coef_)
    with pytest.raises(TypeError, match="ancors"):
        clone(pipeline).fit(X, LATENT, ancors=SITE)


def test_metadata_routing() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = atm.NormalLinear(xi=1.0).set_fit_request(anchors=True, sample_weight=True)
        front = SimpleImputer(), StandardScaler().set_fit_request(sample_weight=True)
        numbers, weights = X[["age", "dose"]], rng.integers(1, 4, N)
        pipeline = atm.make_pipeline(*front, model.set_score_request(sample_weight=True))
        pipeline.fit(numbers, LATENT, anchors=SITE, sample_weight=weights)
        filled = SimpleImputer().fit_transform(numbers)
        scaled = StandardScaler().fit(filled, sample_weight=weights).transform(filled)
        direct = atm.NormalLinear(xi=1.0).fit(scaled, LATENT, anchors=SITE, sample_weight=weights)
        np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)
        np.testing.assert_array_equal(pipeline.nll(numbers, LATENT), direct.nll(scaled, LATENT))
        search = GridSearchCV(pipeline, {"normallinear__xi": [0.0, 5.0]}, cv=GroupKFold(3))
        search.fit(numbers, LATENT, anchors=SITE, groups=SITE)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_grid_searches_and_cross_validation() -> None:
    pipeline = atm.make_pipeline(columns(), atm.NormalLinear())
    search = GridSearchCV(pipeline, {"normallinear__xi": [0.0, 5.0]}, cv=GroupKFold(3))
    search.fit(X, LATENT, groups=SITE, anchors=SITE)
    assert isinstance(search.best_estimator_, atm.Pipeline)
    xi = search.best_params_["normallinear__xi"]
    wanted = clone(pipeline).set_params(normallinear__xi=xi).fit(X, LATENT, anchors=SITE)
    np.testing.assert_array_equal(search.best_estimator_.predict_quantiles(X), wanted.predict_quantiles(X))
    pd.testing.assert_frame_equal(atm.predict_table(search, X), atm.predict_table(wanted, X))
    at_five, cv = clone(pipeline).set_params(normallinear__xi=5.0), GroupKFold(3)
    scores = cross_val_score(at_five, X, LATENT, cv=cv, groups=SITE, params={"anchors": SITE})
    predicted = cross_val_predict(at_five, X, LATENT, cv=cv, groups=SITE, params={"anchors": SITE})
    for score, (train, test) in zip(scores, cv.split(X, LATENT, SITE), strict=True):
        fold = clone(at_five).fit(X.iloc[train], LATENT[train], anchors=SITE[train])
        assert fold.score(X.iloc[test], LATENT[test]) == score
        np.testing.assert_array_equal(predicted[test], fold.predict(X.iloc[test]))
    ordinal = atm.make_pipeline(columns(), atm.OrdinalRegression())
    assert cross_val_predict(ordinal, X, np.digitize(LATENT, [0]), method="predict_proba", cv=3).shape == (N, 2)


def test_anchors_strata_and_clusters_may_be_columns() -> None:
    table = X.assign(site=SITE, half=np.where(X.dose > 1.0, "much", "little"))
    front = ColumnTransformer(
        [("n", SimpleImputer(), ["age"]), ("s", StandardScaler(), ["dose"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    y = atm.Surv(TIME, TIME > 0)
    for model, left in (
        (atm.ContinuousLogit(xi=2.0, order=2, anchor_names=["site"]), ["half", "sex"]),
        (atm.CoxPH(strata="half"), ["site", "sex"]),
        (atm.ParametricSurvival(random="site"), ["half", "sex"]),
    ):
        rows = table.drop(columns=left)
        pipeline = atm.make_pipeline(clone(front), model).fit(rows, y)
        assert pipeline.model_.coef_names_ == ["age", "dose"]
        made = clone(front).set_output(transform="pandas").fit_transform(rows)
        direct = clone(model).fit(made, y)
        np.testing.assert_array_equal(pipeline.predict(rows), direct.predict(made))
        np.testing.assert_array_equal(pipeline.nll(rows, y), direct.nll(made, y))


def test_sparse_columns_keep_their_names() -> None:
    towns = pd.DataFrame({"town": [f"t{k % 40}" for k in range(N)], "dose": X.dose})
    front = ColumnTransformer(
        [("t", OneHotEncoder(drop="first"), ["town"])], remainder="passthrough", sparse_threshold=1.0
    )
    assert sparse.issparse(front.fit_transform(towns))
    pipeline = atm.make_pipeline(front, atm.NormalLinear()).fit(towns, LATENT)
    assert pipeline[-1].coef_names_ == list(front.get_feature_names_out())
    direct = atm.NormalLinear().fit(front.fit_transform(towns), LATENT)
    np.testing.assert_array_equal(pipeline.predict(towns), direct.predict(front.transform(towns)))


def test_unions_and_nested_pipelines() -> None:
    numbers = X[["age", "dose"]]
    union = make_union(StandardScaler(), make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler()))
    inner = atm.make_pipeline(FunctionTransformer(), atm.NormalLinear(l2=0.1))
    pipeline = Pipeline([("fill", SimpleImputer()), ("none", "passthrough"), ("union", union), ("rest", inner)])
    pipeline.fit(numbers, LATENT)
    made = union.transform(SimpleImputer().fit_transform(numbers))
    direct = atm.NormalLinear(l2=0.1).fit(made, LATENT)
    np.testing.assert_array_equal(atm.Pipeline(pipeline.steps).nll(numbers, LATENT), direct.nll(made, LATENT))


def test_the_index_of_rows_is_kept() -> None:
    order = rng.permutation(N)
    shuffled, y = X.iloc[order], pd.Series(LATENT, X.index).iloc[order]
    pipeline = atm.make_pipeline(columns(), atm.NormalLinear(xi=1.0)).fit(shuffled, y, anchors=SITE[order])
    assert (atm.predict_table(pipeline, shuffled).index == shuffled.index).all()
    assert pipeline.nll(shuffled, y).shape == (N,)
    with pytest.raises(InputError, match="another order"):
        pipeline.nll(shuffled, pd.Series(LATENT))


def test_pipelines_are_estimators(fits) -> None:
    pipeline = fits["normal"][0]
    for same in (pickle.loads(pickle.dumps(pipeline)), copy.deepcopy(pipeline)):  # noqa: S301 - our own
        np.testing.assert_array_equal(same.predict_quantiles(X), pipeline.predict_quantiles(X))
        np.testing.assert_array_equal(same.standard_errors(), pipeline.standard_errors())
    fresh = clone(pipeline)
    assert isinstance(fresh, atm.Pipeline)
    assert hasattr(fresh, "nll")
    with pytest.raises(NotFittedError):
        fresh.nll(X, LATENT)
    assert not hasattr(pipeline, "predict_proba")
    assert not hasattr(pipeline[:-1], "nll")
    assert pipeline[-1] is pipeline.named_steps["normallinear"]
    assert "columntransformer" in pipeline._repr_html_()


def test_fitting_the_model_of_a_pipeline_forgets_the_transformers(fits) -> None:
    model = fits["normal"][0].model_
    made = fits["normal"][2]
    np.testing.assert_array_equal(model.fit(made, LATENT, anchors=SITE).predict(made), fits["normal"][1].predict(made))


class Length(TransformerMixin, BaseEstimator):
    """A transformer that names no columns and fails on words."""

    def fit(self, X: Any, y: Any = None) -> "Length":
        self.seen_ = len(X)
        return self

    def transform(self, X: Any) -> Any:
        return np.abs(np.asarray(X)) + 0.0


def test_transformers_of_your_own() -> None:
    numbers = X[["dose"]]
    pipeline = atm.make_pipeline(Length(), atm.NormalLinear()).fit(numbers, LATENT)
    assert pipeline[-1].coef_names_ == ["x0"]
    np.testing.assert_array_equal(pipeline.predict(numbers), pipeline[-1].predict(numbers.to_numpy()))
    with pytest.raises(InputError, match="Length of the pipeline cannot transform X"):
        pipeline.predict(X[["sex"]])


def test_what_a_pipeline_refuses(fits) -> None:
    pipeline = fits["normal"][0]
    with pytest.raises(InputError, match="ColumnTransformer of the pipeline cannot transform X: columns are missing"):
        pipeline.nll(X[["age"]], LATENT)
    with pytest.raises(InputError, match="unknown categories"):
        atm.predict_table(pipeline, X.assign(sex="x"))
    with pytest.raises(InputError, match="X is None"):
        pipeline.predict_distribution()
    for ask in (atm.anchor_path, atm.diagnostics.score_test, atm.elastic_net_path, atm.xi_by_score_test):
        with pytest.raises(InputTypeError, match=r"not a Pipeline: transform X first, X = pipeline\[:-1\]"):
            ask(pipeline, X, LATENT, SITE)
    with pytest.raises(InputTypeError, match="a Pipeline takes X and y, not a formula"):
        atm.leave_one_environment_out(pipeline, "y ~ age | site", X)
    with pytest.raises(InputTypeError, match="a Pipeline takes X and y, not a formula"):
        atm.XiSearchCV.from_formula("y ~ dose | site", X.assign(site=SITE, y=LATENT), model=pipeline)
    with pytest.raises(InputTypeError, match="not a Pipeline: transform X first"):
        atm.SmoothSearchCV(pipeline).fit(X, LATENT, anchors=SITE)
    other = make_pipeline(columns(), linear_model.LinearRegression()).fit(X, LATENT)
    assert list(atm.predict_table(other, X)) == ["prediction"]
    with pytest.raises(InputTypeError, match="does not predict distributions"):
        atm.predict_table(other, X, quantiles=[0.5])
    with pytest.raises(InputTypeError, match="must be an estimator of this package"):
        atm.leave_one_environment_out(other, X, LATENT, SITE)


def test_bad_rows_are_marked_behind_the_transformers() -> None:
    """A missing value that the transformers fill in is no bad row; one that they pass on is."""
    front = ColumnTransformer(
        [("fill", SimpleImputer(), ["age"]), ("keep", "passthrough", ["dose"])], verbose_feature_names_out=False
    )
    rows = X[["age", "dose"]]
    pipeline = atm.make_pipeline(front, atm.NormalLinear(xi=1.0)).fit(rows, LATENT, anchors=SITE)
    new = rows.assign(dose=rows.dose.mask(np.arange(N) == 5))
    table = atm.predict_table(pipeline, new, quantiles=[0.5], on_bad_rows="mark")
    assert table.reason.tolist() == [""] * 5 + ["dose is missing"] + [""] * (N - 6)
    wanted = atm.predict_table(pipeline, rows, quantiles=[0.5])
    good = np.arange(N) != 5
    np.testing.assert_array_equal(table["q0.5"][good], wanted["q0.5"][good])
    marked = pipeline.predict_distribution(new, on_bad_rows="mark")
    np.testing.assert_array_equal(marked.median()[good], wanted["q0.5"][good])
    assert np.isnan(marked.median()[5])


@pytest.mark.parametrize("last", [atm.NormalLinear(xi=1.0), atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3)])
def test_rows_that_transformers_refuse_are_marked_with_their_reason(last: Any) -> None:
    pipeline = atm.make_pipeline(columns(), last).fit(X, LATENT, anchors=SITE)
    new = X.astype({"dose": object}).assign(more=1)
    new.loc[[3, 90, 91], "sex"] = ["x", "y", "x"]
    new.loc[7, "dose"] = "much"
    new.loc[8, "age"] = np.inf
    table = atm.predict_table(pipeline, new, quantiles=[0.5], on_bad_rows="mark")
    bad = {3: "unknown categories ['x']", 90: "unknown categories ['y']", 91: "unknown categories ['x']"}
    bad |= {7: "could not convert string to float: 'much'", 8: "age is infinite"}
    assert np.flatnonzero(table.reason != "").tolist() == sorted(bad)
    assert all(text in table.reason[row] for row, text in bad.items())
    assert table.reason[3].startswith("ColumnTransformer of the pipeline cannot transform X: Found")
    good = (table.reason == "").to_numpy()
    wanted = atm.predict_table(pipeline, X[good], quantiles=[0.5])
    pd.testing.assert_frame_equal(table.loc[good, ["q0.5"]], wanted)
    marked = pipeline.predict_distribution(X.assign(sex="x")[:2], on_bad_rows="mark")  # no good row
    assert np.isnan(marked.median()).all()
    with pytest.raises(InputError, match="columns are missing"):  # not about rows
        atm.predict_table(pipeline, X[["age", "dose"]], on_bad_rows="mark")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_columns_that_transformers_refuse_are_no_bad_rows() -> None:
    rows = X[["age", "dose"]].fillna(50.0)
    pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear()).fit(rows, LATENT)
    for wrong, message in (
        (rows.assign(more=1.0), "unseen at fit time"),
        (rows[["dose", "age"]], "same order"),
        (rows.to_numpy()[:, :1], "has 1 features"),
    ):
        with pytest.raises(InputError, match=message):
            pipeline.predict_distribution(wrong, on_bad_rows="mark")


def test_the_search_for_refused_rows_is_bounded(monkeypatch) -> None:
    calls = []

    class Counted(OneHotEncoder):
        def transform(self, X: Any) -> Any:
            calls.append(len(X))
            return super().transform(X)

    rows = pd.DataFrame({"sex": np.tile(["f", "m"], 2000)})
    pipeline = atm.make_pipeline(Counted(drop="first"), atm.NormalLinear()).fit(rows, rng.normal(size=4000))
    rows.loc[[17, 2500], "sex"] = "x"
    calls.clear()
    table = atm.predict_table(pipeline, rows, on_bad_rows="mark")
    assert np.flatnonzero(table.reason != "").tolist() == [17, 2500]
    assert len(calls) < 60
    monkeypatch.setattr("anchortm.inputs.transformed.MOST_TRIALS", 100)
    calls.clear()
    with pytest.raises(InputError, match=r"too many rows are refused.*at least \d+: Counted of .*handle_unknown of"):
        atm.predict_table(pipeline, rows.assign(sex="x"), on_bad_rows="mark")
    assert len(calls) < 110


def test_a_pipeline_of_another_estimator_is_one_of_scikit_learn() -> None:
    pipeline = atm.make_pipeline(columns(), linear_model.LinearRegression()).fit(X, LATENT)
    plain = make_pipeline(columns(), linear_model.LinearRegression()).fit(X, LATENT)
    np.testing.assert_array_equal(pipeline.predict(X), plain.predict(X))
    assert pipeline.score(X, LATENT) == plain.score(X, LATENT)
    front = atm.make_pipeline(columns(), StandardScaler())
    np.testing.assert_array_equal(front.fit_transform(X), make_pipeline(columns(), StandardScaler()).fit_transform(X))
    for other in (pipeline, front):
        for what in ("nll", "predict_distribution", "summary", "predict_proba", "model_"):
            assert not hasattr(other, what), what
        assert "sk-" in other._repr_html_()
    compared = atm.make_pipeline(columns(), atm.LinearAnchorRegression(5.0)).fit(X, LATENT, anchors=SITE)
    assert compared.predict(X).shape == (N,)


def test_polars_tables() -> None:
    polars = pytest.importorskip("polars")
    numbers = X[["age", "dose"]]
    fitted = [
        atm.make_pipeline(SimpleImputer(), StandardScaler(), atm.NormalLinear(xi=1.0)).fit(rows, LATENT, anchors=SITE)
        for rows in (numbers, polars.from_pandas(numbers))
    ]
    known = list(getattr(fitted[1][0], "feature_names_in_", ["x0", "x1"]))  # old scikit-learn does not know them
    assert fitted[1].model_.coef_names_ == known
    np.testing.assert_array_equal(fitted[1].predict(polars.from_pandas(numbers)), fitted[0].predict(numbers))
