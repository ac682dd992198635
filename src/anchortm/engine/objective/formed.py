"""The anchor loss with a quadratic form in place of the projection: for a known target, and for proxies.

    L = -loglik/n + c t'Ft/n,      t = A'Wr / sqrt(n)

with c = 1/2 for a target and c = xi for proxies; ``rows.anchor_forms`` has A and F. Exact rows under the normal link
have r linear in v, and -loglik = |r|^2/2 + ...: the form changes their moments, M -> M + 2 c B'FB with B = dt/dv, and
all else is as in maximum likelihood. F may then be indefinite, as long as the new moments are positive definite. Other
rows need F >= 0, whose root makes the penalty a sum of squares, c |u|^2 / n.
"""

from __future__ import annotations

import copy
import math

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.normal import NormalObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Convexity, Derivatives, Objective, Sums
from anchortm.engine.objective.wrapped import Wrapped
from anchortm.engine.rows.anchor_forms import AnchorForm, Formed
from anchortm.exceptions import IdentificationError, InputError

__all__ = ["FormedObjective"]

Array = NDArray[np.float64]

DEFINITE = 1e-10  # smallest eigenvalue of the moments with the form, relative to those without
RANK = 1e-13  # eigenvalues of the moments below this, relative to the largest, count as zero


class FormedObjective(Wrapped):
    """A loss whose anchor penalty is a form; ``strength`` is c, or None where it is xi.

    What the solver minimises is the loss of the *ray*: another objective, at the number that ``ray`` returns.
    """

    inner: RowObjective

    def __init__(self, inner: RowObjective, form: AnchorForm, strength: float | None, needs: str) -> None:
        super().__init__(inner)
        self.form, self.strength, self.needs = form, strength, needs
        self._rays: dict[float, Objective] = {}
        if not self.exact and not form.definite:
            raise InputError(needs)

    @property
    def exact(self) -> bool:
        """Return whether the residuals are linear in the parameters, and their squares the log-likelihood."""
        return isinstance(self.inner, NormalObjective)

    def around(self, inner: Objective) -> FormedObjective:
        assert isinstance(inner, RowObjective)  # noqa: S101
        return FormedObjective(inner, self.form, self.strength, self.needs)

    @property
    def unpenalised(self) -> FormedObjective:
        """Return itself, which has no penalty on its coefficients."""
        return self

    @property
    def scored(self) -> Objective:
        """Return the loss with the projection on the anchors."""
        return self.inner

    def sample(self, size: int) -> FormedObjective:
        """Return itself: samples are taken of the loss that is minimised."""
        return self

    def ray(self, xi: float) -> tuple[Objective, float]:
        """Return the loss to minimise: with other moments and no penalty, or with the root of the form."""
        c = xi if self.strength is None else self.strength
        if c not in self._rays:
            self._rays[c] = self._made(c)
        return self._rays[c], 0.0 if self.exact else c

    def _made(self, c: float) -> Objective:
        if isinstance(self.inner, NormalObjective):
            return self._with_moments(self.inner, c)
        assert self.inner.anchors is not None  # noqa: S101
        made = copy.copy(self.inner)
        made.anchors, made._latest, made._seen = Formed(self.inner.anchors, self.form, self.weights), None, None
        return made

    def _with_moments(self, inner: NormalObjective, c: float) -> NormalObjective:
        """Return the loss whose moments contain the form; refuse one that has no minimum."""
        M, E = inner.moments
        assert inner.anchors is not None  # noqa: S101
        B = self.form.along(inner.anchors, self.weights).T @ E
        total = M + 2.0 * c * (B.T @ self.form.F @ B)
        d = inner.n_parameters
        lowest = _lowest(total[:d, :d], M[:d, :d])
        if lowest <= DEFINITE:
            raise IdentificationError(self._unbounded(c, lowest))
        return inner.with_moments((total, E))

    def _unbounded(self, c: float, lowest: float) -> str:
        if self.strength is not None:
            return (
                "with this target the anchors explain a covariate or y without error, and nothing is left to estimate "
                f"from (smallest eigenvalue {lowest:.2g}, relative to the training rows): give a larger covariance, or "
                "leave out covariates that are functions of the anchors"
            )
        most = "" if lowest >= 1.0 else f"; take xi below {c / (1.0 - lowest):.3g}"
        return (
            f"at xi = {c:g} the penalty of the proxies is so negative for some coefficients that the loss has no "
            f"minimum (smallest eigenvalue {lowest:.2g}, relative to the training rows){most}, or better proxies"
        )

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood, and t of the projection on the anchors."""
        return self.inner.sums(v, expected)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives of both."""
        return self.inner.derivatives(v, multiplier)

    def loglik(self, v: Array, sums: Sums) -> float:
        """Return the log-likelihood of the rows; ``sums`` may contain the form."""
        return self.inner.loglik(v, self.inner.sums(v))

    def penalties(self, v: Array, sums: Sums | None = None) -> tuple[float, ...]:
        """Return t'Ft."""
        t = self.form.sums(self.inner.residuals(v), self.weights) / math.sqrt(self.n_total)
        return (float(t @ self.form.F @ t),)

    def target_shift(self, v: Array) -> float:
        """Return how much further the mean of h lies at the target: kappa'm, over the mean slope of the residuals.

        It is exact for exact rows under the normal link, whose slopes are 1, and else the first step of Newton's
        method towards a mean residual of 0 at the target.
        """
        r, slopes = self.inner.residuals(v), self.inner.residual_slopes(v)
        kappa = self.form.sums(r, self.weights) / self.n_total
        return float(kappa @ self.form.mean / np.average(slopes, weights=self.weights))

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        along, c = self.ray(xi)
        return "global" if self.exact else along.convexity(sums, c)


def _lowest(total: Array, moments: Array) -> float:
    """Return the smallest eigenvalue of one matrix relative to another, in directions that rows determine at all.

    A form adds nothing in other directions, because the anchors' sums are sums over the same rows.
    """
    values, vectors = np.linalg.eigh(moments)
    some = values > RANK * values[-1]
    root = vectors[:, some] / np.sqrt(values[some])
    return float(np.linalg.eigvalsh(root.T @ total @ root)[0])
