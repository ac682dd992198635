"""The table of parts tells the truth: what it allows is fitted and answers, what it does not is refused.

Fits are judged by ``slow_loss``, the stated loss written without the library: its gradient is 0 at the fit.
"""

import runpy
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from parts_cases import OUTCOMES, SITES, Case, dummies, make, of_training, parameters, table
from paths import ROOT
from scipy import sparse, special, stats
from slow_loss import TINY, Stated, violations

import anchortm as atm
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError, OverIdentifiedError
from anchortm.federated import Coordinator, LocalSites, Policy, Site
from anchortm.inputs.parts import ENDS, ENGINES, NAMES, PARTS, QUESTIONS, REASONS, cells, refuse, why_not

script = runpy.run_path(str(ROOT / "scripts" / "parts_table.py"))
CELLS = list(cells())
XIS = (0.2, 1.0)

pytestmark = pytest.mark.filterwarnings("ignore::anchortm.exceptions.AnchorTMWarning")


@cache
def case_of(parts: frozenset[str], turn: int, anchor: str = "") -> Case:
    return make(parts - {"transformation", "memory", "batches", "sites", *QUESTIONS}, turn, anchor)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@cache
def written(wide: bool, folder: Path) -> Path:
    """Return a Parquet file with the rows of the table."""
    file = folder / f"{'wide' if wide else 'rows'}.parquet"
    table(wide).to_parquet(file)
    return file


def check_minimum(case: Case, model: Any) -> tuple[Stated, np.ndarray]:
    """Check a fit by the slow loss, and return that loss and the reported parameters."""
    stated, w = case.stated(model), of_training(case, model)
    assert model.converged_
    if "target" in case.parts:
        assert model.target_shift_ == pytest.approx(case.target_shift(stated, w), rel=1e-7)
    found = violations(stated, w)
    assert max(found.values()) < 1e-6, found
    none = "random" in case.parts and w[-1] < 1e-6  # a variance of zero is that of 1e-8
    assert model.loss_ == pytest.approx(stated.loss(w), rel=1e-8 if none else 1e-9)
    r, r_s = stated.penalties(w)
    assert model.penalty_ == pytest.approx(r, rel=1e-9, abs=1e-9)
    if "scale" in case.parts:
        assert model.penalty_scale_ == pytest.approx(r_s, rel=1e-9, abs=1e-9)
    if stated.family not in ("gaussian", "gamma"):  # there the log-likelihood is that of the estimated dispersion
        assert model.loglik_ == pytest.approx(stated.loglik(w), rel=1e-8 if none else 1e-9)
    return stated, w


def check_file(case: Case, model: Any, folder: Path) -> Any:
    """Check that a model from a file says what the model says, and return it."""
    loaded = atm.load(atm.save(model, folder / "model.json"))
    np.testing.assert_array_equal(loaded.nll(case.data), model.nll(case.data))
    np.testing.assert_array_equal(loaded.residuals(case.data), model.residuals(case.data))
    np.testing.assert_array_equal(parameters(case, loaded), parameters(case, model))
    return loaded


def close(got: Any, wanted: Any, rel: float = 1e-6) -> None:
    """Check numbers relative to the largest of them."""
    wanted = np.asarray(wanted, dtype=float)
    np.testing.assert_allclose(np.asarray(got, dtype=float), wanted, rtol=rel, atol=rel * np.abs(wanted).max())


def arguments(case: Case, source: Path | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what functions take beside a model: pieces of a table, or a formula and the file."""
    if source is not None:
        return (case.formula, source), dict(case.columns)
    pieces = case.pieces
    return (pieces["X"], pieces["y"], pieces["anchors"]), pieces["extra"]


def asked(case: Case, source: Path | None, **changes: Any) -> Any:
    """Return the model that goes with these arguments."""
    return case.bare(**changes) if source is None else case.model(**changes)


def rows_of(values: Any, keep: np.ndarray) -> Any:
    """Return some rows of a table, an outcome or columns."""
    return values.iloc[keep] if isinstance(values, pd.DataFrame | pd.Series) else values[keep]


def refit(case: Case, weights: np.ndarray | None = None, keep: np.ndarray | None = None, **changes: Any) -> Any:
    """Return a fit in memory, by itself: to some of the rows, or with other weights."""
    pieces = case.pieces
    keep = np.ones(len(case.data), dtype=bool) if keep is None else keep
    extra = dict(pieces["extra"])
    if weights is not None:
        extra["sample_weight"] = extra.get("sample_weight", 1.0) * weights
    if "wide" in case.parts:  # a matrix that has no rows to choose
        model = case.model(**changes)
        extra = {name: values[keep] for name, values in extra.items()}
        return type(model).from_formula(case.formula, case.data[keep], **extra, **model.get_params(deep=False))
    X, y, anchors = (rows_of(pieces[name], keep) for name in ("X", "y", "anchors"))
    extra = {name: values[keep] for name, values in extra.items()}
    return case.bare(**changes).fit(X, y, anchors=anchors, **extra)


@cache
def left_out_by_hand(case: Case) -> dict[tuple[str, float], float]:
    """Return the mean negative log-likelihood of each site, from fits without it, by the slow loss."""
    found = {}
    site = case.data[case.anchor].to_numpy()
    for name, xi in product(np.unique(site), XIS):
        model = refit(case, keep=site != name, xi=xi)
        there = case.stated(model).rows_of(site == name)
        found[name, xi] = -there.loglik(parameters(case, model)) / there.n
    return found


# questions: each is asked of a case, whose rows are in memory or in a file


def ask_path(case: Case, source: Path | None, folder: Path) -> None:
    (first, *rest), extra = arguments(case, source)
    path = atm.anchor_path(asked(case, source), first, *rest, xis=XIS, **extra)
    for xi, model in zip(XIS, path.models, strict=True):
        alone = case.fit(xi=xi)
        check_minimum(case, alone)
        assert model.converged_
        close(parameters(case, model), parameters(case, alone))


def ask_left_out(case: Case, source: Path | None, folder: Path) -> None:
    (first, *rest), extra = arguments(case, source)
    if case.known:
        rest, extra = [rest[0], case.data[case.anchor]], extra | {"anchors": rest[1]}
    found = atm.leave_one_environment_out(asked(case, source), first, *rest, xis=XIS, **extra).frame()
    by_hand = left_out_by_hand(case)
    assert len(found) == len(by_hand) == SITES * len(XIS)
    for row in found.itertuples():
        assert row.nll == pytest.approx(by_hand[row.environment, row.xi], rel=1e-6)


def ask_searches(case: Case, source: Path | None, folder: Path) -> None:
    model = case.model()
    found = atm.XiSearchCV(model, XIS, "worst", rule="smallest")
    places = {"environments": case.anchor} if case.known else {}
    found.fit(case.formula, case.data if source is None else source, **case.columns, **places)
    by_hand = left_out_by_hand(case)
    worst = {xi: max(nll for (_, at), nll in by_hand.items() if at == xi) for xi in XIS}
    best = min(worst, key=worst.__getitem__)
    assert found.best_xi_ == best
    close(found.results_.objective.loc[list(XIS)], list(worst.values()))
    close(parameters(case, found.best_estimator_), parameters(case, case.fit(xi=best)))


def ask_bootstrap(case: Case, source: Path | None, folder: Path) -> None:
    """Three sites can be drawn in ten ways: every draw is the fit with the weights of one of them."""
    model = case.fit(source)
    # none of these draws has one site only
    found = model.bootstrap(3, case.data[case.anchor] if case.known else None, random_state=2)
    site = case.data[case.anchor].to_numpy()
    ways = [c for c in product(range(SITES + 1), repeat=SITES) if sum(c) == SITES and max(c) < SITES]
    refits = []
    for counts in ways:
        times = np.select([site == name for name in np.unique(site)], counts).astype(float)
        # sites that are drawn twice have twice the share
        shares = {name: count for name, count in zip(np.unique(site), counts, strict=True) if count}
        own = {part: shares for part in ("environment_weights", "anchor_weights") if part in case.parts}
        refits.append(parameters(case, refit(case, weights=times, **own)))
        if "random" in case.parts:  # draws have variances
            refits[-1][-1] **= 2
    draws = [parameters(case, drawn) for drawn in found.models] if case.boosted else found.draws
    assert len(draws) == 3
    for draw in draws:
        distance = [np.abs(draw - w).max() for w in refits]
        assert min(distance) < 1e-5 * (1.0 + np.abs(draw).max())


def ask_score_test(case: Case, source: Path | None, folder: Path) -> None:
    (first, *rest), extra = arguments(case, source)
    found = atm.diagnostics.score_test(asked(case, source, xi=0.0), first, *rest, method="observed", **extra)
    model = case.fit(xi=0.0)
    assert "random" not in case.parts or (model.random_sd_ > 0.1).all()
    statistic, df = case.stated(model).score_statistic(parameters(case, model))
    assert found.df == df
    assert found.statistic == pytest.approx(statistic, rel=1e-5)


def ask_invariance(case: Case, source: Path | None, folder: Path) -> None:
    (first, *rest), extra = arguments(case, source)
    found = atm.invariance_test(asked(case, source), first, *rest, **extra)
    model = case.fit(xi=0.0)
    statistic, df = case.stated(model).covariance_measure(parameters(case, model))
    assert found.df == df
    assert found.statistic == pytest.approx(statistic, rel=1e-5)


def ask_sandwich(case: Case, source: Path | None, folder: Path) -> None:
    model = case.fit(source)
    stated, w = check_minimum(case, model)
    start, count = stated.sizes[0], stated.sizes[1] + stated.sizes[2]
    wanted = np.sqrt(np.diag(stated.sandwich(w)))[start : start + count]
    close(model.standard_errors("sandwich"), wanted, 1e-5)


def ask_bands(case: Case, source: Path | None, folder: Path) -> None:
    model = case.fit(source)
    stated, w = check_minimum(case, model)[0], parameters(case, model)
    two = case.data[:2]
    at = {"grade": [1.0, 2.0], "count": [1.0, 3.0], "yes": [0.0]}.get(case.outcome.left, [0.8, 1.5])
    # fits to resampled sites, where there is no covariance
    resampled = case.boosted or case.known or bool({"l1", "tail"} & case.parts)
    drawn = {"uncertainty": model.bootstrap(5, random_state=2)} if resampled else {}
    band, narrow = (model.confidence_band(two, at, "cdf", level=level, **drawn) for level in (0.95, 0.5))
    if "partial" in case.parts:
        rows, error = stated.X[:2], stats.norm.ppf(0.975) * stated.hazard_errors(w, stated.X[:2], at)
        h = np.array([[stated.log_hazard(w, x, y) for y in at] for x in rows])
        for side, wanted in (("estimate", h), ("lower", h - error), ("upper", h + error)):
            close(getattr(band, side), -np.expm1(-np.exp(wanted)), 1e-5)
        return
    covariance = None if drawn else stated.sandwich(w)
    for j, y in enumerate(at):
        end = np.full(2, y - 1.0 if case.outcome.left == "grade" else y)
        estimate, lower, upper = slow_band(stated.rows_of([0, 1]), w, covariance, end, drawn, case, two)
        close(band.estimate[:, j], estimate)
        close(band.lower[:, j], lower, 1e-5)
        close(band.upper[:, j], upper, 1e-5)
    wider = np.less_equal if drawn else np.less  # few draws have the same percentiles
    assert wider(band.lower, narrow.lower).all()
    assert wider(narrow.upper, band.upper).all()
    assert ((band.lower < band.estimate) & (band.estimate < band.upper)).all() or drawn


def slow_band(
    rows: Stated,
    w: np.ndarray,
    covariance: np.ndarray | None,
    y: np.ndarray,
    drawn: dict[str, Any],
    case: Case,
    data: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return P(Y <= y) and its 95 % limits, by the delta method on the scale of h or by percentiles of refits."""
    if drawn:
        refits = drawn["uncertainty"]
        if case.boosted:
            moved = [(parameters(case, m), np.asarray(m.predict_distribution(data).shift)) for m in refits.models]
        else:
            moved = [(draw, rows.offset) for draw in refits.draws]
        values = [slow_cdf(replace(rows, offset=offset), v, y) for v, offset in moved]
        lower, upper = np.quantile(values, [0.025, 0.975], axis=0, method="inverted_cdf")
        return slow_cdf(rows, w, y), lower, upper
    h, slope = slow_h(rows, w, y)
    error = stats.norm.ppf(0.975) * np.sqrt(np.einsum("ij,jk,ik->i", slope, covariance, slope))
    ends = np.sort([cdf(rows, h + sign * error, y) for sign in (-1.0, 1.0)], axis=0)
    return cdf(rows, h, y), ends[0], ends[1]


def slow_h(rows: Stated, w: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return h at y, or the predictor of a mean, and its derivatives: a basis is a sum of its parts."""

    def h(v: np.ndarray) -> np.ndarray:
        _, beta, gamma, tau = rows.split(v)
        eta = rows.X @ beta + rows.offset
        if rows.engine == "mean":
            return eta + v[0]
        gain = 1.0 if rows.Z is None else np.exp(rows.Z @ gamma / 2.0)
        value = gain * (rows.basis.rows(y) * rows._row_baselines(v)).sum(axis=1) + rows.sign * eta
        if not tau.size:
            return value
        # of new clusters: h of the average over their effects, here for intercepts and three links
        assert rows.link in ("cloglog", "logit", "probit")
        assert rows.slope is None
        if rows.link == "probit":  # a sum of normal variables is normal
            return value / np.sqrt(1.0 + (tau**2).sum())
        x = np.linspace(-9.0, 9.0, 401)
        weights = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
        spread = value[:, None] + np.sqrt((tau**2).sum()) * x
        if rows.link == "logit":
            below = (1.0 / (1.0 + np.exp(-spread))) @ weights
            return np.log(below) - np.log(1.0 - below)
        return np.log(-np.log(np.exp(-np.exp(spread)) @ weights))

    return h(w), np.column_stack([h(w + 1j * TINY * e).imag for e in np.eye(w.size)]) / TINY


def slow_cdf(rows: Stated, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    return cdf(rows, slow_h(rows, w, y)[0], y)


def cdf(rows: Stated, h: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return P(Y <= y) where h or the predictor of a mean has this value."""
    if rows.engine == "mean":
        law = {"poisson": stats.poisson(np.exp(h)), "binomial": stats.bernoulli(special.expit(h))}
        return law[rows.family].cdf(y)
    return {
        "probit": special.ndtr(h),
        "logit": special.expit(h),
        "cloglog": -np.expm1(-np.exp(h)),
        "loglog": np.exp(-np.exp(-h)),
    }[rows.link]


def ask_saving(case: Case, source: Path | None, folder: Path) -> None:
    model = case.fit(source)
    check_minimum(case, check_file(case, model, folder))


def ask_places(case: Case, source: Path | None, folder: Path) -> None:
    """Left-out sites by hand: likelihoods at shifts on a grid, whose average is largest at what the model reports."""
    model = case.fit(source)
    if case.known:
        pieces = case.pieces
        model = case.bare().fit(
            pieces["X"], pieces["y"], anchors=pieces["anchors"], environments=case.data[case.anchor]
        )
    found = model.place_variance_
    site, x = case.data[case.anchor].to_numpy(), np.linspace(-7.0, 7.0, 41)
    prior = -0.5 * x**2 - special.logsumexp(-0.5 * x**2)
    folds = []
    for name in np.unique(site):
        alone = refit(case, keep=site != name)
        folds.append(
            (alone, case.stated(alone).rows_of(site == name), parameters(case, alone), case.data[site == name])
        )

    def logs(alone: Any, there: Stated, w: np.ndarray, rows: pd.DataFrame, delta: float) -> np.ndarray:
        """Return the log-likelihood of each row where outcomes are moved up by this much on the scale of h."""
        if "partial" not in case.parts:
            return replace(there, offset=there.offset - there.sign * delta).rows(w).real
        curves, event = alone.baseline_hazard_, (there.lower == there.upper).astype(float)
        hazard = np.empty(event.size)
        for label in [None] if there.stratum is None else ["left", "right"]:
            own = curves if label is None else curves[curves.stratum == label]
            use = slice(None) if label is None else (rows.part == label).to_numpy()
            time, total = np.append(0.0, own.time), np.append(0.0, own["cumulative hazard"])
            hazard[use] = np.interp(there.lower[use], time, total)
            if there.entry is not None:
                hazard[use] -= np.interp(np.maximum(there.entry[use], 0.0), time, total)
        return -delta * event - hazard * np.exp(there.X @ w + there.offset - delta)

    @cache
    def both(sd: float) -> tuple[float, float]:
        joint = rowwise = 0.0
        for alone, there, w, rows in folds:
            table = np.array([logs(alone, there, w, rows, sd * own) for own in x])
            joint += special.logsumexp(table @ there.weights + prior)
            rowwise += np.average(special.logsumexp(table + prior[:, None], axis=0), weights=there.weights)
        return joint, rowwise

    for which, sd in enumerate((found.sd, found.rowwise)):
        at = both(sd)[which]
        for other in (0.97 * sd, 1.03 * sd) if sd > 0.0 else (0.02, 0.05):
            assert both(other)[which] <= at + 1e-9
        assert at >= both(1e-9)[which] - 1e-9


ASK = {
    "places": ask_places,
    "path": ask_path,
    "left_out": ask_left_out,
    "searches": ask_searches,
    "bootstrap": ask_bootstrap,
    "score_test": ask_score_test,
    "invariance": ask_invariance,
    "sandwich": ask_sandwich,
    "bands": ask_bands,
    "saving": ask_saving,
}


def at_sites(case: Case) -> Coordinator:
    """Return a coordinator of the rows of a case, whose sites have no rules."""
    named = {name: case.columns[name] for name in ("sample_weight", "offset") if name in case.columns}
    rules, varying = Policy(1, 1, 0.0, 0.0), case.model().get_params().get("varying")
    named |= {"ranges": dict(varying)} if isinstance(varying, dict) else {}
    sites = [Site(rows.reset_index(drop=True), str(name), rules) for name, rows in case.data.groupby(case.anchor)]
    return Coordinator(LocalSites(sites), {"formula": case.formula, **named}, masks=False)


def try_sites(case: Case, question: str | None, folder: Path) -> None:
    """Fit a combination to rows at sites, or ask a question of it, and check the answer."""
    asked = at_sites(case)
    if question == "path":
        for xi, model in zip(XIS, asked.path(case.model(), XIS).models, strict=True):
            close(parameters(case, model), parameters(case, case.fit(xi=xi)))
        return
    if question == "left_out":
        by_hand = left_out_by_hand(case)
        for row in asked.leave_one_site_out(case.model(), XIS).frame().itertuples():
            assert row.nll == pytest.approx(by_hand[row.environment, row.xi], rel=1e-6)
        return
    model = asked.fit(case.model())
    check_minimum(case, model)
    own = case.fit()
    close(parameters(case, model), parameters(case, own))
    check_file(case, model, folder)
    if question == "sandwich":
        close(model.standard_errors("sandwich"), own.standard_errors("sandwich"), 1e-9)
    if question == "bands":
        at = {"grade": [1.0, 2.0], "count": [1.0, 3.0]}.get(case.outcome.left, [0.8, 1.5])
        band, wanted = (one.confidence_band(case.data[:2], at, "cdf") for one in (model, own))
        close(band.lower, wanted.lower, 1e-9)
        close(band.upper, wanted.upper, 1e-9)
    if question is not None and why_not("sites", question):
        ASK_AT_SITES[question](model)


ASK_AT_SITES = {
    "bootstrap": lambda model: model.bootstrap(3),
    "searches": lambda model: atm.XiSearchCV(model).fit(None, None),
    "score_test": lambda model: atm.diagnostics.score_test(model, None, None),
    "invariance": lambda model: atm.invariance_test(model, None, None, None),
    "places": lambda model: model.place_variance_,
}


def try_cell(cell: tuple[str, str], folder: Path, tmp_path: Path) -> None:
    """Fit a combination, or ask a question of it, and check the answer."""
    question = next((part for part in cell if part in QUESTIONS), None)
    parts = frozenset(cell)
    # environments that are drawn again, and sites, contain whole clusters
    anchor = "home" if parts in ({"random", "bootstrap"}, {"random", "sites"}) else ""
    case = case_of(parts, CELLS.index(cell), anchor)
    if "sites" in parts:
        try_sites(case, question, tmp_path)
        return
    source = written("wide" in parts, folder) if "batches" in parts else None
    if question is not None:
        ASK[question](case, source, tmp_path)
        return
    model = case.fit(source)
    check_minimum(case, model)
    check_file(case, model, tmp_path)
    if source is not None:
        close(parameters(case, model), parameters(case, case.fit()), 1e-8)


COSTLY = {(part, question) for part in ("random", "wide", "partial") for question in ("sandwich", "bands")}
COSTLY |= {(part, "places") for part in ("varying", "l1", "l2", "smooth", "wide", "transformation", "memory")}


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=pytest.mark.slow if cell in COSTLY else ()) for cell in CELLS],
    ids=" and ".join,
)
def test_every_pair_works_or_is_refused_as_the_table_says(cell: tuple[str, str], folder: Path, tmp_path: Path) -> None:
    reason = why_not(*cell)
    if reason is None:
        try_cell(cell, folder, tmp_path)
        return
    with pytest.raises(AnchorTMError) as refused:
        try_cell(cell, folder, tmp_path)
    assert isinstance(refused.value, InputError | InputTypeError)
    if "sites" in cell and cell[1] in QUESTIONS:  # the fitted model has no rows, as one that was loaded from a file
        return
    assert cell == ("wide", "sites") or reason in str(refused.value)
    if cell not in (("wide", "batches"), ("wide", "sites")):  # these messages name the column
        assert all(NAMES[part] in str(refused.value) for part in cell)


BATCH_QUESTIONS = ("path", "left_out", "bootstrap", "searches", "score_test")
IN_BATCHES = list(product(("strata", "varying", "scale", "l1", "smooth", "wide"), BATCH_QUESTIONS))


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=() if pair[1] == "left_out" or pair[0] == "strata" else pytest.mark.slow)
        for pair in IN_BATCHES
    ],
    ids=" and ".join,
)
def test_questions_about_parts_in_batches(pair: tuple[str, str], folder: Path, tmp_path: Path) -> None:
    """Rows are read from a file, and answers are those of fits in memory."""
    part, question = pair
    reasons = [why_not(part, question), why_not(part, "batches"), why_not(question, "batches")]
    case, source = case_of(frozenset({part}), IN_BATCHES.index(pair)), written(part == "wide", folder)
    if not any(reasons):
        ASK[question](case, source, tmp_path)
        return
    with pytest.raises((InputError, InputTypeError)) as refused:
        ASK[question](case, source, tmp_path)
    assert any(reason in str(refused.value) for reason in reasons if reason is not None)


@pytest.mark.slow
@pytest.mark.parametrize("first", [*PARTS, *ENGINES], ids=str)
def test_every_three_parts_have_their_minimum(first: str) -> None:
    """Three parts, engines or ends of which the table allows every pair; about 220 fits."""
    pool = [*PARTS, *ENGINES, *ENDS]
    tried = 0
    for turn, parts in enumerate(combinations(pool, 3)):
        if parts[0] != first or parts in UNLIKE or sum(part in ENGINES for part in parts) > 1:
            continue
        if any(why_not(*pair) for pair in combinations(parts, 2)):
            continue
        case = make(set(parts), turn)
        check_minimum(case, case.fit())
        tried += 1
    assert tried or first in ("wide", "target", "proxies", "boosting", *ENGINES)


UNLIKE = {
    ("tail", "partial", "infinite"): "two coefficients cannot make the residuals of three sites 0",
    ("weights", "partial", "infinite"): "these data have no limit",
    ("random", "wide", "mean"): "counts are zero at some levels, and random effects need a family without dispersion",
} | {
    triple: "three sites over-identify the model at xi = inf, with and without weights"
    for part in ("environment_weights", "anchor_weights")
    for triple in (("scale", part, "infinite"), ("random", part, "infinite"), (part, "partial", "infinite"))
}


def test_the_page_has_the_table() -> None:
    """If this fails, run scripts/parts_table.py."""
    text = script["PAGE"].read_text()
    assert script["page"](text) == text


def test_the_table_is_complete() -> None:
    assert all(len(pair) == 2 and pair <= set(NAMES) for pair in REASONS)
    assert len(CELLS) == len({frozenset(cell) for cell in CELLS})
    refuse("strata", "varying", "l1", "transformation")
    with pytest.raises(InputTypeError, match="CoxPH"):
        refuse("partial", "batches")


@pytest.mark.parametrize("part", ["strata", "varying", "scale"])
def test_xi_below_0_names_the_part_that_does_not_go_with_it(part: str) -> None:
    """The solver used to say that this needs NormalLinear with exact rows, which it was."""
    with pytest.raises(InputError, match=f"{NAMES[part]}|xi must be at least 0 with scale effects"):
        make({part}, outcome="normal").fit(xi=-0.2)


# what must not change a fit, for combinations of two and more parts

COMBINED = [
    *(("scale", part) for part in ("strata", "varying", "l1", "l2", "smooth")),
    *(("random", part) for part in ("strata", "l1", "l2", "smooth")),
    *product(("strata", "varying"), ("l1", "l2", "smooth")),
    *(("boosting", part) for part in ("strata", "offset")),
    *(("mean", part) for part in ("random", "smooth")),
    *(("wide", part) for part in ("strata", "l1", "l2")),
    ("partial", "strata", "l1", "l2", "smooth"),
]
combined = pytest.mark.parametrize("parts", COMBINED, ids=" and ".join)
crossed_too = pytest.mark.parametrize("parts", [*COMBINED, ("random", "crossed")], ids=" and ".join)


def together(parts: tuple[str, ...]) -> Case:
    """Return the model of these parts, none of which is refused."""
    assert not any(why_not(a, b) for a, b in combinations(parts, 2))
    outcome = "" if {"mean", "partial", "wide"} & set(parts) else ("normal", "weibull")[len("".join(parts)) % 2]
    return make(set(parts), outcome=outcome)


@crossed_too
def test_the_order_of_rows_does_not_matter(parts: tuple[str, ...]) -> None:
    case = together(parts)
    other = replace(case, data=case.data.sample(frac=1.0, random_state=1).reset_index(drop=True))
    one, two = case.fit(), other.fit()
    assert two.loss_ == pytest.approx(one.loss_, rel=1e-9)
    close(parameters(other, two), parameters(case, one))
    close(two.nll(other.data).sum(), one.nll(case.data).sum())


@combined
def test_weights_replicate_rows(parts: tuple[str, ...]) -> None:
    """Rows of a cluster are replicated together: each copy is a cluster of its own."""
    plain = together(parts)
    # Efron's formula takes two copies as a tie, and the smallest leaf is a number of rows
    options = {"ties": "breslow"} if "partial" in parts else {"min_samples_leaf": 1} if plain.boosted else {}
    index = np.repeat(np.arange(len(plain.data)), plain.data.w.astype(int))
    copied = plain.data.iloc[index].reset_index(drop=True)
    copied["person"] += 1000 * copied.groupby(["person", "x"]).cumcount()
    if "smooth" in parts:  # curves are centred by the rows of a table, without weights: here both have the same
        one, X = refit(plain, weights=plain.data.w.to_numpy(), **options), plain.pieces["X"].iloc[index]
        if "person" in X:
            X = X.assign(person=copied.person.to_numpy())
        y, anchors = (rows_of(plain.pieces[name], index) for name in ("y", "anchors"))
        two, new = plain.bare(**options).fit(X, y, anchors=anchors), (plain.pieces["X"], plain.pieces["y"])
    else:
        one = replace(plain, parts=plain.parts | {"weights"}).fit(**options)
        two, new = replace(plain, data=copied).fit(**options), (plain.data,)
    assert two.loss_ == pytest.approx(one.loss_, rel=1e-9)
    close(two.nll(*new), one.nll(*new))


@crossed_too
def test_units_do_not_matter(parts: tuple[str, ...]) -> None:
    case = together(parts)
    data = case.data.copy()
    for name in ("y", "time", "entry"):
        data[name] *= 60.0
    for name in ("a",) if {"l1", "l2"} & set(parts) else ("a", "v", "x"):  # a net is about coefficients as they are
        data[name] *= 1000.0
    one, two = case.fit(), replace(case, data=data).fit()
    more = pd.Series(np.zeros(len(data)))  # densities have the unit 1/y
    if case.outcome.model in (atm.NormalLinear, atm.ParametricSurvival):
        more[(case.outcome.left == "y") | (data.event == 1)] = np.log(60.0)
    if "crossed" in parts:  # and here of all rows that are connected
        more[:] = more.mean()
    elif "random" in parts:  # rows have equal shares of their cluster
        more = more.groupby(data.person).transform("mean")
    close(two.nll(data), one.nll(case.data) + more)


def test_a_partial_likelihood_without_a_limit_says_so() -> None:
    """The derivatives of a step far out overflowed, and NumPy's LinAlgError was all that users saw."""
    case = make({"partial", "weights", "infinite"})
    penalties = [case.fit(xi=xi).penalty_ for xi in (1e5, 1e6)]
    assert penalties[1] == pytest.approx(penalties[0], rel=1e-3)  # it does not vanish
    with pytest.raises(OverIdentifiedError):
        case.fit()


@pytest.mark.parametrize("options", [{"l1": 0.02}, {"l2": 0.02}, {"scale": [0]}, {"varying": [1]}], ids=str)
def test_sparse_covariates_give_the_fit_of_dense_ones(options: dict[str, Any]) -> None:
    data = table(wide=True)
    X = np.column_stack([data.x, data.z, dummies(data.code)[:, 1:]])
    dense, thin = (
        atm.NormalLinear(0.5, tol=1e-10, **options).fit(matrix, data.y, anchors=data.site)
        for matrix in (X, sparse.csr_array(X))
    )
    assert thin.loss_ == pytest.approx(dense.loss_, rel=1e-10)
    close(np.r_[thin.baseline_, thin.coef_], np.r_[dense.baseline_, dense.coef_], 1e-8)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_its_minimum(outcome: str) -> None:
    """Links, bases, kinds of censoring, ties and families, with an offset and weights."""
    engine = OUTCOMES[outcome].slow.get("engine", "transformation")
    case = make({engine, "offset", "weights"}, outcome=outcome)
    check_minimum(case, case.fit())


@pytest.mark.parametrize(
    ("more", "outcome"), [*product(["slope", "crossed"], ["normal", "poisson"]), ("crossed", "ordinal")]
)
def test_random_slopes_and_crossed_intercepts_have_their_minimum(more: str, outcome: str) -> None:
    """Slopes by one fixed grid of nodes, crossed intercepts by a dense Laplace approximation."""
    case = make({"random", more} | ({"mean"} if outcome == "poisson" else set()), outcome=outcome)
    check_minimum(case, case.fit())


@pytest.mark.parametrize("parts", [("scale", "strata"), ("random", "l1"), ("partial", "smooth"), ("l2", "infinite")])
def test_the_slow_loss_sees_a_wrong_number(parts: tuple[str, ...]) -> None:
    case = make(set(parts))
    model = case.fit()
    stated, w = check_minimum(case, model)
    for j in np.flatnonzero(w):
        wrong = w.copy()
        wrong[j] += 1e-4 * (1.0 + abs(w[j]))
        assert max(violations(stated, wrong).values()) > 1e-6
