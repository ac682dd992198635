"""What a report says about the model, the table and its own making."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from anchortm import __version__
from anchortm._typing import Seed
from anchortm.engine.result import FitResult
from anchortm.newplace.model_report.rows import LEAST, ReportedRows
from anchortm.newplace.model_report.scores import LEVELS
from anchortm.predict.observed import reads_tables

__all__ = ["about_methods", "about_model", "about_table"]

NAMES = ("numpy", "scipy", "scikit-learn", "formulaic")


def about_model(rows: ReportedRows, times: Sequence[float], source: Mapping[str, str]) -> dict[str, Any]:
    """Return what the model is, and what it knows of its fit."""
    model = rows.model
    result, formula, summary = model.new_rows_.result, model.new_rows_.formula, model.summary()
    return {
        "model": type(model).__name__,
        "title": summary.title,
        "outcome": result.outcome_name,
        "kind": rows.kind,
        "environment_name": rows.name,
        "formula": None if formula is None else formula.text,
        "transformers": [type(step).__name__ for step in model.new_rows_.transformers],
        "anchors": [] if formula is None else list(formula.anchor_columns),
        "link": getattr(result.link, "name", None),
        "xi": float(model.xi_) if math.isfinite(model.xi_) else "inf",
        "times": list(times),
        **_about_fit(result, rows.kind == "time"),
        "facts": {str(name): str(text) for name, text in summary.facts.items()},
        "warnings": list(summary.warnings),
        "source": {str(name): str(text) for name, text in source.items()},
    }


def _about_fit(result: FitResult, times: bool) -> dict[str, Any]:
    """Return sizes, certificate and outcomes of the fit."""
    shares = None if result.shares is None else result.shares.likelihood or result.shares.penalty
    levels, reach, kinds = result.basis.levels, result.outcome_range, result.row_kinds
    return {
        "n_rows": int(result.n_rows),
        "n_events": int(result.n_rows - kinds.get("right", 0)) if times and kinds else None,
        "n_environments": None if shares is None else len(shares),
        "n_anchors": int(result.n_anchors),
        "converged": bool(result.converged),
        "kkt": float(result.kkt) if math.isfinite(result.kkt) else None,
        "classes": None if levels is None else [str(level) for level in levels],
        "outcome_range": None if reach is None else [float(end) for end in reach],
    }


def about_table(rows: ReportedRows, sites: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the size of the table."""
    return {
        "n": rows.n,
        "bad": rows.n - rows.good.size,
        "outcomes": rows.scored.size,
        "no_outcome": rows.no_outcome or None,
        "unknown_classes": rows.unknown_classes,
        "n_environments": len(sites) if rows.has_places else None,
        "n_small": sum(bool(site["small"]) for site in sites) if rows.has_places else None,
        "min_rows": LEAST,
    }


def about_methods(rows: ReportedRows, seed: Seed, place: str) -> dict[str, Any]:
    """Return versions, the seed, and how to make the report again."""
    packages = {}
    for name in NAMES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:  # vendored or frozen
            continue
    table = "table" if reads_tables(rows.model) else "X, y, environments"
    return {
        "version": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "fingerprint": rows.fingerprint(),
        "seed": int(seed) if isinstance(seed, (int, np.integer)) else None,
        "place": place,
        "levels": list(LEVELS),
        "code": f'import anchortm as atm\n\nmodel = atm.load("model.json")\natm.model_report(model, {table})',
    }
