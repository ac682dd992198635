"""Weights of environments: reference numbers, identities, uncertainty, saving, bad input."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from robust_problems import problem
from scipy.optimize import minimize_scalar

import anchortm as atm
from anchortm.cli.main import main
from anchortm.engine.environment_weights import Shrinkage, Weighting
from anchortm.exceptions import InputError, InputTypeError, ModelFileError, UnavailableError
from anchortm.inference.covariance import influence
from anchortm.saving.models import fitted_of, model_record

KNOWN = json.loads((REFERENCE / "robust" / "environment_weights.json").read_text())
FORMULA = "rating ~ temp + contact | judge"


def rules(case, places):
    """Return the arguments of a case of the reference."""
    sizes = places.value_counts()
    return {
        "a=1.0": {},
        "a=0.5": {"anchor_weights": (sizes**0.5).to_dict()},
        "a=0.0": {"anchor_weights": "equal"},
        "equal likelihood, xi=0": {"environment_weights": "equal"},
        "equal likelihood and penalty": {"environment_weights": "equal", "anchor_weights": "equal"},
    }[case]


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("case", ["a=1.0", "a=0.5", "a=0.0", "equal likelihood, xi=0", "equal likelihood and penalty"])
def test_reference(name, case):
    """Losses and parameters of a slow implementation that was written before this one."""
    model, X, y, places = problem(name, KNOWN[name], in_logs=False)
    known = KNOWN[name]["item1"][case]
    model.set_params(xi=known.get("xi", 0.0), tol=1e-10, **rules(case, places)).fit(X, y, anchors=places)
    assert model.loss_ + log_time(name, places, case) == pytest.approx(known["loss"], abs=1e-9)
    w = np.concatenate([model.baseline_, -model.result_.sign * model.coef_])
    np.testing.assert_allclose(w, known["w"], atol=1e-6)


def log_time(name, places, case):
    """Return what the density of log time adds to the loss: the reference takes it for the survival model."""
    if name != "cgd_cox":
        return 0.0
    data = atm.datasets.load_cgd()
    value = np.log(data.tstop) * (data.status == 1)
    return -(value.groupby(places).mean().mean() if case.startswith("equal") else value.mean())


# identities


def simulated(n=240, K=6, seed=0):
    """Return rows of environments of different sizes, with a covariate that depends on them."""
    rng = np.random.default_rng(seed)
    place = np.minimum(rng.geometric(0.35, n) - 1, K - 1)
    hidden = rng.normal(size=n)
    x = rng.normal(size=n) + 0.6 * place + hidden
    y = 0.7 * x + hidden + 0.4 * rng.normal(size=K)[place] + rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "z": rng.normal(size=n), "y": y, "place": np.array(list("abcdef"))[place]})
    frame["grade"] = pd.cut(y, [-99, 0, 1, 2, 99], labels=False)
    return frame.assign(a=0.3 * place + rng.normal(size=n), count=rng.poisson(rng.gamma(1.0, np.exp(0.4 * x))))


MODELS = {
    "normal": (atm.NormalLinear, "y ~ x + z | place", {}),
    "probit": (atm.ContinuousProbit, "y ~ x + z | place", {"order": 3, "support": (-1.0, 3.0)}),
    "ordinal": (atm.OrdinalRegression, "grade ~ x + z | place", {}),
    "cox": (atm.CoxPH, "Surv(exp(y), grade > 0) ~ x + z | place", {"ties": "breslow"}),
    "poisson": (atm.AnchorGLM, "grade ~ x + z | place", {"family": "poisson"}),
    "deviance": (atm.AnchorGLM, "grade ~ x + z | place", {"family": "poisson", "residual": "deviance"}),
    "negative": (atm.AnchorGLM, "count ~ x | place", {"family": "negative_binomial", "alpha": "ml"}),
    "scale": (atm.NormalLinear, "y ~ x + z | place", {"scale": "z"}),
    "ridge": (atm.NormalLinear, "y ~ x + z | place", {"l2": 0.1}),
}
BOTH = {"environment_weights": "equal", "anchor_weights": "equal"}
every_model = pytest.mark.parametrize("name", MODELS)


def fitted(name, data, xi=1.5, rows=None, **options):
    cls, formula, own = MODELS[name]
    beside = {} if rows is None else rows
    return cls.from_formula(formula, data, xi=xi, tol=1e-11, **own, **options, **beside)


def numbers(model):
    """Return all parameters of a fit."""
    return model.result_.parameters


@every_model
def test_equal_weights_in_both_are_weights_of_rows(name):
    """Weights n / (K n_e) of rows make likelihood and penalty count environments alike."""
    data = simulated()
    n_e = data.groupby("place").y.transform("size")
    by_rows = fitted(name, data, rows={"sample_weight": len(data) / (6 * n_e)})
    by_rule = fitted(name, data, **BOTH)
    np.testing.assert_allclose(numbers(by_rule), numbers(by_rows), rtol=1e-8, atol=1e-9)
    for attribute in ("loss_", "loglik_", "penalty_", "n_total_"):
        assert getattr(by_rule, attribute) == pytest.approx(getattr(by_rows, attribute), rel=1e-10)


@every_model
def test_rules_agree_if_environments_have_the_same_size(name):
    data = simulated().groupby("place").head(9)
    plain = fitted(name, data)
    for rule in ({"environment_weights": "equal"}, {"anchor_weights": "equal"}, BOTH):
        np.testing.assert_allclose(numbers(fitted(name, data, **rule)), numbers(plain), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["normal", "probit", "cox", "deviance", "ridge"])
@pytest.mark.parametrize("rule", [{"environment_weights": "equal"}, {"anchor_weights": "equal"}], ids=str)
def test_weights_replicate_rows(name, rule):
    """A weight of 2 is two rows, also for the sizes of environments; duplicating all rows changes nothing."""
    data = simulated()
    w = 1.0 + np.arange(len(data)) % 3
    weighted = fitted(name, data, rows={"sample_weight": w}, **rule)
    copied = data.loc[np.repeat(data.index, w.astype(int))].reset_index(drop=True)
    np.testing.assert_allclose(numbers(fitted(name, copied, **rule)), numbers(weighted), rtol=1e-7, atol=1e-8)
    plain = fitted(name, data, **rule)
    twice = fitted(name, pd.concat([data, data], ignore_index=True), **rule)
    np.testing.assert_allclose(numbers(twice), numbers(plain), rtol=1e-7, atol=1e-8)


def test_without_xi_the_penalty_has_no_weights():
    data = simulated()
    one, two = fitted("probit", data, 0.0), fitted("probit", data, 0.0, anchor_weights="equal")
    np.testing.assert_array_equal(numbers(one), numbers(two))


def test_large_xi_has_one_limit_for_all_weights_of_the_penalty():
    """At xi = inf all mean residuals are 0, whatever their positive weights."""
    data = simulated(K=3)
    data = data[data.place.isin(["a", "b", "c"])]
    limits = [
        fitted("probit", data, np.inf, anchor_weights=rule)
        for rule in ("rows", "equal", {"a": 1.0, "b": 5.0, "c": 2.0})
    ]
    for other in limits[1:]:
        np.testing.assert_allclose(numbers(other), numbers(limits[0]), rtol=1e-6, atol=1e-7)
    near = fitted("probit", data, 1e7, anchor_weights="equal")
    np.testing.assert_allclose(numbers(near), numbers(limits[0]), rtol=1e-3, atol=1e-4)


def test_environments_of_weight_0_leave_the_penalty():
    """The penalty then has the other environments alone, and the likelihood has all rows."""
    data = simulated()
    shares = {"a": 1.0, "b": 2.0, "c": 0.0, "d": 1.0, "e": 0.0, "f": 1.0}
    model = fitted("ordinal", data, anchor_weights=shares)
    r = model.residuals(data)
    means = pd.Series(r).groupby(data.place.to_numpy()).mean()
    assert model.penalty_ == pytest.approx(sum(shares[e] * means[e] ** 2 for e in shares) / 5.0, rel=1e-9)
    assert model.loglik_ == pytest.approx(-model.nll(data).sum(), rel=1e-10)


def test_splitting_an_environment_changes_equal_weights_only():
    rng = np.random.default_rng(1)
    data = simulated(2000)
    names = np.where((data.place == "a") & (rng.uniform(size=len(data)) < 0.5), "A", data.place)
    other = data.assign(place=names)
    moved = {}
    for rule in ("rows", "equal"):
        one, two = (numbers(fitted("normal", rows, anchor_weights=rule)) for rows in (data, other))
        moved[rule] = np.abs(two - one).max()
    assert moved["rows"] < 0.1 * moved["equal"]


def test_likelihood_and_penalty_are_weighed_apart():
    """The penalty by rows keeps the sizes that environments have, whatever they count in the likelihood."""
    data = simulated()
    model = fitted("ordinal", data, environment_weights="equal")
    r = pd.Series(model.residuals(data)).groupby(data.place.to_numpy())
    assert model.penalty_ == pytest.approx((r.size() / len(data) * r.mean() ** 2).sum(), rel=1e-9)
    nll = pd.Series(model.nll(data)).groupby(data.place.to_numpy()).mean()
    assert model.loss_ == pytest.approx(nll.mean() + 1.5 * model.penalty_, rel=1e-10)
    assert model.loglik_ == pytest.approx(-len(data) * nll.mean(), rel=1e-10)
    np.testing.assert_allclose(model.environment_weights_, 1 / 6)
    assert not hasattr(model, "anchor_weights_")


@pytest.mark.parametrize("anchors", [["a"], ["a", "half"], ["half"]], ids=str)
def test_environments_need_not_be_the_anchors(anchors):
    """Sums over anchors, numbers or factors, have the rows as they are: the loss by hand, and its gradient."""
    data = simulated().assign(half=np.arange(240) % 2)
    X, A = data[["x", "z"]], data[anchors]
    model = atm.NormalLinear(2.0, tol=1e-11, environment_weights="equal")
    model.fit(X, data.y, anchors=A, environments=data.place)
    dense = np.column_stack([np.ones(len(data)), A])
    P = dense @ np.linalg.pinv(dense)
    u = len(data) / (6 * data.groupby("place").y.transform("size").to_numpy())

    def loss(w):
        h = w[0] + w[1] * data.y.to_numpy() - X.to_numpy() @ w[2:]
        return np.average(0.5 * h**2 - np.log(w[1]) + 0.5 * np.log(2 * np.pi), weights=u) + 2.0 * h @ P @ h / len(h)

    w = numbers(model)
    assert model.loss_ == pytest.approx(loss(w), rel=1e-10)
    slopes = [(loss(w + 1e-5 * e) - loss(w - 1e-5 * e)) / 2e-5 for e in np.eye(4)]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-7)


# in batches


@pytest.mark.parametrize(
    "rule",
    [{"environment_weights": "equal"}, {"anchor_weights": {"a": 3, "b": 1, "c": 1, "d": 0, "e": 2, "f": 1}}, BOTH],
    ids=str,
)
@pytest.mark.parametrize("name", ["normal", "ordinal", "scale"])
def test_batches_give_the_fit_in_memory(name, rule, tmp_path):
    data = simulated().assign(w=1.0 + np.arange(240) % 2)
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    one = fitted(name, data, rows={"sample_weight": "w"}, **rule)
    two = fitted(name, str(tmp_path / "rows.parquet"), rows={"sample_weight": "w"}, **rule)
    assert two.loss_ == pytest.approx(one.loss_, rel=1e-10)
    np.testing.assert_allclose(numbers(two), numbers(one), rtol=1e-7, atol=1e-8)
    for attribute in ("environment_weights_", "anchor_weights_"):
        assert hasattr(one, attribute) == hasattr(two, attribute)
        if hasattr(one, attribute):
            pd.testing.assert_series_equal(getattr(two, attribute), getattr(one, attribute))


# uncertainty


def moved(name, data, change, size=1e-4, **rule):
    """Return the derivative of the fit in a change of weights, by differences."""
    ends = [numbers(fitted(name, data, **change(sign * size, rule))) for sign in (1.0, -1.0)]
    return (ends[0] - ends[1]) / (2 * size)


@every_model
@pytest.mark.parametrize("rule", [{"environment_weights": "equal"}, {"anchor_weights": "equal"}, BOTH], ids=str)
def test_influence_is_the_derivative_in_the_weight_of_a_row(name, rule):
    data = simulated(60)
    model = fitted(name, data, **rule)
    if name == "cox" and rule is not BOTH:
        with pytest.raises(InputError, match="set both alike"):
            influence(model)
        return
    found = influence(model)
    for i in (7, 31):

        def row(step, rule, i=i):
            return {"rows": {"sample_weight": 1.0 + step * (np.arange(len(data)) == i)}, **rule}

        np.testing.assert_allclose(found[i], moved(name, data, row, **rule), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("name", ["normal", "deviance"])
@pytest.mark.parametrize("rule", [{"environment_weights": "equal"}, {"anchor_weights": "equal"}, BOTH], ids=str)
@pytest.mark.filterwarnings("ignore:6 clusters")
def test_clusters_of_whole_environments_have_their_weights(name, rule):
    """The sandwich by environments sums their influences: a copy of an environment has its share, too."""
    data = simulated(90)
    model = fitted(name, data, **rule)
    labels = np.unique(data.place)
    found = []
    for e in labels:

        def place(step, rule, e=e):
            own = {other: 1.0 + step * (other == e) for other in labels}
            given = dict.fromkeys(rule, own)
            return {"rows": {"sample_weight": data.place.map(own).to_numpy()}, **given}

        found.append(moved(name, data, place, **rule))
    wanted = np.array(found).T @ np.array(found) * 6 / 5
    np.testing.assert_allclose(model.covariance("sandwich", clusters=data.place), wanted, rtol=1e-3, atol=1e-7)


def test_errors_are_sandwiches_and_criteria_need_rows():
    data = simulated()
    model = fitted("ordinal", data, 0.0, environment_weights="equal")
    np.testing.assert_array_equal(model.standard_errors(), model.standard_errors("sandwich"))
    assert "sandwich" in str(model.summary())
    assert "AIC" not in str(model.summary())
    for ask in (lambda: model.covariance("hessian"), lambda: model.aic_, lambda: model.bic_):
        with pytest.raises((InputError, UnavailableError), match="environment_weights='rows'"):
            ask()
    with pytest.raises(InputError, match="environment_weights='rows'"):
        atm.likelihood_ratio_test(atm.OrdinalRegression.from_formula("grade ~ x", data), model)


@pytest.mark.filterwarnings("ignore:the anchors over-identify")
def test_score_tests_do_not_depend_on_the_penalty():
    data = simulated()
    cls, formula, _ = MODELS["ordinal"]
    rules = ("rows", "equal", {"a": 1.0, "b": 2.0, "c": 0.0, "d": 1.0, "e": 0.0, "f": 1.0})
    one, *others = (atm.diagnostics.score_test(cls(anchor_weights=rule), formula, data) for rule in rules)
    assert all(other == one for other in others)
    found = atm.xi_by_score_test(cls(anchor_weights=rules[2]), formula, data, cost=False)
    again = atm.xi_by_score_test(cls(), formula, data, cost=False)
    assert found.table.statistic[0] == pytest.approx(again.table.statistic[0], rel=1e-9)
    assert found.table.df[0] == again.table.df[0]


# shrunk weights


def test_shrunk_weights_of_a_normal_model():
    """tau by its closed form: a place with n_e residuals of sum s_e has the variance n_e + tau^2 n_e^2."""
    data = simulated(600)
    model = fitted("normal", data, 0.5, environment_weights="shrunk", anchor_weights="shrunk")
    r = pd.Series(fitted("normal", data, 0.0).residuals(data)).groupby(data.place.to_numpy())
    n, s = r.size().to_numpy(), r.sum().to_numpy()
    loss = lambda tau: 0.5 * np.sum(np.log1p(tau**2 * n) - tau**2 * s**2 / (1 + tau**2 * n))  # noqa: E731
    tau = minimize_scalar(loss, bounds=(1e-6, 5.0), method="bounded", options={"xatol": 1e-9}).x
    assert tau > 0.05
    assert model.environment_sd_ == pytest.approx(tau, abs=1e-5)
    wanted = 1.0 / (tau**2 + 1.0 / n)  # r' is 1 for all rows
    np.testing.assert_allclose(model.environment_weights_, wanted / wanted.sum(), rtol=1e-5)
    np.testing.assert_allclose(model.anchor_weights_, model.environment_weights_)
    again = fitted("normal", data, 0.5, environment_weights=dict(zip("abcdef", wanted, strict=True)))
    np.testing.assert_allclose(
        numbers(fitted("normal", data, 0.5, environment_weights="shrunk")), numbers(again), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["probit", "ordinal", "cox", "poisson", "scale"])
def test_shrunk_weights_are_between_rows_and_equal_ones(name):
    data = simulated(600)
    model = fitted(name, data, environment_weights="shrunk")
    rows = data.groupby("place").size() / len(data)
    shares, order = model.environment_weights_, np.argsort(rows.to_numpy())
    assert (np.diff(shares.to_numpy()[order]) >= 0.0).all()
    ratio = (shares / rows).to_numpy()[order]
    assert (np.diff(ratio) <= 1e-12).all()
    assert model.environment_sd_ > 0.0


def test_limits_of_shrunk_weights():
    totals = np.array([1.0, 10.0, 200.0])
    for sd, wanted in (
        (0.0, totals / totals.sum()),
        (1e-9, totals / totals.sum()),
        (np.inf, [1 / 3] * 3),
        (1e9, [1 / 3] * 3),
    ):
        weighting = Weighting({"environment_weights": "shrunk"}, {"environment_weights": Shrinkage(sd, 0.4)})
        np.testing.assert_allclose(weighting.shares("environment_weights", "abc", totals), wanted, rtol=1e-12)


# files, refits, other ways in


def test_files_and_pickles_keep_the_weights(tmp_path):
    data = simulated()
    for rule in (
        BOTH,
        {"environment_weights": "shrunk"},
        {"anchor_weights": {"a": 1, "b": 2, "c": 3, "d": 1, "e": 1, "f": 1}},
    ):
        model = fitted("ordinal", data, **rule)
        for other in (atm.load(atm.save(model, tmp_path / "model.json")), pickle.loads(pickle.dumps(model))):  # noqa: S301 - our own
            assert other.get_params() == model.get_params()
            for attribute in ("environment_weights_", "anchor_weights_"):
                assert hasattr(other, attribute) == hasattr(model, attribute)
                if hasattr(model, attribute):
                    pd.testing.assert_series_equal(getattr(other, attribute), getattr(model, attribute))
            assert getattr(other, "environment_sd_", None) == getattr(model, "environment_sd_", None)
            np.testing.assert_array_equal(other.standard_errors(), model.standard_errors())
            assert str(other.summary()) == str(model.summary())


def test_files_without_weights_are_as_before():
    record = model_record(fitted("ordinal", simulated()))
    assert not {"environment_weights", "anchor_weights"} & set(record["parameters"])
    assert "weights" not in record


@pytest.mark.parametrize(
    "change",
    [
        {"environment_weights": [["a", 0.7]]},
        {"environment_weights": [["a", 0.5], ["a", 0.5]]},
        {"environment_weights": [["a", -0.5], ["b", 1.5]]},
        {"environment_weights": "equal"},
        {"anchor_weights": [["a", 0.5], ["b", 0.5]]},
        {"environment_sd": 1.0},
        [],
    ],
    ids=str,
)
def test_wrong_files_are_refused(change):
    record = model_record(fitted("ordinal", simulated(), environment_weights="equal")) | {"written_by": "a test"}
    fitted_of(record)
    with pytest.raises((ModelFileError, InputError)):
        fitted_of(record | {"weights": change})


def test_left_out_fits_have_weights_of_their_own():
    data = simulated()
    cls, formula, _ = MODELS["ordinal"]
    weights = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}
    model = cls(environment_weights="equal", anchor_weights=weights)
    found = atm.leave_one_environment_out(model, formula, data, xis=[1.0]).frame().set_index("environment")
    rest = data[data.place != "a"]
    others = {name: weight for name, weight in weights.items() if name != "a"}
    alone = fitted("ordinal", rest, 1.0, environment_weights="equal", anchor_weights=others)
    assert found.nll["a"] == pytest.approx(alone.nll(data[data.place == "a"]).mean(), rel=1e-8)
    path = atm.anchor_path(model, formula, data, xis=[0.0, 1.0])
    np.testing.assert_allclose(
        numbers(path.models[1]), numbers(fitted("ordinal", data, 1.0, **model_rules(model))), rtol=1e-6
    )


def model_rules(model):
    return {name: getattr(model, name) for name in ("environment_weights", "anchor_weights")}


def test_the_summary_says_how_environments_count():
    data = simulated()
    assert "equal weights in the likelihood, equal weights in the penalty" in str(
        fitted("normal", data, **BOTH).summary()
    )
    text = str(fitted("normal", data, environment_weights="shrunk").summary())
    assert "weights from" in text
    assert "shrunk by the sd of their shifts" in text
    assert "environments" not in str(fitted("normal", data).summary())


def test_boosting_weighs_environments():
    """At the stage without trees boosting is the model itself."""
    data = simulated()
    for rule in ({"environment_weights": "equal"}, {"anchor_weights": "equal"}, BOTH):
        boosted = atm.AnchorBoostedTM(atm.NormalLinear(**rule), 1.0, n_rounds=3, min_samples_leaf=5)
        boosted.fit("y ~ x + z | place", data)
        alone = atm.NormalLinear(1.0, **rule).fit("y ~ 1 | place", data)
        assert boosted.loss_history_.loss[0] == pytest.approx(alone.loss_, rel=1e-8)
        assert (np.diff(boosted.loss_history_.loss) < 0.0).all()
        assert hasattr(boosted.model_, next(iter(rule)) + "_")
    by_name = atm.AnchorBoostedTM(atm.NormalLinear(environment_weights="equal"), 1.0, n_rounds=2)
    by_name.fit(data[["x", "z"]], data.y, anchors=data.a, environments=data.place)
    np.testing.assert_allclose(by_name.model_.environment_weights_, 1 / 6)


# bad input


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"environment_weights": "same"}, "must be 'rows', 'equal', 'shrunk' or a dict"),
        ({"anchor_weights": 3.0}, "must be 'rows', 'equal', 'shrunk' or a dict"),
        ({"anchor_weights": {}}, "empty"),
        ({"anchor_weights": dict.fromkeys("abcdef", 0.0)}, "all anchor_weights are 0"),
        ({"anchor_weights": dict.fromkeys("abcdef", -1.0)}, "at least 0"),
        ({"environment_weights": dict.fromkeys("abcdef", 0.0)}, "every environment needs a positive weight"),
        ({"environment_weights": dict.fromkeys("abcde", 1.0)}, "environment_weights lacks 'f'"),
        ({"environment_weights": dict.fromkeys("abcdefg", 1.0)}, "names 'g', which no row belongs to"),
        ({"anchor_weights": dict.fromkeys("abcdef", "x")}, "must be a number"),
        ({"environment_weights": "equal", "xi": -0.2}, "xi below 0"),
        ({"anchor_weights": "equal", "xi": -0.2}, "xi below 0"),
        ({"environment_weights": "shrunk", "random": "place"}, "random effects"),
    ],
    ids=str,
)
def test_bad_weights_are_refused(rule, words):
    data = simulated()
    with pytest.raises((InputError, InputTypeError), match=words):
        atm.NormalLinear(**rule).fit(
            data[["x", "place"]] if "random" in rule else data[["x"]], data.y, anchors=data.place
        )


def test_a_misspelt_environment_has_a_hint():
    data = simulated().assign(place=lambda d: d.place.map(lambda e: f"hospital {e}"))
    weights = {f"hospital {e}": 1.0 for e in "abcdef"} | {"hospitl b": 2.0}
    with pytest.raises(InputError, match="did you mean 'hospital b'"):
        atm.NormalLinear(anchor_weights=weights).fit(data[["x"]], data.y, anchors=data.place)


def test_weights_need_environments():
    data = simulated()
    with pytest.raises(InputError, match="environment_weights needs environments"):
        atm.NormalLinear(environment_weights="equal").fit(data[["x"]], data.y, anchors=data.a)
    for anchors in (data.a, data[["place", "grade"]]):
        with pytest.raises(InputError, match="one factor"):
            atm.NormalLinear(1.0, anchor_weights="equal").fit(data[["x"]], data.y, anchors=anchors)
    with pytest.raises(InputError, match="boosting does not have"):
        atm.AnchorBoostedTM(atm.NormalLinear(environment_weights="shrunk")).fit("y ~ x | place", data)
    few = data[data.place.isin(["a", "b"])]
    with pytest.raises(InputError, match="need at least 3"):
        atm.NormalLinear(environment_weights="shrunk").fit("y ~ x | place", few)


def test_clusters_lie_within_environments():
    data = simulated().assign(person=np.arange(240) // 3)
    with pytest.raises(InputError, match="contain whole clusters"):
        atm.NormalLinear(environment_weights="equal").fit("y ~ x + (1 | person) | place", data)


def test_batches_have_no_shrunk_weights(tmp_path):
    simulated().to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputTypeError, match="read in batches"):
        fitted("normal", str(tmp_path / "rows.parquet"), anchor_weights="shrunk")


def test_whole_numbers_name_environments():
    data = simulated().assign(place=lambda d: d.place.map({e: k for k, e in enumerate("abcdef", 10)}))
    weights = {k: 1.0 + k for k in range(10, 16)}
    by_number, by_text = (
        fitted("normal", data, anchor_weights=own) for own in (weights, {str(k): w for k, w in weights.items()})
    )
    np.testing.assert_array_equal(numbers(by_number), numbers(by_text))
    assert by_number.anchor_weights_[15] == pytest.approx(16 / 81)


@pytest.mark.parametrize("rule", ["equal", "shrunk"])
def test_the_command_line_weighs_environments(rule, tmp_path, capsys):
    data = simulated()
    data.to_csv(tmp_path / "rows.csv", index=False)
    file = tmp_path / "model.json"
    words = ["fit", str(tmp_path / "rows.csv"), "-m", "lm", "-f", "y ~ x + z | place", "--xi", "2"]
    main([*words, "--environment-weights", rule, "--anchor-weights", rule, "--save", str(file)])
    assert "environments" in capsys.readouterr().out
    alone = fitted("normal", data, 2.0, environment_weights=rule, anchor_weights=rule)
    np.testing.assert_allclose(numbers(atm.load(file)), numbers(alone), rtol=1e-6)
