"""A loss of one's own in one file: regression under the hyperbolic secant density, f(e) = sech(e) / pi.

With e = y - x'beta, the log-likelihood of a row is -log(2 cosh(e)) up to a constant, and its residual is r = -tanh(e).
The class defines sums, derivatives, and how to leave coefficients out, which an elastic net needs. All else is default.
"""

import numpy as np

from anchortm.engine.objective.protocol import Derivatives, Objective, Sums
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.projections import Projection


class SecantObjective(Objective):
    link = None

    def __init__(self, X: np.ndarray, y: np.ndarray, anchors: Projection | None = None, lower: float = -np.inf) -> None:
        p, free = X.shape[1], np.full(X.shape[1], np.inf)
        self.X, self.y, self.anchors, self.lowest = X, y, anchors, lower
        self.coordinates = Coordinates(np.zeros((0, 0)), np.zeros(p), np.ones(p), np.full(p, lower), free)
        self.names = tuple(f"x{j}" for j in range(p))
        self.n_rows, self.n_total = y.size, float(y.size)
        self.part = None if anchors is None else anchors.part(slice(None))

    def _projected(self, values: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
        shape = () if columns is None else (self.X.shape[1],)
        if self.anchors is None:
            return np.zeros((0, *shape))
        sums = np.zeros((self.anchors.n_sums, *shape))
        self.part.add(sums, values, columns)
        return self.anchors.root(sums)

    def sums(self, v: np.ndarray, expected: np.ndarray | None = None) -> Sums:
        e = self.y - self.X @ v
        return Sums(-float(np.logaddexp(e, -e).sum()), self._projected(-np.tanh(e), None))

    def derivatives(self, v: np.ndarray, multiplier: np.ndarray | None = None) -> Derivatives:
        r = -np.tanh(self.y - self.X @ v)
        weights = dr = 1.0 - r**2
        if multiplier is not None and self.anchors is not None:
            weights = dr - 2.0 * r * dr * self.part.spread(self.anchors.coefficients(multiplier))
        return Derivatives(self.X.T @ r, (self.X * weights[:, None]).T @ self.X, self._projected(dr, self.X))

    def restricted(self, columns: np.ndarray) -> "SecantObjective":
        return SecantObjective(self.X[:, columns], self.y, self.anchors, self.lowest)
