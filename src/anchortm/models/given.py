"""What a function was given for the rows: X, y and anchors, or a formula and a table in their place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.frames import aligned, column_names, is_batched, is_frame, native, refuse_swapped, select
from anchortm._util.pipelines import is_pipeline
from anchortm.engine.environment_weights import asks
from anchortm.engine.problem import Problem
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, MissingValueError
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.column_kinds import level_key
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.inputs.formula.text import split_at
from anchortm.inputs.missing import (
    Counts,
    Gaps,
    Missing,
    columns_of_inputs,
    dropped_before,
    listed,
    settled,
    whole_inputs,
    whole_rows,
)
from anchortm.inputs.parts import refuse
from anchortm.models.from_formula import check_formula, whole_table, with_roles

__all__ = ["ROWS", "Given", "given", "whole", "whole_new"]

MOST_GONE = 20  # places that a message lists
TEXT_FILES = (".csv", ".tsv", ".txt")
ROWS = ("X", "y", "anchors", "sample_weight", "offset")


@dataclass(frozen=True, eq=False)
class Given:
    """The model and the rows for a question.

    Attributes
    ----------
    model : estimator
        The model, with the roles that a formula gives to columns.
    X, y, anchors, sample_weight, offset, environments
        As for ``fit``; for a table that is read in batches X is the formula, y the table, and the others are names of
        columns.
    formula : Formula or None
        The formula that reads new rows.
    batched : bool
        Whether the table is read in batches.
    missing : Missing or None
        The rows that were dropped because values are missing.
    gone : str
        A sentence about places that have no other rows, empty if there are none.
    """

    model: Any
    X: Any
    y: Any
    anchors: Any = None
    sample_weight: Any = None
    offset: Any = None
    environments: Any = None
    formula: Formula | None = None
    batched: bool = False
    missing: Missing | None = None
    gone: str = ""

    @contextmanager
    def screened(self) -> Iterator[None]:
        """Let errors inside this context list all missing values, and the results say which rows were dropped."""
        if is_pipeline(self.model):
            yield
            return
        if self.missing is not None or self.formula is not None:
            with settled(self.missing):
                yield
            return
        given = {name: getattr(self, name) for name in (*ROWS, "environments")} if not self.batched else {}
        with whole_inputs(self.model.specification(), **given):
            yield

    def prepared(self, environments: bool = False) -> tuple[Given, Problem]:
        """Return the problem that a fit of the model to all rows would solve; a table in batches is learned now.

        ``environments`` says whether the problem keeps the environments; otherwise the question has its own. If they
        have weights in the likelihood, it keeps them.
        """
        if self.batched:
            if hasattr(self.model, "learner"):
                refuse("boosting", "batches")
            model, problem = self.model._batched(self.X, self.y, self.sample_weight, self.offset, self.environments)
            return replace(self, model=model, formula=problem.data.reader.formula), problem
        with self.screened():
            beside = {"sample_weight": self.sample_weight, "offset": self.offset}
            weighed = self.environments is not None and asks(getattr(self.model, "environment_weights", "rows"))
            beside |= {"environments": self.environments} if environments or weighed else {}
            problem = self.model.problem(self.X, self.y, anchors=self.anchors, **beside)
        return self, problem

    def in_memory(self, question: str) -> Given:
        """Return the rows, unless they are a table that is read in batches, which the question cannot use."""
        if self.batched:
            raise InputTypeError(f"{question} needs a table in memory, not {self.y!r}: read it first")
        return self

    def n_passes(self, problem: Problem) -> int | None:
        """Return how often the table was read so far; None for rows in memory."""
        return problem.data.n_passes if self.batched else None

    def reading(self, model: Any, problem: Problem) -> Any:
        """Return a fitted model that reads tables by the formula, if there is one."""
        if self.batched:
            model.n_passes_ = problem.data.n_passes
        if self.formula is not None:
            model.formula_ = self.formula
        return model


def given(
    model: Any,
    X: Any,
    y: Any,
    anchors: Any = None,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    environments: Any = None,
) -> Given:
    """Return what a function was given: ``X`` may be a formula, and then ``y`` is a table.

    Weights, offset and environments of a table may be the names of its columns. By default the environments of a table
    are the anchors of the formula.
    """
    rows = Given(model, X, y, anchors, sample_weight, offset, environments)
    if not isinstance(X, str):
        refuse_swapped(y, "after the model, the formula comes first, then the table (model, {}, data)")
        return _arrays(rows)
    if isinstance(y, (str, PathLike)) and str(y).lower().endswith(TEXT_FILES):
        raise InputTypeError(f"{str(y)!r} is a file, not a table: pass pandas.read_csv({str(y)!r})")
    check_formula(model, y, anchors)
    text = _with_anchors(X, environments)
    if is_batched(y):
        return replace(rows, X=text, batched=True)
    named = {"sample_weight": sample_weight, "offset": offset, "environments": environments}
    with whole_table(model, text, y, named) as (made, extra, missing):
        own: dict[str, Any] = {"environments": made.anchors} | extra
        found = Given(with_roles(model, made), made.X, made.y, made.anchors, missing=missing, **own)
    made.offset = offset if isinstance(offset, str) else None
    places = made.anchor_columns if environments is None else environments
    places = native(y)[places[0]] if isinstance(places, list) and len(places) == 1 else places
    places = native(y)[places] if isinstance(places, str) else places
    return replace(found, formula=made.without_data(), gone=_told_of_gone(places, missing))


def _arrays(rows: Given) -> Given:
    """Return what was given as arrays, without rows that have missing values if the model drops them."""
    given = {name: getattr(rows, name) for name in (*ROWS, "environments")}
    with whole(rows.model, **given) as (found, missing):
        places = rows.anchors if rows.environments is None else rows.environments
        return replace(rows, **found, missing=missing, gone=_told_of_gone(places, missing))


def _told_of_gone(places: Any, missing: Missing | None) -> str:
    """Return a sentence about places all of whose rows were dropped, after a warning; empty if there are none."""
    import pandas as pd

    places = native(places)
    if is_frame(places) and len(places.columns) == 1:
        places = places[places.columns[0]]
    if missing is None or missing.rows is None or places is None or np.shape(places) != (missing.counts.n_rows,):
        return ""
    labels = pd.Series(list(places), dtype=object)
    if all(isinstance(label, float) for label in labels) and not Gaps.of(places).integers:
        return ""  # a numeric anchor
    gone = sorted({level_key(label) for label in set(labels.dropna()) - set(labels.iloc[missing.rows])})
    if not gone:
        return ""
    one = len(gone) == 1
    listed_ = ", ".join(gone[:MOST_GONE]) + (f" and {len(gone) - MOST_GONE} more" if len(gone) > MOST_GONE else "")
    what = "1 place has no complete row and is" if one else f"{len(gone)} places have no complete rows and are"
    warn(f"{what} left out: {listed_}", AnchorTMWarning)
    return f"{what} left out: {listed_}"


@contextmanager
def whole(model: Any, **inputs: Any) -> Iterator[tuple[dict[str, Any], Missing | None]]:
    """Yield the arguments of a fit without rows that have missing values, if the model drops them.

    X of a pipeline is left as it is: a transformer may impute, and the model looks at what the transformers make.
    """
    if not is_pipeline(model):
        with whole_inputs(model.specification(), **inputs) as found:
            yield found
        return
    aligned(**inputs)
    others = {name: values for name, values in inputs.items() if name != "X"}
    spec = model.specification()
    with whole_rows(spec.missing, lambda: columns_of_inputs({}, **others), spec.model, **inputs) as found:
        pass
    with dropped_before(found[1]):
        yield found


def whole_new(model: Any, formula: Formula | None, X: Any, what: str) -> NDArray[np.intp] | None:
    """Return the positions of new rows without missing covariates; None if no value is missing.

    If the model does not drop rows with missing values they are refused, otherwise a warning says how many there are;
    ``what`` names the rows in both.
    """
    table = native(X)
    if is_pipeline(model) or hasattr(model, "learner"):
        return None  # transformers and trees may take missing values
    if formula is not None:
        needed = [*formula.covariate_columns, *formula.strata]
        if not is_frame(table) or set(needed) - set(column_names(table)):
            return None  # what reads the rows will say so
        table, roles = select(table, needed), dict.fromkeys(formula.strata, "stratum")
    else:
        roles = dict(model.specification().roles)
    if table is None or np.ndim(table) != 2:
        return None
    columns = columns_of_inputs(roles, X=table)
    used = [(name, values) for name, values in columns if name.startswith(("covariate", "stratum"))]
    counts, whole = Counts.of(int(table.shape[0]), used)
    if not counts.n_missing:
        return None
    rows = f"{counts.n_missing} of {counts.n_rows} rows"
    if model.missing != "drop":
        raise MissingValueError(
            f"{what}: missing values (NaN) in {listed(counts)}; drop or impute these {rows}, or use "
            f'{type(model).__name__}(missing="drop")'
        )
    if not whole.any():
        raise InputError(f"{what}: no rows are left, as each has a missing value: {listed(counts)}")
    warn(f"{what}: {rows} with missing values are left out, {listed(counts)}", AnchorTMWarning)
    return np.flatnonzero(whole)


def _with_anchors(formula: str, environments: Any) -> str:
    """Return the formula; if it does not mention anchors, the environments are its anchors."""
    parse_formula(formula)
    if isinstance(environments, str) and len(split_at(split_at(formula, "~")[1], "|")) == 1:
        return f"{formula} | `{environments}`"
    return formula
