"""Parts of docstrings that the models share."""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "BERNSTEIN", "SHARED", "attributes"]

SHARED = """
    xi : float
        Strength of the causal regulariser. 0 is maximum likelihood; ``math.inf`` is the limit of large xi.
    {own}anchor_intercept : bool
        Whether the anchors include a constant.
    anchor_names : list, optional
        Columns of X to use as anchors instead of covariates.
    strata : name or list, optional
        Columns of X (names, or positions in an array) whose levels get separate baselines. In formulas, write them
        before ``~``: ``outcome | stratum ~ covariates``.
    varying : name, list or dict, optional
        Covariates whose effects change along the response, so that odds or hazards are not proportional. Give names,
        or positions among the covariates; put the dummies of a factor in a list of their own inside the list. A dict
        maps names to ranges (low, high) in which h is guaranteed to increase; by default these are the ranges of X.
        With ``from_formula``, give terms: ``varying="age + C(stage)"``.
    random : name, dict or list of two names, optional
        Column of X (a name, or a position in an array) whose levels are clusters with normal random intercepts.
        ``{{"patient": ["1", "x"]}}`` adds a random slope of the covariate x. In formulas, write ``(1 | patient)`` or
        ``(1 + x | patient)`` among the covariates. Two columns, ``["patient", "ward"]`` or ``(1 | patient) +
        (1 | ward)``, have crossed or nested intercepts, by a Laplace approximation of the likelihood.
    n_nodes : int, optional
        Number of quadrature nodes for each effect of one random term. By default as many as ``tol`` requires. The fit
        of exact outcomes under the normal link has a closed form and needs none.
    tol, max_iter : float, int
        Tolerance for the scaled KKT residual (0 at an exact minimum), and the largest number of iterations of one
        minimisation.
    n_jobs : int, optional
        Number of threads, which share the blocks of rows; -1 uses all cores. By default two for 200 000 rows in
        memory or more, and else one.
    verbose : int
        1 prints every iteration.
    n_restarts, random_state : int, seed
        Number of random starts in search of lower minima, and their seed. ``lower_minima_`` lists what they find.
        The estimate itself stays on the branch of minima that is connected to xi = 0.
    start : pair (baseline, coef), optional
        Start values. Scale effects, the last of the coefficients, always start at 0.
    scale : name or position, list of them or, in ``from_formula``, terms such as "age + C(stage)", optional
        Covariates z that also change the spread of y: h(y|x) = exp(z'g / 2) h(y) -+ x'beta. Positions are among the
        covariates, without strata, clusters and anchors. One unit of z multiplies the spread by exp(-g / 2). The fit
        depends on where z is 0, so centre covariates that are never near 0.
    xi_scale : float, optional
        Strength of the penalty on the residuals of the scale. By default xi.
    l1, l2 : float
        Strengths of the elastic net. The loss, a mean over rows, gains l1 times the sum of absolute coefficients and
        l2 / 2 times the sum of squared coefficients. The baseline is not penalised.
    penalty_factor : array, dict or "deviation", optional
        Factor of the elastic net for each coefficient, by position or by name (1 if not named); 0 means not
        penalised. "deviation" penalises the coefficients of standardised covariates.
    smooth : float
        Strength of the roughness penalty on smooth terms, ``s(x)`` in formulas. The loss gains smooth / 2 times the
        mean squared second derivative of each curve, with the range of x rescaled to a width of 2 pi. 0 means no
        penalty; large values give nearly straight lines. ``SmoothSearchCV`` chooses it. It has no effect without
        smooth terms.
    missing : {{"error", "drop"}}
        What a fit does with rows that have missing values in any column it uses: raise an error that lists the
        columns, or leave the rows out. ``rows_used_`` and ``missing_`` say which.
    tail : float
        Share of the environments whose squared mean residuals xi penalises, from the largest on. With 1 the penalty is
        the mean over all rows, with a small share it is the largest of them. It needs anchors that are one factor.
    environment_weights : {{"rows", "equal", "shrunk"}} or dict
        How much each environment counts in the likelihood: as its rows do; as much as any other; in between, by how
        precisely its rows measure a shift of h, given how much places differ; or a weight for each by name. Weights
        are divided by their sum, ``environment_weights_``. Environments are those passed to ``fit``, or the anchors if
        they are one factor.
    anchor_weights : {{"rows", "equal", "shrunk"}} or dict
        The same for the penalty; the anchors must be one factor. The two choices are independent.
    place_variance : bool
        Whether the fit also measures how much places differ, ``place_sd_``. Otherwise it is measured at the first
        use, which a saved model cannot do.
    target : TargetShift, optional
        Mean and covariance of numeric anchors at the target. They replace xi, and the fitted model is that of the
        target.
    proxies : Proxies, optional
        Which anchor columns are two noisy measurements of the same anchors. For exact outcomes and the normal link.
"""
BERNSTEIN = """order : int
        Order of the Bernstein polynomials.
    support : pair, optional
        Interval on which the polynomials are defined. By default from the 10 % to the 90 % quantile of y.
    log_first : bool
        Whether the polynomials are in log y instead of y.
    extrapolate : {"linear", "natural"}
        How the baseline continues outside the support: as a straight line. "natural" also makes its curvature 0 at
        the ends of the support.
    """
ATTRIBUTES = """
    Attributes
    ----------
    coef_ : array of shape (p,)
        Coefficients beta, on the scale of h.
    coef_names_ : list of str
        Names of the coefficients.
    baseline_ : array
        Parameters theta of the baseline h(y) = a(y)'theta{baseline} The strata follow one another, then
        the varying effects.
    baselines_ : DataFrame
        The same parameters, with one row for each stratum and each varying effect.
    parameter_names_ : list of str
        Names of the parameters in ``baseline_``.
    {own}link_, basis_ : Link, Basis
        The reference distribution, and the basis with everything that was set from the data.
    xi_ : float
        The xi of the fit.
    random_cov_, random_sd_ : DataFrame, Series
        Covariance matrix and standard deviations of the random effects, on the scale of h.
    random_effects_ : DataFrame
        For each cluster: posterior means and standard deviations of its random effects, and its number of rows.
    n_clusters_ : int
        Number of clusters with random effects.
    loglik_ : float
        Log-likelihood, summed over rows, without penalties. With ``environment_weights`` the sum has the weights of
        the likelihood, so that ``loss_`` is -``loglik_`` / ``n_total_`` plus the penalties.
    loss_ : float
        The anchor loss, a mean over rows, including the elastic net. At xi = inf, the mean negative log-likelihood.
    l1_, l2_ : float
        Strengths of the elastic net in this fit.
    smooth_ : float
        Strength of the roughness penalty in this fit; 0 without smooth terms.
    edf_ : dict
        Effective degrees of freedom of each smooth term, from 1 (a straight line) to its number of columns. Empty
        without smooth terms.
    penalty_ : float
        Mean squared projection of the score residuals on the anchors, not multiplied by xi. With ``tail``, the mean of
        the squared mean residuals of the worst share. With ``anchor_weights`` the weighted mean over environments of
        their squared mean residuals. With ``target`` or ``proxies`` the form that replaces it, which may be negative;
        that of a target is multiplied by 1/2 in the loss.
    environment_multipliers_ : Series
        With ``tail``: the weight of each environment in the penalty; they sum to 1, and most are 0. The fit is that
        with a penalty in which environments have these weights.
    decisive_ : Decisive
        With ``tail``: the same with sizes and squared mean residuals of the environments.
    environment_weights_, anchor_weights_ : Series
        With ``environment_weights`` or ``anchor_weights``: share of each environment in the likelihood and in the
        penalty.
    environment_sd_ : float
        With weights that are "shrunk": the standard deviation of shifts between environments that they were made
        with, from the maximum-likelihood fit to all rows.
    target_shift_ : float
        With ``target``: how much further h lies at the target. ``baseline_`` is that of the target, and
        ``baseline_`` plus this is that of the training rows, whose ``loglik_`` and ``loss_`` are reported.
    converged_, n_iter_ : bool, int
        Whether the fit reached its tolerance, and the number of iterations.
    kkt_ : float
        Scaled residual of the optimality conditions (KKT), in standardised parameters.
    min_eigenvalue_ : float
        Smallest eigenvalue of the Hessian in the free directions, in standardised parameters; positive at a strict
        minimum.
    convexity_ : {{"global", "local", "none"}}
        Whether the loss is known to be convex everywhere ("global"), around the minimum ("local") or neither.
    folds_ : tuple of float
        Values of xi at which the branch connected to xi = 0 ended on the way to xi; usually empty.
    lower_minima_ : list of float
        Losses of lower minima that ``n_restarts`` found.
    active_ : array of bool
        Which parameters are held at zero: increments of the baseline, then coefficients under l1.
    recalibration_ : Recalibration
        After ``recalibrate``: what the rows of a new place changed.
    warnings_ : list of str
        Warnings of the fit.
    n_rows_, n_total_ : int, float
        Number of rows, and sum of their weights.
    row_kinds_ : dict
        Number of exact, left-, right- and interval-censored rows; classes and counts are intervals.
    n_missing_, missing_ : int, dict
        Number of rows that ``missing="drop"`` left out, and the number of rows with missing values by column.
    rows_used_ : array of int
        Positions of the rows of the fit among those that were passed: without rows that ``missing="drop"`` left out,
        and without rows of weight zero. Not after loading a saved model, nor for a table that is read in batches.
    n_anchors_ : int
        Number of linearly independent anchor columns, including the constant if ``anchor_intercept``; 0 without
        anchors.
    dropped_anchors_, dropped_classes_ : tuple
        Anchor columns that were dropped as constant or collinear, and classes without rows.
    float_codes_ : tuple of str
        Numeric anchors that look like codes of places.
    atom_ : float
        Probability that the baseline puts at time 0 for average covariates; 0 if the outcome is not a time.
    covariate_names_ : list of str
        All covariates, including those with varying effects; ``coef_names_`` has those with a single coefficient.
    covariate_ranges_ : array of shape (2, p)
        Smallest and largest value of each covariate.
    outcome_range_ : pair of float
        Smallest and largest outcome or censoring limit; for classes, their positions.
    outcome_name_ : str
        What the outcome is called, if it came as a column with a name.
    time_ : bool
        Whether the outcome was given by ``Surv``.
    n_features_in_, feature_names_in_ : int, array of str
        Number of columns of X, and their names if X has names.
    formula_ : Formula
        After a fit by a formula: the formula.
    n_passes_ : int
        After a fit by a formula to a table that is read in batches: how often it was read.
    scale_coef_, scale_names_ : array, list of str
        With ``scale``: coefficients g, where exp(z'g / 2) multiplies the baseline, and their names. Positive
        coefficients reduce the spread of y.
    place_sd_, place_sd_rowwise_ : float
        Standard deviation of shifts of h between places: by the joint likelihood of left-out places, and the one that
        predicts single rows of left-out places best.
    place_variance_ : PlaceVariance
        Both with standard errors, and the places that were not used.
    xi_scale_, penalty_scale_ : float
        With ``scale``: strength and value of the penalty on the residuals of the scale, as ``xi_`` and ``penalty_``.
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
        Support of the Bernstein polynomials, if the basis has them.
    classes_ : array
        The classes of an ordinal basis, in order.
    """,
    ),
}


def attributes(kind: str) -> str:
    """Return the section Attributes of the docstring of models with this kind of basis."""
    baseline, own = IN_Y[kind]
    return ATTRIBUTES.format(baseline=baseline, own=own)
