"""Anchors that several sites share, such as the year: columns that all sites code alike, and their projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.anchor_sums import AnchorFrame, AnchorMoments
from anchortm.engine.rows.projections import Projection, projection_of
from anchortm.exceptions import InputError
from anchortm.federated.wire import WireError
from anchortm.inputs.anchors import AnchorColumns

__all__ = ["SharedAnchors", "root_of"]

Array = NDArray[np.float64]

SMALLEST = 1e-13  # of an eigenvalue relative to the largest: smaller ones are rounding errors


@dataclass(frozen=True, eq=False)
class SharedAnchors:
    """Dummies of factors, all but the first level, then numbers; with the constant they span the anchors."""

    factors: Mapping[str, list[Any]]
    numbers: tuple[str, ...]
    mean: Array
    unit: Array
    root: Array  # R'R is the Gram matrix of the constant and the columns in all rows

    @classmethod
    def of(cls, record: Mapping[str, Any], arrays: Mapping[str, Array]) -> SharedAnchors:
        """Return the anchors in a message, checked."""
        if set(record) < {"factors", "numbers"} or not _are_names(record):
            raise WireError("the shared anchors do not match their numbers")
        made = cls(
            {str(name): list(levels) for name, levels in record["factors"].items()},
            tuple(record["numbers"]),
            arrays["anchor_mean"],
            arrays["anchor_unit"],
            arrays["anchor_root"],
        )
        n, size = len(made.numbers), 1 + len(made.names)
        fine = made.mean.shape == made.unit.shape == (n,) and made.root.ndim == 2 and made.root.shape[1] == size
        if not (fine and (made.unit > 0.0).all() and all(made.factors.values())):
            raise WireError("the shared anchors do not match their numbers")
        return made

    def record(self) -> dict[str, Any]:
        """Return the names as plain values."""
        return {"factors": {name: list(levels) for name, levels in self.factors.items()}, "numbers": list(self.numbers)}

    def arrays(self) -> dict[str, Array]:
        """Return the numbers of a message."""
        return {"anchor_mean": self.mean, "anchor_unit": self.unit, "anchor_root": self.root}

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        dummies = [f"{name}[{level}]" for name, levels in self.factors.items() for level in levels[1:]]
        return [*dummies, *self.numbers]

    @cached_property
    def projection(self) -> Projection:
        """Return the projection, which has no rows yet."""
        q = len(self.names)
        frame = AnchorFrame(None, (), tuple(self.names), np.zeros(q), np.ones(q), True)
        return projection_of(frame, AnchorMoments(root=self.root))

    def coded(self, anchors: AnchorColumns) -> AnchorColumns:
        """Return the anchors of a site as columns."""
        parts = [np.zeros((len(anchors), 0))]
        for name, levels in self.factors.items():
            at = anchors.factor_names.index(name)
            known = {level: k for k, level in enumerate(levels)}
            own = [level.item() if hasattr(level, "item") else level for level in anchors.levels[at]]
            if any(level not in known for level in own):
                raise InputError(f"the anchor {name!r} has a level that the other sites do not know")
            codes = np.array([known[level] for level in own])[anchors.factors[at]]
            parts.append(np.eye(len(levels))[codes][:, 1:])
        numbers = [list(anchors.column_names).index(name) for name in self.numbers]
        parts.append((anchors.columns[:, numbers] - self.mean) / self.unit)
        return AnchorColumns((), (), np.hstack(parts), (), tuple(self.names))


def _are_names(record: Mapping[str, Any]) -> bool:
    """Return whether a record names factors with levels, and numbers."""
    factors, numbers = record["factors"], record["numbers"]
    plain = isinstance(factors, Mapping) and all(
        isinstance(levels, list) and all(isinstance(level, (str, int, float, bool)) for level in levels)
        for levels in factors.values()
    )
    return plain and isinstance(numbers, list) and all(isinstance(name, str) for name in numbers)


def root_of(gram: Array) -> Array:
    """Return R with R'R = gram, up to rounding."""
    values, vectors = np.linalg.eigh(gram)
    values = np.where(values > SMALLEST * values[-1], values, 0.0)
    return np.asarray(np.sqrt(values)[:, None] * vectors.T)
