"""A shift and a scale: F(m + c (h - m) - d), with m the median of the link.

The log-likelihood is concave in (d, c) jointly, unless rows are truncated, and so are the priors d ~ N(0, v) and
c ~ N(1, v_c). The scale stays above a floor, below which h would hardly rise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from anchortm._typing import Array
from anchortm.engine.recalibration.shift import LONGEST, TOLERANCE
from anchortm.engine.rows.ends import End, Ends
from anchortm.links import Link
from anchortm.links.terms import RowValues

__all__ = ["ScaleFit", "fit_shift_and_scale"]

STEPS, HALVINGS = 200, 60


class ScaleFit(NamedTuple):
    """The most likely shift and scale with their certificate; see ``ShiftFit``."""

    shift: float
    scale: float
    information: Array  # (2, 2), of the shift and the scale
    score: float  # the largest free component of the gradient, in standard errors
    at_floor: bool  # whether the floor holds the scale
    converged: bool
    history: list[dict[str, Any]]

    @property
    def std_errors(self) -> tuple[float, float]:
        """Return the standard errors of shift and scale; a scale at its floor counts as known."""
        if self.at_floor:
            return float(self.information[0, 0] ** -0.5), 0.0
        shift, scale = np.sqrt(np.diag(np.linalg.inv(self.information)))
        return float(shift), float(scale)


class _Point(NamedTuple):
    value: float
    slope: Array
    curvature: Array


def fit_shift_and_scale(
    link: Link, ends: Ends, weights: Array | None, precision: float, scale_precision: float, floor: float
) -> ScaleFit:
    """Return the most likely shift and scale, by Newton's method under the floor of the scale.

    Parameters
    ----------
    link : Link
    ends : Ends
        h at the ends of the rows, and how their likelihoods depend on it.
    weights : array, optional
        Weights of the rows.
    precision, scale_precision : float
        One over the variances of the priors of shift and scale, whose means are 0 and 1.
    floor : float
        Smallest scale.
    """
    weights = np.ones(ends.n_rows) if weights is None else weights
    prior = np.array([precision, scale_precision])

    def at(x: Array) -> _Point:
        return _at(link, ends, weights, prior, x)

    x, history = np.array([0.0, 1.0]), list[dict[str, Any]]()
    point = at(x)
    for iteration in range(STEPS):
        held = bool(x[1] <= floor and point.slope[1] < 0.0)
        score = _score(point, prior, held)
        history.append(
            {"iteration": iteration, "shift": x[0], "scale": x[1], "log posterior": point.value, "score": score}
        )
        if score <= TOLERANCE:
            break
        moved = _moved(at, x, point, prior, held, floor)
        if moved is None:
            break
        x, point = moved
    held = bool(x[1] <= floor and point.slope[1] < 0.0)
    strict = float(np.linalg.eigvalsh(point.curvature)[0]) > 0.0
    score = _score(point, prior, held)
    good = bool(strict and score <= 1e3 * TOLERANCE)
    return ScaleFit(float(x[0]), float(x[1]), point.curvature, score, held, good, history)


def _lifted(curvature: Array, prior: Array) -> Array:
    """Return a curvature that is at least that of the prior, which truncated rows may have lowered."""
    least = float(np.linalg.eigvalsh(curvature)[0])
    lowest = 0.5 * float(prior.min())
    return curvature if least >= lowest else curvature + (lowest - least) * np.eye(2)


def _score(point: _Point, prior: Array, held: bool) -> float:
    """Return the largest free component of the gradient, in standard errors."""
    in_errors = np.abs(point.slope) / np.sqrt(np.diag(_lifted(point.curvature, prior)))
    return float(in_errors[0] if held else in_errors.max())


def _moved(at: Any, x: Array, point: _Point, prior: Array, held: bool, floor: float) -> tuple[Array, _Point] | None:
    """Return the next point with its values, or None if no step gains anything."""
    curvature = _lifted(point.curvature, prior)
    if held:
        step = np.array([point.slope[0] / curvature[0, 0], 0.0])
    else:
        step = np.linalg.solve(curvature, point.slope)
        if x[1] + step[1] < floor:  # the best step that ends at the floor
            down = floor - x[1]
            step = np.array([(point.slope[0] - curvature[0, 1] * down) / curvature[0, 0], down])
    step = step * min(1.0, LONGEST / max(abs(float(step[0])), 1e-300))
    for _ in range(HALVINGS):
        new = np.array([x[0] + step[0], max(x[1] + step[1], floor)])
        if (new == x).all():
            return None
        there = at(new)
        if there.value >= point.value - 1e-13 * (1.0 + abs(point.value)):
            return new, there
        step = 0.5 * step
    return None


@np.errstate(all="ignore")
def _at(link: Link, ends: Ends, weights: Array, prior: Array, x: Array) -> _Point:
    """Return the log posterior density at (shift, scale), its gradient and minus its Hessian."""
    shift, c = float(x[0]), float(x[1])
    away = x - np.array([0.0, 1.0])
    value, slope, curvature = -0.5 * float(prior @ away**2), -prior * away, np.diag(prior)
    for part, values, lower, width, own in _parts(link, ends, shift, c):
        w = part.sign * weights[part.rows]
        exact = part.kind == "exact"
        value += float(w @ own)
        # d lower / d shift = -1, d lower / d c = ``lower``, d width / d c = ``width``
        in_c = -values.r * lower + values.l_d * width + (1.0 / c if exact else 0.0)
        slope = slope + np.array([w @ values.r, w @ in_c])
        both = -float(w @ (values.dr * lower + values.r_d * width))
        twice = values.dr * lower**2 + 2.0 * values.r_d * lower * width + values.minus_l_dd * width**2
        twice = twice + (1.0 / c**2 if exact else 0.0)
        curvature = curvature + np.array([[w @ values.dr, both], [both, w @ twice]])
    return _Point(value if math.isfinite(value) else -math.inf, slope, curvature)


def _parts(link: Link, ends: Ends, shift: float, c: float) -> Iterator[tuple[End, RowValues, Array, Array, Array]]:
    """Yield rows of one kind: their values, their lower end and width less m and before the scale, log-likelihoods."""
    m = float(link.quantile(0.5))
    for part in ends.parts:
        h, nothing = m + c * (part.h - m) - shift, np.zeros(part.rows.size)
        values: RowValues
        match part.kind:
            case "exact":
                values = link.exact(h)
                yield part, values, part.h - m, nothing, values.l + np.log(c * part.other)
            case "interval":
                width = c * part.other
                values = link.interval(h - width, h, width)
                yield part, values, part.h - part.other - m, part.other, values.l
            case kind:
                values = link.left(h) if kind == "left" else link.right(h)
                yield part, values, part.h - m, nothing, values.l
