"""A loss that the package does not know, in one new file, is minimised with a certificate by the unchanged solver."""

import numpy as np
import pytest
from engine.objective.toy_objective import SecantObjective
from scipy import optimize

from anchortm.engine.objective.penalised import Net, Penalty
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.pulled import Pulled
from anchortm.engine.rows.projections import projection
from anchortm.engine.solve.continuation import restarts, solve, solve_near, solve_path
from anchortm.engine.solve.newton import Options, loss_of
from anchortm.exceptions import OverIdentifiedError
from anchortm.inputs.anchors import anchor_columns

OPTIONS = Options(tol=1e-10)
RNG = np.random.default_rng(8)
SITE = np.sort(RNG.integers(0, 5, 250))
X = RNG.normal(size=(250, 4)) + 0.6 * SITE[:, None] * [1.0, 0.0, 0.0, 0.5]
Y = X @ [0.8, -0.5, 0.0, 0.1] + 0.4 * SITE + RNG.standard_t(4, size=250)


def toy(**given) -> SecantObjective:
    return SecantObjective(X, Y, projection(anchor_columns(SITE)), **given)


def stated(v: np.ndarray, xi: float) -> float:
    """The loss as printed: the mean negative log-likelihood, and xi / n times the squared norm of P r."""
    e = Y - X @ v
    groups = np.array([np.tanh(e)[k == SITE].sum() ** 2 / (k == SITE).sum() for k in range(5)])
    return float((np.log(2.0 * np.cosh(e)).sum() + xi * groups.sum()) / Y.size)


def scipys(extra=lambda v: 0.0, xi: float = 0.0, **given) -> np.ndarray:
    options = {"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-10}
    return optimize.minimize(
        lambda v: stated(v, xi) + extra(v), np.zeros(4), method="L-BFGS-B", options=options, **given
    ).x


@pytest.mark.parametrize("xi", [0.0, 0.5, 5.0])
def test_the_minimum_is_scipys(xi: float) -> None:
    found = solve(toy(), np.zeros(4), xi, OPTIONS)
    assert found.converged
    assert found.kkt <= 1e-10
    assert found.min_eigenvalue > 0.0
    np.testing.assert_allclose(found.v, scipys(xi=xi), atol=2e-5)
    assert found.loss == pytest.approx(stated(found.v, xi), rel=1e-12)
    assert found.loss <= stated(scipys(xi=xi), xi) + 1e-14


def test_derivatives_are_differences() -> None:
    objective, v, step = toy(), np.array([0.4, -0.2, 0.3, 0.1]), 1e-5
    mu = RNG.normal(size=objective.anchors.rank)
    d = objective.derivatives(v, mu)
    for j, unit in enumerate(np.eye(4)):
        up, down = (objective.derivatives(v + side * step * unit) for side in (1.0, -1.0))
        sums = [objective.sums(v + side * step * unit) for side in (1.0, -1.0)]
        assert d.gradient[j] == pytest.approx((sums[1].loglik - sums[0].loglik) / (2.0 * step), abs=1e-6)
        np.testing.assert_allclose(d.E[:, j], (sums[0].t - sums[1].t) / (2.0 * step), atol=1e-8)
        curved = (up.gradient + up.E.T @ mu - down.gradient - down.E.T @ mu) / (2.0 * step)
        np.testing.assert_allclose(d.hessian[j], curved, atol=1e-6)
    # the default of the contract
    np.testing.assert_allclose(objective.gradient(v, mu), d.gradient + d.E.T @ mu, rtol=1e-12)


def test_the_path_has_both_ends_and_starts_from_similar_fits() -> None:
    objective = SecantObjective(X, Y, projection(anchor_columns(SITE // 2)))
    low, high, limit = solve_path(objective, np.zeros(4), [0.0, 50.0, np.inf], OPTIONS)
    assert [low.converged, high.converged, limit.converged] == [True, True, True]
    assert low.penalty_sum > high.penalty_sum > limit.penalty_sum
    # xi = inf: the likeliest parameters whose residuals have mean zero in each group
    groups = np.eye(3)[SITE // 2]
    zero = {"type": "eq", "fun": lambda v: groups.T @ np.tanh(Y - X @ v) / 50.0}
    best = optimize.minimize(stated, high.v, (0.0,), "SLSQP", constraints=[zero], options={"ftol": 1e-14}).x
    np.testing.assert_allclose(limit.v, best, atol=1e-5)
    near = solve_near(objective, np.zeros(0), low.v, low.v, 50.0, OPTIONS)
    np.testing.assert_allclose(near.v, high.v, atol=1e-8)
    assert restarts(objective, high, 5, OPTIONS, np.random.default_rng(0))[0].loss <= high.loss
    with pytest.raises(OverIdentifiedError, match="all 5 anchor directions"):
        solve(toy(), np.zeros(4), np.inf, OPTIONS)


def test_bounds_hold() -> None:
    found = solve(toy(lower=0.0), np.ones(4), 2.0, OPTIONS)
    assert found.converged
    assert found.active.any()
    assert (found.v[found.active] == 0.0).all()
    np.testing.assert_allclose(found.v, scipys(xi=2.0, bounds=[(0.0, None)] * 4), atol=2e-5)


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_an_elastic_net_fits_around_it(xi: float) -> None:
    lasso, ridge = np.array([0.05, 0.05, 0.1, 0.2]), np.full(4, 0.1)
    net = Net.of(toy(), Penalty(lasso, ridge))
    found = solve(net, np.zeros(4), xi, OPTIONS)
    assert found.converged
    assert (found.v == 0.0).any()
    # the stated optimum: slopes of the printed loss against the penalty
    slope = optimize.approx_fprime(found.v, lambda v: stated(v, xi) + 0.5 * float(ridge @ v**2), 1e-7)
    zero = found.v == 0.0
    assert (np.abs(slope[zero]) <= lasso[zero] + 1e-6).all()
    np.testing.assert_allclose(slope[~zero], -(lasso * np.sign(found.v))[~zero], atol=1e-6)
    assert net.unpenalised.X is X
    assert net.loglik(found.v, found.sums) == pytest.approx(toy().sums(found.v).loglik, rel=1e-12)


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_a_pull_fits_around_it(xi: float) -> None:
    root, centre = RNG.normal(size=(4, 4)), np.array([1.0, 0.0, -1.0, 0.5])
    Q = root @ root.T
    pulled = Pulled(toy(), centre, Q)
    found = solve(pulled, np.zeros(4), xi, OPTIONS)
    assert found.converged
    np.testing.assert_allclose(found.v, scipys(lambda v: 0.5 * float((v - centre) @ Q @ (v - centre)), xi), atol=2e-5)
    v, mu = found.v, np.ones(pulled.anchors.rank)
    d = pulled.derivatives(v, mu)
    np.testing.assert_allclose(pulled.gradient(v, mu), d.gradient + d.E.T @ mu, rtol=1e-10)
    assert pulled.loglik(v, found.sums) == pytest.approx(toy().sums(v).loglik, rel=1e-12)


def test_a_net_around_a_pull_leaves_out_coefficients() -> None:
    """With coefficients at 0 the pull of the others is as before; the wrong order of the two is refused."""
    root, centre = RNG.normal(size=(4, 4)), np.array([1.0, 0.2, -1.0, 0.5])
    pulled = Pulled(toy(), centre, root @ root.T / 20.0)
    some, v = np.array([0, 3]), np.array([0.7, 0.0, 0.0, -0.3])
    part = pulled.restricted(some)
    assert part.sums(v[some]).loglik == pytest.approx(pulled.sums(v).loglik, rel=1e-12)
    np.testing.assert_allclose(part.derivatives(v[some]).gradient, pulled.derivatives(v).gradient[some], rtol=1e-12)
    alone, only = part.restricted(np.array([1])), np.array([0.0, 0.0, 0.0, -0.3])
    np.testing.assert_allclose(alone.gradient(only[3:]), pulled.gradient(only)[3:], rtol=1e-12)
    net = Net.of(pulled, Penalty(np.full(4, 0.15), np.zeros(4)))
    found = solve(net, np.zeros(4), 1.0, OPTIONS)
    assert found.converged
    assert loss_of(net, found.sums, 1.0) == pytest.approx(found.loss, rel=1e-12)
    with pytest.raises(ValueError, match="put the pull inside the elastic net"):
        Pulled(net, centre, np.eye(4))


def test_what_was_not_said_has_a_default_or_says_so() -> None:
    objective = toy()
    v = np.ones(4)
    assert objective.unpenalised is objective
    assert objective.scored is objective
    assert objective.ray(3.0) == (objective, 3.0)
    assert objective.closed_form is None
    assert not objective.kinked
    assert objective.estimated.all()
    assert objective.penalties(v) == (float(objective.sums(v).t @ objective.sums(v).t),)
    with pytest.raises(NotImplementedError, match="SecantObjective has no residuals of rows"):
        objective.residuals(v)
    with pytest.raises(NotImplementedError, match="SecantObjective has no influence of rows"):
        objective.influence(v, v, np.eye(4), np.eye(4))


def test_wrappers_forward_all_that_they_do_not_define() -> None:
    """One mechanism: each public member of the contract, also those that are added later."""
    inner = toy()
    net = Net.of(inner, Penalty(np.zeros(4), np.ones(4)))
    own = {name for part in type(net).__mro__[:2] for name in vars(part)} | set(vars(net))
    for name in ("names", "n_rows", "n_total", "anchors", "costly", "known_dispersion", "extra_names", "n_parameters"):
        assert getattr(net, name) is getattr(inner, name) or getattr(net, name) == getattr(inner, name), name
    members = {name for part in Objective.__mro__[:2] for name in (*vars(part), *part.__annotations__)}
    public = {name for name in members if not name.startswith("_")}
    assert public <= own | {"coordinates"}
    inner.score_test_obstacle = "a reason"
    assert net.score_test_obstacle == "a reason"
