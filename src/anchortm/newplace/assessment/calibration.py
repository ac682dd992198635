"""Are predictions for left-out places calibrated? Coverage of intervals, and probability integral transforms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from anchortm._typing import Array
from anchortm.exceptions import AnchorTMError, AnchorTMWarning
from anchortm.inputs.missing import settled
from anchortm.models.given import Given
from anchortm.newplace.conformal import ConformalPredictor
from anchortm.predict.widths import width_of
from anchortm.scores import pit
from anchortm.selection.held import Held
from anchortm.selection.left_out_table import left_out
from anchortm.selection.places import Places

__all__ = ["BINS", "LEVELS", "Calibration", "ConformalWidth", "calibration", "conformal_width"]

LEVELS = (0.5, 0.8, 0.9)
BINS = 10


@dataclass(frozen=True, eq=False)
class Calibration:
    """How well intervals for left-out places cover, by maximum likelihood and at other values of xi.

    Attributes
    ----------
    xis : list of float
        Strengths of the penalty; the first is 0.
    transforms : dict
        For each xi and place (by its number) the probability integral transforms of its rows, with weights.
    held : dict
        The rows of each place with what the fit to the others predicts for them.
    """

    xis: list[float]
    transforms: dict[float, dict[int, tuple[Array, Array]]]
    held: Mapping[int, Held] = field(default_factory=dict, repr=False)

    def predictions(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Return the predicted median and 90 % interval of each row, by the fit to the other places."""
        rows = []
        for e, own in self.held.items():
            lower, median, upper = (np.asarray(own.distributions[0.0].ppf(q)).tolist() for q in (0.05, 0.5, 0.95))
            for at, low, middle, high in zip(own.rows.positions.tolist(), lower, median, upper, strict=True):
                rows.append({"row": at, "place": labels[e], "lower": low, "median": middle, "upper": high})
        return sorted(rows, key=lambda row: row["row"])

    def coverage(self, xi: float) -> Array:
        """Return the share of rows in central intervals of each level, averaged over places."""
        own = [self.of_place(xi, e) for e in self.transforms[xi]]
        return np.mean(own, axis=0) if own else np.full(len(LEVELS), math.nan)

    def of_place(self, xi: float, e: int) -> Array:
        """Return the share of the rows of one place in central intervals of each level; NaN if unknown."""
        if e not in self.transforms[xi]:
            return np.full(len(LEVELS), math.nan)
        u, w = self.transforms[xi][e]
        return np.array([np.average(np.abs(u - 0.5) <= 0.5 * level, weights=w) for level in LEVELS])

    def histogram(self, xi: float) -> Array:
        """Return the share of rows in each of ten bins of the transforms; 0.1 each if predictions are calibrated."""
        parts = self.transforms[xi].values()
        u, w = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        counts = np.histogram(u, bins=BINS, range=(0.0, 1.0), weights=w)[0]
        return np.asarray(counts / counts.sum())


def calibration(
    rows: Given, places: Places, xis: Sequence[float], cut: int | None, n_jobs: int | None, seed: int
) -> Calibration:
    """Return the calibration of predictions for left-out places at some values of xi."""
    rows = replace(rows, environments=rows.anchors if rows.environments is None else rows.environments)
    found = left_out(rows, None, ("xi",), list(xis), cut, n_jobs, None)
    rng = np.random.default_rng(seed)
    code = {label: e for e, label in enumerate(places.labels.tolist())}
    transforms: dict[float, dict[int, tuple[Array, Array]]] = {xi: {} for xi in xis}
    for label, held in found.held.items():
        draw = int(rng.integers(2**31))
        weights = np.ones(len(held.rows.y)) if held.rows.weights is None else held.rows.weights
        for xi, distribution in held.distributions.items():
            if xi in transforms and label in code:
                transforms[xi][code[label]] = pit(distribution, held.rows.y, random_state=draw), weights
    kept = {code[label]: own for label, own in found.held.items() if label in code and 0.0 in own.distributions}
    return Calibration(list(xis), {xi: own for xi, own in transforms.items() if own}, kept)


@dataclass(frozen=True, eq=False)
class ConformalWidth:
    """What a promise of coverage at a new place costs in width.

    Attributes
    ----------
    level : float
        Share of rows that intervals are to cover.
    nominal_level : float
        The level that the model's own central intervals need for that.
    width, model_width : float
        Median width of the promised intervals, and of the model's own at ``level``; NaN for lower bounds.
    n_places, needed : int
        Number of places to calibrate on, and how many are needed.
    """

    level: float
    nominal_level: float
    width: float
    model_width: float
    n_places: int
    needed: int

    @property
    def sentence(self) -> str:
        """Return the answer in words."""
        if not self.nominal_level < 1.0:
            return (
                f"A promise of {self.level:.0%} coverage at a new place needs {self.needed} places to calibrate on "
                f"(besides those of the fit), and there are {self.n_places}."
            )
        share = f"{self.nominal_level:.1%}" if self.nominal_level < 0.9995 else "99.9% or more"
        start = (
            f"With {self.n_places} places to calibrate on, the promise to cover {self.level:.0%} of the outcomes at a "
        )
        start += f"new place needs the central {share} of each predicted distribution"
        if not math.isfinite(self.width) or not self.model_width > 0.0:
            return f"{start}."
        ratio = self.width / self.model_width
        width, own = float(f"{self.width:.3g}"), float(f"{self.model_width:.3g}")
        return (
            f"{start}. Intervals become {ratio:.2g} times as wide as the model's own {self.level:.0%} intervals: their "
            f"median width is {width:g} instead of {own:g}."
        )


def conformal_width(
    model: Any, raw: Mapping[str, Any], at: Any, cut: int | None, seed: int, level: float = 0.9
) -> ConformalWidth:
    """Return how wide intervals must be to cover at a new place, even if the model is wrong.

    Parameters
    ----------
    model : estimator
        It is fitted by maximum likelihood to half of the places.
    raw : mapping
        X, y, anchors, environments, sample_weight and offset as users gave them, without rows that were dropped.
    at : covariates
        Rows at which widths are measured.
    cut : int or None
        Numeric environments are cut into this many groups.
    seed : int
        Seed of the halves.
    level : float
        Share of rows to cover.
    """
    from sklearn.base import clone

    predictor = ConformalPredictor(clone(model).set_params(xi=0.0), level, random_state=seed, cut=cut)
    with catch_warnings(), settled(None):  # the rows are without missing values
        simplefilter("ignore", AnchorTMWarning)  # the sentence reports infinite sets
        predictor.fit(**raw)
    n, needed = len(predictor.calibration_environments_), int(predictor.places_needed_)
    width = model_width = math.nan
    if math.isfinite(predictor.threshold_):
        try:
            lower, upper = predictor.predict_interval(at)
            own = width_of(predictor.model_.predict_distribution(at))
            width, model_width = float(np.median(upper - lower)), float(np.median(own))
        except (AnchorTMError, TypeError):  # lower bounds only, classes, or rows without their offset
            width = model_width = math.nan
    return ConformalWidth(level, float(predictor.nominal_level_), width, model_width, n, needed)
