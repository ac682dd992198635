"""The covariates of a model on rows that are read in batches: which shift h, and which make up its baselines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from anchortm.backends.column_sums import ColumnSums, numbers_of
from anchortm.backends.reading import Reader
from anchortm.backends.sources import BATCH_ROWS
from anchortm.engine.objective.penalised import Known, Penalty
from anchortm.engine.solve.identification import WideSums, check_level_ends, check_size, still
from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.inputs.baselines import Corners, Mixture, check_corners, make_corners, varying_groups
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.inputs.splines import Marks

__all__ = ["MOST_COLUMNS", "Structure", "check_number"]

MOST_COLUMNS = 300


def check_number(X: Matrix) -> None:
    """Refuse more columns of numbers than sums over batches are made for."""
    n = numbers_of(X)[0].shape[1]
    if n > MOST_COLUMNS:
        raise InputError(
            f"the covariates have {n} columns of numbers, more than {MOST_COLUMNS} for rows that are read in "
            "batches: merge levels of factors, or read the table into memory"
        )


@dataclass(frozen=True, eq=False)
class Structure:
    """The covariates that shift h, and the corners of strata and varying effects with the columns they take up.

    ``mixture`` has the weights of an average row.
    """

    spec: Specification
    names: tuple[str, ...]
    marks: Marks
    kept: tuple[int, ...]
    taken: tuple[int, ...] = ()
    mixture: Mixture | None = None

    @classmethod
    def of(cls, spec: Specification, reader: Reader, sums: ColumnSums, X: Matrix) -> Structure:
        """Return the structure that a specification asks for; X are some rows of the covariates."""
        names, marks = tuple(reader.formula.design_columns()), reader.formula.marks
        self = cls(spec, names, marks, tuple(range(len(names))))
        if reader.strata is not None or varying_groups(spec.varying):

            def facts(places: list[int]) -> tuple[float, float, bool]:
                low, high = sums.low[places].min(), sums.high[places].max()
                return float(low), float(high), bool(sums.binary[places].all())

            corners, taken = make_corners(reader.strata, spec.varying, names, facts, spec.sign, marks)
            if isinstance(X, WideMatrix):
                X.refuse_levels(taken)
            check_corners(corners.size, min(sums.n_rows, BATCH_ROWS))
            average = corners.average(sums.corners / sums.n_rows, sums.means(X)[taken])
            self = self._around(corners, tuple(taken), Mixture(corners, average))
        self._check(sums, X, names, [f"stratum {label}" for label in (reader.strata or ())[1:]])
        return self

    def without(self, names: Collection[str]) -> Structure:
        """Return the structure without these covariates, strata and varying effects."""
        left = [j for j, name in enumerate(self.names) if name not in names]
        kept, marks = tuple(self.names[j] for j in left), tuple(self.marks[j] for j in left)
        mixture = None if self.mixture is None else self.mixture.without(names)
        return replace(self, spec=self.spec.for_columns(self.names, kept), names=kept, marks=marks, mixture=mixture)

    def of_part(self, sums: ColumnSums, X: Matrix) -> Structure:
        """Return the structure of some of the rows, with the corners of all; X comes without the columns taken up."""
        made, beside = replace(self, kept=tuple(range(len(self.names)))), list[str]()
        if self.mixture is not None:
            corners, average = self.mixture.corners, sums.corners[None, :] / sums.n_rows
            corners.check(average)
            made, beside = replace(made, mixture=Mixture(corners, average)), list(corners.level_names)
        made._check(sums, X, self.names, beside)
        return made

    def _around(self, corners: Corners, taken: tuple[int, ...], mixture: Mixture) -> Structure:
        corners.check(mixture.weights)
        kept = tuple(j for j in self.kept if j not in taken)
        names, marks = tuple(self.names[j] for j in kept), tuple(self.marks[j] for j in kept)
        return replace(self, names=names, marks=marks, kept=kept, taken=taken, mixture=mixture)

    def _check(self, sums: ColumnSums, X: Matrix, names: tuple[str, ...], beside: list[str]) -> None:
        """Refuse covariates that are constant or collinear and have no penalty; ``names`` are those of all."""
        own = np.ones(len(names) + len(beside), dtype=bool)
        penalty = self.penalty(sums)  # its factors are checked with or without a penalty
        if self.spec.penalised(self.marks):
            own[list(self.kept)] = penalty.free
        ends = zip(names, sums.low, sums.high, strict=True)
        check_size(int(own.sum()), sums.n_rows, lambda: [name for name, low, high in ends if low == high])
        at = numbers_of(X)[1]
        constant = still(sums.low[at], sums.high[at], sums.units.centre[at])
        constant = np.append(constant, np.zeros(len(beside), dtype=bool))
        if isinstance(X, WideMatrix) and isinstance(sums.sums, WideSums):
            numbers, sparse = ([names[j] for j in places.tolist()] for places in (X.dense_at, X.sparse_at))
            sums.sums.check(X, names, (*numbers, *beside, *sparse), constant)
            check_level_ends(self.spec.outcome, sums.ends, X, names)
        else:
            sums.sums.check((*names, *beside), constant, own)

    def penalty(self, sums: ColumnSums, added: tuple[tuple[str, ...], Marks] = ((), ())) -> Penalty:
        """Return the penalty on the coefficients of the covariates, and on what parts of the model ``added``."""
        mean, deviation = sums.weighted()[:, list(self.kept)]
        known = Known(self.spec.sign * mean, deviation)
        return self.spec.penalty(self.names, self.marks, added=added, known=known)
