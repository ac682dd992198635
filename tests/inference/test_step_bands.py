"""Confidence bands of CoxPH: against R, against derivatives in the weights of rows, and in simulations."""

import json
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from scipy import stats
from sklearn.base import clone
from slow_loss import Stated

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, UnavailableError
from anchortm.inference.bands import DRAWS

FOLDER = REFERENCE / "survival"
ROWS = pd.DataFrame(json.loads((FOLDER / "coxph.json").read_text())["columns"]["made"])
R = json.loads((FOLDER / "bands.json").read_text())
NEW = pd.DataFrame(R["new"])
TIMES = [0.5, 4.5, 30.0]
Z = stats.norm.ppf(0.975)


def log_hazard(stated: Stated, w: np.ndarray, row: int, y: float, weights: np.ndarray | None = None) -> complex:
    """Return log Lambda(y | x) for the covariates, offset and stratum of a row, by sums over all rows at risk."""
    weights = stated.weights if weights is None else weights
    eta = stated.X @ w + stated.offset
    codes = np.zeros(eta.size, dtype=int) if stated.stratum is None else stated.stratum
    total = 0.0
    for events, at_risk in stated._risk:
        d, first = int(events.sum()), int(np.flatnonzero(events)[0])
        if stated.lower[first] <= y and codes[first] == codes[row]:
            for step in np.arange(d) / d if stated.ties == "efron" else np.zeros(d):
                total = total + weights[events].mean() / ((at_risk - step * events) @ (weights * np.exp(eta)))
    return np.log(total) + eta[row]


def outcome(entry: bool) -> atm.Response:
    return atm.Surv(ROWS.time, ROWS.event, ROWS.entry if entry else None)


@pytest.mark.parametrize("case", R["cases"], ids=lambda c: "-".join([c["ties"], *c["parts"]]))
def test_the_default_at_xi_0_is_that_of_survfit(case: dict) -> None:
    entry, strata, weights, offset = (part in case["parts"] for part in ("entry", "strata", "weights", "offset"))
    columns = ["x1", "x2", "stratum"] if strata else ["x1", "x2"]
    model = atm.CoxPH(ties=case["ties"], strata="stratum" if strata else None, tol=1e-13)
    model.fit(
        ROWS[columns],
        outcome(entry),
        sample_weight=ROWS.weight if weights else None,
        offset=np.array(R["offset"]) if offset else None,
    )
    for i, curve in enumerate(case["curves"]):
        new = {"X": NEW[columns][i : i + 1], "offset": NEW.off[i : i + 1].to_numpy() if offset else None}
        band = model.confidence_band(at=curve["time"], of="sf", **new)
        for got, name in ((band.estimate, "sf"), (band.lower, "lower"), (band.upper, "upper")):
            np.testing.assert_allclose(got[0], curve[name], atol=1e-9)
        other = model.confidence_band(at=curve["time"], of="cdf", **new)
        np.testing.assert_allclose([other.lower, other.upper], [1.0 - band.upper, 1.0 - band.lower], atol=1e-12)
        quantiles = model.confidence_band(at=R["probabilities"], of="ppf", **new)
        for got, name in ((quantiles.estimate, "quantile"), (quantiles.lower, "lower"), (quantiles.upper, "upper")):
            wanted = np.array(curve["quantile"][name], dtype=float)
            np.testing.assert_array_equal(got[0], np.where(np.isnan(wanted), np.inf, wanted))


# the influence of rows, by refits with other weights

SOME, OFFSET, TWO = ROWS[:40], np.array(R["offset"])[:40], NEW[1:]
SURVIVAL = outcome(True)[:40]
MODELS = {
    "sandwich": (atm.CoxPH(0.0, tol=1e-13), {}, {"uncertainty": "sandwich"}),
    "anchors": (atm.CoxPH(2.0, tol=1e-13), {"anchors": SOME.group.astype(int)}, {}),
    "strata": (atm.CoxPH(5.0, ties="breslow", strata="stratum", tol=1e-13), {"anchors": SOME.group.astype(int)}, {}),
    "ridge": (atm.CoxPH(1.0, l2=0.1, tol=1e-13), {"anchors": SOME.group.astype(int)}, {}),
    "limit": (atm.CoxPH(np.inf, tol=1e-13), {"anchors": np.cos(OFFSET * 20.0)[:, None]}, {}),
}


def stated_of(model: atm.CoxPH, weights: np.ndarray) -> Stated:
    """Return the rows of a fit, with those of TWO at the end: they have weight 0."""
    X = np.vstack([SOME[["x1", "x2"]], TWO[["x1", "x2"]]])
    time, event = np.append(SOME.time, np.zeros(2)), np.append(SOME.event, np.zeros(2)).astype(bool)
    return Stated(
        lower=time,
        upper=np.where(event, time, np.inf),
        X=X,
        weights=np.append(weights, np.zeros(2)),
        offset=np.append(OFFSET, TWO.off),
        A=np.ones((len(X), 1)),
        engine="partial",
        entry=np.append(SOME.entry, np.zeros(2)),
        stratum=None if model.strata is None else np.append(SOME.stratum, TWO.stratum).astype(int),
        ties=model.ties,
    )


def refit(name: str, weights: np.ndarray) -> atm.CoxPH:
    model, extra, _ = MODELS[name]
    columns = ["x1", "x2"] + (["stratum"] if model.strata else [])
    fresh = clone(model)
    return fresh.fit(SOME[columns], SURVIVAL, sample_weight=weights, offset=OFFSET, **extra)


@cache
def slopes(name: str) -> np.ndarray:
    """Return the derivatives of log Lambda(t | x) in the weight of each row, of shape (rows, new rows, times)."""
    weights, step = SOME.weight.to_numpy(), 1e-4

    def logs(change: np.ndarray) -> np.ndarray:
        model = refit(name, weights + change)
        stated = stated_of(model, weights + change)
        return np.array([[log_hazard(stated, model.coef_, len(SOME) + i, t) for t in TIMES[1:]] for i in range(2)])

    return np.array([(logs(step * e) - logs(-step * e)) / (2.0 * step) for e in np.eye(len(SOME))])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("ridge", "limit") else ()) for name in MODELS]
)
def test_other_bands_add_up_the_influences_of_rows(name: str) -> None:
    weights = SOME.weight.to_numpy()
    model = refit(name, weights)
    new = {"X": TWO[["x1", "x2"] + (["stratum"] if model.strata else [])], "offset": TWO.off.to_numpy()}
    band = model.confidence_band(at=TIMES, of="sf", **new, **MODELS[name][2])
    n = weights.sum()
    error = np.sqrt(np.einsum("i,ijk->jk", weights, slopes(name) ** 2) * n / (n - 1.0))
    h = np.log(-np.log(band.estimate[:, 1:]))
    for end, sign in ((band.lower, 1.0), (band.upper, -1.0)):
        np.testing.assert_allclose(np.log(-np.log(end[:, 1:])), h + sign * Z * error, rtol=1e-6, atol=1e-6)
    assert (band.lower[:, 0] == 1.0).all()  # before the first event
    assert (band.upper[:, 0] == 1.0).all()


def test_simultaneous_bands_cover_the_largest_deviation() -> None:
    """Deviations at two times are normal with the covariance of their influences: both are inside in 95 % of cases."""
    weights, name = SOME.weight.to_numpy(), "anchors"
    model = refit(name, weights)
    one, both = (
        model.confidence_band(TWO[["x1", "x2"]], TIMES, "sf", offset=TWO.off.to_numpy(), simultaneous=s)
        for s in (False, True)
    )
    h = np.log(-np.log(one.estimate[:, 1:]))
    narrow, wide = (np.log(-np.log(band.lower[:, 1:])) - h for band in (one, both))
    for i, (first, second) in enumerate(Z * wide / narrow):
        assert first == pytest.approx(second, rel=1e-9)
        V = np.einsum("r,rj,rk->jk", weights, *2 * [slopes(name)[:, i]])
        correlation = V / np.sqrt(np.multiply.outer(np.diag(V), np.diag(V)))
        inside = stats.multivariate_normal.cdf([first] * 2, cov=correlation, lower_limit=[-first] * 2)
        assert abs(inside - 0.95) < 4.0 * np.sqrt(0.95 * 0.05 / DRAWS)  # the width is found by simulation
    assert both.simultaneous
    np.testing.assert_array_equal(both.lower[:, 0], 1.0)


# what else they must fulfil


def spread_of(band: atm.inference.ConfidenceBand) -> np.ndarray:
    return np.array([band.estimate, band.lower, band.upper])


@pytest.mark.parametrize("uncertainty", [None, "sandwich"])
def test_breslow_weights_replicate_rows(uncertainty: str | None) -> None:
    times = (4 * ROWS.weight).astype(int)
    rows = np.repeat(np.arange(len(ROWS)), times)
    y, X = outcome(True), ROWS[["x1", "x2"]]
    weighted = atm.CoxPH(ties="breslow", tol=1e-13).fit(X, y, sample_weight=times)
    copied = atm.CoxPH(ties="breslow", tol=1e-13).fit(X.iloc[rows], y[rows])
    for of, at in (("sf", TIMES), ("ppf", [0.2, 0.6])):
        bands = [m.confidence_band(NEW[["x1", "x2"]], at, of, uncertainty=uncertainty) for m in (weighted, copied)]
        np.testing.assert_allclose(spread_of(bands[0]), spread_of(bands[1]), rtol=1e-9)


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_units_and_the_order_of_rows_do_not_matter(xi: float) -> None:
    shuffled = np.random.default_rng(0).permutation(len(ROWS))
    X, y, anchors = ROWS[["x1", "x2"]], outcome(True), ROWS.group.astype(int)
    first = atm.CoxPH(xi, tol=1e-13).fit(X, y, anchors=anchors)
    other = atm.CoxPH(xi, tol=1e-13).fit(50.0 + 3.0 * X.iloc[shuffled], y[shuffled], anchors=anchors[shuffled])
    for of, at in (("sf", TIMES), ("ppf", [0.2, 0.6])):
        bands = (
            m.confidence_band(new, at, of)
            for m, new in ((first, NEW[["x1", "x2"]]), (other, 50.0 + 3.0 * NEW[["x1", "x2"]]))
        )
        np.testing.assert_allclose(*map(spread_of, bands), rtol=1e-8)


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_quantiles_are_where_the_limits_of_the_curve_get_there(xi: float) -> None:
    """Some limits are reached at the first event already, and some never."""
    rng = np.random.default_rng(4)
    X, place, end = rng.normal(size=(500, 2)), rng.integers(0, 5, 500), rng.exponential(2.0, 500)
    time = rng.exponential(size=500) * np.exp(-X @ [0.7, -0.5])
    model = atm.CoxPH(xi).fit(X, atm.Surv(np.minimum(time, end), time <= end), anchors=place)
    times, q, new = model.baseline_hazard_.time.to_numpy(), np.array([0.002, 0.1, 0.5, 0.9, 0.999]), X[:4]
    curve, quantiles = model.confidence_band(new, times), model.confidence_band(new, q, "ppf")
    for found, values in zip(spread_of(quantiles), (curve.estimate, curve.upper, curve.lower), strict=True):
        first = [[np.append(np.flatnonzero(row >= level), times.size)[0] for level in q] for row in values]
        np.testing.assert_array_equal(found, np.append(times, np.inf)[np.array(first)])
    assert np.isinf(quantiles.upper).any()
    assert (quantiles.lower == times[0]).any()


def test_smooth_terms_have_bands_near_those_of_refits() -> None:
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.normal(size=150), "g": rng.integers(0, 4, 150), "time": rng.exponential(size=150)})
    model = atm.CoxPH.from_formula("Surv(time, event) ~ s(x, 5) | g", data.assign(event=1), xi=1.0, smooth=0.1)
    band = model.confidence_band(data[:2], [0.5, 1.0], "sf")
    refits = model.confidence_band(data[:2], [0.5, 1.0], "sf", uncertainty=model.bootstrap(200, np.arange(150), 0))
    widths = [np.log(-np.log(b.lower)) - np.log(-np.log(b.upper)) for b in (band, refits)]
    np.testing.assert_allclose(*widths, rtol=0.25)


def test_bootstrap_bands_are_percentiles_of_refitted_curves() -> None:
    X, y, new = ROWS[["x1", "x2", "stratum"]], outcome(False), NEW[["x1", "x2", "stratum"]]
    model = atm.CoxPH(l1=0.02, strata="stratum").fit(X, y)
    draws = model.bootstrap(9, random_state=1, progress=False)
    rng, curves = np.random.default_rng(1), []
    for _ in range(9):
        weights = rng.multinomial(len(X), np.full(len(X), 1.0 / len(X)))
        curves.append(atm.CoxPH(l1=0.02, strata="stratum").fit(X, y, sample_weight=weights).predict_distribution(new))
    for of, at in (("sf", TIMES), ("ppf", [0.2, 0.4])):
        band = model.confidence_band(new, at, of, uncertainty=draws, level=0.5)
        limits = np.quantile([getattr(c, of)(at) for c in curves], [0.25, 0.75], axis=0, method="inverted_cdf")
        np.testing.assert_allclose([band.lower, band.upper], limits, rtol=1e-5)
        np.testing.assert_array_equal(band.estimate, getattr(model.predict_distribution(new), of)(at))
    with pytest.raises(InputError, match="l1 penalty"):
        model.confidence_band(new, TIMES)


def test_curves_are_drawn_with_steps() -> None:
    model = atm.CoxPH().fit(ROWS[["x1", "x2"]], outcome(False))
    band = model.confidence_band(NEW[["x1", "x2"]], TIMES, "sf")
    ax = band.plot(labels=["a", "b", "c"], unit="days")
    assert [line.get_drawstyle() for line in ax.lines] == ["steps-post"] * 3
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), band.estimate[1])
    plt.close(ax.figure)
    ax = model.confidence_band(NEW[["x1", "x2"]], [0.1, 0.2], "ppf").plot()
    assert ax.lines[0].get_drawstyle() == "default"
    plt.close(ax.figure)


def test_without_covariates_it_is_the_nelson_aalen_estimate() -> None:
    y = outcome(False)
    model = atm.CoxPH(ties="breslow").fit(None, y)
    band = model.confidence_band(None, TIMES, "sf")
    time, event = ROWS.time.to_numpy(), ROWS.event.to_numpy()
    for j, t in enumerate(TIMES[1:], 1):
        steps = [(event[time == u].sum(), (time >= u).sum()) for u in np.unique(time[event == 1]) if u <= t]
        total, variance = sum(d / n for d, n in steps), sum(d / n**2 for d, n in steps)
        ends = np.log(total) + Z * np.sqrt(variance) / total * np.array([1.0, -1.0])
        np.testing.assert_allclose([band.lower[0, j], band.upper[0, j]], np.exp(-np.exp(ends)), rtol=1e-10)


def test_a_stratum_without_events() -> None:
    X = ROWS[["x1", "x2"]].assign(stratum=np.where(ROWS.event == 1, 0, np.arange(len(ROWS)) % 2))
    model = atm.CoxPH(strata="stratum").fit(X, outcome(False))
    new = NEW[["x1", "x2"]].assign(stratum=[0, 1, 1])
    assert (spread_of(model.confidence_band(new, TIMES, "sf"))[:, 1:] == 1.0).all()
    assert np.isinf(spread_of(model.confidence_band(new, [0.5], "ppf"))[:, 1:]).all()


def test_what_is_refused(tmp_path: Path) -> None:
    X = ROWS[["x1", "x2"]]
    model, other = (
        atm.CoxPH(1.0).fit(X, outcome(False), anchors=ROWS.group.astype(int)),
        atm.CoxPH().fit(X[["x1"]], outcome(False)),
    )
    for ask, message in (
        (lambda: model.confidence_band(X[:1], [1.0], "pdf"), "'cdf', 'sf' or 'ppf'"),
        (lambda: model.confidence_band(X[:1], [1.5], "ppf"), "between 0 and 1"),
        (lambda: model.confidence_band(X[:1], [0.5], "ppf", simultaneous=True), "use of='sf'"),
        (lambda: model.confidence_band(X[:1], [1.0], uncertainty="hessian"), "needs xi = 0"),
        (lambda: model.confidence_band(X[:1], [1.0], uncertainty="jackknife"), "uncertainty must be one of"),
        (lambda: model.confidence_band(X[:1], [1.0], uncertainty=np.eye(2)), "steps of the baseline"),
        (lambda: model.confidence_band(X[:1], [1.0], uncertainty=other.bootstrap(3)), "pass its bootstrap"),
        (lambda: model.confidence_band(X[:1], [1.0], level=1.5), "level must be"),
    ):
        with pytest.raises(InputError, match=message):
            ask()
    with pytest.raises(UnavailableError, match="rows of the fit"):
        atm.load(atm.save(model, tmp_path / "model.json")).confidence_band(X[:1], [1.0])


@pytest.mark.slow
@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_coverage(xi: float) -> None:
    """The places shift x but not the hazard, so that every xi aims at the same curve."""
    rng, times, new = np.random.default_rng(8), np.array([0.2, 0.5, 1.0, 2.0]), np.array([[0.5, -0.5]])
    truth = np.exp(-times * np.exp(0.7 * 0.5 + 0.5 * 0.5))
    one, together, quantile, n_draws = np.zeros(times.size), 0, 0, 400
    for _ in range(n_draws):
        place = rng.integers(0, 5, 200)
        X = rng.normal(size=(200, 2)) + 0.5 * (place[:, None] - 2.0) * [1.0, 0.0]
        time, end = rng.exponential(size=200) * np.exp(-X @ [0.7, -0.5]), rng.exponential(3.0, 200)
        model = atm.CoxPH(xi).fit(X, atm.Surv(np.minimum(time, end), time <= end), anchors=place)
        band = model.confidence_band(new, times, "sf")
        one += (band.lower[0] <= truth) & (truth <= band.upper[0])
        band = model.confidence_band(new, times, "sf", simultaneous=True)
        together += ((band.lower[0] <= truth) & (truth <= band.upper[0])).all()
        band = model.confidence_band(new, [0.5], "ppf")
        quantile += band.lower[0, 0] <= np.log(2.0) * np.exp(-0.6) <= band.upper[0, 0]
    assert (np.abs(one / n_draws - 0.95) < 0.035).all(), one / n_draws
    assert abs(together / n_draws - 0.95) < 0.035, together / n_draws
    assert abs(quantile / n_draws - 0.95) < 0.035, quantile / n_draws


def test_nearly_collinear_covariates_have_the_bands_of_their_combinations() -> None:
    """Inside, such columns are turned; the distribution is that of x and the difference, which are not collinear."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 150))
    y = atm.Surv(rng.exponential(size=150) * np.exp(-0.5 * x), rng.random(150) < 0.7)
    apart, near = np.column_stack([x, z]), np.column_stack([x, x + 1e-5 * z])
    with pytest.warns(AnchorTMWarning, match="collinear"):
        turned = atm.CoxPH().fit(near, y)
    for kind in ("hessian", "sandwich"):
        wanted = atm.CoxPH().fit(apart, y).confidence_band(apart[:2], [0.5, 1.0], "sf", uncertainty=kind)
        found = turned.confidence_band(near[:2], [0.5, 1.0], "sf", uncertainty=kind)
        np.testing.assert_allclose(found.lower, wanted.lower, rtol=1e-4)
        np.testing.assert_allclose(found.upper, wanted.upper, rtol=1e-4)
