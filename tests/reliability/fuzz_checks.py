"""What must hold of a fit whatever the data: numbers, minima, certificates, invariances, predictions, refusals."""

from __future__ import annotations

import math
import pickle
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fuzz_cases import Case, log_first
from sklearn.base import clone
from slow_fit import SlowModel

import anchortm as atm
from anchortm.exceptions import (
    AnchorTMWarning,
    ConvergenceWarning,
    IdentificationError,
    OverIdentifiedError,
    SeparationError,
)
from anchortm.inputs.empirical import default_support
from anchortm.inputs.response import as_response

DUAL = {"probit": "probit", "logit": "logit", "cloglog": "loglog", "loglog": "cloglog"}
FLAT = 1e-6  # a curvature below this leaves some direction open


def quiet_fit(case: Case) -> tuple[Any, list[Warning]]:
    """Return the fitted model and the warnings, all of which are the library's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = case.fit()
    for entry in caught:
        assert isinstance(entry.message, AnchorTMWarning), entry.message
    return model, [entry.message for entry in caught]


@dataclass
class Fitted:
    """A fit beside the slow model at its parameters."""

    case: Case
    model: Any
    slow: SlowModel
    x: np.ndarray
    rng: Any
    count: Callable[..., None]

    @property
    def size(self) -> float:
        """Return what the loss is a difference of."""
        penalty = 0.0 if math.isinf(self.model.xi_) else abs(self.model.xi_) * self.model.penalty_
        return 1.0 + abs(self.model.loglik_) / self.model.n_total_ + penalty

    @property
    def firm(self) -> bool:
        """Return whether the data determine all parameters well."""
        return bool(self.model.converged_ and self.model.min_eigenvalue_ > FLAT)


def check_case(case: Case, count: Callable[..., None], invariances: int = 1) -> None:
    """Fit a case and check all that must hold."""
    rng = np.random.default_rng(case.choices["seed"] + 1)
    try:
        model, said = quiet_fit(case)
    except IdentificationError as error:
        check_refusal(case, error, rng)
        count("differential fuzzing", "refused with a checked reason")
        return
    except OverIdentifiedError:
        check_over_identified(case, rng)
        count("differential fuzzing", "refused with a checked reason")
        return
    slow = case.slow(getattr(model, "support_", None))
    fitted = Fitted(case, model, slow, slow.free(model.baseline_, model.coef_), rng, count)
    count("differential fuzzing", "models fitted and checked")
    check_numbers(fitted)
    check_constraints(fitted)
    warned = any(isinstance(message, ConvergenceWarning) for message in said)
    assert warned is not model.converged_
    if model.converged_:
        check_certificate(fitted)
        check_minimum(fitted)
        if case.entry is None and case.exit is None:
            assert slow.recession() is None, "separated rows were fitted"
            check_branch(fitted)
        for _ in range(invariances):
            check_invariance(fitted)
    else:
        count("differential fuzzing", "not converged, and said so")
    check_predictions(fitted)
    if rng.random() < 0.25:
        check_saved(fitted)


def check_numbers(fitted: Fitted) -> None:
    """The loss and its parts are those of the definition, at the same parameters."""
    case, model, slow, x = fitted.case, fitted.model, fitted.slow, fitted.x
    n = model.n_total_
    np.testing.assert_allclose(n, slow.n, rtol=1e-14)
    loglik, r = slow.rows(x)
    noise = 1e-10 + slow.noise(x)  # where truncated rows run away, they are small differences of large numbers
    tol = float(slow.weights @ noise) / n
    xi = 0.0 if math.isinf(model.xi_) else abs(model.xi_)
    root = math.sqrt(float(slow.weights @ r**2) / n)
    off = tol * math.sqrt(n) * (tol * math.sqrt(n) + 2.0 * root)  # of the penalty
    assert abs(model.loglik_ - slow.loglik(x)) <= n * tol * (1.0 + abs(model.loglik_) / n)
    assert abs(model.penalty_ - slow.penalty(x)) <= 1e-9 * model.penalty_ + off
    assert abs(model.loss_ - slow.loss(x)) <= tol * fitted.size + xi * off
    assert model.n_anchors_ == slow.directions.shape[1]
    use = np.ones(len(case.lower), dtype=bool) if case.weights is None else case.weights > 0.0
    X, y, offset = case.X[use], case.y[use], None if case.offset is None else case.offset[use]
    nll, residuals = model.nll(X, y, offset=offset), model.residuals(X, y, offset=offset)
    assert (np.abs(nll + loglik) <= 1e-9 * np.abs(loglik) + noise).all()
    assert (np.abs(residuals - r) <= 1e-9 * np.abs(r) + noise).all(), np.abs(residuals - r) / noise


def check_constraints(fitted: Fitted) -> None:
    """The baseline does not decrease, and has no curvature at the ends where it must not."""
    theta, beta = fitted.slow.parameters(fitted.x)
    small = 1e-9 * (1.0 + np.abs(theta).max())
    np.testing.assert_allclose(fitted.model.baseline_, theta, rtol=0.0, atol=small)
    np.testing.assert_allclose(fitted.model.coef_, beta, rtol=1e-12)
    assert (fitted.x >= fitted.slow.floor - small).all()


def check_certificate(fitted: Fitted) -> None:
    """Converged means stationary within the bounds, and a positive smallest curvature that all curve upwards."""
    model, slow, x = fitted.model, fitted.slow, fitted.x
    J = slow.standard
    g = J.T @ slow.gradient(x)
    parts = np.abs(J.T @ replace(slow, xi=0.0).gradient(x))
    parts = 1.0 + 2.0 * parts + np.abs(g)
    held = x <= slow.floor
    if math.isinf(model.xi_):
        E = slow.jacobian(x) @ J
        t = slow.t(x)
        assert np.linalg.norm(t) / math.sqrt(slow.n) <= 1e-7
        fixed = np.vstack([E, np.eye(x.size)[held]])
        left = g - fixed.T @ np.linalg.lstsq(fixed.T, g, rcond=1e-8)[0]
        assert (np.abs(left) <= 1e-6 * parts).all(), "not stationary"
        return
    held &= g > 0.0
    tol = 1e-7 + 1e-13 * abs(model.xi_)
    if 0.0 > model.xi_ == -0.5:
        tol = 1e-6
    assert (np.abs(g[~held]) <= tol * parts[~held]).all(), f"not stationary: {g}, {held}"
    H = slow.hessian(x, J)[np.ix_(~held, ~held)]
    values = np.linalg.eigvalsh(H) if H.size else np.ones(1)
    error = 1e-6 if (x - 1e-4 * np.diag(J) > slow.floor)[~held].all() else 1e-3  # one-sided differences
    if model.min_eigenvalue_ > 0.0 and model.xi_ != -0.5:
        # its standardised parameters are much like these where rows are exact
        share = 0.3 if (slow.lower == slow.upper).all() else 0.0
        least = share * model.min_eigenvalue_ - error * max(1.0, values[-1])
        assert values[0] >= least, (values, model.min_eigenvalue_)


def multiplier(slow: Any, x: np.ndarray) -> np.ndarray:
    """Return the multiplier of t = 0 at a minimum under this constraint: how much the loss falls for each unit of t."""
    J = slow.standard
    E, held = slow.jacobian(x) @ J, x <= slow.floor
    fixed = np.vstack([E, np.eye(x.size)[held]])
    return np.linalg.lstsq(fixed.T, J.T @ slow.gradient(x), rcond=1e-8)[0][: E.shape[0]]


def check_minimum(fitted: Fitted) -> None:
    """Nothing lower is found: anywhere if the loss is convex, else nearby."""
    model, slow, x, rng, count = fitted.model, fitted.slow, fitted.x, fitted.rng, fitted.count
    here = float(slow.loss(x))
    tol = 1e-8 * fitted.size if fitted.firm else 1e-6 * fitted.size
    T = slow.units(x)
    starts = [x + size * T @ rng.normal(size=x.size) for size in (1e-3, 0.3)]
    if model.convexity_ == "global":
        starts.append(slow.typical_start(rng))
    for start in starts:
        start = np.where(np.isfinite(slow.floor), np.maximum(np.abs(start), slow.floor), start)
        if not np.isfinite(slow.loss(start)):
            continue
        count("differential fuzzing", "slow optimisers started")
        found, loss = slow.minimise(start, 60 if math.isinf(model.xi_) else 200)
        feasible = True
        if math.isinf(model.xi_):  # what the slow optimiser gains by not quite meeting t = 0 is its multiplier times t
            feasible = bool(np.linalg.norm(slow.t(found)) <= 1e-7 * math.sqrt(slow.n))
            loss -= float(multiplier(slow, x) @ (slow.t(found) - slow.t(x)))
        if not (loss < here - tol and feasible):
            continue
        assert model.convexity_ != "global", f"lower by {here - loss:.2g}: {loss} at {found} instead of {x}"
        # another minimum: then this one must still be one
        assert np.linalg.norm(np.linalg.solve(T, found - x)) > 1e-2, f"lower by {here - loss:.2g} nearby"
        count("differential fuzzing", "lower minima found elsewhere of a loss that is not convex")
    if math.isfinite(model.xi_) and fitted.firm:
        for radius in (1e-5, 1e-4, 1e-3):
            near = slow.inside(x[:, None] + radius * T @ rng.normal(size=(x.size, 40)) / math.sqrt(x.size))
            with np.errstate(all="ignore"):
                losses = slow.loss(near)
            assert not (losses < here - tol).any(), f"lower by {here - losses.min():.2g} within {radius}"


def check_branch(fitted: Fitted) -> None:
    """The minimum is the one that small steps from xi = 0 lead to; without truncation there is one minimum there."""
    model, slow, rng = fitted.model, fitted.slow, fitted.rng
    if not (fitted.firm and 0.0 < model.xi_ <= 10.0 and model.convexity_ != "global" and rng.random() < 0.15):
        return
    start = slow.typical_start(rng)
    if model.folds_ or not np.isfinite(slow.loss(start)):
        return
    x = slow.follow(start, 5 + int(10.0 * math.log1p(model.xi_)))
    miss = float(slow.loss(x) - model.loss_)
    assert abs(miss) <= 1e-6 * fitted.size, f"small steps end {miss:.2g} higher"
    fitted.count("differential fuzzing", "branches followed from xi = 0")


# ---------------------------------------------------------------------------------------------- invariances


def reordered(case: Case, rng: Any, model: Any) -> Any:
    return case.subset(rng.permutation(case.lower.size)), lambda b: b, 0.0


def repeated(case: Case, rng: Any, model: Any) -> Any:
    if case.choices["weights"] not in ("whole", "zeros"):
        return None
    rows = np.repeat(np.arange(case.lower.size), case.weights.astype(int))
    return replace(case.subset(rows), weights=None), lambda b: b, 0.0


def left_out(case: Case, rng: Any, model: Any) -> Any:
    if case.choices["weights"] != "zeros":
        return None
    return case.subset(np.flatnonzero(case.weights)), lambda b: b, 0.0


def heavier(case: Case, rng: Any, model: Any) -> Any:
    weights = np.ones(case.lower.size) if case.weights is None else case.weights
    return replace(with_support(case, model), weights=4.0 * weights), lambda b: b, None


def anchors_renamed(case: Case, rng: Any, model: Any) -> Any:
    if case.anchors is None:
        return None
    new = []
    for column in case.anchors:
        if column.dtype.kind == "f":
            scale = float(rng.choice([-0.01, 3.0, 1e6]))
            new.append(column * scale + (float(rng.normal()) * scale if case.choices["anchor_intercept"] else 0.0))
        else:
            codes = np.unique(column, return_inverse=True)[1]
            names = rng.permutation(["x", "yy", "z", "0", "u v"])
            new.append(names[codes] if rng.random() < 0.5 else pd.Categorical(names[codes]).codes * 7 - 3)
    return replace(case, anchors=[np.asarray(column) for column in new[::-1]]), lambda b: b, 0.0


def classes_renamed(case: Case, rng: Any, model: Any) -> Any:
    if case.basis != "ordinal":
        return None
    names = [f"level {k}" for k in range(5)]
    y = pd.Categorical.from_codes(case.upper.astype(int), names, ordered=True)
    return replace(case, y=y), lambda b: b, 0.0


def covariates_moved(case: Case, rng: Any, model: Any) -> Any:
    p = case.X.shape[1]
    if p == 0:
        return None
    T = np.diag(rng.choice([-1e-3, 0.5, 2.0, 1e3], p))
    if rng.random() < 0.5:
        spread = case.X.std(axis=0)
        T = np.linalg.qr(rng.normal(size=(p, p)))[0] / spread[:, None]
    return replace(case, X=case.X @ T + rng.normal(size=p)), lambda b: T @ b, 0.0


def offset_moved(case: Case, rng: Any, model: Any) -> Any:
    p = case.X.shape[1]
    if (
        p == 0 or case.entry is not None or case.exit is not None
    ):  # the start differs: truncated rows may have two minima
        return None
    c = rng.normal(size=p) / case.X.std(axis=0)
    offset = np.zeros(case.lower.size) if case.offset is None else case.offset
    return replace(case, offset=offset + (case.X - case.X.mean(axis=0)) @ c), lambda b: b + c, 0.0


def exact_weight(case: Case) -> float:
    exact = case.lower == case.upper
    return float(exact.sum() if case.weights is None else case.weights[exact].sum())


def with_support(case: Case, model: Any) -> Case:
    if not hasattr(model, "support_"):
        return case
    return replace(case, estimator=clone(case.estimator).set_params(support=model.support_))


def outcome_moved(case: Case, rng: Any, model: Any) -> Any:
    """Scale and, where there is no origin, shift the outcome."""
    if case.basis in ("ordinal", "count"):
        return None
    slope = case.choices["model"] == "ParametricSurvival" and case.choices["dist"] in ("exponential", "rayleigh")
    scale = float(rng.choice([0.01, 2.0, 300.0]))
    times = isinstance(case.y, atm.Response) and case.y.scale == "time"
    origin = times or case.basis == "log-linear" or log_first(case.estimator)
    shift = 0.0 if origin or slope else float(rng.normal()) * scale * 3.0

    def move(values: Any) -> Any:
        return None if values is None else scale * values + shift

    new = replace(case, lower=move(case.lower), upper=move(case.upper), entry=move(case.entry), exit=move(case.exit))
    if times:
        seen = case.lower == case.upper
        y = atm.Surv(np.where(seen, new.upper, new.lower), seen, new.entry)
    elif isinstance(case.y, atm.Response):
        y = atm.Interval(new.lower, new.upper, entry=new.entry, exit=new.exit)
    else:
        y = new.lower
    estimator = clone(case.estimator)
    if getattr(estimator, "support", None) is not None:
        estimator.set_params(support=tuple(float(move(end)) for end in estimator.support))
    return replace(new, y=y, estimator=estimator), lambda b: b, -exact_weight(case) * math.log(scale)


def reflected(case: Case, rng: Any, model: Any) -> Any:
    """Turn the outcome around: left- and right-censored rows change places, and so do the extreme value links."""
    if case.basis != "ordinal" and (case.basis in ("count", "log-linear") or log_first(case.estimator)):
        return None
    arguments = {"xi": case.xi, "anchor_intercept": case.choices["anchor_intercept"], "link": DUAL[case.link]}
    if case.basis == "ordinal":
        top = case.upper.max()
        upper = top - case.upper
        estimator = atm.OrdinalRegression(**arguments)
        offset = None if case.offset is None else -case.offset
        new = replace(case, estimator=estimator, y=upper.astype(int), upper=upper, lower=upper - 1.0, offset=offset)
        return new, lambda b: -b, 0.0
    if case.xi < 0.0:
        return None
    if case.basis == "bernstein":
        low, high = model.support_
        arguments |= {"order": case.choices["order"], "support": (-high, -low)}
        arguments["extrapolate"] = case.choices["extrapolate"]

    def turn(values: Any) -> Any:
        return None if values is None else -values

    lower, upper, entry, exit_ = turn(case.upper), turn(case.lower), turn(case.exit), turn(case.entry)
    y = atm.Interval(lower, upper, entry=entry, exit=exit_)
    estimator = atm.AnchorTM(basis=case.basis, **arguments)
    new = replace(case, estimator=estimator, y=y, lower=lower, upper=upper, entry=entry, exit=exit_)
    side = case.sign  # AnchorTM has h - x'b
    offset = None if case.offset is None else side * case.offset
    return replace(new, sign=-1.0, link=DUAL[case.link], offset=offset), lambda b: side * b, 0.0


INVARIANCES = [
    reordered,
    repeated,
    left_out,
    heavier,
    anchors_renamed,
    classes_renamed,
    covariates_moved,
    offset_moved,
    outcome_moved,
    reflected,
]


def check_invariance(fitted: Fitted) -> None:
    """The same data said in another way give the same fit."""
    case, model, rng = fitted.case, fitted.model, fitted.rng
    if not fitted.firm:
        return
    for j in rng.permutation(len(INVARIANCES)):
        changed = INVARIANCES[j](case, rng, model)
        if changed is not None:
            break
    new, back, shift = changed
    name = INVARIANCES[j].__name__
    other, _ = quiet_fit(replace(new, estimator=clone(new.estimator)))
    fitted.count("differential fuzzing", "invariances checked")
    assert other.converged_, f"{name}: not converged"
    n = 4.0 if shift is None else 1.0
    loglik = other.loglik_ / n - (shift or 0.0)
    tol = 1e-7 * fitted.size / min(1.0, math.sqrt(model.min_eigenvalue_))
    assert abs(loglik - model.loglik_) <= tol * model.n_total_, f"{name}: log-likelihood {loglik}, {model.loglik_}"
    assert abs(other.penalty_ - model.penalty_) <= tol * (1.0 + model.penalty_), f"{name}: penalty"
    if model.coef_.size:
        unit = np.diag(fitted.slow.units(fitted.x))[-model.coef_.size :]
        miss = np.abs(back(other.coef_) - model.coef_) / unit
        assert miss.max() <= 1e-6 * fitted.size / min(1.0, model.min_eigenvalue_), f"{name}: coefficients off by {miss}"


# ---------------------------------------------------------------------------------------------- predictions


def check_predictions(fitted: Fitted) -> None:
    """Predictions are proper distributions."""
    case, model, rng = fitted.case, fitted.model, fitted.rng
    rows = rng.choice(case.lower.size, 3, replace=False)
    offset = None if case.offset is None else case.offset[rows]
    dist = model.predict_distribution(case.X[rows], offset=offset)
    if case.basis == "ordinal":
        p = dist.probabilities()
        assert (p >= 0.0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(p, model.predict_proba(case.X[rows], offset=offset), atol=1e-12)
        np.testing.assert_allclose(dist.cdf(model.classes_), np.cumsum(p, axis=1), atol=1e-12)
        assert np.isin(dist.rvs(5, random_state=1), model.classes_).all()
        assert (dist.ppf(1.0) == model.classes_[-1]).all()
        return
    q = np.array([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
    y = dist.ppf(q)
    assert (y[:, 1:] >= y[:, :-1]).all()
    finite = np.isfinite(y)
    grid = np.sort(np.r_[y[finite], rng.normal(size=5) * 3.0, 0.0])
    cdf = dist.cdf(grid)
    assert ((cdf >= 0.0) & (cdf <= 1.0)).all()
    assert (np.diff(cdf, axis=1) >= -1e-14 - rounding_of_h(fitted, grid)[1:]).all()
    np.testing.assert_allclose(cdf + dist.sf(grid), 1.0, atol=1e-12)
    at = dist.cdf(np.where(finite, y, 0.0))
    want = np.broadcast_to(q, at.shape)
    narrow, wide = dist.interval(0.5), dist.interval(0.9)
    assert ((wide[0] <= narrow[0]) & (narrow[1] <= wide[1])).all()
    draws = dist.rvs(20, random_state=1)
    if case.basis == "count":
        assert (at[finite] >= want[finite] - 1e-12).all()
        assert (y[finite] == np.floor(y[finite])).all()
        before = dist.cdf(np.where(finite, y - 1.0, 0.0))
        assert ((before < want + 1e-12) | ~finite).all()
        assert (draws >= 0.0).all()
        k = np.arange(30.0)
        np.testing.assert_allclose(np.cumsum(dist.pmf(k), axis=1), dist.cdf(k), atol=1e-12)
        return
    times = model.time_
    bound = 0.0 if times or case.basis == "log-linear" or log_first(case.estimator) else -math.inf
    assert (draws >= bound).all()
    inside = finite & (y > bound) & (np.abs(y) > 1e-200)
    where = np.where(inside, y, 1.0)
    slope = dist.pdf(where) * np.abs(where)  # a rounding of y moves the cdf by so much
    tol = 1e-9 + 1e-14 * slope + 10.0 * rounding_of_h(fitted, where)
    assert (np.abs(at - want) <= tol)[inside].all(), (at, want)
    nodes, shares = np.polynomial.legendre.leggauss(40)
    knots = np.sort(np.r_[y[0][inside[0]], getattr(model, "support_", ())])
    knots = knots[(knots >= y[0].min()) & (knots <= y[0].max()) & np.isfinite(knots) & (knots > bound)]
    for low, high in pairwise(knots):  # h is smooth between these points
        if log_first(case.estimator) or case.basis == "log-linear":
            at = np.exp(0.5 * (np.log(high) + np.log(low) + np.log(high / low) * nodes))
            found = 0.5 * math.log(high / low) * float((dist[0].pdf(at)[0] * at) @ shares)
        else:
            found = 0.5 * (high - low) * float(dist[0].pdf(0.5 * (high + low + (high - low) * nodes))[0] @ shares)
        want = float(dist[0].cdf(high)[0] - dist[0].cdf(low)[0])
        assert abs(found - want) < 1e-6, f"the density integrates to {found}, not {want}, from {low} to {high}"


def rounding_of_h(fitted: Fitted, y: np.ndarray) -> np.ndarray:
    """Return about what rounding leaves of h_0(y): far beyond the support it is a difference of large numbers."""
    baseline = fitted.slow.baseline
    lowest = {-1.0: 0.0, 0.0: 1e-300}.get(baseline.bound, -math.inf)
    rows = np.abs(baseline.rows(np.maximum(y.ravel(), lowest)))
    return 1e-15 * (rows @ np.abs(fitted.model.baseline_)).reshape(y.shape)


def check_saved(fitted: Fitted) -> None:
    """A saved or pickled model predicts the same."""
    model, case = fitted.model, fitted.case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        atm.save(model, path)
        copies = [atm.load(path), pickle.loads(pickle.dumps(model))]  # noqa: S301
    for other in copies:
        np.testing.assert_array_equal(other.coef_, model.coef_)
        np.testing.assert_array_equal(
            other.predict(case.X, offset=case.offset), model.predict(case.X, offset=case.offset)
        )
        use = slice(None) if case.weights is None else case.weights > 0.0
        offset = None if case.offset is None else case.offset[use]
        np.testing.assert_array_equal(
            other.nll(case.X[use], case.y[use], offset=offset), model.nll(case.X[use], case.y[use], offset=offset)
        )
    fitted.count("differential fuzzing", "saved and loaded")


# ---------------------------------------------------------------------------------------------- refusals


def support_of(case: Case) -> tuple[float, float] | None:
    given = getattr(case.estimator, "support", None)
    if given is not None or case.basis not in ("bernstein", "count"):
        return given
    use = slice(None) if case.weights is None else case.weights > 0.0
    response = as_response(case.y, "count" if case.basis == "count" else "continuous")[use]
    return default_support(response, None if case.weights is None else case.weights[use])


def check_refusal(case: Case, error: Exception, rng: Any) -> None:
    """What the data are said not to determine, they do not."""
    slow = case.slow(support_of(case), xi=0.0)
    X = slow.X - slow.X.mean(axis=0)
    text = str(error)
    if isinstance(error, SeparationError):
        direction = slow.recession()
        assert direction is not None, f"no direction of recession: {error}"
        for _ in range(50):
            x = slow.typical_start(rng)
            losses = [float(slow.loss(x + t * direction)) for t in (0.0, 1.0, 10.0, 100.0)]
            if np.isfinite(losses[0]):
                break
        gain = -np.diff(losses)
        assert (gain >= -1e-12).all(), f"the likelihood falls along the direction: {losses}"
        assert losses[-1] < losses[0], f"the likelihood does not grow along the direction: {losses}"
    elif "constant" in text or "collinear" in text:
        size = X.std(axis=0)
        assert (size < 1e-9).any() or np.linalg.cond(X / size) > 1e4
    elif "censored" in text:
        assert np.isneginf(slow.lower).all() or np.isposinf(slow.upper).all()
    elif "parameters than the rows" in text:
        assert slow.X.shape[1] + 1 >= slow.X.shape[0]
    else:
        raise AssertionError(f"unexpected refusal: {error}") from error


def check_over_identified(case: Case, rng: Any) -> None:
    """The path has no finite limit: its penalty falls more slowly than 1 / xi^2, as the slow fit says too."""
    assert math.isinf(case.xi)
    if case.choices["model"] == "NormalLinear" and case.choices["kinds"] == "exact":  # more anchors than parameters
        slow = case.slow(None)
        assert np.linalg.matrix_rank(slow.directions.T @ np.column_stack([slow.X, slow.upper])) > slow.X.shape[1]
        return
    penalties = []
    for xi in (1e4, 1e6):  # as far out as it takes: a nearly flat direction shows late
        model, _ = quiet_fit(replace(case, estimator=clone(case.estimator).set_params(xi=xi)))
        slow = case.slow(getattr(model, "support_", None), xi=xi)
        x, _ = slow.minimise(slow.free(model.baseline_, model.coef_), 60)
        penalties.append(float(slow.penalty(x)))
    assert penalties[0] < 1e3 * penalties[1], f"the penalty falls like 1 / xi^2: {penalties}"
