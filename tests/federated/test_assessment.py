"""What sums over sites say about a new place: the same as the rows of all sites in one table."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import CELLS, SUPPORT, SUPPORTS, coordinator, sites_of, table
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.federated import Coordinator, DisclosureError, LocalSites, Policy, Site
from anchortm.federated.assessment import FederatedAssessment, advice_of
from anchortm.federated.wire import Message, WireError
from anchortm.newplace.assessment.calibration import LEVELS
from anchortm.newplace.paired import paired
from anchortm.scores import pit

DATA = table(640, 4)
EXACT = Policy(least_cell=1)  # counts are not rounded


def supported(name: str) -> tuple[Any, tuple[float, float]]:
    """Return the model of a cell with its support, and that of the study."""
    model, support = CELLS[name][0], SUPPORTS.get(name, SUPPORT)
    return clone(model).set_params(**({"support": support} if "support" in model.get_params() else {})), support


def transforms(model: Any, formula: str, data: pd.DataFrame, xi: float) -> list[np.ndarray]:
    """Return the transforms of each site under the fit to the others, drawn as sites draw them."""
    found = []
    for k, name in enumerate(sorted(data.site.unique())):
        own = data[data.site == name]
        others = data[data.site != name]
        fit = type(model).from_formula(formula, others, **model.get_params(deep=False) | {"xi": xi})
        outcome = fit.formula_.outcome(own.reset_index(drop=True))
        found.append(pit(fit.predict_distribution(own), outcome, np.random.default_rng([0, k])))
    return found


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("name", ["c-logit, right", "ordinal probit", "Lm, one covariate", "count"])
def test_it_is_that_of_all_rows_in_one_table(name: str, masks: bool) -> None:
    formula = CELLS[name][1]
    model, support = supported(name)
    asked = coordinator(DATA, formula, masks, EXACT, support=list(support))
    found = asked.assess(CELLS[name][0], [1, 10])
    # comparison
    own = atm.leave_one_environment_out(model, formula, DATA, xis=[0, 1, 10]).frame()
    wide = -own.pivot(index="environment", columns="xi", values="regret")[[1.0, 10.0]]
    np.testing.assert_allclose(found.gains(), wide, atol=1e-9)
    test, frame = paired(-wide.to_numpy().T), found.frame()
    np.testing.assert_allclose(frame[["gain", "se"]].iloc[1:].T, [-test.difference, test.error], atol=1e-9)
    # need
    score = atm.diagnostics.score_test(model, formula, DATA, method="observed")
    assert found.test is not None
    np.testing.assert_allclose(found.test.statistic, score.statistic, rtol=1e-9)
    assert (found.test.df, found.test.rows) == (score.df, score.rows)
    assert found.test.pvalue == pytest.approx(score.pvalue, rel=1e-9)
    # calibration
    assert found.calibration is not None
    for xi in (0.0, 1.0, 10.0):
        u = np.concatenate(transforms(model, formula, DATA, xi))
        np.testing.assert_allclose(found.calibration.histogram(xi), np.histogram(u, 10, (0, 1))[0] / 640, atol=1e-9)
        inside = [(np.abs(u - 0.5) <= 0.5 * level).mean() for level in LEVELS]
        np.testing.assert_allclose(found.calibration.coverage(xi), inside, atol=1e-9)
        np.testing.assert_allclose(frame[frame.xi == xi].iloc[0, -3:].astype(float), inside, atol=1e-9)
    assert found.calibration.rounding_error == 0.0


def test_the_score_test_with_wards_weights_and_covariates_of_sites() -> None:
    """Sites with several environments, and a covariate that is constant at each site and takes a direction."""
    data = DATA.assign(place=DATA.site.str[1].astype(float) ** 2)
    sites = [Site(rows.drop(columns="site"), str(name), environments="ward") for name, rows in data.groupby("site")]
    study = {"formula": "y ~ x + place | site", "sample_weight": "w", "support": [-2.0, 4.0]}
    found = Coordinator(LocalSites(sites), study).assess(atm.ContinuousLogit(order=4), [1])
    pooled = data.assign(site=data.site + "/" + data.ward.astype(str))
    model = atm.ContinuousLogit(order=4, support=(-2.0, 4.0))
    own = atm.diagnostics.score_test(model, "y ~ x + place | site", pooled, sample_weight="w", method="observed")
    assert found.test is not None
    np.testing.assert_allclose(found.test.statistic, own.statistic, rtol=1e-9)
    assert found.test.df == own.df == 10


def test_counts_are_rounded_at_the_site_and_right_on_average() -> None:
    formula = CELLS["c-logit, right"][1]
    model, _ = supported("c-logit, right")
    found = coordinator(DATA, formula, support=list(SUPPORT)).assess(CELLS["c-logit, right"][0], [1])
    assert found.calibration is not None
    own = [np.histogram(u, 10, (0, 1))[0] for u in transforms(model, formula, DATA, 0.0)]
    counts = found.calibration.bins[0.0]
    assert (counts % 5 == 0).all()
    assert (np.abs(counts - np.sum(own, axis=0)) < 5 * len(own)).all()
    assert found.calibration.cell == 5
    np.testing.assert_allclose(found.calibration.rounding_error, 2.5 * 2 / 640)
    assert "multiples of 5" in str(found)


@pytest.mark.parametrize("few", [5, 4])
def test_no_small_cell_leaves_a_site(few: int) -> None:
    """A cell with the policy's smallest number of rows leaves as it is; a smaller one as none, or as that number."""
    found = [Policy().rounded_at_random(np.array([few]), np.random.default_rng(k))[0] for k in range(400)]
    assert set(found) == ({5.0} if few == 5 else {0.0, 5.0})
    assert np.mean(found) == pytest.approx(few, abs=0.3)


def test_asking_again_does_not_average_the_rounding_out() -> None:
    sites = LocalSites(sites_of(DATA))
    asked = Coordinator(sites, {"formula": "y ~ x | site"})
    objective = asked.problem(atm.NormalLinear()).objective
    v = atm.NormalLinear.from_formula("y ~ x | site", DATA)
    point = objective.coordinates.join(v.baseline_, v.coef_)
    ask = [objective.unpenalised.remote.calibration(np.tile(point, (4, 1)), 0, 13)[0] for _ in range(3)]
    assert (ask[0] == ask[1]).all()
    assert (ask[0] == ask[2]).all()
    with pytest.raises(WireError, match="one point for each site"):
        objective.unpenalised.remote.calibration(point[None, :], 0, 13)


def test_answers_are_limited() -> None:
    """Two values of xi take two answers: just under the rule, and just over it."""
    for most, fine in ((2, True), (1, False)):
        asked = coordinator(DATA, "y ~ x | site", policy=Policy(most_calibrations=most))
        found = asked.assess(atm.NormalLinear(), [1])
        assert (found.calibration is not None) == fine
        assert any("has given all 1 counts" in note for note in found.notes) != fine
        assert found.test is not None


def test_steep_parameters_and_other_members_are_refused() -> None:
    asked = coordinator(DATA, "grade ~ x | site")
    objective = asked.problem(atm.OrdinalRegression()).objective
    steep = objective.coordinates.join(np.array([2e5, 2.1e5, 2.2e5]), np.array([1e6]))
    for question in (
        lambda v: objective.unpenalised.remote.need(v),
        lambda v: objective.unpenalised.remote.calibration(np.tile(v, (4, 1)), 0, 13),
    ):
        with pytest.raises(DisclosureError, match="single out a few rows"):
            question(steep)
    sites = LocalSites(sites_of(DATA))
    whole, fewer = (
        Coordinator(sites, {"formula": "grade ~ x | site"}),
        Coordinator(LocalSites([sites.sites[f"s{k}"] for k in range(3)]), {"formula": "grade ~ x | site"}),
    )
    loss = whole.problem(atm.OrdinalRegression()).objective
    theta, beta = np.array([-1.0, 0.5, 2.0]), np.array([0.5])
    loss.unpenalised.remote.need(loss.coordinates.join(theta, beta))
    other = fewer.problem(atm.OrdinalRegression()).objective
    with pytest.raises(DisclosureError, match="other members"):
        other.unpenalised.remote.need(other.coordinates.join(theta, beta))


def test_no_value_of_a_row_crosses() -> None:
    for masks in (True, False):
        traffic: list[bytes] = []

        def watch(name: str, question: bytes, answer: bytes, into: list[bytes] = traffic) -> None:
            into += [question, answer]

        study = {"formula": "Surv(time, event) ~ x + z | site"}
        asked = Coordinator(LocalSites(sites_of(DATA), watch), study, masks=masks)
        asked.assess(atm.ParametricSurvival(), [1])
        made = [Message.decode(message) for message in traffic]
        assert {"need", "calibration"} <= {one.kind for one in made}
        numbers = np.concatenate([a.ravel() for one in made for a in one.arrays.values() if a.dtype.kind == "f"])
        everything = b"\n".join(traffic)
        for column in ("x", "time"):
            values = DATA[column].to_numpy()
            assert not set(numbers.tolist()) & set(values.tolist())
            for value in values:
                assert value.tobytes() not in everything
                assert repr(float(value)).encode() not in everything


def test_more_than_five_sites_can_be_left_out() -> None:
    data = table(960, 8)
    found = coordinator(data, "y ~ x | site").assess(atm.NormalLinear(), [1])
    assert found.gains().shape == (8, 1)
    assert not math.isnan(found.frame().pvalue.iloc[1])
    assert found.calibration is not None


def gains(*values: list[float]) -> pd.DataFrame:
    return pd.DataFrame(np.array(values).T, columns=[1.0, 10.0][: len(values)])


def test_the_rule() -> None:
    clear, noisy = [0.1, 0.12, 0.09, 0.11, 0.13, 0.1, 0.1], [0.5, -0.3, 0.2, -0.1, 0.3, -0.2, 0.1]
    found = advice_of(gains(noisy, clear))
    assert (found.strategy, found.xi, found.confidence) == ("anchored", 10.0, "clear")
    assert found.gain == pytest.approx(np.mean(clear))
    assert "7 of 7 left-out sites better" in found.reasons[0]
    assert advice_of(gains(noisy)).confidence == "undecided"
    assert "do not decide" in advice_of(gains(noisy)).reasons[0]
    assert advice_of(gains([-0.1, 0.0, -0.2, -0.1, 0.01, -0.1])).confidence == "keep"
    few = advice_of(gains(clear[:5]))
    assert (few.strategy, few.confidence) == ("ml", "undecided")
    assert "With 5 sites no comparison can be clear; 6 are needed." in few.reasons
    assert advice_of(pd.DataFrame()).confidence == "untried"


def test_the_page_says_what_was_not_computed() -> None:
    found = coordinator(table(600), "y ~ x | site").assess(atm.NormalLinear(), [1])  # three sites behind masks
    assert isinstance(found, FederatedAssessment)
    assert found.test is not None
    assert (found.left_out, found.calibration, found.gains().empty) == (None, None, True)
    text = " ".join(str(found).split())
    assert "leaving out one of 3 sites needs at least 4" in text
    for words in ("a recalibration curve", "the width of conformal intervals", "a place further out", "Need"):
        assert words in text
    record = found.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["xis"][0]["inside 50%"] is None
    assert "<table" not in found._repr_html_()


def test_records_and_notebooks() -> None:
    found = coordinator(DATA, "y ~ x | site").assess(atm.NormalLinear(), [0, 1])
    record = found.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["calibration"]["counts"][1]["xi"] == 1.0
    assert record["need"]["df"] == 3
    assert len(record["sites"]) == 8
    assert found._repr_html_().count("<table") == 3
    assert list(found.frame().columns)[:4] == ["xi", "gain", "se", "pvalue"]


@pytest.mark.parametrize(
    ("model", "formula", "more", "note"),
    [
        (atm.NormalLinear(), "y ~ x | ward", {"across": True}, "each level of the anchors is at one site"),
        (atm.NormalLinear(l2=0.1), "y ~ x | site", {}, "Score test"),
    ],
)
def test_without_a_score_test(model: Any, formula: str, more: dict[str, Any], note: str) -> None:
    found = coordinator(DATA, formula, **more).assess(model, [1])
    assert found.test is None
    assert any(note in text for text in found.notes)
    assert found.calibration is not None
    assert found.need_sentence == ""


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="at least one above 0"):
        coordinator(DATA, "y ~ x | site").assess(atm.NormalLinear(), [0])
    with pytest.raises(InputError, match="finite numbers from 0"):
        coordinator(DATA, "y ~ x | site").assess(atm.NormalLinear(), [math.inf])
