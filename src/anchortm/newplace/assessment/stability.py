"""How often a recommendation changes if places are resampled: their losses are resampled, nothing is refitted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.newplace.comparison import Comparison
from anchortm.newplace.paired import paired, studentised
from anchortm.selection.further import ANCHORED, graded
from anchortm.selection.tuning import Tuning, best_factor

__all__ = ["DRAWS", "differences", "fitted_differences", "stability_further", "stability_like"]

DRAWS = 500


def differences(found: Comparison) -> tuple[list[str], Array]:
    """Return the strategies besides ml, and the regret of each (rows) at each left-out place (columns)."""
    frame = found.frame()
    own = frame[(frame["design"] == "like") & ~frame["strategy"].isin(["null", "ml"])]
    names = list(dict.fromkeys(own["strategy"].tolist()))
    wide = own.pivot(index="strategy", columns="environment", values="regret").reindex(names)
    return names, wide.to_numpy(dtype=np.float64)


def fitted_differences(found: Comparison) -> tuple[list[str], Array]:
    """Return ``differences`` without strategies that failed at most places, and without places where others failed."""
    names, regret = differences(found)
    if not names:
        return names, regret
    usable = np.isfinite(regret).mean(axis=1) > 0.5
    names, regret = [name for name, good in zip(names, usable, strict=True) if good], regret[usable]
    return names, regret[:, np.isfinite(regret).all(axis=0)]


def stability_like(found: Comparison, seed: int = 0, draws: int = DRAWS) -> dict[str, float] | None:
    """Return the share of draws of places in which each strategy is recommended for a place like these.

    None if there are too few places for any recommendation.
    """
    names, regret = fitted_differences(found)
    if not names or not np.isfinite(critical := paired(regret).critical):
        return None
    n = regret.shape[1]
    drawn = regret[:, np.random.default_rng(seed).integers(n, size=(draws, n))]
    mean = np.where(studentised(drawn) <= -critical, drawn.mean(axis=-1), 0.0)
    taken = np.where((mean < 0.0).any(axis=0), mean.argmin(axis=0), -1)
    return _shares("ml" if k < 0 else names[k] for k in taken.tolist())


def stability_further(tuning: Tuning, seed: int = 0, draws: int = DRAWS) -> dict[str, float]:
    """Return the share of draws in which anchoring, or maximum likelihood, is recommended for a place further out.

    The places of each fold are drawn with replacement among those of the fold.
    """
    rng = np.random.default_rng(seed)
    losses = [np.array(own) for own in zip(*(tuning.losses_by_fold(k) for k in range(len(tuning.xis))), strict=True)]
    wider = [np.zeros(own.shape[1]) for own in losses]
    if tuning.has_spread:
        factor = best_factor(tuning, 0, None, np.ones(len(tuning.folds), dtype=bool))
        at_factor = tuning.losses_by_fold(0, factor)
        wider = [own[0] - stretched for own, stretched in zip(losses, at_factor, strict=True)]
    same = np.array([fold.side == "same" for fold in tuning.folds])
    picks = [rng.integers(own.shape[1], size=(draws, own.shape[1])) for own in losses]
    mean = np.array([own[:, pick].mean(axis=-1) for own, pick in zip(losses, picks, strict=True)])  # fold, xi, draw
    gains = np.array([own[pick].mean(axis=-1) for own, pick in zip(wider, picks, strict=True)])
    found = []
    for k in range(draws):
        own = mean[:, :, k]
        at = int(np.nanargmin(own.mean(axis=0))) if np.isfinite(own).any() else 0
        grade = graded(own[:, 0] - own[:, at], gains[:, k], same, tuning.xis[at])
        found.append("anchored" if grade in ANCHORED else "ml")
    return _shares(found)


def _shares(answers: Any) -> dict[str, float]:
    """Return how often each answer is given, the most frequent first."""
    counts = Counter(answers)
    total = sum(counts.values())
    return {name: count / total for name, count in counts.most_common()}
