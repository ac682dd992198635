"""The covariates as formulaic's terms: read, checked for what they evaluate, and made into a matrix."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm.exceptions import InputError
from anchortm.inputs.formula.expressions import EXTRA, check_factor

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "bound_columns",
    "coded_columns",
    "columns_used",
    "model_matrix",
    "name_in_states",
    "read_terms",
    "remembers",
    "smooth_terms_of",
    "without_intercept",
]

# functions that remember something of the data, such as the knots of a spline
REMEMBERING = ("bs", "cc", "center", "cr", "cs", "poly", "s", "scale", "standardize")
CODED = re.compile(r"C\(\s*(?:`([^`]+)`|(\w+))")
COLOURS = re.compile(r"\x1b\[[\d;]*m|[\u29da\u29db]")  # of formulaic's messages


def read_terms(text: str, more: str = " + 1") -> Any:
    """Return formulaic's formula, by default with an intercept: the baseline always has one."""
    import formulaic
    from formulaic.errors import FormulaicError

    try:
        terms = formulaic.Formula(text + more)
    except RecursionError:
        raise InputError("the formula is nested too deeply, or joins too many terms one by one") from None
    except (FormulaicError, SyntaxError, AttributeError) as error:
        reason = COLOURS.sub("", str(error)).split("\n")[0]
        raise InputError(f"cannot read the covariates {text.strip()!r}: {reason}") from None
    columns_used(terms)
    return terms


def columns_used(terms: Iterable[Any]) -> set[str]:
    """Return the columns of the covariates, and refuse expressions that are not on the list."""
    found: set[str] = set()
    for factor in (factor for term in terms for factor in term.factors):
        if factor.eval_method.value == "lookup":
            found.add(factor.expr)
        elif factor.eval_method.value == "python":
            found |= check_factor(factor.expr)
    return found


def coded_columns(terms: Iterable[Any]) -> set[str]:
    """Return the columns in C(...)."""
    found = (CODED.match(factor.expr) for term in terms for factor in term.factors)
    return {match[1] or match[2] for match in found if match}


def smooth_terms_of(terms: Iterable[Any]) -> list[str]:
    """Return the smooth terms, each a call of s(...) that is a term of its own."""
    alone = [(str(term), term.factors[0]) for term in terms if len(term.factors) == 1]
    return [name for name, factor in alone if factor.eval_method.value == "python" and name.startswith("s(")]


def remembers(text: str) -> bool:
    """Return whether terms remember something of the data, such as the knots of a spline."""
    return re.search(rf"\b({'|'.join(REMEMBERING)})\s*\(", text) is not None


def name_in_states(name: str) -> str:
    """Return what formulaic calls a column in what its terms remember."""
    plain = re.sub(r"\W", "_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def bound_columns(terms: Iterable[Any], levels: dict[str, list[Any]], most: int) -> None:
    """Refuse a formula that gives more columns than ``most``, before any is made."""
    total = 0
    for term in terms:
        size = 1
        for factor in term.factors:
            match = CODED.match(factor.expr)
            name = (match[1] or match[2]) if match else factor.expr
            sizes = [int(number) for number in re.findall(r"\b\d{1,3}\b", factor.expr)]
            spline = re.match(r"(bs|cr|cs|cc|poly|s)\(", factor.expr)
            size *= len(levels[name]) if name in levels else max([10, *sizes]) + 10 if spline else 1
        total += size
    if total > most:
        raise InputError(
            f"the formula gives about {total} columns, more than {most}: drop interactions, or merge levels"
        )


def model_matrix(maker: Any, frame: pd.DataFrame, na_action: str = "raise") -> Any:
    """Return the model matrix of a formula or a specification of formulaic's."""
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):  # the result is checked
            return maker.get_model_matrix(frame, context=EXTRA, na_action=na_action, output="pandas")
    except (FormulaicError, ValueError, TypeError, KeyError, np.linalg.LinAlgError) as error:
        reason = COLOURS.sub("", str(error))
        if "extend beyond upper and/or lower bounds" in reason:
            reason = (
                f"{reason.split('.')[0]}: values lie beyond those of the fit; write bs(..., extrapolation='clip'), "
                "'extend' or 'zero' to say what the spline should do there"
            )
        raise InputError(f"cannot evaluate the covariates: {reason}") from None


def without_intercept(matrix: Any, n: int) -> pd.DataFrame:
    """Return the columns of a model matrix but the intercept, as numbers, with rows numbered from 0."""
    import pandas as pd

    kept = [name for name in matrix.columns if name != "Intercept"]
    return pd.DataFrame({name: np.asarray(matrix[name], dtype=np.float64) for name in kept}, index=range(n))
