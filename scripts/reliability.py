"""Write docs/reliability.md from what the tests counted of themselves: ``pytest --tally FILE``, then this with FILE."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reliability.md"
HEAD = """# Reliability

What happens with unforeseen data, with files that were damaged or made to harm, or if a run is stopped halfway? The tests try it. This page
is the count of one run of all tests, the slow ones included (`make reliability` runs them and writes the page). In that run all tests passed.
Such trials had found {bugs} bugs before; each is fixed, and a test that is named here keeps it from coming back.

What you can rely on:

- Input that makes no sense gives an error that names the cause and a remedy; the model, your data and your files stay
  as they were.
- A fit ends with a certificate (`converged_`, `kkt_`, `min_eigenvalue_`) that is true, or says why there is none.
- A saved model that was damaged is refused; nothing in a file is ever executed.
- A file is written whole or not at all, whatever stops the run.

"""
AREAS = {  # area -> heading and what is done there
    "bad input": (
        "Bad input",
        "Every kind of bad input is given to a fresh and to a fitted model. The type of the error, its culprit and its "
        "remedy are checked, and that no attribute, no argument and no folder has changed.",
    ),
    "hard data": (
        "Hard but legal data",
        "One row per environment, 1e5 anchor levels, p close to n, columns in units from 1e-12 to 1e12, outcomes with "
        "ties, of two values, from 1e-300 to 1e300, with heavy tails or all mass at an end, 99 % censored, intervals of "
        "widths 1e-9 and 1e9 side by side, weights from 1e-8 to 1e8, 2 and 200 classes, classes nearly separated, counts "
        "of 1e6, orders 1 and 30: each ends with a certificate, which is held against random places around the optimum, "
        "or with the reason why there is none.",
    ),
    "differential fuzzing": (
        "Differential fuzzing",
        "Random models, mixtures of exact and censored rows, anchors, weights, offsets and xi. Each fit is compared with "
        "a second implementation in the tests, written from the formulas alone and minimised by a general-purpose "
        "optimiser from several starts; certificates are recomputed, rows permuted and replicated, units and names "
        "changed, and predictions checked to be distributions.",
    ),
    "model files": (
        "Model files",
        "Saved models are changed at random, byte by byte and field by field, with and without a checksum that is made "
        "to fit: a clear error, or a model that predicts as before or at least proper distributions. Expressions that "
        "would run code, and sizes that would fill the memory, are planted by hand.",
    ),
    "tables": (
        "Tables",
        "CSV and Parquet files with wrong types and encodings, huge fields, no rows, names that occur twice, bytes that "
        "were changed: one line that says what is wrong, and no output left behind.",
    ),
    "interruption": (
        "Interruption",
        "Real runs are stopped halfway by Ctrl-C or a polite kill: they end promptly with their workers, leave no half "
        "of a file, and `reproduce` goes on where it was. Disks that are full and folders that cannot be written to are "
        "reported as such.",
    ),
    "concurrency": (
        "Concurrency",
        "Fits in several threads and processes at once equal those alone; nothing global is left changed; no call gives "
        "a warning that is not ours.",
    ),
    "other software": (
        "Other software, and use from outside",
        "7 000 random fits and 340 bad inputs were tried beside R's survival, lme4, glmnet, mgcv, ordinal and pec, and on "
        "data of other packages as a new user would. The optimiser held everywhere. What did not is listed here.",
    ),
    "honesty": (
        "Numerical honesty",
        "What summaries claim is held against the certificate, also of fits that are stopped early; flat directions, "
        "active constraints, flat ends and extrapolated predictions are told to the user who asks "
        "(`summary()`, `extrapolation()`).",
    ),
}
AREAS |= {
    "new place": (
        "Answers about a new place",
        "`assess` was tried by somebody who had not seen it: its numbers were computed again from public calls, with some "
        "100 odd inputs, and its record was searched for values of single rows.",
    ),
    "federated": (
        "Sites that share sums",
        "The protocol was attacked by a coordinator, sites and strangers that do not keep to it: 112 746 malformed "
        "questions, sums that are combined to find one site or one row, sites that answer nonsense or not at all.",
    ),
}
TAIL = """## What is not promised

- Rows of weight zero are not looked at when a table is read in batches; in memory a missing value there is refused.
- Whether classes are separated is not decided for factors of many levels with very many rows (5e7 numbers and more):
  such a fit ends without convergence and says so.
- With truncated rows the likelihood can have its maximum at infinity without being separated: such a fit may end as converged, with a flat
  direction that it warns of.
- Beyond a fold of the path (`folds_`) the estimate is on another branch than that of xi = 0, and says so.
- `make test-lowest` runs the fast tests with the lowest versions of all dependencies that the metadata allow.
"""


def main(file: str) -> None:
    record: dict[str, Any] = json.loads(Path(file).read_text())
    counts, bugs = record["counts"], record["bugs"]
    unknown = (set(counts) | set(bugs)) - set(AREAS)
    if unknown:
        sys.exit(f"areas without a word on the page: {', '.join(sorted(unknown))}")
    if record["failed"]:
        sys.exit(f"{record['failed']} tests failed: a page of such a run is not written")
    parts = [HEAD.format(bugs=sum(map(len, bugs.values())))]
    for area, (heading, text) in AREAS.items():
        if area not in counts and area not in bugs:
            continue
        parts.append(f"## {heading}\n\n{text}\n\n")
        rows = "".join(f"| {what} | {n:,} |\n" for what, n in sorted(counts.get(area, {}).items()))
        parts.append(f"| what | how many |\n|---|---|\n{rows}\n" if rows else "")
        found = "".join(f"- {what} (`{test}`)\n" for what, test in sorted(bugs.get(area, {}).items()))
        parts.append(f"Bugs found and fixed ({len(bugs[area])}):\n\n{found}\n" if found else "")
    PAGE.write_text("".join(parts) + TAIL)


if __name__ == "__main__":
    main(sys.argv[1])
