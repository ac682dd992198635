"""Covariance matrices of the parameters, from the Hessian and the sandwich.

The sandwich uses the influence of each row on the estimate, including the penalty. Let q_i be row i of an orthonormal
basis of the anchors, t = sum_i q_i r_i and E = dt/dv. Row i adds

    psi_i = -dl_i + 2 xi [ (q_i't) dr_i + E'q_i (r_i - q_i't) ]

to n times the gradient of the loss: by its own residual, and through A'r, A'J and A'A. Its influence is
v_i = -(n Hessian)^-1 psi_i. At xi = inf the estimate minimises -loglik subject to t = 0, and the influence solves the
linear system of the Lagrangian. If another parameter was estimated first and then held fixed (alpha of the negative
binomial), a row also acts through it: its influence on that parameter, times the derivative of these equations.
Increments of the baseline at their bound are treated as known; the bootstrap refits them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy import stats

from anchortm._messages import warn
from anchortm._util.checks import level_between
from anchortm._util.frames import aligned
from anchortm.engine.data import Data
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.problem import Problem
from anchortm.engine.recalibration.baseline import keep_curvature
from anchortm.engine.records import MAX_COVARIANCE
from anchortm.engine.result import FitResult
from anchortm.engine.rows.block_sums import Influence
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError, InputTypeError
from anchortm.inference.environment_shares import check_shares, reweighed_shares
from anchortm.inputs import parts
from anchortm.inputs.anchors import groups_of
from anchortm.inputs.missing import rows_taken
from anchortm.predict.fitted import NOT_AT_HAND, Fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KINDS",
    "check_net",
    "check_strict",
    "check_total",
    "cluster_codes",
    "coefficient_intervals",
    "covariance",
    "default_kind",
    "few_clusters",
    "influence",
    "inverse_hessian",
    "keep_standard_errors",
    "rows_in_memory",
    "standard_errors",
]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

KINDS = ("hessian", "sandwich", "bootstrap")
MAX_RIDGE = 2000  # largest number of penalised coefficients with a covariance matrix
FEW_CLUSTERS = 10


def covariance(model: Fitted, kind: str | None = None, clusters: Any = None) -> Array:
    """Return the covariance matrix of (baseline, coef) of a fitted model, from the Hessian or the sandwich."""
    result = model.result_
    kind = default_kind(result, clusters) if kind is None else kind
    check_net(result)
    check_strict(result)
    if kind == "hessian":
        return inverse_hessian(result, clusters)
    if clusters is None and result.computed.get("sandwich") is not None:
        return np.array(result.computed["sandwich"])
    problem = model.problem_
    if problem.data.in_memory:
        matrix, count = _of_rows(problem, result, clusters)
    else:
        matrix, count = _of_batches(problem, result, clusters)
    matrix *= count / (count - 1.0)
    if clusters is None:
        result.computed["sandwich"] = matrix
    return np.array(matrix)


def keep_standard_errors(model: Fitted) -> None:
    """Compute the sandwich if it is the default, so that pickles and files keep standard errors without the rows.

    They also keep the curvature of the baseline, which a recalibration may need.
    """
    result = model.result_
    if model.has_rows_ and result.parameters.size <= MAX_COVARIANCE:
        with suppress(AnchorTMError, np.linalg.LinAlgError):
            keep_curvature(model.problem_, result)
    known = default_kind(result, None) != "sandwich" or result.computed.get("sandwich") is not None
    if known or result.parameters.size > MAX_COVARIANCE or not model.has_rows_:
        return
    # there are no standard errors without a strict minimum, or if X has been changed since the fit
    with suppress(AnchorTMError, np.linalg.LinAlgError), warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)  # those who ask for standard errors were or will be warned
        if model.problem_.data.in_memory:
            covariance(model, "sandwich")


def _of_rows(problem: Problem, result: FitResult, clusters: Any) -> tuple[Array, float]:
    """Return the sum of outer products of the influences of rows or clusters, and the number of these."""
    data = problem.data
    groups = None if clusters is None else cluster_codes(clusters, data)
    units = None
    if groups is None and data.clusters is not None:
        units = np.unique(data.clusters.codes, return_inverse=True)[1]
    if groups is None:
        check_total(result)
    else:
        few_clusters(int(groups.max()) + 1)
    if units is not None and data.clusters is not None:
        if not units.any():
            raise InputError(
                f"{data.clusters.effects.cluster} connect all rows, so there are no independent groups for a sandwich: "
                "use kind='hessian' at xi = 0"
            )
        few_clusters(int(units.max()) + 1, "")
    shares = np.vstack(list(_sums(problem, result, groups, units)))
    count = float(shares.shape[0]) if groups is not None else result.n_total
    if units is not None:
        count = float(np.sum((1.0 if data.weights is None else data.weights) / np.bincount(units)[units]))
    return np.asarray(shares.T @ shares), count


def _of_batches(problem: Problem, result: FitResult, clusters: Any) -> tuple[Array, float]:
    """Return the same as ``_of_rows`` for rows that are read in batches."""
    if clusters is not None:
        raise InputError(
            "clusters need the rows in memory, but these were read in batches: leave clusters out to treat rows as "
            "independent"
        )
    check_total(result)
    if problem.data.weighting is not None:
        check_shares(problem, result)
    objective, work, _ = _work(problem, result, problem.data.without_wide())
    with problem.threads(objective):
        return objective.influence_gram(work), objective.n_units


def check_total(result: FitResult) -> None:
    """Raise an error if the weights add up to fewer than two rows."""
    if result.n_total < 2.0:
        raise InputError(
            f"the weights add up to {result.n_total:g} rows, too few for standard errors: multiply the weights by the "
            "number of rows"
        )


def default_kind(result: FitResult, clusters: Any) -> str:
    """Return the default kind of standard errors."""
    likeliest = result.strength == 0.0 and (result.scale is None or result.scale.xi == 0.0) and not result.ridged
    likeliest = likeliest and not result.kinked and not result.reweighed
    return "hessian" if likeliest and clusters is None else "sandwich"


def check_net(result: FitResult) -> None:
    """Raise an error if the penalised coefficients do not have a covariance matrix."""
    if result.l1:
        parts.refuse("sandwich", "l1")
    if result.kinked and result.decisive is not None:
        parts.refuse("sandwich", "tail" if result.decisive.risk == "tail" else "worst")
    if result.ridged and result.coef.size > MAX_RIDGE:
        raise InputError(
            f"{result.coef.size} penalised coefficients are too many for a covariance matrix (at most {MAX_RIDGE}): "
            "use bootstrap()"
        )


def check_strict(result: FitResult) -> None:
    """Raise an error if the fit did not converge to a strict minimum."""
    if not result.strict:
        raise InputError(
            "no standard errors: the fit has not converged to a strict optimum; see converged_ and min_eigenvalue_"
        )


def few_clusters(clusters: int, hint: str = "; clusters=np.arange(n) treats rows as independent") -> None:
    """Warn if there are few clusters."""
    if clusters < FEW_CLUSTERS:
        warn(
            f"{clusters} clusters: with fewer than {FEW_CLUSTERS}, standard errors tend to be too small{hint}",
            AnchorTMWarning,
        )


def inverse_hessian(result: FitResult, clusters: Any = None, held: bool = False) -> Array:
    """Return the inverse information; if ``held``, increments at their bound are treated as known (R does not)."""
    if not result.unpenalised:
        raise InputError(
            "kind='hessian' needs xi = 0, and a fit without l2, smooth or target: a penalised Hessian is not the "
            "information: use kind='sandwich' or 'bootstrap'"
        )
    if result.reweighed:
        raise InputError(
            "kind='hessian' needs environment_weights='rows', because a likelihood that weighs environments does not "
            "have the inverse Hessian as its covariance: use kind='sandwich' or 'bootstrap'"
        )
    if clusters is not None:
        raise InputError("kind='hessian' treats rows as independent: with clusters use kind='sandwich' or 'bootstrap'")
    if result.information is None or result.fixed is None:
        raise InputError(NOT_AT_HAND)
    free = ~(result.fixed | (result.active if held else False))
    if result.random is not None:  # a random effect with variance 0 is treated as absent
        free[-result.extra.size :] &= ~result.active[-result.extra.size :]
    information, jacobian = result.information, result.jacobian
    if isinstance(information, Arrow):
        jacobian = information.coordinates.jacobian
        information = information.toarray()
    assert jacobian is not None  # noqa: S101
    J = jacobian[:, free]
    try:
        return np.asarray(J @ np.linalg.solve(information[np.ix_(free, free)], J.T))
    except np.linalg.LinAlgError:
        raise InputError("no standard errors: the information is singular") from None


def standard_errors(model: Fitted, kind: str | None, clusters: Any, matrix: Array | None = None) -> Array:
    """Return the standard errors of the coefficients, from the covariance ``matrix`` if it is given.

    With a factor of many levels at xi = 0 only the variances are computed.
    """
    result = model.result_
    k, information = result.baseline.size, result.information
    alone = isinstance(information, Arrow) and result.xi == 0.0 and clusters is None and kind in (None, "hessian")
    if alone and matrix is None:
        assert result.fixed is not None  # noqa: S101
        check_strict(result)
        return np.asarray(np.sqrt(information.variances(~result.fixed)[k:]))
    matrix = covariance(model, kind, clusters) if matrix is None else matrix
    variances = np.diag(matrix)[k : k + result.others.size - result.extra.size]
    if not (variances >= 0.0).all():
        raise InputError("no standard errors: the covariance is not positive definite")
    return np.sqrt(variances)


def coefficient_intervals(
    model: Fitted, level: float, kind: str | None, clusters: Any, matrix: Array | None = None
) -> pd.DataFrame:
    """Return coefficients with standard errors and normal intervals."""
    import pandas as pd

    errors = standard_errors(model, kind, clusters, matrix)
    width = stats.norm.ppf(0.5 + 0.5 * level_between(level)) * errors
    # variances of random effects are left out: their estimates are not normal
    names, coef = model.result_.effects
    table = {"coef": coef, "std. error": errors, "lower": coef - width, "upper": coef + width}
    return pd.DataFrame(table, index=pd.Index(names, name="covariate"))


def rows_in_memory(model: Fitted) -> Problem:
    """Return the problem of a fit; raise an error if its rows were read in batches."""
    problem = model.problem_
    if not problem.data.in_memory:
        raise InputError("this needs the rows in memory, but these were read in batches: use kind='sandwich'")
    return problem


def cluster_codes(clusters: Any, data: Data) -> Codes:
    """Return the cluster of each row of the fit, numbered from 0."""
    clusters = _factor(clusters, data) if isinstance(clusters, str) else clusters
    aligned(X=data, clusters=clusters)
    codes, _ = groups_of(rows_taken("clusters", clusters, data.n_given, data.rows_used), "clusters")
    if codes.size != len(data.response):
        raise InputError(
            f"clusters has {codes.size} rows, but the fit had {len(data.response)}: pass the cluster of each row"
        )
    found, codes = np.unique(codes, return_inverse=True)
    if found.size < 2:
        raise InputError("there is a single cluster: standard errors by clusters need at least two")
    if data.clusters is not None:
        data.clusters.check_whole(codes, "clusters")
    return codes


def _factor(name: str, data: Data) -> Codes:
    """Return the codes of an anchor by its name; a fit keeps no other columns of a table in memory."""
    anchors = data.anchors
    known = () if anchors is None else anchors.factor_names
    if anchors is None or name not in known:
        of_anchor = f", or the name of an anchor ({', '.join(known)})" if known else ""
        raise InputTypeError(
            f"clusters must be the cluster of each row when rows are in memory{of_anchor}, not {name!r}: pass the "
            f"column, data[{name!r}]"
        )
    return anchors.factors[known.index(name)]


def influence(model: Fitted) -> Array:
    """Return the influence of each row on (baseline, coef): the derivative with respect to the row's weight."""
    problem = rows_in_memory(model)
    shares = np.vstack([block for _, block in _influence(problem, model.result_, None)])
    order = None if problem.data.anchors is None else problem.data.anchors.order()
    if order is None:
        return shares
    result = np.empty_like(shares)
    result[order] = shares
    return result


def _sums(problem: Problem, result: FitResult, groups: Codes | None, units: Codes | None) -> Iterator[Array]:
    """Yield matrices whose Gram matrices add up to the covariance.

    Their rows are influences of rows, times the square root of the weight, or sums over groups. Clusters with random
    effects are ``units``: like rows, they are independent, and a weight of 2 counts a unit twice.
    """
    data = problem.data
    copies = groups is None and units is not None
    groups = units if groups is None else groups
    order = None if data.anchors is None else data.anchors.order()
    weights = data.weights if data.weights is None or order is None else data.weights[order]
    totals = None if groups is None else np.zeros((int(groups.max()) + 1, result.parameters.size))
    for rows, shares in _influence(problem, result, groups):
        w = 1.0 if weights is None else weights[rows][:, None]
        if groups is None or totals is None:
            yield la.qr(np.sqrt(w) * shares, mode="r")[0][: shares.shape[1]]  # the triangular root of the Gram matrix
        else:
            np.add.at(
                totals, (groups if order is None else groups[order])[rows], (np.sqrt(w) if copies else w) * shares
            )
    if totals is not None:
        yield totals


def _influence(problem: Problem, result: FitResult, groups: Codes | None) -> Iterator[tuple[slice, Array]]:
    """Yield the influence on (baseline, coef) for blocks of rows, in the order of the objective.

    ``groups`` are drawn whole, which matters for weights of environments only.
    """
    if problem.data.weighting is not None:
        yield slice(None), _reweighed(problem, result, groups)
        return
    objective, work, more = _work(problem, result, problem.data.without_wide())
    with problem.threads(objective):
        for rows, shares in objective.shares(work):
            yield rows, -shares if more is None else -shares - more[rows]


def _reweighed(problem: Problem, result: FitResult, groups: Codes | None) -> Array:
    """Return the influence of rows, in the order of the objective, if environments have weights."""
    check_shares(problem, result)
    data, found = problem.data.without_wide(), []
    for penalised in (False, True):
        objective, work, more = _work(problem, result, data, penalised)
        with problem.threads(objective):
            own = np.vstack([shares for _, shares in objective.shares(work)])
        found.append(own if more is None else own + more)
    order = None if data.anchors is None else data.anchors.order()
    if order is not None:
        data, groups = _in_order(data, order), None if groups is None else groups[order]
    return -reweighed_shares(data, found[0], found[1] - found[0], groups)


def _in_order(data: Data, order: Codes) -> Data:
    """Return rows in another order; levels of anchors that do not occur stay."""
    anchors = None if data.anchors is None else data.anchors.take(order)
    return data.take(order)._replace(anchors=anchors)


def _work(
    problem: Problem, result: FitResult, data: Any, penalised: bool = True
) -> tuple[Objective, Influence, Array | None]:
    """Return the objective of the fit, the terms of the influence of rows (with the opposite sign), and an addition.

    If not ``penalised``, the terms are those of the likelihood alone, at the same estimate. The addition is the
    influence through a parameter that was estimated first and then held fixed; None without one.
    """
    if result.form:
        parts.refuse("sandwich", result.form)
    objective = problem.make_objective(result.link, data)
    coordinates = objective.coordinates
    v = coordinates.join(result.baseline, result.others)
    free = coordinates.lower < coordinates.upper
    free[: coordinates.n_baseline] &= ~result.active[: coordinates.n_baseline]
    if result.random is not None:  # a variance of 0 is treated as known
        free[-result.extra.size :] &= ~result.active[-result.extra.size :]
    objective, xi = objective.ray(result.xi)
    with problem.threads(objective):
        pull, bread, K = _lagrangian(objective, v, xi, free)
        J = coordinates.jacobian_at(v).T
        before = problem.estimated_before(data, result, objective, v, pull)
        more = None if before is None else np.outer(before[0], (before[1] @ bread + before[2] @ K) @ J)
        if not penalised:
            pull, K = np.zeros_like(pull), np.zeros_like(K)
        return objective, objective.influence(v, pull, bread @ J, K @ J), more


def _lagrangian(objective: Objective, v: Array, xi: float, free: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Return the multiplier of t, the inverse Hessian (0 where not free), and the factor of q_i (r_i - q_i't)."""
    d = v.size
    t = objective.sums(v).t
    bread = np.zeros((d, d))
    inside = np.ix_(free, free)
    if math.isfinite(xi):
        # at xi = -1/2, with a constant among the anchors, the intercept is the limit from above
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
