"""A browser without a window: Debian's Chromium and its driver (``make browser``), for tests and scripts/screens.py."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-gpu",
]


class Browser:
    """A page in the browser, and what a test asks about it."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def open(self, name: str, html: str, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        """Open HTML from disk, with a size of the window and a preferred colour scheme."""
        path = self.folder / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        self.visit(path.as_uri(), width, height, scheme)

    def visit(self, address: str, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        """Open an address."""
        self.resize(width, height)
        self.prefer(scheme)
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # what earlier pages logged
        self.driver.get(address)

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the window, also below the least width that windows have."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *given: Any) -> Any:
        """Return what a script returns."""
        return self.driver.execute_script(script, *given)

    def one(self, selector: str) -> Any:
        """Return the first element that fits."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """Return all elements that fit."""
        return list(self.driver.find_elements("css selector", selector))

    def attributes(self, selector: str, name: str) -> list[str]:
        """Return an attribute of all elements that fit."""
        return self.run(
            "return Array.from(document.querySelectorAll(arguments[0]), (e) => e.getAttribute(arguments[1]))",
            selector,
            name,
        )

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all visible elements that fit."""
        return self.run(
            "return Array.from(document.querySelectorAll(arguments[0])).filter((e) => e.checkVisibility())"
            ".map((e) => e.textContent)",
            selector,
        )

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        """Return what the console said: errors, warnings, violations of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self) -> list[str]:
        """Return all addresses that were requested."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def pdf(self) -> bytes:
        """Return the page as printed."""
        found = self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
        return base64.b64decode(found["data"])


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """Open a browser that writes its pages to a folder, and end it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()
