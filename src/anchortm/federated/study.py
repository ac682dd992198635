"""The study that all sites agree on: formula, levels, classes, support, rules and members, in a TOML file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, Union

from anchortm._util.checks import is_numeric
from anchortm._util.files import read_bytes
from anchortm.exceptions import InputError, InputTypeError
from anchortm.federated.policy import Policy
from anchortm.federated.wire import digest_of
from anchortm.inputs import parts
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.inputs.formula.terms import read_terms, remembers, smooth_terms_of
from anchortm.inputs.formula.text import DOT

__all__ = ["SITE", "Given", "Study", "is_name"]

SITE = "site"  # the anchor that says at which site, or in which environment of a site, a row is
Given: TypeAlias = Union["Study", Mapping[str, Any], str, os.PathLike[str]]  # a study, its fields, or its file
MAX_FILE = 2**20
LONGEST_NAME = 80


@dataclass(frozen=True)
class Study:
    """What all sites agree on before they answer anything.

    Parameters
    ----------
    formula : str
        ``outcome ~ covariates | anchors``. The anchor ``site`` needs no column: it is the site itself, or the
        environments that a site names.
    members : mapping
        The sites by name, each with its public key for masks (hexadecimal), or an empty text without masks. A
        coordinator fills it in for sites in one process.
    levels : mapping
        The levels of factors among the covariates, in order. Levels of other factors are collected from the sites.
    classes : tuple
        The classes of an ordinal outcome, in order; collected from the sites if empty.
    support : pair of float, optional
        The support of a Bernstein baseline; by default the 10 % and 90 % quantiles of a rounded histogram.
    sample_weight, offset : str, optional
        Columns.
    missing : {"error", "drop"}
        What sites do with rows that have missing values.
    across : bool
        Whether levels or numbers of anchors may be shared by sites, such as the year. The sites then send the sums of
        residuals by anchor, which says more about them than the sums that are sent otherwise.
    leave_out : bool
        Whether the coordinator may ask for the sums of all members but some, as ``leave_one_site_out`` does. The
        difference from the sums of all is what the others send, so that masks hide less of it.
    masks : bool
        Whether sites refuse to answer without masks, where there are three or more of them.
    policy : Policy, optional
        Rules for disclosure that all sites keep beside their own: of two rules the stricter one holds.
    ranges : mapping
        The ranges of columns of numbers whose effects vary along the response (``varying`` of the models), such as
        ``{"age": (18, 100)}``. No row may lie outside. They are part of the study because the smallest and the largest
        value of a column are values of rows.

    Examples
    --------
    >>> from anchortm.federated import Study
    >>> study = Study("Surv(time, event) ~ age + C(stage) | site", members={"a": "", "b": ""})
    >>> sorted(study.members), study.digest[:8] == Study.of(study.record()).digest[:8]
    (['a', 'b'], True)
    """

    formula: str
    members: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    classes: tuple[Any, ...] = ()
    support: tuple[float, float] | None = None
    sample_weight: str | None = None
    offset: str | None = None
    missing: str = "error"
    across: bool = False
    leave_out: bool = False
    masks: bool = True
    policy: Policy | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tests: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
            ("formula", lambda v: isinstance(v, str), "text"),
            ("members", _is_members, "a table of names with public keys"),
            ("levels", lambda v: isinstance(v, Mapping) and all(map(_is_labels, v.values())), "lists of levels"),
            ("classes", _is_labels, "a list of classes"),
            ("support", lambda v: v is None or _is_pair(v), "a pair of increasing numbers"),
            ("sample_weight", lambda v: v is None or isinstance(v, str), "the name of a column"),
            ("offset", lambda v: v is None or isinstance(v, str), "the name of a column"),
            ("missing", lambda v: v in ("error", "drop"), "'error' or 'drop'"),
            ("across", lambda v: isinstance(v, bool), "true or false"),
            ("leave_out", lambda v: isinstance(v, bool), "true or false"),
            ("masks", lambda v: isinstance(v, bool), "true or false"),
            ("ranges", _are_ranges, "a table of pairs of increasing numbers"),
            ("policy", lambda v: v is None or isinstance(v, Policy), "a Policy"),
        )
        for name, test, what in tests:
            value = getattr(self, name)
            if not test(value):
                raise InputTypeError(f"{name} of a study must be {what}, not {value!r}")
        set_ = object.__setattr__
        set_(self, "members", dict(sorted(self.members.items())))
        set_(self, "levels", {name: tuple(own) for name, own in sorted(self.levels.items())})
        ranges = {name: (float(low), float(high)) for name, (low, high) in sorted(self.ranges.items())}
        set_(self, "ranges", ranges)
        set_(self, "classes", tuple(self.classes))
        set_(self, "support", None if self.support is None else (float(self.support[0]), float(self.support[1])))
        self._check_formula()

    def _check_formula(self) -> None:
        """Refuse formulas that need the rows of all sites before the fit."""
        parsed = parse_formula(self.formula)
        right = parsed.right
        if len(parsed.random) > 1:
            raise InputError("sums for two random terms are not implemented: give one of them as anchors of its site")
        if remembers(right):
            parts.refuse("sites", *(["smooth"] if smooth_terms_of(read_terms(right)) else []))
            raise InputError(
                "terms that learn from the rows (splines, poly, s, scale, center) cannot be learned from sums: the "
                "formula of a study may have columns, factors, interactions and functions such as log(x) or "
                "I(x**2); columns need no scaling"
            )
        if DOT.search(right):
            raise InputError("a dot stands for all columns of one table, and sites may have different ones: list them")

    @classmethod
    def of(cls, given: Given) -> Study:
        """Return the study in a file, in a dict of its fields, or the study itself.

        Examples
        --------
        >>> from anchortm.federated import Study
        >>> Study.of({"formula": "y ~ x | site", "policy": {"least_rows": 30}}).policy.least_rows
        30
        """
        if isinstance(given, Study):
            return given
        if isinstance(given, (str, os.PathLike)):
            given = _read(given)
        if not isinstance(given, Mapping):
            raise InputTypeError(f"study must be a file, a dict or a Study, not {given!r}")
        known = [part.name for part in fields(cls)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise InputError(f"a study has no field called {', '.join(unknown)}; there are {', '.join(known)}")
        if "formula" not in given:
            raise InputError("the study has no formula: add formula = 'outcome ~ covariates | site'")
        made = dict(given)
        if isinstance(made.get("policy"), Mapping):
            made["policy"] = Policy.of(made["policy"])
        if isinstance(made.get("support"), list):
            made["support"] = tuple(made["support"])
        return cls(**made)

    def record(self) -> dict[str, Any]:
        """Return the study as plain values, in the fields of a study file.

        Examples
        --------
        >>> from anchortm.federated import Study
        >>> Study("y ~ x | site").record()["formula"]
        'y ~ x | site'
        """
        return {
            "formula": self.formula,
            "members": dict(self.members),
            "levels": {name: list(own) for name, own in self.levels.items()},
            "classes": list(self.classes),
            "support": None if self.support is None else list(self.support),
            "sample_weight": self.sample_weight,
            "offset": self.offset,
            "missing": self.missing,
            "across": self.across,
            "leave_out": self.leave_out,
            "masks": self.masks,
            "policy": None if self.policy is None else self.policy.record(),
            "ranges": {name: list(own) for name, own in self.ranges.items()},
        }

    def strict(self, policy: Policy) -> Policy:
        """Return the policy of a site, with the rules of the study that are stricter.

        Examples
        --------
        >>> from anchortm.federated import Policy, Study
        >>> Study("y ~ x | site", policy=Policy(least_rows=50)).strict(Policy()).least_rows
        50
        """
        return policy if self.policy is None else policy.stricter(self.policy)

    @property
    def digest(self) -> str:
        """Return the digest of everything in the study, members and their keys included."""
        return digest_of(self.record())

    def among(self, members: Mapping[str, str]) -> Study:
        """Return the study of these members.

        Examples
        --------
        >>> from anchortm.federated import Study
        >>> sorted(Study("y ~ x | site").among({"a": "", "b": ""}).members)
        ['a', 'b']
        """
        return replace(self, members=members)


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of a study file."""
    try:
        return tomllib.loads(read_bytes(path, MAX_FILE).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the study file is not TOML: {error}") from None


def _is_members(value: Any) -> bool:
    """Return whether a value is a table of members."""
    return isinstance(value, Mapping) and all(
        is_name(name) and isinstance(key, str) and (not key or _is_key(key)) for name, key in value.items()
    )


def is_name(name: Any) -> bool:
    """Return whether a value can be the name of a site."""
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()


def _is_key(key: str) -> bool:
    """Return whether a text is 32 bytes in hexadecimal digits."""
    return len(key) == 64 and all(c in "0123456789abcdef" for c in key)


def _is_labels(value: Any) -> bool:
    """Return whether a value is a list of different levels or classes."""
    return (
        isinstance(value, (list, tuple))
        and all(isinstance(own, (str, int, float, bool)) for own in value)
        and len(set(value)) == len(value)
    )


def _are_ranges(value: Any) -> bool:
    """Return whether a value is a table of ranges."""
    return isinstance(value, Mapping) and all(isinstance(name, str) and _is_pair(own) for name, own in value.items())


def _is_pair(value: Any) -> bool:
    """Return whether a value is a pair of increasing numbers."""
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(is_numeric, value)) and value[0] < value[1]
