"""A batch of rows as checked columns: outcome, covariates, anchors, weights and offset."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.checks import check_weights, finite_numbers
from anchortm._util.frames import refuse_missing, select
from anchortm.engine.data import Strata
from anchortm.engine.rows.anchor_sums import AnchorFrame
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns, anchor_columns
from anchortm.inputs.baselines import Corners, Mixture, stratum_codes, stratum_sets
from anchortm.inputs.design import Matrix, WideMatrix, columns_of, split_columns, to_design
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.evaluation import label_columns
from anchortm.inputs.missing import LARGEST_WHOLE, Counts
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


def _with_integers(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the rows with these columns as integers; refuse those that floats do not hold exactly."""
    large = [name for name in names if (frame[name].abs() > LARGEST_WHOLE).any()]
    if large:
        raise InputError(
            f"column {large[0]!r} has gaps and whole numbers beyond 2**53, which cannot be read exactly next to gaps: "
            "store it as text, or without the rows that have gaps"
        )
    return frame.astype(dict.fromkeys(names, np.int64))


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
    X: Matrix
    anchors: AnchorColumns | None
    weights: Array | None
    offset: Array | None
    strata: Strata | None = None
    mixture: Mixture | None = None

    def take(self, rows: NDArray[np.intp]) -> Batch:
        """Return some of the rows."""
        return Batch(
            self.response[rows],
            self.X[rows],
            None if self.anchors is None else self.anchors.take(rows),
            None if self.weights is None else self.weights[rows],
            None if self.offset is None else self.offset[rows],
            None if self.strata is None else self.strata.take(rows),
            None if self.mixture is None else self.mixture.take(rows),
        )

    def structured(self, corners: Corners, taken: Sequence[int]) -> Batch:
        """Return the batch with the weights of its rows on corners; X loses the columns with varying effects."""
        codes = None if self.strata is None else self.strata.codes
        weights = corners.weights(codes, columns_of(self.X, taken))
        return replace(self.without(taken, ()), mixture=Mixture(corners, weights))

    def without(self, places: Sequence[int], names: Sequence[str]) -> Batch:
        """Return the batch without these covariates, by their places, and strata and varying effects, by name."""
        X, mixture = self.X, self.mixture
        rest = X.without(places) if isinstance(X, WideMatrix) else np.delete(X, list(places), axis=1)
        return replace(self, X=rest, mixture=None if mixture is None else mixture.without(names))

    def beside(self) -> tuple[Array, Array]:
        """Return the columns that tell corners apart, without those of references, and the sums of all weights.

        Before there are corners, strata are meant.
        """
        if self.mixture is not None:
            return self.mixture.levels, self.mixture.weights.sum(axis=0)
        if self.strata is None:
            return np.zeros((len(self.response), 0)), np.zeros(0)
        dummies = np.eye(len(self.strata.labels))[self.strata.codes]
        return dummies[:, 1:], dummies.sum(axis=0)


@dataclass(frozen=True, eq=False)
class Reader:
    """How rows of a table are read.

    ``levels`` (of classes), ``anchors`` and ``strata`` are known after the first pass, ``corners`` (of strata and
    varying effects) with the covariates that they take up after the second.
    """

    formula: Formula
    names: tuple[str, ...]
    scale: Scale
    weight: str | None = None
    offset: str | None = None
    levels: tuple[Hashable, ...] | None = None
    anchors: AnchorCoding | None = None
    strata: tuple[Any, ...] | None = None
    corners: Corners | None = None
    taken: tuple[int, ...] = ()
    missing: str = "error"  # or "drop"
    beside: tuple[str, ...] = ()  # more columns whose missing values count, such as that of the environments
    dense: bool = False  # whether the levels of wide factors are filled in as columns of numbers
    gone: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())  # covariates and corners that a part has lost
    integers: tuple[str, ...] = ()  # columns of integers with gaps, which pandas reads as floats
    bare: bool = False  # whether rows lose their covariates, strata and anchors

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        extra = [name for name in (self.weight, self.offset, *self.beside) if name is not None]
        return list(dict.fromkeys([*self.formula.needed(self.names), *extra]))

    @property
    def labels(self) -> list[str]:
        """Return the columns in which whole numbers are names: anchors, strata, factors, classes, environments."""
        classes = self.formula.outcome_columns(self.names) if self.scale == "ordinal" else []
        return list(dict.fromkeys([*label_columns(self.formula), *classes, *self.beside]))

    def lost(self, frame: pd.DataFrame) -> tuple[Counts, NDArray[np.bool_]]:
        """Return how many rows of a batch have missing values, and which rows are whole."""
        words = self.formula.roles(self.names)
        named = (("sample_weight", self.weight), ("offset", self.offset), *(("environments", x) for x in self.beside))
        words = {name: word for word, name in named if name is not None} | words
        return Counts.of(
            len(frame), ((f"{words[name]} {name!r}", frame[name]) for name in self.columns if name in frame)
        )

    def dropped(self, frame: pd.DataFrame) -> Counts:
        """Return how many rows of a batch are dropped because of missing values."""
        return self.lost(frame)[0] if self.missing == "drop" else Counts()

    def weighted(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Array | None]:
        """Return the rows that are used, those with weight and without missing values, and their weights."""
        if self.missing == "drop":
            whole = self.lost(frame)[1]
            frame = frame if whole.all() else frame[whole].reset_index(drop=True)
            floats = [name for name in self.integers if name in frame and frame[name].dtype.kind == "f"]
            frame = _with_integers(frame, floats) if floats else frame
        if self.weight is None:
            return frame, None
        weights = check_weights(self.formula.new_column(frame, self.weight), len(frame), zeros=True)
        if weights is None or weights.all():
            return frame, weights
        return frame[weights > 0.0].reset_index(drop=True), weights[weights > 0.0]

    def read(self, frame: pd.DataFrame, start: int) -> Batch | None:
        """Return the columns of a batch without rows that are not used, None if no row is left."""
        with located(start):
            frame, weights = self.weighted(frame)
            if frame.empty:
                return None
            offset = None
            if self.offset is not None:
                offset = finite_numbers(self.formula.new_column(frame, self.offset), len(frame), "offset")
            response = as_response(self.formula.outcome(frame), self.scale, self.levels)
            made, strata = self.formula.design(frame), None
            if self.strata is not None:
                made, columns = split_columns(made, self.formula.strata, "strata")
                labels, codes = stratum_sets(columns)
                strata = Strata(stratum_codes(labels, self.strata)[codes], self.strata)
            X = to_design(made, len(frame), wide=not self.dense).matrix
            anchors = None
            if self.anchors is not None:
                found = anchor_columns(self.formula.anchor_frame(frame), in_units=False)
                anchors = self.anchors.encode(found)
            batch = Batch(response, X, anchors, weights, offset, strata)
            return batch if self.corners is None else batch.structured(self.corners, self.taken)

    def recoded(self, batch: Batch) -> Batch:
        """Return rows that a reader of more rows has read, with the classes, levels and columns of this one."""
        if self.bare:
            nothing = np.zeros((len(batch.response), 0))
            batch = Batch(batch.response, nothing, None, batch.weights, batch.offset)
        if any(self.gone):
            batch = batch.without(*self.gone)
        response, X, anchors = batch.response, batch.X, batch.anchors
        if response.levels != self.levels:
            response = as_response(response, self.scale, self.levels)
        if self.dense and isinstance(X, WideMatrix):
            X = X.toarray()
        if anchors is not None:
            anchors = None if self.anchors is None else self.anchors.encode(anchors)
        return replace(batch, response=response, X=X, anchors=anchors)

    def strata_of(self, frame: pd.DataFrame) -> frozenset[Any]:
        """Return the labels of the strata of these rows."""
        if not self.formula.strata:
            return frozenset()
        columns = select(frame, self.formula.strata)
        refuse_missing(columns, "stratum")
        return frozenset(stratum_sets(columns)[0])
