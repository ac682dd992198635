"""The mean of the worst values, and its minimum, against linear and conic programmes."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.solve.newton import Options
from anchortm.engine.solve.tail_risk import Expansion, TailRisk, minimise_risk, worst_share


class Parabolas(TailRisk):
    """f + rho times the tail risk of convex quadratic functions, under bounds."""

    def __init__(self, seed: int, n: int, d: int, share: float, rho: float, bounded: bool) -> None:
        rng = np.random.default_rng(seed)
        self.rho, self.caps = rho, rng.dirichlet(np.ones(n)) / share
        self.centre, self.level = rng.normal(size=(n, d)), rng.normal(size=n)
        roots = rng.normal(size=(n, d, d)) / np.sqrt(d)
        self.A = np.einsum("eij,ekj->eik", roots, roots)
        self.own = 0.3 * np.eye(d)
        lower = np.where(np.arange(d) % 2 == 0, 0.2 if bounded else -np.inf, -np.inf)
        self.coordinates = Coordinates(np.eye(1), np.zeros(d), np.ones(d), lower, np.full(d, np.inf))

    def values(self, v):
        away = v - self.centre
        return 0.5 * float(v @ self.own @ v), self.level + 0.5 * np.einsum("ei,eij,ej->e", away, self.A, away)

    def expand(self, v, weights):
        smooth, values = self.values(v)
        slopes = np.einsum("eij,ej->ei", self.A, v - self.centre)
        hessian = self.own + self.rho * np.einsum("e,eij->ij", weights, self.A)
        return Expansion(smooth, values, self.own @ v, slopes, hessian)

    def conic(self) -> float:
        d, n = self.own.shape[0], self.level.size
        v, t, z = cp.Variable(d), cp.Variable(), cp.Variable(n, nonneg=True)
        bounds = [v[j] >= low for j, low in enumerate(self.coordinates.lower) if np.isfinite(low)]
        for e in range(n):
            value = self.level[e] + 0.5 * cp.quad_form(v - self.centre[e], cp.psd_wrap(self.A[e]))
            bounds.append(value <= t + z[e])
        loss = 0.5 * cp.quad_form(v, cp.psd_wrap(self.own)) + self.rho * (t + self.caps @ z)
        return float(cp.Problem(cp.Minimize(loss), bounds).solve(solver=cp.CLARABEL))


@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), share=st.floats(0.01, 1.0), ties=st.booleans())
def test_the_worst_share_is_a_linear_programme(seed: int, n: int, share: float, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    values, caps = rng.normal(size=n), rng.dirichlet(np.ones(n)) / share
    values = np.round(values) if ties else values
    found, weights = worst_share(values, caps)
    best = optimize.linprog(-values, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=list(zip([0.0] * n, caps, strict=True)))
    assert found == pytest.approx(-best.fun, abs=1e-9)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0.0).all()
    assert (weights <= caps).all()


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(("n", "share"), [(3, 0.9), (8, 0.01), (8, 0.4), (150, 0.01), (150, 0.2)])
def test_minima_are_those_of_a_conic_solver(n: int, share: float, bounded: bool) -> None:
    """With 150 values the programme starts with some of them and adds those that matter."""
    risk = Parabolas(n, n, 4, share, 1.7, bounded)
    found = minimise_risk(risk, np.full(4, 3.0), Options())
    assert found.converged
    assert found.kkt < 1e-12
    assert found.loss == pytest.approx(risk.conic(), rel=1e-7)
    assert found.loss == risk.loss(*risk.values(found.v))
    assert (found.v >= risk.coordinates.lower).all()
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    # a global minimum: no larger than at random points around it
    rng = np.random.default_rng(0)
    others = np.maximum(found.v + 0.01 * rng.normal(size=(100, 4)), risk.coordinates.lower)
    assert min(risk.loss(*risk.values(v)) for v in others) >= found.loss


def test_a_start_where_the_loss_is_not_defined_is_refused() -> None:
    risk = Parabolas(0, 3, 2, 0.5, 1.0, False)
    risk.level[0] = np.nan
    with pytest.raises(ArithmeticError, match="start values"):
        minimise_risk(risk, np.zeros(2), Options())
