"""The report of an assessment in a real browser: what moves, sorts and filters; on screens, in print, by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from browser import record

from anchortm.newplace.report import assessment_page

Pages = Callable[[str], str]
SLIDER = "input[type=range]"
NAMES = ("large", "small", "hostile", "survival", "classes", "counts")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_overflows_and_the_console_is_quiet(browser: Any, pages: Pages, name: str, scheme: str) -> None:
    browser.open(name, pages(name), scheme=scheme)
    for width in (1400, 390):
        browser.resize(width)
        wide, ground = browser.run(
            "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done("
            "[document.scrollingElement.scrollWidth, getComputedStyle(document.body).backgroundColor]))))"
        )
        assert wide <= width
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")
        boxes = browser.run(
            "return Array.from(document.querySelectorAll('.plot > svg, .panel > svg, .plot > div > svg'), (e) => "
            "{const a = e.getBoundingClientRect(), b = e.parentNode.getBoundingClientRect(); return a.right - b.right})"
        )
        assert boxes
        assert max(boxes) < 1
        scales = browser.run(
            "return Array.from(document.querySelectorAll('.plot svg[role]'), (e) => "
            "e.getBoundingClientRect().width / e.viewBox.baseVal.width)"
        )
        assert min(scales) > 0.98  # letters of a plot that is scaled down are too small to read
    assert browser.complaints() == []
    assert [address for address in browser.requested() if not address.startswith(("file:", "data:"))] == []


def test_texts_of_plots_are_inside_their_sections(browser: Any, pages: Pages) -> None:
    """Labels that a plot would cut or push over its edge are seen by nobody."""
    script = """return Array.from(document.querySelectorAll('.plot svg text')).map((e) => {
      const a = e.getBoundingClientRect(), b = e.closest('section').getBoundingClientRect();
      return [a.left - b.left, b.right - a.right, e.textContent]})"""
    for name in ("large", "survival", "classes", "counts"):
        for width in (1400, 390):
            browser.open(name, pages(name), width=width)
            assert [found for found in browser.run(script) if min(found[:2]) < 0] == []


@pytest.mark.parametrize(("name", "curves"), [("large", 3), ("survival", 3), ("counts", 36), ("classes", 9)])
def test_the_slider_moves_curves_and_leaves_maximum_likelihood(
    browser: Any, pages: Pages, name: str, curves: int
) -> None:
    browser.open(name, pages(name))
    moved = "width" if name in ("counts", "classes") else "d"
    slider = browser.one(SLIDER)
    seen, reference, dots, words = [], [], [], []
    for keys in ("\ue011", "\ue014", "\ue014"):  # Home, right, right
        slider.send_keys(keys)
        seen.append(browser.attributes(".curve-xi", moved))
        reference.append(browser.attributes(".curve-ml", "d"))
        dots.append(browser.attributes("circle.site", "cx"))
        words.append(browser.one("#live").get_attribute("textContent"))
    assert [len(found) for found in seen] == [curves] * 3
    assert all(a != b for first, second in pairwise(seen) for a, b in zip(first, second, strict=True))
    assert reference[0] == reference[1] == reference[2]
    assert len(set(map(tuple, dots))) == 3
    assert len(set(words)) == 3
    assert slider.get_attribute("aria-valuetext") == "xi = 1"
    if moved == "d":
        assert seen[0] == reference[0]  # xi = 0 is maximum likelihood


def test_the_slider_moves_coefficients_on_the_scale_of_the_outcome(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"))
    selector = "figure[data-chart=explorer] circle.solid.c1:not(.site)"
    before = browser.attributes(selector, "cx")
    reference = browser.attributes("figure[data-chart=explorer] circle.hollow.c0", "cx")
    browser.one(SLIDER).send_keys("\ue010")  # End
    assert len(before) == 8
    assert browser.attributes(selector, "cx") != before
    assert browser.attributes("figure[data-chart=explorer] circle.hollow.c0", "cx") == reference


def test_profiles_and_survival_curves_can_be_chosen(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"))
    density = browser.attributes(".curve-ml", "d")
    browser.one("input[id$='-survival']").send_keys(" ")
    survival = browser.attributes(".curve-ml", "d")
    assert len(survival) == 3
    assert survival != density
    browser.one("input[id$='-profile-1']").send_keys(" ")
    assert browser.texts(".panel h4")[:2] == ["Cheap towns", "Dear towns"]
    assert browser.run("return document.activeElement.id").endswith("-profile-1")


def test_the_strategy_of_gains_can_be_chosen(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"))
    before = browser.attributes("figure[data-chart=dots] circle.solid", "cy")
    browser.one("figure[data-chart=dots] input[value='2']").send_keys(" ")
    assert browser.attributes("figure[data-chart=dots] circle.solid", "cy") != before
    assert browser.attributes("figure[data-chart=dots] circle.solid.c2", "cy")


def test_tables_sort_both_ways_and_say_so(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"))
    gains = {site["name"]: site["gains"]["anchored"] for site in record.large()["sites"]}
    button = next(b for b in browser.all("table.sites thead button") if b.text == "gain anchored")
    for order, reverse in (("descending", True), ("ascending", False)):
        button.send_keys("\ue007")  # Enter
        names = browser.texts("table.sites tbody th")
        assert names == sorted(gains, key=gains.__getitem__, reverse=reverse)
        assert [v for v in browser.attributes("table.sites thead th", "aria-sort") if v] == [order]
    first = browser.one("table.sites thead button")
    first.send_keys("\ue007")
    assert browser.texts("table.sites tbody th") == sorted(gains)
    assert browser.attributes("table.sites thead th", "aria-sort")[0] == "ascending"
    assert "Sorted by town" in browser.one("#live").get_attribute("textContent")


def test_the_search_filters_sites(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"))
    field = browser.one(".controls input[type=search]")
    field.send_keys("town 4")
    assert browser.texts("table.sites tbody th") == [s["name"] for s in record.large()["sites"] if s["name"][5] == "4"]
    field.send_keys("\ue003" * 6 + "no such town")
    assert browser.texts("table.sites tbody th") == []
    field.clear()
    field.send_keys(" ")
    assert len(browser.texts("table.sites tbody th")) == 92


def test_numbers_appear_on_hover_and_by_keyboard(browser: Any, pages: Pages) -> None:
    from selenium.webdriver import ActionChains

    browser.open("large", pages("large"))
    best = max(record.large()["sites"], key=lambda site: site["gains"]["anchored"])
    plot = browser.one("figure[data-chart=dots] svg[tabindex]")
    browser.run("arguments[0].focus()", plot)
    browser.press("\ue014")
    assert browser.one(".tip").text.startswith(best["name"])
    assert f"gain +{best['gains']['anchored']:.3f}" in browser.one("#live").get_attribute("textContent")
    browser.press("\ue00c")  # Escape
    assert not browser.one(".tip").is_displayed()
    ActionChains(browser.driver, duration=0).move_to_element(
        browser.one("figure[data-chart=dots] circle.solid")
    ).perform()
    assert "gain" in browser.one(".tip").text


def test_everything_is_reached_by_keyboard(browser: Any, pages: Pages) -> None:
    browser.open("small", pages("small"))
    browser.press("\ue004")  # Tab
    assert browser.run("return document.activeElement.className") == "skip"
    browser.open("large", pages("large"))
    reached = set()
    for _ in range(120):
        browser.press("\ue004")
        reached.add(
            browser.run(
                "const e = document.activeElement;"
                "return e.type === 'range' ? 'slider' : e.closest('thead') ? 'heading' : "
                "e.type === 'search' ? 'search' : e.id === 'theme' ? 'theme' : e.matches('svg') ? 'plot' : "
                "e.textContent === 'Copy' ? 'copy' : e.tagName"
            )
        )
        if "copy" in reached:
            break
    assert {"slider", "heading", "search", "theme", "plot", "copy", "SUMMARY"} <= reached


def test_screen_readers_find_names_for_everything(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"))
    assert browser.run(
        """const named = (e) => e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length);
        const all = document.querySelectorAll('button, input, svg[role], [tabindex="0"], summary, a');
        return Array.from(all).filter((e) => !named(e)).length"""
    ) == 0  # fmt: skip
    assert browser.run("return Array.from(document.querySelectorAll('table')).every((t) => t.caption && t.tHead)")
    assert browser.run("return document.querySelectorAll('h1').length") == 1
    ids = browser.attributes("[id]", "id")
    assert len(ids) == len(set(ids))


def test_the_theme_can_be_switched(browser: Any, pages: Pages) -> None:
    browser.open("small", pages("small"), scheme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = browser.run(ground)
    browser.one("#theme").send_keys("\ue007")
    assert browser.run(ground) != before
    assert browser.one("#theme").text == "Dark colours"


def test_it_prints(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"), scheme="dark")
    made = browser.pdf()
    assert made.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", made)) > 1
    assert len(made) < 3_000_000
    assert browser.complaints() == []


def test_paper_is_light_and_no_plot_is_wider_than_it(browser: Any, pages: Pages) -> None:
    browser.open("large", pages("large"), scheme="dark")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.resize(690)  # A4 without its margins
        browser.run("window.dispatchEvent(new Event('beforeprint'))")
        edges = browser.run(
            "return Array.from(document.querySelectorAll('.plot svg[role]'), (e) => e.getBoundingClientRect().right)"
        )
        assert max(edges) <= 690
        assert browser.run("return document.scrollingElement.scrollWidth") <= 690
        assert browser.texts("button, input, nav, .controls") == []
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.run("return getComputedStyle(document.body).color") == "rgb(26, 32, 39)"
        assert "gain anchored" in browser.texts("table.sites thead .paper")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})


def test_infinite_xi_is_the_last_position_of_the_slider(browser: Any) -> None:
    own = record.large(5)
    for part in ("views", "path", "effects"):
        own[part]["xis"] = [*own[part]["xis"][:-1], None]  # JSON has no infinity
    browser.open("infinite", assessment_page(own))
    slider = browser.one(SLIDER)
    assert slider.get_attribute("aria-valuetext") == "xi = 3 (recommended)"
    slider.send_keys("\ue010")
    assert slider.get_attribute("aria-valuetext") == "xi = \u221e"
    assert browser.complaints() == []


@pytest.mark.parametrize("part", [key for key in record.small() if key not in ("about", "recommendation", "sites")])
def test_parts_that_are_missing_leave_their_section_out(part: str) -> None:
    whole = record.large(4)
    sections = assessment_page(whole).count("<section")
    without = assessment_page(whole | {part: None})
    assert sections - without.count("<section") in (0, 1)
    assert len(without) < len(assessment_page(whole))


def test_hostile_names_are_inert(browser: Any, pages: Pages) -> None:
    browser.open("hostile", pages("hostile"))
    browser.one(SLIDER).send_keys("\ue010")
    for button in browser.all("table.sites thead button")[:3]:
        button.send_keys("\ue007")
    plot = browser.one("figure[data-chart=dots] svg[tabindex]")
    browser.run("arguments[0].focus()", plot)
    browser.press("\ue014", "\ue014")
    counts = browser.run(
        "return ['script', 'img', 'iframe', '[onload], [onerror], [onclick]', '[style*=url]']"
        ".map((s) => document.querySelectorAll(s).length)"
    )
    assert counts == [2, 0, 0, 0, 0]  # the data and the script of the page
    assert browser.complaints() == []
    assert record.HOSTILE[0] in browser.texts("table.sites tbody th")
    assert "alert(1)" in browser.one("table.sites thead th").text
    heights = browser.run("return Array.from(document.querySelectorAll('table.sites tbody tr'), (e) => e.offsetHeight)")
    assert max(heights) < 500


def test_the_policy_refuses_other_scripts(browser: Any, pages: Pages) -> None:
    """The policy is at work: without it, the test of hostile names would rest on escaping alone."""
    browser.open("injected", pages("small").replace("</main>", "<script>window.ran = 1</script></main>"))
    assert browser.run("return window.ran") is None
    assert "Content Security Policy" in browser.complaints()[0]


def test_undecided_is_an_answer(browser: Any, pages: Pages) -> None:
    browser.open("small", pages("small"))
    assert browser.texts("#s1 .answer .headline") == ["The data do not decide"]
    assert browser.texts("#s1 article h3") == ["For a place like these", "For a place further out"]
    assert browser.texts(SLIDER) == []
    assert "20" in browser.texts("#s1 article:first-of-type dd")


def test_all_numbers_are_there_without_a_script(browser: Any, pages: Pages) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open("large", pages("large"))
        rows = [element.text for element in browser.all("table.sites tbody th")]
        medians = browser.one("figure[data-chart=explorer] table").get_attribute("textContent")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert rows == [site["name"] for site in record.large()["sites"]]
    assert "Cheap towns" in medians


def test_the_file_is_small_and_whole() -> None:
    """It names no address but the one of SVG, and a page of 100 sites is small."""
    made = assessment_page(record.large(100))
    assert len(made.encode()) < 400_000
    assert set(re.findall(r"https?://[^\s\"'<]*", made)) == {"http://www.w3.org/2000/svg"}
    assert "eval(" not in made
    assert "innerHTML" not in made
    assert not re.search(r"<[^>]+\s(style|on\w+)=", made.partition("<body>")[2].partition('<script type="app')[0])
