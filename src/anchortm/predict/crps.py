"""The CRPS of continuous outcomes: the integral of F^2 below y and of (1 - F)^2 above it.

At the edges of panels it is a smooth function of the shift. From the edge below y it changes by the integral of
F^2 - (1 - F)^2 = 2 F - 1 over a part of one panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._typing import Array
from anchortm.predict.along_shift import along_shift
from anchortm.predict.integrals import Panels, lowest, rows_alike, rows_by_baseline
from anchortm.predict.moments import SHARED, tail_slope

if TYPE_CHECKING:
    from anchortm.predict.distribution import PredictedDistribution

__all__ = ["crps_of_numbers"]

Work = Callable[["PredictedDistribution", Array], Array]


def crps_of_numbers(distribution: PredictedDistribution, y: Array, otherwise: Work) -> Array:
    """Return the CRPS of continuous outcomes; rows that cannot be integrated over y are scored ``otherwise``.

    Those are rows with mass at infinity, rows known to exceed something, and baselines whose quantiles leave the range
    of doubles.
    """
    if distribution.after is not None:
        return otherwise(distribution, y)
    scores = np.empty(y.size)
    for rows, part in rows_by_baseline(distribution, SHARED):
        score = _of_one_baseline if part.theta.ndim == 1 else _of_their_own
        scores[rows] = score(part, y[rows], otherwise)
    return scores


def _of_one_baseline(distribution: PredictedDistribution, y: Array, otherwise: Work) -> Array:
    if _has_mass_at_infinity(distribution):
        return otherwise(distribution, y)
    return np.full(y.size, np.inf) if _is_endless(distribution) else _by_panels(distribution, y, otherwise)


def _of_their_own(distribution: PredictedDistribution, y: Array, otherwise: Work) -> Array:
    """Return the CRPS of rows with a baseline each."""
    each = [replace(distribution, theta=theta) for theta in distribution.theta]
    plain = np.array([not (_has_mass_at_infinity(own) or _is_endless(own)) for own in each])
    scores = np.empty(y.size)
    scores[plain] = _by_panels(distribution[plain], y[plain], otherwise)
    for i in np.flatnonzero(~plain):
        scores[i] = _of_one_baseline(each[i][int(i)], y[[i]], otherwise)[0]
    return scores


def _has_mass_at_infinity(distribution: PredictedDistribution) -> bool:
    first, last = distribution.basis.flat_ends(distribution.theta)
    return last or (first and not distribution._bounded_below)


def _is_endless(distribution: PredictedDistribution) -> bool:
    """Return whether the tail is so heavy that the integral of (1 - F)^2 is infinite."""
    return 2.0 * distribution.link.tail_rate * tail_slope(distribution) <= 1.0


def _by_panels(distribution: PredictedDistribution, y: Array, otherwise: Work) -> Array:
    moved, tails, out = distribution.transformation.moved, distribution._tails(), np.empty(y.size)
    for rows in rows_alike(distribution, tails.alike):
        part, at = distribution[rows], moved[rows]
        panels = Panels.cover(part, at, tails.of(rows), 2, lowest(part))
        out[rows] = otherwise(part, y[rows]) if panels is None else _on_panels(panels, at, y[rows])
    return out


def _on_panels(panels: Panels, moved: Array, y: Array) -> Array:
    """Return the CRPS of some rows: that of the edge below y, and the change from there to y."""
    edges, last = panels.y, panels.edges.shape[1] - 1
    inside = np.clip(y, edges[:, 0], edges[:, -1])
    each: Any
    if len(edges) == 1:
        each, place = 0, np.searchsorted(edges[0], inside, side="right") - 1
    else:
        each, place = np.arange(y.size), (edges <= inside[:, None]).sum(axis=1) - 1
    place = np.clip(place, 0, last)
    scores = panels.scores()
    if len(edges) == 1 and panels.tails.alike:
        total = along_shift(scores, moved, place)
    else:
        total = scores(moved)[np.arange(y.size), place]
    within = np.where(y == inside, inside, edges[each, place])  # beyond the last edges F is 0 or 1
    return np.asarray(total + panels.from_edge(moved, within, place) + np.abs(y - inside))
