"""The closed form of normal random effects: against quadrature row by row, and against dense matrices."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import anchortm as atm
from anchortm.bases import BernsteinBasis, LinearBasis
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.normal_mixed import NormalMixedObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.engine.rows.cluster_sums import closed_rows
from anchortm.engine.rows.likelihood import build_terms
from anchortm.engine.rows.quadrature import MovedRows, quadrature_rows
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.clusters import make_clusters
from anchortm.inputs.response import as_response
from anchortm.links import get_link

N = 90
RNG = np.random.default_rng(5)
GROUP = np.append(RNG.integers(0, 12, N - 2), [12, 13])  # the last two clusters have one row
SITE = RNG.integers(0, 4, N)
X = RNG.normal(size=(N, 2)) + [2.0, 0.3] * SITE[:, None]
Y = X @ [0.7, -0.5] + RNG.normal(size=14)[GROUP] + 0.4 * RNG.normal(size=14)[GROUP] * X[:, 0] + RNG.normal(size=N)
EFFECTS = {"intercept": ["1"], "slope": ["a"], "both": ["1", "a"]}
ANCHORS = {
    "factor": SITE,
    "columns": RNG.normal(size=(N, 2)),
    "both": pd.DataFrame({"site": SITE.astype(str), "x": RNG.normal(size=N), "other": RNG.integers(0, 3, N)}),
    "none": None,
}


def pair(
    effects: str, anchors: str = "factor", whole: bool = True, basis=None, far: float = 1.0
) -> tuple[Objective, Objective]:
    """Return the loss in closed form and by quadrature; without ``whole``, of clusters with gaps in their codes."""
    given = None if ANCHORS[anchors] is None else anchor_columns(ANCHORS[anchors])
    clusters = make_clusters(GROUP.tolist(), "g", EFFECTS[effects], ["a", "b"], X)
    some = np.ones(N, dtype=bool) if whole else GROUP % 5 > 0
    given = None if given is None else given.subset(some)
    order = np.arange(some.sum()) if given is None or given.order() is None else given.order()
    fixed = build_objective(
        get_link("probit"),
        LinearBasis() if basis is None else basis,
        as_response((Y + far * RNG.normal(size=14)[GROUP])[some]),
        X[some],
        given,
        (1.0 + GROUP % 3)[some],
        np.sin(np.arange(N))[some],
        names=("a", "b"),
    )
    clusters = clusters.take(some).take(order)
    clusters = clusters._replace(Z=-clusters.Z)
    return NormalMixedObjective(fixed, clusters), MixedObjective(fixed, clusters)


def inside(objective: Objective) -> np.ndarray:
    """Return a point off all bounds."""
    lower = objective.coordinates.lower
    return np.where(np.isfinite(lower), lower + 0.4, 0.3)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("anchors", ANCHORS)
@pytest.mark.parametrize("effects", EFFECTS)
def test_the_closed_form_is_the_quadrature(effects: str, anchors: str, whole: bool) -> None:
    closed, slow = pair(effects, anchors, whole)
    v, rng = inside(closed), np.random.default_rng(0)
    here, there = closed.sums(v), slow.sums(v)
    assert here.loglik == pytest.approx(there.loglik, rel=1e-13)
    np.testing.assert_allclose(here.t, there.t, atol=1e-12)
    mu = None if closed.anchors is None else rng.normal(size=closed.anchors.rank)
    for mine, other in zip(closed.derivatives(v, mu), slow.derivatives(v, mu), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)
    questions = ["residuals", "residual_slopes", "likeliest_shift"]
    for name in [*questions, *([] if closed.anchors is None else ["anchor_information"])]:
        np.testing.assert_allclose(getattr(closed, name)(v), getattr(slow, name)(v), atol=1e-12)
    for mine, other in zip(closed.posterior(v), slow.posterior(v), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12)
    d, size = v.size, closed.n_sums if closed.anchors is None else closed.anchors.rank
    work = closed.influence(v, rng.normal(size=size), rng.normal(size=(d, d)), rng.normal(size=(size, d)))
    np.testing.assert_allclose(next(closed.shares(work))[1], next(slow.shares(work))[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("effects", EFFECTS)
def test_curved_baselines_have_the_same_closed_form(effects: str) -> None:
    closed, slow = pair(effects, basis=BernsteinBasis(4, (-6.0, 9.0)))
    v = inside(closed)
    assert closed.sums(v).loglik == pytest.approx(slow.sums(v).loglik, rel=1e-13)
    mu = np.random.default_rng(1).normal(size=closed.anchors.rank)
    for mine, other in zip(closed.derivatives(v, mu), slow.derivatives(v, mu), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("effects", EFFECTS)
def test_clusters_that_differ_much_cost_no_digits(effects: str) -> None:
    """Sums of squares within clusters are not differences of large numbers."""
    closed, slow = pair(effects, far=1e4)
    v = inside(closed)
    v[1], v[closed.n_fixed :] = 3e3, np.where(closed.effects.squared, 1e7, 2.0)
    np.testing.assert_allclose(closed.sums(v).loglik, slow.sums(v).loglik, rtol=1e-11)
    np.testing.assert_allclose(closed.sums(v).t, slow.sums(v).t, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spread", [0.0, 1e-14, 1e-11, 1e-6])
def test_slopes_of_covariates_that_hardly_vary_within_clusters(spread: float) -> None:
    x = np.sin(GROUP.astype(float)) + spread * RNG.normal(size=N)
    clusters = make_clusters(GROUP.tolist(), "g", ["1", "a"], ["a"], x[:, None])
    fixed = build_objective(get_link("probit"), LinearBasis(), as_response(Y), x[:, None], names=("a",))
    closed, slow = NormalMixedObjective(fixed, clusters), MixedObjective(fixed, clusters)
    v = inside(closed)
    assert closed.sums(v).loglik == pytest.approx(slow.sums(v).loglik, rel=1e-13)
    for mine, other in zip(closed.derivatives(v), slow.derivatives(v), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)


def dense(p: np.ndarray, xi: float, effects: list[str]) -> float:
    """Return the anchor loss at (intercept, log sigma, slopes, entries of L), with n x n matrices."""
    Z = np.column_stack([np.ones(N) if name == "1" else X[:, 0] for name in effects])
    L = np.zeros((len(effects), len(effects)))
    L[np.tril_indices(len(effects))] = p[4:]
    V = np.eye(N) + np.equal.outer(GROUP, GROUP) * (Z @ L @ L.T @ Z.T)
    h = (Y - p[0] - X @ p[2:4]) / np.exp(p[1])
    r = np.linalg.solve(V, h)
    loglik = stats.multivariate_normal(np.zeros(N), V).logpdf(h) - N * p[1]
    means = np.array([r[s == SITE].mean() for s in range(4)])[SITE]
    return (-loglik + xi * r @ means) / N


@pytest.mark.parametrize("xi", [0.0, 3.0])
@pytest.mark.parametrize("effects", EFFECTS)
def test_the_fit_is_the_minimum_of_the_stated_loss(effects: str, xi: float) -> None:
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=GROUP)
    model = atm.NormalLinear(xi, random={"g": EFFECTS[effects]}, tol=1e-10).fit(frame, Y, anchors=SITE)
    L = np.linalg.cholesky(model.random_cov_.to_numpy())
    at = [model.intercept_, np.log(model.sigma_), *model.slope_, *L[np.tril_indices(len(L))]]
    assert model.converged_
    assert dense(at, xi, EFFECTS[effects]) == pytest.approx(model.loss_, rel=1e-12)
    slope = optimize.approx_fprime(at, lambda p: dense(p, xi, EFFECTS[effects]), 1e-6)
    np.testing.assert_allclose(slope, 0.0, atol=1e-5)
    found = optimize.minimize(dense, np.array(at) + 0.05, (xi, EFFECTS[effects]), method="BFGS")
    assert model.loss_ <= found.fun + 1e-12


def test_the_summary_says_that_integrals_are_exact() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=GROUP)
    model = atm.NormalLinear(random="g").fit(frame, Y)
    assert model.summary().facts["integrals"] == "exact: exact rows and normal link"
    assert model.result_.random.error == 0.0
    assert model.result_.random.weights.shape == (14, 15)
    assert atm.NormalLinear(random="g", n_nodes=7).fit(frame, Y).result_.random.weights.shape == (14, 7)
    censored = atm.NormalLinear(random="g").fit(frame, atm.Interval(Y, np.where(SITE == 0, np.inf, Y)))
    assert "nodes an effect" in censored.summary().facts["quadrature"]


def test_weights_still_replicate_clusters() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=GROUP)
    with pytest.raises(atm.exceptions.InputError, match="weights differ within g 0"):
        atm.NormalLinear(random="g").fit(frame, Y, sample_weight=np.where(np.arange(N) == np.argmin(GROUP), 2.0, 1.0))
    twice = np.flatnonzero(GROUP == 3)
    copy = frame.iloc[twice].assign(g=99)
    more = atm.NormalLinear(random="g").fit(pd.concat([frame, copy]), np.append(Y, Y[twice]))
    model = atm.NormalLinear(random="g").fit(frame, Y, sample_weight=np.where(GROUP == 3, 2.0, 1.0))
    assert model.loglik_ == pytest.approx(more.loglik_, rel=1e-10)
    np.testing.assert_allclose(model.coef_, more.coef_, rtol=1e-7)


@pytest.mark.parametrize("effects", EFFECTS)
def test_new_rows_have_the_same_closed_form(effects: str) -> None:
    clusters = make_clusters(GROUP.tolist(), "g", EFFECTS[effects], ["a", "b"], X)
    terms = build_terms(LinearBasis(), as_response(Y))
    for theta in (np.array([0.3, 0.8]), np.array([0.3, -0.8])):  # the second is not possible
        rows = MovedRows(get_link("probit"), terms, theta, -X @ [0.5, 0.1])
        assert rows.quadratic
        tau = np.array([0.6] if len(EFFECTS[effects]) == 1 else [0.6, 0.3, 0.4])
        for mine, other in zip(closed_rows(rows, clusters, tau), quadrature_rows(rows, clusters, tau), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-12)
    assert not MovedRows(get_link("logit"), terms, theta, -X @ [0.5, 0.1]).quadratic
