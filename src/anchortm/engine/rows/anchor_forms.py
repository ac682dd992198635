"""Quadratic forms in the anchors' sums: what a known target, or two proxies, make of the penalty.

The penalty is t'Ft / n with t = A'Wr / sqrt(n), for columns A that are centred and standardised, A'WA = n I. F = I
would be the projection on centred anchors.

A target whose anchors have the covariance S, in units where that of the training rows is I, has F = S - I, because
kappa = A'Wr / n are the coefficients of the residuals on the anchors and

    |r|^2/n + kappa'(S - I)kappa = |(I - P)r|^2/n + kappa'S kappa

is the mean squared residual at the target around its own mean, which lies kappa'm further if the anchors have the mean
m there. It is never negative, whatever S, but only residuals that are linear in the parameters have a log-likelihood
like |r|^2.

Two proxies W and Z of the same anchors, each standardised, have the cross-moment C = Z'W/n and the penalty
t_W'C^-1 t_Z/n: their errors are independent, so that C estimates the covariance of the anchors without errors. Its F is
indefinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.projections import Part, Projection
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.targets import Proxies, TargetShift

__all__ = ["AnchorForm", "Formed", "proxy_form", "target_form"]

Array = NDArray[np.float64]

DEFINITE = 1e-10  # eigenvalues of F down to minus this, relative to the largest, count as zero


@dataclass(frozen=True, eq=False)
class AnchorForm:
    """Columns A of the rows, the matrix F of the form, and the mean of the target in the units of A."""

    A: Array
    F: Array
    mean: Array

    @property
    def lowest(self) -> float:
        """Return the smallest eigenvalue of F."""
        return float(np.linalg.eigvalsh(self.F)[0])

    @property
    def definite(self) -> bool:
        """Return whether the form is nowhere negative."""
        return self.lowest >= -DEFINITE * max(1.0, float(np.abs(self.F).max()))

    @property
    def root(self) -> Array:
        """Return B with B'B = F, for a form that is nowhere negative."""
        values, vectors = np.linalg.eigh(self.F)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)

    def sums(self, r: Array, weights: Array | None) -> Array:
        """Return A'Wr."""
        return np.asarray(self.A.T @ (r if weights is None else weights * r))

    def along(self, anchors: Projection, weights: Array | None) -> Array:
        """Return T with A'Wv / sqrt(n) = T'(Q'Wv) for the coordinates of a projection on a span that contains A."""
        n = self.A.shape[0] if weights is None else float(weights.sum())
        total = np.zeros((anchors.n_sums, self.A.shape[1]))
        anchors.part(slice(None)).add(total, np.ones(self.A.shape[0]) if weights is None else weights, self.A)
        return np.asarray(anchors.root(total) / math.sqrt(n))

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the form with the columns of some rows."""
        return type(self)(self.A[rows], self.F, self.mean)


class Formed(Projection):
    """Coordinates u = B t of a form F = B'B, so that the penalty is |u|^2 / n; the sums are those of the anchors."""

    def __init__(self, anchors: Projection, form: AnchorForm, weights: Array | None) -> None:
        self.inner, self.form = anchors, form
        self._B = form.root @ form.along(anchors, weights).T
        self.rank, self.n_sums, self.dropped = self._B.shape[0], anchors.n_sums, anchors.dropped

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        return self.inner.part(rows)

    def root(self, sums: Array) -> Array:
        return np.asarray(self._B @ self.inner.root(sums))

    def coefficients(self, t: Array) -> Array:
        return self.inner.coefficients(self._B.T @ t)

    def gram(self, weights: Array) -> Array:
        return np.asarray(self._B @ self.inner.gram(weights) @ self._B.T)

    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        return self.inner.cross(M, weights)

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        return Formed(self.inner.subset(rows, weights), self.form.take(rows), weights)

    def on(self, anchors: AnchorColumns) -> Projection:
        raise NotImplementedError("made from its rows, not from sums")


def target_form(target: TargetShift, anchors: AnchorColumns, weights: Array | None) -> AnchorForm:
    """Return the form of a target: its covariance less that of the training rows, in units where the latter is I."""
    mean, covariance = target.of(anchors.column_names)
    centre = np.average(anchors.columns, axis=0, weights=weights)
    A, T = _standardised(anchors.columns - centre, weights)
    q = A.shape[1]
    S = np.eye(q) if covariance is None else _turned(_turned(covariance, T).T, T)
    away = np.zeros(q) if mean is None else _turned((mean - centre)[:, None], T)[:, 0]
    return AnchorForm(A, 0.5 * (S + S.T) - np.eye(q), away)


def proxy_form(proxies: Proxies, anchors: AnchorColumns, weights: Array | None) -> AnchorForm:
    """Return the form of two proxies; refuse those that have nothing in common in some direction."""
    centred = anchors.columns - np.average(anchors.columns, axis=0, weights=weights)
    W, Z = (_standardised(centred[:, at], weights)[0] for at in proxies.places(anchors.column_names))
    n = W.shape[0] if weights is None else float(weights.sum())
    C = (Z if weights is None else weights[:, None] * Z).T @ W / n
    least = float(np.linalg.svd(C, compute_uv=False)[-1])
    if least <= 1.0 / math.sqrt(n):
        raise IdentificationError(
            f"in some direction the proxies W and Z are hardly correlated (smallest canonical correlation {least:.2g}, "
            f"and {1.0 / math.sqrt(n):.2g} is usual for unrelated columns of so many rows): give measurements of the "
            "same anchors, fewer of them, or use one of W and Z as plain anchors"
        )
    q = W.shape[1]
    F = np.zeros((2 * q, 2 * q))
    F[:q, q:] = 0.5 * np.linalg.inv(C)
    F[q:, :q] = F[:q, q:].T
    return AnchorForm(np.hstack([W, Z]), F, np.zeros(2 * q))


def _standardised(centred: Array, weights: Array | None) -> tuple[Array, Array]:
    """Return columns A with A'WA = n I in the span of centred ones, and T with A T = these."""
    n = centred.shape[0] if weights is None else float(weights.sum())
    size = np.abs(centred).max(axis=0)
    unit = centred / np.where(size > 0.0, size, 1.0)
    T: Array = np.linalg.qr(unit if weights is None else np.sqrt(weights)[:, None] * unit)[1] / math.sqrt(n)
    lengths = np.sqrt((T**2).sum(axis=0))
    if unit.shape[0] <= unit.shape[1] or (np.abs(np.diag(T)) <= 1e-9 * lengths).any():
        raise InputError(
            "an anchor column is constant, or a sum of others, so that the distribution of the anchors has no density: "
            "leave it out of the anchors"
        )
    return np.ascontiguousarray(la.solve_triangular(T, unit.T, trans="T").T), T * size


def _turned(columns: Array, T: Array) -> Array:
    """Return T^-T times these columns."""
    return np.asarray(la.solve_triangular(T, columns, trans="T"))
