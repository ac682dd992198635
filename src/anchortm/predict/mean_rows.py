"""New rows under a generalised linear model: their linear predictors, means and likelihoods."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchortm._util.checks import finite_numbers, flag
from anchortm.engine.mean_result import MeanResult
from anchortm.engine.rows.quadrature import MovedMeans
from anchortm.engine.rows.shifted_rows import ShiftedMeans
from anchortm.exceptions import AnchorTMWarning, InputError
from anchortm.inputs.judgement import Unknown
from anchortm.inputs.mean_outcomes import check_rows
from anchortm.inputs.response import Response
from anchortm.predict.family import AveragedFamily, FamilyDistribution
from anchortm.predict.new_rows import NewRows
from anchortm.predict.placed_rows import check_shift
from anchortm.predict.reading import ReadRows
from anchortm.predict.shifted_family import shifted_family

__all__ = ["MeanRows"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeanRows(NewRows):
    """New rows under a generalised linear model: linear predictors and means."""

    result: MeanResult

    def response(self, X: Any, y: Any) -> Response:
        """Return the outcomes; raise an error if they are not possible under the family."""
        response = super().response(X, y)
        check_rows(response, self.result.link)
        return response

    def read(
        self, X: Any, n_rows: int | None, unknown: Unknown = "error", conditional: bool = False, **numbers: Any
    ) -> ReadRows:
        """Return new rows, judged one by one; those outside the range of the link are bad."""
        read, link = super().read(X, n_rows, unknown, conditional, **numbers), self.result.link
        if self.result.random is not None or not np.isfinite(link.eta_range).any():  # averages over effects are inside
            return read
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnchorTMWarning)  # about a missing offset; the prediction warns too
            eta = read.ask(lambda X, n_rows, offset=None, **_: self.eta(X, n_rows, offset))
        return read.without(link.outside(eta), f"its mean is outside the range of the {link.link} link")

    def eta(self, X: Any, n_rows: int | None, offset: Any) -> Array:
        """Return the linear predictor of each row."""
        theta, shift = self.parts(X, n_rows, offset)
        return np.asarray(theta[0] + shift)

    def inside(self, eta: Array) -> Array:
        """Return eta; raise an error where it lies outside the range of the link."""
        link = self.result.link
        rows = np.flatnonzero(link.outside(eta))
        if rows.size:
            listed = ", ".join(map(str, rows[:5])) + (f" and {rows.size - 5} more" if rows.size > 5 else "")
            raise InputError(
                f"{link.link}(mean) = {eta[rows[0]]:.4g} at row {rows[0]} is not possible for {link.family} outcomes "
                f"(rows {listed}): these rows are outside the range of the {link.link} link; leave them out, or fit "
                f"with link={next(iter(link.links))!r}"
            )
        return eta

    def means(self, eta: Array) -> Array:
        """Return the means of rows with these linear predictors."""
        with np.errstate(over="ignore"):
            return np.asarray(self.result.link.mean(self.inside(eta)).mu)

    def averages(self, X: Any, n_rows: int | None, offset: Any) -> Array:
        """Return the means of rows, averaged over random effects and over the shift of a place if there are any."""
        if self.result.random is not None or self.law is not None:
            return self.predicted(X, n_rows, offset).mu
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        return self.means(self.eta(X, n_rows, offset))

    def predicted(
        self, X: Any, n_rows: int | None, offset: Any, trials: Any = None, conditional: bool = False
    ) -> FamilyDistribution:
        """Return the predicted distribution of each row."""
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        link, (theta, shift) = self.result.link, self.parts(X, n_rows, offset)
        numbers, eta = self.trials(trials, shift.size), np.asarray(theta[0] + shift)
        if self.result.random is None and not (conditional and flag(conditional, "conditional")):
            if self.law is not None:
                return shifted_family(link, self.inside(eta), numbers, shift, self.law)
            return FamilyDistribution(link, self.means(eta), numbers, shift)
        added, weights = self.effect_nodes(X, shift.size, conditional)
        return AveragedFamily.of(link, eta[:, None] + added, np.asarray(weights), numbers, shift)

    def eta_and_outcome(self, X: Any, y: Any, offset: Any) -> tuple[Array, Array]:
        """Return the linear predictor and the outcome of each row."""
        response, theta, shift = self.outcome_and_parts(X, y, offset)
        return np.asarray(theta[0] + shift), self.result.link.outcome(response.upper, response.trials)

    def shifted(self, X: Any, y: Any, offset: Any) -> ShiftedMeans:
        """Return the rows as functions of a shift of their linear predictors."""
        check_shift(self)
        return ShiftedMeans.of(self.result.link, *self.eta_and_outcome(X, y, offset))

    def logliks(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        """Return the log-likelihood and the score residual of each row."""
        link = self.result.link
        if self.law is not None:
            return self.shifted(X, y, offset).averages(self.law)
        eta, outcome = self.eta_and_outcome(X, y, offset)
        if self.result.random is not None:
            loglik, r = self.marginal(X, MovedMeans(link, eta, outcome))
            return loglik, -r
        with np.errstate(all="ignore"):
            return link.loglik(eta, outcome), -link.terms(eta, outcome).r

    def residuals(self, X: Any, y: Any, kind: str, offset: Any) -> Array:
        """Return the residual of each row, without random effects."""
        link, (eta, outcome) = self.result.link, self.eta_and_outcome(X, y, offset)
        self.inside(eta)
        with np.errstate(all="ignore"):
            match kind:
                case "score":
                    return np.asarray(-link.terms(eta, outcome).r)
                case "deviance":
                    terms = link.terms(eta, outcome)
                    return np.asarray(link.deviance_residuals(eta, outcome, terms).r)
                case "pearson":
                    return np.asarray(link.pearson(eta, outcome))
                case "response":
                    return np.asarray(link.response_residuals(eta, outcome))
        raise InputError(f"kind must be 'score', 'deviance', 'pearson' or 'response', not {kind!r}")

    def predictors(self, X: Any, offset: Any) -> tuple[Array, Array]:
        """Return the linear predictor of each row, or g of its average mean, and its derivatives in the parameters."""
        offset = self.offset(X, offset)
        matrix = self.matrix(X, 1 if X is None and offset is None else np.size(offset))
        eta = self.inside(self.eta(X, matrix.shape[0], offset))
        columns = np.column_stack([np.ones(matrix.shape[0]), matrix])
        return (eta, columns) if self.result.random is None else self.of_averages(X, eta, columns)

    def trials(self, trials: Any, n: int) -> Array:
        """Return the checked number of trials of each row."""
        if trials is None:
            return np.ones(n)
        if self.result.link.family != "binomial":
            raise InputError("trials are for family='binomial'")
        numbers = finite_numbers(np.broadcast_to(trials, (n,)) if np.ndim(trials) == 0 else trials, n, "trials")
        if not ((numbers >= 1.0) & (numbers == np.floor(numbers))).all():
            raise InputError("trials must be whole numbers, at least 1")
        return numbers

    def of_averages(self, X: Any, eta: Array, columns: Array) -> tuple[Array, Array]:
        """Return g of the means averaged over random effects, and its derivatives in all parameters."""
        link, random = self.result.link, self.result.random
        assert random is not None  # noqa: S101
        Z = self.effect_columns(X, eta.size)
        added, weights = random.marginal(Z)
        with np.errstate(over="ignore"):
            at = link.mean(eta[:, None] + added)
        # m = sum_k w_k mu(eta + s x_k), with s the deviation of the effects and s x_k = added
        slope, sd = (weights * at.d1).sum(axis=1), random.deviations(Z)
        spread = (weights * at.d1 * added).sum(axis=1) / np.where(sd > 0.0, sd, 1.0)
        typical = np.array([link.eta(mean) for mean in (weights * at.mu).sum(axis=1)])
        own = np.hstack([slope[:, None] * columns, spread[:, None] * random.deviation_slopes(Z)])
        return typical, own / link.mean(typical).d1[:, None]
