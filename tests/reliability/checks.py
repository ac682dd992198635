"""What a fit claims of itself, checked by means of its public face alone."""

from __future__ import annotations

import numpy as np
from parameters import moved


def anchor_loss(model, X, y, anchors=None, sample_weight=None) -> float:
    """Return the anchor loss of a model's parameters, from its row values and a projection by QR."""
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    loglik, n = -model.nll(X, y), weights.sum()
    loss = float(-(weights @ loglik) / n)
    if model.xi_ and anchors is not None:
        levels, codes = np.unique(anchors, return_inverse=True)  # a factor: the constant is in its span
        root = np.sqrt(weights)
        sums = np.zeros(levels.size)
        np.add.at(sums, codes, weights * model.residuals(X, y))
        loss += model.xi_ * float((sums**2 / np.bincount(codes, root**2)).sum()) / n
    return loss


def no_lower_place_nearby(model, X, y, *, anchors=None, sample_weight=None, tries: int = 20, size: float = 1e-3) -> int:
    """Assert that no random feasible place around the estimate has a lower loss; return how many were tried."""
    here = anchor_loss(model, X, y, anchors, sample_weight)
    np.testing.assert_allclose(here, model.loss_, rtol=1e-8, atol=1e-10)
    rng = np.random.default_rng(0)
    tried, increments = 0, model.basis_.increments
    inverse = np.linalg.inv(increments.matrix)
    for _ in range(tries):
        step = model.result_.jacobian @ (size * rng.normal(size=model.result_.jacobian.shape[1]))
        theta = model.baseline_ + step[: model.baseline_.size]
        delta = np.clip(inverse @ theta, increments.lower, increments.upper)
        other = moved(model, increments.matrix @ delta, model.coef_ + step[model.baseline_.size :])
        there = anchor_loss(other, X, y, anchors, sample_weight)
        assert not there < here - 1e-9 * (1.0 + abs(here)), (there, here)
        tried += 1
    return tried
