"""The bootstrap of models with a level that one place has alone: draws without this place lack its coefficient."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, IdentificationError

SITES, LONELY, DRAWS = 20, 3, 30
TIGHT: dict[str, Any] = {"tol": 1e-11}


def table(seed: int = 0, n: int = 400, effect: float = 1.5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    site = np.arange(n) % SITES
    x = rng.normal(size=n) + 0.2 * rng.normal(size=SITES)[site]
    stage = np.where(site == LONELY, rng.choice(["I", "II", "IV"], n), rng.choice(["I", "II"], n))
    y = 0.5 * x + 0.5 * (stage == "II") + effect * (stage == "IV") + rng.normal(size=n)
    time, event = np.exp(y / 2), (rng.uniform(size=n) < 0.8).astype(int)
    sex = rng.choice(["f", "m"], n)
    return pd.DataFrame({"site": site, "x": x, "stage": stage, "sex": sex, "y": y, "time": time, "event": event})


ROWS = table()
FITS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "normal": (atm.NormalLinear, "y ~ x + stage | site", {"xi": 1.0}),
    "logit": (atm.ContinuousLogit, "Surv(time, event) ~ x + stage | site", {"xi": 1.0, "order": 3}),
    "cox": (atm.CoxPH, "Surv(time, event) ~ x + stage | site", {"xi": 1.0}),
    "glm": (atm.AnchorGLM, "y ~ x + stage | site", {"xi": 1.0}),
    "scale": (atm.ContinuousProbit, "y ~ x + stage | site", {"order": 3, "scale": ["x", "stage[T.IV]"]}),
}


def drawn(seed: int) -> list[np.ndarray]:
    """Return how often each site is drawn, in the order of the bootstrap."""
    rng = np.random.default_rng(seed)
    return [rng.multinomial(SITES, np.full(SITES, 1.0 / SITES)) for _ in range(DRAWS)]


@pytest.mark.parametrize("case", FITS)
def test_draws_without_the_level_are_fits_without_its_column(case: str) -> None:
    make, formula, options = FITS[case]
    model = make.from_formula(formula, ROWS, **options, **TIGHT)
    found = model.bootstrap(DRAWS, random_state=0)
    times = drawn(0)
    lacking = [k for k, counts in enumerate(times) if counts[LONELY] == 0]
    assert found.failed == 0
    assert 0 < len(lacking) < DRAWS
    rare = [j for j, name in enumerate(found.names) if "IV" in name]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found.draws[:, rare[0]])), lacking)
    assert not np.isnan(np.delete(found.draws, rare, axis=1)).any()
    own = options | ({"scale": ["x"]} if case == "scale" else {}) | TIGHT
    if hasattr(model, "support_") and model.support_ is not None:
        own["support"] = model.support_  # the basis is that of all rows
    for k in lacking[:3]:
        weights = times[k][ROWS.site].astype(float)
        here = weights > 0.0
        fit = make.from_formula(formula, ROWS[here], sample_weight=weights[here], **own)
        np.testing.assert_allclose(np.delete(found.draws[k], rare), fit.result_.parameters, rtol=1e-7, atol=1e-7)


def test_frame_and_covariance() -> None:
    model = atm.NormalLinear.from_formula("y ~ x + stage | site", ROWS)
    found = model.bootstrap(DRAWS, random_state=0)
    complete = ~np.isnan(found.draws).any(axis=1)
    frame = found.frame()
    assert frame.draws.tolist() == [DRAWS, DRAWS, DRAWS, DRAWS, complete.sum()]
    np.testing.assert_allclose(frame["std. error"], np.nanstd(found.draws, axis=0, ddof=1))
    np.testing.assert_allclose(frame.lower, np.nanquantile(found.draws, 0.025, axis=0))
    told = (
        f"{DRAWS - complete.sum()} of {DRAWS} resampled data sets do not identify stage\\[T.IV\\]: .* {complete.sum()}"
    )
    with pytest.warns(AnchorTMWarning, match=told):
        covariance = found.covariance()
    np.testing.assert_array_equal(covariance, np.cov(found.draws[complete], rowvar=False))
    assert f"{DRAWS - complete.sum()} without some parameters" in repr(found)
    usual = atm.NormalLinear.from_formula("y ~ x | site", ROWS).bootstrap(10, random_state=0)
    assert "draws" not in usual.frame()
    assert usual.complete() is usual


def test_a_parameter_in_no_draw() -> None:
    model = atm.NormalLinear.from_formula("y ~ x + stage | site", ROWS)
    found = model.bootstrap(2, random_state=7)
    assert np.isnan(found.draws[:, -1]).all(), "take another seed"
    frame = found.frame()
    assert frame.draws.tolist() == [2, 2, 2, 2, 0]
    assert frame.loc["stage[T.IV]", ["std. error", "lower", "upper"]].isna().all()


def test_too_few_complete_draws_are_refused() -> None:
    levels = np.where(ROWS.site < 4, "only " + ROWS.site.astype(str), "many")
    rows = ROWS.assign(stage=np.where(ROWS.index % 3 == 0, levels, "many"))
    model = atm.NormalLinear.from_formula("y ~ x + stage | site", rows)
    found = model.bootstrap(DRAWS, random_state=0)
    message = "only . of 30 resampled data sets identify all parameters, too few for a covariance or a band; merge rare"
    with pytest.raises(IdentificationError, match=message):
        found.covariance()
    with pytest.raises(IdentificationError, match=message):
        model.confidence_band(rows[:2], [0.0], uncertainty=found)
    assert np.isfinite(found.frame()["std. error"]).all()


def test_users_of_draws_take_the_complete_ones() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        for make, formula, options in (FITS["logit"], FITS["cox"]):
            model = make.from_formula(formula, ROWS, **options)
            found = model.bootstrap(DRAWS, random_state=0)
            part = found.complete()
            assert len(part.draws) < len(found.draws)
            for answer in (
                lambda draws, own=model: own.confidence_band(ROWS[:3], [0.5, 1.5], uncertainty=draws).frame(),
                lambda draws, own=model: own.restricted_mean(ROWS[:3], 1.5, uncertainty=draws).frame(),
            ):
                one, other = answer(found), answer(part)
                pd.testing.assert_frame_equal(one, other)
                assert one.notna().all().all()
        model = atm.NormalLinear.from_formula("y ~ x + stage | site", ROWS)
        found = model.bootstrap(DRAWS, random_state=0)
        one, other = (
            atm.marginal_effects(model, ROWS, uncertainty=draws).frame() for draws in (found, found.complete())
        )
        pd.testing.assert_frame_equal(one, other)


def test_a_lonely_reference_level_makes_the_others_unknown() -> None:
    """Without stage I, the coefficient of II is not that of II against I, and the baseline is not that of I."""
    stage = np.where(ROWS.site == LONELY, ROWS.stage.replace("IV", "II"), np.where(ROWS.stage == "I", "III", "II"))
    rows = ROWS.assign(stage=pd.Categorical(stage, ["I", "II", "III"]))
    found = atm.NormalLinear.from_formula("y ~ x + stage | site", rows).bootstrap(DRAWS, random_state=0)
    lacking = [k for k, counts in enumerate(drawn(0)) if counts[LONELY] == 0]
    known = ~np.isnan(found.draws)
    assert known.sum(axis=0).tolist() == [DRAWS - len(lacking)] * 2 + [DRAWS] + [DRAWS - len(lacking)] * 2


def test_a_stratum_that_is_not_drawn() -> None:
    rows = ROWS.assign(sex=np.where((ROWS.site == LONELY) & (ROWS.index % 40 > 20), "x", ROWS.sex))
    model = atm.NormalLinear.from_formula("y | sex ~ x | site", rows)
    found = model.bootstrap(DRAWS, random_state=0)
    own = np.array([name.startswith("x:") for name in found.names])
    lacking = [k for k, counts in enumerate(drawn(0)) if counts[LONELY] == 0]
    assert own.sum() == 2
    assert np.isnan(found.draws[np.ix_(lacking, np.flatnonzero(own))]).all()
    assert not np.isnan(found.draws[:, ~own]).any()


def test_a_varying_effect_that_is_not_drawn() -> None:
    """Its effect along the response is unknown; the baseline, that of the reference level, is not."""
    model = atm.ContinuousLogit.from_formula("y ~ x + stage | site", ROWS, varying="stage", order=3)
    found = model.bootstrap(DRAWS, random_state=0)
    lacking = [k for k, counts in enumerate(drawn(0)) if counts[LONELY] == 0]
    own = np.array([name.startswith("effect of stage[T.IV]") for name in found.names])
    assert own.sum() == 4
    assert found.failed == 0
    np.testing.assert_array_equal(np.isnan(found.draws[lacking]), np.broadcast_to(own, (len(lacking), own.size)))


@pytest.mark.parametrize("options", [{}, {"varying": "stage"}])
def test_batches_are_as_memory(options: dict[str, Any], tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "rows.parquet", index=False)
    formula = "y ~ x + stage | site" if options else "y ~ x * stage | site"
    fits = [
        atm.ContinuousLogit.from_formula(formula, data, xi=1.0, order=3, **options, **TIGHT)
        for data in (ROWS, tmp_path / "rows.parquet")
    ]
    memory, batches = (fit.bootstrap(12, random_state=0).draws for fit in fits)
    assert np.isnan(memory).any()
    np.testing.assert_allclose(batches, memory, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_standard_errors_of_the_others_are_those_of_the_sandwich() -> None:
    rows = table(1, 3000)
    model = atm.ContinuousLogit.from_formula("y ~ x + stage | site", rows, order=3)
    draws = model.bootstrap(400, random_state=0)
    ratio = draws.frame()["std. error"] / np.sqrt(np.diag(model.covariance("sandwich", clusters=rows.site)))
    with pytest.warns(AnchorTMWarning, match="do not identify"):
        within = np.sqrt(np.diag(draws.covariance())) / draws.frame()["std. error"]
    for name in ("x", "stage[T.II]"):
        assert 0.85 < ratio[name] < 1.15
        assert 0.85 < within[name] < 1.15
