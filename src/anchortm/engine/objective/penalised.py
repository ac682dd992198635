"""An elastic net on the coefficients, for any objective.

    L(theta, beta) + l1 sum_j f_j |beta_j| + l2/2 sum_j f_j beta_j^2

Where the signs of the coefficients are known the sum is smooth: a *face*, on which Newton's method with
bounds finds the minimum, zeros exactly. A face has the columns that matter so far and their signs; after
its minimum one pass over the rows gives the slopes of all columns, and those whose slope exceeds the
penalty join the next face. The loss falls from face to face, and the last one satisfies

    |d_j L| <= l1 f_j where beta_j = 0,    d_j L = -l1 f_j sign(beta_j) elsewhere.

Nothing is columns by columns. A ridge alone over more columns than rows is turned into as many columns as
rows, which a ridge does not notice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._util.checks import one_number, real_numbers
from anchortm.engine.objective.plain import Derivatives, Objective, Sums
from anchortm.engine.rows.block_sums import Influence
from anchortm.engine.rows.standardised import Coordinates
from anchortm.engine.solve import newton
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import InputError
from anchortm.inputs.splines import Marks, smooth_terms, wiggly

__all__ = [
    "Net",
    "Penalty",
    "TurnedCoordinates",
    "check_strengths",
    "effective_degrees",
    "minimise",
    "netted",
    "untangled",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_FACES = 500
HEAVIEST = 1e12  # weight of a standardised coefficient's square: more is zero to all digits, and rounding would rule
FIRST_COLUMNS = 50  # that join a face at once, or as many as are there already


@dataclass(frozen=True, eq=False)
class Penalty:
    """The weights of |beta_j| and beta_j^2 / 2 in the loss.

    ``estimated`` gives, for rows, what the weights of squares are the means of, where they come from the rows.
    """

    first: Array
    second: Array
    estimated: Callable[[Any], Array] | None = None

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
    ) -> Penalty:
        """Return the elastic net on coefficients of these names, and the smoothing of those that are curves.

        ``X`` gives deviations where they are asked for.
        """
        smoothing = np.zeros(len(names)) if marks is None else np.asarray(smooth * wiggly(marks), dtype=np.float64)
        if not isinstance(factor, str):
            f = cls._factors(factor, names)
            return cls(l1 * f, l2 * f + smoothing)
        if factor != "deviation":
            raise InputError(f"penalty_factor must be numbers, a dict or 'deviation', not {factor!r}")
        if not l1 and not l2:  # factors of nothing
            return cls(np.zeros(len(names)), smoothing)
        if X is None:
            raise InputError(
                "penalty_factor='deviation' needs the rows in memory: pass the deviations as numbers, by name"
            )
        mean = np.average(X, axis=0, weights=weights)
        f = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
        return cls(l1 * f, l2 * f**2 + smoothing, lambda rows: l2 * (X[rows] - mean) ** 2 + smoothing)

    @staticmethod
    def _factors(factor: Any, names: tuple[str, ...]) -> Array:
        """Return the factor of each coefficient in the elastic net."""
        p = len(names)
        if factor is None:
            f = np.ones(p)
        elif isinstance(factor, Mapping):
            unknown = [str(name) for name in factor if str(name) not in names]
            if unknown:
                raise InputError(f"penalty_factor names no covariates: {', '.join(unknown[:8])}")
            given = {str(name): one_number(value, f"penalty_factor[{name!r}]") for name, value in factor.items()}
            f = np.array([given.get(name, 1.0) for name in names])
        else:
            f = real_numbers(factor, "penalty_factor")
            if f.shape != (p,):
                raise InputError(
                    f"penalty_factor has shape {f.shape}, and there are {p} coefficients: give one number for each, "
                    "or a dict of those that are not 1"
                )
        bad = ~(np.isfinite(f) & (f >= 0.0))
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise InputError(f"penalty_factor of {names[j]} is {f[j]:g}: it must be a number from 0 on")
        return np.asarray(f)

    @property
    def free(self) -> Mask:
        """Return which coefficients have no penalty."""
        return np.asarray((self.first == 0.0) & (self.second == 0.0))


def check_strengths(**strengths: Any) -> None:
    """Refuse what is no strength of a penalty."""
    for name, value in strengths.items():
        if not 0.0 <= one_number(value, name) < math.inf:
            raise InputError(f"{name} must be a number from 0 on, not {value}")


class Net(Objective):
    """An objective with an elastic net; in ``sums`` the penalty is taken off the log-likelihood.

    ``first`` and ``second`` are the weights of |v_j| and v_j^2 / 2. A coefficient whose bounds leave one sign
    has the slope of that sign at zero too. ``estimated`` is that of the penalty, for rows of the
    objective.
    """

    estimated: Callable[[Any], Array] | None = None

    def __init__(self, inner: Objective, first: Array, second: Array, coordinates: Coordinates | None = None) -> None:
        coordinates = inner.coordinates if coordinates is None else coordinates
        super().__init__(inner.link, coordinates, inner.anchors, inner.blocks, inner.names)
        self.inner, self.first, self.second = inner, first, second
        self.working = first[coordinates.n_baseline :] == 0.0
        self._part: tuple[Mask, Objective] | None = None

    @classmethod
    def of(cls, inner: Objective, penalty: Penalty) -> Net:
        """Return the objective with this penalty on its coefficients."""
        k, scale = inner.coordinates.n_baseline, inner.coordinates.scale
        none = np.zeros(k)
        first = np.concatenate([none, penalty.first]) / scale
        second = np.minimum(np.concatenate([none, penalty.second]) / scale**2, HEAVIEST)
        return cls(inner, first, second)

    def scaled(self, factor: float) -> Net:
        """Return the same with all of the penalty times a factor."""
        return Net(self.inner, factor * self.first, factor * self.second)

    def amount(self, v: Array) -> float:
        """Return the penalty at v."""
        return float(self.first @ np.abs(v) + 0.5 * (self.second @ v**2))

    def loglik(self, v: Array, sums: Sums) -> float:
        return sums.loglik + self.n_total * self.amount(v)

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        self.working |= v[self.coordinates.n_baseline :] != 0.0
        part, at = self._worked()
        sums = part.sums(v[at], expected)
        return Sums(sums.loglik - self.n_total * self.amount(v), sums.t)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        d = self.inner.derivatives(v, multiplier)
        lower, upper = self.coordinates.lower, self.coordinates.upper
        sign = np.where(lower == 0.0, 1.0, np.where(upper == 0.0, -1.0, np.sign(v)))
        gradient = d.gradient + self.n_total * (self.first * sign + self.second * v)
        return Derivatives(gradient, d.hessian + np.diag(self.n_total * self.second), d.E)

    def slopes(self, v: Array, multiplier: Array | None = None) -> Array:
        """Return n times the slopes in the coefficients, without those of the absolute values."""
        k = self.coordinates.n_baseline
        return self.inner.slopes(v, multiplier) + self.n_total * (self.second * v)[k:]

    def restricted(self, columns: Any) -> Net:
        at = self.coordinates.places(columns)
        return Net(self.inner.restricted(columns), self.first[at], self.second[at])

    def sample(self, size: int) -> Net:
        return Net(self.inner.sample(size), self.first, self.second)

    def residuals(self, v: Array) -> Array:
        return self.inner.residuals(v)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Influence:
        # the loss is a mean over rows, and the penalty is a part of each row's share
        work = self.inner.influence(v, pull, bread, K)
        return work if self.estimated is not None else replace(work, every=(self.second * v) @ bread)

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        if self.estimated is None:
            yield from self.inner.shares(work)
            return
        k = self.coordinates.n_baseline
        pull = (work.v / self.coordinates.scale**2)[k:, None] * work.bread[k:]
        for rows, shares in self.inner.shares(work):
            yield rows, shares + self.estimated(rows) @ pull

    @property
    def mean_offset(self) -> float:
        return self.inner.mean_offset

    @property
    def affine(self) -> bool:
        return self.inner.affine

    def convexity(self, sums: Sums, xi: float) -> Literal["global", "local", "none"]:
        return self.inner.convexity(sums, xi)

    def undetermined(self) -> Objective:
        """Return the objective of the coefficients that no penalty keeps finite."""
        k, free = self.coordinates.n_baseline, (self.first == 0.0) & (self.second == 0.0)
        if not self.blocks.costly:
            return self.inner.restricted(np.flatnonzero(free[k:]))
        result, at = copy(self.inner), self.coordinates
        result.coordinates = replace(at, lower=np.where(free, at.lower, 0.0), upper=np.where(free, at.upper, 0.0))
        return result

    def _worked(self) -> tuple[Objective, NDArray[np.intp]]:
        """Return the objective of the working columns, and where its parameters are."""
        if self.working.all():
            return self.inner, np.arange(self.n_parameters)
        if self._part is None or not np.array_equal(self._part[0], self.working):
            self._part = (self.working.copy(), self.inner.restricted(np.flatnonzero(self.working)))
        return self._part[1], self.coordinates.places(np.flatnonzero(self.working))

    def face(self, sign: Array) -> tuple[Net, NDArray[np.intp]]:
        """Return the objective of the working columns with these signs, and where its parameters are."""
        part, at = self._worked()
        k = self.coordinates.n_baseline
        lower, upper = part.coordinates.lower.copy(), part.coordinates.upper.copy()
        one_sided = self.first[at[k:]] > 0.0
        sign = sign[self.working]
        lower[k:][one_sided & (sign > 0.0)] = 0.0
        upper[k:][one_sided & (sign < 0.0)] = 0.0
        coordinates = replace(part.coordinates, lower=lower, upper=upper)
        face = Net(part, self.first[at], self.second[at], coordinates)
        face.working[:] = True
        return face, at


def minimise(objective: Objective, v: Array, xi: float, options: Options, sums: Sums | None = None) -> Solution:
    """Return the minimum of the loss at a finite xi that is found from v; with an l1 penalty over faces."""
    if not (isinstance(objective, Net) and objective.first.any()):
        return newton.minimise(objective, v, xi, options, sums)
    return _over_faces(objective, v, xi, options)


def _over_faces(net: Net, v: Array, xi: float, options: Options) -> Solution:
    k, n = net.coordinates.n_baseline, net.n_total
    v = np.clip(v, net.coordinates.lower, net.coordinates.upper)
    first = net.first[k:]
    sign, found = np.zeros(first.size), None
    history: list[dict[str, Any]] = []
    for _ in range(MOST_FACES):
        pull = None if xi == 0.0 else 2.0 * xi * net.sums(v).t
        slope = net.slopes(v, pull) / n
        zero = (v[k:] == 0.0) & (first > 0.0)
        # the minimum of a face has an answer for its own side of zero
        downhill = np.where(slope > 0.0, -1.0, 1.0)
        asked = zero & ~(net.working & (sign == downhill) & (found is not None))
        beyond = np.where(asked, np.maximum(np.abs(slope) - first, 0.0) / (1.0 + np.abs(slope)), 0.0)
        if found is not None and (not found.converged or beyond.max(initial=0.0) <= options.tol):
            break
        sign = np.where(zero, downhill, np.sign(v[k:]))
        room = net.n_rows - k - int((~zero).sum())  # more columns than rows leave directions without curvature
        most = max(1, min(max(FIRST_COLUMNS, int(net.working.sum())), room))
        if room < int((net.working & zero).sum()) + most:
            net.working[:] = False
        net.working |= ~zero
        joining = np.argsort(-beyond, kind="stable")[:most]
        net.working[joining[beyond[joining] > options.tol]] = True
        face, at = net.face(sign)
        found = newton.minimise(face, v[at], xi, options)
        history += [row | {"iteration": len(history) + j} for j, row in enumerate(found.history)]
        v = np.zeros_like(v)
        v[at] = found.v
    assert found is not None  # noqa: S101
    kkt = max(found.kkt, float(beyond.max(initial=0.0)))
    converged = found.converged and kkt <= options.tol
    tangent, active = np.zeros_like(v), (v == 0.0) & (net.first > 0.0)
    tangent[at], active[:k] = found.tangent, found.active[:k]
    block = sp.coo_matrix(found.hessian)
    hessian = sp.csr_matrix((block.data, (at[block.row], at[block.col])), shape=(v.size, v.size))
    return replace(
        found,
        v=v,
        kkt=kkt,
        active=active,
        converged=converged,
        reason=found.reason if converged or not found.converged else "too many faces",
        n_iter=len(history) - 1,
        tangent=tangent,
        hessian=hessian,
        history=history,
    )


def effective_degrees(objective: Objective, solution: Solution, marks: Marks) -> dict[str, float]:
    """Return the effective degrees of freedom of each smooth term: the trace of its part of (H + S)^-1 H.

    H is the Hessian of the anchor loss at the estimate in the coefficients and the constant of each baseline, whose
    shapes count as given, and S the penalty. For the linear model at xi = 0 that is the trace of the smoother.
    """
    terms = smooth_terms(marks)
    k, d = objective.coordinates.n_baseline, solution.v.size
    if not terms or d != k + len(marks):  # columns were turned: their parts are mixed
        return {}
    own = np.ones(d)
    if isinstance(objective, Net):
        hessian = solution.hessian
        hessian = hessian.toarray() if hasattr(hessian, "toarray") else hessian
        free = ~solution.active & (objective.coordinates.lower < objective.coordinates.upper)
        free[:k] &= np.isneginf(objective.coordinates.lower[:k])
        own[k:] = 0.0
        own[free] = 1.0 - np.diag(np.linalg.pinv(hessian[np.ix_(free, free)])) * objective.second[free]
    return {term: float(own[k:][places].sum()) for term, places in terms.items()}


@dataclass(frozen=True, eq=False)
class TurnedCoordinates(Coordinates):
    """Coordinates of turned columns X T: beta = T times their coefficients, which are ``back`` times beta."""

    own: Any = None  # the coordinates of the turned columns
    turn: Array = field(default_factory=lambda: np.zeros((0, 0)))
    back: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(cls, own: Coordinates, turn: Array, back: Array) -> TurnedCoordinates:
        """Return the coordinates of X, given those of X T."""
        given = {key: getattr(own, key) for key in ("matrix", "mean", "scale", "lower", "upper", "pieces")}
        return cls(**given, own=own, turn=turn, back=back)

    @property
    def n_coefs(self) -> int:
        return int(self.turn.shape[0])

    def split(self, v: Array) -> tuple[Array, Array]:
        theta, own = self.own.split(v)
        return theta, self.turn @ own

    def join(self, theta: Array, beta: Array) -> Array:
        return np.asarray(self.own.join(theta, self.back @ beta))

    @cached_property
    def jacobian(self) -> Array:
        k = self.matrix.shape[0]
        return np.vstack([self.own.jacobian[:k], self.turn @ self.own.jacobian[k:]])


def netted(data: Any, penalty: Penalty, plain: Callable[[Any], Objective]) -> Net:
    """Return the objective of these rows with a penalty; ``plain`` makes the one without."""
    X = data.design.matrix
    if penalty.first.any() or int((~penalty.free).sum()) <= X.shape[0]:
        net = Net.of(plain(data), penalty)
        if penalty.estimated is not None:
            order, squares = None if data.anchors is None else data.anchors.order(), penalty.estimated
            net.estimated = squares if order is None else lambda rows: squares(order[rows])
        return net
    matrix, turn = _turned(X, penalty)
    free, r = penalty.free, int(matrix.shape[1] - penalty.free.sum())
    names = (*("",) * r, *(name for name, own in zip(data.design.names, free, strict=True) if own))
    objective = plain(data._replace(design=data.design._replace(matrix=matrix, names=names)))
    weight = np.where(free, 1.0, penalty.second)
    objective.coordinates = TurnedCoordinates.of(objective.coordinates, turn, turn.T * weight)
    weights = np.repeat([1.0, 0.0], [r, free.sum()])
    net = Net.of(objective, Penalty(np.zeros(weights.size), weights))
    if penalty.estimated is not None:
        net.estimated = _refuse
    return net


def untangled(data: Any, plain: Callable[[Any], Objective]) -> Objective:
    """Return the objective of nearly collinear covariates, whose Hessian would lose what tells them apart.

    With X - mean = Q R the columns X R^-1 = Q + mean' R^-1 are orthogonal but for a constant. A Hessian in them is as
    good as any, and R^-1 times their coefficients are those of X, right up to the rounding of X itself.
    """
    X = data.design.matrix
    if not isinstance(X, np.ndarray) or data.clusters is not None:
        return plain(data)
    mean = X.mean(axis=0)
    size = np.abs(X - mean).max(axis=0)
    Q, R = np.linalg.qr((X - mean) / size)
    root = math.sqrt(X.shape[0])
    turn = la.solve_triangular(R, np.eye(R.shape[0])) * root / size[:, None]
    objective = plain(data._replace(design=data.design._replace(matrix=root * Q + mean @ turn)))
    objective.coordinates = TurnedCoordinates.of(objective.coordinates, turn, R * size / root)
    return objective


def _refuse(rows: Any) -> Array:
    raise InputError(
        "with more covariates than rows and factors that are deviations of these rows there is no sandwich: "
        "ask for 'bootstrap', or give the factors as numbers"
    )


def _turned(X: Array, penalty: Penalty) -> tuple[Array, Array]:
    """Return X T, with no more columns than rows beside those without a penalty, and T.

    With D^2 the weights and X D^-1 = R'Q', x'beta = (row of R')(Q'D beta), and |Q'D beta|^2 is the ridge of
    the beta in the span of the rows, where the minimum is.
    """
    free, own = np.flatnonzero(penalty.free), np.flatnonzero(~penalty.free)
    root = np.sqrt(penalty.second[own])
    Q, R = np.linalg.qr((X[:, own] / root).T)
    r = R.shape[0]
    turn = np.zeros((X.shape[1], r + free.size))
    turn[own, :r] = Q / root[:, None]
    turn[free, r + np.arange(free.size)] = 1.0
    return np.hstack([R.T, X[:, free]]), turn
