"""Objectives in turned columns X T: for a ridge over more columns than rows, and for nearly collinear columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from anchortm.engine.objective.penalised import Net, Penalty
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.exceptions import InputError

__all__ = ["TurnedCoordinates", "netted", "untangled"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TurnedCoordinates(Coordinates):
    """Coordinates of turned columns X T: beta = T u for their coefficients u, and u = ``back`` times beta."""

    own: Any = None  # the coordinates of X T
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
    """Return the objective of these rows with a penalty; ``plain`` makes the one without.

    A ridge over more columns than rows has the same minimum in as many turned columns as rows.
    """
    X = data.design.matrix
    more = penalty.first.size > X.shape[1]  # parameters beside those of columns, which cannot be turned
    if more or penalty.first.any() or int((~penalty.free).sum()) <= X.shape[0]:
        net = Net.of(plain(data), penalty)
        if penalty.of_rows is not None:
            order, squares = None if data.anchors is None else data.anchors.order(), penalty.of_rows
            net.of_rows = squares if order is None else lambda rows: squares(order[rows])
        return net
    matrix, turn = _turned(X, penalty)
    free, r = penalty.free, int(matrix.shape[1] - penalty.free.sum())
    names = (*("",) * r, *(name for name, own in zip(data.design.names, free, strict=True) if own))
    objective = plain(data._replace(design=data.design._replace(matrix=matrix, names=names)))
    weight = np.where(free, 1.0, penalty.second)
    objective.coordinates = TurnedCoordinates.of(objective.coordinates, turn, turn.T * weight)
    weights = np.repeat([1.0, 0.0], [r, free.sum()])
    net = Net.of(objective, Penalty(np.zeros(weights.size), weights))
    if penalty.of_rows is not None:
        net.of_rows = _refuse
    return net


def untangled(data: Any, plain: Callable[[Any], Objective]) -> Objective:
    """Return the objective of nearly collinear covariates, in columns that are not collinear.

    With X - mean = Q R the columns X R^-1 = Q + mean' R^-1 are orthogonal up to a constant, so that their Hessian is
    well conditioned. R^-1 times their coefficients are those of X, as accurate as X itself.
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
        "with more covariates than rows and penalty_factor='deviation' the sandwich is not available: "
        "use 'bootstrap', or give the penalty factors as numbers"
    )


def _turned(X: Array, penalty: Penalty) -> tuple[Array, Array]:
    """Return X T, with at most as many penalised columns as rows, and T.

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
