"""What users give, checked once."""

from anchortm.inputs.formula import Formula
from anchortm.inputs.response import Interval, Kind, Response, Surv, Trials, as_response

__all__ = ["Formula", "Interval", "Kind", "Response", "Surv", "Trials", "as_response"]
