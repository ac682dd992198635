"""What every estimator does: check its inputs once, solve, keep and tell the result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from anchortm._messages import warn
from anchortm._util.checks import (
    check_weights,
    flag,
    generator,
    jobs,
    level_between,
    one_number,
    real_numbers,
    whole_number,
)
from anchortm._util.frames import aligned, is_frame, native
from anchortm._util.threads import one_blas_thread
from anchortm.backends.sources import open_source
from anchortm.backends.streamed import Stream
from anchortm.bases import Basis, OrdinalBasis, baseline_values
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.objective.location_scale import (
    ScaledObjective,
    check_scalable,
    check_scale,
    scale_columns,
    scale_name,
    scaled_baseline,
)
from anchortm.engine.objective.penalised import Net, Penalty, check_strengths, effective_degrees, netted, untangled
from anchortm.engine.objective.plain import Objective
from anchortm.engine.objective.random_effects import MOST_NODES, MixedObjective
from anchortm.engine.problem import Data, drop_empty_classes
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals, start_values
from anchortm.engine.rows.standardised import BLOCK_ROWS
from anchortm.engine.solve.continuation import restarts, solve, with_enough_nodes
from anchortm.engine.solve.identification import (
    HARDLY,
    Checked,
    anchors_explained,
    check_covariates,
    check_kinds,
    check_levels,
)
from anchortm.engine.solve.newton import Options, Solution
from anchortm.exceptions import (
    AnchorTMWarning,
    AnchorWarning,
    ConvergenceWarning,
    IdentificationError,
    InputError,
    InputTypeError,
    SeparationError,
)
from anchortm.inference.covariance import (
    FLAT_CURVATURE,
)
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.baselines import make_mixture, varying_groups
from anchortm.inputs.clusters import make_clusters, named_effects
from anchortm.inputs.design import WIDE, Design, WideMatrix, to_design
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.inputs.response import Response, as_response, sorted_words
from anchortm.inputs.splines import Marks, wiggly
from anchortm.links import Link
from anchortm.models.fitted import FittedModel, one_column, row_offset
from anchortm.predict.distribution import PredictedDistribution

__all__ = ["TransformationModel", "check_model", "model", "tell_alphabetical"]

Array = NDArray[np.float64]

MANY_CLASSES = 30
SCALED = ("scale_coef_", "scale_names_", "xi_scale_", "penalty_scale_")  # what only fits with scale effects have
NO_PENALTY = 1e-20
IDLE = 1e-10  # penalty that may be zero but for rounding
SMALLEST_ATOM = 1e-3  # probability at time 0 that is worth a word


def model(cls: type[Any]) -> type[Any]:
    """Make a constructor from the annotated arguments, xi first and all others by keyword."""
    return dataclass(repr=False, eq=False, kw_only=True)(cls)


@model
class TransformationModel(FittedModel, BaseEstimator):  # type: ignore[misc]
    """What all models share: their inputs and their fit. Subclasses choose link, basis and sign."""

    _sign: ClassVar[float] = -1.0
    _scale: ClassVar[Any] = "continuous"
    _lowest_xi: ClassVar[float] = 0.0
    _takes_trials: ClassVar[bool] = False
    _varies: ClassVar[bool] = True  # effects can, along the response
    _effect: ClassVar[str] = ""
    _remedy: ClassVar[str] = "raise max_iter, or look at history_"  # of a fit that did not converge

    xi: float = field(default=0.0, kw_only=False)
    anchor_intercept: bool = True
    anchor_names: Any = None
    strata: Any = None
    varying: Any = None
    random: Any = None
    n_nodes: int | None = None
    tol: float = 1e-8
    max_iter: int = 200
    n_jobs: int | None = None
    verbose: int = 0
    n_restarts: int = 0
    random_state: Any = None
    start: Any = None
    scale: Any = None
    xi_scale: float | None = None
    l1: float = 0.0
    l2: float = 0.0
    penalty_factor: Any = None
    smooth: float = 0.01

    def _make_link(self) -> Link:
        raise NotImplementedError

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, *, anchors: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model by minimising the anchor loss.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n, p), or None
            Covariates. None gives an unconditional model. Sparse columns stay sparse, and dummies of a factor with
            more than 100 levels that stand side by side are held as codes.
        y : array, Response or ordered categorical
            The outcome; see ``Surv`` and ``Interval`` for censored ones.
        anchors : array, series, frame or list of columns, optional
            What marks where rows come from. Integers, booleans, strings and categories are
            factors, floats are numeric columns. Needed for xi other than 0.
        sample_weight : array of non-negative numbers, optional
            Weights replicate rows.
        offset : array, optional
            Joins x'beta with coefficient 1.

        Rows are matched by position. Where two of these have pandas indexes with different labels, or the same labels
        in another order, they are refused.

        Returns
        -------
        self

        See Also
        --------
        anchortm.Surv, anchortm.Interval : censored outcomes

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear(xi=10.0).fit(data[["rm", "lstat"]], data.cmedv, anchors=data.town)
        >>> model.slope_.round(2)
        array([ 5.55, -0.75])
        """
        xi = self._check_xi()
        self._check_limits()
        if y is None:
            raise InputError("requires y to be passed, but the target y is None: fit(X, y)")
        return self._fit(self._prepare(X, y, anchors, sample_weight, offset), xi)

    def _fit(self, data: Data | Stream, xi: float) -> Self:
        if data.anchors is None and (xi != 0.0 or self.xi_scale):
            asked = f"xi = {xi:g}" if xi else f"xi_scale = {self.xi_scale:g}"
            raise InputError(
                f"{asked} needs anchors: pass fit(..., anchors=...), name them after '|' in a formula, or use xi=0"
            )
        link = self._make_link()
        if isinstance(data, Stream) and data.support is not None and getattr(self, "support", 0) is None:
            basis = clone(self).set_params(support=data.support)._make_basis(data.response, data.weights)
        else:
            basis = self._make_basis(data.response, data.weights)
        objective = self._objective(link, basis, data)
        with self._threads(objective):
            solution, others = self._solve(objective, basis, data, xi)
        fitted = copy(self)
        fitted._store(link, basis, data, objective, solution, others)
        fitted._tell()
        self.__dict__ = fitted.__dict__  # at once: a fit that is interrupted or refused leaves the model as it was
        return self

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any) -> Formula:
        """Fit to a table that is read in batches, and return the formula as new rows need it."""
        xi = self._check_xi()
        self._check_limits()
        parsed = parse_formula(formula)
        if self.strata is not None or self.varying is not None or parsed.strata or parsed.random is not None:
            raise InputError("strata, varying and random effects take a table in memory: read it first")
        if self.scale is not None:
            raise InputError("scale effects need the rows in memory: read the table first, or leave scale out")
        source = open_source(data, _n_jobs(self.n_jobs), True if self.verbose else None)
        levels = self._fixed_levels()
        stream = Stream(formula, source, self._scale, levels, sample_weight, offset, self.anchor_intercept)
        self._fit(stream, xi)
        self.n_passes_ = source.passes
        return stream.reader.formula

    def _check_xi(self) -> float:
        xi = one_number(self.xi, "xi")
        if self.random is not None and not 0.0 <= xi < math.inf:
            raise InputError(f"with random effects xi is from 0 to a large finite number, not {self.xi}")
        if math.isnan(xi) or xi < self._lowest_xi:
            raise InputError(
                f"xi must be at least {self._lowest_xi:g}, not {self.xi}"
                + ("" if self._lowest_xi else "; only NormalLinear takes values from -1/2")
            )
        check_scale(self.scale, self.xi_scale, xi)
        return xi

    def _check_limits(self) -> None:
        whole_number(self.max_iter, "max_iter", 1)
        whole_number(self.n_restarts, "n_restarts", 0)
        level_between(self.tol, "tol")
        flag(self.anchor_intercept, "anchor_intercept")
        whole_number(int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, "verbose", 0)
        jobs(self.n_jobs)
        generator(self.random_state)
        check_strengths(l1=self.l1, l2=self.l2, smooth=self.smooth)
        others = self._asked("strata", "varying", "l1", "l2")
        if self.scale is not None and others:
            raise InputError(f"scale does not go with {' and '.join(others)}: leave one of them out")
        self._check_random()

    def _asked(self, *names: str) -> list[str]:
        """Return which of these arguments ask for something."""
        given = {
            "strata": self._named("strata"),
            "varying": varying_groups(self.varying),
            "scale": self.scale is not None,
            "l1": self.l1 != 0.0,
            "l2": self.l2 != 0.0,
        }
        return [name for name in names if given[name]]

    def _prepare(self, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any) -> Data:
        """Check the inputs once; drop rows of weight zero."""
        index = aligned(X=X, y=y, anchors=anchors, sample_weight=sample_weight, offset=offset)
        X, y = native(X), native(y)
        columns_given = list(X.columns) if is_frame(X) else list(X.names) if isinstance(X, Design) and X.named else None
        if self.anchor_names is not None and anchors is not None:
            raise InputError("give anchors to fit, or anchor_names to the constructor, not both")
        X, anchors_named, labels, clusters = self._split_off(X)
        anchors = anchors if anchors_named is None else anchors_named
        response = as_response(one_column(y), self._scale, self._fixed_levels())
        if response.trials is not None and not self._takes_trials:
            raise InputTypeError('Trials are for binomial models: take AnchorGLM(family="binomial")')
        design = to_design(X, len(response), wide=True)
        columns = None if anchors is None else anchor_columns(anchors)
        n = len(response)
        sizes = {
            "X": design.matrix.shape[0],
            "anchors": n if columns is None else len(columns),
            "random": n if clusters is None else len(clusters),
        }
        for name, size in sizes.items():
            if size != n:
                raise InputError(f"{name} has {size} rows, but y has {n}: pass the same rows of both")
        weights, shift = check_weights(sample_weight, n), row_offset(offset, n)
        keep = None
        if weights is not None and (weights == 0.0).any():
            keep = weights > 0.0
            response, design = response[keep], design._replace(matrix=design.matrix[keep])
            weights, shift = weights[keep], None if shift is None else shift[keep]
            columns = None if columns is None else columns.subset(keep)
        if len(response) == 1:
            raise IdentificationError("n_samples = 1: a distribution cannot be estimated from one row")
        response, dropped = drop_empty_classes(response)
        check_kinds(response)
        if self._netted(design.marks):
            others = {"scale": self.scale, "random": named_effects(self.random)}
            wrong = [name for name, value in others.items() if value is not None and self._smoothed(design.marks)]
            if wrong:
                raise InputError(f"{wrong[0]} does not go with smooth terms: write bs(x, 4) for s(x), or set smooth=0")
            if isinstance(design.matrix, WideMatrix):
                design = design._replace(matrix=design.matrix.toarray())
        alphabetical = self._fixed_levels() is None and sorted_words(y, response)
        given = tuple(columns_given) if design.named and columns_given is not None else None
        data = Data(response, design, columns, weights, shift, dropped, given, alphabetical, keep, index=index)
        if labels is not None or varying_groups(self.varying):
            labels = labels if labels is None or keep is None else list(compress(labels, keep))
            data = self._with_baselines(data, labels)
        ranges, near, share = self._check_design(data)
        check_levels(response, data.design.matrix, data.design.names)
        if data.mixture is not None:  # of those whose effects vary too
            ranges = np.array([design.matrix.min(axis=0, initial=np.inf), design.matrix.max(axis=0, initial=-np.inf)])
        data = data._replace(covariate_ranges=ranges, near=near, share=share)
        if clusters is None:
            return data
        return self._with_clusters(data, clusters if keep is None else list(compress(clusters, keep)))

    def _check_random(self) -> None:
        """Refuse what random effects do not go with."""
        if self.n_nodes is not None:
            n_nodes = whole_number(self.n_nodes, "n_nodes", 3)
            if n_nodes > MOST_NODES:
                raise InputError(f"n_nodes may be {MOST_NODES} at most, not {n_nodes}")
        if named_effects(self.random) is None:
            return
        others = self._asked("strata", "varying", "scale", "l1", "l2")
        if others:
            raise InputError(f"random effects do not go with {' and '.join(others)}: leave one of them out")

    def _check_design(self, data: Data) -> Checked:
        """Refuse covariates that rows cannot tell apart, or from strata; return what is known of those that shift h."""
        X, names, penalised = data.design.matrix, data.design.names, self._penalised(data.design, data.weights)
        p = len(names)
        if data.clusters is not None:
            data.clusters.check()
        if data.mixture is not None:
            data.mixture.corners.check(data.mixture.weights)
            levels = data.mixture.levels
            X, names = np.hstack([X, levels]), (*names, *data.mixture.corners.level_names)
            penalised = None if penalised is None else np.append(penalised, np.zeros(levels.shape[1], dtype=bool))
        turned = 0 if self.scale is not None or named_effects(self.random) is not None else p
        found = check_covariates(X, names, penalised, turned)
        return Checked(found.ranges[:, :p], tuple(j for j in found.near if j < p), found.share)

    def _with_clusters(self, data: Data, labels: Sequence[Any]) -> Data:
        """Return the inputs with the clusters that share random effects."""
        named = named_effects(self.random)
        assert named is not None  # noqa: S101
        if isinstance(data.design.matrix, WideMatrix):
            raise InputError(f"random effects do not go with a sparse X or factors of more than {WIDE} levels")
        made = make_clusters(labels, *named, data.design.names, data.design.matrix)
        return data._replace(clusters=made._replace(n_nodes=self.n_nodes))

    def _with_baselines(self, data: Data, labels: Sequence[Any] | None) -> Data:
        """Return the inputs with baselines for strata, and covariates whose effects vary among them."""
        matrix, names = data.design.matrix, data.design.names
        if isinstance(matrix, WideMatrix):
            raise InputError(f"strata and varying do not go with a sparse X or factors of more than {WIDE} levels")
        mixture, taken = make_mixture(labels, self.varying, names, matrix, self._sign, data.design.marks)
        return data._replace(design=data.design.without(taken), mixture=mixture)

    def _fixed_levels(self) -> tuple[Any, ...] | None:
        """Return the classes that the model was made with, if it was."""
        return None

    def _objective(self, link: Any, basis: Basis, data: Data | Stream) -> Objective:
        ends = not 0.0 <= self.xi < math.inf
        if ends and isinstance(data, Data):
            data = data.without_wide()  # the ends of the path know no wide factors

        def plain(rows: Data | Stream) -> Objective:
            return self._plain_objective(link, basis, rows)

        if isinstance(data, Data) and data.clusters is not None:
            return self._mixed_objective(data, basis, plain)
        if isinstance(data, Stream):
            if self.l1:
                raise InputError("l1 needs the rows in memory: read the table first, or take l2 alone")
            penalty = self._penalty(data.names, data.marks, None, None)
            return Net.of(plain(data), penalty) if self._netted(data.marks) else plain(data)
        if not self._netted(data.design.marks):
            return untangled(data, plain) if data.near and self.scale is None else plain(data)
        return netted(data, self._design_penalty(data.design, data.weights), plain)

    def _mixed_objective(self, data: Data, basis: Basis, plain: Callable[[Data], Objective]) -> Objective:
        """Return the anchor loss of a model with random effects, with nodes enough."""
        clusters = data.clusters
        assert clusters is not None  # noqa: S101

        def make(n_nodes: int | None) -> Objective:
            return plain(data._replace(clusters=clusters._replace(n_nodes=n_nodes)))

        first = make(clusters.n_nodes)
        if clusters.slack is not None:
            return first
        options = Options(tol=self.tol, max_iter=self.max_iter)
        return with_enough_nodes(first, self._start(first, basis, data), make, options, clusters.n_nodes is not None)

    def _plain_objective(self, link: Any, basis: Basis, data: Data | Stream) -> Objective:
        """Return the anchor loss without an elastic net."""
        if self.scale is None or not isinstance(data, Data):
            return data.objective(link, basis, self._sign, self.anchor_intercept, _n_jobs(self.n_jobs))
        check_scalable(basis, data.design)
        columns = scale_columns(self.scale, data.design.names)
        Z = self._sign * data.design.matrix[:, columns]
        both = data._replace(design=Design(np.hstack([data.design.matrix, Z]), self._names(data), data.design.named))
        plain = both.objective(link, basis, self._sign, self.anchor_intercept, _n_jobs(self.n_jobs))
        return ScaledObjective(plain, len(columns), self._names(data), self.xi_scale)

    def _netted(self, marks: Marks) -> bool:
        """Return whether coefficients have a penalty; ``marks`` say which belong to smooth terms."""
        return bool(self.l1 or self.l2 or self._smoothed(marks))

    def _smoothed(self, marks: Marks) -> bool:
        return bool(self.smooth) and bool(wiggly(marks).any())

    def _penalty(self, names: tuple[str, ...], marks: Marks, X: Any, weights: Array | None) -> Penalty:
        return Penalty.of(self.l1, self.l2, self.smooth, self.penalty_factor, names, X, weights, marks)

    def _design_penalty(self, design: Design, weights: Array | None) -> Penalty:
        return self._penalty(design.names, design.marks, design.matrix, weights)

    def _penalised(self, design: Design, weights: Array | None) -> NDArray[np.bool_] | None:
        """Return which coefficients a penalty determines, whatever the covariates are; None if there is none."""
        penalty = self._design_penalty(design, weights)
        return ~penalty.free if self._netted(design.marks) else None

    def _loglik(self, link: Link, basis: Basis, theta: Array, beta: Array, rows: Data) -> Array:
        """Return the log-likelihood of rows that need not be those of the fit, at these parameters."""
        if self.scale is not None:
            columns = scale_columns(self.scale, rows.design.names)
            theta = scaled_baseline(theta, rows.design.matrix[:, columns], beta[-len(columns) :])
            beta = beta[: -len(columns)]
        p = rows.design.matrix.shape[1]
        shift = rows.design.matrix @ beta[:p]
        shift = self._sign * (shift if rows.offset is None else shift + rows.offset)
        if rows.clusters is not None:
            return self._marginal(link, build_terms(basis, rows.response), theta, shift, rows.clusters, beta[p:])[0]
        return loglik_and_residuals(link, build_terms(basis, rows.response), rows.thetas(theta), shift)[0]

    def _draw(self, data: Data, rng: np.random.Generator) -> Array:
        """Return an outcome of each row drawn from the fitted model, beyond its entry; classes as codes."""
        theta, shift, u = data.thetas(self.baseline_), data.design.matrix @ self.coef_, rng.random(len(data.response))
        if data.offset is not None:
            shift = shift + data.offset
        if data.clusters is not None and self._random is not None:
            shift = shift + self._random.draw(data.clusters, rng)
        shift, entry = self._sign * shift, data.response.entry
        if entry is None:
            return self.basis_.inverse(theta, self.link_.quantile(u) - shift)
        late, known = np.flatnonzero(entry > self.basis_.lower_bound), np.zeros(u.size)
        own = theta if theta.ndim == 1 else theta[late]
        known[late] = self.link_.log_sf(baseline_values(self.basis_.rows(entry[late]), own) + shift[late])
        return self.basis_.inverse(theta, self.link_.quantile_from_log_sf(np.log(u) + known) - shift)

    def _redrawn(self, objective: Objective, data: Data) -> Objective:
        """Return the loss of other outcomes in the coordinates of ``objective``."""
        inner = objective.fixed if isinstance(objective, MixedObjective) else objective
        if isinstance(objective, MixedObjective) and data.clusters is not None:
            data = data._replace(clusters=data.clusters._replace(n_nodes=objective.n_nodes))

        def plain(rows: Data) -> Objective:
            return rows.objective(
                objective.link, self.basis_, self._sign, self.anchor_intercept, coordinates=inner.coordinates
            )

        return untangled(data, plain) if data.near else plain(data)

    def _fitted_link(self, objective: Objective, v: Array) -> Any:
        """Return the link of a solution, with all that was estimated beside the parameters."""
        return objective.link

    def _names(self, data: Data) -> tuple[str, ...]:
        """Return the names of all parameters but the baseline's."""
        names = data.design.names
        effects = () if data.clusters is None else data.clusters.effects.parameter_names()
        return (*names, *(scale_name(names[j]) for j in scale_columns(self.scale, names)), *effects)

    @staticmethod
    def _threads(objective: Objective) -> Any:
        """Keep BLAS to one thread where our blocks are small matrices; not worth its cost for small data."""
        return one_blas_thread() if objective.n_rows > BLOCK_ROWS else nullcontext()

    def _start(self, objective: Objective, basis: Basis, data: Data | Stream) -> Array:
        p = objective.coordinates.n_coefs - objective.start.size
        size = objective.coordinates.matrix.shape[0]  # of all baselines
        if self.start is None:
            theta = start_values(objective.link, basis, *data.typical)
            if isinstance(data, Data) and data.mixture is not None:
                theta = np.tile(theta, data.mixture.corners.n_baselines)
            if objective.begin is not None:
                return objective.begin
            rest = np.append(np.zeros(p), objective.start)
            return objective.coordinates.join(np.pad(theta, (0, size - theta.size)), rest)
        if not isinstance(self.start, (tuple, list)) or len(self.start) != 2:
            raise InputTypeError(f"start must be a pair (baseline, coef), not {self.start!r}")
        theta, beta = (real_numbers(part, "start") for part in self.start)
        if not (np.isfinite(theta).all() and np.isfinite(beta).all()):
            raise InputError("start has values that are not finite; start=None finds its own")
        if theta.shape != (size,) or beta.shape != (p,):
            given = [str(part.size) if part.ndim == 1 else f"shape {part.shape}" for part in (theta, beta)]
            raise InputError(f"start must be (baseline, coef) of lengths {size} and {p}, not {' and '.join(given)}")
        return objective.coordinates.join(theta, np.append(beta, objective.start))

    def _solve(
        self, objective: Objective, basis: Basis, data: Data | Stream, xi: float
    ) -> tuple[Solution, list[Solution]]:
        options = Options(tol=self.tol, max_iter=self.max_iter, verbose=self.verbose)
        start = self._start(objective, basis, data)
        try:
            solution = solve(objective, start, xi, options)
        except (IdentificationError, ArithmeticError) as error:
            if self.start is not None and not math.isfinite(objective.sums(start).loglik):
                raise InputError(
                    "the log-likelihood is not finite at start, nor near it: its baseline must increase, and its "
                    "coefficients must not be far too large; start=None finds its own"
                ) from None
            if not isinstance(error, SeparationError) or not isinstance(data, Data) or data.mixture is None:
                raise
            hint = "a stratum or level may lack outcomes that others have: merge such, or leave strata or varying out"
            raise SeparationError(f"{error}; {hint}") from None
        if self.n_restarts and math.isfinite(xi):
            rng = generator(self.random_state)
            return solution, restarts(objective, solution, self.n_restarts, options, rng)
        return solution, [solution]

    def _store(
        self,
        link: Any,
        basis: Basis,
        data: Data | Stream,
        objective: Objective,
        solution: Solution,
        others: list[Solution],
    ) -> None:
        theta, beta = objective.coordinates.split(solution.v)
        about = data.about()
        self.link_, self.basis_ = link, basis
        self.baseline_, self.coef_ = theta, beta[: len(about.names)]
        self.coef_names_ = list(about.names)
        self._corners = None if isinstance(data, Stream) or data.mixture is None else data.mixture.corners
        self._strata_columns = self._named("strata")
        self._random = None
        if isinstance(objective, MixedObjective) and isinstance(data, Data) and data.clusters is not None:
            self._random = RandomEffects.of(objective, data.clusters, solution, beta[len(about.names) :])
            settled = data.clusters._replace(n_nodes=objective.n_nodes, slack=self._random.error)
            data = data._replace(clusters=settled)
        named = {str(name) for what in ("anchor_names", "strata") for name in self._named(what)}
        self.n_features_in_ = len(self.covariate_names_) + len(named | set(map(str, self._cluster)))
        for stale in ("feature_names_in_", "support_", "classes_", "formula_", "n_passes_", *SCALED):
            self.__dict__.pop(stale, None)
        if about.columns_given is not None:
            self.feature_names_in_ = np.array(about.columns_given, dtype=object)
        if hasattr(basis, "support"):
            self.support_ = basis.support
        if isinstance(basis, OrdinalBasis):
            self.classes_ = basis.labels()
        n = objective.n_total
        self.xi_ = solution.xi
        self.n_rows_, self.n_total_ = objective.n_rows, n
        self.row_kinds_, self.time_ = about.kinds, about.time
        self.n_anchors_ = 0 if objective.anchors is None else objective.anchors.rank
        self.float_codes_ = about.float_codes
        self.dropped_anchors_ = () if objective.anchors is None else objective.anchors.dropped
        self.dropped_classes_, self._alphabetical = about.dropped, about.alphabetical
        self.l1_, self.l2_ = float(self.l1), float(self.l2)
        self._marks = about.marks
        self.smooth_ = float(self.smooth) if self._smoothed(about.marks) else 0.0
        self.edf_ = effective_degrees(objective, solution, about.marks)
        self.loglik_, self.loss_ = objective.loglik(solution.v, solution.sums), solution.loss
        self.penalty_ = solution.penalty_sum / n
        average, self._far_from_zero = theta, []
        if isinstance(objective, ScaledObjective):
            columns = scale_columns(self.scale, about.names)
            self.scale_names_, self.scale_coef_ = [about.names[j] for j in columns], beta[len(about.names) :]
            self.xi_scale_ = solution.xi if self.xi_scale is None else float(self.xi_scale)
            self.penalty_, self.penalty_scale_ = (part / n for part in objective.penalties(solution.v))
            self._far_from_zero = objective.far_from_zero
            average = scaled_baseline(theta, objective.coordinates.z_mean[None, :], self.scale_coef_)[0]
        self.n_iter_, self.converged_ = max(1, solution.n_iter), solution.converged
        self.kkt_, self.min_eigenvalue_ = solution.kkt, solution.min_eigenvalue
        k = objective.coordinates.n_baseline
        self.active_, self.folds_ = solution.active, solution.folds
        if self.active_.size != k + beta.size:  # columns were turned, and no coefficient is held
            self.active_ = np.append(self.active_[:k], np.zeros(beta.size, dtype=bool))
        self.convexity_ = objective.convexity(solution.sums, solution.xi)
        self.lower_minima_ = [s.loss for s in others if s.loss < solution.loss - 1e-7 * (1.0 + abs(solution.loss))]
        # information about the parameters, for standard errors: n times the Hessian, and d(theta, beta)/dv
        net = isinstance(objective, Net)
        self._information = None if net else n * solution.hessian
        self._fixed = objective.coordinates.lower == objective.coordinates.upper
        turned = net or isinstance(solution.hessian, Arrow)
        self._jacobian = None if turned else objective.coordinates.jacobian_at(solution.v)
        self._data, self._sandwich, self._fingerprint = data, None, about.fingerprint
        self._binary, self._had_offset = about.binary, about.had_offset
        self.covariate_ranges_, self.outcome_range_ = about.covariate_ranges, about.outcome_range
        self._typical = data.mixture.typical(theta) if isinstance(data, Data) and data.mixture is not None else average
        typical = PredictedDistribution(link, basis, self._typical, np.array([objective.average_shift(solution.v)]))
        self.atom_ = float(typical.cdf(0.0)[0]) if about.time and basis.kind != "constant" else 0.0
        self._history = solution.history
        self._reason = solution.reason

    def _tell(self) -> None:
        """Warn of what the data and the solution show, and keep it in ``warnings_``."""
        self.warnings_: list[str] = []

        def say(text: str, category: type[Warning] | None = AnchorTMWarning) -> None:
            self.warnings_.append(text)
            if category is not None:
                warn(text, category)

        if self._random is not None:
            for text, category in self._random.remarks(self._data, self.xi_, self.tol):
                say(text, category)
        if self.dropped_anchors_:
            say(f"anchor columns dropped as constant or collinear: {', '.join(self.dropped_anchors_)}", AnchorWarning)
        if self.float_codes_:
            say(
                f"anchors with a few whole numbers as floats are taken as numeric: {', '.join(self.float_codes_)}; "
                "if they are codes of places, use astype(int) or astype(str)",
                AnchorWarning,
            )
        if 2 * self.n_anchors_ > self.n_rows_ and not self._unpenalised:
            say(
                f"{self.n_anchors_} anchor directions for {self.n_rows_} rows: nearly every row is an environment of "
                "its own, and the penalty acts on all residuals",
                AnchorWarning,
            )
        if isinstance(self.basis_, OrdinalBasis) and MANY_CLASSES < len(self.basis_.levels) > self.n_rows_ / 5:
            say(f"{len(self.basis_.levels)} classes in {self.n_rows_} rows: is a model for numbers or times meant?")
        if self.n_anchors_ == 1 and self.anchor_intercept:
            say("the anchors have a single environment: they cannot regularise", AnchorWarning)
        if self.xi_ > 0.0 and self.penalty_ < IDLE and self._anchors_explained():
            say(
                "the covariates explain the anchors exactly, so that score residuals are uncorrelated with them at "
                "maximum likelihood: the penalty is zero and xi changes nothing; take the anchors out of the "
                "covariates, or take other anchors",
                AnchorWarning,
            )
        if isinstance(self._data, Data) and self._data.share < HARDLY:
            near = [self._data.design.names[j] for j in self._data.near]
            listed = ", ".join(near[:8]) + (", ..." if len(near) > 8 else "")
            say(
                f"nearly collinear covariates: {listed}; of the deviation of one of them the others leave "
                f"{self._data.share:.1e} unexplained, so that coefficients are hardly determined, though predictions "
                "may be: leave one of them out"
            )
        if self._far_from_zero:
            say(
                f"covariates that are never near 0: {', '.join(self._far_from_zero)}; with scale effects it matters "
                "where 0 is: subtract a typical value"
            )
        if self._strata_columns and 0.0 < self.xi_ < math.inf and self.penalty_ < NO_PENALTY:
            say("the strata take up all that the anchors could show: the penalty is zero, whatever xi", AnchorWarning)
        if self._alphabetical:
            say(alphabetical(self.classes_))
        if self.dropped_classes_:
            say(f"classes without rows dropped: {', '.join(map(str, self.dropped_classes_))}")
        if not self.converged_:
            say(
                f"the fit did not converge ({self._reason}): scaled KKT residual {self.kkt_:.1e} "
                f"after {self.n_iter_} iterations; {self._remedy}",
                ConvergenceWarning,
            )
        elif self.folds_:
            say(
                f"the branch connected to xi = 0 ends near xi = {', '.join(f'{xi:.3g}' for xi in self.folds_)}; "
                "the estimate is on the one that it drops into: use a smaller xi, or look at others with n_restarts"
            )
        if self.converged_ and self.min_eigenvalue_ < FLAT_CURVATURE:
            among = ", ".join(self._flat_names())
            say(
                f"flat direction: the smallest curvature is {self.min_eigenvalue_:.1e}, so some parameters are hardly "
                f"determined{f' ({among})' if among else ''}, though their predictions may be; lower the order, or "
                "leave covariates out"
            )
        if self.atom_ > SMALLEST_ATOM:
            say(
                f"the baseline in y leaves a probability of {self.atom_:.2g} at time 0 (for average covariates): "
                + ("log_first=True" if self.basis_.kind == "bernstein" else "a baseline in log y")
                + " leaves none",
                None,
            )
        corners = self._corners
        blocks = self.baseline_[None] if corners is None else self.baseline_.reshape(corners.n_blocks, -1)
        baselines = blocks[: 1 if corners is None else corners.n_baselines]
        ends = np.array([self.basis_.flat_ends(theta) for theta in baselines])
        for k, side in enumerate(("lower", "upper")):
            if ends[:, k].any():
                say(f"h is flat beyond the {side} end of the support: the mass there cannot be placed", None)

    def _anchors_explained(self) -> bool:
        """Return whether all directions of the anchors, of rows in memory, are combinations of the covariates."""
        data = self._data
        if not isinstance(data, Data) or data.anchors is None or self.n_anchors_ <= self.anchor_intercept:
            return False
        return anchors_explained(data.anchors, data.design.matrix)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"_data": None} if "_data" in state else state  # rows stay at home

    def _flat_names(self) -> list[str]:
        """Return the names of what moves along flat directions."""
        if self._information is None or isinstance(self._information, Arrow):
            return []
        free = np.flatnonzero(~(self.active_ | self._fixed))
        values, vectors = np.linalg.eigh(self._information[np.ix_(free, free)] / self.n_total_)
        moves = np.zeros(self.active_.size)
        moves[free] = (vectors[:, values < FLAT_CURVATURE] ** 2).sum(axis=1)
        k = moves.size - len(self._other_names)
        names = [name for name, share in zip(self._other_names, moves[k:], strict=True) if share > 0.01]
        listed = [*names[:8], f"{len(names) - 8} more"] if len(names) > 9 else names
        return listed + (["the baseline"] if moves[:k].max(initial=0.0) > 0.01 else [])


def check_model(model: Any, refits: bool = False) -> None:
    """Refuse what is no model of this package, or one that has to be fitted anew for each xi where that is not done."""
    if isinstance(model, TransformationModel) or (refits and hasattr(model, "_refitted")):
        return
    if hasattr(model, "_refitted"):
        raise InputTypeError(
            f"{type(model).__name__} has no parameters to follow along xi: fit it at each xi, or compare them by "
            "leave_one_environment_out or XiSearchCV"
        )
    raise InputTypeError(f"model must be an estimator of this package, such as NormalLinear(), not {model!r}")


def alphabetical(classes: Any) -> str:
    """Return what to say of words that were put in alphabetical order."""
    listed = " < ".join(map(str, classes))
    return (
        f"classes are taken in alphabetical order, {listed}; for another order pass an ordered categorical, "
        "or write ordered(column, 'first', 'second', ...) in a formula"
    )


def tell_alphabetical(data: Data) -> None:
    """Warn where classes are words that were sorted, in what does not end with a fitted model."""
    if data.alphabetical and data.response.levels is not None:
        warn(alphabetical(data.response.levels), AnchorTMWarning)


def _n_jobs(n_jobs: int | None) -> int:
    n_jobs = jobs(n_jobs)
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
