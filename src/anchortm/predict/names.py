"""Results that know the names: what the outcome is called, and the labels of their rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from anchortm._util.frames import row_index

__all__ = ["named"]

P = ParamSpec("P")
R = TypeVar("R")


def named(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method that takes rows X name its result: ``outcome_name``, and ``labels`` from the index of X."""

    @wraps(method)
    def answer(*args: P.args, **options: P.kwargs) -> R:
        found: Any = method(*args, **options)
        model: Any = args[0]
        X = args[1] if len(args) > 1 else options.get("X")
        return found.named(model.new_rows_.result.outcome_name, row_index(X))  # type: ignore[no-any-return]

    return answer
