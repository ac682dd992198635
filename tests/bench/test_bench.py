"""The benchmark: every row of the report, failures that are shown, an emulation that is right, the guard."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT

import anchortm as atm
from anchortm.bench import adam, bars, curves, disk, engine, r, rows, suite
from anchortm.bench.engine import FULL, Options, Sizes, count, in_child, measured, outcome, simulate
from anchortm.bench.peers import PEERS
from anchortm.bench.rows import Bar, Comparison, Line, Peer, compare
from anchortm.cli.main import main
from anchortm.engine.objective.build import build_objective
from anchortm.inputs.anchors import anchor_columns

TINY = Sizes(
    large=2000,
    ordinal=1000,
    peers=1000,
    emulation=500,
    patience=0.2,
    disk=2000,
    disk_check=1000,
    disk_file=1000,
    growth_rows=(1000, 2000),
    growth_levels=(5, 50),
    towns=8,
    curve_rows=(500, 1000),
    curve_peer_rows=(500,),
    curve_levels=(10, 50),
    curve_n=500,
    wide_levels=20,
    predicted=1000,
    predictor=500,
    glm=1000,
    tall=(300, 20),
    broad=(100, 25),
    lambdas=4,
    boosted=1000,
    rounds=3,
    clustered=500,
    clusters=20,
    clustered_ordinal=200,
)
OPTIONS = Options(TINY, repeats=1)


def here(function: Any, *arguments: Any, **_: Any) -> Any:
    """Call in this process what would get one of its own."""
    try:
        return function(*arguments)
    except Exception as error:
        return {"error": str(error)}


def test_the_report_has_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SHORT", 0.0)
    monkeypatch.setattr(engine.gc, "collect", lambda: 0)  # memory is not judged here
    for module in (bars, curves, disk, rows):
        monkeypatch.setattr(module, "in_child", here)
    monkeypatch.setattr(r, "absent", lambda _: "skipped: Rscript not found")  # test_peers.py has the peers in R
    kept: list[Any] = []
    make = suite.report
    monkeypatch.setattr(suite, "report", lambda found, *rest: kept.extend(found) or make(found, *rest))
    said: list[str] = []
    text = suite.run([], tmp_path, OPTIONS, said.append)
    assert (tmp_path / "results.md").read_text() == text
    assert (tmp_path / "times.png").stat().st_size > 20_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.md", "times.png"]
    lines = [row for row in kept if isinstance(row, Line)]
    assert Counter(line.work.split(",")[0] for line in lines) == {
        "c-logit": 4,
        "c-probit exact": 2,
        "o-logit": 2,
        "c-logit censored": 2,
        "BostonHousing2": 1,
        "means of 1 000 predicted distributions": 2,
        "CRPS of 1 000 predicted distributions": 1,
        "3 quantiles of 2 000 predicted distributions": 1,
        "peak memory": 1,
        "out of core": 1,
        "the same": 2,
        "out of core against in memory": 1,
        "time for a row and pass": 2,
        "import anchortm": 1,
        "one anchored c-probit fit of BostonHousing2": 1,
        "ordinal logit": 1,
        "binary logit": 2,
        "Poisson": 1,
        "elastic-net path": 5,
        "boosted Lm": 2,
        "Lm with random intercepts": 1,
    }
    for line in lines:
        assert line.met == "not judged" or "skipped" in line.measured or "not installed" in line.measured, line.measured
    assert "Sizes were reduced" in text
    comparisons = [row for row in kept if isinstance(row, Comparison)]
    peers = [peer for part in suite.PARTS for peer in PEERS if peer.part == part]
    for row, peer in zip(comparisons, peers, strict=True):
        assert row.peer == peer.name
        assert f"| {row.work} | {row.peer} |" in text
        if "not installed" in row.note or "skipped" in row.note:
            continue
        assert row.faster != "failed", row.note
        if peer.same and not peer.once:
            assert -1e-9 < float(row.loss) < 1e-5, f"{row.work}: {row.loss}"
    assert "![Time against rows and against anchor levels](times.png)" in text
    for name in [*suite.PARTS, "figure"]:
        assert f"{name} ..." in said


def fast(n: int) -> Any:
    return lambda: np.ones(n), lambda found: {"loss": 1.0, "coef": [float(found.sum())]}


def broken(n: int) -> Any:
    raise ValueError(f"no fit of {n} rows\nbecause it is broken")


def peer(theirs: Any, package: str | None = None) -> Peer:
    bar = Bar("a fit, n = {peers}", "times faster", 2.0, True)
    return Peer("part", "a fit", "the peer", package, fast, theirs, lambda sizes: [sizes.peers], bars=(bar,))


def test_a_missing_peer_is_shown() -> None:
    line, row = compare(peer(fast, "a_package_that_does_not_exist"), OPTIONS)
    assert row == Comparison(
        "a fit, n = 1 000", "the peer", "-", "-", "-", "not installed", "a fit, n = 1 000, the peer: not installed"
    )
    assert isinstance(line, Line)
    assert line.measured == "not measured: the peer: not installed"


def test_a_failing_peer_is_shown_with_its_first_line() -> None:
    line, row = compare(peer(broken), OPTIONS)
    assert isinstance(row, Comparison)
    assert (row.faster, row.note) == ("failed", "ValueError: no fit of 500 rows")
    assert isinstance(line, Line)
    assert line.met == "not measured"


def test_losses_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {
        "fast": {"seconds": 2.0, "memory": 8 << 20, "loss": 1.0},
        "better": {"seconds": 1.0, "memory": 4 << 20, "loss": 0.9},
    }
    monkeypatch.setattr(rows, "_run", lambda side, *_: facts["fast" if side is fast else "better"])
    line, row = compare(peer(broken), Options(FULL, 1))
    assert isinstance(row, Comparison)
    assert (row.faster, row.loss, row.memory) == ("0.5 (slower)", "-1.0e-01", "0.5 (4 / 8 MB)")
    for words in ("slower than the peer", "a higher loss than the peer", "more memory than the peer"):
        assert words in row.trouble
    assert isinstance(line, Line)
    assert line.met == "no"
    assert "bar at least 2" in line.trouble


def test_a_failing_part_does_not_stop_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "PARTS", {"fits": broken, "import": bars.import_time})
    text = suite.run(["fits", "import"], tmp_path, OPTIONS, lambda _: None)
    assert "ValueError: no fit of Options" in text
    assert "| import anchortm | times importing sklearn.base |" in text
    assert "## Failed, missed or lost\n\n- fits: ValueError" in text
    assert "with only fits, import" in text


def test_bars_are_judged_at_their_own_sizes_only() -> None:
    bar = Bar("work, n = {large}", "Grams", 20.0)
    full = Options()
    assert [bar.line(value, full).met for value in (19.0, 21.0)] == ["yes", "no"]
    assert bar.line(21.0, OPTIONS).met == "not judged"
    assert bar.line(19.0, full, "slow", also=False).met == "no"
    assert bar.line(19.0, full).work == "work, n = 1e6"
    assert [count(n) for n in (506, 5000, 50_000, 123_000, 20_000_000)] == ["506", "5 000", "5e4", "123 000", "2e7"]


def test_a_child_tells_time_memory_and_facts() -> None:
    found = in_child(measured, f"{__name__}:fast", [3_000_000], 1)
    assert found["coef"] == [3e6]
    assert 0.0 < found["seconds"] < 10.0
    if sys.platform == "linux":
        assert 20e6 < found["memory"] < 60e6
    assert "no answer" in in_child(measured, f"{__name__}:fast", [10], 1, timeout=0.01)["error"]


def emulated(kind: str) -> tuple[adam.LogisticRows, Any]:
    """Return rows for Adam, and the loss of anchortm's own objective."""
    if kind == "censored":
        data = atm.datasets.load_boston_housing2()
        X, codes = data[["rm", "lstat", "age"]].to_numpy(), data.town.to_numpy()
        y: Any = atm.Surv(data.cmedv, data.cmedv != 50)
        model = atm.ContinuousLogit(order=4)
    else:
        X, latent, codes = simulate(300, 10, 3)
        y = np.digitize(latent, [-1.0, 0.0, 2.0])
        model = atm.OrdinalRegression()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = model.fit(X, y)
    made = adam._rows(fitted.basis_, X, y, codes)
    response = y if kind == "censored" else model.problem(X, y).data.response
    objective = build_objective(fitted.link_, fitted.basis_, response, X, anchor_columns(codes))

    def loss(parameters: np.ndarray) -> float:
        v = objective.coordinates.join(made.theta(parameters), parameters[-3:])
        sums = objective.sums(v)
        return (-sums.loglik + adam.XI * sums.t @ sums.t) / len(X)

    start = made.parameters(fitted.baseline_, fitted.coef_)
    return made, (loss, start + 0.2 * np.random.default_rng(0).normal(size=start.size))


@pytest.mark.parametrize("kind", ["censored", "ordinal"])
def test_the_emulation_has_the_right_loss_and_gradient(kind: str) -> None:
    made, (loss, w) = emulated(kind)
    assert made.loss(w) == pytest.approx(loss(w), rel=1e-12)
    steps = 1e-6 * np.eye(w.size)
    differences = [(loss(w + step) - loss(w - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(made.gradient(w, slice(None)), differences, rtol=1e-6, atol=1e-7)
    halves = [made.gradient(w, np.arange(first, len(made.X), 2)) for first in (0, 1)]
    weights = [len(made.X[first::2]) for first in (0, 1)]
    np.testing.assert_allclose(np.average(halves, axis=0, weights=weights), made.gradient(w, slice(None)), rtol=1e-9)


def test_adam_ends_where_we_do() -> None:
    (work, _), theirs = adam._ordinal(500)
    target = work().loss_
    found = theirs(20.0)[0]()
    assert found.reached
    assert target <= found.loss <= target + 1e-4
    hasty = theirs(0.0)
    facts = hasty[1](hasty[0]())
    assert facts["instead"] == "not reached in 0 s"
    assert facts["loss"] > target + 1e-4


def test_rows_on_disk_are_those_of_all_files(tmp_path: Path) -> None:
    pattern = disk.write_rows(tmp_path, 2500, 1000)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"part-000{k}.parquet" for k in range(3)]
    parts = [simulate(n, part=k) for k, n in enumerate((1000, 1000, 500))]
    X, latent, site = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    y = outcome(latent)
    assert 0.05 < np.mean(y >= disk.LIMIT) < 0.2
    model = atm.ContinuousLogit(xi=10.0).fit(X, atm.Surv(np.minimum(y, disk.LIMIT), y < disk.LIMIT), anchors=site)
    np.testing.assert_allclose(disk.fit_in_memory(pattern)["coef"], model.coef_, rtol=1e-10)


def test_too_little_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 10**8})
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: usage)
    found = disk.out_of_core(Options())
    assert [line.met for line in found if isinstance(line, Line)] == ["not measured"] * 4
    assert "2.2 GB of disk are needed, 0.1 GB are free" in found[0].trouble


def test_wrong_options_of_the_command(tmp_path: Path, capsys) -> None:
    assert main(["bench", "--quick", "--only", "nothing", "--out", str(tmp_path / "b")]) == 1
    assert "unknown part 'nothing'" in capsys.readouterr().err
    assert main(["bench", "--quick", "--repeats", "0", "--out", str(tmp_path / "b")]) == 1
    assert "--repeats must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history")
def test_the_guard_compares_with_a_commit() -> None:
    line = [sys.executable, str(ROOT / "benchmarks" / "guard.py"), "--rows", "1500", "--towns", "3", "--rounds", "1"]
    done = subprocess.run(line, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert printed[0].split() == ["work", "new", "/", "old", "tree", "HEAD"]
    assert len(printed) == 19
    for row in printed[1:]:
        assert 0.1 < float(re.findall(r"(\d+\.\d+) +\d+\.\d+ s +\d+\.\d+ s", row)[0]) < 10.0
    wrong = subprocess.run([*line, "no-such-commit"], capture_output=True, text=True)  # noqa: S603
    assert wrong.returncode == 1
    assert "git cannot export 'no-such-commit'" in wrong.stderr
