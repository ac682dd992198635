"""Summaries and likelihood ratios tell what was fitted."""

import numpy as np
import pytest
from simulated import FOUR

import anchortm as atm
from anchortm.exceptions import InputError
from anchortm.links import Logistic


def test_a_fixed_slope_is_no_parameter() -> None:
    t = np.exp(FOUR.y)
    exponential, weibull = (atm.ParametricSurvival(dist=d).fit(FOUR.X, t) for d in ("exponential", "weibull"))
    assert exponential.n_parameters_ == weibull.n_parameters_ - 1 == 3
    assert atm.likelihood_ratio_test(exponential, weibull).df == 1
    assert "1 degree of freedom" in str(atm.likelihood_ratio_test(exponential, weibull))


def test_the_fitted_xi_is_kept() -> None:
    model = atm.NormalLinear(xi=1.0).fit(FOUR.X, FOUR.y, anchors=FOUR.site).set_params(xi=0.0)
    assert model.xi_ == 1.0
    assert "xi              1, 4 anchor" in str(model.summary())
    with pytest.raises(InputError, match="both models need xi = 0"):
        atm.likelihood_ratio_test(atm.NormalLinear().fit(FOUR.X[:, :1], FOUR.y), model)


def test_summary_of_a_link_of_ones_own() -> None:
    class Renamed(Logistic):
        name = "mylogit"

    assert "mylogit link" in str(atm.AnchorTM(link=Renamed()).fit(FOUR.X, FOUR.y).summary())
