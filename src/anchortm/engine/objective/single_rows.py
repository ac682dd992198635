"""What an objective says about single rows, which must be in memory, and the same rows with other offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.anchored import AnchoredObjective
from anchortm.engine.rows.block_sums import evaluate_rows
from anchortm.engine.rows.blocks import MemoryBlocks
from anchortm.engine.rows.standardised import Rows
from anchortm.links import RowValues

__all__ = ["SingleRows"]

Array = NDArray[np.float64]


class SingleRows(AnchoredObjective):
    """The part of a sum over rows that answers for each row."""

    _values: tuple[Array, list[RowValues]] | None = None

    @property
    @abstractmethod
    def memory(self) -> MemoryBlocks:
        """Return the blocks of rows in memory."""

    def values(self, v: Array) -> list[RowValues]:
        """Return the link's quantities at v for the rows of each term; those of the latest v are kept."""
        if self._values is None or not np.array_equal(self._values[0], v):
            self._values = v.copy(), list(self._evaluated(v))
        return self._values[1]

    def _evaluated(self, v: Array) -> Iterator[RowValues]:
        w, k = self.coordinates.unfold(v), self.coordinates.n_baseline
        return (evaluate_rows(self.link, term, w, k)[0] for term in self.memory.terms)

    def of_rows(self, parts: Sequence[Array]) -> Array:
        """Return numbers of rows from those of each term; a row can have two terms: its outcome, and a late entry."""
        terms = self.memory.terms
        if len(parts) == 1:
            return terms[0].sign * parts[0]
        total = np.zeros(self.n_rows)
        for term, part in zip(terms, parts, strict=True):
            total[term.rows] += term.sign * part
        return total

    def residuals(self, v: Array) -> Array:
        return self.of_rows([t.r for t in self._evaluated(v)])

    def residual_slopes(self, v: Array) -> Array:
        return self.of_rows([t.dr for t in self._evaluated(v)])

    def shifted(self, added: Array) -> Self:
        """Return the loss of the same rows with this added to their offsets, and so to h."""

        def change(rows: Rows) -> Rows:
            own = added[rows.rows]
            return replace(rows, offset=own if rows.offset is None else rows.offset + own)

        made: Any = type(self)
        return made(self.link, self.coordinates, self.anchors, self.memory.changed(change), self.names)  # type: ignore[no-any-return]
