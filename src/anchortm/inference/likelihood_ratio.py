"""The likelihood-ratio test of two nested models."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from anchortm._util.html import report
from anchortm._util.pipelines import model_of
from anchortm.exceptions import InputError
from anchortm.predict.fitted import Fitted

__all__ = ["LikelihoodRatio", "likelihood_ratio_test"]


@dataclass(frozen=True)
class LikelihoodRatio:
    """A likelihood-ratio test of a smaller model within a larger one.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    df : int
        Degrees of freedom: the difference of the numbers of parameters.
    pvalue : float
        P-value from the chi-square distribution.

    See Also
    --------
    anchortm.likelihood_ratio_test : computes it

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

    def _repr_html_(self) -> str:
        facts = {"statistic": self.statistic, "degrees of freedom": self.df, "p-value": f"{self.pvalue:.3g}"}
        return report("Likelihood ratio test", facts)


def likelihood_ratio_test(smaller: Fitted, larger: Fitted) -> LikelihoodRatio:
    """Return the likelihood-ratio test of two nested maximum-likelihood fits to the same rows.

    An error is raised if the likelihoods are not comparable: different links, families or kinds of outcome, a partial
    and a full likelihood, or different ties or strata of ``CoxPH``. You must make sure yourself that the covariates
    of the smaller model are among those of the larger one.

    Parameters
    ----------
    smaller, larger : fitted models
        Both need xi = 0, without l1, l2 or smooth.

    Returns
    -------
    LikelihoodRatio

    See Also
    --------
    anchortm.inference.LikelihoodRatio : statistic, degrees of freedom and p-value

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
    smaller, larger = model_of(smaller), model_of(larger)
    small, large = smaller.result_, larger.result_
    if not (small.unpenalised and large.unpenalised):
        raise InputError(
            "a likelihood-ratio test compares maximum-likelihood fits: both models need xi = 0, and no l1, l2 or smooth"
        )
    if small.reweighed or large.reweighed:
        raise InputError(
            "a likelihood-ratio test needs environment_weights='rows', because other weights change the distribution "
            "of the statistic"
        )
    if small.n_total != large.n_total:
        raise InputError(
            f"the models were fitted to different rows ({small.n_total:g} and {large.n_total:g}): fit both to the same "
            "rows"
        )
    if not large.comparable(small):
        names = [f"{type(model).__name__} ({model.result_.kind})" for model in (smaller, larger)]
        raise InputError(
            f"{names[0]} is not a special case of {names[1]}: nested models need the same link or family, and the same "
            "kind of outcome and of baseline; with a partial likelihood also the same ties, strata and event times"
        )
    df = large.n_parameters - small.n_parameters
    if df <= 0:
        raise InputError("the larger model must have more parameters than the smaller one")
    statistic = large.gain(small)
    if statistic < -1e-6 * (1.0 + abs(large.loglik)):
        raise InputError("the larger model fits worse, so it does not contain the smaller one: fit nested models")
    statistic = max(statistic, 0.0)
    return LikelihoodRatio(statistic, df, float(stats.chi2.sf(statistic, df)) if math.isfinite(statistic) else 0.0)
