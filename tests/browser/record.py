"""Records of assessments with seeded numbers: a large one with every part, a small one without views, a hostile one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

XIS = [0.0, 0.3, 1.0, 3.0, 10.0, 30.0]
STRATEGIES = {
    "ml": "maximum likelihood",
    "equal": "maximum likelihood in which all environments have the same weight",
    "widened": "maximum likelihood with a tuned spread",
    "anchored": "anchored, xi chosen by left-out environments",
}
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "'; alert(4); '",
    "a" * 10_240,
    "مستشفى المدينة الكبير",
    "\u202egnorw yaw eht",
    "&lt;b&gt; &amp; \u2028 line",
    "${alert(5)}{{alert(6)}}",
    "<svg onload=alert(7)>",
    "tab\tand\nline\x00end",
    "long words " * 60,
]
COVARIATES = ["rooms", "age", "poverty", "distance", "tax", "pupils", "crime", "nitrogen oxides"]


def large(n_sites: int = 92, kind: str = "density") -> dict[str, Any]:
    """Return the record of many sites, with every part that there can be."""
    rng = np.random.default_rng(5)
    sites = [_site(rng, f"Town {k + 1:02d} upon {_water(rng)}", kind == "survival") for k in range(n_sites)]
    gains = np.array([site["gains"]["anchored"] for site in sites])
    bent = np.log1p(np.array(XIS)) / np.log1p(3.0)
    loss = [
        [float(g * b - 0.004 * b**2 + (b > 0) * e) for b in bent]
        for g, e in zip(gains, rng.normal(0, 0.004, n_sites), strict=True)
    ]
    loss[2][-1] = None
    return {
        "about": _about(n_sites, sum(site["n"] for site in sites), kind),
        "recommendation": {
            "strategy": "anchored",
            "xi": 3.0,
            "kind": "further",
            "sentence": "Use xi = 3 at the new place: it lies further out than the training towns, and anchored fits "
            "predicted the outermost towns better in 7 of 8 folds.",
            "like": _advice("like", "ml", 0.0, "keep", 0.0, [-0.011, 0.012], "Keep maximum likelihood"),
            "further": _advice("further", "anchored", 3.0, "confident", 0.034, [0.012, 0.057], "Anchor with xi = 3"),
        },
        "data": {
            "covariates": [
                {
                    "name": one,
                    "mean": 3.0 * k + 0.25,
                    "sd": 1.0 + k,
                    "between": 0.4 + 0.3 * k,
                    "missing": int(k == 2) * 7,
                }
                for k, one in enumerate(COVARIATES)
            ],
            "remarks": ["14 towns have fewer than 3 rows; they count in the mean but not in the quantiles."],
        },
        "sites": sites,
        "need": {
            "statistic": 291.4,
            "df": 91,
            "p": 2.2e-20,
            "sentence": "Yes: towns differ by more than the covariates explain (p < 0.001).",
        },
        "possibility": {
            "first_stage": [
                {"covariate": one, "R2": float(v), "F": float(60 * v), "partial_R2": float(v * 0.6)}
                for one, v in zip(COVARIATES, np.sort(rng.uniform(0.1, 0.95, 8))[::-1], strict=True)
            ],
            "location": {"r2": 0.71, "se": 0.06, "p": 0.012, "sentence": "Most of the difference is one of location."},
            "identification": "There are 91 anchors for 8 covariates, so the model is over-identified.",
            "sentences": ["Towns move all covariates, so anchoring has something to work with."],
        },
        "new": _new(rng),
        "comparison": _comparison(rng),
        "path": {"xis": XIS, "loss": loss},
        "calibration": _calibration(rng),
        "conformal": {
            "level": 0.9,
            "nominal_level": 0.903,
            "width": 17.4,
            "model_width": 13.1,
            "n_places": n_sites,
            "needed": 9,
            "sentence": "For a new town a set that covers 90 % of the outcomes is 17.4 wide; the model says 13.1.",
        },
        "labels": {
            "rows": [
                {"m": m, "gain": g, "se": s, "sites": n}
                for m, g, s, n in [
                    (0, 0.0, 0.001, 60),
                    (5, 0.041, 0.016, 60),
                    (10, 0.083, 0.018, 44),
                    (20, 0.121, 0.022, 27),
                    (50, 0.149, 0.031, 9),
                ]
            ],
            "sentence": "About 20 outcomes of the new place would help more than anchoring.",
            "unit": "labelled rows",
        },
        "stability": {"draws": 200, "like": {"ml": 0.86, "widened": 0.14}, "further": {"anchored": 0.82, "ml": 0.18}},
        "held_back": {
            "n": 148,
            "rows": [
                {"strategy": s, "xi": xi, "nll": 3.1 - g, "gain": g, "mae": 3.4 - g, "coverage": 0.8 - abs(0.05 - g)}
                for s, xi, g in [
                    ("ml", 0.0, 0.0),
                    ("equal", 0.0, -0.012),
                    ("widened", 0.0, 0.021),
                    ("anchored", 3.0, 0.047),
                ]
            ],
            "sentence": "At the 148 held-back rows xi = 3 was better than maximum likelihood by 0.047.",
            "agrees": True,
        },
        "views": _views(kind),
        "effects": {
            "unit": "change of the median of price, in 1000 dollars",
            "xis": XIS,
            "rows": [
                {"name": one, "per": "per SD", "values": [float(a + b * x) for x in bent]}
                for one, a, b in zip(COVARIATES, rng.normal(0, 2, 8), rng.normal(0, 0.4, 8), strict=True)
            ],
        },
        "methods": {
            "version": "0.1.0",
            "python": "3.12.1",
            "packages": {"numpy": "2.1.0", "pandas": "2.2.3", "scipy": "1.14.1"},
            "fingerprint": "sha256:0f3a-92c1-77be",
            "seed": 0,
            "code": "import pandas as pd\nimport anchortm as atm\n\ntable = pd.read_csv('boston.csv')\n"
            "atm.assess('price ~ rooms + age | town', table).report('report.html')\n",
            "command": "anchortm assess boston.csv --formula 'price ~ rooms + age | town' --report report.html",
            "notes": ["Each town was left out in turn, and all choices were made without it."],
        },
    }


def small() -> dict[str, Any]:
    """Return a record of three sites that decides nothing and has few parts."""
    record = large(3)
    for part in ("new", "held_back", "views", "effects", "conformal", "labels", "path"):
        record[part] = None
    advice = _advice("like", "ml", None, "undecided", None, None, "The data do not decide")
    advice |= {"collect": 20, "collect_gain": None, "stability": 0.48}
    advice["sentence"] = "Three sites are too few to tell. Keep maximum likelihood, and collect about 20 outcomes."
    record["recommendation"] = {"strategy": "ml", "xi": 0.0, "kind": "both", "sentence": advice["sentence"]}
    record["recommendation"] |= {"like": advice, "further": advice | {"design": "further", "confidence": "untried"}}
    record["comparison"] |= {"further": None, "folds": None}
    record["stability"] = {"draws": 200, "like": {"ml": 0.48, "anchored": 0.3, "widened": 0.22}, "further": None}
    return record


def hostile() -> dict[str, Any]:
    """Return the large record with names that try to run as scripts, or to break the layout."""
    record = large(40)
    for site, name in zip(record["sites"], HOSTILE, strict=False):
        site["name"] = name
    for rows, key in (
        (record["data"]["covariates"], "name"),
        (record["new"]["covariates"], "name"),
        (record["effects"]["rows"], "name"),
    ):
        for row, name in zip(rows, HOSTILE, strict=False):
            row[key] = name
    for profile, name in zip(record["views"]["profiles"], HOSTILE, strict=False):
        profile["name"] = profile["about"] = name
    record["possibility"]["first_stage"][0]["covariate"] = HOSTILE[1]
    record["about"] |= {"outcome": HOSTILE[2], "environment_name": HOSTILE[0], "formula": HOSTILE[1]}
    record["views"]["x_label"] = record["effects"]["unit"] = HOSTILE[4]
    record["methods"]["code"] = f"print({HOSTILE[1]!r})"
    record["recommendation"]["sentence"] = HOSTILE[1]
    return record


def _about(n_sites: int, n_rows: int, kind: str) -> dict[str, Any]:
    return {
        "model": "ContinuousLogit",
        "outcome": "price",
        "kind": {"density": "number", "survival": "time", "classes": "class", "counts": "count"}[kind],
        "environment_name": "town",
        "formula": "price ~ rooms + age + poverty + distance + tax + pupils + crime | town",
        "n_rows": n_rows,
        "n_events": n_rows // 3 if kind == "survival" else None,
        "n_environments": n_sites,
        "n_small": 14,
        "n_missing": 7,
        "min_rows": 3,
        "link": "logit",
        "new_given": True,
        "classes": None,
    }


def _water(rng: np.random.Generator) -> str:
    return str(rng.choice(["Avon", "Charles", "Mystic River", "Neponset", "Sudbury Reservoir", "Bay"]))


def _site(rng: np.random.Generator, name: str, timed: bool) -> dict[str, Any]:
    n = int(np.ceil(np.exp(rng.normal(1.6, 0.9))))
    error = 0.16 / np.sqrt(n)
    residual = float(rng.normal(0, 0.4))
    gains = {"equal": 0.02, "widened": 0.03, "anchored": 0.06}
    return {
        "name": name,
        "n": n,
        "events": max(n // 3, 1) if timed else None,
        "small": n < 3,
        "residual": residual,
        "lower": residual - 1.2 / np.sqrt(n),
        "upper": residual + 1.2 / np.sqrt(n),
        "skill": float(rng.normal(0.6, 0.2)),
        "gains": {"ml": 0.0} | {one: float(rng.standard_t(4) * s + 0.006) for one, s in gains.items()},
        "gain_errors": {"ml": None} | {one: None if n < 3 else float(error * s / 0.04) for one, s in gains.items()},
        "coverage": {level: float(rng.binomial(n, int(level) / 100) / n) for level in ("50", "80", "90")},
        "covariates": {one: float(rng.normal()) for one in COVARIATES},
    }


def _advice(
    design: str, strategy: str, xi: float | None, confidence: str, gain: float | None, interval: Any, headline: str
) -> dict[str, Any]:
    return {
        "design": design,
        "strategy": strategy,
        "xi": xi,
        "confidence": confidence,
        "gain": gain,
        "interval": interval,
        "interval_is": "95 % interval over sites",
        "collect": None,
        "collect_gain": None,
        "stability": 0.82,
        "headline": headline,
        "sentence": f"{headline}: this is what left-out towns of this kind show.",
        "reasons": [
            "Towns differ by more than the covariates explain (p < 0.001).",
            "Towns move all covariates, so anchoring has something to work with.",
            "The folds on both sides agree in 7 of 8 cases.",
        ],
    }


def _new(rng: np.random.Generator) -> dict[str, Any]:
    shifts = rng.normal(0, 1.5, len(COVARIATES))
    return {
        "n": 148,
        "distance": 2.3,
        "inside": False,
        "covariates": [
            {"name": one, "training": 3.0 * k, "new": float(3.0 * k + s), "shift": float(s), "effect": float(0.2 * s)}
            for k, (one, s) in enumerate(zip(COVARIATES, shifts, strict=True))
        ],
        "beyond": 0.37,
        "sentence": "Yes: the new place lies 2.3 standard deviations from the average town, mostly by rooms and tax.",
    }


def _comparison(rng: np.random.Generator) -> dict[str, Any]:
    def rows(scale: float) -> list[dict[str, Any]]:
        gains = dict(zip(STRATEGIES, [0.0, -0.01, 0.008, 0.017], strict=True))
        return [
            {
                "strategy": one,
                "mean": -0.6 - scale * g,
                "q90": -0.1 - scale * g,
                "worst": 0.9 - 3 * scale * g,
                "difference": None if one == "ml" else -scale * g,
                "se": None if one == "ml" else 0.009,
                "p": None if one == "ml" else float(rng.uniform(0, 0.2)),
                "gained": None if one == "ml" else int(6 * scale * abs(g) * 10) % 9,
            }
            for one, g in gains.items()
        ]

    folds = [
        {
            "side": side,
            "share": share,
            "environments": int(92 * share),
            "distance": 2.4 - 3 * share,
            "xi": 3.0,
            "gain": float(rng.normal(0.04, 0.03)),
            "gain_widened": float(rng.normal(0.015, 0.02)),
        }
        for side in ("low", "high")
        for share in (0.1, 0.2, 0.3, 0.4)
    ]
    strategies = [{"name": one, "about": about} for one, about in STRATEGIES.items()]
    remarks = ["The widened fit had a spread of 1.2 on average."]
    return {"strategies": strategies, "like": rows(1.0), "further": rows(2.0), "folds": folds, "remarks": remarks}


def _calibration(rng: np.random.Generator) -> dict[str, Any]:
    def share(bend: float) -> list[float]:
        raw = 1 + bend * (np.linspace(-1, 1, 10) ** 2) + rng.normal(0, 0.05, 10)
        return [float(v) for v in raw / raw.sum()]

    return {
        "levels": [0.5, 0.8, 0.9],
        "rows": [
            {"strategy": "ml", "xi": 0.0, "coverage": [0.45, 0.74, 0.85]},
            {"strategy": "anchored", "xi": 3.0, "coverage": [0.49, 0.79, 0.89]},
        ],
        "pit": {
            "edges": [k / 10 for k in range(11)],
            "counts": [
                {"strategy": "ml", "xi": 0.0, "share": share(0.9)},
                {"strategy": "anchored", "xi": 3.0, "share": share(0.2)},
            ],
        },
    }


def _views(kind: str) -> dict[str, Any]:
    profiles = {"Cheap towns": 15.0, "Typical towns": 21.0, "Dear towns": 33.0}
    bent = np.log1p(np.array(XIS)) / np.log1p(30.0)
    x: Any = np.linspace(0, 60, 81)
    made = []
    for name, centre in profiles.items():
        middles, scales = centre + (21 - centre) * 0.4 * bent, 2.4 + 0.9 * bent
        z = (x[None, :] - middles[:, None]) / scales[:, None]
        survival, density = 1 / (1 + np.exp(z)), np.exp(-z) / (1 + np.exp(-z)) ** 2 / scales[:, None]
        if kind == "classes":
            raw = np.exp(np.array([0.5, 0.2, -0.3]) + np.outer(bent - 0.2, [1, 0, -1]) * centre / 20)
            survival, density = None, raw / raw.sum(1, keepdims=True)
        if kind == "counts":
            counts = np.arange(12)
            raw = np.exp(counts * np.log(centre / 6 + bent)[:, None] - [[math.lgamma(k + 1) for k in counts]])
            density = raw / raw.sum(1, keepdims=True)
            survival = 1 - np.cumsum(density, axis=1)
        made.append(
            {
                "name": name,
                "about": "means of the towns in this third",
                "n": 168,
                "density": density.tolist(),
                "survival": None if survival is None else survival.tolist(),
                "median": middles.tolist() if kind in ("density", "survival") else None,
            }
        )
    grid = {"classes": ["mild", "moderate", "severe"], "counts": list(range(12))}.get(kind)
    label = {"density": "price, 1000 dollars", "survival": "days", "classes": "grade", "counts": "events"}[kind]
    return {"kind": kind, "x_label": label, "x": grid or x.tolist(), "xis": XIS, "profiles": made}
