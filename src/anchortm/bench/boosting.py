"""Peers on boosted trees: anchorboosting, and LightGBM without anchors.

The mean loss is the anchor loss of a normal distribution at the predictions for the training rows, with the best
variance; the same code computes it for both sides. All grow trees of 8 leaves at a learning rate of 0.1, but choose
splits differently: LightGBM bins the covariates, and we do so in our own way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench.convex import least_squares_loss
from anchortm.bench.engine import Facts, Side, Sizes, outcome
from anchortm.bench.rows import Bar, Peer

__all__ = ["PEERS"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
LEAVES, LEAST = 8, 20  # leaves of a tree, and least rows of a leaf
TREES = {"num_leaves": LEAVES, "min_child_samples": LEAST, "learning_rate": 0.1}
XI = 2.0


def _data(n: int, levels: int = 100) -> tuple[Array, Array, Codes]:
    """Return covariates, an outcome that is not linear in them, and environments."""
    world, rng = np.random.default_rng(15), np.random.default_rng(16)
    site, hidden = rng.integers(0, levels, n), rng.normal(size=n)
    X = rng.normal(size=(n, 10)) + 0.5 * world.normal(size=levels)[site][:, None]
    X[:, 0] += hidden
    f = np.sin(X[:, 0]) + X[:, 1] * (X[:, 2] > 0.0) + 0.5 * np.abs(X[:, 3])
    return X, f + hidden + rng.normal(size=n), site


def _facts(y: Array, site: Codes, mean: Any, xi: float) -> Facts:
    return {"loss": least_squares_loss(y - np.asarray(mean), site, xi)}


def _ours(n: int, rounds: int, xi: float) -> Side:
    from anchortm.models.boosted.estimator import AnchorBoostedTM
    from anchortm.models.transformation import NormalLinear

    X, y, site = _data(n)
    model = AnchorBoostedTM(NormalLinear(), xi, n_rounds=rounds, max_leaf_nodes=LEAVES, min_samples_leaf=LEAST)
    anchors = site if xi else None
    return lambda: model.fit(X, y, anchors=anchors), lambda m: _facts(y, site, m.predict(X), xi)


def lm_ours(n: int, rounds: int) -> Side:
    """Return a boosted Lm with anchors."""
    return _ours(n, rounds, XI)


def plain_ours(n: int, rounds: int) -> Side:
    """Return a boosted Lm without anchors."""
    return _ours(n, rounds, 0.0)


def c_logit_ours(n: int, rounds: int) -> Side:
    """Return a boosted c-logit model with anchors."""
    from anchortm.models.boosted.estimator import AnchorBoostedTM
    from anchortm.models.transformation import ContinuousLogit

    X, y, site = _data(n)
    model = AnchorBoostedTM(ContinuousLogit(), XI, n_rounds=rounds, max_leaf_nodes=LEAVES, min_samples_leaf=LEAST)
    response = outcome(y)
    return lambda: model.fit(X, response, anchors=site), lambda _: {}


def lm_anchorboosting(n: int, rounds: int) -> Side:
    """Return anchor boosting by anchorboosting; codes of levels are its fastest way to give a factor."""
    from anchorboosting import AnchorBooster

    X, y, site = _data(n)
    return (
        lambda: AnchorBooster(gamma=2.0 * XI + 1.0, num_boost_round=rounds, verbose=-1, **TREES).fit(X, y, Z=site),
        lambda m: _facts(y, site, m.predict(X), XI),
    )


def plain_lightgbm(n: int, rounds: int) -> Side:
    """Return boosted squared errors by LightGBM."""
    from lightgbm import LGBMRegressor

    X, y, site = _data(n)
    model = LGBMRegressor(n_estimators=rounds, reg_lambda=1.0, n_jobs=1, verbose=-1, **TREES)
    return lambda: model.fit(X, y), lambda m: _facts(y, site, m.predict(X), 0.0)


def _arguments(sizes: Sizes) -> list[int]:
    return [sizes.boosted, sizes.rounds]


WORK, TIMES = "boosted Lm, xi = 2, n = {boosted}, {rounds} rounds", "times anchorboosting's time"
SPLITS = "the trees differ"

PEERS = (
    Peer(
        "boosting",
        "boosted Lm, xi = 2, 100 levels",
        "anchorboosting",
        "anchorboosting",
        lm_ours,
        lm_anchorboosting,
        _arguments,
        note=SPLITS,
        same=False,
        bars=(
            Bar(f"{WORK}, compiled kernels", TIMES, 1.5, kernels="compiled"),
            Bar(f"{WORK}, NumPy only", TIMES, 2.0, kernels="numpy"),
        ),
    ),
    Peer(
        "boosting",
        "boosted c-logit, xi = 2, 100 levels",
        "anchorboosting (squared errors)",
        "anchorboosting",
        c_logit_ours,
        lm_anchorboosting,
        _arguments,
        note="a whole distribution against a mean",
        same=False,
    ),
    Peer(
        "boosting",
        "boosted Lm, xi = 0",
        "LightGBM",
        "lightgbm",
        plain_ours,
        plain_lightgbm,
        _arguments,
        note=SPLITS,
        same=False,
    ),
)
