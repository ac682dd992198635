"""Choose xi: paths, left-out environments, searches."""

from anchortm.selection.elastic_net import ElasticNetPath
from anchortm.selection.invariance_rule import InvarianceRule
from anchortm.selection.left_out_result import LeaveOneEnvironmentOut
from anchortm.selection.path import AnchorPath

__all__ = ["AnchorPath", "ElasticNetPath", "InvarianceRule", "LeaveOneEnvironmentOut"]
