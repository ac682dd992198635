"""The partial likelihood: R's coxph to the last digits, direct formulas, derivatives, influence, and refusals."""

import copy
import json
import pickle
import warnings
from contextlib import suppress
from pathlib import Path

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import anchortm as atm
from anchortm.engine.objective.partial_likelihood import PartialObjective, build_partial
from anchortm.engine.rows.risk_sets import Outcome, risk_sets, row_logliks
from anchortm.exceptions import (
    AnchorTMWarning,
    IdentificationError,
    InputError,
    InputTypeError,
    ModelFileError,
    OverIdentifiedError,
    SeparationError,
)
from anchortm.inference.covariance import influence
from anchortm.inputs.anchors import anchor_columns
from anchortm.links import get_link

R = json.loads((REFERENCE / "survival" / "coxph.json").read_text())
MADE = pd.DataFrame(R["columns"]["made"])
CGD = atm.datasets.load_cgd()
FORMULA = "Surv(tstop, status) ~ treat + age | center"
GROUP = MADE.group.astype(int)


def name_of(case: dict) -> str:
    return "-".join([case["data"], case["ties"], *(k for k in ("entry", "strata", "weights") if case[k])])


cases = pytest.mark.parametrize("case", R["cases"], ids=name_of)


def inputs(case: dict) -> tuple[pd.DataFrame, atm.Response, pd.Series | None, pd.Series, dict]:
    d = pd.DataFrame(R["columns"][case["data"]])
    X = d[["x1", "x2", "stratum"]] if case["strata"] else d[["x1", "x2"]]
    y = atm.Surv(d.time, d.event, d.entry if case["entry"] else None)
    options = {"ties": case["ties"], "strata": "stratum" if case["strata"] else None, "tol": 1e-13}
    return X, y, d.weight if case["weights"] else None, d.group.astype(int), options


@cases
def test_coxph(case: dict) -> None:
    X, y, weights, _, options = inputs(case)
    model = atm.CoxPH(**options).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, case["coef"], rtol=0, atol=1e-12)
    assert model.loglik_ == pytest.approx(case["loglik"][1], abs=1e-11)
    np.testing.assert_allclose(-model.residuals(X, y), case["martingale"], atol=1e-12)
    np.testing.assert_allclose(model.covariance().ravel(), case["variance"], rtol=1e-11)
    assert model.convexity_ == "global"
    null = atm.CoxPH(**options).fit(X[["stratum"]] if case["strata"] else None, y, sample_weight=weights)
    assert null.loglik_ == pytest.approx(case["loglik"][0], abs=1e-11)
    table = model.baseline_hazard_
    labels = case["hazard_stratum"] or [None] * len(case["hazard"])
    for time, total, label in zip(case["hazard_time"], case["hazard"], labels, strict=True):
        own = table if label is None else table[table.stratum.astype(str) == label.split("=")[-1]]
        found = own["cumulative hazard"][own.time <= time]
        assert (found.iloc[-1] if len(found) else 0.0) == pytest.approx(total, abs=1e-12)


@pytest.mark.filterwarnings("ignore:.*clusters:anchortm.exceptions.AnchorTMWarning")
@cases
def test_coxph_robust_variance(case: dict) -> None:
    X, y, weights, group, options = inputs(case)
    model = atm.CoxPH(**options).fit(X, y, sample_weight=weights, anchors=group)
    for clusters, variance in ((np.arange(len(X)), case["robust"]), (group, case["cluster"])):
        k = len(np.unique(clusters))
        ours = model.covariance("sandwich", clusters=clusters) * (k - 1) / k
        np.testing.assert_allclose(ours.ravel(), variance, rtol=1e-11)


@cases
def test_score_test_is_that_of_adding_the_groups(case: dict) -> None:
    X, y, weights, group, options = inputs(case)
    test = atm.diagnostics.score_test(atm.CoxPH(**options), X, y, group, sample_weight=weights, method="observed")
    assert test.df == group.nunique() - 1
    assert test.statistic == pytest.approx(case["score_test"][0], rel=1e-11)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_python_peers(ties: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 2026-11-16: the peers' own warnings, not ours
        from lifelines import CoxPHFitter
        from statsmodels.duration.hazard_regression import PHReg

        X, y = MADE[["x1", "x2"]].to_numpy(), atm.Surv(MADE.time, MADE.event)
        model = atm.CoxPH(ties=ties, tol=1e-13).fit(X, y)
        outcome = np.array(list(zip(MADE.event == 1, MADE.time, strict=True)), dtype=[("e", bool), ("t", float)])
        peers = []
        with suppress(ImportError):  # it comes with the benchmarks only
            from sksurv.linear_model import CoxPHSurvivalAnalysis

            peers.append(CoxPHSurvivalAnalysis(ties=ties, tol=1e-13).fit(X, outcome).coef_)
        # 2026-11-16: its risk sets hold rows that enter at the event time itself
        late = PHReg(MADE.time, X, status=MADE.event, entry=MADE.entry + 0.5, ties=ties).fit(
            method="newton", tol=1e-13, disp=0
        )
        if ties == "efron":
            fitter = CoxPHFitter().fit(
                MADE[["x1", "x2", "time", "event"]], "time", "event", fit_options={"precision": 1e-14}
            )
            peers.append(fitter.params_.to_numpy())
    for coef in peers:
        np.testing.assert_allclose(model.coef_, coef, atol=1e-8)
    entered = atm.CoxPH(ties=ties, tol=1e-13).fit(X, atm.Surv(MADE.time, MADE.event, MADE.entry))
    np.testing.assert_allclose(entered.coef_, late.params, atol=1e-8)
    np.testing.assert_allclose(entered.loglik_, late.llf, atol=1e-8)


# the objective by itself

MIXTURES = [
    (t, s, e, w) for t in ("efron", "breslow") for s in (False, True) for e in (False, True) for w in (False, True)
]
mixtures = pytest.mark.parametrize("mixture", MIXTURES, ids=lambda m: "-".join(map(str, m)))


def objective(mixture: tuple, n: int = 60, p: int = 3, seed: int = 0):
    ties, strata, entry, weights = mixture
    rng = np.random.default_rng(seed)
    time = np.ceil(rng.exponential(size=n) * 5)
    start = np.maximum(time - np.ceil(rng.exponential(size=n) * 4), 0)
    outcome = Outcome(
        time,
        rng.random(n) < 0.7,
        np.where(start <= 0, -np.inf, start) if entry else None,
        rng.integers(0, 3, n) if strata else None,
        rng.uniform(0.5, 2, n) if weights else None,
        rng.normal(size=n) * 0.3,
        ties,
    )
    anchors = anchor_columns(rng.integers(0, 4, n))
    return build_partial(get_link("cloglog"), outcome, rng.normal(size=(n, p)), anchors, True, tuple("abc"))


def direct(o: Outcome, eta, log=np.log, exp=np.exp):
    """Return log-likelihood and martingale residuals by the definition, risk set by risk set."""
    n = o.time.size
    weight = np.ones(n) if o.weights is None else o.weights
    stratum = np.zeros(n, dtype=int) if o.stratum is None else o.stratum
    entry = np.full(n, -np.inf) if o.entry is None else o.entry
    w = [exp(x) for x in eta]
    loglik, M = 0, [1 if d else 0 for d in o.dead]
    for s in np.unique(stratum):
        for t in np.unique(o.time[o.dead & (stratum == s)]):
            risk = np.flatnonzero((stratum == s) & (entry < t) & (o.time >= t))
            dead = [i for i in risk if o.dead[i] and o.time[i] == t]
            d = len(dead)
            loglik += sum(weight[i] * eta[i] for i in dead)
            for k in range(d if o.ties == "efron" else 1):
                f = [1 - (k / mpmath.mpf(d) if i in dead else 0) for i in risk]
                S = sum(weight[i] * w[i] * g for i, g in zip(risk, f, strict=True))
                m = sum(weight[i] for i in dead) / (d if o.ties == "efron" else 1)
                loglik -= m * log(S)
                for i, g in zip(risk, f, strict=True):
                    M[i] -= w[i] * g * m / S
    return loglik, M


@mixtures
def test_sums_by_definition(mixture: tuple) -> None:
    here = objective(mixture)
    v = np.array([0.4, -0.3, 0.2])
    X = np.zeros((3, here.n_rows))
    X[:, here.sets.order] = here.X
    eta = v @ X + here.outcome.offset
    loglik, M = direct(here.outcome, [mpmath.mpf(x) for x in eta], mpmath.log, mpmath.exp)
    assert here.sums(v).loglik == pytest.approx(float(loglik), rel=1e-13)
    np.testing.assert_allclose(-here.residuals(v), np.array(M, dtype=float), atol=1e-13)
    weights = 1.0 if here.weights is None else here.weights
    share = row_logliks(here.outcome, v @ X)
    assert float(np.sum(weights * share)) == pytest.approx(float(loglik), rel=1e-13)
    assert (share[~here.outcome.dead] == 0.0).all()


@pytest.mark.parametrize("size", [20.0, 40.0, 50.0, 200.0])
@pytest.mark.parametrize("mixture", [m for m in MIXTURES if not m[3]], ids=lambda m: "-".join(map(str, m)))
def test_digits_whatever_the_range_of_risks(mixture: tuple, size: float) -> None:
    here = objective(mixture)
    o, rng = here.outcome, np.random.default_rng(1)
    X = np.zeros((3, here.n_rows))
    X[:, here.sets.order] = here.X
    v = np.array([1.0, 0.0, 0.0])
    stratum = np.zeros(here.n_rows, dtype=int) if o.stratum is None else o.stratum
    # the earliest of a stratum, and some others, are far above the rest
    far = rng.random(here.n_rows) < 0.1
    far |= [i == np.argmin(np.where(stratum == stratum[i], o.time, np.inf)) for i in range(here.n_rows)]
    moved = Outcome(o.time, o.dead, o.entry, o.stratum, o.weights, o.offset + size * far, o.ties)
    there = PartialObjective(here.link, here.coordinates, here.anchors, moved, here.sets, here.X, here.names)
    loglik, M = direct(moved, [mpmath.mpf(x) for x in v @ X + moved.offset], mpmath.log, mpmath.exp)
    weights = 1.0 if o.weights is None else o.weights
    assert float(np.sum(weights * row_logliks(moved, v @ X))) == pytest.approx(float(loglik), rel=1e-13)
    assert there.sums(v).loglik == pytest.approx(float(loglik), rel=1e-13)
    np.testing.assert_allclose(-there.residuals(v), np.array(M, dtype=float), atol=1e-12)
    gradient = -X @ (np.array(M, dtype=float) * weights)
    np.testing.assert_allclose(there.derivatives(v).gradient, gradient, atol=1e-11)


@mixtures
def test_shares_of_rows_that_are_too_far_apart_for_numbers(mixture: tuple) -> None:
    o = objective(mixture).outcome
    eta = 5000.0 * np.random.default_rng(1).random(o.time.size)
    eta[o.time < 3] += 1e4
    loglik, _ = direct(o, [mpmath.mpf(x) for x in eta + o.offset], mpmath.log, mpmath.exp)
    share = row_logliks(o, eta) * (1.0 if o.weights is None else o.weights)
    assert share.sum() == pytest.approx(float(loglik), rel=1e-13)


@pytest.mark.parametrize("late", [False, True])
def test_one_row_far_out(late: bool) -> None:
    rng, n = np.random.default_rng(0), 60
    x, where = rng.normal(size=n), np.arange(n) % 2
    time = rng.exponential(size=n) * np.exp(-x) + 1.0
    entry = time - rng.exponential(size=n) if late else None
    x[np.argmin(np.where(where == 0, time, np.inf))] = 60.0
    y = atm.Surv(time, np.ones(n), entry)
    model = atm.CoxPH(strata=1).fit(np.column_stack([x, where]), y)
    assert model.converged_
    outcome = Outcome(time, np.ones(n, dtype=bool), entry, where, None, None, "efron")
    loglik, M = direct(outcome, [mpmath.mpf(v) for v in x * model.coef_[0]], mpmath.log, mpmath.exp)
    assert model.loglik_ == pytest.approx(float(loglik), rel=1e-13)
    np.testing.assert_allclose(-model.residuals(np.column_stack([x, where]), y), np.array(M, dtype=float), atol=1e-11)


def test_sums_of_many_strata_and_late_rows() -> None:
    rng, n = np.random.default_rng(0), 3000
    for stratum in (np.zeros(n, dtype=int), rng.integers(0, 40, n), np.arange(n) // 2):
        time = np.ceil(20 * rng.exponential(size=n))
        entry = time - np.ceil(10 * rng.exponential(size=n))
        for low in (None, entry):
            sets = risk_sets(time, rng.random(n) < 0.5, low, stratum)
            rows = sets.order
            there = (stratum[rows] == sets.stratum[:, None]) & (time[rows] >= sets.times[:, None])
            there &= True if low is None else entry[rows] < sets.times[:, None]
            values, jump = rng.random(rows.size), rng.random(sets.times.size)
            np.testing.assert_allclose(sets.at_risk(values), there @ values, rtol=1e-13)
            np.testing.assert_allclose(sets.over(jump, None), jump @ there, rtol=1e-13)


@mixtures
def test_largest_at_risk(mixture: tuple) -> None:
    here = objective(mixture)
    o, sets = here.outcome, here.sets
    values = np.random.default_rng(4).integers(0, 9, o.time.size).astype(float)  # with ties
    found = values[sets.order][sets.largest(values[sets.order])]
    stratum = np.zeros(o.time.size) if o.stratum is None else o.stratum
    entry = np.full(o.time.size, -np.inf) if o.entry is None else o.entry
    for k, (t, s) in enumerate(zip(sets.times, sets.stratum, strict=True)):
        assert found[k] == values[(stratum == s) & (entry < t) & (o.time >= t)].max()


@mixtures
def test_derivatives(mixture: tuple) -> None:
    here, h = objective(mixture), 1e-5
    rng = np.random.default_rng(2)
    v, mu = 0.4 * rng.normal(size=3), rng.normal(size=here.anchors.rank)
    at, plain = here.derivatives(v, mu), here.derivatives(v)

    def slope(f):
        return np.array([(f(v + h * e) - f(v - h * e)) / (2 * h) for e in np.eye(3)])

    def lagrangian(v, mu):
        d = here.derivatives(v)
        return d.gradient + d.E.T @ mu

    np.testing.assert_allclose(at.gradient, -slope(lambda v: here.sums(v).loglik), atol=1e-7)
    np.testing.assert_allclose(at.E, slope(lambda v: here.sums(v).t).T, atol=1e-8)
    np.testing.assert_allclose(plain.hessian, slope(lambda v: lagrangian(v, 0 * mu)), atol=1e-7)
    np.testing.assert_allclose(at.hessian, slope(lambda v: lagrangian(v, mu)), atol=1e-7)
    np.testing.assert_array_equal(at.E, plain.E)


@mixtures
def test_convex_where_the_certificate_says_so(mixture: tuple) -> None:
    here, rng = objective(mixture), np.random.default_rng(3)
    for _ in range(5):
        v, t = rng.normal(size=3), rng.normal(size=here.anchors.rank)
        t *= 1.0 / np.ptp(here._row_values(t))  # the range of u is 1
        assert np.linalg.eigvalsh(here.derivatives(v, t).hessian)[0] >= -1e-12
        assert here.convexity(here.sums(v)._replace(t=t), 0.499) == "local"
        assert here.convexity(here.sums(v)._replace(t=t), 0.501) == "none"


@pytest.mark.parametrize("strata", [None, "stratum"])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("xi", [0.0, 2.0, 20.0])
def test_influence_is_the_derivative_in_a_weight(xi: float, ties: str, strata: str | None) -> None:
    X = MADE[["x1", "x2", "stratum"]] if strata else MADE[["x1", "x2"]]
    y, weights, h = atm.Surv(MADE.time, MADE.event, MADE.entry), MADE.weight.to_numpy(), 1e-4

    def fit(w):
        return atm.CoxPH(xi, ties=ties, strata=strata, tol=1e-13).fit(X, y, anchors=GROUP, sample_weight=w)

    shares = influence(fit(weights))
    for i in (0, 17, 40):
        step = h * (np.arange(len(X)) == i)
        slope = (fit(weights + step).coef_ - fit(weights - step).coef_) / (2 * h)
        np.testing.assert_allclose(shares[i], slope, atol=1e-7 * np.abs(slope).max())


# the model


def instrument(n: int = 400):
    rng = np.random.default_rng(1)
    a, hidden = rng.normal(size=(2, n))
    X = np.column_stack([a + hidden + rng.normal(size=n), rng.normal(size=n)])
    time, end = rng.exponential(size=n) * np.exp(-(0.5 * X[:, 0] + 0.3 * X[:, 1] + hidden)), 2 * rng.exponential(size=n)
    return X, atm.Surv(np.minimum(time, end), time <= end), a[:, None]


def test_limit() -> None:
    X, y, a = instrument()
    path = atm.anchor_path(atm.CoxPH(tol=1e-11), X, y, a, [0.0, 1e6, np.inf])
    limit = path.models[-1]
    assert limit.converged_
    assert limit.penalty_ < 1e-18
    np.testing.assert_allclose(path.coefs[1], path.coefs[2], atol=1e-5)
    assert abs(a[:, 0] @ limit.residuals(X, y)) < 1e-6
    weights, h = np.ones(len(X)), 1e-4
    shares = influence(limit)
    step = h * (np.arange(len(X)) == 5)
    fits = [atm.CoxPH(np.inf, tol=1e-12).fit(X, y, anchors=a, sample_weight=weights + s) for s in (step, -step)]
    np.testing.assert_allclose(shares[5], (fits[0].coef_ - fits[1].coef_) / (2 * h), rtol=1e-5)
    with pytest.raises(OverIdentifiedError, match="over-identified"):
        atm.CoxPH.from_formula(FORMULA, CGD, xi=np.inf)


def test_sandwich_is_near_the_bootstrap() -> None:
    X, y, a = instrument()
    model = atm.CoxPH(3.0).fit(X, y, anchors=a)
    draws = model.bootstrap(100, random_state=0, progress=False)
    np.testing.assert_allclose(model.standard_errors(), draws.frame()["std. error"], rtol=0.25)


def test_breslow_weights_replicate_rows(tmp_path: Path) -> None:
    X, y, times = MADE[["x1", "x2"]], atm.Surv(MADE.time, MADE.event, MADE.entry), (4 * MADE.weight).astype(int)
    rows = np.repeat(np.arange(len(X)), times)
    options = {"ties": "breslow", "tol": 1e-12}
    weighted = atm.CoxPH(2.0, **options).fit(X, y, anchors=GROUP, sample_weight=times)
    copied = atm.CoxPH(2.0, **options).fit(X.iloc[rows], y[rows], anchors=GROUP.iloc[rows])
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-10)
    assert weighted.loss_ == pytest.approx(copied.loss_, rel=1e-12)
    np.testing.assert_allclose(weighted.standard_errors(), copied.standard_errors(), rtol=1e-9)
    score = weighted.score(X, y, times)
    assert score == pytest.approx(weighted.loglik_ / weighted.n_total_, rel=1e-12)
    assert score == pytest.approx(weighted.score(X.iloc[rows], y[rows]), rel=1e-12)
    weighted, copied = (
        atm.CoxPH(**options).fit(X, y, sample_weight=times),
        atm.CoxPH(**options).fit(X.iloc[rows], y[rows]),
    )
    assert weighted.n_events_ < copied.n_events_
    assert weighted.bic_ == pytest.approx(copied.bic_, rel=1e-12)
    assert atm.load(atm.save(weighted, tmp_path / "model.json")).bic_ == weighted.bic_


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_score_takes_weights_as_the_fit_does(ties: str) -> None:
    X, y = MADE[["x1", "x2", "stratum"]], atm.Surv(MADE.time, MADE.event, MADE.entry)
    weights = MADE.weight * (np.arange(len(X)) % 5 > 0)  # some are 0
    model = atm.CoxPH(ties=ties, strata="stratum").fit(X, y, sample_weight=weights)
    assert model.score(X, y, weights) == pytest.approx(model.loglik_ / model.n_total_, rel=1e-12)
    assert model.score(X, y, 3 * weights) == pytest.approx(
        model.score(X, y, weights) - np.log(3) * (weights @ MADE.event) / weights.sum(), rel=1e-12
    )
    assert model.score(X, y) == pytest.approx(-model.nll(X, y).mean(), rel=1e-12)


def test_without_ties_both_formulas_agree_and_units_do_not_matter() -> None:
    X, y, a = instrument()
    efron, breslow = (atm.CoxPH(2.0, ties=t, tol=1e-12).fit(X, y, anchors=a) for t in ("efron", "breslow"))
    np.testing.assert_array_equal(efron.coef_, breslow.coef_)
    far = atm.CoxPH(2.0, tol=1e-12).fit(X * [1e3, 1.0] + [1e6, -50.0], y, anchors=a)
    np.testing.assert_allclose(far.coef_ * [1e3, 1.0], efron.coef_, atol=1e-9)
    new = X[:3]
    curves = efron.predict_distribution(new).sf([0.1, 1.0])
    np.testing.assert_allclose(
        far.predict_distribution(new * [1e3, 1.0] + [1e6, -50.0]).sf([0.1, 1.0]), curves, atol=1e-8
    )


def test_offset_takes_the_place_of_a_covariate() -> None:
    X, y, a = instrument()
    full = atm.CoxPH(1.0, tol=1e-12).fit(X, y, anchors=a)
    moved = atm.CoxPH(1.0, tol=1e-12).fit(X[:, :1], y, anchors=a, offset=X[:, 1])
    assert moved.loss_ > full.loss_
    shifted = atm.CoxPH(1.0, tol=1e-12).fit(X, y, anchors=a, offset=0.5 * X[:, 1] + 3.0)
    np.testing.assert_allclose(shifted.coef_ + np.array([0.0, 0.5]), full.coef_, atol=1e-10)
    ours = shifted.predict_distribution(X[:4], offset=0.5 * X[:4, 1] + 3.0).sf([0.2, 1.0])
    np.testing.assert_allclose(ours, full.predict_distribution(X[:4]).sf([0.2, 1.0]), atol=1e-10)


def test_residuals_have_the_sign_of_the_full_likelihood_and_agree_for_a_rich_baseline() -> None:
    X, y, _ = instrument(2000)
    cox = atm.CoxPH().fit(X, y)
    smooth = atm.ProportionalHazards(order=12, log_first=True).fit(X, y)
    np.testing.assert_allclose(cox.coef_, smooth.coef_, atol=0.02)
    assert np.corrcoef(cox.residuals(X, y), smooth.residuals(X, y))[0, 1] > 0.999
    assert abs(cox.residuals(X, y).sum()) < 1e-9


def test_strata_in_a_formula() -> None:
    cgd = atm.datasets.load_cgd()
    model = atm.CoxPH.from_formula("Surv(tstop, status) | sex ~ treat + age | center", cgd, xi=1.0)
    X = cgd[["age"]].assign(treat=(cgd.treat == "rIFN-g").astype(int), sex=cgd.sex)
    other = atm.CoxPH(1.0, strata="sex").fit(X, atm.Surv(cgd.tstop, cgd.status), anchors=cgd.center)
    np.testing.assert_allclose(model.coef_, other.coef_[::-1], rtol=1e-9)
    assert model.strata_ == ("female", "male")
    np.testing.assert_allclose(model.predict(cgd), other.predict(X))
    assert abs(model.residuals(cgd).sum()) < 1e-9


def test_strata_have_risk_sets_of_their_own() -> None:
    d = MADE.assign(a=MADE.stratum.astype(int).astype(str), b=MADE.x2.astype(int))
    y = atm.Surv(d.time, d.event)
    model = atm.CoxPH(strata=["a", "b"]).fit(d[["x1", "a", "b"]], y)
    assert model.strata_[0] == "a=0, b=0"
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["x1", "a", "b"]
    parts = sum(
        row_logliks(
            Outcome(part.time.to_numpy(), part.event.to_numpy() == 1, None, None, None, None, "efron"),
            part.x1.to_numpy() * model.coef_[0],
        ).sum()
        for _, part in d.groupby(["a", "b"])
    )
    assert model.loglik_ == pytest.approx(parts, rel=1e-12)
    by_place = atm.CoxPH(strata=1).fit(d[["x1", "stratum"]].to_numpy(), y)
    by_name = atm.CoxPH(strata="stratum").fit(d[["x1", "stratum"]], y)
    np.testing.assert_array_equal(by_place.coef_, by_name.coef_)
    new = d[["x1", "stratum"]][:6]
    np.testing.assert_array_equal(by_place.predict(new.to_numpy()), by_name.predict(new))
    for code in (0.0, 1.0, 2.0):  # the stratum's own curve
        own = by_name.baseline_hazard_.query(f"stratum == {code:g}")
        assert len(own) == d[(d.stratum == code) & (d.event == 1)].time.nunique()
        curve = by_name.predict_distribution(pd.DataFrame({"x1": [0.0], "stratum": [code]}))
        np.testing.assert_allclose(curve.cumhazard(own.time)[0], own["cumulative hazard"], rtol=1e-12)
    with pytest.raises(InputError, match="strata that the fit has not seen: 7"):
        by_name.predict(new.assign(stratum=7.0))
    with pytest.raises(InputError, match="strata that the fit has not seen: 7"):
        by_name.residuals(new.assign(stratum=7.0), y[:6])
    assert np.isfinite(by_name.nll(new.assign(stratum=7.0), y[:6])).all()  # needs no baseline
    with pytest.raises(IdentificationError, match="constant within every stratum: z"):
        atm.CoxPH(strata="stratum").fit(d[["x1", "stratum"]].assign(z=2.0 * d.stratum), y)
    assert np.isfinite(by_name.score(new.assign(stratum=7.0), y[:6]))
    one = d[d.a == "1"]
    with pytest.raises(InputError, match="there is a single stratum, '1': leave strata out"):
        atm.CoxPH(strata="a").fit(one[["x1", "a"]], y[one.index])
    # of two strata that are places too, one is left out at a time
    two = d[d.a != "0"]
    table = atm.leave_one_environment_out(atm.CoxPH(strata="a"), two[["x1", "a"]], y[two.index], two.a, [0]).frame()
    np.testing.assert_allclose(
        table.coef_x1[table.environment == "2"], atm.CoxPH().fit(one[["x1"]], y[one.index]).coef_, rtol=1e-6
    )
    with pytest.raises(InputError, match="strata not in X: where"):
        atm.CoxPH(strata="where").fit(d[["x1"]], y)
    with pytest.raises(InputError, match="strata are names or whole numbers, but 'a' has"):
        atm.CoxPH(strata="a").fit(d[["x1", "a"]].assign(a=[None, *d.a[1:]]), y)
    with pytest.raises(InputTypeError, match="strata must be names"):
        atm.CoxPH(strata=1.5).fit(d[["x1"]], y)
    weighted = atm.CoxPH(strata="a").fit(d[["x1", "a"]], y, sample_weight=(d.index >= 10).astype(float))
    rest = atm.CoxPH(strata="a").fit(d[["x1", "a"]][10:], y[10:])
    np.testing.assert_allclose(weighted.coef_, rest.coef_, atol=1e-12)


def test_predicted_curves() -> None:
    model = atm.CoxPH.from_formula(FORMULA, CGD, xi=1.0)
    d, table = model.predict_distribution(CGD), model.baseline_hazard_
    at = CGD[["age"]].assign(treat=(CGD.treat == "rIFN-g").astype(float))[["treat", "age"]].to_numpy()
    expected = np.exp(-np.outer(np.exp(at @ model.coef_), table["cumulative hazard"]))
    np.testing.assert_allclose(d.sf(table.time), expected, rtol=1e-12)
    np.testing.assert_allclose(d.sf(table.time - 0.5)[:, 1:], expected[:, :-1], rtol=1e-12)
    assert (d.sf([0.0, -1.0]) == 1.0).all()
    np.testing.assert_array_equal(d.sf([1e9]), d.sf([table.time.iloc[-1]]))
    np.testing.assert_array_equal(d.ppf(d.cdf(table.time.to_numpy())), np.tile(table.time, (len(CGD), 1)))
    assert np.isinf(d.ppf(1.0)).all()
    assert (d.ppf(0.0) == 0.0).all()
    assert np.isinf(d.ppf(0.99)[np.flatnonzero(d.cdf(1e9) < 0.99)]).all()
    np.testing.assert_array_equal(d.isf([0.5, 0.9]), d.ppf([0.5, 0.1]))
    np.testing.assert_array_equal(model.predict(CGD), d.median())
    later = d.given(after=200.0)
    np.testing.assert_allclose(later.sf([300.0]), d.sf([300.0]) / d.sf([200.0]), rtol=1e-12)
    assert (later.sf([100.0, 200.0]) == 1.0).all()
    assert (later.ppf([0.05, 0.0]) >= 200.0).all()
    rows = d[[3, 5]]
    np.testing.assert_array_equal(rows.sf(np.full((2, 1), 100.0)), d.sf([100.0])[[3, 5]])
    draws = d[:1].rvs(20_000, random_state=0)
    assert np.mean(draws > 100.0) == pytest.approx(d[:1].sf(100.0)[0], abs=0.01)
    np.testing.assert_allclose(np.log(d.cdf(100.0)), d.logcdf(100.0))
    np.testing.assert_allclose(d.odds(100.0), d.cdf(100.0) / d.sf(100.0))
    low, high = d.interval(0.5)
    assert (low <= high).all()
    assert np.isnan(d.sf([np.nan])).all()
    assert "43 event times" in repr(d)
    np.testing.assert_array_equal(d.times(), [0.0, *table.time])
    ax = atm.plotting.distributions(d[:2])
    assert ax.get_ylabel() == "P(Y > y)"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), d[:1].sf(d.times())[0])
    assert ax.lines[0].get_drawstyle() == "steps-post"
    plt.close(ax.figure)
    for refused, error in (
        (lambda: d.pdf(1.0), "no density"),
        (lambda: d.hazard(1.0), "no density"),
        (d.mean, "no mean"),
        (lambda: atm.marginal_effects(model, CGD), "no marginal effects"),
        (lambda: atm.scores.crps(d, CGD.tstop), "score them by brier"),
        (
            lambda: atm.diagnostics.calibration(model, CGD, atm.Surv(CGD.tstop, CGD.status), CGD.center),
            "score them by brier",
        ),
        (lambda: atm.scores.score_table(model, CGD, atm.Surv(CGD.tstop, CGD.status)), "score them by brier"),
    ):
        with pytest.raises(InputTypeError, match=error):
            refused()
    with pytest.raises(InputError, match="after must be one number"):
        d.given([1.0, 2.0])
    with pytest.raises(InputError, match="of shape"):
        d.sf(np.zeros((3, 2)))
    assert atm.scores.brier(d, atm.Surv(CGD.tstop, CGD.status), 300.0)[0] == pytest.approx(0.203, abs=1e-3)


def test_path_left_out_places_and_search() -> None:
    frame = atm.Formula(FORMULA, CGD)
    path = atm.anchor_path(atm.CoxPH(), frame.X, frame.y, frame.anchors, [0, 1, 10])
    assert path.frame().converged.all()
    assert (np.diff(path.frame().penalty) < 0).all()
    single = atm.CoxPH(10.0).fit(frame.X, frame.y, anchors=frame.anchors)
    np.testing.assert_allclose(path.coefs[2], single.coef_, atol=1e-7)
    with pytest.warns(AnchorTMWarning, match="rows without an event"):
        loeo = atm.leave_one_environment_out(atm.CoxPH(), frame.X, frame.y, CGD.center, [0, 1])
    table = loeo.frame()
    row = table[(table.environment == "Amsterdam") & (table.xi == 1)].iloc[0]
    here = (CGD.center == "Amsterdam").to_numpy()
    fitted = atm.CoxPH(1.0).fit(frame.X[~here], frame.y[~here], anchors=CGD.center[~here])
    np.testing.assert_allclose(row[["coef_treat[T.rIFN-g]", "coef_age"]].astype(float), fitted.coef_, atol=1e-6)
    assert row.nll == pytest.approx(fitted.nll(frame.X[here], frame.y[here]).mean(), rel=1e-6)
    assert -fitted.score(frame.X[here], frame.y[here]) == pytest.approx(row.nll, rel=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        search = atm.XiSearchCV(atm.CoxPH(), xis=[0, 1]).fit(frame.X, frame.y, anchors=CGD.center)
    assert search.best_xi_ in (0.0, 1.0)
    invariance = atm.diagnostics.residual_invariance(path.models[0], path.models[2], frame.X, frame.y, CGD.center)
    assert invariance.explained[1] < invariance.explained[0]
    with pytest.raises(InputTypeError, match="use ProportionalHazards"):
        atm.diagnostics.over_identification(path, frame.X)
    with pytest.warns(AnchorTMWarning, match="clusters|environments"):
        draws = atm.CoxPH(1.0).fit(frame.X, frame.y, anchors=CGD.sex).bootstrap(5, random_state=0, progress=False)
    assert draws.draws.shape == (5, 2)


def test_saved_and_copied(tmp_path: Path) -> None:
    d = MADE.assign(where=MADE.stratum.astype(int).astype(str))
    y = atm.Surv(d.time, d.event, d.entry)
    stratified = atm.CoxPH(1.0, strata="where").fit(d[["x1", "where"]], y, anchors=GROUP)
    formula = atm.CoxPH.from_formula(FORMULA, CGD, xi=1.0, ties="breslow")
    for model, X in ((stratified, d), (formula, CGD)):
        X = X[["x1", "where"]] if model is stratified else X
        same = atm.load(atm.save(model, tmp_path / "model.json"))
        np.testing.assert_array_equal(
            same.predict_distribution(X).sf([2.0, 5.0, 300.0]), model.predict_distribution(X).sf([2.0, 5.0, 300.0])
        )
        assert str(same.summary()) == str(model.summary())
        pd.testing.assert_frame_equal(same.baseline_hazard_, model.baseline_hazard_)
        outcome = y if model is stratified else atm.Surv(CGD.tstop, CGD.status)
        np.testing.assert_array_equal(same.residuals(X, outcome), model.residuals(X, outcome))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))  # noqa: S301
        assert clone(model).get_params() == model.get_params()
        with pytest.raises(InputError, match="needs the rows of the fit"):
            same.bootstrap(5)
    assert "where" in stratified.feature_names_in_


def test_a_stratum_without_events_is_saved(tmp_path: Path) -> None:
    d = MADE.assign(where=MADE.stratum.astype(int).astype(str))
    model = atm.CoxPH(strata="where").fit(d[["x1", "where"]], atm.Surv(d.time, d.event * (d["where"] != "1")))
    same = atm.load(atm.save(model, tmp_path / "model.json"))
    np.testing.assert_array_equal(same.predict(d[["x1", "where"]]), model.predict(d[["x1", "where"]]))
    assert np.isinf(same.predict(d[["x1", "where"]])[d["where"] == "1"]).all()


def test_a_damaged_baseline_is_not_loaded(tmp_path: Path) -> None:
    from anchortm.saving import digest

    model = atm.CoxPH.from_formula(FORMULA, CGD)
    good = json.loads(atm.save(model, tmp_path / "model.json").read_text())
    del good["sha256"]

    def change(**steps):  # of the file that is good now
        record = copy.deepcopy(good)
        record["steps"] |= steps
        return record

    time, jump = good["steps"]["time"], good["steps"]["jump"]
    smooth = atm.ProportionalHazards(order=2, strata="sex").fit(CGD[["age", "sex"]], atm.Surv(CGD.tstop, CGD.status))
    broken = [
        change(time=time[::-1]),
        change(jump=jump[:-1]),
        change(jump=[-1.0, *jump[1:]]),
        change(jump=["x", *jump[1:]]),
        change(tied=jump),
        change(stratum=[5] * len(time)),
        change(strata=["a"]),
        change(events=3),
        change(centre="x"),
        change(centre=1e3),
        change(centre=-1e3),
        change(events=129),
        good | {"corners": json.loads(atm.save(smooth, tmp_path / "smooth.json").read_text())["corners"]},
        change(event_weight=0.0),
        change(event_weight=129.0),
        change(time=[], jump=[], tied=[], stratum=[]),
        {key: value for key, value in good.items() if key != "steps"},
    ]
    d = MADE.assign(where=MADE.stratum.astype(int).astype(str))
    stratified = atm.CoxPH(strata="where").fit(d[["x1", "where"]], atm.Surv(d.time, d.event))
    good = json.loads(atm.save(stratified, tmp_path / "model.json").read_text())
    del good["sha256"]
    assert good["steps"]["strata"] == ["0", "1", "2"]
    for strata in (["0", "2", "1"], ["0", "1", "1"], ["0", "1"], ["0", "1", 2.5], ["0", "1", None], "012", ["0"], []):
        broken.append(change(strata=strata))
    for record in broken:
        (tmp_path / "model.json").write_text(json.dumps(record | {"sha256": digest(record)}))
        with pytest.raises(ModelFileError):
            atm.load(tmp_path / "model.json")


def test_summary_and_criteria() -> None:
    model = atm.CoxPH.from_formula(FORMULA, CGD)
    text = str(model.summary())
    for part in ("CoxPH: partial likelihood, Efron's ties", "128 (44 events)", "hazard ratio", "inverse Hessian"):
        assert part in text
    assert "Baseline" not in text
    assert model.n_parameters_ == 2
    assert model.aic_ == pytest.approx(-2 * model.loglik_ + 4)
    assert model.bic_ == pytest.approx(-2 * model.loglik_ + 2 * np.log(44))  # as R's BIC of a coxph
    assert "hazard ratio" in model.summary()._repr_html_()
    smaller = atm.CoxPH.from_formula("Surv(tstop, status) ~ treat", CGD)
    assert atm.likelihood_ratio_test(smaller, model).df == 1
    start = atm.CoxPH.from_formula(FORMULA, CGD, start=([], model.coef_), tol=1e-12)
    assert start.n_iter_ <= 2


def test_likelihood_ratios_of_nested_models_only() -> None:
    d = CGD.assign(treated=(CGD.treat == "rIFN-g").astype(float), classes=CGD.status + (CGD.age > 20))
    y, small, large = atm.Surv(d.tstop, d.status), d[["treated"]], d[["treated", "age"]]
    both = [d[[*part.columns, "sex"]] for part in (small, large)]

    def fit(model, X, y=y):
        return model.fit(X, y)

    def cox(X, **options):
        return atm.CoxPH(**options).fit(X, y)

    counts = np.random.default_rng(0).negative_binomial(1, 0.3, len(d))

    def glm(X, family, **options):
        return atm.AnchorGLM(family=family, **options).fit(X, counts)

    hazards = fit(atm.ProportionalHazards(order=3), large)
    binary = fit(atm.OrdinalRegression(), small, d.status)
    refused = [
        (cox(small), hazards),
        (fit(atm.ProportionalHazards(order=3), small), cox(d[["treated", "age", "steroids"]])),
        (cox(small), cox(large, ties="breslow")),
        (cox(small), cox(both[1], strata="sex")),
        (cox(both[0], strata="sex"), cox(large)),
        (fit(atm.Lehmann(order=3), small), hazards),
        (hazards, fit(atm.ParametricSurvival(), d[["treated", "age", "steroids", "propylac", "height"]])),
        (fit(atm.NormalLinear(), small, d.tstop), fit(atm.ContinuousLogit(order=3), large, d.tstop)),
        (binary, fit(atm.OrdinalRegression(), large, d.classes)),
        (binary, fit(atm.AnchorGLM(family="binomial"), large, d.status)),
        (glm(small, "poisson"), fit(atm.CountRegression(order=2), large, counts)),
        (glm(small, "poisson"), glm(large, "gaussian")),
        (glm(small, "poisson"), glm(large, "negative_binomial", alpha=1.0)),
        (glm(small, "negative_binomial", alpha=2.0), glm(large, "negative_binomial", alpha=1.0)),
        (glm(small, "negative_binomial", alpha="ml"), glm(d[["treated", "age", "height"]], "poisson")),
    ]
    for smaller, larger in refused:
        with pytest.raises(InputError, match="is not a special case of"):
            atm.likelihood_ratio_test(smaller, larger)
    nested = [
        (cox(both[0], strata="sex"), cox(both[1], strata="sex")),
        (fit(atm.ProportionalHazards(order=3), small), fit(atm.ProportionalHazards(order=3, strata="sex"), both[0])),
        (
            fit(atm.ProportionalHazards(order=3), small),
            fit(atm.ProportionalHazards(order=3, varying=["treated"]), small),
        ),
        (fit(atm.ProportionalHazards(order=2), small), fit(atm.ProportionalHazards(order=4), small)),
        (fit(atm.NormalLinear(), small, d.tstop), fit(atm.ContinuousProbit(order=4), small, d.tstop)),
        (fit(atm.NormalLinear(), small, d.tstop), fit(atm.NormalLinear(scale=["treated"]), small, d.tstop)),
        (fit(atm.ParametricSurvival(dist="exponential"), small), fit(atm.ParametricSurvival(), large)),
        (glm(small, "poisson"), glm(large, "poisson")),
        (glm(small, "poisson"), glm(small, "negative_binomial", alpha="ml")),
    ]
    for smaller, larger in nested:
        test = atm.likelihood_ratio_test(smaller, larger)
        assert test.df == larger.n_parameters_ - smaller.n_parameters_


def test_monotone_likelihood() -> None:
    rng = np.random.default_rng(0)
    n = 300
    X, time = rng.normal(size=(n, 2)), rng.exponential(size=n)
    exposed = (rng.random(n) < 0.3).astype(float)
    event = (exposed == 0.0) & (rng.random(n) < 0.6)
    for y in (atm.Surv(time, event), atm.Surv(time, event, time * rng.random(n))):
        with pytest.raises(
            SeparationError, match="monotone likelihood: at every event time a combination of x2 is largest"
        ):
            atm.CoxPH().fit(np.column_stack([X, exposed]), y)
    with pytest.raises(SeparationError, match="monotone likelihood"):
        atm.CoxPH().fit(X, atm.Surv(np.exp(-X[:, 0]), np.ones(n)))
    overlap = event.copy()
    overlap[np.argmax(exposed)] = True
    assert atm.CoxPH().fit(np.column_stack([X, exposed]), atm.Surv(time, overlap)).converged_
    # the same column, but each stratum holds one kind of row: no risk set compares them
    where = exposed.copy()
    with pytest.raises(IdentificationError, match="constant within every stratum"):
        atm.CoxPH(strata=3).fit(np.column_stack([X, exposed, where]), atm.Surv(time, event))


def test_large_data_start_from_a_sample() -> None:
    rng = np.random.default_rng(0)
    n = 120_000
    env = rng.integers(0, 5, n)
    X = rng.normal(size=(n, 2)) + 0.3 * env[:, None]
    time, end = rng.exponential(size=n) * np.exp(-X @ [0.5, -0.3]), rng.exponential(size=n)
    y = atm.Surv(np.minimum(time, end), time <= end)
    model = atm.CoxPH(1.0).fit(X, y, anchors=env)
    assert model.n_iter_ <= 4
    assert model.kkt_ < 1e-8
    np.testing.assert_allclose(model.coef_, [0.5, -0.3], atol=0.03)
    assert np.abs(np.bincount(env, model.residuals(X, y))).max() < 0.05 * n


def test_refusals() -> None:
    X, y, a = instrument(50)
    with pytest.raises(InputError, match="ties must be"):
        atm.CoxPH(ties="exact").fit(X, y)
    with pytest.raises(InputError, match=r"50 interval-censored rows.*ProportionalHazards"):
        atm.CoxPH().fit(X, atm.Interval(y.lower, y.lower + 1))
    with pytest.raises(InputError, match="right-truncated"):
        atm.CoxPH().fit(X, atm.Interval(y.lower, y.lower, exit=y.lower + 1))
    with pytest.raises(IdentificationError, match="all 50 rows are right-censored"):
        atm.CoxPH().fit(X, atm.Surv(y.lower, np.zeros(50)))
    with pytest.raises(InputError, match="needs anchors"):
        atm.CoxPH(1.0).fit(X, y)
    with pytest.raises(InputError, match="xi must be at least 0"):
        atm.CoxPH(-0.5).fit(X, y, anchors=a)
    with pytest.raises(InputError, match="use ProportionalHazards"):
        atm.CoxPH(varying=[0]).fit(X, y)
    with pytest.raises(InputError, match="not the information"):
        atm.CoxPH(1.0).fit(X, y, anchors=a).covariance("hessian")


def test_a_table_in_batches_is_refused(tmp_path: Path) -> None:
    CGD.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputTypeError, match="risk sets need all rows at once"):
        atm.CoxPH.from_formula(FORMULA, str(tmp_path / "rows.parquet"))


def test_scikit_learn() -> None:
    expected = {
        "check_sample_weights_shape": "the check's data are separated",
        "check_sample_weights_not_overwritten": "the check's data are separated",
        "check_regressors_no_decision_function": "the check's data are separated",
        "check_sample_weight_equivalence_on_dense_data": "more columns than rows",
        "check_sample_weight_equivalence_on_sparse_data": "more columns than rows",
        "check_estimators_empty_data_messages": "a design without columns is an unconditional model",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(atm.CoxPH(), expected_failed_checks=expected)
