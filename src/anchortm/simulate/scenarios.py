"""The four simulation scenarios of the paper, as printed, as published in code, and as recommended.

Each scenario is a dictionary of settings. The paper and its published code differ in places: ``variant="paper"`` and
``variant="code"`` follow them literally. ``variant=None`` uses the recommended version; the docstrings give the
reasons. You can override any setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from anchortm._typing import Array, Seed
from anchortm._util.checks import generator
from anchortm.bases import BernsteinBasis, LinearBasis, OrdinalBasis
from anchortm.exceptions import InputError
from anchortm.simulate.sem import SEM, Additive, Linear, Normal, Rademacher, Sample, Transformation

__all__ = ["NAMES", "Run", "Scenario", "iv1", "iv2", "la", "nla", "scenario"]


class Run(NamedTuple):
    """One simulated data set: training rows, and test rows for each intervention.

    Examples
    --------
    >>> from anchortm.scenarios import la
    >>> run = la(n_train=20, n_test=10).draw(random_state=1)
    >>> run.train.X.shape, {name: sample.X.shape for name, sample in run.test.items()}
    ((20, 10), {'push': (10, 10)})
    """

    train: Sample
    test: dict[str, Sample]


@dataclass(frozen=True, eq=False)
class Scenario:
    """A simulation scenario: its settings, and a method that draws a run.

    Attributes
    ----------
    name : str
    variant : str or None
    settings : dict
        All settings: defaults, those of the variant, and those that you gave.

    Examples
    --------
    >>> from anchortm.scenarios import nla
    >>> scenario = nla(n_train=20, n_test=10)
    >>> scenario.name, scenario.settings["xi"], scenario.draw(random_state=1).train.Y.shape
    ('nla', 6.0, (20,))
    """

    name: str
    variant: str | None
    settings: dict[str, Any]
    _draw: Callable[[dict[str, Any], np.random.Generator], Run]

    def draw(self, random_state: Seed = None) -> Run:
        """Draw one run; ``random_state`` is a seed or a ``numpy.random.Generator``."""
        return self._draw(self.settings, generator(random_state))

    def __repr__(self) -> str:
        listed = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"Scenario({self.name}, variant={self.variant!r}: {listed})"


def _settings(name: str, variant: str | None, base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    known = VARIANTS[name]
    if variant not in known:
        raise InputError(f"scenario {name} has the variants {', '.join(map(repr, known))}, not {variant!r}")
    unknown = sorted(set(overrides) - set(base))
    if unknown:
        raise InputError(f"scenario {name} does not have the settings {', '.join(unknown)}; it has {', '.join(base)}")
    return base | known[variant] | overrides


# How each variant differs from the base settings, which are the printed ones.
VARIANTS: dict[str, dict[str | None, dict[str, Any]]] = {
    "la": {
        None: {},
        "paper": {},
        "code": {"mx": "redraw_test"},
    },
    "nla": {
        None: {},
        "paper": {},
        "code": {"indicator": "above", "anchor_effect": -2.0, "mu_sd": 2.0},
        "buhlmann": {"anchor_effect": -2.0},
    },
    "iv1": {
        None: {"do_A": 12.0},
        "paper": {},
        "code": {"do_A": 12.0, "sampler": "grid50", "aggregate": "mean"},
    },
    "iv2": {
        None: {"shift_on": "X", "sign": -1.0},
        "paper": {},
        "code": {"shift_on": "X", "sign": -1.0, "sd": 0.5625, "runs": 100},
    },
}


def la(variant: str | None = None, **overrides: Any) -> Scenario:
    """Return the linear scenario: Lm against linear anchor regression, with anchors that also affect the outcome.

    Settings: n_train, n_test, runs, xi, gamma; ``test_variance`` of the anchors; ``mx``, how M_X is drawn.

    Notes
    -----
    Variants:

    paper
        M_X is drawn once for each run and shared by training and test rows (``mx="run"``). So both come from one
        structural model, and only the anchors change. Recommended.
    code
        M_X is drawn again for the test rows (``mx="redraw_test"``), so the test rows come from another model. This
        makes the published NLL curves so variable. ``mx="fixed"`` uses one draw for all runs, as the published L2 panel
        does by accident.

    Examples
    --------
    >>> import anchortm as atm
    >>> run = atm.scenarios.la().draw(random_state=1)
    >>> fits = [atm.NormalLinear(xi).fit(run.train.X, run.train.Y, anchors=run.train.A) for xi in (0.0, 6.0)]
    >>> [fit.nll(run.test["push"].X, run.test["push"].Y).max().round(1).item() for fit in fits]
    [75.2, 15.1]
    """
    base = {
        "n_train": 300,
        "n_test": 2000,
        "runs": 100,
        "xi": 6.0,
        "gamma": 13.0,
        "test_variance": 10.0,
        "mx": "run",
        "fixed_mx": (0.916, -0.215),
    }
    return Scenario("la", variant, _settings("la", variant, base, overrides), _draw_la)


def _linear_sem(mx: Array) -> SEM:
    beta = np.zeros(10)
    beta[1:3] = 3.0
    return SEM(
        Normal.of(size=2),
        Linear(Normal.of()),
        Linear(Normal.of(size=10), anchors=np.tile(mx, (10, 1)), hidden=np.ones((10, 1))),
        # Y = x'b + h - 2 a_1 + 0.25 noise, as a transformation model: y / 0.25 - shift / 0.25 is normal
        Transformation("probit", LinearBasis(), np.array([0.0, 4.0]), 4.0 * beta, [4.0], [-8.0, 0.0]),
    )


def _draw_la(settings: dict[str, Any], rng: np.random.Generator) -> Run:
    if settings["mx"] not in ("run", "redraw_test", "fixed"):
        raise InputError(f"mx must be 'run', 'redraw_test' or 'fixed', not {settings['mx']!r}")
    mx = np.array(settings["fixed_mx"]) if settings["mx"] == "fixed" else rng.normal(size=2)
    train = _linear_sem(mx).sample(settings["n_train"], rng)
    mx = rng.normal(size=2) if settings["mx"] == "redraw_test" else mx
    pushed = _linear_sem(mx).push(Normal.of(sd=math.sqrt(settings["test_variance"]), size=2))
    return Run(train, {"push": pushed.sample(settings["n_test"], rng)})


def nla(variant: str | None = None, **overrides: Any) -> Scenario:
    """Return the nonlinear scenario: c-probit against anchor boosting, strong pushes of the anchors.

    Settings: n_train, n_test, runs, xi, gamma, order; ``indicator`` ("below": I(X2 <= 0), "above": I(X2 > 0));
    ``anchor_effect`` of A1 on Y; ``mu_mean`` and ``mu_sd`` of the pushed means.

    Notes
    -----
    Variants:

    paper
        As printed: I(X2 <= 0), no effect of the anchors on Y (as in the printed graph), means with variance 2.
        Recommended.
    code
        I(X2 > 0), an effect of -2 A1 on Y, means with standard deviation 2.
    buhlmann
        The scenario of Buehlmann (2020): I(X2 <= 0) and -2 A1.

    Examples
    --------
    >>> from anchortm.scenarios import nla
    >>> nla("code").settings["anchor_effect"], nla().draw(random_state=1).train.X.shape
    (-2.0, (300, 10))
    """
    base = {
        "n_train": 300,
        "n_test": 2000,
        "runs": 100,
        "xi": 6.0,
        "gamma": 13.0,
        "order": 6,
        "indicator": "below",
        "anchor_effect": 0.0,
        "mu_mean": 10.0,
        "mu_sd": math.sqrt(2.0),
    }
    return Scenario("nla", variant, _settings("nla", variant, base, overrides), _draw_nla)


def _draw_nla(settings: dict[str, Any], rng: np.random.Generator) -> Run:
    if settings["indicator"] not in ("below", "above"):
        raise InputError(f"indicator must be 'below' or 'above', not {settings['indicator']!r}")

    def outcome(A: Array, H: Array, X: Array) -> Array:
        x2, x3 = X[:, 1], X[:, 2]
        jump = (x2 <= 0.0) if settings["indicator"] == "below" else (x2 > 0.0)
        f = x2 + x3 + jump + (x2 <= -0.5) * (x3 <= 1.0)
        return np.asarray(f + 3.0 * H[:, 0] + settings["anchor_effect"] * A[:, 0])

    parents = ("A", "H", "X") if settings["anchor_effect"] else ("H", "X")
    model = SEM(
        Normal.of(size=2),
        Linear(Normal.of()),
        Linear(Normal.of(sd=0.5, size=10), anchors=np.ones((10, 2)), hidden=np.full((10, 1), 2.0)),
        Additive(outcome, Normal.of(sd=0.25), parents),
    )
    train = model.sample(settings["n_train"], rng)
    mean = settings["mu_mean"] + settings["mu_sd"] * rng.normal(size=2)
    return Run(train, {"push": model.push(Normal.of(mean=mean, size=2)).sample(settings["n_test"], rng)})


def iv1(variant: str | None = None, **overrides: Any) -> Scenario:
    """Return the continuous scenario with a valid binary instrument, sampled from a c-probit model.

    Settings: n_train, n_test, runs, xis, order; ``beta`` and ``hidden_effect`` (h(y) + beta x + hidden_effect h);
    ``do_A``, the intervention; ``sampler`` ("exact", or "grid50" as in the published code); ``aggregate`` of
    the curves.

    Notes
    -----
    Variants:

    paper
        do(A = 3.6), which moves X by 1.08.
    code
        do(A = 12), which moves X by 3.6; outcomes drawn on a grid of 50 points with a step of about one
        standard deviation; mean instead of median over runs.
    recommended (None)
        do(A = 12), as the printed claims require, with exact inversion and medians.

    Examples
    --------
    >>> from anchortm.scenarios import iv1
    >>> iv1("paper").settings["do_A"], list(iv1().draw(random_state=1).test)
    (3.6, ['do(12)'])
    """
    base = {
        "n_train": 1000,
        "n_test": 2000,
        "runs": 100,
        "xis": (0.0, 1.0, 3.0, 7.0, 1e3, 1e4),
        "order": 6,
        "beta": 0.3,
        "hidden_effect": 0.6,
        "do_A": 3.6,
        "sampler": "exact",
        "aggregate": "median",
    }
    return Scenario("iv1", variant, _settings("iv1", variant, base, overrides), _draw_iv1)


def iv1_model(settings: dict[str, Any]) -> SEM:
    """Return the structural model of scenario iv1: Phi^-1 of a chi-square distribution as transformation."""
    order = settings["order"]
    ends = float(stats.chi2.ppf(1e-12, 3)), float(stats.chi2.isf(1e-12, 3))
    points = np.linspace(ends[0], ends[1], order + 1)
    low, high = stats.chi2.cdf(points, 3), stats.chi2.sf(points, 3)
    theta = np.where(low < 0.5, stats.norm.ppf(low), stats.norm.isf(high))
    return SEM(
        Rademacher(),
        Linear(Normal.of(sd=0.75)),
        Linear(Normal.of(sd=0.75), anchors=np.array([[0.3]]), hidden=np.array([[0.6]])),
        Transformation(
            "probit",
            BernsteinBasis(order, ends),
            theta,
            np.array([settings["beta"]]),
            np.array([settings["hidden_effect"]]),
            sign=1.0,
        ),
    )


def _draw_iv1(settings: dict[str, Any], rng: np.random.Generator) -> Run:
    if settings["sampler"] not in ("exact", "grid50"):
        raise InputError(f"sampler must be 'exact' or 'grid50', not {settings['sampler']!r}")
    model = iv1_model(settings)
    moved = model.do(A=settings["do_A"])
    samples = [model.sample(settings["n_train"], rng), moved.sample(settings["n_test"], rng)]
    if settings["sampler"] == "grid50":
        samples = [_on_a_grid(model, sample, rng) for sample in samples]
    return Run(samples[0], {f"do({settings['do_A']:g})": samples[1]})


def _on_a_grid(model: SEM, sample: Sample, rng: np.random.Generator) -> Sample:
    """Return the sample with outcomes drawn from a cdf that is linear between 50 points, as R's mlt does."""
    assert isinstance(model.response, Transformation)  # noqa: S101
    grid = np.linspace(-5.0, 63.9, 50)
    cdf = model.response.distribution(sample.A, sample.H, sample.X).cdf(grid)
    u = rng.random(len(cdf))
    return sample._replace(Y=np.array([np.interp(p, row, grid) for p, row in zip(u, cdf, strict=True)]))


def iv2(variant: str | None = None, **overrides: Any) -> Scenario:
    """Return the ordinal scenario with a valid binary instrument of varying strength.

    Settings: n_train, n_test, runs, xis, ``K`` classes, ``mx`` (strength of the instrument), ``shifts`` (the
    interventions), ``sd`` of noise and hidden variable, ``shift_on`` ("A" or "X"), ``sign`` of x in h.

    Notes
    -----
    Variants:

    paper
        A = +-1, X = M_X A + ..., do(A = a): X moves by M_X a.
    code
        A = +-M_X, X = A + ..., do(A = a): X moves by a for any M_X (``shift_on="X"``); a standard deviation of
        0.75^2 by mistake; 100 runs.
    recommended (None)
        As in the code, because the claim that larger M_X makes shifts less innovative requires it, but with the
        printed standard deviation of 0.75.

    Examples
    --------
    >>> from anchortm.scenarios import iv2
    >>> run = iv2(mx=2.0, K=4, shifts=(1.0,)).draw(random_state=1)
    >>> sorted(set(run.train.Y.tolist())), list(run.test)
    ([1, 2, 3, 4], ['do(1)'])
    """
    base = {
        "n_train": 1000,
        "n_test": 2000,
        "runs": 200,
        "xis": (0.0, 1.0, 10.0, 100.0, 1e3, 1e4),
        "K": 10,
        "mx": 0.5,
        "shifts": (1.0, 1.8, 3.0),
        "sd": 0.75,
        "shift_on": "A",
        "sign": 1.0,
    }
    return Scenario("iv2", variant, _settings("iv2", variant, base, overrides), _draw_iv2)


def iv2_model(settings: dict[str, Any]) -> SEM:
    """Return the structural model of scenario iv2."""
    if settings["shift_on"] not in ("A", "X"):
        raise InputError(f"shift_on must be 'A' or 'X', not {settings['shift_on']!r}")
    direct = settings["shift_on"] == "X"
    mx, K = float(settings["mx"]), int(settings["K"])
    cuts = np.arange(1, K) / K
    return SEM(
        Rademacher(mx if direct else 1.0),
        Linear(Normal.of(sd=settings["sd"])),
        Linear(Normal.of(sd=settings["sd"]), anchors=np.array([[1.0 if direct else mx]]), hidden=np.array([[1.5]])),
        Transformation(
            "logit",
            OrdinalBasis(tuple(range(1, K + 1))),
            np.log(cuts / (1.0 - cuts)),
            np.array([0.5]),
            np.array([1.5]),
            sign=settings["sign"],
        ),
    )


def _draw_iv2(settings: dict[str, Any], rng: np.random.Generator) -> Run:
    model = iv2_model(settings)
    train = model.sample(settings["n_train"], rng)
    tests = {f"do({a:g})": model.do(A=a).sample(settings["n_test"], rng) for a in settings["shifts"]}
    return Run(train, tests)


#: The functions ``la``, ``nla``, ``iv1`` and ``iv2`` by name.
NAMES: dict[str, Callable[..., Scenario]] = {"la": la, "nla": nla, "iv1": iv1, "iv2": iv2}


def scenario(name: str, variant: str | None = None, **overrides: Any) -> Scenario:
    """Return a scenario by its name.

    See Also
    --------
    anchortm.scenarios.la, anchortm.scenarios.nla, anchortm.scenarios.iv1, anchortm.scenarios.iv2 : the scenarios

    Examples
    --------
    >>> from anchortm.scenarios import scenario
    >>> run = scenario("iv2", K=4, mx=2.0).draw(random_state=1)
    >>> run.train.X.shape, sorted(run.test)
    ((1000, 1), ['do(1)', 'do(1.8)', 'do(3)'])
    """
    if name not in NAMES:
        raise InputError(f"unknown scenario {name!r}; there are {', '.join(NAMES)}")
    return NAMES[name](variant, **overrides)
