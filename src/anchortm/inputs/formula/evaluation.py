"""Formulas with their data: covariates, outcome and anchors of a table, and the same transforms for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._typing import Array, Labels, Numbers, Outcome, Table
from anchortm._util.checks import check_weights
from anchortm._util.frames import aligned, column_names, known, native, refuse_missing, select, take
from anchortm._util.html import report
from anchortm.exceptions import InputError, InputTypeError, rows_of
from anchortm.inputs.design import SMOOTH, Design
from anchortm.inputs.formula.column_kinds import ColumnFacts
from anchortm.inputs.formula.covariates import CovariateTerms
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.inputs.formula.roles import LONGEST, Roles, expand_dot
from anchortm.inputs.formula.terms import coded_columns, read_terms, remembers
from anchortm.inputs.formula.text import DOT, split_at
from anchortm.inputs.response import Response
from anchortm.inputs.splines import Marks, learning_with

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Formula", "label_columns"]


class Formula(Roles):
    """A formula with its data: covariates, outcome and anchors, and the same transforms for new rows.

    Parameters
    ----------
    text : str
        ``outcome ~ covariates | anchors``, or ``outcome | strata ~ covariates | anchors``, where each stratum has a
        baseline of its own. The outcome is a column, ``Surv(time, event, entry)``,
        ``Interval(lower, upper)``, ``Trials(successes, trials)`` or ``ordered(column, 'low', 'mid', 'high')``;
        covariates are formulaic's terms, such as ``age + C(stage) + bs(bmi, 4)``, with ``s(bmi)``
        or ``s(bmi, 20)`` for smooth curves, 1 for no covariates and ``.`` for all other columns. A term
        ``(1 | patient)`` or ``(1 + x | patient)`` adds random effects of patients. Anchors are columns joined by
        ``+``, or 0 for none. Anchors of whole numbers, text or categories are factors, others are numbers;
        ``C(code)`` makes any column a factor, ``N(year)`` a number.
    data : frame
        A pandas, polars or pyarrow table.

    Attributes
    ----------
    X : DataFrame, or where a factor has more than 100 levels a design that holds it as codes
        The covariates, and the strata as they are.
    y : outcome
    anchors : DataFrame or None

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> formula = atm.Formula("Surv(tstop, status) ~ treat + age | center", data)
    >>> list(formula.X.columns), formula.y, list(formula.anchors.columns)
    (['treat[T.rIFN-g]', 'age'], Response(128 rows of time: 44 exact, 84 right-censored), ['center'])
    """

    X: Any  # a frame, or a Design
    y: Outcome
    anchors: pd.DataFrame | None
    offset: str | None = None  # the column of a fit's offset
    _terms: CovariateTerms

    def __init__(self, text: str, data: Table) -> None:
        table = native(data)
        covariates, terms = self._read(text, column_names(table))
        self._text, self._coded = covariates, coded_columns(terms)
        frame = select(table, self._used)
        self._terms = CovariateTerms.settled(covariates, self._used, self.learn(frame), terms)
        self._keep(self._with_strata(self._terms.fit(frame), table), table)

    @classmethod
    def counted(cls, text: str, data: Table, weights: Numbers | None) -> Formula:
        """Return the formula with its data for a fit; smooth terms count rows by their weights.

        Rows of weight zero do not affect levels, ranges and transforms. Events must be compared with a value that
        some rows have.
        """
        table = native(data)
        own = None if weights is None else check_weights(weights, len(table))
        if own is None or own.all():
            with learning_with(own):
                self = cls(text, table)
            self._parsed.outcome.check_events(table)
            return self
        rows = np.flatnonzero(own)
        with rows_of(rows.tolist()), learning_with(own[rows]):
            self = cls(text, take(table, rows))
        filled = np.full(len(table), rows[0])  # covariates of rows without weight do not matter
        filled[rows] = rows
        self._keep(self.design(take(table, filled)), table)
        self._parsed.outcome.check_events(table)
        return self

    @classmethod
    def unread(cls, text: str, names: Sequence[str]) -> Formula:
        """Return a formula for a table with these columns whose rows are elsewhere; ``settle`` completes it."""
        self = cls.__new__(cls)
        self._text, terms = self._read(text, names)
        self._coded = coded_columns(terms)
        return self.without_data()

    def learn(self, frame: pd.DataFrame) -> dict[str, ColumnFacts]:
        """Return what the covariates' columns are in these rows."""
        refuse_missing(frame[self._used], "covariate")
        return {name: ColumnFacts.learn(frame[name], name, name in self._coded) for name in self._used}

    @property
    def remembers(self) -> bool:
        """Return whether terms remember something of the data, such as the knots of a spline."""
        return remembers(self._text)

    def settle(self, facts: dict[str, ColumnFacts], sample: pd.DataFrame, weights: Numbers | None = None) -> None:
        """Complete the formula with the kinds of its columns in all rows; its terms learn from a weighted sample."""
        self._terms = CovariateTerms.settled(self._text, self._used, facts, read_terms(self._text))
        self._terms.fit_sample(sample, max((fact.n_rows for fact in facts.values()), default=0), weights)

    def _keep(self, X: Any, data: Any) -> None:
        """Keep the table and what was made of it, with the labels of its rows."""
        self._data = data
        self.X, self.y, self.anchors = (
            _labelled(made, data) for made in (X, self.outcome(data), self.anchor_frame(data))
        )
        if self._terms.smooth and not isinstance(X, Design):
            marks = zip(self.design_columns(), self.marks, strict=True)
            self.X.attrs[SMOOTH] = {name: mark for name, mark in marks if mark is not None}

    @property
    def random(self) -> dict[str, list[str]] | None:
        """Return the clusters and their random effects, slopes by the columns of their terms."""
        if len(set(self.clusters)) < len(self.clusters):
            raise InputError(f"two random terms have the same clusters, {self.clusters[0]}: write (1 + x | cluster)")
        return {cluster: self._random_effects(cluster, text) for cluster, text in self._parsed.random} or None

    def _random_effects(self, cluster: str, text: str) -> list[str]:
        """Return the random effects of one term."""
        terms = [str(term) for term in read_terms(text, "")]
        if not terms:
            raise InputError(f"({text} | {cluster}) has no random effect: write (1 | cluster), or (1 + x | cluster)")
        slopes = self.columns_of(text)
        for term, columns in zip([term for term in terms if term != "1"], slopes, strict=True):
            if len(columns) != 1:
                raise InputError(f"a random slope is of one column, but {term} has {len(columns)}: code it as numbers")
        return ["1"] * ("1" in terms) + [name for (name,) in slopes]

    def columns_of(self, terms: str) -> list[list[str]]:
        """Return the names of the covariates that terms of this formula make, such as ``age + C(stage)``."""
        places, names = self._terms.columns
        parse_formula(f"y ~ {terms}")
        wanted = [str(term) for term in read_terms(terms) if str(term) != "1"]
        unknown = [term for term in wanted if term not in places]
        if unknown:
            listed = ", ".join(term for term in places if term != "1")
            raise InputError(f"{', '.join(unknown)}: not among the terms of the formula, which has {listed or 'none'}")
        return [names[places[term]] for term in wanted]

    def term_columns(self) -> dict[str, list[str]]:
        """Return the names of the covariates that each term makes, by term; the intercept is not a term."""
        places, names = self._terms.columns
        return {term: names[place] for term, place in places.items() if term != "1"}

    def smooth_columns(self, term: str, at: Numbers | None = None) -> tuple[Array, Array]:
        """Return numbers, by default over the range of the fit, and the columns of a smooth term at them."""
        return self._terms.smooth_columns(term, at)

    @property
    def smooth_terms(self) -> list[str]:
        """Return the terms that are smoothed, such as ``s(bmi)``."""
        return list(self._terms.smooth)

    @property
    def marks(self) -> Marks:
        """Return which smooth term each covariate belongs to, if any."""
        return self._terms.marks

    def design_columns(self) -> list[str]:
        """Return the names of the covariates."""
        return self._terms.columns[1]

    def design(self, data: Table) -> Any:
        """Return the covariates of new rows, with the levels and the transforms of the fit, and their strata."""
        table = native(data)
        known(self._used, column_names(table))
        frame = select(table, self._used)
        refuse_missing(frame, "covariate")
        return self._with_strata(self._terms.design(frame), table)

    def _with_strata(self, X: Any, data: Any) -> Any:
        """Return the covariates with the strata beside them, and the clusters if they are there."""
        strata = list(self.strata)
        known(strata, column_names(data))
        clusters = [name for name in self.clusters if name in column_names(data)]  # new rows need no clusters
        named = list(dict.fromkeys([*strata, *clusters]))
        if not named:
            return X
        frame = select(data, named)
        refuse_missing(frame[strata], "stratum")
        refuse_missing(frame[named], "cluster")
        if isinstance(X, Design):
            return X._replace(labels=frame)
        return X.assign(**{name: frame[name].to_numpy() for name in named})

    def variables(self, data: Table) -> dict[str, Any]:
        """Return for each column of the covariates its levels, or its values in these rows and its range in the fit."""
        frame, terms = select(native(data), self._used), self._terms
        return {
            name: list(terms.levels[name])
            if name in terms.levels
            else (frame[name].to_numpy(dtype=np.float64), terms.ranges[name])
            for name in self._used
        }

    def with_column(self, data: Table, name: str, values: Labels) -> pd.DataFrame:
        """Return the columns that the covariates need, one of them changed."""
        return select(native(data), self._used).assign(**{name: values})

    def column(self, values: Labels | None) -> Any:
        """Return a column of the data by its name, and anything else as it is."""
        return self.new_column(self._data, values)

    @staticmethod
    def new_column(data: Table, values: Labels | None) -> Any:
        """Return a column of new rows by its name, and anything else as it is."""
        if not isinstance(values, str):
            return values
        table = native(data)
        known([values], column_names(table))
        frame = select(table, [values])
        refuse_missing(frame, "column")
        return _labelled(frame[values], table)

    def without_data(self) -> Formula:
        """Return the formula as new rows need it."""
        self.X = self.y = self.anchors = self._data = None
        return self

    def state(self) -> dict[str, Any]:
        """Return what new rows need, as JSON takes it."""
        return {"text": self.text, "offset": self.offset, **self._terms.state()}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int = 1000) -> Formula:
        """Return the formula of a saved model, without its data; all of it is checked before anything is evaluated.

        ``n_columns`` is the number of covariates that it should give.
        """
        self = cls.__new__(cls)
        self.text, self._text, self.offset = state["text"], state["covariates"], state["offset"]
        if not isinstance(self._text, str) or not isinstance(self.offset, (str, type(None))):
            raise InputTypeError("the saved formula is not text")
        self._parsed = parse_formula(self.text)
        parse_formula(f"y ~ {self._text}", LONGEST)
        if not DOT.search(self._parsed.right) and expand_dot(self._parsed, []) != self._text:
            raise InputError("the covariates of the saved formula are not those of its text")
        self._terms = CovariateTerms.from_state(state, n_columns)
        self._used = self._terms.used
        return self.without_data()

    def _repr_html_(self) -> str:
        facts = {"outcome": split_at(self.text, "~")[0].strip()}
        parts = {
            "covariates": self.design_columns(),
            "anchors": [name for name, _ in self._parsed.anchors],
            "strata": self.strata,
            "clusters": self.clusters,
        }
        facts |= {name: _listed(columns) for name, columns in parts.items() if columns}
        outcome: Any = self.y
        if outcome is not None:
            facts["rows"] = str(len(outcome))
        return report(self.text, facts)


def label_columns(formula: Formula) -> list[str]:
    """Return the columns in which whole numbers are names: factors, strata, and anchors that are not N(...)."""
    anchors = [name for name, kind in formula._parsed.anchors if kind != "N"]
    return list(dict.fromkeys([*sorted(formula._coded), *formula.strata, *anchors]))


def _listed(names: Sequence[str], most: int = 20) -> str:
    """Return names with commas between, the first ones of many."""
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _labelled(made: Any, data: Any) -> Any:
    """Return what was made of a table with the labels of its rows, if both have such."""
    index = aligned(data=data)
    if index is None:
        return made
    if isinstance(made, Response):
        return replace(made, index=index)
    return made.set_axis(index) if hasattr(made, "set_axis") else made
