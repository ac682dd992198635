"""Can anchoring move the location? Whether shifts of the covariates between environments predict where the fit errs.

Anchoring lowers sum_e n_e rbar_e^2 / n, where rbar_e is the mean score residual of environment e. A change of the
coefficients by d changes rbar_e by about -c xbar_e'd, xbar_e being the mean covariates. So the part of rbar_e that is
linear in xbar_e can be removed by moving coefficients. Any other part can only be divided down, by flattening h: that
makes predictions wider.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone

from anchortm import plotting
from anchortm._messages import shown
from anchortm._typing import AnyTable, Array, Axis, Covariates, Labels, Numbers, Outcome, Seed
from anchortm._util.checks import generator, whole_number
from anchortm._util.html import report
from anchortm.engine.remarks import tell_alphabetical
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import group_codes
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["LocationShift", "location_shift"]

FEWEST = 6  # with fewer environments no p-value can be small
PER_DIRECTION = 8  # environments for each direction of the covariates in the regression
ROUNDING = 1e-10  # smaller shifts relative to the largest contribution, and smaller 1 - leverage, are 0
SOLVED = 1e-6  # mean residuals that a fit makes 0 are smaller, in standard deviations of residuals
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class LocationShift:
    """How well the mean covariates of environments predict their mean residuals.

    Attributes
    ----------
    r2 : float
        R^2 of the predictions of left-out environments: 1 if they are exact, 0 if they are as good as the mean of the
        other environments, below 0 if they are worse.
    se : float
        Jackknife standard error of ``r2`` over environments; in simulations up to twice too large with 16 of them.
    pvalue : float
        Share of sign flips of the mean residuals that give an R^2 as large.
    noise : float
        Share of the differences between mean residuals that rows drawn at random would give, at most 1; NaN if the
        weights sum to fewer rows than there are environments.
    beyond_chance : bool
        Whether mean residuals differ significantly more than by chance (F test at 5 %).
    directions : int
        Number of directions of the mean covariates in the regression.
    table : DataFrame
        The table that ``frame`` returns.
    model : str
        Name of the model.

    See Also
    --------
    anchortm.diagnostics.location_shift : computes it

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_computers()
    >>> early = data[data.trend <= 24]
    >>> formula = "price ~ log(speed) + log(hd) + log(ram) + screen + cd + multi + premium | trend"
    >>> result = atm.diagnostics.location_shift(atm.ContinuousLogit(), formula, early)
    >>> result.frame().tail(3).round(2)
        environment      n  residual    se  predicted
    21           22  162.0     -0.38  0.04      -0.52
    22           23  191.0     -0.57  0.04      -0.34
    23           24  182.0     -0.66  0.04      -0.27
    """

    r2: float
    se: float
    pvalue: float
    noise: float
    beyond_chance: bool
    directions: int
    table: pd.DataFrame
    model: str

    def frame(self) -> pd.DataFrame:
        """Return one row per environment: its size, mean residual with standard error, and the left-out prediction."""
        return self.table

    def plot(self, ax: Axis = None, label: int = 3) -> Axes:
        """Draw the mean residuals against their predictions and return the axes; ``label`` environments are named."""
        ax = plotting.location_shift(self.table, ax, label=label)
        ax.set_title(
            f"leave-one-out R$^2$ = {self.r2:.2f} (SE {self.se:.2f}), p = {self.pvalue:.2g}", fontsize="medium"
        )
        return ax

    @property
    def sentence(self) -> str:
        """Return the answer in words."""
        if not self.directions:
            return "Environments do not shift the covariates, so anchoring cannot move the location."
        if self.r2 > 0.0 and self.pvalue <= LEVEL:
            return "Mean covariates predict where this fit errs: anchoring can move the location."
        if not self.beyond_chance and not math.isnan(self.noise):
            return "Environments do not differ more than by chance: anchoring has nothing to remove."
        start = "Environments differ, but mean" if self.beyond_chance else "Mean"
        return (
            f"{start} covariates do not clearly predict where this fit errs: expect anchoring to widen predictions "
            "rather than to move them."
        )

    def _title(self) -> str:
        plural = "" if self.directions == 1 else "s"
        return (
            f"Mean residuals of {len(self.table)} environments, predicted from mean covariates in {self.directions} "
            f"direction{plural} ({self.model})"
        )

    @shown
    def __repr__(self) -> str:
        noise = "unknown" if math.isnan(self.noise) else f"{self.noise:.0%} of the differences"
        return (
            f"{self._title()}\n"
            f"  leave-one-out R^2   {self.r2:.2f}, standard error {self.se:.2f}, p = {self.pvalue:.2g}\n"
            f"  sampling noise      {noise}\n"
            f"{self.sentence}"
        )

    def _repr_html_(self) -> str:
        facts = {"leave-one-out R2": self.r2, "standard error": self.se, "p": self.pvalue, "sampling noise": self.noise}
        shown = {name: "unknown" if math.isnan(value) else f"{value:.3g}" for name, value in facts.items()}
        return report(self._title(), shown, self.sentence)


def location_shift(
    model: TransformationModel,
    X: Covariates | str,
    y: Outcome | AnyTable,
    environments: Labels | None = None,
    *,
    cut: int | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    n_flips: int = 999,
    random_state: Seed = 0,
) -> LocationShift:
    """Return whether shifts of the covariates between environments predict where a plain fit errs.

    The model is fitted to all rows by maximum likelihood. The mean score residuals of environments are regressed on
    their mean covariates, and each is predicted from the regression on the other environments. If these predictions
    are good, anchoring can move the coefficients so that predictions improve at places with other covariates. If they
    are not, anchoring can only make predictions wider.

    Parameters
    ----------
    model : estimator
        Any model of this package except boosted ones. It is not changed; its own xi is not used.
    X, y, sample_weight, offset
        As for ``fit``; or a formula and a table, and weights and offset as arrays or column names.
    environments : array, or column name of a table
        The place of each row, at least 6 places. With a formula, by default its anchors.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    n_flips : int
        Number of sign flips for the p-value.
    random_state : int, Generator or None
        Seed of the flips. The default gives the same answer each time.

    Returns
    -------
    LocationShift

    See Also
    --------
    anchortm.compare_strategies : whether anchoring helps at left-out environments, and against a wider spread
    anchortm.diagnostics.first_stage : whether the anchors move the covariates at all

    Notes
    -----
    With rbar_e and xbar_e the means of score residuals and covariates over the n_e rows of environment e, R^2 is
    1 - sum_e n_e (rbar_e - rhat_e)^2 / sum_e n_e (rbar_e - m_e)^2. Here rhat_e is the prediction, and m_e the mean, of
    the environments other than e. The weights n_e are those of the penalty itself, sum_e n_e rbar_e^2 / n.

    The regression is weighted by n_e. It uses the leading principal components of the contributions xbar_ej beta_j to
    the predictor, one for each 8 environments, so that shifts of covariates without effect do not count.

    The p-value compares R^2 with its values after the signs of rbar_e, centred, are flipped at random. It stays valid
    if environments differ in size or noise, as long as mean residuals are symmetric and have nothing to do with the
    covariates.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_computers()
    >>> early = data[data.trend <= 24]
    >>> formula = "price ~ log(speed) + log(hd) + log(ram) + screen + cd + multi + premium | trend"
    >>> atm.diagnostics.location_shift(atm.ContinuousLogit(), formula, early)
    Mean residuals of 24 environments, predicted from mean covariates in 3 directions (ContinuousLogit)
      leave-one-out R^2   0.82, standard error 0.07, p = 0.001
      sampling noise      1% of the differences
    Mean covariates predict where this fit errs: anchoring can move the location.
    """
    check_model(model, "left_out")
    if hasattr(model, "learner"):
        raise InputError("location_shift takes linear models, not boosted ones: it asks whether coefficients can move")
    whole_number(n_flips, "n_flips", 19)
    rng = generator(random_state)
    null = clone(model).set_params(xi=0.0, environment_weights="rows", anchor_weights="rows", proxies=None)
    rows = given(null, X, y, sample_weight=sample_weight, offset=offset, environments=environments)
    if rows.batched:
        raise InputError("location_shift needs the rows in memory: read the table first")
    if rows.environments is None:
        raise InputError("pass the environments, one for each row, or name them after '|' in a formula (y ~ x | place)")
    with rows.screened():
        groups, labels = group_codes(rows.environments, cut)
        rows, problem = replace(rows, anchors=None).prepared()
        data = problem.data.without_wide()
        n_given = len(data.response) if data.kept is None else data.kept.size
        if groups.size != n_given:
            raise InputError(f"environments has {groups.size} rows, but y has {n_given}: pass the same rows of both")
        if not data.names:
            raise InputError("there are no covariates: anchoring moves their coefficients, so pass at least one")
        tell_alphabetical(data)
        fit = rows.model.with_result(problem, problem.fit())
        if not fit.converged_:
            raise InputError("the maximum-likelihood fit did not converge: raise max_iter, or look at its summary()")
        residuals = fit.residuals(rows.X, rows.y, offset=rows.offset)
    if data.kept is not None:  # rows of weight 0 were dropped, and perhaps whole environments with them
        found, groups = np.unique(groups[data.kept], return_inverse=True)
        labels, residuals = labels[found], residuals[data.kept]
    if labels.size < FEWEST:
        raise InputError(f"there are {labels.size} environments: a regression over them needs at least {FEWEST}")
    if labels.size == groups.size:
        raise InputError("each environment has a single row: merge environments, so that some have several rows")
    weights = np.ones(groups.size) if data.weights is None else data.weights
    sums = _Sums(groups, weights)
    parts = sums.mean(data.design.matrix * np.asarray(fit.coef_))
    regression = _Regression(sums.size, parts, max(1, labels.size // PER_DIRECTION))
    return _result(regression, residuals, sums, labels, type(model).__name__, n_flips, rng)


class _Sums(NamedTuple):
    """The environment of each row, as a code, and its weight."""

    groups: NDArray[np.intp]
    weights: Array

    @property
    def size(self) -> Array:
        """Return the sum of weights of each environment."""
        return np.asarray(np.bincount(self.groups, self.weights), dtype=np.float64)

    def mean(self, values: Array) -> Array:
        """Return the mean of each environment, of one column or of several."""
        columns = values.reshape(len(values), -1).T
        total = np.array([np.bincount(self.groups, self.weights * column) for column in columns])
        return (total / self.size).T.reshape(-1, *values.shape[1:])


class _Regression(NamedTuple):
    """A regression of values of environments on their covariates, weighted by their sizes.

    Attributes
    ----------
    n : array
        Sizes of the environments.
    parts : array of shape (environments, covariates)
        Mean contributions of the covariates to the predictor.
    most : int
        Largest number of directions of the contributions.
    """

    n: Array
    parts: Array
    most: int

    @property
    def root(self) -> Array:
        """Return the square roots of the weights; the weights sum to 1."""
        return np.asarray(np.sqrt(self.n / self.n.sum()))

    def columns(self) -> Array:
        """Return orthonormal columns: the constant, and the leading directions of the contributions."""
        root = self.root
        centred = root[:, None] * (self.parts - root**2 @ self.parts)
        U, size, _ = np.linalg.svd(centred, full_matrices=False)
        seen = int((size > ROUNDING * np.abs(self.parts).max()).sum())
        return np.column_stack([root, U[:, : min(seen, self.most)]])

    def without(self, e: int) -> _Regression:
        """Return the regression without one environment."""
        return _Regression(np.delete(self.n, e), np.delete(self.parts, e, axis=0), self.most)


def _errors(z: Array, Q: Array) -> Array:
    """Return the error of each z when it is predicted from the others, by a regression on orthonormal columns.

    z - zhat without this entry = (z - QQ'z) / (1 - leverage). Where the leverage is 1 the others say nothing about one
    of the columns; then the error is that of the first column alone.
    """
    free = 1.0 - (Q**2).sum(axis=1)
    rest, alone = z - Q @ (Q.T @ z), z - Q[:, 0] * (Q[:, 0] @ z)
    known = free > ROUNDING
    return np.where(known, rest / np.where(known, free, 1.0), alone / (1.0 - Q[:, 0] ** 2))


def _r2(z: Array, Q: Array) -> float:
    """Return R^2 of left-out predictions, relative to the mean of the others; 0 if all values are equal."""
    total = (_errors(z, Q[:, :1]) ** 2).sum()
    return float(1.0 - (_errors(z, Q) ** 2).sum() / total) if total > 0.0 else 0.0


def _result(
    regression: _Regression,
    residuals: Array,
    sums: _Sums,
    labels: NDArray[Any],
    model: str,
    n_flips: int,
    rng: np.random.Generator,
) -> LocationShift:
    import pandas as pd

    n, root, Q, rbar = regression.n, regression.root, regression.columns(), sums.mean(residuals)
    if np.abs(rbar).max() <= SOLVED * np.sqrt((residuals**2).mean()):  # the model has effects of these environments
        rbar = np.zeros_like(rbar)
    K, z = n.size, root * rbar
    r2 = _r2(z, Q)
    centred = z - root * (root @ z)
    flipped = [_r2(centred * rng.choice([-1.0, 1.0], K), Q) for _ in range(n_flips)]
    pvalue = (1 + sum(value >= r2 - ROUNDING for value in flipped)) / (1 + n_flips)

    parts = [regression.without(e) for e in range(K)]
    jackknife = np.array([_r2(part.root * np.delete(rbar, e), part.columns()) for e, part in enumerate(parts)])
    se = math.sqrt((K - 1) * float(jackknife.var()))

    # under equal means, sum_e n_e (rbar_e - rbar)^2 has expectation (K - 1) v, v being the variance inside environments
    inside = n.sum() - K
    v = float(sums.weights @ (residuals - rbar[sums.groups]) ** 2) / inside if inside > 0.0 else math.nan
    between = n.sum() * float(centred @ centred) / (K - 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # no spread inside or between environments
        noise = float(np.minimum(1.0, np.float64(v) / between))
        beyond = bool(stats.f.sf(np.float64(between) / v, K - 1, inside) < LEVEL)
    table = {"environment": labels, "n": n, "residual": rbar, "se": np.sqrt(v / n)}
    table["predicted"] = rbar - _errors(z, Q) / root
    return LocationShift(r2, se, pvalue, noise, beyond, Q.shape[1] - 1, pd.DataFrame(table), model)
