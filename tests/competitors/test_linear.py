"""The L2 competitors: linear anchor regression against other software and its own limits, anchor boosting."""

import math

import numpy as np
import pandas as pd
import pytest
from ivmodels import KClass
from ivmodels.models.anchor_regression import AnchorRegression
from reference_fits import data
from simulated import FOUR
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

BOSTON = data("BostonHousing2")


def simulate(seed: int = 0, n: int = 400, levels: int = 5):
    rng = np.random.default_rng(seed)
    site, hidden = rng.integers(0, levels, n), rng.normal(size=n)
    move = rng.normal(size=(levels, 3))
    x = move[site] + hidden[:, None] + rng.normal(size=(n, 3))
    y = x @ [1.0, -0.5, 0.0] + 2.0 * hidden + 3.0 + rng.normal(size=n)
    return x, y, site


@pytest.mark.parametrize("gamma", [0.5, 1.0, 7.0, 13.0, 1000.0])
def test_equal_to_ivmodels(gamma: float) -> None:
    x, y, site = simulate()
    dummies = pd.get_dummies(pd.Series(site), drop_first=True).to_numpy(dtype=float)
    theirs = AnchorRegression(gamma=gamma).fit(x, y, Z=dummies)
    ours = atm.LinearAnchorRegression(gamma).fit(x, y, anchors=site)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-10)


def test_limits() -> None:
    """Partialling out, least squares, two-stage least squares."""
    x, y, site = simulate()
    A = np.eye(5)[site]
    out = atm.LinearAnchorRegression(0.0).fit(x, y, anchors=site)
    full = np.linalg.lstsq(np.hstack([x, A]), y, rcond=None)[0]
    np.testing.assert_allclose(out.coef_, full[:3], rtol=1e-10)
    assert np.sum(y - out.predict(x)) == pytest.approx(0.0, abs=1e-8)
    plain = np.linalg.lstsq(np.column_stack([np.ones(400), x]), y, rcond=None)[0]
    one = atm.LinearAnchorRegression().fit(x, y)
    np.testing.assert_allclose([one.intercept_, *one.coef_], plain, rtol=1e-10)
    limit = atm.LinearAnchorRegression(math.inf).fit(x, y, anchors=site)
    theirs = KClass("tsls").fit(Z=A[:, 1:], X=x, y=y)
    np.testing.assert_allclose(limit.coef_, theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(atm.LinearAnchorRegression(1e9).fit(x, y, anchors=site).coef_, limit.coef_, rtol=1e-6)


@pytest.mark.parametrize("xi", [-0.5, -0.2, 0.0, 3.0, 1e4])
@pytest.mark.parametrize("kind", ["factor", "numbers", "both", "no constant", "weights"])
def test_equal_to_the_normal_model(xi: float, kind: str) -> None:
    x, y, site = simulate(1)
    number = np.random.default_rng(2).normal(size=400) + x[:, 0]
    anchors = {"factor": site, "weights": site, "both": [site, number]}.get(kind, number)
    options = {"anchor_intercept": False} if kind == "no constant" else {}
    extra = {"sample_weight": np.random.default_rng(3).integers(0, 3, 400)} if kind == "weights" else {}
    tm = atm.NormalLinear(xi=xi, **options).fit(x, y, anchors=anchors, **extra)
    ours = atm.LinearAnchorRegression(2 * xi + 1, **options).fit(x, y, anchors=anchors, **extra)
    np.testing.assert_allclose(ours.coef_, tm.slope_, rtol=1e-7, atol=1e-9)
    assert ours.intercept_ == pytest.approx(tm.intercept_, rel=1e-7)
    np.testing.assert_allclose(ours.predict(x), tm.predict(x), rtol=1e-6)


def test_under_identified_limit_is_that_of_large_gamma() -> None:
    x, y, site = simulate(4, levels=2)
    limit = atm.LinearAnchorRegression(math.inf).fit(x, y, anchors=site)
    near = atm.LinearAnchorRegression(1e8).fit(x, y, anchors=site)
    np.testing.assert_allclose(limit.coef_, near.coef_, rtol=1e-5)


def test_limits_where_anchors_say_nothing_or_everything() -> None:
    """Covariates that the anchors do not move, a single environment, covariates inside the span of the anchors."""
    x, y, site = simulate(5)
    plain = atm.LinearAnchorRegression().fit(x, y)
    means = np.array([x[site == s].mean(axis=0) for s in range(5)])
    centred = x - means[site]
    inf = atm.LinearAnchorRegression(math.inf).fit(centred, y, anchors=site)
    np.testing.assert_allclose(
        inf.coef_, atm.LinearAnchorRegression(1e8).fit(centred, y, anchors=site).coef_, rtol=1e-5
    )
    single = atm.LinearAnchorRegression(math.inf).fit(x, y, anchors=np.zeros(400, dtype=int))
    np.testing.assert_allclose(single.coef_, plain.coef_, rtol=1e-9)
    inside = np.column_stack([x[:, 0], np.sin(site)])
    zero, small = (atm.LinearAnchorRegression(g).fit(inside, y, anchors=site) for g in (0.0, 1e-8))
    np.testing.assert_allclose(zero.coef_, small.coef_, rtol=1e-4)
    raw = atm.LinearAnchorRegression(0.0, anchor_intercept=False).fit(x, y, anchors=np.eye(5)[site])
    assert raw.intercept_ == pytest.approx(atm.NormalLinear(xi=-0.5).fit(x, y, anchors=site).intercept_, rel=1e-6)
    ones = atm.LinearAnchorRegression(fit_intercept=False).fit(np.column_stack([np.ones(400), x]), y)
    np.testing.assert_allclose(ones.coef_, [plain.intercept_, *plain.coef_], rtol=1e-9)


def test_without_intercept() -> None:
    x, y, site = simulate(5)
    A = np.eye(5)[site]
    P = A @ np.linalg.pinv(A)
    W = np.eye(400) - (1 - math.sqrt(13.0)) * P
    wanted = np.linalg.lstsq(W @ x, W @ y, rcond=None)[0]
    fit = atm.LinearAnchorRegression(13.0, fit_intercept=False).fit(x, y, anchors=site)
    np.testing.assert_allclose(fit.coef_, wanted, rtol=1e-9)
    assert fit.intercept_ == 0.0


def test_formulas_and_frames() -> None:
    model = atm.LinearAnchorRegression.from_formula("cmedv ~ rm + scale(lstat) | town", BOSTON, gamma=7.0)
    X = np.column_stack([BOSTON.rm, (BOSTON.lstat - BOSTON.lstat.mean()) / BOSTON.lstat.std()])
    other = atm.LinearAnchorRegression(7.0).fit(X, BOSTON.cmedv, anchors=BOSTON.town)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-10)
    np.testing.assert_allclose(model.predict(BOSTON), other.predict(X))
    boosted = atm.AnchorBoosting.from_formula("cmedv ~ rm + lstat | town", BOSTON, gamma=3.0, base="linear")
    assert boosted.predict(BOSTON[:3]).shape == (3,)


def expected(estimator) -> dict[str, str]:
    reason = "more covariates than rows are refused"
    linear = isinstance(estimator, atm.LinearAnchorRegression)
    return {"check_sample_weight_equivalence_on_dense_data": reason} if linear else {}


@parametrize_with_checks(
    [atm.LinearAnchorRegression(), atm.AnchorBoosting(base="tree", n_estimators=10)], expected_failed_checks=expected
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("gamma", [1.0, 13.0, 200.0])
def test_linear_base_run_to_convergence_is_linear_anchor_regression(gamma: float) -> None:
    x, y, site = simulate(6)
    boosted = atm.AnchorBoosting(gamma, 300, 0.9, base="linear").fit(x, y, anchors=site)
    exact = atm.LinearAnchorRegression(gamma).fit(x, y, anchors=site)
    np.testing.assert_allclose(boosted.predict(x), exact.predict(x), atol=1e-10)
    assert (np.diff(boosted.losses_) <= 1e-12).all()


def test_gamma_one_is_plain_boosting() -> None:
    x, y, site = simulate(7)
    boosted = atm.AnchorBoosting(1.0, 30, 0.1, base="tree", random_state=0).fit(x, y, anchors=site)
    error, prediction = y - y.mean(), np.full(400, y.mean())
    rng = np.random.default_rng(0)
    order = np.argsort(site, kind="stable")
    for _ in range(30):
        tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=5, random_state=int(rng.integers(2**31)))
        tree.fit(x[order], error[order])
        prediction += 0.1 * tree.predict(x)
        error = y - prediction
    np.testing.assert_allclose(boosted.predict(x), prediction, atol=1e-10)


def test_anchors_pay_off_under_a_shift() -> None:
    rng = np.random.default_rng(8)

    def sample(n, mean):
        a, hidden = rng.normal(size=(n, 2)) + mean, rng.normal(size=n)
        x = a.sum(axis=1)[:, None] + 2 * hidden[:, None] + 0.5 * rng.normal(size=(n, 10))
        f = x[:, 1] + x[:, 2] + (x[:, 1] <= 0)
        return a, x, f + 3 * hidden + 0.25 * rng.normal(size=n)

    a, x, y = sample(300, 0.0)
    _, x_new, y_new = sample(1000, 8.0)
    for base in ("linear", "linear+forest"):
        plain, anchored = (
            atm.AnchorBoosting(g, 50, 0.1, base=base, n_trees=10, random_state=0).fit(x, y, anchors=a)
            for g in (1.0, 13.0)
        )
        error = [np.abs(y_new - fit.predict(x_new)).mean() for fit in (plain, anchored)]
        assert error[1] < error[0]


def test_refusals() -> None:
    x, y, site = simulate()
    for call, message in (
        (lambda: atm.LinearAnchorRegression(-1).fit(x, y, anchors=site), "at least 0"),
        (lambda: atm.LinearAnchorRegression("a").fit(x, y, anchors=site), "gamma must be a number, not 'a'"),
        (lambda: atm.LinearAnchorRegression(2.0).fit(x, y), "needs anchors"),
        (lambda: atm.LinearAnchorRegression(2.0).fit(x, y, anchors=site[:5]), "anchors has 5 rows"),
        (lambda: atm.LinearAnchorRegression().fit(x, atm.Surv(np.exp(y / 9), site > 1)), "plain numbers"),
        (lambda: atm.LinearAnchorRegression().fit(x, y, sample_weight=-np.ones(400)), "is negative"),
        (lambda: atm.AnchorBoosting(math.inf).fit(x, y, anchors=site), "finite"),
        (lambda: atm.AnchorBoosting(base="forest").fit(x, y), "base must be"),
        (lambda: atm.AnchorBoosting(n_estimators=0).fit(x, y), "n_estimators"),
        (lambda: atm.AnchorBoosting(learning_rate=2.0).fit(x, y), "learning_rate"),
        (lambda: atm.AnchorBoosting(learning_rate="a").fit(x, y), "learning_rate"),
        (lambda: atm.AnchorBoosting(n_trees=0).fit(x, y), "n_trees"),
    ):
        with pytest.raises((InputError, InputTypeError), match=message):
            call()
    assert clone(atm.AnchorBoosting(3.0)).gamma == 3.0


@pytest.mark.bug("bad input", "weights and offsets in a formula of a model that takes none gave an error of Python's")
def test_what_a_model_does_not_take_is_said() -> None:
    data = pd.DataFrame({"y": FOUR.y, "a": FOUR.X[:, 0], "g": FOUR.site.astype(str)})
    with pytest.raises(InputTypeError, match="AnchorBoosting does not use sample_weight"):
        atm.AnchorBoosting.from_formula("y ~ a | g", data, sample_weight=np.ones(FOUR.n))
    with pytest.raises(InputTypeError, match="LinearAnchorRegression does not use offset"):
        atm.LinearAnchorRegression.from_formula("y ~ a | g", data, offset=np.ones(FOUR.n))
