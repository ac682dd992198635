"""Predicted distributions averaged over random effects: P(Y <= y | x) = sum_k w_k F(h_0(y) + gain * (shift + o_k))."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array, Rows
from anchortm._util.checks import probabilities
from anchortm.exceptions import InputTypeError
from anchortm.predict.along_shift import along_shift
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.integrals import Tails
from anchortm.predict.protocol import as_rows, check_shape

__all__ = ["AveragedDistribution"]

STEPS, CLOSE = 100, 1e-13  # iterations of the search for quantiles, and when it ends


@dataclass(frozen=True, eq=False, repr=False)
class AveragedDistribution(PredictedDistribution):
    """Distributions of one outcome for n rows, averaged over the random effects of their clusters.

    It has the methods of ``PredictedDistribution`` except ``trafo``: an average of distributions has no h of its own.

    Attributes
    ----------
    added : array of shape (n, K)
        What the random effects add to the shift of each row, at K quadrature nodes.
    weights : array of shape (n, K)
        Weights of the nodes; those of a row add up to 1.

    See Also
    --------
    anchortm.predict.PredictedDistribution : the distribution at one value of the effects

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact + (1 | judge)", data)
    >>> distribution = model.predict_distribution(data[:1])  # of a judge whom the fit does not know
    >>> distribution
    AveragedDistribution(1 rows of classes, logit link)
    >>> distribution.probabilities().round(2)
    array([[0.21, 0.56, 0.2 , 0.02, 0.  ]])
    """

    added: Array = field(default_factory=lambda: np.zeros((0, 1)))
    weights: Array = field(default_factory=lambda: np.ones((0, 1)))

    def __getitem__(self, rows: Rows) -> Self:
        rows = as_rows(rows)
        return replace(super().__getitem__(rows), added=self.added[rows], weights=self.weights[rows])

    def _nodes(self) -> tuple[Array, Array]:
        """Return what the random effects add to h and the weights, of shape (n, K); (1, K) if rows have the same."""
        moved, weights = np.asarray(self.gain)[..., None] * self.added, self.weights
        same = len(self) > 0 and (moved == moved[0]).all() and (weights == weights[0]).all()
        return (moved[:1], weights[:1]) if same else (moved, weights)

    def _tails(self) -> Tails:
        """Return the averages of F and 1 - F as functions of h."""
        return Tails(self.link, self._nodes())

    def parts(self) -> Iterator[tuple[Array, PredictedDistribution]]:
        """Yield the log weights and the distributions at each node, given ``after`` where rows have one."""
        weights = self.weights
        parts = [
            PredictedDistribution(
                self.link, self.basis, self.theta, self.shift + added, self.positive, self.after, self.gain
            )
            for added in self.added.T
        ]
        if self.after is not None:  # rows that survived are more likely to have effects that let them
            survival = np.column_stack([part._log_sf_after() for part in parts])
            logs = np.log(np.maximum(weights, np.finfo(float).tiny)) + survival
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            weights = weights / weights.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = np.log(weights)
        yield from zip(logs.T, parts, strict=True)

    def _average(self, values: Callable[[PredictedDistribution], Array]) -> Array:
        """Return log sum_k w_k exp(values of part k)."""
        total: Array | None = None
        for log_weight, part in self.parts():
            found = values(part)
            term = found + (log_weight if found.ndim == 1 else log_weight[:, None])
            total = term if total is None else np.logaddexp(total, term)
        return np.asarray(total)

    @cached_property
    def _share_nodes(self) -> bool:
        """Whether averages are functions of h that all rows share."""
        return self.after is None and len(self._nodes()[0]) < len(self)

    def _along_h(self, log: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
        """Return log sum_k w_k exp(log(h + o_k)) as a function of h (and of h_0', which it does not use)."""
        added, weights = (nodes[0] for nodes in self._nodes())
        logs = [(own, math.log(weight)) for own, weight in zip(added, weights, strict=True) if weight > 0.0]

        def average(h: Array) -> Array:
            return np.asarray(reduce(np.logaddexp, (log(h + own) + weight for own, weight in logs)))

        def values(h: Array, _: Array) -> Array:
            out, finite = np.empty(h.shape), np.isfinite(h)
            out[finite], out[~finite] = along_shift(average, h[finite]), average(h[~finite])
            return out

        return values

    def trafo(self, y: ArrayLike) -> NoReturn:
        """Refuse: an average has no transformation of its own."""
        raise InputTypeError(
            "a distribution averaged over random effects has no transformation h, with or without conditional=True: "
            "use cdf, or fit a model without random effects"
        )

    def logcdf(self, y: ArrayLike) -> Array:
        """Return log P(Y <= y)."""
        if self._share_nodes:
            return np.minimum(self.transformation.table(self.codes(y), self._along_h(self.link.log_cdf)), 0.0)
        return np.minimum(self._average(lambda part: part.logcdf(y)), 0.0)

    def logsf(self, y: ArrayLike) -> Array:
        """Return log P(Y > y)."""
        if self._share_nodes:
            return np.minimum(self.transformation.table(self.codes(y), self._along_h(self.link.log_sf)), 0.0)
        return np.minimum(self._average(lambda part: part.logsf(y)), 0.0)

    def logpdf(self, y: ArrayLike) -> Array:
        """Return the log density; of a discrete outcome log P(Y = y)."""
        return self._average(lambda part: part.logpdf(y))

    def _log_sf_after(self) -> Array:
        """Return log P(Y > after) before that is known; see ``given``."""
        return replace(self, after=None).logsf(self._after()[:, None])[:, 0]

    def mean(self) -> Array:
        """Return the expectations: averages of those at the nodes."""
        added, weights = self._nodes()
        if len(added) < len(self) and self.after is None and self.theta.ndim == 1 and not self.discrete:
            return along_shift(partial(self._means_at, added[0], weights[0]), self.transformation.moved, signed=True)
        means = [(np.exp(log_weight), part.mean()) for log_weight, part in self.parts()]
        return np.asarray(sum(np.where(weight > 0.0, weight * mean, 0.0) for weight, mean in means))

    def _means_at(self, added: Array, weights: Array, moved: Array) -> Array:
        """Return the averages of the means of rows whose h is moved by this, at nodes that all rows share."""
        at = (moved[:, None] + added).ravel()
        means = PredictedDistribution(self.link, self.basis, self.theta, at, self.positive).mean()
        return np.asarray(np.where(weights > 0.0, weights * means.reshape(moved.size, -1), 0.0).sum(axis=1))

    def ppf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the smallest y with P(Y <= y) >= q; infinite where a flat end never reaches q."""
        q = probabilities(q)
        with np.errstate(divide="ignore"):
            return self._quantiles(np.log(q), np.log1p(-q))

    def isf(self, q: ArrayLike) -> NDArray[Any]:
        """Return the y with P(Y > y) = q, exact for tiny q."""
        q = probabilities(q)
        with np.errstate(divide="ignore"):
            return self._quantiles(np.log1p(-q), np.log(q))

    def _quantiles(self, log_q: Array, log_rest: Array) -> NDArray[Any]:
        """Return the quantiles with these log probabilities of both sides."""
        ndim, n = log_q.ndim, len(self)
        check_shape(log_q, n, "q")
        width = 1 if ndim == 0 else log_q.shape[-1]
        below, above = (np.broadcast_to(a if ndim else a.reshape(1), (n, width)) for a in (log_q, log_rest))
        if self.after is None:
            added, weights = self._nodes()
            if len(added) < n and ndim < 2:  # all rows have the same quantiles of h
                below, above = below[:1], above[:1]
            else:
                added, weights = np.broadcast_to(added, self.added.shape), np.broadcast_to(weights, self.weights.shape)
            found = self._from_z(np.broadcast_to(self._h_of(below, above, added, weights), (n, width)))
        else:
            above = above + self._log_sf_after()[:, None]
            with np.errstate(divide="ignore"):
                below = np.log(-np.expm1(above))
            z = self._h_of(below, above, np.asarray(self.gain)[..., None] * self.added, self.weights)
            y = self.transformation.inverse(z - self.transformation.moved[:, None])
            found = np.maximum(y, self.after[:, None])
        return found[:, 0] if ndim == 0 else found

    def _h_of(self, below: Array, above: Array, moved: Array, weights: Array) -> Array:
        """Return z with sum_k w_k F(z + gain * o_k) = q, by Newton's method between those at the outermost nodes."""
        used = weights > 0.0
        first = np.where(used, moved, np.inf).min(axis=1)[:, None]
        last = np.where(used, moved, -np.inf).max(axis=1)[:, None]
        lower_half = below <= above
        with np.errstate(invalid="ignore"):
            middle = np.where(lower_half, self.link.quantile_from_log_cdf(below), self.link.quantile_from_log_sf(above))
        low, high = middle - last, middle - first
        target = np.where(lower_half, below, above)
        with np.errstate(divide="ignore"):
            logs = np.log(weights)
        z = 0.5 * (low + high)
        for _ in range(STEPS):
            total, density = np.full(z.shape, -np.inf), np.full(z.shape, -np.inf)
            for log_weight, own in zip(logs.T, moved.T, strict=True):
                at = z + own[:, None]
                value = np.where(lower_half, self.link.log_cdf(at), self.link.log_sf(at))
                total = np.logaddexp(total, log_weight[:, None] + value)
                density = np.logaddexp(density, log_weight[:, None] + self.link.log_density(at))
            gap = np.where(lower_half, total - target, target - total)  # positive above the quantile
            low, high = np.where(gap >= 0.0, low, z), np.where(gap >= 0.0, z, high)
            with np.errstate(all="ignore"):
                newton = z - gap * np.exp(total - density)
                there = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
                done = ~(np.abs(there - z) > CLOSE * (1.0 + np.abs(z)))
            z = there
            if done.all():
                break
        return np.where(np.isfinite(middle), z, middle)
