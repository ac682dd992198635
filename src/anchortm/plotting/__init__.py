"""Pictures: results in, matplotlib axes out.

Every function takes ``ax`` (by default new axes) and returns it. Nothing global is changed, saved or shown. Lines
differ in style as well as in colour, so that you can tell them apart in grey.
"""

from __future__ import annotations

from anchortm.plotting.anchors import chi_square, invariance, location_shift, residuals, shares
from anchortm.plotting.coverage import coverage
from anchortm.plotting.draws import draws
from anchortm.plotting.gains import gains
from anchortm.plotting.graphs import graph
from anchortm.plotting.parents import covariate_sets, parents
from anchortm.plotting.paths import (
    coefficient_path,
    flattening,
    left_out,
    net_path,
    net_search,
    rounds,
    rule,
    xi_search,
)
from anchortm.plotting.predictions import band, distributions, intervals, smooth_effects, transport
from anchortm.plotting.scores import calibration, nll_quantiles, pit
from anchortm.plotting.survival import survival

__all__ = [
    "band",
    "calibration",
    "chi_square",
    "coefficient_path",
    "covariate_sets",
    "coverage",
    "distributions",
    "draws",
    "flattening",
    "gains",
    "graph",
    "intervals",
    "invariance",
    "left_out",
    "location_shift",
    "net_path",
    "net_search",
    "nll_quantiles",
    "parents",
    "pit",
    "residuals",
    "rounds",
    "rule",
    "shares",
    "smooth_effects",
    "survival",
    "transport",
    "xi_search",
]


def __dir__() -> list[str]:
    return sorted(__all__)
