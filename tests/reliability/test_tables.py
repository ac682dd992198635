"""Tables in files that are broken: one clear message, no traceback, and no file left behind."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMError, InputError

FORMULA = "y ~ x | site"
RNG = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame({"site": np.array(list("abc"))[np.arange(N) % 3], "x": RNG.normal(size=N), "z": RNG.normal(size=N)})
DATA["y"] = DATA.x + RNG.normal(size=N)
DATA = DATA.round(4)
TEXT = DATA.to_csv(index=False)
LINES = TEXT.splitlines()


def line(text: str) -> str:
    """Return the table with its third row replaced."""
    return TEXT.replace(LINES[3], text)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fitted = atm.NormalLinear.from_formula(FORMULA, DATA)
    return atm.save(fitted, tmp_path_factory.mktemp("model") / "model.json")


def refused(arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Check that a command fails with one line, and writes nothing."""
    before = sorted(folder.rglob("*"))
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert len(printed.err) < 1000
    assert "bug in anchortm" not in printed.err
    assert sorted(folder.rglob("*")) == before


def commands(file: Path, model: Path, kinds: str) -> list[list[str]]:
    """Return the commands that read a table: fit, path and loeo (f), predict (p), fit in batches (b)."""
    output = str(file.parent / "out.csv")
    common = [str(file), "--model", "lm", "--formula", FORMULA]
    found = []
    if "f" in kinds:
        found += [[name, *common, "--output", output] for name in ("fit", "path", "loeo")]
        found.append(["fit", *common, "--save", str(file.parent / "out.json")])
    if "p" in kinds:
        found.append(["predict", str(model), str(file), "--output", output])
    if "b" in kinds:
        found.append(["fit", *common, "--batches", "--save", str(file.parent / "out.json")])
        found.append(["predict", str(model), str(file), "--output", str(file.parent / "out.parquet")])
    return found


CSV: dict[str, tuple[Any, str, str]] = {  # content, message, and which commands refuse it
    "text in a column of numbers": (line("a,oops,1,2"), "'oops'", "fp"),
    "a decimal comma": (line('a,"1,5",1,2'), "'1,5'", "fp"),
    "a number beyond all": (line("a,1e309,1,2"), "'1e309'", "fp"),
    "a cell of ten million digits": (line(f"a,{'9' * 10_000_000},1,2"), "'x'", "fp"),
    "a cell of ten million letters": (line(f"a,{'q' * 10_000_000},1,2"), "'x'", "fp"),
    "text in the outcome": (line("a,1,1,oops"), "the outcome must be numbers, not 'oops' at line 4", "f"),
    "an infinite outcome": (line("a,1,1,-inf"), "the outcome is infinite", "f"),
    "dates": (DATA.assign(x=pd.date_range("2020-01-01", periods=N)).to_csv(index=False), "'2020-01-01'", "fp"),
    "a missing value": (line("a,,1,2"), "'x' is missing in 1 row, first at line 4", "fp"),
    "a short row": (line("a"), "missing values (NaN) in 2 columns: covariate 'x' (1 row), outcome 'y' (1 row)", "f"),
    "a short row to predict": (line("a"), "is missing in 1 row", "p"),
    "UTF-16 without its mark": (TEXT.encode("utf-16-le"), "NUL bytes", "fp"),
    "NUL bytes": (line("a,1\0,1,2"), "NUL bytes", "fp"),
    "nothing but NUL bytes": ("\0" * 1000, "NUL bytes", "fp"),
    "a NUL byte in a name": (TEXT.replace("x", "x\0", 1), "NUL bytes", "fp"),
    "an endless name": (TEXT.replace("x", "x" * 100_000, 1), "no column 'x'", "fp"),
    "zero bytes": (b"", "is empty", "fp"),
    "blank lines": ("  \n\n", "is empty", "fp"),
    "zero rows": (LINES[0] + "\n", "has no rows", "fp"),
    "names that occur twice": (TEXT.replace("site,x,z", "site,x,x"), "more than once: x", "fp"),
    "rows longer than the names": (TEXT.replace(LINES[1], LINES[1] + ",5,6"), "more values", "fp"),
    "a long row": (line(LINES[3] + ",5,6"), "Expected 4 fields in line 4, saw 6", "fp"),
    "a quote that is not closed": (line('a,"1,1,2'), "are all quotes closed?", "fp"),
    "a quote before everything": ('"' + TEXT, "are all quotes closed?", "fp"),
    "a compressed file": (gzip.compress(TEXT.encode(), mtime=0), "plain CSV", "fp"),
    "random bytes": (RNG.bytes(5000), "plain CSV", "fp"),
    "no names": ("\n".join(LINES[1:]) + "\n", "no column 'x'", "fp"),
    "a column too few": (DATA.drop(columns="x").to_csv(index=False), "no column 'x'", "fp"),
    "one row": ("\n".join(LINES[:2]) + "\n", "error: ", "f"),
    "a page of the web": ("<html><body>404</body></html>", "has no rows", "fp"),
}


@pytest.mark.parametrize("what", CSV)
def test_broken_csv_files_are_refused_in_one_line(what: str, model: Path, tmp_path: Path, tally, capsys) -> None:
    content, message, kinds = CSV[what]
    file = tmp_path / "bad.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for arguments in commands(file, model, kinds):
        refused(arguments, message, tmp_path, capsys)
    tally("tables", "faulty files refused")


def arrow(**columns: Any) -> pa.Table:
    return pa.table({name: pa.array(DATA[name]) for name in DATA} | columns)


def twice() -> pa.Table:
    return pa.Table.from_arrays([pa.array(DATA[name]) for name in DATA], names=["site", "x", "x", "y"])


def parquet(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False), sink)
    return sink.getvalue().to_pybytes()


GOOD = parquet(DATA)
PARQUET: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "text in a column of numbers": (
        lambda: parquet(DATA.assign(x=["oops", *DATA.x.astype(str)[1:]])),
        "'oops'",
        "fpb",
    ),
    "dates": (lambda: parquet(DATA.assign(x=pd.date_range("2020-01-01", periods=N))), "'x'", "fpb"),
    "lists": (lambda: parquet(DATA.assign(x=[[1.0, 2.0]] * N)), "'x' holds lists", "fpb"),
    "records": (lambda: parquet(DATA.assign(x=[{"a": 1}] * N)), "'x' holds lists", "fpb"),
    "lists in the outcome": (lambda: parquet(DATA.assign(y=[[1.0, 2.0]] * N)), "'y' holds lists", "f"),
    "lists in the anchor": (lambda: parquet(DATA.assign(site=[[1.0, 2.0]] * N)), "'site' holds lists", "f"),
    "times of day": (lambda: parquet(arrow(x=pa.array([1] * N, pa.time32("s")))), "'x'", "fpb"),
    "bytes": (lambda: parquet(DATA.assign(x=[b"a"] * N)), "'x'", "fpb"),
    "nothing but nulls": (lambda: parquet(arrow(x=pa.nulls(N))), "'x' is missing in 60 rows", "fpb"),
    "a missing value": (lambda: parquet(DATA.assign(x=[None, *DATA.x[1:]])), "'x' is missing in 1 row", "fpb"),
    "an infinite value": (lambda: parquet(DATA.assign(x=[np.inf, *DATA.x[1:]])), "infinity in x", "fpb"),
    "names that occur twice": (lambda: parquet(twice()), "", "fpb"),
    "an endless name": (lambda: parquet(DATA.rename(columns={"x": "x" * 100_000})), "no column 'x'", "fpb"),
    "a column too few": (lambda: parquet(DATA.drop(columns="x")), "no column 'x'", "fpb"),
    "no columns": (lambda: parquet(pa.table({})), "", "fpb"),
    "zero rows": (lambda: parquet(DATA[:0]), "no rows", "fpb"),
    "zero bytes": (lambda: b"", "bad.parquet", "fpb"),
    "half a file": (lambda: GOOD[: len(GOOD) // 2], "bad.parquet", "fpb"),
    "a file without its end": (lambda: GOOD[:-4], "bad.parquet", "fpb"),
    "the mark and no more": (lambda: b"PAR1", "bad.parquet", "fpb"),
    "a CSV file": (lambda: TEXT.encode(), "bad.parquet", "fpb"),
}


@pytest.mark.parametrize("what", PARQUET)
def test_broken_parquet_files_are_refused_in_one_line(what: str, model: Path, tmp_path: Path, tally, capsys) -> None:
    content, message, kinds = PARQUET[what]
    file = tmp_path / "bad.parquet"
    file.write_bytes(content())
    for arguments in commands(file, model, kinds):
        refused(arguments, message, tmp_path, capsys)
    with pytest.raises(AnchorTMError, match=message or None):
        atm.NormalLinear.from_formula(FORMULA, file)
    if "p" in kinds:
        with pytest.raises(AnchorTMError, match=message or None):
            atm.predict_table(atm.load(model), file, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]
    tally("tables", "faulty files refused")


def test_parquet_files_with_flipped_bits_are_refused_or_read(tmp_path: Path, tally, capsys) -> None:
    """A flipped bit in the data is another number, which nobody can notice; any other is an error of ours."""
    rng = np.random.default_rng(1)
    file = tmp_path / "bad.parquet"
    for case in range(100):
        damaged = bytearray(GOOD)
        low = 0 if case % 2 else len(GOOD) - 1500  # where the description of the columns is
        for place in rng.integers(low, len(GOOD), rng.integers(1, 5)):
            damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        code = main(["fit", str(file), "--model", "lm", "--formula", FORMULA, *(["--batches"] if case % 3 else [])])
        printed = capsys.readouterr().err
        assert code in (0, 1)
        assert "bug in anchortm" not in printed, printed
        tally("tables", "files with flipped bits, refused or read")


FOLDERS: dict[str, tuple[Any, str]] = {
    "text in one file": (DATA.assign(x=DATA.x.astype(str)), "Field x has incompatible types"),
    "lists in one file": (DATA.assign(x=[[1.0]] * N), "Field x has incompatible types"),
    "dates in one file": (DATA.assign(x=pd.date_range("2020-01-01", periods=N)), "Field x has incompatible types"),
    "a column too few in one file": (DATA.drop(columns="x"), "'x' is missing in 60 rows, first at row 60"),
    "half a file": (GOOD[:500], "b.parquet"),
    "zero bytes": (b"", "b.parquet"),
}


@pytest.mark.parametrize("what", FOLDERS)
def test_folders_with_one_broken_file_are_refused(what: str, model: Path, tmp_path: Path, tally, capsys) -> None:
    content, message = FOLDERS[what]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(GOOD)
    (folder / "b.parquet").write_bytes(content if isinstance(content, bytes) else parquet(content))
    fit = ["fit", str(folder), "--model", "lm", "--formula", FORMULA, "--save", str(tmp_path / "out.json")]
    refused(fit, message, tmp_path, capsys)
    predict = ["predict", str(model), str(folder), "--output", str(tmp_path / "out.parquet")]
    refused(predict, "error: ", tmp_path, capsys)
    with pytest.raises(AnchorTMError, match=message):
        atm.NormalLinear.from_formula(FORMULA, folder)
    tally("tables", "faulty files refused")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.csv", "no file"),
        ("nowhere.parquet", "no file"),
        ("folder.parquet", "folder"),
        ("folder.csv", "folder"),
        ("table.txt", "must be a .csv or .parquet file"),
    ],
)
def test_places_without_a_table(place: str, message: str, model: Path, tmp_path: Path, tally, capsys) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "table.txt").write_text(TEXT)
    for arguments in commands(tmp_path / place, model, "f"):
        refused(arguments, message if arguments[0] in ("path", "loeo") else "error: ", tmp_path, capsys)
    with pytest.raises(InputError):
        atm.NormalLinear.from_formula(FORMULA, tmp_path / place)
    tally("tables", "faulty files refused")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="who may read everything cannot be refused")
def test_a_file_that_may_not_be_read(model: Path, tmp_path: Path, capsys) -> None:
    file = tmp_path / "closed.csv"
    file.write_text(TEXT)
    file.chmod(0)
    for arguments in commands(file, model, "fp"):
        refused(arguments, "Permission denied", tmp_path, capsys)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_other_columns_and_marks_do_no_harm(ending: str, model: Path, tmp_path: Path, capsys) -> None:
    wide = DATA.assign(more="text", nothing=np.nan)
    file = tmp_path / f"wide.{ending}"
    file.write_bytes(b"\xef\xbb\xbf" + wide.to_csv(index=False).encode() if ending == "csv" else parquet(wide))
    assert main(["predict", str(model), str(file), "--output", str(tmp_path / "out.csv")]) == 0
    found = pd.read_csv(tmp_path / "out.csv").prediction
    np.testing.assert_allclose(found, atm.load(model).predict(DATA), rtol=1e-12)
    capsys.readouterr()


@pytest.mark.bug("tables", "column names that occur twice in a CSV file were renamed in silence")
def test_names_that_occur_twice_are_not_renamed(tmp_path: Path, capsys) -> None:
    (tmp_path / "d.csv").write_text(TEXT.replace("site,x,z", "site,x,x"))
    fit = ["fit", str(tmp_path / "d.csv"), "--model", "lm", "--formula", FORMULA]
    refused(fit, "column names occur more than once: x; rename them", tmp_path, capsys)


@pytest.mark.bug("tables", "values beyond the last name of a CSV file were dropped with a foreign warning")
def test_values_beyond_the_last_name_are_not_dropped(tmp_path: Path, capsys) -> None:
    (tmp_path / "d.csv").write_text("\n".join([LINES[0], *(text + ",7" for text in LINES[1:])]))
    fit = ["fit", str(tmp_path / "d.csv"), "--model", "lm", "--formula", FORMULA]
    refused(fit, "more values than its first line has names", tmp_path, capsys)


@pytest.mark.bug("tables", "a typo in a column of few different numbers made a factor of it in silence")
def test_a_column_of_numbers_with_a_typo_is_no_factor() -> None:
    data = DATA.assign(age=[str(20 + k % 15) for k in range(N)])
    data.loc[7, "age"] = "unknwn"
    with pytest.raises(InputError, match=r"'age' is text, but nearly all .* such as 'unknwn', or write C\(age\)"):
        atm.NormalLinear.from_formula("y ~ age", data)
    assert len(atm.NormalLinear.from_formula("y ~ C(age)", data).coef_) == 15


@pytest.mark.bug("tables", "one long word in an anchor took the memory of a word as long in each row")
def test_a_long_word_in_an_anchor_takes_its_own_memory_only() -> None:
    import tracemalloc

    data = pd.concat([DATA] * 5, ignore_index=True)
    data.loc[0, "site"] = "a" * 10_000_000  # times 300 rows times 4 bytes: 12 gigabytes
    tracemalloc.start()
    atm.NormalLinear.from_formula(FORMULA, data, xi=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


@pytest.mark.bug("tables", "columns of lists ended in a foreign error, and records were taken as anchors")
@pytest.mark.parametrize("column", ["x", "y", "site"])
@pytest.mark.parametrize("value", [[1.0, 2.0], {"a": 1.0}])
def test_columns_of_lists_or_records_are_refused(column: str, value: Any) -> None:
    with pytest.raises(AnchorTMError, match=f"column '{column}' holds lists or tables"):
        atm.NormalLinear.from_formula(FORMULA, DATA.assign(**{column: [value] * N}), xi=1.0)


@pytest.mark.bug("tables", "errors showed the first entry of a text column, not the one that is no number")
def test_errors_name_the_entry_that_is_no_number() -> None:
    data = DATA.assign(w="1.0")
    data.loc[33, "w"] = "many"
    with pytest.raises(AnchorTMError, match="sample_weight must be numbers, not 'many' at row 33"):
        atm.NormalLinear.from_formula(FORMULA, data, sample_weight="w")
