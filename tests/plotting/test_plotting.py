"""Pictures: every function draws on the axes it is given, labels both, and changes nothing global."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from simulated import FOUR
from sklearn.exceptions import NotFittedError

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError

mpl.use("Agg")

import matplotlib.pyplot as plt

BOSTON, WINE = atm.datasets.load_boston_housing2(), atm.datasets.load_wine()
X, Y, TOWN = BOSTON[["crim", "rm", "lstat"]], BOSTON.cmedv, BOSTON.town
WINES = pd.DataFrame({"warm": (WINE.temp == "warm") * 1.0, "contact": (WINE.contact == "yes") * 1.0})


@pytest.fixture(scope="module")
def fits() -> dict:
    return {
        "plain": atm.ContinuousLogit().fit(X, Y),
        "anchored": atm.ContinuousLogit(xi=5.0).fit(X, Y, anchors=TOWN),
        "ordinal": atm.OrdinalRegression(xi=3.0).fit(WINES, WINE.rating, anchors=WINE.judge),
        "count": atm.CountRegression(order=3).fit(X, Y.astype(int)),
        "path": atm.anchor_path(atm.NormalLinear(), X, Y, TOWN, [0, 1, 10]),
        "loeo": atm.leave_one_environment_out(atm.NormalLinear(), X, Y, TOWN, [0, 1, 10]),
    }


def frame(fits, name):
    d = atm.diagnostics
    if name == "invariance":
        return d.residual_invariance(fits["plain"], fits["anchored"], X, Y, TOWN).frame()
    return d.over_identification(fits["path"], X).frame()


PICTURES = {
    "pdf": lambda f, ax: atm.plotting.distributions(f["plain"].predict_distribution(X[:3]), ax=ax),
    "hazard": lambda f, ax: atm.plotting.distributions(
        f["plain"].predict_distribution(X[:1]), [9.0, 20.0], ax, of="hazard"
    ),
    "classes": lambda f, ax: atm.plotting.distributions(f["ordinal"].predict_distribution(WINES[:2]), ax=ax),
    "counts": lambda f, ax: atm.plotting.distributions(f["count"].predict_distribution(X[:2]), ax=ax, of="cdf"),
    "band": lambda f, ax: f["anchored"].confidence_band(X[:2], [10.0, 20.0, 30.0]).plot(ax, ["a", "b"], unit="price"),
    "quantile band": lambda f, ax: f["anchored"].confidence_band(X[:1], [0.2, 0.5], "ppf").plot(ax),
    "ordinal band": lambda f, ax: f["ordinal"].confidence_band(WINES[:2], [1, 2, 3]).plot(ax),
    "path": lambda f, ax: f["path"].plot(ax),
    "left out": lambda f, ax: f["loeo"].plot(ax),
    "nll": lambda f, ax: atm.plotting.nll_quantiles({k: f[k].nll(X, Y) for k in ("plain", "anchored")}, ax),
    "many levels": lambda f, ax: atm.plotting.residuals(f["plain"].residuals(X, Y), TOWN, ax),
    "few levels": lambda f, ax: atm.plotting.residuals(f["ordinal"].residuals(WINES, WINE.rating), WINE.judge, ax),
    "number": lambda f, ax: atm.plotting.residuals(f["plain"].residuals(X, Y), BOSTON.age.astype(float), ax),
    "invariance": lambda f, ax: atm.plotting.invariance(frame(f, "invariance"), ax),
    "flattening": lambda f, ax: atm.plotting.flattening(frame(f, "flattening"), ax),
    "pit": lambda f, ax: atm.plotting.pit(np.random.default_rng(0).random(500), ax),
    "calibration": lambda f, ax: atm.scores.score_table(f["plain"], X, Y, TOWN).plot(ax),
    "score test": lambda f, ax: atm.diagnostics.score_test(atm.NormalLinear(), X, Y, TOWN).plot(ax),
    "first stage": lambda f, ax: atm.diagnostics.first_stage(X, TOWN).plot(ax),
    "rule": lambda f, ax: atm.xi_by_score_test(atm.NormalLinear(), X, Y, BOSTON.tract % 3, largest=1.0).plot(ax),
    "effects": lambda f, ax: atm.marginal_effects(f["anchored"], X).plot(ax),
    "rows": lambda f, ax: f["plain"].predict_distribution(X).plot(ax),
    "one draw": lambda f, ax: f["plain"].bootstrap(5, clusters=TOWN, random_state=0).plot(ax, parameters="rm")[0],
    "worst": lambda f, ax: atm.XiSearchCV(atm.NormalLinear(), [0, 1, 10]).fit(X, Y, anchors=TOWN).plot(ax),
    "mean": lambda f, ax: atm.XiSearchCV(atm.NormalLinear(), [0, 1], "mean").fit(X, Y, anchors=TOWN).plot(ax),
}


@pytest.mark.parametrize("name", PICTURES)
def test_draws_on_given_axes_with_labels(fits, name: str) -> None:
    before = dict(mpl.rcParams)
    figure, axes = plt.subplots(1, 2)
    current = plt.gca()
    ax = PICTURES[name](fits, axes[0])
    assert ax is axes[0]
    assert plt.gca() is current
    assert not axes[1].has_data()
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or name in ("first stage", "effects")  # names of covariates stand there
    assert dict(mpl.rcParams) == before
    figure.canvas.draw()
    plt.close(figure)
    own = PICTURES[name](fits, None)
    assert own.figure is not figure
    plt.close(own.figure)


@pytest.mark.parametrize("rows", [1, 8, 300])
def test_distributions_draw_themselves(fits, rows: int) -> None:
    """The first rows are drawn, with their labels, and the title says how many there are."""
    ax = fits["plain"].predict_distribution(X[:rows]).plot(unit="price")
    assert len(ax.lines) == min(rows, 8)
    assert ax.get_title() == ("the first 8 of 300 rows" if rows == 300 else "")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("price", "density")
    assert (ax.get_legend() is None) == (rows == 1)
    plt.close(ax.figure)
    named = (
        fits["plain"].predict_distribution(X[:rows]).plot(labels=[f"tract {k}" for k in range(rows)], most=2, of="cdf")
    )
    assert [text.get_text() for text in named.get_legend().get_texts()] == ["tract 0", "tract 1"][:rows]
    plt.close(named.figure)


def test_distributions_draw_what_fits_the_outcome(fits) -> None:
    time = atm.Surv(Y, Y < 50)
    drawn = {
        "probability": (fits["ordinal"].predict_distribution(WINES[:2]), fits["count"].predict_distribution(X[:2])),
        "P(Y > y)": (
            atm.ProportionalHazards(order=3).fit(X, time).predict_distribution(X[:2]),
            atm.CoxPH().fit(X, time).predict_distribution(X[:2]),
        ),
        "density": (fits["plain"].predict_distribution(X[:2]),),
    }
    for label, distributions in drawn.items():
        for distribution in distributions:
            ax = distribution.plot()
            assert ax.get_ylabel() == label
            plt.close(ax.figure)


def test_distributions_draw_names_and_good_rows(fits) -> None:
    new = X[:3].set_axis(["Nahant", "Swampscott", "Marblehead"])
    new.loc["Swampscott", "rm"] = np.nan
    ax = fits["plain"].predict_distribution(new, on_bad_rows="mark").plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["Nahant", "Marblehead"]
    assert ax.get_xlabel() == "cmedv"
    plt.close(ax.figure)


def test_distributions_below_zero_are_drawn_whole() -> None:
    model = atm.NormalLinear().fit(X, Y - 1000.0)
    ax = model.predict_distribution(X[:2]).plot()
    assert ax.get_xlim()[1] < -900.0
    plt.close(ax.figure)


def test_draws_show_estimate_and_interval(fits) -> None:
    result = fits["plain"].bootstrap(20, clusters=TOWN, random_state=0)
    axes = result.plot()
    assert [ax.get_xlabel() for ax in axes] == list(X.columns)
    table = result.frame()
    for ax in axes:
        row = table.loc[ax.get_xlabel()]
        assert ax.lines[0].get_xdata()[0] == row.estimate
        span = ax.patches[0].get_extents().transformed(ax.transData.inverted())
        np.testing.assert_allclose([span.x0, span.x1], [row.lower, row.upper])
        assert sum(patch.get_height() for patch in ax.patches[1:]) == 20
    plt.close(axes[0].figure)
    everything = result.plot(parameters=result.names)
    assert len(everything) == len(result.names)
    plt.close(everything[0].figure)


def test_draws_that_lack_a_parameter_are_left_out(fits) -> None:
    result = fits["plain"].bootstrap(20, clusters=TOWN, random_state=0)
    draws = result.draws.copy()
    draws[:3, -1] = np.nan
    axes = replace(result, draws=draws).plot(parameters=[result.names[-1]])
    assert sum(patch.get_height() for patch in axes[0].patches[1:]) == 17
    plt.close(axes[0].figure)


def test_draws_of_many_coefficients_and_of_none() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    many = atm.NormalLinear().fit(rng.normal(size=(200, 20)), y).bootstrap(5, random_state=0).plot()
    assert len(many) == 12
    assert many[0].figure.get_supxlabel() == "the first 12 of 20 coefficients"
    none = atm.NormalLinear().fit(None, y).bootstrap(5, random_state=0)
    assert [ax.get_xlabel() for ax in none.plot()] == list(none.names)
    plt.close("all")


@pytest.mark.parametrize("objective", ["worst", "mean", 0.8])
def test_searches_mark_their_choice(objective) -> None:
    xis = [0.0, 1.0, 10.0, np.inf]
    search = atm.XiSearchCV(atm.NormalLinear(), xis, objective)
    with pytest.raises(NotFittedError):
        search.plot()
    search.fit(X, Y, anchors=BOSTON.tract % 3)  # few enough for xi = inf
    ax = search.plot()
    assert ax.get_title() == f"chosen: xi = {search.best_xi_:g}"
    handles, labels = ax.get_legend_handles_labels()
    lines = dict(zip(labels, handles, strict=True))
    assert lines["chosen"].get_xdata() == [search.best_xi_]
    assert lines["chosen"].get_ydata() == [search.results_.objective[search.best_xi_]]
    name = "0.8 quantile" if objective == 0.8 else objective
    np.testing.assert_array_equal(lines[name].get_ydata(), search.results_.objective.iloc[:3])
    assert "left-out tract" in lines
    assert ax.get_ylabel().endswith("of the left-out tract")
    plt.close(ax.figure)


def test_transport_shows_both_densities() -> None:
    y = atm.datasets.load_geyser().duration
    model = atm.AnchorTM(link="cloglog", support=(y.min(), y.max())).fit(None, y)
    axes = atm.plotting.transport(model, y, unit="minutes")
    density = axes[1, 1].lines[0].get_ydata()
    peaks = np.flatnonzero((density[1:-1] > density[:-2]) & (density[1:-1] > density[2:])) + 1
    np.testing.assert_allclose(axes[1, 1].lines[0].get_xdata()[peaks], [2.06, 4.47], atol=0.01)  # claim A20
    assert axes[1, 1].get_xlabel() == "minutes"
    plt.close(axes[0, 0].figure)


@pytest.mark.bug("other software", "the transport picture of a model with covariates said that X has 0 features")
def test_transport_of_models_with_covariates_says_what_to_do() -> None:
    rng = np.random.default_rng(0)
    x = pd.DataFrame({"age": rng.normal(size=80), "site": np.repeat(["a", "b"], 40)})
    y = np.exp(0.5 * x.age + rng.normal(size=80)).to_numpy()
    remedy = r"choose a row and pass model.predict_distribution\(X\[:1\]\)"
    for model, columns, needed in (
        (atm.ContinuousLogit(order=3), ["age"], "age"),
        (atm.ContinuousLogit(order=3, varying="age"), ["age"], "age"),
        (atm.ContinuousLogit(order=3, strata="site"), ["age", "site"], "age, the strata"),
        (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=2), ["age"], "age"),
        (atm.CoxPH(), ["age"], "age"),
    ):
        model.fit(x[columns], y)
        with pytest.raises(InputError, match=f"this {type(model).__name__} depends on {needed}: {remedy}"):
            atm.plotting.transport(model)
        one = model.predict_distribution(x[columns][:1])
        if hasattr(one, "trafo"):  # what the message says works
            axes = atm.plotting.transport(one)
            h = axes[0, 1].lines[0]
            np.testing.assert_allclose(h.get_ydata(), one.trafo(h.get_xdata())[0])
            plt.close(axes[0, 0].figure)
        else:
            with pytest.raises(InputTypeError, match="StepDistribution has none: pass a transformation model"):
                atm.plotting.transport(one)
    search = atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0]).fit(x[["age"]], y, anchors=x.site)
    with pytest.raises(InputError, match=f"this XiSearchCV depends on age: {remedy}"):
        atm.plotting.transport(search)


def test_refusals(fits) -> None:
    dist = fits["plain"].predict_distribution(X[:2])
    for call, message in (
        (lambda: atm.plotting.distributions(dist, of="mean"), "of must be one of"),
        (lambda: atm.plotting.distributions(dist, labels=["one"]), "1 names for 2 rows"),
        (lambda: atm.plotting.transport(dist), "one row"),
        (lambda: atm.plotting.residuals(np.zeros(3), TOWN), "one anchor at a time, with 3 rows"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    plt.close("all")


def test_a_picture_without_matplotlib_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match="figures need matplotlib: pip install matplotlib"):
        atm.anchor_path(atm.NormalLinear(), FOUR.X, FOUR.y, FOUR.site, [0.0, 1.0]).plot()
