"""What all losses with random effects share: parameters of their covariance after those of the rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.anchored import AnchoredObjective, InfluenceInputs
from anchortm.engine.objective.plain import RowObjective
from anchortm.engine.objective.protocol import Derivatives, Point
from anchortm.engine.rows.coordinates import Coordinates

__all__ = ["START", "EffectsObjective", "with_covariance"]

Array = NDArray[np.float64]

START = 0.25  # variance of the effects that a fit starts from


def with_covariance(inner: Coordinates, effects: Any) -> Coordinates:
    """Return the coordinates with the parameters of the effects' covariance after the others."""
    extra = effects.n_parameters
    return replace(
        inner,
        mean=np.append(inner.mean, np.zeros(extra)),
        scale=np.append(inner.scale, np.ones(extra)),
        lower=np.append(inner.lower, effects.lower),
        upper=np.append(inner.upper, np.full(extra, np.inf)),
    )


class EffectsObjective(AnchoredObjective):
    """The anchor loss of a model with random effects; ``fixed`` is the loss without them, of the same rows."""

    def __init__(self, fixed: RowObjective, clusters: Any) -> None:
        effects = clusters.effects
        coordinates = with_covariance(fixed.coordinates, effects)
        super().__init__(fixed.link, coordinates, fixed.anchors, fixed.names, fixed.n_rows, fixed.n_total)
        self.fixed, self.clusters, self.effects = fixed, clusters, effects
        self.start = np.where(effects.squared, START, 0.0)
        self.extra_names = tuple(effects.parameter_names())
        self._part = None if self.anchors is None else self.anchors.part(slice(None))

    @property
    def n_fixed(self) -> int:
        """Return the number of parameters other than the entries of L."""
        return self.n_parameters - int(self.effects.n_parameters)

    @property
    def weights(self) -> Array | None:
        """Return the weights of the rows."""
        return self.fixed.weights

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets."""
        return self.fixed.mean_offset

    @property
    def row_coordinates(self) -> Coordinates:
        """Return the coordinates without the parameters of the covariance."""
        return self.fixed.coordinates

    @property
    def estimated(self) -> NDArray[np.bool_]:
        """Return all parameters that are not fixed but those of the covariance, which score tests take as known."""
        return super().estimated & (np.arange(self.n_parameters) < self.n_fixed)

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if rows are separated: they are then so for any effects of the clusters."""
        self.fixed.check_maximum(point)

    @abstractmethod
    def likeliest_shift(self, v: Array) -> Array:
        """Return what the most likely effects of its cluster add to h of each row."""

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> InfluenceInputs:
        """Return what ``shares`` needs."""
        return InfluenceInputs(v, pull, bread, K)

    def unit_gram(self, work: Any) -> Array:
        """Return the weighted sum over clusters of the outer products of their shares."""
        totals = np.zeros((len(self.clusters.labels), work.bread.shape[1]))
        for rows, shares in self.shares(work):
            own = shares if self.weights is None else np.sqrt(self.weights[rows])[:, None] * shares
            np.add.at(totals, self.clusters.codes[rows], own)
        return np.asarray(totals.T @ totals)

    def _weighted(self, values: Array) -> Array:
        return values if self.weights is None else values * self.weights

    def _anchor_sums(self, r: Array) -> Array:
        """Return t of residuals."""
        s = np.zeros(self.n_sums)
        if self._part is not None:
            self._part.add(s, self._weighted(r), None)
        return self._root(s)

    def _anchor_slopes(self, J: Array) -> Array:
        """Return dt/dv from the derivatives of residuals."""
        G = np.zeros((self.n_sums, self.n_parameters))
        if self._part is not None:
            self._part.add(G, np.ones(self.n_rows) if self.weights is None else self.weights, J)
        return self._root(G)

    def _in_squares(self, v: Array, found: Derivatives, multiplier: Array | None) -> Derivatives:
        """Return derivatives in v from those with the entries of L in place of their squares, by the chain rule."""
        gradient, H, E, own = *found, slice(self.n_fixed, None)
        first, second = self.effects.slopes(v[own])
        bend = second * (gradient if multiplier is None else gradient + E.T @ multiplier)[own]
        gradient[own] *= first
        E[:, own] *= first
        H[own] *= first[:, None]
        H[:, own] *= first
        H[own, own] += np.diag(bend)
        return Derivatives(gradient, H, E)

    def _with_anchors(self, work: Any, r: Array, own: Array) -> Array:
        """Return the influence of rows from the gradients ``own`` of their losses, in the entries of L."""
        own[:, self.n_fixed :] *= self.effects.slopes(work.v[self.n_fixed :])[0]
        result: Array = own @ work.bread
        if self.anchors is not None and self._part is not None:
            rest = r - self._part.projected(self.anchors.projection_of(self.sums(work.v).t))
            result += self._part.spread(self.anchors.coefficients(work.K)) * rest[:, None]
        return result if work.every is None else result + work.every
