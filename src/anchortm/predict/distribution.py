"""The predicted distribution of each row: P(Y <= y | x) = F(h_0(y) + gain * shift).

Everything is computed from log F and log(1 - F), so that both tails keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Rows
from anchortm._util.checks import probabilities, real_numbers
from anchortm.bases import Basis, OrdinalBasis
from anchortm.exceptions import InputError, InputTypeError
from anchortm.links import Link
from anchortm.predict.integrals import Tails, rows_by_baseline
from anchortm.predict.moments import mean_of, mode_of
from anchortm.predict.protocol import Distribution, as_rows, check_shape, known_to_exceed, labels_of
from anchortm.predict.transformation import Transformation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PredictedDistribution"]


@dataclass(frozen=True, eq=False)
class PredictedDistribution(Distribution):
    """Distributions of one outcome for n rows, as ``predict_distribution`` returns them.

    Values of ordinal outcomes are class labels. An outcome given as ``Surv`` lies above 0: the
    cdf is 0 at and below 0, and mass that a baseline has there becomes an atom at 0.

    A number gives one value for each row, a vector of m numbers an (n, m) table, and an (n, k) table is read row by
    row. To take rows, use an index: ``distribution[:3]``.

    Attributes
    ----------
    link : Link
    basis : Basis
    theta : array of shape (k,) or (n, k)
        Parameters of the baseline, shared by all rows or one set for each row (with strata, varying effects or scale
        effects).
    shift : array of shape (n,)
        x'beta + offset. Adding to the offset of a row adds to its shift.
    positive : bool
        Whether the outcome lies above 0.
    after : array of shape (n,) or None
        What each outcome is known to exceed, see ``given``.
    gain : number, or array of shape (n,)
        How much h grows for each unit of the shift, h(y | x) = h_0(y) + gain * shift: 1 in hazard models and -1 in all
        others. Where random effects widen a normal distribution, it is divided by that factor.

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
    outcome_name: str | None = field(default=None, kw_only=True)
    labels: pd.Index | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return self.shift.size

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        after = None if self.after is None else self.after[rows]
        theta = self.theta if self.theta.ndim == 1 else self.theta[rows]
        gain = self.gain if np.ndim(self.gain) == 0 else np.asarray(self.gain)[rows]
        labels = labels_of(self.labels, rows)
        return replace(self, theta=theta, shift=self.shift[rows], after=after, gain=gain, labels=labels)

    def __repr__(self) -> str:
        kind = "classes" if self.basis.kind == "ordinal" else "counts" if self.discrete else "numbers"
        return f"{type(self).__name__}({len(self)} rows of {kind}, {self.link.name} link)"

    @property
    def discrete(self) -> bool:
        """Whether outcomes are counts or classes."""
        return self.basis.discrete

    @property
    def _bounded_below(self) -> bool:
        """Whether outcomes have a lower bound."""
        return self.positive or self.after is not None or self.basis.lower_bound > -math.inf

    @cached_property
    def transformation(self) -> Transformation:
        """The transformation h of each row, without the link."""
        return Transformation(self.basis, self.theta, np.asarray(self.gain * self.shift), self.positive)

    def by_baseline(self) -> Iterator[tuple[Any, Self]]:
        """Yield the rows that share a baseline, and their distributions with the one theta that they have."""
        yield from rows_by_baseline(self, 1)

    def _tails(self) -> Tails:
        """Return F and 1 - F as functions of h."""
        return Tails(self.link)

    def given(self, after: ArrayLike) -> Self:
        """Return the distributions given that the outcome lies beyond ``after`` (one value, or one for each row)."""
        if self.discrete:
            raise InputTypeError("given(after=...) is for continuous outcomes")
        return replace(self, after=known_to_exceed(after, len(self), self.after))

    def _log_sf_after(self) -> Array:
        """Return log P(Y > after) before that is known; see ``given``."""
        h, after = self.transformation, self._after()
        return self.link.log_sf(h.baseline(after, np.arange(len(self))) + h.moved)

    def _after(self) -> Array:
        return np.full(len(self), -np.inf) if self.after is None else self.after

    def codes(self, y: ArrayLike) -> Array:
        """Return outcomes as numbers; classes become their positions, counted from 0."""
        if not isinstance(self.basis, OrdinalBasis):
            return real_numbers(y, "y")
        known = {level: code for code, level in enumerate(self.basis.levels)}
        array = np.asarray(y, dtype=object)
        unknown = [value for value in array.ravel() if value not in known]
        if unknown:
            raise InputError(f"unknown class {unknown[0]!r}; known are {list(known)}")
        return np.array([known[value] for value in array.ravel()], dtype=np.float64).reshape(array.shape)

    def trafo(self, y: ArrayLike) -> Array:
        """Return h(y | x), the transformation to the scale of the link."""
        return self.transformation.table(self.codes(y), lambda h, _: h)

    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""
        codes = self.codes(y)
        values = self.transformation.table(codes, lambda h, _: self.link.log_sf(h))
        if self.after is None:
            return values
        return np.minimum(values - _beside(self._log_sf_after(), values), 0.0)

    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""
        if self.after is None:
            return self.transformation.table(self.codes(y), lambda h, _: self.link.log_cdf(h))
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(self.logsf(y)))

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density f(h) h'(y); of a discrete outcome log P(Y = y)."""
        codes = self.codes(y)
        if self.discrete:
            return self._log_mass(codes)
        values = self.transformation.table(codes, partial(_log_density, self.link), slopes=True)
        if self.after is None:
            return values
        known = _beside(self._log_sf_after(), values)
        return np.where(codes > _beside(self.after, values), values - known, -np.inf)

    def _log_mass(self, codes: Array) -> Array:
        whole = np.isfinite(codes) & (codes == np.floor(codes)) & (codes >= 0)
        lower, upper = (self.transformation.table(at, lambda h, _: h) for at in (codes - 1.0, codes))
        return np.where(whole, self.link.log_mass(lower, upper), -np.inf)

    def ppf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the smallest y with P(Y <= y) >= q; infinite where a flat end never reaches q."""
        q = probabilities(q)
        with np.errstate(divide="ignore"):
            if self.after is None:
                return self._from_z(self.link.quantile(q))
            return self._from_log_sf(np.log1p(-q))

    def isf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the y with P(Y > y) = q, exact for tiny q."""
        q = probabilities(q)
        with np.errstate(divide="ignore"):
            if self.after is None:
                return self._from_z(self.link.quantile_from_log_sf(np.log(q)))
            return self._from_log_sf(np.log(q))

    def _from_log_sf(self, log_q: Array) -> Array:
        """Return quantiles given survival: P(Y > y) = q P(Y > after)."""
        check_shape(log_q, len(self), "q")
        known = self._log_sf_after()
        z = self.link.quantile_from_log_sf(log_q + (known if log_q.ndim == 0 else known[:, None]))
        y = self.transformation.inverse(z - _beside(self.transformation.moved, z))
        return np.maximum(y, _beside(self._after(), y))

    def _from_z(self, z: Array) -> NDArray[Any]:
        """Return y with h(y | x) = z, with z broadcast over the rows; classes as labels."""
        check_shape(z, len(self), "q")
        moved = self.transformation.moved
        y = self.transformation.inverse(z - (moved if z.ndim == 0 else moved[:, None]))
        return self.basis.labels()[y.astype(np.intp)] if isinstance(self.basis, OrdinalBasis) else y

    def probabilities(self) -> Array:
        """Return the probability of each class of an ordinal outcome, (n, K)."""
        if not isinstance(self.basis, OrdinalBasis):
            raise InputTypeError("probabilities() is for ordinal outcomes; use pmf for counts")
        return self.pmf(np.array([*self.basis.levels], dtype=object))

    def mode(self) -> NDArray[Any]:
        """Return the most probable class or count."""
        return mode_of(self)

    def mean(self) -> Array:
        """Return the expectations, to a relative error of about 1e-12 (1e-8 of counts, and given survival).

        A line in y or in log y has a closed form. Otherwise 1 - F and F are integrated over y above and below a middle
        place, by Gauss-Legendre quadrature on panels that end where h_0 changes from polynomial to line. The mean is
        infinite where the tail is too heavy or h is flat at one end, and not a number where h is flat at both ends.

        The mean of rows that share a baseline is a smooth function of their shift, and is interpolated if there are
        many of them: 100 000 rows take about as long as one fit of 10 000. Rows with a baseline each take 0.1 ms.
        """
        return mean_of(self)


def _log_density(link: Link, h: Array, slope: Array) -> Array:
    """Return log f(h) + log h_0', -inf where there is no mass."""
    inside = np.isfinite(h)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = link.log_density(np.where(inside, h, 0.0)) + np.log(slope)
    return np.where(np.isnan(h), np.nan, np.where(inside & (slope > 0.0), density, -np.inf))


def _beside(per_row: Array, values: NDArray[Any]) -> Array:
    """Return one number for each row in a shape that broadcasts with values of shape (n,) or (n, k)."""
    return per_row if values.ndim == 1 else per_row[:, None]
