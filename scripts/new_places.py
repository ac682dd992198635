"""Write docs/evidence/new_places.md: what assess recommends on real data, and what held-back places then show."""

from __future__ import annotations

import sys
from pathlib import Path

from anchortm.newplace.assessment.assessment import Assessment
from anchortm.reproduce.new_places import Case, answer, cases

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "new_places.md"
START = """# Was the advice right?

`assess` advises you what to do at a new place, using only the places you have. Is its advice right on real data? For each data set we held back some places. We
ran `assess` on the other places and the covariates of the held-back rows, and only then looked at the outcomes. We knew the months and the neighbourhoods when
we made the rule, so they are only a partial test. We chose the towns and the centres before their numbers were computed.

`assess` advised anchoring once, for the prices of computers, and was right. Where the training places do not decide, some strategy would have gained, but not always the same
one: anchoring in the expensive neighbourhoods of Ames, a wider spread in the cheap ones and in Boston. Outcomes of the new place helped in all of these cases.

| data | held back | advice from the training places | result at the held-back places | do they agree? |
|---|---|---|---|---|
"""
WORDS = {True: "yes", False: "no", None: "undecided"}


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
        "\n`gain` is the mean log-likelihood per row minus that of maximum likelihood, `mae` is the mean absolute error of medians, and `coverage` is the\n"
        'coverage of 90 % intervals. "anchored" is tuned on the training places, and "anchored(10)" has xi fixed at 10. "recalibrated(10)" is maximum\n'
        "likelihood with a shift estimated from 10 outcomes of the new places, evaluated at their other rows.\n"
    )
    return START + "".join(row(*one) for one in found) + ending + "".join(part(*one) for one in found)


if __name__ == "__main__":
    PAGE.write_text(page(-1), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)
