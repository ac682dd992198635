"""Sums over rows in C against the same sums in NumPy, and the values of the links in C against the links."""

import itertools
import math
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from high_precision import compiled_terms, measured_errors
from numpy.testing import assert_allclose

from anchortm._util.threads import usual_threads
from anchortm.engine.rows.block_sums import LogLikelihood, SecondOrder
from anchortm.engine.rows.blocks import Block, Piece
from anchortm.engine.rows.standardised import Rows
from anchortm.families import Family, get_family
from anchortm.kernels import NAME, rows
from anchortm.kernels.build import FOLDER, LIBRARY, build
from anchortm.links import LINKS, Logistic, OneEnd

compiled = pytest.mark.skipif(NAME != "compiled", reason="the kernels are not compiled")
LAWS = [pytest.param(*law, id="-".join(law)) for law in rows.LAWS if law[0] in LINKS]


@compiled
@pytest.mark.parametrize(("name", "kind"), LAWS)
def test_values_have_as_many_digits_as_those_of_the_links(name: str, kind: str) -> None:
    errors = dict(measured_errors(LINKS[name], kind, compiled_terms(name, kind)))
    assert max(errors.values()) < 3e-13, errors


@compiled
@pytest.mark.parametrize(("name", "kind"), LAWS)
@pytest.mark.parametrize("far", [701.0, -1e5, math.inf, math.nan])
def test_far_rows_are_left_to_the_links(name: str, kind: str, far: float) -> None:
    C = np.array([[0.0], [1.0], [far]])
    g, H = np.zeros(1), np.zeros((1, 1))
    assert rows.one_end(rows.LAWS[name, kind], C, None, None, None, None, 1, np.ones(1), None, (g, H)) is None
    assert not g.any()
    assert not H.any()


@compiled
@pytest.mark.parametrize("slope", [0.0, -1.0, 1e-300, 1e300, math.nan, math.inf])
def test_slopes_without_a_logarithm_are_left_to_numpy(slope: float) -> None:
    C, S = np.zeros((3, 2)), np.array([[1.0], [slope], [2.0]])
    assert rows.one_end(1, C, S, None, None, None, 1, np.ones(2), None, None) is None
    assert rows.log_slopes(S, None, 1, np.ones(1), None) is None


class AllAnchors:
    """One anchor level for all rows."""

    def add(self, sums: np.ndarray, weights: np.ndarray, C: np.ndarray | None) -> None:
        sums += weights.sum() if C is None else weights @ C

    def spread(self, coefficients: np.ndarray) -> np.ndarray:
        return np.repeat(coefficients[0], self.n)

    def __init__(self, n: int) -> None:
        self.n = n


CASES = [(1, 1), (255, 3), (256, 4), (257, 5), (1000, 17), (700, 64), (300, 65)]


@pytest.mark.parametrize(("name", "kind"), LAWS)
@pytest.mark.parametrize(("n", "d"), CASES)
@pytest.mark.parametrize("plain", [True, False])
def test_sums_are_those_of_numpy(
    name: str, kind: str, n: int, d: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n + d)
    k = min(d, 3)
    C = rng.normal(size=(n, d))
    data = Rows(
        kind,
        1 if plain or kind == "exact" else -1,  # only truncation is subtracted
        np.arange(n),
        C,
        None,
        rng.uniform(0.2, 3.0, (n, k)) if kind == "exact" else None,
        None if plain else rng.uniform(0.1, 4.0, n),
        None if plain else rng.normal(size=n),
    )
    v = rng.uniform(0.1, 0.5, d) / math.sqrt(d)
    block = Block(0, n, [Piece(data, AllAnchors(n))], None)

    def sums() -> list[np.ndarray]:
        found = []
        for work in (
            LogLikelihood(LINKS[name], v, k, 1),
            SecondOrder(LINKS[name], v, k, 1),
            SecondOrder(LINKS[name], v, k, 1, np.array([0.3])),
        ):
            arrays = [np.zeros(shape) for shape in work.shapes]
            found += [np.array(work(block, arrays)), *arrays]
        return found

    here = sums()
    for name_of_c in ("_one_end", "_add_gram", "_group_sums"):
        monkeypatch.setattr(rows, name_of_c, None)
    for a, b in zip(here, sums(), strict=True):
        assert_allclose(a, b, rtol=1e-11, atol=1e-12 * n)


FAMILY_LAWS = [law[0] for law in rows.LAWS if law[1] == "mean"]


def outcomes(family: Family, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return outcomes that a family can have."""
    y = rng.exponential(size=n)
    return (y > 0.7).astype(float) if family.family == "binomial" else np.round(3.0 * y) if family.discrete else y


@pytest.mark.parametrize("name", FAMILY_LAWS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (257, 5), (1000, 11)])
@pytest.mark.parametrize("plain", [True, False])
def test_sums_of_families_are_those_of_numpy(
    name: str, n: int, d: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n + d)
    family = get_family(*name.split("-"))
    outcome = family.outcome(outcomes(family, n, rng))
    weights, offset = (None, None) if plain else (rng.uniform(0.1, 4.0, n), rng.normal(size=n))
    v = rng.normal(size=d) / math.sqrt(d)
    data = Rows("mean", 1, np.arange(n), rng.normal(size=(n, d)), None, None, weights, offset, outcome=outcome)
    block = Block(0, n, [Piece(data, AllAnchors(n))], None)

    def sums(family: Family) -> list[np.ndarray]:
        found = []
        for work in (LogLikelihood(family, v, 1, 1), SecondOrder(family, v, 1, 1, np.array([0.3]))):
            arrays = [np.zeros(shape) for shape in work.shapes]
            found += [np.array(work(block, arrays)), *arrays]
        return found

    others = [
        replace(family, expected_information=True),
        replace(family, residual="deviance"),
        replace(family, push=2.0),
    ]
    assert not any(other.name_of_rows(outcome) for other in others)
    here = sums(family)
    monkeypatch.setattr(rows, "_one_end", None)
    for a, b in zip(here, sums(family), strict=True):
        assert_allclose(a, b, rtol=1e-12, atol=1e-13 * n)


@compiled
@pytest.mark.parametrize("name", FAMILY_LAWS)
def test_values_are_those_of_the_families(name: str) -> None:
    """One row at a time: l, r and dr, far out too, where 0 and 1 are certain."""
    family, rng = get_family(*name.split("-")), np.random.default_rng(2)
    eta = np.concatenate([rng.uniform(-30, 30, 60), [0.0, 1e-9, -0.3466]])
    outcome = family.outcome(outcomes(family, eta.size, rng))
    expected = family.terms(eta, outcome)
    for i, h in enumerate(eta):
        y = np.ascontiguousarray(outcome[i : i + 1, 0])
        law = rows.LAWS[name, "mean"]
        loglik, r, dr = rows.one_end(law, np.ones((1, 1)), None, None, y, None, 1, np.array([h]), None, None)
        assert_allclose(loglik, expected.l[i] - outcome[i, -1], rtol=3e-13, atol=1e-15 * y[0])
        assert_allclose(r[0], expected.r[i], rtol=3e-13, atol=1e-15 * y[0])
        assert_allclose(dr[0], expected.dr[i], rtol=3e-13)


@compiled
def test_sums_of_log_slopes_and_grams() -> None:
    rng = np.random.default_rng(3)
    S, w, v = rng.uniform(0.1, 2.0, (601, 7)), rng.uniform(0.5, 2.0, 601), rng.uniform(0.1, 1.0, 7)
    g, H = np.zeros(7), np.zeros((7, 7))
    slope = S @ v
    assert_allclose(rows.log_slopes(S, w, 1, v, (g, H)), w @ np.log(slope), rtol=1e-13)
    assert_allclose(g, -S.T @ (w / slope), rtol=1e-13)
    assert_allclose(H, (S * (w / slope**2)[:, None]).T @ S, rtol=1e-13)
    assert rows.add_gram(S, slope, w, g, H)
    assert_allclose(g, S.T @ (slope - w / slope), rtol=1e-12)
    assert_allclose(H, (S * (w / slope**2 + w)[:, None]).T @ S, rtol=1e-13)


@compiled
def test_arrays_that_cannot_be_handed_over_are_left_to_numpy() -> None:
    C = np.ones((4, 3))
    for wrong in (np.asfortranarray(C), C[:, :2], C.astype(np.float32)):
        assert rows.one_end(1, wrong, None, None, None, None, 1, np.ones(wrong.shape[1]), None, None) is None


# kernels/__init__.py imports the library, so the folder is set in a module of its own beforehand
ELSEWHERE = (
    "import sys, runpy, types, pathlib, anchortm; "
    "build = types.ModuleType('anchortm.kernels.build'); "
    "build.__dict__.update(runpy.run_path(str(pathlib.Path(anchortm.__file__).parent / 'kernels' / 'build.py'))); "
    "build.FOLDER = build.fingerprint.__globals__['FOLDER'] = pathlib.Path({!r}); "
    "sys.modules['anchortm.kernels.build'] = build"
)
FIT = """
import numpy as np, anchortm as atm
from anchortm.kernels import NAME
rng = np.random.default_rng(0)
X, site = rng.normal(size=(800, 3)), rng.integers(0, 8, 800)
y = np.exp(X[:, 0] + 0.3 * site + rng.logistic(size=800))
model = atm.ContinuousLogit(xi=5.0, log_first=True).fit(X, atm.Surv(np.minimum(y, 20.0), y < 20.0), anchors=site)
print(NAME, *model.coef_.tolist())
"""


def run(code: str, choice: str) -> str:
    """Return what code prints, or its error, with this choice of kernels."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        env={"ANCHORTM_KERNELS": choice, "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@compiled
def test_a_fit_is_the_same_with_and_without() -> None:
    (name, *one), (other, *two) = (run(FIT, choice).split() for choice in ("compiled", "numpy"))
    assert (name, other) == ("compiled", "numpy")
    assert_allclose(np.array(one, float), np.array(two, float), rtol=1e-9)


def test_another_choice_is_refused() -> None:
    expected = "ANCHORTM_KERNELS is 'fast', but must be one of compiled, numpy, or not set"
    assert expected in run("import anchortm.kernels", "fast")


@pytest.mark.parametrize(("choice", "expected"), [("", "numpy"), ("compiled", "cannot be used")])
def test_what_is_no_library_is_not_used(tmp_path: Path, choice: str, expected: str) -> None:
    (tmp_path / LIBRARY).write_bytes(b"not a library")
    assert expected in run(f"{ELSEWHERE.format(str(tmp_path))}; from anchortm.kernels import NAME; print(NAME)", choice)


@compiled
def test_a_library_of_other_sources_is_not_used(tmp_path: Path) -> None:
    for path in [*FOLDER.glob("*.[ch]"), FOLDER / "build.py", FOLDER / LIBRARY]:
        shutil.copy(path, tmp_path)
    with (tmp_path / "rows.c").open("a") as file:
        file.write("/* changed */")
    assert "made from other sources" in run(f"{ELSEWHERE.format(str(tmp_path))}; import anchortm.kernels", "compiled")


def test_without_a_compiler_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert build(tmp_path / "kernels.so") in ("no C compiler was found", "no kernels are built on Windows")
    assert not list(tmp_path.iterdir())
    assert (FOLDER / "rows.c").exists()


@pytest.mark.parametrize("shape", [(1, 1), (300, 3), (50, 70)])
def test_rows_of_a_matrix(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in any order, scaled and put beside other columns; arrays in other layouts are left to NumPy."""
    rng = np.random.default_rng(5)
    X, (factor, shift) = rng.normal(size=shape), rng.normal(size=(2, shape[1]))
    picked = rng.integers(0, shape[0], 2 * shape[0])
    out = np.full((picked.size, shape[1] + 2), 7.0)
    done = rows.scaled_rows(X, picked, factor, shift, out[:, 1:-1])
    assert done == (NAME == "compiled")
    if done:
        assert_allclose(out[:, 1:-1], X[picked] * factor - shift, rtol=1e-15, atol=1e-15)
    assert (out[:, [0, -1]] == 7.0).all()
    for matrix, own in ((X, picked), (np.asfortranarray(X), picked), (X, picked.astype(np.int32))):
        np.testing.assert_array_equal(rows.taken(matrix, own), X[picked])
    monkeypatch.setattr(rows, "_scaled_rows", None)
    np.testing.assert_array_equal(rows.taken(X, picked), X[picked])


@compiled
def test_centred_columns_and_their_ends() -> None:
    X = np.random.default_rng(6).normal(3.0, 2.0, size=(333, 5))
    low, high, centre = np.full(5, 1.5), np.full(5, 3.5), X.mean(axis=0)
    np.testing.assert_array_equal(rows.centred(X, centre, low, high), X - centre)
    np.testing.assert_array_equal((low, high), (np.minimum(X.min(axis=0), 1.5), np.maximum(X.max(axis=0), 3.5)))
    assert rows.centred(np.asfortranarray(X), centre, low, high) is None


def test_a_link_of_ones_own_is_not_taken_for_the_compiled_one_of_its_name() -> None:
    class Steeper(Logistic):
        def exact(self, z: np.ndarray) -> OneEnd:
            own = super().exact(2.0 * np.asarray(z))
            return OneEnd(own.l + math.log(2.0), 2.0 * own.r, 4.0 * own.dr, 8.0 * own.d2r)

    rng = np.random.default_rng(0)
    data = Rows("exact", 1, np.arange(9), rng.normal(size=(9, 2)), None, np.ones((9, 1)), None, None)
    v = np.array([0.5, 1.0])
    block, link = Block(0, 9, [Piece(data, None)], None), Steeper()
    expected = link.exact(data.C @ v).l.sum() + 9 * math.log(0.5)
    assert LogLikelihood(link, v, 1, 0)(block, [np.zeros(0)]) == pytest.approx(expected, rel=1e-13)


@compiled
def test_sums_by_group() -> None:
    rng = np.random.default_rng(4)
    C, w, bounds = rng.normal(size=(50, 5)), rng.normal(size=50), np.array([0, 7, 7, 20, 50])
    sums = np.ones((4, 8))
    assert rows.add_group_sums(bounds, w, C, sums[:, :5])
    expected = [(w[a:b, None] * C[a:b]).sum(axis=0) for a, b in itertools.pairwise(bounds)]
    assert_allclose(sums[:, :5], 1.0 + np.array(expected), rtol=1e-13, atol=1e-13)
    assert (sums[:, 5:] == 1.0).all()


def test_a_place_that_cannot_be_written_is_a_reason() -> None:
    assert build(Path("/proc/kernels.so")) is not None  # no error


@pytest.mark.parametrize(
    ("told", "n", "expected"), [("1", 10**6, 1), ("4", 10**6, 2), ("1,1", 10**6, 1), ("4", 10**4, 1)]
)
def test_usual_threads(told: str, n: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert usual_threads(n) == expected
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(usual_threads, n).result() == 1
