"""Random legal data for random models, each case made by a few named choices and a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from slow_fit import Baseline, SlowModel

import anchortm as atm

DISTS = {
    "weibull": ("cloglog", None),
    "lognormal": ("probit", None),
    "loglogistic": ("logit", None),
    "exponential": ("cloglog", 1.0),
    "rayleigh": ("cloglog", 2.0),
}
NAMED = {
    "ContinuousProbit": "probit",
    "ContinuousLogit": "logit",
    "ProportionalHazards": "cloglog",
    "Lehmann": "loglog",
}
BASES = ("bernstein", "linear", "log-linear", "ordinal", "count")

CHOICES: dict[str, list[Any]] = {
    "model": [
        *["NormalLinear"] * 3,
        *[name for name in NAMED for _ in range(3)],
        *["ParametricSurvival"] * 3,
        *["OrdinalRegression"] * 4,
        *["CountRegression"] * 3,
        *["AnchorTM"] * 3,
    ],
    "link": ["probit", "logit", "cloglog", "loglog"],
    "basis": list(BASES),
    "dist": list(DISTS),
    "n": [20, 30, 50, 80],
    "p": [0, 1, 2, 3],
    "kinds": ["exact", "right", "left", "interval", "grid", "mixed", "mixed"],
    "truncation": [*[None] * 12, *["entry"] * 4, *["both"] * 3, "late entry"],
    "anchors": ["factor", "numeric", "two factors", "two numeric", "mixed", "words"],
    "anchor_intercept": [True, True, True, False],
    "weights": [None, None, "fractions", "whole", "zeros"],
    "offset": [False, False, True],
    "xi": [0.0, 0.0, 0.05, 0.5, 1.0, 10.0, 1e3, math.inf, -0.3],
    "order": [1, 2, 3, 4, 6],
    "support": [None, "wide", "narrow"],
    "log_first": [False, True],
    "extrapolate": ["linear", "linear", "natural"],
    "units": [1.0, 1.0, 1e-3, 1e4],
}


@dataclass(frozen=True)
class Case:
    """What a fit is made of: an estimator, its inputs, and the same loss for the slow fit once the support is known."""

    choices: dict[str, Any]
    estimator: Any
    X: np.ndarray
    y: Any
    anchors: Any
    weights: np.ndarray | None
    offset: np.ndarray | None
    lower: np.ndarray
    upper: np.ndarray
    entry: np.ndarray | None
    exit: np.ndarray | None
    link: str
    sign: float
    basis: str

    @property
    def xi(self) -> float:
        return self.estimator.xi

    def inputs(self) -> dict[str, Any]:
        return {"anchors": self.anchors, "sample_weight": self.weights, "offset": self.offset}

    def fit(self) -> Any:
        return self.estimator.fit(self.X, self.y, **self.inputs())

    def slow(self, support: tuple[float, float] | None, xi: float | None = None) -> SlowModel:
        """Return the same loss for the slow fit, without rows of weight zero."""
        n = self.lower.size
        weights = np.ones(n) if self.weights is None else self.weights
        use = weights > 0.0
        choices, lower, upper = self.choices, self.lower[use], self.upper[use]
        baseline = Baseline(
            self.basis,
            choices["order"],
            (0.0, 1.0) if support is None else support,
            log_first(self.estimator),
            choices["extrapolate"] == "natural",
            DISTS[choices["dist"]][1] if choices["model"] == "ParametricSurvival" else None,
            0 if self.basis != "ordinal" else np.unique(self.upper[use]).size,
        )
        if self.basis == "ordinal":  # classes that have rows
            code = np.unique(upper, return_inverse=True)[1].astype(float)
            lower, upper = np.where(code == 0, -np.inf, code - 1), np.where(code == code.max(), np.inf, code)
        return SlowModel(
            self.link,
            baseline,
            lower,
            upper,
            self.X[use],
            self.sign,
            weights[use],
            np.zeros(use.sum()) if self.offset is None else self.offset[use],
            None if self.anchors is None else dense_anchors(self.anchors, choices["anchor_intercept"])[use],
            self.xi if xi is None else xi,
            None if self.entry is None else self.entry[use],
            None if self.exit is None else self.exit[use],
        )

    def subset(self, rows: Any) -> Case:
        """Return the case with these rows, any number of times."""

        def take(values: Any) -> Any:
            return None if values is None else values[rows]

        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            anchors=None if self.anchors is None else [column[rows] for column in self.anchors],
            weights=take(self.weights),
            offset=take(self.offset),
            lower=self.lower[rows],
            upper=self.upper[rows],
            entry=take(self.entry),
            exit=take(self.exit),
        )


def log_first(estimator: Any) -> bool:
    return bool(getattr(estimator, "log_first", False))


def dense_anchors(columns: list[np.ndarray], intercept: bool) -> np.ndarray:
    """Return anchors as columns: dummies of factors, numbers as they are, the constant if asked for."""
    found = [np.ones((len(columns[0]), 1))] if intercept else []
    for column in columns:
        if column.dtype.kind == "f":
            found.append(column[:, None])
        else:
            found.append(pd.get_dummies(pd.Series(column)).to_numpy(dtype=float))
    return np.hstack(found)


def make_case(seed: int, **choices: Any) -> Case:
    """Return the case of these choices; some that do not go together are changed, the same way each time."""
    rng = np.random.default_rng(seed)
    choices = {"seed": seed} | choices
    name = choices["model"]
    basis = {"NormalLinear": "linear", "ParametricSurvival": "log-linear", "OrdinalRegression": "ordinal"}.get(name)
    basis = basis or {"CountRegression": "count", "AnchorTM": choices["basis"]}.get(name, "bernstein")
    link = NAMED.get(name) or {"NormalLinear": "probit", "ParametricSurvival": DISTS[choices["dist"]][0]}.get(
        name, choices["link"]
    )
    if choices["xi"] < 0.0:
        if name != "NormalLinear":
            choices["xi"] = 0.0
        else:
            choices |= {"xi": float(rng.choice([-0.5, -0.3, -0.1])), "kinds": "exact", "truncation": None}
    n, p = choices["n"], choices["p"]
    if basis not in ("bernstein", "count"):
        choices["extrapolate"] = "linear"
    positive = basis == "log-linear" or (basis == "bernstein" and choices["log_first"])
    X, anchors, eta = covariates_and_anchors(rng, n, p, choices["anchors"])
    weights = make_weights(rng, n, choices["weights"])
    offset = rng.normal(scale=0.5, size=n) if choices["offset"] else None
    z = eta + (0.0 if offset is None else offset) + noise(rng, link, n)
    sign = 1.0 if name == "ProportionalHazards" else -1.0
    if sign > 0:
        z = -z
    arguments: dict[str, Any] = {"xi": choices["xi"], "anchor_intercept": choices["anchor_intercept"]}
    entry = exit_ = None
    if basis == "ordinal":
        y, lower, upper = classes(rng, z, n)
        arguments["link"] = link
    elif basis == "count":
        y, lower, upper, entry = counts(rng, z, choices)
        arguments["link"] = link
    else:
        y, lower, upper, entry, exit_ = outcomes(rng, z, positive, choices)
    if name == "AnchorTM":
        arguments |= {"link": link, "basis": basis}
    if name == "ParametricSurvival":
        arguments["dist"] = choices["dist"]
    if basis in ("bernstein", "count"):
        arguments |= {"order": choices["order"], "log_first": choices["log_first"]}
        arguments |= {"extrapolate": choices["extrapolate"], "support": pick_support(choices, lower, upper, basis)}
    estimator = getattr(atm, name)(**arguments)
    given = anchors if choices["xi"] != 0.0 or rng.random() < 0.5 else None
    return Case(choices, estimator, X, y, given, weights, offset, lower, upper, entry, exit_, link, sign, basis)


def covariates_and_anchors(rng: Any, n: int, p: int, kind: str) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return covariates, anchors and a linear predictor that a hidden variable confounds."""
    anchors: list[np.ndarray] = []
    for part in {
        "factor": "f",
        "numeric": "x",
        "two factors": "ff",
        "two numeric": "xx",
        "mixed": "fx",
        "words": "w",
    }[kind]:
        codes = rng.integers(0, int(rng.integers(2, 6)), n)
        if part == "x":
            anchors.append(rng.normal(size=n) * 10.0 ** rng.integers(-2, 3))
        else:
            anchors.append(np.array(["a", "bb", "c c", "d1", "é"])[codes] if part == "w" else codes)
    push = sum(
        (column - column.mean()) / (column.std() or 1.0)
        for column in (
            np.unique(a, return_inverse=True)[1].astype(float) if a.dtype.kind != "f" else a for a in anchors
        )
    )
    hidden = rng.normal(size=n)
    X = rng.normal(size=(n, p)) + 0.6 * push[:, None] * rng.normal(size=p) + 0.6 * hidden[:, None]
    if p > 1 and rng.random() < 0.4:
        X[:, 1] = X[:, 1] > 0.0
    eta = X @ rng.normal(scale=0.7, size=p) + 0.4 * rng.normal() * push + 0.4 * hidden
    if p and rng.random() < 0.3:
        X = X * 10.0 ** rng.integers(-3, 4, size=p) + rng.integers(-3, 4, size=p)
    return X, anchors, eta


def noise(rng: Any, link: str, n: int) -> np.ndarray:
    draws = {"probit": rng.normal, "logit": rng.logistic, "loglog": rng.gumbel}
    return draws[link](size=n) if link in draws else -rng.gumbel(size=n)


def make_weights(rng: Any, n: int, kind: str | None) -> np.ndarray | None:
    if kind is None:
        return None
    if kind == "fractions":
        return rng.uniform(0.1, 3.0, n)
    return rng.integers(0 if kind == "zeros" else 1, 4, n).astype(float)


def classes(rng: Any, z: np.ndarray, n: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return ordered classes and their codes as (lower, upper]."""
    k = int(rng.integers(2, 6))
    cuts = np.sort(rng.choice(np.arange(1, 10), k - 1, replace=False)) / 10.0
    codes = np.digitize(z, np.quantile(z, cuts)).astype(float)
    labels = [
        np.array([3, 5, 7, 8, 20]),
        np.array(["a1", "b2", "c3", "d4", "e5"]),
        np.array([-1.5, 0.0, 2.0, 3.0, 9.0]),
    ]
    y = labels[rng.integers(3)][codes.astype(int)]
    return y, codes - 1.0, codes


def counts(rng: Any, z: np.ndarray, choices: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray, Any]:
    """Return counts, some of them censored or truncated."""
    k = np.floor(np.exp(np.clip(0.6 * z + rng.uniform(0.0, 2.0), -5.0, 7.0)))
    lower, upper = k - 1.0, k.copy()
    if choices["kinds"] in ("exact", "left", "interval"):
        return k.astype(int) if rng.random() < 0.5 else k, lower, upper, None
    right = rng.random(k.size) < 0.3
    wide = ~right & (rng.random(k.size) < 0.2)
    shown_low = np.where(right | wide, np.maximum(k - 1.0, 0.0), k)
    shown_high = np.where(right, np.inf, np.where(wide, k + 2.0, k))
    lower = np.where(right | wide, shown_low, lower)
    upper = shown_high.copy()
    entry = None
    if choices["truncation"] == "entry":
        entry = np.where(rng.random(k.size) < 0.5, -np.inf, np.floor(0.5 * lower))
        entry = np.where(entry < 0.0, -np.inf, entry)
    return atm.Interval(shown_low, shown_high, entry=entry), lower, upper, entry


def outcomes(rng: Any, z: np.ndarray, positive: bool, choices: dict[str, Any]) -> tuple[Any, ...]:
    """Return numbers or times, censored and truncated as the choices say."""
    n = z.size
    kinds, truncation, unit = choices["kinds"], choices["truncation"], choices["units"]
    if choices["model"] in ("NormalLinear", "AnchorTM") and kinds == "right":
        kinds = "mixed"
    times = positive or kinds == "right" or (kinds == "mixed" and rng.random() < 0.3)
    y = np.exp(0.5 * z) if times else z
    width = 0.05 + rng.exponential(0.7, size=(2, n)) * (y if times else 1.0)
    below, above = y - width[0], y + width[1]
    if times:
        lowest = np.where(rng.random(n) < 0.5, 0.0, -np.inf) if positive and kinds != "right" else 0.2 * y
        below = np.where(below <= 0.0, lowest, below)
    kind = {
        "exact": np.zeros(n, dtype=int),
        "right": np.where(rng.random(n) < 0.4, 2, 0),
        "left": np.where(rng.random(n) < 0.4, 1, 0),
        "interval": np.full(n, 3),
        "grid": np.full(n, 3),
        "mixed": rng.integers(0, 4, n),
    }[kinds]
    if kinds == "grid":
        cut = rng.choice([0.25, 0.5, 1.0])
        below, above = cut * np.floor(y / cut), cut * (np.floor(y / cut) + 1.0)
    lower = np.where(kind == 0, y, np.where(kind == 1, -np.inf, below))
    upper = np.where(kind == 0, y, np.where(kind == 2, np.inf, above))
    lower, upper, y, width = lower * unit, upper * unit, y * unit, width * unit
    entry = exit_ = None
    if truncation is not None:
        # rows enter at times of their own, those that would be too late from the start; "late" ones shortly before
        base = np.where(np.isfinite(lower), lower, np.minimum(y, upper) - width[0])
        gap = rng.exponential(1.0, n) * unit + 1e-3 * unit
        early = np.quantile(y, 0.3) * rng.uniform(0.0, 1.5, n) if times else rng.normal(y.mean() - y.std(), y.std())
        entry = np.where((kind == 1) | (early >= base), -np.inf, early)
        if truncation == "late entry":
            entry = np.where(kind == 1, -np.inf, rng.uniform(0.0, 0.95, n) * base if times else base - gap)
        if times:
            entry = np.where(entry <= 0.0, -np.inf, entry)
        if truncation == "both" and kinds != "right":
            top = np.where(np.isfinite(upper), upper, lower + width[1])
            exit_ = np.where((kind == 2) | (rng.random(n) < 0.5), np.inf, top + gap)
    if kinds == "right":
        return atm.Surv(np.where(kind == 0, y, lower), kind == 0, entry), lower, upper, entry, None
    if kinds == "exact" and truncation is None:
        return y, lower, upper, None, None
    given = atm.Interval(lower, upper, entry=entry, exit=exit_)
    if entry is not None:  # an outcome in (lower, upper] that is beyond entry is in their intersection
        exact = lower == upper
        lower = np.where(exact, lower, np.maximum(lower, entry))
    if exit_ is not None:
        upper = np.where(lower == upper, upper, np.minimum(upper, exit_))
    return given, lower, upper, entry, exit_


def pick_support(choices: dict[str, Any], lower: np.ndarray, upper: np.ndarray, basis: str) -> Any:
    if choices["support"] is None:
        return None
    ends = np.r_[lower[np.isfinite(lower)], upper[np.isfinite(upper)]]
    if basis == "count" or choices["log_first"]:
        ends = ends[ends > 0.0] if basis != "count" else np.maximum(ends, 0.0)
    low, high = np.quantile(ends, (0.0, 1.0) if choices["support"] == "wide" else (0.25, 0.75))
    if basis == "count":
        low, high = math.floor(low), math.ceil(high)
    return None if not low < high else (float(low), float(high))
