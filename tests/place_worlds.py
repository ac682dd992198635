"""Simulated worlds whose truth about a new place is known."""

from __future__ import annotations

import numpy as np
import pandas as pd


def world(kind: str, places: int, rows: int, seed: int, level: float | None = None):
    """Return covariates, outcome and place of each row; with a level, of one new place."""
    rng = np.random.default_rng(seed)
    size = 1 if level is not None else places
    levels = rng.normal(size=size) if level is None else np.array([level])
    e = np.repeat(np.arange(size), rows)
    if kind == "hidden cause":
        hidden = rng.normal(size=e.size)
        x = levels[e] + hidden + 0.5 * rng.normal(size=e.size)
        y = 0.3 * x + 1.5 * hidden + rng.normal(size=e.size)
    else:
        x = 0.3 * levels[e] + rng.normal(size=e.size)
        scale = np.exp(0.7 * rng.normal(size=size))[e] if kind == "noise differs" else 1.0
        own = 0.5 * rng.normal(size=size)[e] if kind == "random intercepts" else 0.0
        y = 0.8 * x + own + scale * rng.normal(size=e.size)
    return pd.DataFrame({"x": x, "y": y, "place": e})
