"""Generalised linear models at sites: what they have beside the fit, and what sites refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import coordinator, table
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import InputError, SeparationError
from anchortm.families import Poisson, get_family
from anchortm.federated import Coordinator, DisclosureError, LocalSites, Policy, Site
from anchortm.federated.recipe import Recipe
from anchortm.federated.sums import WITHHELD
from anchortm.federated.wire import WireError

DATA, FOUR = table(), table(800, 4)
TIGHT = 1e-11


def test_paths_scores_and_covariances() -> None:
    model, formula = atm.AnchorGLM(family="gamma", tol=TIGHT), "cost ~ x + z | site"
    asked = coordinator(DATA, formula)
    found, own = asked.path(model, [0, 1, 10]), atm.anchor_path(model, formula, DATA, xis=[0, 1, 10])
    np.testing.assert_allclose(found.coefs, own.coefs, atol=1e-10)
    fitted = asked.fit(model, xi=1.0)
    same = atm.AnchorGLM.from_formula(formula, DATA, family="gamma", xi=1.0, tol=TIGHT)
    scores = asked.score(fitted).set_index("site")
    for name, rows in DATA.groupby("site"):
        assert scores.nll[name] == pytest.approx(same.nll(rows, None).mean(), rel=1e-10)
    np.testing.assert_allclose(asked.covariance(fitted), same.covariance(), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("family", "outcome"), [("binomial", "sick"), ("gaussian", "y"), ("gamma", "cost")])
def test_leaving_out_sites_is_leaving_out_environments(family: str, outcome: str) -> None:
    """The score of a left-out site has the dispersion of the fit to the others."""
    model, formula = atm.AnchorGLM(family=family, tol=TIGHT), f"{outcome} ~ x + z | site"
    found = coordinator(FOUR, formula).leave_one_site_out(model, [0, 1, 10]).frame()
    own = atm.leave_one_environment_out(model, formula, FOUR, xis=[0, 1, 10]).frame()
    numbers = [name for name in own if name not in ("environment", "notes", "converged")]
    np.testing.assert_allclose(found[numbers], own[numbers], atol=1e-9)


def test_elastic_nets_have_the_same_zeros() -> None:
    formula, model = "sick ~ x + z + w + o | site", atm.AnchorGLM(family="binomial", l1=0.05, tol=TIGHT)
    found = coordinator(DATA, formula).fit(model, xi=1.0)
    own = atm.AnchorGLM.from_formula(formula, DATA, family="binomial", l1=0.05, xi=1.0, tol=TIGHT)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    assert ((found.coef_ == 0.0) == (own.coef_ == 0.0)).all()
    assert (own.coef_ == 0.0).any()


def test_weights_and_offsets() -> None:
    formula, model = "count ~ x | site", atm.AnchorGLM(family="poisson", tol=TIGHT)
    study = {"sample_weight": "w", "offset": "o"}
    found = coordinator(DATA, formula, **study).fit(model, xi=2.0)
    own = atm.AnchorGLM.from_formula(formula, DATA, family="poisson", xi=2.0, tol=TIGHT, **study)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    np.testing.assert_allclose(found.standard_errors(), own.standard_errors(), rtol=1e-9)
    assert found.pearson_ == pytest.approx(own.pearson_, rel=1e-12)


def test_anchors_that_sites_share() -> None:
    model, formula = atm.AnchorGLM(family="binomial", tol=TIGHT), "sick ~ x | ward"
    data = DATA.assign(ward=DATA.ward.astype(str))
    found = coordinator(data, formula, across=True).fit(model, xi=3.0)
    own = atm.AnchorGLM.from_formula(formula, data, family="binomial", xi=3.0, tol=TIGHT)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)


def test_fits_are_saved_and_predict(tmp_path: Path) -> None:
    formula, model = "sick ~ x + z | site", atm.AnchorGLM(family="binomial")
    found = coordinator(DATA, formula).fit(model, xi=1.0)
    atm.save(found, tmp_path / "model.json")
    loaded = atm.load(tmp_path / "model.json")
    own = atm.AnchorGLM.from_formula(formula, DATA, family="binomial", xi=1.0)
    np.testing.assert_allclose(loaded.predict(DATA), own.predict(DATA), atol=1e-9)
    assert "binomial family, logit link" in str(found.summary())


def test_the_fit_says_if_rows_are_separated() -> None:
    data = DATA.assign(sick=(DATA.x > 0.5).astype(int))
    with pytest.raises(SeparationError, match="separation"):
        coordinator(data, "sick ~ x | site").fit(atm.AnchorGLM(family="binomial"), xi=0.0)


def test_assessments_have_no_calibration() -> None:
    found = coordinator(table(900, 6), "sick ~ x | site").assess(atm.AnchorGLM(family="binomial"), [1])
    assert found.calibration is None
    assert found.test is not None
    model = atm.AnchorGLM(family="binomial")
    own = atm.diagnostics.score_test(model, "sick ~ x | site", table(900, 6), method="observed")
    assert found.test.statistic == pytest.approx(own.statistic, rel=1e-8)


# what is refused


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (atm.AnchorGLM(family="negative_binomial", alpha="ml"), "give alpha a number for sites"),
        (atm.AnchorGLM(family="poisson", residual="deviance"), "set residual='score' for sites"),
    ],
)
def test_models_that_need_more_than_sums(model: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        coordinator(DATA, "count ~ x | site").fit(model, xi=0.0)


def test_families_of_users_are_refused() -> None:
    class Own(Poisson):
        pass

    with pytest.raises(InputError, match="no code is sent to them"):
        coordinator(DATA, "count ~ x | site").fit(atm.AnchorGLM(family=Own()), xi=0.0)


def test_outcomes_that_a_family_does_not_have() -> None:
    with pytest.raises(InputError, match="the site 's0' refuses: the site has outcomes that the gamma family") as found:
        coordinator(DATA, "y ~ x | site").fit(atm.AnchorGLM(family="gamma"), xi=0.0)
    assert f"{DATA.y.min():.3g}" not in str(found.value)


def one_site(data: pd.DataFrame, formula: str, model: Any, **policy: Any) -> Any:
    return Coordinator(LocalSites([Site(data, "here", Policy(**policy))]), {"formula": formula}).fit(clone(model))


@pytest.mark.parametrize("few", [5, 4])
@pytest.mark.parametrize("outcome", ["sick ~ x", "Trials(sick, trials) ~ x"])
def test_cells_of_outcomes(few: int, outcome: str) -> None:
    """Rows with the outcome 0, and those with the outcome 1, are cells; so are those with all of their trials."""
    n = 80
    x = np.random.default_rng(1).normal(size=n)
    data = pd.DataFrame({"x": x, "trials": 1, "sick": 0})
    data.loc[np.argsort(x)[: 4 * few : 4], "sick"] = 1
    model = atm.AnchorGLM(family="binomial")
    if few == 5:
        one_site(data, outcome, model, least_effective=5.0)
        return
    with pytest.raises(DisclosureError, match=r"outcome.*: some have fewer than the 5 rows"):
        one_site(data, outcome, model, least_effective=5.0)


@pytest.mark.parametrize("few", [3, 2])
def test_few_rows_with_far_outcomes_keep_the_dispersion_to_themselves(few: int) -> None:
    """Half a cell of rows, 2.5 effective ones, must share Pearson's chi-square."""
    rng = np.random.default_rng(2)
    n = 200
    data = pd.DataFrame({"x": rng.normal(size=n), "y": rng.normal(size=n)})
    data.loc[: few - 1, "y"] += 1000.0
    model = atm.AnchorGLM(family="gaussian")
    if few == 3:
        assert one_site(data, "y ~ x", model).pearson_ > 1e6
        return
    with pytest.raises(DisclosureError, match="a site withholds Pearson's chi-square"):
        one_site(data, "y ~ x", model)
    assert np.isnan(one_site(data, "y ~ x", atm.AnchorGLM(dispersion="ml")).pearson_)


def test_a_fit_goes_on_without_a_dispersion_that_it_does_not_need(tmp_path: Path) -> None:
    data = DATA.copy()
    data.loc[data.index[data.site == "s1"][:1], "count"] = 400
    found = coordinator(data, "count ~ x | site").fit(atm.AnchorGLM(family="poisson", tol=TIGHT), xi=1.0)
    own = atm.AnchorGLM.from_formula("count ~ x | site", data, family="poisson", xi=1.0, tol=TIGHT)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    assert found.deviance_ == pytest.approx(own.deviance_, rel=1e-10)
    assert np.isnan(found.pearson_)
    atm.save(found, tmp_path / "model.json")
    assert np.isnan(atm.load(tmp_path / "model.json").pearson_)
    assert "Pearson not known" in str(found.summary())


@pytest.mark.parametrize("expected", [False, True])
def test_steep_parameters_are_refused_under_the_expected_information_too(expected: bool) -> None:
    """Its slopes are the same in all rows of a gamma model with the log link, whatever the parameters."""
    asked = coordinator(DATA, "cost ~ x | site", False)
    problem = asked.problem(atm.AnchorGLM(family="gamma"))
    objective = problem.objective.with_link(replace(problem.objective.link, expected_information=expected))
    start = problem.start(objective)
    assert np.isfinite(objective.sums(start).loglik)
    steep = start.copy()
    steep[1] = -4.0  # the means of rows with the largest x go to 0
    assert objective.sums(steep).loglik == -np.inf
    assert set(objective.remote.refused.values()) == {WITHHELD}


def test_forged_families_are_refused() -> None:
    basis = atm.AnchorGLM(family="poisson").specification().rule(None, None)
    recipe = Recipe(get_family("poisson"), basis, 1.0, True)
    record, arrays = recipe.record(), recipe.arrays()
    assert Recipe.of(record, arrays).digest == recipe.digest
    again = Recipe.of(Recipe(replace(get_family("negative_binomial"), alpha=0.5), basis, 1.0, True).record(), arrays)
    assert again.link.alpha == 0.5
    for change in (
        {"family": "other"},
        {"unit": 0.0},
        {"unit": float("inf")},
        {"push": -1.0},
        {"alpha": 1.0},
        {"residual": "deviance"},
        {"expected_information": 1},
        {"estimate": None},
    ):
        with pytest.raises(WireError, match="the family of the model is invalid"):
            Recipe.of({**record, "family": {**record["family"], **change}}, arrays)
    with pytest.raises(InputError):
        Recipe.of({**record, "family": {**record["family"], "link": "other"}}, arrays)
