"""The likelihood-ratio test of two nested fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from anchortm.exceptions import InputError
from anchortm.predict.fitted import Fitted

__all__ = ["LikelihoodRatio", "likelihood_ratio_test"]


@dataclass(frozen=True)
class LikelihoodRatio:
    """A likelihood-ratio test of a smaller in a larger model.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    df : int
        Difference of the numbers of parameters.
    pvalue : float
        From the chi-square distribution.

    See Also
    --------
    anchortm.likelihood_ratio_test : makes one

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> fits = [atm.OrdinalRegression.from_formula(f"rating ~ {terms}", data) for terms in ("temp", "temp + contact")]
    >>> test = atm.likelihood_ratio_test(*fits)
    >>> print(f"{test.statistic:.2f} on {test.df}, p = {test.pvalue:.4f}")
    11.04 on 1, p = 0.0009
    """

    statistic: float
    df: int
    pvalue: float

    def __str__(self) -> str:
        unit = "degree" if self.df == 1 else "degrees"
        return f"likelihood ratio {self.statistic:.4g} on {self.df} {unit} of freedom, p = {self.pvalue:.3g}"


def likelihood_ratio_test(smaller: Fitted, larger: Fitted) -> LikelihoodRatio:
    """Return the likelihood-ratio test of two nested maximum-likelihood fits to the same rows.

    Both must have xi = 0. Likelihoods that are not of one kind are refused: a partial one and another, other ties or
    strata of ``CoxPH``, other links, families or kinds of outcome. That the covariates of one are among those of the
    other is the caller's word.

    See Also
    --------
    anchortm.inference.LikelihoodRatio : what is returned

    Examples
    --------
    >>> import anchortm as atm
    >>> data = atm.datasets.load_wine()
    >>> smaller, larger = (
    ...     atm.OrdinalRegression.from_formula(f"rating ~ {terms}", data) for terms in ("temp", "temp + contact")
    ... )
    >>> print(atm.likelihood_ratio_test(smaller, larger))
    likelihood ratio 11.04 on 1 degree of freedom, p = 0.00089
    """
    small, large = smaller.result_, larger.result_
    if not (small.unpenalised and large.unpenalised):
        raise InputError(
            "a likelihood-ratio test compares maximum-likelihood fits: both models need xi = 0, and no l1, l2 or smooth"
        )
    if small.n_total != large.n_total:
        raise InputError(f"the models were fitted to different rows: {small.n_total:g} and {large.n_total:g}")
    if not large.comparable(small):
        names = [f"{type(model).__name__} ({model.result_.kind})" for model in (smaller, larger)]
        raise InputError(
            f"{names[0]} is not a special case of {names[1]}: nested models have the same link or family, the same "
            "kind of outcome and of baseline, and with a partial likelihood the same ties, strata and event times"
        )
    df = large.n_parameters - small.n_parameters
    if df <= 0:
        raise InputError("the larger model must have more parameters than the smaller one")
    statistic = large.gain(small)
    if statistic < -1e-6 * (1.0 + abs(large.loglik)):
        raise InputError("the larger model fits worse: it does not contain the smaller one")
    statistic = max(statistic, 0.0)
    return LikelihoodRatio(statistic, df, float(stats.chi2.sf(statistic, df)) if math.isfinite(statistic) else 0.0)
