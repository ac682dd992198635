"""Side by side with other Python software."""

import math
import warnings

import numpy as np
import pytest
from reference_fits import COVARIATES, boston_response, data

import anchortm as atm

BOSTON = data("BostonHousing2")
X, Y, TOWN = BOSTON[COVARIATES].to_numpy(), BOSTON.cmedv.to_numpy(), BOSTON.town.to_numpy()
DUMMIES = (TOWN[:, None] == np.unique(TOWN)).astype(float)


@pytest.mark.parametrize("gamma", [1.0, 2.0, 13.0, 1001.0])
def test_ivmodels_anchor_regression(gamma: float) -> None:
    from ivmodels.models.anchor_regression import AnchorRegression

    peer = AnchorRegression(gamma=gamma).fit(X, Y, Z=DUMMIES[:, 1:])
    ours = atm.NormalLinear(xi=atm.xi_from_gamma(gamma)).fit(X, Y, anchors=TOWN)
    np.testing.assert_allclose(ours.slope_, np.ravel(peer.coef_), rtol=1e-7)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_statsmodels_ordered_model(link: str) -> None:
    from scipy import stats
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    distr = {"logit": "logit", "probit": "probit", "cloglog": stats.gumbel_l}[link]
    y = boston_response("ord6").codes
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 2026-11-15: the peer's own warnings, not ours
        peer = OrderedModel(y, scaled, distr=distr).fit(method="bfgs", disp=False, maxiter=2000, gtol=1e-8)
    ours = atm.OrdinalRegression(link=link).fit(scaled, y)
    assert ours.loglik_ == pytest.approx(peer.llf, abs=1e-5)
    assert ours.loglik_ >= peer.llf - 1e-7
    np.testing.assert_allclose(ours.coef_, peer.params[: X.shape[1]], atol=2e-4)


@pytest.mark.parametrize(
    ("dist", "fitter"),
    [
        ("weibull", "WeibullAFTFitter"),
        ("lognormal", "LogNormalAFTFitter"),
        ("loglogistic", "LogLogisticAFTFitter"),
    ],
)
def test_lifelines_accelerated_failure_times(dist: str, fitter: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 2026-11-15: the peer's own warnings, not ours
        import lifelines

        frame = BOSTON[COVARIATES].assign(t=Y, e=(Y != 50).astype(int))
        peer = getattr(lifelines, fitter)().fit(frame, "t", "e")
    ours = atm.ParametricSurvival(dist=dist).fit(X, atm.Surv(Y, Y != 50))
    assert ours.loglik_ == pytest.approx(peer.log_likelihood_, abs=1e-3)
    assert ours.loglik_ >= peer.log_likelihood_ - 1e-6
    location = peer.params_.xs(peer._primary_parameter_name, level=0)
    np.testing.assert_allclose(ours.coef_ / ours.baseline_[1], location[COVARIATES], rtol=2e-2, atol=2e-4)


@pytest.mark.parametrize("xi", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("model", ["Lm", "c-probit"])
def test_cvxpy_on_the_published_formulation(model: str, xi: float) -> None:
    import cvxpy as cp

    ours = atm.NormalLinear(xi=xi) if model == "Lm" else atm.ContinuousProbit(xi=xi)
    ours.fit(X, Y, anchors=TOWN)
    B, D = ours.basis_.rows(Y), ours.basis_.derivative_rows(Y)
    scaled = X / X.std(axis=0)
    theta, beta = cp.Variable(B.shape[1]), cp.Variable(X.shape[1])
    z = B @ theta - scaled @ beta
    root = DUMMIES / np.sqrt(DUMMIES.sum(axis=0))
    loss = 0.5 * cp.sum_squares(z) - cp.sum(cp.log(D @ theta)) + xi * cp.sum_squares(root.T @ z)
    constraints = [cp.diff(theta) >= 0] if model == "c-probit" else []
    problem = cp.Problem(cp.Minimize(loss), constraints)
    problem.solve(solver="CLARABEL")
    value = problem.value / len(Y) + 0.5 * math.log(2 * math.pi)
    assert ours.loss_ == pytest.approx(value, rel=1e-7)
    assert ours.loss_ <= value + 1e-9
    np.testing.assert_allclose(ours.coef_ * X.std(axis=0), beta.value, atol=2e-4)
