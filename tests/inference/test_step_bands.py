"""Confidence bands of CoxPH: against R, against derivatives in the weights of rows, and in simulations."""

import json

import numpy as np
import pandas as pd
import pytest
from paths import REFERENCE
from scipy import stats

import anchortm as atm

FOLDER = REFERENCE / "survival"
ROWS = pd.DataFrame(json.loads((FOLDER / "coxph.json").read_text())["columns"]["made"])
R = json.loads((FOLDER / "bands.json").read_text())
NEW = pd.DataFrame(R["new"])
TIMES = [0.5, 2.0, 4.5, 7.0, 30.0]
Z = stats.norm.ppf(0.975)


def outcome(entry: bool) -> atm.Response:
    return atm.Surv(ROWS.time, ROWS.event, ROWS.entry if entry else None)


@pytest.mark.parametrize("case", R["cases"], ids=lambda c: "-".join([c["ties"], *c["parts"]]))
def test_the_default_at_xi_0_is_that_of_survfit(case: dict) -> None:
    entry, strata, weights, offset = (part in case["parts"] for part in ("entry", "strata", "weights", "offset"))
    columns = ["x1", "x2", "stratum"] if strata else ["x1", "x2"]
    model = atm.CoxPH(ties=case["ties"], strata="stratum" if strata else None, tol=1e-13)
    model.fit(
        ROWS[columns],
        outcome(entry),
        sample_weight=ROWS.weight if weights else None,
        offset=np.array(R["offset"]) if offset else None,
    )
    for i, curve in enumerate(case["curves"]):
        new = {"X": NEW[columns][i : i + 1], "offset": NEW.off[i : i + 1].to_numpy() if offset else None}
        band = model.confidence_band(at=curve["time"], of="sf", **new)
        for got, name in ((band.estimate, "sf"), (band.lower, "lower"), (band.upper, "upper")):
            np.testing.assert_allclose(got[0], curve[name], atol=1e-9)
        other = model.confidence_band(at=curve["time"], of="cdf", **new)
        np.testing.assert_allclose([other.lower, other.upper], [1.0 - band.upper, 1.0 - band.lower], atol=1e-12)
        quantiles = model.confidence_band(at=R["probabilities"], of="ppf", **new)
        for got, name in ((quantiles.estimate, "quantile"), (quantiles.lower, "lower"), (quantiles.upper, "upper")):
            wanted = np.array(curve["quantile"][name], dtype=float)
            np.testing.assert_array_equal(got[0], np.where(np.isnan(wanted), np.inf, wanted))
