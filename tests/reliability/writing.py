"""Everything that writes files, tried where nothing can be written.

As a script with a folder, in a mount namespace of its own: mounts a small disk there, tries all outputs while it is
full and again while it is read-only, and prints what was said and what is there afterwards as JSON.
"""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anchortm as atm
from anchortm.bench import suite
from anchortm.bench.engine import QUICK
from anchortm.bench.engine import Options as BenchOptions
from anchortm.bench.rows import unfinished
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMError
from anchortm.reproduce import table as reproduction
from anchortm.reproduce.drawing import panels
from anchortm.reproduce.engine import Claim, Options, Part

FORMULA = "rating ~ temp + contact | judge"


def compute(_: Options) -> dict[str, Any]:
    return {"noise": np.random.default_rng(0).normal(size=5000)}


PART = Part(
    "toy",
    "A toy",
    compute,
    lambda arrays: {"toy": panels()[0]},
    lambda arrays: {"toy": reproduction.claim_frame([])},
    lambda arrays: [Claim("A1", "it is noise", f"{arrays['noise'].mean():.3f}", "reproduced", "")],
)


def reproduce(folder: Path) -> None:
    """Run a small part of a reproduction."""
    parts, reproduction.PARTS = reproduction.PARTS, [PART]
    try:
        reproduction.reproduce(["toy"], folder, Options(), say=lambda _: None)
    finally:
        reproduction.PARTS = parts


def bench(folder: Path) -> None:
    """Run a benchmark that measures nothing and has much to say about it."""
    parts, suite.PARTS = suite.PARTS, {"toy": lambda _: [unfinished("toy", "nothing to measure; " * 500)]}
    try:
        suite.run(["toy"], folder, BenchOptions(QUICK, 1), lambda _: None)
    finally:
        suite.PARTS = parts


def command(*line: str) -> Callable[[Path], None]:
    """Return a function that runs a command in a folder."""

    def run(folder: Path) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main([word.format(folder=folder) for word in line])
        if code:
            assert code == 1
            raise AnchorTMError(said.getvalue().strip().removeprefix("error: "))

    return run


def outputs(inputs: Path) -> dict[str, Callable[[Path], Any]]:
    """Return what writes files, by the file that it writes; inputs are in another folder."""
    import dask.dataframe as dd  # takes long to load, and others need not

    wine = atm.datasets.load_wine()
    wine.to_csv(inputs / "wine.csv", index=False)
    wine.loc[wine.index.repeat(50)].to_parquet(inputs / "wine.parquet")
    model = atm.OrdinalRegression.from_formula(FORMULA, wine, xi=1.0)
    atm.save(model, inputs / "model.json")
    many, lazy = wine.loc[wine.index.repeat(50)], dd.from_pandas(wine, npartitions=2)
    rows = [f"{inputs}/wine.csv", "--model", "o-logit", "--formula", FORMULA]
    predict = ["predict", f"{inputs}/model.json", f"{inputs}/wine.parquet", "--output"]
    draw = ["path", *rows, "--xi", "0,1", "--plot"]
    return {
        "m.json": lambda folder: atm.save(model, folder / "m.json"),
        "p.parquet": lambda folder: atm.predict_table(model, many, folder / "p.parquet"),
        "s.parquet": lambda folder: atm.predict_table(model, inputs / "wine.parquet", folder / "s.parquet"),
        "lazy": lambda folder: atm.predict_table(model, lazy, folder / "lazy"),
        "d.csv": command("data", "boston_housing2", "--output", "{folder}/d.csv"),
        "d.parquet": command("data", "boston_housing2", "--output", "{folder}/d.parquet"),
        "d.json": command("data", "boston_housing2", "--output", "{folder}/d.json"),
        "f.json": command("fit", *rows, "--save", "{folder}/f.json"),
        "l.csv": command("loeo", *rows, "--xi", "0,0.1,0.2,0.3,1", "--output", "{folder}/l.csv"),
        "c.csv": command(*predict, "{folder}/c.csv"),
        "c.parquet": command(*predict, "{folder}/c.parquet"),
        "p.png": command(*draw, "{folder}/p.png"),
        "p.pdf": command(*draw, "{folder}/p.pdf"),
        "p.svg": command(*draw, "{folder}/p.svg"),
        "claims.csv": reproduce,
        "results.md": bench,
    }


def attempt(write: Callable[[Path], Any], folder: Path) -> str:
    """Return what an error of ours says, or that there was none."""
    try:
        write(folder)
    except AnchorTMError as error:
        return str(error)
    return "no error"


def left(folder: Path) -> dict[str, str]:
    """Return all files of a folder with the first words of each."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "ballast"]
    return {str(path.relative_to(folder)): path.read_bytes()[:20].decode("latin1") for path in found}


def script(folder: Path, inputs: Path) -> None:
    """Try all outputs on a full and on a read-only disk."""
    works = outputs(inputs)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)  # noqa: S603, S607
    for name in works:
        if name != "lazy":
            (folder / name).write_text("old")
    (folder / "computed").mkdir()
    with contextlib.suppress(OSError), open(folder / "ballast", "wb", buffering=0) as ballast:
        while ballast.write(bytes(4096)):
            pass
    found = {"full": {name: attempt(write, folder) for name, write in works.items()}, "left full": left(folder)}
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)  # noqa: S603, S607
    found["read-only"] = {name: attempt(write, folder) for name, write in works.items()}
    found["left read-only"] = left(folder)
    subprocess.run(["umount", folder], check=True)  # noqa: S603, S607
    print(json.dumps(found))


if __name__ == "__main__":
    script(Path(sys.argv[1]), Path(sys.argv[2]))
