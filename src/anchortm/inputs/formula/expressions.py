"""The expressions that a formula may contain; anything else is refused before it is evaluated.

Formulas may come in files from elsewhere, and formulaic evaluates parts of them as Python. So every expression is
checked here first: names, constants, arithmetic, comparisons and the functions that we offer.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from anchortm.exceptions import InputError
from anchortm.inputs.formula.text import expression, hide_names, real_name
from anchortm.inputs.splines import spline

__all__ = ["ARITHMETIC", "COMPARISONS", "EXTRA", "TRANSFORMS", "check_expression", "check_factor", "columns_in"]

EXTRA = {"sqrt": np.sqrt, "log1p": np.log1p, "abs": np.abs, "s": spline}  # functions beyond formulaic's own
TRANSFORMS = {
    *("C", "I", "bs", "cc", "center", "cr", "cs", "exp", "exp10", "exp2", "log", "log10", "log2"),
    *("poly", "scale", "standardize", *EXTRA),
}
HINTS = {
    "factor": "write C(...)",
    "as": "write C(...)",
    "Treatment": "write C(x, contr.treatment('base'))",
    "relevel": "write C(x, contr.treatment('base'))",
    "ns": "write cr(x, 4, constraints='center') for a natural spline",
    "te": "write interactions of splines, bs(x, 4):bs(z, 4)",
    "ti": "write interactions of splines, bs(x, 4):bs(z, 4)",
    "offset": "give the column with offset=",
    "strata": "write them before '~': outcome | stratum ~ covariates",
    "cluster": "give clusters= to standard_errors or summary",
    "frailty": "write (1 | cluster) for a normal random intercept",
    "Q": "put the name in backticks",
}
NUMPY = {"abs", "cos", "exp", "floor", "log", "log10", "log1p", "log2", "sin", "sqrt"}
CONTRASTS = {"SAS", "diff", "helmert", "poly", "sum", "treatment"}
BASES = {"bs", "cc", "cr", "cs", "poly"}  # functions whose arguments are sizes
OPTIONS = BASES | {"C", "center", "s", "scale", "standardize"}  # functions that take more than a column
MAX_SIZE = 100  # largest size of a spline, and most arguments of a function
LARGEST = 1e300  # number in a formula
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


def check_expression(node: ast.AST, option: bool = False) -> None:
    """Refuse everything but names, numbers, arithmetic, comparisons and the functions on the list.

    Lists and text are allowed as an ``option`` of a function, or as one side of a comparison.
    """
    match node:
        case ast.Call():
            _check_call(node)
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            _check_arithmetic(node)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            check_expression(operand)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            for side in (left, right):
                check_expression(side, option=isinstance(side, ast.Constant))
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if option:
            for element in elements:
                check_expression(element, option)
        case _:
            if not _is_leaf(node, option):
                raise InputError(f"{ast.unparse(node)[:80]!r} cannot be used in a formula{_hint(node)}")


def _is_leaf(node: ast.AST, option: bool) -> bool:
    """Return whether a node without parts is a name, a number or None, or text as an option."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return abs(value) <= LARGEST
        case ast.Name() | ast.Constant(value=None):
            return True
        case ast.Constant(value=str()):
            return option
    return _is_contrast(node)


def _hint(node: ast.AST) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        return "; write powers as **"
    return " where a column or a number belongs" if isinstance(node, (ast.List, ast.Tuple, ast.Constant)) else ""


def _check_call(node: ast.Call) -> None:
    """Refuse functions that are not on the list, and arguments that they do not take."""
    if not _is_allowed(node.func):
        name = ast.unparse(node.func)[:80]
        hint = HINTS.get(name, f"available are {', '.join(sorted(TRANSFORMS))}")
        raise InputError(f"{name!r} is not a function of formulas; {hint}")
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    options = _check_arguments(ast.unparse(node.func), values)
    for argument in values:
        check_expression(argument, options)
    if any(keyword.arg is None for keyword in node.keywords):
        raise InputError("a function in a formula cannot take ** arguments: write them one by one")


def _check_arithmetic(node: ast.BinOp) -> None:
    """Refuse powers other than of columns, with small numbers."""
    check_expression(node.left)
    check_expression(node.right)
    if isinstance(node.op, ast.Pow):
        power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        small = isinstance(power, ast.Constant) and isinstance(power.value, (int, float)) and power.value <= 10
        if not small or not columns_in(node.left):
            raise InputError(f"{ast.unparse(node)[:80]!r}: only columns have powers, with numbers up to 10")


def columns_in(tree: ast.AST) -> list[ast.Name]:
    """Return the names in an expression that are columns, not functions or modules."""
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [node for node in names if id(node) not in functions | modules]


def _check_arguments(function: str, values: list[ast.expr]) -> bool:
    """Refuse unreasonable sizes of splines and polynomials, and C(...) of anything but a column.

    Return whether the function takes options beside its column.
    """
    if function == "C" and (not values or not isinstance(values[0], ast.Name)):
        raise InputError("C(...) takes a column: add what you compute to the table under a name of its own")
    if len(values) > MAX_SIZE:
        raise InputError(f"{function}(...) has {len(values)} arguments, more than {MAX_SIZE}")
    if any(_has_coded(value) for value in values):
        raise InputError("C(...) must be a term of its own, or part of an interaction: x:C(group)")
    if function in BASES and any(_is_odd_size(node) for value in values[1:] for node in ast.walk(value)):
        raise InputError(f"{function}(...) takes sizes and knots up to {MAX_SIZE}, written as numbers")
    options = function in OPTIONS or function.startswith("contr.")
    if not options and len(values) != 1:
        raise InputError(f"{function}(...) takes one column, not {len(values)}")
    return options


def _has_coded(tree: ast.expr) -> bool:
    """Return whether an expression has C(...) in it."""
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) == "C" for node in ast.walk(tree))


def _is_odd_size(node: ast.AST) -> bool:
    """Return whether a size is computed or too large, or too many knots are listed."""
    match node:
        case ast.Constant(value=int() as size):
            return size > MAX_SIZE
        case ast.List(elts=knots) | ast.Tuple(elts=knots):
            return len(knots) > MAX_SIZE
    return isinstance(node, ast.BinOp)


def check_factor(text: str) -> set[str]:
    """Return the columns of an expression that formulaic is about to evaluate; refuse what is not on the list."""
    quoted: list[str] = []
    tree = expression(hide_names(text, quoted), text)
    check_expression(tree)
    return {real_name(node, tuple(quoted)) for node in columns_in(tree)}


def _is_allowed(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in TRANSFORMS
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name in NUMPY
    return _is_contrast(function)


def _is_contrast(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="contr"), attr=name):
            return name in CONTRASTS
    return False
