"""The site in a real browser: its pages fit their windows, ask for nothing else, and miss no picture and no page."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.window import CHROMIUM, DRIVER
from paths import ROOT

screens = runpy.run_path(str(ROOT / "scripts" / "screens.py"))


def site(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        head = f'<head><title>{name}</title><link rel="icon" href="data:,"></head>'
        page = f"<!DOCTYPE html><html>{head}<body>{body}</body></html>"
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    good = '<h1 id="top">x</h1><a href="b.html#there">b</a><a href="#top">x</a><a href="https://example.org">y</a>'
    bad = '<p id="there">x</p><a href="c.html">c</a><a href="a.html#gone">a</a><img src="none.png">'
    found = screens["broken_links"](site(tmp_path, a=good, b=bad))
    assert found == [f"b.html: {target} leads nowhere" for target in ("c.html", "a.html#gone", "none.png")]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('<p style="width: 600px">wide</p>', "pixels wide"),
        ("<script>console.error('oh no')</script>", "oh no"),
        ('<img src="none.png">', "none.png is missing"),
        ('<img src="http://127.0.0.2:9/x.png">', "asks http://127.0.0.2:9/x.png"),
    ],
)
def test_pages_that_are_wrong_are_found(browser: Any, tmp_path: Path, body: str, says: str) -> None:
    looked: Callable[..., list[str]] = screens["looked_at"]
    with screens["served"](site(tmp_path, good="<p>fits</p>", bad=body)) as address:
        assert looked(browser, "good", f"{address}/good.html", tmp_path) == []
        assert any(says in line for line in looked(browser, "bad", f"{address}/bad.html", tmp_path))
    assert len(list(tmp_path.glob("good-*.png"))) == 4


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # 2026-11-19: extensions of Sphinx use names that it deprecates
def test_nothing_is_wrong_with_the_site(tmp_path: Path) -> None:
    """Built without running the gallery."""
    pytest.importorskip("sphinx", reason="the site needs the extra docs")
    if not CHROMIUM or not DRIVER:
        pytest.skip("no browser: `make browser` installs Debian's chromium and chromium-driver")
    built = screens["build"](tmp_path / "site")
    assert screens["screens"](built, tmp_path / "screens") == []
