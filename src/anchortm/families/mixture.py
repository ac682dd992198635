"""Rows that are a mixture of left- and right-censored ones: y log F(eta) + (m - y) log(1 - F(eta))."""

from __future__ import annotations

import numpy as np

from anchortm._typing import Array
from anchortm.links import OneEnd

__all__ = ["mixture"]


def mixture(up: OneEnd, down: OneEnd, y: Array, rest: Array, constant: Array) -> OneEnd:
    """Return y times the values of ``up`` plus rest times those of ``down``."""
    # a row without successes does not use log F, which may be -inf
    l, r, dr, d2r = (  # noqa: E741
        np.where(y > 0.0, y * a, 0.0) + np.where(rest > 0.0, rest * b, 0.0)
        for a, b in zip(up[:4], down[:4], strict=True)
    )
    return OneEnd(l + constant, r, dr, d2r)
