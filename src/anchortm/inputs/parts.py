"""Which parts of a model can be combined, and why not where they cannot: the one table of it.

Code that refuses a combination, the guide's page on what goes with what, and the tests all read ``REASONS``. To add a
part, name it in ``NAMES`` and give a reason for each partner that it cannot have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anchortm.exceptions import InputError, InputTypeError

__all__ = ["NAMES", "REASONS", "refuse", "why_not"]

# parts of a model, kinds of likelihood, places where rows are, and ends of the path in xi, in the words of messages
NAMES = {
    "strata": "strata",
    "varying": "varying effects",
    "scale": "scale effects",
    "random": "random effects",
    "l1": "an l1 penalty",
    "l2": "an l2 penalty",
    "smooth": "smooth terms",
    "wide": "a sparse X or factors of more than 100 levels",
    "partial": "CoxPH",
    "mean": "AnchorGLM",
    "batches": "tables that are read in batches",
    "boosting": "boosting",
    "infinite": "xi = inf",
    "negative": "xi below 0",
}
# kinds of models, of tables and of learners, rather than arguments of one: the wrong one is a wrong type
KINDS = {"partial", "mean", "batches", "boosting"}

_ONE_H = "leave one of them out"
_INTEGRAL = "the integral over random effects is built for one baseline and plain covariates; leave one of them out"
_NO_BASELINE = "a partial likelihood has no baseline; use ProportionalHazards"
_NO_TRANSFORMATION = (
    "it has no baseline in y; use CountRegression, OrdinalRegression or ContinuousProbit, or put the stratum among the "
    "covariates, as C(stratum)"
)
_IN_MEMORY = "read the table into memory first"
_FINITE = "set xi to 0 or to a large finite number"
_TREES = "leave it out; trees take any columns as covariates"

# pairs that cannot be combined, with the reason and what to do
REASONS: dict[frozenset[str], str] = {
    frozenset(pair): reason
    for first, others, reason in (
        ("scale", ("strata", "varying", "l1", "l2"), _ONE_H),
        ("scale", ("smooth",), "write bs(x, 4) for s(x), or set smooth=0"),
        ("scale", ("wide",), "merge levels, or pass columns of numbers"),
        ("scale", ("negative",), "set xi to 0 or more"),
        ("random", ("strata", "varying", "scale", "l1", "l2"), _INTEGRAL),
        ("random", ("smooth",), "write bs(x, 4) for s(x), or set smooth=0"),
        ("random", ("wide",), "merge levels, or pass columns of numbers"),
        ("infinite", ("random", "l1", "l2", "smooth"), _FINITE),
        ("negative", ("random", "l1", "l2", "smooth"), _FINITE),
        ("strata", ("wide",), "merge levels, or pass columns of numbers"),
        ("varying", ("wide",), "merge levels, or pass columns of numbers"),
        ("partial", ("varying", "scale", "random"), _NO_BASELINE),
        (
            "partial",
            ("batches",),
            "risk sets reach across all rows; read the table first, or use ProportionalHazards",
        ),
        ("mean", ("strata", "varying", "scale", "random"), _NO_TRANSFORMATION),
        ("mean", ("batches",), _IN_MEMORY),
        ("batches", ("strata", "varying", "random", "scale"), _IN_MEMORY),
        ("batches", ("wide",), "merge levels, or leave it out"),
        ("batches", ("l1",), "read the table into memory first, or use l2 alone"),
        ("boosting", ("strata", "varying", "scale", "random", "l1", "l2", "smooth"), _TREES),
        ("boosting", ("partial",), "its likelihood is not a sum over rows; use ProportionalHazards"),
        (
            "boosting",
            ("mean",),
            "it has no baseline in y; use a model that has one, such as CountRegression or ContinuousProbit",
        ),
    )
    for pair in ((first, other) for other in others)
}


def why_not(first: str, second: str) -> str | None:
    """Return why two parts cannot be combined, None where they can.

    Examples
    --------
    >>> from anchortm.inputs.parts import why_not
    >>> why_not("scale", "strata")
    'leave one of them out'
    >>> why_not("strata", "varying") is None
    True
    """
    return REASONS.get(frozenset((first, second)))


def refused(parts: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs among these parts that cannot be combined, with the reason."""
    asked = list(dict.fromkeys(parts))
    for j, first in enumerate(asked):
        for second in asked[j + 1 :]:
            reason = why_not(first, second)
            if reason is not None:
                yield first, second, reason


def refuse(*parts: str) -> None:
    """Raise an error for the first two of these parts that cannot be combined."""
    for first, second, reason in refused(parts):
        error = InputTypeError if {first, second} <= KINDS else InputError
        raise error(f"{NAMES[first]} cannot be combined with {NAMES[second]}: {reason}")
