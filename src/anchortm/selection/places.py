"""Fits to all environments but some, and what they say about rows of the left-out ones.

A set of left-out environments is fitted once at all xi. Its ``Record`` holds h at the ends of the left-out rows, from
which their likelihood follows at every xi and at every spread. All that is tuned inside the training environments is
tuned on such records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.engine.data import Data
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.rows.ends import Ends
from anchortm.engine.solve.newton import Solution
from anchortm.exceptions import AnchorTMError, InputError
from anchortm.inputs import parts
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.models.given import Given
from anchortm.selection.folds import full_paths
from anchortm.selection.paired_choice import large_enough
from anchortm.selection.splits import Codes, NullModel, Split, events_by, fits_at

__all__ = ["Out", "Places", "Record", "places_of"]

Out = frozenset[int]  # codes of environments that are left out together
Parameters = dict[float, tuple[Array, Array]]  # baseline and other parameters by xi


class Record(NamedTuple):
    """Left-out rows under fits to the others, at each xi.

    Attributes
    ----------
    rows : array
        Positions of the left-out rows.
    logliks : array of shape (number of xi, number of rows)
        Their log-likelihoods; NaN where the fit failed.
    ends : tuple
        For each xi, h at the ends of these rows; None if h is not known.
    null : array
        Their log-likelihoods under the model without covariates.
    slope : array
        Coefficients at the first xi, for directions; NaN if that fit failed.
    note : str
        Why a fit failed, or which columns it does without.
    """

    rows: Codes
    logliks: Array
    ends: tuple[Ends | None, ...]
    null: Array
    slope: Array
    note: str = ""

    @property
    def failed(self) -> bool:
        """Return whether a fit failed, so that the left-out rows have no likelihood."""
        return bool(np.isnan(self.logliks).all())


@dataclass(frozen=True, eq=False)
class Places:
    """The rows of a problem by their environments, with the values of xi to try; the first xi is 0.

    Attributes
    ----------
    problem : Problem
        The problem of all rows.
    groups : array of int
        The environment of each row, as a code.
    labels : array
        Names of the environments.
    xis : list of float
        Strengths of the penalty, the first of them 0.
    """

    problem: Problem
    groups: Codes
    labels: NDArray[Any]
    xis: list[float]

    def __post_init__(self) -> None:
        if self.labels.size < 3:
            raise InputError(
                f"there are {self.labels.size} environments: leaving one out and tuning on the others needs at least 3"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the places without what is computed again, and with the start values."""
        kept = {name: getattr(self, name) for name in ("problem", "groups", "labels", "xis")}
        return kept | {"starts": self.starts, "null": self.null}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def data(self) -> Data:
        """Return all rows."""
        found: Data = self.problem.data
        return found

    @property
    def n(self) -> int:
        """Return the number of environments."""
        return self.labels.size

    @cached_property
    def weights(self) -> Array:
        """Return the weight of each row."""
        return np.ones(self.groups.size) if self.data.weights is None else self.data.weights

    @cached_property
    def sizes(self) -> Array:
        """Return the number of rows of each environment, as often as their weights count them."""
        return np.asarray(np.bincount(self.groups, self.weights, minlength=self.n), dtype=np.float64)

    @cached_property
    def events(self) -> Array:
        """Return the number of events (exact times) of each environment; NaN if the outcome is not a time."""
        return events_by(self.data.response, self.weights, self.groups, self.n)

    def ranked(self, min_rows: int) -> NDArray[np.bool_]:
        """Return which environments are large enough to be compared one by one."""
        return large_enough(self.sizes, self.events, min_rows)

    @cached_property
    def starts(self) -> Parameters:
        """Return the parameters of the fits to all rows, from which the others start."""
        problem = self.problem.along(self.xis)
        ((objective, solutions),) = full_paths([problem], self.xis)
        return {s.xi: objective.coordinates.split(s.v) for s in solutions}

    @cached_property
    def null(self) -> NullModel:
        """Return the model without covariates."""
        return NullModel.of(self.problem)

    def means(self, values: Array) -> Array:
        """Return the weighted mean over each environment of one value for each row."""
        total = np.bincount(self.groups, self.weights, minlength=self.n)
        return np.asarray(np.bincount(self.groups, values * self.weights, minlength=self.n) / total)

    def inside(self, out: Iterable[int]) -> list[int]:
        """Return the codes of the environments that are not left out."""
        gone = set(out)
        return [e for e in range(self.n) if e not in gone]

    def rows_in(self, environments: Iterable[int]) -> Codes:
        """Return the positions of the rows of these environments."""
        return np.flatnonzero(np.isin(self.groups, list(environments)))

    def record(self, out: Out) -> Record:
        """Return what fits without these environments say about their rows."""
        rows = self.rows_in(out)
        nothing = np.full((len(self.xis), rows.size), np.nan)
        failed = Record(rows, nothing, (None,) * len(self.xis), nothing[0], np.full(len(self.data.names), np.nan))
        inside = self.rows_in(self.inside(out))
        try:
            split = Split.of(self.problem, inside, rows)
            if split.held is None:
                return failed._replace(note=split.notes)
            train, shared = split.train, split.shared
            objective = train.objective
            first, *others = [self._fit(split, objective, xi) for xi in self.xis]
        except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
            return failed._replace(note=str(error))
        if isinstance(first, str):
            return failed._replace(note=first)
        found = [
            (nothing[0], None) if isinstance(one, str) else split.predicted(train, objective, one)
            for one in (first, *others)
        ]
        logliks, ends = zip(*found, strict=True)
        null, note = self.null.logliks(inside, rows)
        slope = shared.widen(*objective.coordinates.split(first.v))[1][: len(self.data.names)]
        return Record(rows, np.array(logliks), tuple(ends), null, slope, note or split.notes)

    def _fit(self, split: Split, objective: Objective, xi: float) -> Solution | str:
        """Return the fit without some environments at an xi, or why there is none."""
        try:
            start = split.shared.narrow(*self.starts[xi])
            return fits_at(split.train, objective, [xi], {xi: start})[0]
        except (AnchorTMError, ArithmeticError, np.linalg.LinAlgError) as error:
            return str(error)

    def records(
        self, sets: Sequence[Out], n_jobs: int | None, label: str, progress: bool | None = None
    ) -> dict[Out, Record]:
        """Return the records of several sets, which processes share; the progress bar has this label."""
        wanted = list(dict.fromkeys(sets))
        parts = [wanted[k : k + CHUNK] for k in range(0, len(wanted), CHUNK)]
        with Task(label, len(parts), progress) as task, one_blas_thread():
            found = task.map(partial(_several, self), parts, n_jobs)
        return dict(zip(wanted, (record for part in found for record in part), strict=True))


CHUNK = 16  # number of sets that a process works on at a time


def _several(places: Places, sets: Sequence[Out]) -> list[Record]:
    return [places.record(out) for out in sets]


def places_of(rows: Given, xis: list[float], cut: int | None) -> tuple[Given, Places]:
    """Return the rows by their environments; by default these are the anchors, and the other way round."""
    environments = rows.anchors if rows.environments is None else rows.environments
    if environments is None:
        raise InputError("pass the environments, one for each row, or name them after '|' in a formula (y ~ x | place)")
    parts.refuse("left_out", *rows.model.specification().asked())
    groups, labels = group_codes(environments, cut)
    if rows.anchors is None and rows.model.anchor_names is None:
        names = ("environment",)
        columns = AnchorColumns((groups,), (labels,), np.zeros((groups.size, 0)), names, ())
        rows = replace(rows, anchors=columns)
    rows, problem = rows.prepared()
    if problem.data.kept is not None:
        found, groups = np.unique(groups[problem.data.kept], return_inverse=True)
        labels = labels[found]
    return rows, Places(replace(problem), groups, labels, xis)
