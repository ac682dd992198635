"""Distributional anchor regression: predict whole distributions that hold up at a new place."""

from __future__ import annotations

from anchortm.response import Interval, Response, Surv

__version__ = "0.1.0.dev0"

__all__ = ["Interval", "Response", "Surv", "__version__"]
