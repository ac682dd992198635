"""Effects on the scale of the outcome: what a unit of a covariate does to the median or to P(Y > c)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from anchortm import plotting
from anchortm._messages import shown
from anchortm._util.checks import level_between
from anchortm.engine.objective.location_scale import scale_columns, scaled_baseline
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inference.covariance import Bootstrap, resolve
from anchortm.inputs.design import to_design
from anchortm.models.base import TransformationModel
from anchortm.predict.distribution import PredictedDistribution

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MarginalEffects", "marginal_effects"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MarginalEffects:
    """Average effects of the covariates on the scale of the outcome, with confidence intervals.

    Attributes
    ----------
    table : DataFrame
        What ``frame`` returns.
    of : str
        What changes.
    level : float
        Confidence of the intervals.

    See Also
    --------
    anchortm.marginal_effects : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> effects = atm.marginal_effects(model, data[["duration"]])
    >>> effects.frame()[["effect", "std. error", "per"]].round(2)
               effect  std. error   per
    covariate
    duration   -10.29        0.81  unit
    """

    table: Any
    of: str
    level: float

    def frame(self) -> pd.DataFrame:
        """Return one row for each covariate: effect, standard error, interval, and per what."""
        return self.table

    def plot(self, ax: Any = None) -> Any:
        """Draw the effects with their intervals and return the axes."""
        title = f"average marginal effects, {self.level:.0%} intervals"
        return plotting.intervals(self.table, ax, value="effect", unit=f"change of {self.of}", title=title)

    @shown
    def __repr__(self) -> str:
        table = self.table.to_string(float_format=lambda v: f"{v:.4g}")
        return f"Average change of {self.of}, {self.level:.0%} intervals\n{table}"


def marginal_effects(
    model: TransformationModel,
    X: Any,
    of: Literal["median", "probability"] = "median",
    *,
    above: Any = None,
    level: float = 0.95,
    uncertainty: Any = None,
    offset: Any = None,
) -> MarginalEffects:
    """Return the average effect of each covariate over the rows of X.

    Of a number: the derivative, so the change per unit for small changes. Of a column that was 0 or 1 in
    all rows of the fit: the difference between 1 and 0. After ``from_formula`` effects are those of the table's
    columns, with all terms that hold them (splines, interactions), and of each level of a factor against the
    first; without a formula the dummies of a factor are taken one at a time, which is not the same.

    Parameters
    ----------
    model : fitted estimator
    X : array or frame
        Rows to average over, usually those of the fit or of the new place.
    of : {"median", "probability"}
        The conditional median, or P(Y > above).
    above : number or class
        For "probability".
    level : float
        Confidence.
    uncertainty : optional
        As for ``confidence_band``: a kind of covariance, a matrix, or a Bootstrap.

    See Also
    --------
    anchortm.diagnostics.marginal_effects.MarginalEffects : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> atm.marginal_effects(model, data, of="probability", above=300)
    Average change of P(Y > 300), 95% intervals
                    effect  std. error     lower   upper                 per
    covariate
    treat[rIFN-g]   0.3021     0.07928    0.1467  0.4575  instead of placebo
    age           0.007313    0.004265 -0.001046 0.01567                unit
    """
    import pandas as pd

    check_is_fitted(model, "coef_")
    if model.basis_.kind == "step":
        raise InputTypeError(
            f"{type(model).__name__} has no marginal effects: its baseline is not among the parameters; take "
            "ProportionalHazards, or compare predict_distribution at two values of a covariate"
        )
    if model.basis_.kind == "constant":
        raise InputTypeError(
            f"{type(model).__name__} models the mean: compare predict at two values of a covariate, with "
            "mean_intervals; with a log or logit link exp(coef) is a ratio already"
        )
    level_between(level)
    if model._corners is not None:
        raise InputError(
            "marginal effects are of models with one baseline: with strata or varying effects predict both"
        )
    if model._random is not None:
        raise InputError(
            "marginal effects of models with random effects are not supported: compare predict_distribution at two "
            "values of a covariate"
        )
    matrix = to_design(model._design(X, None)).matrix
    fixed = model._shift(X, None, offset) - model._sign * (matrix @ model.coef_)
    estimate = np.concatenate([model.baseline_, model._others])
    changes = _changes_of_columns(model, matrix) if not hasattr(model, "formula_") else _changes_of_variables(model, X)
    effect = _averages(model, matrix, fixed, of, above, changes)
    value = effect(estimate)
    uncertainty = resolve(model, uncertainty)
    if isinstance(uncertainty, Bootstrap):
        draws = _draws(effect, uncertainty)
        error = draws.std(axis=0, ddof=1)
        lower, upper = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    else:
        J = _jacobian(effect, estimate, np.sqrt(np.maximum(np.diag(uncertainty), 0.0)))
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", J, uncertainty, J), 0.0))
        width = stats.norm.ppf(0.5 + 0.5 * level) * error
        lower, upper = value - width, value + width
    per = [change.per for change in changes]
    table = {"effect": value, "std. error": error, "lower": lower, "upper": upper, "per": per}
    name = "the median" if of == "median" else f"P(Y > {above})"
    index = pd.Index([change.name for change in changes], name="covariate")
    return MarginalEffects(pd.DataFrame(table, index=index), name, level)


class _Change(NamedTuple):
    """What is done to a covariate: a derivative of the design's rows, or the rows after and before."""

    name: str
    per: str
    slope: Array | None
    after: Array | None = None
    before: Array | None = None


def _changes_of_columns(model: Any, matrix: Array) -> list[_Change]:
    """Return a change for each column: from 0 to 1 where the fit saw nothing else, else a small one."""
    changes = []
    for j, name in enumerate(model.coef_names_):
        unit = np.eye(matrix.shape[1])[j]
        if model._binary[j]:
            without = matrix * (1.0 - unit)
            changes.append(_Change(name, "0 to 1", None, without + unit, without))
        else:
            changes.append(_Change(name, "unit", np.broadcast_to(unit, matrix.shape)))
    return changes


def _changes_of_variables(model: Any, X: Any) -> list[_Change]:
    """Return changes of the formula's variables, with all their terms: each level against the first, small steps."""
    formula = model.formula_
    changes = []

    def rows(name: str, value: Any) -> Array:
        return np.asarray(to_design(formula.design(formula.with_column(X, name, value))).matrix)

    for name, values in formula.variables(X).items():
        if isinstance(values, list):
            first = rows(name, values[0])
            for level in values[1:]:
                after = rows(name, level)
                changes.append(_Change(f"{name}[{level}]", f"instead of {values[0]}", None, after, first))
            continue
        column, (low, high) = values
        if set(np.unique([low, high])) <= {0.0, 1.0} and np.isin(column, [0.0, 1.0]).all():
            ends = [rows(name, v) for v in (1.0, 0.0)]
            changes.append(_Change(name, "0 to 1", None, *ends))
            continue
        # small steps that stay where the fit was, so that splines need not extrapolate
        step = 1e-5 * (high - low)
        up = np.minimum(column + step, np.maximum(high, column))
        down = np.maximum(column - step, np.minimum(low, column))
        ends = [rows(name, v) for v in (up, down)]
        changes.append(_Change(name, "unit", (ends[0] - ends[1]) / (up - down)[:, None]))
    return changes


def _draws(effect: Callable[[Array], Array], bootstrap: Bootstrap) -> Array:
    """Return the effects of each refit; a few in which they do not exist are left out."""
    found = []
    for w in bootstrap.draws:
        with suppress(InputError):
            found.append(effect(w))
    if len(found) < 0.9 * len(bootstrap.draws):
        raise InputError(
            f"in {len(bootstrap.draws) - len(found)} of {len(bootstrap.draws)} resampled fits some medians are "
            "infinite: use of='probability'"
        )
    return np.array(found)


def _averages(
    model: Any, matrix: Array, fixed: Array, of: str, above: Any, changes: list[_Change]
) -> Callable[[Array], Array]:
    """Return the function from parameters to the average effect of each change."""
    k, p, sign = model.baseline_.size, model.coef_.size, model._sign
    columns = scale_columns(getattr(model, "scale_names_", None), model.coef_names_)
    discrete = model.basis_.discrete
    if of == "median":
        if discrete:
            raise InputError("the median of classes and counts jumps: use of='probability', above=...")
        if above is not None:
            raise InputError("above= goes with of='probability'")
    elif of == "probability":
        if above is None:
            raise InputError("of='probability' needs above=c, for P(Y > c)")
    else:
        raise InputError(f"of must be 'median' or 'probability', not {of!r}")
    if above is not None and (np.ndim(above) or above != above):
        raise InputError(f"above must be one number or class, not {above!r}")

    def distribution(w: Array, rows: Array) -> PredictedDistribution:
        theta = scaled_baseline(w[:k], rows[:, columns], w[k + p :]) if columns else w[:k]
        shift = fixed + sign * (rows @ w[k : k + p])
        return PredictedDistribution(model.link_, model.basis_, theta, shift, model.time_)

    def outcome(w: Array, rows: Array) -> Array:
        d = distribution(w, rows)
        values = np.asarray(d.median() if of == "median" else d.sf(above), dtype=np.float64)
        if not np.isfinite(values).all():
            raise InputError("some medians are infinite (h is flat beyond the support): use of='probability'")
        return values

    def slope(w: Array) -> tuple[Array, Array]:
        """Return the derivative of the outcome in h at fixed y, and the baseline there, which a scale multiplies."""
        d, every = distribution(w, matrix), np.arange(matrix.shape[0])
        if of == "median":
            y = outcome(w, matrix)
            base = d._baseline(y, every)
            with np.errstate(divide="ignore"):
                return np.where(base > -np.inf, -1.0 / d._slopes(y, every), 0.0), base
        y = np.atleast_1d(d._codes(above))
        base = d._baseline(np.repeat(y, every.size) if columns else y, every)
        h = base + d._moved
        return -np.exp(d.link.log_density(np.where(np.isfinite(h), h, 0.0))) * np.isfinite(h), base

    def effect(w: Array) -> Array:
        beta = w[k : k + p]
        local, base = slope(w) if any(c.slope is not None for c in changes) else (np.zeros(0), np.zeros(0))
        result = []
        for change in changes:
            if change.slope is not None:
                moved = sign * (change.slope @ beta)
                if columns:
                    moved += np.where(np.isfinite(base), base, 0.0) * (change.slope[:, columns] @ w[k + p :]) / 2.0
                result.append(float(np.mean(local * moved)))
            elif change.after is not None and change.before is not None:
                after, before = (outcome(w, rows) for rows in (change.after, change.before))
                result.append(float(np.mean(after - before)))
        return np.array(result)

    return effect


def _jacobian(function: Callable[[Array], Array], at: Array, scale: Array) -> Array:
    """Return derivatives by central differences, with steps of a thousandth of a standard error."""
    columns = []
    for j, unit in enumerate(scale):
        step = np.zeros_like(at)
        step[j] = 1e-3 * unit if unit > 0.0 else 1e-6 * (1.0 + abs(at[j]))
        columns.append((function(at + step) - function(at - step)) / (2.0 * step[j]))
    return np.column_stack(columns)
