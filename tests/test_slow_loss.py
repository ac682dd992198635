"""The slow loss against definitions that are slower still."""

from dataclasses import replace

import numpy as np
import pytest
from parts_cases import make, parameters
from scipy import integrate, stats
from slow_loss import TINY


def at_fit(*parts: str, outcome: str):
    """Return the loss and parameters of a fit."""
    case = make(set(parts), outcome=outcome)
    model = case.fit(xi=0.0)
    return replace(case.stated(model), xi=0.5), parameters(case, model)


@pytest.mark.parametrize("outcome", ["cox", "breslow"])
def test_residuals_of_a_partial_likelihood_are_its_derivatives(outcome: str) -> None:
    stated, w = at_fit("partial", "strata", "weights", "offset", outcome=outcome)
    assert np.unique(stated.lower).size < stated.lower.size  # ties
    _, r, _ = stated.terms(w)
    for i in range(0, r.size, 7):
        moved = replace(stated, offset=stated.offset - 1j * TINY * np.eye(r.size)[i])
        assert moved.loglik(w).imag / TINY / stated.weights[i] == pytest.approx(r[i], abs=1e-12)


@pytest.mark.parametrize("outcome", ["normal", "ordinal"])
def test_clusters_are_integrals(outcome: str) -> None:
    stated, w = at_fit("random", outcome=outcome)
    keep = stated.cluster == 3
    alone, tau = stated.rows_of(keep), w[-1]

    def density(b: float, i: int | None = None) -> float:
        rows = alone.rows(w, np.full(keep.sum(), b))
        value = np.exp(rows.sum()) * stats.norm.pdf(b, scale=tau)
        return value if i is None else value * alone._slope(w, np.full(keep.sum(), b), "shift")[i]

    ends = {"a": -8.0 * tau, "b": 8.0 * tau, "epsabs": 1e-14, "epsrel": 1e-11}
    likelihood = integrate.quad(density, **ends)[0]
    assert alone.loglik(w) == pytest.approx(np.log(likelihood), abs=1e-9)
    mean = integrate.quad(density, args=(0,), **ends)[0] / likelihood
    assert alone.terms(w)[1][0] == pytest.approx(mean, abs=1e-8)


def test_the_laplace_approximation_is_exact_for_normal_rows() -> None:
    """Crossed normal effects: y is normal with covariance I + tau_1^2 Z_1 Z_1' + tau_2^2 Z_2 Z_2' on the scale of h."""
    stated, w = at_fit("random", outcome="normal")
    item = make({"random"}).data.item.to_numpy()
    crossed, w = replace(stated, crossed=item), np.r_[w, 0.4]
    (a, b), beta = w[:2], w[2:4]
    z = a + b * stated.upper - stated.X @ beta
    covariance = np.eye(z.size)
    for tau, code in zip(w[4:], (stated.cluster, item), strict=True):
        covariance += tau**2 * (code[:, None] == code)
    wanted = stats.multivariate_normal(cov=covariance).logpdf(z) + z.size * np.log(b)
    assert crossed.loglik(w) == pytest.approx(wanted, rel=1e-11)
    np.testing.assert_allclose(crossed.terms(w)[1], np.linalg.solve(covariance, z), atol=1e-10)


def test_the_hessian_is_that_of_the_loss() -> None:
    stated, w = at_fit("scale", "l2", outcome="logit")
    e, step = np.eye(w.size)[1], 1e-3
    second = (stated.loss(w + step * e) - 2.0 * stated.loss(w) + stated.loss(w - step * e)) / step**2
    assert stated.hessian(w)[1, 1] == pytest.approx(second, rel=1e-4)
