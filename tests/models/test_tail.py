"""The anchor penalty of the worst environments: against a slow implementation, a conic solver, and its identities."""

from __future__ import annotations

import json
import math

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from robust_problems import PROBLEMS, problem
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import InputError

KNOWN = json.loads((REFERENCE / "robust" / "risks.json").read_text())
FORMULA = "cmedv ~ rm + lstat | town"

pytestmark = pytest.mark.filterwarnings("ignore::anchortm.exceptions.AnchorWarning")


@pytest.mark.parametrize("name", PROBLEMS)
def test_reference(name: str) -> None:
    """Shares of 1, 0.5, 0.2, and so small that the largest squared mean residual counts alone."""
    model, X, y, towns = problem(name, KNOWN[name])
    sign = -1.0 if name == "cgd_cox" else 1.0  # of the reference, h - x'beta
    for known in KNOWN[name]["tail"]:
        fit = clone(model).set_params(xi=known["xi"], tail=known["share"]).fit(X, y, anchors=towns)
        assert fit.converged_
        assert fit.loss_ == pytest.approx(known["loss"], abs=1e-9)
        assert fit.penalty_ == pytest.approx(known["cvar"], abs=1e-9)
        np.testing.assert_allclose(np.append(fit.baseline_, sign * fit.coef_), known["w"], atol=1e-6)
        if known["share"] < 1.0 and known["lam"]:
            weights = np.zeros(len(KNOWN[name]["n_e"]))
            weights[[int(e) for e in known["lam"]]] = list(known["lam"].values())
            np.testing.assert_allclose(fit.environment_multipliers_, weights, atol=1e-6)


@pytest.mark.parametrize("share", [0.7, 0.3, 0.05])
def test_the_linear_model_is_that_of_a_conic_solver(share: float) -> None:
    rng = np.random.default_rng(5)
    site = rng.integers(0, 12, 200)
    X = rng.normal(size=(200, 3)) + rng.normal(size=(12, 3))[site]
    y = X @ [1.0, -0.5, 0.2] + rng.normal(size=12)[site] + rng.normal(size=200)
    fit = atm.NormalLinear(2.0, tail=share).fit(X, y, anchors=site)
    a, b, beta = cp.Variable(), cp.Variable(), cp.Variable(3)
    t, z = cp.Variable(), cp.Variable(12, nonneg=True)
    r = a + b * y - X @ beta
    sizes = np.bincount(site)
    held = [cp.square(cp.sum(r[site == e]) / sizes[e]) <= t + z[e] for e in range(12)]
    nll = 0.5 * cp.sum_squares(r) / 200 - cp.log(b) + 0.5 * math.log(2.0 * math.pi)
    loss = nll + 2.0 * (t + (sizes / 200 / share) @ z)
    value = cp.Problem(cp.Minimize(loss), held).solve(solver=cp.CLARABEL)
    assert fit.loss_ == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(fit.coef_, beta.value, atol=1e-4)
    assert fit.convexity_ == "global"


@pytest.fixture(scope="module")
def boston() -> pd.DataFrame:
    return atm.datasets.load_boston_housing2()


def test_a_share_of_1_is_the_anchor_loss(boston: pd.DataFrame) -> None:
    one = atm.ContinuousProbit(3.0).fit(FORMULA, boston)
    same = atm.ContinuousProbit(3.0, tail=1.0).fit(FORMULA, boston)
    nearly = atm.ContinuousProbit(3.0, tail=1.0 - 1e-12).fit(FORMULA, boston)
    np.testing.assert_array_equal(same.coef_, one.coef_)
    assert not hasattr(same, "environment_multipliers_")
    np.testing.assert_allclose(nearly.coef_, one.coef_, rtol=1e-8)
    np.testing.assert_allclose(nearly.loss_, one.loss_, rtol=1e-10)


def test_a_tiny_share_is_the_largest_residual(boston: pd.DataFrame) -> None:
    known, *others = (atm.NormalLinear(3.0, tail=share).fit(FORMULA, boston) for share in (1e-4, 1e-12, 1e-300))
    for fit in others:
        assert fit.converged_
        np.testing.assert_allclose(fit.coef_, known.coef_, rtol=1e-8)


def test_smaller_shares_cost_more_and_bring_the_worst_down(boston: pd.DataFrame) -> None:
    fits = [atm.ContinuousProbit(3.0, tail=share).fit(FORMULA, boston) for share in (0.9, 0.5, 0.2, 0.05, 0.01)]
    losses, worst = [fit.loss_ for fit in fits], [fit.decisive_.values.max() for fit in fits]
    assert losses == sorted(losses)
    assert worst[-1] < worst[0]
    for fit in fits:
        assert fit.environment_multipliers_.sum() == pytest.approx(1.0, abs=1e-12)
        table = fit.decisive_.frame()
        assert table.multiplier.iloc[0] == fit.environment_multipliers_.max()
        assert (table.n.sum(), len(table)) == (506, 92)


def test_environments_that_do_not_decide_do_not_matter_for_the_penalty(boston: pd.DataFrame) -> None:
    """Towns without a multiplier can leave the penalty: here they all get the town whose residual is smallest."""
    fit = atm.NormalLinear(3.0, tail=0.002).fit(FORMULA, boston)
    weights = fit.environment_multipliers_
    idle = set(weights[weights == 0.0].index)
    merged = boston.assign(town=["(others)" if town in idle else town for town in boston.town])
    again = atm.NormalLinear(3.0, tail=0.002).fit(FORMULA, merged)
    np.testing.assert_allclose(again.coef_, fit.coef_, rtol=1e-9)
    assert again.loss_ == pytest.approx(fit.loss_, rel=1e-10)


def test_without_a_penalty_and_at_its_end_the_share_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    site = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 3)) + np.array([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [0.5, 0.5, 1.0]])[site]
    y = X.sum(axis=1) + rng.normal(size=300)
    for xi in (0.0, math.inf):
        plain, tail = (atm.NormalLinear(xi, tail=share).fit(X, y, anchors=site) for share in (1.0, 0.3))
        np.testing.assert_allclose(tail.coef_, plain.coef_, rtol=1e-10)
        assert tail.loss_ == plain.loss_
    assert tail.standard_errors("sandwich").shape == (3,)


def test_what_cannot_be_asked(boston: pd.DataFrame) -> None:
    rows = boston[["rm", "lstat"]], boston.cmedv
    for share in (0.0, 1.5, -1.0, math.nan):
        with pytest.raises(InputError, match=r"tail must lie in \(0, 1\]"):
            atm.NormalLinear(1.0, tail=share).fit(*rows, anchors=boston.town)
    with pytest.raises(InputError, match="one factor"):
        atm.NormalLinear(1.0, tail=0.5).fit(*rows, anchors=boston[["crim"]].astype(float))
    with pytest.raises(InputError, match="one factor"):
        atm.NormalLinear(1.0, tail=0.5).fit(*rows, anchors=boston[["town", "tract"]].astype(str))
    with pytest.raises(InputError, match="n_restarts"):
        atm.NormalLinear(1.0, tail=0.5, n_restarts=2).fit(*rows, anchors=boston.town)
    fit = atm.NormalLinear(1.0, tail=0.5).fit(*rows, anchors=boston.town)
    with pytest.raises(InputError, match="bootstrap"):
        fit.standard_errors()
    assert "std. error" not in fit.summary().columns
    assert fit.summary().facts["tail"] == "the worst 50 % of the penalty counts"
    assert fit.standard_errors("bootstrap", n_bootstrap=5, random_state=0).shape == (2,)
