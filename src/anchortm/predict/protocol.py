"""The contract of predicted distributions: what every kind answers, and what follows from a few answers.

A kind of distribution has n rows and provides the log probabilities below and above y, the log density, the quantiles
from both sides and the mean. Everything else is derived here, once. Values are broadcast as in scipy.stats, with rows
first: a number gives n values, a vector of m numbers an (n, m) table, and an (n, k) table is read row by row.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Rows, Seed
from anchortm._util.checks import generator, level_between, real_numbers, whole_number
from anchortm.exceptions import InputError, InputTypeError
from anchortm.predict.restricted import chunks, horizon, quadrature, restricted_means
from anchortm.predict.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Distribution", "as_rows", "check_shape", "known_to_exceed", "labels_of"]


class Distribution(Shown):
    """Distributions of one outcome for n rows: the base class of all kinds.

    ``predict_distribution`` returns one of the kinds below. They share these methods, and ``distribution[:3]`` takes
    rows. To add a kind, derive from this class and write its abstract methods.

    Attributes
    ----------
    outcome_name : str or None
        What the outcome is called: the column of the outcome in the fit, if it had a name.
    labels : pandas Index or None
        The labels of the rows, from the index of X if it does more than number the rows from 0. Pictures show them.

    See Also
    --------
    anchortm.predict.PredictedDistribution : of a transformation model
    anchortm.predict.AveragedDistribution : averaged over random effects
    anchortm.predict.StepDistribution : of a Cox model
    anchortm.predict.FamilyDistribution : of a GLM
    anchortm.predict.AveragedFamily : of a GLM, averaged over random effects
    anchortm.predict.ShiftedFamily : of a GLM, averaged over shifts between places
    anchortm.predict.PiecewiseDistribution : known at some points, such as quantiles

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.predict import Distribution
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.NormalLinear().fit(data[["duration"]], data.waiting)
    >>> distribution = model.predict_distribution(data[["duration"]][:2])
    >>> isinstance(distribution, Distribution), len(distribution)
    (True, 2)
    >>> distribution.sf([60.0, 80.0]).round(2)  # a row for each distribution, a column for each point
    array([[0.77, 0.13],
           [0.98, 0.59]])
    """

    outcome_name: str | None = None
    labels: pd.Index | None = None

    def named(self, outcome_name: str | None, labels: pd.Index | None) -> Self:
        """Return the distributions with these names of outcome and rows."""
        found: Any = self  # all kinds of ours are dataclasses
        return replace(found, outcome_name=outcome_name, labels=labels)  # type: ignore[no-any-return]

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def __getitem__(self, rows: Rows) -> Self:
        """Return the distributions of some rows."""

    @property
    @abstractmethod
    def discrete(self) -> bool:
        """Whether outcomes are counts or classes."""

    @abstractmethod
    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""

    @abstractmethod
    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""

    @abstractmethod
    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density; of a discrete outcome log P(Y = y)."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the quantiles: the smallest y with P(Y <= y) >= q."""

    @abstractmethod
    def isf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the quantiles from above: the smallest y with P(Y > y) <= q, exact for tiny q."""

    @abstractmethod
    def mean(self) -> Array:
        """Return the expectations."""

    def codes(self, y: ArrayLike) -> Array:
        """Return outcomes as numbers; classes become their positions, counted from 0."""
        return real_numbers(y, "y")

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y)."""
        return np.exp(self.logcdf(y))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y)."""
        return np.exp(self.logsf(y))

    def pdf(self, y: ArrayLike) -> Array:
        """Return the density; of a discrete outcome P(Y = y)."""
        return np.exp(self.logpdf(y))

    def pmf(self, y: ArrayLike) -> Array:
        """Return P(Y = y) of a discrete outcome."""
        if not self.discrete:
            raise InputTypeError("a continuous outcome has no pmf; use pdf")
        return np.exp(self.logpdf(y))

    def hazard(self, y: ArrayLike) -> Array:
        """Return the density given survival up to y; of a discrete outcome P(Y = y | Y >= y)."""
        log_density, log_sf = self.logpdf(y), self.logsf(y)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.exp(log_density - (np.logaddexp(log_density, log_sf) if self.discrete else log_sf))

    def cumhazard(self, y: ArrayLike) -> Array:
        """Return the cumulative hazard, -log P(Y > y)."""
        return -self.logsf(y)

    def odds(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) / P(Y > y)."""
        with np.errstate(over="ignore"):
            return np.exp(self.logcdf(y) - self.logsf(y))

    def median(self) -> NDArray[Any]:
        """Return the medians."""
        return self.ppf(0.5)

    def _nodes_below(self, tau: float) -> tuple[Array, Array]:
        """Return times and weights of each row whose weighted sum of P(Y > t) is its integral from 0 to tau."""
        return quadrature(self, tau)

    def restricted_mean(self, tau: float) -> Array:
        """Return E[min(Y, tau)], the mean time up to tau (RMST): the area under P(Y > t) from 0 to tau."""
        tau = horizon(tau)
        return np.concatenate([np.zeros(0), *(restricted_means([self[part]], tau)[0] for part in chunks(self, tau))])

    def interval(self, level: float = 0.9) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the ends of the central intervals with probability ``level``."""
        tail = 0.5 * (1.0 - level_between(level, ends=True))
        return self.ppf(tail), self.isf(tail)

    def rvs(self, size: int = 1, random_state: Seed = None) -> NDArray[Any]:
        """Return random draws, (n, size)."""
        rng = generator(random_state)
        return self.ppf(rng.random((len(self), whole_number(size, "size", 0))))


def labels_of(labels: pd.Index | None, rows: Any) -> pd.Index | None:
    """Return the labels of some rows, if there are any."""
    return None if labels is None else labels[rows]


def as_rows(rows: Rows) -> Any:
    """Return rows as an index that keeps a single row a row."""
    return [rows] if isinstance(rows, (int, np.integer)) else rows


def check_shape(values: NDArray[Any], n: int, what: str) -> None:
    """Refuse values that cannot be broadcast over n rows."""
    if values.ndim > 2 or (values.ndim == 2 and values.shape[0] != n):
        raise InputError(f"{what} must be a number, a vector or of shape ({n}, k), not {values.shape}")


def known_to_exceed(after: ArrayLike, n: int, before: Array | None) -> Array:
    """Return what each outcome is known to exceed: ``after``, or what was known before where that is later."""
    values = real_numbers(after, "after")
    if values.shape not in ((), (n,)):
        raise InputError(f"after must be one number, or one for each of the {n} rows, not {values.shape}")
    later = np.broadcast_to(values, (n,))
    return later.copy() if before is None else np.maximum(later, before)
