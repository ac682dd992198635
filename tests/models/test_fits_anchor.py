"""The anchor loss at xi from 0 to 1e4 against an independent solver, and what is known of other minima."""

import json

import numpy as np
import pytest
from paths import REFERENCE
from reference_fits import COVARIATES, boston_response, data, response_and_design

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning

BOSTON = data("BostonHousing2")
CASES = {
    "full_Lm_exact": lambda: atm.NormalLinear(),
    "full_cprobit_exact": lambda: atm.ContinuousProbit(),
    "full_clogit_rc_papersupport": lambda: atm.ContinuousLogit(),
    "full_lehmann_exact": lambda: atm.Lehmann(),
    "full_ordlogit_6": lambda: atm.OrdinalRegression(),
    "other_wine_Polr_logistic": lambda: atm.OrdinalRegression(),
}
cases = pytest.mark.parametrize("case", CASES)


def reference(name: str):
    return json.loads((REFERENCE / "anchor" / f"{name}.json").read_text())


def inputs(case: str):
    if case.startswith("full"):
        kind = {"full_clogit_rc_papersupport": "rc", "full_ordlogit_6": "ord6"}.get(case, "exact")
        return BOSTON[COVARIATES].to_numpy(), boston_response(kind), BOSTON.town
    y, X = response_and_design("wine_Polr_logistic")
    return X, y, data("wine").judge


def model_of(case: str, wanted: dict):
    model = CASES[case]()
    if wanted["support"] and "support" in model.get_params():
        model.set_params(support=tuple(wanted["support"]))
    return model


@cases
def test_path_equals_the_reference(case: str) -> None:
    wanted = reference(case)
    model = model_of(case, wanted)
    path = atm.anchor_path(model, *inputs(case), [r["xi"] for r in wanted["results"]])
    factor = wanted["sign_of_xbeta"] * model._sign
    for result, fitted in zip(wanted["results"], path.models, strict=True):
        assert fitted.converged_
        assert fitted.loss_ == pytest.approx(result["objective_mean"], rel=1e-9)
        assert fitted.penalty_ == pytest.approx(result["penalty_mean"], rel=1e-6)
        np.testing.assert_allclose(factor * fitted.coef_, result["beta"], atol=1e-6)
        np.testing.assert_allclose(fitted.baseline_, result["theta"], atol=1e-6)
        assert fitted.min_eigenvalue_ > 0


@cases
def test_one_fit_equals_the_path(case: str) -> None:
    wanted = reference(case)
    X, y, anchors = inputs(case)
    for result in wanted["results"][2::2]:
        alone = model_of(case, wanted).set_params(xi=result["xi"]).fit(X, y, anchors=anchors)
        assert alone.loss_ == pytest.approx(result["objective_mean"], rel=1e-9)


@pytest.mark.parametrize("n_restarts", [5, pytest.param(20, marks=pytest.mark.slow)])
@cases
def test_no_restart_finds_a_lower_loss(case: str, n_restarts: int) -> None:
    wanted = reference(case)
    model = model_of(case, wanted).set_params(n_restarts=n_restarts, random_state=1)
    path = atm.anchor_path(model, *inputs(case), [r["xi"] for r in wanted["results"]])
    assert [m.lower_minima_ for m in path.models] == [[] for _ in path.models]


def test_the_authors_own_solutions_are_ours() -> None:
    """CVXR with ECOS on the published formulation, Lm and c-probit; it stops at its solver's tolerance."""
    X, town = BOSTON[COVARIATES].to_numpy(), BOSTON.town
    for record in reference("cvxr_paper"):
        model = atm.NormalLinear() if record["model"] == "Lm" else atm.ContinuousProbit(support=(12.9, 34.65))
        model.set_params(xi=float(record["xi"])).fit(X, BOSTON.cmedv, anchors=town)
        assert model.loss_ == pytest.approx(record["objective_mean"], rel=1e-6)
        assert model.loss_ <= record["objective_mean"] + 1e-9
        np.testing.assert_allclose(model.coef_, record["beta"], atol=2e-3)


@pytest.mark.parametrize("name", ["cgd_Coxph", "cgd_Colr"])
@pytest.mark.filterwarnings("ignore:the branch connected")  # 2026-11-15: what this test is about
def test_cgd_has_several_minima_and_we_stay_on_the_branch(name: str) -> None:
    records = [r for r in reference("cgd_local_minima") if r["model"] == name]
    y, X = response_and_design(name)
    model = (atm.ProportionalHazards if name == "cgd_Coxph" else atm.ContinuousLogit)(support=(82.0, 373.0))
    xis = [r["xi"] for r in records]
    path = atm.anchor_path(model, X, y, data("cgd_first_event").center, xis)
    for record, fitted in zip(records, path.models, strict=True):
        assert fitted.converged_
        assert fitted.loss_ == pytest.approx(record["warm_path_objective"], rel=1e-8)
    # another grid, the same branch
    sparse = atm.anchor_path(model, X, y, data("cgd_first_event").center, [xis[-1]])
    assert sparse.models[0].loss_ == pytest.approx(path.models[-1].loss_, rel=1e-9)
    np.testing.assert_allclose(sparse.coefs[0], path.coefs[-1], atol=1e-6)


def test_the_branch_of_cgd_folds() -> None:
    """What a warm start on a coarse grid jumps over: the smallest curvature reaches zero near xi = 401."""
    y, X = response_and_design("cgd_Colr")
    center = data("cgd_first_event").center
    make = atm.ContinuousLogit
    curvature = [make(xi=xi, support=(82.0, 373.0)).fit(X, y, anchors=center).min_eigenvalue_ for xi in (390, 400, 401)]
    assert curvature[0] > curvature[1] > curvature[2] > 0
    assert curvature[2] < 0.01
    with pytest.warns(AnchorTMWarning, match="ends near xi = 40[01]"):
        beyond = make(xi=410.0, support=(82.0, 373.0)).fit(X, y, anchors=center)
    assert beyond.min_eigenvalue_ > 0.05
    assert beyond.converged_


@pytest.mark.filterwarnings("ignore:the branch connected")  # 2026-11-15: xi = 1e4 lies beyond the fold
def test_restarts_find_the_lower_minima_of_cgd() -> None:
    (record,) = [r for r in reference("cgd_local_minima") if r["model"] == "cgd_Colr" and r["xi"] == 1e4]
    y, X = response_and_design("cgd_Colr")
    model = atm.ContinuousLogit(xi=1e4, support=(82.0, 373.0), n_restarts=60, random_state=3)
    model.fit(X, y, anchors=data("cgd_first_event").center)
    assert model.loss_ == pytest.approx(record["warm_path_objective"], rel=1e-8)
    assert min(model.lower_minima_) == pytest.approx(record["best_objective"], rel=1e-6)
    assert model.convexity_ == "none"
    assert len(model.folds_) >= 1
    assert "lower found" in str(model.summary())
