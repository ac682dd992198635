"""The left side of a formula: which outcomes can be written, and their values in a table."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._util.frames import column_names, in_formulas, known, refuse_missing, select
from anchortm.exceptions import InputError
from anchortm.inputs.formula.expressions import ARITHMETIC, COMPARISONS, check_expression, columns_in
from anchortm.inputs.formula.text import real_name, show_names
from anchortm.inputs.response import Interval, Surv, Trials

if TYPE_CHECKING:
    import pandas as pd

    from anchortm._typing import Outcome

__all__ = ["OutcomeExpression"]

OUTCOMES = {
    "Surv": "Surv(time, event, entry=None)",
    "Interval": "Interval(lower, upper)",
    "Trials": "Trials(successes, trials)",
}
MOST_VALUES = 10  # most values of a column that a message lists
FUNCTIONS = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "log1p": np.log1p}


class OutcomeExpression:
    """The outcome of a formula as a checked tree; ``quoted`` are the names that stand in it as _q0, _q1, ..."""

    def __init__(self, tree: ast.expr, quoted: tuple[str, ...]) -> None:
        self.tree, self.quoted = tree, quoted
        match tree:
            case ast.Name():
                return
            case ast.Call(func=ast.Name(id="ordered")):
                _check_ordered(tree)
            case ast.Call(func=ast.Name(id=name)) if name in OUTCOMES:
                _check_call(tree, name)
            case _:
                raise InputError(
                    f"the outcome {ast.unparse(tree)[:80]!r} should be a column, Surv(time, event), "
                    "Interval(lower, upper), Trials(successes, trials) or ordered(column, ...); to transform a column, "
                    "add the result to the table under a name of its own"
                )

    def names(self) -> set[str]:
        """Return all names in the outcome, those of functions included."""
        return {real_name(node, self.quoted) for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    def columns(self, names: Sequence[str], entry: bool = True) -> set[str]:
        """Return the columns of the outcome, with or without those of an entry time.

        ``inf`` is a number unless the table has a column of that name.
        """
        node, parts = self.tree, [self.tree]
        if isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            parts = given if entry else node.args[:2]
        found = {real_name(name, self.quoted) for part in parts for name in columns_in(part)}
        return found if "inf" in names else found - {"inf"}

    @property
    def label(self) -> str:
        """Return what the outcome is called: its column, the time, the successes, or both ends of intervals."""
        match self.tree:
            case ast.Call(func=ast.Name(id="Interval"), args=ends):
                return " to ".join(dict.fromkeys(self._label(part) for part in ends))
            case ast.Call(args=[first, *_]):
                return self._label(first)
        return self._label(self.tree)

    def _label(self, node: ast.expr) -> str:
        """Return a column, or an expression such as log(time), as it is written."""
        return (
            real_name(node, self.quoted) if isinstance(node, ast.Name) else show_names(ast.unparse(node), self.quoted)
        )

    def check_quotes(self, names: Sequence[str]) -> None:
        """Refuse a word that is compared with a column and is none itself: its quotes were forgotten."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Compare(left=ast.Name() as left, ops=[op], comparators=[ast.Name() as right]):
                    column, word = real_name(left, self.quoted), real_name(right, self.quoted)
                    if column in names and word not in (*names, "inf"):
                        sign = "!=" if isinstance(op, ast.NotEq) else "=="
                        raise InputError(
                            f"there is no column {word!r} in the data; if it is a value of {column}, put it in quotes: "
                            f"{in_formulas(column)} {sign} '{word}'"
                        )

    def check_events(self, data: Any) -> None:
        """Refuse events that are compared with a value that no row has."""
        match self.tree:
            case ast.Call(
                func=ast.Name(id="Surv"),
                args=[
                    _,
                    ast.Compare(left=ast.Name() as left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]),
                    *_,
                ],
            ):
                name = real_name(left, self.quoted)
                found = select(data, [name])[name].dropna().unique().tolist()
                if value not in found:
                    found = sorted(found, key=str)
                    more = f" and {len(found) - MOST_VALUES} more" if len(found) > MOST_VALUES else ""
                    listed = ", ".join(map(repr, found[:MOST_VALUES]))
                    raise InputError(
                        f"no row has {value!r}, which the outcome compares {name!r} with: its values are {listed}{more}"
                    )

    def values(self, data: Any) -> Outcome:
        """Return the outcome of these rows."""
        names = column_names(data)
        wanted = sorted(self.columns(names))
        known(wanted, names)
        frame = select(data, wanted)
        refuse_missing(frame, "outcome")
        match self.tree:
            case ast.Call(func=ast.Name(id="ordered")):
                return self._ordered(self.tree, frame)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
                given = [_filled(self._value(part, frame), len(frame)) for part in arguments]
                named = {str(k.arg): _filled(self._value(k.value, frame), len(frame)) for k in keywords}
                made: Any = {"Surv": Surv, "Interval": Interval, "Trials": Trials}[name]
                return replace(made(*given, **named), name=self.label)
        return self._value(self.tree, frame)

    def _ordered(self, node: ast.Call, frame: pd.DataFrame) -> pd.Series:
        """Return the ordered categories of ``ordered(column, levels...)``."""
        import pandas as pd

        column = frame[real_name(node.args[0], self.quoted)]  # type: ignore[arg-type]
        found = {str(value): value for value in column.unique()}  # 1 and "1" name the same class
        levels = [found.get(str(part.value), part.value) for part in node.args[1:] if isinstance(part, ast.Constant)]
        others = sorted(set(found) - {str(level) for level in levels})
        if others:
            raise InputError(f"the outcome has classes that ordered(...) does not name: {', '.join(others)}")
        return pd.Series(pd.Categorical(column, levels, ordered=True), name=self.label)

    def _value(self, node: ast.expr, frame: pd.DataFrame) -> Any:
        """Return the value of a checked expression."""
        try:
            with np.errstate(all="ignore"):  # the result is checked
                return self._evaluate(node, frame)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"cannot compute {ast.unparse(node)[:80]!r} of these columns: are they numbers?") from None

    def _evaluate(self, node: ast.expr, frame: pd.DataFrame) -> Any:
        match node:
            case ast.Name():
                name = real_name(node, self.quoted)
                return math.inf if name == "inf" and name not in frame else frame[name]
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=op, operand=operand):
                value = self._evaluate(operand, frame)
                return -value if isinstance(op, ast.USub) else value
            case ast.BinOp(left=left, op=op, right=right):
                return ARITHMETIC[type(op)](self._evaluate(left, frame), self._evaluate(right, frame))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return COMPARISONS[type(op)](self._evaluate(left, frame), self._evaluate(right, frame))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return FUNCTIONS[name](*(self._evaluate(a, frame) for a in arguments))
        raise InputError(f"cannot evaluate {ast.unparse(node)!r}")


def _check_ordered(node: ast.Call) -> None:
    """Refuse ``ordered(...)`` without a column and two different levels."""
    constants = [part.value for part in node.args[1:] if isinstance(part, ast.Constant)]
    levels = {str(level) for level in constants if isinstance(level, (str, bool, int, float))}
    complete = len(levels) >= 2 and len(levels) + 1 == len(node.args)
    if node.keywords or not complete or not isinstance(node.args[0], ast.Name):
        raise InputError(f"the outcome {ast.unparse(node)[:80]!r} should be ordered(column, 'low', 'mid', 'high')")


def _check_call(node: ast.Call, name: str) -> None:
    """Refuse ``Surv(...)``, ``Interval(...)`` and ``Trials(...)`` with other arguments than they take."""
    low, high = (2, 3) if name == "Surv" else (2, 2)
    wrong = [k.arg for k in node.keywords if k.arg != "entry" or name != "Surv"]
    if wrong or len(node.args) < 2 or not low <= len(node.args) + len(node.keywords) <= high:
        raise InputError(f"the outcome {ast.unparse(node)!r} should be {OUTCOMES[name]}")
    for part in [*node.args, *(k.value for k in node.keywords)]:
        calls = (inner.func for inner in ast.walk(part) if isinstance(inner, ast.Call))
        if not all(isinstance(function, ast.Name) and function.id in FUNCTIONS for function in calls):
            raise InputError(
                f"the outcome {ast.unparse(node)[:80]!r} should be a column, Surv(time, event) or "
                f"Interval(lower, upper); columns in it can be transformed by {', '.join(FUNCTIONS)}"
            )
        check_expression(part)


def _filled(values: Any, n: int) -> Any:
    """Return a column, from one number too."""
    return np.full(n, values) if np.ndim(values) == 0 else values
