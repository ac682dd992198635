"""What goes wrong during a fit: sites that are lost, and fits that are resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import check_equal, sites_of, table

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.federated import Coordinator, LocalSites, Site, SiteLostError, WireError
from anchortm.federated.wire import Message

DATA = table()
FORMULA, MODEL = "Surv(time, event) ~ x + z | site", atm.ContinuousLogit(order=6)
STUDY = {"formula": FORMULA, "support": [0.5, 4.0]}


class Unreliable:
    """Sites of which one is lost, or answers nonsense, at some question."""

    def __init__(self, sites: LocalSites, at: int, change: Any = None) -> None:
        self.sites, self.at, self.change, self.count, self.names = sites, at, change, 0, sites.names

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> Mapping[str, bytes]:
        self.count += 1
        found = dict(self.sites.ask(question, timeout, to))
        if self.count != self.at:
            return found
        if self.change is None:
            raise SiteLostError("the site 's1' has closed its connection")
        found["s1"] = self.change(found["s1"])
        return found


def pooled(xi: float) -> Any:
    return atm.ContinuousLogit.from_formula(FORMULA, DATA, order=6, support=(0.5, 4.0), xi=xi)


@pytest.mark.parametrize("at", range(1, 20, 3))
def test_a_lost_fit_is_resumed_or_begun_again(at: int) -> None:
    asked = Coordinator(Unreliable(LocalSites(sites_of(DATA)), at), STUDY)
    with pytest.raises(SiteLostError, match="'s1'"):
        asked.fit(MODEL, xi=3.0)
    if at < 8:  # no parameters were asked about yet
        with pytest.raises(InputError, match="nothing to resume"):
            asked.resume(MODEL, xi=3.0)
        check_equal(asked.fit(MODEL, xi=3.0), pooled(3.0))
        return
    rounds = asked.rounds
    check_equal(asked.resume(MODEL, xi=3.0), pooled(3.0))
    whole = Coordinator(LocalSites(sites_of(DATA)), STUDY)
    whole.fit(MODEL, xi=3.0)
    assert asked.rounds - rounds <= whole.rounds
    with pytest.raises(InputError, match="nothing to resume"):
        asked.resume(MODEL, xi=3.0)


def test_resuming_needs_the_same_rows_and_model() -> None:
    data = DATA.copy()
    sites = LocalSites(sites_of(data))
    asked = Coordinator(Unreliable(sites, 14), STUDY)
    with pytest.raises(SiteLostError):
        asked.fit(MODEL, xi=3.0)
    with pytest.raises(InputError, match="that of a ContinuousLogit"):
        asked.resume(atm.Lehmann(), xi=3.0)
    rows = sites.sites["s2"].data
    sites.sites["s2"] = Site(rows[:-1], "s2", keys=sites.sites["s2"].keys)
    with pytest.raises(InputError, match="the sites or their rows have changed: s2; call fit"):
        asked.resume(MODEL, xi=3.0)
    assert asked.fit(MODEL, xi=3.0).n_rows_ == len(DATA) - 1


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: b"",
        lambda answer: answer[:-1],
        lambda answer: answer[:60] + bytes([answer[60] ^ 1]) + answer[61:],
        lambda answer: Message("sums", {"statuses": ["ok"]}, {"sums": np.zeros(3)}).encode(),
        lambda answer: Message("gram", {}, {}).encode(),
        lambda answer: Message("sums", {"statuses": ["fine", 3]}, {}).encode(),
    ],
)
def test_nonsense_names_the_site(change: Any) -> None:
    asked = Coordinator(Unreliable(LocalSites(sites_of(DATA)), 9, change), STUDY)
    with pytest.raises(WireError, match="the site 's1'"):
        asked.fit(MODEL, xi=1.0)


def test_a_site_that_answers_under_another_name_is_found() -> None:
    class Swapped:
        names = ("s0", "s9")

        def __init__(self) -> None:
            self.sites = LocalSites(sites_of(DATA))

        def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> Mapping[str, bytes]:
            found = self.sites.ask(question, timeout, ["s0", "s1"])
            return {"s0": found["s0"], "s9": found["s1"]}

    with pytest.raises(WireError, match="the site 's1' answers under the name 's9'"):
        Coordinator(Swapped(), STUDY).prepare()


def test_sites_must_have_the_same_columns_of_the_same_kinds() -> None:
    parts = {name: rows.drop(columns="site") for name, rows in DATA.groupby("site")}

    def fit(change: Any) -> Any:
        own = {**parts, "s1": change(parts["s1"])}
        return Coordinator(LocalSites([Site(rows, name) for name, rows in own.items()]), STUDY).fit(MODEL, xi=1.0)

    with pytest.raises(InputError, match="column 'z' is of kind number and text at different sites"):
        fit(lambda rows: rows.assign(z=np.arange(len(rows)) % 3))
    with pytest.raises(InputError, match="the site 's1' refuses: the site cannot read its rows"):
        fit(lambda rows: rows.drop(columns="z"))
    grades = Coordinator(
        LocalSites([Site(rows, name) for name, rows in parts.items()]),
        {"formula": "grade ~ x | site", "classes": [0, 1, 2]},
    )
    with pytest.raises(InputError, match="a class that the study does not declare: 3"):
        grades.fit(atm.OrdinalRegression(), xi=1.0)
    levels = Coordinator(
        LocalSites([Site(rows, name) for name, rows in parts.items()]),
        {"formula": "y ~ z | site", "levels": {"z": ["a", "b"]}},
    )
    with pytest.raises(InputError, match="levels that the study does not declare: 'c'"):
        levels.fit(atm.NormalLinear(), xi=1.0)


def test_declared_levels_and_classes_keep_their_order() -> None:
    words = pd.Categorical.from_codes(DATA.grade, ["none", "mild", "bad", "worst"])
    data = DATA.assign(word=words.astype(str))
    study = {
        "formula": "word ~ z | site",
        "levels": {"z": ["c", "a", "b"]},
        "classes": ["none", "mild", "bad", "worst", "unheard of"],
    }
    found = Coordinator(LocalSites(sites_of(data)), study)
    with pytest.warns(UserWarning, match="classes without rows dropped: unheard of"):
        model = found.fit(atm.OrdinalRegression(), xi=1.0)
    assert model.classes_.tolist() == ["none", "mild", "bad", "worst"]
    assert model.coef_names_ == ["z[T.a]", "z[T.b]"]


def test_transports_and_models_are_checked() -> None:
    with pytest.raises(TypeError, match="transport must carry questions"):
        Coordinator([1, 2], STUDY)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an estimator"):
        Coordinator(LocalSites(sites_of(DATA)), STUDY).fit("c-logit")  # type: ignore[type-var]
