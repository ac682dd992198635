"""Score tests: the information on anchors and parameters, and the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.exceptions import InputError

__all__ = [
    "Information",
    "Quadratic",
    "check_directions",
    "free_parameters",
    "score_statistic",
    "simulated_statistic",
]

Array = NDArray[np.float64]

MAX_DIRECTIONS = 3000
HALVINGS = 10  # largest number of halvings of a step that does not increase the likelihood


class Information(NamedTuple):
    """Second derivatives of -loglik with respect to the anchors and the parameters."""

    anchors: Array  # Q'diag(r')Q
    cross: Array  # E
    parameters: Array  # nH

    @classmethod
    def at(cls, objective: Objective, v: Array) -> Information:
        """Return the information of one data set."""
        d = objective.derivatives(v)
        return cls(
            objective.anchor_information(v), d.E, d.hessian.toarray() if isinstance(d.hessian, Arrow) else d.hessian
        )

    @classmethod
    def mean(cls, several: Sequence[Information]) -> Information:
        """Return the average information of several data sets."""
        return cls(*(np.mean(part, axis=0) for part in zip(*several, strict=True)))

    def efficient(self, t: Array, gradient: Array, free: NDArray[np.bool_]) -> Array:
        """Return the efficient score: t minus its regression on the gradient of -loglik, which is 0 at the maximum."""
        return t - self.cross[:, free] @ np.linalg.solve(self.parameters[np.ix_(free, free)], gradient[free])


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The quadratic form t'B^+ t, where B is the variance of t given the estimated parameters."""

    root: Array
    df: int

    @classmethod
    def of(cls, information: Information, free: NDArray[np.bool_]) -> Quadratic:
        """Return the quadratic form with B = Q'diag(r')Q - E (nH)^-1 E'."""
        E, H = information.cross[:, free], information.parameters[np.ix_(free, free)]
        bracket = information.anchors - E @ np.linalg.solve(H, E.T)
        values, vectors = np.linalg.eigh(0.5 * (bracket + bracket.T))
        keep = values > max(1e-8 * values[-1], 1e-12)
        if not keep.any():
            raise InputError("the model already contains all anchors, so there is nothing to test: use other anchors")
        return cls(vectors[:, keep].T / np.sqrt(values[keep])[:, None], int(keep.sum()))

    def __call__(self, t: Array) -> float:
        """Return the value at t."""
        return float(np.sum((self.root @ t) ** 2))


def free_parameters(objective: Objective, active: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which parameters are estimated: not at a bound, not fixed, and not a variance of random effects."""
    return np.asarray(~active & objective.estimated)


def simulated_statistic(
    objective: Objective, v: Array, information: Information, quadratic: Quadratic, free: NDArray[np.bool_]
) -> float:
    """Return the score statistic of simulated outcomes, at one Newton step from v towards their own maximum."""
    H, step, coordinates = information.parameters[np.ix_(free, free)], np.zeros(v.size), objective.coordinates
    step[free] = -np.linalg.solve(H, objective.derivatives(v).gradient[free])
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step < 0.0, (coordinates.lower - v) / step, (coordinates.upper - v) / step)
    step *= min(1.0, 0.9 * float(np.min(room, where=step != 0.0, initial=np.inf)))
    loglik = objective.sums(v).loglik
    for _ in range(HALVINGS):
        if objective.sums(v + step).loglik >= loglik:
            break
        step *= 0.5
    t = information.efficient(objective.sums(v + step).t, objective.derivatives(v + step).gradient, free)
    return quadratic(t) / objective.dispersion(v + step)


def check_directions(objective: Objective) -> None:
    """Raise an error if residuals are not scores, or if the anchors have too many independent columns for a test."""
    if objective.score_test_obstacle is not None:
        raise InputError(objective.score_test_obstacle)
    if objective.anchors is not None and objective.anchors.rank > MAX_DIRECTIONS:
        raise InputError(
            f"the anchors have {objective.anchors.rank} directions, but a test allows at most {MAX_DIRECTIONS}: merge "
            "levels"
        )


def score_statistic(
    objective: Objective, v: Array, active: NDArray[np.bool_], *, studentised: bool = False
) -> tuple[float, int]:
    """Return the score statistic at v and its degrees of freedom.

    If ``studentised``, the statistic is divided by sum r^2 / sum r'. This ratio is 1 on average for a true model at its
    maximum likelihood. A penalty flattens h and shrinks the residuals, and without the division it would shrink the
    statistic too. If the dispersion is a given number, the statistic is divided by it instead. The covariance of
    random effects is treated as known: in a normal model the scores of shifts and of variances are uncorrelated, and
    their chance correlation in a sample would only reduce the variance B.
    """
    objective = objective.scored
    quadratic = Quadratic.of(Information.at(objective, v), free_parameters(objective, active))
    statistic = quadratic(objective.sums(v).t)
    if studentised and not objective.known_dispersion:
        weights = 1.0 if objective.weights is None else objective.weights
        slopes, squares = weights * objective.residual_slopes(v), weights * objective.residuals(v) ** 2
        statistic *= float(slopes.sum() / squares.sum())
    else:
        statistic /= objective.dispersion(v)
    return statistic, quadratic.df
