"""Which rows, clusters or environments a bootstrap resamples, and how often each is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._util.checks import generator, jobs, whole_number
from anchortm._util.progress import Task
from anchortm._util.threads import one_blas_thread
from anchortm.backends.streamed import Stream
from anchortm.engine.data import Data
from anchortm.exceptions import AnchorTMWarning, IdentificationError, InputError
from anchortm.inference.covariance import cluster_codes, few_clusters
from anchortm.inference.environment_shares import whole_places

__all__ = ["batched_groups", "counts_of", "resampled", "succeeded"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
T = TypeVar("T")

MOST_FAILURES = 0.1  # the bootstrap raises an error if a larger fraction of its fits fails


def resampled(
    data: Data,
    refit: Callable[[Data], T | None],
    n_bootstrap: int,
    clusters: Any,
    random_state: Any,
    n_jobs: int | None,
    progress: bool | None,
) -> tuple[list[T], str, int]:
    """Return refits to resampled rows, what was resampled, and the number of refits that failed.

    ``refit`` takes the resampled rows and returns None if it fails.
    """
    n_bootstrap, n_jobs = whole_number(n_bootstrap, "n_bootstrap", 2), jobs(n_jobs)
    groups, what = _resampled(data, clusters)
    n_total = len(data.response) if data.weights is None else float(data.weights.sum())
    if groups is not None:
        few_clusters(int(groups.max()) + 1)
    elif round(n_total) < 2:
        raise InputError(
            f"the weights add up to {n_total:g} rows, too few to resample: multiply them by the number of rows"
        )
    rng = generator(random_state)
    samples = (_resampled_weights(rng, groups, data) for _ in range(n_bootstrap))
    with Task("bootstrap", n_bootstrap, progress) as task, one_blas_thread():  # small fits are faster without threads
        found = task.map(partial(_refit, refit, data, groups), samples, n_jobs)
    kept = succeeded(found)
    return kept, what, n_bootstrap - len(kept)


def _refit(refit: Callable[[Data], T | None], data: Data, groups: Codes | None, weights: Array) -> T | None:
    """Return the fit to rows with these weights."""
    keep = weights > 0.0
    part = data.subset(keep)._replace(weights=weights[keep])
    if data.weighting is None or groups is None:
        return refit(part)
    # environments that are drawn whole count as often as they are drawn
    times = weights if data.weights is None else weights / data.weights
    copies = {}
    for name in data.weighting.rules:
        places = data.weighing.places(name)
        if places is not None:
            whole = whole_places(places.codes, len(places.labels), groups)
            drawn = np.ones(len(places.labels))
            drawn[places.codes] = times
            copies[name] = {label: x for label, x, own in zip(places.labels, drawn.tolist(), whole, strict=True) if own}
    return refit(part._replace(weighting=replace(data.weighting, copies=copies)))


def succeeded(found: Sequence[T | None]) -> list[T]:
    """Return the refits that succeeded; warn how many failed, and raise an error if there are many."""
    kept, n_bootstrap = [draw for draw in found if draw is not None], len(found)
    failed = n_bootstrap - len(kept)
    if failed > MOST_FAILURES * n_bootstrap:
        raise IdentificationError(
            f"{failed} of {n_bootstrap} resampled data sets do not identify the model (a class or a covariate's "
            "values lost, or no strict optimum): resample smaller clusters, merge classes, or lower the order"
        )
    if failed:
        warn(f"{failed} of {n_bootstrap} resampled fits failed and are skipped", AnchorTMWarning)
    return kept


def batched_groups(stream: Stream, clusters: Any) -> str:
    """Return what is resampled of a table that is read in batches: a column of clusters, or the environments."""
    if isinstance(clusters, str):
        return "clusters"
    if clusters is not None:
        raise InputError("name the column of the clusters when rows are read in batches: clusters='patient'")
    anchors = stream.sample.anchors
    if anchors is None or anchors.main is None or anchors.levels[anchors.main].size < 2:
        raise InputError(
            "single rows are resampled in memory only: name a column of clusters, clusters='patient', or use "
            "kind='sandwich'"
        )
    return f"environments ({anchors.factor_names[anchors.main]})"


def _resampled(data: Data, clusters: Any) -> tuple[Codes | None, str]:
    """Return the groups of rows to resample (None for single rows), and their name."""
    anchors = data.anchors
    if clusters is not None:
        return cluster_codes(clusters, data), "clusters"
    if data.clusters is not None and not _nested(data):
        codes = np.unique(data.clusters.codes, return_inverse=True)[1]
        return codes, f"clusters ({data.clusters.effects.cluster})"
    if anchors is not None and anchors.main is not None and anchors.levels[anchors.main].size > 1:
        return anchors.factors[anchors.main], f"environments ({anchors.factor_names[anchors.main]})"
    return None, "rows"


def _nested(data: Data) -> bool:
    """Return whether each cluster with random effects lies within one environment, so that these can be resampled."""
    anchors = data.anchors
    if anchors is None or anchors.main is None or anchors.levels[anchors.main].size < 2:
        return False
    return data.clusters is not None and data.clusters.within(anchors.factors[anchors.main])


def _resampled_weights(rng: np.random.Generator, groups: Codes | None, data: Data) -> Array:
    """Return how often each row is drawn, when groups or rows are drawn with replacement."""
    n = len(data.response)
    own = np.ones(n) if data.weights is None else data.weights
    if groups is None:
        return rng.multinomial(round(float(own.sum())), own / own.sum()).astype(np.float64)
    return np.asarray(own * counts_of(rng, int(groups.max()) + 1)[groups])


def counts_of(rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Return how often each of ``size`` groups is drawn."""
    return rng.multinomial(size, np.full(size, 1.0 / size))
