"""How an assessment was computed: versions, a fingerprint of the data, and code that computes it again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from anchortm.selection.places import Places

__all__ = ["Methods", "fingerprint"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "formulaic", "narwhals", "daqp")


def versions() -> dict[str, str]:
    """Return the versions of the packages that numbers depend on."""
    return {name: metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()}


def fingerprint(places: Places) -> str:
    """Return 16 letters that depend on all values of the data and on their order, and tell none of them."""
    data, found = places.data, hashlib.sha256()
    parts: list[Any] = [data.response.lower, data.response.upper, data.without_wide().design.matrix, places.groups]
    parts += [part for part in (data.weights, data.offset) if part is not None]
    for part in parts:
        array = np.ascontiguousarray(part)
        found.update(f"{array.dtype.kind}{array.shape}".encode())
        found.update(array.astype("<f8").tobytes())
    found.update("\x1f".join(map(str, places.labels.tolist())).encode())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class Methods:
    """How an assessment was computed.

    Attributes
    ----------
    formula : str or None
        The formula, if there is one.
    code : str
        Lines of Python that compute it again.
    fingerprint : str
        Letters that depend on all values of the data.
    seed : int
        Seed of everything that was drawn.
    """

    formula: str | None
    code: str
    fingerprint: str
    seed: int

    @classmethod
    def of(
        cls, places: Places, model: Any, formula: str | None, options: Mapping[str, Any], new: bool, seed: int
    ) -> Methods:
        """Return how an assessment of these data is computed; ``options`` are those that are not the default."""
        return cls(formula, code_of(model, formula, options, new), fingerprint(places), seed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the versions of the packages that numbers depend on."""
        from anchortm import __version__

        packages = versions()
        return {
            "version": __version__,
            "python": packages.pop("python"),
            "packages": packages,
            "fingerprint": self.fingerprint,
            "seed": self.seed,
            "code": self.code,
        }


def code_of(model: Any, formula: str | None, options: Mapping[str, Any], new: bool) -> str:
    """Return the lines of Python that compute an assessment again."""
    given = ", new=new" if new else ""
    given += "".join(f", {name}={value!r}" for name, value in options.items())
    rows = f"{formula!r}, data" if formula is not None else "X, y, anchors"
    text = " ".join(repr(model).split())
    return f"import anchortm as atm\n\nfound = atm.assess(atm.{text}, {rows}{given})"
