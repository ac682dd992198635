"""Fits of generalised linear models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from anchortm.engine.data import Data
from anchortm.engine.objective.mean import MeanObjective
from anchortm.engine.objective.protocol import Objective, Sums
from anchortm.engine.objective.with_effects import EffectsObjective
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.rows.laplace import marginal_rows
from anchortm.engine.rows.quadrature import MovedMeans
from anchortm.engine.rows.shifted_rows import ShiftedMeans
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Options, Solution, minimise
from anchortm.engine.specification import Specification
from anchortm.exceptions import IdentificationError, InputError
from anchortm.families import Family, NegativeBinomial
from anchortm.inputs.mean_outcomes import check_rows, check_shares
from anchortm.inputs.response import Response

__all__ = ["MeanProblem", "MeanResult", "MeanSpecification"]

Array = NDArray[np.float64]

ALPHAS = (1e-6, 1e4)  # the range of the maximum-likelihood alpha
ALPHA_STEP = 1e-4  # step in log(alpha) of finite differences
SAVED = ("deviance", "pearson", "quasi_loglik", "dispersion", "alpha")  # fields in files


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanSpecification(Specification):
    """The specification of a generalised linear model; ``link`` is a family with its link."""

    family: str = "gaussian"
    residual: Literal["score", "deviance"] = "score"
    alpha: Any = 1.0
    dispersion: Any = None

    likelihood = "mean"
    takes_trials = True

    def check(self) -> MeanSpecification:
        """Return the specification; raise an error if arguments are out of range or cannot be combined."""
        if self.residual == "deviance" and not self.anchor_intercept:
            raise InputError("deviance residuals are centred: anchor_intercept=False needs residual='score'")
        self._check_dispersion()
        if self.cluster:
            self._check_mixed()
        return super().check()

    def _check_mixed(self) -> None:
        """Raise an error unless the rows have a likelihood given their random effects, for effects of any size."""
        link = self.link
        if not link.discrete:
            raise InputError(
                f"the {self.family} family has a dispersion, which is estimated after the fit, but the variance of "
                "random effects is relative to it: use NormalLinear, ContinuousProbit or ParametricSurvival, which "
                "estimate both together"
            )
        if self.estimates_alpha or self.dispersion not in (None, 1, 1.0):
            raise InputError(
                "random effects explain part of the extra variation that alpha='ml' or a dispersion would estimate "
                "without them: give alpha a number and leave dispersion out"
            )
        if self.residual == "deviance":
            raise InputError("random effects have marginal score residuals only: set residual='score'")
        if any(map(math.isfinite, link.eta_range)):
            raise InputError(
                f"normal random effects take {link.link}(mean) out of its range: use link={next(iter(link.links))!r}"
            )

    def single_rows_show_effects(self, response: Response) -> bool:
        """Return True if the family fixes the variance of rows: that of counts, or of several trials."""
        return self.family != "binomial" or (response.trials is not None and bool((response.trials > 1.0).any()))

    def _check_dispersion(self) -> None:
        given = self.dispersion
        if given is None:
            return
        number = isinstance(given, (int, float, np.number)) and not isinstance(given, bool)
        if given not in ("pearson", "ml") if isinstance(given, str) else not (number and 0.0 < given < math.inf):
            raise InputError(f"dispersion must be 'pearson', 'ml', a positive number or None, not {given!r}")
        if given == "ml" and self.link.discrete:
            raise InputError(
                f"{self.family} outcomes have no maximum-likelihood dispersion: use "
                "dispersion='pearson', or family='negative_binomial' with alpha='ml'"
            )

    def check_outcome(self, y: Any) -> None:
        """Raise an error for proportions of an unknown number of trials."""
        if self.family == "binomial" and not isinstance(y, Response):
            check_shares(y)

    def check_response(self, response: Response) -> None:
        """Raise an error if outcomes are not possible under the family, or are all equal."""
        check_rows(response, self.link)
        self.link.check_variation(response.upper, response.trials)

    @property
    def estimates_alpha(self) -> bool:
        """Return whether alpha of the negative binomial is estimated."""
        return bool(self.link.uses_alpha) and self.alpha == "ml"


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanResult(FitResult):
    """The result of a generalised linear model."""

    deviance: float
    pearson: float
    quasi_loglik: float
    estimated_alpha: bool
    asked_alpha: Any
    asked_dispersion: Any
    at_edge: int = 0  # number of rows whose mean is at the end of its range

    @property
    def dispersion(self) -> float:
        """Return the dispersion."""
        return float(self.link.dispersion)

    @property
    def alpha(self) -> float | None:
        """Return alpha of the negative binomial; None for other families."""
        return None if self.link.alpha is None else float(self.link.alpha)

    @property
    def inverse_of(self) -> str:  # type: ignore[override]
        """Return the name of the matrix behind standard errors at xi = 0."""
        if self.random is not None:
            return "inverse Hessian"
        if not self.estimated_alpha:
            return "inverse expected information"
        wide = isinstance(self.information, Arrow)
        return "inverse expected information, alpha as known" if wide else "inverse Hessian, alpha included"

    @property
    def n_parameters(self) -> int:
        """Return the number of parameters: intercept, coefficients, and an estimated dispersion or alpha."""
        own = self.estimated_alpha or (not self.link.discrete and self.link.free_dispersion)
        return 1 + int(self.others.size) + int(own)

    @property
    def kind(self) -> str:
        """Return the description of the model in a summary."""
        return f"{self.link.family.replace('_', ' ')} family, {self.link.link} link"

    @property
    def quasi(self) -> bool:
        """Return whether this is a quasi-likelihood: the family does not have this dispersion."""
        return bool(self.link.discrete and (self.link.free_dispersion or self.dispersion != 1.0))

    @property
    def loglik_in_loss(self) -> float:
        """Return the log-likelihood at dispersion 1, which enters the loss."""
        return self.quasi_loglik

    @property
    def largest_loglik(self) -> float:
        """Return the log-likelihood at the maximum-likelihood dispersion, or at the given one."""
        if self.link.discrete or not self.link.free_dispersion:
            return self.loglik
        return float(self.link.largest_loglik(self.deviance, self.quasi_loglik, self.n_total))

    def comparable(self, smaller: FitResult) -> bool:
        """Return whether ``smaller`` can be a special case of this model."""
        if not isinstance(smaller, MeanResult):
            return False
        if smaller.link.link != self.link.link or smaller.asked_dispersion != self.asked_dispersion:
            return False
        own, other = str(self.link.family), str(smaller.link.family)
        if own == "negative_binomial":  # alpha = 0 is Poisson
            fits = self.asked_alpha == "ml" or (own == other and smaller.asked_alpha == self.asked_alpha)
            return fits and other in ("poisson", "negative_binomial")
        return own == other

    def gain(self, smaller: FitResult) -> float:
        """Return the statistic of the likelihood-ratio test of a smaller model."""
        gain = 2.0 * (self.largest_loglik - float(smaller.largest_loglik))
        return gain / self.dispersion if self.quasi else gain

    def own_record(self) -> dict[str, Any]:
        """Return the fields that only this kind of result has, for a file."""
        values = {f"{name}_": getattr(self, name) for name in SAVED}
        _check_saved(values)
        return {"family": values}

    @classmethod
    def from_own_record(cls, record: dict[str, Any], spec: Specification, found: dict[str, Any]) -> MeanResult:
        """Return the result with the checked fields that only this kind has."""
        assert isinstance(spec, MeanSpecification)  # noqa: S101
        values = {f"{name}_": record["family"][f"{name}_"] for name in SAVED}
        _check_saved(values)
        family, alpha, dispersion = spec.link, values["alpha_"], values["dispersion_"]
        if (alpha is None) != (not family.uses_alpha) or alpha == 0.0:
            raise InputError("alpha is invalid: it is a positive number, for the negative binomial only")
        if family.alpha not in (None, alpha) or not dispersion > 0.0:
            raise InputError("alpha or dispersion does not match the model")
        if getattr(found["basis"], "whole", None) is not family.discrete:
            raise InputError("the basis does not match whether outcomes are whole numbers")
        own = {
            "link": replace(family, alpha=alpha, dispersion=float(dispersion)),
            **{name: float(values[f"{name}_"]) for name in ("deviance", "pearson", "quasi_loglik")},
            "estimated_alpha": spec.estimates_alpha,
            "asked_alpha": spec.alpha,
            "asked_dispersion": spec.dispersion,
        }
        return cls(**(found | own))

    def own_facts(self) -> dict[str, str]:
        """Return the lines of the summary that are specific to this kind of model."""
        link = self.link
        how = f"by {'maximum likelihood' if self.asked_dispersion == 'ml' else 'Pearson'}"
        mean = "mean" if link.link == "identity" else f"{link.link}(mean)"
        random = {} if self.random is None else self.random.facts(None, None)
        at = "" if self.random is None else ", at the most likely effects"
        facts = {
            "model": f"{mean} = intercept + x'beta" + (" + z'b, b normal" if random else ""),
            **random,
            "rows": f"{self.n_rows}" + ("" if self.n_total == self.n_rows else f", total weight {self.n_total:g}"),
            "residuals": "score, dl/deta" if link.residual == "score" else "deviance, less their mean",
            "deviance": f"{self.deviance:.4f}, Pearson {self.pearson:.4f}{at}",
            "dispersion": f"{self.dispersion:.5g}, {how if link.free_dispersion else 'fixed'}",
        }
        if link.alpha is not None:
            facts["alpha"] = f"{link.alpha:.5g}" + (
                ", by maximum likelihood at xi = 0" if self.asked_alpha == "ml" else ""
            )
        return facts

    def remedy(self) -> str:
        """Return advice for a fit that did not converge."""
        if not self.at_edge:
            return super().remedy()
        rows = f"{self.at_edge} row{'s have' if self.at_edge > 1 else ' has'}"
        return (
            f"{rows} a mean at the end of its range, which the {self.link.link} link reaches: the minimum may be at "
            f"that end, far from the estimate; use link={next(iter(self.link.links))!r}"
        )


class MeanProblem(Problem):
    """A fit of a generalised linear model."""

    spec: MeanSpecification

    def make_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the loss of these rows, with y in a typical unit."""
        spec = self.spec
        net = spec.penalised(data.design.marks)
        if not (net and link.affine):  # a quadratic loss can be minimised in any unit
            link = link.in_typical_unit(data.response.upper, data.weights)
        if link.uses_alpha and link.alpha is None:
            link = replace(link, alpha=self._likeliest_alpha(link, data))
        if not net or link.unit == 1.0:
            return super().make_objective(link, data, coordinates)
        beta, loss = link.eta_unit, link.loss_unit**2  # convert the penalties to the units of coefficients and loss
        own = self.at(l1=spec.l1 * beta / loss, l2=spec.l2 * beta**2 / loss, smooth=spec.smooth * beta**2 / loss)
        return Problem.make_objective(own, link, data, coordinates)

    def _likeliest_alpha(self, link: NegativeBinomial, data: Data) -> float:
        """Return the maximum-likelihood alpha: the root of the derivative of the profile likelihood in log alpha."""
        plain, at = data._replace(anchors=None), dict[str, Array]()
        options = self._tight

        def slope(log_alpha: float) -> float:
            own = replace(link, alpha=math.exp(log_alpha), residual="score")
            objective = _of_means(self.plain_objective(own, plain))
            if "v" in at:
                at["v"] = minimise(objective, at["v"], 0.0, options).v
            else:
                at["v"] = solve(objective, self.start(objective, data), 0.0, options).v
            return objective.fitted(at["v"]).total(lambda eta, outcome: own.in_log_alpha(eta, outcome).first)

        low, high = (math.log(a) for a in ALPHAS)
        if slope(low) <= 0.0:
            raise IdentificationError(
                "the counts do not vary more than Poisson counts, so alpha has no positive estimate: "
                "use family='poisson', or give alpha a number"
            )
        if slope(high) >= 0.0:
            raise IdentificationError(f"the counts vary so much that alpha is above {ALPHAS[1]:g}: give it a number")
        return math.exp(optimize.brentq(slope, low, high, xtol=1e-10, rtol=1e-12))

    @property
    def _tight(self) -> Options:
        return Options(tol=min(self.spec.tol, 1e-10), max_iter=self.spec.max_iter)

    def start(self, objective: Objective, data: Any = None) -> Array:
        """Return the start values of the solver: the mean of all outcomes, and coefficients of 0."""
        if self.spec.start is not None or objective.begin is not None:
            return super().start(objective, data)
        link, (rows,) = objective.link, _of_means(objective).terms
        assert rows.outcome is not None  # noqa: S101
        middle = float(np.average(rows.outcome[:, 0], weights=rows.weights))
        if math.isfinite(link.mean_range[1]):
            trials = np.broadcast_to(link.trials(rows.outcome), rows.rows.shape)
            middle = (middle + 0.01) / (float(np.average(trials, weights=rows.weights)) + 0.02)
        if not link.affine and not (middle > 0.0):
            middle = 1.0
        theta = np.array([link.eta(middle) - objective.mean_offset]) * link.eta_unit
        p = objective.coordinates.n_coefs - objective.start.size
        return objective.coordinates.join(theta, np.append(np.zeros(p), objective.start))

    def result(self, objective: Objective, solution: Solution, others: list[Solution]) -> MeanResult:
        """Return the result of a solution, in the units of y, with the estimated dispersion."""
        found, *rest = (_in_units(s, objective.link, objective.n_total) for s in (solution, *others))
        unit, spec = objective.link.loss_unit, self.spec
        in_unit = objective.loglik(solution.v, solution.sums)  # without a penalty on coefficients
        inner, response = _of_means(objective), self.data.response
        v, added = _with_effects(objective, solution.v)
        rows = inner.fitted(v, added)
        link = inner.with_dispersion(v, rows)
        own = {
            "quasi_loglik": in_unit * unit**2 - inner.n_total * (inner.link.lacking if unit != 1.0 else 0.0),
            "deviance": rows.deviance * unit**2,
            "pearson": rows.pearson * unit**2,
            # counts and trials have no dispersion in their likelihood
            "loglik": in_unit if link.discrete else rows.total(replace(rows.link, dispersion=link.dispersion).loglik),
            "outcome_range": (float(response.upper.min()), float(response.upper.max())),
            "at_edge": 0 if solution.converged else int(inner.link.near_edge(rows.eta).sum()),
            "estimated_alpha": spec.estimates_alpha,
            "asked_alpha": spec.alpha,
            "asked_dispersion": spec.dispersion,
        }
        result = MeanResult.of(self, link, objective, found, rest, **own)
        assert isinstance(result, MeanResult)  # noqa: S101
        if not result.unpenalised or result.random is not None:
            return result
        factor = unit**2 / result.dispersion
        return replace(result, information=factor * _information(inner, v, spec.estimates_alpha))

    def fitted_link(self, objective: Objective, v: Array) -> Family:
        """Return the family with its dispersion, in the units of y."""
        inner, (v, added) = _of_means(objective), _with_effects(objective, v)
        return inner.with_dispersion(v, inner.fitted(v, added))

    def link_to_refit(self, result: FitResult) -> Any:
        """Return the family; without alpha if refits estimate it again."""
        return replace(result.link, alpha=None) if self.spec.estimates_alpha else result.link

    def estimated_before(
        self, data: Data, result: FitResult, objective: Objective, v: Array, pull: Array
    ) -> tuple[Array, Array, Array] | None:
        """Return the influence of rows on log(alpha), and the derivatives of the equations for v in log(alpha)."""
        if not self.spec.estimates_alpha:
            return None
        inner = _of_means(objective)
        link = replace(inner.link, residual="score")
        likeliest = _of_means(self.plain_objective(link, data))
        first = solve(likeliest, self.start(likeliest, data), 0.0, self._tight).v
        joint = likeliest.with_log_alpha(first)
        rows_then = likeliest.fitted(first)
        scores = -link.terms(rows_then.eta, rows_then.outcome).r[:, None] * likeliest.terms[0].C
        across = np.linalg.solve(joint.hessian, joint.cross)
        rows = (joint.scores - scores @ across) / (joint.own - joint.cross @ across)
        # central differences, because not all residuals have a closed-form derivative
        moved = []
        for side in (-1.0, 1.0):
            there = inner.at_alpha(math.exp(side * ALPHA_STEP))
            at = there.derivatives(v)
            moved.append((at.gradient + at.E.T @ pull, there.sums(v).t))
        gradient, t = ((up - down) / (2.0 * ALPHA_STEP) for down, up in zip(*moved, strict=True))
        return rows, gradient, t

    def draw(self, result: FitResult, rng: np.random.Generator) -> Array:
        """Return a simulated outcome for each row."""
        data = self.data
        shift = data.design.matrix @ result.coef + (0.0 if data.offset is None else data.offset)
        if data.clusters is not None and result.random is not None:
            shift = shift + result.random.draw(data.clusters, rng)
        trials = np.ones(shift.size) if data.response.trials is None else data.response.trials
        law = result.link.law(result.link.mean(result.baseline[0] + shift).mu, trials)
        return np.asarray(law.ppf(rng.random(shift.size)), dtype=np.float64)

    def _predictors(self, link: Any, theta: Array, beta: Array, rows: Data) -> tuple[Array, Array]:
        """Return the linear predictors of rows, and their outcomes."""
        eta = theta[0] + rows.design.matrix @ beta[: len(rows.names)] + (0.0 if rows.offset is None else rows.offset)
        return eta, link.outcome(rows.response.upper, rows.response.trials)

    def shifted(self, link: Any, theta: Array, beta: Array, rows: Data, steps: Any = None) -> ShiftedMeans | None:
        """Return these rows as functions of a shift of their linear predictors; None with random effects."""
        return None if rows.clusters is not None else ShiftedMeans.of(link, *self._predictors(link, theta, beta, rows))

    def logliks(self, link: Any, theta: Array, beta: Array, rows: Data) -> Array:
        """Return the log-likelihood of each row at these parameters."""
        eta, outcome = self._predictors(link, theta, beta, rows)
        if rows.clusters is not None:
            return marginal_rows(MovedMeans(link, eta, outcome), rows.clusters, beta[len(rows.names) :])[0]
        with np.errstate(all="ignore"):
            return np.asarray(link.loglik(eta, outcome))


def _check_saved(values: dict[str, Any]) -> None:
    """Raise an error if a value is not valid in a file."""
    for name, value in values.items():
        low = -math.inf if name == "quasi_loglik_" else 0.0
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not ((value is None and name == "alpha_") or (number and low <= value < math.inf)):
            raise InputError(f"{name} is invalid: {value!r}")


def _information(objective: MeanObjective, v: Array, alpha: bool) -> Any:
    """Return the information of a maximum-likelihood fit at dispersion 1."""
    if alpha and objective.coordinates.wide is None:
        # as statsmodels: the observed information of all parameters
        joint = objective.with_log_alpha(v)
        return joint.hessian - np.outer(joint.cross, joint.cross) / joint.own
    if objective.link.link == objective.link.canonical:  # the observed information is the expected one
        return objective.scored.derivatives(v).hessian
    # as R and statsmodels: the expected information
    link = replace(objective.link, expected_information=True)
    return MeanObjective(link, objective.coordinates, objective.anchors, objective.blocks).derivatives(v).hessian


def _of_means(objective: Objective) -> MeanObjective:
    """Return the objective without a penalty on coefficients and without random effects."""
    inner = objective.unpenalised
    inner = inner.fixed if isinstance(inner, EffectsObjective) else inner
    assert isinstance(inner, MeanObjective)  # noqa: S101
    return inner


def _with_effects(objective: Objective, v: Array) -> tuple[Array, Array | None]:
    """Return the parameters of the rows, and what the most likely random effects add to eta."""
    inner = objective.unpenalised
    return (v[: inner.n_fixed], inner.likeliest_shift(v)) if isinstance(inner, EffectsObjective) else (v, None)


def _in_units(solution: Solution, link: Family, n: float) -> Solution:
    """Return a solution with sums and losses in the units of y."""
    if link.loss_unit == 1.0:
        return solution
    unit, constant = link.loss_unit**2, link.lacking
    history = [row | {"loss": row["loss"] * unit + constant} for row in solution.history]
    sums = Sums(solution.sums.loglik * unit - n * constant, solution.sums.t * link.loss_unit)
    decisive = None if solution.decisive is None else solution.decisive.times(unit)
    return replace(solution, sums=sums, loss=solution.loss * unit + constant, history=history, decisive=decisive)
