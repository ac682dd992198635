"""A slow and plain fit of the anchor loss, written from its definition alone; nothing of the library is used.

    L(w) = -(1/n) sum_i weight_i l_i(w) + (xi/n) |P r(w)|^2,    r_i = d l_i / d alpha of F(h - alpha) at alpha = 0

Everything works on complex numbers and on many parameter vectors at a time, so that gradients are complex steps,
exact to rounding, and Hessians their differences. Minima come from scipy's SLSQP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import optimize, special

TINY = 1e-100  # of a complex step


def log_minus_expm1(x):
    """Return log(1 - exp(x)) for x < 0."""
    return np.log(-special.expm1(x))


def log_minus_expm1_of_exp(z):
    """Return log(1 - exp(-e^z)), by its series where e^z times a complex step would underflow."""
    small = np.exp(z)
    return np.where(z.real < -20.0, z - small / 2.0 + small**2 / 24.0, log_minus_expm1(-small))


class Normal:
    @staticmethod
    def log_pdf(z):
        return -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)

    @staticmethod
    def log_cdf(z):
        return special.log_ndtr(z)

    @staticmethod
    def log_sf(z):
        return special.log_ndtr(-z)

    @staticmethod
    def score(z):
        return -z


class Logistic:
    @staticmethod
    def log_pdf(z):
        return Logistic.log_cdf(z) + Logistic.log_sf(z)

    @staticmethod
    def log_cdf(z):
        return np.where(z.real < 0.0, z - special.log1p(np.exp(z)), -special.log1p(np.exp(-z)))

    @staticmethod
    def log_sf(z):
        return Logistic.log_cdf(-z)

    @staticmethod
    def score(z):
        return -np.tanh(0.5 * z)


class MinimumExtremeValue:
    @staticmethod
    def log_pdf(z):
        return z - np.exp(z)

    @staticmethod
    def log_cdf(z):
        return log_minus_expm1_of_exp(z)

    @staticmethod
    def log_sf(z):
        return -np.exp(z)

    @staticmethod
    def score(z):
        return 1.0 - np.exp(z)


class MaximumExtremeValue:
    @staticmethod
    def log_pdf(z):
        return -z - np.exp(-z)

    @staticmethod
    def log_cdf(z):
        return -np.exp(-z)

    @staticmethod
    def log_sf(z):
        return log_minus_expm1_of_exp(-z)

    @staticmethod
    def score(z):
        return np.exp(-z) - 1.0


LINKS = {"probit": Normal, "logit": Logistic, "cloglog": MinimumExtremeValue, "loglog": MaximumExtremeValue}


@dataclass(frozen=True)
class Baseline:
    """h_0(y) = a(y)'theta, with theta = matrix @ delta + fixed and delta at or above ``floor``."""

    kind: str  # linear, log-linear, bernstein, count or ordinal
    order: int = 1
    support: tuple[float, float] = (0.0, 1.0)
    log_first: bool = False
    natural: bool = False
    slope: float | None = None  # of log-linear, if it is not a parameter
    classes: int = 0

    @property
    def bound(self) -> float:
        """Return the value at and below which the outcome cannot lie."""
        if self.kind in ("ordinal", "count"):
            return -1.0
        return 0.0 if self.kind == "log-linear" or (self.kind == "bernstein" and self.log_first) else -math.inf

    def place(self, y):
        """Return y as t, which runs from 0 to 1 over the support, and dt/dy."""
        shift = 1.0 if self.kind == "count" and self.log_first else 0.0
        low, high = self.support[0] + shift, self.support[1] + shift
        if self.log_first:
            width = math.log(high / low)
            return np.log((y + shift) / low) / width, 1.0 / ((y + shift) * width)
        return (y - low) / (high - low), np.full(y.shape, 1.0 / (high - low))

    def rows(self, y):
        if self.kind in ("linear", "log-linear"):
            return np.column_stack([np.ones_like(y), y if self.kind == "linear" else np.log(y)])
        if self.kind == "ordinal":
            return (y[:, None] == np.arange(self.classes - 1)).astype(float)
        t, _ = self.place(y)
        inside = np.clip(t, 0.0, 1.0)
        return bernstein(self.order, inside) + (t - inside)[:, None] * bernstein_slope(self.order, inside)

    def slopes(self, y):
        if self.kind in ("linear", "log-linear"):
            return np.column_stack([np.zeros_like(y), np.ones_like(y) if self.kind == "linear" else 1.0 / y])
        t, rate = self.place(y)
        return bernstein_slope(self.order, np.clip(t, 0.0, 1.0)) * rate[:, None]

    @property
    def size(self) -> int:
        return {"linear": 2, "log-linear": 2, "ordinal": self.classes - 1}.get(self.kind, self.order + 1)

    @cached_property
    def constraints(self):
        """Return matrix, fixed and floor."""
        if self.kind in ("linear", "log-linear"):
            if self.slope is not None:
                return np.eye(2)[:, :1], np.array([0.0, self.slope]), np.array([-np.inf])
            return np.eye(2), np.zeros(2), np.array([-np.inf, 0.0])
        k = self.size
        steps = np.tril(np.ones((k, k)))
        floor = np.r_[-np.inf, np.zeros(k - 1)]
        if self.natural and self.order > 1:
            # no curvature at the ends: the two first and the two last increments are equal
            if self.order == 2:
                steps, floor = np.column_stack([steps[:, 0], steps[:, 1] + steps[:, 2]]), floor[:2]
            elif self.order == 3:
                steps, floor = np.column_stack([steps[:, 0], steps[:, 1:].sum(axis=1)]), floor[:2]
            else:
                ends = (steps[:, 1] + steps[:, 2], steps[:, -2] + steps[:, -1])
                steps = np.column_stack([steps[:, 0], ends[0], steps[:, 3:-2], ends[1]])
                floor = np.r_[-np.inf, np.zeros(steps.shape[1] - 1)]
        return steps, np.zeros(k), floor


def bernstein(order, t):
    j = np.arange(order + 1)
    return special.comb(order, j) * t[:, None] ** j * (1.0 - t[:, None]) ** (order - j)


def bernstein_slope(order, t):
    lower = bernstein(order - 1, t)
    zero = np.zeros((t.size, 1))
    return order * (np.hstack([zero, lower]) - np.hstack([lower, zero]))


@dataclass(frozen=True)
class SlowModel:
    """The anchor loss of dense data; x = (delta, beta) are its free parameters."""

    link: str
    baseline: Baseline
    lower: np.ndarray  # rows are known to lie in (lower, upper]; equal ends are exact
    upper: np.ndarray
    X: np.ndarray
    sign: float  # of x'beta in h
    weights: np.ndarray
    offset: np.ndarray
    A: np.ndarray | None  # columns of anchors, the constant among them if it belongs there
    xi: float
    entry: np.ndarray | None = None
    exit: np.ndarray | None = None

    @property
    def n(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def floor(self):
        return np.r_[self.baseline.constraints[2], np.full(self.X.shape[1], -np.inf)]

    @property
    def size(self) -> int:
        return self.floor.size

    @cached_property
    def ends(self):
        """Return masks, basis rows of both ends of each kind of row: observed, then truncated."""
        baseline = self.baseline
        exact = self.lower == self.upper
        found = [("exact", exact, baseline.rows(self.upper[exact]), baseline.slopes(self.upper[exact]))]
        if baseline.kind in ("ordinal", "count"):
            found = []
        pairs = [(1.0, self.lower, self.upper, ~exact)]
        if self.entry is not None or self.exit is not None:
            nothing = np.full(self.lower.shape, np.inf)
            entry = -nothing if self.entry is None else self.entry
            exit_ = nothing if self.exit is None else self.exit
            pairs.append((-1.0, entry, exit_, np.ones(exact.shape, dtype=bool)))
        for sign, low, high, use in pairs:
            below, above = np.isfinite(low) & (low > baseline.bound), np.isfinite(high)
            for kind, mask in (
                ("left", use & above & ~below),
                ("right", use & below & ~above),
                ("interval", use & below & above),
            ):
                upper = baseline.rows(high[mask]) if kind != "right" else None
                lower = baseline.rows(low[mask]) if kind != "left" else None
                found.append((kind if sign > 0 else "-" + kind, mask, upper, lower))
        return [entry for entry in found if entry[1].any()]

    def parameters(self, x):
        """Return theta and beta, for one vector or a column for each of several."""
        matrix, fixed, _ = self.baseline.constraints
        k = matrix.shape[1]
        return matrix @ x[:k] + (fixed if x.ndim == 1 else fixed[:, None]), x[k:]

    def free(self, theta, beta):
        """Return x from parameters that satisfy the equalities, increments of rounding size set to zero."""
        matrix, fixed, floor = self.baseline.constraints
        delta = np.linalg.lstsq(matrix, theta - fixed, rcond=None)[0]
        bounded = np.isfinite(floor)
        small = 1e-12 * (1.0 + np.abs(theta).max())
        delta[bounded & (np.abs(delta) < small)] = 0.0
        return np.r_[delta, beta]

    def terms(self, x):
        """Yield the parts that l and r are sums of: rows, sign, l, r, and how large the numbers inside them are."""
        theta, beta = self.parameters(x)
        F = LINKS[self.link]
        shift = self.sign * (self.X @ beta + self.offset[:, None])
        for kind, mask, upper, lower in self.ends:
            if kind == "exact":
                z, slope = upper @ theta + shift[mask], lower @ theta
                loglik = np.where(slope.real > 0.0, F.log_pdf(z) + np.log(slope), -np.inf)
                yield mask, 1.0, loglik, -F.score(z), np.abs(z) ** 2
                continue
            u = None if upper is None else upper @ theta + shift[mask]
            v = None if lower is None else lower @ theta + shift[mask]
            yield mask, -1.0 if kind[0] == "-" else 1.0, *censored(F, u, v)

    def rows(self, x):
        """Return l and r, one row of numbers for each row of the data."""
        many = x if x.ndim == 2 else x[:, None]
        loglik = np.zeros((self.lower.size, many.shape[1]), dtype=many.dtype)
        r = np.zeros_like(loglik)
        with np.errstate(all="ignore"):
            for mask, sign, part, residual, _ in self.terms(many):
                loglik[mask] += sign * part
                r[mask] += sign * residual
        return (loglik, r) if x.ndim == 2 else (loglik[:, 0], r[:, 0])

    def noise(self, x):
        """Return about what rounding may leave in l and r of each row."""
        theta, beta = self.parameters(x)
        size = 1.0 + np.abs(self.X) @ np.abs(beta)
        for _, mask, upper, lower in self.ends:  # h is a sum of such products
            size[mask] += sum(np.abs(rows) @ np.abs(theta) for rows in (upper, lower) if rows is not None)
        with np.errstate(all="ignore"):
            for mask, _, part, residual, inside in self.terms(x[:, None]):
                size[mask] += (np.abs(part) + np.abs(residual) + inside)[:, 0]
        return 1e-12 * size

    @cached_property
    def directions(self):
        """Return an orthonormal basis of the span of the weighted anchors, times the roots of the weights."""
        if self.A is None:
            return np.zeros((self.lower.size, 0))
        root = np.sqrt(self.weights)[:, None]
        A = self.A - 0.0
        size = np.abs(A).max(axis=0)
        U, s, _ = np.linalg.svd(root * A / np.where(size > 0.0, size, 1.0), full_matrices=False)
        return root * U[:, s > 1e-10 * s[0]]

    def t(self, x):
        """Return the coordinates of the projected residuals."""
        with np.errstate(all="ignore"):
            return self.directions.T @ self.rows(x)[1]

    def loglik(self, x):
        return self.weights @ self.rows(x)[0]

    def penalty(self, x):
        return (self.t(x) ** 2).sum(axis=0) / self.n

    def loss(self, x):
        """Return the anchor loss; at xi = inf without its penalty."""
        loglik, r = self.rows(x)
        with np.errstate(all="ignore"):
            nll = -(self.weights @ loglik) / self.n
            if self.xi == 0.0 or math.isinf(self.xi):
                return nll
            return nll + self.xi * ((self.directions.T @ r) ** 2).sum(axis=0) / self.n

    def gradient(self, x):
        """Return the gradient by complex steps; of several columns, one gradient in each."""
        d = self.size
        many = x if x.ndim == 2 else x[:, None]
        steps = many[:, None, :] + 1j * TINY * np.eye(d)[:, :, None]
        found = self.loss(steps.reshape(d, -1)).imag.reshape(d, -1) / TINY
        return found if x.ndim == 2 else found[:, 0]

    def jacobian(self, x):
        """Return dt/dx."""
        return self.t(x[:, None] + 1j * TINY * np.eye(self.size)).imag / TINY

    def hessian(self, x, J=None, step=1e-5):
        """Return central differences of the gradient along the columns of J, one-sided where a bound is near."""
        d = self.size
        J = np.diag(step * (1.0 + np.abs(x))) / step if J is None else J
        room = (x - step * np.abs(np.diag(J)) >= self.floor).astype(float)
        g = J.T @ self.gradient(np.hstack([x[:, None] + step * J, x[:, None] - step * J * room]))
        H = (g[:, :d] - g[:, d:]) / (step * (1.0 + room))
        return 0.5 * (H + H.T)

    @cached_property
    def standard(self):
        """Return dx/dv for parameters v of columns with mean 0 and deviation 1."""
        matrix = self.baseline.constraints[0]
        rows = [
            part @ matrix
            for kind, _, upper, lower in self.ends
            if kind[0] != "-"
            for part in ((upper,) if kind == "exact" else (upper, lower))
            if part is not None
        ]
        a = np.vstack(rows)
        mean = np.r_[0.0, a[:, 1:].mean(axis=0), self.sign * self.X.mean(axis=0)]
        deviation = np.r_[1.0, a[:, 1:].std(axis=0), self.X.std(axis=0)]
        deviation = np.where(deviation > 0.0, deviation, 1.0)
        J = np.diag(1.0 / deviation)
        J[0, 1:] = -(mean / deviation)[1:]
        return J

    def units(self, x):
        """Return T for parameters v with x = T v, each of which has a curvature of about one near x.

        Only the first of x, which is free, depends on more than one of v.
        """
        with np.errstate(all="ignore"):
            curvature = np.abs(np.diag(self.hessian(x, self.standard)))
        return self.standard / np.sqrt(np.where(np.isfinite(curvature), np.clip(curvature, 1e-6, 1e12), 1.0))

    def inside(self, x):
        """Return x with what is below its floor put on it."""
        return np.maximum(x, self.floor if x.ndim == 1 else self.floor[:, None])

    def minimise(self, start, max_iter=200):
        """Return the minimum that SLSQP finds from a start, and its loss."""
        start = self.inside(start)
        T = self.units(start)
        bounds = [(low if np.isfinite(low) else None, None) for low in self.floor / np.diag(T)]

        def value(v):
            x = self.inside(T @ v)
            loss, gradient = self.loss(x), self.gradient(x)
            if not (np.isfinite(loss) and np.isfinite(gradient).all()):
                return 1e10, np.zeros_like(v)
            return loss, T.T @ gradient

        constraints = []
        if math.isinf(self.xi):
            U, s, _ = np.linalg.svd(self.jacobian(start) @ T, full_matrices=False)
            U = U[:, s > 1e-8 * s[0]]  # constraints that say something
            constraints = [
                {
                    "type": "eq",
                    "fun": lambda v: U.T @ self.t(self.inside(T @ v)),
                    "jac": lambda v: U.T @ self.jacobian(self.inside(T @ v)) @ T,
                }
            ]
        with np.errstate(all="ignore"):
            found = optimize.minimize(
                value,
                np.linalg.solve(T, start),
                jac=True,
                method="SLSQP",
                bounds=bounds,
                constraints=constraints,
                options={"maxiter": max_iter, "ftol": 1e-14},
            )
        x = self.inside(T @ found.x)
        return x, float(self.loss(x))

    def typical_start(self, rng):
        """Return increasing increments and small coefficients, random."""
        bounded = np.isfinite(self.floor)
        spread = np.maximum(self.X.std(axis=0), 1e-300)
        x = np.r_[rng.normal(size=self.size - spread.size), 0.5 * rng.normal(size=spread.size) / spread]
        x[bounded] = rng.exponential(size=bounded.sum()) * 3.0 / max(1, bounded.sum())
        if self.baseline.kind == "linear":
            finite = np.r_[self.lower[np.isfinite(self.lower)], self.upper[np.isfinite(self.upper)]]
            x[1] /= finite.std()
            x[0] -= x[1] * finite.mean()
        if self.X.shape[1]:
            x[0] -= self.sign * self.X.mean(axis=0) @ x[-self.X.shape[1] :]
        x[0] -= self.sign * self.offset.mean()
        return x

    def follow(self, start, steps):
        """Return the minimum at xi, followed from a minimum at xi = 0 through many small steps."""
        x, _ = replace(self, xi=0.0).minimise(start)
        for xi in np.expm1(np.linspace(0.0, math.log1p(self.xi), steps + 1))[1:]:
            x, _ = replace(self, xi=float(xi)).minimise(x, 100)
        return x

    def recession(self):
        """Return a direction along which the likelihood never falls and somewhere grows, or None.

        A linear programme: ends of censored rows may move outwards only, exact rows not at all but to steeper slopes.
        """
        matrix = self.baseline.constraints[0]
        equal, above = [], []

        def whole(rows, mask, covariates=True):
            X = self.sign * self.X[mask]
            return np.hstack([rows @ matrix, X if covariates else np.zeros_like(X)])

        for kind, mask, upper, lower in self.ends:
            side = -1.0 if kind[0] == "-" else 1.0
            if kind == "exact":
                equal.append(whole(upper, mask))
                above.append(whole(lower, mask, covariates=False))
                continue
            if upper is not None:
                above.append(side * whole(upper, mask))
            if lower is not None:
                above.append(-side * whole(lower, mask))
        G = np.vstack(above)
        G = G / np.maximum(np.abs(G).max(axis=1, keepdims=True), 1e-300)
        E = np.vstack(equal) if equal else None
        if E is not None:
            size = np.abs(E).max(axis=0)
            _, s, Vt = np.linalg.svd(E / np.where(size > 0.0, size, 1.0), full_matrices=True)
            rank = int((s > 1e-9 * s[0]).sum())
            if rank == self.size:
                return None
            N = Vt[rank:].T / np.where(size > 0.0, size, 1.0)[:, None]
        else:
            N = np.eye(self.size)
        N = N / np.abs(N).max(axis=0)
        low = np.where(np.isfinite(self.floor), 0.0, -1.0)
        inside = G @ N
        inside[np.abs(inside) < 1e-12] = 0.0
        found = optimize.linprog(
            -inside.sum(axis=0),
            A_ub=np.vstack([-inside, N, -N]),
            b_ub=np.r_[np.zeros(G.shape[0]), np.ones(self.size), -low],
            bounds=(None, None),
            method="highs",
        )
        if found.status != 0 or -found.fun < 1e-7:
            return None
        return N @ found.x


def censored(F, u, v):
    """Return log P(v < Z <= u), the score residual (f(v) - f(u)) / P and the size of its parts; None is infinite."""
    if v is None:
        p = np.exp(F.log_pdf(u) - F.log_cdf(u))
        return F.log_cdf(u), -p, np.abs(p) ** 2
    if u is None:
        q = np.exp(F.log_pdf(v) - F.log_sf(v))
        return F.log_sf(v), q, np.abs(q) ** 2
    low = F.log_cdf(u) + log_minus_expm1(F.log_cdf(v) - F.log_cdf(u))
    high = F.log_sf(v) + log_minus_expm1(F.log_sf(u) - F.log_sf(v))
    loglik = np.where((u + v).real < 0.0, low, high)
    loglik = np.where((u - v).real > 0.0, loglik, -np.inf)
    p, q = np.exp(F.log_pdf(u) - loglik), np.exp(F.log_pdf(v) - loglik)
    # the probability is a difference: its relative rounding grows with p and q
    return loglik, q - p, np.abs(p) ** 2 + np.abs(q) ** 2
