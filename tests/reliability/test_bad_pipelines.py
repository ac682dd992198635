"""What bad input to pipelines gets: an error of ours that names the step or the culprit, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import anchortm as atm
from anchortm.exceptions import AnchorTMError, IdentificationError, InputError, InputTypeError

N = 100
rng = np.random.default_rng(0)
SITE = rng.integers(0, 4, N).astype(str)
X = pd.DataFrame({"age": rng.normal(size=N), "dose": rng.normal(size=N), "sex": rng.choice(["f", "m"], N)})
Y = X.age.to_numpy() + rng.normal(size=N)
FRONT = ColumnTransformer(
    [("n", StandardScaler(), ["age", "dose"]), ("w", OneHotEncoder(drop="first"), ["sex"])],
    verbose_feature_names_out=False,
)
FITTED = atm.make_pipeline(FRONT, atm.NormalLinear(xi=1.0)).fit(X, Y, anchors=SITE)
PLAIN = make_pipeline(FRONT, atm.NormalLinear())
OTHER = make_pipeline(FRONT, LinearRegression()).fit(X, Y)
HOLES = X.assign(dose=np.where(np.arange(N) == 7, np.nan, X.dose))
CANNOT = "ColumnTransformer of the pipeline cannot transform X"


def fit(X: Any = X, y: Any = Y, front: Any = FRONT, model: Any = None, **given: Any) -> Callable[[], Any]:
    """Return a call that fits a pipeline."""
    return lambda: atm.make_pipeline(front, atm.NormalLinear() if model is None else model).fit(X, y, **given)


CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "missing values": (fit(HOLES), InputError, "dose.*row 7; drop or impute such rows"),
    "missing outcomes": (fit(y=np.where(np.arange(N) == 7, np.nan, Y)), InputError, "row 7; drop or impute such rows"),
    "a constant column": (fit(X.assign(dose=1.0)), IdentificationError, "constant covariates: dose; leave them out"),
    "all dummies": (fit(front=make_pipeline(FRONT, OneHotEncoder())), IdentificationError, "covariates"),
    "no anchors": (fit(model=atm.NormalLinear(xi=1.0)), InputError, "anchors"),
    "anchors of another length": (fit(anchors=SITE[:5]), InputError, "anchors has 5 rows"),
    "weights below 0": (fit(sample_weight=-np.ones(N)), InputError, "negative"),
    "a column less": (lambda: FITTED.predict(X[["age", "sex"]]), InputError, f"{CANNOT}: columns are missing.*dose"),
    "words for numbers": (lambda: FITTED.nll(X.assign(age="a"), Y), InputError, f"{CANNOT}: could not convert string"),
    "an unseen level": (lambda: FITTED.predict_quantiles(X.assign(sex="x")), InputError, f"{CANNOT}: .*unknown categ"),
    "missing values in new rows": (
        lambda: FITTED.predict(HOLES),
        InputError,
        "in dose, first at row 7; drop or impute",
    ),
    "an array": (lambda: FITTED.predict(X.to_numpy()[:, :2]), InputError, CANNOT),
    "no rows": (
        lambda: FITTED.nll(None, Y),
        InputError,
        "X is None: pass the rows, which the pipeline transforms first",
    ),
    "outcomes of another length": (lambda: FITTED.nll(X, Y[:3]), InputError, "X has 100 rows, but y has 3"),
    "a probability above 1": (
        lambda: FITTED.predict_quantiles(X, [0.5, 1.5]),
        InputError,
        r"must lie in \[0, 1\], not 1.5",
    ),
    "a word as probability": (lambda: FITTED.predict_quantiles(X, "half"), InputTypeError, "number"),
    "a table without columns": (lambda: atm.predict_table(FITTED, X.to_numpy()), InputError, "named columns"),
    "a table with a column less": (lambda: atm.predict_table(FITTED, X[["age"]]), InputError, f"{CANNOT}: columns are"),
    "unknown levels read as others": (
        lambda: FITTED.predict_distribution(X.assign(sex="x"), unknown="rare"),
        InputError,
        'unknown="rare" is for levels that a formula reads.*set handle_unknown of the encoder',
    ),
    "unknown levels of a table": (
        lambda: atm.predict_table(FITTED, X, unknown="baseline", on_bad_rows="mark"),
        InputError,
        'unknown="baseline" is for levels that a formula reads',
    ),
    "a path": (lambda: atm.anchor_path(PLAIN, X, Y, SITE), InputTypeError, "not a Pipeline: transform X first"),
    "a formula": (
        lambda: atm.leave_one_environment_out(PLAIN, "y ~ age", X),
        InputTypeError,
        "takes X and y, not a formula",
    ),
    "no environments": (lambda: atm.leave_one_environment_out(PLAIN, X, Y), InputError, "pass the environments"),
    "a negative xi": (
        lambda: atm.leave_one_environment_out(PLAIN, X, Y, SITE, [-3.0]),
        InputError,
        "xi must be at least -0.5, not -3.0",
    ),
    "holes in a fold": (
        lambda: atm.leave_one_environment_out(PLAIN, HOLES, Y, SITE, [0.0]),
        InputError,
        "without environment .*dose",
    ),
    "a foreign model": (
        lambda: atm.XiSearchCV(OTHER).fit(X, Y, anchors=SITE),
        InputTypeError,
        "model must be an estimator of this package",
    ),
    "scores of a foreign model": (lambda: atm.save(OTHER, "p.json"), InputTypeError, "not LinearRegression"),
    "a function in a file": (
        lambda: atm.save(
            atm.make_pipeline(FunctionTransformer(np.abs), atm.NormalLinear()).fit(X[["age"]], Y), "p.json"
        ),
        InputTypeError,
        "func of FunctionTransformer cannot be saved",
    ),
    "a file of another name": (lambda: atm.save(FITTED, "p.pkl"), InputError, "must end in .json"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_refused_changes_nothing(name: str, tally, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, wanted, message = CALLS[name]
    held, rows = dict(vars(FITTED[-1])), X.copy()
    with pytest.raises(AnchorTMError, match=message) as caught:
        call()
    assert isinstance(caught.value, wanted)
    assert vars(FITTED[-1]) == held
    pd.testing.assert_frame_equal(X, rows)
    assert list(tmp_path.iterdir()) == []
    tally("bad input", "pipelines refused")


def test_a_fit_that_fails_leaves_the_model_as_it_was() -> None:
    pipeline = atm.make_pipeline(SimpleImputer(), atm.NormalLinear()).fit(X[["age"]], Y)
    before = pipeline[-1].coef_.copy()
    with pytest.raises(AnchorTMError):
        pipeline.fit(X[["age"]], np.full(N, np.nan))
    np.testing.assert_array_equal(pipeline[-1].coef_, before)
