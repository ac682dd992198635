"""Confidence bands of predicted distributions and quantiles.

The delta method uses that h(y|x) = a(y)'theta +- x'beta is linear in the parameters, so that its standard error is
exact given their covariance. The link transforms the band of h into a band of probabilities, which stays in [0, 1]. The
standard error of a quantile is that of h there, divided by h'. The bootstrap takes percentiles over the refits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from anchortm import plotting
from anchortm._typing import Axis
from anchortm._util.checks import level_between
from anchortm._util.html import report
from anchortm.exceptions import InputError
from anchortm.inference.bootstrap import Bootstrap
from anchortm.links import get_link
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.protocol import Distribution

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "SMALL",
    "ConfidenceBand",
    "Of",
    "band_of_averages",
    "band_of_refits",
    "beside",
    "checked_points",
    "confidence_band",
    "covariance_root",
    "family_band",
]

Array = NDArray[np.float64]
Of = Literal["cdf", "sf", "ppf"]

DRAWS = 10_000  # simulations of the process whose maximum gives the width of simultaneous bands
SMALL = 1e-3  # step of differences, in standard errors
NO_VARIANCE = 1e-12  # directions with a smaller fraction of the largest variance count as known


@dataclass(frozen=True, eq=False)
class ConfidenceBand:
    """Estimates and confidence limits for each row of X at each point.

    Attributes
    ----------
    of : {"cdf", "sf", "ppf"}
        What is estimated: P(Y <= y), P(Y > y) or quantiles.
    at : array of shape (m,)
        The points: outcomes or, for quantiles, probabilities.
    estimate, lower, upper : array of shape (n, m)
        Estimates and limits, one row for each row of X.
    level : float
        Confidence level.
    simultaneous : bool
        Whether the band of a row covers all its points at once.
    method : str
        Delta method or bootstrap.
    steps : bool
        Whether the curves are constant between their steps, as those of ``CoxPH``.
    outcome_name : str or None
        What the outcome is called, if it had a name in the fit.
    labels : pandas Index or None
        The labels of the rows, from the index of X if it does more than number the rows from 0.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_geyser()
    >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
    >>> band = model.confidence_band(data[["duration"]][:1], [60, 80], of="sf")
    >>> band
    ConfidenceBand(sf, 1 rows x 2 points, 95% pointwise, delta method)
    >>> band.frame().round(2)
       row     y  estimate  lower  upper
    0    0  60.0      0.68   0.62   0.74
    1    0  80.0      0.19   0.15   0.24
    """

    of: Of
    at: NDArray[Any]
    estimate: Array
    lower: Array
    upper: Array
    level: float
    simultaneous: bool
    method: str
    steps: bool = False
    outcome_name: str | None = None
    labels: pd.Index | None = None

    def named(self, outcome_name: str | None, labels: pd.Index | None) -> ConfidenceBand:
        """Return the band with these names of outcome and rows."""
        return replace(self, outcome_name=outcome_name, labels=labels)

    def frame(self) -> pd.DataFrame:
        """Return the band as a table.

        Returns
        -------
        DataFrame
            One row for each row of X and each point: estimate, lower and upper.
        """
        import pandas as pd

        n, m = self.estimate.shape
        return pd.DataFrame(
            {
                "row": np.repeat(np.arange(n), m),
                "q" if self.of == "ppf" else "y": np.tile(self.at, n),
                "estimate": self.estimate.ravel(),
                "lower": self.lower.ravel(),
                "upper": self.upper.ravel(),
            }
        )

    def plot(self, ax: Axis = None, labels: Sequence[object] | None = None, *, unit: str | None = None) -> Axes:
        """Draw the estimate of each row with its band and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        labels : sequence, optional
            A label for each row; by default the labels of the band.
        unit : str, optional
            Label of the axis of outcomes; by default the name of the outcome.

        Returns
        -------
        matplotlib axes
        """
        return plotting.band(self, ax, labels, unit=unit)

    def _repr_html_(self) -> str:
        return report(repr(self), self.frame())

    def __repr__(self) -> str:
        kind = "simultaneous" if self.simultaneous else "pointwise"
        return (
            f"ConfidenceBand({self.of}, {self.estimate.shape[0]} rows x {self.at.size} points, "
            f"{self.level:.0%} {kind}, {self.method})"
        )


def confidence_band(
    distribution: PredictedDistribution,
    X: Array,
    sign: float,
    fixed: Array,
    at: ArrayLike,
    of: Of,
    level: float,
    simultaneous: bool,
    uncertainty: Array | Bootstrap,
    shares: Array | None = None,
) -> ConfidenceBand:
    """Return the band of a fitted model's predictions; see ``TransformationModel.confidence_band``.

    The model is h(y | x_i) = a(y)'theta + sign * x_i'beta + fixed_i. With several baselines, ``shares`` are the weights
    of row i on them, and the first term is a(y)'(sum_b share_ib theta_b).
    """
    points = checked_points(distribution, at, of, level)
    scale = _quantile_scale(distribution, points) if of == "ppf" else _probability_scale(distribution, points, of)
    size, K = scale.estimate.shape, distribution.basis.n_parameters
    shares = np.ones((size[0], 1)) if shares is None else shares
    lower, upper = np.empty(size), np.empty(size)
    for i in range(size[0]):
        if isinstance(uncertainty, Bootstrap):
            k = uncertainty.draws.shape[1] - X.shape[1]
            shifts = fixed[i] + sign * (uncertainty.draws[:, k:] @ X[i])
            thetas = np.einsum("b,dbk->dk", shares[i], uncertainty.draws[:, :k].reshape(-1, shares.shape[1], K))
            values = scale.again(i, thetas, shifts)
            lower[i], upper[i] = _by_draws(scale.estimate[i], values, level, simultaneous)
        else:
            lower[i], upper[i] = _by_delta(scale, i, shares[i], sign * X[i], uncertainty, level, simultaneous)
    lower, upper = scale.back(lower), scale.back(upper)
    if of == "sf":
        lower, upper = upper, lower
    method = f"bootstrap of {len(uncertainty.draws)}" if isinstance(uncertainty, Bootstrap) else "delta method"
    return ConfidenceBand(of, points, scale.back(scale.estimate), lower, upper, level, simultaneous, method)


def band_of_refits(
    distribution: Any, refits: Sequence[Any], at: ArrayLike, of: Of, level: float, simultaneous: bool
) -> ConfidenceBand:
    """Return the band of predictions from those of refits; all are distributions of the same rows, of any kind."""
    points = checked_points(distribution, at, of, level)
    estimate, *draws = (np.asarray(getattr(d, of)(points), dtype=np.float64) for d in (distribution, *refits))
    values = np.array(draws)
    ends = [_by_draws(estimate[i], values[:, i], level, simultaneous) for i in range(len(estimate))]
    lower, upper = (np.array(end) for end in zip(*ends, strict=True))
    if of != "ppf":
        lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
    steps, method = of != "ppf" and distribution.basis.kind == "step", f"bootstrap of {len(draws)}"
    return ConfidenceBand(of, points, estimate, lower, upper, level, simultaneous, method, steps)


def band_of_averages(
    at_parameters: Callable[[Array], Any],
    parameters: Array,
    at: ArrayLike,
    of: Of,
    level: float,
    simultaneous: bool,
    uncertainty: Array | Bootstrap,
) -> ConfidenceBand:
    """Return the band of averages over random effects; ``at_parameters`` gives their distributions.

    The delta method takes derivatives by central differences along the principal axes of the covariance: an average
    over effects has no transformation h. Bands of probabilities are symmetric on the scale F^-1 of the link, for
    families on that of log odds.
    """
    distribution = at_parameters(parameters)
    if isinstance(uncertainty, Bootstrap):
        refits = [at_parameters(draw) for draw in uncertainty.draws]
        return band_of_refits(distribution, refits, at, of, level, simultaneous)
    points = checked_points(distribution, at, of, level)
    link = distribution.link if isinstance(distribution, PredictedDistribution) else get_link("logit")
    logs = of == "ppf" and (distribution.positive or distribution.basis.lower_bound == 0.0)  # as for other bands

    def scaled(law: Any) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            if of == "ppf":
                return np.asarray(np.log(law.ppf(points)) if logs else law.ppf(points), dtype=np.float64)
            below, above = law.logcdf(points), law.logsf(points)
            upper = above < below
            return np.where(upper, link.quantile_from_log_sf(above), link.quantile_from_log_cdf(below))

    pairs = beside(parameters, uncertainty)
    moved = [[scaled(at_parameters(there)) for there in pair] for pair in pairs]
    estimate = scaled(distribution)
    with np.errstate(invalid="ignore"):
        J = np.array([(up - down) / (2.0 * SMALL) for up, down in moved]).reshape(-1, *estimate.shape)
    J = np.where(np.isfinite(estimate) & np.isfinite(J), J, 0.0)  # probabilities of 0 and 1 do not move
    width = _widths(J, level, simultaneous)
    probability = link.log_sf if of == "sf" else link.log_cdf

    def ends(values: Array) -> Array:
        return (np.exp(values) if logs else values) if of == "ppf" else np.exp(probability(values))

    lower, upper = np.sort([ends(estimate - width), ends(estimate + width)], axis=0)
    return ConfidenceBand(of, points, ends(estimate), lower, upper, level, simultaneous, "delta method")


def beside(parameters: Array, covariance: Array) -> list[tuple[Array, Array]]:
    """Return pairs of parameters on both sides of some, SMALL standard deviations along each axis of the covariance."""
    return [(parameters + SMALL * axis, parameters - SMALL * axis) for axis in covariance_root(covariance).T]


def covariance_root(covariance: Array) -> Array:
    """Return a matrix whose product with its transpose is the covariance: its principal axes with some variance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > NO_VARIANCE * values.max(initial=0.0)])


def _widths(J: Array, level: float, simultaneous: bool) -> Array:
    """Return half the widths of bands from derivatives (axes, rows, points) along independent standard normals."""
    error = np.sqrt((J**2).sum(axis=0))
    if not simultaneous:
        return np.asarray(stats.norm.ppf(0.5 + 0.5 * level) * error)
    z, critical = np.random.default_rng(0).normal(size=(DRAWS, J.shape[0])), np.zeros((error.shape[0], 1))
    for i, own in enumerate(error):
        moving = own > 0.0
        paths = np.abs(z @ J[:, i, moving]) / own[moving]
        critical[i] = np.quantile(paths.max(axis=1, initial=0.0), level)
    return np.asarray(critical * error)


def checked_points(distribution: Any, at: ArrayLike, of: Of, level: float) -> NDArray[Any]:
    """Return the checked points of a band."""
    points = np.atleast_1d(np.asarray(at, dtype=object if distribution.basis.kind == "ordinal" else np.float64))
    level_between(level)
    if of not in ("cdf", "sf", "ppf"):
        raise InputError(f"of must be 'cdf', 'sf' or 'ppf', not {of!r}")
    if points.ndim != 1:
        raise InputError(f"at must be a number or a vector, not of shape {points.shape}")
    if points.dtype == np.float64 and np.isnan(points).any():
        raise InputError("at contains NaN: pass numbers")
    if of == "ppf" and distribution.basis.discrete:
        raise InputError("bands of quantiles do not support classes and counts, whose quantiles jump: use of='cdf'")
    if of == "ppf" and not ((points > 0.0) & (points < 1.0)).all():
        raise InputError("probabilities of a quantile band must lie between 0 and 1")
    return points


def family_band(
    at_eta: Callable[[Array], Distribution],
    eta: Array,
    columns: Array,
    at: ArrayLike,
    of: Of,
    level: float,
    simultaneous: bool,
    uncertainty: Array | Bootstrap,
) -> ConfidenceBand:
    """Return the band of a model of the mean; ``at_eta`` gives its distributions from linear predictors.

    Only eta is uncertain; the dispersion is taken as known. Distributions of a family are ordered by eta, so
    that its limits give those of all probabilities and quantiles, and a pointwise band is simultaneous too.
    """
    points, tails = np.atleast_1d(np.asarray(at, dtype=np.float64)), 0.5 + np.array([-0.5, 0.5]) * level_between(level)
    if of not in ("cdf", "sf", "ppf"):
        raise InputError(f"of must be 'cdf', 'sf' or 'ppf', not {of!r}")
    if isinstance(uncertainty, Bootstrap):
        away = (uncertainty.draws - uncertainty.estimate) @ columns.T
        ends, method = eta + np.quantile(away, tails, axis=0), f"bootstrap of {len(uncertainty.draws)}"
    else:
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", columns, uncertainty, columns), 0.0))
        ends, method = eta + np.multiply.outer(stats.norm.ppf(tails), error), "delta method"
    estimate, *limits = (np.asarray(getattr(at_eta(here), of)(points), dtype=np.float64) for here in (eta, *ends))
    lower, upper = np.sort(limits, axis=0)
    return ConfidenceBand(of, points, estimate, lower, upper, level, simultaneous, method)


@dataclass(frozen=True, eq=False)
class _Scale:
    """The scale on which a band is symmetric: h for probabilities, y or log y for quantiles."""

    estimate: Array  # (n, m)
    rows: Callable[[int], tuple[Array, Array]]  # for row i: a(y) at its points, and the factor from h to this scale
    again: Callable[[int, Array, Array], Array]  # values of row i for draws of theta and of its shift
    back: Callable[[Array], Array]  # maps this scale to probabilities or quantiles


def _probability_scale(distribution: PredictedDistribution, points: NDArray[Any], of: Of) -> _Scale:
    y = distribution.codes(points)
    h = distribution.trafo(points)
    inside = np.isfinite(h).all(axis=0) & np.isfinite(y)  # the same points for all rows
    a = np.zeros((y.size, distribution.basis.n_parameters))
    a[inside] = distribution.basis.rows(y[inside])
    link = distribution.link

    def again(i: int, thetas: Array, shifts: Array) -> Array:
        return np.where(inside, thetas @ a.T + shifts[:, None], h[i])

    log = link.log_cdf if of == "cdf" else link.log_sf
    return _Scale(
        h,
        lambda i: (a, inside.astype(np.float64)),
        again,
        lambda h: np.exp(log(h)),
    )


def _quantile_scale(distribution: PredictedDistribution, q: Array) -> _Scale:
    basis = distribution.basis
    y = np.asarray(distribution.ppf(q))
    if not np.isfinite(y).all():
        raise InputError("some quantiles are infinite, because h is flat outside the support: use other probabilities")
    logs = distribution.positive or basis.lower_bound == 0.0
    if logs and (y <= 0.0).any():
        raise InputError("some quantiles lie in the atom at 0: use higher probabilities, or log_first=True")

    def rows(i: int) -> tuple[Array, Array]:
        slope = basis.derivative_rows(y[i]) @ distribution.transformation.theta_of(i)
        with np.errstate(divide="ignore"):
            return basis.rows(y[i]), 1.0 / (slope * y[i] if logs else slope)

    def again(i: int, thetas: Array, shifts: Array) -> Array:
        h = distribution.link.quantile(q)[None, :] - shifts[:, None]
        values = np.array([basis.inverse(t, row) for t, row in zip(thetas, h, strict=True)])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.maximum(values, 0.0)) if logs else values

    return _Scale(np.log(y) if logs else y, rows, again, np.exp if logs else lambda value: value)


def _by_delta(
    scale: _Scale, i: int, share: Array, x: Array, covariance: Array, level: float, simultaneous: bool
) -> tuple[Array, Array]:
    a, factor = scale.rows(i)
    C = np.hstack([np.kron(share, a), np.broadcast_to(x, (a.shape[0], x.size))])
    error = factor * np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", C, covariance, C), 0.0))
    critical = stats.norm.ppf(0.5 + 0.5 * level)
    moving = error > 0.0
    if simultaneous and moving.any():
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        z = np.random.default_rng(0).normal(size=(root.shape[1], DRAWS))
        paths = (factor[:, None] * (C @ root))[moving] @ z / error[moving, None]
        critical = np.quantile(np.abs(paths).max(axis=0), level)
    width = np.where(moving, critical * error, 0.0)
    return scale.estimate[i] - width, scale.estimate[i] + width


def _by_draws(estimate: Array, values: Array, level: float, simultaneous: bool) -> tuple[Array, Array]:
    """Return percentiles of the draws or, if simultaneous, the estimate -+ a multiple of their deviations."""
    if not simultaneous:
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        lower, upper = np.quantile(values, tails, axis=0, method="inverted_cdf")  # draws may be infinite
        return lower, upper
    spread = np.zeros(estimate.size)
    finite = np.isfinite(estimate)
    with np.errstate(invalid="ignore"):  # draws may be infinite
        spread[finite] = values[:, finite].std(axis=0, ddof=1)
    if not np.isfinite(spread).all():
        raise InputError("some resampled quantiles are infinite: use a pointwise band, or other points")
    moving = spread > 0.0
    away = np.abs(values[:, moving] - estimate[moving]) / spread[moving]
    width = np.quantile(away.max(axis=1, initial=0.0), level) * spread
    return estimate - width, estimate + width
