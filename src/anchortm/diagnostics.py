"""Is anchoring needed? What the residuals of a model still say about the anchors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone

from anchortm.anchors import anchor_columns
from anchortm.exceptions import InputError
from anchortm.links import OneEnd
from anchortm.model import TransformationModel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupResiduals", "ScoreTest", "group_residuals", "score_test"]

Array = NDArray[np.float64]

MAX_DIRECTIONS = 3000


@dataclass(frozen=True)
class ScoreTest:
    """Rao's test that the anchors, added to the model as covariates, would have no effect."""

    statistic: float
    df: int
    pvalue: float
    model: str

    def frame(self) -> pd.DataFrame:
        """Return the test as a table of one row."""
        import pandas as pd

        return pd.DataFrame([{"statistic": self.statistic, "df": self.df, "pvalue": self.pvalue}])

    def __str__(self) -> str:
        word = "explain more" if self.pvalue < 0.05 else "are not seen to explain more"
        return (
            f"Score test of invariance, {self.model}: {self.statistic:.4g} on {self.df} "
            f"degree{'s' if self.df != 1 else ''} of freedom, p = {self.pvalue:.3g}; "
            f"the anchors {word} than the covariates do"
        )

    __repr__ = __str__


def score_test(model: TransformationModel, X: Any, y: Any, anchors: Any, *, offset: Any = None) -> ScoreTest:
    """Return the score test of "the anchors add nothing", at the maximum-likelihood fit.

    With t = Q'r the coordinates of the residuals on the anchors, E = dt/dw and nH the
    information, the statistic is t'[Q'diag(r')Q - E (nH)^-1 E']^+ t, with as many degrees of
    freedom as the bracket has rank: directions that the model contains already do not count. It
    tests first-order invariance of the residuals, so a small p-value says that anchoring has
    something to do. Increments of the baseline at their bound count as known.
    """
    plain = clone(model).set_params(xi=0.0)
    data = plain._prepare(X, y, anchors, None, offset)
    if data.anchors is None:
        raise InputError("a score test needs anchors")
    basis = plain._make_basis(data.response, None)
    objective = plain._objective(plain._make_link(), basis, data)
    assert objective.anchors is not None  # noqa: S101
    if objective.anchors.rank > MAX_DIRECTIONS:
        raise InputError(
            f"the anchors have {objective.anchors.rank} directions, more than {MAX_DIRECTIONS}: merge levels"
        )
    solution, _ = plain._solve(objective, basis, data, 0.0)
    if not solution.converged:
        raise InputError(f"the maximum-likelihood fit did not converge ({solution.reason}): no score test")
    v, t = solution.v, solution.sums.t
    d = objective.derivatives(v)
    free = ~(solution.active | (objective.coordinates.lower == objective.coordinates.upper))
    E, information = d.E[:, free], d.hessian[np.ix_(free, free)]
    bracket = _residual_slopes(objective, v) - E @ np.linalg.solve(information, E.T)
    values, vectors = np.linalg.eigh(0.5 * (bracket + bracket.T))
    keep = values > 1e-8 * values[-1]
    statistic = float(np.sum((vectors[:, keep].T @ t) ** 2 / values[keep]))
    df = int(keep.sum())
    return ScoreTest(statistic, df, float(stats.chi2.sf(statistic, df)), type(model).__name__)


def _residual_slopes(objective: Any, v: Array) -> Array:
    """Return Q'diag(r')Q, with r' = r_u + r_v the derivative of a residual in the shift."""
    slopes = np.zeros(objective.n_rows)
    for term in objective.terms:
        values, _ = objective._evaluate(term, v)
        dr = values.dr if isinstance(values, OneEnd) else values.r_u + values.r_v
        slopes[term.rows] += term.sign * dr
    return np.asarray(objective.anchors.gram(slopes))


@dataclass(frozen=True, eq=False)
class GroupResiduals:
    """Mean score residual of each environment under two fits."""

    table: Any

    def frame(self) -> pd.DataFrame:
        """Return one row for each environment: n, and the mean residual before and after."""
        return self.table

    def __repr__(self) -> str:
        return str(self.table.round(4).to_string())


def group_residuals(
    before: Any, after: Any, X: Any, y: Any, environments: Any, *, offset: Any = None
) -> GroupResiduals:
    """Return the mean residual of each environment under a fit without and one with a penalty.

    Equal means are what a large xi aims at: the model then errs in no direction in any place.
    """
    import pandas as pd

    columns = anchor_columns(environments)
    if len(columns.factors) != 1 or columns.column_names:
        raise InputError("environments must be one column of groups")
    codes, levels = columns.factors[0], columns.levels[0]
    counts = np.bincount(codes)
    means = {
        name: np.bincount(codes, fit.residuals(X, y, offset=offset)) / counts
        for name, fit in (("before", before), ("after", after))
    }
    return GroupResiduals(pd.DataFrame({"environment": levels, "n": counts, **means}))
