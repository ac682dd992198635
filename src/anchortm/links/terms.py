"""What one row adds to the likelihood, as values: its log-likelihood, its score residual and their derivatives.

A row has one end (exact, left- or right-censored: a function of one number h) or two ends (an interval from h to
h + d). Both kinds of values answer the same questions, listed in ``RowValues``, so that code that sums over rows
need not know which kind it holds. Derivatives in the width d are zero for rows with one end.

Letters: u = h + d and v = h are the upper and the lower end, Delta = F(u) - F(v), p = f(u) / Delta and
q = f(v) / Delta. With one end r = -l', so ``OneEnd`` is complete with four arrays. For an interval
r = -(l_u + l_v) = q - p, and

    -l_uu = r_u + p q,    -l_vv = r_v + p q,    l_uv = p q

so ``TwoEnds`` stores nine arrays, and the three second derivatives of -l are sums of non-negative terms. A
derivative in d is the derivative in u, and a derivative in h is the sum of those in u and v.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array

__all__ = [
    "OneEnd",
    "OtherPenalised",
    "Penalised",
    "Residuals",
    "RowValues",
    "TwoEnds",
    "put",
    "put_left",
    "put_right",
]

ZERO: Array = np.zeros(())  # of rows with one end, whose width is zero; it broadcasts
ZERO.setflags(write=False)


class Residuals(Protocol):
    """Residuals with their first and second derivative in h."""

    @property
    def r(self) -> Array:
        """Return the residuals."""

    @property
    def dr(self) -> Array:
        """Return their first derivative in h."""

    @property
    def d2r(self) -> Array:
        """Return their second derivative in h."""


class RowValues(Residuals, Protocol):
    """The questions that the values of any row answer, whether it has one end or two.

    The residuals r are score residuals: -dl/dh. ``ZERO``, an array without dimensions, stands for the derivatives in
    the width d of rows with one end.
    """

    @property
    def l(self) -> Array:  # noqa: E743 - the letter of the paper
        """Return the log-likelihood, without the term log h'(y) of exact rows."""

    @property
    def penalised(self) -> Residuals:
        """Return the residuals that the anchor penalty takes: the score residuals, unless a family says otherwise."""

    @property
    def l_d(self) -> Array:
        """Return the derivative of l in the width."""

    @property
    def r_d(self) -> Array:
        """Return the derivative of r in the width, which is also -l_hd."""

    @property
    def minus_l_dd(self) -> Array:
        """Return the second derivative of -l in the width."""

    @property
    def l_ddd(self) -> Array:
        """Return the third derivative of l in the width."""

    @property
    def r_hd(self) -> Array:
        """Return the mixed derivative of r in h and the width."""

    @property
    def r_dd(self) -> Array:
        """Return the second derivative of r in the width."""


class Penalised(NamedTuple):
    """Residuals of the penalty with their derivatives, where they are not the score residuals."""

    r: Array
    dr: Array
    d2r: Array


class OneEnd(NamedTuple):
    """Values of rows that depend on one number: exact, left- and right-censored.

    ``l`` is the log-likelihood (of an exact row without the term log h'(y)), ``r`` the
    score residual -l', ``dr`` and ``d2r`` its first and second derivative.

    Examples
    --------
    >>> from anchortm.links import get_link
    >>> terms = get_link("logit").right([0.0, 2.0])
    >>> terms.l.round(3), terms.r.round(3)
    (array([-0.693, -2.127]), array([0.5  , 0.881]))
    """

    l: Array  # noqa: E741 - the letter of the paper
    r: Array
    dr: Array
    d2r: Array

    @property
    def penalised(self) -> Residuals:
        """Return the residuals of the penalty: these, unless a family says otherwise."""
        return self

    @property
    def l_d(self) -> Array:
        """Return zero: a row with one end has no width."""
        return ZERO

    @property
    def r_d(self) -> Array:
        """Return zero."""
        return ZERO

    @property
    def minus_l_dd(self) -> Array:
        """Return zero."""
        return ZERO

    @property
    def l_ddd(self) -> Array:
        """Return zero."""
        return ZERO

    @property
    def r_hd(self) -> Array:
        """Return zero."""
        return ZERO

    @property
    def r_dd(self) -> Array:
        """Return zero."""
        return ZERO

    def reflected(self) -> OneEnd:
        """Return the values at z for the distribution of -Z, if these are the values at -z for Z."""
        return OneEnd(self.l, -self.r, self.dr, -self.d2r)


class OtherPenalised(OneEnd):
    """Values of rows whose penalty takes other residuals."""

    _other: Penalised

    @classmethod
    def of(cls, terms: OneEnd, other: Penalised) -> OtherPenalised:
        """Return the values with residuals of their own for the penalty."""
        result = cls(*terms)
        result._other = other
        return result

    @property
    def penalised(self) -> Penalised:
        """Return the residuals of the penalty."""
        return self._other


class TwoEnds(NamedTuple):
    """Values of interval-censored rows, functions of the upper end u and the lower end v.

    Examples
    --------
    >>> from anchortm.links import get_link
    >>> terms = get_link("logit").interval(-1.0, 1.0)
    >>> float(terms.l.round(3)), float(terms.p.round(3)), float(terms.q.round(3))
    (-0.772, 0.425, 0.425)
    """

    l: Array  # noqa: E741
    p: Array
    q: Array
    r: Array
    r_u: Array
    r_v: Array
    r_uu: Array
    r_uv: Array
    r_vv: Array

    @property
    def penalised(self) -> Residuals:
        """Return the residuals of the penalty, the score residuals."""
        return self

    @property
    def dr(self) -> Array:
        """Return the derivative of r where both ends move together."""
        return self.r_u + self.r_v

    @property
    def d2r(self) -> Array:
        """Return the second derivative of r where both ends move together."""
        return self.r_uu + 2.0 * self.r_uv + self.r_vv

    @property
    def l_u(self) -> Array:
        """Return the derivative of l in the upper end, p."""
        return self.p

    @property
    def l_v(self) -> Array:
        """Return the derivative of l in the lower end, -q."""
        return -self.q

    @property
    def l_uu(self) -> Array:
        """Return the second derivative of l in the upper end."""
        return -(self.r_u + self.p * self.q)

    @property
    def l_uv(self) -> Array:
        """Return the mixed derivative of l."""
        return self.p * self.q

    @property
    def l_vv(self) -> Array:
        """Return the second derivative of l in the lower end."""
        return -(self.r_v + self.p * self.q)

    @property
    def l_d(self) -> Array:
        """Return the derivative of l in the width, p."""
        return self.p

    @property
    def r_d(self) -> Array:
        """Return the derivative of r in the width, r_u."""
        return self.r_u

    @property
    def minus_l_dd(self) -> Array:
        """Return the second derivative of -l in the width, a sum of non-negative terms."""
        return self.r_u + self.p * self.q

    @property
    def l_ddd(self) -> Array:
        """Return the third derivative of l in the width."""
        return self.q * self.r_u + self.p * self.q * (self.p + self.q) - self.r_uu

    @property
    def r_hd(self) -> Array:
        """Return the mixed derivative of r in h and the width."""
        return self.r_uu + self.r_uv

    @property
    def r_dd(self) -> Array:
        """Return the second derivative of r in the width, r_uu."""
        return self.r_uu

    def reflected(self) -> TwoEnds:
        """Return the values at (v, u) for the distribution of -Z, if these are the values at (-u, -v) for Z."""
        return TwoEnds(self.l, self.q, self.p, -self.r, self.r_v, self.r_u, -self.r_vv, -self.r_uv, -self.r_uu)


def put(into: TwoEnds, rows: NDArray[np.bool_], terms: TwoEnds) -> None:
    """Write the values of these rows into the arrays of all rows."""
    for target, value in zip(into, terms, strict=True):
        target[rows] = value


def put_left(into: TwoEnds, rows: NDArray[np.bool_], t: OneEnd) -> None:
    """Write the values of left-censored rows, of which ``t`` has all rows, as intervals without a lower end."""
    for target, value in zip((into.l, into.p, into.r, into.r_u, into.r_uu), (t.l, -t.r, t.r, t.dr, t.d2r), strict=True):
        target[rows] = value[rows]


def put_right(into: TwoEnds, rows: NDArray[np.bool_], t: OneEnd) -> None:
    """Write the values of right-censored rows, of which ``t`` has all rows, as intervals without an upper end."""
    for target, value in zip((into.l, into.q, into.r, into.r_v, into.r_vv), (t.l, t.r, t.r, t.dr, t.d2r), strict=True):
        target[rows] = value[rows]
