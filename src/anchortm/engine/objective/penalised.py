"""An elastic net and smoothing of the coefficients, for any objective.

    L(theta, beta) + l1 sum_j f_j |beta_j| + l2/2 sum_j f_j beta_j^2 + smooth/2 sum_{j curved} beta_j^2

``solve.faces`` minimises a loss with absolute values. ``turned`` makes the objective of more columns than rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import one_number, real_numbers
from anchortm.engine.objective.protocol import Derivatives, Objective, Point, Sums
from anchortm.engine.objective.wrapped import Wrapped
from anchortm.engine.rows.block_sums import Squares
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.exceptions import InputError
from anchortm.inputs.splines import Marks, wiggly

__all__ = ["Curvature", "Known", "Net", "Penalty", "check_strengths"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SPARE = 1.25  # a part of the columns serves for this many fewer
HEAVIEST = 1e12  # weight of the square of a standardised coefficient; with more, rounding errors would dominate


class Known(NamedTuple):
    """Weighted means (with the sign of the shift in h) and deviations of covariates; l2 multiplies their squares."""

    mean: Array
    deviation: Array
    l2: float = 0.0

    def squares(self, v: Array, bread: Array, coordinates: Coordinates) -> Squares:
        """Return each row's part of the ridge beyond an equal share."""
        own = slice(coordinates.n_baseline, coordinates.n_baseline + self.mean.size)
        scale = coordinates.scale[own]
        pull = self.l2 * (v[own] / scale**2)[:, None] * bread[own]
        return Squares(scale, coordinates.mean[own] - self.mean, self.deviation**2, pull)


@dataclass(eq=False)
class Curvature:
    """A Hessian of the loss without the elastic net, in the parameters ``at``, and E = dt/dv there.

    With ``linear`` the loss is quadratic, with this linear part, up to -log v_1. ``solver`` solves with the Hessian
    plus a ridge.
    """

    at: NDArray[np.intp]
    hessian: Array
    E: Array
    linear: Array | None = None
    ridge: Array | None = None
    solver: Any = None


@dataclass(frozen=True, eq=False)
class Penalty:
    """The weights of |beta_j| and beta_j^2 / 2 in the loss.

    If the weights of the squares are means over the rows, ``of_rows`` gives the terms of these means for some rows;
    if the rows are elsewhere, they are computed there from what is ``known``.
    """

    first: Array
    second: Array
    of_rows: Callable[[Any], Array] | None = None
    known: Known | None = None

    @classmethod
    def of(
        cls,
        l1: float,
        l2: float,
        smooth: float,
        factor: Any,
        names: tuple[str, ...],
        X: Array | None,
        weights: Array | None,
        marks: Marks | None = None,
        more: tuple[str, ...] = (),
        more_marks: Marks = (),
        known: Known | None = None,
    ) -> Penalty:
        """Return the elastic net on coefficients of these names, and the smoothing of those that belong to curves.

        ``X``, or what is ``known`` of it, is needed for factors that are the standard deviations of the columns.
        ``more`` are parameters that follow the coefficients; their factor is 0 unless a dict names them.
        """
        marks = ((None,) * len(names) if marks is None else marks) + more_marks
        smoothing = np.asarray(smooth * wiggly(marks), dtype=np.float64)
        if not isinstance(factor, str):
            f = cls._factors(factor, names, more)
            return cls(l1 * f, l2 * f + smoothing)
        if factor != "deviation":
            raise InputError(f"penalty_factor must be numbers, a dict or 'deviation', not {factor!r}")
        if not l1 and not l2:  # nothing to multiply
            return cls(np.zeros(len(marks)), smoothing)
        none = np.zeros(len(more))
        if known is not None:
            f = np.append(known.deviation, none)
            return cls(l1 * f, l2 * f**2 + smoothing, known=known._replace(l2=l2))
        assert X is not None  # noqa: S101
        mean = np.average(X, axis=0, weights=weights)
        f = np.append(np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights)), none)

        def of_rows(rows: Any) -> Array:
            squares = (X[rows] - mean) ** 2
            return l2 * np.hstack([squares, np.zeros((squares.shape[0], none.size))]) + smoothing

        return cls(l1 * f, l2 * f**2 + smoothing, of_rows)

    @staticmethod
    def _factors(factor: Any, names: tuple[str, ...], more: tuple[str, ...] = ()) -> Array:
        """Return the factor of each coefficient in the elastic net."""
        p, names = len(names), (*names, *more)
        if factor is None:
            f = np.ones(p)
        elif isinstance(factor, Mapping):
            unknown = [str(name) for name in factor if str(name) not in names]
            if unknown:
                raise InputError(f"penalty_factor names columns that are not covariates: {', '.join(unknown[:8])}")
            given = {str(name): one_number(value, f"penalty_factor[{name!r}]") for name, value in factor.items()}
            f = np.array([given.get(name, float(j < p)) for j, name in enumerate(names)])
        else:
            f = real_numbers(factor, "penalty_factor")
            if f.shape != (p,):
                raise InputError(
                    f"penalty_factor has shape {f.shape}, and there are {p} coefficients: give one number for each, "
                    "or a dict of the factors that are not 1"
                )
        bad = ~(np.isfinite(f) & (f >= 0.0))
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise InputError(f"penalty_factor of {names[j]} is {f[j]:g}: it must be a finite number, 0 or more")
        return np.append(f, np.zeros(len(names) - f.size))

    @property
    def free(self) -> Mask:
        """Return which coefficients have no penalty."""
        return np.asarray((self.first == 0.0) & (self.second == 0.0))


def check_strengths(**strengths: Any) -> None:
    """Refuse strengths of penalties that are negative or not finite."""
    for name, value in strengths.items():
        if not 0.0 <= one_number(value, name) < math.inf:
            raise InputError(f"{name} must be a finite number, 0 or more, not {value}")


class Net(Wrapped):
    """An objective with an elastic net; in ``sums`` the penalty is subtracted from the log-likelihood.

    ``lasso`` and ``ridge`` are the weights of |v_j| and v_j^2 / 2. If the bounds of a coefficient allow one sign only,
    the penalty has the slope of that sign at zero too. ``of_rows`` gives the penalty of each row, if its weights were
    estimated from the rows. ``working`` marks the coefficients that passes over the rows take into account: all others
    are zero so far.
    """

    penalised = True
    lasso: Array
    ridge: Array
    of_rows: Callable[[Any], Array] | None = None
    known: Known | None = None

    def __init__(self, inner: Objective, lasso: Array, ridge: Array, coordinates: Coordinates | None = None) -> None:
        super().__init__(inner)
        self.coordinates = inner.coordinates if coordinates is None else coordinates
        self.lasso, self.ridge = lasso, ridge
        self.working = lasso[self.coordinates.n_baseline :] == 0.0
        self.working[self.working.size - len(inner.extra_names) :] = True  # not columns that can be left out
        self._parts: list[tuple[Mask, Objective]] = []  # the latest one
        self.curvatures: dict[float, Curvature] = {}  # the latest one, by xi

    @classmethod
    def of(cls, inner: Objective, penalty: Penalty) -> Net:
        """Return the objective with this penalty on its coefficients."""
        k, scale = inner.coordinates.n_baseline, inner.coordinates.scale
        none = np.zeros(k)
        lasso = np.concatenate([none, penalty.first]) / scale
        ridge = np.minimum(np.concatenate([none, penalty.second]) / scale**2, HEAVIEST)
        net = cls(inner, lasso, ridge)
        net.known = penalty.known
        return net

    def around(self, inner: Objective) -> Net:
        net = Net(inner, self.lasso, self.ridge)
        net.of_rows, net.known = self.of_rows, self.known
        return net

    def scaled(self, factor: float) -> Net:
        result = Net(self.inner, factor * self.lasso, factor * self.ridge)
        result.curvatures, result._parts = self.curvatures, self._parts
        return result

    @property
    def kinked(self) -> bool:
        return bool(self.lasso.any())

    def amount(self, v: Array) -> float:
        """Return the penalty at v."""
        return float(self.lasso @ np.abs(v) + 0.5 * (self.ridge @ v**2))

    def loglik(self, v: Array, sums: Sums) -> float:
        return self.inner.loglik(v, Sums(sums.loglik + self.n_total * self.amount(v), sums.t))

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        self.working |= v[self.coordinates.n_baseline :] != 0.0
        part, at = (self.inner, slice(None)) if self.inner.pooled else self._worked()
        sums = part.sums(v[at], expected)
        return Sums(sums.loglik - self.n_total * self.amount(v), sums.t)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        d = self.inner.derivatives(v, multiplier)
        lower, upper = self.coordinates.lower, self.coordinates.upper
        sign = np.where(lower == 0.0, 1.0, np.where(upper == 0.0, -1.0, np.sign(v)))
        gradient = d.gradient + self.n_total * (self.lasso * sign + self.ridge * v)
        return Derivatives(gradient, d.hessian + np.diag(self.n_total * self.ridge), d.E)

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        return self.inner.gradient(v, multiplier) + self.n_total * self.ridge * v

    def sums_and_gradient(self, v: Array, xi: float) -> tuple[Sums, Array]:
        """Return the sums, and the gradient of the loss times n without that of the absolute values."""
        if xi != 0.0:
            sums = self.sums(v)
            return sums, self.gradient(v, 2.0 * xi * sums.t)
        gradient = self.gradient(v)
        sums = self.inner.sums(v)  # known from the same pass
        return Sums(sums.loglik - self.n_total * self.amount(v), sums.t), gradient

    def part(self, working: Mask) -> tuple[Objective, NDArray[np.intp]]:
        """Return the loss without the net in these columns or a few more, and the places of its parameters."""
        known = self._parts[0][0] if self._parts else ~working
        few = int(known.sum()) <= SPARE * int(working.sum())
        self.working = known.copy() if few and not (working & ~known).any() else working
        return self._worked()

    def restricted(self, columns: NDArray[np.intp]) -> Net:
        at = self.coordinates.places(columns)
        return Net(self.inner.restricted(columns), self.lasso[at], self.ridge[at])

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Any:
        # the loss is a mean over rows, so every row has an equal share of the penalty
        work = self.inner.influence(v, pull, bread, K)
        if self.of_rows is not None:
            return work
        every = (self.ridge * v) @ bread
        work = replace(work, every=every if work.every is None else work.every + every)
        if self.known is None:
            return work
        return replace(work, squares=self.known.squares(v, bread, self.inner.coordinates))

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        if self.of_rows is None:
            yield from self.inner.shares(work)
            return
        k = self.coordinates.n_baseline
        pull = (work.v / self.coordinates.scale**2)[k:, None] * work.bread[k:]
        for rows, shares in self.inner.shares(work):
            yield rows, shares + self.of_rows(rows) @ pull

    def undetermined(self) -> Objective:
        """Return the objective of the coefficients that no penalty keeps finite."""
        k, free = self.coordinates.n_baseline, (self.lasso == 0.0) & (self.ridge == 0.0)
        if not self.extra_names:
            return self.inner.restricted(np.flatnonzero(free[k:]))
        result, at = copy(self.inner), self.coordinates
        result.coordinates = replace(at, lower=np.where(free, at.lower, 0.0), upper=np.where(free, at.upper, 0.0))
        return result

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if coefficients without a penalty have no finite estimate."""
        free = self.undetermined()
        free.check_maximum(point if free.n_parameters == self.n_parameters else None)

    def _worked(self) -> tuple[Objective, NDArray[np.intp]]:
        """Return the objective of the working columns, and the places of its parameters."""
        if self.working.all():
            return self.inner, np.arange(self.n_parameters)
        if not self._parts or not np.array_equal(self._parts[0][0], self.working):
            self._parts[:] = [(self.working.copy(), self.inner.restricted(np.flatnonzero(self.working)))]
        return self._parts[0][1], self.coordinates.places(np.flatnonzero(self.working))

    def face(self, sign: Array) -> tuple[Net, NDArray[np.intp]]:
        """Return the objective of the working columns with these signs, and the places of its parameters."""
        part, at = self._worked()
        k = self.coordinates.n_baseline
        lower, upper = part.coordinates.lower.copy(), part.coordinates.upper.copy()
        one_sided = self.lasso[at[k:]] > 0.0
        sign = sign[self.working]
        lower[k:][one_sided & (sign > 0.0)] = 0.0
        upper[k:][one_sided & (sign < 0.0)] = 0.0
        coordinates = replace(part.coordinates, lower=lower, upper=upper)
        face = Net(part, self.lasso[at], self.ridge[at], coordinates)
        face.working[:] = True
        return face, at
