"""The contract of an objective: what the solver, inference and reports ask of a loss.

An objective is the anchor loss of one data set as a function of internal parameters v,

    L(v) = -loglik(v) / n + (xi / n) |t(v)|^2,

with t the coordinates of the residuals in the span of the anchors. ``Loss`` is what the solver needs, ``Objective``
adds what inference and reports need. Each kind of objective is one file of this folder. Only ``sums`` and
``derivatives`` have no default: a new kind implements these two and overrides what differs from the defaults.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchortm.engine.rows.coordinates import Coordinates
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.rows.projections import Projection

__all__ = ["FLAT", "STRICT", "Convexity", "Derivatives", "Loss", "Objective", "Point", "Sums"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Convexity = Literal["global", "local", "none"]

STRICT = 1e-5  # a curvature above this, in standardised parameters, rules out separation
FLAT = 1e-8  # a curvature below this, relative to the largest, is a flat direction


class Sums(NamedTuple):
    """What a line search needs: the log-likelihood and the anchor coordinates t of the residuals."""

    loglik: float
    t: Array


class Derivatives(NamedTuple):
    """First and second derivatives, as sums over rows.

    ``gradient`` is that of -loglik, ``hessian`` that of -loglik + multiplier't, and ``E`` = dt/dv.
    """

    gradient: Array
    hessian: Any  # an array, or an Arrow if the levels of a wide factor are among the parameters
    E: Array

    @property
    def matrix(self) -> Array:
        """Return the Hessian as an array."""
        return self.hessian.toarray() if isinstance(self.hessian, Arrow) else np.asarray(self.hessian)

    def penalised(self, weight: float) -> Any:
        """Return the Hessian plus weight E'E."""
        if isinstance(self.hessian, Arrow):
            return replace(self.hessian, weight=weight)
        return self.hessian + weight * (self.E.T @ self.E)


class Point(NamedTuple):
    """Where a minimisation ended: the parameters, the Hessian of the loss there, and whether it converged."""

    v: Array
    hessian: Any
    converged: bool

    @property
    def dense(self) -> Array:
        """Return the Hessian as an array."""
        return np.asarray(self.hessian.toarray() if hasattr(self.hessian, "toarray") else self.hessian)


class Loss(ABC):
    """What the solver needs of an objective.

    Attributes
    ----------
    coordinates : Coordinates
        The map from v to the parameters that users see, and the bounds on v.
    anchors : Projection or None
        The projection on the anchors; without anchors t has no elements.
    names : tuple of str
        Names of the coefficients.
    n_rows, n_total : int, float
        Number of rows, and their total weight.
    affine : bool
        Whether the residuals are linear in v, so that the loss is convex for every xi.
    penalised : bool
        Whether the coefficients have a penalty of their own (elastic net, smoothing).
    lasso, ridge : array or None
        Weights of |v_j| and of v_j^2 / 2 in the loss; None without such a penalty.
    n_nodes : int or None
        Quadrature nodes for each random effect; None if nothing is integrated numerically.
    first_order : bool
        Whether a gradient costs much less than a Hessian.
    pooled : bool
        Whether sums over the rows are known for all v, so that derivatives need no pass over the rows.
    slack : float
        Largest disagreement between the gradient and the loss, because of quadrature.
    start : array
        Start values of the internal parameters that come last (none by default).
    begin : array or None
        A start of all parameters, if a good one is known.
    costly : bool
        Whether a pass over all rows costs much more than one over a sample.
    sample_rows : int
        Size of the sample that large data start from.
    """

    coordinates: Coordinates
    anchors: Projection | None
    names: tuple[str, ...]
    n_rows: int
    n_total: float
    affine: bool = False
    penalised: bool = False
    lasso: Array | None = None
    ridge: Array | None = None
    n_nodes: int | None = None
    first_order: bool = False
    pooled: bool = False
    slack: float = 0.0
    start: Array = np.zeros(0)
    begin: Array | None = None
    costly: bool = False
    sample_rows: int = 20_000

    @abstractmethod
    def sums(self, v: Array, expected: Array | None = None) -> Sums:
        """Return the log-likelihood and t at v.

        If ``expected`` is given, ``derivatives`` will probably be called next with about this multiplier (zeros, of any
        size, stand for none): an implementation can take the derivatives in the same pass over the rows.
        """

    @abstractmethod
    def derivatives(self, v: Array, multiplier: Array | None = None) -> Derivatives:
        """Return the derivatives at v, with the curvature of the residuals along ``multiplier`` if given."""

    def gradient(self, v: Array, multiplier: Array | None = None) -> Array:
        """Return the gradient of -loglik + multiplier't, without that of absolute values."""
        d = self.derivatives(v)
        return np.asarray(d.gradient if multiplier is None else d.gradient + d.E.T @ multiplier)

    def ahead(self, points: Sequence[Array]) -> None:  # noqa: B027 - rows at hand need no notice
        """Take note that ``sums`` will probably be asked for at these points, which can then share one question."""

    @property
    def n_parameters(self) -> int:
        """Return the number of internal parameters."""
        return self.coordinates.scale.size

    @property
    def kinked(self) -> bool:
        """Return whether the loss has a kink where a coefficient is 0, as with an l1 penalty."""
        return self.lasso is not None and bool(self.lasso.any())

    @property
    def closed_form(self) -> tuple[Array, Array] | None:
        """Return the moments of a normal linear model, whose minimum has a closed form; None for other losses."""
        return None

    def ray(self, xi: float) -> tuple[Objective, float]:
        """Return the loss to minimise for this xi, and the number along its path: itself and xi with one penalty."""
        return self, xi  # type: ignore[return-value]

    @property
    def simpler(self) -> Objective | None:
        """Return a loss from whose minimum at xi = 0 this one starts, if it needs one."""
        return None

    @property
    def relaxed(self) -> Objective | None:
        """Return the smooth loss from whose minimum ``finished`` starts, if this one has kinks between places."""
        return None

    def finished(self, solution: Any, options: Any) -> Any:
        """Return the minimum of this loss, from that of ``relaxed``."""
        return solution

    def scaled(self, factor: float) -> Objective:
        """Return the loss with the penalty on its coefficients times a factor; itself without such a penalty."""
        return self  # type: ignore[return-value]

    def with_nodes(self, n_nodes: int) -> Objective:
        """Return the loss with another number of quadrature nodes; itself if nothing is integrated numerically."""
        return self  # type: ignore[return-value]

    def restricted(self, columns: NDArray[np.intp]) -> Objective:
        """Return the loss of some coefficients alone, in the same coordinates; the others are 0."""
        raise NotImplementedError(f"{type(self).__name__} cannot leave out coefficients")

    def sample(self, size: int) -> Objective:
        """Return the loss of about ``size`` rows from all over the data, in the same coordinates."""
        return self  # type: ignore[return-value]

    def from_whole(self, whole: Loss, v: Array) -> Array:
        """Return the parameters of this sample from those of all rows."""
        return v

    def to_whole(self, whole: Loss, v: Array) -> Array:
        """Return the parameters of all rows from those of this sample."""
        return v

    def convexity(self, sums: Sums, xi: float) -> Convexity:
        """Return whether the loss is known to be convex everywhere, around a minimum with these sums, or neither."""
        return "none"

    def check_maximum(self, point: Point | None = None) -> None:  # noqa: B027 - by default nothing is known
        """Raise ``SeparationError`` if the likelihood has no maximum; the solver asks if it found no strict minimum."""

    def extent(self, v: Array) -> tuple[float, str]:
        """Return how far out the parameters are, and what that number measures."""
        return float(np.abs(v).max(initial=0.0)), "standardised parameter"

    @property
    def mean_offset(self) -> float:
        """Return the average of the offsets, with the sign that they enter h with."""
        return 0.0

    def tell(self, loss: float) -> None:  # noqa: B027 - most losses show no progress
        """Show the loss as progress."""


class Objective(Loss):
    """What the solver, inference and reports need of a loss.

    Attributes
    ----------
    link : Link or Family
        The distribution of a row.
    known_dispersion : bool
        Whether the dispersion was given as a number.
    score_test_obstacle : str or None
        Why the residuals of the penalty are not scores, which tests need; None if they are.
    extra_names : tuple of str
        Names of the parameters that follow the coefficients of the covariates (scale effects, covariance of random
        effects).
    """

    link: Any
    known_dispersion: bool = False
    score_test_obstacle: str | None = None
    extra_names: tuple[str, ...] = ()

    @property
    def unpenalised(self) -> Objective:
        """Return the loss without penalties on its coefficients: the innermost of wrapped objectives."""
        return self

    @property
    def scored(self) -> Objective:
        """Return the loss whose anchor penalty takes score residuals."""
        return self

    @property
    def row_coordinates(self) -> Coordinates:
        """Return the coordinates of the baseline and the coefficients, without what random effects add."""
        return self.coordinates

    @property
    def estimated(self) -> Mask:
        """Return which parameters count as estimated in score tests: not fixed, and not assumed known."""
        return self.coordinates.lower < self.coordinates.upper

    @property
    def weights(self) -> Array | None:
        """Return the weights of the rows, None if all are 1."""
        return None

    @property
    def far_from_zero(self) -> list[str]:
        """Return the covariates that are never near 0, if the model says something about rows there."""
        return []

    @property
    def n_units(self) -> float:
        """Return the number of independent units, as often as weights count them: of rows, or of their clusters."""
        return self.n_total

    @property
    def apart(self) -> tuple[Objective, ...]:
        """Return the losses whose penalty takes one kind of residual each: itself, or those of shift and scale."""
        return (self,)

    def at_strengths(self, strengths: Sequence[float]) -> tuple[Objective, float]:
        """Return the loss with a strength of the penalty for each kind of residual, and the number along its path."""
        return self.ray(float(strengths[0]))

    def row_scales(self, v: Array) -> Array | None:
        """Return the factor of each row's baseline at v; None if all have one scale."""
        return None

    def loglik(self, v: Array, sums: Sums) -> float:
        """Return the log-likelihood at v, without the penalties that ``sums`` may contain."""
        return sums.loglik

    def penalties(self, v: Array, sums: Sums | None = None) -> tuple[float, ...]:
        """Return |P r|^2 of each kind of residual at v: one, or those of shift and scale; ``sums`` are known ones."""
        t = (self.sums(v) if sums is None else sums).t
        return (float(t @ t),)

    def target_shift(self, v: Array) -> float:
        """Return how much further h lies at a known target, whose model is reported; 0 without one."""
        return 0.0

    def dispersion(self, v: Array) -> float:
        """Return the estimated dispersion: how much more residuals vary than the likelihood says."""
        return 1.0

    def average_baseline(self, theta: Array, others: Array) -> Array:
        """Return the baseline of a row with average covariates; ``others`` are all parameters but theta."""
        return theta

    def average_shift(self, v: Array) -> float:
        """Return what average covariates and offsets add to h."""
        k = self.coordinates.n_baseline
        raw = v / self.coordinates.scale
        return float(self.coordinates.mean[k:] @ raw[k:]) + self.mean_offset

    def residuals(self, v: Array) -> Array:
        """Return the score residuals, in the order of the objective's rows."""
        raise NotImplementedError(f"{type(self).__name__} has no residuals of rows")

    def residual_slopes(self, v: Array) -> Array:
        """Return the derivative of each residual in its own shift."""
        raise NotImplementedError(f"{type(self).__name__} has no residuals of rows")

    def anchor_information(self, v: Array) -> Array:
        """Return Q'W(dr/dshift)Q."""
        raise NotImplementedError(f"{type(self).__name__} has no residuals of rows")

    def influence(self, v: Array, pull: Array, bread: Array, K: Array) -> Any:
        """Return what ``shares`` and ``influence_gram`` need; see ``rows.block_sums.Influence``."""
        raise NotImplementedError(f"{type(self).__name__} has no influence of rows")

    def shares(self, work: Any) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of rows with their shares in the influence, from what ``influence`` gave."""
        raise NotImplementedError(f"{type(self).__name__} has no influence of rows")

    def influence_gram(self, work: Any) -> Array:
        """Return the weighted sum over rows of the outer products of their shares, wherever the rows are."""
        total = np.zeros((work.bread.shape[1], work.bread.shape[1]))
        for rows, shares in self.shares(work):
            total += (shares if self.weights is None else shares * self.weights[rows, None]).T @ shares
        return total

    def unit_gram(self, work: Any) -> Array:
        """Return the same sum over independent units: rows, or whole clusters."""
        return self.influence_gram(work)
