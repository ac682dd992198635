"""Model files that are damaged or made by someone who means harm: a clear error or sound predictions, nothing else.

Files of every kind of model are changed at random, as text and as JSON; the checksum is left as it was, as damage
leaves it, or computed again, as someone who knows how would.
"""

import builtins
import copy
import json
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
)

import anchortm as atm
from anchortm._util.pipelines import model_of
from anchortm.exceptions import AnchorTMError, AnchorTMWarning, InputError, ModelFileError
from anchortm.saving import digest

SECONDS = 5.0  # that no file may take


def frame() -> pd.DataFrame:
    """Return rows with a column for each kind of outcome and of covariate."""
    rng = np.random.default_rng(0)
    n = 600
    site = rng.integers(0, 6, n)
    x, z = rng.normal(size=n) + 0.2 * site, rng.uniform(1.0, 3.0, n)
    latent = x - 0.5 * z + rng.logistic(size=n)
    spell = np.exp(latent / 3)
    return pd.DataFrame(
        {
            "site": site,
            "x": x,
            "z": z,
            "zone": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
            "code": rng.integers(1, 4, n),
            "town": [f"t{k}" for k in np.arange(n) % 110],
            "shift": 0.1 * x,
            "y": latent,
            "time": np.minimum(spell, 2.0),
            "event": (spell < 2.0).astype(int),
            "low": np.floor(latent),
            "high": np.floor(latent) + 1.0,
            "grade": np.array(["a", "b", "c", "d"])[np.digitize(latent, [-2, 0, 2])],
            "count": np.floor(np.exp(latent / 2)).astype(int),
        }
    )


def pipeline(model: Any) -> Any:
    """Return a fitted pipeline with a transformer of each kind that holds values of its own."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median"),
        make_union(SplineTransformer(n_knots=3, include_bias=False), PolynomialFeatures(2, interaction_only=True)),
        VarianceThreshold(),
        PCA(4),
        PowerTransformer(),
    )
    columns = [("numbers", numbers, ["x", "z"]), ("words", OneHotEncoder(drop="first"), ["zone"])]
    scaled = [QuantileTransformer(n_quantiles=20), KBinsDiscretizer(4, encode="ordinal"), MinMaxScaler()]
    made = atm.make_pipeline(ColumnTransformer([*columns, ("code", make_pipeline(*scaled), ["code"])]), model)
    return made.fit(DATA[["x", "z", "zone", "code"]], DATA.y, anchors=DATA.site)


DATA = frame()
NEW = DATA.iloc[[0, 7, 21, 300, 599]]
FITS: dict[str, Callable[[], Any]] = {
    "splines": lambda: atm.ContinuousLogit.from_formula(
        "Surv(time, event) ~ bs(z, 4, extrapolation='clip') + scale(x) * zone | site", DATA, xi=1.0, order=4
    ),
    "factors": lambda: atm.ProportionalHazards.from_formula(
        "Surv(time, event) ~ C(code, contr.sum) + poly(x, 2) + center(z):zone | site", DATA, xi=2.0, log_first=True
    ),
    "more splines": lambda: atm.ContinuousProbit.from_formula(
        "y ~ cr(x, 3, constraints='center') + np.log(z) + `code` + x:z | site", DATA, order=3
    ),
    "intervals": lambda: atm.Lehmann.from_formula("Interval(low, high) ~ x + I(z ** 2)", DATA, order=3),
    "classes": lambda: atm.OrdinalRegression.from_formula(
        "ordered(grade, 'a', 'b', 'c', 'd') ~ x + zone | site", DATA, xi=1.0
    ),
    "counts": lambda: atm.CountRegression.from_formula("count ~ x + z | site", DATA, xi=1.0, order=3),
    "survival": lambda: atm.ParametricSurvival.from_formula("Surv(time, event) ~ x + zone | site", DATA, xi=1.0),
    "offset": lambda: atm.NormalLinear.from_formula("y ~ x + z | site", DATA, xi=-0.5, offset="shift"),
    "wide": lambda: atm.NormalLinear.from_formula("y ~ x + town | site", DATA, xi=1.0),
    "pipeline": lambda: pipeline(atm.ContinuousProbit(xi=1.0, order=3)),
    "recalibrated": lambda: atm.ContinuousLogit.from_formula("y ~ x + z | site", DATA, order=3).recalibrate(
        NEW, what="shift+scale", prior=0.5
    ),
    "trees in a pipeline": lambda: pipeline(atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3)),
    "arrays": lambda: atm.AnchorTM(link="loglog", basis="linear", xi=1.0).fit(
        DATA[["x", "z"]], DATA.y, anchors=DATA.site
    ),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[Any]]]:
    """Return for each model the text of its file, and what it predicts."""
    folder = tmp_path_factory.mktemp("saved")
    result = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in FITS.items():
            model = fit()
            record = json.loads(atm.save(model, folder / f"{name}.json").read_text())
            if name == "wide":  # as of a model with more parameters
                record["covariance"] = None
                record["sha256"] = digest(record)
            result[name] = (json.dumps(record, indent=1), predictions(model))
    return result


GRID = [-5.0, 0.0, 1.0, 2.0, 3.0, 30.0]


def predictions(model: Any) -> list[Any]:
    """Return what a model says of a few rows, checked to be what distributions are."""
    named = hasattr(model, "formula_")
    rows = NEW if named else NEW[["x", "z", "zone", "code"]] if hasattr(model, "steps") else NEW[["x", "z"]]
    distribution = model.predict_distribution(rows)
    grid = list(getattr(model, "classes_", GRID))
    cdf, sf, quantiles = distribution.cdf(grid), distribution.sf(grid), distribution.ppf([0.1, 0.5, 0.9])
    assert ((cdf >= 0.0) & (cdf <= 1.0)).all(), cdf
    assert (np.diff(cdf, axis=1) >= -1e-12).all(), cdf
    assert (np.abs(cdf + sf - 1.0) < 1e-9).all(), cdf + sf
    if grid is GRID:
        assert (quantiles[:, 1:] >= quantiles[:, :-1]).all(), quantiles
    nll = model.nll(rows, None if named else NEW.y)
    assert not np.isnan(nll).any(), nll
    return [cdf, sf, quantiles, nll]


WORDS = ["", "nan", "__import__('os').system('touch canary.txt')", "x" * 100_000, "\x00", "\ud800", "x + y", "1e999"]
NUMBERS = [0, -1, 1, 2, 7, 10**9, -(10**9), 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, -1e308, 1e17]


def hostile(rng: np.random.Generator) -> Any:
    """Return a value that is probably not what belongs there."""
    deep: Any = 1.0
    for _ in range(int(rng.integers(1, 60))):
        deep = [deep]
    others = [None, True, False, [], {}, [[]], [None], [0] * 5000, deep, {"number": "nan"}, {"number": "inf"}]
    others += [
        {"number": "-inf"},
        {"number": 3},
        {"link": "logit"},
        {"basis": {}},
        {"array": [1, [2]]},
        {"pairs": [[[], 1]]},
    ]
    pool = [WORDS, NUMBERS, others][rng.integers(3)]
    return copy.deepcopy(pool[rng.integers(len(pool))])


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place inside a value as a container and a key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def some_place(record: dict[str, Any], rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a place at random, the short fields of a file as often as its matrices."""
    inner: Any = record
    while True:
        key = list(inner)[rng.integers(len(inner))] if isinstance(inner, dict) else int(rng.integers(len(inner)))
        if not isinstance(inner[key], (dict, list)) or not inner[key] or rng.random() < 0.25:
            return inner, key
        inner = inner[key]


def change(record: dict[str, Any], rng: np.random.Generator) -> str:
    """Change one thing in a record, and return what was done to what."""
    inner, key = some_place(record, rng)
    old = inner[key]
    kind = ["replace", "replace", "nudge", "delete", "add", "double", "permute", "swap"][rng.integers(8)]
    if kind == "nudge" and isinstance(old, (int, float)) and not isinstance(old, bool) and abs(old) < 1e300:
        inner[key] = old + [1, -1, 0.5, 1e-9, old, -2 * old, 10 * old][rng.integers(7)]
    elif kind == "nudge" and isinstance(old, str):
        at = int(rng.integers(len(old) + 1))
        inner[key] = (
            old[:at]
            + ["", "0", ")", "(", " + x", ":", "*", "`", "'", ",", "\n", "~", "|", "é"][rng.integers(14)]
            + old[at + int(rng.integers(2)) :]
        )
    elif kind == "delete":
        del inner[key]
    elif kind == "add" and isinstance(old, list):
        old.insert(int(rng.integers(len(old) + 1)), hostile(rng))
    elif kind == "add" and isinstance(old, dict):
        old[str(WORDS[rng.integers(len(WORDS))])] = hostile(rng)
    elif kind == "double" and isinstance(old, list):
        inner[key] = old + old
    elif kind == "permute" and isinstance(old, list):
        rng.shuffle(old)
    elif kind == "swap":
        other, place = some_place(record, rng)
        other[place], inner[key] = copy.deepcopy(inner[key]), copy.deepcopy(other[place])
    else:
        kind, inner[key] = "replace", hostile(rng)
    return f"{kind} {key}"


def damage(text: bytes, rng: np.random.Generator) -> bytes:
    """Return a text with bytes flipped, gone, put in, or parts of it doubled or exchanged."""
    a, b = sorted(int(k) for k in rng.integers(0, len(text), 2))
    match rng.integers(6):
        case 0:
            flipped = bytearray(text)
            for k in rng.integers(0, len(text), rng.integers(1, 4)):
                flipped[k] ^= 1 << int(rng.integers(8))
            return bytes(flipped)
        case 1:
            return text[:b]
        case 2:
            return text[:a] + text[b:]
        case 3:
            return text[:a] + rng.bytes(int(rng.integers(1, 9))) + text[a:]
        case 4:
            return text[:b] + text[a:b] + text[b:]
    c = min(len(text), b + b - a)
    return text[:a] + text[b:c] + text[a:b] + text[c:]


def outcome(file: Path, wanted: list[Any]) -> str:
    """Return what loading a file and predicting with it came to; anything else than our own errors is raised."""
    start, message, found = time.perf_counter(), "none", None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnchorTMWarning)
        try:
            model = atm.load(file)
            found = predictions(model)
            message = str(model.summary())
            inner = getattr(model_of(model), "model_", model_of(model))  # of a pipeline, and of boosting
            assert len(inner.history_) == len(inner.result_.history)
        except ModelFileError as error:
            message = str(error)
        except AnchorTMError:  # of rows that do not fit a changed model
            return "loaded, and refused to predict"
    assert time.perf_counter() - start < SECONDS
    assert message
    if found is None:
        assert len(message) < 1000
        return "refused"
    same = all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    return "gave the same predictions" if same else "gave other sound predictions"


def count(tally: Callable[..., None], found: Counter[str]) -> None:
    tally("model files", "mutated", found.total())
    for what, n in found.items():
        tally("model files", what, n)


FEW_AND_MANY = [pytest.param(5, id="few"), pytest.param(1, id="all", marks=pytest.mark.slow)]  # a part, or all cases


@pytest.mark.parametrize("part", FEW_AND_MANY)
@pytest.mark.parametrize("name", FITS)
def test_damaged_text_is_refused_or_changes_nothing(saved, tmp_path: Path, tally, name: str, part: int) -> None:
    text, wanted = saved[name]
    rng = np.random.default_rng([1, *name.encode()])
    file, found = tmp_path / "damaged.json", Counter[str]()
    for _ in range(600 // part):
        file.write_bytes(damage(text.encode(), rng))
        found[outcome(file, wanted)] += 1
    assert set(found) <= {"refused", "gave the same predictions"}
    count(tally, found)


@pytest.mark.parametrize("name", FITS)
def test_changed_values_with_the_old_checksum_are_refused_or_change_nothing(
    saved, tmp_path: Path, tally, name: str
) -> None:
    text, wanted = saved[name]
    rng = np.random.default_rng([2, *name.encode()])
    file, found = tmp_path / "changed.json", Counter[str]()
    for _ in range(100):
        record = json.loads(text)
        change(record, rng)
        file.write_text(json.dumps(record))
        found[outcome(file, wanted)] += 1
    assert set(found) <= {"refused", "gave the same predictions"}
    count(tally, found)


def forge(saved: Any, name: str, folder: Path, seed: int, cases: int) -> Counter[str]:
    """Return what files came to whose author computes the checksum again."""
    text, wanted = saved[name]
    rng = np.random.default_rng([seed, *name.encode()])
    file, found = folder / "forged.json", Counter[str]()
    for case in range(cases):
        record = json.loads(text)
        done = [change(record, rng) for _ in range(1 + (rng.random() < 0.2))]
        with suppress(ValueError):  # infinities have no checksum
            record["sha256"] = digest(record)
        file.write_text(json.dumps(record))
        try:
            found[outcome(file, wanted)] += 1
        except Exception as error:
            raise AssertionError(f"case {case} of {name}, {done}") from error
    return found


@pytest.mark.parametrize("part", FEW_AND_MANY)
@pytest.mark.parametrize("name", FITS)
def test_forged_files_are_refused_or_give_distributions(saved, tmp_path: Path, tally, name: str, part: int) -> None:
    count(tally, forge(saved, name, tmp_path, 3, 300 // part))


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_many_forged_files(saved, tmp_path: Path, tally, name: str) -> None:
    count(tally, forge(saved, name, tmp_path, 4, 1500))


PAYLOADS = [
    "__import__('os').system('touch canary.txt')",
    "open('canary.txt', 'w')",
    "canary(x)",
    "x + {canary(x)}",
    "I(canary(x))",
    "I(x.__class__.__base__.__subclasses__())",
    "I((lambda: canary(x))())",
    "I([canary(v) for v in x])",
    "I(f'{canary(x)}')",
    "C(x, canary(x))",
    "bs(x, df=canary(x))",
    "scale(x, canary=canary(x))",
    "I(x if canary(x) else x)",
    "I((y := canary(x)))",
    "np.load('canary.txt')",
    "np.core.os.system('touch canary.txt')",
    "exec('canary(1)')",
    'eval("canary(1)")',
    "`x` + canary(`x`)",
    "x\ncanary(x)",
    "Surv(canary(x), event)",
    "y ~ canary(x)",
    "canary(y) ~ x",
    "y ~ x | canary(site)",
]


@pytest.mark.parametrize("name", ["splines", "classes"])
def test_nothing_in_a_file_is_executed(saved, tmp_path: Path, monkeypatch, tally, name: str) -> None:
    called: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "canary", lambda *a, **k: called.append(a), raising=False)
    monkeypatch.setattr("os.system", called.append)
    text, wanted = saved[name]
    record, cases = json.loads(text), []
    formula = {id(inner) for inner, _ in places(record["formula"])}
    for at, (inner, key) in enumerate(places(record)):
        if isinstance(inner[key], str):
            tried = PAYLOADS if inner is record["formula"] else PAYLOADS[:3] if id(inner) in formula else PAYLOADS[:1]
            cases += [(at, payload) for payload in tried]
    for at, payload in cases:
        record = json.loads(text)
        inner, key = next(islice(places(record), at, None))
        inner[key] = payload
        if inner is record["formula"] and key != "offset":  # both, since they are compared
            inner["text"] = payload if "~" in payload else f"y ~ {payload}"
            inner["covariates"] = payload.partition("~")[2].partition("|")[0].strip() or payload
        record["sha256"] = digest(record)
        (tmp_path / "forged.json").write_text(json.dumps(record))
        outcome(tmp_path / "forged.json", wanted)
    tally("model files", "with code inside, none of it run", len(cases))
    assert called == []
    assert not (tmp_path / "canary.txt").exists()


GREEDY = """
import json, resource, sys, time, warnings
import anchortm as atm
from anchortm.exceptions import ModelFileError
from anchortm.inputs.formula import Formula
atm.load(sys.argv[1]).formula_  # all modules are there
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 900 * 2**20,) * 2)
for file in sys.argv[2:]:
    start = time.perf_counter()
    try:
        atm.load(file)
        print("loaded", file)
    except ModelFileError as error:
        assert "MemoryError" not in str(error), error
    assert time.perf_counter() - start < 10.0, file
print("done")
"""


def greedy(saved: Any, part: int) -> Iterator[str]:
    """Yield the texts of small files that ask for much, and of large ones or a part of them."""

    def forged(name: str, **fields: Any) -> str:
        record = json.loads(saved[name][0])
        for path, value in fields.items():
            *outer, last = path.split("__")
            inner = record
            for key in outer:
                inner = inner[key]
            inner[last] = value
        record["sha256"] = digest(record)
        return json.dumps(record)

    yield forged("splines", basis__order=10**9)
    yield forged("splines", basis={"kind": "bernstein", "order": 10**9, "support": [0.0, 1.0]})
    yield forged("classes", basis__levels=list(range(300_000)))
    yield forged("splines", covariance__information=[[0.0] * 2000] * 1000)
    nested, letters = "I(10)", [f"x{k}" for k in range(26)]
    for _ in range(12):
        nested = f"({nested}) ** 10"
    many = [
        "I(2 ** 10 ** 10)",
        "I(x ** 1000000)",
        nested,
        f"I({nested})",
        "I(I([1]) * 1000000000)",
        "I(I('a') * 1000000000)",
        " * ".join(letters),
        f"({' + '.join(letters)}) ** 10",
        "bs(x, 1000000)",
        "bs(x, 5, degree=1000000)",
        f"bs(x, knots={[0] * 50_000})",
        f"bs(x{', 1' * 100_000})",
        "poly(x, 99999)",
        f"{'(' * 100}x{')' * 100}",
        "(" * 100_000,
        "x" + "+x" * 100_000,
        "-" * 200_000 + "x",
        "x" + "<x" * 100_000,
        "x" + "()" * 100_000,
        "9" * 200_000,
        "'" * 200_001,
        f"`{'x' * 200_000}`",
    ]
    for text in many:
        yield forged("splines", formula__covariates=text, formula__text="y ~ .")
    yield forged("splines", formula__text=f"Surv(time, {10**30} ** {10**30}) ~ x", formula__covariates="x")
    town = {"town": [f"t{k}" for k in range(20_000)]}
    yield forged(
        "wide", formula__text="y ~ x:town", formula__covariates="x:town", formula__levels=town, coef=[0.0] * 20_000,
        coef_names=["a"] * 20_000, fit___binary=[False] * 20_000, covariance=None,
    )  # fmt: skip
    size = 60 * 2**20
    yield from ("[" + text * (size // part // len(text)) + "0]" for text in ("[],", '"ab",'))
    yield from ("1" * (size // part), " " * (size + 8 * 2**20))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
@pytest.mark.parametrize("part", FEW_AND_MANY)
def test_files_that_ask_for_much_get_nothing(saved, tmp_path: Path, tally, part: int) -> None:
    (tmp_path / "good.json").write_text(saved["splines"][0])
    files = [str(tmp_path / "good.json")]
    for k, text in enumerate(greedy(saved, part)):
        files.append(str(tmp_path / f"{k}.json"))
        Path(files[-1]).write_text(text)
    done = subprocess.run([sys.executable, "-c", GREEDY, *files], capture_output=True, text=True, timeout=300)  # noqa: S603
    assert done.stdout.splitlines() == ["done"], done.stdout + done.stderr
    tally("model files", "that asked for time or memory, refused", len(files) - 1)
    for file in files:
        Path(file).unlink()


FORMULAS = {
    "y ~ I(I([1]) * 1000000)": "where a column or a number belongs",
    "y ~ I(I('a') * 1000000)": "where a column or a number belongs",
    "y ~ I(([x] == 'a') ** 2)": "where a column or a number belongs",
    "y ~ I(I(10) ** 10)": "only columns have powers",
    "y ~ log(x, x)": "takes one column, not 2",
    "Surv(log(time, time), event) ~ x": "takes one column, not 2",
    "Surv(time, 10 ** 9) ~ x": "only columns have powers",
    "Surv('a' * 3, event) ~ x": "where a column or a number belongs",
    "Surv(time + ..., event) ~ x": "where a column or a number belongs",
    "Surv(-zone, event) ~ x": "are they numbers",
    "Surv(log(zone), event) ~ x": "are they numbers",
    "ordered(grade, 'a', 'a', 'b', 'c', 'd') ~ x": "should be ordered",
}


@pytest.mark.bug("model files", "formulas could repeat lists and raise constants to powers without end")
@pytest.mark.parametrize("formula", FORMULAS)
def test_what_formulas_compute_with_is_a_column(formula: str) -> None:
    before = DATA.copy()
    with pytest.raises(InputError, match=FORMULAS[formula]):
        atm.NormalLinear.from_formula(formula, DATA)
    pd.testing.assert_frame_equal(DATA, before)


@pytest.mark.bug("model files", "log(x, x) in a formula wrote the logarithms into the user's table")
def test_formulas_do_not_write_into_the_table() -> None:
    data = DATA.copy()
    with pytest.raises(InputError, match="takes one column"):
        atm.NormalLinear.from_formula("Surv(log(time, time), event) ~ x", data)
    pd.testing.assert_frame_equal(data, DATA)


FORGED = {
    "a number too large for a double": ("survival", lambda r: r["fit"].update(n_total_=10**400), "complete JSON"),
    "a coefficient whose products are none": ("counts", lambda r: r["coef"].__setitem__(0, 1.7e308), "'coef'"),
    "a baseline whose differences are none": ("splines", lambda r: r["baseline"].__setitem__(4, 1e308), "'baseline'"),
    "a history that is no table": ("counts", lambda r: r["history"].append({"number": "nan"}), "'history'"),
    "a history of lists": ("counts", lambda r: r["history"][0].update(xi=[1, 2]), "'history'"),
    "an offset that is no name": ("offset", lambda r: r["formula"].update(offset=10**9), "not text"),
    "anchors named twice": (
        "wide",
        lambda r: r["parameters"].update(anchor_names=["x"]),
        "both the formula and anchor_names",
    ),
    "a basis of another kind": ("arrays", lambda r: r["parameters"].update(basis="ordinal"), "this kind of basis"),
    "too few flags": ("arrays", lambda r: r["fit"]["_binary"].pop(), "number of binary flags"),
    "an endless parameter": ("arrays", lambda r: r["parameters"].update({"x" * 10_000: 1}), "has no parameters"),
    "an endless version": ("arrays", lambda r: r.update(version="1" * 10_000), r"1\.\.\."),
}


@pytest.mark.bug("model files", "forged files with absurd numbers, histories or names loaded, and failed later")
@pytest.mark.parametrize("what", FORGED)
def test_forged_files_are_refused_when_they_are_read(saved, tmp_path: Path, what: str) -> None:
    name, forge_it, message = FORGED[what]
    record = json.loads(saved[name][0])
    forge_it(record)
    record["sha256"] = digest(record)
    (tmp_path / "forged.json").write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match=message) as refused:
        atm.load(tmp_path / "forged.json")
    assert len(str(refused.value)) < 1000


@pytest.mark.bug("model files", "a covariance matrix that was none ended the summary with an error of linear algebra")
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_covariance_that_is_none_gives_no_standard_errors(saved, tmp_path: Path, value: float) -> None:
    record = json.loads(saved["more splines"][0])
    size = len(record["covariance"]["information"])
    record["covariance"]["information"] = (value * np.eye(size)).tolist()
    record["sha256"] = digest(record)
    (tmp_path / "forged.json").write_text(json.dumps(record))
    model = atm.load(tmp_path / "forged.json")
    assert "std. error" not in model.summary().frame()
    with pytest.raises(InputError, match="no standard errors"):
        model.standard_errors()


@pytest.mark.bug("model files", "the summary of a coefficient above 709 gave a warning of overflow")
def test_a_large_coefficient_has_a_summary() -> None:
    model = atm.ContinuousLogit(order=3).fit(1e-6 * DATA[["x"]], DATA.y)
    assert model.coef_[0] > 709.0
    assert "inf" in str(model.summary())
