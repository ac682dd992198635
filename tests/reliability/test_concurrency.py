"""Many fits at once, in threads and processes, are those alone; nothing of the process is changed by any of them."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg
from threadpoolctl import threadpool_info

from anchortm.files import write_whole
from anchortm.threads import one_blas_thread

WAIT = 60.0  # seconds, far more than is needed


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.bug("concurrency", "Two fits at once in threads could leave BLAS at one thread for ever after.")
def test_the_last_fit_to_end_restores_the_blas_threads(tally: Callable[..., None]) -> None:
    assert np.linalg.norm(np.ones(4)) == linalg.norm(np.ones(4))  # both BLAS are loaded
    before = blas_threads()
    assert before
    inside, left = threading.Event(), threading.Event()

    def first() -> None:
        with one_blas_thread():
            inside.set()
            assert left.wait(WAIT)

    thread = threading.Thread(target=first)
    with one_blas_thread():  # the first to come is the first to go
        thread.start()
        assert inside.wait(WAIT)
    assert blas_threads() == [1] * len(before)
    left.set()
    thread.join(WAIT)
    assert blas_threads() == before
    tally("concurrency", "fits at once", 2)


@pytest.mark.bug("concurrency", "Two files written at once could leave the process without its file mode mask.")
def test_writing_files_does_not_touch_the_file_mode_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the mask belongs to the whole process"))
        file = write_whole(tmp_path / "a.txt", lambda path: path.write_text("whole"))
        assert file.stat().st_mode & 0o777 == 0o640
    finally:
        monkeypatch.undo()
        os.umask(mask)
