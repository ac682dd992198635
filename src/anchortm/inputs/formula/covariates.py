"""The right side of a formula with what it learned: levels of factors, ranges of numbers, states of terms.

Terms are formulaic's, whose transforms (splines, scaling, contrasts) are remembered. A factor with many levels that is
a term of its own is held as codes, never as dummy columns.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from anchortm._typing import Array, Numbers
from anchortm._util.checks import as_floats, finite_numbers
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.design import MAX_DENSE, MAX_SPARSE, WIDE, Design, WideMatrix, to_design
from anchortm.inputs.formula.column_kinds import ColumnFacts, check_levels, level_key
from anchortm.inputs.formula.saved import alike, decode, encode
from anchortm.inputs.formula.terms import (
    bound_columns,
    coded_columns,
    columns_used,
    model_matrix,
    name_in_states,
    read_terms,
    reference_level,
    remembers,
    smooth_terms_of,
    without_intercept,
)
from anchortm.inputs.judgement import DROP_LEVELS, Judgement
from anchortm.inputs.splines import Marks, Smooth, check_smooth_state, curves, learning_with

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["CovariateTerms"]

MAX_COLUMNS = 20_000
CURVE = 101  # points of a curve that is drawn


class CovariateTerms:
    """The terms of the covariates, ready for new rows.

    Parameters
    ----------
    text : str
        The covariates, with a dot spelled out.
    used : list of str
        The columns that they need.
    levels : dict
        The levels of each factor, in order; the first one is the reference.
    kinds : dict
        What each factor was: "text", "category" or "code".
    ranges : dict
        The smallest and largest value of each column of numbers.
    terms : formulaic.Formula
        The text as ``read_terms`` reads it.
    counts : dict, optional
        The number of rows of each level of a factor in the fit; files of earlier versions do not have it.
    """

    counts: dict[str, list[int]] | None = None

    def __init__(
        self,
        text: str,
        used: list[str],
        levels: dict[str, list[Any]],
        kinds: dict[str, str],
        ranges: dict[str, tuple[float, float]],
        terms: Any,
        counts: dict[str, list[int]] | None = None,
    ) -> None:
        self.counts = counts
        self.text, self.used, self.levels, self.kinds, self.ranges = text, used, levels, kinds, ranges
        self.names = [str(term) for term in terms]
        self.smooth = smooth_terms_of(terms)
        self.wide = _wide_factors(terms, levels)  # term -> its column
        self._narrow = type(terms)([term for term in terms if str(term) not in self.wide])
        self._spec: Any = None  # formulaic's, once rows were seen

    @classmethod
    def settled(cls, text: str, used: list[str], facts: dict[str, ColumnFacts], terms: Any) -> CovariateTerms:
        """Return the terms with each column decided to be a factor or numbers."""
        found = {name: fact.settled() for name, fact in facts.items()}
        levels = {name: own for name, own in found.items() if own is not None}
        ranges = {name: (fact.low, fact.high) for name, fact in facts.items() if fact.kind == "number"}
        counts = {name: [facts[name].counted[level] for level in own] for name, own in levels.items()}
        self = cls(text, used, levels, {name: facts[name].kind for name in levels}, ranges, terms, counts)
        bound_columns(self._narrow, levels, MAX_COLUMNS)
        return self

    def fit(self, frame: pd.DataFrame) -> Any:
        """Return the covariates of all rows, and remember what their terms learned."""
        columns = self._columns(frame)
        matrix = model_matrix(self._narrow, self._coded_frame(columns, len(frame)))
        self._spec = matrix.model_spec
        return self._with_wide(without_intercept(matrix, len(frame)), columns)

    def fit_sample(self, sample: pd.DataFrame, n_rows: int, weights: Any = None) -> None:
        """Remember what terms learn from a sample of n_rows rows, whose levels and ranges are known already."""
        spec = self._made_up()
        if remembers(self.text):
            rows = sample[self.used]
            if len(rows) < n_rows:
                rows = self._with_ranges(rows)
                weights = None if weights is None else np.append(weights, np.full(2, weights.mean()))
            with learning_with(weights):
                coded = self._coded_frame(self._columns(rows), len(rows))
                states = model_matrix(self._narrow, coded).model_spec.transform_state
            spec = spec.update(transform_state=states)
        self._spec = spec.update(na_action="raise")

    def design(self, frame: pd.DataFrame) -> Any:
        """Return the covariates of new rows, with the levels and the transforms of the fit."""
        return self._evaluated(self._columns(frame), len(frame))

    def judged(self, frame: pd.DataFrame, judgement: Judgement) -> Design:
        """Return the covariates of the new rows that are good, after judging all columns and what is made of them."""
        columns = {name: self._judged_column(frame[name], name, judgement) for name in frame if name in self.used}
        columns = {name: own[judgement.good] for name, own in columns.items()}
        if self._plain:  # and known to be finite
            numbers = np.empty((judgement.n_good, len(self.used)))
            for j, name in enumerate(self.used):
                numbers[:, j] = columns[name]
            return Design(numbers, tuple(self.used), True)
        made = self._evaluated(columns, judgement.n_good, tolerant=True)
        if not isinstance(made, Design):
            made = Design(np.ascontiguousarray(made), tuple(made), True, self.marks if self.smooth else None)
        numbers = made.matrix.dense if self.wide else made.matrix
        finite = np.isfinite(numbers)
        if finite.all():
            return made
        kept, first = finite.all(axis=1), np.argmin(finite, axis=1)  # the first column that is not finite
        first = made.matrix.dense_at[first] if self.wide else first
        wrong = {term: ~kept & (first >= place.start) & (first < place.stop) for term, place in self.columns[0].items()}
        rows = np.arange(judgement.n_rows)[judgement.good]
        for term, own in wrong.items():
            judgement.refuse(rows[own], f"{term} cannot be computed")
        return made._replace(matrix=made.matrix[kept])

    def _evaluated(self, columns: dict[str, NDArray[Any]], n: int, tolerant: bool = False) -> Any:
        """Return the covariates of n rows from their columns; if ``tolerant``, NaN where they cannot be computed."""
        coded = self._coded_frame(columns, n)
        if self._plain:
            return coded.astype(np.float64)
        matrix = model_matrix(self._spec, coded, "ignore" if tolerant else "raise", tolerant)
        return self._with_wide(without_intercept(matrix, n), columns, tolerant)

    @cached_property
    def _plain(self) -> bool:
        """Whether the covariates are columns of numbers as they are."""
        return self.columns[1] == self.used and not self.levels

    @property
    def columns(self) -> tuple[dict[str, slice], list[str]]:
        """The positions of the columns of each term, and the names of all columns."""
        places: dict[str, slice] = {}
        names: list[str] = []
        slices = {str(term): place for term, place in self._spec.term_slices.items()}
        for term in self.names:
            first = len(names)
            if term in self.wide:
                names += [f"{term}[T.{level}]" for level in self.levels[self.wide[term]][1:]]
            else:
                names += [name for name in self._spec.column_names[slices[term]] if name != "Intercept"]
            places[term] = slice(first, len(names))
        return places, names

    @property
    def marks(self) -> Marks:
        """Which smooth term each column belongs to, if any."""
        places, names = self.columns
        marks: list[Smooth | None] = [None] * len(names)
        for term in self.smooth:
            for j in range(places[term].start, places[term].stop):
                marks[j] = Smooth(term, j > places[term].start)  # the line comes first
        return tuple(marks)

    def smooth_columns(self, term: str, at: Numbers | None = None) -> tuple[Array, Array]:
        """Return numbers, by default over the range of the fit, and the columns of a smooth term at them."""
        state = self._spec.transform_state[_state_key(term)]
        knots = np.asarray(state["knots"])
        x = np.linspace(knots[0], knots[-1], CURVE) if at is None else finite_numbers(at, np.size(at), "at")
        return x, np.column_stack([x - state["centre"], curves(x, knots, state["values"], state["bends"])])

    def _columns(self, frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """Return the columns of rows: numbers, and for factors the positions of the levels."""
        return {name: self._column(frame[name], name) for name in self.used}

    def _column(self, column: pd.Series, name: str) -> NDArray[Any]:
        """Return a column; raise an error if one of its entries is not a number, or a level of the fit."""
        if name not in self.levels:
            own = column.to_numpy()
            problem = "was numbers in the fit, and is {entry} here"
            remedy = "turn it into numbers"
            return own if own.dtype.kind in "biuf" else as_floats(own, f"covariate {name!r}", remedy, problem)
        own, values, place = self._found_levels(column, name)
        unseen = sorted({level_key(value) for value, k in zip(values, place, strict=True) if k < 0})
        if unseen:
            rows = np.flatnonzero(place[own] < 0)
            count = "1 row" if rows.size == 1 else f"{rows.size} rows"
            raise InputError(
                f"covariate {name!r} has levels that the fit has not seen: {_some(unseen)} ({count}, first at row "
                f"{rows[0]}); known: {_some(self.levels[name])}; {DROP_LEVELS}"
            )
        return np.asarray(place[own])

    def _judged_column(self, column: pd.Series, name: str, judgement: Judgement) -> NDArray[Any]:
        """Return a column; rows with other entries than the fit had are bad, or their levels are mapped."""
        if name not in self.levels:
            return judgement.numbers(name, column.to_numpy())
        own, values, place = self._found_levels(column, name)
        return judgement.levels(name, own, values, place, lambda: self._stand_in(name, judgement.unknown))

    def _found_levels(self, column: pd.Series, name: str) -> tuple[NDArray[np.intp], Any, NDArray[np.int32]]:
        """Return the level of each row among those that occur (-1 if missing), these, and their positions in the fit.

        The position is -1 for levels that the fit has not seen.
        """
        import pandas as pd

        known = {level_key(level): k for k, level in enumerate(self.levels[name])}
        own, values = pd.factorize(column)
        return own, values, np.array([known.get(level_key(value), -1) for value in values], dtype=np.int32)

    def _stand_in(self, name: str, unknown: str) -> tuple[int, Any]:
        """Return the position and the name of the level as which unknown levels of a factor are read."""
        levels = self.levels[name]
        if unknown == "baseline":
            place = reference_level(read_terms(self.text), name, levels)
        elif self.counts is None:
            raise InputError(
                'unknown="rare" needs the numbers of rows of the levels, which this model does not have, as its file '
                'is older: fit it again, or use unknown="baseline"'
            )
        else:
            place = int(np.argmin(self.counts[name]))
        return place, levels[place]

    def _coded_frame(self, columns: dict[str, NDArray[Any]], n: int) -> pd.DataFrame:
        """Return the columns with the levels of the fit, whatever type they came in."""
        import pandas as pd

        result: dict[str, Any] = {}
        for name in (name for name in self.used if name not in self.wide.values()):
            own = columns[name]
            if name not in self.levels:
                result[name] = own
            elif self.kinds[name] == "code":
                result[name] = np.array(self.levels[name])[own]
            else:
                result[name] = pd.Categorical.from_codes(own, self.levels[name])
        return pd.DataFrame(result, index=range(n), copy=False)

    def _with_wide(self, rest: pd.DataFrame, columns: dict[str, NDArray[Any]], tolerant: bool = False) -> Any:
        """Return the covariates with the wide factors: the largest as codes, others as sparse columns."""
        if not self.wide:
            return rest
        places, names = self.columns
        main, *others = sorted(self.wide, key=lambda term: -len(self.levels[self.wide[term]]))
        sparse = [places[term] for term in others]
        if sum(place.stop - place.start for place in sparse) > MAX_SPARSE:
            raise InputError(
                f"besides the largest factor, others may have {MAX_SPARSE} levels: merge levels of {', '.join(others)}"
            )
        n = len(rest)
        pieces = [
            sp.csr_matrix(
                (np.ones(n), columns[self.wide[term]], np.arange(n + 1)),
                shape=(n, len(self.levels[self.wide[term]])),
            )[:, 1:]
            for term in others
        ]
        taken = {j for term in self.wide for j in range(places[term].start, places[term].stop)}
        matrix = WideMatrix(
            np.ascontiguousarray(rest) if tolerant else to_design(rest).matrix,
            np.array([j for j in range(len(names)) if j not in taken], dtype=np.intp),
            sp.hstack(pieces, format="csr") if pieces else sp.csr_matrix((n, 0)),
            np.array([j for place in sparse for j in range(place.start, place.stop)], dtype=np.intp),
            columns[self.wide[main]],
            places[main],
            main,
            str(self.levels[self.wide[main]][0]),
        )
        return Design(matrix, tuple(names), True, self.marks)

    def _with_ranges(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows of a sample and two more with the least and largest numbers of all, for the ends of splines."""
        import pandas as pd

        low = rows.iloc[:1].assign(**{name: ends[0] for name, ends in self.ranges.items()})
        high = rows.iloc[:1].assign(**{name: ends[1] for name, ends in self.ranges.items()})
        return pd.concat([rows, low, high], ignore_index=True)

    def _made_up(self) -> Any:
        """Return formulaic's specification with all levels, from made-up rows."""
        import pandas as pd

        rng = np.random.default_rng(0)
        narrow = {name: levels for name, levels in self.levels.items() if name not in self.wide.values()}
        rows = max([60, *map(len, narrow.values())])
        bound_columns(self._narrow, self.levels, MAX_DENSE // rows)
        made = {}
        for name, (low, high) in self.ranges.items():
            share = rng.uniform(size=rows)
            made[name] = low * (1.0 - share) + high * share
        made |= {
            name: np.array([levels[k % len(levels)] for k in range(rows)], dtype=object)
            for name, levels in narrow.items()
        }
        named = {name: self._column(own, name) for name, own in pd.DataFrame(made, index=range(rows)).items()}
        return model_matrix(self._narrow, self._coded_frame(named, rows), "ignore").model_spec

    def state(self) -> dict[str, Any]:
        """Return what new rows need, as JSON takes it."""
        for name, levels in self.levels.items():
            if not all(isinstance(level, (str, bool, int, float)) for level in levels):
                raise InputTypeError(f"covariate {name!r} has levels of a type that cannot be saved: make them text")
        return {
            "covariates": self.text,
            "levels": {name: list(levels) for name, levels in self.levels.items()},
            "counts": self.counts,
            "kinds": dict(self.kinds),
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "transforms": encode(dict(self._spec.transform_state)),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_columns: int) -> CovariateTerms:
        """Return the terms of a saved model; all of it is checked before anything is evaluated."""
        levels = {str(name): list(own) for name, own in state["levels"].items()}
        kinds = {str(name): str(kind) for name, kind in state["kinds"].items()}
        ranges = {str(name): (float(low), float(high)) for name, (low, high) in state["ranges"].items()}
        counts = _counts(state.get("counts"), levels)
        used = [*levels, *ranges]
        terms = read_terms(state["covariates"])
        if (
            not all(isinstance(level, (str, bool, int, float)) for own in levels.values() for level in own)
            or not np.isfinite(np.array([*ranges.values()], dtype=np.float64)).all()
            or set(kinds) != set(levels)
            or not set(kinds.values()) <= {"text", "category", "code"}
            or columns_used(terms) != set(used)
            or coded_columns(terms) - set(levels)
        ):
            raise InputError("the columns of the saved formula are inconsistent")
        for name, own in levels.items():
            check_levels(name, kinds[name], own, math.inf)
        self = cls(state["covariates"], used, levels, kinds, ranges, terms, counts)
        bound_columns(self._narrow, levels, 20 * n_columns + 200)
        spec = self._made_up()
        transforms = decode(state["transforms"])
        if not alike(dict(spec.transform_state), transforms):
            raise InputError("the transforms of the saved formula are not those of its terms")
        for term in self.smooth:
            check_smooth_state(transforms[_state_key(term)])
        self._spec = spec.update(transform_state=transforms, na_action="raise")
        return self


def _wide_factors(terms: Any, levels: dict[str, list[Any]]) -> dict[str, str]:
    """Return the terms that are one factor with many levels, used in no other term, and their columns."""
    used = [sorted(columns_used([term])) for term in terms]
    return {
        str(term): own[0]
        for term, own in zip(terms, used, strict=True)
        if re.fullmatch(r"[^(]*|C\(\s*(`[^`]+`|\w+)\s*\)", str(term))
        and len(own) == len(term.factors) == 1
        and len(levels.get(own[0], ())) > WIDE
        and sum(own[0] in other for other in used) == 1
    }


def _state_key(term: str) -> str:
    """Return the key under which formulaic files what a term remembers."""
    return re.sub(r"`([^`]+)`", lambda match: name_in_states(match[1]), term)


def _counts(counts: Any, levels: dict[str, list[Any]]) -> dict[str, list[int]] | None:
    """Return the numbers of rows of each level in a record, checked; files of earlier versions do not have them."""
    if counts is None:
        return None
    if (
        not isinstance(counts, dict)
        or set(counts) != set(levels)
        or not all(isinstance(own, list) and len(own) == len(levels[name]) for name, own in counts.items())
        or not all(type(n) is int and n > 0 for own in counts.values() for n in own)
    ):
        raise InputError("the numbers of rows of the levels in the saved formula are inconsistent")
    return counts


def _some(values: list[Any]) -> str:
    """Return values as text, the first ones of many."""
    return ", ".join(map(str, values[:20])) + (f", ... ({len(values)} in all)" if len(values) > 20 else "")
