"""Columns of tall matrices, compiled. Where a function cannot serve it says so, and the caller uses NumPy."""

from __future__ import annotations

from ctypes import c_int64, c_void_p

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.kernels.library import function, pointer

__all__ = ["centred", "scaled_rows", "taken"]

_scaled_rows = function("anchortm_scaled_rows", *[c_int64] * 3, *[c_void_p] * 5)
_centred = function("anchortm_centred", *[c_int64] * 2, *[c_void_p] * 5)


def _fit(*arrays: Array) -> bool:
    """Return whether arrays can be handed over as they are."""
    return all(a.flags.c_contiguous and a.dtype == np.float64 for a in arrays)


def centred(X: Array, centre: Array, low: Array, high: Array) -> Array | None:
    """Return X - centre, and extend the ends ``low`` and ``high`` of the columns; None where NumPy has to do it."""
    if _centred is None or not _fit(X, centre, low, high):
        return None
    out = np.empty(X.shape)
    return None if _centred(*X.shape, *map(pointer, (X, centre, low, high, out))) else out


def scaled_rows(X: Array, rows: NDArray[np.intp], factor: Array, shift: Array, out: Array) -> bool:
    """Put X[rows] * factor - shift into ``out``, whose rows may lie apart; return whether it was done."""
    if (
        _scaled_rows is None
        or not _fit(X, factor, shift)
        or rows.dtype != np.int64
        or not rows.flags.c_contiguous
        or not out.size
    ):
        return False
    at = map(pointer, (X, rows, factor, shift, out))
    return not _scaled_rows(rows.size, X.shape[1], out.strides[0] // out.itemsize, *at)


def taken(X: Array, rows: NDArray[np.intp]) -> Array:
    """Return X[rows] for rows that may be far apart."""
    out, p = np.empty((rows.size, X.shape[1])), X.shape[1]
    return out if scaled_rows(X, rows, np.ones(p), np.zeros(p), out) else X[rows]
