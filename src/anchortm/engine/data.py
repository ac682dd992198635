"""The checked inputs of one fit with rows in memory, and the description of them in a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm._util.threads import usual_threads
from anchortm.bases import Basis
from anchortm.engine.environment_weights import RowWeighing, Weighting
from anchortm.engine.lost_columns import Lost
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.standardised import column_sums
from anchortm.exceptions import rows_of
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.baselines import Mixture, known_strata, stratum_codes
from anchortm.inputs.clusters import Clusters
from anchortm.inputs.design import Design, Matrix, WideMatrix, columns_of
from anchortm.inputs.missing import Counts, Missing
from anchortm.inputs.response import Response, as_response
from anchortm.inputs.splines import Marks
from anchortm.inputs.two_terms import TwoTerms

__all__ = ["About", "Data", "Strata", "binary_columns", "drop_empty_classes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class About:
    """The description of the rows in a result."""

    names: tuple[str, ...]
    marks: Marks  # the smooth term of each column, if any
    columns_given: tuple[str, ...] | None
    kinds: dict[str, int]  # numbers of exact, left-, right- and interval-censored rows
    time: bool
    float_codes: tuple[str, ...]
    dropped: tuple[Any, ...]
    alphabetical: bool
    binary: list[bool]
    had_offset: bool
    fingerprint: Array
    covariate_ranges: Array | None  # smallest and largest value of each column
    outcome_range: tuple[float, float]
    missing: Counts  # rows that were dropped
    outcome_name: str | None  # what the outcome is called


class Strata(NamedTuple):
    """The stratum or the environment of each row, and the names of all of them."""

    codes: NDArray[np.intp]
    labels: tuple[Any, ...]

    @classmethod
    def of(cls, labels: Sequence[Any]) -> Strata:
        """Return strata by their names."""
        known = known_strata(labels)
        return cls(stratum_codes(labels, known), tuple(known))

    def take(self, rows: Any) -> Strata:
        """Return the strata of these rows, under the same codes."""
        return Strata(self.codes[rows], self.labels)


class Data(NamedTuple):
    """The checked inputs of one fit."""

    response: Response
    design: Design
    anchors: AnchorColumns | None
    weights: Array | None
    offset: Array | None
    dropped: tuple[Any, ...]
    columns_given: tuple[str, ...] | None = None  # names of the columns of X, including anchors
    alphabetical: bool = False  # whether classes are words in alphabetical order
    kept: NDArray[np.bool_] | None = None  # rows that are used, if some have weight zero or missing values
    covariate_ranges: Array | None = None  # smallest and largest value of each column
    mixture: Mixture | None = None  # weights of each row on the baselines of strata and varying effects
    strata: Strata | None = None  # strata of a partial likelihood
    clusters: Clusters | TwoTerms | None = None  # clusters with random effects
    index: Any = None  # pandas index of all rows
    near: tuple[int, ...] = ()  # nearly collinear covariates
    share: float = 1.0  # smallest unexplained fraction of the deviation of one of them
    missing: Missing | None = None  # rows that were dropped because values are missing
    lost: tuple[Lost, ...] = ()  # columns that were left out because these rows do not identify them
    environments: Strata | None = None  # the environments that the user gave
    weighting: Weighting | None = None  # rules for the weights of environments

    @property
    def rows_used(self) -> NDArray[np.intp]:
        """Return the positions of these rows among those that the user passed."""
        if self.missing is not None and self.missing.rows is not None:
            return self.missing.rows
        return np.arange(len(self.response)) if self.kept is None else np.flatnonzero(self.kept)

    def numbered(self) -> Data:
        """Return the inputs with the positions of their rows, which parts of them keep."""
        counts = Counts(self.n_given) if self.missing is None else self.missing.counts
        return self._replace(missing=Missing(counts, self.rows_used))

    def at_given(self, rows: NDArray[np.intp]) -> tuple[int, NDArray[np.intp]]:
        """Return how many rows a question was given, and where some of the rows that are used are among them.

        Rows with missing values are no longer among the given ones, those of weight 0 are.
        """
        if self.kept is None:
            return len(self.response), rows
        return self.kept.size, np.flatnonzero(self.kept)[rows]

    @property
    def n_given(self) -> int:
        """Return the number of rows that the user passed."""
        if self.missing is not None:
            return self.missing.counts.n_rows
        return len(self.response) if self.kept is None else self.kept.size

    @property
    def places(self) -> Strata | None:
        """Return the environments: as given, or the anchor if it is the only one and a factor."""
        anchors = self.anchors
        if self.environments is not None or anchors is None:
            return self.environments
        if len(anchors.factors) != 1 or anchors.columns.shape[1]:
            return None
        return Strata(anchors.factors[0], tuple(anchors.levels[0].tolist()))

    @property
    def weighing(self) -> RowWeighing:
        """Return what weights of environments mean for these rows."""
        return RowWeighing(self)

    @property
    def in_memory(self) -> bool:
        """Return True: the rows are in memory, not read in batches."""
        return True

    @property
    def afar(self) -> bool:
        """Return False: the rows can be evaluated here."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the covariates that shift h."""
        return self.design.names

    @property
    def marks(self) -> Marks:
        """Return the smooth term of each covariate, if any."""
        return self.design.marks

    @property
    def support(self) -> None:
        """Return None: the support of the basis is computed from the rows."""
        return

    def take(self, rows: Any) -> Data:
        """Return the inputs for these rows, without anchor levels that no longer occur."""
        return Data(
            self.response[rows],
            self.design._replace(matrix=self.design.matrix[rows]),
            None if self.anchors is None else self.anchors.subset(rows),
            None if self.weights is None else self.weights[rows],
            None if self.offset is None else self.offset[rows],
            (),
            mixture=None if self.mixture is None else self.mixture.take(rows),
            strata=None if self.strata is None else self.strata.take(rows),
            clusters=None if self.clusters is None else self.clusters.take(rows),
            near=self.near,
            missing=None if self.missing is None else self.missing.take(rows),
            environments=None if self.environments is None else self.environments.take(rows),
            weighting=self.weighting,
        )

    def repeated(self, columns: Sequence[int], factor: float, names: tuple[str, ...]) -> Data:
        """Return the inputs with some covariates once more, times a factor, after the others."""
        X = self.design.matrix
        return self._replace(design=Design(np.hstack([X, factor * X[:, columns]]), names, self.design.named))

    def subset(self, rows: Any) -> Data:
        """Return the inputs for these rows, without classes and anchor levels that no longer occur."""
        part = self.take(rows)
        response, dropped = drop_empty_classes(part.response)
        return part._replace(response=response, dropped=dropped)

    def without(self, names: Sequence[str], beside: tuple[str, ...] = ()) -> Data:
        """Return the inputs without these covariates, strata and varying effects; they are collinear with others."""
        design, mixture = self.design, self.mixture
        places = [j for j, name in enumerate(design.names) if name in names]
        absent = {design.names[j] for j in places if not columns_of(design.matrix, [j]).any()}
        if mixture is not None:
            absent |= mixture.corners.empty(mixture.weights.sum(axis=0))
            mixture = mixture.without(names)
        lost = (Lost(name, name in absent, beside) for name in names)
        return self._replace(design=design.without(places), mixture=mixture, lost=(*self.lost, *lost))

    def objective(
        self,
        link: Any,
        basis: Basis,
        sign: float,
        anchor_intercept: bool = True,
        n_jobs: int | None = None,
        coordinates: Coordinates | None = None,
    ) -> Objective:
        """Return the anchor loss of these rows, in new coordinates or in the given ones."""
        if self.mixture is not None:
            self.mixture.corners.check(self.mixture.weights)
        weighing = self.weighing
        with rows_of(None if self.kept is None and self.missing is None else self.rows_used):
            return build_objective(
                link,
                basis,
                self.response,
                self.design.matrix,
                self.anchors,
                weighing.case_weights,
                self.offset,
                sign,
                anchor_intercept,
                n_jobs=usual_threads(len(self.response)) if n_jobs is None else n_jobs,
                names=self.design.names,
                coordinates=coordinates,
                mixture=self.mixture,
                reweighing=weighing.reweighing,
            )

    def thetas(self, theta: Array) -> Array:
        """Return the baseline of each row, or the one that all rows share."""
        return theta if self.mixture is None else self.mixture.thetas(theta)

    @property
    def typical(self) -> tuple[Response, Array | None]:
        """Return the outcomes and weights that start values are computed from: all of them."""
        return self.response, self.weights

    def without_wide(self) -> Data:
        """Return the inputs with all covariates as columns of numbers."""
        X = self.design.matrix
        return self._replace(design=self.design._replace(matrix=X.toarray())) if isinstance(X, WideMatrix) else self

    def fingerprint(self) -> Array:
        """Return a checksum of the covariates; it detects that a user changed them in place."""
        X = self.design.matrix
        X = X.dense if isinstance(X, WideMatrix) else X  # the other columns are our own copies
        return np.concatenate([column_sums(X), X[0], X[-1]]) if X.size else np.zeros(0)

    def about(self) -> About:
        """Return the description of these inputs for a result."""
        return About(
            self.design.names,
            self.design.marks,
            self.columns_given,
            self.response.counts(),
            self.response.scale == "time",
            () if self.anchors is None else self.anchors.float_codes(),
            self.dropped,
            self.alphabetical,
            binary_columns(self.design.matrix),
            self.offset is not None,
            self.fingerprint(),
            self.covariate_ranges,
            self.response.reach(),
            Counts() if self.missing is None else self.missing.counts,
            self.response.name,
        )


def binary_columns(X: Matrix) -> list[bool]:
    """Return which columns are 0 or 1 in all rows; the first 100 rows rule out most columns."""
    if isinstance(X, WideMatrix):
        result = np.ones(X.shape[1], dtype=bool)
        result[X.dense_at] = binary_columns(X.dense)
        result[X.sparse_at] = [bool(np.isin(column.data, (0.0, 1.0)).all()) for column in X.sparse.T.tocsr()]
        return result.tolist()
    first = X[:100]
    result = ((first == 0.0) | (first == 1.0)).all(axis=0)
    for j in np.flatnonzero(result):
        result[j] = ((X[:, j] == 0.0) | (X[:, j] == 1.0)).all()
    return result.tolist()  # type: ignore[no-any-return]


def drop_empty_classes(response: Response) -> tuple[Response, tuple[Any, ...]]:
    """Return an ordinal response without its empty classes, and the empty classes."""
    if response.levels is None:
        return response, ()
    seen = np.bincount(response.codes, minlength=len(response.levels)) > 0
    if seen.all():
        return response, ()
    kept = [level for level, here in zip(response.levels, seen, strict=True) if here]
    gone = tuple(level for level, here in zip(response.levels, seen, strict=True) if not here)
    return as_response(response, "ordinal", kept), gone
