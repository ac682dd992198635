"""What a function was given for the rows: X, y and anchors, or a formula and a table in their place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from anchortm._util.frames import aligned, is_batched
from anchortm.engine.problem import Problem
from anchortm.exceptions import InputError
from anchortm.inputs.formula import Formula
from anchortm.inputs.formula.grammar import parse_formula
from anchortm.inputs.formula.text import split_at
from anchortm.inputs.parts import refuse
from anchortm.models.from_formula import with_roles

__all__ = ["Given", "given"]


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

    def prepared(self) -> tuple[Given, Problem]:
        """Return the problem that a fit of the model to all rows would solve; a table in batches is learned now."""
        if self.batched:
            if hasattr(self.model, "learner"):
                refuse("boosting", "batches")
            model, problem = self.model._batched(self.X, self.y, self.sample_weight, self.offset)
            return replace(self, model=model, formula=problem.data.reader.formula), problem
        problem = self.model.problem(
            self.X, self.y, anchors=self.anchors, sample_weight=self.sample_weight, offset=self.offset
        )
        return self, problem

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
        aligned(X=X, y=y, anchors=anchors, sample_weight=sample_weight, offset=offset, environments=environments)
        return rows
    if anchors is not None:
        raise InputError("name the anchors after '|' in the formula, and pass other arguments by name, such as xis=...")
    if model.anchor_names is not None:
        raise InputError("name the anchors after '|' in the formula, not in anchor_names")
    text = _with_anchors(X, environments)
    if is_batched(y):
        return replace(rows, X=text, batched=True)
    weights, shift, groups = (Formula.new_column(y, values) for values in (sample_weight, offset, environments))
    made = Formula.counted(text, y, weights)
    model = with_roles(model, made)
    made.offset = offset if isinstance(offset, str) else None
    found = Given(model, made.X, made.y, made.anchors, weights, shift, made.anchors if groups is None else groups)
    return replace(found, formula=made.without_data())


def _with_anchors(formula: str, environments: Any) -> str:
    """Return the formula; if it does not mention anchors, the environments are its anchors."""
    parse_formula(formula)
    if isinstance(environments, str) and len(split_at(split_at(formula, "~")[1], "|")) == 1:
        return f"{formula} | `{environments}`"
    return formula
