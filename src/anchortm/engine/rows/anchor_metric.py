"""Anchor penalties s'Omega s other than the projection's, and anchors that do not see the weights of environments.

A projection turns sums s = A'Wv into coordinates t with |t|^2 = v'WPv = s'(A'WA)^-1 s. Any other positive semidefinite
Omega is another root: t = R s with R'R = n Omega, so that |t|^2 / n = s'Omega s and A R't are the values that t puts
on the rows. For one factor whose level e has the weight n_e and the share pi_e of the penalty,

    |t|^2 / n = sum_e pi_e rbar_e^2      with      R = diag(sqrt(n pi_e) / n_e),

which is the projection's penalty if pi_e = n_e / n.

If the likelihood weighs row i by w_i u_i, u_i for its environment, all sums over rows do. Anchors a_i / u_i in place of
a_i give A'Wv with the weights w alone: the penalty does not depend on u.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.projections import Part, Projection, projection
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns

__all__ = ["AnchorMetric", "Reweighing", "reweighed", "root_of"]

Array = NDArray[np.float64]

NEGATIVE = 1e-10  # eigenvalues of Omega above minus this, relative to the largest, count as 0


@dataclass(frozen=True, eq=False)
class Reweighing:
    """What the weights of environments change: 1 / u of each row, and the share pi of each level of the anchor.

    None: u is 1 in all rows; each level has the share of its rows.
    """

    factor: Array | None = None
    shares: Array | None = None

    def take(self, rows: Any) -> Reweighing:
        """Return the same for these rows, in this order."""
        return Reweighing(None if self.factor is None else self.factor[rows], self.shares)

    def weights(self, weights: Array | None) -> Array | None:
        """Return the weights w of rows from their weights w u in the likelihood."""
        return weights if weights is None or self.factor is None else weights * self.factor


def root_of(omega: Array, total: float) -> Array:
    """Return R with R'R = n Omega, for a symmetric positive semidefinite Omega and the total weight n of the rows."""
    values, vectors = np.linalg.eigh(0.5 * (omega + omega.T))
    size = float(np.abs(values).max(initial=0.0))
    if not size > 0.0 or values[0] < -NEGATIVE * size:
        raise InputError(
            f"Omega must be positive semidefinite and not 0, but its eigenvalues are between {values[0]:.3g} and "
            f"{values[-1]:.3g}: a direction of negative weight would reward residuals that depend on the anchors"
        )
    keep = values > NEGATIVE * size
    return np.asarray(np.sqrt(total * values[keep])[:, None] * vectors[:, keep].T)


@dataclass(frozen=True, eq=False)
class _Unweighted(Part):
    """The anchors of some rows, each divided by the environment weight of its row; ``factor`` is 1 / u."""

    inner: Part
    factor: Array

    def add(self, sums: Array, weights: Array, C: Array | None) -> None:
        self.inner.add(sums, weights * self.factor, C)

    def add_cells(self, sums: Array, weights: Array, cell: NDArray[np.intp], table: Array) -> None:
        self.inner.add_cells(sums, weights * self.factor, cell, table)

    def add_codes(self, sums: Array, weights: Array, codes: NDArray[np.intp]) -> None:
        self.inner.add_codes(sums, weights * self.factor, codes)

    def add_sparse(self, sums: Array, weights: Array, M: sp.csr_matrix) -> None:
        self.inner.add_sparse(sums, weights * self.factor, M)

    def add_gram(self, sums: Array, weights: Array) -> None:
        self.inner.add_gram(sums, weights * self.factor**2)

    def spread(self, coefficients: Array) -> Array:
        return (self.factor * self.inner.spread(coefficients).T).T

    def projected(self, coefficients: Array) -> Array:
        return self.inner.spread(coefficients)


class AnchorMetric(Projection):
    """Anchors with another penalty, or with rows that the likelihood weighs by environments.

    Parameters
    ----------
    anchors : Projection
        The projection of the rows, by their own weights w.
    total : array
        A'W1, the weight of each level, if ``shares`` are given.
    reweighing : Reweighing
        Shares of the levels of one factor, and the factors 1 / u of the rows.
    omega : array, optional
        Omega in the coordinates of the sums A'Wv, in place of shares.
    by_level : array, optional
        1 / u of each level; ``on`` makes factors of rows from it.
    """

    contracts = False

    def __init__(
        self,
        anchors: Projection,
        total: Array,
        reweighing: Reweighing,
        omega: Array | None = None,
        by_level: Array | None = None,
    ) -> None:
        self.inner, self._given, self._omega, self._by_level = anchors, reweighing, omega, by_level
        self.rank, self.n_sums, self.dropped = anchors.rank, anchors.n_sums, anchors.dropped
        self.shares = None if omega is not None else anchors.shares if reweighing.shares is None else reweighing.shares
        self._diagonal: Array | None = None
        self._matrix: Array | None = None
        if omega is not None:
            self._matrix = root_of(omega, float(total.sum()))
            self.rank = self._matrix.shape[0]
        elif reweighing.shares is not None:
            there = total > 0.0
            size = np.where(there, total, 1.0)
            self._diagonal = np.where(there, np.sqrt(total.sum() * reweighing.shares) / size, 0.0)

    def part(self, rows: NDArray[np.intp] | slice) -> Part:
        inner, factor = self.inner.part(rows), self._given.factor
        return inner if factor is None else _Unweighted(inner, factor[rows])

    def root(self, sums: Array) -> Array:
        if self._matrix is not None:
            return np.asarray(self._matrix @ sums)
        return self.inner.root(sums) if self._diagonal is None else (self._diagonal * sums.T).T

    def coefficients(self, t: Array) -> Array:
        if self._matrix is not None:
            return np.asarray(self._matrix.T @ t)
        return self.inner.coefficients(t) if self._diagonal is None else (self._diagonal * t.T).T

    def projection_of(self, t: Array) -> Array:
        if self._matrix is not None:
            sums = np.linalg.pinv(self._matrix) @ t
        elif self._diagonal is not None:
            there = self._diagonal > 0.0
            sums = (np.where(there, t.T / np.where(there, self._diagonal, 1.0), 0.0)).T
        else:
            return self.inner.coefficients(t)
        return self.inner.coefficients(self.inner.root(sums))

    def gram(self, weights: Array) -> Array:
        sums = np.zeros((self.n_sums, self.n_sums))
        self.part(slice(None)).add_gram(sums, weights)
        return self.root(self.root(sums).T)

    def cross(self, M: sp.csr_matrix, weights: Array | None) -> Any:
        factor = self._given.factor
        if factor is not None:
            weights = factor if weights is None else weights * factor
        return self.inner.cross(M, weights)

    def subset(self, rows: NDArray[np.intp], weights: Array | None) -> Projection:
        given = self._given.take(rows)
        own = given.weights(weights)
        inner = self.inner.subset(rows, own)
        if self._omega is not None and self.inner.shares is None:
            raise NotImplementedError("Omega is given in the coordinates of all rows, which other rows do not have")
        return AnchorMetric(inner, inner.weight_sums(own, rows.size), given, self._omega, self._by_level)

    def on(self, anchors: AnchorColumns) -> AnchorMetric:
        result = copy.copy(self)
        result.inner = self.inner.on(anchors)
        if self._by_level is not None:
            result._given = Reweighing(self._by_level[anchors.factors[anchors.main or 0]], self._given.shares)
        return result


def reweighed(anchors: AnchorColumns, weights: Array | None, intercept: bool, reweighing: Reweighing) -> AnchorMetric:
    """Return the metric of rows with these weights in the likelihood."""
    own = reweighing.weights(weights)
    inner = projection(anchors, own, intercept)
    return AnchorMetric(inner, inner.weight_sums(own, len(anchors)), reweighing)
