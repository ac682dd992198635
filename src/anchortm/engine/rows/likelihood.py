"""Row terms of a transformation model: log-likelihood, score residual and derivatives.

A response under a basis becomes a few *terms*, each a set of rows of one kind with the basis rows of their ends. Every
quantity of the model is a signed sum over terms: a truncated row is its own term minus the term of its truncation
interval, because

    l = log P(lower < Y <= upper) - log P(entry < Y <= exit),    r = r_observed - r_truncation.

Each term is one pass of arrays through the link, whatever the mixture of kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis, baseline_values
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.empirical import empirical_distribution
from anchortm.inputs.response import Response
from anchortm.links import Link, OneEnd, TwoEnds

__all__ = [
    "Layout",
    "RowTerms",
    "Term",
    "build_terms",
    "check_inside",
    "evaluate",
    "layout",
    "loglik_and_residuals",
    "no_logarithm",
    "start_values",
]

Array = NDArray[np.float64]

START_ROWS = 20_000  # start values use about this many rows


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows of one kind and their ends, without basis rows.

    ``upper`` belongs to exact, left and interval rows (an exact response is its own upper
    end), ``lower`` to right and interval rows. ``sign`` is -1 for the truncation of rows that
    ``rows`` also names in another layout.
    """

    kind: Literal["exact", "left", "right", "interval", "mean"]
    sign: int
    rows: NDArray[np.intp]
    upper: Array | None
    lower: Array | None
    outcome: Array | None = None  # outcome of rows of kind "mean", as their family takes it

    @property
    def end(self) -> Array:
        """Return the end of rows that have one: the lower end of right-censored rows, the upper end of others."""
        end = self.upper if self.lower is None else self.lower
        assert end is not None  # noqa: S101
        return end


@dataclass(frozen=True, eq=False)
class Term:
    """A layout with the basis rows at its ends.

    Exact rows also have their derivative rows as ``slope``, interval rows a(upper) - a(lower) as
    ``difference``.
    """

    kind: Literal["exact", "left", "right", "interval", "mean"]
    sign: int
    rows: NDArray[np.intp]
    upper: Array | None = None
    lower: Array | None = None
    slope: Array | None = None
    difference: Array | None = None


class RowTerms(NamedTuple):
    """A term evaluated at parameters: the link's quantities and, for exact rows, h'(y)."""

    values: OneEnd | TwoEnds
    slope: Array | None

    @property
    def loglik(self) -> Array:
        """Return the log-likelihood of each row of the term."""
        if self.slope is None:
            return self.values.l
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.slope > 0.0, self.values.l + np.log(self.slope), -np.inf)


def layout(basis: Basis, response: Response) -> list[Layout]:
    """Return the rows of a response by kind; at most four kinds and three truncations."""
    check_inside(basis, response)
    lower, upper = np.where(response.lower <= basis.lower_bound, -np.inf, response.lower), response.upper
    exact = response.lower == response.upper
    found = []
    if exact.any():
        rows = np.flatnonzero(exact)
        if basis.discrete:
            row = int(rows[0])
            raise InputTypeError(
                f"a discrete model takes classes or counts, not the exact number {response.lower[row]:g} at row {row}"
            )
        found.append(Layout("exact", 1, rows, response.upper[rows], None))
        lower, upper = np.where(exact, -np.inf, lower), np.where(exact, np.inf, upper)
    found += _censored(lower, upper, 1)
    if response.truncated.any():
        nothing = np.full(len(response), np.inf)
        entry = -nothing if response.entry is None else response.entry
        exit_ = nothing if response.exit is None else response.exit
        found += _censored(np.where(entry <= basis.lower_bound, -np.inf, entry), exit_, -1)
    return found


def build_terms(basis: Basis, response: Response) -> tuple[Term, ...]:
    """Return the terms of a response under a basis."""
    return tuple(
        Term(
            part.kind,
            part.sign,
            part.rows,
            None if part.upper is None else basis.rows(part.upper),
            None if part.lower is None else basis.rows(part.lower),
            basis.derivative_rows(part.upper) if part.kind == "exact" and part.upper is not None else None,
            None if part.lower is None or part.upper is None else basis.difference_rows(part.lower, part.upper),
        )
        for part in layout(basis, response)
    )


def no_logarithm(y: float, where: str) -> InputError:
    """Return the error for an outcome without a logarithm, with advice on what to do about events at time 0."""
    happened = (
        "if it happened within the first unit of time, give these rows as Interval(0, 1), or add half a unit to all "
        "times, time + 0.5; or "
    )
    return InputError(
        f"y is {y:g} {where}, but a baseline in log y needs values above 0; {'' if y else happened}take a baseline in "
        "y (log_first=False of Bernstein models)"
    )


def check_inside(basis: Basis, response: Response) -> None:
    """Refuse rows below the bound of the basis."""
    outside = response.upper <= basis.lower_bound
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise no_logarithm(float(response.upper[row]), f"at row {row}")


def _censored(lower: Array, upper: Array, sign: int) -> list[Layout]:
    bounded_below, bounded_above = np.isfinite(lower), np.isfinite(upper)
    left = np.flatnonzero(bounded_above & ~bounded_below)
    right = np.flatnonzero(bounded_below & ~bounded_above)
    both = np.flatnonzero(bounded_below & bounded_above)
    candidates = (
        Layout("left", sign, left, upper[left], None),
        Layout("right", sign, right, None, lower[right]),
        Layout("interval", sign, both, upper[both], lower[both]),
    )
    return [part for part in candidates if part.rows.size]


def evaluate(link: Link, term: Term, theta: Array, shift: Array) -> RowTerms:
    """Return the terms' quantities at h = a(y)'theta + shift.

    ``shift`` is the linear predictor with its sign and the offset: one value for each row of the *response* (the term
    picks its own), or a matrix with several such rows. ``theta`` is one vector, or one for each row of the response.
    """
    own = shift[..., term.rows]
    theta = theta if theta.ndim == 1 else theta[term.rows]
    if term.upper is None:
        assert term.lower is not None  # noqa: S101 - a right-censored term has a lower end
        return RowTerms(link.right(baseline_values(term.lower, theta) + own), None)
    u = baseline_values(term.upper, theta) + own
    if term.lower is not None and term.difference is not None:
        lower, width = baseline_values(term.lower, theta) + own, baseline_values(term.difference, theta)
        return RowTerms(link.interval(lower, u, width), None)
    if term.slope is not None:
        return RowTerms(link.exact(u), baseline_values(term.slope, theta))
    return RowTerms(link.left(u), None)


def loglik_and_residuals(link: Link, terms: Sequence[Term], theta: Array, shift: Array) -> tuple[Array, Array]:
    """Return the log-likelihood and the score residual of each row of the response."""
    loglik, residuals = np.zeros(shift.size), np.zeros(shift.size)
    for term in terms:
        evaluated = evaluate(link, term, theta, shift)
        loglik[term.rows] += term.sign * evaluated.loglik
        residuals[term.rows] += term.sign * evaluated.values.r
    return loglik, residuals


def start_values(link: Link, basis: Basis, response: Response, weights: Array | None = None) -> Array:
    """Return a feasible theta with h_0 near F^-1 of the empirical distribution of y."""
    every = max(1, len(response) // START_ROWS)
    response, weights = response[::every], None if weights is None else weights[::every]
    points, cdf = empirical_distribution(response, weights)
    total = float(len(response) if weights is None else weights.sum())
    if basis.discrete:
        # P(Y <= k), kept away from 0 and 1 by half an observation
        return basis.start(points, link.quantile((total * cdf + 0.5) / (total + 1.0)))
    # the middle of each step
    middle = cdf - 0.5 * np.diff(cdf, prepend=0.0)
    with np.errstate(divide="ignore"):
        return basis.start(points, link.quantile(middle))
