"""Faults that were found by trying to break things, each fixed and kept from coming back."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import anchortm as atm
from anchortm.bases import OrdinalBasis
from anchortm.exceptions import (
    AnchorTMWarning,
    AnchorWarning,
    ConvergenceWarning,
    IdentificationError,
    InputError,
    InputTypeError,
    OverIdentifiedError,
)
from anchortm.links import Logistic

RNG = np.random.default_rng(0)
N = 300
G = RNG.integers(0, 4, N)
A = RNG.normal(size=N)
X = RNG.normal(size=(N, 2)) + 0.3 * G[:, None]
Y = X @ [1, -0.5] + 0.3 * G + RNG.normal(size=N)


def rare_events(seed: int = 0, n: int = 100_000):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    t, c = rng.exponential(size=n) * np.exp(-0.5 * x[:, 0]), 0.05 * rng.exponential(size=n)
    rare = np.zeros(n)
    rare[rng.choice(n, 60, replace=False)] = 1
    return np.column_stack([x, rare]), atm.Surv(np.minimum(t, c), t <= c), rng.integers(0, 20, n)


@pytest.mark.parametrize("xi", [0.0, 1.0])
def test_a_sample_without_events_does_not_decide_for_all_rows(xi: float) -> None:
    Z, y, site = rare_events()
    anchors = site if xi else None
    large = atm.ProportionalHazards(xi=xi, support=(0.005, 0.1)).fit(Z, y, anchors=anchors)
    small = atm.ProportionalHazards(xi=xi, support=(0.005, 0.1)).fit(
        Z[:-1], y[:-1], anchors=None if anchors is None else anchors[:-1]
    )
    assert large.converged_
    assert large.folds_ == small.folds_ == ()
    np.testing.assert_allclose(large.coef_, small.coef_, atol=0.02)


def test_a_rare_class_in_large_data() -> None:
    rng = np.random.default_rng(1)
    n = 100_000
    x = rng.normal(size=(n, 1))
    z = x[:, 0] + rng.logistic(size=n)
    y = np.digitize(z, [np.sort(z)[3], 0.0, 2.0])
    assert atm.OrdinalRegression(xi=1.0).fit(x, y, anchors=rng.integers(0, 10, n)).converged_


def test_a_pattern_in_the_order_of_rows() -> None:
    rng = np.random.default_rng(2)
    n = 100_000
    x = np.column_stack([rng.normal(size=n), np.arange(n) % 5 == 0]).astype(float)
    y = x @ [1.0, 0.5] + rng.logistic(size=n)
    model = atm.ContinuousLogit(xi=1.0).fit(x, y, anchors=rng.normal(size=n))
    np.testing.assert_allclose(model.coef_, [1.0, 0.5], atol=0.05)


def test_an_ordinal_basis_keeps_its_order_of_classes() -> None:
    labels = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 1])]
    model = atm.AnchorTM(basis=OrdinalBasis(("low", "mid", "high"))).fit(X, labels)
    wanted = atm.OrdinalRegression().fit(X, np.digitize(Y, [-0.5, 1]))
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-8)
    assert model.loglik_ == pytest.approx(-model.nll(X, labels).sum())


def test_a_fixed_slope_is_no_parameter() -> None:
    t = np.exp(Y)
    exponential, weibull = (atm.ParametricSurvival(dist=d).fit(X, t) for d in ("exponential", "weibull"))
    assert exponential.n_parameters_ == weibull.n_parameters_ - 1 == 3
    assert atm.likelihood_ratio_test(exponential, weibull).df == 1
    assert "1 degree of freedom" in str(atm.likelihood_ratio_test(exponential, weibull))


def test_a_just_identified_limit_exists() -> None:
    """Binary outcome, binary instrument: the moment equations of instrumental-variable logit."""
    rng = np.random.default_rng(3)
    n = 5000
    H, z = rng.normal(size=n), rng.integers(0, 2, n)
    x = 1.5 * z + 0.5 * H + rng.normal(size=n)
    y = (x - 0.5 + H + rng.logistic(size=n) > 0).astype(int)
    limit = atm.OrdinalRegression(xi=math.inf).fit(x[:, None], y, anchors=z)
    far = atm.OrdinalRegression(xi=1e6).fit(x[:, None], y, anchors=z)
    assert limit.converged_
    np.testing.assert_allclose(limit.coef_, far.coef_, rtol=1e-4)
    mu = limit.predict_proba(x[:, None])[:, 1]
    assert abs(np.mean((y - mu)[z == 1])) < 1e-7
    assert abs(np.mean((y - mu)[z == 0])) < 1e-7


@pytest.mark.parametrize(
    "make", [atm.ContinuousProbit, atm.ContinuousLogit, atm.Lehmann, atm.ProportionalHazards, atm.OrdinalRegression]
)
def test_a_limit_that_does_not_exist_is_always_an_error(make) -> None:
    """More sites than covariates can balance: the same answer from a fit and from a path."""
    rng = np.random.default_rng(4)
    site = rng.integers(0, 7, 420)
    x = rng.normal(size=(420, 2)) + 0.3 * site[:, None]
    y = np.exp(0.5 * x[:, 0] + 0.2 * rng.normal(size=7)[site] + 0.5 * rng.normal(size=420))
    if make is atm.OrdinalRegression:
        y = np.digitize(y, [1.0, 2.0])
    with pytest.raises(OverIdentifiedError):
        make(xi=math.inf).fit(x, y, anchors=site)
    with pytest.raises(OverIdentifiedError):
        atm.anchor_path(make(), x, y, site, [0, 1, 100, math.inf])


def test_the_scale_of_weights_does_not_matter() -> None:
    plain = atm.ContinuousLogit(xi=1.0).fit(X, Y, anchors=G)
    for scale in (0.01, 1 / N, 1e-4, 2.0):
        scaled = atm.ContinuousLogit(xi=1.0).fit(X, Y, anchors=G, sample_weight=np.full(N, scale))
        np.testing.assert_allclose(scaled.support_, plain.support_, rtol=0.02)
        np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=0.02)


@pytest.mark.parametrize(
    "anchors",
    [A.astype(object), pl.Series([Decimal(f"{a:.6f}") for a in A]), np.array([Decimal(f"{a:.6f}") for a in A])],
    ids=["object floats", "polars decimals", "decimals"],
)
def test_numbers_in_objects_are_numeric_anchors(anchors) -> None:
    assert atm.NormalLinear(xi=1.0).fit(X, Y, anchors=anchors).n_anchors_ == 2


def test_mixed_object_anchors() -> None:
    both = np.column_stack([A.astype(object), G.astype(str).astype(object)])
    assert atm.NormalLinear(xi=1.0).fit(X, Y, anchors=both).n_anchors_ == 5


@pytest.mark.parametrize(
    ("anchors", "error", "message"),
    [
        (pd.Series(["a", pd.NA] * 150, dtype="string"), InputError, "missing at row 1"),
        (pd.to_datetime(["2020-01-01"] * 300), InputTypeError, "time stamp"),
        (pd.DataFrame(index=range(300)), InputError, "no columns"),
        ("hospital", InputTypeError, "use anchor_names"),
    ],
)
def test_anchors_that_cannot_be(anchors, error, message: str) -> None:
    with pytest.raises(error, match=message):
        atm.NormalLinear(xi=1.0).fit(X, Y, anchors=anchors)


def test_huge_unsigned_codes() -> None:
    codes = G.astype(np.uint64) + np.uint64(2**63 + 5)
    assert atm.NormalLinear(xi=1.0).fit(X, Y, anchors=codes).n_anchors_ == 4


def test_codes_as_floats_are_pointed_out() -> None:
    with pytest.warns(AnchorWarning, match=r"whole numbers as floats .*astype\(int\)"):
        atm.NormalLinear(xi=1.0).fit(X, Y, anchors=(np.arange(N) % 7).astype(float))


def test_a_duplicated_numeric_anchor_beside_a_factor_is_named() -> None:
    with pytest.warns(AnchorWarning, match="collinear: anchor"):
        model = atm.NormalLinear(xi=1.0).fit(X, Y, anchors=[G, A, 2 * A])
    assert model.n_anchors_ == 5


def test_a_support_beside_the_data() -> None:
    with pytest.raises(InputError, match=r"support \(100, 200\) does not overlap y"):
        atm.ContinuousLogit(support=(100, 200)).fit(X, Y)


def test_negative_xi_needs_exact_rows() -> None:
    with pytest.raises(InputError, match="needs NormalLinear with exact rows"):
        atm.NormalLinear(xi=-0.5).fit(X, atm.Interval(Y, np.where(Y > 1, np.inf, Y)), anchors=G)


@pytest.mark.parametrize("width", [1e-5, 1e-7, 1e-9, 1e-11])
@pytest.mark.parametrize("make", [atm.ContinuousLogit, atm.ContinuousProbit, atm.Lehmann])
def test_narrow_intervals_are_nearly_exact_rows(make, width: float) -> None:
    exact = make(xi=2.0, support=(-2.0, 3.0)).fit(X, Y, anchors=G)
    narrow = make(xi=2.0, support=(-2.0, 3.0)).fit(X, atm.Interval(Y - width / 2, Y + width / 2), anchors=G)
    assert narrow.converged_
    np.testing.assert_allclose(narrow.coef_, exact.coef_, rtol=1e-4)
    assert narrow.min_eigenvalue_ == pytest.approx(exact.min_eigenvalue_, rel=1e-2)
    assert narrow.loglik_ - N * math.log(width) == pytest.approx(exact.loglik_, rel=1e-4)


def test_large_counts() -> None:
    counts = np.floor(1e9 * np.exp(Y))
    model = atm.CountRegression(xi=1.0).fit(X, counts, anchors=G)
    assert model.converged_
    support = tuple(np.array(model.support_) + 1)
    smooth = atm.AnchorTM(log_first=True, xi=1.0, support=support).fit(X, counts + 0.5, anchors=G)
    np.testing.assert_allclose(model.coef_, smooth.coef_, rtol=1e-6)


@pytest.mark.parametrize("xi", [1e8, 1e10])
def test_rounding_at_huge_xi_is_not_a_fold(xi: float) -> None:
    rng = np.random.default_rng(0)
    n = 2000
    z, H = rng.integers(0, 2, n), rng.normal(size=n)
    x = z + H + rng.normal(size=n)
    t = np.exp(0.5 * x + H + np.log(rng.exponential(size=n)))
    model = atm.ParametricSurvival(xi=xi, dist="exponential").fit(x[:, None], t, anchors=z)
    assert model.converged_
    assert model.folds_ == ()
    linear = atm.NormalLinear(xi=1e12).fit(x[:, None], np.log(t), anchors=z)
    limit = atm.NormalLinear(xi=math.inf).fit(x[:, None], np.log(t), anchors=z)
    np.testing.assert_allclose(linear.slope_, limit.slope_, rtol=1e-6)


def test_a_stopped_path_is_judged_at_its_own_xi() -> None:
    with pytest.warns(ConvergenceWarning, match="at xi = 0, on the way to 10"):
        model = atm.ContinuousLogit(xi=10.0, max_iter=1).fit(X, Y, anchors=G)
    assert model.loss_ == pytest.approx(-model.loglik_ / N + 10.0 * model.penalty_)
    assert model.xi_ == 10.0
    assert "not reached" in str(model.summary())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (X.astype(str), "X is not numeric"),
        (pd.DataFrame(X.astype(str), columns=["a", "b"]), "covariate 'a' is not numeric"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(G)}), "covariate 'b' is a category"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.to_datetime(["2020-01-01"] * N)}), "covariate 'b' is not numeric"),
    ],
)
def test_what_is_no_number_is_no_covariate(frame, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        atm.NormalLinear().fit(frame, Y)


def test_anchor_names_without_covariates() -> None:
    with pytest.raises(InputError, match="X is None"):
        atm.NormalLinear(xi=1.0, anchor_names=["g"]).fit(None, Y)
    frame = pd.DataFrame({"a": X[:, 0], "g": G})
    model = atm.NormalLinear(xi=1.0, anchor_names="g").fit(frame, Y)
    assert model.n_features_in_ == len(model.feature_names_in_) == 2
    assert model.n_anchors_ == 4


def test_more_parameters_than_rows() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(IdentificationError, match="59 covariates for 60 rows"):
        atm.NormalLinear().fit(rng.normal(size=(60, 59)), rng.normal(size=60))


def test_outliers_and_large_offsets() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1000, 1))
    t = rng.exponential(size=1000) * np.exp(-0.5 * x[:, 0])
    plain = atm.ProportionalHazards(support=(0.1, 2.0)).fit(x, t)
    moved = atm.ProportionalHazards(support=(0.1, 2.0)).fit(x, t, offset=np.full(1000, 800.0))
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-6)
    t[0] = 1e6
    assert atm.ProportionalHazards(support=(0.1, 2.0)).fit(x, t).converged_


def test_a_second_fit_forgets_the_first() -> None:
    model = atm.AnchorTM(basis="bernstein").fit(X, Y)
    model.set_params(basis="linear", link="probit").fit(X, Y)
    assert not hasattr(model, "support_")
    assert "linear basis" in str(model.summary())
    model.set_params(basis="ordinal", link="logit").fit(X, np.digitize(Y, [0.0]))
    model.set_params(basis="bernstein").fit(X, Y)
    assert not hasattr(model, "classes_")


@pytest.mark.filterwarnings("ignore:A column-vector y")  # 2026-11-15: scikit-learn's own warning, wanted here
def test_a_column_of_y_is_taken_everywhere() -> None:
    model = atm.NormalLinear().fit(X, Y[:, None])
    assert model.score(X, Y[:, None]) == model.score(X, Y)
    assert model.nll(X, Y[:, None]).shape == (N,)


def test_the_fitted_xi_is_kept() -> None:
    model = atm.NormalLinear(xi=1.0).fit(X, Y, anchors=G).set_params(xi=0.0)
    assert model.xi_ == 1.0
    assert "xi              1, 4 anchor" in str(model.summary())
    with pytest.raises(InputError, match="both models need xi = 0"):
        atm.likelihood_ratio_test(atm.NormalLinear().fit(X[:, :1], Y), model)


def test_summary_of_a_link_of_ones_own() -> None:
    class Renamed(Logistic):
        name = "mylogit"

    assert "mylogit link" in str(atm.AnchorTM(link=Renamed()).fit(X, Y).summary())


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_units_of_covariates(scale: float) -> None:
    model = atm.NormalLinear().fit(X * scale, Y)
    np.testing.assert_allclose(model.coef_ * scale, atm.NormalLinear().fit(X, Y).coef_, rtol=1e-8)


def test_constant_y_is_named() -> None:
    with pytest.raises(InputError, match="y is constant: all rows are at 5"):
        atm.ContinuousLogit().fit(X, np.full(N, 5.0))


def test_an_entry_that_is_none_changes_nothing() -> None:
    a = atm.ContinuousLogit().fit(X, atm.Interval(Y, Y, entry=np.full(N, -np.inf)))
    assert a.support_ == atm.ContinuousLogit().fit(X, Y).support_


def test_an_offset_gives_the_rows_of_an_unconditional_prediction() -> None:
    assert atm.ContinuousLogit().fit(None, Y).predict(offset=np.zeros(3)).shape == (3,)


@pytest.mark.parametrize(("option", "message"), [({"max_iter": 0}, "max_iter"), ({"tol": 0.0}, "tol must be")])
def test_limits_of_the_solver(option: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        atm.ContinuousLogit(**option).fit(X, Y)


def test_exit_truncation() -> None:
    """Rows seen only below a limit: the truncated fit recovers what the plain one misses."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(20_000, 1))
    y = x[:, 0] + rng.normal(size=20_000)
    seen = y <= 1.0
    x, y = x[seen], y[seen]
    model = atm.NormalLinear().fit(x, atm.Interval(y, y, exit=np.ones(y.size)))
    assert model.slope_[0] == pytest.approx(1.0, abs=0.04)
    assert atm.NormalLinear().fit(x, y).slope_[0] < 0.8


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
@pytest.mark.parametrize("log_first", [True, False])
def test_means_and_modes_of_counts(link: str, log_first: bool) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2000, 1))
    k = rng.poisson(np.exp(1 + 0.5 * x[:, 0]))
    dist = atm.CountRegression(link=link, log_first=log_first, order=4).fit(x, k).predict_distribution(x[:3])
    grid = np.arange(100_000.0)
    sums = dist.sf(grid).sum(axis=1)
    known = dist.sf(1e5 - 1) < 1e-12  # else the tail beyond the grid counts
    np.testing.assert_allclose(dist.mean()[known], sums[known], rtol=1e-8)
    assert (dist.mean() >= sums - 1e-9).all()
    assert dist.mode().tolist() == np.argmax(dist.pmf(np.arange(200.0)), axis=1).tolist()


def test_the_mode_of_large_counts_is_found_quickly() -> None:
    counts = np.floor(1e6 * np.exp(Y))
    dist = atm.CountRegression().fit(X, counts).predict_distribution(X[:3])
    mode = dist.mode()
    for step in (-1.0, 1.0):
        assert (dist.pmf(mode[:, None])[:, 0] >= dist.pmf(np.maximum(mode + step, 0)[:, None])[:, 0] - 1e-18).all()


def test_means_given_survival_far_out() -> None:
    from anchortm.bases import LinearBasis, LogLinearBasis
    from anchortm.links import LINKS
    from anchortm.predict.distribution import PredictedDistribution

    def standard(link: str, n: int = 1, basis=None, theta=(0.0, 1.0)):
        return PredictedDistribution(LINKS[link], basis or LinearBasis(), np.array(theta), np.zeros(n))

    for t in (2.0, 9.0, 50.0):  # E[Z | Z > t] is the hazard of the normal distribution
        assert standard("probit").given(t).mean()[0] == pytest.approx(float(LINKS["probit"].right(t).r), rel=1e-8)
    assert standard("logit").given(50.0).mean()[0] == pytest.approx(51.0, rel=1e-8)
    assert standard("cloglog").given(8.0).mean()[0] == pytest.approx(8.0 + math.exp(-8.0), rel=1e-6)
    for slope in (1.02, 1.05, 3.0):
        wanted = math.pi / slope / math.sin(math.pi / slope)
        assert standard("logit", basis=LogLinearBasis(), theta=(0.0, slope)).mean()[0] == pytest.approx(wanted)
    for slope in (0.02, 0.05, 2.0):
        wanted = math.exp(math.lgamma(1 + 1 / slope))
        assert standard("cloglog", basis=LogLinearBasis(), theta=(0.0, slope)).mean()[0] == pytest.approx(wanted)
    assert standard("probit", n=0).mean().shape == (0,)
    later = standard("probit").given(2.0).given(0.0)
    assert later.after[0] == 2.0
    assert np.isnan(standard("probit").ppf(np.nan)[0])
    assert np.isnan(standard("probit").pdf(np.nan)[0])


def test_rows_do_not_spoil_each_other() -> None:
    model = atm.ParametricSurvival().fit(X[:, :1], np.exp(Y))
    alone = model.predict_distribution([[0.0]]).mean()
    assert model.predict_distribution([[0.0], [1500.0]]).mean()[0] == alone[0]


def test_a_limit_with_active_bounds_is_the_same_from_fit_and_path() -> None:
    rng = np.random.default_rng(9)
    found = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = 120
        z, H = rng.integers(0, 3, n), rng.normal(size=n)
        x = 0.5 * z + H + rng.normal(size=n)
        y = x + H + rng.logistic(size=n)
        results = []
        for call in (
            lambda x=x, y=y, z=z: atm.ContinuousLogit(xi=math.inf).fit(x[:, None], y, anchors=z),
            lambda x=x, y=y, z=z: atm.anchor_path(atm.ContinuousLogit(), x[:, None], y, z, [0, 1e8, math.inf]).models[
                -1
            ],
        ):
            try:
                model = call()
                results.append(round(model.loss_, 6))
                assert model.converged_
            except OverIdentifiedError:
                results.append(None)
        assert results[0] == results[1]
        found += results[0] is not None
    assert found > 20


@pytest.mark.filterwarnings("ignore:the fit did not converge")  # 2026-11-15: two iterations are not enough, on purpose
def test_a_path_that_stops_is_not_over_identified() -> None:
    z = (G > 1).astype(int)
    model = atm.ContinuousLogit(xi=math.inf, max_iter=2).fit(X[:, :1], Y, anchors=z)
    assert not model.converged_


def test_separation_without_an_environment_is_told() -> None:
    rng = np.random.default_rng(10)
    g = np.repeat([0, 1], [180, 20])
    x = rng.normal(size=(200, 1))
    y = np.where(g == 1, rng.integers(0, 2, 200), x[:, 0] > 0).astype(int)
    with pytest.raises(IdentificationError, match="without environment 1: complete or quasi-complete separation"):
        atm.leave_one_environment_out(atm.OrdinalRegression(), x, y, g, [0.0, 1.0])


@pytest.mark.parametrize("xis", [[-2.0], [math.nan]])
def test_left_out_environments_refuse_impossible_xi(xis) -> None:
    with pytest.raises(InputError, match="xi must be at least"):
        atm.leave_one_environment_out(atm.NormalLinear(), X, Y, G, xis)


def test_environments_of_any_type_are_the_same_groups() -> None:
    wanted = atm.leave_one_environment_out(atm.NormalLinear(), X, Y, G, [0, 5]).frame().nll
    for environments in (pd.Categorical(G + 0.5), G.astype(str), (G * 50 - 100).astype(np.int8)):
        result = atm.leave_one_environment_out(atm.NormalLinear(), X, Y, environments, [0, 5]).frame()
        np.testing.assert_allclose(result.nll, wanted, rtol=1e-10)
    assert set(atm.leave_one_environment_out(atm.NormalLinear(), X, Y, G > 1, [0]).frame().environment) == {False, True}
    shifted = atm.leave_one_environment_out(atm.NormalLinear(), X, Y, A + 1e4, [0, 5], cut=4).frame()
    np.testing.assert_allclose(
        shifted.nll, atm.leave_one_environment_out(atm.NormalLinear(), X, Y, A, [0, 5], cut=4).frame().nll, rtol=1e-6
    )
    named = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": G})
    by_name = atm.leave_one_environment_out(atm.NormalLinear(anchor_names=["g"]), named, Y, G, [0, 5]).frame()
    np.testing.assert_allclose(by_name.nll, wanted, rtol=1e-10)


def test_truncated_and_censored_counts() -> None:
    rng = np.random.default_rng(11)
    x = rng.normal(size=(600, 1))
    k = rng.poisson(np.exp(0.3 + 0.7 * x[:, 0]))
    x, k = x[k > 0], k[k > 0].astype(float)
    fits = [
        atm.CountRegression(order=3, support=(1, 5)).fit(x, atm.Interval(k, k, entry=np.full(k.size, e)))
        for e in (0.0, 0.5, -0.5)
    ]
    assert fits[0].loglik_ == pytest.approx(fits[1].loglik_)  # more than 0.5 is more than 0
    assert fits[2].loglik_ == pytest.approx(atm.CountRegression(order=3, support=(1, 5)).fit(x, k).loglik_)
    with pytest.raises(InputTypeError, match="for censored or truncated counts use Interval"):
        atm.CountRegression().fit(x, atm.Surv(k, np.ones(k.size), entry=np.zeros(k.size)))
    with pytest.raises(InputError, match=r"beyond 2\^53"):
        atm.CountRegression().fit(x, k * 1e16)
    half = np.arange(k.size) % 2 == 0
    censored = atm.Interval(np.where(half, -np.inf, k), np.where(half, 50.0, k))
    assert atm.CountRegression(order=3).fit(x, censored).support_[1] <= np.quantile(k, 0.95)


def test_classes_of_mixed_types_keep_theirs() -> None:
    grades = pd.Categorical.from_codes(np.digitize(Y, [0.0, 1.0]), [0, 1, "2+"], ordered=True)
    model = atm.OrdinalRegression().fit(X, grades)
    assert set(model.predict(X)) <= {0, 1, "2+"}
    assert model.predict_distribution(X[:2]).cdf(model.classes_[0]).shape == (2,)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_numeric_anchors_in_extreme_units(scale: float) -> None:
    wanted = atm.NormalLinear(xi=3.0).fit(X, Y, anchors=A).coef_
    np.testing.assert_allclose(atm.NormalLinear(xi=3.0).fit(X, Y, anchors=A * scale).coef_, wanted, rtol=1e-8)
    assert atm.NormalLinear(xi=3.0).fit(X, Y, anchors=[G, A * scale]).n_anchors_ == 5


def test_more_anchors_that_cannot_be() -> None:
    with pytest.raises(InputTypeError, match="is complex"):
        atm.NormalLinear(xi=1.0).fit(X, Y, anchors=A + 1j)
    doubled = pd.DataFrame(np.column_stack([G, G]), columns=["g", "g"])
    with pytest.raises(InputError, match="occur more than once"):
        atm.NormalLinear(xi=1.0).fit(X, Y, anchors=doubled)


def test_words_in_alphabetical_order_are_pointed_out() -> None:
    words = np.array(["low", "medium", "high"])[np.digitize(Y, [0.0, 1.0])]
    with pytest.warns(AnchorTMWarning, match="alphabetical order, high < low < medium; .*ordered categorical"):
        atm.OrdinalRegression().fit(X, words)
    ordered = pd.Categorical(words, ["low", "medium", "high"], ordered=True)
    assert atm.OrdinalRegression().fit(X, ordered).warnings_ == []


def test_masked_values_are_missing() -> None:
    mask = np.zeros(X.shape, dtype=bool)
    mask[3, 1] = True
    with pytest.raises(InputError, match="missing values in x1, first at row 3"):
        atm.NormalLinear().fit(np.ma.array(X, mask=mask), Y)
    with pytest.raises(InputError, match="missing value: None at row 3"):
        atm.NormalLinear().fit(X, np.ma.array(Y, mask=mask[:, 1]))


@pytest.mark.bug("bad input", "ordered(rating, '1', '2') on whole numbers said that classes were missing")
def test_classes_are_named_as_words_or_as_numbers() -> None:
    wine = atm.datasets.load_wine()
    words = atm.OrdinalRegression.from_formula("ordered(rating, '1', '2', '3', '4', '5') ~ temp", wine)
    numbers = atm.OrdinalRegression.from_formula("ordered(rating, 1, 2, 3, 4, 5) ~ temp", wine)
    assert words.classes_.tolist() == numbers.classes_.tolist()
    np.testing.assert_array_equal(words.coef_, numbers.coef_)


def test_a_picture_without_matplotlib_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match="figures need matplotlib: pip install matplotlib"):
        atm.anchor_path(atm.NormalLinear(), X, Y, G, [0.0, 1.0]).plot()


@pytest.mark.bug("bad input", "weights and offsets in a formula of a model that takes none gave an error of Python's")
def test_what_a_model_does_not_take_is_said() -> None:
    data = pd.DataFrame({"y": Y, "a": X[:, 0], "g": G.astype(str)})
    with pytest.raises(InputTypeError, match="AnchorBoosting takes no sample_weight"):
        atm.AnchorBoosting.from_formula("y ~ a | g", data, sample_weight=np.ones(N))
    with pytest.raises(InputTypeError, match="LinearAnchorRegression takes no offset"):
        atm.LinearAnchorRegression.from_formula("y ~ a | g", data, offset=np.ones(N))


@pytest.mark.bug("bad input", "the first stage gave rounding noise for what anchors explain wholly or not at all")
def test_anchors_that_explain_all_or_nothing() -> None:
    wine = atm.Formula("rating ~ temp + contact | judge", atm.datasets.load_wine())
    found = atm.diagnostics.first_stage(wine.X, wine.anchors)
    assert (found.frame()[["R2", "F"]] == 0.0).all().all()
    assert "too few directions" in str(found)
    whole = atm.diagnostics.first_stage(np.column_stack([X[:, 0], G**2.0]), G).frame()
    assert np.isinf(whole.F.iloc[1])
    assert whole.pvalue.iloc[1] == 0.0
