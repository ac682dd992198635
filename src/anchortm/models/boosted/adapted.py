"""Boosted models after fewer rounds, or refitted to a few rows from the target site."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anchortm._messages import warn
from anchortm._typing import Covariates, Numbers, Outcome
from anchortm._util.checks import check_weights, one_number, whole_number
from anchortm._util.frames import aligned, native
from anchortm.engine.preparation import row_offset
from anchortm.engine.remarks import with_remarks
from anchortm.exceptions import ConvergenceWarning, InputError, InputTypeError
from anchortm.families import Family
from anchortm.inputs.design import to_design
from anchortm.inputs.formula import Formula
from anchortm.models.boosted.answers import BoostedAnswers
from anchortm.models.boosted.booster import Stage
from anchortm.models.boosted.refit import FLATTEST, STRONGEST, Base, Rows, Target

__all__ = ["Adapted"]

Array = NDArray[np.float64]

BOOSTED_WAYS = ("shift", "baseline", "trees")


class Adapted(BoostedAnswers):
    """Methods that derive one boosted model from another: ``staged``, ``recalibrate`` and ``refit``."""

    def staged(self, n_rounds: int) -> Self:
        """Return the model after its first ``n_rounds`` rounds.

        Parameters
        ----------
        n_rounds : int
            Number of rounds, from 0 to ``n_rounds_``.

        Returns
        -------
        AnchorBoostedTM

        Examples
        --------
        >>> import anchortm as atm
        >>> data = atm.datasets.load_boston_housing2()
        >>> model = atm.AnchorBoostedTM(atm.ContinuousProbit(), n_rounds=40)
        >>> model = model.fit(data[["rm", "lstat"]], data.cmedv)
        >>> [round(model.staged(k).loss_, 2) for k in (0, 10, 40)]
        [3.51, 2.85, 2.62]
        """
        there = self._fitted().n_rounds
        if whole_number(n_rounds, "n_rounds", 0) > there:
            raise InputError(f"n_rounds = {n_rounds} is more than the {there} rounds of the fit")
        if self.boosted_.refit is not None or self.model_.result_.recalibration is not None:
            raise InputError("a refitted model has no earlier rounds: use the model before the refit")
        if n_rounds == there:
            return copy(self)
        stage = self.boosted_.stages[n_rounds]
        spec = self.model_.specification()
        told = with_remarks(spec, None, stage.put(spec, self.model_.result_), quiet=True)
        result = copy(self)
        result.model_ = self.model_.with_result(None, told)
        result.boosted_ = self.boosted_.first(n_rounds, stage.beta)
        return result

    def recalibrate(
        self,
        X: Covariates,
        y: Outcome | None = None,
        *,
        what: str = "auto",
        prior: str | float = "places",
        offset: Numbers | None = None,
        sample_weight: Numbers | None = None,
        strength: float | None = None,
        floor: float = FLATTEST,
    ) -> Self:
        """Return the fitted model recalibrated at a new place, by a few rows from there with known outcomes.

        Parameters
        ----------
        X, y, offset, sample_weight
            Rows from the new place.
        what : {"auto", "shift", "baseline", "trees"}
            What differs at the new place. "shift": the level of h. "baseline": the whole baseline, while f stays.
            "trees": also the values of the leaves, as ``refit`` does. "auto" is the shift, because trees would have to
            be grown again without each place to choose.
        prior : "places" or float
            Variance of the shift between places, on the scale of h. "places" takes ``place_sd_`` of the fit; if that is
            not known, a tenth of the variance of rows, with a warning. For "shift" only.
        strength : float, optional
            How many rows of the fit the previous fit counts for, if its baseline or its trees move. By default 20 for
            "baseline", and chosen by cross-validation for "trees".
        floor : float
            For "baseline": smallest slope of h as a share of its former slope. That of "trees" is 0.2.

        Returns
        -------
        AnchorBoostedTM
            ``recalibration_`` has what was found. Predictions are averages over the posterior distribution of the
            shift; after "trees" they take all parameters as known.

        See Also
        --------
        anchortm.NormalLinear.recalibrate : of models without trees, with more explanations
        anchortm.AnchorBoostedTM.refit : the same as ``what="trees"``

        Examples
        --------
        >>> import numpy as np, anchortm as atm
        >>> rng = np.random.default_rng(1)
        >>> x = rng.uniform(-2, 2, size=(500, 1))
        >>> y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=500)
        >>> model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=50).fit(x[:400], y[:400])
        >>> target = model.recalibrate(x[400:405], y[400:405] + 1.0, prior=4.0)  # a site where all is higher by 1
        >>> target.recalibration_
        Recalibration(shift 3.27 +- 0.44 from 5 rows, prior sd 2)
        >>> bool(target.nll(x[430:], y[430:] + 1.0).mean() < model.nll(x[430:], y[430:] + 1.0).mean())
        True
        """
        from anchortm.newplace.recalibration import Asked, moved_to_place

        self._fitted()
        asked = Asked.of(what, prior, 20.0 if strength is None else strength, floor, 1.0, BOOSTED_WAYS)
        if self.boosted_.refit is not None:
            raise InputError("this model is refitted already: recalibrate the model before, with all rows of the place")
        if X is None:
            raise InputError("X is None: pass the covariates of rows from the new place")
        if what == "trees":
            return self.refit(X, y, sample_weight=sample_weight, offset=offset, strength=strength)
        found = moved_to_place(self._asked(), X, y, asked, offset, sample_weight, trees=self)
        names = ("baseline", "typical", "atom", "recalibration", "warnings")
        own = replace(self.model_.result_, **{name: getattr(found, name) for name in names})
        result = copy(self)
        result.model_ = self.model_.with_result(None, own)
        return result

    def refit(
        self,
        X: Covariates,
        y: Outcome | None = None,
        *,
        sample_weight: Numbers | None = None,
        offset: Numbers | None = None,
        strength: float | None = None,
    ) -> Self:
        """Return the model with leaf values and baseline refitted to a few rows from the target site.

        Trees keep their splits. A ridge pulls all leaf values towards the fit: f(x) has a prior standard deviation of
        1 / sqrt(strength) at each x, on the scale of h. Baseline and linear part have a prior worth ``strength`` rows
        of the fit, and the slope of h stays above a fifth of its former value. There is no anchor penalty, because
        the target rows come from one place.

        Parameters
        ----------
        X, y, sample_weight, offset
            Rows from the target site. Without rows the model does not change. ``recalibrate`` has this and simpler ways
            to adapt to a site.
        strength : float, optional
            Number of rows that the previous fit counts for. Above 1e8 the model does not change, because the changes
            would be lost in rounding. By default cross-validation chooses among values from 1 (30 / n for fewer than
            30 rows) to 1000, and no change at all: the strongest whose negative log-likelihood over five folds of the
            rows is within one standard error of the best.

        Returns
        -------
        AnchorBoostedTM
            The refitted model; ``refit_`` holds the number of rows and the strength.

        Examples
        --------
        >>> import numpy as np, anchortm as atm
        >>> rng = np.random.default_rng(1)
        >>> x = rng.uniform(-2, 2, size=(500, 1))
        >>> y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=500)
        >>> model = atm.AnchorBoostedTM(atm.NormalLinear(), n_rounds=50).fit(x[:400], y[:400])
        >>> target = model.refit(x[400:430], y[400:430] + 1.0)  # a site where all is higher by 1
        >>> bool(target.nll(x[430:], y[430:] + 1.0).mean() < model.nll(x[430:], y[430:] + 1.0).mean())
        True
        """
        self._fitted()
        if self.model_.result_.recalibration is not None:
            raise InputError("this model is recalibrated already: refit the model before, with all rows of the place")
        if strength is not None and not one_number(strength, "strength") > 0.0:
            raise InputError(f"strength must be positive, not {strength!r}")
        if X is None:
            raise InputError("X is None: pass the covariates of rows from the target site")
        if isinstance(self.model_.result_.link, Family):
            raise InputTypeError("refit is implemented for models with a baseline in y: fit AnchorGLM models anew")
        rows = self._target_rows(X, y, sample_weight, offset)
        n = 0 if rows is None else len(rows.response)
        if rows is None or n == 0:
            return self._moved(None, 0, math.inf)
        target = Target(self.boosted_.shape, Base(self.model_.specification(), self.model_.result_), rows)
        if strength is None:
            strength = target.choose()
        if strength > STRONGEST:
            return self._moved(None, n, math.inf)
        stage, moves = target.solve(strength)
        result = self._moved((stage, moves), n, strength)
        told = list(result.model_.result_.warnings)
        if not stage.converged:
            told.append(
                f"the refit did not converge ({stage.reason}): scaled KKT residual {stage.kkt:.1e}; raise max_iter"
            )
            warn(told[-1], ConvergenceWarning)
        total = float(n) if rows.weights is None else float(rows.weights.sum())
        counts: dict[str, Any] = {"n_rows": n, "n_total": total, "row_kinds": rows.response.counts()}
        own = replace(result.model_.result_, **counts, missing={}, n_missing=0, warnings=told)
        result.model_ = result.model_.with_result(None, own)
        return result

    def _target_rows(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Rows | None:
        """Return the checked rows of a refit, without those of weight zero; None if there are no rows."""
        new, table = self.new_rows_, native(X)
        if (table.shape[0] if hasattr(table, "shape") else len(table)) == 0:
            return None
        sample_weight = Formula.new_column(X, sample_weight)
        aligned(X=X, y=y, sample_weight=sample_weight, offset=offset)
        design, mixture = new.take_apart(table, None)
        matrix = np.asarray(to_design(design).matrix)
        n = matrix.shape[0]
        response = self._response(X, y, n)
        weights, offset = check_weights(sample_weight, n), row_offset(new.offset(X, offset), n)
        rows = Rows(matrix, response, weights, offset, mixture)
        return rows if weights is None or weights.all() else rows.take(np.flatnonzero(weights))

    def _moved(self, found: tuple[Stage, Array] | None, rows: int, strength: float) -> Self:
        """Return the model with the refitted parameters, or unchanged if ``found`` is None."""
        result, refit = copy(self), {"rows": rows, "strength": strength}
        if found is None:
            result.boosted_ = replace(self.boosted_, refit=refit)
            return result
        stage, moves = found
        result.model_ = self.model_.with_result(None, stage.put(self.model_.specification(), self.model_.result_))
        result.boosted_ = replace(self.boosted_, shape=self.boosted_.shape.moved(moves, stage.beta), refit=refit)
        return result
