"""The rows that conformal sets are made from: fits to some places, and predictions of others, for any model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from anchortm._typing import Array
from anchortm._util.checks import check_weights
from anchortm._util.frames import name_of, native, take
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm.engine.specification import named_columns
from anchortm.exceptions import InputError, InputTypeError
from anchortm.inputs.anchors import group_codes
from anchortm.inputs.design import split_columns
from anchortm.inputs.missing import rows_taken
from anchortm.inputs.response import Response, as_response
from anchortm.models.given import Given, given
from anchortm.models.pipeline import as_pipeline

__all__ = ["PlaceRows"]

Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class PlaceRows:
    """Rows by place, and a model to fit to some of them.

    Attributes
    ----------
    model : estimator
        The model, pipeline or search; it is not changed.
    formula : str or None
        The formula, if rows are those of a table. Each fit reads it anew, so that left-out rows play no part in it.
    inputs : dict
        X, y, anchors, environments, sample_weight and offset as ``fit`` takes them; X is the table if there is a
        formula.
    response : Response
        The outcome of each row.
    groups, labels : arrays
        The place of each row as a code, and the names of the places.
    weights : array
        How much each row counts.
    name : str or None
        What the places are called.
    """

    model: Any
    formula: str | None
    inputs: dict[str, Any]
    response: Response
    groups: Codes
    labels: NDArray[Any]
    weights: Array
    name: str | None = None

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, cut: int | None, **beside: Any) -> Self:
        """Return the rows of X and y, or of a formula and a table; arguments as for ``fit`` of the predictor."""
        model, last = as_pipeline(model), _inside(model)
        rows = given(last, X, y, beside["anchors"], **{k: v for k, v in beside.items() if k != "anchors"})
        rows = rows.in_memory("ConformalPredictor")
        spec = last.specification()
        response = as_response(rows.y, spec.outcome, spec.levels)
        _check_outcome(response)
        environments = _environments(rows, last)
        groups, labels = group_codes(environments, cut)
        n = len(response)
        weights = check_weights(rows.sample_weight, n)
        formula = X if isinstance(X, str) else None
        if formula is None:
            anchors = rows.anchors
            if anchors is None and last.anchor_names is None:
                anchors = labels[groups]
            inputs = {"X": native(rows.X), "y": rows.y, "anchors": anchors}
            inputs |= {"sample_weight": rows.sample_weight, "offset": rows.offset}
        else:
            assert rows.formula is not None  # noqa: S101
            table, kept = native(y), None if rows.missing is None else rows.missing.rows
            formula, inputs = rows.formula.text, {"X": table if kept is None else take(table, kept)}
            named = {"sample_weight": rows.sample_weight, "offset": rows.offset}
            inputs |= {k: beside[k] if isinstance(beside[k], str) else values for k, values in named.items()}
        inputs["environments"] = labels[groups]
        ones = np.ones(n) if weights is None else weights
        found = cls(model, formula, inputs, response, groups, labels, ones, name_of(environments))
        return found if ones.all() else found._taken(np.flatnonzero(ones))

    def _taken(self, rows: Codes) -> Self:
        found, groups = np.unique(self.groups[rows], return_inverse=True)
        inputs = {name: self._rows(name, rows) for name in self.inputs}
        own: dict[str, Any] = {"response": self.response[rows], "weights": self.weights[rows]}
        return replace(self, inputs=inputs, groups=groups, labels=self.labels[found], **own)

    @property
    def n_places(self) -> int:
        """Return the number of places."""
        return int(self.labels.size)

    def rows_in(self, places: Any) -> Codes:
        """Return the positions of the rows of some places."""
        return np.flatnonzero(np.isin(self.groups, places))

    def _rows(self, name: str, rows: Codes) -> Any:
        return rows_taken(name, self.inputs.get(name), len(self.response), rows)

    def fit(self, rows: Codes) -> Any:
        """Return the model fitted to some rows; of a search, the chosen model."""
        model = clone(self.model)
        last = model.steps[-1][1] if is_pipeline(model) else model
        known = signature(last.fit).parameters
        names = [name for name in self.inputs if name not in ("X", "y") and name in known]
        beside = {name: self._rows(name, rows) for name in names}
        X = self._rows("X", rows)
        fitted = model.fit(self.formula, X, **beside) if self.formula else model.fit(X, self._rows("y", rows), **beside)
        return getattr(fitted, "best_estimator_", fitted)

    def predict(self, fitted: Any, rows: Codes) -> Any:
        """Return the predicted distributions of some rows; those that the fit cannot predict are marked."""
        options: dict[str, Any] = {"on_bad_rows": "mark"}
        if self.response.trials is not None:
            options["trials"] = self.response.trials[rows]
        offset, X = self._rows("offset", rows), self._rows("X", rows)
        if offset is not None and not isinstance(offset, str):  # a named column is read from the table
            options["offset"] = offset
        if X is None:
            options["n_rows"] = rows.size
        return fitted.predict_distribution(X, **options)


def _inside(model: Any) -> Any:
    """Return the model, or the pipeline, inside searches; refuse what is not a model of this package."""
    inner = model
    while hasattr(inner, "xis") and hasattr(inner, "model"):
        inner = inner.model
    inner = as_pipeline(inner)
    if not (hasattr(type(model_of(inner)), "new_rows_") and hasattr(type(model_of(inner)), "predict_distribution")):
        raise InputTypeError(
            "model must be a model of this package, a search such as XiSearchCV, or a pipeline that ends in one, not "
            f"{model!r}"
        )
    return inner


def _environments(rows: Given, model: Any) -> Any:
    """Return the places: the environments, by default the anchors or the columns in ``anchor_names``."""
    if rows.environments is not None:
        return rows.environments
    if rows.anchors is None and model.anchor_names is not None:
        return split_columns(rows.X, named_columns(model.anchor_names, "anchor_names"))[1]
    if rows.anchors is None:
        raise InputError(
            "pass environments=, one label for each row, or name them after '|' in a formula (y ~ x | place)"
        )
    return rows.anchors


def _check_outcome(response: Response) -> None:
    """Refuse outcomes for which no set can be calibrated."""
    if response.truncated.any():
        raise InputError(
            f"{int(response.truncated.sum())} of {len(response)} rows are truncated (delayed entry): their sets would "
            "need the entry of each new row, which is not supported; leave entry out if all rows are seen from the "
            "start"
        )
