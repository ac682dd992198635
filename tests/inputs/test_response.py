"""What a Response takes, what it means, and what it refuses with which words."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from simulated import FOUR
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing

import anchortm as atm
from anchortm import Interval, Response, Surv
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError
from anchortm.inputs.response import Kind, as_response

inf, nan = np.inf, np.nan


def test_surv() -> None:
    y = Surv([3.0, 5.0, 2.0], [1, 0, 1])
    assert y.lower.tolist() == [3.0, 5.0, 2.0]
    assert y.upper.tolist() == [3.0, inf, 2.0]
    assert y.kind.tolist() == [Kind.EXACT, Kind.RIGHT, Kind.EXACT]
    assert repr(y) == "Response(3 rows of time: 2 exact, 1 right-censored)"


def test_surv_with_delayed_entry() -> None:
    y = Surv([3.0, 5.0], [True, False], entry=[1.0, 0.0])
    assert y.entry.tolist() == [1.0, -inf]  # entering at 0 is entering at the start
    assert y.truncated.tolist() == [True, False]
    assert repr(y) == "Response(2 rows of time: 1 exact, 1 right-censored, 1 truncated)"
    assert Surv([3.0], [1], entry=[0.0]).entry is None


def test_censoring_at_time_zero_says_nothing() -> None:
    y = Surv([0.0, 0.0], [0, 1])
    assert y.lower.tolist() == [-inf, 0.0]
    assert y.kind.tolist() == [Kind.RIGHT, Kind.EXACT]


def test_interval() -> None:
    y = Interval([1.0, -inf, 2.0, 3.0], [1.0, 4.0, inf, 3.5])
    assert y.kind.tolist() == [Kind.EXACT, Kind.LEFT, Kind.RIGHT, Kind.INTERVAL]
    assert y.counts() == {"exact": 1, "left": 1, "right": 1, "interval": 1}
    assert repr(y) == "Response(4 rows: 1 exact, 1 left-censored, 1 right-censored, 1 interval-censored)"


def test_interval_with_truncation_keeps_the_intersection() -> None:
    y = Interval([-inf, 2.0, 3.0], [4.0, inf, 3.0], entry=[1.0, 0.5, -inf], exit=[inf, 9.0, 3.0])
    assert y.lower.tolist() == [1.0, 2.0, 3.0]
    assert y.upper.tolist() == [4.0, 9.0, 3.0]
    assert y.kind.tolist() == [Kind.INTERVAL, Kind.INTERVAL, Kind.EXACT]


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        (3.0, 1.0, 2.0),
        np.array([3, 1, 2], dtype=np.int32),
        pd.Series([3, 1, 2], index=[9, 8, 7]),
        pd.Series([3, 1, 2], dtype="Int64"),
        pd.Series([3.0, 1.0, 2.0], dtype="Float64"),
        pd.Series([3, 1, 2], dtype=object),
        pl.Series([3, 1, 2]),
    ],
)
def test_plain_numbers_from_any_container(values) -> None:
    y = as_response(values)
    assert y.lower.tolist() == y.upper.tolist() == [3.0, 1.0, 2.0]
    assert repr(y) == "Response(3 rows: 3 exact)"


@pytest.mark.parametrize(("event", "time"), [("event", "time"), ("a", "b")])
def test_structured_survival_arrays(event, time) -> None:
    for order in ([(event, bool), (time, float)], [(time, float), (event, bool)]):
        y = np.zeros(2, dtype=order)
        y[event], y[time] = [True, False], [4.0, 6.0]
        assert as_response(y).upper.tolist() == [4.0, inf]


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["mid", "low", "high"], ["low", "mid", "high"], ordered=True),
        pd.Series(pd.Categorical(["mid", "low", "high"], ["low", "mid", "high"], ordered=True)),
        pl.Series(["mid", "low", "high"], dtype=pl.Enum(["low", "mid", "high"])),
    ],
)
def test_ordered_categories(values) -> None:
    y = as_response(values, "ordinal")
    assert y.levels == ("low", "mid", "high")
    assert y.codes.tolist() == [1, 0, 2]
    assert y.lower.tolist() == [0.0, -inf, 1.0]
    assert y.upper.tolist() == [1.0, 0.0, inf]
    assert repr(y) == "Response(3 rows in 3 ordered classes)"


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([3, 1, 2, 1], (1, 2, 3)),
        (np.array([True, False]), (False, True)),
        (["b", "a"], ("a", "b")),
        (pd.Series(["b", "a"], dtype="string"), ("a", "b")),
        (pl.Series([2, 1]), (1, 2)),
        (np.array(["10", "9"]), ("10", "9")),
    ],
)
def test_classes_are_sorted_unique_values(values, levels) -> None:
    y = as_response(values, "ordinal")
    assert y.levels == levels
    assert [levels[code] for code in y.codes] == list(np.asarray(values))


def test_declared_classes_stay_declared() -> None:
    values = pd.Categorical(["a", "c"], ["a", "b", "c"], ordered=True)
    assert as_response(values, "ordinal").levels == ("a", "b", "c")
    assert as_response(values, "ordinal", levels=["a", "c"]).codes.tolist() == [0, 1]


def test_an_ordinal_response_can_be_given_other_levels() -> None:
    y = as_response([1, 2, 1], "ordinal")
    assert as_response(y, "ordinal") is y
    assert as_response(y, "ordinal", levels=[0, 1, 2]).codes.tolist() == [1, 2, 1]


def test_counts() -> None:
    y = as_response([0, 3, 1], "count")
    assert y.lower.tolist() == [-inf, 2.0, 0.0]
    assert y.upper.tolist() == [0.0, 3.0, 1.0]
    assert repr(y) == "Response(3 rows of counts: 1 at zero)"
    assert as_response(y, "count") is y


def test_censored_counts() -> None:
    y = as_response(Interval([0, 4, -inf, 5], [0, inf, 2, 7]), "count")
    assert y.lower.tolist() == [-inf, 4.0, -inf, 5.0]
    assert y.upper.tolist() == [0.0, inf, 2.0, 7.0]


def test_slices_by_rows() -> None:
    y = Surv([3.0, 5.0, 2.0], [1, 0, 1], entry=[1.0, 1.0, 1.0])
    assert len(y) == 3
    assert y.shape == (3,)
    for rows in ([0, 2], np.array([0, 2]), np.array([True, False, True]), slice(None, None, 2), ([0, 2], ...)):
        part = y[rows]
        assert isinstance(part, Response)
        assert part.upper.tolist() == [3.0, 2.0]
        assert part.entry.tolist() == [1.0, 1.0]
        assert part.scale == "time"
    assert len(y[1]) == 1


def test_scikit_learn_can_split_it() -> None:
    y = Surv([3.0, 5.0, 2.0, 7.0], [1, 0, 1, 1])
    train, _ = next(KFold(2).split(np.zeros((4, 1)), y))
    assert _safe_indexing(y, train).lower.tolist() == [2.0, 7.0]


def test_it_cannot_be_changed() -> None:
    y = Surv([3.0, 5.0], [1, 0])
    with pytest.raises(AttributeError):
        y.lower = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        y.lower[0] = 1.0


def test_it_does_not_freeze_the_array_it_came_from() -> None:
    values = np.array([1.0, 2.0])
    as_response(values)
    values[0] = 9.0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: as_response([1.0, nan]), InputError, "y has a missing value: nan at row 1; drop or impute"),
        (lambda: as_response([1.0, None]), InputError, "y has a missing value: None at row 1"),
        (lambda: as_response(pd.Series([1, None], dtype="Int64")), InputError, "missing value: .* at row 1"),
        (lambda: as_response(pl.Series([1, None])), InputError, "missing value: nan at row 1"),
        (lambda: as_response([nan, 1.0, nan]), InputError, r"at row 0 \(and 1 more\)"),
        (lambda: as_response([1.0, inf]), InputError, "y is infinite: inf at row 1; .* use Surv or Interval"),
        (lambda: as_response(["1", "2"]), InputTypeError, "y must be numbers, not .*'1'.* at row 0"),
        (lambda: as_response(pd.Series([1.0, "x"])), InputTypeError, "y must be numbers, not 'x' at row 1"),
        (lambda: as_response(pd.to_datetime(["2020-01-01"])), InputTypeError, "y must be numbers"),
        (lambda: as_response(np.zeros((2, 2))), InputError, r"one-dimensional, not of shape \(2, 2\)"),
        (lambda: as_response([]), InputError, "y is empty"),
        (lambda: as_response(3.0), InputError, r"one-dimensional, not of shape \(\)"),
        (lambda: as_response(pd.Categorical([1, 2], ordered=True)), InputTypeError, "not categories.*Ordinal"),
        (lambda: as_response(as_response([1, 2], "ordinal")), InputTypeError, "takes numbers, not Response"),
        (
            lambda: Surv([-1.0], [1]),
            InputError,
            r"-1.0 at row 0; .* for an outcome that may be negative use Interval\(",
        ),
        (lambda: Surv([1.0, 2.0], [1, 2]), InputError, "event is not 0 or 1: 2.0 at row 1; its values are 1, 2: "),
        (lambda: Surv([1.0, 2.0], [1]), InputError, "event has 1 rows where 2 are expected"),
        (lambda: Surv([1.0], [nan]), InputError, "event has a missing value"),
        (lambda: Surv([1.0], ["yes"]), InputTypeError, "event must be numbers"),
        (lambda: Surv([2.0], [1], entry=[2.0]), InputError, "entry is not before the time: 2.0 at row 0"),
        (lambda: Surv([2.0], [1], entry=[nan]), InputError, "entry has a missing value"),
        (lambda: Surv([2.0, 1.0], [1, 1], entry=[1.0]), InputError, "entry has 1 rows where 2"),
        (lambda: Surv([inf], [0]), InputError, "time is infinite"),
        (lambda: Interval([2.0], [1.0]), InputError, r"lower > upper: \(2, 1\] at row 0; swap the ends"),
        (lambda: Interval([inf], [inf]), InputError, "exact at infinity: inf at row 0"),
        (lambda: Interval([nan], [1.0]), InputError, "lower has a missing value"),
        (lambda: Interval([1.0], [1.0, 2.0]), InputError, "upper has 2 rows where 1"),
        (lambda: Interval([1.0], [2.0], entry=[2.0]), InputError, "entry is not before the outcome: 2.0 at row 0"),
        (lambda: Interval([1.0], [1.0], entry=[1.0]), InputError, "entry is not before the outcome"),
        (lambda: Interval([1.0], [2.0], exit=[1.0]), InputError, "exit is not after the outcome: 1.0 at row 0"),
        (lambda: as_response([1.0, -2.0], "count"), InputError, "count is negative: -2.0 at row 1"),
        (lambda: as_response([1.5], "count"), InputError, "count is not a whole number: 1.5 at row 0"),
        (lambda: as_response([inf], "count"), InputError, "count is infinite"),
        (lambda: as_response(Interval([0.5], [3]), "count"), InputError, "lower end of a count is not a whole"),
        (lambda: as_response(as_response([1, 2], "ordinal"), "count"), InputTypeError, "takes counts"),
        (lambda: as_response([1, 1], "ordinal"), InputError, r"at least two classes, not only \[1\]"),
        (
            lambda: as_response([1, 3], "ordinal", levels=[1, 2]),
            InputError,
            r"not known: 3 at row 1; known are \[1, 2",
        ),
        (lambda: as_response([1.0, nan], "ordinal"), InputError, "missing class: nan at row 1"),
        (lambda: as_response(["a", None], "ordinal"), InputError, "missing class: None at row 1"),
        (lambda: as_response(["a", 1.0, object()], "ordinal"), InputTypeError, "cannot be sorted"),
        (lambda: as_response(pd.Categorical(["a", "b"]), "ordinal"), InputTypeError, "make the categories ordered"),
        (lambda: as_response(pl.Series(["a", "b"], dtype=pl.Categorical), "ordinal"), InputTypeError, "need an order"),
        (
            lambda: as_response(pd.Categorical(["a", None], ["a", "b"], ordered=True), "ordinal"),
            InputError,
            "missing class",
        ),
        (lambda: as_response(Surv([1.0], [1]), "ordinal"), InputTypeError, "takes classes, not Response"),
        (
            lambda: as_response(np.zeros(2, dtype=[("a", float), ("b", float)])),
            InputTypeError,
            "one boolean .* and one numeric",
        ),
    ],
)
def test_everything_wrong_is_refused_by_name(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.filterwarnings("ignore:A column-vector y")  # 2026-11-15: scikit-learn's own warning, wanted here
def test_a_column_of_y_is_taken_everywhere() -> None:
    model = atm.NormalLinear().fit(FOUR.X, FOUR.y[:, None])
    assert model.score(FOUR.X, FOUR.y[:, None]) == model.score(FOUR.X, FOUR.y)
    assert model.nll(FOUR.X, FOUR.y[:, None]).shape == (FOUR.n,)


def test_truncated_and_censored_counts() -> None:
    rng = np.random.default_rng(11)
    x = rng.normal(size=(600, 1))
    k = rng.poisson(np.exp(0.3 + 0.7 * x[:, 0]))
    x, k = x[k > 0], k[k > 0].astype(float)
    fits = [
        atm.CountRegression(order=3, support=(1, 5)).fit(x, atm.Interval(k, k, entry=np.full(k.size, e)))
        for e in (0.0, 0.5, -0.5)
    ]
    assert fits[0].loglik_ == pytest.approx(fits[1].loglik_)  # more than 0.5 is more than 0
    assert fits[2].loglik_ == pytest.approx(atm.CountRegression(order=3, support=(1, 5)).fit(x, k).loglik_)
    with pytest.raises(InputTypeError, match="for censored or truncated counts use Interval"):
        atm.CountRegression().fit(x, atm.Surv(k, np.ones(k.size), entry=np.zeros(k.size)))
    with pytest.raises(InputError, match=r"beyond 2\^53"):
        atm.CountRegression().fit(x, k * 1e16)
    half = np.arange(k.size) % 2 == 0
    censored = atm.Interval(np.where(half, -np.inf, k), np.where(half, 50.0, k))
    assert atm.CountRegression(order=3).fit(x, censored).support_[1] <= np.quantile(k, 0.95)


def test_classes_of_mixed_types_keep_theirs() -> None:
    grades = pd.Categorical.from_codes(np.digitize(FOUR.y, [0.0, 1.0]), [0, 1, "2+"], ordered=True)
    model = atm.OrdinalRegression().fit(FOUR.X, grades)
    assert set(model.predict(FOUR.X)) <= {0, 1, "2+"}
    assert model.predict_distribution(FOUR.X[:2]).cdf(model.classes_[0]).shape == (2,)


def test_words_in_alphabetical_order_are_pointed_out() -> None:
    words = np.array(["low", "medium", "high"])[np.digitize(FOUR.y, [0.0, 1.0])]
    with pytest.warns(AnchorTMWarning, match="alphabetical order, high < low < medium; .*ordered categorical"):
        atm.OrdinalRegression().fit(FOUR.X, words)
    ordered = pd.Categorical(words, ["low", "medium", "high"], ordered=True)
    assert atm.OrdinalRegression().fit(FOUR.X, ordered).warnings_ == []


@pytest.mark.parametrize("scale", ["continuous", "ordinal", "count"])
def test_kinds_and_reach_by_definition(scale: str) -> None:
    """The kinds of all combinations of ends, and the smallest and largest finite end."""
    if scale == "continuous":
        y = Interval([1.0, -inf, 2.0, 3.0, -inf], [1.0, 0.5, inf, 4.0, inf])
        assert y.kind.tolist() == [Kind.EXACT, Kind.LEFT, Kind.RIGHT, Kind.INTERVAL, Kind.RIGHT]
        assert y.counts() == {"exact": 1, "left": 1, "right": 2, "interval": 1}
        assert y.reach() == (0.5, 4.0)
        assert Interval([1.0, 5.0], [inf, inf]).reach() == (1.0, 5.0)
        exact = as_response([3.0, -1.0, 2.0])
        assert (exact.reach(), exact.counts()["exact"]) == ((-1.0, 3.0), 3)
    elif scale == "ordinal":
        for codes in ([0, 1], [0, 1, 2, 3], [2, 1, 1], [3, 2], [1, 1, 0]):
            y = as_response([f"{k}" for k in codes], "ordinal", ["0", "1", "2", "3"])
            ends = np.concatenate([y.lower, y.upper])
            assert y.reach() == (ends[np.isfinite(ends)].min(), ends[np.isfinite(ends)].max())
    else:
        assert as_response([3, 0, 7], "count").reach() == (0.0, 7.0)
        assert as_response([3, 2], "count").reach() == (2.0, 3.0)
        assert as_response(Interval([2.0, 4.0], [inf, 4.0]), "count").reach() == (3.0, 4.0)


@pytest.mark.parametrize("labels", [[0, 1], [5, 3, 9], [True, False], [-4, -2], ["b", "a", "c"], [1.5, 0.5]])
def test_classes_of_any_type(labels: list) -> None:
    """Classes are counted or sorted, with the same cells."""
    values = np.array(labels)[np.random.default_rng(0).integers(0, len(labels), 60)]
    y, known = as_response(values, "ordinal"), sorted(set(labels))
    assert list(y.levels) == known
    codes = np.array([known.index(x) for x in values.tolist()])
    np.testing.assert_array_equal(y.lower, np.where(codes == 0, -inf, codes - 1.0))
    np.testing.assert_array_equal(y.upper, np.where(codes == len(known) - 1, inf, codes))
