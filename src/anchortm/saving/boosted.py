"""Records of boosted models: the inner model, and the trees or steps of each round."""

from __future__ import annotations

from typing import Any

from anchortm._util.plain_values import check, lively, plain
from anchortm.engine.specification import named_columns
from anchortm.models.boosted.estimator import AnchorBoostedTM
from anchortm.models.boosted.result import BoostedResult
from anchortm.saving.models import arguments_of, arguments_of_fit, fitted_of, formula_of, parameter, parameters_of

__all__ = ["boosted_of", "boosted_record"]


def boosted_record(model: AnchorBoostedTM, inner: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a boosted model for a file; ``inner`` is the record of the inner model."""
    parameters = model.get_params(deep=False)
    base = arguments_of_fit(parameters.pop("model"), model)
    return {
        "class": AnchorBoostedTM.__name__,
        "parameters": {key: parameter(key, value) for key, value in parameters.items()},
        "base": parameters_of(base),
        "model": inner,
        "boosted": plain(model.boosted_.to_dict()),
        "formula": model.formula_.state() if hasattr(model, "formula_") else None,
    }


def boosted_of(record: dict[str, Any]) -> AnchorBoostedTM:
    """Return the checked boosted model from a record."""
    for key in ("parameters", "base", "model", "boosted"):
        check(isinstance(record.get(key), dict), f"the field {key!r} is invalid")
    inner = fitted_of(record["model"])
    base = arguments_of(lively(record["base"]), type(inner))
    given = arguments_of(lively(record["parameters"]), AnchorBoostedTM)
    model = AnchorBoostedTM(type(inner)(**base), **given)
    model.check()
    check(inner.xi_ == model.xi, "the inner model has another xi")
    same = all(plain(getattr(model.model, what)) == plain(getattr(inner, what)) for what in ("strata", "varying"))
    check(same, "the inner model has other strata or varying effects")
    inside = AnchorBoostedTM(inner).set_params(learner=model.learner)
    inside.specification()  # raises an error if the inner model has parts that boosting cannot have
    n_beside = sum(len(named_columns(getattr(model.model, what), what)) for what in ("anchor_names", "strata"))
    boosted = BoostedResult.from_dict(lively(record["boosted"]), model.learner, n_beside, inner.result_)
    loaded = model.with_boosted(inner, boosted)
    formula = formula_of(record["formula"], boosted.covariates)
    if formula is not None:
        loaded.formula_ = formula
    return loaded
