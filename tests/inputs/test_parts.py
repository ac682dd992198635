"""The table of parts tells the truth: what it allows is fitted, what it does not is refused with its reason."""

import runpy
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from paths import ROOT

import anchortm as atm
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.parts import NAMES, REASONS, refuse, why_not

table = runpy.run_path(str(ROOT / "scripts" / "parts_table.py"))

RNG = np.random.default_rng(3)
N = 160
DATA = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "z": RNG.normal(size=N),
        "v": RNG.normal(size=N),
        "part": RNG.choice(["a", "b"], N),
        "person": np.repeat(np.arange(N // 4), 4),
        "site": RNG.choice(["A", "B", "C", "D"], N),
    }
)
DATA["t"] = np.exp(0.5 * DATA.x - 0.3 * DATA.z + 0.5 * RNG.normal(size=N))
DATA["code"] = pd.Categorical([f"k{k}" for k in np.arange(N) % 120])
PARTS = table["ROWS"]
OTHERS = ("partial", "mean", "batches", "boosting", "infinite")


def fit(parts: set[str], tmp_path: Any = None) -> Any:
    """Fit a model that has these parts, by a formula."""
    left, right = ("t | part" if "strata" in parts else "t"), ["x", "z"]
    right += ["(1 | person)"] if "random" in parts else []
    right += ["s(v, 5)"] if "smooth" in parts else []
    right += ["code"] if "wide" in parts else []
    options: dict[str, Any] = {"xi": np.inf if "infinite" in parts else 0.5, "max_iter": 500}
    options |= {"varying": "z"} if "varying" in parts else {}
    options |= {"scale": "x"} if "scale" in parts else {}
    options |= {key: 0.02 for key in ("l1", "l2") if key in parts}
    data: Any = DATA
    if "batches" in parts:
        DATA.astype({"code": str}).to_parquet(tmp_path / "rows.parquet")
        data = tmp_path / "rows.parquet"
    formula = f"{left} ~ {' + '.join(right)} | site"
    if "partial" in parts:
        return atm.CoxPH.from_formula(formula.replace("t ", "Surv(t, t > 0) ", 1), data, **options)
    if "mean" in parts:
        return atm.AnchorGLM.from_formula(formula, data, **options)
    if "boosting" in parts:
        xi = options.pop("xi")
        base = atm.NormalLinear(**options)
        return atm.AnchorBoostedTM.from_formula(formula, data, model=base, xi=xi, n_rounds=2)
    return atm.NormalLinear.from_formula(formula, data, **options)


PAIRS = [*combinations(PARTS, 2), *((part, other) for part in PARTS for other in OTHERS)]
ELSEWHERE = {  # pairs that these data cannot show
    ("wide", "boosting"): "trees take dense columns; a factor becomes its columns",
    ("wide", "partial"): "these data are separated",
    ("strata", "infinite"): "over-identified for these data",
    ("varying", "infinite"): "over-identified for these data",
    ("scale", "infinite"): "over-identified for these data",
    ("wide", "infinite"): "over-identified for these data",
}


@pytest.mark.filterwarnings("ignore::anchortm.exceptions.AnchorTMWarning")
@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in ELSEWHERE], ids=" and ".join)
def test_every_pair_is_fitted_or_refused_as_the_table_says(pair: tuple[str, str], tmp_path) -> None:
    reason = why_not(*pair)
    if reason is None:
        model = fit(set(pair), tmp_path)
        assert np.isfinite(model.nll(DATA)).all()
        assert model.converged_
        return
    with pytest.raises((InputError, InputTypeError)) as refused:
        fit(set(pair), tmp_path)
    assert reason in str(refused.value)
    if pair != ("wide", "batches"):  # that message names the column
        assert all(NAMES[part] in str(refused.value) for part in pair)


def test_the_page_has_the_table() -> None:
    """If this fails, run scripts/parts_table.py."""
    text = table["PAGE"].read_text()
    assert table["page"](text) == text


def test_the_table_is_complete() -> None:
    assert all(len(pair) == 2 and pair <= set(NAMES) for pair in REASONS)
    refuse("strata", "varying", "l1", "transformation")
    with pytest.raises(InputError, match=r"scale effects cannot be combined with AnchorGLM: .* no baseline in y"):
        refuse("scale", "mean")
    with pytest.raises(InputTypeError, match="CoxPH"):
        refuse("partial", "batches")


@pytest.mark.parametrize("part", ["strata", "varying", "scale"])
def test_xi_below_0_names_the_part_that_does_not_go_with_it(part: str) -> None:
    """The solver used to say that this needs NormalLinear with exact rows, which it was."""
    options = {"strata": "part", "varying": "z", "scale": "z"}
    X = DATA[["x", "z", "part"]] if part == "strata" else DATA[["x", "z"]]
    model = atm.NormalLinear(-0.2, **{part: options[part]})
    with pytest.raises(InputError, match=f"{NAMES[part]}|xi must be at least 0 with scale effects"):
        model.fit(X, DATA.t, anchors=DATA.site)
