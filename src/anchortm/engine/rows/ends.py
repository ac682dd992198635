"""The transformation h at the ends of rows: all that their likelihood under another spread needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array
from anchortm.bases import baseline_values
from anchortm.engine.rows.likelihood import Term
from anchortm.links import Link

__all__ = ["End", "Ends"]


class End(NamedTuple):
    """Rows of one kind: h at their ends, and h' of exact rows (h(upper) - h(lower) of intervals)."""

    kind: Literal["exact", "left", "right", "interval"]
    sign: int
    rows: NDArray[np.intp]
    h: Array  # at the upper end, or at the lower end of right-censored rows
    other: Array  # h' of exact rows, h(upper) - h(lower) of intervals


class Ends(NamedTuple):
    """The ends of rows of a response under fitted parameters."""

    n_rows: int
    parts: tuple[End, ...]

    @classmethod
    def of(cls, terms: Sequence[Term], theta: Array, shift: Array) -> Ends:
        """Return h at the ends of rows, with their terms, their baseline and their signed shift."""
        return cls(shift.size, tuple(_end(term, theta, shift) for term in terms))

    @classmethod
    def joined(cls, several: Sequence[Ends]) -> Ends:
        """Return the ends of several sets of rows as those of one set, in their order."""
        groups: dict[tuple[str, int], list[tuple[int, End]]] = {}
        first = 0
        for ends in several:
            for part in ends.parts:
                groups.setdefault((part.kind, part.sign), []).append((first, part))
            first += ends.n_rows
        return cls(first, tuple(_concatenated(found) for found in groups.values()))

    def take(self, mask: NDArray[np.bool_]) -> Ends:
        """Return the ends of some of the rows, numbered anew."""
        place = np.cumsum(mask) - 1
        return Ends(int(mask.sum()), tuple(_some(part, mask[part.rows], place) for part in self.parts))

    def logliks(self, link: Link, factor: ArrayLike = 1.0) -> Array:
        """Return the log-likelihood of each row if predictions are ``factor`` times as wide.

        Several factors give one row each.
        """
        factors = np.asarray(factor, dtype=np.float64)
        c, m = 1.0 / factors[..., None], float(link.quantile(0.5))
        result = np.zeros((*factors.shape, self.n_rows))
        for part in self.parts:
            result[..., part.rows] += part.sign * _loglik(link, part, c, m)
        return result


def _end(term: Term, theta: Array, shift: Array) -> End:
    own, theta = shift[term.rows], theta if theta.ndim == 1 else theta[term.rows]
    end, other = (term.lower, None) if term.upper is None else (term.upper, term.slope)
    if term.kind == "interval":
        other = term.difference
    assert end is not None  # noqa: S101
    assert term.kind != "mean"  # noqa: S101 - generalised linear models have no h
    beside = np.zeros(0) if other is None else baseline_values(other, theta)
    return End(term.kind, term.sign, term.rows, baseline_values(end, theta) + own, beside)


def _some(part: End, mask: NDArray[np.bool_], place: NDArray[np.intp]) -> End:
    other = part.other[mask] if part.other.size else part.other
    return End(part.kind, part.sign, place[part.rows[mask]], part.h[mask], other)


def _concatenated(found: list[tuple[int, End]]) -> End:
    one = found[0][1]
    if len(found) == 1:
        return one._replace(rows=one.rows + found[0][0])
    rows = np.concatenate([part.rows + first for first, part in found])
    h, other = (np.concatenate([getattr(part, name) for _, part in found]) for name in ("h", "other"))
    return End(one.kind, one.sign, rows, h, other)


def _loglik(link: Link, part: End, c: Array, m: float) -> Array:
    """Return the log-likelihood of rows of one kind at m + c (h - m)."""
    h = m + c * (part.h - m)
    match part.kind:
        case "exact":
            with np.errstate(divide="ignore"):  # h falls where effects vary and rows are far out: the density is 0
                return np.asarray(link.log_density(h) + np.log(np.maximum(c * part.other, 0.0)))
        case "left":
            return np.asarray(link.log_cdf(h))
        case "right":
            return np.asarray(link.log_sf(h))
    width = c * part.other
    return np.asarray(link.interval(h - width, h, width).l)
