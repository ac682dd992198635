"""Many fits at once, in threads and processes, are those alone; nothing of the process is changed by any of them."""

import contextlib
import importlib
import locale
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import Parallel, delayed, parallel_config
from matplotlib.figure import Figure
from scipy import linalg
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from threadpoolctl import threadpool_info, threadpool_limits

import anchortm as atm
from anchortm._util.files import write_whole
from anchortm._util.threads import one_blas_thread
from anchortm.cli.main import main

WAIT = 60.0  # seconds, far more than is needed
ROWS = 20_000  # more than one block
FORMULA = "y ~ x + scale(z) | site"


def table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 12, n)
    x, z = rng.normal(size=n) + 0.3 * site, rng.normal(size=n)
    return pd.DataFrame({"y": np.exp(0.3 * (x - z - 0.3 * site + rng.logistic(size=n))), "x": x, "z": z, "site": site})


def numbers(model: Any) -> list[Any]:
    """Return what a fit found, to the last bit."""
    return [*model.baseline_.tolist(), *model.coef_.tolist(), model.loss_, model.penalty_, model.kkt_, model.n_iter_]


def outcome(name: str, y: Any) -> Any:
    """Return the outcome as a model takes it."""
    if name == "OrdinalRegression":
        return np.digitize(y, [0.5, 1.0, 2.0])
    return (10.0 * y).astype(int) if name == "CountRegression" else y


def fit(task: tuple[str, float, int, int | None]) -> list[Any]:
    """Fit one of many models, in whatever process or thread."""
    name, xi, n, n_jobs = task
    data = table(n, seed=len(name))
    model = getattr(atm, name)(xi=xi, n_jobs=n_jobs)
    return numbers(model.fit(data[["x", "z"]], outcome(name, data.y.to_numpy()), anchors=data.site))


NAMES = ["NormalLinear", "ContinuousProbit", "ContinuousLogit", "ProportionalHazards", "Lehmann", "OrdinalRegression"]
SMALL = [(name, xi, 400, 1) for name in [*NAMES, "CountRegression", "ParametricSurvival"] for xi in (0.0, 3.0)]
LARGE = [
    (name, 3.0, ROWS, jobs) for name in ("ContinuousLogit", "OrdinalRegression", "NormalLinear") for jobs in (1, 2)
]


@pytest.fixture(autouse=True)
def two_blas_threads() -> Iterator[None]:
    """Let BLAS have two threads, as on the machines of users, so that there is something to restore."""
    with threadpool_limits(2, user_api="blas"):
        assert 2 in blas_threads()  # of some package it may have one thread only
        yield


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_fits_in_threads_are_those_alone(tally: Callable[..., None]) -> None:
    """To the last bit: sums over blocks are added in one order, however many threads there are at work."""
    tasks = [*SMALL, *LARGE, *LARGE]
    alone, before = [fit(task) for task in tasks], blas_threads()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit, tasks))
    assert found == alone
    assert blas_threads() == before
    tally("concurrency", "fits at once", len(tasks))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow), "loky"])
def test_fits_in_processes_are_those_alone(method: str, tally: Callable[..., None]) -> None:
    tasks = [*SMALL, *LARGE[:2]]
    alone = [fit(task) for task in tasks]
    if method == "loky":
        found = Parallel(n_jobs=2)(delayed(fit)(task) for task in tasks)
    else:
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"no {method} here")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # as Python says
            with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
                found = list(pool.map(fit, tasks))
    assert found == alone
    tally("concurrency", "fits at once", len(tasks))


def test_one_model_predicts_in_many_threads_at_once(tally: Callable[..., None]) -> None:
    data = table()
    models = [
        atm.ContinuousLogit.from_formula(FORMULA, data, xi=1.0),
        atm.ContinuousLogit(xi=1.0).fit(data[["x", "z"]], data.y, anchors=data.site),
    ]
    for model in models:
        same = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own; nothing of it is computed yet

        def predict(k: int, model: Any = model) -> list[Any]:
            rows = data[["y", "x", "z", "site"]][k::4]
            X = rows if hasattr(model, "formula_") else rows[["x", "z"]]
            distribution = model.predict_distribution(X)
            values = [model.predict(X), distribution.cdf(1.0), distribution.ppf(0.9), model.nll(X, rows.y)]
            return [value.tolist() for value in values]

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k, same=same: predict(k % 4, same), range(12)))
        assert found == [predict(k % 4) for k in range(12)]
        tally("concurrency", "predictions at once", 12)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_environments_searches_and_bootstraps_do_not_depend_on_workers(
    backend: str, tally: Callable[..., None]
) -> None:
    data = table()
    X, y, site = data[["x", "z"]], data.y, data.site
    model = atm.ContinuousProbit()
    fitted = atm.ContinuousProbit(xi=1.0).fit(X, y, anchors=site)

    def work(n_jobs: int | None) -> list[Any]:
        left_out = atm.leave_one_environment_out(model, X, y, site, [0, 1, 10], n_jobs=n_jobs)
        search = atm.XiSearchCV(model, [0, 1, 10], n_jobs=n_jobs).fit(X, y, anchors=site)
        draws = fitted.bootstrap(8, random_state=1, n_jobs=n_jobs).draws
        return [left_out.frame(), search.results_, numbers(search.best_estimator_), draws.tolist()]

    alone, before = work(None), blas_threads()
    with parallel_config(backend):
        found = work(2)
    assert blas_threads() == before
    for one, other in zip(found[:2], alone[:2], strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert found[2:] == alone[2:]
    tally("concurrency", "fits at once", 12 * 3 * 2 + 8 + 1)


def test_models_travel(tmp_path: Path, tally: Callable[..., None]) -> None:
    """Unfitted, fitted, by a formula, in batches: a copy is the same model, and a clone is an unfitted one."""
    data = table()
    X, y, site = data[["x", "z"]], data.y, data.site
    data.to_parquet(tmp_path / "rows.parquet")
    models = [
        atm.ContinuousLogit(xi=1.0, support=(0.5, 3.0)),
        *[getattr(atm, name)(xi=1.0).fit(X, outcome(name, y), anchors=site) for name in [*NAMES, "CountRegression"]],
        atm.ContinuousLogit.from_formula(FORMULA, data, xi=1.0),
        atm.ContinuousLogit.from_formula(FORMULA, tmp_path / "rows.parquet", xi=1.0),
        atm.XiSearchCV(atm.NormalLinear(), [0, 1]).fit(X, y, anchors=site),
        atm.LinearAnchorRegression(2.0).fit(X, y, anchors=site),
        atm.AnchorBoosting(2.0, n_estimators=3, base="tree", random_state=1).fit(X, y, anchors=site),
    ]
    for model in models:
        again = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
        assert repr(clone(again)) == repr(clone(model))
        assert not [name for name in vars(clone(model)) if name.endswith("_")]
        if model is not models[0]:
            rows = data if hasattr(model, "formula_") else X
            assert again.predict(rows).tolist() == model.predict(rows).tolist()
        tally("concurrency", "models pickled")


def test_searches_and_scores_of_scikit_learn_run_in_processes() -> None:
    data = table()
    X, y = data[["x", "z", "site"]], data.y.to_numpy()
    model = atm.ContinuousProbit(anchor_names="site")
    alone, many = (GridSearchCV(model, {"xi": [0.0, 1.0, 10.0]}, cv=3, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    assert alone.cv_results_["mean_test_score"].tolist() == many.cv_results_["mean_test_score"].tolist()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = atm.ContinuousProbit(xi=1.0).set_fit_request(anchors=True, sample_weight=True)
        routed.set_score_request(sample_weight=True)
        extra = {"anchors": data.site.to_numpy(), "sample_weight": np.arange(1.0, len(y) + 1.0)}
        scores = [
            cross_val_score(routed, X[["x", "z"]], y, cv=3, n_jobs=jobs, params=extra).tolist() for jobs in (None, 2)
        ]
    assert scores[0] == scores[1]


def state() -> dict[str, Any]:
    """Return what belongs to the whole process."""
    return {
        "random numbers": [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()],  # noqa: NPY002
        "floating-point errors": np.geterr(),
        "printing": np.get_printoptions(),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "BLAS threads": blas_threads(),
        "scikit-learn": sklearn.get_config(),
        "locale": locale.setlocale(locale.LC_ALL),
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "matplotlib": (dict(mpl.rcParams), mpl.get_backend(), list(sys.modules["matplotlib.pyplot"].get_fignums())),
        "pandas": [pd.get_option(f"display.{name}") for name in ("precision", "width", "max_rows", "float_format")],
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "streams": (sys.stdout, sys.stderr, getattr(sys.stdout, "errors", None)),
    }


def everything(folder: Path) -> None:
    """Call all that users call."""
    import writing  # takes long to load, and workers need not

    data = table()
    X, y, site = data[["x", "z"]], data.y, data.site
    data.to_csv(folder / "rows.csv", index=False)
    data.to_parquet(folder / "rows.parquet")
    model = atm.ContinuousLogit(xi=1.0, n_restarts=1, random_state=1).fit(X, y, anchors=site)
    atm.NormalLinear(xi=np.inf).fit(X, y, anchors=site > 5)
    atm.ProportionalHazards(xi=1.0).fit(X, atm.Surv(y, y < 3.0), anchors=site)
    atm.OrdinalRegression(xi=1.0).fit(X, outcome("OrdinalRegression", y), anchors=site)
    atm.CountRegression(xi=1.0).fit(X, outcome("CountRegression", y), anchors=site)
    atm.LinearAnchorRegression(2.0).fit(X, y, anchors=site)
    atm.AnchorBoosting(2.0, n_estimators=2, n_trees=2, random_state=1).fit(X, y, anchors=site).predict(X)
    by_formula = atm.ContinuousLogit.from_formula(FORMULA, data, xi=1.0)
    atm.ContinuousLogit.from_formula(FORMULA, folder / "rows.parquet", xi=1.0)
    large = table(ROWS)
    atm.ContinuousLogit(xi=1.0, n_jobs=2).fit(large[["x", "z"]], large.y, anchors=large.site)
    str(model.summary())
    model.residuals(X, y)
    model.standard_errors()
    model.bootstrap(4, random_state=1)
    distribution = model.predict_distribution(X[:3])
    distribution.rvs(2, random_state=1)
    distribution.mean()
    atm.load(atm.save(by_formula, folder / "m.json")).predict(data)
    atm.predict_table(by_formula, folder / "rows.parquet", folder / "p.parquet")
    figure = Figure()
    atm.anchor_path(atm.NormalLinear(), X, y, site, [0, 1]).plot(figure.add_subplot())
    atm.leave_one_environment_out(atm.NormalLinear(), X, y, site, [0, 1]).plot(figure.add_subplot())
    figure.savefig(folder / "f.png")
    atm.xi_by_score_test(atm.NormalLinear(), X, y, site % 2)
    atm.XiSearchCV(atm.NormalLinear(), [0, 1]).fit(X, y, anchors=site)
    atm.scenarios.la().draw(np.random.default_rng(0))
    atm.marginal_effects(by_formula, data)
    writing.reproduce(folder)
    line = [f"{folder}/rows.csv", "--model", "lm", "--formula", FORMULA]
    for command in ("fit", "path", "loeo"):
        plot = [] if command == "fit" else ["--plot", f"{folder}/{command}.pdf"]
        assert main([command, *line, "--output", f"{folder}/{command}.json", *plot]) == 0
    assert main(["fit", "nowhere.csv", *line[1:]]) == 1


def check_process(folder: Path) -> None:
    """Call everything and check that nothing of the process is changed."""
    importlib.import_module("matplotlib.pyplot").switch_backend("Agg")
    threadpool_limits(2, user_api="blas")
    before, threads = state(), threading.enumerate()
    everything(folder)
    after, new = state(), [thread for thread in threading.enumerate() if thread not in threads]
    for name, value in before.items():
        assert after[name] == value, name
    assert [thread for thread in new if type(thread).__name__ != "TMonitor"] == []  # tqdm's own, for all progress bars


@pytest.mark.bug("concurrency", "the command line left the standard output with another way to treat letters it lacks")
def test_nothing_warns_and_nothing_of_the_process_is_changed(tmp_path: Path, tally: Callable[..., None]) -> None:
    """With all warnings as errors, in a process of its own, so that warnings on first use count too."""
    path = os.pathsep.join([str(Path(atm.__file__).parents[1]), str(Path(__file__).parent)])
    # of old versions of matplotlib, which pyparsing complains of
    old = "import warnings; warnings.filterwarnings('ignore', module='matplotlib|pyparsing')"
    line = f"{old}; import test_concurrency as t; t.check_process(t.Path({str(tmp_path)!r}))"
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-W", "error", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    tally("concurrency", "runs through all main calls with warnings as errors")


def test_the_same_seed_gives_the_same_fit() -> None:
    data = table()
    X, y, site = data[["x", "z"]], data.y, data.site
    for make in (
        lambda: atm.ContinuousLogit(xi=1.0, n_restarts=3, random_state=7),
        lambda: atm.ContinuousLogit(xi=1.0, n_restarts=3, random_state=np.random.default_rng(7)),
    ):
        assert numbers(make().fit(X, y, anchors=site)) == numbers(make().fit(X, y, anchors=site))
    draws = [atm.ContinuousLogit(xi=1.0).fit(X, y, anchors=site).bootstrap(4, random_state=7).draws for _ in range(2)]
    assert draws[0].tolist() == draws[1].tolist()


@pytest.mark.bug("concurrency", "two fits at once in threads could leave BLAS at one thread for ever after")
def test_the_last_fit_to_end_restores_the_blas_threads() -> None:
    assert np.linalg.norm(np.ones(4)) == linalg.norm(np.ones(4))  # both BLAS are loaded
    before = blas_threads()
    assert before
    inside, left = threading.Event(), threading.Event()

    def second() -> None:
        with one_blas_thread():
            inside.set()
            left.wait(WAIT)

    thread = threading.Thread(target=second)
    with one_blas_thread():  # the first to come is the first to go
        thread.start()
        assert inside.wait(WAIT)
    assert blas_threads() == [1] * len(before)
    left.set()
    thread.join(WAIT)
    assert blas_threads() == before


def test_blas_threads_are_restored_whatever_happens_inside() -> None:
    before = blas_threads()
    with contextlib.suppress(KeyboardInterrupt), one_blas_thread(), one_blas_thread():
        assert set(blas_threads()) == {1}
        raise KeyboardInterrupt
    assert blas_threads() == before


@pytest.mark.bug("concurrency", "two files written at once could leave the process without its file mode mask")
def test_writing_files_does_not_touch_the_file_mode_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the mask belongs to the whole process"))
        file = write_whole(tmp_path / "a.txt", lambda path: path.write_text("whole"))
        assert file.stat().st_mode & 0o777 == 0o640
    finally:
        monkeypatch.undo()
        os.umask(mask)


@pytest.mark.bug("concurrency", "two CSV files read at once in threads could change the filters of warnings for good")
def test_reading_a_file_leaves_the_filters_of_warnings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen = pd.read_csv, []
    monkeypatch.setattr(pd, "read_csv", lambda *line, **how: seen.append(list(warnings.filters)) or read(*line, **how))
    assert len(atm.datasets.load_wine())
    assert seen == [list(warnings.filters)]


def test_files_written_at_once_are_whole(tmp_path: Path, tally: Callable[..., None]) -> None:
    model = atm.NormalLinear.from_formula("y ~ x | site", table(), xi=1.0)
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda k: atm.save(model, tmp_path / f"m{k % 2}.json"), range(20)))
    assert sorted({path.name for path in paths}) == sorted(path.name for path in tmp_path.iterdir())
    for path in set(paths):
        assert numbers(atm.load(path)) == numbers(model)
    tally("concurrency", "files written at once", 20)
