"""New rows under a fitted model: their covariates checked against those of the fit, and what h is made of in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.frames import aligned, is_frame, native, select
from anchortm.engine.objective.scale_effects import scale_columns, scale_residuals, scaled_baseline
from anchortm.engine.preparation import one_column, row_offset
from anchortm.engine.result import FitResult
from anchortm.engine.rows.laplace import marginal_rows
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.engine.rows.quadrature import MovedRows
from anchortm.engine.rows.shift_law import ShiftLaw
from anchortm.engine.specification import Specification, named_columns
from anchortm.exceptions import AnchorTMWarning, InputError, UnavailableError
from anchortm.inputs.baselines import Mixture, cluster_labels, coded, stratum_codes, stratum_labels
from anchortm.inputs.clusters import Clusters
from anchortm.inputs.design import Design, check_columns, columns_of, split_columns, to_design, without_anchors
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.judging import judged_table
from anchortm.inputs.judgement import Judgement, OnBadRows, Unknown, check_policy, warn_of_mapped
from anchortm.inputs.missing import columns_of_inputs, rows_taken
from anchortm.inputs.response import Response, as_response
from anchortm.inputs.transformed import refused_rows, transformed
from anchortm.inputs.two_terms import Intercepts, TwoTerms, make_two_terms
from anchortm.predict.placed_rows import PlacedRows
from anchortm.predict.reading import ReadRows, entries, entries_of, judged_design, remedies, row_count

__all__ = ["NO_OUTCOME", "NewRows"]

NO_OUTCOME = "y is None: pass the outcome of the rows, or fit by a formula and pass the table alone"

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NewRows(PlacedRows):
    """What turns new rows into the numbers that a fitted model needs."""

    spec: Specification
    result: FitResult
    formula: Formula | None = None
    f: Callable[[Array], Array] | None = None  # a function of the covariates that is added to x'beta: trees
    transformers: tuple[Any, ...] = ()  # fitted steps of a pipeline, which rows pass first
    law: ShiftLaw | None = None  # law of the shift of the rows' place, over which predictions are averaged

    def covariates(self, X: Any) -> Any:
        """Return X, or the covariates that the formula or the transformers of a pipeline make of a table."""
        if self.transformers and not isinstance(X, Design):  # not transformed yet
            return transformed(X, self.transformers, self.result.columns is not None)
        return X if self.formula is None or X is None or isinstance(X, Design) else self.formula.design(X)

    @property
    def strata(self) -> Sequence[Any]:
        """The strata that the fit knows."""
        corners = self.result.corners
        return () if corners is None or corners.strata is None else corners.strata.labels

    def read(
        self, X: Any, n_rows: int | None, unknown: Unknown = "error", conditional: bool = False, **numbers: Any
    ) -> ReadRows:
        """Return new rows, judged one by one: the covariates of good rows, and what is wrong with the others.

        Parameters
        ----------
        X : array, frame or None
            As for ``predict_distribution``.
        n_rows : int, optional
            Number of rows if X is None and ``numbers`` do not tell.
        unknown : {"error", "baseline", "rare"}
            How unknown levels of covariates are read.
        conditional : bool
            Whether clusters are needed.
        **numbers
            Other arguments with a number for each row: offset, trials.
        """
        if unknown != "error" and self.transformers:
            raise InputError(
                f'unknown="{unknown}" is for levels that a formula reads, and here the transformers of a pipeline read '
                'them: set handle_unknown of the encoder, such as OneHotEncoder(handle_unknown="ignore"), and fit again'
            )
        aligned(X=X, **numbers)
        given = self._with_offset(numbers)
        if X is not None:
            numbers = {name: entries_of(X, values) for name, values in given.items()}
        judgement = Judgement(row_count(X, numbers, n_rows), unknown)
        for name, values in numbers.items():
            if np.ndim(values) == 1 and len(values) == judgement.n_rows:  # others are refused where they are used
                called = given[name] if isinstance(given[name], str) else name
                numbers[name] = judgement.numbers(called, np.asarray(values))
        if X is None:
            design = None
        elif self.formula is not None:
            design = judged_table(self.formula, X, judgement, self.strata, conditional)
        else:
            design = self._judged_behind(X, judgement, conditional)
        return self._without_odd(ReadRows(design, numbers, judgement))

    def _without_odd(self, read: ReadRows) -> ReadRows:
        """Return the rows without those whose dummies have effects that vary, and are not 0 or 1."""
        names, corners, design = self.result.covariate_names, self.result.corners, read.X
        for group in () if corners is None else corners.varying:
            if design is not None:
                check_columns(design, names, self.result.columns is not None, self.spec.model)
                odd = group.odd(columns_of(design.matrix, [names.index(name) for name in group.names]))
                read = read.without(odd, f"{', '.join(group.names)} should be 0 or 1")
                design = read.X
        return read

    def answer(
        self,
        work: Callable[..., Any],
        X: Any,
        n_rows: int | None,
        on_bad_rows: OnBadRows,
        unknown: Unknown,
        conditional: bool = False,
        **numbers: Any,
    ) -> Any:
        """Return ``work(X, n_rows, **numbers)``, with bad rows marked or unknown levels mapped if that is asked for.

        This is the one place where predictions deal with bad rows; arguments as for ``read``.
        """
        if not check_policy(on_bad_rows, unknown):
            with remedies(lambda: _columns(self, X, numbers), lambda: row_count(X, numbers, n_rows)):
                return work(X, n_rows, **numbers)
        read = self.read(X, n_rows, unknown, conditional, **numbers)
        if on_bad_rows == "error":
            read.judgement.check()
        warn_of_mapped(read.judgement.mapped)
        found = read.ask(work)
        return found if on_bad_rows == "error" else read.marked(found)

    def split(self, X: Any) -> tuple[Any, Sequence[Any] | None]:
        """Return the covariates of new rows, which need no anchors and no clusters, and their strata."""
        X, taken = self._apart(self.covariates(X))
        return X, None if taken is None else stratum_labels(taken)

    def _apart(self, X: Any) -> tuple[Any, Any]:
        """Return the covariates of new rows, and the columns of their strata."""
        anchors, strata = (named_columns(getattr(self.spec, what), what) for what in ("anchor_names", "strata"))
        n_columns = self.result.n_features_in
        unused = [*anchors, *self.spec.cluster]
        if unused and X is not None:
            X = without_anchors(X, unused, n_columns)
        if not strata:
            return X, None
        positions = all(isinstance(name, (int, np.integer)) for name in strata)  # among all columns of the fit
        if positions and not isinstance(X, Design):
            strata = [name - sum(other < name for other in unused) for name in strata]
        return split_columns(X, strata, "strata")

    def _judged_behind(self, X: Any, judgement: Judgement, conditional: bool) -> Design:
        """Return the covariates of the good rows of X, after judging all columns behind the transformers.

        Transformers may fill in missing values, but refuse tables with infinite ones. Rows that they refuse for other
        reasons are found by trying.
        """
        if not self.transformers or isinstance(X, Design):
            return self._judged(X, judgement, conditional)
        used = getattr(self.transformers[0], "feature_names_in_", None)
        for name, column in () if sp.issparse(X) else entries(native(X)):
            values = np.asarray(column)
            if values.dtype.kind == "f" and (used is None or name in used):
                judgement.refuse(np.isinf(values), f"{name} is infinite")
        made, rows = self._behind(X, judgement)
        if rows.size == 0:
            return self._no_rows()
        behind = Judgement(rows.size, judgement.unknown)
        design = self._judged(made, behind, conditional)
        judgement.join(behind, rows)
        return design

    def _behind(self, X: Any, judgement: Judgement) -> tuple[Any, NDArray[np.intp]]:
        """Return what the transformers make of the good rows of X, and these rows; those that they refuse are bad."""
        rows = np.arange(judgement.n_rows)[judgement.good]
        if rows.size == 0:  # which transformers refuse
            return None, rows
        try:
            return self.covariates(rows_taken("X", X, judgement.n_rows, rows)), rows
        except InputError as error:
            for reason, places in refused_rows(error, X, judgement.n_rows, self.transformers, rows).items():
                judgement.refuse(places, reason)
            if judgement.n_good == rows.size:
                raise  # they refuse no row alone
        return self._behind(X, judgement)

    def _no_rows(self) -> Design:
        """Return the covariates of no rows."""
        import pandas as pd

        names = self.result.covariate_names
        beside = [*named_columns(self.spec.strata, "strata"), *self.spec.cluster]
        labels = pd.DataFrame({name: np.zeros(0, dtype=np.intp) for name in beside}) if beside else None
        return Design(np.zeros((0, len(names))), tuple(names), self.result.columns is not None, None, labels)

    def _judged(self, X: Any, judgement: Judgement, conditional: bool) -> Design:
        """Return the covariates of the good rows of X, after judging all columns."""
        import pandas as pd

        X = native(X)
        rest, taken = self._apart(X)
        labels: dict[Any, Any] = {}
        if taken is not None:
            names = named_columns(self.spec.strata, "strata")
            labels = {name: column for name, (_, column) in zip(names, entries(taken), strict=True)}
            judgement.strata(pd.DataFrame(labels), stratum_labels, self.strata)
        for name in self.spec.cluster if conditional else ():
            labels[name] = next(column for _, column in entries(split_columns(X, [name], "random")[1]))
            judgement.refuse(np.asarray(pd.isna(labels[name])), f"{name} is missing")
        if isinstance(X, Design):
            own = None if X.labels is None else X.labels.iloc[judgement.good]
            return X._replace(matrix=X.matrix[judgement.good], labels=own)
        design = judged_design(rest, judgement)
        return design._replace(labels=pd.DataFrame(labels).iloc[judgement.good] if labels else None)

    def take_apart(self, X: Any, n_rows: int | None) -> tuple[Design, Mixture | None]:
        """Return the covariates of new rows, checked against those of the fit, and their shares in baselines."""
        result, corners = self.result, self.result.corners
        X, labels = self.split(X)
        design = to_design(X, n_rows, wide=True)
        check_columns(design, result.covariate_names, result.columns is not None, self.spec.model)
        if corners is None:
            return design, None
        known = corners.strata
        codes = None if known is None or labels is None else stratum_codes(labels, known.labels)
        places = [result.covariate_names.index(name) for name in corners.varying_names]
        weights = corners.weights(codes, columns_of(design.matrix, places))
        return design.without(places), Mixture(corners, weights)

    def design(self, X: Any, n_rows: int | None = None) -> Design:
        """Return the covariates of new rows that shift h."""
        return self.take_apart(X, n_rows)[0]

    def matrix(self, X: Any, n_rows: int | None = None) -> Array:
        """Return the same as an array of numbers."""
        return np.asarray(to_design(self.design(X, n_rows)).matrix)

    def _with_offset(self, numbers: dict[str, Any]) -> dict[str, Any]:
        """Return these arguments; an offset that is not given is the column that the formula names."""
        given = numbers.get("offset")
        return numbers | {"offset": self.formula.offset if given is None and self.formula is not None else given}

    def offset(self, X: Any, offset: Any) -> Any:
        """Return the offset of new rows: as given, from the column that the fit named, or none with a warning."""
        if self.formula is not None and X is not None:
            offset = self._with_offset({"offset": offset})["offset"]
        offset = Formula.new_column(X, offset)
        if offset is None and self.result.had_offset:
            warn(
                "the fit had an offset and these rows have none: pass offset= (0 says that none is meant)",
                AnchorTMWarning,
            )
        return offset

    def parts(self, X: Any, n_rows: int | None, offset: Any) -> tuple[Array, Array]:
        """Return the baseline, of all rows or one for each, and the shift of each row: x'beta plus the offset."""
        aligned(X=X, offset=offset)
        offset, result = self.offset(X, offset), self.result
        if X is None and n_rows is None and offset is not None:
            n_rows = np.size(offset)
        design, mixture = self.take_apart(X, n_rows)
        shift: Array = design.matrix @ result.coef
        if self.f is not None:
            shift = shift + self.f(np.asarray(to_design(design).matrix))
        extra = row_offset(offset, shift.size)
        theta = result.baseline if mixture is None else mixture.thetas(result.baseline)
        if result.scale is not None:
            columns = scale_columns(result.scale.names, result.coef_names)
            theta = scaled_baseline(theta, columns_of(design.matrix, columns), result.scale.coef)
        return theta, result.sign * (shift if extra is None else shift + extra)

    def response(self, X: Any, y: Any) -> Response:
        """Return the outcome of rows, from the table where none is given."""
        if y is None:
            if self.formula is None:
                raise InputError(NO_OUTCOME)
            y = self.formula.outcome(X)
        self.spec.check_outcome(y)
        return as_response(one_column(y), self.spec.outcome, self.result.basis.levels)

    def outcome_and_parts(self, X: Any, y: Any, offset: Any) -> tuple[Response, Array, Array]:
        """Return the outcome of rows, their baseline and their shift."""
        aligned(X=X, y=y, offset=offset)
        response = self.response(X, y)
        theta, shift = self.parts(X, len(response), offset)
        if shift.size != len(response):
            raise InputError(f"X has {shift.size} rows, but y has {len(response)}: pass the same rows of both")
        return response, theta, shift

    def logliks(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        """Return log-likelihood and residual of each row, averaged over the shift of their place if it is random."""
        result = self.result
        if self.law is not None and which == "shift":
            return self.shifted(X, y, offset).averages(self.law)
        response, theta, shift = self.outcome_and_parts(X, y, offset)
        terms = build_terms(result.basis, response)
        if result.random is not None:
            return self.marginal(X, MovedRows(result.link, terms, theta, shift))
        loglik, r = loglik_and_residuals(result.link, terms, theta, shift)
        return loglik, r if which == "shift" else scale_residuals(result.link, terms, theta, shift)

    def marginal(self, X: Any, values: Any) -> tuple[Array, Array]:
        """Return log-likelihood and residual of rows from their ``values`` at given random effects."""
        clusters, random = self.clusters(X), self.result.random
        assert random is not None  # noqa: S101
        signed = clusters._replace(Z=self.result.sign * clusters.Z, n_nodes=random.n_nodes)
        return marginal_rows(values, signed, random.tau)

    def effect_nodes(self, X: Any, n_rows: int, conditional: bool) -> tuple[Array, Array]:
        """Return what random effects add to the shift of new rows at nodes of shape (n, K), and the nodes' weights.

        Rows belong to new clusters; if ``conditional``, to those that X names, as far as the fit knows them.
        """
        random = self.result.random
        if conditional or random is None:
            clusters: Any = self.clusters(X)  # raises an error without random effects
            assert random is not None  # noqa: S101
            return random.conditional(clusters)
        return random.marginal(self.effect_columns(X, n_rows))

    def effect_columns(self, X: Any, n_rows: int) -> Array:
        """Return the columns z of the random effects of new rows."""
        random = self.result.random
        assert random is not None  # noqa: S101
        return random.effects.columns(self.result.coef_names, self.matrix(X, n_rows))

    def clusters(self, X: Any) -> Clusters | TwoTerms:
        """Return the clusters of new rows; X must have their columns."""
        if self.result.random is None:
            raise UnavailableError("this model has no random effects: name clusters in random, or write (1 | cluster)")
        effects, columns = self.result.random.effects, [self._cluster_labels(X, own) for own in self.spec.cluster]
        labels = [own for own in columns if own is not None]
        if len(labels) < len(columns):
            lacking = [str(name) for name, own in zip(self.spec.cluster, columns, strict=True) if own is None]
            raise InputError(
                f"X has no column {' and '.join(lacking)} of clusters: rows of one belong together, so they are needed "
                "here"
            )
        if isinstance(effects, Intercepts):
            return make_two_terms(labels, effects)
        known, codes = coded(labels[0])
        Z = effects.columns(self.result.coef_names, self.matrix(X))
        return Clusters(codes, tuple(known), Z, effects)

    def _cluster_labels(self, X: Any, column: Any) -> Sequence[Any] | NDArray[np.intp] | None:
        """Return the cluster of each new row in one column, or None if X has no such column."""
        X = native(self.covariates(X))
        if isinstance(X, Design):
            X = X.labels
        if is_frame(X):
            return cluster_labels(X[[column]]) if column in list(X.columns) else None
        if X is None or np.ndim(X) != 2 or np.shape(X)[1] != self.result.n_features_in:
            return None
        return cluster_labels(split_columns(X, [column], "random")[1])


def _columns(rows: NewRows, X: Any, numbers: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the columns of new rows in which no value may be missing; transformers may fill in those of X."""
    if rows.formula is not None and X is not None:
        X = select(native(X), [*rows.formula.covariate_columns, *rows.formula.strata])
    yield from columns_of_inputs({}, **({} if rows.transformers else {"X": X}), **numbers)
