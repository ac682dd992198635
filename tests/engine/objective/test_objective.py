"""The block-wise objective against a dense implementation of the printed loss, and against itself."""

import numpy as np
import pytest
from reference_fits import Fit, data, load
from scipy.stats import gumbel_l, gumbel_r, logistic, norm

from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.normal import NormalObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Objective
from anchortm.engine.rows.interval_columns import CellEnds, RowEnds
from anchortm.engine.rows.projections import projection
from anchortm.inputs.anchors import anchor_columns

NAMES = [
    "boston_exact_Lm",
    "boston_exact_BoxCox_weights",
    "boston_exact_Colr",
    "boston_rc_Coxph_offset",
    "boston_lc_Lehmann",
    "boston_ic_BoxCox",
    "boston_lt_Colr",
    "boston_mix_Coxph",
    "boston_mix_BoxCox",
    "boston_ord6_Polr_probit",
    "boston_rc_Colr_vis",
    "grouseticks_cotram_logit",
]
fits = pytest.mark.parametrize("fit", [load(name) for name in NAMES], ids=NAMES)
XI = 3.7


def anchors_of(fit: Fit):
    if fit.name.startswith("boston"):
        return data("BostonHousing2").town.to_numpy()
    return data("grouseticks").LOCATION.to_numpy()


def objective_of(fit: Fit, anchors=None, rows=None, **options) -> Objective:
    rows = np.arange(len(fit.response)) if rows is None else rows
    anchors = anchors_of(fit) if anchors is None else anchors
    return build_objective(
        fit.link,
        fit.basis,
        fit.response[rows],
        fit.X[rows],
        anchor_columns(anchors[rows]),
        fit.weights[rows] if "weights" in fit.name else None,
        fit.sign * fit.offset[rows] if "offset" in fit.name else None,
        fit.sign,
        **options,
    )


def textbook_loss(fit: Fit, theta: np.ndarray, beta: np.ndarray, xi: float) -> float:
    """The printed loss, with dense projection and scipy's distributions; r by the printed formulas."""
    F = {"probit": norm, "logit": logistic, "cloglog": gumbel_l, "loglog": gumbel_r}[fit.link.name]
    shift = fit.sign * (fit.X @ beta) + fit.offset

    def h(y):
        finite = np.where(np.isfinite(y), y, 0.0 if fit.basis.kind == "ordinal" else fit.response.upper.min())
        return np.where(np.isfinite(y), fit.basis.rows(finite) @ theta + shift, y)

    def pdf(z):
        return np.where(np.isfinite(z), F.pdf(np.where(np.isfinite(z), z, 0.0)), 0.0)

    def cell(low, high):
        mass = F.cdf(high) - F.cdf(low)
        return np.log(mass), (pdf(low) - pdf(high)) / mass

    u, v = h(fit.response.upper), h(fit.response.lower)
    exact = fit.response.lower == fit.response.upper
    with np.errstate(divide="ignore", invalid="ignore"):
        loglik, r = cell(v, u)
    if exact.any():
        z, step = u[exact], 1e-6
        slope = fit.basis.derivative_rows(fit.response.upper[exact]) @ theta
        loglik[exact] = F.logpdf(z) + np.log(slope)
        r[exact] = -(F.logpdf(z + step) - F.logpdf(z - step)) / (2 * step)
    if fit.response.entry is not None:
        gone, s = cell(h(fit.response.entry), np.full(len(u), np.inf))
        loglik, r = loglik - gone, r - s
    A = (anchors_of(fit)[:, None] == np.unique(anchors_of(fit))[None, :]).astype(float)
    W = np.diag(fit.weights)
    return float(
        (-fit.weights @ loglik + xi * r @ W @ A @ np.linalg.solve(A.T @ W @ A, A.T @ W @ r)) / fit.weights.sum()
    )


def value(objective: Objective, v: np.ndarray, xi: float = XI) -> float:
    sums = objective.sums(v)
    return (-sums.loglik + xi * float(sums.t @ sums.t)) / objective.n_total


@fits
def test_loss_is_the_printed_one(fit: Fit) -> None:
    objective = objective_of(fit)
    v = objective.coordinates.join(fit.theta, 0.9 * fit.beta)
    theta, beta = objective.coordinates.split(v)
    assert value(objective, v) == pytest.approx(textbook_loss(fit, theta, beta, XI), rel=1e-8)


@fits
def test_coordinates_are_invertible(fit: Fit) -> None:
    objective = objective_of(fit)
    theta, beta = objective.coordinates.split(objective.coordinates.join(fit.theta, fit.beta))
    np.testing.assert_allclose(theta, fit.theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(beta, fit.beta, rtol=1e-9, atol=1e-12)
    v = objective.coordinates.join(fit.theta, fit.beta)
    moved = np.concatenate(objective.coordinates.split(v + 1e-3)) - np.concatenate([theta, beta])
    np.testing.assert_allclose(objective.coordinates.jacobian @ np.full(v.size, 1e-3), moved, atol=1e-9)


@fits
def test_derivatives_against_differences(fit: Fit) -> None:
    objective = objective_of(fit)
    v = objective.coordinates.join(fit.theta, 0.9 * fit.beta)
    rng = np.random.default_rng(0)
    bounded = np.isfinite(objective.coordinates.lower)
    v[bounded] += 0.05 * rng.random(int(bounded.sum()))  # away from the bounds
    n = objective.n_total
    t = objective.sums(v).t
    d = objective.derivatives(v, 2 * XI * t)
    gradient = (d.gradient + 2 * XI * d.E.T @ t) / n
    hessian = (d.hessian + 2 * XI * d.E.T @ d.E) / n

    def gradient_at(w):
        at, s = objective.derivatives(w), objective.sums(w)
        return (at.gradient + 2 * XI * at.E.T @ s.t) / n

    step = 1e-4
    for j, unit in enumerate(np.eye(v.size)):
        move = step * unit

        def five_point(f, move=move):
            return (8 * (f(v + move) - f(v - move)) - (f(v + 2 * move) - f(v - 2 * move))) / (12 * step)

        assert gradient[j] == pytest.approx(five_point(lambda w: value(objective, w)), rel=1e-7, abs=1e-8)
        np.testing.assert_allclose(hessian[:, j], five_point(gradient_at), rtol=1e-6, atol=1e-7 * np.abs(hessian).max())


@fits
def test_gauss_newton_is_the_likelihood_and_the_square_of_e(fit: Fit) -> None:
    """Without a multiplier the Hessian is that of -loglik alone, and E = dt/dv: Gauss-Newton adds 2 xi E'E."""
    objective = objective_of(fit)
    v = objective.coordinates.join(fit.theta, 0.9 * fit.beta)
    bounded = np.isfinite(objective.coordinates.lower)
    v[bounded] += 0.05
    d, step = objective.derivatives(v), 1e-4
    for j, unit in enumerate(np.eye(v.size)):
        move = step * unit

        def five_point(f, move=move):
            return (8 * (f(v + move) - f(v - move)) - (f(v + 2 * move) - f(v - 2 * move))) / (12 * step)

        hessian = five_point(lambda w: objective.derivatives(w).gradient)
        np.testing.assert_allclose(d.hessian[:, j], hessian, rtol=1e-6, atol=1e-7 * np.abs(d.hessian).max())
        np.testing.assert_allclose(d.E[:, j], five_point(lambda w: objective.sums(w).t), rtol=1e-6, atol=1e-6)


@fits
@pytest.mark.parametrize("options", [{"block_rows": 7}, {"block_rows": 100}, {"block_rows": 64, "n_jobs": 3}])
def test_blocks_and_threads_do_not_matter(fit: Fit, options: dict) -> None:
    whole, parts = objective_of(fit), objective_of(fit, **options)
    v = whole.coordinates.join(fit.theta, 0.9 * fit.beta)  # not at the optimum, where the gradient is rounding
    assert value(parts, v) == pytest.approx(value(whole, v), rel=1e-12)
    t = whole.sums(v).t
    for a, b in zip(whole.derivatives(v, t), parts.derivatives(v, t), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * np.abs(a).max())


@fits
def test_row_order_does_not_matter(fit: Fit) -> None:
    shuffle = np.random.default_rng(1).permutation(len(fit.response))
    first, second = objective_of(fit), objective_of(fit, rows=shuffle)
    v = first.coordinates.join(fit.theta, fit.beta)
    w = second.coordinates.join(fit.theta, fit.beta)
    assert value(second, w) == pytest.approx(value(first, v), rel=1e-12)
    a, b = first.derivatives(v, first.sums(v).t), second.derivatives(w, second.sums(w).t)
    np.testing.assert_allclose(b.hessian, a.hessian, rtol=1e-9, atol=1e-9 * np.abs(a.hessian).max())
    np.testing.assert_allclose(b.E.T @ b.E, a.E.T @ a.E, rtol=1e-9, atol=1e-9)


def test_weights_are_replication() -> None:
    fit = load("boston_exact_BoxCox_weights")
    weighted = objective_of(fit)
    rows = np.repeat(np.arange(len(fit.response)), fit.weights.astype(int))
    plain = load("boston_exact_BoxCox")
    repeated = objective_of(plain, rows=rows)
    assert weighted.n_total == repeated.n_total == fit.weights.sum()
    v, w = (o.coordinates.join(fit.theta, fit.beta) for o in (weighted, repeated))
    assert value(weighted, v) == pytest.approx(value(repeated, w), rel=1e-12)


@pytest.mark.parametrize("name", ["boston_exact_Lm", "boston_exact_BoxCox_weights", "boston_exact_BoxCox"])
def test_sufficient_statistics_equal_the_passes(name: str) -> None:
    fit = load(name)
    quick = objective_of(fit)
    assert isinstance(quick, NormalObjective)
    slow = RowObjective(fit.link, quick.coordinates, quick.anchors, quick.blocks)
    v = quick.coordinates.join(fit.theta, 0.9 * fit.beta)
    assert value(quick, v) == pytest.approx(value(slow, v), rel=1e-12)
    for a, b in zip(quick.derivatives(v), slow.derivatives(v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-8)


@fits
def test_a_sample_is_the_objective_of_its_rows(fit: Fit) -> None:
    objective = objective_of(fit)
    sample = objective.sample(len(fit.response) // 3)
    v = objective.coordinates.join(fit.theta, fit.beta)
    step = max(1, objective.n_rows // (len(fit.response) // 3))
    starts = np.arange(0, objective.n_rows, step)
    picks = np.minimum(starts + np.random.default_rng(0).integers(0, step, starts.size), objective.n_rows - 1)
    order = anchor_columns(anchors_of(fit)).order()
    rows = np.unique(picks) if order is None else order[np.unique(picks)]
    direct = objective_of(fit, rows=rows)
    w = direct.coordinates.join(*objective.coordinates.split(v))
    assert sample.n_rows == rows.size
    assert value(sample, v) == pytest.approx(value(direct, w), rel=1e-10)


@fits
def test_residuals(fit: Fit) -> None:
    objective = objective_of(fit)
    order = anchor_columns(anchors_of(fit)).order()
    r = objective.residuals(objective.coordinates.join(fit.theta, fit.beta))
    wanted = np.array(fit.reference["polished"]["residuals"])
    np.testing.assert_allclose(r, wanted if order is None else wanted[order], atol=1e-8)


@pytest.mark.parametrize("kind", ["factor", "numbers", "two factors"])
def test_cells_are_rows_that_share_their_columns(kind: str) -> None:
    """Every sum over cells equals the sum over rows."""
    rng = np.random.default_rng(3)
    n, k, cells = 200, 4, 6
    table = CellEnds(rng.normal(size=(cells, k)), rng.normal(size=(cells, k)), rng.integers(0, cells, n))
    rows = RowEnds(*table.dense())
    site = np.sort(rng.integers(0, 9, n))
    anchors = {"factor": site, "numbers": rng.normal(size=(n, 2)), "two factors": [site, rng.integers(0, 3, n)]}[kind]
    P = projection(anchor_columns(anchors))
    X, v = rng.normal(size=(n, 3)), rng.normal(size=k)
    a, b, c = rng.normal(size=(3, n))
    for part in (slice(0, n), slice(30, 90)):
        one, other = table.take(part), rows.take(part)
        for mine, wanted in zip(one.values(v), other.values(v), strict=True):
            np.testing.assert_allclose(mine, wanted)
        w = a[part], b[part], c[part]
        np.testing.assert_allclose(one.gradient(*w[:2]), other.gradient(*w[:2]))
        np.testing.assert_allclose(one.gram(*w), other.gram(*w), atol=1e-12)
        np.testing.assert_allclose(one.cross(*w[:2], X[part]), other.cross(*w[:2], X[part]), atol=1e-12)
        G, H = np.zeros((P.n_sums, k)), np.zeros((P.n_sums, k))
        one.add_to(P.part(part), G, *w[:2])
        other.add_to(P.part(part), H, *w[:2])
        np.testing.assert_allclose(G, H, atol=1e-12)
