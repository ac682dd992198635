"""Targets and proxies of numeric anchors: closed forms, reference numbers, identities, a simulated target, refusals."""

import json
import math
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from parts_cases import make, of_training
from paths import ROOT
from scipy import stats
from sklearn.base import clone
from slow_loss import violations

import anchortm as atm
from anchortm.exceptions import IdentificationError, InputError, InputTypeError, ModelFileError
from anchortm.inference.covariance import influence
from anchortm.saving import digest

REFERENCE = json.loads((ROOT / "tests" / "reference" / "robust" / "targets.json").read_text())
BOSTON = atm.datasets.load_boston_housing2()


def standard(columns):
    return (columns - columns.mean()) / columns.std()


HOUSES, AROUND = standard(BOSTON[["nox", "rm", "age", "lstat"]]), standard(BOSTON[["crim", "indus"]])

rng = np.random.default_rng(5)
N = 200
A = rng.normal(size=(N, 2)) @ np.array([[1.0, 0.4], [0.0, 2.0]]) + [3.0, -1.0]
HIDDEN = rng.normal(size=N)
X = np.column_stack([A @ [0.5, 0.2] + HIDDEN, rng.normal(size=N), A[:, 1] + rng.normal(size=N)])
Y = X @ [1.0, -0.5, 0.2] + A @ [0.3, -0.4] + HIDDEN + rng.normal(size=N)
MEAN, SMALL, LARGE = np.array([5.0, 0.5]), np.array([[0.2, 0.1], [0.1, 0.3]]), np.array([[4.0, 1.0], [1.0, 9.0]])
NOISY = np.hstack([A, A]) + rng.normal(size=(N, 4))  # two measurements of both anchors
MIXED = np.array([[4.0, 0.5], [0.5, 0.3]])  # larger for the first anchor, smaller for the second


def closed(X, y, A, mean, covariance, weights=None):
    """Slopes, intercept, mean squared error and shift of Oberst et al. (2021), from sums over rows."""
    w = np.ones(len(y)) if weights is None else weights
    n = w.sum()
    Xc, yc, Ac = (M - np.average(M, axis=0, weights=w) for M in (X, y, A))
    inverse = np.linalg.inv((w[:, None] * Ac).T @ Ac)
    more = covariance - np.linalg.inv(inverse) / n
    omega = inverse @ more @ inverse
    G, g = (w[:, None] * Ac).T @ Xc, (w * yc) @ Ac
    b = np.linalg.solve((w[:, None] * Xc).T @ Xc / n + G.T @ omega @ G, (w * yc) @ Xc / n + G.T @ omega @ g)
    e = yc - Xc @ b
    kappa = inverse @ ((w * e) @ Ac)
    mse = (w * e) @ e / n + kappa @ more @ kappa
    away = kappa @ (mean - np.average(A, axis=0, weights=w))
    intercept = np.average(y, weights=w) - np.average(X, axis=0, weights=w) @ b + away
    return b, intercept, mse, away / math.sqrt(mse)


def fitted(mean=None, covariance=None, y=Y, anchors=A, model=atm.NormalLinear, **arguments):
    extra = {"sample_weight": arguments.pop("sample_weight", None), "offset": arguments.pop("offset", None)}
    return model(target=atm.TargetShift(mean, covariance), **arguments).fit(X, y, anchors=anchors, **extra)


# the linear model


@pytest.mark.parametrize("case", ["wider", "indefinite", "point mass"])
def test_reference_numbers_of_targets(case):
    wanted = REFERENCE[case]
    model = atm.NormalLinear(target=atm.TargetShift(wanted["mean"], wanted["cov"]))
    model.fit(HOUSES, BOSTON.cmedv, anchors=AROUND)
    np.testing.assert_allclose(model.slope_, wanted["coef"], rtol=0, atol=1e-9)
    assert model.intercept_ == pytest.approx(wanted["intercept"], rel=1e-9)
    assert model.sigma_**2 == pytest.approx(wanted["mse"], rel=1e-9)
    assert model.target_shift_ == pytest.approx(wanted["tm"]["shift"], rel=1e-9)


def test_reference_numbers_of_proxies():
    wanted = REFERENCE["cross proxy"]
    noise = np.random.default_rng(7)
    W, Z = (AROUND.to_numpy() + 0.5 * noise.standard_normal(AROUND.shape) for _ in range(2))
    model = atm.NormalLinear(xi=wanted["lamb"] / 2.0, proxies=atm.Proxies([0, 1], [2, 3]))
    model.fit(HOUSES, BOSTON.cmedv, anchors=np.hstack([W, Z]))
    np.testing.assert_allclose(model.slope_, wanted["closed"], rtol=0, atol=1e-9)
    assert model.convexity_ == "global"
    assert model.min_eigenvalue_ > 0.1


@pytest.mark.parametrize("covariance", [SMALL, LARGE, MIXED, np.zeros((2, 2))], ids=["small", "large", "mixed", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_model_has_the_closed_form(covariance, weighted):
    weights = 1.0 + np.arange(N) % 3 if weighted else None
    model = fitted(MEAN, covariance, sample_weight=weights)
    b, intercept, mse, shift = closed(X, Y, A, MEAN, covariance, weights)
    np.testing.assert_allclose(model.slope_, b, rtol=1e-9)
    assert model.intercept_ == pytest.approx(intercept, rel=1e-9)
    assert model.sigma_**2 == pytest.approx(mse, rel=1e-9)
    assert model.target_shift_ == pytest.approx(shift, rel=1e-9)


def test_weights_replicate_rows():
    weights = np.arange(N) // 2 % 3
    one = fitted(MEAN, MIXED, sample_weight=weights.astype(float))
    rows = np.repeat(np.arange(N), weights)
    two = atm.NormalLinear(target=atm.TargetShift(MEAN, MIXED)).fit(X[rows], Y[rows], anchors=A[rows])
    np.testing.assert_allclose(one.result_.parameters, two.result_.parameters, rtol=1e-9)
    assert one.target_shift_ == pytest.approx(two.target_shift_, rel=1e-9)


def test_numbers_of_the_loss_are_those_of_the_training_rows():
    model = fitted(MEAN, MIXED)
    h = model.baseline_[0] + model.target_shift_ + model.baseline_[1] * Y - X @ model.coef_
    loglik = stats.norm.logpdf(h).sum() + N * math.log(model.baseline_[1])
    kappa = np.linalg.lstsq(A - A.mean(axis=0), h - h.mean(), rcond=None)[0]
    penalty = kappa @ (MIXED - np.cov(A.T, bias=True)) @ kappa
    assert model.loglik_ == pytest.approx(loglik, rel=1e-12)
    assert model.penalty_ == pytest.approx(penalty, rel=1e-9)
    assert model.loss_ == pytest.approx(-loglik / N + 0.5 * penalty, rel=1e-12)
    assert model.nll(X, Y).mean() > -loglik / N  # of the training rows under the model of the target
    np.testing.assert_allclose(model.residuals(X, Y), h - model.target_shift_, rtol=1e-9, atol=1e-12)


# identities


@pytest.mark.parametrize("model", [atm.NormalLinear, atm.ContinuousProbit, atm.ContinuousLogit])
def test_target_like_the_training_rows_is_maximum_likelihood(model):
    like = fitted(A.mean(axis=0), np.cov(A.T, bias=True), model=model)
    plain = model().fit(X, Y)
    np.testing.assert_allclose(like.result_.parameters, plain.result_.parameters, rtol=1e-6)
    assert like.target_shift_ == pytest.approx(0.0, abs=1e-12)
    assert fitted(covariance=np.cov(A.T, bias=True), model=model).loss_ == pytest.approx(plain.loss_, rel=1e-10)


@pytest.mark.parametrize("model", [atm.NormalLinear, atm.ContinuousProbit])
def test_wider_anchors_equal_a_positive_xi(model):
    wide = fitted(covariance=5.0 * np.cov(A.T, bias=True), model=model)
    anchored = model(xi=2.0).fit(X, Y, anchors=A)
    np.testing.assert_allclose(wide.result_.parameters, anchored.result_.parameters, rtol=1e-6)
    assert wide.loss_ == pytest.approx(anchored.loss_, rel=1e-10)
    assert wide.penalty_ == pytest.approx(4.0 * anchored.penalty_, rel=1e-8)


def test_narrower_anchors_equal_a_negative_xi():
    narrow = fitted(covariance=0.3 * np.cov(A.T, bias=True))
    np.testing.assert_allclose(narrow.slope_, atm.NormalLinear(xi=-0.35).fit(X, Y, anchors=A).slope_, rtol=1e-9)


def test_anchors_at_one_value_are_covariates_at_that_value():
    model = fitted(MEAN, np.zeros((2, 2)))
    full = atm.NormalLinear().fit(np.hstack([X, A]), Y)
    np.testing.assert_allclose(model.slope_, full.slope_[:3], rtol=1e-8)
    at = np.hstack([X, np.tile(MEAN, (N, 1))])
    np.testing.assert_allclose(model.nll(X, Y), full.nll(at, Y), rtol=1e-8)


@pytest.mark.parametrize(
    ("model", "covariance"),
    [(atm.NormalLinear, MIXED), (atm.ContinuousProbit, MIXED), (atm.ContinuousLogit, 3.0 * LARGE)],
)
def test_other_units_of_the_anchors_change_nothing(model, covariance):
    T = np.array([[2.0, 0.3], [-1.0, 0.5]])
    one = fitted(MEAN, covariance, model=model)
    two = fitted(MEAN @ T + 7.0, T.T @ covariance @ T, anchors=A @ T + 7.0, model=model)
    np.testing.assert_allclose(two.result_.parameters, one.result_.parameters, rtol=1e-6)
    assert two.target_shift_ == pytest.approx(one.target_shift_, rel=1e-6)
    assert two.loss_ == pytest.approx(one.loss_, rel=1e-10)


def test_measurements_without_errors_are_plain_anchors():
    with pytest.warns(atm.exceptions.AnchorWarning, match="collinear"):
        model = atm.NormalLinear(xi=3.0, proxies=atm.Proxies([0, 1], [2, 3])).fit(X, Y, anchors=np.hstack([A, A]))
    np.testing.assert_allclose(model.slope_, atm.NormalLinear(xi=3.0).fit(X, Y, anchors=A).slope_, rtol=1e-8)


def test_proxies_may_change_places():
    one = atm.ContinuousProbit(xi=1.0, proxies=atm.Proxies([0, 1], [2, 3])).fit(X, Y, anchors=NOISY)
    two = atm.ContinuousProbit(xi=1.0, proxies=atm.Proxies([2, 3], [0, 1])).fit(X, Y, anchors=NOISY)
    np.testing.assert_allclose(two.result_.parameters, one.result_.parameters, rtol=1e-7)
    frame = pd.DataFrame(NOISY, columns=["a", "b", "c", "d"])
    named = atm.ContinuousProbit(xi=1.0, proxies=atm.Proxies(["a", "b"], ["c", "d"])).fit(X, Y, anchors=frame)
    np.testing.assert_array_equal(named.result_.parameters, one.result_.parameters)


@pytest.mark.parametrize("outcome", ["probit", "lehmann", "weibull", "hazards"])
def test_target_is_a_minimum_of_the_stated_loss(outcome):
    case = make({"target"}, outcome=outcome)
    model = case.fit()
    stated, w = case.stated(model), of_training(case, model)
    assert max(violations(stated, w).values()) < 1e-6
    assert model.loss_ == pytest.approx(stated.loss(w), rel=1e-9)
    assert model.target_shift_ == pytest.approx(case.target_shift(stated, w), rel=1e-7)


# what the target gets


def drawn(rng, n, mean, root):
    """Rows of a linear structural model whose anchors have this mean and covariance."""
    a, h = mean + rng.normal(size=(n, 2)) @ root, rng.normal(size=n)
    x = np.column_stack([a @ [1.0, 0.5] + h + rng.normal(size=n), a @ [0.0, 1.0] - h + rng.normal(size=n)])
    y = x @ [1.0, 0.5] + a @ [-1.0, 1.5] + 2.0 * h + rng.normal(size=n)
    return x, y, a


@pytest.mark.parametrize("root", [np.diag([2.0, 0.3]), np.zeros((2, 2)), np.diag([1.5, 1.5])], ids=str)
def test_target_has_the_promised_error(root):
    rng, mean = np.random.default_rng(8), np.array([1.5, -0.5])
    x, y, a = drawn(rng, 100_000, 0.0, np.eye(2))
    target = atm.TargetShift(mean, root.T @ root)
    model = atm.NormalLinear(target=target).fit(x, y, anchors=a)
    x_new, y_new, _ = drawn(rng, 100_000, mean, root)
    errors = y_new - model.intercept_ - x_new @ model.slope_
    # the promise has an error of its own, of about the size of that of the new rows
    assert np.mean(errors**2) == pytest.approx(model.sigma_**2, rel=6.0 * math.sqrt(2.0 / 100_000))
    assert abs(errors.mean()) < 6.0 * model.sigma_ / math.sqrt(100_000)
    for other in (atm.NormalLinear(), atm.NormalLinear(xi=1.0), atm.NormalLinear(xi=-0.4)):
        other.fit(x, y, anchors=a)
        assert model.nll(x_new, y_new).mean() < other.nll(x_new, y_new).mean()


def test_proxies_undo_errors_of_measurement():
    rng = np.random.default_rng(9)
    x, y, a = drawn(rng, 50_000, 0.0, np.eye(2))
    measured = np.hstack([a, a]) + rng.normal(size=(50_000, 4))
    true = atm.NormalLinear(xi=5.0).fit(x, y, anchors=a).slope_
    twice = atm.NormalLinear(xi=5.0, proxies=atm.Proxies([0, 1], [2, 3])).fit(x, y, anchors=measured).slope_
    once = atm.NormalLinear(xi=5.0).fit(x, y, anchors=measured[:, :2]).slope_
    np.testing.assert_allclose(twice, true, atol=0.03)
    assert np.abs(once - true).max() > 0.2


def test_shift_of_other_links_leads_to_a_smaller_mean_residual():
    """It is the first step of Newton's method, so not exact: what it leaves of the mean residual is small."""
    rng, mean = np.random.default_rng(3), np.array([0.8, 0.0])
    x, y, a = drawn(rng, 50_000, 0.0, np.eye(2))
    x_new, y_new, _ = drawn(rng, 50_000, mean, np.eye(2))
    target = atm.ContinuousLogit(target=atm.TargetShift(mean)).fit(x, y, anchors=a)
    plain = atm.ContinuousLogit().fit(x, y)
    np.testing.assert_allclose(target.coef_, plain.coef_, rtol=1e-6)
    left, before = (model.residuals(x_new, y_new).mean() for model in (target, plain))
    assert abs(before) > 0.1
    assert abs(left) < 0.2 * abs(before)
    assert target.nll(x_new, y_new).mean() < plain.nll(x_new, y_new).mean()


# files, pickles, formulas, the bootstrap


def frame():
    return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=Y, first=A[:, 0], second=A[:, 1])


def test_names_may_be_in_any_order_and_formulas_work():
    named = atm.TargetShift(
        pd.Series(MEAN[::-1], ["second", "first"]), pd.DataFrame(MIXED, ["first", "second"], ["first", "second"])
    )
    model = atm.ContinuousProbit(target=named).fit("y ~ x0 + x1 + x2 | first + second", frame())
    plain = fitted(MEAN, MIXED, model=atm.ContinuousProbit)
    np.testing.assert_array_equal(model.result_.parameters, plain.result_.parameters)
    inside = atm.ContinuousProbit(target=named, anchor_names=["first", "second"]).fit(frame().drop(columns="y"), Y)
    np.testing.assert_array_equal(inside.result_.parameters, plain.result_.parameters)


@pytest.mark.parametrize("known", [{"target": atm.TargetShift(MEAN, MIXED)}, {"proxies": atm.Proxies(0, 1), "xi": 0.2}])
def test_files_pickles_and_clones(known, tmp_path):
    model = atm.ContinuousProbit(**known).fit(X, Y, anchors=A)
    for copy in (atm.load(atm.save(model, tmp_path / "model.json")), pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(copy.predict(X[:5]), model.predict(X[:5]))
        assert str(copy.summary()) == str(model.summary())
        assert copy.penalty_ == model.penalty_
        again = clone(copy).fit(X, Y, anchors=A)
        np.testing.assert_array_equal(again.result_.parameters, model.result_.parameters)
        assert hasattr(copy, "target_shift_") == ("target" in known)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["fit"].update(form_=""),
        lambda record: record["fit"].pop("target_shift_"),
        lambda record: record["parameters"].update(target=None),
        lambda record: record["parameters"]["target"]["target"].update(covariance=[[1.0, 2.0], [2.0, 1.0]]),
    ],
)
def test_files_that_do_not_fit_together_are_refused(change, tmp_path):
    record = json.loads(atm.save(fitted(MEAN, MIXED), tmp_path / "model.json").read_text())
    change(record)
    record["sha256"] = digest(record)
    (tmp_path / "changed.json").write_text(json.dumps(record))
    with pytest.raises(ModelFileError):
        atm.load(tmp_path / "changed.json")


def test_standard_errors_come_from_the_bootstrap():
    model = fitted(MEAN, MIXED)
    for ask in (model.standard_errors, lambda: influence(model)):
        with pytest.raises(InputError, match="use the bootstrap"):
            ask()
    with pytest.raises(InputError, match="smooth or target"):
        model.standard_errors("hessian")
    none = atm.NormalLinear(proxies=atm.Proxies(0, 1)).fit(X, Y, anchors=A)  # at xi = 0
    np.testing.assert_allclose(none.standard_errors(), atm.NormalLinear().fit(X, Y).standard_errors(), rtol=1e-9)
    draws = model.bootstrap(40, random_state=0)
    rows = np.random.default_rng(0)
    assert draws.draws.shape == (40, 5)
    by_hand = []
    for _ in range(40):
        own = rows.integers(0, N, N)
        by_hand.append(closed(X[own], Y[own], A[own], MEAN, MIXED)[1])
    intercepts = -draws.draws[:, 0] / draws.draws[:, 1]
    assert np.std(intercepts) == pytest.approx(np.std(by_hand), rel=0.5)
    assert abs(np.mean(intercepts) - model.intercept_) < np.std(by_hand)


def test_spread_and_summary_of_a_target():
    model = fitted(MEAN, MIXED)
    wide = model.widened(2.0)
    assert wide.target_shift_ == pytest.approx(model.target_shift_ / 2.0)
    assert "replaced by a target" in str(model.summary())
    assert "0.5 x" in str(model.summary())


def test_paths_and_searches_with_proxies():
    model = atm.NormalLinear(proxies=atm.Proxies([0, 1], [2, 3]))
    path = atm.anchor_path(model, X, Y, NOISY, [0.0, 0.3, 2.0])
    for xi, found in zip((0.0, 0.3, 2.0), path.models, strict=True):
        alone = clone(model).set_params(xi=xi).fit(X, Y, anchors=NOISY)
        np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-9)
        assert found.loss_ == pytest.approx(alone.loss_, rel=1e-12)
    lambdas = atm.elastic_net_path(model, X, Y, NOISY, [0.5], lambdas=[0.1, 0.01])
    alone = clone(model).set_params(xi=0.5, l1=0.01).fit(X, Y, anchors=NOISY)
    np.testing.assert_allclose(lambdas.coefs[1, 0], alone.coef_, rtol=1e-5, atol=1e-7)


def test_more_covariates_than_rows():
    few, rng = np.arange(40), np.random.default_rng(6)
    wide = np.hstack([X[few], rng.normal(size=(40, 60))])
    for known in ({"target": atm.TargetShift(MEAN, MIXED)}, {"proxies": atm.Proxies(0, 1), "xi": 0.1}):
        found = atm.NormalLinear(l2=0.1, **known).fit(wide, Y[few], anchors=A[few])
        again = atm.NormalLinear(l2=0.1, l1=1e-9, **known).fit(wide, Y[few], anchors=A[few])  # another algorithm
        np.testing.assert_allclose(found.coef_, again.coef_, atol=1e-5)
    with pytest.raises(IdentificationError, match="take xi below"):
        atm.NormalLinear(xi=1e5, l2=0.1, proxies=atm.Proxies(0, 1)).fit(wide, Y[few], anchors=NOISY[few, ::2])


# refusals


def test_smaller_covariances_need_exact_outcomes_and_the_normal_link():
    for model, y in ((atm.ContinuousLogit, Y), (atm.NormalLinear, atm.Surv(np.exp(Y), np.arange(N) % 3 > 0))):
        with pytest.raises(InputError, match="smaller than that of the training rows"):
            fitted(MEAN, MIXED, y=y, model=model)
        with pytest.raises(InputError, match="proxies need exact outcomes"):
            model(xi=1.0, proxies=atm.Proxies(0, 1)).fit(X, y, anchors=A)


def test_censored_outcomes_take_larger_covariances():
    y = atm.Surv(np.exp(0.3 * Y), np.arange(N) % 3 > 0)
    model = fitted(MEAN, LARGE, y=y, model=atm.ProportionalHazards, order=3)
    assert model.converged_
    assert model.loss_ == pytest.approx(-model.loglik_ / N + 0.5 * model.penalty_, rel=1e-12)
    assert model.penalty_ > 0.0


@pytest.mark.parametrize(
    ("arguments", "anchors", "match"),
    [
        ({"xi": 1.0}, A, "replace xi"),
        ({"anchor_intercept": False}, A, "leave anchor_intercept at True"),
        ({}, None, "target needs anchors"),
        ({}, np.arange(N) % 3, "a new place has no column"),
        ({}, A[:, :1], "target has 2 anchors, and the anchors are anchor0"),
        ({}, np.column_stack([A[:, 0], np.ones(N)]), "constant, or a sum of others"),
        ({}, np.column_stack([A[:, 0], 2.0 * A[:, 0] + 1.0]), "constant, or a sum of others"),
    ],
)
def test_targets_that_do_not_fit(arguments, anchors, match):
    with pytest.raises(InputError, match=match):
        fitted(MEAN, MIXED, anchors=anchors, **arguments)


def test_nothing_is_left_if_anchors_explain_a_covariate():
    with pytest.raises(IdentificationError, match="nothing is left to estimate"):
        atm.NormalLinear(target=atm.TargetShift(MEAN, np.zeros((2, 2)))).fit(A + 0.0, Y, anchors=A)


def test_proxies_that_share_nothing_or_too_little():
    unrelated = np.column_stack([A[:, 0], np.random.default_rng(1).normal(size=N)])
    with pytest.raises(IdentificationError, match="hardly correlated"):
        atm.NormalLinear(xi=1.0, proxies=atm.Proxies(0, 1)).fit(X, Y, anchors=unrelated)
    model = atm.NormalLinear(xi=1e4, proxies=atm.Proxies([0, 1], [2, 3]))
    with pytest.raises(IdentificationError, match="take xi below") as refused:
        model.fit(X, Y, anchors=NOISY)
    limit = float(re.search(r"take xi below ([0-9.e+]+)", str(refused.value)).group(1))
    assert model.set_params(xi=0.99 * limit).fit(X, Y, anchors=NOISY).converged_
    with pytest.raises(IdentificationError, match="take xi below"):
        model.set_params(xi=1.01 * limit).fit(X, Y, anchors=NOISY)


def test_wrong_types_are_refused():
    for arguments, match in (
        ({"target": (MEAN, SMALL)}, "must be a TargetShift"),
        ({"proxies": "a"}, "must be Proxies"),
    ):
        with pytest.raises(InputTypeError, match=match):
            atm.NormalLinear(**arguments).fit(X, Y, anchors=A)
    with pytest.raises(InputError, match="name each anchor column once"):
        atm.NormalLinear(xi=1.0, proxies=atm.Proxies(0, 0)).fit(X, Y, anchors=A)


def test_left_out_rows_are_not_scored_with_a_target():
    model = atm.NormalLinear(target=atm.TargetShift(MEAN, MIXED))
    places = np.arange(N) % 4
    for ask in (
        lambda: atm.leave_one_environment_out(model, X, Y, places, [0.0], anchors=A),
        lambda: atm.ElasticNetCV(model, lambdas=[0.1]).fit(X, Y, anchors=A, environments=places),
        lambda: atm.compare_strategies(model, X, Y, A, places),
        lambda: clone(model).fit(X, Y, anchors=A).calibrate_spread(X, Y, places),
    ):
        with pytest.raises(InputError, match="replace xi"):
            ask()
