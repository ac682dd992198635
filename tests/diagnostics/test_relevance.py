"""The first stage against regressions of covariates on anchors."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from reference_fits import COVARIATES, data
from simulated import FOUR

import anchortm as atm
from anchortm.exceptions import InputError

mpl.use("Agg")

BOSTON = data("BostonHousing2")


def test_first_stage_by_regressions() -> None:
    """R^2, F and Shea's partial R^2 from their definitions, with statsmodels."""
    X, town = BOSTON[COVARIATES], BOSTON.town
    result = atm.diagnostics.first_stage(X, town)
    table = result.frame()
    dummies = np.eye(92)[town.astype("category").cat.codes]
    fitted = pd.DataFrame({c: sm.OLS(X[c], dummies).fit().fittedvalues for c in X})
    for c in ("rm", "nox"):
        ols = sm.OLS(X[c], sm.add_constant(dummies[:, 1:])).fit()
        assert table.loc[c, "R2"] == pytest.approx(ols.rsquared)
        assert table.loc[c, "F"] == pytest.approx(ols.fvalue)
        # what is left of the covariate and of its projection after the other ones
        others = [o for o in X if o != c]
        own = sm.OLS(X[c], sm.add_constant(X[others])).fit().resid
        projected = sm.OLS(fitted[c], sm.add_constant(fitted[others])).fit().resid
        assert table.loc[c, "partial_R2"] == pytest.approx((projected**2).sum() / (own**2).sum())
    assert "F below 10, weak by the usual rule: crim, rm, lstat." in repr(result)
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(
        {"moved": town.astype("category").cat.codes + rng.normal(size=506), "not": rng.normal(size=506)}
    )
    weak = atm.diagnostics.first_stage(noise, rng.integers(0, 4, 506))
    assert "usual rule: moved, not." in repr(weak)
    assert atm.diagnostics.first_stage(X, rng.normal(size=506)).frame().partial_R2.isna().all()
    assert result.plot().get_xlim() == (0.0, 1.0)


@pytest.mark.bug("bad input", "the first stage gave rounding noise for what anchors explain wholly or not at all")
def test_anchors_that_explain_all_or_nothing() -> None:
    wine = atm.Formula("rating ~ temp + contact | judge", atm.datasets.load_wine())
    found = atm.diagnostics.first_stage(wine.X, wine.anchors)
    assert (found.frame()[["R2", "F"]] == 0.0).all().all()
    assert "too few directions" in str(found)
    whole = atm.diagnostics.first_stage(np.column_stack([FOUR.X[:, 0], FOUR.site**2.0]), FOUR.site).frame()
    assert np.isinf(whole.F.iloc[1])
    assert whole.pvalue.iloc[1] == 0.0


def test_refusals() -> None:
    x = np.random.default_rng(4).normal(size=(400, 1))
    with pytest.raises(InputError, match="needs covariates"):
        atm.diagnostics.first_stage(None, np.arange(400) % 5)
    with pytest.raises(InputError, match="at least 2 anchor directions"):
        atm.diagnostics.first_stage(x, np.arange(400))
