"""Effects that are curves: varying effects along the response, and smooth terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchortm._util.checks import level_between, real_numbers
from anchortm.exceptions import InputError
from anchortm.inference.bootstrap import any_covariance
from anchortm.inputs.splines import smooth_terms
from anchortm.predict.fitted import Fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["smooth_effects", "varying_effects"]

Array = NDArray[np.float64]


def varying_effects(
    model: Fitted, at: Any, level: float, kind: str | None, clusters: Any, **options: Any
) -> pd.DataFrame:
    """Return varying effects with pointwise intervals; see ``varying_effects`` of models."""
    import pandas as pd

    result = model.result_
    corners, basis = result.corners, result.basis
    if corners is None or not corners.varying:
        raise InputError("this model has no varying effects: see coef_, or name covariates in varying")
    ordinal = basis.kind == "ordinal"
    points = np.atleast_1d(np.asarray(at, dtype=object) if ordinal else real_numbers(at, "at"))
    if points.ndim != 1 or (not ordinal and not np.isfinite(points).all()):
        raise InputError("at must be an outcome or a vector of outcomes")
    codes = points
    if ordinal:
        known = {label: k for k, label in enumerate((basis.levels or ())[:-1])}
        unknown = [point for point in points if point not in known]
        if unknown:
            raise InputError(
                f"at must be among the classes {list(known)} (the last class has no threshold), not {unknown[0]!r}"
            )
        codes = np.array([known[point] for point in points])
    a = basis.rows(codes.astype(np.float64))
    V = any_covariance(model, kind, clusters, **options)
    width = stats.norm.ppf(0.5 + 0.5 * level_between(level))
    K, first = a.shape[1], corners.n_baselines
    tables = []
    for j, name in enumerate(corners.varying_names, start=first):
        block = slice(j * K, (j + 1) * K)
        effect = a @ result.baseline[block]
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", a, V[block, block], a), 0.0))
        columns = {"covariate": name, "y": points, "effect": effect, "std. error": error}
        tables.append(pd.DataFrame(columns | {"lower": effect - width * error, "upper": effect + width * error}))
    return pd.concat(tables, ignore_index=True)


def smooth_effects(
    model: Fitted, term: str | None, at: Any, level: float, kind: str | None, clusters: Any, **options: Any
) -> pd.DataFrame:
    """Return the curves of smooth terms with pointwise intervals; see ``smooth_effects`` of models."""
    import pandas as pd

    result, formula = model.result_, model.new_rows_.formula
    terms = smooth_terms(result.marks)
    if not terms:
        raise InputError("this model has no smooth terms: write s(x) in the formula")
    if formula is None:
        raise InputError("curves need a formula, but the model was fitted without one: use from_formula")
    if term is not None:
        names = [name for own in formula.columns_of(term) for name in own]
        terms = {name: places for name, places in terms.items() if set(names) & {result.coef_names[j] for j in places}}
        if not terms:
            raise InputError(
                f"{term} is not a smooth term of this model, which has {', '.join(smooth_terms(result.marks))}"
            )
    if at is not None and len(terms) > 1:
        raise InputError(f"at needs a single term: pass term=, one of {', '.join(terms)}")
    V = any_covariance(model, kind, clusters, **options)[result.baseline.size :, result.baseline.size :]
    width = stats.norm.ppf(0.5 + 0.5 * level_between(level))
    tables = []
    for name, places in terms.items():
        x, columns = formula.smooth_columns(name, at)
        effect = columns @ result.coef[places]
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", columns, V[np.ix_(places, places)], columns), 0.0))
        table = {"term": name, "x": x, "effect": effect, "std. error": error}
        tables.append(pd.DataFrame(table | {"lower": effect - width * error, "upper": effect + width * error}))
    return pd.concat(tables, ignore_index=True)
