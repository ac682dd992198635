"""Invariant causal prediction: which covariates are in every set that explains the outcome in all environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import flag, level_between, whole_number
from anchortm.diagnostics.covariate_sets import Setting, part_of
from anchortm.diagnostics.environment_regressions import RegressionName, Regressor
from anchortm.diagnostics.invariance_tests import Method, make_test
from anchortm.diagnostics.parents_result import CausalParents, answered
from anchortm.diagnostics.parents_screening import check_screen, screened
from anchortm.diagnostics.parents_search import ParentsSearch
from anchortm.exceptions import InputError
from anchortm.models.base import TransformationModel

__all__ = ["causal_parents"]

MOST_FITS = 2**14


def causal_parents(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    environments: Labels | None = None,
    *,
    level: float = 0.05,
    mandatory: str | Sequence[str] = (),
    max_size: int | None = None,
    screen: Literal["lasso", "blanket"] | None = None,
    n_screened: int = 10,
    regression: RegressionName | Regressor = "linear",
    method: Method = "gcm",
    stop_early: bool = False,
    max_fits: int = MOST_FITS,
    n_jobs: int | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    n_draws: int = 199,
    random_state: Seed = 0,
) -> CausalParents:
    """Return the covariates that are in every set that explains the outcome in the same way in all environments.

    Each set of covariates is tested by ``invariance_test`` and accepted if its p-value exceeds the level. The answer is
    the intersection of the accepted sets (invariant causal prediction; Peters et al., 2016; for transformation models
    Kook et al., 2024). It needs no correction for the number of sets: if the set of all parents is accepted, which has
    a probability of at least 1 - level, the intersection is inside it.

    This holds if the environment does not act on the outcome directly, nothing hidden acts on both the outcome and its
    parents, and the model is right for the set of all parents. An empty answer means that the environments do not
    distinguish the sets; ``sensitivity()`` shows which covariates they shift. If every set is rejected, one of these
    conditions fails, and ``misspecified`` is True.

    Parameters
    ----------
    model : estimator
        Any model of this package without penalties, random effects and scale effects. Its xi is ignored: all fits are
        by maximum likelihood.
    X, y, environments, sample_weight, offset
        As for ``invariance_test``; or a formula with its environments and a table,
        ``causal_parents(model, "y ~ x1 + C(stage) + bs(age, 4) | site", data)``. Sets consist of the terms of a
        formula, not of their columns: a factor or a spline is one covariate, and an interaction is one of its own.
    level : float
        Level of the tests.
    mandatory : str or sequence of str
        Terms that are in every set, such as age in a medical study. They are never in the answer. Strata and covariates
        with varying effects are in every set, too.
    max_size : int, optional
        Largest number of covariates in a set beside the mandatory ones. The guarantee then holds only if there are no
        more parents than that.
    screen : {"lasso", "blanket"}, optional
        How to leave covariates out before sets are made of the others. The guarantee then holds only if no parent is
        left out: the probability of that is added to the level, and no test controls it. Screening looks at all
        environments together, where the effect of a parent can cancel.

        - ``"lasso"``: keeps the terms that the lasso selects at the smallest penalty with at most ``n_screened`` of
          them. For many covariates, also more than rows.
        - ``"blanket"``: keeps the terms on which the outcome depends given all others (the Markov blanket, which
          contains the parents), by likelihood-ratio tests at level 0.1; of more than ``n_screened`` those with the
          smallest p-values.
    n_screened : int
        Largest number of covariates that screening keeps.
    regression, method, n_draws, random_state
        As for ``invariance_test``.
    stop_early : bool
        Whether to stop after the first size of sets at which no covariate is in all accepted sets: larger sets cannot
        change the empty answer. They are then not tested, p-values of covariates are lower bounds that exceed the
        level, and there are no defining sets.
    max_fits : int
        Largest number of sets. Beyond it an error says how many there are and how long they would take.
    n_jobs : int, optional
        Number of processes.

    Returns
    -------
    CausalParents
        Sets that cannot be tested, for example because a covariate separates the outcomes, have a reason in place of a
        p-value and count as accepted, which keeps the guarantee. If no set can be tested, an error is raised.

    See Also
    --------
    anchortm.invariance_test : the test of one set

    Examples
    --------
    >>> import numpy as np, pandas as pd, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site = rng.integers(0, 4, 800)
    >>> x1 = rng.normal(size=800) + site
    >>> x2 = rng.normal(size=800) + 2 * (site == 1)
    >>> y = x1 - x2 + rng.logistic(size=800)
    >>> x3 = y + rng.normal(size=800) + site  # an effect of y
    >>> data = pd.DataFrame({"x1": x1, "x2": x2, "x3": x3, "y": y, "site": site})
    >>> found = atm.causal_parents(atm.ContinuousLogit(order=3), "y ~ x1 + x2 + x3 | site", data)
    >>> found.parents
    ('x1', 'x2')
    """
    level_between(level, "level")
    flag(stop_early, "stop_early")
    whole_number(max_fits, "max_fits", 1)
    check_screen(screen, n_screened)
    rows: dict[str, Any] = {
        "X": X,
        "y": y,
        "environments": environments,
        "sample_weight": sample_weight,
        "offset": offset,
    }
    penalised = {"l1": 1.0} if screen == "lasso" else {}  # so that more columns than rows pass the checks
    setting = Setting.of("causal_parents", model, **rows, **penalised)
    fixed = setting.terms.places(mandatory, "mandatory")
    kept = screened(screen, n_screened, setting, fixed, model, rows)
    left_out = setting.terms.named(j for j in range(len(setting.terms.names)) if j not in (*kept, *fixed))
    setting, chosen = narrowed(setting, sorted((*kept, *fixed)))
    size = len(kept) if max_size is None else min(whole_number(max_size, "max_size", 0), len(kept))
    test = make_test(setting, regression, method, n_draws, random_state)
    search = ParentsSearch(test, tuple(chosen[j] for j in kept), tuple(chosen[j] for j in fixed), size)
    search.check_price(max_fits)
    sets, stopped = search.run(n_jobs, level if stop_early else None)
    if sets["p_value"].isna().all():
        raise InputError(f"no set of covariates can be tested: {sets['reason'].iloc[0]}")
    return answered(
        sets,
        level,
        candidates=setting.terms.named(search.candidates),
        mandatory=setting.terms.named(search.mandatory),
        screened_out=left_out,
        max_size=max_size,
        n_sets=search.n_sets,
        stopped=stopped,
        rows=setting.n_rows / max(int(sets["df"].max()), 1),
        model=setting.model,
        method=method,
        regression=test.regression.name,
        search=search,
    )


def narrowed(setting: Setting, kept: Sequence[int]) -> tuple[Setting, dict[int, int]]:
    """Return the setting with some of its terms, and where these are now."""
    moved = {j: k for k, j in enumerate(kept)}
    if len(kept) == len(setting.terms.names) and not setting.problem.spec.l1:
        return setting, moved
    problem = part_of(setting.problem.at(l1=0.0), setting.terms.columns_of(kept))
    return replace(setting, problem=problem, terms=setting.terms.keeping(kept)), moved
