"""Write docs/evidence/new_places.md: what assess recommends on real data, and what held-back places then show."""

from __future__ import annotations

import sys
from pathlib import Path

from anchortm.newplace.assessment.assessment import Assessment
from anchortm.reproduce.new_places import Case, answer, cases

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "new_places.md"
START = """# Was the advice right?

`assess` tells you what to do at a new place, from the places you have. Was it right on real data? For each data set we held back some places. We computed the
answer from the other places and from the covariates of the held-back rows, and only then looked at the outcomes. The months and the neighbourhoods were known
when the rule was made, so they test it only in part. The towns and the centres were chosen before their numbers were computed.

The advice to anchor was right wherever it was given. Where the training places do not decide, some strategy would often have gained, but not always the
same one: anchoring at the expensive end of Ames, a wider spread at its cheap end and in Boston. Outcomes of the new place helped in all of these cases.

| data | held back | what the training places say | what the held-back places show | does it agree? |
|---|---|---|---|---|
"""
WORDS = {True: "yes", False: "no", None: "it was open"}


def row(case: Case, found: Assessment) -> str:
    """Return the row of a case."""
    shown = found.held_back
    few = [own for own in shown.rows if own["strategy"].startswith("recalibrated")]
    best = max((own for own in shown.rows if own not in few), key=lambda own: own["gain"])
    truth = "; ".join(f"{own['strategy']} gains {own['gain']:+.2f}" for own in (best, *few))
    if found.recommendation.strategy != "ml":
        own = next(one["gain"] for one in shown.rows if one["strategy"] == found.recommendation.strategy)
        truth = f"the advice gains {own:+.2f}; {truth}"
    headline = found.recommendation.main.headline
    return f"| {case.name} | {case.held} | {headline} | {truth} | {WORDS[shown.agrees]} |\n"


def part(case: Case, found: Assessment) -> str:
    """Return the section of a case."""
    shown, advice = found.held_back, found.recommendation.main
    table = shown.frame()
    for name in ("nll", "gain", "se", "coverage"):
        table[name] = (table[name] + 0.0).map(lambda value: "" if value != value else f"{value:.2f}")
    table["mae"] = table["mae"].map(lambda value: "" if value != value else f"{value:.3g}")
    lines = [f"- {text}" for text in (found.new.sentence, *advice.lines)]
    body = "\n".join([*lines, "", f"*Then:* {shown.sentence}", "", "```text", table.to_string(index=False), "```"])
    return f"\n## {case.name}: {case.held}\n\n{body}\n"


def page(n_jobs: int | None = None) -> str:
    """Return the page."""
    found = [(case, answer(case, n_jobs)) for case in cases()]
    ending = (
        "\n`gain` is the mean log-likelihood per row minus that of maximum likelihood, `mae` the mean absolute error of medians, `coverage` that of 90 %\n"
        'intervals. "anchored" is tuned on the training places, "anchored(10)" is fixed; "recalibrated(10)" is maximum\nlikelihood shifted by 10 outcomes of the new places, at their other rows.\n'
    )
    return START + "".join(row(*one) for one in found) + ending + "".join(part(*one) for one in found)


if __name__ == "__main__":
    PAGE.write_text(page(-1), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)
