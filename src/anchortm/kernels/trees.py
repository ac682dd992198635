"""Loops of trees on histograms, compiled. Without the library they return None, and the caller uses NumPy."""

from __future__ import annotations

from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.kernels.library import function, pointer

__all__ = ["bin_codes", "bin_sums", "split_rows"]

Codes = NDArray[np.uint8]
Rows = NDArray[np.intp]

WORD = np.dtype(np.intp).itemsize

_bin_sums = function("anchortm_bin_sums", *[c_int64] * 4, *[c_void_p] * 5)
_split_rows = function("anchortm_split_rows", c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)

_bin = function("anchortm_bin", c_int64, c_int64, c_void_p, c_int64, *[c_void_p] * 2)


def _ready(*arrays: NDArray[Any] | None) -> bool:
    """Return whether arrays can be handed over as they are; row numbers must have 64 bits."""
    return WORD == 8 and all(a is None or a.flags.c_contiguous for a in arrays)


def bin_codes(x: Array, edges: Array) -> Codes | None:
    """Return the number of edges below each x; there are at most 255 edges."""
    if _bin is None or x.dtype != np.float64 or x.strides[0] % 8 or not x.flags.aligned or not _ready(edges):
        return None
    codes = np.empty(x.size, dtype=np.uint8)
    _bin(x.size, x.strides[0] // 8, pointer(x), edges.size, pointer(edges), pointer(codes))
    return codes


def bin_sums(codes: Codes, rows: Rows | None, gradient: Array, curvature: Array | None, n_bins: int) -> Array | None:
    """Return sums by covariate and bin over some rows (None: all): of gradients, of rows, and of curvatures if given.

    ``gradient`` and ``curvature`` are those of these rows.
    """
    if _bin_sums is None or not _ready(codes, rows, gradient, curvature):
        return None
    p, n = codes.shape
    sums = np.empty((2 if curvature is None else 3, p, n_bins))
    _bin_sums(p, n, gradient.size, n_bins, *map(pointer, (codes, rows, gradient, curvature, sums)))
    return sums


def split_rows(code: Codes, rows: Rows | None, cut: int, n_low: int) -> tuple[Rows, Rows] | None:
    """Return the rows whose code is at most ``cut``, of which there are ``n_low``, and the others."""
    if _split_rows is None or not _ready(code, rows):
        return None
    m = code.size if rows is None else rows.size
    low, high = np.empty(n_low + 1, dtype=np.intp), np.empty(m - n_low + 1, dtype=np.intp)
    _split_rows(m, pointer(code), pointer(rows), cut, pointer(low), pointer(high))
    return low[:-1], high[:-1]
