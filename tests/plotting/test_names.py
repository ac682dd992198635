"""Results know the names of outcome, environments and rows; pictures show them, and stay as they were without names."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import anchortm as atm
from anchortm.inputs.response import as_response

N = 90
FORMULA = "price ~ rooms | hospital"


def made_table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    hospital = np.arange(N) % 3
    data = pd.DataFrame({"rooms": rng.normal(size=N) + hospital, "hospital": hospital + 1})
    data["price"] = data.rooms + rng.normal(size=N)
    data["time"], data["event"], data["grade"] = np.exp(data.price), 1, np.digitize(data.price, [0.0, 1.0])
    data["group"], data["upper"] = np.where(np.arange(N) % 2, "old", "new"), data.time + 1.0
    return data


DATA = made_table()
X, Y, SITE = DATA[["rooms"]], DATA.price, DATA.hospital
ARRAYS = X.to_numpy(), Y.to_numpy(), SITE.to_numpy()
BY_FORMULA, BY_COLUMNS = atm.NormalLinear().fit(FORMULA, DATA), atm.NormalLinear().fit(X, Y, anchors=SITE)
UNNAMED = atm.NormalLinear().fit(ARRAYS[0], ARRAYS[1], anchors=ARRAYS[2])


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def legend(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        ("price", "price"),
        ("Surv(time, event)", "time"),
        ("Surv(time / 12, event == 1)", "time / 12"),
        ("Surv(log(upper), event)", "log(upper)"),
        ("Interval(time, upper)", "time to upper"),
        ("Trials(event, grade + 1)", "event"),
        ("ordered(grade, 0, 1, 2)", "grade"),
        ("`price`", "price"),
        ("Surv(sqrt(`time`), event)", "sqrt(`time`)"),
    ],
)
def test_the_name_of_the_outcome_of_a_formula(outcome: str, name: str) -> None:
    formula = atm.Formula(f"{outcome} ~ rooms", DATA)
    assert formula.outcome_name == name
    scale: Any = "ordinal" if outcome.startswith("ordered") else "continuous"
    y = formula.y if outcome.startswith("Trials") else as_response(formula.y, scale)
    assert y.name == name


def test_the_name_of_columns() -> None:
    assert atm.Surv(DATA.time, DATA.event).name == "time"
    assert atm.Interval(DATA.time, DATA.upper).name == "time to upper"
    assert atm.Interval(DATA.time, DATA.time).name == "time"
    assert atm.Trials(DATA.event, 3).name == "event"
    assert atm.Surv(DATA.time, DATA.event)[3:5].name == "time"
    assert as_response(pl.Series("cost", [1.0, 2.0])).name == "cost"
    assert as_response(pl.Series([1.0, 2.0])).name is None
    assert as_response(pd.Series([1.0, 2.0], name=0)).name is None
    assert as_response(DATA.grade, "ordinal").name == "grade"
    assert as_response(DATA.event, "count").name == "event"


def test_fits_know_the_name_of_their_outcome(tmp_path) -> None:
    boosted = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=2).fit(FORMULA, DATA)
    for model in (BY_FORMULA, BY_COLUMNS, boosted):
        assert model.outcome_name_ == "price"
        assert atm.load(atm.save(model, tmp_path / "model.json")).outcome_name_ == "price"
        assert pickle.loads(pickle.dumps(model)).outcome_name_ == "price"  # noqa: S301
        assert model.predict_distribution(DATA if hasattr(model, "formula_") else X).outcome_name == "price"
    assert not hasattr(UNNAMED, "outcome_name_")
    DATA.to_parquet(tmp_path / "rows.parquet")
    assert atm.NormalLinear().fit(FORMULA, tmp_path / "rows.parquet").outcome_name_ == "price"
    assert atm.anchor_path(atm.NormalLinear(), FORMULA, DATA, xis=[0, 1]).models[1].outcome_name_ == "price"


MODELS: dict[str, tuple[Any, str]] = {
    "transformation": (atm.ContinuousLogit(order=3), "price ~ rooms"),
    "averaged": (atm.ContinuousLogit(order=3), "price ~ rooms + (1 | hospital)"),
    "steps": (atm.CoxPH(), "Surv(time, event) ~ rooms"),
    "family": (atm.AnchorGLM(family="gaussian"), "price ~ rooms"),
    "family, averaged": (atm.AnchorGLM(family="poisson"), "grade ~ rooms + (1 | hospital)"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_distribution_has_outcome_and_labels(kind: str) -> None:
    model, formula = MODELS[kind]
    fit = model.fit(formula, DATA)
    shown = DATA.set_index(pd.Index([f"patient {k}" for k in range(N)]))
    distribution = fit.predict_distribution(shown)
    name = fit.formula_.outcome_name
    assert distribution.outcome_name == name
    for rows in ([4, 2], np.array([4, 2]), np.arange(N) == 4, slice(4, 6)):
        assert list(distribution[rows].labels) == list(shown.index[rows])
    assert list(distribution[4].labels) == ["patient 4"]
    ax = atm.plotting.distributions(distribution[[4, 2]], of="cdf")
    assert (ax.get_xlabel(), legend(ax)) == (name, ["patient 4", "patient 2"])
    assert fit.predict_distribution(DATA).labels is None
    np.testing.assert_array_equal(distribution.cdf(1.0), fit.predict_distribution(DATA).cdf(1.0))
    if kind != "averaged":
        band = fit.confidence_band(shown[:2], [1.0, 2.0], of="cdf")
        assert (band.plot().get_xlabel(), list(band.labels)) == (name, ["patient 0", "patient 1"])


@pytest.mark.parametrize(
    ("index", "labels"),
    [
        (pd.RangeIndex(2), ["row 0", "row 1"]),
        (pd.RangeIndex(5, 7), ["row 5", "row 6"]),
        (pd.Index([7, 3], name="tract"), ["tract 7", "tract 3"]),
        (pd.Index(["Tract 7", "tract 3"], name="tract"), ["Tract 7", "tract 3"]),
        (pd.Index(["a", "b"]), ["a", "b"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["a, 1", "b, 2"]),
    ],
)
def test_labels_of_rows(index: pd.Index, labels: list[str]) -> None:
    rows = DATA[:2].set_axis(index)
    assert legend(atm.plotting.distributions(BY_FORMULA.predict_distribution(rows))) == labels
    assert legend(BY_FORMULA.confidence_band(rows, [0.0, 1.0]).plot()) == labels
    own = atm.plotting.distributions(BY_FORMULA.predict_distribution(rows), labels=["x", "y"], unit="kg")
    assert (legend(own), own.get_xlabel()) == (["x", "y"], "kg")


def test_marked_rows_keep_their_labels() -> None:
    holes = DATA[:4].assign(rooms=[0.0, np.nan, 1.0, 2.0])
    marked = BY_FORMULA.predict_distribution(holes, on_bad_rows="mark")
    assert (marked.outcome_name, marked.labels, marked[[2]].outcome_name) == ("price", None, "price")
    assert legend(atm.plotting.distributions(marked.good_rows)) == ["row 0", "row 2", "row 3"]
    named = BY_FORMULA.predict_distribution(holes.set_axis(list("abcd")), on_bad_rows="mark")
    assert list(named.labels) == list("abcd")
    assert list(named[1:].good_rows.labels) == ["c", "d"]
    assert list(named.given(after=0.0).labels) == list("abcd")
    whole = BY_FORMULA.predict_distribution(DATA[:2], on_bad_rows="mark")
    assert legend(atm.plotting.distributions(whole.good_rows)) == ["row 0", "row 1"]


def test_quantiles_name_the_outcome() -> None:
    ax = BY_FORMULA.confidence_band(DATA[:1], [0.1, 0.5], of="ppf").plot()
    assert ax.get_ylabel() == "quantile of price"
    times = atm.ProportionalHazards(order=3).fit("Surv(time, event) ~ rooms", DATA)
    assert times.survival_quantiles(DATA[:2]).outcome_name == "time"
    means = times.restricted_mean(DATA, 1.0, by="group")
    assert (means.plot().get_xlabel(), means.plot(unit="days").get_xlabel()) == ("time", "days")


def test_environments_keep_the_name_of_their_column() -> None:
    xis = [0, 1]
    named = [
        atm.leave_one_environment_out(atm.NormalLinear(), FORMULA, DATA, xis=xis),
        atm.leave_one_environment_out(atm.NormalLinear(), X, Y, SITE, xis),
        atm.XiSearchCV(atm.NormalLinear(), xis).fit(FORMULA, DATA).loeo_,
        atm.XiSearchCV(atm.NormalLinear(), xis).fit(X, Y, environments=SITE).loeo_,
        atm.XiSearchCV(atm.NormalLinear(anchor_names="hospital"), xis).fit(DATA[["rooms", "hospital"]], Y).loeo_,
    ]
    for result in named:
        assert result.environment_name == "hospital"
        assert "3 environments (hospital), 2 values of xi" in repr(result)
        assert "3 environments (hospital)" in result._repr_html_()
        ax = result.plot(label=1)
        assert [label for label in legend(ax) if label.startswith("hospital ")] != []
        assert ax.get_ylabel().endswith("of the left-out hospital")
        assert "environment" in result.frame()
    plain = atm.leave_one_environment_out(atm.NormalLinear(), *ARRAYS, xis)
    assert "3 environments, 2 values of xi" in repr(plain)
    assert plain.plot().get_ylabel().endswith("of the left-out environment")
    net = atm.ElasticNetCV(atm.NormalLinear(), xis, n_lambdas=2).fit(FORMULA, DATA)
    assert net.plot().get_ylabel() == "minus skill of left-out environments (hospital), 0.9 quantile"


def test_environments_by_another_column() -> None:
    result = atm.leave_one_environment_out(atm.NormalLinear(), FORMULA, DATA, xis=[0], environments="group")
    assert result.environment_name == "group"
    assert set(result.frame().environment) == {"old", "new"}


def test_levels_that_say_what_they_are_stand_alone() -> None:
    words = DATA.assign(hospital="Hospital " + DATA.hospital.astype(str))
    result = atm.leave_one_environment_out(atm.NormalLinear(), FORMULA, words, xis=[0])
    assert {"Hospital 1", "Hospital 2", "Hospital 3"} < set(legend(result.plot()))


def test_scores_and_calibration_name_environments() -> None:
    for result in (atm.scores.score_table(BY_FORMULA, DATA), atm.scores.score_table(BY_COLUMNS, X, Y, SITE)):
        assert result.environment_name == "hospital"
        assert repr(result).startswith("Scores by environment (hospital), coverage of 90% intervals")
        assert legend(result.plot(label=3))[-1] == "calibrated"
        assert set(legend(result.plot(label=3))[:-1]) == {"hospital 1", "hospital 2", "hospital 3"}
    calibration = atm.diagnostics.calibration(BY_FORMULA, DATA)
    assert repr(calibration).startswith("Calibration by environment (hospital)\n")
    assert "hospital 1" in legend(calibration.plot())
    plain = atm.scores.score_table(UNNAMED, *ARRAYS)
    assert repr(plain).startswith("Scores, coverage of 90% intervals")
    assert legend(plain.plot(label=1))[0] in ("1", "2", "3")
    assert repr(atm.diagnostics.calibration(UNNAMED, *ARRAYS)).startswith("Calibration by environment\n")


def test_residuals_name_their_anchor() -> None:
    later = atm.NormalLinear(10.0).fit(FORMULA, DATA)
    assert atm.diagnostics.residual_invariance(BY_FORMULA, later, DATA).plot().get_xlabel() == "hospital"
    plain = atm.diagnostics.residual_invariance(UNNAMED, UNNAMED, *ARRAYS)
    assert plain.plot().get_xlabel() == "environment"
    assert atm.plotting.residuals(BY_FORMULA, DATA).get_xlabel() == "hospital"


def test_effects_and_flattening_name_the_outcome() -> None:
    assert repr(atm.marginal_effects(BY_FORMULA, DATA)).startswith("Average change of the median of price, 95%")
    likely = atm.marginal_effects(BY_COLUMNS, X, "probability", above=1)
    assert likely.plot().get_xlabel() == "change of P(price > 1)"
    assert repr(atm.marginal_effects(UNNAMED, ARRAYS[0])).startswith("Average change of the median, 95%")
    assert atm.marginal_effects(UNNAMED, ARRAYS[0], "probability", above=1).of == "P(Y > 1)"
    path = atm.anchor_path(atm.NormalLinear(), FORMULA, DATA, xis=[0, 1])
    result = atm.diagnostics.over_identification(path, DATA)
    assert "coefficients, scale of price" in legend(result.plot())
    assert "on the scale of price" in repr(result)
    unnamed = atm.anchor_path(atm.NormalLinear(), *ARRAYS, [0, 1])
    assert "coefficients, scale of y" in legend(atm.diagnostics.over_identification(unnamed, ARRAYS[0]).plot())


def test_pictures_of_a_model_and_its_table() -> None:
    cox = atm.CoxPH().fit("Surv(time, event) ~ rooms", DATA)
    ax = atm.plotting.survival(cox, DATA, by="group")
    assert (ax.get_xlabel(), legend(ax)) == ("time", ["new", "old"])
    y = atm.Surv(DATA.time, DATA.event)
    same = atm.plotting.survival(cox.predict_distribution(DATA), y, by=DATA.group)
    for one, other in zip(ax.lines, same.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())
    unnamed = atm.CoxPH().fit(ARRAYS[0], atm.Surv(DATA.time.to_numpy(), DATA.event.to_numpy()))
    assert atm.plotting.survival(unnamed.predict_distribution(ARRAYS[0]), y).get_xlabel() == "time"
    alone = atm.ContinuousProbit(order=3).fit("price ~ 1", DATA)
    axes = atm.plotting.transport(alone, DATA)
    assert axes[1, 1].get_xlabel() == "price"
    assert atm.plotting.transport(atm.NormalLinear().fit(None, ARRAYS[1]))[1, 1].get_xlabel() == "y"


def test_without_names_pictures_say_y_and_row() -> None:
    ax = atm.plotting.distributions(UNNAMED.predict_distribution(ARRAYS[0][:2]))
    assert (ax.get_xlabel(), legend(ax)) == ("y", ["row 0", "row 1"])
    band = UNNAMED.confidence_band(ARRAYS[0][:2], [0.0, 1.0])
    assert (band.plot().get_xlabel(), legend(band.plot())) == ("y", ["row 0", "row 1"])
