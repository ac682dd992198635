"""Anchors that sites share: the year, a continuous one, or both beside the site."""

from __future__ import annotations

import numpy as np
import pytest
from federated_cases import check_equal, coordinator, sites_of, table

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.federated import LocalSites, Study
from anchortm.federated.conversation import Conversation
from anchortm.federated.wire import Message

DATA = table(900, 3).assign(
    year=lambda d: 2015 + np.random.default_rng(1).integers(0, 5, len(d)),
    distance=lambda d: 40.0 + 9.0 * np.random.default_rng(2).normal(size=len(d)) + d.x,
)
SHARED = ["year", "distance", "year + distance", "site + year", "site + distance", "N(year)"]


@pytest.mark.parametrize("xi", [1.0, 10.0])
@pytest.mark.parametrize("anchors", SHARED)
def test_the_fit_is_that_of_all_rows(anchors: str, xi: float) -> None:
    formula = f"Surv(time, event) ~ x + z | {anchors}"
    asked = coordinator(DATA, formula, across=True, support=[0.5, 4.0])
    found = asked.fit(atm.ContinuousLogit(order=5, tol=1e-11), xi=xi)
    own = atm.ContinuousLogit.from_formula(formula, DATA, order=5, support=(0.5, 4.0), xi=xi, tol=1e-11)
    check_equal(found, own)
    assert found.n_anchors_ == own.n_anchors_
    assert found.convexity_ == own.convexity_


@pytest.mark.parametrize(
    ("model", "formula"),
    [
        (atm.NormalLinear(), "y ~ x + z | year"),
        (atm.OrdinalRegression(), "grade ~ x + z | distance"),
        (atm.ProportionalHazards(order=4), "Surv(time, event) ~ x | year"),
        (atm.ContinuousLogit(order=4, l2=0.05), "y ~ x + z | year"),
        (atm.CountRegression(order=3), "count ~ x | year + distance"),
    ],
)
def test_other_models_and_weights(model: atm.AnchorTM, formula: str) -> None:
    support = {"support": (-2.0, 4.0)} if "y ~" in formula else {"support": (0.5, 4.0)}
    support = support if "support" in model.get_params() else {}
    given = {name: list(value) for name, value in support.items()}
    asked = coordinator(DATA, formula, across=True, sample_weight="w", **given)
    found = asked.fit(model, xi=2.0)
    arguments = model.get_params(deep=False) | support | {"xi": 2.0}
    check_equal(found, type(model).from_formula(formula, DATA, sample_weight="w", **arguments))


def test_rounds_stay_few() -> None:
    asked = coordinator(DATA, "Surv(time, event) ~ x + z | year", across=True, support=[0.5, 4.0])
    asked.fit(atm.ContinuousLogit(order=6), xi=1.0)
    assert asked.rounds <= 28


def test_paths_and_left_out_sites() -> None:
    data = DATA.assign(site=DATA.site.where(np.arange(900) % 4 > 0, "s3"))
    formula, model = "y ~ x | year", atm.ContinuousLogit(order=4)
    asked = coordinator(data, formula, across=True, support=[-2.0, 4.0])
    own = atm.anchor_path(atm.ContinuousLogit(order=4, support=(-2.0, 4.0)), formula, data, xis=[0, 1, 10])
    np.testing.assert_allclose(asked.path(model, [0, 1, 10]).coefs, own.coefs, atol=1e-10)
    found = asked.leave_one_site_out(model, [0, 1]).frame()
    wanted = atm.leave_one_environment_out(
        atm.ContinuousLogit(order=4, support=(-2.0, 4.0)), formula, data, xis=[0, 1], environments=data.site
    ).frame()
    np.testing.assert_allclose(found[["nll", "coef_x"]], wanted[["nll", "coef_x"]], atol=1e-9)


def begun() -> tuple[Conversation, LocalSites]:
    sites = LocalSites(sites_of(DATA))
    return Conversation(sites, Study("y ~ x | site"), sites.names, True, "continuous", 10.0), sites


def test_shared_anchors_need_the_consent_of_the_study() -> None:
    with pytest.raises(InputError, match="sites share levels or numbers of the anchors year"):
        coordinator(DATA, "y ~ x | year").fit(atm.NormalLinear(), xi=1.0)
    with pytest.raises(InputError, match="sites share levels or numbers of the anchors distance"):
        coordinator(DATA, "y ~ x | distance").fit(atm.NormalLinear(), xi=1.0)
    talk, sites = begun()
    fields = {"session": talk.session, "round": 1, "factors": {"year": [1, 2]}, "numbers": []}
    question = Message("anchors", fields, {"mean": np.zeros(0), "unit": np.zeros(0)}).encode()
    answer = Message.decode(sites.sites["s0"].answer(question))
    assert "does not say that sites share anchors" in answer.fields["reason"]
    with pytest.raises(InputError, match="anchor_intercept=True"):
        coordinator(DATA, "y ~ x | distance", across=True).fit(atm.NormalLinear(anchor_intercept=False), xi=1.0)
    with pytest.raises(InputError, match="finite number of at least 0"):
        coordinator(DATA, "y ~ x | year", across=True).fit(atm.NormalLinear(), xi=np.inf)
