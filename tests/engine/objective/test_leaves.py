"""The loss with a value for each leaf is that of the same rows with indicators of leaves as covariates."""

from typing import Any

import numpy as np
import pytest

from anchortm.bases import BernsteinBasis, ConstantBasis, LinearBasis, OrdinalBasis
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.leaves import LeafObjective
from anchortm.engine.solve.newton import Options, minimise
from anchortm.families import get_family
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.response import Interval, Surv, as_response
from anchortm.links import get_link

N, LEAVES = 150, 5
RNG = np.random.default_rng(3)
SITE = np.sort(RNG.integers(0, 4, N))
ANCHORS = {
    "none": None,
    "factor": anchor_columns(SITE),
    "numbers": anchor_columns(RNG.normal(size=(N, 2))),
    "factors and a number": anchor_columns([SITE, RNG.integers(0, 3, N), RNG.normal(size=N)]),
}
X = RNG.normal(size=(N, 2)) + 0.4 * SITE[:, None]
LEAF = RNG.integers(0, LEAVES, N)
WEIGHTS = RNG.integers(1, 4, N).astype(float)
Y = X @ [0.6, -0.4] + 0.3 * SITE + 0.5 * LEAF + RNG.logistic(size=N)
TIME, SEEN = np.exp(0.3 * Y), RNG.random(N)
OFFSET = 0.2 * np.sin(np.arange(N))
ENDS = Interval(np.where(SEEN < 0.2, -np.inf, Y - SEEN), np.where(SEEN > 0.8, np.inf, Y + SEEN))
ROWS: dict[str, tuple[Any, Any, Any]] = {
    "normal": (get_link("probit"), LinearBasis(), Y),
    "normal, Bernstein": (get_link("probit"), BernsteinBasis(3, (-3.0, 6.0)), Y),
    "exact": (get_link("logit"), BernsteinBasis(4, (-3.0, 6.0)), Y),
    "right and truncated": (get_link("cloglog"), BernsteinBasis(3, (0.2, 6.0)), Surv(TIME, SEEN < 0.7, 0.3 * TIME)),
    "all kinds": (get_link("loglog"), BernsteinBasis(3, (-3.0, 6.0)), ENDS),
    "classes": (get_link("logit"), OrdinalBasis((0, 1, 2, 3)), np.digitize(Y, [-1.0, 0.5, 2.0])),
    "counts": (get_family("poisson", residual="deviance"), ConstantBasis(), np.abs(np.round(Y))),
}


def both(name: str, anchors: Any, weights: Any, covariates: bool, sign: float) -> tuple[LeafObjective, Any]:
    """Return the loss with leaves, and the loss with one-hot columns in the same coordinates."""
    link, basis, y = ROWS[name]
    response = as_response(y, "ordinal") if name == "classes" else as_response(y)
    own, Z = X if covariates else X[:, :0], np.eye(LEAVES)[LEAF]
    rows = build_objective(link, basis, response, own, anchors, weights, OFFSET, sign)
    leaves = LeafObjective(rows, LEAF, LEAVES, sign)
    dense = build_objective(
        *(link, basis, response, np.hstack([own, Z]), anchors, weights, OFFSET, sign), coordinates=leaves.coordinates
    )
    return leaves, dense


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", ANCHORS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_sums_and_derivatives_are_those_of_columns(name: str, kind: str, weighted: bool) -> None:
    leaves, dense = both(name, ANCHORS[kind], WEIGHTS if weighted else None, not weighted, -1.0 if weighted else 1.0)
    rng = np.random.default_rng(0)
    lower = leaves.coordinates.lower
    v = np.where(np.isfinite(lower), lower + 0.6, 0.1) + 0.1 * rng.random(lower.size)
    for values in (0.0, rng.normal(size=LEAVES)):
        v[-LEAVES:] = values
        ours, theirs = leaves.sums(v), dense.sums(v)
        assert ours.loglik == pytest.approx(theirs.loglik, rel=1e-12)
        np.testing.assert_allclose(ours.t, theirs.t, atol=1e-10)
        for multiplier in (None, rng.normal(size=theirs.t.size)):
            a, b = leaves.derivatives(v, multiplier), dense.derivatives(v, multiplier)
            size = 1.0 + np.abs(b.hessian).max()
            np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-12 * size)
            np.testing.assert_allclose(a.hessian, b.hessian, atol=1e-12 * size)
            np.testing.assert_allclose(a.E, b.E, atol=1e-12 * size)


@pytest.mark.parametrize("name", ROWS)
def test_the_minimum_is_that_of_columns(name: str) -> None:
    link, basis, y = ROWS[name]
    response = as_response(y, "ordinal") if name == "classes" else as_response(y)
    rows = build_objective(link, basis, response, X, ANCHORS["factor"], None, OFFSET)
    leaf = np.where(LEAF == 0, 0, LEAF - 1)
    leaves = LeafObjective(rows, leaf, LEAVES - 1, -1.0)
    keep = np.r_[: rows.n_parameters, rows.n_parameters + 1 : leaves.n_parameters]  # the constant is in the baseline
    leaves.coordinates.lower[rows.n_parameters] = leaves.coordinates.upper[rows.n_parameters] = 0.0
    Z = np.eye(LEAVES - 1)[leaf][:, 1:]
    dense = build_objective(link, basis, response, np.hstack([X, Z]), ANCHORS["factor"], None, OFFSET)
    lower = leaves.coordinates.lower
    start = np.where(np.isfinite(lower) & (lower < leaves.coordinates.upper), lower + 0.6, 0.0)
    start[0] = 0.1
    ours, theirs = (minimise(o, s, 0.3, Options(tol=1e-10)) for o, s in ((leaves, start), (dense, start[keep])))
    assert ours.converged
    assert theirs.converged
    assert ours.loss == pytest.approx(theirs.loss, abs=1e-12)
    np.testing.assert_allclose(
        leaves.coordinates.split(ours.v)[1][2:], np.append(0.0, dense.coordinates.split(theirs.v)[1][2:]), atol=1e-6
    )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_shifted_rows_are_rows_with_an_offset(name: str, weights: Any) -> None:
    link, basis, y = ROWS[name]
    response = as_response(y, "ordinal") if name == "classes" else as_response(y)
    build = (link, basis, response, X, ANCHORS["factor"], weights)
    first, wanted = (build_objective(*build, offset) for offset in (None, OFFSET))
    v = np.where(np.isfinite(first.coordinates.lower), first.coordinates.lower + 0.6, 0.1)
    first.sums(v)
    moved = first.shifted(-OFFSET)
    for made in (moved, moved.shifted(OFFSET[::-1]).shifted(-OFFSET[::-1])):
        assert made.sums(v).loglik == pytest.approx(wanted.sums(v).loglik, rel=1e-13)
        np.testing.assert_allclose(made.sums(v).t, wanted.sums(v).t, atol=1e-11)
        np.testing.assert_allclose(made.derivatives(v).hessian, wanted.derivatives(v).hessian, atol=1e-9)
        assert made.mean_offset == pytest.approx(wanted.mean_offset)
        assert abs(made.mean_offset) > 1e-4
