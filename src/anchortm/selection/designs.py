"""Which environments are left out together: one after another, or the outermost ones along a direction.

Leaving one environment out asks about a place like the others. Leaving the outermost ones out asks about a place
further out than those of the fit, which is what anchoring is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anchortm._typing import Array
from anchortm.exceptions import InputError
from anchortm.selection.places import Out, Places

__all__ = ["FEWEST", "SHARES", "Direction", "Fold", "direction_of", "distances", "further", "like"]

FEWEST = 8  # environments that a design of extremes needs
SHARES = (0.15, 0.3)


class Fold(NamedTuple):
    """Environments that are left out together, and why these."""

    out: Out
    design: str = "like"
    direction: str = ""
    side: str = ""
    share: float = float("nan")


@dataclass(frozen=True, eq=False)
class Direction:
    """The order of environments along a direction of their mean covariates.

    Attributes
    ----------
    name : str
        What orders them.
    places : array
        The place of each environment along the direction, in standard deviations between environments from their
        mean; NaN for environments that are left out before.
    new : float or None
        The place of the new rows, in the same unit.
    """

    name: str
    places: Array
    new: float | None = None


def like(places: Places, out: Out = frozenset()) -> list[Fold]:
    """Return the design that leaves out one environment after another."""
    return [Fold(out | {e}) for e in places.inside(out)]


def direction_of(places: Places, slope: Array, out: Out = frozenset(), new: Array | None = None) -> Direction:
    """Return the order of the environments that are not in ``out``.

    Parameters
    ----------
    places : Places
        The rows and their environments.
    slope : array
        Coefficients of the maximum-likelihood fit to these environments.
    out : set of int
        Environments that are left out before; their rows are not used.
    new : array, optional
        Means of the covariates of the new place. The direction is then the shift towards it, weighted by the squared
        coefficients, in standardised covariates; without it, the direction of x'beta.
    """
    inside = places.inside(out)
    X = np.asarray(places.data.without_wide().design.matrix)
    rows = places.rows_in(inside)
    weights = places.weights[rows]
    centre = np.average(X[rows], axis=0, weights=weights)
    size = np.sqrt(np.average((X[rows] - centre) ** 2, axis=0, weights=weights))
    size = np.where(size > 0.0, size, 1.0)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    along = slope if new is None else (new - centre) / size**2 * (slope * size) ** 2
    means = places.means((X - centre) @ along)
    gone = np.ones(places.n, dtype=bool)
    gone[inside] = False
    means[gone] = np.nan
    level, spread = float(np.nanmean(means)), float(np.nanstd(means, ddof=1))
    spread = spread if spread > 0.0 else 1.0
    at = None if new is None else float(((new - centre) @ along - level) / spread)
    return Direction("x'beta" if new is None else "new place", (means - level) / spread, at)


def further(places: Places, direction: Direction, out: Out = frozenset()) -> list[Fold]:
    """Return the design that leaves out the outermost environments, two shares of them on each side.

    The side of the new place is "same", the opposite one "other"; without a new place they are "high" and "low".
    """
    inside = np.array(places.inside(out))
    if inside.size < FEWEST:
        raise InputError(
            f"there are {inside.size} environments: leaving the outermost ones out needs at least {FEWEST}; use "
            "design='like'"
        )
    order = inside[np.argsort(direction.places[inside], kind="stable")]
    above = direction.new is None or direction.new >= 0.0
    names = ("high", "low") if direction.new is None else ("same", "other")
    folds = []
    for side, upper in zip(names, (above, not above), strict=True):
        for share in SHARES:
            size = max(1, round(share * inside.size))
            taken = order[-size:] if upper else order[:size]
            folds.append(Fold(out | frozenset(taken.tolist()), "further", direction.name, side, share))
    return folds


def distances(direction: Direction, fold: Fold, out: Out = frozenset()) -> float:
    """Return how far out the environments of a fold are on average, in standard deviations between environments."""
    return float(np.abs(direction.places[sorted(fold.out - out)]).mean())
