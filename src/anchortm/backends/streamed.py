"""Fits to rows outside of memory: two passes to learn the table, then sums over its batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm.backends.column_sums import numbers_of
from anchortm.backends.level_weights import LevelWeighing
from anchortm.backends.lockstep import Lane, Table, side_by_side
from anchortm.backends.reading import AnchorCoding, Batch, Reader
from anchortm.backends.scan import Second, first_pass, second_pass, support_brackets
from anchortm.backends.sources import BATCH_ROWS, Source
from anchortm.backends.streamed_blocks import Columns, Plan, StreamedBlocks
from anchortm.backends.structure import Structure, check_number
from anchortm.bases import Basis
from anchortm.engine.data import About
from anchortm.engine.environment_weights import Weighting
from anchortm.engine.lost_columns import Lost
from anchortm.engine.objective.build import objective_type
from anchortm.engine.objective.penalised import Penalty
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.rows.likelihood import layout
from anchortm.engine.rows.projections import Projection, projection_of
from anchortm.engine.rows.standardised import make_coordinates
from anchortm.engine.solve.identification import check_counts
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.inputs import parts
from anchortm.inputs.baselines import Mixture, check_corners, known_strata
from anchortm.inputs.design import WideMatrix
from anchortm.inputs.empirical import SUPPORT_QUANTILES
from anchortm.inputs.formula import Formula
from anchortm.inputs.missing import Gaps
from anchortm.inputs.response import Response, Scale, as_response, plain_words
from anchortm.inputs.splines import Marks
from anchortm.links import Link

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Stream"]

Array = NDArray[np.float64]
T = TypeVar("T")

BASELINE_COLUMNS = 20
MOST_FITS, MOST_NUMBERS = 256, 20_000_000  # fits that share a pass, and numbers in all their sums
BRACKET = 6.0  # standard errors to each side of a sample quantile


class Stream:
    """A table whose rows are elsewhere, learned in two passes: one for the formula, one for the model (``learn``).

    Parameters
    ----------
    text : str
        A formula.
    source : Source
    scale, fixed : how the model reads the outcome, and the classes it was made with
    sample_weight, offset : column names, optional
    intercept : bool
        Whether the constant belongs to the span of the anchors.
    missing : {"error", "drop"}
        What to do with rows that have missing values.
    beside : tuple of str
        More columns in which rows must not have missing values.
    """

    in_memory = False
    afar = False  # rows can be evaluated here, batch by batch
    strata = clusters = None  # those of risk sets and of random effects, which need the rows in memory
    mixture: Mixture | None = None  # the corners, with the weights of an average row
    _columns: Columns | None = None  # those of the design that the loss takes, None: all
    names: tuple[str, ...]
    marks: Marks
    near: tuple[int, ...] = ()
    lost: tuple[Lost, ...] = ()
    share = 1.0
    _sample: Batch
    _lane: Lane | None = None
    weighting: Weighting | None = None  # rules for the weights of environments
    _latest_plan: Plan | None = None

    def __init__(
        self,
        text: str,
        source: Source,
        scale: Scale,
        fixed: tuple[Hashable, ...] | None,
        sample_weight: str | None,
        offset: str | None,
        intercept: bool,
        missing: str = "error",
        beside: tuple[str, ...] = (),
    ) -> None:
        for argument, value in (("sample_weight", sample_weight), ("offset", offset)):
            if value is not None and not isinstance(value, str):
                raise InputError(f"{argument} must name a column when rows are read in batches, not {type(value)}")
        self.source, self._passes_before = source, source.passes
        formula = Formula.unread(text, source.names)
        reader = Reader(formula, tuple(source.names), scale, sample_weight, offset, missing=missing, beside=beside)
        source.check([name for name in (sample_weight, offset, *beside) if name is not None])
        if missing == "drop":
            reader = replace(reader, integers=_integers(source, reader.labels))
        self.scan = scan = first_pass(source, reader, scale == "ordinal", fixed)
        levels: tuple[Hashable, ...] | None = None
        self.dropped: tuple[Hashable, ...] = ()
        if scale == "ordinal":
            levels, self.dropped = scan.levels()
        coding = None if scan.anchors is None else scan.anchors.coding(intercept)
        wide = _joined(scan.wide)
        formula.settle(scan.covariates, wide, reader.weighted(wide)[1])
        strata = tuple(known_strata(list(scan.strata))) if scan.strata else None
        self.reader = replace(reader, levels=levels, anchors=coding, strata=strata)
        self._rows = _joined(scan.sample)
        self._check_outcomes()
        self._outcomes = self._wide_outcome(wide)
        self._wide_is_all = scan.every_wide == 1
        self.scan.sample.clear()
        self.scan.wide.clear()

    def _check_outcomes(self) -> None:
        """Refuse outcomes that do not identify a distribution."""
        if self.scan.n_rows == 1:
            raise IdentificationError("n_samples = 1: a distribution cannot be estimated from one row")
        if self.reader.scale not in ("ordinal", "count"):
            check_counts(self.scan.kinds)

    @property
    def sample(self) -> Batch:
        """Return a sample of the rows."""
        return self._sample

    @property
    def response(self) -> Response:
        """Return outcomes with the distribution of all rows."""
        return self._outcomes[0]

    @property
    def weights(self) -> Array | None:
        """Return the weights of ``response``."""
        return self._outcomes[1]

    @property
    def lane(self) -> Lane:
        """Return the way to the rows."""
        if self._lane is None or self._lane.table.reader is not self.reader:
            self._lane = Lane(Table(self.source, self.reader))
        return self._lane

    @property
    def n_passes(self) -> int:
        """Return how often the table was read since it was opened."""
        return self.source.passes - self._passes_before

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of several fits to these rows or to parts of them, which share each read of the table."""
        X, blocks = self.sample.X, 1 if self.mixture is None else self.mixture.corners.n_blocks
        columns = numbers_of(X)[0].shape[1] + blocks * BASELINE_COLUMNS
        sums = X.shape[1] if self.anchors is None else X.shape[1] + sum(self.anchors.frame.sizes)
        return side_by_side(calls, min(MOST_FITS, MOST_NUMBERS // (columns * (2 * columns + sums))))

    def learn(self, spec: Specification) -> None:
        """Take the second pass, which prepares the baselines of the model, and check the covariates."""
        marks = self.reader.formula.marks
        if spec.smoothed(marks):
            parts.refuse("smooth", *spec.asked())
        self._sample = self._read_sample()
        if isinstance(self.sample.X, WideMatrix) and spec.fills_in(marks):
            self.reader = replace(self.reader, dense=True)
            self._sample = self._read_sample()
        check_number(self.sample.X)
        if self.reader.strata is not None:  # the second pass has a column for each
            check_corners(len(self.reader.strata), min(self.scan.n_rows, BATCH_ROWS))
        self._sum_up()
        self.structure = found = Structure.of(spec, self.reader, self.second.columns, self.sample.X)
        self.names, self.marks, self.mixture = found.names, found.marks, found.mixture
        if found.mixture is not None:
            self.reader = replace(self.reader, corners=found.mixture.corners, taken=found.taken)
            self._sample = self._read_sample()

    def _sum_up(self) -> None:
        """Take the second pass, and more if it does not find the quantiles of exact outcomes."""
        brackets = self._brackets()
        self.second = second_pass(self.lane, self.reader, self.sample.X, brackets)
        self.support = self._exact_support() if brackets else None

    def penalty(self, spec: Specification, added: tuple[tuple[str, ...], Marks] = ((), ())) -> Penalty:
        """Return the penalty on the coefficients of the covariates, and on what parts of the model ``added``."""
        return replace(self.structure, spec=spec).penalty(self.second.columns, added)

    def repeated(self, columns: Sequence[int], factor: float, names: tuple[str, ...]) -> Stream:
        """Return the table with some covariates once more, times a factor, after the others."""
        p, result = len(self.names), copy(self)
        at = np.concatenate([np.arange(p), np.asarray(columns, dtype=np.intp)])
        result.names, result.marks = names, (*self.marks, *(None for _ in columns))
        result._columns = Columns(at, np.where(np.arange(at.size) < p, 1.0, factor))
        return result

    def without_wide(self) -> Stream:
        """Return the table with all covariates as columns of numbers."""
        if not isinstance(self.sample.X, WideMatrix):
            return self
        result = copy(self)
        result.reader = replace(self.reader, dense=True)
        result._sample = result._read_sample()
        return result

    def _read_sample(self) -> Batch:
        try:
            sample = self.reader.read(self._rows, 0)
        except InputError:
            # read all rows, so that the error counts rows of the table
            self.source.map(self.reader.read, lambda a, _: a, self.reader.columns, "where is the error?")
            raise
        assert sample is not None  # noqa: S101 - rows of the sample have weight
        return sample

    @property
    def alphabetical(self) -> bool:
        """Return whether the classes are words that were sorted."""
        return self.scan.declared is None and plain_words(self.reader.levels or ())

    @property
    def anchors(self) -> AnchorCoding | None:
        """Return the anchors, if the formula has any."""
        return self.reader.anchors

    @property
    def typical(self) -> tuple[Response, Array | None]:
        """Return outcomes and weights for start values: those of the sample."""
        return self.sample.response, self.sample.weights

    def fingerprint(self) -> Array:
        """Return an empty array: files may change unnoticed."""
        return np.zeros(0)

    def about(self) -> About:
        """Return what a model keeps of these rows."""
        scan = self.scan
        return About(
            self.names,
            self.marks,
            (*self.reader.formula.design_columns(), *self.reader.formula.strata),
            scan.counts(self.reader.levels),
            scan.time,
            () if self.anchors is None else self.anchors.float_codes,
            self.dropped,
            self.alphabetical,
            self.second.columns.binary[list(self.structure.kept)].tolist(),
            self.reader.offset is not None,
            self.fingerprint(),
            np.array([self.second.columns.low, self.second.columns.high]),
            self.second.reach,
            scan.missing,
            self.reader.formula.outcome_name,
        )

    def _wide_outcome(self, wide: pd.DataFrame | None) -> tuple[Response, Array | None]:
        """Return outcomes and weights with the distribution of all rows, exactly or as in the wide sample."""
        scan, reader = self.scan, self.reader
        if scan.weights_of and not any(isinstance(key, float) and math.isnan(key) for key in scan.weights_of):
            values, copies = list(scan.weights_of), np.array(list(scan.weights_of.values()))
            labels: Any = np.array(values, dtype=object) if reader.scale == "ordinal" else np.array(values)
            return as_response(labels, reader.scale, reader.levels), copies
        assert wide is not None  # noqa: S101 - classes and counts do not need it
        return as_response(reader.formula.outcome(wide), reader.scale), reader.weighted(wide)[1]

    def _brackets(self, widths: float = BRACKET) -> tuple[tuple[float, float], ...]:
        """Return intervals that hold the exact quantiles of the outcome, if those are needed."""
        only_exact = self.scan.kinds.get("exact") == self.scan.n_rows and not self.scan.truncated
        if self._wide_is_all or not only_exact:
            return ()
        return support_brackets(self.response.lower, self.weights, widths)

    def _exact_support(self) -> tuple[float, float] | None:
        """Return the quantiles of all rows, with wider brackets where the first ones miss them."""
        second: Second = self.second
        for widths in (BRACKET, 100.0, math.inf):
            if widths > BRACKET:
                second = second_pass(self.lane, self.reader, self.sample.X, self._brackets(widths))
            found = [second.quantile(j, q, self.scan) for j, q in enumerate(SUPPORT_QUANTILES)]
            if found[0] is not None and found[1] is not None:
                return (found[0], found[1]) if found[0] < found[1] else (self.scan.low, self.scan.high)
        return None

    @property
    def weighing(self) -> LevelWeighing:
        """Return what weights of environments mean for this table."""
        return LevelWeighing(self)

    def objective(
        self, link: Link, basis: Basis, sign: float, anchor_intercept: bool = True, n_jobs: int | None = None
    ) -> RowObjective:
        """Return the anchor loss of all rows; the intercept and the number of threads were set before."""
        plan = self._plan(link, basis, sign)
        blocks = StreamedBlocks(self, plan)
        return objective_type(link, blocks, self.sample.X)(link, plan.coordinates, plan.geometry, blocks, self.names)

    def _plan(self, link: Link, basis: Basis, sign: float) -> Plan:
        """Return the plan for a link and a basis; fits that differ in xi alone share it, and with it their rows."""
        plan = self._latest_plan
        wanted = (self.reader, self._columns, link, basis)
        if plan is not None and plan.sign == sign:
            found = (plan.reader, plan.columns, plan.link, plan.basis)
            if all(a is b for a, b in zip(found, wanted, strict=True)):
                return plan
        batch = self.sample
        X = batch.X if self._columns is None else self._columns.of(batch.X)
        coordinates = make_coordinates(basis, layout(basis, batch.response), X, sign, batch.mixture)
        if coordinates.wide is not None and coordinates.wide.share.size:
            coordinates = coordinates.some_levels(self.second.columns.sums.count)  # counts of all rows
        geometry = _geometry(self)
        plan = Plan(self.reader, link, basis, sign, coordinates, geometry, self._columns, self.weighing.levels)
        self._latest_plan = plan
        return plan


def _geometry(stream: Stream) -> Projection | None:
    """Return the projection on the anchors of all rows, which is made once."""
    anchors, moments = stream.reader.anchors, stream.second.anchors
    if anchors is None or moments is None:
        return None
    if "_geometry" not in stream.__dict__:
        plain = projection_of(anchors.frame, moments)
        stream.__dict__["_geometry"] = stream.weighing.levels.metric(plain, moments.total)
    found: Projection = stream.__dict__["_geometry"]
    return found


def _integers(source: Source, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are integers by their type, or floats that stand for integers with gaps (``Gaps``)."""
    source.check(columns)
    kinds = {name: source.is_integer(name) for name in columns}
    floats = [name for name, kind in kinds.items() if kind is None]
    if floats:  # the rows of a batch do not decide alone
        looked = source.map(
            lambda frame, _: [Gaps.of(frame[name]) for name in floats],
            lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
            floats,
            "whole numbers with gaps?",
        )
        kinds |= {name: gaps.integers for name, gaps in zip(floats, looked, strict=True)}
    return tuple(name for name, kind in kinds.items() if kind)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)
