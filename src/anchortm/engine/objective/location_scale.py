"""Shift and scale: the anchor loss of h = exp(z'g / 2) a(y)'theta + sign * (x'beta + offset).

Besides r there is a residual of the scale, r_s = -dl/dzeta with zeta = z'g / 2, and the loss is

    L = -l/n + tau |t|^2/n,    t = [sqrt(xi/tau) Q'W r, sqrt(xi_scale/tau) Q'W r_s],    tau = max(xi, xi_scale)

so that the solver sees one t and one number. ``rows.scale_sums`` has the derivatives.

Inside, covariates and scale columns z are centred; centring z multiplies theta by a number, which ``ScaledCoordinates``
accounts for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import FLAT, STRICT, Convexity, Derivatives, Loss, Objective, Point, Sums
from anchortm.engine.objective.scale_effects import scaled_baseline
from anchortm.engine.rows.centred import Centred
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.scale_sums import (
    Place,
    ScaledInfluence,
    ScaledLogLikelihood,
    ScaledSecondOrder,
    place_rows,
)
from anchortm.engine.rows.standardised import Rows
from anchortm.exceptions import IdentificationError, SeparationError
from anchortm.links import Link

__all__ = ["ScaledCoordinates", "ScaledLoss", "ScaledObjective"]

Array = NDArray[np.float64]

FAR_SCALE = 4.0  # without a strict minimum, a larger |zeta| at some row means that the scale grows without limit
LOOSE = 1e-3  # a scale effect with a larger share in flat directions is not determined
LARGEST_EXPONENT = 600.0  # exp of more, times theta, might overflow
FAR_MEAN = 20.0  # mean of a covariate, in standard deviations, that is far from 0


@dataclass(frozen=True, eq=False)
class ScaledCoordinates(Coordinates):
    """Coordinates with the log scales' parameters last: zeta = (z - z_mean)'g / 2 inside."""

    z_mean: Array = None  # type: ignore[assignment]

    @classmethod
    def of(cls, plain: Coordinates, n_scale: int) -> ScaledCoordinates:
        """Return the coordinates of columns whose last ``n_scale`` belong to the scale."""
        mean, scale = plain.mean.copy(), plain.scale.copy()
        mean[-n_scale:] = 0.0
        scale[-n_scale:] *= 0.5
        own = {field.name: getattr(plain, field.name) for field in fields(Coordinates)}
        return cls(**own | {"mean": mean, "scale": scale}, z_mean=plain.mean[-n_scale:])

    def split(self, v: Array) -> tuple[Array, Array]:
        """Return theta where z = 0, and beta and g in one vector."""
        theta, others = super().split(v)
        return theta / self._scale_at_mean(others), others

    def join(self, theta: Array, beta: Array) -> Array:
        """Return v for such a theta, and beta and g in one vector."""
        return super().join(theta * self._scale_at_mean(beta), beta)

    def _scale_at_mean(self, others: Array) -> float:
        """Return exp(z'g / 2) at the means of the scale columns; refuse numbers that overflow."""
        exponent = 0.5 * float(self.z_mean @ others[others.size - self.z_mean.size :])
        if not abs(exponent) < LARGEST_EXPONENT:
            raise IdentificationError(
                f"the scale effects diverge: at average covariates the scale is exp({exponent:.3g}), which "
                "overflows; take a smaller xi, leave columns out of scale, or subtract typical values from them"
            )
        return math.exp(exponent)

    def jacobian_at(self, v: Array) -> Array:
        """Return d(theta, beta, g)/dv."""
        J = self.jacobian.copy()
        theta, others = self.split(v)
        q, k = self.z_mean.size, theta.size
        J[:k] /= self._scale_at_mean(others)
        J[:k] -= np.outer(theta, 0.5 * self.z_mean @ J[J.shape[0] - q :])
        return J

    def restricted(self, columns: NDArray[np.intp]) -> Self:
        """Return the coordinates of the baseline, some covariates and some scale columns."""
        scale = columns[columns >= self.n_coefs - self.z_mean.size] - (self.n_coefs - self.z_mean.size)
        return replace(super().restricted(columns), z_mean=self.z_mean[scale])


@dataclass(frozen=True, eq=False)
class _Reach:
    """The number of rows with far scales, and the largest contribution of each column to zeta."""

    far: int
    size: Array

    @classmethod
    def of(cls, terms: list[Rows], g: Array) -> _Reach:
        """Return that of these rows."""
        found = cls(0, np.zeros(g.size))
        for term in terms:
            parts = term.C[:, -g.size :] * g
            far = int((~(np.abs(parts.sum(axis=1)) < FAR_SCALE)).sum()) * (term.sign > 0)
            found = found + cls(far, np.abs(parts).max(axis=0, initial=0.0))
        return found

    def __add__(self, other: _Reach) -> _Reach:
        return _Reach(self.far + other.far, np.maximum(self.size, other.size))


class ScaledLoss(Objective):
    """What losses of shift and scale effects share, wherever the rows are.

    ``xi_scale`` is the second penalty, or None where it is xi. The loss is that of a *ray*: ``mix`` are the roots
    of (xi, xi_scale) / tau, and tau is the number that the loss is asked for at.
    """

    coordinates: ScaledCoordinates
    n_scale: int
    xi_scale: float | None
    mix: tuple[float, float] = (1.0, 1.0)
    held = False
    _m: Array  # means of the covariates, in standard deviations
    _latest: Any = None

    def ray(self, xi: float) -> tuple[Self, float]:
        """Return the objective on the ray through (xi, xi_scale), and tau."""
        if self.xi_scale is None:
            return self, xi
        tau = max(xi, self.xi_scale)
        result = copy(self)
        result.xi_scale, result._latest = None, None
        if tau > 0.0:
            first = 1.0 if math.isinf(xi) else math.sqrt(xi / tau)
            result.mix = (first, 0.0 if math.isinf(xi) else math.sqrt(self.xi_scale / tau))
        return result, tau

    @property
    def simpler(self) -> Self | None:
        """Return the loss with all scale effects held at 0; the minimisation starts from its minimum."""
        if self.held:
            return None
        lower, upper = self.coordinates.lower.copy(), self.coordinates.upper.copy()
        own = slice(lower.size - self.n_scale, None)
        lower[own] = upper[own] = 0.0
        result = copy(self)
        result.coordinates, result.held = replace(self.coordinates, lower=lower, upper=upper), True
        return result

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        """Return "none": nothing is known, not even at xi = 0."""
        return "none"

    def average_baseline(self, theta: Array, others: Array) -> Array:
        """Return the baseline of a row with average scale columns."""
        return np.asarray(scaled_baseline(theta, self.coordinates.z_mean[None, :], self._scale_effects(others))[0])

    def _scale_effects(self, others: Array) -> Array:
        return others[others.size - self.n_scale :]

    @property
    def far_from_zero(self) -> list[str]:
        """Return the covariates that are never near 0, where theta and the shift meet."""
        return [name for name, m in zip(self.names, self._m, strict=False) if abs(m) > FAR_MEAN]

    def undetermined(self, point: Point) -> tuple[NDArray[np.bool_], list[str]]:
        """Return which scale effects lie in flat directions at the end of a minimisation, and their names."""
        first, k = self.n_parameters - self.n_scale, self.coordinates.n_baseline
        free = np.flatnonzero(self.coordinates.lower < self.coordinates.upper)
        curvatures, directions = np.linalg.eigh(point.dense[np.ix_(free, free)])
        shares = np.square(directions[free >= first])
        loose, looser = (shares[:, curvatures <= least].sum(axis=1) > LOOSE for least in (STRICT, FLAT))
        found = looser if point.converged else loose
        return loose, [self.names[first - k + j] for j in np.flatnonzero(found)]


class ScaledObjective(ScaledLoss, RowObjective):
    """The anchor loss of shift and scale effects of rows that can be evaluated here."""

    coordinates: ScaledCoordinates
    first_order = False

    def __init__(self, plain: RowObjective, n_scale: int, names: tuple[str, ...], xi_scale: float | None) -> None:
        """Take the rows of an objective whose last ``n_scale`` covariates belong to the scale."""
        coordinates = ScaledCoordinates.of(plain.coordinates, n_scale)
        super().__init__(plain.link, coordinates, plain.anchors, plain.blocks, names)
        self.affine = False  # h is not linear in the parameters
        self.n_scale, self.xi_scale = n_scale, xi_scale
        self._linear = plain.coordinates
        k = coordinates.n_baseline
        self._m = (coordinates.mean / coordinates.scale)[k : coordinates.scale.size - n_scale]
        self.extra_names = names[len(names) - n_scale :]

    @property
    def apart(self) -> tuple[ScaledObjective, ...]:
        """Return the losses whose penalty takes the residuals of the shift alone, and those of the scale alone."""
        found = []
        for mix in ((1.0, 0.0), (0.0, 1.0)):
            own = copy(self)
            own.xi_scale, own.mix, own._latest = None, mix, None
            found.append(own)
        return tuple(found)

    def at_strengths(self, strengths: Sequence[float]) -> tuple[ScaledObjective, float]:
        """Return the loss with these strengths of the penalties of shift and scale, and tau."""
        own = copy(self)
        own.xi_scale = float(strengths[1])
        return own.ray(float(strengths[0]))

    def row_scales(self, v: Array) -> Array:
        """Return exp(zeta) of each row, relative to that of average scale columns."""
        found, g = np.ones(self.n_rows), v[v.size - self.n_scale :]
        for term in self.terms:
            found[term.rows] = np.exp(term.C[:, term.C.shape[1] - self.n_scale :] @ g)
        return found

    @property
    def scored(self) -> ScaledObjective:
        """Return the loss whose anchor penalty takes the residuals of the shift alone, less their mean.

        Scaled baselines do not contain a constant shift, so that the mean residual says nothing about anchors.
        """
        result = copy(self)
        result.xi_scale, result.mix, result._latest = None, (1.0, 0.0), None
        if self.anchors is not None and not isinstance(self.anchors, Centred):
            result.anchors = Centred(self.anchors, sums=self.blocks.weight_sums(self.anchors))
        return result

    @property
    def row_coordinates(self) -> Coordinates:
        """Return the coordinates of the columns of shift and scale, as those of a shift."""
        return self._linear

    def _where(self, v: Array) -> tuple[Link, Array, int, Array]:
        return self.link, v, self.coordinates.n_baseline, self._m

    def _t(self, arrays: list[Array]) -> Array:
        """Return t, or dt/dv, from the anchors' sums of r and r_s."""
        return np.concatenate(
            [share * self._root(sums) for share, sums in zip(self.mix, arrays, strict=True) if share > 0.0]
        )

    def _spreads(
        self, t: Array | None, mixed: bool = True, projected: bool = False
    ) -> tuple[Array | None, Array | None]:
        """Return coordinates of t as coefficients of the anchors, for r and for r_s; ``projected``: those of P r."""
        if t is None or self.anchors is None:
            return None, None
        of = self.anchors.projection_of if projected else self.anchors.coefficients
        rank = t.shape[0] // sum(share > 0.0 for share in self.mix)
        parts = iter([t[:rank], t[rank:]])
        found = [None if share == 0.0 else of((share if mixed else 1.0) * next(parts)) for share in self.mix]
        return found[0], found[1]

    def _first_order(self, v: Array) -> ScaledLogLikelihood:
        return ScaledLogLikelihood(*self._where(v), self.n_sums)

    def _second_order(self, v: Array, multiplier: Array | None) -> ScaledSecondOrder:
        return ScaledSecondOrder(*self._where(v), self.n_sums, self._spreads(multiplier))

    def _derivatives(self, arrays: list[Array]) -> Derivatives:
        gradient, upper, *G = arrays
        hessian = np.triu(upper) + np.triu(upper, 1).T
        return Derivatives(gradient, hessian + self.n_total * self.coordinates.faint, self._t(G))

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        """Return the gradient of -loglik + multiplier't."""
        return Loss.gradient(self, v, multiplier)

    def penalties(self, v: Array, sums: Sums | None = None) -> tuple[float, ...]:
        """Return |P r|^2 and |P r_s|^2; ``sums`` hold them mixed."""
        parts = self.blocks.total(self._first_order(v))[1]
        return tuple(float(np.sum(self._root(part) ** 2)) for part in parts)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> ScaledInfluence:
        """Return the work that gives the rows' shares in the influence."""
        link, v, k, m = self._where(v)
        pulls, Ks = (self._spreads(part, mixed=False) for part in (pull, K))
        ts = self._spreads(self.sums(v).t, mixed=False, projected=True)
        return ScaledInfluence(link, v, k, bread, None, None, None, m=m, pulls=pulls, Ks=Ks, ts=ts, mix=self.mix)

    def restricted(self, columns: NDArray[np.intp]) -> ScaledObjective:
        """Return the loss of some shift and scale effects alone."""
        result = copy(self)
        result.blocks = self.blocks.restricted(columns, self.coordinates.n_baseline, self.anchors)
        result._latest = None
        result.coordinates = self.coordinates.restricted(columns)
        result.names = tuple(self.names[j] for j in columns)
        result._m = self._m[columns[columns < self._m.size]]
        result.n_scale = result.coordinates.z_mean.size
        result.extra_names = result.names[len(result.names) - result.n_scale :]
        return result

    def sample(self, size: int) -> ScaledObjective:
        """Return the objective of about ``size`` rows from all over the data, in the same coordinates."""
        result = copy(self)
        result.blocks, result.anchors = self.blocks.sample(size, self.anchors)
        result.costly, result._latest = result.blocks.costly, None
        result.n_rows, result.n_total = result.blocks.n_rows, result.blocks.n_total
        result.n_sums = 0 if result.anchors is None else result.anchors.n_sums
        return result

    def scale_residuals(self, v: Array) -> Array:
        """Return r_s in the order of the objective's rows."""
        return self._of_rows(v, lambda place: place.first().r_s)

    def residuals(self, v: Array) -> Array:
        """Return r in the order of the objective's rows."""
        return self._of_rows(v, lambda place: place.values.r)

    def residual_slopes(self, v: Array) -> Array:
        """Return the derivative of each r in its own shift."""
        return self._of_rows(v, lambda place: place.values.dr)

    def _of_rows(self, v: Array, values: Callable[[Place], Array]) -> Array:
        """Return values of the rows at v, in the order of the objective's rows."""
        found = np.zeros(self.n_rows)
        for term in self.terms:
            found[term.rows] += term.sign * values(place_rows(self.link, term, v, *self._where(v)[2:]))
        return found

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if the minimum was not reached, or is not strict, because of the scale.

        Either scales are far apart along directions with a curvature below ``STRICT``, or the loss does not curve along
        them: less than ``FLAT``, or less than ``STRICT`` while it still falls.
        """
        if self.held or point is None:
            super().check_maximum(point)
            return
        loose, names = self.undetermined(point)
        if point.converged and not loose.any():
            return  # something else is flat
        first, k = self.n_parameters - self.n_scale, self.coordinates.n_baseline
        v = point.v
        reach = self.blocks.everywhere(lambda terms: _Reach.of(terms, v[first:]))
        far, size = reach.far, reach.size
        remedy = "leave it out of scale, or merge levels or classes"
        if far:
            reached = [self.names[first - k + j] for j in np.flatnonzero(size > 0.1 * size.max())]
            raise SeparationError(
                f"the scale grows without limit: {', '.join(reached)} makes the spread of y at {far} of {self.n_rows} "
                f"rows more than {math.exp(FAR_SCALE):.0f} times smaller or larger than at average rows, and the "
                "likelihood keeps growing without a maximum (a group of one row, or rows that the shift explains "
                f"without error?); {remedy}"
            )
        if names:
            raise SeparationError(
                f"the rows do not determine the scale: as {', '.join(names)} grows the likelihood rises by less and "
                f"less, or not at all (two classes, or a group without rows in some class?); {remedy}"
            )
