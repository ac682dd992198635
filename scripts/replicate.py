"""Compute all numbers and figures of the documentation again, and say which pages are not what the scripts write.

python scripts/replicate.py                     all steps, in about an hour and a half on two cores
python scripts/replicate.py accuracy new-places some steps
python scripts/replicate.py --quick             without the steps that take more than a few minutes
python scripts/replicate.py --list              the steps, what they write, and about how long they take

Seeds are fixed, so that a step writes what the repository has. Each file is written in place: ``git diff`` shows what
differs. Pages are compared word by word, but for numbers below 1e-11, which are rounding errors, and pictures point by
point; with another version of matplotlib a picture may differ slightly. Exits with 1 if anything differs. On another
processor a last digit may: of the forests of claim N5, and of how near a fit comes to its optimum (A14).

Not replicated, because they measure time or count tests: benchmarks/results.md (``make bench``) and docs/reliability.md
(``make reliability``).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LONG = 5  # minutes, above which --quick leaves a step out
ROUNDING = re.compile(r"\d(\.\d+)?e-(1[2-9]|[2-9]\d)|0\.0e\+00")
NEAR = 0.02  # largest share of the points of a picture that may differ


class Step(NamedTuple):
    """Commands, the files that they write, and about how many minutes they take on two cores.

    ``{python}`` stands for this Python and ``{folder}`` for a temporary folder.
    """

    commands: tuple[str, ...]
    writes: tuple[str, ...]
    minutes: float


STEPS = {
    "accuracy": Step(("{python} scripts/accuracy_report.py",), ("docs/accuracy.md",), 1.0),
    "r": Step(("{python} scripts/r_report.py",), ("docs/where_r_stops_short.md",), 1.0),
    "parts": Step(("{python} scripts/parts_table.py",), ("docs/guide/combinations.md",), 0.1),
    "house": Step(("{python} scripts/house.py",), ("docs/house.md", "docs/images/house.png"), 0.1),
    "paper": Step(
        ("{python} -m anchortm reproduce all --jobs -1 --output {folder}", "{python} scripts/what_holds.py {folder}"),
        ("docs/what_holds.md", "docs/images/paper/*.png"),
        6.0,
    ),
    "new-places": Step(("{python} scripts/new_places.py",), ("docs/evidence/new_places.md",), 3.0),
    "hospital-13": Step(
        ("{python} scripts/hospital_13.py --samples 50",),
        ("docs/evidence/hospital_13.csv", "docs/evidence/hospital_13.md"),
        14.0,
    ),
    "survey": Step(
        ("{python} -m anchortm survey --jobs -1 --output {folder}", "{python} scripts/survey_page.py {folder}"),
        ("docs/evidence/survey.jsonl", "docs/evidence/does_it_help.md", "docs/images/survey_*.png"),
        50.0,
    ),
    "pages": Step(("{python} scripts/fill_docs.py",), ("docs/*.md", "docs/start/*.md", "docs/guide/*.md"), 4.0),
    "pictures": Step(("{python} scripts/draw_docs.py",), ("docs/images/*.png",), 3.0),
}


def kept(patterns: tuple[str, ...]) -> dict[str, bytes]:
    """Return the contents of the files that match, by their paths."""
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    return {str(path.relative_to(ROOT)): path.read_bytes() for path in found}


def differs(name: str, before: bytes | None, after: bytes | None) -> str:
    """Return how a file differs; nothing if it does not."""
    if before is None or after is None:
        return "new" if before is None else "gone"
    if hashlib.sha256(before).digest() == hashlib.sha256(after).digest():
        return ""
    if not name.endswith(".png"):
        first, second = (set(ROUNDING.sub("rounding", text.decode()).splitlines()) for text in (before, after))
        return f"{len(second - first)} lines differ" if second != first else ""
    share = points_that_differ(before, after)
    return "" if share <= NEAR else f"{share:.0%} of the points differ"


def points_that_differ(before: bytes, after: bytes) -> float:
    """Return the share of the points of two pictures that differ; 1 if their sizes differ."""
    import io

    from matplotlib.image import imread

    first, second = (np.atleast_3d(imread(io.BytesIO(own), format="png")) for own in (before, after))
    if first.shape != second.shape:
        return 1.0
    return float((np.abs(first - second).max(axis=-1) > 0.05).mean())


def replicate(name: str) -> Iterator[str]:
    """Run a step and yield what differs afterwards."""
    step = STEPS[name]
    before = kept(step.writes)
    with tempfile.TemporaryDirectory() as folder:
        for command in step.commands:
            words = [word.format(python=sys.executable, folder=folder) for word in command.split()]
            subprocess.run(words, cwd=ROOT, check=True)  # noqa: S603 - our own scripts
    after = kept(step.writes)
    for file in sorted({*before, *after}):
        how = differs(file, before.get(file), after.get(file))
        if how:
            yield f"{file}: {how}"


def chosen(options: argparse.Namespace) -> list[str]:
    """Return the names of the steps to run."""
    return [name for name in options.steps or STEPS if not options.quick or STEPS[name].minutes <= LONG]


def main(words: list[str]) -> int:
    """Run the steps and return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], metavar="STEP")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(words)
    if options.list:
        for name, step in STEPS.items():
            print(f"{name:12} {step.minutes:5.1f} min  {', '.join(step.writes)}")
        return 0
    wrong = []
    for name in chosen(options):
        start = time.perf_counter()
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            found = list(replicate(name))
        except subprocess.CalledProcessError as error:
            found = [f"{name} failed: {error}"]
        print(f"{name:12} {time.perf_counter() - start:6.0f} s  {'the same' if not found else 'differs'}", flush=True)
        for line in found:
            print(f"    {line}", flush=True)
        wrong += found
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
