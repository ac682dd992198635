"""Take pictures of the site and of a report, at two widths, light and dark, and say what is wrong with them.

    python scripts/screens.py [--site FOLDER] [--out FOLDER]

Without ``--site`` the site is built to docs/_build/quick, without running the gallery. Wrong are pages that are wider
than their window, errors in the console, requests to other sites, images that are missing, and links between our own
pages that lead nowhere. The exit status is 1 if anything is wrong. Needs the extras ``docs`` and ``test``, and Chromium
(``make browser``).
"""

from __future__ import annotations

import argparse
import base64
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "landing": "index.html",
    "guide": "guide/assess.html",
    "choosing": "choosing_xi.html",
    "gallery": "gallery/index.html",
    "api": "api/generated/anchortm.ContinuousLogit.html",
    "search": "search.html",
}
SIZES, SCHEMES = {"wide": (1400, 1000), "phone": (390, 844)}, ("light", "dark")
SEARCHED = {  # words that readers look for -> pages of which one must be found
    "domain generalization": ["index", "api/strength"],
    "distribution shift": ["index", "api/strength"],
    "quantile": ["api/prediction"],
}
SETTLED = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(%s))))"
WIDTH = SETTLED % "document.scrollingElement.scrollWidth"
WIDEST = """return Array.from(document.querySelectorAll('body *')).filter((e) => e.checkVisibility() &&
  e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.tagName + '.' + e.className)"""
PRESSED = """let text = null; document.execCommand = () => {
  text = Array.from(document.querySelectorAll('body > textarea')).pop().value; return true};
  return Array.from(document.querySelectorAll('button.copybtn'), (e) => {e.click();
    return [text, e.parentElement.textContent, e.closest('[class*=highlight-]').className]})"""
MISSING = "return Array.from(document.images, (e) => [e.currentSrc, e.complete && e.naturalWidth > 0])"


def build(folder: Path) -> Path:
    """Build the site without running the gallery, and return its folder."""
    from sphinx.cmd.build import main as sphinx

    if sphinx(["-q", "-E", "-b", "html", "-D", "plot_gallery=0", str(ROOT / "docs"), str(folder)]):
        raise SystemExit("the site does not build")
    return folder


class _Page(HTMLParser):
    """Names, links and images of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag in ("a", "link", "img", "script") and (target := given.get("href") or given.get("src")):
            self.links.append(target)


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_links(site: Path) -> list[str]:
    """Return links, images and scripts of the site that lead nowhere within it."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    wrong = []
    for path, page in pages.items():
        for target in dict.fromkeys(page.links):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:  # of another site
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            name = "" if "_modules" in path.parts else unquote(parts.fragment)  # Sphinx guesses names of objects there
            if not there.exists() or (name and there in pages and name not in pages[there].names):
                wrong.append(f"{path.relative_to(site.resolve())}: {target} leads nowhere")
    return wrong


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder at an address of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def report(folder: Path) -> Path:
    """Write a report, of the wine that nine judges tasted."""
    import anchortm as atm

    data = atm.datasets.load_wine()
    found = atm.assess(atm.OrdinalRegression(), "rating ~ temp + contact | judge", data)
    return Path(found.report(folder / "report.html"))


def looked_at(browser: Any, name: str, address: str, out: Path) -> list[str]:
    """Take the pictures of a page, and return what is wrong with it."""
    wrong = []
    for scheme in SCHEMES:
        for size, (width, height) in SIZES.items():
            where = f"{name}, {size}, {scheme}"
            browser.visit(address, width, height, scheme)
            if (seen := browser.run(WIDTH)) > width:
                wrong.append(f"{where}: {seen} pixels wide, because of {browser.run(WIDEST)}")
            browser.run("document.querySelectorAll('img').forEach((e) => e.loading = 'eager')")
            browser.driver.set_script_timeout(20)
            browser.run("return Promise.all(Array.from(document.images, (e) => e.decode().catch(() => 0)))")
            wrong += [f"{where}: {source} is missing" for source, there in browser.run(MISSING) if not there]
            said = browser.driver.get_log("browser")
            wrong += [f"{where}: the console says {one['message']}" for one in said if one["level"] != "INFO"]
            own = (address.split("/", 3)[2], "")
            away = [url for url in browser.requested() if urlsplit(url).netloc not in own]
            wrong += [f"{where}: asks {url}" for url in away]
            if not browser.run("return !!document.querySelector('link[rel~=icon]')") and name != "report":
                wrong.append(f"{where}: there is no icon")
            shot(browser, out / f"{name}-{size}-{scheme}.png")
    return wrong


def shot(browser: Any, path: Path) -> None:
    """Take a picture of what the window shows."""
    made = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path.write_bytes(base64.b64decode(made["data"]))


def not_found(browser: Any, address: str) -> list[str]:
    """Return what the search of the site does not find."""
    wrong = []
    for words, pages in SEARCHED.items():
        browser.visit(f"{address}/search.html?q={words.replace(' ', '+')}")
        script = """const done = arguments[0], until = Date.now() + 8000; (function look() {
          const links = Array.from(document.querySelectorAll('#search-results li a'), (e) => e.href);
          const status = document.querySelector('#search-results .search-summary');
          const over = status && /\\d|did not match/.test(status.textContent);
          over || Date.now() > until ? setTimeout(() => done(Array.from(document.querySelectorAll(
            '#search-results li a'), (e) => e.href)), 600) : setTimeout(look, 50)})()"""
        links = browser.driver.execute_async_script(script)
        found = [urlsplit(link).path.strip("/").removesuffix(".html") for link in links]
        if not any(page in found for page in pages):
            wrong.append(f"the search for '{words}' finds none of {', '.join(pages)}, but {found[:5]}")
    return wrong


def copied(browser: Any, address: str) -> list[str]:
    """Return what is wrong with what buttons copy: prompts and output are not input."""
    wrong = []
    for page in (PAGES["api"], PAGES["choosing"], "guide/command_line.html"):
        browser.visit(f"{address}/{page}")
        browser.driver.set_script_timeout(20)
        texts = browser.run(PRESSED)
        if not texts:
            wrong.append(f"{page}: no block can be copied")
        for text, whole, kind in texts:
            if "highlight-text" in kind or any(line.startswith((">>>", "... ", "$ ")) for line in text.splitlines()):
                wrong.append(f"{page}: a button copies more than input: {text[:60]!r}")
            if ">>>" in whole and len(text.splitlines()) > whole.count(">>> ") + whole.count("... "):
                wrong.append(f"{page}: a button copies output: {text[:60]!r}")
    return wrong


def screens(site: Path, out: Path) -> list[str]:
    """Take all pictures, and return what is wrong."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser.window import opened

    out.mkdir(parents=True, exist_ok=True)
    wrong = broken_links(site)
    page = report(out)
    with served(site) as address, opened(out) as browser:
        for name, path in PAGES.items():
            wrong += looked_at(browser, name, f"{address}/{path}", out)
        wrong += looked_at(browser, "report", page.resolve().as_uri(), out)
        wrong += not_found(browser, address)
        wrong += copied(browser, address)
    return wrong


def main() -> None:
    """Build or find the site, and say what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--site", type=Path, help="folder of a built site; by default it is built")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "_build" / "screens", help="folder of the pictures")
    given = parser.parse_args()
    site = given.site or build(ROOT / "docs" / "_build" / "quick")
    wrong = screens(site, given.out)
    print("\n".join(wrong) if wrong else f"nothing is wrong; the pictures are in {given.out}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
