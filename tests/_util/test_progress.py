"""One bar with a label for a long call, in a real terminal; a clean line at its end, also after errors and Ctrl-C."""

import fcntl
import importlib.util
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

import anchortm as atm
from anchortm._util import progress
from anchortm._util.progress import Task, above, set_progress
from anchortm.exceptions import InputTypeError

COLUMNS = 80
SCRIPT = """
import fcntl, termios, time

fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C is sent to this process

from joblib import parallel_config

import anchortm as atm
from anchortm._messages import warn
from anchortm._util import progress
from anchortm._util.progress import Task, set_progress

data = atm.datasets.load_boston_housing2()
data["side"] = data.tract % 8
formula, model = "cmedv ~ rm + lstat | side", atm.ContinuousLogit()

def section(name):
    print(f"### {name}")

def slow(e):
    atm.leave_one_environment_out(atm.NormalLinear(), formula, data, xis=[0])
    time.sleep(0.1)
    return e

section("short")
atm.leave_one_environment_out(atm.NormalLinear(), formula, data, xis=[0])
print("short is done")
progress.DELAY, progress.INTERVAL = 0.0, 0.005
section("search")
atm.XiSearchCV.from_formula(formula, data, model=model, xis=[0, 1, 10])
print("search is done")
section("nested")
with Task("outer", 4) as task:
    for k in range(4):
        slow(k)
        task.step()
print("nested is done")
section("workers")
with parallel_config("multiprocessing"), Task("in workers", 4) as task:
    found = task.map(slow, range(4), 2)
print(found)
section("error")
try:
    with Task("fails", 10) as task:
        task.step(5)
        time.sleep(0.1)
        raise ValueError
except ValueError:
    print("error is caught")
section("warning")
with Task("warns", 10) as task:
    time.sleep(0.1)
    warn("take care", UserWarning)
    time.sleep(0.1)
section("off")
with set_progress(False):
    slow(0)
    with Task("hidden", 10):
        time.sleep(0.1)
section("interrupted")
try:
    with Task("waits for Ctrl-C", 10) as task:
        task.step(3)
        time.sleep(30)
except KeyboardInterrupt:
    print("interruption is caught")
section("end")
"""


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows at the end."""
    lines, row, column = [[" "] * COLUMNS], 0, 0
    for letter in text:
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
        else:
            if column == COLUMNS:
                row, column = row + 1, 0
            lines += [[" "] * COLUMNS for _ in range(row + 1 - len(lines))]
            lines[row][column] = letter
            column += 1
    return [line for line in ("".join(cells).rstrip() for cells in lines) if line]


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """Return what the script writes to a terminal of 80 columns, by section."""
    fd, other = pty.openpty()
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    streams = {"stdin": other, "stdout": other, "stderr": other}
    child = subprocess.Popen([sys.executable, "-c", SCRIPT], **streams, start_new_session=True)  # noqa: S603
    os.close(other)
    text, began, pressed = b"", time.monotonic(), False
    while time.monotonic() - began < 60.0:
        if select.select([fd], [], [], 0.05)[0]:
            try:
                found = os.read(fd, 65536)
            except OSError:  # the end, on Linux
                break
            if not found:
                break
            text += found
        if not pressed and b"waits for Ctrl-C 3/10" in text:
            os.write(fd, b"\x03")
            pressed = True
    os.close(fd)
    assert child.wait(10) == 0, text.decode()
    parts = re.split(r"### (\w+)\r\n", text.decode())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_search_has_one_bar_with_labels(said: dict[str, str]) -> None:
    """The left-out fits inside the search move its bar, and have none of their own."""
    drawn = [line for line in re.split(r"[\r\n]+", said["search"]) if "%|" in line]
    assert len(drawn) > 3
    assert all(line.startswith(("XiSearchCV, ", "XiSearchCV: ")) for line in drawn)
    assert any("left-out environments" in line for line in drawn)
    done = [int(match[1]) for line in drawn if (match := re.search(r"(\d+)%\|", line))]
    assert done == sorted(done)
    assert done[-1] > 50
    assert all(len(line) <= COLUMNS - 4 for line in drawn)
    assert screen(said["search"]) == ["search is done"]


def test_a_step_of_the_outer_call_is_divided_by_the_inner_one(said: dict[str, str]) -> None:
    found = re.findall(r"outer[^\r]*? (\d+)%", said["nested"])
    assert {*found} - {"0", "25", "50", "75", "100"}
    assert [int(part) for part in found] == sorted(map(int, found))
    assert screen(said["nested"]) == ["nested is done"]


def test_workers_show_nothing(said: dict[str, str]) -> None:
    text = said["workers"]
    assert screen(text) == ["[0, 1, 2, 3]"]
    assert "in workers" in text
    assert "left-out" not in text


def test_a_short_call_shows_nothing(said: dict[str, str]) -> None:
    assert said["short"] == "short is done\r\n"


def test_after_an_error_the_line_is_clean(said: dict[str, str]) -> None:
    assert "fails 5/10:  50%" in said["error"]
    assert screen(said["error"]) == ["error is caught"]


def test_after_an_interruption_the_line_is_clean(said: dict[str, str]) -> None:
    """The ^C that the terminal writes behind the bar is erased too."""
    assert "^C" in said["interrupted"]
    assert screen(said["interrupted"]) == ["interruption is caught"]


def test_warnings_have_lines_of_their_own(said: dict[str, str]) -> None:
    lines = screen(said["warning"])
    assert lines[0].endswith("UserWarning: take care")
    assert not any("warns" in line for line in lines)


def test_one_setting_hides_all(said: dict[str, str]) -> None:
    assert said["off"] == ""


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.001)
    yield
    assert "anchortm progress" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.usefixtures("fast")
def test_nothing_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Task("hidden", 3) as task:
        task.step()
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(("app", "shown"), [("IPKernelApp", True), ("TerminalIPythonApp", False)])
def test_notebooks_show_text_without_widgets(
    app: str, shown: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Widgets themselves need a kernel; a bar of text is what notebooks without ipywidgets show."""
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(config={app: {}}))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with Task("in a notebook", 3) as task:
        task.step()
        time.sleep(0.05)
    assert ("in a notebook 1/3" in capfd.readouterr().err) == shown


@pytest.mark.usefixtures("fast")
def test_what_may_be_cut_off_comes_last(capfd: pytest.CaptureFixture[str]) -> None:
    with Task("fit", shown=True), Task("pass 2, rows", 20_000_000, detail="derivatives, loss 1.5") as task:
        task.step(1_250_000)
        time.sleep(0.05)
    assert "] fit, pass 2, rows 1.25M/20M, derivatives, loss 1.5" in capfd.readouterr().err


@pytest.mark.usefixtures("fast")
def test_the_argument_of_a_call_wins(capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    site, x = rng.integers(0, 12, 200), rng.normal(size=(200, 1))
    model = atm.OrdinalRegression()
    y = rng.integers(0, 3, 200)
    with set_progress(False):
        atm.leave_one_environment_out(model, x, y, site, [0, 1, 10], progress=True)
        assert "left-out environments" in capfd.readouterr().err
    with set_progress(True):
        atm.leave_one_environment_out(model, x, y, site, [0, 1, 10], progress=False)
        assert capfd.readouterr().err == ""
        model.fit(x, y).bootstrap(5, random_state=0)
        assert "bootstrap" in capfd.readouterr().err
    assert set_progress._wanted is None
    atm.leave_one_environment_out(model, x, y, site, [0, 1, 10])
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("label", "call"),
    [
        ("path", lambda X, y, a: atm.anchor_path(atm.ContinuousLogit(), X, y, a, [0, 1, 10, 100])),
        ("values of lambda", lambda X, y, a: atm.elastic_net_path(atm.ContinuousLogit(), X, y, a, n_lambdas=10)),
        ("score tests", lambda X, y, a: atm.xi_by_score_test(atm.ContinuousLogit(), X, y, a % 3)),
        (
            "simulated score tests",
            lambda X, y, a: atm.diagnostics.score_test(atm.ContinuousLogit(), X, y, a, method="simulate", n_draws=19),
        ),
        ("boosting", lambda X, y, a: atm.AnchorBoostedTM(atm.ContinuousLogit(), n_rounds=9).fit(X, y, anchors=a)),
        ("boosting", lambda X, y, a: atm.AnchorBoosting(2.0, 20, base="tree").fit(X, y, anchors=a)),
        ("bootstrap", lambda X, y, a: atm.ContinuousLogit().fit(X, y, anchors=a).bootstrap(5, random_state=0)),
    ],
    ids=["path", "net", "rule", "simulated", "boosted", "l2", "bootstrap"],
)
def test_every_long_call_has_a_bar(label, call, capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    site = rng.integers(0, 12, 400)
    X = rng.normal(size=(400, 2)) + 0.3 * site[:, None]
    y = X[:, 0] + site + rng.normal(size=400)
    with set_progress(True):
        call(X, y, site)
    assert label in capfd.readouterr().err


def test_a_thread_of_the_user_shows_nothing_unless_told() -> None:
    found = []

    def run() -> None:
        with Task("in a thread") as task:
            found.append(task._bar)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [None]


def test_a_failed_call_leaves_no_task_behind() -> None:
    with pytest.raises(ZeroDivisionError), Task("outer", 1), Task("inner", 1):
        raise ZeroDivisionError
    with Task("next") as task:
        assert task.root is task


def test_a_closed_stream_ends_the_drawing(fast: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    stream = os.fdopen(write, "w")
    monkeypatch.setattr(sys, "stderr", stream)
    with Task("nobody reads", 3, shown=True):
        time.sleep(0.05)
        stream.close()
        time.sleep(0.05)
    os.close(read)


def test_lines_above_the_bar_need_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with above():
        print("a line")
    assert capsys.readouterr().out == "a line\n"


@pytest.mark.parametrize("shown", [1, "no", 0.5, []])
def test_bad_settings(shown: object) -> None:
    with pytest.raises(InputTypeError, match="shown must be True, False or None"):
        set_progress(shown)  # type: ignore[arg-type]
    assert set_progress._wanted is None


def test_imports_stay_lazy() -> None:
    code = (
        "import sys, anchortm as atm; data = atm.datasets.load_wine();"
        "atm.leave_one_environment_out(atm.OrdinalRegression(), 'rating ~ temp | judge', data, xis=[0]);"
        "assert not {'tqdm', 'IPython', 'ipywidgets'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
