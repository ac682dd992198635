"""Predicted distributions: against R's predictions, against scipy, and against themselves."""

import math

import numpy as np
import pandas as pd
import pytest
from reference_fits import COVARIATES, UNSTRATIFIED, Fit, boston_response, data, load
from scipy import integrate, special, stats
from simulated import FOUR

import anchortm as atm
from anchortm.bases import Basis, BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.exceptions import InputError, InputTypeError
from anchortm.links import LINKS, Link
from anchortm.predict.distribution import PredictedDistribution

BOSTON = data("BostonHousing2")
X, Y, TOWN = BOSTON[COVARIATES], BOSTON.cmedv, BOSTON.town


def distribution_of(fit: Fit) -> PredictedDistribution:
    rows = np.array(fit.reference["pred"]["rows_1based"]) - 1
    return PredictedDistribution(fit.link, fit.basis, fit.theta, (fit.shift - fit.offset)[rows])


@pytest.mark.parametrize("fit", [load(name) for name in UNSTRATIFIED], ids=UNSTRATIFIED)
def test_values_agree_with_r(fit: Fit) -> None:
    dist, wanted = distribution_of(fit), fit.reference["pred"]
    grid = np.array(wanted["ygrid"], dtype=object if fit.basis.kind == "ordinal" else float)
    discrete = fit.basis.discrete
    last = slice(None, -1 if fit.basis.kind == "ordinal" else None)  # R gives no transformation of the last class
    for key, method in (
        ("trafo", dist.trafo),
        ("distribution", dist.cdf),
        ("density", dist.pmf if discrete else dist.pdf),
        ("hazard", dist.hazard),
    ):
        if wanted[key] is None or (discrete and key == "hazard"):
            continue
        table, ours = np.array(wanted[key], dtype=float).T, method(grid)
        if key == "hazard":  # R divides by 1 - F, which has lost its digits in the upper tail
            lost = dist.sf(grid) < 1e-7
            table, ours = np.where(lost, 0.0, table), np.where(lost, 0.0, ours)
        np.testing.assert_allclose(ours[:, last], table[:, last], rtol=1e-6, atol=1e-9, err_msg=key)
    if wanted["quantile_exact"] and not discrete:
        exact = np.array(wanted["quantile_exact"], dtype=float).T
        ours = dist.ppf(wanted["quantile_probs"])
        if (exact == 1e-9).any():  # R's bounds for censored numbers are (0, inf)
            ours = np.maximum(ours, 0.0)
        np.testing.assert_allclose(ours, exact, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dist.sf(grid), 1.0 - dist.cdf(grid), atol=1e-12)
    np.testing.assert_allclose(np.exp(-dist.cumhazard(grid)), dist.sf(grid), rtol=1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(dist.odds(grid)[:, last], (dist.cdf(grid) / dist.sf(grid))[:, last], rtol=1e-10)


MODELS = {
    "linear": lambda: atm.NormalLinear(xi=2.0).fit(X, Y, anchors=TOWN),
    "probit": lambda: atm.ContinuousProbit(xi=2.0).fit(X, Y, anchors=TOWN),
    "logit log": lambda: atm.ContinuousLogit(log_first=True).fit(X, Y),
    "cox": lambda: atm.ProportionalHazards().fit(X, atm.Surv(Y, Y != 50)),
    "lehmann": lambda: atm.Lehmann().fit(X, Y),
    "weibull": lambda: atm.ParametricSurvival().fit(X, atm.Surv(Y, Y != 50)),
}
models = pytest.mark.parametrize("name", MODELS)
Q = np.array([1e-12, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999, 1 - 1e-9])


@models
def test_quantiles_invert_the_distribution(name: str) -> None:
    dist = MODELS[name]().predict_distribution(X[:20])
    y = dist.ppf(Q)
    reached = dist.cdf(y)
    inside = y > 0 if dist.positive else np.ones(y.shape, bool)
    np.testing.assert_allclose(reached[inside], np.broadcast_to(Q, y.shape)[inside], rtol=1e-10)
    far = dist.isf([1e-30, 1e-200])
    np.testing.assert_allclose(dist.logsf(far), np.broadcast_to(np.log([1e-30, 1e-200]), far.shape), rtol=1e-9)


@models
def test_densities_are_derivatives_and_integrate_to_one(name: str) -> None:
    dist = MODELS[name]().predict_distribution(X[:3])
    y = np.array([8.0, 15.0, 22.0, 30.0, 44.0])
    step = 1e-4
    np.testing.assert_allclose(
        dist.pdf(y), (dist.cdf(y + step) - dist.cdf(y - step)) / (2 * step), rtol=1e-5, atol=1e-9
    )
    low, high = dist.ppf(1e-10).min(), dist.isf(1e-12).max()
    for i in range(3):
        knots = [p for p in (*getattr(dist.basis, "support", ()), *dist[i].ppf([0.1, 0.5, 0.9])[0]) if low < p < high]
        area, _ = integrate.quad(lambda t, i=i: float(dist[i].pdf(t)[0]), low, high, points=knots, limit=300)
        atom = float(dist[i].cdf(low + 1e-12)[0])
        assert area == pytest.approx(1.0 - atom, abs=1e-6)


@models
def test_mean_by_quadrature(name: str) -> None:
    dist = MODELS[name]().predict_distribution(X[:3])
    mean = dist.mean()
    for i in range(3):
        low = 0.0 if dist._bounded_below else float(dist[i].ppf(1e-15)[0])
        high = float(dist[i].isf(1e-15)[0])
        knots = [p for p in (*getattr(dist.basis, "support", ()), *dist[i].ppf([0.1, 0.5, 0.9])[0]) if low < p < high]
        area, _ = integrate.quad(
            lambda t, i=i: float(dist[i].sf(t)[0]), low, high, points=knots, limit=500, epsabs=1e-10, epsrel=1e-12
        )
        assert mean[i] == pytest.approx(low + area, rel=1e-7)


def test_mean_and_quantiles_against_scipy() -> None:
    linear = atm.NormalLinear().fit(X, Y)
    dist = linear.predict_distribution(X[:5])
    np.testing.assert_allclose(dist.mean(), linear.predict(X[:5]), rtol=1e-9)
    np.testing.assert_allclose(dist.ppf(0.2), linear.predict(X[:5]) + linear.sigma_ * stats.norm.ppf(0.2), rtol=1e-9)
    weibull = atm.ParametricSurvival().fit(X, Y)
    dist = weibull.predict_distribution(X[:5])
    shape = weibull.baseline_[1]
    scale = np.exp(-(weibull.baseline_[0] - dist.shift) / shape)
    np.testing.assert_allclose(dist.mean(), stats.weibull_min.mean(shape, scale=scale), rtol=1e-8)
    lognormal = atm.ParametricSurvival(dist="lognormal").fit(X, Y)
    dist = lognormal.predict_distribution(X[:5])
    s = 1 / lognormal.baseline_[1]
    scale = np.exp(-(lognormal.baseline_[0] - dist.shift) * s)
    np.testing.assert_allclose(dist.mean(), stats.lognorm.mean(s, scale=scale), rtol=1e-8)
    loglogistic = PredictedDistribution(
        LINKS["logit"], atm.ParametricSurvival(dist="loglogistic").fit(X, Y).basis_, np.array([0.0, 1.3]), np.zeros(1)
    )
    np.testing.assert_allclose(loglogistic.mean(), stats.fisk.mean(1.3), rtol=1e-7)
    heavy = PredictedDistribution(LINKS["logit"], loglogistic.basis, np.array([0.0, 0.9]), np.zeros(2))
    assert np.isposinf(heavy.mean()).all()


def test_shapes() -> None:
    dist = MODELS["probit"]().predict_distribution(X[:4])
    assert dist.cdf(20.0).shape == (4,)
    assert dist.cdf([20.0, 25.0, 30.0, 35.0]).shape == (4, 4)
    assert dist.cdf([20.0]).shape == (4, 1)
    table = np.arange(8.0).reshape(4, 2) + 15
    by_row = dist.cdf(table)
    assert by_row.shape == (4, 2)
    np.testing.assert_allclose(by_row[2], dist[2].cdf(table[2])[0])
    assert dist.ppf(0.5).shape == (4,)
    assert dist.ppf([0.1, 0.9]).shape == (4, 2)
    assert dist.rvs(7, random_state=1).shape == (4, 7)
    low, high = dist.interval(0.8)
    np.testing.assert_allclose(dist.cdf(high[:, None])[:, 0] - dist.cdf(low[:, None])[:, 0], 0.8)
    np.testing.assert_array_equal(dist.median(), dist.ppf(0.5))
    assert len(dist) == 4
    assert "4 rows of numbers" in repr(dist)
    with pytest.raises(InputError, match=r"of shape \(4, k\)"):
        dist.cdf(np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        dist.ppf(1.2)


def test_draws_follow_the_distribution() -> None:
    dist = MODELS["cox"]().predict_distribution(X[:2])
    draws = dist.rvs(4000, random_state=0)
    for i in range(2):
        assert stats.kstest(draws[i], lambda t, i=i: dist[i].cdf(t)[0]).pvalue > 0.01
    np.testing.assert_array_equal(draws, dist.rvs(4000, random_state=0))


def test_times_live_above_zero() -> None:
    rng = np.random.default_rng(0)
    t = rng.exponential(size=400)
    model = atm.ContinuousLogit().fit(None, atm.Surv(t, np.ones(400)))
    dist = model.predict_distribution()
    assert dist.cdf([-1.0, 0.0])[0].tolist() == [0.0, 0.0]
    atom = dist.cdf(1e-12)[0]
    assert 0 < atom < 0.2
    assert dist.ppf(0.5 * atom)[0] == 0.0
    assert dist.mean()[0] == pytest.approx(
        integrate.quad(lambda s: float(dist.sf(s)[0]), 0, 60, limit=400)[0], rel=1e-6
    )


@pytest.mark.parametrize("name", ["cox", "weibull", "linear"])
def test_given_survival(name: str) -> None:
    dist = MODELS[name]().predict_distribution(X[:5])
    later = dist.given(after=20.0)
    y = np.array([10.0, 20.0, 25.0, 40.0])
    wanted = np.where(y > 20.0, (dist.cdf(y) - dist.cdf([20.0])) / dist.sf([20.0]), 0.0)
    np.testing.assert_allclose(later.cdf(y), wanted, atol=1e-12)
    np.testing.assert_allclose(later.cdf(later.ppf(Q)), np.broadcast_to(Q, (5, Q.size)), atol=1e-12)
    assert (later.median() > 20.0).all()
    np.testing.assert_allclose(later.pdf(y), np.where(y > 20, dist.pdf(y) / dist.sf([20.0]), 0.0), rtol=1e-9)
    np.testing.assert_allclose(later.hazard(y)[:, 2:], dist.hazard(y)[:, 2:], rtol=1e-8)
    top = float(later.isf(1e-14).max())
    for i in range(5):
        rest, _ = integrate.quad(lambda t, i=i: float(later[i].sf(t)[0]), 20.0, top, limit=500, points=[25.0, 34.7])
        assert later.mean()[i] == pytest.approx(20.0 + rest, rel=1e-6)


def test_flat_ends_have_infinite_quantiles() -> None:
    basis = atm.ContinuousProbit(order=3, support=(0.0, 1.0)).fit(None, np.random.default_rng(0).random(200)).basis_
    dist = PredictedDistribution(LINKS["probit"], basis, np.array([-1.0, 0.0, 1.0, 1.0]), np.zeros(1))
    assert np.isinf(dist.ppf(0.99)[0])
    assert dist.ppf(0.5)[0] == pytest.approx(float(basis.inverse(dist.theta, 0.0)))
    assert np.isposinf(dist.mean()[0])


def test_ordinal() -> None:
    grades = pd.Series(pd.cut(Y, [0, 15, 21, 30, 51], labels=["poor", "fair", "good", "dear"]))
    model = atm.OrdinalRegression().fit(X, grades)
    dist = model.predict_distribution(X[:6])
    np.testing.assert_allclose(dist.probabilities(), model.predict_proba(X[:6]), rtol=1e-12)
    np.testing.assert_allclose(dist.probabilities().sum(axis=1), 1.0)
    np.testing.assert_allclose(dist.cdf("dear"), 1.0)
    np.testing.assert_allclose(dist.cdf("fair"), dist.probabilities()[:, :2].sum(axis=1))
    np.testing.assert_allclose(dist.pmf("good"), dist.probabilities()[:, 2])
    np.testing.assert_array_equal(dist.mode(), model.predict(X[:6]))
    below = dist.cdf(np.array([*model.classes_], dtype=object))
    for q in (0.1, 0.5, 0.9):
        wanted = [model.classes_[np.searchsorted(row, q)] for row in below]
        assert dist.ppf(q).tolist() == wanted
    assert set(dist.rvs(5, random_state=0).ravel()) <= set(model.classes_)
    with pytest.raises(InputError, match="unknown class 'cheap'"):
        dist.cdf("cheap")
    with pytest.raises(InputTypeError, match="no mean"):
        dist.mean()
    with pytest.raises(InputTypeError, match="continuous outcomes"):
        dist.given(1.0)


def test_counts() -> None:
    ticks = data("grouseticks")
    frame = ticks[["cHEIGHT"]].assign(y96=(ticks.YEAR == 96) * 1.0, y97=(ticks.YEAR == 97) * 1.0)
    model = atm.CountRegression(xi=1.0).fit(frame, ticks.TICKS, anchors=ticks.LOCATION)
    dist = model.predict_distribution(frame[:5])
    k = np.arange(400.0)
    np.testing.assert_allclose(np.cumsum(dist.pmf(k), axis=1), dist.cdf(k), atol=1e-12)
    assert (dist.pmf([0.5, -1.0]) == 0).all()
    np.testing.assert_allclose(dist.cdf([2.7]), dist.cdf([2.0]))
    np.testing.assert_array_equal(dist.median(), model.predict(frame[:5]))
    # a slow tail: the sum of the survival function to 2e6, and its power law beyond
    slope = model.basis_.end_slopes(model.baseline_)[1]
    assert slope > 1
    last = 2e6
    for i in range(2):
        head = dist[i].sf(np.arange(last)).sum()
        tail = float(dist[i].sf(last)[0]) * (last + 1) / (slope - 1)
        assert dist.mean()[i] == pytest.approx(head + tail, rel=1e-5)
    assert dist.mode().tolist() == np.argmax(dist.pmf(k), axis=1).tolist()
    assert (dist.cdf(dist.ppf([0.2, 0.8])) >= np.array([0.2, 0.8]) - 1e-12).all()
    with pytest.raises(InputTypeError, match="use pmf for counts"):
        dist.probabilities()


def test_a_continuous_outcome_has_no_pmf() -> None:
    dist = MODELS["linear"]().predict_distribution(X[:2])
    with pytest.raises(InputTypeError, match="no pmf"):
        dist.pmf(3.0)
    with pytest.raises(InputTypeError, match="discrete"):
        dist.mode()


def test_log_density_is_minus_the_nll() -> None:
    for name in MODELS:
        model = MODELS[name]()
        logpdf = model.predict_distribution(X).logpdf(Y.to_numpy()[:, None])[:, 0]
        np.testing.assert_allclose(-model.nll(X, Y), logpdf, rtol=1e-9)
    y = boston_response("ord6")
    ordinal = atm.OrdinalRegression().fit(X, y)
    labels = np.array(y.levels, dtype=object)[y.codes]
    np.testing.assert_allclose(ordinal.predict_distribution(X).logpdf(labels[:, None])[:, 0], -ordinal.nll(X, y))


@pytest.mark.parametrize(
    ("basis", "theta"),
    [
        (BernsteinBasis(4, (1.0, 5.0)), np.array([[-2.0, -1.0, 0.5, 1.0, 2.0], [-3.0, -1.0, -1.0, 0.2, 1.0]])),
        (LinearBasis(), np.array([[-1.0, 1.0], [0.5, 2.0]])),
        (LogLinearBasis(), np.array([[-1.0, 1.5], [0.5, 2.0]])),
        (CountBasis(3, (0.0, 9.0)), np.array([[-1.0, 0.0, 1.0, 3.0], [-2.0, 0.0, 1.5, 2.0]])),
        (OrdinalBasis(("a", "b", "c")), np.array([[-1.0, 1.0], [0.0, 0.5]])),
    ],
)
def test_rows_with_baselines_of_their_own(basis: Basis, theta: np.ndarray) -> None:
    shift = np.array([0.3, -0.2, 0.1, 0.4, -0.5])
    own = theta[[0, 1, 0, 1, 1]]
    together = PredictedDistribution(LINKS["logit"], basis, own, shift)
    apart = [PredictedDistribution(LINKS["logit"], basis, t, shift[[i]]) for i, t in enumerate(own)]
    y = np.array(["b", "a", "b"], dtype=object) if basis.kind == "ordinal" else np.array([1.0, 2.0, 4.0])
    for ask in ("cdf", "logsf", "pdf", "hazard", "trafo"):
        wanted = np.vstack([getattr(d, ask)(y) for d in apart])
        np.testing.assert_allclose(getattr(together, ask)(y), wanted, rtol=1e-14, atol=1e-300)
    q = np.linspace(0.05, 0.95, 7)
    wanted = np.vstack([d.ppf(q) for d in apart])
    if basis.kind == "ordinal":
        assert (together.ppf(q) == wanted).all()
        return
    np.testing.assert_allclose(together.ppf(q), wanted, rtol=1e-13)
    np.testing.assert_allclose(together.mean(), np.concatenate([d.mean() for d in apart]), rtol=1e-13)
    np.testing.assert_allclose(together[1:3].ppf(0.3), [d.ppf(0.3)[0] for d in apart[1:3]], rtol=1e-13)
    if not basis.discrete:
        later = together.given(np.full(5, 1.5))
        np.testing.assert_allclose(later.sf(3.0), [d.given(1.5).sf(3.0)[0] for d in apart], rtol=1e-13)
        np.testing.assert_allclose(later.ppf(0.5), [d.given(1.5).ppf(0.5)[0] for d in apart], rtol=1e-13)
        crps = np.concatenate([atm.scores.crps(d, np.array([2.0])) for d in apart])
        np.testing.assert_allclose(atm.scores.crps(together, np.full(5, 2.0)), crps, rtol=1e-6)


SHIFT = {
    "AnchorTM": atm.AnchorTM(link="logit", basis="bernstein", order=3),
    "ContinuousLogit": atm.ContinuousLogit(order=3),
    "ContinuousProbit": atm.ContinuousProbit(order=3),
    "CountRegression": atm.CountRegression(order=2),
    "CoxPH": atm.CoxPH(),
    "Lehmann": atm.Lehmann(order=3),
    "NormalLinear": atm.NormalLinear(),
    "OrdinalRegression": atm.OrdinalRegression(),
    "ParametricSurvival": atm.ParametricSurvival(),
    "ProportionalHazards": atm.ProportionalHazards(order=3),
    "AnchorGLM": atm.AnchorGLM(family="poisson"),
    "AnchorGLM, binomial": atm.AnchorGLM(family="binomial"),
    "AnchorBoostedTM": atm.AnchorBoostedTM(atm.ContinuousLogit(order=3), n_rounds=3),
    "AnchorBoostedTM, hazards": atm.AnchorBoostedTM(atm.ProportionalHazards(order=3), learner="linear", n_rounds=3),
    "AnchorBoostedTM, linear+tree": atm.AnchorBoostedTM(
        atm.ContinuousLogit(order=3), learner="linear+tree", n_rounds=3
    ),
    "WorstEnvironment": atm.WorstEnvironment(atm.ContinuousLogit(order=3)),
    "XiSearchCV": atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0]),
    "SmoothSearchCV": atm.SmoothSearchCV(atm.NormalLinear(), [0.0], [1.0, 10.0]),
    "ElasticNetCV": atm.ElasticNetCV(atm.NormalLinear(), [0.0], [0.01, 0.1]),
    "strata": atm.ContinuousLogit(order=2, strata="site"),
    "strata, steps": atm.CoxPH(strata="site"),
    "varying": atm.ContinuousLogit(order=2, varying="z"),
    "scale": atm.NormalLinear(scale="x"),
    "random": atm.ContinuousLogit(order=2, random="site"),
    "random, hazards": atm.ProportionalHazards(order=2, random="site"),
    "random, normal": atm.ContinuousProbit(order=2, random="site"),
}


def _shift_data(name: str) -> tuple[pd.DataFrame, object, pd.Series]:
    rng = np.random.default_rng(2)
    site = pd.Series(np.repeat(["a", "b", "c", "d"], 30), name="site")
    frame = pd.DataFrame({"x": rng.normal(size=120), "z": 3.0 + rng.normal(size=120)})
    place = rng.normal(size=4).repeat(30)
    y = np.exp(0.5 * frame.x + 0.3 * place + 0.4 * rng.normal(size=120)).to_numpy()
    if "strata" in name or "random" in name:
        frame["site"] = site
    kinds = {
        "CountRegression": np.floor(2 * y),
        "AnchorGLM": np.floor(2 * y),
        "AnchorGLM, binomial": y > 1.0,
        "OrdinalRegression": np.digitize(y, [0.5, 1.5]),
    }
    return frame, kinds.get(name, y), site


@pytest.mark.bug(
    "other software", "the shift of a predicted distribution had the opposite sign of an offset, but for hazards"
)
@pytest.mark.parametrize("name", SHIFT)
def test_shift_is_the_linear_predictor_with_the_offset(name: str) -> None:
    """One sign for all models: what is added to the offset is added to the shift, and h follows by its gain."""
    frame, y, site = _shift_data(name)
    if name == "SmoothSearchCV":  # smooth terms come from a formula
        table = frame.assign(y=y, site=site)
        model = type(SHIFT[name]).from_formula("y ~ s(x) + z | site", table, **SHIFT[name].get_params(deep=False))
    else:
        model = SHIFT[name].fit(frame, y, **({"anchors": site} if name.endswith(("CV", "Environment")) else {}))
    offset = np.linspace(-1.0, 2.0, 120)
    plain, moved = model.predict_distribution(frame), model.predict_distribution(frame, offset=offset)
    np.testing.assert_allclose(moved.shift - plain.shift, offset, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(moved[3:7].shift, moved.shift[3:7])
    inner = getattr(model, "best_estimator_", model)
    if "Boosted" not in name and name != "SmoothSearchCV":
        columns = frame[[column for column in inner.coef_names_ if column in frame]]
        np.testing.assert_allclose(plain.shift, columns @ inner.coef_, rtol=1e-12, atol=1e-12)
    # what the offset does to the distribution
    hazards = "hazards" in name or name in ("CoxPH", "ProportionalHazards", "strata, steps") or "GLM" in name
    at = 1 if name == "OrdinalRegression" else 1.0
    if name == "AnchorGLM":
        np.testing.assert_allclose(moved.mean(), plain.mean() * np.exp(offset), rtol=1e-12)
    elif name == "AnchorGLM, binomial":
        before, after = (special.logit(dist.mean()) for dist in (plain, moved))
        np.testing.assert_allclose(after - before, offset, rtol=1e-9, atol=1e-9)
    elif name in ("CoxPH", "strata, steps"):
        np.testing.assert_allclose(moved.cumhazard(1.0), plain.cumhazard(1.0) * np.exp(offset), rtol=1e-12)
    elif name in ("random", "random, hazards"):
        higher = moved.sf(1.0) > plain.sf(1.0)
        np.testing.assert_array_equal(higher, (offset < 0) if hazards else (offset > 0))
    else:
        spread = np.sqrt(1.0 + model.random_sd_.iloc[0] ** 2) if name == "random, normal" else 1.0
        sign = 1.0 if hazards else -1.0
        np.testing.assert_allclose(moved.trafo(at) - plain.trafo(at), sign * offset / spread, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moved.gain, sign / spread, rtol=1e-12)


def test_shift_of_every_model_is_tested() -> None:
    public = {name for name in atm.__all__ if hasattr(getattr(atm, name), "predict_distribution")}
    assert public - {"Pipeline"} <= set(SHIFT)  # a pipeline answers by the model at its end


def test_shift_of_known_clusters_and_of_structural_models() -> None:
    frame, y, _ = _shift_data("random")
    model = atm.ContinuousLogit(order=2, random="site").fit(frame, y)
    plain, moved = (model.predict_distribution(frame, conditional=True, offset=c) for c in (0.0, 0.7))
    np.testing.assert_allclose(moved.shift - plain.shift, 0.7, rtol=1e-12)
    effect = model.random_effects_["1"][frame.site].to_numpy()  # what is known of clusters adds to the shift
    np.testing.assert_allclose((plain.added * plain.weights).sum(axis=1), effect, atol=0.02)
    outcome = atm.sem.Transformation("logit", LinearBasis(), [0.0, 2.0], covariates=[1.5], hidden=[0.5])
    x, h = np.array([[1.0], [-2.0]]), np.array([[0.3], [0.1]])
    found = outcome.distribution(np.zeros((2, 0)), h, x)
    np.testing.assert_allclose(found.shift, [1.65, -2.95])
    np.testing.assert_allclose(found.median(), [0.825, -1.475])


def own_link(name: str) -> Link:
    """Return a link that a user might write: a built-in one under another name, with the required methods alone."""
    inner = LINKS[name]
    required = {
        method: (lambda _, *z, method=method: getattr(inner, method)(*z)) for method in Link.__abstractmethods__
    }
    return type("Own", (Link,), {"name": f"my {name}", **required})()


@pytest.mark.bug("other software", "a link of the user's own gave a finite mean where there is none")
@pytest.mark.parametrize("name", LINKS)
def test_means_under_a_link_of_ones_own(name: str) -> None:
    shift = np.array([-2.0, 0.0, 3.0])
    slopes = np.array([0.3, 0.8, 1.0, 1.02, 1.5, 4.0])
    wave = np.array([0.0, 0.5, 2.0, 2.2])
    cases = [(LogLinearBasis(), np.array([0.3, slope])) for slope in slopes]
    cases += [(BernsteinBasis(3, (0.5, 6.0), log_first=True), slope * wave - 1.0) for slope in slopes]
    cases += [(BernsteinBasis(3, (0.5, 6.0)), wave), (CountBasis(3, (0.0, 9.0), log_first=True), 2.0 * wave)]
    for basis, theta in cases:
        ours, theirs = (PredictedDistribution(link, basis, theta, shift) for link in (LINKS[name], own_link(name)))
        np.testing.assert_allclose(theirs.mean(), ours.mean(), rtol=1e-7, err_msg=f"{basis} {theta}")
        if basis.discrete:
            continue
        late = [dist.given(after=np.array([0.1, 2.0, 9.0])).mean() for dist in (ours, theirs)]
        np.testing.assert_allclose(late[1], late[0], rtol=1e-7, err_msg=f"{basis} {theta}, late")


@pytest.mark.parametrize(("name", "rate"), [("logit", 1.0), ("probit", np.inf), ("cloglog", np.inf), ("loglog", 1.0)])
def test_rates_of_tails(name: str, rate: float) -> None:
    assert LINKS[name].tail_rate == rate
    assert own_link(name).tail_rate == rate


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
@pytest.mark.parametrize("log_first", [True, False])
def test_means_and_modes_of_counts(link: str, log_first: bool) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2000, 1))
    k = rng.poisson(np.exp(1 + 0.5 * x[:, 0]))
    dist = atm.CountRegression(link=link, log_first=log_first, order=4).fit(x, k).predict_distribution(x[:3])
    grid = np.arange(100_000.0)
    sums = dist.sf(grid).sum(axis=1)
    known = dist.sf(1e5 - 1) < 1e-12  # else the tail beyond the grid counts
    np.testing.assert_allclose(dist.mean()[known], sums[known], rtol=1e-8)
    assert (dist.mean() >= sums - 1e-9).all()
    assert dist.mode().tolist() == np.argmax(dist.pmf(np.arange(200.0)), axis=1).tolist()


def test_the_mode_of_large_counts_is_found_quickly() -> None:
    counts = np.floor(1e6 * np.exp(FOUR.y))
    dist = atm.CountRegression().fit(FOUR.X, counts).predict_distribution(FOUR.X[:3])
    mode = dist.mode()
    for step in (-1.0, 1.0):
        assert (dist.pmf(mode[:, None])[:, 0] >= dist.pmf(np.maximum(mode + step, 0)[:, None])[:, 0] - 1e-18).all()


def test_means_given_survival_far_out() -> None:
    from anchortm.bases import LinearBasis, LogLinearBasis
    from anchortm.links import LINKS
    from anchortm.predict.distribution import PredictedDistribution

    def standard(link: str, n: int = 1, basis=None, theta=(0.0, 1.0)):
        return PredictedDistribution(LINKS[link], basis or LinearBasis(), np.array(theta), np.zeros(n))

    for t in (2.0, 9.0, 50.0):  # E[Z | Z > t] is the hazard of the normal distribution
        assert standard("probit").given(t).mean()[0] == pytest.approx(float(LINKS["probit"].right(t).r), rel=1e-8)
    assert standard("logit").given(50.0).mean()[0] == pytest.approx(51.0, rel=1e-8)
    assert standard("cloglog").given(8.0).mean()[0] == pytest.approx(8.0 + math.exp(-8.0), rel=1e-6)
    for slope in (1.02, 1.05, 3.0):
        wanted = math.pi / slope / math.sin(math.pi / slope)
        assert standard("logit", basis=LogLinearBasis(), theta=(0.0, slope)).mean()[0] == pytest.approx(wanted)
    for slope in (0.02, 0.05, 2.0):
        wanted = math.exp(math.lgamma(1 + 1 / slope))
        assert standard("cloglog", basis=LogLinearBasis(), theta=(0.0, slope)).mean()[0] == pytest.approx(wanted)
    assert standard("probit", n=0).mean().shape == (0,)
    later = standard("probit").given(2.0).given(0.0)
    assert later.after[0] == 2.0
    assert np.isnan(standard("probit").ppf(np.nan)[0])
    assert np.isnan(standard("probit").pdf(np.nan)[0])


def test_rows_do_not_spoil_each_other() -> None:
    model = atm.ParametricSurvival().fit(FOUR.X[:, :1], np.exp(FOUR.y))
    alone = model.predict_distribution([[0.0]]).mean()
    assert model.predict_distribution([[0.0], [1500.0]]).mean()[0] == alone[0]
