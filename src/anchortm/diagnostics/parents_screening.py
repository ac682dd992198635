"""Leave covariates out before all sets of the others are tested: by the lasso, or by the Markov blanket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from anchortm._util.checks import whole_number
from anchortm.diagnostics.covariate_sets import SetFits, Setting, Terms
from anchortm.exceptions import InputError
from anchortm.selection.elastic_net import elastic_net_path

__all__ = ["check_screen", "screened"]

SCREENS = ("lasso", "blanket")
BLANKET_LEVEL = 0.1  # a term whose likelihood-ratio test has a larger p-value is left out
N_LAMBDAS = 40


def check_screen(screen: Any, most: Any) -> None:
    """Refuse an unknown way of screening, and an invalid number of terms."""
    if screen is not None and screen not in SCREENS:
        raise InputError(f"screen must be {', '.join(map(repr, SCREENS))} or None, not {screen!r}")
    whole_number(most, "n_screened", 1)


def screened(
    screen: str | None, most: int, setting: Setting, mandatory: Sequence[int], model: Any, rows: dict[str, Any]
) -> tuple[int, ...]:
    """Return the terms that are left to make sets of: all that are not mandatory, or at most ``most`` of them."""
    if screen == "lasso":
        return by_lasso(setting, mandatory, most, model, **rows)
    if screen == "blanket":
        return by_blanket(setting, mandatory, most)
    return tuple(j for j in range(len(setting.terms.names)) if j not in mandatory)


def by_lasso(
    setting: Setting, mandatory: Sequence[int], most: int, model: Any, X: Any, y: Any, environments: Any, **beside: Any
) -> tuple[int, ...]:
    """Return the terms that the lasso selects at the smallest penalty that leaves at most ``most`` of them.

    Columns are penalised by their deviations, those of mandatory terms not at all.
    """
    terms, factor = setting.terms, setting.problem.data.design.matrix.std(axis=0)
    factor[terms.columns_of(mandatory)] = 0.0
    own = clone(model).set_params(xi=0.0, start=None, penalty_factor=factor)
    anchors = None if isinstance(X, str) else environments
    path = elastic_net_path(own, X, y, anchors, n_lambdas=N_LAMBDAS, progress=False, **beside)
    kept: tuple[int, ...] = ()
    for coefs in path.coefs[:, 0]:
        active = _active(terms, coefs, mandatory)
        if len(active) > most:
            break
        kept = active
    return kept


def _active(terms: Terms, coefs: Any, mandatory: Sequence[int]) -> tuple[int, ...]:
    """Return the terms with a coefficient that is not 0."""
    candidates = (j for j in range(len(terms.names)) if j not in mandatory)
    return tuple(j for j in candidates if np.any(coefs[list(terms.columns[j])] != 0.0))


def by_blanket(setting: Setting, mandatory: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the terms that the outcome depends on given all others, at most ``most``.

    Each is tested by the likelihood ratio of the models with and without it.
    """
    terms, fits = setting.terms, SetFits(setting.problem)
    whole = list(range(len(terms.names)))
    objective, solution = fits(terms.columns_of(whole))
    dispersion = objective.dispersion(solution.v)
    found = []
    for j in (j for j in whole if j not in mandatory):
        smaller = fits(terms.columns_of([k for k in whole if k != j]))[1]
        ratio = 2.0 * (solution.sums.loglik - smaller.sums.loglik) / dispersion
        found.append((float(stats.chi2.sf(max(ratio, 0.0), len(terms.columns[j]))), j))
    kept = [j for p, j in sorted(found) if p <= BLANKET_LEVEL][:most]
    return tuple(sorted(kept))
