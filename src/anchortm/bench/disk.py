"""Rows on disk: a fit to Parquet files that may be larger than memory, compared with a fit in memory."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from anchortm.bench.engine import Facts, Options, best, in_child, outcome, peak, simulate
from anchortm.bench.rows import Bar, Comparison, Line

__all__ = ["decode", "fit_in_memory", "fit_on_disk", "out_of_core", "write_rows"]

COVARIATES = [f"x{j}" for j in range(10)]
FORMULA = f"Surv(time, event) ~ {' + '.join(COVARIATES)} | site"
BYTES_A_ROW = 110  # time, event, ten covariates and a site, hardly compressible
LIMIT = 20.0  # later times are censored: about a tenth


def write_rows(folder: Path, n: int, rows_a_file: int) -> str:
    """Write simulated rows to Parquet files in a folder, one by one, and return their pattern."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part, start in enumerate(range(0, n, rows_a_file)):
        X, latent, site = simulate(min(rows_a_file, n - start), part=part)
        y = outcome(latent)
        columns = {"time": np.minimum(y, LIMIT), "event": y < LIMIT, "site": site}
        table = pa.table(columns | dict(zip(COVARIATES, X.T, strict=True)))
        pq.write_table(table, folder / f"part-{part:04d}.parquet")
    return str(folder / "*.parquet")


def _facts(model: object, seconds: float) -> Facts:
    return {
        "seconds": seconds,
        "resident": peak(),
        "coef": [float(b) for b in model.coef_],  # type: ignore[attr-defined]
        "passes": getattr(model, "n_passes_", None),  # None for a fit in memory
    }


def fit_on_disk(pattern: str) -> Facts:
    """Return the fit to the files."""
    from anchortm.models.transformation import ContinuousLogit

    start = time.perf_counter()
    model = ContinuousLogit.from_formula(FORMULA, data=pattern, xi=10.0)
    return _facts(model, time.perf_counter() - start)


def fit_in_memory(pattern: str) -> Facts:
    """Return the fit in memory; the time for reading the files does not count."""
    import pandas as pd

    from anchortm.models.transformation import ContinuousLogit

    path = Path(pattern)
    frame = pd.concat([pd.read_parquet(file) for file in sorted(path.parent.glob(path.name))], ignore_index=True)
    start = time.perf_counter()
    model = ContinuousLogit.from_formula(FORMULA, data=frame, xi=10.0)
    return _facts(model, time.perf_counter() - start)


def decode(pattern: str) -> Facts:
    """Return the time for reading the columns of the files into memory, batch by batch, without any work on them."""
    import pyarrow.dataset as ds

    files = [str(file) for file in sorted(Path(pattern).parent.glob(Path(pattern).name))]

    def work() -> None:
        for batch in ds.dataset(files).to_batches(columns=["time", "event", "site", *COVARIATES], use_threads=False):
            del batch

    return {"seconds": best(work, 3)}


MEMORY = Bar("out of core, c-logit censored, xi = 10, n = {disk} rows on Parquet", "GB resident", 1.5)
PACE = Bar("the same, time for a row", "times the fit of {disk_check} rows in memory", None)
PASSES = Bar("the same, time for a row and pass", "times reading a row from the files", None)
EXACT = Bar("out of core against in memory, n = {disk_check}", "largest difference of coefficients", 1e-8)


def out_of_core(options: Options) -> list[Line | Comparison]:
    """Return memory, time and exactness of a fit from disk."""
    sizes = options.sizes
    needed, free = BYTES_A_ROW * (sizes.disk + sizes.disk_check), shutil.disk_usage(tempfile.gettempdir()).free
    if needed > free:
        error = f"{needed / 2**30:.1f} GB of disk are needed, {free / 2**30:.1f} GB are free"
        return [bar.failed(error, options) for bar in (MEMORY, PACE, PASSES, EXACT)]
    with tempfile.TemporaryDirectory() as name:
        check, big = Path(name) / "check", Path(name) / "big"
        check.mkdir()
        few = write_rows(check, sizes.disk_check, sizes.disk_file)
        kept, small, read = in_child(fit_in_memory, few), in_child(fit_on_disk, few), in_child(decode, few)
        for found in (small, kept, read):
            if "error" in found:
                return [bar.failed(found["error"], options) for bar in (MEMORY, PACE, PASSES, EXACT)]
        big.mkdir()
        large = in_child(fit_on_disk, write_rows(big, sizes.disk, sizes.disk_file))
    rows: list[Line | Comparison] = []
    if "error" in large:
        rows += [bar.failed(large["error"], options) for bar in (MEMORY, PACE, PASSES)]
    else:
        rows += _of_large(large, kept["seconds"] / sizes.disk_check, read["seconds"] / sizes.disk_check, options)
    difference = max(abs(a - b) for a, b in zip(small["coef"], kept["coef"], strict=True))
    return [*rows, EXACT.line(difference, options)]


def _of_large(large: Facts, in_memory: float, reading: float, options: Options) -> list[Line]:
    """Return the lines of a large fit, given seconds for a row of a fit in memory and of reading the files."""
    row = large["seconds"] / options.sizes.disk
    pass_ = row / large["passes"]
    if large["resident"] is None:
        first = MEMORY.failed("this system does not report peak memory", options)
    else:
        first = MEMORY.line(large["resident"] / 1e9, options, f"{large['seconds']:.3g} s, {large['passes']} passes")
    nanoseconds = f"{1e9 * pass_:.0f} ns against {1e9 * reading:.0f} ns"
    return [first, PACE.line(row / in_memory, options), PASSES.line(pass_ / reading, options, nanoseconds)]
