"""The training environments of one fold: what a strategy may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchortm._typing import Array
from anchortm.engine.lost_columns import lost_strata, notes_of
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.ends import Ends
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import AnchorColumns, group_codes
from anchortm.inputs.clusters import INTERCEPT, make_clusters
from anchortm.inputs.missing import rows_taken
from anchortm.models.given import Given
from anchortm.selection.designs import FEWEST, Fold, direction_of, further, like
from anchortm.selection.places import Codes, Out, Places, Record, without_covariates

__all__ = ["Training", "Tuning", "inner_folds", "places_of"]


def places_of(rows: Given, xis: list[float], cut: int | None) -> tuple[Given, Places]:
    """Return the rows by their environments; by default these are the anchors, and the other way round."""
    environments = rows.anchors if rows.environments is None else rows.environments
    if environments is None:
        raise InputError("pass the environments, one for each row, or name them in a formula after '|'")
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


def inner_folds(places: Places, fold: Fold, slope: Array, new: Array | None) -> list[Fold]:
    """Return the folds inside the training environments of a fold: of the same design if there are enough of them."""
    if fold.design == "further" and len(places.inside(fold.out)) >= FEWEST:
        return further(places, direction_of(places, slope, fold.out, new), fold.out)
    return like(places, fold.out)


@dataclass(frozen=True, eq=False)
class Tuning:
    """The losses of environments that were left out inside the training environments.

    Attributes
    ----------
    places : Places
        All rows and their environments.
    out : set of int
        The environments that are predicted in the end; nothing here has seen them.
    folds : list of Fold
        What was left out beside them.
    records : dict
        What the fits of these folds say about the rows that they leave out.
    """

    places: Places
    out: Out
    folds: Sequence[Fold]
    records: Mapping[Out, Record]

    @classmethod
    def of(cls, places: Places, out: Out, folds: Sequence[Fold], records: Mapping[Out, Record]) -> Tuning:
        """Return the losses of the folds whose fits succeeded."""
        known = [fold for fold in folds if not records[fold.out].failed]
        if not known:
            raise InputError(f"no fit without some of the environments succeeds: {records[folds[0].out].note}")
        return cls(places, out, known, {fold.out: records[fold.out] for fold in known})

    @property
    def xis(self) -> list[float]:
        """Return the strengths of the penalty at which there are fits, the first of them 0."""
        return self.places.xis

    @property
    def design(self) -> str:
        """Return the name of the inner design."""
        return self.folds[0].design

    @cached_property
    def _parts(self) -> list[tuple[Record, NDArray[np.bool_]]]:
        """Return the record of each fold, and which of its rows count: not those of ``out``."""
        groups, gone = self.places.groups, list(self.out)
        found = [self.records[fold.out] for fold in self.folds]
        return [(record, ~np.isin(groups[record.rows], gone)) for record in found]

    @cached_property
    def _rows(self) -> Codes:
        return np.concatenate([record.rows[mask] for record, mask in self._parts])

    @cached_property
    def _cells(self) -> tuple[Codes, NDArray[Any]]:
        """Return a code for each row: which fold, and which of its environments; and the codes as such pairs."""
        fold = np.repeat(np.arange(len(self._parts)), [int(mask.sum()) for _, mask in self._parts])
        pairs = np.column_stack([fold, self.places.groups[self._rows]])
        cells, codes = np.unique(pairs, axis=0, return_inverse=True)
        return codes.ravel(), cells

    def _means(self, values: Array) -> Array:
        """Return the losses of environments (like), or of folds (further), from those of rows."""
        codes, cells = self._cells
        weights = self.places.weights[self._rows]
        order = np.argsort(codes, kind="stable")
        first = np.searchsorted(codes[order], np.arange(len(cells)))
        total = np.add.reduceat(weights[order], first)
        found = np.add.reduceat((values * weights)[..., order], first, axis=-1) / total
        if self.design == "like":
            return np.asarray(found[..., np.argsort(cells[:, 1], kind="stable")])
        start = np.searchsorted(cells[:, 0], np.arange(len(self.folds)))
        sizes = np.diff(np.append(start, len(cells)))
        return np.asarray(np.add.reduceat(found, start, axis=-1) / sizes)

    @cached_property
    def _null(self) -> Array:
        return np.concatenate([record.null[mask] for record, mask in self._parts])

    def losses(self, at: int, factors: ArrayLike | None = None) -> Array:
        """Return minus the skill at the xi with this number: of each environment (like) or each fold (further).

        With factors of the spread, one row for each.
        """
        if factors is None:
            found = np.concatenate([record.logliks[at][mask] for record, mask in self._parts])
        else:
            found = self._ends(at).logliks(self.places.problem.link, factors)
        return self._means(self._null - found)

    @property
    def has_spread(self) -> bool:
        """Return whether h is known, so that its spread can change."""
        return all(None not in record.ends for record, _ in self._parts)

    def _ends(self, at: int) -> Ends:
        if at not in self._joined:
            self._joined[at] = self._join(at)
        return self._joined[at]

    @cached_property
    def _joined(self) -> dict[int, Ends]:
        return {}

    def _join(self, at: int) -> Ends:
        parts = []
        for record, mask in self._parts:
            ends = record.ends[at]
            if ends is None:
                raise InputError("the spread of this model cannot be tuned: it has no transformation h to stretch")
            parts.append(ends.take(mask))
        return Ends.joined(parts)

    def ranked(self, min_rows: int) -> NDArray[np.bool_]:
        """Return which losses belong to environments that are large enough for quantiles; folds always are."""
        if self.design == "further":
            return np.ones(len(self.folds), dtype=bool)
        codes = np.sort(self._cells[1][:, 1])
        return np.asarray(self.places.ranked(min_rows)[codes])


@dataclass(frozen=True, eq=False)
class Training:
    """The rows of the training environments, and the fits to them that strategies share.

    Attributes
    ----------
    given : Given
        The model, unfitted, and all rows: X, y, anchors, sample_weight, offset and environments.
    places : Places
        The rows by their environments.
    out : set of int
        The environments that are left out.
    tuning : Tuning or str
        Losses of environments that were left out inside the training environments, or why there are none.
    min_rows : int
        Environments with fewer rows do not count in quantiles.
    """

    given: Given
    places: Places
    out: Out
    tuning: Tuning | str = "nothing was left out"
    min_rows: int = 10

    @cached_property
    def rows(self) -> Codes:
        """Return the positions of the training rows."""
        return self.places.rows_in(self.places.inside(self.out))

    @cached_property
    def environments(self) -> NDArray[Any]:
        """Return the environment of each training row."""
        return np.asarray(self.places.labels[self.places.groups[self.rows]])

    def raw(self, rows: Codes) -> dict[str, Any]:
        """Return some rows as they were given: X, y, anchors, sample_weight and offset."""
        names, kept = ("X", "y", "anchors", "sample_weight", "offset"), self.places.data.kept
        # rows with missing values are no longer among the given ones, those of weight 0 are
        n_rows, used = (self.places.groups.size, rows) if kept is None else (kept.size, np.flatnonzero(kept)[rows])
        return {name: rows_taken(name, getattr(self.given, name), n_rows, used) for name in names}

    @cached_property
    def given_rows(self) -> dict[str, Any]:
        """Return the training rows as they were given."""
        return self.raw(self.rows)

    def fit(self, xi: float = 0.0, *, equal: bool = False, covariates: bool = True) -> Any:
        """Return the model fitted to the training rows.

        Parameters
        ----------
        xi : float
            Strength of the anchor penalty.
        equal : bool
            Whether all environments have the same weight, whatever their size.
        covariates : bool
            Whether to use the covariates.
        """
        key = (float(xi), equal, covariates)
        if key not in self._fitted:
            self._fitted[key] = self._fit(*key)
        return self._fitted[key]

    @cached_property
    def _fitted(self) -> dict[tuple[float, bool, bool], Any]:
        return {}

    def _fit(self, xi: float, equal: bool, covariates: bool) -> Any:
        problem = self.places.problem.subset(self.rows).at(xi=xi)
        if not covariates:
            problem = without_covariates(problem)
        if equal:
            groups = self.places.groups[self.rows]
            weights = self.places.weights[self.rows]
            total = np.bincount(groups, weights, minlength=self.places.n)[groups]
            n = weights.sum()
            kept = problem.data._replace(weights=weights * n / (np.unique(groups).size * total))
            problem = problem.on(problem.spec, kept)
        return self._model(problem, problem, xi)

    def fit_random_intercept(self) -> Any:
        """Return the model with a random intercept for each environment, fitted by maximum likelihood."""
        if self.places.problem.spec.cluster:
            raise InputError("the model has random effects of its own: a random intercept is not added to them")
        problem = self.places.problem.subset(self.rows)
        plain, data = problem.spec.at(xi=0.0), problem.data.without_wide()
        spec = plain.at(random="environment").check()
        clusters = make_clusters(self.environments.tolist(), "environment", [INTERCEPT], data.names, data.design.matrix)
        clusters.check(spec.single_rows_show_effects(data.response))
        problem = problem.on(spec, data._replace(anchors=None, clusters=clusters))
        return self._model(problem, replace(problem, spec=plain), 0.0)  # new rows have no column of clusters

    def _model(self, problem: Problem, kept: Problem, xi: float) -> Any:
        """Return the fitted model; where columns are lost, it has no rows, because theirs lack these columns."""
        result = _with_all_columns(self.places.problem, problem)
        return self.given.model.with_result(None if problem.data.lost else kept, result, xi=xi)


def _with_all_columns(whole: Problem, part: Problem) -> FitResult:
    """Return the fit to some of the rows; columns that they do not identify have the coefficient 0."""
    result, lost = part.fit(), part.data.lost
    if not lost or not part.data.names:
        return result
    names = whole.data.names
    if lost_strata(lost, whole.data.mixture) or {one.name for one in lost} - set(names):
        raise InputError(notes_of(lost, ()))
    known = dict(zip(result.coef_names, result.coef.tolist(), strict=True))
    coef = np.array([known.get(name, 0.0) for name in names])
    return replace(
        result,
        coef=coef,
        coef_names=list(names),
        marks=whole.data.marks,
        n_features_in=result.n_features_in + len(lost),
        information=None,
        jacobian=None,
    )
