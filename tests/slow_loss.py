"""The stated loss of any model as a plain function of its reported numbers; nothing of the library is used.

    h = exp(z'gamma / 2) a(y)'(theta_stratum + sign sum_j (x_j - low_j) B_j) + sign (x'beta + offset + b_cluster)

    L = -(1/n) sum_i w_i l_i + (xi/n) r'Pr + (xi_scale/n) r_s'P r_s + l1 |f beta|_1 + l2/2 f beta^2 + smooth/2 |bends|^2

A residual is the derivative of its row's log-likelihood in a shift of h, taken numerically: differences of order eight.
All functions work on complex parameters, so that gradients are complex steps, exact to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np
from scipy import linalg, optimize, special

TINY = 1e-100  # of a complex step
STEP = 0.02  # of a difference in a shift
# f'(0) = sum_k c_k (f(k step) - f(-k step)) / step, with an error of the order of step^8
ORDER_EIGHT = {1: 4.0 / 5.0, 2: -1.0 / 5.0, 3: 4.0 / 105.0, 4: -1.0 / 280.0}
SECOND = {0: -205.0 / 144.0, 1: 8.0 / 5.0, 2: -1.0 / 5.0, 3: 8.0 / 315.0, 4: -1.0 / 560.0}  # of f''(0), the same way
ORDER_FOUR = {1: 2.0 / 3.0, 2: -1.0 / 12.0}


def log_logistic(z):
    return np.where(z.real < 0.0, z - np.log1p(np.exp(z)), -np.log1p(np.exp(-z)))


def log_gumbel(z):
    """Return log(1 - exp(-e^z)), by its series where the difference would lose digits."""
    small = np.exp(z)
    return np.where(z.real < -12.0, z - small / 2.0 + small**2 / 24.0, np.log(-np.expm1(-small)))


# log f, log F, log (1 - F)
LINKS = {
    "probit": (
        lambda z: -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi),
        special.log_ndtr,
        lambda z: special.log_ndtr(-z),
    ),
    "logit": (lambda z: log_logistic(z) + log_logistic(-z), log_logistic, lambda z: log_logistic(-z)),
    "cloglog": (lambda z: z - np.exp(z), log_gumbel, lambda z: -np.exp(z)),
    "loglog": (lambda z: -z - np.exp(-z), lambda z: -np.exp(-z), lambda z: log_gumbel(-z)),
}


@dataclass(frozen=True)
class SlowBasis:
    """a(y) and its derivative: linear, log-linear, steps (classes 0, 1, ...) or bernstein (in y, log y, log(1 + y))."""

    kind: str
    size: int = 2
    support: tuple[float, float] = (0.0, 1.0)
    log: float | None = None  # what is added to y before its logarithm is taken; None: y itself

    def _unit(self, y):
        if self.log is None:
            low, high = self.support
            return (y - low) / (high - low), np.full(y.shape, 1.0 / (high - low))
        low, high = np.log(np.asarray(self.support) + self.log)
        return (np.log(y + self.log) - low) / (high - low), 1.0 / ((y + self.log) * (high - low))

    def _bernstein(self, t, order):
        k = np.arange(order + 1)
        return special.binom(order, k) * t[:, None] ** k * (1.0 - t[:, None]) ** (order - k)

    def rows(self, y):
        if self.kind in ("linear", "log-linear"):
            return np.column_stack([np.ones_like(y), y if self.kind == "linear" else np.log(y)])
        if self.kind == "steps":
            return (y[:, None] == np.arange(self.size)).astype(float)
        t, _ = self._unit(y)
        inside = np.clip(t, 0.0, 1.0)
        return self._bernstein(inside, self.size - 1) + (t - inside)[:, None] * self._slope(inside)

    def _slope(self, t):
        lower = self._bernstein(t, self.size - 2)
        none = np.zeros((t.size, 1))
        return (self.size - 1) * (np.hstack([none, lower]) - np.hstack([lower, none]))

    def slopes(self, y):
        if self.kind in ("linear", "log-linear"):
            return np.column_stack([np.zeros_like(y), np.ones_like(y) if self.kind == "linear" else 1.0 / y])
        t, rate = self._unit(y)
        return self._slope(np.clip(t, 0.0, 1.0)) * rate[:, None]


def log_poisson(y, eta, _):
    return y * eta - np.exp(eta) - special.gammaln(y + 1.0)


def log_binomial(y, eta, _):
    return np.where(y == 1.0, log_logistic(eta), log_logistic(-eta))


def log_gaussian(y, eta, _):
    return -0.5 * (y - eta) ** 2 - 0.5 * math.log(2.0 * math.pi)


def log_gamma(y, eta, _):
    return -eta - y * np.exp(-eta)


def log_negative_binomial(y, eta, alpha):
    k = 1.0 / alpha
    constant = special.gammaln(y + k) - special.gammaln(k) - special.gammaln(y + 1.0)
    return constant + y * (eta + math.log(alpha)) - (y + k) * np.log1p(alpha * np.exp(eta))


FAMILIES = {
    "poisson": log_poisson,
    "binomial": log_binomial,
    "gaussian": log_gaussian,
    "gamma": log_gamma,
    "negative_binomial": log_negative_binomial,
}


@dataclass(frozen=True)
class Stated:
    """What a loss needs beside parameters: dense arrays, one entry for each row."""

    lower: np.ndarray  # rows are known to lie in (lower, upper]; equal ends are exact
    upper: np.ndarray
    X: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    A: np.ndarray  # columns of anchors, the constant among them
    engine: str = "transformation"  # mean, partial
    link: str = "probit"
    basis: SlowBasis = field(default_factory=lambda: SlowBasis("linear"))
    sign: float = -1.0
    entry: np.ndarray | None = None
    stratum: np.ndarray | None = None  # codes
    V: np.ndarray | None = None  # covariates whose effects vary, minus the low ends of their ranges
    width: float = 0.0  # of these ranges
    Z: np.ndarray | None = None  # covariates of the scale
    cluster: np.ndarray | None = None  # codes
    slope: np.ndarray | None = None  # the covariate of a random slope beside the intercept
    crossed: np.ndarray | None = None  # codes of a second random intercept, by a Laplace approximation
    family: str = ""
    alpha: float = 1.0
    residual: str = "score"
    ties: str = "efron"
    xi: float = 0.0
    xi_scale: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    smooth: float = 0.0
    bends: np.ndarray | None = None  # coefficients of curves
    n_nodes: int = 100
    tail: float = 1.0  # share of the worst environments in the penalty
    multipliers: np.ndarray | None = None  # of environments, which make the penalty of a tail smooth
    places: np.ndarray | None = None  # codes of environments that may have equal shares
    equal: tuple[bool, bool] = (False, False)  # whether they have them in the likelihood, and in the penalty
    omega: np.ndarray | None = None  # the penalty is (xi/n) s'Omega s, s = A'Wr, in place of (xi/n) r'Pr

    @property
    def n(self) -> float:
        return float(self.weights.sum().real)

    def _factors(self, which):
        """Return n / (K n_e) of the environment of each row, or 1 if each row counts alike."""
        if not self.equal[which]:
            return np.ones(self.weights.size)
        found, codes = np.unique(self.places, return_inverse=True)
        totals = np.array([self.weights[codes == e].sum() for e in range(found.size)])
        return (self.weights.sum() / (found.size * totals))[codes]

    @cached_property
    def case(self):
        """Return the weights of rows in the likelihood."""
        return self.weights * self._factors(0)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return how many parameters there are: baselines, coefficients, of the scale, standard deviations."""
        strata = 1 if self.stratum is None else int(self.stratum.max()) + 1
        varying = 0 if self.V is None else self.V.shape[1]
        baseline = {"transformation": (strata + varying) * self.basis.size, "mean": 1, "partial": 0}[self.engine]
        scale = 0 if self.Z is None else self.Z.shape[1]
        random = 0 if self.cluster is None else 1
        random += 0 if self.slope is None else 2
        return baseline, self.X.shape[1], scale, random + (self.crossed is not None)

    def split(self, w):
        """Return baselines (one row each), coefficients, scale effects, and standard deviations.

        Random intercepts and slopes have the entries of the Cholesky factor of their covariance, row by row.
        """
        ends = np.cumsum(self.sizes)
        theta, beta, gamma, tau = np.split(w, ends[:-1])
        return theta.reshape(-1, self.basis.size) if self.engine == "transformation" else theta, beta, gamma, tau

    def rows_of(self, keep):
        """Return the loss of some of the rows."""
        names = ("lower", "upper", "X", "weights", "offset", "A", "entry", "stratum", "V", "Z", "cluster")
        names += ("slope", "crossed", "places")
        parts = {name: getattr(self, name) for name in names}
        return replace(self, **{name: None if part is None else part[keep] for name, part in parts.items()})

    # rows, given random effects

    def _row_baselines(self, w):
        """Return the parameters of each row's baseline."""
        theta = self.split(w)[0]
        codes = np.zeros(self.lower.size, dtype=int) if self.stratum is None else self.stratum
        own = theta[codes]
        if self.V is not None:
            own = own + self.sign * self.V @ theta[theta.shape[0] - self.V.shape[1] :]
        return own

    @cached_property
    def _ends(self):
        """Return for each kind of term its sign, its rows, and rows of the basis at upper and lower ends."""
        lowest = {"steps": -1.0, "log-linear": 0.0}.get(self.basis.kind, -math.inf)
        if self.basis.log is not None:
            lowest = -self.basis.log
        exact = self.lower == self.upper
        found = [(1.0, "exact", exact, self.upper, self.upper)] if self.basis.kind != "steps" else []
        entry = np.full(self.lower.shape, -math.inf) if self.entry is None else self.entry
        for sign, low, high, use in (
            (1.0, self.lower, self.upper, ~exact),
            (-1.0, entry, np.full(entry.shape, math.inf), np.ones(entry.shape, dtype=bool)),
        ):
            below, above = np.isfinite(low) & (low > lowest), np.isfinite(high)
            if self.basis.kind == "steps":
                above &= high < self.basis.size
            found += [
                (sign, "left", use & above & ~below, high, None),
                (sign, "right", use & below & ~above, None, low),
                (sign, "interval", use & below & above, high, low),
            ]
        return [
            (sign, kind, mask, *(None if y is None else self.basis.rows(y[mask]) for y in (high, low)), high)
            for sign, kind, mask, high, low in found
            if mask.any()
        ]

    def rows(self, w, b=0.0, shift=0.0, stretch=0.0):
        """Return l of each row (by node, if b has columns), with h moved down by a shift and steeper by a stretch."""
        _, beta, gamma, _ = self.split(w)
        eta = self.X @ beta + self.offset
        eta = eta[:, None] + b if np.ndim(b) == 2 else eta + b
        if self.engine == "mean":
            y = self.upper[:, None] if np.ndim(b) == 2 else self.upper
            return FAMILIES[self.family](y, eta + self.split(w)[0][0] - shift, self.alpha)
        gain = np.exp((0.0 if self.Z is None else self.Z @ gamma / 2.0) + stretch + np.zeros(self.lower.size))
        own = self._row_baselines(w)
        log_pdf, log_cdf, log_sf = LINKS[self.link]
        loglik = np.zeros(eta.shape, dtype=np.result_type(w, eta, np.asarray(shift), np.asarray(stretch)))

        def h(a, mask):
            part = gain[mask] * (a * own[mask]).sum(axis=1)
            return (part[:, None] if eta.ndim == 2 else part) + self.sign * eta[mask] - shift

        for sign, kind, mask, high, low, y in self._ends:
            if kind == "exact":
                slope = gain[mask] * (self.basis.slopes(y[mask]) * own[mask]).sum(axis=1)
                part = log_pdf(h(high, mask)) + (np.log(slope)[:, None] if eta.ndim == 2 else np.log(slope))
            elif kind == "left":
                part = log_cdf(h(high, mask))
            elif kind == "right":
                part = log_sf(h(low, mask))
            else:
                part = log_between(log_cdf, log_sf, h(high, mask), h(low, mask))
            loglik[mask] += sign * part
        return loglik

    def _deviance(self, w):
        """Return sign(y - mu) sqrt(2 (l_saturated - l)), centred."""
        y = self.upper
        mu, saturated = {
            "poisson": (np.exp, special.xlogy(y, y) - y - special.gammaln(y + 1.0)),
            "binomial": (special.expit, np.zeros_like(y)),
        }[self.family]
        eta = self.X @ self.split(w)[1] + self.offset + w[0]
        D = np.sign(y - mu(eta.real)) * np.sqrt(2.0 * (saturated - self.rows(w)))
        return D - (self.weights * self._factors(1)) @ D / self.n

    def _slope(self, w, b, name):
        """Return the derivative of l in a shift or a stretch, by differences of order eight."""
        return (
            sum(
                c * (self.rows(w, b, **{name: k * STEP}) - self.rows(w, b, **{name: -k * STEP}))
                for k, c in ORDER_EIGHT.items()
            )
            / STEP
        )

    # clusters: an integral by one fixed rule

    def _nodes(self, w):
        nodes, mass = np.polynomial.hermite_e.hermegauss(self.n_nodes)
        mass = mass / mass.sum()
        tau = self.split(w)[3]
        if self.slope is None:
            return np.broadcast_to(tau[0] * nodes, (self.lower.size, nodes.size)), np.log(mass)
        first, second = (part.ravel() for part in np.meshgrid(nodes, nodes))
        b = tau[0] * first + self.slope[:, None] * (tau[1] * first + tau[2] * second)
        return b, np.log(np.outer(mass, mass).ravel())

    def _by_cluster(self, values):
        total = np.zeros((self.cluster.max() + 1, *values.shape[1:]), dtype=values.dtype)
        np.add.at(total, self.cluster, values)
        return total

    def _posterior(self, w):
        """Return nodes, log-likelihoods of clusters, and the posterior weights of nodes."""
        b, log_mass = self._nodes(w)
        joint = self._by_cluster(self.rows(w, b)) + log_mass
        top = joint.real.max(axis=1, keepdims=True)
        loglik = top + np.log(np.exp(joint - top).sum(axis=1, keepdims=True))
        return b, loglik[:, 0], np.exp(joint - loglik)

    # two crossed random intercepts: one normal approximation around the most likely effects, with dense matrices

    def _laplace(self, w):
        """Return the terms of the approximate log-likelihood, and residuals at the most likely effects."""
        codes = (self.cluster, self.crossed)
        tau = self.split(w)[3]
        Z = np.hstack([t * (c[:, None] == np.arange(c.max() + 1)) for t, c in zip(tau, codes, strict=True)])
        u = np.zeros(Z.shape[1])
        for _ in range(30):  # Newton, also for complex numbers
            ahead = {k: self.rows(w, Z @ u + k * STEP) for k in range(-4, 5)}
            first = sum(c * (ahead[k] - ahead[-k]) for k, c in ORDER_EIGHT.items()) / STEP
            second = sum(c * (ahead[k] + ahead[-k]) for k, c in SECOND.items()) / STEP**2
            H = np.eye(u.size) - Z.T @ (second[:, None] * Z)
            step = np.linalg.solve(H, Z.T @ first - u)
            if max(np.abs(step.real).max(), np.abs(step.imag).max() / TINY) < 1e-11:
                break
            u = u + step
        sign, size = np.linalg.slogdet(H)
        terms = np.concatenate([ahead[0], -0.5 * u**2, [-0.5 * (np.log(sign) + size)]])
        return terms, self._slope(w, Z @ u, "shift")

    # the partial likelihood, over all pairs of rows

    @cached_property
    def _risk(self):
        """Return for each time of events in each stratum: who has an event there, and who is at risk."""
        time, event = self.lower, self.lower == self.upper
        entry = np.full(time.shape, -np.inf) if self.entry is None else self.entry
        codes = np.zeros(time.size, dtype=int) if self.stratum is None else self.stratum
        found = []
        for code in np.unique(codes):
            for t in np.unique(time[event & (codes == code)]):
                found.append((event & (time == t) & (codes == code), (time >= t) & (entry < t) & (codes == code)))
        return found

    def _partial(self, w):
        """Return the terms of the log partial likelihood, and residuals: a row's exposure to hazard minus its event."""
        eta = self.X @ self.split(w)[1] + self.offset
        risk = self.case * np.exp(eta)
        parts, exposed = [], np.zeros_like(risk)
        for events, at_risk in self._risk:
            d, weight = int(events.sum()), self.case[events]
            parts += list(weight * eta[events])
            steps = np.arange(d) / d if self.ties == "efron" else np.zeros(d)
            for step in steps:
                at = at_risk - step * events
                sum_at = at @ risk
                parts.append(-weight.mean() * np.log(sum_at))
                exposed = exposed + weight.mean() * at / sum_at
        return np.array(parts), exposed * np.exp(eta) - (self.lower == self.upper)

    # the loss

    def terms(self, w):
        """Return weighted log-likelihoods of rows or clusters (or terms of a partial likelihood), r and r_s."""
        if self.engine == "partial":
            return *self._partial(w), None
        if self.crossed is not None:
            return *self._laplace(w), None
        if self.cluster is None:
            r_s = -self._slope(w, 0.0, "stretch") if self.xi_scale else None
            r = self._slope(w, 0.0, "shift") if self.xi else np.zeros_like(w, shape=self.lower.shape)
            if self.residual == "deviance":
                r = self._deviance(w)
            return self.case * self.rows(w), r, r_s
        b, loglik, posterior = self._posterior(w)
        each = np.zeros(loglik.size)
        each[self.cluster] = self.case  # constant within a cluster
        r, r_s = np.zeros_like(w, shape=self.lower.shape), None
        # Fisher: the derivative of a cluster's log-likelihood is that of the row, averaged over the posterior
        if self.xi:
            r = (self._slope(w, b, "shift") * posterior[self.cluster]).sum(axis=1)
        if self.xi_scale:
            r_s = -(self._slope(w, b, "stretch") * posterior[self.cluster]).sum(axis=1)
        return each * loglik, r, r_s

    @cached_property
    def _span(self):
        """Return an orthonormal basis of the weighted anchors, times the roots of the weights.

        If levels have shares of their own, a level e has sqrt(n / K) / n_e times the weights of its rows. With a form:
        columns u with Omega a sum of ``_signs`` times squares of their sums.
        """
        if self.equal[1]:
            A = self.A[:, self.A.any(axis=0)]
            own = self.weights[:, None] * A
            return own * math.sqrt(self.n / A.shape[1]) / own.sum(axis=0)
        root = np.sqrt(self.weights)[:, None]
        if self.omega is not None:
            return root**2 * self.A @ np.linalg.eigh(self.omega)[1]
        U, s, _ = np.linalg.svd(root * self.A, full_matrices=False)
        return root * U[:, s > 1e-10 * s[0]]

    @cached_property
    def _signs(self):
        """Return the factors of the squares in the penalty."""
        return 1.0 if self.omega is None else np.linalg.eigvalsh(self.omega)

    def t(self, w):
        """Return the coordinates of the projected residuals: of r, then of r_s."""
        _, r, r_s = replace(self, xi=1.0).terms(w)
        return self._span.T @ r if r_s is None else np.r_[self._span.T @ r, self._span.T @ r_s]

    def loglik(self, w):
        return replace(self, xi=0.0, xi_scale=0.0).terms(w)[0].sum()

    def squared_means(self, r):
        """Return the squared mean residual of each environment, and its share of the rows."""
        sizes = self.A.T @ self.weights
        shares = np.full(sizes.size, 1.0 / sizes.size) if self.equal[1] else sizes / self.n
        return (self.A.T @ (self.weights * r) / sizes) ** 2, shares

    def worst(self, r):
        """Return the mean of the worst squared mean residuals, which take the share of the tail."""
        values, shares = self.squared_means(r)
        left, total = self.tail, 0.0
        for e in np.argsort(-values.real):
            used = min(left, shares[e])
            total, left = total + used * values[e] / self.tail, left - used
        return total

    def penalties(self, w):
        """Return r'Pr / n, and the same of r_s; of a tail, its worst squared means."""
        _, r, r_s = replace(self, xi=1.0).terms(w)
        if self.tail < 1.0:
            return self.worst(r), 0.0
        return tuple(0.0 if v is None else (self._signs * (self._span.T @ v) ** 2).sum() / self.n for v in (r, r_s))

    def parts(self, w):
        """Return the smooth terms that the loss is a sum of: all but l1."""
        likelihood, r, r_s = self.terms(w)
        beta = self.split(w)[1]
        found = [-likelihood / self.n]
        if math.isfinite(self.xi):
            square = self._signs * (self._span.T @ r) ** 2 / self.n
            found.append(self.xi * (square if self.tail == 1.0 else self.multipliers * self.squared_means(r)[0]))
        if r_s is not None and math.isfinite(self.xi_scale):
            found.append(self.xi_scale / self.n * (self._span.T @ r_s) ** 2)
        found.append(0.5 * self.l2 * beta**2)
        if self.bends is not None:
            found.append(0.5 * self.smooth * self.bends * beta**2)
        return np.concatenate(found)

    def loss(self, w):
        """Return the loss; at xi = inf that without its penalty."""
        return self.parts(w).sum() + self.l1 * np.abs(self.split(w)[1]).sum()

    def gradients(self, w):
        """Return the gradients of all parts by complex steps, one row for each part."""
        steps = 1j * TINY * np.eye(w.size)
        start, count = self.sizes[:2]
        if count < 20 or self.cluster is not None or self.engine == "partial" or self.tail < 1.0:
            return np.column_stack([self.parts(w + step).imag for step in steps]) / TINY
        # many coefficients and rows that depend on their own predictor only: one step in all predictors, times X
        others = np.r_[:start, start + count : w.size]
        found = np.zeros((self.parts(w).size, w.size))
        found[:, others] = np.column_stack([self.parts(w + steps[j]).imag for j in others]) / TINY
        now = self.terms(w)
        then = replace(self, offset=self.offset + 1j * TINY).terms(w + 0j)
        by_column = [-self.X * then[0].imag[:, None] / TINY / self.n]
        for xi, r, moved in zip((self.xi, self.xi_scale), now[1:], then[1:], strict=True):
            if r is not None and math.isfinite(xi):
                dt = self._span.T @ (self.X * moved.imag[:, None] / TINY)
                by_column.append(2.0 * xi / self.n * (self._signs * (self._span.T @ r))[:, None] * dt)
        beta = w[start : start + count]
        by_column.append(np.diag(self.l2 * beta))
        if self.bends is not None:
            by_column.append(np.diag(self.smooth * self.bends * beta))
        found[:, start : start + count] = np.vstack(by_column)
        return found

    def gradient(self, w):
        return self.gradients(w).sum(axis=0)

    def hessian(self, w, step=1e-3):
        """Return differences of order four of the gradient."""
        size = step * np.maximum(np.abs(w), 0.1)
        columns = [
            sum(
                c * (self.gradient(w + k * size[j] * e) - self.gradient(w - k * size[j] * e))
                for k, c in ORDER_FOUR.items()
            )
            / size[j]
            for j, e in enumerate(np.eye(w.size))
        ]
        H = np.column_stack(columns)
        return 0.5 * (H + H.T)

    @cached_property
    def increments(self):
        """Return the rows c with c'w >= 0: h increases in every stratum, at both ends of each range."""
        k, d = self.basis.size, sum(self.sizes)
        if self.engine != "transformation" or k < 2:
            return np.zeros((0, d))
        step = np.eye(k)[1:] if self.basis.kind in ("linear", "log-linear") else np.diff(np.eye(k), axis=0)
        varying = 0 if self.V is None else self.V.shape[1]
        strata = self.sizes[0] // k - varying
        found = []
        for stratum, ends in product(range(strata), product((0.0, 1.0), repeat=varying)):
            row = np.zeros((step.shape[0], d))
            row[:, stratum * k : (stratum + 1) * k] = step
            for j, end in enumerate(ends):
                at = (strata + j) * k
                row[:, at : at + k] = self.sign * end * self.width * step
            found.append(row)
        return np.vstack(found)

    def held(self, w):
        """Return the increments that are zero."""
        return self.increments[np.abs(self.increments @ w) < 1e-9 * (1.0 + np.abs(w).max())]

    # what standard errors are made of

    def scores(self, w):
        """Return the gradient of d(n L)/d(weight), one row for each row or cluster: what moves with its weight.

        d(n L)/dw_i = -l_i + xi (2 r_i (Pr)_i - (Pr)_i^2) + net, because the projection depends on the weights, too.
        """
        root = np.sqrt(self.weights)
        A_plus = np.linalg.pinv(root[:, None] * self.A)
        plain = replace(self, weights=np.ones_like(self.weights), xi=1.0)

        def of_weights(v):
            likelihood, *residuals = plain.terms(v)
            net = replace(self, xi=0.0, xi_scale=0.0).parts(v)[likelihood.size :].sum()
            each = np.full(self.lower.shape, net)
            for xi, r in zip((self.xi, self.xi_scale), residuals, strict=True):
                if r is not None:
                    P_r = self.A @ (A_plus @ (root * r))
                    each = each + xi * (2.0 * r * P_r - P_r**2)
            return (each if self.cluster is None else self._by_cluster(each)) - likelihood

        return np.column_stack([of_weights(w + 1j * TINY * e).imag for e in np.eye(w.size)]) / TINY

    def weight_scores(self, w, step=1e-3):
        """Return the same for a partial likelihood, whose rows depend on each other: differences in each weight."""
        found = []
        for j in range(self.weights.size):
            ends = []
            for sign in (1.0, -1.0):
                moved = self.weights.copy()
                moved[j] += sign * step
                other = replace(self, weights=moved)
                ends.append(other.n * other.gradient(w))
            found.append((ends[0] - ends[1]) / (2.0 * step))
        return np.array(found)

    def influence(self, w):
        """Return what the weight of each row or cluster does to each parameter, and these weights."""
        each = self.weights
        if self.cluster is not None:
            each = np.zeros(self.cluster.max() + 1)
            each[self.cluster] = self.weights
        joint = self.engine == "partial" or any(self.equal)
        scores = self.weight_scores(w) if joint else self.scores(w)
        free = free_directions(self, w)
        H = free.T @ (self.n * self.hessian(w)) @ free
        return -free @ np.linalg.solve(H, free.T @ scores.T), each

    def sandwich(self, w):
        """Return the covariance of all parameters by the influences of k rows or clusters, times k / (k - 1)."""
        influence, each = self.influence(w)
        return (influence * each) @ influence.T * each.sum() / (each.sum() - 1.0)

    def log_hazard(self, w, x, t):
        """Return the logarithm of the cumulative hazard of a row with covariates x at t, of a partial likelihood."""
        beta = self.split(w)[1]
        risk, total = self.weights * np.exp(self.X @ beta + self.offset), 0.0
        for events, at_risk in self._risk:
            if self.lower[events][0] <= t:
                d = int(events.sum())
                for step in np.arange(d) / d if self.ties == "efron" else np.zeros(d):
                    total = total + self.weights[events].mean() / ((at_risk - step * events) @ risk)
        return np.log(total) + x @ beta

    def hazard_errors(self, w, rows, times):
        """Return standard errors of ``log_hazard``, by the influences of rows through w and in its own weights."""
        influence, each = self.influence(w)
        found = np.zeros((len(rows), len(times)))
        for j, t in enumerate(times):
            own = np.zeros(each.size)  # does not depend on x
            for i, e in enumerate(np.eye(each.size)):
                own[i] = replace(self, weights=self.weights + 1j * TINY * e).log_hazard(w, rows[0], t).imag / TINY
            for i, x in enumerate(rows):
                slope = [self.log_hazard(w + 1j * TINY * e, x, t).imag / TINY for e in np.eye(w.size)]
                found[i, j] = each @ (slope @ influence + own) ** 2
        return np.sqrt(found * each.sum() / (each.sum() - 1.0))

    def covariance_measure(self, w):
        """Return the generalised covariance measure of score residuals and anchors, and its degrees of freedom."""
        r = replace(self, xi=1.0, residual="score").terms(w)[1]
        strata = [] if self.stratum is None else [self.stratum[:, None] == np.unique(self.stratum)[1:]]
        varying = [] if self.V is None else [self.V]
        Z = np.column_stack([np.ones(len(self.X)), self.X, *strata, *varying]).astype(float)
        A, root = self.A[:, 1:], np.sqrt(self.weights)[:, None]
        left = A - Z @ np.linalg.lstsq(root * Z, root * A, rcond=None)[0]
        L = r[:, None] * left
        mean = np.average(L, axis=0, weights=self.weights)
        sigma = (self.weights[:, None] * L).T @ L / self.n - np.outer(mean, mean)
        return float(self.n * mean @ np.linalg.solve(sigma, mean)), A.shape[1]

    def score_statistic(self, w):
        """Return Rao's statistic of centred anchors as covariates, at a fit with xi = 0, and its degrees of freedom.

        Variances of random effects, and increments that are held at zero, count as known.
        """
        base, coef = self.sizes[:2]
        A = self.A - np.average(self.A, axis=0, weights=self.weights)
        q = A.shape[1]
        longer = replace(self, X=np.hstack([self.X, A]), xi=0.0, xi_scale=0.0, bends=None)
        at = np.insert(w.astype(float), [base + coef] * q, 0.0)
        new = np.zeros(at.size, dtype=bool)
        new[base + coef : base + coef + q] = True
        known = np.vstack([self.held(w), np.eye(w.size)[w.size - self.sizes[3] :]])
        old = linalg.null_space(known) if known.size else np.eye(w.size)
        free = np.zeros((at.size, q + old.shape[1]))
        free[np.ix_(new, np.arange(q))] = np.eye(q)
        free[np.ix_(~new, np.arange(q, free.shape[1]))] = old
        s = longer.n * longer.gradient(at)[new]
        H = free.T @ (longer.n * longer.hessian(at)) @ free
        bracket = H[:q, :q] - H[:q, q:] @ np.linalg.solve(H[q:, q:], H[q:, :q])
        value, vectors = np.linalg.eigh(bracket)
        use = value > 1e-7 * np.trace(H[:q, :q])
        return float(((vectors[:, use].T @ s) ** 2 / value[use]).sum()), int(use.sum())


def free_directions(stated, w):
    """Return the directions along which no increment that is held at zero moves."""
    held = stated.held(w)
    return linalg.null_space(held) if held.size else np.eye(w.size)


def violations(stated, w):
    """Return how far w is from a minimum of the loss, condition by condition; all of them are 0 at one.

    The gradient must be a sum of multipliers: not negative for increments that are held at zero, within l1 for
    coefficients that are zero, of any size for the projected residuals, which are zero at xi = inf. What remains of a
    slope is compared with the sum of the sizes of what the slope is a sum of.
    """
    unit, bound = np.ones(w.size), np.zeros((0, w.size))
    if stated.sizes[3] == 1 and w[-1] < 1e-6:  # a variance of zero: the slope in the variance must not be negative
        w, unit[-1], bound = np.r_[w[:-1], 1e-4], 2e-4, np.eye(w.size)[-1:]
    parts = stated.gradients(w) / unit
    g, size = parts.sum(axis=0), np.abs(parts).sum(axis=0) + 1e-3
    coefs = np.arange(w.size)[stated.sizes[0] : sum(stated.sizes[:2])]
    g[coefs] += stated.l1 * np.sign(w[coefs])
    found = {"increments": max(0.0, -(stated.increments @ w).min(initial=0.0))}
    if stated.tail < 1.0 and math.isfinite(stated.xi):  # the multipliers are those of the worst environments
        r = replace(stated, xi=1.0).terms(w)[1]
        values, shares = stated.squared_means(r)
        lam = stated.multipliers
        found["multipliers"] = max(abs(lam.sum() - 1.0), -lam.min(), (lam - shares / stated.tail).max())
        found["tail"] = abs(lam @ values - stated.worst(r)) / (1e-12 + stated.worst(r))
    held = np.vstack([stated.held(w), bound])
    zero = np.eye(w.size)[coefs[w[coefs] == 0.0]] if stated.l1 else np.zeros((0, w.size))
    T = np.zeros((0, w.size))
    if math.isinf(stated.xi):
        T = np.column_stack([stated.t(w + 1j * TINY * e).imag for e in np.eye(w.size)]) / TINY / unit
        found["projected residuals"] = np.abs(stated.t(w)).max() / math.sqrt(stated.n)
    columns = np.vstack([held, zero, T])
    remaining = g / size
    if columns.size:
        low = np.r_[np.zeros(len(held)), np.full(len(zero), -stated.l1), np.full(len(T), -np.inf)]
        high = np.r_[np.full(len(held), np.inf), np.full(len(zero), stated.l1), np.full(len(T), np.inf)]
        solved = optimize.lsq_linear((columns / size).T, g / size, (low, high), method="bvls", tol=1e-15)
        remaining = g / size - (columns / size).T @ solved.x
    found["slopes"] = np.abs(remaining).max()
    return found


def log_between(log_cdf, log_sf, u, v):
    """Return log(F(u) - F(v)) from the side where it loses no digits."""
    left = log_cdf(u) + np.log(-np.expm1(log_cdf(v) - log_cdf(u)))
    right = log_sf(v) + np.log(-np.expm1(log_sf(u) - log_sf(v)))
    return np.where((u + v).real < 0.0, left, right)
