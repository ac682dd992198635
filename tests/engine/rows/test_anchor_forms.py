"""Forms of targets and proxies: coordinates whose squares are the form, and the same form of some of the rows."""

import numpy as np
import pytest

from anchortm.engine.rows.anchor_forms import Formed, proxy_form, target_form
from anchortm.engine.rows.projections import projection
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.targets import Proxies, TargetShift

rng = np.random.default_rng(2)
N = 60
A = rng.normal(size=(N, 2)) @ np.array([[3.0, 1.0], [0.0, 0.1]]) + [100.0, -2.0]
R = rng.normal(size=N) + A[:, 0]
COVARIANCE = np.array([[20.0, 5.0], [5.0, 4.0]])


@pytest.fixture(params=[None, 0.5 + rng.random(N)], ids=["rows", "weights"])
def weights(request):
    return request.param


def by_hand(rows, weights):
    """Return n kappa'(S - S_A)kappa."""
    w = np.ones(len(rows)) if weights is None else weights
    a = A[rows] - np.average(A[rows], axis=0, weights=w)
    gram = (w[:, None] * a).T @ a
    kappa = np.linalg.solve(gram, (w * R[rows]) @ a)
    return float(w.sum() * kappa @ (COVARIANCE - gram / w.sum()) @ kappa)


def made(rows, weights):
    columns = anchor_columns(A[rows])
    return Formed(projection(columns, weights), target_form(TargetShift(None, COVARIANCE), columns, weights), weights)


def coordinates(formed, rows, weights):
    sums = np.zeros(formed.n_sums)
    formed.part(slice(None)).add(sums, R[rows] if weights is None else weights * R[rows], None)
    return formed.root(sums)


def test_squares_of_the_coordinates_are_the_form(weights):
    rows = np.arange(N)
    formed = made(rows, weights)
    t = coordinates(formed, rows, weights)
    assert t @ t == pytest.approx(by_hand(rows, weights), rel=1e-9)
    # the coordinates are sums over rows with the columns that ``coefficients`` spreads
    u = rng.normal(size=t.size)
    spread = formed.part(slice(None)).spread(formed.coefficients(u))
    assert t @ u == pytest.approx(float((R if weights is None else weights * R) @ spread), rel=1e-9)
    w = rng.random(N)
    Q = np.column_stack([formed.part(slice(None)).spread(formed.coefficients(e)) for e in np.eye(t.size)])
    np.testing.assert_allclose(formed.gram(w), (w[:, None] * Q).T @ Q, rtol=1e-9)


def test_some_rows_have_the_target_of_all_rows():
    """Rows that occur twice are half as many once: the form of one half, in the units of all, is half the form."""
    twice = np.concatenate([np.arange(N), np.arange(N)])
    whole = made(twice, None)
    half = whole.subset(np.arange(N), None)
    t, u = coordinates(whole, twice, None), coordinates(half, np.arange(N), None)
    assert u @ u == pytest.approx(0.5 * (t @ t), rel=1e-9)


def test_form_of_proxies(weights):
    columns = anchor_columns(np.column_stack([A[:, 0], A[:, 0] + rng.normal(size=N)]))
    form = proxy_form(Proxies(0, 1), columns, weights)
    w = np.ones(N) if weights is None else weights
    first, second = (columns.columns - np.average(columns.columns, axis=0, weights=w)).T
    wanted = ((w * R) @ first) * ((w * R) @ second) / ((w * first) @ second)
    t = form.sums(R, weights) / np.sqrt(w.sum())
    assert t @ form.F @ t == pytest.approx(wanted, rel=1e-9)
    assert not form.definite
    assert form.lowest == pytest.approx(-np.linalg.eigvalsh(form.F)[-1])
