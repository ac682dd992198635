"""Predictions of rows some of which are bad: those of the good rows, and NaN with a reason for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Rows, Seed
from anchortm.exceptions import InputError, InputTypeError, UnavailableError
from anchortm.predict.protocol import Distribution, as_rows, check_shape, labels_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MarkedDistribution", "spread"]

ROWWISE = ("cdf", "sf", "pdf", "pmf", "hazard", "cumhazard", "odds")  # derived methods that take outcomes
MORE = ("trafo", "probabilities", "mode", "variance", "crps")  # methods that only some kinds have


def spread(values: NDArray[Any], bad: NDArray[np.bool_]) -> NDArray[Any]:
    """Return values of the good rows among all rows: NaN in bad rows, and None where values are not numbers.

    Whole numbers become floats, even if no row is bad.
    """
    numeric = values.dtype.kind in "iuf"
    if not bad.any():
        return values.astype(np.float64 if numeric else object, copy=False)
    out = np.full((bad.size, *values.shape[1:]), np.nan if numeric else None, dtype=np.float64 if numeric else object)
    out[~bad] = values
    return out


@dataclass(frozen=True, eq=False)
class MarkedDistribution(Distribution):
    """Distributions of n rows, some of which are marked because they cannot be predicted.

    ``predict_distribution(X, on_bad_rows="mark")`` returns it. Methods give NaN in bad rows (None for classes), and in
    the others what ``good_rows`` gives. It has all methods of that kind of distribution. To take rows, use an index:
    ``distribution[:3]`` keeps the marks.

    Attributes
    ----------
    good_rows : Distribution
        The distributions of the good rows. Scores and the functions of ``plotting`` need these.
    bad : array of bool
        The rows that cannot be predicted.
    reasons : array of str
        Why a row cannot be predicted, such as "age is missing; stage 'V' is unknown"; empty text for good rows.

    See Also
    --------
    anchortm.predict.PredictedDistribution : one of the kinds of ``good_rows``
    anchortm.predict_table : predictions with a column of reasons

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> new = data[["treat", "age"]][:3].assign(age=[12.0, None, 30.0])
    >>> distribution = model.predict_distribution(new, on_bad_rows="mark")
    >>> distribution
    MarkedDistribution(3 rows, 1 of them bad, of PredictedDistribution(2 rows of numbers, cloglog link))
    >>> distribution.sf(300.0).round(2), distribution.reasons.tolist()
    (array([0.79,  nan, 0.87]), ['', 'age is missing', ''])
    """

    good_rows: Distribution
    bad: NDArray[np.bool_]
    reasons: NDArray[np.object_]
    outcome_name: str | None = field(default=None, kw_only=True)
    labels: pd.Index | None = field(default=None, kw_only=True)

    def named(self, outcome_name: str | None, labels: pd.Index | None) -> Self:
        """Return the distributions with these names; good rows keep their numbers among all rows as labels."""
        import pandas as pd

        good = pd.RangeIndex(len(self))[~self.bad] if labels is None else labels[~self.bad]
        own = good if self.bad.any() else labels
        found = replace(self, good_rows=self.good_rows.named(outcome_name, own))
        return replace(found, outcome_name=outcome_name, labels=labels)

    def __len__(self) -> int:
        return self.bad.size

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        place = np.cumsum(~self.bad) - 1  # position of each good row among the good rows
        bad = self.bad[rows]
        good, labels = self.good_rows[place[rows][~bad]], labels_of(self.labels, rows)
        return replace(self, good_rows=good, bad=bad, reasons=self.reasons[rows], labels=labels)

    def __repr__(self) -> str:
        n = int(self.bad.sum())
        return f"MarkedDistribution({len(self)} rows, {n or 'none'} of them bad, of {self.good_rows!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self.good_rows, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name not in MORE:
            raise UnavailableError(
                f"marked bad rows do not have {name}: use distribution.good_rows, also for plots and scores"
            )
        return lambda *given: self._by_row(name, *given)

    @property
    def discrete(self) -> bool:
        """Whether outcomes are counts or classes."""
        return self.good_rows.discrete

    def _by_row(self, name: str, *given: Any) -> NDArray[Any]:
        """Return what a method of the good rows gives, with its arguments taken for them, spread over all rows."""
        what = "q" if name in ("ppf", "isf") else "y"
        found = getattr(self.good_rows, name)(*(self._taken(values, what, name == "crps") for values in given))
        return spread(np.asarray(found), self.bad)

    def _taken(self, values: Any, what: str, rowwise: bool = False) -> Any:
        """Return the rows of an argument that are those of good rows; a vector has rows only if ``rowwise``."""
        array = np.asarray(values)
        if rowwise and array.ndim == 1 and array.shape != self.bad.shape:
            raise InputError(f"{what} must be one number, or one for each of the {len(self)} rows, not {array.shape}")
        if not rowwise:
            check_shape(array, len(self), what)
        return array[~self.bad] if array.ndim == 2 or (rowwise and array.ndim == 1) else values

    def given(self, after: ArrayLike) -> Self:
        """Return the distributions given that the outcome lies beyond ``after`` (one value, or one for each row)."""
        if not hasattr(self.good_rows, "given"):
            raise InputTypeError(f"{type(self.good_rows).__name__} has no given(after=...)")
        return replace(self, good_rows=self.good_rows.given(self._taken(after, "after", True)))

    def codes(self, y: ArrayLike) -> Array:
        """Return outcomes as numbers; classes become their positions, counted from 0."""
        return self.good_rows.codes(y)

    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""
        return self._by_row("logcdf", y)

    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""
        return self._by_row("logsf", y)

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density; of a discrete outcome log P(Y = y)."""
        return self._by_row("logpdf", y)

    def ppf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the quantiles: the smallest y with P(Y <= y) >= q."""
        return self._by_row("ppf", q)

    def isf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the quantiles from above: the smallest y with P(Y > y) <= q, exact for tiny q."""
        return self._by_row("isf", q)

    def mean(self) -> Array:
        """Return the expectations."""
        return self._by_row("mean")

    def median(self) -> NDArray[Any]:
        """Return the medians."""
        return self._by_row("median")

    def restricted_mean(self, tau: float) -> Array:
        """Return E[min(Y, tau)], the mean time up to tau (RMST)."""
        return self._by_row("restricted_mean", tau)

    def interval(self, level: float = 0.9) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the ends of the central intervals with probability ``level``."""
        low, high = self.good_rows.interval(level)
        return spread(low, self.bad), spread(high, self.bad)

    def rvs(self, size: int = 1, random_state: Seed = None) -> NDArray[Any]:
        """Return random draws, (n, size); those of good rows are the draws of ``good_rows`` with the same seed."""
        return spread(self.good_rows.rvs(size, random_state), self.bad)


def _spread_over_rows(name: str) -> Callable[[MarkedDistribution, ArrayLike], Array]:
    """Return the method of this name that asks the good rows."""

    def method(self: MarkedDistribution, y: ArrayLike) -> Array:
        return self._by_row(name, y)

    method.__name__, method.__doc__ = name, getattr(Distribution, name).__doc__
    method.__qualname__ = f"MarkedDistribution.{name}"
    return method


for _name in ROWWISE:
    setattr(MarkedDistribution, _name, _spread_over_rows(_name))
