"""Recalibration of every kind of model: GLMs, CoxPH, random effects, boosted models, parts of models, pipelines."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.engine.rows.shift_law import NormalShift

RNG = np.random.default_rng(8)
N, K = 240, 8
PLACE = np.repeat(np.arange(K), N // K)
x = RNG.normal(size=N)
DATA = pd.DataFrame(
    {
        "x": x,
        "z": RNG.normal(size=N),
        "place": [f"p{k}" for k in PLACE],
        "half": np.where(RNG.random(N) < 0.5, "a", "b"),
    }
)
MOVED = (0.7 * RNG.normal(size=K))[PLACE]
DATA["y"] = 0.5 * x + MOVED + RNG.normal(size=N)
DATA["count"] = RNG.poisson(np.exp(0.3 + 0.4 * x + MOVED))
DATA["binary"] = (RNG.random(N) < 1 / (1 + np.exp(-0.5 * x - MOVED))).astype(int)
DATA["time"] = np.exp(0.5 * x + MOVED + 0.7 * RNG.normal(size=N))
DATA["event"] = (RNG.random(N) < 0.7).astype(int)
NEW = DATA.place == "p0"
TRAIN, FEW, REST = DATA[~NEW], DATA[NEW][:6], DATA[NEW][6:]


def posterior(log_likelihood, variance: float) -> tuple[float, float]:
    """Return mean and standard deviation of a shift by brute force."""
    grid = np.linspace(-8, 8, 8001)
    logs = np.array([log_likelihood(d) for d in grid]) - grid**2 / (2 * variance)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    return float(mean), math.sqrt(weights @ (grid - mean) ** 2)


@pytest.mark.parametrize("family", ["poisson", "binomial", "negative_binomial", "gaussian", "gamma"])
def test_generalised_linear_models(family, tmp_path):
    outcome = {"binomial": "binary", "gaussian": "y", "gamma": "time"}.get(family, "count")
    model = atm.AnchorGLM.from_formula(f"{outcome} ~ x | place", TRAIN, family=family)
    there = model.recalibrate(FEW, prior=0.5)
    found = there.recalibration_
    eta = model.intercept_ + model.coef_[0] * FEW.x.to_numpy()
    y = FEW[outcome].to_numpy()

    def log_likelihood(d: float) -> float:
        link = model.link_
        return float(link.loglik(eta + d, link.outcome(y.astype(float))).sum())

    mean, sd = posterior(log_likelihood, 0.5)
    assert found.shift + found.law.mean == pytest.approx(mean, abs=1e-6)
    assert found.law.sd == pytest.approx(sd, abs=1e-6)
    assert there.intercept_ == pytest.approx(model.intercept_ + found.shift)
    assert found.chosen == "the only way for this model"
    nodes, weights = found.law.nodes(0.05)
    rest = model.intercept_ + model.coef_[0] * REST.x.to_numpy() + found.shift
    link, given = model.link_, model.link_.outcome(REST[outcome].to_numpy(float))
    averages = np.log(sum(w * np.exp(link.loglik(rest + d, given)) for d, w in zip(nodes, weights, strict=True)))
    np.testing.assert_allclose(there.nll(REST), -averages, rtol=1e-7)
    distribution = there.predict_distribution(REST[:3])
    at = REST[outcome].to_numpy()[:3, None].astype(float)
    np.testing.assert_allclose(distribution.logpdf(at)[:, 0], averages[:3], rtol=1e-6)
    loaded = atm.load(atm.save(there, tmp_path / "there.json"))
    np.testing.assert_array_equal(loaded.nll(REST), there.nll(REST))
    for what in ("shift+scale", "baseline"):
        with pytest.raises(ValueError, match="generalised linear model"):
            model.recalibrate(FEW, what=what, prior=0.5)


def test_a_dispersion_above_one_says_less():
    plain = atm.AnchorGLM.from_formula("count ~ x | place", TRAIN, family="poisson")
    quasi = atm.AnchorGLM.from_formula("count ~ x | place", TRAIN, family="poisson", dispersion=4.0)
    found = [own.recalibrate(FEW, prior=0.5).recalibration_ for own in (plain, quasi)]
    quarter = plain.recalibrate(FEW, prior=0.5, sample_weight=np.full(6, 0.25)).recalibration_
    assert found[1].std_error > found[0].std_error
    assert found[1].shift == pytest.approx(quarter.shift)
    assert (found[1].weight, found[1].rows) == (6.0, 6)


def test_a_bounded_linear_predictor_is_refused():
    model = atm.AnchorGLM.from_formula("time ~ x | place", TRAIN, family="gamma", link="identity", l2=0.0)
    with pytest.raises(ValueError, match="identity link bounds the linear predictor"):
        model.recalibrate(FEW, prior=0.5)


def test_cox(tmp_path):
    model = atm.CoxPH.from_formula("Surv(time, event) ~ x | place", TRAIN)
    there = model.recalibrate(FEW, prior=0.5)
    found = there.recalibration_
    steps = model.baseline_hazard_  # between its times the hazard is constant
    hazards = np.interp(FEW.time, np.append(0.0, steps.time), np.append(0.0, steps["cumulative hazard"]))
    expected, events = (hazards * np.exp(model.coef_[0] * FEW.x)).sum(), FEW.event.sum()
    mean, sd = posterior(lambda d: -events * d - math.exp(-d) * expected, 0.5)
    assert found.shift + found.law.mean == pytest.approx(mean, abs=1e-6)
    assert found.law.sd == pytest.approx(sd, abs=1e-6)
    # survival is averaged over what is left of the shift
    before = model.predict_distribution(REST[:4]).cumhazard([0.5, 1.0])
    nodes, weights = found.law.nodes(0.05)
    shares = zip(nodes, weights, strict=True)
    expected = sum(w * np.exp(-before * math.exp(-found.shift - d)) for d, w in shares)
    np.testing.assert_allclose(there.predict_distribution(REST[:4]).sf([0.5, 1.0]), expected, rtol=1e-8)
    np.testing.assert_allclose(there.nll(REST), model.nll(REST))  # a partial likelihood only orders rows
    loaded = atm.load(atm.save(there, tmp_path / "there.json"))
    np.testing.assert_array_equal(
        loaded.predict_distribution(REST).sf([1.0]), there.predict_distribution(REST).sf([1.0])
    )
    with pytest.raises(ValueError, match="ProportionalHazards"):
        model.recalibrate(FEW, prior=0.5, what="baseline")
    none = model.recalibrate(FEW[:0], prior=0.5)
    np.testing.assert_allclose(
        none.predict_distribution(REST[:1]).sf(1.0),
        integrate.quad(
            lambda d: (
                stats.norm.pdf(d, 0, math.sqrt(0.5))
                * float(model.predict_distribution(REST[:1]).sf(1.0)[0]) ** math.exp(-d)
            ),
            -7,
            7,
        )[0],
        rtol=1e-7,
    )


def test_random_effects_tell_the_prior(tmp_path):
    model = atm.NormalLinear.from_formula("y ~ x + (1 | place)", TRAIN)
    there = model.recalibrate(FEW)
    found, variance = there.recalibration_, model.random_cov_.iloc[0, 0]
    z = model.baseline_[0] + model.baseline_[1] * FEW.y.to_numpy() - model.coef_[0] * FEW.x.to_numpy()
    assert (found.prior, found.prior_from, found.cluster) == (pytest.approx(variance), "clusters", "place")
    assert found.shift == pytest.approx(z.sum() / (6 + 1 / variance), abs=1e-9)
    # predictions are those of this cluster, not of a new one
    distribution = there.predict_distribution(REST)
    h = there.baseline_[0] + there.baseline_[1] * REST.y.to_numpy() - model.coef_[0] * REST.x.to_numpy()
    at = REST.y.to_numpy()[:, None]
    size = math.sqrt(1 + found.std_error**2)
    np.testing.assert_allclose(distribution.cdf(at)[:, 0], stats.norm.cdf(h / size), rtol=1e-10)
    np.testing.assert_allclose(there.nll(REST), -distribution.logpdf(at)[:, 0], rtol=1e-10)
    for same in (atm.load(atm.save(there, tmp_path / "there.json")), pickle.loads(pickle.dumps(there))):  # noqa: S301
        np.testing.assert_array_equal(same.nll(REST), there.nll(REST))
    assert "a new cluster of place" in str(there.summary())
    with pytest.raises(ValueError, match="2 clusters of place, but with random effects a new place is one cluster"):
        model.recalibrate(DATA[DATA.place.isin(["p0", "p1"])])
    slopes = atm.NormalLinear.from_formula("y ~ x + (1 + x | place)", TRAIN)
    with pytest.raises(ValueError, match="random slopes"):
        slopes.recalibrate(FEW)
    counts = atm.AnchorGLM.from_formula("count ~ x + (1 | place)", TRAIN, family="poisson")
    moved = counts.recalibrate(FEW)
    assert moved.recalibration_.prior == pytest.approx(counts.random_cov_.iloc[0, 0])
    at = REST["count"].to_numpy()[:, None]
    logs = [own.predict_distribution(REST).logpdf(at)[:, 0] for own in (counts, moved)]
    np.testing.assert_allclose(moved.nll(REST), -logs[1], rtol=1e-8)
    assert moved.recalibration_.std_error < math.sqrt(moved.recalibration_.prior)
    mean = [own.predict_distribution(REST).mean() for own in (counts, moved)]
    assert np.sign(mean[1] - mean[0]).tolist() == [np.sign(moved.recalibration_.shift)] * len(REST)


@pytest.mark.parametrize("what", ["shift", "shift+scale", "baseline"])
@pytest.mark.parametrize("xi", [0.0, 5.0])
def test_parts_of_models(what, xi, tmp_path):
    """Strata, varying effects, offsets, delayed entry; files know what a baseline needs at every xi."""
    cases = [
        atm.ContinuousLogit.from_formula("y | half ~ x + z | place", TRAIN, xi=xi, order=3),
        atm.ContinuousLogit.from_formula("y ~ x + z | place", TRAIN, xi=xi, order=3, varying="x"),
        atm.ProportionalHazards.from_formula(
            "Surv(time + 0.1, event, 0.1 * time) ~ x | place", TRAIN, xi=xi, order=3, log_first=True
        ),
    ]
    for model in cases:
        there = model.recalibrate(FEW, what=what, prior=0.5)
        assert there.recalibration_.converged
        assert np.isfinite(there.nll(REST)).all()
        path = atm.save(model, tmp_path / "model.json")
        again = atm.load(path).recalibrate(FEW, what=what, prior=0.5)
        np.testing.assert_allclose(again.nll(REST), there.nll(REST), rtol=1e-9)
        h = there.predict_distribution(REST[:5])
        values = h.cdf(np.linspace(0.2, 3.0, 20))
        assert (np.diff(values) >= 0.0).all()


def test_offsets_and_scale_effects():
    offset = 0.3 * DATA.z
    model = atm.ContinuousProbit(order=3).fit(TRAIN[["x"]], TRAIN.y, anchors=TRAIN.place, offset=offset[~NEW])
    moved = model.recalibrate(FEW[["x"]], FEW.y, offset=offset[FEW.index], what="shift", prior=0.5)
    by_hand = atm.ContinuousProbit(order=3)
    assert moved.recalibration_.converged
    with pytest.raises(ValueError, match="offset has coefficient 1"):
        model.recalibrate(FEW[["x"]], FEW.y, offset=offset[FEW.index], what="shift+scale", prior=0.5)
    plain = by_hand.fit(TRAIN[["x"]], TRAIN.y)
    with pytest.raises(ValueError, match="offset has coefficient 1"):
        plain.recalibrate(FEW[["x"]], FEW.y, offset=offset[FEW.index], what="shift+scale", prior=0.5)
    scaled = atm.NormalLinear.from_formula("y ~ x + z | place", TRAIN, scale="z")
    for what in ("shift", "shift+scale"):
        assert np.isfinite(scaled.recalibrate(FEW, what=what, prior=0.5).nll(REST)).all()
    with pytest.raises(ValueError, match="scale effects do not let a baseline move alone"):
        scaled.recalibrate(FEW, what="baseline")


def test_the_prior_of_the_places():
    model = atm.NormalLinear.from_formula("y ~ x | place", TRAIN)
    there = model.recalibrate(FEW, what="shift")
    assert (there.recalibration_.prior, there.recalibration_.prior_from) == (model.place_sd_**2, "places")
    none = model.recalibrate(FEW[:0])
    assert none.recalibration_.law == NormalShift(0.0, model.place_sd_)
    assert none.recalibration_.chosen == "there are no rows"
    with pytest.raises(ValueError, match="this one is recalibrated to its place"):
        there.predict_distribution(REST, place="new")


def test_the_way_is_chosen_at_left_out_places():
    model = atm.ContinuousProbit.from_formula("y ~ x | place", TRAIN, order=3)
    there = model.recalibrate(FEW, prior=0.5)
    found = there.recalibration_
    assert set(found.emulated) == {"shift", "shift+scale", "baseline"}
    assert found.chosen.startswith("mean NLL of 7 left-out places after 6 rows of each: shift ")
    same = model.recalibrate(FEW, prior=0.5, what=found.what)
    np.testing.assert_array_equal(there.nll(REST), same.nll(REST))
    few = model.recalibrate(DATA[NEW], prior=0.5).recalibration_
    assert (few.what, few.chosen[:30]) == ("shift", "fewer than 3 places of the fit")
    lost = pickle.loads(pickle.dumps(model)).recalibrate(FEW, prior=0.5).recalibration_  # noqa: S301
    assert (lost.what, lost.chosen) == ("shift", "the rows of the fit, needed to try other ways, are not available")
    alone = atm.ContinuousProbit.from_formula("y ~ x", TRAIN, order=3).recalibrate(FEW, prior=0.5).recalibration_
    assert alone.chosen == "the fit has no places to try other ways on"


def test_a_scale_that_differs_is_chosen():
    rng = np.random.default_rng(3)
    place = np.repeat(np.arange(12), 30)
    spread = np.exp(0.6 * rng.normal(size=12))[place]
    frame = pd.DataFrame({"x": rng.normal(size=360), "place": [f"p{k}" for k in place]})
    frame["y"] = frame.x + spread * rng.normal(size=360)
    model = atm.NormalLinear.from_formula("y ~ x | place", frame[place > 0])
    found = model.recalibrate(frame[place == 0][:20], prior=0.05).recalibration_
    assert found.what == "shift+scale"
    assert found.emulated["shift+scale"] < found.emulated["shift"]


def test_boosted(tmp_path):
    model = atm.AnchorBoostedTM.from_formula(
        "y ~ x + z | place", TRAIN, model=atm.ContinuousProbit(order=3), n_rounds=10, xi=1.0
    )
    for what in ("shift", "baseline", "trees"):
        there = model.recalibrate(FEW, what=what, prior=0.5)
        assert (there.recalibration_.what, there.recalibration_.rows) == (what, 6)
        assert there.recalibration_.converged
        path = atm.save(there, tmp_path / "there.json")
        for same in (atm.load(path), pickle.loads(pickle.dumps(there))):  # noqa: S301
            np.testing.assert_array_equal(same.nll(REST), there.nll(REST))
            assert repr(same.recalibration_) == repr(there.recalibration_)
        with pytest.raises(ValueError, match="already"):
            there.recalibrate(FEW, what=what, prior=0.5)
        with pytest.raises(ValueError, match="earlier rounds"):
            there.staged(2)
        if what != "trees":
            with pytest.raises(ValueError, match="of a recalibrated model"):
                there.confidence_band(REST[:1], [0.0])
    h = model.predict_distribution(FEW).trafo(FEW.y.to_numpy()[:, None])[:, 0]
    shifted = model.recalibrate(FEW, prior=0.5).recalibration_
    assert shifted.shift == pytest.approx(h.sum() / (6 + 2.0))
    assert "trees would have to be grown again" in shifted.chosen
    refit = model.refit(FEW, strength=5.0)
    assert (refit.recalibration_.strength, refit.recalibration_.floor) == (5.0, 0.2)
    np.testing.assert_array_equal(refit.nll(REST), model.recalibrate(FEW, what="trees", strength=5.0).nll(REST))
    with pytest.raises(ValueError, match="what must be one of 'auto', 'shift', 'baseline', 'trees'"):
        model.recalibrate(FEW, what="shift+scale", prior=0.5)
    assert model.recalibrate(FEW[:0], prior=0.5).recalibration_.law == NormalShift(0.0, math.sqrt(0.5))
    counts = atm.AnchorBoostedTM.from_formula(
        "count ~ x | place", TRAIN, model=atm.AnchorGLM(family="poisson"), n_rounds=5
    )
    assert counts.recalibrate(FEW, prior=0.5).nll(REST).mean() < counts.nll(REST).mean() + 0.1


def test_pipelines(tmp_path):
    pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear()).fit(
        TRAIN[["x", "z"]], TRAIN.y, anchors=TRAIN.place
    )
    plain = atm.NormalLinear().fit(TRAIN[["x", "z"]], TRAIN.y, anchors=TRAIN.place)
    found = [own.recalibrate(FEW[["x", "z"]], FEW.y, what="shift", prior=0.5) for own in (pipeline, plain)]
    np.testing.assert_allclose(*(own.nll(REST[["x", "z"]], REST.y) for own in found), rtol=1e-8)
    loaded = atm.load(atm.save(found[0], tmp_path / "there.json"))
    np.testing.assert_allclose(loaded.nll(REST[["x", "z"]], REST.y), found[0].nll(REST[["x", "z"]], REST.y))
    assert json.loads((tmp_path / "there.json").read_text())["version"] == 2


def test_what_a_recalibrated_model_does_not_know():
    """Confidence limits are those of the model before; everything that predicts works."""
    survival = atm.ProportionalHazards.from_formula("Surv(time, event) ~ x | place", TRAIN, order=3)
    cox = atm.CoxPH.from_formula("Surv(time, event) ~ x | place", TRAIN)
    counts = atm.AnchorGLM.from_formula("count ~ x | place", TRAIN, family="poisson")
    for model in (survival, cox, counts):
        there = model.recalibrate(FEW, what="shift", prior=0.5)
        with pytest.raises(ValueError, match="of a recalibrated model"):
            there.confidence_band(REST[:1], [1.0])
        marked = there.predict_distribution(REST[:3].assign(x=[np.nan, 0.0, 1.0]), on_bad_rows="mark")
        assert np.isnan(marked.median()).tolist() == [True, False, False]
        if model is not cox:  # whose curves have no density to score
            assert np.isfinite(atm.scores.score_table(there, REST).frame().nll).all()
        assert len(atm.predict_table(there, REST, quantiles=[0.1, 0.9])) == len(REST)
    with pytest.raises(ValueError, match="recalibrated"):
        counts.recalibrate(FEW, prior=0.5).mean_intervals(REST[:1])
    with pytest.raises(ValueError, match="of a recalibrated model"):
        cox.recalibrate(FEW, prior=0.5).restricted_mean(REST[:1], 1.0)
    moved = survival.recalibrate(FEW, what="shift", prior=0.5)
    with pytest.raises(ValueError, match="recalibrated"):
        moved.restricted_mean(REST[:1], 1.0)
    assert np.isfinite(moved.predict_distribution(REST).restricted_mean(1.0)).all()
    assert np.isfinite(moved.residuals(REST)).all()


def test_standard_errors_of_coefficients_stay():
    for xi in (0.0, 2.0):
        model = atm.ContinuousLogit.from_formula("y ~ x + z | place", TRAIN, xi=xi, order=3)
        frame = model.summary().frame()
        shifted, scaled, other = (
            model.recalibrate(FEW, what=what, prior=0.5) for what in ("shift", "shift+scale", "baseline")
        )
        pd.testing.assert_frame_equal(shifted.summary().frame(), frame)
        pd.testing.assert_frame_equal(other.summary().frame(), frame)
        names = ["coef", "std. error"]
        c = scaled.recalibration_.scale
        pd.testing.assert_frame_equal(scaled.summary().frame()[names], c * frame[names])


@pytest.mark.bug("other software", "copies of a model with strata in its formula lost the strata")
def test_copies_keep_the_strata_of_a_formula():
    """A model fitted by ``fit(formula, data)`` has its strata from the formula, and so have its copies."""
    model = atm.ContinuousLogit(order=3).fit("y | half ~ x | place", TRAIN)
    np.testing.assert_allclose(model.widened(1.0).nll(REST), model.nll(REST))
    assert np.isfinite(model.recalibrate(FEW, what="shift", prior=0.5).nll(REST)).all()
