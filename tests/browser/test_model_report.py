"""The report on a model in a real browser: quiet, inside its window, sorted and searched; hostile names stay text."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.newplace.report import model_page

ODD = "</script><script>document.title = 'hacked'</script><img src=x onerror=\"document.title = 'hacked'\">"
FORMULAS: dict[str, tuple[Any, str]] = {
    "number": (atm.NormalLinear(1.0), "y ~ x + word | place"),
    "time": (atm.ProportionalHazards(order=3), "Surv(time, event) ~ x + word | place"),
    "class": (atm.OrdinalRegression(), "ordered(grade, 0, 1, 2) ~ x + word | place"),
}


def rows(places: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    place = np.repeat([ODD, "s" * 10_000, *(f"place {k:02}" for k in range(2, places))], 12)
    x = rng.normal(size=place.size)
    y = x + rng.normal(size=place.size) + 0.02 * np.arange(place.size) / 12
    word = rng.choice(["a", "b"], place.size)
    made = {"place": place, "x": x, "word": word, "y": y, "time": np.exp(y), "grade": np.digitize(y, [-0.5, 0.5])}
    return pd.DataFrame(made).assign(event=rng.integers(0, 2, place.size))


@cache
def page(kind: str, places: int = 40) -> str:
    model, formula = FORMULAS[kind]
    return model_page(atm.model_report(model.fit(formula, rows(places, 0)), rows(places, 1)).to_dict())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", FORMULAS)
def test_nothing_overflows_and_the_console_is_quiet(browser: Any, kind: str, scheme: str) -> None:
    browser.open(f"model-{kind}", page(kind), scheme=scheme)
    for width in (1400, 390):
        browser.resize(width)
        wide = browser.run(
            "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done("
            "document.scrollingElement.scrollWidth))))"
        )
        assert wide <= width
    assert browser.complaints() == []
    assert [address for address in browser.requested() if not address.startswith(("file:", "data:"))] == []
    assert browser.driver.title == "Does this model fit these places?"
    assert browser.run("return document.images.length") == 0
    assert browser.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("kind", FORMULAS)
def test_every_plot_is_drawn(browser: Any, kind: str) -> None:
    browser.open(f"model-{kind}", page(kind))
    drawn = browser.run(
        "return Array.from(document.querySelectorAll('figure[data-chart]'), (e) => !!e.querySelector('svg'))"
    )
    assert len(drawn) >= 5
    assert all(drawn)


def test_places_sort_and_are_found(browser: Any) -> None:
    browser.open("model-number", page("number"))
    button = next(own for own in browser.all("table.sites thead button") if own.text == "median")
    at = [own.text for own in browser.all("table.sites thead button")].index("median")
    for reverse in (True, False):
        button.send_keys("\ue007")  # Enter
        values = browser.texts(f"table.sites tbody tr > :nth-child({at + 1})")
        numbers = [float(text.replace("\u2212", "-")) for text in values]
        assert len(numbers) == 40
        assert numbers == sorted(numbers, reverse=reverse)
    browser.one("input[type=search]").send_keys("place 07")
    assert browser.texts("table.sites tbody tr th") == ["place 07"]
