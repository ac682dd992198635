"""Histograms and splits in C against NumPy: the same numbers to the last bit."""

import numpy as np
import pytest

from anchortm.kernels import NAME, trees
from anchortm.models.boosted.growth import binned, grow

compiled = pytest.mark.skipif(NAME != "compiled", reason="the kernels are not compiled")


@compiled
@pytest.mark.parametrize("n_bins", [2, 37, 256])
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_bin_are_those_of_bincount(n_bins: int, some: bool, weighted: bool) -> None:
    rng = np.random.default_rng(n_bins)
    codes, values = rng.integers(0, n_bins, (3, 500)).astype(np.uint8), rng.normal(size=(2, 500))
    rows = np.sort(rng.choice(500, 123, replace=False)) if some else None
    own = slice(None) if rows is None else rows
    gradient, curvature = np.ascontiguousarray(values[:, own])
    found = trees.bin_sums(codes, rows, gradient, curvature if weighted else None, n_bins)
    for j, column in enumerate(codes[:, own]):
        wanted = [np.bincount(column, weights, n_bins) for weights in (gradient, None, curvature)]
        np.testing.assert_array_equal(found[:, j], wanted[: 3 if weighted else 2])


@compiled
@pytest.mark.parametrize("n_edges", [0, 1, 2, 100, 255])
def test_bins_are_those_of_searchsorted(n_edges: int) -> None:
    rng = np.random.default_rng(n_edges)
    X = rng.normal(size=(1000, 3))
    edges = np.sort(rng.choice(X.ravel(), n_edges, replace=False))  # some numbers are edges themselves
    X[:3, 1] = -np.inf, np.inf, 0.0
    for x in (X[:, 1], X[::-2, 1], np.asfortranarray(X)[:, 2]):
        np.testing.assert_array_equal(trees.bin_codes(x, edges), np.searchsorted(edges, x))


@compiled
@pytest.mark.parametrize("cut", [0, 3, 8, 9])
@pytest.mark.parametrize("some", [False, True])
def test_rows_of_a_split_keep_their_order(cut: int, some: bool) -> None:
    rng = np.random.default_rng(cut)
    code = rng.integers(0, 10, 300).astype(np.uint8)
    rows = np.sort(rng.choice(300, 77, replace=False)) if some else None
    every = np.arange(300) if rows is None else rows
    low = code[every] <= cut
    found = trees.split_rows(code, rows, cut, int(low.sum()))
    np.testing.assert_array_equal(found[0], every[low])
    np.testing.assert_array_equal(found[1], every[~low])


@compiled
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_do_not_depend_on_the_kernels(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(3000, 3)), rng.integers(0, 5, 3000)])
    gradient = np.sin(2 * X[:, 0]) + X[:, 3] + rng.normal(size=3000)
    weights = rng.uniform(0.5, 2.0, 3000) if weighted else None
    found = []
    for chosen in (trees.bin_sums, trees.split_rows), (lambda *_: None,) * 2:
        monkeypatch.setattr(trees, "bin_sums", chosen[0])
        monkeypatch.setattr(trees, "split_rows", chosen[1])
        found.append(grow(binned(X), gradient, weights, 20, 15, 1.0))
    (tree, leaf), (other, wanted) = found
    np.testing.assert_array_equal(leaf, wanted)
    for name in ("feature", "threshold", "left", "right", "gain"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(other, name))
