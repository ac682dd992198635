"""Comparisons with peers: the losses that judge both sides are right, and so is what crosses over to R and back."""

import os
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import expit
from scipy.stats import multivariate_normal, norm
from sklearn.linear_model import Lasso

from anchortm.bench import nets, r, r_peers, rows
from anchortm.bench.engine import FULL, Options, Sizes, in_child
from anchortm.bench.rows import Bar, Comparison, Line, Peer, compare, with_sizes

FULL_OPTIONS = Options(FULL, 1)


def test_kkt_is_zero_at_the_lasso_only() -> None:
    data = X, y, _ = nets.net_data(200, 30, "lm")
    lambdas = np.array([0.2, 0.1])
    fits = [Lasso(alpha=strength, tol=1e-12, max_iter=10**6).fit(X, y) for strength in lambdas]
    intercepts, coefs = np.array([m.intercept_ for m in fits]), np.array([m.coef_ for m in fits])
    kkt, objective = nets.kkt_and_objective(data, "lm", lambdas, intercepts, coefs)
    assert kkt < 1e-8
    expected = [
        0.5 * np.mean((y - m.predict(X)) ** 2) + s * abs(m.coef_).sum() for m, s in zip(fits, lambdas, strict=True)
    ]
    assert objective == pytest.approx(np.mean(expected), rel=1e-12)
    moved = coefs.copy()
    moved[1, 0] += 1e-3
    further, higher = nets.kkt_and_objective(data, "lm", lambdas, intercepts, moved)
    assert further > 1e-4
    assert higher > objective
    assert nets.kkt_and_objective(data, "lm", lambdas, intercepts + 1e-3, coefs)[0] > 1e-3


@pytest.mark.parametrize("kind", ["lm", "binary", "cox"])
def test_slopes_of_the_losses_are_their_derivatives(kind: str) -> None:
    _, y, event = nets.net_data(40, 25, kind)
    eta = np.random.default_rng(0).normal(size=40)
    _, slope = nets._loss(kind, eta, y, event)
    np.testing.assert_allclose(slope, approx_fprime(eta, lambda e: nets._loss(kind, e, y, event)[0], 1e-7), atol=1e-7)


def test_partial_likelihood_by_hand() -> None:
    eta, time, event = np.array([0.3, -0.2, 1.0]), np.array([2.0, 1.0, 3.0]), np.array([True, True, False])
    w = np.exp(eta)
    expected = -(eta[1] - np.log(w.sum()) + eta[0] - np.log(w[0] + w[2])) / 3.0
    assert nets._loss("cox", eta, time, event)[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("kind", ["lm", "binary", "cox"])
def test_our_paths_solve_the_problem_of_the_peers(kind: str) -> None:
    work, facts = nets.net_ours(300, 20, kind, 5)
    found = facts(work())
    assert found["converged"]
    assert found["kkt"] < 1e-6
    lambdas = found["given"]["lambdas"]
    assert len(lambdas) == 5
    assert lambdas == sorted(lambdas, reverse=True)


def test_loss_of_normal_random_intercepts() -> None:
    X, y, cluster = r_peers._normal_clusters(60, 9)
    slope, intercept, s, tau = np.linspace(-0.3, 0.3, 10), 2.5, 1.7, 0.8
    V = s**2 * np.eye(60) + tau**2 * (cluster[:, None] == cluster)
    expected = -multivariate_normal(intercept + X @ slope, V).logpdf(y) / 60
    assert r_peers._intercept_facts(X, y, cluster, slope, intercept, s, tau)["loss"] == pytest.approx(expected)


def test_loss_of_ordinal_random_intercepts() -> None:
    X, y, cluster = r_peers._ordinal_clusters(40)
    thresholds, beta, sd = np.array([-3.0, -1.0, 0.0, 1.0, 3.0]), np.array([0.5, -0.2, 0.1]), 1.2
    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])

    def together(u: float, own: Any) -> float:
        shift = X[own] @ beta + u
        return float(np.prod(expit(ends[y[own] + 1] - shift) - expit(ends[y[own]] - shift)) * norm.pdf(u, scale=sd))

    sums = [np.log(quad(together, -12.0, 12.0, args=(cluster == c,), epsabs=0.0)[0]) for c in np.unique(cluster)]
    found = r_peers._ordinal_cluster_facts(40, thresholds, beta, sd)
    assert found["loss"] == pytest.approx(-np.sum(sums) / 40, rel=1e-8)


def slow(n: int) -> Any:
    return None, None


def peer(limit: float, least: bool = False, kernels: str = "") -> Peer:
    bar = Bar("a fit", "a ratio", limit, least, kernels)
    return Peer("part", "a fit of {broad}", "the peer", None, slow, nets.net_celer, lambda _: [10], bars=(bar,))


def test_a_bar_may_be_in_times_of_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(side: Any, arguments: list[Any], repeats: int, kernels: str) -> dict[str, Any]:
        asked.append((side is slow, arguments, kernels))
        seconds = (3.0 if kernels == "numpy" else 2.0) if side is slow else 1.0
        return {"seconds": seconds, "memory": None, "loss": 1.0} | ({"given": [7]} if side is slow else {})

    monkeypatch.setattr(rows, "_run", run)
    judged = [compare(peer(*bar), FULL_OPTIONS)[0] for bar in [(2.5,), (1.5,), (0.6, True), (2.5, False, "numpy")]]
    assert [line.met for line in judged if isinstance(line, Line)] == ["yes", "no", "no", "no"]
    assert [line.measured.split(",")[0] for line in judged if isinstance(line, Line)] == ["2", "2", "0.5", "3"]
    assert asked[:2] == [(True, [10], ""), (False, [10, [7]], "")]
    row = compare(peer(2.5), FULL_OPTIONS)[1]
    assert isinstance(row, Comparison)
    assert (row.work, row.faster) == ("a fit of 2 000 x 1 000", "0.5 (slower)")
    assert with_sizes("{broad}, n = {glm}", FULL_OPTIONS) == "2 000 x 1 000, n = 1e6"


def seen() -> dict[str, str]:
    return {"kernels": os.environ.get("ANCHORTM_KERNELS", "")}


def test_children_get_the_kernels_that_they_are_measured_with() -> None:
    assert in_child(seen, kernels="numpy") == {"kernels": "numpy"}


def test_missing_r_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r.shutil, "which", lambda _: None)
    r.absent.cache_clear()
    assert r.absent("survival") == "skipped: Rscript not found"
    assert r.versions() == "R not installed"
    line, row = compare(r_peers.PEERS[0], Options(Sizes(clustered=100, clusters=10), 1))
    r.absent.cache_clear()
    assert isinstance(row, Comparison)
    assert isinstance(line, Line)
    assert row.note == "skipped: Rscript not found"
    assert line.met == "not measured"


def needed(package: str) -> None:
    if r.absent(package):
        pytest.skip(r.absent(package))


def test_arrays_go_to_r_and_back() -> None:
    needed("survival")
    X = np.arange(6.0).reshape(3, 2)
    code = 'X <- given("X", 2); give("column", X[, 2]); give("seconds", best(function() 1)$seconds)'
    work, facts = r.side("survival", code, {"X": X}, lambda found: {"column": found["column"].tolist()})
    found = facts(work())
    assert found["column"] == [1.0, 3.0, 5.0]
    assert 0.0 < found["seconds"] < 1.0
    with pytest.raises(RuntimeError, match="R ended with code 1: Error"):
        r.run("survival", "stop('broken')", {})
    assert "not installed" in r.absent("nosuchpackage")


@pytest.mark.parametrize(
    "chosen",
    [pytest.param(p, marks=[] if "coxph" in p.name else pytest.mark.slow, id=p.name) for p in r_peers.PEERS],
)
def test_r_finds_the_same_fit(chosen: Peer) -> None:
    needed((chosen.package or "").removeprefix("R:"))
    _agrees(chosen, Sizes(peers=400, ordinal=400, clustered=500, clusters=20, clustered_ordinal=200))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lm", "binary", "cox"])
def test_glmnet_finds_the_same_path(kind: str) -> None:
    needed("glmnet")
    chosen = next(p for p in nets.PEERS if "equal" in p.name and p.arguments(FULL)[2] == kind)
    _agrees(chosen, Sizes(tall=(300, 20), broad=(150, 20), lambdas=4))


def _agrees(chosen: Peer, sizes: Sizes) -> None:
    arguments = chosen.arguments(sizes)
    work, facts = chosen.ours(*arguments)
    ours = facts(work())
    work, facts = chosen.theirs(*arguments, *([ours["given"]] if "given" in ours else []))
    theirs = facts(work())
    assert theirs["seconds"] > 0.0
    assert -1e-9 < theirs["loss"] - ours["loss"] < 1e-6
    if "coef" in ours:
        np.testing.assert_allclose(theirs["coef"], ours["coef"], atol=1e-3)
