"""What the tests in a browser share: the browser, and pages of reports by the names of their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from browser.window import CHROMIUM, DRIVER, Browser, opened


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not CHROMIUM or not DRIVER:
        pytest.skip("no browser: `make browser` installs Debian's chromium and chromium-driver")
    with opened(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture(scope="session")
def pages() -> Callable[[str], str]:
    """Return a function that returns the page of a record by its name."""
    from functools import cache

    from browser import record

    from anchortm.newplace.report import assessment_page

    kinds = ("survival", "classes", "counts")
    return cache(lambda name: assessment_page(record.large(20, name) if name in kinds else getattr(record, name)()))
