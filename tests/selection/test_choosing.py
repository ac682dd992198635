"""How searches choose: by skill, paired over environments of a sufficient size, and by the outermost environments."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.selection.choice import Rule

mpl.use("Agg")
XIS = [0.0, 1.0, 10.0]
TOWNS = atm.datasets.load_boston_housing2()
COVARIATES = ["crim", "rm", "lstat"]


def hidden_cause(places: int, rows: int, seed: int, level: float | None = None) -> pd.DataFrame:
    """Places move x, and a hidden cause acts on x and y; with a level, rows of one place that far out."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(size=places) if level is None else np.full(places, level)
    e = np.repeat(np.arange(places), rows)
    hidden = rng.normal(size=e.size)
    x = levels[e] + hidden + 0.5 * rng.normal(size=e.size)
    return pd.DataFrame({"x": x, "y": 0.3 * x + 1.5 * hidden + rng.normal(size=e.size), "place": e})


def nothing_differs(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    e = np.repeat(np.arange(12), 30)
    x = rng.normal(size=e.size)
    return pd.DataFrame({"x": x, "y": 0.8 * x + rng.normal(size=e.size), "place": e})


@pytest.fixture(scope="module")
def search():
    return atm.XiSearchCV(atm.NormalLinear(), XIS).fit(TOWNS[COVARIATES], TOWNS.cmedv, anchors=TOWNS.town)


def test_the_default_is_the_90_percent_quantile_of_minus_skill_over_large_environments(search) -> None:
    frame = search.loeo_.frame()
    large = frame[frame.n >= 10]
    assert search.objective == 0.9
    for xi in XIS:
        loss = -large[large.xi == xi].skill
        assert search.results_.objective[xi] == pytest.approx(loss.quantile(0.9), abs=1e-12)
        hardest = large.loc[loss.idxmax()]
        assert search.results_.hardest[xi] == hardest.environment
        assert search.results_.n[xi] == hardest.n
    small = frame[frame.xi == 0.0].n.lt(10).sum()
    assert f"{small} of 92 environments have fewer than 10 rows: not counted in the quantile" in repr(search)


@pytest.mark.parametrize("objective", ["mean", "worst", 0.5, 0.9])
def test_standard_errors_are_those_of_differences_over_drawn_environments(objective) -> None:
    found = atm.XiSearchCV(atm.NormalLinear(), XIS, objective)
    found.fit(TOWNS[COVARIATES], TOWNS.cmedv, anchors=TOWNS.town)
    frame = found.loeo_.frame()
    frame = frame if objective == "mean" else frame[frame.n >= 10]
    loss = -frame.pivot(index="environment", columns="xi", values="skill")

    def value(rows: pd.DataFrame) -> pd.Series:
        return rows.mean() if objective == "mean" else rows.quantile(1.0 if objective == "worst" else objective)

    rng = np.random.default_rng(0)
    draws = pd.DataFrame([value(loss.iloc[rng.integers(0, len(loss), len(loss))]) for _ in range(800)])
    errors = draws.sub(draws[0.0], axis=0).std()
    values = value(loss)
    for xi in XIS[1:]:
        assert found.results_.difference[xi] == pytest.approx(values[xi] - values[0.0], abs=1e-12)
        assert found.results_.standard_error[xi] == pytest.approx(errors[xi], rel=0.15)
    table = found.results_
    best = table.objective.idxmin()
    clear = table.difference[best] < -table.standard_error[best]
    assert found.best_xi_ == (best if clear else 0.0)


def test_the_smallest_xi_near_the_best() -> None:
    found = atm.XiSearchCV(atm.NormalLinear(), [0.0, 0.1, 1.0, 3.0], 0.9, one_standard_error=True)
    found.fit(TOWNS[COVARIATES], TOWNS.cmedv, anchors=TOWNS.town)
    table = found.results_
    near = table.index[(table.difference <= table.standard_error) | (table.difference == 0.0)]
    assert table.difference.min() == 0.0
    assert found.best_xi_ == near.min()


def test_the_rule_of_version_0_1_stays_available() -> None:
    found = atm.XiSearchCV(atm.NormalLinear(), XIS, "worst", rule="smallest")
    found.fit(TOWNS[COVARIATES], TOWNS.cmedv, anchors=TOWNS.town)
    nll = found.loeo_.frame().pivot(index="environment", columns="xi", values="nll")
    np.testing.assert_allclose(found.results_.objective, nll.max())
    assert found.best_xi_ == nll.max().idxmin() == 10.0
    cgd = atm.datasets.load_cgd()  # three centres have no event at all
    few = atm.XiSearchCV(atm.ParametricSurvival(), XIS, "worst", rule="smallest")
    few.fit("Surv(tstop, status) ~ treat + age | center", cgd)
    frame = few.loeo_.frame()
    assert (frame.events == 0).any()
    np.testing.assert_allclose(few.results_.objective, frame.groupby("xi").nll.max())
    quick = atm.XiSearchCV(atm.ParametricSurvival(), XIS, 0.1, rule="smallest").fit(
        "Surv(tstop, status) ~ treat + age | center", cgd
    )
    np.testing.assert_allclose(quick.results_.objective, frame.groupby("xi").nll.quantile(0.1))


def test_a_tiny_environment_does_not_decide() -> None:
    """Two far rows of a tiny site ask for a large xi; nobody else does."""
    data = pd.concat([nothing_differs(1), pd.DataFrame({"x": [0.0, 0.0], "y": [9.0, 9.0], "place": [99, 99]})])
    fit = {"X": data[["x"]], "y": data.y, "anchors": data.place}
    old = atm.XiSearchCV(atm.NormalLinear(), [0.0, 30.0], "worst", rule="smallest").fit(**fit)
    new = atm.XiSearchCV(atm.NormalLinear(), [0.0, 30.0], "worst").fit(**fit)
    assert old.best_xi_ == 30.0
    assert old.results_.hardest[0.0] == 99
    assert new.best_xi_ == 0.0
    assert 99 not in new.results_.hardest.tolist()


def test_maximum_likelihood_is_kept_where_nothing_differs() -> None:
    """Always by the mean. A quantile rewards width even there: noise alone makes some sites harder than others."""
    chosen: dict[tuple[str | float, str], list[float]] = {}
    for seed in range(30):
        data = nothing_differs(seed)
        left_out = atm.leave_one_environment_out(atm.NormalLinear(), data[["x"]], data.y, data.place, XIS).frame()
        for objective in ("mean", 0.9, "worst"):
            for rule in ("paired", "smallest"):
                at, _ = Rule.of(objective, rule, False, 10).choose(left_out, ("xi",))
                chosen.setdefault((objective, rule), []).append(at[0])
    kept = {key: float(np.mean(np.array(xis) == 0.0)) for key, xis in chosen.items()}
    assert kept["mean", "paired"] == 1.0
    assert kept[0.9, "paired"] >= 0.5
    assert kept[0.9, "smallest"] <= 0.1
    assert kept["worst", "smallest"] == 0.0


def test_further_finds_in_advance_what_leaving_one_out_cannot() -> None:
    """The outermost places show the gain at a place further out; the verdict is that of the comparison."""
    data, new = hidden_cause(24, 40, 3), hidden_cause(1, 60, 4, level=3.0)
    rows = {"X": data[["x"]], "y": data.y, "anchors": data.place}
    xis = [0.0, 1.0, 3.0, 10.0]
    like = atm.XiSearchCV(atm.NormalLinear(), xis, "mean").fit(**rows)
    far = atm.XiSearchCV(atm.NormalLinear(), xis, design="further", new=new[["x"]]).fit(**rows)
    assert like.best_xi_ == 0.0
    assert far.best_xi_ > 0.0
    loss = [m.nll(new[["x"]], new.y).mean() for m in (like.best_estimator_, far.best_estimator_)]
    assert loss[1] < loss[0] - 0.3
    compared = atm.compare_strategies(
        atm.NormalLinear(),
        data[["x"]],
        data.y,
        data.place,
        design="further",
        new=new[["x"]],
        strategies=[atm.strategies.Anchored(choose=xis)],
        progress=False,
    ).verdict.further
    assert (far.verdict_.xi, far.verdict_.confidence) == (compared.xi, compared.confidence)
    pd.testing.assert_frame_equal(far.verdict_.folds, compared.folds)
    folds = far.results_[["same 15%", "same 30%", "other 15%", "other 30%"]]
    np.testing.assert_allclose(far.results_.objective, folds.mean(axis=1))
    gain = folds.loc[0.0] - folds.loc[far.best_xi_]
    np.testing.assert_allclose(gain, far.verdict_.folds.gain, atol=1e-12)
    assert "further out" in repr(far)
    assert not hasattr(far, "loeo_")
    ax = far.plot()
    assert ax.get_ylabel().endswith("outermost environments")


def test_further_by_formula_and_without_new_rows() -> None:
    data = hidden_cause(24, 40, 3)
    far = atm.XiSearchCV(atm.NormalLinear(), [0.0, 3.0], design="further").fit("y ~ x | place", data)
    same = atm.XiSearchCV(atm.NormalLinear(), [0.0, 3.0], design="further").fit(data[["x"]], data.y, anchors=data.place)
    pd.testing.assert_frame_equal(far.results_, same.results_)
    assert list(far.results_)[2:] == ["high 15%", "high 30%", "low 15%", "low 30%"]
    smallest = atm.XiSearchCV(atm.NormalLinear(), [0.0, 3.0], design="further", rule="smallest").fit(
        "y ~ x | place", data
    )
    assert smallest.best_xi_ == far.results_.objective.idxmin()


def test_grids_keep_the_smallest_xi_without_evidence() -> None:
    data = nothing_differs(5)
    rng = np.random.default_rng(0)
    X = np.column_stack([data.x, rng.normal(size=(len(data), 8))])
    found = atm.ElasticNetCV(atm.NormalLinear(), [0.0, 3.0], n_lambdas=5).fit(X, data.y, anchors=data.place)
    assert found.best_xi_ == 0.0
    assert found.best_lambda_ == found.results_.objective.xs(0.0, level="xi").idxmin()
    near = atm.ElasticNetCV(atm.NormalLinear(), [0.0, 3.0], n_lambdas=5, one_standard_error=True)
    near.fit(X, data.y, anchors=data.place)
    within = near.results_.index[near.results_.difference <= near.results_.standard_error]
    assert near.best_lambda_ == max(at[0] for at in within)


def test_the_score_test_warns_of_over_identification_and_says_what_it_costs() -> None:
    data = hidden_cause(3, 100, 1)
    free = atm.xi_by_score_test(atm.NormalLinear(), data[["x"]], data.y, data.place, cost=True)
    assert (free.directions, free.parameters) == (3, 3)
    assert free.cost is not None
    at = free.cost.summary().loc[free.xi]
    assert f"{abs(at.regret):.3g} (standard error {at.se:.2g})" in repr(free)
    by_hand = atm.leave_one_environment_out(atm.NormalLinear(), data[["x"]], data.y, data.place, [0.0, free.xi])
    assert at.regret == pytest.approx(by_hand.summary().regret[free.xi])
    more = hidden_cause(12, 60, 2)
    with pytest.warns(AnchorTMWarning, match="over-identify the model: they have 12 directions and the model 3 free"):
        rule = atm.xi_by_score_test(atm.NormalLinear(), "y ~ x | place", more, cost=True)
    assert rule.cost is None or rule.cost.summary().index.tolist() == [0.0, rule.xi]


def test_refusals(tmp_path) -> None:
    data = hidden_cause(9, 20, 1)
    data.to_parquet(tmp_path / "rows.parquet")
    rows = {"X": data[["x"]], "y": data.y, "anchors": data.place}
    few = data[data.place < 7]
    further = {"design": "further"}
    piped = atm.make_pipeline(StandardScaler(), atm.NormalLinear())
    for call, message in (
        (
            lambda: atm.XiSearchCV(atm.NormalLinear(), XIS, rule="best").fit(**rows),
            "rule must be 'paired' or 'smallest'",
        ),
        (
            lambda: atm.XiSearchCV(atm.NormalLinear(), XIS, design="far").fit(**rows),
            "design must be 'like' or 'further'",
        ),
        (lambda: atm.XiSearchCV(atm.NormalLinear(), XIS, min_rows=0).fit(**rows), "min_rows"),
        (
            lambda: atm.XiSearchCV(atm.NormalLinear(), XIS, **further).fit(few[["x"]], few.y, anchors=few.place),
            "there are 7 environments: design='further' needs at least 8",
        ),
        (
            lambda: atm.XiSearchCV(atm.NormalLinear(), XIS, **further).fit("y ~ x | place", tmp_path / "rows.parquet"),
            "needs the rows in memory",
        ),
        (lambda: atm.XiSearchCV(piped, XIS, **further).fit(**rows), "models without trees and transformers"),
        (
            lambda: atm.XiSearchCV(atm.NormalLinear(), XIS, **further, new=data[["x"]][:0]).fit(**rows),
            "new has no rows",
        ),
    ):
        with pytest.raises(InputError, match=message):
            call()
