"""Write docs/where_r_stops_short.md: R's own optimum beside the true one, and ours."""

from __future__ import annotations

import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from reference_fits import UNSTRATIFIED, load, model_for  # noqa: E402

ROUNDING = 1e-12  # in units of the log-likelihood
HEAD = """# Where R stops short

Does R's tram reach the maximum of the likelihood? We fitted the same {total} models to the same data and compare the
log-likelihoods: that of R's tram 1.2.4 (mlt, cotram), the optimum that an independent optimiser reaches from there, and
ours. R floors small probabilities in its score and may stop early. The table lists the {short} fits in which it stops
more than 0.001 below the optimum. In all {total} fits ours equals the optimum to {worst:.0e} of its value; smaller
differences come from rounding, and are not the same on all processors.

Written by `make r-report`; the equality is a test in `tests/models/test_fits_r.py`.

| fit | R's log-likelihood | optimum | R is short by | ours minus optimum |
|---|---|---|---|---|
"""


def main() -> None:
    rows, worst = [], 0.0
    for name in UNSTRATIFIED:
        fit = load(name)
        model, factor = model_for(fit)
        offset = factor * fit.sign * fit.offset * (1.0 if model._sign > 0 else -1.0) if "offset" in name else None
        weights = fit.weights if "weights" in name else None
        model.fit(fit.X if fit.X.shape[1] else None, fit.response, sample_weight=weights, offset=offset)
        optimum, r = fit.reference["polished"]["logLik"], fit.reference["tram"]["logLik"]
        worst = max(worst, abs(model.loglik_ / optimum - 1.0))
        if optimum - r > 1e-3:
            ours = model.loglik_ - optimum
            shown = f"{ours:.1e}" if abs(ours) > ROUNDING else f"within {ROUNDING:.0e}"
            rows.append((optimum - r, f"| {name} | {r:.3f} | {optimum:.3f} | {optimum - r:.3f} | {shown} |"))
    rows.sort(reverse=True)
    power = 10.0 ** math.ceil(math.log10(max(worst, 1e-16)))
    head = HEAD.format(total=len(UNSTRATIFIED), short=len(rows), worst=power)
    target = ROOT / "docs" / "where_r_stops_short.md"
    target.write_text(head + "\n".join(line for _, line in rows) + "\n")
    print(target.read_text())


if __name__ == "__main__":
    main()
