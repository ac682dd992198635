"""Small regression trees on histograms, as plain arrays.

Covariates are cut once at their quantiles into at most 256 bins. Values that many rows share get bins of their own. A
tree grows by its best split first, the one that maximises

    G_l^2 / (C_l + l2) + G_r^2 / (C_r + l2) - G^2 / (C + l2),

where G and C are the sums of gradient and curvature over the rows on each side. With gradient = weight times target
and curvature = weight this is least squares. The sums over the bins of a node are computed from its rows; those of the
larger child by subtraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError

__all__ = ["ARRAYS", "Binned", "Tree", "binned", "checked_tree", "grow"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_BINS = 256
HEAVY = 64  # a value that more than 1 in 64 rows have gets a bin of its own
ARRAYS = ("feature", "threshold", "left", "right", "gain", "value")  # the fields of a tree


class Binned(NamedTuple):
    """Binned covariates: ``codes`` of shape (p, n), and the ``edges`` between the bins of each covariate."""

    codes: NDArray[np.uint8]
    edges: tuple[Array, ...]


def binned(X: Array) -> Binned:
    """Return the covariates in bins; x is in bin k if k edges are below it."""
    edges = tuple(_edges(x) for x in X.T)
    codes = np.empty(X.shape[::-1], dtype=np.uint8)
    for row, x, edge in zip(codes, X.T, edges, strict=True):
        row[:] = np.searchsorted(edge, x)
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


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree whose nodes are entries of arrays.

    Attributes
    ----------
    feature : array of int
        The covariate that a node splits by; -1 for leaves.
    threshold : array of float
        Rows whose covariate is at most this go left.
    left, right : array of int
        The children of a node.
    gain : array of float
        Reduction of the squared error by a split.
    value : array of float
        The amount that a leaf adds to f.
    """

    feature: Codes
    threshold: Array
    left: Codes
    right: Codes
    gain: Array
    value: Array

    @cached_property
    def leaves(self) -> Codes:
        """Return the positions of the leaves among the nodes."""
        return np.flatnonzero(self.feature < 0)

    def apply(self, X: Array) -> Codes:
        """Return the leaf of each row, numbered as in ``leaves``."""
        node = np.zeros(X.shape[0], dtype=np.intp)
        inner = np.arange(X.shape[0]) if self.feature[0] >= 0 else np.zeros(0, dtype=np.intp)
        while inner.size:
            at = node[inner]
            low = X[inner, self.feature[at]] <= self.threshold[at]
            node[inner] = np.where(low, self.left[at], self.right[at])
            inner = inner[self.feature[node[inner]] >= 0]
        return np.searchsorted(self.leaves, node)

    def predict(self, X: Array) -> Array:
        """Return the value of each row's leaf."""
        return np.asarray(self.value[self.leaves][self.apply(X)])

    def with_values(self, values: Array) -> Tree:
        """Return the tree with these leaf values."""
        value = np.zeros_like(self.value)
        value[self.leaves] = values
        return Tree(self.feature, self.threshold, self.left, self.right, self.gain, value)


def checked_tree(record: dict[str, Sequence[float]], n_features: int) -> Tree:
    """Return the tree from a record of a file; raise an error if the record is not a valid tree."""
    arrays = [np.asarray(record[name]) for name in ARRAYS]
    feature, threshold, left, right, gain, value = arrays
    size = feature.size
    whole = all(a.dtype.kind == "i" and a.shape == (size,) for a in (feature, left, right))
    real = all(a.dtype.kind in "if" and a.shape == (size,) and np.isfinite(a).all() for a in (threshold, gain, value))
    if not (size and whole and real and ((feature >= -1) & (feature < n_features)).all()):
        raise InputError("a tree is invalid: its arrays differ in length, or it splits by an unknown covariate")
    inner = np.flatnonzero(feature >= 0)
    children = np.concatenate([left[inner], right[inner]])
    # each node but the first is the child of one earlier node, so the tree has no cycles
    once = np.array_equal(np.sort(children), np.arange(1, size))
    if not (once and (left[inner] > inner).all() and (right[inner] > inner).all()):
        raise InputError("a tree is invalid: its nodes are not connected as a tree")
    f, low, high = (a.astype(np.intp) for a in (feature, left, right))
    return Tree(f, threshold.astype(np.float64), low, high, gain.astype(np.float64), value.astype(np.float64))


class _Split(NamedTuple):
    gain: float
    feature: int
    bin: int


class _Node(NamedTuple):
    rows: Codes
    sums: Array  # sums of gradient, curvature and rows, by covariate and bin
    split: _Split


def grow(
    bins: Binned,
    gradient: Array,
    curvature: Array,
    max_leaf_nodes: int,
    min_samples_leaf: int,
    l2: float = 0.0,
) -> tuple[Tree, Codes]:
    """Return a tree without leaf values, and the leaf of each row; curvatures must be positive."""

    def node(rows: Codes, sums: Array | None = None) -> _Node:
        sums = _histogram(bins.codes[:, rows], gradient[rows], curvature[rows]) if sums is None else sums
        return _Node(rows, sums, _best(sums, min_samples_leaf, l2))

    n = gradient.size
    nodes = [node(np.arange(n))]
    splits: dict[int, tuple[int, int]] = {}  # node -> its children
    for _ in range(max_leaf_nodes - 1):
        ahead = [k for k in range(len(nodes)) if k not in splits]
        k = max(ahead, key=lambda k: nodes[k].split.gain)
        _, feature, cut = nodes[k].split
        if not nodes[k].split.gain > 0.0:
            break
        rows = nodes[k].rows
        low = bins.codes[feature, rows] <= cut
        pair = [rows[low], rows[~low]]
        small = int(pair[1].size < pair[0].size)
        less = node(pair[small])
        more = node(pair[1 - small], nodes[k].sums - less.sums)
        splits[k] = (len(nodes), len(nodes) + 1)
        nodes += [less, more] if small == 0 else [more, less]
    return _tree(bins.edges, nodes, splits, n)


def _histogram(codes: NDArray[np.uint8], gradient: Array, curvature: Array) -> Array:
    sums = np.empty((3, codes.shape[0], MAX_BINS))
    for j, column in enumerate(codes):
        sums[0, j] = np.bincount(column, gradient, MAX_BINS)
        sums[1, j] = np.bincount(column, curvature, MAX_BINS)
        sums[2, j] = np.bincount(column, minlength=MAX_BINS)
    return sums


def _best(sums: Array, min_samples_leaf: int, l2: float) -> _Split:
    G, C, N = sums.cumsum(axis=-1)
    low, all_ = (G[:, :-1], C[:, :-1], N[:, :-1]), (G[:, -1:], C[:, -1:], N[:, -1:])
    high = [whole - part for part, whole in zip(low, all_, strict=True)]
    possible = (low[2] >= min_samples_leaf) & (high[2] >= min_samples_leaf)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = low[0] ** 2 / (low[1] + l2) + high[0] ** 2 / (high[1] + l2) - all_[0] ** 2 / (all_[1] + l2)
    gain = np.where(possible, gain, -np.inf)
    if not gain.size:
        return _Split(-np.inf, 0, 0)
    feature, cut = divmod(int(np.argmax(gain)), gain.shape[1])
    return _Split(float(gain[feature, cut]), feature, cut)


def _tree(edges: Sequence[Array], nodes: list[_Node], splits: dict[int, tuple[int, int]], n: int) -> tuple[Tree, Codes]:
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
        leaf[nodes[k].rows] = code
    return tree, leaf
