"""The thresholds of the survey's conclusions, all in one place: change one, and write the page again.

They were stated before any result was computed, together with the rules in docs/evidence/survey_rules.md.
"""

from __future__ import annotations

__all__ = ["CLEAR", "COVERED", "GAIN", "INTERVAL", "MOSTLY", "PREDICTS"]

GAIN = 0.01  # in log-likelihood per row: smaller differences from maximum likelihood count as none
CLEAR = 0.05  # simultaneous p-value below which a difference at left-out places is more than chance
MOSTLY = 0.5  # share of a gain that the width of predictions explains, above which it is a matter of width
COVERED = 0.02  # by which the coverage of 90 % sets may be below its promise, on average over data sets
INTERVAL = 0.95  # of means and rank correlations over data sets, by bootstrap
PREDICTS = 0.0  # a diagnostic predicts gains if the interval of its rank correlation does not reach this value
