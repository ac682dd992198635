"""Fit estimators by a formula; they then accept tables with the columns of the formula."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, Self

from sklearn.base import clone

from anchortm._messages import warn
from anchortm._util.frames import column_names, is_batched, known, native, select
from anchortm._util.pipelines import is_pipeline
from anchortm.exceptions import AnchorWarning, InputError, InputTypeError, rows_of
from anchortm.inputs.formula import Formula
from anchortm.inputs.missing import Missing, columns_of_inputs, whole_rows
from anchortm.inputs.parts import refuse
from anchortm.predict.new_rows import NO_OUTCOME

__all__ = ["FormulaMixin", "check_formula", "whole_table", "with_roles"]


class FormulaMixin:
    """Estimators with ``from_formula``."""

    formula_: Formula

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Any,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        environments: Any = None,
        **parameters: Any,
    ) -> Self:
        """Return the model fitted to a table by a formula.

        Parameters
        ----------
        formula : str
            ``outcome ~ covariates | anchors``, such as ``Surv(time, event) ~ age + C(stage) + bs(bmi, 4) | site``;
            see ``Formula``.
        data : frame
            A pandas, polars or pyarrow table. A table that does not fit into memory is read in batches: give a path
            or glob of Parquet files, a pyarrow dataset, a polars LazyFrame or a Dask DataFrame.
        sample_weight, offset : array or column name, optional
            As for ``fit``. If the table is read in batches, column names.
        environments : array or column name, optional
            Environments to leave out, for searches and for boosted models with ``validation``.
        **parameters
            Arguments of the constructor, such as ``xi``; for searches and boosting also ``model``.

        Returns
        -------
        estimator
            The fitted model. Its methods take tables with the columns of the formula, and read the outcome from them
            if y is not given.

        See Also
        --------
        anchortm.Formula : the syntax of formulas

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
        needed = [name for name, p in signature(cls).parameters.items() if p.default is p.empty]
        missing = [f"{name}=" for name in needed if name not in parameters]
        if missing:
            raise InputTypeError(f"{cls.__name__} needs {', '.join(missing)}, such as model=NormalLinear()")
        model: Any = cls(**parameters)
        named = {"sample_weight": sample_weight, "offset": offset, "environments": environments}
        return _fitted(model, formula, data, named)  # type: ignore[no-any-return]

    def _fit_formula(self, formula: str, data: Any, anchors: Any, **named: Any) -> Self:
        """Fit by a formula, as ``fit(formula, data)``; the arguments of the constructor do not change."""
        model: Any = self
        own = signature(type(self)).parameters
        fitted = _fitted(model, formula, data, named, anchors)
        if fitted is not self:  # roles that the formula gives to columns are arguments of the copy that was fitted
            kept = {name: value for name, value in self.__dict__.items() if name in own}
            self.__dict__ = {name: value for name, value in fitted.__dict__.items() if name not in own} | kept
        return self

    def _will_read(self, formula: Formula) -> None:
        """Take note of the formula of the fit that follows; by default it is not needed before the fit."""

    def _read_tables(self, formula: Formula) -> None:
        """Read tables by this formula from now on."""
        self.formula_ = formula

    def _outcome_of(self, X: Any) -> Any:
        """Return the outcome of a table, if the model was fitted by a formula."""
        if not hasattr(self, "formula_"):
            raise InputError(NO_OUTCOME)
        return self.formula_.outcome(X)

    def _covariates(self, X: Any) -> Any:
        """Return the covariates that the formula makes from a table; without a formula, X itself."""
        return self.formula_.design(X) if hasattr(self, "formula_") and X is not None else X


def check_formula(model: Any, data: Any, anchors: Any = None) -> None:
    """Refuse a formula for a pipeline or without a table, and anchors that are given twice."""
    refuse_formula(model)
    if data is None:
        raise InputTypeError("a formula needs a table with named columns after it, not NoneType: fit(formula, data)")
    if anchors is not None:
        raise InputError("name the anchors after '|' in the formula, and pass other arguments by name, such as xis=...")
    if getattr(model, "anchor_names", None) is not None:
        raise InputError("name the anchors after '|' in the formula, not in anchor_names")
    if hasattr(model, "model"):  # a search, or boosting
        check_formula(model.model, data)


def _fitted(model: Any, formula: str, data: Any, named: dict[str, Any], anchors: Any = None) -> Any:
    """Return the model, or a copy of it with roles for columns, fitted to a table of any kind."""
    check_formula(model, data, anchors)
    if is_batched(data):
        return _fit_batches(model, formula, data, **named)
    return _fit_table(model, formula, data, named)


def _fit_batches(
    model: Any, formula: str, data: Any, sample_weight: Any = None, offset: Any = None, environments: Any = None
) -> Any:
    """Return the model fitted to a table that is read in batches."""
    if hasattr(model, "learner"):
        refuse("boosting", "batches")
    if not hasattr(model, "_fit_source"):
        raise InputTypeError(f"{type(model).__name__} needs a table in memory, not {data!r}: read it first")
    extra = {} if environments is None else {"environments": environments}
    if extra and "environments" not in signature(model.fit).parameters:
        raise InputTypeError(f"{type(model).__name__} does not use environments: leave it out")
    return model._fit_source(formula, data, sample_weight, offset, **extra)


def _fit_table(model: Any, formula: str, data: Any, named: dict[str, Any]) -> Any:
    """Return the model fitted to a table in memory; ``named`` holds the other arguments of fit or column names."""
    with whole_table(model, formula, data, named) as (made, extra, _):
        model = with_roles(model, made)
        foreign = [name for name in extra if name not in signature(model.fit).parameters]
        if foreign:
            raise InputTypeError(f"{type(model).__name__} does not use {' or '.join(foreign)}: leave it out")
        model._will_read(made)
        model.fit(made.X, made.y, anchors=made.anchors, **extra)
    offset = named.get("offset")
    made.offset = offset if isinstance(offset, str) else None
    model._read_tables(made.without_data())
    return model


@contextmanager
def whole_table(
    model: Any, formula: str, data: Any, named: dict[str, Any]
) -> Iterator[tuple[Formula, dict[str, Any], Missing | None]]:
    """Yield the formula with the whole rows of a table, what is ``named`` beside them, and which rows were dropped.

    Inside the context no one looks for missing values again.
    """
    table = native(data)

    def columns() -> Iterator[tuple[str, Any]]:
        names = column_names(table)
        roles = Formula.unread(formula, names).roles(names)
        yield from columns_of_inputs(roles, X=select(table, list(roles)))
        for argument, values in named.items():
            if not isinstance(values, str):
                yield from columns_of_inputs({}, **{argument: values})
            elif values not in roles:
                known([values], names)
                yield f"{argument} {values!r}", select(table, [values])[values]

    of = _inner(model)
    with whole_rows(getattr(of, "missing", None), columns, type(of).__name__, table=table, **named) as (whole, missing):
        rows = whole.pop("table")
        extra = {name: Formula.new_column(rows, values) for name, values in whole.items() if values is not None}
        with rows_of(None if missing is None else missing.rows):
            made = Formula.counted(formula, rows, extra.get("sample_weight"))
        _tell_places_as_numbers(made, named.get("environments"))
        yield made, extra, missing


def _tell_places_as_numbers(made: Formula, environments: Any) -> None:
    """Warn about codes of places that are also a covariate, as numbers; a fit tells where factors are both."""
    anchors = [] if made.anchors is None else [x for x in made.anchors.columns if made.anchors[x].dtype.kind != "f"]
    places = {*map(str, anchors), environments if isinstance(environments, str) else ""}
    for term, columns in made.term_columns().items():
        name = term.strip("`")
        if name in places and len(columns) == 1 and not columns[0].endswith("]"):
            warn(
                f"{name!r} is both the place and a covariate, as a number: that makes sense for a time, whose effect "
                "goes on at a new place; if it is a code of places, leave it out of the covariates",
                AnchorWarning,
            )


def _inner(model: Any) -> Any:
    """Return the model of a search or of boosting, or the model itself."""
    return _inner(model.model) if hasattr(model, "model") else model


def refuse_formula(model: Any) -> None:
    """Refuse a pipeline, whose transformers make the covariates."""
    if is_pipeline(model):
        raise InputTypeError(
            f"a {type(model).__name__} takes X and y, not a formula: either transformers or a formula makes covariates"
        )


def with_roles(model: Any, formula: Formula) -> Any:
    """Return the estimator, if any, with strata, random effects and columns of varying and scale terms set."""
    if model is None:
        return None
    if hasattr(model, "model"):  # a search, or boosting
        return clone(model).set_params(model=with_roles(model.model, formula))
    _check_smooth(model, formula)
    if getattr(model, "strata", None) is not None:
        raise InputError("name the strata before '~' in the formula, outcome | stratum ~ ..., not in strata")
    if getattr(model, "random", None) is not None:
        raise InputError("name random effects in the formula, y ~ x + (1 | cluster), not in random")
    roles: dict[str, Any] = {}
    if formula.strata:
        if "strata" not in model.get_params():
            raise InputTypeError(f"{type(model).__name__} does not support strata: leave them out")
        roles["strata"] = formula.strata
    if formula.random is not None:
        if "random" not in model.get_params():
            raise InputTypeError(f"{type(model).__name__} does not support random effects: leave them out")
        roles["random"] = formula.random
    for role in ("varying", "scale"):
        if isinstance(getattr(model, role, None), str):
            roles[role] = formula.columns_of(getattr(model, role))
    return clone(model).set_params(**roles) if roles else model


def _check_smooth(model: Any, formula: Formula) -> None:
    """Raise an error if there are smooth terms and the estimator cannot smooth."""
    if formula.smooth_terms and "smooth" not in model.get_params():
        raise InputTypeError(
            f"{type(model).__name__} does not support smooth terms such as {formula.smooth_terms[0]}: write bs(x, 4), "
            "or use a model that has the argument smooth, such as NormalLinear"
        )
