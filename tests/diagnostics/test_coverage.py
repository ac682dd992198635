"""Calibration by environment."""

import matplotlib as mpl
import numpy as np

import anchortm as atm

mpl.use("Agg")


def simulate(seed: int, effect: float, n: int = 400, levels: int = 5):
    rng = np.random.default_rng(seed)
    site = rng.integers(0, levels, n)
    x = rng.normal(size=(n, 1)) + 0.5 * site[:, None]
    latent = x[:, 0] + effect * (site - 2) + rng.logistic(size=n)
    return x, latent, site


def test_calibration_by_environment() -> None:
    x, latent, site = simulate(5, 0.0, n=2000)
    normal = x[:, 0] + np.random.default_rng(1).normal(size=2000)
    for make, y in (
        (atm.NormalLinear, normal),
        (lambda: atm.ContinuousLogit(order=3), latent),
        (lambda: atm.ContinuousLogit(log_first=True), atm.Surv(np.exp(np.minimum(latent, 3)), latent < 3)),
        (atm.OrdinalRegression, np.digitize(latent, [-1, 1, 3])),
    ):
        fit = make().fit(x, y)
        result = atm.diagnostics.calibration(fit, x, y, site)
        table = result.frame()
        assert table.environment.tolist() == ["(all)", 0, 1, 2, 3, 4]
        assert table.n[0] == table.n[1:].sum() == 2000
        assert table.pvalue.min() > 1e-3
        np.testing.assert_allclose(table.coverage_90, 0.9, atol=0.06)
        np.testing.assert_allclose(table.coverage_50, 0.5, atol=0.08)
    shifted = latent + 2.0 * (site == 3)
    worst = atm.diagnostics.calibration(atm.NormalLinear().fit(x, latent), x, shifted, site).frame()
    assert worst.set_index("environment").loc[3, "pvalue"] < 1e-10
    assert worst.set_index("environment").loc[3, "pit"] > 0.7
    ax = result.plot()
    assert "calibrated" in [t.get_text() for t in ax.get_legend().get_texts()]
