"""What the tests count of themselves, for docs/reliability.md: things tried, and bugs that were found by trying."""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from anchortm import exceptions

COUNTS = pytest.StashKey[Counter]()
BUGS = pytest.StashKey[dict]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", metavar="FILE", help="write what the tests counted to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "bug(found_by, what): a bug that was found and is fixed")
    config.stash[COUNTS], config.stash[BUGS] = Counter(), {}
    if config.getoption("tally"):
        _watch_refusals(config.stash[COUNTS])


def _watch_refusals(counts: Counter) -> None:
    """Count the places of the code that refuse something, and those of them that tests reach."""
    root, places = Path(exceptions.__file__).parent, {}
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and getattr(getattr(node.exc, "func", None), "id", "") in exceptions.__all__:
                places |= dict.fromkeys(((str(file), line) for line in range(node.lineno, node.end_lineno + 1)), node)
    counts["bad input", "places of the code that refuse something"] = len(set(places.values()))
    reached, create = set(), exceptions.AnchorTMError.__init__

    def watch(self: Exception, *args: object) -> None:
        caller = sys._getframe(1)
        reached.update({places.get((caller.f_code.co_filename, caller.f_lineno))} - {None})
        counts["bad input", "such places reached by the tests"] = len(reached)
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


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("tally")
    if file:
        areas: dict[str, dict[str, int]] = {}
        for (area, what), n in session.config.stash[COUNTS].items():
            areas.setdefault(area, {})[what] = n
        record = {"failed": session.testsfailed, "counts": areas, "bugs": session.config.stash[BUGS]}
        Path(file).write_text(json.dumps(record, indent=1, sort_keys=True))
