"""Leave one environment out: how well a model predicts an environment that it was not fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anchortm._typing import AnyTable, Covariates, Labels, Numbers, Outcome
from anchortm._util.checks import is_missing
from anchortm._util.frames import column_names, native, select
from anchortm._util.pipelines import model_of
from anchortm.inputs.missing import Missing, rows_taken
from anchortm.models.base import TransformationModel, check_model
from anchortm.models.given import given
from anchortm.models.pipeline import as_pipeline
from anchortm.selection.left_out_result import LeaveOneEnvironmentOut
from anchortm.selection.left_out_table import left_out
from anchortm.selection.path import XIS

if TYPE_CHECKING:
    from anchortm.models.boosted.estimator import AnchorBoostedTM

__all__ = ["leave_one_environment_out"]


def leave_one_environment_out(
    model: TransformationModel | AnchorBoostedTM,
    X: Covariates | str,
    y: Outcome | AnyTable,
    environments: Labels | None = None,
    xis: Sequence[float] = XIS,
    *,
    anchors: Labels | None = None,
    cut: int | None = None,
    sample_weight: Numbers | None = None,
    offset: Numbers | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> LeaveOneEnvironmentOut:
    """Return how well each environment is predicted by the model fitted to all the others.

    Parameters
    ----------
    model : estimator
        Any model of this package, or a pipeline that ends in one. It is not changed; its own xi is not used.
    X, y : covariates and outcome
        As for ``fit``; or a formula and a table, as for ``from_formula``:
        ``leave_one_environment_out(model, formula, data, xis=[0, 1, 10])``. The table may be one that is read in
        batches.
    environments : array, or column name of a table
        Groups to leave out in turn: integers, strings or categories. Floats need ``cut``. With a formula, by default
        its anchors.
    xis : sequence of float
        Strengths of the penalty.
    anchors : array, frame or list of columns, optional
        Anchors of the fits; by default the environments. A formula names its own.
    cut : int, optional
        Cut numeric environments at their quantiles into this many groups.
    sample_weight, offset : arrays, or column names of a table, optional
        As for ``fit``. Weights also count in the mean over left-out rows.
    n_jobs : int, optional
        Number of processes, which share the environments; -1 uses all cores. Inside
        ``joblib.parallel_config("dask")`` the workers of the current Dask client are used. For a table that is read
        in batches, the number of batches that are worked on at once.
    progress : bool, optional
        Whether to show a progress bar. By default only in a terminal or notebook.

    Returns
    -------
    LeaveOneEnvironmentOut

    See Also
    --------
    anchortm.selection.LeaveOneEnvironmentOut : the results, as a table or a plot
    anchortm.XiSearchCV : chooses xi by left-out environments

    Notes
    -----
    The support of the baseline, and everything else that depends on data, comes from the training rows. The one
    exception is the ranges of varying effects, which use all rows. With a formula, levels and knots of its terms come
    from the covariates of all rows. Each fit starts from the fit to all rows at the same xi.

    A column that the other environments do not identify is left out when an environment is predicted, and ``notes`` in
    the table of results says so. This happens to a level of a factor that only one environment has: without it, the
    column of the level is 0. The rows of this level are then predicted as if they had the reference level. If several
    columns are collinear without the environment, the last of them is left out. Columns that all rows together do not
    identify are an error.

    A class of an ordinal outcome, or a stratum with its own baseline, that only one environment has cannot be
    predicted: no other row says how likely it is. The environment's ``nll`` is then NaN, with a warning, and it does
    not count in the worst, the median and the mean. A mean over its other rows would describe an easier outcome, and
    the environment that differs most would look better than it is.

    Transformers of a pipeline are fitted again without each environment, for each xi. With ``missing="drop"``,
    left-out rows that have missing values behind the transformers do not count in ``n`` and ``nll``. Columns that the
    other environments do not identify are not left out of pipelines: a column that is constant without an environment
    is an error, unless the pipeline has a ``VarianceThreshold`` before the model.

    If the table is read in batches, all fits share each read of it. The result says in ``n_passes`` how often the
    table was read: about as often as for two or three fits, whatever the number of environments and of xi.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> formula = "rating ~ temp + contact | judge"
    >>> atm.leave_one_environment_out(atm.OrdinalRegression(), formula, data, xis=[0, 3, 10])
    LeaveOneEnvironmentOut(OrdinalRegression, 9 environments (judge), 3 values of xi)
           worst  median    mean  hardest  n   skill  regret      se
    xi
    0.0   1.6745  1.2534  1.3080        7  8  0.1981  0.0000  0.0000
    3.0   1.5574  1.3165  1.3248        7  8  0.1813  0.0168  0.0302
    10.0  1.5929  1.5250  1.5203        5  8 -0.0142  0.2123  0.0871

    From columns:

    >>> X = data[["temp", "contact"]] == ["warm", "yes"]
    >>> result = atm.leave_one_environment_out(atm.OrdinalRegression(), X, data.rating, data.judge, [0, 3, 10])
    >>> result.summary()["worst"].round(4).tolist()
    [1.6745, 1.5574, 1.5929]
    """
    model = as_pipeline(model)
    check_model(model_of(model), "left_out")
    rows = given(model, X, y, anchors, sample_weight=sample_weight, offset=offset, environments=environments)
    with rows.screened():
        found = left_out(rows, None, ("xi",), xis, cut, n_jobs, progress)
    values, name = environments, found.environment_name
    if rows.missing is not None and isinstance(X, str) and (values is None or isinstance(values, str)):
        values = select(y, [name])[name] if name in column_names(y) else None
    before = {} if rows.missing is None else _by_environment(rows.missing, values)
    missing = {} if cut is not None else dict(Counter(before) + Counter(found.missing))
    about = (type(model_of(model)).__name__, ("xi",), found.n_passes, found.n_missing, found.environment_name)
    return LeaveOneEnvironmentOut(found.rows, *about, missing, found.held)


def _by_environment(missing: Missing, environments: Any) -> dict[Any, int]:
    """Return how many rows of each environment were dropped because values are missing."""
    n = missing.counts.n_rows
    if environments is None or missing.rows is None:
        return {}
    gone = rows_taken("environments", native(environments), n, np.setdiff1d(np.arange(n), missing.rows))
    labels = np.asarray(gone, dtype=object).ravel()
    return dict(Counter(label for label in labels.tolist() if not is_missing(label)))
