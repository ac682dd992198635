"""The generalised covariance measure of residuals and environments.

With score residuals r and residuals xi of the environments, given the same covariates,

    L_i = r_i xi_i,   T = n Lbar' Sigma^-1 Lbar,   Sigma = (1/n) sum L_i L_i' - Lbar Lbar'

is about chi-square with the rank of Sigma as degrees of freedom if r and the environments are unrelated given the
covariates (Kook et al., 2024). Weights replicate rows. T does not change if xi is multiplied by a regular matrix, so
that neither units nor the coding of a factor matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from anchortm.exceptions import InputError

__all__ = ["Measure", "generalised_covariance"]

Array = NDArray[np.float64]

EXPLAINED = 1e-8  # a residual smaller than this, relative to its column, is rounding
DEPENDENT = 1e-10  # a column with less than this beside the others depends on them


class Measure(NamedTuple):
    """The statistic, its degrees of freedom, and which columns it uses: the others depend on them."""

    statistic: float
    df: int
    used: NDArray[np.bool_]


def generalised_covariance(r: Array, xi: Array, size: Array, weights: Array | None = None) -> Measure:
    """Return the measure of residuals r (n) and environments' residuals xi (n x d).

    ``size`` is the deviation of each environment column before it was regressed on the covariates. A column that they
    explain, or that depends on other columns, is left out, and the degrees of freedom fall by one. (A generalised
    inverse would decide by rounding errors.)
    """
    w = np.ones(r.size) if weights is None else weights
    n = float(w.sum())
    left = np.sqrt(w @ xi**2 / n)
    used = left > EXPLAINED * size
    if not used.any():
        raise InputError(
            "the covariates determine the environment, so nothing is left to test: leave out covariates that are "
            "functions of the environment"
        )
    own = np.flatnonzero(used)
    L = r[:, None] * (xi[:, own] / left[own])
    mean = w @ L / n
    R, order = la.qr(np.sqrt(w)[:, None] * (L - mean), mode="r", pivoting=True)[:2]
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > DEPENDENT * max(diagonal[0], 1e-300)).sum())
    if rank == 0 or rank >= r.size - 1:
        raise InputError(
            f"{r.size} rows do not estimate the variance of {own.size} environment columns: merge environments"
        )
    used[own[order[rank:]]] = False
    # R'R = n Sigma, so that T = n^2 |R'^-1 Lbar|^2
    z = la.solve_triangular(R[:rank, :rank], mean[order[:rank]], trans="T")
    return Measure(n**2 * float(z @ z), rank, used)
