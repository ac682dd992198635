"""How sure the parameters are: covariance matrices from the Hessian, the sandwich and the bootstrap.

The sandwich uses the influence of each row on the estimate, the penalty's included. With q_i the
row of an orthonormal basis of the anchors, t = sum_i q_i r_i and E = dt/dv, row i adds

    psi_i = -dl_i + 2 xi [ (q_i't) dr_i + E'q_i (r_i - q_i't) ]

to n times the gradient of the loss: its own residual, and what it does to A'r, A'J and A'A. Then
v_i = -(n Hessian)^-1 psi_i. At xi = inf the estimate solves "least -loglik under t = 0", and the
influence solves the linear system of its Lagrangian. Where another parameter was estimated before and is held (alpha
of the negative binomial), rows act through it too: their influence on it, times what it does to these equations.
Increments of the baseline that are held at
their bound count as known there; the bootstrap refits, and lets them move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as la
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from tqdm import tqdm

from anchortm._messages import shown, warn
from anchortm._util.checks import generator, jobs, level_between, real_numbers, whole_number
from anchortm._util.frames import aligned
from anchortm._util.threads import one_blas_thread
from anchortm.backends.streamed import Stream
from anchortm.engine.objective.plain import Objective
from anchortm.engine.problem import Data
from anchortm.engine.rows.block_sums import Influence
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.solve.continuation import solve_near
from anchortm.engine.solve.newton import Options
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError
from anchortm.inputs.anchors import groups_of
from anchortm.inputs.splines import smooth_terms

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Bootstrap",
    "at_row",
    "bootstrap",
    "coefficient_intervals",
    "covariance",
    "default_kind",
    "influence",
    "resolve",
    "smooth_effects",
    "standard_errors",
    "varying_effects",
]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

FLAT_CURVATURE = 1e-8  # in standardised parameters
NOT_AT_HAND = (
    "this needs the rows of the fit, which a pickled or saved model does not carry: fit again, "
    "or ask for standard errors before saving"
)
KINDS = ("hessian", "sandwich", "bootstrap")
MAX_RIDGE = 2000  # coefficients whose covariance is a matrix
FEW_CLUSTERS = 10
MOST_FAILURES = 0.1  # share of replicates that may fail before the bootstrap is refused


def covariance(model: Any, kind: str | None, clusters: Any, **options: Any) -> Array:
    """Return the covariance matrix of (baseline, coef) of a fitted model; see ``TransformationModel.covariance``."""
    kind = default_kind(model, clusters) if kind is None else kind
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    unknown = sorted(set(options) - {"n_bootstrap", "random_state", "n_jobs", "progress"})
    if unknown:
        raise InputError(
            f"unknown arguments: {', '.join(unknown)}; there are kind, clusters and those of the bootstrap"
        )
    if kind == "bootstrap":
        return bootstrap(model, clusters=clusters, **options).covariance()
    if options:
        raise InputError(f"{', '.join(options)}: only with kind='bootstrap'")
    _check_net(model)
    _strict(model)
    if kind == "hessian":
        return _inverse_hessian(model, clusters)
    if clusters is None and model._sandwich is not None:
        return np.array(model._sandwich)
    data = _data(model)
    streamed = isinstance(data, Stream)
    if streamed and clusters is not None:
        raise InputError("clusters need the rows in memory, and these were read in batches: rows count as independent")
    groups = None if clusters is None else _codes(clusters, data)
    units = (
        None
        if streamed or groups is not None or data.clusters is None
        else np.unique(data.clusters.codes, return_inverse=True)[1]
    )
    if groups is None and model.n_total_ < 2.0:
        raise InputError(
            f"the weights add up to {model.n_total_:g}, and weights replicate rows: fewer than two rows have no "
            "standard errors; multiply the weights by the number of rows"
        )
    if groups is not None:
        _few(int(groups.max()) + 1)
    if units is not None:
        _few(int(units.max()) + 1, "")
    if streamed:
        objective, work, _ = _work(model, data)
        with model._threads(objective):
            result = objective.blocks.total(work)[1][0]
        count = model.n_total_
    else:
        shares = np.vstack(list(_sums(model, data, groups, units)))
        result = np.asarray(shares.T @ shares)
        count = shares.shape[0] if groups is not None else model.n_total_
        if units is not None:
            count = float(np.sum((1.0 if data.weights is None else data.weights) / np.bincount(units)[units]))
    result *= count / (count - 1.0)
    if clusters is None:
        model._sandwich = result
    return np.array(result)


def default_kind(model: Any, clusters: Any) -> str:
    """Return how standard errors are computed where nothing is asked for."""
    likeliest = model.xi_ == 0.0 and getattr(model, "xi_scale_", 0.0) == 0.0 and not model._ridged
    return "hessian" if likeliest and clusters is None else "sandwich"


def _check_net(model: Any) -> None:
    if model.l1_:
        raise InputError(
            "coefficients chosen by l1 have no standard errors but those of the bootstrap: ask for 'bootstrap'; "
            "or fit again without l1, to other rows with the covariates that are not zero"
        )
    if model._ridged and model.coef_.size > MAX_RIDGE:
        raise InputError(f"no covariance of {model.coef_.size} coefficients, more than {MAX_RIDGE}: use bootstrap()")


def _strict(model: Any) -> None:
    if not (model.converged_ and model.min_eigenvalue_ > FLAT_CURVATURE):
        raise InputError("no standard errors: the fit has not converged to a strict optimum")


def _few(clusters: int, hint: str = "; clusters=np.arange(n) takes rows as independent") -> None:
    if clusters < FEW_CLUSTERS:
        warn(
            f"{clusters} clusters: fewer than {FEW_CLUSTERS} say little about how clusters differ, and standard errors "
            f"come out too small{hint}",
            AnchorTMWarning,
        )


def _inverse_hessian(model: Any, clusters: Any, held: bool = False) -> Array:
    """Return the inverse information; increments held at their bound count as known if ``held``, as R does not."""
    if not model._unpenalised:
        raise InputError(
            "the Hessian gives standard errors at xi = 0 only, and without l2 or smooth: under a penalty it is not the "
            "information; use kind='sandwich' or 'bootstrap'"
        )
    if clusters is not None:
        raise InputError("the Hessian takes rows as independent; with clusters use kind='sandwich' or 'bootstrap'")
    if model._information is None:
        raise InputError(NOT_AT_HAND)
    free = ~(model._fixed | (model.active_ if held else False))
    if model._random is not None:  # without a variance between clusters the model is the one without
        free[-model._extra.size :] &= ~model.active_[-model._extra.size :]
    information, jacobian = model._information, model._jacobian
    if isinstance(information, Arrow):
        jacobian = information.coordinates.jacobian
        information = information.toarray()
    J = jacobian[:, free]
    try:
        return np.asarray(J @ np.linalg.solve(information[np.ix_(free, free)], J.T))
    except np.linalg.LinAlgError:
        raise InputError("no standard errors: the information is singular") from None


def standard_errors(model: Any, kind: str | None, clusters: Any, **options: Any) -> Array:
    """Return the standard errors of the coefficients; with a wide factor at xi = 0 without their covariances."""
    k = model.baseline_.size
    if isinstance(model._information, Arrow) and model.xi_ == 0.0 and clusters is None and kind in (None, "hessian"):
        if options:
            raise InputError(f"{', '.join(options)}: only with kind='bootstrap'")
        _strict(model)
        return np.sqrt(model._information.variances(~model._fixed)[k:])
    variances = np.diag(covariance(model, kind, clusters, **options))[k : k + model._others.size - model._extra.size]
    if not (variances >= 0.0).all():
        raise InputError("no standard errors: the covariance is not positive definite")
    return np.sqrt(variances)


def _data(model: Any) -> Any:
    if model._data is None:
        raise InputError(NOT_AT_HAND)
    if not np.array_equal(model._data.fingerprint(), model._fingerprint):
        raise InputError("X has been changed in place since the fit, so the influence of its rows is lost: fit again")
    return model._data


def _rows(model: Any) -> Any:
    data = _data(model)
    if isinstance(data, Stream):
        raise InputError("this needs the rows in memory, and these were read in batches: use kind='sandwich'")
    return data


def _codes(clusters: Any, data: Any) -> Codes:
    """Return the cluster of each row of the fit, numbered from 0."""
    aligned(X=data, clusters=clusters)
    codes, _ = groups_of(clusters, "clusters")
    if data.kept is not None and codes.size == data.kept.size:
        codes = codes[data.kept]
    if codes.size != len(data.response):
        raise InputError(f"clusters has {codes.size} rows, but the fit had {len(data.response)}")
    found, codes = np.unique(codes, return_inverse=True)
    if found.size < 2:
        raise InputError("there is a single cluster: nothing is known of how clusters differ")
    if data.clusters is not None:
        data.clusters.check_whole(codes, "clusters")
    return codes


def influence(model: Any) -> Array:
    """Return the influence of each row of the fit on (baseline, coef): their derivative in the row's weight."""
    data = _rows(model)
    shares = np.vstack([block for _, block in _influence(model, data)])
    order = None if data.anchors is None else data.anchors.order()
    if order is None:
        return shares
    result = np.empty_like(shares)
    result[order] = shares
    return result


def _sums(model: Any, data: Any, groups: Codes | None, units: Codes | None) -> Iterator[Array]:
    """Yield matrices whose Gram matrices add up to the covariance.

    They are of rows times root weight, or of sums over groups. Clusters with random effects are ``units`` as rows are
    without: their weights are copies too.
    """
    copies = groups is None and units is not None
    groups = units if groups is None else groups
    order = None if data.anchors is None else data.anchors.order()
    weights = data.weights if data.weights is None or order is None else data.weights[order]
    totals = None if groups is None else np.zeros((int(groups.max()) + 1, model.baseline_.size + model._others.size))
    for rows, shares in _influence(model, data):
        w = 1.0 if weights is None else weights[rows][:, None]
        if groups is None or totals is None:
            yield la.qr(np.sqrt(w) * shares, mode="r")[0][: shares.shape[1]]  # the Gram matrix in its root
        else:
            np.add.at(
                totals, (groups if order is None else groups[order])[rows], (np.sqrt(w) if copies else w) * shares
            )
    if totals is not None:
        yield totals


def _influence(model: Any, data: Any) -> Iterator[tuple[slice, Array]]:
    """Yield the influence on (baseline, coef) for blocks of rows, in the order of the objective."""
    objective, work, more = _work(model, data)
    with model._threads(objective):
        for rows, shares in objective.shares(work):
            yield rows, -shares if more is None else -shares - more[rows]


def _work(model: Any, data: Any) -> tuple[Objective, Influence, Array | None]:
    """Return the objective of the fit, and the work that gives the influence of rows (but for its sign).

    The last is what rows add through a parameter that was estimated before and held, None if there was none.
    """
    if isinstance(data, Data):
        data = data.without_wide()
    objective: Objective = model._objective(model.link_, model.basis_, data)
    coordinates = objective.coordinates
    v = coordinates.join(model.baseline_, model._others)
    free = coordinates.lower < coordinates.upper
    free[: coordinates.n_baseline] &= ~model.active_[: coordinates.n_baseline]
    if model._random is not None:  # a variance of nothing counts as known
        free[-model._extra.size :] &= ~model.active_[-model._extra.size :]
    objective, xi = objective.ray(model.xi_)
    with model._threads(objective):
        pull, bread, K = _lagrangian(objective, v, xi, free)
        J = coordinates.jacobian_at(v).T
        before = model._estimated_before(data, objective, v, pull)
        more = None if before is None else np.outer(before[0], (before[1] @ bread + before[2] @ K) @ J)
        return objective, objective.influence(v, pull, bread @ J, K @ J), more


def _lagrangian(objective: Objective, v: Array, xi: float, free: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Return the multiplier of t, the inverse Hessian (0 where not free) and the weight of q_i (r_i - q_i't)."""
    d = v.size
    t = objective.sums(v).t
    bread = np.zeros((d, d))
    inside = np.ix_(free, free)
    if math.isfinite(xi):
        # at -1/2 with the constant among the anchors the intercept is the limit from above
        xi = max(xi, -0.5 + 1e-6)
        pull = 2.0 * xi * t
        at = objective.derivatives(v, pull if xi != 0.0 else None)
        bread[inside] = np.linalg.inv((at.hessian + 2.0 * xi * (at.E.T @ at.E))[inside])
        return pull, bread, 2.0 * xi * at.E @ bread
    at = objective.derivatives(v)
    E = at.E[:, free]
    pull = np.asarray(np.linalg.lstsq(E.T, -at.gradient[free], rcond=1e-10)[0], dtype=np.float64)
    H = objective.derivatives(v, pull).hessian[inside]
    Z = la.null_space(E, rcond=1e-10)
    inner = Z @ np.linalg.solve(Z.T @ H @ Z, Z.T) if Z.size else np.zeros_like(H)
    bread[inside] = inner
    K = np.zeros((t.size, d))
    K[:, free] = ((np.eye(H.shape[0]) - inner @ H) @ np.linalg.pinv(E, rcond=1e-10)).T
    return pull, bread, K


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Fits to resampled rows: one row of ``draws`` for each, baseline first, then coefficients.

    Attributes
    ----------
    draws : array of shape (number of fits, number of parameters)
    estimate : array
        The parameters of the fit itself.
    names : tuple of str
        Of the parameters.
    resampled : str
        What was resampled: rows, clusters or environments.
    failed : int
        Number of fits that failed and are left out.

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

    def covariance(self) -> Array:
        """Return the covariance matrix of the draws."""
        return np.atleast_2d(np.cov(self.draws, rowvar=False))

    def frame(self, level: float = 0.95) -> pd.DataFrame:
        """Return estimate, standard error and percentile interval of each parameter."""
        import pandas as pd

        tails = 0.5 + np.array([-0.5, 0.5]) * level_between(level)
        lower, upper = np.quantile(self.draws, tails, axis=0)
        columns = {"estimate": self.estimate, "std. error": self.draws.std(axis=0, ddof=1)}
        return pd.DataFrame(columns | {"lower": lower, "upper": upper}, index=pd.Index(self.names, name="parameter"))

    @shown
    def __repr__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"Bootstrap({len(self.draws)} fits, {self.resampled} resampled{failed})\n{self.frame().to_string()}"


def bootstrap(
    model: Any,
    n_bootstrap: int = 200,
    clusters: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Bootstrap:
    """Return fits of the model to resampled clusters; see ``TransformationModel.bootstrap``."""
    data = _rows(model)
    n_bootstrap, n_jobs = whole_number(n_bootstrap, "n_bootstrap", 2), jobs(n_jobs)
    anchors = data.anchors
    if clusters is not None:
        groups, what = _codes(clusters, data), "clusters"
    elif data.clusters is not None and not _nested(data):
        groups = np.unique(data.clusters.codes, return_inverse=True)[1]
        what = f"clusters ({data.clusters.effects.cluster})"
    elif anchors is not None and anchors.main is not None and anchors.levels[anchors.main].size > 1:
        groups, what = anchors.factors[anchors.main], f"environments ({anchors.factor_names[anchors.main]})"
    else:
        groups, what = None, "rows"
    if groups is not None:
        _few(int(groups.max()) + 1)
    elif round(model.n_total_) < 2:
        raise InputError(f"the weights add up to {model.n_total_:g}: there are no rows to resample")
    rng = generator(random_state)
    samples = (_resampled_weights(rng, groups, data) for _ in range(n_bootstrap))
    shown = tqdm(samples, total=n_bootstrap, desc="bootstrap", disable=None if progress is None else not progress)
    with one_blas_thread():  # many small fits
        found = Parallel(n_jobs=n_jobs)(delayed(_refit)(model, data, weights) for weights in shown)
    draws = np.array([draw for draw in found if draw is not None])
    failed = n_bootstrap - len(draws)
    if failed > MOST_FAILURES * n_bootstrap:
        raise IdentificationError(
            f"{failed} of {n_bootstrap} resampled data sets do not determine the model (a class or a covariate's "
            "values lost, or no strict optimum): resample smaller clusters, merge classes, or lower the order"
        )
    if failed:
        warn(f"{failed} of {n_bootstrap} resampled fits failed and are left out", AnchorTMWarning)
    names = (*model.parameter_names_, *model._other_names)
    return Bootstrap(draws, np.concatenate([model.baseline_, model._others]), names, what, failed)


def _nested(data: Any) -> bool:
    """Return whether clusters with random effects lie in environments, which can be resampled then."""
    anchors = data.anchors
    if anchors is None or anchors.main is None or anchors.levels[anchors.main].size < 2:
        return False
    return bool(data.clusters.within(anchors.factors[anchors.main]))


def _resampled_weights(rng: np.random.Generator, groups: Codes | None, data: Any) -> Array:
    """Return how often each row is drawn: whole groups with replacement, or as many rows as there are."""
    n = len(data.response)
    own = np.ones(n) if data.weights is None else data.weights
    if groups is None:
        return rng.multinomial(round(float(own.sum())), own / own.sum()).astype(np.float64)
    size = int(groups.max()) + 1
    return np.asarray(own * rng.multinomial(size, np.full(size, 1.0 / size))[groups])


def _refit(model: Any, data: Any, weights: Array) -> Array | None:
    """Return (baseline, coef) of the fit with these weights on the basis of the full fit, or None if there is none."""
    keep = weights > 0.0
    part = data.subset(keep)._replace(weights=weights[keep])
    if part.dropped:
        return None
    options = Options(tol=model.tol, max_iter=model.max_iter)
    try:
        objective = model._objective(model._link_to_refit, model.basis_, part)
        cold = objective.coordinates.join(model.baseline_, model._others)
        solution = solve_near(objective, model.baseline_, model._others, cold, model.xi_, options)
    except (IdentificationError, ArithmeticError, np.linalg.LinAlgError):
        return None
    if not (solution.converged and solution.min_eigenvalue > FLAT_CURVATURE):
        return None
    return np.concatenate(objective.coordinates.split(solution.v))


def resolve(model: Any, uncertainty: Any) -> Array | Bootstrap:
    """Return a covariance or a bootstrap of the model's parameters from its name, or checked as it is."""
    if uncertainty is None and default_kind(model, None) == "hessian":
        _check_net(model)
        _strict(model)
        return _inverse_hessian(model, None, held=True)
    if uncertainty is None or isinstance(uncertainty, str):
        return bootstrap(model) if uncertainty == "bootstrap" else covariance(model, uncertainty, None)
    d = model.baseline_.size + model._others.size
    if isinstance(uncertainty, Bootstrap):
        if uncertainty.draws.shape[1] != d:
            raise InputError(f"the bootstrap is of {uncertainty.draws.shape[1]} parameters, and the model has {d}")
        return uncertainty
    matrix = np.asarray(uncertainty, dtype=np.float64)
    if matrix.shape != (d, d):
        raise InputError(
            f"the covariance has shape {matrix.shape}, and the model has {d} parameters, baseline first: "
            "pass what covariance() returns"
        )
    return matrix


def at_row(uncertainty: Array | Bootstrap, theta: Array, z: Array, g: Array) -> Array | Bootstrap:
    """Return what is known of (exp(z'g / 2) theta, beta) from the same of (theta, beta, g)."""
    k, p = theta.size, -g.size
    if isinstance(uncertainty, Bootstrap):
        draws = uncertainty.draws[:, :p].copy()
        draws[:, :k] *= np.exp(0.5 * (uncertainty.draws[:, p:] @ z))[:, None]
        return replace(uncertainty, draws=draws)
    s = math.exp(0.5 * float(z @ g))
    J = np.eye(uncertainty.shape[0])[:p]
    J[:k, :k] *= s
    J[:k, p:] = np.outer(s * theta, 0.5 * z)
    return np.asarray(J @ uncertainty @ J.T)


def coefficient_intervals(model: Any, level: float, kind: str | None, clusters: Any, **options: Any) -> pd.DataFrame:
    """Return coefficients with standard errors and normal intervals; see ``TransformationModel.intervals``."""
    import pandas as pd

    errors = standard_errors(model, kind, clusters, **options)
    width = stats.norm.ppf(0.5 + 0.5 * level_between(level)) * errors
    coef = model._others[: errors.size]  # variances of random effects are not normal, and have no such intervals
    table = {"coef": coef, "std. error": errors, "lower": coef - width, "upper": coef + width}
    return pd.DataFrame(table, index=pd.Index(model._other_names[: errors.size], name="covariate"))


def varying_effects(model: Any, at: Any, level: float, kind: str | None, clusters: Any, **options: Any) -> pd.DataFrame:
    """Return effects along the response with pointwise intervals; see ``TransformationModel.varying_effects``."""
    import pandas as pd

    ordinal = model.basis_.kind == "ordinal"
    points = np.atleast_1d(np.asarray(at, dtype=object) if ordinal else real_numbers(at, "at"))
    if points.ndim != 1 or (not ordinal and not np.isfinite(points).all()):
        raise InputError("at must be an outcome or a vector of outcomes")
    codes = points
    if ordinal:
        known = {label: k for k, label in enumerate(model.basis_.levels[:-1])}
        unknown = [point for point in points if point not in known]
        if unknown:
            raise InputError(f"{unknown[0]!r} is none of the classes {list(known)}; the last has no threshold")
        codes = np.array([known[point] for point in points])
    a = model.basis_.rows(codes.astype(np.float64))
    V = covariance(model, kind, clusters, **options)
    width = stats.norm.ppf(0.5 + 0.5 * level_between(level))
    K, first = a.shape[1], model._corners.n_baselines
    tables = []
    for j, name in enumerate(model._corners.varying_names, start=first):
        block = slice(j * K, (j + 1) * K)
        effect = a @ model.baseline_[block]
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", a, V[block, block], a), 0.0))
        columns = {"covariate": name, "y": points, "effect": effect, "std. error": error}
        tables.append(pd.DataFrame(columns | {"lower": effect - width * error, "upper": effect + width * error}))
    return pd.concat(tables, ignore_index=True)


def smooth_effects(
    model: Any, term: str | None, at: Any, level: float, kind: str | None, clusters: Any, **options: Any
) -> pd.DataFrame:
    """Return the curves of smooth terms with pointwise intervals; see ``TransformationModel.smooth_effects``."""
    import pandas as pd

    terms = smooth_terms(model._marks)
    if not terms:
        raise InputError("there are no smooth terms: write s(x) in the formula")
    if not hasattr(model, "formula_"):
        raise InputError("the model was fitted to columns, whose curves it does not know: use from_formula")
    if term is not None:
        names = [name for own in model.formula_.columns_of(term) for name in own]
        terms = {name: places for name, places in terms.items() if set(names) & {model.coef_names_[j] for j in places}}
        if not terms:
            raise InputError(
                f"{term} is not a smooth term of this model, which has {', '.join(smooth_terms(model._marks))}"
            )
    if at is not None and len(terms) > 1:
        raise InputError(f"at is for one term: name one of {', '.join(terms)}")
    V = covariance(model, kind, clusters, **options)[model.baseline_.size :, model.baseline_.size :]
    width = stats.norm.ppf(0.5 + 0.5 * level_between(level))
    tables = []
    for name, places in terms.items():
        x, columns = model.formula_.smooth_columns(name, at)
        effect = columns @ model.coef_[places]
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", columns, V[np.ix_(places, places)], columns), 0.0))
        table = {"term": name, "x": x, "effect": effect, "std. error": error}
        tables.append(pd.DataFrame(table | {"lower": effect - width * error, "upper": effect + width * error}))
    return pd.concat(tables, ignore_index=True)
