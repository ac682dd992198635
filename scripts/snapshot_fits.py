"""Small fits of every kind, recorded so that a change of the code that should not change numbers is seen not to.

``python scripts/snapshot_fits.py`` writes tests/snapshot/fits.json, and ``tests/project/test_snapshot.py`` compares the
code with it. Only public names are used. Write the file again only if numbers change on purpose, and say so in the
changelog.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
import sklearn
from scipy import sparse

import anchortm as atm
from anchortm.exceptions import AnchorTMError

FILE = Path(__file__).resolve().parents[1] / "tests" / "snapshot" / "fits.json"
Case = tuple[str, Callable[[], dict[str, Any]]]

N = 90
RNG = np.random.default_rng(19)
SITE = np.arange(N) % 4
YEAR = RNG.normal(size=N)
HIDDEN = RNG.normal(size=N) + 0.5 * (SITE - 1.5)
X = pd.DataFrame({"x": HIDDEN + RNG.normal(size=N), "z": RNG.normal(size=N) + 0.3 * YEAR, "w": RNG.uniform(-1, 1, N)})
Y = np.exp(1.0 + 0.3 * (0.5 * X.x + 0.7 * HIDDEN + 0.3 * X.z + RNG.normal(size=N))).to_numpy()
LIMIT, ENTRY = RNG.uniform(2, 12, N), 0.5 * Y * RNG.uniform(size=N)
CODES = np.digitize(Y, [2.0, 3.0, 5.0])
COUNTS = np.floor(Y).astype(int)
PERSON, PART = np.arange(N) // 3, np.arange(N) % 2
WEIGHTS, OFFSET = RNG.uniform(0.2, 2.0, N), 0.2 * RNG.normal(size=N)
WORDS = np.array(["north", "east", "south", "west"])[SITE]
TABLE = X.assign(y=Y, time=np.minimum(Y, LIMIT), event=Y <= LIMIT, entry=0.5 * ENTRY, grade=CODES, count=COUNTS)
TABLE = TABLE.assign(site=WORDS, year=YEAR, part=PART, person=PERSON, weight=WEIGHTS, shift=OFFSET, fine=Y > 3)
NEW = X.iloc[[0, 7, 31]]


def mixed() -> Any:
    """Return rows of all kinds: left-censored, interval-censored, exact, right-censored."""
    lower = np.select([Y < 2, Y < 3, Y > 6], [-np.inf, 2.0, 6.0], Y)
    return atm.Interval(lower, np.select([Y < 2, Y < 3, Y > 6], [2.0, 3.0, np.inf], Y))


KINDS: dict[str, Callable[[], Any]] = {
    "exact": lambda: Y,
    "right": lambda: atm.Surv(np.minimum(Y, LIMIT), Y <= LIMIT),
    "left": lambda: atm.Interval(np.where(Y < 2, -np.inf, Y), np.maximum(Y, 2.0)),
    "interval": lambda: atm.Interval(2.0 * np.floor(Y / 2.0), 2.0 * np.floor(Y / 2.0) + 2.0),
    "mixed": mixed,
    "entry": lambda: atm.Surv(np.minimum(Y, LIMIT + ENTRY), Y <= LIMIT + ENTRY, ENTRY),
    "truncated": lambda: atm.Interval(Y, Y, entry=0.3 * Y, exit=np.full(N, 2.0 * Y.max())),
    "classes": lambda: pd.Categorical.from_codes(CODES, ["a", "b", "c", "d"], ordered=True),
    "binary": lambda: Y > 3,
    "counts": lambda: COUNTS,
    "censored counts": lambda: atm.Interval(COUNTS.astype(float), np.where(COUNTS > 4, np.inf, COUNTS)),
}

# What a fit found, apart from its certificate, which is rounding error.
FOUND = ("coef_", "baseline_", "scale_coef_", "loglik_", "loss_", "penalty_", "penalty_scale_", "deviance_", "alpha_")
FOUND += ("dispersion_", "random_sd_", "edf_", "atom_", "quasi_loglik_", "aic_", "feature_importances_")


def plain(value: Any) -> Any:
    """Return numbers as JSON has them; those that are not finite as words."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, pd.Series, pd.Index)):
        return [plain(part) for part in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, (bool, np.bool_, str)) or value is None:
        return value if value is None or isinstance(value, str) else bool(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def found(model: Any) -> dict[str, Any]:
    """Return what a fit found."""
    record: dict[str, Any] = {"converged": model.converged_} if hasattr(model, "converged_") else {}
    for name in FOUND:
        value = or_refused(lambda name=name: getattr(model, name, None))
        if value is not None:
            record[name.strip("_")] = list(value.values()) if isinstance(value, dict) else value
    if hasattr(model, "n_parameters_"):
        record["n_parameters"] = model.n_parameters_
    return record


def told(model: Any, new: Any, y: Any, X: Any, offset: Any = None, at: Any = (2.0, 3.5)) -> dict[str, Any]:
    """Return what a fit says about rows: log-likelihoods, residuals and predictions."""
    more = {} if offset is None else {"offset": offset}
    turn = np.cos(np.arange(N))  # a sum that sees the order of rows
    record: dict[str, Any] = {}
    if y is not None:
        record["nll"] = [part @ np.ones(N), part @ turn] if (part := model.nll(X, y, **more)) is not None else None
        residuals = model.residuals(X, y, **more)
        record["residuals"] = [np.abs(residuals).sum(), residuals @ turn]
    few = {} if offset is None else {"offset": offset[: len(new)]}
    distribution = model.predict_distribution(new, **few)
    record["cdf"] = np.ravel(distribution.cdf(np.asarray(at)))
    record["ppf"] = np.ravel(distribution.ppf(np.array([0.2, 0.7]))) if not isinstance(at[0], str) else []
    record["mean"] = or_refused(distribution.mean)
    return record


def or_refused(ask: Callable[[], Any]) -> Any:
    """Return an answer, or by which error it is refused."""
    try:
        return ask()
    except AnchorTMError as error:
        return type(error).__name__


def fit(
    model: Any,
    y: Any,
    X: Any = X,
    *,
    new: Any = None,
    at: Any = (2.0, 3.5),
    errors: str | None = None,
    tell: bool = True,
    anchors: Any = SITE,
    **data: Any,
) -> dict[str, Any]:
    """Fit, and return everything that is recorded of it."""
    model.fit(X, y, anchors=anchors, **data)
    record = found(model)
    if tell:
        few = new if new is not None else (X.iloc[[0, 7, 31]] if hasattr(X, "iloc") else X[[0, 7, 31]])
        record |= told(model, few, y, X, data.get("offset"), at)
    if errors is not None:
        record["standard_errors"] = model.standard_errors(errors)
    return record


def by_kind() -> Iterator[Case]:
    """Make fits of every model of numbers to every kind of outcome."""
    models: dict[str, Callable[[float], Any]] = {
        "NormalLinear": atm.NormalLinear,
        "ContinuousProbit": lambda xi: atm.ContinuousProbit(xi, order=3),
        "ContinuousLogit": lambda xi: atm.ContinuousLogit(xi, order=3),
        "ProportionalHazards": lambda xi: atm.ProportionalHazards(xi, order=3),
        "Lehmann": lambda xi: atm.Lehmann(xi, order=3),
        "ParametricSurvival": atm.ParametricSurvival,
    }
    xis = (0.0, 1.0, 10.0)
    for i, (name, make) in enumerate(models.items()):
        for j, kind in enumerate(("exact", "right", "left", "interval", "mixed", "entry", "truncated")):
            xi = xis[(i + j) % 3]
            errors = None if j % 2 else "hessian" if xi == 0 else "sandwich"
            yield (
                f"{name} {kind} xi={xi:g}",
                lambda make=make, kind=kind, xi=xi, errors=errors: fit(make(xi), KINDS[kind](), errors=errors),
            )


def by_link() -> Iterator[Case]:
    """Make fits of the general model with every link and basis, of classes and counts with every link."""
    for link in ("probit", "logit", "cloglog", "loglog"):
        for basis, kind in (
            ("bernstein", "mixed"),
            ("linear", "exact"),
            ("log-linear", "right"),
            ("ordinal", "classes"),
            ("count", "counts"),
        ):
            at = ("a", "c") if kind == "classes" else (2.0, 3.0)
            yield (
                f"AnchorTM {link} {basis}",
                lambda link=link, basis=basis, kind=kind, at=at: fit(
                    atm.AnchorTM(2.0, link=link, basis=basis, order=2), KINDS[kind](), at=at
                ),
            )
        for xi in (0.0, 10.0):
            yield (
                f"OrdinalRegression {link} xi={xi:g}",
                lambda link=link, xi=xi: fit(
                    atm.OrdinalRegression(xi, link=link), KINDS["classes"](), at=("a", "c"), sample_weight=WEIGHTS
                ),
            )
            yield (
                f"CountRegression {link} xi={xi:g}",
                lambda link=link, xi=xi: fit(atm.CountRegression(xi, link=link, order=3), COUNTS, offset=OFFSET),
            )
    for dist in ("weibull", "lognormal", "loglogistic", "exponential", "rayleigh"):
        for kind in ("right", "mixed"):
            yield (
                f"ParametricSurvival {dist} {kind}",
                lambda dist=dist, kind=kind: fit(
                    atm.ParametricSurvival(0.0 if kind == "right" else 3.0, dist=dist), KINDS[kind](), errors="sandwich"
                ),
            )
    yield "OrdinalRegression binary", lambda: fit(atm.OrdinalRegression(1.0), Y > 3, at=(False,), tell=False)
    yield "OrdinalRegression numbers", lambda: fit(atm.OrdinalRegression(1.0), CODES * 2.0, at=(0.0, 4.0))
    yield "CountRegression censored", lambda: fit(atm.CountRegression(1.0, order=2), KINDS["censored counts"]())
    yield (
        "CountRegression in y",
        lambda: fit(atm.CountRegression(1.0, order=2, log_first=False, support=(1, 8)), COUNTS, errors="sandwich"),
    )


def by_baseline() -> Iterator[Case]:
    """Make fits with each option of the baseline."""
    for name, options in {
        "order 1": {"order": 1},
        "order 6": {"order": 6},
        "support": {"order": 4, "support": (1.5, 6.0)},
        "log_first": {"order": 3, "log_first": True},
        "natural": {"order": 4, "extrapolate": "natural"},
        "log natural": {"order": 4, "extrapolate": "natural", "log_first": True},
    }.items():
        for make, kind in ((atm.ContinuousLogit, "exact"), (atm.ProportionalHazards, "right")):
            yield (
                f"{make.__name__} {name}",
                lambda make=make, kind=kind, options=options: fit(
                    make(1.0, **options), KINDS[kind](), errors="sandwich"
                ),
            )


def by_anchors() -> Iterator[Case]:
    """Make fits of every strength, with anchors of every type."""
    two = X[["x", "z"]]
    for xi in (0.0, 1.0, 10.0, math.inf, -0.5, -0.25):
        for name, anchors in {"numeric": YEAR, "two sites": PART, "frame": TABLE[["year", "part"]]}.items():
            yield (
                f"NormalLinear {name} anchors xi={xi:g}",
                lambda xi=xi, anchors=anchors: fit(atm.NormalLinear(xi), Y, two, anchors=anchors),
            )
    for xi in (0.5, 5.0, math.inf):
        for make in (atm.ContinuousProbit, atm.ContinuousLogit, atm.Lehmann):
            yield (
                f"{make.__name__} numeric anchors xi={xi:g}",
                lambda make=make, xi=xi: fit(make(xi, order=3), Y, two, anchors=YEAR),
            )
        yield (
            f"OrdinalRegression numeric anchors xi={xi:g}",
            lambda xi=xi: fit(atm.OrdinalRegression(xi), KINDS["classes"](), two, anchors=YEAR, at=("b",)),
        )
        yield (
            f"ProportionalHazards factor anchors xi={xi:g}",
            lambda xi=xi: fit(atm.ProportionalHazards(xi, order=3), KINDS["right"](), anchors=PART),
        )
    yield "words as anchors", lambda: fit(atm.ContinuousLogit(2.0, order=3), Y, anchors=WORDS)
    yield "no anchors", lambda: fit(atm.ContinuousLogit(order=3), Y, anchors=None, errors="hessian")
    yield (
        "no anchor_intercept",
        lambda: fit(atm.ContinuousProbit(3.0, order=3, anchor_intercept=False), Y, anchors=YEAR),
    )
    for name in ("site", "year"):
        yield (
            f"anchor_names {name}",
            lambda name=name: fit(
                atm.ContinuousLogit(2.0, order=3, anchor_names=name), Y, TABLE[["x", "z", name]], anchors=None
            ),
        )
    yield "no covariates", lambda: fit(atm.ContinuousLogit(order=3), Y, X[[]], anchors=None, new=X[[]].iloc[:2])


def by_data() -> Iterator[Case]:
    """Make fits with weights, offsets, arrays, sparse and wide covariates."""
    zero = WEIGHTS * (np.arange(N) % 5 > 0)
    for make in (atm.NormalLinear, atm.ContinuousLogit, atm.ProportionalHazards):
        options = {} if make is atm.NormalLinear else {"order": 3}
        yield (
            f"{make.__name__} weights",
            lambda make=make, options=options: fit(make(2.0, **options), mixed(), sample_weight=WEIGHTS),
        )
        yield (
            f"{make.__name__} offset",
            lambda make=make, options=options: fit(
                make(2.0, **options), KINDS["right"](), offset=OFFSET, errors="sandwich"
            ),
        )
        yield (
            f"{make.__name__} both, arrays",
            lambda make=make, options=options: fit(
                make(1.0, **options), Y, X.to_numpy(), offset=OFFSET, sample_weight=zero
            ),
        )
    dummies = np.eye(12)[np.arange(N) % 12][:, 1:]
    thin = sparse.csr_array(np.column_stack([X.x, dummies]))
    for xi in (0.0, 2.0):
        yield f"sparse xi={xi:g}", lambda xi=xi: fit(atm.ContinuousLogit(xi, order=3), Y, thin, anchors=YEAR)
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(
        {"a": rng.normal(size=600), "h": [f"h{k % 110:03d}" for k in range(600)], "year": np.arange(600) / 600}
    )
    wide["y"] = 0.5 * wide.a + 0.3 * rng.normal(size=110)[np.arange(600) % 110] + wide.year + rng.logistic(size=600)
    for make, xi in ((atm.NormalLinear, 0.0), (atm.NormalLinear, 2.0), (atm.ContinuousLogit, 0.0)):
        options = {} if make is atm.NormalLinear else {"order": 2}

        def run(make: Any = make, xi: float = xi, options: Any = options) -> dict[str, Any]:
            model = make.from_formula("y ~ a + h | N(year)", wide, xi=xi, **options)
            record = found(model)
            return record | {
                "coef": np.asarray(record["coef"])[:8],
                "cdf": model.predict_distribution(wide[:3]).cdf(0.0),
            }

        yield f"wide factor {make.__name__} xi={xi:g}", run


def by_family() -> Iterator[Case]:
    """Make generalised linear models with every family, link and kind of residual."""
    links = {
        "poisson": ("log", "identity", "sqrt"),
        "binomial": ("logit", "probit", "cloglog", "loglog", "log"),
        "gamma": ("log", "inverse", "identity"),
        "negative_binomial": ("log", "identity", "sqrt"),
        "gaussian": ("identity", "log"),
    }
    outcomes = {"poisson": COUNTS, "binomial": Y > 3, "negative_binomial": COUNTS}
    few = X[["x", "z"]].clip(-2, 2)
    seldom = np.random.default_rng(6).random(N) < np.exp(-1.5 + 0.2 * few.x.to_numpy())
    for family, names in links.items():
        for k, link in enumerate(names):
            rare = (family, link) == ("binomial", "log")  # a log link wants probabilities far from one
            y = seldom if rare else outcomes.get(family, Y)
            for residual in ("score", "deviance"):
                xi = 2.0 if residual == "deviance" or k % 2 else 0.5
                yield (
                    f"AnchorGLM {family} {link} {residual}",
                    lambda family=family, link=link, residual=residual, xi=xi, y=y: fit(
                        atm.AnchorGLM(xi, family=family, link=link, residual=residual),
                        y,
                        few,
                        errors="sandwich",
                        at=(0.0, 1.0) if family == "binomial" else (2.0, 3.0),
                    ),
                )
        yield (
            f"AnchorGLM {family} xi=0",
            lambda family=family: fit(
                atm.AnchorGLM(family=family),
                outcomes.get(family, Y),
                few,
                errors="hessian",
                sample_weight=WEIGHTS,
                offset=OFFSET,
            ),
        )
    spread = np.random.default_rng(5).negative_binomial(2, 0.3, N)
    yield (
        "AnchorGLM alpha by ml",
        lambda: fit(atm.AnchorGLM(1.0, family="negative_binomial", alpha="ml"), spread, few),
    )
    yield "AnchorGLM gamma dispersion by ml", lambda: fit(atm.AnchorGLM(1.0, family="gamma", dispersion="ml"), Y, few)
    yield (
        "AnchorGLM quasi-Poisson",
        lambda: fit(atm.AnchorGLM(family="poisson", dispersion="pearson"), COUNTS, few, errors="hessian"),
    )
    yield (
        "AnchorGLM trials",
        lambda: fit(
            atm.AnchorGLM(1.0, family="binomial"), atm.Trials(np.minimum(COUNTS, 6), np.full(N, 6)), few, tell=False
        ),
    )
    yield "AnchorGLM gaussian l1", lambda: fit(atm.AnchorGLM(1.0, l1=0.05), Y, few)
    yield "AnchorGLM poisson l2", lambda: fit(atm.AnchorGLM(1.0, family="poisson", l2=0.1), COUNTS, few)


def by_risk_sets() -> Iterator[Case]:
    """Make fits of the Cox model: ties, strata, delayed entry, weights, nets."""
    tied = atm.Surv(np.ceil(2.0 * np.minimum(Y, LIMIT)) / 2.0, Y <= LIMIT)
    late = KINDS["entry"]()
    for ties in ("efron", "breslow"):
        for xi in (0.0, 3.0):
            for name, y, options, data in (
                ("ties", tied, {}, {}),
                ("entry", late, {}, {}),
                ("strata", tied, {"strata": "part"}, {}),
                ("weights and offset", tied, {}, {"sample_weight": np.ceil(WEIGHTS), "offset": OFFSET}),
            ):
                columns = X.assign(part=PART) if options else X
                yield (
                    f"CoxPH {ties} {name} xi={xi:g}",
                    lambda ties=ties, xi=xi, y=y, options=options, data=data, columns=columns: fit(
                        atm.CoxPH(xi, ties=ties, **options), y, columns, errors=None if data else "sandwich", **data
                    ),
                )
    yield "CoxPH l1", lambda: fit(atm.CoxPH(1.0, l1=0.05), tied)
    yield "CoxPH l2", lambda: fit(atm.CoxPH(1.0, l2=0.1), tied)
    yield "CoxPH xi=inf", lambda: fit(atm.CoxPH(math.inf), tied, anchors=PART)
    yield "CoxPH numeric anchors", lambda: fit(atm.CoxPH(5.0), late, anchors=YEAR)


def by_structure() -> Iterator[Case]:
    """Make fits with strata, effects that vary, scale effects and random effects."""
    parts, people = X.assign(part=PART), X[["x", "z"]].assign(person=PERSON)
    for xi in (0.0, 2.0):
        for kind in ("exact", "mixed", "entry"):
            yield (
                f"strata {kind} xi={xi:g}",
                lambda xi=xi, kind=kind: fit(
                    atm.ContinuousLogit(xi, order=2, strata="part"), KINDS[kind](), parts, errors="sandwich"
                ),
            )
            yield (
                f"varying {kind} xi={xi:g}",
                lambda xi=xi, kind=kind: fit(
                    atm.ProportionalHazards(xi, order=2, varying="z"), KINDS[kind](), errors="sandwich"
                ),
            )
            yield (
                f"scale {kind} xi={xi:g}",
                lambda xi=xi, kind=kind: fit(
                    atm.ContinuousLogit(xi, order=2, scale="z", xi_scale=0.5 * xi), KINDS[kind](), errors="sandwich"
                ),
            )
        for make in (atm.NormalLinear, atm.ContinuousProbit, atm.Lehmann):
            yield (
                f"scale {make.__name__} xi={xi:g}",
                lambda xi=xi, make=make: fit(
                    make(xi, scale=["x", "z"], **({} if make is atm.NormalLinear else {"order": 2})), Y
                ),
            )
        yield (
            f"strata and varying xi={xi:g}",
            lambda xi=xi: fit(atm.ContinuousProbit(xi, order=2, strata="part", varying="w"), Y, parts),
        )
        for name, options in {
            "varying": {"varying": "z"},
            "scale": {"scale": "z"},
            "strata": {"strata": "part"},
        }.items():
            columns = parts if name == "strata" else X
            yield (
                f"OrdinalRegression {name} xi={xi:g}",
                lambda xi=xi, options=options, columns=columns: fit(
                    atm.OrdinalRegression(xi, **options), KINDS["classes"](), columns, at=("b",)
                ),
            )
        yield (
            f"CountRegression strata xi={xi:g}",
            lambda xi=xi: fit(atm.CountRegression(xi, order=2, strata="part"), COUNTS, parts),
        )
        for name, make, y in (
            ("NormalLinear", atm.NormalLinear, Y),
            ("NormalLinear mixed", atm.NormalLinear, mixed()),
            ("ContinuousLogit", lambda xi, **more: atm.ContinuousLogit(xi, order=2, **more), KINDS["right"]()),
            ("OrdinalRegression", atm.OrdinalRegression, KINDS["classes"]()),
            ("CountRegression", lambda xi, **more: atm.CountRegression(xi, order=2, **more), COUNTS),
        ):
            yield (
                f"random intercept {name} xi={xi:g}",
                lambda xi=xi, make=make, y=y: fit(make(xi, random="person"), y, people, tell=False),
            )
    yield (
        "random intercept, nodes",
        lambda: fit(
            atm.OrdinalRegression(random="person", n_nodes=5), KINDS["classes"](), people, at=("b",), tell=False
        ),
    )
    for formula in ("y ~ x + z + (1 + x | group) | site", "y ~ x + z + (0 + z | group) | site"):
        rows = TABLE.assign(
            group=np.arange(N) // 9, y=Y + 0.8 * np.random.default_rng(8).normal(size=10)[np.arange(N) // 9] * (1 + X.x)
        )
        yield (
            f"random slope {formula}",
            lambda formula=formula, rows=rows: found(atm.NormalLinear.from_formula(formula, rows, xi=0.0)),
        )


def by_penalty() -> Iterator[Case]:
    """Make fits with elastic nets and smooth terms."""
    rng = np.random.default_rng(4)
    many = pd.DataFrame(rng.normal(size=(N, 8)), columns=list("abcdefgh")).assign(x=X.x)
    for xi in (0.0, 2.0):
        for name, options in {
            "l1": {"l1": 0.05},
            "l2": {"l2": 0.2},
            "l1 and l2": {"l1": 0.03, "l2": 0.1},
            "penalty_factor": {"l1": 0.05, "penalty_factor": [1, 1, 0, 2, 1, 1, 0.5, 1, 0]},
        }.items():
            for make, kind in ((atm.NormalLinear, "exact"), (atm.ContinuousLogit, "right")):
                more = {} if make is atm.NormalLinear else {"order": 3}
                yield (
                    f"{make.__name__} {name} xi={xi:g}",
                    lambda make=make, xi=xi, options=options, more=more, kind=kind: fit(
                        make(xi, **options, **more), KINDS[kind](), many
                    ),
                )
        yield (
            f"OrdinalRegression l1 xi={xi:g}",
            lambda xi=xi: fit(atm.OrdinalRegression(xi, l1=0.04), KINDS["classes"](), many, at=("b",)),
        )
        for name, make, formula in (
            ("NormalLinear", atm.NormalLinear, "y ~ s(x, 6) + z | site"),
            ("ContinuousLogit", atm.ContinuousLogit, "Surv(time, event) ~ s(x, 5) + s(z, 5) | site"),
            ("CoxPH", atm.CoxPH, "Surv(time, event) ~ s(x, 5) | site"),
            ("AnchorGLM", atm.AnchorGLM, "y ~ s(x, 5) + w | year"),
        ):
            more = {"order": 3} if name == "ContinuousLogit" else {}

            def run(make: Any = make, formula: str = formula, more: Any = more, xi: float = xi) -> dict[str, Any]:
                model = make.from_formula(formula, TABLE, xi=xi, smooth=0.05, **more)
                effects = model.smooth_effects(
                    "s(x, 6)" if make is atm.NormalLinear else "s(x, 5)", at=np.array([-1.0, 0.5])
                ).select_dtypes("number")
                return found(model) | told(model, TABLE[:3], None, TABLE) | {"effects": np.ravel(effects.to_numpy())}

            yield f"smooth {name} xi={xi:g}", run


def by_formula() -> Iterator[Case]:
    """Make models from formulas: outcomes, terms, strata, offsets and weights by name."""
    for make, formula, options in (
        (atm.ContinuousLogit, "Surv(time, event) ~ x + C(part) | site", {"order": 3, "xi": 2.0}),
        (atm.ContinuousLogit, "Surv(time, event, entry) ~ x + z | site", {"order": 3, "xi": 2.0}),
        (atm.ContinuousProbit, "y ~ bs(x, 4, extrapolation='clip') | N(part)", {"order": 3, "xi": 1.0}),
        (atm.ContinuousProbit, "y ~ poly(x, 2) + x:w | site + year", {"order": 3, "xi": 1.0}),
        (atm.ContinuousLogit, "y | part ~ x + z | site", {"order": 2, "xi": 1.0}),
        (atm.NormalLinear, "y ~ site + x | 0", {"offset": "shift", "sample_weight": "weight"}),
        (atm.NormalLinear, "y ~ site * x | year", {"offset": "shift", "xi": 4.0}),
        (atm.CountRegression, "count ~ x + z | site", {"order": 2, "xi": 1.0}),
        (atm.OrdinalRegression, "ordered(grade, 0, 1, 2, 3) ~ x + z | site", {"xi": 1.0}),
        (atm.AnchorGLM, "fine ~ x + z | site", {"family": "binomial", "xi": 1.0}),
        (atm.AnchorGLM, "count ~ x + z | site", {"family": "poisson", "offset": "shift"}),
        (atm.LinearAnchorRegression, "y ~ x + z | site", {"gamma": 4.0}),
    ):

        def run(make: Any = make, formula: str = formula, options: Any = options) -> dict[str, Any]:
            model = make.from_formula(formula, TABLE, **options)
            record = found(model)
            if make is atm.LinearAnchorRegression:
                return record | {"predicted": model.predict(TABLE[:3])}
            return record | {
                "nll": model.nll(TABLE).sum(),
                "cdf": np.ravel(model.predict_distribution(TABLE[:3]).cdf(2)),
            }

        yield f"{make.__name__} {formula} {len(options)}", run


def by_dataset() -> Iterator[Case]:
    """Make fits to the data sets of the package."""
    data = atm.datasets
    boston, cgd = data.load_boston_housing2(), data.load_cgd().query("center != 'L.A. Children''s Hosp'")
    wine, ticks, geyser = data.load_wine(), data.load_grouseticks(), data.load_geyser()
    for xi in (0.0, 10.0):
        for name, make, formula, rows, options in (
            ("boston", atm.ContinuousLogit, "Surv(cmedv, cmedv < 50) ~ crim + rm + lstat | town", boston, {"order": 4}),
            ("boston", atm.NormalLinear, "cmedv ~ crim + rm + lstat | town", boston, {}),
            (
                "cgd",
                atm.ProportionalHazards,
                "Surv(tstop, status) ~ treat + age | center",
                cgd,
                {"order": 3, "log_first": True},
            ),
            ("cgd", atm.CoxPH, "Surv(tstop, status) ~ treat + age | center", cgd, {}),
            ("wine", atm.OrdinalRegression, "rating ~ temp + contact | judge", wine, {}),
            ("wine", atm.OrdinalRegression, "rating ~ temp + contact + (1 | judge) | bottle", wine, {}),
            ("grouseticks", atm.CountRegression, "TICKS ~ cHEIGHT | YEAR", ticks, {"order": 3}),
            ("grouseticks", atm.AnchorGLM, "TICKS ~ cHEIGHT | YEAR", ticks, {"family": "negative_binomial"}),
            ("geyser", atm.ContinuousProbit, "waiting ~ duration | 0", geyser, {"order": 6}),
        ):
            if xi and name == "geyser":
                continue

            def run(
                make: Any = make, formula: str = formula, rows: Any = rows, xi: float = xi, options: Any = options
            ) -> Any:
                model = make.from_formula(formula, rows, xi=xi, **options)
                return found(model) | {"nll": 0.0 if "(1 |" in formula else model.nll(rows).sum()}

            yield f"{name} {make.__name__} {formula} xi={xi:g}", run


def boosted() -> Iterator[Case]:
    """Make boosted models and the competitors."""
    few = X[["x", "z"]]
    for learner in ("tree", "linear+tree", "linear"):
        for name, base, kind, at in (
            ("logit", atm.ContinuousLogit(order=3), "right", (2.0, 4.0)),
            ("normal", atm.NormalLinear(), "exact", (2.0, 4.0)),
            ("ordinal", atm.OrdinalRegression(), "classes", ("b",)),
            ("count", atm.CountRegression(order=2), "counts", (2.0, 4.0)),
        ):
            for xi in (0.0, 3.0):
                if xi and name == "count":
                    continue
                yield (
                    f"AnchorBoostedTM {name} {learner} xi={xi:g}",
                    lambda base=base, kind=kind, xi=xi, learner=learner, at=at: fit(
                        atm.AnchorBoostedTM(
                            base, xi, learner=learner, n_rounds=8, min_samples_leaf=10, max_leaf_nodes=4
                        ),
                        KINDS[kind](),
                        few,
                        at=at,
                        new=few[:2],
                    ),
                )
    yield (
        "AnchorBoosting",
        lambda: {
            "predicted": atm.AnchorBoosting(3.0, 5, base="tree", random_state=0)
            .fit(few, Y, anchors=SITE)
            .predict(few[:4])
        },
    )
    for gamma in (0.0, 1.0, 7.0):
        yield (
            f"LinearAnchorRegression gamma={gamma:g}",
            lambda gamma=gamma: {"coef": atm.LinearAnchorRegression(gamma).fit(few, Y, anchors=SITE).coef_},
        )


def numbers(frame: Any) -> dict[str, Any]:
    """Return the numeric columns of a table, without what is rounding error or a count of steps."""
    frame = frame.reset_index(drop=True)
    skipped = ("kkt", "min_eigenvalue", "n_iter", "seconds", "convexity")
    columns = [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c]) and c not in skipped]
    return {str(c): frame[c].to_numpy(dtype=float) for c in columns}


def searches() -> Iterator[Case]:
    """Make what refits: paths, left-out environments, searches."""
    few, logit = X[["x", "z"]], atm.ContinuousLogit(order=2)
    xis = [0.0, 1.0, 10.0, math.inf]
    for name, model, kind in (
        ("NormalLinear", atm.NormalLinear(), "exact"),
        ("ContinuousLogit", logit, "right"),
        ("OrdinalRegression", atm.OrdinalRegression(), "classes"),
        ("CoxPH", atm.CoxPH(), "right"),
        ("AnchorGLM", atm.AnchorGLM(family="poisson"), "counts"),
        ("random", atm.NormalLinear(random="person"), "exact"),
        ("strata", atm.ContinuousLogit(order=2, strata="part"), "exact"),
        ("scale", atm.ContinuousLogit(order=2, scale="z"), "exact"),
    ):
        more = {"random": few.assign(person=PERSON), "strata": few.assign(part=PART)}.get(name, few)
        here = xis[:3] if name in ("random", "scale") else xis
        yield (
            f"anchor_path {name}",
            lambda model=model, kind=kind, more=more, here=here: numbers(
                atm.anchor_path(model, more, KINDS[kind](), PART, here).frame()
            ),
        )
    for name, model, kind in (
        ("NormalLinear", atm.NormalLinear(), "exact"),
        ("ContinuousLogit", logit, "mixed"),
        ("OrdinalRegression", atm.OrdinalRegression(), "classes"),
        ("CoxPH", atm.CoxPH(), "right"),
        ("AnchorGLM", atm.AnchorGLM(family="gamma"), "exact"),
    ):
        yield (
            f"leave_one_environment_out {name}",
            lambda model=model, kind=kind: numbers(
                atm.leave_one_environment_out(model, few, KINDS[kind](), SITE, [0.0, 5.0]).frame()
            ),
        )
    yield (
        "leave_one_environment_out numeric",
        lambda: numbers(atm.leave_one_environment_out(logit, few, Y, YEAR, [0.0, 5.0], cut=3).frame()),
    )
    for name, search in (
        ("worst", atm.XiSearchCV(atm.NormalLinear(), (0.0, 1.0, 10.0), "worst", rule="smallest")),
        ("mean", atm.XiSearchCV(logit, (0.0, 1.0, 10.0), "mean", one_standard_error=True, rule="smallest")),
        ("quantile", atm.XiSearchCV(atm.OrdinalRegression(), (0.0, 2.0), 0.9, rule="smallest")),
        (
            "boosted",
            atm.XiSearchCV(
                atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=4, min_samples_leaf=10),
                (0.0, 3.0),
                "worst",
                rule="smallest",
            ),
        ),
        ("paired", atm.XiSearchCV(logit, (0.0, 1.0, 10.0))),
    ):

        def run(search: Any = search, y: Any = CODES if name == "quantile" else Y) -> dict[str, Any]:
            search.fit(few, y, anchors=SITE)
            return numbers(search.results_) | {"best": search.best_xi_, "nll": search.nll(few, y).sum()}

        yield f"XiSearchCV {name}", run

    def net() -> dict[str, Any]:
        search = atm.ElasticNetCV(atm.NormalLinear(), (0.0, 5.0), None, "worst", n_lambdas=4, rule="smallest")
        search.fit(X, Y, anchors=SITE)
        return numbers(search.results_) | {
            "best": [search.best_lambda_, search.best_xi_],
            "nll": search.nll(X, Y).sum(),
        }

    def smooth() -> dict[str, Any]:
        search = atm.SmoothSearchCV(atm.NormalLinear(), (0.0, 5.0), (1.0, 0.01), "worst", rule="smallest")
        search.fit("y ~ s(x, 5) + z | site", TABLE)
        return numbers(search.results_) | {"best": [search.best_smooth_, search.best_xi_]}

    yield "ElasticNetCV", net
    yield "SmoothSearchCV", smooth
    for name, model, kind in (("NormalLinear", atm.NormalLinear(), "exact"), ("ContinuousLogit", logit, "right")):
        yield (
            f"elastic_net_path {name}",
            lambda model=model, kind=kind: {
                "coefs": atm.elastic_net_path(model, X, KINDS[kind](), SITE, (0.0, 4.0), n_lambdas=5).coefs.ravel()
            },
        )
    yield (
        "xi_by_score_test",
        lambda: numbers(atm.xi_by_score_test(atm.NormalLinear(), few, Y, SITE, level=0.2).frame()),
    )


def inference() -> Iterator[Case]:
    """Make standard errors, bands, tests, effects, diagnostics and scores."""
    few = X[["x", "z"]]

    def of(model: Any, kind: str = "exact", columns: Any = few) -> Any:
        return model.fit(columns, KINDS[kind](), anchors=SITE)

    for name, make, kind in (
        ("NormalLinear", lambda: atm.NormalLinear(2.0), "exact"),
        ("ContinuousLogit", lambda: atm.ContinuousLogit(2.0, order=2), "right"),
        ("OrdinalRegression", lambda: atm.OrdinalRegression(), "classes"),
        ("CoxPH", lambda: atm.CoxPH(1.0), "right"),
        ("l1", lambda: atm.NormalLinear(1.0, l1=0.05), "exact"),
    ):
        yield (
            f"bootstrap {name}",
            lambda make=make, kind=kind: {
                "draws": of(make(), kind).bootstrap(4, clusters=PERSON, random_state=1).draws.ravel()
            },
        )
    for name, make, kind in (
        ("ContinuousLogit", lambda: atm.ContinuousLogit(2.0, order=3), "mixed"),
        ("CoxPH", lambda: atm.CoxPH(2.0), "right"),
        ("AnchorGLM", lambda: atm.AnchorGLM(2.0, family="gamma"), "exact"),
    ):
        yield (
            f"clustered sandwich {name}",
            lambda make=make, kind=kind: {"covariance": of(make(), kind).covariance("sandwich", PERSON).ravel()},
        )
        yield (
            f"intervals {name}",
            lambda make=make, kind=kind: numbers(of(make(), kind).intervals(0.9, clusters=np.arange(N))),
        )
    for what in ("cdf", "ppf"):
        yield (
            f"confidence_band {what}",
            lambda what=what: {
                name: getattr(
                    of(atm.ContinuousLogit(order=3)).confidence_band(
                        few[:2], [2.0, 4.0] if what == "cdf" else [0.3, 0.6], what
                    ),
                    name,
                ).ravel()
                for name in ("estimate", "lower", "upper")
            },
        )
    for name, model, kind in (
        ("NormalLinear", atm.NormalLinear(), "exact"),
        ("ContinuousLogit", atm.ContinuousLogit(order=2), "mixed"),
        ("OrdinalRegression", atm.OrdinalRegression(), "classes"),
        ("CountRegression", atm.CountRegression(order=2), "counts"),
        ("AnchorGLM", atm.AnchorGLM(family="poisson"), "counts"),
        ("CoxPH", atm.CoxPH(), "right"),
    ):

        def run(model: Any = model, kind: str = kind) -> dict[str, Any]:
            test = atm.diagnostics.score_test(model, few, KINDS[kind](), SITE)
            return {"statistic": test.statistic, "df": test.df, "pvalue": test.pvalue}

        yield f"score_test {name}", run

    def ratio() -> dict[str, Any]:
        small, large = of(atm.ContinuousLogit(order=2), columns=few[["x"]]), of(atm.ContinuousLogit(order=2))
        test = atm.likelihood_ratio_test(small, large)
        return {"statistic": test.statistic, "df": test.df, "pvalue": test.pvalue}

    yield "likelihood_ratio_test", ratio
    yield (
        "proportionality_test",
        lambda: numbers(atm.proportionality_test(atm.ContinuousLogit(order=2), few, KINDS["right"]()).frame()),
    )
    yield (
        "varying_effects",
        lambda: numbers(
            of(atm.ContinuousLogit(1.0, order=2, varying="z")).varying_effects([2.0, 4.0], kind="sandwich")
        ),
    )
    for of_what, more in (("median", {}), ("probability", {"above": 3.0})):
        yield (
            f"marginal_effects {of_what}",
            lambda of_what=of_what, more=more: numbers(
                atm.marginal_effects(of(atm.ContinuousLogit(order=2)), few, of_what, **more).frame()
            ),
        )
    yield "first_stage", lambda: numbers(atm.diagnostics.first_stage(few, SITE).frame())
    yield (
        "residual_invariance",
        lambda: numbers(
            atm.diagnostics.residual_invariance(of(atm.NormalLinear()), of(atm.NormalLinear(9.0)), few, Y, SITE).frame()
        ),
    )
    yield (
        "over_identification",
        lambda: numbers(
            atm.diagnostics.over_identification(
                atm.anchor_path(atm.NormalLinear(), few, Y, SITE, [0.0, 1.0, 100.0]), few
            ).frame()
        ),
    )
    yield (
        "calibration",
        lambda: numbers(atm.diagnostics.calibration(of(atm.ContinuousLogit(order=2)), few, Y, SITE).frame()),
    )
    yield (
        "score_table",
        lambda: numbers(atm.scores.score_table(of(atm.ContinuousLogit(order=2)), few, Y, SITE).frame()),
    )
    yield (
        "scores",
        lambda: {
            "crps": atm.scores.crps(of(atm.ContinuousProbit(order=2)).predict_distribution(few), Y).sum(),
            "coverage": atm.scores.coverage(of(atm.ContinuousProbit(order=2)).predict_distribution(few), Y).sum(),
            "pit": atm.scores.pit(of(atm.ContinuousProbit(order=2)).predict_distribution(few), Y).sum(),
            "concordance": atm.scores.concordance(-X.x.to_numpy(), KINDS["right"]()),
        },
    )
    yield (
        "predict_table",
        lambda: numbers(
            atm.predict_table(
                atm.ContinuousLogit.from_formula("y ~ x + z | site", TABLE, order=2, xi=1.0),
                TABLE[:4],
                quantiles=(0.1, 0.9),
                cdf=(2.0,),
                sf=(4.0,),
                extrapolation=True,
            )
        ),
    )
    yield "extrapolation", lambda: numbers(of(atm.ContinuousLogit(order=2)).extrapolation(few[:5] * 1.5, Y[:5]))
    for name in ("la", "iv1", "iv2", "nla"):

        def draw(name: str = name) -> dict[str, Any]:
            train = atm.scenarios.scenario(name).draw(3).train
            return {"X": np.asarray(train.X)[:3].ravel(), "Y": np.asarray(train.Y, dtype=float)[:5]}

        yield f"scenario {name}", draw


def others() -> Iterator[Case]:
    """Make what remains: restarts, threads, files, batches, effects of clusters, stages of boosting."""
    few, people = X[["x", "z"]], X[["x", "z"]].assign(person=PERSON)
    for make in (atm.NormalLinear, atm.ContinuousLogit):
        more = {} if make is atm.NormalLinear else {"order": 2}
        yield (
            f"smooth 0 {make.__name__}",
            lambda make=make, more=more: found(make.from_formula("y ~ s(x, 5) + z", TABLE, smooth=0.0, **more)),
        )
    yield "n_restarts", lambda: fit(atm.ContinuousLogit(3.0, order=2, n_restarts=3, random_state=1), Y, few)
    yield "n_jobs", lambda: fit(atm.ContinuousLogit(3.0, order=2, n_jobs=2), mixed(), few)
    for name, model, y, at in (
        ("NormalLinear", atm.NormalLinear(1.0, random="person"), Y, [2.0, 4.0]),
        ("OrdinalRegression", atm.OrdinalRegression(random="person"), KINDS["classes"](), ["b"]),
    ):

        def clusters(model: Any = model, y: Any = y, at: Any = at) -> dict[str, Any]:
            model.fit(people, y, anchors=SITE)
            return {
                "marginal": np.ravel(model.predict_distribution(people[:3]).cdf(at)),
                "conditional": np.ravel(model.predict_distribution(people[:3], conditional=True).cdf(at)),
                "effects": np.ravel(model.random_effects_.select_dtypes("number").to_numpy())[:8],
            }

        yield f"clusters {name}", clusters

    def again() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            model = atm.ContinuousLogit.from_formula("y ~ s(x, 5) + part | site", TABLE, order=2, xi=1.0)
            loaded = atm.load(atm.save(model, Path(folder) / "m.json"))
        return found(loaded) | {"nll": loaded.nll(TABLE).sum(), "errors": loaded.standard_errors()}

    def batches() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            TABLE.to_parquet(Path(folder) / "rows.parquet")
            model = atm.ContinuousLogit.from_formula("Surv(time, event) ~ x + z | site", folder, order=2, xi=1.0)
        return found(model)

    yield "saved and loaded", again
    yield "in batches", batches

    def scaled() -> dict[str, Any]:
        model = atm.ContinuousProbit(1.0, order=2, scale="z").fit(few, Y, anchors=SITE)
        return {"residuals": model.residuals(few, Y, which="scale")[:9]}

    yield "residuals of the scale", scaled
    yield (
        "baseline_hazard_",
        lambda: {
            name: values[:8]
            for name, values in numbers(
                atm.CoxPH(1.0).fit(few, KINDS["right"](), anchors=SITE).baseline_hazard_
            ).items()
        },
    )
    yield (
        "mean_intervals",
        lambda: numbers(atm.AnchorGLM(family="gamma").fit(few, Y, anchors=SITE).mean_intervals(few[:3])),
    )

    def stages() -> dict[str, Any]:
        base = atm.AnchorBoostedTM(atm.NormalLinear(), 2.0, n_rounds=6, min_samples_leaf=10).fit(few, Y, anchors=SITE)
        return {"staged": base.staged(3).nll(few, Y).sum(), "refitted": base.refit(few[:30], Y[:30]).nll(few, Y).sum()}

    yield "stages and refit of boosting", stages


GROUPS = (by_kind, by_link, by_baseline, by_anchors, by_data, by_family, by_risk_sets, by_structure, by_penalty)
GROUPS += (by_formula, by_dataset, boosted, searches, inference, others)


def cases() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all cases by name."""
    made: dict[str, Callable[[], dict[str, Any]]] = {}
    for group in GROUPS:
        for name, run in group():
            if name in made:
                raise ValueError(f"two cases are called {name!r}")
            made[name] = run
    return made


def run_case(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a case. What it warns of is not part of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(run())


def made_with() -> dict[str, str]:
    """Return what decides about the last digits: machine and versions."""
    return {
        "machine": platform.machine(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def main() -> None:
    record = {name: run_case(run) for name, run in cases().items()}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(case)}" for name, case in record.items())
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(f'{{"made_with": {json.dumps(made_with())},\n"cases": {{\n{lines}\n}}}}\n')
    print(f"{FILE}: {len(record)} cases, {FILE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
