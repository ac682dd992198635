"""Peers on convex problems: cvxpy with Clarabel on the paper's formulation, ivmodels.

The losses of both sides are computed from their parameters by the same code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench.bars import COVARIATES
from anchortm.bench.engine import Facts, Side, outcome, simulate

__all__ = [
    "anchor_regression_ivmodels",
    "c_probit_cvxpy",
    "c_probit_cvxpy_simulated",
    "c_probit_ours",
    "least_squares_loss",
    "linear_anchor_ours",
    "lm_cvxpy",
    "lm_ours",
    "normal_linear_ours",
]

Array = NDArray[np.float64]
XI = 10.0


def within_levels(values: Array, codes: NDArray[Any]) -> Array:
    """Return P v for one factor: each value replaced by the mean of its level."""
    _, codes = np.unique(codes, return_inverse=True)
    return np.asarray((np.bincount(codes, values) / np.bincount(codes))[codes])


def _boston(n: int) -> tuple[Array, Array, NDArray[Any]]:
    """Return covariates with standard deviation 1, prices and towns."""
    from anchortm.datasets import load_boston_housing2

    data = load_boston_housing2().iloc[:n]
    X = data[COVARIATES].to_numpy(dtype=float)
    return X / X.std(axis=0), data.cmedv.to_numpy(dtype=float), data.town.to_numpy()


def _normal_loss(B: Array, D: Array, X: Array, codes: NDArray[Any], theta: Array, beta: Array) -> float:
    """Return the anchor loss of exact rows under the normal distribution: h = B theta - X beta, h' = D theta."""
    z = B @ theta - X @ beta
    loss = 0.5 * z @ z - np.log(D @ theta).sum() + XI * z @ within_levels(z, codes)
    return float(loss / z.size + 0.5 * math.log(2.0 * math.pi))


def _ours(make: Any, X: Array, y: Array, codes: NDArray[Any]) -> Side:
    def facts(model: Any) -> Facts:
        B, D = model.basis_.rows(y), model.basis_.derivative_rows(y)
        return {
            "loss": _normal_loss(B, D, X, codes, model.baseline_, model.coef_),
            "coef": model.coef_.tolist(),
            "converged": bool(model.converged_),
        }

    return lambda: make(xi=XI).fit(X, y, anchors=codes), facts


def _cvxpy(make: Any, X: Array, y: Array, codes: NDArray[Any]) -> Side:
    """Return the paper's formulation for cvxpy, with the basis of our model."""
    import cvxpy as cp

    basis = make().fit(X, y).basis_
    B, D = basis.rows(y), basis.derivative_rows(y)
    A = (codes[:, None] == np.unique(codes)).astype(float)
    A /= np.sqrt(A.sum(axis=0))

    def work() -> tuple[Array, Array, float]:
        theta, beta = cp.Variable(B.shape[1]), cp.Variable(X.shape[1])
        z = B @ theta - X @ beta
        loss = 0.5 * cp.sum_squares(z) - cp.sum(cp.log(D @ theta)) + XI * cp.sum_squares(A.T @ z)
        problem = cp.Problem(cp.Minimize(loss), [cp.diff(theta) >= 0])
        problem.solve(solver="CLARABEL")
        return theta.value, beta.value, problem.solver_stats.solve_time

    def facts(found: tuple[Array, Array, float]) -> Facts:
        theta, beta, solver = found
        return {
            "loss": _normal_loss(B, D, X, codes, theta, beta),
            "coef": beta.tolist(),
            "note": f"its solver alone {solver:.2g} s, the rest is cvxpy's translation",
        }

    return work, facts


def lm_ours(n: int) -> Side:
    """Return Lm on BostonHousing2."""
    from anchortm.models.transformation import NormalLinear

    return _ours(NormalLinear, *_boston(n))


def lm_cvxpy(n: int) -> Side:
    """Return Lm on BostonHousing2 by cvxpy."""
    from anchortm.models.transformation import NormalLinear

    return _cvxpy(NormalLinear, *_boston(n))


def c_probit_ours(n: int) -> Side:
    """Return c-probit on BostonHousing2."""
    from anchortm.models.transformation import ContinuousProbit

    return _ours(ContinuousProbit, *_boston(n))


def c_probit_cvxpy(n: int) -> Side:
    """Return c-probit on BostonHousing2 by cvxpy."""
    from anchortm.models.transformation import ContinuousProbit

    return _cvxpy(ContinuousProbit, *_boston(n))


def c_probit_cvxpy_simulated(n: int) -> Side:
    """Return c-probit at one xi on simulated rows by cvxpy."""
    from anchortm.models.transformation import ContinuousProbit

    X, latent, site = simulate(n)
    return _cvxpy(ContinuousProbit, X, outcome(latent), site)


def least_squares_loss(e: Array, codes: NDArray[Any], xi: float) -> float:
    """Return the anchor loss of Lm with errors e and the best sigma: sigma^2 = (|(I - P) e|^2 + gamma |P e|^2) / n."""
    variance = (e @ e + 2.0 * xi * (e @ within_levels(e, codes))) / e.size
    return 0.5 * math.log(2.0 * math.pi * variance) + 0.5


def _anchor_facts(X: Array, y: Array, codes: NDArray[Any], slope: Array, intercept: float) -> Facts:
    return {"loss": least_squares_loss(y - intercept - X @ slope, codes, XI), "coef": slope.tolist()}


def normal_linear_ours(n: int) -> Side:
    """Return Lm on simulated rows; its coefficients on the scale of y."""
    from anchortm.models.transformation import NormalLinear

    X, y, site = simulate(n)

    def facts(model: Any) -> Facts:
        scale = model.baseline_[1]
        return _anchor_facts(X, y, site, model.coef_ / scale, -model.baseline_[0] / scale)

    return lambda: NormalLinear(xi=XI).fit(X, y, anchors=site), facts


def linear_anchor_ours(n: int) -> Side:
    """Return linear anchor regression."""
    from anchortm.competitors.linear import LinearAnchorRegression

    X, y, site = simulate(n)
    work = LinearAnchorRegression(gamma=2.0 * XI + 1.0).fit
    return lambda: work(X, y, anchors=site), lambda m: _anchor_facts(X, y, site, m.coef_, m.intercept_)


def anchor_regression_ivmodels(n: int) -> Side:
    """Return linear anchor regression by ivmodels, which takes the anchors as columns."""
    from ivmodels.models.anchor_regression import AnchorRegression

    X, y, site = simulate(n)
    Z = (site[:, None] == np.unique(site)[1:]).astype(
        float
    )  # without the first level, because the peer adds a constant

    def facts(model: Any) -> Facts:
        return _anchor_facts(X, y, site, np.ravel(model.coef_), float(model.intercept_))

    return lambda: AnchorRegression(gamma=2.0 * XI + 1.0).fit(X, y, Z=Z), facts
