"""Survival curves by group: where they are solid and dashed, and the numbers under the axis."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import anchortm as atm
from anchortm.exceptions import InputError

CGD = atm.datasets.load_cgd()
FORMULA = "Surv(tstop, status) ~ treat + age"
Y = atm.Surv(CGD.tstop, CGD.status)
LAST = CGD.groupby("treat").tstop.max().to_numpy()


@pytest.fixture(scope="module", params=[atm.CoxPH, atm.ParametricSurvival])
def model(request):
    return request.param.from_formula(FORMULA, CGD)


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_averages_of_groups_are_dashed_beyond_their_follow_up(model) -> None:
    distribution = model.predict_distribution(CGD)
    ax = atm.plotting.survival(distribution, Y, CGD.treat, unit="days")
    assert ax.get_xlim() == (0.0, LAST.max())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["placebo", "rIFN-g"]
    solid, beyond, whole = ax.lines  # placebo was followed for less long
    assert solid.get_xdata()[-1] == beyond.get_xdata()[0] == LAST[0] < LAST[1]
    assert (solid.get_linestyle(), beyond.get_linestyle()) == ("-", "--")
    assert whole.get_xdata()[-1] == LAST[1]
    x, own = np.asarray(solid.get_xdata())[5:-1], (CGD.treat == "placebo").to_numpy()
    np.testing.assert_allclose(np.asarray(solid.get_ydata())[5:-1], distribution[own].sf(x).mean(axis=0))
    np.testing.assert_allclose(solid.get_ydata()[-1], distribution[own].sf(LAST[0]).mean(), rtol=1e-3)
    plt.close(ax.figure)


def test_numbers_at_risk_are_counted(model) -> None:
    ax = atm.plotting.survival(model.predict_distribution(CGD), Y, CGD.treat)
    ticks = ax.get_xticks()
    wanted = ["at risk"]
    for level in ("placebo", "rIFN-g"):
        own = CGD.tstop[CGD.treat == level]
        wanted += [level, *(str((own >= t).sum()) for t in ticks)]
    assert texts(ax) == wanted
    plt.close(ax.figure)


def test_who_enters_late_is_not_at_risk_before() -> None:
    y = atm.Surv([5.0, 8.0, 10.0], [1, 0, 1], entry=[0.0, 6.0, 2.0])
    model = atm.CoxPH().fit(None, y)
    ax = atm.plotting.survival(model.predict_distribution(), y)
    numbers = dict(zip(ax.get_xticks(), texts(ax)[1:], strict=True))
    assert [numbers[t] for t in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)] == ["1", "1", "2", "1", "2", "1"]
    assert ax.get_legend() is None
    plt.close(ax.figure)


def test_a_band_with_a_row_for_each_group(model) -> None:
    two = CGD[:2].assign(treat=["placebo", "rIFN-g"], age=12)
    band = model.confidence_band(two, np.linspace(0.0, 450.0, 30), "sf")
    ax = atm.plotting.survival(band, Y, CGD.treat, at_risk=False)
    assert len(ax.lines) == 4
    assert len(ax.collections) == 2
    assert not texts(ax)
    plt.close(ax.figure)
    with pytest.raises(InputError, match="2 rows for 1 groups"):
        atm.plotting.survival(band, Y)
    with pytest.raises(InputError, match="bands of 'sf'"):
        atm.plotting.survival(model.confidence_band(two, 5.0), Y, CGD.treat)
    with pytest.raises(InputError, match="a band has its own times"):
        atm.plotting.survival(band, Y, CGD.treat, grid=[0.0, 1.0])


def test_many_groups_and_a_longer_grid(model) -> None:
    ax = atm.plotting.survival(model.predict_distribution(CGD), Y, CGD.center, grid=np.linspace(0, 500, 51))
    assert len(ax.lines) == 2 * CGD.center.nunique()
    assert len({(line.get_color(), line.get_marker()) for line in ax.lines[::2]}) == CGD.center.nunique()
    plt.close(ax.figure)


def test_until_of_other_pictures() -> None:
    model = atm.ParametricSurvival.from_formula(FORMULA, CGD)
    ax = atm.plotting.distributions(model.predict_distribution(CGD[:2]), of="sf", until=200.0)
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", "-", "--"]
    plt.close(ax.figure)


def test_what_is_refused(model) -> None:
    with pytest.raises(InputError, match="128 rows of y, or for each of the 2 groups"):
        atm.plotting.survival(model.predict_distribution(CGD[:5]), Y, CGD.treat)
    with pytest.raises(InputError, match="by has 5 labels for 128 rows"):
        atm.plotting.survival(model.predict_distribution(CGD), Y, CGD.treat[:5])
    with pytest.raises(InputError, match="until must be"):
        atm.plotting.distributions(model.predict_distribution(CGD[:2]), of="sf", until=[1.0, 2.0, 3.0])
