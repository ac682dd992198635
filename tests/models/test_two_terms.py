"""Two random terms: against closed forms, a dense Laplace approximation, lme4, differences and refits."""

import json
import math
import time

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from scipy import special

import anchortm as atm
from anchortm.engine.objective.laplace import LaplaceObjective
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.exceptions import AnchorTMWarning, AnchorWarning, IdentificationError, InputError, ModelFileError
from anchortm.inference.covariance import influence
from anchortm.inputs.clusters import make_clusters
from anchortm.inputs.two_terms import Intercepts, make_two_terms

FOLDER = REFERENCE / "r2"
GLMM = json.loads((FOLDER / "glmm.json").read_text())
RNG = np.random.default_rng(4)
N = 160
PERSON, ITEM = RNG.integers(0, 14, N), RNG.integers(0, 8, N)
SITE = RNG.integers(0, 4, N)
X = RNG.normal(size=(N, 2)) + 0.4 * SITE[:, None]
ETA = X @ [0.6, -0.4] + 0.9 * RNG.normal(size=14)[PERSON] + 0.7 * RNG.normal(size=8)[ITEM] + 0.3 * (SITE - 1.5)
Y = ETA + RNG.normal(size=N)
ROWS = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "person": PERSON, "item": [f"i{k}" for k in ITEM]})
A = np.eye(4)[SITE]
P = A @ np.linalg.pinv(A)
Z = np.eye(14)[PERSON], np.eye(8)[ITEM]
RANDOM = ["person", "item"]
CASES = {
    "normal": (lambda xi: atm.NormalLinear(xi, random=RANDOM), Y),
    "counts": (lambda xi: atm.AnchorGLM(xi, family="poisson", random=RANDOM), RNG.poisson(np.exp(0.5 * ETA))),
    "binary": (lambda xi: atm.AnchorGLM(xi, family="binomial", random=RANDOM), (Y > 0.3).astype(int)),
    "ordinal": (lambda xi: atm.OrdinalRegression(xi, random=RANDOM), np.digitize(Y, [-0.5, 0.8])),
}


def fit(case, xi, rows=ROWS, **options):
    make, y = CASES[case]
    return make(xi).set_params(**options).fit(rows, y, anchors=[f"s{k}" for k in SITE])


# a slow loss of its own: rows at eta, a dense maximum over all effects, a dense determinant


def rows_of(case, theta, eta):
    """Return the log-likelihood of rows and its first and second derivative in eta."""
    y = CASES[case][1]
    if case == "normal":
        z = theta[0] + theta[1] * y - eta
        return -0.5 * z**2 - 0.5 * math.log(2 * math.pi) + math.log(theta[1]), z, -np.ones(N)
    if case == "counts":
        mu = np.exp(theta[0] + eta)
        return y * (theta[0] + eta) - mu - special.gammaln(y + 1), y - mu, -mu
    if case == "binary":
        p = special.expit(theta[0] + eta)
        return np.where(y, np.log(p), np.log1p(-p)), y - p, -p * (1 - p)
    cuts = np.concatenate([[-np.inf], theta, [np.inf]])
    u, v = special.expit(cuts[y + 1] - eta), special.expit(cuts[y] - eta)
    return np.log(u - v), u + v - 1.0, -u * (1 - u) - v * (1 - v)


def slow_laplace(case, p):
    """Return the Laplace log-likelihood at p = (theta, beta, standard deviations), and the residuals at the mode."""
    theta, beta, sd = p[:-4], p[-4:-2], p[-2:]
    M = np.hstack([sd[0] * Z[0], sd[1] * Z[1]])
    u = np.zeros(M.shape[1])
    for _ in range(60):
        loglik, slope, curve = rows_of(case, theta, X @ beta + M @ u)
        H = np.eye(u.size) - (M * curve[:, None]).T @ M
        step = np.linalg.solve(H, M.T @ slope - u)
        u = u + step
        if np.abs(step).max() < 1e-13:
            break
    loglik, slope, curve = rows_of(case, theta, X @ beta + M @ u)
    H = np.eye(u.size) - (M * curve[:, None]).T @ M
    return loglik.sum() - 0.5 * u @ u - 0.5 * np.linalg.slogdet(H)[1], slope


def slow_loss(case, p, xi):
    loglik, r = slow_laplace(case, p)
    return (-loglik + xi * r @ P @ r) / N


def gradient(f, p, step=1e-4):
    return np.array(
        [(8 * (f(p + e) - f(p - e)) - f(p + 2 * e) + f(p - 2 * e)) / (12 * step) for e in step * np.eye(p.size)]
    )


def parameters(model):
    return np.concatenate([model.baseline_, model.coef_, model.random_sd_])


@pytest.mark.parametrize("xi", [0.0, 2.0])
@pytest.mark.parametrize("case", CASES)
def test_fits_minimise_the_stated_loss(case, xi):
    model = fit(case, xi)
    p = parameters(model)
    assert model.converged_
    assert model.kkt_ < 1e-8
    assert model.random_sd_.min() > 0.1
    assert model.loss_ == pytest.approx(slow_loss(case, p, xi), abs=1e-10)
    np.testing.assert_allclose(gradient(lambda q: slow_loss(case, q, xi), p), 0.0, atol=1e-7)
    np.testing.assert_allclose(model.residuals(ROWS, CASES[case][1]), slow_laplace(case, p)[1], atol=1e-9)
    assert model.nll(ROWS, CASES[case][1]).sum() == pytest.approx(-model.loglik_, abs=1e-8)


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_normal_models_are_exact(xi):
    """With exact rows and the normal link: h is normal with variance I + sum tau_k^2 Z_k Z_k'."""
    model = fit("normal", xi)
    h = model.baseline_[0] + model.baseline_[1] * Y - X @ model.coef_
    V = np.eye(N) + sum(tau * z @ z.T for tau, z in zip(model.random_sd_**2, Z, strict=True))
    r = np.linalg.solve(V, h)
    loglik = -0.5 * (h @ r + np.linalg.slogdet(V)[1] + N * math.log(2 * math.pi)) + N * math.log(model.baseline_[1])
    assert model.loglik_ == pytest.approx(loglik, abs=1e-8)
    np.testing.assert_allclose(model.residuals(ROWS, Y), r, atol=1e-8)
    assert model.penalty_ == pytest.approx(r @ P @ r / N, abs=1e-10)
    # effects given the data: means and variances of a normal distribution
    table = model.random_effects_
    for k, name in enumerate(RANDOM):
        tau2 = model.random_sd_[name] ** 2
        rows = table.loc[name]
        np.testing.assert_allclose(rows["1"], tau2 * Z[k].T @ r, atol=1e-8)
        variance = tau2 - tau2**2 * np.einsum("ij,ij->j", Z[k], np.linalg.solve(V, Z[k]))
        np.testing.assert_allclose(rows["sd of 1"], np.sqrt(variance), rtol=1e-7)
        np.testing.assert_array_equal(rows["rows"], Z[k].sum(axis=0))
    assert "exact: exact rows and normal link" in str(model.summary())


def test_standard_errors_come_from_the_slow_hessian():
    for case in ("counts", "ordinal"):
        model = fit(case, 0.0)
        p = parameters(model)
        H = gradient(lambda q, case=case: gradient(lambda s: -slow_laplace(case, s)[0], q, 1e-3), p, 1e-3)
        k = model.baseline_.size
        np.testing.assert_allclose(model.standard_errors(), np.sqrt(np.diag(np.linalg.inv(H)))[k : k + 2], rtol=1e-5)


# other software


def test_the_crossed_model_of_lmer():
    data, wanted = pd.read_csv(FOLDER / "penicillin.csv"), GLMM["penicillin"]
    model = atm.NormalLinear.from_formula("diameter ~ 1 + (1 | plate) + (1 | sample)", data)
    assert model.loglik_ == pytest.approx(wanted["ll"], abs=1e-9)
    assert model.sigma_ == pytest.approx(wanted["sig"], rel=1e-6)
    np.testing.assert_allclose(np.diag(model.random_cov_) * model.sigma_**2, wanted["vc"], rtol=1e-5)
    for term in ("plate", "sample"):
        effects = pd.Series(wanted["re"][term])
        found = model.random_effects_.loc[term]["1"].loc[effects.index] * model.sigma_
        np.testing.assert_allclose(found, effects, atol=1e-5)


@pytest.mark.parametrize("name", ["ticks_nested", "answers"])
def test_the_laplace_approximation_of_glmer(name):
    wanted = GLMM[name]
    if name == "answers":
        formula, data, family = "y ~ x + (1 | person) + (1 | item)", pd.read_csv(FOLDER / "answers.csv"), "binomial"
    else:
        data, family = atm.datasets.load_grouseticks(), "poisson"
        formula = "TICKS ~ cHEIGHT + C(YEAR) + (1 | BROOD) + (1 | LOCATION)"
    model = atm.AnchorGLM.from_formula(formula, data, family=family)
    assert model.loglik_ >= wanted["ll"] - 1e-6
    assert model.loglik_ == pytest.approx(wanted["ll"], abs=1e-5)
    np.testing.assert_allclose([model.intercept_, *model.coef_], wanted["fix"], atol=1e-5)
    np.testing.assert_allclose(np.diag(model.random_cov_), wanted["vc"], rtol=1e-5)
    np.testing.assert_allclose(model.standard_errors(), wanted["se"][1:], rtol=1e-3)
    assert "Laplace approximation" in str(model.summary())


@pytest.mark.parametrize("case", ["counts", "ordinal"])
def test_quadrature_with_one_node_is_the_same_approximation(case):
    """A rule with one node, at the mode, is Laplace's; the second term has a variance of 1e-8, its bound."""
    problem = atm.OrdinalRegression() if case == "ordinal" else atm.AnchorGLM(family="poisson")
    inner = problem.problem(ROWS[["x", "z"]], CASES[case][1]).objective
    one = make_clusters(PERSON.tolist(), "person", ["1"], ["x", "z"], X)._replace(n_nodes=1)
    two = make_two_terms([PERSON.tolist(), ITEM.tolist()], Intercepts.of(RANDOM))
    theta = [-0.5, 1.0] if case == "ordinal" else [0.1]
    by_nodes = MixedObjective(inner, one)
    v = by_nodes.coordinates.join(np.array(theta), np.array([0.4, -0.3, 0.6]))
    wanted = by_nodes.sums(v).loglik
    assert LaplaceObjective(inner, two).sums(np.append(v, 0.0)).loglik == pytest.approx(wanted, abs=1e-5)


def test_a_term_without_variance_says_so():
    rng = np.random.default_rng(0)
    rows = ROWS.assign(item=rng.permutation(ROWS.item))
    found = []
    for seed in range(4):
        y = np.random.default_rng(seed).normal(size=14)[PERSON] + rng.normal(size=N)
        model = atm.NormalLinear(random=RANDOM).fit(rows, y)
        one = atm.NormalLinear(random="person").fit(rows[["x", "z", "person"]], y)
        assert model.loglik_ >= one.loglik_ - 1e-6
        if model.random_sd_["item"] == 0.0:
            found.append(seed)
            assert any("clusters of item do not differ" in note for note in model.warnings_)
            assert model.loglik_ == pytest.approx(one.loglik_, abs=1e-5)
            np.testing.assert_allclose(model.standard_errors(), one.standard_errors(), rtol=1e-4)
            assert model.random_effects_.loc["item"]["1"].abs().max() == 0.0
    assert found


# invariance


@pytest.mark.parametrize("case", ["normal", pytest.param("ordinal", marks=pytest.mark.slow)])
def test_order_of_rows_and_terms_and_units_change_nothing(case):
    model, turn = fit(case, 2.0), np.random.default_rng(1).permutation(N)
    make, y = CASES[case]
    rows = ROWS.assign(x=10.0 * ROWS.x - 3.0).iloc[turn]
    other = make(2.0).set_params(random=["item", "person"]).fit(rows, y[turn], anchors=[f"s{k}" for k in SITE[turn]])
    assert other.loss_ == pytest.approx(model.loss_, abs=1e-9)
    np.testing.assert_allclose(other.coef_ * [10.0, 1.0], model.coef_, atol=1e-6)
    np.testing.assert_allclose(other.random_sd_[RANDOM], model.random_sd_, atol=1e-6)
    same = make(2.0).set_params(random={"person": ["1"], "item": "1"}).fit(ROWS, y, anchors=[f"s{k}" for k in SITE])
    assert same.loss_ == pytest.approx(model.loss_, abs=1e-12)


def nested(seed=0, wards=12):
    """Return patients within wards: each ward is a group of connected rows."""
    rng = np.random.default_rng(seed)
    ward = np.repeat(np.arange(wards), 12)
    patient = np.repeat(np.arange(wards * 4), 3)
    x = rng.normal(size=ward.size)
    eta = 0.5 * x + 0.8 * rng.normal(size=wards)[ward] + 0.8 * rng.normal(size=wards * 4)[patient]
    return pd.DataFrame({"x": x, "ward": ward, "patient": patient, "site": ward % 4, "y": rng.poisson(np.exp(eta))})


def nested_fit(data, xi=1.0, **options):
    model = atm.AnchorGLM(xi, family="poisson", random=["patient", "ward"], tol=1e-10)
    with pytest.warns(AnchorWarning, match="lies in one level of the anchor"):
        return model.fit(data[["x", "ward", "patient"]], data.y, anchors=data.site.astype(str), **options)


def test_weights_replicate_connected_groups():
    data = nested()
    twice = data.ward.isin([2, 7])
    both = pd.concat([data, data[twice].assign(ward=lambda d: d.ward + 100, patient=lambda d: d.patient + 1000)])
    weighted, replicated = nested_fit(data, sample_weight=1.0 + twice), nested_fit(both)
    assert weighted.loglik_ == pytest.approx(replicated.loglik_, abs=1e-8)
    np.testing.assert_allclose(weighted.coef_, replicated.coef_, atol=1e-8)
    np.testing.assert_allclose(weighted.random_sd_, replicated.random_sd_, atol=1e-7)
    np.testing.assert_allclose(weighted.standard_errors(), replicated.standard_errors(), rtol=1e-6)
    model = atm.AnchorGLM(family="poisson", random=["patient", "ward"])
    with pytest.raises(InputError, match="weights differ between rows that patient and ward connect"):
        model.fit(data[["x", "ward", "patient"]], data.y, sample_weight=1.0 + data.patient % 2)


def test_the_influence_of_a_group_is_the_derivative_in_its_weight():
    data = nested()
    model, at = nested_fit(data), (data.ward == 3).to_numpy()
    up, down = (nested_fit(data, sample_weight=np.where(at, 1.0 + side, 1.0)) for side in (1e-4, -1e-4))
    slope = (parameters(up) - parameters(down)) / 2e-4
    np.testing.assert_allclose(influence(model)[at].sum(axis=0)[:2], slope[:2], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_connected_groups_are_the_units_of_the_bootstrap():
    data = nested()
    with pytest.warns(AnchorTMWarning, match="4 clusters"):
        found = nested_fit(data).bootstrap(n_bootstrap=5, random_state=0)
    assert found.resampled == "environments (site)"
    plain = atm.AnchorGLM(family="poisson", random=["patient", "ward"])
    plain.fit(data[["x", "ward", "patient"]], data.y)
    assert plain.bootstrap(n_bootstrap=5, random_state=0).resampled == "clusters (patient and ward)"
    model = fit("counts", 1.0)
    with pytest.raises(InputError, match="connect all rows"):
        model.standard_errors()
    assert "Coefficients" in str(model.summary())


def test_connected_groups():
    terms = make_two_terms([list("aabbcd"), [1, 2, 2, 3, 4, 4]], Intercepts.of(["u", "v"]))
    assert terms.codes.tolist() == [0, 0, 0, 0, 1, 1]
    assert terms.within(np.array([0, 0, 0, 0, 1, 1]))
    assert not terms.within(np.array([0, 0, 1, 1, 1, 1]))
    assert terms.nested_in(np.array([0, 0, 1, 1, 2, 3])) == [("u", True)]


# predictions


@pytest.mark.slow
def test_new_levels_average_over_both_variances():
    model = fit("ordinal", 1.0)
    sd = math.hypot(*model.random_sd_)
    grid = np.linspace(-9.0, 9.0, 2001)
    weights = np.exp(-0.5 * grid**2) / np.exp(-0.5 * grid**2).sum()
    eta = X[:5] @ model.coef_
    for k, cut in enumerate(model.baseline_):
        wanted = special.expit(cut - eta[:, None] - sd * grid) @ weights
        np.testing.assert_allclose(model.predict_distribution(ROWS[["x", "z"]][:5]).cdf(k), wanted, rtol=1e-9)
    normal = fit("normal", 1.0)
    wide = math.sqrt(1.0 + (normal.random_sd_**2).sum())
    h = (normal.baseline_[0] + normal.baseline_[1] * 0.4 - X[:5] @ normal.coef_) / wide
    np.testing.assert_allclose(normal.predict_distribution(ROWS[:5]).cdf(0.4), special.ndtr(h), rtol=1e-10)
    counts = fit("counts", 1.0)
    mean = np.exp(counts.intercept_ + X[:5] @ counts.coef_ + 0.5 * (counts.random_sd_**2).sum())
    np.testing.assert_allclose(counts.predict(ROWS[:5]), mean, rtol=1e-10)


def test_known_levels_have_their_effects():
    model = fit("normal", 1.0)
    table = model.random_effects_
    rows = ROWS[:3].assign(person=[PERSON[0], 999, PERSON[2]], item=[ROWS.item[0], ROWS.item[1], "new"])
    law = model.predict_distribution(rows, conditional=True)
    person, item = table.loc["person"], table.loc["item"]
    prior = model.random_sd_**2
    middle = np.array(
        [person["1"][PERSON[0]] + item["1"][ROWS.item[0]], item["1"][ROWS.item[1]], person["1"][PERSON[2]]]
    )
    variance = np.array(
        [
            person["sd of 1"][PERSON[0]] ** 2 + item["sd of 1"][ROWS.item[0]] ** 2,
            prior["person"] + item["sd of 1"][ROWS.item[1]] ** 2,
            person["sd of 1"][PERSON[2]] ** 2 + prior["item"],
        ]
    )
    h = model.baseline_[0] + model.baseline_[1] * 0.4 - X[:3] @ model.coef_ - middle
    np.testing.assert_allclose(law.cdf(0.4), special.ndtr(h / np.sqrt(1.0 + variance)), rtol=1e-8)
    with pytest.raises(InputError, match="X has no column item of clusters"):
        model.predict_distribution(ROWS[["x", "z", "person"]], conditional=True)


def test_likelihoods_of_new_rows_are_those_of_new_levels():
    model, rows = fit("normal", 1.0), np.arange(0, 30)
    h = model.baseline_[0] + model.baseline_[1] * Y[rows] - X[rows] @ model.coef_
    V = np.eye(30) + sum(tau * z[rows] @ z[rows].T for tau, z in zip(model.random_sd_**2, Z, strict=True))
    loglik = -0.5 * (h @ np.linalg.solve(V, h) + np.linalg.slogdet(V)[1] + 30 * math.log(2 * math.pi))
    found = model.nll(ROWS.iloc[rows], Y[rows])
    assert found.sum() == pytest.approx(-loglik - 30 * math.log(model.baseline_[1]), abs=1e-8)


# questions


@pytest.mark.slow
def test_paths_left_out_environments_and_files(tmp_path):
    make, y = CASES["counts"]
    sites = np.array([f"s{k}" for k in SITE])
    path = atm.anchor_path(make(0.0), ROWS, y, sites, [0.0, 2.0])
    np.testing.assert_allclose(path.coefs[1], fit("counts", 2.0).coef_, atol=1e-7)
    assert {"sd_person", "sd_item"} <= set(path.frame().columns)
    table = atm.leave_one_environment_out(make(0.0), ROWS, y, sites, [1.0]).frame()
    out = sites == "s1"
    alone = make(1.0).fit(ROWS[~out], y[~out], anchors=sites[~out])
    assert table[table.environment == "s1"].nll.iloc[0] == pytest.approx(alone.nll(ROWS[out], y[out]).mean(), abs=1e-6)
    model = fit("counts", 0.0)
    errors, file = model.standard_errors(), tmp_path / "model.json"
    atm.save(model, file)
    again = atm.load(file)
    np.testing.assert_array_equal(again.nll(ROWS, y), model.nll(ROWS, y))
    np.testing.assert_array_equal(again.standard_errors(), errors)
    assert str(again.summary()) == str(model.summary())
    pd.testing.assert_frame_equal(again.random_effects_, model.random_effects_)
    here, there = (m.predict_distribution(ROWS, conditional=True).mean() for m in (model, again))
    np.testing.assert_array_equal(here, there)


def test_files_that_do_not_match_are_refused(tmp_path):
    from anchortm.saving import digest

    file = tmp_path / "model.json"
    atm.save(fit("counts", 0.0), file)
    for change in (
        {"tau": [0.1, -1.0]},
        {"terms": ["person", "person"]},
        {"modes": [[0.0], [0.0]]},
        {"exact": "no"},
        {"labels": [[1.5], ["a"]]},
    ):
        record = json.loads(file.read_text())
        record["random"] |= change
        record["digest"] = digest(record)
        (tmp_path / "changed.json").write_text(json.dumps(record))
        with pytest.raises(ModelFileError):
            atm.load(tmp_path / "changed.json")


@pytest.mark.slow
def test_the_limit_is_where_large_xi_lead():
    rng = np.random.default_rng(2)
    anchor = rng.normal(size=N)
    rows = ROWS.assign(x=ROWS.x + anchor)
    y = CASES["counts"][1]
    limit, near, nearer = (CASES["counts"][0](xi).fit(rows, y, anchors=anchor[:, None]) for xi in (math.inf, 1e3, 1e4))
    assert limit.converged_
    assert limit.penalty_ < 1e-15
    np.testing.assert_allclose(limit.coef_, nearer.coef_ + (nearer.coef_ - near.coef_) / 9.0, atol=1e-5)


def test_score_tests_need_residuals_of_the_likelihood():
    sites = np.random.default_rng(0).permutation([f"s{k}" for k in SITE])
    test = atm.diagnostics.score_test(atm.NormalLinear(random=RANDOM), ROWS, Y, sites, method="observed")
    dummies = pd.get_dummies(pd.Series(sites), dtype=float).iloc[:, 1:]
    large, small = (atm.NormalLinear(random=RANDOM).fit(rows, Y) for rows in (ROWS.join(dummies), ROWS))
    assert test.statistic == pytest.approx(2.0 * (large.loglik_ - small.loglik_), rel=0.1)
    with pytest.raises(InputError, match="at the most likely effects"):
        atm.diagnostics.score_test(CASES["counts"][0](0.0), ROWS, CASES["counts"][1], sites)


def test_a_term_that_is_the_anchor_is_warned_of():
    with pytest.warns(AnchorWarning, match="clusters of item and the anchor .* are the same groups"):
        atm.NormalLinear(1.0, random=RANDOM).fit(ROWS, Y, anchors=ROWS.item)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.assign(item="one"), "a single cluster of item"),
        (ROWS.assign(item=np.arange(N)), "every cluster of item has one row"),
        (ROWS.assign(item=ROWS.person + 50), "the same groups of rows"),
    ],
)
def test_terms_that_cannot_be_separated_are_refused(rows, message):
    with pytest.raises(IdentificationError, match=message):
        atm.NormalLinear(random=RANDOM).fit(rows, Y)


def test_many_crossed_levels_are_fast():
    rng = np.random.default_rng(0)
    n = 8000
    a, b = rng.integers(0, 2000, n), rng.integers(0, 100, n)
    x = rng.normal(size=n)
    y = 0.5 * x + 0.7 * rng.normal(size=2000)[a] + 0.5 * rng.normal(size=100)[b] + rng.normal(size=n)
    start = time.perf_counter()
    model = atm.NormalLinear(random=["a", "b"]).fit(pd.DataFrame({"x": x, "a": a, "b": b}), y)
    assert time.perf_counter() - start < 20.0
    assert model.converged_
    np.testing.assert_allclose(model.random_sd_ * model.sigma_, [0.7, 0.5], atol=0.1)
    assert model.slope_[0] == pytest.approx(0.5, abs=0.05)
