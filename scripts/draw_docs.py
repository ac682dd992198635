"""Draw the pictures of the pages: ``draw()`` of docs/pictures/NAME.py gives docs/images/NAME.png.

A picture that is made from the source tree also has ``source()``: its file keeps a digest of that text, so that a test
can tell whether the picture is up to date.
"""

from __future__ import annotations

import hashlib
import runpy
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[1] / "docs"


def digest(picture: dict[str, object]) -> dict[str, str]:
    """Return what the file of a picture keeps of its source, if it has one."""
    source = picture.get("source")
    return {"Source": hashlib.sha256(source().encode()).hexdigest()} if callable(source) else {}


def main(names: list[str]) -> None:
    for file in sorted((ROOT / "pictures").glob("*.py")):
        if not names or file.stem in names:
            picture = runpy.run_path(str(file))
            figure = picture["draw"]()
            figure.savefig(ROOT / "images" / f"{file.stem}.png", dpi=150, metadata=digest(picture))
            print(f"drew docs/images/{file.stem}.png", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
