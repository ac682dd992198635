"""From checked inputs to the objective of their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.bases import Basis
from anchortm.engine.objective.mean import MeanObjective
from anchortm.engine.objective.normal import NormalObjective
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.rows.anchor_metric import Reweighing, reweighed
from anchortm.engine.rows.blocks import Blocks, MemoryBlocks
from anchortm.engine.rows.centred import Centred
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.likelihood import Layout, check_inside, layout
from anchortm.engine.rows.projections import Projection, projection
from anchortm.engine.rows.standardised import BLOCK_ROWS, make_coordinates, standardised
from anchortm.exceptions import InputError
from anchortm.families import Family
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.inputs.response import Response
from anchortm.links import Link

__all__ = ["build_objective", "layout_of", "objective_type"]

Array = NDArray[np.float64]

MAX_CROSS = 20_000_000  # anchor directions and sparse columns, times levels of a wide factor


def build_objective(
    link: Link | Family,
    basis: Basis,
    response: Response,
    X: Matrix,
    anchors: AnchorColumns | None = None,
    weights: Array | None = None,
    offset: Array | None = None,
    sign: float = -1.0,
    anchor_intercept: bool = True,
    block_rows: int = BLOCK_ROWS,
    n_jobs: int = 1,
    names: tuple[str, ...] = (),
    coordinates: Coordinates | None = None,
    geometry: Projection | None = None,
    mixture: Mixture | None = None,
    reweighing: Reweighing | None = None,
) -> RowObjective:
    """Return the anchor loss of these rows; h = a(y)'theta + sign * (x'beta + offset).

    Inside, rows are ordered by the main anchor factor. Weights must be positive. A batch of a larger data set comes
    with the ``coordinates`` of all its rows and the ``geometry`` of their anchors. ``reweighing`` says how weights of
    environments enter the penalty; those of the likelihood are in ``weights``.
    """
    family = link if isinstance(link, Family) else None
    check_inside(basis, response)  # before rows are reordered, because errors name rows
    order = None if anchors is None else anchors.order()
    if order is not None and anchors is not None:  # rows of a group become neighbours
        response, anchors = response[order], anchors.take(order)
        weights, offset, mixture = _ordered(weights, offset, mixture, order)
        reweighing = None if reweighing is None else reweighing.take(order)
    parts = layout_of(link, basis, response)
    unit = 1.0 if family is None else family.eta_unit
    offset = offset if offset is None or family is None else offset / unit
    if coordinates is None:
        coordinates = replace(make_coordinates(basis, parts, X, sign, mixture), unit=unit)
    rows = [standardised(basis, part, X, order, sign, coordinates, weights, offset, mixture) for part in parts]
    projected = _projected(anchors, weights, anchor_intercept, geometry, family, reweighing)
    blocks = MemoryBlocks(rows, projected, len(response), weights, _block_rows(X, projected, block_rows), n_jobs)
    names = names or tuple(f"x{j}" for j in range(X.shape[1]))
    if family is not None:
        return MeanObjective(family, coordinates, projected, blocks, names)
    return objective_type(link, blocks, X)(link, coordinates, projected, blocks, names)


def _ordered(
    weights: Array | None, offset: Array | None, mixture: Mixture | None, order: NDArray[np.intp]
) -> tuple[Array | None, Array | None, Mixture | None]:
    """Return optional columns of rows in another order; None stays None."""
    weights, offset = (None if a is None else a[order] for a in (weights, offset))
    return weights, offset, None if mixture is None else mixture.take(order)


def layout_of(link: Link | Family, basis: Basis, response: Response) -> list[Layout]:
    """Return the rows of a response by kind; they are one kind if their mean is modelled."""
    if not isinstance(link, Family):
        return layout(basis, response)
    outcome = link.outcome(response.upper, response.trials)
    return [Layout("mean", 1, np.arange(len(response)), response.upper, None, outcome)]


def _projected(
    anchors: AnchorColumns | None,
    weights: Array | None,
    intercept: bool,
    geometry: Projection | None,
    family: Family | None,
    reweighing: Reweighing | None,
) -> Projection | None:
    """Return the projection on the anchors of these rows; deviance residuals, whose mean is not 0, need it centred."""
    if anchors is None:
        return None
    if geometry is not None:
        projected = geometry.on(anchors)
    elif reweighing is None:
        projected = projection(anchors, weights, intercept)
    else:
        projected = reweighed(anchors, weights, intercept, reweighing)
    centred = family is not None and family.residual == "deviance"
    return Centred(projected, weights, len(anchors)) if centred else projected


def _block_rows(X: Matrix, anchors: Projection | None, block_rows: int) -> int:
    """Return the number of rows in a block; refuse wide designs whose sums would be too large."""
    if not isinstance(X, WideMatrix):
        return block_rows
    beside = X.sparse_at.size + (0 if anchors is None else anchors.n_sums)
    if beside * X.n_levels > MAX_CROSS:
        raise InputError(
            f"{beside} anchor directions and sparse columns beside a factor of {X.n_levels} levels are too many: "
            f"their product may be {MAX_CROSS}; merge levels, or leave one out"
        )
    return max(block_rows, X.n_levels)  # sums by level are as large


def objective_type(link: Any, blocks: Blocks, X: Matrix | None = None) -> type[RowObjective]:
    """Return the class for these rows: exact rows under the normal link have one of their own."""
    exact = link.quadratic and blocks.kinds == {("exact", 1)} and not isinstance(X, WideMatrix)
    return NormalObjective if exact else RowObjective
