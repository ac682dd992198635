"""One style: colours of strategies and of xi are the same in pictures, on pages and in the HTML report."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import anchortm
from anchortm import plotting
from anchortm.exceptions import InputError
from anchortm.newplace.report.values import colour_of
from anchortm.newplace.strategies import STRATEGIES as TRIED
from anchortm.plotting.style import (
    LOOKS,
    MANY,
    STRATEGIES,
    crowd,
    look_of,
    looks,
    named_looks,
    plain_symlog,
    xi_axis,
    xi_looks,
)

CSS = (Path(anchortm.__file__).parent / "newplace" / "report" / "report.css").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def closed() -> object:
    yield
    plt.close("all")


def luminance(colour: str) -> float:
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_the_report_has_the_colours_of_pictures() -> None:
    light = CSS[: CSS.index("@media")]
    colours = dict(re.findall(r"--(c\d): (#\w{6})", light))
    assert len(colours) == len(LOOKS) == 8
    for name, (colour, _) in LOOKS.items():
        assert colours[colour_of(name)].lower() == colour.lower(), name
    for name, long in (("ml", "maximum likelihood"), ("recalibrated", "recalibrated")):
        assert colours[colour_of(name)].lower() == STRATEGIES[long][0].lower()
    for name in ("anchored", "widened"):
        assert look_of(name)[0] == STRATEGIES[name][0]
    assert set(LOOKS) >= set(TRIED) - {"worst"}  # which is no default and grey in the report


def test_colours_stand_out_from_both_grounds_of_the_report() -> None:
    """At least 3 to 1, what WCAG asks of graphics; light blue and pink are lines and areas of their own ground."""
    for ground, css in (("#ffffff", CSS[: CSS.index("@media")]), ("#1a2028", CSS[CSS.index("@media screen {") :])):
        for name, colour in re.findall(r"--(c\d): (#\w{6})", css):
            pair = sorted([luminance(colour), luminance(ground)])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) > (2.3 if name == "c5" else 3.0), (name, colour)


def test_maximum_likelihood_looks_the_same_at_any_number_of_strengths() -> None:
    for xis in ([0], [0, 10], [0, 1, 10], [0, 1, 10, 100], [0, 1, 3, 10, 100]):
        looks = xi_looks(xis)
        assert looks[0.0] == STRATEGIES["maximum likelihood"]
        assert len(set(map(str, looks.values()))) == len(xis)
    assert xi_looks([0, 10])[10] == STRATEGIES["anchored"]
    assert xi_looks([10])[10] == STRATEGIES["anchored"]
    with pytest.raises(InputError, match="5 values of xi"):
        xi_looks([1, 2, 3, 4, 5])


def test_curves_are_known_by_their_names() -> None:
    assert named_looks(["xi = 0", "xi = 3"]) == [STRATEGIES["maximum likelihood"], STRATEGIES["anchored"]]
    assert named_looks(["anchored", "maximum likelihood"]) == [STRATEGIES["anchored"], STRATEGIES["maximum likelihood"]]
    first = list(islice(looks(), 3))
    for names in (["normal", "xi = 0", "other"], [1, 2, 3], ["xi = a", "xi = b", "xi = c"], ["1", "2", "3"]):
        assert named_looks(names) == first
    assert named_looks([]) == []
    assert len(set(map(str, named_looks([f"xi = {k}" for k in range(9)])))) == 9


def ticks(ax: plt.Axes) -> list[str]:
    return [text.get_text() for text in ax.get_xticklabels()]


def test_the_axis_of_xi_has_plain_numbers() -> None:
    ax = plt.subplots()[1]
    xi_axis(ax, [0, 0.3, 1, 3, 10, 30, 100])
    assert ticks(ax) == ["0", "0.3", "1", "3", "10", "30", "100"]
    xi_axis(ax, [0, *np.geomspace(0.1, 1000, 30), np.inf])
    assert ticks(ax) == ["0", "0.1", "1", "10", "100", "1000"]
    xi_axis(ax, [0])
    assert ax.get_xlabel() == "strength of the anchor penalty, xi"


def test_many_curves_are_a_band() -> None:
    curves = pd.DataFrame(np.arange(3.0 * 101).reshape(3, 101))
    ax = plt.subplots()[1]
    crowd(ax, np.arange(3.0), curves, "town", "101 towns")
    assert not ax.lines
    assert [text.get_text() for text in ax.legend().get_texts()] == [
        "middle 80 % of 101 towns",
        "middle half of 101 towns",
    ]
    assert ax.collections[0].get_paths()[0].vertices[:, 1].min() == 10.0  # the 10 % quantile at the first point
    crowd(ax, np.arange(3.0), curves.iloc[:, :MANY], "town")
    assert len(ax.lines) == MANY


def rows(sizes: list[float]) -> pd.DataFrame:
    n = len(sizes)
    made = {"design": "like", "strategy": "anchored", "environment": [f"town {k}" for k in range(n)], "n": 20.0}
    return pd.DataFrame(made | {"regret": sizes, "regret_se": 0.01, "ranked": True})


def test_gains_are_ordered_and_to_the_right_of_zero() -> None:
    ax = plotting.gains(rows([0.2, -0.3, 0.1]))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["town 0 (20)", "town 2 (20)", "town 1 (20)"]
    points = ax.collections[1].get_offsets()
    assert sorted(points[:, 0]) == [-0.2, -0.1, 0.3]
    assert ax.collections[1].get_facecolor()[0][:3] == pytest.approx(mpl.colors.to_rgb(STRATEGIES["anchored"][0]))
    assert ax.get_xscale() == "linear"


def test_one_large_gain_does_not_squeeze_the_others() -> None:
    rng = np.random.default_rng(0)
    ax = plotting.gains(rows([-5.0, *rng.normal(0, 0.05, 60)]))
    assert ax.get_xscale() == "symlog"
    assert {"0", "1"} <= set(ticks(ax))
    ax.figure.canvas.draw()
    box = ax.figure.bbox
    names = [text for text in ax.texts if text.get_text()]
    assert len(names) == 6
    for text in names:  # inside the picture, and not over each other
        extent = text.get_window_extent()
        assert box.x0 <= extent.x0
        assert extent.x1 <= ax.bbox.x0
    heights = sorted(text.get_window_extent().y0 for text in names)
    assert min(np.diff(heights)) > 9


def test_ticks_of_a_signed_logarithm_are_plain() -> None:
    ax = plt.subplots()[1]
    ax.set_xlim(-2, 30)
    plain_symlog(ax, 0.07)
    assert ticks(ax) == ["-1", "-0.1", "0", "0.1", "1", "10"]
