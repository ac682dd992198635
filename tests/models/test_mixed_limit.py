"""The limit xi = inf with random effects: least likelihood loss under marginal residuals without a trace of anchors."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import anchortm as atm
from anchortm.exceptions import OverIdentifiedError

RNG = np.random.default_rng(3)
G, M = 60, 5
PERSON = np.repeat(np.arange(G), M)
A = RNG.normal(size=G * M)
HIDDEN = RNG.normal(size=G * M)
X = A + HIDDEN + RNG.normal(size=G * M)
B = 0.8 * RNG.normal(size=G)[PERSON]
Y = 0.5 * X + HIDDEN + B + RNG.normal(size=G * M)
COUNT = RNG.poisson(np.exp(0.3 * X - 0.3 * HIDDEN + B))
ROWS = pd.DataFrame({"x": X, "person": PERSON})
ANCHOR = pd.DataFrame({"a": A})
SPAN = np.column_stack([np.ones(G * M), A])
OF = (PERSON[:, None] == np.arange(G)).astype(float)
MODELS = {
    "normal": (lambda xi: atm.NormalLinear(xi, random="person"), Y),
    "continuous": (lambda xi: atm.ContinuousLogit(xi, random="person", order=4), Y),
    "ordinal": (lambda xi: atm.OrdinalRegression(xi, random="person"), np.digitize(Y, [-1.0, 0.0, 1.0])),
    "counts": (lambda xi: atm.AnchorGLM(xi, family="poisson", random="person"), COUNT),
    "slope": (lambda xi: atm.NormalLinear(xi, random={"person": ["1", "x"]}), Y),
}


def fit(name, xi):
    make, y = MODELS[name]
    return make(xi).fit(ROWS, y, anchors=ANCHOR)


@pytest.mark.parametrize("name", MODELS)
def test_the_limit_is_where_large_xi_lead(name):
    limit, near, nearer = fit(name, math.inf), fit(name, 1e4), fit(name, 1e5)
    assert limit.converged_
    assert limit.kkt_ < 1e-8
    assert limit.penalty_ < 1e-15
    # what is left is a multiple of 1 / xi
    away, closer = ((m.coef_ - limit.coef_, m.loglik_ - limit.loglik_) for m in (near, nearer))
    np.testing.assert_allclose(closer[0], away[0] / 10.0, rtol=0.02)
    assert closer[1] == pytest.approx(away[1] / 10.0, rel=0.02)
    extrapolated = nearer.coef_ + (nearer.coef_ - near.coef_) / 9.0
    np.testing.assert_allclose(limit.coef_, extrapolated, atol=1e-5)
    r = limit.residuals(ROWS, MODELS[name][1])
    np.testing.assert_allclose(SPAN.T @ r / len(r), 0.0, atol=1e-8)


def test_the_normal_limit_is_that_of_the_closed_form():
    """z = a + b y - x beta has variance I + tau^2 Z Z'; its marginal residual is the inverse of that times z."""

    def parts(p):
        a, b, beta, tau = p
        V = np.eye(G * M) + tau**2 * OF @ OF.T
        z = a + b * Y - beta * X
        r = np.linalg.solve(V, z)
        loglik = -0.5 * (z @ r + np.linalg.slogdet(V)[1] + z.size * math.log(2 * math.pi)) + z.size * math.log(b)
        return -loglik / z.size, SPAN.T @ r / z.size

    found = optimize.minimize(
        lambda p: parts(p)[0],
        [0.0, 1.0, 0.3, 0.5],
        constraints={"type": "eq", "fun": lambda p: parts(p)[1]},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 200},
    )
    model = fit("normal", math.inf)
    got = [*model.baseline_, *model.coef_, model.random_sd_.iloc[0]]
    np.testing.assert_allclose(got, found.x, atol=2e-5)
    assert model.loss_ == pytest.approx(found.fun, abs=1e-9)


def test_the_limit_of_counts_satisfies_slow_optimality_conditions():
    """Gradient of the slow likelihood plus a multiple of the gradients of the constraints is 0."""
    grid = np.linspace(-8.0, 8.0, 321)
    log_phi = stats.norm.logpdf(grid) - special.logsumexp(stats.norm.logpdf(grid))

    def parts(p):
        eta = (p[0] + p[1] * X)[:, None] + p[2] * grid
        joint = OF.T @ (COUNT[:, None] * eta - np.exp(eta) - special.gammaln(COUNT + 1.0)[:, None]) + log_phi
        loglik = special.logsumexp(joint, axis=1)
        weights = np.exp(joint - loglik[:, None])[PERSON]
        r = (weights * (COUNT[:, None] - np.exp(eta))).sum(axis=1)
        return np.concatenate([[-loglik.sum()], SPAN.T @ r]) / COUNT.size

    model = fit("counts", math.inf)
    p = np.array([model.intercept_, *model.coef_, model.random_sd_.iloc[0]])
    J = np.array([(parts(p + e) - parts(p - e)) / 2e-5 for e in 1e-5 * np.eye(3)]).T
    np.testing.assert_allclose(parts(p)[1:], 0.0, atol=1e-9)
    assert parts(p)[0] == pytest.approx(model.loss_, abs=1e-10)
    multiplier = np.linalg.lstsq(J[1:].T, -J[0], rcond=None)[0]
    np.testing.assert_allclose(J[0] + multiplier @ J[1:], 0.0, atol=1e-7)


def test_standard_errors_of_the_limit_are_those_of_large_xi():
    np.testing.assert_allclose(
        fit("counts", math.inf).standard_errors(), fit("counts", 1e6).standard_errors(), rtol=1e-3
    )


def test_paths_end_in_the_limit_and_files_keep_it(tmp_path):
    path = atm.anchor_path(atm.NormalLinear(random="person"), ROWS, Y, ANCHOR, [0.0, 10.0, math.inf])
    limit = fit("normal", math.inf)
    np.testing.assert_allclose(path.coefs[-1], limit.coef_, atol=1e-7)
    atm.save(limit, tmp_path / "limit.json")
    np.testing.assert_array_equal(atm.load(tmp_path / "limit.json").nll(ROWS, Y), limit.nll(ROWS, Y))


def test_too_many_anchors_have_no_limit():
    with pytest.raises(OverIdentifiedError, match="over-identified"):
        atm.NormalLinear(math.inf, random="person").fit(ROWS, Y, anchors=[f"s{k}" for k in np.arange(G * M) % 12])
