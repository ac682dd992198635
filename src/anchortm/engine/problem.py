"""A problem: the frozen inputs of one fit. Only this module turns a specification and rows into a result.

All fits use it: estimators, paths in xi, left-out environments, searches, the bootstrap, boosting and diagnostics.
Cox's partial likelihood and generalised linear models override some methods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import generator
from anchortm.bases import baseline_values
from anchortm.engine.data import Data
from anchortm.engine.environment_weights import ARGUMENTS, Weighting, asks, check_names
from anchortm.engine.formulation import Formulation
from anchortm.engine.lost_columns import Shared, identified
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.preparation import prepare
from anchortm.engine.result import FitResult
from anchortm.engine.rows.ends import Ends
from anchortm.engine.rows.laplace import marginal_rows
from anchortm.engine.rows.likelihood import build_terms, loglik_and_residuals
from anchortm.engine.rows.quadrature import MovedRows
from anchortm.engine.rows.shifted_rows import ShiftedEnds, ShiftedRows
from anchortm.engine.shrunk_weights import shrinkages
from anchortm.engine.solve.continuation import restarts, solve, solve_near, solve_path
from anchortm.engine.solve.identification import check_kinds, check_levels
from anchortm.engine.solve.newton import Options, Solution
from anchortm.engine.specification import Specification
from anchortm.engine.widening import levels_of, shifted
from anchortm.exceptions import IdentificationError, InputError, SeparationError
from anchortm.inputs.response import Response, as_response

__all__ = ["Problem", "Refit", "weighed", "with_known_names"]

Array = NDArray[np.float64]


class Refit(NamedTuple):
    """A fit to resampled rows: its parameters, baseline first, whether it converged, and its smallest curvature."""

    parameters: Array
    converged: bool
    min_eigenvalue: float
    steps: Any = None  # the baseline, if it is not among the parameters


@dataclass(frozen=True, eq=False)
class Problem(Formulation):
    """The inputs of one fit: specification, checked rows, link, and the basis made from the rows."""

    @classmethod
    def of(
        cls,
        spec: Specification,
        X: Any,
        y: Any,
        anchors: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        environments: Any = None,
    ) -> Self:
        """Return the problem for the inputs of a user, after checking them."""
        data = prepare(spec.check(), X, y, anchors, sample_weight, offset, environments)
        return with_known_names(cls.on(spec, data))

    @classmethod
    def on(cls, spec: Specification, data: Any) -> Self:
        """Return the problem for checked rows, with the basis made from these rows."""
        rule = spec.rule if data.support is None else spec.rule.with_support(data.support)
        return weighed(cls(spec, data, spec.link, rule(data.response, data.weights)))

    def kept(self, result: FitResult) -> Self:
        """Return a copy for the fitted model: without the objective, and with the number of nodes that was used."""
        data = self.data
        if result.random is not None:
            nodes = data.clusters._replace(n_nodes=result.random.n_nodes, slack=result.random.error)
            data = data._replace(clusters=nodes)
        return replace(self, data=data)

    def subset(self, rows: Any) -> Self:
        """Return the problem for some of the rows, checked again, with the basis made from them.

        Columns that these rows do not identify are left out; ``data.lost`` has them.
        """
        data = self.data.subset(rows)
        check_kinds(data.response)
        spec, data = self.identified(data)
        check_levels(data.response, data.design.matrix, data.design.names)
        return self.on(spec, data)

    def identified(self, data: Data) -> tuple[Specification, Data]:
        """Return some of the rows without the columns that they do not identify, and the specification for those."""
        names = data.names
        data, found = identified(data, lambda rows: self.spec.for_columns(names, rows.names).check_design(rows))
        return self.spec.for_columns(names, data.names), data._replace(near=found.near)

    def held_out(self, rows: Data) -> Data:
        """Return left-out rows with the columns of the fit, and with their classes coded as in the fit."""
        if self.data.lost:
            rows = rows.without([lost.name for lost in self.data.lost])
        if self.basis.levels is None:
            return rows
        return rows._replace(response=as_response(rows.response, "ordinal", self.basis.levels))

    # the fit

    def fit(self) -> FitResult:
        """Return the result of the fit."""
        self.check_anchors()
        with self.threads():
            solution, others = self.solve()
        return self.result(self.objective, solution, others)

    def solve(self) -> tuple[Solution, list[Solution]]:
        """Return the solution at the xi of the specification, and the solutions of random restarts."""
        objective, spec = self.objective, self.spec
        xi, start = float(spec.xi), self.start(self.objective)
        try:
            solution = solve(objective, start, xi, spec.options)
        except (IdentificationError, ArithmeticError) as error:
            if spec.start is not None and not math.isfinite(objective.sums(start).loglik):
                raise InputError(
                    "the log-likelihood is not finite at start: its baseline must increase, and its coefficients must "
                    "not be too large; start=None chooses start values"
                ) from None
            if not isinstance(error, SeparationError) or self.data.mixture is None:
                raise
            hint = "a stratum or level may lack outcomes that others have: merge them, or leave strata or varying out"
            raise SeparationError(f"{error}; {hint}") from None
        return solution, self._minima([solution], spec.options)[0]

    def path(self, xis: list[float]) -> list[FitResult]:
        """Return the results at several xi, each on the branch connected to xi = 0.

        If rows are read in batches, the branch is followed on a sample of them, and the fits share each read.
        """
        own = self.along(xis)
        if not self.data.in_memory:
            return self.data.together([self.at(xi=xi).fit for xi in xis])  # type: ignore[no-any-return]
        with own.threads():
            objective, options = own.objective, own.spec.options
            solutions = solve_path(objective, own.start(objective), xis, options)
            found = own._minima(solutions, replace(options, verbose=0))
        return [own.at(xi=s.xi).result(objective, s, others) for s, others in zip(solutions, found, strict=True)]

    def along(self, xis: list[float]) -> Self:
        """Return the problem whose loss has all these xi, after checking them; its ends may need another one."""
        for xi in xis:
            self.spec.at(xi=xi).check_xi()
        ends = [xi for xi in xis if not 0.0 <= xi < math.inf]
        return self.at(xi=ends[0]) if ends and 0.0 <= self.spec.xi < math.inf else self

    def _minima(self, solutions: list[Solution], options: Options) -> list[list[Solution]]:
        """Return the minima that random restarts find at the xi of each solution."""
        n = self.spec.n_restarts
        if not n:
            return [[s] for s in solutions]
        rng = generator(self.spec.random_state)
        return [restarts(self.objective, s, n, options, rng) if math.isfinite(s.xi) else [s] for s in solutions]

    def near(self, objective: Objective, at: tuple[Array, Array], xi: float) -> Solution:
        """Return the solution at an xi, started from the parameters of a similar fit if that succeeds."""
        return solve_near(objective, *at, lambda: self.start(objective), xi, self.spec.quiet)

    def refit(self, result: FitResult, data: Data) -> Refit:
        """Return the fit to other rows with the same basis, started from a result.

        Parameters of columns that these rows have lost are NaN.
        """
        own = self.on_part(data)
        shared = Shared.of(self, own)
        objective = own.make_objective(self.link_to_refit(result), data)
        at = shared.narrow(result.baseline, result.others)
        start = objective.coordinates.join(*at)
        solution = solve_near(objective, *at, lambda: start, result.xi, self.spec.quiet)
        theta, beta = objective.coordinates.split(solution.v)
        shift = objective.target_shift(solution.v)
        if shift:
            theta = theta - shift * levels_of(own.basis, None if data.mixture is None else data.mixture.corners)
        parameters = np.concatenate(shared.widen(theta, beta))
        return Refit(parameters, solution.converged, solution.min_eigenvalue, self.steps(objective, solution.v))

    def on_part(self, data: Any) -> Self:
        """Return the problem for rows that may have lost columns, with the same basis."""
        return replace(self, spec=self.spec.for_columns(self.data.names, data.names), data=data)

    def result(self, objective: Objective, solution: Solution, others: list[Solution]) -> FitResult:
        """Return the result of a solution: with a target the model of the target, whose h lies further by a shift."""
        found = FitResult.of(self, self.link, objective, solution, others)
        return shifted(found, found.target_shift) if found.target_shift else found

    def steps(self, objective: Objective, v: Array) -> Any:
        """Return the baseline at v, if it is not among the parameters; None by default."""
        return None

    def link_to_refit(self, result: FitResult) -> Any:
        """Return the link for refits, without parameters that they estimate again."""
        return result.link

    def fitted_link(self, objective: Objective, v: Array) -> Any:
        """Return the link of a solution, with its estimated parameters such as the dispersion."""
        return objective.link

    def estimated_before(
        self, data: Data, result: FitResult, objective: Objective, v: Array, pull: Array
    ) -> tuple[Array, Array, Array] | None:
        """Return terms of the sandwich for a parameter that was estimated first and then held; None without one.

        They are the influence of rows on the parameter, and the derivatives of grad(-loglik) + E'pull and of t with
        respect to it.
        """
        return None

    # rows under a fit

    def logliks(self, link: Any, theta: Array, beta: Array, rows: Data) -> Array:
        """Return the log-likelihood of each of these rows, which may be new, at these parameters."""
        terms = build_terms(self.basis, rows.response)
        moved, shift = self.moved(theta, beta, rows)
        if rows.clusters is not None:
            signed = rows.clusters._replace(Z=self.spec.sign * rows.clusters.Z)
            return marginal_rows(MovedRows(link, terms, moved, shift), signed, beta[len(rows.names) :])[0]
        return loglik_and_residuals(link, terms, moved, shift)[0]

    def ends(self, theta: Array, beta: Array, rows: Data) -> Ends | None:
        """Return h at the ends of these rows, which may be new; None if it is random, or has no scale."""
        if rows.clusters is not None or self.basis.kind in ("constant", "step"):
            return None
        return Ends.of(build_terms(self.basis, rows.response), *self.moved(theta, beta, rows))

    def shifted(self, link: Any, theta: Array, beta: Array, rows: Data, steps: Any = None) -> ShiftedRows | None:
        """Return these rows, which may be new, as functions of a shift of their place; None with random effects.

        ``steps`` is the baseline, if it is not among the parameters; see ``steps``.
        """
        ends = self.ends(theta, beta, rows)
        return None if ends is None else ShiftedEnds(link, ends)

    def moved(self, theta: Array, beta: Array, rows: Data) -> tuple[Array, Array]:
        """Return the baseline of rows, one for all or one for each, and their shift with its sign."""
        shift = rows.design.matrix @ beta[: len(rows.names)]
        shift = self.spec.sign * (shift if rows.offset is None else shift + rows.offset)
        theta = rows.thetas(theta)
        for part, own in self.own_parameters(beta, rows):
            theta = part.theta(self.spec, theta, own, rows)
        return theta, shift

    def draw(self, result: FitResult, rng: np.random.Generator) -> Array:
        """Return a simulated outcome for each row, after its entry time; classes are codes."""
        data, basis, link = self.data, result.basis, result.link
        theta, shift, u = data.thetas(result.baseline), data.design.matrix @ result.coef, rng.random(len(data.response))
        for part, own in self.own_parameters(result.others, data):
            theta = part.theta(self.spec, theta, own, data)
        if data.offset is not None:
            shift = shift + data.offset
        if data.clusters is not None and result.random is not None:
            shift = shift + result.random.draw(data.clusters, rng)
        shift, entry = self.spec.sign * shift, data.response.entry
        if entry is None:
            return basis.inverse(theta, link.quantile(u) - shift)
        late, known = np.flatnonzero(entry > basis.lower_bound), np.zeros(u.size)
        some = theta if theta.ndim == 1 else theta[late]
        known[late] = link.log_sf(baseline_values(basis.rows(entry[late]), some) + shift[late])
        return basis.inverse(theta, link.quantile_from_log_sf(np.log(u) + known) - shift)

    def redrawn(self, objective: Objective, response: Response) -> Objective:
        """Return the loss of the same rows with other outcomes, in the coordinates of ``objective``."""
        data = self.data._replace(response=response)
        if data.clusters is not None:
            data = data._replace(clusters=data.clusters._replace(n_nodes=objective.n_nodes, slack=objective.slack))
        return Formulation.make_objective(self, objective.link, data, objective.row_coordinates)


P = TypeVar("P", bound=Problem)


def weighed(problem: P) -> P:
    """Return the problem with the weights of environments that its specification asks for; the basis stays."""
    spec, data = problem.spec, problem.data
    rules = {name: getattr(spec, name) for name in ARGUMENTS}
    if not any(map(asks, rules.values())):
        return problem if data.weighting is None else replace(problem, data=data.weighing.put(None))
    shrunk = [name for name, rule in rules.items() if isinstance(rule, str) and rule == "shrunk"]
    known = Weighting(rules, copies={} if data.weighting is None else data.weighting.copies)
    if shrunk:
        known = replace(known, shrinkage=shrinkages(problem, data.weighing.put(known), shrunk))
    made = replace(problem, data=data.weighing.put(known))
    made.data.weighing.found  # noqa: B018 - raises an error if an environment lacks a weight
    places = made.data.weighing.places("environment_weights")
    if places is not None and data.clusters is not None and not data.clusters.within(places.codes):
        raise InputError(
            "environment_weights count clusters with random effects as often as their environment, but rows of a "
            "cluster are in several environments: weigh environments that contain whole clusters"
        )
    return made


def with_known_names(problem: P) -> P:
    """Return the problem of all rows; raise an error if weights name environments that do not occur."""
    weighing = problem.data.weighing
    for name, rule in ({} if weighing.rules is None else weighing.rules.rules).items():
        places = weighing.places(name)
        if places is not None:
            check_names(rule, places.labels, name)
    return problem
