"""Peers on generalised linear models: glum. No penalty, xi = 0.

The same code computes the mean losses of both sides from their coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench.engine import Facts, Side, simulate
from anchortm.bench.rows import Bar, Peer

__all__ = ["PEERS"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST = 1.2  # times glum's time


def _binary(n: int) -> tuple[Array, Integers]:
    X, latent, _ = simulate(n)
    return X, (latent > 0.0).astype(np.int64)


def _binary_facts(X: Array, y: Integers, slope: Array, intercept: float) -> Facts:
    h = np.where(y == 1, 1.0, -1.0) * (intercept + X @ slope)
    return {"loss": float(np.logaddexp(0.0, -h).mean()), "coef": slope.tolist()}


def _counts(n: int) -> tuple[Array, Integers]:
    world, rng = np.random.default_rng(13), np.random.default_rng(14)
    X = rng.normal(size=(n, 10))
    return X, rng.poisson(np.exp(0.5 + X @ (0.2 * world.normal(size=10))))


def _count_facts(X: Array, y: Integers, slope: Array, intercept: float) -> Facts:
    """Return the mean loss without log y!, which is the same on both sides."""
    eta = intercept + X @ slope
    return {"loss": float((np.exp(eta) - y * eta).mean()), "coef": slope.tolist()}


def binary_ours(n: int) -> Side:
    """Return an ordinal model with two classes."""
    from anchortm.models.transformation import OrdinalRegression

    X, y = _binary(n)
    return lambda: OrdinalRegression().fit(X, y), lambda m: _binary_facts(X, y, m.coef_, -m.baseline_[0])


def binomial_ours(n: int) -> Side:
    """Return a GLM of the binomial family."""
    from anchortm.models.glm import AnchorGLM

    X, y = _binary(n)
    return lambda: AnchorGLM(family="binomial").fit(X, y), lambda m: _binary_facts(X, y, m.coef_, m.intercept_)


def poisson_ours(n: int) -> Side:
    """Return a GLM of the Poisson family."""
    from anchortm.models.glm import AnchorGLM

    X, y = _counts(n)
    return lambda: AnchorGLM(family="poisson").fit(X, y), lambda m: _count_facts(X, y, m.coef_, m.intercept_)


def _glum(family: str, X: Array, y: Integers, facts: Callable[[Array, Integers, Array, float], Facts]) -> Side:
    from glum import GeneralizedLinearRegressor

    made, target = GeneralizedLinearRegressor(family=family, alpha=0.0), y.astype(float)

    def told(m: Any) -> Facts:
        return facts(X, y, np.asarray(m.coef_), float(m.intercept_))

    return lambda: made.fit(X, target), told


def binary_glum(n: int) -> Side:
    """Return a logistic regression by glum."""
    return _glum("binomial", *_binary(n), _binary_facts)


def poisson_glum(n: int) -> Side:
    """Return a Poisson regression by glum."""
    return _glum("poisson", *_counts(n), _count_facts)


def _peer(work: str, ours: Callable[[int], Side], theirs: Callable[[int], Side]) -> Peer:
    bar = Bar(f"{work}, no penalty, n = {{glm}}", "times glum's time", MOST)
    given = lambda sizes: [sizes.glm]  # noqa: E731
    return Peer("glum", f"{work}, no penalty", "glum (its defaults)", "glum", ours, theirs, given, bars=(bar,))


PEERS = (
    _peer("binary logit, OrdinalRegression", binary_ours, binary_glum),
    _peer("binary logit, AnchorGLM", binomial_ours, binary_glum),
    _peer("Poisson, AnchorGLM", poisson_ours, poisson_glum),
)
