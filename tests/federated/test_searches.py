"""A coordinator that searches: refusals are known by name, so that none may depend on the value of a single row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from federated_cases import coordinator, sites_of, table

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.federated import DisclosureError, LocalSites, Policy, Study
from anchortm.federated.conversation import Conversation
from anchortm.federated.histograms import BINS, FIRST
from anchortm.federated.plan import learn
from anchortm.federated.wire import WireError

DATA = table()
FIRST_SITE = DATA[DATA.site == "s0"]
OPEN = Policy(least_effective=0.0)


def session(formula: str, data: Any = DATA, masks: bool = True) -> Conversation:
    sites = LocalSites(sites_of(data))
    return Conversation(sites, Study(formula, masks=masks), sites.names, masks, "continuous", 10.0)


def searched(fine: Callable[[float], bool], good: float, bad: float) -> float:
    """Return where an answer turns into a refusal."""
    assert fine(good)
    assert not fine(bad)
    for _ in range(50):
        middle = 0.5 * (good + bad)
        good, bad = (middle, bad) if fine(middle) else (good, middle)
    return good


@pytest.mark.bug("federated", "moving the end of a support until a site refused gave its twentieth outcome, exactly")
@pytest.mark.parametrize("upper", [False, True])
def test_supports_do_not_find_outcomes(upper: bool) -> None:
    asked = coordinator(DATA, "y ~ x | site")
    asked.prepare()
    talk, none = asked._conversations[0], np.zeros(0)
    arrays = {"units": np.ones(4), "anchor_mean": none, "anchor_unit": none, "anchor_root": np.zeros((0, 0))}
    fields = dict.fromkeys(("family", "shared", "corners", "effects", "n_nodes")) | {"arguments": {}}
    fields |= {"link": "logit", "sign": -1, "intercept": True}

    def fine(end: float) -> bool:
        support = [-30.0, end] if upper else [end, 30.0]
        basis = {"kind": "bernstein", "order": 3, "support": support}
        try:
            talk.ask("baseline", {**fields, "basis": basis}, arrays, 9)
        except DisclosureError as error:
            return "'s0' refuses: the site has fewer than 20 rows in the support" not in str(error)
        return True

    found = searched(fine, *((20.0, -20.0) if upper else (-20.0, 20.0)))
    middle = np.subtract(*FIRST_SITE.y.quantile([0.75, 0.25]))
    step = 2.0 ** np.ceil(np.log2(middle / 64.0))
    assert found / step == pytest.approx(round(found / step), abs=1e-9)  # an edge of the grid, which no outcome is
    assert np.abs(FIRST_SITE.y - found).min() > 1e-6


@pytest.mark.bug("federated", "statuses told sums that are not finite apart, and so the largest value of a covariate")
@pytest.mark.parametrize(("family", "link", "outcome"), [("gamma", "inverse", "cost"), ("poisson", "sqrt", "count")])
def test_edges_of_means_do_not_find_rows(family: str, link: str, outcome: str) -> None:
    """The mean of a row is possible on one side of its covariate only; here of that with the largest one."""
    problem = coordinator(DATA, f"{outcome} ~ x | site").problem(atm.AnchorGLM(family=family, link=link))
    objective, statuses = problem.objective, set()
    start = problem.start(objective)

    def fine(slope: float) -> bool:
        objective.remote.refused.clear()
        v = start + np.array([0.0, -slope])
        objective.sums(v)
        statuses.update(objective.remote.refused.values())
        return "s0" not in objective.remote.refused

    slope, at = searched(fine, 0.0, 30.0), objective.coordinates
    assert len(statuses) == 1
    edge = at.mean[1] + at.scale[1] * start[0] / slope
    assert np.abs(FIRST_SITE.x - edge).min() > 0.01


@pytest.mark.bug("federated", "whether sums were too large for masks gave the sums of single sites, exactly")
def test_limits_of_masks_do_not_find_the_sums_of_a_site() -> None:
    talk = session("y ~ x | site")
    learned = learn(talk)
    design = {"design": learned.formula.state(), "classes": [], "alone": [], "numbers": [], "strata": []}
    size = abs(float(FIRST_SITE.x.sum()))

    def fine(power: float) -> bool:
        arrays = {"edges": np.zeros(0), "number_edges": np.zeros((0, BINS)), "units": np.array([2.0**-power])}
        try:
            talk.ask("moments", design, arrays, 2)
        except InputError as error:
            return "'s0'" not in str(error)
        return True

    assert fine(20.0)
    found = [size * 2.0 ** searched(fine, 10.0, 60.0) for _ in range(4)]
    assert max(found) / min(found) > 1.1
    assert max(found) <= 2.0**40


@pytest.mark.bug("federated", "the rule on the scale had its factor, and not the square that second derivatives have")
@pytest.mark.parametrize("way", [-1.0, 1.0])
def test_scales_do_not_single_out_rows_in_second_derivatives(way: float) -> None:
    problem = coordinator(DATA, "y ~ x | site").problem(atm.NormalLinear(scale=["x"]))
    objective = problem.objective
    start = problem.start(objective)

    def fine(g: float) -> bool:
        v = start.copy()
        v[-1] = way * g
        return bool(np.isfinite(objective.sums(v).loglik))

    g, at = searched(fine, 0.0, 12.0), objective.coordinates
    for _, rows in DATA.groupby("site"):
        squares = np.exp(2.0 * way * g * (rows.x - at.mean[-2]) / at.scale[-2])
        assert squares.sum() ** 2 / (squares**2).sum() >= 20.0


@pytest.mark.bug("federated", "histograms were made of any column of numbers, such as the names of clusters")
@pytest.mark.parametrize("column", ["patient", "site", "y", "nowhere"])
def test_histograms_are_those_of_covariates(column: str) -> None:
    talk = session("y ~ x + (1 | patient) | site", DATA.assign(patient=1000 + np.arange(len(DATA)) // 6))
    fields = {"levels": {}, "classes": [], "numbers": [column]}
    with pytest.raises(WireError, match="histograms are those of the outcome and of covariates that are numbers"):
        talk.ask("counts", fields, {"edges": FIRST}, 9 + 3 * FIRST.size)


@pytest.mark.bug("federated", "a stratum could be named twice")
def test_strata_are_named_once() -> None:
    talk = session("y | sex ~ x | site")
    state = learn(talk).formula.state()
    for strata in (["f", "m", "m"], ["f"], []):
        size = max(len(strata), 1)
        fields = {"design": state, "classes": [], "alone": [], "numbers": [], "strata": strata}
        arrays = {"edges": np.zeros(0), "number_edges": np.zeros((0, BINS)), "units": np.ones(size)}
        with pytest.raises(InputError, match="refuses"):
            talk.ask("moments", fields, arrays, 2 * size)
