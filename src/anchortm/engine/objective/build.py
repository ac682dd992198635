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
from anchortm.engine.rows.blocks import Blocks, MemoryBlocks
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.likelihood import Layout, check_inside, layout
from anchortm.engine.rows.projections import Centred, Projection, projection
from anchortm.engine.rows.standardised import BLOCK_ROWS, make_coordinates, standardised
from anchortm.exceptions import InputError
from anchortm.families import Family
from anchortm.inputs.anchors import AnchorColumns
from anchortm.inputs.baselines import Mixture
from anchortm.inputs.design import Matrix, WideMatrix
from anchortm.inputs.response import Response
from anchortm.links import Link

__all__ = ["build_objective", "objective_type"]

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
) -> RowObjective:
    """Return the anchor loss of these rows; h = a(y)'theta + sign * (x'beta + offset).

    Inside, rows are ordered by the main anchor factor. Weights must be positive. A batch of a larger data set comes
    with the ``coordinates`` of all its rows and the ``geometry`` of their anchors.
    """
    family = link if isinstance(link, Family) else None
    check_inside(basis, response)  # before rows are reordered, because errors name rows
    order = None if anchors is None else anchors.order()
    if order is not None and anchors is not None:  # rows of a group become neighbours
        response, anchors = response[order], anchors.take(order)
        weights, offset = (None if a is None else a[order] for a in (weights, offset))
        mixture = None if mixture is None else mixture.take(order)
    if family is None:
        parts = layout(basis, response)
    else:
        outcome = family.outcome(response.upper, response.trials)
        parts = [Layout("mean", 1, np.arange(len(response)), response.upper, None, outcome)]
        offset = None if offset is None else offset / family.eta_unit
    if coordinates is None:
        coordinates = make_coordinates(basis, parts, X, sign, mixture)
        coordinates = coordinates if family is None else replace(coordinates, unit=family.eta_unit)
    rows = [standardised(basis, part, X, order, sign, coordinates, weights, offset, mixture) for part in parts]
    if anchors is None:
        projected = None
    else:
        projected = projection(anchors, weights, anchor_intercept) if geometry is None else geometry.on(anchors)
    if projected is not None and family is not None and family.residual == "deviance":
        projected = Centred(projected, weights, len(response))
    if isinstance(X, WideMatrix):
        block_rows = max(block_rows, X.n_levels)  # sums by level are as large
        beside = X.sparse_at.size + (0 if projected is None else projected.n_sums)
        if beside * X.n_levels > MAX_CROSS:
            raise InputError(
                f"{beside} anchor directions and sparse columns beside a factor of {X.n_levels} levels are too many: "
                f"their product may be {MAX_CROSS}; merge levels, or leave one out"
            )
    blocks = MemoryBlocks(rows, projected, len(response), weights, block_rows, n_jobs)
    names = names or tuple(f"x{j}" for j in range(X.shape[1]))
    if family is not None:
        return MeanObjective(family, coordinates, projected, blocks, names)
    if isinstance(X, WideMatrix):
        return RowObjective(link, coordinates, projected, blocks, names)
    return objective_type(link, blocks)(link, coordinates, projected, blocks, names)


def objective_type(link: Any, blocks: Blocks) -> type[RowObjective]:
    """Return the class for these rows: exact rows under the normal link have one of their own."""
    return NormalObjective if link.quadratic and blocks.kinds == {("exact", 1)} else RowObjective
