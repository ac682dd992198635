"""An emulation of the paper's stochastic gradient descent for censored and ordinal models, in NumPy.

The settings are those of the paper: Adam, learning rate 1e-3, batches of 250 rows, started at the maximum-likelihood
fit. We let it run beyond the 200 epochs of the paper. As in the paper, a softplus keeps the increments of the baseline
positive. Unlike in the paper, the projection on the anchors is exact: each step computes kappa = (A'A)^-1 A'r over all
rows, so that a batch gives an unbiased gradient. The formulas are written out here, independent of the engine.

For the logistic distribution and an interval with ends v < u on the scale of h (F(v) = 0 or F(u) = 1 if an end is
missing):

    l = log(F(u) - F(v)),   r = F(u) + F(v) - 1,   dr/du = f(u),   dr/dv = f(v)

and for an exact row l = log f(z) + log h', r = 2 F(z) - 1, dr/dz = 2 f(z).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from anchortm.bench.bars import COVARIATES
from anchortm.bench.engine import Facts, Side, classes, simulate

__all__ = [
    "Descent",
    "LogisticRows",
    "boston_adam",
    "boston_ours",
    "descend",
    "ordinal_adam",
    "ordinal_ours",
    "wine_adam",
    "wine_ours",
]

Array = NDArray[np.float64]

RATE, BATCH, EPOCHS = 1e-3, 250, 200  # settings of the paper
WITHIN = 1e-4  # Adam has arrived when its loss is this close to ours
LEAST = 1e-4  # smallest increment at the start, because softplus does not reach zero
XI = 10.0


@dataclass(frozen=True, eq=False)
class LogisticRows:
    """Rows of a logistic model: basis rows of both ends (NaN if an end is missing) and of the slope."""

    upper: Array
    lower: Array
    slope: Array | None  # for exact rows, whose ends coincide
    exact: NDArray[np.bool_]
    X: Array
    codes: NDArray[np.intp]
    xi: float

    def theta(self, parameters: Array) -> Array:
        """Return the increasing baseline parameters."""
        raw = parameters[: self.upper.shape[1]]
        return np.asarray(np.cumsum(np.concatenate([raw[:1], np.logaddexp(0.0, raw[1:])])))

    def parameters(self, theta: Array, beta: Array) -> Array:
        """Return the free parameters of theta, its increments at least ``LEAST``, and beta."""
        increments = np.maximum(np.diff(theta), LEAST)
        free = increments + np.log(-np.expm1(-increments))  # inverse of softplus
        return np.concatenate([theta[:1], free, beta])

    def _ends(self, parameters: Array, rows: Any) -> tuple[Array, Array]:
        """Return F at both ends."""
        theta, beta = self.theta(parameters), parameters[self.upper.shape[1] :]
        shift = self.X[rows] @ beta
        F_u, F_v = expit(self.upper[rows] @ theta - shift), expit(self.lower[rows] @ theta - shift)
        return np.where(np.isnan(F_u), 1.0, F_u), np.where(np.isnan(F_v), 0.0, F_v)

    def projected(self, parameters: Array) -> Array:
        """Return P r of all rows: the mean residual of a row's level."""
        F_u, F_v = self._ends(parameters, slice(None))
        return np.asarray((np.bincount(self.codes, F_u + F_v - 1.0) / np.bincount(self.codes))[self.codes])

    def loss(self, parameters: Array) -> float:
        """Return the anchor loss of all rows."""
        F_u, F_v = self._ends(parameters, slice(None))
        likelihood = np.where(self.exact, F_u * (1.0 - F_u), F_u - F_v)
        if self.slope is not None:
            likelihood *= np.where(self.exact, self.slope @ self.theta(parameters), 1.0)
        r = F_u + F_v - 1.0
        return float(np.mean(-np.log(likelihood) + self.xi * r * self.projected(parameters)))

    def gradient(self, parameters: Array, rows: Any) -> Array:
        """Return the gradient from some rows, with P r from all."""
        theta, exact = self.theta(parameters), self.exact[rows]
        F_u, F_v = self._ends(parameters, rows)
        f_u, f_v = F_u * (1.0 - F_u), F_v * (1.0 - F_v)
        width = np.where(exact, 1.0, F_u - F_v)
        pull = 2.0 * self.xi * self.projected(parameters)[rows]
        # an exact row has both ends at z: dl/dz = 1 - 2 F(z), half at each end
        at_u = np.where(exact, F_u - 0.5, -f_u / width) + pull * f_u
        at_v = np.where(exact, F_v - 0.5, f_v / width) + pull * f_v
        d_theta = np.nan_to_num(self.upper[rows]).T @ at_u + np.nan_to_num(self.lower[rows]).T @ at_v
        if self.slope is not None:
            slopes = self.slope[rows][exact]
            d_theta -= slopes.T @ (1.0 / (slopes @ theta))
        later = np.cumsum(d_theta[::-1])[::-1]  # a free parameter shifts all later thetas
        later[1:] *= expit(parameters[1 : theta.size])
        return np.asarray(np.concatenate([later, -self.X[rows].T @ (at_u + at_v)]) / at_u.size)


class Descent(NamedTuple):
    """The progress of Adam."""

    loss: float  # lowest loss so far
    seconds: float
    epochs: int
    after_paper: float | None  # loss after the paper's number of epochs
    reached: bool


def descend(rows: LogisticRows, start: Array, target: float, patience: float, seed: int = 0) -> Descent:
    """Run Adam until its loss is within 1e-4 of the target or time is up; the checks do not count as its time."""
    rng = np.random.default_rng(seed)
    w, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    n, spent, epoch, step = len(rows.X), 0.0, 0, 0
    lowest, after_paper = rows.loss(w), None
    while lowest > target + WITHIN and spent < patience:
        begin = time.perf_counter()
        order = rng.permutation(n)
        for first in range(0, n, BATCH):
            step += 1
            g = rows.gradient(w, order[first : first + BATCH])
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            w -= RATE * mean / (1.0 - 0.9**step) / (np.sqrt(square / (1.0 - 0.999**step)) + 1e-7)
        spent += time.perf_counter() - begin
        epoch += 1
        loss = rows.loss(w)
        lowest = min(lowest, loss)
        if epoch == EPOCHS:
            after_paper = loss
    return Descent(lowest, spent, epoch, after_paper, lowest <= target + WITHIN)


def _sides(make: Any, X: Array, y: Any, codes: NDArray[Any]) -> tuple[Side, Any]:
    """Return our side, and a function from patience to the side of Adam."""
    ours: Side = (
        lambda: make(xi=XI).fit(X, y, anchors=codes),
        lambda m: {"loss": m.loss_, "converged": bool(m.converged_)},
    )

    def theirs(patience: float) -> Side:
        start, target = make().fit(X, y), make(xi=XI).fit(X, y, anchors=codes).loss_
        rows = _rows(start.basis_, X, y, codes)

        def facts(found: Descent) -> Facts:
            gap = found.loss - target
            paper = "" if found.after_paper is None else f", {found.after_paper - target:.1e} after {EPOCHS}"
            note = f"gap {gap:.1e} after {found.epochs} epochs{paper}"
            instead = {} if found.reached else {"instead": f"not reached in {patience:g} s"}
            return {"loss": found.loss, "seconds": found.seconds, "note": note} | instead

        return lambda: descend(rows, rows.parameters(start.baseline_, start.coef_), target, patience), facts

    return ours, theirs


def _rows(basis: Any, X: Array, y: Any, codes: NDArray[Any]) -> LogisticRows:
    """Return the rows of classes, or of exact and right-censored responses."""
    _, levels = np.unique(codes, return_inverse=True)
    if isinstance(y, np.ndarray):
        k = int(y.max())
        ends = np.vstack([np.full(k, np.nan), np.eye(k), np.full(k, np.nan)])
        return LogisticRows(ends[y + 1], ends[y], None, np.zeros(y.size, dtype=bool), X, levels, XI)
    exact = y.lower == y.upper
    lower = basis.rows(y.lower)
    upper, slope = np.where(exact[:, None], lower, np.nan), basis.derivative_rows(y.lower)
    return LogisticRows(upper, lower, slope, exact, X, levels, XI)


def _boston(n: int) -> tuple[Side, Any]:
    """Return c-logit on BostonHousing2 with prices censored at 50, covariates standardised."""
    from anchortm.datasets import load_boston_housing2
    from anchortm.inputs.response import Surv
    from anchortm.models.transformation import ContinuousLogit

    data = load_boston_housing2().iloc[:n]
    X = data[COVARIATES].to_numpy(dtype=float)
    y = Surv(data.cmedv.to_numpy(dtype=float), data.cmedv.to_numpy() != 50)
    return _sides(ContinuousLogit, (X - X.mean(axis=0)) / X.std(axis=0), y, data.town.to_numpy())


def _wine(n: int) -> tuple[Side, Any]:
    """Return o-logit on the ratings of wine, judges as anchors."""
    from anchortm.datasets import load_wine
    from anchortm.models.transformation import OrdinalRegression

    data = load_wine().iloc[:n]
    X = np.column_stack([data.temp == "warm", data.contact == "yes"]).astype(float)
    return _sides(OrdinalRegression, X, data.rating.to_numpy() - 1, data.judge.to_numpy())


def _ordinal(n: int) -> tuple[Side, Any]:
    """Return o-logit on simulated rows with six classes and a hundred levels."""
    from anchortm.models.transformation import OrdinalRegression

    X, latent, site = simulate(n)
    return _sides(OrdinalRegression, X, classes(latent), site)


def boston_ours(n: int, patience: float) -> Side:
    """Return our c-logit fit of BostonHousing2."""
    return _boston(n)[0]


def boston_adam(n: int, patience: float) -> Side:
    """Return Adam's c-logit fit of BostonHousing2."""
    return _boston(n)[1](patience)  # type: ignore[no-any-return]


def wine_ours(n: int, patience: float) -> Side:
    """Return our o-logit fit of the wine."""
    return _wine(n)[0]


def wine_adam(n: int, patience: float) -> Side:
    """Return Adam's o-logit fit of the wine."""
    return _wine(n)[1](patience)  # type: ignore[no-any-return]


def ordinal_ours(n: int, patience: float) -> Side:
    """Return our o-logit fit of simulated rows."""
    return _ordinal(n)[0]


def ordinal_adam(n: int, patience: float) -> Side:
    """Return Adam's o-logit fit of simulated rows."""
    return _ordinal(n)[1](patience)  # type: ignore[no-any-return]
