"""Shift and scale effects: fits against explicit likelihoods, closed forms and lifelines; errors, paths, files."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from parameters import moved
from scipy.optimize import minimize
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, ModelFileError, SeparationError
from anchortm.inference.covariance import influence

rng = np.random.default_rng(11)
N = 240
SITE = rng.integers(0, 4, N)
GROUP = (rng.random(N) < 0.4).astype(float)
X = np.column_stack([rng.normal(size=N) + 0.5 * SITE, rng.normal(size=N), GROUP])
NOISE = rng.logistic(size=N)
Y = 1.0 + X @ [1.0, -0.5, 0.3] + np.exp(0.3 * X[:, 1] - 0.5 * GROUP) * NOISE
NAMES = ["x0", "x1", "x2"]


def maximum(nll, start):
    """The minimum of an analytic function: BFGS, then Newton with gradients by the complex step."""

    def gradient(w):
        step = 1e-30j * np.eye(w.size)
        return np.array([nll(w + s).imag for s in step]) / 1e-30

    w = minimize(lambda w: nll(w).real, start, jac=gradient, method="BFGS", options={"gtol": 1e-6}).x
    for _ in range(4):
        H = np.array([(gradient(w + s) - gradient(w - s)) / 2e-5 for s in 1e-5 * np.eye(w.size)])
        w = w - np.linalg.solve(H, gradient(w))
    assert np.abs(gradient(w)).max() < 1e-10
    return w, 0.5 * (H + H.T)


def test_two_samples_have_their_means_and_deviations():
    model = atm.NormalLinear(scale="x0").fit(GROUP[:, None], Y)
    both = model.predict_distribution(np.array([[0.0], [1.0]]))
    for g in (0, 1):
        own = Y[g == GROUP]
        assert both.median()[g] == pytest.approx(own.mean(), rel=1e-10)
        deviation = math.exp(-0.5 * g * model.scale_coef_[0]) / model.baseline_[1]
        assert deviation == pytest.approx(own.std(), rel=1e-10)
    assert model.loglik_ == pytest.approx(
        sum(-0.5 * own.size * (1 + math.log(2 * math.pi * own.var())) for own in (Y[GROUP == 0], Y[GROUP == 1])),
        rel=1e-12,
    )
    assert model.converged_
    assert model.kkt_ < 1e-8
    assert model.min_eigenvalue_ > 0.1
    assert model.convexity_ == "none"


def test_heteroscedastic_regression():
    def nll(w):
        zeta = 0.5 * X[:, 1:] @ w[5:]
        h = np.exp(zeta) * (w[0] + w[1] * Y) - X @ w[2:5]
        return np.mean(0.5 * h * h + 0.5 * math.log(2 * math.pi) - np.log(w[1]) - zeta)

    w, H = maximum(nll, np.array([0.0, 0.3, 0, 0, 0, 0, 0]))
    model = atm.NormalLinear(scale=["x1", "x2"]).fit(X, Y)
    found = np.concatenate([model.baseline_, model.coef_, model.scale_coef_])
    np.testing.assert_allclose(found, w, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.covariance(), np.linalg.inv(N * H), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(model.standard_errors(), np.sqrt(np.diag(np.linalg.inv(N * H)))[2:], rtol=1e-5)
    assert model.n_parameters_ == 7
    assert model.aic_ == pytest.approx(-2 * model.loglik_ + 14)


def test_ordinal_location_scale():
    cuts = np.array([-1.0, 1.0, 3.0])
    y = np.digitize(Y, cuts)

    def nll(w):
        theta = np.concatenate([[-300.0], np.cumsum(np.concatenate([w[:1], np.exp(w[1:3])])), [300.0]])
        s, eta = np.exp(0.5 * (X[:, 1] * w[6] + X[:, 2] * w[7])), X @ w[3:6]
        u, v = s * theta[y + 1] - eta, s * theta[y] - eta
        return -np.mean(np.log(1 / (1 + np.exp(-u)) - 1 / (1 + np.exp(-v))))

    w, _ = maximum(nll, np.array([-1.0, 0.5, 0.5, 0, 0, 0, 0, 0]))
    model = atm.OrdinalRegression(scale=["x1", "x2"]).fit(X, y)
    np.testing.assert_allclose(model.baseline_, np.cumsum([w[0], math.exp(w[1]), math.exp(w[2])]), rtol=1e-7)
    np.testing.assert_allclose(model.result_.others, w[3:], rtol=1e-7, atol=1e-8)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(-np.log(probabilities[np.arange(N), y]), model.nll(X, y), rtol=1e-10)


def test_weibull_with_a_shape_of_its_own_is_that_of_lifelines():
    lifelines = pytest.importorskip("lifelines")
    time, event = np.exp(0.3 * Y), (rng.random(N) < 0.7).astype(int)
    level = rng.integers(0, 3, N)
    D = (level[:, None] == [1, 2]).astype(float)
    frame = pd.DataFrame({"time": time, "event": event, "a": D[:, 0], "b": D[:, 1]})
    theirs = lifelines.WeibullAFTFitter().fit(frame, "time", "event", ancillary="a + b", formula="a + b")
    model = atm.ParametricSurvival(scale=["a", "b"]).fit(frame[["a", "b"]], atm.Surv(time, event))
    # h = rho (log t - log lambda): log rho = log theta_2 + z'g / 2, log lambda = (e^-zeta x'beta - theta_1) / theta_2
    (one, two), g, beta = model.baseline_, model.scale_coef_, model.coef_
    rho, scale = theirs.params_["rho_"], theirs.params_["lambda_"]
    np.testing.assert_allclose([math.log(two), *(0.5 * g)], rho[["Intercept", "a", "b"]], rtol=1e-6, atol=1e-6)
    wanted = scale[["Intercept", "a", "b"]]
    np.testing.assert_allclose([-one / two, *(np.exp(-0.5 * g) * beta / two)], wanted, rtol=1e-6, atol=1e-6)
    assert model.loglik_ == pytest.approx(theirs.log_likelihood_, abs=1e-6)


def test_weibull_with_covariates():
    time, event = np.exp(0.3 * Y), rng.random(N) < 0.7

    def nll(w):
        zeta = 0.5 * w[5] * X[:, 1]
        h = np.exp(zeta) * (w[0] + w[1] * np.log(time)) - X @ w[2:5]
        return np.mean(np.exp(h) - event * (h + zeta + np.log(w[1]) - np.log(time)))

    w, _ = maximum(nll, np.array([-1.0, 1.0, 0, 0, 0, 0]))
    model = atm.ParametricSurvival(scale="x1").fit(X, atm.Surv(time, event))
    np.testing.assert_allclose(np.concatenate([model.baseline_, model.result_.others]), w, rtol=1e-7, atol=1e-8)


Y_MIXED = atm.Interval(
    np.where(SITE == 1, np.floor(Y), np.where(SITE == 2, -np.inf, Y)),
    np.where(SITE == 1, np.floor(Y) + 1, np.where((SITE == 3) & (GROUP > 0), np.inf, Y)),
)


def stated_loss(model, w, X, y, anchors, xi, xi_scale):
    """The loss as printed, from predictions of a model whose parameters are set to w."""
    k, p = model.baseline_.size, model.coef_.size
    trial = moved(model, w[:k], w[k : k + p], w[k + p :])
    Q = np.linalg.qr(pd.get_dummies(anchors).to_numpy(float))[0]
    r, r_s = trial.residuals(X, y), trial.residuals(X, y, which="scale")
    return np.mean(trial.nll(X, y)) + (xi * np.sum((Q.T @ r) ** 2) + xi_scale * np.sum((Q.T @ r_s) ** 2)) / len(r)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (atm.ContinuousLogit(xi=3.0, scale="x1", xi_scale=1.2, order=3), Y_MIXED),
        (atm.ContinuousProbit(xi=0.0, scale=["x1", "x2"], xi_scale=2.0, order=3), Y_MIXED),
        (atm.ProportionalHazards(xi=2.0, scale="x2", order=3), Y),
        (atm.Lehmann(xi=2.0, scale="x2", xi_scale=0.0, order=3), Y),
        (atm.OrdinalRegression(xi=1.0, scale="x2", link="probit"), np.digitize(Y, [0.0, 2.0])),
        (atm.CountRegression(xi=1.0, scale="x1", order=3), np.maximum(np.floor(Y), 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_stated_loss_is_minimal(model, y):
    model = clone(model).fit(X, y, anchors=SITE)
    assert model.converged_
    assert model.min_eigenvalue_ > 1e-6
    xi, second = model.xi_, model.xi_scale_
    assert second == (model.xi if model.xi_scale is None else model.xi_scale)
    w = np.concatenate([model.baseline_, model.result_.others])
    here = stated_loss(model, w, X, y, SITE, xi, second)
    assert here == pytest.approx(model.loss_, rel=1e-10)
    assert here == pytest.approx(-model.loglik_ / N + xi * model.penalty_ + second * model.penalty_scale_, rel=1e-10)
    free = np.ones(w.size, dtype=bool)
    if model.active_.any():  # increments at zero: parameters beside them move together
        free[: model.baseline_.size] = False
    for j in np.flatnonzero(free):
        step = 1e-5 * np.eye(w.size)[j]
        up, down = (stated_loss(model, w + s, X, y, SITE, xi, second) for s in (step, -step))
        assert (up - down) / 2e-5 == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize(
    ("xi", "xi_scale"), [(0.0, None), (1.5, None), (1.5, 0.4), (0.0, 2.0), (2.0, 0.0), (math.inf, None), (math.inf, 0)]
)
def test_influence_is_the_derivative_in_the_weight_of_a_row(xi, xi_scale):
    # two anchor directions, so that there is a limit; at xi = 0 without a penalty there are no anchors
    anchors = None if xi == 0.0 and xi_scale is None else X[:, 0] + 0.3 * NOISE
    weights = rng.uniform(0.5, 1.5, N)
    model = atm.ContinuousLogit(xi=xi, scale=["x1", "x2"], xi_scale=xi_scale, order=2, tol=1e-11)

    def fitted(w):
        one = clone(model).fit(X, Y_MIXED, anchors=anchors, sample_weight=w)
        return np.concatenate([one.baseline_, one.result_.others]), one

    _, whole = fitted(weights)
    assert whole.converged_
    assert not whole.active_.any()
    own = influence(whole)
    support = {"support": whole.support_}
    model.set_params(**support)
    for row in (17, 101):
        step = np.zeros(N)
        step[row] = 1e-4
        slope = (fitted(weights + step)[0] - fitted(weights - step)[0]) / 2e-4
        np.testing.assert_allclose(own[row], slope, rtol=2e-5, atol=2e-7)


def test_weights_replicate_and_order_and_units_do_not_matter():
    copies = rng.integers(1, 4, N)
    model = atm.ContinuousLogit(xi=1.0, scale=["x1"], xi_scale=3.0, order=3, support=(-2.0, 5.0))
    weighted = clone(model).fit(X, Y_MIXED, anchors=SITE, sample_weight=copies)
    rows = rng.permutation(np.repeat(np.arange(N), copies))
    replicated = clone(model).fit(X[rows], Y_MIXED[rows], anchors=SITE[rows])
    np.testing.assert_allclose(weighted.result_.others, replicated.result_.others, rtol=1e-7)
    units = np.array([1e3, 1e-4, 1.0])
    other = clone(model).fit(X[rows] * units, Y_MIXED[rows], anchors=SITE[rows])
    np.testing.assert_allclose(other.coef_ * units, replicated.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.scale_coef_ * units[1], replicated.scale_coef_, rtol=1e-6)
    threads = clone(model).set_params(n_jobs=2).fit(X[rows], Y_MIXED[rows], anchors=SITE[rows])
    np.testing.assert_allclose(threads.result_.others, replicated.result_.others, rtol=1e-12)


def test_a_path_is_the_fits_of_its_values():
    model = atm.OrdinalRegression(scale="x2")
    y = np.digitize(Y, [0.0, 2.0])
    for second in (None, 0.7):
        model.set_params(xi_scale=second)
        path = atm.anchor_path(model, X, y, SITE, [0.0, 0.5, 5.0])
        frame = path.frame()
        assert frame.converged.all()
        assert "coef_x2 (scale)" in frame
        for xi, fitted in zip([0.0, 0.5, 5.0], path.models, strict=True):
            alone = clone(model).set_params(xi=xi).fit(X, y, anchors=SITE)
            assert fitted.xi_ == xi
            assert fitted.xi_scale_ == (xi if second is None else second)
            np.testing.assert_allclose(fitted.result_.others, alone.result_.others, rtol=1e-6, atol=1e-8)
            assert fitted.loss_ == pytest.approx(alone.loss_, rel=1e-10)


@pytest.mark.parametrize("second", [None, 0.7])
def test_left_out_places_are_predicted_by_fits_to_the_others(second):
    model = atm.NormalLinear(scale=["x1", "x2"], xi_scale=second)
    table = atm.leave_one_environment_out(model, X, Y, SITE, [0.0, 2.0]).frame()
    for row in table.itertuples():
        train = row.environment != SITE
        alone = clone(model).set_params(xi=row.xi).fit(X[train], Y[train], anchors=SITE[train])
        assert row.nll == pytest.approx(alone.nll(X[~train], Y[~train]).mean(), rel=1e-8)
    last = dict(zip(table.columns, table.iloc[-1], strict=True))
    np.testing.assert_allclose([last[f"coef_{name} (scale)"] for name in ("x1", "x2")], alone.scale_coef_, rtol=1e-6)
    search = atm.XiSearchCV(model, [0.0, 2.0], "worst", rule="smallest").fit(X, Y, anchors=SITE)
    assert search.results_.objective.min() == pytest.approx(table.groupby("xi").nll.max().min())
    assert search.best_estimator_.scale_coef_.size == 2


def test_predicted_distributions_fit_together():
    model = atm.ContinuousProbit(scale=["x1"], order=4).fit(X, Y)
    distribution = model.predict_distribution(X[:20])
    np.testing.assert_allclose(-distribution.logpdf(Y[:20, None])[:, 0], model.nll(X[:20], Y[:20]), rtol=1e-10)
    np.testing.assert_allclose(distribution.cdf(distribution.ppf(np.full((20, 1), 0.3)))[:, 0], 0.3, rtol=1e-8)
    np.testing.assert_allclose(distribution[3:4].ppf([0.2]), distribution.ppf([0.2])[3:4])
    shown = atm.NormalLinear(scale="x2").fit(X, Y)
    spread = shown.predict_distribution(np.array([[0.0, 0, 0], [0, 0, 1.0]])).ppf([0.1, 0.9])
    wide = spread[:, 1] - spread[:, 0]
    assert wide[1] / wide[0] == pytest.approx(math.exp(-0.5 * shown.scale_coef_[0]), rel=1e-8)


def test_a_formula_names_terms():
    frame = pd.DataFrame({"y": Y, "dose": X[:, 1], "stage": np.array(["i", "ii", "iii"])[rng.integers(0, 3, N)]})
    frame["site"] = [f"s{s}" for s in SITE]
    model = atm.ContinuousLogit.from_formula("y ~ dose + stage | site", frame, xi=1.0, scale="dose + stage", order=3)
    assert model.scale_names_ == ["dose", "stage[T.ii]", "stage[T.iii]"]
    assert list(model.intervals().index[-3:]) == ["dose (scale)", "stage[T.ii] (scale)", "stage[T.iii] (scale)"]
    assert model.nll(frame).shape == (N,)
    with pytest.raises(InputError, match="age"):
        atm.ContinuousLogit.from_formula("y ~ dose | site", frame, scale="age")
    search = atm.XiSearchCV.from_formula(
        "y ~ dose + stage | site", frame, model=atm.NormalLinear(scale="dose + stage"), xis=[0.0, 1.0]
    )
    assert search.best_estimator_.scale_names_ == model.scale_names_
    assert search.score(frame, frame.y) == pytest.approx(-search.nll(frame, frame.y).mean())
    again = clone(model).fit(model.formula_.design(frame), frame.y, anchors=frame.site)
    np.testing.assert_array_equal(again.result_.others, model.result_.others)


def test_files_and_pickles_keep_the_scale(tmp_path):
    model = atm.ContinuousLogit(xi=2.0, scale=["x1", "x2"], xi_scale=0.5, order=3).fit(X, Y, anchors=SITE)
    same = atm.load(atm.save(model, tmp_path / "model.json"))
    for other in (same, pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(other.nll(X, Y), model.nll(X, Y))
        np.testing.assert_array_equal(other.residuals(X, Y, which="scale"), model.residuals(X, Y, which="scale"))
        assert (other.xi_scale_, other.penalty_scale_) == (model.xi_scale_, model.penalty_scale_)
    assert str(same.summary()) == str(model.summary())
    for change in (
        {"scale_coef_": None},
        {"scale_coef_": [1.0]},
        {"scale_names_": ["x0", "x1"]},
        {"scale_coef_": [1.0, "a"]},
        {"xi_scale_": -1.0},
        {"penalty_scale_": None},
        {"penalty_scale_": {"number": "inf"}},
        {"penalty_": {"number": "nan"}},
        {"xi_scale_": 2.0},
        {"scale_coef_": [1e5, 0.0]},
    ):
        _refused(tmp_path, change)
    atm.save(atm.ContinuousLogit(xi=2.0, scale="x1", order=3).fit(X, Y, anchors=SITE), tmp_path / "model.json")
    _refused(tmp_path, {"xi_scale_": 1.0})


def _refused(folder, change):
    import json

    from anchortm.saving import digest

    record = json.loads((folder / "model.json").read_text())
    record["fit"] |= change
    record["sha256"] = digest(record)
    (folder / "changed.json").write_text(json.dumps(record))
    with pytest.raises(ModelFileError):
        atm.load(folder / "changed.json")


def test_the_summary_says_what_a_scale_effect_means():
    model = atm.NormalLinear(xi=1.0, scale="x2", xi_scale=2.0).fit(X, Y, anchors=SITE)
    summary = model.summary()
    text = str(summary)
    assert "F(exp(z'g / 2) h(y) - x'beta)" in text
    assert "xi_scale 2" in text
    assert "(penalty of the scale)" in text
    assert summary.scale_frame()["sd of y, times"].iloc[0] == pytest.approx(math.exp(-0.5 * model.scale_coef_[0]))
    assert summary.frame().shape[0] == 3
    assert "Scale effects" in summary._repr_html_()
    logit = atm.ContinuousLogit(scale="x2", order=3).fit(X, Y).summary()
    assert logit.frame()["odds ratio"].isna().tolist() == [False, False, True]  # one with the scale has no one ratio
    with pytest.raises(InputError, match="predict_distribution"):
        _ = model.sigma_


def test_what_does_not_go_is_refused():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    for scale, message in (("d", "covariates: d;"), ([], "no column"), (["a", "e"], "covariates: e;")):
        with pytest.raises(InputError, match=message):
            atm.NormalLinear(scale=scale).fit(table, Y)
    with pytest.raises(InputTypeError, match="names of covariates"):
        atm.NormalLinear(scale=3).fit(table, Y)
    with pytest.raises(InputError, match="xi_scale is the penalty of scale effects"):
        atm.NormalLinear(xi_scale=1.0).fit(table, Y)
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="xi_scale must be"):
            atm.NormalLinear(scale="a", xi_scale=bad).fit(table, Y)
    with pytest.raises(InputError, match="xi = inf goes with"):
        atm.NormalLinear(xi=math.inf, scale="a", xi_scale=1.0).fit(table, Y, anchors=SITE)
    with pytest.raises(InputError, match="at least 0"):
        atm.NormalLinear(xi=-0.5, scale="a").fit(table, Y, anchors=SITE)
    with pytest.raises(InputError, match="xi_scale = 1 needs anchors"):
        atm.NormalLinear(scale="a", xi_scale=1.0).fit(table, Y)
    with pytest.raises(InputError, match="fixes the scale"):
        atm.ParametricSurvival(scale="a", dist="exponential").fit(table, np.exp(0.1 * Y))
    for varying in (np.array(["a", "b"]), 0, "a"):
        with pytest.raises(InputError, match=r"covariates: a; .*whose effect varies changes the spread already"):
            atm.NormalLinear(scale="a", varying=varying).fit(table, Y)
    assert atm.NormalLinear(scale="a", strata=[]).fit(table, Y).converged_
    model = atm.NormalLinear(scale="a").fit(table, Y)
    with pytest.raises(InputError, match="which"):
        model.residuals(table, Y, which="both")


@pytest.mark.parametrize("model", [atm.NormalLinear(), atm.ContinuousLogit(order=3), atm.ProportionalHazards(order=3)])
def test_a_scale_that_explodes_is_named(model):
    alone = np.zeros((N, 2))
    alone[:, 0], alone[3, 1] = X[:, 0], 1.0
    with pytest.raises(SeparationError, match=r"x1 \(scale\) makes the spread of y at 1 of 240 rows"):
        clone(model).set_params(scale="x1").fit(alone, Y)


def test_classes_that_only_a_scale_separates_are_named():
    y = rng.integers(0, 4, N)
    y[:8] = 2
    few = np.zeros((N, 1))
    few[:8] = 1.0
    with pytest.raises(SeparationError, match="the scale grows without limit"):
        atm.OrdinalRegression(scale="x0").fit(few, y)


def test_a_group_without_a_class_does_not_determine_its_scale():
    y, group = rng.integers(0, 3, N), np.arange(N) % 2
    y[(group == 1) & (y == 0)] = 1  # shift and scale together make the first class impossible in the second group
    with pytest.raises(SeparationError, match=r"x0 \(scale\)"):
        atm.OrdinalRegression(scale="x0").fit(group[:, None].astype(float), y)
    with pytest.raises(SeparationError, match="two classes"):  # shift and scale say the same
        atm.OrdinalRegression(scale="x0").fit(group[:, None].astype(float), y > 1)


def test_covariates_far_from_zero_are_mentioned():
    with pytest.warns(AnchorTMWarning, match="never near 0: x0"):
        atm.NormalLinear(scale="x1").fit(np.column_stack([2000.0 + X[:, 0], X[:, 1]]), Y)


def test_a_large_penalty_makes_both_residuals_uncorrelated_with_the_sites():
    # sites move the mean and the spread of y through two covariates each: two directions can be undone
    big = np.random.default_rng(5)
    n = 2000
    site = big.integers(0, 2, n)
    x = big.normal(size=(n, 2)) + site[:, None] * [0.8, 0.0]
    hidden = big.normal(size=n) + 0.6 * site
    x[:, 1] += hidden
    y = x[:, 0] + hidden + np.exp(0.25 * x[:, 0] + 0.3 * site) * big.normal(size=n)

    def correlations(model):
        return [abs(np.corrcoef(site, model.residuals(x, y, which=which))[0, 1]) for which in ("shift", "scale")]

    model = atm.NormalLinear(scale="x0")
    path = atm.anchor_path(model, x, y, site, [0.0, 1e2, 1e4, 1e6])
    for name in ("penalty_", "penalty_scale_"):
        values = np.array([getattr(m, name) for m in path.models])
        assert values[0] > 1e-3
        assert values[-1] < 1e-9
        assert (np.diff(values) < 0).all()
    assert max(correlations(path.models[-1])) < 1e-4
    limit = clone(model).set_params(xi=math.inf).fit(x, y, anchors=site)
    assert limit.converged_
    assert max(limit.penalty_, limit.penalty_scale_) < 1e-15
    np.testing.assert_allclose(path.models[-1].result_.others, limit.result_.others, rtol=1e-3)
    first = clone(model).set_params(xi=1e6, xi_scale=0.0).fit(x, y, anchors=site)
    assert correlations(first)[0] < 1e-4 < 0.01 < correlations(first)[1]
    check = atm.diagnostics.residual_invariance(path.models[0], limit, x, y, site, which="scale")
    assert check.explained[1] < 1e-8 < check.explained[0]


def test_samples_and_restarts_take_the_same_objective():
    model = atm.ContinuousLogit(xi=1.0, scale="x1", xi_scale=0.5, order=3, n_restarts=2, random_state=0)
    model.fit(X, Y, anchors=SITE)
    assert model.lower_minima_ == []
    objective, _ = model.problem_.objective.ray(1.0)
    part = objective.sample(60)
    v = objective.coordinates.join(model.baseline_, model.result_.others)
    assert part.n_rows == 60
    assert part.mix == objective.mix
    rows = part.terms[0].rows
    assert rows.size == 60
    assert math.isfinite(part.sums(v).loglik)


@pytest.mark.slow
def test_large_data_start_from_a_sample():
    big = np.random.default_rng(0)
    n = 120_000
    x = big.normal(size=(n, 3))
    site = big.integers(0, 5, n)
    y = np.exp(0.2 * x[:, 1]) * (x[:, 0] + big.normal(size=n))  # e^zeta y - x_0 is standard normal
    model = atm.ContinuousProbit(xi=1.0, scale=["x1", "x2"], order=4).fit(x, y, anchors=site)
    assert model.converged_
    assert model.n_iter_ < 6
    assert model.coef_ == pytest.approx([1.0, 0.0, 0.0], abs=0.02)
    assert model.scale_coef_ == pytest.approx([-0.4, 0.0], abs=0.02)


def _moved(model, w):
    """The model with other parameters."""
    k, p = model.baseline_.size, model.coef_.size
    trial = moved(model, w[:k], w[k : k + p], w[k + p :])
    return trial


@pytest.mark.parametrize(("of", "at"), [("cdf", [0.0, 2.0]), ("sf", [1.0]), ("ppf", [0.2, 0.7])])
def test_bands_are_those_of_the_delta_method(of, at):
    model = atm.ContinuousLogit(xi=1.0, scale=["x1", "x2"], order=3).fit(X, Y, anchors=SITE)
    band = model.confidence_band(X[:3], at, of)
    to_h = (
        model.link_.quantile if of == "cdf" else (lambda p: model.link_.quantile(1 - p)) if of == "sf" else np.asarray
    )

    def values(w):
        return to_h(getattr(_moved(model, w).predict_distribution(X[:3]), of)(at))

    w = np.concatenate([model.baseline_, model.result_.others])
    J = np.stack([(values(w + s) - values(w - s)) / 2e-5 for s in 1e-5 * np.eye(w.size)], axis=-1)
    error = np.sqrt(np.einsum("...i,ij,...j->...", J, model.covariance(), J))
    np.testing.assert_allclose(band.estimate, getattr(model.predict_distribution(X[:3]), of)(at), rtol=1e-9)
    width = (to_h(band.upper) - to_h(band.lower)) / (2 * 1.959963984540054)
    np.testing.assert_allclose(np.abs(width), error, rtol=1e-5)


def test_bands_of_a_bootstrap_are_its_quantiles():
    model = atm.NormalLinear(scale=["x2"]).fit(X, Y)
    draws = model.bootstrap(20, random_state=0, progress=False)
    band = model.confidence_band(X[:2], [1.0], uncertainty=draws)
    found = np.array([_moved(model, w).predict_distribution(X[:2]).cdf([1.0]) for w in draws.draws])
    np.testing.assert_allclose(band.lower, np.quantile(found, 0.025, axis=0, method="inverted_cdf"), rtol=1e-10)
    np.testing.assert_allclose(band.upper, np.quantile(found, 0.975, axis=0, method="inverted_cdf"), rtol=1e-10)


@pytest.mark.parametrize("options", [{}, {"of": "probability", "above": 1.5}])
def test_marginal_effects_are_changes_of_predictions(options):
    model = atm.ContinuousLogit(scale=["x1", "x2"], order=3).fit(X, Y)
    table = atm.marginal_effects(model, X, **options).frame()

    def outcome(rows, model=model):
        d = model.predict_distribution(rows)
        return (d.sf(options["above"]) if options else d.median()).mean()

    step = 1e-5 * np.eye(3)
    wanted = [(outcome(X + s) - outcome(X - s)) / 2e-5 for s in step[:2]]
    ends = [np.column_stack([X[:, :2], np.full(N, v)]) for v in (1.0, 0.0)]
    np.testing.assert_allclose(table["effect"], [*wanted, outcome(ends[0]) - outcome(ends[1])], rtol=1e-5)
    w = np.concatenate([model.baseline_, model.result_.others])
    J = [
        (outcome(ends[0], m) - outcome(ends[1], m) - outcome(ends[0], n) + outcome(ends[1], n)) / 2e-5
        for m, n in ((_moved(model, w + s), _moved(model, w - s)) for s in 1e-5 * np.eye(w.size))
    ]
    known = ~model.active_.any()
    assert known
    assert table["std. error"].iloc[-1] == pytest.approx(math.sqrt(np.array(J) @ model.covariance() @ J), rel=1e-4)


def test_the_scale_takes_positions():
    named = atm.NormalLinear(scale=["x1", "x2"]).fit(X, Y)
    for scale in ([1, 2], np.array([1, 2]), np.array(["x1", "x2"]), [[1], "x2"], (np.int64(1), 2, "x1")):
        model = atm.NormalLinear(scale=scale).fit(X, Y)
        assert model.scale_names_ == ["x1", "x2"]
        np.testing.assert_array_equal(model.scale_coef_, named.scale_coef_)
    for scale in (1.5, [1.5], 3, [-1], [True], [None], [["x0", 7]]):
        with pytest.raises(InputTypeError, match="names of covariates or their positions"):
            atm.NormalLinear(scale=scale).fit(X, Y)


@pytest.mark.bug("other software", "with scale effects the estimate depended on the order of rows")
@pytest.mark.slow
def test_the_result_does_not_depend_on_the_order_of_rows():
    """Where the branch ends without another minimum its end is the result, not where the search ended by chance."""
    rng = np.random.default_rng(19)
    n, k = 40, int(rng.integers(3, 7))
    site, level = rng.integers(0, k, n), rng.normal(size=k)
    X = pd.DataFrame({"a": level[site] + rng.normal(size=n), "b": rng.normal(size=n)})
    z = X.a * rng.normal() + rng.normal() * X.b + np.exp(0.5 * rng.normal() * X.b) * rng.gumbel(size=n)
    z = (z + rng.normal(size=k)[site]).to_numpy()
    y = pd.Categorical(np.digitize(z, np.quantile(z, np.arange(1, 4) / 4)), ordered=True)
    fits = []
    for order in (np.arange(n), np.random.default_rng(100).permutation(n), np.random.default_rng(200).permutation(n)):
        model = atm.OrdinalRegression(1e3, link="loglog", scale=["a", "b"])
        with pytest.warns(AnchorTMWarning):
            fits.append(model.fit(X.iloc[order], y[order], anchors=site[order]))
    for other in fits[1:]:
        assert other.loss_ == pytest.approx(fits[0].loss_, rel=1e-6)
        np.testing.assert_allclose(other.coef_, fits[0].coef_, rtol=1e-4, atol=1e-6)


def test_a_path_of_few_rows_ends_soon():
    """At xi = 1e6 forty rows once took 3500 Newton steps in which rounding hid the descent, and did not converge."""
    rng = np.random.default_rng(0)
    k = int(rng.integers(3, 7))
    site, level = rng.integers(0, k, 40), rng.normal(size=k)
    X = pd.DataFrame({"a": level[site] + rng.normal(size=40), "b": rng.normal(size=40)})
    beta, gamma, place = rng.normal(size=2), rng.normal(), rng.normal(size=k)[site]
    z = X.to_numpy() @ beta + np.exp(0.5 * gamma * X.b) * np.random.default_rng(1000).logistic(size=40) + place
    y = pd.Categorical(np.digitize(z, np.quantile(z, [0.25, 0.5, 0.75])), ordered=True)
    with pytest.warns(AnchorTMWarning, match="the branch connected to xi = 0 ends near xi = 428"):
        model = atm.OrdinalRegression(1e6, link="probit", scale=["a", "b"]).fit(X, y, anchors=site)
    assert model.converged_
    assert model.n_iter_ < 1000


def test_the_score_test_is_that_of_shifts_between_sites():
    """Against explicit derivatives of the likelihood in centred shifts; a scaled baseline contains no constant one."""
    model = atm.NormalLinear(scale="x1").fit(X, Y)
    A = np.eye(4)[SITE]
    A = (A - A.mean(axis=0))[:, :3]

    def nll(w):
        theta, beta, g, a = w[:2], w[2:5], w[5], w[6:]
        s = np.exp(0.5 * g * X[:, 1])
        h = s * (theta[0] + theta[1] * Y) - X @ beta - A @ a
        return (0.5 * h**2 - np.log(s * theta[1])).sum()

    w = np.concatenate([model.baseline_, model.coef_, model.scale_coef_, np.zeros(3)])

    def gradient(w):
        return np.array([nll(w + s).imag for s in 1e-30j * np.eye(w.size)]) / 1e-30

    H = np.array([(gradient(w + s) - gradient(w - s)) / 2e-5 for s in 1e-5 * np.eye(w.size)])
    slow = gradient(w) @ np.linalg.solve(H, gradient(w))
    test = atm.diagnostics.score_test(atm.NormalLinear(scale="x1"), X, Y, SITE, method="observed")
    assert test.df == 3
    assert test.statistic == pytest.approx(slow, rel=1e-6)
    simulated = atm.diagnostics.score_test(atm.NormalLinear(scale="x1"), X, Y, SITE, method="simulate", n_draws=50)
    assert simulated.statistic == pytest.approx(slow, rel=0.2)
