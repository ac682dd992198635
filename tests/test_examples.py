"""The example that `make demo` runs, with the value that other software found."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_old_faithful(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(ROOT / "examples" / "old_faithful.py"), run_name="__main__")
    assert "log-likelihood -361.279" in capsys.readouterr().out
    assert (ROOT / "output" / "old_faithful.png").stat().st_size > 10_000
