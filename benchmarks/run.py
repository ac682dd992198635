"""Measure what the design promises, as ratios in one run, and write benchmarks/results.md.

One *Gram* is the time of ``(M * w[:, None]).T @ M`` for M of n x 17, whole array, one BLAS thread,
best of five. Peers are fitted to the same data in the same run.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import anchortm as atm

ROOT = Path(__file__).resolve().parents[1]
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
Row = tuple[str, str, str, str]


def best(work: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def gram(n: int) -> float:
    rng = np.random.default_rng(0)
    M, w = rng.normal(size=(n, 17)), rng.random(n)
    with threadpool_limits(1):
        return best(lambda: (M * w[:, None]).T @ M, 5)


def simulate(n: int, levels: int = 100, p: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariates, a latent response and environments."""
    rng = np.random.default_rng(1)
    site = rng.integers(0, levels, n)
    effect = rng.normal(size=levels)
    X = rng.normal(size=(n, p)) + 0.5 * effect[site][:, None]
    latent = X @ (0.5 * rng.normal(size=p)) + 0.5 * effect[site] + rng.logistic(size=n)
    return X, latent, site


def censored(latent: np.ndarray) -> atm.Response:
    y = 10.0 * np.exp(latent / 4.0)
    limit = np.quantile(y, 0.9)
    return atm.Surv(np.minimum(y, limit), y < limit)


def verdict(value: float, bar: float) -> str:
    return f"{value:.3g}" + (" (met)" if value <= bar else " (NOT met)")


def large(n: int, repeats: int) -> list[Row]:
    """Fits at n rows in Grams."""
    X, latent, site = simulate(n)
    unit = gram(n)
    xis = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4]
    y = censored(latent)
    classes = np.digitize(latent, [-3, -1, 0, 1, 3])
    work = {
        "c-logit, 10 % right-censored, xi = 10": lambda: atm.ContinuousLogit(xi=10.0).fit(X, y, anchors=site),
        "c-probit exact, path of 6 xi": lambda: atm.anchor_path(
            atm.ContinuousProbit(), X, 10.0 * np.exp(latent / 4.0), site, xis
        ),
        "o-logit, K = 6, xi = 10": lambda: atm.OrdinalRegression(xi=10.0).fit(X, classes, anchors=site),
    }
    return [
        (f"{name}, n = {n:.0e}", "Grams", verdict(best(run, repeats) / unit, 20.0), "at most 20")
        for name, run in work.items()
    ]


def growth(repeats: int) -> list[Row]:
    """Time for each row and pass, from 1e5 to 1e7 rows and from 10 to 100 000 levels."""
    from anchortm.anchors import anchor_columns
    from anchortm.bases import BernsteinBasis
    from anchortm.likelihood import start_values
    from anchortm.links import Logistic
    from anchortm.objective import build_objective

    def per_row(n: int, levels: int) -> float:
        X, latent, site = simulate(n, levels, p=4)
        y = censored(latent)
        basis, link = BernsteinBasis(6, (5.0, 20.0)), Logistic()
        objective = build_objective(link, basis, y, X, anchor_columns(site))
        v = objective.coordinates.join(start_values(link, basis, y), np.zeros(4))
        t = objective.sums(v).t
        with threadpool_limits(1):
            return (best(lambda: objective.sums(v), repeats) + best(lambda: objective.derivatives(v, t), repeats)) / n

    small = per_row(100_000, 100)
    many_rows = per_row(10_000_000, 100) / small
    few, many = per_row(1_000_000, 10), per_row(1_000_000, 100_000)
    return [
        ("time for a row and pass, 1e7 against 1e5 rows", "ratio", verdict(many_rows, 2.0), "at most 2"),
        ("time for a row and pass, 100 000 against 10 levels", "ratio", verdict(many / few, 2.0), "at most 2"),
    ]


def leave_one_out() -> list[Row]:
    """Leave-one-environment-out on BostonHousing2: 92 towns, 6 xi, 4 models, one process."""
    data = atm.datasets.load_boston_housing2()
    X, y, town = data[COVARIATES], data.cmedv, data.town
    logit = atm.ContinuousLogit(support=(12.9, 34.65))
    models = [
        (atm.NormalLinear(), y),
        (atm.ContinuousProbit(), y),
        (logit, y),
        (logit, atm.Surv(y, y != 50)),
    ]
    xis = [0, 1, 10, 100, 1e3, 1e4]

    def work() -> None:
        for model, response in models:
            atm.leave_one_environment_out(model, X, response, town, xis)

    seconds = best(work, 2)
    return [
        ("BostonHousing2, 92 towns x 6 xi x 4 models left out", "seconds, one core", verdict(seconds, 10.0), "under 10")
    ]


def boston(repeats: int) -> list[Row]:
    """One anchored fit of BostonHousing2 against cvxpy with Clarabel on the published formulation."""
    import cvxpy as cp

    data = atm.datasets.load_boston_housing2()
    X, y, town = data[COVARIATES].to_numpy(), data.cmedv.to_numpy(), data.town
    model = atm.ContinuousProbit(xi=10.0)
    ours = best(lambda: model.fit(X, y, anchors=town), 5 * repeats)
    B, D = model.basis_.rows(y), model.basis_.derivative_rows(y)
    A = pd.get_dummies(town).to_numpy(dtype=float)
    root, scaled = A / np.sqrt(A.sum(axis=0)), X / X.std(axis=0)
    value = []

    def peer() -> None:
        theta, beta = cp.Variable(7), cp.Variable(7)
        z = B @ theta - scaled @ beta
        loss = 0.5 * cp.sum_squares(z) - cp.sum(cp.log(D @ theta)) + 10.0 * cp.sum_squares(root.T @ z)
        problem = cp.Problem(cp.Minimize(loss), [cp.diff(theta) >= 0])
        problem.solve(solver="CLARABEL")
        value.append(problem.value / len(y) + 0.5 * math.log(2 * math.pi))

    theirs = best(peer, repeats)
    ratio = theirs / ours
    return [
        (
            "one anchored c-probit fit of BostonHousing2",
            "times faster than cvxpy with Clarabel",
            f"{ratio:.3g}"
            + (" (met)" if ratio >= 5 else " (NOT met)")
            + f", loss lower by {value[-1] - model.loss_:.1e}",
            "at least 5",
        )
    ]


def ordinal(repeats: int) -> list[Row]:
    """Ordinal logit at 1e5 rows against statsmodels."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    X, latent, _ = simulate(100_000)
    y = np.digitize(latent, [-3, -1, 0, 1, 3])
    model = atm.OrdinalRegression()
    ours = best(lambda: model.fit(X, y), repeats)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        peer = OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=False, maxiter=500)
        theirs = time.perf_counter() - start
    ratio = theirs / ours
    gain = model.loglik_ - peer.llf
    met = ratio >= 20 and gain >= -1e-6
    return [
        (
            "ordinal logit, n = 1e5, p = 10, K = 6",
            "times faster than statsmodels OrderedModel",
            f"{ratio:.3g}" + (" (met)" if met else " (NOT met)") + f", log-likelihood higher by {gain:.1e}",
            "at least 20",
        )
    ]


MEMORY = """
import resource, sys
sys.path.insert(0, {folder!r})
import numpy as np, anchortm as atm
from run import simulate, censored
atm.ContinuousLogit(xi=1.0).fit(*[a[:200] for a in simulate(400)[:1]], np.arange(200.0), anchors=np.arange(200) % 5)
X, latent, site = simulate({n})
y = censored(latent)
del latent
import gc; gc.collect()
def now():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
held = X.nbytes + site.nbytes + y.lower.nbytes + y.upper.nbytes
open("/proc/self/clear_refs", "w").write("5")
before = now() - held
atm.ContinuousLogit(xi=10.0).fit(X, y, anchors=site)
peak = [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print((peak - before) / (8 * {n} * 17))
"""


def memory(n: int) -> list[Row]:
    """Peak memory of a fit, its inputs included, in bytes of design plus basis."""
    code = MEMORY.format(folder=str(Path(__file__).parent), n=n)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    if out.returncode:
        return [("peak memory", "", f"not measured: {out.stderr.strip().splitlines()[-1]}", "at most 2.5")]
    return [
        (
            f"peak memory, c-logit, n = {n:.0e}",
            "bytes of design plus basis",
            verdict(float(out.stdout), 2.5),
            "at most 2.5",
        )
    ]


def import_time() -> list[Row]:
    """Importing anchortm against scikit-learn's base."""

    def seconds(module: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True), 3)  # noqa: S603

    ratio = seconds("anchortm") / seconds("sklearn.base")
    return [("import anchortm", "times importing sklearn.base", verdict(ratio, 1.2), "at most 1.2")]


def report(rows: list[Row]) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "daqp", "cvxpy", "statsmodels"))
    lines = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {datetime.date.today()}: {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {packages}, anchortm {atm.__version__}.",
        "",
        "Ratios within one run. A Gram is one weighted cross-product of n x 17 numbers, one BLAS thread.",
        "",
        "| work | unit | measured | bar |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="rows of the large fits")
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results.md")
    arguments = parser.parse_args()
    rows: list[Row] = []
    parts = {
        "large fits": lambda: large(arguments.n, arguments.repeats),
        "leave-one-out": leave_one_out,
        "BostonHousing2": lambda: boston(arguments.repeats),
        "ordinal": lambda: ordinal(arguments.repeats),
        "memory": lambda: memory(arguments.n),
        "growth": lambda: growth(arguments.repeats),
        "import": import_time,
    }
    for name, part in parts.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += part()
        for row in rows[-3:]:
            print("   ", " | ".join(row), file=sys.stderr, flush=True)
    text = report(rows)
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
