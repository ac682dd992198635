"""What a fitted model answers: predictions, residuals and likelihood of rows, standard errors, a summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from anchortm._messages import warn
from anchortm._util.checks import check_weights, finite_numbers, flag
from anchortm._util.frames import aligned, is_frame, native
from anchortm.bases import Basis, OrdinalBasis
from anchortm.engine.cluster_effects import RandomEffects
from anchortm.engine.objective.location_scale import scale_columns, scale_name, scale_residuals, scaled_baseline
from anchortm.engine.objective.random_effects import NODES, marginal_rows
from anchortm.engine.rows.likelihood import Term, build_terms, loglik_and_residuals
from anchortm.exceptions import AnchorTMWarning, InputError, InputTypeError, UnavailableError
from anchortm.inference.bands import ConfidenceBand, Of, confidence_band
from anchortm.inference.covariance import (
    Bootstrap,
    at_row,
    bootstrap,
    coefficient_intervals,
    covariance,
    resolve,
    smooth_effects,
    standard_errors,
    varying_effects,
)
from anchortm.inference.summary import Summary, summarise
from anchortm.inputs.baselines import Corners, Mixture, known_strata, stratum_codes, stratum_labels
from anchortm.inputs.clusters import Clusters, named_effects
from anchortm.inputs.design import Design, check_columns, split_columns, to_design, without_anchors
from anchortm.inputs.response import as_response
from anchortm.inputs.splines import Marks
from anchortm.links import Link, Normal
from anchortm.models.from_formula import FormulaMixin
from anchortm.predict.distribution import PredictedDistribution
from anchortm.predict.extrapolation import extrapolation
from anchortm.predict.marginal import AveragedDistribution

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FittedModel", "one_column", "row_offset"]

Array = NDArray[np.float64]


class FittedModel(FormulaMixin):
    """The answers of a fitted model; what they need is set by ``fit``."""

    _sign: ClassVar[float]
    _scale: ClassVar[Any]
    _inverse_of: ClassVar[str] = "inverse Hessian"  # what standard errors at xi = 0 come from
    _quasi: bool = False  # whether the dispersion is one that no likelihood of the family has
    link_: Any  # a Link, or a Family
    basis_: Basis
    baseline_: Array
    coef_: Array
    coef_names_: list[str]
    anchor_names: Any
    xi_: float
    loglik_: float
    n_total_: float
    n_features_in_: int
    time_: bool
    strata: Any
    random: Any
    _random: RandomEffects | None = None
    scale_coef_: Array
    scale_names_: list[str]
    l1_: float = 0.0  # of files that know no elastic net
    l2_: float = 0.0
    smooth_: float = 0.0  # nor smooth terms
    edf_: Mapping[str, float] = MappingProxyType({})
    _marks: Marks  # which coefficients are of smooth terms
    _had_offset: bool
    _corners: Corners | None
    _strata_columns: list[Any]
    _typical: Array
    _history: list[dict[str, Any]]

    @property
    def _kind(self) -> str:
        """Return what the summary calls the model."""
        return f"{self.link_.name} link, {self.basis_.kind} basis"

    @property
    def _link_to_refit(self) -> Any:
        """Return the link that a bootstrap starts from, without what it estimates anew."""
        return self.link_

    def _estimated_before(self, data: Any, objective: Any, v: Array, pull: Array) -> tuple[Array, Array, Array] | None:
        """Return what a sandwich needs of a parameter that was estimated before the others and held: nothing here.

        It is the influence of rows on it, and its derivatives of grad(-loglik) + E'pull and of t.
        """
        return None

    def _comparable(self, smaller: Any) -> bool:
        """Return whether the likelihood of ``smaller`` is of the same outcome, and one that this model's can be."""
        own, other = self.basis_, smaller.basis_
        logs = [getattr(basis, "log_first", basis.kind == "log-linear") for basis in (own, other)]
        line = own.kind == "bernstein" and other.kind in ("linear", "log-linear") and logs[0] == logs[1]
        levels = [getattr(basis, "levels", None) for basis in (own, other)]
        same = own.kind == other.kind and logs[0] == logs[1] and levels[0] == levels[1]
        return (same or line) and self.link_.name == smaller.link_.name and own.n_parameters >= other.n_parameters

    @property
    def _in_loss(self) -> float:
        """Return the log-likelihood that the loss has."""
        return self.loglik_

    def _own_facts(self) -> dict[str, str]:
        """Return facts for the summary that other models do not have, or have in other words."""
        if self._random is None:
            return {}
        sign = "+" if self._sign > 0 else "-"
        slope = float(self.baseline_[1]) if self.basis_.kind == "linear" else None
        return {"model": f"F(h(y) {sign} x'beta {sign} z'b), b normal"} | self._random.facts(self.link_, slope)

    @property
    def _extra(self) -> Array:
        """Return the parameters beside baseline and coefficients: the entries of L of random effects."""
        return np.zeros(0) if self._random is None else self._random.tau

    @property
    def _spread(self) -> dict[str, float]:
        """Return standard deviations of random effects, and their correlation, as columns of a table."""
        if self._random is None:
            return {}
        deviations = {f"sd_{name}": value for name, value in self._random.standard_deviations().items()}
        return deviations | ({"correlation": self._random.correlation} if len(deviations) == 2 else {})

    @property
    def _extra_names(self) -> list[str]:
        return [] if self._random is None else self._random.effects.parameter_names()

    def _effects(self) -> RandomEffects:
        check_is_fitted(self, "coef_")
        if self._random is None:
            raise UnavailableError("this model has no random effects: name clusters in random, or write (1 | cluster)")
        return self._random

    @property
    def random_cov_(self) -> pd.DataFrame:
        """Return the covariance matrix of the random effects, in the units of the covariates."""
        import pandas as pd

        names = list(self._effects().effects.names)
        return pd.DataFrame(self._effects().covariance, names, names)

    @property
    def random_sd_(self) -> pd.Series:
        """Return the standard deviations of the random effects."""
        import pandas as pd

        cov = self.random_cov_
        return pd.Series(np.sqrt(np.diag(cov)), cov.index)

    @property
    def random_effects_(self) -> pd.DataFrame:
        """Return means and standard deviations of the effects of each cluster after the data, and its rows."""
        return self._effects().table()

    @property
    def n_clusters_(self) -> int:
        """Return the number of clusters that share random effects."""
        return len(self._effects().labels)

    @property
    def history_(self) -> pd.DataFrame:
        """Return one row for each iteration: xi, loss, KKT residual, active bounds, model and step."""
        import pandas as pd

        check_is_fitted(self)
        return pd.DataFrame(self._history)

    @property
    def n_parameters_(self) -> int:
        """Return the number of parameters, baseline and coefficients (under an l1 penalty those that are not zero)."""
        check_is_fitted(self)
        increments = self.basis_.increments
        tied = increments.equalities.shape[0] + int((increments.lower == increments.upper).sum())
        blocks = 1 if self._corners is None else self._corners.n_blocks
        return int(
            self.baseline_.size - blocks * tied + (np.count_nonzero(self._others) if self.l1_ else self._others.size)
        )

    @property
    def parameter_names_(self) -> list[str]:
        """Return the names of the parameters in ``baseline_``."""
        check_is_fitted(self, "coef_")
        names = self.basis_.parameter_names
        return names if self._corners is None else self._corners.parameter_names(names)

    @property
    def baselines_(self) -> pd.DataFrame:
        """Return the parameters of the baseline, one row for each stratum and each effect that varies."""
        import pandas as pd

        check_is_fitted(self, "coef_")
        names = ["baseline"]
        if self._corners is not None:
            strata = self._corners.strata
            names = [*(names if strata is None else strata.labels), *self._corners.varying_names]
        return pd.DataFrame(self.baseline_.reshape(len(names), -1), names, self.basis_.parameter_names)

    def varying_effects(
        self, at: Any, level: float = 0.95, kind: str | None = None, clusters: Any = None, **options: Any
    ) -> pd.DataFrame:
        """Return the effects that vary along the response at outcomes ``at``, with pointwise intervals.

        An effect at y is what a unit of the covariate adds there to x'beta: on the scale of h, as ``coef_``.

        Parameters
        ----------
        at : number or vector
            Outcomes, or classes but the last.
        level : float
            Confidence.
        kind, clusters, **options
            As for ``covariance``.

        See Also
        --------
        anchortm.proportionality_test : does an effect vary at all?

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, order=2, varying="treat")
        >>> model.varying_effects([100.0, 300.0]).round(2)
                 covariate      y  effect  std. error  lower  upper
        0  treat[T.rIFN-g]  100.0   -1.46        0.63  -2.70  -0.23
        1  treat[T.rIFN-g]  300.0   -1.07        0.33  -1.72  -0.42
        """
        check_is_fitted(self, "coef_")
        if self._corners is None or not self._corners.varying:
            raise InputError("no effect of this model varies along the response: see coef_, or name some in varying")
        return varying_effects(self, at, level, kind, clusters, **options)

    def smooth_effects(
        self,
        term: str | None = None,
        at: Any = None,
        level: float = 0.95,
        kind: str | None = None,
        clusters: Any = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Return the curves of smooth terms, ``s(x)`` of a formula, with pointwise intervals.

        An effect is what the term adds to x'beta, on the scale of h as ``coef_``; its mean over the rows of the fit
        is zero. Intervals are for the curve that this much smoothing aims at, not for one without.

        Parameters
        ----------
        term : str, optional
            Such as ``"s(age)"``; by default all smooth terms.
        at : number or vector, optional
            Values of what stands inside s(...); by default 101 over its range in the fit. Beyond it curves are lines.
        level : float
            Confidence.
        kind, clusters, **options
            As for ``covariance``.

        Returns
        -------
        DataFrame
            One row for each term and x: effect, std. error, lower and upper.

        See Also
        --------
        anchortm.plotting.smooth_effects : draws them

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.NormalLinear.from_formula("cmedv ~ s(lstat) + rm | town", data, xi=1.0)
        >>> model.smooth_effects(at=[5.0, 15.0, 25.0]).round(2)
               term     x  effect  std. error  lower  upper
        0  s(lstat)   5.0    0.97        0.14   0.70   1.25
        1  s(lstat)  15.0   -0.34        0.08  -0.49  -0.19
        2  s(lstat)  25.0   -1.32        0.17  -1.66  -0.99
        """
        check_is_fitted(self, "coef_")
        return smooth_effects(self, term, at, level, kind, clusters, **options)

    @property
    def _others(self) -> Array:
        """Return all parameters but the baseline's: coefficients, then those of the scale or of random effects."""
        if self._random is not None:
            return np.concatenate([self.coef_, self._extra])
        return np.concatenate([self.coef_, self.scale_coef_]) if hasattr(self, "scale_coef_") else self.coef_

    @property
    def _other_names(self) -> list[str]:
        return [
            *self.coef_names_,
            *(scale_name(name) for name in getattr(self, "scale_names_", ())),
            *self._extra_names,
        ]

    @property
    def _unpenalised(self) -> bool:
        """Return whether the fit is one of maximum likelihood."""
        return self.xi_ == 0.0 and getattr(self, "xi_scale_", 0.0) == 0.0 and not self.l1_ and not self._ridged

    @property
    def _ridged(self) -> bool:
        """Return whether squares of coefficients are penalised."""
        return self.l2_ != 0.0 or self.smooth_ != 0.0

    def _check_criterion(self) -> None:
        check_is_fitted(self, "coef_")
        if not self._unpenalised:
            raise UnavailableError(
                "AIC and BIC are of maximum-likelihood fits, no l1 or l2 or smooth and xi = 0: compare penalised ones "
                "by left-out places"
            )

    @property
    def _largest_loglik(self) -> float:
        """Return the log-likelihood at its maximum over all parameters."""
        return self.loglik_

    def _gain(self, smaller: Any) -> float:
        """Return the statistic of the likelihood-ratio test of a smaller model."""
        return 2.0 * (self.loglik_ - float(smaller.loglik_))

    @property
    def aic_(self) -> float:
        """Return Akaike's criterion, -2 loglik + 2 parameters, of a maximum-likelihood fit."""
        self._check_criterion()
        return -2.0 * self._largest_loglik + 2.0 * self.n_parameters_

    @property
    def bic_(self) -> float:
        """Return Schwarz's criterion, -2 loglik + log(n) parameters, of a maximum-likelihood fit."""
        self._check_criterion()
        return -2.0 * self._largest_loglik + math.log(self.n_total_) * self.n_parameters_

    def covariance(self, kind: str | None = None, clusters: Any = None, **options: Any) -> Array:
        """Return the covariance matrix of (baseline, coef).

        Parameters
        ----------
        kind : {"hessian", "sandwich", "bootstrap"}, optional
            The inverse of the observed information, for xi = 0 only and as R's tram gives it (that
            increments of the baseline may be held at their bound is not taken into account); the
            sandwich with the full influence of the penalty, for any xi, right even if the model is
            not (increments at their bound count as known); or the bootstrap. By default the Hessian
            at xi = 0 and the sandwich otherwise.
        clusters : array, optional
            Rows of a cluster may depend on each other; clusters do not. By default rows are independent
            for the sandwich (with weights as copies of rows: for sampling weights give each row a cluster of its
            own), and the bootstrap resamples the levels of the largest anchor factor.
        **options
            For the bootstrap: ``n_bootstrap``, ``random_state``, ``n_jobs``, ``progress``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_geyser()
        >>> model = atm.ContinuousProbit().fit(data[["duration"]], data.waiting)
        >>> model.covariance().shape, model.covariance("sandwich").shape  # 7 parameters of the baseline, 1 coefficient
        ((8, 8), (8, 8))
        """
        check_is_fitted(self, "coef_")
        return covariance(self, kind, clusters, **options)

    def standard_errors(self, kind: str | None = None, clusters: Any = None, **options: Any) -> Array:
        """Return the standard errors of ``coef_``; arguments as for ``covariance``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.standard_errors().round(3)
        array([0.357, 0.017])
        >>> model.standard_errors(clusters=data.center).round(3)
        array([0.212, 0.016])
        """
        check_is_fitted(self, "coef_")
        return standard_errors(self, kind, clusters, **options)

    def intervals(
        self, level: float = 0.95, kind: str | None = None, clusters: Any = None, **options: Any
    ) -> pd.DataFrame:
        """Return ``coef_`` with standard errors and normal confidence intervals; arguments as for ``covariance``.

        For xi > 0 they are intervals for what the same penalty would give with all rows of the
        population, not for the coefficients of maximum likelihood.

        See Also
        --------
        anchortm.marginal_effects : effects on the scale of the outcome

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.intervals(level=0.9).round(3)
                          coef  std. error  lower  upper
        covariate
        treat[T.rIFN-g] -1.074       0.357 -1.660 -0.487
        age             -0.029       0.017 -0.057 -0.001
        """
        check_is_fitted(self, "coef_")
        return coefficient_intervals(self, level, kind, clusters, **options)

    def bootstrap(
        self,
        n_bootstrap: int = 200,
        clusters: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> Bootstrap:
        """Return fits to resampled data: the levels of the largest anchor factor, clusters, or else rows.

        The basis stays that of the fit. Resampled data sets that do not determine the model are left
        out with a warning; more than a tenth of them is an error.

        See Also
        --------
        anchortm.inference.Bootstrap : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> formula = "Surv(tstop, status) ~ treat + age | center"
        >>> model = atm.ProportionalHazards.from_formula(formula, data, xi=1.0, order=3)
        >>> model.bootstrap(20, random_state=0, progress=False).resampled
        'environments (center)'
        """
        check_is_fitted(self, "coef_")
        return bootstrap(self, n_bootstrap, clusters, random_state, n_jobs, progress)

    def _named(self, what: str) -> list[Any]:
        """Return the columns of X that an argument of the constructor names."""
        names = getattr(self, what)
        if names is None:
            return []
        if isinstance(names, (str, int, np.integer)):
            return [names]
        if not isinstance(names, Iterable):
            raise InputTypeError(f"{what} must be names or positions of columns of X, not {names!r}")
        return list(names)

    @property
    def _cluster(self) -> list[Any]:
        """Return the column of X with the clusters of random effects, if there is one."""
        named = named_effects(self.random)
        return [] if named is None else [named[0]]

    def _split_off(self, X: Any) -> tuple[Any, Any, Sequence[Any] | None, Sequence[Any] | None]:
        """Return the covariates of X, its anchors if they are named, and the stratum and the cluster of each row."""
        anchors, strata, cluster = self._named("anchor_names"), self._named("strata"), self._cluster
        if not anchors and not strata and not cluster:
            return X, None, None, None
        both = ", ".join(sorted({str(name) for name in anchors} & {str(name) for name in strata}))
        if len(set(strata)) < len(strata):
            raise InputError(f"strata names a column twice: {', '.join(map(str, strata))}")
        if both:
            raise InputError(f"{both}: strata and anchors at once; a baseline of its own takes up what an anchor shows")
        named = split_columns(X, anchors)[1] if anchors else None
        labels = stratum_labels(split_columns(X, strata, "strata")[1]) if strata else None
        clusters = stratum_labels(split_columns(X, cluster, "random")[1], "clusters") if cluster else None
        return split_columns(X, [*anchors, *strata, *cluster])[0], named, labels, clusters

    @property
    def covariate_names_(self) -> list[str]:
        """Names of all covariates in the order of X, including those whose effects vary along the outcome."""
        return self.coef_names_ if self._corners is None else list(self._corners.covariates)

    def _split_new(self, X: Any) -> tuple[Any, Sequence[Any] | None]:
        """Return the covariates of new rows, which need no anchors and no clusters, and their strata."""
        X, anchors, strata = self._covariates(X), self._named("anchor_names"), self._strata_columns
        if self._cluster and X is not None:
            return without_anchors(X, [*anchors, *self._cluster], self.n_features_in_), None
        if anchors and X is not None:
            X = without_anchors(X, anchors, self.n_features_in_)
        if not strata:
            return X, None
        if all(isinstance(name, (int, np.integer)) for name in strata):  # positions among all columns of the fit
            strata = [name - sum(anchor < name for anchor in anchors) for name in strata]
        X, taken = split_columns(X, strata, "strata")
        return X, stratum_labels(taken)

    def _clusters_of(self, X: Any) -> Sequence[Any] | None:
        """Return the cluster of each new row, None if X does not tell."""
        X, (column,) = native(self._covariates(X)), self._cluster
        if is_frame(X):
            return stratum_labels(X[[column]], "clusters") if column in list(X.columns) else None
        if X is None or isinstance(X, Design) or np.ndim(X) != 2 or np.shape(X)[1] != self.n_features_in_:
            return None
        return stratum_labels(np.asarray(X)[:, [column]], "clusters")

    def _new_clusters(self, X: Any) -> Clusters:
        """Return the clusters of new rows, which must be told."""
        effects, labels = self._effects().effects, self._clusters_of(X)
        if labels is None:
            raise InputError(
                f"X has no column {effects.cluster} of clusters: rows of one belong together, so they are needed here"
            )
        known = known_strata(labels)
        place = {label: k for k, label in enumerate(known)}
        Z = effects.columns(self.coef_names_, to_design(self._design(X, None)).matrix)
        return Clusters(np.array([place[label] for label in labels], dtype=np.intp), tuple(known), Z, effects)

    def _marginal(
        self, link: Link, terms: Sequence[Term], theta: Array, shift: Array, clusters: Clusters, tau: Array
    ) -> tuple[Array, Array]:
        """Return the shares of rows in the marginal log-likelihood, and their marginal residuals."""
        n_nodes = clusters.n_nodes or max(NODES[clusters.effects.size][1:3])
        signed = clusters._replace(Z=self._sign * clusters.Z)
        return marginal_rows(link, terms, theta, shift, signed, tau, n_nodes)

    def _take_apart(self, X: Any, n_rows: int | None) -> tuple[Design, Mixture | None]:
        """Return the covariates of new rows, checked against those of the fit, and their shares in baselines."""
        X, labels = self._split_new(X)
        design = to_design(X, n_rows, wide=True)
        check_columns(design, self.covariate_names_, hasattr(self, "feature_names_in_"), type(self).__name__)
        if self._corners is None:
            return design, None
        known = self._corners.strata
        codes = None if known is None or labels is None else stratum_codes(labels, known.labels)
        places = [self.covariate_names_.index(name) for name in self._corners.varying_names]
        weights = self._corners.weights(codes, to_design(design).matrix[:, places])
        return design.without(places), Mixture(self._corners, weights)

    def _design(self, X: Any, n_rows: int | None) -> Design:
        """Return the covariates of new rows that shift h."""
        return self._take_apart(X, n_rows)[0]

    def _parts(self, X: Any, n_rows: int | None, offset: Any) -> tuple[Array, Array]:
        """Return what h of each row is made of: the baseline, one or one a row, and what x'beta + offset add to it."""
        check_is_fitted(self, "coef_")
        aligned(X=X, offset=offset)
        offset = self._new_offset(X, offset)
        if X is None and n_rows is None and offset is not None:
            n_rows = np.size(offset)
        design, mixture = self._take_apart(X, n_rows)
        shift: Array = design.matrix @ self.coef_
        extra = row_offset(offset, shift.size)
        theta = self.baseline_ if mixture is None else mixture.thetas(self.baseline_)
        if hasattr(self, "scale_coef_"):
            columns = scale_columns(self.scale_names_, self.coef_names_)
            theta = scaled_baseline(theta, to_design(design).matrix[:, columns], self.scale_coef_)
        return theta, self._sign * (shift if extra is None else shift + extra)

    def _shift(self, X: Any, n_rows: int | None, offset: Any) -> Array:
        return self._parts(X, n_rows, offset)[1]

    def _new_offset(self, X: Any, offset: Any) -> Any:
        """Return the offset of new rows: as given, from the column that the fit named, or none with a warning."""
        formula = getattr(self, "formula_", None)
        if formula is not None and X is not None:
            offset = formula.new_column(X, formula.offset if offset is None else offset)
        if offset is None and self._had_offset:
            warn(
                "the fit had an offset and these rows have none: pass offset= (0 says that none is meant)",
                AnchorTMWarning,
            )
        return offset

    def _rows(self, X: Any, y: Any, offset: Any, which: str = "shift") -> tuple[Array, Array]:
        """Return log-likelihood and residual of each row."""
        check_is_fitted(self, "coef_")
        aligned(X=X, y=y, offset=offset)
        levels = self.basis_.levels if isinstance(self.basis_, OrdinalBasis) else None
        if y is None and hasattr(self, "formula_"):
            y = self.formula_.outcome(X)
        response = as_response(one_column(y), self._scale, levels)
        theta, shift = self._parts(X, len(response), offset)
        if shift.size != len(response):
            raise InputError(f"X has {shift.size} rows, but y has {len(response)}: pass the same rows of both")
        terms = build_terms(self.basis_, response)
        if self._random is not None:
            clusters = self._new_clusters(X)._replace(n_nodes=self._random.n_nodes)
            return self._marginal(self.link_, terms, theta, shift, clusters, self._random.tau)
        loglik, r = loglik_and_residuals(self.link_, terms, theta, shift)
        return loglik, r if which == "shift" else scale_residuals(self.link_, terms, theta, shift)

    def nll(self, X: Any, y: Any = None, *, offset: Any = None) -> Array:
        """Return the negative log-likelihood of each row; after ``from_formula`` X may hold the outcome too.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.nll(data[:3]).round(2)
        array([7.19, 7.45, 0.38])
        """
        return -self._rows(X, y, offset)[0]

    def residuals(self, X: Any, y: Any = None, *, offset: Any = None, which: str = "shift") -> Array:
        """Return the score residual of each row: the derivative of its log-likelihood in alpha at F(h - alpha).

        With ``which="scale"`` that of the scale, -dl/dzeta at h = e^zeta a(y)'theta + ..., of a model with scale
        effects or without: above 0 where a row would be likelier with a larger spread.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.residuals(data[:3]).round(2)
        array([-0.86, -0.96,  0.38])
        """
        if which not in ("shift", "scale"):
            raise InputError(f"which must be 'shift' or 'scale', not {which!r}")
        return self._rows(X, y, offset, which)[1]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the mean log-likelihood of the rows.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> round(model.score(data), 3)
        -2.585
        """
        aligned(X=X, y=y, sample_weight=sample_weight)
        loglik = self._rows(X, y, offset)[0]
        weights = check_weights(sample_weight, loglik.size)
        return float(np.average(loglik, weights=weights))

    def predict(self, X: Any = None, *, offset: Any = None, n_rows: int | None = None) -> Any:
        """Return the conditional median (infinite where a flat end never reaches it).

        An unconditional model takes ``X=None`` and ``n_rows``.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict(data[:2]).round(0)
        array([420., 303.])
        """
        return self.predict_distribution(X, offset=offset, n_rows=n_rows).median()

    def predict_distribution(
        self, X: Any = None, *, offset: Any = None, n_rows: int | None = None, conditional: bool = False
    ) -> PredictedDistribution:
        """Return the predicted distribution of each row.

        An unconditional model takes ``X=None`` and ``n_rows`` (by default one row). A model that was fitted with an
        offset needs one here: after ``from_formula`` the column of that name is taken.

        With random effects the distribution is that of rows of new clusters, averaged over the effects that clusters
        may have. If ``conditional``, rows of clusters that the fit knew are averaged over what is known of theirs.

        See Also
        --------
        anchortm.predict.PredictedDistribution : what is returned
        anchortm.predict.AveragedDistribution : with random effects

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.predict_distribution(data[:2]).cdf([100.0, 300.0]).round(2)
        array([[0.05, 0.21],
               [0.14, 0.49]])
        """
        n_rows = 1 if X is None and n_rows is None and offset is None else n_rows
        theta, moved = self._parts(X, n_rows, offset)
        shift = self._sign * moved
        if conditional and flag(conditional, "conditional"):
            return self._averaged(theta, shift, *self._effects().conditional(*self._conditions(X)))
        if self._random is None:
            return PredictedDistribution(self.link_, self.basis_, theta, shift, self.time_, gain=self._sign)
        Z = self._random.effects.columns(self.coef_names_, to_design(self._design(X, n_rows or shift.size)).matrix)
        if isinstance(self.link_, Normal):  # the sum of two normal variables is one
            size = np.sqrt(1.0 + self._random.deviations(Z) ** 2)
            theta = theta / size[0] if np.unique(size).size == 1 else theta / size[:, None]
            return PredictedDistribution(self.link_, self.basis_, theta, shift, self.time_, gain=self._sign / size)
        return self._averaged(theta, shift, *self._random.marginal(Z))

    def _conditions(self, X: Any) -> tuple[Array, list[Any]]:
        clusters = self._new_clusters(X)
        return clusters.Z, [clusters.labels[code] for code in clusters.codes]

    def _averaged(self, theta: Array, shift: Array, added: Array, weights: Array) -> AveragedDistribution:
        return AveragedDistribution(
            self.link_, self.basis_, theta, shift, self.time_, None, self._sign, added, np.asarray(weights)
        )

    def _distribution(self, shift: Array) -> PredictedDistribution:
        """Return the distributions of the average baseline with these shifts of h."""
        return PredictedDistribution(self.link_, self.basis_, self._typical, shift, self.time_)

    def extrapolation(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Return where predictions for X leave what the fit has seen.

        Parameters
        ----------
        X : array or frame
            New rows.
        y : number, or array of n rows, optional
            Outcomes that are asked about, such as predicted quantiles of shape (n, k).

        Returns
        -------
        DataFrame
            For each row ``covariates``, the names of those outside their range in the fit (after ``from_formula`` of
            the columns as given), and ``furthest``, how far the worst of them is outside, in widths of its range.
            With y also ``outcome``: "beyond the support", where the baseline goes on as a line, or "beyond the data",
            below the smallest or above the largest outcome or limit of censoring.

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data)
        >>> older = data[:2].assign(age=[30, 88])
        >>> model.extrapolation(older, model.predict_distribution(older).ppf([0.1, 0.9])).covariates.tolist()
        ['', 'age']
        """
        check_is_fitted(self, "coef_")
        return extrapolation(self, X, y)

    def confidence_band(
        self,
        X: Any,
        at: Any,
        of: Of = "cdf",
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        uncertainty: Any = None,
        offset: Any = None,
    ) -> ConfidenceBand:
        """Return confidence bands of predicted probabilities or quantiles for each row of X.

        Parameters
        ----------
        X : array or frame, or None for an unconditional model
        at : number or vector
            Outcomes at which the cdf or sf is wanted, or probabilities of the quantiles.
        of : {"cdf", "sf", "ppf"}
            P(Y <= y), P(Y > y) or quantiles.
        level : float
            Confidence.
        simultaneous : bool
            Whether a row's band is to hold at all its points at once, or at each.
        uncertainty : {"hessian", "sandwich", "bootstrap"}, matrix or Bootstrap, optional
            A covariance of (baseline, coef) for the delta method, by name or as given by ``covariance``, or a
            bootstrap, whose percentiles are taken. By default the sandwich, and at xi = 0 the inverse of
            the information with increments at their bound taken as known.

        See Also
        --------
        anchortm.inference.ConfidenceBand : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_cgd()
        >>> model = atm.ProportionalHazards.from_formula("Surv(tstop, status) ~ treat + age | center", data, order=3)
        >>> model.confidence_band(data[:1], [100.0, 300.0], of="sf").frame().round(2)
           row      y  estimate  lower  upper
        0    0  100.0      0.95   0.90   0.97
        1    0  300.0      0.79   0.67   0.87
        """
        check_is_fitted(self, "coef_")
        if self._random is not None:
            raise InputTypeError(
                "models with random effects have no confidence bands: an average over clusters has no one h; fit to "
                "resampled clusters and compare predict_distribution"
            )
        n_rows = 1 if X is None and offset is None else None
        offset = self._new_offset(X, offset)
        design, mixture = self._take_apart(X, n_rows if offset is None else np.size(offset))
        matrix = to_design(design).matrix
        distribution = self.predict_distribution(X, offset=offset, n_rows=n_rows)
        uncertainty = resolve(self, uncertainty)
        fixed = self._sign * (distribution.shift - matrix @ self.coef_)
        if not hasattr(self, "scale_coef_"):
            shares = None if mixture is None else mixture.corners.shares(mixture.weights)
            return confidence_band(
                distribution, matrix, self._sign, fixed, at, of, level, simultaneous, uncertainty, shares
            )
        columns, bands = scale_columns(self.scale_names_, self.coef_names_), []
        for i, theta in enumerate(distribution.theta):  # each row is a model without scale effects, with its own theta
            own, row = replace(distribution[[i]], theta=theta), slice(i, i + 1)
            known = at_row(uncertainty, self.baseline_, matrix[i, columns], self.scale_coef_)
            bands.append(confidence_band(own, matrix[row], self._sign, fixed[row], at, of, level, simultaneous, known))
        estimate, lower, upper = (
            np.vstack(part) for part in zip(*((b.estimate, b.lower, b.upper) for b in bands), strict=True)
        )
        return replace(bands[0], estimate=estimate, lower=lower, upper=upper)

    def _repr_html_(self) -> str:
        """Return the summary of a fitted model, for notebooks, and scikit-learn's picture of any other."""
        return summarise(self)._repr_html_() if hasattr(self, "coef_") else str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def summary(self, level: float = 0.95, kind: str | None = None, clusters: Any = None, **options: Any) -> Summary:
        """Return a table of the fit that prints, with standard errors and intervals as ``intervals`` gives them.

        See Also
        --------
        anchortm.inference.Summary : what is returned

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_wine()
        >>> model = atm.OrdinalRegression.from_formula("rating ~ temp + contact | judge", data, xi=1.0)
        >>> print(model.summary())
        OrdinalRegression: logit link, ordinal basis
          model           F(h(y) - x'beta)
          rows            72 (5 classes)
          xi              1, 9 anchor directions
          log-likelihood  -86.6989
          anchor loss     1.302284 = 1.204151 (mean negative log-likelihood) + 1 x 0.0981 (penalty)
          converged       yes, ...
          minimum         on the branch connected to xi = 0; the loss need not be convex
          std. errors     sandwich, for the coefficients that this xi aims at; rows independent
        <BLANKLINE>
        Coefficients
          covariate         coef  std. error  lower 95 %  upper 95 %  odds ratio   95 % of ratio
          temp[T.warm]    2.2815     0.56656       1.171      3.3919       9.791  3.225 to 29.72
          contact[T.yes]  1.4357     0.58122     0.29649      2.5748      4.2024  1.345 to 13.13
        <BLANKLINE>
        Baseline  1|2 -1.281, 2|3 1.16, 3|4 3.208, 4|5 4.622
        """
        check_is_fitted(self, "coef_")
        return summarise(self, level, kind, clusters, **options)


def one_column(y: Any) -> Any:
    """Return a single column as a vector, with scikit-learn's warning."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        warn("A column-vector y was passed when a 1d array was expected", DataConversionWarning)
        return y.ravel()
    return y


def row_offset(offset: Any, n: int) -> Array | None:
    """Return an offset of n rows, checked."""
    return None if offset is None else finite_numbers(offset, n, "offset")
