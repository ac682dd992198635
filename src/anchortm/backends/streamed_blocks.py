"""The rows of a table as blocks: what is sent to each batch, and sums over all batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm.backends.level_weights import LevelWeights
from anchortm.backends.lockstep import Made
from anchortm.backends.reading import Batch, Reader, located
from anchortm.bases import Basis
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.rows.blocks import Block, Blocks, MemoryBlocks, Total, Work, add, run
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.projections import GroupProjection, Projection
from anchortm.engine.rows.standardised import BLOCK_ROWS, Rows
from anchortm.exceptions import rows_of
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.links import Link

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.backends.streamed import Stream

__all__ = ["Columns", "Plan", "StreamedBlocks"]

Array = NDArray[np.float64]
T = TypeVar("T")

MOST_ENTRIES = 20_000_000  # entries of standardised columns that are made at once


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is needed to turn a batch of rows into blocks; it is sent to where the rows are."""

    reader: Reader
    link: Link
    basis: Basis
    sign: float
    coordinates: Coordinates
    geometry: Projection | None
    columns: Columns | None = None
    levels: LevelWeights = field(default_factory=LevelWeights)

    def restricted(self, columns: NDArray[np.intp]) -> Plan:
        """Return the plan for some of the covariates."""
        made = Columns(columns, np.ones(columns.size)) if self.columns is None else self.columns.take(columns)
        return replace(self, coordinates=self.coordinates.restricted(columns), columns=made)

    def blocks(self, made: Made) -> Iterator[Block]:
        """Yield the blocks of a batch; with many columns few rows are made at a time."""
        batch, wide = made.batch, self.coordinates.wide
        if batch is None:
            return
        columns, n = self.coordinates.scale.size if wide is None else wide.rest.size, len(batch.response)
        size = max(BLOCK_ROWS, MOST_ENTRIES // columns)
        if n <= size:
            yield from made.by(self.objective).memory.blocks
            return
        for start in range(0, n, size):
            rows = np.arange(start, min(start + size, n))
            with rows_of(rows.tolist()):
                part = self.objective(batch.take(rows))
            yield from part.memory.blocks

    def objective(self, batch: Batch) -> RowObjective:
        """Return the share of a batch in the objective of all rows."""
        return build_objective(
            self.link,
            self.basis,
            batch.response,
            batch.X if self.columns is None else self.columns.of(batch.X),
            batch.anchors,
            self.levels.weights(batch),
            batch.offset,
            self.sign,
            self.reader.anchors is None or self.reader.anchors.frame.intercept,
            coordinates=self.coordinates,
            geometry=self.geometry,
            mixture=batch.mixture,
            reweighing=self.levels.reweighing(batch),
        )


class Columns(NamedTuple):
    """Columns of the design by their places, some perhaps twice, each times a number."""

    at: NDArray[np.intp]
    factor: Array

    def of(self, X: Matrix) -> Array:
        """Return these columns."""
        assert not isinstance(X, WideMatrix)  # noqa: S101 - refused by the table of parts
        return X[:, self.at] * self.factor

    def take(self, own: NDArray[np.intp]) -> Columns:
        """Return some of these columns."""
        return Columns(self.at[own], self.factor[own])


@dataclass(frozen=True, eq=False)
class _Sum:
    """The sums over one batch."""

    plan: Plan
    work: Work

    def __call__(self, frame: pd.DataFrame, start: int) -> Total:
        batch = self.plan.reader.read(frame, start)
        with located(start):
            return self.on(Made(batch))

    def on(self, made: Made) -> Total:
        return run(self.plan.blocks(made), self.work)


@dataclass(frozen=True, eq=False)
class _Weights:
    """A'W1 of one batch."""

    plan: Plan

    def __call__(self, frame: pd.DataFrame, start: int) -> Array:
        return self.on(Made(self.plan.reader.read(frame, start)))

    def on(self, made: Made) -> Array:
        geometry = self.plan.geometry
        assert geometry is not None  # noqa: S101
        if made.batch is None:
            return np.zeros(geometry.n_sums)
        objective = made.by(self.plan.objective)
        assert objective.anchors is not None  # noqa: S101
        return objective.memory.weight_sums(objective.anchors)


@dataclass(frozen=True, eq=False)
class _Largest:
    """The largest |A @ coefficients| in one batch."""

    plan: Plan
    coefficients: Array

    def __call__(self, frame: pd.DataFrame, start: int) -> float:
        return self.on(Made(self.plan.reader.read(frame, start)))

    def on(self, made: Made) -> float:
        batch = made.batch
        if batch is None or batch.anchors is None or self.plan.geometry is None:
            return 0.0
        order = batch.anchors.order()
        anchors = self.plan.geometry.on(batch.anchors if order is None else batch.anchors.take(order))
        return float(np.abs(anchors.part(slice(None)).spread(self.coefficients)).max())


@dataclass(frozen=True, eq=False)
class _Find:
    """The result of a function of the rows of one batch."""

    plan: Plan
    find: Callable[[list[Rows]], Any]

    def __call__(self, frame: pd.DataFrame, start: int) -> Any:
        return self.on(Made(self.plan.reader.read(frame, start)))

    def on(self, made: Made) -> Any:
        return None if made.batch is None else self.find(made.by(self.plan.objective).terms)


def _either(a: Any, b: Any) -> Any:
    return (a if b is None else b) if a is None or b is None else a + b


def _add(a: Total, b: Total) -> Total:
    return add([a, b])


class StreamedBlocks(Blocks):
    """Rows of a source, read again for each sum."""

    costly = True

    def __init__(self, stream: Stream, plan: Plan) -> None:
        self.lane, self.plan, self._stream = stream.lane, plan, stream
        self.n_rows, self.n_total = stream.scan.n_rows, stream.scan.n_total
        self.kinds = stream.scan.row_kinds(stream.reader.levels)
        self.sample_rows = len(stream.sample.response)
        self._note = ""

    def total(self, work: Work) -> Total:
        found: Total = self.lane.map(_Sum(self.plan, work), _add, f"{work.label}{self._note}")
        return found

    def _sample(self) -> RowObjective:
        """Return the loss of the sample; it is made when it is asked for, since there may be hundreds of fits."""
        return replace(self.plan, geometry=None).objective(self._stream.sample)

    def one_slope(self) -> Array | None:
        return None if self.plan.reader.corners is not None else self._sample().memory.one_slope()

    def sample(self, size: int, anchors: Projection | None) -> tuple[MemoryBlocks, Projection | None]:
        return self.whole_rows(anchors)

    def whole_rows(self, anchors: Projection | None) -> tuple[MemoryBlocks, Projection | None]:
        sample = self._sample()
        return sample.memory, sample.anchors

    def restricted(self, columns: NDArray[np.intp], n_baseline: int, anchors: Projection | None) -> StreamedBlocks:
        result = copy(self)
        result.plan = self.plan.restricted(columns)
        return result

    @property
    def at_hand(self) -> list[Rows]:
        return self._sample().terms

    def elsewhere(self, find: Callable[[list[Rows]], T | None]) -> T | None:
        found: T | None = self.lane.map(_Find(self.plan, find), _either, "is the likelihood bounded?")
        return found

    def weight_sums(self, anchors: Projection) -> Array:
        found: Array = self.lane.map(_Weights(self.plan), np.add, "weights of the anchors")
        return found

    def largest_spread(self, anchors: Projection, coefficients: Array) -> float:
        if isinstance(anchors, GroupProjection):
            return float(np.abs(coefficients).max())
        return float(self.lane.map(_Largest(self.plan, coefficients), max, "largest projected residual"))

    def tell(self, loss: float) -> None:
        self._note = f", loss {loss:.8g}"
