"""The posterior distribution of a shift, given the rows of a new place and a normal prior.

The log posterior density is l(d) - (d - centre)^2 * precision / 2, with l the log-likelihood of all rows. It is concave
unless rows are truncated. Newton's method finds its mode; the distribution around the mode is a normal one where l is
quadratic, and else a set of nodes of the trapezoidal rule, which is accurate to rounding for smooth densities that
vanish at both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anchortm._typing import Array
from anchortm.engine.recalibration.totals import Total

__all__ = ["LONGEST", "TOLERANCE", "Law", "ShiftFit", "fit_shift", "law_around"]

TOLERANCE = 1e-10  # of the score, in standard errors of the shift
STEPS, HALVINGS = 100, 60
LONGEST = 2.0  # longest step, on the scale of h
LEAST_LOG = -57.0  # log of the smallest weight of a node, relative to the largest
FINEST = 0.25  # longest distance of nodes: links change within about 1
EACH = 3.0  # nodes in a standard deviation
MOST_NODES, SETTLED = 4001, 1e-11


class Law(NamedTuple):
    """A distribution of shifts around their mode: normal with mean 0, or nodes with the logarithms of their weights."""

    sd: float
    nodes: Array | None = None
    log_weights: Array | None = None

    @property
    def moments(self) -> tuple[float, float]:
        """Return mean and standard deviation."""
        if self.nodes is None or self.log_weights is None:
            return 0.0, self.sd
        weights = np.exp(self.log_weights)
        mean = float(weights @ self.nodes)
        return mean, math.sqrt(float(weights @ (self.nodes - mean) ** 2))


@dataclass(frozen=True, eq=False)
class ShiftFit:
    """The most likely shift with its certificate.

    Attributes
    ----------
    shift : float
        The mode of the posterior density.
    information : float
        Minus the second derivative of the log posterior density there; its root is 1 / standard error.
    score : float
        The first derivative there, in standard errors: 0 at an exact mode.
    converged : bool
        Whether the score is within its tolerance and the information positive.
    history : list of dict
        One entry for each iteration.
    """

    shift: float
    information: float
    score: float
    converged: bool
    history: list[dict[str, Any]]

    @property
    def std_error(self) -> float:
        """Return the standard error."""
        return self.information**-0.5 if self.information > 0.0 else math.nan


def fit_shift(total: Total, precision: float, centre: float = 0.0, start: float = 0.0) -> ShiftFit:
    """Return the most likely shift, by Newton's method with shortened steps.

    Parameters
    ----------
    total : Total
        The log-likelihood of all rows at a shift.
    precision, centre : float
        One over the variance of the prior, and its mean.
    start : float
        Where to start; the likelihood must be finite there.
    """
    at, history = start, list[dict[str, Any]]()
    value, slope, curvature = _at(total, precision, centre, at)
    for iteration in range(STEPS):
        size = math.sqrt(max(curvature, precision))
        score = slope / size if size > 0.0 else math.inf
        history.append({"iteration": iteration, "shift": at, "log posterior": value, "score": score})
        if abs(score) <= TOLERANCE:
            break
        step = min(max(slope / size**2, -LONGEST), LONGEST)
        for _ in range(HALVINGS):
            there = _at(total, precision, centre, at + step)
            if there[0] >= value - 1e-13 * (1.0 + abs(value)):
                break
            step *= 0.5
        else:
            break
        if at + step == at:
            break
        at, (value, slope, curvature) = at + step, there
    score = slope / math.sqrt(curvature) if curvature > 0.0 else math.nan
    # a sum of many terms has a rounding error of its own
    exact = abs(score) <= 1e3 * TOLERANCE
    return ShiftFit(at, curvature, abs(score), bool(curvature > 0.0 and exact), history)


def _at(total: Total, precision: float, centre: float, shift: float) -> tuple[float, float, float]:
    """Return the log posterior density, its derivative and minus its second derivative."""
    loglik, score, information = (float(part[0]) for part in total(np.array([shift])))
    away = shift - centre
    value = loglik - 0.5 * precision * away**2
    return (value if math.isfinite(value) else -math.inf), score - precision * away, information + precision


def law_around(total: Total, fit: ShiftFit, precision: float, centre: float = 0.0) -> Law:
    """Return the posterior distribution of the shift less its mode."""
    if total.quadratic:
        return Law(fit.std_error)

    def log_density(shifts: Array) -> Array:
        values = total(shifts)[0] - 0.5 * precision * (shifts - centre) ** 2
        return np.where(np.isfinite(values), values, -np.inf)

    sd = fit.std_error
    top = float(log_density(np.array([fit.shift]))[0])
    low, high = (_end(log_density, fit.shift, side * sd, top) for side in (-1.0, 1.0))
    distance = min(sd / EACH, FINEST)
    law = _law(log_density, fit.shift, top, low, high, distance)
    while True:
        distance *= 0.5
        finer = _law(log_density, fit.shift, top, low, high, distance)
        moved = np.abs(np.subtract(law.moments, finer.moments)).max()
        if moved <= SETTLED * sd or (high - low) / distance > MOST_NODES:
            return law
        law = finer


def _law(log_density: Any, mode: float, top: float, low: float, high: float, distance: float) -> Law:
    """Return the law with nodes at this distance."""
    nodes = distance * np.arange(-math.ceil(-low / distance), math.ceil(high / distance) + 1)
    logs = log_density(mode + nodes) - top
    kept = logs > LEAST_LOG
    nodes, logs = nodes[kept], logs[kept] - _log_sum(logs[kept])
    law = Law(0.0, nodes, logs)
    return law._replace(sd=law.moments[1])


def _log_sum(logs: Array) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _end(log_density: Any, mode: float, step: float, top: float) -> float:
    """Return how far from the mode, in the direction of ``step``, the density is negligible."""
    away = 8.0 * step
    while float(log_density(np.array([mode + away]))[0]) > top + LEAST_LOG:
        away *= 1.5
    return away
