"""The contract of a family of generalised linear models: what a row with outcome y says about its eta.

A row is one number eta and its outcome, so its values are those of a row with one end (``links.OneEnd``): l, the
score residual r = -dl/deta and its derivatives, at dispersion 1. A family adds what the rest of the package asks for:
deviance and Pearson residuals, the expected information, checks of outcomes, and the predicted distribution.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anchortm._typing import Array
from anchortm.exceptions import IdentificationError, InputError, InputTypeError
from anchortm.families.crps import continuous_crps, discrete_crps
from anchortm.families.mean_of_eta import MeanOfEta
from anchortm.links import OneEnd, OtherPenalised, Penalised

__all__ = ["Family", "InMean", "refuse_row"]

SIZES = (1e-140, 1e140)  # the squares of outcomes of these sizes, and their sums, are doubles

#: l and its first three derivatives in the mean.
InMean = tuple[Array, Array, Array, Array]


def refuse_row(bad: NDArray[np.bool_], y: Array, why: str) -> None:
    """Raise InputError for the first bad row, with its outcome."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"y is {y[row]:g} at row {row}, and {why}")


@dataclass(frozen=True)
class Family(MeanOfEta):
    """A family with its link, and how its rows enter the penalty.

    A new family is one new file: a frozen dataclass with the class variables ``family`` (its name) and ``links``, and
    the abstract methods. Override the others where the defaults do not fit.

    Attributes
    ----------
    link : str
        One of ``links``, by default the first.
    alpha : float or None
        Shape parameter of the negative binomial, whose variance is mu + alpha mu^2. None: still to be estimated.
    residual : {"score", "deviance"}
        Which residuals the penalty takes.
    dispersion : float
        The variance is dispersion times the variance function; not part of ``terms``.
    estimate : {"pearson", "ml"}, float or None
        How the dispersion is found, or its value; None: as the family has it by default.
    expected_information : bool
        Whether ``terms`` give the expected instead of the observed -l''.
    unit, push : float
        See ``MeanOfEta``.

    Examples
    --------
    >>> import numpy as np
    >>> from anchortm.families import get_family
    >>> poisson = get_family("poisson")
    >>> terms = poisson.terms(np.log([2.0, 2.0]), poisson.outcome(np.array([3.0, 0.0])))
    >>> (-terms.r).round(2)  # y - mu
    array([ 1., -2.])
    """

    alpha: float | None = None
    residual: str = "score"
    dispersion: float = 1.0
    estimate: Any = None
    expected_information: bool = False
    #: Whether outcomes are whole numbers; such families have dispersion 1 by default.
    discrete: ClassVar[bool] = False
    #: Whether the family has the parameter alpha.
    uses_alpha: ClassVar[bool] = False
    #: The link for which the observed -l'' is the expected one, "" if there is none.
    canonical: ClassVar[str] = ""
    #: Links for which the log-likelihood is not concave in eta.
    not_concave: ClassVar[frozenset[str]] = frozenset()
    #: Links for which -l'' >= |r''|, so that the loss is convex where 2 xi |P r| <= 1.
    certified_links: ClassVar[frozenset[str]] = frozenset()
    #: What exp(coefficient) is called, by link.
    effects: ClassVar[Mapping[str, str]] = {}

    @property
    def free_dispersion(self) -> bool:
        """Return whether the dispersion is estimated."""
        return not self.discrete if self.estimate is None else isinstance(self.estimate, str)

    @property
    def affine(self) -> bool:
        """Return whether residuals are linear in eta."""
        return False

    @property
    def concave(self) -> bool:
        """Return whether the log-likelihood is concave in eta."""
        return self.link not in self.not_concave

    @property
    def certified(self) -> bool:
        """Return whether -l'' >= |r''|, so that the loss is convex where 2 xi |P r| <= 1."""
        return self.residual == "score" and self.link in self.certified_links

    @property
    def effect_name(self) -> str:
        """Return what exp(coefficient) is called; "" if it has no name.

        Examples
        --------
        >>> from anchortm.families import get_family
        >>> get_family("poisson").effect_name, get_family("binomial").effect_name, get_family("gaussian").effect_name
        ('rate ratio', 'odds ratio', '')
        """
        return self.effects.get(self.link, "")

    @abstractmethod
    def outcome(self, y: Array, trials: Array | None = None) -> Array:
        """Return what rows keep of their outcome: y, trials if there are several, and the constant in l last."""

    @staticmethod
    def trials(outcome: Array) -> Any:
        """Return the trials of binomial rows, 1 for others."""
        return outcome[:, 1] if outcome.shape[1] == 3 else 1.0

    @abstractmethod
    def variance(self, mu: Array) -> Array:
        """Return the variance function (of one trial)."""

    @abstractmethod
    def in_mean(self, mu: Array, y: Array) -> InMean:
        """Return l, without its constant, and its first three derivatives in the mean."""

    def terms(self, eta: Array, outcome: Array) -> OneEnd:
        """Return the values of rows at h = eta; l is -inf where the mean leaves its range."""
        found = self.score_terms(eta, outcome)
        if self.expected_information:
            return found._replace(dr=self.information(eta, outcome))
        if self.residual == "deviance":
            found = OtherPenalised.of(found, self.deviance_residuals(eta, outcome, found))
        elif self.push != 1.0:
            pushed = Penalised(self.push * found.r, self.push * found.dr, self.push * found.d2r)
            found = OtherPenalised.of(found, pushed)
        return found

    def name_of_rows(self, outcome: Array) -> str:
        """Return the name of rows that have the values of ``score_terms`` in the units of y, "" for others."""
        plain = self.residual == "score" and self.push == self.unit == 1.0 and not self.expected_information
        return self.name if plain else ""

    def score_terms(self, eta: Array, outcome: Array) -> OneEnd:
        """Return the values of rows whose penalty takes score residuals, by the chain rule from ``in_mean``."""
        mean = self.mean(eta)
        l, l1, l2, l3 = self.in_mean(mean.mu, outcome[:, 0])  # noqa: E741
        terms = OneEnd(
            l + outcome[:, -1],
            -l1 * mean.d1,
            -(l2 * mean.d1**2 + l1 * mean.d2),
            -(l3 * mean.d1**3 + 3.0 * l2 * mean.d1 * mean.d2 + l1 * mean.d3),
        )
        low = self.eta_range[0]
        return terms if low == -math.inf else terms._replace(l=np.where(eta > low, terms.l, -np.inf))

    @abstractmethod
    def deviance_residuals(self, eta: Array, outcome: Array, terms: OneEnd) -> Penalised:
        """Return D = sign(y - mu) sqrt(2 (l_sat - l)) and its derivatives in eta, accurate also where y = mu."""

    def deviances(self, eta: Array, outcome: Array) -> Array:
        """Return D^2 = 2 (l_sat - l); override it if it is cheaper without the derivatives of D."""
        return self.deviance_residuals(eta, outcome, self.score_terms(eta, outcome)).r ** 2

    def pearson(self, eta: Array, outcome: Array) -> Array:
        """Return (y - mu) / sqrt(variance), at dispersion 1, in the unit of the family."""
        m, mu = self.trials(outcome), self.mu(eta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((outcome[:, 0] - m * mu) / np.sqrt(m * self.variance(mu)))

    def response_residuals(self, eta: Array, outcome: Array) -> Array:
        """Return y - mu, with mu times the trials of binomial rows, in the unit of the family."""
        return np.asarray(outcome[:, 0] - self.trials(outcome) * self.mu(eta))

    def information(self, eta: Array, outcome: Array) -> Array:
        """Return the expected -l'' of each row."""
        mean = self.mean(eta)
        return np.asarray(self.trials(outcome) * mean.d1**2 / self.variance(mean.mu))

    def ways(self, outcome: Array) -> NDArray[np.int8]:
        """Return the direction in which eta can grow without bound and l not fall: 1 up, -1 down, 0 neither."""
        result = np.zeros(outcome.shape[0], dtype=np.int8)
        if self.discrete and self.eta_range[0] == -math.inf:
            result[outcome[:, 0] == 0.0] = -1
        return result

    def loglik(self, eta: Array, outcome: Array) -> Array:
        """Return the log-likelihood of rows, with the dispersion where the family has one."""
        return self.score_terms(eta, outcome).l

    @abstractmethod
    def law(self, mu: Array, trials: Array) -> Any:
        """Return the distributions with these means as a frozen distribution of scipy, with alpha and dispersion."""

    def crps(self, y: Array, mu: Array, trials: Array) -> Array:
        """Return the continuous ranked probability score of each outcome under the law of its row.

        By default it is computed by quadrature; override it with a closed form if there is one.
        """
        law = self.law(mu[:, None], trials[:, None])
        return discrete_crps(law, y) if self.discrete else continuous_crps(law, y)

    def check_outcomes(self, y: Array, trials: Array | None = None) -> None:
        """Refuse outcomes that the family does not have."""
        if trials is not None:
            raise InputTypeError(f"Trials are for family='binomial', not {self.family!r}")

    def check_variation(self, y: Array, trials: Array | None = None) -> None:
        """Refuse outcomes that leave nothing to estimate, or whose squares over- or underflow."""
        if self.discrete:
            if not y.any():
                raise IdentificationError("all outcomes are 0: the likelihood grows as the mean goes to 0")
            return
        if y.min() == y.max():
            raise IdentificationError(f"all outcomes are {y[0]:g}: no dispersion can be estimated")
        largest = float(np.abs(y).max())
        if not SIZES[0] < largest < SIZES[1]:
            raise InputError(f"the largest outcome is {largest:g}: its square over- or underflows; rescale y")

    def likeliest_dispersion(self, deviance: float, n: float) -> float:
        """Return the dispersion by maximum likelihood, from the deviance of rows with total weight n."""
        raise InputError(
            f"the dispersion of {self.family} outcomes has no maximum-likelihood estimate: use dispersion='pearson'"
        )

    def largest_loglik(self, deviance: float, quasi_loglik: float, n: float) -> float:
        """Return the log-likelihood at the likeliest dispersion, from the deviance and l at dispersion 1."""
        return quasi_loglik
