"""Weights of environments for rows that are read in batches; the environments are the levels of one anchor."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchortm._typing import Array
from anchortm.backends.reading import Batch
from anchortm.engine.environment_weights import (
    ARGUMENTS,
    NO_ENVIRONMENTS,
    NOT_ONE_FACTOR,
    Places,
    Weighing,
    Weighting,
)
from anchortm.engine.rows.anchor_metric import AnchorMetric, Reweighing
from anchortm.engine.rows.projections import Projection
from anchortm.exceptions import InputError

__all__ = ["LevelWeighing", "LevelWeights"]


@dataclass(frozen=True, eq=False)
class LevelWeights:
    """Weights of environments, the levels of one anchor: factors u of the likelihood, shares of the penalty."""

    factors: Array | None = None
    shares: Array | None = None

    def weights(self, batch: Batch) -> Array | None:
        """Return the weights of a batch in the likelihood."""
        if self.factors is None or batch.anchors is None:
            return batch.weights
        own = self.factors[batch.anchors.factors[0]]
        return own if batch.weights is None else own * batch.weights

    def reweighing(self, batch: Batch) -> Reweighing | None:
        """Return what they change for the anchors of a batch that has no geometry of all rows."""
        if batch.anchors is None or (self.factors is None and self.shares is None):
            return None
        factor = None if self.factors is None else 1.0 / self.factors[batch.anchors.factors[0]]
        return Reweighing(factor, self.shares)

    def metric(self, geometry: Projection | None, total: Array) -> Projection | None:
        """Return the geometry of all rows, whose levels have these total weights."""
        if geometry is None or (self.factors is None and self.shares is None):
            return geometry
        by_level = None if self.factors is None else 1.0 / self.factors
        return AnchorMetric(geometry, total, Reweighing(None, self.shares), by_level=by_level)


@dataclass(frozen=True, eq=False)
class LevelWeighing(Weighing):
    """What weights of environments mean for a table."""

    data: Any  # a Stream

    def put(self, rules: Weighting | None) -> Any:
        """Return the table with these rules."""
        result = copy(self.data)
        result.weighting = rules
        vars(result).pop("_geometry", None)
        vars(result).pop("_latest_plan", None)
        return result

    def places(self, name: str) -> Places | None:
        """Return the environments whose weights a rule gives, without rows; None if each row counts alike."""
        anchors = self.data.anchors
        if self.rules is None or not self.rules.asks(name) or (anchors is None and name == "anchor_weights"):
            return None
        if anchors is None or len(anchors.levels) != 1 or anchors.frame.column_names:
            raise InputError(NOT_ONE_FACTOR if name == "anchor_weights" else NO_ENVIRONMENTS)
        return Places(np.zeros(0, dtype=np.intp), tuple(anchors.levels[0].tolist()))

    def totals(self, places: Places) -> Array:
        """Return the total weight of the rows of each environment."""
        total: Array = self.data.second.anchors.total
        return total

    @property
    def levels(self) -> LevelWeights:
        """Return the weights of environments in likelihood and penalty."""
        places, levels = map(self.places, ARGUMENTS)
        if self.rules is None:
            return LevelWeights()
        return LevelWeights(
            None if places is None else self.rules.factors(places.labels, self.totals(places)),
            None if levels is None else self.rules.shares("anchor_weights", levels.labels, self.totals(levels)),
        )
