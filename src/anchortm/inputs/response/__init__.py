"""Response: every kind of outcome as rows (lower, upper], checked once, here.

A row says that the outcome lies in the interval (lower, upper]. Equal ends mean that it was observed exactly; an
infinite end means that there is no bound on that side. A row may also be truncated: it is in the data only because its
outcome lies in (entry, exit].
"""

from anchortm.inputs.response.classes import Classes, classes_of, plain_words, sorted_words
from anchortm.inputs.response.conversion import as_response
from anchortm.inputs.response.counts import Trials
from anchortm.inputs.response.rows import Kind, Response, Scale
from anchortm.inputs.response.times import Interval, Surv

__all__ = [
    "Classes",
    "Interval",
    "Kind",
    "Response",
    "Scale",
    "Surv",
    "Trials",
    "as_response",
    "classes_of",
    "plain_words",
    "sorted_words",
]
