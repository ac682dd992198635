"""How precisely parameters are estimated, and tests of them."""

from anchortm.inference.bands import ConfidenceBand
from anchortm.inference.covariance import Bootstrap
from anchortm.inference.summary import LikelihoodRatio, Summary

__all__ = ["Bootstrap", "ConfidenceBand", "LikelihoodRatio", "Summary"]
