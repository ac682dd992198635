"""A batch of rows as checked columns: outcome, covariates, anchors, weights and offset."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.checks import check_weights, finite_numbers
from anchortm.engine.rows.anchor_sums import AnchorFrame
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns, anchor_columns
from anchortm.inputs.design import to_design
from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Response, Scale, as_response

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AnchorCoding", "Batch", "Reader", "located"]


@contextmanager
def located(start: int) -> Iterator[None]:
    """Add to errors the row of the table at which the batch begins, since they count rows of the batch."""
    try:
        yield
    except InputError as error:
        if start == 0:
            raise
        raise type(error)(f"{error} (rows counted from row {start} of the table)") from None


@dataclass(frozen=True, eq=False)
class AnchorCoding:
    """The levels of the anchors in all rows, and the units of their numeric columns."""

    frame: AnchorFrame
    levels: tuple[NDArray[Any], ...]
    units: Array
    float_codes: tuple[str, ...]

    @cached_property
    def _places(self) -> list[Any]:
        import pandas as pd

        return [pd.Index(levels) for levels in self.levels]

    def encode(self, found: AnchorColumns) -> AnchorColumns:
        """Return the anchors of a batch with the codes of all rows."""
        factors = tuple(
            place.get_indexer(levels)[codes].astype(np.intp)
            for place, levels, codes in zip(self._places, found.levels, found.factors, strict=True)
        )
        return AnchorColumns(factors, self.levels, found.columns / self.units, found.factor_names, found.column_names)


@dataclass(frozen=True, eq=False)
class Batch:
    """Checked columns of some rows."""

    response: Response
    X: Array
    anchors: AnchorColumns | None
    weights: Array | None
    offset: Array | None

    def take(self, rows: NDArray[np.intp]) -> Batch:
        """Return some of the rows."""
        return Batch(
            self.response[rows],
            self.X[rows],
            None if self.anchors is None else self.anchors.take(rows),
            None if self.weights is None else self.weights[rows],
            None if self.offset is None else self.offset[rows],
        )


@dataclass(frozen=True, eq=False)
class Reader:
    """How rows of a table are read; ``levels`` (of classes) and ``anchors`` are known after the first pass."""

    formula: Formula
    names: tuple[str, ...]
    scale: Scale
    weight: str | None = None
    offset: str | None = None
    levels: tuple[Hashable, ...] | None = None
    anchors: AnchorCoding | None = None

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        extra = [name for name in (self.weight, self.offset) if name is not None]
        return list(dict.fromkeys([*self.formula.needed(self.names), *extra]))

    def weighted(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Array | None]:
        """Return the rows that have weight, and their weights."""
        if self.weight is None:
            return frame, None
        weights = check_weights(self.formula.new_column(frame, self.weight), len(frame), zeros=True)
        if weights is None or weights.all():
            return frame, weights
        return frame[weights > 0.0].reset_index(drop=True), weights[weights > 0.0]

    def read(self, frame: pd.DataFrame, start: int) -> Batch | None:
        """Return the columns of a batch without its rows of weight zero, None if no row is left."""
        with located(start):
            frame, weights = self.weighted(frame)
            if frame.empty:
                return None
            offset = None
            if self.offset is not None:
                offset = finite_numbers(self.formula.new_column(frame, self.offset), len(frame), "offset")
            response = as_response(self.formula.outcome(frame), self.scale, self.levels)
            X = np.asarray(to_design(self.formula.design(frame), len(frame)).matrix)
            anchors = None
            if self.anchors is not None:
                found = anchor_columns(self.formula.anchor_frame(frame), in_units=False)
                anchors = self.anchors.encode(found)
            return Batch(response, X, anchors, weights, offset)

    def recoded(self, batch: Batch) -> Batch:
        """Return rows that a reader of more rows has read, with the classes and the anchor levels of this one."""
        response, anchors = batch.response, batch.anchors
        if response.levels != self.levels:
            response = as_response(response, self.scale, self.levels)
        if anchors is not None:
            anchors = None if self.anchors is None else self.anchors.encode(anchors)
        return replace(batch, response=response, anchors=anchors)
