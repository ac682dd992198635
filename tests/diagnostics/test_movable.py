"""Can anchoring move the location: against its definition by hand, and in worlds where the answer is known."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.diagnostics import location_shift
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.inputs.response import Response

mpl.use("Agg")

import matplotlib.pyplot as plt

PC = "price ~ log(speed) + log(hd) + log(ram) + screen + cd + multi + premium | trend"


def world(kind: str, places: int, seed: int, rows: int = 40, idle: int = 0) -> tuple[np.ndarray, ...]:
    """Return X, y and places of a world: (a) a hidden cause, (b) noise differs, (c) random intercepts, (d) nothing.

    ``idle`` covariates differ between places and have no effect.
    """
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(places), rows)
    level, noise = rng.normal(size=places), rng.normal(size=place.size)
    if kind == "a":
        hidden = rng.normal(size=place.size)
        x = level[place] + hidden + 0.5 * rng.normal(size=place.size)
        y = 0.3 * x + 1.5 * hidden + noise
    else:
        x = 0.3 * level[place] + rng.normal(size=place.size)
        size = np.exp(0.7 * rng.normal(size=places))[place] if kind == "b" else 1.0
        y = 0.8 * x + size * noise + (0.7 * rng.normal(size=places)[place] if kind == "c" else 0.0)
    more = 0.7 * rng.normal(size=(places, idle))[place] + rng.normal(size=(place.size, idle))
    return np.column_stack([x, more]), y, place


def by_hand(X: np.ndarray, y: np.ndarray, place: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Return R^2 and the predictions by the definition: one weighted regression for each left-out place."""
    root = np.sqrt(weights)
    ones = np.column_stack([np.ones(len(y)), X])
    coef = np.linalg.lstsq(root[:, None] * ones, root * y, rcond=None)[0]
    residual = y - ones @ coef
    sigma = np.sqrt(np.average(residual**2, weights=weights))
    codes = np.unique(place)
    n = np.array([weights[place == e].sum() for e in codes])
    r = np.array([np.average(residual[place == e] / sigma, weights=weights[place == e]) for e in codes])
    parts = np.array([np.average(X[place == e] * coef[1:], axis=0, weights=weights[place == e]) for e in codes])
    centred = parts - n @ parts / n.sum()
    values, vectors = np.linalg.eigh(centred.T @ (n[:, None] * centred))
    directions = centred @ vectors[:, np.argsort(-values)[: max(1, len(codes) // 8)]]
    predicted, mean = np.empty(len(codes)), np.empty(len(codes))
    for e in range(len(codes)):
        others = np.arange(len(codes)) != e
        design = np.column_stack([np.ones(len(codes)), directions])
        own = np.sqrt(n[others])
        slope = np.linalg.lstsq(own[:, None] * design[others], own * r[others], rcond=None)[0]
        predicted[e], mean[e] = design[e] @ slope, np.average(r[others], weights=n[others])
    return 1.0 - n @ (r - predicted) ** 2 / (n @ (r - mean) ** 2), predicted


@pytest.mark.parametrize("places", [7, 24])
def test_it_is_what_its_definition_says(places: int) -> None:
    X, y, place = world("a", places, 3, idle=3)
    keep = np.random.default_rng(0).random(len(y)) < np.linspace(0.2, 1.0, places)[place]  # places of different sizes
    X, y, place = X[keep], y[keep], place[keep]
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    found = location_shift(atm.NormalLinear(), X, y, place, sample_weight=weights)
    r2, predicted = by_hand(X, y, place, weights)
    assert found.r2 == pytest.approx(r2, abs=1e-8)
    assert found.frame()["predicted"].to_numpy() == pytest.approx(predicted, abs=1e-8)
    assert found.directions == (3 if places == 24 else 1)
    again = np.repeat(np.arange(len(y)), weights.astype(int))
    repeated = location_shift(atm.NormalLinear(), X[again], y[again], place[again])
    for name in ("r2", "se", "noise"):
        assert getattr(repeated, name) == pytest.approx(getattr(found, name), rel=1e-8)
    other = location_shift(
        atm.NormalLinear(), X * [3.0, 0.1, 7.0, 1.0] + 5.0, 10.0 * y - 3.0, place, sample_weight=weights
    )
    assert other.r2 == pytest.approx(r2, abs=1e-8)
    assert other.pvalue == found.pvalue


def shares(places: int, times: int, idle: int = 0) -> pd.DataFrame:
    """Return the median R^2 and how often the answer is "can move", by world."""
    found = []
    for kind in "abcd":
        for seed in range(times):
            own = location_shift(atm.NormalLinear(), *world(kind, places, seed, idle=idle), n_flips=199)
            nothing = "more than by chance" in own.sentence
            found.append((kind, own.r2, "can move" in own.sentence, nothing, own.noise))
    table = pd.DataFrame(found, columns=["world", "r2", "moves", "nothing", "noise"])
    return table.groupby("world").agg({"r2": "median", "moves": "mean", "nothing": "mean", "noise": "median"})


def check(table: pd.DataFrame, slack: float) -> None:
    assert table.loc["a", "r2"] > 0.7
    assert table.loc["a", "moves"] >= 1.0 - slack
    assert (table.loc[list("bcd"), "r2"] < 0.0).all()
    assert (table.loc[list("bcd"), "moves"] <= 0.05 + slack).all()
    assert table.loc["d", "nothing"] >= 0.9 - slack  # two tests at 5 % stand before it
    assert table.loc["b", "nothing"] >= 0.8 - slack  # the F test takes the noise to be the same everywhere
    assert table.loc["c", "nothing"] == 0.0
    assert table.loc["c", "noise"] < 0.1


def test_worlds_where_the_answer_is_known() -> None:
    check(shares(16, 20), 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("places", [16, 40])
@pytest.mark.parametrize("idle", [0, 5])
def test_worlds_where_the_answer_is_known_in_100_samples(places: int, idle: int) -> None:
    check(shares(places, 100, idle), 0.02)


@pytest.mark.slow
def test_the_standard_error_is_not_too_small() -> None:
    for kind in "ac":
        found = [location_shift(atm.NormalLinear(), *world(kind, 16, seed), n_flips=19) for seed in range(100)]
        ratio = np.mean([own.se for own in found]) / np.std([own.r2 for own in found])
        assert 0.9 < ratio < 2.2


def latent(seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, place = world("a", 16, seed)
    return X, y / 2.0, place


CAP = 0.8


def times(z: np.ndarray) -> Response:
    return atm.Surv(np.exp(np.minimum(z, CAP)), z < CAP)


MODELS = {
    "censored": (atm.ContinuousLogit(order=3), times),
    "hazards": (
        atm.ProportionalHazards(order=3, log_first=True),
        times,
    ),
    "partial": (atm.CoxPH(), times),
    "ordinal": (atm.OrdinalRegression(), lambda z: np.digitize(z, [-1.0, 0.0, 1.0])),
    "counts": (atm.CountRegression(order=3), lambda z: np.floor(3.0 * np.exp(z))),
    "glm": (atm.AnchorGLM(family="poisson"), lambda z: np.floor(3.0 * np.exp(z))),
    "anchored": (atm.NormalLinear(xi=7.0), lambda z: z),
}


@pytest.mark.parametrize("name", MODELS)
def test_all_models_see_it_and_formulas_are_the_same(name: str) -> None:
    model, outcome = MODELS[name]
    X, z, place = latent()
    y = outcome(z)
    found = location_shift(model, X, y, place, n_flips=199)
    assert found.r2 > 0.3, found
    assert "can move" in found.sentence
    censored = isinstance(y, Response)
    table = pd.DataFrame({"x": X[:, 0], "y": y.lower if censored else y, "event": z < CAP, "place": place})
    left = "Surv(y, event)" if censored else "y"
    for formula, options in ((f"{left} ~ x | place", {}), (f"{left} ~ x", {"environments": "place"})):
        same = location_shift(model, formula, table, n_flips=199, **options)
        assert (same.r2, same.se, same.pvalue) == pytest.approx((found.r2, found.se, found.pvalue), rel=1e-6)
    assert model.get_params()["xi"] == (7.0 if name == "anchored" else 0.0)
    assert not hasattr(model, "coef_")


def test_rows_of_weight_zero_and_missing_rows_do_not_count() -> None:
    X, y, place = world("a", 12, 0)
    weights = (place != 3).astype(float)
    keep = place != 3
    wanted = location_shift(atm.NormalLinear(), X[keep], y[keep], place[keep])
    found = location_shift(atm.NormalLinear(), X, y, place, sample_weight=weights)
    assert len(found.frame()) == 11
    assert found.r2 == pytest.approx(wanted.r2, rel=1e-9)
    holes = np.where(keep, y, np.nan)
    with pytest.warns(AnchorTMWarning, match="1 place has no complete row and is left out: 3"):
        dropped = location_shift(atm.NormalLinear(missing="drop"), X, holes, place)
    assert dropped.r2 == pytest.approx(wanted.r2, rel=1e-9)


def test_a_property_of_places_that_moves_with_the_covariates_looks_the_same() -> None:
    X, y, place = world("d", 24, 2)
    rng = np.random.default_rng(0)
    level = np.array([X[place == e].mean() for e in range(24)])
    wealth = (2.0 * level + 0.1 * rng.normal(size=24))[place]
    without = location_shift(atm.NormalLinear(), X, y - wealth, place)
    known = location_shift(atm.NormalLinear(), np.column_stack([X, wealth]), y - wealth, place)
    assert without.r2 > 0.5
    assert "can move" in without.sentence
    assert known.r2 < 0.2
    assert "can move" not in known.sentence


def test_places_that_do_not_move_the_covariates() -> None:
    found = location_shift(atm.OrdinalRegression(), "rating ~ temp + contact | judge", atm.datasets.load_wine())
    assert (found.r2, found.se, found.pvalue, found.directions) == (0.0, 0.0, 1.0, 0)
    assert "do not shift the covariates" in repr(found)


def test_a_model_with_effects_of_the_places_leaves_nothing() -> None:
    X, y, place = world("a", 12, 0)
    table = pd.DataFrame({"x": X[:, 0], "y": y, "place": place})
    found = location_shift(atm.NormalLinear(), "y ~ x + C(place) | place", table)
    assert (found.r2, found.pvalue, found.noise) == (0.0, 1.0, 1.0)
    assert "nothing to remove" in repr(found)


def test_a_direction_that_one_place_alone_has_cannot_be_predicted() -> None:
    X, y, place = world("d", 16, 0)
    X = np.column_stack([X, (place == 2) * np.random.default_rng(0).normal(5.0, 1.0, len(y))])
    table = location_shift(atm.NormalLinear(), X, y + 2.0 * X[:, 1], place).frame()
    assert np.isfinite(table["predicted"]).all()
    others = table["environment"] != 2
    mean = np.average(table["residual"][others], weights=table["n"][others])
    assert table["predicted"][2] == pytest.approx(mean, abs=1e-9)


def test_small_weights_and_cut_numbers() -> None:
    X, y, place = world("a", 16, 1)
    weights = np.full(len(y), 1e-3)  # less than one row in all
    found = location_shift(atm.NormalLinear(), X, y, place, sample_weight=weights)
    assert np.isnan(found.noise)
    assert not found.beyond_chance
    assert found.r2 == pytest.approx(location_shift(atm.NormalLinear(), X, y, place).r2, rel=1e-6)
    assert "sampling noise      unknown" in repr(found)
    assert "unknown" in found._repr_html_()
    nothing = location_shift(atm.NormalLinear(), *world("d", 16, 1), sample_weight=weights)
    assert nothing.sentence.startswith("Mean covariates do not clearly predict")
    with pytest.raises(InputError, match="each environment has a single row"):
        location_shift(atm.NormalLinear(), *world("a", 60, 1, rows=1))
    by_number = location_shift(atm.NormalLinear(), X, y, np.random.default_rng(0).random(len(y)), cut=10)
    assert len(by_number.frame()) == 10


def test_real_data_prices_of_computers_move_and_boston_does_not() -> None:
    computers, boston = atm.datasets.load_computers(), atm.datasets.load_boston_housing2()
    months = location_shift(atm.ContinuousLogit(), PC, computers[computers.trend <= 24])
    assert months.r2 == pytest.approx(0.82, abs=0.01)
    assert months.pvalue == 0.001
    towns = location_shift(atm.ContinuousLogit(), "cmedv ~ crim + zn + indus + nox + rm + age + lstat | town", boston)
    assert towns.r2 < 0.0
    assert towns.beyond_chance
    assert "expect anchoring to widen" in towns.sentence


def test_the_picture_names_sizes_and_axes() -> None:
    X, y, place = world("a", 16, 0)
    names = np.array([f"<place {k}>" for k in range(16)])[place]
    found = location_shift(atm.NormalLinear(), X, y, names)
    ax = found.plot(label=2)
    table = found.frame()
    furthest = table["environment"].iloc[np.argsort(-np.hypot(table["residual"], table["predicted"]))[:2]]
    assert {text.get_text() for text in ax.texts} == set(furthest)
    assert ax.get_ylabel() == "mean score residual, +- 2 standard errors"
    assert f"= {found.r2:.2f}" in ax.get_title()
    plt.close(ax.figure)
    assert "<b>Mean residuals of 16 environments" in found._repr_html_()


def test_a_dollar_sign_in_a_name_is_a_dollar_sign() -> None:
    """Matplotlib would read two of them as a formula, and refuse this one."""
    rng = np.random.default_rng(0)
    place = np.repeat([rf"place {k} $\frac{{1}}$" for k in range(8)], 6)
    found = atm.diagnostics.location_shift(atm.NormalLinear(), rng.normal(size=(48, 1)), rng.normal(size=48), place)
    ax = found.plot()
    ax.figure.canvas.draw()
    assert any("$" in text.get_text() for text in ax.texts)
    plt.close(ax.figure)
