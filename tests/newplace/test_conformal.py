"""Conformal sets for a new place: against known numbers, against slow code, and what must not change them."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from scipy import stats
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, ModelFileError
from anchortm.inputs.response import as_response
from anchortm.newplace.conformal_fits import split_sizes
from anchortm.newplace.conformal_scores import Promise, known_to_reach, scores_of

KNOWN = json.loads((REFERENCE / "robust" / "conformal.json").read_text())
PROBLEMS = [name for name in KNOWN if name != "simulation"]
METHODS = ("split", "loeo", "full")
GUARANTEES = ("average", "places")


def made(seed: int = 0, n_places: int = 12, sizes: tuple[int, ...] = (5, 8, 11)) -> pd.DataFrame:
    """Return rows of places that differ in level and in size."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(n_places), [sizes[k % len(sizes)] for k in range(n_places)])
    data = pd.DataFrame({"site": [f"s{k:02d}" for k in site], "x": rng.normal(size=site.size)})
    latent = data.x + 0.8 * rng.normal(size=n_places)[site] + rng.normal(size=site.size)
    data["y"], data["grade"] = latent, np.digitize(latent, [-1.0, 0.0, 1.5])
    data["count"] = rng.poisson(np.exp(0.4 * latent))
    data["time"], data["event"] = np.exp(latent), rng.integers(0, 2, site.size)
    data["word"], data["w"] = rng.choice(["a", "b", "c"], site.size), rng.integers(1, 4, site.size).astype(float)
    return data


DATA = made()
NEW = made(1, 2)


def problem(name: str) -> tuple[Any, Any, Any, Any]:
    """Return model, covariates, outcome and places of a problem with known numbers."""
    if name == "wine_ord":
        wine = atm.datasets.load_wine()
        formula = atm.Formula("rating ~ temp + contact | judge", wine)
        return atm.OrdinalRegression(), formula.X, formula.y, wine.judge
    if name == "cgd_cox":
        cgd = atm.datasets.load_cgd()
        columns = [cgd.treat == "rIFN-g", cgd.sex == "male", cgd.age, cgd.inherit == "autosomal", cgd.propylac]
        X = np.column_stack(columns).astype(float)
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
        model = atm.ProportionalHazards(order=4, log_first=True, support=tuple(np.exp(KNOWN[name]["support"])))
        return model, X, atm.Surv(cgd.tstop, cgd.status), cgd.center
    data = atm.datasets.load_boston_housing2()
    X = data[["crim", "zn", "indus", "nox", "rm", "age", "lstat"]]
    X, price = (X - X.mean()) / X.std(), data.cmedv
    support = tuple(KNOWN[name].get("support") or (12.9, 34.65))
    models = {
        "bh2_lm": atm.NormalLinear(),
        "bh2_cprobit": atm.ContinuousProbit(support=support),
        "bh2_clogit": atm.ContinuousLogit(support=support),
    }
    return models[name], X, atm.Surv(price, price != 50) if name == "bh2_clogit" else price, data.town


@pytest.mark.parametrize("name", PROBLEMS)
def test_thresholds_of_a_slow_implementation(name: str) -> None:
    """It takes censored rows as events, in both tails, which only our internals do."""
    model, X, y, places = problem(name)
    predictor = atm.ConformalPredictor(model, method="full", level=0.8).fit(X, y, environments=places)
    found, known = predictor.calibration_, KNOWN[name]

    def threshold(guarantee: str, level: float, share: float = 0.9) -> float:
        value = found.threshold(Promise(guarantee, level, share), True)
        return 0.5 * -math.expm1(-value) if name == "wine_ord" else value  # the distance of 1/2 to the cell

    n = found.places.size
    for alpha, value in known["hcp"].items():
        assert threshold("average", 1.0 - float(alpha)) == pytest.approx(value, abs=1e-9)
    for alpha, value in known["pool"].items():  # the same without the new place
        assert threshold("average", (1.0 - float(alpha)) * n / (n + 1)) == pytest.approx(value, abs=1e-9)
    for both, value in known["env"].items():
        alpha, delta = map(float, both.split(","))
        assert threshold("places", 1.0 - alpha, 1.0 - delta) == pytest.approx(value, abs=1e-9)
    if found.censored:
        with pytest.raises(InputError, match="only lower_bound is available: these rows do not"):
            predictor.predict_interval(X[:2])


class Line:
    """Least squares by hand: F(y | x) of a fit to some rows, as a slow second implementation."""

    def __init__(self, rows: Any) -> None:
        A = np.column_stack([np.ones(len(rows)), rows.x])
        self.b = np.linalg.lstsq(A, rows.y.to_numpy(), rcond=None)[0]
        self.sd = math.sqrt(np.mean((rows.y - A @ self.b) ** 2))

    def score(self, x: Any, y: Any) -> Any:
        z = (np.asarray(y) - self.b[0] - self.b[1] * np.asarray(x)) / self.sd
        return -np.log(2.0 * stats.norm.sf(np.abs(z)))

    def interval(self, x: float, q: float) -> tuple[float, float]:
        middle, half = self.b[0] + self.b[1] * x, self.sd * stats.norm.isf(0.5 * math.exp(-q))
        return middle - half, middle + half


def quantile_slow(scores: dict[str, Any], guarantee: str, level: float, share: float) -> float:
    """Return the threshold as the definition has it, by counting."""
    n = len(scores)
    if guarantee == "places":
        own = sorted(sorted(v)[math.ceil(level * len(v) - 1e-9) - 1] for v in scores.values())
        return [*own, math.inf][min(math.ceil(share * (n + 1) - 1e-9), n + 1) - 1]
    for t in sorted(np.concatenate(list(scores.values()))):
        if sum(np.mean(np.asarray(v) <= t) for v in scores.values()) / (n + 1) >= level - 1e-12:
            return float(t)
    return math.inf


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("level", "share"), [(0.8, 0.7), (0.6, 0.5)])
def test_intervals_by_slow_code(method: str, guarantee: str, level: float, share: float) -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), level, guarantee, share, method)
    predictor.fit(DATA[["x"]], DATA.y, environments=DATA.site)
    lower, upper = predictor.predict_interval(NEW[["x"]])
    sites = sorted(set(DATA.site))
    places = predictor.calibration_environments_.tolist()
    if method == "split":
        train = DATA[~DATA.site.isin(places)]
        assert sorted(set(train.site)) == predictor.training_environments_.tolist()
        fits = dict.fromkeys(places, Line(train))
    else:
        assert places == sites
        fits = {e: Line(DATA[DATA.site != e]) for e in sites}
    scores = {e: fits[e].score(DATA.x[DATA.site == e], DATA.y[DATA.site == e]) for e in places}
    q = quantile_slow(scores, guarantee, level, share)
    assert predictor.threshold_ == pytest.approx(q, abs=1e-9)
    grid = np.linspace(-12, 12, 4801)
    for x, low, high in zip(NEW.x, lower, upper, strict=True):
        if method == "loeo" and guarantee == "average":
            covering = sum(np.mean(scores[e][:, None] >= fits[e].score(x, grid), axis=0) for e in sites)
            inside = grid[(1.0 + covering) / (len(sites) + 1) > 1.0 - level + 1e-12]
            assert low <= inside.min() + 1e-9  # the set of p-values lies in the jackknife+ interval
            assert high >= inside.max() - 1e-9
            ends = [(fits[e].interval(x, v), 1.0 / len(scores[e])) for e in sites for v in scores[e]]
            total, wanted = 0.0, (1.0 - level) * (len(sites) + 1) - 1.0
            for (end, _), weight in sorted(ends):
                total += weight
                if total > wanted + 1e-9:
                    assert low == pytest.approx(end, abs=1e-7)
                    break
        else:
            used = [fits[places[0]]] if method == "split" else [Line(DATA)] if method == "full" else fits.values()
            ends = [fit.interval(x, q) for fit in used]
            assert low == pytest.approx(min(a for a, _ in ends), abs=1e-7)
            assert high == pytest.approx(max(b for _, b in ends), abs=1e-7)


@pytest.mark.parametrize("outcome", ["grade", "count"])
@pytest.mark.parametrize("method", METHODS)
def test_sets_of_classes_and_counts(outcome: str, method: str) -> None:
    """A class belongs to the set if 1/2 is no further from its cell than the threshold."""
    model = atm.OrdinalRegression() if outcome == "grade" else atm.CountRegression(order=2)
    predictor = atm.ConformalPredictor(model, 0.8, "places", 0.7, method)
    predictor.fit(DATA[["x"]], DATA[outcome], environments=DATA.site)
    found, q = predictor.calibration_, 0.5 * -math.expm1(-predictor.threshold_)
    fits = found.left_out if method == "loeo" else [found.model]
    points = list(range(4)) if outcome == "grade" else list(range(60))
    member = np.zeros((len(NEW), len(points)), dtype=bool)
    for fit in fits:
        cdf = fit.predict_distribution(NEW[["x"]]).cdf(points)
        below = np.hstack([np.zeros((len(NEW), 1)), cdf[:, :-1]])
        member |= np.maximum.reduce([np.zeros_like(cdf), below - 0.5, 0.5 - cdf]) <= q + 1e-12
    for row, own in zip(member, predictor.predict_set(NEW[["x"]]), strict=True):
        expected = np.array(points)[row]
        assert list(own) == list(range(expected.min(), expected.max() + 1))  # without gaps
    lower, upper = predictor.predict_interval(NEW[["x"]])
    assert [(own[0], own[-1]) for own in predictor.predict_set(NEW[["x"]])] == list(zip(lower, upper, strict=True))


def test_the_rows_that_set_the_threshold_are_covered() -> None:
    """Rounding must not throw out the outcome at the end of the set."""
    for outcome, model in (("y", atm.ContinuousProbit(order=3)), ("grade", atm.OrdinalRegression())):
        predictor = atm.ConformalPredictor(model, 0.8).fit(DATA[["x"]], DATA[outcome], environments=DATA.site)
        held = DATA[DATA.site.isin(predictor.calibration_environments_)]
        lower, upper = predictor.predict_interval(held[["x"]])
        inside = (lower <= held[outcome]) & (held[outcome] <= upper)
        np.testing.assert_array_equal(inside, predictor.calibration_.both <= predictor.threshold_)
        bounded = predictor.lower_bound(held[["x"]]) <= held[outcome]
        lowest = predictor.calibration_.threshold(Promise("average", 0.8, 0.9), False)
        np.testing.assert_array_equal(bounded, predictor.calibration_.lower <= lowest)


def test_scores_keep_their_digits_in_the_tails() -> None:
    model = atm.NormalLinear().fit(DATA[["x"]], DATA.y)
    law = model.predict_distribution(DATA[["x"]][:1])
    sd = float(law.ppf(stats.norm.cdf(1.0))[0] - law.median()[0])
    both, lower = scores_of(law, law.median() - 30.0 * sd)
    assert both[0] == pytest.approx(-math.log(2.0) - stats.norm.logcdf(-30.0), rel=1e-6)
    assert lower[0] == pytest.approx(-stats.norm.logcdf(-30.0), rel=1e-6)


# what must not change the sets


def intervals(data: pd.DataFrame, method: str, guarantee: str, model: Any = None, **beside: Any) -> np.ndarray:
    predictor = atm.ConformalPredictor(model or atm.NormalLinear(), 0.8, guarantee, 0.7, method)
    predictor.fit(data[["x"]], data.y, environments=data.site, **beside)
    return np.array(predictor.predict_interval(NEW[["x"]]))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("method", METHODS)
def test_invariances(method: str, guarantee: str) -> None:
    expected = intervals(DATA, method, guarantee)
    shuffled = DATA.sample(frac=1.0, random_state=3).reset_index(drop=True)
    np.testing.assert_allclose(intervals(shuffled, method, guarantee), expected, atol=1e-7)
    scaled = DATA.assign(y=3.0 * DATA.y + 2.0)
    np.testing.assert_allclose(intervals(scaled, method, guarantee), 3.0 * expected + 2.0, atol=1e-6)
    if method != "split":  # whose halves are drawn by name
        names = dict(zip(sorted(set(DATA.site)), np.random.default_rng(0).permutation(12).tolist(), strict=True))
        renamed = DATA.assign(site=DATA.site.map(names))
        np.testing.assert_allclose(intervals(renamed, method, guarantee), expected, atol=1e-7)
    twice = DATA.loc[DATA.index.repeat(DATA.w.astype(int))]
    weighted = intervals(DATA, method, guarantee, sample_weight=DATA.w)
    np.testing.assert_allclose(weighted, intervals(twice, method, guarantee), atol=1e-6)
    doubled = pd.concat([DATA, DATA])  # each place twice as large
    if guarantee == "average":
        np.testing.assert_allclose(intervals(doubled, method, guarantee), expected, atol=1e-6)


def test_thresholds_move_with_the_scores() -> None:
    rng = np.random.default_rng(0)
    codes, scores = np.repeat(np.arange(12), rng.integers(1, 9, 12)), rng.exponential(size=0)
    scores, weights = rng.exponential(size=codes.size), np.ones(codes.size)
    for promise in (Promise("average", 0.8, 0.9), Promise("places", 0.8, 0.6)):
        q = promise.threshold(scores, codes, weights)
        assert promise.threshold(np.exp(scores) ** 2, codes, weights) == pytest.approx(math.exp(2.0 * q))
        assert promise.threshold(scores, codes, 7.0 * weights) == q
    equal = np.repeat(np.arange(10), 6)
    values = rng.normal(size=60)
    rank = math.ceil(0.8 * 11 / 10 * 60 - 1e-9)  # places of equal size: an ordinary quantile
    assert Promise("average", 0.8, 0.9).threshold(values, equal, np.ones(60)) == np.sort(values)[rank - 1]


def test_levels_are_nested() -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), method="loeo").fit("y ~ x | site", DATA)
    ends = []
    for level in (0.5, 0.7, 0.9):
        lower, upper = predictor.set_params(level=level).predict_interval(NEW)
        ends.append((lower, upper))
    for (a, b), (c, d) in itertools.pairwise(ends):
        assert (c <= a).all()
        assert (b <= d).all()


def test_batches_of_new_rows_do_not_matter() -> None:
    for method in METHODS:
        predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method=method).fit("y ~ x | site", DATA)
        whole = np.array(predictor.predict_interval(NEW))
        parts = [np.array(predictor.predict_interval(NEW[k : k + 1])) for k in range(len(NEW))]
        np.testing.assert_array_equal(np.hstack(parts), whole)


def test_many_rows_are_predicted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method="loeo").fit("y ~ x | site", DATA)
    whole = predictor.predict_interval(NEW)
    monkeypatch.setattr("anchortm.newplace.conformal_fits.MOST_CELLS", 3 * len(DATA))
    np.testing.assert_array_equal(predictor.predict_interval(NEW), whole)
    assert [ends.shape for ends in predictor.predict_interval(NEW[:0])] == [(0,), (0,)]


# what the fits may see


def test_outcomes_and_covariates_of_the_other_half_play_no_part_in_the_fit() -> None:
    formula = "y ~ scale(x) + word | site"
    predictor = atm.ConformalPredictor(atm.XiSearchCV(atm.NormalLinear(), [0, 1, 5]), 0.8).fit(formula, DATA)
    held = DATA.site.isin(predictor.calibration_environments_)
    other = DATA.assign(y=np.where(held, 100.0 - DATA.y, DATA.y), x=np.where(held, 7.0 * DATA.x, DATA.x))
    again = clone(predictor).fit(formula, other)
    assert again.model_.xi_ == predictor.model_.xi_
    np.testing.assert_array_equal(again.model_.coef_, predictor.model_.coef_)
    plain = atm.XiSearchCV(atm.NormalLinear(), [0, 1, 5]).fit(formula, DATA[~held])
    np.testing.assert_array_equal(plain.best_estimator_.coef_, predictor.model_.coef_)


def test_searches_are_repeated_in_each_left_out_fit() -> None:
    search, data = atm.XiSearchCV(atm.NormalLinear(), [0, 1, 5]), DATA[DATA.site < "s06"]
    predictor = atm.ConformalPredictor(search, 0.8, method="loeo").fit("y ~ x | site", data)
    for e, fit in zip(predictor.calibration_environments_, predictor.calibration_.left_out, strict=True):
        assert fit.xi_ == clone(search).fit("y ~ x | site", data[data.site != e]).best_xi_
    assert not predictor.approximate_
    assert not hasattr(search, "best_xi_")


def test_what_is_promised_is_said() -> None:
    texts = {}
    for method in METHODS:
        predictor = atm.ConformalPredictor(atm.NormalLinear(), method=method).fit("y ~ x | site", DATA)
        for guarantee in GUARANTEES:
            texts[method, guarantee] = predictor.set_params(guarantee=guarantee, share=0.8).guarantee_
            assert predictor.approximate_ == (method == "full")
            assert predictor.guarantee_ in repr(predictor)
    row, places = "covered with a probability of at least", "in at least 80 % of new places, at least 90 % of the rows"
    assert texts["split", "average"] == f"a row of a new place is {row} 90 %"
    assert f"{row} 80 % (jackknife+)" in texts["loeo", "average"]
    assert texts["split", "places"] == texts["loeo", "places"] == f"{places} are covered"
    assert texts["full", "average"].startswith("approximate: ")
    low = atm.ConformalPredictor(atm.NormalLinear(), 0.5, method="loeo").fit("y ~ x | site", DATA)
    assert low.guarantee_.startswith("nothing is guaranteed at this level")


# few places


def test_too_few_places_give_infinite_sets_and_say_how_many_are_needed() -> None:
    for n, infinite in ((8, True), (9, False)):
        data = made(n_places=n)
        predictor = atm.ConformalPredictor(atm.NormalLinear(), method="loeo")
        if not infinite:
            assert np.isfinite(predictor.fit("y ~ x | site", data).predict_interval(NEW)).all()
            continue
        with pytest.warns(AnchorTMWarning, match=r"needs 9 places to calibrate on, and there are 8; .* 9 with 'loeo'"):
            predictor.fit("y ~ x | site", data)
        with pytest.warns(AnchorTMWarning, match="sets are infinite"):
            lower, upper = predictor.predict_interval(NEW)
        assert (lower == -math.inf).all()
        assert (upper == math.inf).all()
        assert "infinite: the promise needs 9 places" in repr(predictor)
        predictor.set_params(level=0.8)
        assert np.isfinite(predictor.predict_interval(NEW)).all()


@pytest.mark.filterwarnings("ignore:sets are infinite")
def test_infinite_sets_hold_all_that_the_outcome_can_be() -> None:
    data = made(n_places=4)
    X, new = data[["x"]], NEW[["x"]]

    def fitted(model: Any, y: Any) -> Any:
        return atm.ConformalPredictor(model, method="full").fit(X, y, environments=data.site)

    ordinal = fitted(atm.OrdinalRegression(), data.grade)
    assert ordinal.predict_set(new)[0] == [0, 1, 2, 3]
    counts = fitted(atm.CountRegression(order=2), data["count"])
    assert counts.predict_set(new)[0] == range(sys.maxsize)
    times = fitted(atm.ParametricSurvival(), atm.Surv(data.time, np.ones(len(data))))
    assert times.predict_interval(new)[0][0] == 0.0
    assert times.lower_bound(new)[0] == 0.0
    trials = fitted(atm.AnchorGLM(family="binomial"), atm.Trials(data.event, 3))
    assert trials.predict_set(new[:1], trials=3) == [range(4)]


def test_places_are_split_so_that_the_promise_can_be_kept() -> None:
    assert [split_sizes(n, 9) for n in (2, 10, 11, 12, 20, 92)] == [1, 5, 9, 9, 10, 46]
    assert Promise("average", 0.9, 0.5).needed == 9
    assert Promise("places", 0.9, 0.5).needed == 1
    assert [Promise("average", level, 0.9).needed for level in (0.5, 0.8, 0.95, 0.99)] == [1, 4, 19, 99]


@pytest.mark.filterwarnings("ignore:the anchors have a single environment")
@pytest.mark.parametrize("method", METHODS)
def test_two_places_and_places_of_one_row(method: str) -> None:
    two = made(n_places=2)
    predictor = atm.ConformalPredictor(atm.NormalLinear(), method=method)
    with pytest.warns(AnchorTMWarning, match="and there are [12]"):
        predictor.fit("y ~ x | site", two)
    single = made(n_places=40, sizes=(1,))
    found = atm.ConformalPredictor(atm.NormalLinear(), method=method).fit("y ~ x | site", single)
    assert np.isfinite(found.predict_interval(NEW)).all()
    assert found.coverage_by_place().frame().n.eq(1).all()


# rows that cannot be predicted


def test_unknown_levels_count_as_not_covered() -> None:
    """A level that one place has cannot be predicted by a fit without it."""
    data = DATA.copy()
    data.loc[data.index[data.site == "s03"][:2], "word"] = "only here"
    for method in ("loeo", "full"):
        predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method=method).fit("y ~ x + word | site", data)
        (note,) = predictor.notes_
        assert note.startswith("2 rows cannot be predicted by fits without their place (word 'only here' is unknown)")
        assert note in repr(predictor)
        assert int(np.isinf(predictor.calibration_.both).sum()) == 2
        new = NEW[:2].assign(word=["a", "only here"])
        assert np.isfinite(predictor.predict_interval(new)).all()
        with pytest.raises(InputError, match="has levels that the fit has not seen: never"):
            predictor.predict_interval(new.assign(word="never"))
        lower, upper = predictor.predict_interval(new.assign(word=["a", "never"]), on_bad_rows="mark")
        assert np.isnan([lower[1], upper[1]]).all()
        assert np.isfinite([lower[0], upper[0]]).all()
        with pytest.warns(AnchorTMWarning, match="read as"):
            mapped = predictor.predict_interval(new.assign(word="never"), unknown="baseline")
        np.testing.assert_allclose(mapped, predictor.predict_interval(new.assign(word="a")))


def test_a_class_that_only_one_place_has() -> None:
    data = DATA.assign(grade=np.where(DATA.site == "s05", 9, DATA.grade))
    predictor = atm.ConformalPredictor(atm.OrdinalRegression(), 0.8, method="full")
    predictor.fit(data[["x"]], data.grade, environments=data.site)
    assert np.isinf(predictor.calibration_.both[data.site == "s05"]).all()
    seen = predictor.coverage_by_place().frame().set_index("environment")
    assert seen.coverage["s05"] == 0.0
    ill = atm.ConformalPredictor(atm.OrdinalRegression(), 0.95, method="full", share=0.9)
    with pytest.warns(AnchorTMWarning, match="needs 19 places"):
        ill.fit(data[["x"]], data.grade, environments=data.site)
    with pytest.warns(AnchorTMWarning, match="sets are infinite"):
        assert ill.predict_set(NEW[["x"]])[0] == [0, 1, 2, 3, 9]


def test_a_left_out_fit_that_fails_counts_as_not_covered() -> None:
    """Without one place a column of X is constant, which is an error."""
    data = DATA.assign(dummy=(DATA.site == "s07") * np.arange(len(DATA)))
    for method in ("loeo", "full"):
        for guarantee in GUARANTEES:
            predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, guarantee, 0.8, method)
            predictor.fit(data[["x", "dummy"]], data.y, environments=data.site)
            assert any("the fit without s07 failed (" in note for note in predictor.notes_)
            assert np.isinf(predictor.calibration_.both[data.site == "s07"]).all()
            assert np.isfinite(predictor.predict_interval(NEW[["x"]].assign(dummy=0))).all()
    everywhere = DATA.assign(z=0.0)
    with pytest.raises(InputError, match="constant"):
        atm.ConformalPredictor(atm.NormalLinear(), method="loeo").fit(
            everywhere[["x", "z"]], everywhere.y, environments=everywhere.site
        )


# bad input


def test_bad_arguments() -> None:
    for arguments, message in (
        ({"level": 1.0}, "level must be a number between 0 and 1"),
        ({"level": "high"}, "level must be a number"),
        ({"share": 0.0}, "share must be a number between 0 and 1"),
        ({"guarantee": "always"}, "guarantee must be 'average' or 'places'"),
        ({"method": "jackknife"}, "method must be 'split', 'loeo' or 'full'"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"random_state": "x"}, "random_state must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            atm.ConformalPredictor(atm.NormalLinear(), **arguments).fit("y ~ x | site", DATA)
    predictor = atm.ConformalPredictor(atm.NormalLinear())
    with pytest.raises(AttributeError, match="not fitted"):
        predictor.predict_interval(NEW)
    for model in (None, StandardScaler(), atm.LinearAnchorRegression(2.0)):
        with pytest.raises(TypeError, match="model must be a model of this package, a search"):
            atm.ConformalPredictor(model).fit(DATA[["x"]], DATA.y, environments=DATA.site)


def test_bad_rows() -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8)
    X, y, site = DATA[["x"]], DATA.y, DATA.site
    with pytest.raises(InputError, match="pass environments=, one label for each row"):
        predictor.fit(X, y)
    with pytest.raises(InputError, match="numeric environments need cut=k"):
        predictor.fit(X, y, environments=DATA.x)
    with pytest.raises(InputError, match="single environment"):
        predictor.fit(X[:1], y[:1], environments=site[:1])
    with pytest.raises(InputError):
        predictor.fit(X[:3], y, environments=site)
    with pytest.raises(TypeError, match="ConformalPredictor needs a table in memory"):
        predictor.fit("y ~ x | site", "rows.parquet")
    with pytest.raises(InputError, match="missing"):
        predictor.fit(X.assign(x=np.nan), y, environments=site)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = predictor.model_
    late = atm.Surv(DATA.time + 1.0, DATA.event, entry=0.5 * DATA.time)
    with pytest.raises(InputError, match=r"rows are truncated \(delayed entry\)"):
        atm.ConformalPredictor(atm.ParametricSurvival()).fit(X, late, environments=site)
    with pytest.raises(InputError, match="censored"):  # the model says so
        atm.ConformalPredictor(atm.ParametricSurvival()).fit(
            X, atm.Surv(DATA.time, np.zeros(len(DATA))), environments=site
        )
    predictor.fit(X, y, environments=site)
    with pytest.raises(TypeError, match="predict_set is for ordinal outcomes and counts"):
        predictor.predict_set(X)
    with pytest.raises(InputError, match="on_bad_rows must be"):
        predictor.predict_interval(X, on_bad_rows="drop")
    with pytest.raises(InputError, match="sets must be 'interval' or 'lower'"):
        predictor.coverage_by_place(sets="upper")


def test_a_place_whose_rows_are_all_censored() -> None:
    event = np.where(DATA.site == "s04", 0, 1)
    predictor = atm.ConformalPredictor(atm.ParametricSurvival(), 0.8, method="full")
    predictor.fit(DATA[["x"]], atm.Surv(DATA.time, event), environments=DATA.site)
    assert np.isfinite(predictor.lower_bound(NEW[["x"]])).all()
    with pytest.raises(InputError, match="outcomes are censored: only sets='lower'"):
        predictor.coverage_by_place(sets="interval")


def test_outcomes_outside_the_support() -> None:
    """Far outside the training range of a Bernstein baseline scores are large, and sets may be wide, but are sets."""
    wild = DATA.assign(y=np.where(DATA.site == "s01", 50.0 + DATA.y, DATA.y))
    predictor = atm.ConformalPredictor(atm.ContinuousProbit(order=3), 0.8, method="full").fit("y ~ x | site", wild)
    lower, upper = predictor.predict_interval(NEW)
    assert (lower < upper).all()
    assert predictor.coverage_by_place().frame().set_index("environment").coverage["s01"] == 0.0


def test_lower_bounds_treat_censored_rows_as_events() -> None:
    surv = atm.Surv(DATA.time, DATA.event)
    model = atm.ParametricSurvival()
    predictor = atm.ConformalPredictor(model, 0.8).fit(DATA[["x"]], surv, environments=DATA.site)
    held = DATA.site.isin(predictor.calibration_environments_)
    law = predictor.model_.predict_distribution(DATA[["x"]][held])
    expected = -law.logcdf(DATA.time[held].to_numpy()[:, None])[:, 0]
    np.testing.assert_allclose(predictor.calibration_.lower, expected)
    lowest = predictor.calibration_.threshold(Promise("average", 0.8, 0.9), False)
    bound = predictor.lower_bound(NEW[["x"]])
    new = predictor.model_.predict_distribution(NEW[["x"]])
    np.testing.assert_allclose(new.cdf(bound[:, None])[:, 0], math.exp(-lowest), rtol=1e-9)
    later = atm.Surv(np.where(DATA.event == 0, 2.0 * DATA.time, DATA.time), DATA.event)  # of a longer study
    assert (known_to_reach(later) >= known_to_reach(surv)).all()


def test_what_a_censored_outcome_is_known_to_reach() -> None:
    ends = atm.Interval([1.0, 2.0, -math.inf, 3.0], [1.0, 4.0, 2.0, math.inf])
    assert known_to_reach(ends).tolist() == [1.0, 2.0, -math.inf, 3.0]
    assert known_to_reach(as_response([0, 3], "count")).tolist() == [0.0, 3.0]
    labels = pd.Categorical(["b", "a"], ["b", "a"], ordered=True)
    assert known_to_reach(as_response(labels, "ordinal")).tolist() == ["b", "a"]


# any model, any way in


MODELS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "transformation": (atm.ContinuousLogit(order=3, xi=1.0), "y ~ x | site", {}),
    "glm": (atm.AnchorGLM(family="poisson"), "count ~ x | site", {}),
    "trials": (atm.AnchorGLM(family="binomial"), "Trials(event, 1) ~ x | site", {}),
    "cox": (atm.CoxPH(), "Surv(time, event) ~ x | site", {}),
    "boosted": (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3), "y ~ x | site", {}),
    "random effects": (atm.OrdinalRegression(), "grade ~ x + (1 | site) | site", {}),
    "strata": (atm.ContinuousProbit(order=2), "y | word ~ x | site", {}),
    "a search": (atm.XiSearchCV(atm.NormalLinear(), [0, 1]), "y ~ x | site", {}),
    "weights and offset": (atm.NormalLinear(), "y ~ x | site", {"sample_weight": "w", "offset": "x"}),
    "without covariates": (atm.NormalLinear(), "y ~ 1 | site", {}),
}


@pytest.mark.filterwarnings("ignore::anchortm.exceptions.AnchorTMWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_and_its_file(name: str, tmp_path: Any) -> None:
    model, formula, beside = MODELS[name]
    for method in ("split",) if name == "random effects" else ("split", "loeo"):
        predictor = atm.ConformalPredictor(model, 0.7, method=method).fit(formula, DATA, **beside)
        ask = "lower_bound" if predictor.calibration_.censored else "predict_interval"
        expected = getattr(predictor, ask)(NEW)
        assert not np.isnan(np.asarray(expected, dtype=float)).any()
        for same in (
            atm.load(atm.save(predictor, tmp_path / "sets.json")),
            pickle.loads(pickle.dumps(predictor)),  # noqa: S301
        ):
            np.testing.assert_array_equal(getattr(same, ask)(NEW), expected)
            assert repr(same) == repr(predictor)
            assert same.coverage_by_place().frame().equals(predictor.coverage_by_place().frame())
        found = predictor.coverage_by_place(NEW).frame()
        assert found.coverage.between(0.0, 1.0).all()


def test_columns_and_pipelines_and_named_anchors() -> None:
    X, new = DATA[["x", "w"]], NEW[["x", "w"]]
    plain = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method="loeo").fit(X, DATA.y, environments=DATA.site)
    expected = plain.predict_interval(new)
    by_anchors = clone(plain).fit(X, DATA.y, anchors=DATA.site)
    by_formula = clone(plain).fit("y ~ x + w", DATA, environments="site")
    piped = clone(plain).set_params(model=atm.make_pipeline(StandardScaler(), atm.NormalLinear()))
    named = clone(plain).set_params(model=atm.NormalLinear(anchor_names=["site"]))
    np.testing.assert_array_equal(by_anchors.predict_interval(new), expected)
    np.testing.assert_allclose(by_formula.predict_interval(NEW), expected, rtol=1e-9)
    np.testing.assert_allclose(piped.fit(X, DATA.y, environments=DATA.site).predict_interval(new), expected, rtol=1e-6)
    own = named.fit(DATA[["x", "w", "site"]], DATA.y)
    np.testing.assert_allclose(own.predict_interval(NEW[["x", "w", "site"]]), expected, rtol=1e-9)
    assert plain.calibration_.name == "site"
    bare = clone(plain).fit(X.to_numpy(), DATA.y.to_numpy(), environments=DATA.site.to_numpy())
    np.testing.assert_allclose(bare.predict_interval(new.to_numpy()), expected, rtol=1e-9)
    alone = atm.ConformalPredictor(atm.NormalLinear(), 0.8).fit(None, DATA.y, environments=DATA.site)
    assert alone.predict_interval()[0].shape == (1,)
    cut = atm.ConformalPredictor(atm.NormalLinear(), 0.8, cut=10).fit(X, DATA.y, environments=DATA.x)
    assert cut.calibration_environments_.size == 5


def test_rows_with_missing_values_are_dropped_as_in_fits() -> None:
    holes = DATA.copy()
    holes.loc[[3, 40], "x"] = np.nan
    holes.loc[[7], "site"] = None
    whole = holes.dropna()
    for arguments in (("y ~ x | site",), ()):
        drop = atm.ConformalPredictor(atm.NormalLinear(missing="drop"), 0.8, method="full")
        plain = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method="full")
        if arguments:
            found, expected = drop.fit("y ~ x | site", holes), plain.fit("y ~ x | site", whole)
        else:
            found = drop.fit(holes[["x"]], holes.y, environments=holes.site)
            expected = plain.fit(whole[["x"]], whole.y, environments=whole.site)
        assert found.threshold_ == expected.threshold_


def test_rows_of_weight_zero_do_not_count() -> None:
    weights = np.where(DATA.site == "s02", 0.0, 1.0)
    found = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method="full")
    found.fit(DATA[["x"]], DATA.y, environments=DATA.site, sample_weight=weights)
    assert "s02" not in found.calibration_environments_
    rest = DATA[DATA.site != "s02"]
    expected = clone(found).fit(rest[["x"]], rest.y, environments=rest.site)
    assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)


@pytest.mark.slow
def test_processes_give_the_same_sets() -> None:
    one = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method="loeo").fit("y ~ x | site", DATA)
    two = clone(one).set_params(n_jobs=2).fit("y ~ x | site", DATA)
    np.testing.assert_array_equal(one.predict_interval(NEW), two.predict_interval(NEW))


# files


def test_files_are_checked(tmp_path: Any) -> None:
    predictor = atm.ConformalPredictor(atm.OrdinalRegression(), 0.8, method="loeo")
    predictor.fit(DATA[["x"]], DATA.grade, environments=DATA.site)
    path = atm.save(predictor, tmp_path / "sets.json")
    from anchortm.saving import digest

    def altered(change: Any) -> Any:
        record = json.loads(path.read_text())
        change(record)
        record["sha256"] = digest(record)
        (tmp_path / "other.json").write_text(json.dumps(record))
        return tmp_path / "other.json"

    for change, message in (
        (lambda r: r["calibration"].pop("codes"), "'codes' of the calibration is invalid"),
        (lambda r: r["calibration"]["both"].append(1.0), "the scores have no places"),
        (lambda r: r["calibration"]["both"].__setitem__(0, -1.0), "'both' of the calibration is invalid"),
        (lambda r: r["calibration"]["both"].__setitem__(0, {"number": "nan"}), "'both' of the calibration"),
        (lambda r: r["calibration"].update(method="guess"), "'method' of the calibration is invalid"),
        (lambda r: r["calibration"].update(levels=[0, 1]), "other classes than the scores"),
        (lambda r: r["calibration"].update(levels=None), "other classes than the scores"),
        (lambda r: r["left_out"].pop(), "left-out fits are missing"),
        (lambda r: r.update(left_out="none"), "left-out fits are invalid"),
        (lambda r: r.update(model=None), "the field 'model' is invalid"),
        (lambda r: r["parameters"].update(level=2.0), "level must be"),
        (lambda r: r["parameters"].update(model=1), "the parameters contain a model"),
    ):
        with pytest.raises(ModelFileError, match=message):
            atm.load(altered(change))
    labels = atm.load(path)
    assert labels.calibration_environments_.tolist() == predictor.calibration_environments_.tolist()


# tables and pictures


def test_tables_of_predictions(tmp_path: Any) -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8).fit("y ~ x | site", DATA)
    lower, upper = predictor.predict_interval(NEW)
    table = atm.predict_table(predictor, NEW, quantiles=[0.5], keep=["site"])
    assert table.columns.tolist() == ["site", "q0.5", "lower", "upper"]
    np.testing.assert_array_equal(table[["lower", "upper"]], np.column_stack([lower, upper]))
    NEW.to_parquet(tmp_path / "new.parquet", row_group_size=5)
    atm.predict_table(predictor, tmp_path / "new.parquet", tmp_path / "sets.parquet")
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "sets.parquet").lower, lower)
    marked = atm.predict_table(predictor, NEW.assign(x=NEW.x.where(NEW.x > 0)), on_bad_rows="mark")
    np.testing.assert_array_equal(marked.lower.isna(), marked.reason != "")
    with pytest.raises(InputError, match="two columns 'lower'"):
        atm.predict_table(predictor, NEW.assign(lower=1), keep=["lower"])
    times = atm.ConformalPredictor(atm.CoxPH(), 0.7).fit("Surv(time, event) ~ x | site", DATA)
    assert atm.predict_table(times, NEW).columns.tolist() == ["prediction", "lower"]
    ordinal = atm.ConformalPredictor(atm.OrdinalRegression(), 0.7).fit("grade ~ x | site", DATA)
    bad = atm.predict_table(ordinal, NEW[:2].assign(x=[0.0, np.nan]), on_bad_rows="mark")
    assert bad.upper.isna().tolist() == [False, True]


def test_coverage_by_place() -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, "places", 0.7).fit("y ~ x | site", DATA)
    found = predictor.coverage_by_place()
    assert "set the threshold" in repr(found)
    frame = found.frame().set_index("environment")
    held = DATA[DATA.site.isin(predictor.calibration_environments_)]
    lower, upper = predictor.predict_interval(held)
    low, high = predictor.model_.predict_distribution(held).interval(0.8)
    expected = pd.DataFrame(
        {
            "n": 1,
            "coverage": (lower <= held.y) & (held.y <= upper),
            "model": (low <= held.y) & (held.y <= high),
            "site": held.site,
        }
    )
    expected = expected.groupby("site").agg({"n": "sum", "coverage": "mean", "model": "mean"})
    pd.testing.assert_frame_equal(frame, expected, check_names=False)
    assert (frame.coverage >= 0.8).mean() >= 0.7
    summary = found.table()
    assert summary.index.tolist() == ["conformal intervals", "the model alone"]
    assert summary.loc["conformal intervals", "reached"] == (frame.coverage >= 0.8).mean()
    new = predictor.coverage_by_place(NEW)
    again = predictor.coverage_by_place("y ~ x | site", NEW)
    plain = predictor.coverage_by_place(NEW, NEW.y, NEW.site)
    assert new.frame().equals(again.frame())
    assert new.frame().equals(plain.frame())
    assert "set the threshold" not in repr(new)
    lower, upper = predictor.predict_interval(NEW)
    assert new.frame().width.tolist() == pd.Series(upper - lower).groupby(NEW.site).median().tolist()
    bounds = predictor.coverage_by_place(NEW, sets="lower").frame().coverage
    assert bounds.tolist() == (predictor.lower_bound(NEW) <= NEW.y).groupby(NEW.site).mean().tolist()
    with pytest.raises(InputError, match="environments are missing"):
        predictor.coverage_by_place(NEW, NEW.y)


def test_the_picture_of_coverage() -> None:
    predictor = atm.ConformalPredictor(atm.NormalLinear(), 0.8, method="full").fit("y ~ x | site", DATA)
    found = predictor.coverage_by_place()
    ax = found.plot()
    assert ax.get_xlabel() == "share of rows in 80 % intervals"
    assert len(ax.get_yticklabels()) == 12
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["the model alone", "conformal intervals"]
    model, sets = (points.get_offsets() for points in ax.collections[-2:])
    frame = found.frame()
    assert sorted(model[:, 0]) == sorted(frame.model)
    assert sorted(sets[:, 0]) == sorted(frame.coverage)
    many = pd.DataFrame({"environment": range(60), "n": 5, "coverage": 1.0, "model": [0.4] * 50 + [1.0] * 10})
    _, own = plt.subplots()
    assert atm.plotting.coverage(many, 0.9, own, label=2) is own
    assert own.get_ylabel() == "place (rows); 10 more: all covered"
    assert len(own.get_yticklabels()) < 5
    plt.close("all")
