"""Sums and ends of the columns of tall matrices: NumPy takes rows of a few numbers one by one, here many at once."""

from __future__ import annotations

import numpy as np

from anchortm._typing import Array

__all__ = ["column_ends", "column_sums", "scale_columns"]

FOLD = 128  # rows that lie side by side in a folded matrix
FEW = 64  # columns that folding pays off for


def _folded(X: Array) -> tuple[Array, Array]:
    """Return the rows of X as rows of a matrix with ``FOLD`` of them side by side, and the rows that are left over."""
    n, p = X.shape
    many = n // FOLD if X.flags.c_contiguous and p <= FEW else 0
    return X[: many * FOLD].reshape(many, FOLD * p), X[many * FOLD :]


def _reduced(reduce: np.ufunc, X: Array) -> Array:
    many, rest = _folded(X)
    if not many.size:
        return np.asarray(reduce.reduce(X, axis=0))
    own = reduce.reduce(many, axis=0).reshape(FOLD, X.shape[1])
    return np.asarray(reduce.reduce(np.concatenate([own, rest]), axis=0))


def column_sums(X: Array) -> Array:
    """Return the sum of each column."""
    return _reduced(np.add, X)


def column_ends(X: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest value of each column; X must have rows."""
    return _reduced(np.minimum, X), _reduced(np.maximum, X)


def scale_columns(X: Array, factor: Array | None, shift: Array) -> None:
    """Multiply each column by its factor, if there are any, and subtract its shift, in place."""
    for rows, times in zip(_folded(X), (FOLD, 1), strict=True):
        if rows.size and factor is not None:
            rows *= np.tile(factor, times)
        if rows.size:
            rows -= np.tile(shift, times)
