"""Wherever X, y and anchors are taken, a formula and a table do as well, and give the same numbers to the last bit."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import InputError

N = 160
FORMULA, SURVIVAL = "y ~ x + word | site", "Surv(time, event) ~ x + word | site"
PLACES = ("", "diagnostics", "inference", "plotting", "predict", "scores", "selection")
# what takes X beside y or anchors, but not a formula, and why
REASONS = {
    "Predictions.extrapolation": "y holds numbers to look at, such as predicted quantiles, not outcomes",
    "BoostedAnswers.extrapolation": "the same",
    "Pipeline.fit": "its transformers make the covariates, which a formula would make too",
    "Pipeline.fit_predict": "the same",
    "Pipeline.fit_transform": "the same",
}


def made_table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    site = rng.integers(0, 4, N)
    data = pd.DataFrame({"x": rng.normal(size=N) + site, "word": rng.choice(["a", "b", "c"], N)})
    data["site"] = np.array(["north", "south", "east", "west"])[site]
    data["y"] = data.x - 0.5 * site + rng.normal(size=N)
    data["time"], data["event"] = np.exp(0.3 * data.y), rng.integers(0, 2, N)
    data["w"], data["o"] = rng.integers(1, 4, N).astype(float), 0.1 * rng.normal(size=N)
    data["half"] = np.where(rng.random(N) < 0.5, "h1", "h2")
    data.index = pd.Index([f"p{k}" for k in rng.permutation(N)], name="patient")
    return data


DATA = made_table()
MADE = atm.Formula(FORMULA, DATA)
X, SITE = MADE.X, DATA.site
SURV = atm.Surv(DATA.time, DATA.event)
BESIDE: dict[str, Any] = {"sample_weight": "w", "offset": "o"}
COLUMNS = {name: DATA[column] for name, column in BESIDE.items()}
LINEAR, COX, BOOSTED = atm.NormalLinear(), atm.CoxPH(), atm.AnchorBoostedTM(atm.NormalLinear(), xi=1.0, n_rounds=5)
WORST = atm.WorstEnvironment(atm.NormalLinear())


def fits(model: Any, formula: str = FORMULA) -> tuple[Any, Any]:
    """Return the model fitted by a formula and by columns."""
    y = DATA.y if formula == FORMULA else SURV
    return clone(model).fit(formula, DATA), clone(model).fit(X, y, anchors=SITE)


def both(call: Callable[..., Any], **more: Any) -> tuple[Any, Any]:
    """Return the answers of a function to a formula and to columns, with weights and offset."""
    return call(FORMULA, DATA, **BESIDE, **more), call(X, DATA.y, anchors=SITE, **COLUMNS, **more)


def asked(model: Any, what: str, formula: str = FORMULA, **options: Any) -> tuple[Any, Any]:
    """Return the answers of a method of fitted models to a table alone, and to columns."""
    named, plain = fits(model, formula)
    columns = {name: DATA[column] for name, column in options.items()}
    y = DATA.y if formula == FORMULA else SURV
    return getattr(named, what)(DATA, **options), getattr(plain, what)(X, y, **columns)


def problem(model: Any) -> tuple[Any, Any]:
    named, plain = both(model.problem)
    return (named.data.design.matrix, named.data.weights), (plain.data.design.matrix, plain.data.weights)


def path_of_nets() -> tuple[Any, Any]:
    def call(*rows: Any, **more: Any) -> Any:
        return atm.elastic_net_path(LINEAR, *rows, xis=[0, 1], n_lambdas=3, **more).frame()

    return both(call)


def search(search: Any) -> tuple[Any, Any]:
    named = clone(search).fit(FORMULA, DATA, **BESIDE)
    plain = clone(search).fit(X, DATA.y, anchors=SITE, **COLUMNS)
    return (named.loeo_.frame(), named.best_estimator_.coef_), (plain.loeo_.frame(), plain.best_estimator_.coef_)


def searched(what: str) -> tuple[Any, Any]:
    named, plain = fits(atm.XiSearchCV(LINEAR, [0, 1]))
    return getattr(named, what)(DATA), getattr(plain, what)(X, DATA.y)


def residual_invariance() -> tuple[Any, Any]:
    (named, plain), (later, after) = fits(LINEAR), fits(atm.NormalLinear(10.0))
    call = atm.diagnostics.residual_invariance
    by_formula = call(named, later, FORMULA, DATA).frame()
    pd.testing.assert_frame_equal(by_formula, call(named, later, DATA, anchors="site").frame())
    return (by_formula, call(named, later, DATA).frame()), (call(plain, after, X, DATA.y, SITE).frame(),) * 2


def of_fitted(call: Callable[..., Any]) -> tuple[Any, Any]:
    named, plain = fits(LINEAR)
    found = [call(named, DATA), call(named, FORMULA, DATA), call(named, DATA, environments="site")]
    expected = call(plain, X, DATA.y, SITE)
    return found, [expected] * 3


def score(call: Callable[..., Any], formula: str = FORMULA, *options: Any) -> tuple[Any, Any]:
    named, plain = fits(atm.ProportionalHazards(order=3) if formula == SURVIVAL else LINEAR, formula)
    y = DATA.y if formula == FORMULA else SURV
    return call(named, DATA, *options), call(plain.predict_distribution(X), y, *options)


def concordance() -> tuple[Any, Any]:
    named, plain = fits(COX, SURVIVAL)
    return atm.scores.concordance(named, DATA), atm.scores.concordance(X.to_numpy() @ plain.coef_, SURV)


def first_stage() -> tuple[Any, Any]:
    call = atm.diagnostics.first_stage
    strata = call("y | half ~ x + word | site", DATA).frame()  # strata are not covariates
    return (call(FORMULA, DATA).frame(), strata), (call(X, SITE).frame(),) * 2


def proportionality() -> tuple[Any, Any]:
    model = atm.ContinuousLogit(order=3)
    return both(lambda *rows, **more: atm.proportionality_test(model, *rows, **more).frame())


def left_out(*rows: Any, **more: Any) -> Any:
    return atm.leave_one_environment_out(LINEAR, *rows, xis=[0, 1], **more).frame()


def refitted(model: Any) -> tuple[Any, Any]:
    named, plain = fits(model)
    options = {"strength": 5.0}
    found = named.refit(DATA[:50], sample_weight="w", offset="o", **options)
    columns = {name: column[:50] for name, column in COLUMNS.items()}
    return found.nll(DATA), plain.refit(X[:50], DATA.y[:50], **columns, **options).nll(X, DATA.y)


def recalibrated(model: Any) -> tuple[Any, Any]:
    named, plain = fits(model)
    options = {"what": "shift", "prior": 0.5}
    found = named.recalibrate(DATA[:50], sample_weight="w", offset="o", **options)
    columns = {name: column[:50] for name, column in COLUMNS.items()}
    return found.nll(DATA), plain.recalibrate(X[:50], DATA.y[:50], **columns, **options).nll(X, DATA.y)


def compared(*rows: Any, **more: Any) -> Any:
    options = {"design": "like", "strategies": ["equal", atm.strategies.Anchored(2.0)]}
    return atm.compare_strategies(LINEAR, *rows, **options, **more).frame()


def assessed(*rows: Any, **more: Any) -> Any:
    return atm.assess(LINEAR, *rows, strategies=["equal"], **more).comparison.frame()


def shifted() -> tuple[Any, Any]:
    place = np.arange(N) % 8
    call = partial(atm.diagnostics.location_shift, LINEAR)
    found = call(f"{FORMULA.split('|')[0]} | place", DATA.assign(place=place)).frame()
    return found, call(X, DATA.y, place).frame()


def invariance() -> tuple[Any, Any]:
    call = partial(atm.invariance_test, LINEAR, regression="logistic")
    return call(FORMULA, DATA, **BESIDE).frame(), call(X, DATA.y, SITE, **COLUMNS).frame()


def parents() -> tuple[Any, Any]:
    call = partial(atm.causal_parents, LINEAR)
    named, factor = call("y ~ x + half | site", DATA, **BESIDE), (DATA.half == "h2").astype(float)
    plain = call(X[["x"]].assign(half=factor), DATA.y, SITE, **COLUMNS)
    return (named.sets, named.frame()), (plain.sets, plain.frame())


def calibrated() -> tuple[Any, Any]:
    named, plain = fits(LINEAR)
    found = [named.calibrate_spread(FORMULA, DATA), plain.calibrate_spread(X, DATA.y, SITE)]
    return tuple(one.widened_ for one in found)  # type: ignore[return-value]


def conformal() -> tuple[Any, Any]:
    def ends(*rows: Any, **more: Any) -> Any:
        predictor = atm.ConformalPredictor(LINEAR, 0.6, method="loeo").fit(*rows, **more)
        new, offset = (DATA, {}) if hasattr(predictor.model_, "formula_") else (X, {"offset": DATA.o})
        return predictor.predict_interval(new, **offset)

    return both(ends)


def covered() -> tuple[Any, Any]:
    named, plain = fits(atm.ConformalPredictor(LINEAR, 0.6))
    calls = [named.coverage_by_place(DATA), named.coverage_by_place(FORMULA, DATA)]
    return [call.frame() for call in calls], [plain.coverage_by_place(X, DATA.y, SITE).frame()] * 2


def restricted() -> tuple[Any, Any]:
    named, plain = fits(COX, SURVIVAL)
    return named.restricted_mean(DATA, 1.0, by="half").frame(), plain.restricted_mean(X, 1.0, by=DATA.half).frame()


def restricted_by_refits() -> tuple[Any, Any]:
    found = []
    for model in fits(atm.AnchorBoostedTM(atm.ProportionalHazards(order=3), n_rounds=2), SURVIVAL):
        refits = model.bootstrap(3, clusters=np.arange(N), random_state=0, progress=False)
        rows, by = (DATA, "half") if hasattr(model, "formula_") else (X, DATA.half)
        found.append(model.restricted_mean(rows, 1.0, by=by, uncertainty=refits).frame())
    return found[0], found[1]


# what takes rows, by its qualified name: its answers by a formula and by columns
CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "TransformationModel.fit": lambda: tuple(fit.coef_ for fit in both(clone(LINEAR).fit)),  # type: ignore[return-value]
    "TransformationModel.problem": lambda: problem(LINEAR),
    "AnchorBoostedTM.fit": lambda: asked(BOOSTED, "nll"),
    "AnchorBoostedTM.problem": lambda: problem(BOOSTED),
    "WorstEnvironment.fit": lambda: asked(WORST, "nll"),
    "WorstEnvironment.problem": lambda: problem(WORST),
    "LinearAnchorRegression.fit": lambda: asked(atm.LinearAnchorRegression(3.0), "score"),
    "AnchorBoosting.fit": lambda: asked(atm.AnchorBoosting(3.0, 5, base="tree", random_state=0), "score"),
    "L2Regressor.score": lambda: asked(atm.LinearAnchorRegression(3.0), "score", sample_weight="w"),
    "XiSearchCV.fit": lambda: search(atm.XiSearchCV(LINEAR, [0, 1])),
    "ElasticNetCV.fit": lambda: search(atm.ElasticNetCV(LINEAR, [0, 1], n_lambdas=3)),
    "XiSearchCV.nll": lambda: searched("nll"),
    "XiSearchCV.score": lambda: searched("score"),
    "Likelihoods.nll": lambda: asked(LINEAR, "nll", offset="o"),
    "Likelihoods.residuals": lambda: asked(LINEAR, "residuals", offset="o"),
    "Likelihoods.score": lambda: asked(LINEAR, "score", sample_weight="w", offset="o"),
    "CoxPH.nll": lambda: asked(COX, "nll", SURVIVAL, offset="o"),
    "CoxPH.residuals": lambda: asked(COX, "residuals", SURVIVAL, offset="o"),
    "CoxPH.score": lambda: asked(COX, "score", SURVIVAL, sample_weight="w", offset="o"),
    "AnchorGLM.residuals": lambda: asked(atm.AnchorGLM(family="gaussian"), "residuals"),
    "BoostedAnswers.nll": lambda: asked(BOOSTED, "nll", offset="o"),
    "BoostedAnswers.residuals": lambda: asked(BOOSTED, "residuals"),
    "BoostedAnswers.score": lambda: asked(BOOSTED, "score", sample_weight="w"),
    "Adapted.refit": lambda: refitted(BOOSTED),
    "Adapted.recalibrate": lambda: recalibrated(BOOSTED),
    "Recalibrated.recalibrate": lambda: recalibrated(LINEAR),
    "Times.restricted_mean": restricted,
    "Resampled.restricted_mean": restricted_by_refits,
    "anchor_path": lambda: both(lambda *rows, **more: atm.anchor_path(LINEAR, *rows, xis=[0, 1], **more).frame()),
    "elastic_net_path": path_of_nets,
    "leave_one_environment_out": lambda: (
        left_out(FORMULA, DATA, **BESIDE),
        left_out(X, DATA.y, SITE, **COLUMNS),
    ),
    "assess": lambda: both(assessed),
    "compare_strategies": lambda: both(compared),
    "ConformalPredictor.fit": conformal,
    "ConformalPredictor.coverage_by_place": covered,
    "location_shift": shifted,
    "Spread.calibrate_spread": calibrated,
    "score_test": lambda: both(lambda *rows, **more: atm.diagnostics.score_test(LINEAR, *rows, **more).frame()),
    "xi_by_score_test": lambda: both(lambda *rows, **more: atm.xi_by_score_test(LINEAR, *rows, **more).frame()),
    "proportionality_test": proportionality,
    "first_stage": first_stage,
    "invariance_test": invariance,
    "causal_parents": parents,
    "residual_invariance": residual_invariance,
    "calibration": lambda: of_fitted(lambda *rows, **more: atm.diagnostics.calibration(*rows, **more).frame()),
    "score_table": lambda: of_fitted(lambda *rows, **more: atm.scores.score_table(*rows, **more).frame()),
    "model_report": lambda: of_fitted(lambda *rows, **more: atm.model_report(*rows, **more).frame()),
    "transforms": lambda: of_fitted(atm.scores.transforms),
    "crps": lambda: score(atm.scores.crps),
    "coverage": lambda: score(atm.scores.coverage),
    "pit": lambda: score(atm.scores.pit, SURVIVAL, 0),
    "brier": lambda: score(atm.scores.brier, SURVIVAL, [1.0]),
    "concordance": concordance,
}


def public() -> Iterator[Callable[..., Any]]:
    """Yield the public functions, and the public methods of public classes."""
    for place in PLACES:
        module = importlib.import_module(f"anchortm.{place}" if place else "anchortm")
        for value in (getattr(module, name) for name in module.__all__):
            if inspect.isclass(value):
                methods = [getattr(value, name, None) for name in dir(value) if not name.startswith("_")]
                yield from (method for method in methods if inspect.isfunction(method))
            elif inspect.isfunction(value):
                yield value


def takes_rows(function: Callable[..., Any]) -> bool:
    names = set(inspect.signature(function).parameters)
    return "X" in names and bool(names & {"y", "anchors", "environments", "by"})


def test_whatever_takes_x_and_y_takes_a_formula_and_a_table() -> None:
    """Add a case above for a new function, or say in REASONS why it takes no formula."""
    found = {function.__qualname__ for function in public() if takes_rows(function)}
    assert len(found) > 25
    assert found - set(CASES) - set(REASONS) == set()
    assert set(REASONS) <= found - set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_formula_gives_the_numbers_of_columns(name: str) -> None:
    assert_same(*CASES[name]())


def assert_same(a: Any, b: Any) -> None:
    """Compare to the last bit."""
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    else:
        np.testing.assert_array_equal(a, b)


def test_fit_leaves_the_arguments_alone_and_keeps_what_the_formula_says(tmp_path) -> None:
    for model in (atm.ProportionalHazards(order=3), atm.AnchorBoostedTM(atm.ProportionalHazards(order=3), n_rounds=3)):
        before = clone(model).get_params()
        formula = "Surv(time, event) | half ~ x | site"
        assert model.fit(formula, DATA) is model
        assert {k: v for k, v in model.get_params().items() if k != "model"} == {
            k: v for k, v in before.items() if k != "model"
        }
        same = type(model).from_formula(formula, DATA, **clone(model).get_params(deep=False))
        loaded = atm.load(atm.save(model, tmp_path / "model.json"))
        assert_same([model.nll(DATA)] * 2, [same.nll(DATA), loaded.nll(DATA)])


def test_a_fit_to_columns_forgets_the_formula_before_it() -> None:
    model = atm.NormalLinear().fit(FORMULA, DATA)
    model.fit(X, DATA.y)
    assert not hasattr(model, "formula_")


def test_any_table_will_do(tmp_path) -> None:
    plain = DATA.reset_index()
    expected = left_out(FORMULA, plain)
    assert_same(left_out(FORMULA, pl.from_pandas(plain)), expected)
    plain.to_parquet(tmp_path / "rows.parquet")
    batched = atm.leave_one_environment_out(LINEAR, FORMULA, tmp_path / "rows.parquet", xis=[0, 1])
    np.testing.assert_allclose(batched.frame().nll, expected.nll, rtol=1e-8)
    assert batched.environment_name == "site"


def test_missing_rows_are_dropped_with_the_columns_beside_them() -> None:
    holes = DATA.copy()
    holes.iloc[3, holes.columns.get_loc("x")] = np.nan
    holes.iloc[7, holes.columns.get_loc("w")] = np.nan
    whole = holes.dropna()
    drop = atm.NormalLinear(missing="drop")
    assert drop.fit(FORMULA, holes, sample_weight="w").n_missing_ == 2
    assert_same(drop.coef_, atm.NormalLinear().fit(FORMULA, whole, sample_weight="w").coef_)
    found = atm.xi_by_score_test(atm.NormalLinear(missing="drop"), FORMULA, holes, sample_weight="w").frame()
    assert_same(found, atm.xi_by_score_test(LINEAR, FORMULA, whole, sample_weight="w").frame())


def test_environments_of_scores_are_the_anchor_if_it_is_one_factor_of_the_table() -> None:
    def environments(formula: str, data: pd.DataFrame) -> list[str]:
        return atm.scores.score_table(atm.NormalLinear().fit(formula, DATA), data).frame().environment.tolist()

    assert environments(FORMULA, DATA) == ["(all)", "east", "north", "south", "west"]
    for formula in ("y ~ x", "y ~ x | site + half", "y ~ x | o"):
        assert environments(formula, DATA) == ["(all)"]
    assert environments(FORMULA, DATA.drop(columns="site")) == ["(all)"]


def test_searches_score_tables_too() -> None:
    search = atm.XiSearchCV(atm.ProportionalHazards(order=3), [0, 1]).fit(SURVIVAL, DATA)
    best = search.best_estimator_
    assert_same(atm.scores.concordance(search, DATA), atm.scores.concordance(best, DATA))
    assert_same(atm.scores.pit(search, DATA, 0), atm.scores.pit(best, DATA, 0))
    assert_same(atm.scores.brier(search, DATA, [1.0], DATA[:90]), atm.scores.brier(best, DATA, [1.0], SURV[:90]))
    assert_same(atm.scores.score_table(search, DATA).frame(), atm.scores.score_table(best, DATA).frame())
    assert_same(atm.diagnostics.calibration(search, DATA).frame(), atm.diagnostics.calibration(best, DATA).frame())


@pytest.mark.filterwarnings("ignore:4 clusters")
def test_clusters_by_the_name_of_an_anchor() -> None:
    model = atm.NormalLinear(1.0).fit(FORMULA, DATA)
    assert_same(model.standard_errors(clusters="site"), model.standard_errors(clusters=DATA.site))
    draws = [model.bootstrap(3, clusters=which, random_state=0, progress=False).draws for which in ("site", DATA.site)]
    assert_same(*draws)


def test_anchors_of_two_models_come_from_the_formula() -> None:
    before, after = (atm.NormalLinear(xi).fit("y ~ x | site + half", DATA) for xi in (0, 1))
    table = atm.diagnostics.residual_invariance(before, after, DATA).frame()
    assert list(dict.fromkeys(table.anchor)) == ["site", "half"]
    plain = atm.NormalLinear().fit("y ~ x", DATA)
    with pytest.raises(InputError, match="pass them after y, or fit by a formula that names them"):
        atm.diagnostics.residual_invariance(plain, plain, DATA)
