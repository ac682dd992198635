"""Records of models whose worst environment was minimised: the fitted model, and the arguments around it."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from anchortm._util.plain_values import check, lively
from anchortm.models.worst_environment import WorstEnvironment
from anchortm.saving.models import arguments_of, fitted_of, parameter

__all__ = ["worst_of", "worst_record"]


def worst_record(model: WorstEnvironment, inner: dict[str, Any]) -> dict[str, Any]:
    """Return the record for a file; ``inner`` is the record of the fitted model inside."""
    parameters = model.get_params(deep=False)
    del parameters["model"]
    return {
        "class": WorstEnvironment.__name__,
        "parameters": {key: parameter(key, value) for key, value in parameters.items()},
        "model": inner,
    }


def worst_of(record: dict[str, Any]) -> WorstEnvironment:
    """Return the checked model from a record."""
    for key in ("parameters", "model"):
        check(isinstance(record.get(key), dict), f"the field {key!r} is invalid")
    inner = fitted_of(record["model"])
    decisive = inner.result_.decisive
    check(decisive is not None and decisive.risk != "tail", "the environments that decide are missing")
    check("model" not in record["parameters"], "the parameters contain a model")
    model = WorstEnvironment(clone(inner), **arguments_of(lively(record["parameters"]), WorstEnvironment))
    case = model.specification().check().worst
    assert decisive is not None  # noqa: S101
    assert case is not None  # noqa: S101
    same = (decisive.share, decisive.reference) == (case.share or 0.0, case.reference)
    check(same, "the environments that decide do not match the parameters")
    loaded = model.with_result(None, inner.result_)
    if hasattr(inner, "formula_"):
        loaded.formula_ = inner.formula_
    return loaded
