"""The table of what can be combined: parts of a model, engines, places of rows, ends of the path, questions.

The checks, the page of the guide on combinations and the tests all read this table. Every pair can be combined unless
``REASONS`` has it. To add a part, name it in ``NAMES`` and ``PARTS``, and give a reason for each pair that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product

from anchortm.exceptions import InputError, InputTypeError

__all__ = [
    "ENDS",
    "ENGINES",
    "NAMES",
    "PARTS",
    "PLACES",
    "QUESTIONS",
    "REASONS",
    "cells",
    "refusal",
    "refuse",
    "why_not",
]

PARTS = (
    *("strata", "varying", "scale", "random", "l1", "l2", "smooth", "offset", "weights", "environment_weights"),
    *("anchor_weights", "tail", "target", "proxies", "wide", "boosting"),
)
ENGINES = ("transformation", "mean", "partial")
PLACES = ("memory", "batches", "sites")
ENDS = ("infinite",)
QUESTIONS = (
    *("path", "left_out", "bootstrap", "searches", "score_test", "invariance", "sandwich", "bands", "saving"),
    "places",
)

# what messages call them
NAMES = {
    "strata": "strata",
    "varying": "varying effects",
    "scale": "scale effects",
    "random": "random effects",
    "l1": "an l1 penalty",
    "l2": "an l2 penalty",
    "smooth": "smooth terms",
    "offset": "an offset",
    "weights": "weights",
    "environment_weights": "environment weights",
    "anchor_weights": "anchor weights",
    "wide": "a sparse X or factors of more than 100 levels",
    "tail": "a tail share",
    "worst": "WorstEnvironment",
    "target": "a target of the anchors",
    "proxies": "proxies of the anchors",
    "boosting": "boosting",
    "transformation": "a transformation model",
    "partial": "CoxPH",
    "mean": "AnchorGLM",
    "memory": "rows in memory",
    "batches": "tables that are read in batches",
    "sites": "sites that share sums only",
    "infinite": "xi = inf",
    "negative": "xi below 0",
    "path": "a path in xi",
    "left_out": "left-out environments",
    "bootstrap": "the bootstrap",
    "searches": "searches for xi",
    "score_test": "score tests",
    "invariance": "invariance tests",
    "sandwich": "the sandwich",
    "bands": "confidence bands",
    "saving": "saving",
    "places": "shifts between places",
}
# kinds of models, tables and learners, and questions; a wrong combination of two of them is a type error
KINDS = {"partial", "mean", "batches", "sites", "boosting", *QUESTIONS}

_ONE_SCALE = "random effects are implemented for one scale; leave one of them out"
_NO_BASELINE = "a partial likelihood does not estimate a baseline; use ProportionalHazards"
_MEAN = (
    "a generalised linear model has no baseline in y; use CountRegression, OrdinalRegression or ContinuousProbit, or "
    "put the stratum among the covariates, as C(stratum)"
)
_CLUSTERS_APART = (
    "the integral over the effects of a cluster needs all its rows at once, and rows of a cluster may be in several "
    "batches; read the table into memory first, or give the clusters as anchors"
)
_NOT_NEGATIVE = "xi below 0 is implemented without random effects and penalties on coefficients; set xi to 0 or more"

_TARGET_IS_XI = (
    "the mean and the covariance at the target replace xi, and there is nothing to choose; fit the model once, or "
    "leave the target out"
)
_FORM = (
    "the penalty depends on the covariance of the anchors in ways that the formulas do not cover; use the bootstrap, "
    "or leave it out"
)
_FORMS = ("target", "proxies")

_PENALISED = (
    "a penalty moves coefficients away from where their scores are 0, so that the statistic does not have its "
    "distribution; set the penalty to 0, or choose xi by a search"
)

_KINKED = "the loss has kinks, so its minimum is not normally distributed, even with many rows; use kind='bootstrap'"

_APART = "the rows of other sites are not available"
_AT_SITES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "sites",
        ("smooth",),
        "knots are quantiles, and an exact quantile is the value of a row; write powers such as I(x**2)",
    ),
    (
        "sites",
        ("environment_weights", "anchor_weights"),
        "weights of environments that depend on all sites are not implemented; leave them out",
    ),
    (
        "sites",
        ("tail", "worst"),
        "the loss of single environments would have to leave their sites; leave it out",
    ),
    ("sites", ("target", "proxies"), "it is implemented for rows in memory; leave it out"),
    (
        "sites",
        ("wide",),
        "a level of a factor needs at least 5 rows at a site, and a factor at most 40 levels; merge levels",
    ),
    ("sites", ("boosting",), f"each split of a tree needs the rows of its node, and {_APART}; fit a linear model"),
    (
        "sites",
        ("partial",),
        f"risk sets need the order of all rows, and {_APART}; use ProportionalHazards",
    ),
    (
        "sites",
        ("infinite", "negative"),
        "sites send |t|^2 in place of t, which the ends of the path need; set xi to a finite number from 0",
    ),
    ("sites", ("bootstrap",), f"it draws rows again, and {_APART}; use kind='sandwich'"),
    (
        "sites",
        ("searches",),
        "they split the rows; leave out sites with Coordinator.leave_one_site_out, and choose xi from its table",
    ),
    ("sites", ("score_test", "invariance"), f"it needs the residuals of rows, and {_APART}; compare left-out sites"),
    ("sites", ("places",), f"they are estimated from h of left-out rows, and {_APART}; compare left-out sites"),
)

# pairs that cannot be combined, with the reason and what to do
REASONS: dict[frozenset[str], str] = {
    frozenset(pair): reason
    for first, others, reason in (
        ("score_test", ("l1", "l2", "smooth"), _PENALISED),
        ("target", ("infinite", "negative", "path", "left_out", "searches"), _TARGET_IS_XI),
        ("target", ("proxies",), "the covariance of a target is for anchors without errors; leave one of them out"),
        (
            "proxies",
            ("infinite", "negative"),
            "the penalty of proxies needs a finite xi from 0; set xi to such a number",
        ),
        *((form, ("sandwich", "score_test", "invariance"), _FORM) for form in _FORMS),
        *(
            (form, ("scale", "random"), "it is implemented for the shift of h; leave one of them out")
            for form in _FORMS
        ),
        *((form, ("mean", "partial", "boosting"), "it is for transformation models; leave it out") for form in _FORMS),
        *((form, ("batches",), "it is implemented for rows in memory; read the table first") for form in _FORMS),
        (
            "target",
            ("places",),
            "predictions are already those of one target, not of an average over places; leave one of them out",
        ),
        (
            "invariance",
            ("l1", "l2", "smooth"),
            "a penalty moves coefficients away from where residuals and covariates are uncorrelated, so that the "
            "statistic does not have its distribution; set the penalty to 0, and write bs(x, 4) for s(x)",
        ),
        (
            "invariance",
            ("scale",),
            "residuals of a scaled baseline do not have mean 0, so that the statistic does not have its distribution; "
            "use strata or varying effects",
        ),
        (
            "invariance",
            ("random",),
            "the variance of the statistic is that of independent rows, and rows of a cluster are not; leave the "
            "random effects out, or take one row of each cluster",
        ),
        (
            "invariance",
            ("boosting",),
            "boosting stops before its residuals are uncorrelated with the covariates, so that the statistic does not "
            "have its distribution; test a linear model, with bs(x, 4) for curves",
        ),
        (
            "invariance",
            ("batches",),
            "environments are regressed on the covariates, which needs all rows at once; read the table into memory "
            "first",
        ),
        (
            "sandwich",
            ("l1",),
            "a coefficient that may be exactly 0 does not have a normal distribution, even with many rows; use "
            "kind='bootstrap', or fit the selected covariates without l1 to other rows",
        ),
        (
            "environment_weights",
            ("score_test", "invariance"),
            "the scores of weighted environments do not have the weighted information as their variance; leave "
            "environment_weights out, because the test asks about the residuals of all rows",
        ),
        (
            "negative",
            ("environment_weights", "anchor_weights"),
            "the loss stays bounded for xi from -1/2 if each row counts alike; set xi to 0 or more",
        ),
        ("scale", ("negative",), "xi below 0 is implemented for one scale; set xi to 0 or more"),
        ("negative", ("strata", "varying"), "xi below 0 is implemented for one baseline; set xi to 0 or more"),
        ("random", ("scale",), _ONE_SCALE),
        (
            "random",
            ("places",),
            "predictions are already averaged over the effects of new clusters; make the places clusters of a random "
            "intercept, (1 | place), or leave the random effects out",
        ),
        ("negative", ("random", "l1", "l2", "smooth"), _NOT_NEGATIVE),
        (
            "target",
            ("environment_weights", "anchor_weights", "tail", "worst"),
            "a target is implemented for numeric anchors whose rows count alike; leave one of them out",
        ),
        (
            "proxies",
            ("environment_weights", "anchor_weights", "tail", "worst"),
            "proxies are implemented for numeric anchors whose rows count alike; leave one of them out",
        ),
        ("tail", ("scale",), "residuals of the scale are penalised in all environments; leave one of them out"),
        ("tail", ("l1",), "kinks of coefficients and of environments are not implemented together; use l2"),
        ("tail", ("negative",), "xi below 0 removes the penalty of all environments; set xi to 0 or more"),
        ("tail", ("boosting",), "trees are grown on the penalty of all environments; leave tail out"),
        ("tail", ("sandwich",), _KINKED),
        ("worst", ("sandwich",), _KINKED),
        ("worst", ("environment_weights", "anchor_weights"), "losses are taken by place; use its own weights="),
        ("worst", ("tail",), "a worst-case fit has no anchor penalty, and tail is a share of it; leave tail out"),
        ("worst", ("scale", "random"), "the loss of a place is implemented for rows with one scale and no clusters"),
        ("worst", ("l1",), "kinks of coefficients and of places are not implemented together; use l2"),
        ("worst", ("partial",), "a partial likelihood is not a sum over places; use ProportionalHazards"),
        ("worst", ("boosting",), "trees are grown on the loss of all places; boost the model itself"),
        ("worst", ("path", "searches", "infinite", "negative"), "it has no xi; compare it with an anchored model"),
        ("worst", ("score_test", "invariance"), "scores are 0 at the maximum-likelihood fit; test the model itself"),
        ("partial", ("varying", "scale"), _NO_BASELINE),
        ("partial", ("random",), "frailties are not implemented for a partial likelihood; use ProportionalHazards"),
        ("partial", ("batches",), "risk sets need all rows at once; read the table first, or use ProportionalHazards"),
        ("mean", ("strata", "varying", "scale"), _MEAN),
        ("mean", ("batches",), "it is implemented for rows in memory; read the table into memory first"),
        ("batches", ("random",), _CLUSTERS_APART),
        (
            "batches",
            ("places",),
            "they are estimated from h of left-out rows, which must be available; read the table into memory first",
        ),
        ("boosting", ("scale",), "trees that change the scale of h are not implemented; use strata or varying effects"),
        ("boosting", ("random",), "trees with random effects are not implemented; give the clusters as anchors"),
        ("boosting", ("l1",), "boosting selects covariates by the splits of its trees; leave it out, or use l2"),
        ("boosting", ("partial",), "a partial likelihood is not a sum over rows; use ProportionalHazards"),
        ("boosting", ("batches",), "each split of a tree needs the rows of its node; read the table into memory first"),
        (
            "boosting",
            ("infinite",),
            "in the limit residuals must be uncorrelated with the anchors, and a sum of a few trees does not "
            "guarantee this; set xi to a large finite number",
        ),
        (
            "boosting",
            ("sandwich",),
            "trees are chosen from the data, so that f has no asymptotic covariance; use bootstrap() and "
            "confidence_band()",
        ),
        (
            "boosting",
            ("score_test",),
            "boosting stops before the scores of its trees are 0, so that the statistic does not have its "
            "distribution; compare left-out environments, or test a linear model",
        ),
        *_AT_SITES,
    )
    for pair in ((first, other) for other in others)
}


def why_not(first: str, second: str) -> str | None:
    """Return the reason why two parts cannot be combined; None if they can.

    Parameters
    ----------
    first, second : str
        Keys of ``NAMES``.

    Returns
    -------
    str or None
        The reason, and what to do.

    Examples
    --------
    >>> from anchortm.inputs.parts import why_not
    >>> why_not("scale", "random")
    'random effects are implemented for one scale; leave one of them out'
    >>> why_not("strata", "varying") is None
    True
    """
    return REASONS.get(frozenset((first, second)))


def cells() -> Iterator[tuple[str, str]]:
    """Yield all pairs of the table: of parts, of parts with everything else, and of engines and places with questions.

    Examples
    --------
    >>> from anchortm.inputs.parts import cells
    >>> ("strata", "scale") in set(cells())
    True
    """
    yield from combinations(PARTS, 2)
    yield from product(PARTS, (*ENGINES, *PLACES, *ENDS, *QUESTIONS))
    yield from product(ENGINES, (*PLACES, *ENDS, *QUESTIONS))
    yield from product(PLACES, (*ENDS, *QUESTIONS))


def refusal(first: str, second: str) -> str:
    """Return the sentence that refuses a pair."""
    return f"{NAMES[first]} cannot be combined with {NAMES[second]}: {why_not(first, second)}"


def refused(parts: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs of these parts that cannot be combined, each with its reason."""
    asked = list(dict.fromkeys(parts))
    for j, first in enumerate(asked):
        for second in asked[j + 1 :]:
            reason = why_not(first, second)
            if reason is not None:
                yield first, second, reason


def refuse(*parts: str) -> None:
    """Raise an error if two of these parts cannot be combined."""
    for first, second, _ in refused(parts):
        raise (InputTypeError if {first, second} <= KINDS else InputError)(refusal(first, second))
