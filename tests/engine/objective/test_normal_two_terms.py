"""Two normal random intercepts by sums over levels: against the loss that visits all rows, and differences."""

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.bases import BernsteinBasis, LinearBasis
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.laplace import LaplaceObjective
from anchortm.engine.objective.normal_two_terms import NormalTwoTermsObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.response import as_response
from anchortm.inputs.two_terms import Intercepts, make_two_terms
from anchortm.links import get_link

N = 120
RNG = np.random.default_rng(8)
GROUP, SITE = RNG.integers(0, 14, N), np.sort(RNG.integers(0, 4, N))
X = RNG.normal(size=(N, 2))
OTHER = {
    "crossed": RNG.integers(0, 6, N),
    "nested": GROUP % 5,
    "apart": np.where(GROUP < 7, 0, 3) + RNG.integers(0, 3, N),  # two groups of rows that no level connects
}
WEIGHTS = {"crossed": None, "nested": 1.0 + OTHER["nested"] % 2, "apart": np.where(GROUP < 7, 1.0, 3.0)}


def pair(name: str, swapped: bool = False, far: float = 1.0, basis=None) -> tuple[Objective, Objective]:
    """Return the loss by sums over levels and the one that visits all rows."""
    other = OTHER[name]
    y = X @ [0.5, 0.2] + far * np.sin(5.0 * GROUP) + far * np.cos(3.0 * other) + np.sin(np.arange(N) ** 2)
    fixed = build_objective(
        get_link("probit"),
        LinearBasis() if basis is None else basis,
        as_response(y),
        X,
        anchor_columns(SITE),
        WEIGHTS[name],
        np.sin(np.arange(N)),
        names=("a", "b"),
    )
    labels = [other.tolist(), GROUP.tolist()] if swapped else [GROUP.tolist(), other.tolist()]
    terms = make_two_terms(labels, Intercepts.of(["g", "k"]))
    terms = terms._replace(Z=-terms.Z)
    return NormalTwoTermsObjective(fixed, terms), LaplaceObjective(fixed, terms)


def inside(objective: Objective) -> np.ndarray:
    """Return a point off all bounds, with two different variances."""
    v = np.where(np.isfinite(objective.coordinates.lower), 0.4, 0.3)
    v[-1] = 0.9
    return v


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", OTHER)
def test_sums_over_levels_are_sums_over_rows(name: str, swapped: bool) -> None:
    levels, rows = pair(name, swapped)
    v, mu = inside(levels), np.random.default_rng(0).normal(size=4)
    assert levels.sums(v).loglik == pytest.approx(rows.sums(v).loglik, rel=1e-13)
    np.testing.assert_allclose(levels.sums(v).t, rows.sums(v).t, atol=1e-12)
    mine, other = levels.derivatives(v, mu), rows.derivatives(v, mu)
    np.testing.assert_allclose(mine.gradient, other.gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(mine.E, other.E, atol=1e-12)

    def slope(v: np.ndarray) -> np.ndarray:
        at = levels.derivatives(v)
        return at.gradient + at.E.T @ mu

    step = 1e-4
    H = [
        (8.0 * (slope(v + u) - slope(v - u)) - slope(v + 2.0 * u) + slope(v - 2.0 * u)) / (12.0 * step)
        for u in step * np.eye(v.size)
    ]
    np.testing.assert_allclose(mine.hessian, H, atol=1e-9 * np.abs(mine.hessian).max())


@pytest.mark.parametrize("name", OTHER)
def test_curved_baselines(name: str) -> None:
    levels, rows = pair(name, basis=BernsteinBasis(3, (-3.0, 4.0)))
    v = inside(levels)
    assert levels.sums(v).loglik == pytest.approx(rows.sums(v).loglik, rel=1e-13)
    np.testing.assert_allclose(levels.derivatives(v).gradient, rows.derivatives(v).gradient, rtol=1e-10, atol=1e-9)


def test_levels_that_differ_much_cost_no_digits() -> None:
    levels, rows = pair("crossed", far=1e4)
    v = inside(levels)
    v[1], v[-2:] = 1e4, 1e8
    assert levels.sums(v).loglik == pytest.approx(rows.sums(v).loglik, rel=1e-9)
    np.testing.assert_allclose(levels.sums(v).t, rows.sums(v).t, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_fits_are_those_of_the_loss_over_rows(xi: float, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=GROUP, k=OTHER["crossed"])
    y = X @ [0.5, 0.2] + RNG.normal(size=14)[GROUP] + RNG.normal(size=6)[OTHER["crossed"]] + RNG.normal(size=N)
    model = atm.NormalLinear(xi, random=["g", "k"], tol=1e-10).fit(frame, y, anchors=SITE)
    monkeypatch.setattr("anchortm.engine.model_parts.random_effects.NormalTwoTermsObjective", LaplaceObjective)
    slow = atm.NormalLinear(xi, random=["g", "k"], tol=1e-10).fit(frame, y, anchors=SITE)
    assert model.converged_
    assert model.loss_ == pytest.approx(slow.loss_, abs=1e-12)
    np.testing.assert_allclose(model.coef_, slow.coef_, atol=1e-8)
    np.testing.assert_allclose(model.random_sd_, slow.random_sd_, atol=1e-7)
    np.testing.assert_allclose(model.random_effects_, slow.random_effects_, atol=1e-7)
