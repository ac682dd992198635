"""Every family with every link runs through the same checks; a sixth family is one more entry of FAMILY_TYPES."""

from __future__ import annotations

import dataclasses
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize

import anchortm as atm
from anchortm.exceptions import IdentificationError, InputError, InputTypeError
from anchortm.families import FAMILIES, FAMILY_TYPES, Family, get_family
from anchortm.links import LINKS

ALPHA = 0.7
MEMBERS = [get_family(family, link, ALPHA) for family, links in FAMILIES.items() for link in links]
members = pytest.mark.parametrize("family", MEMBERS, ids=lambda family: family.name)
with_units = pytest.mark.parametrize(
    "family", [family for family in MEMBERS if not family.discrete], ids=lambda family: family.name
)
M = 6.0  # trials


def etas(family: Family, n: int = 7) -> np.ndarray:
    """Return some eta well inside the range of the link."""
    low, high = family.eta_range
    if math.isfinite(low):
        return np.linspace(0.3, 2.0, n)
    return np.linspace(-2.5, -0.1, n) if math.isfinite(high) else np.linspace(-1.2, 1.4, n)


def rows(family: Family, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eta, y and trials of 60 rows, y drawn from the law of the family."""
    rng = np.random.default_rng(seed)
    eta = rng.choice(etas(family, 20), 60)
    trials = np.full(60, M if family.family == "binomial" else 1.0)
    y = family.law(family.mean(eta).mu, trials).ppf(rng.random(60))
    return eta, np.asarray(y, dtype=float), trials


def values(family: Family, eta: np.ndarray, y: np.ndarray):
    return family.terms(eta, family.outcome(y, np.full(y.size, M)))


# --- derivatives ----------------------------------------------------------------------------------


@members
@pytest.mark.parametrize("residual", ["score", "deviance"])
def test_values_are_derivatives_of_each_other(family: Family, residual: str) -> None:
    """Central differences of l, r and r', and of the residuals of the penalty."""
    family, (eta, y, _), h = replace(family, residual=residual), rows(family), 1e-5
    at, up, down = (values(family, eta + side * h, y) for side in (0.0, 1.0, -1.0))
    for computed, plus, minus in (
        (-at.r, up.l, down.l),
        (at.dr, up.r, down.r),
        (at.d2r, up.dr, down.dr),
        (at.penalised.dr, up.penalised.r, down.penalised.r),
        (at.penalised.d2r, up.penalised.dr, down.penalised.dr),
    ):
        np.testing.assert_allclose(computed, (plus - minus) / (2 * h), rtol=1e-6, atol=1e-6)


@members
def test_mean_and_its_derivatives(family: Family) -> None:
    eta, h = etas(family), 1e-5
    at, up, down = (family.mean(eta + side * h) for side in (0.0, 1.0, -1.0))
    for k in range(3):
        np.testing.assert_allclose(at[k + 1], (up[k] - down[k]) / (2 * h), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose([family.eta(mu) for mu in at.mu.tolist()], eta, rtol=1e-12, atol=1e-12)


@members
def test_log_likelihood_in_the_mean(family: Family) -> None:
    """l and its derivatives in the mean, whatever the link; binomial rows have one trial."""
    mu, h = np.array([0.2, 0.45, 0.8]), 1e-5
    y = np.array([0.0, 1.0, 1.0]) if family.family == "binomial" else np.array([1.0, 2.0, 5.0])
    at, up, down = (family.in_mean(mu + side * h, y) for side in (0.0, 1.0, -1.0))
    for k in range(3):
        np.testing.assert_allclose(at[k + 1], (up[k] - down[k]) / (2 * h), rtol=1e-6, atol=1e-6)
    law = replace(family, dispersion=1.0).law(mu, np.ones(3))
    log = law.logpmf(y) if family.discrete else law.logpdf(y)
    moved = replace(family, dispersion=1.0).law(mu + 0.1, np.ones(3))
    other = moved.logpmf(y) if family.discrete else moved.logpdf(y)
    np.testing.assert_allclose(family.in_mean(mu + 0.1, y)[0] - at[0], other - log, rtol=1e-9, atol=1e-12)


# --- likelihoods and laws of scipy ----------------------------------------------------------------


@members
@pytest.mark.parametrize("dispersion", [1.0, 0.4])
@pytest.mark.parametrize("unit", [1.0, 2.5])
def test_log_likelihood_is_that_of_scipy(family: Family, dispersion: float, unit: float) -> None:
    if family.discrete and (dispersion, unit) != (1.0, 1.0):
        return  # counts have neither
    eta, y, trials = rows(family)
    law = replace(family, dispersion=dispersion).law(family.mean(eta).mu, trials)
    there = replace(family.measured_in(unit), dispersion=dispersion)
    computed = there.loglik(eta / there.eta_unit, there.outcome(y, trials))
    np.testing.assert_allclose(computed, law.logpmf(y) if family.discrete else law.logpdf(y), rtol=1e-10, atol=1e-12)
    if dispersion == 1.0 and unit == 1.0:
        np.testing.assert_allclose(family.terms(eta, family.outcome(y, trials)).l, computed, rtol=1e-10, atol=1e-12)


@members
def test_moments_of_the_law(family: Family) -> None:
    family = family if family.discrete else replace(family, dispersion=0.4)
    eta = etas(family)
    mu, m = family.mean(eta).mu, np.full(eta.size, M if family.family == "binomial" else 1.0)
    law = family.law(mu, m)
    np.testing.assert_allclose(law.mean(), m * mu, rtol=1e-12)
    np.testing.assert_allclose(law.var(), family.dispersion * m * family.variance(mu), rtol=1e-12)


def expectation(family: Family, eta: float, of) -> float:
    """Return E[of(y)] under the law at eta, at dispersion 1."""
    law = family.law(family.mean(np.array([eta])).mu[0], M if family.family == "binomial" else 1.0)
    if family.discrete:
        y = np.arange(0.0, M + 1 if family.family == "binomial" else float(law.ppf(1 - 1e-15)) + 50)
        return float(law.pmf(y) @ of(y))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    y = np.asarray(law.ppf(0.5 + 0.5 * nodes))
    return float(0.5 * weights @ of(y))


@members
def test_information_is_the_expected_curvature(family: Family) -> None:
    """E[r] = 0 and E[r^2] = E[r'] = the information, by summing or integrating over outcomes."""
    for eta in etas(family, 3).tolist():

        def of(name, power=1, eta=eta):
            return lambda y: getattr(values(family, np.full(y.size, eta), y), name) ** power

        outcome = family.outcome(np.ones(1), np.full(1, M))
        information = float(family.information(np.array([eta]), outcome)[0])
        assert expectation(family, eta, of("r")) == pytest.approx(0.0, abs=2e-4 * math.sqrt(information))
        assert expectation(family, eta, of("r", 2)) == pytest.approx(information, rel=2e-3)
        assert expectation(family, eta, of("dr")) == pytest.approx(information, rel=2e-3)
        terms = replace(family, expected_information=True).terms(np.array([eta]), outcome)
        assert terms.dr[0] == information
        assert terms.r == values(family, np.array([eta]), np.ones(1)).r


@members
def test_scores_by_their_definition(family: Family) -> None:
    """CRPS: the integral, or sum, of (F(t) - 1{y <= t})^2."""
    family = family if family.discrete else replace(family, dispersion=0.4)
    eta, y, trials = (a[:4] for a in rows(family))
    mu = family.mean(eta).mu
    for k, found in enumerate(family.crps(y, mu, trials)):
        law = family.law(mu[k], trials[k])
        if family.discrete:
            grid = np.arange(0.0, float(law.ppf(1 - 1e-14)) + y[k] + 10)
            expected = np.sum((law.cdf(grid) - (y[k] <= grid)) ** 2)
        else:
            low, high = min(law.ppf(1e-14), y[k]), max(law.isf(1e-14), y[k])
            below = integrate.quad(lambda t: law.cdf(t) ** 2, low, y[k], limit=200)[0]  # noqa: B023
            expected = below + integrate.quad(lambda t: law.sf(t) ** 2, y[k], high, limit=200)[0]  # noqa: B023
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)


@members
def test_closed_scores_agree_with_the_default(family: Family) -> None:
    """Also for outcomes in the tails, and beyond them."""
    family = family if family.discrete else replace(family, dispersion=0.4)
    eta, y, trials = rows(family)
    mu = family.mean(eta).mu
    if family.family != "binomial":
        y[:4] = [0.0, 1.0, 40.0, 300.0] if family.discrete else [1e-9, 1e-3, 40.0, 300.0]
    np.testing.assert_allclose(Family.crps(family, y, mu, trials), family.crps(y, mu, trials), rtol=1e-8, atol=1e-10)


# --- residuals ------------------------------------------------------------------------------------


@members
def test_kinds_of_residuals(family: Family) -> None:
    """Response, Pearson and deviance residuals from their definitions, with the law's own density."""
    eta, y, trials = rows(family)
    outcome, mu = family.outcome(y, trials), family.mean(eta).mu
    np.testing.assert_allclose(family.response_residuals(eta, outcome), y - trials * mu, rtol=1e-13)
    pearson = (y - trials * mu) / np.sqrt(trials * family.variance(mu))
    np.testing.assert_allclose(family.pearson(eta, outcome), pearson, rtol=1e-13)
    inner = np.clip(y / trials, 1e-13, 1.0 if family.family == "binomial" else np.inf) if family.discrete else y
    best, here = family.law(inner, trials), family.law(mu, trials)
    log = (lambda law: law.logpmf(y)) if family.discrete else (lambda law: law.logpdf(y))
    squared = 2.0 * (log(best) - log(here))
    D = family.deviance_residuals(eta, outcome, family.score_terms(eta, outcome)).r
    np.testing.assert_allclose(D**2, squared, rtol=1e-7, atol=1e-9)
    away = np.abs(y - trials * mu) > 1e-6
    assert (np.sign(D) == np.sign(y - trials * mu))[away].all()


@members
def test_deviances_are_squared_deviance_residuals(family: Family) -> None:
    """Far from the mean, near it, and at the ends of the range."""
    eta, y, trials = rows(family)
    y[:3] = (0.0, M, 1.0) if family.family == "binomial" else (0.0, 700.0, 1.0) if family.discrete else (1e-6, 700.0, 1)
    outcome, mu = family.outcome(y, trials), family.mean(eta).mu
    if not family.discrete:
        outcome[3:6, 0] = mu[3:6] * [1.0, 1.0 + 1e-9, 0.9]
    D = family.deviance_residuals(eta, outcome, family.score_terms(eta, outcome)).r
    np.testing.assert_allclose(family.deviances(eta, outcome), D**2, rtol=1e-13)


@pytest.mark.parametrize("link", FAMILIES["binomial"])
def test_zeros_and_ones_are_rows_with_one_trial(link: str) -> None:
    """The values of 0/1 rows, far out too, are those of a mixture over the trials."""
    family = get_family("binomial", link)
    eta = np.repeat([-30.0, -4.0, -0.2] if link == "log" else [-30.0, -4.0, -0.2, 0.0, 3.0, 35.0], 2)
    y = np.tile([0.0, 1.0], eta.size // 2)
    binary, one = family.outcome(y), family.outcome(y, np.ones_like(y))
    assert (binary.shape[1], one.shape[1]) == (2, 3)
    for residual in ("score", "deviance"):
        own = replace(family, residual=residual)
        a, b = own.terms(eta, binary), own.terms(eta, one)
        for left, right in zip((*a, *a.penalised[-3:]), (*b, *b.penalised[-3:]), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-14)
    for question in ("deviances", "pearson", "response_residuals", "information", "ways"):
        ask = getattr(family, question)
        given = ((binary,), (one,)) if question == "ways" else ((eta, binary), (eta, one))
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(*(ask(*arguments) for arguments in given), rtol=1e-13)


@members
def test_penalty_takes_the_residuals_that_are_named(family: Family) -> None:
    eta, y, _ = rows(family)
    score = values(family, eta, y)
    assert score.penalised is score
    other = values(replace(family, residual="deviance"), eta, y)
    assert all(np.array_equal(a, b) for a, b in zip(score, other, strict=True))
    outcome = family.outcome(y, np.full(y.size, M))
    for a, b in zip(family.deviance_residuals(eta, outcome, score), other.penalised, strict=True):
        np.testing.assert_array_equal(a, b)


# --- units ----------------------------------------------------------------------------------------


@with_units
@pytest.mark.parametrize("unit", [0.01, 3.0, 700.0])
def test_the_loss_does_not_depend_on_the_unit(family: Family, unit: float) -> None:
    """l times the unit of the loss squared, less what is lacking, and residuals of the penalty times its root."""
    eta, y, _ = rows(family)
    here, there = values(family, eta, y), family.measured_in(unit)
    moved = values(there, eta / there.eta_unit, y)
    assert there.loss_unit == (unit if family.family == "gaussian" else 1.0)
    np.testing.assert_allclose(moved.l * there.loss_unit**2 - there.lacking, here.l, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moved.penalised.r * there.loss_unit, here.r, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(there.mean(eta / there.eta_unit).mu * unit, family.mean(eta).mu, rtol=1e-12)


@with_units
def test_the_typical_unit_follows_the_outcome(family: Family) -> None:
    _, y, _ = rows(family)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    unit = family.in_typical_unit(y, weights).unit
    assert family.in_typical_unit(1e6 * y, weights).unit == pytest.approx(1e6 * unit if unit != 1.0 else 1.0)
    if family.affine:
        mean = np.average(y, weights=weights)
        assert unit == pytest.approx(math.sqrt(np.average((y - mean) ** 2, weights=weights)))


def test_counts_have_no_unit() -> None:
    for family in MEMBERS:
        if family.discrete:
            assert family.in_typical_unit(np.arange(9.0), None) is family


# --- ranges ---------------------------------------------------------------------------------------


@members
def test_range_of_eta(family: Family) -> None:
    """Inside the range the mean is one that the family has; outside it is refused, and taken back to the end."""
    low, high = family.eta_range
    eta = np.array([-2.0, -1e-12, 0.0, 1e-12, 0.4, 5.0])
    outside = family.outside(eta)
    assert outside.tolist() == [(e < low or e > high or (e == low and family.link == "inverse")) for e in eta.tolist()]
    bottom, top = family.mean_range
    with np.errstate(divide="ignore"):
        mu = family.mean(eta[~outside]).mu
    assert ((mu >= bottom) & (mu <= top)).all()
    back = family.inside(eta)
    assert ((back >= low) & (back <= high)).all()
    np.testing.assert_array_equal(back[~outside], eta[~outside])
    assert family.positive is (low == 0.0)
    near = family.near_edge(eta)
    assert near.tolist() == [(math.isfinite(low) or math.isfinite(high)) and abs(e) < 1e-6 for e in eta.tolist()]
    beyond = np.array([e for e in (low - 0.5, high + 0.5) if math.isfinite(e)])
    if beyond.size:
        with np.errstate(all="ignore"):
            assert np.isneginf(values(family, beyond, np.full(beyond.size, 1.0)).l).all()


@members
def test_ways_in_which_the_likelihood_has_no_end(family: Family) -> None:
    """At the ends of the range of y the likelihood does not fall towards an infinite eta; elsewhere it does."""
    y = np.array([0.0, 1.0, 4.0, M]) if family.discrete else np.array([0.5, 2.0])
    ways = family.ways(family.outcome(y, np.full(y.size, M)))
    for outcome, way in zip(y, ways, strict=True):
        low, high = family.eta_range
        falls = []
        for side, end in ((1, high), (-1, low)):
            if math.isfinite(end):
                falls.append(True)
                continue
            path = values(family, side * np.array([3.0, 6.0, 12.0]), np.full(3, outcome)).l
            falls.append(bool(path[2] < path[1]))
        assert falls == [way != 1, way != -1]


@members
def test_concave_likelihoods(family: Family) -> None:
    """-l'' >= 0 where the family says so, and somewhere not where it does not; -l'' >= |r''| where it is certified."""
    low, high = family.eta_range
    eta = np.linspace(max(low + 0.02, -6.0), min(high - 0.02, 6.0), 400)
    y = [0.0, 1.0, 2.0, 5.0, M] if family.discrete else [0.2, 1.0, 7.0]
    found = [values(family, eta, np.full(eta.size, outcome)) for outcome in y]
    assert all((t.dr >= -1e-9).all() for t in found) is family.concave
    if family.certified:
        assert all((t.dr >= np.abs(t.d2r) * (1 - 1e-9)).all() for t in found)
    assert not replace(family, residual="deviance").certified


# --- facts that models report ---------------------------------------------------------------------


@members
def test_the_effect_is_what_its_name_says(family: Family) -> None:
    """exp(b) multiplies means, odds or hazards by the same factor everywhere."""
    eta, b = etas(family), -0.2 if family.positive else -0.5
    mu, moved = family.mean(eta).mu, family.mean(eta + b).mu
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = {
            "mean": moved / mu,
            "odds ratio": moved / (1 - moved) / (mu / (1 - mu)),
            "hazard ratio": np.log1p(-moved) / np.log1p(-mu),
        }
    constant = [name for name, ratio in ratios.items() if np.allclose(ratio, math.exp(b), rtol=1e-10)]
    words = {"rate ratio": "mean", "risk ratio": "mean", "ratio of means": "mean"}
    name = family.effect_name
    assert constant == ([words.get(name, name)] if name else [])


def test_binomial_links_are_all_links_and_the_logarithm() -> None:
    assert FAMILIES["binomial"] == ("logit", *(name for name in LINKS if name != "logit"), "log")


@pytest.mark.parametrize("name", ["gaussian", "gamma"])
def test_likeliest_dispersion(name: str) -> None:
    """From the deviance alone, against a search over dispersions."""
    family = get_family(name)
    eta, y, _ = rows(family)
    outcome = family.outcome(y)
    deviance = float((family.deviance_residuals(eta, outcome, family.terms(eta, outcome)).r ** 2).sum())

    def nll(log_dispersion: float) -> float:
        return -float(replace(family, dispersion=math.exp(log_dispersion)).loglik(eta, outcome).sum())

    best = optimize.minimize_scalar(nll, bounds=(-5, 5), method="bounded", options={"xatol": 1e-12})
    assert family.likeliest_dispersion(deviance, y.size) == pytest.approx(math.exp(best.x), rel=1e-6)
    if name == "gamma":  # whose formula for the maximum holds where y / mu averages 1
        y = y / np.average(y / family.mean(eta).mu)
        outcome = family.outcome(y)
        deviance = float((family.deviance_residuals(eta, outcome, family.terms(eta, outcome)).r ** 2).sum())
        best = optimize.minimize_scalar(nll, bounds=(-5, 5), method="bounded", options={"xatol": 1e-12})
    quasi = float(family.terms(eta, outcome).l.sum())
    assert family.largest_loglik(deviance, quasi, y.size) == pytest.approx(-best.fun, rel=1e-10)


@pytest.mark.parametrize("name", ["poisson", "binomial", "negative_binomial"])
def test_counts_have_no_likeliest_dispersion(name: str) -> None:
    with pytest.raises(InputError, match="dispersion='pearson'"):
        get_family(name).likeliest_dispersion(1.0, 2.0)
    assert get_family(name).largest_loglik(3.0, -7.0, 2.0) == -7.0


@pytest.mark.parametrize("link", FAMILIES["negative_binomial"])
def test_derivatives_in_log_alpha(link: str) -> None:
    family, h = get_family("negative_binomial", link, ALPHA), 1e-4
    eta, y, _ = rows(family)

    def at(step: float) -> Family:
        return replace(family, alpha=ALPHA * math.exp(step))

    def loglik(step: float, move: float = 0.0) -> np.ndarray:
        return at(step).loglik(eta + move, at(step).outcome(y))

    found = family.in_log_alpha(eta, family.outcome(y))
    np.testing.assert_allclose(found.first, (loglik(h) - loglik(-h)) / (2 * h), rtol=1e-6, atol=1e-7)
    second = (loglik(h) - 2 * loglik(0.0) + loglik(-h)) / h**2
    np.testing.assert_allclose(found.second, second, rtol=1e-5, atol=1e-6)
    slopes = [-at(side * h).terms(eta, at(side * h).outcome(y)).r for side in (1.0, -1.0)]
    np.testing.assert_allclose(found.with_eta, (slopes[0] - slopes[1]) / (2 * h), rtol=1e-6, atol=1e-7)


def test_free_dispersions() -> None:
    for family in MEMBERS:
        assert family.free_dispersion is not family.discrete
        assert replace(family, estimate="pearson").free_dispersion
        assert not replace(family, estimate=2.0).free_dispersion


# --- checks of outcomes ---------------------------------------------------------------------------


def test_outcomes_that_a_family_does_not_have() -> None:
    one, y = np.ones(3), np.array([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match=r"y is 2 at row 1.*Trials"):
        get_family("binomial").check_outcomes(y)
    get_family("binomial").check_outcomes(y, 3 * one)
    with pytest.raises(InputError, match="y is -1 at row 2, and gamma outcomes are above 0"):
        get_family("gamma").check_outcomes(np.array([1.0, 2.0, -1.0]))
    with pytest.raises(InputError, match="mean is above 0"):
        get_family("gaussian", "log").check_outcomes(-y)
    get_family("gaussian").check_outcomes(-y)
    for name in ("poisson", "negative_binomial", "gamma", "gaussian"):
        get_family(name).check_outcomes(y)
        with pytest.raises(InputTypeError, match=f"binomial', not '{name}'"):
            get_family(name).check_outcomes(y, 3 * one)


def test_outcomes_that_leave_nothing_to_estimate() -> None:
    one, y = np.ones(3), np.array([1.0, 2.0, 3.0])
    for family in MEMBERS:
        if family.discrete:
            with pytest.raises(IdentificationError, match="all outcomes are 0"):
                family.check_variation(0.0 * one, 3 * one)
        else:
            with pytest.raises(IdentificationError, match="all outcomes are 1"):
                family.check_variation(one)
            for size in (1e-150, 1e150):
                with pytest.raises(InputError, match="rescale y"):
                    family.check_variation(size * y)
        family.check_variation(y, 4 * one)
    for top, trials in ((one, None), (3 * one, 3 * one)):
        with pytest.raises(IdentificationError, match="all trials are successes"):
            get_family("binomial").check_variation(top, trials)


# --- records --------------------------------------------------------------------------------------


@members
def test_families_are_immutable_records(family: Family) -> None:
    assert type(family) is FAMILY_TYPES[family.family]
    assert pickle.loads(pickle.dumps(family)) == family  # noqa: S301 - our own object
    assert hash(family) == hash(replace(family))
    with pytest.raises(dataclasses.FrozenInstanceError):
        family.unit = 2.0
    assert get_family(family, alpha=ALPHA) == family
    assert get_family(family, residual="deviance").residual == "deviance"
    assert family.name == f"{family.family}-{family.link}"


def test_get_family() -> None:
    for name, own in FAMILY_TYPES.items():
        assert get_family(name) == own(alpha=1.0 if name == "negative_binomial" else None)
        assert get_family(name).link == FAMILIES[name][0]
    assert get_family("negative_binomial", alpha="ml").alpha is None
    for bad, error in ((3, InputTypeError), (None, InputTypeError), ("tweedie", InputError)):
        with pytest.raises(error, match="family must be one of poisson, binomial"):
            get_family(bad)
    for bad in ("logit", ["log"], 3):
        with pytest.raises(InputError, match="the link of poisson must be one of log, identity, sqrt"):
            get_family("poisson", bad)
    with pytest.raises(InputError, match="the link of gamma"):
        FAMILY_TYPES["gamma"]("probit")
    with pytest.raises(InputError, match="'score' or 'deviance'"):
        get_family("poisson", residual="raw")


@pytest.mark.bug("hard data", "gaussian outcomes whose mean is exactly 0 were a division by zero")
def test_outcomes_with_a_mean_of_zero() -> None:
    x, y = np.arange(6.0)[:, None], np.array([-3.0, 1.0, -1.0, 3.0, 0.0, 0.0])
    model = atm.AnchorGLM().fit(x, y)
    slope, intercept = np.polyfit(x[:, 0], y, 1)
    np.testing.assert_allclose([model.intercept_, model.coef_[0]], [intercept, slope], rtol=1e-8)
    assert get_family("gaussian").eta(0.0) == 0.0
