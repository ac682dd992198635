"""Shared by all parts of the benchmark: sizes, data, timing, and work in separate processes.

A *side* is a function that takes its size (and more, if it needs it) and returns two functions: the work to be timed,
and one that turns the result of the work into facts (its mean loss, its coefficients). Each side runs in its own
process, so that its peak memory is its own and no side warms the caches of another.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.inputs.response import Response, Surv

__all__ = [
    "FULL",
    "QUICK",
    "WARM_ROWS",
    "Facts",
    "Options",
    "Side",
    "Sizes",
    "beside_grams",
    "best",
    "censored",
    "classes",
    "count",
    "first_line",
    "grams",
    "in_child",
    "measured",
    "named",
    "one_thread",
    "outcome",
    "peak",
    "reset_peak",
    "resident",
    "simulate",
]

Array = NDArray[np.float64]
Facts = dict[str, Any]
Side = tuple[Callable[[], Any], Callable[[Any], Facts]]

WARM_ROWS = 500  # rows of a first fit, which triggers the lazy imports
ENOUGH = 20.0  # seconds after which work is not repeated
SHORT = 0.2  # seconds for which short work is repeated
KERNELS = "ANCHORTM_KERNELS"  # environment variable that chooses the kernels at import
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Sizes:
    """The amount of data for each part."""

    large: int = 1_000_000  # rows of the fits that are measured in Grams, and of the memory
    ordinal: int = 100_000  # rows of the ordinal peer
    peers: int = 100_000  # rows of the other peers
    emulation: int = 10_000  # rows of the simulated ordinal data for Adam
    patience: float = 60.0  # seconds that Adam gets
    disk: int = 20_000_000  # rows on disk
    disk_check: int = 1_000_000  # rows on disk that are also fitted in memory
    disk_file: int = 1_000_000  # rows of one file
    growth_rows: tuple[int, int] = (100_000, 10_000_000)
    growth_levels: tuple[int, int] = (10, 100_000)
    towns: int = 92
    wide_levels: int = 10_000  # levels of a factor among the covariates
    predicted: int = 100_000  # rows whose means and scores are computed
    predictor: int = 10_000  # rows of the fit that predicts them
    glm: int = 1_000_000  # rows of the GLMs
    tall: tuple[int, int] = (100_000, 200)  # rows and covariates of the elastic nets with many rows
    broad: tuple[int, int] = (2000, 1000)  # and of those with many covariates
    lambdas: int = 50  # strengths of the elastic net
    boosted: int = 100_000  # rows of the boosted models
    rounds: int = 100  # rounds of boosting
    clustered: int = 100_000  # rows of the normal random intercepts
    clusters: int = 5000
    clustered_ordinal: int = 10_000  # rows of the ordinal random intercepts, ten in each cluster
    curve_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    curve_peer_rows: tuple[int, ...] = (10_000, 30_000, 100_000)
    curve_levels: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000)
    curve_n: int = 1_000_000  # rows of the curve over levels


FULL = Sizes()
QUICK = Sizes(
    large=50_000,
    ordinal=10_000,
    peers=5000,
    emulation=2000,
    patience=3.0,
    disk=100_000,
    disk_check=50_000,
    disk_file=50_000,
    growth_rows=(50_000, 200_000),
    growth_levels=(10, 1000),
    towns=8,
    wide_levels=1000,
    predicted=10_000,
    predictor=2000,
    glm=50_000,
    tall=(5000, 50),
    broad=(400, 200),
    lambdas=20,
    boosted=5000,
    rounds=20,
    clustered=10_000,
    clusters=500,
    clustered_ordinal=1000,
    curve_rows=(1000, 10_000),
    curve_peer_rows=(1000,),
    curve_levels=(10, 1000),
    curve_n=50_000,
)


@dataclass(frozen=True)
class Options:
    """Options of a run; bars are judged at full size only."""

    sizes: Sizes = FULL
    repeats: int = 3

    @property
    def judged(self) -> bool:
        """Return whether the bars can be judged at these sizes."""
        return self.sizes == FULL


def count(n: int) -> str:
    """Return a number of rows as text: 1e6, 20 000, 506."""
    digits = str(n).rstrip("0")
    zeros = len(str(n)) - len(digits)
    return f"{digits}e{zeros}" if len(digits) == 1 and zeros >= 4 else f"{n:,}".replace(",", " ")


def simulate(n: int, levels: int = 100, p: int = 10, part: int = 0) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return covariates, a latent response and environments; ``part`` selects other rows of the same population."""
    world, rng = np.random.default_rng(1), np.random.default_rng([2, part])
    beta, effect = 0.5 * world.normal(size=p), world.normal(size=levels)
    site = rng.integers(0, levels, n)
    X = rng.normal(size=(n, p)) + 0.5 * effect[site][:, None]
    latent = X @ beta + 0.5 * effect[site] + rng.logistic(size=n)
    return X, latent, site


def outcome(latent: Array) -> Array:
    """Return positive responses."""
    return np.asarray(10.0 * np.exp(latent / 4.0))


def censored(latent: Array) -> Response:
    """Return positive responses, with the largest tenth right-censored."""
    y = outcome(latent)
    limit = np.quantile(y, 0.9)
    return Surv(np.minimum(y, limit), y < limit)


def classes(latent: Array) -> NDArray[np.intp]:
    """Return six ordered classes."""
    return np.digitize(latent, [-3.0, -1.0, 0.0, 1.0, 3.0])


def best(work: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of several runs: more runs for short work, fewer for long work."""
    times: list[float] = []
    while len(times) < repeats or (sum(times) < SHORT and len(times) < 10 * repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        if sum(times) > ENOUGH:
            break
    return min(times)


def beside_grams(work: Callable[[], Any], n: int, repeats: int) -> tuple[float, float]:
    """Return the seconds of some work and of a Gram: ``(M * w[:, None]).T @ M`` for M of n x 17 on one BLAS thread.

    Work and Grams alternate, so that a busy minute of the machine affects both. The best of each counts.
    """
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    M, w = rng.normal(size=(n, 17)), rng.random(n)
    found = []
    for _ in range(repeats):
        seconds = best(work, 1)
        with threadpool_limits(1):
            found.append((seconds, best(lambda: (M * w[:, None]).T @ M, 5)))
    return min(seconds for seconds, _ in found), min(unit for _, unit in found)


def grams(work: Callable[[], Any], n: int, repeats: int) -> float:
    """Return the time of some work in Grams."""
    seconds, unit = beside_grams(work, n, repeats)
    return seconds / unit


def resident() -> int | None:
    """Return the memory of this process in bytes, or None if the system does not report it."""
    return _status("VmRSS")


def peak() -> int | None:
    """Return the largest number of bytes that this process has held since ``reset_peak``."""
    return _status("VmHWM")


def reset_peak() -> bool:
    """Reset the peak; return whether the system supports it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


def _status(name: str) -> int | None:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def named(name: str) -> Any:
    """Return the function with a name such as ``module:function``."""
    module, function = name.split(":")
    return getattr(importlib.import_module(module), function)


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def one_thread() -> Iterator[None]:
    """Let this process use one thread, as its children do."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        with threadpool_limits(1):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def in_child(
    function: Callable[..., Any], *arguments: Any, timeout: float = 3600.0, kernels: str = "", threads: int = 1
) -> Facts:
    """Run a function in a separate process and return its facts, or ``{"error": ...}``.

    ``kernels="numpy"`` leaves the compiled kernels out, ``"compiled"`` fails without them.
    """
    call = json.dumps([f"{function.__module__}:{function.__qualname__}", *arguments])
    settings = dict.fromkeys(THREADS, str(threads)) | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment = os.environ | settings
    if kernels:
        environment[KERNELS] = kernels
    line = [sys.executable, "-m", "anchortm.bench.child", call]
    try:
        done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=timeout, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {timeout:.0f} s"}
    printed = done.stdout.strip().splitlines()
    if done.returncode or not printed:
        said = done.stderr.strip().splitlines()
        return {"error": f"ended with code {done.returncode}" + (f": {said[-1]}" if said else "")}
    return dict(json.loads(printed[-1]))


def measured(side: str, arguments: list[Any], repeats: int) -> Facts:
    """Return seconds, peak memory and facts of a side, after a small first fit that triggers lazy imports.

    The memory is the peak during the first full fit, data included, minus the memory held before the data were made.
    With ``repeats=0`` the work is done once, without the small fit.
    """
    from threadpoolctl import threadpool_limits

    make = named(side)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the peers; if our fit does not converge, its facts say so
        work, facts = make(min(arguments[0], WARM_ROWS), *arguments[1:])
        if repeats:
            work()
        del work, facts
        gc.collect()
        before = resident()
        work, facts = make(*arguments)
        known = reset_peak()
        start = time.perf_counter()
        fitted = work()
        seconds = time.perf_counter() - start
        top = peak()
        if repeats and seconds < ENOUGH:
            seconds = min(seconds, best(work, max(1, repeats - 1)))
        found = facts(fitted)
    memory = top - before if known and top is not None and before is not None else None
    return {"seconds": seconds, "memory": memory, **found}
