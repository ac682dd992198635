"""The text of formulas: split at marks, names in backticks hidden, expressions as Python trees."""

from __future__ import annotations

import ast
import re

from anchortm.exceptions import InputError

__all__ = ["DOT", "expression", "hide_names", "outside_quotes", "real_name", "show_names", "split_at", "terms_tree"]

DOT = re.compile(r"(?<![\w.)])\.(?![\w.])")  # stands for all other columns


def hide_names(text: str, quoted: list[str]) -> str:
    """Return the text with names in backticks as _q0, _q1, ..., which are added to ``quoted``."""
    if re.search(r"\b_q\d+\b", text):
        raise InputError("names such as _q0 are reserved inside formulas: rename these columns")
    result, quote, start = "", "", 0
    for k, c in enumerate(text):
        if quote != "`":
            result += c if c != "`" else ""
        if quote:
            if c == "`" != quote:
                raise InputError("a formula cannot have a backtick inside quotes")
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


def show_names(text: str, quoted: tuple[str, ...]) -> str:
    """Return the text with hidden names in backticks again."""
    return re.sub(r"\b_q(\d+)\b", lambda m: f"`{quoted[int(m[1])]}`", text).strip()


def real_name(node: ast.Name, quoted: tuple[str, ...]) -> str:
    """Return the column that a name in a tree stands for."""
    return quoted[int(node.id[2:])] if re.fullmatch(r"_q\d+", node.id) else node.id


def outside_quotes(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Return the text with a pattern replaced where it is not in quotes."""
    parts = re.split(r"(\"[^\"]*\"|'[^']*'|`[^`]*`)", text)
    return "".join(part if k % 2 else pattern.sub(lambda _: replacement, part) for k, part in enumerate(parts))


def split_at(text: str, mark: str) -> list[str]:
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


def expression(text: str, formula: str) -> ast.expr:
    """Return a text as a Python tree."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        hint = "put column names that are not plain words in backticks"
        raise InputError(f"cannot read {text.strip()[:80]!r} in the formula {formula[:200]!r}; {hint}") from None


def terms_tree(right: str, formula: str) -> ast.expr:
    """Return the covariates as a Python tree: ``:`` as @, ``^`` as **, ``%in%`` as /, ``.`` as a name."""
    text = outside_quotes(DOT, "_dot", right.replace("%in%", "/").replace("^", "**"))
    return expression(text.replace(":", "@"), formula)
