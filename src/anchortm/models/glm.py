"""AnchorGLM: generalised linear models with the anchor penalty, on score or deviance residuals."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from anchortm._util.checks import finite_numbers, level_between
from anchortm._util.frames import aligned
from anchortm.bases import Basis, ConstantBasis
from anchortm.engine.objective.penalised import Net
from anchortm.engine.objective.plain import MeanObjective, Objective, Sums
from anchortm.engine.problem import Data
from anchortm.engine.rows.factor_hessian import Arrow
from anchortm.engine.solve.continuation import solve
from anchortm.engine.solve.newton import Options, Solution, minimise
from anchortm.exceptions import IdentificationError, InputError, InputTypeError
from anchortm.families import FAMILIES, Family, get_family, likeliest_shape
from anchortm.inputs.design import to_design
from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Response, as_response
from anchortm.models.base import TransformationModel, model
from anchortm.models.fitted import one_column
from anchortm.models.transformation import _ATTRIBUTES, _SHARED, _Regressor
from anchortm.predict.family import FamilyDistribution

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AnchorGLM"]

Array = NDArray[np.float64]

RATIOS = {
    "poisson-log": "rate ratio",
    "negative_binomial-log": "rate ratio",
    "binomial-logit": "odds ratio",
    "binomial-log": "risk ratio",
    "binomial-cloglog": "hazard ratio",
    "gamma-log": "ratio of means",
    "gaussian-log": "ratio of means",
}
SAVED = ("deviance_", "pearson_", "quasi_loglik_", "dispersion_", "alpha_")  # in files
ALPHAS = (1e-6, 1e4)  # between which the maximum-likelihood alpha is looked for
ALPHA_STEP = 1e-4  # in log(alpha), of differences
SIZES = (1e-140, 1e140)  # of outcomes whose squares and their sums are numbers
NOTHING_LEFT = 1e-20  # of a variance, relative to that of y

_OWN = """family : {"poisson", "binomial", "gamma", "negative_binomial", "gaussian"}
        Distribution of y given x. Binomial outcomes are 0 and 1, booleans, or ``Trials(successes, trials)``.
    link : str, optional
        The function g with g(mean) = intercept + x'beta + offset. By default the canonical one, and log for gamma and
        negative binomial. Others: poisson identity, sqrt; binomial probit, cloglog, loglog, log; gamma inverse
        (canonical), identity; negative_binomial identity, sqrt; gaussian log.
    residual : {"score", "deviance"}
        Residuals of the penalty: dl/deta (with a canonical link y - mean), or signed roots of the deviance, less
        their mean, because they are not 0 on average.
    alpha : float or "ml"
        Of the negative binomial, whose variance is mean + alpha mean^2. "ml" estimates it by maximum likelihood,
        together with the coefficients at xi = 0, and holds it along the path.
    dispersion : {"pearson", "ml"} or float, optional
        How the dispersion is estimated after the fit, or its value. By default Pearson's chi-square by its degrees of
        freedom for gamma and gaussian, and 1 for the others, as in R and statsmodels. "ml" is for gamma and gaussian.
        It enters standard errors, and the predicted distributions of gamma and gaussian.
    """
_INTERCEPT = ": the intercept."
_MORE = """intercept_ : float
        The same as a number.
    dispersion_ : float
        Of the rows of the fit: their variance is dispersion_ times the variance function.
    alpha_ : float
        Of the negative binomial; None for others.
    deviance_ : float
        Twice the log-likelihood that is lacking to a perfect fit, at dispersion 1.
    pearson_ : float
        Pearson's chi-square, at dispersion 1.
    quasi_loglik_ : float
        Log-likelihood at dispersion 1, as the loss has it.
    """


def _binomial(estimator: Any) -> bool:
    if estimator.family != "binomial":
        raise AttributeError(f"predict_proba is for family='binomial', not {estimator.family!r}: use predict")
    return True


@model
class AnchorGLM(_Regressor, TransformationModel):  # noqa: D101
    __doc__ = f"""Generalised linear models: g(E[y|x]) = intercept + x'beta + offset, with the anchor penalty.

    The loss is the mean negative log-likelihood at dispersion 1 plus xi times the mean square of the residuals'
    projection on the anchors. At xi = 0 the fit is that of R's glm and statsmodels. As xi grows the residuals become
    uncorrelated with the anchors; with as many anchor directions as parameters the limit solves A'(y - mean) = 0, for
    binary outcomes the instrumental variable estimator of Foster.

    Parameters
    ----------{_SHARED.format(own=_OWN)}{_ATTRIBUTES.format(baseline=_INTERCEPT, own=_MORE)}
    See Also
    --------
    anchortm.CountRegression, anchortm.OrdinalRegression, anchortm.NormalLinear : transformation models
    anchortm.predict.FamilyDistribution : what it predicts

    Notes
    -----
    ``strata``, ``varying``, ``scale`` and ``random`` belong to models with a baseline, and are refused. ``loglik_``
    includes the dispersion, ``loss_`` does not.

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_grouseticks()
    >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT + C(YEAR) | LOCATION", data, xi=0.1, family="poisson")
    >>> model.summary().frame()[["coef", "rate ratio"]].round(2)
                   coef  rate ratio
    covariate
    cHEIGHT       -0.02        0.98
    C(YEAR)[T.96] -0.14        0.87
    C(YEAR)[T.97] -1.83        0.16
    """

    _sign = 1.0
    _varies = False
    _takes_trials = True
    family: str = "gaussian"
    link: str | None = None
    residual: Literal["score", "deviance"] = "score"
    alpha: Any = 1.0
    dispersion: Any = None

    @property
    def _scale(self) -> Any:
        return "count" if self.family in ("poisson", "binomial", "negative_binomial") else "continuous"

    @property
    def _inverse_of(self) -> str:  # type: ignore[override]
        if not self._alpha_estimated:
            return "inverse expected information"
        wide = isinstance(getattr(self, "_information", None), Arrow)
        return "inverse expected information, alpha as known" if wide else "inverse Hessian, alpha included"

    @property
    def _effect(self) -> str:  # type: ignore[override]
        return RATIOS.get(self._make_link().name, "")

    def _make_link(self) -> Any:
        return replace(get_family(self.family, self.link, self.alpha, self.residual), estimate=self.dispersion)

    def _make_basis(self, response: Response, weights: Array | None) -> Basis:
        return ConstantBasis(self._make_link().discrete)

    def _check_limits(self) -> None:
        super()._check_limits()
        family = self._make_link()
        if any(given is not None for given in (self.strata, self.varying, self.scale, self.random)):
            raise InputError(
                "strata, varying, scale and random effects are for models with a baseline in y: take CountRegression, "
                "OrdinalRegression or ContinuousProbit, or put the stratum among the covariates, as C(stratum)"
            )
        if self.residual == "deviance" and not self.anchor_intercept:
            raise InputError("deviance residuals are centred: anchor_intercept=False goes with residual='score'")
        if self.dispersion is None:
            return
        if isinstance(self.dispersion, str):
            if self.dispersion not in ("pearson", "ml"):
                raise InputError(
                    f"dispersion must be 'pearson', 'ml', a positive number or None, not {self.dispersion!r}"
                )
            if self.dispersion == "ml" and family.discrete:
                raise InputError(
                    f"{self.family} has no dispersion to be estimated by maximum likelihood: take "
                    "dispersion='pearson', or family='negative_binomial' with alpha='ml'"
                )
            return
        number = isinstance(self.dispersion, (int, float, np.number)) and not isinstance(self.dispersion, bool)
        if not (number and 0.0 < self.dispersion < math.inf):
            raise InputError(f"dispersion must be 'pearson', 'ml', a positive number or None, not {self.dispersion!r}")

    def _fit_source(self, formula: str, data: Any, sample_weight: Any, offset: Any) -> Formula:
        raise InputTypeError("AnchorGLM takes a table in memory: read the table first")

    def _prepare(self, X: Any, y: Any, anchors: Any, sample_weight: Any, offset: Any) -> Data:
        data = super()._prepare(X, self._plain(y), anchors, sample_weight, offset)
        _check_outcome(data.response, self._make_link())
        _check_variation(data.response, self._make_link())
        return data

    def _plain(self, y: Any) -> Any:
        """Return the outcome, shares of unknown numbers of trials refused."""
        if self.family == "binomial" and not isinstance(y, Response):
            values = np.asarray(y)
            if values.dtype.kind == "f" and ((values > 0.0) & (values < 1.0)).any():
                raise InputError(
                    "binomial outcomes are 0 or 1, or Trials(successes, trials); of a share alone it is not known how "
                    "many trials it stands for"
                )
        return y

    def _objective(self, link: Any, basis: Basis, data: Any) -> Objective:
        net = self._netted(data.design.marks)
        if not (net and link.affine):  # as it is, a quadratic loss is minimised in any unit
            link = _in_typical_unit(link, data.response.upper, data.weights)
        if link.family == "negative_binomial" and link.alpha is None:
            link = replace(link, alpha=self._likeliest_alpha(link, basis, data))
        if not net or link.unit == 1.0:
            return super()._objective(link, basis, data)
        beta, loss, own = (
            link.eta_unit,
            link.loss_unit**2,
            copy(self),
        )  # penalties follow those of coefficients and loss
        own.l1, own.l2, own.smooth = self.l1 * beta / loss, self.l2 * beta**2 / loss, self.smooth * beta**2 / loss
        return TransformationModel._objective(own, link, basis, data)

    def _likeliest_alpha(self, link: Family, basis: Basis, data: Data) -> float:
        """Return the maximum-likelihood alpha: the root of the profile likelihood's slope in log alpha."""
        plain, at = data._replace(anchors=None), dict[str, Array]()
        options = Options(tol=min(self.tol, 1e-10), max_iter=self.max_iter)

        def slope(log_alpha: float) -> float:
            own = replace(link, alpha=math.exp(log_alpha), residual="score")
            objective = _of_means(self._plain_objective(own, basis, plain))
            if "v" in at:
                at["v"] = minimise(objective, at["v"], 0.0, options).v
            else:
                at["v"] = solve(objective, self._start(objective, basis, data), 0.0, options).v
            eta, outcome, weights = objective.predictors(at["v"])
            y, mu, k = outcome[:, 0], own.mean(eta).mu, math.exp(-log_alpha)
            rows = special.digamma(y + k) - special.digamma(k) - np.log1p(mu / k) + (mu - y) / (mu + k)
            return -k * float(rows.sum() if weights is None else weights @ rows)

        low, high = (math.log(a) for a in ALPHAS)
        if slope(low) <= 0.0:
            raise IdentificationError(
                "the counts vary no more than a Poisson distribution allows, so that alpha has no positive estimate: "
                "take family='poisson', or give alpha a number"
            )
        if slope(high) >= 0.0:
            raise IdentificationError(f"the counts vary so much that alpha is beyond {ALPHAS[1]:g}: give it a number")
        return math.exp(optimize.brentq(slope, low, high, xtol=1e-10, rtol=1e-12))

    @property
    def _alpha_estimated(self) -> bool:
        return bool(self.link_.family == "negative_binomial" and self.alpha == "ml")

    @property
    def _link_to_refit(self) -> Any:
        return replace(self.link_, alpha=None) if self._alpha_estimated else self.link_

    def _estimated_before(
        self, data: Data, objective: Objective, v: Array, pull: Array
    ) -> tuple[Array, Array, Array] | None:
        """Return the influence of rows on log(alpha), and how log(alpha) moves the equations that v solves."""
        if not self._alpha_estimated:
            return None
        inner = _of_means(objective)
        link = replace(inner.link, residual="score")
        likeliest = _of_means(self._plain_objective(link, self.basis_, data))
        options = Options(tol=min(self.tol, 1e-10), max_iter=self.max_iter)
        first = solve(likeliest, self._start(likeliest, self.basis_, data), 0.0, options).v
        joint = likeliest.with_log_alpha(first)
        eta, outcome, _ = likeliest.predictors(first)
        scores = -link.terms(eta, outcome).r[:, None] * likeliest.terms[0].C
        across = np.linalg.solve(joint.hessian, joint.cross)
        rows = (joint.scores - scores @ across) / (joint.own - joint.cross @ across)
        # the equations have no closed derivative for all residuals: central differences
        moved = []
        for side in (-1.0, 1.0):
            there = inner.at_alpha(math.exp(side * ALPHA_STEP))
            at = there.derivatives(v)
            moved.append((at.gradient + at.E.T @ pull, there.sums(v).t))
        gradient, t = ((up - down) / (2.0 * ALPHA_STEP) for down, up in zip(*moved, strict=True))
        return rows, gradient, t

    def _start(self, objective: Objective, basis: Basis, data: Any) -> Array:
        if self.start is not None:
            return super()._start(objective, basis, data)
        link = objective.link
        _, outcome, weights = _of_means(objective).predictors(np.zeros(objective.n_parameters))
        total = np.average(outcome[:, :-1], axis=0, weights=weights)
        middle = float(total[0]) if total.size == 1 else (float(total[0]) + 0.01) / (float(total[1]) + 0.02)
        if not link.affine and not (middle > 0.0):
            middle = 1.0
        theta = np.array([link.eta(middle) - objective.mean_offset]) * link.eta_unit
        return objective.coordinates.join(theta, np.zeros(objective.coordinates.n_coefs))

    def _draw(self, data: Data, rng: np.random.Generator) -> Array:
        shift = data.design.matrix @ self.coef_ + (0.0 if data.offset is None else data.offset)
        trials = np.ones(shift.size) if data.response.trials is None else data.response.trials
        law = FamilyDistribution(self.link_, self.link_.mean(self.baseline_[0] + shift).mu, trials, shift)
        return np.asarray(law.rvs(1, rng)[:, 0])

    def _fitted_link(self, objective: Objective, v: Array) -> Any:
        objective = _of_means(objective)
        link = objective.link
        eta, outcome, weights = objective.predictors(v)
        left = np.average(link.response_residuals(eta, outcome) ** 2, weights=weights)
        if not link.discrete and left <= NOTHING_LEFT * _spread(outcome[:, 0], weights) ** 2:
            raise IdentificationError(
                "the covariates explain y without error (is y, or what it was made of, among them?), so that the "
                "dispersion is 0: leave covariates out"
            )
        dispersion = objective.dispersion(v) * link.loss_unit**2
        return replace(link, dispersion=dispersion, unit=1.0, push=1.0)

    def _store(
        self, link: Any, basis: Basis, data: Any, objective: Objective, solution: Solution, others: list[Solution]
    ) -> None:
        found, *rest = (_in_units(s, objective.link, objective.n_total) for s in (solution, *others))
        super()._store(objective.link, basis, data, objective, found, rest)
        v, unit = solution.v, objective.link.loss_unit
        in_unit = objective.loglik(v, solution.sums)  # without an elastic net
        objective = _of_means(objective)
        self.quasi_loglik_ = in_unit * unit**2 - objective.n_total * (objective.link.lacking if unit != 1.0 else 0.0)
        self.link_ = self._fitted_link(objective, v)
        eta, outcome, weights = objective.predictors(v)
        logliks = replace(objective.link, dispersion=self.dispersion_).loglik(eta, outcome)
        w = np.ones(eta.size) if weights is None else weights
        self.deviance_, self.pearson_ = objective.deviance(v) * unit**2, objective.pearson(v) * unit**2
        self.loglik_ = float(w @ logliks)
        self.outcome_range_ = (float(data.response.upper.min()), float(data.response.upper.max()))
        if self._unpenalised and self._alpha_estimated and objective.coordinates.wide is None:
            # as statsmodels: the observed information of all parameters
            joint = objective.with_log_alpha(v)
            profile = joint.hessian - np.outer(joint.cross, joint.cross) / joint.own
            self._information = (unit**2 / self.dispersion_) * profile
        elif self._unpenalised:  # as R and statsmodels: the expected information, by the dispersion
            expected = MeanObjective(
                objective.link.expected(), objective.coordinates, objective.anchors, objective.blocks
            )
            self._information = (unit**2 / self.dispersion_) * expected.derivatives(v).hessian
        self._at_edge = 0 if self.converged_ else int(objective.link.near_edge(eta).sum())

    @property
    def _remedy(self) -> str:  # type: ignore[override]
        if not self._at_edge:
            return super()._remedy
        rows = f"{self._at_edge} row{'s have' if self._at_edge > 1 else ' has'}"
        return (
            f"{rows} a mean at the end of its range, which the {self.link_.link} link reaches: the minimum may be at "
            f"that end, and the estimate far from it; take link={FAMILIES[self.family][0]!r}"
        )

    @property
    def _in_loss(self) -> float:
        return float(self.quasi_loglik_)

    @property
    def intercept_(self) -> float:
        """Return the intercept."""
        check_is_fitted(self, "coef_")
        return float(self.baseline_[0])

    @property
    def dispersion_(self) -> float:
        """Return the dispersion."""
        check_is_fitted(self, "coef_")
        return float(self.link_.dispersion)

    @property
    def alpha_(self) -> float | None:
        """Return alpha of the negative binomial."""
        check_is_fitted(self, "coef_")
        return None if self.link_.alpha is None else float(self.link_.alpha)

    @property
    def n_parameters_(self) -> int:
        """Return the number of parameters: intercept, coefficients, and an estimated dispersion or alpha."""
        check_is_fitted(self, "coef_")
        own = self._alpha_estimated or (not self.link_.discrete and self.link_.free_dispersion)
        return 1 + int(self.coef_.size) + int(own)

    def _comparable(self, smaller: Any) -> bool:
        if not isinstance(smaller, AnchorGLM):
            return False
        if smaller.link_.link != self.link_.link or smaller.dispersion != self.dispersion:
            return False
        own, other = str(self.link_.family), str(smaller.link_.family)
        if own == "negative_binomial":  # whose end, alpha = 0, is Poisson
            fits = self.alpha == "ml" or (own == other and smaller.alpha == self.alpha)
            return fits and other in ("poisson", "negative_binomial")
        return own == other

    @property
    def _quasi(self) -> bool:  # type: ignore[override]
        return bool(self.link_.discrete and (self.link_.free_dispersion or self.dispersion_ != 1.0))

    def _check_criterion(self) -> None:
        super()._check_criterion()
        if self._quasi:
            raise InputError(
                f"with a dispersion other than 1 {self.family} outcomes have no likelihood, and so no AIC or BIC: "
                "leave dispersion out, or take family='negative_binomial' for counts"
            )

    @property
    def _largest_loglik(self) -> float:
        """Return the log-likelihood at the dispersion of maximum likelihood, or at the one that was given."""
        n, half = self.n_total_, 0.5 * self.deviance_
        if self.link_.discrete or not self.link_.free_dispersion:
            return self.loglik_
        if self.link_.family == "gaussian":
            return -0.5 * n * (math.log(2.0 * math.pi * self.deviance_ / n) + 1.0)
        k = likeliest_shape(half / n)
        log_y = -half - n - self.quasi_loglik_  # the sum of log y: log(y / mean) - y / mean sums to -half - n
        return float(n * (k * math.log(k) - special.gammaln(k)) - k * (half + n) - log_y)

    def _gain(self, smaller: Any) -> float:
        gain = 2.0 * (self._largest_loglik - float(smaller._largest_loglik))
        return gain / self.dispersion_ if self._quasi else gain

    @property
    def _kind(self) -> str:
        return f"{self.link_.family.replace('_', ' ')} family, {self.link_.link} link"

    def _own_facts(self) -> dict[str, str]:
        link = self.link_
        rows = f"{self.n_rows_}" + ("" if self.n_total_ == self.n_rows_ else f", total weight {self.n_total_:g}")
        how = f"by {'maximum likelihood' if self.dispersion == 'ml' else 'Pearson'}"
        facts = {
            "model": f"{link.link}(mean) = intercept + x'beta"
            if link.link != "identity"
            else "mean = intercept + x'beta",
            "rows": rows,
            "residuals": "score, dl/deta" if link.residual == "score" else "deviance, less their mean",
            "deviance": f"{self.deviance_:.4f}, Pearson {self.pearson_:.4f}",
            "dispersion": f"{self.dispersion_:.5g}, {how if link.free_dispersion else 'fixed'}",
        }
        if link.alpha is not None:
            facts["alpha"] = f"{link.alpha:.5g}" + (", by maximum likelihood at xi = 0" if self.alpha == "ml" else "")
        return facts

    def _loglik(self, link: Any, basis: Basis, theta: Array, beta: Array, rows: Data) -> Array:
        eta = theta[0] + rows.design.matrix @ beta
        eta = eta if rows.offset is None else eta + rows.offset
        with np.errstate(all="ignore"):
            return np.asarray(link.loglik(eta, link.outcome(rows.response.upper, rows.response.trials)))

    def _outcome(self, X: Any, y: Any) -> Response:
        check_is_fitted(self, "coef_")
        aligned(X=X, y=y)
        if y is None and hasattr(self, "formula_"):
            y = self.formula_.outcome(X)
        response = as_response(one_column(self._plain(y)), self._scale)
        _check_outcome(response, self.link_)
        return response

    def _eta(self, X: Any, n_rows: int | None, offset: Any) -> Array:
        theta, shift = self._parts(X, n_rows, offset)
        return np.asarray(theta[0] + shift)

    def _inside(self, eta: Array) -> Array:
        """Return eta, refused where it is that of no mean."""
        rows = np.flatnonzero(self.link_.outside(eta))
        if rows.size:
            listed = ", ".join(map(str, rows[:5])) + (f" and {rows.size - 5} more" if rows.size > 5 else "")
            raise InputError(
                f"{self.link_.link}(mean) = {eta[rows[0]]:.4g} at row {rows[0]} is that of no {self.link_.family} mean "
                f"(rows {listed}): they are beyond what the {self.link_.link} link can predict; leave them out, or fit "
                f"with link={FAMILIES[self.family][0]!r}"
            )
        return eta

    def _at(self, X: Any, y: Any, offset: Any) -> tuple[Array, Array]:
        """Return eta and outcome of rows."""
        response = self._outcome(X, y)
        eta = self._eta(X, len(response), offset)
        if eta.size != len(response):
            raise InputError(f"X has {eta.size} rows, but y has {len(response)}: pass the same rows of both")
        return eta, self.link_.outcome(response.upper, response.trials)

    def _rows(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        eta, outcome = self._at(X, y, offset)
        with np.errstate(all="ignore"):
            terms = self.link_.terms(eta, outcome)
            return self.link_.loglik(eta, outcome), -terms.r

    def residuals(
        self,
        X: Any,
        y: Any = None,
        *,
        kind: Literal["score", "deviance", "pearson", "response"] = "score",
        offset: Any = None,
        which: str = "shift",
    ) -> Array:
        """Return the residuals of rows, all positive where y is above its mean.

        Parameters
        ----------
        X, y : covariates and outcome
            After ``from_formula`` X may hold both.
        kind : {"score", "deviance", "pearson", "response"}
            dl/deta at dispersion 1; signed roots of the deviance (not centred); (y - mean) / sqrt(variance function);
            y - mean. Binomial rows count successes.
        offset : array, optional
        which : {"shift"}
            As other models have it; there is no scale.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.residuals(data[:3]).round(2)
        array([-4.4 , -4.4 , -3.74])
        >>> model.residuals(data[:3], kind="deviance").round(2)
        array([-2.97, -2.97, -2.74])
        """
        if which != "shift":
            raise InputError(f"which must be 'shift': AnchorGLM has no residuals of a scale, and so not {which!r}")
        eta, outcome = self._at(X, y, offset)
        self._inside(eta)
        with np.errstate(all="ignore"):
            match kind:
                case "score":
                    return np.asarray(-self.link_.terms(eta, outcome).r)
                case "deviance":
                    terms = self.link_.terms(eta, outcome)
                    return np.asarray(self.link_.deviance_residuals(eta, outcome, terms).r)
                case "pearson":
                    return np.asarray(self.link_.pearson(eta, outcome))
                case "response":
                    return np.asarray(self.link_.response_residuals(eta, outcome))
        raise InputError(f"kind must be 'score', 'deviance', 'pearson' or 'response', not {kind!r}")

    def predict(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Array:
        """Return the mean of each row, of binomial outcomes the probability of a success.

        Rows whose intercept + x'beta + offset is that of no mean, such as a negative count, are refused.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.predict(data[:2]).round(2)
        array([4.4, 4.4])
        """
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        return self._means(self._eta(X, n_rows, offset))

    def _means(self, eta: Array) -> Array:
        """Return the means of rows with these linear predictors."""
        with np.errstate(over="ignore"):
            return np.asarray(self.link_.mean(self._inside(eta)).mu)

    @available_if(_binomial)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Array:
        """Return the probabilities of 0 and 1, of binomial models.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM(family="binomial").fit(data[["cHEIGHT"]], data.TICKS > 0)
        >>> model.predict_proba(data[["cHEIGHT"]][:1]).round(2)
        array([[0.3, 0.7]])
        """
        mean = self.predict(X, offset=offset, n_rows=n_rows)
        return np.column_stack([1.0 - mean, mean])

    def predict_distribution(
        self,
        X: Any = None,
        *,
        offset: Any = None,
        n_rows: int | None = None,
        conditional: bool = False,
        trials: Any = None,
    ) -> Any:
        """Return the predicted distribution of each row.

        ``trials`` are those of binomial rows, one number or one for each row, by default 1.

        See Also
        --------
        anchortm.predict.FamilyDistribution : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.predict_distribution(data[:1]).interval(0.9)
        (array([1.]), array([8.]))
        """
        if conditional:
            self._effects()  # it has none
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        theta, shift = self._parts(X, n_rows, offset)
        mean = self._means(np.asarray(theta[0] + shift))
        if trials is None:
            return FamilyDistribution(self.link_, mean, np.ones(mean.size), shift)
        if self.family != "binomial":
            raise InputError("trials are for family='binomial'")
        values = np.broadcast_to(trials, mean.shape) if np.ndim(trials) == 0 else trials
        numbers = finite_numbers(values, mean.size, "trials")
        if not ((numbers >= 1.0) & (numbers == np.floor(numbers))).all():
            raise InputError("trials must be whole numbers of at least 1")
        return FamilyDistribution(self.link_, mean, numbers, shift)

    def mean_intervals(
        self,
        X: Any = None,
        *,
        level: float = 0.95,
        kind: str | None = None,
        clusters: Any = None,
        offset: Any = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Return the mean of each row with its standard error and confidence interval.

        The interval is symmetric for g(mean), cut where the range of means ends, and turned back. Arguments are those
        of ``covariance``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> model.mean_intervals(data[:1]).round(2)
           mean  std. error  lower  upper
        0   4.4        0.12   4.17   4.64
        """
        import pandas as pd

        check_is_fitted(self, "coef_")
        offset = self._new_offset(X, offset)
        matrix = to_design(self._design(X, 1 if X is None and offset is None else np.size(offset))).matrix
        eta = self._inside(self._eta(X, matrix.shape[0], offset))
        rows = np.column_stack([np.ones(matrix.shape[0]), matrix])
        V = self.covariance(kind, clusters, **options)
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, V, rows), 0.0))
        width = stats.norm.ppf(0.5 + 0.5 * level_between(level)) * error
        mean = self.link_.mean(eta)
        with np.errstate(divide="ignore", over="ignore"):
            ends = np.sort([self.link_.mean(self.link_.inside(eta + side * width)).mu for side in (-1.0, 1.0)], axis=0)
        table = {"mean": mean.mu, "std. error": np.abs(mean.d1) * error, "lower": ends[0], "upper": ends[1]}
        same = isinstance(X, pd.DataFrame) and len(X) == eta.size
        return pd.DataFrame(table, index=X.index if same else None)

    def confidence_band(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: the mean is what is modelled, and ``mean_intervals`` has its uncertainty.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_grouseticks()
        >>> model = atm.AnchorGLM.from_formula("TICKS ~ cHEIGHT | LOCATION", data, family="poisson")
        >>> try:
        ...     model.confidence_band(data, [100.0])
        ... except TypeError as error:
        ...     print(str(error)[:41])
        AnchorGLM has no bands of its distributio
        """
        raise InputTypeError(
            "AnchorGLM has no bands of its distributions: take mean_intervals(X), or a transformation model, such as "
            "CountRegression, for bands of probabilities and quantiles"
        )

    def _more(self) -> dict[str, Any]:
        """Return what a file holds beside what all models have."""
        values = {name: getattr(self, name) for name in SAVED}
        _check_saved(values)
        return values

    def _set_more(self, record: dict[str, Any]) -> None:
        """Take what ``_more`` gave, checked."""
        values = {name: record[name] for name in SAVED}
        _check_saved(values)
        family = self._make_link()
        if (values["alpha_"] is None) != (family.family != "negative_binomial") or values["alpha_"] == 0.0:
            raise InputError("alpha belongs to the negative binomial, and is positive")
        if family.alpha not in (None, values["alpha_"]) or not values["dispersion_"] > 0.0:
            raise InputError("alpha or dispersion is not that of the model")
        if getattr(self.basis_, "whole", None) is not family.discrete:
            raise InputError("the basis does not say truly whether outcomes are whole numbers")
        self.deviance_, self.pearson_ = float(values["deviance_"]), float(values["pearson_"])
        self.quasi_loglik_ = float(values["quasi_loglik_"])
        self.link_ = replace(family, alpha=values["alpha_"], dispersion=float(values["dispersion_"]))


def _check_saved(values: dict[str, Any]) -> None:
    """Refuse what no file holds."""
    for name, value in values.items():
        low = -math.inf if name == "quasi_loglik_" else 0.0
        if not ((value is None and name == "alpha_") or (_is_number(value) and low <= value < math.inf)):
            raise InputError(f"{name} is not what it should be: {value!r}")


def _of_means(objective: Objective) -> MeanObjective:
    """Return the objective without an elastic net."""
    inner = objective.inner if isinstance(objective, Net) else objective
    assert isinstance(inner, MeanObjective)  # noqa: S101
    return inner


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _in_typical_unit(link: Family, y: Array, weights: Array | None) -> Family:
    """Return the family in units of y, where numbers have units, so that tolerances mean the same in any."""
    if link.affine:
        return link.measured_in(_spread(y, weights))
    if link.name in ("gaussian-log", "gamma-inverse", "gamma-identity"):
        return link.measured_in(float(np.average(y, weights=weights)))
    return link


def _spread(y: Array, weights: Array | None) -> float:
    """Return the standard deviation of y, 1 for a constant."""
    largest = float(np.abs(y).max(initial=0.0)) or 1.0
    unit = y / largest
    mean = np.average(unit, weights=weights)
    return largest * math.sqrt(float(np.average((unit - mean) ** 2, weights=weights))) or 1.0


def _in_units(solution: Solution, link: Family, n: float) -> Solution:
    """Return a solution with sums and losses in the units of y."""
    if link.loss_unit == 1.0:
        return solution
    unit, constant = link.loss_unit**2, link.lacking
    history = [row | {"loss": row["loss"] * unit + constant} for row in solution.history]
    sums = Sums(solution.sums.loglik * unit - n * constant, solution.sums.t * link.loss_unit)
    return replace(solution, sums=sums, loss=solution.loss * unit + constant, history=history)


def _refuse(bad: NDArray[np.bool_], values: Array, say: Callable[[float, int], str]) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(say(float(values[row]), row))


def _check_outcome(response: Response, family: Family) -> None:
    """Refuse outcomes that the family does not have, by row."""
    y = response.upper
    if response.truncated.any():
        raise InputError("AnchorGLM takes no truncated rows: take CountRegression or another transformation model")
    if not family.discrete:
        _refuse(
            response.lower != y,
            y,
            lambda _, row: (
                f"row {row} is censored, and AnchorGLM takes exact outcomes: take a transformation model, "
                "such as ParametricSurvival"
            ),
        )
        if family.family == "gamma":
            _refuse(y <= 0.0, y, lambda v, row: f"y is {v:g} at row {row}, and gamma outcomes are above 0")
        elif family.link == "log" and not y.mean() > 0.0:
            raise InputError("a log link needs outcomes whose mean is above 0")
        return
    exact = np.where(np.isneginf(response.lower), -1.0, response.lower) == y - 1.0
    _refuse(
        ~exact,
        y,
        lambda _, row: f"row {row} is a censored count, and AnchorGLM takes exact ones: take CountRegression",
    )
    if family.family != "binomial":
        if response.trials is not None:
            raise InputTypeError(f"Trials are for family='binomial', not {family.family!r}")
    elif response.trials is None:
        _refuse(
            y > 1.0,
            y,
            lambda v, row: (
                f"y is {v:g} at row {row}, and binomial outcomes are 0 or 1; for several trials a row pass "
                "Trials(successes, trials)"
            ),
        )


def _check_variation(response: Response, family: Family) -> None:
    """Refuse outcomes that are all the same, or at the end of their range, or whose squares a double does not hold."""
    y = response.upper
    if not family.discrete and y.min() == y.max():
        raise IdentificationError(f"all outcomes are {y[0]:g}: there is no dispersion to be estimated")
    largest = float(np.abs(y).max())
    if not family.discrete and not SIZES[0] < largest < SIZES[1]:
        raise InputError(f"the largest outcome is {largest:g}, and its square is lost: divide y by its size")
    if family.discrete and not y.any():
        raise IdentificationError("all outcomes are 0: the likelihood grows as the mean goes to 0")
    top = np.ones(y.size) if response.trials is None else response.trials
    if family.family == "binomial" and (y == top).all():
        raise IdentificationError("all trials are successes: the likelihood grows as the probability goes to 1")
