"""Parts of models on tables that are read in batches: the fits are those in memory."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated import same_fit, table

import anchortm as atm
from anchortm.backends import scan, sources

TIGHT = {"tol": 1e-10}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    data = table(2400, 3)
    place = rng.integers(0, 130, len(data))
    shift = 0.5 * rng.normal(size=130)
    y = data.y * np.exp(0.2 * shift[place])
    limit = float(np.quantile(y, 0.9))
    return data.assign(
        y=y,
        time=np.minimum(y, limit),
        event=y < limit,
        place=[f"p{k:03d}" for k in place],
        spot=[f"q{k:03d}" for k in rng.integers(0, 105, len(data))],
        half=np.where(rng.random(len(data)) < 0.5, "left", "right"),
        noise=rng.normal(size=len(data)),
        more=rng.normal(size=len(data)),
        copies=rng.integers(1, 4, len(data)).astype(float),
    )


@pytest.fixture(scope="module")
def files(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for k, part in enumerate((rows[:300], rows[300:1500], rows[1500:])):
        part.to_parquet(folder / f"part{k}.parquet", row_group_size=170, index=False)
    return folder


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ROWS", 500)


SURV = "Surv(time, event)"
BOTH = {"sample_weight": "copies", "offset": "shift"}
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "strata": (atm.ContinuousLogit, f"{SURV} | group ~ x0 + x1 | site", {"xi": 2.0, "order": 3}),
    "two strata": (atm.ContinuousProbit, "y | group + half ~ x0 | site", {"xi": 2.0, "order": 3} | BOTH),
    "strata of lines": (atm.NormalLinear, "y | region ~ x0 + x1 | site", {"xi": 2.0}),
    "strata of classes": (atm.OrdinalRegression, "quality | group ~ x0 | site", {"xi": 2.0}),
    "varying number": (atm.ContinuousLogit, f"{SURV} ~ x0 + x1 | site", {"xi": 1.0, "order": 3, "varying": ["x1"]}),
    "varying factor": (atm.ContinuousLogit, "y ~ x0 + group | site", {"xi": 1.0, "order": 3, "varying": "group"}),
    "varying binary": (atm.OrdinalRegression, "quality ~ x0 + half | site", {"xi": 1.0, "varying": "half"}),
    "varying and strata": (
        atm.ContinuousLogit,
        "y | group ~ x0 + x1 | site",
        {"xi": 1.0, "order": 3, "varying": {"x1": (-5.0, 6.0)}} | BOTH,
    ),
    "scale": (atm.ContinuousLogit, f"{SURV} ~ x0 + x1 | site", {"xi": 2.0, "order": 3, "scale": "x0"}),
    "scale, its own xi": (
        atm.ContinuousProbit,
        "y ~ x0 + group | site",
        {"xi": 2.0, "order": 3, "scale": "x0 + group", "xi_scale": 0.5} | BOTH,
    ),
    "scale without anchors": (atm.OrdinalRegression, "quality ~ x0 + x1", {"scale": ["x1"]}),
    "scale and strata": (
        atm.ContinuousLogit,
        f"{SURV} | half ~ x0 + x1 | site",
        {"xi": 2.0, "order": 3, "scale": "x0"} | BOTH,
    ),
    "scale and varying": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 | site",
        {"xi": 1.0, "order": 3, "scale": "x0", "varying": ["x1"]},
    ),
    "scale and ridge": (
        atm.ContinuousProbit,
        "y ~ x0 + x1 + noise | site",
        {"xi": 1.0, "order": 3, "scale": ["x0"], "l2": 0.1, "penalty_factor": "deviation"} | BOTH,
    ),
    "scale and lasso": (
        atm.ContinuousLogit,
        f"{SURV} ~ x0 + x1 + noise | site",
        {"xi": 1.0, "order": 3, "scale": ["x0"], "l1": 0.05},
    ),
    "scale and smooth": (
        atm.ContinuousLogit,
        "y ~ s(x0, 5) + x1 | site",
        {"xi": 1.0, "order": 3, "scale": "x1", "smooth": 0.1},
    ),
    "smooth scale": (
        atm.ContinuousLogit,
        "y ~ s(x0, 5) + x1 | site",
        {"xi": 1.0, "order": 3, "scale": "s(x0, 5)", "xi_scale": 0.1, "smooth": 0.1} | BOTH,
    ),
    "smooth": (atm.ContinuousLogit, f"{SURV} ~ s(x0) + x1 | site", {"xi": 2.0, "order": 3, "smooth": 0.1}),
    "smooth and strata": (
        atm.ContinuousLogit,
        "y | group ~ s(x0, 6) + x1 | site",
        {"xi": 2.0, "order": 3, "smooth": 0.1} | BOTH,
    ),
    "lasso": (
        atm.ContinuousLogit,
        f"{SURV} ~ x0 + x1 + x2 + noise + more | site",
        {"xi": 2.0, "order": 3, "l1": 0.02},
    ),
    "lasso by deviations": (
        atm.ContinuousProbit,
        "y ~ x0 + x1 + x2 + noise + more + I(10 * year) | site",
        {"xi": 1.0, "order": 3, "l1": 0.02, "l2": 0.01, "penalty_factor": "deviation"} | BOTH,
    ),
    "lasso without anchors": (atm.OrdinalRegression, "quality ~ x0 + x1 + noise + more + group", {"l1": 0.05}),
    "ridge by deviations": (
        atm.ContinuousLogit,
        "y ~ x0 + I(10 * year) | site",
        {"xi": 1.0, "order": 3, "l2": 0.1, "penalty_factor": "deviation", "sample_weight": "share"},
    ),
    "lasso, strata and smooth": (
        atm.ContinuousLogit,
        "y | half ~ s(x0, 5) + x1 + noise | site",
        {"xi": 1.0, "order": 3, "l1": 0.02, "smooth": 0.1},
    ),
    "lasso and varying": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 + noise | site",
        {"xi": 1.0, "order": 3, "l1": 0.02, "varying": ["x1"]} | BOTH,
    ),
    "wide": (atm.ContinuousLogit, f"{SURV} ~ x0 + x1 + place | region", {"xi": 1.0, "order": 3}),
    "wide, normal": (atm.ContinuousProbit, "y ~ x0 + place | region", {"xi": 1.0, "order": 3} | BOTH),
    "wide, twice": (atm.ContinuousLogit, "y ~ x0 + place + spot", {"order": 3}),
    "wide, intervals": (atm.ContinuousLogit, "Interval(low, high) ~ x0 + place | year", {"xi": 1.0, "order": 3} | BOTH),
    "wide and strata": (atm.ContinuousLogit, f"{SURV} | half ~ x0 + place | year", {"xi": 1.0, "order": 2} | BOTH),
    "wide and varying": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 + place | year",
        {"xi": 1.0, "order": 2, "varying": ["x1"]},
    ),
    "wide and scale": (atm.ContinuousLogit, "y ~ x0 + place | year", {"xi": 1.0, "order": 2, "scale": "x0"}),
    "wide and lasso": (atm.ContinuousLogit, f"{SURV} ~ x0 + noise + place", {"order": 2, "l1": 0.01} | BOTH),
    "wide and smooth": (atm.ContinuousProbit, "y ~ s(x0, 5) + place", {"order": 2}),
    "the limit with strata": (atm.ContinuousLogit, f"{SURV} | half ~ x0 + x1 | year", {"xi": math.inf, "order": 2}),
    "the limit with a scale": (
        atm.ContinuousLogit,
        "y ~ x0 + x1 | year",
        {"xi": math.inf, "xi_scale": 0.0, "order": 2, "scale": "x0"},
    ),
    "the limit with a ridge": (atm.ContinuousLogit, "y ~ x0 + x1 | year", {"xi": math.inf, "order": 2, "l2": 0.1}),
    "the limit with a lasso": (atm.ContinuousLogit, "y ~ x0 + noise | year", {"xi": math.inf, "order": 2, "l1": 0.01}),
    "the limit with a wide factor": (atm.ContinuousLogit, "y ~ x0 + place | year", {"xi": math.inf, "order": 2}),
}


MOST_PASSES = 30  # with start values from a tenth of the rows


@pytest.mark.parametrize("case", CASES)
def test_batches_and_memory_agree(case: str, rows: pd.DataFrame, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether start values come from all rows or from a tenth of them."""
    model, formula, options = CASES[case]
    tight = options | TIGHT
    memory = model.from_formula(formula, rows, **tight)
    same_fit(model.from_formula(formula, files, **tight), memory)
    monkeypatch.setattr(scan, "SAMPLE_ROWS", 240)
    streamed = model.from_formula(formula, files, **tight)
    same_fit(streamed, memory, sampled=True)
    print(case, streamed.n_passes_)
    assert streamed.n_passes_ <= MOST_PASSES
