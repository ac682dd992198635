"""Penalties s'Omega s: the stated quadratic form, other bases, centred weights, and what must be refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from paths import REFERENCE

import anchortm as atm
from anchortm.engine.rows.anchor_metric import AnchorMetric, Reweighing, reweighed, root_of
from anchortm.engine.rows.projections import projection
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Options
from anchortm.exceptions import InputError
from anchortm.inputs.anchors import anchor_columns

KNOWN = json.loads((REFERENCE / "robust" / "environment_weights.json").read_text())
RNG = np.random.default_rng(5)
CODES = np.sort(RNG.integers(0, 4, 40))
WEIGHTS = RNG.uniform(0.5, 2.0, 40)
VALUES = RNG.normal(size=40)
TOTAL = np.bincount(CODES, WEIGHTS)
A = (CODES[:, None] == np.arange(4)).astype(float)
FACTOR = RNG.uniform(0.3, 3.0, 40)


def spd(size: int) -> np.ndarray:
    root = RNG.normal(size=(size, size))
    return root @ root.T


def penalty(metric, values, weights) -> float:
    sums = np.zeros(metric.n_sums)
    metric.part(slice(None)).add(sums, weights * values, None)
    return float(np.sum(metric.root(sums) ** 2))


def test_any_omega_is_a_root_of_the_sums():
    inner, omega = projection(anchor_columns(CODES), WEIGHTS), spd(4)
    metric = AnchorMetric(inner, TOTAL, Reweighing(), omega)
    s = A.T @ (WEIGHTS * VALUES)
    assert penalty(metric, VALUES, WEIGHTS) == pytest.approx(TOTAL.sum() * s @ omega @ s, rel=1e-12)


def test_another_basis_with_its_omega_has_the_same_penalty():
    """Columns A T have the sums T's, so that Omega becomes T^-1 Omega T^-T."""
    omega, T = spd(4), RNG.normal(size=(4, 4))
    groups = AnchorMetric(projection(anchor_columns(CODES), WEIGHTS), TOTAL, Reweighing(), omega)
    turned = projection(anchor_columns(A @ T), WEIGHTS, intercept=False)
    # the sums of numeric anchors are those of an orthonormal basis Q = A B
    Q = turned.part(slice(None)).spread(np.eye(4))
    back = np.linalg.inv(np.linalg.lstsq(A, Q, rcond=None)[0])
    other = AnchorMetric(turned, TOTAL, Reweighing(), back @ omega @ back.T)
    assert penalty(other, VALUES, WEIGHTS) == pytest.approx(penalty(groups, VALUES, WEIGHTS), rel=1e-10)


def test_shares_by_rows_are_the_projection():
    plain = projection(anchor_columns(CODES), WEIGHTS)
    metric = AnchorMetric(plain, TOTAL, Reweighing(shares=TOTAL / TOTAL.sum()))
    sums = RNG.normal(size=(4, 3))
    np.testing.assert_allclose(metric.root(sums), plain.root(sums), rtol=1e-13)
    np.testing.assert_allclose(metric.coefficients(sums), plain.coefficients(sums), rtol=1e-13)
    np.testing.assert_allclose(metric.gram(VALUES), plain.gram(VALUES), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "anchors", [CODES, A[:, :2] + VALUES[:, None], [CODES, np.arange(40) % 3]], ids=["factor", "numbers", "factors"]
)
def test_sums_do_not_see_the_weights_of_the_likelihood(anchors):
    """All verbs of the parts, with weights w u and anchors a / u, are those of the weights w."""
    columns = anchor_columns(anchors)
    order = columns.order()
    columns, w, factor = (
        (columns, WEIGHTS, FACTOR) if order is None else (columns.take(order), WEIGHTS[order], FACTOR[order])
    )
    plain = projection(columns, w)
    metric = reweighed(columns, w / factor, True, Reweighing(factor))
    C, cell = RNG.normal(size=(40, 2)), RNG.integers(0, 3, 40)
    for verb, *more in (("add", C), ("add_cells", cell, RNG.normal(size=(3, 2))), ("add_codes", cell % 2)):
        found, wanted = np.zeros((2, plain.n_sums, 2))
        getattr(metric.part(slice(None)), verb)(found, w / factor, *more)
        getattr(plain.part(slice(None)), verb)(wanted, w, *more)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    t = RNG.normal(size=plain.rank)
    k = metric.coefficients(t)
    np.testing.assert_allclose(
        metric.part(slice(None)).spread(k), factor * plain.part(slice(None)).spread(k), rtol=1e-10
    )
    np.testing.assert_allclose(metric.part(slice(None)).projected(k), plain.part(slice(None)).spread(k), rtol=1e-10)
    np.testing.assert_allclose(metric.gram(VALUES), plain.gram(VALUES * factor**2), rtol=1e-8, atol=1e-10)
    rows = np.arange(0, 40, 2)
    half = metric.subset(rows, (w / factor)[rows])
    assert penalty(half, VALUES[rows], (w / factor)[rows]) == pytest.approx(
        penalty(plain.subset(rows, w[rows]), VALUES[rows], w[rows]), rel=1e-10
    )


def test_projected_values_are_means_of_levels():
    shares = np.array([0.5, 0.2, 0.3, 0.0])
    metric = AnchorMetric(projection(anchor_columns(CODES), WEIGHTS), TOTAL, Reweighing(FACTOR, shares))
    s = A.T @ (WEIGHTS * VALUES)
    t = metric.root(s)
    means = s / TOTAL
    np.testing.assert_allclose(t**2, TOTAL.sum() * shares * means**2, rtol=1e-12)
    found = metric.part(slice(None)).projected(metric.projection_of(t))
    np.testing.assert_allclose(found, np.where(shares > 0, means, 0.0)[CODES], rtol=1e-12)


def test_an_indefinite_omega_is_refused():
    with pytest.raises(InputError, match="positive semidefinite"):
        root_of(np.diag([1.0, -1e-6]), 10.0)
    with pytest.raises(InputError, match="not 0"):
        root_of(np.zeros((2, 2)), 10.0)
    omega = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])
    R = root_of(omega, 10.0)
    assert R.shape == (1, 3)
    np.testing.assert_allclose(R.T @ R, 10.0 * omega, atol=1e-12)


def test_the_centred_penalty_of_the_reference():
    """sum_e pi_e (rbar_e - mean)^2 with pi_e = 1 / K, by its Omega."""
    data = atm.datasets.load_boston_housing2()
    X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
    known = KNOWN["bh2_cprobit"]
    model = atm.ContinuousProbit(order=known["order"], support=known["support"])
    problem = model.problem((X - X.mean()) / X.std(), data.cmedv, anchors=data.town)
    loss = problem.objective
    n = data.town.value_counts().sort_index().to_numpy().astype(float)
    pi = np.full(n.size, 1.0 / n.size)
    omega = (np.diag(pi) - np.outer(pi, pi)) / np.outer(n, n)
    metric = AnchorMetric(loss.anchors, n, Reweighing(), omega)
    own = type(loss)(loss.link, loss.coordinates, metric, loss.blocks, loss.names)
    wanted = known["item1"]["a=0 centred"]
    found = solve(own, problem.start(own), wanted["xi"], Options(tol=1e-10))
    assert found.loss == pytest.approx(wanted["loss"], abs=1e-9)
    np.testing.assert_allclose(np.concatenate(own.coordinates.split(found.v)), wanted["w"], atol=1e-6)
