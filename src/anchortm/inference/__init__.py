"""Standard errors, confidence bands and tests."""

from anchortm.inference.bands import ConfidenceBand
from anchortm.inference.bootstrap import BoostedBootstrap, Bootstrap
from anchortm.inference.likelihood_ratio import LikelihoodRatio
from anchortm.inference.restricted_means import RestrictedMeans
from anchortm.inference.summary import Summary

__all__ = ["BoostedBootstrap", "Bootstrap", "ConfidenceBand", "LikelihoodRatio", "RestrictedMeans", "Summary"]
