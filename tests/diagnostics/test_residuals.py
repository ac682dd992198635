"""Residuals of two fits against the anchors."""

import matplotlib as mpl
import numpy as np
import pytest

import anchortm as atm

mpl.use("Agg")


def simulate(seed: int, effect: float, n: int = 400, levels: int = 5):
    rng = np.random.default_rng(seed)
    site = rng.integers(0, levels, n)
    x = rng.normal(size=(n, 1)) + 0.5 * site[:, None]
    latent = x[:, 0] + effect * (site - 2) + rng.logistic(size=n)
    return x, latent, site


def test_residuals_before_and_after() -> None:
    x, latent, site = simulate(3, 0.5)
    y = np.digitize(latent, [-1, 1, 3])
    number = np.sin(site * 1.0) + 0.2 * x[:, 0]
    before = atm.OrdinalRegression().fit(x, y)
    after = atm.OrdinalRegression(xi=100.0).fit(x, y, anchors=[site, number])
    result = atm.diagnostics.residual_invariance(before, after, x, y, [site, number])
    table = result.frame()
    assert table.n.tolist()[:5] == np.bincount(site).tolist()
    by_site = atm.OrdinalRegression(xi=100.0).fit(x, y, anchors=site)
    levels = atm.diagnostics.residual_invariance(before, by_site, x, y, site).frame()
    assert levels.mean_after.abs().max() < 0.2 * levels.mean_before.abs().max()
    for name, fit in (("before", before), ("after", after)):
        r = fit.residuals(x, y)
        np.testing.assert_allclose(table[f"mean_{name}"][2], r[site == 2].mean())
        np.testing.assert_allclose(table[f"corr_{name}"][2], np.corrcoef(site == 2, r)[0, 1])
        np.testing.assert_allclose(table[f"corr_{name}"][5], np.corrcoef(number, r)[0, 1])
        A = np.column_stack([np.eye(5)[site], number])
        fitted = A @ np.linalg.lstsq(A, r - r.mean(), rcond=None)[0]
        share = (fitted**2).sum() / ((r - r.mean()) ** 2).sum()
        assert result.explained[name == "after"] == pytest.approx(share)
    assert "share of variance explained" in repr(result)
    assert result.plot().get_ylabel() == "mean score residual"
