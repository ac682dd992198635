"""Formulas that make a column of a few rows: an attack that needs no parameters, and the columns that honest ones make.

The sums before a fit are those of any study that a site takes. A formula with a steep function of a covariate is large
in one row alone, so that its products with other columns are the values of this row.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from federated_cases import sites_of

from anchortm.federated import Coordinator, DisclosureError, LocalSites, Policy, Site

OPEN = Policy(least_cell=1)


def patients(n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    data = pd.DataFrame(
        {"x": rng.normal(size=n), "age": rng.uniform(20, 90, n), "site": [f"s{k % 3}" for k in range(n)]}
    )
    return data.assign(y=data.x + rng.normal(size=n))


def learned(function: str, policy: Policy | None) -> float:
    """Return the age that totals over three sites with masks show, beside a column made by a steep function of x."""
    study = {"formula": f"y ~ {function} + age | site"}
    plan = Coordinator(LocalSites(sites_of(patients(), policy=policy)), study).prepare()
    # products are taken around the means, in units; z is B in one row and about 0 in all others
    gram, n = plan.sums.gram, plan.n_rows
    unit = plan.deviation[1] / np.sqrt(gram[1, 1] / n)
    return float(plan.mean[1] + unit * gram[0, 1] / np.sqrt(gram[0, 0]) * np.sqrt(1.0 - 1.0 / n))


@pytest.mark.parametrize("function", ["I(1 / (x - {near:.12f}))", "I(exp(15 * (x - {near:.12f})))"])
def test_steep_functions_show_a_row_without_the_rule_and_are_refused_with_it(function: str) -> None:
    data = patients()
    top = data.x.idxmax()
    steep = function.format(near=data.x[top] - 1e-4)
    assert learned(steep, OPEN) == pytest.approx(data.age[top], abs=0.2)
    with pytest.raises(DisclosureError, match="is nearly the same in all but fewer than 5 effective rows"):
        learned(steep, None)


@pytest.mark.parametrize(("few", "fine"), [(6, True), (5, False)])
def test_columns_rest_on_a_cell_of_rows(few: int, fine: bool) -> None:
    """Nearly all rows lie around the median, ``few`` are at 1: just over and just under five effective ones."""
    n = 60
    x = 1e-4 * np.linspace(-1.0, 1.0, n)
    x[:few] = 1.0 + 0.05 * np.arange(few) / few if fine else np.linspace(0.9, 1.4, few)
    data = pd.DataFrame({"x": x, "y": np.random.default_rng(0).normal(size=n) + np.arange(n) / n})
    found = Site(data, "here").check({"formula": "y ~ I(2 * x)"})
    assert bool(found) != fine
    if not fine:
        assert "take a flatter function" in found[0]
        assert "1.4" not in found[0]


@pytest.mark.parametrize(
    "formula",
    [
        *(
            "y ~ heavy",
            "y ~ log(heavy)",
            "y ~ I(skewed ** 2)",
            "y ~ exp(x)",
            "y ~ sqrt(skewed) + I(x ** 2) + I(x ** 3)",
        ),
        *("y ~ rare", "y ~ C(code)", "y ~ C(code):x", "y ~ rare:x", "y ~ I(x > 1.2)", "y ~ abs(x):rare"),
    ],
)
def test_honest_columns_pass(formula: str) -> None:
    """Skewed columns, those with heavy tails, and 0-1 columns with a cell of rows."""
    rng = np.random.default_rng(8)
    n = 200
    data = pd.DataFrame({"x": rng.normal(size=n), "skewed": np.exp(0.7 * rng.normal(size=n))})
    data = data.assign(heavy=np.exp(2.0 * rng.normal(size=n)), y=rng.normal(size=n), code=np.arange(n) % 3)
    data["rare"] = (np.arange(n) < 5).astype(float)
    assert Site(data, "here").check({"formula": formula}) == []


def test_raw_columns_may_have_far_rows() -> None:
    """The coordinator has not chosen them, and cannot move them."""
    data = patients().drop(columns="site")
    data.loc[0, "age"] = 1e6
    assert Site(data, "here").check({"formula": "y ~ age"}) == []
    assert "effective rows" in Site(data, "here").check({"formula": "y ~ I(age / 2)"})[0]
