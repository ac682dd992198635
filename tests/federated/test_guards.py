"""What a site refuses, whatever the coordinator says: each rule once just over and once just under."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_cases import coordinator, sites_of, table

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
from anchortm.federated.histograms import BINS, FIRST, on_the_grid
from anchortm.federated.wire import Message

DATA = table()
OPEN = Policy(least_effective=0.0)


def one_site(data: pd.DataFrame, formula: str, policy: Policy | None = None, model: Any = None, **study: Any) -> Any:
    """Fit to one site, without anchors."""
    sites = LocalSites([Site(data, "here", policy)])
    model = atm.NormalLinear() if model is None else model
    return Coordinator(sites, {"formula": formula, **study}).fit(model)


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": x + rng.normal(size=n), "k": np.arange(n) % 7})


def test_rows_of_a_site() -> None:
    one_site(rows(20), "y ~ x", Policy(least_effective=15.0))
    with pytest.raises(DisclosureError, match="the site 'here' refuses: the site has fewer than the 20 rows"):
        one_site(rows(19), "y ~ x", Policy(least_effective=15.0))


def test_parameters_for_the_rows() -> None:
    data = rows(24)
    one_site(data, "y ~ x", model=atm.ContinuousProbit(order=6))  # 8 parameters
    with pytest.raises(DisclosureError, match="the model has 9 parameters"):
        one_site(data, "y ~ x", model=atm.ContinuousProbit(order=7))


@pytest.mark.parametrize("few", [5, 4])
@pytest.mark.parametrize("what", ["level", "code", "binary", "kind", "class", "truncated", "ward", "interaction"])
def test_cells(what: str, few: int) -> None:
    data = rows(60)
    first = np.arange(60) < few
    formula, model = "y ~ x", atm.NormalLinear()
    if what == "level":
        data["z"] = np.where(first, "rare", np.where(np.arange(60) < 30, "a", "b"))
        formula = "y ~ z"
    elif what == "code":
        data["z"] = np.where(first, 9, np.arange(60) % 2)
        formula = "y ~ C(z)"
    elif what == "binary":
        data["z"] = first.astype(float)
        formula = "y ~ z"
    elif what == "kind":
        data["e"] = ~first
        data["y"] = np.exp(data.y)
        formula, model = "Surv(y, e) ~ x", atm.ParametricSurvival()
    elif what == "truncated":
        data["y"] = np.exp(data.y) + 1.0
        data["e"], data["t0"] = 1, np.where(first, 0.5, 0.0)
        formula, model = "Surv(y, e, t0) ~ x", atm.ParametricSurvival()
    elif what == "class":
        data["y"] = np.where(first, 2, np.arange(60) % 2)
        model = atm.OrdinalRegression()
    elif what == "ward":
        data["ward"] = np.where(first, "rare", np.where(np.arange(60) < 30, "a", "b"))
        formula = "y ~ x | ward"
    else:
        data["z"] = np.where(np.arange(60) % 2, "a", "b")
        data["x"] = np.where((data.z == "a") & (np.arange(60) >= 2 * few), 0.0, data.x)
        formula = "y ~ z:x"
    policy = Policy(least_effective=5.0)
    if few == 5:
        one_site(data, formula, policy, model)
        return
    with pytest.raises(DisclosureError, match="fewer than the 5 rows") as refused:
        one_site(data, formula, policy, model)
    assert "rare" not in str(refused.value)


def test_levels_at_one_site_alone_need_more_rows() -> None:
    data = table(600)
    for few, fine in ((9, False), (10, True)):
        own = data.copy()
        at = own.index[own.site == "s0"][:few]
        own.loc[at, "z"] = "only here"
        if fine:
            coordinator(own, "y ~ z | site").fit(atm.NormalLinear(), xi=0.0)
            continue
        with pytest.raises(DisclosureError, match="at this site only, and has fewer than 10"):
            coordinator(own, "y ~ z | site").fit(atm.NormalLinear(), xi=0.0)


def test_numbers_of_levels() -> None:
    for levels, fine in ((40, True), (41, False)):
        data = rows(10 * levels)
        data["z"] = [f"l{k:02d}" for k in np.arange(len(data)) % levels]
        if fine:
            one_site(data, "y ~ z", Policy(most_levels=40))
            continue
        with pytest.raises(DisclosureError, match="more than 40 levels"):
            one_site(data, "y ~ z", Policy(most_levels=40))
    data = rows(60).assign(z=[f"l{k:02d}" for k in np.arange(60) % 21])
    with pytest.raises(DisclosureError, match="one for each three rows"):
        one_site(data, "y ~ z", Policy(least_cell=1))


def test_columns_must_be_on_the_list() -> None:
    one_site(rows(60), "y ~ x", Policy(columns=("x", "y")))
    with pytest.raises(DisclosureError, match="does not allow: k"):
        one_site(rows(60), "y ~ x + k", Policy(columns=("x", "y")))
    with pytest.raises(DisclosureError, match="does not allow: k"):
        one_site(rows(60), "y ~ x", Policy(columns=("x", "y")), sample_weight="k")


def test_weights_that_single_rows_out() -> None:
    data = rows(60).assign(w=1.0)
    one_site(data, "y ~ x", sample_weight="w")
    data.loc[0, "w"] = 1e6
    with pytest.raises(DisclosureError, match="the weights of few rows"):
        one_site(data, "y ~ x", sample_weight="w")


def test_answers_are_limited_over_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    data = rows(60)
    asked = Coordinator(LocalSites([Site(data, "here", ledger=path)]), {"formula": "y ~ x"})
    asked.fit(atm.NormalLinear())
    used = Ledger(path).answers(asked.prepare().formula and Study("y ~ x", members={"here": ""}, masks=True).digest)
    assert 8 <= used <= 20
    again = Site(data, "here", Policy(most_answers=used + 3), ledger=path)
    with pytest.raises(DisclosureError, match=f"has given all {used + 3} answers"):
        Coordinator(LocalSites([again]), {"formula": "y ~ x"}).fit(atm.NormalLinear())


def test_the_ledger_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Coordinator(LocalSites([Site(rows(60), "here", ledger=path)]), {"formula": "y ~ x"}).fit(atm.NormalLinear())
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [e["question"] for e in entries[:5]] == ["open", "counts", "moments", "gram", "baseline"]
    assert all(e["outcome"] == "answered" and e["members"] == "here" for e in entries)
    assert "sums" in path.read_text()
    text = "\n".join(Ledger(path).lines())
    assert "answered" in text
    path.write_text(path.read_text() + "not a line\n")
    with pytest.raises(InputError, match=r"line 1[0-9] of the ledger .* is damaged"):
        Ledger(path)


# the protocol at the site


def begun(**more: Any) -> tuple[Conversation, LocalSites]:
    sites = LocalSites(sites_of(DATA, **more))
    made = Conversation(sites, Study("y ~ x | site"), sites.names, True, "continuous", 10.0)
    return made, sites


def test_rounds_cannot_be_replayed() -> None:
    talk, sites = begun()
    question = Message(
        "counts",
        {"session": talk.session, "round": 5, "levels": {}, "classes": [], "numbers": []},
        {"edges": FIRST},
    ).encode()
    first = Message.decode(sites.sites["s0"].answer(question))
    assert first.kind == "counts"
    for again in (5, 4):
        fields = {"session": talk.session, "round": again, "levels": {}, "classes": [], "numbers": []}
        late = Message("counts", fields, {"edges": FIRST}).encode()
        answer = Message.decode(sites.sites["s0"].answer(late))
        assert answer.kind == "refused"
        assert "round" in answer.fields["reason"]


def test_sessions_belong_to_their_nonces_and_members() -> None:
    study = Study("y ~ x | site", members={"s0": "", "s1": "", "s2": ""}, masks=False)
    site = Site(DATA, "s0")

    def ask(kind: str, **fields: Any) -> Message:
        return Message.decode(site.answer(Message(kind, fields).encode()))

    def opened(nonces: dict[str, str], record: Any = None, masks: bool = False) -> str:
        answer = ask("open", study=record or study.record(), nonces=nonces, masks=masks, scale="continuous")
        return str(answer.fields.get("reason", answer.kind))

    assert "say hello first" in opened({"s0": "guess"})
    nonce = ask("hello", version=__version__, purpose="fit").fields["nonce"]
    assert "not members" in opened({"s0": nonce, "s9": "x"})
    assert "say hello first" in opened({"s1": nonce})
    assert "asks for masks" in opened(
        {"s0": nonce, "s1": "x", "s2": "y"}, Study("y ~ x | site", members=study.members).record()
    )
    assert "private key" in opened({"s0": nonce, "s1": "x", "s2": "y"}, masks=True)
    assert opened({"s0": nonce, "s1": "x", "s2": "y"}) == "open"
    assert "say hello first" in opened({"s0": nonce, "s1": "x", "s2": "y"})  # a nonce serves once
    wrong = ask("hello", version="0.0", purpose="fit")
    assert "install the same version" in wrong.fields["reason"]
    nothing = ask("sums", session="other", round=1, plan="p")
    assert nothing.kind == "refused"


def test_a_site_keeps_to_the_study_it_has_agreed_to() -> None:
    agreed = {"formula": "y ~ x | site", "support": [-2.0, 4.0]}
    keys = {f"s{k}": Keys.generate() for k in range(3)}
    members = {name: own.public for name, own in keys.items()}
    sites = [
        Site(part.drop(columns="site"), name, keys=keys[name], study={**agreed, "members": members})
        for name, part in DATA.groupby("site")
    ]
    Coordinator(LocalSites(sites), {**agreed, "members": members}).fit(atm.ContinuousLogit(), xi=1.0)
    for other in (
        {**agreed, "formula": "y ~ x + z | site"},
        {**agreed, "masks": False},
        {**agreed, "policy": {"least_rows": 1}},
    ):
        with pytest.raises(DisclosureError, match="not the one that this site has agreed to"):
            Coordinator(LocalSites(sites), {**other, "members": members}).prepare()
    theirs = {**members, "s2": Keys.generate().public}
    with pytest.raises(WireError, match="another public key than the study's has come from s2"):
        Coordinator(LocalSites(sites), {**agreed, "members": theirs}).prepare()
    with pytest.raises(InputError, match="not members of the study: s2"):
        Coordinator(LocalSites(sites), {**agreed, "members": {"s0": members["s0"], "s1": members["s1"]}}).prepare()


def test_rows_must_not_change_during_a_fit() -> None:
    sites = LocalSites(sites_of(DATA))
    asked = Coordinator(sites, {"formula": "y ~ x | site"})
    asked.prepare()
    sites.sites["s1"].data.iloc[3, 0] += 1e-9
    with pytest.raises(DisclosureError, match="the site 's1' refuses: the rows of the site have changed"):
        asked.fit(atm.NormalLinear(), xi=1.0)


def test_other_members_cannot_be_asked_about_the_same_parameters() -> None:
    """The difference of both totals would be what one site sends."""
    data = table(800, 4)
    sites = LocalSites(sites_of(data))
    study = Study("y ~ x | site", support=(-2.0, 4.0))
    everyone = Coordinator(sites, study)
    problem = everyone.problem(atm.ContinuousLogit())
    v = problem.start(problem.objective)
    problem.objective.sums(v)

    class Some:
        names = ("s0", "s1", "s2")
        ask = sites.ask

    few = Coordinator(Some(), study)
    other = few.problem(atm.ContinuousLogit(support=(-2.0, 4.0)))
    same = other.objective.coordinates.join(*problem.objective.coordinates.split(v))
    other.objective.sums(same + 1e-3)
    with pytest.raises(DisclosureError, match="the difference would show one site"):
        other.objective.sums(same)


def test_histograms_have_a_fixed_grid() -> None:
    """Edges that the coordinator chooses freely would find a value by asking again and again."""
    talk, sites = begun()
    site, step = sites.sites["s0"], 2.0**-4

    def asked(round_: int, edges: np.ndarray) -> str:
        fields = {"session": talk.session, "round": round_, "levels": {}, "classes": [], "numbers": ["x"]}
        answer = Message.decode(site.answer(Message("counts", fields, {"edges": edges}).encode()))
        return str(answer.fields.get("reason", answer.kind))

    rounds = 2
    assert asked(1, FIRST) == "counts"
    assert asked(2, step * np.arange(-BINS // 2, BINS // 2)) == "counts"
    for edges in (
        step * np.arange(-BINS // 2, BINS // 2) + 0.01,
        0.06 * np.arange(BINS),
        step * np.arange(BINS - 1),
        2.0 * step * np.arange(BINS)[::-1],
        2.0**-9 * np.arange(BINS),  # too fine for these values
        FIRST + 1e-9,
    ):
        rounds += 1
        assert "finer than sums need, or not on the fixed grid" in asked(rounds, edges)
    assert on_the_grid(FIRST)
    assert not on_the_grid(np.zeros(BINS))


def test_supports_hold_rows_of_each_site() -> None:
    """A baseline that bends around one value would show where it lies."""
    asked = coordinator(DATA, "y ~ x | site", support=[0.5, 0.6])
    with pytest.raises(DisclosureError, match="fewer than 20 rows in the support"):
        asked.fit(atm.ContinuousLogit(), xi=0.0)


def test_scores_in_clear_text_are_limited() -> None:
    data = rows(60)
    asked = Coordinator(LocalSites([Site(data, "here", Policy(most_scores=2))]), {"formula": "y ~ x"})
    model = asked.fit(atm.NormalLinear())
    for _ in range(2):
        asked.score(model)
    with pytest.raises(DisclosureError, match="all 2 scores of this study, which no mask hides"):
        asked.score(model)


# the attack


def attack(policy: Policy | None, n: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Return what a coordinator that chooses its parameters learns of one patient, and the truth.

    With a steep effect of x and two cuts, just below and just above the largest x, only one row's residual differs
    between two TOTALS over three sites.
    """
    rng = np.random.default_rng(3)
    data = pd.DataFrame(
        {"x": rng.normal(size=n), "age": rng.uniform(20, 90, n), "site": [f"s{k % 3}" for k in range(n)]}
    )
    data["sick"] = (rng.random(n) < 0.5).astype(int)
    top = data.x.idxmax()
    second, first = np.sort(data.x)[-2:]
    asked = coordinator(data, "sick ~ x + age | site", policy=policy)
    objective = asked.problem(atm.OrdinalRegression()).objective
    steep = 1e6

    def total(cut: float) -> np.ndarray:
        # h = theta - steep * x changes its sign at the cut
        return objective.derivatives(
            objective.coordinates.join(np.array([steep * cut]), np.array([steep, 0.0]))
        ).gradient

    row = total(0.5 * (second + first)) - total(first + 0.5 * (first - second))
    c = row / row[0]  # the first column is the constant
    k = objective.coordinates.n_baseline
    found = -(objective.coordinates.scale[k:] * c[k:] + objective.coordinates.mean[k:])
    return found, data.loc[top, ["x", "age"]].to_numpy(dtype=float)


def test_the_steep_attack_shows_a_patient_without_the_guard() -> None:
    found, truth = attack(OPEN)
    np.testing.assert_allclose(found, truth, rtol=1e-9)


def test_the_steep_attack_is_stopped_by_the_guard() -> None:
    with pytest.raises(ArithmeticError, match="a site withholds its sums"):
        attack(None)


def flat_attack(policy: Policy | None) -> tuple[float, np.ndarray]:
    """Return an outcome that a coordinator finds by a baseline that is nearly flat at one place, and all outcomes.

    The gradient of -log h' is c'/h', which only the rows have that are there. Its elements tell where. Masks do not
    take numbers that are so large.
    """
    asked = coordinator(DATA, "y ~ x | site", False, policy, support=[-2.0, 4.0])
    objective = asked.problem(atm.ContinuousLogit(order=3)).objective
    at = objective.coordinates
    inside = DATA.y[(DATA.y > -1.0) & (DATA.y < 3.0)]
    u0, tiny = (inside.iloc[0] + 2.0) / 6.0 + 1e-5, 1e-13  # found by a search, each step of which is a question
    # (u - u0)^2 + tiny as a Bernstein polynomial of degree 2, which is the slope of one of degree 3
    steps = np.array([u0**2, u0**2 - u0, (1.0 - u0) ** 2]) + tiny
    theta = np.concatenate([[0.0], np.cumsum(steps)])
    beta = np.zeros(1)
    found = objective.derivatives(at.join(theta, beta)).gradient[1:4] * at.scale[1:4]
    u = 1.0 / (1.0 + 2.0 * found[0] / found[1])  # slopes of the three increments: (1 - u)^2, 2 u (1 - u), u^2
    return -2.0 + 6.0 * u, DATA.y.to_numpy()


def test_the_flat_attack_finds_an_outcome_without_the_guard_and_is_stopped_by_it() -> None:
    found, outcomes = flat_attack(OPEN)
    nearest = np.abs(outcomes - found).min()
    assert nearest < 1e-5  # of a range of 12
    with pytest.raises(ArithmeticError, match="a site withholds its sums"):
        flat_attack(None)


# what crosses


def test_no_value_of_a_row_crosses() -> None:
    """Neither masked nor plain; searched for in each message as a double of either byte order, and as text."""
    for masks in (True, False):
        traffic: list[bytes] = []

        def watch(name: str, question: bytes, answer: bytes, into: list[bytes] = traffic) -> None:
            into += [question, answer]

        study = {"formula": "Surv(time, event) ~ x + z | site"}
        asked = Coordinator(LocalSites(sites_of(DATA), watch), study, masks=masks)
        asked.fit(atm.ContinuousLogit(), xi=1.0)
        asked.path(atm.ProportionalHazards(), [0, 1])
        asked.score(asked.fit(atm.ParametricSurvival(), xi=2.0))
        everything = b"\n".join(traffic)
        doubles = {value for message in traffic for value in _doubles(message)}
        for column in ("x", "time"):
            values = DATA[column].to_numpy()
            assert not doubles & set(values.tolist())
            for value in values:
                assert value.tobytes() not in everything
                assert value.tobytes()[::-1] not in everything
                assert repr(float(value)).encode() not in everything


def _doubles(message: bytes) -> list[float]:
    made = Message.decode(message)
    return [float(x) for values in made.arrays.values() if values.dtype.kind == "f" for x in values.ravel()]


def test_errors_quote_no_values() -> None:
    data = rows(60).assign(secret=["1.0"] * 59 + ["patient 4711"])
    for formula in ("y ~ secret", "secret ~ x", "Surv(secret, k) ~ x"):
        with pytest.raises(InputError) as refused:
            one_site(data, formula)
        assert "4711" not in str(refused.value)
    found = Site(data, "here").check({"formula": "y ~ secret"})
    assert len(found) == 1


def test_check_says_what_would_be_refused() -> None:
    site = Site(rows(60), "here")
    assert site.check({"formula": "y ~ x"}) == []
    assert "no column 'z'" in site.check({"formula": "y ~ z"})[0]
    assert "fewer than the 20 rows" in Site(rows(10), "here").check({"formula": "y ~ x"})[0]
    with pytest.raises(InputError, match="no study to check"):
        site.check()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"formula": 3}, "formula of a study must be text"),
        ({"formulas": "y ~ x"}, "no field called formulas"),
        ({"members": {"a": "xyz"}}, "members of a study"),
        ({"support": [3.0, 1.0]}, "support of a study"),
        ({"policy": {"least": 3}}, "no rule called least"),
        ({"policy": {"least_rows": 0}}, "least_rows of a policy must be a whole number from 1"),
        ({"policy": {"columns": "x"}}, "columns of a policy"),
        ({"missing": "impute"}, "missing of a study"),
        ({"classes": [1, 1]}, "classes of a study"),
    ],
)
def test_studies_are_checked(change: dict[str, Any], match: str) -> None:
    with pytest.raises((InputError, TypeError), match=match):
        Study.of({"formula": "y ~ x | site", **change})


def test_studies_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('formula = "y ~ x | site"\nsupport = [0.0, 1.0]\n[policy]\nleast_rows = 30\n[members]\na = ""\n')
    study = Study.of(path)
    assert (study.support, study.policy.least_rows, dict(study.members)) == ((0.0, 1.0), 30, {"a": ""})
    path.write_text("formula = ")
    with pytest.raises(InputError, match="not TOML"):
        Study.of(path)
