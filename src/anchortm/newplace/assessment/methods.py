"""How an assessment was computed: versions, a fingerprint of the data, and code that computes it again."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from anchortm.newplace.strategies import Strategy
from anchortm.selection.places import Places

__all__ = ["Methods", "fingerprint"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "formulaic", "narwhals", "daqp")


def versions() -> dict[str, str]:
    """Return the versions of the packages that numbers depend on."""
    return {name: metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()}


def fingerprint(places: Places) -> str:
    """Return 16 letters that depend on all values of the data and on their order, without revealing them."""
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
        Seed of all random draws.
    """

    formula: str | None
    code: str
    fingerprint: str
    seed: int

    @classmethod
    def of(cls, places: Places, model: Any, formula: str | None, inputs: Mapping[str, Any], seed: int) -> Methods:
        """Return how an assessment of these data is computed; ``inputs`` are the other arguments, None by default."""
        return cls(formula, code_of(model, formula, inputs), fingerprint(places), seed)

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


def code_of(model: Any, formula: str | None, inputs: Mapping[str, Any]) -> str:
    """Return the lines of Python that compute an assessment again; arrays and tables are called as the arguments are.

    Examples
    --------
    >>> import anchortm as atm
    >>> from anchortm.newplace.assessment.methods import code_of
    >>> inputs = {"offset": [0.1, 0.2], "strategies": ["equal", atm.strategies.MaximumLikelihood()], "cut": None}
    >>> print(code_of(atm.NormalLinear(), None, inputs).split("assess")[1])
    (atm.NormalLinear(), X, y, offset=offset, strategies=['equal', atm.strategies.MaximumLikelihood()])
    """
    rows = "X, y" if formula is None else f"{formula!r}, data"
    given = "".join(f", {name}={_written(name, value)}" for name, value in inputs.items() if value is not None)
    text = _python(model)
    return f"import anchortm as atm\n\nfound = atm.assess(atm.{text}, {rows}{given})"


def _written(name: str, value: Any) -> str:
    """Return an argument as Python writes it; of arrays and tables their name."""
    if name == "strategies":
        parts = [value] if isinstance(value, (str, Strategy)) else list(value)
        return f"[{', '.join(map(_strategy, parts))}]"
    return repr(value) if isinstance(value, (str, int)) else name


def _strategy(one: Any) -> str:
    """Return a strategy as Python writes it."""
    return f"atm.strategies.{_python(one)}" if type(one).__module__.startswith("anchortm.") else repr(one)


def _python(value: Any) -> str:
    """Return the text of an object on one line, with infinity as Python reads it."""
    return re.sub(r"(?<![\w'\"])inf\b", "float('inf')", " ".join(repr(value).split()))
