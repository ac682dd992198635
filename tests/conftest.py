"""What the tests count of themselves, for docs/reliability.md: things tried, and bugs that were found by trying."""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# a busy machine is slow, not wrong
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")
# what tests import is not collected for doctests: as a second module, a toy would be a second class of the same name
collect_ignore_glob = ["*/toy_*.py"]

# BLAS on one thread, here and in processes that tests start: its idle threads take more time than they save, and the
# tests run in several processes. Tests of threads ask for more of them. This comes before NumPy is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

gc.disable()  # until all tests are collected: nothing of what that makes is garbage, and looking takes half of the time

from anchortm import exceptions  # noqa: E402

COUNTS = pytest.StashKey[Counter]()
BUGS = pytest.StashKey[dict]()
REACHED = pytest.StashKey[set]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", metavar="FILE", help="write what the tests counted to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "bug(found_by, what): a bug that was found and is fixed")
    config.stash[COUNTS], config.stash[BUGS], config.stash[REACHED] = Counter(), {}, set()
    if config.getoption("tally"):
        _watch_refusals(config.stash[COUNTS], config.stash[REACHED])


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among modules and tests, which stay."""
    gc.freeze()
    gc.enable()


def _watch_refusals(counts: Counter, reached: set[str]) -> None:
    """Count the places of the code that refuse something, and those of them that tests reach."""
    root, places = Path(exceptions.__file__).parent, {}
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and getattr(getattr(node.exc, "func", None), "id", "") in exceptions.__all__:
                places |= dict.fromkeys(((str(file), line) for line in range(node.lineno, node.end_lineno + 1)), node)
    counts["bad input", "places of the code that refuse something"] = len(set(places.values()))
    create = exceptions.AnchorTMError.__init__

    def watch(self: Exception, *args: object) -> None:
        caller = sys._getframe(1)
        node = places.get((caller.f_code.co_filename, caller.f_lineno))
        if node is not None:
            reached.add(f"{caller.f_code.co_filename}:{node.lineno}")
        create(self, *args)

    exceptions.AnchorTMError.__init__ = watch


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that counts: ``tally("bad input", "refused")``."""
    counts = request.config.stash[COUNTS]

    def count(area: str, what: str, n: int = 1) -> None:
        counts[area, what] += n

    return count


def pytest_runtest_teardown(item: pytest.Item) -> None:
    for mark in item.iter_markers("bug"):
        found_by, what = mark.args
        item.config.stash[BUGS].setdefault(found_by, {})[what] = item.nodeid.split("[")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Add what a worker process of pytest-xdist counted."""
    stash, found = node.config.stash, getattr(node, "workeroutput", {}).get("tally")
    if found is None:
        return
    refusals = ("bad input", "places of the code that refuse something")  # the same in every process
    for area, what, n in found["counts"]:
        stash[COUNTS][area, what] = n if (area, what) == refusals else stash[COUNTS][area, what] + n
    for found_by, bugs in found["bugs"].items():
        stash[BUGS].setdefault(found_by, {}).update(bugs)
    stash[REACHED].update(found["reached"])


def pytest_sessionfinish(session: pytest.Session) -> None:
    file, stash = session.config.getoption("tally"), session.config.stash
    if not file:
        return
    counts = [(area, what, n) for (area, what), n in stash[COUNTS].items()]
    if hasattr(session.config, "workeroutput"):
        found = {"counts": counts, "bugs": stash[BUGS], "reached": sorted(stash[REACHED])}
        session.config.workeroutput["tally"] = found
        return
    areas: dict[str, dict[str, int]] = {}
    for area, what, n in [*counts, ("bad input", "such places reached by the tests", len(stash[REACHED]))]:
        areas.setdefault(area, {})[what] = n
    record = {"failed": session.testsfailed, "counts": areas, "bugs": stash[BUGS]}
    Path(file).write_text(json.dumps(record, indent=1, sort_keys=True))
