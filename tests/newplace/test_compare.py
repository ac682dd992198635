"""Comparisons of strategies: nested, paired, and against fits by hand."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from place_worlds import world
from scipy import stats

import anchortm as atm
from anchortm.exceptions import ModelFileError
from anchortm.newplace.comparison import Comparison
from anchortm.newplace.paired import paired
from anchortm.selection.designs import Direction, further
from anchortm.selection.paired_choice import choose, objective_of
from anchortm.selection.places import Places

FORMULA = "rating ~ temp + contact | judge"


def small(**options):
    data = atm.datasets.load_wine()
    return atm.compare_strategies(atm.OrdinalRegression(), FORMULA, data, progress=False, **options)


@pytest.fixture(scope="module")
def wine():
    return small(strategies=["equal", "widened", "anchored", "anchored+spread", atm.strategies.Anchored(3.0)])


def test_likelihoods_of_untuned_strategies_are_those_of_fits_by_hand(wine):
    data = atm.datasets.load_wine()
    frame = wine.frame().query("design == 'like'").set_index(["strategy", "environment"])
    for judge in (1, 7):
        inside, outside = data[data.judge != judge], data[data.judge == judge]
        for name, formula, xi in (("ml", FORMULA, 0.0), ("anchored(3)", FORMULA, 3.0), ("null", "rating ~ 1", 0.0)):
            model = atm.OrdinalRegression.from_formula(formula, inside, xi=xi)
            assert frame.loc[(name, judge), "nll"] == pytest.approx(model.nll(outside).mean(), abs=1e-7)


def test_scores_fit_together(wine):
    frame = wine.frame()
    by = ["design", "side", "share", "environment"]
    ml, null = (frame[frame.strategy == name].set_index(by).nll for name in ("ml", "null"))
    own = frame[frame.strategy == "anchored"].set_index(by)
    np.testing.assert_allclose(own.skill, null.loc[own.index] - own.nll, atol=1e-12)
    np.testing.assert_allclose(own.regret, own.nll - ml.loc[own.index], atol=1e-12)
    wider = frame[(frame.strategy == "widened") & (frame.regret.abs() > 1e-3)]
    np.testing.assert_allclose(wider.spread, 1.0, atol=1e-9)  # its change is one of width, by construction
    assert (frame[frame.strategy == "ml"].factor == 1.0).all()


def test_equal_weights_of_environments_are_sample_weights():
    data = atm.datasets.load_grouseticks()
    model, formula = atm.CountRegression(), "TICKS ~ cHEIGHT | YEAR"
    found = atm.compare_strategies(model, formula, data, strategies=["equal"], design="like")
    frame = found.frame().set_index(["strategy", "environment"])
    year = data.YEAR.iloc[0]
    inside, outside = data[year != data.YEAR], data[year == data.YEAR]
    sizes = inside.groupby("YEAR").YEAR.transform("size")
    weights = len(inside) / (inside.YEAR.nunique() * sizes)
    fitted = atm.CountRegression.from_formula(formula, inside, sample_weight=weights)
    assert frame.loc[("equal", year), "nll"] == pytest.approx(fitted.nll(outside).mean(), abs=1e-7)


@pytest.mark.parametrize("design", ["like", "further"])
def test_nothing_that_is_tuned_depends_on_the_left_out_outcomes(design):
    """With one covariate the order of the places is that of its means, whatever the size of the positive slope."""
    data = world("hidden cause", 10, 12, 3)
    far = data.groupby("place").x.mean().idxmax()
    changed = data.assign(y=np.where(data.place == far, 3.0 + 2.0 * data.y, data.y))
    chosen = ["widened", "anchored", "anchored+spread"]
    both = []
    for table in (data, changed):
        found = atm.compare_strategies(atm.NormalLinear(), "y ~ x | place", table, design=design, strategies=chosen)
        both.append(found.frame())
    facts = ["strategy", "side", "share", "environment"]
    pd.testing.assert_frame_equal(both[0][facts], both[1][facts])  # the same places are left out
    without = both[0].environment == far if design == "like" else both[0].side == "high"
    assert (both[0].environment[without] == far).any()
    tuned = [one.loc[without, ["xi", "factor"]] for one in both]
    pd.testing.assert_frame_equal(*tuned, rtol=1e-9)
    elsewhere = without & (both[0].environment != far)  # of a fold with this place: the same predictions
    np.testing.assert_allclose(*(one.nll[elsewhere] for one in both), rtol=1e-9)
    assert not np.allclose(*(one.factor[~without] for one in both))  # where it is in training, it counts


def test_sign_flips_are_those_of_all_sign_vectors():
    rng = np.random.default_rng(0)
    d = rng.normal(0.4, 1.0, (3, 8))
    found = paired(d)
    t = np.abs([stats.ttest_1samp(row, 0.0).statistic for row in d])
    largest = []
    for signs in itertools.product([-1.0, 1.0], repeat=8):
        flipped = d * np.array(signs)
        largest.append(max(abs(stats.ttest_1samp(row, 0.0).statistic) for row in flipped))
    expected = [(np.array(largest) >= value - 1e-9).mean() for value in t]
    np.testing.assert_allclose(found.pvalue, expected)
    np.testing.assert_allclose(found.error, d.std(axis=1, ddof=1) / np.sqrt(8))


def test_p_values_are_uniform_under_random_signs():
    rng = np.random.default_rng(1)
    pvalues = [paired(rng.normal(size=(1, 30)), seed=k).pvalue[0] for k in range(200)]
    assert stats.kstest(pvalues, "uniform").pvalue > 0.01


def test_few_environments_have_no_p_value():
    assert np.isnan(paired(np.ones((1, 5)) + np.arange(5)).pvalue).all()


def test_another_candidate_must_be_better_by_a_standard_error():
    rng = np.random.default_rng(2)
    base = rng.normal(size=40)
    every = np.ones(40, dtype=bool)
    clear = np.array([base, base - 0.5 + 0.1 * rng.normal(size=40)])
    assert choose(clear, every, None).taken == 1
    unclear = np.array([base, base - 0.01 + 0.5 * rng.normal(size=40)])
    found = choose(unclear, every, None)
    assert (found.taken, found.errors[1]) == (0, pytest.approx(0.5 / np.sqrt(40), rel=0.3))


def test_small_environments_do_not_decide_quantiles():
    losses, ranked = np.array([[0.0, 1.0, 50.0]]), np.array([True, True, False])
    assert objective_of(losses, ranked, 1.0)[0] == 1.0
    assert objective_of(losses, ranked, None)[0] == 17.0


def test_the_outermost_places_are_left_out():
    data = world("hidden cause", 20, 5, 0)
    problem = atm.NormalLinear().problem(data[["x"]], data.y, anchors=data.place)
    places = Places(problem, data.place.to_numpy(), np.arange(20), [0.0])
    folds = further(places, Direction("", np.arange(20.0), new=30.0))
    found = {(fold.side, fold.share): sorted(fold.out) for fold in folds}
    assert found == {
        ("same", 0.15): [17, 18, 19],
        ("same", 0.3): [14, 15, 16, 17, 18, 19],
        ("other", 0.15): [0, 1, 2],
        ("other", 0.3): [0, 1, 2, 3, 4, 5],
    }


def test_tables(wine):
    table = wine.table()
    assert table.strategy.tolist()[:3] == ["null", "ml", "equal"]
    assert set(table.design) == {"like", "further"}
    row = table[(table.design == "like") & (table.strategy == "anchored")].iloc[0]
    frame = wine.frame().query("design == 'like'")
    regret = frame[frame.strategy == "anchored"].regret
    assert row.difference == pytest.approx(regret.mean())
    assert row.se == pytest.approx(regret.sem())
    assert 0.0 < row.p <= 1.0
    for text in (repr(wine), wine._repr_html_()):
        assert "aximum likelihood" in text


def test_saved_and_loaded(wine, tmp_path):
    wine.save(tmp_path / "found.json")
    loaded = Comparison.load(tmp_path / "found.json")
    assert repr(loaded) == repr(wine)
    pd.testing.assert_frame_equal(loaded.frame(), wine.frame())
    whole = json.loads((tmp_path / "found.json").read_text())
    odd = [whole | {"rows": []}, whole | {"rows": [{"design": "like"}]}]
    for text in (
        *map(json.dumps, odd),
        "{}",
        "[]",
        "no json",
        '{"format": "other"}',
        '{"format": "anchortm comparison 1", "rows": 3}',
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ModelFileError, match="comparison of strategies"):
            Comparison.load(tmp_path / "bad.json")


def test_the_verdict_names_what_it_rests_on():
    data, new = world("hidden cause", 24, 30, 5), world("hidden cause", 1, 50, 6, level=3.0)
    found = atm.compare_strategies(
        atm.NormalLinear(), "y ~ x | place", data, design="further", new=new, strategies=["anchored"]
    )
    verdict = found.verdict.further
    assert (verdict.strategy, verdict.confidence) == ("anchored", "confident")
    assert verdict.folds.side.tolist() == ["same", "same", "other", "other"]
    assert 2.0 < verdict.distance < 4.5
    assert (verdict.folds.gain > 0.01).all()
    assert "all 4 folds gain" in found.verdict.sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "places", "least", "most"),
    [
        ("hidden cause", 40, 0.85, 1.0),
        ("hidden cause", 16, 0.65, 1.0),
        ("noise differs", 16, 0.0, 0.15),
        ("noise differs", 40, 0.0, 0.15),
        ("random intercepts", 16, 0.0, 0.1),
        ("nothing", 16, 0.0, 0.1),
        ("random intercepts", 40, 0.0, 0.1),
        ("nothing", 40, 0.0, 0.1),
    ],
)
def test_verdicts_in_worlds_whose_truth_is_known(kind, places, least, most):
    found = []
    for seed in range(100):
        data, new = world(kind, places, 40, seed), world(kind, 1, 200, 1000 + seed, level=3.0)
        comparison = atm.compare_strategies(
            atm.NormalLinear(), "y ~ x | place", data, design="further", new=new, strategies=["anchored"]
        )
        found.append(comparison.verdict.further)
    assert least <= np.mean([one.strategy == "anchored" for one in found]) <= most
    if kind == "noise differs":
        assert np.mean([one.confidence == "confident" for one in found]) <= 0.03


@pytest.mark.slow
def test_anchoring_beats_widening_at_the_new_place_where_it_is_the_verdict():
    gains = []
    for seed in range(30):
        data, new = world("hidden cause", 40, 40, seed), world("hidden cause", 1, 200, 1000 + seed, level=3.0)
        found = atm.compare_strategies(
            atm.NormalLinear(), "y ~ x | place", data, new=new, strategies=["widened", "anchored"]
        )
        assert found.verdict.like == "ml"
        if found.verdict.further.strategy == "anchored":
            anchored = atm.NormalLinear.from_formula("y ~ x | place", data, xi=found.verdict.further.xi)
            ml = atm.NormalLinear.from_formula("y ~ x | place", data)
            wider = ml.calibrate_spread("y ~ x | place", data)
            gains.append([anchored.nll(new).mean() - ml.nll(new).mean(), wider.nll(new).mean() - ml.nll(new).mean()])
    mean = np.mean(gains, axis=0)
    assert len(gains) >= 25
    assert mean[0] < mean[1] < 0.3
    assert mean[0] < -0.5


def test_skill_does_not_measure_the_share_of_events():
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        e = np.repeat(np.arange(14), 40)
        x = rng.normal(size=e.size)
        time = np.exp(0.5 * x + rng.gumbel(size=e.size)) * 100.0
        censored = rng.exponential(1.0, e.size) * np.exp(rng.normal(0.0, 1.0, 14))[e] * 200.0
        data = pd.DataFrame({"x": x, "time": np.minimum(time, censored), "event": time <= censored, "site": e})
        found = atm.compare_strategies(
            atm.ParametricSurvival(dist="weibull"), "Surv(time, event) ~ x | site", data, design="like", strategies=[]
        )
        frame = found.frame().query("strategy == 'ml'")
        share = frame.events / frame.n
        shares.append([np.corrcoef(share, frame.skill)[0, 1], np.corrcoef(share, frame.nll)[0, 1]])
    skill, nll = np.mean(shares, axis=0)
    assert abs(skill) < 0.5
    assert nll > 0.9


def test_skill_does_not_depend_on_the_unit_of_time():
    data = atm.datasets.load_cgd()
    model, formula = atm.ParametricSurvival(dist="weibull"), "Surv(tstop, status) ~ treat + age | center"
    days, years = (
        atm.compare_strategies(model, formula, table, design="like", strategies=["widened"]).frame()
        for table in (data, data.assign(tstop=data.tstop / 365.25))
    )
    np.testing.assert_allclose(days.skill, years.skill, atol=1e-6)
    assert abs(days.nll - years.nll).max() > 1.0


def test_a_failed_fold_is_noted_and_the_others_go_on():
    data = atm.datasets.load_wine().assign(odd=lambda d: (d.judge == 3) & (d.bottle % 2 == 0))
    found = atm.compare_strategies(
        atm.OrdinalRegression(), "rating ~ temp + odd | judge", data, design="like", strategies=["widened"]
    )
    frame = found.frame()
    assert frame.note[frame.environment != 3].eq("").all()
    assert frame.note[(frame.environment == 3) & (frame.strategy == "ml")].str.contains("without odd").all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "near"}, "design must be 'like', 'further' or both"),
        ({"design": []}, "design must be"),
        ({"strategies": ["best"]}, "is not a strategy"),
        ({"strategies": [3.0]}, "is not a strategy"),
        ({"min_rows": 0}, "min_rows"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"environments": "nowhere"}, "nowhere"),
        ({"new": pd.DataFrame({"other": [1.0]})}, "temp"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        small(**options)


def test_too_few_environments():
    data = atm.datasets.load_wine()
    few = data[data.judge < 6]
    model = atm.OrdinalRegression()
    assert set(atm.compare_strategies(model, FORMULA, few, strategies=["equal"]).frame().design) == {"like"}
    with pytest.raises(ValueError, match="at least 8"):
        atm.compare_strategies(model, FORMULA, few, strategies=["equal"], design="further")
    with pytest.raises(ValueError, match="needs at least 3"):
        atm.compare_strategies(model, FORMULA, data[data.judge < 3], strategies=["equal"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"xi": 1.0, "choose": [1.0]}, "either xi"), ({"objective": 2.0}, "objective"), ({"choose": [-3.0, "a"]}, "xi")],
)
def test_bad_strategies(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        atm.strategies.Anchored(**arguments)


def test_plot(wine):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = wine.plot()
    assert "maximum likelihood" in ax.get_xlabel()
    assert ax.get_ylabel() == "left-out environment (rows)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "widened",
        "anchored",
        "too small to be ranked",
    ]
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="strategies must be some of"):
        wine.plot(strategies=["other"])


def test_the_plot_names_the_largest_gains_and_losses():
    """If there are many environments; a dollar sign in a name is a dollar sign."""
    plt = pytest.importorskip("matplotlib.pyplot")
    names = [f"place $ {k} $" for k in range(60)]
    regret = np.linspace(-2.0, 1.0, 60)
    rows = {"design": "like", "strategy": "widened", "environment": names, "regret": regret, "regret_se": 0.1}
    ax = atm.plotting.gains(pd.DataFrame(rows | {"n": 20.0, "ranked": True}), label=1)
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == ["place $ 0 $ (20)", "place $ 59 $ (20)"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["widened"]
    plt.close(ax.figure)


def test_the_verdict_tries_an_xi_that_was_given() -> None:
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(20), 30)
    hidden = rng.normal(size=place.size)
    x = rng.normal(size=20)[place] + hidden + 0.5 * rng.normal(size=place.size)
    y = 0.3 * x + 1.5 * hidden + rng.normal(size=place.size)
    options = {"design": "further", "new": np.full((5, 1), 4.0), "progress": False}
    found = atm.compare_strategies(
        atm.NormalLinear(), x[:, None], y, place, strategies=[atm.strategies.Anchored(3.0)], **options
    )
    frame = found.frame()
    regret = frame[frame["strategy"] == "anchored(3)"].groupby(["side", "share"], sort=False)["regret"].mean()
    assert found.verdict.further.xi == 3.0
    assert found.verdict.further.folds["gain"].to_numpy() == pytest.approx(-regret.to_numpy(), abs=1e-6)


def test_a_fold_that_failed_is_no_gain():
    from anchortm.selection.further import graded

    gain, wider = np.array([0.2, 0.3, 0.1, 0.2]), np.full(4, 0.05)
    same = np.array([True, True, False, False])
    assert graded(gain, wider, same, 3.0) == "confident"
    assert graded(gain[:3], wider[:3], same[:3], 3.0) == "tentative"
    assert graded(gain[1:], wider[1:], same[1:], 3.0) == "keep"
    assert graded(gain[1:], wider[1:], np.zeros(3, dtype=bool), 3.0) == "keep"
    assert graded(gain, wider, same, 0.0) == "keep"
