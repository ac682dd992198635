"""Every link runs through the same checks; a fifth link needs an entry in high_precision.DISTRIBUTIONS."""

import dataclasses
import pickle

import mpmath as mp
import numpy as np
import pytest
from high_precision import (
    DIGITS,
    DISTRIBUTIONS,
    exact,
    interval,
    left,
    measured_errors,
    relative_errors,
    right,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from anchortm.exceptions import InputError
from anchortm.links import LINKS, Link, Normal, OneEnd, RowValues, TwoEnds, get_link

links = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS.keys())
kinds = pytest.mark.parametrize("kind", ["exact", "left", "right", "interval"])
SCIPY = {"probit": stats.norm, "logit": stats.logistic, "cloglog": stats.gumbel_l, "loglog": stats.gumbel_r}

moderate = st.floats(-12, 12)
widths = st.floats(-8, 1.2).map(lambda e: 10.0**e)


@links
@kinds
def test_accuracy_on_the_grid(link: Link, kind: str) -> None:
    """Values and first derivatives to 1e-11, second derivatives to 1e-6 (they reach 1e-12)."""
    for quantity, error in measured_errors(link, kind):
        assert error <= (1e-6 if quantity in ("d2r", "r_uu", "r_uv", "r_vv") else 1e-11), quantity


@links
def test_density_and_its_derivatives(link: Link) -> None:
    z = np.linspace(-6, 6, 25)
    np.testing.assert_allclose(link.log_density(z), SCIPY[link.name].logpdf(z), rtol=1e-13)
    with mp.workdps(40):
        F = DISTRIBUTIONS[link.name]
        for order, method in enumerate((link.log_density, link.psi, link.dpsi, link.d2psi)):
            truth = [mp.diff(lambda x: mp.log(F.density(x)), x, order) for x in z]
            np.testing.assert_allclose(method(z), np.array(truth, dtype=float), rtol=1e-12, atol=1e-14)


@links
def test_log_cdf_and_log_sf_are_relatively_accurate_in_both_tails(link: Link) -> None:
    z = np.linspace(-38, 38, 77)
    with mp.workdps(DIGITS):
        F = DISTRIBUTIONS[link.name]
        below = [left(F, mp.mpf(x))["l"] for x in z]
        above = [right(F, mp.mpf(x))["l"] for x in z]
        for computed, truth in ((link.log_cdf(z), below), (link.log_sf(z), above)):
            assert relative_errors(computed, truth, [max(abs(t), mp.mpf(1e-290)) for t in truth]).max() < 1e-12


@links
def test_quantiles_invert_the_distribution_function(link: Link) -> None:
    p = np.array([1e-300, 1e-30, 1e-8, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-8, 1 - 1e-15])
    np.testing.assert_allclose(link.log_cdf(link.quantile(p)), np.log(p), rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(link.log_sf(link.quantile(p)), np.log1p(-p), rtol=1e-12)
    logs = -np.array([1e-300, 1e-30, 1e-8, 0.1, np.log(2), 1.0, 30.0, 700.0])
    np.testing.assert_allclose(link.log_cdf(link.quantile_from_log_cdf(logs)), logs, rtol=1e-12)
    np.testing.assert_allclose(link.log_sf(link.quantile_from_log_sf(logs)), logs, rtol=1e-12)
    assert link.quantile(0.0) == -np.inf
    assert link.quantile(1.0) == np.inf
    assert link.quantile_from_log_cdf(-np.inf) == -np.inf
    assert link.quantile_from_log_cdf(0.0) == np.inf
    assert link.quantile_from_log_sf(-np.inf) == np.inf
    assert link.quantile_from_log_sf(0.0) == -np.inf


@links
def test_formulas_of_the_oracle_are_derivatives_of_the_log_likelihood(link: Link) -> None:
    """The oracle's chain-rule formulas against numerical differentiation of l itself."""
    F = DISTRIBUTIONS[link.name]
    with mp.workdps(60):
        for kind in (exact, left, right):
            for z in map(mp.mpf, ("-3.1", "-0.2", "0.9", "2.7")):
                terms = kind(F, z)
                for order, key in ((1, "r"), (2, "dr"), (3, "d2r")):
                    # no default argument: mpmath differentiates the closure at once
                    assert mp.almosteq(-mp.diff(lambda x: kind(F, x)["l"], z, order), terms[key], 1e-20)  # noqa: B023
        for v, u in (("-2.3", "-1.1"), ("-0.4", "0.7"), ("0.2", "0.3"), ("1.5", "4.0")):
            v, u = mp.mpf(v), mp.mpf(u)
            terms = interval(F, v, u)

            def loglik(a, b, _terms=interval):
                return _terms(F, b, a)["l"]

            for key, order in (("l_uu", (2, 0)), ("l_uv", (1, 1)), ("l_vv", (0, 2))):
                assert mp.almosteq(mp.diff(loglik, (u, v), order), terms[key], 1e-15, 1e-15)

            def residual(a, b, _loglik=loglik):
                # the definition: derivative in alpha of l at F(h - alpha)
                return mp.diff(lambda alpha: _loglik(a - alpha, b - alpha), 0)

            assert mp.almosteq(residual(u, v), terms["r"], 1e-20)
            for key, order in (("r_u", (1, 0)), ("r_v", (0, 1))):
                assert mp.almosteq(mp.diff(residual, (u, v), order), terms[key], 1e-12, 1e-12)
            for key, order in (("r_uu", (2, 0)), ("r_uv", (1, 1)), ("r_vv", (0, 2))):

                def r_of(a, b, _terms=interval):
                    return _terms(F, b, a)["r"]

                assert mp.almosteq(mp.diff(r_of, (u, v), order), terms[key], 1e-12, 1e-12)


@links
@given(v=moderate, d=widths)
def test_interval_at_random(link: Link, v: float, d: float) -> None:
    u = v + d
    if not v < u:
        return
    computed = link.interval(v, u)
    with mp.workdps(DIGITS):
        truth = interval(DISTRIBUTIONS[link.name], mp.mpf(v), mp.mpf(u))
        slope = truth["r_u"] + truth["r_v"]
        for key, value in truth.items():
            scale = max(abs(value), slope if key in ("r", "r_uu", "r_uv", "r_vv") else 0, mp.mpf(1e-290))
            tolerance = 1e-6 if key in ("r_uu", "r_uv", "r_vv") else 1e-11
            assert relative_errors([getattr(computed, key)], [value], [scale])[0] <= tolerance, key
    # log-concavity: r increases in both ends, and -l is convex in (u, v)
    assert computed.r_u >= 0
    assert computed.r_v >= 0
    assert computed.l_uu <= 0
    assert computed.l_vv <= 0
    assert -link.psi(v) - 1e-9 <= computed.r <= -link.psi(u) + 1e-9 * max(1.0, abs(link.psi(u)))


@links
@given(z=st.floats(-12, 12))
def test_one_end_at_random(link: Link, z: float) -> None:
    with mp.workdps(DIGITS):
        for kind in (exact, left, right):
            truth = kind(DISTRIBUTIONS[link.name], mp.mpf(z))
            computed = getattr(link, kind.__name__)(z)
            for key, value in truth.items():
                scale = max(abs(value), truth["dr"] if key in ("r", "d2r") else 0, mp.mpf(1e-290))
                assert relative_errors([getattr(computed, key)], [value], [scale])[0] <= 1e-11, key
            assert computed.dr >= 0


@links
@given(z=st.floats(-8, 8))
def test_an_interval_shrinking_to_a_point_tends_to_the_density(link: Link, z: float) -> None:
    d = 1e-7
    narrow, point = link.interval(z - d / 2, z + d / 2), link.exact(z)
    # The ends are rounded: measure the interval that the numbers really span.
    width = (z + d / 2) - (z - d / 2)
    slack = 1e-6 * (1.0 + np.abs(point.dr))
    assert narrow.l - np.log(width) == pytest.approx(float(point.l), abs=slack)
    assert narrow.r == pytest.approx(float(point.r), abs=slack)
    assert narrow.r_u + narrow.r_v == pytest.approx(float(point.dr), abs=slack, rel=1e-6)
    curvature = narrow.r_uu + 2 * narrow.r_uv + narrow.r_vv
    assert curvature == pytest.approx(float(point.d2r), abs=slack, rel=1e-6)


@links
def test_infinite_ends(link: Link) -> None:
    z = np.array([-40.0, -3.0, 0.0, 2.0, 40.0])
    upper_only, only_left = link.interval(-np.inf, z), link.left(z)
    lower_only, only_right = link.interval(z, np.inf), link.right(z)
    for terms, one, p, q, r_u, r_v in (
        (upper_only, only_left, -only_left.r, 0, only_left.dr, 0),
        (lower_only, only_right, 0, only_right.r, 0, only_right.dr),
    ):
        np.testing.assert_array_equal(terms.l, one.l)
        np.testing.assert_array_equal(terms.r, one.r)
        for computed, wanted in ((terms.p, p), (terms.q, q), (terms.r_u, r_u), (terms.r_v, r_v)):
            np.testing.assert_array_equal(computed, np.broadcast_to(wanted, z.shape))
    np.testing.assert_array_equal(upper_only.r_uu, only_left.d2r)
    np.testing.assert_array_equal(lower_only.r_vv, only_right.d2r)
    for nothing in (link.interval(-np.inf, np.inf), link.right(-np.inf), link.left(np.inf)):
        assert all(value == 0 for value in nothing)


@links
def test_either_side(link: Link) -> None:
    """Rows below h and rows above h side by side have the values of ``left`` and ``right``, in both tails."""
    h = np.repeat(np.array([-40.0, -5.0, -0.3, 0.0, 0.3, 5.0, 40.0]), 2)
    below = np.tile([True, False], h.size // 2)
    for found, under, over in zip(link.either(h, below), link.left(h), link.right(h), strict=True):
        np.testing.assert_allclose(found, np.where(below, under, over), rtol=1e-14)


@links
def test_impossible_rows(link: Link) -> None:
    assert link.interval(1.0, 1.0).l == -np.inf
    assert link.interval(1.0, 0.5).l == -np.inf
    mixed = link.interval([0.0, 2.0, -np.inf, 0.0], [1.0, 1.0, 0.0, np.inf])
    assert np.isneginf(mixed.l).tolist() == [False, True, False, False]
    alone = link.interval(0.0, 1.0)
    assert all(a[0] == b for a, b in zip(mixed, alone, strict=True))
    assert link.right(np.inf).l == -np.inf
    assert link.left(-np.inf).l == -np.inf


@links
@pytest.mark.parametrize("z", [-1e6, -800.0, -720.0, 705.0, 720.0, 800.0, 1e6])
def test_nothing_breaks_far_outside(link: Link, z: float) -> None:
    """Trial points of a solver: no NaN and no warning; -inf where a double ends."""
    for terms in (link.exact(z), link.left(z), link.right(z), link.interval(z, z + 1.0), link.interval(z, z + 1e4)):
        assert not any(np.isnan(value) for value in terms)
        assert terms.l <= 0


@links
def test_residual_bounds(link: Link) -> None:
    """Claim A13 of the reproduction: the range of r by link and kind."""
    inf = np.inf
    bounds = {
        "probit": {"exact": (-inf, inf), "left": (-inf, 0), "right": (0, inf)},
        "logit": {"exact": (-1, 1), "left": (-1, 0), "right": (0, 1), "interval": (-1, 1)},
        "cloglog": {"exact": (-1, inf), "left": (-1, 0), "right": (0, inf)},
        "loglog": {"exact": (-inf, 1), "left": (-inf, 0), "right": (0, 1)},
    }[link.name]
    z = np.linspace(-40, 40, 801)
    for kind, (low, high) in bounds.items():
        r = link.interval(z - 0.7, z + 0.4).r if kind == "interval" else getattr(link, kind)(z).r
        assert (r >= low).all()
        assert (r <= high).all()
        # the bounds are reached in the tails
        for end, target in ((min(r), low), (max(r), high)):
            assert end == pytest.approx(target, abs=1e-6) if np.isfinite(target) else abs(end) > 39


@links
def test_shapes_and_scalars(link: Link) -> None:
    z = np.arange(6.0).reshape(2, 3) / 3
    for kind in ("exact", "left", "right"):
        terms = getattr(link, kind)(z)
        assert isinstance(terms, OneEnd)
        assert all(x.shape == (2, 3) for x in terms)
        assert all(x.shape == () for x in getattr(link, kind)(0.3))
    terms = link.interval(z - 1, z)
    assert isinstance(terms, TwoEnds)
    assert all(x.shape == (2, 3) for x in terms)
    np.testing.assert_array_equal(link.interval(0.0, z + 1).l[1, 2], link.interval(0.0, z[1, 2] + 1).l)
    assert link.interval([], []).l.shape == (0,)


@links
def test_links_are_immutable_records(link: Link) -> None:
    assert link == type(link)()
    assert hash(link) == hash(type(link)())
    assert pickle.loads(pickle.dumps(link)) == link  # noqa: S301 - our own object
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        link.name = "other"


def test_get_link() -> None:
    assert get_link("probit") == Normal()
    assert get_link(Normal()) == Normal()
    with pytest.raises(InputError, match=r"unknown link 'cauchit'; choose one of probit, logit, cloglog, loglog"):
        get_link("cauchit")


# --- what the rest of the package asks a link -----------------------------------------------------


@links
def test_closed_forms_agree_with_the_defaults(link: Link) -> None:
    """A link may leave these to the contract, which integrates numerically."""
    assert Link.variance.fget(link) == pytest.approx(link.variance, rel=1e-12)
    assert Link.tail_rate.fget(link) == pytest.approx(link.tail_rate, rel=1e-4)
    for k in (0.1, 0.5, 0.9, 1.5):
        assert Link.log_moment(link, k) == pytest.approx(link.log_moment(k), rel=1e-11, abs=1e-12)
    assert link.variance == pytest.approx(SCIPY[link.name].var(), rel=1e-12)


@links
def test_nothing_is_left_beyond_the_reach(link: Link) -> None:
    """The integral of f(z) exp(z / slope) stops where the rest is no more than rounding."""
    slope, low = 2.5, np.array([-3.0, 0.0, 1.0])
    for high in (link.reach(low, slope), Link.reach(link, low, slope)):
        assert (high >= low).all()
        integrand = link.log_density(high) + high / slope
        peak = np.linspace(-10, 60, 20001)
        peak = np.where(peak[:, None] >= low, (link.log_density(peak) + peak / slope)[:, None], -np.inf).max(axis=0)
        assert (integrand < peak - 36.0).all()  # e^-36 is below the rounding of the sum


@links
def test_kinds_of_rows_with_a_convex_loss(link: Link) -> None:
    """-l'' >= |r''| for the kinds that a link names, and not for the others."""
    z = np.linspace(-12, 12, 241)
    for kind in ("exact", "left", "right"):
        t = getattr(link, kind)(z)
        assert (t.dr >= np.abs(t.d2r) * (1 - 1e-9)).all() == (kind in link.convex_kinds), kind
    v, width = (a.ravel() for a in np.meshgrid(np.linspace(-6, 6, 49), 10.0 ** np.linspace(-3, 1, 17)))
    t = link.interval(v, v + width)
    minus_l = np.array([[-t.l_uu, -t.l_uv], [-t.l_uv, -t.l_vv]]).transpose(2, 0, 1)
    bend = np.array([[t.r_uu, t.r_uv], [t.r_uv, t.r_vv]]).transpose(2, 0, 1)
    smallest = [np.linalg.eigvalsh(minus_l + side * bend)[:, 0] for side in (-1.0, 1.0)]
    slack = 1e-12 * np.abs(minus_l).max(axis=(1, 2))
    assert all((s >= -slack).all() for s in smallest) == ("interval" in link.convex_kinds)


@links
def test_the_quadratic_link_is_the_standard_normal(link: Link) -> None:
    z = np.linspace(-5, 5, 21)
    quadratic = np.allclose(link.log_density(z), -0.5 * z**2 - 0.5 * np.log(2 * np.pi), rtol=1e-14)
    assert link.quadratic is quadratic


@links
def test_a_normal_effect_widens_the_distribution(link: Link) -> None:
    """E F(h + sd N) = F(h / s) by quadrature, where a link says what s is."""
    sd = np.array([0.3, 1.0, 2.0])
    size = link.widened_by_normal(sd)
    assert (size is None) == (link.name != "probit")
    if size is None:
        return
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    for h in (-2.0, 0.1, 1.5):
        averaged = np.exp(link.log_cdf(h + sd[:, None] * nodes)) @ weights / np.sqrt(2 * np.pi)
        np.testing.assert_allclose(np.exp(link.log_cdf(h / size)), averaged, rtol=1e-10)


@links
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_effect_is_what_its_name_says(link: Link, sign: float) -> None:
    """exp(b) multiplies odds or hazards by the same factor everywhere, where the effect has a name."""
    h, b = np.linspace(-2, 2, 9), 0.7
    low, high = (
        np.array([link.log_cdf(h), link.log_cdf(h + sign * b)]),
        np.array([link.log_sf(h), link.log_sf(h + sign * b)]),
    )
    ratios = {
        "odds ratio": np.diff((high - low if sign < 0 else low - high), axis=0),
        "hazard ratio": np.diff(np.log(-high), axis=0),  # of cumulative hazards -log S
        "reverse-time hazard ratio": np.diff(np.log(-low), axis=0),
    }
    name = link.effect_name(sign)
    constant = {key: np.allclose(value, b, rtol=1e-10) for key, value in ratios.items()}
    assert [key for key, holds in constant.items() if holds] == ([name] if name else [])


# --- values of rows with one end and with two answer the same questions ---------------------------

QUESTIONS = sorted(name for name in dir(RowValues) if not name.startswith("_"))


@links
@kinds
def test_values_of_all_kinds_answer_the_same_questions(link: Link, kind: str) -> None:
    z = np.linspace(-2.0, 2.0, 5)
    t = link.interval(z, z + 0.5) if kind == "interval" else getattr(link, kind)(z)
    for question in QUESTIONS:
        answer = getattr(t, question)
        if question == "penalised":
            assert answer is t
        else:
            assert np.broadcast_to(answer, z.shape).shape == z.shape
    if kind != "interval":
        assert not any(np.any(getattr(t, q)) for q in ("l_d", "r_d", "minus_l_dd", "l_ddd", "r_hd", "r_dd"))


@links
@pytest.mark.parametrize(("h", "d"), [(-2.3, 1.2), (-0.4, 1.1), (0.2, 0.1), (1.5, 2.5)])
def test_derivatives_in_h_and_in_the_width(link: Link, h: float, d: float) -> None:
    computed = link.interval(h, h + d)
    F = DISTRIBUTIONS[link.name]
    with mp.workdps(60):

        def loglik(a, b):
            return interval(F, a, a + b)["l"]

        def residual(a, b):
            return interval(F, a, a + b)["r"]

        for name, of, order, sign in (
            ("l_d", loglik, (0, 1), 1),
            ("r_d", loglik, (1, 1), -1),
            ("minus_l_dd", loglik, (0, 2), -1),
            ("l_ddd", loglik, (0, 3), 1),
            ("dr", residual, (1, 0), 1),
            ("d2r", residual, (2, 0), 1),
            ("r_d", residual, (0, 1), 1),
            ("r_hd", residual, (1, 1), 1),
            ("r_dd", residual, (0, 2), 1),
        ):
            truth = float(sign * mp.diff(of, (mp.mpf(h), mp.mpf(d)), order))
            assert float(getattr(computed, name)) == pytest.approx(truth, rel=1e-9, abs=1e-9), name


@links
def test_reflected_values_are_those_of_the_mirror_image(link: Link) -> None:
    mirror = {"cloglog": "loglog", "loglog": "cloglog"}.get(link.name, link.name)
    z = np.linspace(-3.0, 3.0, 13)
    for ours, theirs in (
        (link.exact(-z).reflected(), LINKS[mirror].exact(z)),
        (link.right(-z).reflected(), LINKS[mirror].left(z)),
        (link.interval(-z - 0.5, -z).reflected(), LINKS[mirror].interval(z, z + 0.5)),
    ):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
