"""Save models as JSON files with a version and a schema, and load them; nothing in a file is executed.

A file holds everything for predictions and a summary: arguments, parameters, certificate, covariance, and the state of
the formula or of the transformers. It does not hold the rows of the fit. ``load`` checks every field, including the
expressions of a formula, before it builds a model.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anchortm import __version__
from anchortm._util.files import read_bytes, write_whole
from anchortm._util.pipelines import is_pipeline, model_of
from anchortm._util.plain_values import check, lively
from anchortm.exceptions import AnchorTMError, InputError, InputTypeError, ModelFileError
from anchortm.inference.covariance import keep_standard_errors
from anchortm.models.base import TransformationModel
from anchortm.models.boosted.estimator import AnchorBoostedTM
from anchortm.models.pipeline import Pipeline, unfolded
from anchortm.models.worst_environment import WorstEnvironment
from anchortm.newplace.conformal import ConformalPredictor
from anchortm.saving.boosted import boosted_of, boosted_record
from anchortm.saving.conformal import CONFORMAL, conformal_of, conformal_record
from anchortm.saving.models import MODEL, fitted_of, model_record
from anchortm.saving.pipelines import PIPELINE, pipeline_of, pipeline_record
from anchortm.saving.worst import worst_of, worst_record

__all__ = ["load", "save"]

FORMAT, VERSION = "anchortm-model", 2
FIRST = 1  # the version of all models but recalibrated ones
MAX_BYTES = 64 * 2**20
MAX_VALUES = 4_000_000  # largest number of values (numbers, strings and lists) in a file


def save(
    model: TransformationModel | AnchorBoostedTM | Pipeline | ConformalPredictor, path: str | os.PathLike[str]
) -> Path:
    """Write a fitted model to a JSON file and return its path.

    The file is written completely or not at all. Standard errors are computed first if possible, so that
    ``summary()`` is the same after ``load``.

    Parameters
    ----------
    model : fitted model
        A model of this package, or a pipeline that ends in one behind standard transformers of scikit-learn. Of a
        search, the chosen model is saved. ``model_`` of a pipeline is saved as a pipeline. The rows of the fit
        are not saved. A ``ConformalPredictor`` is saved with its fits and the scores of rows that they have not seen.
    path : str or path
        File name that ends in ``.json``. An existing file is replaced. If ``path`` is a symbolic link, the file that
        it points to is replaced and the link stays. A folder, a device, a named pipe or a socket is never replaced:
        these raise ``InputError``.

    Returns
    -------
    Path

    See Also
    --------
    anchortm.load : reads the file

    Examples
    --------
    >>> import anchortm as atm, tempfile, os
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = atm.load(atm.save(model, os.path.join(folder, "wine.json")))
    >>> bool((same.predict_proba(data) == model.predict_proba(data)).all())
    True
    """
    if Path(path).suffix != ".json":
        raise InputError(f"the name of a model file must end in .json, not {path}")
    record = _record(model)
    text = json.dumps(record | {"sha256": digest(record)}, indent=1, allow_nan=False)
    if len(text) > MAX_BYTES or _n_values(text) > MAX_VALUES:
        if isinstance(model, ConformalPredictor):
            raise InputError(f"the scores of {model.calibration_.codes.size} rows are too many for a file: use pickle")
        raise InputError(f"the model has {model_of(model).coef_.size} coefficients, too many for a file: use pickle")
    return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _record(model: Any) -> dict[str, Any]:
    """Return the record of a fitted model, or of a pipeline that ends in one, for a file."""
    top = {"format": FORMAT, "version": FIRST, "written_by": f"anchortm {__version__}"}
    model = unfolded(getattr(model, "best_estimator_", model))  # the chosen model of a search
    if isinstance(model, ConformalPredictor):
        return top | conformal_record(model, _record)
    if is_pipeline(model):
        last = _record(model.steps[-1][1])
        return top | {"version": last["version"]} | pipeline_record(model, last)
    if not isinstance(model, (TransformationModel, AnchorBoostedTM)):
        raise InputTypeError(
            f"save needs a model of this package, or a pipeline that ends in one, not {type(model).__name__}"
        )
    check_is_fitted(model, "coef_")
    inner = model.model_ if isinstance(model, (AnchorBoostedTM, WorstEnvironment)) else model
    inner.specification().check()  # arguments may have been set since the fit, and load would refuse bad ones
    keep_standard_errors(inner)
    if inner.result_.recalibration is not None:  # earlier versions would leave it out of their predictions
        top["version"] = VERSION
    record = top | model_record(inner)
    for key, test in MODEL.items():
        if not test(record[key] if key == "formula" else lively(record[key])):
            raise InputError(f"the model cannot be saved: its {key} is too large for a file, or invalid")
    if isinstance(model, WorstEnvironment):
        return top | worst_record(model, record)
    return top | boosted_record(model, record) if isinstance(model, AnchorBoostedTM) else record


def digest(record: dict[str, Any]) -> str:
    """Return the checksum of a record; it detects damage, but not deliberate changes."""
    text = json.dumps({key: value for key, value in record.items() if key != "sha256"}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def load(path: str | os.PathLike[str]) -> Any:
    """Return the fitted model from a file that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    fitted model
        It predicts like the saved model. It does not have the rows of the fit. A pipeline is returned as a
        ``Pipeline`` of this package.

    Raises
    ------
    ModelFileError
        If the file is truncated, of another kind or version, larger than 64 MiB, inconsistent, or not a regular file
        (a folder, a device, a named pipe). Nothing in a file is ever executed.

    See Also
    --------
    anchortm.save : writes the file

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = atm.load(atm.save(model, os.path.join(folder, "wine.json")))
    >>> same.summary().frame().equals(model.summary().frame())
    True
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"load needs the path of a file written by save, not {path!r}")
    file = Path(path)
    try:
        text = read_bytes(file, MAX_BYTES).decode("utf-8")
    except InputError as error:
        raise ModelFileError(str(error)) from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{file} is not a model file: it is not text") from None
    if _n_values(text) > MAX_VALUES:
        raise ModelFileError(f"{file} is not a model file: it has more than {MAX_VALUES} values")
    try:
        record = json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)
    except (ValueError, RecursionError):
        raise ModelFileError(f"{file} is not a model file, or is truncated: it is not complete JSON") from None
    try:
        return _model(record)
    except ModelFileError as error:
        raise ModelFileError(f"{file}: {_short(error)}") from None
    except (AnchorTMError, ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise ModelFileError(f"{file} is inconsistent: {type(error).__name__}: {_short(error)}") from None
    except (RecursionError, MemoryError, np.linalg.LinAlgError) as error:
        raise ModelFileError(f"{file} is inconsistent: {type(error).__name__}") from None


def _n_values(text: str) -> int:
    """Return an upper limit of the number of values in a JSON text."""
    return sum(map(text.count, ",[{"))


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _whole(text: str) -> int:
    """Return a whole number; raise an error if it has too many digits."""
    if len(text) > 50:
        raise ValueError(text)
    return int(text)


def _short(value: Any, most: int = 300) -> str:
    """Return a text that is short enough for a message."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."


def _model(record: Any) -> Any:
    check(isinstance(record, dict) and record.get("format") == FORMAT, "this is not a model file of anchortm")
    version = record.get("version")
    check(
        version in range(FIRST, VERSION + 1),
        f"the file has version {_short(repr(version), 50)}, but this anchortm ({__version__}) reads "
        f"versions {FIRST} to {VERSION}: use the anchortm that wrote it, or a newer one",
    )
    check(record.get("sha256") == digest(record), "the file has been changed or damaged since it was written")
    return _made(record)


def _made(record: dict[str, Any]) -> Any:
    """Return the model or the pipeline of a record."""
    if record.get("class") == CONFORMAL:
        return conformal_of(record, _made)
    if record.get("class") == PIPELINE:
        return pipeline_of(record, _made)
    if record.get("class") == WorstEnvironment.__name__:
        return worst_of(record)
    if record.get("class") == AnchorBoostedTM.__name__:
        return boosted_of(record)
    model = fitted_of(record)
    decisive = model.result_.decisive
    own = decisive is None or (decisive.risk, decisive.share) == ("tail", getattr(model, "tail", 1.0))
    check(own, "the environments that decide do not match the parameters")
    return model
