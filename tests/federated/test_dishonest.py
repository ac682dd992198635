"""A coordinator, a site or a stranger that does not keep to the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import sites_of, table

import anchortm as atm
from anchortm import __version__
from anchortm.exceptions import InputError
from anchortm.federated import (
    Coordinator,
    DisclosureError,
    Keys,
    Ledger,
    LocalSites,
    Policy,
    Site,
    Study,
    WireError,
)
from anchortm.federated.conversation import Conversation
from anchortm.federated.histograms import BINS, FIRST
from anchortm.federated.masks import to_fixed, total_of
from anchortm.federated.wire import Message

DATA = table()
FORMULA = "y ~ x | site"


def asked_alone(site: Site, kind: str, fields: dict[str, Any], arrays: dict[str, Any] | None = None) -> Message:
    """Return the decoded answer of one site."""
    return Message.decode(site.answer(Message(kind, fields, arrays or {}).encode()))


def begun() -> tuple[Conversation, dict[str, Site]]:
    """Return a session with masks, and its three sites."""
    sites = LocalSites(sites_of(DATA))
    return Conversation(sites, Study(FORMULA), sites.names, True, "continuous", 10.0), sites.sites


def pinned(
    policy: Policy | None = None, ledger: Path | None = None, n: int = 3, leave_out: bool = True
) -> tuple[list[Site], Study]:
    """Return sites that have agreed to a study with masks, and the study."""
    data = table(300 * n, n)
    keys = {f"s{k}": Keys.generate() for k in range(n)}
    study = Study(FORMULA, {name: own.public for name, own in keys.items()}, support=(-2.0, 4.0), leave_out=leave_out)
    sites = [
        Site(part.drop(columns="site"), str(name), policy, keys=keys[str(name)], study=study)
        for name, part in data.groupby("site")
    ]
    if ledger is not None:
        sites[0].ledger = Ledger(ledger)
    return sites, study


@pytest.mark.bug("federated", "masks were left out if a session had one or two of the members")
@pytest.mark.parametrize("others", [0, 1])
def test_masks_are_not_avoided_by_sessions_with_few_members(others: int) -> None:
    sites, study = pinned()
    few = {name: study.members[name] for name in ("s0", "s1")[: 1 + others]}
    for sent in (study, study.among(few)):
        hello = asked_alone(sites[0], "hello", {"version": __version__, "purpose": "fit"})
        nonces = {"s0": hello.fields["nonce"]} | ({"s1": "made up"} if others else {})
        fields = {"study": sent.record(), "nonces": nonces, "masks": False, "scale": "continuous"}
        answer = asked_alone(sites[0], "open", fields)
        assert answer.kind == "refused"
        assert "asks for masks" in answer.fields["reason"]


@pytest.mark.bug("federated", "the sums of all members less those of all but one are the sums of that one")
@pytest.mark.parametrize("agreed", [False, True])
def test_members_are_left_out_only_if_the_study_says_so(agreed: bool) -> None:
    sites, study = pinned(n=4, leave_out=agreed)
    asked = Coordinator(LocalSites(sites), study)
    assert asked.fit(atm.ContinuousLogit(), xi=1.0).converged_
    if agreed:
        assert len(asked.leave_one_site_out(atm.ContinuousLogit(), [0]).frame()) == 4
        return
    with pytest.raises(DisclosureError, match="does not allow a session without some members"):
        asked.leave_one_site_out(atm.ContinuousLogit(), [0])


@pytest.mark.bug("federated", "masks cancelled in the answers to different questions of one round")
def test_masks_do_not_cancel_in_answers_to_different_questions() -> None:
    """Two rounds in which one site alone is asked something else would show what that site sends."""
    talk, sites = begun()

    def total(round_: int, shifts: list[int | None]) -> np.ndarray:
        parts = []
        for site, own in zip(sites.values(), shifts, strict=True):
            fields = {"session": talk.session, "round": round_, "levels": {}, "classes": [], "numbers": []}
            edges = FIRST if own is None else 2.0**-4 * np.arange(-own, BINS - own)
            parts.append(asked_alone(site, "counts", fields, {"edges": edges}).arrays["sums"][:3])
        return total_of(parts)

    assert total(1, [None, None, None])[0] == len(DATA)
    assert total(2, [8, 8, 8])[0] == len(DATA)
    assert np.abs(total(3, [8, 8, 9])).min() > 1e3


@pytest.mark.bug("federated", "at points that a site refused, the total was that of the other sites")
def test_no_total_is_left_if_a_site_keeps_its_sums() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=300), "site": np.repeat(["s0", "s1", "s2"], 100)})
    data["x"] += 6.0 * (data.site == "s2")
    data["sick"] = (rng.random(300) < 0.5).astype(int)
    totals: list[np.ndarray] = []

    class Watched(Conversation):
        def ask(self, *given: Any, **more: Any) -> Any:
            reply = super().ask(*given, **more)
            if given[0] == "sums":
                totals.append(reply.total)
            return reply

    sites = LocalSites(sites_of(data))
    asked = Coordinator(sites, {"formula": "sick ~ x | site"})
    objective = asked.problem(atm.OrdinalRegression()).objective
    talk = asked._conversations[0]
    talk.__class__ = Watched
    v = objective.coordinates.join(np.array([0.0]), np.array([4.0]))  # steep where s2 has no rows
    objective.sums(v)
    assert "s2" in objective.remote.refused
    assert "s0" not in objective.remote.refused
    assert np.abs(totals[-1]).min() > 1e3


@pytest.mark.bug("federated", "numbers of answers were counted anew for each list of members, or change of the study")
def test_answers_are_counted_whatever_the_members(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    sites, study = pinned(ledger=ledger, n=4)
    Coordinator(LocalSites(sites), study).fit(atm.NormalLinear(), xi=1.0)
    used = Ledger(ledger).answers(study.digest)
    sites[0].policy = Policy(most_answers=used)
    for names in (["s0", "s1", "s2"], ["s0", "s2", "s3"]):
        fewer = study.among({name: study.members[name] for name in names})
        with pytest.raises(DisclosureError, match=f"has given all {used} answers"):
            Coordinator(LocalSites([site for site in sites if site.name in names]), fewer).prepare()
    # a site that has agreed to nothing counts all it says
    site = Site(DATA, "here")
    Coordinator(LocalSites([site]), {"formula": "y ~ x"}).fit(atm.NormalLinear())
    site.policy = Policy(most_answers=site.ledger.answers(None))
    with pytest.raises(DisclosureError, match="has given all"):
        Coordinator(LocalSites([site]), {"formula": "y ~ 1 + x"}).prepare()


@pytest.mark.bug("federated", "64 points in one question counted as one answer")
def test_each_point_of_a_question_is_an_answer() -> None:
    ledger = Ledger()
    ledger.note(study="s", question="sums", point=["p", "q", "r"], outcome="answered")
    ledger.note(study="s", question="gram", point=[], outcome="answered")
    assert (ledger.answers("s"), ledger.answers("s", "sums"), ledger.answers(None, "gram")) == (4, 3, 1)


def test_128_bits_are_those_of_python() -> None:
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(64, 200)) * 10.0 ** rng.uniform(-8, 9, (64, 200))
    found = total_of([to_fixed(part) for part in parts])
    for values, one in zip(parts.T, found, strict=True):
        exact = sum(int(abs(x) * 2.0**80) * (1 if x >= 0 else -1) for x in values.tolist())
        assert one == pytest.approx(exact / 2**80, rel=1e-15)


class Changed:
    """Sites of which one changes its answers to one kind of question."""

    def __init__(self, kind: str, change: Callable[[Message], Message]) -> None:
        self.sites, self.kind, self.change = LocalSites(sites_of(DATA)), kind, change
        self.names = self.sites.names

    def ask(self, question: bytes, timeout: float, to: Sequence[str]) -> dict[str, bytes]:
        found = self.sites.ask(question, timeout, to)
        answer = Message.decode(found["s1"])
        return found | ({"s1": self.change(answer).encode()} if answer.kind == self.kind else {})


def with_facts(**fields: Any) -> Callable[[Message], Message]:
    return lambda m: Message(m.kind, {**m.fields, "facts": {**m.fields["facts"], **fields}}, m.arrays)


def with_fields(**fields: Any) -> Callable[[Message], Message]:
    return lambda m: Message(m.kind, {**m.fields, **fields}, m.arrays)


@pytest.mark.bug("federated", "nonsense from a site ended in a KeyError, IndexError or TypeError without its name")
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("open", with_fields(facts={})),
        ("open", with_facts(names=None)),
        ("open", with_facts(columns={"x": 7})),
        ("open", with_facts(columns={"x": {"kind": "odd", "levels": [], "declared": []}})),
        ("open", with_facts(columns={"x": {"kind": "number", "levels": [[1]], "declared": []}})),
        ("open", with_facts(kinds=[[1]])),
        ("open", with_facts(anchors={"factors": {"site": [[3]]}, "numbers": []})),
        ("open", with_facts(anchors=None)),
        ("open", with_facts(anchors={"factors": {"ward": []}, "numbers": []})),
        ("hello", with_fields(public="zz")),
        ("sums", with_fields(statuses=[])),
        ("sums", with_fields(statuses=["ok", "ok"])),
        ("score", with_fields(weight=0)),
        ("score", with_fields(n=10**400)),
        ("score", with_fields(loglik=1e300)),
    ],
)
def test_nonsense_of_a_site_is_named(kind: str, change: Callable[[Message], Message]) -> None:
    asked = Coordinator(Changed(kind, change), {"formula": FORMULA})
    with pytest.raises(InputError, match="the site 's1'"):
        asked.score(asked.fit(atm.NormalLinear(), xi=1.0))


@pytest.mark.bug("federated", "histograms could be as fine as one liked if half of the rows had one value")
@pytest.mark.parametrize("column", ["x", "y"])
def test_histograms_are_coarse_if_most_values_are_the_same(column: str) -> None:
    data = pd.DataFrame({"x": np.arange(60.0) % 7, "y": np.arange(60.0) % 11})
    data[column] = np.where(np.arange(60) < 45, 0.0, np.linspace(1.0, 2.0, 60) ** 2)
    site = Site(data, "here")
    talk = Conversation(LocalSites([site]), Study("y ~ x"), ["here"], False, "continuous", 10.0)
    for round_, step, fine in ((1, 2.0**-5, True), (2, 2.0**-12, False), (3, 2.0**-40, False)):
        fields = {"session": talk.session, "round": round_, "levels": {}, "classes": [], "numbers": ["x"]}
        answer = asked_alone(site, "counts", fields, {"edges": step * np.arange(BINS)})
        assert (answer.kind == "counts") == fine
    Coordinator(LocalSites([site]), {"formula": "y ~ x"}).fit(atm.NormalLinear())


@pytest.mark.bug("federated", "counts of rows against a direction changed at single rows, which could be searched for")
def test_directions_do_not_find_rows() -> None:
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.normal(size=90), "site": ["s0", "s1", "s2"] * 30})
    data["sick"] = (data.x > 0).astype(int)
    data.loc[0, ["x", "sick"]] = [9.0, 0]
    asked = Coordinator(LocalSites(sites_of(data)), {"formula": "sick ~ x | site"})
    objective = asked.problem(atm.OrdinalRegression()).objective

    def against(cut: float, sign: float = 1.0) -> float:
        v = objective.coordinates.join(np.array([sign * cut]), np.array([sign]))
        return float(objective.remote.against(np.array([v]))[0])

    assert against(0.0) == 0.0  # one row alone contradicts it
    assert {against(cut, -1.0) for cut in (-1.0, 0.0, 0.5, 1.0)} == {15.0}
    with pytest.raises(WireError, match="up to 3 directions"):
        objective.remote.against(np.tile(np.ones(2), (4, 1)))


@pytest.mark.bug("federated", "a baseline was made before its parameters were counted, however many they were")
def test_large_baselines_are_refused_before_they_are_made() -> None:
    sites = [Site(part.drop(columns="site"), str(name)) for name, part in DATA.groupby("site")]
    asked = Coordinator(LocalSites(sites), {"formula": FORMULA})
    asked.prepare()
    talk = asked._conversations[0]
    fields = {"link": "logit", "basis": {"kind": "ordinal", "levels": list(range(50_000))}, "sign": 1}
    none = np.zeros(0)
    arrays = {"units": none, "anchor_mean": none, "anchor_unit": none, "anchor_root": np.zeros((0, 0))}
    none_of = dict.fromkeys(("family", "shared", "corners", "effects", "n_nodes")) | {"arguments": {}}
    with pytest.raises(DisclosureError, match="the model has 50000 parameters"):
        talk.ask("baseline", {**fields, "intercept": True, **none_of}, arrays, 1)


@pytest.mark.bug("federated", "questions with long or odd names made the ledger unreadable, or forged lines in print")
def test_the_ledger_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    site = Site(DATA, "here", Policy(columns=("x", "y")), ledger=path)
    for kind in ("x\n2026-01-01T00:00:00Z open", "\x1b[2J", "\ud800"):
        assert asked_alone(site, kind, {"session": "\ud800" * 50}).kind == "refused"
    names = [f"{'w' * 60}{k}" for k in range(100)]
    covariates, more = " + ".join(names), pd.DataFrame(0.0, DATA.index, names)
    foreign = Site(pd.concat([DATA, more], axis=1), "here", site.policy, ledger=site.ledger)
    for members in ({"here": ""}, {"here": ""} | {f"{'s' * 70}{k}": "" for k in range(2000)}):
        for formula in ("y ~ x", f"y ~ {covariates}"):
            nonce = asked_alone(foreign, "hello", {"version": __version__, "purpose": "fit"}).fields["nonce"]
            study = Study(formula, members, masks=False)
            fields = {"study": study.record(), "nonces": dict.fromkeys(members, nonce), "masks": False}
            answer = asked_alone(foreign, "open", {**fields, "scale": "continuous"})
            assert (answer.kind == "open") == (formula == "y ~ x"), answer.fields
    lines = list(Ledger(path).lines())
    assert len(lines) == len(site.ledger.entries) == 7
    assert all(line.isprintable() for line in lines)
    assert len(path.read_bytes()) < 50_000
    # many members are told apart
    assert len({entry.get("members") for entry in site.ledger.entries if entry["outcome"] == "answered"}) == 2


@pytest.mark.bug("federated", "after a crash in the middle of a line, the ledger could not be used any more")
def test_a_torn_line_does_not_lose_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    for _ in range(3):
        ledger.note(study="s", question="gram", outcome="answered")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    again = Ledger(path)
    assert again.answers("s") == 2
    assert path.read_bytes() == whole[:-9]  # reading changes nothing
    again.note(study="s", question="gram", outcome="answered")
    assert Ledger(path).answers("s") == 3
    path.write_bytes(whole.replace(b"gram", b'g"am', 1))
    with pytest.raises(InputError, match=r"line 1 of the ledger .* is damaged"):
        Ledger(path)


@pytest.mark.bug("federated", "a coordinator could invent members for a study that a site had agreed to without any")
def test_members_are_not_invented() -> None:
    site = Site(DATA, "s0", keys=Keys.generate(), study={"formula": FORMULA})
    assert site.keys is not None
    invented = {"s0": site.keys.public, "s1": Keys.generate().public, "s2": Keys.generate().public}
    nonce = asked_alone(site, "hello", {"version": __version__, "purpose": "fit"}).fields["nonce"]
    study = {"study": Study(FORMULA, invented).record(), "nonces": dict.fromkeys(invented, nonce), "masks": True}
    answer = asked_alone(site, "open", {**study, "scale": "continuous"})
    assert answer.kind == "refused"
    assert "names no members" in answer.fields["reason"]
    site.study = Study(FORMULA, masks=False)
    assert Coordinator(LocalSites([site]), site.study).prepare().n_rows == len(DATA)
