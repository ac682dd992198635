"""What a pass over rows costs and moves: the numbers behind the page on cluster sizes (docs/scale.md)."""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from anchortm.backends.sources import open_source
from anchortm.backends.streamed import Stream
from anchortm.backends.streamed_blocks import _Sum
from anchortm.bases import BernsteinBasis
from anchortm.bench.disk import FORMULA, write_rows
from anchortm.bench.engine import best
from anchortm.engine.rows.block_sums import LogLikelihood, SecondOrder
from anchortm.engine.rows.likelihood import start_values
from anchortm.links import Logistic
from anchortm.models.transformation import ContinuousLogit


def passes(stream: Stream, repeats: int) -> dict[str, Any]:
    """Return seconds of both kinds of pass, and the bytes of what travels out and back for one partition."""
    link, basis = Logistic(), BernsteinBasis(6, (5.0, 15.0))
    objective = stream.objective(link, basis, -1.0)
    v = objective.coordinates.join(start_values(link, basis, *stream.typical), [0.0] * len(stream.names))
    k, sums = objective.coordinates.n_baseline, objective.sums(v)
    works = {
        "log-likelihood": LogLikelihood(link, v, k, objective.n_sums),
        "derivatives": SecondOrder(link, v, k, objective.n_sums, objective._spread(sums.t)),
    }
    found: dict[str, Any] = {}
    for name, work in works.items():
        with threadpool_limits(1):
            seconds = best(lambda work=work: objective.blocks.total(work), repeats)  # type: ignore[misc]
        found[name] = {
            "seconds": seconds,
            "out": len(pickle.dumps(_Sum(objective.blocks.plan, work))),  # type: ignore[attr-defined]
            "back": len(pickle.dumps(objective.blocks.total(work))),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    n = options.rows
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        pattern = write_rows(Path(folder), n, min(n, 1_000_000))
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / n
        print(f"{n} rows written in {time.perf_counter() - start:.1f} s, {size:.0f} bytes a row on disk")
        stream = Stream(FORMULA, open_source(pattern), "continuous", None, None, None, True)
        stream.learn(ContinuousLogit().specification())
        for name, found in passes(stream, options.repeats).items():
            print(
                f"{name}: {1e9 * found['seconds'] / n:.0f} ns a row and pass on one core, "
                f"{found['out']} bytes out, {found['back']} bytes back for each partition"
            )


if __name__ == "__main__":
    main()
