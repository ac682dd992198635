"""The covariates as formulaic's terms: read, checked for what they evaluate, and made into a matrix."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm.exceptions import InputError
from anchortm.inputs.formula.column_kinds import level_key
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
    "reference_level",
    "remembers",
    "smooth_terms_of",
    "without_intercept",
]

# functions that remember something of the data, such as the knots of a spline
REMEMBERING = ("bs", "cc", "center", "cr", "cs", "poly", "s", "scale", "standardize")
SPLINES = ("bs", "cc", "cr", "cs")  # formulaic's splines, which have the argument extrapolation
CODED = re.compile(r"C\(\s*(?:`([^`]+)`|(\w+))")
COLOURS = re.compile(r"\x1b\[[\d;]*m|[\u29da\u29db]")  # colours and marks in formulaic's messages


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


def reference_level(terms: Iterable[Any], name: str, levels: list[Any]) -> int:
    """Return the position of the level of a factor that has no column: the first one, unless contrasts say otherwise.

    An error is raised if a contrast has no such level, or two terms have different ones.
    """
    found = set()
    for factor in (factor for term in terms for factor in term.factors):
        match = CODED.match(factor.expr)
        if match and (match[1] or match[2]) == name:
            found.add(_reference(factor.expr, name, levels))
        elif factor.expr == name:
            found.add(0)
    if len(found) > 1:
        raise InputError(f'terms code {name!r} with different reference levels: use unknown="rare"')
    return found.pop() if found else 0


def _reference(text: str, name: str, levels: list[Any]) -> int:
    """Return the position of the reference level in C(...)."""
    call = ast.parse(re.sub(r"`[^`]+`", "_", text), mode="eval").body
    assert isinstance(call, ast.Call)  # noqa: S101
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    contrast = call.args[1] if len(call.args) > 1 else given.get("contrasts", ast.Name("contr.treatment"))
    kind = ast.unparse(contrast.func if isinstance(contrast, ast.Call) else contrast)
    if kind not in ("contr.treatment", "contr.SAS"):
        raise InputError(f'{kind} gives {name!r} no baseline level: use unknown="rare", or code it by contr.treatment')
    order = ast.literal_eval(given["levels"]) if "levels" in given else levels
    options = (
        [*contrast.args, *(option.value for option in contrast.keywords)] if isinstance(contrast, ast.Call) else []
    )
    base = ast.literal_eval(options[0]) if options else order[-1 if kind == "contr.SAS" else 0]
    return [level_key(level) for level in levels].index(level_key(base))


def model_matrix(maker: Any, frame: pd.DataFrame, na_action: str = "raise", tolerant: bool = False) -> Any:
    """Return the model matrix of a formula or a specification of formulaic's.

    If ``tolerant``, splines are NaN outside their range where they would raise an error.
    """
    from formulaic.errors import FormulaicError

    context = EXTRA | _tolerant_splines() if tolerant else EXTRA
    try:
        with np.errstate(all="ignore"):  # the result is checked
            return maker.get_model_matrix(frame, context=context, na_action=na_action, output="pandas")
    except (FormulaicError, ValueError, TypeError, KeyError, np.linalg.LinAlgError) as error:
        reason = COLOURS.sub("", str(error))
        if "extend beyond upper and/or lower bounds" in reason:
            reason = (
                f"{reason.split('.')[0]}: values lie beyond those of the fit; write bs(..., extrapolation='clip'), "
                "'extend' or 'zero' to say what the spline should do there"
            )
        raise InputError(f"cannot evaluate the covariates: {reason}") from None


def _tolerant_splines() -> dict[str, Any]:
    """Return the splines, NaN where they would raise an error: outside their range, and at numbers not finite."""
    from formulaic.transforms import TRANSFORMS

    def tolerant(spline: Any, otherwise: str) -> Any:
        def values(x: Any, *given: Any, extrapolation: str = otherwise, **named: Any) -> Any:
            return spline(x, *given, extrapolation="na" if extrapolation == "raise" else extrapolation, **named)

        values.__is_stateful_transform__ = True  # type: ignore[attr-defined]
        if hasattr(spline, "get_required_variables"):  # from formulaic 1.2 on
            values.get_required_variables = spline.get_required_variables  # type: ignore[attr-defined]
        return values

    spline_of_ours: Any = EXTRA["s"]

    def smooth(x: Any, *given: Any, **named: Any) -> Any:
        finite = np.isfinite(np.asarray(x, dtype=np.float64))
        found = spline_of_ours(np.where(finite, x, 0.0), *given, **named)
        for field in found:
            found[field] = np.where(finite, found[field], np.nan)
        return found

    smooth.__is_stateful_transform__ = True  # type: ignore[attr-defined]
    smooth.get_required_variables = spline_of_ours.get_required_variables  # type: ignore[attr-defined]
    others = {name: tolerant(TRANSFORMS[name], "raise" if name == "bs" else "extend") for name in SPLINES}
    return others | {"s": smooth}


def without_intercept(matrix: Any, n: int) -> pd.DataFrame:
    """Return the columns of a model matrix but the intercept, as numbers, with rows numbered from 0."""
    import pandas as pd

    kept = [name for name in matrix.columns if name != "Intercept"]
    return pd.DataFrame({name: np.asarray(matrix[name], dtype=np.float64) for name in kept}, index=range(n))
