"""Numerical honesty: no fit claims what its certificate does not support, and what is doubtful is said."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from paths import SAVED

import anchortm as atm
from anchortm.cli.main import main
from anchortm.engine.result import FLAT_CURVATURE
from anchortm.exceptions import AnchorTMWarning, ConvergenceWarning, InputError, InputTypeError

N = 300
rng = np.random.default_rng(2)
SITE = rng.integers(0, 5, N)
X = pd.DataFrame({"age": rng.normal(size=N) + 0.3 * SITE, "dose": rng.normal(size=N)})
LATENT = X.age.to_numpy() + rng.logistic(size=N)
TIME = np.exp(LATENT / 3)
CENSORED = atm.Surv(np.minimum(TIME, 2.0), TIME < 2.0)
MODELS = [
    (atm.NormalLinear, {}, LATENT),
    (atm.ContinuousProbit, {}, LATENT),
    (atm.ContinuousLogit, {}, LATENT),
    (atm.ContinuousLogit, {"order": 20}, CENSORED),
    (atm.ProportionalHazards, {"log_first": True}, CENSORED),
    (atm.Lehmann, {}, LATENT),
    (atm.ParametricSurvival, {}, CENSORED),
    (atm.OrdinalRegression, {}, np.digitize(LATENT, [-1.0, 0.0, 1.0])),
    (atm.CountRegression, {}, np.floor(TIME * 3)),
]


def consistent(model) -> None:
    """Assert that all that a model says of its fit follows from its certificate."""
    text = str(model.summary())
    if model.converged_:
        assert model.kkt_ <= model.tol
        assert model.min_eigenvalue_ >= -1e-8 * max(
            1.0, np.abs(np.diag(model.result_.information)).max() / model.n_total_
        )
        assert "converged       yes" in text
    else:
        assert "converged       NO" in text
        assert "minimum         not reached" in text
        assert any("did not converge" in note for note in model.warnings_)
        for absent in ("AIC", "std. error", "global", "strict"):
            assert absent not in text
    assert f"KKT residual {model.kkt_:.1e}, smallest curvature {model.min_eigenvalue_:.1e}" in text
    if model.min_eigenvalue_ < FLAT_CURVATURE:
        assert "strict" not in text
        assert "std. error" not in text
    held = int(model.active_.sum())
    assert (f"constraints     {held} increment" in text) == (held > 0)
    for flat, side in zip(model.basis_.flat_ends(model.baseline_), ("lower", "upper"), strict=True):
        assert any(f"flat beyond the {side} end" in note for note in model.warnings_) == flat


@pytest.mark.parametrize(("make", "options", "y"), MODELS)
@pytest.mark.parametrize("max_iter", [1, 2, 3, 5, 200])
def test_no_summary_claims_more_than_its_certificate(make, options, y, max_iter: int, tally) -> None:
    for xi in (0.0, 1.0, 50.0, math.inf):
        model = make(xi=xi, max_iter=max_iter, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)
            model.fit(X, y, anchors=(SITE > 1).astype(int))
        consistent(model)
        tally("honesty", "summaries held against their certificate")
        if not model.converged_:
            with pytest.raises(InputError, match=r"strict optimum|converge"):
                model.covariance("sandwich")
            tally("honesty", "fits stopped early that say so")


def test_a_path_and_left_out_fits_say_which_did_not_converge() -> None:
    model = atm.ProportionalHazards(max_iter=3)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        path = atm.anchor_path(model, X, TIME, SITE, [0.0, 10.0])
    assert not path.frame().converged.all()
    assert not atm.leave_one_environment_out(model, X, TIME, SITE, [0.0]).frame().converged.all()


def test_flat_directions_are_named() -> None:
    looked = np.array([-1.0, 0.0, 1.0])[np.arange(N) % 3]  # each row is looked at once, and seven parameters ask
    happened = looked >= LATENT
    y = atm.Interval(np.where(happened, -np.inf, looked), np.where(happened, looked, np.inf))
    with pytest.warns(AnchorTMWarning, match=r"flat direction: .* hardly determined \(.*the baseline\)"):
        model = atm.ContinuousLogit(support=(-3.0, 5.0)).fit(X, y)
    consistent(model)
    assert "global: the loss is convex, flat: other parameters do as well" in str(model.summary())
    # what the rows do determine does not depend on the flat directions
    with pytest.warns(AnchorTMWarning, match="flat direction"):
        other = atm.ContinuousLogit(support=(-3.0, 5.0), order=9).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-5)
    np.testing.assert_allclose(
        *(m.predict_distribution(X[:5]).cdf([-1.0, 0.0, 1.0]) for m in (model, other)), atol=1e-6
    )


@pytest.mark.bug("honesty", "a path could step over the end of its branch, and then said that it was still on it")
def test_every_way_beyond_a_fold_tells_of_it() -> None:
    """The branch of this fit ends at xi = 401.1."""
    data = atm.datasets.load_cgd()
    formula = "Surv(tstop, status) ~ treat + age + sex + inherit + steroids + propylac | center"
    made = atm.Formula(formula, data)
    for xi in (380.0, 400.0, 402.0, 410.0, 440.0, 450.0, 475.0, 500.0, 550.0, 600.0, 800.0, 1500.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)
            model = atm.ContinuousLogit(xi=xi).fit(made.X, made.y, anchors=made.anchors)
        assert model.converged_
        assert [round(fold / 401.1, 2) for fold in model.folds_] == [1.0] * (xi > 401.1), xi


def test_increments_held_at_zero_are_counted() -> None:
    y = np.where(np.arange(N) % 2 == 0, -5.0, 5.0) + 0.01 * LATENT  # nothing between -4 and 4
    model = atm.ContinuousProbit(order=8).fit(X, y)
    zero = np.isclose(np.diff(model.baseline_), 0.0, atol=1e-12)
    assert model.active_.sum() == zero.sum() > 0
    consistent(model)


def test_a_flat_end_is_said_and_its_quantiles_are_infinite() -> None:
    y = atm.Surv(np.minimum(TIME, 1.2), TIME < 1.2)
    model = atm.ProportionalHazards(support=(0.5, 2.0), order=6).fit(X, y)
    consistent(model)
    flat = model.basis_.flat_ends(model.baseline_)
    assert flat == (False, True)
    assert np.isinf(model.predict_distribution(X[:3]).ppf(0.999)).all()


@pytest.mark.bug("honesty", "the summary did not report the probability that a baseline in y leaves at time 0")
def test_mass_at_time_zero_is_reported() -> None:
    cgd = atm.datasets.load_cgd()
    y = atm.Surv(cgd.tstop, cgd.status)
    model = atm.ProportionalHazards(order=3).fit(None, y)
    assert model.atom_ == pytest.approx(model.predict_distribution().cdf(1e-9)[0], rel=1e-6)
    note = f"a probability of {model.atom_:.2g} at time 0 (for average covariates): log_first=True leaves none"
    assert note in str(model.summary())
    x = (cgd[["age"]] - cgd.age.mean()) / 10
    assert atm.ProportionalHazards(order=3).fit(x, y).atom_ == pytest.approx(
        atm.ProportionalHazards(order=3).fit(x, y).predict_distribution(0.0 * x[:1]).cdf(1e-9)[0], rel=1e-6
    )
    for without in (atm.ProportionalHazards(order=3, log_first=True), atm.ParametricSurvival()):
        assert "at time 0" not in str(without.fit(None, y).summary())


def test_rows_outside_the_range_of_the_fit_are_named(tally) -> None:
    model = atm.ContinuousLogit(xi=1.0).fit(X, LATENT, anchors=SITE)
    assert (model.extrapolation(X).covariates == "").all()
    assert (model.extrapolation(X).furthest == 0.0).all()
    new = pd.DataFrame({"age": [0.0, 100.0, 0.0, 100.0], "dose": [0.0, 0.0, -50.0, -50.0]}, index=list("abcd"))
    found = model.extrapolation(new)
    assert found.covariates.tolist() == ["", "age", "dose", "age, dose"]
    assert found.index.tolist() == list("abcd")
    low, high = X.age.min(), X.age.max()
    assert found.furthest["b"] == pytest.approx((100.0 - high) / (high - low))
    unnamed = atm.ContinuousLogit().fit(X.to_numpy(), LATENT).extrapolation(new.to_numpy())
    assert unnamed.covariates.tolist() == ["", "x0", "x1", "x0, x1"]
    sparse = atm.ContinuousLogit().fit(sp.csr_matrix(X.to_numpy()), LATENT).extrapolation(new.to_numpy())
    assert sparse.covariates.tolist() == unnamed.covariates.tolist()
    tally("honesty", "extrapolated rows flagged", 9)


def test_outcomes_beyond_support_and_data_are_flagged(tally) -> None:
    model = atm.ContinuousLogit(xi=1.0).fit(X, LATENT, anchors=SITE)
    (low, high), (first, last) = model.support_, (LATENT.min(), LATENT.max())
    assert model.outcome_range_ == (first, last)
    y = np.array([(low + high) / 2, (high + last) / 2, last + 1.0, first - 1.0, np.inf])
    found = model.extrapolation(X[:5], y).outcome.tolist()
    assert found == ["", "beyond the support", *["beyond the data"] * 3]
    several = model.extrapolation(X[:5], np.column_stack([np.full(5, low), y]))
    assert several.outcome.tolist() == found
    assert model.extrapolation(X[:2], last + 1.0).outcome.tolist() == ["beyond the data"] * 2
    censored = atm.ProportionalHazards().fit(X, CENSORED)
    assert censored.outcome_range_ == (TIME.min(), 2.0)  # nothing is known beyond the end of follow-up
    quantiles = censored.predict_distribution(X).ppf([0.5, 0.99])
    flagged = censored.extrapolation(X, quantiles).outcome == "beyond the data"
    assert flagged.equals(pd.Series(quantiles[:, 1] > 2.0))
    assert flagged.any()
    tally("honesty", "extrapolated outcomes flagged", 5 + int(flagged.sum()))
    with pytest.raises(InputTypeError, match="classes are not extrapolated: leave y out"):
        atm.OrdinalRegression().fit(X, LATENT > 0).extrapolation(X, True)
    with pytest.raises(InputError, match="y must be one number, or of 300 rows"):
        model.extrapolation(X, np.zeros(7))


def test_flags_are_the_same_by_formula_from_batches_after_saving_and_in_the_shell(tmp_path: Path, capsys) -> None:
    data = X.assign(y=LATENT, site=SITE.astype(str), zone=np.array(["n", "s"])[SITE % 2])
    data.to_parquet(tmp_path / "fit.parquet")
    formula = "y ~ bs(age, 4) * zone + log(dose + 10) | site"
    new = data[:4].assign(dose=[0.0, 9.0, -9.0, 0.0])
    for source in (data, tmp_path / "fit.parquet"):
        model = atm.ContinuousLogit.from_formula(formula, source, xi=1.0)
        assert model.extrapolation(new).covariates.tolist() == ["", "dose", "dose", ""]
        assert model.outcome_range_ == (LATENT.min(), LATENT.max())
        again = atm.load(atm.save(model, tmp_path / "model.json"))
        y = [0.0, 0.0, 1e3, 1e3]
        pd.testing.assert_frame_equal(again.extrapolation(new, y), model.extrapolation(new, y))
    table = atm.predict_table(model, new, quantiles=[0.5, 0.999], extrapolation=True)
    assert table.columns.tolist() == ["q0.5", "q0.999", "outside", "beyond_data"]
    assert table.outside.tolist() == ["", "dose", "dose", ""]
    assert table.beyond_data.tolist() == (table["q0.999"] > LATENT.max()).tolist()
    new.to_parquet(tmp_path / "new.parquet")
    atm.predict_table(model, tmp_path / "new.parquet", tmp_path / "out.parquet", extrapolation=True)
    assert pd.read_parquet(tmp_path / "out.parquet").outside.tolist() == table.outside.tolist()
    new.to_csv(tmp_path / "new.csv")
    main(["predict", str(tmp_path / "model.json"), str(tmp_path / "new.csv"), "--extrapolation"])
    shown = capsys.readouterr().out
    assert "outside" in shown
    assert "beyond_data" in shown
    assert "outside" in atm.predict_table(
        atm.OrdinalRegression.from_formula("site ~ age", data), new, extrapolation=True
    )


def test_a_file_without_ranges_says_so() -> None:
    model = atm.load(SAVED / "version_1.json")
    with pytest.raises(
        InputError, match="does not know the ranges of its covariates, as its file is older: fit it again"
    ):
        model.extrapolation(None)


def unseen_class() -> object:
    grades = np.array(["low", "mid", "high"])[np.digitize(LATENT, [-1.0, 1.0])]
    return pd.Categorical(grades, ["low", "mid", "high", "top"], ordered=True)


WARNED = {
    "collinear anchors": (
        lambda: atm.NormalLinear(xi=1.0).fit(X[["dose"]], LATENT, anchors=np.column_stack([X.age, 2 * X.age])),
        "anchor columns dropped as constant or collinear: anchor1",
    ),
    "anchors that covariates explain": (
        lambda: atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=X.age.to_numpy()),
        "the covariates explain the anchors exactly",
    ),
    "constant anchors": (
        lambda: atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=pd.DataFrame({"site": SITE, "one": 1.0})),
        "anchor columns dropped as constant or collinear: one",
    ),
    "numbers that look like codes": (
        lambda: atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=SITE.astype(float)),
        "whole numbers as floats are taken as numeric: anchor; if they are codes of places, use astype",
    ),
    "a single environment": (
        lambda: atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=0 * SITE),
        "the anchors have a single environment: they cannot regularise",
    ),
    "an environment a row": (
        lambda: atm.NormalLinear(xi=1.0).fit(X, LATENT, anchors=np.arange(N)),
        "300 anchor directions for 300 rows: nearly every row is an environment",
    ),
    "a class without rows": (
        lambda: atm.OrdinalRegression().fit(X, unseen_class()),
        "classes without rows dropped: top",
    ),
    "classes in alphabetical order": (
        lambda: atm.OrdinalRegression().fit(X, np.array(unseen_class())),
        "alphabetical order, high < low < mid; .* ordered categorical",
    ),
    "too few iterations": (
        lambda: atm.ContinuousLogit(max_iter=1).fit(X, LATENT),
        "did not converge .iteration limit.*: .* raise max_iter, or look at history_",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_is_doubtful_is_warned_of_recorded_and_printed(name: str, tally) -> None:
    call, message = WARNED[name]
    with pytest.warns(AnchorTMWarning, match=message):
        model = call()
    (recorded,) = model.warnings_
    assert f"Note: {recorded}" in str(model.summary())
    tally("honesty", "kinds of warnings seen, recorded and printed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AnchorTMWarning):  # for whom warnings are errors, nothing is half fitted
            call()


def test_the_range_of_counts_is_that_of_counts() -> None:
    counts = 6 + np.floor(TIME * 3)
    model = atm.CountRegression(order=3).fit(X, counts)
    assert model.outcome_range_ == (counts.min(), counts.max())
    assert model.extrapolation(X[:1], counts.min() - 1).outcome.tolist() == ["beyond the data"]


def test_mass_at_time_zero_does_not_depend_on_a_constant_offset() -> None:
    whole = atm.Surv(TIME, TIME > 0)
    atoms = [atm.ProportionalHazards().fit(X, whole, offset=np.full(N, o)).atom_ for o in (0.0, -4.0, 4.0)]
    np.testing.assert_allclose(atoms, atoms[0], rtol=1e-5)
