"""Old module paths: code and pickles that use them keep working, with a warning that names the new path."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

# all moved in version 0.2; the deprecation rule in CONTRIBUTING.md says how long the old paths stay
MOVED = {
    "averaged": "predict.marginal",
    "bands": "inference.bands",
    "boosted": "models.boosted.estimator",
    "boosting": "competitors.boosting",
    "cox": "models.cox",
    "distribution": "predict.distribution",
    "effects": "diagnostics.marginal_effects",
    "estimators": "models.transformation",
    "evaluation": "selection.left_out",
    "formula": "inputs.formula",
    "glm": "models.glm",
    "linear": "competitors.linear",
    "means": "predict.family",
    "model": "models.base",
    "nets": "selection.elastic_net",
    "path": "selection.path",
    "persistence": "saving",
    "predictions": "predict.tables",
    "proportionality": "diagnostics.proportionality",
    "response": "inputs.response",
    "search": "selection.searches",
    "steps": "predict.survival_steps",
    "summary": "inference.summary",
}
# old modules whose names are now in several modules: the others
ALSO = {
    "search": ("selection.invariance_rule", "selection.smooth_search"),
    "summary": ("inference.likelihood_ratio",),
}


class _Redirect(Loader):
    """Load the module at its new path under the old name."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> None:
        """Warn at the line that imports, and create an ordinary module."""
        warnings.warn(f"{spec.name} is now {self.new}", DeprecationWarning, stacklevel=2)

    def exec_module(self, module: ModuleType) -> None:
        """Copy the names of the module at the new path."""
        held = dict(vars(importlib.import_module(self.new)))
        for other in ALSO.get(module.__name__.removeprefix("anchortm."), ()):
            also = importlib.import_module(f"anchortm.{other}")
            held |= {name: getattr(also, name) for name in also.__all__}
        vars(module).update(
            {name: value for name, value in held.items() if name in ("__all__", "__doc__") or not name.startswith("__")}
        )


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != "anchortm" or name not in MOVED:
            return None
        return ModuleSpec(fullname, _Redirect(f"anchortm.{MOVED[name]}"))


def install() -> None:
    """Register the finder after all others."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
