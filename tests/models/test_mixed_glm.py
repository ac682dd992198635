"""AnchorGLM with random effects: against integrals on a grid, glmer, refits to replicated rows, and closed forms."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from scipy import optimize, special, stats

import anchortm as atm
from anchortm.exceptions import AnchorWarning, IdentificationError, InputError
from anchortm.inference.covariance import influence

FOLDER = REFERENCE / "r2"
GLMM = json.loads((FOLDER / "glmm.json").read_text())
MIXED = json.loads((FOLDER / "mixed.json").read_text())
GRID = np.linspace(-9.0, 9.0, 401)  # trapezoidal rule for u, with an error far below rounding
COARSE = np.linspace(-7.0, 7.0, 105)  # the same for two effects


def simulated(seed=0, clusters=18, rows=4, sites=4):
    """Return counts of persons who are seen at several sites."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(clusters), rows)
    site = rng.integers(0, sites, g.size)
    x, z = rng.normal(size=g.size) + 0.4 * site, rng.normal(size=g.size)
    eta = 0.2 + 0.5 * x - 0.3 * z + 0.7 * rng.normal(size=clusters)[g] + 0.3 * (site - 1.5)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "person": [f"p{k}" for k in g],
            "site": [f"s{k}" for k in site],
            "y": rng.poisson(np.exp(eta)),
            "m": rng.integers(1, 5, g.size),
            "p": special.expit(eta),
            "u": rng.uniform(size=g.size),
        }
    ).assign(k=lambda d: stats.binom.ppf(d.u, d.m, d.p), b=lambda d: d.u < d.p)


DATA = simulated()
X = DATA[["x", "z", "person"]]
CASES = {
    "poisson": ({"family": "poisson"}, "person"),
    "negative binomial": ({"family": "negative_binomial", "alpha": 0.4}, "person"),
    "logit of trials": ({"family": "binomial"}, "person"),
    "probit": ({"family": "binomial", "link": "probit"}, "person"),
    "cloglog": ({"family": "binomial", "link": "cloglog"}, "person"),
    "poisson with a slope": ({"family": "poisson"}, {"person": ["1", "x"]}),
    "poisson with a slope alone": ({"family": "poisson"}, {"person": ["z"]}),
}


def outcome(case):
    if case.startswith(("poisson", "negative")):
        return DATA.y
    return atm.Trials(DATA.k, DATA.m) if case == "logit of trials" else DATA.b


def fitted(case, xi, **options):
    own, random = CASES[case]
    return atm.AnchorGLM(xi, random=random, **own, **options).fit(X, outcome(case), anchors=DATA.site)


# a slow loss of its own: scipy's laws, every cluster on a grid of u, a dense projection


def log_law(case, eta):
    """Return log P(Y = y) of each row (rows first) at linear predictors eta."""
    own, _ = CASES[case]
    if own["family"] == "poisson":
        y = DATA.y.to_numpy()[:, None]
        return y * eta - np.exp(eta) - special.gammaln(y + 1.0)
    if own["family"] == "negative_binomial":
        size, mu = 1.0 / own["alpha"], np.exp(eta)
        return stats.nbinom.logpmf(DATA.y.to_numpy()[:, None], size, size / (size + mu))
    log_p, log_q = {
        "logit": lambda e: (special.log_expit(e), special.log_expit(-e)),
        "probit": lambda e: (special.log_ndtr(e), special.log_ndtr(-e)),
        "cloglog": lambda e: (np.log(-np.expm1(-np.exp(e))), -np.exp(e)),
    }[own.get("link", "logit")](eta)
    if case == "logit of trials":
        k, m = DATA.k.to_numpy()[:, None], DATA.m.to_numpy()[:, None]
        return np.log(special.comb(m, k)) + k * log_p + (m - k) * log_q
    return np.where(DATA.b.to_numpy()[:, None], log_p, log_q)


def clusters_of(case, par, h=1e-4):
    """Return the log-likelihood of each cluster, and the marginal residual dl/deta of each row by differences.

    ``par`` are intercept, two coefficients and the covariance of the effects as its Cholesky factor.
    """
    random = CASES[case][1]
    names = ["1"] if random == "person" else random["person"]
    L = np.zeros((len(names), len(names)))
    L[np.tril_indices(len(names))] = par[3:]
    Z = np.column_stack([np.ones(len(DATA)) if name == "1" else DATA[name] for name in names])
    points = np.stack(np.meshgrid(*[GRID if len(names) == 1 else COARSE] * len(names)), axis=-1).reshape(-1, len(names))
    log_phi = stats.norm.logpdf(points).sum(axis=1)
    log_phi -= special.logsumexp(log_phi)
    eta = (par[0] + DATA.x * par[1] + DATA.z * par[2]).to_numpy()[:, None] + Z @ L @ points.T
    codes, _ = pd.factorize(DATA.person)
    of = np.eye(codes.max() + 1)[codes].T
    rows = log_law(case, eta)
    joint = of @ rows + log_phi
    loglik = special.logsumexp(joint, axis=1)
    weights = np.exp(joint - loglik[:, None])[codes]
    # the marginal residual is the conditional one averaged given the data (Fisher)
    four = log_law(case, eta - 2 * h) - 8 * log_law(case, eta - h) + 8 * log_law(case, eta + h)
    slope = (four - log_law(case, eta + 2 * h)) / (12.0 * h)
    return loglik, (weights * slope).sum(axis=1)


def slow_loss(case, par, xi):
    loglik, r = clusters_of(case, par)
    A = np.column_stack([np.ones(len(DATA)), pd.get_dummies(DATA.site, dtype=float)])
    P = A @ np.linalg.pinv(A)
    return (-loglik.sum() + xi * r @ P @ r) / len(DATA)


def slow_parameters(model):
    L = np.linalg.cholesky(model.random_cov_.to_numpy())
    return np.concatenate([[model.intercept_], model.coef_, L[np.tril_indices(len(L))]])


def gradient(f, par, step=1e-4):
    units = step * np.eye(par.size)
    return np.array([(8 * (f(par + e) - f(par - e)) - f(par + 2 * e) + f(par - 2 * e)) / (12 * step) for e in units])


@pytest.mark.parametrize("xi", [0.0, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_fits_minimise_the_stated_loss(case, xi):
    model = fitted(case, xi)
    par = slow_parameters(model)
    assert model.converged_
    assert model.random_sd_.min() > 0.05
    assert model.loss_ == pytest.approx(slow_loss(case, par, xi), rel=1e-8)
    assert model.loglik_ == pytest.approx(clusters_of(case, par)[0].sum(), rel=1e-9)
    np.testing.assert_allclose(gradient(lambda p: slow_loss(case, p, xi), par), 0.0, atol=2e-7)
    np.testing.assert_allclose(model.residuals(X, outcome(case)), clusters_of(case, par)[1], atol=1e-8)
    assert model.nll(X, outcome(case)).sum() == pytest.approx(-model.loglik_, abs=1e-8)


@pytest.mark.parametrize("xi", [0.0, 3.0])
def test_rows_in_another_order_and_units_change_nothing(xi):
    model = fitted("poisson with a slope", xi)
    turn = np.random.default_rng(1).permutation(len(DATA))
    other = X.assign(x=100.0 * X.x + 5.0).iloc[turn]
    moved = atm.AnchorGLM(xi, family="poisson", random={"person": ["1", "x"]})
    moved.fit(other, DATA.y.iloc[turn], anchors=DATA.site.iloc[turn])
    assert moved.loglik_ == pytest.approx(model.loglik_, abs=1e-7)
    np.testing.assert_allclose(moved.coef_ * [100.0, 1.0], model.coef_, rtol=1e-6)
    assert moved.random_sd_["x"] * 100.0 == pytest.approx(model.random_sd_["x"], rel=1e-5)


def test_weights_replicate_clusters():
    twice = np.isin(DATA.person, ["p0", "p5", "p7"])
    copies = DATA[twice].assign(person=lambda d: d.person + "'")
    both = pd.concat([DATA, copies])
    columns = ["x", "z", "person"]
    weighted = atm.AnchorGLM(2.0, family="poisson", random="person")
    weighted.fit(X, DATA.y, anchors=DATA.site, sample_weight=1.0 + twice)
    replicated = atm.AnchorGLM(2.0, family="poisson", random="person")
    replicated.fit(both[columns], both.y, anchors=both.site)
    assert weighted.loglik_ == pytest.approx(replicated.loglik_, abs=1e-8)
    np.testing.assert_allclose(weighted.coef_, replicated.coef_, atol=1e-8)
    np.testing.assert_allclose(weighted.standard_errors(), replicated.standard_errors(), rtol=1e-7)


def test_an_offset_and_intercept_are_one():
    model = fitted("poisson", 1.0)
    other = atm.AnchorGLM(1.0, family="poisson", random="person")
    other.fit(X, DATA.y, anchors=DATA.site, offset=np.full(len(DATA), 0.7))
    assert other.intercept_ + 0.7 == pytest.approx(model.intercept_, abs=1e-8)


# standard errors


def test_the_sandwich_is_that_of_scores_of_clusters():
    """At xi = 0 from scores and a Hessian by differences of the slow likelihood."""
    model = fitted("poisson", 0.0)
    par = slow_parameters(model)
    scores = gradient(lambda p: clusters_of("poisson", p)[0], par).T
    H = -gradient(lambda p: gradient(lambda q: clusters_of("poisson", q)[0].sum(), p, 1e-3), par, 1e-3)
    G = len(scores)
    wanted = np.linalg.inv(H) @ scores.T @ scores @ np.linalg.inv(H) * G / (G - 1)
    np.testing.assert_allclose(model.standard_errors(kind="sandwich"), np.sqrt(np.diag(wanted))[1:3], rtol=1e-5)
    np.testing.assert_allclose(model.standard_errors(), np.sqrt(np.diag(np.linalg.inv(H)))[1:3], rtol=1e-5)


def test_the_influence_of_a_cluster_is_the_derivative_in_its_weight():
    model = fitted("logit of trials", 3.0)
    at = DATA.person == "p4"

    def refit(weight):
        fresh = atm.AnchorGLM(3.0, family="binomial", random="person", tol=1e-11)
        return fresh.fit(
            X, outcome("logit of trials"), anchors=DATA.site, sample_weight=np.where(at, weight, 1.0)
        ).coef_

    slope = (refit(1.0 + 1e-4) - refit(1.0 - 1e-4)) / 2e-4
    rows = influence(model)[at.to_numpy()].sum(axis=0)
    np.testing.assert_allclose(rows[1:3], slope, rtol=1e-4, atol=1e-6)


# other software


def tick_model(formula="TICKS ~ cHEIGHT + C(YEAR) + (1 | BROOD)"):
    return atm.AnchorGLM.from_formula(formula, atm.datasets.load_grouseticks(), family="poisson")


def test_counts_as_glmer_with_fifty_nodes():
    model, wanted = tick_model(), GLMM["ticks"]
    np.testing.assert_allclose([model.intercept_, *model.coef_], wanted["fix"], atol=2e-5)
    assert model.random_cov_.iloc[0, 0] == pytest.approx(wanted["vc"], rel=1e-4)
    np.testing.assert_allclose(
        model.standard_errors(), wanted["se"][1:], rtol=2e-3
    )  # glmer's Hessian is by differences
    # glmer gives modes; ours are means of the same distributions
    modes = pd.Series(wanted["re"]["BROOD"])
    known = model.random_effects_.set_axis(model.random_effects_.index.astype(str))
    assert (modes - known["1"].loc[modes.index]).abs().max() < 0.2


def test_trials_as_glmer_with_fifty_nodes():
    cbpp = pd.read_csv(FOLDER / "cbpp.csv")
    rows = cbpp.groupby(["herd", "period"], as_index=False).yy.agg(["sum", "count"])
    wanted = GLMM["cbpp_trials"]
    model = atm.AnchorGLM.from_formula("Trials(sum, count) ~ period + (1 | herd)", rows, family="binomial")
    np.testing.assert_allclose([model.intercept_, *model.coef_], wanted["fix"], atol=2e-6)
    assert model.random_cov_.iloc[0, 0] == pytest.approx(wanted["vc"], rel=1e-5)
    np.testing.assert_allclose(model.standard_errors(), wanted["se"][1:], rtol=1e-3)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_binary_outcomes_as_glmer_with_fifty_nodes(link):
    data, wanted = pd.read_csv(FOLDER / "bact.csv"), MIXED[f"bact_{link}"]
    data = data.assign(trt=data.trt.replace({"placebo": "0"}))
    model = atm.AnchorGLM.from_formula("yy ~ trt + w2 + (1 | ID)", data, family="binomial", link=link)
    assert model.loglik_ == pytest.approx(wanted["ll"], abs=1e-6)
    np.testing.assert_allclose([model.intercept_, *model.coef_], wanted["fix"], atol=2e-4)
    assert model.random_cov_.iloc[0, 0] == pytest.approx(wanted["vc"], rel=1e-3)


def test_a_binary_model_is_an_ordinal_one_with_two_classes():
    glm = atm.AnchorGLM(2.0, family="binomial", random="person").fit(X, DATA.b, anchors=DATA.site)
    ordinal = atm.OrdinalRegression(2.0, random="person").fit(X, DATA.b.astype(int), anchors=DATA.site)
    np.testing.assert_allclose(glm.coef_, ordinal.coef_, atol=1e-7)
    assert glm.loss_ == pytest.approx(ordinal.loss_, abs=1e-10)
    np.testing.assert_allclose(glm.predict(X), ordinal.predict_proba(X)[:, 1], atol=1e-7)
    both = [m.predict_distribution(X, conditional=True).cdf(0) for m in (glm, ordinal)]
    np.testing.assert_allclose(*both, atol=1e-7)


# predictions


def test_averages_over_new_clusters():
    model = fitted("poisson", 1.0)
    sd, eta = model.random_sd_.iloc[0], model.intercept_ + X[["x", "z"]].to_numpy() @ model.coef_
    new = model.predict_distribution(X[["x", "z"]])  # without the column of clusters
    np.testing.assert_allclose(model.predict(X), np.exp(eta + sd**2 / 2), rtol=1e-10)
    weights = stats.norm.pdf(GRID) / stats.norm.pdf(GRID).sum()
    mu = np.exp(eta[:, None] + sd * GRID)
    for y in (0, 2, 9):
        np.testing.assert_allclose(new.cdf(y), stats.poisson.cdf(y, mu) @ weights, rtol=1e-9)
        np.testing.assert_allclose(new.sf(y), stats.poisson.sf(y, mu) @ weights, rtol=1e-9)
        np.testing.assert_allclose(new.pmf(y), stats.poisson.pmf(y, mu) @ weights, rtol=1e-9)
        np.testing.assert_allclose(np.exp(new.logcdf(y)), new.cdf(y), rtol=1e-12)
        np.testing.assert_allclose(np.exp(new.logsf(y)), new.sf(y), rtol=1e-12)
    variance = np.exp(eta + sd**2 / 2) + np.exp(2 * eta + sd**2) * np.expm1(sd**2)
    np.testing.assert_allclose(new.variance(), variance, rtol=1e-9)
    q = np.array([0.05, 0.5, 0.99])
    found = new.ppf(q)
    assert (new.cdf(found) >= q).all()
    assert (np.where(found > 0.0, new.cdf(np.maximum(found - 1.0, 0.0)), -1.0) < q).all()
    np.testing.assert_array_equal(new.isf(1.0 - q), found)
    np.testing.assert_array_equal(new.ppf([0.0, 1.0]), np.tile([0.0, np.inf], (len(X), 1)))
    y = DATA.y.to_numpy(float)
    at = np.arange(2000.0)
    slow = ((new[:5].cdf(at) - (y[:5, None] <= at)) ** 2).sum(axis=1)
    np.testing.assert_allclose(atm.scores.crps(new[:5], y[:5]), slow, atol=1e-7)
    assert len(new[2]) == 1


def test_trials_of_new_clusters():
    model = fitted("logit of trials", 0.0)
    sd, eta = model.random_sd_.iloc[0], model.intercept_ + X[["x", "z"]].to_numpy()[:3] @ model.coef_
    weights = stats.norm.pdf(GRID) / stats.norm.pdf(GRID).sum()
    p = special.expit(eta[:, None] + sd * GRID)
    law = model.predict_distribution(X[:3], trials=[2, 5, 1])
    m = np.array([[2], [5], [1]])
    np.testing.assert_allclose(law.pmf(1), stats.binom.pmf(1, m, p) @ weights, rtol=1e-9)
    np.testing.assert_allclose(law.mean(), m[:, 0] * (p @ weights), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X[:3])[:, 1], p @ weights, rtol=1e-9)


def test_known_clusters_have_their_own_averages():
    model = fitted("poisson", 1.0)
    rows = X.assign(person=np.where(np.arange(len(X)) == 0, "nobody", X.person))
    eta = model.intercept_ + X[["x", "z"]].to_numpy() @ model.coef_
    sd = model.random_sd_.iloc[0]
    joint = stats.poisson.logpmf(DATA.y.to_numpy()[:, None], np.exp(eta[:, None] + sd * GRID))
    of = (DATA.person.to_numpy()[:, None] == DATA.person.to_numpy()).astype(float)
    weights = np.exp(of @ joint - 0.5 * GRID**2 - special.logsumexp(of @ joint - 0.5 * GRID**2, axis=1)[:, None])
    wanted = (weights * np.exp(eta[:, None] + sd * GRID)).sum(axis=1)
    found = model.predict_distribution(rows, conditional=True).mean()
    np.testing.assert_allclose(found[1:], wanted[1:], rtol=1e-7)
    assert found[0] == pytest.approx(model.predict(X)[0], rel=1e-10)


def test_intervals_of_averaged_means_are_those_of_the_delta_method():
    model = fitted("poisson with a slope", 0.0)
    V, rows = model.covariance(), X[:4]

    def log_mean(parameters):
        theta, beta, tau = parameters[0], parameters[1:3], parameters[3:]
        effects = model.result_.random.effects
        L = effects.root(tau)
        Z = effects.columns(["x", "z"], rows[["x", "z"]].to_numpy())
        return theta + rows[["x", "z"]].to_numpy() @ beta + 0.5 * ((Z @ L) ** 2).sum(axis=1)

    J = gradient(log_mean, model.result_.parameters, 1e-5).T
    errors = np.sqrt(np.einsum("ij,jk,ik->i", J, V, J))
    table = model.mean_intervals(rows)
    np.testing.assert_allclose(table["mean"], model.predict(rows), rtol=1e-10)
    np.testing.assert_allclose(table["std. error"], errors * table["mean"], rtol=1e-6)
    np.testing.assert_allclose(
        table["upper"], np.exp(np.log(table["mean"]) + stats.norm.ppf(0.975) * errors), rtol=1e-6
    )


def test_residuals_of_other_kinds():
    model = fitted("poisson", 1.0)
    law = model.predict_distribution(X)
    away = DATA.y - law.mean()
    np.testing.assert_allclose(model.residuals(X, DATA.y, kind="response"), away, atol=1e-12)
    np.testing.assert_allclose(model.residuals(X, DATA.y, kind="pearson"), away / np.sqrt(law.variance()), atol=1e-12)
    with pytest.raises(InputError, match="no saturated model"):
        model.residuals(X, DATA.y, kind="deviance")


# questions


def test_paths_left_out_environments_and_files(tmp_path):
    estimator = atm.AnchorGLM(family="poisson", random="person")
    path = atm.anchor_path(estimator, X, DATA.y, DATA.site, [0.0, 2.0])
    np.testing.assert_allclose(path.coefs[1], fitted("poisson", 2.0).coef_, atol=1e-7)
    left = DATA[["x", "z"]].assign(person=DATA.person + DATA.site)  # environments that hold clusters whole
    table = atm.leave_one_environment_out(estimator, left, DATA.y, DATA.site, [1.0]).frame()
    out = (DATA.site == "s1").to_numpy()
    alone = atm.AnchorGLM(1.0, family="poisson", random="person")
    with pytest.warns(AnchorWarning, match="lies in one level"):
        alone.fit(left[~out], DATA.y[~out], anchors=DATA.site[~out])
    row = table[table.environment == "s1"].iloc[0]
    assert row.nll == pytest.approx(alone.nll(left[out], DATA.y[out]).mean(), abs=1e-6)
    model = fitted("logit of trials", 2.0)
    errors = model.standard_errors()
    atm.save(model, tmp_path / "model.json")
    again = atm.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.nll(X, outcome("logit of trials")), model.nll(X, outcome("logit of trials")))
    np.testing.assert_array_equal(again.standard_errors(), errors)
    assert str(again.summary()) == str(model.summary())
    here, there = (m.predict_distribution(X, conditional=True).mean() for m in (model, again))
    np.testing.assert_array_equal(here, there)


def test_the_bootstrap_resamples_clusters():
    model = fitted("poisson", 1.0)
    found = model.bootstrap(n_bootstrap=8, random_state=2)
    assert found.resampled == "clusters (person)"
    assert np.isfinite(found.draws).all()


def test_score_tests_compare_with_a_likelihood_ratio():
    """With the anchors as covariates: for a small effect the score statistic is near twice the gain in likelihood."""
    estimator = atm.AnchorGLM(family="poisson", random="person")
    data = simulated(seed=3, clusters=80, sites=3)
    rows, site = data[["x", "z", "person"]], np.random.default_rng(0).permutation(data.site)
    test = atm.diagnostics.score_test(estimator, rows, data.y, site, method="observed")
    dummies = pd.get_dummies(pd.Series(site), dtype=float).iloc[:, 1:]
    large, small = (atm.AnchorGLM(family="poisson", random="person").fit(x, data.y) for x in (rows.join(dummies), rows))
    assert test.df == 2
    assert test.statistic == pytest.approx(2.0 * (large.loglik_ - small.loglik_), rel=0.05)
    drawn = atm.diagnostics.score_test(estimator, rows, data.y, site, method="simulate", n_draws=19)
    assert drawn.pvalue > 0.0


def test_the_summary_names_effects_and_information():
    text = str(fitted("poisson", 0.0).summary())
    assert "log(mean) = intercept + x'beta + z'b, b normal" in text
    assert "18 of person, 4 rows each" in text
    assert "inverse Hessian; clusters independent" in text
    assert "at the most likely effects" in text
    assert fitted("poisson", 0.0).n_parameters_ == 4


def test_no_variance_is_the_fit_without_effects():
    rng = np.random.default_rng(5)
    y = rng.poisson(2.0, len(X))
    model = atm.AnchorGLM(family="poisson", random="person").fit(X, y)
    plain = atm.AnchorGLM(family="poisson").fit(X[["x", "z"]], y)
    if model.random_sd_.iloc[0] == 0.0:
        assert any("do not differ" in note for note in model.warnings_)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
        np.testing.assert_allclose(model.predict(X), plain.predict(X[["x", "z"]]), rtol=1e-6)
    assert model.loglik_ >= plain.loglik_ - 1e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "gaussian"}, "has a dispersion"),
        ({"family": "gamma"}, "has a dispersion"),
        ({"family": "negative_binomial", "alpha": "ml"}, "give alpha a number"),
        ({"family": "poisson", "dispersion": "pearson"}, "leave dispersion out"),
        ({"family": "poisson", "residual": "deviance"}, "residual='score'"),
        ({"family": "poisson", "link": "identity"}, "use link='log'"),
        ({"family": "binomial", "link": "log"}, "use link='logit'"),
    ],
)
def test_what_has_no_likelihood_given_effects_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        atm.AnchorGLM(random="person", **options).fit(X, DATA.b.astype(int) + 1, anchors=DATA.site)


@pytest.mark.slow
def test_a_slow_optimum_is_not_better():
    case, xi = "negative binomial", 3.0
    model = fitted(case, xi)
    start = slow_parameters(model) + 0.05
    found = optimize.minimize(lambda p: slow_loss(case, p, xi), start, method="BFGS", options={"gtol": 1e-6})
    assert model.loss_ <= found.fun + 1e-9
    assert math.isclose(model.loss_, found.fun, abs_tol=1e-6)


@pytest.mark.parametrize("trials", [False, True])
def test_effects_of_single_rows(trials):
    """Counts and shares of several trials show a variance beyond that of their family, row by row."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=60)
    eta = 0.5 + 0.4 * x + 0.8 * rng.normal(size=60)
    m = np.full(60, 12.0)
    y = rng.binomial(12, special.expit(eta)) if trials else rng.poisson(np.exp(eta))
    rows = pd.DataFrame({"x": x, "row": np.arange(60)})
    model = atm.AnchorGLM(family="binomial" if trials else "poisson", random="row", tol=1e-10)
    model.fit(rows, atm.Trials(y, m) if trials else y)
    u = np.linspace(-10.0, 10.0, 2001)
    weights = stats.norm.pdf(u) * (u[1] - u[0])

    def loglik(v):
        at = (v[0] + v[1] * x)[:, None] + v[2] * u
        law = stats.binom(12, special.expit(at)) if trials else stats.poisson(np.exp(at))
        return float(np.log(law.pmf(y[:, None]) @ weights).sum())

    v = np.array([model.baseline_[0], model.coef_[0], model.random_sd_.iloc[0]])
    assert v[2] > 0.3
    assert model.loglik_ == pytest.approx(loglik(v), abs=1e-8)
    np.testing.assert_allclose(optimize.approx_fprime(v, loglik, 1e-6), 0.0, atol=1e-3)


def test_effects_of_single_rows_need_a_known_variance():
    with pytest.raises(IdentificationError, match="every cluster of row has one row"):
        atm.AnchorGLM(family="binomial", random="row").fit(X[["x"]].assign(row=range(len(X))), DATA.b)
    both = atm.AnchorGLM(family="poisson", random=["person", "row"])
    assert both.fit(X[["x", "person"]].assign(row=range(len(X))), DATA.y).converged_
