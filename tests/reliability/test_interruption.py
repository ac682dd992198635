"""Ctrl-C, a signal to end, a full disk, a read-only folder: nothing half written, nobody left at work."""

import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import writing
from threadpoolctl import threadpool_info, threadpool_limits

import anchortm as atm
from anchortm.engine.rows import blocks
from anchortm.exceptions import AnchorWarning, InputError
from anchortm.reproduce import table as reproduction
from anchortm.reproduce.engine import Options
from anchortm.selection import folds as evaluation

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")

WAIT = 120.0  # seconds until work has begun, on a busy machine
PROMPT = 20.0  # seconds until it has ended
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
BOTH = [signal.SIGINT, signal.SIGTERM]
FORMULA = "y ~ x + z | site"
# says when a function is called, and then lets it go on
MARKED = """
import functools, importlib, sys
module, names = sys.argv[1].split(":")
owner = importlib.import_module(module)
*outer, name = names.split(".")
for part in outer:
    owner = getattr(owner, part)
function = getattr(owner, name)
@functools.wraps(function)
def marked(*arguments, **options):
    print("BEGUN", file=sys.stderr, flush=True)
    return function(*arguments, **options)
setattr(owner, name, marked)
from anchortm.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


class Running:
    """A process with a group of its own, as a shell would start it."""

    def __init__(self, folder: Path, *line: str, **environment: str) -> None:
        self.said = folder / f"said-{time.monotonic_ns()}.txt"
        names = os.environ | {"PYTHONPATH": str(Path(atm.__file__).parents[1])} | environment
        with open(self.said, "w") as said:
            self.process = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, *line], cwd=folder, stdout=said, stderr=said, start_new_session=True, env=names
            )

    def wait_until(self, begun: Callable[[], Any]) -> None:
        """Wait for an event; fail if the process ends before."""
        end = time.monotonic() + WAIT
        while not begun():
            assert self.process.poll() is None, self.text
            assert time.monotonic() < end, f"nothing happened in {WAIT} s: {self.text}"
            time.sleep(0.01)

    @property
    def text(self) -> str:
        return self.said.read_text()

    def others(self) -> list[str]:
        """Return the command lines of all other living processes of this session."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != self.process.pid:
                try:
                    state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                    if int(session) == self.process.pid and state != "Z":
                        found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                except OSError:  # ended meanwhile
                    continue
        return found

    def end(self, number: int, to_all: bool = True) -> int:
        """Send the signal, wait for the end, and return the exit code; nobody may be left at work."""
        if to_all:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        code = self.process.wait(PROMPT)
        end = time.monotonic() + PROMPT
        while (left := self.others()) and time.monotonic() < end:  # workers may take a moment to see it
            time.sleep(0.05)
        assert not left
        return code

    def close(self) -> None:
        if self.process.poll() is None or self.others():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that starts Python in a folder of its own; what is left in the end is killed."""
    begun: list[Running] = []

    def one(*line: str, **environment: str) -> Running:
        begun.append(Running(tmp_path, *line, **environment))
        return begun[-1]

    yield one
    for running in begun:
        running.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with rows enough for a few seconds of work, and a model."""
    folder = tmp_path_factory.mktemp("data")
    rng, n = np.random.default_rng(1), 200_000
    site = rng.integers(0, 20, n)
    x, z = rng.normal(size=n) + 0.1 * site, rng.normal(size=n)
    table = pd.DataFrame({"y": x - z + rng.logistic(size=n), "x": x, "z": z, "site": [f"s{k}" for k in site]})
    table.to_parquet(folder / "rows.parquet")
    table[:60_000].to_csv(folder / "rows.csv", index=False)
    few = table[:500]
    few.to_csv(folder / "few.csv", index=False)
    atm.save(atm.ContinuousLogit.from_formula(FORMULA, few, xi=1.0), folder / "model.json")
    return folder


def complete(folder: Path) -> list[str]:
    """Return the files of a folder, each of which must be whole and none of which hidden."""
    names = []
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("said-"):
            continue
        assert not path.name.startswith("."), f"{path.name} is left"
        names.append(path.name)
        match path.suffix:
            case ".csv":
                assert len(pd.read_csv(path))
            case ".parquet":
                assert len(pd.read_parquet(path))
            case ".json":
                json.loads(path.read_text())
            case ".npz":
                with np.load(path) as arrays:
                    assert all(arrays[key].size for key in arrays.files)
            case ".png":
                assert path.read_bytes().endswith(b"IEND\xaeB`\x82")
            case ".pdf":
                assert path.read_bytes().rstrip().endswith(b"%%EOF")
    return names


def check(running: Running, number: int, tally: Callable[..., None], to_all: bool = True) -> None:
    """End a command and check how it ends."""
    code = running.end(number, to_all)
    # a signal can hit a progress bar that is being made, whose own end then complains
    text = re.sub(
        r"Exception ignored in: <function tqdm.__del__.*?\nAttributeError: [^\n]*\n", "", running.text, flags=re.S
    )
    said = [line for line in text.splitlines() if line != "BEGUN"]
    assert code == CODES[signal.Signals(number)], running.text
    assert said[-1:] == ["interrupted; no file was left half written"], running.text
    assert "Traceback" not in text
    assert len(said) == 1, running.text
    tally("interruption", "runs interrupted")


XIS = ",".join(str(k) for k in range(400))
COMMANDS = {  # what says that it is in the middle, and what it does
    "fit a CSV file": ("anchortm.engine.problem:solve_path", "fit {}/rows.csv --xi " + XIS + " --output c.csv"),
    "fit one xi": (
        "anchortm.engine.problem:solve",
        "fit {}/rows.parquet --order 20 --xi 1e5 --save m.json --output c.csv",
    ),
    "fit in batches": (
        "anchortm.engine.rows.blocks:Blocks.tell",
        "fit {}/rows.parquet --batches --xi 100 --save m.json",
    ),
    "path": ("anchortm.engine.problem:solve_path", "path {}/rows.csv --xi " + XIS + " --output p.csv --plot p.png"),
    "loeo": ("anchortm.selection.folds:full_paths", "loeo {}/rows.csv --xi 0,1,10,100 --output l.csv --plot l.pdf"),
    "loeo with jobs": ("joblib:Parallel.__call__", "loeo {}/rows.csv --jobs 2 --xi 0,1,10,100 --output l.csv"),
}


def delay(*seed: Any) -> float:
    """Return a short time that is always the same for these words."""
    return random.Random(str(seed)).uniform(0.0, 0.3)  # noqa: S311


def interrupted(command: str, number: int, start: Any, data: Path, tmp_path: Path, tally: Any) -> None:
    marked, line = COMMANDS[command]
    running = start("-c", MARKED, marked, *line.format(data).split(), "--model", "c-logit", "--formula", FORMULA)
    running.wait_until(lambda: "BEGUN" in running.text)
    if "jobs" in command:
        running.wait_until(lambda: sum("LokyProcess" in line for line in running.others()) >= 2)
    time.sleep(delay(command, number))
    check(running, number, tally)
    assert complete(tmp_path) == []


def test_an_interrupted_command_leaves_nothing(start, data: Path, tmp_path: Path, tally) -> None:
    interrupted("fit a CSV file", signal.SIGINT, start, data, tmp_path, tally)


@pytest.mark.bug("interruption", "worker processes answered Ctrl-C with tracebacks of their own")
def test_workers_leave_the_word_to_the_command(start, data: Path, tmp_path: Path, tally) -> None:
    interrupted("loeo with jobs", signal.SIGINT, start, data, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.parametrize("number", BOTH, ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_by_both_signals(command, number, start, data: Path, tmp_path: Path, tally) -> None:
    interrupted(command, number, start, data, tmp_path, tally)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(12))
def test_any_moment_will_do(moment: int, start, data: Path, tmp_path: Path, tally) -> None:
    """From the first line of ours to the last: interrupted as it should be, or done."""
    line = [
        "fit",
        f"{data}/few.csv",
        "--model",
        "c-logit",
        "--formula",
        FORMULA,
        "--save",
        "m.json",
        "--output",
        "c.csv",
    ]
    running = start("-c", MARKED, "anchortm.cli.main:parser", *line)
    running.wait_until(lambda: "BEGUN" in running.text)
    time.sleep(10.0 * delay(moment))
    if running.process.poll() == 0:
        assert complete(tmp_path) == ["c.csv", "m.json"]
        return
    number = BOTH[moment % 2]
    code = running.end(number)
    if code == -number:  # Python itself was about to end: all is done
        assert complete(tmp_path) == ["c.csv", "m.json"]
    else:
        assert code in (0, CODES[number]), running.text
    assert "Traceback" not in running.text
    complete(tmp_path)
    tally("interruption", "runs interrupted")


@pytest.mark.bug("interruption", "a process that was told to end (SIGTERM) left a temporary file where predictions go")
@pytest.mark.parametrize("end", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_predictions_that_are_half_written_are_removed(end: str, start, data: Path, tmp_path: Path, tally) -> None:
    (tmp_path / f"p.{end}").write_text("old")
    parts = 100 if end == "parquet" else 10
    points = ",".join(f"{k / parts}" for k in range(1, parts))
    line = ["predict", f"{data}/model.json", f"{data}/rows.parquet", "--quantiles", points, "--output", f"p.{end}"]
    running = start("-m", "anchortm", *line)
    running.wait_until(lambda: list(tmp_path.glob(".p-*")))
    check(running, signal.SIGTERM, tally, to_all=False)
    assert (tmp_path / f"p.{end}").read_text() == "old"
    assert not list(tmp_path.glob(".*"))


PYTHON_FIT = """
import numpy as np, sys, threading, time, anchortm as atm
rng = np.random.default_rng(0)
site = rng.integers(0, 50, 100_000)
X = rng.normal(size=(site.size, 8)) + 0.1 * site[:, None]
y = X.sum(axis=1) + rng.logistic(size=site.size)
model = atm.ContinuousLogit(xi=1e4, order=12, n_jobs=2, n_restarts=1000)
from anchortm.engine.problem import Problem
solve = Problem.solve
def marked(*arguments):
    print("BEGUN", file=sys.stderr, flush=True)
    return solve(*arguments)
Problem.solve = marked
try:
    model.fit(X, y, anchors=site)
except KeyboardInterrupt:
    end = time.monotonic() + 10.0
    while threading.active_count() > 1 and time.monotonic() < end:  # threads at their last step
        time.sleep(0.01)
    print("INTERRUPTED", [name for name in vars(model) if name.endswith("_")], threading.active_count())
    sys.exit(130)
"""


def test_a_fit_in_python_with_threads_is_interrupted(start, tally) -> None:
    running = start("-c", PYTHON_FIT)
    running.wait_until(lambda: "BEGUN" in running.text)
    time.sleep(delay("threads"))
    assert running.end(signal.SIGINT) == 130
    assert running.text.split("BEGUN\n")[1] == "INTERRUPTED [] 1\n"
    tally("interruption", "runs interrupted")


def test_an_interrupted_benchmark_ends_its_child(start, tmp_path: Path, tally) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    line = ["-m", "anchortm", "bench", "--quick", "--only", "out-of-core", "--out", "out"]
    running = start(*line, TMPDIR=str(scratch))
    running.wait_until(lambda: any("anchortm.bench.child" in line for line in running.others()))
    assert list(scratch.rglob("*.parquet"))
    code = running.end(signal.SIGINT)
    assert code == 130, running.text
    assert running.text.splitlines() == ["out-of-core ...", "interrupted; no file was left half written"]
    assert not list(scratch.iterdir())
    assert complete(tmp_path) == []
    tally("interruption", "runs interrupted")


TOY = """
import time
from pathlib import Path
import numpy as np
from anchortm.reproduce import table
from anchortm.reproduce.engine import Claim, Part, simulate

def draw(rng):
    return {"value": rng.normal(size=3)}

def wait(rng):
    while not Path(FOLDER, "go").exists():
        time.sleep(0.01)
    return draw(rng)

def compute(options):
    return simulate(draw, options.runs, options, "first")

def compute_later(options):
    return simulate(wait, options.runs, options, "second")

def part(name, compute):
    claims = lambda arrays: [Claim(name, "noise", str(arrays["value"].sum()), "reproduced", "")]
    return Part(name, name, compute, lambda arrays: {}, lambda arrays: {}, claims)

table.PARTS = [part("A1", compute), part("B1", compute_later)]
"""


def test_an_interrupted_reproduction_goes_on_where_it_was(
    start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally
) -> None:
    (tmp_path / "toy_parts.py").write_text(TOY.replace("FOLDER", repr(str(tmp_path))))
    line = "import toy_parts, sys; from anchortm.cli.main import main; sys.exit(main())"
    path = os.pathsep.join([str(tmp_path), str(Path(atm.__file__).parents[1])])
    running = start("-c", line, "reproduce", "all", "--runs", "4", "--out", "out", PYTHONPATH=path)
    kept = tmp_path / "out" / "computed"
    running.wait_until(lambda: list(kept.glob("A1-*.npz")))
    code = running.end(signal.SIGINT)
    assert code == 130, running.text
    (first,) = kept.iterdir()
    assert complete(tmp_path / "out") == [first.name]
    written = first.stat().st_mtime_ns
    (tmp_path / "go").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(reproduction, "PARTS", reproduction.PARTS)  # to be as it was in the end
    monkeypatch.delitem(sys.modules, "toy_parts", raising=False)
    importlib.import_module("toy_parts")
    said: list[str] = []
    for folder in ("out", "alone"):
        reproduction.reproduce(["all"], tmp_path / folder, Options(runs=4), say=said.append)
    assert said == ["A1: stored results", "B1: 0 s", "A1: 0 s", "B1: 0 s"]
    assert first.stat().st_mtime_ns == written
    names = complete(tmp_path / "out")
    assert names == complete(tmp_path / "alone")
    for name in ("claims.csv", "claims.md"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "alone" / name).read_text()
    tally("interruption", "runs interrupted")


@pytest.mark.slow
@pytest.mark.parametrize("number", BOTH, ids=lambda number: number.name)
def test_the_reproduction_itself_goes_on_where_it_was(number: int, start, tmp_path: Path, tally) -> None:
    line = ["-m", "anchortm", "reproduce", "la", "nla", "--runs", "2", "--jobs", "2", "--out"]
    running = start(*line, "out")
    running.wait_until(lambda: list((tmp_path / "out" / "computed").glob("la-*.npz")))
    time.sleep(0.2)  # the next part has begun
    assert running.end(number) == CODES[number]
    assert "Traceback" not in running.text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "computed").iterdir()}
    complete(tmp_path / "out")
    for folder in ("out", "alone"):
        again = start(*line, folder)
        assert again.process.wait(600) == 0
        assert ("stored results" in again.text) == (folder == "out")
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert complete(tmp_path / "out") == complete(tmp_path / "alone")
    assert (tmp_path / "out" / "claims.csv").read_text() == (tmp_path / "alone" / "claims.csv").read_text()
    tally("interruption", "runs interrupted")


def rows(n: int = 300, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 5, n)
    X = rng.normal(size=(n, 2)) + site[:, None]
    return X, X[:, 0] - site + rng.logistic(size=n), site


def same(model: Any, before: dict[str, Any]) -> bool:
    """Return whether the attributes of a model are the very objects that they were."""
    return list(vars(model)) == list(before) and all(vars(model)[name] is value for name, value in before.items())


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_in_any_pass_leaves_the_model_as_it_was(n_jobs: int, monkeypatch, tally, request) -> None:
    X, y, site = rows(20_000)  # more than one block
    request.addfinalizer(threadpool_limits(2, user_api="blas").restore_original_limits)  # there is something to restore
    run, passes, fatal = blocks.run, 0, 0

    def counted(*arguments: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes == fatal:
            raise KeyboardInterrupt
        return run(*arguments)

    monkeypatch.setattr(blocks, "run", counted)
    old = atm.ContinuousLogit(xi=1.0, n_jobs=n_jobs).fit(X[:500], y[:500], anchors=site[:500])
    before, threads = dict(vars(old)), blas_threads()
    new = atm.ContinuousLogit(xi=1.0, n_jobs=n_jobs)
    unfitted = dict(vars(new))
    passes = 0
    done = atm.ContinuousLogit(xi=1.0, n_jobs=n_jobs).fit(X, y, anchors=site)
    for place in np.unique(np.linspace(1, passes, 8, dtype=int)):
        for model, was in ((old, before), (new, unfitted)):
            passes, fatal = 0, place
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y, anchors=site)
            assert same(model, was)
            tally("interruption", "runs interrupted")
    assert blas_threads() == threads
    fatal = 0
    np.testing.assert_array_equal(old.fit(X, y, anchors=site).coef_, done.coef_)


@pytest.mark.bug(
    "interruption", "a search for xi that was interrupted in its last fit passed for fitted, or was half old"
)
def test_an_interrupted_search_stays_as_it_was(monkeypatch) -> None:
    X, y, site = rows()
    searches = [atm.XiSearchCV(atm.NormalLinear(), [0, 1]) for _ in range(2)]
    searches[0].fit(X, y, anchors=site)
    for search in searches:
        before = dict(vars(search))
        for place, name in ((evaluation, "_one"), (atm.NormalLinear, "fit")):
            with monkeypatch.context() as patch:
                patch.setattr(place, name, interrupt)
                with pytest.raises(KeyboardInterrupt):
                    search.fit(X, y, anchors=site)
            assert same(search, before)


@pytest.mark.bug("interruption", "boosting that was interrupted lost its earlier fit, or kept some of its steps")
def test_interrupted_boosting_stays_as_it_was(monkeypatch) -> None:
    X, y, site = rows()
    fitted = atm.AnchorBoosting(2.0, n_estimators=3, base="tree").fit(X, y, anchors=site)
    for model in (fitted, atm.AnchorBoosting(2.0, n_estimators=3, base="tree")):
        before = dict(vars(model))
        with monkeypatch.context() as patch:
            patch.setattr(atm.AnchorBoosting, "_remember", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X[:100], y[:100], anchors=site[:100])
        assert same(model, before)


@pytest.mark.bug("interruption", "a fit that ended in a warning turned into an error had replaced the earlier fit")
def test_a_fit_that_a_warning_refuses_leaves_the_model_as_it_was() -> None:
    X, y, site = rows()
    model = atm.NormalLinear(xi=1.0).fit(X, y, anchors=site)
    before = dict(vars(model))
    with pytest.raises(AnchorWarning):  # warnings are errors here
        model.fit(X, y, anchors=np.zeros(len(y), dtype=int))
    assert same(model, before)
    with pytest.raises(InputError):
        model.fit(X, y[:-1], anchors=site)
    assert same(model, before)


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.bug("interruption", "a full disk under a PDF figure was reported as a missing attribute of matplotlib's")
@pytest.mark.bug("interruption", "folders of predictions on a full or read-only disk raised an error that is not ours")
def test_nothing_is_half_written_on_a_full_or_read_only_disk(tmp_path: Path, tally) -> None:
    disk, inputs = tmp_path / "disk", tmp_path / "inputs"
    disk.mkdir()
    inputs.mkdir()
    alone = ["unshare", "-rm"]
    possible = shutil.which("unshare") and subprocess.run(  # noqa: S603
        [*alone, "mount", "-t", "tmpfs", "none", disk], capture_output=True, check=False
    )
    if not possible or possible.returncode:
        pytest.skip("needs a mount namespace of its own")
    line = [*alone, sys.executable, writing.__file__, str(disk), str(inputs)]
    path = {"PYTHONPATH": str(Path(atm.__file__).parents[1])}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | path)  # noqa: S603
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    old = {name: "old" for name in found["full"] if name != "lazy"}
    for how, words in (("full", "No space left on device"), ("read-only", "ead-only")):
        for name, said in found[how].items():
            assert said.startswith("cannot write"), f"{name}: {said}"
            assert words in said, f"{name}: {said}"
            assert "\n" not in said, f"{name}: {said}"
            tally("interruption", "writes that failed")
        assert found[f"left {how}"] == old


@pytest.mark.slow
def test_a_write_that_fails_in_the_middle_leaves_the_old_file(tmp_path: Path, tally) -> None:
    resource = pytest.importorskip("resource")
    disk, inputs = tmp_path / "disk", tmp_path / "inputs"
    disk.mkdir()
    inputs.mkdir()
    works = writing.outputs(inputs)
    old = {name: "old" for name in works if name != "lazy"}
    for name, text in old.items():
        (disk / name).write_text(text)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, write in works.items():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # bytes of any file
        try:
            said = writing.attempt(write, disk)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert said.startswith("cannot write"), f"{name}: {said}"
        assert "File too large" in said, f"{name}: {said}"
        assert writing.left(disk) == old, name
        tally("interruption", "writes that failed")


@pytest.mark.bug("interruption", "the files of a run that was killed became part of a later folder of predictions")
def test_predictions_of_a_run_that_was_killed_are_not_taken_for_new_ones(tmp_path: Path) -> None:
    works = writing.outputs(tmp_path)
    stale = tmp_path / ".lazy-unfinished"
    stale.mkdir()
    (stale / "part.9.parquet").write_text("old")
    works["lazy"](tmp_path)
    assert sorted(path.name for path in (tmp_path / "lazy").iterdir()) == ["part.0.parquet", "part.1.parquet"]


@pytest.mark.bug("interruption", "a printed result that the disk had no room for was called a fault of anchortm")
@pytest.mark.bug("interruption", "a standard output that the shell had closed was an error after all work was done")
@pytest.mark.parametrize("to", [pytest.param("/dev/full", id="full"), pytest.param(None, id="closed")])
def test_printing_where_nothing_can_be_printed(to: str | None, tmp_path: Path, monkeypatch, capsys) -> None:
    """Python has no stream at all where a shell closes it with ``>&-``."""
    stream = None if to is None else open(to, "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", stream)
    code = writing.main(["data", "wine", "--output", str(tmp_path / "wine.csv")])
    said = capsys.readouterr().err
    assert (code, said) == ((0, "") if to is None else (1, "error: cannot write the output: No space left on device\n"))
    assert complete(tmp_path) == ["wine.csv"]
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # what is still held goes nowhere
        stream.close()
