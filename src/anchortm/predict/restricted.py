"""Means of times up to a horizon tau: E[min(Y, tau)], the area under P(Y > t) from 0 to tau.

The integral is a weighted sum over nodes of each row. Between two quantiles of a row its survivor function is smooth,
wherever the row has its mass, so that few nodes give all digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anchortm._typing import Array
from anchortm._util.checks import one_number
from anchortm.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    from anchortm.predict.protocol import Distribution

__all__ = ["check_times", "chunks", "horizon", "quadrature", "restricted_means"]

VALUES = 500_000  # at nodes of rows that are in memory at once
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
TAILS = np.exp(-np.arange(36.0, 0.5, -1.5))  # probabilities of the quantiles between which nodes lie, from both sides
SHARES = 4.0 ** -np.arange(1.0, 21.0)  # further edges as shares of tau, for curves that are steep at 0
NEGATIVE = 1e-12  # probability of negative outcomes that is taken for rounding


def horizon(tau: object) -> float:
    """Return a checked horizon: a finite time above 0."""
    value = one_number(tau, "tau")
    if not 0.0 < value < np.inf:
        raise InputError(f"tau must be a finite time above 0, not {tau!r}")
    return value


def chunks(distribution: Distribution, tau: float) -> Iterator[slice]:
    """Yield the rows in parts whose nodes fit into memory; no rows are one part."""
    n, nodes = len(distribution), distribution[:1]._nodes_below(tau)[0].shape[1]
    rows = max(1, VALUES // nodes)
    yield from (slice(start, min(start + rows, n)) for start in range(0, max(n, 1), rows))


def restricted_means(distributions: Sequence[Distribution], tau: float) -> Array:
    """Return E[min(Y, tau)] of several distributions of the same rows, all with the nodes of the first one."""
    at, weights = distributions[0]._nodes_below(tau)
    return np.array([(distribution.sf(at) * weights).sum(axis=1) for distribution in distributions])


def check_times(distribution: Distribution) -> None:
    """Refuse distributions of outcomes that are not times."""
    if distribution.discrete:
        raise InputTypeError("restricted means are for times, not for counts and classes: use mean() or probabilities")
    if (distribution.cdf(np.nextafter(0.0, -1.0)) > NEGATIVE).any():  # an event at 0 is a time
        raise InputError(
            "restricted means are for times, which are not negative, but some predicted outcomes are: give the outcome "
            "as Surv(time, event)"
        )


def quadrature(distribution: Distribution, tau: float) -> tuple[Array, Array]:
    """Return nodes and weights of the integral of P(Y > t) from 0 to tau, a row for each row."""
    check_times(distribution)
    n, after = len(distribution), getattr(distribution, "after", None)
    support = getattr(getattr(distribution, "basis", None), "support", None)
    marks = np.tile([0.0, tau, *(tau * SHARES), *(support or ())], (n, 1))
    edges = np.column_stack([marks, distribution.ppf(TAILS), distribution.ppf(0.5), distribution.isf(TAILS)])
    start = np.zeros((n, 1)) if after is None else np.clip(after, 0.0, tau)[:, None]
    edges = np.sort(np.clip(np.nan_to_num(edges, posinf=tau), start, tau), axis=1)
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    size = n, half.shape[1] * NODES.size
    at, weights = (edges[:, :-1, None] + half * (1.0 + NODES)).reshape(size), (half * WEIGHTS).reshape(size)
    # all survive up to what they are known to exceed: P(Y > -1) = 1
    return np.hstack([at, np.full((n, 1), -1.0)]), np.hstack([weights, start])
