"""How causal parents depend on the level, the environments and the regression, and what shifts the covariates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchortm._messages import shown
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm.diagnostics.covariate_sets import Setting, Terms
from anchortm.diagnostics.environment_columns import EnvironmentColumns
from anchortm.diagnostics.environment_regressions import regression_of
from anchortm.diagnostics.parents_result import CausalParents, answered, asked
from anchortm.diagnostics.parents_search import ParentsSearch
from anchortm.diagnostics.relevance import FirstStage, first_stage
from anchortm.exceptions import AnchorTMError
from anchortm.inputs.anchors import AnchorColumns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ParentsSensitivity", "parents_sensitivity"]

NOT_MOVED = 0.05  # a covariate whose first stage has a larger p-value counts as not shifted


@dataclass(frozen=True, eq=False)
class ParentsSensitivity:
    """How sensitive the answer of ``causal_parents`` is, and which environments shift which covariates.

    Attributes
    ----------
    levels : DataFrame
        The answers at all levels, from the same tests; see ``CausalParents.levels``.
    environments : DataFrame
        One row for each environment (a level of a factor, or one of several variables) that was left out: its name, the
        number of rows left, parents, misspecified, the p-value of each covariate, and a reason if there is no answer.
    regressions : DataFrame
        One row for each regression of the environments: its name, parents, misspecified, and p-values.
    shifts : DataFrame
        One row for each covariate and environment: shift (mean in this environment less that of the other rows, in
        standard deviations; for a numeric environment the correlation) and p_value (of no correlation).
    first_stage : FirstStage or None
        How strongly all environments together shift each covariate. Sets that differ by a covariate that is not shifted
        are hard to tell apart, so that "nothing found" is to be expected.

    See Also
    --------
    anchortm.causal_parents : the answer; its method ``sensitivity`` makes this

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(3)
    >>> site = rng.integers(0, 3, 400)
    >>> x1 = rng.normal(size=400) + site
    >>> y = x1 + rng.normal(size=400)
    >>> x2 = rng.normal(size=400)
    >>> found = atm.causal_parents(atm.NormalLinear(), np.column_stack([x1, x2]), y, site)
    >>> found.sensitivity().environments[["left_out", "n", "parents"]]
            left_out    n parents
    0  environment=0  265   (x0,)
    1  environment=1  264   (x0,)
    2  environment=2  271   (x0,)
    """

    levels: pd.DataFrame
    environments: pd.DataFrame
    regressions: pd.DataFrame
    shifts: pd.DataFrame
    first_stage: FirstStage | None

    def frame(self) -> pd.DataFrame:
        """Return all answers in one table: what was changed, to what, parents, and whether every set was rejected."""
        import pandas as pd

        named = {"level": (self.levels, "level_from"), "environment left out": (self.environments, "left_out")}
        named |= {"regression": (self.regressions, "regression")}
        rows = [
            {"changed": what, "to": row[column], "parents": row["parents"], "misspecified": row["misspecified"]}
            for what, (table, column) in named.items()
            for row in table.to_dict("records")
        ]
        return pd.DataFrame(rows, columns=["changed", "to", "parents", "misspecified"])

    @shown
    def __str__(self) -> str:
        table = self.frame()
        table["to"] = [f"{to:.3g}" if isinstance(to, float) else to for to in table["to"]]
        return "\n".join(["Sensitivity of causal parents", table.to_string(index=False), *self.remarks])

    def _repr_html_(self) -> str:
        return report("Sensitivity of causal parents", self.frame(), *self.remarks)

    @property
    def remarks(self) -> list[str]:
        """Which covariates the environments do not shift."""
        if self.first_stage is None:
            return []
        table = self.first_stage.frame()
        still = table.index[table["pvalue"] > NOT_MOVED].tolist()
        if not still:
            return ["The environments shift the means of all covariates."]
        return [
            f"The environments do not clearly shift the means of {', '.join(map(str, still))}. Sets that differ by "
            "these covariates are hard to tell apart."
        ]

    __repr__ = __str__


def parents_sensitivity(found: CausalParents, regressions: Sequence[Any], n_jobs: int | None) -> ParentsSensitivity:
    """Return the sensitivity of an answer; see ``CausalParents.sensitivity``."""
    import pandas as pd

    levels, search = found.levels(), found.search
    setting, seed = search.test.setting, search.test.seed
    others = [regression_of(own, seed) for own in regressions]
    left_out = list(_left_out(setting.environments.given))
    with Task("searches", len(left_out) + len(others)) as task:
        by_environment = []
        for name, change in left_out:
            by_environment.append({"left_out": name, **_without(found, search, change, n_jobs)})
            task.step()
        by_regression = []
        for own in others:
            changed = search.with_test(replace(search.test, regression=own))
            by_regression.append({"regression": own.name, **_answer(found, changed, n_jobs)})
            task.step()
    return ParentsSensitivity(
        levels,
        pd.DataFrame(by_environment, columns=None if by_environment else ["left_out", "parents", "misspecified"]),
        pd.DataFrame(by_regression, columns=None if by_regression else ["regression", "parents", "misspecified"]),
        shifts_of(setting),
        first_stage(setting.problem.data.design, setting.environments.given) if setting.terms.names else None,
    )


Change = tuple[NDArray[np.bool_] | None, AnchorColumns]


def _left_out(given: AnchorColumns) -> Iterator[tuple[str, Change]]:
    """Yield what can be left out: the rows of each level of a factor with three or more, and each of several variables.

    Without one of two environments nothing is left to compare.
    """
    for codes, levels, name in zip(given.factors, given.levels, given.factor_names, strict=True):
        if levels.size < 3 and len(given.factors) + len(given.column_names) == 1:
            continue
        for code, level in enumerate(levels):
            kept = codes != code
            yield f"{name}={level}", (kept, given.subset(kept))
    if len(given.factors) + len(given.column_names) < 2:
        return
    for j, name in enumerate(given.factor_names):
        factors, names = (
            (*given.factors[:j], *given.factors[j + 1 :]),
            (*given.factor_names[:j], *given.factor_names[j + 1 :]),
        )
        fewer = replace(given, factors=factors, factor_names=names, levels=(*given.levels[:j], *given.levels[j + 1 :]))
        yield name, (None, fewer)
    for j, name in enumerate(given.column_names):
        names = (*given.column_names[:j], *given.column_names[j + 1 :])
        yield name, (None, replace(given, columns=np.delete(given.columns, j, axis=1), column_names=names))


def _without(found: CausalParents, search: ParentsSearch, change: Change, n_jobs: int | None) -> dict[str, Any]:
    """Return the answer without some rows, or without an environment variable, or the reason why there is none."""
    setting, (kept, given) = search.test.setting, change
    rows = int(len(given) if kept is None else kept.sum())
    try:
        problem = setting.problem if kept is None else setting.problem.subset(np.flatnonzero(kept))
        place = {name: j for j, name in enumerate(problem.data.design.names)}
        names = setting.problem.data.design.names
        columns = tuple(tuple(place[names[j]] for j in own if names[j] in place) for own in setting.terms.columns)
        terms = Terms(setting.terms.names, columns)
        changed = replace(setting, problem=problem, environments=EnvironmentColumns.of(given), terms=terms)
        test = replace(search.test, setting=changed)
    except AnchorTMError as error:
        return {"n": rows, "parents": (), "misspecified": False, "reason": str(error)}
    return {"n": rows, **_answer(found, search.with_test(test), n_jobs), "reason": ""}


def _answer(found: CausalParents, search: ParentsSearch, n_jobs: int | None) -> dict[str, Any]:
    """Return the answer of another search at the same level."""
    changed = answered(search.run(n_jobs)[0], found.level, **(asked(found) | {"search": search}))
    p_values = {f"p_{name}": p for name, p in changed.p_values.items()}
    return {"parents": changed.parents, "misspecified": changed.misspecified, **p_values}


def shifts_of(setting: Setting) -> pd.DataFrame:
    """Return how far each covariate lies in each environment from its mean in the others."""
    import pandas as pd

    given, design, weights = setting.environments.given, setting.problem.data.design, setting.weights
    w = np.ones(len(given)) if weights is None else weights
    rows = []
    for name, x in zip(design.names, design.matrix.T, strict=True):
        for variable, level, column in _every_environment(given):
            r, difference = _association(x, column, w)
            t = r * np.sqrt((w.sum() - 2.0) / max(1.0 - r**2, 1e-300))
            shift = r if level == "" else difference
            p = 2.0 * float(stats.t.sf(abs(t), w.sum() - 2.0))
            rows.append({"covariate": name, "environment": variable, "level": level, "shift": shift, "p_value": p})
    return pd.DataFrame(rows, columns=["covariate", "environment", "level", "shift", "p_value"])


def _every_environment(given: AnchorColumns) -> Iterator[tuple[str, Any, NDArray[np.float64]]]:
    """Yield each level of each factor with its indicator, and each numeric variable."""
    for codes, levels, name in zip(given.factors, given.levels, given.factor_names, strict=True):
        for code, level in enumerate(levels):
            yield name, level, (codes == code).astype(np.float64)
    for name, column in zip(given.column_names, given.columns.T, strict=True):
        yield name, "", column


def _association(x: NDArray[np.float64], column: NDArray[np.float64], w: NDArray[np.float64]) -> tuple[float, float]:
    """Return the weighted correlation, and the difference of means by an indicator in deviations of x."""
    X, Z = x - np.average(x, weights=w), column - np.average(column, weights=w)
    sx, sz = np.sqrt(np.average(X**2, weights=w)), np.sqrt(np.average(Z**2, weights=w))
    if sx == 0.0 or sz == 0.0:
        return 0.0, 0.0
    r = float(np.average(X * Z, weights=w) / (sx * sz))
    return r, r / float(sz)  # cov / var(Z) is the difference of means
