"""Over-identification is judged by the path."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from reference_fits import COVARIATES, data
from scipy import stats

import anchortm as atm
from anchortm.exceptions import OverIdentifiedError

mpl.use("Agg")

BOSTON = data("BostonHousing2")


def test_over_identification_tells_both_scales() -> None:
    """On the scale of h coefficients shrink, on that of y they do not: the closed form of the linear model."""
    X, y = BOSTON[COVARIATES], BOSTON.cmedv
    path = atm.anchor_path(atm.NormalLinear(), X, y, BOSTON.town, [0, 10, 1e4])
    result = atm.diagnostics.over_identification(path, X)
    table = result.frame()
    for row, m in zip(table.itertuples(), path.models, strict=True):
        deviation = X.std().to_numpy()
        assert row.coef_norm == pytest.approx(np.linalg.norm(m.coef_ * deviation))
        assert row.effect_norm == pytest.approx(np.linalg.norm(m.slope_ * deviation))
        assert row.spread == pytest.approx(m.sigma_ * 2 * stats.norm.ppf(0.75))
    assert "92 anchor directions and 9 parameters: over-identified" in repr(result)
    assert result.plot().get_yscale() == "log"
    classes = pd.cut(y, [0, 15, 25, 60], labels=False).to_numpy()
    ordinal = atm.anchor_path(atm.OrdinalRegression(), X, classes, BOSTON.town, [0, 10])
    text = repr(atm.diagnostics.over_identification(ordinal, X))
    assert "scale of y" not in text
    assert "times as wide" in text


def test_over_identification_is_judged_by_the_path() -> None:
    """Fewer directions than parameters do not make them just-identified: those of the baseline do not count."""
    rng = np.random.default_rng(2)
    g = rng.integers(0, 6, 300)
    hidden = rng.normal(size=300)
    X = np.column_stack([rng.normal(size=6)[g] + hidden + 0.5 * rng.normal(size=300), rng.integers(0, 2, 300)])
    y = 0.5 * X[:, 0] + hidden + 0.3 * X[:, 1] + 0.5 * rng.normal(size=300)
    path = atm.anchor_path(atm.ContinuousLogit(order=8), X, y, g, [0, 100, 1000])
    assert "over-identified. Residuals cannot" in repr(atm.diagnostics.over_identification(path, X))
    with pytest.raises(OverIdentifiedError):
        atm.ContinuousLogit(order=8, xi=np.inf).fit(X, y, anchors=g)
    two = atm.anchor_path(atm.NormalLinear(), X, y, g > 2, [0, 100, 1000])
    assert "not over-identified" in repr(atm.diagnostics.over_identification(two, X))
    short = atm.anchor_path(atm.NormalLinear(), X, y, g > 2, [0, 1])
    assert "add two values of xi" in repr(atm.diagnostics.over_identification(short, X))
    none = atm.anchor_path(atm.NormalLinear(), None, y, g, [0, 1])
    assert atm.diagnostics.over_identification(none, None).frame().coef_norm.eq(0).all()
