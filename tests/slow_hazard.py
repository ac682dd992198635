"""Cumulative hazards of a partial likelihood and their bands by the definition, written without the library."""

import numpy as np
from scipy import stats
from slow_loss import TINY, Stated


def log_hazard(stated: Stated, w: np.ndarray, row: int, y: float, weights: np.ndarray | None = None) -> complex:
    """Return log Lambda(y | x) for the covariates, offset and stratum of a row, by sums over all rows at risk."""
    weights = stated.weights if weights is None else weights
    eta = stated.X @ w + stated.offset
    codes = np.zeros(eta.size, dtype=int) if stated.stratum is None else stated.stratum
    total = 0.0
    for events, at_risk in stated._risk:
        d, first = int(events.sum()), int(np.flatnonzero(events)[0])
        if stated.lower[first] <= y and codes[first] == codes[row]:
            for step in np.arange(d) / d if stated.ties == "efron" else np.zeros(d):
                total = total + weights[events].mean() / ((at_risk - step * events) @ (weights * np.exp(eta)))
    return np.log(total) + eta[row]


def hazard_band(
    stated: Stated, w: np.ndarray, rows: list[int], at: list[float], level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return P(Y <= y) of some rows with limits on the scale of log Lambda, by the influences of all rows."""
    influence = -np.linalg.solve(stated.n * stated.hessian(w), stated.weight_scores(w).T).T
    h, error = np.empty((2, len(rows), len(at)))
    for i, j in np.ndindex(h.shape):
        here = rows[i], at[j]
        slope = [log_hazard(stated, w + 1j * TINY * e, *here).imag / TINY for e in np.eye(w.size)]
        moved = (stated.weights + 1j * TINY * e for e in np.eye(stated.lower.size))
        shares = np.array([log_hazard(stated, w, *here, weights).imag / TINY for weights in moved])
        shares += influence @ np.array(slope)
        h[i, j], error[i, j] = log_hazard(stated, w, *here), np.sqrt(stated.weights @ shares**2)
    width = stats.norm.ppf(0.5 + 0.5 * level) * error * np.sqrt(stated.n / (stated.n - 1.0))
    estimate, lower, upper = (-np.expm1(-np.exp(end)) for end in (h, h - width, h + width))
    return estimate, lower, upper
