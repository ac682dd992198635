"""Elastic nets by proximal Newton steps: the parts against slow references, and whole fits against faces."""

import math

import numpy as np
import pytest
from sklearn.base import clone

import anchortm as atm
from anchortm.engine.solve import proximal
from anchortm.engine.solve.active_solver import ActiveSolver
from anchortm.engine.solve.net_model import NetModel
from anchortm.engine.solve.quadratic_program import bounded_minimum
from anchortm.engine.solve.smallest_eigenvalue import smallest_eigenvalue

RNG = np.random.default_rng(8)


def gram(d: int, n: int = 400) -> np.ndarray:
    X = RNG.normal(size=(n, d)) + RNG.normal(size=(n, 1))
    return X.T @ X / n


# solving on subsets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [(), (2,)])
def test_subsets_that_change_are_solved_as_if_alone(columns: tuple[int, ...]) -> None:
    H = gram(60)
    solver, free = ActiveSolver(H), RNG.random(60) < 0.6
    for share in [0.0, 0.02, 0.05, 0.0, 0.3, 0.02, 0.02, 0.1, 0.02] * 4:
        free = free ^ (RNG.random(60) < share)
        b, at = RNG.normal(size=(60, *columns)), np.flatnonzero(free)
        expected = np.zeros_like(b)
        expected[at] = np.linalg.solve(H[np.ix_(at, at)], b[at])
        np.testing.assert_allclose(solver.solve(free, b), expected, atol=1e-12)


def test_few_changes_take_no_new_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    solver, free = ActiveSolver(gram(60)), np.arange(60) < 40
    made: list[int] = []
    own = ActiveSolver._factored
    monkeypatch.setattr(ActiveSolver, "_factored", lambda self, free: made.append(1) or own(self, free))
    for j in (0, 45, 3, 45, 0, 50):
        free[j] = not free[j]
        solver.solve(free, np.ones(60))
    assert len(made) == 1
    solver.solve(np.arange(60) >= 20, np.ones(60))
    assert len(made) == 2


def test_a_singular_subset_is_refused() -> None:
    H = gram(5)
    H[:, 4], H[4] = H[:, 3], H[3]
    H[4, 4] = H[3, 4] = H[4, 3] = H[3, 3]
    b = np.ones(5)
    assert ActiveSolver(H).solve(np.ones(5, dtype=bool), b) is None
    joining = ActiveSolver(H)
    assert joining.solve(np.arange(5) < 4, b) is not None
    assert joining.solve(np.ones(5, dtype=bool), b) is None


# the model -----------------------------------------------------------------------------------------------------------


def slow_minimum(H, b, lasso, lower, upper) -> np.ndarray:
    """Return the minimum from a QP in the positive and the negative parts."""
    two = np.block([[H, -H], [-H, H]]) + 1e-13 * np.eye(2 * b.size)
    zero = lasso > 0.0
    parts = bounded_minimum(
        two,
        np.concatenate([b + lasso, lasso - b]),
        np.concatenate([np.where(zero, 0.0, lower), np.zeros(b.size)]),
        np.concatenate([upper, np.where(zero, np.inf, 0.0)]),
    )
    return parts[: b.size] - parts[b.size :]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bounded", [False, True])
def test_the_minimum_of_a_model(seed: int, bounded: bool) -> None:
    rng = np.random.default_rng(seed)
    H, b = gram(25), rng.normal(size=25)
    lasso = np.where(np.arange(25) < 4, 0.0, rng.uniform(0.1, 0.6, 25))
    lower, upper = np.full(25, -np.inf), np.full(25, np.inf)
    if bounded:
        lower[:3], upper[2] = (0.0, 0.1, 0.2), 0.2
    model = NetModel(ActiveSolver(H), b, lasso, lower, upper)
    start = np.clip(np.where(rng.random(25) < 0.5, 0.0, rng.normal(size=25)), lower, upper)
    found = model.minimum(start, 100)
    assert found is not None
    np.testing.assert_allclose(found, slow_minimum(H, b, lasso, lower, upper), atol=1e-6)
    slope = H @ found + b
    zero = (found == 0.0) & (lasso > 0.0)
    inside = (found > lower) & (found < upper) & ~zero
    np.testing.assert_allclose((slope + lasso * np.sign(found))[inside], 0.0, atol=1e-13)
    assert (np.abs(slope[zero]) <= lasso[zero] + 1e-13).all()
    assert (slope[(found == lower) & (lower < upper)] >= 0.0).all()
    assert zero.any()


@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_of_a_model_with_a_logarithm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    H, b, lasso = gram(20), rng.normal(size=20), np.where(np.arange(20) < 2, 0.0, 0.2)
    far = np.full(20, np.inf)
    found = NetModel(ActiveSolver(H), b, lasso, -far, far, log=True).minimum(np.eye(20)[1], 100)
    assert found is not None
    slope = H @ found + b
    slope[1] -= 1.0 / found[1]
    zero = (found == 0.0) & (lasso > 0.0)
    np.testing.assert_allclose((slope + lasso * np.sign(found))[~zero], 0.0, atol=1e-12)
    assert (np.abs(slope[zero]) <= 0.2 + 1e-13).all()
    assert found[1] > 0.0


@pytest.mark.parametrize("size", [30, 200])
def test_the_smallest_eigenvalue(size: int) -> None:
    H = gram(size)
    inverse = np.linalg.inv(H)
    assert smallest_eigenvalue(size, lambda b: inverse @ b) == pytest.approx(np.linalg.eigvalsh(H)[0], rel=1e-7)


# whole fits ----------------------------------------------------------------------------------------------------------

N, P = 260, 30
SITE = RNG.integers(0, 4, N)
X = RNG.normal(size=(N, P)) + 0.4 * RNG.normal(size=(N, 1))
X[:, :8] += RNG.normal(size=(4, 8))[SITE]
Y = X[:, 0] - X[:, 1] + 0.5 * X[:, -1] + 0.3 * SITE + RNG.logistic(size=N)
TIME = np.round(np.exp(0.3 * Y), 1) + 0.1
MODELS = [
    (atm.NormalLinear(), Y),
    (atm.ContinuousProbit(order=4), Y),
    (atm.ContinuousLogit(order=4), Y),
    (atm.ContinuousLogit(order=4), atm.Interval(np.floor(Y), np.floor(Y) + 1.0)),
    (atm.OrdinalRegression(), (Y > 0.5).astype(int)),
    (atm.OrdinalRegression(link="cloglog"), np.digitize(Y, [-1.0, 1.0])),
    (atm.AnchorGLM(family="poisson"), RNG.poisson(np.exp(0.2 * Y))),
    (atm.CoxPH(), atm.Surv(TIME, RNG.random(N) < 0.7)),
    (atm.CoxPH(ties="breslow"), atm.Surv(TIME, RNG.random(N) < 0.7, 0.05 * TIME)),
]


def by_faces(make, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(proximal, "minimise", lambda *_: None)
        return make()


@pytest.mark.parametrize("given", [{}, {"sample_weight": RNG.uniform(0.5, 2.0, N), "offset": 0.1 * X[:, 3]}])
@pytest.mark.parametrize(("l1_ratio", "factor"), [(1.0, None), (0.6, {"x0": 0.0, "x4": 3.0}), (0.9, "deviation")])
@pytest.mark.parametrize(("model", "y"), MODELS)
def test_paths_are_those_by_faces(model, y, l1_ratio: float, factor, given, monkeypatch: pytest.MonkeyPatch) -> None:
    make = clone(model).set_params(tol=1e-11, penalty_factor=factor)

    def path():
        return atm.elastic_net_path(
            make, X, y, SITE, [0.0, 0.5], l1_ratio=l1_ratio, n_lambdas=4, smallest=0.05, **given
        )

    found, slow = path(), by_faces(path, monkeypatch)
    np.testing.assert_allclose(found.coefs, slow.coefs, atol=1e-9)
    assert ((found.coefs == 0.0) == (slow.coefs == 0.0)).all()
    one, other = found.frame(), slow.frame()
    assert one.converged.all()
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    np.testing.assert_allclose(one.min_eigenvalue, other.min_eigenvalue, rtol=1e-4)
    assert (one.kkt <= 1e-11).all()


@pytest.mark.parametrize("xi", [0.0, 4.0])
def test_more_columns_than_rows(xi: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    x, site = rng.normal(size=(90, 700)), np.arange(90) % 3
    y = x[:, :5].sum(axis=1) + rng.logistic(size=90)
    for model, outcome in ((atm.NormalLinear(), y), (atm.OrdinalRegression(), np.digitize(y, [-1.0, 1.0]))):
        make = clone(model).set_params(tol=1e-11)

        def path(make=make, outcome=outcome):
            return atm.elastic_net_path(make, x, outcome, site, [xi], n_lambdas=6, smallest=0.1)

        found, slow = path(), by_faces(path, monkeypatch)
        np.testing.assert_allclose(found.coefs, slow.coefs, atol=1e-8)
        assert (np.count_nonzero(found.coefs[-1]) > 30) == (np.count_nonzero(slow.coefs[-1]) > 30)
        assert found.frame().converged.all()


@pytest.mark.parametrize(("model", "y"), [MODELS[2], MODELS[4], MODELS[7]])
def test_a_path_takes_few_hessians(model, y, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    own = proximal._curvature
    monkeypatch.setattr(proximal, "_curvature", lambda *args: made.append(1) or own(*args))
    monkeypatch.setattr(proximal, "CHEAP", 0.0)  # those that steps need
    assert atm.elastic_net_path(model, X, y, None, n_lambdas=30).frame().converged.all()
    assert len(made) <= 60


def test_the_linear_model_is_solved_to_rounding() -> None:
    found = atm.elastic_net_path(atm.NormalLinear(), X, Y, SITE, [0.0, 3.0], n_lambdas=20).frame()
    assert found.kkt.max() < 1e-13
    assert found.n_iter.max() <= 4


def test_left_out_environments_are_those_by_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    def search():
        return atm.ElasticNetCV(atm.OrdinalRegression(tol=1e-10), [0.0, 1.0], n_lambdas=4).fit(
            X, np.digitize(Y, [-1.0, 1.0]), anchors=SITE
        )

    found, slow = search(), by_faces(search, monkeypatch)
    np.testing.assert_allclose(found.loeo_.frame().nll, slow.loeo_.frame().nll, rtol=1e-8)
    assert found.best_lambda_ == slow.best_lambda_


def test_xi_infinite_goes_by_faces_and_agrees_with_a_large_xi() -> None:
    codes = np.where(SITE > 1, 1.0, 0.0)
    limit = atm.NormalLinear(math.inf, l1=0.05, tol=1e-10).fit(X, Y, anchors=codes)
    near = atm.NormalLinear(1e7, l1=0.05, tol=1e-10).fit(X, Y, anchors=codes)
    assert limit.converged_
    np.testing.assert_allclose(limit.coef_, near.coef_, atol=1e-5)
