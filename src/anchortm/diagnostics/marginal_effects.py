"""Effects on the scale of the outcome: how a covariate changes the median or P(Y > c)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import Array, Axis, Covariates, Numbers
from anchortm._util.checks import level_between
from anchortm._util.html import report
from anchortm._util.pipelines import model_of
from anchortm.engine.objective.scale_effects import scale_columns, scaled_baseline
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inference.bootstrap import Bootstrap, resolve
from anchortm.inputs.design import to_design
from anchortm.models.base import TransformationModel
from anchortm.predict.distribution import PredictedDistribution

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["MarginalEffects", "marginal_effects"]


@dataclass(frozen=True, eq=False)
class MarginalEffects:
    """Average effects of the covariates on the scale of the outcome, with confidence intervals.

    Attributes
    ----------
    table : DataFrame
        The table that ``frame`` returns.
    of : str
        The target whose change is reported.
    level : float
        Confidence of the intervals.

    See Also
    --------
    anchortm.marginal_effects : computes them

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

    table: pd.DataFrame
    of: str
    level: float

    def frame(self) -> pd.DataFrame:
        """Return one row per covariate: effect, standard error, interval, and the change it belongs to."""
        return self.table

    def plot(self, ax: Axis = None) -> Axes:
        """Draw the effects with their intervals and return the axes."""
        title = f"average marginal effects, {self.level:.0%} intervals"
        return plotting.intervals(self.table, ax, value="effect", unit=f"change of {self.of}", title=title)

    @shown
    def __repr__(self) -> str:
        return f"{self._title()}\n{self.table.to_string(float_format=lambda v: f'{v:.4g}')}"

    def _repr_html_(self) -> str:
        return report(self._title(), self.table)

    def _title(self) -> str:
        return f"Average change of {self.of}, {self.level:.0%} intervals"


def marginal_effects(
    model: TransformationModel,
    X: Covariates,
    of: Literal["median", "probability"] = "median",
    *,
    above: Any = None,
    level: float = 0.95,
    uncertainty: Any = None,
    offset: Numbers | None = None,
) -> MarginalEffects:
    """Return the average effect of each covariate over the rows of X.

    For a numeric covariate the effect is the derivative: the change per unit, for small changes. For a column that was
    0 or 1 in all rows of the fit it is the difference between 1 and 0.

    After ``from_formula`` you get the effects of the table's columns, through all terms that contain them (splines,
    interactions), and of each level of a factor against the first. Without a formula the dummies of a factor change
    one at a time, which is not the same.

    Parameters
    ----------
    model : fitted estimator
    X : array or frame
        Rows to average over, usually the training rows or rows of the new place.
    of : {"median", "probability"}
        The conditional median, or P(Y > above).
    above : number or class
        The threshold, if ``of`` is "probability".
    level : float
        Confidence level of the intervals.
    uncertainty : optional
        As for ``confidence_band``: a kind of covariance, a matrix, or a Bootstrap.
    offset : array, optional
        Offset of each row, as for ``predict``.

    See Also
    --------
    anchortm.diagnostics.marginal_effects.MarginalEffects : the result

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> atm.marginal_effects(model, data, of="probability", above=300)
    Average change of P(tstop > 300), 95% intervals
                    effect  std. error     lower   upper                 per
    covariate
    treat[rIFN-g]   0.3021     0.07928    0.1467  0.4575  instead of placebo
    age           0.007313    0.004265 -0.001046 0.01567                unit
    """
    import pandas as pd

    model = model_of(model)
    result, new_rows = model.result_, model.new_rows_
    if model.basis_.kind == "step":
        raise InputTypeError(
            f"{type(model).__name__} has no marginal effects, because its baseline is not among the parameters: use "
            "ProportionalHazards, or compare predict_distribution at two values of a covariate"
        )
    if model.basis_.kind == "constant":
        raise InputTypeError(
            f"{type(model).__name__} models the mean: compare predict at two values of a covariate, with "
            "mean_intervals; with a log or logit link, exp(coef) is already a ratio"
        )
    level_between(level)
    _check_target(model, of, above)
    if result.corners is not None:
        raise InputError(
            "marginal effects need a model with one baseline: with strata or varying effects, compare "
            "predict_distribution at two values of a covariate"
        )
    if result.random is not None:
        raise InputError(
            "marginal effects do not support random effects: compare predict_distribution at two values of a covariate"
        )
    matrix = new_rows.matrix(X)
    fixed = new_rows.parts(X, None, offset)[1] - result.sign * (matrix @ result.coef)
    estimate = result.parameters
    changes = _changes_of_columns(model, matrix) if not hasattr(model, "formula_") else _changes_of_variables(model, X)
    effect = _Effects(model, matrix, fixed, above, changes)
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
    outcome = result.outcome_name
    name = f"the median{f' of {outcome}' if outcome else ''}" if of == "median" else f"P({outcome or 'Y'} > {above})"
    index = pd.Index([change.name for change in changes], name="covariate")
    return MarginalEffects(pd.DataFrame(table, index=index), name, level)


class _Change(NamedTuple):
    """A change of a covariate: the derivative of the design's rows, or, if that is None, the rows after and before."""

    name: str
    per: str
    slope: Array | None
    after: Array = np.zeros((0, 0))
    before: Array = np.zeros((0, 0))


def _changes_of_columns(model: Any, matrix: Array) -> list[_Change]:
    """Return a change for each column: from 0 to 1 if the training rows had no other values, else a small one."""
    changes = []
    for j, name in enumerate(model.coef_names_):
        unit = np.eye(matrix.shape[1])[j]
        if model.result_.binary[j]:
            without = matrix * (1.0 - unit)
            changes.append(_Change(name, "0 to 1", None, without + unit, without))
        else:
            changes.append(_Change(name, "unit", np.broadcast_to(unit, matrix.shape)))
    return changes


def _changes_of_variables(model: Any, X: Any) -> list[_Change]:
    """Return changes of the formula's variables in all their terms: each level against the first, or a small step."""
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
        # small steps that stay inside the training range, so that splines need not extrapolate
        step = 1e-5 * (high - low)
        up = np.minimum(column + step, np.maximum(high, column))
        down = np.maximum(column - step, np.minimum(low, column))
        ends = [rows(name, v) for v in (up, down)]
        changes.append(_Change(name, "unit", (ends[0] - ends[1]) / (up - down)[:, None]))
    return changes


def _draws(effect: Callable[[Array], Array], bootstrap: Bootstrap) -> Array:
    """Return the effects of each refit, without the few refits in which they do not exist."""
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


def _check_target(model: TransformationModel, of: str, above: Any) -> None:
    """Refuse targets that the model does not have."""
    if of not in ("median", "probability"):
        raise InputError(f"of must be 'median' or 'probability', not {of!r}")
    if of == "median" and model.basis_.discrete:
        raise InputError("the median of classes and counts jumps: use of='probability', above=...")
    if of == "median" and above is not None:
        raise InputError("above= goes with of='probability'")
    if of == "probability" and above is None:
        raise InputError("of='probability' needs above=c, for P(Y > c)")
    if above is not None and (np.ndim(above) or above != above):
        raise InputError(f"above must be one number or class, not {above!r}")


@dataclass(frozen=True, eq=False)
class _Effects:
    """The function from parameters w = (theta, beta, zeta) to the average effect of each change."""

    model: TransformationModel
    matrix: Array
    fixed: Array  # the part of the shift that does not depend on w
    above: Any  # None: the target is the median
    changes: list[_Change]

    @cached_property
    def scaled(self) -> list[int]:
        """Return the positions of the covariates with scale effects."""
        return scale_columns(getattr(self.model, "scale_names_", None), self.model.coef_names_)

    def __call__(self, w: Array) -> Array:
        """Return the average effects."""
        some = any(change.slope is not None for change in self.changes)
        local, base = self.derivative(w) if some else (np.zeros(0), np.zeros(0))
        return np.array([self.average(w, change, local, base) for change in self.changes])

    def split(self, w: Array) -> tuple[Array, Array, Array]:
        """Return theta, beta and zeta."""
        k, p = self.model.baseline_.size, self.model.coef_.size
        return w[:k], w[k : k + p], w[k + p :]

    def average(self, w: Array, change: _Change, local: Array, base: Array) -> float:
        """Return the average effect of one change, with ``local`` and ``base`` as ``derivative`` returns them."""
        _, beta, zeta = self.split(w)
        if change.slope is None:
            return float(np.mean(self.target(w, change.after) - self.target(w, change.before)))
        moved = self.model.result_.sign * (change.slope @ beta)
        if self.scaled:
            moved += np.where(np.isfinite(base), base, 0.0) * (change.slope[:, self.scaled] @ zeta) / 2.0
        return float(np.mean(local * moved))

    def distribution(self, w: Array, rows: Array) -> PredictedDistribution:
        """Return the predicted distributions at these rows of the design."""
        theta, beta, zeta = self.split(w)
        theta = scaled_baseline(theta, rows[:, self.scaled], zeta) if self.scaled else theta
        shift = self.fixed + self.model.result_.sign * (rows @ beta)
        return PredictedDistribution(self.model.link_, self.model.basis_, theta, shift, self.model.time_)

    def target(self, w: Array, rows: Array) -> Array:
        """Return the median or the probability at these rows of the design."""
        d = self.distribution(w, rows)
        values = np.asarray(d.median() if self.above is None else d.sf(self.above), dtype=np.float64)
        if not np.isfinite(values).all():
            raise InputError("some medians are infinite (h is flat beyond the support): use of='probability'")
        return values

    def derivative(self, w: Array) -> tuple[Array, Array]:
        """Return the derivative of the target in h at fixed y, and the baseline there, which a scale multiplies."""
        d, every = self.distribution(w, self.matrix), np.arange(self.matrix.shape[0])
        if self.above is None:
            y = self.target(w, self.matrix)
            base = d.transformation.baseline(y, every)
            with np.errstate(divide="ignore"):
                return np.where(base > -np.inf, -1.0 / d.transformation.slopes(y, every), 0.0), base
        y = np.atleast_1d(d.codes(self.above))
        base = d.transformation.baseline(np.repeat(y, every.size) if self.scaled else y, every)
        h = base + d.transformation.moved
        return -np.exp(d.link.log_density(np.where(np.isfinite(h), h, 0.0))) * np.isfinite(h), base


def _jacobian(function: Callable[[Array], Array], at: Array, scale: Array) -> Array:
    """Return derivatives by central differences, with steps of a thousandth of a standard error."""
    columns = []
    for j, unit in enumerate(scale):
        step = np.zeros_like(at)
        step[j] = 1e-3 * unit if unit > 0.0 else 1e-6 * (1.0 + abs(at[j]))
        columns.append((function(at + step) - function(at - step)) / (2.0 * step[j]))
    return np.column_stack(columns)
