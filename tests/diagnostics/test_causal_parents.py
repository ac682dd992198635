"""Which covariates are in every accepted set: against reference numbers, brute force and known graphs."""

from __future__ import annotations

from itertools import chain, combinations
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from invariance_reference import PROBLEMS, reference_model, reference_rows
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.diagnostics.defining_sets import minimal_hitting_sets, minimal_sets
from anchortm.diagnostics.invariance_methods import GcmTest
from anchortm.diagnostics.parents_result import CausalParents
from anchortm.exceptions import InputError

LOGIT = atm.ContinuousLogit(order=3)


def known_graph(seed: int = 0, n: int = 600) -> pd.DataFrame:
    """Return rows in which x1 and x11 act on y, y acts on x2, and x3 has nothing to do with it."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 4, n)
    data = pd.DataFrame({"x1": rng.normal(size=n) + site, "x11": rng.normal(size=n) + 2.0 * (site == 1)})
    data["y"] = data.x1 - data.x11 + rng.logistic(size=n)
    data["x2"] = data.y + rng.normal(size=n) + site
    data["x3"] = rng.normal(size=n)
    data["word"] = rng.choice(["a", "b", "c"], n)
    data["site"] = np.array(["n", "s", "e", "w"])[site]
    return data


DATA = known_graph()


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_reference(name: str) -> None:
    problem = PROBLEMS[name]
    for kind, regression in {"linear_mle": "linear", "mle_none": "none", "mle_logistic": "logistic"}.items():
        found = atm.causal_parents(reference_model(problem), *reference_rows(problem), regression=regression)
        assert len(found.sets) == found.n_sets == len(problem["sets"])
        for row in found.sets.itertuples():
            own = problem["sets"]["+".join(row.set) or "Empty"].get(kind)
            if own is None:  # four covariates separate the two environments of one data set
                assert "logistic regression of E=e2 failed: separation" in row.reason
                continue
            assert row.df == own["df"]
            assert row.statistic == pytest.approx(own["statistic"], rel=1e-8)
        if f"icp_{kind}" in problem:
            wanted = problem[f"icp_{kind}"]
            assert list(found.parents) == wanted["parents"]
            assert dict(found.p_values) == pytest.approx(wanted["predictor_p"], rel=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_walds_tests_of_the_reference(name: str) -> None:
    """R's fits are not converged: their statistics move by up to 1e-3. Those of coxph are, and agree."""
    problem = PROBLEMS[name]
    found = atm.causal_parents(reference_model(problem), *reference_rows(problem), method="wald")
    for row in found.sets.itertuples():
        own = problem["sets"]["+".join(row.set) or "Empty"]["wald"]
        assert row.df == own["df"]
        assert row.statistic == pytest.approx(own["chisq"], rel=1e-8 if "partial" in name else 2e-3)


def test_a_known_graph() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 + x3 | site", DATA)
    assert found.parents == ("x1", "x11")
    assert found.accepted == [("x1", "x11"), ("x1", "x11", "x3")]
    assert not found.misspecified
    assert found.defining_sets == [("x1",), ("x11",)]
    assert found.frame().parent.tolist() == [True, True, False, False]
    assert found.sets.columns.tolist() == ["set", "size", "statistic", "df", "p_value", "accepted", "reason"]
    p = found.sets.set_index("set").p_value
    for name in found.candidates:
        assert found.p_values[name] == max(p[own] for own in p.index if name not in own)
    assert "Causal parents at level 0.05: x1, x11" in str(found)
    assert "<table>" in found._repr_html_()


def test_each_set_is_the_test_of_the_set() -> None:
    """Warm starts and shared columns do not change numbers."""
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 | site", DATA)
    for row in found.sets.itertuples():
        alone = atm.invariance_test(LOGIT, "y ~ x1 + x11 + x2 | site", DATA, covariates=row.set)
        assert row.statistic == pytest.approx(alone.statistic, rel=1e-9)


def test_terms_and_not_columns() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x1 + word + bs(x11, 4) | site", DATA)
    assert found.candidates == ("x1", "word", "bs(x11, 4)")
    assert len(found.sets) == 8
    assert found.parents == ("x1", "bs(x11, 4)")
    one = found.sets.loc[[own == ("word",) for own in found.sets.set]].iloc[0]
    dummies = np.column_stack([DATA.word == "b", DATA.word == "c"]).astype(float)
    other = atm.invariance_test(LOGIT, dummies, DATA.y, DATA.site)
    assert one.statistic == pytest.approx(other.statistic, rel=1e-8)


def test_mandatory_terms_are_in_every_set_and_never_in_the_answer() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 + word | site", DATA, mandatory=["x1", "word"])
    assert found.candidates == ("x11", "x2")
    assert found.mandatory == ("x1", "word")
    assert found.parents == ("x11",)
    for row in found.sets.itertuples():
        with_them = atm.invariance_test(
            LOGIT, "y ~ x1 + x11 + x2 + word | site", DATA, covariates=["x1", "word", *row.set]
        )
        assert row.statistic == pytest.approx(with_them.statistic, rel=1e-9)
    alone = atm.causal_parents(LOGIT, "y ~ x1 + x11 | site", DATA, mandatory="x1")
    assert alone.mandatory == ("x1",)
    nothing = atm.causal_parents(LOGIT, "y ~ x1 + x11 | site", DATA, mandatory=["x1", "x11"])
    assert nothing.parents == ()
    assert len(nothing.sets) == 1


def test_arrays_and_processes_give_the_same() -> None:
    X = DATA[["x1", "x11", "x2", "x3"]]
    plain = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 + x3 | site", DATA)
    arrays = atm.causal_parents(LOGIT, X, DATA.y, DATA.site)
    pd.testing.assert_frame_equal(arrays.sets, plain.sets, check_exact=True)
    two = atm.causal_parents(LOGIT, X, DATA.y, DATA.site, n_jobs=2)
    pd.testing.assert_frame_equal(two.sets, plain.sets, rtol=1e-12)
    unnamed = atm.causal_parents(LOGIT, X.to_numpy(), DATA.y.to_numpy(), DATA.site.to_numpy())
    assert unnamed.parents == ("x0", "x1")


def test_recoding_and_units_do_not_matter() -> None:
    plain = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 | site", DATA)
    moved = DATA.assign(site=DATA.site.map({"n": 3, "s": 0, "e": 11, "w": 5}), x1=100.0 * DATA.x1, y=5.0 * DATA.y - 2.0)
    other = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 | site", moved)
    np.testing.assert_allclose(other.sets.statistic, plain.sets.statistic, rtol=1e-6)
    assert other.parents == plain.parents


def test_every_set_rejected_is_misspecification() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x2 + x3 | site", DATA)
    assert found.misspecified
    assert found.parents == ()
    assert found.defining_sets == []
    assert "Every set is rejected at level 0.05: the model is misspecified" in str(found)
    assert "not evidence that there are no parents" in found._repr_html_()


def test_levels_follow_from_the_p_values() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 + x3 | site", DATA)
    levels = found.levels()
    assert levels.level_from.iloc[0] == 0.0
    assert levels.level_to.tolist() == [*levels.level_from[1:], 1.0]
    for row in levels.itertuples():
        other = found.at(0.5 * (row.level_from + row.level_to))
        assert other.parents == row.parents
        assert other.misspecified == row.misspecified
        again = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 + x3 | site", DATA, level=other.level)
        assert again.parents == other.parents


def test_a_set_without_a_fit_counts_as_accepted() -> None:
    """The guarantee holds whatever the untested sets are: the answer can only become smaller."""
    grade = np.digitize(DATA.y, [-1.0, 1.0])
    rows = DATA.assign(grade=grade, copy=np.where(grade == 2, 5.0, 0.0))
    model = atm.OrdinalRegression()
    plain = atm.causal_parents(model, "grade ~ x1 + x11 | site", rows)
    found = atm.causal_parents(model, "grade ~ x1 + x11 + copy | site", rows)
    lost = found.sets[found.sets.p_value.isna()]
    assert len(lost) == 4
    assert all("copy" in own for own in lost.set)
    assert lost.accepted.all()
    assert lost.reason.str.contains("separation").all()
    assert plain.parents == ("x1", "x11")
    assert found.parents == ()
    assert found.p_values["x1"] == 1.0
    assert found.defining_sets == [("x1", "copy"), ("x11", "copy")]
    assert "4 sets could not be tested and count as accepted; the first: complete" in str(found)


def test_an_early_stop_changes_nothing_but_what_is_left_out() -> None:
    formula = "y ~ x1 + x3 + x2 | site"
    rows = DATA.assign(y=DATA.x3 + np.random.default_rng(1).logistic(size=len(DATA)))
    whole = atm.causal_parents(LOGIT, formula, rows)
    found = atm.causal_parents(LOGIT, formula, rows, stop_early=True)
    assert found.stopped
    assert not whole.stopped
    assert found.parents == whole.parents == ()
    assert len(found.sets) == 1 < found.n_sets == len(whole.sets)
    assert (found.p_values <= whole.p_values).all()
    assert (found.p_values > 0.05).all()
    assert "Stopped after 1 of 8 sets" in str(found)
    with pytest.raises(InputError, match="stop_early=False"):
        found.at(0.2)
    with pytest.raises(InputError, match="stop_early=False"):
        found.sensitivity()
    assert found.at(0.01).parents == ()
    unstopped = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 | site", DATA, stop_early=True)
    assert not unstopped.stopped
    assert unstopped.parents == ("x1", "x11")


def test_few_rows_are_said() -> None:
    found = atm.causal_parents(atm.NormalLinear(), "y ~ x1 + x11 | place", DATA.assign(place=np.arange(len(DATA)) % 60))
    assert found.rows == pytest.approx(len(DATA) / 59)
    assert "10 rows for each degree of freedom" in str(found)


def test_a_search_costs_less_than_fits_one_by_one() -> None:
    X = np.column_stack([DATA[["x1", "x11", "x2", "x3"]], np.random.default_rng(3).normal(size=(len(DATA), 2))])
    model = atm.ContinuousLogit()

    def seconds(call: Any) -> float:
        began = process_time()
        call()
        return process_time() - began

    search = min(seconds(lambda: atm.causal_parents(model, X, DATA.y, DATA.site)) for _ in range(3))
    one = min(seconds(lambda: model.fit(X[:, :3], DATA.y)) for _ in range(5))
    assert search < 64 * one


def test_sizes_are_bounded() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x2 + x3 | site", DATA, max_size=2)
    assert len(found.sets) == found.n_sets == 11
    assert found.sets["size"].max() == 2
    assert "the guarantee needs at most as many parents" in str(found)


def test_the_price_is_said_before_the_search() -> None:
    X = np.random.default_rng(0).normal(size=(len(DATA), 20))
    with pytest.raises(InputError, match=r"1048576 sets, each with a fit of its own: about .* in one process.*screen="):
        atm.causal_parents(LOGIT, X, DATA.y, DATA.site)
    with pytest.raises(InputError, match=r"211 sets of at most 2.*max_fits=100"):
        atm.causal_parents(LOGIT, X, DATA.y, DATA.site, max_size=2, max_fits=100)


def with_noise(data: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return rows with 12 more columns, and a formula with all of them."""
    noise = np.random.default_rng(1).normal(size=(len(data), 12))
    formula = f"y ~ x1 + x11 + x2 + {' + '.join(f'n{j}' for j in range(12))} | site"
    return data.assign(**{f"n{j}": column for j, column in enumerate(noise.T)}), formula


@pytest.mark.parametrize("screen", ["lasso", "blanket"])
def test_screening_can_lose_a_parent_and_says_so(screen: Any) -> None:
    """Given x2, which sites shift as they shift x1, the effect of x1 cancels in all rows together."""
    wide, formula = with_noise(DATA)
    found = atm.causal_parents(LOGIT, formula, wide, screen=screen, n_screened=4)
    assert "x1" in found.screened_out
    assert found.misspecified
    assert "x1" in str(found).split("Screening left out")[1].split(": the guarantee")[0]


@pytest.mark.parametrize("screen", ["lasso", "blanket"])
def test_screening_keeps_the_parents(screen: Any) -> None:
    wide, formula = with_noise(DATA.assign(x2=DATA.x2 - 2.0 * DATA.site.map({"n": 0, "s": 1, "e": 2, "w": 3})))
    found = atm.causal_parents(LOGIT, formula, wide, screen=screen, n_screened=4)
    assert {"x1", "x11", "x2"} <= set(found.candidates)
    assert len(found.candidates) <= 4
    assert len(found.candidates) + len(found.screened_out) == 15
    assert found.parents == ("x1", "x11")
    assert "the guarantee holds if no parent is there" in str(found)
    fixed = atm.causal_parents(LOGIT, formula, wide, screen=screen, n_screened=4, mandatory="n3")
    assert fixed.mandatory == ("n3",)
    assert fixed.parents == ("x1", "x11")


def test_the_lasso_screens_more_columns_than_rows() -> None:
    rng = np.random.default_rng(4)
    site = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 80))
    X[:, 0] += 2.0 * site
    y = 3.0 * X[:, 0] + rng.normal(size=60)
    found = atm.causal_parents(atm.NormalLinear(), X, y, site, screen="lasso", n_screened=3)
    assert found.parents == ("x0",)
    with pytest.raises(InputError):
        atm.causal_parents(atm.NormalLinear(), X, y, site, screen="blanket")


def test_the_blanket_is_a_likelihood_ratio_test() -> None:
    found = atm.causal_parents(
        atm.AnchorGLM(family="gaussian"), "y ~ x1 + x11 + x3 + word | site", DATA, screen="blanket"
    )
    fits = [
        atm.AnchorGLM.from_formula(f"y ~ {own}", DATA, family="gaussian")
        for own in ("x1 + x11 + x3 + word", "x1 + x11 + x3")
    ]
    deviance = (fits[1].deviance_ - fits[0].deviance_) / fits[0].dispersion_
    assert ("word" in found.screened_out) == (deviance < 4.605)  # the 90 % quantile of chi-square with 2
    assert found.parents == ("x1", "x11")


def slow_hitting_sets(sets: list[frozenset[int]], p: int) -> set[frozenset[int]]:
    """Return the minimal sets that intersect all others, by trying every set."""
    every = [frozenset(own) for own in chain.from_iterable(combinations(range(p), k) for k in range(p + 1))]
    hits = [own for own in every if all(own & other for other in sets)]
    return {own for own in hits if not any(other < own for other in hits)}


def test_defining_sets_are_the_minimal_sets_that_hit_all() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        sets = [frozenset(np.flatnonzero(rng.random(6) < 0.4).tolist()) for _ in range(rng.integers(1, 9))]
        found = minimal_hitting_sets(sets)
        assert found is not None
        assert len(found) == len(set(found))
        assert set(found) == slow_hitting_sets(sets, 6)
    assert minimal_sets([frozenset({1, 2}), frozenset({1}), frozenset({3})]) == [frozenset({1}), frozenset({3})]
    pairs = [frozenset({2 * k, 2 * k + 1}) for k in range(12)]
    assert minimal_hitting_sets(pairs, most=1000) is None
    assert len(minimal_hitting_sets(pairs, most=5000) or []) == 2**12


def test_sensitivity() -> None:
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x3 | site", DATA)
    moved = found.sensitivity(("linear", "none", "logistic"))
    assert moved.environments.left_out.tolist() == ["site=e", "site=n", "site=s", "site=w"]
    rest = DATA[DATA.site != "s"]
    alone = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x3 | site", rest)
    row = moved.environments.iloc[2]
    assert row.n == len(rest)
    assert row.parents == alone.parents == ("x1",)  # x11 is moved at this site only
    assert [row.p_x1, row.p_x11, row.p_x3] == pytest.approx(alone.p_values.tolist(), rel=1e-6)
    none = atm.causal_parents(LOGIT, "y ~ x1 + x11 + x3 | site", DATA, regression="none")
    assert moved.regressions.regression.tolist() == ["linear", "none", "logistic"]
    assert moved.regressions.p_x3[1] == pytest.approx(none.p_values["x3"])
    pd.testing.assert_frame_equal(moved.levels, found.levels())
    shifts = moved.shifts.set_index(["covariate", "level"])["shift"]
    here = DATA.site == "s"
    wanted = (DATA.x11[here].mean() - DATA.x11[~here].mean()) / DATA.x11.std(ddof=0)
    assert shifts["x11", "s"] == pytest.approx(wanted)
    assert "do not clearly shift the means of x3" in str(moved)
    assert moved.first_stage is not None
    assert moved.first_stage.frame().index.tolist() == ["x1", "x11", "x3"]
    assert set(moved.frame().changed) == {"level", "environment left out", "regression"}
    assert "<table>" in moved._repr_html_()


def test_sensitivity_to_environments_of_several_kinds() -> None:
    rows = DATA.assign(year=np.arange(len(DATA)) / 100.0, half=np.where(DATA.site.isin(["n", "s"]), "a", "b"))
    several = atm.causal_parents(LOGIT, "y ~ x1 + x11 | half + year", rows).sensitivity(())
    assert several.environments.left_out.tolist() == ["half=a", "half=b", "half", "year"]
    assert several.environments.reason.tolist() == [""] * 4
    one = atm.causal_parents(LOGIT, "y ~ x1 + x11 | year", rows).sensitivity(())
    assert one.environments.empty
    assert one.regressions.empty
    two = atm.causal_parents(LOGIT, "y ~ x1 + x11 | half", rows).sensitivity(())
    assert two.environments.empty  # one of two leaves nothing to compare
    only = rows.assign(word=np.where((rows.site == "n") & (rows.x3 > 0), "only here", "elsewhere"))
    lost = atm.causal_parents(LOGIT, "y ~ x1 + word | site", only).sensitivity(())
    assert lost.environments.reason.tolist() == [""] * 4


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"level": 1.5}, "level"),
        ({"screen": "forest"}, "screen must be 'lasso', 'blanket' or None"),
        ({"mandatory": ["x4"]}, "mandatory has x4, but the covariates are x1, x11"),
        ({"max_size": -1}, "max_size"),
        ({"n_screened": 0}, "n_screened"),
        ({"max_fits": 0}, "max_fits"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        atm.causal_parents(LOGIT, "y ~ x1 + x11 | site", DATA, **given)


def test_methods_and_results_pass_through() -> None:
    for method in ("wald", "score", "simulate"):
        found = atm.causal_parents(atm.NormalLinear(), "y ~ x1 + x11 | site", DATA, method=method, n_draws=39)
        assert found.method == method
        assert found.parents == ("x1", "x11")
    assert isinstance(found, CausalParents)


def test_nothing_that_can_be_tested_is_an_error() -> None:
    """An answer without a single test would read as one."""
    with pytest.raises(InputError, match="no set of covariates can be tested: the covariates determine the environm"):
        atm.causal_parents(LOGIT, "y ~ x1 + C(site) | site", DATA, mandatory="C(site)")
    with pytest.raises(InputError, match="no set of covariates can be tested: the likelihood is unbounded"):
        atm.causal_parents(atm.NormalLinear(), "y ~ x1 | site", DATA.assign(y=1.0))


def test_an_answer_by_sets_without_a_test_says_so() -> None:
    """The environment is among the covariates: sets with it have nothing left to test."""
    found = atm.causal_parents(LOGIT, "y ~ x1 + C(site) | site", DATA)
    assert found.parents == ("C(site)",)
    assert "Every set that could be tested is rejected: the answer rests on sets that could not be tested." in str(
        found
    )
    assert "2 sets could not be tested and count as accepted" in str(found)


def test_remarks_on_the_empty_set() -> None:
    rows = DATA.assign(z=np.random.default_rng(1).logistic(size=len(DATA)) + DATA.x1)
    found = atm.causal_parents(LOGIT, "z ~ x1 + x3 | site", rows, mandatory="x1")
    assert "The empty set is accepted: given x1, the outcome does not clearly differ between" in str(found)
    alone = atm.causal_parents(LOGIT, "z ~ x1 | site", rows, mandatory="x1")
    assert "Empty DataFrame" not in str(alone)
    places = [f"p{k}" for k in range(40)]  # a place for each row: residuals alone cannot be tested
    lost = atm.causal_parents(atm.NormalLinear(), "y ~ x1 | place", DATA.head(40).assign(place=places))
    assert lost.sets.p_value.isna().tolist() == [True, False]
    assert "does not clearly differ" not in str(lost)
    assert "The empty set could not be tested and counts as accepted" in str(lost)
    assert "1 set could not be tested and counts as accepted" in str(lost)


def test_an_interrupted_search_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model = atm.NormalLinear()
    before = atm.causal_parents(model, "y ~ x1 + x11 + x2 | site", DATA)
    asked, call = [], GcmTest.__call__

    def interrupted(self: GcmTest, columns: Any) -> Any:
        asked.append(columns)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return call(self, columns)

    monkeypatch.setattr(GcmTest, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atm.causal_parents(model, "y ~ x1 + x11 + x2 | site", DATA)
    monkeypatch.undo()
    after = atm.causal_parents(model, "y ~ x1 + x11 + x2 | site", DATA)
    pd.testing.assert_frame_equal(after.sets, before.sets, check_exact=True)
    assert not hasattr(model, "coef_")


def test_rows_with_missing_values_are_left_out_if_asked() -> None:
    holes = DATA.assign(x1=DATA.x1.mask(DATA.index % 50 == 0), site=DATA.site.mask(DATA.index % 70 == 0))
    formula = "y ~ x1 + x11 + x3 | site"
    with pytest.raises(InputError, match="missing"):
        atm.causal_parents(atm.NormalLinear(), formula, holes)
    found = atm.causal_parents(atm.NormalLinear(missing="drop"), formula, holes)
    whole = atm.causal_parents(atm.NormalLinear(), formula, holes.dropna())
    pd.testing.assert_frame_equal(found.sets, whole.sets)
    assert found.test("x1").residual_frame().site.tolist() == holes.dropna().site.tolist()


def test_a_fitted_model_and_its_xi_do_not_matter() -> None:
    plain = atm.causal_parents(atm.NormalLinear(), "y ~ x1 + x11 | site", DATA)
    fitted = atm.NormalLinear(xi=5.0).fit("y ~ x2 | site", DATA)
    coef = fitted.coef_.copy()
    other = atm.causal_parents(fitted, "y ~ x1 + x11 | site", DATA)
    pd.testing.assert_frame_equal(other.sets, plain.sets, check_exact=True)
    np.testing.assert_array_equal(fitted.coef_, coef)
    with pytest.raises(TypeError, match="the model alone, not a Pipeline"):
        atm.causal_parents(atm.make_pipeline(StandardScaler(), fitted), DATA[["x1"]], DATA.y, DATA.site)


def test_environments_of_digits_are_names() -> None:
    digits = DATA.assign(site=DATA.site.map({"n": "1", "s": "2", "e": "10", "w": "03"}))
    found = atm.causal_parents(LOGIT, "y ~ x1 + x11 | site", digits)
    assert found.sets.df.eq(3).all()
    assert found.sensitivity(()).environments.left_out.tolist() == ["site=03", "site=1", "site=10", "site=2"]
    assert f" {found.levels().level_from[1]:.3g} " in str(found.sensitivity(()))  # small levels are not all 0.0
