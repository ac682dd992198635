"""Formulas: what they fit, what they remember, and what they refuse."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError
from anchortm.inputs.formula.grammar import parse_formula

CGD, BOSTON, WINE, TICKS = (
    getattr(atm.datasets, f"load_{n}")() for n in ("cgd", "boston_housing2", "wine", "grouseticks")
)


def test_the_same_as_arrays() -> None:
    formula = "Surv(tstop, status) ~ treat + age + C(steroids) | center"
    model = atm.ProportionalHazards.from_formula(formula, CGD, xi=1.0, order=3)
    X = np.column_stack([CGD.treat == "rIFN-g", CGD.age, CGD.steroids == 1]).astype(float)
    y = atm.Surv(CGD.tstop, CGD.status)
    direct = atm.ProportionalHazards(xi=1.0, order=3).fit(X, y, anchors=CGD.center)
    np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-10)
    assert model.coef_names_ == ["treat[T.rIFN-g]", "age", "C(steroids)[T.1]"]
    np.testing.assert_allclose(model.nll(CGD), direct.nll(X, y))
    np.testing.assert_allclose(model.residuals(CGD), direct.residuals(X, y))
    assert model.score(CGD) == pytest.approx(direct.score(X, y))
    np.testing.assert_allclose(model.predict(CGD[:5]), direct.predict(X[:5]))
    np.testing.assert_allclose(
        model.confidence_band(CGD[:2], [100.0], "sf").lower, direct.confidence_band(X[:2], [100.0], "sf").lower
    )
    assert atm.marginal_effects(model, CGD, "probability", above=300.0).frame().shape == (3, 5)
    assert atm.scores.score_table(model, CGD, y, CGD.center).frame().shape[0] == 14


@pytest.mark.parametrize(
    ("left", "wanted"),
    [
        ("tstop", lambda: CGD.tstop.to_numpy(dtype=float)),
        ("Surv(tstop, status)", lambda: atm.Surv(CGD.tstop, CGD.status)),
        ("Surv(tstop, status == 1)", lambda: atm.Surv(CGD.tstop, CGD.status)),
        ("Surv(tstop / 365.25, status)", lambda: atm.Surv(CGD.tstop / 365.25, CGD.status)),
        ("Surv(tstop, status, entry=age / 100)", lambda: atm.Surv(CGD.tstop, CGD.status, CGD.age / 100)),
        ("Surv(tstop, 1)", lambda: atm.Surv(CGD.tstop, np.ones(128))),
        ("Interval(tstop, inf)", lambda: atm.Interval(CGD.tstop, np.full(128, np.inf))),
        ("Interval(-inf, tstop)", lambda: atm.Interval(np.full(128, -np.inf), CGD.tstop)),
    ],
)
def test_left_sides(left: str, wanted) -> None:
    found, wanted = atm.Formula(f"{left} ~ age", CGD).y, wanted()
    if isinstance(wanted, atm.Response):
        for name in ("lower", "upper", "entry"):
            one, other = getattr(found, name), getattr(wanted, name)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(one, other)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_ordered_classes_and_counts() -> None:
    data = WINE.assign(word=pd.Categorical(WINE.rating.map(dict(enumerate("abcde", 1))), list("edcba"), ordered=True))
    model = atm.OrdinalRegression.from_formula("word ~ temp + contact | judge", data, xi=1.0)
    assert list(model.classes_) == list("edcba")
    assert model.predict_proba(data[:2]).shape == (2, 5)
    count = atm.CountRegression.from_formula("TICKS ~ cHEIGHT + C(YEAR) | LOCATION", TICKS, xi=1.0, order=3)
    assert count.n_anchors_ == 63
    assert count.coef_names_ == ["cHEIGHT", "C(YEAR)[T.96]", "C(YEAR)[T.97]"]


def test_anchors_of_all_kinds() -> None:
    kinds = {
        "town": ("town", 92),
        "town + tract": ("town", None),
        "C(chas) + lon": (None, 3),
        "`the town`": ("the town", 92),
        "0": (None, 0),
    }
    data = BOSTON.assign(chas=np.arange(506.0) % 2, lon=np.linspace(-71, -70, 506), **{"the town": BOSTON.town})
    for right, (_, rank) in kinds.items():
        formula = atm.Formula(f"cmedv ~ rm | {right}", data)
        assert (formula.anchors is None) == (right == "0")
        if rank:
            fit = atm.NormalLinear(xi=1.0).fit(formula.X, formula.y, anchors=formula.anchors)
            assert fit.n_anchors_ == rank
    assert atm.NormalLinear.from_formula("cmedv ~ rm", BOSTON).n_anchors_ == 0
    with pytest.raises(InputError, match="needs anchors"):
        atm.NormalLinear.from_formula("cmedv ~ rm | 0", BOSTON, xi=1.0)


RICH = (
    "cmedv ~ scale(rm) + bs(lstat, 4, extrapolation='clip') + poly(age, 2) + cr(nox, df=3, constraints='center')"
    " + C(zone, contr.sum) * indus | town"
)


def rich_data() -> pd.DataFrame:
    return BOSTON.assign(zone=np.array(["x", "y", "z"])[np.arange(506) % 3])


def test_transforms_are_remembered() -> None:
    data = rich_data()
    formula = atm.Formula(RICH, data)
    part = formula.design(data[10:20])
    pd.testing.assert_frame_equal(part, formula.X[10:20].reset_index(drop=True))
    only = formula.design(data[data.zone == "z"])  # a level alone keeps its coding
    np.testing.assert_array_equal(only, formula.X[(data.zone == "z").to_numpy()])


def test_state_goes_through_json() -> None:
    data = rich_data()
    formula = atm.Formula(RICH, data)
    again = atm.Formula.from_state(json.loads(json.dumps(formula.state(), allow_nan=False)))
    np.testing.assert_array_equal(again.design(data).to_numpy(), formula.X.to_numpy())
    assert list(again.design(data)) == list(formula.X)
    assert repr(again) == f"Formula({RICH!r})"
    none = atm.Formula("cmedv ~ 1 | town", data)
    assert atm.Formula.from_state(none.state()).design(data[:3]).shape == (3, 0)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_tables_of_all_kinds(kind: str) -> None:
    data = rich_data()
    tables = {"pandas": data, "polars": pl.DataFrame(data.to_dict("list")), "pyarrow": pa.table(data.to_dict("list"))}
    fit = atm.ContinuousLogit.from_formula(RICH, tables[kind], xi=1.0)
    other = atm.ContinuousLogit.from_formula(RICH, data, xi=1.0)
    np.testing.assert_array_equal(fit.coef_, other.coef_)
    np.testing.assert_array_equal(fit.predict(tables[kind][:4]), other.predict(data[:4]))
    assert fit.coef_names_ == other.coef_names_


def test_dot_backticks_and_intercepts() -> None:
    data = CGD.rename(columns={"age": "age at entry"})[["tstop", "treat", "age at entry", "center", "sex"]]
    formula = atm.Formula("tstop ~ . | center", data)
    assert list(formula.X) == ["treat[T.rIFN-g]", "age at entry", "sex[T.male]"]
    squared = atm.Formula("tstop ~ I(`age at entry` ** 2) + C(`sex`) - 1", data)
    np.testing.assert_array_equal(squared.X.iloc[:, 0], CGD.age**2.0)
    assert squared.X.shape[1] == 2  # the intercept is h's, whatever is written
    assert atm.Formula("tstop ~ 0 + sex", data).X.shape[1] == 1


def test_weights_and_offsets_by_name() -> None:
    data = BOSTON.assign(w=np.arange(506) % 3 + 1, o=BOSTON.rm / 10)
    one = atm.NormalLinear.from_formula("cmedv ~ lstat | town", data, xi=1.0, sample_weight="w", offset="o")
    other = atm.NormalLinear(xi=1.0).fit(
        data[["lstat"]], data.cmedv, anchors=data.town, sample_weight=data.w, offset=data.o
    )
    np.testing.assert_allclose(one.coef_, other.coef_)
    with pytest.raises(InputError, match="no column 'ww'"):
        atm.NormalLinear.from_formula("cmedv ~ lstat", data, sample_weight="ww")


def test_new_data_are_checked() -> None:
    model = atm.ContinuousLogit.from_formula("cmedv ~ bs(lstat, 4) + zone | town", rich_data(), order=3)
    new = rich_data()[:4].reset_index(drop=True)
    for bad, message in (
        (
            new.assign(zone="w"),
            "'zone' has levels that the fit has not seen: w .4 rows, first at row 0.; known: x, y, z; drop",
        ),
        (new.drop(columns="lstat"), "no column 'lstat'"),
        (new.assign(lstat=[5.0, np.nan, 5.0, 5.0]), "'lstat' is missing in 1 row, first at row 1"),
        (new.assign(lstat=1000.0), "extrapolation="),
        (new.assign(zone=["x", None, None, "y"]), "'zone' is missing in 2 rows, first at row 1"),
        (new.to_numpy(), "table with named columns"),
    ):
        with pytest.raises((InputError, InputTypeError), match=message):
            model.predict(bad)
    assert model.predict(new.drop(columns=["cmedv", "town"])).shape == (4,)  # a new place has no town of ours


def test_a_refit_with_arrays_forgets_the_formula() -> None:
    model = atm.NormalLinear.from_formula("cmedv ~ rm", BOSTON)
    model.fit(BOSTON[["lstat"]], BOSTON.cmedv)
    assert model.predict(BOSTON[["lstat"]]).shape == (506,)


def test_levels_that_no_row_has_are_dropped() -> None:
    data = rich_data().assign(zone=lambda d: pd.Categorical(d.zone, ["x", "y", "z", "never"]))
    with pytest.warns(AnchorTMWarning, match="no row has are dropped: never"):
        model = atm.NormalLinear.from_formula("cmedv ~ zone | town", data)
    assert model.coef_names_ == ["zone[T.y]", "zone[T.z]"]


@pytest.mark.parametrize("kind", ["integers", "booleans", "categories"])
def test_codes_mean_the_same_in_any_type(kind: str) -> None:
    """1, 1.0 and '1' are one level; none of them silently becomes the reference."""
    values = {"integers": [1, 2, 3], "booleans": [False, True], "categories": [3, 1, 2]}[kind]
    codes = np.array(values)[np.arange(506) % len(values)]
    column = pd.Categorical(codes, values) if kind == "categories" else codes
    data = BOSTON.assign(code=column)
    term = "code" if kind == "categories" else "C(code)"
    formula = atm.Formula(f"cmedv ~ rm + {term}", data)
    wanted = formula.X.to_numpy()
    for other in (codes.astype(str), codes.astype(object), codes.astype(float) if kind != "booleans" else codes):
        np.testing.assert_array_equal(formula.design(data.assign(code=other)), wanted)
    again = atm.Formula.from_state(json.loads(json.dumps(formula.state())))
    np.testing.assert_array_equal(again.design(data.assign(code=codes.astype(str))), wanted)


@pytest.mark.parametrize(
    "kind", ["string", "convert", "arrow", "polars categorical", "polars enum", "pyarrow dictionary"]
)
def test_text_of_all_types(kind: str) -> None:
    data = rich_data()
    wanted = atm.Formula("cmedv ~ rm + zone | town", data)
    plain = pl.DataFrame(data.to_dict("list"))
    table = {
        "string": lambda: data.assign(zone=data.zone.astype("string")),
        "convert": lambda: data.convert_dtypes(),
        "arrow": lambda: data.assign(zone=data.zone.astype("string[pyarrow]")),
        "polars categorical": lambda: plain.with_columns(pl.col("zone").cast(pl.Categorical)),
        "polars enum": lambda: plain.with_columns(pl.col("zone").cast(pl.Enum(["x", "y", "z"]))),
        "pyarrow dictionary": lambda: pa.table(
            data.to_dict("list") | {"zone": pa.array(data.zone.tolist()).dictionary_encode()}
        ),
    }[kind]()
    found = atm.Formula("cmedv ~ rm + zone | town", table)
    np.testing.assert_array_equal(found.X, wanted.X)
    np.testing.assert_array_equal(wanted.design(table), wanted.X)
    assert list(found.X) == list(wanted.X)


def test_states_that_need_care() -> None:
    """Same ranges, sums that must be positive, comparisons with text, many columns: all come back."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "y": rng.normal(size=200),
            "a": rng.random(200),
            "b": rng.random(200),
            "f": np.array(list("uvw"))[np.arange(200) % 3],
        }
    )
    data["x"], data["c"] = rng.normal(size=200), 5.0
    data["c"] = 1.0 - np.minimum(data.x, 0) * 2 + rng.random(200)
    data["flag"] = np.array([True, False] * 100, dtype=object)
    for right in (
        "scale(a - b) + poly(a - b, 2)",
        "log(x + c) + sqrt(x + c)",
        "{f == 'u'} + I(a > 0.5)",
        "flag + a",
        "C(f, contr.treatment('v'))",
    ):
        formula = atm.Formula(f"y ~ {right}", data)
        again = atm.Formula.from_state(json.loads(json.dumps(formula.state())))
        np.testing.assert_array_equal(again.design(data), formula.X)
    wide = pd.DataFrame(rng.normal(size=(20, 450)), columns=[f"feature_number_{i}" for i in range(450)]).assign(y=1.0)
    formula = atm.Formula("y ~ .", wide)
    assert atm.Formula.from_state(formula.state(), 450).design(wide).shape == (20, 450)


def test_columns_called_by_numbers() -> None:
    data = pd.DataFrame({0: np.arange(10.0), 1: np.arange(10.0) ** 2, "y": np.arange(10.0) % 3})
    with pytest.raises(InputError, match="cannot be called 0, 1"):
        atm.Formula("y ~ .", data)
    renamed = data.rename(columns={0: 2.5, 1: "Intercept"})
    assert list(atm.Formula("y ~ `2.5`", renamed).X) == ["2.5"]
    with pytest.raises(InputError, match="cannot be called Intercept"):
        atm.Formula("y ~ .", renamed)


def test_offset_of_the_fit_is_found_again() -> None:
    data = BOSTON.assign(o=BOSTON.rm / 10)
    model = atm.NormalLinear.from_formula("cmedv ~ lstat | town", data, xi=1.0, offset="o")
    direct = atm.NormalLinear(xi=1.0).fit(data[["lstat"]], data.cmedv, anchors=data.town, offset=data.o)
    np.testing.assert_allclose(model.predict(data), direct.predict(data[["lstat"]], offset=data.o))
    np.testing.assert_allclose(model.nll(data), direct.nll(data[["lstat"]], data.cmedv, offset=data.o))
    np.testing.assert_allclose(model.predict(data, offset="o"), model.predict(data))
    assert (model.predict(data, offset=0.0) != model.predict(data)).all()
    with pytest.raises(InputError, match="no column 'o'"):
        model.predict(data.drop(columns="o"))
    with pytest.warns(AnchorTMWarning, match="the fit had an offset"):
        direct.predict(data[["lstat"]])


def test_ordered_classes_by_name() -> None:
    data = WINE.assign(word=WINE.rating.map({1: "none", 2: "little", 3: "some", 4: "much", 5: "all"}))
    formula = "ordered(word, 'none', 'little', 'some', 'much', 'all') ~ temp + contact | judge"
    model = atm.OrdinalRegression.from_formula(formula, data, xi=1.0)
    other = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert list(model.classes_) == ["none", "little", "some", "much", "all"]
    with pytest.raises(InputError, match="does not name: all"):
        atm.Formula("ordered(word, 'none', 'little', 'some', 'much') ~ temp", data)


def test_numbers_as_anchors() -> None:
    data = BOSTON.assign(year=np.arange(506) % 7)
    factor, number = (atm.NormalLinear.from_formula(f"cmedv ~ rm | {a}", data, xi=1.0) for a in ("year", "N(year)"))
    assert factor.n_anchors_ == 7
    assert number.n_anchors_ == 2
    with pytest.raises(InputTypeError, match=r"anchor N\(town\) must be numbers, not 'Nahant' at row 0"):
        atm.Formula("cmedv ~ rm | N(town)", data)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("cmedv", "with one '~'"),
        ("~ rm", "with one '~'"),
        ("cmedv ~ rm ~ age", "with one '~'"),
        ("cmedv ~ | town", "write 1 for no covariates"),
        ("cmedv ~ rm | town | tract", "at most one '|'"),
        ("cmedv ~ rmm", "did you mean 'rm'"),
        ("cmedvv ~ rm", "did you mean 'cmedv'"),
        ("cmedv ~ rm | twon", "did you mean 'town'"),
        ("cmedv ~ rm +", "cannot read"),
        ("cmedv ~ rm | town * tract", "anchors are columns joined by"),
        ("Surv(cmedv) ~ rm", r"should be Surv\(time, event"),
        ("Interval(cmedv, rm, age) ~ rm", r"should be Interval\(lower, upper\)"),
        ("Surv(cmedv, rm, start=age) ~ rm", r"should be Surv\(time"),
        ("log(cmedv) ~ rm", "to transform a column, add"),
        ("Surv(cmedv, entry=rm) ~ age", r"should be Surv\(time"),
        ("ordered(cmedv) ~ rm", "should be ordered"),
        ("cmedv ~ rm + cmedv", "among the covariates: cmedv"),
        ("cmedv ~ factor(town)", r"write C\(\.\.\.\)"),
        ("cmedv ~ ns(rm, 3)", "natural spline"),
        ("cmedv ~ rm + offset(age)", "offset="),
        ("cmedv ~ rm * (1 | town)", "random effects"),
        ("cmedv ~ I(rm^2)", r"write powers as \*\*"),
        ("cmedv ~ C(rm > 6)", "takes a column"),
        ("cmedv ~ I(C(town))", "must be a term of its own"),
        ("cmedv ~ bs(rm, 2000)", "up to 100"),
        ("cmedv ~ ``", "nothing between two backticks"),
        ("cmedv ~ " + " + ".join(["rm"] * 3000), "too many terms|cannot read|characters|terms"),
        ("cmedv ~ town:(crim + town):C(tract):C(age)", "more than 20000"),
        ("cmedv ~ spline(rm)", "not a function of formulas"),
        ("cmedv ~ log(rm - 100)", "cannot evaluate the covariates"),
        ("cmedv ~ rm ** 0.5", "whole numbers from 1 to 10"),
        ("cmedv ~ 5 + rm", "not a term of a formula"),
        ("cmedv ~ hos.cat", "in backticks"),
        (3, "a formula is a string"),
    ],
)
def test_refusals(formula, message: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=message):
        atm.Formula(formula, BOSTON)


@pytest.mark.parametrize(
    "hostile",
    [
        "y ~ __import__('os').system('true')",
        "y ~ {__import__('os').system('true')}",
        "y ~ C(x, levels=['`']) + __import__('os').system('`')",
        "y ~ I(x.__class__)",
        "y ~ I((lambda: 1)())",
        "y ~ I([x for x in (1,)])",
        "y ~ np.load('file')",
        "y ~ log(open('/etc/passwd'))",
        "y ~ I(9 ** 9 ** 9)",
        "y ~ {9**(9*99999999)}",
        "y ~ {(9*1)**(9*99999999)}",
        "y ~ {(-9)**99999999}",
        "y ~ {x ** 99999}",
        "y ~ bs(x, df=2000000)",
        "y ~ bs(x, knots=[0.5]*99999999)",
        "y ~ poly(x, 50000000, raw=True)",
        "y ~ I(f'{x}')",
        "y ~ bs(**x)",
        "y ~ C(x, contr.__class__)",
        "open('x') ~ x",
        "y ~ x | open('x')",
        "y ~ (a + b + c + d + e)**10 * (a + b + c)**10",
        "y ~ " + "*".join("abcdefghijklmnopqrstuvw"),
        "y ~ " + "(" * 3000 + "x" + ")" * 3000,
        "y ~ " + "x + " * 4000 + "x",
        "y ~ 'a'",
    ],
)
def test_nothing_is_evaluated_that_is_not_on_the_list(hostile: str) -> None:
    with pytest.raises(InputError):
        parse_formula(hostile)


@pytest.mark.bug("bad input", "ordered(rating, '1', '2') on whole numbers said that classes were missing")
def test_classes_are_named_as_words_or_as_numbers() -> None:
    wine = atm.datasets.load_wine()
    words = atm.OrdinalRegression.from_formula("ordered(rating, '1', '2', '3', '4', '5') ~ temp", wine)
    numbers = atm.OrdinalRegression.from_formula("ordered(rating, 1, 2, 3, 4, 5) ~ temp", wine)
    assert words.classes_.tolist() == numbers.classes_.tolist()
    np.testing.assert_array_equal(words.coef_, numbers.coef_)
