"""Groups of corners: the strata, the levels of a factor, or the two ends of a number's range."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._typing import Array
from anchortm.exceptions import AnchorTMWarning, InputError

__all__ = ["Group"]


@dataclass(frozen=True)
class Group:
    """The strata, the levels of a factor (the reference first), or a number within its range."""

    kind: Literal["strata", "factor", "number"]
    names: tuple[str, ...]  # its columns
    labels: tuple[Any, ...] = ()  # the strata
    low: float = 0.0
    high: float = 1.0

    @property
    def size(self) -> int:
        """Return the number of corners."""
        return len(self.labels) if self.kind == "strata" else len(self.names) + 1

    @property
    def corner_names(self) -> tuple[str, ...]:
        """Return the names of strata, or of the columns that vary."""
        return tuple(f"stratum {label}" for label in self.labels) if self.kind == "strata" else self.names

    def without(self, names: Collection[str]) -> Group:
        """Return the group without these strata or columns."""
        if self.kind == "strata":
            labels = zip(self.labels, self.corner_names, strict=True)
            return replace(self, labels=tuple(label for label, name in labels if name not in names))
        return replace(self, names=tuple(name for name in self.names if name not in names))

    def odd(self, columns: Array) -> NDArray[np.bool_]:
        """Return which rows of columns are not dummies of one factor; numbers are never odd."""
        if self.kind != "factor":
            return np.zeros(len(columns), dtype=bool)
        return np.asarray(((columns != 0.0) & (columns != 1.0)).any(axis=1) | (columns.sum(axis=1) > 1.0))

    def weights(self, columns: NDArray[Any]) -> Array:
        """Return the weights of the corners for each row."""
        if self.kind == "strata":
            return np.asarray(columns[:, [0]] == np.arange(self.size), dtype=np.float64)
        if self.kind == "factor":
            odd = np.flatnonzero(self.odd(columns))
            if odd.size and len(self.names) == 1:
                raise InputError(
                    f"{self.names[0]} has a varying effect and was 0 or 1 in the fit: it cannot be "
                    f"{columns[odd[0], 0]:g}, as at row {odd[0]}"
                )
            if odd.size:
                raise InputError(
                    f"{', '.join(self.names)} vary together, but are not dummies of one factor at row {odd[0]}: "
                    "list columns of numbers one by one"
                )
            return np.hstack([1.0 - columns.sum(axis=1, keepdims=True), columns])
        share = (columns[:, :1] - self.low) / (self.high - self.low)
        outside = int(((share < 0.0) | (share > 1.0)).sum())
        if outside:
            warn(
                f"{self.names[0]} leaves its range {self.low:g} to {self.high:g} in {outside} rows: its varying effect "
                "there is that at the nearer end of the range",
                AnchorTMWarning,
            )
        share = np.clip(share, 0.0, 1.0)
        return np.hstack([1.0 - share, share])
