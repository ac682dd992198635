"""Tests whether environments explain anything beyond a set of covariates: four statistics, one signature.

"gcm"
    the generalised covariance measure of score residuals and environments' residuals, compared with a chi-square
    distribution
"simulate"
    the same statistic, compared with those of outcomes drawn from the fitted model, for small samples
"wald"
    Wald's test of the environments and their interactions with the covariates, added to the model
"score"
    Rao's test of the environments, added to the model as covariates
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchortm.diagnostics.covariate_sets import SetFits, Setting
from anchortm.diagnostics.environment_regressions import Regression
from anchortm.diagnostics.gcm import generalised_covariance
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.solve.newton import Options, is_strict, minimise
from anchortm.exceptions import InputError
from anchortm.inference.covariance import inverse_hessian
from anchortm.inference.redrawn import redraws, whole_rows, why_not
from anchortm.inference.score_tests import score_statistic
from anchortm.inputs.design import Design

__all__ = ["METHODS", "SetTest", "Tested"]

Array = NDArray[np.float64]
Places = NDArray[np.intp]


class Tested(NamedTuple):
    """The test of one set."""

    statistic: float
    df: int
    p_value: float
    left_out: tuple[str, ...] = ()  # environment columns that add nothing to the others
    simulated: Array = np.zeros(0)


@dataclass(eq=False)
class SetTest(ABC):
    """A test of sets of columns.

    Attributes
    ----------
    setting : Setting
        The rows.
    regression : Regression
        How environments are predicted from covariates, for "gcm" and "simulate".
    n_draws, seed : int
        Number of simulated outcomes, and their seed.
    """

    setting: Setting
    regression: Regression
    n_draws: int = 199
    seed: int = 0
    fits: SetFits = field(init=False)

    def __post_init__(self) -> None:
        self.fits = SetFits(self.setting.problem)

    def fresh(self) -> SetTest:
        """Return the same test that has not fitted anything yet."""
        return replace(self)

    @abstractmethod
    def __call__(self, columns: Places) -> Tested:
        """Return the test of these columns."""

    def environment_residuals(self, columns: Places) -> Array:
        """Return the residuals of the environment columns given a set."""
        setting = self.setting
        return self.regression(setting.environments, setting.covariates(columns), setting.weights)

    def measured(self, r: Array, xi: Array, weights: Array | None) -> Tested:
        """Return the test by the generalised covariance measure."""
        A = self.setting.environments
        size = np.sqrt(np.average((A.matrix - np.average(A.matrix, axis=0)) ** 2, axis=0))
        statistic, df, used = generalised_covariance(r, xi, np.where(size > 0.0, size, np.inf), weights)
        left_out = tuple(name for name, own in zip(A.names, used, strict=True) if not own)
        return Tested(statistic, df, float(stats.chi2.sf(statistic, df)), left_out)


class GcmTest(SetTest):
    """The generalised covariance measure."""

    def __call__(self, columns: Places) -> Tested:
        """Return the test of these columns."""
        objective, solution = self.fits(columns)
        return self.measured(objective.residuals(solution.v), self.environment_residuals(columns), self.setting.weights)


class SimulatedTest(SetTest):
    """The generalised covariance measure with a simulated distribution.

    Permuted environments would be wrong: they are unrelated to the covariates, and the real ones need not be. Outcomes
    drawn from the fitted model leave covariates and environments as they are, and obey the hypothesis.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        obstacle = why_not(self.setting.problem.data)
        if obstacle is not None:
            raise InputError(f"method='simulate' cannot draw {obstacle}: use method='gcm'")

    def __call__(self, columns: Places) -> Tested:
        """Return the test of these columns."""
        objective, solution = self.fits(columns)
        xi, weights = self.environment_residuals(columns), self.setting.weights
        found = self.measured(objective.residuals(solution.v), xi, weights)
        if weights is not None:
            xi = np.repeat(xi, weights.astype(np.intp), axis=0)
        simulated = np.array([self._statistic(loss, v, xi) for loss, v in self._draws(columns)])
        p_value = (1 + int(np.sum(simulated >= found.statistic))) / (1 + simulated.size)
        return found._replace(p_value=p_value, simulated=simulated)

    def _draws(self, columns: Places) -> Iterator[tuple[Objective, Array]]:
        """Yield the losses of simulated outcomes, each with the fit that they were drawn from."""
        part = self.setting.part(columns)
        solution = SetFits(part)(np.arange(columns.size))[1]
        result = part.result(part.objective, solution, [solution])
        rng = np.random.default_rng([self.seed, *columns.tolist()])
        draws = redraws(part.with_data(whole_rows(part.data)), result, part.objective, rng)
        yield from ((loss, solution.v) for loss in islice(draws, self.n_draws))

    def _statistic(self, loss: Objective, v: Array, xi: Array) -> float:
        """Return the statistic of simulated outcomes after their own fit; infinite, which is safe, if that fails."""
        try:
            found = minimise(loss, v, 0.0, Options()) if v.size else None
        except (ArithmeticError, InputError):
            return np.inf
        if found is not None and not is_strict(loss, found):
            return np.inf
        return self.measured(loss.residuals(v if found is None else found.v), xi, None).statistic


class WaldTest(SetTest):
    """Wald's test of environments and their interactions with the covariates, by the model's information."""

    def __call__(self, columns: Places) -> Tested:
        """Return the test of these columns."""
        problem, A = self.setting.problem, self.setting.environments
        design = problem.data.design
        X, own = design.matrix[:, columns], [design.names[j] for j in columns]
        E = A.matrix - A.matrix.mean(axis=0)
        added = [f"[{name}]" for name in A.names]
        names = (*own, *added, *(f"{x}:{name}" for x in own for name in added))
        crossed = (X[:, :, None] * E[:, None, :]).reshape(X.shape[0], -1)
        wider = problem.data._replace(design=Design(np.hstack([X, E, crossed]), names, design.named))
        spec, data = problem.identified(wider)
        result = replace(problem, spec=spec, data=data).fit()
        if not result.converged:
            raise InputError(f"the fit with environments did not converge: {result.reason}")
        tested = [j for j, name in enumerate(data.names) if name not in own]
        if not tested:
            raise InputError("the covariates determine the environment, so nothing is left to test")
        at = result.baseline.size + np.array(tested)
        b = result.coef[tested]
        statistic = float(b @ np.linalg.solve(inverse_hessian(result)[np.ix_(at, at)], b))
        left_out = tuple(lost.name for lost in data.lost)
        return Tested(statistic, len(tested), float(stats.chi2.sf(statistic, len(tested))), left_out)


class RaoTest(SetTest):
    """Rao's score test of the environments, by the observed information."""

    def __post_init__(self) -> None:
        self.fits = SetFits(self.setting.anchored)

    def __call__(self, columns: Places) -> Tested:
        """Return the test of these columns."""
        objective, solution = self.fits(columns)
        statistic, df = score_statistic(objective, solution.v, solution.active)
        return Tested(statistic, df, float(stats.chi2.sf(statistic, df)))


METHODS: dict[str, type[SetTest]] = {"gcm": GcmTest, "simulate": SimulatedTest, "wald": WaldTest, "score": RaoTest}
