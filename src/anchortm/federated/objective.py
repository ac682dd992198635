"""The loss of rows at several sites: one more implementation of the engine's contract, whose sums cross sites.

Only |t|^2, E't, E'E, log-likelihood, gradient, Hessian and the curvature of the residuals along t are known. Newton's
method, continuation in xi, elastic nets, certificates and the sandwich need no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.objective.plain import convex_facts
from anchortm.engine.objective.protocol import Convexity, Derivatives, Objective, Point, Sums
from anchortm.engine.objective.separation import Recession, separated
from anchortm.engine.rows.block_sums import Squares
from anchortm.engine.rows.coordinates import Coordinates
from anchortm.exceptions import InputError, SeparationError
from anchortm.federated.questions import MOST_POINTS
from anchortm.federated.sums import PointSums, n_numbers, symmetric

__all__ = ["Asked", "FederatedObjective", "RemoteLoss", "Span"]

Array = NDArray[np.float64]

KEPT = 64  # points whose sums are kept
SAME = 1e-14  # relative distance of points that only rounding errors tell apart


@dataclass(frozen=True)
class Span:
    """What is known of the anchors of all sites."""

    rank: int
    dropped: tuple[str, ...] = ()
    contracts: bool = True


@dataclass(frozen=True, eq=False)
class Asked:
    """What the influence of rows needs: parameters and strengths for the sites, the rest for the coordinator."""

    v: Array
    strengths: tuple[float, ...]
    pull: Array
    bread: Array
    every: Array | None = None
    squares: Squares | None = None


class RemoteLoss:
    """A model at the sites: asks them about parameters, and keeps what they said.

    Parameters
    ----------
    ask : callable
        Takes the kind of a question, its fields, its points, how many numbers there are for each point (or in all,
        unless ``each``), and perhaps which sites to ask.
    d : int
        Number of parameters.
    kinds : int
        Number of kinds of residuals: of the shift, and of the scale if there is one.
    """

    def __init__(self, ask: Callable[..., Any], d: int, kinds: int = 1) -> None:
        self.ask, self.d, self.kinds = ask, d, kinds
        self.refused: dict[str, str] = {}  # why a site last kept its sums, by site
        self._known: dict[bytes, PointSums | None] = {}
        self._sized: dict[tuple[int, int], RemoteLoss] = {}

    def sized(self, d: int, kinds: int = 1) -> RemoteLoss:
        """Return the same model with another number of parameters, made once, so that what sites said is kept."""
        if (d, kinds) not in self._sized:
            self._sized[d, kinds] = RemoteLoss(self.ask, d, kinds)
            self._sized[d, kinds].refused = self.refused
        return self._sized[d, kinds]

    @property
    def n_t(self) -> int:
        """Return the number of elements of t."""
        return self.kinds * (self.d + 1)

    def at(self, v: Array, expected: Array | None = None) -> PointSums | None:
        """Return the sums at v, None if a site withholds them; ``expected`` is the predicted multiplier."""
        self.learn([v])
        return self._known[self._key(v)]

    def _key(self, v: Array) -> bytes:
        """Return the key of a point: that of a known one if only rounding errors tell them apart."""
        if v.tobytes() not in self._known:
            near = SAME * (1.0 + np.abs(v))
            for known in reversed(self._known):
                if (np.abs(np.frombuffer(known) - v) <= near).all():
                    return known
        return v.tobytes()

    def bent(self, v: Array, multiplier: Array | None, mix: Sequence[float]) -> tuple[PointSums, Array] | None:
        """Return the sums at v, and the Hessian with the curvature of the residuals along a multiplier."""
        found = self.at(v)
        return None if found is None else (found, found.curved(multiplier, mix))

    def learn(self, points: Sequence[Array]) -> None:
        """Ask about all points that are not known yet, in one round."""
        new = {key: v for v in points if (key := self._key(v)) not in self._known}
        todo = list(new.values())
        for start in range(0, len(todo), MOST_POINTS):
            self._learn(todo[start : start + MOST_POINTS])

    def _learn(self, points: list[Array]) -> None:
        size = n_numbers(self.d, self.kinds)
        reply = self.ask("sums", {}, np.array(points), size)
        totals = reply.total.reshape(len(points), size)
        for k, v in enumerate(points):
            bad = {name: own["statuses"][k] for name, own in reply.fields.items() if own["statuses"][k] != "ok"}
            self.refused |= bad
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[v.tobytes()] = None if bad else PointSums.of(totals[k], self.d, self.kinds)

    def where(self, loglik: float) -> Array | None:
        """Return the latest point with this log-likelihood, or nearly so."""
        for key, found in reversed(self._known.items()):
            if found is not None and abs(found.loglik - loglik) <= 1e-9 * (1.0 + abs(loglik)):
                return np.frombuffer(key)
        return None

    def lowest(self, strengths: Sequence[float]) -> Array | None:
        """Return the point with the lowest loss at these strengths of the penalty among those that are known."""
        losses = {
            key: sum(xi * float(own.t @ own.t) for xi, own in zip(strengths, found.kinds, strict=True)) - found.loglik
            for key, found in self._known.items()
            if found is not None
        }
        return np.frombuffer(min(losses, key=losses.__getitem__)) if losses else None

    def influence(self, v: Array, strengths: Sequence[float]) -> Array:
        """Return the Gram matrix of the rows' contributions to n times the gradient of the loss."""
        size = self.d * (self.d + 1) // 2
        return symmetric(self.ask("influence", {"strengths": list(strengths)}, v[None, :], size).total, self.d)

    def steep(self, v: Array, xi: float) -> bool:
        """Return whether an environment's multiplier is so large that the loss may not be convex there."""
        return bool(self.ask("steep", {"xi": xi}, v[None, :], 1).total[0] > 0.5)

    def need(self, v: Array) -> tuple[int, float, Array, Array]:
        """Return rank, t'D^-1 t, E'D^-1 t and E'D^-1 E, where D is the information on t."""
        size = self.d * (self.d + 1) // 2
        found = self.ask("need", {}, v[None, :], 2 + self.d + size).total
        return round(float(found[0])), float(found[1]), found[2 : 2 + self.d], symmetric(found[2 + self.d :], self.d)

    def fitted(self, v: Array, dispersion: float) -> tuple[float, float]:
        """Return the deviance, and the log-likelihood at a dispersion, of a model of means."""
        found = self.ask("fitted", {"dispersion": dispersion}, v[None, :], 2).total
        return float(found[0]), float(found[1])

    def pearson(self, v: Array) -> float:
        """Return Pearson's chi-square of a model of means; NaN if a site withholds its part."""
        reply = self.ask("pearson", {}, v[None, :], 1)
        fine = all(own["statuses"] == ["ok"] for own in reply.fields.values())
        return float(reply.total[0]) if fine else math.nan

    def calibration(self, points: Array, seed: int, size: int) -> tuple[Array, int]:
        """Return total counts of rows by predicted probability, and how sites round them.

        Each site takes the parameters in its own row of ``points``.
        """
        reply = self.ask("calibration", {"seed": seed}, points, size, each=False)
        return reply.total, max(own["cell"] for own in reply.fields.values())

    def against(self, directions: Array) -> Array:
        """Return 0 for directions along which no site has a cell of rows that lose likelihood, else more."""
        return np.asarray(self.ask("against", {}, directions, 1).total, dtype=np.float64)


class FederatedObjective(Objective):
    """The anchor loss of the rows of all sites; see ``anchortm.federated.sums`` for what they send."""

    costly = True
    _convex_facts = staticmethod(convex_facts)
    _separation = staticmethod(separated)
    mix: tuple[float, ...] = (1.0,)  # shares of the kinds of residuals in the penalty
    places: NDArray[np.intp] | None = None  # of the parameters among those of all covariates

    def __init__(
        self,
        link: Any,
        coordinates: Coordinates,
        span: Span | None,
        names: tuple[str, ...],
        kinds: frozenset[tuple[str, int]],
        size: tuple[int, float],
        offset: float,
        remote: RemoteLoss,
    ) -> None:
        self.link, self.coordinates, self.names, self.remote = link, coordinates, names, remote
        self.anchors = cast(Any, span)  # the solver asks for its rank only
        self.n_rows, self.n_total = size
        self._offset = offset
        self.affine, self._concave, self._bounded = self._convex_facts(link, kinds)
        self.sample_rows = self.n_rows

    @property
    def mean_offset(self) -> float:
        return self._offset

    def called(self, link: Any) -> Self:
        """Return the same loss under a link that differs in what rows do not depend on, as its dispersion."""
        if link is self.link or link == self.link:
            return self
        result = copy(self)
        result.link = link
        return result

    def whole(self, v: Array) -> Array:
        """Return the parameters of all covariates: the coefficients of others are 0."""
        if self.places is None:
            return v
        whole = np.zeros(self.remote.d)
        whole[self.places] = v
        return whole

    def _inside(self) -> Any:
        return slice(None) if self.places is None else self.places

    def ahead(self, points: Sequence[Array]) -> None:
        self.remote.learn([self.whole(v) for v in points])

    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        found = self.remote.at(self.whole(v), expected)
        return (
            Sums(-math.inf, np.zeros(self.remote.n_t))
            if found is None
            else Sums(found.loglik, found.coordinates(self.mix))
        )

    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        both, at = self.remote.bent(self.whole(v), multiplier, self.mix), self._inside()
        if both is None:
            raise ArithmeticError("a site withholds its sums at these parameters")
        found, hessian = both
        hessian = hessian if self.places is None else hessian[np.ix_(self.places, self.places)]
        return Derivatives(found.gradient[at], hessian, found.slopes(self.mix)[:, at])

    def restricted(self, columns: NDArray[np.intp]) -> FederatedObjective:
        result, places = copy(self), self.coordinates.places(columns)
        result.coordinates = self.coordinates.restricted(columns)
        result.names = tuple(self.names[j] for j in columns)
        result.places = places if self.places is None else self.places[places]
        return result

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        if self.affine or (xi == 0.0 and self._concave):
            return "global"
        if self.anchors is None or not math.isfinite(xi) or not self._bounded:
            return "none"
        at = self.remote.where(sums.loglik)
        return "none" if at is None or self.remote.steep(at, xi) else "local"

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Asked:
        t = self.sums(v).t
        length = float(t @ t)
        xi = max(0.5 * float(pull @ t) / length if length > 0.0 else 0.0, 0.0)
        return Asked(self.whole(v), tuple(xi * share**2 for share in self.mix), pull, bread)

    def influence_gram(self, work: Asked) -> Array:
        if work.squares is not None:
            raise InputError(
                "standard errors with penalty_factor='deviation' need the rows: give the factors as numbers"
            )
        inside = self._inside()
        gram = self.remote.influence(work.v, work.strengths)[inside][:, inside]
        found = work.bread.T @ gram @ work.bread
        if work.every is None:
            return np.asarray(found)
        at = self.derivatives(work.v[inside], work.pull)
        pull = at.gradient + at.E.T @ work.pull
        across = np.outer(pull @ work.bread, work.every)
        return np.asarray(found + across + across.T + self.n_total * np.outer(work.every, work.every))

    def penalties(self, v: Array, sums: Sums | None = None) -> tuple[float, ...]:
        found = self.remote.at(self.whole(v))
        assert found is not None  # noqa: S101 - the fit ended there
        return tuple(float(own.t @ own.t) for own in found.kinds)

    def of_scale(self, n_scale: int, names: tuple[str, ...], xi_scale: float | None) -> Objective:
        """Return the loss whose last columns belong to the scale, as sites make it."""
        from anchortm.federated.scaled import FederatedScaled

        return FederatedScaled(self, n_scale, names, xi_scale)

    def check_maximum(self, point: Point | None = None) -> None:
        """Raise ``SeparationError`` if no site has rows against the flattest direction, or against going on."""
        if point is None:
            return
        free = np.flatnonzero(self.coordinates.lower < self.coordinates.upper)
        H = point.dense[np.ix_(free, free)]
        flattest = np.zeros(point.v.size)
        flattest[free] = np.linalg.eigh(H)[1][:, 0]
        directions = [flattest, -flattest, point.v]
        k = self.coordinates.n_baseline
        low, high = self.coordinates.lower[:k], self.coordinates.upper[:k]
        for direction, count in zip(
            directions, self.remote.against(np.array(list(map(self.whole, directions)))), strict=True
        ):
            size = np.abs(direction).max()
            inside = (direction[:k][np.isfinite(low)] >= -1e-3 * size).all() and (
                direction[:k][np.isfinite(high)] <= 1e-3 * size
            ).all()
            if count == 0.0 and inside and size > 0.0:
                found = Recession(direction)
                raise SeparationError(self._separation(found.names(k, self.names), found))
