"""Bad input to the commands: one message, the right exit code, no traceback, and no file left or overwritten."""

import io
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli import dialects, tables
from anchortm.cli.main import main

FORMULA = "y ~ x | site"
RNG = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame({"site": np.array(list("abc"))[np.arange(N) % 3], "x": RNG.normal(size=N), "z": RNG.normal(size=N)})
DATA["y"] = DATA.x + RNG.normal(size=N)
DATA = DATA.round(4)
TEXT = DATA.to_csv(index=False)
MODEL = ["-m", "lm", "-f", FORMULA]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    DATA.to_csv("data.csv", index=False)
    atm.save(atm.NormalLinear.from_formula(FORMULA, DATA), "model.json")
    return tmp_path


def commands(table: str, output: str | None = None) -> list[list[str]]:
    """Return each command that reads a table."""
    own = [] if output is None else ["--output", output]
    found = [[name, table, *MODEL, *own] for name in ("check", "fit", "diagnose", "choose", "path", "loeo")]
    return found + [[name, "model.json", table, *own] for name in ("predict", "score")]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(line: list[str], message: str, folder: Path, capsys: Any) -> None:
    """Check that a command fails with one message, and changes no file."""
    before = content(folder)
    assert main(line) == 1, line
    printed = capsys.readouterr()
    assert message in printed.err, (line, printed.err)
    assert printed.err.count("error: ") == 1
    assert "Traceback" not in printed.err
    assert "bug in anchortm" not in printed.err
    assert len(printed.err) < 1500
    assert printed.out == ""
    assert content(folder) == before


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "a picture": (b"\x89PNG\r\n\x1a\n" + RNG.bytes(3000), "plain CSV"),
    "random bytes": (bytes(b for b in RNG.bytes(4000) if b), "plain CSV"),
    "nothing": (b"", "is empty"),
    "names alone": (b"site,x,y\n", "has no rows"),
    "names with semicolons alone": (b"site;x;y\n", "has no rows"),
    "one column": (("\n".join(["y", *map(str, range(60))])).encode(), "no column 'x'"),
    "names that occur twice": (TEXT.replace("site,x,z", "site,x,x").encode(), "more than once: x"),
    "names that occur twice, semicolons": (TEXT.replace("site,x,z", "site,x,x").replace(",", ";").encode(), "once: x"),
    "half a letter": (TEXT.replace("a,", "\u00e4,").encode()[:-1] + b"\xc3\x01", "is not UTF-8 text"),
    "UTF-16 cut in the middle": (TEXT.encode("utf-16")[:-1], "is not UTF-16 text"),
    "a line that does not end": (b"x" * (dialects.LONGEST_LINE + 10), "first line has more than"),
    "ragged semicolons": (TEXT.replace(",", ";").replace("\na;", "\na;1;2;3;", 3).encode(), "cannot read data2.csv"),
    "a quote that is not closed": (TEXT.replace(",", ";").replace("a;", 'a;"', 1).encode(), "are all quotes closed?"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_files_that_are_not_tables(what: str, folder: Path, tally, capsys) -> None:
    written, message = UNREADABLE[what]
    Path("data2.csv").write_bytes(written)
    for line in commands("data2.csv", "out.csv"):
        if what == "one column" and line[0] == "check":
            assert main(line[:-2]) == 1  # it is a table, and no fit would take it
            assert message in capsys.readouterr().out
        else:
            refused(line, message, folder, capsys)
    tally("tables", "faulty files refused")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoding", "utf-17"], "there is no encoding 'utf-17'"),
        (["--encoding", "rot13"], "cannot read data.csv"),
        (["--encoding", "ascii"], "is not ASCII text"),
        (["--encoding", "utf-16"], "UTF-16"),
        (["--encoding", ""], ""),
        (["--dates", ","], "no column ''"),
        (["--dates", "x"], "not a date"),
        (["--dates", "nowhen"], "no column 'nowhen'"),
        (["--dates", "a=b=c"], "should be a difference"),
        (["--dates", "a=\x1b[31m-x"], "\\x1b[31m"),
        (["--date-format", "%d"], "needs --dates"),
        (["--dates", "day", "--date-format", "%Q"], "--date-format %Q: "),
        (["--separator", ";"], "no column"),
    ],
)
def test_wrong_ways_to_read(options: list[str], message: str, folder: Path, capsys) -> None:
    DATA.assign(site="\u00e4", day="2020-01-02").to_csv("data.csv", index=False)
    before = content(folder)
    code = main(["path", "data.csv", "-m", "lm", "-f", "y ~ x", "-x", "0", *options, "-q"])
    printed = capsys.readouterr()
    assert code == int(bool(message)), printed.err
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert "bug in anchortm" not in printed.err
    assert content(folder) == before


@pytest.mark.parametrize(
    "options",
    [["--separator", ""], ["--separator", "ab"], ["--separator", "\n"], ["--separator", '"'], ["--decimal", ";"]],
)
def test_marks_that_cannot_be(options: list[str], folder: Path, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["fit", "data.csv", *MODEL, *options])
    assert end.value.code == 2
    assert "should be" in capsys.readouterr().err


def test_nothing_but_missing_values(folder: Path, capsys) -> None:
    DATA.assign(x=np.nan, y=np.nan).to_csv("empty.csv", index=False)
    for line in commands("empty.csv"):
        assert main(line) == 1
        printed = capsys.readouterr()
        assert "missing" in printed.err + printed.out, line
        assert "Traceback" not in printed.err
    for name in ("fit", "diagnose", "choose", "path", "loeo"):
        refused([name, "empty.csv", *MODEL, "--missing", "drop"], "no rows are left", folder, capsys)
    refused(["score", "model.json", "empty.csv", "--missing", "drop"], "no rows are left", folder, capsys)
    assert main(["check", "empty.csv", *MODEL, "--missing", "drop"]) == 1
    assert "no row is complete" in capsys.readouterr().out


NAME = "x\x1b]0;owned\x07\u202e"


def test_escapes_in_names_and_values_are_codes(folder: Path, capsys, tally) -> None:
    """Whatever is printed: names, levels, odd texts, sites, file names."""
    odd = DATA.x.astype(str)
    odd[3] = "\x1b[31m<0.5"
    table = DATA.rename(columns={"z": NAME}).assign(site=DATA.site + "\x1b[2J")
    table.to_csv("ok.csv", index=False)
    table.assign(x=odd).to_csv("odd.csv", index=False)
    atm.save(atm.NormalLinear.from_formula(f"y ~ x + `{NAME}` | site", table), "escaped.json")
    formula = ["-m", "lm", "-f", f"y ~ x + `{NAME}` | site"]
    lines = [[name, "ok.csv", *formula] for name in ("check", "fit", "diagnose", "choose", "path", "loeo")]
    lines += [[name, "odd.csv", *formula] for name in ("check", "fit")]
    lines += [["check", "ok.csv"], ["show", "escaped.json"], ["score", "escaped.json", "ok.csv", "-b", "site"]]
    lines += [["predict", "escaped.json", "ok.csv", "--keep", "site"], ["check", "\x1b[31m.csv"]]
    for line in lines:
        main(line)
        printed = "".join(capsys.readouterr())
        assert printed
        assert not set(printed) & {"\x1b", "\x07", "\u202e"}, line
        tally("bad input", "names with terminal escapes")


def test_escapes_reach_files_as_they_are_and_pipes_too(folder: Path, capsys) -> None:
    """A table is data; only what a person looks at is changed."""
    DATA.assign(site="\x1b[31m").to_csv("ok.csv", index=False)
    assert main(["predict", "model.json", "ok.csv", "--keep", "site", "-o", "-"]) == 0
    assert "\x1b[31m," in capsys.readouterr().out


@pytest.mark.parametrize("name", ["data.csv", "./data.csv", "link.csv"])
def test_outputs_never_overwrite_inputs(name: str, folder: Path, capsys) -> None:
    Path("link.csv").symlink_to("data.csv")
    for line in commands("data.csv", name):
        refused(line, "must be different files", folder, capsys)
    refused(["show", "model.json", "-o", "./model.json"], "must be different files", folder, capsys)
    refused(["fit", "data.csv", *MODEL, "-s", "a.json", "-o", "a.json"], "must be different", folder, capsys)
    refused(["score", "model.json", "data.csv", "-o", "model.json"], "must be different", folder, capsys)


def test_two_outputs_on_one_stream(folder: Path, capsys) -> None:
    for line in commands("data.csv", "-"):
        refused([*line, "--json"], "both print to standard output", folder, capsys)
    refused(["fit", "data.csv", *MODEL, "--save", "-"], "must end in .json", folder, capsys)


class Endless(io.RawIOBase):
    """A pipe that never ends; it counts what was read."""

    def __init__(self, part: bytes) -> None:
        self.parts, self.size = itertools.repeat(part), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = next(self.parts)[: len(buffer)]
        buffer[: len(part)] = part
        self.size += len(part)
        return len(part)


@pytest.mark.parametrize(
    ("part", "message"),
    [(b"1,2,3\n" * 1000, "too much to read"), (b"\0" * 1000, "NUL bytes"), (b"x" * 1000, "too much to read")],
)
def test_an_endless_pipe_is_read_up_to_a_limit(part: bytes, message: str, folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MOST_PIPED", 2**21)
    for line in commands("-"):
        pipe = Endless(part)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(pipe)))
        refused(line, message, folder, capsys)
        assert pipe.size <= 2**21 + 2**21


def test_no_standard_input(folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    refused(["check", "-"], "there is no standard input", folder, capsys)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    refused(["check", "-"], "standard input: it is empty", folder, capsys)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["show", "data.csv"], "is not a model file but a table"),
        (["show", "nowhere.json"], "nowhere.json"),
        (["score", "model.json", "data.csv", "--by", "nowhere"], "no column 'nowhere'"),
        (["score", "model.json", "data.csv", "--level", "2"], "level"),
        (["score", "model.json", "few.csv"], "no column 'y'"),
        (["score", "arrays.json", "data.csv"], "without a formula"),
        (["score", "unnamed.json", "data.csv"], "without a formula, and its file does not name the columns"),
        (["diagnose", "data.csv", "-m", "lm", "-f", "y ~ x"], "diagnose needs anchors"),
        (["diagnose", "data.csv", *MODEL, "-x", "0,1"], "a single --xi"),
        (["choose", "data.csv", "-m", "lm", "-f", "y ~ x"], "choose needs environments"),
        (["choose", "data.csv", "-m", "lm", "-f", "y ~ x", "-r", "invariance"], "needs anchors"),
        (["choose", "data.csv", *MODEL, "-x", "-1"], "--xi must be at least"),
        (["check", "nowhere.csv"], "there is no file nowhere.csv"),
        (["check", "folder.csv"], "is a folder"),
        (["check", "data.csv", "-o", "nowhere/out.csv"], "does not exist"),
        (["check", "data.csv", "-o", "out.txt"], "must end in"),
    ],
)
def test_questions_that_cannot_be_answered(line: list[str], message: str, folder: Path, capsys, tally) -> None:
    DATA[["x", "site"]].to_csv("few.csv", index=False)
    Path("folder.csv").mkdir()
    atm.save(atm.NormalLinear().fit(DATA[["x"]].to_numpy(), DATA.y.to_numpy()), "arrays.json")
    atm.save(atm.make_pipeline("passthrough", atm.NormalLinear()).fit(DATA[["x"]], DATA.y.to_numpy()), "unnamed.json")
    refused(line, message, folder, capsys)
    tally("bad input", "commands refused")


def test_check_survives_any_table(folder: Path, capsys, tally) -> None:
    """Columns of every kind, alone: it describes them, and never fails itself."""
    rng = np.random.default_rng(1)
    kinds: dict[str, Any] = {
        "all missing": [np.nan] * 12,
        "infinite": [np.inf, -np.inf] * 6,
        "mixed": ["1", "a"] * 6,
        "truth": [True, False] * 6,
        "huge": ["9" * 400] * 12,
        "long": ["x" * 5000] * 12,
        "quotes": ['a"b', "c,d"] * 6,
        "lines": ["a\nb", "c\r\nd"] * 6,
        "dates": ["2020-01-01", "2020-02-30"] * 6,
        "emoji": ["\U0001f600", "e\u0301"] * 6,
        "bytes": [str(rng.bytes(3)) for _ in range(12)],
        "empty text": ["", " "] * 6,
        "constant": [1] * 12,
    }
    for name, values in kinds.items():
        table = pd.DataFrame({"v": values, "y": rng.normal(size=12), "g": ["a", "b"] * 6})
        table.to_csv("any.csv", index=False)
        for line in (["check", "any.csv"], ["check", "any.csv", "-m", "lm", "-f", "y ~ v | g"]):
            assert main(line) in (0, 1), name
            printed = capsys.readouterr()
            assert printed.out, name
            assert "Traceback" not in printed.err
            assert main([*line, "--json"]) in (0, 1)
            json.loads(capsys.readouterr().out)
        fitted = main(["fit", "any.csv", "-m", "lm", "-f", "y ~ v | g"])
        assert main(["check", "any.csv", "-m", "lm", "-f", "y ~ v | g"]) == fitted, name
        capsys.readouterr()
        tally("tables", "odd tables checked")


def test_check_survives_nested_columns(folder: Path, capsys) -> None:
    nested = DATA.assign(lists=[[1, 2]] * N, records=[{"a": 1}] * N, bytes=[b"\x1b"] * N)
    nested.to_parquet("nested.parquet")
    assert main(["check", "nested.parquet"]) == 0
    assert main(["check", "nested.parquet", "-m", "lm", "-f", "y ~ x | site"]) == 0
    assert main(["check", "nested.parquet", "-m", "lm", "-f", "y ~ lists | site"]) == 1
    assert "lists" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="needs /dev/full")
def test_a_full_disk_behind_standard_output(folder: Path, capsys) -> None:
    import subprocess

    code = f"{sys.executable} -m anchortm predict model.json data.csv -o - > /dev/full"
    done = subprocess.run(code, shell=True, capture_output=True, text=True, cwd=folder)  # noqa: S602
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
