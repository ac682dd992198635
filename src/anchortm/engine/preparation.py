"""Check the inputs of a user and prepare them for a fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from anchortm._messages import warn
from anchortm._util.checks import check_weights, finite_numbers
from anchortm._util.frames import aligned, is_frame, native
from anchortm.engine.data import Data, Strata, drop_empty_classes
from anchortm.engine.solve.identification import check_kinds, check_levels, covariate_ranges
from anchortm.engine.specification import Specification, named_columns
from anchortm.exceptions import IdentificationError, InputError, InputTypeError, rows_of
from anchortm.inputs import parts
from anchortm.inputs.anchors import anchor_columns, environment_names
from anchortm.inputs.baselines import cluster_labels, stratum_labels, varying_groups
from anchortm.inputs.clusters import make_clusters, named_effects
from anchortm.inputs.design import Design, WideMatrix, split_columns, to_design
from anchortm.inputs.missing import Missing, whole_inputs
from anchortm.inputs.response import as_response, sorted_words
from anchortm.inputs.two_terms import Intercepts, make_two_terms

__all__ = ["one_column", "prepare", "prepare_unchecked", "row_offset", "split_off"]

Array = NDArray[np.float64]
Labels = Sequence[Any] | None


def one_column(y: Any) -> Any:
    """Return y; a matrix with one column becomes a vector, with scikit-learn's warning."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning)
        return y.ravel()
    return y


def row_offset(offset: Any, n: int) -> Array | None:
    """Return the checked offset of n rows."""
    return None if offset is None else finite_numbers(offset, n, "offset")


def split_off(spec: Specification, X: Any) -> tuple[Any, Any, Labels, list[Any]]:
    """Return the covariates of X, its anchor columns if the specification names any, strata, and clusters by term."""
    anchors, strata = named_columns(spec.anchor_names, "anchor_names"), named_columns(spec.strata, "strata")
    cluster = spec.cluster
    if not anchors and not strata and not cluster:
        return X, None, None, []
    if len(set(strata)) < len(strata):
        raise InputError(f"strata names a column twice: {', '.join(map(str, strata))}")
    for what, others in (("anchors", anchors), ("clusters", cluster)):
        both = ", ".join(sorted({str(name) for name in others} & {str(name) for name in strata}))
        if both:
            raise InputError(
                f"{both} cannot be strata and {what} at once, because separate baselines absorb the differences "
                f"between {what}: leave one out"
            )
    named = split_columns(X, anchors)[1] if anchors else None
    labels = stratum_labels(split_columns(X, strata, "strata")[1]) if strata else None
    clusters = [cluster_labels(split_columns(X, [column], "random")[1]) for column in cluster]
    return split_columns(X, [*anchors, *strata, *cluster])[0], named, labels, clusters


def prepare(
    spec: Specification,
    X: Any,
    y: Any,
    anchors: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    environments: Any = None,
) -> Data:
    """Return the checked inputs, without rows of weight zero."""
    return _with_structure(spec, *_read(spec, X, y, anchors, sample_weight, offset, environments))


def prepare_unchecked(
    spec: Specification, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any, environments: Any = None
) -> Data:
    """Return the inputs for trees: all covariates are columns of numbers, which may be constant or collinear."""
    data, labels, _ = _read(spec, X, y, anchors, sample_weight, offset, environments)
    data = data.without_wide()
    baselines = labels is not None or varying_groups(spec.varying)
    return spec.with_baselines(data, labels) if baselines else data


def _read(
    spec: Specification, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any, environments: Any
) -> tuple[Data, Labels, list[Any]]:
    """Return the rows that are used, with outcomes checked, and the labels of their strata and clusters.

    Rows of weight zero are left out, and rows with missing values where the specification says so.
    """
    given = {"X": X, "y": y, "anchors": anchors, "sample_weight": sample_weight, "offset": offset}
    given |= {} if environments is None else {"environments": environments}
    index = aligned(**given)
    with (
        whole_inputs(spec, **given) as (whole, missing),
        rows_of(None if missing is None else missing.rows),
    ):
        data, labels, clusters = _read_whole(spec, **whole)
    return _recorded(data, missing, whole["y"] is not y)._replace(index=index), labels, clusters


def _recorded(data: Data, missing: Missing | None, here: bool) -> Data:
    """Return the data with the record of the rows that were dropped, ``here`` or before the rows came here."""
    size = len(data.response) if data.kept is None else data.kept.size
    if missing is None or missing.rows is None or missing.rows.size != size:
        return data
    used = missing if data.kept is None else missing.take(data.kept)
    if not here:
        return data._replace(missing=used)
    kept = np.zeros(missing.counts.n_rows, dtype=bool)
    kept[used.rows] = True
    return data._replace(missing=used, kept=kept)


def _read_whole(
    spec: Specification, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any, environments: Any = None
) -> tuple[Data, Labels, list[Any]]:
    """Return the inputs without rows of weight zero, with outcomes checked, and the labels of strata and clusters."""
    X, y = native(X), native(y)
    columns_given = _columns_given(X)
    if spec.anchor_names is not None and anchors is not None:
        raise InputError("pass anchors to fit, or anchor_names to the constructor, not both")
    X, anchors_named, labels, clusters = split_off(spec, X)
    spec.check_outcome(y)
    response = as_response(one_column(y), spec.outcome, spec.levels)
    if response.trials is not None and not spec.takes_trials:
        raise InputTypeError('Trials are for binomial models: use AnchorGLM(family="binomial")')
    n = len(response)
    given = anchors if anchors_named is None else anchors_named
    columns = None if given is None else anchor_columns(given)
    data = Data(
        response,
        to_design(X, n, wide=True),
        columns,
        check_weights(sample_weight, n),
        row_offset(offset, n),
        (),
        environments=None if environments is None else Strata(*environment_names(environments)),
    )
    _check_sizes(data, clusters)
    data = _without_weight_zero(data)
    data = _checked_outcomes(spec, data)
    alphabetical = spec.levels is None and sorted_words(y, data.response)
    named = tuple(columns_given) if data.design.named and columns_given is not None else None
    data = data._replace(columns_given=named, alphabetical=alphabetical)
    return data, _kept(data, labels), [_kept(data, own) for own in clusters]


def _columns_given(X: Any) -> list[Any] | None:
    """Return the names of the columns of X, if it has any."""
    if isinstance(X, Design):
        return [*X.names, *([] if X.labels is None else X.labels.columns)] if X.named else None
    return list(X.columns) if is_frame(X) else None


def _kept(data: Data, labels: Any) -> Any:
    """Return the labels of the rows with positive weight."""
    if labels is None or data.kept is None:
        return labels
    return labels[data.kept] if isinstance(labels, np.ndarray) else list(compress(labels, data.kept))


def _check_sizes(data: Data, clusters: list[Any]) -> None:
    n = len(data.response)
    sizes = {
        "X": data.design.matrix.shape[0],
        "anchors": n if data.anchors is None else len(data.anchors),
        "random": len(clusters[0]) if clusters else n,
        "environments": n if data.environments is None else data.environments.codes.size,
    }
    for name, size in sizes.items():
        if size != n:
            raise InputError(f"{name} has {size} rows, but y has {n}: pass the same rows of both")


def _without_weight_zero(data: Data) -> Data:
    weights = data.weights
    if weights is None or not (weights == 0.0).any():
        return data
    keep = weights > 0.0
    return data._replace(
        response=data.response[keep],
        design=data.design._replace(matrix=data.design.matrix[keep]),
        anchors=None if data.anchors is None else data.anchors.subset(keep),
        weights=weights[keep],
        offset=None if data.offset is None else data.offset[keep],
        kept=keep,
        environments=None if data.environments is None else data.environments.take(keep),
    )


def _checked_outcomes(spec: Specification, data: Data) -> Data:
    """Return the data without empty classes; raise an error if the outcomes do not identify a distribution."""
    if len(data.response) == 1:
        raise IdentificationError("n_samples = 1: a distribution cannot be estimated from one row")
    response, dropped = drop_empty_classes(data.response)
    check_kinds(response)
    design = data.design
    if spec.smoothed(design.marks):
        parts.refuse("smooth", *spec.asked())
    if spec.fills_in(design.marks) and isinstance(design.matrix, WideMatrix):
        design = design._replace(matrix=design.matrix.toarray())
    return data._replace(response=response, dropped=dropped, design=design)


def _with_structure(spec: Specification, data: Data, labels: Labels, clusters: list[Any]) -> Data:
    """Return the data with strata, varying effects and clusters, after checking all covariates."""
    whole = data.design
    if labels is not None or varying_groups(spec.varying):
        data = spec.with_baselines(data, labels)
    ranges, near, share = spec.check_design(data)
    check_levels(data.response, data.design.matrix, data.design.names)
    if data.mixture is not None:  # ranges include covariates with varying effects
        ranges = covariate_ranges(whole.matrix)
    data = data._replace(covariate_ranges=ranges, near=near, share=share)
    spec.check_response(data.response)
    named = named_effects(spec.random)
    if not clusters:
        return data
    if len(named) == 1:
        made = make_clusters(clusters[0], *named[0], data.design.names, data.design.matrix)
        made.check(spec.single_rows_show_effects(data.response))
        return data._replace(clusters=made._replace(n_nodes=spec.n_nodes))
    if spec.n_nodes is not None:
        raise InputError("n_nodes is for one random term: two are integrated by a Laplace approximation; leave it out")
    terms = make_two_terms(clusters, Intercepts.of([column for column, _ in named]))
    terms.check(spec.single_rows_show_effects(data.response))
    return data._replace(clusters=terms)
