"""Tables as people write them: separators, decimal commas, encodings, texts among numbers, dates, pipes."""

import io
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli import tables
from anchortm.cli.columns import date_format, missing_texts, odd_numbers
from anchortm.cli.dialects import CsvFile, Dialect
from anchortm.cli.main import main

LM = ["-m", "lm", "-f", "y ~ x + größe | ort"]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 80
    table = pd.DataFrame({"ort": np.array(["Köln", "Łódź", "c"])[np.arange(n) % 3], "x": rng.normal(size=n)})
    table["größe"] = rng.normal(170, 10, n)
    table["y"] = table.x + 0.01 * table.größe + rng.normal(size=n)
    return table.round(3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def coefficients(line: list[str]) -> np.ndarray:
    assert main(["fit", *line, "-o", "c.csv"]) == 0
    return pd.read_csv("c.csv").coef.to_numpy()


WRITTEN = {  # how a file is written, and what is said about it
    "plain": ({}, "utf-8", ""),
    "with a mark": ({}, "utf-8-sig", ""),
    "semicolons": ({"sep": ";"}, "utf-8", "separated by semicolons, decimal point, UTF-8"),
    "decimal commas": ({"sep": ";", "decimal": ","}, "utf-8", "separated by semicolons, decimal comma, UTF-8"),
    "tabs": ({"sep": "\t"}, "utf-8", "separated by tabs, decimal point, UTF-8"),
    "bars": ({"sep": "|", "decimal": ","}, "utf-8", "separated by bars, decimal comma, UTF-8"),
    "Windows": ({"sep": ";", "decimal": ","}, "cp1252", "decimal comma, Windows-1252"),
    "UTF-16": ({"sep": "\t"}, "utf-16", "separated by tabs, decimal point, UTF-16"),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_dialects_are_detected_and_said(how: str, data: pd.DataFrame, folder: Path, capsys) -> None:
    options, encoding, said = WRITTEN[how]
    table = data.assign(ort=data.ort.replace("Łódź", "Lodz")) if encoding == "cp1252" else data
    table.to_csv("d.csv", index=False, encoding=encoding, **options)
    expected = atm.NormalLinear.from_formula(LM[3], table)
    np.testing.assert_allclose(coefficients(["d.csv", *LM]), expected.coef_, rtol=1e-12)
    printed = capsys.readouterr().err
    assert ("is read as: " in printed) == bool(said)
    assert said in printed


@pytest.mark.parametrize("how", WRITTEN)
def test_a_dialect_that_is_given_is_not_detected(how: str, data: pd.DataFrame, folder: Path, capsys) -> None:
    options, encoding, _ = WRITTEN[how]
    table = data.assign(ort=data.ort.replace("Łódź", "Lodz")) if encoding == "cp1252" else data
    table.to_csv("d.csv", index=False, encoding=encoding, **options)
    names = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
    given = ["--separator", names[options.get("sep", ",")], "--decimal", options.get("decimal", ".")]
    found = coefficients(["d.csv", *LM, *given, "--encoding", encoding])
    np.testing.assert_allclose(found, atm.NormalLinear.from_formula(LM[3], table).coef_, rtol=1e-12)
    assert "is read as" not in capsys.readouterr().err


def test_commas_in_quotes_are_no_separators(folder: Path, data: pd.DataFrame, capsys) -> None:
    """A text with semicolons in a file with commas, and the other way round."""
    table = data.assign(note="one; two; three, and; four")
    for separator in ",;":
        table.to_csv("d.csv", index=False, sep=separator)
        np.testing.assert_allclose(
            coefficients(["d.csv", *LM]), atm.NormalLinear.from_formula(LM[3], table).coef_, rtol=1e-12
        )
    capsys.readouterr()


def test_every_digit_of_decimal_commas_is_read(folder: Path, capsys) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"y": rng.normal(size=50), "x": rng.normal(size=50) * 1e-7})
    table.to_csv("d.csv", index=False, sep=";", decimal=",")
    assert main(["fit", "d.csv", "-m", "lm", "-f", "y ~ x", "-s", "m.json"]) == 0
    assert main(["predict", "m.json", "d.csv", "--keep", "x,y", "-o", "p.csv"]) == 0
    again = pd.read_csv("p.csv", float_precision="round_trip")
    assert (again[["y", "x"]] == table).all(axis=None)
    capsys.readouterr()


@pytest.mark.parametrize(
    "how", [{"sep": ";", "decimal": ","}, {"sep": "\t", "encoding": "utf-16"}, {"encoding": "cp1252"}]
)
def test_lines_of_other_dialects(how: dict[str, str], folder: Path, data: pd.DataFrame, capsys) -> None:
    """A blank line, a value on two lines, and then a missing and an infinite one: counted as editors count."""
    table = data.assign(note="ä; b, c", ort="Köln")
    table.loc[5, "note"] = "two\nlines"
    table.loc[9, "x"] = np.nan
    lines = table.to_csv(index=False, **{key: value for key, value in how.items() if key != "encoding"}).split("\n")
    text = "\n".join([*lines[:4], "", *lines[4:]])
    Path("d.csv").write_bytes(text.encode(how.get("encoding", "utf-8")))
    assert text.splitlines()[12].split(how.get("sep", ","))[1] == ""
    assert main(["fit", "d.csv", "-m", "lm", "-f", "y ~ x"]) == 1
    assert "'x' is missing in 1 row, first at line 13" in capsys.readouterr().err


ODD = pd.Series([*(f"{k / 7:.3f}" for k in range(60)), "<0.5", "<0.5", "n.d.", None])


def test_texts_among_numbers() -> None:
    found = odd_numbers(ODD, "x", None)
    assert found is not None
    assert found.rows == {"<0.5": [60, 61], "n.d.": [62]}
    assert odd_numbers(pd.Series(["1", "2", "3+"] * 20), "x", None) is None  # a factor
    assert odd_numbers(pd.Series([f"A{k}" for k in range(60)]), "x", None) is None
    assert odd_numbers(pd.Series(["1", "2", "3+"]), "x", None, needed=True).rows == {"3+": [2]}
    assert odd_numbers(pd.Series(np.arange(3.0)), "x", None, needed=True) is None
    commas = CsvFile("d.csv")
    commas.dialect = Dialect(";", ",")
    assert odd_numbers(ODD.str.replace(".", ","), "x", commas).rows == {"<0,5": [60, 61], "n,d,": [62]}


def test_texts_among_numbers_are_refused_with_their_lines(folder: Path, data: pd.DataFrame, capsys) -> None:
    x = data.x.astype(str)
    x[[3, 4]], x[7] = "<0.5", "n.d."
    data.assign(x=x).to_csv("d.csv", index=False)
    assert main(["fit", "d.csv", *LM]) == 1
    printed = capsys.readouterr().err
    assert "column 'x' must be numbers, not '<0.5', 'n.d.' at lines 5, 6, 9" in printed
    assert '--missing-values "<0.5,n.d."' in printed
    assert "C(x)" in printed
    line = ["d.csv", *LM, "--missing-values", "<0.5,n.d.", "--missing", "drop"]
    expected = atm.NormalLinear.from_formula(LM[3], data.drop([3, 4, 7]))
    np.testing.assert_allclose(coefficients(line), expected.coef_, rtol=1e-12)
    twice = ["d.csv", *LM, "--missing-values", "<0.5", "--missing-values", "n.d.", "--missing", "drop"]
    np.testing.assert_allclose(coefficients(twice), expected.coef_, rtol=1e-12)
    capsys.readouterr()


def test_decimal_commas_in_a_file_with_commas(folder: Path, data: pd.DataFrame, capsys) -> None:
    """In quotes; pandas takes them for text, and the message says which option reads them."""
    data.to_csv("d.csv", index=False, decimal=",")
    assert main(["fit", "d.csv", *LM]) == 1
    assert "decimal comma" in capsys.readouterr().err
    expected = atm.NormalLinear.from_formula(LM[3], data)
    np.testing.assert_allclose(coefficients(["d.csv", *LM, "--decimal", "comma"]), expected.coef_, rtol=1e-12)
    capsys.readouterr()


def test_missing_values_are_joined_by_semicolons_where_commas_are_decimal() -> None:
    assert missing_texts(["n/a,<0.5"], ".") == ["n/a", "<0.5"]
    assert missing_texts(["n/a;<0,5"], ",") == ["n/a", "<0,5"]
    assert missing_texts(["<0,5"], ",") == ["<0,5"]
    assert missing_texts(["<0,5;"], ".") == ["<0,5"]
    assert missing_texts(["-9", " -99 ,"], ".") == ["-9", "-99"]


DATES = pd.to_datetime(pd.Series(["2024-02-28", "2024-03-01", "2023-12-31", None]))


@pytest.mark.parametrize(
    ("form", "found"),
    [
        ("%Y-%m-%d", "%Y-%m-%d"),
        ("%d.%m.%Y", "%d.%m.%Y"),
        ("%d/%m/%Y", "%d/%m/%Y"),
        ("%m/%d/%Y", "%m/%d/%Y"),
        ("%Y/%m/%d", "%Y/%m/%d"),
        ("%d-%m-%Y", "%d-%m-%Y"),
        ("%Y-%m-%d %H:%M", "ISO8601"),
    ],
)
def test_ways_to_write_dates(form: str, found: str) -> None:
    assert date_format(DATES.dt.strftime(form)) == found


def test_dates_that_mean_two_things() -> None:
    assert date_format(pd.Series(["03/04/2024", "05/06/2024"])) == "ambiguous"
    assert date_format(pd.Series(["03/04/2024", "next week"])) is None
    assert date_format(pd.Series([1.0, 2.0])) is None
    assert date_format(DATES) == "ISO8601"


@pytest.mark.parametrize(("ending", "form"), [("csv", "%d.%m.%Y"), ("csv", "%Y-%m-%d"), ("parquet", None)])
def test_dates_become_days(folder: Path, data: pd.DataFrame, ending: str, form: str | None, capsys) -> None:
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(80) % 31, "D")
    left = came + pd.to_timedelta(1 + np.arange(80) % 7, "D")
    dated = data.assign(came=came, left=left)
    if form is None:
        dated.to_parquet("d.parquet")
    else:
        dated.assign(came=dated.came.dt.strftime(form), left=dated.left.dt.strftime(form)).to_csv("d.csv", index=False)
    days = data.assign(came=18262 + np.arange(80) % 31, stay=1 + np.arange(80) % 7)
    line = [f"d.{ending}", "-m", "lm", "--dates", "came,stay=left-came", "-f", "stay ~ x + came"]
    expected = atm.NormalLinear.from_formula("stay ~ x + came", days)
    np.testing.assert_allclose(coefficients(line), expected.coef_, rtol=1e-9)
    assert ("dates of came are read as day.month.year" in capsys.readouterr().err) == (form == "%d.%m.%Y")
    # the outcome may also be the difference of two columns
    line = [f"d.{ending}", "-m", "lm", "--dates", "came,left", "-f", "Interval(left - came, left - came) ~ x"]
    np.testing.assert_allclose(coefficients(line), atm.NormalLinear.from_formula("stay ~ x", days).coef_, rtol=1e-9)
    capsys.readouterr()


def test_dates_where_numbers_are_needed(folder: Path, data: pd.DataFrame, capsys) -> None:
    day = [f"2021-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(80)]
    data.assign(day=day).to_csv("d.csv", index=False)
    assert main(["fit", "d.csv", "-m", "lm", "-f", "y ~ day"]) == 1
    assert (
        "column 'day' has dates, such as '2021-01-01': turn them into days with --dates day" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--dates nowhen", "no column 'nowhen'"),
        ("--dates ambiguous", "--date-format %d/%m/%Y"),
        ("--dates broken", "has 'soon' at line 3, which is not a date (year-month-day)"),
        ("--dates x", "which is not a date"),
        ("--dates day --date-format %d.%m.%Y", "which is not a date (day.month.year)"),
        ("--dates day=day-day", "that the table does not have yet"),
        ("--dates =day-day", "that the table does not have yet"),
        ("--dates stay=day", "should be a difference of two columns"),
        ("--dates stay=day-nowhen", "no column 'nowhen'"),
        ("--date-format %d.%m.%Y", "--date-format needs --dates"),
    ],
)
def test_dates_that_cannot_be_read(folder: Path, data: pd.DataFrame, options: str, said: str, capsys) -> None:
    broken = ["2020-01-02", "soon", *["2020-03-04"] * 78]
    data.assign(day="2020-01-02", ambiguous="03/04/2020", broken=broken).to_csv("d.csv", index=False)
    assert main(["fit", "d.csv", "-m", "lm", "-f", "y ~ x", *shlex.split(options)]) == 1
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_from_a_pipe_to_a_pipe(folder: Path, data: pd.DataFrame, capsys, monkeypatch) -> None:
    """CSV from standard input, and CSV on standard output with nothing else beside it."""
    data.to_csv("d.csv", index=False)
    assert main(["fit", "d.csv", *LM, "-s", "m.json"]) == 0
    assert main(["predict", "m.json", "d.csv", "-o", "p.csv"]) == 0
    capsys.readouterr()
    for content in (data.to_csv(index=False), data.to_csv(index=False, sep=";", decimal=",")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        assert main(["predict", "m.json", "-", "-o", "-"]) == 0
        assert capsys.readouterr().out == Path("p.csv").read_text()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.to_csv(index=False).encode())))
    assert main(["fit", "-", *LM, "--output", "-"]) == 0
    assert capsys.readouterr().out.startswith("covariate,coef,")


def test_lines_of_standard_input(folder: Path, data: pd.DataFrame, capsys, monkeypatch) -> None:
    data.loc[4, "x"] = np.nan
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.to_csv(index=False, sep=";").encode())))
    try:
        assert main(["fit", "-", *LM, "-q"]) == 1
    finally:
        data.loc[4, "x"] = 0.5
    assert "first at line 6" in capsys.readouterr().err


def test_a_pipeline_of_the_shell(folder: Path, data: pd.DataFrame) -> None:
    data.to_csv("d.csv", index=False)
    line = f"cat d.csv | {sys.executable} -m anchortm fit - -m lm -f 'y ~ x' -o - -q | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)  # noqa: S602
    assert done.returncode == 0
    assert done.stdout.startswith("covariate,")
    assert done.stderr == ""


@pytest.mark.parametrize("size", [500, 5000])
def test_standard_input_is_bounded(folder: Path, size: int, capsys, monkeypatch) -> None:
    monkeypatch.setattr(tables, "MOST_PIPED", 1000)
    content = b"x,y\n" + b"1,2\n" * (size // 4)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    main(["check", "-"])
    assert ("too much to read at once" in capsys.readouterr().err) == (size > 1000)
