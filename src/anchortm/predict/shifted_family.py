"""Distributions of a GLM averaged over a random shift of the linear predictor.

Each probability is an integral of its own, adaptive as those of rows: fixed nodes would be too far apart for large
counts, whose distributions are narrow on the scale of the linear predictor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from anchortm._typing import Array, Rows
from anchortm._util.checks import real_numbers
from anchortm.engine.rows.shift_law import NormalShift, ShiftLaw
from anchortm.exceptions import InputError
from anchortm.families import Family
from anchortm.families.crps import LEVELS, continuous_crps, discrete_crps
from anchortm.links import log1mexp
from anchortm.predict.family import FamilyDistribution
from anchortm.predict.protocol import as_rows

__all__ = ["ShiftedFamily", "shifted_family"]

Tail = Callable[[Any, Array], Array]  # a log probability of a law at y

ROWS = 4000  # integrals in one pass
WIDTH = 1e-3  # width of differences that find where an integrand is largest
STEPS, CLOSE = 200, 1e-13  # steps of the search for a quantile, and its tolerance
FURTHEST = 2.0**53
STEEP = np.array([-8.0, 0.0, 8.0])  # where a distribution function changes, in widths of it
LEAST = 1e-9  # distance of a mean from the ends of its range


def shifted_family(family: Family, eta: Array, trials: Array, shift: Array, law: ShiftLaw) -> FamilyDistribution:
    """Return the distributions of rows with these linear predictors, averaged over a shift that is added to them."""
    if family.affine and isinstance(law, NormalShift):  # a normal shift of a normal mean
        wider = replace(family, dispersion=family.dispersion + law.sd**2)
        return FamilyDistribution(wider, np.asarray(family.mean(eta + law.mean).mu), trials, shift)
    return ShiftedFamily(family, ShiftedLaw(family, eta, trials, law).means, trials, shift, eta, law)


@dataclass(frozen=True, eq=False, repr=False)
class ShiftedFamily(FamilyDistribution):
    """Distributions of one outcome for n rows of ``AnchorGLM``, averaged over the shift of a new place.

    It has the methods of ``FamilyDistribution``; ``mu`` are the averages of the means.

    Attributes
    ----------
    eta : array of shape (n,)
        Linear predictors of an average place.
    law : ShiftLaw
        The law of what is added to them.

    See Also
    --------
    anchortm.predict.FamilyDistribution : the distribution of an average place

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT + C(YEAR) | LOCATION", data, family="poisson")
    >>> distribution = model.predict_distribution(data[:1], place="new")
    >>> distribution
    ShiftedFamily(1 rows, poisson)
    >>> distribution.interval(0.9)
    (array([0.]), array([43.]))
    """

    eta: Array = field(default_factory=lambda: np.zeros(0))
    law: ShiftLaw = field(default_factory=NormalShift)

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        return replace(super().__getitem__(rows), eta=self.eta[rows])

    def __repr__(self) -> str:
        return f"ShiftedFamily({len(self)} rows, {self.family.family})"

    @cached_property
    def _scipy(self) -> Any:
        """Return the averages, with the methods of scipy's distributions."""
        return ShiftedLaw(self.family, self.eta, self.trials, self.law)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score of outcomes, one value for each row, by sums or quadrature."""
        y = real_numbers(y, "y")
        if y.shape != (len(self),):
            raise InputError(f"y must have one value for each of the {len(self)} rows, not shape {y.shape}")
        if not len(self):
            return y
        law = self._scipy
        return (discrete_crps if self.discrete else continuous_crps)(law, y, law.rough_quantiles())


class ShiftedLaw:
    """Averages over a shift of eta of members of a family, one for each row, with the methods of scipy's distributions.

    Arguments have shape (n, m) or (1, m).
    """

    def __init__(self, family: Family, eta: Array, trials: Array, law: ShiftLaw) -> None:
        self.family, self.eta, self.trials, self.law = family, eta, trials, law

    def _average(self, log: Tail, at: Array, alone: bool = False) -> Array:
        """Return log E[exp(log(law of a row, at))], for ``at`` broadcast over the rows.

        ``alone`` says that this does not depend on ``at``.
        """
        n = self.eta.size
        table = np.broadcast_to(at, (n, at.shape[1]))
        rows, out = np.repeat(np.arange(n), at.shape[1]), np.empty(table.size)
        for start in range(0, out.size, ROWS):
            part = slice(start, start + ROWS)
            eta, trials, y = self.eta[rows[part], None], self.trials[rows[part], None], table.ravel()[part, None]
            values = _Differences(self.family, log, eta, trials, y)
            steep = None if alone else self._steep(y, trials) - eta
            out[part] = self.law.average(values, eta.size, self.family.concave, steep).log
        return out.reshape(table.shape)

    def _steep(self, y: Array, trials: Array) -> Array:
        """Return the linear predictors between which P(Y <= y) falls from 1 to 0."""
        family, (low, high) = self.family, self.family.mean_range
        mean = (y + 0.5 if family.discrete else y) / trials
        mean = np.clip(mean, low + LEAST, high - LEAST)
        each, places = np.unique(mean, return_inverse=True)
        centre = np.array([family.eta(own) for own in each.tolist()])[places].reshape(y.shape)
        at = family.mean(centre)
        with np.errstate(all="ignore"):
            width = np.sqrt(family.dispersion * family.variance(at.mu) / trials) / at.d1
        return np.asarray(centre + np.nan_to_num(width) * STEEP)

    def _moment(self, log: Callable[[Any], Any]) -> Array:
        return np.exp(self._average(lambda law, _: np.log(log(law)), np.zeros((1, 1)), True)[:, 0])

    @cached_property
    def means(self) -> Array:
        """Return the averages of the means, of one trial."""
        return self._moment(lambda law: law.mean()) / self.trials

    def var(self) -> Array:
        """Return the variances, as a column: the mean of the variances plus the variance of the means."""
        square = self._moment(lambda law: law.mean() ** 2)
        return (self._moment(lambda law: law.var()) + square - (self.trials * self.means) ** 2)[:, None]

    def logcdf(self, y: Array) -> Array:
        """Return log P(Y <= y)."""
        return self._tail(lambda law, at: law.logcdf(at), lambda law, at: law.logsf(at), y)

    def logsf(self, y: Array) -> Array:
        """Return log P(Y > y)."""
        return self._tail(lambda law, at: law.logsf(at), lambda law, at: law.logcdf(at), y)

    def _tail(self, log: Tail, other: Tail, y: Array) -> Array:
        """Return log probabilities of one tail, from the other one where that is smaller."""
        found = np.minimum(self._average(log, y), 0.0)
        large = found > math.log(0.5)
        if not large.any():
            return found
        rows, columns = np.nonzero(large)
        part = ShiftedLaw(self.family, self.eta[rows], self.trials[rows], self.law)
        at = np.broadcast_to(y, found.shape)[rows, columns][:, None]
        found[large] = log1mexp(np.maximum(-part._average(other, at)[:, 0], 0.0))
        return found

    def cdf(self, y: Array) -> Array:
        """Return P(Y <= y)."""
        return np.minimum(np.exp(self._average(lambda law, at: law.logcdf(at), y)), 1.0)

    def sf(self, y: Array) -> Array:
        """Return P(Y > y)."""
        return np.minimum(np.exp(self._average(lambda law, at: law.logsf(at), y)), 1.0)

    def logpmf(self, y: Array) -> Array:
        """Return log P(Y = y)."""
        return self._average(lambda law, at: law.logpmf(at), y)

    def logpdf(self, y: Array) -> Array:
        """Return the log density."""
        return self._average(lambda law, at: law.logpdf(at), y)

    def rough_quantiles(self) -> Array:
        """Return rough quantiles, of ``LEVELS`` from below and from above: those at quantiles of the shift."""
        levels = np.append(LEVELS, 1.0 - LEVELS[-2::-1])
        moved = self.law.mean + self.law.sd * special.ndtri(levels)
        with np.errstate(over="ignore"):
            mu = np.asarray(self.family.mean(self.eta[:, None] + moved).mu)
        found = np.asarray(self.family.law(mu, self.trials[:, None]).ppf(levels))
        return np.minimum(np.maximum.accumulate(found, axis=1), FURTHEST)

    def ppf(self, q: Array) -> Array:
        """Return the smallest y with P(Y <= y) >= q."""
        return self._quantile(np.atleast_2d(q), self.cdf, self.logcdf, 1.0)

    def isf(self, q: Array) -> Array:
        """Return the smallest y with P(Y > y) <= q."""
        return self._quantile(np.atleast_2d(q), self.sf, self.logsf, -1.0)

    def _quantile(
        self, q: Array, tail: Callable[[Array], Array], log_tail: Callable[[Array], Array], sign: float
    ) -> Array:
        """Return the smallest y whose tail has reached q, growing (``sign`` 1) or falling (-1)."""
        q = np.broadcast_to(q, (self.eta.size, q.shape[1]))
        first, endless = (q == 0.0, q == 1.0) if sign > 0.0 else (q == 1.0, q == 0.0)

        def reached(y: Array) -> NDArray[np.bool_]:
            return sign * (tail(y) - q) >= 0.0

        low, high = self._around(reached, first | endless)
        if self.family.discrete:
            while (high - low > 1.0).any():
                middle = np.floor(0.5 * (low + high))
                there = reached(middle)
                low, high = np.where(there, low, middle), np.where(there, middle, high)
        else:
            high = self._solved(low, high, q, log_tail, sign, first | endless)
        found = np.where(first, 0.0 if self.family.discrete else self._lowest, high)
        return np.where(endless | (found >= FURTHEST), np.inf, found)

    @property
    def _lowest(self) -> float:
        """Return the lower end of the outcomes, of counts the number before it."""
        return -1.0 if self.family.discrete else 0.0 if self.family.mean_range[0] == 0.0 else -math.inf

    def _around(self, reached: Callable[[Array], NDArray[np.bool_]], known: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return ends of intervals that hold the quantiles, by steps that double; those that are known do not count."""
        centre, spread = (self.trials * self.means)[:, None], np.sqrt(self.var())
        if self.family.discrete:
            centre, spread = np.floor(centre), np.ceil(np.maximum(spread, 1.0))
        low = np.broadcast_to(np.maximum(centre - spread, self._lowest), known.shape)
        high, step = np.broadcast_to(centre + spread, known.shape), 1.0
        for _ in range(STEPS):
            short = ~(known | reached(high) | (high >= FURTHEST))
            late = ~known & (low > self._lowest) & reached(low)
            if not (short | late).any():
                break
            step *= 2.0
            high = np.where(short, high + step * spread, high)
            low = np.where(late, np.maximum(low - step * spread, self._lowest), low)
        return low, high

    def _solved(
        self,
        low: Array,
        high: Array,
        q: Array,
        log_tail: Callable[[Array], Array],
        sign: float,
        done: NDArray[np.bool_],
    ) -> Array:
        """Return where a tail has the probability q, by Newton's method inside intervals."""
        y = 0.5 * (low + high)
        with np.errstate(all="ignore"):
            goal = np.log(q)
            for _ in range(STEPS):
                log = log_tail(y)
                gap = sign * (log - goal)
                low, high = np.where(gap <= 0.0, y, low), np.where(gap >= 0.0, y, high)
                newton = y - gap * np.exp(log - self.logpdf(y))
                there = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
                there = np.where(done, y, there)
                done = done | ~(np.abs(there - y) > CLOSE * np.abs(y))
                y = there
                if done.all():
                    break
        return y


class _Differences:
    """A log probability as a function of the shift of eta, with derivatives by differences.

    Derivatives only show where an integrand is largest; they are computed for single shifts.
    """

    def __init__(self, family: Family, log: Tail, eta: Array, trials: Array, y: Array) -> None:
        self.family, self.log, self.eta, self.trials, self.y = family, log, eta, trials, y

    def _at(self, delta: Array) -> Array:
        with np.errstate(all="ignore"):
            mu = np.asarray(self.family.mean(self.eta + delta).mu)
            return np.asarray(self.log(self.family.law(mu, np.broadcast_to(self.trials, mu.shape)), self.y))

    def __call__(self, delta: Array) -> tuple[Array, Array, Array]:
        if delta.shape[1] > 1:
            found = self._at(delta)
            return found, found, found
        below, middle, above = np.split(self._at(delta + WIDTH * np.array([-1.0, 0.0, 1.0])), 3, axis=1)
        with np.errstate(all="ignore"):
            return middle, (above - below) / (2.0 * WIDTH), (2.0 * middle - below - above) / WIDTH**2
