"""Strata and varying effects at sites: what they have beside the fit, what sites refuse, and an attack on a stratum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import RANGES, coordinator, table

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError
from anchortm.federated import Coordinator, DisclosureError, LocalSites, Policy, Site, Study
from anchortm.inputs.baselines import Mixture

DATA, FOUR = table(), table(900, 4)
SUPPORT = [-2.0, 4.0]
TIGHT = 1e-11
STRATA, VARYING = "y | sex ~ x + z | site", "y ~ x + u | site"


def test_paths_scores_and_covariances() -> None:
    model = atm.ContinuousLogit(order=4, tol=TIGHT)
    asked = coordinator(DATA, STRATA, support=SUPPORT)
    found = asked.path(model, [0, 1, 10])
    own = atm.anchor_path(atm.ContinuousLogit(order=4, tol=TIGHT, support=SUPPORT), STRATA, DATA, xis=[0, 1, 10])
    np.testing.assert_allclose(found.coefs, own.coefs, atol=1e-10)
    fitted = asked.fit(model, xi=1.0)
    same = atm.ContinuousLogit.from_formula(STRATA, DATA, order=4, support=SUPPORT, xi=1.0, tol=TIGHT)
    scores = asked.score(fitted).set_index("site")
    for name, rows in DATA.groupby("site"):
        assert scores.nll[name] == pytest.approx(same.nll(rows, None).mean(), rel=1e-10)
    np.testing.assert_allclose(asked.covariance(fitted), same.covariance(), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(fitted.predict(DATA), same.predict(DATA), atol=1e-7)
    np.testing.assert_allclose(fitted.result_.typical, same.result_.typical, atol=1e-9)
    assert fitted.parameter_names_ == same.parameter_names_
    assert asked.fit(model, xi=1.0, start=fitted).coef_ == pytest.approx(same.coef_, abs=1e-10)


def test_leaving_out_sites_is_leaving_out_environments() -> None:
    model = atm.ContinuousLogit(order=3)
    found = coordinator(FOUR, STRATA, support=SUPPORT).leave_one_site_out(model, [0, 1, 10]).frame()
    pooled = atm.ContinuousLogit(order=3, support=SUPPORT)
    own = atm.leave_one_environment_out(pooled, STRATA, FOUR, xis=[0, 1, 10]).frame()
    numbers = [name for name in own if name not in ("environment", "notes", "converged")]
    np.testing.assert_allclose(found[numbers], own[numbers], atol=1e-9)


def test_varying_effects_predict_and_are_scored() -> None:
    model = atm.ContinuousLogit(order=4, varying=["u"], tol=TIGHT)
    asked = coordinator(DATA, VARYING, support=SUPPORT, ranges=RANGES)
    found = asked.fit(model, xi=1.0)
    own = {"order": 4, "support": SUPPORT, "xi": 1.0, "varying": {"u": (-1.0, 1.0)}, "tol": TIGHT}
    same = atm.ContinuousLogit.from_formula(VARYING, DATA, **own)
    np.testing.assert_allclose(found.predict(DATA), same.predict(DATA), atol=1e-7)
    scores = asked.score(found).set_index("site")
    for name, rows in DATA.groupby("site"):
        assert scores.nll[name] == pytest.approx(same.nll(rows, None).mean(), rel=1e-10)
    assert found.covariate_names_ == same.covariate_names_ == ["x", "u"]


def test_assessments_count_rows_under_their_own_baseline() -> None:
    exact = Policy(least_cell=1)
    found = coordinator(FOUR, STRATA, policy=exact, support=SUPPORT).assess(atm.ContinuousLogit(order=3), [1])
    assert found.calibration is not None
    assert found.calibration.histogram(0.0).sum() == pytest.approx(1.0)
    assert found.test is not None


# what is refused


def test_ranges_are_those_of_the_study() -> None:
    """The smallest and the largest value of a column are values of rows."""
    model = atm.ContinuousLogit(order=3, varying=["u"])
    with pytest.raises(InputError, match="give the range in the study"):
        coordinator(DATA, VARYING, support=SUPPORT).fit(model, xi=0.0)
    other = atm.ContinuousLogit(order=3, varying={"u": (-2.0, 2.0)})
    with pytest.raises(InputError, match="give the range of u in the study"):
        coordinator(DATA, VARYING, support=SUPPORT, ranges=RANGES).fit(other, xi=0.0)
    with pytest.raises(InputError, match="refuses: the site has rows outside of the range of 'u'") as found:
        coordinator(DATA, VARYING, support=SUPPORT, ranges={"u": [-1.0, 0.9]}).fit(model, xi=0.0)
    assert "0.99" not in str(found.value)


def test_ranges_cannot_be_searched_in_an_agreed_study() -> None:
    agreed = Study(VARYING, support=SUPPORT, ranges=RANGES, masks=False)
    sites = [Site(rows.drop(columns="site"), str(name), study=agreed) for name, rows in DATA.groupby("site")]
    other = {**agreed.record(), "ranges": {"u": [-1.0, 0.9]}}
    with pytest.raises(DisclosureError, match="not the one that this site has agreed to"):
        Coordinator(LocalSites(sites), other, masks=False).prepare()
    assert Study.of(agreed.record()).ranges == {"u": (-1.0, 1.0)}
    for wrong in ({"u": [1.0, -1.0]}, {"u": 1.0}, [1.0]):
        with pytest.raises(InputTypeError, match="ranges of a study must be"):
            Study(VARYING, ranges=wrong)


def test_ranges_of_a_question_are_those_of_the_study() -> None:
    """A coordinator that moves a range until a site refuses would find the largest value of a column."""
    model = atm.ContinuousLogit(order=3, varying=["u"])
    asked = coordinator(DATA, VARYING, support=SUPPORT, ranges=RANGES)
    data = asked.problem(model).data
    group = data.mixture.corners.groups[0]
    for change in ({"high": 0.99}, {"names": ("x",)}, {"kind": "factor"}):
        corners = replace(data.mixture.corners, groups=(replace(group, **change),))
        other = replace(data, mixture=Mixture(corners, data.mixture.weights))
        with pytest.raises(InputError, match=r"other ranges than those of the study|cannot read its rows"):
            _ = asked.problem(model).with_data(other).objective


def rows(n: int, few: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": x + rng.logistic(size=n), "s": np.where(np.arange(n) < few, "rare", "common")})


def one_site(data: pd.DataFrame, formula: str, model: Any = None, **policy: Any) -> Any:
    sites = LocalSites([Site(data, "here", Policy(**policy))])
    return Coordinator(sites, {"formula": formula}).fit(atm.NormalLinear() if model is None else model)


@pytest.mark.parametrize(("few", "fine"), [(20, True), (19, False), (4, False)])
def test_each_stratum_has_the_rows_of_a_site(few: int, fine: bool) -> None:
    if fine:
        one_site(rows(80, few), "y | s ~ x")
        return
    why = "fewer than the 5 rows" if few < 5 else "rests on fewer than 20 rows"
    with pytest.raises(DisclosureError, match=why) as found:
        one_site(rows(80, few), "y | s ~ x")
    assert "rare" not in str(found.value)


@pytest.mark.parametrize(("few", "fine"), [(24, True), (23, False)])
def test_each_stratum_has_rows_for_the_parameters_of_its_baseline(few: int, fine: bool) -> None:
    model = atm.ContinuousProbit(order=7)  # 8 parameters
    if fine:
        one_site(rows(160, few), "y | s ~ x", model)
        return
    with pytest.raises(DisclosureError, match="rests on fewer than 24 rows"):
        one_site(rows(160, few), "y | s ~ x", model)


def test_strata_must_be_on_the_list_of_columns() -> None:
    one_site(rows(80, 30), "y | s ~ x", columns=("x", "y", "s"))
    with pytest.raises(DisclosureError, match="does not allow: s"):
        one_site(rows(80, 30), "y | s ~ x", columns=("x", "y"))


def test_the_check_without_a_connection_finds_small_strata() -> None:
    assert Site(rows(80, 20), "here").check({"formula": "y | s ~ x"}) == []
    assert "strata: some have fewer" in Site(rows(80, 4), "here").check({"formula": "y | s ~ x"})[0]


def test_a_single_stratum_is_refused() -> None:
    with pytest.raises(InputError, match="there is a single stratum"):
        coordinator(DATA.assign(sex="f"), STRATA, support=SUPPORT).fit(atm.ContinuousLogit(), xi=0.0)


def shown(policy: Policy) -> np.ndarray:
    """Return how the sums change if the cut of one stratum passes its last row: a gradient of that row alone.

    All rows of the other stratum keep residuals as in an honest fit, so that there are many effective rows in all.
    """
    data = rows(400, 40)
    data["grade"] = (data.y > 0.0).astype(int)
    sites = LocalSites([Site(data[k::2], f"s{k}", policy) for k in range(2)])
    asked = Coordinator(sites, {"formula": "grade | s ~ x"}, masks=False)
    objective = asked.problem(atm.OrdinalRegression()).objective
    rare = np.sort(data.x[data.s == "rare"].to_numpy())

    def total(cut: float) -> np.ndarray:
        """The rare stratum's threshold is far away for all rows but one side of a cut; x is as steep in both."""
        steep = 4.0
        return objective.derivatives(
            objective.coordinates.join(np.array([0.0, steep * cut]), np.array([steep]))
        ).gradient

    return total(float(rare[-1]) + 5.0) - total(float(rare[-1]) + 6.0)


def test_parameters_that_single_out_rows_of_a_stratum_are_refused() -> None:
    assert np.isfinite(shown(Policy(least_effective=0.0))).all()
    with pytest.raises(ArithmeticError, match="a site withholds its sums"):
        shown(Policy())
