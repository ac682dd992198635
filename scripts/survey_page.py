"""Write docs/evidence/does_it_help.md and its pictures from the stored results of the survey.

``python scripts/survey_page.py FOLDER`` first takes the results from the folder of a run of ``anchortm survey``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from anchortm.survey.catalogue import catalogue
from anchortm.survey.page import load, save, write

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS = DOCS / "evidence" / "survey.jsonl"


def main(folders: list[str]) -> None:
    if folders:
        kept = {one["name"]: one for file in Path(folders[0]).glob("*.json") for one in [json.loads(file.read_text())]}
        save([kept[data.name] for data in catalogue()], RESULTS)
    write(load(RESULTS), DOCS / "evidence" / "does_it_help.md", DOCS / "images", "../images/")


if __name__ == "__main__":
    main(sys.argv[1:])
