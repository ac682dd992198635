"""The grammar of formulas: ``outcome ~ covariates | anchors`` taken apart, and only what is on a list let through.

Formulas may come in files from elsewhere, and formulaic evaluates parts of them as Python. So every
expression is checked here before that: names, constants, arithmetic, comparisons and the transforms
that we offer, and covariates that expand to a bounded number of terms.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm.exceptions import InputError, InputTypeError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DOT", "EXTRA", "Parsed", "check_factor", "evaluate", "parse_formula"]

DOT = re.compile(r"(?<![\w.)])\.(?![\w.])")  # for all other columns
MAX_LENGTH = 10_000
MAX_TERMS = 5000
EXTRA = {"sqrt": np.sqrt, "log1p": np.log1p, "abs": np.abs}  # beside formulaic's own
TRANSFORMS = {
    *("C", "I", "bs", "cc", "center", "cr", "cs", "exp", "exp10", "exp2", "log", "log10", "log2"),
    *("poly", "scale", "standardize", *EXTRA),
}
NUMPY = {"abs", "cos", "exp", "floor", "log", "log10", "log1p", "log2", "sin", "sqrt"}
CONTRASTS = {"diff", "helmert", "poly", "sas", "sum", "treatment"}
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Parsed:
    """The three parts of a formula; names in backticks stand as _q0, _q1, ... in the expressions."""

    text: str
    left: ast.expr
    right: str
    anchors: tuple[tuple[str, bool], ...]  # column, and whether C(...) makes it a factor
    quoted: tuple[str, ...]

    def name(self, node: ast.Name) -> str:
        """Return the column that a name stands for."""
        return self.quoted[int(node.id[2:])] if re.fullmatch(r"_q\d+", node.id) else node.id


def parse_formula(text: str) -> Parsed:
    """Return the parts of ``outcome ~ covariates | anchors``, each checked for what it may contain."""
    if not isinstance(text, str):
        raise InputTypeError(f"a formula is a string such as 'y ~ x1 + x2 | site', not {text!r}")
    if len(text) > MAX_LENGTH:
        raise InputError(f"the formula has {len(text)} characters, more than {MAX_LENGTH}")
    sides = _split(text, "~")
    if len(sides) != 2 or not sides[0].strip():
        raise InputError(f"a formula is 'outcome ~ covariates | anchors' with one '~', not {text!r}")
    parts = _split(sides[1], "|")
    if len(parts) > 2:
        raise InputError(f"a formula has at most one '|', before the anchors: {text!r}; join anchors with '+'")
    quoted: list[str] = []
    left, right, anchors = (_hide(part, quoted) for part in (sides[0], parts[0], [*parts, "0"][1]))
    if not right.strip():
        raise InputError(f"there is nothing between '~' and '|' in {text!r}; write 1 for no covariates")
    parsed = Parsed(text, _expression(left, text), right, (), tuple(quoted))
    _check_left(parsed)
    _count_terms(_formula_tree(right, text), text)
    return Parsed(text, parsed.left, right, _anchor_terms(anchors, parsed), tuple(quoted))


def _hide(text: str, quoted: list[str]) -> str:
    """Return the text with names in backticks as _q0, _q1, ..., which are added to ``quoted``."""
    if re.search(r"\b_q\d+\b", text):
        raise InputError("names such as _q0 are taken inside formulas: rename these columns")
    result, quote, start = "", "", 0
    for k, c in enumerate(text):
        if quote != "`":
            result += c if c != "`" else ""
        if quote:
            if c == "`" != quote:
                raise InputError("a backtick inside quotes is not for formulas")
            if c == quote:
                if c == "`":
                    quoted.append(text[start:k])
                    result += f"_q{len(quoted) - 1}"
                quote = ""
        elif c in "`'\"":
            quote, start = c, k + 1
    return result


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark outside of brackets, quotes and backticks."""
    parts, depth, quote, start = [], 0, "", 0
    for k, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "`'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == mark and depth == 0:
            parts.append(text[start:k])
            start = k + 1
    return [*parts, text[start:]]


def _expression(text: str, formula: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        hint = "put names that are no plain words in backticks"
        raise InputError(f"cannot read {text.strip()[:80]!r} in the formula {formula[:200]!r}; {hint}") from None


def _formula_tree(right: str, formula: str) -> ast.expr:
    """Return the covariates as a Python tree: ``:`` as @, ``^`` as **, ``%in%`` as /, ``.`` as a name."""
    text = DOT.sub("_dot", right.replace("%in%", "/").replace("^", "**"))
    return _expression(text.replace(":", "@"), formula)


def _count_terms(node: ast.expr, formula: str) -> int:
    """Return how many terms the covariates expand to at most, and refuse what is not on the list."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            a = _count_terms(left, formula)
            if isinstance(op, ast.Pow):
                power = right.value if isinstance(right, ast.Constant) else None
                if not isinstance(power, int) or not 1 <= power <= 10:
                    raise InputError(f"powers of terms are whole numbers from 1 to 10, in {formula[:200]!r}")
                count = int((a + 1) ** power)
            else:
                b = _count_terms(right, formula)
                count = a + b if isinstance(op, (ast.Add, ast.Sub)) else a * b if isinstance(op, ast.MatMult) else -1
                if isinstance(op, (ast.Mult, ast.Div)):
                    count = (a + 1) * (b + 1)
                if count < 0:
                    raise InputError(f"an operator that formulas do not have, in {formula[:200]!r}")
            if count > MAX_TERMS:
                raise InputError(f"the formula expands to more than {MAX_TERMS} terms")
            return count
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return _count_terms(operand, formula)
        case ast.Name():
            return 1
        case ast.Constant(value=0 | 1):
            return 1
        case ast.Call() | ast.Set(elts=[_]):
            _check_expression(node.elts[0] if isinstance(node, ast.Set) else node, formula)
            return 1
    raise InputError(f"{ast.unparse(node)[:80]!r} is no term of a formula, in {formula[:200]!r}")


def _check_expression(node: ast.AST, formula: str) -> None:
    """Refuse everything but names, constants, arithmetic, comparisons and the transforms on the list."""
    match node:
        case ast.Call(func=function, args=arguments, keywords=keywords):
            if not _allowed(function):
                listed = ", ".join(sorted(TRANSFORMS))
                raise InputError(f"{ast.unparse(function)[:80]!r} is no function of formulas; there are {listed}")
            for argument in [*arguments, *(keyword.value for keyword in keywords)]:
                _check_expression(argument, formula)
            if any(keyword.arg is None for keyword in keywords):
                raise InputError("** is not for formulas")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            _check_expression(left, formula)
            _check_expression(right, formula)
            if isinstance(op, ast.Pow) and isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
                raise InputError("powers of constants are not for formulas")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check_expression(operand, formula)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            _check_expression(left, formula)
            _check_expression(right, formula)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                _check_expression(element, formula)
        case ast.Name() | ast.Constant(value=int() | float() | str() | bool() | None):
            pass
        case ast.Attribute() if _contrast(node):
            pass
        case _:
            raise InputError(f"{ast.unparse(node)[:80]!r} is not for formulas")


def check_factor(expression: str) -> set[str]:
    """Return the columns of an expression that formulaic is about to evaluate; refuse what is not on the list."""
    quoted: list[str] = []
    tree = _expression(_hide(expression, quoted), expression)
    _check_expression(tree, expression)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    parsed = Parsed(expression, tree, "", (), tuple(quoted))
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {parsed.name(node) for node in names if id(node) not in functions | modules}


def _allowed(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in TRANSFORMS
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name in NUMPY
    return _contrast(function)


def _contrast(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="contr"), attr=name):
            return name in CONTRASTS
    return False


def _check_left(parsed: Parsed) -> None:
    node = parsed.left
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Surv", "Interval"):
        low, high = (2, 3) if node.func.id == "Surv" else (2, 2)
        wrong = [k.arg for k in node.keywords if k.arg != "entry" or node.func.id != "Surv"]
        if wrong or not low <= len(node.args) + len(node.keywords) <= high:
            usage = "Surv(time, event, entry=None)" if node.func.id == "Surv" else "Interval(lower, upper)"
            raise InputError(f"the outcome {ast.unparse(node)!r} should be {usage}")
        parts: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
    else:
        parts = [node]
    for part in parts:
        for inner in ast.walk(part):
            function = isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in LEFT
            plain = isinstance(inner, (ast.Name, ast.Constant, ast.Load, *ARITHMETIC, *COMPARISONS, ast.USub))
            if not (function or plain or isinstance(inner, (ast.BinOp, ast.Compare, ast.UnaryOp))):
                raise InputError(
                    f"the outcome {ast.unparse(node)[:80]!r} should be a column, Surv(time, event) or "
                    "Interval(lower, upper)"
                )


LEFT = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "log1p": np.log1p}


def evaluate(node: ast.expr, frame: pd.DataFrame, parsed: Parsed) -> Any:
    """Return the value of a checked expression of the left side."""
    match node:
        case ast.Name():
            name = parsed.name(node)
            return math.inf if name == "inf" and name not in frame else frame[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(operand=operand):
            return -evaluate(operand, frame, parsed)
        case ast.BinOp(left=left, op=op, right=right):
            return ARITHMETIC[type(op)](evaluate(left, frame, parsed), evaluate(right, frame, parsed))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return COMPARISONS[type(op)](evaluate(left, frame, parsed), evaluate(right, frame, parsed))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return LEFT[name](*(evaluate(a, frame, parsed) for a in arguments))
    raise InputError(f"cannot evaluate {ast.unparse(node)!r}")


def _anchor_terms(text: str, parsed: Parsed) -> tuple[tuple[str, bool], ...]:
    terms: list[tuple[str, bool]] = []

    def walk(node: ast.expr) -> None:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                walk(left)
                walk(right)
            case ast.Name():
                terms.append((parsed.name(node), False))
            case ast.Call(func=ast.Name(id="C"), args=[ast.Name() as name], keywords=[]):
                terms.append((parsed.name(name), True))
            case ast.Constant(value=0):
                pass
            case _:
                raise InputError(f"anchors are columns joined by '+', or 0 for none, not {text.strip()!r}")

    walk(_expression(text, parsed.text))
    return tuple(dict.fromkeys(terms))
