"""One contract for every basis, then what is particular to each."""

import pickle
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import FOUR

import anchortm as atm
from anchortm.bases import (
    Basis,
    BernsteinBasis,
    CountBasis,
    LinearBasis,
    LogLinearBasis,
    OrdinalBasis,
)
from anchortm.exceptions import InputError, InputTypeError

BASES = [
    LinearBasis(),
    LogLinearBasis(),
    LogLinearBasis(slope=2.0),
    BernsteinBasis(6, (1.0, 4.0)),
    BernsteinBasis(1, (1.0, 4.0)),
    BernsteinBasis(6, (1.0, 4.0), log_first=True),
    BernsteinBasis(6, (1.0, 4.0), extrapolate="natural"),
    BernsteinBasis(2, (1.0, 4.0), extrapolate="natural"),
    BernsteinBasis(50, (1.0, 4.0)),
    OrdinalBasis(("low", "middle", "high", "highest")),
    CountBasis(5, (0, 12)),
    CountBasis(5, (0, 12), log_first=False),
]
bases = pytest.mark.parametrize("basis", BASES, ids=repr)
smooth = pytest.mark.parametrize("basis", [b for b in BASES if b.kind != "ordinal"], ids=repr)


@bases
def test_rows_have_one_column_for_each_parameter(basis: Basis) -> None:
    y = np.arange(3) if basis.kind == "ordinal" else np.array([0.5, 2.0, 9.0])
    assert basis.rows(y).shape == (3, basis.n_parameters)
    assert len(basis.parameter_names) == len(set(basis.parameter_names)) == basis.n_parameters
    assert basis.rows([]).shape == (0, basis.n_parameters)


@smooth
def test_derivative_rows_are_derivatives(basis: Basis) -> None:
    y = np.array([0.3, 1.2, 2.0, 3.7, 4.6, 9.0, 14.0])
    step = 1e-4
    f = basis.rows
    five_point = (8 * (f(y + step) - f(y - step)) - (f(y + 2 * step) - f(y - 2 * step))) / (12 * step)
    np.testing.assert_allclose(basis.derivative_rows(y), five_point, rtol=1e-8, atol=1e-7)


@bases
def test_feasible_parameters_give_a_monotone_function(basis: Basis) -> None:
    rng = np.random.default_rng(3)
    constraints = basis.increments
    y = np.arange(3) if basis.kind == "ordinal" else np.linspace(0.05, 20, 400)
    for _ in range(20):
        delta = np.clip(rng.normal(size=basis.n_parameters), constraints.lower, constraints.upper)
        theta = constraints.matrix @ delta
        assert np.diff(basis.rows(y) @ theta).min() >= -1e-9
    assert not constraints.satisfied(constraints.matrix @ np.r_[0.0, -np.ones(basis.n_parameters - 1)])


@bases
def test_start_values_are_strictly_feasible_and_close(basis: Basis) -> None:
    points = np.arange(4.0) if basis.kind == "ordinal" else np.linspace(0.5, 6.0, 60)
    z = 0.3 + 2.0 * np.log(points) if basis.lower_bound == 0.0 else -2.0 + 0.8 * points
    theta = basis.start(points, z)
    assert basis.increments.satisfied(theta, tolerance=1e-12)
    h = basis.rows(points[: basis.n_parameters] if basis.kind == "ordinal" else points) @ theta
    assert (np.diff(h) > 0).all()
    assert np.abs(h - z[: h.size]).max() < 1.6


@bases
def test_start_values_survive_infinite_and_single_quantiles(basis: Basis) -> None:
    theta = basis.start([1.0, 2.0, 3.0], [-np.inf, 0.1, np.inf])
    assert np.isfinite(theta).all()
    assert basis.increments.satisfied(theta, tolerance=1e-12)


@bases
def test_round_trip_through_a_dictionary(basis: Basis) -> None:
    record = basis.to_dict()
    assert Basis.from_dict(record) == basis
    assert type(basis).from_dict(record) == basis
    assert pickle.loads(pickle.dumps(basis)) == basis  # noqa: S301 - our own object
    with pytest.raises(InputTypeError, match="cannot be made from"):
        Basis.from_dict({**record, "surprise": 1})


def test_from_dict_refuses_other_kinds() -> None:
    with pytest.raises(InputError, match="unknown kind of basis 'spline'; known are"):
        Basis.from_dict({"kind": "spline"})
    with pytest.raises(InputError, match="unknown kind of basis 'linear'"):
        OrdinalBasis.from_dict(LinearBasis().to_dict())


@pytest.mark.parametrize("order", [1, 6, 17, 50])
def test_bernstein_rows_are_accurate_to_the_last_digits(order: int) -> None:
    """Against exact rational arithmetic; also next to the ends, where powers are tiny."""
    basis = BernsteinBasis(order, (0.0, 1.0))
    y = np.array([0.0, 1e-12, 1 / 3, 0.5, 0.9, 1.0])
    rows = basis.rows(y)
    for value, row in zip(y, rows, strict=True):
        t = Fraction(float(value))
        exact = [float(comb(order, j) * t**j * (1 - t) ** (order - j)) for j in range(order + 1)]
        np.testing.assert_allclose(row, exact, rtol=4e-16 * (order + 4), atol=1e-300)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-14)


def test_bernstein_near_the_upper_end_keeps_its_digits() -> None:
    support = (10.0, 20.0)
    y = np.nextafter(20.0, 0.0)
    s = (20.0 - y) / 10.0
    assert BernsteinBasis(6, support).rows([y])[0, -2] == pytest.approx(6 * s, rel=1e-12)


@given(
    order=st.integers(1, 50),
    low=st.floats(-100, 100),
    width=st.floats(0.01, 1000),
    steps=st.lists(st.floats(0, 10), min_size=50, max_size=50),
)
def test_bernstein_continues_linearly_with_matching_value_and_slope(order, low, width, steps) -> None:
    basis = BernsteinBasis(order, (low, low + width))
    theta = np.cumsum(np.r_[-1.0, steps[:order]])
    high = basis.support[1]
    for end, beyond in ((low, low - 3.7 * width), (high, high + 2.2 * width)):
        slope = basis.derivative_rows([end])[0] @ theta
        value = basis.rows([end])[0] @ theta
        scale = np.abs(theta).max() * order
        assert basis.rows([beyond])[0] @ theta == pytest.approx(value + slope * (beyond - end), abs=1e-11 * scale)
        assert basis.derivative_rows([beyond])[0] @ theta == pytest.approx(slope, abs=1e-11 * scale / width)
    assert basis.end_slopes(theta)[0] == pytest.approx(basis.derivative_rows([low])[0] @ theta, rel=1e-9, abs=1e-12)


def test_natural_extrapolation_has_no_curvature_at_the_ends() -> None:
    basis = BernsteinBasis(6, (1.0, 4.0), extrapolate="natural")
    theta = basis.increments.matrix @ np.array([-2.0, 0.5, 0.5, 1.0, 0.2, 0.3, 0.3])
    assert basis.increments.satisfied(theta, 1e-12)
    for end in (1.0, 4.0):
        inside = (basis.derivative_rows([end + 1e-6]) - basis.derivative_rows([end - 1e-6]))[0] @ theta
        assert inside == pytest.approx(0.0, abs=1e-10)
    assert not basis.increments.satisfied(theta + np.r_[0, 0.1, np.zeros(5)], 1e-12)


def test_flat_ends_can_be_seen() -> None:
    basis = BernsteinBasis(3, (0.0, 1.0))
    assert basis.flat_ends([0.0, 0.0, 1.0, 2.0]) == (True, False)
    assert basis.flat_ends([0.0, 1.0, 2.0, 2.0]) == (False, True)
    assert basis.end_slopes([0.0, 0.0, 1.0, 2.0]) == (0.0, 3.0)
    assert LinearBasis().flat_ends([1.0, 0.0]) == (True, True)
    assert LogLinearBasis().flat_ends([1.0, 0.5]) == (False, False)
    assert OrdinalBasis((1, 2, 3)).flat_ends([0.0, 0.0]) == (False, False)
    assert CountBasis(3, (0, 5)).flat_ends([0.0, 1.0, 2.0, 2.0]) == (False, True)


def test_fixed_slope_is_an_equal_pair_of_bounds() -> None:
    increments = LogLinearBasis(slope=1.0).increments
    assert increments.lower[1] == increments.upper[1] == 1.0
    assert LogLinearBasis(slope=2.0).start([1.0, 2.0], [0.0, 3.0])[1] == 2.0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BernsteinBasis(0, (0, 1)), InputError, "order must be from 1 to 50, not 0"),
        (lambda: BernsteinBasis(51, (0, 1)), InputError, "order must be from 1 to 50, not 51"),
        (lambda: BernsteinBasis(2.5, (0, 1)), InputTypeError, "order must be a whole number .* not 2.5"),
        (lambda: BernsteinBasis(True, (0, 1)), InputTypeError, "order must be a whole number"),
        (lambda: BernsteinBasis(6, (1, 1)), InputError, r"low < high, not \(1, 1\)"),
        (lambda: BernsteinBasis(6, (2, 1)), InputError, r"low < high, not \(2, 1\)"),
        (lambda: BernsteinBasis(6, (0, np.inf)), InputError, "finite pair"),
        (lambda: BernsteinBasis(6, (np.nan, 1)), InputError, "finite pair"),
        (lambda: BernsteinBasis(6, (-1e308, 1e308)), InputError, "too wide"),
        (lambda: BernsteinBasis(6, 3.0), InputTypeError, "must be a pair"),
        (lambda: BernsteinBasis(6, (0, 1, 2)), InputTypeError, "must be a pair"),
        (lambda: BernsteinBasis(6, ("a", "b")), InputTypeError, "support must be a number, not 'a'"),
        (lambda: BernsteinBasis(6, (0, 1), log_first=True), InputError, "positive with log_first=True"),
        (lambda: BernsteinBasis(6, (0, 1), log_first="yes"), InputTypeError, "log_first must be True or False"),
        (lambda: BernsteinBasis(6, (0, 1), extrapolate="cubic"), InputError, "'linear' or 'natural', not 'cubic'"),
        (lambda: CountBasis(6, (-1, 4)), InputError, "counts starts at 0 or above, not at -1"),
        (lambda: CountBasis(0, (0, 4)), InputError, "order must be"),
        (lambda: OrdinalBasis(("only",)), InputError, "at least two classes"),
        (lambda: OrdinalBasis((1, 2, 1)), InputError, "differ from each other"),
        (lambda: OrdinalBasis("abc"), InputTypeError, "sequence of classes, not 'abc'"),
        (lambda: OrdinalBasis((1, 2)).rows([1]), InputError, "counted from 0 to 0"),
        (lambda: OrdinalBasis((1, 2)).derivative_rows([0]), InputTypeError, "no derivative"),
        (lambda: LogLinearBasis(slope=0.0), InputError, "positive number or None"),
        (lambda: LogLinearBasis(slope="steep"), InputTypeError, "slope must be a number"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


def test_an_ordinal_basis_keeps_its_order_of_classes() -> None:
    labels = np.array(["low", "mid", "high"])[np.digitize(FOUR.y, [-0.5, 1])]
    model = atm.AnchorTM(basis=OrdinalBasis(("low", "mid", "high"))).fit(FOUR.X, labels)
    wanted = atm.OrdinalRegression().fit(FOUR.X, np.digitize(FOUR.y, [-0.5, 1]))
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-8)
    assert model.loglik_ == pytest.approx(-model.nll(FOUR.X, labels).sum())


def test_large_counts() -> None:
    counts = np.floor(1e9 * np.exp(FOUR.y))
    model = atm.CountRegression(xi=1.0).fit(FOUR.X, counts, anchors=FOUR.site)
    assert model.converged_
    support = tuple(np.array(model.support_) + 1)
    smooth = atm.AnchorTM(log_first=True, xi=1.0, support=support).fit(FOUR.X, counts + 0.5, anchors=FOUR.site)
    np.testing.assert_allclose(model.coef_, smooth.coef_, rtol=1e-6)
