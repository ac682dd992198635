"""Results that several tests use."""

import os
from pathlib import Path

import pytest

from anchortm.reproduce import engine
from anchortm.reproduce.engine import Options
from anchortm.reproduce.table import reproduce


@pytest.fixture(scope="session")
def boston(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the results of BostonHousing2, without figures. Test processes share what it stores."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) / "boston"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "write_figure", lambda *_: None)
        reproduce(["boston"], folder, Options(progress=False), say=lambda _: None)
    return folder
