"""Minimising a loss with an l1 penalty: Newton's method on faces.

If the signs of the coefficients are known the loss is smooth: on such a *face* Newton's method under bounds finds the
minimum, with exact zeros. A face has the columns that matter so far, with their signs. After its minimum one pass over
the rows gives the slopes of all columns, and those whose slope exceeds the penalty join the next face. The loss falls
from face to face, and the last one satisfies

    |d_j L| <= l1 f_j if beta_j = 0,    d_j L = -l1 f_j sign(beta_j) otherwise.

No matrix has as many rows and columns as there are covariates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.protocol import Objective, Sums
from anchortm.engine.solve import newton, proximal
from anchortm.engine.solve.ends_of_path import multiplier_at, sqp
from anchortm.engine.solve.net_model import FIRST_COLUMNS
from anchortm.engine.solve.newton import Options, Solution

__all__ = ["limit", "minimise"]

Array = NDArray[np.float64]

MOST_FACES = 500


def minimise(objective: Objective, v: Array, xi: float, options: Options, sums: Sums | None = None) -> Solution:
    """Return the minimum of the loss at a finite xi that is found from v."""
    if not objective.kinked:
        return newton.minimise(objective, v, xi, options, sums)
    net = _net(objective)
    quick = proximal.minimise(net, v, xi, options)
    if quick is not None:
        return quick

    def pull(v: Array, face: Net | None, found: Solution | None) -> Array | None:
        return None if xi == 0.0 else 2.0 * xi * net.sums(v).t

    return _over_faces(net, v, lambda face, own: newton.minimise(face, own, xi, options), pull, options.tol)


def limit(objective: Objective, start: Solution, options: Options) -> Solution:
    """Return the minimum under t = 0 near a solution at a large xi."""
    if not objective.kinked:
        return sqp(objective, start, options)
    net, first = _net(objective), 2.0 * start.xi * start.sums.t

    def pull(v: Array, face: Net | None, found: Solution | None) -> Array:
        return first if face is None or found is None else multiplier_at(face, found)

    def solve(face: Net, own: Array) -> Solution:
        return sqp(face, replace(start, v=own, sums=face.sums(own), history=[], n_iter=0), options)

    return _over_faces(net, start.v, solve, pull, options.tol)


def _net(objective: Objective) -> Net:
    assert isinstance(objective, Net)  # noqa: S101 - the only loss with kinks
    return objective


def _over_faces(
    net: Net,
    v: Array,
    solve: Callable[[Net, Array], Solution],
    pull: Callable[[Array, Net | None, Solution | None], Array | None],
    tol: float,
) -> Solution:
    """Return the minimum over all faces; ``solve`` finds that of a face, ``pull`` is the multiplier of t there."""
    k, n = net.coordinates.n_baseline, net.n_total
    v = np.clip(v, net.coordinates.lower, net.coordinates.upper)
    lasso = net.lasso[k:]
    sign, face, found = np.zeros(lasso.size), None, None
    history: list[dict[str, Any]] = []
    for _ in range(MOST_FACES):
        slope = net.gradient(v, pull(v, face, found))[k:] / n
        zero = (v[k:] == 0.0) & (lasso > 0.0)
        # the minimum of a face already accounts for its own side of zero
        downhill = np.where(slope > 0.0, -1.0, 1.0)
        asked = zero & ~(net.working & (sign == downhill) & (found is not None))
        beyond = np.where(asked, np.maximum(np.abs(slope) - lasso, 0.0) / (1.0 + np.abs(slope)), 0.0)
        if found is not None and (not found.converged or beyond.max(initial=0.0) <= tol):
            break
        sign = np.where(zero, downhill, np.sign(v[k:]))
        room = net.n_rows - k - int((~zero).sum())  # more columns than rows would leave flat directions
        most = max(1, min(max(FIRST_COLUMNS, int(net.working.sum())), room))
        if room < int((net.working & zero).sum()) + most:
            net.working[: net.working.size - len(net.extra_names)] = False
        net.working |= ~zero
        joining = np.argsort(-beyond, kind="stable")[:most]
        net.working[joining[beyond[joining] > tol]] = True
        face, at = net.face(sign)
        found = solve(face, v[at])
        history += [row | {"iteration": len(history) + j} for j, row in enumerate(found.history)]
        v = np.zeros_like(v)
        v[at] = found.v
    assert found is not None  # noqa: S101
    kkt = max(found.kkt, float(beyond.max(initial=0.0)))
    converged = found.converged and kkt <= tol
    tangent, active = np.zeros_like(v), (v == 0.0) & (net.lasso > 0.0)
    tangent[at], active[:k] = found.tangent, found.active[:k]
    block = sp.coo_matrix(found.hessian)
    hessian = sp.csr_matrix((block.data, (at[block.row], at[block.col])), shape=(v.size, v.size))
    return replace(
        found,
        v=v,
        kkt=kkt,
        active=active,
        converged=converged,
        reason=found.reason if converged or not found.converged else "too many faces",
        n_iter=len(history) - 1,
        tangent=tangent,
        hessian=hessian,
        history=history,
    )
