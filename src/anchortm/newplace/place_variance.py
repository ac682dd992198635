"""The variance of shifts between places, from fits that leave one environment out.

Both estimates need h at the ends of left-out rows only, and not another fit: the *joint* one maximises the likelihood
of left-out environments whose rows share a normal shift, the *row-wise* one the mean predictive likelihood of their
rows, each averaged over the shift on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

from anchortm._typing import Array
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.data import Strata
from anchortm.engine.lost_columns import notes_of
from anchortm.engine.place_variance import FEWEST_PLACES, PlaceVariance
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.shift_law import NormalShift
from anchortm.engine.rows.shifted_rows import ShiftedRows
from anchortm.exceptions import AnchorTMError, InputError, UnavailableError
from anchortm.inputs import parts
from anchortm.predict.averaged_link import row_averages
from anchortm.selection.splits import Split, fits_at, unknown_classes

__all__ = [
    "Joined",
    "LeftOut",
    "Likeliest",
    "boosted_place_variance",
    "check_places",
    "estimated",
    "left_out_rows",
    "place_variance",
    "usable",
]

Codes = NDArray[np.intp]
LeftOut = Callable[[int], "tuple[Codes, ShiftedRows | None, str]"]  # rows, what is known of them, or why it is not

#: standard deviations at which environments are looked at, in units of how much a row can tell
COARSE = np.array([0.0, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.64, 0.9, 1.25, 1.75, 2.5, 3.5, 5.0, 8.0, 14.0])
FINE = 6  # more of them around the best
DENSE = 4001  # points of splines
SOFT = 0.15  # standard deviations far below this are as good as 0
EXACT = {"xatol": 1e-7}
GAIN = 1e-9  # a likelihood that gains less does not show a variance
NO_PLACES = (
    "the fit does not know places: pass environments= to fit, one name for each row, or anchors that are one factor; "
    "after '|' a formula names them"
)
GONE = (
    "this model does not know how much places differ, and has no rows to find out (pickled, saved and widened models "
    "carry none): fit it with place_variance=True, or ask for place_sd_ before you save it"
)


def place_variance(problem: Problem | None, result: FitResult, shown: bool | None = None) -> PlaceVariance:
    """Return what left-out environments say about shifts between places.

    Parameters
    ----------
    problem : Problem or None
        The problem that was solved; None if its rows are gone.
    result : FitResult
        Its result, from which left-out fits start.
    shown : bool, optional
        Whether to show a progress bar.
    """
    if problem is None:
        raise UnavailableError(GONE)
    check_places(problem.spec, result.link, problem.data.in_memory)
    places = _known(problem.data.places)
    start = result.baseline, result.others
    one = partial(left_out_rows, replace(problem), start, float(result.xi), places.codes)
    return estimated(one, places, problem.data.weights, shown)


def boosted_place_variance(model: Any, data: Any, shown: bool | None = None) -> PlaceVariance:
    """Return the same for a boosted model, which is fitted again without each environment."""
    if data is None:
        raise UnavailableError(GONE)
    check_places(model.check(), model.model_.result_.link, True)
    places = _known(data.places)
    return estimated(partial(_boosted_rows, model, data, places), places, data.weights, shown)


def check_places(spec: Any, link: Any, in_memory: bool) -> None:
    """Refuse models without a shift that all rows of a place can share."""
    parts.refuse("places", *spec.asked(), spec.likelihood, "memory" if in_memory else "batches")
    if spec.likelihood == "mean" and np.isfinite(link.eta_range).any():
        raise InputError(
            f"the {link.link} link has a bounded linear predictor, which a normal shift would leave: use "
            f"link={next(name for name in link.links if name not in ('identity', 'inverse'))!r}"
        )


def _known(places: Strata | None) -> Strata:
    """Return the places, if there are enough."""
    if places is None:
        raise UnavailableError(NO_PLACES)
    present = np.unique(places.codes).size
    if present < FEWEST_PLACES:
        raise InputError(
            f"there are {present} environments, and shifts between places need at least {FEWEST_PLACES}: give more "
            "places, or environments= that divide the rows further"
        )
    return places


def left_out_rows(
    problem: Problem, start: tuple[Array, Array], xi: float, codes: Codes, e: int
) -> tuple[Codes, ShiftedRows | None, str]:
    """Return the rows of an environment, and what a fit to the others says about them; or why it says nothing."""
    inside = codes != e
    rows = np.flatnonzero(~inside)
    try:
        split = Split.of(problem, np.flatnonzero(inside), rows)
        if split.held is None:
            return rows, None, split.notes
        train, objective = split.train, split.train.objective
        (solution,) = fits_at(train, objective, [xi], {xi: split.shared.narrow(*start)})
        if not solution.converged:
            return rows, None, f"the fit without it did not converge: {solution.reason}"
        theta, beta = objective.coordinates.split(solution.v)
        link, steps = train.fitted_link(objective, solution.v), train.steps(objective, solution.v)
        return rows, train.shifted(link, theta, beta, split.held, steps), ""
    except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
        return rows, None, str(error)


def _boosted_rows(model: Any, data: Any, places: Strata, e: int) -> tuple[Codes, ShiftedRows | None, str]:
    """Return the same for a boosted model."""
    inside = places.codes != e
    rows, others = np.flatnonzero(~inside), np.flatnonzero(inside)
    kept = np.array([label for code, label in enumerate(places.labels) if code != e], dtype=object)
    groups = np.where(places.codes > e, places.codes - 1, places.codes)[others], kept
    train, left = data.subset(others), data.take(rows)
    unknown = unknown_classes(train.response, left.response)
    if unknown:
        return rows, None, notes_of((), unknown)
    try:
        return rows, *model.left_out_shifts(train, left, groups, places.labels[e])
    except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
        return rows, None, str(error)


def estimated(left_out: LeftOut, places: Strata, weights: Array | None, shown: bool | None) -> PlaceVariance:
    """Return the estimates from what fits without each environment say about its rows."""
    present = np.unique(places.codes).tolist()
    with Task("left-out environments", len(present), shown) as task, one_blas_thread():
        found = [left_out(e) for e in task.each(present)]
    used: list[tuple[Codes, ShiftedRows]] = []
    not_used: dict[str, str] = {}
    for e, (rows, shifted, why) in zip(present, found, strict=True):
        if shifted is None:
            not_used[str(places.labels[e])] = why
        elif not usable(shifted):
            not_used[str(places.labels[e])] = "the fit without it gives one of its outcomes the density 0"
        else:
            used.append((rows, shifted))
    if len(used) < FEWEST_PLACES:
        reasons = "; ".join(f"without {name}: {why}" for name, why in list(not_used.items())[:3])
        raise InputError(
            f"only {len(used)} of {len(present)} environments can be left out, and shifts between places need at "
            f"least {FEWEST_PLACES} ({reasons})"
        )
    return _of_records(used, weights, not_used)


def usable(rows: ShiftedRows) -> bool:
    """Return whether the rows of a place are possible at some shift."""
    return bool(np.isfinite(NormalShift(0.0, 1.0).average(rows.together(), 1, rows.concave).log[0]))


class Joined(NamedTuple):
    """The rows of left-out environments under the fits to the others, one after another.

    Attributes
    ----------
    rows : ShiftedRows
        All of them, as functions of a shift.
    place : array of int
        The environment of each row, numbered from 0.
    weights : array or None
        Weights of the rows.
    n_places : int
        Number of environments.
    """

    rows: ShiftedRows
    place: Codes
    weights: Array | None
    n_places: int

    @classmethod
    def of(cls, used: list[tuple[Codes, ShiftedRows]], weights: Array | None) -> Joined:
        """Return the rows of environments, given by their positions and what is known of them."""
        rows = type(used[0][1]).joined([shifted for _, shifted in used])
        place = np.repeat(np.arange(len(used)), [shifted.n_rows for _, shifted in used])
        own = None if weights is None else weights[np.concatenate([positions for positions, _ in used])]
        return cls(rows, place, own, len(used))

    def joint(self) -> Likeliest:
        """Return the standard deviation of shifts with the largest likelihood of environments."""
        values = self.rows.by_place(self.place, self.n_places, self.weights)

        def logs(sd: float) -> Array:
            return NormalShift(0.0, sd).average(values, self.n_places, self.rows.concave).log

        return _likeliest(logs, self.rows.unit)

    def rowwise(self) -> Likeliest:
        """Return the standard deviation of shifts with the largest mean predictive likelihood of single rows."""
        total = np.bincount(self.place, self.weights)

        def logs(sd: float) -> Array:
            found = row_averages(self.rows, NormalShift(0.0, sd))
            found = found if self.weights is None else self.weights * found
            return np.asarray(np.bincount(self.place, found) / total)

        return _likeliest(logs, self.rows.unit)


class Likeliest(NamedTuple):
    """The standard deviation of shifts with the largest sum of log-likelihoods over environments.

    Attributes
    ----------
    sd : float
        The standard deviation.
    without : array
        The same without each environment in turn.
    """

    sd: float
    without: Array

    @property
    def error(self) -> float:
        """Return the jackknife standard error over environments."""
        n = self.without.size
        return math.sqrt((n - 1) / n * float(((self.without - self.without.mean()) ** 2).sum()))


def _of_records(
    used: list[tuple[Codes, ShiftedRows]], weights: Array | None, not_used: dict[str, str]
) -> PlaceVariance:
    joined = Joined.of(used, weights)
    joint, rowwise = joined.joint(), joined.rowwise()
    return PlaceVariance(joint.sd, joint.error, rowwise.sd, rowwise.error, len(used), not_used)


def _likeliest(values: Callable[[float], Array], unit: float) -> Likeliest:
    """Return the standard deviation with the largest sum over environments, and those without each of them.

    Environments are looked at once, at standard deviations that are denser around the best one. Between them, splines
    in log(sd + SOFT) give the sums without one environment. All are in units of ``unit``.
    """
    coarse = np.array([values(unit * sd) for sd in COARSE.tolist()])
    k = int(np.argmax(coarse.sum(axis=1)))
    low, high = np.log(COARSE[[max(k - 1, 0), min(k + 1, COARSE.size - 1)]] + SOFT)
    fine = np.exp(np.linspace(low, high, FINE + 2)[1:-1]) - SOFT
    fine = fine[np.abs(fine[:, None] - COARSE).min(axis=1) > 1e-9]
    at = np.append(COARSE, fine)
    order = np.argsort(at)
    at, table = at[order], np.vstack([coarse, *([values(unit * sd)] for sd in fine.tolist())])[order]
    best = int(np.argmax(table.sum(axis=1)))
    bounds = float(at[max(best - 1, 0)]), float(at[min(best + 1, at.size - 1)])
    found = minimize_scalar(lambda sd: -float(values(unit * sd).sum()), bounds=bounds, method="bounded", options=EXACT)
    sd = float(found.x) if -float(found.fun) > float(table[0].sum()) + GAIN else 0.0
    u = np.log(at + SOFT)
    dense = np.linspace(u[0], u[-1], DENSE)
    curves = CubicSpline(u, table)(dense)
    each = np.array([_peak(dense, curves.sum(axis=1) - curve) for curve in curves.T])
    return Likeliest(unit * sd, unit * each)


def _peak(u: Array, curve: Array) -> float:
    """Return the standard deviation where a curve, known at u, is largest: by a parabola through three points."""
    k = int(np.argmax(curve))
    at = u[k]
    if 0 < k < curve.size - 1:
        below, top, above = curve[k - 1 : k + 2]
        bend = below - 2.0 * top + above
        at += (u[1] - u[0]) * 0.5 * (below - above) / bend if bend < 0.0 else 0.0
    return max(0.0, float(np.exp(at) - SOFT))
