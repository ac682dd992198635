"""Parts of a table that is read in batches: without one group of rows, or with groups drawn again.

One pass learns the facts about the rows of each group. The facts about a part of the table are the sum of those of its
groups, so that the first of the two passes that a table needs is not repeated for each part. The second one is shared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.backends import scan as first_look
from anchortm.backends.lockstep import Groups, Lane, Made, Table, View
from anchortm.backends.reading import Batch, Reader, located
from anchortm.backends.scan import AnchorFacts, Scan, _outcome_facts, _picks, _union
from anchortm.backends.streamed import Stream, _joined
from anchortm.backends.structure import Structure
from anchortm.engine.data import Data
from anchortm.engine.lost_columns import Lost, identified, lost_strata
from anchortm.engine.problem import Problem
from anchortm.inputs.design import Design
from anchortm.inputs.missing import Counts
from anchortm.inputs.response import Kind, Response, as_response

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Fit", "GroupedStream", "HeldOut", "Part", "held_out_loss", "unknown_outcomes"]

Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Facts:
    """What one pass learns about the rows of each group, and samples of the rows with their groups."""

    levels: NDArray[Any]
    scans: dict[Any, Scan]
    sample: list[tuple[pd.DataFrame, NDArray[Any]]] = field(default_factory=list)
    wide: list[tuple[pd.DataFrame, NDArray[Any]]] = field(default_factory=list)

    def __add__(self, other: _Facts) -> _Facts:
        return _Facts(
            _union(self.levels, other.levels),
            _added(self.scans, other.scans),
            self.sample + other.sample,
            self.wide + other.wide,
        )


def _added(first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Any]:
    """Return the sums of two tables by their labels."""
    return first | {label: first[label] + own if label in first else own for label, own in second.items()}


@dataclass(frozen=True, eq=False)
class _Learn:
    """The work of the pass that learns about groups."""

    reader: Reader
    groups: Groups
    whole: Scan  # without its rows
    every: int
    every_wide: int | None  # None: no wide sample

    def __call__(self, frame: pd.DataFrame, start: int) -> _Facts | None:
        batch = self.reader.read(frame, start)
        if batch is None:
            return None
        frame = self.reader.weighted(frame)[0]
        with located(start):
            codes, levels = self.groups.found(self.reader, frame, batch)
        rows = zip(levels.tolist(), _by_code(codes, levels), strict=True)
        scans = {label: self._scan(batch.take(own)) for label, own in rows if own.size}
        seen = levels[np.unique(codes)]
        few = np.union1d(_picks(start, len(frame), self.every), 0)
        facts = _Facts(seen, scans, [(frame.iloc[few], levels[codes[few]])])
        if self.every_wide is None:
            return facts
        many = np.union1d(_picks(start, len(frame), self.every_wide), 0)
        names = self.reader.formula.outcome_columns(self.reader.names)
        columns = list(dict.fromkeys([*names, *([self.reader.weight] if self.reader.weight else [])]))
        return replace(facts, wide=[(frame[columns].iloc[many], levels[codes[many]])])

    def _scan(self, batch: Batch) -> Scan:
        """Return the facts about rows of one group."""
        response, anchors = batch.response, batch.anchors
        w = np.ones(len(response)) if batch.weights is None else batch.weights
        kinds, low, high, truncated, time, weights_of = _outcome_facts(response, w)
        rows_of: dict[Any, int] = {}
        if response.levels is not None:
            size = len(response.levels)
            sums, rows = np.bincount(response.codes, w, size), np.bincount(response.codes, minlength=size)
            weights_of = {level: float(x) for level, x in zip(response.levels, sums, strict=True) if x > 0.0}
            rows_of = {level: int(x) for level, x in zip(response.levels, rows, strict=True)}
            kinds, low, high, truncated, time = {}, math.inf, -math.inf, False, False
        return replace(
            self.whole,
            n_rows=len(response),
            n_total=float(w.sum()),
            whole=bool((w == np.floor(w)).all()),
            covariates={},
            anchors=None if anchors is None else AnchorFacts.of(anchors.subset(slice(None)), batch.weights),
            kinds=kinds,
            time=time,
            low=low,
            high=high,
            truncated=truncated,
            weights_of=weights_of,
            rows_of=rows_of,
            missing=Counts(),
        )


def _by_code(codes: Codes, levels: NDArray[Any]) -> list[Codes]:
    """Return the rows of each level, in order."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=levels.size))[:-1])


def _either(a: _Facts | None, b: _Facts | None) -> _Facts | None:
    return (a if b is None else b) if a is None or b is None else a + b


class GroupedStream:
    """A table that was learned, with the facts about its groups of rows.

    Parameters
    ----------
    whole : Stream
        The table.
    column : str or None
        The column of the groups; None takes the main factor of the anchors.
    outcomes : bool
        Whether parts need the distribution of their outcomes, for a support of their own.
    word : str
        What the groups are, for messages.
    """

    def __init__(self, whole: Stream, column: str | None, outcomes: bool = True, word: str = "environments") -> None:
        self.whole, source, reader = whole, whole.source, whole.reader
        n = source.n_rows
        counted = bool(whole.scan.weights_of) and not any(x != x for x in whole.scan.weights_of)  # nan: intervals
        every_wide = max(1, n // first_look.WIDE_ROWS) if outcomes and not counted else None
        bare = replace(whole.scan, sample=[], wide=[])
        groups = Groups(column, np.zeros(0), word)
        if column is not None:
            source.check([column])
        work = _Learn(reader, groups, bare, max(1, n // first_look.SAMPLE_ROWS), every_wide)
        columns = Table(source, reader, groups).columns
        facts = source.map(work, _either, columns, "groups of rows")
        assert facts is not None  # noqa: S101 - the first pass has seen rows
        self.labels: list[Any] = facts.levels.tolist()
        self.table = Table(source, reader, replace(groups, levels=facts.levels))
        self.scans = [facts.scans[label] for label in self.labels]
        frame, codes = self._read(facts.sample)
        sample = reader.read(frame, 0)
        assert sample is not None  # noqa: S101 - rows of the sample have weight
        self.sample = sample, codes
        self.outcomes: tuple[Response, Array | None, Codes] | None = None
        if facts.wide:
            frame, codes = self._read(facts.wide)
            self.outcomes = as_response(reader.formula.outcome(frame), reader.scale), reader.weighted(frame)[1], codes

    def _read(self, parts: list[tuple[pd.DataFrame, NDArray[Any]]]) -> tuple[pd.DataFrame, Codes]:
        """Return sampled rows and their groups."""
        assert self.table.groups is not None  # noqa: S101
        return _joined([frame for frame, _ in parts]), self.table.groups.of(np.concatenate([own for _, own in parts]))

    @cached_property
    def _around(self) -> list[Scan]:
        """Return the facts about all groups but one, for each."""
        scans = self.scans
        before, after = [scans[0]], [scans[-1]]
        for scan in scans[1:-1]:
            before.append(before[-1] + scan)
        for scan in scans[-2:0:-1]:
            after.append(scan + after[-1])
        inner = [a + b for a, b in zip(before[:-1], after[-2::-1], strict=True)]
        return [after[-1], *inner, before[-1]]

    def without(self, k: int) -> Part:
        """Return the rows of all groups but one, which are learned by a pass of their own."""
        times = np.ones(len(self.labels))
        times[k] = 0.0
        return Part(self, self._around[k], times).identified()

    def drawn(self, times: Array) -> Part:
        """Return the rows of groups, each as often as it was drawn."""
        scans = [_times(scan, c) for scan, c in zip(self.scans, times.tolist(), strict=True) if c > 0.0]
        part = Part(self, _sum(scans), times).identified()
        if part.weighting is not None and self.table.groups is not None and self.table.groups.column is None:
            drawn = dict(zip(self.labels, times.tolist(), strict=True))  # environments count as often as they are drawn
            part.weighting = replace(part.weighting, copies=dict.fromkeys(part.weighting.rules, drawn))
        return part

    def only(self, k: int, reader: Reader) -> Lane:
        """Return the way to the rows of one group, with the classes of a reader and without anchors."""
        times = np.zeros(len(self.labels))
        times[k] = 1.0
        return Lane(self.table, View(replace(reader, anchors=None), times))


def _times(scan: Scan, c: float) -> Scan:
    """Return the facts about rows that count c times."""
    anchors = scan.anchors
    return replace(
        scan,
        n_total=c * scan.n_total,
        weights_of={key: c * weight for key, weight in scan.weights_of.items()},
        anchors=None if anchors is None else replace(anchors, weight=c * anchors.weight, total=c * anchors.total),
    )


def _sum(scans: Sequence[Scan]) -> Scan:
    """Return the facts about all these rows, added in pairs: levels of few groups are joined first."""
    while len(scans) > 1:
        scans = [a + b for a, b in zip(scans[::2], scans[1::2], strict=False)] + ([scans[-1]] if len(scans) % 2 else [])
    return scans[0]


class Part(Stream):
    """Some groups of rows of a table. All that depends on data comes from these rows, except terms of the formula.

    The corners of strata and varying effects are those of all rows, too.
    """

    def __init__(self, grouped: GroupedStream, scan: Scan, times: Array) -> None:
        whole = grouped.whole
        self.__dict__.update(whole.__dict__)
        self.__dict__.pop("_geometry", None)
        self._lane = self._latest_plan = None
        self._grouped, self._times, self.scan = grouped, times, scan
        coding = None
        if whole.anchors is not None and scan.anchors is not None:
            coding = scan.anchors.coding(whole.anchors.frame.intercept)
        levels = whole.reader.levels
        self.dropped = ()
        if levels is not None:
            self.dropped = tuple(level for level in levels if level not in scan.weights_of)
            levels = tuple(level for level in levels if level in scan.weights_of)
        self.reader = replace(whole.reader, levels=levels, anchors=coding)
        self._wide_is_all = grouped.outcomes is None or scan.every_wide == 1
        self._check_outcomes()
        self._sum_up()

    def identified(self) -> Part:
        """Return these rows without the columns that they do not identify."""
        part, structure = identified(self, lambda rows: rows.structure.of_part(rows.second.columns, rows.sample.X))
        part.structure, part.mixture = structure, structure.mixture
        return part

    def without(self, names: list[str], beside: tuple[str, ...] = ()) -> Part:
        """Return the rows without these columns, which are collinear with others; this takes one more pass."""
        part, whole = copy(self), self._grouped.whole
        sums = self.second.columns
        absent = {self.names[j] for j in np.flatnonzero(sums.absent(self.sample.X)).tolist()}
        if self.mixture is not None:
            absent |= self.mixture.corners.empty(sums.corners)
        part.lost = (*self.lost, *(Lost(name, name in absent, beside) for name in names))
        gone = tuple(lost.name for lost in part.lost)
        part.structure = self.structure.without(names)
        part.names, part.marks, part.mixture = part.structure.names, part.structure.marks, part.structure.mixture
        places = tuple(j for j, name in enumerate(whole.names) if name in gone)
        part.reader, part._latest_plan = replace(self.reader, gone=(places, gone)), None
        part.__dict__.pop("_geometry", None)
        part._sum_up()
        return part

    def bare(self) -> Part:
        """Return the rows without covariates, strata and anchors, for the model that skill is measured from."""
        part = copy(self)
        part.structure = Structure(self.structure.spec, (), (), ())
        part.names, part.marks, part.mixture, part.lost = (), (), None, ()
        part.reader = replace(self.reader, bare=True, gone=((), ()), anchors=None)
        part._latest_plan = part.weighting = None
        part.__dict__.pop("_geometry", None)
        return part

    @property
    def lane(self) -> Lane:
        """Return the way to the rows."""
        if self._lane is None or self._lane.view is None or self._lane.view.reader is not self.reader:
            self._lane = Lane(self._grouped.table, View(self.reader, self._times))
        return self._lane

    @property
    def sample(self) -> Batch:
        """Return the rows of the table's sample that belong to this part."""
        part = View(self.reader, self._times).of(*self._grouped.sample)
        assert part is not None  # noqa: S101
        return part

    def _read_sample(self) -> Batch:
        return self.sample

    @property
    def _wide(self) -> tuple[Response, Array | None]:
        """Return outcomes and weights with the distribution of these rows."""
        if self._grouped.outcomes is None:
            return self._wide_outcome(None)
        response, weights, codes = self._grouped.outcomes
        rows = np.flatnonzero(self._times[codes])
        return response[rows], None if weights is None else weights[rows]

    @property
    def response(self) -> Response:
        """Return outcomes with the distribution of these rows."""
        return self._wide[0]

    @property
    def weights(self) -> Array | None:
        """Return the weights of ``response``."""
        return self._wide[1]


class Fit(NamedTuple):
    """A fit to one part of the rows: what the log-likelihood of other rows needs."""

    problem: Problem
    link: Any
    baseline: Array
    others: Array
    converged: bool


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """The total weight of rows, how many of them are exact, and their weighted log-likelihood under several fits."""

    reader: Reader
    names: tuple[str, ...]
    fits: list[Fit]

    def __call__(self, frame: pd.DataFrame, start: int) -> Array:
        return self.on(Made(self.reader.read(frame, start)))

    def on(self, made: Made) -> Array:
        batch = made.batch
        if batch is None:
            return np.zeros(2 + len(self.fits))
        design = Design(batch.X, self.names, True)
        rows = Data(batch.response, design, None, batch.weights, batch.offset, (), mixture=batch.mixture)
        w = np.ones(len(batch.response)) if batch.weights is None else batch.weights
        logliks = (fit.problem.logliks(fit.link, fit.baseline, fit.others, rows) for fit in self.fits)
        return np.array([w.sum(), w[batch.response.kind == Kind.EXACT].sum(), *(w @ loglik for loglik in logliks)])


class HeldOut(NamedTuple):
    """The rows of one group under fits to the others: mean losses, and the number of exact rows, as weights count."""

    nll: Array
    exact: float


def unknown_outcomes(grouped: GroupedStream, k: int, part: Part) -> list[str]:
    """Return the classes and strata of a group that the part without it does not know."""
    known = part.reader.levels
    classes = [f"class {level}" for level in grouped.scans[k].weights_of if known and level not in known]
    return [*classes, *lost_strata(part.lost, grouped.whole.mixture)]


def held_out_loss(grouped: GroupedStream, k: int, part: Part, fits: list[Fit]) -> HeldOut:
    """Return the mean negative log-likelihood of the rows of one group under each of the fits to the others."""
    bare = [fit._replace(problem=fit.problem.with_data(None)) for fit in fits]
    work = _HeldOut(part.reader, part.names, bare)
    total, exact, *logliks = grouped.only(k, part.reader).map(work, np.add, "log-likelihood of left-out rows")
    return HeldOut(np.asarray(-np.array(logliks) / total), float(exact))
