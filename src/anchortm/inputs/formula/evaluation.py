"""Formulas with their data: covariates, outcome and anchors out, and the same transforms for new rows.

The covariates are formulaic's, whose stateful transforms (splines, scaling, contrasts) are remembered.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from anchortm._util.checks import as_floats, check_weights, finite_numbers, real_numbers
from anchortm._util.frames import aligned, column_names, known, native, select, take
from anchortm.exceptions import InputError, InputTypeError, rows_of
from anchortm.inputs.design import MAX_DENSE, MAX_SPARSE, SMOOTH, WIDE, Design, WideMatrix, to_design
from anchortm.inputs.formula.column_kinds import ColumnFacts, check_levels, level_key
from anchortm.inputs.formula.grammar import (
    DOT,
    EXTRA,
    OUTCOMES,
    TRANSFORMS,
    check_factor,
    evaluate,
    ordered,
    outside_quotes,
    parse_formula,
)
from anchortm.inputs.response import Interval, Response, Surv, Trials
from anchortm.inputs.splines import Marks, Smooth, check_smooth_state, curves

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Formula"]

LONGEST = 300_000  # characters of covariates, a dot written out
MAX_COLUMNS = 20_000
CURVE = 101  # points of a curve
LARGEST = 1e200  # number in a saved transform
REMEMBERING = ("bs", "cc", "center", "cr", "cs", "poly", "s", "scale", "standardize")
RESERVED = {"Intercept", "contr", "np", *TRANSFORMS}


class Formula:
    """A formula with the data it was made for: covariates, outcome and anchors, and the way for new data.

    Parameters
    ----------
    text : str
        ``outcome ~ covariates | anchors``, or ``outcome | strata ~ covariates | anchors`` with columns of strata that
        have baselines of their own. The outcome is a column, ``Surv(time, event, entry)``,
        ``Interval(lower, upper)``, ``Trials(successes, trials)`` or ``ordered(column, 'low', 'mid', 'high')``;
        covariates are formulaic's terms, such as ``age + C(stage) + bs(bmi, 4)``, ``s(bmi)``
        or ``s(bmi, 20)`` for curves that are smoothed,
        1 for none and ``.`` for all other columns; ``(1 | patient)`` or ``(1 + x | patient)`` among them gives patients
        random effects; anchors are columns joined by ``+``, or 0 for none. Anchors of whole
        numbers, text or categories are factors, others numbers; ``C(code)`` makes a factor of any, ``N(year)`` a
        number.
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

    X: Any
    y: Any
    anchors: Any
    offset: str | None = None  # the column of a fit's offset

    def __init__(self, text: str, data: Any) -> None:
        data = native(data)
        names = column_names(data)
        formula = self._read(text, names)
        frame = select(data, self._used)
        formula = self._settle(formula, self.learn(frame))
        matrix = _matrix(formula, self._coded_frame(frame))
        self._spec = matrix.model_spec
        X = self._with_strata(self._with_wide(_without_intercept(matrix, len(frame)), frame), data)
        self._keep(X, data)

    @classmethod
    def counted(cls, text: str, data: Any, weights: Any) -> Formula:
        """Return the formula with its data, learnt from rows of positive weight: covariates of others do not matter."""
        data = native(data)
        weights = None if weights is None else check_weights(weights, len(data))
        if weights is None or weights.all():
            return cls(text, data)
        rows = np.flatnonzero(weights)
        with rows_of(rows.tolist()):
            self = cls(text, take(data, rows))
        filled = np.full(len(data), rows[0])
        filled[rows] = rows
        self._keep(self.design(take(data, filled)), data)
        return self

    def _keep(self, X: Any, data: Any) -> None:
        """Keep the table and what was made of it, with the labels of its rows."""
        self._data = data
        self.X, self.y, self.anchors = (
            _labelled(made, data) for made in (X, self.outcome(data), self.anchor_frame(data))
        )
        if self._smooth and not isinstance(X, Design):
            marks = zip(self.design_columns(), self.marks, strict=True)
            self.X.attrs[SMOOTH] = {name: mark for name, mark in marks if mark is not None}

    def _read(self, text: str, names: Sequence[str]) -> Any:
        """Take the text apart for a table with these columns, and return formulaic's formula."""
        self._parsed = parse_formula(text)
        self._text, self.text = self._expand_dot(names), text
        parse_formula(f"y ~ {self._text}", LONGEST)  # with all that a dot stands for
        formula = _formula(self._text)
        used = _variables(formula)
        known(sorted(used), names)
        reserved = sorted(used & (RESERVED if _smooth(formula) else RESERVED - {"s"}))
        if reserved:
            raise InputError(f"columns of a formula cannot be called {', '.join(reserved)}: rename them")
        self._used = [name for name in names if name in used]
        if self.remembers:  # formulaic files what terms remember under plain names
            alike = [name for name in self._used if sum(_plain_name(name) == _plain_name(o) for o in self._used) > 1]
            if alike:
                raise InputError(f"columns of a formula cannot be told apart: rename {' or '.join(alike)}")
        outcome = self._outcome_columns(names, entry=False)
        anchors = {name for name, _ in self._parsed.anchors}
        strata, cluster = set(self.strata), set(self._clusters)
        known(sorted(cluster), names)
        roles = {"covariates": set(self._used), "anchors": anchors, "strata": strata, "clusters": cluster}
        for what, columns in roles.items():
            if columns & outcome:
                shared = ", ".join(sorted(columns & outcome))
                raise InputError(f"the outcome's columns are among the {what}: {shared}; leave them out there")
        if strata & anchors:
            shared = ", ".join(sorted(strata & anchors))
            raise InputError(
                f"{shared}: strata and anchors at once; a baseline of its own takes up what an anchor shows"
            )
        if strata & set(self._used):
            shared = ", ".join(sorted(strata & set(self._used)))
            raise InputError(f"strata are among the covariates: {shared}; their baselines take up such effects")
        if cluster & set(self._used):
            raise InputError(
                f"clusters are among the covariates: {self.cluster}; they have effects as one or the other"
            )
        self._coded = _coded(formula)
        return formula

    def learn(self, frame: pd.DataFrame) -> dict[str, ColumnFacts]:
        """Return the facts of the covariates' columns in these rows."""
        _complete(frame[self._used], "covariate")
        return {name: ColumnFacts.learn(frame[name], name, name in self._coded) for name in self._used}

    def _settle(self, formula: Any, facts: dict[str, ColumnFacts]) -> Any:
        """Decide what each column is, a factor with its levels or numbers with their range.

        Return the formula without its wide factors.
        """
        found = {name: fact.settled() for name, fact in facts.items()}
        self._levels = {name: levels for name, levels in found.items() if levels is not None}
        self._kinds: dict[str, str] = {name: facts[name].kind for name in self._levels}
        self._ranges = {name: (fact.low, fact.high) for name, fact in facts.items() if fact.kind == "number"}
        formula = self._set_wide_apart(formula)
        _bound_columns(formula, self._levels, MAX_COLUMNS)
        return formula

    @classmethod
    def unread(cls, text: str, names: Sequence[str]) -> Formula:
        """Return a formula for a table with these columns whose rows are elsewhere; ``settle`` completes it."""
        self = cls.__new__(cls)
        self._read(text, names)
        return self.without_data()

    @property
    def remembers(self) -> bool:
        """Return whether terms remember something of the data, such as the knots of a spline."""
        return re.search(rf"\b({'|'.join(REMEMBERING)})\s*\(", self._text) is not None

    def settle(self, facts: dict[str, ColumnFacts], sample: pd.DataFrame) -> None:
        """Complete the formula with the facts of all rows, and with what terms remember of these."""
        formula = self._settle(_formula(self._text), facts)
        spec = self._structure(formula)
        if self.remembers:
            rows = sample[self._used]
            if len(rows) < max(fact.n_rows for fact in facts.values()):
                rows = self._with_ranges(rows)
            states = _matrix(formula, self._coded_frame(rows)).model_spec.transform_state
            spec = spec.update(transform_state=states)
        self._spec = spec.update(na_action="raise")

    def _with_ranges(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows of a sample and two more with the least and largest numbers of all, for the ends of splines."""
        import pandas as pd

        low = rows.iloc[:1].assign(**{name: ends[0] for name, ends in self._ranges.items()})
        high = rows.iloc[:1].assign(**{name: ends[1] for name, ends in self._ranges.items()})
        return pd.concat([rows, low, high], ignore_index=True)

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return the columns of covariates, outcome and anchors."""
        anchors = [name for name, _ in self._parsed.anchors]
        outcome = self.outcome_columns(names)
        known([*outcome, *anchors], names)
        return list(dict.fromkeys([*self._used, *outcome, *anchors]))

    @property
    def cluster(self) -> str | None:
        """Return the column of clusters that share random effects."""
        return None if self._parsed.random is None else self._parsed.random[0]

    @property
    def _clusters(self) -> list[str]:
        return [] if self.cluster is None else [self.cluster]

    @property
    def random(self) -> dict[str, list[str]] | None:
        """Return the clusters and their random effects, slopes by the columns of their terms."""
        if self._parsed.random is None:
            return None
        cluster, text = self._parsed.random
        terms = [str(term) for term in _formula(text, "")]
        if not terms:
            raise InputError(f"({text} | {cluster}) has no random effect: write (1 | cluster), or (1 + x | cluster)")
        slopes = self.columns_of(text)
        for term, columns in zip([term for term in terms if term != "1"], slopes, strict=True):
            if len(columns) != 1:
                raise InputError(f"a random slope is of one column, and {term} has {len(columns)}: code it as numbers")
        return {cluster: ["1"] * ("1" in terms) + [name for (name,) in slopes]}

    @property
    def strata(self) -> list[str]:
        """Return the columns of the strata."""
        return list(self._parsed.strata)

    def columns_of(self, terms: str) -> list[list[str]]:
        """Return the names of the covariates that terms of this formula make, such as ``age + C(stage)``."""
        places, names = self._wide_columns()
        parse_formula(f"y ~ {terms}")
        wanted = [str(term) for term in _formula(terms) if str(term) != "1"]
        unknown = [term for term in wanted if term not in places]
        if unknown:
            listed = ", ".join(term for term in places if term != "1")
            raise InputError(f"{', '.join(unknown)}: no terms of the formula, which has {listed or 'none'}")
        return [names[places[term]] for term in wanted]

    def smooth_columns(self, term: str, at: Any = None) -> tuple[Any, Any]:
        """Return numbers, by default over the range of the fit, and the columns of a smooth term of them."""
        state = self._spec.transform_state[re.sub(r"`([^`]+)`", lambda match: _plain_name(match[1]), term)]
        knots = np.asarray(state["knots"])
        x = np.linspace(knots[0], knots[-1], CURVE) if at is None else finite_numbers(at, np.size(at), "at")
        return x, np.column_stack([x - state["centre"], curves(x, knots, state["values"], state["bends"])])

    @property
    def smooth_terms(self) -> list[str]:
        """Return the terms that are smoothed, such as ``s(bmi)``."""
        return list(self._smooth)

    @property
    def marks(self) -> Marks:
        """Return which smooth term each covariate belongs to, if any."""
        places, names = self._wide_columns()
        marks: list[Smooth | None] = [None] * len(names)
        for term in self._smooth:
            for j in range(places[term].start, places[term].stop):
                marks[j] = Smooth(term, j > places[term].start)  # the line comes first
        return tuple(marks)

    @property
    def covariate_columns(self) -> list[str]:
        """Return the columns of the covariates."""
        return list(self._used)

    def outcome_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the outcome."""
        return sorted(self._outcome_columns(names))

    def _expand_dot(self, names: Sequence[str]) -> str:
        """Return the covariates with ``.`` spelled out and names in backticks again."""
        parsed = self._parsed
        taken = {parsed.name(n) for n in ast.walk(parsed.left) if isinstance(n, ast.Name)}
        taken |= {name for name, _ in parsed.anchors} | set(parsed.strata) | set(self._clusters)
        rest = [name for name in names if name not in taken]
        right = re.sub(r"\b_q(\d+)\b", lambda m: f"`{parsed.quoted[int(m[1])]}`", parsed.right).strip()
        text = outside_quotes(DOT, f"({' + '.join(f'`{name}`' for name in rest) or '1'})", right)
        named = (*parsed.quoted, *(rest if text != right else ()))
        called = [name for name in named if name.isdigit() or "`" in name or re.fullmatch(r"_q\d+", name)]
        if called:
            raise InputError(f"columns of a formula cannot be called {', '.join(called)}: rename them")
        return text

    def _coded_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the columns with the levels of the fit, whatever type they came in."""
        import pandas as pd

        result = {}
        for name in self._used:
            if name in self._wide.values():
                continue
            if name not in self._levels:
                own = frame[name].to_numpy()
                if own.dtype.kind not in "biuf":
                    problem = "was numbers in the fit, and is {entry} here"
                    own = as_floats(own, f"covariate {name!r}", "turn it into numbers", problem)
                result[name] = own
                continue
            levels, codes = self._levels[name], self._codes(frame, name)
            if self._kinds[name] == "code":
                result[name] = np.array(levels)[codes]
            else:
                result[name] = pd.Categorical.from_codes(codes, levels)
        return pd.DataFrame(result, index=range(len(frame)), copy=False)

    @cached_property
    def _plain(self) -> bool:
        """Return whether the covariates are columns of numbers as they are."""
        return self.design_columns() == self._used and not self._levels

    def _codes(self, frame: pd.DataFrame, name: str) -> Any:
        """Return the place of each row's level among those of the fit."""
        import pandas as pd

        levels = self._levels[name]
        place = {level_key(level): k for k, level in enumerate(levels)}
        own, values = pd.factorize(frame[name])
        keys = [level_key(value) for value in values]
        unseen = sorted({key for key in keys if key not in place})
        if unseen:
            raise InputError(
                f"covariate {name!r} has levels that the fit has not seen: {_some(unseen)}; known: {_some(levels)}"
            )
        return np.array([place[key] for key in keys], dtype=np.int32)[own]

    def _set_wide_apart(self, formula: Any) -> Any:
        """Return the formula without its wide factors, which stand alone in one term and are kept as codes."""
        used = [sorted(_variables([term])) for term in formula]
        self._wide = {
            str(term): own[0]
            for term, own in zip(formula, used, strict=True)
            if re.fullmatch(r"[^(]*|C\(\s*(`[^`]+`|\w+)\s*\)", str(term))
            and len(own) == len(term.factors) == 1
            and len(self._levels.get(own[0], ())) > WIDE
            and sum(own[0] in other for other in used) == 1
        }
        self._terms = [str(term) for term in formula]
        self._smooth = _smooth(formula)
        return type(formula)([term for term in formula if str(term) not in self._wide])

    def _wide_columns(self) -> tuple[dict[str, slice], list[str]]:
        """Return where the columns of each term stand among all covariates, and their names."""
        places: dict[str, slice] = {}
        names: list[str] = []
        slices = {str(term): place for term, place in self._spec.term_slices.items()}
        for term in self._terms:
            first = len(names)
            if term in self._wide:
                names += [f"{term}[T.{level}]" for level in self._levels[self._wide[term]][1:]]
            else:
                names += [name for name in self._spec.column_names[slices[term]] if name != "Intercept"]
            places[term] = slice(first, len(names))
        return places, names

    def _with_wide(self, rest: pd.DataFrame, frame: pd.DataFrame) -> Any:
        """Return the covariates with the wide factors: the largest as codes, others as sparse columns."""
        if not self._wide:
            return rest
        places, names = self._wide_columns()
        main, *others = sorted(self._wide, key=lambda term: -len(self._levels[self._wide[term]]))
        sparse = [places[term] for term in others]
        if sum(place.stop - place.start for place in sparse) > MAX_SPARSE:
            raise InputError(
                f"beside the largest factor others may have {MAX_SPARSE} levels: merge levels of {', '.join(others)}"
            )
        n = len(rest)
        pieces = [
            sp.csr_matrix(
                (np.ones(n), self._codes(frame, self._wide[term]), np.arange(n + 1)),
                shape=(n, len(self._levels[self._wide[term]])),
            )[:, 1:]
            for term in others
        ]
        taken = {j for term in self._wide for j in range(places[term].start, places[term].stop)}
        matrix = WideMatrix(
            to_design(rest).matrix,
            np.array([j for j in range(len(names)) if j not in taken], dtype=np.intp),
            sp.hstack(pieces, format="csr") if pieces else sp.csr_matrix((n, 0)),
            np.array([j for place in sparse for j in range(place.start, place.stop)], dtype=np.intp),
            self._codes(frame, self._wide[main]),
            places[main],
            main,
            str(self._levels[self._wide[main]][0]),
        )
        return Design(matrix, tuple(names), True, self.marks)

    def design(self, data: Any) -> Any:
        """Return the covariates of new rows, with the levels and the transforms of the fit."""
        data = native(data)
        known(self._used, column_names(data))
        frame = select(data, self._used)
        _complete(frame, "covariate")
        coded = self._coded_frame(frame)
        if self._plain:
            return self._with_strata(coded.astype(np.float64), data)
        matrix = self._with_wide(_without_intercept(_matrix(self._spec, coded), len(frame)), frame)
        return self._with_strata(matrix, data)

    def _with_strata(self, X: Any, data: Any) -> Any:
        """Return the covariates with the strata beside them, and the clusters if they are there."""
        named = list(self.strata)
        known(named, column_names(data))
        if self.cluster is not None and self.cluster in column_names(data):
            named.append(self.cluster)  # new rows need no clusters
        if not named:
            return X
        if isinstance(X, Design):
            raise InputError(f"strata and random effects do not go with factors of more than {WIDE} levels")
        frame = select(data, named)
        _complete(frame, "stratum" if self.strata else "cluster")
        return X.assign(**{name: frame[name].to_numpy() for name in named})

    def _outcome_columns(self, names: Sequence[str], entry: bool = True) -> set[str]:
        """Return the columns of the outcome; an entry time may be a covariate as well."""
        node = self._parsed.left
        parts = [*node.args[:2], *(node.args[2:] if entry else ())] if isinstance(node, ast.Call) else [node]
        if isinstance(node, ast.Call) and entry:
            parts += [keyword.value for keyword in node.keywords]
        found = [n for part in parts for n in ast.walk(part)]
        functions = {id(n.func) for n in found if isinstance(n, ast.Call)}
        used = {self._parsed.name(n) for n in found if isinstance(n, ast.Name) and id(n) not in functions}
        return {name for name in used if not (name == "inf" and "inf" not in names)}

    def outcome(self, data: Any) -> Any:
        """Return the outcome of these rows."""
        data = native(data)
        node, names = self._parsed.left, column_names(data)
        wanted = self.outcome_columns(names)
        known(wanted, names)
        frame = select(data, wanted)
        _complete(frame, "outcome")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OUTCOMES:
            n = len(frame)
            values = [_column(evaluate(part, frame, self._parsed), n) for part in node.args]
            named = {str(k.arg): _column(evaluate(k.value, frame, self._parsed), n) for k in node.keywords}
            made: Any = {"Surv": Surv, "Interval": Interval, "Trials": Trials}[node.func.id]
            return made(*values, **named)
        if isinstance(node, ast.Call):
            return ordered(node, frame, self._parsed)
        return evaluate(node, frame, self._parsed)

    def anchor_frame(self, data: Any) -> Any:
        """Return the anchors of these rows, None if the formula has none."""
        terms, data = self._parsed.anchors, native(data)
        if not terms:
            return None
        known([name for name, _ in terms], column_names(data))
        frame = select(data, list(dict.fromkeys(name for name, _ in terms)))
        _complete(frame, "anchor")
        for name, kind in terms:
            if kind == "C":
                frame[name] = frame[name].astype("category")
            elif kind == "N":
                frame[name] = real_numbers(frame[name], f"anchor N({name})")
        return frame.rename(columns={name: f"N({name})" for name, kind in terms if kind == "N"})

    def design_columns(self) -> list[str]:
        """Return the names of the covariates."""
        return self._wide_columns()[1]

    def column(self, values: Any) -> Any:
        """Return a column of the data by its name, and anything else as it is."""
        return self.new_column(self._data, values)

    def variables(self, data: Any) -> dict[str, Any]:
        """Return for each column of the covariates its levels, or its values in these rows and its range in the fit."""
        frame = select(native(data), self._used)
        return {
            name: list(self._levels[name])
            if name in self._levels
            else (frame[name].to_numpy(dtype=np.float64), self._ranges[name])
            for name in self._used
        }

    def with_column(self, data: Any, name: str, values: Any) -> pd.DataFrame:
        """Return the columns that the covariates need, one of them changed."""
        return select(native(data), self._used).assign(**{name: values})

    @staticmethod
    def new_column(data: Any, values: Any) -> Any:
        """Return a column of new rows by its name, and anything else as it is."""
        if not isinstance(values, str):
            return values
        data = native(data)
        known([values], column_names(data))
        frame = select(data, [values])
        _complete(frame, "column")
        return _labelled(frame[values], data)

    def without_data(self) -> Formula:
        """Return the formula as new rows need it."""
        self.X = self.y = self.anchors = self._data = None
        return self

    def state(self) -> dict[str, Any]:
        """Return what new data need, as JSON takes it."""
        for name, levels in self._levels.items():
            if not all(isinstance(level, (str, bool, int, float)) for level in levels):
                raise InputTypeError(f"covariate {name!r} has levels of a type that cannot be saved: make them text")
        return {
            "text": self.text,
            "offset": self.offset,
            "covariates": self._text,
            "levels": {name: list(levels) for name, levels in self._levels.items()},
            "kinds": dict(self._kinds),
            "ranges": {name: list(ends) for name, ends in self._ranges.items()},
            "transforms": _encode(dict(self._spec.transform_state)),
        }

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
        if not DOT.search(self._parsed.right) and self._expand_dot([]) != self._text:
            raise InputError("the covariates of the saved formula are not those of its text")
        self._levels = {str(name): list(levels) for name, levels in state["levels"].items()}
        self._kinds = {str(name): str(kind) for name, kind in state["kinds"].items()}
        self._ranges = {str(name): (float(low), float(high)) for name, (low, high) in state["ranges"].items()}
        scalars = all(isinstance(v, (str, bool, int, float)) for levels in self._levels.values() for v in levels)
        ends = np.array([*self._ranges.values()], dtype=np.float64)
        formula = _formula(self._text)
        self._used = [*self._levels, *self._ranges]
        if (
            not scalars
            or not np.isfinite(ends).all()
            or set(self._kinds) != set(self._levels)
            or not set(self._kinds.values()) <= {"text", "category", "code"}
            or _variables(formula) != set(self._used)
            or _coded(formula) - set(self._levels)
        ):
            raise InputError("the columns of the saved formula do not hold together")
        for name, levels in self._levels.items():
            check_levels(name, self._kinds[name], levels, math.inf)
        formula = self._set_wide_apart(formula)
        _bound_columns(formula, self._levels, 20 * n_columns + 200)
        self._spec = self._structure(formula)
        transforms = _decode(state["transforms"])
        if not _alike(dict(self._spec.transform_state), transforms):
            raise InputError("the transforms of the saved formula are not those of its terms")
        for term, own in transforms.items():
            if str(term).startswith("s("):
                check_smooth_state(own)
        self._spec = self._spec.update(transform_state=transforms, na_action="raise")
        return self.without_data()

    def _structure(self, formula: Any) -> Any:
        """Return the specification of the covariates with all levels, from made-up rows."""
        import pandas as pd

        rng = np.random.default_rng(0)
        narrow = {name: levels for name, levels in self._levels.items() if name not in self._wide.values()}
        rows = max([60, *map(len, narrow.values())])
        _bound_columns(formula, self._levels, MAX_DENSE // rows)
        made = {}
        for name, (low, high) in self._ranges.items():
            share = rng.uniform(size=rows)
            made[name] = low * (1.0 - share) + high * share
        made |= {
            name: np.array([levels[k % len(levels)] for k in range(rows)], dtype=object)
            for name, levels in narrow.items()
        }
        frame = self._coded_frame(pd.DataFrame(made, index=range(rows)))
        return _matrix(formula, frame, "ignore").model_spec

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"


def _formula(text: str, more: str = " + 1") -> Any:
    """Return formulaic's formula, of covariates always with an intercept (h has one)."""
    import formulaic
    from formulaic.errors import FormulaicError

    try:
        terms = formulaic.Formula(text + more)
    except RecursionError:
        raise InputError("the formula is nested too deeply, or joins too many terms one by one") from None
    except (FormulaicError, SyntaxError, AttributeError) as error:
        reason = re.sub(r"\x1b\[[\d;]*m|[\u29da\u29db]", "", str(error)).split("\n")[0]
        raise InputError(f"cannot read the covariates {text.strip()!r}: {reason}") from None
    _variables(terms)
    return terms


def _smooth(terms: Any) -> list[str]:
    """Return the smooth terms, which stand alone."""
    alone = [(str(term), term.factors[0]) for term in terms if len(term.factors) == 1]
    return [name for name, factor in alone if factor.eval_method.value == "python" and name.startswith("s(")]


def _variables(terms: Any) -> set[str]:
    """Return the columns of the covariates, and refuse expressions that are not on the list."""
    found: set[str] = set()
    for factor in (factor for term in terms for factor in term.factors):
        if factor.eval_method.value == "lookup":
            found.add(factor.expr)
        elif factor.eval_method.value == "python":
            found |= check_factor(factor.expr)
    return found


def _matrix(maker: Any, frame: pd.DataFrame, na_action: str = "raise") -> Any:
    """Return the model matrix of a formula or a specification."""
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):  # what comes out is checked
            return maker.get_model_matrix(frame, context=EXTRA, na_action=na_action, output="pandas")
    except (FormulaicError, ValueError, TypeError, KeyError, np.linalg.LinAlgError) as error:
        reason = re.sub(r"\x1b\[[\d;]*m|[\u29da\u29db]", "", str(error))
        if "extend beyond upper and/or lower bounds" in reason:
            reason = (
                reason.split(".")[0]
                + ": values lie beyond those of the fit; write bs(..., extrapolation='clip'), 'extend'"
            )
            reason += " or 'zero' to say what the spline is to do there"
        raise InputError(f"cannot evaluate the covariates: {reason}") from None


def _without_intercept(matrix: Any, n: int) -> pd.DataFrame:
    import pandas as pd

    kept = [name for name in matrix.columns if name != "Intercept"]
    return pd.DataFrame({name: np.asarray(matrix[name], dtype=np.float64) for name in kept}, index=range(n))


def _labelled(made: Any, data: Any) -> Any:
    """Return what was made of a table with the labels of its rows, if both have such."""
    index = aligned(data=data)
    if index is None:
        return made
    if isinstance(made, Response):
        return replace(made, index=index)
    return made.set_axis(index) if hasattr(made, "set_axis") else made


def _plain_name(name: str) -> str:
    """Return what formulaic calls a column in its states."""
    plain = re.sub(r"\W", "_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def _coded(formula: Any) -> set[str]:
    """Return the columns in C(...)."""
    expressions = [factor.expr for term in formula for factor in term.factors]
    found = (re.match(r"C\(\s*(?:`([^`]+)`|(\w+))", expression) for expression in expressions)
    return {match[1] or match[2] for match in found if match}


def _bound_columns(formula: Any, levels: dict[str, list[Any]], most: int) -> None:
    """Refuse a formula that gives more columns than ``most``, before any is made."""
    total = 0
    for term in formula:
        size = 1
        for factor in term.factors:
            match = re.match(r"C\(\s*(?:`([^`]+)`|(\w+))", factor.expr)
            name = (match[1] or match[2]) if match else factor.expr
            sizes = [int(number) for number in re.findall(r"\b\d{1,3}\b", factor.expr)]
            spline = re.match(r"(bs|cr|cs|cc|poly|s)\(", factor.expr)
            size *= len(levels[name]) if name in levels else max([10, *sizes]) + 10 if spline else 1
        total += size
    if total > most:
        raise InputError(
            f"the formula gives about {total} columns, more than {most}: drop interactions, or merge levels"
        )


def _some(values: Sequence[Any]) -> str:
    """Return values as text, the first of many."""
    return ", ".join(map(str, values[:20])) + (f", ... ({len(values)} in all)" if len(values) > 20 else "")


def _alike(a: Any, b: Any, name: Any = "") -> bool:
    """Return whether two states of transforms have the same build, no number beyond reason and knots in order."""
    if isinstance(a, dict):
        return isinstance(b, dict) and set(a) == set(b) and all(_alike(a[key], b[key], key) for key in a)
    if isinstance(a, (list, tuple, np.ndarray)):
        if not isinstance(b, (list, np.ndarray)) or np.shape(a) != np.shape(b):
            return False
        values = np.asarray(b)
        if values.dtype.kind not in "iuf" or not (np.abs(values.astype(np.float64)) <= LARGEST).all():
            return False
        return name != "knots" or bool((np.diff(values) >= 0).all())
    if a is None or isinstance(a, (str, bool, np.bool_)):
        return type(b) is type(a) if a is None else bool(a == b)
    return isinstance(b, (int, float)) and not isinstance(b, bool) and abs(b) <= LARGEST


def _complete(frame: pd.DataFrame, what: str) -> None:
    for name in frame:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            first, count = int(np.flatnonzero(missing)[0]), int(missing.sum())
            rows = "1 row" if count == 1 else f"{count} rows"
            raise InputError(f"{what} {name!r} is missing in {rows}, first at row {first}; drop or impute such rows")


def _column(values: Any, n: int) -> Any:
    return np.full(n, values) if np.ndim(values) == 0 else values


def _encode(value: Any) -> Any:
    """Return a state of formulaic in JSON's types; dictionaries as pairs, since their keys may be numbers."""
    if isinstance(value, dict):
        return {"pairs": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, (list, tuple)):
        return [_encode(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(f"a formula with a state of type {type(value).__name__} cannot be saved")


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return np.array(value["array"], dtype=np.float64)
        return {_decode(k): _decode(v) for k, v in value["pairs"]}
    return [_decode(v) for v in value] if isinstance(value, list) else value
