"""Peers in R on ordinal and time-to-event data and with random intercepts: survival, ordinal, lme4.

The same code computes the mean losses of both sides from their parameters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench import r, survival
from anchortm.bench.engine import Facts, Side, classes
from anchortm.bench.rows import Bar, Peer

__all__ = ["PEERS"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
ROWS_A_CLUSTER = 10  # average cluster size of the ordinal data
NODES = 60  # for the loss with random intercepts; 40 give the same 10 digits

COX = """
X <- given("X", 10); y <- Surv(given("time"), given("event"))
done <- best(function() coxph(y ~ X, ties = "breslow"))
give("coef", coef(done$found)); give("seconds", done$seconds)
"""
WEIBULL = """
X <- given("X", 10); y <- Surv(given("time"), given("event"))
done <- best(function() survreg(y ~ X, dist = "weibull"))
give("coef", coef(done$found)); give("scale", done$found$scale); give("seconds", done$seconds)
"""
CLM = """
X <- given("X", 10); y <- factor(given("y"))
done <- best(function() clm(y ~ X, link = "logit"))
give("thresholds", done$found$alpha); give("coef", done$found$beta); give("seconds", done$seconds)
"""
CLMM = """
X <- given("X", 3); y <- factor(given("y")); cluster <- factor(given("cluster"))
done <- best(function() clmm(y ~ X + (1 | cluster), link = "logit", nAGQ = 7))
give("thresholds", done$found$alpha); give("coef", done$found$beta); give("sd", done$found$ST[[1]])
give("seconds", done$seconds)
"""
LMER = """
X <- given("X", 10); y <- given("y"); cluster <- factor(given("cluster"))
done <- best(function() lmer(y ~ X + (1 | cluster), REML = FALSE))
give("coef", fixef(done$found)); give("sigma", sigma(done$found))
give("sd", attr(VarCorr(done$found)$cluster, "stddev")); give("seconds", done$seconds)
"""


def partial_coxph(n: int) -> Side:
    """Return a Cox fit by R's coxph."""
    X, time, event = survival.times(n)
    arrays = {"X": X, "time": time, "event": event}
    return r.side("survival", COX, arrays, lambda found: survival.partial_facts(n, found["coef"]))


def weibull_survreg(n: int) -> Side:
    """Return a Weibull fit by R's survreg: log t = intercept + x'b + scale * error."""
    X, time, event = survival.times(n)

    def facts(found: dict[str, Array]) -> Facts:
        (intercept, *slope), scale = found["coef"], float(found["scale"][0])
        return survival.weibull_facts(n, np.array([-intercept, 1.0]) / scale, np.array(slope) / scale)

    return r.side("survival", WEIBULL, {"X": X, "time": time, "event": event}, facts)


def ordinal_clm(n: int) -> Side:
    """Return an ordinal logit fit by R's clm."""
    X, y = survival.ordinal(n)

    def facts(found: dict[str, Array]) -> Facts:
        return survival.ordinal_facts(X, y, found["thresholds"], found["coef"])

    return r.side("ordinal", CLM, {"X": X, "y": y}, facts)


def _clustered(n: int, clusters: int, p: int) -> tuple[Array, Array, Codes]:
    """Return covariates, the linear predictor with random intercepts of variance 1, and clusters."""
    world, rng = np.random.default_rng(9), np.random.default_rng(10)
    cluster = rng.integers(0, clusters, n)
    X = rng.normal(size=(n, p))
    return X, X @ (0.5 * world.normal(size=p)) + rng.normal(size=clusters)[cluster], cluster


def _ordinal_clusters(n: int) -> tuple[Array, NDArray[np.intp], Codes]:
    X, eta, cluster = _clustered(n, n // ROWS_A_CLUSTER, 3)
    return X, classes(eta + np.random.default_rng(11).logistic(size=n)), cluster


def _ordinal_cluster_facts(n: int, thresholds: Array, beta: Array, sd: float) -> Facts:
    """Return the mean loss: the probabilities of a cluster's rows, integrated over its intercept (Gauss-Hermite)."""
    from scipy.special import expit, logsumexp

    X, y, cluster = _ordinal_clusters(n)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
    shift = (X @ beta)[:, None] + sd * nodes
    rows = np.log(expit(ends[y + 1][:, None] - shift) - expit(ends[y][:, None] - shift))
    sums = np.zeros((cluster.max() + 1, NODES))
    np.add.at(sums, cluster, rows)
    loglik = logsumexp(sums + np.log(weights / weights.sum()), axis=1).sum()
    return {"loss": -float(loglik) / n, "coef": [*beta.tolist(), sd]}


def clusters_ours(n: int) -> Side:
    """Return an ordinal logit fit with random intercepts."""
    from anchortm.models.transformation import OrdinalRegression

    X, y, cluster = _ordinal_clusters(n)
    table = np.column_stack([X, cluster])
    work = OrdinalRegression(random=X.shape[1]).fit

    def facts(m: Any) -> Facts:
        return _ordinal_cluster_facts(n, m.baseline_, m.coef_, float(m.random_sd_.iloc[0]))

    return lambda: work(table, y), facts


def clusters_clmm(n: int) -> Side:
    """Return the same by R's clmm."""
    X, y, cluster = _ordinal_clusters(n)

    def facts(found: dict[str, Array]) -> Facts:
        return _ordinal_cluster_facts(n, found["thresholds"], found["coef"], abs(float(found["sd"][0])))

    return r.side("ordinal", CLMM, {"X": X, "y": y, "cluster": cluster}, facts)


def _normal_clusters(n: int, clusters: int) -> tuple[Array, Array, Codes]:
    X, eta, cluster = _clustered(n, min(clusters, n // 2), 10)
    return X, 3.0 + eta + 2.0 * np.random.default_rng(12).normal(size=n), cluster


def _intercept_facts(X: Array, y: Array, cluster: Codes, slope: Array, intercept: float, s: float, tau: float) -> Facts:
    """Return the mean loss of y ~ N(intercept + x'b, s^2 I + tau^2 1 1') in each cluster of m rows.

    With q = tau^2 / s^2 the determinant of the covariance V is s^(2m) (1 + m q), and
    e'V^-1 e = (e'e - q (1'e)^2 / (1 + m q)) / s^2.
    """
    e, q = y - intercept - X @ slope, (tau / s) ** 2
    m = np.bincount(cluster)
    totals = np.bincount(cluster, e)
    form = (e @ e - np.sum(q * totals**2 / (1.0 + m * q))) / s**2
    loss = 0.5 * (y.size * math.log(2.0 * math.pi * s**2) + np.log1p(m * q).sum() + form)
    return {"loss": float(loss) / y.size, "coef": [*slope.tolist(), tau]}


def intercept_ours(n: int, clusters: int) -> Side:
    """Return Lm with random intercepts; its parameters on the scale of y."""
    from anchortm.models.transformation import NormalLinear

    X, y, cluster = _normal_clusters(n, clusters)
    table = np.column_stack([X, cluster])
    work = NormalLinear(random=X.shape[1]).fit

    def facts(m: Any) -> Facts:
        level, scale = m.baseline_
        tau = float(m.random_sd_.iloc[0]) / scale
        return _intercept_facts(X, y, cluster, m.coef_ / scale, -level / scale, 1.0 / scale, tau)

    return lambda: work(table, y), facts


def intercept_lmer(n: int, clusters: int) -> Side:
    """Return the same by R's lmer, with maximum likelihood."""
    X, y, cluster = _normal_clusters(n, clusters)

    def facts(found: dict[str, Array]) -> Facts:
        sigma, tau = float(found["sigma"][0]), float(found["sd"][0])
        return _intercept_facts(X, y, cluster, found["coef"][1:], float(found["coef"][0]), sigma, tau)

    return r.side("lme4", LMER, {"X": X, "y": y, "cluster": cluster}, facts)


PEERS = (
    Peer(
        "random-intercept",
        "Lm with random intercepts",
        "R lme4 lmer (ML)",
        "R:lme4",
        intercept_ours,
        intercept_lmer,
        lambda sizes: [sizes.clustered, sizes.clusters],
        bars=(
            Bar("Lm with random intercepts, n = {clustered}, {clusters} clusters", "times faster than lmer", 1.0, True),
        ),
    ),
    Peer(
        "random-intercept",
        f"ordinal logit with random intercepts, clusters of about {ROWS_A_CLUSTER}",
        "R ordinal clmm (7 nodes)",
        "R:ordinal",
        clusters_ours,
        clusters_clmm,
        lambda sizes: [sizes.clustered_ordinal],
    ),
    Peer(
        "R",
        "partial likelihood, right-censored",
        "R survival coxph",
        "R:survival",
        survival.partial_ours,
        partial_coxph,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "R",
        "Weibull, right-censored",
        "R survival survreg",
        "R:survival",
        survival.weibull_ours,
        weibull_survreg,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "R",
        "ordinal logit, K = 6",
        "R ordinal clm",
        "R:ordinal",
        survival.ordinal_ours,
        ordinal_clm,
        lambda sizes: [sizes.ordinal],
    ),
)
