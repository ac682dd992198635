"""Formulas with their data: covariates, outcome and anchors out, and the same transforms for new rows.

The covariates are formulaic's, whose stateful transforms (splines, scaling, contrasts) are remembered.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anchortm.exceptions import InputError, InputTypeError
from anchortm.frames import column_names, native, select
from anchortm.grammar import DOT, EXTRA, check_factor, evaluate, parse_formula
from anchortm.response import Interval, Surv

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Formula", "FormulaMixin"]


class Formula:
    """A formula with the data it was made for: covariates, outcome and anchors, and the way for new data.

    Parameters
    ----------
    text : str
        ``outcome ~ covariates | anchors``. The outcome is a column, ``Surv(time, event, entry)`` or
        ``Interval(lower, upper)``; covariates are formulaic's terms, such as ``age + C(stage) + bs(bmi, 4)``,
        1 for none and ``.`` for all other columns; anchors are columns joined by ``+`` (``C(code)`` makes numbers a
        factor), or 0 for none.
    data : frame
        A pandas, polars or pyarrow table.

    Attributes
    ----------
    X : DataFrame
    y : outcome
    anchors : DataFrame or None

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_cgd()
    >>> formula = atm.Formula("Surv(tstop, status) ~ treat + age | center", data)
    >>> list(formula.X.columns), formula.y, list(formula.anchors.columns)
    (['treat[T.rIFN-g]', 'age'], Response(128 rows of time: 44 exact, 84 right-censored), ['center'])
    """

    X: Any
    y: Any
    anchors: Any

    def __init__(self, text: str, data: Any) -> None:
        data = native(data)
        names = column_names(data)
        self._data = data
        self._parsed = parse_formula(text)
        self._text = self._expand_dot(names)
        self.text = text
        self._used = self._variables(names)
        self._spec, self.X = self._materialise(select(data, self._used))
        self.y, self.anchors = self.outcome(data), self._anchors(data, names)
        self._levels = _levels(self._spec)
        self._ranges = self._numeric_ranges(data)

    def _expand_dot(self, names: Sequence[str]) -> str:
        """Return the covariates with ``.`` spelled out and names in backticks again."""
        parsed = self._parsed
        taken = {parsed.name(n) for n in ast.walk(parsed.left) if isinstance(n, ast.Name)}
        taken |= {name for name, _ in parsed.anchors}
        others = " + ".join(f"`{name}`" for name in names if name not in taken) or "1"
        text = DOT.sub(f"({others})", parsed.right)
        return re.sub(r"\b_q(\d+)\b", lambda m: f"`{parsed.quoted[int(m[1])]}`", text)

    def _variables(self, names: Sequence[str]) -> list[str]:
        used = _variables(_formula(self._text))
        _known(sorted(used), names)
        return [name for name in names if name in used]

    def _materialise(self, frame: pd.DataFrame) -> tuple[Any, pd.DataFrame]:
        _complete(frame, "covariate")
        matrix = _matrix(_formula(self._text), frame)
        return matrix.model_spec, _without_intercept(matrix, len(frame))

    def design(self, data: Any) -> pd.DataFrame:
        """Return the covariates of new rows, with the transforms of the fit."""
        data = native(data)
        _known(self._used, column_names(data))
        frame = select(data, self._used)
        _complete(frame, "covariate")
        for name, levels in self._levels.items():
            unseen = sorted({str(value) for value in frame[name].unique()} - {str(level) for level in levels})
            if unseen:
                known = ", ".join(map(str, levels))
                raise InputError(
                    f"covariate {name!r} has levels that the fit has not seen: {', '.join(unseen)}; known: {known}"
                )
        return _without_intercept(_matrix(self._spec, frame), len(frame))

    def outcome(self, data: Any) -> Any:
        """Return the outcome of these rows."""
        data = native(data)
        node, names = self._parsed.left, column_names(data)
        used = {self._parsed.name(n) for n in ast.walk(node) if isinstance(n, ast.Name)}
        calls = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        wanted = [name for name in used - calls if not (name == "inf" and "inf" not in names)]
        _known(wanted, names)
        frame = select(data, wanted)
        _complete(frame, "outcome")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Surv", "Interval"):
            n = len(frame)
            values = [_column(evaluate(part, frame, self._parsed), n) for part in node.args]
            named = {str(k.arg): _column(evaluate(k.value, frame, self._parsed), n) for k in node.keywords}
            return Surv(*values, **named) if node.func.id == "Surv" else Interval(*values)
        return evaluate(node, frame, self._parsed)

    def _anchors(self, data: Any, names: Sequence[str]) -> Any:
        terms = self._parsed.anchors
        if not terms:
            return None
        _known([name for name, _ in terms], names)
        frame = select(data, list(dict.fromkeys(name for name, _ in terms)))
        _complete(frame, "anchor")
        for name, factor in terms:
            if factor:
                frame[name] = frame[name].astype("category")
        return frame

    def _numeric_ranges(self, data: Any) -> dict[str, tuple[float, float]]:
        frame = select(data, [name for name in self._used if name not in self._levels])
        return {name: (float(frame[name].min()), float(frame[name].max())) for name in frame}

    def design_columns(self) -> list[str]:
        """Return the names of the covariates."""
        return [name for name in self._spec.column_names if name != "Intercept"]

    def column(self, values: Any) -> Any:
        """Return a column of the data by its name, and anything else as it is."""
        if not isinstance(values, str):
            return values
        _known([values], column_names(self._data))
        return select(self._data, [values])[values]

    def without_data(self) -> Formula:
        """Return the formula as new rows need it."""
        self.X = self.y = self.anchors = self._data = None
        return self

    def state(self) -> dict[str, Any]:
        """Return what new data need, as JSON takes it."""
        return {
            "text": self.text,
            "covariates": self._text,
            "levels": {name: list(levels) for name, levels in self._levels.items()},
            "ranges": {name: list(ends) for name, ends in self._ranges.items()},
            "transforms": _encode(dict(self._spec.transform_state)),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Formula:
        """Return the formula of a saved model, without its data; the text is checked before anything is evaluated."""
        import pandas as pd

        self = cls.__new__(cls)
        self.text, self._text = str(state["text"]), str(state["covariates"])
        self._parsed = parse_formula(self.text)
        parse_formula(f"y ~ {self._text}")
        self._levels = {str(name): list(levels) for name, levels in state["levels"].items()}
        self._ranges = {str(name): (float(low), float(high)) for name, (low, high) in state["ranges"].items()}
        self._used = [*self._levels, *self._ranges]
        formula = _formula(self._text)
        if _variables(formula) != set(self._used):
            raise InputError("the columns of the saved formula are not those that it lists")
        rows = max([60, *(len(levels) for levels in self._levels.values())])
        frame = pd.DataFrame({name: np.linspace(low, high, rows) for name, (low, high) in self._ranges.items()})
        for name, levels in self._levels.items():
            values = [levels[k % len(levels)] for k in range(rows)]
            frame[name] = pd.Categorical(values, levels) if isinstance(levels[0], str) else values
        frame = frame if self._used else pd.DataFrame(index=range(rows))
        self._spec = _matrix(formula, frame).model_spec
        self._spec = self._spec.update(transform_state=_decode(state["transforms"]))
        return self.without_data()

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"


class FormulaMixin:
    """Estimators that can be fitted to a table by a formula, and then take tables with its columns."""

    formula_: Formula

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, *, sample_weight: Any = None, offset: Any = None, **parameters: Any
    ) -> Self:
        """Return the model fitted to a table by a formula.

        Parameters
        ----------
        formula : str
            ``outcome ~ covariates | anchors``, such as ``Surv(time, event) ~ age + C(stage) + bs(bmi, 4) | site``;
            see ``Formula``.
        data : frame
            A pandas, polars or pyarrow table.
        sample_weight, offset : array or column name, optional
            As for ``fit``.
        **parameters
            Arguments of the constructor, such as ``xi``.

        Returns
        -------
        The fitted model. It takes tables with the formula's columns for predictions, and finds the outcome
        in them where none is given.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + scale(age) | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0)
        >>> model.coef_names_
        ['treat[T.rIFN-g]', 'scale(age)']
        >>> model.predict_distribution(data[:3]).sf([100.0, 300.0]).shape
        (3, 2)
        """
        made = Formula(formula, data)
        model: Any = cls(**parameters)
        named = {"sample_weight": sample_weight, "offset": offset}
        extra = {name: made.column(values) for name, values in named.items() if values is not None}
        model.fit(made.X, made.y, anchors=made.anchors, **extra)
        model.formula_ = made.without_data()
        return model  # type: ignore[no-any-return]

    def _covariates(self, X: Any) -> Any:
        """Return X, or the covariates that the formula makes of a table."""
        return self.formula_.design(X) if hasattr(self, "formula_") and X is not None else X


def _formula(text: str) -> Any:
    """Return formulaic's formula, always with an intercept (h has one)."""
    import formulaic
    from formulaic.errors import FormulaicError

    try:
        terms = formulaic.Formula(f"{text} + 1")
    except (FormulaicError, SyntaxError, AttributeError) as error:
        reason = re.sub(r"\x1b\[[\d;]*m|[\u29da\u29db]", "", str(error)).split("\n")[0]
        raise InputError(f"cannot read the covariates {text.strip()!r}: {reason}") from None
    _variables(terms)
    return terms


def _variables(terms: Any) -> set[str]:
    """Return the columns of the covariates, and refuse expressions that are not on the list."""
    found: set[str] = set()
    for factor in (factor for term in terms for factor in term.factors):
        if factor.eval_method.value == "lookup":
            found.add(factor.expr)
        elif factor.eval_method.value == "python":
            found |= check_factor(factor.expr)
    return found


def _matrix(maker: Any, frame: pd.DataFrame) -> Any:
    """Return the model matrix of a formula or a specification."""
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):  # what comes out is checked
            return maker.get_model_matrix(frame, context=EXTRA, na_action="raise", output="pandas")
    except (FormulaicError, ValueError, TypeError, KeyError, np.linalg.LinAlgError) as error:
        reason = re.sub(r"\x1b\[[\d;]*m|[\u29da\u29db]", "", str(error))
        if "extend beyond upper and/or lower bounds" in reason:
            reason = (
                reason.split(".")[0]
                + ": values lie beyond those of the fit; write bs(..., extrapolation='clip'), 'extend'"
            )
            reason += " or 'zero' to say what the spline is to do there"
        raise InputError(f"cannot evaluate the covariates: {reason}") from None


def _without_intercept(matrix: Any, n: int) -> pd.DataFrame:
    import pandas as pd

    kept = [name for name in matrix.columns if name != "Intercept"]
    return pd.DataFrame({name: np.asarray(matrix[name], dtype=np.float64) for name in kept}, index=range(n))


def _levels(spec: Any) -> dict[str, list[Any]]:
    """Return the levels of each column that is used as a factor."""
    found: dict[str, list[Any]] = {}
    for expression, (kind, state) in spec.encoder_state.items():
        if kind.value != "categorical":
            continue
        match = re.match(r"C\(\s*(?:`([^`]+)`|([\w.]+))", expression)
        name = next(group for group in match.groups() if group) if match else expression
        found[name] = [level.item() if hasattr(level, "item") else level for level in state["categories"]]
    return found


def _known(wanted: Sequence[str], names: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(f"there is no column {name!r} in the data; {hint}its columns are {', '.join(names)}")


def _complete(frame: pd.DataFrame, what: str) -> None:
    for name in frame:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            first, count = int(np.flatnonzero(missing)[0]), int(missing.sum())
            rows = "1 row" if count == 1 else f"{count} rows"
            raise InputError(f"{what} {name!r} is missing in {rows}, first at row {first}; drop or impute such rows")


def _column(values: Any, n: int) -> Any:
    return np.full(n, values) if np.ndim(values) == 0 else values


def _encode(value: Any) -> Any:
    """Return a state of formulaic in JSON's types; dictionaries as pairs, since their keys may be numbers."""
    if isinstance(value, dict):
        return {"pairs": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, (list, tuple)):
        return [_encode(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputTypeError(f"a formula with a state of type {type(value).__name__} cannot be saved")


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return np.array(value["array"], dtype=np.float64)
        return {_decode(k): _decode(v) for k, v in value["pairs"]}
    return [_decode(v) for v in value] if isinstance(value, list) else value
