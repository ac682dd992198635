"""Peers in R: data go in binary files, R times the fit itself, and numbers come back in files.

R's start, the reading of data and the loading of packages do not count. R runs with one thread and the linear algebra
that it was installed with.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bench.engine import Facts, Side

__all__ = ["PACKAGES", "absent", "side", "versions"]

Array = NDArray[np.float64]

PACKAGES = ("survival", "ordinal", "glmnet", "lme4")
TIMEOUT = 1500.0  # seconds

# given() reads an array; best() runs a fit at least three times, unless that takes long, and keeps the shortest time
HEAD = """
given <- function(name, columns = 1) {
  found <- readBin(name, "double", file.size(name) / 8)
  if (columns > 1) matrix(found, ncol = columns) else found
}
give <- function(name, found) writeBin(as.double(found), paste0(name, ".out"))
best <- function(fit) {
  times <- c()
  while (length(times) < 3 || (sum(times) < 0.2 && length(times) < 6)) {
    times <- c(times, system.time(found <- fit())[["elapsed"]])
    if (sum(times) > 8) break
  }
  list(found = found, seconds = max(min(times), 5e-4)) # R's clock has milliseconds
}
"""


@functools.cache
def absent(package: str) -> str:
    """Return why an R package cannot be used, or an empty text."""
    if shutil.which("Rscript") is None:
        return "skipped: Rscript not found"
    return "" if _version(package) else f"skipped: R package {package} not installed"


@functools.cache
def _version(package: str) -> str:
    code = f'if (requireNamespace("{package}", quietly = TRUE)) cat(as.character(packageVersion("{package}")))'
    return _rscript("-e", code).stdout.strip().rpartition("\n")[2]


def versions() -> str:
    """Return the versions of R and of its packages in words."""
    if shutil.which("Rscript") is None:
        return "R not installed"
    number = _rscript("-e", 'cat(paste(R.version$major, R.version$minor, sep = "."))').stdout.strip()
    packages = [f"{name} {_version(name) or 'not installed'}" for name in PACKAGES]
    return f"R {number} with {', '.join(packages)}"


def side(package: str, code: str, arrays: Mapping[str, Any], facts: Callable[[dict[str, Array]], Facts]) -> Side:
    """Return a fit by R as a side; its time is the ``seconds`` that the code gives.

    The code reads ``arrays`` with ``given``, and what it gives back with ``give`` are the arguments of ``facts``.
    """

    def told(found: dict[str, Array]) -> Facts:
        return {"seconds": float(found["seconds"][0]), "memory": None} | facts(found)

    return lambda: run(package, code, arrays), told


def run(package: str, code: str, arrays: Mapping[str, Any]) -> dict[str, Array]:
    """Run R code with a package on arrays and return the arrays that it gives back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, values in arrays.items():
            np.asarray(values, dtype=np.float64).T.tofile(folder / key)  # R stores matrices by column
        script = folder / "script.R"
        script.write_text(f"suppressMessages(library({package}))\n{HEAD}\n{code}\n", encoding="utf-8")
        done = _rscript(str(script), folder=folder)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it printed nothing"]
            raise RuntimeError(f"R ended with code {done.returncode}: {' '.join(said[:2])}")
        return {path.stem: np.fromfile(path, dtype=np.float64) for path in sorted(folder.glob("*.out"))}


def _rscript(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    line = ["Rscript", "--vanilla", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False)  # noqa: S603
