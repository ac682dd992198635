"""The grammar of formulas: ``outcome | strata ~ covariates | anchors`` taken apart, only what is on a list let through.

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
from anchortm.inputs.splines import FEWEST, MOST, spline

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DOT",
    "EXTRA",
    "OUTCOMES",
    "TRANSFORMS",
    "Parsed",
    "check_factor",
    "evaluate",
    "ordered",
    "outside_quotes",
    "parse_formula",
]

DOT = re.compile(r"(?<![\w.)])\.(?![\w.])")  # for all other columns
MAX_LENGTH = 10_000
MAX_TERMS = 5000
EXTRA = {"sqrt": np.sqrt, "log1p": np.log1p, "abs": np.abs, "s": spline}  # beside formulaic's own
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
BASES = {"bs", "cc", "cr", "cs", "poly"}  # whose arguments are sizes
OPTIONS = BASES | {"C", "center", "s", "scale", "standardize"}  # that take more than a column
MAX_SIZE = 100
LARGEST = 1e300
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
    """The parts of a formula; names in backticks stand as _q0, _q1, ... in the expressions."""

    text: str
    left: ast.expr
    right: str
    anchors: tuple[tuple[str, str], ...]  # column, and C or N if it is to be a factor or a number
    quoted: tuple[str, ...]
    strata: tuple[str, ...] = ()  # columns
    random: tuple[str, str] | None = None  # column of clusters, and the terms with random effects

    def name(self, node: ast.Name) -> str:
        """Return the column that a name stands for."""
        return self.quoted[int(node.id[2:])] if re.fullmatch(r"_q\d+", node.id) else node.id


def parse_formula(text: str, longest: int = MAX_LENGTH) -> Parsed:
    """Return the parts of ``outcome | strata ~ covariates | anchors``, each checked for what it may contain."""
    if not isinstance(text, str):
        raise InputTypeError(f"a formula is a string such as 'y ~ x1 + x2 | site', not {text!r}")
    if len(text) > longest:
        raise InputError(f"the formula has {len(text)} characters, more than {longest}")
    try:
        return _parse(text)
    except RecursionError:
        raise InputError("the formula is nested too deeply, or joins too many terms one by one") from None


def _parse(text: str) -> Parsed:
    sides = _split(text, "~")
    if len(sides) != 2 or not sides[0].strip():
        raise InputError(f"a formula is 'outcome ~ covariates | anchors' with one '~', not {text!r}")
    parts = _split(sides[1], "|")
    if len(parts) > 2:
        raise InputError(f"a formula has at most one '|', before the anchors: {text!r}; join anchors with '+'")
    outcome = _split(sides[0], "|")
    if len(outcome) > 2:
        raise InputError(f"a formula has at most one '|' before '~', after the outcome: {text!r}; join strata with '+'")
    quoted: list[str] = []
    texts = (outcome[0], [*outcome, "0"][1], parts[0], [*parts, "0"][1])
    left, strata, right, anchors = (_hide(part, quoted) for part in texts)
    if not right.strip():
        raise InputError(f"there is nothing between '~' and '|' in {text!r}; write 1 for no covariates")
    right, term = _random_term(right, text)
    parsed = Parsed(text, _expression(left, text), right, (), tuple(quoted))
    _check_left(parsed)
    tree = _formula_tree(right, text)
    _count_terms(tree, text)
    _check_smooth(tree)
    marked = _anchor_terms(strata, parsed, "strata")
    if any(kind for _, kind in marked):
        raise InputError(f"strata are columns as they are, without C(...) or N(...), in {text!r}")
    return Parsed(
        text,
        parsed.left,
        right,
        _anchor_terms(anchors, parsed),
        tuple(quoted),
        tuple(name for name, _ in marked),
        None if term is None else _random_effects(term, parsed),
    )


def _random_term(right: str, formula: str) -> tuple[str, str | None]:
    """Return the covariates without a term ``(effects | cluster)``, and what stands in its brackets."""
    found: list[str] = []
    rest: list[str] = []
    for part in _split(right, "+"):
        inner = part.strip()
        own = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else ""
        if len(_split(own, "|")) == 2:
            found.append(own)
        else:
            rest.append(part)
    if len(found) > 1:
        raise InputError(f"a formula has one term of random effects, and there are {len(found)} in {formula[:200]!r}")
    return ("+".join(rest) or "1", found[0]) if found else (right, None)


def _random_effects(term: str, parsed: Parsed) -> tuple[str, str]:
    """Return the column of the clusters, and the terms whose effects are random."""
    left, right = _split(term, "|")
    cluster = _expression(right, parsed.text)
    if not isinstance(cluster, ast.Name):
        raise InputError(
            f"after '|' in brackets stands one column of clusters, not {right.strip()[:80]!r}: for clusters within "
            "others make a column that names them all"
        )
    _count_terms(_formula_tree(left, parsed.text), parsed.text)
    return parsed.name(cluster), re.sub(r"\b_q(\d+)\b", lambda m: f"`{parsed.quoted[int(m[1])]}`", left).strip()


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
                    if k == start:
                        raise InputError("there is nothing between two backticks")
                    quoted.append(text[start:k])
                    result += f"_q{len(quoted) - 1}"
                quote = ""
        elif c in "`'\"":
            quote, start = c, k + 1
    return result


def outside_quotes(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Return the text with a pattern replaced where it is not in quotes."""
    parts = re.split(r"(\"[^\"]*\"|'[^']*'|`[^`]*`)", text)
    return "".join(part if k % 2 else pattern.sub(lambda _: replacement, part) for k, part in enumerate(parts))


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
    text = outside_quotes(DOT, "_dot", right.replace("%in%", "/").replace("^", "**"))
    return _expression(text.replace(":", "@"), formula)


def _count_terms(node: ast.expr, formula: str) -> int:
    """Return how many terms the covariates expand to at most, and refuse what is not on the list."""
    joined = 0
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):  # long sums without recursion
        joined += _count_terms(node.right, formula)
        node = node.left
    count = joined + _count_other(node, formula)
    if count > MAX_TERMS:
        raise InputError(f"the formula expands to more than {MAX_TERMS} terms")
    return count


def _count_other(node: ast.expr, formula: str) -> int:
    """Return the same of what is not a sum."""
    match node:
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            power = right.value if isinstance(right, ast.Constant) else None
            if not isinstance(power, int) or not 1 <= power <= 10:
                raise InputError(f"powers of terms are whole numbers from 1 to 10, in {formula[:200]!r}")
            return int((_count_terms(left, formula) + 1) ** power)
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return _count_terms(left, formula) * _count_terms(right, formula)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            return (_count_terms(left, formula) + 1) * (_count_terms(right, formula) + 1)
        case ast.BinOp(op=ast.BitOr()):
            raise InputError(f"random effects join the covariates by '+': y ~ x + (1 | cluster), in {formula[:200]!r}")
        case ast.BinOp():
            raise InputError(f"an operator that formulas do not have, in {formula[:200]!r}")
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return _count_terms(operand, formula)
        case ast.Name():
            return 1
        case ast.Constant(value=0 | 1):
            return 1
        case ast.Call() | ast.Set(elts=[_]):
            _check_expression(node.elts[0] if isinstance(node, ast.Set) else node, formula)
            return 1
    hint = "; put names that are no plain words in backticks" if isinstance(node, ast.Attribute) else ""
    raise InputError(f"{ast.unparse(node)[:80]!r} is no term of a formula, in {formula[:200]!r}{hint}")


def _check_smooth(tree: ast.expr) -> None:
    """Refuse s(...) that does not stand alone as a term, or has other arguments than a column and a size."""
    alone: list[int] = []
    left = [tree]
    while left:
        term = left.pop()
        if isinstance(term, ast.BinOp) and isinstance(term.op, (ast.Add, ast.Sub)):
            left += [term.left, term.right]
        else:
            alone.append(id(term))
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "s"):
            continue
        if id(node) not in alone:
            raise InputError(f"{ast.unparse(node)[:80]!r} stands alone: write bs(x, 4) in interactions")
        sizes = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        named = [keyword.arg for keyword in node.keywords]
        size = getattr(sizes[0], "value", None) if sizes else FEWEST
        whole = isinstance(size, int) and not isinstance(size, bool) and FEWEST <= size <= MOST
        if not node.args or len(sizes) > 1 or named not in ([], ["k"]) or not whole:
            raise InputError(
                f"{ast.unparse(node)[:80]!r} should be s(x) or s(x, k) with k from {FEWEST} to {MOST} columns; "
                "how smooth it is says the model's smooth="
            )


def _check_expression(node: ast.AST, formula: str, option: bool = False) -> None:
    """Refuse everything but names, numbers, arithmetic, comparisons and the transforms on the list.

    Lists and text are options of a function, or one side of a comparison: what is computed with is a column.
    """
    match node:
        case ast.Call(func=function, args=arguments, keywords=keywords):
            if not _allowed(function):
                name = ast.unparse(function)[:80]
                hint = HINTS.get(name, f"there are {', '.join(sorted(TRANSFORMS))}")
                raise InputError(f"{name!r} is no function of formulas; {hint}")
            values = [*arguments, *(keyword.value for keyword in keywords)]
            options = _check_arguments(ast.unparse(function), values)
            for argument in values:
                _check_expression(argument, formula, options)
            if any(keyword.arg is None for keyword in keywords):
                raise InputError("** is not for formulas")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            _check_expression(left, formula)
            _check_expression(right, formula)
            if isinstance(op, ast.Pow):
                power = right.operand if isinstance(right, ast.UnaryOp) else right
                small = isinstance(power, ast.Constant) and isinstance(power.value, (int, float)) and power.value <= 10
                if not small or not _columns(left):
                    raise InputError(f"{ast.unparse(node)[:80]!r}: powers are of columns, with numbers up to 10")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check_expression(operand, formula)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            for side in (left, right):
                _check_expression(side, formula, option=isinstance(side, ast.Constant))
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if option:
            for element in elements:
                _check_expression(element, formula, option)
        case ast.Constant(value=int() | float() as value) if abs(value) <= LARGEST:
            pass
        case ast.Name() | ast.Constant(value=None):
            pass
        case ast.Constant(value=str()) if option:
            pass
        case ast.Attribute() if _contrast(node):
            pass
        case _:
            hint = "; powers are written **" if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor) else ""
            if isinstance(node, (ast.List, ast.Tuple, ast.Constant)):
                hint = " where a column or a number belongs"
            raise InputError(f"{ast.unparse(node)[:80]!r} is not for formulas{hint}")


def _columns(tree: ast.AST) -> list[ast.Name]:
    """Return the names in an expression that are columns, not functions or modules."""
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [node for node in names if id(node) not in functions | modules]


def _check_arguments(function: str, values: list[ast.expr]) -> bool:
    """Refuse sizes of splines and polynomials that nobody means, and C(...) of anything but a column.

    Return whether the function has options, that is more than its column.
    """
    if function == "C" and (not values or not isinstance(values[0], ast.Name)):
        raise InputError("C(...) takes a column: compute what you need before, and give it a name")
    if len(values) > MAX_SIZE:
        raise InputError(f"{function}(...) has {len(values)} arguments")
    if any(isinstance(n, ast.Call) and ast.unparse(n.func) == "C" for value in values for n in ast.walk(value)):
        raise InputError("C(...) stands alone, or in interactions: x:C(group)")
    if function in BASES:
        inner = [n for value in values[1:] for n in ast.walk(value)]
        large = any(isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value > MAX_SIZE for n in inner)
        many = any(isinstance(n, (ast.List, ast.Tuple)) and len(n.elts) > MAX_SIZE for n in inner)
        if large or many or any(isinstance(n, ast.BinOp) for n in inner):
            raise InputError(f"{function}(...) takes sizes and knots up to {MAX_SIZE}, written as numbers")
    options = function in OPTIONS or function.startswith("contr.")
    if not options and len(values) != 1:
        raise InputError(f"{function}(...) takes one column, not {len(values)}")
    return options


def check_factor(expression: str) -> set[str]:
    """Return the columns of an expression that formulaic is about to evaluate; refuse what is not on the list."""
    quoted: list[str] = []
    tree = _expression(_hide(expression, quoted), expression)
    _check_expression(tree, expression)
    parsed = Parsed(expression, tree, "", (), tuple(quoted))
    return {parsed.name(node) for node in _columns(tree)}


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


OUTCOMES = {
    "Surv": "Surv(time, event, entry=None)",
    "Interval": "Interval(lower, upper)",
    "Trials": "Trials(successes, trials)",
}


def _check_left(parsed: Parsed) -> None:
    node = parsed.left
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OUTCOMES:
        low, high = (2, 3) if node.func.id == "Surv" else (2, 2)
        wrong = [k.arg for k in node.keywords if k.arg != "entry" or node.func.id != "Surv"]
        if wrong or len(node.args) < 2 or not low <= len(node.args) + len(node.keywords) <= high:
            raise InputError(f"the outcome {ast.unparse(node)!r} should be {OUTCOMES[node.func.id]}")
        parts: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ordered":
        constants = [part.value for part in node.args[1:] if isinstance(part, ast.Constant)]
        levels = {str(level) for level in constants if isinstance(level, (str, bool, int, float))}
        if (
            node.keywords
            or len(levels) < 2
            or len(levels) + 1 != len(node.args)
            or not isinstance(node.args[0], ast.Name)
        ):
            raise InputError(f"the outcome {ast.unparse(node)[:80]!r} should be ordered(column, 'low', 'mid', 'high')")
        return
    elif isinstance(node, ast.Name):
        return
    else:
        raise InputError(
            f"the outcome {ast.unparse(node)[:80]!r} should be a column, Surv(time, event), Interval(lower, upper), "
            "Trials(successes, trials) or ordered(column, ...); transform a column before, so that predictions have a "
            "name"
        )
    for part in parts:
        calls = (inner.func for inner in ast.walk(part) if isinstance(inner, ast.Call))
        if not all(isinstance(function, ast.Name) and function.id in LEFT for function in calls):
            raise InputError(
                f"the outcome {ast.unparse(node)[:80]!r} should be a column, Surv(time, event) or "
                "Interval(lower, upper)"
            )
        _check_expression(part, parsed.text)


LEFT = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "log1p": np.log1p}


def ordered(node: ast.Call, frame: pd.DataFrame, parsed: Parsed) -> Any:
    """Return the ordered categories of ``ordered(column, levels...)``."""
    import pandas as pd

    column = frame[parsed.name(node.args[0])]  # type: ignore[arg-type]
    found = {str(value): value for value in column.unique()}  # 1 and "1" name the same class
    levels = [found.get(str(part.value), part.value) for part in node.args[1:] if isinstance(part, ast.Constant)]
    others = sorted(set(found) - {str(level) for level in levels})
    if others:
        raise InputError(f"the outcome has classes that ordered(...) does not name: {', '.join(others)}")
    return pd.Categorical(column, levels, ordered=True)


def evaluate(node: ast.expr, frame: pd.DataFrame, parsed: Parsed) -> Any:
    """Return the value of a checked expression of the left side."""
    try:
        with np.errstate(all="ignore"):  # what comes out is checked
            return _evaluate(node, frame, parsed)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"cannot compute {ast.unparse(node)[:80]!r} of these columns: are they numbers?") from None


def _evaluate(node: ast.expr, frame: pd.DataFrame, parsed: Parsed) -> Any:
    match node:
        case ast.Name():
            name = parsed.name(node)
            return math.inf if name == "inf" and name not in frame else frame[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate(operand, frame, parsed)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return ARITHMETIC[type(op)](_evaluate(left, frame, parsed), _evaluate(right, frame, parsed))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return COMPARISONS[type(op)](_evaluate(left, frame, parsed), _evaluate(right, frame, parsed))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return LEFT[name](*(_evaluate(a, frame, parsed) for a in arguments))
    raise InputError(f"cannot evaluate {ast.unparse(node)!r}")


def _anchor_terms(text: str, parsed: Parsed, what: str = "anchors") -> tuple[tuple[str, str], ...]:
    terms: list[tuple[str, str]] = []

    def walk(node: ast.expr) -> None:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                walk(left)
                walk(right)
            case ast.Name():
                terms.append((parsed.name(node), ""))
            case ast.Call(func=ast.Name(id="C" | "N" as kind), args=[ast.Name() as name], keywords=[]):
                terms.append((parsed.name(name), kind))
            case ast.Constant(value=0):
                pass
            case _:
                raise InputError(f"{what} are columns joined by '+', or 0 for none, not {text.strip()!r}")

    walk(_expression(text, parsed.text))
    return tuple(dict.fromkeys(terms))
