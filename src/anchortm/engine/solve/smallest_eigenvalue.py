"""The smallest eigenvalue of a large positive definite matrix that can be solved with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

__all__ = ["smallest_eigenvalue"]

Array = NDArray[np.float64]

MOST_STEPS, CHECKED_EVERY = 100, 5
TOLERANCE = 1e-4  # largest relative residual; the error of the eigenvalue is about its square


def smallest_eigenvalue(size: int, solve: Callable[[Array], Array]) -> float | None:
    """Return the smallest eigenvalue, by Lanczos steps with the inverse; None if they do not converge.

    ``solve`` multiplies with the inverse.
    """
    Q = np.empty((MOST_STEPS + 1, size))
    diagonal, beside = np.zeros(MOST_STEPS), np.zeros(MOST_STEPS)
    Q[0] = np.random.default_rng(0).normal(size=size)
    Q[0] /= np.linalg.norm(Q[0])
    for j in range(MOST_STEPS):
        z = solve(Q[j])
        diagonal[j] = z @ Q[j]
        for _ in range(2):  # the second time removes rounding errors
            z = z - Q[: j + 1].T @ (Q[: j + 1] @ z)
        beside[j] = np.linalg.norm(z)
        Q[j + 1] = z / beside[j]
        if j % CHECKED_EVERY == CHECKED_EVERY - 1:
            values, vectors = eigh_tridiagonal(diagonal[: j + 1], beside[:j])
            if beside[j] * abs(vectors[-1, -1]) <= TOLERANCE * values[-1]:
                return float(1.0 / values[-1])
    return None
