"""Pictures of causal parents show every p-value where it is, mark what is accepted, and keep names readable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import anchortm as atm
from anchortm.exceptions import InputError

N = 400
ODD = "$\\frac{1}$ of a name that is much longer than anything that fits beside an axis, at visit"


def made_table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    site = rng.integers(0, 4, N)
    data = pd.DataFrame({"dose": rng.normal(size=N) + site, "age": rng.normal(size=N) + 2.0 * (site == 1)})
    data["y"] = data.dose - data.age + rng.normal(size=N)
    data["effect"], data["noise"] = data.y + rng.normal(size=N) + site, rng.normal(size=N)
    data["site"], data["height"] = np.array(["n", "s", "e", "w"])[site], site + rng.normal(size=N)
    data["twice"] = 1 + (np.arange(N) % 3 == 0)
    return data


DATA = made_table()
FOUND = atm.causal_parents(atm.NormalLinear(), "y ~ dose + age + effect + noise | site", DATA)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def points(ax: Any, label: str) -> np.ndarray:
    """Return the points that the legend calls so."""
    (found,) = [own for own in ax.collections if str(own.get_label()).startswith(label)]
    return np.asarray(found.get_offsets())


def drawn(p: pd.Series) -> list[float]:
    return sorted(np.maximum(p, 1e-6))


def test_sets_by_size() -> None:
    ax = FOUND.plot(of="sets")
    sets = FOUND.sets
    for label, own in (("accepted", sets[sets.accepted]), ("rejected", sets[~sets.accepted])):
        shown = points(ax, label)
        assert sorted(shown[:, 1]) == drawn(own.p_value)
        assert np.bincount(np.round(shown[:, 0]).astype(int), minlength=5).tolist() == [
            (own["size"] == k).sum() for k in range(5)
        ]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["level 0.05", "rejected (14)", "accepted (2)"]
    lines = ax.get_xlabel().splitlines()
    p = sets.set_index("set").p_value
    assert lines[0] == "number of covariates in the set"
    assert lines[2] == f"dose, age (p = {p['dose', 'age']:.2g})"
    assert len(lines) == 4
    assert len(FOUND.plot(of="sets", label=1).get_xlabel().splitlines()) == 3
    assert FOUND.plot(of="sets", label=0).get_xlabel() == lines[0]
    assert ax.get_ylim()[0] < 1e-6 < 1.0 < ax.get_ylim()[1]


def test_points_of_many_sets_stay_with_their_size() -> None:
    """4096 sets: no point is nearer to another size, and no two lie on each other."""
    rng = np.random.default_rng(0)
    size = np.repeat(np.arange(13), [np.prod(range(13 - k, 13)) // np.prod(range(1, k + 1)) for k in range(13)])
    p = rng.random(size.size) ** 4
    sets = pd.DataFrame({"set": [(ODD, f"a{k}") for k in range(size.size)], "size": size, "p_value": p})
    ax = atm.plotting.covariate_sets(sets.assign(accepted=p > 0.05), 0.05)
    shown = np.vstack([points(ax, label) for label in ("accepted", "rejected")])
    assert len(shown) == 4096
    assert np.abs(shown[:, 0] - np.round(shown[:, 0])).max() < 0.45
    assert len(np.unique(shown.round(9), axis=0)) == len(shown)
    assert all(len(line) < 100 for line in ax.get_xlabel().splitlines())
    ax.figure.canvas.draw()


def test_sets_without_a_test_are_crosses() -> None:
    sets = FOUND.sets.assign(p_value=FOUND.sets.p_value.where(FOUND.sets["size"] < 4))
    ax = atm.plotting.covariate_sets(sets.assign(accepted=sets.accepted | sets.p_value.isna()), 0.05)
    np.testing.assert_allclose(points(ax, "not tested, counts as accepted"), [[4.0, 1.0]])


def test_parents_and_their_p_values() -> None:
    ax = FOUND.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["dose", "age", "effect", "noise"]
    assert sorted(points(ax, "in every accepted set")[:, 0]) == drawn(FOUND.p_values[["dose", "age"]])
    np.testing.assert_allclose(
        points(ax, "not in every accepted set"), [[FOUND.p_values["effect"], 1.0], [FOUND.p_values["noise"], 0.0]]
    )
    assert FOUND.plot(ax) is ax


def test_every_set_rejected_is_said() -> None:
    found = atm.causal_parents(atm.NormalLinear(), "y ~ effect + noise | site", DATA)
    for ax in (found.plot(), found.plot(of="sets")):
        assert "every set is rejected" in ax.get_legend().get_title().get_text()
    assert len(points(found.plot(), "no conclusion")) == 2


def test_long_and_odd_names_are_readable() -> None:
    """They are cut in the middle, are not read as mathematics, and leave room for the axes."""
    table = pd.DataFrame({"p_value": np.linspace(0.001, 1.0, 20), "parent": np.arange(20) < 1})
    ax = atm.plotting.parents(table.set_axis([f"{ODD} {k}" for k in range(20)]), 0.05)
    ax.figure.canvas.draw()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert len(set(names)) == 20
    assert max(map(len, names)) <= 40
    assert ax.get_position().width > 0.4
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    whole, legend = ax.figure.bbox, ax.get_legend().get_window_extent()
    assert whole.x0 <= legend.x0 <= legend.x1 <= whole.x1


def test_residuals_of_a_set() -> None:
    test = FOUND.test(["age"])
    alone = atm.invariance_test(atm.NormalLinear(), "y ~ dose + age + effect + noise | site", DATA, covariates="age")
    assert (test.statistic, test.covariates) == (pytest.approx(alone.statistic, rel=1e-9), ("age",))
    ax = test.plot()
    fit = atm.NormalLinear().fit(DATA[["age"]], DATA.y)
    means = pd.Series(fit.residuals(DATA[["age"]], DATA.y)).groupby(DATA.site).mean().sort_values()
    assert [label.get_text() for label in ax.get_xticklabels()] == means.index.tolist()
    np.testing.assert_allclose(ax.lines[1].get_ydata(), means, rtol=1e-6)
    assert ax.get_xlabel() == "site"
    assert ax.get_title() == f"given age: p = {test.p_value:.2g}"
    assert FOUND.test(()).plot().get_title().startswith("given no covariates: p = ")


def test_residuals_of_a_set_with_mandatory_terms_and_weights() -> None:
    found = atm.causal_parents(
        atm.NormalLinear(), "y ~ dose + age | site + height", DATA, mandatory="age", sample_weight="twice"
    )
    weighted = found.test(())
    assert weighted.covariates == ("age",)
    repeated = DATA.loc[DATA.index.repeat(DATA.twice)]
    plain = atm.invariance_test(atm.NormalLinear(), "y ~ dose + age | site + height", repeated, covariates="age")
    for name in ("site", "height"):
        one, other = weighted.plot(environment=name), plain.plot(environment=name)
        assert one.get_xlabel() == name
        np.testing.assert_allclose(one.lines[-1].get_ydata(), other.lines[-1].get_ydata(), rtol=1e-6)
    bars = [
        own.collections[0].get_segments() for own in (weighted.plot(environment="site"), plain.plot(environment="site"))
    ]
    np.testing.assert_allclose(*bars, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: FOUND.plot(of="residuals"), r"of must be 'parents' or 'sets', not 'residuals'; test\(set\).plot\(\)"),
        (lambda: FOUND.test("size"), "covariates has size, but the covariates are dose, age, effect, noise"),
        (lambda: FOUND.test("age").plot(environment="town"), "environment must be one of site, not 'town'"),
    ],
)
def test_wrong_arguments(call: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()
