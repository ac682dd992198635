"""Confidence bands: the delta method against numerical derivatives, the bootstrap against its refits, coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import simulate

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.inference.bootstrap import resolve
from anchortm.predict.distribution import PredictedDistribution

NEW = np.array([[0.0, 0.0], [2.0, -1.0]])
Z = stats.norm.ppf(0.975)


def positive(latent):
    time = np.exp(latent / 3)
    return atm.Surv(np.minimum(time, 2.5), time < 2.5)


CASES = {
    "normal": (lambda xi: atm.NormalLinear(xi=xi), lambda z: z, [-1.0, 0.5, 3.0]),
    "probit": (lambda xi: atm.ContinuousProbit(xi=xi, order=3), lambda z: z, [-9.0, 0.5, 3.0]),
    "cox": (lambda xi: atm.ProportionalHazards(xi=xi, order=3), positive, [0.5, 1.0, 2.0]),
    "weibull": (lambda xi: atm.ParametricSurvival(xi=xi), positive, [0.5, 1.0, 2.0]),
    "ordinal": (lambda xi: atm.OrdinalRegression(xi=xi), lambda z: np.digitize(z, [-1, 1, 3]), [0, 1, 2]),
    "count": (
        lambda xi: atm.CountRegression(xi=xi, order=2, support=(0, 20)),
        lambda z: np.floor(np.exp(z / 2)).astype(int),
        [0, 1, 5],
    ),
}
cases = pytest.mark.parametrize("name", CASES)


def moved(fit, j: int, step: float, x):
    """Return the predicted distribution with one parameter moved."""
    w = np.concatenate([fit.baseline_, fit.coef_])
    w[j] += step
    k = fit.baseline_.size
    return PredictedDistribution(fit.link_, fit.basis_, w[:k], fit._sign * (x @ w[k:]), fit.time_)


@cases
@pytest.mark.parametrize("xi", [0.0, 2.0])
@pytest.mark.parametrize("of", ["cdf", "ppf"])
def test_delta_method_by_numerical_derivatives(name: str, xi: float, of: str) -> None:
    if of == "ppf" and name in ("ordinal", "count"):
        return  # refused, see below
    make, response, at = CASES[name]
    x, latent, site = simulate(1)
    fit = make(xi).fit(x, response(latent), anchors=site)
    V = resolve(fit, None)
    step = 1e-5
    d = V.shape[0]
    points = at if of == "cdf" else [0.2, 0.5, 0.7]
    logs = of == "ppf" and name in ("cox", "weibull")

    def value(j, sign):
        dist = moved(fit, j, sign * step, NEW)
        v = dist.trafo(points) if of == "cdf" else dist.ppf(points)
        return np.log(v) if logs else v

    J = np.array([(value(j, 1) - value(j, -1)) / (2 * step) for j in range(d)])
    error = np.sqrt(np.einsum("jnm,jk,knm->nm", J, V, J))
    band = fit.confidence_band(NEW, points, of)
    centre = value(0, 0)
    back = (lambda h: np.exp(fit.link_.log_cdf(h))) if of == "cdf" else (np.exp if logs else lambda v: v)
    np.testing.assert_allclose(band.estimate, back(centre), rtol=1e-10)
    np.testing.assert_allclose(band.lower, back(centre - Z * error), rtol=1e-5)
    np.testing.assert_allclose(band.upper, back(centre + Z * error), rtol=1e-5)
    if of == "cdf":
        survivor = fit.confidence_band(NEW, points, "sf")
        np.testing.assert_allclose(survivor.lower, 1 - band.upper, atol=1e-12)
        np.testing.assert_allclose(survivor.upper, 1 - band.lower, atol=1e-12)


@cases
def test_bootstrap_bands_are_percentiles_of_refits(name: str) -> None:
    make, response, at = CASES[name]
    x, latent, site = simulate(2, n=400, levels=40)
    fit = make(1.0).fit(x, response(latent), anchors=site)
    boot = fit.bootstrap(60, random_state=1)
    k = fit.baseline_.size
    dists = [
        PredictedDistribution(fit.link_, fit.basis_, w[:k], fit._sign * (NEW @ w[k:]), fit.time_) for w in boot.draws
    ]
    for of in ("cdf", "ppf"):
        if of == "ppf" and name in ("ordinal", "count"):
            continue
        points = at if of == "cdf" else [0.2, 0.5, 0.7]
        band = fit.confidence_band(NEW, points, of, level=0.9, uncertainty=boot)
        values = np.array([getattr(d, of)(points) for d in dists])
        lower, upper = np.quantile(values, [0.05, 0.95], axis=0, method="inverted_cdf")
        np.testing.assert_allclose(band.lower, lower, rtol=1e-8)
        np.testing.assert_allclose(band.upper, upper, rtol=1e-8)
        wide = fit.confidence_band(NEW, points, of, level=0.9, uncertainty=boot, simultaneous=True)
        assert (wide.upper - wide.lower >= 0.7 * (band.upper - band.lower)).all()
        assert "bootstrap of 60" in repr(wide)


def test_simultaneous_bands_are_wider_and_hold_everywhere() -> None:
    x, latent, site = simulate(3)
    fit = atm.ContinuousProbit(xi=1.0, order=3).fit(x, latent, anchors=site)
    grid = np.linspace(-4, 6, 40)
    one, all_ = (fit.confidence_band(NEW, grid, simultaneous=s) for s in (False, True))
    assert (all_.lower < one.lower).all()
    assert (all_.upper > one.upper).all()
    # the band holds a draw of the parameters as a whole in 95 % of draws
    draws = np.random.default_rng(5).multivariate_normal(
        np.concatenate([fit.baseline_, fit.coef_]), fit.covariance(), size=4000
    )
    k = fit.baseline_.size
    h = draws[:, :k] @ fit.basis_.rows(grid).T - (draws[:, k:] @ NEW[1])[:, None]
    cdf = stats.norm.cdf(h)
    held = ((cdf >= all_.lower[1]) & (cdf <= all_.upper[1])).all(axis=1)
    assert held.mean() == pytest.approx(0.95, abs=0.015)


def test_offsets_move_the_band() -> None:
    x, latent, _ = simulate(4)
    fit = atm.NormalLinear().fit(x, latent, offset=0.3 * x[:, 1])
    shifted = fit.confidence_band(NEW, [0.0, 1.0], offset=[0.5, -0.5])
    np.testing.assert_allclose(shifted.estimate, fit.predict_distribution(NEW, offset=[0.5, -0.5]).cdf([0.0, 1.0]))
    boot = fit.bootstrap(30, random_state=0)
    band = fit.confidence_band(NEW, [0.0, 1.0], offset=[0.5, -0.5], uncertainty=boot)
    assert ((band.lower < shifted.estimate) & (shifted.estimate < band.upper)).all()


def test_unconditional_model_and_classes() -> None:
    _, latent, _ = simulate(5)
    fit = atm.AnchorTM(order=4).fit(None, latent)
    band = fit.confidence_band(None, [0.0, 2.0])
    assert band.estimate.shape == (1, 2)
    # about the binomial error of an empirical distribution
    p = (latent <= 2.0).mean()
    assert (band.upper - band.lower)[0, 1] == pytest.approx(2 * Z * np.sqrt(p * (1 - p) / 150), rel=0.3)
    words = np.array(["low", "mid", "high"])[np.digitize(latent, [-1, 2])]
    y = pd.Categorical(words, ["low", "mid", "high"], ordered=True)
    ordinal = atm.OrdinalRegression().fit(latent[:, None] ** 2 / 10, y)
    table = ordinal.confidence_band([[0.1]], ["low", "mid", "high"]).frame()
    assert table.upper.iloc[-1] == table.lower.iloc[-1] == 1.0
    assert list(table.y) == ["low", "mid", "high"]


def test_held_increments_do_not_blow_a_band_up() -> None:
    """A gap between two humps: most increments are held at zero, which R's vcov does not know."""
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.normal(-3, 0.3, 150), rng.normal(3, 0.3, 150)])
    fit = atm.ContinuousLogit(order=10).fit(None, y)
    assert fit.active_.sum() > 3
    default = fit.confidence_band(None, [0.0])
    boot = fit.confidence_band(None, [0.0], uncertainty=fit.bootstrap(100, random_state=0))
    np.testing.assert_allclose(default.upper - default.lower, boot.upper - boot.lower, rtol=0.3)
    assert fit.confidence_band(None, [0.0], uncertainty="hessian").upper > 0.99


def test_refusals() -> None:
    x, latent, _ = simulate(6)
    fit = atm.NormalLinear().fit(x, latent)
    other = atm.ContinuousLogit(order=3).fit(x, latent)
    count = atm.CountRegression(order=2, support=(0, 20)).fit(x, np.floor(np.exp(latent / 2)).astype(int))
    for call, message in (
        (lambda: fit.confidence_band(NEW, [0.0], "pdf"), "'cdf', 'sf' or 'ppf'"),
        (lambda: fit.confidence_band(NEW, [0.0, 1.0], "ppf"), "between 0 and 1"),
        (lambda: fit.confidence_band(NEW, [[0.0]]), "number or a vector"),
        (lambda: fit.confidence_band(NEW, 0.0, level=2.0), "level must be a number between 0 and 1"),
        (lambda: count.confidence_band(NEW, [0.5], "ppf"), "jump"),
        (lambda: fit.confidence_band(NEW, 0.0, uncertainty=np.eye(3)), "has shape"),
        (lambda: fit.confidence_band(NEW, 0.0, uncertainty=other.bootstrap(3)), "the model has 4"),
        (lambda: fit.confidence_band(NEW, [np.nan, 0.0]), "at contains NaN"),
    ):
        with pytest.raises(InputError, match=message):
            call()
