"""Records of pipelines: their transformers, the model behind them, and the version of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import sklearn

from anchortm._messages import warn
from anchortm._util.pipelines import model_of
from anchortm._util.plain_values import check, is_text, list_of
from anchortm.exceptions import AnchorTMWarning
from anchortm.models.pipeline import Pipeline
from anchortm.saving.transformers import transformer_of, transformer_record

__all__ = ["PIPELINE", "pipeline_of", "pipeline_record"]

PIPELINE = Pipeline.__name__


def pipeline_record(pipeline: Any, model: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a pipeline for a file; ``model`` is the record of its last step."""
    return {
        "class": PIPELINE,
        "scikit_learn": sklearn.__version__,
        "names": [name for name, _ in pipeline.steps],
        "transformers": [transformer_record(step) for _, step in pipeline.steps[:-1]],
        "model": model,
    }


def pipeline_of(record: dict[str, Any], model: Callable[[dict[str, Any]], Any]) -> Pipeline:
    """Return the checked pipeline from a record; ``model`` makes its last step from a record."""
    names, records, version = record.get("names"), record.get("transformers"), record.get("scikit_learn")
    check(list_of(is_text)(names) and isinstance(records, list) and is_text(version), "the pipeline is invalid")
    assert isinstance(names, list) and isinstance(records, list)  # noqa: S101, PT018
    check(len(names) == len(records) + 1 and len(set(names)) == len(names), "the steps of the pipeline are invalid")
    check(isinstance(record.get("model"), dict), "the last step of the pipeline is invalid")
    if _minor(str(version)) != _minor(sklearn.__version__):
        warn(
            f"the transformers were saved by scikit-learn {str(version)[:20]}, and this is {sklearn.__version__}: they "
            "may work differently; compare a few predictions, or fit the pipeline again",
            AnchorTMWarning,
        )
    last = model(record["model"])
    pipeline = Pipeline(list(zip(names, [*map(transformer_of, records), last], strict=True)))
    _check_columns(pipeline)
    return pipeline


def _check_columns(pipeline: Pipeline) -> None:
    """Refuse transformers that make other columns than those of the model."""
    model, names = model_of(pipeline), None
    with suppress(AttributeError):  # transformers that do not name their columns
        for transformer in getattr(model, "transformers_", ()):
            names = transformer.get_feature_names_out(names)
        columns = list(getattr(model, "feature_names_in_", ()))
        fits = names is None or (len(names) == model.n_features_in_ and columns in ([], list(names)))
        check(fits, "the transformers do not make the columns of the model")


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
