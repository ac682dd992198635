"""Bad formulas and tables in every call that takes them: an error of ours that says what to do, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError

N = 60
rng = np.random.default_rng(0)
SITE = np.repeat(["a", "b", "c"], N // 3)
TABLE = pd.DataFrame({"x": rng.normal(size=N), "site": SITE, "w": 1.0})
TABLE["y"] = TABLE.x + rng.normal(size=N)
TABLE["time"], TABLE["event"] = np.exp(TABLE.y), rng.integers(0, 2, N)
FORMULA = "y ~ x | site"
LINEAR = atm.NormalLinear()
SEARCH, BOOSTED = atm.XiSearchCV(LINEAR, [0, 1]), atm.AnchorBoostedTM(LINEAR, n_rounds=2)
NET = atm.ElasticNetCV(LINEAR, [0], n_lambdas=2)


def of_model(call: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    return lambda *rows, model=LINEAR, **more: call(model, *rows, **fixed, **more)


# what takes a formula and a table; those that take a model can be given another one
CALLS: dict[str, Callable[..., Any]] = {
    "fit": lambda *rows, model=LINEAR, **more: clone(model).fit(*rows, **more),
    "problem": lambda *rows, model=LINEAR, **more: model.problem(*rows, **more),
    "boosting": lambda *rows, model=LINEAR, **more: clone(BOOSTED).set_params(model=model).fit(*rows, **more),
    "problem of boosting": lambda *rows, model=LINEAR, **more: atm.AnchorBoostedTM(model).problem(*rows, **more),
    "search": lambda *rows, model=LINEAR, **more: clone(SEARCH).set_params(model=model).fit(*rows, **more),
    "search of nets": lambda *rows, model=LINEAR, **more: clone(NET).set_params(model=model).fit(*rows, **more),
    "L2 regression": lambda *rows, **more: atm.LinearAnchorRegression().fit(*rows, **more),
    "L2 boosting": lambda *rows, **more: atm.AnchorBoosting(n_estimators=2).fit(*rows, **more),
    "path": of_model(atm.anchor_path, xis=[0, 1]),
    "path of nets": of_model(atm.elastic_net_path, xis=[0, 1], n_lambdas=2),
    "left out": of_model(atm.leave_one_environment_out, xis=[0, 1]),
    "score test": of_model(atm.diagnostics.score_test),
    "rule": of_model(atm.xi_by_score_test),
    "proportionality": of_model(atm.proportionality_test),
    "first stage": lambda *rows, **more: atm.diagnostics.first_stage(*rows, **more),
}
WITH_MODEL = sorted(set(CALLS) - {"L2 regression", "L2 boosting", "first stage"})
WITH_ANCHORS = sorted(set(CALLS) - {"first stage"})
BY_ENVIRONMENT = ("left out", "search", "search of nets")
WITH_WEIGHTS = sorted(set(WITH_ANCHORS) - {"L2 boosting"})
NEED_ANCHORS = ("path", "path of nets", "left out", "score test", "rule", "first stage", "search", "search of nets")


def refused(
    call: Callable[..., Any], message: str, *rows: Any, wanted: type[Exception] = InputError, **more: Any
) -> None:
    """Check that a call is refused with this message, and that the table is as it was."""
    before = TABLE.copy()
    with pytest.raises(AnchorTMError, match=message) as caught:
        call(*rows, **more)
    assert isinstance(caught.value, wanted)
    pd.testing.assert_frame_equal(TABLE, before)


@pytest.mark.parametrize("name", WITH_ANCHORS)
def test_anchors_that_are_given_twice(name: str, tally) -> None:
    refused(CALLS[name], "name the anchors after '|' in the formula", FORMULA, TABLE, anchors=SITE)
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", WITH_MODEL)
def test_anchor_names_beside_a_formula(name: str, tally) -> None:
    model = atm.NormalLinear(anchor_names="site")
    refused(CALLS[name], "after '|' in the formula, not in anchor_names", FORMULA, TABLE, model=model)
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", CALLS)
def test_columns_that_are_not_there(name: str, tally) -> None:
    for formula in ("y ~ xx | site", "z ~ x | site", "y ~ x | sites"):
        refused(CALLS[name], "there is no column '(xx|z|sites)' in the data; .*its columns are x, site", formula, TABLE)
        tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", CALLS)
def test_a_formula_without_its_table(name: str, tally) -> None:
    refused(CALLS[name], "a formula needs a table: pass it after the formula", FORMULA, None)
    refused(CALLS[name], "data must be a table with named columns", FORMULA, TABLE.y, wanted=InputTypeError)
    refused(CALLS[name], "data must be a table with named columns", FORMULA, TABLE.to_numpy(), wanted=InputTypeError)
    tally("bad input", "formulas and tables refused", 3)


@pytest.mark.parametrize("name", CALLS)
def test_words_that_are_not_a_formula(name: str, tally) -> None:
    refused(CALLS[name], "formula", "x + site", TABLE)
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", BY_ENVIRONMENT)
def test_environments_that_are_not_a_column(name: str, tally) -> None:
    refused(CALLS[name], "there is no column 'place' in the data", FORMULA, TABLE, environments="place")
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_weights_that_are_not_a_column(name: str, tally) -> None:
    refused(CALLS[name], "there is no column 'weights' in the data", FORMULA, TABLE, sample_weight="weights")
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", NEED_ANCHORS)
def test_a_formula_without_the_anchors_that_are_needed(name: str, tally) -> None:
    """The message names both ways."""
    refused(CALLS[name], r"pass (them|the environments|anchors=).*in a formula", "y ~ x", TABLE)
    tally("bad input", "formulas and tables refused")


@pytest.mark.parametrize("name", ["path of nets", "rule", "proportionality", "first stage"])
def test_tables_in_batches_where_rows_are_needed(name: str, tmp_path, tally) -> None:
    TABLE.to_parquet(tmp_path / "rows.parquet")
    message = "needs a table in memory, not .*: read it first"
    refused(CALLS[name], message, FORMULA, tmp_path / "rows.parquet", wanted=InputTypeError)
    tally("bad input", "formulas and tables refused")


def test_a_refused_formula_leaves_a_fitted_model_as_it_was() -> None:
    for model in (LINEAR, SEARCH, BOOSTED, atm.LinearAnchorRegression()):
        fitted = clone(model).fit(FORMULA, TABLE)
        held = dict(vars(fitted))
        with pytest.raises(InputError):
            fitted.fit("y ~ nothing | site", TABLE)
        assert vars(fitted).keys() == held.keys()
        assert all(vars(fitted)[key] is value for key, value in held.items())


NAMED, PLAIN = atm.NormalLinear().fit(FORMULA, TABLE), atm.NormalLinear().fit(TABLE[["x"]], TABLE.y)
NO_ANCHORS = atm.NormalLinear().fit("y ~ x", TABLE)
COX = atm.CoxPH().fit("Surv(time, event) ~ x | site", TABLE)
FORMULA_FIRST = "fit it by the formula, .* and pass the table alone"
NO_OUTCOME = "y is None: pass the outcome of the rows, or fit by a formula and pass the table alone"
QUESTIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "scores of a model without a formula": (lambda: atm.scores.score_table(PLAIN, TABLE[["x"]]), NO_OUTCOME),
    "the nll of such a model": (lambda: PLAIN.nll(TABLE[["x"]]), NO_OUTCOME),
    "a formula for such a model": (lambda: atm.scores.score_table(PLAIN, FORMULA, TABLE), FORMULA_FIRST),
    "transforms of such a model": (lambda: atm.scores.transforms(PLAIN, TABLE[["x"]]), NO_OUTCOME),
    "calibration of such a model": (lambda: atm.diagnostics.calibration(PLAIN, TABLE[["x"]]), NO_OUTCOME),
    "residuals of such models": (lambda: atm.diagnostics.residual_invariance(PLAIN, PLAIN, TABLE[["x"]]), NO_OUTCOME),
    "a score of L2 without y": (
        lambda: atm.LinearAnchorRegression().fit(TABLE[["x"]], TABLE.y).score(TABLE[["x"]]),
        NO_OUTCOME,
    ),
    "another formula": (
        lambda: atm.scores.score_table(NAMED, "y ~ x | w", TABLE),
        r"was fitted by 'y ~ x \| site', not by 'y ~ x \| w': pass the table alone",
    ),
    "the formula without its table": (lambda: atm.diagnostics.calibration(NAMED, FORMULA), "a formula needs a table"),
    "a table without the outcome": (
        lambda: atm.scores.score_table(NAMED, TABLE.drop(columns="y")),
        "there is no column 'y' in the data",
    ),
    "environments that are not a column": (
        lambda: atm.scores.score_table(NAMED, TABLE, environments="place"),
        "there is no column 'place' in the data",
    ),
    "calibration without environments": (
        lambda: atm.diagnostics.calibration(NO_ANCHORS, TABLE),
        "pass one label for each row, or fit by a formula whose only anchor",
    ),
    "calibration at a new place": (
        lambda: atm.diagnostics.calibration(NAMED, TABLE.drop(columns="site")),
        "pass one label for each row, or fit by a formula whose only anchor",
    ),
    "residuals without anchors": (
        lambda: atm.diagnostics.residual_invariance(NO_ANCHORS, NO_ANCHORS, TABLE),
        "pass them after y, or fit by a formula that names them after",
    ),
    "an offset that is not a column": (lambda: NAMED.nll(TABLE, offset="off"), "there is no column 'off' in the data"),
    "an offset by name without a table": (
        lambda: PLAIN.nll(TABLE[["x"]].to_numpy(), TABLE.y, offset="w"),
        "data must be a table with named columns",
    ),
    "weights that are not a column": (lambda: NAMED.score(TABLE, sample_weight="ww"), "there is no column 'ww'"),
    "clusters that the fit does not know": (
        lambda: NAMED.standard_errors(clusters="w"),
        r"the cluster of each row .*, or the name of an anchor \(site\), not 'w': pass the column, data\['w'\]",
    ),
    "concordance of a model without a formula": (
        lambda: atm.scores.concordance(PLAIN, TABLE),
        "risk must be one number for each row",
    ),
    "crps of a model without a formula": (
        lambda: atm.scores.crps(PLAIN, TABLE),
        r"pass predicted distributions, model.predict_distribution\(X\)",
    ),
    "groups that are not a column": (
        lambda: COX.restricted_mean(TABLE, 1.0, by="group"),
        "there is no column 'group' in the data",
    ),
    "a picture of survival by a table without a model": (
        lambda: atm.plotting.survival(COX.predict_distribution(TABLE), TABLE),
        "y is a table: pass the model that was fitted by a formula with it",
    ),
    "a picture of residuals without anchors": (
        lambda: atm.plotting.residuals(NO_ANCHORS, TABLE),
        "the formula of the model has no anchors: pass residuals and an anchor",
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_to_fitted_models(name: str, tally) -> None:
    call, message = QUESTIONS[name]
    refused(call, message, wanted=AnchorTMError)
    tally("bad input", "questions to fitted models refused")
