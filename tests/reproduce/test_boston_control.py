"""The control for Figure 4: numbers against fits by hand and a closed form, the findings, and the page."""

import csv
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from anchortm.reproduce import boston_control
from anchortm.reproduce.boston import PART
from anchortm.reproduce.boston_control import FACTORS, FAILS, HOLDS, XIS, findings, lead, tables
from anchortm.reproduce.boston_data import MODELS, model_of, outcome, read, towns
from anchortm.reproduce.engine import Arrays, Claim
from anchortm.reproduce.table import FIELDS

ROOT = Path(__file__).resolve().parents[2]
script = runpy.run_path(str(ROOT / "scripts" / "what_holds.py"))
MISSED = """docs/what_holds.md is not what its script writes: run `anchortm reproduce boston --output FOLDER` and
`python scripts/what_holds.py FOLDER --keep`."""


@pytest.fixture(scope="module")
def arrays(boston: Path) -> Arrays:
    (kept,) = (boston / "computed").glob("boston-*.npz")
    with np.load(kept) as file:
        return dict(file)


@pytest.mark.parametrize("name", ["Lm", "c-logit (censored)"])
@pytest.mark.parametrize("place", ["Boston Beacon Hill", "Cambridge"])
def test_fits_by_hand(arrays: Arrays, name: str, place: str) -> None:
    """A fit to the other towns, made wider, or with xi = 10: NLL, squared error and the two parts of the change."""
    X, price, town = read()
    out = (town == place).to_numpy()
    y, k, i = outcome(name, price), MODELS.index(name), towns().index(place)
    plain, anchored = (model_of(name).set_params(xi=xi).fit(X[~out], y[~out], anchors=town[~out]) for xi in (0.0, 10.0))
    for factor in (1.0, 1.5, 5.0):
        wider = plain.widened(factor)
        (at,) = np.flatnonzero(factor == FACTORS)
        assert arrays["control_factor"][k, i, at] == pytest.approx(wider.nll(X[out], y[out]).mean(), rel=1e-6)
        np.testing.assert_allclose(wider.predict(X[out]), plain.predict(X[out]))  # medians stay
    at = XIS.index(10.0)
    assert arrays["control_xi"][k, i, at] == pytest.approx(anchored.nll(X[out], y[out]).mean(), rel=1e-6)
    errors = (anchored.predict(X[out]) - price[out]) ** 2
    assert arrays["control_squared_error"][k, i, at] == pytest.approx(errors.mean(), rel=1e-6)
    # how much wider xi = 10 is: slopes of h between the 5 % and 95 % points at xi = 0
    low, high = plain.predict_quantiles(X[out], [0.05, 0.95]).T
    steps = [
        np.array([float(np.diff(fit.predict_distribution(X[out][j : j + 1]).trafo(np.array([a, b])))[0, 0])
                  for j, (a, b) in enumerate(zip(low, high, strict=True))])
        for fit in (plain, anchored)
    ]  # fmt: skip
    factor = float(np.exp(np.log(steps[0] / steps[1]).mean()))
    assert arrays["control_width"][k, i, at] == pytest.approx(factor, rel=1e-6)
    as_wide = plain.widened(factor).nll(X[out], y[out]).mean() - plain.nll(X[out], y[out]).mean()
    assert arrays["control_spread"][k, i, at] == pytest.approx(as_wide, rel=1e-6)
    if (name, place) == ("Lm", "Boston Beacon Hill"):  # the other order: medians first, as wide as at xi = 0
        sigma = anchored.sigma_ / factor
        nll = math.log(sigma) + 0.5 * math.log(2 * math.pi) + errors.mean() / (2 * sigma**2)
        assert arrays["control_order"][k] == pytest.approx(nll - plain.nll(X[out], y[out]).mean(), rel=1e-6)


def test_all_factors_of_the_linear_model_follow_the_closed_form(arrays: Arrays) -> None:
    """NLL = log(sigma factor) + log(2 pi) / 2 + e^2 / (2 sigma^2 factor^2), with sigma and e of least squares."""
    X, price, town = read()
    design = np.column_stack([np.ones(len(X)), X])
    expected, medians = [], []
    for place in towns():
        out = (town == place).to_numpy()
        slopes, rss = np.linalg.lstsq(design[~out], price[~out], rcond=None)[:2]
        variance, error = rss[0] / (~out).sum(), np.mean((price[out] - design[out] @ slopes) ** 2)
        fine = np.linspace(1.0, 12.0, 20_001)
        both = [0.5 * np.log(2 * np.pi * variance * f**2) + error / (2 * variance * f**2) for f in (FACTORS, fine)]
        expected.append(both[0])
        medians.append(both[1])
    np.testing.assert_allclose(arrays["control_factor"][0], expected, rtol=1e-7)
    # the lead of xi, by the factor at which the median towns are equal
    worst, median = np.max(medians, axis=0), np.median(medians, axis=0)
    for j, nll in enumerate(arrays["control_xi"][0, :, 1:].T):
        limit = np.median(nll)
        assert lead(arrays)[0, j] == pytest.approx(worst[median <= limit].min() - nll.max(), abs=0.02)


def test_width_alone_gets_the_same_worst_town(arrays: Arrays) -> None:
    """The finding with its numbers: 4.62 at a median of 4.37 by xi = 30, 4.65 at 4.23 by five times the width."""
    along = tables(arrays)["boston_control"].query("model == 'Lm'")
    best = along.loc[along.groupby("along").worst.idxmin()].set_index("along")
    assert best.value.to_dict() == {"xi": 30.0, "factor": 5.0}
    assert best.worst.round(2).to_dict() == {"xi": 4.62, "factor": 4.65}
    assert best["median"].round(2).to_dict() == {"xi": 4.37, "factor": 4.23}
    start = along.query("along == 'xi' and value == 0").iloc[0]
    assert (start.worst - best.worst["factor"]) / (start.worst - best.worst["xi"]) > 0.99
    # medians do move with xi: towards the worst town, away from the average one
    assert best.squared_error_worst["xi"] / start.squared_error_worst == pytest.approx(0.864, abs=1e-3)
    assert best.squared_error_mean["xi"] / start.squared_error_mean == pytest.approx(1.112, abs=1e-3)
    assert best.squared_error_mean["factor"] == pytest.approx(start.squared_error_mean, rel=1e-12)
    found = findings(arrays)
    assert [one.id for one in found] == ["W1", "W2", "W3", "W4", "W5"]
    assert {one.verdict for one in found} == {HOLDS}
    towns_of = tables(arrays)["boston_control_towns"]
    np.testing.assert_allclose(
        towns_of.spread + towns_of.location,
        towns_of.nll - towns_of.groupby(["model", "town"]).nll.transform("first"),
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("finding", "change"),
    [
        ("W1", lambda a: {"control_factor": a["control_factor"] + 2.0}),
        ("W2", lambda a: {"control_spread": 0.4 * a["control_spread"]}),
        ("W3", lambda a: {"control_factor": a["control_factor"] + 2.0}),
        ("W4", lambda a: {"control_squared_error": a["control_squared_error"][..., ::-1]}),
        ("W5", lambda a: {"control_xi": a["control_xi"] * np.where(np.arange(7) == 3, 0.1, 1.0)}),
    ],
)
def test_findings_can_fail(arrays: Arrays, finding: str, change) -> None:
    (found,) = (one for one in findings(arrays | change(arrays)) if one.id == finding)
    assert found.verdict == FAILS


def test_the_figure(arrays: Arrays) -> None:
    """Two curves from one point in each panel, named points, and all towns that gain."""
    left, right = boston_control.figure(arrays).subfigs
    for k, ax in enumerate(left.axes):
        assert ax.get_title() == MODELS[k]
        along_xi, along_width, start = ax.get_lines()
        np.testing.assert_allclose(along_xi.get_xydata()[0], start.get_xydata()[0])
        np.testing.assert_allclose(along_width.get_xydata()[0], start.get_xydata()[0])
        np.testing.assert_allclose(along_width.get_ydata(), arrays["control_factor"][k].max(axis=0))
        assert {"xi 10", "×3"} <= {text.get_text() for text in ax.texts}
    names = [label.get_text() for label in right.axes[0].get_yticklabels()]
    change = arrays["control_xi"][0, :, XIS.index(10.0)] - arrays["control_xi"][0, :, 0]
    assert len(names) == (change < 0).sum() + 1
    assert names[0] == "Boston Beacon Hill (3)"
    assert names[-1] == f"{(change >= 0).sum()} other towns (mean)"


def test_the_page_is_what_its_script_writes(boston: Path) -> None:
    text = (ROOT / "docs" / "what_holds.md").read_text(encoding="utf-8")
    with open(boston / "claims.csv", newline="", encoding="utf-8") as file:
        computed = [Claim(*(row[name] for name in FIELDS)) for row in csv.DictReader(file)]
    assert [one.id for one in computed] == [f"B{k}" for k in range(1, 14)]
    claims = script["with_kept"](computed, text)
    assert len(claims) == script["N_CLAIMS"] == 55
    assert script["page"](claims, boston) == text, MISSED
    assert (ROOT / "docs" / "images" / "paper" / "control_boston.png").stat().st_size > 50_000


def test_the_page_refuses_findings_that_do_not_hold(boston: Path, tmp_path: Path) -> None:
    for name in ("boston_control.csv", "boston_findings.csv"):
        (tmp_path / name).write_text((boston / name).read_text().replace(",holds", ",does not hold"))
    with pytest.raises(SystemExit, match="no longer hold: W1, W2, W3, W4, W5"):
        script["page"]([], tmp_path)


def test_stored_results_depend_on_the_code_of_the_control() -> None:
    assert boston_control in PART.code
