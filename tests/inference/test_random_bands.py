"""Bands of averages over random effects: against the delta method on integrals over a grid, and percentiles."""

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import anchortm as atm

RNG = np.random.default_rng(8)
G, M = 40, 5
PERSON, ITEM = np.repeat(np.arange(G), M), RNG.integers(0, 9, G * M)
X = RNG.normal(size=(G * M, 2))
ETA = X @ [0.5, -0.3] + 0.8 * RNG.normal(size=G)[PERSON]
Y = ETA + RNG.logistic(size=G * M)
ROWS = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "person": PERSON})
BOTH = ROWS.assign(item=ITEM)
SITE = [f"s{k}" for k in RNG.integers(0, 6, G * M)]
GRID = np.linspace(-9.0, 9.0, 601)
WEIGHTS = stats.norm.pdf(GRID) / stats.norm.pdf(GRID).sum()
COUNTS, CLASSES = RNG.poisson(np.exp(0.5 * ETA)), np.digitize(Y, [-1.0, 0.5, 2.0])


def fits():
    return {
        "classes": atm.OrdinalRegression(1.0, random="person").fit(ROWS, CLASSES, anchors=SITE),
        "slope": atm.OrdinalRegression(0.0, random={"person": ["1", "x"]}).fit(ROWS, CLASSES, anchors=SITE),
        "counts": atm.AnchorGLM(1.0, family="poisson", random="person").fit(ROWS, COUNTS, anchors=SITE),
        "two terms": atm.OrdinalRegression(0.0, random=["person", "item"]).fit(BOTH, CLASSES, anchors=SITE),
    }


MODELS = fits()


def slow_cdf(name, w, rows, y):
    """Return P(Y <= y) of rows from new clusters at parameters w, the effects integrated on a grid."""
    effects = MODELS[name].result_.random.effects
    k = MODELS[name].baseline_.size
    Z = effects.columns(["x", "z"], X[rows])
    sd = np.sqrt(((Z @ effects.root(w[k + 2 :])) ** 2).sum(axis=1))
    eta = (X[rows] @ w[k : k + 2])[:, None] + sd[:, None] * GRID
    if name == "counts":
        return stats.poisson.cdf(y, np.exp(w[0] + eta)) @ WEIGHTS
    return special.expit(w[y] - eta) @ WEIGHTS


@pytest.mark.parametrize("name", MODELS)
def test_bands_are_those_of_the_delta_method(name):
    model, rows, points = MODELS[name], np.arange(3), [0, 2]
    w, V = model.result_.parameters, model.covariance()
    for of in ("cdf", "sf"):
        band = model.confidence_band(ROWS[:3] if name != "two terms" else BOTH[:3], points, of, level=0.9)
        for j, y in enumerate(points):

            def log_odds(v, y=y):
                return special.logit(slow_cdf(name, v, rows, y))

            units = 1e-5 * np.eye(w.size)
            J = np.array([(log_odds(w + e) - log_odds(w - e)) / 2e-5 for e in units]).T
            width = stats.norm.ppf(0.95) * np.sqrt(np.einsum("ij,jk,ik->i", J, V, J))
            side = 1.0 if of == "cdf" else -1.0
            ends = np.sort([special.expit(side * (log_odds(w) + s * width)) for s in (-1.0, 1.0)], axis=0)
            np.testing.assert_allclose(band.estimate[:, j], special.expit(side * log_odds(w)), rtol=1e-8)
            np.testing.assert_allclose(band.lower[:, j], ends[0], rtol=1e-5)
            np.testing.assert_allclose(band.upper[:, j], ends[1], rtol=1e-5)


def test_simultaneous_bands_are_wider_and_points_without_doubt_stay():
    model = MODELS["classes"]
    alone = model.confidence_band(ROWS[:2], [0, 1, 2, 3])
    together = model.confidence_band(ROWS[:2], [0, 1, 2, 3], simultaneous=True)
    assert (together.lower[:, :3] < alone.lower[:, :3]).all()
    assert (together.upper[:, :3] > alone.upper[:, :3]).all()
    for band in (alone, together):  # the last class
        np.testing.assert_array_equal([band.lower[:, 3], band.upper[:, 3]], 1.0)
    # the critical value lies between those of one point and of three by Bonferroni
    wide, narrow = (special.logit(b.upper[:, 1]) - special.logit(b.estimate[:, 1]) for b in (together, alone))
    assert (wide / narrow < stats.norm.ppf(1 - 0.025 / 3) / stats.norm.ppf(0.975)).all()


def test_normal_models_have_closed_forms():
    """cdf(h / sqrt(1 + tau)), and quantiles (sqrt(1 + tau) z_q - a + x'beta) / b."""
    model = atm.NormalLinear(random="person").fit(ROWS, Y)
    w, V = model.result_.parameters, model.covariance()
    a, b, beta, tau = w[0], w[1], w[2:4], w[4]
    q = np.array([0.2, 0.7])
    wide, z = np.sqrt(1.0 + tau), stats.norm.ppf(q)
    y = (wide * z - a + X[0] @ beta) / b
    J = np.column_stack([np.full(2, -1.0 / b), -y / b, np.tile(X[0] / b, (2, 1)), 0.5 * z / (wide * b)])
    width = stats.norm.ppf(0.975) * np.sqrt(np.einsum("ij,jk,ik->i", J, V, J))
    band = model.confidence_band(ROWS[:1], q, "ppf")
    np.testing.assert_allclose(band.estimate[0], y, rtol=1e-9)
    np.testing.assert_allclose(band.upper[0] - y, width, rtol=1e-5)
    np.testing.assert_allclose(y - band.lower[0], width, rtol=1e-5)


def test_the_bootstrap_takes_percentiles_of_averages():
    model = MODELS["classes"]
    draws = model.bootstrap(n_bootstrap=12, random_state=1)
    band = model.confidence_band(ROWS[:2], [1], uncertainty=draws, level=0.8)
    values = np.array([slow_cdf("classes", w, np.arange(2), 1) for w in draws.draws])
    wanted = np.quantile(values, [0.1, 0.9], axis=0, method="inverted_cdf")
    np.testing.assert_allclose([band.lower[:, 0], band.upper[:, 0]], wanted, rtol=1e-8)


def test_formulas_and_saved_models(tmp_path):
    wine = atm.datasets.load_wine()
    model = atm.OrdinalRegression.from_formula("rating ~ temp + contact + (1 | judge)", wine)
    new = wine.drop(columns="judge")[:2]
    band = model.confidence_band(new, [2, 3])
    np.testing.assert_allclose(band.estimate, model.predict_distribution(new).cdf([2, 3]), rtol=1e-12)
    atm.save(model, tmp_path / "model.json")
    again = atm.load(tmp_path / "model.json").confidence_band(new, [2, 3])
    np.testing.assert_allclose([again.lower, again.upper], [band.lower, band.upper], rtol=1e-12)
