"""Derivatives of the loss with shift and scale effects, against high precision from the definitions."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from high_precision import DISTRIBUTIONS

from anchortm.bases import BernsteinBasis, OrdinalBasis
from anchortm.engine.objective.build import build_objective
from anchortm.engine.objective.location_scale import ScaledObjective
from anchortm.engine.objective.scale_effects import scale_residuals
from anchortm.engine.rows.likelihood import build_terms
from anchortm.exceptions import IdentificationError
from anchortm.inputs.anchors import anchor_columns
from anchortm.inputs.response import Response
from anchortm.links import LINKS

mpf, INF = mp.mpf, np.inf
STEP = mpf(10) ** -18
rng = np.random.default_rng(3)

# exact, left, right and interval rows, and all of them truncated on one side or both
LOWER = np.array([0.31, -INF, 0.2, 0.1, 0.62, 0.45, -INF, 0.3, 0.5, 0.4])
UPPER = np.array([0.31, 0.55, INF, 0.9, 0.62, 0.45, 0.65, INF, 0.51, 0.401])
ENTRY = np.array([-INF, -INF, -INF, -INF, 0.2, 0.1, -INF, 0.1, 0.2, -INF])
EXIT = np.array([INF, INF, INF, INF, INF, 0.8, 0.9, INF, INF, 0.7])
X = rng.normal(size=(10, 2)) + np.array([2.0, -0.5])
SITE = np.array([0, 1, 0, 1, 1, 0, 1, 0, 0, 1])
WEIGHTS, OFFSET = rng.uniform(0.5, 2.0, 10), 0.3 * rng.normal(size=10)
THETA, BETA, G = np.array([-0.9, -0.2, 0.4, 1.3]), np.array([0.3, -0.7]), np.array([0.6, -0.5])


def rows_in_high_precision(F, basis, response, theta, beta, g, sign, zeta_extra, alpha, Z):
    """l of each row from the definition, at h - alpha and zeta + zeta_extra."""
    result = []
    for i in range(len(response)):
        zeta = sum(mpf(z) * b for z, b in zip(Z[i], g, strict=True)) / 2 + zeta_extra
        shift = sign * (sum(mpf(x) * b for x, b in zip(X[i], beta, strict=True)) + mpf(OFFSET[i])) - alpha

        def h(y, zeta=zeta, shift=shift):
            return mp.exp(zeta) * sum(mpf(a) * t for a, t in zip(basis.rows([y])[0], theta, strict=True)) + shift

        def mass(low, high, h=h):
            if np.isfinite(low) and np.isfinite(high):
                u, v = h(high), h(low)
                return F.cdf(u) - F.cdf(v) if v < 0 else F.sf(v) - F.sf(u)
            return F.cdf(h(high)) if np.isfinite(high) else F.sf(h(low)) if np.isfinite(low) else mpf(1)

        low, high = response.lower[i], response.upper[i]
        if low == high:
            slope = sum(mpf(a) * t for a, t in zip(basis.derivative_rows([low])[0], theta, strict=True))
            value = mp.log(F.density(h(low))) + mp.log(slope) + zeta
        else:
            value = mp.log(mass(low, high))
        if response.entry is not None:
            value -= mp.log(mass(response.entry[i], response.exit[i]))
        result.append(value)
    return result


def textbook(F, basis, response, w, sign, Z):
    """-loglik and t of both residuals, r and r_s as numeric derivatives of l; w = (theta, beta, g)."""
    k = basis.n_parameters
    theta, beta, g = w[:k], w[k : k + 2], w[k + 2 :]

    def at(zeta_extra=0, alpha=0):
        return rows_in_high_precision(F, basis, response, theta, beta, g, sign, zeta_extra, alpha, Z)

    l = at()  # noqa: E741
    r = [(a - b) / (2 * STEP) for a, b in zip(at(alpha=STEP), at(alpha=-STEP), strict=True)]
    r_s = [-(a - b) / (2 * STEP) for a, b in zip(at(STEP), at(-STEP), strict=True)]
    t = []
    for values in (r, r_s):
        for level in (0, 1):
            own = np.flatnonzero(level == SITE)
            total = mp.sqrt(sum(mpf(WEIGHTS[i]) for i in own))
            t.append(sum(mpf(WEIGHTS[i]) * values[i] for i in own) / total)
    return [-sum(mpf(a) * b for a, b in zip(WEIGHTS, l, strict=True)), *t], r, r_s


def case(name, kind, sign):
    if kind == "ordinal":
        codes = np.array([1, 2, 3, 2, 1, 3, 2, 1, 3, 2]) - 1.0
        lower = np.where(codes == 0, -INF, codes - 1)
        upper = np.where(codes == 2, INF, codes)
        return Response(lower, upper, scale="ordinal", levels=("a", "b", "c")), OrdinalBasis(("a", "b", "c"))
    return Response(LOWER, UPPER, ENTRY, EXIT), BernsteinBasis(3, (0.2, 0.7))


def build(name, kind, sign):
    response, basis = case(name, kind, sign)
    plain = build_objective(
        LINKS[name], basis, response, np.hstack([X, sign * X]), anchor_columns(SITE), WEIGHTS, OFFSET, sign
    )
    return ScaledObjective(plain, 2, ("a", "b", "a (scale)", "b (scale)"), None), response, basis


def user(objective, v):
    """(theta, beta, g) at v, with mpmath's numbers."""
    c = objective.coordinates
    raw = [x / mpf(s) for x, s in zip(v, c.scale, strict=True)]
    raw[0] -= sum(mpf(m) * x for m, x in zip(c.mean, raw, strict=True))
    k = c.n_baseline
    factor = mp.exp(-sum(mpf(m) * x for m, x in zip(c.z_mean, raw[-2:], strict=True)) / 2)
    return [factor * sum(mpf(a) * x for a, x in zip(row, raw[:k], strict=True)) for row in c.matrix] + raw[k:]


CASES = [(name, kind, sign) for name in LINKS for kind, sign in (("mixed", -1.0), ("ordinal", 1.0))]


@pytest.mark.parametrize(("name", "kind", "sign"), CASES)
def test_loss_and_derivatives_in_high_precision(name, kind, sign):
    objective, response, basis = build(name, kind, sign)
    theta = THETA if kind == "mixed" else np.array([-0.4, 0.9])
    others = np.concatenate([BETA, G])
    v = objective.coordinates.join(theta, others)
    for found, wanted in zip(objective.coordinates.split(v), (theta, others), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    mu = np.array([0.7, -1.1, 0.4, 0.9])
    with mp.workdps(50):
        F = DISTRIBUTIONS[name]

        def values(x):
            return textbook(F, basis, response, user(objective, x), sign, X)[0]

        exact = [mpf(x) for x in v]
        middle, r, r_s = textbook(F, basis, response, user(objective, exact), sign, X)
        d, h = v.size, mpf(10) ** -9
        units = [[h if i == j else mpf(0) for i in range(d)] for j in range(d)]

        def moved(*steps):
            return [a + sum(parts) for a, *parts in zip(exact, *steps, strict=True)]

        minus = [[-a for a in u] for u in units]
        up, down = [values(moved(u)) for u in units], [values(moved(u)) for u in minus]
        first = np.array(
            [[float((a - b) / (2 * h)) for a, b in zip(*p, strict=True)] for p in zip(up, down, strict=True)]
        )
        weights = [mpf(1), *map(mpf, mu)]

        def total(parts):
            return sum(a * b for a, b in zip(weights, parts, strict=True))

        second = np.empty((d, d))
        for i in range(d):
            second[i, i] = (total(up[i]) - 2 * total(middle) + total(down[i])) / h**2
            for j in range(i):
                corners = sum(total(values(moved(a[i], a[j]))) for a in (units, minus))
                sides = sum(total(side[k]) for side in (up, down) for k in (i, j))
                second[i, j] = second[j, i] = (corners - sides + 2 * total(middle)) / (2 * h**2)
    sums = objective.sums(v)
    assert -sums.loglik == pytest.approx(float(middle[0]), rel=1e-13)
    np.testing.assert_allclose(sums.t, [float(x) for x in middle[1:]], rtol=1e-11, atol=1e-12)
    found = objective.derivatives(v, mu)
    np.testing.assert_allclose(found.gradient, first[:, 0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.E, first[:, 1:].T, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.hessian, second, rtol=1e-9, atol=1e-10)
    inverse = np.argsort(anchor_columns(SITE).order())
    np.testing.assert_allclose(objective.residuals(v)[inverse], [float(x) for x in r], rtol=1e-11)
    np.testing.assert_allclose(objective.scale_residuals(v)[inverse], [float(x) for x in r_s], rtol=1e-11)
    rows = theta * np.exp(0.5 * X @ G)[:, None]
    shift = sign * (X @ BETA + OFFSET)
    outside = scale_residuals(LINKS[name], build_terms(basis, response), rows, shift)
    np.testing.assert_allclose(outside, [float(x) for x in r_s], rtol=1e-11)


def test_jacobian_of_the_parameters():
    objective, _, _ = build("logit", "mixed", -1.0)
    c = objective.coordinates
    v = c.join(THETA, np.concatenate([BETA, G]))
    columns = [
        (np.concatenate(c.split(v + step)) - np.concatenate(c.split(v - step))) / 2e-6 for step in 1e-6 * np.eye(v.size)
    ]
    np.testing.assert_allclose(c.jacobian_at(v), np.column_stack(columns), rtol=1e-7, atol=1e-9)


@pytest.mark.bug("other software", "scale effects at xi = inf ended in an OverflowError")
def test_scales_beyond_doubles_are_refused():
    objective = build("logit", "ordinal", -1.0)[0]
    coordinates = replace(objective.coordinates, z_mean=np.full_like(objective.coordinates.z_mean, 1e4))
    v = np.ones(objective.n_parameters)
    with pytest.raises(IdentificationError, match="the scale effects diverge"):
        coordinates.split(v)
    with pytest.raises(IdentificationError, match="the scale effects diverge"):
        coordinates.jacobian_at(v)
