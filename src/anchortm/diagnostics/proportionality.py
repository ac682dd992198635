"""Does a covariate shift h by the same amount everywhere? A score test against effects that vary along the response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone

from anchortm._messages import shown
from anchortm._typing import AnyTable, Array, Columns, Covariates, Labels, Numbers, Outcome
from anchortm._util.html import report
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import tell_alphabetical
from anchortm.exceptions import InputError
from anchortm.inputs.baselines import varying_groups
from anchortm.inputs.parts import NAMES, why_not
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ProportionalityTest", "proportionality_test"]

AT_BOUND = 1e-9  # increments below this, relative to the largest parameter, count as being at their bound


@dataclass(frozen=True, eq=False)
class ProportionalityTest:
    """Score tests of "the effect does not vary along the response", one per covariate or factor.

    Attributes
    ----------
    rows : list of dict
        The rows of the table that ``frame`` returns.
    model : str
        Name of the model.

    See Also
    --------
    anchortm.proportionality_test : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> atm.proportionality_test(atm.OrdinalRegression(), formula, data).frame().round(3)
                    statistic  df  p-value
    covariate
    temp[T.warm]        1.965   3    0.580
    contact[T.yes]      0.653   3    0.884
    """

    rows: list[dict[str, Any]]
    model: str

    def frame(self) -> pd.DataFrame:
        """Return statistic, degrees of freedom and p-value of each covariate or factor."""
        import pandas as pd

        return pd.DataFrame(self.rows).set_index("covariate")

    @shown
    def __repr__(self) -> str:
        return f"{self._title()}\n{self.frame().to_string(float_format='{:.4g}'.format)}"

    def _repr_html_(self) -> str:
        return report(self._title(), self.frame())

    def _title(self) -> str:
        return f"Score test of effects that do not vary along the response, {self.model}"


def proportionality_test(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    covariates: Sequence[Columns] | None = None,
    *,
    anchors: Labels | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
) -> ProportionalityTest:
    """Test for each covariate whether its effect varies along the response (proportional odds or hazards).

    Under the null hypothesis the effect is the same everywhere. Under the alternative it is a curve in the basis of the
    baseline (``varying``). Rao's score test needs only the slope and curvature of the larger model's log-likelihood at
    the smaller fit, so the larger model is not fitted. Increments of the baseline at their bound count as known.

    Parameters
    ----------
    model : estimator
        A model with a baseline, with or without strata and varying effects. The test ignores its xi.
    X, y : covariates and outcome
        As for ``fit``; or a formula and a table in memory, ``proportionality_test(model, formula, data)``.
    covariates : list, optional
        Names or positions of covariates; by default every column of X. To test the dummies of a factor together, pass
        them as a list: ``["age", ["stage[T.2]", "stage[T.3]"]]``.
    anchors, sample_weight, offset : optional
        As for ``fit``; with a table, weights and offset may be names of columns. The test does not use the anchors.

    See Also
    --------
    anchortm.diagnostics.proportionality.ProportionalityTest : the result

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> atm.proportionality_test(atm.ContinuousLogit(), data[["rm", "lstat"]], data.cmedv)
    Score test of effects that do not vary along the response, ContinuousLogit
               statistic  df   p-value
    covariate
    rm             135.4   5 1.712e-27
    lstat          14.31   5   0.01376
    """
    _check(model)
    rows = given(clone(model).set_params(xi=0.0), X, y, anchors, sample_weight=sample_weight, offset=offset)
    rows, problem = rows.in_memory("proportionality_test").prepared()
    null = _Null.fitted(problem)
    names = list(null.problem.data.design.names)
    groups: list[list[str | int]] = [[name] for name in names]
    if covariates is not None:
        groups = [group for group, _ in varying_groups(covariates, "covariates")]
    if not groups:
        raise InputError("there are no covariates whose effect could vary")
    found = []
    for group in groups:
        wider = clone(rows.model).set_params(varying=[*_own(rows.model.varying), group])
        found.append(null.against(replace(rows, model=wider).prepared()[1]))
    return ProportionalityTest(found, type(model).__name__)


def _check(model: TransformationModel) -> None:
    """Refuse models whose effects cannot vary along the response."""
    check_model(model, "score_test")
    spec = model.specification()
    for name in (*spec.asked(), spec.likelihood):
        if why_not("varying", name) is not None:
            raise InputError(
                f"effects cannot vary along the response with {NAMES[name]}: use ProportionalHazards, "
                "CountRegression, OrdinalRegression or another model with a baseline"
            )
    if spec.scale is not None:
        raise InputError(
            "proportionality tests do not support scale effects: the scale multiplies varying effects but not others, "
            "so that neither model contains the other; compare their left-out environments"
        )


@dataclass(frozen=True, eq=False)
class _Null:
    """The maximum-likelihood fit of the null hypothesis, in which the effects do not vary."""

    problem: Problem
    v: Array

    @classmethod
    def fitted(cls, problem: Problem) -> _Null:
        """Return the fit, or refuse models without one."""
        problem.refuse("score_test")
        tell_alphabetical(problem.data)
        with problem.threads():
            solution, _ = problem.solve()
        if not solution.converged:
            raise InputError(f"the maximum-likelihood fit did not converge ({solution.reason}): no score test")
        return cls(problem, solution.v)

    def against(self, wider: Problem) -> dict[str, Any]:
        """Return the score test against a problem in which one more group of effects varies."""
        data, basis = wider.data, self.problem.basis
        assert data.mixture is not None  # noqa: S101
        theta, beta = self.problem.objective.coordinates.split(self.v)
        names = self.problem.data.design.names
        effects = dict(zip(names, beta[: len(names)], strict=True))
        new = [name for name in effects if name not in data.design.names]
        constant = basis.increments.matrix[:, 0]  # coefficients of a constant h
        moved = np.array([effects[name] * constant for name in new])
        corners, first = data.mixture.corners, theta.reshape(-1, basis.n_parameters).copy()
        # the baselines of the larger model belong to the low end of the covariate's range
        first[: corners.n_baselines] += corners.sign * corners.groups[-1].low * moved.sum(axis=0)
        larger = replace(wider, basis=basis).objective
        rest = np.array([*(effects[name] for name in data.design.names), *beta[len(names) :]])
        v = larger.coordinates.join(np.vstack([first, moved]).ravel(), rest)
        with self.problem.threads(larger):
            at = larger.derivatives(v)
        size, inside = _dimension(larger, v)
        step = np.linalg.lstsq(at.hessian[np.ix_(inside, inside)], at.gradient[inside], rcond=1e-12)[0]
        statistic, df = float(at.gradient[inside] @ step), size - _dimension(self.problem.objective, self.v)[0]
        row = {"covariate": ", ".join(new), "statistic": statistic, "df": df}
        return row | {"p-value": float(stats.chi2.sf(statistic, df)) if df else np.nan}


def _own(varying: Any) -> list[Any]:
    """Return the effects that already vary, as a list."""
    if isinstance(varying, Mapping):
        raise InputError("proportionality_test needs varying as a list of covariates, not a mapping with ranges")
    return [group for group, _ in varying_groups(varying)]


def _dimension(objective: Objective, v: Array) -> tuple[int, NDArray[np.bool_]]:
    """Return the number of free directions at v, and the parameters that are not at a bound."""
    coordinates = objective.coordinates
    free = v - coordinates.lower > AT_BOUND * (1.0 + np.abs(v).max())
    free &= coordinates.lower < coordinates.upper
    shared = sum(int(free[piece].all(axis=0).sum()) for piece in coordinates.pieces[1:])
    return int(free.sum()) - shared, free
