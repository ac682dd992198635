"""What a person sees: every command in a real pseudo-terminal of 80 columns, colours, exit codes, Ctrl-C."""

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.cli.commands import COMMANDS
from anchortm.cli.main import main, parser
from anchortm.cli.parsing import on_lines
from anchortm.cli.terminal import as_text, paint, paragraph, shorten, unpainted

terminals = pytest.importorskip("pseudo_terminal")  # Windows has none

FORMULA = "y ~ a_covariate_with_a_name_that_is_longer_than_half_a_line + group | site"
LM = ["-m", "lm", "-f", FORMULA]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    rng, n = np.random.default_rng(0), 240
    sites = ["北京大学第一医院", "Universitätsklinikum Schleswig-Holstein, Campus Lübeck", "Łódź", "d", "e"]
    site = np.array(sites)[np.arange(n) % 5]
    group = np.array(["control", "treated with something that takes many words to say"])[rng.integers(0, 2, n)]
    x = rng.normal(size=n) + (np.arange(n) % 5)
    table = pd.DataFrame({"site": site, "a_covariate_with_a_name_that_is_longer_than_half_a_line": x, "group": group})
    table["y"] = x + (group == "control") + rng.normal(size=n)
    many = [f"{name}, {word} department of internal medicine" for name in sites for word in ("first", "second")]
    table.assign(site=np.array(many)[np.arange(n) % 10]).to_csv(folder / "many.csv", index=False)
    table["a_column_with_notes"] = [f"a note that is quite long, about patient number {k}" for k in range(n)]
    table.to_csv(folder / "rows.csv", index=False)
    table.assign(y=["?" if k == 7 else f"{v:.3f}" for k, v in enumerate(table.y)]).to_csv(folder / "bad.csv")
    atm.save(atm.NormalLinear.from_formula(FORMULA, table, xi=1.0), folder / "model.json")
    return folder


LINES = {
    "help": ["--help"],
    **{f"help of {name}": [name, "--help"] for name in COMMANDS},
    "check": ["check", "rows.csv"],
    "check a fit": ["check", "rows.csv", *LM],
    "check a bad table": ["check", "bad.csv", *LM],
    "fit": ["fit", "rows.csv", *LM, "-x", "1", "-s", "again.json", "-o", "c.csv"],
    "fit several": ["fit", "rows.csv", *LM, "-x", "0,1,10"],
    "diagnose": ["diagnose", "rows.csv", *LM],
    "choose": ["choose", "rows.csv", *LM, "-x", "0,1,10"],
    "choose by a rule": ["choose", "rows.csv", *LM, "-x", "0,1,10", "-r", "worst"],
    "choose by a test": ["choose", "rows.csv", *LM, "-r", "invariance"],
    "assess": ["assess", "many.csv", *LM, "--strategies", "anchored", "--new", "rows.csv", "--outcomes", "rows.csv"],
    "compare": ["compare", "rows.csv", *LM, "--strategies", "widened,anchored"],
    "compare further": [
        "compare",
        "many.csv",
        *LM,
        "--strategies",
        "anchored",
        "--new",
        "rows.csv",
        "--report",
        "c.html",
    ],
    "parents": ["parents", "rows.csv", *LM, "--sensitivity", "-p", "sets.png"],
    "parents of which every set is rejected": ["parents", "rows.csv", "-m", "lm", "-f", "y ~ group | site"],
    "path": ["path", "rows.csv", *LM],
    "loeo": ["loeo", "rows.csv", *LM, "-x", "0,1"],
    "predict": [
        "predict",
        "model.json",
        "rows.csv",
        "--quantiles",
        "0.1,0.25,0.5,0.75,0.9,0.99",
        "--keep",
        "site,group",
    ],
    "score": ["score", "model.json", "rows.csv", "--by", "site"],
    "recalibrate": ["recalibrate", "model.json", "rows.csv", "-s", "there.json"],
    "site study": ["site", "study", "trial.toml", "-f", FORMULA, "--members", "d,e,f"],
    "site check": ["site", "check", "trial.toml", "--data", "rows.csv", "--name", "d"],
    "site check refused": ["site", "check", "trial.toml", "--data", "bad.csv", "--name", "unknown"],
    "site join without certificates": ["site", "join", "trial.toml", "--hub", "127.0.0.1:1"],
    "show": ["show", "model.json"],
    "show a recalibrated model": ["show", "there.json"],
    "data": ["data", "cgd", "-o", "cgd.csv"],
    "an error": ["fit", "bad.csv", *LM],
    "a usage error": ["fit", "rows.csv", "-m", "cxo", "-f", FORMULA],
    "an unknown command": ["ft"],
    "no command": [],
}
CODES = {"check a bad table": 1, "an error": 1, "a usage error": 2, "an unknown command": 2, "no command": 2}
CODES |= {"site check refused": 1, "site join without certificates": 1}
SLOW = {
    "demo": ["demo", "-o", "figures"],
    "reproduce": ["reproduce", "identities", "-o", "paper"],
    "bench": ["bench", "--quick", "--only", "import", "-o", "bench"],
}


def cells(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(bool(unicodedata.combining(letter)) for letter in text)


def seen(text: str) -> str:
    """Return what remains on the screen; progress bars are erased."""
    return "\n".join(line.split("\r")[-1] for line in text.split("\n"))


def words(text: str) -> set[str]:
    return {word for word in re.sub(r" \\\n +", " ", text).split() if "..." not in word}


def check(lines: dict[str, list[str]], folder: Path) -> None:
    """No line is over 80 columns, and no word is broken: all words are those of a terminal of 200 columns."""
    narrow = terminals.commands(list(lines.values()), folder, 80)
    wide = terminals.commands(list(lines.values()), folder, 200)
    assert len(narrow) == len(wide) == len(lines)
    for name, (code, text), (_, same) in zip(lines, narrow, wide, strict=True):
        assert code == CODES.get(name, 0), f"{name}\n{text}"
        assert "Traceback" not in text
        assert text.strip()
        for line in seen(text).splitlines():
            assert cells(line) <= 80, f"{name}: {line}"
        known = words(seen(same))
        broken = {word for word in words(seen(text)) - known if not re.fullmatch(r"[-+\d.einfNa]+|s", word)}
        assert not broken, f"{name}: {broken}"


def test_every_command_fits_80_columns(folder: Path) -> None:
    assert {line[0] for line in (LINES | SLOW).values() if line} >= set(COMMANDS) - {"completion"}
    check(LINES, folder)


@pytest.mark.slow
def test_slow_commands_fit_80_columns(folder: Path) -> None:
    check(SLOW, folder)


def test_colour_is_for_terminals(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """NO_COLOR turns it off, FORCE_COLOR on; files and pipes have none."""
    help_ = ["fit", "--help"]
    assert "\x1b[1m" in terminals.command(help_, folder)[1].text
    assert "\x1b[31merror:\x1b[0m" in terminals.command(["nothing"], folder)[1].text
    for switch in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in terminals.command(help_, folder, **switch)[1].text
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit):
        main(help_)
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(SystemExit):
        main(help_)
    assert "\x1b[1m" in capsys.readouterr().out


def test_escapes_of_data_stay_codes_beside_our_colours() -> None:
    text = paint("ours", "red") + "\x1b[31mtheirs"
    assert unpainted(text, lambda part: part.replace("\x1b", "\\x1b"), True) == "\x1b[31mours\x1b[0m\\x1b[31mtheirs"
    assert unpainted(text, lambda part: part, False) == "ours\x1b[31mtheirs"


def test_ctrl_c_leaves_a_clean_line(folder: Path) -> None:
    """Pressed in the terminal during a long command."""
    rng, n = np.random.default_rng(1), 40_000
    big = pd.DataFrame({"site": rng.integers(0, 20, n), "x": rng.normal(size=n)})
    big.assign(y=big.x + rng.logistic(size=n)).to_parquet(folder / "big.parquet")
    xis = ",".join(map(str, range(300)))
    line = ["loeo", "big.parquet", "-m", "c-logit", "-f", "y ~ x | site", "-x", xis, "-o", "out.csv"]
    marked = (
        "import sys, anchortm.selection.left_out_table as m; f = m.folds\n"
        "def begun(*a, **k):\n    print('BEGUN', flush=True)\n    return f(*a, **k)\n"
        "m.folds = begun\nfrom anchortm.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    running = terminals.Terminal(["-c", marked, *line], folder)
    running.read(lambda: "BEGUN" in running.text)
    running.read(seconds=1.0)
    running.press(b"\x03")
    assert running.end() == 130, running.text
    shown = [line.rstrip() for line in seen(running.plain).rstrip().split("\n")]
    assert shown[-1] == "interrupted; no file was left half written", running.text
    assert "Traceback" not in running.text
    assert not (folder / "out.csv").exists()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_every_file_of_a_command_is_listed() -> None:
    files = (Path(atm.__file__).parent / "cli" / "commands").glob("*.py")
    assert {file.stem for file in files} - {"__init__"} == set(COMMANDS)


def test_a_command_loads_only_its_own_file() -> None:
    """The start stays fast: help of one command imports neither the others nor NumPy."""
    code = (
        "import sys; from anchortm.cli.main import main\n"
        "try:\n    main(['fit', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([n for n in sys.modules if n.startswith('anchortm.cli.commands.')],"
        " 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stderr.strip() == "['anchortm.cli.commands.fit'] False"


def test_options_are_the_same_in_all_commands() -> None:
    """--output and --out for what is written, --json, short options; each option has one short name."""
    commands = next(action for action in parser()._actions if hasattr(action, "choices") and action.choices).choices
    short: dict[str, str] = {}
    for name, command in commands.items():
        options = {option for action in command._actions for option in action.option_strings}
        assert {"-q", "--quiet", "--debug"} <= options, name
        assert ("--output" in options) == ("--out" in options) == ("-o" in options), name
        assert "--output" in options or name == "completion"
        assert "--json" in options or name in ("data", "bench", "completion"), name
        for action in command._actions:
            long = [option for option in action.option_strings if option.startswith("--")]
            for option in action.option_strings:
                if not option.startswith("--"):
                    assert short.setdefault(option, long[0]) == long[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["ft"], "there is no command 'ft': did you mean fit?"),
        (["predct", "m.json"], "did you mean predict?"),
        (["fit", "d.csv", "-f", "y ~ x", "-m", "weibul"], "there is no model 'weibul': did you mean weibull?"),
        (["fit", "d.csv", "-f", "y ~ x", "-m", "Cox"], "did you mean cox?"),
        (["data", "boston", "-o", "b.csv"], "there is no data set 'boston': did you mean boston_housing2?"),
        (["fit", "d.csv", "-f", "y ~ x", "-m", "lm", "--wieghts", "w"], "no option --wieghts: did you mean --weights?"),
        (
            ["choose", "d.csv", "-f", "y ~ x", "-m", "lm", "-r", "worse"],
            "there is no rule 'worse': did you mean worst?",
        ),
        (["fit", "d.csv", "-m", "lm", "-f", "y", "~", "x"], "too many: '~'; put quotes"),
        (["fit", "d.csv"], "these are missing: -f/--formula, -m/--model"),
        (["nothing-like-it"], "Choose from check, fit"),
    ],
)
def test_suggestions(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(line)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_help_when_called_bare(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """With exit code 2, so that a script that lost its command fails."""
    monkeypatch.setattr(sys, "argv", ["anchortm"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert all(name in printed.err for name in COMMANDS)
    assert "exit codes: 0 success" in printed.err
    assert printed.out == ""


def test_texts_and_tables_that_fit(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert shorten("abcdefghij", 7) == "ab...ij"
    assert cells(shorten("北京大学第一医院", 9)) <= 9
    assert paragraph("one-two three " * 5, hanging="  ").splitlines()[1].startswith("  three")
    table = pd.DataFrame({"name": ["x" * 50, "y"], **{f"column {k}": [1.23456789, 1e-9] for k in range(6)}})
    lines = unpainted(as_text(table), str, False).splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("name") for line in lines) > 1  # blocks, each with the first column
    monkeypatch.setenv("COLUMNS", "60")
    line = on_lines('anchortm fit a.csv -m lm -f "y ~ x | site" --xi 10 --save a_model.json')
    assert line == 'anchortm fit a.csv -m lm -f "y ~ x | site" --xi 10 \\\n    --save a_model.json'


def test_quiet_prints_results_and_errors_only(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.chdir(folder)
    pd.read_csv("rows.csv").to_csv("semi.csv", sep=";", index=False)
    assert main(["fit", "semi.csv", *LM]) == 0
    loud = capsys.readouterr()
    assert "separated by semicolons" in loud.err
    assert main(["fit", "semi.csv", *LM, "-q"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert quiet.out == loud.out
    assert main(["fit", "semi.csv", *LM, "-q", "-s", "quiet.json", "-o", "quiet.csv"]) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(Path("quiet.json").read_text())["class"] == "NormalLinear"
    assert main(["fit", "bad.csv", *LM, "-q"]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_a_progress_bar_can_be_hidden(folder: Path) -> None:
    """A bar is drawn after half a second, and erased at the end."""
    rng, n = np.random.default_rng(1), 30_000
    big = pd.DataFrame({"site": rng.integers(0, 20, n), "x": rng.normal(size=n)})
    big.assign(y=big.x + rng.logistic(size=n)).to_parquet(folder / "some.parquet")
    line = ["loeo", "some.parquet", "-m", "c-logit", "-f", "y ~ x | site", "-x", "0,1,3,10,30,100"]
    found = terminals.commands([line, [*line, "--no-progress"], [*line, "--quiet"]], folder)
    assert [code for code, _ in found] == [0, 0, 0]
    assert ["%|" in text for _, text in found] == [True, False, False]
    assert "%|" not in seen(found[0][1])
