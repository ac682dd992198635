"""The worst place: the largest loss of a place, or the mean of the worst, relative to a reference of each place.

    min over v of CVaR_share(NLL_e(v) - b_e),      NLL_e the mean negative log-likelihood of the rows of place e

Without a reference b_e the loss of a place depends on the unit of time, because censored and exact rows do not have
the same; relative to one it is a regret.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.decisive import Decisive
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Convexity, Derivatives, Objective, Sums
from anchortm.engine.objective.wrapped import Wrapped
from anchortm.engine.rows.place_sums import PlaceDerivatives, PlaceLogLikelihoods, PlaceShifts, RowCounts
from anchortm.engine.solve.newton import Options, Solution, minimise
from anchortm.engine.solve.tail_risk import Expansion, TailRisk, minimise_risk

__all__ = ["Places", "WorstCase", "WorstObjective"]

Array = NDArray[np.float64]

SHIFT_STEPS = 60  # most steps of Newton's method for the shift of a place
SETTLED = 1e-14  # gain of a step, relative to the log-likelihood, at which a shift is found


class WorstCase(NamedTuple):
    """What is minimised over places.

    Attributes
    ----------
    share : float or None
        The share of the worst places whose mean loss counts; None is the single worst place.
    reference : {"own-shift", "null", None}
        What the loss of a place is compared with.
    weights : {"equal", "rows"}
        Whether a share is one of places or of rows.
    min_rows : int
        Places with fewer rows are taken together as one place.
    """

    share: float | None = None
    reference: Literal["own-shift", "null"] | None = "own-shift"
    weights: Literal["equal", "rows"] = "equal"
    min_rows: int = 1


@dataclass(frozen=True, eq=False)
class Places:
    """The sums by place of the rows of a loss; small places are taken together."""

    rows: RowObjective
    pooled: NDArray[np.intp]  # for each place of the rows, the place that it is part of
    n: int
    sizes: Array  # total weight of each place
    kinds: dict[str, Array]  # that of its exact, left- and right-censored rows

    @classmethod
    def of(cls, rows: RowObjective, min_rows: int) -> Places:
        """Return the places, those with fewer rows taken together.

        Sums over rows must not be cached properties: these lock the threads of fits that share reads of a table.
        """
        sizes, *kinds = rows.blocks.total(RowCounts(rows.n_sums))[1]
        # a place has at least one row, whatever its weight
        small = sizes < min_rows if min_rows > 1 else np.zeros(sizes.size, dtype=bool)
        pooled = np.arange(sizes.size)
        if small.sum() > 1:
            pooled = np.where(small, int((~small).sum()), np.cumsum(~small) - 1)
        n = int(pooled.max()) + 1
        sums = [np.bincount(pooled, own, n).astype(np.float64) for own in (sizes, *kinds)]
        return cls(rows, pooled, n, sums[0], dict(zip(("exact", "left", "right"), sums[1:], strict=True)))

    def together(self, sums: Array) -> Array:
        """Return sums by place from those by the levels of the rows."""
        if self.n == self.pooled.size:
            return sums
        result = np.zeros((self.n, *sums.shape[1:]))
        np.add.at(result, self.pooled, sums)
        return result

    def logliks(self, v: Array) -> Array:
        """Return the log-likelihood of each place."""
        rows = self.rows
        work = PlaceLogLikelihoods(rows.link, v, rows.coordinates.n_baseline, rows.n_sums)
        return self.together(rows.blocks.total(work)[1][0])

    def derivatives(self, v: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Return log-likelihoods, gradients of minus them, and the Hessian of minus their weighted sum."""
        rows = self.rows
        work = PlaceDerivatives(rows.link, v, rows.coordinates.n_baseline, rows.n_sums, weights[self.pooled])
        totals, gradients, _, hessian = rows.blocks.total(work)[1]
        return self.together(totals), self.together(gradients), hessian

    def at_best_shift(self, v: Array) -> Array:
        """Return the largest log-likelihood of each place over shifts of its h.

        That of a place whose rows are all censored on the same side is 0, in the limit of large shifts.
        """
        rows, shifts = self.rows, np.zeros(self.n)
        known = (self.kinds["left"] == self.sizes) | (self.kinds["right"] == self.sizes)

        def at(shifts: Array) -> tuple[Array, Array, Array]:
            place = rows.link, v, rows.coordinates.n_baseline, rows.n_sums
            found = rows.blocks.total(PlaceShifts(*place, shifts[self.pooled]))[1]
            first, second, third = map(self.together, found)
            return first, second, third

        best, slope, bend = at(shifts)
        step = np.where(known, 0.0, -slope / np.where(bend > 0.0, bend, np.abs(slope) + 1.0))
        for _ in range(SHIFT_STEPS):
            loglik, new_slope, new_bend = at(shifts + step)
            better = loglik >= best
            done = np.abs(slope * step) <= SETTLED * (1.0 + np.abs(best))
            shifts = np.where(better, shifts + step, shifts)
            best, slope, bend = (
                np.where(better, new, old) for new, old in ((loglik, best), (new_slope, slope), (new_bend, bend))
            )
            if (done | known).all():
                break
            newton = -slope / np.where(bend > 0.0, bend, np.abs(slope) + 1.0)
            step = np.where(known, 0.0, np.where(better, newton, 0.25 * step))
        return np.where(known, 0.0, best)


class WorstPlaces(TailRisk):
    """The tail risk of the losses of places, with the ridge of the coefficients if there is one."""

    rho = 1.0

    def __init__(self, objective: WorstObjective, places: Places, offsets: Array) -> None:
        self.coordinates, self.places, self.offsets = objective.coordinates, places, offsets
        self.caps = objective.caps(places)
        self.ridge = objective.ridge

    def values(self, v: Array) -> tuple[float, Array]:
        smooth = 0.0 if self.ridge is None else 0.5 * float(self.ridge @ v**2)
        return smooth, -self.places.logliks(v) / self.places.sizes - self.offsets

    def expand(self, v: Array, weights: Array) -> Expansion:
        sizes = self.places.sizes
        logliks, gradients, hessian = self.places.derivatives(v, weights / sizes)
        ridge = np.zeros(v.size) if self.ridge is None else self.ridge
        return Expansion(
            0.5 * float(ridge @ v**2),
            -logliks / sizes - self.offsets,
            ridge * v,
            gradients / sizes[:, None],
            hessian + np.diag(ridge),
        )


class WeightedPlaces(Wrapped):
    """The loss in which places have given weights: minus the weighted sum of their mean log-likelihoods."""

    def __init__(self, inner: Objective, risk: WorstPlaces, weights: Array) -> None:
        super().__init__(inner)
        self.risk, self.place_weights = risk, weights
        self._at: tuple[Array, Expansion] | None = None

    def around(self, inner: Objective) -> Self:
        return type(self)(inner, self.risk, self.place_weights)

    def _expanded(self, v: Array) -> Expansion:
        if self._at is None or not np.array_equal(self._at[0], v):
            self._at = v.copy(), self.risk.expand(v, self.place_weights)
        return self._at[1]

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        at = self._expanded(v)
        used = self.place_weights > 0.0
        return Sums(-self.n_total * (at.smooth + float(self.place_weights[used] @ at.values[used])), np.zeros(0))

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        at, n = self._expanded(v), self.n_total
        gradient = at.slope + self.place_weights @ at.slopes
        return Derivatives(n * gradient, n * at.hessian, np.zeros((0, v.size)))


class WorstObjective(Wrapped):
    """The loss of the worst places; it starts from the maximum-likelihood fit to all rows."""

    def __init__(self, inner: Objective, case: WorstCase, names: tuple[Any, ...] = ()) -> None:
        super().__init__(inner)
        self.case, self.place_names = case, names

    def around(self, inner: Objective) -> Self:
        return type(self)(inner, self.case, self.place_names)

    @property
    def relaxed(self) -> Objective | None:
        return self.inner

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        return self.inner.sums(v, expected)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        return self.inner.derivatives(v, multiplier)

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        return self.inner.convexity(sums, 0.0)

    def caps(self, places: Places) -> Array:
        """Return the largest weight of each place."""
        if self.case.share is None:
            return np.ones(places.n)
        shares = (
            np.full(places.n, 1.0 / places.n) if self.case.weights == "equal" else places.sizes / places.sizes.sum()
        )
        return np.minimum(shares / self.case.share, 1.0)

    @property
    def rows(self) -> RowObjective:
        """Return the loss of the rows themselves."""
        rows = self.inner.unpenalised
        assert isinstance(rows, RowObjective)  # noqa: S101 - other losses are refused
        return rows

    def offsets(self, places: Places, v: Array, options: Options) -> Array:
        """Return the reference of each place, given the maximum-likelihood fit to all rows."""
        if self.case.reference is None:
            return np.zeros(places.n)
        if self.case.reference == "own-shift":
            return -places.at_best_shift(v) / places.sizes
        null = places.rows.restricted(np.zeros(0, dtype=np.intp))
        start = v[: null.n_parameters]
        found = minimise(null, start, 0.0, replace(options, verbose=0))
        return -replace(places, rows=null).logliks(found.v) / places.sizes

    def finished(self, solution: Solution, options: Options) -> Solution:
        places = Places.of(self.rows, self.case.min_rows)
        offsets = self.offsets(places, solution.v, options)
        risk = WorstPlaces(self, places, offsets)
        found = minimise_risk(risk, solution.v, options)
        sums = Sums(float(places.logliks(found.v).sum()), np.zeros(0))
        gap = self._gap(risk, found.v, found.weights, found.loss, options)
        risk_of, share = ("worst", 0.0) if self.case.share is None else ("cvar", self.case.share)
        about = risk_of, share, self.case.reference, self._names(places), places.sizes
        exact = places.kinds["exact"] / places.sizes
        decisive = Decisive(*about, found.weights, found.at.values, offsets, exact, gap)
        made = found.solution(risk, solution.xi, sums)
        return replace(made, n_iter=solution.n_iter + made.n_iter, decisive=decisive)

    def _gap(self, risk: WorstPlaces, v: Array, weights: Array, loss: float, options: Options) -> float:
        """Return how far the loss can be from its smallest value: one fit by maximum likelihood with weights of places.

        Whatever the weights, the smallest weighted mean of the places is no larger than the smallest risk, if the
        likelihood is concave.
        """
        if self.convexity(Sums(0.0, np.zeros(0)), 0.0) != "global":
            return math.nan
        weighted = WeightedPlaces(self.inner, risk, weights)
        bound = minimise(weighted, v, 0.0, replace(options, verbose=0))
        return loss - bound.loss if bound.converged else math.nan

    def _names(self, places: Places) -> tuple[Any, ...]:
        if places.n == places.pooled.size:
            return self.place_names
        whole = np.bincount(places.pooled, minlength=places.n) == 1
        kept = [name for name, at in zip(self.place_names, places.pooled, strict=True) if whole[at]]
        return (*kept, f"places with fewer than {self.case.min_rows} rows")
