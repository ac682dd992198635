"""Saved pipelines: the same to the last bit with every transformer that files know; others are refused by name."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import anchortm as atm
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, ModelFileError
from anchortm.saving import digest
from anchortm.saving.transformers import CLASSES

rng = np.random.default_rng(0)
N = 120
SITE = rng.integers(0, 4, N)
X = pd.DataFrame({"x": rng.normal(size=N) + SITE, "z": rng.exponential(size=N)})
Y = (X.x + rng.normal(size=N)).to_numpy()
MIXED = X.assign(word=rng.choice(["a", "b", "é"], N), code=rng.integers(0, 3, N)).mask(
    pd.DataFrame({"x": np.arange(N) % 11 == 3, "z": False, "word": False, "code": False})
)
NUMBERS = make_pipeline(SimpleImputer(add_indicator=True, strategy="median"), StandardScaler())
FLOATS = make_column_selector(dtype_include=float)
TRANSFORMERS: dict[str, tuple[Any, pd.DataFrame]] = {
    "standard": (StandardScaler(), X),
    "min-max": (MinMaxScaler(), X),
    "largest": (MaxAbsScaler(), X),
    "robust": (RobustScaler(), X),
    "imputed": (SimpleImputer(strategy="mean"), MIXED[["x", "z"]]),
    "polynomial": (PolynomialFeatures(2, include_bias=False), X),
    "splines": (SplineTransformer(n_knots=4, include_bias=False), X),
    "power": (PowerTransformer(), X),
    "quantiles": (QuantileTransformer(n_quantiles=30, output_distribution="normal"), X),
    "bins": (KBinsDiscretizer(4, encode="ordinal"), X),
    "dummies of bins": (make_pipeline(KBinsDiscretizer(3, encode="onehot-dense"), PCA(3)), X),
    "nothing": (FunctionTransformer(), X),
    "rows of length 1": (Normalizer(), X),
    "signs": (Binarizer(threshold=1.0), X),
    "components": (PCA(2), X),
    "some": (VarianceThreshold(), X),
    "passthrough": ("passthrough", X),
    "words": (OneHotEncoder(drop="first"), MIXED[["word"]]),
    "rare words": (
        OneHotEncoder(drop="first", min_frequency=0.35, handle_unknown="infrequent_if_exist"),
        MIXED[["word", "code"]],
    ),
    "codes": (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), MIXED[["word", "code"]]),
    "columns": (ColumnTransformer([("n", NUMBERS, FLOATS), ("w", OneHotEncoder(drop="first"), ["word"])]), MIXED),
    "some columns": (ColumnTransformer([("n", "passthrough", slice(0, 2)), ("w", "drop", [2])]), X.assign(word="a")),
    "the others": (ColumnTransformer([("s", StandardScaler(), ["x"])], remainder="passthrough"), X),
    "union": (make_union(PCA(1), make_pipeline(PolynomialFeatures(2, include_bias=False), PCA(2))), X),
    "ours inside": (atm.make_pipeline(StandardScaler(), PCA(2)), X),
    "frames": (RobustScaler().set_output(transform="pandas"), X),
}


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_same_to_the_last_bit(name: str, tmp_path: Path) -> None:
    front, rows = TRANSFORMERS[name]
    pipeline = atm.make_pipeline(front, atm.ContinuousProbit(xi=1.0, order=3)).fit(rows, Y, anchors=SITE)
    again = atm.load(atm.save(pipeline, tmp_path / "p.json"))
    assert type(again) is atm.Pipeline
    new = rows[::-1].reset_index(drop=True)
    np.testing.assert_array_equal(again.predict_quantiles(new), pipeline.predict_quantiles(new))
    np.testing.assert_array_equal(again.nll(rows, Y), pipeline.nll(rows, Y))
    assert str(again.summary()) == str(pipeline.summary())
    np.testing.assert_array_equal(again.covariance(), pipeline.covariance())
    atm.save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "p.json").read_text()
    if name not in ("columns", "ours inside"):  # of a loaded pipeline, columns that a function chose have names
        assert repr(again) == repr(pipeline)
    refitted = sklearn.clone(again).fit(rows, Y, anchors=SITE)
    np.testing.assert_array_equal(refitted.predict(rows), pipeline.predict(rows))


def test_every_class_is_tried() -> None:
    text = json.dumps([str(front) for front, _ in TRANSFORMERS.values()])
    assert [name for name in CLASSES if name not in text] == ["MissingIndicator"]  # SimpleImputer makes it


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (atm.CoxPH(xi=1.0), atm.Surv(np.exp(Y), Y > -1.0)),
        (atm.AnchorGLM(xi=1.0, family="gaussian"), Y),
        (atm.OrdinalRegression(), np.digitize(Y, [0, 2])),
        (atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3), Y),
        (atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0], progress=False), Y),
        (atm.make_pipeline(PCA(2), atm.NormalLinear()), Y),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_model(model: Any, y: Any, tmp_path: Path) -> None:
    given = {} if isinstance(model, atm.Pipeline) else {"last__anchors": SITE}
    plain = sklearn.pipeline.Pipeline([("scale", StandardScaler()), ("last", model)]).fit(X, y, **given)
    again = atm.load(atm.save(plain, tmp_path / "p.json"))
    np.testing.assert_array_equal(again.predict(X), plain.predict(X))
    np.testing.assert_array_equal(again.nll(X, y), atm.Pipeline(plain.steps).nll(X, y))


@pytest.mark.parametrize(
    "last",
    [
        atm.NormalLinear(xi=1.0),
        atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=3),
        atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0], progress=False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_model_of_a_pipeline_keeps_its_transformers(last: Any, tmp_path: Path) -> None:
    """``model_`` takes rows before the transformers; a file or a copy without them would predict other numbers."""
    pipeline = atm.make_pipeline(SimpleImputer(), StandardScaler(), last)
    model = pipeline.fit(MIXED[["x", "z"]], Y, anchors=SITE).model_
    wanted = pipeline.predict(MIXED[["x", "z"]])
    again = atm.load(atm.save(model, tmp_path / "m.json"))
    assert [type(step) for _, step in again.steps] == [SimpleImputer, StandardScaler, type(model)]
    assert not hasattr(again[-1], "transformers_")
    pickled = pickle.loads(pickle.dumps(model))  # noqa: S301
    for copied in (again, again.model_, copy.copy(model), copy.deepcopy(model), pickled):
        np.testing.assert_array_equal(copied.predict(MIXED[["x", "z"]]), wanted)
    assert hasattr(model, "transformers_")  # what was passed is not changed
    with pytest.raises(sklearn.exceptions.NotFittedError):
        sklearn.clone(model).predict(X)


def test_a_model_that_is_fitted_again_is_saved_alone(tmp_path: Path) -> None:
    model = atm.make_pipeline(StandardScaler(), atm.NormalLinear()).fit(X, Y).model_.fit(X, Y)
    again = atm.load(atm.save(model, tmp_path / "m.json"))
    assert type(again) is atm.NormalLinear
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


class Doubled(StandardScaler):
    """A transformer that is not among those of scikit-learn, although it is made of one."""


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    for front, message in (
        (KNNImputer(), "KNNImputer cannot be saved, only .* StandardScaler.*: transform X before the pipeline, or use"),
        (Doubled(), "Doubled cannot be saved"),
        (FunctionTransformer(np.abs), "func of FunctionTransformer cannot be saved, because it is of type ufunc"),
        (make_pipeline(make_union(StandardScaler(), KNNImputer())), "KNNImputer cannot be saved"),
        (ColumnTransformer([("a", FunctionTransformer(abs), ["x"])]), "func of FunctionTransformer cannot be saved"),
    ):
        pipeline = atm.make_pipeline(front, atm.NormalLinear(l2=0.1)).fit(X, Y)
        with pytest.raises(InputTypeError, match=message):
            atm.save(pipeline, tmp_path / "p.json")
    dates = pd.DataFrame({"d": pd.to_datetime(["2024-01-01", "2025-01-01"] * (N // 2))})
    pipeline = atm.make_pipeline(OneHotEncoder(drop="first"), atm.NormalLinear()).fit(dates, Y)
    with pytest.raises(
        InputTypeError, match="categories_ of OneHotEncoder cannot be saved, because it holds values of"
    ):
        atm.save(pipeline, tmp_path / "p.json")
    with pytest.raises(sklearn.exceptions.NotFittedError):
        atm.save(atm.make_pipeline(StandardScaler(), atm.NormalLinear()), tmp_path / "p.json")
    other = sklearn.pipeline.make_pipeline(StandardScaler(), sklearn.linear_model.LinearRegression()).fit(X, Y)
    with pytest.raises(InputTypeError, match="a pipeline that ends in one, not LinearRegression"):
        atm.save(other, tmp_path / "p.json")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    front = ColumnTransformer([("n", make_pipeline(SimpleImputer(), PolynomialFeatures(2, include_bias=False)), ["x"])])
    pipeline = atm.Pipeline([("front", front), ("scale", StandardScaler()), ("model", atm.NormalLinear(xi=1.0))])
    file = atm.save(pipeline.fit(X, Y, anchors=SITE), tmp_path / "p.json")
    return json.loads(file.read_text())


def written(record: dict[str, Any], folder: Path) -> Path:
    """Return a file whose author knows how to compute the checksum."""
    record["sha256"] = digest(record)
    file = folder / "forged.json"
    file.write_text(json.dumps(record))
    return file


def scale(r: dict[str, Any]) -> dict[str, Any]:
    return r["transformers"][1]


FORGED = {
    "another class": (lambda r: scale(r).update({"class": "Popen"}), "a class that is not allowed"),
    "a path to a class": (lambda r: scale(r).update({"class": "os.system"}), "a class that is not allowed"),
    "a class that is none": (lambda r: scale(r).update({"class": ["StandardScaler"]}), "a class that is not allowed"),
    "a model as transformer": (lambda r: r["transformers"].__setitem__(1, r["model"]), "a transformer is invalid"),
    "an unknown argument": (lambda r: scale(r)["arguments"].update(func=1), "StandardScaler has no arguments func"),
    "threads": (lambda r: r["transformers"][0]["arguments"].update(n_jobs=64), "has no arguments n_jobs"),
    "a cache": (
        lambda r: scale(r).update({"class": "Pipeline", "arguments": {"steps": [], "memory": "/tmp"}}),  # noqa: S108
        "has no arguments memory",
    ),
    "a method": (lambda r: scale(r)["found"].update(transform="x"), "cannot have the fitted attribute 'transform'"),
    "a class attribute": (
        lambda r: scale(r)["found"].update(__class__="x"),
        "cannot have the fitted attribute '__class__'",
    ),
    "a field that is none": (lambda r: scale(r)["found"].update({"a b": 1}), "cannot have the fitted attribute 'a b'"),
    "too few means": (
        lambda r: scale(r)["found"].update(
            mean_={"array": {"kind": "float64", "shape": [0], "order": "C", "values": []}}
        ),
        "mean_ of StandardScaler does not match its 2 columns",
    ),
    "a mean that is none": (lambda r: scale(r)["found"].update(mean_=3.0), "mean_ of StandardScaler does not match"),
    "an array of another size": (
        lambda r: scale(r)["found"]["mean_"]["array"].update(shape=[10**9]),
        "does not have the size that it claims",
    ),
    "objects": (lambda r: scale(r)["found"]["mean_"]["array"].update(kind="O"), "an array has an invalid type"),
    "words as numbers": (lambda r: scale(r)["found"]["mean_"]["array"].update(values=["a", "b"]), "of another type"),
    "an unknown kind": (lambda r: scale(r)["found"].update(mean_={"eval": "1"}), "has an unknown kind"),
    "two kinds": (lambda r: scale(r)["found"].update(mean_={"tuple": [], "slice": []}), "a value .* is invalid"),
    "a huge degree": (
        lambda r: r["transformers"][0]["found"]["transformers_"][0]["tuple"][1]["transformer"]["arguments"]["steps"][1][
            "tuple"
        ][1]["transformer"]["found"].update(_max_degree=99_999),
        "the degree of PolynomialFeatures is invalid",
    ),
    "other columns": (
        lambda r: r["transformers"][0]["arguments"].update(verbose_feature_names_out=False),
        "do not make the columns of the model",
    ),
    "a step less": (lambda r: r["names"].pop(), "the steps of the pipeline are invalid"),
    "a name twice": (lambda r: r.update(names=["a", "a", "b"]), "the steps of the pipeline are invalid"),
    "no names": (lambda r: r.update(names=None), "the pipeline is invalid"),
    "no model": (lambda r: r.update(model=None), "the last step of the pipeline is invalid"),
    "no version": (lambda r: r.pop("scikit_learn"), "the pipeline is invalid"),
    "a broken model": (lambda r: r["model"].update(coef=[1.0]), "inconsistent|coefficients"),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_pipelines_are_refused(record, tmp_path: Path, what: str) -> None:
    change, message = FORGED[what]
    change(record)
    with pytest.raises(ModelFileError, match=message):
        atm.load(written(record, tmp_path))


def test_damage_is_noticed(record, tmp_path: Path) -> None:
    scale(record)["found"]["mean_"]["array"]["values"][0] += 1.0
    (tmp_path / "damaged.json").write_text(json.dumps(record))
    with pytest.raises(ModelFileError, match="changed or damaged"):
        atm.load(tmp_path / "damaged.json")


def test_another_scikit_learn_is_told(record, tmp_path: Path) -> None:
    record["scikit_learn"] = "0.99.1"
    with pytest.warns(AnchorTMWarning, match=r"saved with scikit-learn 0\.99\.1, and this is .*or fit it again"):
        atm.load(written(record, tmp_path))
    scale(record)["arguments"]["of_another_version"] = 1
    with pytest.raises(
        ModelFileError, match=r"no arguments of_another_version; the pipeline was saved with scikit-learn 0"
    ):
        atm.load(written(record, tmp_path))
    del scale(record)["arguments"]["of_another_version"]
    record["scikit_learn"] = ".".join([*sklearn.__version__.split(".")[:2], "99"])
    atm.load(written(record, tmp_path))  # a patch does not matter


def test_rows_that_do_not_fit_are_refused_after_loading(record, tmp_path: Path) -> None:
    again = atm.load(written(record, tmp_path))
    with pytest.raises(InputError, match="cannot transform X: columns are missing"):
        again.predict(X[["z"]])


def test_of_a_search_the_chosen_model_is_saved(tmp_path: Path) -> None:
    pipeline = atm.make_pipeline(StandardScaler(), atm.NormalLinear())
    grid = sklearn.model_selection.GridSearchCV(pipeline, {"normallinear__xi": [0.0, 1.0]}, cv=3)
    for search in (
        atm.XiSearchCV(pipeline, [0.0, 1.0], progress=False).fit(X, Y, anchors=SITE),
        atm.XiSearchCV(atm.NormalLinear(), [0.0, 1.0], progress=False).fit(X, Y, anchors=SITE),
        grid.fit(X, Y, anchors=SITE),
    ):
        again = atm.load(atm.save(search, tmp_path / "s.json"))
        assert type(again) is type(search.best_estimator_)
        np.testing.assert_array_equal(again.predict(X), search.predict(X))
    with pytest.raises(InputTypeError, match="not XiSearchCV"):
        atm.save(atm.XiSearchCV(atm.NormalLinear()), tmp_path / "s.json")


@pytest.mark.parametrize("encoder", [OneHotEncoder(drop="first"), OrdinalEncoder()])
def test_columns_with_different_numbers_of_levels(encoder: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(["u", "v"], 40), "b": rng.choice(["r", "s", "t"], 40)})
    pipeline = atm.make_pipeline(encoder, atm.NormalLinear()).fit(table, rng.normal(size=40))
    atm.save(pipeline, tmp_path / "model.json")
    np.testing.assert_array_equal(atm.load(tmp_path / "model.json").predict(table), pipeline.predict(table))
