"""The page of a report on a model: whole, closed to the network, inert to hostile names, and silent on single rows."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.newplace.report import model_page

ODD = "</script><script>alert(1)</script>\" onload='alert(2)' <img src=x onerror=alert(3)>"


def rows(n_places: int = 12, seed: int = 0, n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    place = np.repeat([ODD, "s" * 10_000, *(f"place {k}" for k in range(2, n_places))], n)
    x = rng.normal(size=place.size)
    data = pd.DataFrame({"place": place, "x<b>": x, "word": rng.choice(["a", "<i>b</i>", "c"], place.size)})
    data["y"] = x + rng.normal(size=place.size)
    return data.assign(
        time=np.exp(data.y), event=rng.integers(0, 2, place.size), grade=np.digitize(data.y, [-0.5, 0.5])
    )


OLD, NEW = rows(), rows(seed=1)
FORMULAS: dict[str, tuple[Any, str]] = {
    "number": (atm.NormalLinear(1.0), "y ~ `x<b>` + word | place"),
    "time": (atm.ProportionalHazards(order=3), "Surv(time, event) ~ `x<b>` + word | place"),
    "steps": (atm.CoxPH(), "Surv(time, event) ~ `x<b>` + word | place"),
    "class": (atm.OrdinalRegression(), "ordered(grade, 0, 1, 2) ~ `x<b>` + word | place"),
    "mean": (atm.AnchorGLM(family="gaussian"), "y ~ `x<b>` + word | place"),
}


class Outline(HTMLParser):
    """The headings of a page, what it may load, and the scripts and handlers that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.scripts, self.loaded, self.handlers, self.open, self.cells = 0, [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.scripts += tag == "script"
        self.loaded += [names[key] for key in ("src", "href") if names.get(key)]
        self.handlers += [key for key in names if key.startswith("on")]
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if "td" in self.open[-2:] or "th" in self.open[-2:]:
            self.cells.append(data)


@pytest.mark.parametrize("kind", FORMULAS)
def test_the_page_is_whole_and_inert(kind: str, tmp_path: Path) -> None:
    model, formula = FORMULAS[kind]
    found = atm.model_report(model.fit(formula, OLD), NEW, source={"command": f"anchortm report {ODD}"})
    text = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    outline = Outline(text)
    assert outline.open == []
    assert outline.scripts == 2, "the data and our own script"
    assert outline.handlers == []
    assert all(address.startswith(("#", "data:")) for address in outline.loaded)
    assert "default-src 'none'" in text
    assert "<img" not in text
    data = json.loads(re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, re.S)[1])
    assert len(data["charts"]) >= 3
    for heading in ("What this report says", "The model", "What it predicts at each place", "All places"):
        assert heading in outline.headings
    assert "s" * 400 not in text, "long names are cut"


def test_the_table_shows_the_record() -> None:
    model, formula = FORMULAS["number"]
    record = atm.model_report(model.fit(formula, OLD), NEW).to_dict()
    cells = Outline(model_page(record)).cells
    site = next(site for site in record["sites"] if site["name"] == "place 5")
    at = cells.index("place 5")
    shown = cells[at : at + 15]
    expected = [f"{site[key]:.3g}".replace("-", "\u2212") for key in ("q10", "q90", "nll")]
    assert [one for one in expected if one.rstrip("0") not in [cell.rstrip("0") for cell in shown]] == []
    assert f"{site['residual']:+.3f}".replace("-", "\u2212") in shown
    assert f"{100 * site['coverage']['90']:.0f}\u202f%" in shown


def test_what_is_not_known_is_left_out() -> None:
    model, formula = FORMULAS["number"]
    model = model.fit(formula, OLD)
    blind = Outline(model_page(atm.model_report(model, NEW.drop(columns="y")).to_dict())).headings
    assert "Are predictions calibrated here?" not in blind
    assert "Do outcomes agree with predictions at each place?" not in blind
    nothing = model_page(atm.model_report(model, NEW.assign(**{"x<b>": np.nan})).to_dict())
    assert "None of the 144 rows can be predicted: x&lt;b&gt; is missing (144 rows)." in nothing
    assert "What it predicts at each place" not in Outline(nothing).headings
    alone = model_page(atm.model_report(model, NEW.drop(columns="place")).to_dict())
    assert "Do outcomes agree with predictions at each place?" not in Outline(alone).headings
    assert "(all)" in Outline(alone).cells


def test_no_single_row_is_in_it() -> None:
    """The digits of no outcome or covariate occur, and the entries of bad rows do not either."""
    model, formula = FORMULAS["number"]
    new = NEW.copy()
    new.loc[3, "word"] = "patient-4711"
    text = model_page(atm.model_report(model.fit(formula, OLD), new).to_dict())
    assert "4711" not in text
    data = re.search(r'id="report-data">(.*?)</script>', text, re.S)[1]
    for value in [*new.y, *new["x<b>"]]:
        assert f"{value:.5g}" not in re.findall(r"-?\d+\.\d+", data)


def test_a_hundred_places_are_a_small_file() -> None:
    model, formula = FORMULAS["time"]
    many = rows(100, 2)
    text = model_page(atm.model_report(model.fit(formula, many), many).to_dict())
    assert len(text) < 500_000
