"""Predicted distributions of models of the mean: a member of the family for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from anchortm._typing import Array, Rows
from anchortm._util.checks import probabilities, real_numbers
from anchortm.bases import ConstantBasis
from anchortm.exceptions import InputError
from anchortm.families import Family
from anchortm.families.crps import discrete_crps
from anchortm.predict.mixed_law import MixedLaw
from anchortm.predict.protocol import Distribution, as_rows, check_shape, labels_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AveragedFamily", "FamilyDistribution"]


@dataclass(frozen=True, eq=False)
class FamilyDistribution(Distribution):
    """Distributions of one outcome for n rows, as ``predict_distribution`` of ``AnchorGLM`` returns them.

    A number gives one value for each row, a vector of m numbers an (n, m) table, and an (n, k) table is read row by
    row. To take rows, use an index: ``distribution[:3]``.

    Attributes
    ----------
    family : Family
        With its alpha and its dispersion, where it has them.
    mu : array of shape (n,)
        Means; probabilities for binomial rows.
    trials : array of shape (n,)
        Trials of binomial rows, 1 for others.
    shift : array of shape (n,)
        x'beta + offset, without the intercept. Adding to the offset of a row adds to its shift.

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
    outcome_name: str | None = field(default=None, kw_only=True)
    labels: pd.Index | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return self.mu.size

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        labels = labels_of(self.labels, rows)
        return replace(self, mu=self.mu[rows], trials=self.trials[rows], shift=self.shift[rows], labels=labels)

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
        return self.family.law(self.mu[:, None], self.trials[:, None])

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

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score of outcomes, one value for each row, in closed form."""
        y = real_numbers(y, "y")
        if y.shape != (len(self),):
            raise InputError(f"y must have one value for each of the {len(self)} rows, not shape {y.shape}")
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.family.crps(y, self.mu, self.trials)


@dataclass(frozen=True, eq=False, repr=False)
class AveragedFamily(FamilyDistribution):
    """Distributions of one outcome for n rows of ``AnchorGLM``, averaged over the random effects of their clusters.

    It has the methods of ``FamilyDistribution``; ``mu`` are the averages of the means.

    Attributes
    ----------
    eta : array of shape (n, K)
        Linear predictors of each row, with its random effects at K quadrature nodes.
    weights : array of shape (n, K)
        Weights of the nodes; those of a row add up to 1.

    See Also
    --------
    anchortm.predict.FamilyDistribution : the distribution at one value of the effects

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT + (1 | BROOD)", data, family="poisson")
    >>> distribution = model.predict_distribution(data[:1])  # of a brood that the fit does not know
    >>> distribution
    AveragedFamily(1 rows, poisson)
    >>> distribution.pmf([0, 1]).round(2)
    array([[0.28, 0.2 ]])
    """

    eta: Array = field(default_factory=lambda: np.zeros((0, 1)))
    weights: Array = field(default_factory=lambda: np.ones((0, 1)))

    @classmethod
    def of(cls, family: Family, eta: Array, weights: Array, trials: Array, shift: Array) -> AveragedFamily:
        """Return the distributions at linear predictors of shape (n, K)."""
        law = MixedLaw(family, eta, weights, trials)
        return cls(family, law.mean_of_means, trials, shift, eta, weights)

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        return replace(super().__getitem__(rows), eta=self.eta[rows], weights=self.weights[rows])

    def __repr__(self) -> str:
        return f"AveragedFamily({len(self)} rows, {self.family.family})"

    @cached_property
    def _scipy(self) -> Any:
        """Return the mixtures, with the methods of scipy's distributions."""
        return MixedLaw(self.family, self.eta, self.weights, self.trials)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score of outcomes, one value for each row, as sums."""
        y = real_numbers(y, "y")
        if y.shape != (len(self),):
            raise InputError(f"y must have one value for each of the {len(self)} rows, not shape {y.shape}")
        return discrete_crps(self._scipy, y) if len(self) else y
