"""What a newcomer reads when a table, a formula or an option is not as the command line needs it."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.main import main
from anchortm.exceptions import AnchorTMError

RNG = np.random.default_rng(4)
N = 60
DATA = pd.DataFrame(
    {
        "case": [f"{k:05d}" for k in range(N)],
        "site": np.repeat(["Jena", "Köln", "Ulm"], [35, 20, 5]),
        "age (years)": RNG.integers(40, 90, N),
        "sex": np.where(RNG.random(N) < 0.5, "female", "male"),
        "days": RNG.integers(1, 300, N),
        "state": np.where(RNG.random(N) < 0.6, "dead", "censored"),
        "code": 1,
        "y": RNG.normal(size=N),
    }
)
DATA.loc[0, "state"] = "censored"
DATA.loc[DATA.state == "dead", "code"] = 2
COX = "-m weibull -f"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    DATA.to_csv("d.csv", index=False)
    return tmp_path


def said(line: str, capsys: pytest.CaptureFixture[str], code: int = 1) -> str:
    """Return all that a command prints, as one line."""
    capsys.readouterr()
    assert main(shlex.split(line)) == code
    return " ".join(" ".join(capsys.readouterr()).split())


def refused(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints that is used wrongly, as one line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line))
    assert end.value.code == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["check", "fit"])
def test_no_code_is_taken_for_the_event(command: str, capsys) -> None:
    """The first row is censored here; a message that names its value would turn the model around."""
    printed = said(f'{command} d.csv {COX} "Surv(days, state) ~ sex | site"', capsys)
    assert "its values are 'censored', 'dead': compare with the one that means the event in --formula" in printed
    assert "state == '...'" in printed
    printed = said(f'{command} d.csv {COX} "Surv(days, code) ~ sex | site"', capsys)
    assert "its values are 1, 2: compare with the one that means the event in --formula, code == ...;" in printed
    assert "== 2" not in printed


def test_an_event_in_python() -> None:
    with pytest.raises(
        AnchorTMError, match="'censored', 'dead': compare with the one that means the event, state == '"
    ):
        atm.Surv(DATA.days, DATA.state)
    with pytest.raises(AnchorTMError, match="event, `the state` == "):
        atm.Surv(DATA.days, DATA.state.rename("the state"))
    with pytest.raises(AnchorTMError, match=r"its values are 0, 1, .* and 2 more: "):
        atm.Surv(np.ones(12), np.arange(12))


@pytest.mark.parametrize("command", ["check", "fit"])
def test_an_event_that_no_row_has(command: str, capsys) -> None:
    printed = said(f"""{command} d.csv {COX} "Surv(days, state == 'died') ~ sex | site" """, capsys)
    assert "no row has 'died', which the outcome compares 'state' with: its values are 'censored', 'dead'" in printed
    printed = said(f'{command} d.csv {COX} "Surv(days, code == 3) ~ sex | site"', capsys)
    assert "no row has 3" in printed
    assert "its values are 1, 2" in printed
    printed = said(f'{command} d.csv {COX} "Surv(days, state == dead) ~ sex | site"', capsys)
    assert "if it is a value of state, put it in quotes: state == 'dead'" in printed


def test_new_rows_need_no_events() -> None:
    model = atm.ParametricSurvival.from_formula("Surv(days, state == 'dead') ~ sex", DATA)
    assert np.isfinite(model.nll(DATA[DATA.state == "censored"])).all()


def test_missing_values_name_the_model(capsys) -> None:
    holes = DATA.assign(y=DATA.y.mask(DATA.index == 3))
    with pytest.raises(AnchorTMError, match=r'or fit with NormalLinear\(missing="drop"\), which leaves out 1 row'):
        atm.NormalLinear().fit("y ~ sex", holes)
    with pytest.raises(AnchorTMError, match=r'or fit with NormalLinear\(missing="drop"\)'):
        atm.NormalLinear().fit(holes[["days"]], holes.y)
    holes.to_csv("h.csv", index=False)
    assert "or fit with --missing drop, which leaves out 1 row" in said('fit h.csv -m lm -f "y ~ sex"', capsys)
    assert "or fit with --missing drop, which leaves out 1 row" in said('fit h.csv -m gaussian -f "y ~ sex"', capsys)


def test_digits_that_begin_with_zero_are_names(capsys) -> None:
    DATA.assign(site=DATA.site.map({"Jena": "001", "Köln": "002", "Ulm": "010"})).to_csv("z.csv", index=False)
    assert "read as text, since some of their values begin with 0: case, site" in said("check z.csv", capsys, 0)
    said('fit z.csv -m lm -f "y ~ sex | site" --xi 1 -s m.json', capsys, 0)
    assert main(["predict", "m.json", "z.csv", "--keep", "case,site", "-o", "p.csv"]) == 0
    kept = pd.read_csv("p.csv", dtype=str)
    assert (kept.case == DATA.case).all()
    assert set(kept.site) == {"001", "002", "010"}


def test_numbers_that_begin_with_zero_are_numbers_where_these_are_needed(capsys) -> None:
    padded = DATA.assign(days=DATA.days.map("{:03d}".format))
    padded.to_csv("z.csv", index=False)
    said('fit d.csv -m lm -f "days ~ sex" -o a.csv', capsys, 0)
    said('fit z.csv -m lm -f "days ~ sex" -o b.csv', capsys, 0)
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    said('fit d.csv -m lm -f "y ~ days" -s m.json', capsys, 0)
    said("predict m.json d.csv -o a.csv", capsys, 0)
    said("predict m.json z.csv -o b.csv", capsys, 0)
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    few = DATA.assign(days=np.where(DATA.index % 2, "08", "07"))
    few.to_csv("z.csv", index=False)
    assert "days is read as a factor, since some values begin with 0" in said(
        'fit z.csv -m lm -f "y ~ days"', capsys, 0
    )


def test_blanks_around_texts(capsys) -> None:
    """They make no levels of their own, and what is missing or a number without them is so with them."""
    sex = DATA.sex.mask(DATA.index % 5 == 1, DATA.sex + "  ").mask(DATA.index == 7, " NA ")
    y = DATA.y.astype(str).mask(DATA.index == 9, "NA ").mask(DATA.index == 10, f" {DATA.y[10]} ")
    DATA.assign(sex=sex, y=y).to_csv("b.csv", index=False)
    said('fit b.csv -m lm -f "y ~ sex" --missing drop -o b.out.csv', capsys, 0)
    DATA.drop([7, 9]).to_csv("clean.csv", index=False)
    said('fit clean.csv -m lm -f "y ~ sex" -o c.out.csv', capsys, 0)
    assert Path("b.out.csv").read_text() == Path("c.out.csv").read_text()


def test_check_lists_levels_that_differ_in_case_only(capsys) -> None:
    DATA.assign(sex=DATA.sex.mask(DATA.index == 4, "Female")).to_csv("c.csv", index=False)
    printed = said("check c.csv", capsys, 0)
    assert "values of sex that differ in upper and lower case only: 'Female'; 'female'" in printed
    assert "upper and lower case" not in said("check d.csv", capsys, 0)


def test_check_lists_sites_and_short_rows(capsys) -> None:
    many = DATA.assign(site=[f"s{k // 5}" for k in range(N)], code=(DATA.index < 25).astype(int))
    many.to_csv("m.csv", index=False)
    printed = said(f'check m.csv {COX} "Surv(days, code) ~ sex | site"', capsys, 0)
    assert "sites without events: s10, s11, s5, s6, s7 and 2 more" in printed
    lines = DATA.to_csv(index=False).splitlines()
    lines[3] = lines[3].rsplit(",", 2)[0]
    Path("short.csv").write_text("\n".join(lines) + "\n")
    assert "fewer values than names, so that the last ones are missing: line 4" in said("check short.csv", capsys, 0)
    assert "add --formula." in said("check d.csv -m lm", capsys, 0)


def test_excel_names_the_separator(capsys) -> None:
    """Its line is skipped, and lines are counted with it."""
    y = DATA.y.mask(DATA.index == 3)
    table = DATA.assign(y=y).to_csv(index=False, sep=";", decimal=",")
    for first in ("sep=;\n", '"sep=;"\r\n', "SEP=;\n"):
        Path("e.csv").write_text(first + table)
        printed = said('fit e.csv -m lm -f "y ~ sex"', capsys)
        assert "values separated by semicolons, decimal comma" in printed
        assert "first at line 6" in printed


def test_names_that_need_backticks(capsys) -> None:
    odd = DATA["age (years)"].astype(str).mask(DATA.index == 2, "n.d.")
    DATA.assign(**{"age (years)": odd}).to_csv("o.csv", index=False)
    for command in ("check", "fit"):
        assert "C(`age (years)`)" in said(f'{command} o.csv -m lm -f "y ~ `age (years)`"', capsys)


def test_choose_says_which_site_decides(capsys) -> None:
    line = 'choose d.csv -m lm -f "y ~ sex | site" --xi 0,1'
    printed = said(f"{line} -o c.csv", capsys, 0)
    table = pd.read_csv("c.csv").set_index("rule")
    assert "chosen" not in table
    scores = atm.leave_one_environment_out(atm.NormalLinear(), "y ~ sex | site", DATA, xis=[0, 1]).frame()
    large = scores[(scores.xi == table.xi["worst"]) & (scores.n >= 10)].sort_values("skill")
    assert table.site["worst"] == large.environment.iloc[0]
    assert table.rows["worst"] == large.n.iloc[0]
    assert f"hardest site of worst: {large.environment.iloc[0]} ({large.n.iloc[0]} rows)" in printed
    wild = DATA.assign(y=DATA.y.where(DATA.site != "Ulm", 5 * DATA.y + 3))
    wild.to_csv("w.csv", index=False)
    small = said(f"{line.replace('d.csv', 'w.csv')} --rule worst", capsys, 0)
    assert "Ulm" not in small  # five rows do not decide
    assert "1 of 3 sites has fewer than 10 rows: not counted in the worst" in " ".join(small.split())


def test_diagnose_sorts_mean_residuals(capsys) -> None:
    capsys.readouterr()
    assert main(["diagnose", "d.csv", "-m", "lm", "-f", "y ~ days | site"]) == 0
    after = capsys.readouterr().out.partition("the largest first:\n")[2].splitlines()[1:4]
    means = [abs(float(line.split()[2])) for line in after]
    assert means == sorted(means, reverse=True)


def test_score_says_what_to_do_about_bad_rows(capsys) -> None:
    said('fit d.csv -m lm -f "y ~ sex + days"  -s m.json', capsys, 0)
    new = DATA.assign(sex=DATA.sex.mask(DATA.index == 4, "other"), days=DATA.days.mask(DATA.index == 9))
    new.to_csv("n.csv", index=False)
    printed = said("score m.json n.csv", capsys)
    assert "2 of 60 rows cannot be scored: " in printed
    assert "days is missing (1 row, first line 11)" in printed
    assert "sex 'other' is unknown (1 row, first line 6)" in printed
    assert "--missing drop" in printed
    assert "--bad-rows drop" in printed
    DATA.drop([4, 9]).to_csv("c.csv", index=False)
    said("score m.json n.csv --bad-rows drop -o a.csv", capsys, 0)
    said("score m.json c.csv -o b.csv", capsys, 0)
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    new.assign(sex="other").to_csv("n.csv", index=False)
    assert "no rows are left" in said("score m.json n.csv --bad-rows drop", capsys)
    assert "--by must be one column of names" in said("score m.json d.csv --by y", capsys)
    said('fit d.csv -m cox-partial -f "Surv(days, code == 2) ~ sex" -s c.json', capsys, 0)
    printed = said("score c.json d.csv", capsys)
    assert "end at the last event time: use --model cox, whose full distributions have all scores" in printed


def test_all_absent_columns_are_named(capsys) -> None:
    said('fit d.csv -m lm -f "y ~ sex + days + `age (years)`" -s m.json', capsys, 0)
    few = DATA[["case", "site", "y"]]
    few.to_csv("few.csv", index=False)
    for command in ("predict", "score"):
        assert "there are no columns 'sex', 'age (years)', 'days' in" in said(f"{command} m.json few.csv", capsys)
    with pytest.raises(AnchorTMError, match="there are no columns"):
        atm.load("m.json").predict(few)
    with pytest.raises(AnchorTMError, match=r"there are no columns 'days', 'sex' in the data; its columns are case"):
        atm.NormalLinear().fit("y ~ sex + days", few)


def test_absent_columns_that_dates_could_make(capsys) -> None:
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) % 31, "D")
    table = DATA.drop(columns="days").assign(came=came, left=came + pd.to_timedelta(DATA.days, "D"))
    table.to_csv("t.csv", index=False)
    said('fit d.csv -m lm -f "y ~ days" -s m.json', capsys, 0)
    for line in ("predict m.json t.csv", 'fit t.csv -m lm -f "y ~ days"', "score m.json t.csv"):
        assert "--dates makes columns of days from dates, such as --dates days=left-came" in said(line, capsys)
        assert "--dates" not in said(line.replace("t.csv", "t.csv --dates x=left-came"), capsys)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit d.csv --modell lm -f 'y ~ sex'", "there is no option --modell: did you mean --model?"),
        ("fit d.csv --modell=lm", "there is no option --modell: did you mean --model?"),
        ("--versoin", "there is no option --versoin: did you mean --version?"),
        ("fit --hlp", "there is no option --hlp: did you mean --help?"),
        (
            "fit d.csv -m lm -f 'y ~ sex' --plot a.png",
            "fit has no option --plot; choose, assess, compare, parents, path, loeo and score have it",
        ),
        ("help", "write anchortm --help, or --help after a command"),
        ("fit d.csv -f 'y ~ sex' -m ProportionalHazards", "did you mean cox?"),
        ("fit d.csv -f 'y ~ sex' -m normallinear", "did you mean lm?"),
        ("fit d.csv -f 'y ~ sex' -m cux", "did you mean cox?"),
    ],
)
def test_misspelled_words(line: str, words: str, capsys) -> None:
    assert words in refused(line, capsys)


def test_options_can_still_be_cut_short(capsys) -> None:
    said("check d.csv --form 'y ~ sex' --mod lm", capsys, 0)


def test_files_in_the_wrong_place(capsys) -> None:
    said('fit d.csv -m lm -f "y ~ sex" -s m.json', capsys, 0)
    DATA.to_csv("w.csv", index=False, encoding="cp1252")
    for table in ("d.csv", "w.csv"):
        for command in ("predict", "score"):
            expected = f"{table} is not a model file but a table: swap it with m.json"
            assert expected in said(f"{command} {table} m.json", capsys)
        assert f"{table} is not a model file but a table: name a file that" in said(f"show {table}", capsys)
    assert "m.json is given as the model and as the table" in said("predict m.json m.json", capsys)
    assert "m.json is not a table" in said("check m.json", capsys)
    Path("d.xlsx").write_bytes(b"PK")
    assert "d.xlsx is a spreadsheet: save it as CSV" in said('fit d.xlsx -m lm -f "y ~ sex"', capsys)


def test_marks_of_thousands(capsys) -> None:
    grouped = [f"1.{k + 100},5" for k in range(N)]
    DATA.assign(y=grouped, days=DATA.days + 0.5).to_csv("t.csv", index=False, sep=";", decimal=",")
    for command in ("check", "fit"):
        printed = said(f'{command} t.csv -m lm -f "days ~ y"', capsys)
        assert "write numbers without thousands separators, 1100,5 instead of 1.100,5" in printed
        assert "missing values" not in printed


def dated(form: str) -> pd.DataFrame:
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) % 31, "D")
    left = came + pd.to_timedelta(DATA.days, "D")
    return DATA.drop(columns="days").assign(came=came.strftime(form), left=left.dt.strftime(form))


def test_years_of_two_digits(capsys) -> None:
    for mark in "./":
        dated(f"%d{mark}%m{mark}%y").to_csv("t.csv", index=False)
        line = 'fit t.csv -m lm -f "days ~ sex" --dates days=left-came'
        assert f"two digits, so add --date-format %d{mark}%m{mark}%y" in said(line, capsys)
        said(f"{line} --date-format %d{mark}%m{mark}%y", capsys, 0)


def test_check_lists_what_is_no_date(capsys) -> None:
    table = dated("%d.%m.%Y")
    table.loc[3, "left"] = "31.02.2021"
    table.to_csv("t.csv", index=False)
    line = 't.csv -m lm -f "days ~ sex" --dates days=left-came'
    printed = said(f"check {line}", capsys)
    assert "1. --dates: column 'left' has '31.02.2021' at line 5, which is not a date" in printed
    assert "2. missing values: days in 1 of 60 rows" in printed
    assert "31.02.2021" in said(f"fit {line}", capsys)


def test_anchors_and_xi(capsys) -> None:
    assert "there are no anchors after '|'" in said('fit d.csv -m lm -f "y ~ sex | "', capsys)
    line = 'fit d.csv -m lm -f "y ~ sex | site"'
    assert "without --xi, xi is 0 and site has no effect" in said(line, capsys, 0)
    assert "without --xi" not in said(f"{line} --xi 0", capsys, 0)
    assert "without --xi" not in said('fit d.csv -m lm -f "y ~ sex"', capsys, 0)
    DATA.to_csv("c.csv", index=False, sep=";", decimal=",")
    words = "--xi has two values, 0 and 5; decimals are written with a point"
    assert words in said(f"{line.replace('d.csv', 'c.csv')} --xi 0,5", capsys, 0)
    assert words not in said(f"{line} --xi 0,5", capsys, 0)


def test_rows_that_cannot_be_predicted(capsys) -> None:
    """Before, predict named one of several columns with missing values, and no option that helps."""
    data = DATA.rename(columns={"age (years)": "age"})
    atm.save(atm.NormalLinear.from_formula("y ~ age + sex + days", data), "m.json")
    data.assign(age=data.age.where(data.index > 2), sex=data.sex.where(data.index != 7)).to_csv("holes.csv")
    printed = said("predict m.json holes.csv", capsys)
    assert "covariate 'sex' (1 row), covariate 'age' (3 rows); impute or drop these 4 of 60 rows, or add" in printed
    assert printed.endswith("or add --bad-rows mark")
    data.assign(sex=data.sex.where(data.index != 7, "x")).to_csv("levels.csv")
    printed = said("predict m.json levels.csv", capsys)
    assert "has levels that the fit has not seen: x (1 row, first at line 9); known: female, male; drop" in printed
    assert printed.endswith("or merge levels, or add --unknown baseline (or rare) or --bad-rows mark")
