"""The contract of predicted distributions: every kind answers the same questions in the same shapes."""

import inspect
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from anchortm import predict
from anchortm.bases import BernsteinBasis, CountBasis, LinearBasis, LogLinearBasis, OrdinalBasis
from anchortm.engine.rows.shift_law import NodeShift, NormalShift
from anchortm.exceptions import InputError, InputTypeError
from anchortm.families import get_family
from anchortm.links import LINKS
from anchortm.predict import (
    AveragedDistribution,
    AveragedFamily,
    Distribution,
    FamilyDistribution,
    MarkedDistribution,
    PiecewiseDistribution,
    PredictedDistribution,
    StepDistribution,
)
from anchortm.predict.averaged_link import averaged_link
from anchortm.predict.shifted_family import shifted_family
from anchortm.predict.survival_steps import Steps

SHIFT = np.array([-0.6, 0.1, 0.8])
SMOOTH = BernsteinBasis(3, (0.0, 10.0))
THETA = np.array([-2.0, -0.5, 0.7, 2.5])
NODES = np.array([[-1.0, 0.2, 1.1]] * 3)
SHARES = np.array([[0.3, 0.5, 0.2], [0.2, 0.6, 0.2], [0.0, 0.4, 0.6]])
NORMAL_LAW, NODE_LAW = NormalShift(0.2, 0.7), NodeShift(np.array([-1.0, 0.1, 0.8]), np.log([0.2, 0.5, 0.3]))
SHIFTED_HAZARD = averaged_link(LINKS["cloglog"], NORMAL_LAW)
STEPS = (
    Steps(np.array([1.0, 2.5, 4.0, 7.0]), np.array([0.2, 0.5, 1.1, 9.0])),
    Steps(np.array([0.5, 6.0]), np.array([0.4, 8.0])),
)
HIGHER = tuple(Steps(steps.time, steps.total**1.5) for steps in STEPS)


def transformed(link: str, basis: Any, theta: Any, **more: Any) -> PredictedDistribution:
    return PredictedDistribution(LINKS[link], basis, np.array(theta), SHIFT, **more)


def averaged(link: str, basis: Any, theta: Any, after: Any = None) -> AveragedDistribution:
    return AveragedDistribution(LINKS[link], basis, np.array(theta), SHIFT, False, after, -1.0, NODES, SHARES)


def of_family(name: str, mu: Any, trials: float = 1.0, dispersion: float = 1.0) -> FamilyDistribution:
    family = replace(get_family(name, alpha=0.7), dispersion=dispersion)
    return FamilyDistribution(family, np.array(mu), np.full(3, trials), SHIFT)


def shifted(link: str, basis: Any, theta: Any, law: Any = NORMAL_LAW, **more: Any) -> PredictedDistribution:
    return replace(transformed(link, basis, theta, **more), link=averaged_link(LINKS[link], law))


def of_shifted(name: str, eta: Any, trials: float = 1.0, dispersion: float = 1.0) -> FamilyDistribution:
    family = replace(get_family(name), dispersion=dispersion)
    return shifted_family(family, np.array(eta), np.full(3, trials), SHIFT, NormalShift(0.2, 0.4))


def marked(distribution: Distribution) -> MarkedDistribution:
    return MarkedDistribution(distribution, np.zeros(3, dtype=bool), np.full(3, "", dtype=object))


ORDINAL, COUNT = OrdinalBasis(("low", "mid", "high")), CountBasis(2, (0.0, 3.0))
KINDS: dict[str, Callable[[], Distribution]] = {
    "one h, linear": lambda: transformed("probit", LinearBasis(), [-1.0, 0.5]),
    "one h, Bernstein": lambda: transformed("logit", SMOOTH, THETA, gain=-1.0),
    "one h, positive": lambda: transformed("cloglog", LogLinearBasis(), [-1.0, 1.3], positive=True),
    "one h, each row its own": lambda: transformed("loglog", SMOOTH, [THETA, 1.2 * THETA, 0.8 * THETA]),
    "one h, given survival": lambda: transformed("cloglog", SMOOTH, THETA).given(4.0),
    "one h, classes": lambda: transformed("logit", ORDINAL, [-0.7, 0.9]),
    "one h, counts": lambda: transformed("cloglog", COUNT, [-1.0, 0.3, 1.5]),
    "averaged, Bernstein": lambda: averaged("logit", SMOOTH, THETA),
    "averaged, given survival": lambda: averaged("cloglog", SMOOTH, THETA).given([1.0, 2.0, 5.0]),
    "averaged, classes": lambda: averaged("loglog", ORDINAL, [-0.7, 0.9]),
    "stepped": lambda: StepDistribution(STEPS, np.array([0, 1, 0]), SHIFT),
    "stepped, given survival": lambda: StepDistribution(STEPS, np.array([0, 1, 0]), SHIFT).given(2.0),
    "family, normal": lambda: of_family("gaussian", [1.0, 2.0, -3.0], dispersion=1.7),
    "family, gamma": lambda: of_family("gamma", [1.0, 2.0, 3.0], dispersion=0.6),
    "family, Poisson": lambda: of_family("poisson", [0.5, 2.0, 7.0]),
    "family, binomial": lambda: of_family("binomial", [0.1, 0.5, 0.9], trials=6.0),
    "averaged family, Poisson": lambda: AveragedFamily.of(
        get_family("poisson"), NODES + SHIFT[:, None], SHARES, np.ones(3), SHIFT
    ),
    "points, quantiles": lambda: PiecewiseDistribution.from_quantiles(
        [[1.0, 2.0, 3.0, 5.0], [0.5, 3.0, 6.0, 9.0], [2.0, 2.5, 4.0, 7.0]], [0.1, 0.4, 0.7, 0.9]
    ),
    "points, curves": lambda: PiecewiseDistribution.from_survival(
        [1.0, 3.0, 8.0], [[0.9, 0.6, 0.25], [0.75, 0.45, 0.28], [0.93, 0.4, 0.1]]
    ),
    "marked, Bernstein": lambda: marked(transformed("logit", SMOOTH, THETA, gain=-1.0)),
    "marked, counts": lambda: marked(transformed("cloglog", COUNT, [-1.0, 0.3, 1.5])),
    "family, negative binomial": lambda: of_family("negative_binomial", [0.5, 2.0, 7.0]),
    "shifted, linear": lambda: shifted("probit", LinearBasis(), [-1.0, 0.5]),
    "shifted, Bernstein": lambda: shifted("logit", SMOOTH, THETA, gain=-1.0),
    "shifted, positive": lambda: shifted("cloglog", LogLinearBasis(), [-1.0, 1.3], positive=True),
    "shifted, each row its own": lambda: shifted("loglog", SMOOTH, [THETA, 1.2 * THETA, 0.8 * THETA]),
    "shifted, given survival": lambda: shifted("cloglog", SMOOTH, THETA).given(4.0),
    "shifted, classes": lambda: shifted("logit", ORDINAL, [-0.7, 0.9]),
    "shifted, counts": lambda: shifted("cloglog", COUNT, [-1.0, 0.3, 1.5]),
    "shifted, nodes": lambda: shifted("logit", SMOOTH, THETA, law=NODE_LAW),
    "stepped, shifted": lambda: StepDistribution(HIGHER, np.array([0, 1, 0]), SHIFT, link=SHIFTED_HAZARD),
    "stepped, shifted, given survival": lambda: StepDistribution(
        HIGHER, np.array([0, 1, 0]), SHIFT, link=SHIFTED_HAZARD
    ).given(2.0),
    "shifted family, Poisson": lambda: of_shifted("poisson", np.log([0.5, 2.0, 7.0])),
    "shifted family, binomial": lambda: of_shifted("binomial", [-2.0, 0.0, 2.0], trials=6.0),
    "shifted family, gamma": lambda: of_shifted("gamma", np.log([1.0, 2.0, 3.0]), dispersion=0.6),
    "shifted family, normal": lambda: of_shifted("gaussian", [1.0, 2.0, -3.0], dispersion=1.7),
    "family, averaged": lambda: AveragedFamily.of(
        get_family("poisson"), np.log([[0.5], [2.0], [7.0]]) + 0.3 * NODES, SHARES, np.ones(3), SHIFT
    ),
}
LONG = {"shifted, positive", "shifted, each row its own", "shifted, given survival", "shifted, nodes"}
LONG |= {"shifted family, gamma", "shifted family, binomial", "stepped, shifted, given survival"}


def kinds(among: Any) -> Any:
    """Return the mark for tests of these kinds; some of them are slow."""
    return pytest.mark.parametrize(
        "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in LONG else ()) for kind in among]
    )


every = kinds(KINDS)
stepped = {kind for kind in KINDS if kind.startswith("stepped")}
smooth = kinds([kind for kind in KINDS if not (kind in stepped or KINDS[kind]().discrete)])
discrete = kinds([kind for kind in KINDS if KINDS[kind]().discrete])
Q = np.array([0.05, 0.3, 0.5, 0.8, 0.97])


def points(distribution: Distribution) -> np.ndarray:
    """Return outcomes that every row can have."""
    levels = getattr(getattr(distribution, "basis", None), "levels", None)
    if levels is not None:
        return np.array(levels, dtype=object)
    return np.array([0.0, 1.0, 3.0, 4.0, 6.0]) if distribution.discrete else np.array([0.6, 2.0, 4.5, 6.5])


def test_every_kind_is_here() -> None:
    """A new kind of distribution must run through the contract too."""
    found = {value for value in vars(predict).values() if inspect.isclass(value) and issubclass(value, Distribution)}
    assert {type(make()) for make in KINDS.values()} == found - {Distribution}


@every
@pytest.mark.parametrize("name", ["cdf", "sf", "logcdf", "logsf", "cumhazard", "odds", "pdf", "logpdf", "hazard"])
def test_values_have_rows_first(kind: str, name: str) -> None:
    """A number gives (n,), a vector of m (n, m), a table of (n, k) is read row by row."""
    distribution = KINDS[kind]()
    method, y = getattr(distribution, name), points(distribution)
    if kind in stepped and name in ("pdf", "logpdf", "hazard"):
        with pytest.raises(InputTypeError, match="no density"):
            method(1.0)
        return
    with np.errstate(divide="ignore"):
        table = method(y)
        assert table.shape == (3, y.size)
        for j, value in enumerate(y):
            np.testing.assert_allclose(method(value), table[:, j], rtol=1e-13)
        rows = np.array([y, y[::-1], np.roll(y, 1)])
        wanted = np.array([table[0], table[1][::-1], np.roll(table[2], 1)])
        np.testing.assert_allclose(method(rows), wanted, rtol=1e-13)
        np.testing.assert_allclose(method(y[:3]), table[:, :3], rtol=1e-13)  # also where m = n
        assert method(rows[:, :1]).shape == (3, 1)
    with pytest.raises(InputError, match=r"y must be a number, a vector or of shape \(3, k\)"):
        method(np.array([y, y]))


@every
@pytest.mark.parametrize("name", ["ppf", "isf"])
def test_quantiles_have_rows_first(kind: str, name: str) -> None:
    distribution = KINDS[kind]()
    method = getattr(distribution, name)
    table = method(Q)
    assert table.shape == (3, Q.size)
    for j, q in enumerate(Q):
        found = method(q)
        assert found.shape == (3,)
        np.testing.assert_allclose(distribution.codes(found), distribution.codes(table)[:, j], rtol=1e-12)
    again = method(np.array([Q, Q, Q]))
    np.testing.assert_allclose(distribution.codes(again), distribution.codes(table), rtol=1e-12)
    with pytest.raises(InputError, match=r"q must be a number, a vector or of shape \(3, k\)"):
        method(np.array([Q, Q]))
    with pytest.raises(InputError, match="probabilities must lie in"):
        method(1.5)


@every
def test_probabilities_of_both_sides(kind: str) -> None:
    distribution = KINDS[kind]()
    y = points(distribution)
    cdf, sf = distribution.cdf(y), distribution.sf(y)
    np.testing.assert_allclose(cdf + sf, 1.0, rtol=1e-13)
    assert (np.diff(cdf, axis=1) >= 0.0).all()
    np.testing.assert_allclose(np.exp(distribution.logcdf(y)), cdf, rtol=1e-13)
    np.testing.assert_allclose(np.exp(distribution.logsf(y)), sf, rtol=1e-13)
    np.testing.assert_allclose(np.exp(-distribution.cumhazard(y)), sf, rtol=1e-13)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(distribution.odds(y), cdf / sf, rtol=1e-12)


@smooth
def test_quantiles_invert_probabilities(kind: str) -> None:
    distribution = KINDS[kind]()
    np.testing.assert_allclose(distribution.cdf(distribution.ppf(Q)), np.tile(Q, (3, 1)), rtol=1e-9)
    np.testing.assert_allclose(distribution.sf(distribution.isf(Q)), np.tile(Q, (3, 1)), rtol=1e-9)
    inner = distribution.ppf(Q)
    np.testing.assert_allclose(distribution.ppf(distribution.cdf(inner)), inner, rtol=1e-9)
    np.testing.assert_allclose(distribution.isf(1.0 - Q), inner, rtol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in stepped or KINDS[kind]().discrete])
def test_quantiles_are_the_first_that_reach(kind: str) -> None:
    distribution = KINDS[kind]()
    found = distribution.ppf(Q)
    assert (distribution.cdf(found) >= Q - 1e-12).all()
    before = distribution.codes(found) - (1.0 if distribution.discrete else 1e-6)
    if "classes" in kind:
        levels = points(distribution)
        cdf = np.column_stack([np.zeros(3), distribution.cdf(levels)])
        reached = np.take_along_axis(cdf, before.astype(int) + 1, axis=1)
    else:
        reached = distribution.cdf(before)
    assert (reached < Q).all()


@smooth
def test_densities_integrate_to_the_probabilities(kind: str) -> None:
    distribution = KINDS[kind]()
    for i in range(3):
        own = distribution[i]
        edges = own.ppf([0.02, 0.25, 0.5, 0.75, 0.98])[0]
        bends = 0.0, 10.0, *np.ravel(getattr(own, "points", []))
        knots = [*edges, *(end for end in bends if edges[0] < end < edges[-1])]
        area = sum(
            integrate.quad(lambda t, own=own: float(own.pdf(t)[0]), a, b, epsabs=1e-11)[0]
            for a, b in itertools.pairwise(sorted(knots))
        )
        assert area == pytest.approx(0.96, abs=1e-7)


@smooth
def test_hazards_are_densities_given_survival(kind: str) -> None:
    distribution = KINDS[kind]()
    y = distribution.ppf(Q)
    np.testing.assert_allclose(distribution.pdf(y), np.exp(distribution.logpdf(y)), rtol=1e-14)
    np.testing.assert_allclose(distribution.hazard(y), distribution.pdf(y) / distribution.sf(y), rtol=1e-10)
    step = 1e-5 * np.abs(y)
    slope = (distribution.cumhazard(y + step) - distribution.cumhazard(y - step)) / (2.0 * step)
    np.testing.assert_allclose(distribution.hazard(y), slope, rtol=1e-6)
    with pytest.raises(InputTypeError, match="no pmf"):
        distribution.pmf(1.0)


@discrete
def test_masses_add_up_to_the_probabilities(kind: str) -> None:
    distribution = KINDS[kind]()
    classes = "classes" in kind
    y = points(distribution) if classes else np.arange(7.0)
    mass = distribution.pmf(y)
    np.testing.assert_array_equal(mass, distribution.pdf(y))
    np.testing.assert_allclose(np.cumsum(mass, axis=1), distribution.cdf(y), rtol=1e-12)
    if classes:
        np.testing.assert_allclose(mass.sum(axis=1), 1.0, rtol=1e-13)
    else:
        assert (distribution.pmf([-1.0, 0.5]) == 0.0).all()
    at_least = mass + distribution.sf(y)
    inside = at_least > 0.0
    np.testing.assert_allclose(distribution.hazard(y)[inside], (mass / at_least)[inside], rtol=1e-12)


@every
def test_what_follows_from_quantiles(kind: str) -> None:
    distribution = KINDS[kind]()
    assert (distribution.median() == distribution.ppf(0.5)).all()
    low, high = distribution.interval(0.8)
    assert (low == distribution.ppf(0.5 * (1.0 - 0.8))).all()
    assert (high == distribution.isf(0.5 * (1.0 - 0.8))).all()
    draws = distribution.rvs(5, random_state=1)
    assert draws.shape == (3, 5)
    assert (draws == distribution.ppf(np.random.default_rng(1).random((3, 5)))).all()
    assert (draws == distribution.rvs(5, np.random.default_rng(1))).all()


@every
def test_means_are_integrals_of_quantiles(kind: str) -> None:
    distribution = KINDS[kind]()
    if kind in stepped or "classes" in kind:
        with pytest.raises(InputTypeError, match="no mean"):
            distribution.mean()
        return
    for i in range(3):
        own = distribution[i]
        assert own.mean().shape == (1,)
        if distribution.discrete:
            wanted = own.sf(np.arange(2000.0)).sum()
            assert own.mean()[0] == pytest.approx(wanted, rel=1e-6)
            continue
        # E Y = middle + int_middle^inf S - int_-inf^middle F
        low, middle, high = own.ppf(1e-12)[0], own.median()[0], own.isf(1e-12)[0]
        knots = sorted({low, middle, high, *(end for end in (0.0, 10.0) if low < end < high)})
        wanted = middle
        for a, b in itertools.pairwise(knots):
            side = own.sf if a >= middle else own.cdf
            area = integrate.quad(lambda t, side=side: float(side(t)[0]), a, b, epsabs=1e-11, limit=200)[0]
            wanted += area if a >= middle else -area
        assert own.mean()[0] == pytest.approx(wanted, rel=1e-6)


@every
def test_rows_are_taken_by_indexing(kind: str) -> None:
    distribution = KINDS[kind]()
    table = distribution.cdf(points(distribution))
    assert len(distribution) == 3
    for rows in (1, np.int64(2), slice(1, None), [2, 0], np.array([0, 2]), np.array([True, False, True])):
        part = distribution[rows]
        assert type(part) is type(distribution)
        wanted = np.atleast_2d(table[rows])
        assert len(part) == wanted.shape[0]
        np.testing.assert_array_equal(part.cdf(points(distribution)), wanted)


@every
def test_codes_are_numbers(kind: str) -> None:
    distribution = KINDS[kind]()
    y = points(distribution)
    wanted = np.arange(y.size) if "classes" in kind else y
    np.testing.assert_array_equal(distribution.codes(y), wanted.astype(float))
    assert distribution.codes(y).dtype == np.float64


class Exponential(Distribution):
    """A toy kind that writes its abstract methods and nothing else."""

    def __init__(self, rate: np.ndarray) -> None:
        self.rate = rate

    def __len__(self) -> int:
        return self.rate.size

    def __getitem__(self, rows: Any) -> "Exponential":
        return Exponential(np.atleast_1d(self.rate[rows]))

    @property
    def discrete(self) -> bool:
        return False

    def _beside(self, values: np.ndarray) -> np.ndarray:
        return self.rate if values.ndim == 0 else self.rate[:, None]

    def logsf(self, y: Any) -> np.ndarray:
        y = self.codes(y)
        return -self._beside(y) * y

    def logcdf(self, y: Any) -> np.ndarray:
        return np.log(-np.expm1(self.logsf(y)))

    def logpdf(self, y: Any) -> np.ndarray:
        return np.log(self._beside(self.codes(y))) + self.logsf(y)

    def ppf(self, q: Any) -> np.ndarray:
        return -np.log1p(-np.asarray(q)) / self._beside(np.asarray(q))

    def isf(self, q: Any) -> np.ndarray:
        return -np.log(q) / self._beside(np.asarray(q))

    def mean(self) -> np.ndarray:
        return 1.0 / self.rate


def test_a_new_kind_needs_only_its_abstract_methods() -> None:
    rate = np.array([0.5, 2.0, 4.0])
    toy, known = Exponential(rate), stats.expon(scale=1.0 / rate[:, None])
    y = np.array([0.1, 1.0, 3.0])
    for name in ("cdf", "sf", "pdf"):
        np.testing.assert_allclose(getattr(toy, name)(y), getattr(known, name)(y), rtol=1e-12)
    np.testing.assert_allclose(toy.hazard(y), np.tile(rate[:, None], 3), rtol=1e-12)
    np.testing.assert_allclose(toy.cumhazard(y), rate[:, None] * y, rtol=1e-12)
    np.testing.assert_allclose(toy.odds(1.0), np.expm1(rate), rtol=1e-12)
    np.testing.assert_allclose(toy.median(), np.log(2.0) / rate, rtol=1e-12)
    np.testing.assert_allclose(np.array(toy.interval(0.9)), np.array(known.interval(0.9))[..., 0], rtol=1e-12)
    assert toy[:2].rvs(4, random_state=0).shape == (2, 4)
    with pytest.raises(TypeError, match="abstract"):
        Distribution()  # type: ignore[abstract]
