"""Small regression trees, as plain arrays; ``growth`` grows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError

__all__ = ["ARRAYS", "Tree", "checked_tree", "summed"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

ARRAYS = ("feature", "threshold", "left", "right", "gain", "value")  # the fields of a tree
BLOCK = 8192  # rows that are sent down all trees before the next: their columns stay in the cache


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

    @cached_property
    def _children(self) -> Codes:
        """Return both children of each node, one node after the other; leaves are their own children."""
        pairs = np.column_stack([self.left, self.right])
        pairs[self.leaves] = self.leaves[:, None]
        return pairs.ravel()

    @cached_property
    def _depth(self) -> int:
        """Return the largest number of splits on the way to a leaf."""
        depth = np.zeros(self.feature.size, dtype=np.intp)
        for k in np.flatnonzero(self.feature >= 0):  # children come after their parents
            depth[[self.left[k], self.right[k]]] = depth[k] + 1
        return int(depth.max())

    def ends(self, columns: Array, places: Codes) -> Codes:
        """Return the node where each row ends.

        Parameters
        ----------
        columns : array of shape (q, m)
            Covariates, one row for each.
        places : array of shape (p,)
            The row of ``columns`` for each covariate that the tree splits by.
        """
        m = columns.shape[1]
        first = m * np.where(self.feature < 0, 0, places[self.feature])
        flat, rows, node = columns.ravel(), np.arange(m), np.zeros(m, dtype=np.intp)
        for _ in range(self._depth):
            high = flat.take(first.take(node) + rows) > self.threshold.take(node)
            node = self._children.take(2 * node + high)
        return node

    def apply(self, X: Array) -> Codes:
        """Return the leaf of each row, numbered as in ``leaves``."""
        node = np.zeros(X.shape[0], dtype=np.intp)
        for rows, columns, places in _blocks([self], X):
            node[rows] = self.ends(columns, places)
        return np.searchsorted(self.leaves, node)

    def predict(self, X: Array) -> Array:
        """Return the value of each row's leaf."""
        return summed([self], X)

    def with_values(self, values: Array) -> Tree:
        """Return the tree with these leaf values."""
        value = np.zeros_like(self.value)
        value[self.leaves] = values
        return Tree(self.feature, self.threshold, self.left, self.right, self.gain, value)


def summed(trees: Sequence[Tree], X: Array) -> Array:
    """Return the sum of the values that the trees have for each row."""
    f = np.zeros(X.shape[0])
    for rows, columns, places in _blocks(trees, X):
        for tree in trees:
            f[rows] += tree.value.take(tree.ends(columns, places))
    return f


def _blocks(trees: Sequence[Tree], X: Array) -> Iterator[tuple[slice, Array, Codes]]:
    """Yield blocks of rows: the covariates that the trees split by, one row for each, and where each covariate is."""
    used = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *(tree.feature for tree in trees)]))
    used = used[used >= 0]
    places = np.zeros(X.shape[1], dtype=np.intp)
    places[used] = np.arange(used.size)
    for start in range(0, X.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        yield rows, X[rows].T[used], places


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
