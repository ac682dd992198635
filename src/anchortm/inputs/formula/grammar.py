"""The grammar of formulas: ``outcome | strata ~ covariates | anchors`` taken apart and checked.

Covariates may expand to a bounded number of terms, and all expressions must be on the list of ``expressions``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.formula.expressions import check_expression
from anchortm.inputs.formula.outcome import OutcomeExpression
from anchortm.inputs.formula.text import expression, hide_names, real_name, show_names, split_at, terms_tree
from anchortm.inputs.splines import FEWEST, MOST

__all__ = ["Parsed", "parse_formula"]

MAX_LENGTH = 10_000
MAX_TERMS = 5000


@dataclass(frozen=True)
class Parsed:
    """The parts of a formula; names in backticks stand as _q0, _q1, ... in the expressions."""

    text: str
    outcome: OutcomeExpression
    right: str
    anchors: tuple[tuple[str, str], ...]  # column, and C or N if it is to be a factor or a number
    quoted: tuple[str, ...]
    strata: tuple[str, ...] = ()  # columns
    random: tuple[tuple[str, str], ...] = ()  # columns of clusters, each with the terms that have random effects


def parse_formula(text: str, longest: int = MAX_LENGTH) -> Parsed:
    """Return the parts of ``outcome | strata ~ covariates | anchors``, each checked for what it may contain."""
    if not isinstance(text, str):
        raise InputTypeError(f"a formula is a string such as 'y ~ x1 + x2 | site', not {type(text).__name__}")
    if len(text) > longest:
        raise InputError(f"the formula has {len(text)} characters, more than {longest}")
    try:
        return _parse(text)
    except RecursionError:
        raise InputError("the formula is nested too deeply, or joins too many terms one by one") from None


def _parse(text: str) -> Parsed:
    """Return the parts of a formula of reasonable length."""
    sides = split_at(text, "~")
    if len(sides) != 2 or not sides[0].strip():
        raise InputError(f"a formula is 'outcome ~ covariates | anchors' with one '~', not {text!r}")
    parts = split_at(sides[1], "|")
    if len(parts) > 2:
        raise InputError(f"a formula has at most one '|', before the anchors: {text!r}; join anchors with '+'")
    outcome = split_at(sides[0], "|")
    if len(outcome) > 2:
        raise InputError(f"a formula has at most one '|' before '~', after the outcome: {text!r}; join strata with '+'")
    quoted: list[str] = []
    texts = (outcome[0], [*outcome, "0"][1], parts[0], [*parts, "0"][1])
    left, strata, right, anchors = (hide_names(part, quoted) for part in texts)
    if not right.strip():
        raise InputError(f"there is nothing between '~' and '|' in {text!r}; write 1 for no covariates")
    right, random = _random_terms(right, text)
    names = tuple(quoted)
    outcome_side = OutcomeExpression(expression(left, text), names)
    tree = terms_tree(right, text)
    _count_terms(tree, text)
    _check_smooth(tree)
    marked = _columns_joined(strata, names, text, "strata")
    if any(kind for _, kind in marked):
        raise InputError(f"strata are columns as they are, without C(...) or N(...), in {text!r}")
    return Parsed(
        text,
        outcome_side,
        right,
        _columns_joined(anchors, names, text, "anchors"),
        names,
        tuple(name for name, _ in marked),
        tuple(_random_effects(term, names, text) for term in random),
    )


def _random_terms(right: str, formula: str) -> tuple[str, list[str]]:
    """Return the covariates without terms ``(effects | cluster)``, and what stands in the brackets of these."""
    found: list[str] = []
    rest: list[str] = []
    for part in split_at(right, "+"):
        inner = part.strip()
        own = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else ""
        if len(split_at(own, "|")) == 2:
            found.append(own)
        else:
            rest.append(part)
    if len(found) > 2:
        raise InputError(
            f"a formula can have two terms of random effects, but there are {len(found)} in {formula[:200]!r}"
        )
    return ("+".join(rest) or "1", found) if found else (right, [])


def _random_effects(term: str, quoted: tuple[str, ...], formula: str) -> tuple[str, str]:
    """Return the column of the clusters, and the terms whose effects are random."""
    left, right = split_at(term, "|")
    cluster = expression(right, formula)
    if not isinstance(cluster, ast.Name):
        raise InputError(
            f"random effects need one column of clusters after '|', not {right.strip()[:80]!r}: for clusters within "
            "others make a column that names each of them"
        )
    _count_terms(terms_tree(left, formula), formula)
    return real_name(cluster, quoted), show_names(left, quoted)


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
    """Return how many terms an expression expands to that is not a sum."""
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
            raise InputError(
                f"add random effects to the covariates with '+': y ~ x + (1 | cluster), in {formula[:200]!r}"
            )
        case ast.BinOp():
            raise InputError(f"formulas do not have this operator: {ast.unparse(node)[:80]!r}, in {formula[:200]!r}")
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            return _count_terms(operand, formula)
        case ast.Name():
            return 1
        case ast.Constant(value=0 | 1):
            return 1
        case ast.Call() | ast.Set(elts=[_]):
            check_expression(node.elts[0] if isinstance(node, ast.Set) else node)
            return 1
    hint = "; put column names that are not plain words in backticks" if isinstance(node, ast.Attribute) else ""
    raise InputError(f"{ast.unparse(node)[:80]!r} is not a term of a formula, in {formula[:200]!r}{hint}")


def _check_smooth(tree: ast.expr) -> None:
    """Refuse s(...) that is not a term of its own, or has other arguments than a column and a size."""
    alone: list[int] = []
    left = [tree]
    while left:
        term = left.pop()
        if isinstance(term, ast.BinOp) and isinstance(term.op, (ast.Add, ast.Sub)):
            left += [term.left, term.right]
        else:
            alone.append(id(term))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "s":
            _check_smooth_call(node, alone=id(node) in alone)


def _check_smooth_call(node: ast.Call, alone: bool) -> None:
    """Refuse a call of s other than s(x), s(x, k) and s(x, k=k)."""
    shown = repr(ast.unparse(node)[:80])
    if not alone:
        raise InputError(f"{shown} must be a term of its own: write bs(x, 4) in interactions")
    sizes = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
    named = [keyword.arg for keyword in node.keywords]
    size = getattr(sizes[0], "value", None) if sizes else FEWEST
    whole = isinstance(size, int) and not isinstance(size, bool) and FEWEST <= size <= MOST
    if not node.args or len(sizes) > 1 or named not in ([], ["k"]) or not whole:
        raise InputError(
            f"{shown} should be s(x) or s(x, k) with k from {FEWEST} to {MOST} columns; "
            "the model's argument smooth= sets how smooth the curve is"
        )


def _columns_joined(text: str, quoted: tuple[str, ...], formula: str, what: str) -> tuple[tuple[str, str], ...]:
    """Return columns joined by '+', each with C or N where it is to be a factor or a number."""
    terms: list[tuple[str, str]] = []

    def walk(node: ast.expr) -> None:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                walk(left)
                walk(right)
            case ast.Name():
                terms.append((real_name(node, quoted), ""))
            case ast.Call(func=ast.Name(id="C" | "N" as kind), args=[ast.Name() as name], keywords=[]):
                terms.append((real_name(name, quoted), kind))
            case ast.Constant(value=0):
                pass
            case _:
                raise InputError(f"{what} are columns joined by '+', or 0 for none, not {text.strip()!r}")

    if not text.strip():
        raise InputError(f"there are no {what} after '|' in {formula[:200]!r}: name columns there, or leave '|' out")
    walk(expression(text, formula))
    return tuple(dict.fromkeys(terms))
