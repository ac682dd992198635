"""Random effects of clusters that lie inside sites: what they have beside the fit, and what stays at a site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import check_equal, coordinator, sites_of, table
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import AnchorWarning, InputError
from anchortm.federated import Coordinator, DisclosureError, LocalSites, Policy, Site

DATA, FOUR = table(), table(900, 4)
SUPPORT = [-2.0, 4.0]
TIGHT = 1e-11
FORMULA = "y ~ x + (1 | patient) | site"
pytestmark = pytest.mark.filterwarnings("ignore:each cluster of patient lies:anchortm.exceptions.AnchorWarning")


def test_paths_scores_and_covariances() -> None:
    model = atm.ContinuousProbit(order=3, tol=TIGHT)
    asked = coordinator(DATA, FORMULA, support=SUPPORT)
    found = asked.path(model, [0, 1, 10])
    own = atm.anchor_path(atm.ContinuousProbit(order=3, tol=TIGHT, support=SUPPORT), FORMULA, DATA, xis=[0, 1, 10])
    np.testing.assert_allclose(found.coefs, own.coefs, atol=1e-10)
    fitted = asked.fit(model, xi=1.0)
    same = atm.ContinuousProbit.from_formula(FORMULA, DATA, order=3, support=SUPPORT, xi=1.0, tol=TIGHT)
    np.testing.assert_allclose(fitted.result_.others, same.result_.others, atol=1e-9)
    np.testing.assert_allclose(asked.covariance(fitted), same.covariance(), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(fitted.predict(DATA), same.predict(DATA), atol=1e-7)
    assert fitted.n_clusters_ == same.n_clusters_
    scores = asked.score(fitted).set_index("site")
    by_site = sum(scores.n[name] * scores.nll[name] for name in scores.index)
    assert by_site == pytest.approx(-same.loglik_, rel=1e-10)


@pytest.mark.parametrize("xi", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("model", [atm.ContinuousProbit(order=3), atm.ParametricSurvival(dist="lognormal")])
def test_sites_with_exact_rows_and_sites_with_censored_ones(model: Any, xi: float) -> None:
    """Exact rows alone would have integrals in closed form, and all sites must take the same ones."""
    event = np.where(DATA.site == "s1", np.arange(len(DATA)) % 3 > 0, 1)
    data, formula = DATA.assign(event=event), "Surv(time, event) ~ x + (1 | patient) | site"
    own = clone(model).set_params(xi=xi, tol=TIGHT)
    found = coordinator(data, formula, support=[0.5, 4.0]).fit(own)
    if "support" in own.get_params():
        own.set_params(support=[0.5, 4.0])
    check_equal(found, type(own).from_formula(formula, data, **own.get_params(deep=False)))


def test_weights_count_clusters() -> None:
    data = DATA.assign(w=1.0 + (np.arange(len(DATA)) // 6) % 2)
    found = coordinator(data, FORMULA, sample_weight="w").fit(atm.NormalLinear(tol=TIGHT), xi=1.0)
    own = atm.NormalLinear.from_formula(FORMULA, data, sample_weight="w", xi=1.0, tol=TIGHT)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    np.testing.assert_allclose(found.standard_errors(), own.standard_errors(), rtol=1e-9)


def test_leaving_out_sites_is_leaving_out_environments() -> None:
    found = coordinator(FOUR, FORMULA).leave_one_site_out(atm.NormalLinear(), [0, 1]).frame()
    own = atm.leave_one_environment_out(atm.NormalLinear(), FORMULA, FOUR, xis=[0, 1]).frame()
    numbers = [name for name in own if name not in ("environment", "notes", "converged")]
    np.testing.assert_allclose(found[numbers], own[numbers], atol=1e-8)


@pytest.mark.bug("federated", "calibration of random effects was that of an average cluster, not of new ones")
@pytest.mark.parametrize(
    ("model", "formula"),
    [
        (atm.NormalLinear(), FORMULA),
        (atm.NormalLinear(), "y ~ x + (1 + x | patient) | site"),
        (atm.ContinuousLogit(order=3), FORMULA),
    ],
)
def test_calibration_is_that_of_new_clusters(model: Any, formula: str) -> None:
    data = table(960, 4)
    data["y"] += 2.0 * np.random.default_rng(1).normal(size=len(data))[data.groupby("patient").ngroup()]
    support = {"support": [-3.0, 5.0]} if "support" in model.get_params() else {}
    asked = coordinator(data, formula, policy=Policy(least_cell=1), **support)
    found = asked.assess(model, [1]).calibration
    assert found is not None
    counts, outside = np.zeros(10), np.zeros(3)
    for name, rows in data.groupby("site"):
        others = data[data.site != name]
        fit = type(model).from_formula(formula, others, **clone(model).set_params(xi=1.0, **support).get_params(False))
        u = atm.scores.pit(fit.predict_distribution(rows), rows.y.to_numpy())
        counts += np.histogram(u, bins=10, range=(0.0, 1.0))[0]
        outside += [(np.abs(u - 0.5) > 0.5 * level).sum() for level in (0.5, 0.8, 0.9)]
    np.testing.assert_allclose(found.bins[1.0], counts, atol=1)
    np.testing.assert_allclose(found.outside[1.0], outside, atol=1)


def test_equal_names_at_two_sites_are_two_clusters() -> None:
    data = DATA.assign(patient=[text.split("/")[1] for text in DATA.patient])
    data["patient"] = data.groupby("site").cumcount() // 6
    found = coordinator(data, FORMULA).fit(atm.NormalLinear(tol=TIGHT), xi=0.0)
    own = atm.NormalLinear.from_formula(
        FORMULA, data.assign(patient=data.site + data.patient.astype(str)), xi=0.0, tol=TIGHT
    )
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    assert found.n_clusters_ == own.n_clusters_


def test_the_fit_says_that_anchors_and_effects_compete() -> None:
    with pytest.warns(AnchorWarning, match="each cluster of patient lies in one level of the anchor site"):
        coordinator(DATA, FORMULA).fit(atm.NormalLinear(), xi=1.0)


def test_penalties_have_no_standard_errors() -> None:
    found = coordinator(DATA, FORMULA).fit(atm.NormalLinear(l2=0.05, tol=TIGHT), xi=1.0)
    own = atm.NormalLinear.from_formula(FORMULA, DATA, l2=0.05, xi=1.0, tol=TIGHT)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    with pytest.raises(InputError, match="need the sizes of clusters"):
        coordinator(DATA, FORMULA).covariance(found)


def test_fits_are_saved_without_single_clusters(tmp_path: Path) -> None:
    found = coordinator(DATA, FORMULA).fit(atm.NormalLinear(), xi=1.0)
    atm.save(found, tmp_path / "model.json")
    loaded = atm.load(tmp_path / "model.json")
    np.testing.assert_allclose(loaded.predict(DATA), found.predict(DATA))
    assert loaded.n_clusters_ == found.n_clusters_
    assert "of patient, at their sites" in str(loaded.summary())
    with pytest.raises(InputError, match="stay at their sites"):
        loaded.result_.random.table()
    record = json.loads((tmp_path / "model.json").read_text())
    assert "s0/" not in json.dumps(record)


# what crosses, and what is refused


def test_no_name_of_a_cluster_crosses() -> None:
    traffic: list[bytes] = []

    def watch(name: str, question: bytes, answer: bytes) -> None:
        traffic.extend([question, answer])

    data = DATA.assign(patient=[f"Miller{k // 6}" for k in range(len(DATA))])
    asked = Coordinator(LocalSites(sites_of(data), watch), {"formula": FORMULA, "support": SUPPORT})
    asked.fit(atm.ContinuousProbit(order=3), xi=1.0)
    assert not any(b"Miller" in message for message in traffic)


@pytest.mark.parametrize(
    ("model", "formula", "why"),
    [
        (atm.AnchorGLM(family="poisson"), "count ~ x + (1 | patient) | site", "random effects of AnchorGLM"),
        (atm.NormalLinear(), "y ~ x + (1 | patient) + (1 | ward) | site", "two random terms"),
        (atm.NormalLinear(), "y ~ x + (0 + x | patient) | site", "without an intercept"),
    ],
)
def test_what_is_not_implemented(model: Any, formula: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        coordinator(DATA, formula).fit(model, xi=0.0)


def test_clusters_must_be_on_the_list_of_columns() -> None:
    policy = Policy(columns=("x", "y"))
    with pytest.raises(DisclosureError, match="does not allow: patient"):
        coordinator(DATA, FORMULA, policy=policy).fit(atm.NormalLinear(), xi=0.0)


def rows(clusters: int, each: int, alone: int = 0) -> pd.DataFrame:
    """Return clusters of so many rows each, after one cluster of ``alone`` rows."""
    rng = np.random.default_rng(4)
    patient = np.concatenate([np.full(alone, -1), np.repeat(np.arange(clusters), each)])
    x = rng.normal(size=patient.size)
    y = x + rng.normal(size=clusters + 1)[patient] + rng.normal(size=patient.size)
    return pd.DataFrame({"x": x, "y": y, "grade": np.digitize(y, [-1.0, 1.0]), "patient": patient})


@pytest.mark.parametrize(("clusters", "fine"), [(10, True), (9, False)])
def test_sites_have_two_cells_of_clusters(clusters: int, fine: bool) -> None:
    asked = Coordinator(LocalSites([Site(rows(clusters, 8), "here")]), {"formula": "y ~ x + (1 | patient)"})
    if fine:
        asked.fit(atm.NormalLinear())
        return
    with pytest.raises(DisclosureError, match="fewer than 10 clusters"):
        asked.fit(atm.NormalLinear())


def at_variance(policy: Policy | None, variance: float) -> float:
    """Return the log-likelihood of rows of which one cluster has many, and all others one each."""
    asked = Coordinator(LocalSites([Site(rows(60, 1, 30), "here", policy)]), {"formula": "y ~ x + (1 | patient)"})
    problem = asked.problem(atm.NormalLinear())
    v = problem.start(problem.objective)
    v[-1] = variance
    return float(problem.objective.sums(v).loglik)


def test_variances_that_single_out_a_cluster_are_refused() -> None:
    """The larger the variance, the less single rows say: in the limit all sums are those of the large cluster."""
    assert np.isfinite(at_variance(None, 0.01))
    assert np.isfinite(at_variance(Policy(least_effective=0.0), 100.0))
    assert at_variance(None, 100.0) == -np.inf
