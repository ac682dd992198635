"""Regressors and survival models as strategies: each kind against fits by hand, and nothing sees left-out rows."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.models.given import given
from anchortm.newplace.foreign import resolution_of
from anchortm.newplace.scoring import scores_of_rows
from anchortm.newplace.training import Training
from anchortm.predict import PiecewiseDistribution
from anchortm.selection.places import places_of
from anchortm.strategies import Regressor

LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]
HELD = 2


def rows(n: int = 120, places: int = 6, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    place = np.arange(n) % places
    x = pd.DataFrame({"x": rng.normal(size=n) + 0.3 * place, "z": rng.uniform(-1.0, 1.0, n)})
    y = x.x - x.z + 0.3 * (place - 2) + rng.normal(size=n)
    time = np.exp(0.5 * y)
    end = rng.exponential(4.0, n)
    return x.assign(
        place=place,
        y=y,
        time=np.minimum(time, end),
        event=(time <= end).astype(int),
        grade=pd.cut(y, [-np.inf, -1.0, 0.5, np.inf], labels=["low", "mid", "high"]),
        w=1.0 + place % 3,
    )


DATA = rows()
X = DATA[["x", "z"]]
INSIDE, OUTSIDE = DATA[DATA.place != HELD], DATA[DATA.place == HELD]
TIMES = atm.Surv(DATA.time, DATA.event)


def trained(model, y, out=HELD, covariates=X, **options) -> Training:
    """Return the training rows of the fold that leaves one place out."""
    prepared, places = places_of(given(model, covariates, y, environments=DATA.place, **options), [0.0], None)
    return Training(prepared, places, frozenset({out}))


def compare(strategy, model=None, y=None, **options) -> dict[str, float]:
    """Return the mean scores of a strategy at the left-out place."""
    train = trained(model or atm.NormalLinear(), DATA.y if y is None else y, **options)
    held = train.places.rows_in([HELD])
    response, times = train.places.data.response[held], np.array([1.0])
    found = scores_of_rows(strategy.fit(train), train.raw(held), response, times, 0)
    means = {name: float(np.mean(found[name])) for name in ("nll", "crps", "coverage", "width", "mae")}
    if response.scale == "time":
        means |= {"brier": float(found["brier"].mean()), "concordance": float(found["concordance"].mean())}
    return means


def agree(found, distribution, y):
    """Check scores of the left-out place against those of a distribution."""
    u = atm.scores.pit(distribution, y, random_state=0)
    assert found["crps"] == pytest.approx(atm.scores.crps(distribution, y).mean())
    assert found["coverage"] == pytest.approx((np.abs(u - 0.5) <= 0.45).mean())
    assert found["width"] == pytest.approx(np.subtract(*distribution.interval(0.9)[::-1]).mean())
    assert found["nll"] == pytest.approx(-distribution.logpdf(np.asarray(y)[:, None]).mean())


@pytest.mark.parametrize(
    ("estimator", "argument"),
    [
        (QuantileRegressor(alpha=0.0), "quantile"),
        (HistGradientBoostingRegressor(loss="quantile", max_iter=5), "quantile"),
        (GradientBoostingRegressor(loss="quantile", n_estimators=5, random_state=0), "alpha"),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_a_quantile_regressor_is_fitted_at_each_level(estimator, argument, piped):
    used = make_pipeline(StandardScaler(), estimator) if piped else estimator
    prefix = f"{used.steps[-1][0]}__" if piped else ""
    quantiles = [
        used.set_params(**{prefix + argument: level}).fit(INSIDE[["x", "z"]], INSIDE.y).predict(OUTSIDE[["x", "z"]])
        for level in LEVELS
    ]
    law = PiecewiseDistribution.from_quantiles(np.column_stack(quantiles), LEVELS, resolution_of(INSIDE.y.to_numpy()))
    agree(compare(Regressor(used, levels=LEVELS)), law, OUTSIDE.y)


class Forest(BaseEstimator):
    """The interface of a quantile forest: predictions take levels."""

    def fit(self, X, y, sample_weight=None):
        self.coef_ = np.polyfit(np.asarray(X)[:, 0], y, 1)
        self.sd_ = 1.5
        return self

    def predict(self, X, quantiles=None, weighted_quantile=True):
        middle = np.polyval(self.coef_, np.asarray(X)[:, 0])
        if quantiles is None:
            return middle
        return middle[:, None] + self.sd_ * stats.norm.ppf(quantiles)


def test_predictions_that_take_quantiles():
    law = PiecewiseDistribution.from_quantiles(
        Forest().fit(INSIDE[["x"]], INSIDE.y).predict(OUTSIDE[["x"]], quantiles=LEVELS),
        LEVELS,
        resolution_of(INSIDE.y.to_numpy()),
    )
    agree(compare(Regressor(Forest(), levels=LEVELS)), law, OUTSIDE.y)


def test_a_linear_regression_has_the_errors_of_left_out_places():
    found = compare(Regressor(LinearRegression()))
    squares = []
    for place in INSIDE.place.unique():  # five training places are five folds
        rest, own = INSIDE[INSIDE.place != place], INSIDE[INSIDE.place == place]
        fitted = LinearRegression().fit(rest[["x", "z"]], rest.y)
        squares.append(((own.y - fitted.predict(own[["x", "z"]])) ** 2).to_numpy())
    sd = np.sqrt(np.concatenate(squares).mean())
    mean = LinearRegression().fit(INSIDE[["x", "z"]], INSIDE.y).predict(OUTSIDE[["x", "z"]])
    assert found["nll"] == pytest.approx(-stats.norm(mean, sd).logpdf(OUTSIDE.y).mean())
    assert found["width"] == pytest.approx(2.0 * stats.norm.ppf(0.95) * sd)
    assert found["mae"] == pytest.approx(np.abs(OUTSIDE.y - mean).mean())


def test_predicted_deviations_are_taken_as_they_are():
    found = compare(Regressor(BayesianRidge()))
    mean, sd = BayesianRidge().fit(INSIDE[["x", "z"]], INSIDE.y).predict(OUTSIDE[["x", "z"]], return_std=True)
    assert found["nll"] == pytest.approx(-stats.norm(mean, sd).logpdf(OUTSIDE.y).mean())


@pytest.mark.parametrize(
    ("estimator", "model"),
    [
        (atm.NormalLinear(xi=2.0), atm.NormalLinear()),
        (atm.ContinuousLogit(order=3), atm.NormalLinear()),
        (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3, xi=1.0), atm.NormalLinear()),
    ],
)
def test_models_of_this_package_give_their_distributions(estimator, model):
    found = compare(Regressor(estimator, name="own"), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = estimator.fit(INSIDE[["x", "z"]], INSIDE.y, anchors=INSIDE.place)
    assert found["nll"] == pytest.approx(fitted.nll(OUTSIDE[["x", "z"]], OUTSIDE.y).mean(), abs=1e-6)


def test_a_model_of_this_package_behind_a_scaler():
    piped, plain = make_pipeline(StandardScaler(), atm.NormalLinear(xi=2.0)), atm.NormalLinear(xi=2.0)
    one, other = compare(Regressor(piped, name="a")), compare(Regressor(plain, name="a"))
    assert one["nll"] == pytest.approx(other["nll"], abs=1e-6)


class FakeStep:
    """The step functions of scikit-survival."""

    def __init__(self, x, y, a=1.0, b=0.0):
        self.x, self.y, self.a, self.b = x, y, a, b


class FakeSksurv(BaseEstimator):
    """The interface of scikit-survival: a structured outcome with the event first, and step functions."""

    def fit(self, X, y):
        assert y.dtype.names == ("event", "time")
        assert y["event"].dtype == bool
        self.model_ = atm.CoxPH().fit(np.asarray(X), atm.Surv(y["time"], y["event"]))
        return self

    def predict(self, X):
        return self.model_.predict_distribution(np.asarray(X)).cdf(1.0)

    def predict_survival_function(self, X, return_array=False):
        law = self.model_.predict_distribution(np.asarray(X))
        times = law.times()[1:]
        return np.array([FakeStep(times, 2.0 * own, 0.5) for own in law.sf(times)], dtype=object)


class FakeLifelines:
    """The interface of lifelines: one frame with the outcome in it, and a frame with times in its index."""

    def fit(self, df, duration_col=None, event_col=None, weights_col=None):
        self.covariates = [name for name in df if name not in (duration_col, event_col, weights_col)]
        self.weighted = weights_col is not None
        y = atm.Surv(df[duration_col], df[event_col])
        self.model = atm.CoxPH().fit(df[self.covariates], y, sample_weight=df[weights_col] if weights_col else None)
        return self

    def predict_survival_function(self, X, times=None):
        law = self.model.predict_distribution(X[self.covariates])
        at = law.times()
        return pd.DataFrame(law.sf(at).T, index=at, columns=X.index)


@pytest.mark.parametrize("estimator", [FakeSksurv(), make_pipeline(StandardScaler(), FakeSksurv()), FakeLifelines()])
def test_survival_models_of_other_packages(estimator):
    hazards = atm.ProportionalHazards(order=3)
    found = compare(Regressor(estimator, name="a"), hazards, TIMES)
    cox = compare(Regressor(atm.CoxPH(), name="a"), hazards, TIMES)
    for score in ("nll", "coverage", "width", "brier", "concordance"):
        assert found[score] == pytest.approx(cox[score], rel=1e-6)
    assert np.isfinite(found["nll"])


def test_lifelines_itself():
    lifelines = pytest.importorskip("lifelines")
    hazards = atm.ProportionalHazards(order=3)
    cox = compare(Regressor(atm.CoxPH(), name="a"), hazards, TIMES)
    found = compare(Regressor(lifelines.CoxPHFitter(), name="a"), hazards, TIMES)
    assert found["nll"] == pytest.approx(cox["nll"], abs=2e-3)  # it ties and centres baselines in its own way
    weibull = compare(Regressor(lifelines.WeibullAFTFitter(), name="a"), hazards, TIMES)
    own = compare(Regressor(atm.ParametricSurvival(dist="weibull"), name="a"), hazards, TIMES)
    assert weibull["nll"] == pytest.approx(own["nll"], abs=0.05)  # known at the times of the fit only


def test_a_classifier_gives_the_probabilities_of_classes():
    found = compare(Regressor(LogisticRegression()), atm.OrdinalRegression(), DATA.grade)
    levels = ["low", "mid", "high"]
    codes = INSIDE.grade.cat.codes
    p = LogisticRegression().fit(INSIDE[["x", "z"]], codes).predict_proba(OUTSIDE[["x", "z"]])
    p = np.maximum(p, 0.5 / len(INSIDE))
    p /= p.sum(axis=1, keepdims=True)
    own = np.array([levels.index(grade) for grade in OUTSIDE.grade])
    assert found["nll"] == pytest.approx(-np.log(p[np.arange(own.size), own]).mean())
    ranked = (np.cumsum(p, axis=1)[:, :2] - (own[:, None] <= np.arange(2))) ** 2
    assert found["crps"] == pytest.approx(ranked.sum(axis=1).mean())


def test_numbers_are_rounded_to_classes():
    found = compare(Regressor(LinearRegression()), atm.OrdinalRegression(), DATA.grade)
    mean = LinearRegression().fit(INSIDE[["x", "z"]], INSIDE.grade.cat.codes).predict(OUTSIDE[["x", "z"]])
    sd = found["width"]  # of steps between classes: only its presence is checked
    assert np.isfinite(sd)
    assert found["mae"] == pytest.approx(np.abs(OUTSIDE.grade.cat.codes - np.clip(np.round(mean), 0, 2)).mean())


def test_a_formula_gives_its_design_as_a_frame_with_plain_names():
    seen = []

    class Spy(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append(X)
            return super().fit(X, y, sample_weight)

    data = atm.datasets.load_wine()
    found = atm.compare_strategies(
        atm.NormalLinear(), "response ~ temp * contact | judge", data, design="like", strategies=[Regressor(Spy())]
    )
    assert (found.frame().note == "").all()
    assert all(isinstance(one, pd.DataFrame) for one in seen)
    assert list(seen[0].columns) == ["temp_T.warm", "contact_T.yes", "temp_T.warm_contact_T.yes"]


def test_anchor_columns_are_no_covariates():
    model = atm.NormalLinear(anchor_names=["place"])
    both = X.assign(place=DATA.place.astype(str))
    found = compare(Regressor(LinearRegression()), model, covariates=both)
    assert found["nll"] == pytest.approx(compare(Regressor(LinearRegression()))["nll"])


def test_weights_go_to_estimators_that_take_them():
    weights = DATA.w.to_numpy()
    twice = LinearRegression().fit(INSIDE[["x", "z"]], INSIDE.y, sample_weight=INSIDE.w)
    expected = np.abs(OUTSIDE.y - twice.predict(OUTSIDE[["x", "z"]])).mean()
    for estimator in (LinearRegression(), make_pipeline(StandardScaler(), LinearRegression())):
        found = compare(Regressor(estimator), sample_weight=weights)
        assert found["mae"] == pytest.approx(expected)
    assert FakeLifelines().fit(DATA[["x", "z", "time", "event", "w"]], "time", "event", "w").weighted

    class Unweighted(LinearRegression):
        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.warns(UserWarning, match="Unweighted does not take sample_weight"):
        compare(Regressor(Unweighted()), sample_weight=weights)


@pytest.mark.parametrize(
    ("strategy", "model", "y"),
    [
        (Regressor(QuantileRegressor(alpha=0.0), levels=LEVELS), atm.NormalLinear(), DATA.y),
        (Regressor(RandomForestRegressor(5, random_state=0)), atm.NormalLinear(), DATA.y),
        (Regressor(BayesianRidge()), atm.NormalLinear(), DATA.y),
        (Regressor(Forest(), levels=LEVELS), atm.NormalLinear(), DATA.y),
        (Regressor(atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3)), atm.NormalLinear(), DATA.y),
        (Regressor(FakeSksurv()), atm.ProportionalHazards(order=3), DATA.time),
        (Regressor(LogisticRegression()), atm.OrdinalRegression(), DATA.grade),
        (atm.strategies.RandomIntercept(), atm.NormalLinear(), DATA.y),
    ],
)
def test_outcomes_of_a_left_out_place_change_nothing_in_its_predictions(strategy, model, y):
    far = (DATA.place == HELD).to_numpy()
    changed = y.copy()
    changed[far] = y[far].iloc[::-1].to_numpy() if y.dtype == "category" else 3.0 + y[far].to_numpy() ** 2
    laws = []
    for own in (y, changed):
        outcome = atm.Surv(own, np.ones(len(own), dtype=int)) if own.name == "time" else own
        train = trained(model, outcome)
        law = strategy.fit(train).predict_distribution(X[far])
        laws.append(law.ppf([0.05, 0.3, 0.5, 0.95]))
    np.testing.assert_array_equal(*laws)


def test_a_strategy_can_be_sent_to_another_process():
    strategy = pickle.loads(pickle.dumps(Regressor(QuantileRegressor(alpha=0.0), name="a", levels=LEVELS)))  # noqa: S301
    assert compare(strategy) == compare(Regressor(QuantileRegressor(alpha=0.0), levels=LEVELS))


def test_names_are_those_of_the_last_step_or_given():
    assert Regressor(make_pipeline(StandardScaler(), LinearRegression())).name == "LinearRegression"
    assert Regressor(LinearRegression(), name="ols").name == "ols"
    assert repr(Regressor(LinearRegression())) == "Regressor(LinearRegression(), name='LinearRegression')"


def test_the_unit_of_outcomes_and_the_least_width():
    assert resolution_of(np.array([1.0, 1.1, 1.3, 1.3])) == pytest.approx(0.1)
    y = np.random.default_rng(0).normal(size=500)
    assert resolution_of(y) == pytest.approx(1e-3 * np.diff(np.quantile(y, [0.1, 0.9]))[0])
    assert resolution_of(np.full(5, 3.0)) > 0.0
    assert resolution_of(np.append(np.zeros(98), [1.0, 1.0 + 1e-12])) > 0.0


def test_a_failure_is_a_note_and_the_others_are_compared():
    class Broken(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("no luck")

    found = atm.compare_strategies(
        atm.NormalLinear(),
        X,
        DATA.y,
        environments=DATA.place,
        design="like",
        strategies=[Regressor(Broken()), Regressor(LinearRegression())],
    )
    notes = found.frame().groupby("strategy").note.unique()
    assert notes["Broken"] == ["the estimator raised RuntimeError: no luck"]
    assert "Broken failed at all 6 environments: the estimator raised RuntimeError: no luck" in repr(found)
    assert "Broken failed at all 6" in found._repr_html_()
    table = found.table().set_index("strategy")
    assert np.isnan(table.loc["Broken", "difference"])
    assert np.isfinite(table.loc["LinearRegression", ["difference", "se", "p"]].astype(float)).all()


def test_crps_and_width_depend_little_on_the_levels_and_the_nll_more():
    few = [0.05, 0.25, 0.5, 0.75, 0.95]
    many = np.round(np.arange(0.05, 0.96, 0.05), 2)
    estimator = QuantileRegressor(alpha=0.0)
    one, other = (compare(Regressor(estimator, levels=levels)) for levels in (few, many))
    assert one["crps"] == pytest.approx(other["crps"], rel=0.02)
    assert one["width"] == pytest.approx(other["width"], rel=1e-6)
    assert one["coverage"] == pytest.approx(other["coverage"], abs=0.06)
    assert abs(one["nll"] - other["nll"]) > 0.02
