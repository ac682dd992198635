"""The comparisons with peers, by part."""

from __future__ import annotations

from collections.abc import Iterator

from anchortm.bench import adam, boosting, convex, glms, nets, r_peers, survival
from anchortm.bench.engine import Options
from anchortm.bench.rows import Bar, Comparison, Line, Peer, compare

__all__ = ["PEERS", "compare_all"]

EMULATION = (
    "an emulation: Adam, rate 1e-3, batches of 250, from the maximum likelihood fit, projections exact over all rows"
)
BOSTON, WINE = 506, 72  # rows

PEERS = (
    Peer(
        "cvxpy",
        "Lm, BostonHousing2, xi = 10",
        "cvxpy with Clarabel",
        "cvxpy",
        convex.lm_ours,
        convex.lm_cvxpy,
        lambda _: [BOSTON],
    ),
    Peer(
        "cvxpy",
        "c-probit, BostonHousing2, xi = 10",
        "cvxpy with Clarabel",
        "cvxpy",
        convex.c_probit_ours,
        convex.c_probit_cvxpy,
        lambda _: [BOSTON],
        bars=(Bar("one anchored c-probit fit of BostonHousing2", "times faster than cvxpy with Clarabel", 5.0, True),),
    ),
    Peer(
        "statsmodels",
        "ordinal logit, K = 6",
        "statsmodels OrderedModel (bfgs)",
        "statsmodels",
        survival.ordinal_ours,
        survival.ordinal_statsmodels,
        lambda sizes: [sizes.ordinal],
        bars=(
            Bar(
                "ordinal logit, n = {ordinal}, p = 10, K = 6",
                "times faster than statsmodels OrderedModel (bfgs)",
                20.0,
                True,
            ),
        ),
    ),
    Peer(
        "statsmodels",
        "partial likelihood, right-censored",
        "statsmodels PHReg",
        "statsmodels",
        survival.partial_ours,
        survival.partial_statsmodels,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "adam",
        "c-logit censored, BostonHousing2, xi = 10",
        "Adam as in the paper",
        None,
        adam.boston_ours,
        adam.boston_adam,
        lambda sizes: [BOSTON, sizes.patience],
        note=EMULATION,
        once=True,
    ),
    Peer(
        "adam",
        "o-logit, wine by judge, xi = 10",
        "Adam as in the paper",
        None,
        adam.wine_ours,
        adam.wine_adam,
        lambda sizes: [WINE, sizes.patience],
        note=EMULATION,
        once=True,
    ),
    Peer(
        "adam",
        "o-logit, K = 6, 100 levels, xi = 10",
        "Adam as in the paper",
        None,
        adam.ordinal_ours,
        adam.ordinal_adam,
        lambda sizes: [sizes.emulation, sizes.patience],
        note=EMULATION,
        once=True,
    ),
    Peer(
        "lifelines",
        "Weibull, right-censored",
        "lifelines WeibullAFTFitter",
        "lifelines",
        survival.weibull_ours,
        survival.weibull_lifelines,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "lifelines",
        "proportional hazards, right-censored",
        "lifelines CoxPHFitter (spline)",
        "lifelines",
        survival.spline_cox_ours,
        survival.spline_cox_lifelines,
        lambda sizes: [sizes.peers],
        note="baselines: spline with 4 knots of t / 10 (of t it fails at some sizes), Bernstein of order 6 in log t",
        same=False,
    ),
    Peer(
        "lifelines",
        "partial likelihood, right-censored",
        "lifelines CoxPHFitter",
        "lifelines",
        survival.partial_ours,
        survival.partial_lifelines,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "scikit-survival",
        "proportional hazards, right-censored",
        "scikit-survival CoxPHSurvivalAnalysis",
        "sksurv",
        survival.cox_ours,
        survival.cox_scikit_survival,
        lambda sizes: [sizes.peers],
        note="partial likelihood against full likelihood with a smooth baseline",
        same=False,
    ),
    Peer(
        "scikit-survival",
        "partial likelihood, right-censored",
        "scikit-survival CoxPHSurvivalAnalysis",
        "sksurv",
        survival.partial_ours,
        survival.partial_scikit_survival,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "ivmodels",
        "NormalLinear, 100 levels, gamma = 21",
        "ivmodels AnchorRegression",
        "ivmodels",
        convex.normal_linear_ours,
        convex.anchor_regression_ivmodels,
        lambda sizes: [sizes.peers],
    ),
    Peer(
        "ivmodels",
        "LinearAnchorRegression, 100 levels, gamma = 21",
        "ivmodels AnchorRegression",
        "ivmodels",
        convex.linear_anchor_ours,
        convex.anchor_regression_ivmodels,
        lambda sizes: [sizes.peers],
    ),
    *glms.PEERS,
    *nets.PEERS,
    *boosting.PEERS,
    *r_peers.PEERS,
)


def compare_all(part: str, options: Options) -> Iterator[Line | Comparison]:
    """Yield the rows of one part, as they are measured."""
    for peer in PEERS:
        if peer.part == part:
            yield from compare(peer, options)
