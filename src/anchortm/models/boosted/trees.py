"""Small regression trees, as plain arrays; ``growth`` grows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anchortm.exceptions import InputError

__all__ = ["ARRAYS", "Tree", "checked_tree"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

ARRAYS = ("feature", "threshold", "left", "right", "gain", "value")  # the fields of a tree


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
