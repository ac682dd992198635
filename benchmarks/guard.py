"""Compare the speed of the working tree with a commit, as ratios in one run; to be called by hand.

Both trees are timed in turn, round after round, each time in a new process; the shortest time of each counts. Only the
public face is used, so that older commits can be compared with.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SLOWER = 1.15  # ratios above are pointed out
LONG = 1.5  # seconds after which work is not repeated
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def workloads(n: int, towns: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the pieces of work by name, at least one for each kind of work that users wait for."""
    import numpy as np
    import pandas as pd

    import anchortm as atm

    rng = np.random.default_rng(0)
    site = rng.integers(0, 100, n)
    X = rng.normal(size=(n, 10)) + 0.5 * rng.normal(size=100)[site][:, None]
    latent = X @ rng.normal(size=10) / 3.0 + rng.logistic(size=n)
    y = 10.0 * np.exp(latent / 4.0)
    limit = np.quantile(y, 0.9)
    response = atm.Surv(np.minimum(y, limit), y < limit)
    classes = np.digitize(latent, [-3, -1, 0, 1, 3])
    data = atm.datasets.load_boston_housing2()
    data = data[data.town.isin(data.town.value_counts().index[:towns])]
    covariates = ["crim", "rm", "lstat"]
    fitted = atm.ContinuousLogit(xi=10.0).fit(X[:2000], y[:2000], anchors=site[:2000])
    few = X[: n // 10]
    wide = pd.DataFrame({"y": y, "x": X[:, 0], "ward": rng.integers(0, max(2, n // 100), n), "site": site})

    return {
        "c-logit, censored, xi = 10": lambda: atm.ContinuousLogit(xi=10.0).fit(X, response, anchors=site),
        "c-probit, path of 6 xi": lambda: atm.anchor_path(
            atm.ContinuousProbit(), X, y, site, [0.0, 1.0, 10.0, 100.0, 1e3, 1e4]
        ),
        "o-logit, K = 6, xi = 10": lambda: atm.OrdinalRegression(xi=10.0).fit(X, classes, anchors=site),
        f"c-logit, {towns} towns left out": lambda: atm.leave_one_environment_out(
            atm.ContinuousLogit(), data[covariates], data.cmedv, data.town, [0.0, 10.0]
        ),
        "means and scores": lambda: [
            fitted.predict_distribution(X[: n // 50]).mean(),
            atm.scores.crps(fitted.predict_distribution(X[: n // 50]), y[: n // 50]),
        ],
        "cdf and quantiles": lambda: [
            fitted.predict_distribution(X).cdf(20.0),
            fitted.predict_distribution(few).ppf([0.1, 0.9]),
        ],
        "c-logit, a factor of many levels": lambda: atm.ContinuousLogit.from_formula(
            "y ~ x + C(ward) | site", wide, xi=10.0
        ),
        "GLM, binomial": lambda: atm.AnchorGLM(family="binomial").fit(X, latent > 0.0),
        "GLM, Poisson": lambda: atm.AnchorGLM(family="poisson").fit(X, classes),
        **nets(n // 50),
        **clusters_and_trees(X[: n // 5], latent[: n // 5], site[: n // 5]),
        **streamed(X, response, site, folder),
    }


def nets(n: int) -> dict[str, Callable[[], Any]]:
    """Return elastic-net paths."""
    import numpy as np

    import anchortm as atm

    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, max(4, min(100, n // 5))))
    latent = X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.5])
    time = np.exp(-latent) * rng.exponential(size=n)
    kinds: dict[str, tuple[Any, Any]] = {
        "Lm": (atm.NormalLinear(), latent + rng.normal(size=n)),
        "binary": (atm.OrdinalRegression(), (latent + rng.logistic(size=n) > 0.0).astype(int)),
        "Cox": (atm.CoxPH(), atm.Surv(np.minimum(time, 2.0), time < 2.0)),
    }
    grid = {"n_lambdas": 10, "smallest": 0.02}
    return {
        f"elastic-net path, {name}": lambda model=model, y=y: atm.elastic_net_path(model, X, y, None, **grid)
        for name, (model, y) in kinds.items()
    }


def clusters_and_trees(X: Any, latent: Any, site: Any) -> dict[str, Callable[[], Any]]:
    """Return random intercepts and boosted models."""
    import numpy as np

    import anchortm as atm

    n = len(X)
    cluster = np.arange(n) % max(2, n // 10)
    table = np.column_stack([X, cluster])
    y = latent + np.random.default_rng(2).normal(size=n)[cluster]
    ordered, some = np.digitize(y, [-2, 0, 2]), slice(None, n // 5)
    time = np.exp(y / 4.0)
    return {
        "Lm, random intercepts": lambda: atm.NormalLinear(random=X.shape[1]).fit(table, y),
        "o-logit, random intercepts": lambda: atm.OrdinalRegression(random=X.shape[1]).fit(table[some], ordered[some]),
        "boosted Lm": lambda: atm.AnchorBoostedTM(atm.NormalLinear(), 1.0, n_rounds=10).fit(X, y, anchors=site),
        "boosted c-logit": lambda: atm.AnchorBoostedTM(atm.ContinuousLogit(), 1.0, n_rounds=10).fit(
            X, time, anchors=site
        ),
    }


def streamed(X: Any, response: Any, site: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return a fit to rows in a file, if pyarrow is installed."""
    import pandas as pd

    import anchortm as atm

    names = [f"x{j}" for j in range(X.shape[1])]
    path = folder / "rows.parquet"
    table = pd.DataFrame(X, columns=names).assign(
        time=response.lower, event=response.lower == response.upper, site=site
    )
    try:
        table.to_parquet(path)
    except ImportError:
        return {}
    formula = f"Surv(time, event) ~ {' + '.join(names)} | site"
    return {"c-logit, from a file": lambda: atm.ContinuousLogit.from_formula(formula, str(path), xi=10.0)}


def child(n: int, towns: int) -> None:
    """Print the seconds of each piece of work, and where anchortm came from."""
    start = time.perf_counter()
    import anchortm as atm

    atm.ContinuousLogit  # noqa: B018 - loads what a first fit needs
    seconds = {"import and first use": time.perf_counter() - start}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in workloads(n, towns, Path(folder)).items():
            seconds[name] = shortest(work)
    print(json.dumps({"from": atm.__file__, "seconds": seconds, "kernels": kernels()}))


def shortest(work: Callable[[], Any]) -> float:
    """Return the shortest time of some work after a first call; long work has no first call."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 0.1 and len(times) < 10):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
        if sum(times) > LONG:
            return min(times)
    return min(times[1:])


def kernels() -> str:
    """Return the kernels in use; older commits have none to choose from."""
    try:
        from anchortm.kernels import NAME
    except ImportError:
        return "numpy"
    return str(NAME)


def compile_kernels(source: Path) -> None:
    """Compile the kernels of a tree, if it has some: both trees are to have theirs."""
    script = source / "anchortm" / "kernels" / "build.py"
    if script.exists():
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            print(f"no compiled kernels in {source}: {done.stderr.strip()}", file=sys.stderr)


def timed(source: Path, n: int, towns: int) -> tuple[dict[str, float], str]:
    """Return the seconds of the tree whose packages are in ``source``, and its kernels."""
    line = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--child"]
    line += ["--rows", str(n), "--towns", str(towns)]
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(source)}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        sys.exit(f"error: the work failed with {source}\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    if not Path(found["from"]).resolve().is_relative_to(source.resolve()):
        sys.exit(f"error: {found['from']} was imported instead of {source}")
    return dict(found["seconds"]), str(found["kernels"])


def export(ref: str, folder: Path) -> Path:
    """Write the sources of a commit to a folder and return where its packages are."""
    line = ["git", "-C", str(ROOT), "archive", "--format=tar", ref, "src"]
    done = subprocess.run(line, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"error: git cannot export {ref!r}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def table(old: dict[str, float], new: dict[str, float], ref: str) -> tuple[str, bool]:
    """Return ratios of new to old in words, and whether any is too large."""
    width = max(map(len, new))
    lines, slower = [f"{'work':{width}}  {'new / old':>9}  {'tree':>9}  {ref:>9}"], False
    for name in new:
        ratio = new[name] / old[name]
        slower |= ratio > SLOWER
        mark = "  slower" if ratio > SLOWER else "  faster" if ratio < 1.0 / SLOWER else ""
        lines.append(f"{name:{width}}  {ratio:9.2f}  {new[name]:7.4f} s  {old[name]:7.4f} s{mark}")
    return "\n".join(lines), slower


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ref", nargs="?", default="HEAD", help="commit to compare with (default: the last one)")
    parser.add_argument("--rounds", type=int, default=4, help="times that each tree is timed")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the simulated data")
    parser.add_argument("--towns", type=int, default=8, help="towns to leave out")
    parser.add_argument("--strict", action="store_true", help=f"exit with code 1 if a ratio is above {SLOWER}")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.rows, options.towns)
        return 0
    best: dict[str, dict[str, float]] = {"old": {}, "new": {}}
    used = {}
    with tempfile.TemporaryDirectory() as folder:
        trees = {"old": export(options.ref, Path(folder)), "new": ROOT / "src"}
        for source in trees.values():
            compile_kernels(source)
        for k in range(options.rounds):
            for tree in ("old", "new") if k % 2 == 0 else ("new", "old"):  # neither is always the first
                print(f"round {k + 1} of {options.rounds}: {tree}", file=sys.stderr, flush=True)
                found, used[tree] = timed(trees[tree], options.rows, options.towns)
                for name, seconds in found.items():
                    best[tree][name] = min(seconds, best[tree].get(name, seconds))
    text, slower = table(best["old"], best["new"], options.ref[:9])
    print(text)
    print(f"kernels: {used['new']} in the tree, {used['old']} in {options.ref[:9]}", file=sys.stderr)
    return int(slower and options.strict)


if __name__ == "__main__":
    sys.exit(main())
