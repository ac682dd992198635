"""Draw docs/images/report.png: the top of the report that the demonstration writes, as a browser shows it.

Needs Chromium (``make browser``).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from anchortm import assess
from anchortm.reproduce.new_places import computers

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
BROWSERS = ("chromium", "google-chrome")
SIZE = 1200, 1250


def main() -> None:
    """Write the report to a folder that is removed, and take its picture."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("no browser is installed: run make browser")
    case = computers()
    new = case.new.drop(columns="price")
    found = assess(case.model, case.formula, case.known, new=new, strategies=["widened", "anchored"])
    with tempfile.TemporaryDirectory() as folder:
        page = found.with_outcomes(case.new).report(Path(folder) / "report.html")
        switches = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
        ]
        shot = [*switches, f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={PICTURE}", f"file://{page}"]
        subprocess.run([browser, *shot], check=True, capture_output=True)  # noqa: S603 - our own page


if __name__ == "__main__":
    main()
