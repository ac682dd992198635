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

# their names in messages
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
    "sandwich": "sandwich standard errors",
    "bands": "confidence bands",
    "saving": "saving",
    "places": "shifts between places",
}
# kinds of models, tables, learners and questions: an impossible pair of two of these is a type error
KINDS = {"partial", "mean", "batches", "sites", "boosting", *QUESTIONS}

_ONE_SCALE = "random effects are implemented for models with a single scale; leave one of the two out"
_NO_BASELINE = "a partial likelihood does not estimate a baseline; use ProportionalHazards"
_MEAN = (
    "a generalised linear model has no baseline in y; use CountRegression, OrdinalRegression or ContinuousProbit, or "
    "put the stratum among the covariates, as C(stratum)"
)
_CLUSTERS_APART = (
    "the integral over the effects of a cluster needs all its rows at once, but they may be in several batches; read "
    "the table into memory first, or give the clusters as anchors"
)
_NOT_NEGATIVE = "xi below 0 does not support random effects or penalties on coefficients; set xi to 0 or more"

_TARGET_IS_XI = (
    "the mean and the covariance at the target replace xi, so there is no xi to choose; fit the model once, or leave "
    "the target out"
)
_FORM = (
    "the formulas do not cover how the penalty of a target or of proxies depends on the covariance of the anchors; use "
    "the bootstrap, or leave the target or the proxies out"
)
_FORMS = ("target", "proxies")

_OTHER_LAW = "so the test statistic does not have its reference distribution"
_PENALISED = (
    f"a penalty moves coefficients away from where their scores are 0, {_OTHER_LAW}; set the penalty to 0, or "
    "choose xi by a search"
)

_KINKED = "the loss has kinks, so its minimiser is not normally distributed, even with many rows; use kind='bootstrap'"

_APART = "the rows of other sites are not available"
_AT_SITES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "sites",
        ("smooth",),
        "knots are quantiles, and an exact quantile is the value of a row; use powers such as I(x**2)",
    ),
    (
        "sites",
        ("environment_weights", "anchor_weights"),
        "weights that depend on the environments of all sites are not implemented; leave them out",
    ),
    (
        "sites",
        ("tail", "worst"),
        "sites would have to reveal the loss of single environments; fit without it",
    ),
    ("sites", ("target", "proxies"), "targets and proxies need the rows in memory; leave them out"),
    (
        "sites",
        ("wide",),
        "each level of a factor needs at least 5 rows at a site, and a factor can have at most 40 levels; merge levels",
    ),
    ("sites", ("boosting",), f"each split of a tree needs the rows of its node, but {_APART}; fit a linear model"),
    (
        "sites",
        ("partial",),
        f"risk sets need the order of all rows, but {_APART}; use ProportionalHazards",
    ),
    (
        "sites",
        ("infinite", "negative"),
        "xi = inf and xi below 0 need t, but sites send |t|^2; set xi to a finite number of at least 0",
    ),
    ("sites", ("bootstrap",), f"the bootstrap resamples rows, but {_APART}; use kind='sandwich'"),
    (
        "sites",
        ("searches",),
        "searches split the rows; use Coordinator.leave_one_site_out, and choose xi from its table",
    ),
    (
        "sites",
        ("score_test", "invariance"),
        f"the test needs the residuals of all rows, but {_APART}; compare left-out sites",
    ),
    ("sites", ("places",), f"shifts are estimated from h of left-out rows, but {_APART}; compare left-out sites"),
)

# pairs that cannot be combined, each with the reason and the remedy
REASONS: dict[frozenset[str], str] = {
    frozenset(pair): reason
    for first, others, reason in (
        ("score_test", ("l1", "l2", "smooth"), _PENALISED),
        ("target", ("infinite", "negative", "path", "left_out", "searches"), _TARGET_IS_XI),
        ("target", ("proxies",), "the covariance at a target assumes anchors without errors; leave one of the two out"),
        (
            "proxies",
            ("infinite", "negative"),
            "the penalty of proxies needs a finite xi of at least 0; set xi to such a number",
        ),
        *((form, ("sandwich", "score_test", "invariance"), _FORM) for form in _FORMS),
        *(
            (
                form,
                ("scale", "random"),
                "targets and proxies are implemented for the shift of h only; leave one of the two out",
            )
            for form in _FORMS
        ),
        *(
            (form, ("mean", "partial", "boosting"), "targets and proxies are for transformation models; leave them out")
            for form in _FORMS
        ),
        *(
            (form, ("batches",), "targets and proxies need the rows in memory; read the table into memory first")
            for form in _FORMS
        ),
        (
            "target",
            ("places",),
            "predictions are already for one target, not for an average over places; leave one of the two out",
        ),
        (
            "invariance",
            ("l1", "l2", "smooth"),
            "a penalty moves coefficients away from where residuals and covariates are uncorrelated, "
            f"{_OTHER_LAW}; set the penalty to 0, and write bs(x, 4) for s(x)",
        ),
        (
            "invariance",
            ("scale",),
            f"residuals of a scaled baseline do not have mean 0, {_OTHER_LAW}; use strata or varying effects",
        ),
        (
            "invariance",
            ("random",),
            "the variance of the statistic assumes independent rows, and rows of a cluster are dependent; leave the "
            "random effects out, or keep one row of each cluster",
        ),
        (
            "invariance",
            ("boosting",),
            f"boosting stops before its residuals are uncorrelated with the covariates, {_OTHER_LAW}; test a linear "
            "model, with bs(x, 4) for curves",
        ),
        (
            "invariance",
            ("batches",),
            "the test regresses environments on the covariates, which needs all rows at once; read the table into "
            "memory first",
        ),
        (
            "sandwich",
            ("l1",),
            "a coefficient that may be exactly 0 is not normally distributed, even with many rows; use "
            "kind='bootstrap', or refit the selected covariates without l1 to other rows",
        ),
        (
            "environment_weights",
            ("score_test", "invariance"),
            "with weighted environments, the variance of the scores is not the weighted information; leave "
            "environment_weights out, because the test is about the residuals of all rows",
        ),
        (
            "negative",
            ("environment_weights", "anchor_weights"),
            "the loss is bounded for xi from -1/2 on if all rows count the same; set xi to 0 or more",
        ),
        ("scale", ("negative",), "xi below 0 is implemented for models with a single scale; set xi to 0 or more"),
        (
            "negative",
            ("strata", "varying"),
            "xi below 0 is implemented for models with a single baseline; set xi to 0 or more",
        ),
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
            "a target is implemented for numeric anchors and rows that all count the same; leave one of the two out",
        ),
        (
            "proxies",
            ("environment_weights", "anchor_weights", "tail", "worst"),
            "proxies are implemented for numeric anchors and rows that all count the same; leave one of the two out",
        ),
        ("tail", ("scale",), "the residuals of the scale are penalised in all environments; leave one of the two out"),
        ("tail", ("l1",), "the solver does not support the kinks of l1 and of tail together; use l2"),
        ("tail", ("negative",), "xi below 0 removes the penalty of all environments; set xi to 0 or more"),
        ("tail", ("boosting",), "trees are grown on the penalty of all environments; leave tail out"),
        ("tail", ("sandwich",), _KINKED),
        ("worst", ("sandwich",), _KINKED),
        (
            "worst",
            ("environment_weights", "anchor_weights"),
            "WorstEnvironment weights places; use its argument weights=",
        ),
        ("worst", ("tail",), "tail changes the anchor penalty, and a worst-case fit has none; leave tail out"),
        (
            "worst",
            ("scale", "random"),
            "the loss of a place is implemented for a single scale and no clusters; leave one of the two out",
        ),
        ("worst", ("l1",), "the solver does not support the kinks of l1 and of the worst case together; use l2"),
        ("worst", ("partial",), "a partial likelihood is not a sum over places; use ProportionalHazards"),
        ("worst", ("boosting",), "trees are grown on the loss of all places; boost the model without WorstEnvironment"),
        (
            "worst",
            ("path", "searches", "infinite", "negative"),
            "a worst-case fit has no xi; compare it with an anchored model",
        ),
        (
            "worst",
            ("score_test", "invariance"),
            "the test needs scores of 0, as at the maximum-likelihood fit; test the model without WorstEnvironment",
        ),
        ("partial", ("varying", "scale"), _NO_BASELINE),
        ("partial", ("random",), "frailties are not implemented for a partial likelihood; use ProportionalHazards"),
        (
            "partial",
            ("batches",),
            "risk sets need all rows at once; read the table into memory first, or use ProportionalHazards",
        ),
        ("mean", ("strata", "varying", "scale"), _MEAN),
        ("mean", ("batches",), "AnchorGLM needs the rows in memory; read the table into memory first"),
        ("batches", ("random",), _CLUSTERS_APART),
        (
            "batches",
            ("places",),
            "shifts are estimated from h of left-out rows, which must be in memory; read the table into memory first",
        ),
        ("boosting", ("scale",), "trees that change the scale of h are not implemented; use strata or varying effects"),
        ("boosting", ("random",), "trees with random effects are not implemented; give the clusters as anchors"),
        ("boosting", ("l1",), "boosting selects covariates by the splits of its trees; leave l1 out, or use l2"),
        ("boosting", ("partial",), "a partial likelihood is not a sum over rows; use ProportionalHazards"),
        ("boosting", ("batches",), "each split of a tree needs the rows of its node; read the table into memory first"),
        (
            "boosting",
            ("infinite",),
            "at xi = inf residuals must be uncorrelated with the anchors, and a sum of a few trees does not "
            "guarantee this; set xi to a large finite number",
        ),
        (
            "boosting",
            ("sandwich",),
            "trees are chosen from the data, so f has no asymptotic covariance; use bootstrap() and confidence_band()",
        ),
        (
            "boosting",
            ("score_test",),
            f"boosting stops before the scores of its trees are 0, {_OTHER_LAW}; compare left-out environments, or "
            "test a linear model",
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
    'random effects are implemented for models with a single scale; leave one of the two out'
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
