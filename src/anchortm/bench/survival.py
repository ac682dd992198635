"""Peers on ordinal and time-to-event data: statsmodels, lifelines, scikit-survival. Maximum likelihood, xi = 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench.engine import Facts, Side, classes, simulate

__all__ = [
    "cox_ours",
    "cox_scikit_survival",
    "ordinal",
    "ordinal_facts",
    "ordinal_ours",
    "ordinal_statsmodels",
    "partial_facts",
    "partial_lifelines",
    "partial_ours",
    "partial_scikit_survival",
    "partial_statsmodels",
    "spline_cox_lifelines",
    "spline_cox_ours",
    "times",
    "weibull_facts",
    "weibull_lifelines",
    "weibull_ours",
]

Array = NDArray[np.float64]
UNIT = 10.0  # unit of time for the spline peer, which fails at some sizes without it


def ordinal(n: int) -> tuple[Array, NDArray[np.intp]]:
    """Return covariates and six ordered classes."""
    X, latent, _ = simulate(n)
    return X, classes(latent)


def ordinal_facts(X: Array, y: NDArray[np.intp], thresholds: Array, beta: Array) -> Facts:
    """Return the mean loss of class k: -log(F(theta_k - x'b) - F(theta_(k-1) - x'b)), F logistic."""
    from scipy.special import expit

    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
    shift = X @ beta
    loss = -np.log(expit(ends[y + 1] - shift) - expit(ends[y] - shift))
    return {"loss": float(loss.mean()), "coef": beta.tolist()}


def ordinal_ours(n: int) -> Side:
    """Return an ordinal logit fit."""
    from anchortm.models.transformation import OrdinalRegression

    X, y = ordinal(n)
    return lambda: OrdinalRegression().fit(X, y), lambda m: ordinal_facts(X, y, m.baseline_, m.coef_)


def ordinal_statsmodels(n: int) -> Side:
    """Return an ordinal logit fit by statsmodels."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    X, y = ordinal(n)

    def facts(found: Any) -> Facts:
        thresholds = found.model.transform_threshold_params(found.params)[1:-1]
        return ordinal_facts(X, y, thresholds, np.asarray(found.params[: X.shape[1]]))

    return lambda: OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=False, maxiter=500), facts


def times(n: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return covariates, times from a Weibull model with random censoring, and whether there was an event."""
    world, rng = np.random.default_rng(3), np.random.default_rng(4)
    beta, X = 0.3 * world.normal(size=10), rng.normal(size=(n, 10))
    failure = 10.0 * np.exp((X @ beta + np.log(rng.exponential(size=n))) / 1.5)
    limit = 10.0 * np.exp(rng.normal(size=n) + 0.5)
    return X, np.minimum(failure, limit), failure <= limit


def _frame(X: Array, time: Array, event: NDArray[np.bool_]) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(time=time, event=event)


def weibull_facts(n: int, theta: Array, beta: Array) -> Facts:
    """Return the mean loss with h = theta_0 + theta_1 log t - x'b: -event (h + log h') + exp(h)."""
    X, time, event = times(n)
    h = theta[0] + theta[1] * np.log(time) - X @ beta
    loss = np.exp(h) - event * (h + np.log(theta[1] / time))
    return {"loss": float(loss.mean()), "coef": (beta / theta[1]).tolist()}


def weibull_ours(n: int) -> Side:
    """Return a Weibull fit."""
    from anchortm.inputs.response import Surv
    from anchortm.models.transformation import ParametricSurvival

    X, time, event = times(n)
    y = Surv(time, event)
    work = ParametricSurvival(dist="weibull").fit
    return lambda: work(X, y), lambda m: weibull_facts(n, m.baseline_, m.coef_)


def weibull_lifelines(n: int) -> Side:
    """Return a Weibull fit by lifelines: log t scales with exp(lambda), shape exp(rho)."""
    from lifelines import WeibullAFTFitter

    frame = _frame(*times(n))

    def facts(found: Any) -> Facts:
        scale = found.params_.xs("lambda_", level=0)
        rho = float(np.exp(found.params_[("rho_", "Intercept")]))
        slope = scale.drop("Intercept").to_numpy()
        return weibull_facts(n, np.array([-rho * scale["Intercept"], rho]), rho * slope)

    return lambda: WeibullAFTFitter().fit(frame, "time", "event"), facts


def cox_ours(n: int) -> Side:
    """Return a proportional hazards fit with a Bernstein baseline in log t."""
    from anchortm.inputs.response import Surv
    from anchortm.models.transformation import ProportionalHazards

    X, time, event = times(n)
    y = Surv(time, event)
    return lambda: ProportionalHazards(log_first=True).fit(X, y), lambda m: {"coef": m.coef_.tolist()}


def spline_cox_ours(n: int) -> Side:
    """Return the same fit with its loss."""
    work, _ = cox_ours(n)
    return work, lambda m: {"loss": -m.loglik_ / n, "coef": m.coef_.tolist()}


def spline_cox_lifelines(n: int) -> Side:
    """Return proportional hazards with a spline baseline by lifelines, and the loss that it reports."""
    from lifelines import CoxPHFitter

    X, time, event = times(n)
    frame = _frame(X, time / UNIT, event)

    def facts(found: Any) -> Facts:
        beta = found.params_.xs("beta_", level=0).drop("Intercept", errors="ignore").to_numpy()
        return {"loss": -found.log_likelihood_ / n + event.mean() * math.log(UNIT), "coef": beta.tolist()}

    fitter = {"baseline_estimation_method": "spline", "n_baseline_knots": 4}
    return lambda: CoxPHFitter(**fitter).fit(frame, "time", "event"), facts


def cox_scikit_survival(n: int) -> Side:
    """Return a Cox fit by scikit-survival."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    X, time, event = times(n)
    y = np.empty(n, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = event, time
    return lambda: CoxPHSurvivalAnalysis(ties="breslow").fit(X, y), lambda m: {"coef": m.coef_.tolist()}


def partial_facts(n: int, beta: Array) -> Facts:
    """Return the mean loss of the partial likelihood; no times are tied."""
    from anchortm.engine.rows.risk_sets import Outcome, row_logliks

    X, time, event = times(n)
    rows = row_logliks(Outcome(time, event, None, None, None, None, "breslow"), X @ beta)
    return {"loss": -float(rows.mean()), "coef": beta.tolist()}


def partial_ours(n: int) -> Side:
    """Return a Cox fit by the partial likelihood."""
    from anchortm.inputs.response import Surv
    from anchortm.models.cox import CoxPH

    X, time, event = times(n)
    y = Surv(time, event)
    return lambda: CoxPH().fit(X, y), lambda m: partial_facts(n, m.coef_)


def partial_scikit_survival(n: int) -> Side:
    """Return the same by scikit-survival."""
    return cox_scikit_survival(n)[0], lambda m: partial_facts(n, m.coef_)


def partial_lifelines(n: int) -> Side:
    """Return the same by lifelines."""
    from lifelines import CoxPHFitter

    frame = _frame(*times(n))
    return lambda: CoxPHFitter().fit(frame, "time", "event"), lambda m: partial_facts(n, m.params_.to_numpy())


def partial_statsmodels(n: int) -> Side:
    """Return the same by statsmodels."""
    from statsmodels.duration.hazard_regression import PHReg

    X, time, event = times(n)
    return lambda: PHReg(time, X, status=event.astype(int)).fit(disp=False), lambda m: partial_facts(n, m.params)
