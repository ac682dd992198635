"""Rows by whole clusters, for integrals over the random effects of each cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.rows.quadrature import adder
from anchortm.engine.rows.standardised import Rows
from anchortm.exceptions import InputError
from anchortm.inputs.clusters import Clusters
from anchortm.links import OneEnd, RowValues, TwoEnds

__all__ = ["Chunk", "ClusterPiece", "cluster_weights", "cut_clusters"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

CHUNK = 300_000  # rows times nodes in one pass


class ClusterPiece(NamedTuple):
    """Rows of one term in a chunk: their places in it, and the matrix that adds them up by cluster."""

    data: Rows
    own: Codes
    of: sp.csr_matrix
    D: Array | None  # for interval rows, the columns of the difference of their ends
    C: Array  # whole rows c; for interval rows at the lower end

    def values(self, link: Any, v: Array, shift: Array) -> RowValues:
        """Return the values of the link or family at shifts of shape (rows of the piece, nodes)."""
        h = np.dot(self.C, v[: self.C.shape[1]])
        if self.data.offset is not None:
            h += self.data.offset
        at = (h[:, None] + shift).ravel()
        if self.D is not None:
            width = np.repeat(np.dot(self.D, v[: self.D.shape[1]]), shift.shape[1])
            ends: TwoEnds = link.interval(at, at + width, width)
            return type(ends)(*(part.reshape(shift.shape) for part in ends))
        if self.data.outcome is not None:
            found: OneEnd = link.terms(at, np.repeat(self.data.outcome, shift.shape[1], axis=0))
        else:
            found = {"exact": link.exact, "left": link.left, "right": link.right}[self.data.kind](at)
        return type(found)(*(part.reshape(shift.shape) for part in found))

    def slope(self, v: Array) -> Array | None:
        """Return h' of exact rows."""
        slope = self.data.slope
        return None if slope is None else np.asarray(np.dot(slope, v[: slope.shape[1]]))


class Chunk(NamedTuple):
    """Whole clusters, with few enough rows for one pass."""

    clusters: Codes
    rows: Codes
    code: Codes
    of: sp.csr_matrix
    Z: Array
    weights: Array  # one for each cluster
    pieces: list[ClusterPiece]

    def values(self, link: Any, v: Array, shift: Array) -> tuple[Array, Array, Array]:
        """Return log-likelihood, residual and its derivative of the rows at shifts of shape (rows, nodes)."""
        loglik, r, dr = (np.zeros(shift.shape) for _ in range(3))
        for piece in self.pieces:
            own, sign = piece.own, piece.data.sign
            t = piece.values(link, v, shift[own])
            loglik[own] += sign * t.l
            r[own] += sign * t.r
            dr[own] += sign * t.dr
            slope = piece.slope(v)
            if slope is not None:
                loglik[own] += np.where(slope > 0.0, np.log(slope), -np.inf)[:, None]
        return loglik, r, dr


def cluster_weights(clusters: Clusters, weights: Array | None) -> Array:
    """Return the weight of each cluster that has rows; refuse weights that differ within one."""
    found, codes = clusters.gapless()
    first = np.ones(found.size)
    if weights is None:
        return first
    first[codes] = weights
    if not (first[codes] == weights).all():
        row = int(np.flatnonzero(first[codes] != weights)[0])
        raise InputError(
            f"weights differ within {clusters.effects.cluster} {clusters.labels[found[codes[row]]]}: "
            "weights replicate clusters, so give all rows of one the same"
        )
    return first


def cut_clusters(
    terms: list[Rows], clusters: Clusters, weights: Array | None, n_rows: int, n_nodes: int
) -> Iterator[Chunk]:
    """Yield chunks of whole clusters; ``n_nodes`` is the number of nodes that each row is evaluated at."""
    codes = clusters.gapless()[1]
    per = np.cumsum(np.bincount(codes)) * n_nodes // CHUNK
    group, first = per[codes], cluster_weights(clusters, weights)
    for chunk in np.unique(per):
        rows, own = np.flatnonzero(group == chunk), np.flatnonzero(per == chunk)
        code = np.searchsorted(own, codes[rows])
        place = np.full(n_rows, -1)
        place[rows] = np.arange(rows.size)
        pieces = []
        for term in terms:
            here = np.flatnonzero(place[term.rows] >= 0)
            at = place[term.rows[here]]
            data = term.take(here, at)
            C, D = data.C, None
            if data.ends is not None:
                V, D = data.ends.dense()
                C = np.hstack([V, C])
            pieces.append(ClusterPiece(data, at, adder(code[at], own.size), D, C))
        yield Chunk(own, rows, code, adder(code, own.size), clusters.Z[rows], first[own], pieces)
