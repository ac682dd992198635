"""Left-out fits, searches and resampled fits of tables in which a level exists at one place only."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError

mpl.use("Agg")

TIGHT = {"tol": 1e-11}
LONELY = 2  # the site that alone has stage IV


def table(seed: int = 0, n: int = 240, sites: int = 4) -> pd.DataFrame:
    """Return rows with a stage that one site has alone."""
    rng = np.random.default_rng(seed)
    site = np.arange(n) % sites
    x = rng.normal(size=n) + 0.3 * site
    stage = np.where(site == LONELY, rng.choice(["I", "II", "IV"], n), rng.choice(["I", "II"], n))
    effect = 0.5 * x + 0.5 * (stage == "II") + 1.5 * (stage == "IV")
    y = effect + rng.normal(size=n)
    return pd.DataFrame(
        {
            "site": site,
            "x": x,
            "stage": stage,
            "sex": rng.choice(["f", "m"], n),
            "y": y,
            "time": np.exp(y / 2),
            "event": (rng.uniform(size=n) < 0.8).astype(int),
            "grade": np.digitize(y, [-0.5, 0.5, 1.5]),
            "count": rng.poisson(np.exp(0.3 * effect)),
            "weight": rng.integers(1, 4, n).astype(float),
            "patient": np.arange(n) // 3,
        }
    )


ROWS = table()

# the model, and the left-hand side of its formula
MODELS: dict[str, tuple[Any, str]] = {
    "normal": (atm.NormalLinear(**TIGHT), "y"),
    "logit": (atm.ContinuousLogit(order=3, **TIGHT), "y"),
    "hazards": (atm.ProportionalHazards(order=3, **TIGHT), "Surv(time, event)"),
    "classes": (atm.OrdinalRegression(**TIGHT), "grade"),
    "counts": (atm.CountRegression(order=3, **TIGHT), "count"),
    "cox": (atm.CoxPH(**TIGHT), "Surv(time, event)"),
    "cox, strata": (atm.CoxPH(**TIGHT), "Surv(time, event) | sex"),
    "poisson": (atm.AnchorGLM(family="poisson", **TIGHT), "count"),
    "negative binomial": (atm.AnchorGLM(family="negative_binomial", **TIGHT), "count"),
    "scale": (atm.ContinuousProbit(order=3, scale=["x", "stage[T.IV]"], **TIGHT), "y"),
    "strata": (atm.ContinuousLogit(order=3, **TIGHT), "y | sex"),
    "varying": (atm.ContinuousLogit(order=3, varying={"x": (-6.0, 8.0)}, **TIGHT), "y"),
    "random": (atm.NormalLinear(random="patient", **TIGHT), "y"),
    "ridge": (atm.NormalLinear(l2=0.1, penalty_factor={"x": 0.5, "stage[T.IV]": 0.0}, **TIGHT), "y"),
}
BATCHES = ("normal", "logit", "hazards", "classes", "counts", "scale", "strata", "varying")


def left_out(model: Any, formula: str, rows: Any, xis: Any = (0.0, 2.0), **more: Any) -> pd.DataFrame:
    """Return the table of left-out environments, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        return atm.leave_one_environment_out(model, formula, rows, xis=xis, **more).frame()


def by_hand(model: Any, formula: str, rows: pd.DataFrame, site: Any, xi: float) -> tuple[Any, float]:
    """Return the fit to the other sites, and the mean nll of this one, with stage IV read as stage I."""
    own = clone(model).set_params(xi=xi)
    if own.get_params().get("scale") is not None:
        own.set_params(scale=["x"])
    if isinstance(own.penalty_factor, dict):
        own.set_params(penalty_factor={"x": 0.5})
    away, known = rows.site != site, rows.assign(stage=rows.stage.replace("IV", "I"))
    if own.get_params().get("random"):
        X = known.assign(stage=(known.stage == "II") * 1.0)[["x", "stage", "patient"]]
        fit = own.fit(X[away], rows.y[away], anchors=rows.site[away])
        return fit, float(fit.nll(X[~away], rows.y[~away]).mean())
    fit = type(own).from_formula(formula, known[away], **own.get_params())
    return fit, float(np.mean(fit.nll(known[~away], None)))


@pytest.mark.parametrize("case", MODELS)
def test_a_rare_level_is_left_out_as_by_hand(case: str) -> None:
    model, outcome = MODELS[case]
    formula = f"{outcome} ~ x + stage | site"
    if case == "random":
        X = pd.DataFrame({"x": ROWS.x, "II": ROWS.stage == "II", "IV": ROWS.stage == "IV"}).astype(float)
        X["patient"] = ROWS.patient
        with pytest.warns(AnchorTMWarning, match="environment 2: without IV, which only this environment has"):
            found = atm.leave_one_environment_out(model, X, ROWS.y, ROWS.site, [0.0, 2.0]).frame()
        rare = "coef_IV"
    else:
        found, rare = left_out(model, formula, ROWS), "coef_stage[T.IV]"
    here = found[found.environment == LONELY]
    assert (found.notes != "").tolist() == (found.environment == LONELY).tolist()
    assert here.notes.str.contains("without .*IV.*, which only this environment has").all()
    assert here[rare].isna().all()
    assert found.drop(here.index).notna().all().all()
    for row, xi in zip(here.index, (0.0, 2.0), strict=True):
        fit, nll = by_hand(model, formula, ROWS, LONELY, xi)
        names = [name for name in found if name.startswith("coef_") and np.isfinite(found.loc[row, name])]
        np.testing.assert_allclose(found.loc[row, names].astype(float), fit.result_.others, atol=1e-8, rtol=1e-8)
        assert found.nll[row] == pytest.approx(nll, abs=1e-8)


@pytest.mark.parametrize("case", BATCHES)
def test_batches_are_as_memory(case: str, tmp_path: Path) -> None:
    model, outcome = MODELS[case]
    ROWS.to_parquet(tmp_path / "rows.parquet", index=False)
    formula = f"{outcome} ~ x * stage | site"
    memory = left_out(model, formula, ROWS)
    batches = left_out(model, formula, tmp_path / "rows.parquet")
    assert memory.notes.tolist() == batches.notes.tolist()
    assert "x:stage[T.IV]" in memory.notes[2 * LONELY]
    numbers = [name for name in memory if name != "notes"]
    np.testing.assert_allclose(batches[numbers].astype(float), memory[numbers].astype(float), rtol=1e-8, atol=1e-8)


def test_nothing_is_left_out_if_two_sites_have_the_level() -> None:
    rows = ROWS.assign(stage=np.where((ROWS.site == 0) & (ROWS.patient % 3 == 0), "IV", ROWS.stage))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = atm.leave_one_environment_out(MODELS["logit"][0], "y ~ x + stage | site", rows, xis=[0.0])
    assert result.remarks == ()
    assert (result.frame().notes == "").all()
    assert result.frame().notna().all().all()


def test_a_level_without_weight_elsewhere_is_left_out() -> None:
    """Rows of weight 0 do not count: the fit without them is the same."""
    elsewhere = (ROWS.site == 0) & (ROWS.patient % 3 == 0)
    rows = ROWS.assign(stage=np.where(elsewhere, "IV", ROWS.stage), weight=np.where(elsewhere, 0.0, ROWS.weight))
    model, formula = MODELS["logit"][0], "y ~ x + stage | site"
    found = left_out(model, formula, rows, sample_weight="weight")
    alone = left_out(model, formula, rows[~elsewhere], sample_weight="weight")
    assert found.notes.tolist() == alone.notes.tolist()
    assert "stage[T.IV]" in found.notes[2 * LONELY]
    np.testing.assert_allclose(found.nll, alone.nll, rtol=1e-9)


def test_a_lonely_reference_level_changes_the_reference() -> None:
    """Without stage I the dummies of the others add up to 1: the last one goes; coefficients that changed are NaN."""
    stage = np.where(ROWS.site == LONELY, ROWS.stage, np.where(ROWS.stage == "I", "III", "II"))
    stage = pd.Categorical(np.where(stage == "IV", "III", stage), ["I", "II", "III"])
    rows = ROWS.assign(stage=stage)
    found = left_out(MODELS["normal"][0], "y ~ x + stage | site", rows, [0.0])
    here = found.loc[LONELY]
    assert here.notes == "without stage[T.III], which the other environments do not identify"
    assert np.isnan(here["coef_stage[T.II]"])
    assert np.isnan(here["coef_stage[T.III]"])
    away = rows.site != LONELY
    X = pd.DataFrame({"x": rows.x, "II": (rows.stage == "II") * 1.0})  # I and III are one level
    fit = atm.NormalLinear(**TIGHT).fit(X[away], rows.y[away])
    assert here.coef_x == pytest.approx(fit.coef_[0], abs=1e-8)
    assert here.nll == pytest.approx(fit.nll(X[~away], rows.y[~away]).mean(), abs=1e-8)


def test_a_spline_that_loses_its_range() -> None:
    """Only one site has large x: some columns of the spline are 0 in the rows of the others."""
    rows = ROWS.assign(x=np.where(ROWS.site == LONELY, ROWS.x + 20.0, ROWS.x))
    model, formula = atm.NormalLinear(**TIGHT), "y ~ bs(x, knots=(5, 10, 15)) | site"
    here = left_out(model, formula, rows, [0.0]).loc[LONELY]
    assert "without bs(x" in here.notes
    X = atm.Formula(formula, rows).X
    away = (rows.site != LONELY).to_numpy()
    kept = [name for name in X if np.isfinite(here[f"coef_{name}"])]
    assert 0 < len(kept) < X.shape[1]
    fit = model.fit(X.loc[away, kept], rows.y[away])
    assert here.nll == pytest.approx(fit.nll(X.loc[~away, kept], rows.y[~away]).mean(), abs=1e-7)


def test_levels_of_a_wide_factor(tmp_path: Path) -> None:
    """A factor of many levels is held as codes; its lonely levels, and a lonely reference, are left out too."""
    rng = np.random.default_rng(1)
    n = 1600
    site, doctor = np.arange(n) % 4, rng.integers(0, 110, n)
    doctor = np.where(site == 1, doctor, np.where(np.isin(doctor, (0, 7, 109)), 50, doctor))
    rows = pd.DataFrame({"site": site, "doctor": [f"d{k:03d}" for k in doctor], "x": rng.normal(size=n)})
    rows["y"] = rows.x + doctor / 50 + rng.normal(size=n)
    model, formula = atm.ContinuousProbit(order=2, tol=1e-10), "y ~ x + doctor | site"
    here = left_out(model, formula, rows, [0.0]).loc[1]
    assert "without doctor[T.d007], doctor[T.d109], which only this environment has" in here.notes
    assert "which the other environments do not identify" in here.notes
    away = rows.site != 1
    gone = here.notes.split("; without ")[1].split(",")[0].removeprefix("doctor[T.").removesuffix("]")
    merged = rows.assign(doctor=rows.doctor.replace(["d000", "d007", "d109"], gone))
    fit = atm.ContinuousProbit.from_formula(formula, merged[away], order=2, tol=1e-10)
    assert here.nll == pytest.approx(float(fit.nll(merged[~away], None).mean()), abs=1e-7)
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    batches = left_out(model, formula, tmp_path / "rows.parquet", [0.0]).loc[1]
    assert batches.notes == here.notes
    assert batches.nll == pytest.approx(here.nll, abs=1e-7)


def test_a_class_that_one_site_has_cannot_be_predicted() -> None:
    rows = ROWS.assign(grade=np.where(ROWS.site == 1, ROWS.grade, np.minimum(ROWS.grade, 2)))
    with pytest.warns(AnchorTMWarning, match="environment 1: not predicted: only this environment has class 3"):
        result = atm.leave_one_environment_out(MODELS["classes"][0], "grade ~ x + sex | site", rows, xis=[0.0, 1.0])
    frame = result.frame()
    assert frame.nll.isna().tolist() == (frame.environment == 1).tolist()
    away = rows.site != 1
    fit = atm.OrdinalRegression.from_formula("grade ~ x + sex | site", rows[away], **TIGHT)
    np.testing.assert_allclose(frame.filter(like="coef_").loc[2], fit.coef_, rtol=1e-8)
    others = frame[frame.environment != 1].groupby("xi").nll
    summary = result.summary()
    np.testing.assert_allclose(summary["worst"], others.max())
    np.testing.assert_allclose(summary["median"], others.median())
    np.testing.assert_allclose(summary["mean"], others.mean())
    assert result.remarks == ("1 of 4 environments was not predicted and not counted here: see notes in frame()",)
    for text in (repr(result), result._repr_html_()):
        assert result.remarks[0] in text
    lines = [line.get_label() for line in result.plot(label=4).get_lines()]
    assert "site 1" not in lines
    assert {"site 0", "site 2", "site 3"} <= set(lines)


def test_classes_and_strata_in_batches(tmp_path: Path) -> None:
    rows = ROWS.assign(
        grade=np.where(ROWS.site == 1, ROWS.grade, np.minimum(ROWS.grade, 2)),
        sex=np.where(ROWS.site == 3, np.where(ROWS.patient % 2, "x", ROWS.sex), ROWS.sex),
    )
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    for model, formula, lost in (
        (MODELS["classes"][0], "grade ~ x + stage | site", {1, LONELY}),
        (MODELS["logit"][0], "y | sex ~ x + stage | site", {3, LONELY}),
    ):
        memory, batches = (left_out(model, formula, source) for source in (rows, tmp_path / "rows.parquet"))
        assert set(memory.environment[memory.notes != ""]) == lost
        assert memory.notes.tolist() == batches.notes.tolist()
        np.testing.assert_allclose(memory.nll, batches.nll, rtol=1e-8)
        assert memory.nll.isna().sum() == 2


def test_pipelines() -> None:
    """In a pipeline the encoder learns levels from the other rows; an unknown class is as without a pipeline."""
    rows = ROWS.assign(grade=np.where(ROWS.site == 1, ROWS.grade, np.minimum(ROWS.grade, 2)))
    encode = make_column_transformer(
        (OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False), ["stage"]), remainder="passthrough"
    )
    pipeline, X = atm.make_pipeline(encode, atm.OrdinalRegression(**TIGHT)), rows[["x", "stage"]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = atm.leave_one_environment_out(pipeline, X, rows.grade, rows.site, [0.0]).frame()
    assert any("environment 1: not predicted: only this environment has class 3" in str(w.message) for w in caught)
    assert found.nll.isna().tolist() == [False, True, False, False]
    alone = left_out(MODELS["classes"][0], "grade ~ stage + x | site", rows, [0.0])
    np.testing.assert_allclose(found.nll, alone.nll, rtol=1e-8)
    np.testing.assert_allclose(found.coef_remainder__x, alone.coef_x, rtol=1e-7)


def test_a_model_without_any_environment_to_predict_is_refused() -> None:
    options: dict[str, Any] = {"xis": [0.0, 1.0], "environments": "sex"}
    message = "no environment can be predicted by the others; environment f: not predicted: only this .* stratum f"
    with pytest.raises(InputError, match=message):
        atm.leave_one_environment_out(atm.NormalLinear(), "y | sex ~ x | site", ROWS, **options)
    with pytest.raises(InputError, match=message):
        atm.XiSearchCV.from_formula("y | sex ~ x | site", ROWS, model=atm.NormalLinear(), **options)


def test_columns_that_all_rows_do_not_identify_are_an_error() -> None:
    rows = ROWS.assign(same=1.0, twice=2.0 * ROWS.x)
    for term, message in (("same", "^constant covariates: same"), ("twice", "^collinear covariates: x, twice")):
        with pytest.raises(IdentificationError, match=message):
            atm.leave_one_environment_out(atm.NormalLinear(), f"y ~ x + stage + {term} | site", rows, xis=[0.0])


def test_the_random_slope_of_a_rare_level_is_an_error() -> None:
    X = pd.DataFrame({"x": ROWS.x, "IV": (ROWS.stage == "IV") * 1.0, "patient": ROWS.patient})
    model = atm.NormalLinear(random={"patient": ["1", "IV"]})
    with pytest.raises(IdentificationError, match="without environment 2: constant covariates: IV"):
        atm.leave_one_environment_out(model, X, ROWS.y, ROWS.site, [0.0])


@pytest.mark.parametrize("batches", [False, True])
def test_levels_that_are_nested_in_places(batches: bool, tmp_path: Path) -> None:
    """Each doctor works at one hospital, so without it all its doctors go, even where they are as many as rows."""
    rng = np.random.default_rng(2)
    doctor = np.repeat(np.arange(24), 3)
    rows = pd.DataFrame({"site": doctor // 12, "doctor": [f"d{k:02d}" for k in doctor], "x": rng.normal(size=72)})
    rows["y"] = rows.x + doctor / 10 + rng.normal(size=72)
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    formula = "y ~ doctor + x | site"
    found = left_out(atm.NormalLinear(), formula, tmp_path / "rows.parquet" if batches else rows, [0.0])
    assert "d12], doctor[T.d13], " in found.notes[1]
    assert found.notes[1].endswith(", ... (12 in all), which only this environment has")
    assert "which the other environments do not identify" in found.notes[0]
    for site in (0, 1):
        away = rows.site != site
        fit = atm.NormalLinear.from_formula("y ~ doctor + x", rows[away])
        assert found.coef_x[site] == pytest.approx(fit.coef_[-1], abs=1e-8)
    few = rows[rows.index % 3 < 2]
    assert left_out(atm.NormalLinear(), formula, few, [0.0]).nll.notna().all()


@pytest.mark.slow
def test_processes_give_the_same_notes() -> None:
    model, formula = MODELS["normal"][0], "y ~ x + stage | site"
    pd.testing.assert_frame_equal(left_out(model, formula, ROWS, n_jobs=2), left_out(model, formula, ROWS))


# searches


def test_searches_leave_the_level_out() -> None:
    model, formula, told = atm.NormalLinear(**TIGHT), "y ~ x + stage | site", "environment 2: without stage"
    with pytest.warns(AnchorTMWarning, match=told):
        search = atm.XiSearchCV.from_formula(
            formula, ROWS, model=model, xis=[0.0, 1.0, 5.0], objective="worst", rule="smallest"
        )
    worst = left_out(model, formula, ROWS, [0.0, 1.0, 5.0]).groupby("xi").nll.max()
    np.testing.assert_allclose(search.results_.objective, worst, rtol=1e-12)
    assert search.best_xi_ == worst.idxmin()
    assert search.best_estimator_.coef_.size == 3
    assert repr(search).endswith("1 of 4 environments was predicted without some columns: see notes in frame()")


def test_searches_do_not_count_what_cannot_be_predicted() -> None:
    rows = ROWS.assign(grade=np.where(ROWS.site == 1, ROWS.grade, np.minimum(ROWS.grade, 2)))
    with pytest.warns(AnchorTMWarning, match="not predicted"):
        search = atm.XiSearchCV.from_formula(
            "grade ~ x + sex | site", rows, model=atm.OrdinalRegression(), xis=[0.0, 1.0], objective="mean"
        )
    frame = search.loeo_.frame()
    np.testing.assert_allclose(search.results_.objective, -frame[frame.environment != 1].groupby("xi").skill.mean())
    assert "1 of 4 environments was not predicted" in repr(search)


@pytest.mark.parametrize("factor", [None, "deviation", {"stage[T.IV]": 0.0}, [1.0, 1.0, 0.0]])
def test_elastic_net_search(factor: Any) -> None:
    """A penalised column of zeros has a coefficient of 0; one without a penalty, or of deviation 0, is left out."""
    model = atm.NormalLinear(penalty_factor=factor, **TIGHT)
    search = atm.ElasticNetCV(model, [0.0, 1.0], [0.1, 0.01])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        search = atm.ElasticNetCV.from_formula("y ~ x + stage | site", ROWS, **search.get_params(deep=False))
    found = search.loeo_.frame()
    assert found.nll.notna().all()
    assert (found.notes != "").any() == (factor is not None)
    away = ROWS.site != LONELY
    known = ROWS.assign(stage=ROWS.stage.replace("IV", "I"))
    own = atm.NormalLinear.from_formula(
        "y ~ x + stage | site",
        known[away],
        l1=0.1,
        xi=1.0,
        penalty_factor="deviation" if factor == "deviation" else None,
        **TIGHT,
    )
    here = found[(found.environment == LONELY) & (found.xi == 1.0) & (found["lambda"] == 0.1)]
    assert here.nll.item() == pytest.approx(float(own.nll(known[~away], None).mean()), abs=1e-8)


def test_smooth_search() -> None:
    with pytest.warns(AnchorTMWarning, match="environment 2: without stage"):
        search = atm.SmoothSearchCV.from_formula(
            "y ~ s(x, 5) + stage | site", ROWS, model=atm.NormalLinear(**TIGHT), xis=[0.0, 1.0], smooths=[1.0, 0.01]
        )
    away, known = ROWS.site != LONELY, ROWS.assign(stage=ROWS.stage.replace("IV", "I"))
    X = atm.Formula("y ~ s(x, 5) + stage | site", known).X  # with the knots of all rows
    fit = atm.NormalLinear(smooth=0.01, xi=1.0, **TIGHT).fit(X[away], known.y[away], anchors=known.site[away])
    found = search.loeo_.frame().query("environment == @LONELY and xi == 1 and smooth == 0.01")
    assert found.nll.item() == pytest.approx(fit.nll(X[~away], known.y[~away]).mean(), abs=1e-7)


# missing values


def test_results_count_rows_that_were_dropped(tmp_path: Path) -> None:
    rows = ROWS.assign(x=ROWS.x.mask(ROWS.index % 40 == 7))
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    model, formula = atm.NormalLinear(missing="drop"), "y ~ x + sex | site"
    for source in (rows, tmp_path / "rows.parquet"):
        result = atm.leave_one_environment_out(model, formula, source, xis=[0.0, 1.0])
        assert result.n_missing == 6
        assert result.remarks[0].startswith("dropped: 6 rows with missing values")
        assert result.remarks[0] in repr(result)
        search = atm.XiSearchCV.from_formula(formula, source, model=model, xis=[0.0, 1.0])
        assert search.loeo_.n_missing == 6
        assert "dropped: 6 rows with missing values" in repr(search)
        path = atm.anchor_path(model, formula, source, xis=[0.0, 1.0])
        assert path.n_missing == 6
        assert "6 rows with missing values dropped" in repr(path)
    one = atm.leave_one_environment_out(model, rows[["x"]], rows.y, rows.site, [0.0])
    assert one.n_missing == 6
    for result in (
        one,
        atm.leave_one_environment_out(model, formula, rows, xis=[0.0]),
        atm.leave_one_environment_out(model, "y ~ x | sex", rows, environments="site", xis=[0.0]),
        atm.leave_one_environment_out(model, "y ~ x | sex", rows, environments=rows.site, xis=[0.0]),
        atm.leave_one_environment_out(model, rows[["x"]], rows.y, rows.site.to_list(), [0.0]),
    ):
        assert result.missing == {3: 6}
        assert result.remarks == ("dropped: 6 rows with missing values (3: 6)",)
        assert (result.frame().n == [60, 60, 60, 54]).all()
    words = rows.assign(site=rows.site.map(lambda k: f"site {k}").mask(rows.index == 11))
    some = atm.leave_one_environment_out(model, formula, words, xis=[0.0])
    assert (some.n_missing, some.missing) == (7, {"site 3": 6})  # one row has no site
    made = atm.leave_one_environment_out(model, "y ~ x | C(site)", rows, xis=[0.0])
    assert (made.n_missing, made.missing) == (6, {3: 6})
    y = rows.y.mask(rows.index % 40 == 9)
    piped = atm.leave_one_environment_out(atm.make_pipeline(SimpleImputer(), model), rows[["x"]], y, rows.site, [0.0])
    assert (piped.n_missing, piped.missing) == (6, {1: 6})
    whole = atm.leave_one_environment_out(model, ROWS[["x"]], ROWS.y, ROWS.site, [0.0])
    assert (whole.n_missing, whole.remarks) == (0, ())


@pytest.mark.parametrize("kind", ["string", "object", "category"])
def test_missing_environments_are_not_listed_as_one(kind: str) -> None:
    rng = np.random.default_rng(0)
    site = pd.Series(np.repeat(["a", "b", "c"], 20)).astype("string")
    site[[3, 25]] = None
    data = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60), "site": site.astype(kind)})
    data.loc[5, "x"] = np.nan
    found = atm.leave_one_environment_out(atm.NormalLinear(missing="drop"), "y ~ x | site", data, xis=[0.0])
    assert found.missing == {"a": 1}
    assert found.n_missing == 3
