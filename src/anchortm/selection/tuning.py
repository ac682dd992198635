"""What is tuned on left-out environments: their losses at each xi and at each spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from anchortm._typing import Array
from anchortm.engine.rows.ends import Ends
from anchortm.exceptions import InputError
from anchortm.selection.designs import Fold
from anchortm.selection.paired_choice import objective_of
from anchortm.selection.places import Out, Places, Record
from anchortm.selection.splits import Codes

__all__ = ["Tuning", "best_factor"]

COARSE = np.linspace(0.1, 1.5, 57)  # 1 / factor
STEP = COARSE[1] - COARSE[0]


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

    def _means_of_cells(self, values: Array) -> Array:
        """Return the losses of the environments of each fold, from those of rows."""
        codes, cells = self._cells
        weights = self.places.weights[self._rows]
        order = np.argsort(codes, kind="stable")
        first = np.searchsorted(codes[order], np.arange(len(cells)))
        total = np.add.reduceat(weights[order], first)
        return np.asarray(np.add.reduceat((values * weights)[..., order], first, axis=-1) / total)

    @cached_property
    def _starts(self) -> Codes:
        """Return the first cell of each fold."""
        return np.asarray(np.searchsorted(self._cells[1][:, 0], np.arange(len(self.folds))))

    def _means(self, values: Array) -> Array:
        """Return the losses of environments (like), or of folds (further), from those of rows."""
        found, cells = self._means_of_cells(values), self._cells[1]
        if self.design == "like":
            return np.asarray(found[..., np.argsort(cells[:, 1], kind="stable")])
        sizes = np.diff(np.append(self._starts, len(cells)))
        return np.asarray(np.add.reduceat(found, self._starts, axis=-1) / sizes)

    @cached_property
    def _null(self) -> Array:
        return np.concatenate([record.null[mask] for record, mask in self._parts])

    def losses(self, at: int, factors: ArrayLike | None = None) -> Array:
        """Return minus the skill at the xi with this number: of each environment (like) or each fold (further).

        With factors of the spread, one row for each.
        """
        return self._means(self._losses_of_rows(at, factors))

    def losses_by_fold(self, at: int, factors: ArrayLike | None = None) -> list[Array]:
        """Return the same for each environment of each fold: one array for each fold."""
        found = self._means_of_cells(self._losses_of_rows(at, factors))
        return [np.asarray(own) for own in np.split(found, self._starts[1:], axis=-1)]

    def _losses_of_rows(self, at: int, factors: ArrayLike | None) -> Array:
        if factors is None:
            found = np.concatenate([record.logliks[at][mask] for record, mask in self._parts])
        else:
            found = self._ends(at).logliks(self.places.problem.link, factors)
        return np.asarray(self._null - found)

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


@overload
def best_factor(tuning: Tuning, at: int, level: float | None, ranked: NDArray[np.bool_]) -> float: ...
@overload
def best_factor(
    tuning: Tuning, at: int, level: float | None, ranked: NDArray[np.bool_], *, value: Literal[True]
) -> tuple[float, float]: ...
def best_factor(
    tuning: Tuning, at: int, level: float | None, ranked: NDArray[np.bool_], *, value: bool = False
) -> float | tuple[float, float]:
    """Return the factor of the spread with the smallest objective over left-out environments, and that objective.

    The mean and the worst loss are convex in 1 / factor. A quantile need not be: it is looked at on a grid first.
    """

    def objective(c: Any) -> Array:
        return objective_of(tuning.losses(at, 1.0 / np.asarray(c)), ranked, level)

    k = int(np.nanargmin(objective(COARSE)))
    fine = np.linspace(max(COARSE[k] - STEP, 0.01), COARSE[k] + STEP, 41)
    near = objective(fine)
    j, step = int(np.nanargmin(near)), fine[1] - fine[0]
    bounds = (fine[j] - step, fine[j] + step)
    found = minimize_scalar(lambda c: float(objective(c)), bounds=bounds, method="bounded", options={"xatol": 1e-7})
    c, best = (float(found.x), float(found.fun)) if found.fun < near[j] else (float(fine[j]), float(near[j]))
    return (1.0 / c, best) if value else 1.0 / c
