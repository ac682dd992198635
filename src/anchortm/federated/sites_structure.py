"""Baselines and clusters of a model at sites: strata, varying and random effects, from what sums say of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anchortm.engine.specification import Specification
from anchortm.exceptions import InputError
from anchortm.federated.mixed import SiteClusters
from anchortm.federated.sites_data import SitesData
from anchortm.inputs.baselines import Mixture, check_corners, make_corners, varying_groups
from anchortm.inputs.clusters import INTERCEPT, Effects, named_effects

__all__ = ["structured"]


def structured(data: SitesData, spec: Specification) -> SitesData:
    """Return the rows with the corners of strata and varying effects, if a model has any."""
    plan, ranges = data.plan, data.conversation.study.ranges

    def facts(places: list[int]) -> tuple[float, float, bool]:
        if all(plan.binary[j] for j in places):
            return 0.0, 1.0, True
        name = plan.names[places[0]]
        if len(places) > 1 or name not in ranges:
            raise InputError(
                f"the effect of {name} varies over its range, whose ends would be values of rows: give the range "
                f"in the study, ranges = {{{name} = [low, high]}}"
            )
        return (*ranges[name], False)

    groups = varying_groups(spec.varying)
    if not plan.strata and not groups:
        return _with_clusters(data, spec)
    other = [name for entry, ends in groups for name in entry if ends is not None and ends != ranges.get(str(name))]
    if other:
        raise InputError(f"give the range of {other[0]} in the study, where all sites read it, not in varying")
    corners, taken = make_corners(plan.strata or None, spec.varying, plan.names, facts, spec.sign, data.marks)
    check_corners(corners.size, plan.n_rows)
    shares = np.zeros(0) if plan.stratum_shares is None else plan.stratum_shares
    average = corners.average(shares, plan.mean[taken])
    corners.check(average)
    return _with_clusters(replace(data, mixture=Mixture(corners, average)), spec)


def _with_clusters(data: SitesData, spec: Specification) -> SitesData:
    """Return the rows with the clusters that the formula names."""
    named = named_effects(spec.random)
    if not named:
        return data
    (column, effects), found = named[0], [INTERCEPT]
    if INTERCEPT not in effects:
        raise InputError("random slopes without an intercept are not implemented for sites: write (1 + x | cluster)")
    centre, scale = [0.0], [1.0]
    for name in effects[1:]:
        if str(name) not in data.names:
            raise InputError(f"random names the slope of {name!r}, which is not a covariate that shifts h")
        j = data.kept[data.names.index(str(name))]
        found.append(str(name))
        centre.append(float(data.plan.mean[j]))
        scale.append(float(data.plan.deviation[j]))
    number, weight = data.plan.clusters
    made = Effects(str(column), tuple(found), tuple(centre), tuple(scale))
    return replace(data, clusters=SiteClusters(made, round(number), weight, spec.n_nodes))
