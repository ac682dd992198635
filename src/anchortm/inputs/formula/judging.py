"""New rows of a table under a formula, judged one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anchortm._typing import Table
from anchortm._util.frames import column_names, known, native, select
from anchortm.inputs.baselines.strata import stratum_labels
from anchortm.inputs.design import Design
from anchortm.inputs.formula.evaluation import Formula
from anchortm.inputs.judgement import Judgement

__all__ = ["judged_table"]


def judged_table(
    formula: Formula, data: Table, judgement: Judgement, strata: Sequence[Any], conditional: bool
) -> Design:
    """Return the covariates of the new rows that are good, with their strata, after judging all columns.

    ``strata`` are those of the fit. Only ``conditional`` predictions look at the clusters.
    """
    table, clusters, covariates = native(data), formula.clusters if conditional else [], formula.covariate_columns
    beside = list(dict.fromkeys([*formula.strata, *clusters]))
    names = column_names(table)
    known([*covariates, *beside], names)
    frame = select(table, [name for name in names if name in covariates or name in beside])
    if formula.strata:
        judgement.strata(frame[formula.strata], stratum_labels, strata)
    for name in clusters:
        judgement.refuse(frame[name].isna().to_numpy(), f"{name} is missing")
    made = formula._terms.judged(frame, judgement)
    return made._replace(labels=frame[beside].iloc[judgement.good] if beside else None)
