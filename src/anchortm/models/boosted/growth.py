"""Growing small regression trees on histograms.

Covariates are cut once at their quantiles into at most 256 bins. Values that many rows share get bins of their own. A
tree grows by its best split first, the one that maximises

    G_l^2 / (C_l + l2) + G_r^2 / (C_r + l2) - G^2 / (C + l2),

where G and C are the sums of gradient and curvature over the rows on each side. With gradient = weight times target
and curvature = weight this is least squares. The sums over the bins of a node are computed from its rows; those of the
larger child by subtraction. Nodes that stay leaves need no sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.kernels import trees as kernels
from anchortm.models.boosted.trees import Tree

__all__ = ["Binned", "binned", "grow"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_BINS = 256
HEAVY = 64  # a value that more than 1 in 64 rows have gets a bin of its own


@dataclass(frozen=True, eq=False)
class Binned:
    """Binned covariates: ``codes`` of shape (p, n), and the ``edges`` between the bins of each covariate."""

    codes: NDArray[np.uint8]
    edges: tuple[Array, ...]

    @property
    def n_bins(self) -> int:
        """Return the largest number of bins of a covariate."""
        return 1 + max((edge.size for edge in self.edges), default=0)

    @cached_property
    def counts(self) -> Array:
        """Return the number of rows in each bin of each covariate."""
        return np.array([np.bincount(column, minlength=self.n_bins) for column in self.codes], dtype=np.float64)


def binned(X: Array) -> Binned:
    """Return the covariates in bins; x is in bin k if k edges are below it."""
    edges = tuple(_edges(x) for x in X.T)
    codes = np.empty(X.shape[::-1], dtype=np.uint8)
    for row, x, edge in zip(codes, X.T, edges, strict=True):
        found = kernels.bin_codes(x, edge)
        row[:] = np.searchsorted(edge, x) if found is None else found
    return Binned(codes, edges)


def _edges(x: Array) -> Array:
    values, counts = np.unique(x, return_counts=True)
    if values.size <= MAX_BINS:
        return _middles(values)
    heavy = HEAVY * counts > x.size  # these would use up many quantiles, and leave few bins for rare values
    own = _middles(values)[heavy[:-1] | heavy[1:]]
    light = np.repeat(values[~heavy], counts[~heavy])
    shared = np.unique(np.quantile(light, np.linspace(0.0, 1.0, MAX_BINS - own.size)))
    return np.union1d(own, _middles(shared))


def _middles(values: Array) -> Array:
    return np.asarray(values[:-1] + 0.5 * np.diff(values))  # unlike (a + b) / 2, this cannot overflow


class _Split(NamedTuple):
    gain: float
    feature: int
    bin: int


NO_SPLIT = _Split(-math.inf, 0, 0)


class _Node(NamedTuple):
    rows: Codes | None  # None: all rows
    sums: Array  # by covariate and bin: of gradients, of rows, of curvatures unless these are 1; none for a leaf
    split: _Split


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a tree is grown on, and the limits of a leaf; curvatures are None if all are 1."""

    bins: Binned
    gradient: Array
    curvature: Array | None
    min_samples_leaf: int
    l2: float

    def root(self) -> _Node:
        """Return the node of all rows."""
        return self._judged(None, self._histogram(None))

    def children(self, node: _Node, last: bool) -> list[_Node]:
        """Return the two nodes that the split of a node makes; after the ``last`` split they stay leaves."""
        _, feature, cut = node.split
        pair = _sides(self.bins.codes[feature], node.rows, cut, int(node.sums[1, feature, : cut + 1].sum()))
        small = int(pair[1].size < pair[0].size)
        if last or pair[1 - small].size < 2 * self.min_samples_leaf:
            return [_Node(rows, np.zeros(0), NO_SPLIT) for rows in pair]
        less = self._histogram(pair[small])
        more = self._judged(pair[1 - small], node.sums - less)
        made = [self._judged(pair[small], less), more]
        return made if small == 0 else made[::-1]

    def _histogram(self, rows: Codes | None) -> Array:
        """Return the sums over some rows, or all."""
        codes, n_bins = self.bins.codes, self.bins.n_bins
        g, c = self.gradient, self.curvature
        if rows is not None:
            g, c = g.take(rows), None if c is None else c.take(rows)
        found = kernels.bin_sums(codes, rows, g, c, n_bins)
        if found is not None:
            return found
        taken = codes if rows is None else codes.take(rows, axis=1)
        parts = [_sums(taken, g, n_bins), self.bins.counts if rows is None else _sums(taken, None, n_bins)]
        if c is not None:
            parts.append(_sums(taken, c, n_bins))
        return np.array(parts)

    def _judged(self, rows: Codes | None, sums: Array) -> _Node:
        """Return a node with its best split."""
        total = sums.cumsum(axis=-1)
        low, whole = total[:, :, :-1], total[:, :, -1:]
        high = whole - low
        if not low.size:
            return _Node(rows, sums, NO_SPLIT)
        # the last sums are those of curvatures, which are the numbers of rows if all curvatures are 1
        with np.errstate(divide="ignore", invalid="ignore"):
            gain, other, before = (part[0] ** 2 / (part[-1] + self.l2) for part in (low, high, whole))
            gain += other
            gain -= before
        gain[(low[1] < self.min_samples_leaf) | (high[1] < self.min_samples_leaf)] = -np.inf
        feature, cut = divmod(int(gain.argmax()), gain.shape[1])
        return _Node(rows, sums, _Split(float(gain[feature, cut]), feature, cut))


def _sides(code: NDArray[np.uint8], rows: Codes | None, cut: int, n_low: int) -> tuple[Codes, Codes]:
    """Return the rows whose code is at most ``cut``, of which there are ``n_low``, and the others."""
    found = kernels.split_rows(code, rows, cut, n_low)
    if found is not None:
        return found
    low = (code if rows is None else code.take(rows)) <= cut
    sides = np.flatnonzero(low), np.flatnonzero(~low)
    return sides if rows is None else (rows.take(sides[0]), rows.take(sides[1]))


def _sums(codes: NDArray[np.uint8], values: Array | None, n_bins: int) -> Array:
    """Return the sums of values by covariate and bin, or the numbers of rows."""
    return np.array([np.bincount(column, values, n_bins) for column in codes], dtype=np.float64)


def grow(
    bins: Binned,
    gradient: Array,
    curvature: Array | None,
    max_leaf_nodes: int,
    min_samples_leaf: int,
    l2: float = 0.0,
) -> tuple[Tree, Codes]:
    """Return a tree without leaf values, and the leaf of each row.

    Curvatures must be positive; None stands for curvatures of 1.
    """
    rows = _Rows(bins, gradient, curvature, min_samples_leaf, l2)
    nodes = [rows.root()]
    splits: dict[int, tuple[int, int]] = {}  # node -> its children
    for left in range(max_leaf_nodes - 1, 0, -1):
        ahead = [k for k in range(len(nodes)) if k not in splits]
        k = max(ahead, key=lambda k: nodes[k].split.gain)
        if not nodes[k].split.gain > 0.0:
            break
        splits[k] = (len(nodes), len(nodes) + 1)
        nodes += rows.children(nodes[k], last=left == 1)
    return _tree(bins.edges, nodes, splits, gradient.size)


def _tree(
    edges: tuple[Array, ...], nodes: list[_Node], splits: dict[int, tuple[int, int]], n: int
) -> tuple[Tree, Codes]:
    size = len(nodes)
    feature, left, right = (np.full(size, -1, dtype=np.intp) for _ in range(3))
    threshold, gain = np.zeros(size), np.zeros(size)
    for k, (low, high) in splits.items():
        split = nodes[k].split
        feature[k], left[k], right[k] = split.feature, low, high
        threshold[k], gain[k] = edges[split.feature][split.bin], split.gain
    tree = Tree(feature, threshold, left, right, gain, np.zeros(size))
    leaf = np.empty(n, dtype=np.intp)
    for code, k in enumerate(tree.leaves):
        rows = nodes[k].rows
        leaf[slice(None) if rows is None else rows] = code
    return tree, leaf
