"""The contract of an objective, one test for each promise, through which every kind runs."""

from collections.abc import Callable

import numpy as np
import pytest
from engine.objective.toy_objective import SecantObjective
from scipy import linalg as la

from anchortm.bases import BernsteinBasis, ConstantBasis, OrdinalBasis
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.laplace import LaplaceObjective
from anchortm.engine.objective.location_scale import ScaledObjective
from anchortm.engine.objective.normal_mixed import NormalMixedObjective
from anchortm.engine.objective.normal_two_terms import NormalTwoTermsObjective
from anchortm.engine.objective.partial_likelihood import build_partial
from anchortm.engine.objective.penalised import Net, Penalty
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.objective.random_effects import MixedObjective
from anchortm.engine.rows.projections import projection
from anchortm.engine.rows.risk_sets import Outcome
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Options, loss_of
from anchortm.families import get_family
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.clusters import make_clusters
from anchortm.inputs.response import Surv, as_response
from anchortm.inputs.two_terms import Intercepts, make_two_terms
from anchortm.links import get_link

N, XI = 160, 0.4
RNG = np.random.default_rng(21)
SITE = np.sort(RNG.integers(0, 4, N))
ANCHORS = anchor_columns(SITE)
X = RNG.normal(size=(N, 2)) + 0.4 * SITE[:, None]
WEIGHTS = RNG.integers(1, 4, N).astype(float)
Y = X @ [0.6, -0.4] + 0.3 * SITE + RNG.logistic(size=N)
TIME, EVENT = np.round(np.exp(0.3 * Y), 1) + 0.1, RNG.random(N) < 0.7
CLASSES = np.digitize(Y, [-1.0, 0.5, 2.0])
GROUP = np.arange(N) % 20
EXACT, CENSORED, ORDINAL = as_response(Y), as_response(Surv(TIME, EVENT)), as_response(CLASSES, "ordinal")


def rows(link: str, basis, response, X=X, weights=WEIGHTS) -> Objective:
    names = ("a", "b", "c")[: X.shape[1]]
    return build_objective(get_link(link), basis, response, X, ANCHORS, weights, names=names)


def plain() -> Objective:
    return rows("logit", BernsteinBasis(4, (-3.0, 4.0)), EXACT)


def mean(family: str, y: np.ndarray, **given) -> Objective:
    return build_objective(get_family(family, **given), ConstantBasis(), as_response(y), X, ANCHORS, WEIGHTS)


def mixed() -> Objective:
    clusters = make_clusters([str(g) for g in GROUP], "g", ["1"], ["a", "b"], X)._replace(n_nodes=61)
    fixed = rows("probit", OrdinalBasis((0, 1, 2, 3)), ORDINAL, weights=None)
    return MixedObjective(fixed, clusters._replace(Z=-clusters.Z))


def mixed_counts() -> Objective:
    clusters = make_clusters([str(g) for g in GROUP], "g", ["1"], ["a", "b"], X)._replace(n_nodes=61)
    counts = as_response(np.abs(np.round(Y)))
    return MixedObjective(build_objective(get_family("poisson"), ConstantBasis(), counts, X, ANCHORS), clusters)


def normal_mixed() -> Objective:
    clusters = make_clusters([str(g) for g in GROUP], "g", ["1", "a"], ["a", "b"], X)
    fixed = rows("probit", BernsteinBasis(3, (-3.0, 4.0)), EXACT, weights=(1.0 + GROUP % 3))
    return NormalMixedObjective(fixed, clusters._replace(Z=-clusters.Z))


def two_terms() -> Objective:
    terms = make_two_terms([GROUP.tolist(), (np.arange(N) // 7 % 9).tolist()], Intercepts.of(["g", "k"]))
    return LaplaceObjective(rows("cloglog", BernsteinBasis(2, (0.2, 3.0)), CENSORED, weights=None), terms)


def normal_two_terms() -> Objective:
    terms = make_two_terms([GROUP.tolist(), (np.arange(N) // 7 % 9).tolist()], Intercepts.of(["g", "k"]))
    return NormalTwoTermsObjective(rows("probit", BernsteinBasis(3, (-3.0, 4.0)), EXACT, weights=None), terms)


def scaled() -> Objective:
    both = rows("logit", BernsteinBasis(3, (-3.0, 4.0)), EXACT, np.hstack([X, -X[:, :1]]))
    return ScaledObjective(both, 1, ("a", "b", "a (scale)"), None)


def partial() -> Objective:
    outcome = Outcome(TIME, EVENT, None, None, WEIGHTS, None, "efron")
    return build_partial(get_link("cloglog"), outcome, X, ANCHORS, True, ("a", "b"))


def pulled() -> Objective:
    inner = plain()
    return Pulled(inner, np.full(inner.n_parameters, 0.3), 0.2 * np.eye(inner.n_parameters))


KINDS: dict[str, Callable[[], Objective]] = {
    "exact rows": plain,
    "censored rows": lambda: rows("cloglog", BernsteinBasis(3, (0.2, 3.0)), CENSORED),
    "classes": lambda: rows("loglog", OrdinalBasis((0, 1, 2, 3)), ORDINAL),
    "normal": lambda: rows("probit", BernsteinBasis(3, (-3.0, 4.0)), EXACT),
    "mean": lambda: mean("poisson", np.abs(np.round(Y))),
    "mean, deviance": lambda: mean("gamma", np.exp(0.3 * Y), residual="deviance"),
    "partial likelihood": partial,
    "scale effects": scaled,
    "random effects": mixed,
    "random effects of counts": mixed_counts,
    "normal random effects": normal_mixed,
    "two random terms": two_terms,
    "two normal random terms": normal_two_terms,
    "elastic net": lambda: Net.of(plain(), Penalty(np.array([0.01, 0.02]), np.array([0.1, 0.3]))),
    "ridge of Cox": lambda: Net.of(partial(), Penalty(np.zeros(2), np.array([0.1, 0.3]))),
    "pulled": pulled,
    "toy": lambda: SecantObjective(X, Y, projection(ANCHORS)),
}
kinds = pytest.mark.parametrize("name", KINDS)
RANDOM = tuple(name for name in KINDS if "random" in name)
WITH_EXTRA = ("scale effects", *RANDOM)  # parameters beside the coefficients
NO_INFLUENCE = ("elastic net", "toy")  # an l1 penalty has no sandwich, and the toy does not say what rows contribute


def start(objective: Objective) -> np.ndarray:
    """Return a point where the loss is smooth: off all bounds, and no coefficient is 0."""
    lower, k = objective.coordinates.lower, objective.coordinates.n_baseline
    v = np.full(objective.n_parameters, 0.2)
    v[:k] = np.where(np.isfinite(lower[:k]), lower[:k] + 0.6, 0.1)
    return v


def multiplier(objective: Objective, v: np.ndarray) -> np.ndarray:
    """Return a direction in the span of t."""
    E = objective.derivatives(v).E
    mu = E @ np.random.default_rng(0).normal(size=v.size)
    return mu / np.linalg.norm(mu)


def differences(f, v: np.ndarray, step: float = 1e-4) -> np.ndarray:
    columns = []
    for unit in step * np.eye(v.size):
        columns.append((8.0 * (f(v + unit) - f(v - unit)) - (f(v + 2 * unit) - f(v - 2 * unit))) / (12.0 * step))
    return np.array(columns).T


@kinds
def test_derivatives_are_those_of_the_sums(name: str) -> None:
    objective = KINDS[name]()
    v = start(objective)
    mu = multiplier(objective, v)
    plain, bent = objective.derivatives(v), objective.derivatives(v, mu)
    size = 1.0 + np.abs(bent.hessian).max()
    np.testing.assert_allclose(plain.gradient, differences(lambda w: -objective.sums(w).loglik, v), atol=1e-6 * size)
    np.testing.assert_allclose(plain.E, differences(lambda w: objective.sums(w).t, v), atol=1e-6 * size)
    slope = differences(lambda w: objective.derivatives(w).gradient + objective.derivatives(w).E.T @ mu, v)
    np.testing.assert_allclose(bent.hessian, slope, atol=1e-6 * size)
    np.testing.assert_allclose(bent.matrix, bent.matrix.T, atol=1e-9 * size)


@kinds
def test_slopes_are_the_gradient_in_the_coefficients(name: str) -> None:
    objective = KINDS[name]()
    v = start(objective)
    mu = multiplier(objective, v)
    d = objective.derivatives(v)
    kinks = 0.0 if objective.lasso is None else objective.n_total * objective.lasso * np.sign(v)
    np.testing.assert_allclose(objective.gradient(v, mu), d.gradient + d.E.T @ mu - kinks, rtol=1e-9, atol=1e-9)


@kinds
def test_fewer_coefficients_are_the_others_at_zero(name: str) -> None:
    objective = KINDS[name]()
    assert bool(objective.extra_names) == (name in WITH_EXTRA)
    v = start(objective)
    kept = np.delete(np.arange(objective.coordinates.n_coefs), -1 - len(objective.extra_names))  # the last covariate
    places = objective.coordinates.places(kept)
    v[np.setdiff1d(np.arange(v.size), places)] = 0.0
    some = objective.restricted(kept)
    assert some.n_parameters == objective.n_parameters - 1
    assert some.extra_names == objective.extra_names
    assert some.coordinates.n_coefs == kept.size
    ours, theirs = some.sums(v[places]), objective.sums(v)
    assert ours.loglik == pytest.approx(theirs.loglik, rel=1e-12)
    np.testing.assert_allclose(ours.t, theirs.t, atol=1e-10)
    here, there = some.derivatives(v[places]), objective.derivatives(v)
    kinks = 0.0 if objective.lasso is None else objective.n_total * objective.lasso * np.sign(v)
    mine = here.gradient - (kinks[places] if objective.lasso is not None else 0.0)
    np.testing.assert_allclose(mine, (there.gradient - kinks)[places], rtol=1e-9, atol=1e-8)


@kinds
def test_the_solver_certifies_a_minimum(name: str) -> None:
    objective = KINDS[name]()
    found = solve(objective, start(objective), XI, Options(tol=1e-9))
    assert found.converged
    assert found.kkt <= 1e-9
    assert found.loss == pytest.approx(loss_of(objective, objective.sums(found.v), XI), rel=1e-10)
    rng = np.random.default_rng(1)
    lower, upper = objective.coordinates.lower, objective.coordinates.upper
    for _ in range(20):  # no point nearby has a lower loss
        v = np.clip(found.v + 0.01 * rng.normal(size=found.v.size), lower, upper)
        assert loss_of(objective, objective.sums(v), XI) >= found.loss - 1e-10
    objective.check_maximum()  # these rows are not separated
    assert objective.convexity(found.sums, XI) in ("global", "local", "none")
    (shift, *scale) = objective.penalties(found.v, found.sums)
    assert shift + sum(scale) == pytest.approx(found.penalty_sum, rel=1e-9, abs=1e-12)
    assert objective.penalties(found.v) == pytest.approx((shift, *scale), rel=1e-12)
    assert len(scale) == (name == "scale effects")


@kinds
def test_a_sample_is_a_loss_in_the_same_coordinates(name: str) -> None:
    objective = KINDS[name]()
    sample = objective.sample(80)
    v = start(objective)
    inside = sample.from_whole(objective, v)
    assert np.isfinite(sample.sums(inside).loglik)
    np.testing.assert_array_equal(sample.to_whole(objective, inside), v)
    assert type(sample) is type(objective)
    assert sample.n_rows <= objective.n_rows


@kinds
def test_facts_for_inference(name: str) -> None:
    objective = KINDS[name]()
    v = start(objective)
    coordinates = objective.coordinates
    assert objective.n_parameters == coordinates.scale.size == v.size
    assert objective.estimated.dtype == bool
    assert objective.estimated.sum() == v.size - (len(objective.extra_names) if name in RANDOM else 0)
    assert (objective.score_test_obstacle is not None) == (name == "two random terms")
    assert (objective.unpenalised is objective) == (not objective.penalised and name != "pulled")
    assert objective.unpenalised.lasso is None
    if name not in ("pulled", "elastic net"):
        assert objective.kinked == (objective.lasso is not None and objective.lasso.any())
    assert objective.ray(XI) == (objective, XI)
    assert objective.row_coordinates.n_coefs == coordinates.n_coefs - objective.start.size
    theta, others = coordinates.split(v)
    average = objective.average_baseline(theta, others)
    assert average.shape == theta.shape
    assert (name == "scale effects") == (not np.array_equal(average, theta))
    assert np.isfinite(objective.average_shift(v))
    assert objective.extent(10.0 * v)[0] == pytest.approx(10.0 * np.abs(v).max())


@pytest.mark.parametrize("name", [name for name in KINDS if name not in NO_INFLUENCE])
def test_shares_of_rows_add_up_to_zero_at_the_minimum(name: str) -> None:
    """They are derivatives, in the weights of rows, of the equations that the minimum solves."""
    objective = KINDS[name]()
    found = solve(objective, start(objective), XI, Options(tol=1e-11))
    v, free = found.v, np.flatnonzero(~found.active)
    pull = 2.0 * XI * found.sums.t
    at = objective.derivatives(v, pull)
    bread, inside = np.zeros((v.size, v.size)), np.ix_(free, free)
    bread[inside] = la.inv((at.hessian + 2.0 * XI * at.E.T @ at.E)[inside])
    work = objective.influence(v, pull, bread, 2.0 * XI * at.E @ bread)
    shares = np.zeros((objective.n_rows, v.size))
    for own, part in objective.shares(work):
        shares[own] = part
    weights = np.ones(objective.n_rows) if objective.weights is None else objective.weights
    scale = np.abs(weights[:, None] * shares).sum(axis=0)[free]
    np.testing.assert_allclose((weights @ shares)[free] / scale, 0.0, atol=2e-7)
    np.testing.assert_allclose(
        objective.influence_gram(work), (shares * weights[:, None]).T @ shares, rtol=1e-9, atol=1e-14
    )
