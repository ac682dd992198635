"""The first two passes over a table: what its columns are, then the sums that depend on that.

The first pass finds levels, ranges, kinds of rows and weights. It also takes one row from each of many equal stretches
of the table: a *sample* of all columns, which gives standardisation and start values, and a *wide* sample of the
outcome (and of columns from which splines and similar terms learn), which gives the default support. Below twice
``WIDE_ROWS`` rows the wide sample is the whole table. Above that, quantiles of exact outcomes and of counts are still
exact: the wide sample gives brackets around the quantiles of exact outcomes, and the second pass collects the values
in them; counts are counted. For censored outcomes, and for what terms learn, the wide sample is used: the rank of a
quantile then has a standard error of sqrt(q (1 - q) / WIDE_ROWS), 0.0002 for the default support.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.checks import check_total_weight
from anchortm.backends.column_sums import ColumnSums, Units
from anchortm.backends.lockstep import Lane, Made
from anchortm.backends.reading import AnchorCoding, Reader, located
from anchortm.backends.sources import Source
from anchortm.engine.rows.anchor_sums import AnchorFrame, AnchorMoments
from anchortm.exceptions import InputError, MissingValueError
from anchortm.inputs.anchors import MOST_CODES, AnchorColumns, anchor_columns, look_like_codes, units_of
from anchortm.inputs.design import Matrix
from anchortm.inputs.empirical import SUPPORT_QUANTILES, quantile_among, replicated_quantile
from anchortm.inputs.formula.column_kinds import ColumnFacts
from anchortm.inputs.missing import Counts, check_left, explain
from anchortm.inputs.response import Response, as_response, classes_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SAMPLE_ROWS", "WIDE_ROWS", "Scan", "Second", "first_pass", "second_pass"]

SAMPLE_ROWS = 100_000
WIDE_ROWS = 2_000_000


@dataclass(frozen=True, eq=False)
class AnchorFacts:
    """Levels of the anchor factors, and sums and ranges of the numeric columns, in some rows."""

    factor_names: tuple[str, ...]
    levels: tuple[NDArray[Any], ...]
    column_names: tuple[str, ...]
    weight: float
    total: Array
    low: Array
    high: Array
    codes: tuple[frozenset[float] | None, ...]  # whole numbers of each column; None: many, or others

    @classmethod
    def of(cls, anchors: AnchorColumns, weights: Array | None) -> AnchorFacts:
        columns = anchors.columns
        w = np.ones(len(anchors)) if weights is None else weights
        return cls(
            anchors.factor_names,
            anchors.levels,
            anchors.column_names,
            float(w.sum()),
            w @ columns,
            columns.min(axis=0),
            columns.max(axis=0),
            tuple(_few_codes(column) for column in columns.T),
        )

    def __add__(self, other: AnchorFacts) -> AnchorFacts:
        if (self.factor_names, self.column_names) != (other.factor_names, other.column_names):
            names = sorted({*self.factor_names} ^ {*other.factor_names})
            raise InputError(
                f"anchors are factors in some rows and numbers in others: {', '.join(names)}; write C(...) or N(...) "
                "in the formula"
            )
        pairs = zip(self.codes, other.codes, strict=True)
        return replace(
            self,
            levels=tuple(_union(a, b) for a, b in zip(self.levels, other.levels, strict=True)),
            weight=self.weight + other.weight,
            total=self.total + other.total,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            codes=tuple(None if a is None or b is None or len(a | b) > MOST_CODES else a | b for a, b in pairs),
        )

    def coding(self, intercept: bool) -> AnchorCoding:
        """Return the codes and the frame of the anchors."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        units = units_of(size)
        mean, low, high = self.total / self.weight / units, self.low / units, self.high / units
        sizes = tuple(levels.size for levels in self.levels)
        main = int(np.argmax(sizes)) if sizes else None
        spread = np.maximum(high - mean, mean - low)
        frame = AnchorFrame(main, sizes, self.column_names, mean, spread, intercept)
        named = zip(self.column_names, self.codes, strict=True)
        codes = tuple(name for name, found in named if found is not None and look_like_codes(name, len(found)))
        return AnchorCoding(frame, self.levels, units, codes)


def _few_codes(column: Array) -> frozenset[float] | None:
    """Return the whole numbers of a column if they are few and it has no others."""
    if (column[:100] != np.round(column[:100])).any() or (column != np.round(column)).any():
        return None
    found = np.unique(column)
    return frozenset(found.tolist()) if found.size <= MOST_CODES else None


def _union(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the levels of an anchor in two sets of rows."""
    if isinstance(a[0], str) != isinstance(b[0], str):
        raise InputError(f"an anchor is words in some rows and numbers in others, such as {a[0]!r} and {b[0]!r}")
    if a.dtype == object or b.dtype == object:
        levels = dict.fromkeys([*a.tolist(), *b.tolist()])
        return np.array(sorted(levels, key=lambda level: (type(level).__name__, level)), dtype=object)
    return a if a.size == b.size and (a == b).all() else np.union1d(a, b)


@dataclass(frozen=True, eq=False)
class Scan:
    """The result of the first pass for some rows; add two such records to join their rows."""

    n_rows: int
    n_total: float
    whole: bool  # whether weights are whole numbers, that is numbers of copies
    every_wide: int  # one row out of so many is in the wide sample
    covariates: dict[str, ColumnFacts]
    anchors: AnchorFacts | None
    kinds: dict[str, int]
    time: bool
    low: float  # smallest and largest finite end of the outcome
    high: float
    truncated: bool
    declared: tuple[Hashable, ...] | None  # classes of an ordered categorical
    weights_of: dict[Any, float]  # weight of each class or count
    rows_of: dict[Any, int]  # rows of each class
    strata: frozenset[Any] = frozenset()  # their labels
    sample: list[pd.DataFrame] = field(default_factory=list)
    wide: list[pd.DataFrame] = field(default_factory=list)
    missing: Counts = field(default_factory=Counts)  # rows that were dropped

    def __add__(self, other: Scan) -> Scan:
        if self.n_rows == 0 or other.n_rows == 0:
            kept = self if self.n_rows else other
            sample, wide = self.sample + other.sample, self.wide + other.wide
            return replace(kept, sample=sample, wide=wide, missing=self.missing + other.missing)
        if self.declared != other.declared:
            raise InputError(
                "the ordered classes of the outcome are not the same in all files: "
                "name them in the formula, ordered(column, 'low', 'high')"
            )
        keys = dict.fromkeys([*self.weights_of, *other.weights_of])
        return Scan(
            self.n_rows + other.n_rows,
            self.n_total + other.n_total,
            self.whole and other.whole,
            self.every_wide,
            {name: fact + other.covariates[name] for name, fact in self.covariates.items()},
            None if self.anchors is None or other.anchors is None else self.anchors + other.anchors,
            {kind: number + other.kinds[kind] for kind, number in self.kinds.items()},
            self.time,
            min(self.low, other.low),
            max(self.high, other.high),
            self.truncated or other.truncated,
            self.declared,
            {key: self.weights_of.get(key, 0.0) + other.weights_of.get(key, 0.0) for key in keys},
            {key: self.rows_of.get(key, 0) + other.rows_of.get(key, 0) for key in keys},
            self.strata | other.strata,
            self.sample + other.sample,
            self.wide + other.wide,
            self.missing + other.missing,
        )

    def levels(self) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
        """Return the classes that have rows, in order, and those that were declared but have none."""
        if self.declared is None:
            try:
                return tuple(sorted(self.weights_of)), ()
            except TypeError:
                raise InputError("the classes in y cannot be sorted: use one type, or an ordered categorical") from None
        seen = tuple(level for level in self.declared if level in self.weights_of)
        return seen, tuple(level for level in self.declared if level not in self.weights_of)

    def counts(self, levels: tuple[Hashable, ...] | None) -> dict[str, int]:
        """Return the numbers of exact, left-, right- and interval-censored rows; ``levels`` are those of classes."""
        if levels is None:
            return self.kinds
        rows = [self.rows_of[level] for level in levels]
        return {"exact": 0, "left": rows[0], "right": rows[-1], "interval": sum(rows[1:-1])}

    def row_kinds(self, levels: tuple[Hashable, ...] | None) -> frozenset[tuple[str, int]]:
        """Return the kinds of rows and truncations that can occur under any basis."""
        found = {(kind, 1) for kind, number in self.counts(levels).items() if number}
        if ("interval", 1) in found:  # an end at the bound of a basis does not count
            found.add(("left", 1))
        if self.truncated:
            found |= {("left", -1), ("right", -1), ("interval", -1)}
        return frozenset(found)


@dataclass(frozen=True)
class _First:
    """The work of the first pass."""

    reader: Reader
    classes: bool
    every: int
    every_wide: int
    wide_columns: tuple[str, ...]
    fixed: tuple[Hashable, ...] | None

    def __call__(self, frame: pd.DataFrame, start: int) -> Scan:
        reader, formula = self.reader, self.reader.formula
        with located(start):
            missing = reader.dropped(frame)
            frame, weights = reader.weighted(frame)
            if frame.empty:
                ends = (math.inf, -math.inf)
                nothing = Scan(0, 0.0, True, self.every_wide, {}, None, {}, False, *ends, False, None, {}, {})
                return replace(nothing, missing=missing)
            # at least one row of each batch
            few, many = (np.union1d(_picks(start, len(frame), every), 0) for every in (self.every, self.every_wide))
            sample, wide = [frame.iloc[few]], [frame[list(self.wide_columns)].iloc[many]]
            w = np.ones(len(frame)) if weights is None else weights
            if reader.offset is not None:
                formula.new_column(frame, reader.offset)
            y = formula.outcome(frame)
            declared, weights_of, rows_of = self.fixed, {}, {}
            if self.classes:
                found = classes_of(y)
                declared = found.declared if self.fixed is None else self.fixed
                sums = np.bincount(found.codes, w, len(found.labels))
                weights_of = {label: float(x) for label, x in zip(found.labels, sums, strict=True) if x > 0.0}
                rows_of = dict(
                    zip(found.labels, np.bincount(found.codes, minlength=len(found.labels)).tolist(), strict=True)
                )
                unknown = [label for label in weights_of if declared is not None and label not in declared]
                if unknown:
                    raise InputError(f"y has a class that is not known: {unknown[0]}; known are {list(declared or ())}")
                kinds: dict[str, int] = {}
                low, high, truncated, time = math.inf, -math.inf, False, False
            else:
                response = as_response(y, reader.scale)
                kinds, low, high, truncated, time, weights_of = _outcome_facts(response, w)
            anchors = formula.anchor_frame(frame)
            return Scan(
                len(frame),
                float(w.sum()),
                bool((w == np.floor(w)).all()),
                self.every_wide,
                formula.learn(frame),
                None if anchors is None else AnchorFacts.of(anchor_columns(anchors, in_units=False), weights),
                kinds,
                time,
                low,
                high,
                truncated,
                declared,
                weights_of,
                rows_of,
                reader.strata_of(frame),
                sample,
                wide,
                missing,
            )


def _outcome_facts(response: Response, w: Array) -> tuple[dict[str, int], float, float, bool, bool, dict[Any, float]]:
    """Return kinds of rows, smallest and largest end, whether truncated, whether times, and weights of counts."""
    ends = np.concatenate([response.lower[np.isfinite(response.lower)], response.upper[np.isfinite(response.upper)]])
    weights_of: dict[Any, float] = {}
    single = response.upper == np.where(np.isneginf(response.lower), 0.0, response.lower + 1.0)
    if response.scale == "count" and single.all() and not response.truncated.any():
        values, where = np.unique(response.upper, return_inverse=True)
        weights_of = dict(zip(values.tolist(), np.bincount(where, w).tolist(), strict=True))
    elif response.scale == "count":
        weights_of = {math.nan: float(w.sum())}  # some are intervals of counts
    return (
        response.counts(),
        float(ends.min(initial=math.inf)),
        float(ends.max(initial=-math.inf)),
        bool(response.truncated.any()),
        response.scale == "time",
        weights_of,
    )


def _picks(start: int, size: int, every: int) -> NDArray[np.intp]:
    """Return the rows of a batch to take: one in each stretch of ``every`` rows, wherever batches begin."""
    stretch = np.arange(start // every, (start + size - 1) // every + 1, dtype=np.uint64)
    mixed = (stretch + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # scatters the positions within stretches
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    place = ((mixed >> np.uint64(32)) % np.uint64(every)).astype(np.intp)
    rows = stretch.astype(np.intp) * every + place - start
    return rows[(rows >= 0) & (rows < size)]


def first_pass(source: Source, reader: Reader, classes: bool, fixed: tuple[Hashable, ...] | None) -> Scan:
    """Return the result of the first pass."""
    n = source.n_rows
    if n == 0:
        raise InputError("the table has no rows")
    formula = reader.formula
    wide = reader.columns if formula.remembers else formula.outcome_columns(reader.names)
    wide = list(dict.fromkeys([*wide, *([reader.weight] if reader.weight else [])]))
    work = _First(reader, classes, max(1, n // SAMPLE_ROWS), max(1, n // WIDE_ROWS), tuple(wide), fixed)
    scan: Scan = _explained(source, reader, work)
    if scan.missing.n_missing:
        check_left(scan.missing)
    check_total_weight(scan.n_total)
    return scan


def _explained(source: Source, reader: Reader, work: _First) -> Scan:
    """Return the facts about all rows; an error about a missing value says where all of them are."""
    try:
        return source.map(work, Scan.__add__, reader.columns, "levels and ranges")
    except MissingValueError as error:
        if reader.missing == "drop":
            raise
        counts = source.map(
            lambda frame, _: reader.lost(frame)[0], Counts.__add__, reader.columns, "where are values missing?"
        )
        better = explain(error, counts)
        if better is error:
            raise
        raise better from None


@dataclass(frozen=True, eq=False)
class Second:
    """The sums of the second pass: covariates, anchors, and exact outcomes around the quantiles."""

    columns: ColumnSums
    reach: tuple[float, float]  # smallest and largest finite end of the outcome
    anchors: AnchorMoments | None
    below: Array  # weight below each bracket
    inside: list[list[tuple[Array, Array]]]  # values and weights in each bracket

    def __add__(self, other: Second) -> Second:
        return Second(
            self.columns + other.columns,
            (min(self.reach[0], other.reach[0]), max(self.reach[1], other.reach[1])),
            None if self.anchors is None or other.anchors is None else self.anchors + other.anchors,
            self.below + other.below,
            [a + b for a, b in zip(self.inside, other.inside, strict=True)],
        )

    def quantile(self, j: int, q: float, scan: Scan) -> float | None:
        """Return the exact quantile of all rows if the j-th bracket holds it, else None."""
        values, weights = (np.concatenate(parts) for parts in zip(*self.inside[j], strict=True))
        # of weights that are not numbers of copies only the proportions count
        unit = 1.0 if scan.whole else scan.n_rows / scan.n_total
        return quantile_among(values, unit * weights, q, unit * self.below[j], unit * scan.n_total)


@dataclass(frozen=True)
class _SecondWork:
    reader: Reader
    units: Units
    brackets: tuple[tuple[float, float], ...]

    def __call__(self, frame: pd.DataFrame, start: int) -> Second | None:
        return self.on(Made(self.reader.read(frame, start)))

    def on(self, made: Made) -> Second | None:
        batch = made.batch
        if batch is None:
            return None
        anchors = None
        if self.reader.anchors is not None and batch.anchors is not None:
            anchors = self.reader.anchors.frame.moments(batch.anchors, batch.weights)
        values = batch.response.lower
        w = np.ones(values.size) if batch.weights is None else batch.weights
        inside = []
        for low, high in self.brackets:
            here = (values >= low) & (values <= high)
            inside.append([(values[here], w[here])])
        below = np.array([w[values < low].sum() for low, _ in self.brackets])
        columns = ColumnSums.of(batch, self.units, w)
        return Second(columns, batch.response.reach(), anchors, below, inside)


def _join(a: Second | None, b: Second | None) -> Second | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b


def second_pass(lane: Lane, reader: Reader, X: Matrix, brackets: tuple[tuple[float, float], ...] = ()) -> Second:
    """Return the sums of the second pass; X are the covariates of the sample."""
    work = _SecondWork(reader, Units.of(X), brackets)
    found: Second | None = lane.map(work, _join, "sums of covariates and anchors")
    assert found is not None  # noqa: S101 - the first pass has seen rows
    return found


def support_brackets(values: Array, weights: Array | None, widths: float) -> tuple[tuple[float, float], ...]:
    """Return intervals around the sample quantiles of the support, ``widths`` standard errors to each side."""
    if math.isinf(widths):
        return ((-math.inf, math.inf),) * len(SUPPORT_QUANTILES)
    found = []
    for q in SUPPORT_QUANTILES:
        away = widths * math.sqrt(q * (1.0 - q) / values.size)
        low, high = (replicated_quantile(values, weights, min(max(x, 0.0), 1.0)) for x in (q - away, q + away))
        found.append((low, high))
    return tuple(found)
