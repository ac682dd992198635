"""Peers on elastic-net paths: glmnet, celer and skglm, with their defaults and as exact as we are.

All fit the lasso at the same strengths. From the coefficients of each side the same code computes the mean objective
along the path, and the KKT residual: by how much the slope of the mean loss in a coefficient leaves the interval that
the penalty allows, at most, as a fraction of the largest strength. *Equal KKT* means the loosest tolerance of a peer at
which its residual is at most ours, or the tightest tolerance that was tried if none achieves that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench import r
from anchortm.bench.engine import WARM_ROWS, Facts, Side, Sizes
from anchortm.bench.rows import Bar, Peer

__all__ = ["PEERS", "kkt_and_objective", "net_data"]

Array = NDArray[np.float64]
Given = dict[str, Any]  # what our side tells a peer: the strengths, and our KKT residual

TRUE = 20  # coefficients that are not 0
SMALLEST = 0.01  # the last strength as a fraction of the first
DEFAULT = 1e-7  # glmnet's own threshold
THRESHOLDS = [DEFAULT, 1e-9, 1e-11, 1e-13, 1e-15, 1e-17, 1e-19]  # the KKT residual falls like the root of it
TIGHTEST = 1e-9  # KKT residual that skglm is asked for; near rounding it takes steps without gain
PATIENCE = 40.0  # seconds after which no tighter threshold is tried
GAPS = [1e-4, 1e-7, 1e-10, 1e-14]  # celer's tolerances: its own first

GLMNET = """
X <- given("X", {p}); y <- given("y"); lambdas <- given("lambdas")
if ("{kind}" == "cox") y <- cbind(time = y, status = given("event"))
family <- list(lm = "gaussian", binary = "binomial", cox = "cox")[["{kind}"]]
done <- best(function() glmnet(X, y, family = family, lambda = lambdas, thresh = {threshold}, standardize = FALSE,
  maxit = 1e7))
give("coefs", as.matrix(done$found$beta)); give("seconds", done$seconds)
give("intercepts", if ("{kind}" == "cox") rep(0, length(lambdas)) else done$found$a0)
"""


def net_data(n: int, p: int, kind: str) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return covariates, an outcome, and whether there was an event."""
    if n <= WARM_ROWS:
        p = min(p, TRUE + 5)  # a first small fit, which triggers the lazy imports
    world, rng = np.random.default_rng(7), np.random.default_rng(8)
    beta = np.zeros(p)
    beta[:TRUE] = 0.3 * world.normal(size=TRUE)
    X = np.asfortranarray(rng.normal(size=(n, p)))
    eta, every = X @ beta, np.ones(n, dtype=bool)
    if kind == "lm":
        return X, eta + rng.normal(size=n), every
    if kind == "binary":
        return X, (eta + rng.logistic(size=n) > 0.0).astype(np.float64), every
    failure, limit = np.exp(-eta) * rng.exponential(size=n), 2.0 * rng.exponential(size=n)
    return X, np.minimum(failure, limit), failure <= limit


def _risk(eta: Array, time: Array, event: NDArray[np.bool_]) -> tuple[float, Array]:
    """Return the mean negative partial log-likelihood and its slopes in eta; no times are tied."""
    late = np.argsort(-time)
    top = eta.max()
    w = np.exp(eta[late] - top)
    at_risk, d = np.cumsum(w), event[late]
    loss = -np.sum((eta[late] - top - np.log(at_risk))[d])
    hazard = np.cumsum((d / at_risk)[::-1])[::-1]  # summed over the events at which a row is at risk
    slope = np.empty_like(eta)
    slope[late] = w * hazard - d
    return float(loss) / eta.size, slope / eta.size


def _loss(kind: str, eta: Array, y: Array, event: NDArray[np.bool_]) -> tuple[float, Array]:
    """Return the mean loss and its slopes in eta."""
    if kind == "cox":
        return _risk(eta, y, event)
    if kind == "binary":
        from scipy.special import expit

        return float(np.logaddexp(0.0, np.where(y > 0.0, -eta, eta)).mean()), (expit(eta) - y) / y.size
    return 0.5 * float((y - eta) @ (y - eta)) / y.size, (eta - y) / y.size


def kkt_and_objective(
    data: tuple[Array, Array, NDArray[np.bool_]], kind: str, lambdas: Array, intercepts: Array, coefs: Array
) -> tuple[float, float]:
    """Return the largest KKT residual of a path, as a fraction of the largest lambda, and the mean objective."""
    X, y, event = data
    worst, total = 0.0, 0.0
    for strength, intercept, b in zip(lambdas, intercepts, coefs, strict=True):
        loss, slope = _loss(kind, intercept + X @ b, y, event)
        g = slope @ X
        off = np.where(b != 0.0, np.abs(g + strength * np.sign(b)), np.maximum(np.abs(g) - strength, 0.0))
        worst = max(worst, float(off.max()), 0.0 if kind == "cox" else abs(float(slope.sum())))
        total += loss + strength * float(np.abs(b).sum())
    return worst / float(np.max(lambdas)), total / len(lambdas)


def _facts(data: Any, kind: str, lambdas: Any, intercepts: Array, coefs: Array) -> Facts:
    kkt, objective = kkt_and_objective(data, kind, np.asarray(lambdas), intercepts, coefs)
    return {"loss": objective, "kkt": kkt}


def net_ours(n: int, p: int, kind: str, strengths: int) -> Side:
    """Return our path at our own lambdas, and tell the peer its counterparts.

    Lm penalises beta = b / sigma, where b is on the scale of y, so the lasso's lambda for b is ours times sigma.
    """
    from anchortm.inputs.response import Surv
    from anchortm.models.cox import CoxPH
    from anchortm.models.transformation import NormalLinear, OrdinalRegression
    from anchortm.selection.elastic_net import elastic_net_path

    X, y, event = data = net_data(n, p, kind)
    make = {"lm": NormalLinear, "binary": OrdinalRegression, "cox": CoxPH}[kind]
    outcome: Any = Surv(y, event) if kind == "cox" else y if kind == "lm" else y.astype(np.int64)
    rows = np.ascontiguousarray(X)

    def facts(path: Any) -> Facts:
        models = [row[0] for row in path.models]
        lambdas, coefs, intercepts = path.lambdas, path.coefs[:, 0], np.zeros(len(models))
        if kind == "lm":
            level, scale = np.array([m.baseline_ for m in models]).T
            lambdas, coefs, intercepts = lambdas / scale, coefs / scale[:, None], -level / scale
        elif kind == "binary":
            intercepts = -np.array([m.baseline_[0] for m in models])
        told = _facts(data, kind, lambdas, intercepts, coefs)
        return told | {
            "given": {"lambdas": lambdas.tolist(), "kkt": told["kkt"]},
            "converged": all(m.converged_ for m in models),
            "note": f"KKT of ours {told['kkt']:.1e}",
        }

    return lambda: elastic_net_path(make(), rows, outcome, None, n_lambdas=strengths, smallest=SMALLEST), facts


def _glmnet(n: int, p: int, kind: str, given: Given, thresholds: list[float]) -> Side:
    """Return glmnet's path at the loosest threshold with a KKT residual of at most ours, or else at the tightest."""
    X, y, event = data = net_data(n, p, kind)
    arrays = {"X": X, "y": y, "event": event, "lambdas": given["lambdas"]}

    def at(threshold: float) -> Facts:
        found = r.run("glmnet", GLMNET.format(p=X.shape[1], kind=kind, threshold=threshold), arrays)
        coefs = found["coefs"].reshape(len(given["lambdas"]), -1)
        told = _facts(data, kind, given["lambdas"], found["intercepts"], coefs)
        note = f"KKT of the peer {told['kkt']:.1e} (thresh = {threshold:g})"
        return told | {"seconds": float(found["seconds"][0]), "memory": None, "note": note}

    def work() -> Facts:
        start, told = time.perf_counter(), at(thresholds[0])
        for threshold in thresholds[1:]:
            if told["kkt"] <= given["kkt"] or time.perf_counter() - start > PATIENCE:
                break
            told = at(threshold)
        return told

    return work, lambda told: told


def net_glmnet(n: int, p: int, kind: str, _: int, given: Given) -> Side:
    """Return glmnet's path at its own threshold."""
    return _glmnet(n, p, kind, given, [DEFAULT])


def net_glmnet_exact(n: int, p: int, kind: str, _: int, given: Given) -> Side:
    """Return glmnet's path at equal KKT."""
    return _glmnet(n, p, kind, given, THRESHOLDS)


def net_celer(n: int, p: int, kind: str, _: int, given: Given) -> Side:
    """Return celer's path of the lasso at equal KKT; it has no intercept, so all columns are centred."""
    from celer import celer_path

    X, y, _event = data = net_data(n, p, kind)
    means, mean = X.mean(axis=0), y.mean()
    centred, target = np.asfortranarray(X - means), y - mean
    lambdas = np.array(given["lambdas"])

    def path(gap: float) -> Array:
        _, coefs, _ = celer_path(centred, target, "lasso", alphas=lambdas, tol=gap, max_iter=1000, max_epochs=100_000)
        return np.asarray(coefs.T)

    def facts(coefs: Array) -> Facts:
        told = _facts(data, kind, lambdas, mean - coefs @ means, coefs)
        return told | {"note": f"KKT of the peer {told['kkt']:.1e}"}

    chosen = GAPS[-1]
    if n > WARM_ROWS:
        chosen = next((gap for gap in GAPS if facts(path(gap))["kkt"] <= given["kkt"]), GAPS[-1])
    return lambda: path(chosen), facts


def net_skglm(n: int, p: int, kind: str, _: int, given: Given) -> Side:
    """Return skglm's logistic regressions at equal KKT, each from the last one."""
    from skglm import SparseLogisticRegression

    X, y, _event = data = net_data(n, p, kind)
    lambdas = given["lambdas"]
    tol = max(given["kkt"], TIGHTEST) * max(lambdas)

    def path() -> tuple[Array, Array]:
        model = SparseLogisticRegression(alpha=1.0, tol=tol, warm_start=True, max_iter=200)
        found = []
        for strength in lambdas:
            model.set_params(alpha=strength).fit(X, y)
            found.append(np.append(np.ravel(model.intercept_), np.ravel(model.coef_)))
        return np.array(found)[:, 0], np.array(found)[:, 1:]

    def facts(found: tuple[Array, Array]) -> Facts:
        told = _facts(data, kind, lambdas, *found)
        return told | {"note": f"KKT of the peer {told['kkt']:.1e}"}

    return path, facts


def _arguments(shape: str, kind: str) -> Callable[[Sizes], list[Any]]:
    return lambda sizes: [*getattr(sizes, shape), kind, sizes.lambdas]


def _peers() -> tuple[Peer, ...]:
    words = {"lm": "Lm", "binary": "binary logit", "cox": "Cox"}
    limits: dict[str, float | None] = {"lm": 2.0, "binary": 3.0, "cox": None}
    found = []
    for kind, shape in [("lm", "broad"), ("lm", "tall"), ("binary", "broad"), ("binary", "tall"), ("cox", "broad")]:
        work, given = f"elastic-net path, {words[kind]}, {{{shape}}}, {{lambdas}} lambdas", _arguments(shape, kind)
        bar = Bar(work, "times glmnet's time at equal KKT", limits[kind])
        found += [
            Peer("nets", work, "R glmnet (its defaults)", "R:glmnet", net_ours, net_glmnet, given),
            Peer("nets", work, "R glmnet (equal KKT)", "R:glmnet", net_ours, net_glmnet_exact, given, bars=(bar,)),
        ]
        if kind == "lm":
            found.append(Peer("nets", work, "celer (equal KKT)", "celer", net_ours, net_celer, given))
        if kind == "binary":
            found.append(Peer("nets", work, "skglm (equal KKT)", "skglm", net_ours, net_skglm, given))
    return tuple(found)


PEERS = _peers()
