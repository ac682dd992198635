"""The bars of the design, except those against peers and on disk."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from anchortm.bench.engine import (
    Facts,
    Options,
    Side,
    beside_grams,
    best,
    censored,
    classes,
    count,
    first_line,
    grams,
    in_child,
    measured,
    named,
    outcome,
    peak,
    reset_peak,
    resident,
    simulate,
)
from anchortm.bench.rows import Bar, Comparison, Line

__all__ = [
    "XIS",
    "boston_c_logit",
    "c_logit",
    "c_probit_path",
    "fits",
    "growth",
    "import_time",
    "in_grams",
    "leave_one_out",
    "memory",
    "o_logit",
    "predictions",
    "small_fit",
    "wide_factor",
]

XIS = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4]
COVARIATES = ["crim", "zn", "indus", "nox", "rm", "age", "lstat"]
Rows = list[Line | Comparison]


def _no_facts(_: Any) -> Facts:
    return {}


def c_logit(n: int, levels: int = 100) -> Side:
    """Return an anchored c-logit fit with a tenth of the rows censored."""
    from anchortm.models.transformation import ContinuousLogit

    X, latent, site = simulate(n, levels)
    y = censored(latent)
    return lambda: ContinuousLogit(xi=10.0).fit(X, y, anchors=site), _no_facts


def c_probit_path(n: int, levels: int = 100) -> Side:
    """Return the path of a c-probit model along six xi."""
    from anchortm.models.transformation import ContinuousProbit
    from anchortm.selection.path import anchor_path

    X, latent, site = simulate(n, levels)
    y = outcome(latent)
    return lambda: anchor_path(ContinuousProbit(), X, y, site, XIS), _no_facts


def o_logit(n: int, levels: int = 100) -> Side:
    """Return an anchored o-logit fit with six classes."""
    from anchortm.models.transformation import OrdinalRegression

    X, latent, site = simulate(n, levels)
    y = classes(latent)
    return lambda: OrdinalRegression(xi=10.0).fit(X, y, anchors=site), _no_facts


TURNS = 3  # repeats of the large fits
COMPILED, NUMPY = "compiled kernels", "NumPy only"
C_LOGIT, C_PROBIT = "c-logit, 10 % right-censored, xi = 10, n = {large}", "c-probit exact, path of 6 xi, n = {large}"
O_LOGIT = "o-logit, K = 6, xi = 10, n = {large}"
FITS: dict[Bar, Callable[[int], Side]] = {
    Bar(f"{C_LOGIT}, {COMPILED}", "Grams", 12.0, kernels="compiled"): c_logit,
    Bar(f"{C_LOGIT}, {NUMPY}", "Grams", 15.0, kernels="numpy"): c_logit,
    Bar(f"{C_PROBIT}, {COMPILED}", "Grams", 15.0, kernels="compiled"): c_probit_path,
    Bar(f"{C_PROBIT}, {NUMPY}", "Grams", 15.0, kernels="numpy"): c_probit_path,
    Bar(f"{O_LOGIT}, {COMPILED}", "Grams", 15.0, kernels="compiled"): o_logit,
    Bar(f"{O_LOGIT}, {NUMPY}", "Grams", 15.0, kernels="numpy"): o_logit,
}


def _lines(bar: Bar, options: Options, measure: Callable[[], float], note: str = "") -> Rows:
    """Return the line of a bar, even if measuring it fails."""
    try:
        return [bar.line(measure(), options, note)]
    except Exception as error:
        return [bar.failed(first_line(error), options)]


def in_grams(side: str, n: int, repeats: int) -> Facts:
    """Return the seconds of a side and of a Gram."""
    seconds, unit = beside_grams(named(side)(n)[0], n, repeats)
    return {"seconds": seconds, "unit": unit}


def fits(options: Options) -> Rows:
    """Return the times of the large fits in Grams, with both kinds of kernels.

    All take turns, so that a busy minute of the machine does not decide about one of them.
    """
    usual = Bar(f"{C_LOGIT}, two threads (the default)", "Grams of one thread", None)
    works = [(bar, side, 1) for bar, side in FITS.items()] + [(usual, c_logit, 2)]
    times: dict[Bar, list[float]] = {bar: [] for bar, _, _ in works}
    units: list[float] = []
    errors: dict[Bar, str] = {}
    for _ in range(TURNS if options.repeats > 1 else 1):
        for bar, side, threads in works:
            name, n = f"{side.__module__}:{side.__qualname__}", options.sizes.large
            found = in_child(in_grams, name, n, options.repeats, kernels=bar.kernels, threads=threads)
            if "error" in found:
                errors[bar] = found["error"]
            else:
                times[bar].append(found["seconds"])
                units.append(found["unit"])
    return [
        bar.failed(errors[bar], options) if bar in errors else bar.line(min(times[bar]) / min(units), options)
        for bar in times
    ]


def boston_c_logit(n: int) -> Side:
    """Return an anchored c-logit fit of BostonHousing2 with the capped prices censored."""
    from anchortm.datasets import load_boston_housing2
    from anchortm.inputs.response import Surv
    from anchortm.models.transformation import ContinuousLogit

    data = load_boston_housing2().iloc[:n]
    X, y, town = data[COVARIATES], Surv(data.cmedv, data.cmedv != 50), data.town
    return lambda: ContinuousLogit(xi=10.0).fit(X, y, anchors=town), _no_facts


def small_fit(options: Options) -> Rows:
    """Return the milliseconds of one fit of BostonHousing2."""
    rows: Rows = []
    for kernels, words in (("compiled", COMPILED), ("numpy", NUMPY)):
        bar = Bar(f"c-logit censored, BostonHousing2, xi = 10, n = 506, {words}", "milliseconds", None)
        name = f"{__name__}:{boston_c_logit.__qualname__}"
        found = in_child(measured, name, [506], 10 * options.repeats, kernels=kernels)
        rows.append(
            bar.failed(found["error"], options) if "error" in found else bar.line(1e3 * found["seconds"], options)
        )
    return rows


def leave_one_out(options: Options) -> Rows:
    """Return the seconds for leaving out each town of BostonHousing2, for 6 xi and 4 models, in one process."""
    from threadpoolctl import threadpool_limits

    from anchortm.datasets import load_boston_housing2
    from anchortm.inputs.response import Surv
    from anchortm.models.transformation import ContinuousLogit, ContinuousProbit, NormalLinear
    from anchortm.selection.left_out import leave_one_environment_out

    data = load_boston_housing2()
    data = data[data.town.isin(sorted(data.town.unique())[: options.sizes.towns])]
    X, y, town = data[COVARIATES], data.cmedv, data.town
    logit = ContinuousLogit(support=(12.9, 34.65))
    models = [(NormalLinear(), y), (ContinuousProbit(), y), (logit, y), (logit, Surv(y, y != 50))]

    def work() -> None:
        for model, response in models:
            leave_one_environment_out(model, X, response, town, XIS)

    bar = Bar("BostonHousing2, {towns} towns x 6 xi x 4 models left out", "seconds, one core", 4.0)
    with threadpool_limits(1):
        return _lines(bar, options, lambda: best(work, options.repeats))


def predictions(options: Options) -> Rows:
    """Return the times of means and scores in fits, and of quantiles in Grams, for many predicted distributions."""
    from anchortm.models.transformation import ContinuousLogit
    from anchortm.scores import crps

    sizes, repeats = options.sizes, max(3, options.repeats)
    X, latent, _ = simulate(sizes.predictor)
    y = outcome(latent)
    model = ContinuousLogit().fit(X, y)
    X_new, latent, _ = simulate(sizes.large, part=1)
    many = model.predict_distribution(X_new)
    some, seen = many[: sizes.predicted], outcome(latent)[: sizes.predicted]
    del X_new, latent

    def in_fits(work: Callable[[], Any]) -> float:
        found = [(best(work, 1), best(lambda: ContinuousLogit().fit(X, y), 1)) for _ in range(repeats)]
        return min(seconds for seconds, _ in found) / min(unit for _, unit in found)

    fits_of = "fits of {predictor} rows"
    seconds = Bar("means of {predicted} predicted distributions, c-logit", "seconds", 1.0)
    means = Bar("means of {predicted} predicted distributions, c-logit", fits_of, 50.0)
    scores = Bar("CRPS of {predicted} predicted distributions, c-logit", fits_of, 50.0)
    quantiles = Bar("3 quantiles of {large} predicted distributions, c-logit", "Grams", 6.0)
    return [
        *_lines(seconds, options, lambda: best(some.mean, repeats)),
        *_lines(means, options, lambda: in_fits(some.mean)),
        *_lines(scores, options, lambda: in_fits(lambda: crps(some, seen))),
        *_lines(quantiles, options, lambda: grams(lambda: many.ppf([0.1, 0.5, 0.9]), sizes.large, repeats)),
    ]


def wide_factor(options: Options) -> Rows:
    """Return the time of a fit with a factor of many levels among the covariates, its formula included."""
    import pandas as pd

    from anchortm.models.transformation import ContinuousLogit

    n, levels = options.sizes.large, options.sizes.wide_levels
    X, latent, site = simulate(n)
    ward = np.random.default_rng(5).integers(0, levels, n)
    time = outcome(latent + 0.5 * np.random.default_rng(6).normal(size=levels)[ward])
    limit = np.quantile(time, 0.9)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame = frame.assign(time=np.minimum(time, limit), event=time < limit, ward=ward, site=site)
    formula = f"Surv(time, event) ~ {' + '.join(frame.columns[: X.shape[1]])} + C(ward) | site"
    bar = Bar("c-logit, censored, xi = 10, a factor of {wide_levels} levels in X, n = {large}", "Grams", None)

    def measure() -> float:
        return grams(lambda: ContinuousLogit.from_formula(formula, frame, xi=10.0), n, options.repeats)

    return _lines(bar, options, measure)


def peak_of_a_fit(n: int) -> Facts:
    """Return the peak of a c-logit fit, its inputs included, in bytes of design plus basis."""
    from anchortm.models.transformation import ContinuousLogit

    c_logit(400)[0]()  # triggers the lazy imports
    X, latent, site = simulate(n)
    y = censored(latent)
    del latent
    gc.collect()
    held = X.nbytes + site.nbytes + y.lower.nbytes + y.upper.nbytes
    known, before = reset_peak(), resident()
    ContinuousLogit(xi=10.0).fit(X, y, anchors=site)
    top = peak()
    if not known or before is None or top is None:
        return {"error": "this system does not report peak memory"}
    return {"ratio": (top - before + held) / (8 * n * 17)}


def memory(options: Options) -> Rows:
    """Return the peak memory of a fit."""
    bar = Bar("peak memory, c-logit, n = {large}", "bytes of design plus basis", 2.5)
    found = in_child(peak_of_a_fit, options.sizes.large)
    return [bar.failed(found["error"], options) if "error" in found else bar.line(found["ratio"], options)]


def _row_and_pass(n: int, levels: int, repeats: int) -> float:
    """Return the seconds per row of one pass for the sums and the derivatives."""
    from threadpoolctl import threadpool_limits

    from anchortm.bases import BernsteinBasis
    from anchortm.engine.objective.build import build_objective
    from anchortm.engine.rows.likelihood import start_values
    from anchortm.inputs.anchors import anchor_columns
    from anchortm.links import Logistic

    X, latent, site = simulate(n, levels, p=4)
    y, basis, link = censored(latent), BernsteinBasis(6, (5.0, 20.0)), Logistic()
    objective = build_objective(link, basis, y, X, anchor_columns(site))
    v = objective.coordinates.join(start_values(link, basis, y), np.zeros(4))
    t, number = objective.sums(v).t, itertools.count(1)

    def another() -> Any:  # the loss keeps what it found at the latest v
        return v + 1e-12 * next(number)

    with threadpool_limits(1):
        sums = best(lambda: objective.sums(another()), repeats)
        return (sums + best(lambda: objective.derivatives(another(), t), repeats)) / n


def growth(options: Options) -> Rows:
    """Return how the time per row and pass grows with rows and with levels."""
    (few, many), (some, all_), repeats = options.sizes.growth_rows, options.sizes.growth_levels, options.repeats
    rows = Bar(f"time for a row and pass, {count(many)} against {count(few)} rows", "ratio", 2.0)
    levels = Bar(f"time for a row and pass, {count(all_)} against {count(some)} levels, n = {{large}}", "ratio", 2.0)
    large = options.sizes.large
    return [
        *_lines(rows, options, lambda: _row_and_pass(many, 100, repeats) / _row_and_pass(few, 100, repeats)),
        *_lines(levels, options, lambda: _row_and_pass(large, all_, repeats) / _row_and_pass(large, some, repeats)),
    ]


def import_time(options: Options) -> Rows:
    """Return the time of importing anchortm against scikit-learn's base, each in a new interpreter."""

    def seconds(module: str) -> float:
        line = [sys.executable, "-c", f"import {module}"]
        return best(lambda: subprocess.run(line, check=True), options.repeats)  # noqa: S603

    bar = Bar("import anchortm", "times importing sklearn.base", 1.2)
    return _lines(bar, options, lambda: seconds("anchortm") / seconds("sklearn.base"))
