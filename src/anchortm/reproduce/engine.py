"""Shared by all parts of the reproduction: seeded runs, results on disk, claims with verdicts.

A part computes arrays (``compute``), draws them (``figures``), tabulates them (``tables``) and uses them to judge the
claims of the paper (``claims``). The arrays are stored in a file, so that a finished part is not computed again. They
depend on the seed and the number of runs, but not on the number of processes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anchortm import __version__
from anchortm._util.files import check_regular, make_folder, write_figure, write_whole
from anchortm._util.progress import Task
from anchortm.simulate import scenarios, sem

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ALPHAS",
    "CAVEAT",
    "NOT",
    "REPRODUCED",
    "Claim",
    "Options",
    "Part",
    "at",
    "quantile_frame",
    "run_part",
    "simulate",
]

Array = NDArray[np.float64]
Arrays = dict[str, Array]

REPRODUCED, CAVEAT, NOT = "reproduced", "reproduced with a caveat", "not reproduced"
ALPHAS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the measurement, and the verdict."""

    id: str
    sentence: str
    measured: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Options:
    """Options of a computation; ``runs=None`` uses the published number of runs."""

    runs: int | None = None
    jobs: int = 1
    seed: int = 1
    progress: bool | None = None
    trees: int = 20

    def number(self, published: int) -> int:
        """Return the number of runs."""
        return published if self.runs is None else self.runs


@dataclass(frozen=True)
class Part:
    """One part of the reproduction."""

    name: str
    title: str
    compute: Callable[[Options], Arrays]
    figures: Callable[[Arrays], dict[str, Any]]
    tables: Callable[[Arrays], dict[str, pd.DataFrame]]
    claims: Callable[[Arrays], list[Claim]]
    uses: tuple[str, ...] = ("runs", "seed")  # the options that the arrays depend on
    code: tuple[ModuleType, ...] = ()  # modules that compute them, besides that of ``compute``

    def key(self, options: Options) -> str:
        """Return a short name for everything that the arrays depend on, including the code that computes them."""
        facts = {name: getattr(options, name) for name in self.uses} | {"part": self.name, "version": __version__}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for module in (inspect.getmodule(self.compute), *self.code, scenarios, sem):
            digest.update(Path(str(getattr(module, "__file__", ""))).read_bytes())
        return digest.hexdigest()[:16]


def simulate(work: Callable[[np.random.Generator], Arrays], runs: int, options: Options, title: str) -> Arrays:
    """Return the stacked arrays of independent runs; the random numbers do not depend on the number of processes."""
    name = int.from_bytes(
        hashlib.sha256(title.encode()).digest()[:8], "big"
    )  # so that parts have different random numbers
    seeds = np.random.SeedSequence([options.seed, name]).spawn(runs)
    with Task(title, runs, options.progress) as task:
        results = task.map(partial(_one, work), seeds, options.jobs)
    return {key: np.array([result[key] for result in results]) for key in results[0]}


def _one(work: Callable[[np.random.Generator], Arrays], seed: np.random.SeedSequence) -> Arrays:
    return work(np.random.default_rng(seed))


def run_part(part: Part, folder: Path, options: Options, fresh: bool = False) -> tuple[list[Claim], bool]:
    """Compute a part or read its stored arrays, write its tables and figures, and return its claims.

    The second value says whether anything was computed.
    """
    kept = folder / "computed" / f"{part.name}-{part.key(options)}.npz"
    make_folder(kept.parent)
    arrays = None if fresh else _read(kept)
    computed = arrays is None
    if arrays is None:
        arrays = part.compute(options)
        content = arrays
        write_whole(kept, lambda file: np.savez_compressed(file, **content))  # type: ignore[arg-type]
    for name, table in part.tables(arrays).items():
        write_whole(folder / f"{name}.csv", lambda file, table=table: table.to_csv(file, index=False))  # type: ignore[misc]
    for name, figure in part.figures(arrays).items():
        for ending in ("png", "pdf"):
            write_figure(folder / f"{name}.{ending}", figure, 130)
    return part.claims(arrays), computed


def _read(path: Path) -> Arrays | None:
    """Return the arrays of a file, or None if it is missing or damaged."""
    try:
        check_regular(path)
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None


def at(curves: Array, alpha: float) -> Array:
    """Return the values of quantile curves (last axis: ALPHAS) at one alpha."""
    return np.asarray(curves[..., round(alpha * (ALPHAS.size - 1))])


def quantile_frame(curves: Array, labels: list[str], value: str) -> pd.DataFrame:
    """Return medians and quartiles over runs of curves (runs, labels, alphas), one row for each label and alpha."""
    import pandas as pd

    low, mid, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
    return pd.DataFrame(
        {
            "model": np.repeat(labels, ALPHAS.size),
            "alpha": np.tile(ALPHAS, len(labels)),
            f"{value}_median": mid.ravel(),
            f"{value}_lower_quartile": low.ravel(),
            f"{value}_upper_quartile": high.ravel(),
        }
    )
