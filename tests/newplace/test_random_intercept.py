"""The strategy with random intercepts: against fits by hand, and where it is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from parts_cases import table

import anchortm as atm
from anchortm.models.given import given
from anchortm.newplace.scoring import scores_of_rows
from anchortm.newplace.training import Training
from anchortm.selection.places import places_of
from anchortm.strategies import RandomIntercept

MODELS = {
    "lm": (atm.NormalLinear(), "y ~ x + z"),
    "c-logit": (atm.ContinuousLogit(), "y ~ x + z"),
    "hazards": (atm.ProportionalHazards(), "Surv(time, event) ~ x + z"),
    "entry": (atm.ProportionalHazards(), "Surv(time, event, entry) ~ x + z"),
    "ordinal": (atm.OrdinalRegression(), "ordered(grade, 1, 2, 3, 4) ~ x + z"),
    "counts": (atm.CountRegression(), "grade ~ x + z"),
    "poisson": (atm.AnchorGLM(family="poisson"), "grade ~ x + z"),
    "interval": (atm.ContinuousProbit(), "Interval(low, high) ~ x"),
}


def homes() -> pd.DataFrame:
    """Return rows of six places, persons within them."""
    data = table()
    return data.assign(place=[f"p{k}" for k in data.person % 6])


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_a_mixed_model_for_a_new_cluster(name):
    model, formula = MODELS[name]
    data = homes()
    prepared, places = places_of(given(model, f"{formula} | place", data), [0.0], None)
    out = places.labels.tolist().index("p2")
    train = Training(prepared, places, frozenset({out}))
    held = places.rows_in([out])
    found = scores_of_rows(RandomIntercept().fit(train), train.raw(held), places.data.response[held], np.zeros(0), 0)
    inside, outside = data[data.place != "p2"], data[data.place == "p2"].reset_index(drop=True)
    fitted = type(model).from_formula(f"{formula} + (1 | place)", inside, **model.get_params(deep=False))
    if name == "entry":  # a place whose rows survived to their entry has other intercepts
        law = fitted.predict_distribution(outside).given(after=outside.entry)
        logs = np.where(outside.event, law.logpdf(outside[["time"]])[:, 0], law.logsf(outside[["time"]])[:, 0])
        np.testing.assert_allclose(found["nll"], -logs, atol=1e-6)
        return
    each = outside.assign(place=[f"new {k}" for k in range(len(outside))])  # each row in a cluster of its own
    np.testing.assert_allclose(found["nll"], fitted.nll(each), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "formula", "reason"),
    [
        (atm.CoxPH(), "Surv(time, event) ~ x | place", "random effects cannot be combined with CoxPH"),
        (atm.ContinuousProbit(scale="x"), "y ~ x + z | place", "cannot be combined with"),
        (atm.NormalLinear(), "y ~ x + (1 | person) | place", "random effects of its own"),
    ],
)
def test_where_it_is_refused_the_others_go_on(model, formula, reason):
    found = atm.compare_strategies(
        model, formula, homes(), design="like", strategies=["equal", "random-intercept"], progress=False
    )
    notes = found.frame().groupby("strategy").note.unique()
    assert len(notes["random-intercept"]) == 1
    assert reason in notes["random-intercept"][0]
    assert "random-intercept failed at all 6" in repr(found)
    if not isinstance(model, atm.CoxPH):  # its curves have no density
        assert np.isfinite(found.frame().query("strategy == 'equal'").nll).all()


def test_successes_are_scored_with_their_trials():
    rng = np.random.default_rng(0)
    n, place = 160, np.arange(160) % 8
    x, trials = rng.normal(size=(n, 1)), rng.integers(3, 9, n)
    y = atm.Trials(rng.binomial(trials, 1.0 / (1.0 + np.exp(-x[:, 0] - 0.1 * rng.normal(size=8)[place]))), trials)
    own = atm.strategies.Regressor(atm.AnchorGLM(family="binomial"), name="own")
    found = atm.compare_strategies(
        atm.AnchorGLM(family="binomial"),
        x,
        y,
        environments=place,
        design="like",
        strategies=["random-intercept", own],
        progress=False,
    )
    frame = found.frame().set_index(["strategy", "environment"])
    for score in ("nll", "crps", "coverage"):
        np.testing.assert_allclose(frame.loc["own"][score], frame.loc["ml"][score], rtol=1e-6)
    assert frame.coverage.loc["ml"].mean() == pytest.approx(0.9, abs=0.08)
    assert (frame.nll.loc["random-intercept"] - frame.nll.loc["ml"]).abs().max() < 0.5


def test_it_has_a_name_and_takes_no_part_by_default():
    assert isinstance(atm.strategies.RandomIntercept(), atm.strategies.Strategy)
    found = atm.compare_strategies(
        atm.NormalLinear(), "y ~ x | site", table(), design="like", strategies=None, progress=False
    )
    assert "random-intercept" not in set(found.frame().strategy)
