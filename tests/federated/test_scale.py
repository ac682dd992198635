"""Scale effects at sites: what they have beside the fit, and parameters that make the scale of a few rows large."""

from __future__ import annotations

import numpy as np
import pytest
from federated_cases import coordinator, table

import anchortm as atm
from anchortm.exceptions import InputError, SeparationError
from anchortm.federated import Policy

DATA, FOUR = table(), table(900, 4)
SUPPORT = [-2.0, 4.0]
TIGHT = 1e-11
FORMULA = "y ~ x + z | site"


@pytest.mark.parametrize("xi_scale", [None, 0.0, 2.0])
def test_paths_scores_and_covariances(xi_scale: float | None) -> None:
    own = {"order": 4, "scale": ["x"], "xi_scale": xi_scale, "tol": TIGHT}
    asked = coordinator(DATA, FORMULA, support=SUPPORT)
    found = asked.path(atm.ContinuousLogit(**own), [0, 1, 10])
    same = atm.anchor_path(atm.ContinuousLogit(**own, support=SUPPORT), FORMULA, DATA, xis=[0, 1, 10])
    np.testing.assert_allclose(found.coefs, same.coefs, atol=1e-10)
    fitted = asked.fit(atm.ContinuousLogit(**own), xi=1.0)
    pooled = atm.ContinuousLogit.from_formula(FORMULA, DATA, **own, support=SUPPORT, xi=1.0)
    np.testing.assert_allclose(fitted.result_.others, pooled.result_.others, atol=1e-10)
    assert fitted.penalty_ == pytest.approx(pooled.penalty_, rel=1e-9)
    assert fitted.result_.scale.penalty == pytest.approx(pooled.result_.scale.penalty, rel=1e-9)
    scores = asked.score(fitted).set_index("site")
    for name, rows in DATA.groupby("site"):
        assert scores.nll[name] == pytest.approx(pooled.nll(rows, None).mean(), rel=1e-10)
    np.testing.assert_allclose(asked.covariance(fitted), pooled.covariance(), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(fitted.predict(DATA), pooled.predict(DATA), atol=1e-7)


def test_leaving_out_sites_is_leaving_out_environments() -> None:
    model = atm.ContinuousLogit(order=3, scale=["x"])
    found = coordinator(FOUR, FORMULA, support=SUPPORT).leave_one_site_out(model, [0, 1]).frame()
    pooled = atm.ContinuousLogit(order=3, scale=["x"], support=SUPPORT)
    own = atm.leave_one_environment_out(pooled, FORMULA, FOUR, xis=[0, 1]).frame()
    assert list(found.columns) == list(own.columns)
    numbers = [name for name in own if name not in ("environment", "notes", "converged")]
    np.testing.assert_allclose(found[numbers], own[numbers], atol=1e-9)


def test_elastic_nets_have_the_same_zeros() -> None:
    own = {"order": 3, "scale": ["x"], "l1": 0.05, "tol": TIGHT}
    formula = "y ~ x + z + w + o | site"
    found = coordinator(DATA, formula, support=SUPPORT).fit(atm.ContinuousLogit(**own), xi=1.0)
    same = atm.ContinuousLogit.from_formula(formula, DATA, **own, support=SUPPORT, xi=1.0)
    np.testing.assert_allclose(found.result_.others, same.result_.others, atol=1e-9)
    assert (same.coef_ == 0.0).any()


def test_assessments_have_no_score_test() -> None:
    exact = Policy(least_cell=1)
    found = coordinator(FOUR, FORMULA, policy=exact, support=SUPPORT).assess(
        atm.ContinuousLogit(order=3, scale=["x"]), [1]
    )
    assert found.test is None
    assert found.calibration is not None
    assert any("not implemented with scale effects" in note for note in found.notes)


def test_anchors_that_sites_share_are_refused() -> None:
    data = DATA.assign(ward=DATA.ward.astype(str))
    with pytest.raises(InputError, match="not implemented together"):
        coordinator(data, "y ~ x | ward", across=True).fit(atm.NormalLinear(scale=["x"]), xi=1.0)


def test_groups_without_a_scale_are_named() -> None:
    """All rows with z = c have one outcome, so that their scale goes to 0."""
    data = DATA.assign(grade=np.where(DATA.z == "c", 1, DATA.grade))
    model = atm.OrdinalRegression(scale="z")
    with pytest.raises(SeparationError, match=r"scale|separation"):
        coordinator(data, "grade ~ z | site", policy=Policy(least_effective=0.0)).fit(model, xi=0.0)


def shown(policy: Policy | None) -> float:
    """Return the outcome that totals show if the scale of the row with the largest x is far above that of all others.

    The gradient of the baseline is the sum of r exp(zeta) a(y), and so nearly that of this row: its ratios are a(y).
    """
    asked = coordinator(DATA, "y ~ x | site", False, policy)
    problem = asked.problem(atm.NormalLinear(scale=["x"]))
    objective = problem.objective
    v = problem.start(objective)
    v[-1] = 12.0
    gradient, at = objective.derivatives(v).gradient, objective.coordinates
    return float(at.mean[1] + at.scale[1] * gradient[1] / gradient[0])


def test_scales_that_single_out_rows_are_refused() -> None:
    assert shown(Policy(least_effective=0.0)) == pytest.approx(DATA.y[DATA.x.idxmax()], abs=0.1)
    with pytest.raises(ArithmeticError, match="a site withholds its sums"):
        shown(None)
