"""The bootstrap: fits to resampled rows, clusters or environments; and covariances by the name of their kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm import plotting
from anchortm._messages import shown, warn
from anchortm._util.checks import generator, level_between, whole_number
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm.backends.grouped import GroupedStream
from anchortm.engine.data import Data
from anchortm.engine.problem import Problem
from anchortm.engine.result import FLAT_CURVATURE, FitResult
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError, MissingValueError
from anchortm.inference.covariance import (
    KINDS,
    check_net,
    check_strict,
    covariance,
    default_kind,
    few_clusters,
    inverse_hessian,
)
from anchortm.inference.resampling import batched_groups, counts_of, resampled, succeeded
from anchortm.plotting.results import Panels
from anchortm.predict.fitted import Fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BoostedBootstrap", "Bootstrap", "any_covariance", "at_row", "bootstrap", "refuse_recalibrated", "resolve"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Refitted = tuple[Array, Any]  # parameters, and steps of a partial likelihood
T = TypeVar("T")

LEAST_COMPLETE = 0.5  # smallest fraction of draws with all parameters from which a covariance is computed


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The parameters of fits to resampled data.

    Attributes
    ----------
    draws : array of shape (number of fits, number of parameters)
        One row for each fit: the baseline, then the coefficients. Parameters that the resampled rows do not identify
        are NaN, such as the coefficient of a level that occurs only at a place that was not drawn.
    estimate : array
        The parameters of the original fit.
    names : tuple of str
        Names of the parameters.
    resampled : str
        What was resampled: rows, clusters or environments.
    failed : int
        Number of fits that failed and were skipped.
    steps : tuple
        For ``CoxPH``: the cumulative baseline hazards of each fit, and the x'beta at which they hold.
    n_passes : int or None
        How often the table was read, if it is read in batches.
    n_baseline : int
        Number of parameters of the baseline, which come first.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact", data)
    >>> draws = model.bootstrap(20, random_state=0)
    >>> draws.draws.shape, draws.names
    ((20, 6), ('1|2', '2|3', '3|4', '4|5', 'temp[T.warm]', 'contact[T.yes]'))
    >>> draws.frame().loc["temp[T.warm]", "estimate"].round(2).item()
    2.5
    """

    draws: Array
    estimate: Array
    names: tuple[str, ...]
    resampled: str
    failed: int
    steps: tuple[Any, ...] = ()
    n_passes: int | None = None
    n_baseline: int = 0

    def complete(self) -> Bootstrap:
        """Return the draws in which all parameters are identified, with a warning if there are others.

        Covariances, bands and marginal effects combine several parameters of one draw, so they use these draws only:
        they describe the fits to samples that have all levels. Each parameter alone uses all draws that have it; see
        ``frame``.

        Returns
        -------
        Bootstrap
            Itself, if all parameters are identified in all draws. With fewer than half of the draws an error is
            raised.
        """
        whole = np.isfinite(self.draws).all(axis=1)
        if whole.all():
            return self
        n, lacking = int(whole.sum()), np.flatnonzero(np.isnan(self.draws).any(axis=0))
        named = ", ".join(self.names[j] for j in lacking[:5]) + (", ..." if lacking.size > 5 else "")
        if n < max(2, LEAST_COMPLETE * whole.size):
            raise IdentificationError(
                f"{named}: only {n} of {whole.size} resampled data sets identify all parameters, too few for a "
                "covariance or a band; merge rare levels, leave them out, or use kind='sandwich'; frame() has the "
                "standard error of each parameter"
            )
        warn(
            f"{whole.size - n} of {whole.size} resampled data sets do not identify {named}: covariances and bands are "
            f"those of the other {n}",
            AnchorTMWarning,
        )
        own = np.flatnonzero(whole)
        return replace(self, draws=self.draws[own], steps=tuple(self.steps[k] for k in own) if self.steps else ())

    def covariance(self) -> Array:
        """Return the covariance matrix of the draws in which all parameters are identified; see ``complete``.

        Returns
        -------
        array of shape (k, k)
        """
        return np.atleast_2d(np.cov(self.complete().draws, rowvar=False))

    def frame(self, level: float = 0.95) -> pd.DataFrame:
        """Return the estimate, standard error and percentile interval of each parameter.

        Each parameter uses the draws that identify it.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        DataFrame
            If some draws do not identify all parameters, the column ``draws`` counts those that do.
        """
        import pandas as pd

        tails = 0.5 + np.array([-0.5, 0.5]) * level_between(level)
        known, more = ~np.isnan(self.draws), {}
        if known.all():
            lower, upper = np.quantile(self.draws, tails, axis=0)
            error = self.draws.std(axis=0, ddof=1)
        else:
            columns = [draws[own] for draws, own in zip(self.draws.T, known.T, strict=True)]
            lower, upper = np.array([np.quantile(own, tails) if own.size else tails * np.nan for own in columns]).T
            error = np.array([own.std(ddof=1) if own.size > 1 else np.nan for own in columns])
            more = {"draws": known.sum(axis=0)}
        found = {"estimate": self.estimate, "std. error": error, "lower": lower, "upper": upper} | more
        return pd.DataFrame(found, index=pd.Index(self.names, name="parameter"))

    def plot(
        self, axes: Panels = None, *, parameters: Sequence[str] | None = None, level: float = 0.95
    ) -> NDArray[np.object_]:
        """Draw a histogram of the draws of each parameter, with its estimate and percentile interval; return the axes.

        Parameters
        ----------
        axes : array of matplotlib axes, optional
            Where to draw, one for each parameter; by default a new figure.
        parameters : sequence of str, optional
            Names of the parameters to draw. By default the coefficients, the first 12 of many.
        level : float
            Confidence level.

        Returns
        -------
        array of matplotlib axes
        """
        return plotting.draws(self, axes, parameters=parameters, level=level)

    @shown
    def __repr__(self) -> str:
        return f"{self._title()}\n{self.frame().to_string()}"

    def _repr_html_(self) -> str:
        return report(self._title(), self.frame())

    def _title(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        n = int(np.isnan(self.draws).any(axis=1).sum())
        partial = f", {n} without some parameters" if n else ""
        return f"Bootstrap({len(self.draws)} fits, {self.resampled} resampled{failed}{partial})"


@dataclass(frozen=True, eq=False)
class BoostedBootstrap:
    """Boosted models fitted to resampled data.

    Attributes
    ----------
    models : tuple of AnchorBoostedTM
        The fitted models.
    resampled : str
        What was resampled: rows, clusters or environments.
    failed : int
        Number of fits that failed and were skipped.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_boston_housing2()
    >>> formula = "cmedv ~ rm + lstat | town"
    >>> model = atm.AnchorBoostedTM.from_formula(formula, data, model=atm.NormalLinear(), xi=1.0, n_rounds=5)
    >>> refits = model.bootstrap(10, random_state=0, progress=False)
    >>> refits
    BoostedBootstrap(10 fits, environments (town) resampled)
    >>> refits.models[0].predict(data[:3]).shape
    (3,)
    """

    models: tuple[Any, ...]
    resampled: str
    failed: int

    def __repr__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"BoostedBootstrap({len(self.models)} fits, {self.resampled} resampled{failed})"

    def _repr_html_(self) -> str:
        return report("Bootstrap", {"fits": len(self.models), "resampled": self.resampled, "failed": self.failed})


def any_covariance(model: Fitted, kind: str | None = None, clusters: Any = None, **options: Any) -> Array:
    """Return the covariance matrix of (baseline, coef) of a fitted model; see ``covariance`` of models."""
    kind = default_kind(model.result_, clusters) if kind is None else kind
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    unknown = sorted(set(options) - {"n_bootstrap", "random_state", "n_jobs", "progress"})
    if unknown:
        raise InputError(
            f"unknown arguments: {', '.join(unknown)}; allowed are kind, clusters and the arguments of bootstrap"
        )
    if kind == "bootstrap":
        return bootstrap(model, clusters=clusters, **options).covariance()
    if options:
        raise InputError(f"{', '.join(options)} can only be used with kind='bootstrap'")
    return covariance(model, kind, clusters)


def bootstrap(
    model: Fitted,
    n_bootstrap: int = 200,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Bootstrap:
    """Return fits of the model to resampled data; see ``bootstrap`` of models."""
    problem, result = model.problem_, model.result_
    names, n_passes = (*result.parameter_names, *result.other_names), None
    if problem.data.in_memory:
        refit = partial(_refit, problem, result)
        found, what, failed = resampled(problem.data, refit, n_bootstrap, clusters, random_state, n_jobs, progress)
    else:
        before = problem.data.n_passes
        with Task("bootstrap", shown=progress):
            found, what, failed = _of_batches(problem, result, n_bootstrap, clusters, random_state, n_jobs)
        n_passes = problem.data.n_passes - before
    draws, steps = zip(*found, strict=True)
    own = steps if any(steps) else ()
    return Bootstrap(
        np.array(draws), result.parameters, names, what, failed, own, n_passes, len(result.parameter_names)
    )


def _of_batches(
    problem: Problem,
    result: FitResult,
    n_bootstrap: int,
    clusters: Any,
    random_state: Any,
    n_jobs: int | None,
) -> tuple[list[Refitted], str, int]:
    """Return the same for groups of a table that is read in batches; the refits share each read of it."""
    stream, n_bootstrap, rng = problem.data, whole_number(n_bootstrap, "n_bootstrap", 2), generator(random_state)
    what, source = batched_groups(stream, clusters), stream.source
    before = source.n_jobs
    try:
        source.n_jobs = before if n_jobs is None else problem.spec.at(n_jobs=n_jobs).check().threads
        grouped = GroupedStream(stream, clusters, outcomes=False, word="clusters")
        size = len(grouped.labels)
        if size < 2:
            raise InputError("there is a single cluster: the bootstrap needs at least two")
        few_clusters(size)
        drawn = [counts_of(rng, size).astype(np.float64) for _ in range(n_bootstrap)]
        found = stream.together([partial(_refit_groups, problem, result, grouped, times) for times in drawn])
    except MissingValueError as error:
        raise MissingValueError(
            f"{error} in the table before the fit, because the bootstrap draws all rows of the fit"
        ) from None
    finally:
        source.n_jobs = before
    kept = succeeded(found)
    return kept, what, n_bootstrap - len(kept)


def _refit(problem: Problem, result: FitResult, part: Data) -> Refitted | None:
    """Return parameters and steps of the fit to resampled rows with the basis of the full fit; None if it fails."""
    found = _refitted(problem, result, lambda: part)
    # a look at all columns of each sample would take longer than most fits
    return _refitted(problem, result, lambda: _thinned(problem, part)) if found is None else found


def _thinned(problem: Problem, part: Data) -> Data | None:
    """Return resampled rows without the columns that they do not identify; None if they identify all."""
    thinned = problem.identified(part)[1]
    return thinned if thinned.lost else None


def _refit_groups(problem: Problem, result: FitResult, grouped: GroupedStream, times: Array) -> Refitted | None:
    """Return the same for groups of rows that are read in batches."""
    return _refitted(problem, result, lambda: grouped.drawn(times))


def _refitted(problem: Problem, result: FitResult, make: Callable[[], Any]) -> Refitted | None:
    """Return parameters and steps of the fit to resampled rows; None if it fails."""
    try:
        part = make()
        if part is None or part.dropped:
            return None
        found = problem.refit(result, part)
    except (IdentificationError, ArithmeticError, np.linalg.LinAlgError):
        return None
    if not (found.converged and found.min_eigenvalue > FLAT_CURVATURE):
        return None
    return found.parameters, found.steps


def refuse_recalibrated(result: FitResult) -> None:
    """Raise an error if the uncertainty of predictions is asked of a recalibrated model."""
    if result.recalibration is not None:
        raise InputError(
            "confidence limits of a recalibrated model are not implemented: its predictions are averages over the "
            "shift of the place; use the model as it was before"
        )


def resolve(model: Fitted, uncertainty: str | Array | Bootstrap | None) -> Array | Bootstrap:
    """Return the covariance matrix or bootstrap of the parameters, by its name or checked as given."""
    result = model.result_
    refuse_recalibrated(result)
    if uncertainty is None and default_kind(result, None) == "hessian":
        check_net(result)
        check_strict(result)
        return inverse_hessian(result, held=True)
    if uncertainty is None or isinstance(uncertainty, str):
        return bootstrap(model).complete() if uncertainty == "bootstrap" else any_covariance(model, uncertainty)
    d = result.parameters.size
    if isinstance(uncertainty, Bootstrap):
        if uncertainty.draws.shape[1] != d:
            raise InputError(
                f"the bootstrap has {uncertainty.draws.shape[1]} parameters, but the model has {d}: pass the bootstrap "
                "of this model"
            )
        return uncertainty.complete()
    matrix = np.asarray(uncertainty, dtype=np.float64)
    if matrix.shape != (d, d):
        raise InputError(
            f"the covariance has shape {matrix.shape}, but the model has {d} parameters, baseline first: "
            "pass what covariance() returns"
        )
    return matrix


def at_row(uncertainty: Array | Bootstrap, theta: Array, shares: Array, z: Array, g: Array) -> Array | Bootstrap:
    """Return the covariance or bootstrap of (theta_i, beta) from that of (theta, beta, g).

    theta_i = exp(z'g / 2) sum_b share_b theta_b is the baseline of a row.
    """
    K, p = theta.size // shares.size, -g.size
    if isinstance(uncertainty, Bootstrap):
        draws, k = uncertainty.draws, theta.size
        own = np.einsum("b,dbk->dk", shares, draws[:, :k].reshape(-1, shares.size, K))
        own *= np.exp(0.5 * (draws[:, p:] @ z))[:, None]
        return replace(uncertainty, draws=np.hstack([own, draws[:, k:p]]))
    s = math.exp(0.5 * float(z @ g))
    mix = np.kron(shares, np.eye(K))
    n_coefs = uncertainty.shape[0] - theta.size + p
    J = np.block([[s * mix, np.zeros((K, n_coefs))], [np.zeros((n_coefs, theta.size)), np.eye(n_coefs)]])
    J = np.hstack([J, np.vstack([np.outer(s * (mix @ theta), 0.5 * z), np.zeros((n_coefs, z.size))])])
    return np.asarray(J @ uncertainty @ J.T)
