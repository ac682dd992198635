"""Pickled models keep standard errors, summary and bands without the rows of the fit; copies keep the rows."""

import copy
import io
import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, UnavailableError

rng = np.random.default_rng(0)
N = 400
SITE = rng.integers(0, 12, N)
X = pd.DataFrame({"x": rng.normal(size=N) + 0.2 * SITE, "z": rng.exponential(size=N)})
LATENT = X.x.to_numpy() - 0.5 * X.z.to_numpy() + rng.logistic(size=N)
TIME = np.exp(LATENT / 3)
SURVIVAL = atm.Surv(np.minimum(TIME, 2.0), TIME < 2.0)
COUNTS = np.floor(np.exp(LATENT / 2)).astype(int)
CASES: dict[str, tuple[Any, Any]] = {
    "normal": (atm.NormalLinear, LATENT),
    "logit": (lambda xi: atm.ContinuousLogit(xi, order=3), LATENT),
    "hazards": (lambda xi: atm.ProportionalHazards(xi, order=3, log_first=True), SURVIVAL),
    "weibull": (atm.ParametricSurvival, SURVIVAL),
    "classes": (atm.OrdinalRegression, np.digitize(LATENT, [-1, 1])),
    "counts": (lambda xi: atm.CountRegression(xi, order=3), COUNTS),
    "Cox": (atm.CoxPH, SURVIVAL),
    "Poisson": (atm.AnchorGLM, COUNTS),
    "negative binomial": (lambda xi: atm.AnchorGLM(xi, family="negative_binomial"), COUNTS),
    "scale effects": (lambda xi: atm.ContinuousProbit(xi, order=3, scale=["x"]), LATENT),
    "varying": (lambda xi: atm.ContinuousLogit(xi, order=2, varying=["z"]), LATENT),
    "ridge": (lambda xi: atm.NormalLinear(xi, l2=0.1), LATENT),
}


def joblib_again(model: Any) -> Any:
    """Return the model after joblib has written and read it."""
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("xi", [0.0, 2.0])
@pytest.mark.parametrize("name", CASES)
def test_standard_errors_survive(name: str, xi: float, tmp_path) -> None:
    """Nobody has asked for them before the pickle is written; so they are in files."""
    make, y = CASES[name]
    ways = {
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),  # noqa: S301 - our own
        "joblib": joblib_again,
        "deepcopy": copy.deepcopy,
        "copy": copy.copy,
        "file": lambda model: atm.load(atm.save(model, tmp_path / "m.json")),
    }
    wanted = make(xi).fit(X, y, anchors=SITE)
    errors, text, covariance = wanted.standard_errors(), str(wanted.summary()), wanted.covariance()
    for way, sent in ways.items():
        same = sent(make(xi).fit(X, y, anchors=SITE))
        np.testing.assert_array_equal(same.standard_errors(), errors, way)
        np.testing.assert_array_equal(same.covariance(), covariance, way)
        pd.testing.assert_frame_equal(same.intervals(), wanted.intervals())
        assert str(same.summary()) == text
        if same.has_rows_:
            assert way in ("copy", "deepcopy")
            with_clusters = wanted.standard_errors(clusters=SITE)
            np.testing.assert_array_equal(same.standard_errors(clusters=SITE), with_clusters)
        else:
            with pytest.raises(InputError, match=r"needs the rows of the fit.*default kind are kept"):
                same.standard_errors(clusters=SITE)
            with pytest.raises(UnavailableError, match="needs the rows of the fit"):
                same.bootstrap(5)
        if name not in ("classes", "Cox"):
            bands = [m.confidence_band(X[:2], [1.0]).frame() for m in (same, wanted)]
            pd.testing.assert_frame_equal(*bands)


def test_bands_of_cox_models_need_the_rows() -> None:
    model = atm.CoxPH(1.0).fit(X, SURVIVAL, anchors=SITE)
    wanted = model.confidence_band(X[:2], [0.5], of="sf").frame()
    pd.testing.assert_frame_equal(copy.deepcopy(model).confidence_band(X[:2], [0.5], of="sf").frame(), wanted)
    with pytest.raises(UnavailableError, match="needs the rows of the fit"):
        pickle.loads(pickle.dumps(model)).confidence_band(X[:2], [0.5], of="sf")  # noqa: S301


def test_the_sandwich_is_kept_if_you_ask_for_it() -> None:
    model = atm.NormalLinear().fit(X, LATENT)
    errors = model.standard_errors("sandwich")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).standard_errors("sandwich"), errors)  # noqa: S301


def test_pickles_do_not_grow_with_the_rows() -> None:
    """The sizes differ by a few bytes of counts; a model of 20 times as many rows is no larger."""
    many = np.tile(np.arange(N), 20)
    for xi in (0.0, 2.0):
        small, large = (
            len(pickle.dumps(atm.ContinuousLogit(xi, order=3).fit(X.iloc[rows], LATENT[rows], anchors=SITE[rows])))
            for rows in (np.arange(N), many)
        )
        assert large < 1.2 * small < 20_000


def test_models_that_have_no_standard_errors_are_pickled() -> None:
    nothing = atm.NormalLinear(2.0).fit(X, LATENT, anchors=SITE)
    rows = X.to_numpy(copy=True)
    changed = atm.NormalLinear(2.0).fit(rows, LATENT, anchors=SITE)
    rows += 1.0  # in place, so that the influence of the rows is lost
    with pytest.warns(AnchorTMWarning, match="did not converge"):
        unfinished = atm.ContinuousLogit(2.0, max_iter=1).fit(X, LATENT, anchors=SITE)
    lasso = atm.NormalLinear(2.0, l1=0.1).fit(X, LATENT, anchors=SITE)
    for model in (clone(nothing), changed, unfinished, lasso):
        again = pickle.loads(pickle.dumps(model))  # noqa: S301
        assert again.get_params().keys() == model.get_params().keys()


def test_random_effects_are_pickled_without_warnings() -> None:
    """With few clusters, whoever asks for a sandwich is warned, but not whoever writes a pickle."""
    few = X.assign(cluster=SITE % 5)
    model = atm.NormalLinear(1.0, random="cluster").fit(few, LATENT, anchors=SITE)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    with pytest.warns(AnchorTMWarning, match="5 clusters"):
        wanted = atm.NormalLinear(1.0, random="cluster").fit(few, LATENT, anchors=SITE).standard_errors()
    np.testing.assert_array_equal(again.standard_errors(), wanted)


def test_copies_of_boosted_models_keep_the_rows() -> None:
    model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3).fit(X, LATENT, anchors=SITE)
    refits = copy.deepcopy(model).bootstrap(3, random_state=0, progress=False)
    wanted = model.bootstrap(3, random_state=0, progress=False)
    for one, other in zip(refits.models, wanted.models, strict=True):
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
    with pytest.raises(UnavailableError, match="needs the rows of the fit"):
        pickle.loads(pickle.dumps(model)).bootstrap(3)  # noqa: S301


def test_a_copy_of_a_model_is_independent() -> None:
    model = atm.NormalLinear(2.0).fit(X, LATENT, anchors=SITE)
    for made in (copy.copy(model), copy.deepcopy(model)):
        made.set_params(xi=0.0).fit(X[["x"]], LATENT)
        assert made.coef_.size == 1
        assert model.coef_.size == 2
    assert not hasattr(clone(model), "coef_")  # scikit-learn's clone is the model before its fit
