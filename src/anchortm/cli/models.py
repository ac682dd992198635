"""Models by the names that the paper, R and users know."""

from __future__ import annotations

from typing import Any

from anchortm.exceptions import InputError
from anchortm.models.names import MODELS

__all__ = ["MODELS", "make_model"]


def make_model(name: str, **options: Any) -> Any:
    """Return the model of this name with the given options."""
    import anchortm

    cls, fixed = MODELS[name]
    given = {key: value for key, value in options.items() if value is not None}
    made = getattr(anchortm, cls)
    unknown = sorted(set(given) - set(made().get_params(deep=False)))
    if unknown:
        listed = ", ".join("--" + key.replace("_", "-") for key in unknown)
        raise InputError(f"the model {name} does not take {listed}")
    return made(**fixed, **given)
