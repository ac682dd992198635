"""Draw the pictures of the pages: ``draw()`` of docs/pictures/NAME.py gives docs/images/NAME.png."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[1] / "docs"


def main(names: list[str]) -> None:
    for file in sorted((ROOT / "pictures").glob("*.py")):
        if not names or file.stem in names:
            runpy.run_path(str(file))["draw"]().savefig(ROOT / "images" / f"{file.stem}.png", dpi=150)
            print(f"drew docs/images/{file.stem}.png", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
