"""Fits of generalised linear models."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from anchortm.engine.data import Data
from anchortm.engine.mean_result import MeanResult, MeanSpecification
from anchortm.engine.objective.mean import MeanLoss, MeanObjective
from anchortm.engine.objective.protocol import Objective, Sums
from anchortm.engine.objective.with_effects import EffectsObjective
from anchortm.engine.problem import Problem
from anchortm.engine.result import FitResult
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.laplace import marginal_rows
from anchortm.engine.rows.quadrature import MovedMeans
from anchortm.engine.rows.shifted_rows import ShiftedMeans
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Options, Solution, minimise
from anchortm.exceptions import IdentificationError
from anchortm.families import Family, NegativeBinomial

__all__ = ["MeanProblem"]

Array = NDArray[np.float64]

ALPHAS = (1e-6, 1e4)  # the range of the maximum-likelihood alpha
ALPHA_STEP = 1e-4  # step in log(alpha) of finite differences


class MeanProblem(Problem):
    """A fit of a generalised linear model."""

    spec: MeanSpecification

    def make_objective(self, link: Any, data: Any, coordinates: Coordinates | None = None) -> Objective:
        """Return the loss of these rows, with y in a typical unit."""
        spec, net = self.spec, self.spec.penalised(data.marks)
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
            objective = _of_rows(self.plain_objective(own, plain))
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
        link, (middle, trials) = objective.link, _of_means(objective).middle()
        if math.isfinite(link.mean_range[1]):
            middle = (middle + 0.01) / (trials + 0.02)
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
            "loglik": in_unit if link.discrete else rows.loglik(link.dispersion),
            "outcome_range": (float(response.upper.min()), float(response.upper.max())),
            "at_edge": 0 if solution.converged else rows.at_edge,
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
        inner = _of_rows(objective)
        link = replace(inner.link, residual="score")
        likeliest = _of_rows(self.plain_objective(link, data))
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


def _information(objective: MeanLoss, v: Array, alpha: bool) -> Any:
    """Return the information of a maximum-likelihood fit at dispersion 1."""
    if alpha and objective.coordinates.wide is None and isinstance(objective, MeanObjective):
        # as statsmodels: the observed information of all parameters
        joint = objective.with_log_alpha(v)
        return joint.hessian - np.outer(joint.cross, joint.cross) / joint.own
    if objective.link.link == objective.link.canonical:  # the observed information is the expected one
        return objective.scored.derivatives(v).hessian
    # as R and statsmodels: the expected information
    return objective.with_link(replace(objective.link, expected_information=True)).derivatives(v).hessian


def _of_means(objective: Objective) -> MeanLoss:
    """Return the objective without a penalty on coefficients and without random effects."""
    inner = objective.unpenalised
    inner = getattr(inner, "fixed", inner)
    assert isinstance(inner, MeanLoss)  # noqa: S101
    return inner


def _of_rows(objective: Objective) -> MeanObjective:
    """Return the same for rows that are at hand."""
    return cast(MeanObjective, _of_means(objective))


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
