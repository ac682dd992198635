"""Baselines that differ between rows: strata, and effects that change along the response.

    h(y | x, s) = a(y)'theta_s + sign * sum_j (x_j - low_j) a(y)'B_j + sign * x'beta

Each *group* (the strata, a factor, a number within its range) has corners: its levels, or the two ends of the range. A
row is an average of corners with weights w >= 0, and its baseline is the same average of their baselines. h increases
in y for every x within the ranges if and only if the increments can be divided among the corners so that none is
negative. These are bounds, as for a single baseline. With two or more groups the increments can be divided in many
ways, along directions that change nothing else (``pieces``).
"""

from anchortm.inputs.baselines.corners import Corners, Inside, Mixture
from anchortm.inputs.baselines.groups import Group
from anchortm.inputs.baselines.strata import (
    cluster_labels,
    coded,
    known_strata,
    stratum_codes,
    stratum_labels,
    stratum_sets,
)
from anchortm.inputs.baselines.varying import Varying, check_corners, make_corners, make_mixture, varying_groups

__all__ = [
    "Corners",
    "Group",
    "Inside",
    "Mixture",
    "Varying",
    "check_corners",
    "cluster_labels",
    "coded",
    "known_strata",
    "make_corners",
    "make_mixture",
    "stratum_codes",
    "stratum_labels",
    "stratum_sets",
    "varying_groups",
]
