"""The inverse of increasing Bernstein polynomials on [0, 1].

One value is inverted by Newton's method inside a bracket. For many values of one polynomial the inverse is tabulated
first: it is interpolated in equal cells of its range, and each cell is compared with Newton's method. Cells that differ
by more than a few roundings (near a flat end) keep Newton's method.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.bases.numerics import BLOCK, bernstein

__all__ = ["invert_bernstein"]

ULPS = 4e-16  # rounding does not tell two places in [0, 1] apart that are closer than this
CELLS = 512  # cells of the table
TABLE_FROM = 5000  # values for which a table pays
TABLE_ERROR = 2e-15  # a cell must be this close to Newton's method at the places where it is checked
_NODES = np.cos(np.pi * (np.arange(8) + 0.5) / 8.0)
_CHECKS = np.array([-0.9, 0.1, 0.6])


def invert_bernstein(theta: Array, z: Array) -> Array:
    """Return t in [0, 1] where the polynomial with increasing coefficients theta reaches z.

    Theta is one vector, or one for each z.
    """
    if theta.ndim == 1 and z.size >= TABLE_FROM and theta[-1] > theta[0]:
        return _by_table(theta, z)
    return _by_newton(theta, z)


def _by_newton(theta: Array, z: Array) -> Array:
    """Invert value by value: a table gives a bracket, and Newton steps that would leave it are replaced by halving."""
    order = theta.shape[-1] - 1
    slopes = order * np.diff(theta)

    def value(coefficients: Array) -> Array:
        polynomials = bernstein(coefficients.shape[-1] - 1, here, 1.0 - here)
        if coefficients.ndim == 1:
            return np.asarray(coefficients @ polynomials)
        return np.asarray(np.einsum("mk,km->m", coefficients[todo], polynomials))

    grid = np.linspace(0.0, 1.0, 8 * (order + 1) + 1)
    table = np.maximum.accumulate(theta @ bernstein(order, grid, 1.0 - grid), axis=-1)
    place = np.searchsorted(table, z, side="left") if table.ndim == 1 else (table < z[:, None]).sum(axis=1)
    cell = np.clip(place, 1, grid.size - 1)
    low, high = grid[cell - 1], grid[cell]
    t = np.where(z > theta.T[0], 0.5 * (low + high), 0.0)
    todo = np.flatnonzero((z > theta.T[0]) & (z <= theta.T[-1]))
    for _ in range(60):
        if not todo.size:
            break
        here = t[todo]
        h = value(theta) - z[todo]
        low[todo], high[todo] = np.where(h < 0.0, here, low[todo]), np.where(h < 0.0, high[todo], here)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = here - h / value(slopes)
        inside = (step > low[todo]) & (step < high[todo])
        t[todo] = np.where(inside, step, 0.5 * (low[todo] + high[todo]))
        # a step as small as rounding may fall on the wrong side of its bracket
        done = (np.abs(step - here) <= ULPS) | (high[todo] - low[todo] <= ULPS)
        t[todo[done]] = np.where(inside, step, here)[done]
        todo = todo[~done]
    return t


def _by_table(theta: Array, z: Array) -> Array:
    """Invert many values of one polynomial by interpolation, see above."""
    first, scale = theta[0], CELLS / (theta[-1] - theta[0])
    coefficients, good = _table(theta)
    t = np.empty(z.size)
    for start in range(0, z.size, BLOCK):
        part = slice(start, start + BLOCK)
        # values beyond the range, and missing ones, get the nearest end
        place = np.fmin(np.fmax((z[part] - first) * scale, 0.0), CELLS)
        cell = np.minimum(place.astype(np.intp), CELLS - 1)
        local = 2.0 * (place - cell) - 1.0
        value = coefficients[-1][cell]
        for row in coefficients[-2::-1]:
            value *= local
            value += row[cell]
        t[part] = np.clip(value, 0.0, 1.0, out=value)
        if not good.all() and (hard := np.flatnonzero(~good[cell])).size:
            t[start + hard] = _by_newton(theta, z[start + hard])
    return t


def _table(theta: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the coefficients of the inverse, the constant first, in each cell (a column), and which cells are good."""
    places = np.concatenate([_NODES, _CHECKS])
    width = (theta[-1] - theta[0]) / CELLS
    z = theta[0] + width * (np.arange(CELLS)[:, None] + 0.5 * (1.0 + places))
    t = _by_newton(theta, z.ravel()).reshape(z.shape).T
    nodes, checks = t[: _NODES.size], t[_NODES.size :]
    coefficients = np.linalg.solve(np.vander(_NODES, increasing=True), nodes)
    error = np.abs(np.vander(_CHECKS, _NODES.size, increasing=True) @ coefficients - checks).max(axis=0)
    return coefficients, error <= TABLE_ERROR
