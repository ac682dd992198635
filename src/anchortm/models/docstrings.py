"""Parts of docstrings that the models share."""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "BERNSTEIN", "SHARED", "attributes"]

SHARED = """
    xi : float
        Strength of the causal regulariser; 0 is maximum likelihood, ``math.inf`` the limit.
    {own}anchor_intercept : bool
        Whether the constant belongs to the span of the anchors.
    anchor_names : list, optional
        Columns of X to use as anchors instead of covariates.
    strata : name or list, optional
        Columns of X (names, or positions of an array's) whose levels have baselines of their own. In formulas they
        stand before ``~``: ``outcome | stratum ~ covariates``.
    varying : name, list or dict, optional
        Covariates whose effects change along the response, so that odds or hazards are not proportional: names, or
        positions among the covariates; the dummies of a factor as a list within the list; or a dict from names to
        ranges (low, high), by default those of X, within which h is sure to increase. With ``from_formula`` terms:
        ``varying="age + C(stage)"``.
    random : name or dict, optional
        Column of X (a name, or the position of an array's) whose levels are clusters with random intercepts, or
        ``{{"patient": ["1", "x"]}}`` for an intercept and a slope of the covariate x that differ between patients, both
        normal. In formulas ``(1 | patient)`` and ``(1 + x | patient)`` among the covariates.
    n_nodes : int, optional
        Nodes for the integral over each random effect; by default as many as ``tol`` asks for.
    tol, max_iter : float, int
        Tolerance on the scaled KKT residual, and the limit on iterations of one minimisation.
    n_jobs : int, optional
        Threads over blocks of rows; -1 for all cores.
    verbose : int
        1 prints every iteration.
    n_restarts, random_state : int, seed
        Random starts that look for lower minima; found ones are in ``lower_minima_``. The estimate
        stays on the branch connected to xi = 0.
    start : pair (baseline, coef), optional
        Parameters to start from (scale effects last among the coefficients, but these start at 0).
    scale : name or position, list of them or, in ``from_formula``, terms such as "age + C(stage)", optional
        Covariates z that change the spread of y too: h(y|x) = exp(z'g / 2) h(y) -+ x'beta. Each unit of z multiplies
        the spread by exp(-g / 2). Their zero matters: centre covariates that are never near 0.
    xi_scale : float, optional
        Strength of the penalty on the residuals of the scale, by default xi.
    l1, l2 : float
        Elastic net: l1 times the sum of the absolute coefficients and l2 / 2 times that of their squares are added to
        the loss, which is a mean over rows. The baseline has no penalty.
    penalty_factor : array, dict or "deviation", optional
        Factor of the penalty on each coefficient, by position or by name (1 for those not named); 0 is no penalty.
        "deviation" penalises the coefficients of columns with standard deviation 1.
    smooth : float
        Strength of the roughness penalty on smooth terms, ``s(x)`` in formulas: smooth / 2 times the mean squared
        second derivative of each curve, its range taken as 2 pi wide, is added to the loss. 0 is no penalty; the
        larger, the closer to lines. Without smooth terms it has no effect. ``SmoothSearchCV`` chooses it.
"""
BERNSTEIN = """order : int
        Order of the Bernstein polynomials.
    support : pair, optional
        Their support; by default the 10 % and 90 % quantiles of y.
    log_first : bool
        Take the basis in log y.
    extrapolate : {"linear", "natural"}
        Outside the support the baseline continues linearly; "natural" also has no curvature there.
    """
ATTRIBUTES = """
    Attributes
    ----------
    coef_ : array of shape (p,)
        Coefficients beta, on the scale of h.
    coef_names_ : list of str
        Their names.
    baseline_ : array
        Parameters theta of the baseline h(y) = a(y)'theta{baseline} With strata one after the other, then those of
        effects that vary.
    baselines_ : DataFrame
        The same, one row for each stratum and each effect that varies.
    parameter_names_ : list of str
        Names of the parameters in ``baseline_``.
    {own}link_, basis_ : Link, Basis
        The reference distribution, and the basis with all that was resolved from the data.
    xi_ : float
        The xi of the fit.
    random_cov_, random_sd_ : DataFrame, Series
        Covariance and standard deviations of the random effects, on the scale of h.
    random_effects_ : DataFrame
        Means and standard deviations of the effects of each cluster after the data, and its number of rows.
    n_clusters_ : int
        Number of clusters with random effects.
    loglik_ : float
        Log-likelihood, summed over rows, without the penalty.
    loss_ : float
        The anchor loss, a mean over rows, with the elastic net; at xi = inf the mean negative log-likelihood.
    l1_, l2_ : float
        The elastic net of the fit.
    smooth_ : float
        The strength of smoothing; 0 without smooth terms.
    edf_ : dict
        Effective degrees of freedom of each smooth term, from 1 (a line) to its number of columns; empty without.
    penalty_ : float
        Mean squared projection of the score residuals on the anchors, not multiplied by xi.
    converged_, n_iter_ : bool, int
        Whether the tolerance was reached, and after how many iterations.
    kkt_ : float
        Scaled residual of the optimality conditions, in standardised parameters.
    min_eigenvalue_ : float
        Smallest curvature of the loss in free directions, in standardised parameters; positive at a strict minimum.
    convexity_ : {{"global", "local", "none"}}
        What is known of the minimum: the loss is convex everywhere, around it, or neither is known.
    folds_ : tuple of float
        Where the branch connected to xi = 0 ended on the way to xi; mostly empty.
    lower_minima_ : list of float
        Losses of lower minima that ``n_restarts`` found.
    active_ : array of bool
        Which increments of the baseline, and which coefficients under l1, are held at zero; coefficients last.
    warnings_ : list of str
        What the fit warned of.
    n_rows_, n_total_ : int, float
        Number of rows, and sum of their weights.
    row_kinds_ : dict
        Number of exact, left-, right- and interval-censored rows; classes and counts are intervals.
    n_anchors_ : int
        Number of directions of the anchors, with the constant if ``anchor_intercept``; 0 without anchors.
    dropped_anchors_, dropped_classes_ : tuple
        Anchor columns that are constant or collinear, and classes without rows.
    float_codes_ : tuple of str
        Numeric anchors that look like codes of places.
    atom_ : float
        Probability at time 0 that the baseline leaves for average covariates (0 for outcomes that are no times).
    covariate_names_ : list of str
        All covariates, including those whose effects vary; ``coef_names_`` has those with one coefficient.
    covariate_ranges_ : array of shape (2, p)
        Smallest and largest value of each covariate.
    outcome_range_ : pair of float
        Smallest and largest outcome or limit of censoring (of classes, positions).
    time_ : bool
        Whether the outcome was given by ``Surv``.
    n_features_in_, feature_names_in_ : int, array of str
        Columns of X; names only where it had names.
    formula_ : Formula
        After ``from_formula``.
    n_passes_ : int
        After ``from_formula`` with a table that is read in batches: how often it was read.
    scale_coef_, scale_names_ : array, list of str
        With ``scale``: coefficients g of the log scale of h, twice; positive ones make the spread of y smaller.
    xi_scale_, penalty_scale_ : float
        With ``scale``: the strength of the scale's penalty, and the penalty, as ``xi_`` and ``penalty_``.
"""
IN_Y = {
    "bernstein": (
        ": order + 1 values.",
        """support_ : pair of float
        Support of the Bernstein polynomials.
    """,
    ),
    "line": (": intercept and slope.", ""),
    "steps": (": K - 1 thresholds.", "classes_ : array\n        The K classes, in order.\n    "),
    "any": (
        ".",
        """support_ : pair of float
        Support of the Bernstein polynomials, where the basis has them.
    classes_ : array
        The classes of an ordinal basis, in order.
    """,
    ),
}


def attributes(kind: str) -> str:
    """Return what a fitted model with this kind of basis has, for its docstring."""
    baseline, own = IN_Y[kind]
    return ATTRIBUTES.format(baseline=baseline, own=own)
