"""The command compare: what Python says, readable, and one HTML file that is whole and needs nothing else."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main

FORMULA = "y ~ x + group | place"
LINE = f"compare rows.csv -m lm -f '{FORMULA}'"
ODD = "<script>alert('&amp;')</script> $\\frac{1}$"


def table(places: int, level: float | None = None, seed: int = 0) -> pd.DataFrame:
    """Return rows of places that shift x, with a hidden cause; with a level, those of one new place."""
    rng = np.random.default_rng(seed)
    e = np.repeat(np.arange(places), 20)
    hidden, noise = rng.normal(size=(2, e.size))
    x = (rng.normal(size=places)[e] if level is None else level) + hidden + 0.5 * rng.normal(size=e.size)
    names = [ODD, *(f"p{k}" for k in range(1, places))]
    data = pd.DataFrame({"place": np.array(names)[e], "x": x, "y": 0.3 * x + 1.5 * hidden + noise})
    return data.assign(
        group=np.where(rng.random(e.size) < 0.5, "a", "b"), secret=[f"patient-{k}" for k in range(e.size)]
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    table(10).to_csv(folder / "rows.csv", index=False)
    table(6).to_csv(folder / "few.csv", index=False)
    table(1, 3.0, 1).drop(columns=["y", "place"]).to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def said(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Return what a line prints, on one line."""
    assert main(shlex.split(line)) == code
    printed = capsys.readouterr()
    return " ".join((printed.err if code else printed.out).split())


def test_it_says_what_python_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, new = pd.read_csv("rows.csv"), pd.read_csv("new.csv")
    chosen = [atm.strategies.Anchored(choose=[0.0, 1.0, 3.0]), "widened"]
    found = atm.compare_strategies(atm.NormalLinear(), FORMULA, data, new=new, strategies=chosen)
    line = f"{LINE} --new new.csv --strategies anchored,widened -x 0,1,3"
    assert main(shlex.split(f"{line} --json -o sites.csv -p gains.png --report c.html -q")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"]["sentence"] == found.verdict.sentence
    tables = [one.fillna({"gained": ""}) for one in (pd.DataFrame(record["table"]), found.table())]
    pd.testing.assert_frame_equal(*tables)
    sites = pd.read_csv("sites.csv", keep_default_na=False, na_values=[""]).fillna(
        {"note": "", "direction": "", "side": ""}
    )
    pd.testing.assert_frame_equal(sites, found.frame())
    assert Path("gains.png").stat().st_size > 5000
    assert Path("c.html").stat().st_size > 5000

    printed = said(line, capsys)
    assert found.verdict.further.strategy == "anchored"
    for words in (
        "At a place like these: each environment left out in turn",
        "At a place further out: the outermost environments left out together",
        "difference: mean nll minus that of ml; below 0 is better",
        "widened: maximum likelihood with a tuned spread",
        *(line for line in found.verdict.lines()),
        f"anchortm fit with --xi {found.verdict.further.xi:g} and --save",
    ):
        assert words in printed
    row = found.table().query("design == 'like' and strategy == 'widened'").iloc[0]
    assert f"widened {row['mean']:.3f} {row.q90:.3f} {row.worst:.3f} {row.difference:.3f} {row.se:.3f}" in printed
    assert "NaN" not in printed


def test_designs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = said(f"{LINE} --design like --strategies equal", capsys)
    assert "further out" not in only
    assert "Next: anchortm fit with --xi 0" in only
    assert "At a place like these" not in said(f"{LINE} --design further --strategies equal", capsys)
    few = LINE.replace("rows.csv", "few.csv")
    assert "further out" not in said(f"{few} --strategies equal", capsys)
    assert "needs at least 8; use --design like" in said(f"{few} --design both", capsys, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--strategies best", "'best' is not a strategy: name one of null, ml, equal, widened, anchored"),
        ("--new new.csv --design like", "--new is for --design further or both"),
        ("--new nowhere.csv", "there is no file nowhere.csv"),
        ("--new bare.csv", "bare.csv has no column 'x', which the formula needs"),
        ("--new texts.csv", "texts.csv: column 'x' must be numbers, not 'low' at line 3"),
        ("--new gaps.csv", "gaps.csv: 'x' has missing values at line 3; add --missing drop"),
        (
            "--new levels.csv",
            "levels.csv: covariate 'group' has levels that the table does not have: c at lines 4, 7; known: a, b; "
            "drop these rows or merge levels",
        ),
        ("--new empty.csv", "empty.csv has no rows"),
        ("--new rows.csv", "--new is the table itself"),
        ("--report page.txt", "page.txt must end in .html"),
        ("--report nowhere/page.html", "the folder nowhere does not exist"),
        ("--min-rows 0", "--min-rows must be a whole number of at least 1"),
        ("-f 'y ~ x'", "compare needs environments"),
    ],
)
def test_what_is_refused(folder: Path, more: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    new = pd.read_csv("new.csv")
    new[["group"]].to_csv("bare.csv", index=False)
    new.astype({"x": str}).assign(x=["low" if k == 1 else str(x) for k, x in enumerate(new.x)]).to_csv("texts.csv")
    new.assign(x=new.x.where(new.index != 1)).to_csv("gaps.csv", index=False)
    new.assign(group=new.group.where(~new.index.isin([2, 5]), "c")).to_csv("levels.csv", index=False)
    new.head(0).to_csv("empty.csv", index=False)
    assert message in said(f"{LINE} {more}", capsys, 1)


def test_missing_values_of_the_new_place_are_dropped_if_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = pd.read_csv("new.csv")
    new.assign(x=new.x.where(new.index != 1)).to_csv("gaps.csv", index=False)
    options = "--strategies anchored --design further --missing drop --json"
    found = json.loads(said(f"{LINE} --new gaps.csv {options}", capsys))
    new.drop(index=1).to_csv("whole.csv", index=False)
    assert found == json.loads(said(f"{LINE} --new whole.csv {options}", capsys))


def test_dates_of_the_outcome_are_not_needed_in_the_new_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, new = pd.read_csv("rows.csv"), pd.read_csv("new.csv")
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(data)), "D")
    days = np.round(60 + 5 * data.y).astype(int)
    data.assign(came=came, left=came + pd.to_timedelta(days, "D")).to_csv("stays.csv", index=False)
    new.to_csv("coming.csv", index=False)
    line = "compare stays.csv -m lm -f 'stay ~ x | place' --dates stay=left-came --new coming.csv --strategies anchored"
    assert "SD out" in said(line, capsys)


class Page(HTMLParser):
    """What is in a page: its tags, its attributes and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    data, new = table(12), table(1, 3.0, 1)
    found = atm.compare_strategies(atm.NormalLinear(), FORMULA, data, new=new, strategies=["widened", "anchored"])
    assert found.report(tmp_path / "page.html") == tmp_path / "page.html"
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert len(text) < 100_000
    assert {"table", "svg", "h1", "title"} <= set(page.tags)
    assert not {"script", "link", "img", "iframe", "object", "image"} & set(page.tags)
    loads = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "action", "data")]
    assert all(value is not None and value.startswith("#") for value in loads)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "<script" not in text
    assert ODD in page.text  # the name of a place, as it is
    for words in (*found.verdict.lines(), "gain_widened", "maximum likelihood with a tuned spread"):
        assert words in page.text
    assert "patient-" not in text
    y = [f"{value:.6g}" for value in data.y]
    assert not [value for value in y if f">{value}<" in text]


def test_the_report_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = atm.compare_strategies(atm.NormalLinear(), FORMULA, table(4), strategies=["equal"], scores=[])
    (tmp_path / "page.html").write_text("before")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ValueError, match="No space left on device"):
        found.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_report_without_a_picture(tmp_path: Path) -> None:
    """There is nothing to draw if only maximum likelihood was compared; the plot says so."""
    found = atm.compare_strategies(atm.NormalLinear(), FORMULA, table(4), strategies=[], scores=[])
    found.report(tmp_path / "page.html")
    assert "svg" not in Page((tmp_path / "page.html").read_text()).tags
    with pytest.raises(ValueError, match="nothing to draw: compare a strategy besides maximum likelihood"):
        found.plot()
