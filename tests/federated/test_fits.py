"""Fits to sites are fits to all rows in one table: coefficients, standard errors, certificates."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from federated_cases import CELLS, RANGES, SUPPORT, SUPPORTS, check_equal, coordinator, sites_of, table
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError, SeparationError
from anchortm.federated import Coordinator, LocalSites, Policy, Site

DATA = table()
TIGHT = 1e-11  # by default the Hessian has an error of about the last step, 1e-9, with and without sites


def support_of(name: str, model: Any) -> dict[str, Any]:
    """Return the support as an argument of a model, if its baseline has one."""
    return {"support": SUPPORTS.get(name, SUPPORT)} if "support" in model.get_params() else {}


def pooled(name: str, xi: float, data: Any = DATA, **more: Any) -> Any:
    model, formula = CELLS[name]
    own = clone(model).set_params(xi=xi, tol=TIGHT, **support_of(name, model))
    return type(own).from_formula(formula, data, **own.get_params(deep=False), **more)


@pytest.mark.filterwarnings("ignore:each cluster of patient lies in one level:anchortm.exceptions.AnchorWarning")
@pytest.mark.parametrize("xi", [*(pytest.param(xi, marks=pytest.mark.slow) for xi in (0.0, 1.0)), 10.0])
@pytest.mark.parametrize("name", CELLS)
def test_the_fit_is_that_of_all_rows(name: str, xi: float) -> None:
    model, formula = CELLS[name]
    # this model does not fit the tail: a few late rows have most of the information
    policy = Policy(least_effective=5.0) if name == "rayleigh" else None
    more = {"support": list(SUPPORTS.get(name, SUPPORT)), "ranges": RANGES}
    asked = coordinator(DATA, formula, policy=policy, **more)
    found = asked.fit(clone(model).set_params(tol=TIGHT), xi=xi)
    if found.coef_.size:
        check_equal(found, pooled(name, xi))
    else:
        np.testing.assert_allclose(found.baseline_, pooled(name, xi).baseline_, atol=1e-10)


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("sites", [1, 2, 8])
def test_any_number_of_sites_with_and_without_masks(sites: int, masks: bool) -> None:
    data = table(900, sites)
    model, formula = CELLS["c-logit, right"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if sites == 1 else "error")
        found = coordinator(data, formula, masks, support=list(SUPPORT)).fit(model, xi=2.0)
        check_equal(found, pooled("c-logit, right", 2.0, data))


def test_weights_offsets_and_wards() -> None:
    model, formula = atm.ContinuousLogit(order=4), "y ~ x | site"
    sites = LocalSites(
        [Site(rows.drop(columns="site"), name, environments="ward") for name, rows in DATA.groupby("site")]
    )
    study = {"formula": formula, "support": SUPPORT, "sample_weight": "w", "offset": "o"}
    found = Coordinator(sites, study).fit(model, xi=3.0)
    data = DATA.assign(site=DATA.site + "/" + DATA.ward.astype(str))
    own = atm.ContinuousLogit.from_formula(
        formula, data, order=4, support=SUPPORT, xi=3.0, sample_weight="w", offset="o"
    )
    check_equal(found, own)
    assert found.n_anchors_ == own.n_anchors_ == 9


def test_anchors_that_are_columns_inside_sites() -> None:
    data = DATA.assign(clinic=DATA.site + DATA.ward.astype(str))
    found = coordinator(data, "y ~ x | clinic", support=list(SUPPORT)).fit(atm.ContinuousLogit(order=4), xi=3.0)
    check_equal(found, atm.ContinuousLogit.from_formula("y ~ x | clinic", data, order=4, support=SUPPORT, xi=3.0))


def test_missing_values() -> None:
    data = DATA.copy()
    data.loc[::40, "x"] = np.nan
    study = {"formula": "y ~ x + z | site", "support": list(SUPPORT)}
    found = Coordinator(LocalSites(sites_of(data)), {**study, "missing": "drop"}).fit(atm.ContinuousLogit(), xi=1.0)
    check_equal(found, pooled_drop(data))
    with pytest.raises(InputError, match="the site 's0' refuses: rows have missing values"):
        Coordinator(LocalSites(sites_of(data)), study).fit(atm.ContinuousLogit(), xi=1.0)


def pooled_drop(data: Any) -> Any:
    return atm.ContinuousLogit.from_formula("y ~ x + z | site", data, support=SUPPORT, xi=1.0, missing="drop")


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(100, 800), min_size=1, max_size=5, unique=True), seed=st.integers(0, 2**16))
def test_any_split_of_the_rows_gives_the_same_fit(cuts: list[int], seed: int) -> None:
    """Environments are the wards; the sites are any rows of the table in which each ward is at one site."""
    data = table(900, 9, seed % 5)
    where = np.searchsorted(np.array(sorted({9 * cut // 900 for cut in cuts})), np.arange(9), side="right")
    at = {name: f"h{k}" for name, k in zip(sorted(data.site.unique()), where, strict=True)}
    sites = LocalSites(
        [Site(rows, name) for name, rows in data.rename(columns={"site": "town"}).groupby(data.site.map(at))]
    )
    found = Coordinator(sites, {"formula": "y ~ x | town", "support": [-2.0, 4.0]}).fit(
        atm.ContinuousLogit(order=4), xi=1.0
    )
    key = seed % 5
    if key not in POOLED:
        POOLED[key] = atm.ContinuousLogit.from_formula("y ~ x | site", data, order=4, support=(-2.0, 4.0), xi=1.0)
    check_equal(found, POOLED[key])


POOLED: dict[int, Any] = {}


@pytest.mark.parametrize("l2", [0.0, 0.02])
def test_elastic_nets_have_the_same_zeros(l2: float) -> None:
    model = atm.ContinuousLogit(order=4, l1=0.05, l2=l2)
    formula = "y ~ x + z + w + o | site"
    found = coordinator(DATA, formula, support=[-2.0, 4.0]).fit(model, xi=1.0)
    own = atm.ContinuousLogit.from_formula(formula, DATA, order=4, l1=0.05, l2=l2, support=(-2.0, 4.0), xi=1.0)
    np.testing.assert_allclose(found.coef_, own.coef_, atol=1e-10)
    assert ((found.coef_ == 0.0) == (own.coef_ == 0.0)).all()
    assert (own.coef_ == 0.0).any()


def test_paths_are_warm_started_and_equal() -> None:
    asked = coordinator(DATA, "Surv(time, event) ~ x + z | site", support=list(SUPPORT))
    found = asked.path(atm.ContinuousLogit(order=5), [0, 1, 10, 100])
    own = atm.anchor_path(
        atm.ContinuousLogit(order=5, support=SUPPORT), "Surv(time, event) ~ x + z | site", DATA, xis=[0, 1, 10, 100]
    )
    np.testing.assert_allclose(found.coefs, own.coefs, atol=1e-10)
    assert list(found.frame().columns) == list(own.frame().columns)
    alone = sum(coordinator(DATA, "y ~ x | site").fit(atm.NormalLinear(), xi=xi).n_iter_ for xi in (0, 1))
    assert alone > 0


@pytest.mark.filterwarnings("ignore:each cluster of patient lies in one level:anchortm.exceptions.AnchorWarning")
@pytest.mark.parametrize(
    ("name", "at_zero"),
    [
        *(("c-logit, right", 16), ("strata, right", 16), ("GLM binomial logit", 16), ("varying number", 16)),
        *(("random, ordinal", 18), ("random, right", 18), ("random, c-probit", 16)),
    ],
)
def test_rounds_are_few(name: str, at_zero: int) -> None:
    """With preparation, start, certificate and standard errors."""
    model, formula = CELLS[name]
    for xi, most in ((0.0, at_zero), (1.0, 25), (10.0, 35)):
        asked = coordinator(DATA, formula, support=list(SUPPORTS.get(name, SUPPORT)), ranges=RANGES)
        asked.fit(model, xi=xi)
        assert asked.rounds <= most


@pytest.mark.parametrize("masks", [False, True])
def test_bytes_are_those_of_the_sums(masks: bool) -> None:
    """In each round a site sends 8 bytes for each number, twice as many behind masks, and at most 2 kB beside them."""
    sizes: list[int] = []

    def watch(name: str, question: bytes, answer: bytes) -> None:
        if b'"kind":"sums"' in question[:200] and question.count(b"points") and len(answer) < 60_000:
            sizes.append(len(answer))

    study = {"formula": "Surv(time, event) ~ x + z | site", "support": list(SUPPORT)}
    Coordinator(LocalSites(sites_of(DATA), watch), study, masks=masks).fit(atm.ContinuousLogit(order=6), xi=1.0)
    d = 10
    numbers = 8 * (2 + 2 * d + 3 * d * (d + 1) // 2) * (2 if masks else 1)
    assert numbers <= min(sizes) <= numbers + 2000


def test_the_start_of_a_site_more_is_the_fit_without_it() -> None:
    data, formula = table(800, 4), "y ~ x + z | site"
    few = coordinator(data[data.site != "s3"], formula, support=[-2.0, 4.0]).fit(atm.ContinuousLogit(order=4), xi=2.0)
    asked = coordinator(data, formula, support=[-2.0, 4.0])
    found = asked.fit(atm.ContinuousLogit(order=4), xi=2.0, start=few)
    check_equal(found, atm.ContinuousLogit.from_formula(formula, data, order=4, support=(-2.0, 4.0), xi=2.0))
    with pytest.raises(InputError, match="start has other parameters"):
        asked.fit(atm.ContinuousLogit(order=5), xi=2.0, start=few)


def test_scores_and_covariances() -> None:
    asked = coordinator(DATA, "Surv(time, event) ~ x + z | site", support=list(SUPPORT))
    model = asked.fit(atm.ContinuousLogit(order=5), xi=1.0)
    own = pooled("c-logit, right", 1.0)
    scores = asked.score(model).set_index("site")
    for name, rows in DATA.groupby("site"):
        assert scores.n[name] == len(rows)
        assert scores.nll[name] == pytest.approx(own.nll(rows, None).mean(), rel=1e-10)
    np.testing.assert_allclose(asked.covariance(model), own.covariance(), rtol=1e-7, atol=1e-12)
    other = coordinator(DATA, "Surv(time, event) ~ x | site")
    with pytest.raises(InputError, match="use a model of this study"):
        other.score(model)


def test_leaving_out_sites_is_leaving_out_environments() -> None:
    data = table(800, 4)
    formula, model = "Surv(time, event) ~ x + z | site", atm.ContinuousLogit(order=5)
    found = coordinator(data, formula, support=list(SUPPORT)).leave_one_site_out(model, [0, 1, 10]).frame()
    own = atm.leave_one_environment_out(clone(model).set_params(support=SUPPORT), formula, data, xis=[0, 1, 10]).frame()
    assert list(found.columns) == list(own.columns)
    numbers = [name for name in own if name not in ("environment", "notes", "converged")]
    np.testing.assert_allclose(found[numbers], own[numbers], atol=1e-10)
    with pytest.raises(InputError, match="needs at least 4, so that masks can hide"):
        coordinator(DATA, formula).leave_one_site_out(model, [0, 1])
    few = coordinator(DATA, formula, masks=False, support=list(SUPPORT)).leave_one_site_out(model, [0, 1])
    assert few.frame().environment.nunique() == 3


def test_without_a_support_it_is_that_of_a_rounded_histogram() -> None:
    asked = coordinator(DATA, "y ~ x | site")
    low, high = asked.prepare().support
    exact = np.quantile(DATA.y, [0.1, 0.9])
    np.testing.assert_allclose([low, high], exact, atol=0.3)
    assert not np.isin([low, high], DATA.y).any()
    found = asked.fit(atm.ContinuousLogit(), xi=1.0)
    check_equal(found, atm.ContinuousLogit.from_formula("y ~ x | site", DATA, xi=1.0, support=(low, high)))


def test_a_fitted_model_predicts_and_is_saved(tmp_path: Any) -> None:
    model = coordinator(DATA, "Surv(time, event) ~ x + z | site").fit(atm.ContinuousLogit(), xi=1.0)
    same = atm.load(atm.save(model, tmp_path / "model.json"))
    np.testing.assert_array_equal(same.predict(DATA[:5]), model.predict(DATA[:5]))
    assert str(same.summary()) == str(model.summary())
    assert model.row_kinds_ == pooled("c-logit, right", 0.0).row_kinds_
    assert model.covariate_ranges_[0, 0] > DATA.x.min()
    assert model.covariate_ranges_[1, 0] < DATA.x.max()


@pytest.mark.parametrize(
    ("model", "formula", "match"),
    [
        (atm.CoxPH(), "Surv(time, event) ~ x | site", "risk sets need the order"),
        (atm.NormalLinear(xi=np.inf), "y ~ x | site", "finite number of at least 0"),
        (atm.NormalLinear(xi=-0.2), "y ~ x | site", "finite number of at least 0"),
        (atm.ContinuousLogit(), "y ~ s(x) | site", "knots are quantiles"),
        (atm.ContinuousLogit(), "y ~ bs(x, 4) | site", "learn from the rows"),
        (atm.ContinuousLogit(), "y ~ . | site", "a dot stands for"),
        (atm.ContinuousLogit(environment_weights="equal"), "y ~ x | site", "environment weights"),
        (atm.ContinuousLogit(tail=0.5, xi=1.0), "y ~ x | site", "a tail share"),
        (atm.ContinuousLogit(xi=1.0), "y ~ x", "needs anchors"),
        (atm.ContinuousLogit(), "y ~ x + I(2 * x) | site", "collinear"),
    ],
)
def test_what_sums_cannot_do_is_refused(model: Any, formula: str, match: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=match):
        fit(model, formula)


def fit(model: Any, formula: str) -> Any:
    return coordinator(DATA, formula).fit(model)


def test_separation_is_found_by_counts() -> None:
    data = DATA.assign(grade=(DATA.x > 0.5).astype(int) + (DATA.x > 1.5))
    with pytest.raises(SeparationError, match="x orders the rows"):
        coordinator(data, "grade ~ x | site").fit(atm.OrdinalRegression(), xi=0.0)


def test_a_site_whose_model_is_too_large_is_named() -> None:
    data = DATA.groupby("site").head(60)
    with pytest.raises(InputError, match="the site 's0' refuses: the model has 22 parameters"):
        coordinator(data, "y ~ x | site").fit(atm.ContinuousLogit(order=20))


@pytest.mark.bug("federated", "fits with scale or random effects did not say which sites kept their sums, nor why")
@pytest.mark.parametrize(
    ("effects", "scale"), [("", None), ("", ["x"]), pytest.param(" + (1 | patient)", None, marks=pytest.mark.slow)]
)
def test_too_steep_parameters_are_not_taken(effects: str, scale: Any) -> None:
    """A fit that would need them stops with the names of the sites."""
    strict = Policy(least_effective=190.0)
    sites = LocalSites([Site(rows.drop(columns="site"), name, policy=strict) for name, rows in DATA.groupby("site")])
    with pytest.raises(InputError, match="few effective rows"):
        Coordinator(sites, {"formula": f"Surv(time, event) ~ x{effects} | site"}).fit(
            atm.ProportionalHazards(scale=scale), xi=0.0
        )
