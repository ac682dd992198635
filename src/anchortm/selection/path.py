"""The path of a model along xi, and conversion between xi and gamma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone

from anchortm import plotting
from anchortm._typing import AnyTable, Axis, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import one_number, several_xi
from anchortm._util.html import report
from anchortm._util.progress import Task
from anchortm.engine.problem import Problem
from anchortm.engine.remarks import remarked
from anchortm.exceptions import InputError
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import Given, given

if TYPE_CHECKING:
    import pandas as pd

    from anchortm.models.boosted.estimator import AnchorBoostedTM

__all__ = ["AnchorPath", "anchor_path", "gamma_from_quantile", "gamma_from_xi", "xi_from_gamma"]

Array = NDArray[np.float64]

XIS = (0.0, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True, eq=False)
class AnchorPath:
    """Fits of one model to one data set at several xi, each on the branch connected to xi = 0.

    Attributes
    ----------
    xis : array of shape (k,)
        Values of xi.
    coefs : array of shape (k, p)
        Coefficients at each xi; scale effects come last. Boosted trees have none.
    baselines : array
        Parameters of the baseline, one row for each xi.
    coef_names : tuple of str
        Names of the coefficients.
    models : tuple of estimators
        The fitted model at each xi.
    n_passes : int or None
        How often the table was read, if it is read in batches.
    n_missing : int
        Number of rows that were dropped because values are missing.

    See Also
    --------
    anchortm.anchor_path : computes the path

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> path = atm.anchor_path(atm.OrdinalRegression(), formula, data, xis=[0, 1, 10])
    >>> path.frame()[["xi", "coef_temp[T.warm]", "penalty", "converged"]].round(3)
         xi  coef_temp[T.warm]  penalty  converged
    0   0.0              2.503    0.104       True
    1   1.0              2.281    0.098       True
    2  10.0              0.306    0.048       True
    >>> path.models[1].predict(data[:3])
    array([2, 2, 3])
    """

    xis: Array
    coefs: Array
    baselines: Array
    coef_names: tuple[str, ...]
    models: tuple[Any, ...]
    n_passes: int | None = None
    n_missing: int = 0

    def frame(self) -> pd.DataFrame:
        """Return one row for each xi: loss, coefficients, log-likelihood, penalty and convergence.

        Models with random effects also have columns for their standard deviations (``sd_intercept``, ``sd_x``), and
        for the correlation if there are two effects.

        Returns
        -------
        DataFrame
        """
        import pandas as pd

        rows = [
            {"xi": xi, "loss": r.loss}
            | {f"coef_{name}": value for name, value in zip(self.coef_names, coef, strict=True)}
            | r.spread
            | {
                "loglik": r.loglik,
                "penalty": r.penalty,
                "converged": r.converged,
                "kkt": r.kkt,
                "min_eigenvalue": r.min_eigenvalue,
                "n_iter": r.n_iter,
                "convexity": r.convexity,
                "lower_minimum_known": bool(r.lower_minima),
            }
            for xi, r, coef in zip(self.xis, (m.new_rows_.result for m in self.models), self.coefs, strict=True)
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Axis = None) -> Any:
        """Draw the coefficients against xi and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib axes
        """
        return plotting.coefficient_path(self, ax)

    def _repr_html_(self) -> str:
        return report(repr(self), self.frame())

    def __repr__(self) -> str:
        done, n = sum(m.converged_ for m in self.models), self.n_missing
        dropped = f", {n} row{'s' if n > 1 else ''} with missing values dropped" if n else ""
        return f"AnchorPath({type(self.models[0]).__name__}, {self.xis.size} values of xi, {done} converged{dropped})"


def anchor_path(
    model: TransformationModel | AnchorBoostedTM,
    X: Covariates | str,
    y: Outcome | AnyTable,
    anchors: Labels | None = None,
    xis: Sequence[float] = XIS,
    *,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    progress: bool | None = None,
) -> AnchorPath:
    """Return the fits of ``model`` at each xi, warm-started along the path.

    The results do not depend on the grid: the solver follows the branch in smaller steps between the values of xi. If
    the table is read in batches, the fits share each read of it.

    Parameters
    ----------
    model : estimator
        Any model of this package. It is not changed; its own xi is not used. A boosted model is fitted anew at each
        xi, because trees have no branch to follow.
    X, y, anchors : covariates, outcome and anchors
        As for ``fit``; or a formula with its anchors and a table, as for ``from_formula``:
        ``anchor_path(model, formula, data, xis=[0, 1, 10])``. The table may be one that is read in batches.
    xis : sequence of float
        Values of xi; ``math.inf`` is allowed.
    sample_weight, offset : arrays, optional
        As for ``fit``; with a table, names of columns too.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal or notebook.

    Returns
    -------
    AnchorPath

    See Also
    --------
    anchortm.selection.AnchorPath : the fits, as a table or a plot
    anchortm.leave_one_environment_out : how well each xi predicts left-out environments

    Examples
    --------
    >>> import numpy as np, anchortm as atm
    >>> rng = np.random.default_rng(0)
    >>> site = rng.integers(0, 4, 200)
    >>> X = rng.normal(size=(200, 1)) + site[:, None]
    >>> y = X[:, 0] - site + rng.normal(size=200)
    >>> path = atm.anchor_path(atm.NormalLinear(), X, y, site, [0, 1, 10])
    >>> path
    AnchorPath(NormalLinear, 3 values of xi, 3 converged)

    By a formula:

    >>> data = atm.datasets.load_wine()
    >>> path = atm.anchor_path(atm.OrdinalRegression(), "rating ~ temp + contact | judge", data, xis=[0, 10])
    >>> path.models[1].predict(data[:3])
    array([2, 2, 3])
    """
    check_model(model, "path")
    values = np.array(several_xi(xis))
    spec = model.specification()
    for xi in values:
        spec.at(xi=float(xi)).check_xi()
    asked = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset)
    with Task("path", None if asked.batched else 1, progress):
        rows, problem = asked.prepared()
        if problem.data.anchors is None and values.any():
            raise InputError(
                "a path in xi needs anchors: pass them after y, or name them after '|' in a formula (y ~ x | place)"
            )
        models = _models(rows, problem, values.tolist())
    shown = slice(0) if getattr(model, "learner", None) == "tree" else slice(None)  # trees have no coefficients
    effects = [m.new_rows_.result.effects for m in models]
    return AnchorPath(
        values,
        np.array([coefs[shown] for _, coefs in effects]).reshape(values.size, -1),
        np.array([m.baseline_ for m in models]),
        tuple(effects[0][0][shown]),
        tuple(models),
        rows.n_passes(problem),
        models[0].n_missing_,
    )


def _models(rows: Given, problem: Problem, xis: list[float]) -> list[Any]:
    """Return the fitted model at each xi."""
    if isinstance(rows.model, TransformationModel):
        found = [(problem.at(xi=xi), result) for xi, result in zip(xis, problem.path(xis), strict=True)]
        return [
            rows.reading(rows.model.with_result(own, remarked(own, result), xi=own.spec.xi), own)
            for own, result in found
        ]
    more = {"anchors": rows.anchors, "sample_weight": rows.sample_weight, "offset": rows.offset}
    fits = []
    with rows.screened(), Task("boosting at each xi", len(xis)) as task:
        for xi in xis:
            fits.append(clone(rows.model).set_params(xi=xi).fit(rows.X, rows.y, **more))
            task.step()
    return [rows.reading(fit, problem) for fit in fits]


def xi_from_gamma(gamma: float) -> float:
    """Return xi = (gamma - 1) / 2, the penalty strength of this package.

    Parameters
    ----------
    gamma : float
        Penalty strength of linear anchor regression, at least 0.

    Returns
    -------
    float

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.xi_from_gamma(13.0)
    6.0
    """
    if not one_number(gamma, "gamma") >= 0.0:
        raise InputError(f"gamma must be at least 0, not {gamma}")
    return (gamma - 1.0) / 2.0


def gamma_from_xi(xi: float) -> float:
    """Return gamma = 2 xi + 1, the penalty strength of linear anchor regression.

    Parameters
    ----------
    xi : float
        Penalty strength of this package, at least -1/2.

    Returns
    -------
    float

    Examples
    --------
    >>> import anchortm as atm
    >>> atm.gamma_from_xi(6.0)
    13.0
    """
    if not one_number(xi, "xi") >= -0.5:
        raise InputError(f"xi must be at least -1/2, not {xi}")
    return 2.0 * xi + 1.0


def gamma_from_quantile(alpha: float) -> float:
    """Return the gamma for which the anchor risk is the alpha quantile of the risk over Gaussian anchors.

    It is the alpha quantile of the chi-square distribution with one degree of freedom (Rothenhaeusler et al., 2021,
    Lemma 1).

    Parameters
    ----------
    alpha : float
        Probability, from 0 to below 1.

    Returns
    -------
    float

    Examples
    --------
    >>> import anchortm as atm
    >>> round(atm.gamma_from_quantile(0.99185), 2)
    7.0
    """
    if not 0.0 <= one_number(alpha, "alpha") < 1.0:
        raise InputError(f"alpha must be in [0, 1), not {alpha}")
    return float(stats.chi2.ppf(alpha, 1))
