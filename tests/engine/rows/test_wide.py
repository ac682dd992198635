"""Factors of many levels and sparse covariates: the same answers as with dense columns, and no dense columns."""

import pickle
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import anchortm as atm
import anchortm.inputs.formula.covariates
from anchortm.engine.rows.factor_hessian import MAX_KEPT, Arrow
from anchortm.engine.solve.newton import expand
from anchortm.exceptions import IdentificationError, InputError, InputTypeError, SeparationError
from anchortm.inputs.design import WideMatrix, to_design

RIGHT = "age + hospital + bmi + age:bmi"


def rows(n: int, levels: int, seed: int = 0, sites: int = 8) -> pd.DataFrame:
    """Return a table with a factor of many levels, another of half as many, and outcomes of every kind."""
    rng = np.random.default_rng(seed)
    hospital = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)])
    code, site = rng.integers(0, max(levels // 2, 2), n), rng.integers(0, sites, n)
    age, bmi = rng.normal(size=(2, n)) + 0.5 * rng.normal(size=sites)[site]
    effect = 0.4 * rng.normal(size=levels)
    y = 0.5 * age - 0.4 * bmi + effect[hospital] + 0.4 * rng.normal(size=sites)[site] + rng.logistic(size=n)
    return pd.DataFrame(
        {
            "age": age,
            "bmi": bmi,
            "hospital": np.array([f"h{k:05d}" for k in range(levels)], dtype=object)[hospital],
            "code": code,
            "site": np.array([f"s{k}" for k in range(sites)], dtype=object)[site],
            "year": rng.normal(size=n) + 0.3 * site,
            "y": y,
            "time": np.exp(y / 3.0),
            "event": (rng.uniform(size=n) < 0.8).astype(int),
            "grade": np.digitize(y, [-1.5, 0.0, 1.5]),
            "visits": np.floor(np.exp(0.4 * y)).astype(int).clip(0, 30),
            "w": rng.uniform(0.5, 2.0, n),
            "shift": 0.1 * rng.normal(size=n),
        }
    )


def both(cls, text, data, monkeypatch, **options):
    """Return the fit with the factor as codes, and the one with its dummies as numbers."""
    wide = cls.from_formula(text, data, **options)
    with monkeypatch.context() as patch:
        patch.setattr(anchortm.inputs.formula.covariates, "WIDE", 10**9)
        dense = cls.from_formula(text, data, **options)
    assert wide.coef_names_ == dense.coef_names_
    return wide, dense


MODELS = [
    (atm.ContinuousLogit, "Surv(time, event)", {"order": 4, "log_first": True}),
    (atm.ProportionalHazards, "Surv(time, event)", {"order": 4, "log_first": True}),
    (atm.ContinuousProbit, "y", {"order": 4}),
    (atm.NormalLinear, "y", {}),
    (atm.ParametricSurvival, "Surv(time, event)", {"dist": "exponential"}),
    (atm.OrdinalRegression, "grade", {}),
    (atm.CountRegression, "visits", {"order": 3}),
]


@pytest.mark.parametrize(
    ("xi", "anchors", "extra"),
    [
        (0.0, "0", {"sample_weight": "w", "offset": "shift"}),
        (3.0, "site", {"sample_weight": "w"}),
        (10.0, "year", {"offset": "shift"}),
        (2.0, "site + year", {}),
    ],
)
@pytest.mark.parametrize(("cls", "left", "options"), MODELS, ids=lambda value: getattr(value, "__name__", ""))
def test_same_as_dense(cls, left, options, xi, anchors, extra, monkeypatch) -> None:
    data = rows(3000, 120)
    wide, dense = both(cls, f"{left} ~ {RIGHT} | {anchors}", data, monkeypatch, xi=xi, **options, **extra)
    assert isinstance(wide.result_.information, Arrow)
    assert wide.converged_
    assert wide.kkt_ <= 1e-8
    np.testing.assert_allclose(wide.coef_, dense.coef_, atol=1e-8)
    np.testing.assert_allclose(wide.baseline_, dense.baseline_, atol=1e-8)
    assert wide.loss_ == pytest.approx(dense.loss_, abs=1e-11)
    assert wide.loglik_ == pytest.approx(dense.loglik_, rel=1e-8)
    assert wide.min_eigenvalue_ == pytest.approx(dense.min_eigenvalue_, rel=1e-5)
    assert wide.convexity_ == dense.convexity_
    np.testing.assert_array_equal(wide.active_, dense.active_)
    if xi == 0.0:
        np.testing.assert_allclose(wide.standard_errors(), dense.standard_errors(), rtol=1e-7)
        np.testing.assert_allclose(wide.covariance(), dense.covariance(), rtol=1e-5, atol=1e-9)


def test_several_wide_factors(monkeypatch) -> None:
    data = rows(5000, 220)
    text = "grade ~ C(code) + age + hospital | site"
    wide, dense = both(atm.OrdinalRegression, text, data, monkeypatch, xi=1.0)
    matrix = wide.problem_.data.design.matrix
    assert matrix.codes.max() == 219
    assert matrix.sparse.shape == (5000, 109)
    np.testing.assert_allclose(wide.coef_, dense.coef_, atol=1e-8)
    np.testing.assert_allclose(wide.nll(data[:7]), dense.nll(data[:7]), atol=1e-8)


def test_path_through_downward_curvature(monkeypatch) -> None:
    # some levels curve down on the way, and the branch from xi = 0 ends
    rng = np.random.default_rng(2)
    n, levels = 1500, 110
    hospital, site = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)]), rng.integers(0, 12, n)
    x = rng.normal(size=(n, 2)) + 0.5 * rng.normal(size=12)[site][:, None]
    z = x @ [0.5, -0.4] + 0.4 * rng.normal(size=levels)[hospital] + rng.normal(size=12)[site]
    z -= np.log(rng.exponential(size=n))
    event = (rng.uniform(size=n) < 0.7).astype(int)
    data = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "h": hospital, "site": site, "t": np.exp(z / 2), "e": event})
    seen = []
    split = Arrow._split.func
    monkeypatch.setattr(Arrow._split, "func", lambda self: seen.append(split(self)) or seen[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", atm.exceptions.AnchorTMWarning)
        text = "Surv(t, e) ~ a + C(h) + b | site"
        wide, dense = both(atm.ContinuousLogit, text, data, monkeypatch, xi=1000.0, order=4, log_first=True)
    assert any(not part.own.all() for part in seen)
    assert wide.folds_ == pytest.approx(dense.folds_)
    assert wide.loss_ == pytest.approx(dense.loss_, abs=1e-10)
    np.testing.assert_allclose(wide.coef_, dense.coef_, atol=1e-8)


@pytest.mark.parametrize("xi", [0.0, 5.0, 300.0])
def test_start_from_some_levels(xi, monkeypatch) -> None:
    data = rows(4000, 150)
    text = "grade ~ C(code) + age + hospital | site"
    wide = atm.OrdinalRegression.from_formula(text, data, xi=xi)
    monkeypatch.setattr("anchortm.engine.solve.continuation.SUBSAMPLE_FROM", 1000)
    monkeypatch.setattr("anchortm.engine.rows.blocks.Blocks.sample_rows", 1200)
    sampled = atm.OrdinalRegression.from_formula(text, data, xi=xi, n_jobs=2)
    np.testing.assert_allclose(sampled.coef_, wide.coef_, atol=1e-8)


def test_paths_searches_and_the_bootstrap(monkeypatch) -> None:
    data = rows(3000, 110, sites=5)
    formula = atm.Formula("y ~ age + hospital | site", data)
    path = atm.anchor_path(atm.ContinuousProbit(order=3), formula.X, formula.y, formula.anchors, [0.0, 1.0, 10.0])
    assert all(model.converged_ for model in path.models)
    search = atm.XiSearchCV.from_formula("y ~ age + hospital | site", data, model=atm.NormalLinear(), xis=[0.0, 1.0])
    assert np.isfinite(search.predict(data[:5])).all()
    model = atm.NormalLinear.from_formula("y ~ age + hospital", data)
    draws = model.bootstrap(20, clusters=np.arange(3000) % 300, random_state=0, progress=False)
    assert draws.draws[:, 2].std(ddof=1) == pytest.approx(model.standard_errors()[0], rel=0.6)
    strength = atm.diagnostics.score_test(atm.NormalLinear(), formula.X, formula.y, formula.anchors)
    plain = atm.diagnostics.score_test(atm.NormalLinear(), to_design(formula.X).matrix, formula.y, formula.anchors)
    assert (strength.df, strength.statistic) == (plain.df, pytest.approx(plain.statistic, rel=1e-6))


def test_the_structured_hessian() -> None:
    data = rows(2000, 130)
    model = atm.OrdinalRegression(xi=2.0)
    formula = atm.Formula("grade ~ age + hospital + C(code, contr.sum) | site", data)
    problem = model.problem(formula.X, formula.y, anchors=formula.anchors)
    dense = problem.with_data(problem.data._replace(design=to_design(problem.data.design)))
    states = []
    for own in (problem, dense):
        objective = own.objective
        v = own.start(objective)
        states.append(expand(objective, v, objective.sums(v), 2.0))
    ours, theirs = states
    d = ours.v.size
    held = np.zeros(d, dtype=bool)
    held[2] = True
    np.testing.assert_allclose(ours.gradient, theirs.gradient, atol=1e-13)
    np.testing.assert_allclose(ours.hessian.toarray(), theirs.hessian, atol=1e-12)
    np.testing.assert_allclose(ours.hessian @ ours.gradient, theirs.hessian @ ours.gradient, atol=1e-12)
    inner = theirs.hessian[np.ix_(~held, ~held)]
    solution = ours.hessian.solve(ours.gradient, held)
    assert solution[2] == 0.0
    np.testing.assert_allclose(solution[~held], np.linalg.solve(inner, ours.gradient[~held]), atol=1e-10)
    assert ours.hessian.smallest_eigenvalue(held) == pytest.approx(np.linalg.eigvalsh(inner)[0], rel=1e-6)


def test_more_bad_levels_than_are_kept() -> None:
    data = rows(3 * MAX_KEPT, MAX_KEPT + 100)
    formula = atm.Formula("y ~ age + hospital", data)
    model = atm.NormalLinear()
    problem = model.problem(formula.X, formula.y)
    objective = problem.objective
    v = problem.start(objective)
    H = objective.derivatives(v).hessian
    turned = Arrow(H.coordinates, H.A, H.B, np.where(np.arange(H.D.size) > 5, -H.D, H.D), H.EF)
    assert (turned._split.D > 0.0).all()
    assert np.isfinite(turned.recover(np.zeros(turned.schur.shape[0]), v)).all()


def test_sparse_matrices() -> None:
    data = rows(4000, 150)
    parts = [sp.csr_matrix(data[["age", "bmi"]].to_numpy())]
    parts += [sp.csr_matrix(pd.get_dummies(data[name]).iloc[:, 1:].to_numpy(float)) for name in ("hospital", "code")]
    X = sp.hstack(parts)
    dense = atm.OrdinalRegression(xi=1.0).fit(X.toarray(), data.grade, anchors=data.site)
    for kind in (sp.csr_matrix, sp.csc_array, sp.coo_matrix):
        wide = atm.OrdinalRegression(xi=1.0).fit(kind(X), data.grade, anchors=data.site)
        np.testing.assert_allclose(wide.coef_, dense.coef_, atol=1e-8)
        np.testing.assert_allclose(wide.predict_proba(kind(X)), dense.predict_proba(X.toarray()), atol=1e-9)
    matrix = wide.problem_.data.design.matrix
    assert (matrix.dense.shape[1], matrix.sparse.shape[1], matrix.n_levels) == (2, 74, 150)
    np.testing.assert_array_equal(matrix.toarray(), X.toarray())
    np.testing.assert_array_equal(matrix[5:9].toarray(), X.toarray()[5:9])


def test_sparse_without_a_factor(monkeypatch) -> None:
    X = sp.random(2000, 12, 0.05, format="csr", random_state=0)
    rng = np.random.default_rng(0)
    y, site = X @ np.ones(12) + rng.logistic(size=2000), rng.integers(0, 5, 2000)
    for xi in (0.0, 4.0):
        wide, dense = (
            atm.ContinuousLogit(xi=xi, order=3).fit(x, y, anchors=site, sample_weight=np.exp(0.1 * y))
            for x in (X, X.toarray())
        )
        np.testing.assert_allclose(wide.coef_, dense.coef_, atol=1e-8)
        assert wide.min_eigenvalue_ == pytest.approx(dense.min_eigenvalue_, rel=1e-8)
        np.testing.assert_allclose(wide.standard_errors(), dense.standard_errors(), rtol=1e-6)


def test_sparse_input_is_checked() -> None:
    X = sp.random(200, 5, 0.3, format="csr", random_state=0)
    y = np.arange(200.0)
    bad = X.copy()
    bad.data[3] = np.nan
    with pytest.raises(InputError, match=r"NaN or infinity in x\d, at row"):
        atm.NormalLinear().fit(bad, y)
    with pytest.raises(InputTypeError, match="real numbers"):
        atm.NormalLinear().fit(X.astype(complex), y)
    with pytest.raises(InputError, match="anchor_names must be column positions from 0 to 4"):
        atm.NormalLinear(xi=1.0, anchor_names=[5]).fit(X, y)
    with pytest.raises(InputError, match="200 rows, but y has 199"):
        atm.NormalLinear().fit(X, y[1:])
    fit = atm.NormalLinear().fit(X, y)
    with pytest.raises(InputError, match="expecting 5 features"):
        fit.predict(X[:, :4])
    many = sp.random(5000, 3500, 0.01, format="csr", random_state=0)
    with pytest.raises(InputError, match="sparse columns beside"):
        atm.NormalLinear().fit(many, np.arange(5000.0))
    with pytest.raises(IdentificationError, match="constant covariates: x5"):
        atm.NormalLinear().fit(sp.hstack([X, sp.csr_matrix((200, 1))]), y)
    twice = sp.hstack([X, X[:, :1]])
    with pytest.raises(IdentificationError, match="collinear covariates: x0, x5"):
        atm.NormalLinear().fit(twice, y)


def test_what_the_levels_explain_is_named() -> None:
    data = rows(2000, 120)
    data["beds"] = data.hospital.str[1:].astype(float) ** 2
    with pytest.raises(IdentificationError, match="constant within every level of hospital: beds"):
        atm.NormalLinear.from_formula("y ~ age + beds + hospital", data)
    data["both"] = data.age + data.beds
    with pytest.raises(IdentificationError, match="collinear covariates: age, both"):
        atm.NormalLinear.from_formula("y ~ age + both + hospital", data)
    data["one"] = 1.0
    with pytest.raises(IdentificationError, match="constant covariates: one"):
        atm.NormalLinear.from_formula("y ~ age + one + hospital", data)
    first = (data.hospital == "h00003").to_numpy()
    weighted = atm.NormalLinear.from_formula("y ~ age + hospital", data, sample_weight=np.where(first, 0.0, 1.0))
    assert "hospital[T.h00003]" not in weighted.coef_names_  # as without its rows
    np.testing.assert_allclose(
        weighted.coef_, atm.NormalLinear.from_formula("y ~ age + hospital", data[~first]).coef_, rtol=1e-9
    )
    dummies = sp.csr_matrix(pd.get_dummies(data.hospital).to_numpy(float))
    with pytest.raises(IdentificationError, match="columns x0 to x119 add up to 1"):
        atm.NormalLinear().fit(dummies, data.y)


def test_separation_within_a_level_is_named() -> None:
    data = rows(3000, 120)
    data.loc[data.hospital == "h00007", "grade"] = 3
    with pytest.raises(SeparationError, match=r"all rows of hospital\[T.h00007\] are in the highest class"):
        atm.OrdinalRegression.from_formula("grade ~ age + hospital", data)
    data.loc[data.hospital == "h00000", "visits"] = 0
    with pytest.raises(SeparationError, match=r"all rows of hospital, h00000 are 0"):
        atm.CountRegression.from_formula("visits ~ age + hospital", data)
    data.loc[data.hospital < "h00020", "event"] = 0
    with pytest.raises(SeparationError, match=r"and 12 more levels are right-censored"):
        atm.ContinuousLogit.from_formula("Surv(time, event) ~ age + hospital", data)


def test_separation_by_another_covariate() -> None:
    data = rows(1000, 110)
    data["grade"] = (data.y > 0).astype(int)
    data["leak"] = data.grade + 0.1 * np.random.default_rng(0).uniform(size=1000)
    for name in data.hospital.unique():  # both classes in every level
        own = data.index[data.hospital == name][:2]
        if len(own) == 2:
            data.loc[own, "grade"] = [0, 1]
            data.loc[own, "leak"] = [0.0, 1.0]
    data = data[data.groupby("hospital").grade.transform("nunique") == 2]
    with pytest.raises(SeparationError, match="leak"):
        atm.OrdinalRegression.from_formula("grade ~ leak + hospital", data)


def test_new_rows_and_files(tmp_path) -> None:
    data = rows(3000, 150)
    model = atm.ContinuousLogit.from_formula(f"y ~ {RIGHT} + C(code) | site", data, xi=1.0, order=3)
    with pytest.raises(InputError, match=r"not seen: zz \(3 rows, first at row 0\); known: h00000.*\(150 in all\)"):
        model.predict(data[:3].assign(hospital="zz"))
    loaded = atm.load(atm.save(model, tmp_path / "wide.json"))
    for same in (loaded, pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(same.nll(data), model.nll(data))
        np.testing.assert_array_equal(same.predict(data[:9]), model.predict(data[:9]))
    assert str(loaded.summary()) == str(model.summary())


def test_large_factors_load_quickly(tmp_path) -> None:
    data = rows(60_000, 20_000)
    model = atm.NormalLinear.from_formula("y ~ age + hospital", data)
    path = atm.save(model, tmp_path / "wide.json")
    start = time.perf_counter()
    loaded = atm.load(path)
    assert time.perf_counter() - start < 5.0
    np.testing.assert_array_equal(loaded.predict(data[:9]), model.predict(data[:9]))


def test_errors_of_thousands_of_coefficients() -> None:
    data = rows(20_000, 4000)
    model = atm.NormalLinear.from_formula("y ~ age + hospital", data)
    errors = model.standard_errors()
    # the textbook's: sigma^2 (X'X)^-1 in units of sigma, and what the estimate of sigma adds
    count = data.groupby("hospital").size().to_numpy()
    within = data.age - data.groupby("hospital").age.transform("mean")
    mean = data.groupby("hospital").age.mean().to_numpy()
    plain = 1 / count[1:] + 1 / count[0] + (mean[1:] - mean[0]) ** 2 / (within**2).sum()
    np.testing.assert_allclose(errors[1:] ** 2, plain + model.coef_[1:] ** 2 / (2 * 20_000), rtol=1e-6)
    table = model.intervals()
    assert list(table.index) == model.coef_names_
    text = str(model.summary())
    assert len(text.splitlines()) < 50
    assert "... and 3979 more of hospital: frame() has them all" in text
    assert len(model.summary().frame()) == 4000
    assert "more of hospital" in model._repr_html_()
    with pytest.raises(InputError, match="matrix of 4002 by 4002"):
        model.covariance()
    with pytest.raises(InputError, match="n_bootstrap can only be used with"):
        model.standard_errors(n_bootstrap=3)
    with pytest.raises(InputError, match="too many"):
        model.standard_errors("sandwich")


def test_what_needs_all_columns_has_them_where_they_are_few(monkeypatch) -> None:
    data = rows(2000, 120, sites=3)
    text = "y ~ age + bmi + hospital | site"
    wide, dense = both(atm.NormalLinear, text, data, monkeypatch, xi=5.0)
    np.testing.assert_allclose(wide.standard_errors(), dense.standard_errors(), rtol=1e-6)
    for xi in (-0.5, np.inf):
        wide, dense = both(atm.NormalLinear, text, data, monkeypatch, xi=xi)
        np.testing.assert_allclose(wide.coef_, dense.coef_, atol=1e-9)
    wide_at_inf = wide
    wide, dense = both(atm.ContinuousLogit, text, data, monkeypatch, order=3)
    bands = [model.confidence_band(data[:2], [0.0, 1.0]).lower for model in (wide, dense)]
    np.testing.assert_allclose(*bands, atol=1e-7)
    formula = atm.Formula(text, data)
    assert isinstance(formula.X.matrix, WideMatrix)
    path = atm.anchor_path(atm.NormalLinear(), formula.X, formula.y, formula.anchors, [0.0, np.inf])
    np.testing.assert_allclose(path.coefs[1], wide_at_inf.coef_, atol=1e-9)
    linear = atm.LinearAnchorRegression(3.0).fit(formula.X, formula.y, anchors=formula.anchors)
    assert linear.coef_.size == 121
    left_out = atm.leave_one_environment_out(atm.NormalLinear(), formula.X, data.y, data.site, [0.0, 1.0])
    assert left_out.frame().converged.all()


def test_limits_are_said(monkeypatch) -> None:
    data = rows(3000, 1000)
    data["place"] = np.arange(3000) // 2
    monkeypatch.setattr("anchortm.engine.objective.build.MAX_CROSS", 10**6)
    monkeypatch.setattr("anchortm.inputs.design.MAX_DENSE", 10**5)
    with pytest.raises(InputError, match="their product may be"):
        atm.NormalLinear.from_formula("y ~ age + hospital | place", data, xi=1.0)
    with pytest.raises(InputError, match="as numbers, which is too many"):
        atm.NormalLinear.from_formula("y ~ age + hospital | site", data, xi=np.inf)


def test_factors_in_other_terms_are_columns() -> None:
    data = rows(2000, 120)
    assert isinstance(atm.Formula("y ~ age + hospital", data).X.matrix, WideMatrix)
    for right in ("hospital:age", "hospital + hospital:age", "C(hospital, contr.sum)"):
        assert isinstance(atm.Formula(f"y ~ {right}", data).X, pd.DataFrame)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "left"), [(atm.ContinuousLogit, "Surv(time, event)"), (atm.OrdinalRegression, "grade")]
)
def test_a_million_rows(cls, left) -> None:
    data = rows(1_000_000, 10_000, sites=100)
    start = time.perf_counter()
    model = cls.from_formula(f"{left} ~ {RIGHT} | site", data, xi=10.0)
    assert time.perf_counter() - start < 120.0
    assert model.converged_
    assert model.kkt_ <= 1e-8
    assert model.min_eigenvalue_ > 0.0
