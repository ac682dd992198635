"""A quadratic pull towards a centre, for any objective.

    L(v) + (v - centre)'Q(v - centre) / 2

Boosting uses it as a ridge on the values of leaves; a normal prior on the parameters has the same form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.protocol import Derivatives, Objective, Point, Sums
from anchortm.engine.objective.wrapped import Wrapped

__all__ = ["Pulled"]

Array = NDArray[np.float64]


class Pulled(Wrapped):
    """An objective with a quadratic pull; in ``sums`` the pull is subtracted from the log-likelihood.

    Parameters
    ----------
    inner : Objective
        The loss without the pull.
    centre, Q : arrays
        Where the pull leads, and its curvature, in internal parameters and on the scale of the loss (a mean over rows).
    places : array of int, optional
        Which elements of the centre are parameters of ``inner``, if some are left out and stay at 0.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.engine.objective.build import build_objective
    >>> from anchortm.engine.solve.newton import Options, minimise
    >>> from anchortm.bases import LinearBasis
    >>> from anchortm.inputs.response import as_response
    >>> from anchortm.links import get_link
    >>> y = np.array([0.2, 1.1, 1.9, 3.2])
    >>> inner = build_objective(get_link("probit"), LinearBasis(), as_response(y), np.arange(4.0)[:, None] % 2)
    >>> centre = np.array([0.5, 1.0, 0.0])
    >>> near = minimise(Pulled(inner, centre, 1e6 * np.eye(3)), centre, 0.0, Options())
    >>> bool(np.abs(near.v - centre).max() < 1e-5)
    True
    """

    def __init__(self, inner: Objective, centre: Array, Q: Array, places: NDArray[np.intp] | None = None) -> None:
        super().__init__(inner)
        if inner.kinked:
            raise ValueError("the loss has an l1 penalty: put the pull inside the elastic net, not around it")
        self.centre, self.Q, self.places = centre, Q, places
        self._sum = inner.n_total * Q
        self._own = slice(None) if places is None else places

    def around(self, inner: Objective) -> Pulled:
        return Pulled(inner, self.centre, self.Q, self.places)

    def _away(self, v: Array) -> Array:
        """Return the distance from the centre, of the parameters that are left out too."""
        if self.places is None:
            return v - self.centre
        away = -self.centre
        away[self.places] += v
        return away

    def amount(self, v: Array) -> float:
        """Return n times the pull at v."""
        away = self._away(v)
        return 0.5 * float(away @ self._sum @ away)

    def loglik(self, v: Array, sums: Sums) -> float:
        return self.inner.loglik(v, Sums(sums.loglik + self.amount(v), sums.t))

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        loglik, t = self.inner.sums(v, expected)
        return Sums(loglik - self.amount(v), t)

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        gradient, hessian, E = self.inner.derivatives(v, multiplier)
        pull, curvature = self._sum @ self._away(v), self._sum[self._own][:, self._own]
        return Derivatives(gradient + pull[self._own], hessian + curvature, E)

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        return self.inner.gradient(v, multiplier) + (self._sum @ self._away(v))[self._own]

    def restricted(self, columns: NDArray[np.intp]) -> Pulled:
        at = self.coordinates.places(columns)
        places = at if self.places is None else self.places[at]
        return Pulled(self.inner.restricted(columns), self.centre, self.Q, places)

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Any:
        # the loss is a mean over rows, so every row has an equal share of the pull
        work = self.inner.influence(v, pull, bread, K)
        every = (self.Q @ self._away(v))[self._own] @ bread
        return replace(work, every=every if work.every is None else work.every + every)

    def check_maximum(self, point: Point | None = None) -> None:
        if np.linalg.eigvalsh(self.Q[self._own][:, self._own])[0] <= 0.0:  # else the pull keeps every parameter finite
            self.inner.check_maximum(point)
