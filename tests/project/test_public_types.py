"""Signatures say what users may pass: few public parameters are ``Any``, each with a reason."""

import enum
import importlib
import inspect
import re
import runpy
from collections.abc import Iterator
from typing import Any

from paths import ROOT

MOST = 60
# why a parameter is Any, by its name: for these no type is narrower and true
REASONS = {
    "**options": "arguments of another function, which checks them",
    "**overrides": "settings of a scenario, which differ in type and are checked by name",
    "**parameters": "parameters of the model, which its constructor checks",
    "above": "a number, or a class of any kind",
    "after": "any fitted model of this package",
    "before": "any fitted model of this package",
    "data": "a table, Parquet files, a lazy table or a Dask table",
    "distribution": "any of the predicted distributions",
    "environments": "a column of the table by name, or one label per row",
    "estimator": "any estimator with fit and predictions, of this or another package",
    "gone": "labels of environments, of any kind",
    "model": "any fitted model of this package, a search or a boosted model included",
    "offset": "a column of the table by name, or one number per row",
    "penalty_factor": "a word, an array, or a dict of factors by names of columns",
    "random": "the column of clusters by name or position, or a dict with its effects",
    "sample_weight": "a column of the table by name, or one number per row",
    "scale": "names or positions of columns, or terms of a formula",
    "start": "a pair of baseline and coefficients, checked by length",
    "uncertainty": "the name of a covariance, a matrix or a Bootstrap",
    "varying": "names or positions of columns, lists of dummies, or a dict with ranges",
}

api = runpy.run_path(str(ROOT / "scripts" / "snapshot_api.py"))


def methods(cls: type) -> Iterator[Any]:
    """Yield the public methods of a class that this package defines."""
    for base in cls.__mro__:
        if base.__module__.startswith("anchortm"):
            for name, method in vars(base).items():
                method = getattr(method, "fn", method)  # scikit-learn's available_if
                method = getattr(method, "__func__", method)  # of class methods
                if not name.startswith("_") and inspect.isfunction(method):
                    yield method


def untyped(function: Any) -> Iterator[str]:
    """Yield the parameters of a callable that are ``Any`` or have no annotation."""
    for p in inspect.signature(function).parameters.values():
        said = "Any" if p.annotation is p.empty else str(p.annotation).removeprefix("typing.")
        if p.name not in ("self", "cls") and re.fullmatch(r"(None \| )?Any( \| None)?", said):
            yield {p.VAR_KEYWORD: "**", p.VAR_POSITIONAL: "*"}.get(p.kind, "") + p.name


def annotated_by(cls: type, parameter: str) -> str:
    """Return the class that annotates a parameter of the constructor, which subclasses share."""
    owners = [base for base in cls.__mro__ if parameter in vars(base).get("__annotations__", {})]
    return f"{owners[-1].__module__}.{owners[-1].__qualname__}" if owners else f"{cls.__module__}.{cls.__qualname__}"


def public_untyped() -> set[str]:
    """Return "function: parameter" for public parameters that are ``Any``, each once."""
    found = set()
    for address in api["public_names"]():
        module, _, name = address.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value) and issubclass(value, enum.Enum | BaseException):
            continue
        if inspect.isclass(value):
            found |= {f"{annotated_by(value, parameter)}: {parameter}" for parameter in untyped(value)}
        for function in methods(value) if inspect.isclass(value) else [value] if inspect.isfunction(value) else []:
            found |= {f"{function.__module__}.{function.__qualname__}: {p}" for p in untyped(function)}
    return found


def test_public_parameters_that_are_any_have_a_reason() -> None:
    assert not sorted(entry for entry in public_untyped() if entry.rpartition(": ")[2] not in REASONS)


def test_few_public_parameters_are_any() -> None:
    assert len(public_untyped()) <= MOST


def test_every_reason_is_used() -> None:
    assert {entry.rpartition(": ")[2] for entry in public_untyped()} >= set(REASONS)


def test_untyped_parameters_are_found() -> None:
    def function(a: Any, b: Any | None, c: int, d, *e: Any, f: list[Any], **g: Any) -> None: ...  # type: ignore[no-untyped-def]

    assert list(untyped(function)) == ["a", "b", "d", "*e", "**g"]
