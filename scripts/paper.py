"""Build docs/paper/paper.pdf from docs/paper/paper.md: numbers from the survey, layout by a browser.

Needs Chromium (``make browser``) and markdown-it, which comes with the documentation's tools.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from anchortm.survey.findings import STRATEGIES, Findings
from anchortm.survey.page import load
from anchortm.survey.thresholds import GAIN

DOCS = Path(__file__).resolve().parents[1] / "docs"
SOURCE = DOCS / "paper" / "paper.md"
BROWSERS = ("chromium", "google-chrome")
STYLE = """
@page { size: A4; margin: 20mm 22mm; }
body { font: 10pt/1.4 "DejaVu Serif", serif; }
h1 { font-size: 17pt; line-height: 1.2; } h2 { font-size: 12pt; margin-bottom: 2pt; }
img { width: 100%; } table { border-collapse: collapse; font-size: 8.5pt; }
th, td { border-top: 0.5pt solid #999; padding: 3pt 6pt; text-align: left; vertical-align: top; }
blockquote { margin: 4pt 2em; } h2, img, table { break-inside: avoid; } h2 { break-after: avoid; }
"""


def numbers(found: Findings) -> dict[str, int]:
    """Return the numbers of the survey that the paper states."""
    tables = {design: found.summary(design).loc[STRATEGIES["anchored"]] for design in ("like", "further")}
    few = found.labels()[["best without", "20 outcomes"]].dropna()
    return {
        "sets": len(found.measured),
        "judged": len(found.judged),
        "like_better": int(tables["like"]["better"]),
        "like_worse": int(tables["like"]["worse"]),
        "further_better": int(tables["further"]["better"]),
        "further_worse": int(tables["further"]["worse"]),
        "further_sets": int(tables["further"]["sets"]),
        "labels_more": int((few["20 outcomes"] > few["best without"] + GAIN).sum()),
        "labels_sets": len(few),
    }


def page() -> str:
    """Return the paper as HTML, with pictures by their addresses on this disk."""
    from markdown_it import MarkdownIt

    text = SOURCE.read_text(encoding="utf-8").format(**numbers(Findings(load(DOCS / "evidence" / "survey.jsonl"))))
    body = MarkdownIt("commonmark").enable("table").render(text)
    body = body.replace('src="../images/', f'src="file://{DOCS}/images/')
    head = f"<meta charset=utf-8><title>anchortm</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en>{head}{body}</html>"


def main(target: Path) -> None:
    """Print the paper to a PDF."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("no browser is installed: run make browser")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "paper.html"
        source.write_text(page(), encoding="utf-8")
        switches = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
        shot = [
            *switches,
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={target.resolve()}",
            f"file://{source}",
        ]
        subprocess.run([browser, *shot], check=True, capture_output=True)  # noqa: S603 - our own page
    print(target, file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.with_suffix(".pdf"))
