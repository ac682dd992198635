"""A report on a model for readers: its sections, as tables and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from anchortm._messages import plain
from anchortm.newplace.model_report.conclusions import count_of, listed, name_in_text, percent
from anchortm.newplace.model_report.scores import LEVELS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MEANINGS", "Section", "frame_of", "page_of_text", "sections_of"]

MOST = 20  # rows of tables in text
DETAILS = ("coverage_50", "coverage_80", "concordance")  # columns that ``frame`` has, and pages leave out
MEANINGS = {
    "n": "rows of the place",
    "bad": "rows that cannot be predicted",
    "mean": "mean of the predicted means",
    "q10": "mean of the predicted 10 % quantiles",
    "median": "mean of the predicted medians",
    "q90": "mean of the predicted 90 % quantiles",
    "beyond": "share of rows with a covariate outside its training range",
    "outcomes": "rows with an outcome",
    "events": "rows with an event",
    "nll": "mean negative log-likelihood, lower is better",
    "residual": "mean score residual, above 0 where outcomes are larger than predicted",
    "lower": "lower limit of its 95 % interval",
    "upper": "upper limit of its 95 % interval",
    "mae": "mean distance of outcomes from their prediction",
    "coverage_50": "share of outcomes in the 50 % intervals",
    "coverage_80": "share of outcomes in the 80 % intervals",
    "coverage_90": "share of outcomes in the 90 % intervals",
    "concordance": "share of pairs in the right order, 0.5 by chance",
    "observed_mean": "mean of the outcomes",
}
PREFIXES = {
    "p_": "mean predicted probability of the class",
    "sf_": "mean predicted survival at this time",
    "observed_p_": "share of the class among the outcomes",
    "observed_sf_": "Kaplan-Meier estimate of survival at this time",
}


class Section(NamedTuple):
    """A heading and its parts: sentences, facts by name, tables."""

    heading: str
    parts: list[Any]


def sections_of(record: Mapping[str, Any]) -> list[Section]:
    """Return the sections of a report; the first is its title with the conclusions."""
    about = record["about"]
    outcome = f" for {name_in_text(about['outcome'])}" if about["outcome"] else ""
    return [
        Section(f"Report on a model: {about['model']}{outcome}", [_size(record), *record["conclusions"]]),
        Section("The model", [_facts(about), *(f"Note: {text}" for text in about["warnings"])]),
        *_places(record),
        *_calibration(record),
        *_extrapolation(record),
        *_drift(record),
        Section("Methods", _methods(record)),
    ]


def _size(record: Mapping[str, Any]) -> str:
    table, about = record["table"], record["about"]
    name = f" ({name_in_text(about['environment_name'])})" if about["environment_name"] else ""
    places = "" if table["n_environments"] is None else f" at {count_of(table['n_environments'], 'place')}{name}"
    with_outcome = f", {table['outcomes']} with an outcome" if table["outcomes"] else ", without outcomes"
    return f"The table has {count_of(table['n'], 'row')}{places}{with_outcome}."


def _facts(about: Mapping[str, Any]) -> dict[str, str]:
    """Return what the model is, by name."""
    anchors = f"{listed(about['anchors'])}, " if about["anchors"] else ""
    directions = f"{about['n_anchors']} directions" if about["n_anchors"] else "none"
    places = "the model does not keep their names"
    if about["n_environments"] is not None:
        places = str(about["n_environments"])
    facts = dict(about["source"]) | {"model": about["title"]}
    if about["transformers"]:
        facts["transformers"] = ", ".join(about["transformers"])
    if about["formula"] is not None:
        facts["formula"] = about["formula"]
    own = dict(about["facts"])
    facts["form"] = own.pop("model", "")
    return facts | own | {"anchors": f"{anchors}{directions}", "training places": places}


def _places(record: Mapping[str, Any]) -> list[Section]:
    frame = frame_of(record)
    if record["table"]["n_environments"] is None:
        frame["environment"] = "all rows"
    frame["environment"] = [name_in_text(name) for name in frame["environment"]]
    needless = [*DETAILS, *(name for name in ("bad", "beyond") if name in frame and not frame[name].any())]
    frame = frame.drop(columns=[name for name in needless if name in frame])
    return [Section("By place", [frame.set_index("environment"), _legend(frame)])]


def frame_of(record: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row for each place, without columns that are not known of any."""
    import pandas as pd

    return pd.DataFrame([_flat(site, record["about"]) for site in record["sites"]]).dropna(axis=1, how="all")


def _flat(site: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a place with one number in each column."""
    classes = [f"p_{name}" for name in about["classes"] or []]
    times = [f"sf_{time:g}" for time in about["times"]]
    found: dict[str, Any] = {"environment": site["name"], "n": site["n"], "bad": site["bad"]}
    found |= {name: site.get(name) for name in ("mean", "q10", "median", "q90")}
    found |= _each(classes, site.get("probabilities")) | _each(times, site.get("survival"))
    found |= {name: site[name] for name in ("beyond", "outcomes", "events", "nll", "residual", "lower", "upper", "mae")}
    found |= {f"coverage_{100 * level:g}": (site["coverage"] or {}).get(f"{100 * level:g}") for level in LEVELS}
    found["concordance"] = site["concordance"]
    if about["kind"] in ("class", "time"):
        return found | _each([f"observed_{name}" for name in (*classes, *times)], site["observed"])
    return found | {"observed_mean": site["observed"]}


def _each(names: Sequence[str], values: Sequence[Any] | None) -> dict[str, Any]:
    """Return values by name; None of each if they are not known."""
    return dict(zip(names, values or [None] * len(names), strict=True))


def _legend(frame: pd.DataFrame) -> dict[str, str]:
    """Return what the columns of the table of places mean."""
    found = {}
    for name in frame.columns[1:]:
        prefixes = [start for start in sorted(PREFIXES, key=len, reverse=True) if name.startswith(start)]
        if name in MEANINGS:
            found[name] = MEANINGS[name]
        elif prefixes:
            found[f"{prefixes[0]}..."] = PREFIXES[prefixes[0]]
    return found


def _calibration(record: Mapping[str, Any]) -> list[Section]:
    import pandas as pd

    found = record["calibration"]
    if found is None:
        return []
    parts: list[Any] = []
    every = record["all"]
    facts = {
        "outcomes": str(found["n"]),
        "mean NLL": _number(every["nll"]),
        "mean residual": _number(every["residual"], every["lower"], every["upper"]),
        "mean distance": _number(every["mae"]),
        "concordance": _number(every["concordance"]),
        "slope": _number(*(found["slope"] or {"slope": None}).values()),
    }
    parts.append({name: text for name, text in facts.items() if text})
    if found["coverage"]:
        parts.append(pd.DataFrame(found["coverage"]).set_index("level"))
        edges = found["pit"]["edges"]
        bins = [f"{a:g} to {b:g}" for a, b in pairwise(edges)]
        parts += [
            "Ranks of outcomes in their predicted distributions (PIT): each row of this table has a share of 0.1 if "
            "predictions are calibrated.",
            pd.DataFrame({"share": found["pit"]["share"]}, index=pd.Index(bins, name="PIT")),
        ]
    if found["survival"]:
        columns = ["time", "predicted", "observed", "lower", "upper"]
        parts += [
            "Survival, predicted on average and observed (Kaplan-Meier):",
            pd.DataFrame(found["survival"])[columns].set_index("time"),
        ]
    if found["classes"]:
        parts += ["Shares of classes:", pd.DataFrame(found["classes"]).set_index("class")]
    return [Section("Calibration", parts)]


def _number(value: float | None, lower: float | None = None, upper: float | None = None) -> str:
    if value is None:
        return ""
    limits = "" if lower is None or upper is None else f" (95 % interval {lower:.4g} to {upper:.4g})"
    return f"{value:.4g}{limits}"


def _extrapolation(record: Mapping[str, Any]) -> list[Section]:
    import pandas as pd

    found, parts = record["extrapolation"], []
    if found["columns"]:
        frame = pd.DataFrame(found["columns"])
        frame["name"] = [name_in_text(name) for name in frame["name"]]
        frame = frame.rename(columns={"low": "training low", "high": "training high"})
        parts.append(frame.set_index("name"))
    if found["beyond_outcomes"] is not None:
        parts.append(
            f"The predicted median lies beyond all outcomes of the fit in {percent(found['beyond_outcomes'])} of the "
            "rows."
        )
    if found["bad"]["n"]:
        reasons = {plain(row["reason"]): count_of(row["n"], "row") for row in found["bad"]["reasons"]}
        parts += ["Rows that cannot be predicted, by reason:", reasons]
    return [Section("Outside the training range", parts)] if parts else []


def _drift(record: Mapping[str, Any]) -> list[Section]:
    import pandas as pd

    drift, parts = record["drift"], []
    if drift["columns"]:
        frame = pd.DataFrame(drift["columns"]).dropna(axis=1, how="all").drop(columns=["low", "high"])
        frame["name"] = [name_in_text(name) for name in frame["name"]]
        parts += [
            frame.rename(columns={"new": "mean", "new_sd": "SD"}).set_index("name"),
            "position: where the mean lies in the training range, 0 at its lower and 1 at its upper end",
        ]
        if drift["known"] == "rows of the fit":
            parts.append("shift: difference of the means, in standard deviations of the rows of the fit")
    for row in drift["levels"]:
        frame = pd.DataFrame(row["levels"])
        frame["level"] = [name_in_text(level) for level in frame["level"]]
        parts += [f"Shares of the levels of {name_in_text(row['name'])}:", frame.set_index("level")]
    return [Section("Drift of covariates", parts)] if parts else []


def _methods(record: Mapping[str, Any]) -> list[Any]:
    methods = record["methods"]
    packages = ", ".join(f"{name} {version}" for name, version in methods["packages"].items())
    facts = {
        "software": f"anchortm {methods['version']}, Python {methods['python']}, {packages}",
        "seed": str(methods["seed"]),
        "checksum": f"{methods['fingerprint']} (of predictions, outcomes and places)",
        "place": {"average": "predictions for an average place of the fit", "new": "predictions for a new place"}[
            methods["place"]
        ],
    }
    lines = [methods["command"]] if methods["command"] else methods["code"].split("\n")
    return [facts, *methods["notes"], "To make this report again:", *lines]


def page_of_text(record: Mapping[str, Any]) -> str:
    """Return a report as a page of text."""
    blocks = []
    for k, section in enumerate(sections_of(record)):
        lines = [section.heading if k == 0 else f"\n{section.heading}"]
        for part in section.parts:
            lines += _lines(part, bullet="- " if k == 0 else "")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _lines(part: Any, bullet: str) -> list[str]:
    if isinstance(part, str):
        return [f"  {bullet}{part}"]
    if isinstance(part, Mapping):
        width = max(map(len, part), default=0)
        return [f"  {name:<{width}}  {text}" for name, text in part.items()]
    text = part.head(MOST).reset_index().to_string(index=False, float_format=lambda v: f"{v:.4g}", na_rep="")
    more = [f"  ... {len(part)} rows in all"] if len(part) > MOST else []
    return [f"  {line}" for line in text.split("\n")] + more
