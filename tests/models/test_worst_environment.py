"""WorstEnvironment: against a slow implementation, a conic solver, weighted fits, and its identities."""

from __future__ import annotations

import json
import math
import pickle
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from robust_problems import PROBLEMS, problem
from scipy import optimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, ModelFileError
from anchortm.saving import digest

KNOWN = json.loads((REFERENCE / "robust" / "risks.json").read_text())
WINE = "rating ~ temp + contact | judge"
BOSTON = "cmedv ~ rm + lstat | town"
few_rows = pytest.mark.filterwarnings("ignore:the environments that decide have")


@pytest.fixture(scope="module")
def boston() -> pd.DataFrame:
    return atm.datasets.load_boston_housing2()


@pytest.fixture(scope="module")
def wine() -> pd.DataFrame:
    return atm.datasets.load_wine()


@few_rows
@pytest.mark.filterwarnings("ignore:shares of exact rows")
@pytest.mark.parametrize("name", PROBLEMS)
def test_reference(name: str) -> None:
    model, X, y, places = problem(name, KNOWN[name])
    sign = -1.0 if name == "cgd_cox" else 1.0  # of the reference, h - x'beta
    asked: tuple[dict[str, Any], ...] = ({"reference": None}, {"risk": "cvar", "share": 0.2, "reference": None}, {})
    for known, options in zip(KNOWN[name]["worst"], asked, strict=True):
        fit = atm.WorstEnvironment(model, **options).fit(X, y, environments=places)
        assert fit.converged_
        assert fit.loss_ == pytest.approx(known["value"], abs=1e-9)
        assert fit.duality_gap_ < 1e-9
        np.testing.assert_allclose(np.append(fit.baseline_, sign * fit.coef_), known["w"], atol=1e-6)
        weights = np.zeros(len(KNOWN[name]["n_e"]))
        weights[[int(e) for e in known["lam"]]] = list(known["lam"].values())
        np.testing.assert_allclose(fit.environment_multipliers_, weights, atol=1e-6)
    np.testing.assert_allclose(fit.decisive_.offsets, KNOWN[name]["own_shift"], atol=1e-9)


@pytest.mark.parametrize("share", [None, 0.4])
def test_the_linear_model_is_that_of_a_conic_solver(share: float | None) -> None:
    rng = np.random.default_rng(5)
    site = rng.integers(0, 10, 200)
    X = rng.normal(size=(200, 3)) + rng.normal(size=(10, 3))[site]
    y = X @ [1.0, -0.5, 0.2] + rng.normal(size=10)[site] + rng.normal(size=200) * (1.0 + 0.1 * site)
    risk = "worst" if share is None else "cvar"
    fit = atm.WorstEnvironment(atm.NormalLinear(), risk, share, reference=None).fit(X, y, environments=site)
    a, b, beta, t, z = cp.Variable(), cp.Variable(), cp.Variable(3), cp.Variable(), cp.Variable(10, nonneg=True)
    r = a + b * y - X @ beta
    held = [
        0.5 * cp.sum_squares(r[site == e]) / (site == e).sum() - cp.log(b) + 0.5 * math.log(2.0 * math.pi) <= t + z[e]
        for e in range(10)
    ]
    cap = 1.0 if share is None else 0.1 / share
    value = cp.Problem(cp.Minimize(t + cap * cp.sum(z)), held).solve(solver=cp.CLARABEL)
    assert fit.loss_ < value + 1e-8
    assert fit.loss_ == pytest.approx(value, abs=1e-6)  # the solver's own tolerance
    assert abs(fit.duality_gap_) < 1e-12
    np.testing.assert_allclose(fit.coef_, beta.value, atol=1e-4)


@few_rows
def test_the_fit_is_a_likelihood_fit_with_the_multipliers_as_weights(wine: pd.DataFrame) -> None:
    fit = atm.WorstEnvironment(atm.OrdinalRegression()).fit(WINE, wine)
    weights = fit.environment_multipliers_
    rows = wine.judge.map(weights).to_numpy() * len(wine) / wine.groupby("judge").judge.transform("size")
    weighted = atm.OrdinalRegression().fit("rating ~ temp + contact", wine, sample_weight=rows)
    np.testing.assert_allclose(weighted.coef_, fit.coef_, rtol=1e-6)
    values = fit.decisive_.values
    np.testing.assert_allclose(values[weights > 0.0], fit.loss_, rtol=1e-9)
    assert (values <= fit.loss_ + 1e-9).all()
    # the losses are those of the model, and the references those of a shift of the maximum-likelihood fit
    own = pd.Series(fit.nll(wine)).groupby(wine.judge.to_numpy()).mean().to_numpy()
    np.testing.assert_allclose(own - fit.decisive_.offsets, values, rtol=1e-9)
    ml = atm.OrdinalRegression().fit(WINE, wine)
    theirs = (wine.judge == wine.judge.iloc[0]).to_numpy()

    def nll(shift: float) -> float:
        return float(_moved(ml, shift).nll(atm.Formula(WINE, wine).X[theirs], wine.rating[theirs]).mean())

    best = optimize.minimize_scalar(nll, (-1.0, 1.0), options={"xtol": 1e-10})
    assert fit.decisive_.offsets[0] == pytest.approx(best.fun, abs=1e-9)


def _moved(model: Any, shift: float) -> Any:
    """Return a fitted model with another level of h."""
    return model.with_result(None, replace(model.result_, baseline=model.baseline_ + shift))


def test_all_rows_with_a_share_of_1_is_maximum_likelihood(boston: pd.DataFrame) -> None:
    worst = atm.WorstEnvironment(atm.ContinuousProbit(), "cvar", 1.0, None, weights="rows").fit(BOSTON, boston)
    ml = atm.ContinuousProbit().fit(BOSTON, boston)
    np.testing.assert_allclose(worst.coef_, ml.coef_, rtol=1e-7)
    assert worst.loss_ == pytest.approx(ml.loss_, rel=1e-10)
    assert worst.loglik_ == pytest.approx(ml.loglik_, rel=1e-10)


@few_rows
def test_copies_of_the_rows_of_one_place_change_nothing(wine: pd.DataFrame) -> None:
    plain = atm.WorstEnvironment(atm.OrdinalRegression(), reference="null").fit(WINE, wine)
    decides = plain.environment_multipliers_.idxmax()
    weight = np.where(wine.judge.astype(str) == str(decides), 3.0, 1.0)
    # the reference of a place is that of the model without covariates, which the copies move: leave it out
    one, two, three = (
        atm.WorstEnvironment(atm.OrdinalRegression(), reference=None).fit(WINE, rows, **more)
        for rows, more in (
            (wine, {}),
            (wine, {"sample_weight": weight}),
            (wine.loc[np.repeat(wine.index, weight.astype(int))], {}),
        )
    )
    for other in (two, three):
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-8)
        assert other.loss_ == pytest.approx(one.loss_, rel=1e-10)


@few_rows
def test_the_unit_of_time_matters_without_a_reference_only() -> None:
    data = atm.datasets.load_cgd()
    formula = "Surv(tstop, status) ~ treat + age + propylac | center"
    years = data.assign(tstop=data.tstop / 365.25)
    for reference in ("own-shift", "null", None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fits = [
                atm.WorstEnvironment(
                    atm.ProportionalHazards(order=3, log_first=True, support=(5.0 / unit, 300.0 / unit)),
                    reference=reference,  # type: ignore[arg-type]
                ).fit(formula, table)
                for unit, table in ((1.0, data), (365.25, years))
            ]
        warned = sum("depend on the unit" in str(w.message) for w in caught)
        same = np.allclose(fits[0].coef_, fits[1].coef_, rtol=1e-5)
        assert (same, warned) == ((False, 2) if reference is None else (True, 0))


def test_small_places_are_taken_together(boston: pd.DataFrame) -> None:
    fit = atm.WorstEnvironment(atm.NormalLinear(), min_rows=10).fit(BOSTON, boston)
    small = boston.groupby("town").town.transform("size") < 10
    pooled = boston.assign(town=np.where(small, "others", boston.town))
    again = atm.WorstEnvironment(atm.NormalLinear()).fit(BOSTON, pooled)
    np.testing.assert_allclose(again.coef_, fit.coef_, rtol=1e-8)
    assert again.loss_ == pytest.approx(fit.loss_, rel=1e-9)
    assert fit.environment_multipliers_.index[-1] == "places with fewer than 10 rows"
    with pytest.warns(AnchorTMWarning, match="a few outcomes decide"):
        atm.WorstEnvironment(atm.NormalLinear()).fit(BOSTON, boston)


CASES = {
    "ordinal": (atm.OrdinalRegression(), "grade ~ x + z | site"),
    "counts": (atm.CountRegression(order=3), "count ~ x + z | site"),
    "poisson": (atm.AnchorGLM(family="poisson"), "count ~ x + z | site"),
    "binomial": (atm.AnchorGLM(family="binomial"), "yes ~ x + z | site"),
    "strata": (atm.ContinuousProbit(order=3), "y | part ~ x + z | site"),
    "curves": (atm.NormalLinear(smooth=0.05), "y ~ x + s(v, 4) | site"),
    "ridge": (atm.ContinuousLogit(order=3, l2=0.1), "y ~ x + z | site"),
    "varying": (atm.ContinuousProbit(order=3, varying="z"), "y ~ x + z | site"),
    "delayed": (atm.ParametricSurvival(), "Surv(time, event, entry) ~ x + z | site"),
    "intervals": (atm.ContinuousLogit(order=3), "Interval(low, high) ~ x + z | site"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_model(case: str, tmp_path: Path) -> None:
    """The worst loss is below that of other fits, and files, pickles and copies predict the same."""
    from parts_cases import table

    model, formula = CASES[case]
    data = table().assign(site=table().home)
    fit = atm.WorstEnvironment(model).fit(formula, data)
    assert fit.converged_
    assert fit.kkt_ < 1e-8
    assert math.isnan(fit.duality_gap_) if case == "delayed" else fit.duality_gap_ < 1e-9
    places = data.site.to_numpy()

    def largest(nll: Any) -> float:
        return float((pd.Series(np.asarray(nll)).groupby(places).mean() - fit.decisive_.offsets).max())

    if case not in ("curves", "ridge"):  # whose loss has a penalty as well
        assert largest(fit.nll(data)) == pytest.approx(fit.loss_, rel=1e-8)
    else:
        assert largest(fit.nll(data)) < fit.loss_
    ml = clone(model).fit(formula, data)
    assert largest(fit.nll(data)) <= largest(ml.nll(data)) + 1e-9
    for same in (pickle.loads(pickle.dumps(fit)), atm.load(atm.save(fit, tmp_path / "m.json"))):  # noqa: S301
        np.testing.assert_array_equal(same.nll(data), fit.nll(data))
        np.testing.assert_array_equal(same.predict(data), fit.predict(data))
        pd.testing.assert_series_equal(same.environment_multipliers_, fit.environment_multipliers_)
        assert str(same.summary()) == str(fit.summary())
        assert type(same) is atm.WorstEnvironment
    assert type(fit.model_) is type(model)
    assert fit.predict_distribution(data[:3]).cdf(1.0).shape == (3,)


def test_rows_in_batches_give_the_same_fit(boston: pd.DataFrame, tmp_path: Path) -> None:
    boston.to_parquet(tmp_path / "boston.parquet")
    options = {"min_rows": 10}
    one = atm.WorstEnvironment(atm.ContinuousLogit(support=(12.0, 35.0)), **options).fit(BOSTON, boston)
    two = atm.WorstEnvironment(atm.ContinuousLogit(support=(12.0, 35.0)), **options).fit(
        BOSTON, tmp_path / "boston.parquet"
    )
    assert two.loss_ == pytest.approx(one.loss_, rel=1e-10)
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-7)
    pd.testing.assert_series_equal(two.environment_multipliers_, one.environment_multipliers_, atol=1e-7)


@few_rows
def test_questions(wine: pd.DataFrame) -> None:
    """Left-out places are those of fits by hand; the bootstrap, a new place and intervals answer."""
    model = atm.WorstEnvironment(atm.OrdinalRegression())
    found = atm.leave_one_environment_out(model, WINE, wine, xis=[0.0]).frame()
    for row in found.itertuples():
        out = (wine.judge.astype(str) == str(row.environment)).to_numpy()
        assert row.nll == pytest.approx(model.fit(WINE, wine[~out]).nll(wine[out]).mean(), rel=1e-7)
    fit = clone(model).fit(WINE, wine)
    with pytest.warns(AnchorTMWarning, match="9 clusters"):
        draws = fit.bootstrap(4, random_state=0).draws
    assert draws.shape == (4, 6)
    assert fit.place_sd_ >= 0.0
    assert fit.widened(1.5).predict_proba(wine[:2]).shape == (2, 5)
    assert fit.recalibrate(wine[:5], what="shift", prior=0.5).recalibration_.rows == 5
    assert set(fit.get_params()) >= {"risk", "share", "reference", "model__xi", "min_rows"}
    by_hand = atm.WorstEnvironment(atm.OrdinalRegression()).fit(
        *(atm.Formula(WINE, wine).X, wine.rating), environments=wine.judge
    )
    np.testing.assert_allclose(by_hand.coef_, fit.coef_, rtol=1e-10)


def test_strategy(wine: pd.DataFrame) -> None:
    """The strategy sees the training places only: its losses are those of fits by hand."""
    found = atm.compare_strategies(
        atm.OrdinalRegression(), WINE, wine, design="like", strategies=["worst"], scores=[], min_rows=5
    ).frame()
    own = found[found.strategy == "worst"]
    assert len(own) == 9
    model = atm.WorstEnvironment(atm.OrdinalRegression(), min_rows=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        for row in own.itertuples():
            out = (wine.judge.astype(str) == str(row.environment)).to_numpy()
            assert row.nll == pytest.approx(model.fit(WINE, wine[~out]).nll(wine[out]).mean(), rel=1e-7)
    with pytest.raises(InputError, match="share"):
        atm.strategies.WorstEnvironment("cvar")


def test_what_cannot_be_asked(boston: pd.DataFrame, wine: pd.DataFrame, tmp_path: Path) -> None:
    rows = boston[["rm", "lstat"]], boston.cmedv
    model = atm.NormalLinear()
    for options, message in (
        ({"risk": "mean"}, "risk must be one of"),
        ({"reference": "other"}, "reference must be one of"),
        ({"weights": "some"}, "weights must be one of"),
        ({"share": 0.5}, "share is for risk='cvar'"),
        ({"risk": "cvar"}, "needs a share"),
        ({"risk": "cvar", "share": 1.5}, "needs a share"),
        ({"min_rows": 0}, "min_rows"),
    ):
        with pytest.raises(InputError, match=message):
            atm.WorstEnvironment(model, **options).fit(*rows, environments=boston.town)
    worst = atm.WorstEnvironment(model)
    with pytest.raises(InputError, match="needs environments"):
        worst.fit(*rows)
    with pytest.raises(InputError, match="one factor"):
        worst.fit(*rows, environments=boston.crim.astype(float))
    with pytest.raises(InputError, match="takes its environments as anchors"):
        worst.fit(*rows, anchors=boston.tract.astype(str), environments=boston.town)
    for bad in (None, atm.NormalLinear):
        with pytest.raises(InputTypeError, match="estimator of this package"):
            atm.WorstEnvironment(bad).fit(*rows, environments=boston.town)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reference must be one of"):
        atm.WorstEnvironment(model, reference=np.ones(2)).fit(*rows, environments=boston.town)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pass the model inside it"):
        atm.compare_strategies(worst, BOSTON, boston)
    with pytest.raises(InputError, match="of the inner model"):
        atm.WorstEnvironment(atm.NormalLinear(1.0)).fit(*rows, environments=boston.town)
    with pytest.raises(InputError, match="has no xi"):
        atm.leave_one_environment_out(worst, *rows, boston.town, xis=[0.0, 1.0])
    with pytest.raises(InputTypeError, match="estimator of this package"):
        atm.WorstEnvironment(worst).fit(*rows, environments=boston.town)
    for bad, message in (
        (atm.CoxPH(), "partial likelihood"),
        (atm.NormalLinear(scale="rm"), "a single scale"),
        (atm.NormalLinear(l1=0.1), "use l2"),
        (atm.NormalLinear(tail=0.5), "tail changes the anchor penalty"),
    ):
        y = atm.Surv(boston.cmedv, boston.cmedv < 50) if isinstance(bad, atm.CoxPH) else boston.cmedv
        with pytest.raises((InputError, InputTypeError), match=message):
            atm.WorstEnvironment(bad).fit(boston[["rm", "lstat"]], y, environments=boston.town)
    with pytest.raises(InputError, match="dispersion"):
        atm.WorstEnvironment(atm.AnchorGLM(family="gamma")).fit(*rows, environments=boston.town)
    with pytest.raises(NotFittedError):
        worst.predict(boston[["rm", "lstat"]])
    with pytest.raises(AttributeError, match="nothing_like_it"):
        worst.nothing_like_it  # noqa: B018
    fit = atm.WorstEnvironment(model, min_rows=10).fit(BOSTON, boston)
    with pytest.raises(InputError, match="kinks"):
        fit.standard_errors()


@pytest.mark.parametrize("kind", ["worst", "tail"])
def test_files_that_were_forged(kind: str, boston: pd.DataFrame, tmp_path: Path) -> None:
    """Their checksum is right, and what they say of the places is not."""
    worst = atm.WorstEnvironment(atm.NormalLinear(), min_rows=10)
    path = atm.save(
        (worst if kind == "worst" else atm.NormalLinear(1.0, tail=0.3)).fit(BOSTON, boston), tmp_path / "m.json"
    )
    record = json.loads(path.read_text())
    n = len((record["model"] if kind == "worst" else record)["decisive"]["places"])
    exact = [1.0] * n if kind == "worst" else []
    other = (
        {"risk": "tail", "share": 0.3, "exact": []}
        if kind == "worst"
        else {"risk": "worst", "share": 0.0, "exact": [1.0] * n}
    )
    nothing: dict[str, Any] = {name: [] for name in ("places", "rows", "weights", "values", "offsets", "exact")}
    for change, message in (
        ({"weights": [1.0]}, "weights of the environments"),
        ({"weights": [5.0] * n}, "weights of the environments"),
        ({"weights": [0.0] * n}, "all 0"),
        ({"places": ["here"] * n}, "environments that decide are invalid"),
        (nothing, "environments that decide are invalid"),
        ({"share": 0.5}, "share is invalid" if kind == "worst" else "do not match"),
        ({"risk": "cvar", "share": 0.5, "exact": exact or [1.0] * n}, "do not match"),
        ({"reference": ["null"]}, "reference is unknown"),
        (other, "shape|do not match"),
    ):
        forged = json.loads(json.dumps(record))
        (forged["model"] if kind == "worst" else forged)["decisive"] |= change
        path.write_text(json.dumps(forged | {"sha256": digest(forged)}))
        with pytest.raises(ModelFileError, match=message):
            atm.load(path)
    if kind == "worst":  # the model inside, as if it were an ordinary one
        inner = record["model"]
        path.write_text(json.dumps(inner | {"sha256": digest(inner)}))
        with pytest.raises(ModelFileError, match="do not match"):
            atm.load(path)


def test_folds_of_a_table_in_batches_take_turns(wine: pd.DataFrame, tmp_path: Path) -> None:
    """Fits that share reads of a table run in threads: none of them may hold a lock while it waits for rows."""
    wine.to_parquet(tmp_path / "wine.parquet")
    model = atm.WorstEnvironment(atm.OrdinalRegression(), min_rows=5)
    one, two = (
        atm.leave_one_environment_out(model, WINE, data, xis=[0.0]).frame()
        for data in (wine, tmp_path / "wine.parquet")
    )
    np.testing.assert_allclose(two.nll, one.nll, rtol=1e-9)


@few_rows
def test_weights_below_1_do_not_join_places(wine: pd.DataFrame) -> None:
    plain = atm.WorstEnvironment(atm.OrdinalRegression()).fit(WINE, wine)
    small = atm.WorstEnvironment(atm.OrdinalRegression()).fit(WINE, wine, sample_weight=np.full(len(wine), 0.01))
    np.testing.assert_allclose(small.coef_, plain.coef_, rtol=1e-8)
    assert small.environment_multipliers_.size == 9


def test_a_tiny_share_is_the_worst_place(boston: pd.DataFrame) -> None:
    worst = atm.WorstEnvironment(atm.NormalLinear(), min_rows=10).fit(BOSTON, boston)
    for share in (1e-300, 1e-12, 1e-3):
        fit = atm.WorstEnvironment(atm.NormalLinear(), "cvar", share, min_rows=10).fit(BOSTON, boston)
        assert fit.converged_
        np.testing.assert_allclose(fit.coef_, worst.coef_, rtol=1e-8)


def test_inside_other_estimators(boston: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """Conformal sets and folds of pipelines are those of the model; a fit prints its own steps only."""
    model = atm.WorstEnvironment(atm.NormalLinear(verbose=1), min_rows=10)
    sets = atm.ConformalPredictor(model).fit(BOSTON, boston)
    halves = boston[boston.town.isin(sets.training_environments_)]
    np.testing.assert_allclose(sets.model_.coef_, clone(model).fit(BOSTON, halves).coef_, rtol=1e-8)
    assert "xi" not in capsys.readouterr().out
    wide, y = boston[["rm", "lstat"]], boston.cmedv
    large = boston.town.map(boston.town.value_counts()) >= 15
    rows = wide[large], y[large], boston.town[large]
    model = atm.WorstEnvironment(atm.NormalLinear())
    piped = atm.leave_one_environment_out(make_pipeline(StandardScaler(), model), *rows, xis=[0.0]).frame()
    np.testing.assert_allclose(piped.nll, atm.leave_one_environment_out(model, *rows, xis=[0.0]).frame().nll, rtol=1e-7)
    with pytest.raises(InputError, match=r"xis=\[0\]"):
        atm.leave_one_environment_out(model, *rows)
    fit = model.fit(rows[0], rows[1], environments=rows[2])
    assert max(map(len, str(fit.summary()).splitlines())) <= 100
    with pytest.warns(AnchorTMWarning, match="the fit is that of maximum likelihood"):
        model.fit(*rows[:2], environments=np.repeat("here", len(rows[0])))


@few_rows
def test_speed(boston: pd.DataFrame) -> None:
    """92 towns within the time of 30 plain fits."""
    model, X, y, towns = problem("bh2_cprobit", KNOWN["bh2_cprobit"])

    def best(fit: Any) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            fit()
            times.append(time.perf_counter() - start)
        return min(times)

    plain = best(lambda: model.fit(X, y, anchors=towns))
    assert best(lambda: atm.WorstEnvironment(model).fit(X, y, environments=towns)) < 30.0 * plain
