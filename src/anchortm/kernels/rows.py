"""Sums over rows in one pass, compiled. Where a function cannot serve it says so, and the caller uses NumPy."""

from __future__ import annotations

from ctypes import byref, c_double, c_int64, c_void_p

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.kernels.library import function, pointer

__all__ = ["LAWS", "add_gram", "add_group_sums", "centred", "log_slopes", "one_end", "scaled_rows", "taken"]

# (link or family, kind of rows) -> the number of their values in rows.c
LAWS = {
    ("logit", "exact"): 1,
    ("logit", "right"): 2,
    ("logit", "left"): 3,
    ("binomial-logit", "mean"): 4,  # outcomes are 0 or 1
    ("cloglog", "exact"): 5,
    ("cloglog", "right"): 6,
    ("poisson-log", "mean"): 7,
    ("gamma-log", "mean"): 8,
}
MOST_COLUMNS = 64  # with more, tiles do not stay in the cache and a product of matrices is faster

_one_end = function("anchortm_one_end", *[c_int64] * 4, *[c_void_p] * 5, c_double, *[c_void_p] * 7)
_log_slopes = function("anchortm_log_slopes", *[c_int64] * 2, *[c_void_p] * 2, c_double, *[c_void_p] * 4)
_group_sums = function("anchortm_group_sums", *[c_int64] * 3, *[c_void_p] * 4)
_add_gram = function("anchortm_add_gram", *[c_int64] * 2, *[c_void_p] * 5)


_scaled_rows = function("anchortm_scaled_rows", *[c_int64] * 3, *[c_void_p] * 5)
_centred = function("anchortm_centred", *[c_int64] * 2, *[c_void_p] * 5)


def _fit(*arrays: Array | None) -> bool:
    """Return whether arrays can be handed over as they are."""
    return all(a is None or (a.flags.carray and a.dtype == np.float64) for a in arrays)


def _zeros(d: int, derivatives: object) -> tuple[Array, Array] | tuple[None, None]:
    """Return arrays for the derivatives in d parameters, if these are wanted."""
    return (None, None) if derivatives is None else (np.zeros(d), np.zeros((d, d)))


def one_end(
    law: int | None,
    C: Array,
    slope: Array | None,
    offset: Array | None,
    outcome: Array | None,
    weights: Array | None,
    sign: int,
    v: Array,
    bend: Array | None,
    derivatives: tuple[Array, Array] | None,
) -> tuple[float, Array, Array] | None:
    """Return the log-likelihood of rows with one end, and their weighted residuals r and dr/dh.

    ``derivatives`` are arrays to which the gradient of -loglik and its Hessian are added, the latter with the curvature
    of r along ``bend``.
    """
    n, d = C.shape
    if _one_end is None or law is None or d > MOST_COLUMNS or not _fit(C, slope, offset, outcome, weights, v, bend):
        return None
    loglik, r, dr = c_double(), np.empty(n), np.empty(n)
    gradient, hessian = _zeros(d, derivatives)
    k = 0 if slope is None else slope.shape[1]
    at = map(pointer, (C, slope, offset, outcome, weights))
    rest = map(pointer, (r, dr, gradient, hessian))
    if _one_end(law, n, d, k, *at, sign, pointer(v), pointer(bend), byref(loglik), *rest):
        return None
    if derivatives is not None and gradient is not None and hessian is not None:
        derivatives[0][:] += gradient
        derivatives[1][:] += hessian
    return loglik.value, r, dr


def log_slopes(
    slope: Array, weights: Array | None, sign: int, v: Array, derivatives: tuple[Array, Array] | None
) -> float | None:
    """Return the weighted sum of log(slope @ v); add the derivatives of minus that to ``derivatives``."""
    n, k = slope.shape
    if _log_slopes is None or k > MOST_COLUMNS or not _fit(slope, weights, v):
        return None
    total = c_double()
    gradient, hessian = _zeros(k, derivatives)
    at = pointer(slope), pointer(weights), sign, pointer(v), byref(total), pointer(gradient), pointer(hessian)
    if _log_slopes(n, k, *at):
        return None
    if derivatives is not None and gradient is not None and hessian is not None:
        derivatives[0][:] += gradient
        derivatives[1][:] += hessian
    return total.value


def add_group_sums(bounds: NDArray[np.int64], weights: Array, C: Array, sums: Array) -> bool:
    """Add the weighted rows bounds[k] .. bounds[k + 1] of C to row k of the sums; return whether it was done."""
    if _group_sums is None or not _fit(weights, C) or sums.strides[1] != 8 or not sums.flags.aligned:
        return False
    shape = bounds.size - 1, C.shape[1], sums.strides[0] // 8
    _group_sums(*shape, pointer(bounds), pointer(weights), pointer(C), pointer(sums))
    return True


def add_gram(C: Array, r: Array, w: Array, gradient: Array, hessian: Array) -> bool:
    """Add C'r and C'diag(w)C; return whether it was done."""
    n, d = C.shape
    if _add_gram is None or d > MOST_COLUMNS or not _fit(C, r, w):
        return False
    g, H = np.zeros(d), np.zeros((d, d))
    if _add_gram(n, d, *map(pointer, (C, r, w, g, H))):
        return False
    gradient += g
    hessian += H
    return True


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
