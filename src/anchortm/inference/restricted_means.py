"""Restricted means of predicted times, E[min(Y, tau)], with standard errors, and their differences.

The delta method keeps, for each mean, its deviations along independent standard normals. These are linear: averages
over groups and differences between them have the averages and differences of deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchortm import plotting
from anchortm._messages import shown, warn
from anchortm._typing import Array, Axis
from anchortm._util.frames import grouped
from anchortm._util.html import report
from anchortm.exceptions import AnchorTMWarning
from anchortm.inference.bands import SMALL, beside
from anchortm.inference.bootstrap import Bootstrap
from anchortm.predict.protocol import Distribution
from anchortm.predict.restricted import check_times, chunks, horizon, restricted_means

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Groups", "RestrictedMeans", "checked_horizon", "means_of_refits", "smooth_means"]


@dataclass(frozen=True, eq=False)
class RestrictedMeans:
    """Mean times up to a horizon (RMST) of rows or groups, with standard errors.

    Attributes
    ----------
    tau : float
        The horizon.
    names : pandas Index
        The rows, or the groups over whose rows the means are averaged.
    estimate : array of shape (n,)
        E[min(Y, tau)].
    deviations : array of shape (r, n)
        By the delta method, how each mean changes along r independent standard normals; with a bootstrap, the means of
        its r fits.
    level : float
        Confidence level of the intervals.
    method : str
        Delta method or bootstrap.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
    >>> means = model.restricted_mean(data, 365, by=data.treat)
    >>> means.differences().round(1)
                      difference  std. error  lower  upper
    rIFN-g - placebo        66.8        18.0   31.4  102.1
    """

    tau: float
    names: pd.Index
    estimate: Array
    deviations: Array
    level: float
    method: str

    @property
    def standard_errors(self) -> Array:
        """Return the standard error of each mean."""
        return self._errors(self.deviations)

    def covariance(self) -> Array:
        """Return the covariance matrix of the means.

        Returns
        -------
        array of shape (n, n)
        """
        if self._resampled:
            return np.atleast_2d(np.cov(self.deviations, rowvar=False))
        return np.asarray(self.deviations.T @ self.deviations)

    def frame(self) -> pd.DataFrame:
        """Return the means as a table.

        Returns
        -------
        DataFrame
            Restricted mean, standard error, lower and upper limit of each row or group.
        """
        table = self._table("restricted mean", self.names, self.estimate, self.deviations)
        table[["lower", "upper"]] = table[["lower", "upper"]].clip(0.0, self.tau)
        return table

    def differences(self) -> pd.DataFrame:
        """Return how much the mean of each row or group after the first exceeds that of the first.

        Returns
        -------
        DataFrame
            Difference, standard error, lower and upper limit.
        """
        import pandas as pd

        names = pd.Index([f"{name} - {self.names[0]}" for name in self.names[1:]])
        away = self.deviations[:, 1:] - self.deviations[:, :1]
        return self._table("difference", names, self.estimate[1:] - self.estimate[0], away)

    def plot(self, ax: Axis = None, *, unit: str = "time") -> Axes:
        """Draw the means with their intervals and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        unit : str
            Unit of the times.

        Returns
        -------
        matplotlib axes
        """
        title = f"means up to {self.tau:g}, {self.level:.0%} intervals"
        return plotting.intervals(self.frame(), ax, value="restricted mean", unit=unit, title=title, zero=False)

    @shown
    def __repr__(self) -> str:
        return f"{self._title()}\n{self.frame().to_string(float_format=lambda v: f'{v:.4g}')}"

    def _repr_html_(self) -> str:
        return report(self._title(), self.frame())

    def _title(self) -> str:
        return f"Mean up to {self.tau:g}, {self.level:.0%} intervals, {self.method}"

    @property
    def _resampled(self) -> bool:
        return self.method != "delta method"

    def _errors(self, deviations: Array) -> Array:
        if self._resampled:
            return np.asarray(deviations.std(axis=0, ddof=1))
        return np.asarray(np.sqrt((deviations**2).sum(axis=0)))

    def _table(self, what: str, names: pd.Index, value: Array, deviations: Array) -> pd.DataFrame:
        import pandas as pd

        error, tails = self._errors(deviations), 0.5 + np.array([-0.5, 0.5]) * self.level
        if self._resampled:
            lower, upper = np.quantile(deviations, tails, axis=0)
        else:
            lower, upper = value + np.multiply.outer(stats.norm.ppf(tails), error)
        return pd.DataFrame({what: value, "std. error": error, "lower": lower, "upper": upper}, index=names)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups over whose rows means are averaged; without ``by`` each row is its own."""

    names: pd.Index
    codes: NDArray[np.intp]
    level: float

    @classmethod
    def of(cls, by: Any, X: Any, n: int, level: float) -> Groups:
        """Return the groups of the n rows of X by their labels, or by a column of X."""
        import pandas as pd

        if by is None:
            return cls(pd.RangeIndex(n, name="row"), np.arange(n), level)
        return cls(*grouped(by, n, X), level)

    @property
    def n(self) -> int:
        """Return the number of groups."""
        return len(self.names)

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Return the number of rows of each group."""
        return np.bincount(self.codes, minlength=self.n)

    def average(self, values: Array) -> Array:
        """Return the averages of values of rows, the last axis, over each group."""
        out = np.zeros((*values.shape[:-1], self.n))
        np.add.at(out.T, self.codes, values.T)
        return out / self.sizes

    def means(self, tau: float, estimate: Array, deviations: Array, method: str) -> RestrictedMeans:
        """Return the result for estimates of rows and deviations of groups."""
        return RestrictedMeans(tau, self.names, self.average(estimate), deviations, self.level, method)


def checked_horizon(tau: Any, distribution: Distribution, observed: tuple[float, float] | None) -> float:
    """Return tau as a number, if outcomes are times; warn if it lies beyond the last follow-up, the end of the data."""
    value = horizon(tau)
    check_times(distribution)
    if observed is not None and value > observed[1]:
        warn(
            f"tau = {value:g} lies beyond the last follow-up, {observed[1]:g}: the curve beyond it is a guess",
            AnchorTMWarning,
        )
    return value


def smooth_means(
    at_parameters: Callable[[Array], Distribution],
    parameters: Array,
    tau: float,
    groups: Groups,
    uncertainty: Array | Bootstrap,
) -> RestrictedMeans:
    """Return the means of distributions that depend on parameters smoothly; see ``restricted_mean`` of models.

    Derivatives are central differences along the principal axes of the covariance, with the same nodes on both sides.
    """
    if isinstance(uncertainty, Bootstrap):
        refits = [at_parameters(draw) for draw in uncertainty.draws]
        return means_of_refits(at_parameters(parameters), refits, tau, groups)
    pairs = [(at_parameters(up), at_parameters(down)) for up, down in beside(parameters, uncertainty)]
    distribution, estimates, deviations = at_parameters(parameters), [], []
    for part in chunks(distribution, tau):
        moved = [each[part] for pair in pairs for each in pair]
        estimate, *ends = restricted_means([distribution[part], *moved], tau)
        estimates.append(estimate)
        sides = np.array(ends).reshape(len(pairs), 2, estimate.size)
        deviations.append((sides[:, 0] - sides[:, 1]) / (2.0 * SMALL))
    own = groups.average(np.hstack(deviations))
    return groups.means(tau, np.concatenate(estimates), own, "delta method")


def means_of_refits(distribution: Distribution, refits: list[Any], tau: float, groups: Groups) -> RestrictedMeans:
    """Return the means with percentiles of those of refits, for the same rows."""
    draws = np.array([groups.average(each.restricted_mean(tau)) for each in refits])
    return groups.means(tau, distribution.restricted_mean(tau), draws, f"bootstrap of {len(draws)}")
