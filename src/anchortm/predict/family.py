"""Predicted distributions of models of the mean: a member of the family for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from anchortm._typing import Array, Rows
from anchortm._util.checks import probabilities, real_numbers
from anchortm.bases import ConstantBasis
from anchortm.exceptions import InputError
from anchortm.families import Family, excess
from anchortm.predict.protocol import Distribution, as_rows, check_shape

__all__ = ["FamilyDistribution"]

STIRLING_FROM = 1e8  # counts and means above this use Stirling's formula
STEP, STEPS = 0.1, 400  # of the integral of ``_or_summed``


@dataclass(frozen=True, eq=False)
class FamilyDistribution(Distribution):
    """Distributions of one outcome for n rows, as ``predict_distribution`` of ``AnchorGLM`` returns them.

    A number gives one value a row, a vector of m numbers an (n, m) table, an (n, k) table is read row by row.
    Rows are taken by indexing: ``distribution[:3]``.

    Attributes
    ----------
    family : Family
        With its alpha and its dispersion, where it has them.
    mu : array of shape (n,)
        Means; of binomial rows probabilities.
    trials : array of shape (n,)
        Trials of binomial rows, 1 of others.
    shift : array of shape (n,)
        x'beta + offset, without the intercept: what is added to the offset of a row is added here.

    See Also
    --------
    anchortm.AnchorGLM : predicts them
    anchortm.scores.score_table : scores them

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> formula = "TICKS ~ cHEIGHT + C(YEAR) | LOCATION"
    >>> model = atm.AnchorGLM.from_formula(formula, data, family="negative_binomial", alpha="ml", xi=0.1)
    >>> distribution = model.predict_distribution(data[:2])
    >>> distribution
    FamilyDistribution(2 rows, negative_binomial)
    >>> distribution.pmf([0, 1]).round(2)
    array([[0.27, 0.17],
           [0.27, 0.17]])
    """

    family: Family
    mu: Array
    trials: Array
    shift: Array

    def __len__(self) -> int:
        return self.mu.size

    def __getitem__(self, rows: Rows) -> FamilyDistribution:
        rows = as_rows(rows)
        return replace(self, mu=self.mu[rows], trials=self.trials[rows], shift=self.shift[rows])

    def __repr__(self) -> str:
        return f"FamilyDistribution({len(self)} rows, {self.family.family})"

    @property
    def discrete(self) -> bool:
        """Whether outcomes are whole numbers."""
        return self.family.discrete

    @property
    def basis(self) -> ConstantBasis:
        """Return the basis, which says whether outcomes are whole numbers."""
        return ConstantBasis(self.family.discrete)

    @cached_property
    def _scipy(self) -> Any:
        """Return the distributions of scipy, rows first."""
        mu, m = self.mu[:, None], self.trials[:, None]
        match self.family.family:
            case "poisson":
                return stats.poisson(mu)
            case "binomial":
                return stats.binom(m, mu)
            case "negative_binomial":
                k = 1.0 / (self.family.alpha or 1.0)
                return stats.nbinom(k, k / (k + mu))
            case "gamma":
                return stats.gamma(1.0 / self.family.dispersion, scale=self.family.dispersion * mu)
        return stats.norm(mu, np.sqrt(self.family.dispersion))

    def _table(self, values: Array, what: str, work: Callable[[Array], Any]) -> Array:
        """Return work(values) with values broadcast over the rows."""
        n = len(self)
        check_shape(values, n, what)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.asarray(work(values if values.ndim == 2 else values.reshape(1, -1)), dtype=np.float64)
        out = np.broadcast_to(out, (n, out.shape[1]))
        return out[:, 0].copy() if values.ndim == 0 else out.copy()

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y)."""
        return self._table(real_numbers(y, "y"), "y", self._scipy.cdf)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y)."""
        return self._table(real_numbers(y, "y"), "y", self._scipy.sf)

    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""
        return self._table(real_numbers(y, "y"), "y", self._scipy.logcdf)

    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""
        return self._table(real_numbers(y, "y"), "y", self._scipy.logsf)

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density; of whole numbers log P(Y = y)."""
        work = self._scipy.logpmf if self.discrete else self._scipy.logpdf
        return self._table(real_numbers(y, "y"), "y", work)

    def ppf(self, q: ArrayLike) -> Array:
        """Return the smallest y with P(Y <= y) >= q."""
        return self._quantiles(q, self._scipy.ppf)

    def isf(self, q: ArrayLike) -> Array:
        """Return the y with P(Y > y) = q, exact for tiny q; of whole numbers the smallest with at most q."""
        return self._quantiles(q, self._scipy.isf)

    def _quantiles(self, q: ArrayLike, work: Callable[[Array], Any]) -> Array:
        found = self._table(probabilities(q), "q", work)
        return np.maximum(found, 0.0) if self.discrete else found  # scipy gives -1 at q = 0

    def mean(self) -> Array:
        """Return the means, of binomial rows the expected number of successes."""
        return self.trials * self.mu

    def variance(self) -> Array:
        """Return the variances."""
        return np.asarray(self._scipy.var()[:, 0], dtype=np.float64)

    def _poisson_pmf(self, y: Array) -> Array:
        """Return P(Y = y), by Stirling's formula where log y! is too large for its digits to help."""
        pmf, far = self.pmf(y[:, None])[:, 0], np.flatnonzero((y > STIRLING_FROM) & (self.mu > STIRLING_FROM))
        k, mu = y[far], self.mu[far]
        with np.errstate(over="ignore", under="ignore"):
            pmf[far] = np.exp(-0.5 * (mu - k) ** 2 / k * excess(mu / k - 1.0)[0]) / np.sqrt(2.0 * np.pi * k)
        return pmf

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score of outcomes, one value a row, in closed form."""
        y = real_numbers(y, "y")
        n, mu, m = len(self), self.mu, self.trials
        if y.shape != (n,):
            raise InputError(f"y must have one value for each of the {n} rows, not shape {y.shape}")
        F = self.cdf(y[:, None])[:, 0]
        match self.family.family:
            case "gaussian":
                sigma = np.sqrt(self.family.dispersion)
                z = (y - mu) / sigma
                return np.asarray(sigma * (z * (2.0 * F - 1.0) + 2.0 * stats.norm.pdf(z) - 1.0 / np.sqrt(np.pi)))
            case "gamma":
                a, scale = 1.0 / self.family.dispersion, self.family.dispersion * mu
                above = special.gammainc(a + 1.0, np.maximum(y, 0.0) / scale)
                return np.asarray(y * (2.0 * F - 1.0) - mu * (2.0 * above - 1.0) - scale / special.beta(0.5, a))
            case "poisson":
                gap = _or_summed(mu * (special.ive(0, 2.0 * mu) + special.ive(1, 2.0 * mu)), mu, 0.0)
                return np.asarray((y - mu) * (2.0 * F - 1.0) + 2.0 * mu * self._poisson_pmf(y) - gap)
            case "negative_binomial":
                k = 1.0 / (self.family.alpha or 1.0)
                p = k / (k + mu)
                below = stats.nbinom.cdf(y - 1.0, k + 1.0, p)
                odds = mu / k
                half = special.hyp2f1(k + 1.0, 0.5, 2.0, -4.0 * odds / p)
                gap = _or_summed(mu / p * half, mu, 1.0 / k)
                return np.asarray(y * (2.0 * F - 1.0) - mu * (2.0 * below - 1.0) - gap)
        scores = np.empty(n)
        for size in np.unique(m):
            own = np.flatnonzero(m == size)
            grid = np.arange(size)
            scores[own] = ((self[own].cdf(grid) - (y[own, None] <= grid)) ** 2).sum(axis=1)
        return scores


def _or_summed(closed: Array, mu: Array, alpha: float) -> Array:
    """Return E|Y - Y'| / 2 of counts, the closed form or, where that is not finite, an integral.

    E|Y - Y'| is the integral of (1 - |phi(t)|^2) / (1 - cos t) from 0 to pi, by pi, with the characteristic function
    |phi|^2 = (1 + 4 alpha mu (1 + alpha mu) sin^2(t / 2))^(-1 / alpha), in the Poisson limit exp(-4 mu sin^2(t / 2)).
    With tan(t / 2) = e^u it is smooth and falls like e^-|u|, so that equal steps do.
    """
    lost = np.flatnonzero(~np.isfinite(closed) & (mu > 0.0) & np.isfinite(mu))
    result = np.array(closed, dtype=np.float64)
    for row in lost:
        spread = mu[row] * (1.0 + alpha * mu[row])  # the variance
        u = np.arange(-STEPS, STEPS) * STEP - 0.5 * np.log1p(spread)
        sine = 4.0 * spread / (1.0 + np.exp(-2.0 * u))
        power = sine if alpha == 0.0 else np.log1p(alpha * sine) / alpha
        result[row] = 0.5 * STEP / np.pi * float(np.sum(-np.expm1(-power) * np.exp(-u)))
    return result
