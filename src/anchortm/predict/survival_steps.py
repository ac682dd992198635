"""Predicted survival with a baseline of steps: P(Y > y | x) = exp(-Lambda_0(y) exp(shift - centre)), by stratum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Rows
from anchortm._util.checks import probabilities, real_numbers
from anchortm.bases import Basis, Increments
from anchortm.engine.hazard_steps import Steps
from anchortm.exceptions import InputTypeError
from anchortm.links import Link
from anchortm.predict.protocol import Distribution, as_rows, check_shape, known_to_exceed, labels_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StepBasis", "StepDistribution"]


@dataclass(frozen=True)
class StepBasis(Basis):
    """The basis of a baseline of steps, which has no parameters: a partial likelihood does not use it."""

    kind: ClassVar[str] = "step"

    @property
    def n_parameters(self) -> int:
        """Return 0."""
        return 0

    @property
    def parameter_names(self) -> list[str]:
        """Return no names."""
        return []

    def rows(self, y: ArrayLike) -> Array:
        """Return rows without columns."""
        return np.zeros((np.size(y), 0))

    derivative_rows = rows

    @property
    def increments(self) -> Increments:
        """Return no constraints."""
        return Increments(np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros((0, 0)))

    def start(self, points: ArrayLike, z: ArrayLike) -> Array:
        """Return no parameters."""
        return np.zeros(0)

    def inverse(self, theta: ArrayLike, z: ArrayLike) -> Array:
        """Refuse: the steps are not part of the basis."""
        raise NotImplementedError("a baseline of steps is inverted by StepDistribution")


@dataclass(frozen=True, eq=False)
class StepDistribution(Distribution):
    """Predicted survival of n rows, as ``predict_distribution`` of ``CoxPH`` returns it.

    A number gives one value for each row, a vector of m numbers an (n, m) table, and an (n, k) table is read row by
    row. To take rows, use an index: ``distribution[:3]``. The curves have steps at the event times of the fit and stay
    flat beyond the last one, so that quantiles they never reach are infinite, and there is no density.

    Attributes
    ----------
    curves : tuple of Steps
        The cumulative baseline hazard of each stratum, that of a row whose shift is ``centre``.
    stratum : array of shape (n,)
        The stratum of each row.
    shift : array of shape (n,)
        x'beta + offset. Adding to the offset of a row adds to its shift.
    after : array of shape (n,) or None
        What each outcome is known to exceed, see ``given``.
    centre : number
        The shift at which the baseline hazards hold; a row's hazard is exp(shift - centre) times them.
    link : Link or None
        How the cumulative hazard of a row becomes its distribution, F(log hazard), where hazards are averaged over
        shifts between places. None is 1 - exp(-hazard).

    See Also
    --------
    anchortm.CoxPH : predicts them
    anchortm.plotting.distributions : draws them

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat + age | center", data)
    >>> distribution = model.predict_distribution(data[:2])
    >>> distribution
    StepDistribution(2 rows, 43 event times)
    >>> distribution.sf([100.0, 300.0]).round(2)
    array([[0.94, 0.79],
           [0.83, 0.5 ]])
    >>> distribution.ppf(0.1)
    array([168.,  52.])
    >>> distribution.given(after=200.0).sf(300.0).round(2)  # of those without an infection for 200 days
    array([0.89, 0.71])
    """

    curves: tuple[Steps, ...]
    stratum: NDArray[np.intp]
    shift: Array
    after: Array | None = None
    centre: float = 0.0
    link: Link | None = None
    outcome_name: str | None = field(default=None, kw_only=True)
    labels: pd.Index | None = field(default=None, kw_only=True)

    basis: ClassVar[StepBasis] = StepBasis()

    def __len__(self) -> int:
        return self.shift.size

    def __getitem__(self, rows: Rows) -> StepDistribution:
        rows = as_rows(rows)
        after = None if self.after is None else self.after[rows]
        labels = labels_of(self.labels, rows)
        return replace(self, stratum=self.stratum[rows], shift=self.shift[rows], after=after, labels=labels)

    def __repr__(self) -> str:
        times = sum(curve.time.size for curve in self.curves)
        strata = f" in {len(self.curves)} strata" if len(self.curves) > 1 else ""
        return f"StepDistribution({len(self)} rows, {times} event times{strata})"

    def times(self) -> Array:
        """Return 0 and the event times at which the curves of these rows have steps."""
        own = [self.curves[code].time for code in np.unique(self.stratum)]
        return np.unique(np.concatenate([[0.0], *own]))

    @property
    def discrete(self) -> bool:
        """Return False: times are continuous, though the curves have steps."""
        return False

    def given(self, after: ArrayLike) -> StepDistribution:
        """Return the distributions given that the outcome lies beyond ``after`` (one value, or one for each row)."""
        return replace(self, after=known_to_exceed(after, len(self), self.after))

    def _table(self, values: Array, what: str, work: Callable[[Steps, Array, Array, Array], Array]) -> Array:
        """Return work(curve, values, log hazard ratio, hazard so far) of each row, values broadcast over rows."""
        n = len(self)
        check_shape(values, n, what)
        out = np.empty((n, values.shape[1] if values.ndim == 2 else values.size))
        for code in np.unique(self.stratum):
            own, curve = np.flatnonzero(self.stratum == code), self.curves[code]
            known = np.zeros(own.size) if self.after is None else curve(self.after[own])
            part = values[own] if values.ndim == 2 else values.reshape(1, -1)
            out[own] = work(curve, part, self.shift[own, None] - self.centre, known[:, None])
        return out[:, 0] if values.ndim == 0 else out

    def cumhazard(self, y: ArrayLike) -> Array:
        """Return the cumulative hazard, -log P(Y > y)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._table(real_numbers(y, "y"), "y", self._between)

    def _between(self, curve: Steps, at: Array, shift: Array, known: Array) -> Array:
        """Return the cumulative hazard from where it is ``known`` up to ``at``."""
        if self.link is None:
            return np.asarray(np.maximum(curve(at) - known, 0.0) * np.exp(shift))
        return np.maximum(self._averaged(curve(at), shift) - self._averaged(known, shift), 0.0)

    def _averaged(self, hazard: Array, shift: Array) -> Array:
        """Return -log of the average of P(Y > y), where a row at shift 0 has this cumulative hazard."""
        assert self.link is not None  # noqa: S101
        with np.errstate(divide="ignore"):
            return -self.link.log_sf(np.log(hazard) + shift)

    def _time_of(self, curve: Steps, z: Array, shift: Array, known: Array) -> Array:
        """Return when the cumulative hazard has grown by z since it was ``known``."""
        if self.link is None:
            return curve.first_at(z * np.exp(-shift) + known)
        total = self.link.quantile_from_log_sf(-(z + self._averaged(known, shift)))
        return curve.first_at(np.exp(total - shift))

    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""
        return -self.cumhazard(y)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y)."""
        return -np.expm1(-self.cumhazard(y))

    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""
        with np.errstate(divide="ignore"):
            return np.log(self.cdf(y))

    def odds(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) / P(Y > y)."""
        with np.errstate(over="ignore"):
            return np.expm1(self.cumhazard(y))

    def ppf(self, q: ArrayLike) -> Array:
        """Return the smallest y with P(Y <= y) >= q; infinite where the curve never reaches q."""
        with np.errstate(divide="ignore"):
            return self._first(-np.log1p(-probabilities(q)))

    def isf(self, q: ArrayLike) -> Array:
        """Return the smallest y with P(Y > y) <= q."""
        with np.errstate(divide="ignore"):
            return self._first(-np.log(probabilities(q)))

    def _first(self, hazard: Array) -> Array:
        with np.errstate(over="ignore"):
            found = self._table(hazard, "q", self._time_of)
        lowest = 0.0 if all((curve.time[:1] >= 0.0).all() for curve in self.curves) else -np.inf
        start = np.full(len(self), lowest) if self.after is None else self.after
        # a hazard of zero is reached at the start, before any step
        return np.where(hazard == 0.0, start if found.ndim == 1 else start[:, None], found)

    def _nodes_below(self, tau: float) -> tuple[Array, Array]:
        """Return the times before tau at which the curve has steps, and how long it stays as it is from there."""
        times = self.times()
        times = np.append(times[(times >= 0.0) & (times < tau)], tau)
        start = 0.0 if self.after is None else np.clip(self.after, 0.0, tau)[:, None]
        lengths = np.diff(np.maximum(times, start))
        size = (len(self), times.size)
        at, weights = np.broadcast_to(times, size).copy(), np.zeros(size)
        at[:, -1], weights[:, :-1] = -1.0, lengths  # before 0 all survive, and so they do up to ``after``
        weights[:, -1] = np.ravel(start)
        return at, weights

    def mean(self) -> NoReturn:
        """Refuse: beyond the last event time nothing is known."""
        raise InputTypeError(
            "a step curve has no mean, because nothing is known beyond the last event time: use median(), or fit "
            "ProportionalHazards, whose baseline continues"
        )

    def logpdf(self, y: ArrayLike) -> NoReturn:
        """Refuse: steps have no density, and so no pdf and no hazard rate."""
        raise InputTypeError(
            "a step curve has no density and no hazard rate: use cumhazard or sf, or fit ProportionalHazards, whose "
            "baseline is smooth"
        )
