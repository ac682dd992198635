"""Is anchoring needed, can it work, and did it? What residuals, covariates and predictions say about the anchors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone

from anchortm import plotting
from anchortm._messages import shown
from anchortm._util.checks import generator, whole_number
from anchortm._util.frames import aligned
from anchortm.engine.rows.projections import projection
from anchortm.exceptions import InputError
from anchortm.inference.redrawn import redraws, whole_rows, why_not
from anchortm.inference.score_tests import (
    Information,
    Quadratic,
    check_directions,
    free_parameters,
    refuse_net,
    simulated_statistic,
)
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.design import to_design
from anchortm.models.base import TransformationModel, tell_alphabetical
from anchortm.scores import transforms
from anchortm.selection.path import AnchorPath

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Calibration",
    "FirstStage",
    "OverIdentification",
    "ResidualInvariance",
    "ScoreTest",
    "calibration",
    "first_stage",
    "over_identification",
    "residual_invariance",
    "score_test",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Array = NDArray[np.float64]

FAR = 100.0  # a xi from which on the penalty shows how it falls
WEAK = 10.0  # an F statistic below this is commonly called weak
ROUNDING = 1e-12  # of a share that is 0 or 1
FEW_ROWS = 20.0  # for each degree of freedom of a score test: its distribution is simulated
MUCH = 0.05  # df^1.5 / n from which on the observed information, which shares the noise of the scores, moves the test
SOME_DRAWS = 40  # whose information is averaged
METHODS = {
    "observed": "observed information, chi-square distribution",
    "expected": "expected information, chi-square distribution",
    "simulate": "expected information, simulated distribution",
}


def _number(value: float) -> str:
    return f"{value:.4g}"


@dataclass(frozen=True)
class ScoreTest:
    """Rao's test that the anchors, added to the model as covariates, would have no effect.

    Attributes
    ----------
    statistic : float
    df : int
        Degrees of freedom: directions of the anchors that the model does not contain already.
    pvalue : float
    model : str
        Name of the model.
    method : {"observed", "expected", "simulate"}
        How the p-value was found, see ``score_test``.
    simulated : array
        The statistics of outcomes drawn from the fitted model, empty if none were; with m of them a p-value is at
        least 1 / (m + 1).

    See Also
    --------
    anchortm.diagnostics.score_test : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> test = atm.diagnostics.score_test(atm.OrdinalRegression(), frame.X, frame.y, frame.anchors)
    >>> test.frame().round(4)
       statistic  df  pvalue
    0    26.2281   8   0.005
    """

    statistic: float
    df: int
    pvalue: float
    model: str
    rows: float = math.inf  # for each degree of freedom
    method: str = "observed"
    simulated: Array = field(default_factory=lambda: np.zeros(0), compare=False)

    def frame(self) -> pd.DataFrame:
        """Return the test as a table of one row."""
        import pandas as pd

        return pd.DataFrame([{"statistic": self.statistic, "df": self.df, "pvalue": self.pvalue}])

    def plot(self, ax: Any = None) -> Any:
        """Draw the statistic in its distribution under invariance and return the axes."""
        return plotting.chi_square(self.statistic, self.df, ax, simulated=self.simulated)

    @shown
    def __str__(self) -> str:
        word = "explain more" if self.pvalue < 0.05 else "are not seen to explain more"
        how = METHODS[self.method]
        if self.method == "simulate":
            how += f", {self.simulated.size} draws"
            how += "" if (self.simulated >= self.statistic).any() else ", all smaller"
        elif self.method == "observed" and self.rows < FEW_ROWS:
            how += f", {self.rows:.2g} rows for each degree of freedom: this version rejects too often"
        return (
            f"Score test of invariance, {self.model}: {self.statistic:.4g} on {self.df} "
            f"degree{'s' if self.df != 1 else ''} of freedom, p = {self.pvalue:.3g}; "
            f"the anchors {word} than the covariates do ({how})"
        )

    __repr__ = __str__


def score_test(
    model: TransformationModel,
    X: Any,
    y: Any,
    anchors: Any,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    method: str = "auto",
    n_draws: int = 199,
    random_state: Any = 0,
) -> ScoreTest:
    """Return the score test of "the anchors add nothing", at the maximum-likelihood fit.

    With t = Q'r the coordinates of the residuals on the anchors, E = dt/dw and nH the
    information, the statistic is t'[Q'diag(r')Q - E (nH)^-1 E']^+ t, with as many degrees of
    freedom as the bracket has rank: directions that the model contains already do not count. It
    tests first-order invariance of the residuals, so a small p-value says that anchoring has
    something to do. Increments of the baseline at their bound count as known, and so does the covariance of random
    effects.

    Parameters
    ----------
    model : estimator
        Any model of this package without a penalty on its coefficients; its own xi is not used.
    X, y, anchors, sample_weight, offset
        As for ``fit``.
    method : {"auto", "observed", "expected", "simulate"}
        ``"observed"`` takes the bracket from the data and the chi-square distribution (Rao's test as R's survival
        has it). With many places the bracket shares the noise of the residuals, and the test rejects a true model
        too often. ``"expected"`` averages the bracket over outcomes drawn from the fitted model, with their censoring.
        ``"simulate"`` also compares the statistic with those of the drawn outcomes, each after a Newton step
        towards its own fit: it holds its level with two rows for each place. ``"auto"`` simulates where there are
        fewer than 20 rows for each degree of freedom, and else takes the expected information where it matters. Where
        outcomes cannot be drawn (right truncation, weights that are not whole numbers) it takes the observed one.
    n_draws : int
        Number of simulated outcomes.
    random_state : int, Generator or None
        Seed of the draws; the default gives the same answer each time.

    See Also
    --------
    anchortm.xi_by_score_test : the smallest xi that this test accepts

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> test = atm.diagnostics.score_test(atm.OrdinalRegression(), frame.X, frame.y, frame.anchors)
    >>> print(f"{test.statistic:.1f} on {test.df} degrees of freedom, p = {test.pvalue:.3f}")  # the judges differ
    26.2 on 8 degrees of freedom, p = 0.005
    """
    if method not in ("auto", *METHODS):
        raise InputError(f"method must be 'auto', {', '.join(map(repr, METHODS))}, not {method!r}")
    whole_number(n_draws, "n_draws", 1)
    rng = generator(random_state)
    plain = clone(model).set_params(xi=0.0)
    data = plain._prepare(X, y, anchors, sample_weight, offset)
    refuse_net(plain, data.design.marks)
    if data.anchors is None:
        raise InputError("a score test needs anchors")
    obstacle = why_not(data)
    if obstacle is not None and method in ("expected", "simulate"):
        raise InputError(f"method={method!r} cannot draw {obstacle}: take method='observed'")
    tell_alphabetical(data)
    link, basis = plain._make_link(), plain._make_basis(data.response, data.weights)
    objective = plain._objective(link, basis, data)
    check_directions(objective)
    solution, others = plain._solve(objective, basis, data, 0.0)
    if not solution.converged:
        raise InputError(f"the maximum-likelihood fit did not converge ({solution.reason}): no score test")
    scored, free = objective.scored, free_parameters(objective, solution.active)

    def test(quadratic: Quadratic, method: str, simulated: Array | None = None) -> ScoreTest:
        statistic = quadratic(scored.sums(solution.v).t) / scored.dispersion(solution.v)
        rows = scored.n_total / quadratic.df
        if simulated is None:
            simulated, pvalue = np.zeros(0), float(stats.chi2.sf(statistic, quadratic.df))
        else:
            pvalue = (1 + int(np.sum(simulated >= statistic))) / (1 + simulated.size)
        return ScoreTest(statistic, quadratic.df, pvalue, type(model).__name__, rows, method, simulated)

    observed = test(Quadratic.of(Information.at(scored, solution.v), free), "observed")
    if method == "auto":
        noisy = observed.df**1.5 > MUCH * scored.n_total
        method = "simulate" if observed.rows < FEW_ROWS else "expected" if noisy else "observed"
    if method == "observed" or obstacle is not None:
        return observed
    plain._store(link, basis, data, objective, solution, others)
    draws = redraws(plain, objective, whole_rows(data), rng)
    # draws of their own: a statistic that is divided by its own information is too large
    information = Information.mean([Information.at(loss, solution.v) for loss in islice(draws, SOME_DRAWS)])
    quadratic = Quadratic.of(information, free)
    if method == "expected":
        return test(quadratic, method)
    losses = islice(draws, n_draws)
    simulated = [simulated_statistic(loss, solution.v, information, quadratic, free) for loss in losses]
    return test(quadratic, method, np.array(simulated))


@dataclass(frozen=True, eq=False)
class ResidualInvariance:
    """What the anchors say about the score residuals of two fits.

    Attributes
    ----------
    table : DataFrame
        What ``frame`` returns.
    explained : pair of float
        Share of the variance of the residuals that the anchors explain, before and after.

    See Also
    --------
    anchortm.diagnostics.residual_invariance : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> before, after = (atm.OrdinalRegression(xi).fit(frame.X, frame.y, anchors=data.judge) for xi in (0, 10))
    >>> result = atm.diagnostics.residual_invariance(before, after, frame.X, frame.y, data.judge)
    >>> result.frame()[["level", "n", "mean_before", "mean_after"]].head(3).round(3)
       level  n  mean_before  mean_after
    0      1  8        0.579       0.373
    1      2  8       -0.181      -0.135
    2      3  8        0.318       0.225
    """

    table: Any
    explained: tuple[float, float]

    def frame(self) -> pd.DataFrame:
        """Return one row for each level of a factor and each numeric anchor.

        Columns: anchor, level, n; mean residual of the level and correlation of the residuals with the
        anchor (the indicator of the level), both before and after.
        """
        return self.table

    def plot(self, ax: Any = None, label: int = 3) -> Any:
        """Draw the mean residual of each level before and after and return the axes."""
        return plotting.invariance(self.table, ax, label=label)

    @shown
    def __repr__(self) -> str:
        largest = self.table[["corr_before", "corr_after"]].abs().max()
        lines = [
            "Residuals and anchors, before and after",
            f"  share of variance explained     {self.explained[0]:.4g} -> {self.explained[1]:.4g}",
            f"  largest absolute correlation    {largest.iloc[0]:.4g} -> {largest.iloc[1]:.4g}",
        ]
        means = self.table[["mean_before", "mean_after"]].abs().max()
        if np.isfinite(means).all():
            lines.append(f"  largest absolute mean           {means.iloc[0]:.4g} -> {means.iloc[1]:.4g}")
        shown = self.table.reindex(self.table["corr_before"].abs().sort_values(ascending=False).index)
        lines.append(shown.head(10).to_string(index=False, float_format=_number))
        if len(shown) > 10:
            lines.append(f"  (the 10 most correlated before, of {len(shown)})")
        return "\n".join(lines)


def residual_invariance(
    before: Any, after: Any, X: Any, y: Any, anchors: Any, *, offset: Any = None, which: str = "shift"
) -> ResidualInvariance:
    """Return means and correlations of the score residuals with the anchors under two fits.

    ``before`` is usually the fit at xi = 0, ``after`` the one with a penalty. Equal means in all
    places are what a large xi aims at: the model then errs in no direction in any of them. With
    ``which="scale"`` the residuals are those of the scale: their means say where outcomes spread more than predicted.

    See Also
    --------
    anchortm.diagnostics.ResidualInvariance : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> frame = atm.Formula("rating ~ temp + contact | judge", data)
    >>> before, after = (atm.OrdinalRegression(xi).fit(frame.X, frame.y, anchors=data.judge) for xi in (0, 10))
    >>> result = atm.diagnostics.residual_invariance(before, after, frame.X, frame.y, data.judge)
    >>> [round(share, 2) for share in result.explained]
    [0.35, 0.27]
    """
    import pandas as pd

    aligned(X=X, y=y, anchors=anchors, offset=offset)
    columns = anchor_columns(anchors)
    r = {name: fit.residuals(X, y, offset=offset, which=which) for name, fit in (("before", before), ("after", after))}
    n = len(columns)
    if r["before"].size != n:
        raise InputError(f"anchors has {n} rows, but y has {r['before'].size}")
    centred = {name: values - values.mean() for name, values in r.items()}
    size = {name: np.sqrt((values**2).sum()) for name, values in centred.items()}
    rows: list[dict[str, Any]] = []
    for factor, levels, anchor in zip(columns.factors, columns.levels, columns.factor_names, strict=True):
        count = np.bincount(factor)
        spread = np.sqrt(count * (1.0 - count / n))
        table = {"anchor": anchor, "level": levels, "n": count}
        for name in r:
            table[f"mean_{name}"] = np.bincount(factor, r[name]) / count
        for name in r:
            with np.errstate(divide="ignore", invalid="ignore"):  # a single level has no correlation
                table[f"corr_{name}"] = np.bincount(factor, centred[name]) / (spread * size[name])
        rows += pd.DataFrame(table).to_dict("records")
    for column, anchor in zip(columns.columns.T, columns.column_names, strict=True):
        row = {"anchor": anchor, "level": "", "n": n, "mean_before": np.nan, "mean_after": np.nan}
        rows.append(row | {f"corr_{name}": np.corrcoef(column, r[name])[0, 1] for name in r})
    order = columns.order()
    order = np.arange(n) if order is None else order
    P = projection(columns.take(order))
    shares = [float((P(values[order]) ** 2).sum() / (values**2).sum()) for values in centred.values()]
    return ResidualInvariance(pd.DataFrame(rows), (shares[0], shares[1]))


@dataclass(frozen=True, eq=False)
class FirstStage:
    """How strongly the anchors move each covariate.

    Attributes
    ----------
    table : DataFrame
        What ``frame`` returns.
    rank : int
        Number of directions of the anchors.

    See Also
    --------
    anchortm.diagnostics.first_stage : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> result = atm.diagnostics.first_stage(data[["rm", "lstat"]], data.town)
    >>> result.frame()[["R2", "F", "partial_R2"]].round(2)
                 R2     F  partial_R2
    covariate
    rm         0.50  4.50        0.44
    lstat      0.65  8.28        0.57
    """

    table: Any
    rank: int

    def frame(self) -> pd.DataFrame:
        """Return one row for each covariate: R^2 and F of its regression on the anchors, and Shea's partial R^2."""
        return self.table

    def plot(self, ax: Any = None) -> Any:
        """Draw R^2 and partial R^2 of each covariate and return the axes."""
        return plotting.shares(self.table, ax)

    @shown
    def __repr__(self) -> str:
        weak = self.table.index[self.table["F"] < WEAK].tolist()
        lines = [f"Anchors ({self.rank} directions) and covariates", self.table.to_string(float_format=_number)]
        if self.table["partial_R2"].isna().all():
            lines.append("The anchors move the covariates in too few directions: none has a part of its own.")
        if weak:
            lines.append(
                f"F below {WEAK:g}, weak by the usual rule: {', '.join(map(str, weak))}. A penalty says little about "
                "coefficients of covariates that the anchors do not move."
            )
        return "\n".join(lines)


def first_stage(X: Any, anchors: Any) -> FirstStage:
    """Return how strongly the anchors move each covariate: the first stage of an instrumental-variables fit.

    The partial R^2 (Shea, 1997) is what the anchors say about a covariate that they do not say about
    the others; it is what matters with several covariates, and not a number where the anchors have fewer
    directions than there are covariates.

    See Also
    --------
    anchortm.diagnostics.FirstStage : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> atm.diagnostics.first_stage(data[["nox", "rm"]], data.town).frame()[["R2", "F"]].round(1)
                R2     F
    covariate
    nox        0.9  45.4
    rm         0.5   4.5
    """
    import pandas as pd

    aligned(X=X, anchors=anchors)
    columns = anchor_columns(anchors)
    design = to_design(X, len(columns))
    if design.matrix.shape[1] == 0:
        raise InputError("there are no covariates whose first stage could be looked at")
    n = design.matrix.shape[0]
    if n != len(columns):
        raise InputError(f"X has {n} rows, but anchors has {len(columns)}")
    order = columns.order()
    order = np.arange(n) if order is None else order
    P = projection(columns.take(order))
    x = design.matrix[order] - design.matrix.mean(axis=0)
    spread = np.sqrt((x**2).sum(axis=0))
    if not spread.all():
        raise InputError(f"constant covariates: {', '.join(np.array(design.names)[spread == 0])}")
    x = x / spread
    fitted = np.column_stack([P(column) for column in x.T])
    r2 = np.clip((fitted**2).sum(axis=0), 0.0, 1.0)
    r2 = np.where(r2 > 1.0 - ROUNDING, 1.0, np.where(r2 < ROUNDING, 0.0, r2))
    df, rest = P.rank - 1, n - P.rank
    if df < 1 or rest < 1:
        raise InputError(f"{P.rank} anchor directions in {n} rows: how they move covariates cannot be told from noise")
    with np.errstate(divide="ignore", invalid="ignore"):
        F = (r2 / df) / ((1.0 - r2) / rest)
    gram = fitted.T @ fitted
    partial = np.full(x.shape[1], np.nan)
    if x.shape[1] and np.linalg.eigvalsh(gram)[0] > 1e-10:
        partial = np.diag(np.linalg.inv(x.T @ x)) / np.diag(np.linalg.inv(gram))
    table = {"R2": r2, "F": F, "df": df, "pvalue": stats.f.sf(F, df, rest), "partial_R2": partial}
    return FirstStage(pd.DataFrame(table, index=pd.Index(design.names, name="covariate")), P.rank)


@dataclass(frozen=True, eq=False)
class OverIdentification:
    """Why coefficients shrink: along xi the transformation flattens and predictions widen.

    Attributes
    ----------
    table : DataFrame
        What ``frame`` returns.
    directions : int
        Of the anchors.
    parameters : int
        Of the model, baseline and coefficients.

    See Also
    --------
    anchortm.diagnostics.over_identification : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> path = atm.anchor_path(atm.NormalLinear(), data[["rm", "lstat"]], data.cmedv, data.town, [0, 10, 100, 1000])
    >>> result = atm.diagnostics.over_identification(path, data[["rm", "lstat"]])
    >>> result.directions, result.parameters
    (92, 4)
    >>> result.frame()[["xi", "coef_norm", "spread", "effect_norm"]].round(2)
           xi  coef_norm  spread  effect_norm
    0     0.0       1.06    7.40         5.83
    1    10.0       0.34   26.59         6.61
    2   100.0       0.11   80.99         6.66
    3  1000.0       0.04  255.11         6.67
    """

    table: Any
    directions: int
    parameters: int

    def frame(self) -> pd.DataFrame:
        """Return one row for each xi: size of the coefficients on both scales, spread of predictions, penalty."""
        return self.table

    def plot(self, ax: Any = None) -> Any:
        """Draw the size of the coefficients on both scales against xi and return the axes."""
        return plotting.flattening(self.table, ax)

    def _verdict(self) -> str:
        """Return what the path shows: a penalty that falls like 1 / xi^2 dies out, like 1 / xi it only flattens h."""
        counts = f"{self.directions} anchor directions and {self.parameters} parameters"
        large = self.table[(self.table.xi >= FAR) & np.isfinite(self.table.xi)]
        if self.directions <= self.parameters and len(large) < 2:
            return f"{counts}. Whether they are over-identified shows at two values of xi of {FAR:g} or more."
        if len(large) >= 2:
            (a, p), (b, q) = large[["xi", "penalty"]].iloc[[0, -1]].to_numpy()
            if q <= 0.0 or np.log(p / q) / np.log(b / a) > 1.5:
                return f"{counts}. As xi grows residuals become uncorrelated with all anchors: not over-identified."
        return (
            f"{counts}: over-identified. Residuals cannot be made uncorrelated with all anchors, and the loss gives "
            "way by flattening h: predictions widen and coefficients on the scale of h shrink."
        )

    @shown
    def __repr__(self) -> str:
        first, last = self.table.iloc[0], self.table.iloc[-1]
        head = self._verdict()
        note = (
            f"From xi = {first.xi:g} to {last.xi:g} the coefficients (per standard deviation) go from "
            f"{first.coef_norm:.3g} to {last.coef_norm:.3g} on the scale of h; predicted distributions are "
            f"{last.spread / first.spread:.3g} times as wide"
        )
        if np.isfinite(first.effect_norm):
            note += (
                f", and on the scale of y the coefficients go from {first.effect_norm:.3g} to {last.effect_norm:.3g}"
            )
        return f"{head}\n{note}.\n{self.table.to_string(index=False, float_format=_number)}"


def over_identification(path: AnchorPath, X: Any) -> OverIdentification:
    """Return how coefficients and the spread of predictions move along a path in xi.

    ``coef_norm`` is the norm of the coefficients per standard deviation of their covariates on the scale
    of h; ``spread`` the interquartile range of the predicted distribution at the means of the covariates
    (of classes and counts, that of the link relative to the rise of h); ``effect_norm`` the norm on the
    scale of y, which is exact for ``NormalLinear`` and holds near the centre for other models.

    See Also
    --------
    anchortm.anchor_path : makes the path
    anchortm.diagnostics.OverIdentification : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> path = atm.anchor_path(atm.NormalLinear(), data[["rm", "lstat"]], data.cmedv, data.town, [0, 10, 100, 1000])
    >>> result = atm.diagnostics.over_identification(path, data[["rm", "lstat"]])
    >>> print(str(result).split(". ")[0])
    92 anchor directions and 4 parameters: over-identified
    """
    import pandas as pd

    first = path.models[0]
    if hasattr(first, "scale_coef_"):
        raise InputError("scale effects change the spread from row to row: take the path of the model without scale")
    if first.basis_.kind == "constant":
        raise InputError(
            f"{type(first).__name__} does not transform y, so that no transformation flattens: path.frame() shows "
            "whether the penalty goes to 0"
        )
    matrix = to_design(first._design(X, 2)).matrix
    deviation, mean = matrix.std(axis=0, ddof=1), matrix.mean(axis=0, keepdims=True)  # of no columns: nothing
    unit = float(np.diff(first.link_.quantile(np.array([0.25, 0.75])))[0])
    rows = []
    for xi, m in zip(path.xis, path.models, strict=True):
        coef = m.coef_
        norm = float(np.linalg.norm(coef * deviation))
        if m.basis_.discrete:
            width = float(m._typical[-1] - m._typical[0])
            spread, effect = unit / width if width > 0.0 else np.nan, np.nan
        else:
            low, high = m._distribution(m._sign * (mean @ coef)).interval(0.5)
            spread = float(high[0] - low[0])
            effect = norm * spread / unit
        rows.append({"xi": xi, "coef_norm": norm, "spread": spread, "effect_norm": effect, "penalty": m.penalty_})
    return OverIdentification(pd.DataFrame(rows), first.n_anchors_, first.n_parameters_)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Whether outcomes fall where they were predicted, by environment.

    Attributes
    ----------
    table : DataFrame
        What ``frame`` returns.
    rows : DataFrame
        Environment and probability integral transform of each row.

    See Also
    --------
    anchortm.diagnostics.calibration : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> result = atm.diagnostics.calibration(model, data, data.rating, data.judge)
    >>> result.frame()[["environment", "n", "pit", "coverage_90"]].head(3).round(2)
      environment   n   pit  coverage_90
    0       (all)  72  0.50         0.97
    1           1   8  0.78         1.00
    2           2   8  0.40         1.00
    """

    table: Any
    rows: Any

    def frame(self) -> pd.DataFrame:
        """Return one row for each environment: n, mean transform, coverage and Kolmogorov's test of uniformity."""
        return self.table

    def plot(self, ax: Any = None, label: int = 3) -> Any:
        """Draw the distribution of the transforms by environment and return the axes."""
        return plotting.calibration(self.rows, ax, label=label)

    @shown
    def __repr__(self) -> str:
        shown = self.table.iloc[1:].sort_values("pvalue").head(10)
        table = self.table.iloc[[0, *shown.index]]
        lines = ["Calibration by environment", table.to_string(index=False, float_format=_number)]
        if len(self.table) > 11:
            lines.append(f"  (the 10 furthest from uniform, of {len(self.table) - 1})")
        return "\n".join(lines)


def calibration(
    model: Any, X: Any, y: Any, environments: Any, *, offset: Any = None, random_state: Any = 0
) -> Calibration:
    """Return how well the predicted distributions are calibrated in each environment.

    From the probability integral transforms (drawn at random in censored and discrete rows): their mean
    (below 1/2: outcomes lower than predicted), the coverage of central 50 % and 90 % intervals, and
    the distance of Kolmogorov and Smirnov from uniformity with its p-value.

    See Also
    --------
    anchortm.diagnostics.Calibration : what is returned
    anchortm.scores.score_table : scores by environment

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> atm.diagnostics.calibration(model, data, data.rating, data.temp)
    Calibration by environment
    environment  n    pit  coverage_50  coverage_90  distance  pvalue
          (all) 72 0.4984       0.4861       0.9722   0.07688  0.7592
           warm 36 0.5042       0.4444       0.9722    0.1256  0.5773
           cold 36 0.4925       0.5278       0.9722   0.08977  0.9088
    """
    import pandas as pd

    rows = transforms(model, X, y, environments, offset, random_state)

    def describe(name: Any, u: Array) -> dict[str, Any]:
        test = stats.kstest(u, "uniform")
        inside = {f"coverage_{p}": float((np.abs(u - 0.5) <= p / 200).mean()) for p in (50, 90)}
        row = {"environment": name, "n": u.size, "pit": u.mean()} | inside
        return row | {"distance": test.statistic, "pvalue": test.pvalue}

    table = [describe("(all)", rows["pit"].to_numpy())]
    table += [describe(name, u.to_numpy()) for name, u in rows.groupby("environment")["pit"]]
    return Calibration(pd.DataFrame(table), rows)
