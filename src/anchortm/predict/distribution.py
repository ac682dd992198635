"""The predicted distribution of each row: P(Y <= y | x) = F(h_0(y) + gain * shift).

Broadcasting as in scipy.stats, with rows first: a number gives one value a row, a vector of m
numbers an (n, m) table, an (n, k) table is read row by row. Everything is computed from log F
and log(1 - F), so both tails keep their digits. Tables are filled in chunks: beside the result
memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._util.checks import generator, level_between, probabilities, real_numbers, whole_number
from anchortm.bases import Basis, CountBasis, OrdinalBasis, baseline_values
from anchortm.exceptions import InputError, InputTypeError
from anchortm.links import Link

__all__ = ["PredictedDistribution"]

Array = NDArray[np.float64]

CHUNK = 200_000  # values in one pass
COUNT_TERMS = 2000  # of the mean of a count
TAIL = 1e-18  # mass beyond which the mean does not look, but for slow tails
PANELS = 12  # between two points where h_0 changes
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True, eq=False)
class PredictedDistribution:
    """Distributions of one outcome for n rows, as returned by ``predict_distribution``.

    Values of ordinal outcomes are class labels. An outcome given as ``Surv`` lies above 0: the
    cdf is 0 at and below 0, and what a baseline leaves there is an atom at 0.

    A number gives one value a row, a vector of m numbers an (n, m) table, an (n, k) table is read row by row.
    Rows are taken by indexing: ``distribution[:3]``.

    Attributes
    ----------
    link : Link
    basis : Basis
    theta : array of shape (k,) or (n, k)
        Parameters of the baseline, of all rows or of each (strata, effects that vary, scale effects).
    shift : array of shape (n,)
        x'beta + offset: what is added to the offset of a row is added here.
    positive : bool
        Whether the outcome lies above 0.
    after : array of shape (n,) or None
        What each outcome is known to exceed, see ``given``.
    gain : number, or array of shape (n,)
        What h gains for each unit of the shift, h(y | x) = h_0(y) + gain * shift: 1 in models of hazards and -1 in all
        others; divided by the spread of latent outcomes where random effects widen a normal one.

    See Also
    --------
    anchortm.plotting.distributions : draws them
    anchortm.scores.score_table : scores them

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> distribution = model.predict_distribution(data[:2])
    >>> distribution
    PredictedDistribution(2 rows of numbers, cloglog link)
    >>> distribution.sf([100.0, 300.0]).round(2)
    array([[0.95, 0.79],
           [0.86, 0.51]])
    >>> distribution.ppf(0.1).round(0)
    array([173.,  71.])
    >>> distribution.given(after=200.0).sf(300.0).round(2)  # of those without an infection for 200 days
    array([0.9 , 0.73])
    """

    link: Link
    basis: Basis
    theta: Array
    shift: Array
    positive: bool = False
    after: Array | None = None
    gain: float | Array = 1.0

    def __len__(self) -> int:
        return self.shift.size

    def __getitem__(self, rows: Any) -> PredictedDistribution:
        rows = [rows] if isinstance(rows, (int, np.integer)) else rows
        after = None if self.after is None else self.after[rows]
        theta = self.theta if self.theta.ndim == 1 else self.theta[rows]
        gain = self.gain if np.ndim(self.gain) == 0 else np.asarray(self.gain)[rows]
        return replace(self, theta=theta, shift=self.shift[rows], after=after, gain=gain)

    @cached_property
    def _moved(self) -> Array:
        """Return what h of each row has beyond h_0."""
        return np.asarray(self.gain * self.shift)

    def by_baseline(self) -> Iterator[tuple[Any, PredictedDistribution]]:
        """Yield rows that share a baseline, and their distributions with the one theta that they have."""
        if self.theta.ndim == 1:
            yield slice(None), self
            return
        thetas, group = np.unique(self.theta, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        for theta, rows in zip(thetas, np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1]), strict=True):
            yield rows, replace(self[rows], theta=theta)

    def __repr__(self) -> str:
        kind = "classes" if self.basis.kind == "ordinal" else "counts" if self.basis.discrete else "numbers"
        return f"PredictedDistribution({len(self)} rows of {kind}, {self.link.name} link)"

    def given(self, after: ArrayLike) -> PredictedDistribution:
        """Return the distributions given that the outcome lies beyond ``after`` (one value, or one a row)."""
        if self.basis.discrete:
            raise InputTypeError("given(after=...) is for continuous outcomes")
        values = real_numbers(after, "after")
        if values.shape not in ((), self.shift.shape):
            raise InputError(f"after must be one number, or one for each of the {len(self)} rows, not {values.shape}")
        later = np.broadcast_to(values, self.shift.shape)
        return replace(self, after=later.copy() if self.after is None else np.maximum(later, self.after))

    def _codes(self, y: Any) -> Array:
        """Return values of y as numbers that the basis takes; labels become the positions of classes."""
        if not isinstance(self.basis, OrdinalBasis):
            return real_numbers(y, "y")
        known = {level: code for code, level in enumerate(self.basis.levels)}
        array = np.asarray(y, dtype=object)
        unknown = [value for value in array.ravel() if value not in known]
        if unknown:
            raise InputError(f"unknown class {unknown[0]!r}; known are {list(known)}")
        return np.array([known[value] for value in array.ravel()], dtype=np.float64).reshape(array.shape)

    def _table(self, y: Array, work: Callable[[Array, Array], Array], slopes: bool = False) -> Array:
        """Return work(h, h_0') with y broadcast over rows (h_0' = 0 unless ``slopes``), a chunk of rows at a time."""
        n = len(self)
        if y.ndim > 2 or (y.ndim == 2 and y.shape[0] != n):
            raise InputError(f"y must be a number, a vector or of shape ({n}, k), not {y.shape}")
        width = y.shape[1] if y.ndim == 2 else y.size
        out = np.empty((n, width))
        shared = y.ndim < 2 and self.theta.ndim == 1
        table = y.reshape(1, -1) if shared else np.broadcast_to(y if y.ndim == 2 else y.reshape(1, -1), (n, width))
        rows = max(1, CHUNK // max(1, width))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            if start == 0 or not shared:
                own = table if shared else table[part]
                at = np.repeat(np.arange(start, start + own.shape[0]), width)
                base = self._baseline(own.ravel(), at).reshape(own.shape)
                slope = self._slopes(own.ravel(), at).reshape(own.shape) if slopes else np.zeros(own.shape)
            out[part] = work(base + self._moved[part, None], slope)
        return out[:, 0] if y.ndim == 0 else out

    def _of_rows(self, rows: Any) -> Array:
        """Return theta, of these rows where each has its own."""
        return self.theta if self.theta.ndim == 1 else self.theta[rows]

    def _slopes(self, y: Array, rows: NDArray[np.intp]) -> Array:
        """Return h_0'(y) of these rows, 0 where there is no mass."""
        slope, inside = np.zeros(y.shape), np.isfinite(self._baseline(y, rows))
        if inside.any():
            slope[inside] = baseline_values(self.basis.derivative_rows(y[inside]), self._of_rows(rows[inside]))
        return slope

    def _baseline(self, y: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return h_0(y) of these rows, -inf where no mass can lie and +inf at the last class.

        ``rows`` are needed where rows have baselines of their own.
        """
        low = max(self.basis.lower_bound, 0.0 if self.positive else -math.inf)
        if self.basis.discrete:
            y = np.floor(y)
        h = np.full(y.shape, -np.inf)
        h[np.isposinf(y)] = np.inf
        inside = np.isfinite(y) & (y > low)
        if isinstance(self.basis, OrdinalBasis):
            last = y >= self.basis.n_parameters
            h[last] = np.inf
            inside &= ~last & (y >= 0)
        theta = self.theta if self.theta.ndim == 1 or rows is None else self.theta[rows[inside]]
        h[inside] = baseline_values(self.basis.rows(y[inside]), theta)
        h[np.isnan(y)] = np.nan
        return h

    def _log_sf_after(self) -> Array:
        """Return log(1 - F) at the time that the outcome is known to exceed."""
        assert self.after is not None  # noqa: S101
        return self.link.log_sf(self._baseline(self.after, np.arange(len(self))) + self._moved)

    def trafo(self, y: Any) -> Array:
        """Return h(y | x), the transformation to the scale of the link."""
        return self._table(self._codes(y), lambda h, _: h)

    def logsf(self, y: Any) -> Array:
        """Return log P(Y > y)."""
        if self.after is None:
            return self._table(self._codes(y), lambda h, _: self.link.log_sf(h))
        y = self._codes(y)
        known = self._log_sf_after()
        known = known if y.ndim == 0 else known[:, None]
        return np.minimum(self._table(y, lambda h, _: self.link.log_sf(h)) - known, 0.0)

    def logcdf(self, y: Any) -> Array:
        """Return log P(Y <= y)."""
        if self.after is None:
            return self._table(self._codes(y), lambda h, _: self.link.log_cdf(h))
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(self.logsf(y)))

    def cdf(self, y: Any) -> Array:
        """Return P(Y <= y)."""
        return np.exp(self.logcdf(y))

    def sf(self, y: Any) -> Array:
        """Return P(Y > y)."""
        return np.exp(self.logsf(y))

    def logpdf(self, y: Any) -> Array:
        """Return the log density f(h) h'(y); of a discrete outcome log P(Y = y)."""
        if self.basis.discrete:
            return self._log_mass(y)
        values = self._table(self._codes(y), self._log_density, slopes=True)
        if self.after is None:
            return values
        known = self._log_sf_after()
        y = np.asarray(y, dtype=np.float64)
        if y.ndim == 0:
            return np.where(y > self.after, values - known, -np.inf)
        return np.where(y > self.after[:, None], values - known[:, None], -np.inf)

    def _log_density(self, h: Array, slope: Array) -> Array:
        inside = np.isfinite(h)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = self.link.log_density(np.where(inside, h, 0.0)) + np.log(slope)
        return np.where(np.isnan(h), np.nan, np.where(inside & (slope > 0.0), density, -np.inf))

    def _log_mass(self, y: Any) -> Array:
        codes = self._codes(y)
        whole = np.isfinite(codes) & (codes == np.floor(codes)) & (codes >= 0)
        upper = self._table(codes, lambda h, _: h)
        lower = self._table(codes - 1.0, lambda h, _: h)
        mass = self.link.interval(lower, upper).l
        if codes.ndim < 2:
            return np.where(whole if codes.ndim == 0 else whole[None, :], mass, -np.inf)
        return np.where(whole, mass, -np.inf)

    def pdf(self, y: Any) -> Array:
        """Return the density; of a discrete outcome the probability of y."""
        return np.exp(self.logpdf(y))

    def pmf(self, y: Any) -> Array:
        """Return P(Y = y) of a discrete outcome."""
        if not self.basis.discrete:
            raise InputTypeError("a continuous outcome has no pmf; use pdf")
        return np.exp(self._log_mass(y))

    def hazard(self, y: Any) -> Array:
        """Return the density given survival up to y; of a discrete outcome P(Y = y | Y >= y)."""
        log_density = self.logpdf(y)
        if self.basis.discrete:
            return np.exp(log_density - np.logaddexp(log_density, self.logsf(y)))
        with np.errstate(invalid="ignore", over="ignore"):
            return np.exp(log_density - self.logsf(y))

    def cumhazard(self, y: Any) -> Array:
        """Return -log P(Y > y)."""
        return -self.logsf(y)

    def odds(self, y: Any) -> Array:
        """Return P(Y <= y) / P(Y > y)."""
        with np.errstate(over="ignore"):
            return np.exp(self.logcdf(y) - self.logsf(y))

    def ppf(self, q: ArrayLike) -> Any:
        """Return the smallest y with P(Y <= y) >= q; infinite where a flat end never gets there."""
        q = probabilities(q)
        with np.errstate(divide="ignore"):
            if self.after is None:
                return self._invert(self.link.quantile(q), q.ndim)
            return self._invert_log_sf(np.log1p(-q))

    def isf(self, q: ArrayLike) -> Any:
        """Return the y with P(Y > y) = q, exact for tiny q."""
        q = probabilities(q)
        with np.errstate(divide="ignore"):
            if self.after is None:
                return self._invert(self.link.quantile_from_log_sf(np.log(q)), q.ndim)
            return self._invert_log_sf(np.log(q))

    def _invert_log_sf(self, log_q: Array) -> Array:
        """Return quantiles given survival: P(Y > y) = q P(Y > after)."""
        if log_q.ndim > 2 or (log_q.ndim == 2 and log_q.shape[0] != len(self)):
            raise InputError(f"q must be a number, a vector or of shape ({len(self)}, k), not {log_q.shape}")
        known = self._log_sf_after()
        z = self.link.quantile_from_log_sf(log_q + (known if log_q.ndim == 0 else known[:, None]))
        assert self.after is not None  # noqa: S101
        y = self._from_h(z - (self._moved if z.ndim == 1 else self._moved[:, None]))
        return np.maximum(y, self.after if y.ndim == 1 else self.after[:, None])

    def _invert(self, z: Array, ndim: int) -> Any:
        if ndim > 2 or (ndim == 2 and z.shape[0] != len(self)):
            raise InputError(f"q must be a number, a vector or of shape ({len(self)}, k), not {z.shape}")
        h = (
            z - self._moved
            if ndim == 0
            else z.reshape(1, -1) - self._moved[:, None]
            if ndim == 1
            else z - self._moved[:, None]
        )
        y = self._from_h(h)
        if isinstance(self.basis, OrdinalBasis):
            return self.basis.labels()[y.astype(np.intp)]
        return y

    def _from_h(self, h: Array) -> Array:
        out = np.empty(h.size)
        flat, rows = h.ravel(), np.repeat(np.arange(len(self)), h.size // max(1, len(self)))
        chunk = CHUNK if self.theta.ndim == 1 else CHUNK // 8
        for start in range(0, h.size, chunk):
            part = slice(start, start + chunk)
            out[part] = self.basis.inverse(self._of_rows(rows[part]), flat[part])
        low = max(self.basis.lower_bound, 0.0) if self.positive else self.basis.lower_bound
        if self.basis.kind == "count":
            low = 0.0
        return np.where(np.isnan(flat), np.nan, np.maximum(out, low)).reshape(h.shape)

    def median(self) -> Any:
        """Return the medians."""
        return self.ppf(0.5)

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Return the ends of the central intervals with probability ``level``."""
        tail = 0.5 * (1.0 - level_between(level, ends=True))
        return self.ppf(tail), self.isf(tail)

    def rvs(self, size: int = 1, random_state: Any = None) -> Any:
        """Return random draws, (n, size)."""
        rng = generator(random_state)
        return self.ppf(rng.random((len(self), whole_number(size, "size", 0))))

    def probabilities(self) -> Array:
        """Return the probability of each class of an ordinal outcome, (n, K)."""
        if not isinstance(self.basis, OrdinalBasis):
            raise InputTypeError("probabilities() is for ordinal outcomes; use pmf for counts")
        return self.pmf(np.array([*self.basis.levels], dtype=object))

    def mode(self) -> Any:
        """Return the most probable class or count."""
        if isinstance(self.basis, OrdinalBasis):
            return self.basis.labels()[np.argmax(self.probabilities(), axis=1)]
        if self.basis.kind != "count":
            raise InputTypeError("mode() is for discrete outcomes")
        # counts at many quantiles, then ever finer counts around the best of them
        grid = np.nan_to_num(self.ppf(np.linspace(0.0, 0.999, 200)), posinf=2.0**53)
        grid = np.concatenate([np.zeros((len(self), 1)), grid], axis=1)
        while True:
            best = np.argmax(self.pmf(grid), axis=1)
            rows = np.arange(len(self))
            low = grid[rows, np.maximum(best - 1, 0)]
            high = grid[rows, np.minimum(best + 1, grid.shape[1] - 1)]
            if len(self) == 0 or (np.diff(grid, axis=1).max() <= 1.0):
                return grid[rows, best]
            grid = np.floor(low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 101))

    def mean(self) -> Array:
        """Return the expectations, to a relative error of about 1e-8.

        Closed forms for a basis linear in log y; else the integral of y over z = h(y | x) with the
        density of the link, by Gauss-Legendre on panels that end where h_0 changes from polynomial
        to line. Infinite where the tail is too heavy or an end is flat, not a number where both are.
        """
        if isinstance(self.basis, OrdinalBasis):
            raise InputTypeError("classes have no mean")
        if self.theta.ndim == 2:
            means = np.empty(len(self))
            for rows, part in self.by_baseline():
                means[rows] = part.mean()
            return means
        if isinstance(self.basis, CountBasis) and not self.basis.flat_ends(self.theta)[1]:
            return self._count_mean()
        first, last = self.basis.flat_ends(self.theta)
        first = first and not self._bounded_below
        if first or last or self._heavy_tail():
            return np.full(len(self), math.nan if first and last else -math.inf if first else math.inf)
        closed = self.basis.kind == "log-linear" and self.after is None
        return self._log_linear_mean() if closed else self._quadrature()

    @property
    def _bounded_below(self) -> bool:
        return self.positive or self.after is not None or self.basis.lower_bound > -math.inf

    def _tail_slope(self) -> float:
        """Return the slope of h_0 in log y beyond the support of a basis in log y, else infinity."""
        return self.basis.end_slopes(self.theta)[1] if self.basis.lower_bound == 0.0 else math.inf

    def _heavy_tail(self) -> bool:
        # y grows like exp(z / slope)
        return self.link.tail_rate * self._tail_slope() <= 1.0

    def _log_linear_mean(self) -> Array:
        """Return E[exp((Z - theta_1 - gain * shift) / theta_2)], by the moment generating function of the link."""
        k = 1.0 / float(self.theta[1])
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.link.log_moment(k) - k * (self.theta[0] + self._moved)))

    def _quadrature(self) -> Array:
        """Return the means row by row in z, each over the range that carries its integral."""
        known = np.zeros(len(self)) if self.after is None else self._log_sf_after()
        low = np.full(len(self), float(self.link.quantile(TAIL)))
        if self.after is not None:
            low = np.maximum(low, self._baseline(self.after) + self._moved)
        high = self._reach(low, known)
        knots = [self.theta[0], self.theta[-1]]
        if self.positive and self.basis.lower_bound < 0.0:
            knots.append(float(self.basis.rows([0.0])[0] @ self.theta))
        total = np.empty(len(self))
        rows = max(1, CHUNK // ((len(knots) + 1) * PANELS * NODES.size))
        unit = np.linspace(0.0, 1.0, PANELS + 1)
        for start in range(0, len(self), rows):
            part = slice(start, start + rows)
            inner = np.clip(np.array(knots) + self._moved[part, None], low[part, None], high[part, None])
            marks = np.sort(np.column_stack([low[part], inner, high[part]]), axis=1)
            edges = marks[:, :-1, None] + np.diff(marks, axis=1)[:, :, None] * unit
            half = 0.5 * np.diff(edges, axis=2)[..., None]
            z = edges[:, :, :-1, None] + half * (1.0 + NODES)
            z = z.reshape(z.shape[0], -1)
            mass = np.exp(self.link.log_density(z) - known[part, None])
            y = self._from_h(z - self._moved[part, None])
            weight = (half * WEIGHTS).reshape(z.shape[0], -1)
            total[part] = np.where(mass > 0.0, weight * mass * np.where(mass > 0.0, y, 0.0), 0.0).sum(axis=1)
        return total

    def _reach(self, low: Array, known: Array) -> Array:
        """Return the upper end of the integral, beyond which nothing is left even of a growing y."""
        high = self.link.quantile_from_log_sf(known + math.log(TAIL))
        slope = self._tail_slope()
        if not math.isfinite(slope):
            return np.asarray(high)
        extra = self.link.reach(low, slope)
        return np.asarray(np.maximum(high, np.maximum(extra, 0.0)))

    def _count_mean(self) -> Array:
        """Return the sum of P(Y > k): the first terms as they are, the rest by Euler and Maclaurin.

        For a smooth survival function S the terms from K on are the integral of S beyond K
        plus S(K)/2 - S'(K)/12, up to a third derivative; K is far out, where S is smooth.
        """
        assert isinstance(self.basis, CountBasis)  # noqa: S101
        k = np.arange(COUNT_TERMS, dtype=np.float64)
        total = np.empty(len(self))
        rows = max(1, CHUNK // COUNT_TERMS)
        for start in range(0, len(self), rows):
            part = slice(start, start + rows)
            total[part] = self[part].sf(k).sum(axis=1)
        inner = replace(self, basis=self.basis.bernstein)
        end = COUNT_TERMS + float(self.basis.log_first)  # K on the scale of the Bernstein basis
        left = inner.sf(end)
        matters = np.flatnonzero(left > TAIL)
        if matters.size:
            rest = inner[matters]
            beyond = left[matters] * (rest.given(end).mean() - end)
            total[matters] += beyond + 0.5 * left[matters] + rest.pdf(end) / 12.0
        return total
