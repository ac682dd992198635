"""How much environments differ, for weights between those by rows and equal ones.

The standard deviation tau of their shifts is estimated from one maximum-likelihood fit to all rows: it maximises the
likelihood of environments whose rows share a normal shift of h. Left-out fits (``place_variance``) would be better
founded and much slower: shifts from rows that were in the fit are a little too small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from anchortm.engine.environment_weights import Shrinkage
from anchortm.engine.place_variance import FEWEST_PLACES
from anchortm.engine.rows.shift_law import NormalShift
from anchortm.engine.rows.shifted_rows import ShiftedRows
from anchortm.exceptions import InputError
from anchortm.inputs import parts

if TYPE_CHECKING:
    from anchortm.engine.problem import Problem

__all__ = ["likeliest_sd", "shrinkages"]

Array = NDArray[np.float64]

#: standard deviations of shifts that are looked at first, in the unit of shifts
COARSE = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 14.0])
GAIN = 1e-9  # a likelihood that gains less does not show a variance


def shrinkages(problem: Problem, data: Any, names: list[str]) -> dict[str, Shrinkage]:
    """Return how much environments differ, for the rules with these names; ``data`` are rows that know them."""
    spec = problem.spec
    where = "memory" if data.in_memory else "batches"
    parts.refuse("places", *(part for part in spec.asked() if part not in names), spec.likelihood, where)
    if spec.finite_xi:
        raise InputError(
            "weights that are 'shrunk' come from a maximum-likelihood fit, which boosting does not have: use 'equal', "
            "or a dict with the weights of a linear model"
        )
    plain = problem.on(spec.at(xi=0.0, xi_scale=None, environment_weights="rows", anchor_weights="rows"), data)
    objective, solution = plain.objective, plain.solve()[0]
    theta, beta = objective.coordinates.split(solution.v)
    link, steps = plain.fitted_link(objective, solution.v), plain.steps(objective, solution.v)
    rows = plain.shifted(link, theta, beta, plain.data, steps)
    assert rows is not None  # noqa: S101 - refused with random effects
    slope = float(np.average(rows(np.zeros((rows.n_rows, 1)))[2][:, 0], weights=data.weights))
    return {name: Shrinkage(_sd(rows, data.weighing.places(name), data.weights), slope) for name in names}


def _sd(rows: ShiftedRows, places: Any, weights: Array | None) -> float:
    """Return tau; 0 if there are no anchors that a rule could weigh."""
    if places is None:
        return 0.0
    present, codes = np.unique(places.codes, return_inverse=True)
    if present.size < FEWEST_PLACES:
        raise InputError(
            f"there are {present.size} environments, and weights that are 'shrunk' need at least {FEWEST_PLACES}, to "
            "see how much they differ: use 'rows' or 'equal'"
        )
    return likeliest_sd(rows, codes, present.size, weights)


def likeliest_sd(rows: ShiftedRows, places: NDArray[np.intp], n_places: int, weights: Array | None) -> float:
    """Return the standard deviation of a normal shift, shared by the rows of a place, with the largest likelihood."""
    values, unit = rows.by_place(places, n_places, weights), rows.unit

    def loss(sd: float) -> float:
        return -float(NormalShift(0.0, unit * sd).average(values, n_places, rows.concave).log.sum())

    at = [loss(sd) for sd in COARSE.tolist()]
    best = int(np.argmin(at))
    bounds = float(COARSE[max(best - 1, 0)]), float(COARSE[min(best + 1, COARSE.size - 1)])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    return unit * float(found.x) if found.fun < at[0] - GAIN else 0.0
