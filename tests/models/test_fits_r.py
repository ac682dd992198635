"""Every R reference fit at xi = 0 through the estimators: the polished optimum, to the last digits."""

import numpy as np
import pytest
from reference_fits import UNSTRATIFIED, Fit, load, model_for

fits = pytest.mark.parametrize("fit", [load(name) for name in UNSTRATIFIED], ids=UNSTRATIFIED)


@fits
def test_equals_the_polished_optimum(fit: Fit) -> None:
    model, factor = model_for(fit)
    offset = factor * fit.sign * fit.offset * (1.0 if model._sign > 0 else -1.0) if "offset" in fit.name else None
    model.fit(
        fit.X if fit.X.shape[1] else None,
        fit.response,
        sample_weight=fit.weights if "weights" in fit.name else None,
        offset=offset,
    )
    polished = fit.reference["polished"]
    assert model.converged_
    assert model.kkt_ <= 1e-8
    assert model.loglik_ == pytest.approx(polished["logLik"], rel=1e-9)
    if fit.X.shape[1]:
        errors = np.sqrt(np.diag(np.array(polished["vcov_shift"])))
        np.testing.assert_allclose((factor * model.coef_ - fit.beta) / errors, 0.0, atol=1e-5)
        if fit.basis.kind != "bernstein" or fit.basis.extrapolate == "linear":  # R leaves its equalities out
            ours = model.covariance()[model.baseline_.size :, model.baseline_.size :]
            np.testing.assert_allclose((ours - polished["vcov_shift"]) / np.outer(errors, errors), 0.0, atol=1e-6)
    np.testing.assert_allclose(model.baseline_, fit.theta, atol=1e-5 * (1 + np.abs(fit.theta).max()))
    if fit.basis.kind in ("bernstein", "count"):
        active = np.flatnonzero(np.diff(model.baseline_) <= 1e-12 * np.abs(model.baseline_).max()) + 1
        # a natural end is an equality of R's, counted among its active constraints
        listed = [k for k in polished["active_constraints"] if fit.basis.extrapolate == "linear"]
        assert active.tolist() == listed or fit.basis.extrapolate == "natural"
    # R keeps its constraints to about 1e-7 only, and may seem better by as little
    assert model.loglik_ >= fit.reference["tram"]["logLik"] - 1e-5


def test_where_r_stops_short() -> None:
    """The package's own optimum is far below the true one for some responses."""
    short = {name: load(name).reference for name in UNSTRATIFIED}
    gaps = {name: r["polished"]["logLik"] - r["tram"]["logLik"] for name, r in short.items()}
    assert gaps["boston_rc_Lm"] == pytest.approx(7.5, abs=0.1)
    assert gaps["boston_ic_Coxph"] == pytest.approx(16.7, abs=0.1)
    assert gaps["boston_lt_BoxCox"] > 7e4
    assert min(gaps.values()) > -1e-5
