"""A model at sites that share anchors: t and E are totals in their common span, and sites are sent the multiplier.

The curvature of the residuals along the multiplier 2 xi t needs t of all sites. It is predicted from the step before,
as for rows that are read in batches, and the question is repeated only if the prediction is off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.plain import NEAR
from anchortm.federated.objective import KEPT, RemoteLoss
from anchortm.federated.sums import PointSums, n_shared, symmetric

__all__ = ["SharedLoss"]

Array = NDArray[np.float64]


class SharedLoss(RemoteLoss):
    """A model at sites that share anchors of this rank."""

    def __init__(self, ask: Callable[..., Any], d: int, rank: int) -> None:
        super().__init__(ask, d)
        self.rank = rank
        self._bent: dict[bytes, tuple[Array, float]] = {}  # multipliers, and the relative errors that they may have
        self._last: Array | None = None

    @property
    def n_t(self) -> int:
        return self.rank

    def at(self, v: Array, expected: Array | None = None) -> PointSums | None:
        if v.tobytes() not in self._known:
            none = expected is None or expected.size != self.rank
            self._learn_shared([v], np.zeros(self.rank) if none or expected is None else expected)
        return self._known[v.tobytes()]

    def learn(self, points: Sequence[Array]) -> None:
        new = list({v.tobytes(): v for v in points if v.tobytes() not in self._known}.values())
        if new:
            self._learn_shared(new, np.zeros(self.rank))

    def bent(self, v: Array, multiplier: Array | None, mix: Sequence[float]) -> tuple[PointSums, Array] | None:
        wanted = np.zeros(self.rank) if multiplier is None else multiplier
        found = self.at(v, wanted)
        if found is None:
            return None
        known, near = self._bent[v.tobytes()]
        if np.linalg.norm(known - wanted) > near * np.linalg.norm(wanted):
            self._learn_shared([v], wanted)
            found = self._known[v.tobytes()]
        return None if found is None else (found, found.hessian)

    def _learn_shared(self, points: list[Array], multiplier: Array) -> None:
        """Ask about points with a multiplier, in one round."""
        size = n_shared(self.d, self.rank)
        beside = {"multipliers": np.tile(multiplier, (len(points), 1))}
        reply = self.ask("shared", {}, np.array(points), size, None, beside)
        totals = reply.total.reshape(len(points), size)
        for k, v in enumerate(points):
            bad = {name: own["statuses"][k] for name, own in reply.fields.items() if own["statuses"][k] != "ok"}
            self.refused |= bad
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            # with an error as small as the step before, Newton's method still squares its error from step to step
            step = NEAR if self._last is None else min(NEAR, float(np.abs(v - self._last).max(initial=0.0)))
            self._known[v.tobytes()] = None if bad else PointSums.shared(totals[k], self.d, self.rank)
            self._bent[v.tobytes()] = multiplier, step
        self._last = points[-1]

    def influence(self, v: Array, strengths: Sequence[float]) -> Array:
        found = self.at(v)
        assert found is not None  # noqa: S101 - the fit ended there
        size = self.d * (self.d + 1) // 2
        beside = {"t": found.coordinates(), "E": found.slopes()}
        total = self.ask("shared_influence", {"xi": strengths[0]}, v[None, :], size, None, beside).total
        return symmetric(total, self.d)

    def steep(self, v: Array, xi: float) -> bool:
        found = self.at(v)
        assert found is not None  # noqa: S101
        beside = {"t": found.coordinates()}
        return bool(self.ask("shared_steep", {"xi": xi}, v[None, :], 1, None, beside).total[0] > 0.5)
