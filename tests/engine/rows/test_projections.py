"""Every kind of projection against the dense matrix A (A'WA)^+ A'W."""

from time import perf_counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import anchortm as atm
from anchortm.engine.rows.projections import projection
from anchortm.engine.solve.identification import anchors_explained
from anchortm.exceptions import AnchorWarning, InputError, InputTypeError
from anchortm.inputs.anchors import anchor_columns

rng = np.random.default_rng(7)
N = 60
TOWN = rng.integers(0, 7, N)
YEAR = rng.integers(2018, 2022, N)
AGE = rng.normal(50, 9, N)
COLUMNS = np.column_stack([AGE, rng.exponential(size=N)])

ANCHORS = {
    "one factor": TOWN,
    "one row a level": np.arange(N),
    "numbers": COLUMNS,
    "two factors": [TOWN, YEAR],
    "nested factors": [TOWN, TOWN // 2],
    "factor and number": [TOWN, AGE],
    "two factors and numbers": [TOWN, YEAR, AGE, COLUMNS[:, 1]],
    "three factors": [TOWN, YEAR, (TOWN + YEAR) % 3],
}
kinds = pytest.mark.parametrize("name", ANCHORS)
weighted = pytest.mark.parametrize("weights", [None, rng.exponential(size=N) + 0.1], ids=["plain", "weighted"])


def dense(anchors, intercept: bool) -> np.ndarray:
    """One-hot columns, numeric columns and the constant, side by side."""
    anchors = anchors if isinstance(anchors, list) else [anchors]
    pieces = []
    for column in anchors:
        if column.dtype.kind == "f":
            pieces.append(column.reshape(N, -1))
        else:
            pieces.append(np.eye(column.max() + 1)[column])
    return np.column_stack([*pieces, np.ones(N)] if intercept else pieces)


def operator(anchors, weights, intercept=True) -> tuple[np.ndarray, object]:
    columns = anchor_columns(anchors)
    order = columns.order()
    order = np.arange(N) if order is None else order
    P = projection(columns.take(order), None if weights is None else weights[order], intercept)
    w = None if weights is None else weights[order]
    matrix = np.empty((N, N))
    for j in range(N):
        unit = (order == j).astype(float)
        matrix[order, j] = P(unit, w)
    return matrix, P


@kinds
@weighted
@pytest.mark.parametrize("intercept", [True, False])
def test_contract(name: str, weights, intercept: bool) -> None:
    anchors = ANCHORS[name]
    computed, P = operator(anchors, weights, intercept)
    A = dense(anchors, intercept)
    W = np.eye(N) if weights is None else np.diag(weights)
    root = np.sqrt(W)
    wanted = np.linalg.pinv(root @ A, rcond=1e-10)
    np.testing.assert_allclose(computed, A @ wanted @ root, atol=1e-9)
    assert P.rank == np.linalg.matrix_rank(A, tol=1e-8)
    np.testing.assert_allclose(computed @ computed, computed, atol=1e-9)  # idempotent
    np.testing.assert_allclose(W @ computed, (W @ computed).T, atol=1e-9)  # symmetric in the weights


@kinds
@weighted
def test_parts_add_up(name: str, weights) -> None:
    """Sums over parts of the rows, for vectors and matrices, and the quadratic form |t|^2."""
    columns = anchor_columns(ANCHORS[name])
    order = columns.order()
    columns = columns.take(np.arange(N) if order is None else order)
    P = projection(columns, weights)
    w = np.ones(N) if weights is None else weights
    C = rng.normal(size=(N, 3))
    v = rng.normal(size=N)
    whole, parts, vector = np.zeros((P.n_sums, 3)), np.zeros((P.n_sums, 3)), np.zeros(P.n_sums)
    P.part(slice(None)).add(whole, w, C)
    P.part(slice(None)).add(vector, w * v, None)
    for rows in (np.arange(0, 17), np.arange(17, 40), np.arange(40, 40), np.arange(40, N)):
        P.part(rows).add(parts, w[rows], C[rows])
    np.testing.assert_allclose(parts, whole, atol=1e-10)
    E, t = P.root(whole), P.root(vector)
    assert t @ t == pytest.approx((w * v) @ P(v, weights))
    np.testing.assert_allclose(E.T @ E, (w[:, None] * C).T @ np.column_stack([P(c, weights) for c in C.T]), atol=1e-9)
    np.testing.assert_allclose(P.part(slice(None)).spread(P.coefficients(t)), P(v, weights), atol=1e-10)
    Q = np.column_stack([P.part(slice(None)).spread(P.coefficients(unit)) for unit in np.eye(t.size)])
    np.testing.assert_allclose(P.gram(v), Q.T @ (v[:, None] * Q), atol=1e-9)
    sums = np.zeros((P.n_sums, P.n_sums))
    for rows in (np.arange(N // 3), np.arange(N // 3, N)):  # rows in two blocks
        P.part(rows).add_gram(sums, v[rows])
    np.testing.assert_allclose(P.root(P.root(sums).T), P.gram(v), atol=1e-9)
    cross = P.cross(sp.csr_matrix(np.where(C > 0.0, C, 0.0)), weights)
    dense = np.zeros((P.n_sums, 3))
    P.part(slice(None)).add(dense, w, np.maximum(C, 0.0))
    np.testing.assert_allclose(cross.toarray() if sp.issparse(cross) else cross, dense, atol=1e-10)


@kinds
def test_relabelling_and_row_order_do_not_matter(name: str) -> None:
    anchors = ANCHORS[name]
    columns = anchors if isinstance(anchors, list) else [anchors]
    shuffle = rng.permutation(N)

    def relabel(column):
        return column * -2.5 + 3.0 if column.dtype.kind == "f" else (column * 37 + 11) % 1009

    other = [relabel(column)[shuffle] for column in columns]
    first, _ = operator(anchors, None)
    second, _ = operator(other if isinstance(anchors, list) else other[0], None)
    np.testing.assert_allclose(second, first[np.ix_(shuffle, shuffle)], atol=1e-9)


@pytest.mark.parametrize(
    "anchors",
    [
        TOWN.astype(str),
        TOWN.astype(np.int8),
        TOWN.tolist(),
        pd.Series(TOWN),
        pd.Series(TOWN).astype("category"),
        pd.Series(TOWN.astype(str)),
        pd.Series(TOWN.astype(str)).astype("string"),
        pd.Categorical(TOWN.astype(str)),
        pd.DataFrame({"town": TOWN}),
        pl.Series("town", TOWN),
        pl.Series("town", TOWN.astype(str)),
        pl.Series("town", TOWN.astype(str)).cast(pl.Categorical),
        pl.DataFrame({"town": TOWN.astype(str)}),
        TOWN[:, None],
    ],
)
def test_factors_from_any_container(anchors) -> None:
    wanted, _ = operator(TOWN, None)
    computed, P = operator(anchors, None)
    np.testing.assert_allclose(computed, wanted, atol=1e-12)
    assert P.rank == 7


def test_booleans_are_a_factor() -> None:
    _, P = operator(TOWN > 3, None)
    assert P.rank == 2


def test_many_levels_cost_no_matrix() -> None:
    n, levels = 300_000, 100_000
    codes = np.random.default_rng(0).integers(0, levels, n)
    columns = anchor_columns(codes)
    P = projection(columns.take(columns.order()))
    v = np.random.default_rng(1).normal(size=n)
    ordered = codes[columns.order()]
    _, inverse = np.unique(ordered, return_inverse=True)
    means = np.bincount(inverse, v) / np.bincount(inverse)
    np.testing.assert_allclose(P(v), means[inverse], atol=1e-12)


def test_dropped_columns_are_named() -> None:
    frame = pd.DataFrame({"age": AGE, "twice": 2 * AGE + 1, "one": 1.0})
    P = projection(anchor_columns(frame))
    assert P.rank == 2
    assert set(P.dropped) in ({"one", "twice"}, {"one", "age"})
    inside = pd.DataFrame({"town": TOWN, "mean": TOWN * 1.5}).sort_values("town")
    P = projection(anchor_columns(inside))
    assert P.rank == 7
    assert P.dropped == ("mean",)


@pytest.mark.parametrize(
    ("anchors", "error", "message"),
    [
        (np.array([1.0, np.nan]), InputError, "anchor is nan at row 1"),
        (pd.Series(["a", None], name="town"), InputError, "anchor 'town' is missing at row 1"),
        (pd.Categorical(["a", None]), InputError, "missing at row 1"),
        ([np.zeros(3), np.zeros(4)], InputError, r"differ in length: \[3, 4\]"),
        (np.zeros((2, 2, 2)), InputError, "one or two dimensions"),
        (3, InputTypeError, "anchors must be an array"),
        ([np.arange(6000), np.arange(6000)], InputError, "more than 5000"),
    ],
)
def test_refusals(anchors, error, message) -> None:
    with pytest.raises(error, match=message):
        projection(anchor_columns(anchors))


ROWS = pd.DataFrame({"x": rng.normal(size=150), "z": rng.normal(size=150), "site": rng.integers(0, 3, 150)})
ROWS = ROWS.assign(x=ROWS.x + ROWS.site, y=ROWS.x + ROWS.site + rng.normal(size=150))
ROWS = ROWS.assign(t=np.exp(ROWS.y / 2), e=1, k=np.floor(np.exp(ROWS.y / 3)), mix=2.0 * ROWS.x - ROWS.z + 3.0)
ROWS["grade"] = np.digitize(ROWS.y, [0.0, 2.0])
EXPLAINED = "the covariates explain the anchors exactly"
KINDS = {
    "Lm": (atm.NormalLinear, "y"),
    "c-logit": (atm.ContinuousLogit, "y"),
    "Weibull": (atm.ParametricSurvival, "Surv(t, e)"),
    "classes": (atm.OrdinalRegression, "grade"),
    "Cox": (atm.CoxPH, "Surv(t, e)"),
    "Poisson": (atm.AnchorGLM, "k"),
}


@pytest.mark.bug("other software", "anchors that covariates explain made the penalty zero without a word")
@pytest.mark.parametrize(("model", "outcome"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("right", ["x + z | x", "x + z | mix", "x + C(site) | site"])
def test_anchors_that_covariates_explain_are_idle(model, outcome: str, right: str) -> None:
    with pytest.warns(AnchorWarning, match=f"{EXPLAINED}.*the penalty is zero and xi has no effect"):
        anchored = model.from_formula(f"{outcome} ~ {right}", ROWS, xi=10.0)
    free = model.from_formula(f"{outcome} ~ {right}", ROWS)  # without a warning
    np.testing.assert_allclose(anchored.coef_, free.coef_, atol=1e-6)
    assert EXPLAINED in anchored.warnings_[0]


@pytest.mark.parametrize("right", ["x + z | site", "x | x + site", "x | mix", "z + C(site) | x + site"])
def test_anchors_that_covariates_explain_in_part_are_not_idle(right: str) -> None:
    anchored, free = (atm.NormalLinear.from_formula(f"y ~ {right}", ROWS, xi=xi) for xi in (10.0, 0.0))
    assert np.abs(anchored.coef_ - free.coef_).max() > 0.01
    nearly = ROWS.assign(mix=ROWS.mix + 1e-6 * ROWS.y**2)
    atm.NormalLinear.from_formula("y ~ x + z | mix", nearly, xi=10.0)


def test_anchors_that_a_wide_factor_explains() -> None:
    town = np.arange(2000) % 150
    X = sp.hstack([sp.csr_matrix(np.eye(150)[town][:, 1:]), sp.csr_matrix(rng.normal(size=(2000, 1)))]).tocsr()
    y = 0.1 * town + rng.normal(size=2000)
    for anchors in (town, town // 10, np.sqrt(town)):
        with pytest.warns(AnchorWarning, match=EXPLAINED):
            atm.NormalLinear(xi=1.0).fit(X, y, anchors=anchors)
    atm.NormalLinear(xi=1.0).fit(X, y, anchors=rng.normal(size=2000))


def test_the_look_at_anchors_is_cheap() -> None:
    n = 200_000
    X, many = rng.normal(size=(n, 10)), anchor_columns(rng.integers(0, 50_000, n))
    start = perf_counter()
    assert not anchors_explained(many, X)
    assert not anchors_explained(anchor_columns(rng.normal(size=n)), X)
    assert perf_counter() - start < 0.5
    late = X[:, 0].copy()
    late[-1] += 1e-3  # one row is enough
    assert anchors_explained(anchor_columns(X[:, 0]), X)
    assert not anchors_explained(anchor_columns(late), X)
