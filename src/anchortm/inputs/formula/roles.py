"""The columns of a table by their roles in a formula: outcome, covariates, anchors, strata, clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.checks import real_numbers
from anchortm._util.frames import column_names, known, native, refuse_missing, select
from anchortm.exceptions import InputError
from anchortm.inputs.formula.expressions import TRANSFORMS
from anchortm.inputs.formula.grammar import Parsed, parse_formula
from anchortm.inputs.formula.terms import columns_used, name_in_states, read_terms, remembers, smooth_terms_of
from anchortm.inputs.formula.text import DOT, outside_quotes, show_names
from anchortm.inputs.missing import LARGEST_WHOLE

if TYPE_CHECKING:
    import pandas as pd

    from anchortm._typing import Outcome, Table

__all__ = ["LONGEST", "Roles", "expand_dot"]

LONGEST = 300_000  # characters of covariates with a dot spelled out
RESERVED = {"Intercept", "contr", "np", *TRANSFORMS}


class Roles:
    """What a formula says about the columns of a table, without any rows.

    Attributes
    ----------
    text : str
        The formula as it was written.
    """

    text: str
    _parsed: Parsed
    _used: list[str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    @property
    def strata(self) -> list[str]:
        """Return the columns of the strata."""
        return list(self._parsed.strata)

    @property
    def cluster(self) -> str | None:
        """Return the column of clusters that share random effects, the first of two."""
        return next(iter(self.clusters), None)

    @property
    def clusters(self) -> list[str]:
        """Return the columns of clusters that share random effects."""
        return [cluster for cluster, _ in self._parsed.random]

    @property
    def outcome_name(self) -> str:
        """Return what the outcome is called, such as ``time`` for ``Surv(time, event)``."""
        return self._parsed.outcome.label

    @property
    def anchor_columns(self) -> list[str]:
        """Return the columns of the anchors."""
        return list(dict.fromkeys(name for name, _ in self._parsed.anchors))

    @property
    def covariate_columns(self) -> list[str]:
        """Return the columns of the covariates."""
        return list(self._used)

    def outcome_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the outcome in a table with these names."""
        return sorted(self._parsed.outcome.columns(names))

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return the columns of covariates, outcome, anchors and strata."""
        anchors = [name for name, _ in self._parsed.anchors]
        outcome = self.outcome_columns(names)
        known([*outcome, *anchors, *self.strata], names)
        return list(dict.fromkeys([*self._used, *outcome, *anchors, *self.strata]))

    def roles(self, names: Sequence[str]) -> dict[str, str]:
        """Return all columns of a table with these names that a fit needs, and a word for what they are."""
        words = dict.fromkeys(self._used, "covariate")
        words |= dict.fromkeys(self.clusters, "cluster") | dict.fromkeys(self.strata, "stratum")
        words |= {name: words.get(name, "anchor") for name, _ in self._parsed.anchors}
        words |= dict.fromkeys(self.outcome_columns(names), "outcome")
        known(list(words), names)
        return words

    def outcome(self, data: Table) -> Outcome:
        """Return the outcome of these rows."""
        return self._parsed.outcome.values(native(data))

    def anchor_frame(self, data: Table) -> pd.DataFrame | None:
        """Return the anchors of these rows, None if the formula has none."""
        terms, data = self._parsed.anchors, native(data)
        if not terms:
            return None
        known([name for name, _ in terms], column_names(data))
        frame = select(data, list(dict.fromkeys(name for name, _ in terms)))
        refuse_missing(frame, "anchor")
        for name, kind in terms:
            if kind == "C":
                frame[name] = _as_codes(frame[name]).astype("category")
            elif kind == "N":
                frame[name] = real_numbers(frame[name], f"anchor N({name})")
        return frame.rename(columns={name: f"N({name})" for name, kind in terms if kind == "N"})

    def _read(self, text: str, names: Sequence[str]) -> tuple[str, Any]:
        """Take the text apart for a table with these columns.

        Return the covariates with a dot spelled out, as text and as formulaic's terms.
        """
        self.text, self._parsed = text, parse_formula(text)
        self._parsed.outcome.check_quotes(names)
        covariates = expand_dot(self._parsed, names)
        parse_formula(f"y ~ {covariates}", LONGEST)  # checks the length with all that a dot stands for
        terms = read_terms(covariates)
        used = columns_used(terms)
        known(sorted(used), names)
        reserved = sorted(used & (RESERVED if smooth_terms_of(terms) else RESERVED - {"s"}))
        if reserved:
            raise InputError(f"columns of a formula cannot be called {', '.join(reserved)}: rename them")
        self._used = [name for name in names if name in used]
        if remembers(covariates):  # formulaic files what terms remember under simplified names
            simple = [name_in_states(name) for name in self._used]
            alike = [name for name, own in zip(self._used, simple, strict=True) if simple.count(own) > 1]
            if alike:
                raise InputError(f"columns of a formula cannot be told apart: rename {' or '.join(alike)}")
        self._check_roles(names)
        return covariates, terms

    def _check_roles(self, names: Sequence[str]) -> None:
        """Refuse columns in two roles that exclude each other."""
        outcome = self._parsed.outcome.columns(names, entry=False)  # an entry time may be a covariate too
        covariates, strata = set(self._used), set(self.strata)
        anchors = {name for name, _ in self._parsed.anchors}
        clusters = set(self.clusters)
        known(sorted(clusters), names)
        roles = {"covariates": covariates, "anchors": anchors, "strata": strata, "clusters": clusters}
        for what, columns in roles.items():
            if columns & outcome:
                shared = ", ".join(sorted(columns & outcome))
                raise InputError(f"the outcome's columns are among the {what}: {shared}; leave them out there")
        if strata & anchors:
            shared = ", ".join(sorted(strata & anchors))
            raise InputError(
                f"{shared} cannot be strata and anchors at once: the baselines of strata absorb what an anchor shows"
            )
        if strata & covariates:
            shared = ", ".join(sorted(strata & covariates))
            raise InputError(
                f"strata are among the covariates: {shared}; leave them out there, as the baselines absorb such effects"
            )
        if clusters & covariates:
            shared = ", ".join(sorted(clusters & covariates))
            raise InputError(
                f"clusters are among the covariates: {shared}; give them fixed or random effects, not both"
            )


def _as_codes(column: pd.Series) -> pd.Series:
    """Return a column of floats that are all whole as integers, and another one as it is."""
    if column.dtype.kind != "f":
        return column
    values = column.to_numpy()
    whole = ((values == np.round(values)) & (np.abs(values) <= LARGEST_WHOLE)).all()
    return column.astype(np.int64) if whole else column


def expand_dot(parsed: Parsed, names: Sequence[str]) -> str:
    """Return the covariates with ``.`` spelled out and names in backticks again."""
    taken = parsed.outcome.names() | {name for name, _ in parsed.anchors} | set(parsed.strata)
    taken |= {cluster for cluster, _ in parsed.random}
    rest = [name for name in names if name not in taken]
    right = show_names(parsed.right, parsed.quoted)
    text = outside_quotes(DOT, f"({' + '.join(f'`{name}`' for name in rest) or '1'})", right)
    named = (*parsed.quoted, *(rest if text != right else ()))
    called = [name for name in named if name.isdigit() or "`" in name or re.fullmatch(r"_q\d+", name)]
    if called:
        raise InputError(f"columns of a formula cannot be called {', '.join(called)}: rename them")
    return text
