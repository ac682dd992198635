"""The tutorial notebook runs from top to bottom and prints what it shows."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "fill_notebook.py"))
NOTEBOOK = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))


def test_every_cell_prints_what_the_notebook_shows() -> None:
    found = SCRIPT["printed"](NOTEBOOK)
    assert found == [SCRIPT["kept"](cell) for cell in SCRIPT["code_cells"](NOTEBOOK)]
    assert all(found)


def test_links_lead_to_pages_that_are_there() -> None:
    text = "".join("".join(cell["source"]) for cell in NOTEBOOK["cells"])
    address = "https://github.com/anchortm/anchortm/blob/main/"
    pages = [part.split(")")[0] for part in text.split(address)[1:]]
    assert len(pages) == 3
    assert all((ROOT / page).exists() for page in pages)
