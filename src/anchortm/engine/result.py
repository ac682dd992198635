"""The frozen result of a fit.

Fitted attributes of estimators read it, files store it, and refits and boosting start from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis, OrdinalBasis, baseline_values
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.decisive import Decisive
from anchortm.engine.environment_weights import Shares
from anchortm.engine.likelihood_facts import LikelihoodFacts
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.objective.scale_effects import scale_name
from anchortm.engine.recalibration.record import Recalibration
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.solve.effective_degrees import effective_degrees
from anchortm.engine.solve.newton import Solution
from anchortm.engine.specification import Specification, named_columns
from anchortm.engine.two_effects import TwoEffects
from anchortm.inputs.baselines import Corners
from anchortm.inputs.splines import Marks

if TYPE_CHECKING:
    from anchortm.engine.problem import Problem

__all__ = ["FitResult", "ScaleEffects", "atom_at_zero"]

Array = NDArray[np.float64]

FLAT_CURVATURE = 1e-8  # smaller eigenvalues of the Hessian, in standardised parameters, count as flat
LOWER = 1e-7  # relative difference that makes one minimum lower than another


@dataclass(frozen=True, eq=False)
class ScaleEffects:
    """Scale effects: h = exp(z'coef / 2) a(y)'theta + ..."""

    names: list[str]
    coef: Array
    xi: float
    penalty: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FitResult(LikelihoodFacts):
    """All results of a fit. The fitted attributes of estimators have the same names with an underscore."""

    # the model
    link: Any  # a Link, or a Family
    basis: Basis
    sign: float
    effect: str  # name of exp(coefficient), such as "odds ratio"
    baseline: Array
    coef: Array
    coef_names: list[str]
    marks: Marks  # which coefficients belong to smooth terms
    corners: Corners | None = None  # baselines of strata and varying effects
    random: RandomEffects | TwoEffects | None = None
    scale: ScaleEffects | None = None
    strata: tuple[Any, ...] = ()  # strata of a partial likelihood
    # the rows
    n_rows: int
    n_total: float
    row_kinds: dict[str, int]
    time: bool
    n_anchors: int
    shares: Shares | None = None  # shares of environments in the likelihood and in the penalty
    float_codes: tuple[str, ...] = ()
    dropped_anchors: tuple[str, ...] = ()
    dropped_classes: tuple[Any, ...] = ()
    missing: Mapping[str, int] = field(default_factory=dict)  # rows with missing values, by column
    n_missing: int = 0  # rows that were dropped because of them
    alphabetical: bool = False
    binary: list[bool]
    had_offset: bool
    columns: tuple[str, ...] | None  # names of the columns of X, if X has names
    n_features_in: int
    covariate_ranges: Array | None = None
    outcome_range: tuple[float, float] | None = None
    outcome_name: str | None = None
    fingerprint: Array | None = None  # checksum of the covariates, which detects changes in place
    # the penalties
    xi: float
    l1: float = 0.0
    l2: float = 0.0
    smooth: float = 0.0
    edf: Mapping[str, float] = field(default_factory=dict)
    form: str = ""  # "target" or "proxies": what the penalty is made of in place of the projection on the anchors
    target_shift: float | None = None  # what was subtracted from h for a target
    # the optimum and its certificate
    loglik: float
    loss: float
    penalty: float
    n_iter: int
    converged: bool
    kkt: float
    min_eigenvalue: float
    active: NDArray[np.bool_]
    folds: tuple[float, ...]
    convexity: str
    lower_minima: list[float]
    reason: str
    history: list[dict[str, Any]]
    # for predictions and standard errors
    typical: Array  # the baseline of an average row
    atom: float = 0.0  # probability at time 0 for average covariates
    far_from_zero: tuple[str, ...] = ()  # covariates with scale effects that are never near 0
    information: Any = None  # n times the Hessian of the loss
    fixed: NDArray[np.bool_] | None = None
    jacobian: Array | None = None  # d(theta, beta)/dv
    widened: float = 1.0  # how much wider predictions were made after the fit
    decisive: Decisive | None = None  # which environments decide, if the loss is a tail risk
    recalibration: Recalibration | None = None  # what rows of a new place changed after the fit
    warnings: list[str] = field(default_factory=list)
    computed: dict[str, Any] = field(default_factory=dict)  # slow results: sandwich, shifts between places

    @classmethod
    def of(
        cls,
        problem: Problem,
        link: Any,
        objective: Objective,
        solution: Solution,
        others: list[Solution],
        **own: Any,
    ) -> FitResult:
        """Return the result of a solution; ``own`` holds fields that the kind of model adds or replaces."""
        return cls(**(_found(problem, link, objective, solution, others) | own))

    # files

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict of numbers, strings and lists, for a file."""
        from anchortm.engine.records import record_of

        return record_of(self)

    @classmethod
    def from_dict(
        cls, record: dict[str, Any], spec: Specification, formula_marks: dict[str, Any] | None = None
    ) -> FitResult:
        """Return the result from a record of ``to_dict``, after checking every field."""
        from anchortm.engine.records import result_of

        return result_of(cls, record, spec, formula_marks)

    def own_record(self) -> dict[str, Any]:
        """Return the fields that only this kind of result has, for a file."""
        return {}

    @classmethod
    def from_own_record(cls, record: dict[str, Any], spec: Specification, found: dict[str, Any]) -> FitResult:
        """Return the result from the fields ``found`` and the checked fields that only this kind has."""
        return cls(**found)

    def with_covariance(self, parts: dict[str, Any], computed: dict[str, Any]) -> FitResult:
        """Return the result with these matrices for standard errors."""
        return replace(self, computed=computed, **parts)

    # derived from the fields

    @property
    def extra(self) -> Array:
        """Return the covariance parameters of random effects, the entries of L."""
        return np.zeros(0) if self.random is None else self.random.tau

    @property
    def others(self) -> Array:
        """Return all parameters except the baseline: coefficients, scale effects, and those of random effects."""
        scale = np.zeros(0) if self.scale is None else self.scale.coef
        return np.concatenate([self.coef, scale, self.extra])

    @property
    def other_names(self) -> list[str]:
        """Return the names of ``others``."""
        scale = [] if self.scale is None else [scale_name(name) for name in self.scale.names]
        return [*self.coef_names, *scale, *([] if self.random is None else self.random.effects.parameter_names())]

    @property
    def effects(self) -> tuple[list[str], Array]:
        """Return names and values of all coefficients, including scale effects but not random effects."""
        size = self.others.size - self.extra.size
        return self.other_names[:size], self.others[:size]

    @property
    def parameters(self) -> Array:
        """Return all parameters, baseline first."""
        return np.concatenate([self.baseline, self.others])

    def at(self, parameters: Array) -> FitResult:
        """Return the result with other values of all ``parameters``, to see how predictions depend on them."""
        k, p = self.baseline.size, self.coef.size
        baseline, coef, rest = np.split(parameters, [k, k + p])
        size = 0 if self.scale is None else self.scale.coef.size
        scale = None if self.scale is None else replace(self.scale, coef=rest[:size])
        random = None if self.random is None else replace(self.random, tau=rest[size:])
        return replace(self, baseline=baseline, coef=coef, scale=scale, random=random)

    @property
    def spread(self) -> dict[str, float]:
        """Return the standard deviations of random effects, and their correlation, for columns of a table."""
        return {} if self.random is None else self.random.parameters_by_name

    @property
    def covariate_names(self) -> list[str]:
        """Return the names of all covariates in the order of X, including those with varying effects."""
        return self.coef_names if self.corners is None else list(self.corners.covariates)

    @property
    def support(self) -> tuple[float, float] | None:
        """Return the support of the basis, if it has one."""
        return getattr(self.basis, "support", None)

    @property
    def classes(self) -> Any:
        """Return the classes of an ordinal model; None for other outcomes."""
        return self.basis.labels() if isinstance(self.basis, OrdinalBasis) else None

    @property
    def feature_names_in(self) -> Any:
        """Return the names of the columns of X, if X has names."""
        return None if self.columns is None else np.array(self.columns, dtype=object)

    @property
    def ridged(self) -> bool:
        """Return whether there is a ridge penalty: l2, or smoothing."""
        return self.l2 != 0.0 or self.smooth != 0.0

    @property
    def strength(self) -> float:
        """Return the factor of ``penalty`` in the loss: xi, or 1/2 with a target."""
        return 0.5 if self.form == "target" else self.xi

    @property
    def unpenalised(self) -> bool:
        """Return whether the fit is a maximum-likelihood fit."""
        likeliest = self.strength == 0.0 and (self.scale is None or self.scale.xi == 0.0) and not self.kinked
        return likeliest and not self.l1 and not self.ridged

    @property
    def reweighed(self) -> bool:
        """Return whether environments have weights in the likelihood, so that it is not that of the rows."""
        return self.shares is not None and self.shares.likelihood is not None

    @property
    def largest(self) -> bool:
        """Return whether the parameters are those of a maximum-likelihood fit."""
        return self.unpenalised and not self.reweighed and self.widened == 1.0 and self.recalibration is None

    @property
    def strict(self) -> bool:
        """Return whether the fit converged to a strict minimum."""
        return self.converged and self.min_eigenvalue > FLAT_CURVATURE

    @property
    def parameter_names(self) -> list[str]:
        """Return the names of the parameters of the baseline."""
        names = self.basis.parameter_names
        return names if self.corners is None else self.corners.parameter_names(names)

    @property
    def n_parameters(self) -> int:
        """Return the number of estimated parameters; under an l1 penalty only non-zero coefficients count."""
        increments = self.basis.increments
        tied = increments.equalities.shape[0] + int((increments.lower == increments.upper).sum())
        blocks = 1 if self.corners is None else self.corners.n_blocks
        free = np.count_nonzero(self.others) if self.l1 else self.others.size
        return int(self.baseline.size - blocks * tied + free)


def atom_at_zero(link: Any, basis: Basis, theta: Array, shift: float) -> float:
    """Return the probability that a baseline puts at time 0."""
    if basis.lower_bound >= 0.0:
        return 0.0
    h = baseline_values(basis.rows(np.zeros(1)), theta) + shift
    return float(np.exp(link.log_cdf(h))[0])


def _found(
    problem: Problem, link: Any, objective: Objective, solution: Solution, others: list[Solution]
) -> dict[str, Any]:
    """Return the fields of a result that all kinds of models have."""
    spec, data, basis = problem.spec, problem.data, problem.basis
    theta, beta = objective.coordinates.split(solution.v)
    average = theta if data.mixture is None else data.mixture.typical(theta)
    found = {
        "link": link,
        "basis": basis,
        "sign": spec.sign,
        "effect": spec.effect,
        "baseline": theta,
        "coef": beta[: len(data.names)],
        "corners": None if data.mixture is None else data.mixture.corners,
        "typical": objective.average_baseline(average, beta),
        "xi": solution.xi,
        "l1": float(spec.l1),
        "l2": float(spec.l2),
        "loglik": objective.loglik(solution.v, solution.sums),
        "penalty": solution.penalty_sum / objective.n_total,
        "convexity": objective.convexity(solution.sums, solution.xi),
        "far_from_zero": tuple(objective.far_from_zero),
        "edf": effective_degrees(objective, solution, data.marks),  # for smooth terms, penalised or not
    }
    found |= _of_rows(problem, objective)
    found |= certificate(objective, solution, others) | certainty(objective, solution)
    for part, own in problem.own_parameters(beta, data):
        found |= part.found(problem, objective, solution, own)
    if found["time"] and basis.kind not in ("constant", "step"):
        found["atom"] = atom_at_zero(link, basis, found["typical"], objective.average_shift(solution.v))
    return found


def _of_rows(problem: Problem, objective: Objective) -> dict[str, Any]:
    """Return the fields of a result that describe the rows."""
    spec, data, anchors = problem.spec, problem.data, objective.anchors
    about = data.about()
    named = {str(name) for what in ("anchor_names", "strata") for name in named_columns(getattr(spec, what), what)}
    covariates = about.names if data.mixture is None else data.mixture.corners.covariates
    return {
        "coef_names": list(about.names),
        "marks": about.marks,
        "strata": () if data.strata is None else data.strata.labels,
        "n_rows": objective.n_rows,
        "n_total": objective.n_total,
        "row_kinds": about.kinds,
        "time": about.time,
        "n_anchors": 0 if anchors is None else anchors.rank,
        "shares": data.weighing.found,
        "float_codes": about.float_codes,
        "dropped_anchors": () if anchors is None else anchors.dropped,
        "dropped_classes": about.dropped,
        "missing": dict(about.missing.columns),
        "n_missing": about.missing.n_missing,
        "alphabetical": about.alphabetical,
        "binary": about.binary,
        "had_offset": about.had_offset,
        "columns": about.columns_given,
        "n_features_in": len(covariates) + len(named | set(map(str, spec.cluster))),
        "covariate_ranges": about.covariate_ranges,
        "outcome_range": about.outcome_range,
        "outcome_name": about.outcome_name,
        "fingerprint": about.fingerprint,
        "smooth": float(spec.smooth) if spec.smoothed(about.marks) else 0.0,
    }


def certificate(objective: Objective, solution: Solution, others: list[Solution]) -> dict[str, Any]:
    """Return the fields that certify a solution: loss, convergence, KKT residual and curvature."""
    active = solution.active
    k, n_coefs = objective.coordinates.n_baseline, objective.coordinates.split(solution.v)[1].size
    if active.size != k + n_coefs:  # columns were rotated, so no coefficient is at a bound
        active = np.append(active[:k], np.zeros(n_coefs, dtype=bool))
    return {
        "loss": solution.loss,
        "n_iter": max(1, solution.n_iter),
        "converged": solution.converged,
        "kkt": solution.kkt,
        "min_eigenvalue": solution.min_eigenvalue,
        "active": active,
        "folds": solution.folds,
        "lower_minima": [s.loss for s in others if s.loss < solution.loss - LOWER * (1.0 + abs(solution.loss))],
        "reason": solution.reason,
        "history": solution.history,
    }


def certainty(objective: Objective, solution: Solution) -> dict[str, Any]:
    """Return the information matrix, n times the Hessian, and d(theta, beta)/dv."""
    turned = objective.penalised or isinstance(solution.hessian, Arrow)
    return {
        "information": None if objective.penalised else objective.n_total * solution.hessian,
        "fixed": objective.coordinates.lower == objective.coordinates.upper,
        "jacobian": None if turned else objective.coordinates.jacobian_at(solution.v),
    }
