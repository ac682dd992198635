"""Choosing xi: paths, left-out environments, searches."""

from anchortm.selection.elastic_net import ElasticNetPath
from anchortm.selection.left_out import LeaveOneEnvironmentOut
from anchortm.selection.path import AnchorPath
from anchortm.selection.searches import InvarianceRule

__all__ = ["AnchorPath", "ElasticNetPath", "InvarianceRule", "LeaveOneEnvironmentOut"]
