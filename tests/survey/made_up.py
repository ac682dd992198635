"""Results of a survey with known answers."""

from __future__ import annotations

from typing import Any

from anchortm.survey.findings import STRATEGIES

LABELS = (0, 5, 20)


def record(
    name: str,
    gains: dict[str, float],
    *,
    p: float = 0.5,
    width: float = 0.0,
    seen: bool = False,
    r2: float = 0.0,
    few: tuple[float, ...] = (0.0, 0.0, 0.0),
    advice: str = "ml",
    coverage: float = 0.9,
) -> dict[str, Any]:
    """Return the record of a data set on which strategies gain so much; what is not named gains nothing."""
    rows = [
        {
            "design": design,
            "strategy": strategy,
            "gain": gains.get(strategy, 0.0) * (1.0 if design == "like" else 2.0),
            "width_gain": width * gains.get(strategy, 0.0) * (1.0 if design == "like" else 2.0),
            "near": 0.0,
            "far": 3.0 * gains.get(strategy, 0.0),
            "p": p if design == "like" else None,
            "se": 0.1,
            "crps": 1.0 - 0.1 * gains.get(strategy, 0.0),
            "coverage": 0.9,
            "q10": 0.0,
            "xi": 1.0,
            "nll": 1.0,
        }
        for design in ("like", "further")
        for strategy in ("null", "ml", *STRATEGIES)
    ]
    held = {
        "which": "further",
        "places": 2,
        "advice": {"design": "further", "strategy": advice, "xi": 3.0, "confidence": "clear"},
        "agrees": True,
        "rows": [{"strategy": own, "gain": gains.get(own, 0.0)} for own in ("ml", *STRATEGIES)]
        + [{"strategy": "recalibrated(10)", "gain": 0.1}],
    }
    return {
        "name": name,
        "facts": {
            "table": f"made/{name}",
            "kind": "number",
            "environments": "towns",
            "seen": seen,
            "places": 10,
            "rows": 100,
            "median_rows": 10.0,
        },
        "comparison": {"rows": rows, "advice": {"like": "ml", "further": "ml"}, "confidence": "clear"},
        "hard": {own: {"q90": 1.0 - gains.get(own, 0.0), "worst": 2.0} for own in ("ml", *STRATEGIES)},
        "shift": {"median": 1.0, "largest": 2.0},
        "location": {"r2": r2, "se": 0.1, "p": 0.01 if r2 > 0.5 else 0.6, "noise": 0.1, "beyond": True},
        "score_test": {"p": 0.01},
        "labels": [
            *({"labels": m, "gain": gain, "se": 0.1, "places": 10} for m, gain in zip(LABELS, few, strict=True)),
            {"labels": None, "gain": 0.3, "se": None, "places": 10},
        ],
        "conformal": {"coverage": coverage, "model": 0.8, "infinite": 0.0, "places": 10},
        "held_back": [held],
        "failed": {},
    }
